"""The engine for more than one machine: Spark, behind the same verbs and with the same rows and bytes.

Spark answers a query into a private folder of Parquet files, in order; from there the rows go on as those of the local
engine do, through DuckDB, which reads them file by file. So a written file has the same types, and a query the same
answer, whichever engine made it. A text is turned into Parquet first, by the reader of the local engine: what a line of
a CSV is, both must say alike.

pyspark and Java are wanted only when an engine is opened.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from confide.confidential import Confidential
from confide.engines.local import LocalEngine
from confide.engines.protocol import (
    MAPPED,
    ROW_NUMBER,
    Advance,
    GroupFunction,
    Source,
    _map_one,
    bad_memory,
    counting,
    files_of_groups,
    identifier,
)
from confide.engines.spark_session import close_session, in_our_words, open_session, own_session, unknown_type
from confide.errors import Finding, ParameterError, RunError
from confide.file_system import destroy_file, private_folder, whole_file

# From the SQL that mechanisms write to Spark's: the few places where the dialects of DuckDB and Spark differ.
#
# Mechanisms write the common part of both dialects, quoted as DuckDB quotes. What is left to change is listed here,
# once:
#
# - ``"name"``: in backticks, since a quotation mark in Spark may be that of a text;
# - ``'text'``: a backslash is a character in DuckDB, and begins an escape in Spark;
# - ``VARCHAR``: ``STRING``, since Spark wants a length for the other; ``BIGINT[]``: ``ARRAY<BIGINT>``;
# - ``ORDER BY a``: ``ORDER BY a NULLS LAST``, which is what DuckDB does and Spark does not;
# - ``TRY_CAST(x AS DECIMAL(p, s))``: the rounding and the spellings of DuckDB, see :func:`_decimal`.
#
# One difference is left to whoever writes a query: a missing value ``IN (SELECT ...)`` is missing in DuckDB and false
# in Spark, outside of ``WHERE``. So it is asked for first, or ``coalesce``d.
#
# What is in neither (slices of lists, ``EXCLUDE``, ``unnest``) is refused, so that nobody finds out on a cluster.


_PIECE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[A-Za-z_]\w*|\s+|.""", re.DOTALL)
_REFUSED = {"EXCLUDE", "UNNEST", "REGEXP_FULL_MATCH", "QUALIFY", "ILIKE"}
_ENDS_OF_ORDER = {"LIMIT", "UNION", "ROWS", "RANGE", ";"}
_OPEN, _CLOSE = "(", ")"

_SPACE = r"[\t\n\x0b\f\r ]*"
_NUMBER = rf"\A{_SPACE}[+-]?[0-9_.]+([eE][+-]?[0-9_]+)?{_SPACE}\z"


def to_spark(text: str) -> str:
    """The same query in Spark's dialect. Raises a :class:`ParameterError` for what is known not to be there."""
    pieces = _PIECE.findall(text)
    return "".join(_translated(list(_nulls_last(pieces))))


def spark_identifier(name: str) -> str:
    """A quoted column name."""
    return "`" + name.replace("`", "``") + "`"


