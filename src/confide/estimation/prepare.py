"""A node problem made ready for the solvers: variables that can only be 0 taken out, bounds tightened, rows numbered.

* A cell whose parent count is 0, and a group whose upper bound is 0, has no variables.
* With parent sums, the children's sums over a group of cells add up to the parent's, P. So the bounds of one child
  follow from those of the others: ``lower[c] >= P - sum of the other upper bounds``, and the other way round.
  A bound that cannot bind then goes; where lower and upper meet, the row is an equation.

What is left of the bounds are the *side rows* ``low <= A x <= high``, x read row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from confide.arrays import Booleans, Floats, Integers
from confide.estimation.node_problem import CellLaw, GroupBounds, MeasuredQuery, NodeProblem, group_sums

if TYPE_CHECKING:
    from confide.estimation.node_problem import GroupSums

# The sum of squares as a linear operator: H x without forming H where that is dearer.
#
# With M_q the 0/1 matrix of query q, the objective's Hessian for child c is ``2 H_c``, ``H_c = sum of w[q, c] M_q'
# M_q``. Queries whose groups hold one cell each are a diagonal; the others are stacked in a sparse matrix, and a
# query that is coarser than another one is summed from that one's groups, not from the cells: ten queries cost about
# as much as two. In a small problem whose children all have the same weights, H is kept as a dense matrix.


DENSE = 250_000
"""Dense if a product with H takes at most this many multiplications: there BLAS uses one thread, and one order."""


@dataclass(frozen=True, eq=False)
class Hessian:
    """``f(x) = sum of w (M x - y)^2``: its values, gradients and products with H."""

    diagonal: Floats
    """The weight of each cell and child by itself, (cells, children)."""
    centre: Floats
    """The weighted mean of what was measured of each cell by itself; 0 where nothing was."""
    constant: float
    """What does not depend on x: measured groups without cells, and cells measured by themselves more than once."""
    stack: GroupSums
    """Sums over the finest groups, (finest rows, cells)."""
    stack_t: GroupSums
    coarse: GroupSums
    """Sums of those, one row for each measured group, (rows, finest rows)."""
    coarse_t: GroupSums
    weights: Floats
    """(rows, children)."""
    measured: Floats
    """(rows, children)."""
    dense: Floats | None
    """H itself, where it is small and the same for all children."""

    def margins(self, x: Floats) -> Floats:
        """M x: every measured group's sum."""
        return self.coarse @ (self.stack @ x)

    def adjoint(self, values: Floats) -> Floats:
        """M' values: for every cell the sum over the groups that it lies in."""
        return self.stack_t @ (self.coarse_t @ values)

    def product(self, v: Floats) -> Floats:
        """H v."""
        if self.dense is not None:
            return np.asarray(self.dense @ v)
        return self.diagonal * v + self.adjoint(self.weights * self.margins(v))

    def gradient(self, x: Floats) -> Floats:
        """``2 (H x - M'wy)``, from the residuals, which keeps the digits that matter."""
        return 2.0 * (
            self.diagonal * (x - self.centre) + self.adjoint(self.weights * (self.margins(x) - self.measured))
        )

    def value(self, x: Floats) -> float:
        """f(x)."""
        own, stacked = x - self.centre, self.margins(x) - self.measured
        return float((self.diagonal * own * own).sum() + (self.weights * stacked * stacked).sum()) + self.constant

    @property
    def full_diagonal(self) -> Floats:
        """The diagonal of H, (cells, children)."""
        if self.dense is not None:
            return np.broadcast_to(np.diag(self.dense)[:, None], self.diagonal.shape)
        return self.diagonal + self.adjoint(self.weights)

    def largest(self) -> float:
        """An upper bound of the largest eigenvalue of H over all children: its largest row sum, as H >= 0."""
        return float(self.product(np.ones(self.diagonal.shape)).max(initial=0.0))


