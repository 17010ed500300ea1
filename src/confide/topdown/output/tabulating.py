"""From estimates, or records, to tables: histograms of blocks added up along any geography, times the lines.

Histograms are sparse: a row for each block of the frame in the order of codes, a column for each cell. With S the
(units x blocks) matrix of a level or area, H the histograms and L the (cells x lines) matrix of a table, the table of
the level is S H L. It is made in slices of units, so that no table is ever held whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from confide.geography import Geolevel
from confide.geography.spine import OUTSIDE
from confide.topdown.output.tabulation import Table

UNITS_AT_ONCE = 1 << 14

Integers = NDArray[np.int64]


def histograms(blocks: int, cells: int, parts: Iterable[tuple[Integers, Integers, Integers]]) -> Any:
    """The sparse blocks x cells matrix of counts given as (block, cell, count), in any order and number of pieces."""
    rows, columns, counts = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for block, cell, count in parts:
        rows.append(block.astype(np.int32))
        columns.append(cell.astype(np.int32))
        counts.append(count)
    joined = []
    for pieces in (rows, columns, counts):  # one after the other: there may be tens of millions
        joined.append(np.concatenate(pieces))
        pieces.clear()
    row, column, data = joined
    return sp.coo_matrix((data, (row, column)), shape=(blocks, cells)).tocsr()


def estimated(files: Sequence[Path], order: Integers) -> Iterator[tuple[Integers, Integers, Integers]]:
    """The estimates of the blocks, as :func:`histograms` takes them. ``order`` is the row of each block."""
    for file in files:
        rows = pq.read_table(file, columns=["unit", "cell", "n"])
        unit, cell, count = (rows.column(name).to_numpy() for name in ("unit", "cell", "n"))
        yield order[unit], cell, count


@dataclass(frozen=True)
class Tabulator:
    """Tables of histograms, for some levels and areas. ``unit_of_block`` of a level follows the order of the rows."""

    counts: Any
    levels: tuple[Geolevel, ...]

    @cached_property
    def _summed(self) -> dict[str, Any]:
        return {}

    def histograms(self, level: Geolevel) -> Any:
        """The histograms of the units of a level; blocks in no area are left out."""
        if np.array_equal(level.unit_of_block, np.arange(self.counts.shape[0])):
            return self.counts
        if level.name not in self._summed:
            inside = np.flatnonzero(level.unit_of_block != OUTSIDE)
            ones = np.ones(len(inside), np.int64)
            members = sp.csr_matrix(
                (ones, (level.unit_of_block[inside], inside)), shape=(level.units, self.counts.shape[0])
            )
            self._summed[level.name] = members @ self.counts
        return self._summed[level.name]

    def lines(self, level: Geolevel, table: Table, first: int) -> Integers:
        """The lines of a table for a slice of units: units x lines."""
        dense: Integers = (self.histograms(level)[first : first + UNITS_AT_ONCE] @ table.matrix).toarray()
        return dense

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """The rows of a table, level by level."""
        for level in self.levels:
            yield from self.level_batches(table, level)

    def level_batches(self, table: Table, level: Geolevel) -> Iterator[pa.RecordBatch]:
        """The rows of one level in the order of the codes. Units with nobody in them are there too."""
        schema = table_schema(table)
        for first in range(0, level.units, UNITS_AT_ONCE):
            lines = self.lines(level, table, first)
            codes = pa.array(level.codes[first : first + len(lines)], pa.string())
            names = pa.repeat(pa.scalar(level.name, pa.string()), len(lines))
            counts = [pa.array(np.ascontiguousarray(column)) for column in lines.T]
            yield pa.RecordBatch.from_arrays([names, codes, *counts], schema=schema)


def table_schema(table: Table) -> pa.Schema:
    """The columns: where, then the lines."""
    return pa.schema(
        [
            pa.field("level", pa.string(), False, {"description": "geolevel, or kind of area"}),
            pa.field("geocode", pa.string(), False, {"description": "code of the geounit or area"}),
            *(
                pa.field(name, pa.int64(), False, {"description": label})
                for name, label in zip(table.columns, table.labels, strict=True)
            ),
        ]
    )