def spark_text(value: str) -> str:
    """A constant."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _translated(pieces: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        word = piece.upper()
        if piece[0] == "'":
            yield spark_text(piece[1:-1].replace("''", "'"))
        elif piece[0] == '"':
            yield spark_identifier(piece[1:-1].replace('""', '"'))
        elif word == "TRY_CAST":
            end = _closing(pieces, at)
            yield _try_cast(pieces[pieces.index(_OPEN, at) + 1 : end])
            at = end
        elif [*pieces[at + 1 : at + 3]] == ["[", "]"]:
            yield f"ARRAY<{_type(word)}>"
            at += 2
        elif word in _REFUSED or piece == "[" or [*pieces[at : at + 2]] == ["/", "/"]:
            raise ParameterError("spark-dialect/part", found=repr(piece[:20]))
        else:
            yield _type(piece)
        at += 1


def _type(word: str) -> str:
    return "STRING" if word.upper() == "VARCHAR" else word


def _closing(pieces: Sequence[str], at: int) -> int:
    """The place of the bracket that closes the first one after ``at``."""
    depth = 0
    for place in range(at, len(pieces)):
        depth += (pieces[place] == _OPEN) - (pieces[place] == _CLOSE)
        if pieces[place] == _CLOSE and depth == 0:
            return place
    raise ParameterError("spark-dialect/part")


def _try_cast(pieces: Sequence[str]) -> str:
    """``x AS type`` as a cast that gives NULL where there is no such value."""
    depth, split = 0, -1
    for place, piece in enumerate(pieces):
        depth += (piece == _OPEN) - (piece == _CLOSE)
        if depth == 0 and piece.upper() == "AS":
            split = place
    value = "".join(_translated(pieces[:split])).strip()
    kind = "".join(_translated(pieces[split + 1 :])).strip()
    decimal = re.fullmatch(r"DECIMAL\((\d+), *(\d+)\)", kind, re.IGNORECASE)
    return _decimal(value, int(decimal[1]), int(decimal[2])) if decimal else f"TRY_CAST({value} AS {kind})"


def _decimal(value: str, digits: int, scale: int) -> str:
    """A decimal number as DuckDB reads it, NULL where it reads none.

    A floating-point number is multiplied by the power of ten and the product rounded; Spark would round the shortest
    decimal that stands for the number, which may be a tie where the product is none. In a text, an underscore may part
    digits, and digits are those of ASCII.
    """
    target = f"DECIMAL({digits}, {scale})"
    scaled = f"TRY_CAST(round(TRY_CAST({value} AS DOUBLE) * {10**scale}D) AS BIGINT)"
    unit = "1" if scale == 0 else f"0.{'0' * (scale - 1)}1"
    floating = f"TRY_CAST(CAST({scaled} AS DECIMAL(20, 0)) * {unit}BD AS {target})"
    text = f"CAST({value} AS STRING)"
    plain = f"regexp_replace({text}, {spark_text('(?<=[0-9])_(?=[0-9])')}, '')"
    spelled = f"TRY_CAST(CASE WHEN {text} RLIKE {spark_text(_NUMBER)} THEN {plain} END AS {target})"
    return (
        f"CASE WHEN typeof({value}) IN ('double', 'float') THEN {floating} "
        f"WHEN typeof({value}) = 'string' THEN {spelled} ELSE TRY_CAST({value} AS {target}) END"
    )


def _nulls_last(pieces: Sequence[str]) -> Iterator[str]:
    """The pieces, with where missing values go said for every item of an ``ORDER BY``."""
    depth = 0
    ordering: list[int] = []  # the depths of the orders that are open
    said = False
    for at, piece in enumerate(pieces):
        word = piece.upper()
        ends = depth == (ordering[-1] if ordering else -1) and (piece in {",", _CLOSE} or word in _ENDS_OF_ORDER)
        if ends:
            if not said:
                yield " NULLS LAST "
            said = False
            if piece != ",":
                ordering.pop()
        depth += (piece == _OPEN) - (piece == _CLOSE)
        if word == "BY" and _word_before(pieces, at) == "ORDER":
            ordering.append(depth)
            said = False
        said = said or (word == "NULLS" and bool(ordering))
        yield piece
    if ordering and not said:
        yield " NULLS LAST"


def _word_before(pieces: Sequence[str], at: int) -> str:
    return next((piece.upper() for piece in reversed(pieces[:at]) if not piece.isspace()), "")


_WHOLE = r"\A[\t\n\f\r ]*[+-]?[0-9]{1,18}[\t\n\f\r ]*\z"
"""A whole number in a text, between what the local engine takes for space."""

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class SparkEngine:
    """Spark on this machine (``local[processes]``, the default), on the cluster of ``master``, or in a ``session``.

    ``scratch`` holds confidential rows and is 0700. On a cluster it, the run's folder and the inputs must be on a file
    system that every machine sees under the same path.
    """

    name = "spark"

    def __init__(
        self,
        scratch: Path,
        *,
        processes: int | None = None,
        memory: str = "4GiB",
        master: str | None = None,
        session: Any = None,
    ):
        self.processes = processes or os.cpu_count() or 1
        self._scratch = private_folder(scratch.absolute() / f"spark-{uuid.uuid4().hex}")
        self._given = session is not None
        self._texts: dict[tuple[object, ...], Path] = {}
        try:
            self._local = LocalEngine(self._scratch / "local", processes=self.processes, memory=memory)
            if session is not None:
                self._session = own_session(session)
            else:
                self._session = open_session(
                    self._scratch / "spills", processes=self.processes, memory=_bytes(memory), master=master
                )
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._local.__exit__(kind, error, trace)
        if not self._given:
            close_session(self._session)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def kinds(self, source: Source) -> dict[str, str]:
        return self._local.kinds(source)

    def sql(self, text: str, **sources: Source | Path) -> Confidential[pa.Table]:
        with self._answered(text, sources) as (columns, parts):
            return self._local.sql(f"SELECT {columns} FROM parts", parts=parts)

    def count_by(self, source: Source | Path, keys: Mapping[str, str], into: Path, *, where: str | None = None) -> None:
        self.write(counting("source" + (f" WHERE {where}" if where else ""), keys), into, source=source)

    def explode_count(self, source: Source | Path, listed: str, keys: Mapping[str, str], into: Path) -> None:
        # Under its own name, the elements take the place of the list.
        with self._views({"source": source}) as frames:
            names = [name for name in frames["source"].columns if name.lower() != listed.lower()]
        others = "".join(f", {identifier(name)}" for name in names)
        exploded = f"SELECT explode({identifier(listed)}) AS {identifier(listed)}{others} FROM source"
        self.write(counting(f"({exploded}) AS exploded", keys), into, source=source)

    def write(self, text: str, into: Path, *, rows_per_group: int | None = None, **sources: Source | Path) -> None:
        with self._answered(text, sources) as (columns, parts):
            self._local.write(f"SELECT {columns} FROM parts", into, rows_per_group=rows_per_group, parts=parts)

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
        return map_groups_on_spark(
            self._session.sparkContext, function, rows, key, groups, into, self._scratch, advance
        )

    def first_rows(self, source: Source, where: str, limit: int, **others: Source | Path) -> list[int]:
        text = f"SELECT {identifier(ROW_NUMBER)} AS n FROM numbered WHERE {where} ORDER BY 1 LIMIT {limit}"
        with self._answered(text, others, numbered=source) as (columns, parts):
            rows = self._local.sql(f"SELECT {columns} FROM parts", parts=parts)
        return [int(row) for row in rows.reveal("numbers of rows for a message").column("n").to_pylist()]

    def integer_text(self, column: str) -> str:
        return rf"TRY_CAST(CASE WHEN {column} RLIKE '{_WHOLE}' THEN {column} END AS BIGINT)"

    @contextmanager
    def _answered(
        self, text: str, sources: Mapping[str, Source | Path], numbered: Source | None = None
    ) -> Iterator[tuple[str, Path]]:
        """The rows of a query in a folder of ours, while they are taken out of it, and SQL for its columns.

        In the files columns have numbers for names, because a name may be any text.
        """
        query = to_spark(text)
        folder = self._scratch / f"answer-{uuid.uuid4().hex}"
        read = [*sources.values(), *([] if numbered is None else [numbered])]
        try:
            with self._views(sources, numbered):
                frame = in_our_words(self._session.sparkContext, lambda: self._session.sql(query), read)
                names = list(frame.columns)
                plain = frame.toDF(*(f"c{position}" for position in range(len(names))))
                in_our_words(self._session.sparkContext, lambda: plain.write.parquet(_uri(folder)), read)
            columns = ", ".join(f"c{position} AS {identifier(name)}" for position, name in enumerate(names))
            yield columns, folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _views(
        self, sources: Mapping[str, Source | Path], numbered: Source | None = None
    ) -> Iterator[Mapping[str, Any]]:
        """The sources under their names, for as long as a query is asked."""
        frames = {name: self._read(source) for name, source in sources.items()}
        if numbered is not None:
            frame = self._read(numbered)
            number = (frame.metadataColumn("_metadata").getField("row_index") + 1).alias(ROW_NUMBER)
            frames["numbered"] = frame.select(number, *(frame[spark_identifier(name)] for name in frame.columns))
        for name, frame in frames.items():
            frame.createOrReplaceTempView(spark_identifier(name))
        try:
            yield frames
        finally:
            for name in frames:
                self._session.catalog.dropTempView(name)

    def _read(self, source: Source | Path) -> Any:
        """A file, or a folder of files, as Spark sees it; nothing is read yet but the names and types of columns."""
        if isinstance(source, Source):
            files = [source.path if source.format == "parquet" else self._as_parquet(source)]
            self.kinds(source)  # says of a file that is no Parquet file what the local engine says
        else:
            files = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
        # Otherwise Spark takes brackets and stars in a name for a pattern.
        reader = self._session.read.option("__globPaths__", "false")
        try:
            return in_our_words(
                self._session.sparkContext,
                lambda: reader.parquet(*(_uri(self._seen(file)) for file in files)),
                [source],
            )
        except RunError:
            problem = unknown_type(source)
        raise problem

    def _seen(self, file: Path) -> Path:
        """The file under a name that Spark reads: it passes over those that begin with a dot or an underscore."""
        if not file.name.startswith(("_", ".")):
            return file
        link = private_folder(self._scratch / "links") / f"{uuid.uuid4().hex}.parquet"
        link.symlink_to(file.absolute())
        return link

    def _as_parquet(self, source: Source) -> Path:
        """A text as the local engine reads it, turned into Parquet once, and again when it has changed."""
        status = source.path.stat()
        layout = source.delimiter, source.quoted, source.encoding, source.sheet
        known = source.path, *layout, status.st_size, status.st_mtime_ns
        if known not in self._texts:
            into = self._scratch / f"text-{uuid.uuid4().hex}.parquet"
            self._local.write("SELECT * FROM rows", into, rows=source)
            self._texts[known] = into
        return self._texts[known]


def _uri(path: Path) -> str:
    return f"file:{path.absolute()}"


def _bytes(memory: str) -> int:
    """An amount of memory as the local engine takes it, in bytes."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(I?)B?\s*", memory.upper())
    if match is None:
        raise bad_memory(memory)
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** _POWERS[match[2]])


