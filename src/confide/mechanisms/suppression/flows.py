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
from math import gcd

import numpy as np
from scipy import sparse

from confide.arrays import Floats, Integers
from confide.mechanisms.suppression.problem import NOBODY, PatternProblem, ProtectionNeed
from confide.mechanisms.suppression.structure import Flags, is_whole, minimise

FREE = 1e-3
"""What it costs to move a cell that is suppressed already, relative to the cheapest that is not."""

NODES = 50
"""In how many branches whole numbers are looked for where a linear programme has fractions, ..."""

MOST_WHOLE = 3_000
"""... in programmes of at most so many cells, ..."""

GAP = 0.05
"""... and up to this much dearer than the best."""

FURTHEST = 1 << 20
"""A movement is multiplied by at most this."""

MOST_REGIONS = 100

LARGE_REGION = 600
"""Regions with more cells are looked through in part first, ..."""

SIBLINGS, PARTS = 15, 3
"""... in so many codes beside a cell's own, and below each of them."""

NEAR_REGIONS = 6
"""How many regions are looked through in part before the whole ones are."""

PROVED_AT_ONCE = 1_000
"""So many movements are checked by one product of matrices."""


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

    @cached_property
    def steps(self) -> int:
        """How many times the flow holds the smallest one of its direction: each multiple up to this is a flow too."""
        return gcd(*self.by.tolist())


