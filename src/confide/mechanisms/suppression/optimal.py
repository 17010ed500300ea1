"""The cheapest safe pattern, proved: integer programming with attacker sub-problems (Fischetti and Salazar 2001).

Master: x_i = 1 where a cell is suppressed; min sum w_i x_i. Sub-problem, for each primary cell p, each direction and
each person who knows a cell of their own: how far can d_p move with M d = 0 and low_i - a_i <= d_i <= high_i - a_i
where x_i = 1, d_i = 0 elsewhere? If less than its protection level, duality gives an inequality that x breaks and every
safe pattern keeps. For any prices g of the equations, with r = e_p - M' g,

    d_p = r · d <= sum_i x_i · c_i,    c_i = max(r_i (high_i - a_i), -r_i (a_i - low_i)),

so that sum_i min(c_i, level) x_i >= level is demanded. This holds whatever the solver's prices are: a bad price makes
a weak inequality, never a wrong one.

Rounds of master and sub-problems go on until nothing is broken: first with fractions, which is cheap, then with whole
x. In the end whole-number movements must prove the pattern (:mod:`confide.mechanisms.suppression.flows`); if
they cannot, a cell outside it must be suppressed, and the rounds go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import optimize, sparse

from confide.arrays import Floats, Integers
from confide.errors import ParameterError
from confide.mechanisms.suppression import structure as suppression_structure
from confide.mechanisms.suppression.heuristic import Advance, Protection, heuristic, protect
from confide.mechanisms.suppression.problem import NOBODY, Levels, Pattern, PatternProblem

SMALL = 1e-6
SOLVED = 0
CLEAN = 1e-9
FRACTION_ROUNDS = 20
ROUNDS = 500

PROGRAMMES = 20_000
"""How many attacker's programmes are solved at most for one pattern: a minute or so for a hundred cells."""

NODES = 20_000
"""Branches of all integer programmes of one pattern together."""


@dataclass(eq=False)
class Effort:
    """What may still be spent on a pattern, counted in work, never in time: a busy machine takes longer, and finds the
    same."""

    programmes: int = PROGRAMMES
    nodes: int = NODES

    @property
    def spent(self) -> bool:
        return self.programmes <= 0 or self.nodes <= 0


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

    problem: PatternProblem
    rows: list[Floats] = field(default_factory=list)
    sides: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.low = self.problem.begun.astype(np.float64)
        self.high = np.where(self.problem.keep, 0.0, 1.0)
        self._bridges()

    def demand(self, coefficients: Floats, side: float) -> None:
        self.rows.append(coefficients)
        self.sides.append(side)

    def solve(self, effort: Effort, *, integer: bool) -> tuple[Floats, float] | None:
        """The cheapest x, and what no x can be below. Cells suppressed from the beginning cost nothing."""
        cost = np.where(self.problem.begun, 0.0, self.problem.weight)
        matrix = sparse.csr_array(np.array(self.rows)) if self.rows else sparse.csr_array((0, len(cost)))
        sides = np.array(self.sides)
        nodes = effort.nodes if integer else None
        solution = suppression_structure.minimise(
            cost, matrix, (sides, np.full(len(sides), np.inf)), self.low, self.high, integer=integer, nodes=nodes
        )
        if solution is None:
            return None
        effort.nodes -= solution.nodes
        return solution.values, solution.bound

    def _bridges(self) -> None:
        """A suppressed cell alone in an equation is no secret: sum of the others in it >= x_i. For cells that are not
        primary this excludes what would be suppressed in vain."""
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


