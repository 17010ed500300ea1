"""What is left to decide once every cell is rounded down: the fractional parts, their targets and their bounds.

Cells are put into the order of the chain, coarse to fine, so that each group of each partition is a run of rows and
sums over groups are sums over runs. Everything is in whole numbers; a fractional part is a number of millionths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from confide.estimation.rounding_problem import HALF, MILLION, Bools, Ints, Partition, RoundingProblem


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One partition of the chain, for the fractional parts. Matrices are groups × children; empty groups are gone.

    ``starts`` are the first rows of the groups, ``group`` the group of each row, ``above`` the group of the next
    coarser level that each group lies in. ``target`` is the rounded sum of fractional parts; ``lower`` and ``upper``
    bound the number of cells rounded up.
    """

    partition: Partition
    starts: Ints
    group: Ints
    above: Ints
    target: Ints
    lower: Ints | None
    upper: Ints | None

    def sums(self, values: Ints) -> Ints:
        """Sums of rows over the groups."""
        return np.add.reduceat(values, self.starts, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class Leftover:
    """The problem in the order of the chain. ``rest`` has the fractional parts, ``ups[i]`` how many children of the
    cell i are rounded up (None at the root). ``settled`` marks cells that have to be rounded up, ``open`` those that
    may be; ``hopeless`` is set where a cell's leftover is negative or exceeds its allowed children.
    """

    problem: RoundingProblem
    order: Ints
    floor: Ints
    rest: Ints
    allowed: Bools
    ups: Ints | None
    open: Bools
    settled: Bools
    hopeless: bool
    levels: tuple[Level, ...]
    totals_left: Ints | None
    """What each group of children is still to get."""
    gap: int
    """The largest amount, in millionths, by which the quantised estimate itself misses a parent sum or a zero."""

    def counts(self, ups: Ints) -> Ints:
        """The rounded counts, in the order of the problem."""
        result = np.empty_like(self.floor)
        result[self.order] = self.floor + ups
        return result


def leftover(problem: RoundingProblem) -> Leftover:
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
    rest = micro - floor * MILLION
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
    totals_left = None
    if problem.group_totals is not None and problem.child_group is not None:
        totals_left = problem.group_totals.copy()
        member = problem.child_group >= 0
        np.subtract.at(totals_left, problem.child_group[member], floor.sum(axis=0)[member])
    levels: list[Level] = []
    for partition in problem.partitions if cells else ():
        levels.append(_level(partition, order, floor, rest, levels))
    return Leftover(problem, order, floor, rest, allowed, ups, free, settled, hopeless, tuple(levels), totals_left, gap)


def round_half_even(millionths: Ints) -> Ints:
    """Millionths to the nearest whole number, halves to the even one; exact."""
    whole = millionths // MILLION
    rest = millionths - whole * MILLION
    upwards = (rest > HALF) | ((rest == HALF) & (whole % 2 == 1))
    rounded: Ints = whole + upwards
    return rounded


def _chain_order(partitions: Sequence[Partition], cells: int) -> Ints:
    """Rows such that the groups of every partition are contiguous; ties keep their order."""
    if not partitions:
        return np.arange(cells)
    return np.lexsort([partition.groups for partition in reversed(partitions)])


def _level(partition: Partition, order: Ints, floor: Ints, rest: Ints, before: Sequence[Level]) -> Level:
    ids = partition.groups[order]
    first = np.ones(len(ids), np.bool_)
    first[1:] = ids[1:] != ids[:-1]
    if before:
        first[before[-1].starts] = True
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    above = before[-1].group[starts] if before else np.zeros(len(starts), np.int64)
    target = round_half_even(np.add.reduceat(rest, starts, axis=0))
    lower = upper = None
    if partition.bounded:
        base = np.add.reduceat(floor, starts, axis=0)
        present = ids[starts]
        lower = None if partition.lower is None else partition.lower[present] - base
        upper = None if partition.upper is None else partition.upper[present] - base
    return Level(partition, starts, group, above, target, lower, upper)


def objective(left: Leftover, ups: Ints) -> tuple[int, ...]:
    """The distance of each pass, and last the tie-breaker ``Σ (1 - 2 r) b`` in units of two millionths."""
    problem = left.problem
    value = [0] * problem.passes
    for level in left.levels:
        distance = int(np.abs(level.sums(ups) - level.target).sum())
        value[level.partition.in_pass] += level.partition.weight * distance
    value[problem.cell_pass] += problem.cell_weight * int(np.abs(ups - (left.rest > HALF)).sum())
    return (*value, int(((HALF - left.rest) * ups).sum()))


def violations(problem: RoundingProblem, counts: Ints) -> list[str]:
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
