"""The plan: every measurement a release will take, its noise and its exact cost, known before a record is read.

A plan is public from the first word to the last. Its hash goes into the ledger, the manifest and every noise stream: a
changed question can never meet the same noise.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from confide import noise, privacy
from confide.answers import AnswerPart, ShownTable
from confide.errors import Place, ReleaseError, RunError, SpecError
from confide.exact import exact
from confide.privacy import price

if TYPE_CHECKING:
    from confide.releases.figure_noise import FigureNoise
    from confide.releases.tabular import Codebook
from confide.privacy.invariants import WhatIsLeft, what_is_left

FORMAT = "confide/plan/v1"
PUBLIC_INPUTS = "public_inputs"
"""What a question calls published figures that the release is made with: :mod:`confide.releases.verify`."""
_UNIT_OF: Mapping[Any, privacy.PrivacyUnit] = {
    "person": privacy.PrivacyUnit.PERSON,
    "household": privacy.PrivacyUnit.HOUSEHOLD,
    "housing unit": privacy.PrivacyUnit.HOUSEHOLD,
}
"""What records are that a question says a word of."""


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """One query measured in every unit of one geolevel: ``units * cells`` counts, each with noise of its own."""

    level: str
    query: str
    units: int
    cells: int
    law: noise.ReleaseNoise
    loss: privacy.PrivacyLoss
    attributes: tuple[str, ...] = ()
    """The attributes of a record that the query looks at, apart from where it is."""
    sensitivity: privacy.StatedSensitivity | None = None
    """How far the query moves, where what is protected may change a count by more than one."""

    @property
    def event(self) -> privacy.Noisy:
        """The measurement as the accountant sees it: each record counts in at most one cell, or moves what is
        stated."""
        return privacy.event_of_noise(self.law, f"{self.level} {self.query}", self.sensitivity)

    @property
    def unbounded(self) -> noise.NoiseDistribution:
        """The law, for mechanisms that know no bounded noise."""
        if isinstance(self.law, noise.TruncatedDistribution):
            raise TypeError(f"{self.level} {self.query} has bounded noise")
        return self.law

    def as_dict(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "query": self.query,
            "units": self.units,
            "cells": self.cells,
            "law": self.law.as_dict(),
            "loss": self.loss.as_dict(),
            "attributes": list(self.attributes),
        } | ({} if self.sensitivity is None else {"sensitivity": self.sensitivity.as_dict()})


@dataclass(frozen=True, slots=True)
class Family:
    """Measurements of groups that overlap: a record is in at most ``degree`` of the groups.

    ``members`` are the kinds of groups: the numbers of the measurements that a group of that kind takes part in, one
    after the other. ``copies`` says how many groups there are of each kind. Proof: ``docs/proofs/accounting.md``,
    section 3 (Lemma 5).
    """

    degree: int
    members: tuple[tuple[int, ...], ...]
    copies: tuple[int, ...]

    @property
    def measures(self) -> frozenset[int]:
        """The numbers of all its measurements."""
        return frozenset(number for member in self.members for number in member)

    def as_dict(self) -> dict[str, Any]:
        return {
            "degree": self.degree,
            "members": [list(member) for member in self.members],
            "copies": list(self.copies),
        }


@dataclass(frozen=True)
class Plan:
    """The measurements of a release under one definition and one neighbour relation.

    ``spine`` names the levels that nest, the root first; a measured level that is not among them is an off-spine one.
    ``question`` holds what else decides the output: settings, the schema, the fingerprint of the frame.
    """

    mechanism: str
    neighbours: privacy.Neighbours
    definition: privacy.Definition
    measures: tuple[PlannedMeasurement, ...]
    spine: tuple[str, ...]
    question: Mapping[str, Any]
    paths: tuple[tuple[int, ...], ...] = ()
    """Where not every record takes part in every measurement: for each kind of place, the numbers of those it does."""
    families: tuple[Family, ...] = ()
    """Measurements whose units overlap. In a measurement in no family, a record is in one unit."""
    has_loss: bool = True
    """Whether the plan has a loss. Bounded noise that belongs to the records has none, which is not a loss of zero."""
    delta: Fraction | None = None
    """In approximate differential privacy: the largest delta, at which epsilon is found."""
    unit: privacy.PrivacyUnit = privacy.PrivacyUnit.RECORD
    """What comes, goes or is changed between neighbours, where it is named: a row of the records where it is not."""
    free: tuple[str, ...] = field(default=(), compare=False)
    """Parts of the question, as paths with dots, ``*`` for any number, that decide what is made of the measurements
    and nothing else: neither noise nor price is bound to them. A manifest does not say them."""

    def __post_init__(self) -> None:
        """Refuses a plan two of whose measurements would have one noise stream for the same records.

        A stream belongs to a level and a query. Where classes of units have laws of their own, a query is in the
        plan once for each; no record is in two of them, and a coordinate of the stream is a unit and a cell. So on
        each path names differ; and where a name is on several, the coordinates are counted alike.
        """
        named = [(measure.level, measure.query) for measure in self.measures]
        cells = dict(zip(named, (measure.cells for measure in self.measures), strict=True))
        shared = [name for name, measure in zip(named, self.measures, strict=True) if cells[name] != measure.cells]
        for path in self.paths or (range(len(named)),):
            on_path = Counter(named[number] for number in path if number < len(named))
            shared += [name for name, times in on_path.items() if times > 1]
        if shared:
            raise SpecError("shared-stream", found=" ".join(shared[0]))

    @classmethod
    def without_loss(cls, mechanism: str, question: Mapping[str, Any], spine: tuple[str, ...] = ()) -> Plan:
        """The plan of a release that measures nothing for a price: it has a question, and no loss to state.

        Definition and neighbours are in every plan; without a loss they say nothing, and are the default ones.
        """
        return cls(
            mechanism, privacy.Neighbours.CHANGE_ONE, privacy.Definition.ZCDP, (), spine, question, has_loss=False
        )

    @cached_property
    def event(self) -> privacy.Event:
        """All measurements, as the accountant sees them."""
        return self.event_of(lambda _: True)

    def event_of(self, chosen: Callable[[PlannedMeasurement], bool]) -> privacy.Event:
        """The chosen measurements: on the same records, or, with paths, on those of each kind of place.

        A record counts in the measurements of its own path and in no others, so a changed record costs at most half of
        its old path and half of its new one (``docs/proofs/topdown.md``, section 1). A family is one event: of its
        groups the ``degree`` costliest count.
        """
        paths = self.paths or (tuple(range(len(self.measures))),)
        on_paths = [privacy.Sequential(self._on_path(frozenset(path), chosen)) for path in paths]
        return privacy.Parallel(on_paths) if self.paths else on_paths[0]

    def _on_path(self, path: frozenset[int], chosen: Callable[[PlannedMeasurement], bool]) -> Iterator[privacy.Event]:
        """The chosen measurements of one kind of place, in the order of the plan; a family is where it begins."""
        taken = {number for number in path if chosen(self.measures[number])}
        family_of = {number: family for family in self.families for number in family.measures}
        begun: set[int] = set()
        for number in sorted(taken):
            family = family_of.get(number)
            if family is None:
                yield self.measures[number].event
            elif id(family) not in begun:
                begun.add(id(family))
                members = [
                    privacy.Sequential([self.measures[each].event for each in member if each in taken])
                    for member in family.members
                ]
                yield privacy.BoundedDegree(members, family.degree, family.copies)

    @cached_property
    def loss(self) -> privacy.Loss:
        """What the release costs: the accountant's sum over the events, not the sum of what was asked for."""
        return price(self.event, self.neighbours, self.definition, self.delta)

    def cost_to(
        self,
        one: privacy.PrivacyUnit,
        neighbours: privacy.Neighbours,
        definition: privacy.Definition,
        delta: Fraction | None,
    ) -> privacy.Loss:
        """What the release costs an account that is kept in ``one``, by the account's definition and neighbours."""
        return privacy.price_for(one, self.event, self.protects, neighbours, definition, delta)

    @property
    def protects(self) -> privacy.PrivacyUnit:
        """The unit, also where a plan does not name it and says what its records are."""
        if self.unit is not privacy.PrivacyUnit.RECORD:
            return self.unit
        return _UNIT_OF.get(self.question.get("record"), privacy.PrivacyUnit.RECORD)

    @property
    def record(self) -> str:
        """What one record describes, in a word."""
        named = "person" if self.unit is privacy.PrivacyUnit.RECORD else self.unit.value
        return str(self.question.get("record", named))

    @cached_property
    def left_by_invariants(self) -> WhatIsLeft:
        """What the figures that are published without noise leave of the promise, part by part."""
        return what_is_left(self)

    @property
    def not_protected(self) -> tuple[str, ...]:
        """The parts of a record that the promise does not cover, or not wholly, in words."""
        return tuple(part.words() for part in self.left_by_invariants.limited)

    @property
    def counts(self) -> int:
        """How many noisy counts the release has."""
        return sum(measure.units * measure.cells for measure in self.measures)

    def measure(self, level: str, query: str) -> PlannedMeasurement:
        """The measurement of a query on a level."""
        return self._by_key[level, query]

    def laws(self, level: str, query: str) -> list[noise.NoiseDistribution]:
        """The noise of a query on a level, one law for each class of units that is measured, in the plan's order."""
        return [measure.unbounded for measure in self.measures if (measure.level, measure.query) == (level, query)]

    def check_measured(self, measured: Iterable[tuple[str, str]]) -> None:
        """Compares what a run is about to measure, by level and query, with what was planned and paid for."""
        planned = {(measure.level, measure.query) for measure in self.measures}
        if set(measured) != planned:
            raise RunError(
                "not-as-planned/run",
                found=", ".join((f"{level} {query}" for level, query in sorted(set(measured) ^ planned)[:5])),
            )

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], PlannedMeasurement]:
        return {(measure.level, measure.query): measure for measure in self.measures}

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "mechanism": self.mechanism,
            "definition": self.definition.value,
            "neighbours": self.neighbours.value,
            "loss": self.loss.as_dict() if self.has_loss else None,
            "spine": list(self.spine),
            "question": dict(self.question),
            "measures": [measure.as_dict() for measure in self.measures],
        } | self._structure()

    def _structure(self) -> dict[str, Any]:
        """The delta, if there is one, and how measurements share records, where it is not all of them in all."""
        structure: dict[str, Any] = {} if self.delta is None else {"delta": str(self.delta)}
        if self.unit is not privacy.PrivacyUnit.RECORD:
            structure["unit"] = self.unit.value
        if self.paths:
            structure["paths"] = [list(path) for path in self.paths]
        if self.families:
            structure["families"] = [family.as_dict() for family in self.families]
        return structure

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the plan's canonical JSON."""
        return hash_of_plan(self.as_dict())

    @cached_property
    def measured_hash(self) -> str:
        """SHA-256 of the same without what is :attr:`free`: equal for two plans that measure the same with the same
        noise, at the same price."""
        values = json.loads(json.dumps(self.as_dict()))
        for path in self.free:
            _drop(values["question"], path.split("."))
        return hash_of_plan(values)


