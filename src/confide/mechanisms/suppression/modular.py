"""The modular way: every simple sub-table solved by itself, from coarse to fine, and back where a margin was hidden.

A hierarchical table falls into simple sub-tables: one code with parts of each variable, and these parts. Each is small
enough for integer programming. What is hidden in one sub-table is hidden in all that have the cell, and must be
protected there; a margin that a finer one had to hide sends its coarser ones back to the queue (de Wolf, "HiTaS: a
heuristic approach to cell suppression in hierarchical tables", 2002). Linked tables take their turns in the same queue.

Sub-tables that are safe one by one need not be safe together. So in the end every primary cell is protected in the
whole structure, by further cells if need be, and what is not needed is published again
(:mod:`confide.mechanisms.suppression.heuristic`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from confide.errors import ParameterError
from confide.mechanisms.suppression.heuristic import Advance, Protection, protect
from confide.mechanisms.suppression.optimal import optimal
from confide.mechanisms.suppression.problem import Levels, Pattern, Problem
from confide.mechanisms.suppression.structure import Flags, Integers, Layout, Linked, Structure, simple_tables

MARGIN = 1_000.0
"""How much dearer the margins of a sub-table are than its inner cells: hidden only where nothing else will do."""

SECONDS = 5.0
"""How long one sub-table may take."""


@dataclass(frozen=True, eq=False)
class _SubTable:
    cells: Integers
    structure: Structure
    inner: Flags


def modular(problem: Problem, linked: Linked, *, seconds: float = 600.0, advance: Advance | None = None) -> Pattern:
    """A safe pattern. Sub-tables for which no time is left are left to the last step."""
    protection = modular_protection(problem, linked, seconds=seconds, advance=advance)
    return Pattern(protection.hidden, problem.cost(protection.hidden), "modular")


def modular_protection(
    problem: Problem, linked: Linked, *, seconds: float = 600.0, advance: Advance | None = None
) -> Protection:
    """The same, with the movements that prove it."""
    until = time.monotonic() + seconds
    tables = [
        sub for table, numbers in zip(linked.tables, linked.numbers, strict=True) for sub in _subs(table, numbers)
    ]
    parts = [_sub_table(problem.structure, *each) for each in tables]
    where: dict[int, set[int]] = {}
    for number, part in enumerate(parts):
        for cell in part.cells.tolist():
            where.setdefault(cell, set()).add(number)
    hidden, levels = problem.begun.copy(), problem.levels
    waiting = {number for cell in np.flatnonzero(hidden).tolist() for number in where.get(cell, ())}
    while waiting and time.monotonic() < until:
        number = min(waiting)
        waiting.remove(number)
        new, levels = _solve(problem, parts[number], hidden, levels)
        hidden[new] = True
        waiting |= {other for cell in new.tolist() for other in where[cell] if other != number}
    return protect(problem, begin=hidden, advance=advance)


def _solve(problem: Problem, part: _SubTable, hidden: Flags, levels: Levels) -> tuple[Integers, Levels]:
    """The cells of a sub-table that must be hidden besides, with protection levels as wide as what they protect."""
    cells = part.cells
    own = levels.taken(cells)
    begun = hidden[cells]
    if not begun.any() or not part.structure.rows:
        return np.zeros(0, np.int64), levels
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
    )
    try:
        found = optimal(small, seconds=SECONDS)
    except ParameterError:
        return np.zeros(0, np.int64), levels  # not to be protected within the sub-table: the last step looks further
    new = cells[found.hidden & ~begun]
    sliding = levels.sliding.copy()
    sliding[new] = max(1, int(own.sliding.max()))
    return new, Levels(levels.primary, levels.lower, levels.upper, sliding)


def _subs(table: Layout, numbers: Integers) -> list[tuple[Integers, Flags]]:
    """The simple sub-tables of a table: the numbers of their cells, and which of these are inner cells."""
    found = []
    shaped = numbers.reshape(table.shape or (1,))
    for codes in simple_tables(table):
        places = [[code, *dimension.children[code]] for code, dimension in zip(codes, table.dimensions, strict=True)]
        cells = shaped[np.ix_(*places)] if places else shaped
        inner = np.ones(cells.shape, np.bool_)
        for axis in range(cells.ndim):
            first: list[slice | int] = [slice(None)] * cells.ndim
            first[axis] = 0
            inner[tuple(first)] = False
        found.append((cells.reshape(-1), inner.reshape(-1)))
    return found


def _sub_table(structure: Structure, cells: Integers, inner: Flags) -> _SubTable:
    distinct, first = np.unique(cells, return_index=True)
    rows = structure.rows_of(distinct)
    matrix = structure.matrix[rows]
    inside = np.zeros(structure.cells)
    inside[distinct] = 1.0
    whole = np.rint(abs(matrix) @ inside).astype(np.int64) == np.diff(matrix.indptr)
    return _SubTable(distinct, structure.sub(distinct, rows[whole]), inner[first])
