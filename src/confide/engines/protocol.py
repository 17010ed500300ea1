"""What a mechanism asks of an engine: a handful of verbs over SQL text and Arrow.

An engine on one machine and one on a cluster answer the same verbs with the same rows; ``tests/engines`` holds the
conformance tests that every engine passes. A mechanism never names an engine.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from confide.confidential import Confidential
from confide.errors import Finding, ParameterError, Place, RunError
from confide.file_system import private_folder, whole_file
from confide.lazy_names import keep_pandas_out
from confide.schema import AS_WRITTEN, NO_GROUP, Code, Query, Recode, Spelling

# Sources: files of rows with a declared layout. Nothing about a file is guessed from its content.


Format = Literal["parquet", "csv", "xlsx", "asc"]
UTF_8 = "utf-8"


@dataclass(frozen=True)
class Source:
    """A Parquet, CSV, Excel or tau-ARGUS file, and our names for its columns (``columns`` maps ours to theirs).

    A CSV is read as text, every column: a code keeps its leading zeros, and what is a number is said by the schema.
    So is a ``sheet`` of a workbook, the only one if none is named, and an .asc file, whose values are where the .rda
    file beside it says. Another ``encoding`` becomes UTF-8 first.
    Where it is not ``quoted`` there is no way to quote: a quotation mark is a character like any other, and a value
    holds neither delimiter nor line end.
    """

    path: Path
    format: Format
    columns: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ","
    quoted: bool = True
    encoding: str = UTF_8
    sheet: str | None = None
    spellings: Mapping[str, Spelling] = field(default_factory=dict)
    """How codes of places are spelled, by our name of the column; others are as the schema says."""
    name: str | None = None
    """The name in messages, where the file is one of ours that was made of another."""
    joined: Join | None = None
    """A second file with further columns for the rows of this one."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that its rows come from. Of records of tau-ARGUS (.asc), the file that says what is where in a
        line is one."""
        metadata = self.path.with_suffix(".rda")
        own = (self.path, metadata) if self.path.suffix.lower() == ".asc" and metadata.is_file() else (self.path,)
        return own if self.joined is None else (*own, *self.joined.other.files)

    @property
    def file(self) -> str:
        """The file's name for messages."""
        return self.name or self.path.name

    def theirs(self, name: str) -> str:
        """What the file calls our column ``name``."""
        return self.columns.get(name, name)

    def spelled(self, name: str) -> Spelling:
        """How the codes of our column ``name`` are spelled."""
        return self.spellings.get(name, AS_WRITTEN)


@dataclass(frozen=True)
class Join:
    """The rows of a second file; each row of the first has one of them at most: that with the same ``key``.

    So persons have the columns of their household, and households those of their householder: the one person of them
    that ``only`` picks, as a column of the second file (ours) and its value. ``named`` are columns of the second file
    that have our name in the joined table, pairs of ours and theirs; others keep the name that they have.
    """

    other: Source
    key: str
    only: tuple[str, str] | None = None
    named: tuple[tuple[str, str], ...] = ()


def format_of(path: Path) -> Format | None:
    """The format that a file's name announces, or None."""
    suffix = path.suffix.lower()
    if suffix in {".parquet", ".pq"}:
        return "parquet"
    if suffix in {".xlsx", ".xlsm"}:
        return "xlsx"
    if suffix == ".asc":
        return "asc"
    return "csv" if suffix in {".csv", ".txt", ".tsv", ".tab", ".dat"} else None


GroupFunction = Callable[[int, pa.Table], pa.Table]
"""A pure function from the number of a group and its rows to the rows that come of it. It must be picklable and must
not depend on anything but its arguments, so that a retry on another machine gives the same bytes."""

Advance = Callable[[int], None]
"""Called with the number of groups just finished."""


