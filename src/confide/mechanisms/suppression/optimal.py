"""The cheapest safe pattern, proved: integer programming with attacker sub-problems (Fischetti and Salazar 2001).

Master: x_i = 1 where a cell is hidden; min sum w_i x_i. Sub-problem, for each primary cell p, each direction and each
person who knows a cell of their own: how far can d_p move with M d = 0 and low_i - a_i <= d_i <= high_i - a_i where x_i
= 1, d_i = 0 elsewhere? If less than its protection level, duality gives an inequality that x breaks and every safe
pattern keeps. For any prices g of the equations, with r = e_p - M' g,

    d_p = r · d <= sum_i x_i · c_i,    c_i = max(r_i (high_i - a_i), -r_i (a_i - low_i)),

so that sum_i min(c_i, level) x_i >= level is demanded. This holds whatever the solver's prices are: a bad price makes
a weak inequality, never a wrong one.

Rounds of master and sub-problems go on until nothing is broken: first with fractions, which is cheap, then with whole
x. In the end whole-number movements must prove the pattern (:mod:`confide.mechanisms.suppression.movements`); if
they cannot, a cell outside it must be hidden, and the rounds go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize, sparse

from confide.mechanisms.suppression.heuristic import Protection, heuristic
from confide.mechanisms.suppression.problem import NOBODY, Pattern, Problem
from confide.mechanisms.suppression.solving import Floats, minimise
from confide.mechanisms.suppression.structure import Flags, Integers

SMALL = 1e-6
CLEAN = 1e-9
FRACTION_ROUNDS = 20
ROUNDS = 500


@dataclass(frozen=True, slots=True)
class Task:
    """What an attacker must not rule out: that ``cell`` moves by ``level`` in all, falling (-1) or rising (1), while
    what the person ``known`` knows stays as it is."""

    cell: int
    signs: tuple[int, ...]
    level: int
    known: int = NOBODY


@dataclass(eq=False)
class _Master:
    """The inequalities so far, each: coefficients · x >= side."""

    problem: Problem
    rows: list[Floats] = field(default_factory=list)
    sides: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.low = self.problem.begun.astype(np.float64)
        self.high = np.where(self.problem.keep, 0.0, 1.0)
        self._bridges()

    def demand(self, coefficients: Floats, side: float) -> None:
        self.rows.append(coefficients)
        self.sides.append(side)

    def solve(self, *, whole: bool, seconds: float) -> tuple[Floats, float] | None:
        """The cheapest x, and what no x can be below. Cells hidden from the beginning cost nothing."""
        cost = np.where(self.problem.begun, 0.0, self.problem.weight)
        matrix = sparse.csr_array(np.array(self.rows)) if self.rows else sparse.csr_array((0, len(cost)))
        sides = np.array(self.sides)
        found = minimise(
            cost, matrix, (sides, np.full(len(sides), np.inf)), self.low, self.high, integer=whole, seconds=seconds
        )
        return None if found is None else (found.values, found.bound)

    def _bridges(self) -> None:
        """A hidden cell alone in an equation is no secret: sum of the others in it >= x_i. For cells that are not
        primary this excludes what would be hidden in vain."""
        matrix = self.problem.structure.matrix
        for row in range(self.problem.structure.rows):
            cells = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
            for cell in cells:
                if self.problem.unlisted[cell]:
                    continue
                coefficients = np.zeros(self.problem.structure.cells)
                coefficients[cells] = 1.0
                coefficients[cell] = -1.0
                self.demand(coefficients, 0.0)


def tasks(problem: Problem) -> list[Task]:
    """Everything that is to be protected."""
    found = []
    persons = sorted(set(problem.persons.tolist()) - {NOBODY})
    for need in problem.needs():
        found += [Task(need.cell, (-1,), need.lower)] if need.lower else []
        found += [Task(need.cell, (1,), need.upper)] if need.upper else []
        found += [Task(need.cell, (-1, 1), need.sliding)] if need.sliding > need.lower + need.upper else []
        others = [person for person in persons if person != problem.persons[need.cell]]
        found += [Task(need.cell, (-1, 1), 1, person) for person in others if problem.about_somebody[need.cell]]
    return found


def optimal(problem: Problem, *, seconds: float = 60.0, begin: Pattern | None = None) -> Pattern:
    """The cheapest safe pattern; or the best found in that time, and how much cheaper another one could be."""
    until = time.monotonic() + seconds
    if begin is None:
        begin = heuristic(problem)
    master, asked = _Master(problem), tasks(problem)
    bound = 0.0
    for _ in range(FRACTION_ROUNDS):
        left = until - time.monotonic()
        solved = master.solve(whole=False, seconds=left) if left > 0 else None
        if solved is None:
            break
        bound = max(bound, solved[1])
        broken = list(_broken(problem, asked, np.clip(solved[0], 0.0, 1.0)))
        if not broken:
            break
        for coefficients, side in broken:
            master.demand(coefficients, side)
    return _whole_rounds(problem, master, asked, begin, bound, until)


def _whole_rounds(
    problem: Problem, master: _Master, asked: list[Task], begin: Pattern, bound: float, until: float
) -> Pattern:
    proofs = _Proofs(problem)
    for _ in range(ROUNDS):
        left = until - time.monotonic()
        solved = master.solve(whole=True, seconds=left) if left > 0 else None
        if solved is None:
            break
        bound = max(bound, solved[1])
        x = np.rint(solved[0])
        hidden: Flags = x > 1 / 2
        broken = list(_broken(problem, asked, x, proofs))
        if not broken:
            proof = Protection(problem, hidden)
            if not proof.complete(new=False):
                cost = problem.cost(hidden)
                return Pattern(hidden, cost, "optimal", min(bound, cost))
            # Safe against fractions but not against whole numbers: so is every pattern within it.
            broken = [((~hidden).astype(np.float64), 1.0)]
        for coefficients, side in broken:
            master.demand(coefficients, side)
    return Pattern(begin.hidden, begin.cost, "optimal", min(bound, begin.cost))


class _Proofs:
    """Movements that sub-problems found: where all they move is hidden again, nothing need be solved again."""

    def __init__(self, problem: Problem) -> None:
        self._persons = problem.persons
        self._of_cell: dict[int, list[tuple[frozenset[int], frozenset[int], float]]] = {}

    def note(self, cell: int, moved: Integers, by: float) -> None:
        persons = frozenset(self._persons[moved].tolist())
        self._of_cell.setdefault(cell, []).append((frozenset(moved.tolist()), persons - {NOBODY}, by))

    def serve(self, task: Task, hidden: frozenset[int]) -> bool:
        proved = self._of_cell.get(task.cell, ())
        known = [by for moved, persons, by in proved if task.known not in persons and moved <= hidden]
        reach = sum(max([0.0, *(sign * by for by in known)]) for sign in task.signs)
        return reach >= task.level * (1 - SMALL)


def _broken(
    problem: Problem, asked: list[Task], x: Floats, proofs: _Proofs | None = None
) -> Iterator[tuple[Floats, float]]:
    """The inequalities that x breaks, at most one for each task. With ``proofs``, x are whole numbers."""
    cells = np.flatnonzero(x > SMALL)
    matrix = problem.structure.matrix[:, cells]
    used = np.diff(matrix.indptr) > 0
    system = _System(problem, cells, matrix[used], np.flatnonzero(used), x, proofs)
    hidden = frozenset(cells.tolist())
    for task in asked:
        if proofs is not None and proofs.serve(task, hidden):
            continue
        reached, coefficients = 0.0, np.zeros(len(x))
        for sign in task.signs:
            moved, why = system.furthest(task, sign)
            reached += moved
            coefficients += why
        coefficients = np.minimum(coefficients, task.level)
        if reached < task.level * (1 - SMALL) and coefficients @ x < task.level * (1 - SMALL):
            yield coefficients, float(task.level)


@dataclass(frozen=True, eq=False)
class _System:
    """The sub-problems of one x: the cells that may move, and the equations that they are in."""

    problem: Problem
    cells: Integers
    matrix: sparse.csr_array
    rows: Integers
    x: Floats
    proofs: _Proofs | None

    def furthest(self, task: Task, sign: int) -> tuple[float, Floats]:
        """How far the cell of a task can move, at most by its level, and the coefficients that say why not further.

        For fractions of x, other cells are held to that fraction of the level: this only decides which inequality is
        looked at, not whether it holds.
        """
        share, level, whole = self.x[self.cells], float(task.level), self.proofs is not None
        room = (self.problem.value - self.problem.low)[self.cells].astype(np.float64)
        low = -room if whole else -np.minimum(room, level) * share
        high = np.full(len(self.cells), np.inf) if whole else level * share
        at = int(np.searchsorted(self.cells, task.cell))
        low[at], high[at] = (0.0, level) if sign > 0 else (-min(level, room[at]), 0.0)
        if task.known != NOBODY:
            own = self.problem.persons[self.cells] == task.known
            low[own], high[own] = 0.0, 0.0
        cost = np.zeros(len(self.cells))
        cost[at] = -sign
        solved = optimize.linprog(
            cost,
            A_eq=self.matrix,
            b_eq=np.zeros(len(self.rows)),
            bounds=np.column_stack([low, high]),
            method="highs",
        )
        prices = np.zeros(self.problem.structure.rows)
        prices[self.rows] = solved.eqlin.marginals
        if self.proofs is not None:
            self.proofs.note(task.cell, self.cells[np.abs(solved.x) > CLEAN], float(solved.x[at]))
        return -solved.fun, self._coefficients(task, sign, prices)

    def _coefficients(self, task: Task, sign: int, prices: Floats) -> Floats:
        """The inequality of some prices, which every safe pattern keeps."""
        # sign · d_p = -r · d for r = -sign · e_p - M' prices, since M d = 0.
        r = -(self.problem.structure.matrix.T @ prices)
        r[task.cell] -= sign
        r[np.abs(r) < CLEAN] = 0.0
        room = (self.problem.value - self.problem.low).astype(np.float64)
        coefficients = np.where(r > 0, r * room, np.where(r < 0, float(task.level), 0.0))
        if task.known != NOBODY:
            coefficients[self.problem.persons == task.known] = 0.0
        return np.minimum(coefficients, task.level)
