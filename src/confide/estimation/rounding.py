"""Controlled rounding: whole counts that keep every sum and bound, as near as can be to the real solution.

>>> import numpy as np
>>> from confide.estimation.rounding import Partition, RoundingProblem, round_counts
>>> estimate = np.array([[0.4, 0.6, 1.0], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]])
>>> parent = np.array([2, 1, 1])
>>> total = Partition("total", np.zeros(3, np.int64))
>>> round_counts(RoundingProblem(estimate, parent, (total,))).counts
array([[0, 1, 1],
       [1, 0, 0],
       [0, 0, 1]])

That the optimum is whole, that there is one, and that passes and tie-breaker are in exact order is derived in
``docs/proofs/rounding.md``. The problem is solved as a minimum-cost flow in whole numbers (``network``). Whatever the
way, the result is checked against the problem as it was given before it is handed back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from scipy import sparse

from confide.arrays import Booleans, Floats, Integers
from confide.errors import Finding, ParameterError, Place, RunError

# What controlled rounding is asked: a real solution, sums that must hold, and a chain of partitions to stay close to.
#
# Let ``X`` (cells × children, non-negative) be the least-squares solution below one parent, ``f = floor(X)`` and ``r =
# X - f``. Every cell of every child is rounded down or up: the result is ``f + b`` with ``b`` in {0, 1}, such that
#
# * the children sum to the parent, ``Σ_c (f + b)[i, c] = parent[i]`` (left out at the root, which has no parent);
# * every bounded group of a partition keeps its whole-number bounds, child by child;
# * the totals of groups of children are kept where they are given (the population of a state in two parts, say).
#
# Among these, ``b`` minimises, pass after pass, the distance to the rounded fractional parts of the pass's queries,
# ``Σ_c Σ_k |(Q b_c)_k - round_half_even((Q r_c)_k)|``, and after the last pass ``Σ (1 - 2 r) b``: of all equally good
# roundings the one nearest to ``r``. The queries are a chain of partitions of the cells, each refining the one before,
# and the cells themselves. That is what makes the problem a network (``docs/proofs/rounding.md``).
#
# ``X`` is first quantised to millionths, so that everything after is in whole numbers and exact.

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
    apart: bool = False
    """Whether the groups of the first partition have known counts: then each of them is a network of its own."""

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
            if (crossing := _first_crossing(coarse.groups, fine.groups)) is None:
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
    first = problem.partitions[0] if problem.partitions else None
    known = first is not None and first.lower is not None and first.lower is first.upper
    expect(not problem.apart or (known and totals is None), "groups are rounded apart", "groups with known counts")
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


__all__ = [
    "Partition",
    "Rounding",
    "RoundingOutcome",
    "RoundingProblem",
    "RoundingReport",
    "RoundingTally",
    "crossings",
    "round_counts",
]

# Controlled rounding by HiGHS: the checked fallback, and the way out when rounding down or up is not enough.
#
# The same problem as :mod:`confide.estimation.network`, written as a linear program with one variable for each cell
# of each child and each group, equalities between a group and the groups or cells it is made of, and bounds on
# variables. Its matrix is totally unimodular (``docs/proofs/rounding.md``), so the vertices that the simplex method
# ends in are whole; that is checked, never assumed.
#
# Passes are put in order without large weights. After a pass, every variable with a reduced cost other than zero
# stays where it is; what remains is exactly the face of optimal solutions, and the next pass is minimised over it.
# Costs and right-hand sides are small whole numbers, so the reduced costs of a basis are whole too and cannot be
# mistaken for zero.
#
# *Widened*, a cell may leave its floor and ceiling where nothing else keeps the sums and bounds: as little as
# possible in all, and first of all things.


Status = Literal["optimal", "infeasible", "failed"]
_WHOLE = 1e-6
_ZERO = 0.5
_INFEASIBLE = 2


@dataclass(frozen=True, slots=True, eq=False)
class LinearResult:
    """``ups`` is what is added to the floors, in the order of the chain; None unless the status is optimal."""

    status: Status
    ups: Integers | None = None


def solve_linear(remainder: RoundingRemainder, *, widened: bool = False) -> LinearResult:
    """Minimise pass after pass, then the tie-breaker; check that the result is whole."""
    from scipy.optimize import linprog

    program = _Program(remainder, widened)
    value: Floats | None = None
    for cost in program.costs():
        result = linprog(
            cost,
            A_eq=program.matrix,
            b_eq=program.right,
            bounds=np.column_stack([program.lower, program.upper]),
            method="highs-ds",
        )
        # The first pass alone can find that there is no solution; later ones have one already.
        if result.status != 0:
            return LinearResult("infeasible" if result.status == _INFEASIBLE and value is None else "failed")
        value = np.rint(result.x)
        if np.abs(result.x - value).max(initial=0.0) > _WHOLE:
            return LinearResult("failed")
        # Variables with a reduced cost stay where they are: what is free is the face of optimal solutions.
        decided = np.abs(result.lower.marginals + result.upper.marginals) > _ZERO
        program.lower[decided] = program.upper[decided] = value[decided]
    assert value is not None
    return LinearResult("optimal", program.ups(value))


class _Program:
    """Variables: cells, then (widened) what cells exceed and fall short of them, then groups and their distances."""

    def __init__(self, remainder: RoundingRemainder, widened: bool) -> None:
        self.remainder = remainder
        self.rows, self.columns = np.nonzero(remainder.allowed)
        self.widened = widened
        cells = len(self.rows)
        floor = remainder.floor[self.rows, self.columns].astype(np.float64)
        self._blocks = 3 if widened else 1
        self.lower = np.zeros(self._blocks * cells)
        self.upper = np.ones(cells)
        if widened:
            self.upper = np.concatenate([self.upper, np.full(cells, np.inf), floor])
        self._cells = cells
        self._entries: list[tuple[Integers, Integers, Integers]] = []
        self._right: list[Integers] = []
        self._height = 0
        self._distances: list[tuple[int, slice]] = []
        self._write_rows()
        row, column, sign = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        self.right = np.concatenate(self._right).astype(np.float64)
        self.matrix = sparse.csr_array((sign.astype(np.float64), (row, column)), shape=(self._height, len(self.lower)))

    def _variables(self, lower: Integers | float, upper: Integers | float, count: int) -> Integers:
        begin = len(self.lower)
        self.lower = np.concatenate([self.lower, np.broadcast_to(np.asarray(lower, np.float64), count)])
        self.upper = np.concatenate([self.upper, np.broadcast_to(np.asarray(upper, np.float64), count)])
        return np.arange(begin, begin + count)

    def _sum_of_cells(self, row: Integers) -> None:
        """The cells, with their excess and shortfall, as parts of the given rows."""
        here = np.arange(self._cells)
        for block, sign in zip(range(self._blocks), (1, 1, -1), strict=False):
            self._entries.append((self._height + row, block * self._cells + here, np.full(self._cells, sign)))

    def _write_rows(self) -> None:
        remainder, problem = self.remainder, self.remainder.problem
        cells, children = remainder.floor.shape
        if remainder.ups is not None:
            self._sum_of_cells(self.rows)
            self._right.append(remainder.ups)
            self._height += cells
        finer: tuple[Integers, Integers] | None = None  # the group of the level below, and its variables
        # From the finest partition up: the sum of a group is that of its parts, cells or finer groups.
        for number in reversed(range(len(remainder.levels))):
            level = remainder.levels[number]
            size = level.target.size
            lower = -np.inf if level.lower is None else level.lower.ravel()
            upper = np.inf if level.upper is None else level.upper.ravel()
            sums = self._variables(lower, upper, size)
            row = np.arange(size)
            if finer is None:
                self._sum_of_cells(level.group[self.rows] * children + self.columns)
            else:
                within = (finer[0][:, None] * children + np.arange(children)).ravel()
                self._entries.append((self._height + within, finer[1], np.ones(len(within), np.int64)))
            self._entries.append((self._height + row, sums, np.full(size, -1)))
            self._right.append(np.zeros(size, np.int64))
            self._height += size
            # sums - over + under = target, so that over + under is the distance where one of them is 0.
            over, under = self._variables(0.0, np.inf, size), self._variables(0.0, np.inf, size)
            for variables, sign in ((sums, 1), (over, -1), (under, 1)):
                self._entries.append((self._height + row, variables, np.full(size, sign)))
            self._right.append(level.target.ravel())
            self._height += size
            self._distances.append((number, slice(int(over[0]), int(under[-1]) + 1)))
            finer = level.above, sums
        if remainder.totals_remaining is not None and problem.child_group is not None:
            member = np.flatnonzero(problem.child_group[self.columns] >= 0)
            group = problem.child_group[self.columns[member]]
            for block, sign in zip(range(self._blocks), (1, 1, -1), strict=False):
                self._entries.append((self._height + group, block * self._cells + member, np.full(len(member), sign)))
            self._right.append(remainder.totals_remaining)
            self._height += len(remainder.totals_remaining)
        if not self._entries:  # the root, with nothing but cells
            self._entries.append((np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)))
            self._right.append(np.zeros(0, np.int64))

    def costs(self) -> list[Floats]:
        """What is minimised, one after the other."""
        problem, cells = self.remainder.problem, slice(0, self._cells)
        around = slice(self._cells, self._blocks * self._cells)
        fractional = self.remainder.fractional[self.rows, self.columns]
        stages = [np.zeros(len(self.lower)) for _ in range(problem.passes + 2)]
        # Stage 0, widened only: as little as possible beyond floor and ceiling.
        stages[0][around] = 1.0
        for number, distances in self._distances:
            partition = self.remainder.levels[number].partition
            stages[1 + partition.in_pass][distances] = partition.weight
        stages[1 + problem.cell_pass][cells] = problem.cell_weight * np.where(fractional > HALF, -1.0, 1.0)
        stages[1 + problem.cell_pass][around] = problem.cell_weight
        # The tie-breaker: of equally good roundings the one nearest to the estimate.
        stages[-1][cells] = (HALF - fractional) / HALF
        stages[-1][around] = 1.0
        return stages if self.widened else stages[1:]

    def ups(self, value: Floats) -> Integers:
        """What the cells get, as a matrix."""
        parts = value[: self._blocks * self._cells].astype(np.int64).reshape(self._blocks, self._cells)
        result = np.zeros_like(self.remainder.floor)
        result[self.rows, self.columns] = parts[0] + (parts[1] - parts[2] if self.widened else 0)
        return result


class RoundingOutcome(StrEnum):
    """How a rounding came about. There is no other way to a result, and no result without its outcome."""

    WHOLE = "whole"
    """Nothing was open: the parent sums leave one rounding."""
    NETWORK = "network"
    """Optimal, by the network simplex method."""
    LINEAR = "linear-program"
    """Optimal, by HiGHS on the linear program, and checked to be whole: the fallback."""
    WIDENED = "widened"
    """Floors and ceilings keep no sums: counts keep them, and are no further from the estimate than they must be."""


@dataclass(frozen=True, slots=True)
class RoundingReport:
    """What happened at one parent. No times, so that equal problems have equal reports."""

    outcome: RoundingOutcome
    open_cells: int
    pivots: int
    distances: tuple[int, ...]
    """The objective of each pass."""
    gap: int
    """In millionths: by how much the estimate itself missed a parent sum or a zero, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounding:
    """Whole counts (cells × children) and how they came about."""

    counts: Integers
    report: RoundingReport