def _drop(values: Any, path: list[str]) -> None:
    """Takes what is at a path out of plain values, wherever it is."""
    name, *rest = path
    parts = values if name == "*" else [values[name]] if name in values else []
    if not rest:
        values.pop(name, None)
    for part in parts if rest else ():
        _drop(part, rest)


def hash_of_plan(values: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a plan's values, as they are in a manifest.

    Args:
        values: What :meth:`Plan.as_dict` gives, or what was read back of it.

    Returns:
        The hash in hexadecimal.
    """
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_plan(values: Mapping[str, Any]) -> Plan:
    """The plan that :meth:`Plan.as_dict` wrote. Its loss is composed anew from its measurements."""
    try:
        return _read_plan(values)
    except (KeyError, TypeError, ValueError, AttributeError, SpecError):
        raise ReleaseError("bad-plan", where=Place(file="manifest.json", path="plan")) from None


def _read_plan(values: Mapping[str, Any]) -> Plan:
    measures = tuple(
        PlannedMeasurement(
            m["level"],
            m["query"],
            m["units"],
            m["cells"],
            noise.distribution_from_dict(m["law"]),
            privacy.loss_from_dict(m["loss"]),
            tuple(m["attributes"]),
            privacy.StatedSensitivity.from_dict(m["sensitivity"]) if "sensitivity" in m else None,
        )
        for m in values["measures"]
    )
    neighbours, definition = privacy.Neighbours(values["neighbours"]), privacy.Definition(values["definition"])
    spine, question = tuple(values["spine"]), values["question"]
    paths = tuple(tuple(path) for path in values.get("paths", ()))
    families = tuple(
        Family(family["degree"], tuple(tuple(member) for member in family["members"]), tuple(family["copies"]))
        for family in values.get("families", ())
    )
    has_loss = values["loss"] is not None
    delta = exact(values["delta"], "delta") if "delta" in values else None
    unit = privacy.PrivacyUnit(values.get("unit", privacy.PrivacyUnit.RECORD))
    return Plan(
        values["mechanism"], neighbours, definition, measures, spine, question, paths, families, has_loss, delta, unit
    )


# What the guarantee is for a part of a record: smaller changes are better hidden.
#
# The loss of a plan compares two data sets in which one record differs in everything. If it differs in one attribute
# only, a query that does not look at that attribute gives the same answer, and costs nothing. If it differs only in
# its block, and both blocks lie in the same unit of a level, the queries of that level and of those above give the
# same answer. The certificates of the 2020 Census state both. Proof: ``docs/proofs/accounting.md``.
#
# Both are about data sets that agree in everything published exactly, so they are stated for those parts alone that
# invariants leave open (``Plan.left_by_invariants``): whoever states a part takes it from here.


def loss_by_attribute(plan: Plan) -> dict[str, privacy.PrivacyLoss]:
    """For each attribute that invariants leave open, the loss when one record differs in this attribute alone."""
    return {name: _changed(plan, event) for name, event in events_by_attribute(plan).items()}


def loss_by_move(plan: Plan) -> dict[str, privacy.PrivacyLoss]:
    """For each level above the blocks, the loss when one record lies in another block of the same unit, unless
    invariants give away in which unit of the level below it is."""
    return {name: _changed(plan, event) for name, event in events_by_move(plan).items()}


def events_by_attribute(plan: Plan) -> dict[str, privacy.Event]:
    """For each attribute that invariants leave open, the measurements that look at it."""
    measured = dict.fromkeys(name for measure in plan.measures for name in measure.attributes)
    attributes = plan.left_by_invariants.attributes
    names = [name for name in measured if name not in attributes or attributes[name].claimed]
    return {name: _chosen(plan, lambda measure, name=name: name in measure.attributes) for name in names}


def events_by_move(plan: Plan) -> dict[str, privacy.Event]:
    """For each level above the blocks, the measurements that can tell blocks of the same unit apart.

    Queries of off-spine areas always count: the blocks of a unit may lie in different ones. A level is left out where
    invariants give away which unit of the next one a record is in.
    """
    result = {}
    places = plan.left_by_invariants.places
    for position, name in enumerate(plan.spine[:-1]):
        if not places[plan.spine[position + 1]].claimed:
            continue
        same = plan.spine[: position + 1]
        result[name] = _chosen(plan, lambda measure, same=same: measure.level not in same)
    return result


def _chosen(plan: Plan, chosen: Callable[..., bool]) -> privacy.Event:
    return plan.event_of(chosen)


def _changed(plan: Plan, event: privacy.Event) -> privacy.PrivacyLoss:
    return price(event, privacy.Neighbours.CHANGE_ONE, plan.definition, plan.delta)


# What a plan comes to, in a few lines: for a terminal, and for the table of levels of a certificate.
NO_BUDGET = "No budget is spent, because no differential privacy is promised."


@dataclass(frozen=True)
class Summary:
    """A table, lines below it, and a sentence that says what the release has and costs."""

    sentence: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def described(self) -> Iterator[AnswerPart]:
        """What a release would have, and what it would cost."""
        if self.rows:
            yield ShownTable(list(self.columns), list(self.rows))
        yield from self.notes
        yield f"\n{self.sentence}"


def summary_of_levels(plan: Plan, contents: str, unaccounted: str = NO_BUDGET) -> Summary:
    """The levels of a plan with their widest noise margin, or a sentence where nothing is measured for a price."""
    if not plan.has_loss:
        return Summary(f"The release has {contents}. {unaccounted}")
    rows = []
    for row in measured_levels(plan):
        laws = {measurement.law for measurement in plan.measures if measurement.level == row["name"]}
        widest = max(law.noise_margin("0.95") for law in laws)
        rows.append((row["name"], f"{row['units']:,}", str(row["queries"]), f"{row['counts']:,}", f"±{widest:,}"))
    columns = ("level", "areas ", "queries ", "counts ", "widest noise margin (95 %) ") if rows else ()
    sentence = f"The release has {contents} and costs {plan.loss} ({plan.neighbours.value})."
    return Summary(
        sentence, columns, tuple(rows), tuple(f"Beside the invariants: {said}." for said in plan.not_protected)
    )


def in_plural(number: int, word: str) -> str:
    """A number with its noun: 1 table, 2 tables.

    Args:
        number: How many.
        word: The noun for one.

    Returns:
        Both, with an s where there is not exactly one.

    >>> in_plural(1, "table"), in_plural(1200, "table")
    ('1 table', '1,200 tables')
    """
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def measured_levels(plan: Plan) -> Iterator[dict[str, Any]]:
    """For each level: areas measured, queries, counts, and the share of the budget that an area has.

    Areas of one level can have different shares (an only child leaves its own to its parent). They are then classes,
    each with all queries of the level in the same order: the k-th measurement of every query is of the k-th class.
    """
    total = amount_of(plan.loss)
    for name in dict.fromkeys(measurement.level for measurement in plan.measures):
        by_query: dict[str, list[tuple[int, int, Fraction]]] = {}
        for measurement in plan.measures:
            if measurement.level == name:
                of_query = by_query.setdefault(measurement.query, [])
                of_query.append((measurement.units, measurement.cells, amount_of(measurement.loss)))
        classes = list(zip(*by_query.values(), strict=True))
        shares = sorted({sum((loss for _, _, loss in parts), Fraction(0)) / total for parts in classes})
        yield {
            "name": name,
            "units": sum(parts[0][0] for parts in classes),
            "queries": len(by_query),
            "counts": sum(units * cells for parts in classes for units, cells, _ in parts),
            # In approximate a measurement has no share: together they cost less than one by one.
            "share": ""
            if plan.definition is privacy.Definition.APPROXIMATE
            else " to ".join(f"{100 * float(share):.2f} %" for share in dict.fromkeys((shares[0], shares[-1]))),
        }


def amount_of(loss: privacy.PrivacyLoss) -> Fraction:
    """ρ or ε of a loss; where there is a δ too, it is stated once, for all measurements together."""
    return next(iter(loss.parameters().values()))


class Explanation:
    """What releases of a mechanism say to their readers, from plan and manifest alone."""

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:  # noqa: ARG002
        """What the tables hold, for the files that explain a release. None where a release has none."""
        return None

    def figure_noise(self, manifest: Mapping[str, Any]) -> FigureNoise | str:  # noqa: ARG002
        """The noise of published figures, for sums of them with their margins; or why it is not known."""
        return "the release does not say how far its figures are off"

    def contents(self, plan: Plan) -> str:
        """What a release has, in words: the end of «The release has …»."""
        return f"{plan.counts:,} counts"

    def unaccounted(self, plan: Plan) -> str:  # noqa: ARG002 - for mechanisms that state a loss no ledger can hold
        """Why nothing is spent, where a plan has no loss."""
        return NO_BUDGET

    def summary(self, plan: Plan) -> Summary:
        """What a release would have and cost, for a terminal."""
        return summary_of_levels(plan, self.contents(plan), self.unaccounted(plan))
