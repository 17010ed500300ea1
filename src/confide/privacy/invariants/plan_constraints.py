"""What the constraints of a plan leave of its promise, from its question in the language of invariants.

A release states the loss for a record that differs in one attribute alone, and for one that lies in another block of
the same unit. Such a statement is about data sets that agree in everything published exactly. It may be made if every
record has such a neighbour as far as counts are concerned: bounds and edit rules, which are public, may still leave a
record none, and the sentences of a certificate say where. Proof: ``docs/proofs/invariants.md``, section 7.

Published answers are counts, bounds of the frame are bounds, structural zeros are combinations that no record has.
What the language cannot say, or the plan does not tell, is named and not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from math import prod
from typing import Any, Protocol

from confide.errors import ParameterError
from confide.messages import Messages, messages
from confide.privacy.invariants import language


class Holding(StrEnum):
    """How far the promise about a part of a record holds beside what is published exactly."""

    HOLDS = "holds"
    INSIDE = "inside"
    """Among values that the counts do not tell apart."""
    TOGETHER = "together"
    """Only if something else changes along with it, at the loss of that."""
    PARTLY = "partly"
    """Not for all records."""
    FIXED = "fixed"
    UNKNOWN = "not-worked-out"


@dataclass(frozen=True)
class PartLeft:
    """What invariants leave of the promise about one attribute, or about the unit of one level."""

    name: str
    title: str
    holding: Holding
    by: tuple[str, ...] = ()
    """The invariants that take the rest."""
    never_changed: tuple[str, ...] = ()
    """The values that a record that has them cannot change; empty where that is all of them, or none."""

    @property
    def claimed(self) -> bool:
        """Whether the loss of the part may be stated as what protects it."""
        return self.holding in (Holding.HOLDS, Holding.INSIDE)

    def words(self, text: Messages | None = None) -> str:
        """What is to be said of the part where the promise does not simply hold."""
        m = text or messages()
        names = ", ".join(self.by)
        title = m.text("statements.part_by", title=self.title, names=names) if names else self.title
        return m.text(f"statements.part_{self.holding.value.replace('-', '_')}", part=title)

    def as_dict(self) -> dict[str, Any]:
        return {
            "holds": self.holding.value,
            "because_of": list(self.by),
            **({"never_changed": list(self.never_changed)} if self.never_changed else {}),
        }


@dataclass(frozen=True)
class WhatIsLeft:
    """What the invariants of a plan leave: for each attribute, and for each level below the root."""

    attributes: Mapping[str, PartLeft]
    places: Mapping[str, PartLeft]
    """For each level: whether a record can be in another of its units, in the same unit of the level above."""
    invariants: language.Invariants | None = None
    answers: Mapping[str, language.Answer] | None = None
    """As ``confide risk invariants`` has them; none where there are no constraints, or too many to look at."""
    left_out: tuple[str, ...] = ()

    @property
    def limited(self) -> tuple[PartLeft, ...]:
        """The parts that keep less than the promise. Of the levels whose unit is given away the finest is
        named: it tells those above."""
        away = [part for part in self.places.values() if not part.claimed]
        return (*away[-1:], *(part for part in self.attributes.values() if part.holding is not Holding.HOLDS))

    def as_dict(self) -> dict[str, Any]:
        """The parts that keep less than the promise; empty where all keep all of it."""
        return {
            kind: limited
            for kind, parts in (("attributes", self.attributes), ("places", self.places))
            if (limited := {name: part.as_dict() for name, part in parts.items() if part.holding is not Holding.HOLDS})
        }


def what_is_left(plan: StatedPlan, text: Messages | None = None) -> WhatIsLeft:
    """What the figures that a plan publishes without noise leave of its promise, part by part.

    Args:
        plan: Its ``question`` has the constraints, its ``spine`` the levels.
        text: The messages of a language, for the situations of bounds.

    Returns:
        For every attribute and level how far the promise holds, with the answers that this follows from.
    """
    titles = plan.question.get("attributes") or {name: name for m in plan.measures for name in m.attributes}
    constraints = stated_constraints(plan.question)
    if not plan.spine or not any(constraints.get(kind) for kind in ("invariants", "bounds", "zeros")):
        holds = Holding.HOLDS
        places = {level: PartLeft(level, _level_title(level), holds) for level in plan.spine[1:]}
        return WhatIsLeft({name: PartLeft(name, title, holds) for name, title in titles.items()}, places)
    translated = translate(plan, text)
    answers: Mapping[str, language.Answer] | None
    try:
        answers = language.single_record(translated.invariants)
    except ParameterError:  # too many kinds of records
        answers = None
    return WhatIsLeft(
        {name: _attribute_left(name, title, translated, answers) for name, title in titles.items()},
        {level: _place_left(level, plan.spine, translated, many=answers is None) for level in plan.spine[1:]},
        translated.invariants,
        answers,
        translated.left_out,
    )


def _attribute_left(
    name: str, title: str, translated: InvariantTranslation, answers: Mapping[str, language.Answer] | None
) -> PartLeft:
    counts = translated.invariants.counts
    by = list(dict.fromkeys(count.name for count in counts if name in count.where))
    unknown = [
        invariant
        for invariant, reach in translated.not_said.items()
        if reach.attributes is None or name in reach.attributes
    ]
    if unknown or (answers is None and by):
        return PartLeft(name, title, Holding.UNKNOWN, (*by, *unknown))
    if answers is None or not by:  # what no count looks at, no count gives away
        return PartLeft(name, title, Holding.HOLDS)
    answer = answers[name]
    if answer.status is language.Status.FIXED:
        return PartLeft(name, title, Holding.FIXED, tuple(by))
    if answer.stuck:
        return PartLeft(name, title, Holding.PARTLY, tuple(by), answer.stuck)
    if not answer.alone:
        return PartLeft(name, title, Holding.TOGETHER, tuple(by))
    return PartLeft(name, title, Holding.INSIDE, tuple(by))


def _place_left(level: str, spine: tuple[str, ...], translated: InvariantTranslation, *, many: bool) -> PartLeft:
    """Whether a record can lie in another unit of ``level``, in the same unit of the level above, by the counts."""
    title, position = _level_title(level), spine.index(level)

    def tells(by: str | None) -> bool:
        return by is not None and spine.index(by) >= position

    numbers = [number for number, count in enumerate(translated.invariants.counts) if tells(count.by)]
    names = list(dict.fromkeys(translated.invariants.counts[number].name for number in numbers))
    unknown = [name for name, reach in translated.not_said.items() if _may_tell(reach, position, spine)]
    if unknown or (many and names):
        return PartLeft(level, title, Holding.UNKNOWN, (*names, *unknown))
    if not numbers:
        return PartLeft(level, title, Holding.HOLDS)
    world = translated.invariants.world
    held = [any(counted[number] for number in numbers) for counted in world.counted.values()]
    if not any(held):
        return PartLeft(level, title, Holding.HOLDS)
    return PartLeft(level, title, Holding.FIXED if all(held) else Holding.PARTLY, tuple(names))


def _may_tell(reach: InvariantReach, position: int, spine: tuple[str, ...]) -> bool:
    """Whether an invariant that could not be expressed may tell units of a level apart."""
    if reach.attributes == frozenset():
        return False
    return reach.level is None or spine.index(reach.level) >= position


def _level_title(level: str) -> str:
    return level.replace("_", " ").capitalize()


MOST_CELLS = 64
"""A published query that the plan does not take apart itself is taken apart if it has no more cells than this."""


class StatedMeasurement(Protocol):
    """One measurement of a plan, as far as it tells how many levels attributes have."""

    @property
    def query(self) -> str: ...
    @property
    def cells(self) -> int: ...
    @property
    def attributes(self) -> tuple[str, ...]: ...


class StatedPlan(Protocol):
    """What a plan says of itself (:class:`confide.releases.plan.Plan` is one)."""

    @property
    def spine(self) -> tuple[str, ...]: ...
    @property
    def question(self) -> Mapping[str, Any]: ...
    @property
    def measures(self) -> Sequence[StatedMeasurement]: ...


@dataclass(frozen=True)
class InvariantTranslation:
    """The invariants of a plan in the language, and those that it cannot express: by name, what they look at."""

    invariants: language.Invariants
    not_said: Mapping[str, InvariantReach]

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of what is not expressed."""
        return tuple(self.not_said)


