"""Targets in words: how far off a figure may be, in which areas, and how often.

    total <= 5 in tract @95%
    hispanic <= 20 in county, place @90%
    total <= 1% in place >= 500
    share of the largest hispanic*cenrace group <= 5pp in block_group, place >= 500 @95%

A target is met if, in every area that it names, the margin z·sd of the figure is within the limit: z is the quantile of
the normal law for the probability after ``@``, 95 per cent where none is given. ``>=`` leaves out areas with fewer
people; it holds for all kinds of area of the target. Of a query with several cells, every cell is meant.

A share is that of one cell in everybody: with N people in an area, p the share of the largest group, E its error and
E_N that of the total, the share is off by (E − p E_N)/N to the first order. Areas, N and p come from people who are
made up, or published: :mod:`confide.inference.tuning`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, product
from math import ceil, floor, log10
from pathlib import Path
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from confide.arrays import Floats, Integers
from confide.documents import load_named
from confide.errors import ConfideError, Finding, ParameterError
from confide.estimation import SectorCount, Sectors, tree_design
from confide.geography import OUTSIDE
from confide.mechanisms.topdown.evaluate import EvaluationGeography, geographies
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.from_below import PlannedTree, planned_tree
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.mechanisms.topdown.strategy import BY_QUERY, OWN, TREE, LevelStrategy, Strategy, unit_shares
from confide.mechanisms.topdown.strategy_file import STRATEGY, StrategyFile
from confide.releases.draft import toml_value
from confide.releases.spec import LoadedSpec
from confide.schema import DETAILED, TOTAL
from confide.utility.target_words import CHANCE, bad_target, meant, nearest, split_target

PARTS = 10_000
"""Shares that are found are whole numbers of such parts."""
DIGITS = 4
"""Budgets that are found have so many digits, rounded up."""
SMALL = Fraction(1, 10**6)
"""A budget with which no noise is often zero."""
NOTHING = 1e-9
"""Targets that need less than this need no budget: their figures are known, but for rounding, or may be anything."""
_LARGEST = re.compile(r"share\s+of\s+(?:the\s+)?largest\s+(?:group\s+of\s+)?(.+?)(?:\s+group)?$", re.IGNORECASE)
_SHORT = re.compile(r"share\s*:\s*(.+)", re.IGNORECASE)
_MADE = re.compile(r"(?:made\s+(\w+)|(\w+)\s*\(\s*made\s*\))$", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """One target, read."""

    text: str
    query: str
    """What is counted; of a share, the query whose largest cell it is."""
    limit: Fraction
    """The largest margin: in records, or as a part of one where ``of_share`` or ``relative``."""
    kinds: tuple[str, ...]
    """The kinds of area: levels, areas of the frame, or what the spine makes."""
    of_share: bool = False
    relative: bool = False
    """Whether the limit is a part of the area's own count."""
    least: int = 0
    """Areas with fewer people do not count."""
    chance: Fraction = CHANCE

    @property
    def quantile(self) -> float:
        """z: noise is within z standard deviations with the target's probability."""
        return NormalDist().inv_cdf((1 + float(self.chance)) / 2)

    def largest_variance(self, people: Floats) -> Floats:
        """τ of each area: the variance at which its margin is just the limit."""
        limit = float(self.limit) * (people if self.relative else 1.0)
        return np.asarray(np.broadcast_to((limit / self.quantile) ** 2, people.shape), np.float64)

    @property
    def needs_people(self) -> bool:
        """Whether the target asks how many people there are in an area, or of which kind."""
        return self.of_share or self.relative or self.least > 0

    @property
    def unit(self) -> str:
        """The unit of the limit, for people."""
        return "points" if self.of_share else "per cent" if self.relative else "records"