def tasks(problem: PatternProblem) -> list[Task]:
    """Everything that is to be protected."""
    every = []
    persons = sorted(set(problem.persons.tolist()) - {NOBODY})
    for need in problem.needs():
        every += [Task(need.cell, (-1,), need.lower)] if need.lower else []
        every += [Task(need.cell, (1,), need.upper)] if need.upper else []
        every += [Task(need.cell, (-1, 1), need.sliding)] if need.sliding > need.lower + need.upper else []
        if problem.insiders is not None:
            continue  # contributors are too many to be asked one by one: see insider_tasks
        others = [person for person in persons if person != problem.persons[need.cell]]
        every += [Task(need.cell, (-1, 1), 1, person) for person in others if problem.about_somebody[need.cell]]
    return every


def insider_tasks(proof: Protection) -> list[Task]:
    """What contributors must not rule out, of those for whom a pattern has no proof."""
    every = []
    for cell, person in proof.unserved:
        need = proof.need_of(cell, person)
        every += [Task(cell, (-1,), need.lower, person)] if need.lower else []
        every += [Task(cell, (1,), need.upper, person)] if need.upper else []
        every += [Task(cell, (-1, 1), need.sliding, person)] if need.sliding > need.lower + need.upper else []
    return every


def optimal(problem: PatternProblem, *, effort: Effort | None = None, begin: Pattern | None = None) -> Pattern:
    """The cheapest safe pattern; or that of the heuristic, and how much cheaper another one could be.

    Args:
        problem: Values, protection levels and costs of all distinct cells.
        effort: How much work it may take.
        begin: A safe pattern to fall back on; None: that of the heuristic.

    Returns:
        The pattern with its cost, and a bound that no safe pattern costs less than.

    Raises:
        ParameterError: Some cells cannot be protected, whatever else is suppressed.
    """
    effort = effort or Effort()
    if begin is None:
        begin = heuristic(problem)
    master, requirements = _Master(problem), tasks(problem)
    bound = 0.0
    # Rounds with fractions of x: each master is a linear programme whose cost is a bound for every safe pattern, and
    # the inequalities that it breaks hold for whole x too.
    for _ in range(FRACTION_ROUNDS):
        solved = None if effort.spent else master.solve(effort, integer=False)
        if solved is None:
            break
        bound = max(bound, solved[1])
        broken = list(_broken(problem, requirements, np.clip(solved[0], 0.0, 1.0), effort))
        if not broken:
            break
        for coefficients, side in broken:
            master.demand(coefficients, side)
    return _whole_rounds(problem, master, requirements, begin, bound, effort)


def _whole_rounds(
    problem: PatternProblem, master: _Master, requirements: list[Task], begin: Pattern, bound: float, effort: Effort
) -> Pattern:
    proofs = _Proofs(problem)
    # Rounds with whole x: the first master that breaks nothing, and whose pattern is proved, is the cheapest of all.
    for _ in range(ROUNDS):
        solved = None if effort.spent else master.solve(effort, integer=True)
        if solved is None:
            break
        bound = max(bound, solved[1])
        x = np.rint(solved[0])
        suppressed: suppression_structure.Flags = x > 1 / 2
        broken = list(_broken(problem, requirements, x, effort, proofs))
        if not broken:
            proof = Protection(problem, suppressed)
            if not proof.complete(new=False):
                cost = problem.cost(suppressed)
                return Pattern(suppressed, cost, "optimal", min(bound, cost))
            # Contributors who were not asked yet are asked from now on.
            fresh = insider_tasks(proof)
            requirements = list(dict.fromkeys([*requirements, *fresh]))
            broken = list(_broken(problem, fresh, x, effort, proofs))
            # Safe against fractions but not against whole numbers: so is every pattern within it.
            broken = broken or [((~suppressed).astype(np.float64), 1.0)]
        for coefficients, side in broken:
            master.demand(coefficients, side)
    # No effort is left: the pattern that was begun with is safe, and the last bound says how far from best it may be.
    return Pattern(begin.suppressed, begin.cost, "optimal", min(bound, begin.cost))


