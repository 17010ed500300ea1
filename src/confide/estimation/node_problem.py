"""The node problem: what one parent, or the root, asks of the least squares.

A parent with whole counts ``p`` (one for each cell) is to be shared out among its children. With ``x[i, c]`` the
estimate of cell i in child c, and with queries that are partitions of the cells,

    minimise    sum over queries q, groups g and children c of  w[q, c] * (sum of x[i, c] over i in g  -  y[q, g, c])^2
    subject to  x >= 0, and x[i, c] = 0 where ``allowed`` is false                    (structural zeros)
                sum over c of x[i, c] = p[i]                                          (parent sums)
                lower <= sum of x[i, c] over a group of cells <= upper, for a child   (:class:`GroupBounds`)
                lower <= sum of x[i, c] over a group of children <= upper             (:class:`ChildSums`)

Instead of queries a problem may have a normal law of the cells of each child (:class:`~.cell_law.CellLaw`).
The root has one unit and no parent: ``parent`` is None, and the total may be fixed instead. Weights are one over the
variance of a measurement, and 0 where a child was not measured. Nothing here knows the truth.
Reference: Abowd et al. (2022), The 2020 Census Disclosure Avoidance System TopDown Algorithm, sections 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError, Place
from confide.estimation.cell_law import CellLaw


def _as_groups(groups: npt.ArrayLike, where: str) -> Integers:
    array = np.asarray(groups)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise ParameterError("node-problem/ids", where=Place(path=where), found=str(array.dtype))
    result = array.astype(np.int64)
    if result.size and result.min() < -1:
        raise ParameterError("node-problem/id", where=Place(path=where), found=str(int(result.min())))
    return result


@dataclass(frozen=True, eq=False)
class MeasuredQuery:
    """One query on every child: ``groups[i]`` is the group of cell i, or -1; ``measured[g, c]`` the measurement.

    ``weights[c]`` is one over the variance in child c; with 0 the values of that child are not looked at.
    """

    name: str
    groups: Integers
    measured: Floats
    weights: Floats

    def __post_init__(self) -> None:
        groups = _as_groups(self.groups, self.name)
        measured, weights = np.asarray(self.measured, np.float64), np.asarray(self.weights, np.float64)
        if measured.ndim != 2 or weights.shape != measured.shape[1:]:
            raise ParameterError(
                "node-problem/values", where=Place(path=self.name), shape=measured.shape, weights_shape=weights.shape
            )
        if groups.size and groups.max() >= len(measured):
            raise ParameterError(
                "node-problem/group-measured-value",
                where=Place(path=self.name),
                found=str(int(groups.max())),
                measured=len(measured),
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ParameterError("node-problem/weight", where=Place(path=self.name))
        measured = np.where(weights > 0, measured, 0.0)
        if not np.isfinite(measured).all():
            raise ParameterError("node-problem/measured-value-finite", where=Place(path=self.name))
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "measured", measured)
        object.__setattr__(self, "weights", weights)


@dataclass(frozen=True, eq=False)
class GroupBounds:
    """``lower[g, c] <= sum of x[i, c] over cells i of group g <= upper[g, c]``. Infinite where there is no bound."""

    name: str
    groups: Integers
    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        groups = _as_groups(self.groups, self.name)
        lower, upper = np.asarray(self.lower, np.float64), np.asarray(self.upper, np.float64)
        if lower.ndim != 2 or lower.shape != upper.shape or (groups.size and groups.max() >= len(lower)):
            raise ParameterError(
                "node-problem/lower-upper-bounds",
                where=Place(path=self.name),
                shape=lower.shape,
                upper_shape=upper.shape,
            )
        if np.isnan(lower).any() or np.isnan(upper).any():
            raise ParameterError("node-problem/bound", where=Place(path=self.name))
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)


@dataclass(frozen=True, eq=False)
class ChildSums:
    """``lower[k] <= sum of all cells of the children c with members[c] = k <= upper[k]``; -1: in no group."""

    name: str
    members: Integers
    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        members = _as_groups(self.members, self.name)
        lower, upper = np.asarray(self.lower, np.float64), np.asarray(self.upper, np.float64)
        if lower.ndim != 1 or lower.shape != upper.shape or (members.size and members.max() >= len(lower)):
            raise ParameterError(
                "node-problem/groups", where=Place(path=self.name), shape=lower.shape, upper_shape=upper.shape
            )
        if np.isnan(lower).any() or np.isnan(upper).any():
            raise ParameterError("node-problem/bound", where=Place(path=self.name))
        object.__setattr__(self, "members", members)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """A parent and its children (``parent`` given), or the root (``parent`` None, one column in ``allowed``)."""

    parent: Integers | None
    allowed: Booleans
    queries: tuple[MeasuredQuery, ...]
    bounds: tuple[GroupBounds, ...] = ()
    child_sums: tuple[ChildSums, ...] = ()
    total: int | None = None
    children: tuple[str, ...] = ()
    law: CellLaw | None = None
    """A normal law of the cells of each child, in place of the queries: ``(x - b)' J (x - b)`` is minimised."""

    def __post_init__(self) -> None:
        allowed = np.asarray(self.allowed, np.bool_)
        if allowed.ndim != 2 or allowed.shape[1] == 0:
            raise ParameterError("node-problem/table", where=Place(path="allowed"), found=str(allowed.shape))
        cells, children = allowed.shape
        object.__setattr__(self, "allowed", allowed)
        if self.parent is None:
            if children != 1:
                raise ParameterError("node-problem/root", where=Place(path="parent"), children=children)
            if self.total is not None and self.total < 0:
                raise ParameterError("node-problem/total-negative", where=Place(path="total"), found=str(self.total))
        else:
            parent = np.asarray(self.parent)
            if parent.shape != (cells,) or not (np.issubdtype(parent.dtype, np.integer) or cells == 0):
                raise ParameterError(
                    "node-problem/counts", where=Place(path="parent"), found=str(parent.shape), cells=cells
                )
            if cells and parent.min() < 0:
                raise ParameterError("node-problem/count", where=Place(path="parent"), found=str(int(parent.min())))
            if self.total is not None:
                raise ParameterError("node-problem/beside", where=Place(path="total"), found=str(self.total))
            object.__setattr__(self, "parent", parent.astype(np.int64))
        if self.children and len(self.children) != children:
            raise ParameterError(
                "node-problem/children", where=Place(path="children"), found=str(len(self.children)), children=children
            )
        shapes = [(query.name, len(query.groups), query.measured.shape[1]) for query in self.queries]
        shapes += [(bound.name, len(bound.groups), bound.lower.shape[1]) for bound in self.bounds]
        for name, *shape in shapes:
            if shape != [cells, children]:
                raise ParameterError(
                    "node-problem/shape",
                    where=Place(path=name),
                    shape=shape[0],
                    shape_found=shape[1],
                    cells=cells,
                    children=children,
                )
        if self.law is not None and (self.queries or self.law.centre.shape != (cells, children)):
            raise ParameterError(
                "node-problem/law",
                where=Place(path="law"),
                queries=len(self.queries),
                shape=self.law.centre.shape[0],
                shape_found=self.law.centre.shape[1],
                cells=cells,
                children=children,
            )
        for sums in self.child_sums:
            if sums.members.shape != (children,):
                raise ParameterError(
                    "node-problem/members", where=Place(path=sums.name), found=str(len(sums.members)), children=children
                )

    @property
    def cells(self) -> int:
        """The number of cells."""
        return int(self.allowed.shape[0])

    @property
    def units(self) -> int:
        """The number of children."""
        return int(self.allowed.shape[1])

    @cached_property
    def scale(self) -> float:
        """The objective at which every measured value is missed by 0.01: what counts as nothing (see the proofs)."""
        if self.law is not None:
            return self.law.scale
        return 1e-4 * sum(float(query.weights.sum()) * len(query.measured) for query in self.queries)

    def child_name(self, child: int) -> str:
        """The name of a child for messages."""
        return self.children[child] if self.children else f"child {child}"

    def objective(self, x: Floats) -> float:
        """The weighted sum of squares at x."""
        value = 0.0 if self.law is None else self.law.value(x)
        for query in self.queries:
            residual = group_sums(query.groups, x, len(query.measured)) - query.measured
            value += float((query.weights * residual * residual).sum())
        return value

    def violations(self, x: Floats) -> dict[str, float]:
        """The largest violation of every kind of constraint, by name; 0 where it holds."""
        violations = {"non-negativity": float(max(0.0, -x.min(initial=0.0)))}
        violations["structural zeros"] = float(np.abs(x[~self.allowed]).max(initial=0.0))
        if self.parent is not None:
            violations["parent sums"] = float(np.abs(x.sum(1) - self.parent).max(initial=0.0))
        elif self.total is not None:
            violations["total"] = abs(float(x.sum()) - self.total)
        for bound in self.bounds:
            sums = group_sums(bound.groups, x, len(bound.lower))
            violations[bound.name] = _outside(sums, bound.lower, bound.upper)
        for part in self.child_sums:
            sums = group_sums(part.members, x.sum(0)[:, None], len(part.lower))[:, 0]
            violations[part.name] = _outside(sums, part.lower, part.upper)
        return violations

    def violation(self, x: Floats) -> float:
        """The largest violation of any constraint."""
        return max(self.violations(x).values())