def parse_target(text: str, strategy: Strategy, kinds: Sequence[str]) -> Target:
    """A target in words.

    Args:
        text: See the head of the module.
        strategy: Whose queries can be named.
        kinds: The kinds of area that there are.

    Returns:
        The target; raises with what is wrong, what is expected, and what may have been meant.
    """
    words = split_target(text)
    statistic, of_points = words.statistic, words.unit == "points"
    largest = _LARGEST.fullmatch(statistic) or _SHORT.fullmatch(statistic)
    if largest is None and statistic.lower().startswith("share"):
        raise bad_target("bad-target/share", text, found=statistic)
    query = _query(text, strategy, statistic if largest is None else largest.group(1))
    if largest is not None and query == TOTAL:
        raise bad_target("bad-target/everybody", text, found=largest.group(1))
    if largest is not None and not of_points:
        raise bad_target("bad-target/limit-share-points", text, found=words.amount, limit=words.limit)
    if largest is None and of_points:
        raise bad_target("bad-target/shares", text, found=words.amount, limit=words.limit)
    if words.unit == "%" and query != TOTAL:
        raise bad_target("bad-target/totals", text, found=words.amount)
    return Target(
        words.text,
        query,
        words.limit / 100 if words.unit else words.limit,
        tuple(_kind(text, name, kinds) for name in words.kinds),
        largest is not None,
        words.unit == "%",
        words.least,
        words.chance,
    )


def _query(text: str, strategy: Strategy, name: str) -> str:
    names = dict.fromkeys((TOTAL, *strategy.schema.variables, *strategy.measured))
    query = "*".join(meant(part.strip(), names) for part in name.replace("×", "*").split("*"))
    try:
        asked = strategy.query(query)
    except ConfideError as error:
        raise bad_target(
            "bad-target/schema",
            text,
            found=name,
            what=error.findings[0].what,
            names=", ".join(names),
            remedy=nearest(query, names),
        ) from None
    return DETAILED if query == DETAILED else asked.name


def _kind(text: str, name: str, kinds: Sequence[str]) -> str:
    match = _MADE.fullmatch(name)
    wanted = meant(f"{match.group(1) or match.group(2)} (made)" if match else name, kinds)
    if wanted in kinds:
        return wanted
    made_kind = meant(f"{name} (made)", kinds)
    if made_kind in kinds:
        return made_kind
    raise bad_target(
        "bad-target/kind-area", text, found=name, name=name, kinds=", ".join(kinds), remedy=nearest(name, kinds)
    )


def parse_targets(texts: Sequence[str], problem: TopDownProblem) -> tuple[Target, ...]:
    """All targets, with every mistake at once."""
    kinds = [geography.name for geography in geographies(problem)]
    findings: list[Finding] = []
    result: list[Target] = []
    for text in texts:
        try:
            result.append(parse_target(text, problem.strategy, kinds))
        except ParameterError as error:
            findings += error.findings
    if findings:
        raise ParameterError(findings)
    return tuple(result)


# From targets to linear functions of cells with limits.


class KnownPeople(Protocol):
    """What is known of people by area, from anything but the confidential records."""

    def total(self, geography: EvaluationGeography) -> Floats:
        """How many people each area has."""
        ...

    def largest(self, geography: EvaluationGeography, query: str) -> tuple[Integers, Floats]:
        """For each area the largest cell of a query and its share; −1 and NaN where nobody knows."""
        ...


class AreaDesign(Protocol):
    """What functions of areas are made with."""

    @property
    def sectors(self) -> Sectors:
        """Core and free axes."""

    def area_counts(self, area_of_block: Integers, vectors: Floats, /) -> tree_design.AreaFunctions:
        """Functions of areas that no two share a block of."""


@dataclass(frozen=True, eq=False)
class LimitedCounts:
    """What a target limits in one kind of area: a linear function for each area and kind of cell, with its limit."""

    target: Target
    geography: EvaluationGeography
    areas: Integers
    """For each function its area."""
    people: Floats
    """How many people that area has; NaN where nobody asked."""
    counts: tree_design.AreaFunctions
    limits: Floats
    """τ: the largest variance."""

    def binding(self, variances: Floats) -> int:
        """The function that needs the largest budget."""
        return int(np.argmax(variances / self.limits))

    def code(self, function: int) -> str:
        """The code of the area of a function."""
        return self.geography.codes[int(self.areas[function])]


def limited_counts(
    problem: TopDownProblem, design: AreaDesign, targets: Sequence[Target], people: KnownPeople | None
) -> list[LimitedCounts]:
    """What the targets limit, kind of area by kind of area.

    Args:
        problem: Strategy, frame and spine.
        design: The tree of the plan, or its levels one by one.
        targets: What is wanted.
        people: How many people areas have; needed where a target asks for it.
    """
    known = {geography.name: geography for geography in geographies(problem)}
    result = []
    for target in targets:
        for kind in target.kinds:
            limited = _limited(problem, design, target, known[kind], people)
            if limited is None:
                raise bad_target("bad-target/counts", target.text, kind=kind, least=target.least)
            result.append(limited)
    return result


