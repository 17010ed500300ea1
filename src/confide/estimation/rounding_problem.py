"""What controlled rounding is asked: a real solution, sums that must hold, and a chain of partitions to stay close to.

Let ``X`` (cells × children, non-negative) be the least-squares solution below one parent, ``f = floor(X)`` and
``r = X - f``. Every cell of every child is rounded down or up: the result is ``f + b`` with ``b`` in {0, 1}, such that

* the children sum to the parent, ``Σ_c (f + b)[i, c] = parent[i]`` (left out at the root, which has no parent);
* every bounded group of a partition keeps its whole-number bounds, child by child;
* the totals of groups of children are kept where they are given (the population of a state in two parts, say).

Among these, ``b`` minimises, pass after pass, the distance to the rounded fractional parts of the pass's queries,
``Σ_c Σ_k |(Q b_c)_k - round_half_even((Q r_c)_k)|``, and after the last pass ``Σ (1 - 2 r) b``: of all equally good
roundings the one nearest to ``r``. The queries are a chain of partitions of the cells, each refining the one before,
and the cells themselves. That is what makes the problem a network (``docs/proofs/rounding.md``).

``X`` is first quantised to millionths, so that everything after is in whole numbers and exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from confide.arrays import Booleans, Floats, Integers
from confide.errors import Finding, ParameterError, Place

MILLION = 1_000_000
HALF = MILLION // 2
_LARGEST = 2**43
"""Counts below this, in millionths, are held exactly enough by a float and add up within int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """One query of the chain: the group of every cell, and whole-number bounds for its groups where there are any.

    ``lower`` and ``upper`` are groups × children; groups that have no cell may be there. ``weight`` is how often the
    query counts in its pass; with 0 it only carries bounds.
    """

    name: str
    groups: Integers
    in_pass: int = 0
    weight: int = 1
    lower: Integers | None = None
    upper: Integers | None = None

    @property
    def bounded(self) -> bool:
        """Whether there are bounds to keep."""
        return self.lower is not None or self.upper is not None


@dataclass(frozen=True, slots=True, eq=False)
class RoundingProblem:
    """The rounding below one parent. Partitions run from coarse to fine; the cells are the implied last query.

    ``parent`` is None at the root. ``allowed`` marks the cells that may be positive (all, if None).
    ``child_group`` gives the group of every child, or -1; ``group_totals`` the total that each group must have.
    """

    estimate: Floats
    parent: Integers | None
    partitions: tuple[Partition, ...]
    cell_weight: int = 1
    cell_pass: int = 0
    allowed: Booleans | None = None
    child_group: Integers | None = None
    group_totals: Integers | None = None

    def __post_init__(self) -> None:
        findings = [*_shape_findings(self)] or crossings(self.partitions)
        if findings:
            raise ParameterError(findings)

    @property
    def cells(self) -> int:
        """The number of cells of one child."""
        return int(self.estimate.shape[0])

    @property
    def children(self) -> int:
        """The number of children."""
        return int(self.estimate.shape[1])

    @property
    def passes(self) -> int:
        """The number of passes: one more than the largest pass of a query."""
        return 1 + max([self.cell_pass, *(partition.in_pass for partition in self.partitions)])


def crossings(partitions: Sequence[Partition]) -> list[Finding]:
    """Findings about partitions that do not refine the ones before them: for use when a strategy is checked.

    A chain of refining partitions of one child's cells is a laminar family: two of its groups are nested or disjoint.
    A group that crosses another makes the rounding a three-way problem, which is hard in general and is refused.
    """
    findings = []
    for number, fine in enumerate(partitions):
        for coarse in partitions[:number]:
            crossing = _first_crossing(coarse.groups, fine.groups)
            if crossing is None:
                continue
            group, one, other = crossing
            swapped = _first_crossing(fine.groups, coarse.groups) is None
            findings.append(
                Finding.of(
                    "rounding-order" if swapped else "rounding-crossing",
                    where=Place(path="rounding queries"),
                    fine=fine.name,
                    coarse=coarse.name,
                    group=group,
                    one=one,
                    other=other,
                    swapped=swapped,
                )
            )
    return findings


def _first_crossing(coarse: Integers, fine: Integers) -> tuple[int, int, int] | None:
    """A group of ``fine`` and two groups of ``coarse`` that it has cells in, or None if it refines."""
    if not len(fine):
        return None
    within = np.zeros(int(fine.max()) + 1, np.int64)
    within[fine] = coarse
    other = np.flatnonzero(within[fine] != coarse)
    if not len(other):
        return None
    cell = int(other[0])
    group = int(fine[cell])
    return group, int(coarse[cell]), int(within[group])


