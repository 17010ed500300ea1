"""The 2010 layout of a PL 94-171 file, read from the data files ``data/pl94/*.toml``.

The geographic header is a fixed-width record; a segment record is a comma-separated row of table cells. Tables P1 and
P3 have one line for each of the 63 non-empty sets of six races, with a total and a subtotal for each number of races.
P2 and P4 have the same lines for people who are not Hispanic, shifted by two, after a total and a line for Hispanic.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

RACES = 63
CELLS = 2 * 2 * RACES  # votingage x hispanic x cenrace, in C order

IntArray = npt.NDArray[np.int64]
CellArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class SummaryLevel:
    """A summary level: its code, the header fields of its geocode, and the code that means "in none"."""

    name: str
    sumlev: str
    geocode: tuple[str, ...]
    none: str | None = None
    verify: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a geography table: ``geocode``, or header fields as text, integer or decimal."""

    name: str
    kind: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GeoLayout:
    """The geographic header: ``fields`` gives (first byte counted from 0, width) by name."""

    id: str
    provenance: str
    record_length: int
    encoding: str
    fields: dict[str, tuple[int, int]]
    levels: dict[str, SummaryLevel]
    columns: dict[str, Column]

    def geocode_columns(self, level: SummaryLevel) -> tuple[str, ...]:
        """The columns that, joined, are a level's geocode: the widest joined one, then single fields."""
        named = {column.fields: name for name, column in self.columns.items() if column.kind == "text"}
        outer = max(size for size in range(1, len(level.geocode) + 1) if level.geocode[:size] in named)
        return named[level.geocode[:outer]], *(named.get((field,), field) for field in level.geocode[outer:])


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One published table: where its cells are (segment, first cell) and what it counts."""

    name: str
    segment: int
    first: int
    lines: int
    by: str
    universe: str

    @property
    def cells(self) -> slice:
        """The table's cells among those of its segment."""
        return slice(self.first, self.first + self.lines)


@dataclass(frozen=True, slots=True)
class Subtotal:
    """A line that is the sum over cenrace ``start`` to ``stop`` - 1. Lines count from 1, as in the documentation."""

    line: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Pl94TableLayout:
    """Tables, and the lines of a table by race: one line for each cenrace, and the sums."""

    id: str
    provenance: str
    identification: tuple[str, ...]
    file_id: str
    races: tuple[str, ...]
    tables: dict[str, PublishedTable]
    race_lines: IntArray
    subtotals: tuple[Subtotal, ...]
    total: int
    hispanic: int
    shift: int
    occupancy: dict[str, int]

    def segment_cells(self, segment: int) -> int:
        """How many cells a record of ``segment`` has."""
        return sum(table.lines for table in self.tables.values() if table.segment == segment)

    def race_columns(self, table: PublishedTable) -> IntArray:
        """The columns, within the segment, of the 63 race lines of a table."""
        return table.first + self.race_lines - 1 + (self.shift if table.by == "origin" else 0)

    def cell_name(self, table: PublishedTable, column: int) -> str:
        """The documentation's name of a cell: ``P0010001`` is line 1 of P1."""
        return f"{table.name[0]}{int(table.name[1:]):03}{column + 1:04}"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("confide").joinpath("data", "pl94", name).read_text("utf-8"))


@cache
def geo_layout() -> GeoLayout:
    """The geographic header of 2010."""
    data = _read("geo2010.toml")
    return GeoLayout(
        id=data["id"],
        provenance=data["provenance"],
        record_length=data["record_length"],
        encoding=data["encoding"],
        fields={name: (start - 1, width) for name, (start, width) in data["fields"].items()},
        levels={
            name: SummaryLevel(
                name, item["sumlev"], tuple(item["geocode"]), item.get("none"), item.get("verify", False)
            )
            for name, item in data["levels"].items()
        },
        columns={
            name: Column(name, item["kind"], tuple(item.get("fields", ()))) for name, item in data["columns"].items()
        },
    )


@cache
def table_layout() -> Pl94TableLayout:
    """The tables of 2010."""
    data = _read("tables2010.toml")
    tables: dict[str, PublishedTable] = {}
    first: dict[int, int] = {}
    for name, item in data["tables"].items():
        start = first.get(item["segment"], 0)
        tables[name] = PublishedTable(name, item["segment"], start, item["lines"], item["by"], item["universe"])
        first[item["segment"]] = start + item["lines"]
    lines = data["race_lines"]
    race_lines: list[int] = []
    subtotals: list[Subtotal] = []
    for size in lines["sizes"]:
        start = len(race_lines)
        race_lines += range(size["first"], size["last"] + 1)
        subtotals.append(Subtotal(size["subtotal"], start, len(race_lines)))
    subtotals.append(Subtotal(lines["two_or_more"], subtotals[0].stop, len(race_lines)))
    return Pl94TableLayout(
        id=data["id"],
        provenance=data["provenance"],
        identification=tuple(data["identification"]),
        file_id=data["file_id"],
        races=tuple(data["races"]),
        tables=tables,
        race_lines=np.array(race_lines, dtype=np.int64),
        subtotals=tuple(subtotals),
        total=lines["total"],
        hispanic=data["origin_lines"]["hispanic"],
        shift=data["origin_lines"]["shift"],
        occupancy=dict(data["occupancy_lines"]),
    )


# Counts by row, most of them zero: compressed sparse rows.
#
# A block row of a PL 94-171 file has 291 cells, of which about one in ten is not zero. Holding only those keeps the
# largest state (some 900,000 blocks) in a few hundred megabytes; dense arrays are made for a few thousand rows at a
# time.


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
