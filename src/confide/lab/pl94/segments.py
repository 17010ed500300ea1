"""The segments: comma-separated table cells, one row for each row of the geographic header.

A row begins with FILEID, STUSAB, CHARITER, CIFSN (the segment's number) and LOGRECNO, which must be those of the
header row at the same place. Chunks of lines go through Arrow's CSV reader; a chunk it refuses is read again line by
line, only to say what is wrong with it.
"""

from __future__ import annotations

import dataclasses
import io
import re
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from confide.errors import Finding, InputError, Place

# The 2010 layout of a PL 94-171 file, read from the data files ``data/pl94/*.toml``.
#
# The geographic header is a fixed-width record; a segment record is a comma-separated row of table cells. Tables P1 and
# P3 have one line for each of the 63 non-empty sets of six races, with a total and a subtotal for each number of races.
# P2 and P4 have the same lines for people who are not Hispanic, shifted by two, after a total and a line for Hispanic.


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


# The geographic header: fixed-width records of 500 bytes in Latin-1, one for each area of each summary level.
#
# Bytes are cut out of a whole chunk of lines at once. Rows of other summary levels, and of geographic components
# (parts such as "urban"), are passed over, but their logical record numbers are kept: the segments have a row for
# each.


WHOLE = b"00"  # geographic component: the whole area
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """The header's rows: ``records`` for all of them, the rest for the rows that are kept, in file order."""

    state: str
    records: IntArray
    kept: npt.NDArray[np.bool_]
    level: npt.NDArray[np.int8]
    geography: pa.Table
    population: IntArray
    housing_units: IntArray


class _Lines:
    """The lines of one chunk, and how to cut fields out of them."""

    def __init__(self, chunk: bytes, first_line: int, layout: GeoLayout):
        self.bytes = np.frombuffer(chunk, np.uint8)
        ends = np.flatnonzero(self.bytes == ord("\n"))
        self.starts = np.concatenate(([0], ends[:-1] + 1))
        self.lengths = ends - (self.bytes[ends - 1] == ord("\r")) - self.starts
        self.numbers = np.arange(first_line, first_line + len(ends))
        self.layout = layout

    def keep(self, which: npt.NDArray[np.bool_]) -> None:
        self.starts, self.numbers = self.starts[which], self.numbers[which]

    def cut(self, field: str) -> Bytes:
        start, width = self.layout.fields[field]
        return self.bytes[(self.starts + start)[:, None] + np.arange(width)]

    def raw(self, field: str) -> npt.NDArray[np.bytes_]:
        cut = self.cut(field)
        return cut.view(f"S{cut.shape[1]}").ravel()

    def text(self, *fields: str) -> pa.Array:
        """The fields, joined, without surrounding blanks."""
        cut = np.ascontiguousarray(np.concatenate([self.cut(field) for field in fields], axis=1))
        raw = cut.view(f"S{cut.shape[1]}").ravel()
        if cut.size and int(cut.max()) >= 128:
            return pc.utf8_trim_whitespace(pa.array(np.char.decode(raw, self.layout.encoding).tolist(), pa.string()))
        return pc.utf8_trim_whitespace(pa.array(raw, pa.binary()).cast(pa.string()))

    def integers(self, field: str) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """The field as integers, right-aligned in blanks, and which rows are not that."""
        cut = self.cut(field)
        digit = (cut >= ord("0")) & (cut <= ord("9"))
        blank_first = (cut == ord(" ")) & (np.cumsum(digit, axis=1) == 0)
        wrong = ~((digit | blank_first).all(axis=1) & digit[:, -1])
        powers = 10 ** np.arange(cut.shape[1] - 1, -1, -1, dtype=np.int64)
        return np.where(digit, cut - ord("0"), 0).astype(np.int64) @ powers, wrong