def _shape_findings(problem: RoundingProblem) -> list[Finding]:
    """Everything about shapes, types and ranges that the definition does not allow."""
    wrong: list[Finding] = []

    def expect(holds: bool, what: str, expected: str) -> None:
        if not holds:
            wrong.append(Finding.of("rounding-problem", what=what, expected=expected))

    estimate = problem.estimate
    if estimate.ndim != 2 or estimate.dtype != np.float64:
        expect(False, "the estimate has another form", "a matrix of float64: cells × children")
        return wrong
    cells, children = estimate.shape
    in_range = estimate.size == 0 or (estimate.min() >= 0 and estimate.max() < _LARGEST)  # false for a nan, too
    expect(bool(in_range), "the estimate has values that are no counts", "finite numbers from 0 to 2**43")
    expect(
        problem.cell_weight >= 0 and problem.cell_pass >= 0, "the weight or pass of the cells is negative", "0 or more"
    )
    _expect_integers(expect, "parent", problem.parent, (cells,))
    allowed = problem.allowed
    expect(
        allowed is None or (allowed.shape == estimate.shape and allowed.dtype == np.bool_),
        "the allowed cells have another form",
        "a matrix of booleans like the estimate",
    )
    group, totals = problem.child_group, problem.group_totals
    if group is None or totals is None:
        expect(group is totals, "child groups and group totals come together", "both or neither")
    else:
        _expect_integers(expect, "child_group", group, (children,))
        _expect_integers(expect, "group_totals", totals, (len(totals),))
        inside = not group.size or (group.min() >= -1 and group.max() < len(totals))
        expect(bool(inside), "a child is in a group that has no total", f"-1 to {len(totals) - 1}")
    for partition in problem.partitions:
        name, ids = partition.name, partition.groups
        _expect_integers(expect, f"partition {name!r}", ids, (cells,))
        expect(not ids.size or bool(ids.min() >= 0), f"partition {name!r} has negative groups", "0 or more")
        expect(
            partition.weight >= 0 and partition.in_pass >= 0,
            f"partition {name!r} has a negative weight or pass",
            "0 or more",
        )
        for bound in (partition.lower, partition.upper):
            if bound is not None:
                _expect_integers(expect, f"a bound of {name!r}", bound, (len(bound), children))
                expect(not ids.size or int(ids.max()) < len(bound), f"a bound of {name!r} is too short", "every group")
    return wrong


def _expect_integers(
    expect: Callable[[bool, str, str], None], name: str, values: Integers | None, shape: tuple[int, ...]
) -> None:
    holds = values is None or (values.shape == shape and values.dtype == np.int64)
    expect(holds, f"{name} has another form", f"int64 of the shape {shape}")


# What is left to decide once every cell is rounded down: the fractional parts, their targets and their bounds.
#
# Cells are put into the order of the chain, coarse to fine, so that each group of each partition is a run of rows and
# sums over groups are sums over runs. Everything is in whole numbers; a fractional part is a number of millionths.