class Engine(Protocol):
    """Scans, counts and maps, out of core and in parallel."""

    name: str

    def kinds(self, source: Source) -> dict[str, str]:
        """The file's own column names, each with its kind: ``integer``, ``text`` or ``other``."""

    def sql(self, text: str, **sources: Source | Path) -> Confidential[pa.Table]:
        """The rows of a query whose ``FROM`` names the given sources. A path is a Parquet file or folder of ours."""

    def count_by(self, source: Source | Path, keys: Mapping[str, str], into: Path, *, where: str | None = None) -> None:
        """How many rows share each combination of ``keys`` (name to SQL expression), written to a Parquet file with
        the keys and ``n``."""

    def explode_count(self, source: Source | Path, listed: str, keys: Mapping[str, str], into: Path) -> None:
        """As :meth:`count_by`, after taking the list column ``listed`` apart: a row counts once for every element."""

    def write(self, text: str, into: Path, *, rows_per_group: int | None = None, **sources: Source | Path) -> None:
        """The rows of a query, written to one Parquet file in the order the query gives. ``rows_per_group`` is for rows
        with long lists: a reader holds a group of rows."""

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
        """``function`` on every group, one Parquet file each in ``into``, in the order of ``groups``.

        The groups are given, not found in the rows: a group without rows is mapped like any other. A file that is
        there already is left as it is, so that an interrupted map goes on where it stopped.
        """

    def first_rows(self, source: Source, where: str, limit: int, **others: Source | Path) -> list[int]:
        """The numbers, from one, of the first rows where ``where`` is true, for messages about records. The
        condition may look up ``others``."""

    def integer_text(self, column: str) -> str:
        """SQL for the whole number that a text column spells, NULL where it spells none."""


# SQL text for what a schema says, in the common part of the dialects of DuckDB and Spark.
ROW_NUMBER = "confide row number"
"""The name of the column with the number of a row in its file: no column of the records may be taken for it."""


def identifier(name: str) -> str:
    """A quoted column name."""
    return '"' + name.replace('"', '""') + '"'


def literal(code: Code) -> str:
    """A code as an SQL constant."""
    return str(code) if isinstance(code, int) else "'" + code.replace("'", "''") + "'"


def counting(rows: str, keys: Mapping[str, str]) -> str:
    """Counts of rows by keys, each an expression under its name.

    By position: with GROUP BY ALL, DuckDB would take a constant key for none, and count zero rows as one group.
    """
    selected = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in keys.items())
    positions = ", ".join(str(position) for position in range(1, len(keys) + 1))
    return f"SELECT {selected}, count(*) AS n FROM {rows} GROUP BY {positions}"


def group_index(recode: Recode, column: str) -> str:
    """The group of a record under ``recode``: 0.., ``NO_GROUP`` where the recode leaves its level out, or NULL where
    the code is none of the attribute's.

    Runs of consecutive whole numbers become ranges, so that age in single years stays a short text.
    """
    branches: list[tuple[int, list[Code]]] = []
    by_code = sorted(
        (level.code, int(group)) for level, group in zip(recode.attribute.levels, recode.assignment, strict=True)
    )
    if recode.attribute.is_integer and _shifts(by_code):
        first, last = int(by_code[0][0]), int(by_code[-1][0])
        return f"CASE WHEN {column} BETWEEN {first} AND {last} THEN {column} - {first} END"
    for group, members in groupby(by_code, key=lambda pair: pair[1]):
        branches.append((group, [code for code, _ in members]))
    whens = [f"WHEN {_test(column, codes)} THEN {group}" for group, codes in branches]
    return f"CASE {' '.join(whens)} END"