def read_header(archive: Archive) -> Header:
    """Read the header; rows that are not as the layout says are findings of the archive."""
    layout, findings, member = geo_layout(), archive.findings, archive.name("geo")
    sumlevs = np.array([level.sumlev.encode() for level in layout.levels.values()])
    order = np.argsort(sumlevs)
    integers = ["LOGRECNO", "POP100", "HU100"]
    integers += [column.fields[0] for column in layout.columns.values() if column.kind == "integer"]
    records, geography_parts, levels, tables = [], [], [], []
    counts: dict[str, list[IntArray]] = {"POP100": [], "HU100": []}
    states: set[bytes] = set()
    lines_seen = 0
    for chunk in archive.chunks("geo"):
        if not lines_seen and b"|" in chunk[: chunk.index(b"\n")]:
            raise findings.fail("pl94.layout/header", member, 1)
        lines = _Lines(chunk, lines_seen + 1, layout)
        lines_seen += len(lines.numbers)
        wrong = lines.lengths != layout.record_length
        if wrong.any():
            for row in np.flatnonzero(wrong):
                line, found = int(lines.numbers[row]), f"{lines.lengths[row]} bytes"
                findings.note("pl94.line/length", member, line, found=found, bytes=layout.record_length)
            continue
        numbers, wrong = lines.integers("LOGRECNO")
        sumlev = lines.raw("SUMLEV")
        place = np.minimum(np.searchsorted(sumlevs[order], sumlev), len(sumlevs) - 1)
        keep = (sumlevs[order][place] == sumlev) & (lines.raw("GEOCOMP") == WHOLE)
        records.append(numbers)
        geography_parts.append(keep)
        levels.append(order[place[keep]].astype(np.int8))
        lines.keep(keep | wrong)
        values: dict[str, IntArray] = {}
        for field in integers:
            values[field], wrong = lines.integers(field)
            for row in np.flatnonzero(wrong):
                found = repr(lines.cut(field)[row].tobytes().decode(layout.encoding))
                findings.note("pl94.number", member, int(lines.numbers[row]), column=field, found=found)
        for field, list_of in counts.items():
            list_of.append(values[field])
        states.update(np.unique(lines.raw("STUSAB")).tolist())
        tables.append(_geography(lines, values))
    if len(states) != 1 and not findings.items:
        found = ", ".join(sorted(state.decode("latin-1") for state in states)) or "none"
        findings.note("pl94.states/header", member, found=found, empty=not lines_seen)
    findings.stop_if_any()
    return Header(
        state=states.pop().decode("latin-1"),
        records=np.concatenate(records),
        kept=np.concatenate(geography_parts),
        level=np.concatenate(levels),
        geography=pa.concat_tables(tables),
        population=np.concatenate(counts["POP100"]),
        housing_units=np.concatenate(counts["HU100"]),
    )


def _geography(lines: _Lines, integers: dict[str, IntArray]) -> pa.Table:
    """The columns of the layout but the geocode, which depends on the level, and the codes of block group and block."""
    columns: dict[str, pa.Array] = {}
    for column in lines.layout.columns.values():
        if column.kind == "text":
            columns[column.name] = lines.text(*column.fields)
        elif column.kind == "integer":
            columns[column.name] = pa.array(integers[column.fields[0]])
        elif column.kind == "decimal":
            columns[column.name] = pa.array(_decimals(lines.text(*column.fields)), pa.float64())
    columns |= {field: lines.text(field) for field in ("BLKGRP", "BLOCK")}
    return pa.table(columns)


def _decimals(text: pa.Array) -> pa.Array:
    """Signed decimals such as ``+41.5978358``; what is no number is null."""
    number = pc.match_substring_regex(text, r"^[+-]?[0-9]+(\.[0-9]+)?$")
    bare = pc.utf8_ltrim(pc.if_else(number, text, None), characters="+")
    return pc.cast(bare, pa.float64())


LARGEST = 999_999_999  # the documented width of a cell is nine digits