# Mapping a pure function over groups of rows on Spark.
#
# A task is one group. It reads its rows from the file, calls the function and writes the result, by the very code that
# a process of the local engine runs; so the bytes are the same, a second try of a task changes nothing, and no row
# passes through the driver. Every machine must see the run's folder under the same path.
#
# The function holds keys of noise streams. So it is never given to Spark, which would send it over the network and may
# keep it in memory, logs and files of its own: it lies in the run's scratch folder, for its owner alone, on the file
# system that has the key of the release and the records as well, and Spark gets the name of the file.


MOST_TASKS = 10_000

Outcome = bytes | None
"""None for a group that is done; or its error, pickled."""


class SparkPart:
    """What a task does with each of its groups: a function that Spark sends to where the task runs.

    It has the names of files and no content. The function to be mapped is unpickled after the path for modules has been
    taken over, as a spawned process would.
    """

    def __init__(self, function: str, rows: str, key: str):
        self.function, self.rows, self.key = function, rows, key
        self.modules = list(sys.path)

    def __call__(self, groups: Iterator[tuple[int, str]]) -> Iterator[Outcome]:
        sys.path += [folder for folder in self.modules if folder not in sys.path]
        function: GroupFunction = pickle.loads(Path(self.function).read_bytes())  # noqa: S301 - our own, in a private folder
        for group, file in groups:
            yield self._map(function, group, Path(file))

    def _map(self, function: GroupFunction, group: int, file: Path) -> Outcome:
        if file.exists():
            return None
        try:
            _map_one(function, Path(self.rows), self.key, group, file)
        except Exception as error:  # noqa: BLE001 - raised again by the driver, where the local engine would raise it
            return _pickled(error)
        return None