def cell_index(query: Query, columns: Mapping[str, str]) -> str:
    """The cell of a record in ``query``, in C order; NULL where a code is unknown, ``NO_GROUP`` where a recode leaves
    it out.

    Every factor is cast to BIGINT first: narrow integers would wrap without a word in some engines.
    """
    if not query.variables:
        return "CAST(0 AS BIGINT)"
    parts = [
        f"CAST({group_index(variable, columns[variable.attribute.name])} AS BIGINT)" for variable in query.variables
    ]
    index = parts[0]
    for size, part in zip(query.shape[1:], parts[1:], strict=True):
        index = f"({index}) * {size} + {part}"
    if query.is_complete:
        return index
    left_out = " OR ".join(f"{part} = {NO_GROUP}" for part in parts)
    return f"CASE WHEN {left_out} THEN {NO_GROUP} ELSE {index} END"


def _shifts(by_code: Sequence[tuple[Code, int]]) -> bool:
    """Whether the group is the code less the first code: consecutive codes, each its own group in order."""
    first = int(by_code[0][0])
    return all(int(code) - first == group == position for position, (code, group) in enumerate(by_code))


def _test(column: str, codes: Sequence[Code]) -> str:
    if isinstance(codes[0], int):
        integers = [int(code) for code in codes]
        if integers == list(range(integers[0], integers[-1] + 1)):
            return (
                f"{column} = {integers[0]}"
                if len(integers) == 1
                else f"{column} BETWEEN {integers[0]} AND {integers[-1]}"
            )
    return f"{column} IN ({', '.join(literal(code) for code in codes)})"


# What every engine reports alike: files that cannot be read, a full disk, an amount of memory that is none.


def unreadable(sources: Iterable[Source | Path], by: str, line: int | None = None) -> Finding:
    """Damage, or another layout, ``by`` the word of an engine; files of ours are named if there is none of the user."""
    listed = list(sources)
    of_the_user = [source.file for source in listed if isinstance(source, Source)]
    files = ", ".join(of_the_user or [path.name for path in listed if isinstance(path, Path)])
    return Finding.of("unreadable/file-read", where=Place(file=files, line=line), by=by)


def no_room(message: str) -> OSError | None:
    """An engine's error for a full disk as the operating system's; none for any other."""
    full = re.search("No space left|File too large", message)
    return OSError(errno.ENOSPC, "No space left on device") if full else None


def bad_memory(memory: str) -> ParameterError:
    """The error for an amount of memory that cannot be understood."""
    return ParameterError("memory", where=Place(path="--memory"), found=repr(memory[:40]))


# Mapping a pure function over groups of rows, in this process or in a pool of processes.


ORPHAN_CHECK_SECONDS = 0.5
MAPPED = "mapped-function-"
"""How the name of a file begins that holds a function to be mapped, and so keys of the noise that it draws."""


class Workers:
    """A pool of processes, begun when first asked for and kept: to begin one costs seconds, and a run maps often.

    While they begin, whoever asks can work: :meth:`begun` says when the first of them is ready.
    """

    def __init__(self, processes: int):
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self._begun: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pool(self) -> ProcessPoolExecutor:
        """The pool, of processes that are spawned, not forked: a fork would copy the threads' locks of DuckDB and Arrow
        in whatever state they are."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.processes, context, initializer=begin_work, initargs=(os.getpid(),))
        return self._pool

    def begun(self, function: GroupFunction) -> Future[None]:
        """Begins the processes where none have begun. Done when one of them has imported what the function needs.

        All begin here, as a pool begins one for each task while it has too few: one that begins while the pool finds
        out that another has died would be waited for without end.
        """
        if self._begun is None:
            pool = self.pool()
            with deaths_said(pool):
                self._begun, *_ = [pool.submit(_imported, function) for _ in range(self.processes)]
        return self._begun

    def close(self) -> None:
        """Ends the processes, after what each has at hand. Asked again, a new pool is begun."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = self._begun = None


def _imported(function: GroupFunction) -> None:
    """Nothing: a function that has come to a worker is imported there."""


def files_of_groups(groups: Sequence[int], into: Path) -> tuple[list[Path], list[tuple[int, Path]]]:
    """The file of every group in a private folder, and those of them that are still to be made, with their groups."""
    private_folder(into)
    files = [into / f"{group:08d}.parquet" for group in groups]
    return files, [(group, file) for group, file in zip(groups, files, strict=True) if not file.exists()]


