"""A node problem made ready for the solvers: variables that can only be 0 taken out, bounds tightened, rows numbered.

* A cell whose parent count is 0, and a group whose upper bound is 0, has no variables.
* With parent sums, the children's sums over a group of cells add up to the parent's, P. So the bounds of one child
  follow from those of the others: ``lower[c] >= P - sum of the other upper bounds``, and the other way round.
  A bound that cannot bind then goes; where lower and upper meet, the row is an equation.

What is left of the bounds are the *side rows* ``low <= A x <= high``, x read row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from confide.estimation.hessian import Hessian, build_hessian
from confide.estimation.problem import Booleans, Floats, GroupBounds, Integers, NodeProblem, group_sums
from confide.estimation.simplex import project

EQUAL = 1e-9
"""Bounds that are closer than this are an equation."""


@dataclass(frozen=True, eq=False)
class SideRows:
    """``low <= A x <= high``, as pairs (row, variable) sorted by row; a name for each row."""

    low: Floats
    high: Floats
    row: Integers
    variable: Integers
    names: tuple[tuple[str, int, int], ...]
    """(constraint, group, child); child is -1 for a sum over children."""
    size: int
    """The number of variables, cells times children, allowed or not."""

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.low)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """A."""
        pointer = np.searchsorted(self.row, np.arange(self.count + 1))
        return sp.csr_array((np.ones(len(self.row)), self.variable, pointer), shape=(self.count, self.size))

    def sums(self, x: Floats) -> Floats:
        """A x."""
        return np.asarray(np.bincount(self.row, x.ravel()[self.variable], self.count), np.float64)

    def spread(self, values: Floats, shape: tuple[int, ...]) -> Floats:
        """A' values, in the shape of x."""
        return np.asarray(np.bincount(self.variable, values[self.row], self.size), np.float64).reshape(shape)


@dataclass(frozen=True, eq=False)
class Prepared:
    """What the solvers work on."""

    problem: NodeProblem
    free: Booleans
    """The variables, (cells, children)."""
    sums: Floats | None
    """The right-hand sides of the simplices: (cells, 1) for parent sums, (1, 1) for a root's total, or None."""
    axis: int
    """Along which x adds up to ``sums``: 1 over children, 0 over the cells of a root."""
    rows: SideRows
    hessian: Hessian

    def caps(self, value: float) -> Floats:
        """For every variable a bound that no point as good as ``value`` exceeds (root without a total: from f)."""
        if self.sums is not None:
            return np.broadcast_to(self.sums, self.free.shape)
        cap = np.full(self.free.shape, np.inf)
        for query in self.problem.queries:
            if query.weights[0] > 0:
                inside = query.groups >= 0
                reach = query.measured[query.groups[inside]] + np.sqrt(value / query.weights[0])
                cap[inside] = np.minimum(cap[inside], np.maximum(reach, 0.0))
        return cap


@dataclass(frozen=True, slots=True)
class Point:
    """A point, the multipliers of its side rows, and how many steps it took."""

    x: Floats
    multipliers: Floats
    steps: int
    finished: bool
    """Whether the solver thinks that it is done; the certificate decides."""


def reference_point(prepared: Prepared) -> Floats:
    """A point near the measurements that satisfies the parent sums: the cells' own, projected."""
    return project(prepared.hessian.centre, prepared.free, prepared.sums, prepared.axis)


def row_status(prepared: Prepared, multipliers: Floats) -> Integers:
    """Where multipliers say that the side rows are: -1 at the lower bound, 1 at the upper, 0 between."""
    rows = prepared.rows
    small = 1e-7 * float(np.abs(multipliers).max(initial=0.0))
    status = np.where(multipliers > small, -1, np.where(multipliers < -small, 1, 0))
    finite = np.where(status < 0, np.isfinite(rows.low), np.isfinite(rows.high))
    return np.where(finite, status, 0)