def _limited(
    problem: TopDownProblem,
    design: AreaDesign,
    target: Target,
    geography: EvaluationGeography,
    people: KnownPeople | None,
) -> LimitedCounts | None:
    sectors, area = design.sectors, geography.unit_of_block[problem.spine.rows]
    there = np.bincount(area[area != OUTSIDE], minlength=geography.units) > 0
    size = np.full(geography.units, np.nan)
    if target.needs_people:
        assert people is not None
        size = people.total(geography)
        there &= (size >= max(target.least, 1)) & np.isfinite(size)
    chosen = np.flatnonzero(there)
    if not len(chosen):
        return None
    if not target.of_share:
        cells = distinct_cells(sectors, cells_of(problem.strategy, sectors, target.query))
        parts = [(chosen, tree_design.vectors_of(sectors, [cell], np.ones((len(chosen), 1)))) for cell in cells]
    else:
        assert people is not None
        parts = list(_share_vectors(problem, sectors, target, geography, people, chosen, size))
    areas = np.concatenate([part for part, _ in parts])
    listed = []
    for members, vector in parts:
        place = np.full(geography.units + 1, -1, np.int64)  # the last entry is what OUTSIDE finds
        place[members] = np.arange(len(members))
        listed.append(design.area_counts(place[area], vector))
    limits = target.largest_variance(size[areas])
    return LimitedCounts(target, geography, areas, size[areas], tree_design.joined_counts(listed), limits)


def _share_vectors(
    problem: TopDownProblem,
    sectors: Sectors,
    target: Target,
    geography: EvaluationGeography,
    people: KnownPeople,
    chosen: Integers,
    size: Floats,
) -> Iterable[tuple[Integers, Floats]]:
    """(c − p·1)/N of each area, for its largest cell. Where that is not known it is every kind of cell; and where p is
    not, both p = 0 and p = 1, since the variance is convex in p."""
    cells, everybody = cells_of(problem.strategy, sectors, target.query), sectors.count({})
    largest, share = people.largest(geography, target.query)
    kinds = [(cell, cells[cell]) for cell in np.unique(largest[chosen]).tolist() if cell >= 0]
    kinds += [(-1, cell) for cell in distinct_cells(sectors, cells)] if (largest[chosen] < 0).any() else []
    for number, cell in kinds:
        own = chosen[largest[chosen] == number]
        for members, shares in (
            (own[np.isfinite(share[own])], share),
            (own[~np.isfinite(share[own])], np.zeros(geography.units)),
            (own[~np.isfinite(share[own])], np.ones(geography.units)),
        ):
            if len(members):
                coefficients = np.stack([np.ones(len(members)), -shares[members]], axis=1) / size[members, None]
                yield members, tree_design.vectors_of(sectors, [cell, everybody], coefficients)


def cells_of(strategy: Strategy, sectors: Sectors, query: str) -> list[SectorCount]:
    """The cells of a query, in C order, each a product of sets of levels."""
    groups = strategy.grouping(query)
    listed = product(*([(axis, g == k) for k in range(int(g.max()) + 1)] for axis, g in groups.items()))
    return [sectors.count(dict(cell)) for cell in listed]


def distinct_cells(sectors: Sectors, cells: Sequence[SectorCount]) -> list[SectorCount]:
    """One cell of each kind: cells whose variances are the same whatever is measured stand for each other."""
    return list({_kind_of_cell(sectors, cell): cell for cell in reversed(cells)}.values())[::-1]


def cell_weights(sectors: Sectors, cells: Sequence[SectorCount]) -> Floats:
    """How many cells each of the :func:`distinct_cells` stands for."""
    kinds = Counter(_kind_of_cell(sectors, cell) for cell in cells)
    return np.array([kinds[_kind_of_cell(sectors, cell)] for cell in distinct_cells(sectors, cells)], np.float64)


def _kind_of_cell(sectors: Sectors, cell: SectorCount) -> tuple[bytes, tuple[float, ...]]:
    return cell.core.tobytes(), tuple(sectors.weights(cell).round(12).tolist())


