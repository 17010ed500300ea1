"""The strategy of a TopDown release: what is measured where, with which share, and how it becomes an estimate.

A strategy is public and known before a record is read. Every geolevel has a share of the budget, every query of a level
a share of the level's; both sum to one exactly. So a query with share q on a level with share s of a budget ρ costs
ρ·s·q. ``strategy_file`` reads one from its file, ``account_of`` prices it. Settings of 2020: Abowd et al., The 2020
Census Disclosure Avoidance System TopDown Algorithm, HDSR (2022), and the production certificates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from confide.answers import AnswerPart, Said, ShownTable, TypedAnswer
from confide.errors import Finding, ParameterError, Place
from confide.estimation.sectors import Grouping, SectorQuery, Sectors, check_core
from confide.exact import Exact, fraction_up, positive, up
from confide.mechanisms.topdown.constraints import Constraints, FrameBound
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP, Definition, Neighbours, calibrate, epsilons
from confide.privacy.invariants import WhatIsLeft
from confide.releases.plan import Plan, PlannedMeasurement, loss_by_attribute, loss_by_move
from confide.schema import DETAILED, NO_GROUP, TOTAL, Query, Schema

OWN, TREE = "own", "tree"
"""What the estimate of a unit starts from (``evidence``): its own measurements alone, as in 2020, or what it and all
units below it tell (``from_below``)."""
ALIKE = {"pl94-persons-2026": "pl94-persons"}
"""Strategies that ship with the layouts and the tables of another one."""
BY_LEVEL, BY_QUERY = "by-level", "by-query"
"""A unit with an only child takes over the child's share, and divides it among queries as its own level does (as in
2020), or gives each query what the child would have given it."""


@dataclass(frozen=True)
class QueryShare:
    """A query that is measured on a level, and its exact share of the level's budget."""

    name: str
    query: Query
    share: Fraction


@dataclass(frozen=True, slots=True)
class Pass:
    """One least-squares pass: the queries of its objective, and those whose answers later passes have to keep."""

    queries: tuple[str, ...]
    constrain: tuple[str, ...] = ()

    @property
    def settles_total(self) -> bool:
        """Whether it estimates the number of records of each unit alone, for all later passes to keep."""
        return self.queries == self.constrain == (TOTAL,)


@dataclass(frozen=True)
class Estimation:
    """How the units of one level are estimated from their measurements and their parent.

    ``least_squares`` runs pass by pass; the answers to ``constrain`` stay within ``slack`` in all later passes.
    ``rounding`` runs pass by pass too, and what a pass has made whole is fixed for the next. All rounding queries
    together are a chain, each refining the one before: then the sets they count are nested in a unit, and rounding is
    a network flow with whole solutions. Without slack, passes and rounding take turns (:attr:`interleaved`).
    """

    name: str
    least_squares: tuple[Pass, ...]
    rounding: tuple[tuple[str, ...], ...]
    slack: Fraction = Fraction(0)

    @property
    def interleaved(self) -> bool:
        """Whether what a pass keeps is made whole, and is then exact, before the next pass begins: ``rounding`` has a
        chain for each pass. So it is where answers are kept without slack."""
        return not self.slack and any(step.constrain for step in self.least_squares)

    @property
    def chain(self) -> tuple[str, ...]:
        """The rounding queries of all passes in order, coarse to fine."""
        return tuple(name for names in self.rounding for name in names)

    def as_dict(self) -> dict[str, Any]:
        return {
            "least_squares": [{"queries": list(p.queries), "constrain": list(p.constrain)} for p in self.least_squares],
            "rounding": [list(names) for names in self.rounding],
            "slack": str(self.slack),
        }

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Estimation:
        """The same from a plan, which has no name for it."""
        passes = tuple(Pass(tuple(p["queries"]), tuple(p["constrain"])) for p in values["least_squares"])
        return cls("", passes, tuple(tuple(names) for names in values["rounding"]), Fraction(values["slack"]))


