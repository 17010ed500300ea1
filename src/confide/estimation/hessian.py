"""The sum of squares as a linear operator: H x without forming H where that is dearer.

With M_q the 0/1 matrix of query q, the objective's Hessian for child c is ``2 H_c``, ``H_c = sum of w[q, c] M_q' M_q``.
Queries whose groups hold one cell each are a diagonal; the others are stacked in a sparse matrix, and a query that is
coarser than another one is summed from that one's groups, not from the cells: ten queries cost about as much as two.
In a small problem whose children all have the same weights, H is kept as a dense matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from confide.estimation.problem import Floats, Integers, MeasuredQuery, NodeProblem

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
    stack: sp.csr_array
    """Sums over the finest groups, (finest rows, cells)."""
    stack_t: sp.csr_array
    coarse: sp.csr_array
    """Sums of those, one row for each measured group, (rows, finest rows)."""
    coarse_t: sp.csr_array
    weights: Floats
    """(rows, children)."""
    measured: Floats
    """(rows, children)."""
    dense: Floats | None
    """H itself, where it is small and the same for all children."""

    def margins(self, x: Floats) -> Floats:
        """M x: every measured group's sum."""
        return np.asarray(self.coarse @ (self.stack @ x))

    def spread(self, values: Floats) -> Floats:
        """M' values: for every cell the sum over the groups that it lies in."""
        return np.asarray(self.stack_t @ (self.coarse_t @ values))

    def product(self, v: Floats) -> Floats:
        """H v."""
        if self.dense is not None:
            return np.asarray(self.dense @ v)
        return self.diagonal * v + self.spread(self.weights * self.margins(v))

    def gradient(self, x: Floats) -> Floats:
        """``2 (H x - M'wy)``, from the residuals, which keeps the digits that matter."""
        return 2.0 * (self.diagonal * (x - self.centre) + self.spread(self.weights * (self.margins(x) - self.measured)))

    def value(self, x: Floats) -> float:
        """f(x)."""
        own, stacked = x - self.centre, self.margins(x) - self.measured
        return float((self.diagonal * own * own).sum() + (self.weights * stacked * stacked).sum()) + self.constant

    def largest(self) -> float:
        """An upper bound of the largest eigenvalue of H over all children: its largest row sum, as H >= 0."""
        return float(self.product(np.ones(self.diagonal.shape)).max(initial=0.0))


def build_hessian(problem: NodeProblem) -> Hessian:
    """The operator of a node problem."""
    diagonal, weighted, constant = np.zeros(problem.allowed.shape), np.zeros(problem.allowed.shape), 0.0
    singles: list[tuple[MeasuredQuery, Integers]] = []
    stacked: list[tuple[Integers, Floats, Floats]] = []
    for query in problem.queries:
        if not query.weights.any():
            continue
        sizes = np.bincount(query.groups[query.groups >= 0], minlength=len(query.measured))
        if not sizes.all():
            constant += float((query.weights * query.measured[sizes == 0] ** 2).sum())
        if sizes.max(initial=0) <= 1:
            inside = query.groups >= 0
            diagonal[inside] += query.weights
            weighted[inside] += query.weights * query.measured[query.groups[inside]]
            singles.append((query, np.flatnonzero(inside)))
        else:
            number = np.append(np.cumsum(sizes > 0) - 1, -1)
            stacked.append((number[query.groups], query.measured[sizes > 0], query.weights))
    centre = np.divide(weighted, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    for query, own in singles if len(singles) > 1 else []:
        off = query.measured[query.groups[own]] - centre[own]
        constant += float((query.weights * off * off).sum())
    stacked.sort(key=lambda part: -len(part[1]))
    none = np.zeros((0, problem.units))
    measured = np.concatenate([none, *(part[1] for part in stacked)])
    weights = np.concatenate([none, *(np.broadcast_to(part[2], part[1].shape) for part in stacked)])
    stack, stack_t, coarse, coarse_t = _sparse_stack([(part[0], len(part[1])) for part in stacked], problem.cells)
    dense = None
    alike = bool((diagonal == diagonal[:, :1]).all() and (weights == weights[:, :1]).all())
    if alike and problem.cells**2 * problem.units <= DENSE:
        dense = np.zeros((problem.cells, problem.cells))
        for groups, _, weight in stacked:
            together = groups[:, None] == np.where(groups >= 0, groups, -2)[None, :]
            dense += float(weight[0]) * together
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


_Stack = tuple[sp.csr_array, sp.csr_array, sp.csr_array, sp.csr_array]


def _sparse_stack(queries: list[tuple[Integers, int]], cells: int) -> _Stack:
    """Sums over the finest partitions and sums of those, each with its transpose; queries with most groups first."""
    finest: list[tuple[Integers, int, int]] = []
    fine_pairs: list[tuple[Integers, Integers]] = []
    coarse_pairs: list[tuple[Integers, Integers]] = []
    start = row = 0
    for groups, count in queries:
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


def _ones(pairs: list[tuple[Integers, Integers]], height: int, width: int) -> tuple[sp.csr_array, sp.csr_array]:
    """The 0/1 matrix with ones at the pairs, and its transpose."""
    empty = np.zeros(0, np.int64)
    rows = np.concatenate([empty, *(pair[0] for pair in pairs)])
    columns = np.concatenate([empty, *(pair[1] for pair in pairs)])
    return _csr(rows, columns, (height, width)), _csr(columns, rows, (width, height))


def _csr(rows: Integers, columns: Integers, shape: tuple[int, int]) -> sp.csr_array:
    order = np.argsort(rows, kind="stable")
    pointer = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
    return sp.csr_array((np.ones(len(rows)), columns[order], pointer), shape=shape)
