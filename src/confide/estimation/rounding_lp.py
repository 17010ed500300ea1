"""Controlled rounding by HiGHS: the checked fallback, and the way out when rounding down or up is not enough.

The same problem as :mod:`confide.estimation.network`, written as a linear program with one variable for each cell of
each child and each group, equalities between a group and the groups or cells it is made of, and bounds on variables.
Its matrix is totally unimodular (``docs/proofs/rounding.md``), so the vertices that the simplex method ends in are
whole; that is checked, never assumed.

Passes are put in order without large weights. After a pass, every variable with a reduced cost other than zero stays
where it is; what remains is exactly the face of optimal solutions, and the next pass is minimised over it. Costs and
right-hand sides are small whole numbers, so the reduced costs of a basis are whole too and cannot be mistaken for zero.

*Widened*, a cell may leave its floor and ceiling where nothing else keeps the sums and bounds: as little as possible
in all, and first of all things.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from confide.estimation.leftover import Leftover
from confide.estimation.rounding_problem import HALF, Floats, Ints

Status = Literal["optimal", "infeasible", "failed"]
_WHOLE = 1e-6
_ZERO = 0.5
_INFEASIBLE = 2


@dataclass(frozen=True, slots=True, eq=False)
class LinearResult:
    """``ups`` is what is added to the floors, in the order of the chain; None unless the status is optimal."""

    status: Status
    ups: Ints | None = None


def solve_linear(left: Leftover, *, widened: bool = False) -> LinearResult:
    """Minimise pass after pass, then the tie-breaker; check that the result is whole."""
    program = _Program(left, widened)
    value: Floats | None = None
    for cost in program.costs():
        result = linprog(
            cost,
            A_eq=program.matrix,
            b_eq=program.right,
            bounds=np.column_stack([program.lower, program.upper]),
            method="highs-ds",
        )
        if result.status != 0:
            return LinearResult("infeasible" if result.status == _INFEASIBLE and value is None else "failed")
        value = np.rint(result.x)
        if np.abs(result.x - value).max(initial=0.0) > _WHOLE:
            return LinearResult("failed")
        decided = np.abs(result.lower.marginals + result.upper.marginals) > _ZERO
        program.lower[decided] = program.upper[decided] = value[decided]
    assert value is not None
    return LinearResult("optimal", program.ups(value))


class _Program:
    """Variables: cells, then (widened) what cells exceed and fall short of them, then groups and their distances."""

    def __init__(self, left: Leftover, widened: bool) -> None:
        self.left = left
        self.rows, self.columns = np.nonzero(left.allowed)
        self.widened = widened
        cells = len(self.rows)
        floor = left.floor[self.rows, self.columns].astype(np.float64)
        self._blocks = 3 if widened else 1
        self.lower = np.zeros(self._blocks * cells)
        self.upper = np.ones(cells)
        if widened:
            self.upper = np.concatenate([self.upper, np.full(cells, np.inf), floor])
        self._cells = cells
        self._entries: list[tuple[Ints, Ints, Ints]] = []
        self._right: list[Ints] = []
        self._height = 0
        self._distances: list[tuple[int, slice]] = []
        self._write_rows()
        row, column, sign = (np.concatenate(parts) for parts in zip(*self._entries, strict=True))
        self.right = np.concatenate(self._right).astype(np.float64)
        self.matrix = sparse.csr_array((sign.astype(np.float64), (row, column)), shape=(self._height, len(self.lower)))

    def _variables(self, lower: Ints | float, upper: Ints | float, count: int) -> Ints:
        begin = len(self.lower)
        self.lower = np.concatenate([self.lower, np.broadcast_to(np.asarray(lower, np.float64), count)])
        self.upper = np.concatenate([self.upper, np.broadcast_to(np.asarray(upper, np.float64), count)])
        return np.arange(begin, begin + count)

    def _sum_of_cells(self, row: Ints) -> None:
        """The cells, with their excess and shortfall, as parts of the given rows."""
        here = np.arange(self._cells)
        for block, sign in zip(range(self._blocks), (1, 1, -1), strict=False):
            self._entries.append((self._height + row, block * self._cells + here, np.full(self._cells, sign)))

    def _write_rows(self) -> None:
        left, problem = self.left, self.left.problem
        cells, children = left.floor.shape
        if left.ups is not None:
            self._sum_of_cells(self.rows)
            self._right.append(left.ups)
            self._height += cells
        finer: tuple[Ints, Ints] | None = None  # the group of the level below, and its variables
        for number in reversed(range(len(left.levels))):
            level = left.levels[number]
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
            over, under = self._variables(0.0, np.inf, size), self._variables(0.0, np.inf, size)
            for variables, sign in ((sums, 1), (over, -1), (under, 1)):
                self._entries.append((self._height + row, variables, np.full(size, sign)))
            self._right.append(level.target.ravel())
            self._height += size
            self._distances.append((number, slice(int(over[0]), int(under[-1]) + 1)))
            finer = level.above, sums
        if left.totals_left is not None and problem.child_group is not None:
            member = np.flatnonzero(problem.child_group[self.columns] >= 0)
            group = problem.child_group[self.columns[member]]
            for block, sign in zip(range(self._blocks), (1, 1, -1), strict=False):
                self._entries.append((self._height + group, block * self._cells + member, np.full(len(member), sign)))
            self._right.append(left.totals_left)
            self._height += len(left.totals_left)
        if not self._entries:  # the root, with nothing but cells
            self._entries.append((np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)))
            self._right.append(np.zeros(0, np.int64))

    def costs(self) -> list[Floats]:
        """What is minimised, one after the other."""
        problem, cells = self.left.problem, slice(0, self._cells)
        around = slice(self._cells, self._blocks * self._cells)
        rest = self.left.rest[self.rows, self.columns]
        stages = [np.zeros(len(self.lower)) for _ in range(problem.passes + 2)]
        stages[0][around] = 1.0
        for number, distances in self._distances:
            partition = self.left.levels[number].partition
            stages[1 + partition.in_pass][distances] = partition.weight
        stages[1 + problem.cell_pass][cells] = problem.cell_weight * np.where(rest > HALF, -1.0, 1.0)
        stages[1 + problem.cell_pass][around] = problem.cell_weight
        stages[-1][cells] = (HALF - rest) / HALF
        stages[-1][around] = 1.0
        return stages if self.widened else stages[1:]

    def ups(self, value: Floats) -> Ints:
        """What the cells get, as a matrix."""
        parts = value[: self._blocks * self._cells].astype(np.int64).reshape(self._blocks, self._cells)
        result = np.zeros_like(self.left.floor)
        result[self.rows, self.columns] = parts[0] + (parts[1] - parts[2] if self.widened else 0)
        return result
