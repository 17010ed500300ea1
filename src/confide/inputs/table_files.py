"""Files of tables: CSV or Parquet, read as text, so that codes keep their leading zeros; and files of public margins.

From public margins, counts by some attributes or areas, made-up records are drawn. A CSV file with a column ``count``
and columns that are named as the schema and the frame name them: an attribute (codes or labels), a recode such as
``age:five-year`` (labels of groups), a level or kind of area (codes), or the column of the block (codes).
"""

from __future__ import annotations

import csv
import difflib
import os
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.errors import Finding, InputError, ParameterError, Place
from confide.file_system import whole_file
from confide.inputs.made_up import PublicMargin, RecordForm
from confide.schema import Recode

# Why a file of an attack cannot be read, in words: parsers quote the line they stumble over, which may be a record.


def why_unreadable(path: Path, error: Exception) -> str:
    """What is wrong with a file that Arrow, or the operating system, could not read."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError) and error.errno:
        return error.strerror or type(error).__name__
    if path.is_file() and not path.stat().st_size:
        return "an empty file"
    message = str(error)
    if "invalid UTF8" in message:
        return "bytes that are not UTF-8"
    if "Expected" in message and "columns" in message:
        row = re.search(r"Row #(\d+)", message)
        return "a row with more or fewer values than the first" + (f": line {int(row.group(1)):,}" if row else "")
    return "a file of another format, or a damaged one"


def read_text(path: Path) -> pa.Table:
    """A CSV or Parquet file, every column as text."""
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            _refuse_twice(path, table.column_names)
            return pa.table({name: _as_text(path, name, table.column(name)) for name in table.column_names})
        if path.suffix != ".csv":
            raise InputError("bad-table/file-read", where=Place(file=path.name))
        names = pyarrow.csv.open_csv(path).schema.names
        _refuse_twice(path, names)
        types = dict.fromkeys(names, pa.string())
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return pyarrow.csv.read_csv(path, convert_options=options)
    except (pa.ArrowException, OSError) as error:
        raise InputError("bad-table/header", where=Place(file=path.name), found=why_unreadable(path, error)) from None


def _as_text(path: Path, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise InputError(
            "column-type/text-numbers", where=Place(file=path.name, column=name), type=column.type
        ) from None


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    twice = [position for position, name in enumerate(names) if name in names[:position]]
    if twice:
        raise InputError("column-twice/two-columns-same", where=Place(file=path.name), twice=twice[0] + 1)


def read_records(path: str | Path) -> pa.Table:
    """Records from CSV or Parquet, with whole numbers as such and geocodes as text."""
    path = Path(path)
    if path.suffix == ".parquet":
        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                "bad-table/records", where=Place(file=path.name), found=why_unreadable(path, error)
            ) from None
        _refuse_twice(path, table.column_names)
        return table
    rows = read_text(path)
    columns = {}
    for name in rows.column_names:
        column = rows.column(name)
        integers = name != "geocode" and pc.all(pc.match_substring_regex(column, r"^[+-]?\d{1,18}$")).as_py()
        columns[name] = pc.cast(column, pa.int64()) if integers else column
    return pa.table(columns)


def refuse_unwritable(path: Path) -> None:
    """Refuses a name for a file that cannot be written, before the work is done that would fill it."""
    folder = next(place for place in path.absolute().parents if place.exists())
    if path.is_dir():
        found = "a folder of this name"
    elif not folder.is_dir():
        found = f"{folder.name}, which is a file and no folder"
    elif not os.access(folder, os.W_OK | os.X_OK):
        found = "a folder that cannot be written to"
    else:
        return
    raise _unwritable(path, found)


def _unwritable(path: Path, found: str) -> ParameterError:
    return ParameterError("unwritable/file", where=Place(file=path.name), found=found)


def write_file(table: pa.Table, path: Path, *, mode: int) -> None:
    """A table as CSV or Parquet, by the ending of the name; whole or not at all."""
    if path.suffix not in (".csv", ".parquet"):
        raise ParameterError("bad-ending", where=Place(file=path.name), suffix=path.suffix)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, mode=mode) as temporary:
            if path.suffix == ".csv":
                pyarrow.csv.write_csv(table, temporary)
            else:
                pq.write_table(table, temporary, compression="zstd")
    except OSError as error:
        raise _unwritable(path, error.strerror or type(error).__name__) from None


# Files of public margins: counts by some attributes or areas, from which made-up records are drawn.


COUNT = "count"
MOST_ROWS = 1_000_000
DELIMITERS = ",;\t|"


def read_margins(files: Sequence[Path], form: RecordForm) -> tuple[PublicMargin, ...]:
    """The margins of some files.

    Args:
        files: The files.
        form: What a record is made of.

    Returns:
        A margin for each file.

    Raises:
        InputError: With every finding: columns and codes that nobody knows, counts that are none, and two margins that
            speak of the same.
    """
    findings: list[Finding] = []
    margins = []
    for file in files:
        try:
            margins.append(_read(file, form))
        except InputError as error:
            findings += error.findings
    findings += [
        Finding.of("margins-overlap", where=Place(file=other.file), what=what, file=one.file, other_file=other.file)
        for one, other in combinations(margins, 2)
        for what in _shared(one, other)
    ]
    if findings:
        raise InputError(findings)
    return tuple(margins)


def _shared(one: PublicMargin, other: PublicMargin) -> Iterator[str]:
    if one.blocks is not None and other.blocks is not None:
        yield "areas"
    yield from (repr(name) for name in one.levels if name in other.levels)


def _read(file: Path, form: RecordForm) -> PublicMargin:
    header, rows = _rows(file)
    findings = list(_wrong_columns(file, header, form))
    if findings:
        raise InputError(findings)
    at = {name: place for place, name in enumerate(header)}
    counts: list[int] = []
    for number, row in enumerate(rows, start=1):
        text = row[at[COUNT]].strip().replace(" ", "") if len(row) == len(header) else ""
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise _wrong("margin/count", file, number, header=len(header))
        counts.append(int(text))
    if not sum(counts):
        raise _wrong("margin/counts-zero", file, rows=len(rows))
    blocks: list[Integers] | None = None
    levels: dict[str, list[Integers]] = {}
    for name in header:
        if name == COUNT:
            continue
        texts = [row[at[name]].strip() for row in rows]
        recode = form.recodes.get(name)
        if recode is not None:
            chosen = _looked_up(file, name, texts, _levels_of(recode))
            known = levels.get(recode.attribute.name)
            levels[recode.attribute.name] = chosen if known is None else _both(file, name, known, chosen)
        else:
            chosen = _looked_up(file, name, texts, _blocks_of(form, name))
            blocks = chosen if blocks is None else _both(file, name, blocks, chosen)
    return PublicMargin(file.name, np.array(counts, np.int64), blocks, levels)


def _rows(file: Path) -> tuple[list[str], list[list[str]]]:
    """The first line, and the others; the delimiter is the one that the first line has most of."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong("margin/read", file, error=getattr(error, "strerror", None)) from None
    first, _, _ = text.partition("\n")
    rows = [row for row in csv.reader(text.splitlines(), delimiter=max(DELIMITERS, key=first.count)) if row]
    if len(rows) < 2 or len(rows) > MOST_ROWS:
        raise _wrong("margin/rows", file, rows=len(rows), most_rows=MOST_ROWS)
    return [name.strip() for name in rows[0]], rows[1:]


