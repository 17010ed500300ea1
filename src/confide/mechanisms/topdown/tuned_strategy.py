"""Shares of a strategy as unknowns: what budget targets need with given shares and with the best ones, and the strategy
file with those.

A share here is that of one query on one level in the whole budget. With only children bypassed query by query the
precision of every measurement is a sum of such shares, times the budget: :mod:`confide.estimation.tree_design`.
Exact fractions come from rounding: shares of levels, and of queries within a level, in parts of 10,000, none of them
zero, with the largest remainders rounded up; what they need is then computed again from the rounded ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import ceil, floor, log10
from typing import Any

import numpy as np

from confide.arrays import Floats, Integers
from confide.estimation.sectors import Sectors
from confide.estimation.tree_design import (
    AreaFunctions,
    BestShares,
    LimitedVariances,
    LinearPrecisions,
    TreeDesign,
    best_shares,
)
from confide.geography import AreaSet
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem
from confide.mechanisms.topdown.strategy import BY_QUERY, OWN, TREE, LevelStrategy, Strategy, unit_shares
from confide.mechanisms.topdown.targets import LimitedCounts
from confide.mechanisms.topdown.whole_tree import PlannedTree, planned_tree
from confide.releases.draft import toml_value
from confide.schema import TOTAL

PARTS = 10_000
"""Shares that are found are whole numbers of such parts."""
DIGITS = 4
"""Budgets that are found have so many digits, rounded up."""
SMALL = Fraction(1, 10**6)
"""A budget with which no noise is often zero."""
NOTHING = 1e-9
"""Targets that need less than this need no budget: their figures are known, but for rounding, or may be anything."""


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
    def design(self) -> TreeDesign:
        """The tree with precisions left open."""
        tree = self.tree
        matrices = [tree.sectors.information([(query, 1.0)]) for query in tree.queries.values()]
        return TreeDesign(tree.covariances, np.stack(matrices))

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
    def linear(self) -> LinearPrecisions:
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
        return LinearPrecisions(tuple(loads))

    def variances(self, strategy: Strategy, *counts: AreaFunctions) -> list[Floats]:
        """The variances of counts with a budget of one, list by list."""
        return [np.maximum(each, 0.0) for each in self.design.variances(self.precisions(strategy), *counts)]

    def best(self, counts: AreaFunctions, limits: Floats, keep: Fraction) -> BestShares:
        """The shares that need the least budget, each at least the part ``keep`` of what it is now."""
        present = self.shares_of(self.problem.strategy)
        # Halfway to equal shares: what has next to nothing now may be what the targets need.
        begin = present / 2 + 1 / (2 * len(present))
        return best_shares([LimitedVariances(self.design, self.linear, counts, limits)], begin, float(keep) * present)

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

    It stands where a :class:`ShareDesign` does for a strategy with ``evidence = "own"``, whose figures are not least
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

    def area_counts(self, _area_of_block: Integers, vectors: Floats) -> AreaFunctions:
        """Functions of areas by their vectors alone: which units an area has is a matter of its noise by level."""
        return AreaFunctions((), (), vectors)

    def variances(self, limited: LimitedCounts) -> Floats:
        """The variances of what a target limits, with a budget of one; infinite where nothing determines it."""
        total = not limited.target.of_share and limited.target.query == TOTAL
        kind = limited.geography
        areas = AreaSet.partition(kind.name, kind.codes, kind.unit_of_block)
        return self._noise.of_functions(limited.counts.vectors, areas, limited.areas, total=total) * float(SMALL)


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