@dataclass(frozen=True, slots=True, eq=False)
class RoundingLevel:
    """One partition of the chain, for the fractional parts. Matrices are groups × children; empty groups are gone.

    ``starts`` are the first rows of the groups, ``group`` the group of each row, ``above`` the group of the next
    coarser level that each group lies in. ``target`` is the rounded sum of fractional parts; ``lower`` and ``upper``
    bound the number of cells rounded up.
    """

    partition: Partition
    starts: Integers
    group: Integers
    above: Integers
    target: Integers
    lower: Integers | None
    upper: Integers | None

    def sums(self, values: Integers) -> Integers:
        """Sums of rows over the groups."""
        return np.add.reduceat(values, self.starts, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class RoundingRemainder:
    """The problem in the order of the chain. ``fractional`` has the fractional parts, in millionths, ``ups[i]`` how
    many children of the cell i are rounded up (None at the root). ``settled`` marks cells that have to be rounded up,
    ``open`` those that may be; ``hopeless`` is set where a cell's leftover is negative or exceeds its allowed children.
    """

    problem: RoundingProblem
    order: Integers
    floor: Integers
    fractional: Integers
    allowed: Booleans
    ups: Integers | None
    open: Booleans
    settled: Booleans
    hopeless: bool
    levels: tuple[RoundingLevel, ...]
    totals_remaining: Integers | None
    """What each group of children is still to get."""
    gap: int
    """The largest amount, in millionths, by which the quantised estimate itself misses a parent sum or a zero."""

    def counts(self, ups: Integers) -> Integers:
        """The rounded counts, in the order of the problem."""
        result = np.empty_like(self.floor)
        result[self.order] = self.floor + ups
        return result


def rounding_remainder(problem: RoundingProblem) -> RoundingRemainder:
    """Quantise, round down, and say what remains."""
    cells, children = problem.estimate.shape
    order = _chain_order(problem.partitions, cells)
    micro = np.rint(problem.estimate[order] * MILLION).astype(np.int64)
    gap = 0
    if problem.allowed is None:
        allowed = np.ones((cells, children), np.bool_)
    else:
        allowed = problem.allowed[order]
        outside = np.where(allowed, 0, micro)
        gap = int(outside.max(initial=0))
        micro -= outside
    floor = micro // MILLION
    fractional = micro - floor * MILLION
    ups = None
    free, settled, hopeless = allowed, np.zeros((cells, children), np.bool_), False
    if problem.parent is not None:
        parent = problem.parent[order]
        gap = max(gap, int(np.abs(micro.sum(axis=1) - parent * MILLION).max(initial=0)))
        ups = parent - floor.sum(axis=1)
        width = allowed.sum(axis=1)
        hopeless = bool(((ups < 0) | (ups > width)).any())
        full = ups == width
        free = allowed & ((ups > 0) & ~full)[:, None]
        settled = allowed & full[:, None]
    totals_remaining = None
    if problem.group_totals is not None and problem.child_group is not None:
        totals_remaining = problem.group_totals.copy()
        member = problem.child_group >= 0
        np.subtract.at(totals_remaining, problem.child_group[member], floor.sum(axis=0)[member])
    levels: list[RoundingLevel] = []
    for partition in problem.partitions if cells else ():
        levels.append(_level(partition, order, floor, fractional, levels))
    return RoundingRemainder(
        problem, order, floor, fractional, allowed, ups, free, settled, hopeless, tuple(levels), totals_remaining, gap
    )


def round_half_even(millionths: Integers) -> Integers:
    """Millionths to the nearest whole number, halves to the even one; exact."""
    integers = millionths // MILLION
    fractional = millionths - integers * MILLION
    upwards = (fractional > HALF) | ((fractional == HALF) & (integers % 2 == 1))
    rounded: Integers = integers + upwards
    return rounded


def _chain_order(partitions: Sequence[Partition], cells: int) -> Integers:
    """Rows such that the groups of every partition are contiguous; ties keep their order."""
    if not partitions:
        return np.arange(cells)
    return np.lexsort([partition.groups for partition in reversed(partitions)])


def _level(
    partition: Partition, order: Integers, floor: Integers, fractional: Integers, before: Sequence[RoundingLevel]
) -> RoundingLevel:
    ids = partition.groups[order]
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    if before:
        first[before[-1].starts] = True
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    above = before[-1].group[starts] if before else np.zeros(len(starts), np.int64)
    target = round_half_even(np.add.reduceat(fractional, starts, axis=0))
    lower = upper = None
    if partition.bounded:
        base = np.add.reduceat(floor, starts, axis=0)
        present = ids[starts]
        lower = None if partition.lower is None else partition.lower[present] - base
        upper = None if partition.upper is None else partition.upper[present] - base
    return RoundingLevel(partition, starts, group, above, target, lower, upper)


def objective(remainder: RoundingRemainder, ups: Integers) -> tuple[int, ...]:
    """The distance of each pass, and last the tie-breaker ``Σ (1 - 2 r) b`` in units of two millionths."""
    problem = remainder.problem
    value = [0] * problem.passes
    for level in remainder.levels:
        distance = int(np.abs(level.sums(ups) - level.target).sum())
        value[level.partition.in_pass] += level.partition.weight * distance
    value[problem.cell_pass] += problem.cell_weight * int(np.abs(ups - (remainder.fractional > HALF)).sum())
    return (*value, int(((HALF - remainder.fractional) * ups).sum()))


def violations(problem: RoundingProblem, counts: Integers) -> list[str]:
    """Every kind of constraint that whole counts break, in words, without values; independent of the solvers."""
    broken = []
    if (counts < 0).any():
        broken.append("non-negativity")
    if problem.allowed is not None and counts[~problem.allowed].any():
        broken.append("cells that must be zero")
    if problem.parent is not None and (counts.sum(axis=1) != problem.parent).any():
        broken.append("parent sums")
    for partition in problem.partitions:
        if not partition.bounded:
            continue
        for bound, sign, word in ((partition.lower, 1, "lower"), (partition.upper, -1, "upper")):
            if bound is not None:
                sums = np.zeros(bound.shape, np.int64)
                np.add.at(sums, partition.groups, counts)
                if (sign * (sums - bound) < 0).any():
                    broken.append(f"{word} bounds of {partition.name!r}")
    if problem.child_group is not None and problem.group_totals is not None:
        totals = np.zeros(len(problem.group_totals) + 1, np.int64)
        np.add.at(totals, problem.child_group, counts.sum(axis=0))
        if (totals[:-1] != problem.group_totals).any():
            broken.append("group totals")
    return broken
