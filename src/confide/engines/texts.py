"""Texts that offices have, made into the one text that engines read: a CSV in UTF-8.

A CSV in another encoding, a sheet of a workbook, and records of tau-ARGUS are written again in the scratch folder,
which is private; every value stays text. One finding says whatever cannot be read so, and names the key of the
spec to set: a wrong delimiter or encoding otherwise shows as many missing columns.
"""

from __future__ import annotations

import codecs
import csv
import re
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any

from confide.documents.argus import record_rows
from confide.engines.protocol import UTF_8, Source
from confide.errors import Finding, InputError, Place, RunError
from confide.file_system import private_folder, whole_file

# Sheets of Excel workbooks as rows of text, every value as a person sees it: a code keeps its leading zeros.


_ZEROS = re.compile(r"0{2,}")


def sheet_names(source: Source) -> list[str]:
    """The names of the sheets of a workbook that people see."""
    with _opened(source) as book:
        return [sheet.title for sheet in book.worksheets if sheet.sheet_state == "visible"]


def workbook_rows(source: Source) -> Iterator[list[str]]:
    """The rows of the sheet that a source names, or of the only one.

    The first row has the names of the columns. Columns right of the last name, and rows without any value, are none.

    Raises:
        InputError: if there is no such sheet, or several and none is named.
    """
    with _opened(source) as book:
        visible = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
        names = [sheet.title for sheet in visible]
        chosen = [sheet for sheet in visible if source.sheet in (None, sheet.title)]
        if len(chosen) != 1:
            raise InputError(_which_sheet(source, names))
        rows = ([_text(cell) for cell in row] for row in chosen[0].iter_rows())
        width = 0
        for row in rows:
            if not any(row):
                continue
            if not width:
                width = max(at for at, value in enumerate(row, start=1) if value)
            beyond = row[width:]
            if any(beyond):
                raise InputError(_beyond(source, width))
            yield (row + [""] * width)[:width]


def _opened(source: Source) -> Any:
    try:
        import openpyxl
    except ImportError:
        raise RunError("no-openpyxl", where=Place(file=source.file)) from None
    try:
        return _Closing(openpyxl.load_workbook(source.path, read_only=True, data_only=True))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError):
        bad = Finding.of("unreadable/workbook", where=Place(file=source.file))
    raise InputError(bad)


class _Closing:
    """A workbook that is closed when nobody looks at it any more."""

    def __init__(self, book: Any):
        self.book = book

    def __enter__(self) -> Any:
        return self.book

    def __exit__(self, *_: object) -> None:
        self.book.close()


def _text(cell: Any) -> str:
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and _ZEROS.fullmatch(cell.number_format or ""):
        return f"{value:0{len(cell.number_format)}d}"
    return str(value)


def _which_sheet(source: Source, names: list[str]) -> Finding:
    listed = ", ".join(repr(name) for name in names)
    if source.sheet is None:
        what, found = "the workbook has several sheets, and none is named", f"the sheets {listed}"
    else:
        what, found = f"the workbook has no sheet {source.sheet!r}", f"the sheets {listed}"
    return Finding.of("sheet", where=Place(file=source.file), found=found, what=what, name=names[0] if names else None)


def _beyond(source: Source, width: int) -> Finding:
    return Finding.of("csv-header/row", where=Place(file=source.file, line=1), width=width)


DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars", ",": "commas"}
"""What is between values, with its name in the plural; commas last, since they are in texts and numbers too."""

_LONGEST_LINE = 1 << 20
_CHUNK = 1 << 20
_LINES_ABOVE = 10
"""So many lines of titles may be above the names of columns to be noticed as such."""
_NO_NAME = re.compile(r"^[^\W\d_]?$|^[^a-z]*\d")
"""Texts that are hardly the name of a column: a single letter, or what has a digit before any letter."""
_KINDS = {
    b"PK\x03\x04": ("an Excel workbook or another zip archive", "give the file its own ending, .xlsx"),
    b"\xd0\xcf\x11\xe0": ("a workbook in Excel's old format", "save it as .xlsx, or as CSV in UTF-8"),
    b"PAR1": ("a Parquet file", "give the file its own ending, .parquet"),
    b"\x1f\x8b": ("a compressed file", "unpack it"),
}
"""How files begin that are no text, and what to do with them."""