def _outside(sums: Floats, lower: Floats, upper: Floats) -> float:
    return float(max((lower - sums).max(initial=0.0), (sums - upper).max(initial=0.0)))


def group_sums(groups: Integers, x: Floats, count: int) -> Floats:
    """The sums of the rows of x over the groups; rows with group -1 are left out."""
    result = np.zeros((count, x.shape[1]))
    inside = groups >= 0
    np.add.at(result, groups[inside], x[inside])
    return result


# Sums over groups, compiled: a matrix of zeros and ones times a table, and what measured groups add to an objective.
#
# Node problems are small and many: a general sparse product takes longer to find out what it is given than to add it
# up. Everything is added in the order of the rows and columns, so that the last digits are the same on every machine.
# Apart from :mod:`~confide.estimation.tree_gls`, so that what is only planned loads no compiler.


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """A matrix of zeros and ones, by rows.

    >>> sums = GroupSums.of(np.array([1, 0, 1]), np.array([0, 1, 2]), (2, 3))
    >>> sums @ np.array([[1.0], [2.0], [4.0]])
    array([[2.],
           [5.]])
    """

    pointer: Integers
    """Where the columns of each row begin, and where those of the last end."""
    columns: Integers
    shape: tuple[int, int]

    @classmethod
    def of(cls, rows: Integers, columns: Integers, shape: tuple[int, int]) -> GroupSums:
        """The matrix with ones at these places."""
        order = np.argsort(rows, kind="stable")
        pointer = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=pointer[1:])
        return cls(pointer, np.ascontiguousarray(columns[order], np.int64), shape)

    def __matmul__(self, table: Floats) -> Floats:
        result = np.zeros((self.shape[0], table.shape[1]))
        _add_rows(self.pointer, self.columns, np.ascontiguousarray(table, np.float64), result)
        return result

    def sparse(self) -> sp.csr_array:
        """The same as a general sparse matrix."""
        return sp.csr_array((np.ones(len(self.columns)), self.columns, self.pointer), shape=self.shape)