@dataclass(frozen=True, slots=True)
class RoundingTally:
    """Reports added up, for the manifest; the order of addition does not matter."""

    outcomes: Mapping[RoundingOutcome, int] = field(default_factory=lambda: MappingProxyType({}))
    open_cells: int = 0
    pivots: int = 0
    distance: int = 0
    gap: int = 0

    @classmethod
    def of(cls, report: RoundingReport) -> RoundingTally:
        """The tally of one rounding."""
        once = MappingProxyType({report.outcome: 1})
        return cls(once, report.open_cells, report.pivots, sum(report.distances), report.gap)

    def __add__(self, other: RoundingTally) -> RoundingTally:
        return RoundingTally(
            MappingProxyType(dict(Counter(self.outcomes) + Counter(other.outcomes))),
            self.open_cells + other.open_cells,
            self.pivots + other.pivots,
            self.distance + other.distance,
            max(self.gap, other.gap),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values; every outcome is named, also those that did not occur."""
        return {
            "outcomes": {outcome.value: self.outcomes.get(outcome, 0) for outcome in RoundingOutcome},
            "open_cells": self.open_cells,
            "pivots": self.pivots,
            "distance": self.distance,
            "largest_gap": self.gap / MILLION,
        }


def round_counts(problem: RoundingProblem) -> Rounding:
    """Whole counts that keep every sum and bound, as near as can be to an estimate.

    Args:
        problem: The estimate (cells x children), the parent's counts, the chain of partitions and their bounds.

    Returns:
        The counts (cells x children) and how they came about. An example is in the module.

    Raises:
        RunError: No whole counts keep the sums and bounds.

    >>> problem = RoundingProblem(np.full((2, 2), 0.5), np.ones(2, np.int64), (Partition("total", np.zeros(2, int)),))
    >>> round_counts(problem).counts.sum(axis=0)
    array([1, 1])
    """
    remainder = rounding_remainder(problem)
    attempt = None if remainder.hopeless else _down_or_up(remainder)
    if attempt is None:
        attempt = _widened(remainder)
    outcome, ups, pivots = attempt
    counts = remainder.counts(ups)
    report = RoundingReport(
        outcome, int(np.count_nonzero(remainder.open)), pivots, objective(remainder, ups)[:-1], remainder.gap
    )
    return Rounding(counts, report)


def _down_or_up(remainder: RoundingRemainder) -> tuple[RoundingOutcome, Integers, int] | None:
    """The optimal rounding of every cell to its floor or ceiling, or None if there is none."""
    if not remainder.open.any():
        ups = remainder.settled.astype(np.int64)
        return None if _broken(remainder, ups) else (RoundingOutcome.WHOLE, ups, 0)
    # Compiled code and a solver take a while to import, and most of those who state a problem solve none.
    from confide.estimation.network import Prices, build, minimise

    prices = Prices.of(remainder)
    solved = None if prices is None else minimise(build(remainder, prices), apart=remainder.problem.apart)
    if solved is not None:
        flow, pivots = solved
        ups = remainder.settled.astype(np.int64)
        ups[remainder.open] = flow[: np.count_nonzero(remainder.open)]
        # The flow misses as few bounds as possible: if it misses one, nothing keeps them all.
        return None if _broken(remainder, ups) else (RoundingOutcome.NETWORK, ups, pivots)

    result = solve_linear(remainder)
    if result.ups is None or _broken(remainder, result.ups):
        return None
    return RoundingOutcome.LINEAR, result.ups, 0


class RoundingInfeasibleError(RunError):
    """No whole counts keep all sums and bounds of a node."""


def _widened(remainder: RoundingRemainder) -> tuple[RoundingOutcome, Integers, int]:
    """Whole counts that leave floors and ceilings as little as possible."""

    result = solve_linear(remainder, widened=True)
    if result.ups is None or _broken(remainder, result.ups):
        raise RoundingInfeasibleError(_finding(remainder.problem, result.status))
    outside = ((result.ups < 0) | (result.ups > 1)).any()
    return RoundingOutcome.WIDENED if outside else RoundingOutcome.LINEAR, result.ups, 0


def _broken(remainder: RoundingRemainder, ups: Integers) -> list[str]:
    return violations(remainder.problem, remainder.counts(ups))


def _finding(problem: RoundingProblem, status: str) -> Finding:
    names = ["parent sums"] if problem.parent is not None else []
    names += [f"the bounds of {partition.name!r}" for partition in problem.partitions if partition.bounded]
    names += ["cells that must be zero"] if problem.allowed is not None else []
    names += ["group totals"] if problem.group_totals is not None else []
    return Finding.of(
        "rounding-infeasible" if status == "infeasible" else "rounding-failed",
        is_infeasible=status == "infeasible",
        names=", ".join(names),
    )