def price_list(margins: Iterable[int], chance: Fraction = CHANCE) -> list[Mapping[str, float]]:
    """What it costs to publish one query on one level within ±m, all cells of all units, without the help of others.

    ρ = (z/m)², since noise of variance σ² costs 1/σ² where one record changes, and z·σ is the margin.

    Args:
        margins: The margins m.
        chance: How often noise is within the margin.

    Returns:
        For each margin its rho.

    >>> [round(row["rho"], 4) for row in price_list([1, 5, 10])]
    [3.8415, 0.1537, 0.0384]
    """
    z = NormalDist().inv_cdf((1 + float(chance)) / 2)
    return [{"margin": margin, "rho": (z / margin) ** 2} for margin in margins]


# From limits to shares. A share here is that of one query on one level in the whole budget. With only children bypassed
# query by query the precision of every measurement is a sum of such shares, times the budget
# (:mod:`confide.estimation.tree_design`). Exact fractions come from rounding: shares of levels, and of queries within a
# level, in parts of 10,000, none of them zero, with the largest remainders rounded up; what they need is then computed
# again from the rounded ones.


@dataclass(frozen=True, eq=False)
class ShareDesign:
    """The variances of everything that a strategy could publish, as functions of its shares.

    Args:
        problem: Strategy, frame and spine. No record is looked at.
    """

    problem: TopDownProblem

    @cached_property
    def tree(self) -> PlannedTree:
        """The tree of the plan."""
        problem = self.problem
        variance = lambda law: float(law.parameter)  # noqa: E731
        return planned_tree(problem.strategy, problem.spine, plan_problem(problem), problem.columns, variance=variance)

    @cached_property
    def design(self) -> tree_design.TreeDesign:
        """The tree with precisions left open."""
        tree = self.tree
        matrices = [tree.sectors.information([(query, 1.0)]) for query in tree.queries.values()]
        return tree_design.TreeDesign(tree.covariances, np.stack(matrices))

    @cached_property
    def unknowns(self) -> tuple[tuple[str, str], ...]:
        """Level and query of every share."""
        return tuple((level.name, query.name) for level in self.problem.strategy.levels for query in level.queries)

    def shares_of(self, strategy: Strategy) -> Floats:
        """The shares of a strategy with the same levels and queries."""
        parts = {
            (level.name, query.name): float(level.share * query.share)
            for level in strategy.levels
            for query in level.queries
        }
        return np.array([parts[unknown] for unknown in self.unknowns])

    def precisions(self, strategy: Strategy) -> list[Floats]:
        """The precisions of a strategy with a budget of one, as it bypasses only children: levels of the tree, each
        classes x queries."""
        names, result = list(self.tree.queries), [np.zeros((0, len(self.tree.queries))) for _ in self._levels]
        for position, level in zip(self.tree.position, self.problem.spine.levels, strict=True):
            own = strategy.level(level.name)
            rows = []
            for first, last in self._runs(level.name):
                share = sum((each.share for each in strategy.levels[first:last]), Fraction(0))
                parts = unit_shares(strategy, own, share)
                rows.append([float(parts.get(name, 0)) for name in names])
            result[position] = np.array(rows).reshape(-1, len(names))
        return result

    @property
    def _levels(self) -> Sequence[Any]:
        return self.tree.covariances.levels

    def _runs(self, name: str) -> list[tuple[int, int]]:
        """For each class of units of a level that is measured, the levels whose shares it has: from one to another."""
        return [run for run in self.problem.share_runs[name] if run is not None]

    @cached_property
    def linear(self) -> tree_design.LinearPrecisions:
        """Precisions by shares, where only children are bypassed query by query."""
        names, strategy = list(self.tree.queries), self.problem.strategy
        loads = [np.zeros((0, len(names), len(self.unknowns))) for _ in self._levels]
        for position, level in zip(self.tree.position, self.problem.spine.levels, strict=True):
            runs = self._runs(level.name)
            load = np.zeros((len(runs), len(names), len(self.unknowns)))
            own = [query.name for query in strategy.level(level.name).queries]
            for row, (first, last) in enumerate(runs):
                for below in strategy.levels[first:last]:
                    for query in below.queries:
                        into = query.name if query.name in own else own[-1]
                        load[row, names.index(into), self.unknowns.index((below.name, query.name))] += 1
            loads[position] = load
        return tree_design.LinearPrecisions(tuple(loads))

    def variances(self, strategy: Strategy, *counts: tree_design.AreaFunctions) -> list[Floats]:
        """The variances of counts with a budget of one, list by list."""
        return [np.maximum(each, 0.0) for each in self.design.variances(self.precisions(strategy), *counts)]

    def best(self, counts: tree_design.AreaFunctions, limits: Floats, keep: Fraction) -> tree_design.BestShares:
        """The shares that need the least budget, each at least the part ``keep`` of what it is now."""
        present = self.shares_of(self.problem.strategy)
        # Halfway to equal shares: what has next to nothing now may be what the targets need.
        begin = present / 2 + 1 / (2 * len(present))
        return tree_design.best_shares(
            [tree_design.LimitedVariances(self.design, self.linear, counts, limits)], begin, float(keep) * present
        )

    def with_shares(self, shares: Floats, budget: Fraction) -> Strategy:
        """The strategy with other shares, as exact fractions: only children are bypassed query by query.

        Estimates start from all that is below (``evidence = "tree"``): the shares are the best for least squares on the
        whole tree, and leave next to nothing to levels that learn from those below.
        """
        strategy = self.problem.strategy
        by_level = [shares[[level == own.name for level, _ in self.unknowns]] for own in strategy.levels]
        of_levels = rounded_parts(np.array([part.sum() for part in by_level]))
        levels: list[LevelStrategy] = []
        for own, part, share in zip(strategy.levels, by_level, of_levels, strict=True):
            rounded = rounded_parts(part / part.sum())
            queries = tuple(replace(query, share=s) for query, s in zip(own.queries, rounded, strict=True))
            levels.append(replace(own, share=share, queries=queries))
        return replace(strategy, levels=tuple(levels), budget=budget, bypass=BY_QUERY, evidence=TREE)


