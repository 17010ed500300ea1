"""The estimate of one node: from measurements and the parent's counts to whole counts of the children.

Least squares pass by pass, then controlled rounding, as the strategy of the level says. Nothing here knows the truth:
it is handed measurements. It is a pure function of arrays, so that any process on any machine gives the same counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Booleans, Floats, Integers
from confide.errors import Finding, Place
from confide.estimation.active_set import InfeasibleError
from confide.estimation.full_tables import FullTables, round_tables, solve_tables
from confide.estimation.least_squares import SolveReport, estimate_totals, quantised, solve
from confide.estimation.node_problem import CellLaw, ChildSums, GroupBounds, MeasuredQuery, NodeProblem, group_sums
from confide.estimation.rounding import Partition, RoundingProblem, RoundingTally, round_counts
from confide.estimation.sectors import Sectors
from confide.mechanisms.topdown.strategy import GroupNumbers, Pass
from confide.schema import TOTAL


@dataclass(frozen=True, eq=False)
class NodeRules:
    """What the strategy says of the nodes of one level, on the cells of the whole histogram."""

    passes: tuple[Pass, ...]
    slack: float
    rounding: tuple[tuple[str, ...], ...]
    groups: Mapping[str, GroupNumbers]
    """The groups of histogram cells of every query that a pass or the rounding names."""
    finest: frozenset[str]
    """The rounding queries whose groups are the cells themselves."""
    limited: Mapping[str, GroupNumbers]
    """The groups of histogram cells of the queries whose counts are limited in each child."""
    zero: Booleans
    """The cells that no record can have."""
    sectors: Sectors | None = None
    """Core and free axes, where units have laws from below."""
    law_passes: tuple[int, ...] = ()
    """The passes whose objective is a law of cells."""
    second_look: bool = False
    """Whether the last pass is made twice, the second time with what the first one says of the sizes of the units."""
    interleaved: bool = False
    """Whether what a pass keeps is made whole before the next one begins."""
    given: GroupNumbers | None = None
    """The groups of histogram cells whose counts in every child are those of another release."""


@dataclass(frozen=True, eq=False)
class Limits:
    """The least and the largest count of each group of a limited query in each child: groups x children."""

    least: Integers
    largest: Integers


@dataclass(frozen=True)
class NodeTally:
    """How the estimates of some nodes came about, added up for the manifest."""

    nodes: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    fallbacks: int = 0
    largest_gap: float = 0.0
    rounding: RoundingTally = field(default_factory=RoundingTally)

    def __add__(self, other: NodeTally) -> NodeTally:
        return NodeTally(
            self.nodes + other.nodes,
            dict(Counter(self.outcomes) + Counter(other.outcomes)),
            self.fallbacks + other.fallbacks,
            max(self.largest_gap, other.largest_gap),
            self.rounding + other.rounding,
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "least_squares": dict(sorted(self.outcomes.items())),
            "fallbacks": self.fallbacks,
            "largest_gap": self.largest_gap,
            "rounding": self.rounding.as_dict(),
        }


@dataclass(frozen=True, eq=False)
class EstimationNode:
    """One parent and its children (or the root: ``parent`` None and ``total`` given), on the cells ``support``.

    ``official_unit_of_child`` and ``official_totals`` are for children that are parts of official units with an
    invariant total.
    """

    support: Integers
    parent: Integers | None
    measured: tuple[MeasuredQuery, ...]
    limits: Mapping[str, Limits]
    children: int
    total: int | None = None
    official_unit_of_child: Integers | None = None
    official_totals: Integers | None = None
    laws: Mapping[int, CellLaw] = field(default_factory=dict)
    """For a pass by its number the law of the cells of each child, in place of measurements."""
    total_law: MeasuredQuery | None = None
    """The total of each child as it and everything below it tell, in place of what was measured."""
    given: tuple[Integers, Integers] | None = None
    """Counts of another release: the groups that a child has anybody in, rising, and groups x children."""


def estimate(node: EstimationNode, rules: NodeRules) -> tuple[Integers, NodeTally]:
    """Whole counts of the children, and how they came about.

    Args:
        node: The parent's counts, the measurements of its children, and what limits them.
        rules: Passes, slack, rounding chain and constraints of the level, on the cells of the whole histogram.

    Returns:
        Counts (cells ``support`` x children, whole and not negative, each row with the parent's sum) and the tally of
        the solvers.
    """
    if rules.interleaved:
        return _in_turns(node, rules)
    problem = _problem(node, rules)
    tally = NodeTally(nodes=1)
    held: list[GroupBounds] = []
    x = np.zeros((len(node.support), node.children))
    # Least squares, pass by pass: what a pass has settled, later ones keep within the slack.
    for number, step in enumerate(rules.passes):
        law = node.laws.get(number)
        queries = tuple(query for query in node.measured if query.name in step.queries)
        if law is not None:
            queries = ()
        elif node.total_law is not None and step.queries == (TOTAL,):
            queries = (node.total_law,)
        current = replace(problem, queries=queries, law=law, bounds=(*problem.bounds, *held))
        last = number == len(rules.passes) - 1
        if step.settles_total and node.parent is not None:
            # A first pass on totals alone has one unknown for each child: it is solved exactly and fast.
            totals, report = estimate_totals(current)
            held.append(_within(TOTAL, np.zeros(len(node.support), np.int64), totals[None, :], rules.slack))
        else:
            x, report = solve(current)
            if last and rules.second_look and node.parent is not None and law is None:
                x, report = solve(
                    replace(current, queries=(*queries, *expected_cells(node, rules, problem.allowed, x)))
                )
            for name in () if last else step.constrain:
                groups, local = np.unique(rules.groups[name][node.support], return_inverse=True)
                answers = group_sums(local.reshape(-1), x, len(groups))
                held.append(_within(name, local.reshape(-1), answers, rules.slack))
        outcome = {report.outcome.value: 1}
        tally += NodeTally(0, outcome, report.fallbacks, report.certificate.relative_gap, RoundingTally())
    # Controlled rounding: the whole counts nearest to the solution that keep sums, limits and invariants.
    rounding = round_counts(_rounding(node, rules, problem.allowed, quantised(x)))
    return rounding.counts, tally + NodeTally(rounding=RoundingTally.of(rounding.report))


def _in_turns(node: EstimationNode, rules: NodeRules) -> tuple[Integers, NodeTally]:
    """Least squares and rounding in turns: each pass makes its answers whole, and they are held from then on.

    A pass works on classes of cells. What is held is a partition of the cells that each pass refines, with whole counts
    in every child, so that each held group is a full table with a solution (:mod:`confide.estimation.full_tables`).
    What limits children stays beside it until what is held refines it.
    """
    possible = np.ones(len(node.support), np.bool_)
    if node.parent is None:
        possible = ~rules.zero[node.support]
        for name, side in node.limits.items():
            possible &= (side.largest[rules.limited[name][node.support]] > 0).any(axis=1)
    held, counts = np.zeros(len(node.support), np.int64), None if node.total is None else np.array([[node.total]])
    if node.given is not None and rules.given is not None:
        numbers, counts = node.given
        groups = rules.given[node.support]
        held = np.searchsorted(numbers, groups)
        possible &= numbers[np.minimum(held, len(numbers) - 1)] == groups
    held = held[possible]
    if counts is not None and (nowhere := np.setdiff1d(np.flatnonzero(counts.any(axis=1)), held)).size:
        raise InfeasibleError([Finding.of("infeasible/child", where=Place(path=f"given group {nowhere[0]}"))])
    support, parent = node.support[possible], None if node.parent is None else node.parent[possible]
    limits = {name: rules.limited[name][support] for name in node.limits}
    tally = NodeTally(nodes=1)
    for number, (step, chain) in enumerate(zip(rules.passes, rules.rounding, strict=True)):
        last = number == len(rules.passes) - 1
        limits = {
            name: groups
            for name, groups in limits.items()
            if len(np.unique(_joined(held, groups))) > len(np.unique(held))
        }
        kept = [np.arange(len(support))] if last else [rules.groups[name][support] for name in step.constrain]
        fixed = _joined(held, *kept)
        # Classes lie one after the other in what is made whole, and that in what is held.
        measured = [query for query in node.measured if query.name in step.queries]
        label = _joined(fixed, *limits.values(), *(query.groups[possible] for query in measured))
        first = np.unique(label, return_index=True)[1]
        sums = None if parent is None else _sums_of(label, parent)
        problem = FullTables(
            sums,
            held[first],
            counts,
            tuple(replace(query, groups=query.groups[possible][first]) for query in measured),
            node.children,
        )
        names = [(name, rules.groups[name][support][first]) for name in chain]
        if limits or (number == 0 and node.official_unit_of_child is not None):
            of_limits = {name: groups[first] for name, groups in limits.items()}
            official = node if number == 0 else replace(node, official_unit_of_child=None, official_totals=None)
            counts, report, rounding = _limited_pass(official, problem, of_limits, fixed[first], names)
        else:
            x, report = solve_tables(problem)
            counts, rounding = round_tables(problem, x, fixed[first], names)
        outcome = {report.outcome.value: 1}
        tally += NodeTally(0, outcome, report.fallbacks, report.certificate.relative_gap, rounding)
        held = fixed
    assert counts is not None, "there is a pass"
    result = np.zeros((len(node.support), node.children), np.int64)
    result[possible] = counts[held]
    return result, tally


def _joined(*groups: Integers) -> Integers:
    """The common refinement of partitions, numbered in lexicographic order."""
    result = groups[0]
    for finer in groups[1:]:
        result = np.unique(result * (int(finer.max(initial=0)) + 2) + finer + 1, return_inverse=True)[1].reshape(-1)
    return np.unique(result, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _sums_of(groups: Integers, counts: Integers) -> Integers:
    sums = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
    np.add.at(sums, groups, counts)
    return sums


def _limited_pass(
    node: EstimationNode,
    problem: FullTables,
    limits: Mapping[str, Integers],
    fixed: Integers,
    chain: Sequence[tuple[str, Integers]],
) -> tuple[Integers, SolveReport, RoundingTally]:
    """A pass beside limits, on classes, by the methods for any constraints: its counts of what is made whole.

    What is rounded tells limited groups apart as well, so that the counts have children that keep the limits.
    """
    general = problem.as_node()
    allowed, bounds = general.allowed, [*general.bounds]
    for name, groups in limits.items():
        allowed = allowed & (node.limits[name].largest[groups] > 0)
        least, largest = (side.astype(np.float64) for side in (node.limits[name].least, node.limits[name].largest))
        bounds.append(GroupBounds(f"limits of {name}", groups, least, largest))
    sums: tuple[ChildSums, ...] = ()
    if node.official_unit_of_child is not None and node.official_totals is not None:
        exact = node.official_totals.astype(np.float64)
        sums = (ChildSums("invariant totals", node.official_unit_of_child, exact, exact),)
    x, report = _unlimited(node, problem, limits) if not sums and allowed.all() else (None, None)
    if x is None or report is None:
        x, report = solve(replace(general, allowed=allowed, bounds=tuple(bounds), child_sums=sums))

    unit = _joined(fixed, *limits.values())
    first = np.unique(unit, return_index=True)[1]
    estimate = np.zeros((len(first), node.children))
    np.add.at(estimate, unit, x)
    partitions = []
    if problem.held is not None:
        partitions.append(Partition("held", problem.group[first], 0, 0, problem.held, problem.held))
    partitions += [Partition(name, _joined(problem.group, groups)[first]) for name, groups in chain]
    for name, groups in limits.items():
        own, side = groups[first], node.limits[name]
        place = sum(len(np.unique(part.groups)) < len(np.unique(own)) for part in partitions)
        partitions.insert(place, Partition(name, own, 0, 0, side.least, side.largest))
    rounded = round_counts(
        RoundingProblem(
            quantised(estimate),
            None if problem.parent is None else _sums_of(unit, problem.parent),
            tuple(partitions),
            allowed=allowed[first],
            child_group=node.official_unit_of_child,
            group_totals=node.official_totals,
        )
    )
    counts = np.zeros((int(fixed.max(initial=-1)) + 1, node.children), np.int64)
    np.add.at(counts, fixed[first], rounded.counts)
    return counts, report, RoundingTally.of(rounded.report)


def _unlimited(
    node: EstimationNode, problem: FullTables, limits: Mapping[str, Integers]
) -> tuple[Floats | None, SolveReport | None]:
    """The estimate without limits, if it keeps them: then it is the one with limits, too. Limits are wide in large
    units, whose problems are the largest."""
    of_variables, report = solve_tables(problem)
    x = problem.layout.dense(of_variables)
    for name, groups in limits.items():
        side = node.limits[name]
        sums = group_sums(groups, x, len(side.least))
        if (sums < side.least - KEPT).any() or (sums > side.largest + KEPT).any():
            return None, None
    return x, report


KEPT = 1e-6
"""By how much an estimate may miss a limit: rounding keeps it exactly."""
UNLIKE = 4.0
"""How many times the variance of chance the units of a parent differ by in a kind of people, at least."""
LIKE_NEIGHBOURS = 8.0
"""People live together as if a unit took after so many of them: the larger it is, the more it differs from others."""
LEAST_VARIANCE = 0.02


def expected_cells(node: EstimationNode, rules: NodeRules, allowed: Booleans, first: Floats) -> Iterator[MeasuredQuery]:
    """What the sizes of the units, as a first estimate has them, tell of where the people of each cell are.

    Of the n people that the parent has in a cell, a unit of N people, the part p of all, is expected to have np, with
    the variance np(1 − p) · max(``UNLIKE``, 1 + N/``LIKE_NEIGHBOURS``): that of chance, wider because people of a kind
    live together. Where each unit has shares of its own, with a Dirichlet law, counts have such a variance: the larger
    a unit is, the more its shares show beside chance. A measurement of one cell is far noisier where n is small, and
    least squares without this would give such people to whatever unit has the largest noise. Parts are of the people in
    the group of the limited query that the cell is in, because quarters are elsewhere than homes. Cells whose n have
    the same power of two have one variance. Where a first estimate is much further from what is expected than that,
    such as in the one block of a town that has a prison, half its own squared distance is the variance.
    """
    assert node.parent is not None
    groups = np.zeros(len(node.support), np.int64)
    for limited in rules.limited.values():
        groups = limited[node.support]
    part, wider = np.zeros(first.shape), np.zeros(first.shape)
    for group in np.unique(groups).tolist():
        own = groups == group
        sizes = allowed[own] * (first[own].sum(axis=0) + 0.5)
        part[own] = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), LEAST_VARIANCE)
        wider[own] = np.maximum(UNLIKE, 1 + sizes / LIKE_NEIGHBOURS)
    expected = node.parent[:, None] * part
    likely, squares = wider * expected * (1 - part), np.square(first - expected)
    power = np.frexp(node.parent.astype(np.float64))[1]
    kinds, kind = np.unique(np.stack([groups > 0, power]), axis=1, return_inverse=True)
    for label in range(kinds.shape[1]):
        chosen = np.flatnonzero(kind.reshape(-1) == label)
        place = np.full(len(groups), -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        variance = np.maximum(likely[chosen].mean(axis=0), squares[chosen].mean(axis=0) / 2) + LEAST_VARIANCE
        yield MeasuredQuery(f"expected {label}", place, expected[chosen], 1 / variance)


def _within(name: str, groups: Integers, answers: Floats, slack: float) -> GroupBounds:
    return GroupBounds(f"{name}, as in an earlier pass", groups, answers - slack, answers + slack)


def _problem(node: EstimationNode, rules: NodeRules) -> NodeProblem:
    allowed = np.repeat(~rules.zero[node.support][:, None], node.children, axis=1)
    bounds = []
    for name, limits in node.limits.items():
        groups = rules.limited[name][node.support]
        allowed &= limits.largest[groups] > 0
        lower, upper = limits.least.astype(np.float64), limits.largest.astype(np.float64)
        bounds.append(GroupBounds(f"limits of {name}", groups, lower, upper))
    sums: tuple[ChildSums, ...] = ()
    if node.official_unit_of_child is not None and node.official_totals is not None:
        exact = node.official_totals.astype(np.float64)
        sums = (ChildSums("invariant totals", node.official_unit_of_child, exact, exact),)
    return NodeProblem(node.parent, allowed, (), tuple(bounds), sums, node.total)


def _rounding(node: EstimationNode, rules: NodeRules, allowed: Booleans, x: Floats) -> RoundingProblem:
    chain: list[Partition] = []
    cell_weight, cell_pass = 0, 0
    for number, names in enumerate(rules.rounding):
        for name in names:
            if name in rules.finest:
                cell_weight, cell_pass = cell_weight + 1, number
            else:
                chain.append(Partition(name, rules.groups[name][node.support], number))
    partitions = _with_limits(node, rules, chain)
    child_group, group_totals = node.official_unit_of_child, node.official_totals
    if node.total is not None:
        child_group, group_totals = np.zeros(1, np.int64), np.array([node.total])
    return RoundingProblem(
        x, node.parent, tuple(partitions), max(1, cell_weight), cell_pass, allowed, child_group, group_totals
    )


def _with_limits(node: EstimationNode, rules: NodeRules, chain: list[Partition]) -> list[Partition]:
    """The rounding queries with the limits of those that have any; a limited query that is not among them is put in
    where it belongs from coarse to fine, and carries its limits alone."""
    groups_of_query = dict(rules.groups) | dict(rules.limited)
    partitions = list(chain)
    for name, limits in node.limits.items():
        groups = rules.limited[name]
        place = sum(_count(groups_of_query[partition.name]) < _count(groups) for partition in partitions)
        if place == len(partitions) or not _same(groups_of_query[partitions[place].name], groups):
            in_pass = partitions[place].in_pass if place < len(partitions) else len(rules.rounding) - 1
            partitions.insert(place, Partition(name, groups[node.support], in_pass, weight=0))
        partitions[place] = replace(partitions[place], lower=limits.least, upper=limits.largest)
    return partitions


def _count(groups: GroupNumbers) -> int:
    return int(groups.max()) + 1


def _same(one: GroupNumbers, other: GroupNumbers) -> bool:
    cells = np.arange(len(one))
    return one is other or (_count(one) == _count(other) and np.array_equal(one[cells], other[cells]))


class UnitLaws:
    """What units and everything below them tell (``from_below``), read from rows: numbers travel as their bits.

    Args:
        sectors: Core and free axes.
        passes: The passes whose objective is a law of cells.
    """

    def __init__(self, sectors: Sectors, passes: tuple[int, ...]):
        self._sectors, self._passes = sectors, passes
        self._total: dict[int, tuple[float, float]] = {}
        self._kind: dict[int, int] = {}
        self._mean: dict[int, Floats] = {}
        self._matrices: dict[tuple[int, int], Floats] = {}

    def read_totals(self, unit: Integers, precision: Integers, mean: Integers) -> None:
        """The total of each unit: the bits of its precision and of its mean."""
        values = zip(_floats(precision).tolist(), _floats(mean).tolist(), strict=True)
        self._total |= dict(zip(unit.tolist(), values, strict=True))

    def read_laws(self, unit: Integers, kind: Integers, mean: pa.ListArray) -> None:
        """The kind of each unit, and the bits of the mean of its cells, core x copies."""
        shape = (len(unit), self._sectors.size, self._sectors.copies)
        self._kind |= dict(zip(unit.tolist(), kind.tolist(), strict=True))
        self._mean |= dict(zip(unit.tolist(), _floats(mean.flatten().to_numpy()).reshape(shape), strict=True))

    def read_matrices(self, kind: Integers, number: Integers, information: pa.ListArray) -> None:
        """The information of each kind in each pass: its bits, sectors x core x core."""
        shape = (len(kind), len(self._sectors.sectors), self._sectors.size, self._sectors.size)
        keys = zip(kind.tolist(), number.tolist(), strict=True)
        self._matrices |= dict(zip(keys, _floats(information.flatten().to_numpy()).reshape(shape), strict=True))

    def total(self, units: Integers, cells: int) -> MeasuredQuery | None:
        """The law of the totals of some units, on so many cells; None where there is none."""
        if not self._total:
            return None
        weights, means = np.array([self._total[unit] for unit in units.tolist()]).T
        return MeasuredQuery(TOTAL, np.zeros(cells, np.int64), means[None, :], weights)

    def of(self, units: Integers, support: Integers) -> dict[int, CellLaw]:
        """For each pass with one the law of the cells of some units."""
        if not self._passes:
            return {}
        kinds, kind = np.unique([self._kind[unit] for unit in units.tolist()], return_inverse=True)
        mean = np.stack([self._mean[unit] for unit in units.tolist()])
        return {
            number: CellLaw(
                self._sectors,
                support,
                kind.reshape(-1),
                np.stack([self._matrices[one, number] for one in kinds.tolist()]),
                mean,
            )
            for number in self._passes
        }


def _floats(bits: Integers) -> Floats:
    return np.ascontiguousarray(bits, np.int64).view(np.float64)
