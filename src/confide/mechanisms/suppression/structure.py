"""The linear structure of tables: which cells add up to which, M y = 0.

A variable of a table is a tree of codes (:class:`Dimension`): the total at its root, below it the groups that make it
up, below these finer ones. A table has a cell for every combination of codes, and for every code with parts, in every
combination of the other variables, one equation

    y(parts, others) added up  -  y(code, others) = 0.

Tables are linked by what they share: two cells with the same codes, totals left out, are one cell (:func:`link`). A
table may leave some codes unlisted, such as sub-totals that only another table has; their cells belong to the structure
all the same, or what follows from both tables together would be missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from confide.arrays import Floats, Integers
from confide.errors import NOWHERE, ConfideError, Finding, InputError, ParameterError, Place

if TYPE_CHECKING:
    from confide.mechanisms.suppression.joint import JointTable

Flags = npt.NDArray[np.bool_]

ROOT = 0
"""The number of the total among the codes of a dimension."""

JOINT = -1
"""In place of a dimension: an equation between a cell and the kinds of people in it (:mod:`.joint`)."""

UNION = -2
"""In place of a dimension: an equation between a union of cells and these (:mod:`.unions`)."""

NOT_HERE = -2
"""In place of a parent: the code is in another hierarchy of the dimension, and not in this one."""


@dataclass(frozen=True)
class Dimension:
    """A variable with its hierarchy: codes, the total first, and for each the number of the code it is a part of.

    A variable can be divided in several ways, such as municipalities by county and by size: ``others`` are further
    hierarchies of the same codes, each with a parent for every code, and :data:`NOT_HERE` for those that it does not
    have. A cell belongs to one code whichever way that is reached.
    """

    name: str
    codes: tuple[str, ...]
    parent: tuple[int, ...]
    others: tuple[tuple[int, ...], ...] = ()
    called: tuple[str, ...] = ()
    """The names of the hierarchies: within one of them all tables must divide a code alike. Default: numbers."""

    def __post_init__(self) -> None:
        named = not self.called or len(self.called) == len(self.hierarchies)
        if not self.codes or not named or not all(self._is_tree(way) for way in self.hierarchies):
            raise ParameterError("hierarchy/codes", name=self.name)
        if not all(any(way[at] != NOT_HERE for way in self.hierarchies) for at in range(len(self.codes))):
            raise ParameterError("hierarchy/used-code", name=self.name)
        if len(set(self.codes)) < len(self.codes):
            raise ParameterError("hierarchy/differ", name=self.name)

    def _is_tree(self, parent: tuple[int, ...]) -> bool:
        """Whether the codes that are here hang together from the total down."""
        if len(parent) != len(self.codes) or parent[0] != -1:
            return False
        return all(
            0 <= above < at and parent[above] != NOT_HERE for at, above in enumerate(parent) if at and above != NOT_HERE
        )

    @property
    def hierarchies(self) -> tuple[tuple[int, ...], ...]:
        """The parents in every hierarchy, the first one first."""
        return (self.parent, *self.others)

    @cached_property
    def divisions(self) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        """Every way in which a code is the sum of others: the name of the hierarchy, the code, its parts. What two
        hierarchies have in common is there once."""
        seen: set[tuple[int, tuple[int, ...]]] = set()
        divided: list[tuple[str, int, tuple[int, ...]]] = []
        for name, way in zip(self.called or map(str, range(len(self.hierarchies))), self.hierarchies, strict=True):
            for code, parts in enumerate(_parts(way)):
                if parts and (code, parts) not in seen:
                    seen.add((code, parts))
                    divided.append((name, code, parts))
        return tuple(divided)

    @property
    def size(self) -> int:
        """The number of codes, the total with them."""
        return len(self.codes)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each code the numbers of its parts in the first hierarchy."""
        return _parts(self.parent)

    @property
    def inner(self) -> list[int]:
        """The codes that have parts in the first hierarchy."""
        return [at for at, parts in enumerate(self.children) if parts]