def map_groups_on_spark(
    context: Any,
    function: GroupFunction,
    rows: Path,
    key: str,
    groups: Sequence[int],
    into: Path,
    scratch: Path,
    advance: Advance | None = None,
) -> list[Path]:
    """See :meth:`confide.engines.protocol.Engine.map_groups`. ``scratch`` is a private folder that workers see."""
    files, missing = files_of_groups(groups, into)
    report = advance or (lambda _: None)
    report(len(groups) - len(missing))
    if missing:
        with _in_a_file(function, scratch) as file:
            part = SparkPart(str(file), str(rows.absolute()), key)
            _run(context, part, [(int(group), str(file.absolute())) for group, file in missing], rows, report)
    return files


@contextmanager
def _in_a_file(function: GroupFunction, scratch: Path) -> Iterator[Path]:
    """The function, pickled, in a file of ours for as long as it is mapped."""
    file = private_folder(scratch.absolute()) / f"{MAPPED}{uuid.uuid4().hex}"
    with whole_file(file) as temporary:
        temporary.write_bytes(pickle.dumps(function))
    try:
        yield file
    finally:
        destroy_file(file)


def _run(context: Any, part: SparkPart, missing: list[tuple[int, str]], rows: Path, report: Advance) -> None:
    """Runs the tasks, and tells of groups as Spark tells of tasks."""
    number = min(len(missing), MOST_TASKS)
    reported = 0

    def work() -> list[Outcome]:
        outcomes: list[Outcome] = context.parallelize(missing, number).mapPartitions(part).collect()
        return outcomes

    def look(jobs: str) -> None:
        nonlocal reported
        done = _tasks_done(context, jobs) * len(missing) // number
        if done > reported:
            report(done - reported)
            reported = done

    outcomes = in_our_words(context, work, [rows], look)
    for outcome in outcomes:
        if outcome is not None:
            raise pickle.loads(outcome)  # noqa: S301
    report(len(missing) - reported)


def _tasks_done(context: Any, jobs: str) -> int:
    """How many tasks of a group of jobs have ended."""
    tracker = context.statusTracker()
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(jobs))
    stages = [tracker.getStageInfo(stage) for info in infos if info is not None for stage in info.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


def _pickled(error: Exception) -> bytes:
    try:
        text = pickle.dumps(error)
        pickle.loads(text)  # noqa: S301
    except Exception:  # noqa: BLE001 - of an error that cannot travel its kind alone arrives
        finding = Finding.of("group-failed", found=type(error).__name__)
        return pickle.dumps(RunError(finding))
    return text