def as_csv(source: Source, folder: Path, known: dict[tuple[object, ...], Path]) -> Source:
    """The same rows as a CSV in UTF-8, written to ``folder`` once and again when the file has changed.

    Args:
        source: A CSV in any encoding, or a sheet; a Parquet file and a CSV in UTF-8 are given back as they are.
        folder: A private folder.
        known: What was written before, by file and layout.

    Returns:
        A source that keeps the name of the file for messages.
    """
    if source.format == "parquet" or (source.format == "csv" and is_utf_8(source.encoding)):
        return source
    status = source.path.stat()
    key: tuple[object, ...] = source.path, source.encoding, source.sheet, status.st_size, status.st_mtime_ns
    if source.format == "asc" and (metadata := source.path.with_suffix(".rda")).is_file():
        key = (*key, metadata.stat().st_size, metadata.stat().st_mtime_ns)
    if key not in known:
        into = private_folder(folder) / f"text-{len(known)}.csv"
        with whole_file(into) as temporary:
            if source.format == "csv":
                _recode(source, temporary)
            else:
                with temporary.open("w", encoding=UTF_8, newline="") as file:
                    rows = workbook_rows(source) if source.format == "xlsx" else _argus_rows(source)
                    csv.writer(file, lineterminator="\n").writerows(rows)
        known[key] = into
    delimiter = source.delimiter if source.format == "csv" else ","
    quoted = source.quoted or source.format != "csv"
    return replace(
        source, path=known[key], format="csv", encoding=UTF_8, delimiter=delimiter, quoted=quoted, name=source.file
    )


def _argus_rows(source: Source) -> Iterator[list[str]]:
    """The records of an .asc file."""
    bad = False
    try:
        yield from record_rows(source.path, source.encoding)
    except UnicodeError:
        bad = True
    if bad:  # after the error is gone, which holds bytes of the records
        raise InputError(_bad_encoding(source, guess_encoding(source.path)))


def is_utf_8(encoding: str) -> bool:
    """Whether this is a name of UTF-8, with its mark or without."""
    return codecs.lookup(encoding).name in {"utf-8", "utf-8-sig"}


def _recode(source: Source, into: Path) -> None:
    bad = False
    with source.path.open(encoding=source.encoding, newline="") as text, into.open("wb") as file:
        try:
            while chunk := text.read(_CHUNK):
                file.write(chunk.encode())
        except UnicodeError:
            bad = True
    if bad:  # after the error is gone, which holds bytes of the records
        raise InputError(_bad_encoding(source, guess_encoding(source.path)))


def guess_encoding(path: Path) -> str:
    """The encoding of a text, as far as bytes tell it: UTF-8, UTF-16, or what Windows wrote in Western Europe.

    Bytes that are no UTF-8 are taken for Windows-1252, which has all letters of Latin-1; of the encodings of one byte
    none can be told from the others by a program, so whoever reads the guess has to look at the letters.
    """
    with path.open("rb") as file:
        start = file.read(1 << 16)
    for mark, name in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", UTF_8)):
        if start.startswith(mark):
            return name
    nothing = [start[0::2].count(0), start[1::2].count(0)]
    if max(nothing) > len(start) // 8:
        return "utf-16-be" if nothing[0] > nothing[1] else "utf-16-le"
    if decodes(path, UTF_8):
        return UTF_8
    return "windows-1252" if decodes(path, "windows-1252") else "latin-1"