def prepare(problem: NodeProblem) -> Prepared:
    """Mask, side rows and operator of a problem. Bounds that contradict each other are left for the solver to name."""
    free = problem.allowed.copy()
    sums: Floats | None = None
    axis = 1
    if problem.parent is not None:
        free[problem.parent == 0] = False
        sums = problem.parent.astype(np.float64)[:, None]
    elif problem.total is not None:
        sums, axis = np.array([[float(problem.total)]]), 0
    tightened = [(bound, *tighten(problem, bound)) for bound in problem.bounds]
    for bound, _, upper in tightened:
        zero = (upper <= 0.0) & (bound.lower <= 0.0)
        if zero.any():
            inside = bound.groups >= 0
            free[inside] &= ~zero[bound.groups[inside]]
    parts = [_group_rows(problem, bound, lower, upper, free) for bound, lower, upper in tightened]
    parts += [_child_rows(problem, index, free) for index in range(len(problem.child_sums))]
    return Prepared(problem, free, sums, axis, _join(parts, free.size), build_hessian(problem))


def tighten(problem: NodeProblem, bound: GroupBounds) -> tuple[Floats, Floats]:
    """The bounds of each child as they follow from those of the others and the parent's sums."""
    lower, upper = np.maximum(bound.lower, 0.0), bound.upper.copy()
    if problem.parent is None:
        return lower, upper if problem.total is None else np.minimum(upper, float(problem.total))
    whole = group_sums(bound.groups, problem.parent.astype(np.float64)[:, None], len(lower))
    np.minimum(upper, whole, out=upper)
    least = whole - (upper.sum(1, keepdims=True) - upper)
    most = whole - (lower.sum(1, keepdims=True) - lower)
    new_lower, new_upper = np.maximum(lower, least), np.minimum(upper, most)
    clash = (new_lower > new_upper + EQUAL).any(1)
    new_lower[clash], new_upper[clash] = lower[clash], upper[clash]
    return new_lower, new_upper


_Part = tuple[Floats, Floats, Integers, Integers, list[tuple[str, int, int]]]


def _group_rows(problem: NodeProblem, bound: GroupBounds, lower: Floats, upper: Floats, free: Booleans) -> _Part:
    inside = np.flatnonzero(bound.groups >= 0)
    groups = bound.groups[inside]
    reach = np.full(lower.shape, np.inf)
    if problem.parent is not None:
        counts = np.where(free[inside], problem.parent[inside][:, None], 0).astype(np.float64)
        reach = group_sums(groups, counts, len(lower))
    variables = group_sums(groups, free[inside].astype(np.float64), len(lower))
    needed = ((lower > 0) | (upper < reach)) & ((variables > 0) | (lower > EQUAL) | (upper < -EQUAL))
    group, child = np.nonzero(needed)
    number = np.full(lower.shape, -1, np.int64)
    number[group, child] = np.arange(len(group))
    pairs = np.where(free[inside], number[groups], -1)
    cell, column = np.nonzero(pairs >= 0)
    row, variable = pairs[cell, column], inside[cell] * free.shape[1] + column
    order = np.argsort(row, kind="stable")
    names = [(bound.name, int(g), int(c)) for g, c in zip(group, child, strict=True)]
    return lower[group, child], upper[group, child], row[order], variable[order], names


def _child_rows(problem: NodeProblem, index: int, free: Booleans) -> _Part:
    part = problem.child_sums[index]
    row, variable = [], []
    for group in range(len(part.lower)):
        cell, column = np.nonzero(free & (part.members == group))
        row.append(np.full(len(cell), group, np.int64))
        variable.append(cell * free.shape[1] + column)
    empty = np.zeros(0, np.int64)
    names = [(part.name, group, -1) for group in range(len(part.lower))]
    return part.lower, part.upper, np.concatenate([empty, *row]), np.concatenate([empty, *variable]), names


def _join(parts: list[_Part], size: int) -> SideRows:
    low, high = np.zeros(0), np.zeros(0)
    row, variable = np.zeros(0, np.int64), np.zeros(0, np.int64)
    names: list[tuple[str, int, int]] = []
    for part in parts:
        row, variable = np.concatenate([row, part[2] + len(low)]), np.concatenate([variable, part[3]])
        low, high = np.concatenate([low, part[0]]), np.concatenate([high, part[1]])
        names += part[4]
    close = high - low < EQUAL
    middle = (low + high) / 2
    low, high = np.where(close & (low <= high), middle, low), np.where(close & (low <= high), middle, high)
    return SideRows(low, high, row, variable, tuple(names), size)