@dataclass(frozen=True)
class LevelStrategy:
    """What is measured on one geolevel, and how its units are estimated."""

    name: str
    share: Fraction
    queries: tuple[QueryShare, ...]
    estimation: Estimation

    def query(self, name: str) -> QueryShare:
        """The measured query of that name."""
        for query_share in self.queries:
            if query_share.name == name:
                return query_share
        raise KeyError(name)

    @property
    def cells(self) -> int:
        """How many noisy counts one unit has."""
        return sum(query_share.query.cells for query_share in self.queries)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "share": str(self.share),
            "queries": {query_share.name: str(query_share.share) for query_share in self.queries},
            "estimation": self.estimation.as_dict(),
        }


@dataclass(frozen=True)
class Strategy:
    """The strategy for one root: levels from the root to the blocks, the budget, and what every estimate keeps."""

    id: str
    title: str
    provenance: str
    root: str
    schema: Schema
    definition: Definition
    neighbours: Neighbours
    budget: Fraction
    levels: tuple[LevelStrategy, ...]
    constraints: Constraints
    record: str = "person"
    """What one record describes: the word that the promise uses."""
    blocks_with: tuple[str, ...] = ()
    """Columns of the block table: a block where all of these are zero has no records and is not on the spine."""
    apart: tuple[str, ...] = ()
    """Columns of the block table: a made block group has no blocks that differ in which of these are zero."""
    evidence: str = OWN
    """What the estimate of a unit starts from: its own measurements, or those of everything below it as well."""
    bypass: str = BY_LEVEL
    """How a unit divides what it takes over from its only child: as its own level does, or query by query."""

    @property
    def level_names(self) -> tuple[str, ...]:
        """The names of the levels, the root first."""
        return tuple(level.name for level in self.levels)

    @property
    def shares(self) -> dict[str, Fraction]:
        """The share of each level, the root first: what a path from the root to a block adds up to one."""
        return {level.name: level.share for level in self.levels}

    def level(self, name: str) -> LevelStrategy:
        """The level of that name."""
        for level in self.levels:
            if level.name == name:
                return level
        raise KeyError(name)

    def query(self, name: str) -> Query:
        """The query that a measurement, a pass or a chain names."""
        return resolve(self.schema, name)

    @property
    def frame_columns(self) -> tuple[str, ...]:
        """The columns of counts that the block table must have, each once."""
        return tuple(dict.fromkeys((*self.constraints.frame_columns, *self.blocks_with, *self.apart)))

    @property
    def total_is_invariant(self) -> bool:
        """Whether the number of records at the root is published as it is."""
        return any(not query.variables for query in invariant_queries(self.constraints, self.schema))

    def with_budget(self, budget: Exact) -> Strategy:
        """The same shares of another budget."""
        return replace(self, budget=positive(budget, "budget"))

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """Every query that is measured on some level, once."""
        return tuple(dict.fromkeys(query.name for level in self.levels for query in level.queries))

    def grouping(self, query: str) -> Grouping:
        """A query by the axes of its attributes: for each axis that is not summed out the group of each level."""
        axes = {attribute.name: axis for axis, attribute in enumerate(self.schema.attributes)}
        return {axes[v.attribute.name]: v.assignment.astype(np.int64) for v in self.query(query).variables}

    @property
    def parts(self) -> dict[tuple[str, ...], Fraction]:
        """Of each query on each level, by the names of both, its part of the budget."""
        return {
            (level.name, query.name): self.budget * level.share * query.share
            for level in self.levels
            for query in level.queries
        }

    def with_parts(self, parts: Mapping[tuple[str, ...], Fraction]) -> Strategy:
        """The strategy with other :attr:`parts`: their sum is its budget."""
        total = sum(parts.values(), Fraction(0))
        levels = []
        for level in self.levels:
            own = sum((parts[level.name, query.name] for query in level.queries), Fraction(0))
            queries = tuple(replace(query, share=parts[level.name, query.name] / own) for query in level.queries)
            levels.append(replace(level, share=own / total, queries=queries))
        return replace(self, levels=tuple(levels), budget=total)

    def with_smallest(self, name: str) -> Strategy:
        """The same with the office's word for the smallest places, which strategy files call ``block``."""
        *above, last = self.levels
        invariants = tuple(
            replace(invariant, level=name) if invariant.level == last.name else invariant
            for invariant in self.constraints.invariants
        )
        constraints = replace(self.constraints, invariants=invariants)
        return replace(self, levels=(*above, replace(last, name=name)), constraints=constraints)

    def as_dict(self) -> dict[str, Any]:
        """Everything that decides measurements and estimates, as plain exact text: part of the plan's question."""
        return {
            "id": self.id,
            "root": self.root,
            "schema": {"id": self.schema.id, "sha256": self.schema.fingerprint},
            "definition": self.definition.value,
            "neighbours": self.neighbours.value,
            "budget": str(self.budget),
            "levels": [level.as_dict() for level in self.levels],
            "constraints": self.constraints.as_dict(),
            "blocks_with": list(self.blocks_with),
            "apart": list(self.apart),
        } | {
            name: chosen
            for name, chosen, usual in (("evidence", self.evidence, OWN), ("bypass", self.bypass, BY_LEVEL))
            if chosen != usual
        }

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of :meth:`as_dict`."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_strategy(described: Mapping[str, Any], schema: Schema, record: str) -> Strategy:
    """The strategy that a plan describes (:meth:`Strategy.as_dict`), without its title and where it comes from.

    Args:
        described: What the plan has of it.
        schema: The schema of the records.
        record: What one record describes.
    """
    levels = tuple(
        LevelStrategy(
            level["name"],
            Fraction(level["share"]),
            tuple(QueryShare(name, resolve(schema, name), Fraction(share)) for name, share in level["queries"].items()),
            Estimation.read(level["estimation"]),
        )
        for level in described["levels"]
    )
    return Strategy(
        described["id"],
        "",
        "",
        described["root"],
        schema,
        Definition(described["definition"]),
        Neighbours(described["neighbours"]),
        Fraction(described["budget"]),
        levels,
        Constraints.read(described["constraints"], schema),
        record,
        tuple(described["blocks_with"]),
        tuple(described["apart"]),
        described.get("evidence", OWN),
        described.get("bypass", BY_LEVEL),
    )