def _parts(parent: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For each code of one hierarchy the numbers of its parts."""
    parts: list[list[int]] = [[] for _ in parent]
    for at, above in enumerate(parent):
        if above >= 0:
            parts[above].append(at)
    return tuple(tuple(codes) for codes in parts)


def flat(name: str, codes: Sequence[str], total: str = "_T") -> Dimension:
    """A variable without a hierarchy: a total and its parts.

    Args:
        name: The name of the variable; tables that share it are linked by it.
        codes: The parts.
        total: What the total is called.

    >>> flat("sex", ["f", "m"]).codes
    ('_T', 'f', 'm')
    """
    return Dimension(name, (total, *codes), (-1, *([ROOT] * len(codes))))


def tree(name: str, parts: Mapping[str, Sequence[str]], total: str = "_T") -> Dimension:
    """A variable from its total and, for every code with parts, these parts.

    Args:
        name: The name of the variable; tables that share it are linked by it.
        parts: For the total, and for every other code with parts, the codes that add up to it.
        total: What the total is called.

    Returns:
        The tree, codes level by level.

    >>> tree("age", {"_T": ["young", "old"], "young": ["0", "1"]}).codes
    ('_T', 'young', 'old', '0', '1')
    """
    codes, parent = [total], [-1]
    for at in range(1 + sum(len(each) for each in parts.values())):
        if at >= len(codes):
            raise ParameterError("hierarchy/part", name=name, total=total)
        for code in parts.get(codes[at], ()):
            codes.append(code)
            parent.append(at)
    return Dimension(name, tuple(codes), tuple(parent))


@dataclass(frozen=True, eq=False)
class TableDimensions:
    """A table: its dimensions, cells in C order, and the codes of each dimension that the table lists."""

    name: str
    dimensions: tuple[Dimension, ...]
    listed: tuple[Flags, ...] | None = None
    """None: all codes."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(dimension.size for dimension in self.dimensions)

    @property
    def cells(self) -> int:
        """The number of cells, margins and unlisted ones with them."""
        return prod(self.shape)

    @property
    def places(self) -> Integers:
        """For each cell the number of its code in each dimension: one row for a cell."""
        return np.indices(self.shape, np.int64).reshape(len(self.shape), self.cells).T

    @property
    def listed_cells(self) -> Flags:
        """Which cells are in the table as it is published."""
        every = np.ones(self.cells, np.bool_)
        if self.listed is not None:
            for flags, codes in zip(self.listed, self.places.T, strict=True):
                every &= flags[codes]
        return every


@dataclass(frozen=True, eq=False)
class Structure:
    """Cells and equations: ``matrix`` has a row for each, -1 at the total and +1 at its parts."""

    matrix: sparse.csr_array
    total: Integers
    """The total of each equation."""
    axis: Integers
    """The dimension, numbered over all tables, that an equation adds up over; JOINT for those of a joint table."""

    @property
    def cells(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def rows(self) -> int:
        return int(self.matrix.shape[0])

    @cached_property
    def by_cell(self) -> sparse.csc_array:
        """The matrix by columns: the equations of each cell."""
        return sparse.csc_array(self.matrix)

    @cached_property
    def plain(self) -> Structure:
        """The same cells without the equations of joint tables."""
        own = self.axis != JOINT
        if own.all():
            return self
        return Structure(sparse.csr_array(self.matrix[own]), self.total[own], self.axis[own])

    @cached_property
    def _unions(self) -> sparse.csr_array:
        """The parts of unions, one row for each union. Unions come after all other cells, in the order of their
        equations."""
        own = self.axis == UNION
        return sparse.csr_array(self.matrix[own][:, : self.cells - int(own.sum())])

    def union_parts(self, cell: int) -> Integers:
        """The cells that a union is made of; none of a cell that is no union."""
        at = cell - self._unions.shape[1]
        if at < 0:
            return np.zeros(0, np.int64)
        parts: Integers = self._unions.indices[self._unions.indptr[at] : self._unions.indptr[at + 1]].astype(np.int64)
        return parts

    def totals_of(self, cell: int) -> set[int]:
        """Every cell that another one is a part of, by one sum or by several; unions are none of them."""
        totals: set[int] = set()
        waiting = [cell]
        while waiting:
            at = waiting.pop()
            rows = self.by_cell.indices[self.by_cell.indptr[at] : self.by_cell.indptr[at + 1]]
            above = {int(total) for total in self.total[rows] if total >= 0 and total != at} - totals
            totals |= above
            waiting += above
        return totals

    def move_unions(self, moved: Integers) -> None:
        """Lets unions move as their cells do, in place."""
        size = self._unions.shape[1]
        if size < self.cells:
            moved[size:] = self._unions.astype(np.int64) @ moved[:size]

    def rows_of(self, cells: Integers) -> Integers:
        """The equations that some of these cells are in."""
        return np.unique(gather(self.by_cell.indptr, self.by_cell.indices, cells))

    def cells_of(self, rows: Integers) -> Integers:
        """The cells that are in some of these equations."""
        return np.unique(gather(self.matrix.indptr, self.matrix.indices, rows))

    def sub(self, cells: Integers, rows: Integers) -> Structure:
        """The structure of some cells, with equations that have no others."""
        return Structure(sparse.csr_array(self.matrix[rows][:, cells]), self._renumbered(cells, rows), self.axis[rows])

    def _renumbered(self, cells: Integers, rows: Integers) -> Integers:
        new = np.full(self.cells, -1, np.int64)
        new[cells] = np.arange(len(cells))
        numbers: Integers = new[self.total[rows]]
        return numbers


@dataclass(frozen=True, eq=False)
class LinkedTables:
    """Tables with one structure: for each table the number of every cell in it, and which of all cells are listed."""

    tables: tuple[TableDimensions, ...]
    structure: Structure
    numbers: tuple[Integers, ...]
    listed: Flags
    joint: tuple[JointTable, ...] = ()
    """Tables of all kinds of people behind these: see :mod:`confide.mechanisms.suppression.joint`."""
    beyond: tuple[tuple[str, ...], ...] = ()
    """Names of tables whose whole joint table is too large to be thought of."""

    @property
    def own_cells(self) -> int:
        """The number of cells of the tables themselves, without those of joint tables, which come after them."""
        return self.joint[0].first if self.joint else self.structure.cells

    def gathered(self, values: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        """Values of all cells out of those of the tables; where tables disagree, the last."""
        joined = np.full(self.structure.cells, np.nan)
        for numbers, of_table in zip(self.numbers, values, strict=True):
            joined[numbers] = of_table
        return joined


def link(tables: Sequence[TableDimensions]) -> LinkedTables:
    """Tables put together. Dimensions of one name speak of the same codes, whose hierarchies must agree, one by one: a
    code may be divided otherwise in another hierarchy of the same dimension.

    Args:
        tables: The tables by their dimensions.

    Returns:
        One structure of all distinct cells, and for each table the number of every cell in it.

    >>> sex, job = flat("sex", ["f", "m"]), flat("job", ["yes", "no"])
    >>> linked = link([TableDimensions("both", (sex, job)), TableDimensions("sex", (sex,))])
    >>> linked.structure.cells, linked.numbers[1].tolist()
    (9, [0, 1, 2])
    """
    codes = _all_codes(tables)
    strides, stride = {}, 1
    for name, known in codes.items():
        strides[name] = stride
        stride *= len(known) + 1
    if stride >= 1 << 62:
        raise ParameterError("too-many-variables")
    keys = [_keys(table, codes, strides) for table in tables]
    distinct, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    numbers = np.split(inverse.astype(np.int64), np.cumsum([len(of_table) for of_table in keys])[:-1])
    listed = np.zeros(len(distinct), np.bool_)
    for table, of_table in zip(tables, numbers, strict=True):
        listed[of_table[table.listed_cells]] = True
    axes = {name: at for at, name in enumerate(codes)}
    rows: dict[tuple[int, int], list[tuple[str, Integers]]] = {}
    for table, of_table in zip(tables, numbers, strict=True):
        for total, axis, hierarchy, parts in _equations(table, of_table.reshape(table.shape or (1,)), axes):
            ways = rows.setdefault((total, axis), [])
            if any(len(other) == len(parts) and np.array_equal(np.sort(other), np.sort(parts)) for _, other in ways):
                continue
            if any(other == hierarchy for other, _ in ways):
                raise ParameterError("hierarchy/two", name=table.dimensions[0].name)
            ways.append((hierarchy, parts))
    return LinkedTables(tuple(tables), _assembled(len(distinct), rows), tuple(numbers), listed)


def _assembled(cells: int, divided: Mapping[tuple[int, int], list[tuple[str, Integers]]]) -> Structure:
    rows = [(total, axis, parts) for (total, axis), ways in divided.items() for _, parts in ways]
    total = np.array([each[0] for each in rows], np.int64)
    axis = np.array([each[1] for each in rows], np.int64)
    sizes = np.array([len(parts) for _, _, parts in rows], np.int64)
    at = np.concatenate([np.arange(len(rows)), np.repeat(np.arange(len(rows)), sizes)])
    columns = np.concatenate([total, *(parts for _, _, parts in rows)]).astype(np.int64)
    data = np.concatenate([-np.ones(len(rows)), np.ones(int(sizes.sum()))])
    return Structure(sparse.csr_array((data, (at, columns)), shape=(len(rows), cells)), total, axis)


def _all_codes(tables: Sequence[TableDimensions]) -> dict[str, dict[str, int]]:
    """For each dimension of any table a number for every code, from one on; totals, however called, are zero."""
    codes: dict[str, dict[str, int]] = {}
    for table in tables:
        for dimension in table.dimensions:
            numbers = codes.setdefault(dimension.name, {})
            for code in dimension.codes[1:]:
                numbers.setdefault(code, len(numbers) + 1)
    return codes


def _keys(table: TableDimensions, codes: Mapping[str, Mapping[str, int]], strides: Mapping[str, int]) -> Integers:
    key = np.zeros(table.shape or (1,), np.int64)
    for axis, dimension in enumerate(table.dimensions):
        of_code = np.array([0, *(codes[dimension.name][code] for code in dimension.codes[1:])], np.int64)
        shape = [1] * len(table.dimensions)
        shape[axis] = dimension.size
        key = key + (of_code * strides[dimension.name]).reshape(shape)
    return key.reshape(-1)


def _equations(
    table: TableDimensions, numbers: Integers, axes: Mapping[str, int]
) -> list[tuple[int, int, str, Integers]]:
    """Every equation of one table: the total, the dimension, which of its hierarchies, and the parts."""
    equations = []
    for axis, dimension in enumerate(table.dimensions):
        turned = np.moveaxis(numbers, axis, -1).reshape(-1, dimension.size)
        number = axes[dimension.name]
        for way, above, children in dimension.divisions:
            parts = turned[:, children]
            equations += [(int(total), number, way, row) for total, row in zip(turned[:, above], parts, strict=True)]
    return equations


def simple_tables(table: TableDimensions) -> list[tuple[int, ...]]:
    """The simple sub-tables of a table, coarse ones first: for each dimension a code that has parts."""
    depth = []
    for dimension in table.dimensions:
        of_code = [0] * dimension.size
        for at, above in enumerate(dimension.parent):
            of_code[at] = 0 if above < 0 else of_code[above] + 1
        depth.append(of_code)
    every = product(*(dimension.inner or [ROOT] for dimension in table.dimensions))
    return sorted(every, key=lambda codes: (sum(of[code] for of, code in zip(depth, codes, strict=True)), codes))


def gather(pointers: Integers, indices: Integers, which: Integers) -> Integers:
    """The entries of several rows (or columns) of a sparse matrix, one after the other."""
    starts = pointers[which].astype(np.int64)
    sizes = pointers[which + 1].astype(np.int64) - starts
    offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    entries: Integers = indices[offsets + np.arange(int(sizes.sum()))].astype(np.int64)
    return entries


# Linear and integer programmes over equations, solved by HiGHS: one call, one way to fail.


SOLVED, LIMIT, INFEASIBLE = 0, 1, 2


class DoesNotAddUpError(InputError):
    """No figures could stand in these suppressed cells, which hang together. ``where`` names one of them."""

    def __init__(self, cells: Integers, where: Place = NOWHERE):
        self.cells = cells
        finding = Finding.of("does-not-add-up/figures", where=where, cells=len(cells), same=where != NOWHERE)
        super().__init__(finding)


@dataclass(frozen=True, eq=False)
class Solution:
    """A solution; ``bound`` is what no solution can be below, equal to the cost unless a limit was met."""

    values: Floats
    cost: float
    bound: float
    nodes: int = 0
    """How many branches an integer programme took."""


def minimise(
    cost: Floats,
    matrix: sparse.csr_array | sparse.csc_array,
    rhs: Floats | tuple[Floats, Floats],
    low: Floats,
    high: Floats,
    *,
    integer: bool = False,
    nodes: int | None = None,
    gap: float = 0.0,
) -> Solution | None:
    """The cheapest values between ``low`` and ``high`` with matrix · values = rhs (or between two sides); None if there
    are none, or, of whole numbers, if none were found in so many branches. No limit is one of time: the same problem
    has the same solution however busy the machine is. A problem without a least cost is the caller's mistake."""
    lower, upper = rhs if isinstance(rhs, tuple) else (rhs, rhs)
    if not len(cost):  # the solver takes no programme without variables
        return Solution(np.zeros(0), 0.0, 0.0) if ((lower <= 0) & (upper >= 0)).all() else None
    rows = [optimize.LinearConstraint(matrix, lower, upper)] if matrix.shape[0] else []
    # The solver's own default would call a solution the best that is within 0.01 % of it.
    options = {"disp": False, "mip_rel_gap": gap} | ({} if nodes is None else {"node_limit": nodes})
    outcome = optimize.milp(
        cost,
        integrality=np.ones(len(cost)) if integer else None,
        bounds=optimize.Bounds(low, high),
        constraints=rows,
        options=options,
    )
    if outcome.status == INFEASIBLE or (outcome.x is None and outcome.status == LIMIT):
        return None
    if outcome.x is None:
        raise ConfideError("solver-failed/finish", status=outcome.status)
    bound = outcome.fun if outcome.mip_dual_bound is None else outcome.mip_dual_bound
    return Solution(np.asarray(outcome.x), float(outcome.fun), float(bound), int(outcome.mip_node_count or 0))


def is_whole(values: Floats, tolerance: float = 1e-6) -> bool:
    """Whether all values are whole numbers, up to the solver's precision."""
    return bool((np.abs(values - np.rint(values)) <= tolerance).all())