class FeasibleFlows:
    """Feasible flows, by the cells that they move: the proof of a pattern."""

    def __init__(self, problem: PatternProblem):
        self.problem = problem
        self._found: dict[int, FeasibleFlow] = {}
        self._of_cell: dict[int, set[int]] = {}
        self._next = 0
        self._own: dict[int, dict[int, int]] = {}

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
                self.keep(way.times(furthest))

    def keep(self, flow: FeasibleFlow) -> None:
        """A movement as it is."""
        self._found[self._next] = flow
        for cell in flow.cells.tolist():
            self._of_cell.setdefault(cell, set()).add(self._next)
        self._next += 1

    def moving(self, cell: int, *, without: int | None = None) -> Iterator[FeasibleFlow]:
        """The movements that move a cell; those that leave another alone, if one is named."""
        skipped = self._of_cell.get(without, set()) if without is not None else set()
        return (self._found[number] for number in self._of_cell.get(cell, ()) if number not in skipped)

    def reach(self, cell: int, *, without: int | None = None, known: int = NOBODY) -> tuple[int, int]:
        """How far a cell can fall and rise; for a contributor, as far as it cannot rule out."""
        moving = self.moving(cell, without=without)
        if known == NOBODY:
            by = [flow.of_cell[cell] for flow in moving]
        else:
            own = self.known_by(known)
            by = [flow.of_cell[cell] // flow.steps * self._steps_for(flow, known, own) for flow in moving]
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

    def serves(self, need: ProtectionNeed, person: int, *, without: int | None = None) -> bool:
        """Whether a cell can do what it must for all that a contributor knows."""
        own, down, up = self.known_by(person), 0, 0
        for flow in self.moving(need.cell, without=without):
            by = flow.of_cell[need.cell]
            if -down <= by <= up:
                continue  # no further than what was seen
            by = by // flow.steps * self._steps_for(flow, person, own)
            down, up = max(down, -by), max(up, by)
            if need.met(down, up):
                return True
        return need.met(down, up)

    def suspects(self, need: ProtectionNeed, *, without: int | None = None) -> set[int]:
        """Contributors who might bound a cell more tightly than needed: every movement that goes far enough one way
        contradicts what they know. Those who are alone in the cell know it anyway."""
        insiders = self.problem.insiders
        if insiders is None:
            return set()
        persons: set[int] = set()
        for sign, level in ((-1, need.lower), (1, need.upper)):
            if level:
                persons |= self._contradicted(need.cell, sign, level, without)
        if need.sliding > need.lower + need.upper:
            # Whoever can rule out neither the furthest fall nor the furthest rise cannot rule out their sum.
            for sign, level in zip((-1, 1), self.reach(need.cell, without=without), strict=True):
                persons |= self._contradicted(need.cell, sign, level, without) if level else set()
        return persons - {NOBODY, int(insiders.alone[need.cell])}

    def _contradicted(self, cell: int, sign: int, level: int, without: int | None) -> set[int]:
        """The contributors whose knowledge rules out every movement of a cell by so much in one direction."""
        common: set[int] | None = None
        for flow in self.moving(cell, without=without):
            step = sign * flow.of_cell[cell] // flow.steps
            if step <= 0 or step * flow.steps < level:
                continue
            ruled_out = self._ruled_out(flow, -(-level // step))
            common = ruled_out if common is None else common & ruled_out
            if not common:
                break
        assert self.problem.insiders is not None
        return self.problem.insiders.everybody if common is None else common

    def _ruled_out(self, flow: FeasibleFlow, steps: int) -> set[int]:
        """The contributors who know that a movement by so many steps cannot be: a cell of their own would move, or fall
        below what they gave to it."""
        insiders = self.problem.insiders
        assert insiders is not None
        owners = insiders.alone[flow.cells]
        persons: set[int] = set(owners.tolist())
        figures = self.problem.value[flow.cells] + flow.by // flow.steps * steps
        # Most cells fall to nobody's bound: only the others are looked into.
        for at in np.flatnonzero((flow.by < 0) & (insiders.highest[flow.cells] > figures)).tolist():
            persons.update(insiders.above(int(flow.cells[at]), int(figures[at])))
        return persons - {NOBODY}

    def _steps_for(self, flow: FeasibleFlow, person: int, own: dict[int, int]) -> int:
        """How many steps of a movement somebody cannot rule out."""
        insiders, value = self.problem.insiders, self.problem.value
        assert insiders is not None
        steps = flow.steps
        for cell in own.keys() & flow.of_cell.keys():
            by = flow.of_cell[cell]
            if insiders.alone[cell] == person:
                return 0
            if by < 0:
                steps = min(steps, max(0, int(value[cell]) - own[cell]) // (-by // flow.steps))
        return steps

    def known_by(self, person: int) -> dict[int, int]:
        """The cells that a contributor is in, each with what it knows the figure not to be below."""
        assert self.problem.insiders is not None
        if person not in self._own:
            self._own[person] = self.problem.insiders.known_by(person)
        return self._own[person]

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
        waiting = list(self)
        while waiting:
            some, waiting = waiting[:PROVED_AT_ONCE], waiting[PROVED_AT_ONCE:]
            cells, by = np.concatenate([flow.cells for flow in some]), np.concatenate([flow.by for flow in some])
            if (value[cells] + by < low[cells]).any() or not suppressed[cells].all():
                return False
            number = np.repeat(np.arange(len(some)), [len(flow.cells) for flow in some])
            moved = sparse.csc_array((by, (cells, number)), shape=(len(value), len(some)), dtype=np.int64)
            if (matrix @ moved).count_nonzero():
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
        self._problem = problem
        self._structure = problem.structure.plain
        # A union of cells is the total of no table: it moves wherever its cells do.
        rows = np.flatnonzero(self._structure.total >= 0)
        totals = sparse.csr_array(
            (np.ones(len(rows)), (rows, self._structure.total[rows])), shape=self._structure.matrix.shape
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

    def near(self, cell: int, suppressed: Flags) -> Iterator[Integers]:
        """The parts of a cell's first regions that lie in few codes of the longest variable: its own, those siblings
        that can move at least cost, and what is above. None where the first region is not large."""
        if self._problem.along is None or len(next(self.around(cell))) <= LARGE_REGION:
            return
        axis, code = self._problem.along
        if not code[cell]:
            return
        rows = self._rows(self._parts_by_cell, np.array([cell], np.int64))
        rows = rows[self._structure.axis[rows] == axis]
        siblings = self._parts.indices[_spans(self._parts.indptr, rows)]
        chosen, waiting = {0}, [cell, *self._best(siblings[siblings != cell], SIBLINGS, suppressed)]
        while waiting:
            at = waiting.pop()
            chosen.add(int(code[at]))
            rows = self._rows(self._totals_by_cell, np.array([at], np.int64))
            rows = rows[self._structure.axis[rows] == axis]
            waiting += self._best(self._parts.indices[_spans(self._parts.indptr, rows)], PARTS, suppressed)
        above = self._rows(self._parts_by_cell, np.array([cell], np.int64))
        while len(above := above[self._structure.axis[above] == axis]):
            total = self._structure.total[above]
            chosen.update(code[total].tolist())
            above = self._rows(self._parts_by_cell, total)
        wanted = np.zeros(int(code.max()) + 1, np.bool_)
        wanted[sorted(chosen)] = True
        for number, region in enumerate(self.around(cell)):
            if number == NEAR_REGIONS:
                break
            yield region[wanted[code[region]]]

    def _best(self, cells: Integers, number: int, suppressed: Flags) -> list[int]:
        """Cells that can move at least cost: those that are suppressed already, then those with most in them."""
        problem = self._problem
        free = cells[~problem.keep[cells] | suppressed[cells]]
        order = np.lexsort((free, -problem.value[free], ~suppressed[free]))
        return [int(cell) for cell in free[order[:number]]]

    def _larger(self, region: Integers) -> Integers | None:
        """The smallest region in which totals along one more dimension move; None if all do."""
        rows = self._rows(self._parts_by_cell, region)
        inside = np.zeros(self._structure.cells, np.bool_)
        inside[region] = True
        best: Integers | None = None
        for axis in np.unique(self._structure.axis[rows][self._structure.total[rows] >= 0]):
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


@dataclass(frozen=True, eq=False, repr=False)
class Search:
    """What was found: a movement, or none; and whether there is one at all, in fractions at least."""

    flow: FeasibleFlow | None
    possible: bool


NOTHING = Search(None, possible=False)


def cheapest(
    problem: PatternProblem,
    region: Integers,
    cell: int,
    by: int,
    suppressed: Flags,
    *,
    known: int = NOBODY,
    new: bool = True,
    joint: bool = False,
    careful: bool = False,
) -> Search:
    """The cheapest movement within a region that moves a cell by so much; what the person ``known`` knows stays as it
    is, and so does what is not suppressed unless ``new``. With ``joint`` the equations of joint tables hold too.
    ``careful``: no other cell falls below what any of its several contributors knows."""
    # 1. The unknowns: cells of the region that may move at all. What is published and must stay, or what the person
    #    knows, is fixed at zero and drops out; the cell itself comes last, as a constant.
    movable = suppressed[region] | (np.bool_(new) & ~problem.keep[region])
    lowest = problem.low_for(known)
    if known != NOBODY:
        movable &= ~problem.fixed_by(known)[region]
    if problem.value[cell] + by < lowest[cell]:
        return NOTHING
    if careful and problem.insiders is not None:
        lowest = np.maximum(lowest, problem.insiders.highest)
    cells = np.append(region[movable & (region != cell)], cell)
    # 2. The equations that these cells are in, without those that cannot hold: a cell alone in an equation cannot move,
    #    and then others may be alone in theirs.
    structure = problem.structure if joint else problem.structure.plain
    columns = structure.by_cell
    spans = _spans(columns.indptr, cells)
    column = np.repeat(np.arange(len(cells)), np.diff(columns.indptr)[cells])
    rows, row = np.unique(columns.indices[spans], return_inverse=True)
    data = columns.data[spans]
    alive = _able(row, column, len(cells), len(rows))
    if not alive[-1]:
        return NOTHING
    alive_entries = alive[column]
    cells = cells[alive][:-1]
    rows, row = np.unique(row[alive_entries], return_inverse=True)
    column, data = (np.cumsum(alive) - 1)[column[alive_entries]], data[alive_entries]
    # 3. The cell moves by ``by``: its column goes to the right-hand side.
    own = column == len(cells)
    rhs = np.zeros(len(rows))
    rhs[row[own]] = -by * data[own]
    row, column, data = row[~own], column[~own], data[~own]
    # 4. The linear programme. On two-way tables its vertices are whole; elsewhere an integer programme may be needed.
    least = float(problem.weight.min(initial=1.0))
    price = np.where(suppressed[cells], FREE * least, problem.weight[cells])
    matrix = sparse.csc_array((data, (row, column)), shape=(len(rows), len(cells)))
    moved, possible = whole_change(matrix, rhs, problem.value[cells] - lowest[cells], price)
    if moved is None:
        return Search(None, possible)
    moved = np.append(moved, by)
    at = np.flatnonzero(moved)
    return Search(FeasibleFlow(np.append(cells, cell)[at], moved[at]), possible=True)


def whole_change(matrix: sparse.csc_array, rhs: Floats, room: Integers, price: Floats) -> tuple[Integers | None, bool]:
    """Whole d with matrix · d = rhs and d >= -room at the least price of all |d| together, or none; and whether there
    is one in fractions."""
    # d = rise - fall, both at least zero, so that |d| is linear; no cell falls below its bound.
    size = len(price)
    both = sparse.csc_array(sparse.hstack([matrix, -matrix]))
    low, cost = np.zeros(2 * size), np.concatenate([price, price])
    high = np.concatenate([np.full(size, np.inf), room.astype(np.float64)])
    solved = minimise(cost, both, rhs, low, high)
    if solved is None:
        return None, False
    if not is_whole(solved.values):
        if size > MOST_WHOLE:
            return None, True
        solved = minimise(cost, both, rhs, low, np.minimum(high, FURTHEST), integer=True, nodes=NODES, gap=GAP)
        if solved is None or not is_whole(solved.values):
            return None, True
    integers = np.rint(solved.values).astype(np.int64)
    return integers[:size] - integers[size:], True


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
