"""Files of tables: CSV or Parquet, read as text, so that codes keep their leading zeros."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.engines.files import whole_file
from confide.errors import Finding, InputError, ParameterError, Place


def read_text(path: Path) -> pa.Table:
    """A CSV or Parquet file, every column as text."""
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            return pa.table({name: table.column(name).cast(pa.string()) for name in table.column_names})
        if path.suffix != ".csv":
            raise _unreadable(path, "another ending", "a name that ends in .csv or .parquet")
        names = pyarrow.csv.open_csv(path).schema.names
        types = dict.fromkeys(names, pa.string())
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return pyarrow.csv.read_csv(path, convert_options=options)
    except (pa.ArrowException, OSError) as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else "another content"
        raise _unreadable(path, found, "a CSV file with a header, or a Parquet file") from None


def _unreadable(path: Path, found: str, expected: str) -> InputError:
    what = "a table cannot be read"
    return InputError(
        Finding("bad-table", what, Place(file=path.name), found, expected, "correct the file or its name")
    )


def read_records(path: str | Path) -> pa.Table:
    """Records from CSV or Parquet, with whole numbers as such and geocodes as text."""
    path = Path(path)
    if path.suffix == ".parquet":
        try:
            return pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            found = "no such file" if isinstance(error, FileNotFoundError) else "another content"
            raise _unreadable(path, found, "a Parquet file of records") from None
    rows = read_text(path)
    columns = {}
    for name in rows.column_names:
        column = rows.column(name)
        whole = name != "geocode" and pc.all(pc.match_substring_regex(column, r"^[+-]?\d{1,18}$")).as_py()
        columns[name] = pc.cast(column, pa.int64()) if whole else column
    return pa.table(columns)


def write_file(table: pa.Table, path: Path, *, mode: int) -> None:
    """A table as CSV or Parquet, by the ending of the name; whole or not at all."""
    if path.suffix not in (".csv", ".parquet"):
        expected = "a name that ends in .csv or .parquet"
        raise ParameterError(
            Finding(
                "bad-ending",
                "the format of a file follows from its name",
                Place(file=path.name),
                path.suffix or "no ending",
                expected,
                "choose one of the two",
            )
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, mode=mode) as temporary:
        if path.suffix == ".csv":
            pyarrow.csv.write_csv(table, temporary)
        else:
            pq.write_table(table, temporary, compression="zstd")
