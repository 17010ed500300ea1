"""The engine for one machine: DuckDB for scans and counts, a pool of processes for groups."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from confide.confidential import Confidential
from confide.engines import groups as pool
from confide.engines.expressions import identifier
from confide.engines.files import private_folder, whole_file
from confide.engines.protocol import Advance, GroupFunction
from confide.engines.source import Source
from confide.errors import Finding, InputError, Place, RunError

INTEGER_TYPES = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
}  # fmt: skip


class LocalEngine:
    """DuckDB within a memory limit, spilling into ``scratch`` (which holds confidential rows and is 0700)."""

    name = "local"

    def __init__(self, scratch: Path, *, processes: int | None = None, memory: str = "4GiB"):
        self.processes = processes or os.cpu_count() or 1
        self._scratch = private_folder(scratch)
        self._connection = duckdb.connect(
            config={
                "threads": self.processes,
                "memory_limit": memory,
                "temp_directory": str(self._scratch),
                "preserve_insertion_order": True,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def kinds(self, source: Source) -> dict[str, str]:
        with _readable(source):
            rows = self._connection.execute(f"DESCRIBE SELECT * FROM {_from(source)}").fetchall()
        return {name: _kind(str(type_)) for name, type_, *_ in rows}

    def sql(self, text: str, **sources: Source | Path) -> Confidential[pa.Table]:
        with _readable(*sources.values()):
            return Confidential(self._connection.sql(_with(text, sources)).to_arrow_table())

    def count_by(self, source: Source | Path, keys: Mapping[str, str], into: Path, *, where: str | None = None) -> None:
        self.write(_counting("source" + (f" WHERE {where}" if where else ""), keys), into, source=source)

    def explode_count(self, source: Source | Path, listed: str, keys: Mapping[str, str], into: Path) -> None:
        exploded = f"SELECT * REPLACE (unnest({identifier(listed)}) AS {identifier(listed)}) FROM source"
        self.write(_counting(f"({exploded}) AS exploded", keys), into, source=source)

    def write(self, text: str, into: Path, **sources: Source | Path) -> None:
        private_folder(into.parent)
        with whole_file(into) as temporary, _readable(*sources.values()):
            copy = f"COPY ({_with(text, sources)}) TO {_quoted(temporary)} (FORMAT parquet, COMPRESSION zstd)"
            self._connection.execute(copy)

    def map_groups(
        self,
        function: GroupFunction,
        rows: Path,
        key: str,
        groups: Sequence[int],
        into: Path,
        *,
        advance: Advance | None = None,
    ) -> list[Path]:
        return pool.map_groups(function, rows, key, groups, into, processes=self.processes, advance=advance)

    def first_rows(self, source: Source, where: str, limit: int, **others: Source | Path) -> list[int]:
        number = "file_row_number + 1" if source.format == "parquet" else "row_number() OVER ()"
        options = ", file_row_number = true" if source.format == "parquet" else ""
        numbered = f"SELECT *, {number} AS number FROM {_from(source, options)}"
        text = f"SELECT number FROM ({numbered}) WHERE {where} ORDER BY number LIMIT {limit}"
        with _readable(source):
            return [int(number) for (number,) in self._connection.execute(_with(text, others)).fetchall()]

    def integer_text(self, column: str) -> str:
        return (
            rf"TRY_CAST(CASE WHEN regexp_full_match({column}, '\s*[+-]?[0-9]{{1,18}}\s*') THEN {column} END AS BIGINT)"
        )


@contextmanager
def _readable(*sources: Source | Path) -> Iterator[None]:
    """Says what is wrong in our own words. DuckDB's may quote a value of the records, so they are not passed on."""
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise RunError(
            Finding(
                code="out-of-memory",
                what="the tabulation does not fit into the memory limit, and there is no room left for spilling",
                expected="room for intermediate results",
                remedy="free disk space in the run's folder, or raise --memory",
            )
        ) from None
    except duckdb.Error as error:
        if (room := _no_room(error)) is not None:
            raise room from None
        files = ", ".join(source.file if isinstance(source, Source) else source.name for source in sources)
        raise InputError(
            Finding(
                code="unreadable",
                what=f"the file cannot be read ({type(error).__name__})",
                where=Place(file=files),
                expected="a whole Parquet or CSV file in the declared layout",
                remedy="check that the file is complete and is what the spec says it is; write it again if need be",
            )
        ) from None


def _no_room(error: duckdb.Error) -> OSError | None:
    """DuckDB's error for a full disk as the operating system's."""
    full = isinstance(error, duckdb.IOException) and "No space left" in str(error)
    return OSError(errno.ENOSPC, "No space left on device") if full else None


def _counting(rows: str, keys: Mapping[str, str]) -> str:
    """Counts by position: GROUP BY ALL would make a constant key no key, and count zero rows as one group."""
    selected = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in keys.items())
    positions = ", ".join(str(position) for position in range(1, len(keys) + 1))
    return f"SELECT {selected}, count(*) AS n FROM {rows} GROUP BY {positions}"


def _kind(type_: str) -> str:
    if type_ in INTEGER_TYPES:
        return "integer"
    return "text" if type_.startswith(("VARCHAR", "ENUM")) else "other"


def _with(text: str, sources: Mapping[str, Source | Path]) -> str:
    views = ", ".join(f"{identifier(name)} AS (SELECT * FROM {_from(source)})" for name, source in sources.items())
    return f"WITH {views} {text}" if views else text


def _from(source: Source | Path, options: str = "") -> str:
    if isinstance(source, Path):
        return f"read_parquet({_quoted(source)}{options})"
    if source.format == "parquet":
        return f"read_parquet({_quoted(source.path)}{options})"
    delimiter = source.delimiter.replace("'", "''")
    return (
        f"read_csv({_quoted(source.path)}, header = true, all_varchar = true, delim = '{delimiter}', "
        "quote = '\"', escape = '\"', strict_mode = true, null_padding = false, auto_detect = false, "
        f"columns = {{{_csv_columns(source)}}})"
    )


def _csv_columns(source: Source) -> str:
    return ", ".join(f"'{name.replace(chr(39), chr(39) * 2)}': 'VARCHAR'" for name in csv_header(source))


def csv_header(source: Source) -> list[str]:
    """The column names in the first line of a CSV."""
    try:
        with source.path.open(encoding="utf-8-sig", newline="") as file:
            names = next(csv.reader(file, delimiter=source.delimiter), [])
    except UnicodeDecodeError:
        raise _bad_header(source, "the first line is not UTF-8 text", "a CSV in UTF-8") from None
    if not any(names):
        raise _bad_header(source, "the file is empty", "a first line with the column names")
    if len(set(names)) < len(names):
        raise _bad_header(source, "a column name stands twice in the first line", "names that differ")
    return names


def _bad_header(source: Source, what: str, expected: str) -> InputError:
    return InputError(
        Finding(
            code="csv-header",
            what=what,
            where=Place(file=source.file, line=1),
            expected=expected,
            remedy="write the file again in the declared layout",
        )
    )


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