@dataclass(frozen=True)
class InvariantReach:
    """How far an invariant that the language cannot express may reach: a level (None: any) and attributes (None: any).

    Bounds and structural zeros take no value from anybody whatever the data: they reach nothing.
    """

    level: str | None = None
    attributes: frozenset[str] | None = frozenset()


def stated_constraints(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """The constraints of a plan's question; empty where it has none."""
    constraints: Mapping[str, Any] = question.get("strategy", {}).get("constraints", {})
    return constraints


def translate(plan: StatedPlan, text: Messages | None = None) -> InvariantTranslation:
    """The constraints of a plan in the language of invariants."""
    said = _Translator(plan, text or messages())
    counts = tuple(said.counts())
    bounds = tuple(said.bounds())
    never = tuple(said.never())
    used = {count.by for count in counts} | {plan.spine[-1]}
    geography = tuple(level for level in plan.spine[1:] if level in used) or plan.spine[-1:]
    constraints = stated_constraints(plan.question)
    records = language.Records(str(plan.question["strategy"]["id"]), geography, said.attributes())
    names = tuple(str(item["name"]) for item in constraints.get("invariants", ()))
    return InvariantTranslation(language.Invariants(names, records, counts, bounds, never), said.not_said)


class _Translator:
    """Reads the constraints of a plan one after the other, and keeps what it cannot express."""

    def __init__(self, plan: StatedPlan, text: Messages):
        self._plan, self._text = plan, text
        self._constraints = stated_constraints(plan.question)
        measured = dict.fromkeys(name for measure in plan.measures for name in measure.attributes)
        self._titles: Mapping[str, str] = plan.question.get("attributes") or {name: name for name in measured}
        stated = plan.question.get("output", {}).get("codes", {})
        self._listed = {name: [str(code) for code in stated[name]] for name in self._titles if name in stated}
        self._sizes = {name: len(codes) for name, codes in self._listed.items()} | self._measured_sizes()
        self._codes = {name: list(dict.fromkeys(self._named(name))) for name in self._titles}
        self.not_said: dict[str, InvariantReach] = {}

    def _named(self, name: str) -> Iterator[str]:
        """Every code of an attribute that a constraint names."""
        facts = self._plan.question
        for bound in facts.get("bounds", ()):
            if bound["attribute"] == name:
                yield from (str(code) for group in bound["groups"] for code in group["codes"])
        wheres = [zero["where"] for zero in self._constraints.get("zeros", ())]
        wheres += [cell["where"] for item in facts.get("told", ()) for cell in item["cells"]]
        yield from (str(code) for where in wheres for code in where.get(name, ()))
        yield from self._listed.get(name, ())

    def _measured_sizes(self) -> dict[str, int]:
        """How many levels attributes have: the cells of a query that has one alone, as it is."""
        sizes: dict[str, int] = {}
        for measure in self._plan.measures:
            if len(measure.attributes) == 1 and measure.query in (measure.attributes[0], "detailed"):
                sizes[measure.attributes[0]] = measure.cells
        return {name: size for name, size in sizes.items() if name in self._titles}

    def _where(self, where: Mapping[str, Any]) -> dict[str, frozenset[str]] | None:
        """Codes by attribute as levels; None where the plan has no such attribute."""
        if not set(where) <= set(self._titles):
            return None
        return {name: frozenset(map(str, codes)) for name, codes in where.items()}

    def counts(self) -> Iterator[language.InvariantCount]:
        cells_of = {item["name"]: item["cells"] for item in self._plan.question.get("told", ())}
        for invariant in self._constraints.get("invariants", ()):
            name, level, query = invariant["name"], invariant["level"], invariant["query"]
            if query is None:
                continue  # counts of the frame: about the records they say what bounds say
            conditions = [self._where(cell["where"]) for cell in cells_of.get(name, ())]
            wheres = conditions or self._cells(query)
            if level not in self._plan.spine or not wheres or None in wheres:
                looks_at = {
                    attribute for m in self._plan.measures if m.query == query for attribute in m.attributes
                } | {part for part in query.split("*") if part in self._titles}
                known = len(looks_at) == len(query.split("*"))
                on = level if level in self._plan.spine else None
                self.not_said[name] = InvariantReach(on, frozenset(looks_at) if known else None)
                continue
            for where in wheres:
                assert where is not None
                yield language.InvariantCount(None if level == self._plan.spine[0] else level, where, name)
        yield from self._met()

    def _met(self) -> Iterator[language.InvariantCount]:
        """Groups whose least and largest counts are the same count of the frame: published exactly, by two bounds."""
        limits: dict[tuple[str, str, frozenset[str], int], dict[str, str]] = {}
        for item in self._plan.question.get("bounds", ()):
            for group in item["groups"]:
                codes = frozenset(map(str, group["codes"]))
                met = limits.setdefault((item["attribute"], group["column"], codes, int(item["per_unit"])), {})
                met[item["side"]] = item["name"]
        for (attribute, _, codes, _), met in limits.items():
            if len(met) == len(("lower", "upper")) and attribute in self._titles:
                name = f"{met['lower']} and {met['upper']}"
                yield language.InvariantCount(self._plan.spine[-1], {attribute: codes}, name)

    def _cells(self, query: str) -> list[dict[str, frozenset[str]] | None] | None:
        """The cells of a query of whole attributes; None if it has recodes, or too many cells."""
        names = [] if query == "total" else query.split("*")
        if not set(names) <= set(self._sizes) or prod(self._sizes[name] for name in names) > MOST_CELLS:
            return None
        levels = [list(self._levels(name)) for name in names]
        return [dict(zip(names, (frozenset({one}) for one in cell), strict=True)) for cell in product(*levels)]

    def bounds(self) -> Iterator[language.InvariantBound]:
        stated = {item["name"]: item for item in self._plan.question.get("bounds", ())}
        for bound in self._constraints.get("bounds", ()):
            item = stated.get(bound["name"])
            for group in item["groups"] if item else [None]:
                where = self._where({item["attribute"]: group["codes"]}) if item and group else None
                if item is None or group is None or where is None:
                    self.not_said[bound["name"]] = InvariantReach()
                    continue
                yield _bound(item, group["column"], where, self._plan.spine[-1], self._text)

    def never(self) -> Iterator[language.Never]:
        for zero in self._constraints.get("zeros", ()):
            where = self._where(zero["where"])
            if where is None:
                self.not_said[zero["name"]] = InvariantReach()
            else:
                yield language.Never(where)

    def attributes(self) -> tuple[language.InvariantAttribute, ...]:
        return tuple(
            language.InvariantAttribute(name, title.replace("_", " "), dict.fromkeys(self._levels(name), 1), {})
            for name, title in self._titles.items()
        )

    def _levels(self, name: str) -> Iterator[str]:
        """The codes that are named, and others, up to the number of levels.

        Where the plan does not tell the number, there is one other level: it can be changed into nothing that is not
        told apart from it, so that no more is claimed than holds. An attribute without any named level has two.
        """
        named = self._codes[name]
        yield from named
        size = self._sizes.get(name, len(named) + 1 if named else 2)
        yield from (f"#{number}" for number in range(len(named), size))


def _bound(
    item: Mapping[str, Any], column: str, where: Mapping[str, frozenset[str]], block: str, m: Messages
) -> language.InvariantBound:
    names = [group["column"] for group in item["groups"]]
    columns = ", ".join(names) if len(names) < 4 else f"{names[0]}, …, {names[-1]}"
    per_unit = int(item["per_unit"])
    lower = item["side"] == "lower"
    side = "topdown.says_least" if lower else "topdown.says_most"
    says = m.text(side, name=item["name"], number=per_unit, columns=columns)
    return language.InvariantBound(
        item["name"],
        block,
        where,
        column,
        at_least=per_unit if lower else 0,
        at_most=None if lower else per_unit,
        when_least=m.text("topdown.when_least", block=block, says=says),
        when_full=m.text("topdown.when_full", block=block, says=says),
    )
