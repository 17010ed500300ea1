"""Movements of tables carried over to the people behind them: what the joint table must do for cells to move.

A movement d of the cells of linked tables is one that an attacker cannot rule out only if some kinds of people x can
move with it: with J the equations of the joint tables,

    sum of dx over the kinds in a cell = d(cell)  for every cell,    x + dx >= 0.

Where tables have areas, areas do not have kinds of people in common, so that this is a small programme for each area
that the movement touches. It is tried first with the kinds in the cells that move alone.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from confide.mechanisms.suppression.flows import FeasibleFlow, whole_change
from confide.mechanisms.suppression.problem import NOBODY, PatternProblem
from confide.mechanisms.suppression.structure import JOINT, Integers, gather


class Lifting:
    """The joint tables of a problem."""

    def __init__(self, problem: PatternProblem):
        self.problem = problem
        structure = problem.structure
        own = structure.axis == JOINT
        self.any = bool(own.any())
        self._total: Integers = structure.total[own]
        matrix = sparse.csr_array(structure.matrix[own])
        number = np.arange(matrix.shape[0])
        totals = sparse.csr_array((np.ones(len(number)), (number, self._total)), shape=matrix.shape)
        self._kinds = sparse.csr_array(matrix + totals)
        self._kinds.eliminate_zeros()
        self._rows_of_total = sparse.csc_array(totals)
        self._rows_of_kind = sparse.csc_array(self._kinds)

    def lifted(self, flow: FeasibleFlow, known: int = NOBODY) -> FeasibleFlow | None:
        """The movement with that of people who let it happen, whole as well; None if there are none. Nobody moves whom
        the person ``known`` knows of."""
        touched = self._of(self._rows_of_total, flow.cells)
        if not len(touched):
            return flow
        moved = np.zeros(self.problem.structure.cells, np.int64)
        moved[flow.cells] = flow.by
        near = np.unique(self._of(self._kinds, touched))
        far = np.flatnonzero(np.isin(self._part, np.unique(self._part[near])))
        for kinds in (near, far) if len(far) > len(near) else (near,):
            free = kinds[~self.problem.fixed_by(known)[kinds]]
            change = self._change(moved, touched, free, known)
            if change is not None:
                at = np.flatnonzero(change)
                return FeasibleFlow(np.append(flow.cells, free[at]), np.append(flow.by, change[at]))
        return None

    def _change(self, moved: Integers, touched: Integers, kinds: Integers, known: int) -> Integers | None:
        rows = np.union1d(touched, self._of(self._rows_of_kind, kinds))
        rhs = moved[self._total[rows]].astype(np.float64)
        matrix = sparse.csc_array(self._kinds[rows][:, kinds])
        if ((rhs != 0) & (np.diff(sparse.csr_array(matrix).indptr) == 0)).any():
            return None
        room = (self.problem.value - self.problem.low_for(known))[kinds]
        change, _ = whole_change(matrix, rhs, room, np.ones(len(kinds)))
        return change

    def widened(self, region: Integers) -> Integers:
        """A region with the kinds of people in its cells, and all cells that these are in."""
        kinds = np.unique(self._of(self._kinds, self._of(self._rows_of_total, region)))
        totals = self._total[np.unique(self._of(self._rows_of_kind, kinds))]
        return np.unique(np.concatenate([region, kinds, totals]))

    def together(self, cell: int) -> Integers:
        """Everything that hangs together with a cell, people with it."""
        labels = self._whole
        return np.flatnonzero(labels == labels[cell])

    @staticmethod
    def _of(matrix: sparse.csr_array | sparse.csc_array, which: Integers) -> Integers:
        return gather(matrix.indptr, matrix.indices, which)

    @cached_property
    def _part(self) -> Integers:
        """For each cell of a joint table the part of it, such as an area, that it belongs to."""
        size = self.problem.structure.cells
        return _labels(self._kinds, size)

    @cached_property
    def _whole(self) -> Integers:
        return _labels(self.problem.structure.matrix, self.problem.structure.cells)


def _labels(matrix: sparse.csr_array, cells: int) -> Integers:
    """Columns that have a row in common, not even through others, have the same number."""
    graph = sparse.csr_array(sparse.block_array([[None, abs(matrix)], [abs(matrix).T, None]]))
    _, labels = csgraph.connected_components(graph, directed=False)
    of_cells: Integers = labels[-cells:].astype(np.int64)
    return of_cells
