"""Feasible flows: other figures for suppressed cells that an attacker cannot rule out.

A feasible flow, or feasible perturbation, d has M d = 0 and low <= a + d, where a are the true values; it is zero
wherever a cell is published. Then a + d is a table that is congruent with what is published (Fischetti and
Salazar-Gonzalez, "Models and algorithms for optimizing cell suppression in tabular data with linear constraints",
JASA 95, 2000). On a plain two-way table it is a circulation in a network, hence the name; in prose it is a *movement*.
If some flow has d_c = u, the attacker's interval of c reaches up to a_c + u at least. Flows are kept as whole numbers
and checked as such, so what they prove does not depend on a solver's rounding, and holds against an attacker who knows
that all figures are whole numbers.

The cheapest movement of a cell by u, with a price for each published cell that it would move, is a linear programme:

    min  sum_i w_i |d_i|   with   M d = 0,   d_c = u,   a + d >= low;

on a plain two-way table this is the cheapest cycle through c (Cox 1980; Kelly, Golden and Assad 1992).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from confide.mechanisms.suppression.problem import NOBODY, PatternProblem
from confide.mechanisms.suppression.structure import Flags, Floats, Integers, is_whole, minimise

FREE = 1e-3
"""What it costs to move a cell that is suppressed already, relative to the cheapest that is not."""

SECONDS = 5.0
"""How long whole numbers are looked for where a linear programme has fractions."""

FURTHEST = 1 << 20
"""A movement is multiplied by at most this."""

MOST_REGIONS = 100


@dataclass(frozen=True, eq=False, repr=False)
class FeasibleFlow:
    """A feasible flow: the cells that move and by how much, in whole numbers."""

    cells: Integers
    by: Integers

    def times(self, factor: int) -> FeasibleFlow:
        return FeasibleFlow(self.cells, self.by * factor)

    @cached_property
    def of_cell(self) -> dict[int, int]:
        """By how much each cell moves."""
        return dict(zip(self.cells.tolist(), self.by.tolist(), strict=True))


class FeasibleFlows:
    """Feasible flows, by the cells that they move: the proof of a pattern."""

    def __init__(self, problem: PatternProblem):
        self.problem = problem
        self._found: dict[int, FeasibleFlow] = {}
        self._of_cell: dict[int, set[int]] = {}
        self._next = 0

    def __iter__(self) -> Iterator[FeasibleFlow]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def add(self, flow: FeasibleFlow) -> None:
        """A movement, as far as it can go, and its opposite."""
        for way in (flow, flow.times(-1)):
            # The multiple as far as the first cell that reaches its bound: whole, so that it stays a proof.
            furthest = self._furthest(way)
            if furthest:
                self._found[self._next] = way.times(furthest)
                for cell in way.cells.tolist():
                    self._of_cell.setdefault(cell, set()).add(self._next)
                self._next += 1

    def moving(self, cell: int, *, without: int | None = None) -> Iterator[FeasibleFlow]:
        """The movements that move a cell; those that leave another alone, if one is named."""
        skipped = self._of_cell.get(without, set()) if without is not None else set()
        return (self._found[number] for number in self._of_cell.get(cell, ()) if number not in skipped)

    def reach(self, cell: int, *, without: int | None = None) -> tuple[int, int]:
        """How far a cell can fall and rise."""
        by = [flow.of_cell[cell] for flow in self.moving(cell, without=without)]
        return max(0, -min(by, default=0)), max(0, max(by, default=0))

    def tied(self, cell: int, *, without: int | None = None) -> set[int]:
        """The persons, other than a cell's own, of whom every movement of the cell moves something they know."""
        persons = self.problem.persons
        common: set[int] | None = None
        for flow in self.moving(cell, without=without):
            moved = set(persons[flow.cells].tolist())
            common = moved if common is None else common & moved
            if common <= {NOBODY}:
                break
        return (common or set()) - {NOBODY, int(persons[cell])}

    def drop(self, cell: int) -> None:
        """Forgets the movements of a cell, which is published."""
        for number in self._of_cell.pop(cell, set()):
            for other in self._found.pop(number).of_cell:
                if other != cell:
                    self._of_cell[other].discard(number)

    def prove(self, suppressed: Flags) -> bool:
        """Whether every movement is one: whole numbers that add up, no value below its bound, nothing else moved."""
        low, value = self.problem.low, self.problem.value
        matrix = self.problem.structure.matrix.astype(np.int64)
        for flow in self:
            moved = np.zeros(len(value), np.int64)
            moved[flow.cells] = flow.by
            if (matrix @ moved).any() or (value + moved < low).any() or (moved.astype(np.bool_) & ~suppressed).any():
                return False
        return True

    def _furthest(self, flow: FeasibleFlow) -> int:
        falling = flow.by < 0
        room = self.problem.value[flow.cells] - self.problem.low[flow.cells]
        return int((room[falling] // -flow.by[falling]).min(initial=FURTHEST))


class FlowRegions:
    """Neighbourhoods of a cell, from small to large, within which movements are looked for.

    The smallest has the cell, its siblings in every dimension, theirs, and all that these are made of: totals above
    them stay. The next ones let totals along one dimension move, with what that entails.
    """

    def __init__(self, problem: PatternProblem):
        self._structure = problem.structure
        totals = sparse.csr_array(
            (np.ones(self._structure.rows), (np.arange(self._structure.rows), self._structure.total)),
            shape=self._structure.matrix.shape,
        )
        self._parts = sparse.csr_array(self._structure.matrix + totals)
        self._parts.eliminate_zeros()
        self._parts_by_cell = sparse.csc_array(self._parts)
        self._totals_by_cell = sparse.csc_array(totals)
        self._grown: dict[int, list[Integers]] = {}

    def around(self, cell: int) -> Iterator[Integers]:
        """Regions of a cell, growing up to everything that hangs together with it."""
        grown = self._grown.get(cell)
        if grown is None:
            grown = self._grown[cell] = [self._closed(np.array([cell], np.int64))]
            # Siblings without parts are in each other's closure, and share it.
            if not self._is_total(cell):
                for other in grown[0].tolist():
                    if not self._is_total(other):
                        self._grown.setdefault(other, grown)
        yield grown[0]
        for number in range(1, MOST_REGIONS):
            if len(grown) == number:
                larger = self._larger(grown[-1])
                if larger is None:
                    return
                grown.append(larger)
            yield grown[number]

    def _larger(self, region: Integers) -> Integers | None:
        """The smallest region in which totals along one more dimension move; None if all do."""
        rows = self._rows(self._parts_by_cell, region)
        inside = np.zeros(self._structure.cells, np.bool_)
        inside[region] = True
        best: Integers | None = None
        for axis in np.unique(self._structure.axis[rows]):
            totals = self._structure.total[rows[self._structure.axis[rows] == axis]]
            if inside[totals].all():
                continue
            larger = self._closed(np.union1d(region, totals))
            if best is None or len(larger) < len(best):
                best = larger
        return best

    def _closed(self, cells: Integers) -> Integers:
        """The cells with their siblings and parts, and theirs."""
        inside = np.zeros(self._structure.cells, np.bool_)
        inside[cells] = True
        new = cells
        while len(new):
            rows = np.union1d(self._rows(self._parts_by_cell, new), self._rows(self._totals_by_cell, new))
            parts = self._parts.indices[_spans(self._parts.indptr, rows)]
            new = np.unique(parts[~inside[parts]]).astype(np.int64)
            inside[new] = True
        return np.flatnonzero(inside)

    @staticmethod
    def _rows(by_cell: sparse.csc_array, cells: Integers) -> Integers:
        rows: Integers = np.unique(by_cell.indices[_spans(by_cell.indptr, cells)]).astype(np.int64)
        return rows

    def _is_total(self, cell: int) -> bool:
        pointers = self._totals_by_cell.indptr
        return bool(pointers[cell + 1] > pointers[cell])


def cheapest(
    problem: PatternProblem,
    region: Integers,
    cell: int,
    by: int,
    suppressed: Flags,
    *,
    known: int = NOBODY,
    new: bool = True,
) -> FeasibleFlow | None:
    """The cheapest movement within a region that moves a cell by so much; what the person ``known`` knows stays as it
    is, and so does what is not suppressed unless ``new``. None if there is none."""
    # 1. The unknowns: cells of the region that may move at all. What is published and must stay, or what the person
    #    knows, is fixed at zero and drops out; the cell itself comes last, as a constant.
    movable = suppressed[region] | (np.bool_(new) & ~problem.keep[region])
    if known != NOBODY:
        movable &= problem.persons[region] != known
    if problem.value[cell] + by < problem.low[cell]:
        return None
    cells = np.append(region[movable & (region != cell)], cell)
    # 2. The equations that these cells are in, without those that cannot hold: a cell alone in an equation cannot move,
    #    and then others may be alone in theirs.
    columns = problem.structure.by_cell
    spans = _spans(columns.indptr, cells)
    column = np.repeat(np.arange(len(cells)), np.diff(columns.indptr)[cells])
    row, data = columns.indices[spans], columns.data[spans]
    alive = _able(row, column, len(cells), problem.structure.rows)
    if not alive[-1]:
        return None
    alive_entries = alive[column]
    cells = cells[alive][:-1]
    rows, row = np.unique(row[alive_entries], return_inverse=True)
    column, data = (np.cumsum(alive) - 1)[column[alive_entries]], data[alive_entries]
    # 3. The cell moves by ``by``: its column goes to the right-hand side.
    own = column == len(cells)
    rhs = np.zeros(len(rows))
    rhs[row[own]] = -by * data[own]
    row, column, data = row[~own], column[~own], data[~own]
    # 4. d = rise - fall, both at least zero, so that |d| is linear; no cell falls below its bound.
    both = sparse.csc_array(
        (np.append(data, -data), (np.append(row, row), np.append(column, column + len(cells)))),
        shape=(len(rows), 2 * len(cells)),
    )
    least = float(problem.weight.min(initial=1.0))
    price = np.where(suppressed[cells], FREE * least, problem.weight[cells])
    low, cost = np.zeros(2 * len(cells)), np.concatenate([price, price])
    room = (problem.value[cells] - problem.low[cells]).astype(np.float64)
    high = np.concatenate([np.full(len(cells), np.inf), room])
    # 5. The linear programme. On two-way tables its vertices are whole; elsewhere an integer programme may be needed.
    solved = minimise(cost, both, rhs, low, high)
    if solved is None:
        return None
    if not is_whole(solved.values):
        solved = minimise(cost, both, rhs, low, np.minimum(high, FURTHEST), integer=True, seconds=SECONDS)
        if solved is None or not is_whole(solved.values):
            return None
    return _flow(solved.values, cells, cell, by)


def _flow(values: Floats, cells: Integers, cell: int, by: int) -> FeasibleFlow:
    integers = np.rint(values).astype(np.int64)
    moved = np.append(integers[: len(cells)] - integers[len(cells) :], by)
    at = np.flatnonzero(moved)
    return FeasibleFlow(np.append(cells, cell)[at], moved[at])


def _able(row: Integers, column: Integers, cells: int, rows: int) -> Flags:
    """The cells that might move at all: one that is alone in an equation cannot, and so on."""
    alive = np.ones(cells, np.bool_)
    while True:
        there = alive[column]
        number = np.bincount(row[there], minlength=rows)
        stuck = np.unique(column[there & (number[row] == 1)])
        if not len(stuck):
            return alive
        alive[stuck] = False


def _spans(pointers: Integers, which: Integers) -> Integers:
    """The places of the entries of several rows or columns of a sparse matrix."""
    starts = pointers[which].astype(np.int64)
    sizes = pointers[which + 1].astype(np.int64) - starts
    offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    places: Integers = offsets + np.arange(int(sizes.sum()))
    return places
