"""The engine for more than one machine: Spark, behind the same verbs and with the same rows and bytes.

Spark answers a query into a private folder of Parquet files, in order; from there the rows go on as those of the local
engine do, through DuckDB, which reads them file by file. So a written file has the same types, and a query the same
answer, whichever engine made it. A text is turned into Parquet first, by the reader of the local engine: what a line of
a CSV is, both must say alike.

pyspark and Java are wanted only when an engine is opened.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from confide.confidential import Confidential
from confide.engines.dialect import spark_identifier, to_spark
from confide.engines.expressions import ROW_NUMBER, counting, identifier
from confide.engines.files import private_folder
from confide.engines.local import LocalEngine
from confide.engines.protocol import Advance, GroupFunction
from confide.engines.source import Source
from confide.engines.spark_errors import in_our_words, unknown_type
from confide.engines.spark_groups import map_groups_on_spark
from confide.engines.spark_session import close_session, open_session, own_session
from confide.engines.troubles import bad_memory
from confide.errors import RunError

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
        self._texts: dict[tuple[Path, str, bool, int, int], Path] = {}
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
        return map_groups_on_spark(self._session.sparkContext, function, rows, key, groups, into, advance)

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
                frame = in_our_words(lambda: self._session.sql(query), read)
                names = list(frame.columns)
                plain = frame.toDF(*(f"c{position}" for position in range(len(names))))
                in_our_words(lambda: plain.write.parquet(_uri(folder)), read)
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
            self.kinds(source)  # a file that is no Parquet file at all is told as the local engine tells it
        else:
            files = sorted(source.glob("*.parquet")) if source.is_dir() else [source]
        # Otherwise Spark takes brackets and stars in a name for a pattern.
        reader = self._session.read.option("__globPaths__", "false")
        try:
            return in_our_words(lambda: reader.parquet(*(_uri(self._seen(file)) for file in files)), [source])
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
        known = source.path, source.delimiter, source.quoted, status.st_size, status.st_mtime_ns
        if known not in self._texts:
            into = self._scratch / f"text-{uuid.uuid4().hex}.parquet"
            self._local.write("SELECT * FROM rows", into, rows=source)
            self._texts[known] = into
        return self._texts[known]


def _uri(path: Path) -> str:
    return f"file:{path.absolute()}"


def _bytes(memory: str) -> int:
    """An amount of memory as the local engine takes it, in bytes."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(I?)B?\s*", memory.upper())
    if found is None:
        raise bad_memory(memory)
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** _POWERS[found[2]])
