"""The segments: comma-separated table cells, one row for each row of the geographic header.

A row begins with FILEID, STUSAB, CHARITER, CIFSN (the segment's number) and LOGRECNO, which must be those of the
header row at the same place. Chunks of lines go through Arrow's CSV reader; a chunk it refuses is read again line by
line, only to say what is wrong with it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from confide.inputs.pl94.archive import ONLY_2010, Archive
from confide.inputs.pl94.header import Header
from confide.inputs.pl94.layout import CellArray, table_layout
from confide.inputs.pl94.sparse import SparseRows

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
                raise self.archive.findings.fail(
                    "layout",
                    f"The segment is separated by '|', as in 2020. {ONLY_2010}",
                    member=self.member,
                    line=1,
                    remedy="Give the 2010 file of the state.",
                )
            try:
                table = self._parse(chunk)
            except pa.ArrowInvalid:
                self._explain(chunk)
                self.line += chunk.count(b"\n")
                continue
            kept = self._match(table)
            self.line += table.num_rows
            cells = np.empty((int(kept.sum()), len(self.names)), np.int32)
            for place, name in enumerate(self.names):
                cells[:, place] = table[name].to_numpy()[kept]
            self._check_range(cells, np.flatnonzero(kept) + self.line - table.num_rows + 1)
            yield cells
        if self.line < len(self.header.records):
            self.archive.findings.add(
                "rows",
                "The segment ends before the header does.",
                member=self.member,
                found=f"{self.line:,} rows",
                expected=f"{len(self.header.records):,} rows",
            )

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
                findings.add(
                    "identification",
                    "A row does not belong to this segment and state.",
                    member=self.member,
                    line=first + int(other[0]) + 1,
                    column=field,
                    found=repr(table[field][int(other[0])].as_py()),
                    expected=repr(value),
                )
        record = table["LOGRECNO"].to_numpy()
        if first + len(record) > len(self.header.records):
            raise findings.fail(
                "rows",
                "The segment has more rows than the header.",
                member=self.member,
                line=len(self.header.records) + 1,
                expected=f"{len(self.header.records):,} rows",
            )
        expected = self.header.records[first : first + len(record)]
        other = np.flatnonzero(record != expected)
        if len(other):  # one finding: after a lost or doubled row, every later one differs
            row = int(other[0])
            raise findings.fail(
                "logrecno",
                "The logical record number is not the one in the geographic header's row.",
                member=self.member,
                line=first + row + 1,
                column="LOGRECNO",
                found=f"{record[row]:07}",
                expected=f"{expected[row]:07}",
            )
        return self.header.kept[first : first + len(record)]

    def _check_range(self, cells: CellArray, lines: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
        rows, columns = np.nonzero((cells < 0) | (cells > LARGEST))
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            self._bad_cell(int(lines[row]), self.names[column], str(cells[row, column]))

    def _bad_cell(self, line: int, column: str, found: str) -> None:
        self.archive.findings.add(
            "cell",
            "A table cell is not a count.",
            member=self.member,
            line=line,
            column=column,
            found=repr(found if len(found) <= 40 else found[:40] + "..."),
            expected=f"an integer from 0 to {LARGEST:,}",
        )

    def _explain(self, chunk: bytes) -> None:
        """Find what Arrow's reader refused in a chunk."""
        findings = self.archive.findings
        before = len(findings.items) + findings.more
        for line, text in enumerate(chunk.decode("latin-1").split("\n")[:-1], self.line + 1):
            values = text.removesuffix("\r").split(",")
            if len(values) != len(self.fields):
                findings.add(
                    "fields",
                    "A row has the wrong number of fields.",
                    member=self.member,
                    line=line,
                    found=len(values),
                    expected=len(self.fields),
                )
                continue
            for name, value in zip(self.fields[4:], values[4:], strict=True):
                if not (value.isascii() and value.isdigit() and len(value) <= 9):
                    self._bad_cell(line, name, value)
        if len(findings.items) + findings.more == before:
            findings.add("segment", "Lines of the segment cannot be read.", member=self.member, line=self.line + 1)


def read_segment(archive: Archive, number: int, header: Header) -> SparseRows:
    """The cells of segment 1 or 2, for the rows that the header keeps."""
    layout = table_layout()
    rows = SparseRows.gather(layout.segment_cells(number), _Segment(archive, number, header).pieces())
    archive.findings.stop_if_any()
    return rows
