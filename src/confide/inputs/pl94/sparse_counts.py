"""Counts by row, most of them zero: compressed sparse rows.

A block row of a PL 94-171 file has 291 cells, of which about one in ten is not zero. Holding only those keeps the
largest state (some 900,000 blocks) in a few hundred megabytes; dense arrays are made for a few thousand rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.inputs.pl94.layout import CellArray, IntArray

ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Row i has ``values[starts[i]:starts[i + 1]]`` in ``columns[...]`` and zero elsewhere."""

    width: int
    starts: IntArray
    columns: npt.NDArray[np.uint16]
    values: CellArray

    @classmethod
    def gather(cls, width: int, pieces: Iterable[CellArray]) -> SparseRows:
        """From dense pieces of consecutive rows."""
        counts, columns, values = [np.zeros(1, np.int64)], [np.zeros(0, np.uint16)], [np.zeros(0, np.int32)]
        for piece in pieces:
            row, column = np.nonzero(piece)
            counts.append(np.bincount(row, minlength=len(piece)).astype(np.int64))
            columns.append(column.astype(np.uint16))
            values.append(piece[row, column].astype(np.int32))
        return cls(width, np.cumsum(np.concatenate(counts)), np.concatenate(columns), np.concatenate(values))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def _entries(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """For each stored entry of ``rows``: the position in ``rows``, and the position in ``values``."""
        first = self.starts[rows]
        counts = self.starts[rows + 1] - first
        ends = np.cumsum(counts)
        position = np.repeat(np.arange(len(rows)), counts)
        return position, np.arange(len(position)) + np.repeat(first - (ends - counts), counts)

    def dense(self, rows: IntArray) -> CellArray:
        """The given rows, in that order, as an array of shape (rows, width)."""
        position, entry = self._entries(rows)
        result = np.zeros((len(rows), self.width), np.int32)
        result[position, self.columns[entry]] = self.values[entry]
        return result

    def sums(self, rows: IntArray, group: IntArray, groups: int) -> IntArray:
        """Sums of the rows of each group 0 to ``groups`` - 1; a row of group -1 is in none."""
        inside = group >= 0
        position, entry = self._entries(rows[inside])
        cell = group[inside][position] * self.width + self.columns[entry]
        result = np.zeros(groups * self.width, np.int64)
        np.add.at(result, cell, self.values[entry].astype(np.int64))
        return result.reshape(groups, self.width)


def pieces(rows: IntArray) -> Iterator[IntArray]:
    """``rows`` in consecutive pieces, small enough to be made dense."""
    size = ROWS_AT_ONCE
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
