"""Sums over groups, compiled: a matrix of zeros and ones times a table, and what measured groups add to an objective.

Node problems are small and many: a general sparse product takes longer to find out what it is given than to add it up.
Everything is added in the order of the rows and columns, so that the last digits are the same on every machine. Apart
from :mod:`~confide.estimation.tree_gls`, so that what is only planned loads no compiler.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from confide.arrays import Floats, Integers


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
    width = table.shape[1]
    for row in range(result.shape[0]):
        for place in range(pointer[row], pointer[row + 1]):
            column = columns[place]
            for unit in range(width):
                result[row, unit] += table[column, unit]


@numba.njit("void(float64[:, ::1], int64[::1], float64)", cache=True, nogil=True, boundscheck=False)
def _add_pairs(into: npt.NDArray[np.float64], groups: Integers, weight: float) -> None:
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
    for cell in range(groups.shape[0]):
        group = groups[cell]
        if group < 0:
            continue
        for unit in range(of_units.shape[0]):
            weight[cell, unit] += of_units[unit]
            weighted[cell, unit] += of_units[unit] * measured[group, unit]