def map_groups(
    function: GroupFunction,
    rows: Path,
    key: str,
    groups: Sequence[int],
    into: Path,
    *,
    workers: Workers,
    advance: Advance | None = None,
) -> list[Path]:
    """See :meth:`confide.engines.protocol.Engine.map_groups`."""
    files, missing = files_of_groups(groups, into)
    report = advance or (lambda _: None)
    report(len(groups) - len(missing))
    alone = workers.processes == 1 or len(missing) <= 1
    try:
        # This process works as well until the first of the others is ready: to begin them takes some seconds.
        begun = None if alone else workers.begun(function)
        while missing and (begun is None or not begun.done()):
            _map_one(function, rows, key, *missing.pop(0))
            report(1)
        if begun is not None and missing:
            begun.result()
            pool = workers.pool()
            for task in as_completed([pool.submit(_map_one, function, rows, key, *each) for each in missing]):
                task.result()
                report(1)
    except BrokenProcessPool:
        workers.close()
        raise worker_died() from None
    except BaseException:
        workers.close()
        raise
    return files


@contextmanager
def deaths_said(pool: ProcessPoolExecutor) -> Iterator[None]:
    """Raises ``BrokenProcessPool`` also where a process begins just as the pool finds out that another has died, and
    meets pipes that are closed, or whose numbers another pipe has by now (a ``ValueError``)."""
    try:
        yield
    except (OSError, ValueError):
        pool.submit(int)  # raises it where the pool is broken
        raise


def worker_died() -> RunError:
    return RunError("worker-died")


def _map_one(function: GroupFunction, rows: Path, key: str, group: int, file: Path) -> None:
    table = pq.read_table(rows, filters=[(key, "=", group)], use_threads=False)
    # Threads of a linear algebra library add up in another order, and so to other last digits.
    with threadpool_limits(1):
        result = function(group, table)
    write_parquet(result, file)


def write_parquet(table: pa.Table, file: Path, *, mode: int = 0o600) -> None:
    """A Parquet file whose bytes depend on the table alone."""
    with whole_file(file, mode=mode) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_statistics=True, row_group_size=1 << 20)


def begin_work(parent: int) -> None:
    """What every worker does first: it ends with its parent, and is light."""
    end_with_parent(parent)
    keep_pandas_out()


def end_with_parent(parent: int) -> None:
    """A worker whose parent was killed has nobody to work for; without this it would wait for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(ORPHAN_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# Worker processes that hold something large from the start.
#
# What a pool is given as arguments of its initializer is written to a pipe that the parent keeps open at both ends,
# so that a worker which dies before it reads leaves the parent waiting for ever. Here workers begin with nothing but
# a pipe to read from, one after the other; one that dies breaks the pool, which is noticed.


@contextmanager
def workers_with(large: Any, processes: int, hold: Callable[[Any], None]) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, in each of which ``hold`` was called with ``large``. Both can be pickled.

    Raises nothing of its own: a worker that dies makes the tasks of the pool raise ``BrokenProcessPool``.
    """
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    arguments = (os.getpid(), reader, context.Lock(), hold)
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=arguments)
    sender = Thread(target=_send, args=(writer, large, processes), daemon=True)
    sender.start()
    try:
        with deaths_said(pool):
            yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        reader.close()  # with the workers gone, the sender has nobody to wait for
        sender.join()
        writer.close()


def _send(writer: Any, large: Any, times: int) -> None:
    try:
        for _ in range(times):
            writer.send(large)
    except BrokenPipeError:
        return  # nobody is left who could read: the pool says why


def _begin(parent: int, reader: Any, one_at_a_time: Any, hold: Callable[[Any], None]) -> None:
    begin_work(parent)
    with one_at_a_time:
        large = reader.recv()
    hold(large)