class _Proofs:
    """Movements that sub-problems found: where all they move is suppressed again, nothing need be solved again."""

    def __init__(self, problem: PatternProblem) -> None:
        self._persons, self._magnitudes = problem.persons, problem.insiders is not None
        self._of_cell: dict[int, list[tuple[frozenset[int], frozenset[int], int, float]]] = {}

    def note(self, task: Task, moved: Integers, by: float) -> None:
        persons = frozenset(self._persons[moved].tolist()) - {NOBODY}
        self._of_cell.setdefault(task.cell, []).append((frozenset(moved.tolist()), persons, task.known, by))

    def serve(self, task: Task, suppressed: frozenset[int]) -> bool:
        proved = self._of_cell.get(task.cell, ())
        distances = [
            by
            for moved, persons, known, by in proved
            if moved <= suppressed and (self._fits(task, known) if self._magnitudes else task.known not in persons)
        ]
        reach = sum(max([0.0, *(sign * by for by in distances)]) for sign in task.signs)
        return reach >= task.level * (1 - SMALL)

    @staticmethod
    def _fits(task: Task, known: int) -> bool:
        """Of magnitudes, a movement that was found for somebody is one for them, and for those who know nothing."""
        return task.known in (NOBODY, known)


def _broken(
    problem: PatternProblem, requirements: list[Task], x: Floats, effort: Effort, proofs: _Proofs | None = None
) -> Iterator[tuple[Floats, float]]:
    """The inequalities that x breaks, at most one for each task. With ``proofs``, x are whole numbers."""
    # Cells with x = 0 are published and do not move: equations of these alone say nothing.
    cells = np.flatnonzero(x > SMALL)
    matrix = problem.structure.matrix[:, cells]
    used = np.diff(matrix.indptr) > 0
    system = _System(problem, cells, matrix[used], np.flatnonzero(used), x, proofs)
    suppressed = frozenset(cells.tolist())
    for task in requirements:
        if proofs is not None and proofs.serve(task, suppressed):
            continue
        # For the sliding level both ways count together, and so do the two inequalities.
        reached, coefficients = 0.0, np.zeros(len(x))
        for sign in task.signs:
            moved, why = system.furthest(task, sign)
            effort.programmes -= 1
            reached += moved
            coefficients += why
        # No cell need give more than the whole level: a stronger inequality, and it still holds.
        coefficients = np.minimum(coefficients, task.level)
        if reached < task.level * (1 - SMALL) and coefficients @ x < task.level * (1 - SMALL):
            yield coefficients, float(task.level)


@dataclass(frozen=True, eq=False)
class _System:
    """The sub-problems of one x: the cells that may move, and the equations that they are in."""

    problem: PatternProblem
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
        share, level, integral = self.x[self.cells], float(task.level), self.proofs is not None
        room = (self.problem.value - self.problem.low_for(task.known))[self.cells].astype(np.float64)
        low = -room if integral else -np.minimum(room, level) * share
        high = np.full(len(self.cells), np.inf) if integral else level * share
        # The cell of the task goes one way, and no further than its level: more is never needed.
        at = int(np.searchsorted(self.cells, task.cell))
        low[at], high[at] = (0.0, level) if sign > 0 else (-min(level, room[at]), 0.0)
        if task.known != NOBODY:
            own = self.problem.fixed_by(task.known)[self.cells]
            low[own], high[own] = 0.0, 0.0
        cost = np.zeros(len(self.cells))
        cost[at] = -sign
        # There is always a solution, since nothing has to move. HiGHS before 1.12 does not always find it where bounds
        # are far apart; then it is asked the same in units of the level, without presolving.
        solved, unit = self._solved(cost, low, high), 1.0
        if solved.status != SOLVED:
            unit = max(level, 1.0)
            solved = self._solved(cost, low / unit, high / unit, presolve=False)
        # The dual prices of the equations, zero for those that are not there, say what holds the cell back.
        prices = np.zeros(self.problem.structure.rows)
        prices[self.rows] = solved.eqlin.marginals
        if self.proofs is not None:
            self.proofs.note(task, self.cells[np.abs(unit * solved.x) > CLEAN], float(unit * solved.x[at]))
        return -unit * solved.fun, self._coefficients(task, sign, prices)

    def _solved(self, cost: Floats, low: Floats, high: Floats, *, presolve: bool = True) -> Any:
        return optimize.linprog(
            cost,
            A_eq=self.matrix,
            b_eq=np.zeros(len(self.rows)),
            bounds=np.column_stack([low, high]),
            method="highs",
            options={"presolve": presolve},
        )

    def _coefficients(self, task: Task, sign: int, prices: Floats) -> Floats:
        """The inequality of some prices, which every safe pattern keeps."""
        # sign · d_p = -r · d for r = -sign · e_p - M' prices, since M d = 0.
        r = -(self.problem.structure.matrix.T @ prices)
        r[task.cell] -= sign
        r[np.abs(r) < CLEAN] = 0.0
        room = (self.problem.value - self.problem.low_for(task.known)).astype(np.float64)
        coefficients = np.where(r > 0, r * room, np.where(r < 0, float(task.level), 0.0))
        if task.known != NOBODY:
            coefficients[self.problem.fixed_by(task.known)] = 0.0
        return np.minimum(coefficients, task.level)