@dataclass(frozen=True, eq=False)
class OwnDesign:
    """The variances of what a strategy publishes if every unit is estimated from its own measurements, by its budget.

    It takes the place of a :class:`ShareDesign` for a strategy with ``evidence = "own"``, whose figures are not least
    squares on the whole tree: its numbers are those of :class:`~.figure_noise.TopDownNoise`.

    Args:
        problem: Strategy, frame and spine. No record is looked at.
    """

    problem: TopDownProblem

    @cached_property
    def _noise(self) -> TopDownNoise:
        """With so small a budget that the variance of noise is its parameter, and goes by one over it."""
        return TopDownNoise(replace(self.problem, strategy=self.problem.strategy.with_budget(SMALL)))

    @property
    def sectors(self) -> Sectors:
        """Core and free axes."""
        return self._noise.sectors

    def area_counts(self, _area_of_block: Integers, vectors: Floats) -> tree_design.AreaFunctions:
        """Functions of areas by their vectors alone: which units an area has is a matter of its noise by level."""
        return tree_design.AreaFunctions((), (), vectors)

    def variances(self, limited: LimitedCounts) -> Floats:
        """The variances of what a target limits, with a budget of one; infinite where nothing determines it."""
        total = not limited.target.of_share and limited.target.query == TOTAL
        vectors, areas = limited.counts.vectors, limited.geography.areas
        return self._noise.of_functions(vectors, areas, limited.areas, total=total) * float(SMALL)


def rounded_parts(shares: Floats, parts: int = PARTS) -> list[Fraction]:
    """Shares as whole numbers of equal parts, none of them zero, that sum to one exactly.

    Args:
        shares: Positive numbers that sum to one.
        parts: How many parts there are.

    Returns:
        The fractions; the largest remainders are rounded up.

    >>> rounded_parts(np.array([0.5, 0.3333, 0.1667]), 10)
    [Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)]
    """
    scaled = shares / shares.sum() * parts
    numbers = np.maximum(np.floor(scaled).astype(np.int64), 1)
    for _ in range(abs(parts - int(numbers.sum()))):
        lacking = int(numbers.sum()) < parts
        rest = scaled - numbers
        place = int(np.argmax(rest)) if lacking else int(np.argmin(np.where(numbers > 1, rest, np.inf)))
        numbers[place] += 1 if lacking else -1
    assert int(numbers.sum()) == parts
    return [Fraction(int(number), parts) for number in numbers]