def add_alike(into: Floats, groups: Integers, weight: float) -> None:
    """Adds ``weight`` to every pair of cells that lie in one group of a query; −1 is no group."""
    _add_pairs(into, np.ascontiguousarray(groups, np.int64), weight)


def add_cells(weight: Floats, weighted: Floats, groups: Integers, of_units: Floats, measured: Floats) -> None:
    """Adds a query whose groups are single cells to the weight of each cell and unit and to what was measured of it,
    times its weight; −1 is no group."""
    _add_cells(
        weight,
        weighted,
        np.ascontiguousarray(groups, np.int64),
        np.ascontiguousarray(of_units, np.float64),
        np.ascontiguousarray(measured, np.float64),
    )


@numba.njit("void(int64[::1], int64[::1], float64[:, ::1], float64[:, ::1])", cache=True, nogil=True, boundscheck=False)
def _add_rows(
    pointer: Integers, columns: Integers, table: npt.NDArray[np.float64], result: npt.NDArray[np.float64]
) -> None:
    # Row by row of the sparse matrix, whose entries are all one: the rows of the table at its columns are added up.
    width = table.shape[1]
    for row in range(result.shape[0]):
        for place in range(pointer[row], pointer[row + 1]):
            column = columns[place]
            for unit in range(width):
                result[row, unit] += table[column, unit]


@numba.njit("void(float64[:, ::1], int64[::1], float64)", cache=True, nogil=True, boundscheck=False)
def _add_pairs(into: npt.NDArray[np.float64], groups: Integers, weight: float) -> None:
    # Every pair of cells of one group; cells of no group, below zero, are in no pair.
    for cell in range(groups.shape[0]):
        group = groups[cell]
        if group < 0:
            continue
        for other in range(groups.shape[0]):
            if groups[other] == group:
                into[cell, other] += weight


@numba.njit(
    "void(float64[:, ::1], float64[:, ::1], int64[::1], float64[::1], float64[:, ::1])",
    cache=True,
    nogil=True,
    boundscheck=False,
)
def _add_cells(
    weight: npt.NDArray[np.float64],
    weighted: npt.NDArray[np.float64],
    groups: Integers,
    of_units: npt.NDArray[np.float64],
    measured: npt.NDArray[np.float64],
) -> None:
    # Each cell of a group gets the weight of the query in each unit, and that weight times what was measured.
    for cell in range(groups.shape[0]):
        group = groups[cell]
        if group < 0:
            continue
        for unit in range(of_units.shape[0]):
            weight[cell, unit] += of_units[unit]
            weighted[cell, unit] += of_units[unit] * measured[group, unit]