def _wrong_columns(file: Path, header: Sequence[str], form: RecordForm) -> Iterator[Finding]:
    known = [*form.recodes, *form.areas, *([form.block] if form.block else [])]
    if COUNT not in header:
        yield _wrong("margin/file-margins-column", file, found=", ".join(header)).findings[0]
    for place, name in enumerate(header):
        if name != COUNT and (name not in known or name in header[:place]):
            close = difflib.get_close_matches(name, known, 1)
            yield Finding.of(
                "margin/column-schema-frame",
                where=Place(file=str(file), column=name),
                found=repr(name),
                known=", ".join(known),
                close=close[0] if close else None,
            )


def _levels_of(recode: Recode) -> dict[str, Integers]:
    """The levels of an attribute, by the label of each group of a recode and, of a group of one, by its code."""
    assigned = recode.assignment
    named: dict[str, Integers] = {}
    for number, group in enumerate(recode.groups):
        named[group.label] = np.flatnonzero(assigned == number)
    # A code wins over a label: labels may look like the codes of others.
    named |= {str(group.codes[0]): named[group.label] for group in recode.groups if len(group.codes) == 1}
    return named


def _blocks_of(form: RecordForm, name: str) -> dict[str, Integers]:
    """The blocks of every unit of a level, by its code."""
    if name == form.block:
        return {code: np.array([place]) for place, code in enumerate(form.blocks)}
    codes, unit_of_block = form.areas[name]
    order = np.argsort(unit_of_block, kind="stable")
    begins = np.searchsorted(unit_of_block[order], np.arange(len(codes) + 1))
    return {code: order[begins[unit] : begins[unit + 1]] for unit, code in enumerate(codes)}


def _looked_up(file: Path, name: str, texts: Sequence[str], known: dict[str, Integers]) -> list[Integers]:
    for number, text in enumerate(texts, start=1):
        if text not in known:
            some = ", ".join(list(known)[:5]) + (", ..." if len(known) > 5 else "")
            raise _wrong("margin/code", file, number, found=repr(text), column=name, some=some)
    return [known[text] for text in texts]


def _both(file: Path, name: str, one: Sequence[Integers], other: Sequence[Integers]) -> list[Integers]:
    """What two columns of one attribute, or of areas, leave together."""
    together = [np.intersect1d(a, b) for a, b in zip(one, other, strict=True)]
    for number, allowed in enumerate(together, start=1):
        if not len(allowed):
            raise _wrong("margin/two", file, number, name)
    return together


def _wrong(key: str, file: Path, row: int | None = None, column: str | None = None, **facts: Any) -> InputError:
    return InputError(key, where=Place(file=str(file), row=row, column=column), **facts)