def resolve(schema: Schema, name: str) -> Query:
    """The query that ``name`` stands for: as in :meth:`Schema.query`, or ``detailed`` for the histogram."""
    if name == DETAILED:
        return schema.query("*".join(attribute.name for attribute in schema.attributes))
    return schema.query(name)


def normal_name(schema: Schema, text: str) -> str:
    """The one name of the query that ``text`` names, with its variables in the order of the schema.

    Plans, noise streams, files and answers know a query by this name; ``detailed`` is that of the histogram.
    """
    return DETAILED if text == DETAILED else schema.query(text).name


class GroupNumbers(Protocol):
    """The groups of the cells of a histogram: an array, or what works them out."""

    def __getitem__(self, cells: Any, /) -> Any:
        """The groups of some cells."""

    def __len__(self) -> int: ...

    def max(self) -> Any:
        """The largest group."""


class CellGroups:
    """The groups of cells in a query, worked out from the codes of the cells, attribute by attribute.

    Codes count in the order of the schema, whatever the order of the query's words: this is the one place that knows
    which cell of a query a cell of the histogram adds to. Nothing of the size of a large histogram is kept.

    >>> from confide.documents import parse_schema
    >>> said = {"id": "demo", "provenance": "made up", "attributes": {
    ...     "sex": {"title": "Sex", "levels": [["m", "male"], ["f", "female"]]},
    ...     "age": {"title": "Age", "range": [0, 2]}}}
    >>> schema = parse_schema(said)
    >>> CellGroups(schema, schema.query("age*sex"))[np.array([0, 2, 5])]
    array([0, 2, 5])
    """

    SMALL = 1 << 16

    def __init__(self, schema: Schema, query: Query):
        sizes = [attribute.size for attribute in schema.attributes]
        strides = np.cumprod([1, *sizes[:0:-1]], dtype=np.int64)[::-1].tolist()
        place = {attribute.name: number for number, attribute in enumerate(schema.attributes)}
        self._lookups = [
            (strides[at], sizes[at], variable.assignment.astype(np.int64), variable.size)
            for variable in sorted(query.variables, key=lambda variable: place[variable.attribute.name])
            for at in (place[variable.attribute.name],)
        ]
        self._cells, self._groups = int(np.prod(sizes, dtype=np.int64)), query.cells
        self._table = self._of(np.arange(self._cells)) if self._cells <= self.SMALL else None

    def __len__(self) -> int:
        return self._cells

    def max(self) -> int:
        """The largest group."""
        return self._groups - 1

    def __getitem__(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The group of each cell, or ``NO_GROUP``."""
        return self._of(cells) if self._table is None else self._table[cells]

    def _of(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        result, left_out = np.zeros(cells.shape, np.int64), np.zeros(cells.shape, np.bool_)
        for stride, size, assignment, groups in self._lookups:
            assigned = assignment[cells // stride % size]
            result = result * groups + assigned
            left_out |= assigned == NO_GROUP
        result[left_out] = NO_GROUP
        return result


def groups_of(schema: Schema, query: Query) -> NDArray[np.int64]:
    """For each cell of the histogram, in C order, the cell of ``query`` that it adds to, or ``NO_GROUP``."""
    groups = CellGroups(schema, query)
    return groups[np.arange(len(groups))]


def sectors_of(strategy: Strategy, *, public_zeros: bool = True) -> tuple[Sectors, dict[str, SectorQuery]]:
    """Core and free axes of a strategy, and its queries; raises if the core is too large.

    ``public_zeros``: whether cells that the frame makes impossible in a block are used.
    """
    names = [attribute.name for attribute in strategy.schema.attributes]
    groupings = {name: strategy.grouping(name) for name in dict.fromkeys((TOTAL, *strategy.measured, DETAILED))}
    apart = {name for zero in strategy.constraints.zeros for name in zero.where}
    for query in strategy.constraints.limited if public_zeros else ():
        apart |= {variable.attribute.name for variable in strategy.query(query).variables}
    shape = [attribute.size for attribute in strategy.schema.attributes]
    sectors = Sectors.of(shape, groupings.values(), {names.index(name) for name in apart})
    check_core(sectors)
    return sectors, {name: sectors.query(grouping) for name, grouping in groupings.items()}


def refines(fine: Query, coarse: Query) -> bool:
    """Whether every cell of ``fine`` lies in one cell of ``coarse``."""
    return refine_together((fine,), coarse)


def refine_together(queries: Iterable[Query], coarse: Query) -> bool:
    """Whether records that all of the queries count in the same cells are in one cell of ``coarse``.

    Cells are products of groups, so this holds if and only if it holds attribute by attribute.
    """
    grouped: dict[str, list[NDArray[np.int64]]] = {}
    for query in queries:
        for variable in query.variables:
            grouped.setdefault(variable.attribute.name, []).append(variable.assignment)
    for variable in coarse.variables:
        groups = grouped.get(variable.attribute.name, [np.zeros_like(variable.assignment)])
        if len(np.unique([*groups, variable.assignment], axis=1).T) > len(np.unique(groups, axis=1).T):
            return False
    return True


def held_together(strategy: Strategy) -> list[Finding]:
    """A warning for each pass that keeps crossing answers: whole numbers are made of what they tell apart together."""
    findings = []
    for estimation in {level.estimation.name: level.estimation for level in strategy.levels}.values():
        held: list[Query] = []
        for step in estimation.least_squares if estimation.interleaved else ():
            kept = sorted((strategy.query(name) for name in step.constrain), key=lambda query: query.cells)
            chain = [*held, *kept]
            if kept and not all(refines(kept[-1], query) for query in chain):
                names = ", ".join(query.name for query in chain)
                findings.append(
                    Finding.of("held-together", severity="warning", estimation=estimation.name, names=names)
                )
            held = chain
    return findings


def same_cells(one: Query, other: Query) -> bool:
    """Whether two queries count the same sets of records, in whatever order."""
    return refines(one, other) and refines(other, one)


def invariant_queries(constraints: Constraints, schema: Schema) -> list[Query]:
    """The queries whose answers are known at the root: an invariant of a lower level adds up to it."""
    return [resolve(schema, invariant.query) for invariant in constraints.invariants if invariant.query is not None]


def cut(strategy: Strategy, name: str, top: str, estimation: Estimation, *, renormalise: bool = False) -> Strategy:
    """The strategy for one unit of the level ``top`` as a root of its own.

    The levels above fall away, and with them their invariants. What the other invariants tell about the new root is not
    measured there. The remaining shares keep their proportions and are divided by their sum k, so that they sum to one
    again. With the budget k·ρ every remaining measurement has the very noise that it has under ``strategy``; this is
    the budget unless ``renormalise``, which spends the whole ρ on the part that is left.
    """
    position = strategy.level_names.index(top)
    first, *below = strategy.levels[position:]
    names = strategy.level_names[position:]
    kept_invariants = tuple(i for i in strategy.constraints.invariants if i.level in names)
    constraints = replace(strategy.constraints, invariants=kept_invariants)
    invariants = invariant_queries(constraints, strategy.schema)
    measured = [a for a in first.queries if not any(same_cells(a.query, query) for query in invariants)]
    measured_share = sum((a.share for a in measured), Fraction(0))
    if not measured_share:
        raise ParameterError("nothing-measured", found=", ".join(a.name for a in first.queries), top=top)
    queries = tuple(replace(a, share=a.share / measured_share) for a in measured)
    weights = [first.share * measured_share, *(level.share for level in below)]
    total = sum(weights, Fraction(0))
    rooted = replace(first, queries=queries, estimation=estimation)
    levels = (replace(level, share=w / total) for level, w in zip((rooted, *below), weights, strict=True))
    budget = strategy.budget if renormalise else strategy.budget * total
    return replace(strategy, root=name, levels=tuple(levels), budget=budget, constraints=constraints)


def check_levels(strategy: Strategy, spine: Iterable[str]) -> list[Finding]:
    """What keeps a strategy from being used on a spine with these level names, root first."""
    names = tuple(spine)
    if names == strategy.level_names:
        return []
    return [
        Finding.of(
            "strategy-levels",
            where=Place(path="geography.levels"),
            found=" > ".join(names),
            strategy=strategy.id,
            root=strategy.root,
            level_names=" > ".join(strategy.level_names),
        )
    ]


# What a strategy costs and how noisy it is, from the events of its measurements: nothing here is a published figure.
#
# A changed record leaves one cell of a query and enters another: squared L2 sensitivity 2. Noise with σ² = 1/(ρ·s·q)
# therefore costs ρ·s·q for a query with share q on a level with share s. The accountant adds up; the parts of the
# promise (one attribute, a move within a unit) are those of ``confide.releases.plan``. Proof:
# ``docs/proofs/accounting.md``.


DELTA = Fraction(1, 10**10)
"""The δ at which the certificates of the 2020 Census state ε."""


@dataclass(frozen=True, slots=True)
class StrategyLoss:
    """A loss: exact, and as ε at a δ in three ways, each rounded up."""

    rho: Fraction
    epsilon: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {"rho": str(self.rho), "rho_decimal": float(self.rho), "epsilon": dict(self.epsilon)}


@dataclass(frozen=True)
class StrategyAccount(TypedAnswer):
    """What a strategy promises, and the noise that it takes."""

    strategy: Strategy
    delta: Fraction
    total: StrategyLoss
    by_attribute: Mapping[str, StrategyLoss]
    """For each attribute: if one record differs in it alone. A query of a recode looks at the attribute."""
    by_move_within: Mapping[str, StrategyLoss]
    """For each level: if one record lies in another block of the same unit of the level."""
    measures: tuple[PlannedMeasurement, ...]
    left_by_invariants: WhatIsLeft
    """What is left of the promise beside figures without noise: parts that are not are in neither mapping above."""

    def as_dict(self) -> dict[str, Any]:
        strategy = self.strategy
        return {
            "strategy": strategy.id,
            "title": strategy.title,
            "provenance": strategy.provenance,
            "root": strategy.root,
            "levels": list(strategy.level_names),
            "definition": strategy.definition.value,
            "neighbours": strategy.neighbours.value,
            "budget": str(strategy.budget),
            "delta": str(self.delta),
            **self.total.as_dict(),
            "by_attribute": {name: stated.as_dict() for name, stated in self.by_attribute.items()},
            "by_move_within": {name: stated.as_dict() for name, stated in self.by_move_within.items()},
            **({"left_by_invariants": limited} if (limited := self.left_by_invariants.as_dict()) else {}),
            "variance": self._table(lambda measure: measure.law.variance()),
            "sigma2": self._table(lambda measure: str(measure.law.parameter)),
            "cells": self._table(lambda measure: measure.cells),
        }

    def _table(self, value: Callable[[PlannedMeasurement], Any]) -> dict[str, dict[str, Any]]:
        """A value of each measurement, by level and query."""
        table: dict[str, dict[str, Any]] = {name: {} for name in self.strategy.level_names}
        for measure in self.measures:
            table[measure.level][measure.query] = value(measure)
        return table

    def described(self) -> Iterator[AnswerPart]:
        """The loss and the noise of a strategy."""
        chosen = self.strategy
        yield Said(chosen.title, f" ({chosen.id}), root {chosen.root}: {' > '.join(chosen.level_names)}\n")
        yield from _costs(self)
        yield ""
        yield from _variances(self)
        yield f"\n{chosen.provenance}"
        promise = f"rho = {self.total.rho} ({chosen.neighbours.value}), delta = {float(self.delta):g}"
        yield f"{promise}; every bound is rounded up."


def _costs(account: StrategyAccount) -> Iterator[AnswerPart]:
    """The loss, whole and in parts."""
    rows = [_loss_row("in everything", account.total)]
    rows += [_loss_row(f"in {attribute} alone", stated) for attribute, stated in account.by_attribute.items()]
    rows += [_loss_row(f"in its block, same {level}", stated) for level, stated in account.by_move_within.items()]
    columns = ["one record differs", "rho ", "epsilon ", "Bun-Steinke ", "Gaussian limit "]
    yield ShownTable(
        columns, rows, title="What is promised (epsilon by Canonne, Kamath and Steinke is the one to quote)"
    )
    for part in account.left_by_invariants.limited:
        yield f"Beside the invariants: {part.words()}."


LOSS_WAYS = ("canonne_kamath_steinke", "bun_steinke", "gaussian_limit")
"""Statements of epsilon in the order of the table."""


def _loss_row(what: str, stated: StrategyLoss) -> Sequence[str]:
    return [what, fraction_up(stated.rho), *(up(stated.epsilon[way], 4) for way in LOSS_WAYS)]


def _variances(account: StrategyAccount) -> Iterator[AnswerPart]:
    """The variance of a noisy count, a row for each query and a column for each level."""
    variance = account.as_dict()["variance"]
    fullest = max(account.strategy.levels, key=lambda level: len(level.queries))
    cells = {asked.name: asked.query.cells for asked in fullest.queries}
    cells |= {measure.query: measure.cells for measure in account.measures}
    levels = account.strategy.level_names
    rows = [
        [
            query,
            f"{count:,}",
            *(f"{variance[level][query]:.4g}" if query in variance[level] else "-" for level in levels),
        ]
        for query, count in cells.items()
    ]
    title = "The variance of each noisy count, in a unit with the share of its level"
    yield ShownTable(["query", "cells ", *(f"{level} " for level in levels)], rows, title=title)


def unit_shares(strategy: Strategy, level: LevelStrategy, share: Fraction) -> dict[str, Fraction]:
    """What part of the whole budget each query has in a unit of a level.

    Args:
        strategy: What is measured.
        level: The level.
        share: The share of the unit: that of its level, or with those of the levels below whose units it took over.

    Returns:
        For each query of the level its part; they sum to ``share``. Where only children are bypassed query by query, a
        query that this level does not measure gives its part to the last one that the level lists.
    """
    if strategy.bypass == BY_LEVEL or share == level.share:
        return {query.name: share * query.share for query in level.queries}
    result, total = {query.name: Fraction(0) for query in level.queries}, Fraction(0)
    for below in strategy.levels[strategy.level_names.index(level.name) :]:
        total += below.share
        for query in below.queries:
            into = query.name if query.name in result else level.queries[-1].name
            result[into] += below.share * query.share
        if total == share:
            return result
    raise ParameterError("bad-shares/run", found=str(share), level=level.name)


def law_of(
    strategy: Strategy, level: LevelStrategy, query_share: QueryShare, share: Fraction | None = None
) -> DiscreteGaussian:
    """The noise of a query in a unit of a level; ``share`` where the unit took over that of its only child."""
    parts = unit_shares(strategy, level, level.share if share is None else share)
    loss = ZCDP(strategy.budget * parts[query_share.name])
    law = calibrate(loss, strategy.neighbours)
    assert isinstance(law, DiscreteGaussian)
    return law


def measures_of(strategy: Strategy, units: Mapping[str, int] | None = None) -> tuple[PlannedMeasurement, ...]:
    """Every measurement, level by level, in units that have the share of their level.

    ``units`` is the number of units of each level; without it there is one on each, which costs the same.
    """
    return tuple(
        PlannedMeasurement(
            level.name,
            query_share.name,
            1 if units is None else units[level.name],
            query_share.query.cells,
            law_of(strategy, level, query_share),
            ZCDP(strategy.budget * level.share * query_share.share),
            tuple(variable.attribute.name for variable in query_share.query.variables),
        )
        for level in strategy.levels
        for query_share in level.queries
    )


def stated_of(strategy: Strategy) -> dict[str, Any]:
    """What a plan says of the attributes of a strategy, and of its constraints in codes and columns."""
    return {
        "attributes": {attribute.name: attribute.title for attribute in strategy.schema.attributes},
        "bounds": [_stated(bound) for bound in strategy.constraints.bounds],
        "told": [
            _told(invariant.name, strategy.query(invariant.query), invariant.frame)
            for invariant in strategy.constraints.invariants
            if invariant.frame and invariant.query is not None
        ],
    }


def _stated(bound: FrameBound) -> dict[str, Any]:
    """A bound in codes and columns, as a reader of the release needs it."""
    groups = bound.variable.groups
    listed = [{"codes": list(groups[index].codes), "column": column} for index, column in sorted(bound.frame.items())]
    return {
        "name": bound.name,
        "side": bound.side.value,
        "per_unit": bound.per_unit,
        "attribute": bound.variable.attribute.name,
        "groups": listed,
    }


def _told(name: str, query: Query, frame: Sequence[str]) -> dict[str, Any]:
    """An invariant that the frame tells: for each cell of the query its codes, and the column that is its count."""
    cells = []
    for groups, column in zip(product(*(variable.groups for variable in query.variables)), frame, strict=True):
        chosen = zip(query.variables, groups, strict=True)
        cells.append({"where": {v.attribute.name: list(group.codes) for v, group in chosen}, "column": column})
    return {"name": name, "cells": cells}


def plan_of(strategy: Strategy, units: Mapping[str, int] | None = None, **facts: Any) -> Plan:
    """The plan of a release whose units all have the share of their level; ``facts`` are what else decides it."""
    codes = {attribute.name: [level.code for level in attribute.levels] for attribute in strategy.schema.attributes}
    all_facts = {"strategy": strategy.as_dict()} | stated_of(strategy) | {"output": {"codes": codes}} | facts
    measures = measures_of(strategy, units)
    return Plan("topdown", strategy.neighbours, strategy.definition, measures, strategy.level_names, all_facts)


def account_of(strategy: Strategy, delta: Exact = DELTA) -> StrategyAccount:
    """The account of a strategy at a δ, composed from its measurements."""
    chance = positive(delta, "delta")
    plan = plan_of(strategy)

    def stated(loss: object) -> StrategyLoss:
        assert isinstance(loss, ZCDP)
        return StrategyLoss(loss.rho, epsilons(loss.rho, chance))

    parts = loss_by_attribute(plan)
    names = (attribute.name for attribute in strategy.schema.attributes)
    return StrategyAccount(
        strategy,
        chance,
        stated(plan.loss),
        {name: stated(parts[name]) for name in names if name in parts},
        {name: stated(loss) for name, loss in loss_by_move(plan).items()},
        plan.measures,
        plan.left_by_invariants,
    )