class _Segment:
    """Reads one segment against the header."""

    def __init__(self, archive: Archive, number: int, header: Header):
        layout = table_layout()
        self.archive, self.number, self.header = archive, number, header
        self.part = f"{number:05}"
        self.member = archive.name(self.part)
        self.names = [
            layout.cell_name(table, cell)
            for table in layout.tables.values()
            if table.segment == number
            for cell in range(table.lines)
        ]
        self.fields = [*layout.identification, *self.names]
        self.same = {"FILEID": layout.file_id, "STUSAB": header.state, "CIFSN": f"{number:02}"}
        self.line = 0  # lines read so far

    def pieces(self) -> Iterator[CellArray]:
        """The cells of the kept rows, a chunk at a time."""
        for chunk in self.archive.chunks(self.part):
            if not self.line and b"|" in chunk[: chunk.index(b"\n")]:
                raise self.archive.findings.fail("pl94.layout/segment", self.member, 1)
            try:
                table = self._parse(chunk)
            except pa.ArrowInvalid:
                self._explain(chunk)
                self.line += chunk.count(b"\n")
                continue
            columns = self._match(table)
            self.line += table.num_rows
            cells = np.empty((int(columns.sum()), len(self.names)), np.int32)
            for place, name in enumerate(self.names):
                cells[:, place] = table[name].to_numpy()[columns]
            self._check_range(cells, np.flatnonzero(columns) + self.line - table.num_rows + 1)
            yield cells
        if self.line < len(self.header.records):
            found, rows = f"{self.line:,} rows", len(self.header.records)
            self.archive.findings.note("pl94.rows/fewer", self.member, found=found, rows=rows)

    def _parse(self, chunk: bytes) -> pa.Table:
        kinds = dict.fromkeys(self.names, pa.int32()) | {name: pa.string() for name in self.fields[:4]}
        return csv.read_csv(
            io.BytesIO(chunk),
            read_options=csv.ReadOptions(column_names=self.fields, block_size=len(chunk) + 1),
            parse_options=csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=kinds | {"LOGRECNO": pa.int64()}, null_values=[], strings_can_be_null=False
            ),
        )

    def _match(self, table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each row is kept, after comparing its identification with the header's."""
        findings, first = self.archive.findings, self.line
        for field, value in self.same.items():
            other = np.flatnonzero(pc.not_equal(table[field], value).to_numpy())
            if len(other):
                line, found = first + int(other[0]) + 1, repr(table[field][int(other[0])].as_py())
                findings.note("pl94.identification", self.member, line, column=field, found=found, value=value)
        record = table["LOGRECNO"].to_numpy()
        if first + len(record) > len(self.header.records):
            rows = len(self.header.records)
            raise findings.fail("pl94.rows/more", self.member, rows + 1, rows=rows)
        expected = self.header.records[first : first + len(record)]
        other = np.flatnonzero(record != expected)
        if len(other):  # one finding: after a lost or doubled row, every later one differs
            row = int(other[0])
            place, found = first + row + 1, f"{record[row]:07}"
            raise findings.fail(
                "pl94.logrecno", self.member, place, column="LOGRECNO", found=found, number=int(expected[row])
            )
        return self.header.kept[first : first + len(record)]

    def _check_range(self, cells: CellArray, lines: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
        rows, columns = np.nonzero((cells < 0) | (cells > LARGEST))
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            self._bad_cell(int(lines[row]), self.names[column], str(cells[row, column]))

    def _bad_cell(self, line: int, column: str, text: str) -> None:
        shown = repr(text if len(text) <= 40 else text[:40] + "...")
        self.archive.findings.note("pl94.cell", self.member, line, column=column, found=shown, largest=LARGEST)

    def _explain(self, chunk: bytes) -> None:
        """Find what Arrow's reader refused in a chunk."""
        findings = self.archive.findings
        before = len(findings.items) + findings.more
        for line, text in enumerate(chunk.decode("latin-1").split("\n")[:-1], self.line + 1):
            values = text.removesuffix("\r").split(",")
            if len(values) != len(self.fields):
                findings.note("pl94.fields", self.member, line, found=str(len(values)), fields=len(self.fields))
                continue
            for name, value in zip(self.fields[4:], values[4:], strict=True):
                if not (value.isascii() and value.isdigit() and len(value) <= 9):
                    self._bad_cell(line, name, value)
        if len(findings.items) + findings.more == before:
            findings.note("pl94.segment", self.member, self.line + 1)


def read_segment(archive: Archive, number: int, header: Header) -> SparseRows:
    """The cells of segment 1 or 2, for the rows that the header keeps."""
    layout = table_layout()
    rows = SparseRows.gather(layout.segment_cells(number), _Segment(archive, number, header).pieces())
    archive.findings.stop_if_any()
    return rows


# The zip file that a state's PL 94-171 data come in.
#
# Three members count: ``SSgeoYYYY.pl`` and ``SS0000nYYYY.pl`` for segments 1 and 2 (SS the state's letters, YYYY the
# year). Members are read as streams and never extracted, so a name in the zip cannot reach outside it. Sizes are
# declared in the zip's directory; what declares more than the limit is not opened.


# Findings about one file, gathered up to a limit.
#
# A PL 94-171 file is published, so its values may be shown. A damaged file would give as many findings as it has
# rows: after ``limit`` of them the rest are only counted.


@dataclass(slots=True)
class Findings:
    """The findings of one file. ``name`` is the zip's name; a place inside it is ``zip/member``."""

    name: str
    limit: int = 20
    items: list[Finding] = dataclasses.field(default_factory=list)
    more: int = 0

    def note(
        self, key: str, member: str | None = None, line: int | None = None, *, column: str | None = None, **facts: Any
    ) -> None:
        """Keep a finding, or count it when the limit is reached. Unless it says what to do: download the file again."""
        if len(self.items) >= self.limit:
            self.more += 1
            return
        place = Place(file=self.name if member is None else f"{self.name}/{member}", line=line, column=column)
        finding = Finding.of(key, where=place, **facts)
        self.items.append(finding if finding.remedy else replace(finding, remedy=Finding.of("pl94.download").remedy))

    def stop_if_any(self) -> None:
        """Raise what was gathered, if anything."""
        if not self.items:
            return
        number_more = Finding.of("pl94.more", where=Place(file=self.name), more=self.more)
        raise InputError([*self.items, number_more] if self.more else self.items)

    def fail(
        self, key: str, member: str | None = None, line: int | None = None, *, column: str | None = None, **facts: Any
    ) -> InputError:
        """The error for a problem that leaves nothing more to look at: ``raise findings.fail(...)``."""
        self.limit += 1
        self.note(key, member, line, column=column, **facts)
        return InputError(list(self.items))


Progress = Callable[[str, int, int], None]
"""Called as ``progress(stage, done, total)``."""

MEMBER = re.compile(r"([a-z]{2})(geo|0000\d)(\d{4})\.pl", re.IGNORECASE)
PARTS = {"geo": "geographic header", "00001": "segment 1", "00002": "segment 2"}
YEAR = "2010"
SIZE_LIMIT = 16 << 30  # bytes, uncompressed; the largest state of 2010 has about 1.5 GiB
CHUNK = 8 << 20
LONGEST_LINE = 64 << 10


def _inside(name: str) -> bool:
    """Whether a member's name is printable and stays inside the zip; others are left alone."""
    path = PurePosixPath(name.replace("\\", "/"))
    return name.isprintable() and not path.is_absolute() and ".." not in path.parts and ":" not in name


class Archive:
    """An open PL 94-171 zip. Use as a context manager."""

    def __init__(
        self, path: Path, findings: Findings, *, size_limit: int = SIZE_LIMIT, progress: Progress | None = None
    ):
        self.findings = findings
        self.path = path
        self._progress = progress
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise findings.fail("pl94.file/absent") from None
        except (zipfile.BadZipFile, EOFError, ValueError) as error:
            raise findings.fail("pl94.zip", found=str(error)) from None
        except OSError as error:
            raise findings.fail("pl94.file/unreadable", found=error.strerror) from None
        try:
            self.members = self._find(size_limit)
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def _find(self, size_limit: int) -> dict[str, zipfile.ZipInfo]:
        """The member for each part."""
        candidates: dict[str, list[zipfile.ZipInfo]] = {}
        states: set[str] = set()
        for info in self._zip.infolist():
            match = MEMBER.fullmatch(PurePosixPath(info.filename).name)
            if match is None or not _inside(info.filename):
                continue
            state, part, year = match.groups()
            if year != YEAR:
                raise self.findings.fail("pl94.layout/year", info.filename, year=year)
            states.add(state.lower())
            candidates.setdefault(part.lower(), []).append(info)
        for part, title in PARTS.items():
            like = f"ri{part}{YEAR}.pl"
            match candidates.get(part, []):
                case []:
                    self.findings.note("pl94.member/missing", found="none", title=title, name=like)
                case [info]:
                    if info.flag_bits & 1:
                        self.findings.note("pl94.encrypted", info.filename)
                case several:
                    names = ", ".join(sorted(info.filename for info in several))
                    self.findings.note("pl94.member/several", found=names, title=title, name=like)
        if len(states) > 1:
            self.findings.note("pl94.states/zip", found=", ".join(sorted(states)))
        self.findings.stop_if_any()
        members = {part: candidates[part][0] for part in PARTS}
        declared = sum(info.file_size for info in members.values())
        if declared > size_limit:
            raise self.findings.fail("pl94.size", found=f"{declared:,} bytes", most=size_limit)
        return members

    def name(self, part: str) -> str:
        """The member's name, for findings."""
        return self.members[part].filename

    def chunks(self, part: str) -> Iterator[bytes]:
        """The member's bytes in pieces of whole lines. Damage found on the way raises :class:`InputError`."""
        info = self.members[part]
        unfinished_line = b""
        done = 0
        try:
            with self._zip.open(info) as stream:
                while block := stream.read(CHUNK):
                    done += len(block)
                    cut = block.rfind(b"\n") + 1
                    if cut:
                        yield unfinished_line + block[:cut]
                        unfinished_line = b""
                    unfinished_line += block[cut:]
                    if len(unfinished_line) > LONGEST_LINE:
                        raise self.findings.fail("pl94.line/long", info.filename)
                    if self._progress is not None:
                        self._progress(f"reading {PARTS[part]}", done, info.file_size)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise self.findings.fail("pl94.damaged", info.filename, message=str(error)) from None
        if unfinished_line:
            yield unfinished_line + b"\n"