# The modular way: every simple sub-table solved by itself, from coarse to fine, and back where a margin was suppressed.
#
# A hierarchical table falls into simple sub-tables: one code with parts of each variable, and these parts. Each is
# small enough for integer programming. What is suppressed in one sub-table is suppressed in all that have the cell, and
# must be protected there; a margin that a finer one had to suppress sends its coarser ones back to the queue (de Wolf,
# "HiTaS: a heuristic approach to cell suppression in hierarchical tables", 2002). Linked tables take their turns in the
# same queue.
#
# Sub-tables that are safe one by one need not be safe together. So in the end every primary cell is protected in the
# whole structure, by further cells if need be, and what is not needed is published again
# (:mod:`confide.mechanisms.suppression.heuristic`).


MARGIN = 1_000.0
"""How much dearer the margins of a sub-table are than its inner cells: suppressed only where nothing else will do."""

OF_SUB_TABLE, OF_ALL = 2_000, 200_000
"""How many attacker's programmes are solved at most for one sub-table, and for all."""


@dataclass(frozen=True, eq=False)
class _SubTable:
    cells: Integers
    structure: suppression_structure.Structure
    inner: suppression_structure.Flags


def modular(
    problem: PatternProblem,
    linked: suppression_structure.LinkedTables,
    *,
    programmes: int = OF_ALL,
    advance: Advance | None = None,
) -> Pattern:
    """A safe pattern, sub-table by sub-table. Those for which no effort remains are left to the last step.

    Args:
        problem: Values, protection levels and costs of all distinct cells.
        linked: The tables that the cells belong to.
        programmes: How many attacker's programmes are solved at most for all sub-tables together.
        advance: Is told of every primary cell that is done.
    """
    protection = modular_protection(problem, linked, programmes=programmes, advance=advance)
    return Pattern(protection.suppressed, problem.cost(protection.suppressed), "modular")


