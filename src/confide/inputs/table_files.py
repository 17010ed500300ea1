"""Files of tables: CSV or Parquet, read as text, so that codes keep their leading zeros."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.engines.groups import whole_file
from confide.errors import InputError, ParameterError, Place

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
            raise _unreadable(path, "another ending", "a name that ends in .csv or .parquet")
        names = pyarrow.csv.open_csv(path).schema.names
        _refuse_twice(path, names)
        types = dict.fromkeys(names, pa.string())
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return pyarrow.csv.read_csv(path, convert_options=options)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(
            path, why_unreadable(path, error), "a CSV file with a header, in UTF-8, or a Parquet file"
        ) from None


def _as_text(path: Path, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise InputError(
            "column-type",
            "a column has neither text nor numbers",
            Place(file=path.name, column=name),
            f"a column of type {column.type}",
            "text or numbers",
            "write the column as text",
        ) from None


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    twice = [position for position, name in enumerate(names) if name in names[:position]]
    if twice:
        raise InputError(
            "column-twice",
            "two columns have the same name",
            Place(file=path.name),
            f"column {twice[0] + 1:,} is called as an earlier one",
            "a first line with the names of the columns, each once",
            "rename one of them, or add the line of names",
        )


def _unreadable(path: Path, found: str, expected: str) -> InputError:
    what = "the file cannot be read"
    return InputError("bad-table", what, Place(file=path.name), found, expected, "correct the file or its name")


def read_records(path: str | Path) -> pa.Table:
    """Records from CSV or Parquet, with whole numbers as such and geocodes as text."""
    path = Path(path)
    if path.suffix == ".parquet":
        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(path, why_unreadable(path, error), "a Parquet file of records") from None
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
    return ParameterError(
        "unwritable",
        "the file cannot be written",
        Place(file=path.name),
        found,
        "a name in a folder that can be written to",
        "choose another name",
    )


def write_file(table: pa.Table, path: Path, *, mode: int) -> None:
    """A table as CSV or Parquet, by the ending of the name; whole or not at all."""
    if path.suffix not in (".csv", ".parquet"):
        expected = "a name that ends in .csv or .parquet"
        raise ParameterError(
            "bad-ending",
            "the format of a file follows from its name",
            Place(file=path.name),
            path.suffix or "no ending",
            expected,
            "choose one of the two",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, mode=mode) as temporary:
            if path.suffix == ".csv":
                pyarrow.csv.write_csv(table, temporary)
            else:
                pq.write_table(table, temporary, compression="zstd")
    except OSError as error:
        raise _unwritable(path, error.strerror or type(error).__name__) from None