def budget_above(needed: float) -> Fraction:
    """An exact budget of few digits that is no less.

    >>> budget_above(0.0216512)
    Fraction(1083, 50000)
    """
    exponent = DIGITS - 1 - floor(log10(needed))
    scale = Fraction(10) ** exponent
    return Fraction(ceil(Fraction(needed) * scale)) / scale


# The strategy as a file.


def text_beside(strategy: Strategy, loaded: LoadedSpec, file: Path) -> str:
    """The text of a strategy file: with estimation and constraints of the one that a spec names, and the schema as it
    is found from the new file."""
    spec, base = loaded.spec, loaded.path.parent
    assert isinstance(spec, TopDownSpec)
    source = load_named(spec.topdown.strategy, base, StrategyFile, kind=STRATEGY)
    schema = source.values["schema"]
    if isinstance(schema, str):
        for folder in (base, source.path.parent):
            if (folder / schema).is_file():
                schema = Path(os.path.relpath((folder / schema).resolve(), file.resolve().parent)).as_posix()
                break
    return strategy_text(strategy, source.values, schema)


def strategy_text(strategy: Strategy, file: Mapping[str, Any], schema: str | Mapping[str, Any]) -> str:
    """The text of a strategy file with one root.

    Args:
        strategy: What the file says of its root.
        file: The values of the file that the strategy comes from: estimation and constraints are taken from it.
        schema: The schema: a name, a path relative to the new file, or the schema itself.

    Returns:
        A TOML file that reads back to the same strategy.
    """
    first, *_, last = strategy.levels
    names = [*strategy.level_names[:-1], "block"]
    assert first.name != last.name
    lines = [
        f"id = {toml_value(strategy.id)}",
        f"title = {toml_value(strategy.title)}",
        f"provenance = {toml_value(strategy.provenance)}",
        f"record = {toml_value(strategy.record)}",
        *([f"schema = {toml_value(schema)}"] if isinstance(schema, str) else []),
        f"definition = {toml_value(strategy.definition.value)}",
        f"neighbours = {toml_value(strategy.neighbours.value)}",
        f"root = {toml_value(strategy.root)}",
        f"bypass = {toml_value(strategy.bypass)}",
    ]
    lines += [f"{key} = {toml_value(file[key])}" for key in ("blocks_with", "apart") if file.get(key)]
    lines += [f"evidence = {toml_value(strategy.evidence)}"] if strategy.evidence != OWN else []
    estimations = {level.estimation.name for level in strategy.levels}
    lines += [
        "",
        f"[roots.{strategy.root}]",
        f'budget = "{strategy.budget}"',
        f"levels = {toml_value(names)}",
        f"shares = {toml_value([str(level.share) for level in strategy.levels])}",
        f"estimation = {toml_value([level.estimation.name for level in strategy.levels])}",
        "",
        f"[roots.{strategy.root}.queries]",
    ]
    for name in _in_order(strategy):
        shares = [{q.name: str(q.share) for q in level.queries}.get(name, "-") for level in strategy.levels]
        lines.append(f"{toml_value(name)} = {toml_value(shares)}")
    if not isinstance(schema, str):
        lines += ["", "[schema]", *(f"{key} = {toml_value(each)}" for key, each in schema.items())]
    for name, values in file["estimation"].items():
        if name in estimations:
            lines += ["", f"[estimation.{name}]", *(f"{key} = {toml_value(each)}" for key, each in values.items())]
    for key in ("invariants", "bounds", "zeros"):
        for part in file.get(key, ()):
            if part.get("level", "block") in names:
                lines += ["", f"[[{key}]]", *(f"{name} = {toml_value(each)}" for name, each in part.items())]
    return "\n".join(lines) + "\n"


def _in_order(strategy: Strategy) -> list[str]:
    """All queries in an order that every level keeps: which one a level lists last may matter (``unit_shares``)."""
    before: dict[str, set[str]] = {}
    for level in strategy.levels:
        names = [query.name for query in level.queries]
        for earlier, later in pairwise((None, *names)):
            before.setdefault(str(later), set()).update(() if earlier is None else (earlier,))
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError:
        return list(before)