def modular_protection(
    problem: PatternProblem,
    linked: suppression_structure.LinkedTables,
    *,
    programmes: int = OF_ALL,
    advance: Advance | None = None,
) -> Protection:
    """The same, with the movements that prove it."""
    tables = [
        sub for table, numbers in zip(linked.tables, linked.numbers, strict=True) for sub in _subs(table, numbers)
    ]
    # The simple sub-tables of all tables, coarse ones first, and for each cell the sub-tables that have it.
    parts = [_sub_table(problem.structure, *cells_and_inner) for cells_and_inner in tables]
    where: dict[int, set[int]] = {}
    for number, part in enumerate(parts):
        for cell in part.cells.tolist():
            where.setdefault(cell, set()).add(number)
    suppressed, levels = problem.begun.copy(), problem.levels
    waiting = {number for cell in np.flatnonzero(suppressed).tolist() for number in where.get(cell, ())}
    # Always the coarsest that waits. What it newly suppresses sends every other sub-table with that cell to the queue.
    while waiting and programmes > 0:
        number = min(waiting)
        waiting.remove(number)
        effort = Effort(min(OF_SUB_TABLE, programmes))
        new, levels = _solve(problem, parts[number], suppressed, levels, effort)
        programmes -= OF_SUB_TABLE - effort.programmes
        suppressed[new] = True
        waiting |= {other for cell in new.tolist() for other in where[cell] if other != number}
    return protect(problem, begin=suppressed, advance=advance)


def _solve(
    problem: PatternProblem, part: _SubTable, suppressed: suppression_structure.Flags, levels: Levels, effort: Effort
) -> tuple[Integers, Levels]:
    """The cells of a sub-table that must be suppressed too, with protection levels as wide as what they protect."""
    cells = part.cells
    own = levels.taken(cells)
    begun = suppressed[cells]
    if not begun.any() or not part.structure.rows:
        return np.zeros(0, np.int64), levels
    # What is suppressed already, for whatever reason, must be protected here too. Margins are dear, inner cells not.
    needed = Levels(begun & ~problem.unlisted[cells], own.lower, own.upper, own.sliding)
    small = replace(
        problem,
        structure=part.structure,
        value=problem.value[cells],
        levels=needed,
        weight=problem.weight[cells] * np.where(part.inner, 1.0, MARGIN),
        low=problem.low[cells],
        keep=problem.keep[cells] & ~begun,
        unlisted=problem.unlisted[cells],
        single=problem.single[cells],
        who=None if problem.who is None else problem.who[cells],
        inhabited=None if problem.inhabited is None else problem.inhabited[cells],
        kinds=None,  # of people in all tables, not in this part of one
        along=None,
        contributors=None if problem.contributors is None else problem.contributors.taken(cells),
    )
    try:
        pattern = optimal(small, effort=effort)
    except ParameterError:
        return np.zeros(0, np.int64), levels  # not to be protected within the sub-table: the last step looks further
    new = cells[pattern.suppressed & ~begun]
    sliding = levels.sliding.copy()
    sliding[new] = max(1, int(own.sliding.max()))
    return new, Levels(levels.primary, levels.lower, levels.upper, sliding)


def _subs(
    table: suppression_structure.TableDimensions, numbers: Integers
) -> list[tuple[Integers, suppression_structure.Flags]]:
    """The simple sub-tables of a table: the numbers of their cells, and which of these are inner cells."""
    sub_tables = []
    shaped = numbers.reshape(table.shape or (1,))
    for codes in suppression_structure.simple_tables(table):
        places = [[code, *dimension.children[code]] for code, dimension in zip(codes, table.dimensions, strict=True)]
        cells = shaped[np.ix_(*places)] if places else shaped
        inner = np.ones(cells.shape, np.bool_)
        for axis in range(cells.ndim):
            first: list[slice | int] = [slice(None)] * cells.ndim
            first[axis] = 0
            inner[tuple(first)] = False
        sub_tables.append((cells.reshape(-1), inner.reshape(-1)))
    return sub_tables


def _sub_table(
    structure: suppression_structure.Structure, cells: Integers, inner: suppression_structure.Flags
) -> _SubTable:
    distinct, first = np.unique(cells, return_index=True)
    rows = structure.rows_of(distinct)
    matrix = structure.matrix[rows]
    inside = np.zeros(structure.cells)
    inside[distinct] = 1.0
    complete = np.rint(abs(matrix) @ inside).astype(np.int64) == np.diff(matrix.indptr)
    return _SubTable(distinct, structure.sub(distinct, rows[complete]), inner[first])
