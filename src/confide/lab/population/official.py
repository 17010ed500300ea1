"""Made-up people in the official layout of SafeTab-P: the folders ``parameters/`` and ``data/``.

``parameters/`` has ``config.json`` and the four code files, ``data/`` the person records and the geography (GRF-C), one
row for each block. Made-up states have codes that no real state has, which SafeTab-P refuses: here they take those of
real states in the order of the settings, the first 01. Reference: SafeTab-P 5.0.0, its parameter and input files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from confide.errors import ParameterError
from confide.lab.population.detailed import ETHNICITY_COLUMN, RACE_COLUMNS, DetailedOrigins, UnitWithOrigins
from confide.lab.population.generate import Population, cannot_write
from confide.lab.population.household_members import HOUSEHOLDER
from confide.lab.population.origins import SUBSETS, Config, code_files
from confide.releases.workspace import Progress

Format = Literal["text", "parquet"]

BLOCK_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
PERSON_COLUMNS = ("QAGE", "QSEX", "HOUSEHOLDER", *BLOCK_COLUMNS, "CENRACE", *RACE_COLUMNS, ETHNICITY_COLUMN)


def _schema(names: tuple[str, ...]) -> pa.Schema:
    kinds = {"QAGE": pa.int32()}
    return pa.schema([pa.field(name, kinds.get(name, pa.string()), nullable=False) for name in names])


PERSONS_SCHEMA = _schema(PERSON_COLUMNS)
GEOGRAPHY_SCHEMA = _schema((*BLOCK_COLUMNS, "PLACEFP", "AIANNHCE"))


class OfficialFiles(NamedTuple):
    """The two folders that SafeTab-P is given."""

    parameters: Path
    data: Path


def write_official(
    population: Population,
    folder: str | Path,
    *,
    format: Format = "text",  # noqa: A002  the word that a reader of the call expects
    progress: Progress | None = None,
) -> OfficialFiles:
    """Write both folders into ``folder``; files of the same names are replaced once all of them are complete."""
    folder = Path(folder)
    target = OfficialFiles(folder / "parameters", folder / "data")
    origins = DetailedOrigins(population)
    states = _States(population, origins.lists.config)
    try:
        for each in target:
            each.mkdir(parents=True, exist_ok=True)
        with _Parts() as parts:
            _write_data(origins, population, states, parts, target.data, format, progress)
            for name, text in code_files(origins.lists).items():
                parts.new(target.parameters / name).write_text(text, encoding="utf-8", newline="\n")
            config = render_json(origins.lists.config.entries(states.used))
            parts.new(target.parameters / "config.json").write_text(config + "\n", encoding="utf-8", newline="\n")
            parts.publish()
    except OSError as error:
        raise cannot_write(folder, error, 90) from error
    return target


def _write_data(
    origins: DetailedOrigins,
    population: Population,
    states: _States,
    parts: _Parts,
    folder: Path,
    form: Format,
    progress: Progress | None,
) -> None:
    kind, suffix = (_Text, "txt") if form == "text" else (_Parquet, "parquet")
    metadata = population.metadata()
    with (
        kind(parts.new(folder / f"person-records.{suffix}"), PERSONS_SCHEMA, metadata) as persons,
        kind(parts.new(folder / f"GRF-C.{suffix}"), GEOGRAPHY_SCHEMA, metadata) as blocks,
        _stage(progress, population.persons) as advance,
    ):
        for unit in origins.units():
            of_blocks = _geography(unit.blocks, states)
            blocks.add(of_blocks)
            persons.add(_persons(unit, of_blocks))
            advance(unit.persons.num_rows)


class _States:
    """Codes of real states for the made-up ones, in the order of the settings; remembers those that occurred."""

    def __init__(self, population: Population, config: Config):
        self._first = population.settings.spine.first_state
        self._codes = config.states
        self._used: set[str] = set()

    @property
    def used(self) -> list[str]:
        return sorted(self._used)

    def official(self, codes: pa.Array) -> pa.Array:
        """The codes of a column of made-up ones."""
        encoded = codes.dictionary_encode()
        places = [int(code) - self._first for code in encoded.dictionary.to_pylist()]
        if max(places) >= len(self._codes):
            raise ParameterError("too-many-states", codes=len(self._codes))
        named = [self._codes[place] for place in places]
        self._used.update(named)
        return pa.array(named).take(encoded.indices)


def _geography(blocks: pa.RecordBatch, states: _States) -> pa.RecordBatch:
    """Blocks as rows of GRF-C."""
    geocode = blocks.column("geocode")
    below = [pc.utf8_slice_codeunits(geocode, *ends) for ends in ((2, 5), (5, 11), (11, 15))]
    return pa.RecordBatch.from_arrays(
        [states.official(blocks.column("state")), *below, blocks.column("place"), blocks.column("aiannh")],
        schema=GEOGRAPHY_SCHEMA,
    )


def _persons(unit: UnitWithOrigins, geography: pa.RecordBatch) -> pa.RecordBatch:
    """Records with their codes as rows of person-records."""
    persons = unit.persons
    householder = pc.equal(persons.column("relationship"), HOUSEHOLDER)
    block = persons.column("geocode").indices
    return pa.RecordBatch.from_arrays(
        [
            persons.column("age").cast(pa.int32()),
            _SEXES.take(persons.column("sex")),
            pc.if_else(householder, "True", "False"),
            *(geography.column(name).take(block) for name in BLOCK_COLUMNS),
            _CENRACES.take(persons.column("cenrace")),
            *(column.dictionary.take(column.indices) for column in unit.origins.columns),
        ],
        schema=PERSONS_SCHEMA,
    )


_SEXES = pa.array(["", "1", "2"])
_CENRACES = pa.array([f"{code + 1:02d}" for code in range(len(SUBSETS))])


class _Parts:
    """Files under temporary names, which get their own when all are complete and otherwise disappear."""

    def __init__(self) -> None:
        self._targets: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in self._targets:
            part.unlink(missing_ok=True)

    def new(self, target: Path) -> Path:
        """The temporary name of ``target``."""
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        self._targets[part] = target
        return part

    def publish(self) -> None:
        """Bring every file to the disk, then give each its name."""
        for part in self._targets:
            with part.open("rb") as file:
                os.fsync(file.fileno())
        for part, target in self._targets.items():
            part.replace(target)


class _Text:
    """A file of text with ``|`` between values, a header and no quotes."""

    def __init__(self, path: Path, schema: pa.Schema, _metadata: dict[str, str]):
        self._path, self._schema = path, schema

    def __enter__(self) -> Self:
        self._file = self._path.open("wb")
        self._file.write(("|".join(self._schema.names) + "\n").encode())
        options = csv.WriteOptions(include_header=False, delimiter="|", quoting_style="none", batch_size=16_384)
        self._writer = csv.CSVWriter(self._file, self._schema, write_options=options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._writer.close()
        finally:
            self._file.close()

    def add(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)


class _Parquet:
    """The same values as Parquet."""

    def __init__(self, path: Path, schema: pa.Schema, metadata: dict[str, str]):
        self._writer = pq.ParquetWriter(path, schema.with_metadata(metadata), compression="zstd", store_schema=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def add(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)


def render_json(values: Mapping[str, object]) -> str:
    """An object as JSON with a key on each line; a decimal is written digit for digit, and never passes a float."""
    lines = []
    for key, value in values.items():
        if isinstance(value, Decimal):
            text = f"{value:f}"
        elif isinstance(value, Mapping):
            text = render_json(value).replace("\n", "\n  ")
        else:
            text = json.dumps(value)
        lines.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _stage(progress: Progress | None, persons: int) -> AbstractContextManager[Callable[[int], None]]:
    if progress is None:
        return nullcontext(lambda _: None)
    return progress.stage("Writing the official layout", persons)