def decodes(path: Path, encoding: str) -> bool:
    """Whether all of a file is text in an encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with path.open("rb") as file:
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def encoding_findings(sources: Iterator[Source]) -> Iterator[Finding]:
    """A finding for each file that is not in the encoding it was read in."""
    for source in sources:
        if source.format == "csv" and is_utf_8(source.encoding):
            guess = guess_encoding(source.path)
            if guess != UTF_8:
                yield _bad_encoding(source, guess)


def _bad_encoding(source: Source, guess: str) -> Finding:
    return Finding.of(
        "encoding/file",
        where=Place(file=source.file),
        encoding=None if is_utf_8(source.encoding) else source.encoding,
        other_encoding=is_utf_8(source.encoding),
        guess=guess,
        is_another=("another" if guess == source.encoding else guess) == "another",
        is_another_remedy=("another" if guess == source.encoding else guess) != "another",
    )


def column_names(line: str, delimiter: str, *, quoted: bool = True) -> list[str]:
    """The values of the first line of a CSV. Raises :class:`csv.Error` for what is no line."""
    if not quoted:
        return line.split(delimiter)
    return next(csv.reader([line], delimiter=delimiter, strict=True), [])


def other_delimiter(line: str, delimiter: str) -> str | None:
    """The character that parts the values of a line in which ``delimiter`` parts nothing, if there is one.

    >>> other_delimiter("sex;age;mun", ",")
    ';'
    """
    counts = {each: line.count(each) for each in DELIMITERS if each != delimiter}
    most = max(counts, key=lambda each: counts[each])
    return most if counts[most] else None


def uneven_row(source: Source, line: int) -> Finding | None:
    """The finding for a line of a CSV that has more or fewer values than its first line; none if it has as many."""
    try:
        with source.path.open(encoding="utf-8-sig", newline=None) as file:
            text = next(islice(file, line - 1, line), "").rstrip("\n")
        values = len(column_names(text, source.delimiter, quoted=source.quoted))
        columns = len(csv_header(source))
    except (OSError, ValueError, csv.Error, InputError):
        return None  # something else is wrong with it
    if values == columns:
        return None
    return Finding.of(
        "unreadable/row",
        where=Place(file=source.file, line=line),
        more=values > columns,
        values=values,
        columns=columns,
    )


def csv_header(source: Source) -> list[str]:
    """The column names in the first line of a CSV."""
    start = b""
    try:
        with source.path.open("rb") as file:
            start = file.read(_LONGEST_LINE)
        other = next((of for mark, of in _KINDS.items() if start.startswith(mark)), None)
        if other is not None:
            raise _bad_header(source, "the file is not a text file", other[0], "a CSV", other[1])
        if b"\0" in start[:1000]:
            raise InputError(_bad_encoding(source, guess_encoding(source.path)))
        first = re.split(rb"[\r\n]", start, maxsplit=1)[0].decode("utf-8-sig")
        names = column_names(first, source.delimiter, quoted=source.quoted)
    except UnicodeDecodeError:
        guess = guess_encoding(source.path)
        problem = None
    except csv.Error:
        problem = "the first line is not valid CSV", "a line that cannot be split into values", "a CSV in UTF-8"
    except OSError as error:
        problem = "the file cannot be read", error.strerror or type(error).__name__, "a file that may be read"
    else:
        instead = other_delimiter(first, source.delimiter) if len(names) == 1 else None
        if instead is not None:
            raise InputError(wrong_delimiter(source, instead))
        if not any(names):
            problem = "the file is empty", "no column names", "a first line with the column names"
            if first or start.strip():
                problem = "the first line has no column names", "an empty line", problem[2]
        elif "" in names:
            problem = "a column has no name", f"column {names.index('') + 1} without a name", "a name for every column"
        elif len({name.lower() for name in names}) < len(names):
            problem = "two columns have the same name", "the same name twice", "a different name for each column"
        else:
            return names
    # The first line of a CSV without names is a record: nothing of it is shown, and no context holds it.
    if problem is None:
        raise InputError(_bad_encoding(source, guess))
    line = _line_of_names(start, source.delimiter)
    if line is None:
        raise _bad_header(source, *problem)
    remedy = f"line {line} looks like the column names; if so, remove the lines above it"
    raise _bad_header(source, *problem, remedy)


def _line_of_names(start: bytes, delimiter: str) -> int | None:
    """The line after the first that could be the names of columns: no value of it is empty, a number or there twice,
    and a later line has as many values. A guess, for a remedy."""
    lines = start.decode(errors="replace").splitlines()[: _LINES_ABOVE + 2]
    parts = [[text.strip(' "').lower() for text in line.split(delimiter)] for line in lines]
    for at, names in enumerate(parts[1:-1], start=1):
        are_names = all(names) and len(set(names)) == len(names) > 1 and not any(map(_NO_NAME.search, names))
        if are_names and any(len(below) == len(names) for below in parts[at + 1 :]):
            return at + 1
    return None


def misread_header(source: Source, wanted: Collection[str], present: Collection[str]) -> Finding | None:
    """One finding in place of a missing column each, where the first line was read in a wrong way, or is none of names.

    Args:
        source: A file that lacks some columns.
        wanted: What the file should call them, those that are there with them.
        present: What it calls its columns, as it was read.
    """
    if source.format != "csv" or not wanted:
        return None
    with source.path.open(encoding=source.encoding, errors="replace") as file:
        lines = [file.readline(_LONGEST_LINE).strip("\ufeff\r\n") for _ in range(_LINES_ABOVE + 1)]
    line = lines[0]
    below = [at for at, text in enumerate(lines[1:], start=2) if _has_names(text, source.delimiter, wanted)]
    if below:
        return Finding.of(
            "csv-header/column-line-instead",
            where=Place(file=source.file, line=below[0]),
            below=below[0],
            below_found=below[0] - 1,
        )
    for delimiter in DELIMITERS:
        if delimiter != source.delimiter and _has_names(line, delimiter, wanted):
            return wrong_delimiter(source, delimiter)
    if not any(name in present for name in wanted) and any(re.fullmatch(r"[\d.,+-]+", name) for name in present):
        return Finding.of(
            "csv-header/first-line-holds",
            where=Place(file=source.file, line=1),
            present=len(present),
            wanted=", ".join(wanted),
        )
    return None


def _has_names(line: str, delimiter: str, wanted: Collection[str]) -> bool:
    names = [name.strip('"') for name in line.split(delimiter)]
    return all(name in names for name in wanted)


def wrong_delimiter(source: Source, instead: str) -> Finding:
    """The finding for a file whose values are parted by another character than the spec says."""
    return Finding.of(
        "wrong-delimiter",
        where=Place(file=source.file, line=1),
        delimiter=DELIMITERS[instead],
        source_delimiter=source.delimiter,
        instead=instead,
        is_x=instead == "\t",
    )


def _bad_header(
    source: Source,
    what: str,
    found: str,
    expected: str,
    remedy: str = "give each column its own name in the first line, without a title above it and without merged cells",
) -> InputError:
    return InputError(
        "csv-header/other",
        where=Place(file=source.file, line=1),
        found=found,
        what=what,
        expected=expected,
        remedy=remedy,
    )