def build_hessian(problem: NodeProblem) -> Hessian:
    """The operator of a node problem."""
    from confide.estimation.node_problem import add_alike, add_cells  # compiled code: loaded when something is solved

    diagonal, weighted, constant = np.zeros(problem.allowed.shape), np.zeros(problem.allowed.shape), 0.0
    singles: list[tuple[MeasuredQuery, Integers]] = []
    stacked: list[tuple[Integers, Floats, Floats]] = []
    for query in problem.queries:
        if not query.weights.any():
            continue
        sizes = np.bincount(query.groups[query.groups >= 0], minlength=len(query.measured))
        if not sizes.all():
            constant += float((query.weights * query.measured[sizes == 0] ** 2).sum())
        # A query whose groups are single cells adds to the diagonal; any other is a row of M.
        if sizes.max(initial=0) <= 1:
            add_cells(diagonal, weighted, query.groups, query.weights, query.measured)
            singles.append((query, np.flatnonzero(query.groups >= 0)))
        else:
            number = np.append(np.cumsum(sizes > 0) - 1, -1)
            stacked.append((number[query.groups], query.measured[sizes > 0], query.weights))
    # Several measurements of one cell become one, at their weighted mean; the constant keeps the value of f.
    centre = np.divide(weighted, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    for query, own in singles if len(singles) > 1 else []:
        off = query.measured[query.groups[own]] - centre[own]
        constant += float((query.weights * off * off).sum())
    # Finest first, so that coarser queries are summed from finer ones instead of from cells.
    stacked.sort(key=lambda part: -len(part[1]))
    none = np.zeros((0, problem.units))
    measured = np.concatenate([none, *(part[1] for part in stacked)])
    weights = np.concatenate([none, *(np.broadcast_to(part[2], part[1].shape) for part in stacked)])
    listed = tuple((part[0].tobytes(), len(part[1])) for part in stacked)
    stack, stack_t, coarse, coarse_t = _sparse_stack(listed, problem.cells)
    dense = None
    # One dense H serves all children if their weights are the same: a product of small matrices is quickest.
    alike = bool((diagonal == diagonal[:, :1]).all() and (weights == weights[:, :1]).all())
    if alike and problem.cells**2 * problem.units <= DENSE:
        dense = np.zeros((problem.cells, problem.cells))
        for groups, _, weight in stacked:
            add_alike(dense, groups, float(weight[0]))
        dense[np.diag_indices(problem.cells)] += diagonal[:, 0]
    return Hessian(diagonal, centre, constant, stack, stack_t, coarse, coarse_t, weights, measured, dense)


def _coarser(groups: Integers, base: Integers, count: int) -> Integers | None:
    """The group of ``groups`` that each group of ``base`` lies in, if it lies in one."""
    inside = base >= 0
    if (groups[~inside] >= 0).any():
        return None
    target = np.full(count, -1, np.int64)
    target[base[inside]] = groups[inside]
    return target if bool((target[base[inside]] == groups[inside]).all()) else None


_Stack = tuple["GroupSums", "GroupSums", "GroupSums", "GroupSums"]


@lru_cache(maxsize=8)  # a second look at a node asks for the same, as do nodes with the same cells
def _sparse_stack(queries: tuple[tuple[bytes, int], ...], cells: int) -> _Stack:
    """Sums over the finest partitions and sums of those, each with its transpose; queries with most groups first.

    Args:
        queries: For each one the group of every cell, as bytes, and the number of groups.
        cells: How many cells there are.
    """
    finest: list[tuple[Integers, int, int]] = []
    fine_pairs: list[tuple[Integers, Integers]] = []
    coarse_pairs: list[tuple[Integers, Integers]] = []
    start = row = 0
    for written, count in queries:
        groups = np.frombuffer(written, np.int64)
        for base, offset, size in finest:
            target = _coarser(groups, base, size)
            if target is not None:
                inside = np.flatnonzero(target >= 0)
                coarse_pairs.append((target[inside] + row, inside + offset))
                break
        else:
            inside = np.flatnonzero(groups >= 0)
            finest.append((groups, start, count))
            fine_pairs.append((groups[inside] + start, inside))
            coarse_pairs.append((np.arange(count) + row, np.arange(count) + start))
            start += count
        row += count
    return (*_ones(fine_pairs, start, cells), *_ones(coarse_pairs, row, start))


def _ones(pairs: list[tuple[Integers, Integers]], height: int, width: int) -> tuple[GroupSums, GroupSums]:
    """The 0/1 matrix with ones at the pairs, and its transpose."""
    from confide.estimation.node_problem import GroupSums

    empty = np.zeros(0, np.int64)
    rows = np.concatenate([empty, *(pair[0] for pair in pairs)])
    columns = np.concatenate([empty, *(pair[1] for pair in pairs)])
    return GroupSums.of(rows, columns, (height, width)), GroupSums.of(columns, rows, (width, height))


# Projections on simplices, many at once.


def project(v: Floats, free: Booleans, sums: Floats | None, axis: int) -> Floats:
    """The nearest point with ``x >= 0``, ``x = 0`` where not ``free``, and ``sum of x along the axis = sums``.

    It is ``max(v - t, 0)`` with one t for each block, found by sorting: the k largest terms are positive for the
    largest k with ``k v_(k) > v_(1) + ... + v_(k) - sum`` (Held, Wolfe and Crowder 1974). Without ``sums`` only signs
    are mended.
    """
    if sums is None:
        return np.where(free, np.maximum(v, 0.0), 0.0)
    masked = np.where(free, v, -np.inf)
    if not masked.size:
        return np.zeros(masked.shape)
    falling = np.flip(np.sort(masked, axis), axis)
    excess = np.cumsum(falling, axis) - sums
    rank = np.arange(1, masked.shape[axis] + 1)
    rank = rank if axis == 1 else rank[:, None]
    positive = (falling * rank > excess) & np.isfinite(falling)
    number = positive.sum(axis, keepdims=True)
    at = np.take_along_axis(excess, np.maximum(number - 1, 0), axis)
    t = np.where(number > 0, at / np.maximum(number, 1), 0.0)
    return np.asarray(np.maximum(masked - t, 0.0))


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

    def adjoint(self, values: Floats, shape: tuple[int, ...]) -> Floats:
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
    hessian: Hessian | CellLaw

    def caps(self, value: float) -> Floats:
        """For every variable a bound that no point as good as ``value`` exceeds (root without a total: from f)."""
        if self.sums is not None:
            return np.broadcast_to(self.sums, self.free.shape)
        if self.problem.law is not None:
            return self.problem.law.reach(value)
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
    # An upper bound of 0 fixes its cells: they are no variables.
    tightened = [(bound, *tighten(problem, bound)) for bound in problem.bounds]
    for bound, _, upper in tightened:
        zero = (upper <= 0.0) & (bound.lower <= 0.0)
        if zero.any():
            inside = bound.groups >= 0
            free[inside] &= ~zero[bound.groups[inside]]
    parts = [_group_rows(problem, bound, lower, upper, free) for bound, lower, upper in tightened]
    parts += [_child_rows(problem, index, free) for index in range(len(problem.child_sums))]
    hessian = build_hessian(problem) if problem.law is None else problem.law
    return Prepared(problem, free, sums, axis, _join(parts, free.size), hessian)


def tighten(problem: NodeProblem, bound: GroupBounds) -> tuple[Floats, Floats]:
    """The bounds of each child as they follow from those of the others and the parent's sums."""
    lower, upper = np.maximum(bound.lower, 0.0), bound.upper.copy()
    if problem.parent is None:
        return lower, upper if problem.total is None else np.minimum(upper, float(problem.total))
    parent_sums = group_sums(bound.groups, problem.parent.astype(np.float64)[:, None], len(lower))
    np.minimum(upper, parent_sums, out=upper)
    least = parent_sums - (upper.sum(1, keepdims=True) - upper)
    most = parent_sums - (lower.sum(1, keepdims=True) - lower)
    new_lower, new_upper = np.maximum(lower, least), np.minimum(upper, most)
    # Bounds that clash are left as they came, so that the message names what was given.
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
