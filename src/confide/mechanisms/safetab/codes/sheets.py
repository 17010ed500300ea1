"""Sheets: small public files of text values with a fixed header, from ``|`` separated text or from Parquet.

Text is UTF-8 with or without a byte order mark, lines end with LF or CRLF, blank lines at the end are no rows, and no
character quotes or escapes another. In Parquet every column is text without nulls. A value is never interpreted:
leading zeros stay, and ``Null`` is a text of four letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines.protocol import format_of
from confide.errors import Finding, Place

SHOWN = 10
"""How many rows that break the same rule a finding lists; all are counted."""

LONGEST = 60
"""How many characters of a value a finding shows."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The rows of one file. ``numbers`` are their lines in a text file, or their rows in Parquet.

    ``whole`` is false when a row was left out because it had too many or too few values.
    """

    file: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: Sequence[int]
    unit: str = "line"
    whole: bool = True

    def place(self, index: int, column: str | None = None) -> Place:
        """Where the row with this index is."""
        number = self.numbers[index]
        if self.unit == "line":
            return Place(file=self.file, line=number, column=column)
        return Place(file=self.file, row=number, column=column)

    def column(self, name: str) -> list[str]:
        """The values of a column."""
        position = self.columns.index(name)
        return [row[position] for row in self.rows]

    def broken(
        self,
        code: str,
        what: str,
        cases: Sequence[tuple[int, str]],
        *,
        expected: str,
        remedy: str,
        column: str | None = None,
    ) -> list[Finding]:
        """One finding for all rows that break a rule, each given by its index and what it says; none if none does."""
        if not cases:
            return []
        listed = [f"{text} in {self.unit} {self.numbers[index]:,}" for index, text in cases[:SHOWN]]
        if len(cases) == 1:
            found = cases[0][1]
        elif len(cases) > SHOWN:
            found = f"{'; '.join(listed)}; and so on, {len(cases):,} rows in all"
        else:
            found = "; ".join(listed)
        return [Finding(f"codes.{code}", what, self.place(cases[0][0], column), found, expected, remedy)]


def shown(value: str) -> str:
    """A value as a finding shows it: quoted, and cut when it is long."""
    return repr(value) if len(value) <= LONGEST else f"{value[:LONGEST]!r}..."


def read_sheet(path: Path, columns: tuple[str, ...]) -> tuple[Sheet | None, list[Finding]]:
    """The sheet of a file that has these columns in this order, and what is wrong with its form.

    There is no sheet when the file cannot be read or its header is not the expected one.
    """
    try:
        there, is_file = path.exists(), path.is_file()
    except OSError as error:
        return None, [_forbidden(path, error)]
    if not there:
        expected = "the official code file, as text or as Parquet"
        remedy = "put the file there, or name the right one"
        return None, [_unreadable(path, "missing-file", "the file does not exist", str(path), expected, remedy)]
    if not is_file:
        remedy = "name the file itself"
        return None, [_unreadable(path, "not-a-file", "this is not a file", str(path), "a file", remedy)]
    if format_of(path) == "parquet":
        return _read_parquet(path, columns)
    return _read_text(path, columns)


def _unreadable(path: Path, code: str, what: str, found: str, expected: str, remedy: str) -> Finding:
    return Finding(f"codes.{code}", what, Place(file=path.name), found, expected, remedy)


def _forbidden(path: Path, error: OSError) -> Finding:
    remedy = "give the user who runs Confide the right to read the file"
    return _unreadable(path, "unreadable", "the file cannot be read", str(error), "a readable file", remedy)


def _read_text(path: Path, columns: tuple[str, ...]) -> tuple[Sheet | None, list[Finding]]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        return None, [_forbidden(path, error)]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = Place(file=path.name, line=raw.count(b"\n", 0, error.start) + 1)
        found = f"the byte 0x{raw[error.start]:02x} at position {error.start:,}"
        remedy = "save the file again with the encoding UTF-8"
        return None, [Finding("codes.encoding", "the file is not UTF-8", where, found, "text in UTF-8", remedy)]
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    expected = "a first line with " + "|".join(columns)
    if not lines:
        what, found, remedy = "the file is empty", f"{len(raw):,} bytes without any text", "put in the official content"
        return None, [_unreadable(path, "empty-file", what, found, expected, remedy)]
    findings = _header_findings(path.name, lines[0].split("|"), columns, line=1)
    if findings:
        return None, findings
    parts = [(number, tuple(line.split("|"))) for number, line in enumerate(lines[1:], start=2)]
    good = [(number, values) for number, values in parts if len(values) == len(columns)]
    numbers, rows = [number for number, _ in good], [values for _, values in good]
    uneven = Sheet(path.name, columns, [values for _, values in parts], [number for number, _ in parts])
    findings = uneven.broken(
        "row-length",
        "a row has too many or too few values",
        [(index, _counted(values)) for index, values in enumerate(uneven.rows) if len(values) != len(columns)],
        expected=f"{len(columns)} values with | between them, as the header has",
        remedy="correct the row; nothing quotes or escapes a |, so a name cannot hold one",
    )
    return Sheet(path.name, columns, rows, numbers, whole=not findings), findings


def _counted(values: tuple[str, ...]) -> str:
    if values == ("",):
        return "a blank line"
    return "1 value" if len(values) == 1 else f"{len(values)} values"


def _read_parquet(path: Path, columns: tuple[str, ...]) -> tuple[Sheet | None, list[Finding]]:
    try:
        # not read_table: that would take folder names such as level=1 for columns
        with pq.ParquetFile(path) as opened:
            table = opened.read()
    except (pa.ArrowException, OSError) as error:
        what, expected = "the file cannot be read as Parquet", "a readable Parquet file"
        remedy = "write the file again, or give it as text with a name that ends in .txt"
        return None, [_unreadable(path, "unreadable", what, str(error).split("\n")[0], expected, remedy)]
    findings = _header_findings(path.name, table.schema.names, columns)
    if findings:
        return None, findings
    values = []
    for name in columns:
        column, wrong = _text_column(path.name, name, table.column(name))
        values.append(column)
        findings += wrong
    if findings:
        return None, findings
    rows = list(zip(*values, strict=True))
    return Sheet(path.name, columns, rows, range(1, len(rows) + 1), unit="row"), []


def _text_column(file: str, name: str, column: pa.ChunkedArray) -> tuple[list[str], list[Finding]]:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    where = Place(file=file, column=name)
    remedy = "write the column as text, every value as in the official file"
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        what, found = "the column is not text", f"a column of type {column.type}"
        return [], [Finding("codes.column-type", what, where, found, "text, with its leading zeros", remedy)]
    try:
        values: list[str | None] = column.to_pylist()
    except UnicodeDecodeError:
        what, found = "the column is not UTF-8", "bytes that are no text"
        return [], [Finding("codes.encoding", what, where, found, "text in UTF-8", remedy)]
    empty = [row for row, value in enumerate(values, start=1) if value is None]
    if empty:
        where = Place(file=file, row=empty[0], column=name)
        what, found = "the column has nulls", "1 null" if len(empty) == 1 else f"{len(empty):,} nulls"
        return [], [Finding("codes.null", what, where, found, "a text in every row; missing is the text Null", remedy)]
    return [value for value in values if value is not None], []


def _header_findings(
    file: str, present: Sequence[str], wanted: tuple[str, ...], line: int | None = None
) -> list[Finding]:
    """What is wrong with a header: columns that are missing, unexpected or twice there; or their order."""
    where = Place(file=file, line=line)
    expected, remedy = ", ".join(wanted), "give the file exactly the official columns, in this order"
    missing = [name for name in wanted if name not in present]
    surplus = [name for place, name in enumerate(present) if name not in wanted or name in present[:place]]
    findings = []
    if missing:
        what = "columns are missing" if len(missing) > 1 else "a column is missing"
        findings.append(Finding("codes.missing-column", what, where, "no " + ", ".join(missing), expected, remedy))
    if surplus:
        what = "columns are unexpected" if len(surplus) > 1 else "a column is unexpected"
        listed = ", ".join(shown(name) for name in surplus[:SHOWN])
        found = listed if len(surplus) <= SHOWN else f"{listed} and so on, {len(surplus):,} in all"
        findings.append(Finding("codes.unexpected-column", what, where, found, expected, remedy))
    if not findings and tuple(present) != wanted:
        what = "the columns are not in the official order"
        findings.append(Finding("codes.column-order", what, where, ", ".join(present), expected, remedy))
    return findings
