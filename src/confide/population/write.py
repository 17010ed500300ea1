"""Writing a made-up population to ``persons.parquet`` and ``blocks.parquet``.

One pass over the units of work; memory is that of a row group. The files appear under their names only when both are
complete. The same population gives the same bytes with the same versions of numpy and pyarrow.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

from confide.errors import Finding, Place, RunError
from confide.population.frame import BLOCKS_SCHEMA
from confide.population.generate import Population
from confide.population.records import PERSONS_SCHEMA

PERSONS_PER_ROW_GROUP = 500_000
BLOCKS_PER_ROW_GROUP = 100_000


class Progress(Protocol):
    """A display that can show one stage; a run's progress display is one."""

    def stage(self, title: str, steps: int) -> AbstractContextManager[Callable[[int], None]]:
        """Begins a stage of ``steps`` persons; the function given reports persons done since the last report."""


class PopulationFiles(NamedTuple):
    """Where a population was written."""

    persons: Path
    blocks: Path


def write_population(population: Population, folder: str | Path, progress: Progress | None = None) -> PopulationFiles:
    """Write both files into ``folder``, which is made if it is not there; files of these names are replaced."""
    folder = Path(folder)
    target = PopulationFiles(folder / "persons.parquet", folder / "blocks.parquet")
    metadata = population.metadata()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            _RowGroups(target.persons, PERSONS_SCHEMA, PERSONS_PER_ROW_GROUP, metadata, "household_id") as persons,
            _RowGroups(target.blocks, BLOCKS_SCHEMA, BLOCKS_PER_ROW_GROUP, metadata, "geocode") as blocks,
            _stage(progress, population.persons) as advance,
        ):
            for unit in population.units:
                of_blocks, of_persons = population.unit(unit)
                blocks.add(of_blocks)
                persons.add(of_persons)
                advance(of_persons.num_rows)
            # Both are on the disk before the first gets its name.
            persons.finish()
            blocks.finish()
            persons.publish()
            blocks.publish()
    except OSError as error:
        raise cannot_write(folder, error, 3) from error
    return target


def cannot_write(folder: Path, error: OSError, bytes_a_person: int) -> RunError:
    """The error for made-up people that find no room, or a closed folder."""
    return RunError(
        Finding(
            code="cannot-write-population",
            what="the made-up people cannot be written",
            where=Place(file=str(folder)),
            found=error.strerror or str(error),
            expected=f"a folder that can be written to, with room for some {bytes_a_person} bytes a person",
            remedy="choose another folder or make room; nothing was left behind",
        )
    )


def _stage(progress: Progress | None, persons: int) -> AbstractContextManager[Callable[[int], None]]:
    if progress is None:
        return nullcontext(lambda _: None)
    return progress.stage("Making up people", persons)


class _RowGroups:
    """A Parquet file under a temporary name, written in row groups of about the same size whatever the batches are."""

    def __init__(self, path: Path, schema: pa.Schema, rows: int, metadata: dict[str, str], rising: str):
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._rows = rows
        self._waiting: list[pa.RecordBatch] = []
        self._count = 0
        names = [name for name in schema.names if name != rising]
        self._options: dict[str, Any] = {
            "compression": "zstd",
            "compression_level": 3,
            # Readers get the plain types of the file, text among them, and not how Arrow held them here.
            "store_schema": False,
            # A rising column of mostly distinct values packs as differences, the others as dictionaries.
            "use_dictionary": names,
            "column_encoding": {rising: "DELTA_BINARY_PACKED" if rising == "household_id" else "DELTA_BYTE_ARRAY"},
        }
        self._schema = schema
        self._metadata = metadata
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        try:
            self._writer = pq.ParquetWriter(self._part, self._schema, **self._options)
        except BaseException:
            self._part.unlink(missing_ok=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            try:
                self._writer.close()
            except (OSError, pa.ArrowException):
                if kind is None:
                    raise
        self._part.unlink(missing_ok=True)

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._count += batch.num_rows
        if self._count >= self._rows:
            self._flush()

    def _flush(self) -> None:
        if self._waiting and self._writer is not None:
            table = pa.Table.from_batches(self._waiting, schema=self._schema).unify_dictionaries().combine_chunks()
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            self._waiting, self._count = [], 0

    def finish(self) -> None:
        """Write what is waiting and bring the file to the disk."""
        self._flush()
        if self._writer is not None:
            self._writer.add_key_value_metadata(self._metadata)
            self._writer.close()
            self._writer = None
        with self._part.open("rb") as file:
            os.fsync(file.fileno())

    def publish(self) -> None:
        """Give the file its name."""
        self._part.replace(self._path)
