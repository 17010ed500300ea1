"""Made-up populations: from a number of persons and a seed to a frame and records, unit by unit.

A population is a pure function of (persons, seed, settings, generator version). It is made in units of work, runs of
tracts of one county with random streams of their own, so that memory stays that of one unit and any order of work gives
the same people.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.answers import AnswerPart, TypedAnswer
from confide.arrays import Floats
from confide.errors import Finding, ParameterError, Place, RunError
from confide.lab.population import households as homes
from confide.lab.population import settings as population_settings
from confide.lab.population.neighbourhoods import County, Unit, make_county, make_land, smooth_field
from confide.lab.population.origins import MASK_OF_CODE, RACES, Origin, OriginCodes, OriginHabits, load_origins, parse
from confide.lab.population.settings import stream
from confide.releases.workspace import Progress

FEWEST, MOST = 100, 400_000_000
LARGEST_SEED = 2**64 - 1


class Population:
    """A made-up population of exactly ``persons`` persons.

    Args:
        persons: How many, from 100 to 400 million.
        seed: From 0 to 2^64 - 1: the same seed gives the same people.
        settings: Shipped settings by name, a file, or settings.

    >>> people = Population(persons=10_000, seed=7)
    >>> sum(batch.num_rows for batch in people.person_batches())
    10000
    """

    def __init__(
        self, persons: int, seed: int, settings: str | Path | population_settings.PopulationSettings = "default"
    ):
        _check(persons, seed)
        self.persons = persons
        self.seed = seed
        self.settings = (
            settings
            if isinstance(settings, population_settings.PopulationSettings)
            else population_settings.load_settings(settings)
        )
        self._land = make_land(persons, seed, self.settings)
        self.units: tuple[Unit, ...] = tuple(self._land.units())
        self._kinds = homes.HouseholdKinds(self.settings)
        self._own_blocks = homes.own_blocks(self.settings)
        self._records = homes.RecordMaker(self.settings)
        self._county = lru_cache(maxsize=1)(self._make_county)  # units of one county follow each other

    def __repr__(self) -> str:
        return f"Population(persons={self.persons}, seed={self.seed}, settings={self.settings.id!r})"

    @property
    def identity(self) -> dict[str, str | int]:
        """What decides every byte of the files: persons, seed, settings and the version of the generator."""
        return {
            "made_up": "nothing here comes from a real person or place",
            "persons": self.persons,
            "seed": self.seed,
            "settings": self.settings.id,
            "settings_sha256": sha256(self.settings.model_dump_json().encode()).hexdigest(),
            "generator": population_settings.GENERATOR,
        }

    def metadata(self) -> dict[str, str]:
        """:attr:`identity` as the metadata of a file."""
        return {"confide.population": json.dumps(self.identity, sort_keys=True)}

    def blocks(self) -> pa.Table:
        """The whole frame, in the order of the geocodes. For very large populations use :meth:`block_batches`."""
        return pa.Table.from_batches(self.block_batches(), schema=homes.BLOCKS_SCHEMA)

    def block_batches(self) -> Iterator[pa.RecordBatch]:
        """The frame unit by unit, in the order of the geocodes, without making the persons."""
        return (homes.block_batch(self._frame(unit)) for unit in self.units)

    def person_batches(self) -> Iterator[pa.RecordBatch]:
        """The records unit by unit, in the order of the geocodes."""
        return (self.unit(unit)[1] for unit in self.units)

    def unit(self, unit: Unit) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Frame and records of one unit of work: the same whichever units were made before, and wherever."""
        frame = self._frame(unit)
        blocks = homes.block_batch(frame)
        mixture = self._land.mixture[self._land.kind[unit.county]]
        return blocks, self._records.batch(unit, frame, blocks.column("geocode"), mixture, self.seed)

    def county(self, index: int) -> County:
        """The county with this index, with its neighbourhoods."""
        return self._county(index)

    def _make_county(self, index: int) -> County:
        return make_county(self._land, index, self.seed, self.settings)

    def _frame(self, unit: Unit) -> homes.UnitFrame:
        county = self._county(unit.county)
        return homes.make_frame(unit, self._land, county, self.seed, self.settings, self._kinds, self._own_blocks)


def _whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _check(persons: int, seed: int) -> None:
    findings = []
    if not _whole(persons, FEWEST, MOST):
        findings.append(Finding.of("persons-out-of-range/whole-number", found=repr(persons), fewest=FEWEST, most=MOST))
    if not _whole(seed, 0, LARGEST_SEED):
        findings.append(Finding.of("seed-out-of-range/whole-number", found=repr(seed)))
    if findings:
        raise ParameterError(findings)


# Writing a made-up population to ``persons.parquet`` and ``blocks.parquet``.
#
# One pass over the units of work; memory is that of a row group. The files appear under their names only when both
# are complete. The same population gives the same bytes with the same versions of numpy and pyarrow.


PERSONS_PER_ROW_GROUP, BLOCKS_PER_ROW_GROUP = 500_000, 100_000


class PopulationFiles(NamedTuple):
    """Where a population was written."""

    persons: Path
    blocks: Path


LAYOUTS = US_STATE, US_DHC, EU_COUNTRY = "us-state", "us-dhc", "eu-country"
"""Made-up people of a U.S. state, with the variables of the redistricting file or of the DHC; or of a country."""


@dataclass(frozen=True)
class SimulatedPopulation(TypedAnswer):
    """Made-up people, and where they were written."""

    persons: int
    seed: int
    files: PopulationFiles
    detailed_files: tuple[Path, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        files = [str(path) for path in (*self.files, *self.detailed_files)]
        return {"persons": self.persons, "seed": self.seed, "files": files}

    def described(self) -> Iterator[AnswerPart]:
        """How many there are, and where."""
        yield f"{self.persons:,} made-up persons (seed {self.seed}) in {self.files.persons.parent}"


def simulate(
    folder: str | Path,
    *,
    persons: int,
    seed: int,
    settings: str | Path | population_settings.PopulationSettings = "default",
    detailed: bool = False,
    layout: str = "us-state",
    progress: Progress | None = None,
) -> SimulatedPopulation:
    """Made-up people, written as a file of persons and a file of blocks (``confide import made-up``).

    Args:
        folder: Where the files go; files of these names are replaced.
        persons: How many, from 100 to 400 million.
        seed: From 0 to 2^64 - 1: the same seed gives the same people.
        settings: Shipped settings by name, a file, or settings.
        detailed: Also with detailed race and ethnicity codes, as the official input folders of SafeTab-P.
        layout: ``us-state``; ``us-dhc``, with relationships and types of quarters; or ``eu-country``, with
            municipalities, irregular codes, and citizenship for race.
        progress: A display, if one is wanted.

    Returns:
        The paths of ``persons.parquet`` and ``blocks.parquet`` (``areas.csv``), and of the detailed files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     simulate(folder, persons=100, seed=7).files.persons.name
    'persons.parquet'
    """
    from confide.lab.population.eu import write_eu_country
    from confide.lab.population.official import CHARACTERISTICS_SCHEMA, characteristics, write_official

    if layout not in LAYOUTS or (detailed and layout != US_STATE):
        raise ParameterError("no-layout", found=layout, same=layout not in LAYOUTS, layouts=" or ".join(LAYOUTS))
    if layout == EU_COUNTRY:
        return SimulatedPopulation(persons, seed, PopulationFiles(*write_eu_country(folder, persons, seed)))
    population = Population(persons, seed, settings)
    own: tuple[Any, ...] = (CHARACTERISTICS_SCHEMA, characteristics(population)) if layout == US_DHC else ()
    files = write_population(population, folder, progress, *own)
    more = tuple(write_official(population, folder, progress=progress)) if detailed else ()
    return SimulatedPopulation(persons, seed, files, more)


def write_population(
    population: Population,
    folder: str | Path,
    progress: Progress | None = None,
    schema: pa.Schema = homes.PERSONS_SCHEMA,
    units: Iterable[tuple[pa.RecordBatch, pa.RecordBatch]] | None = None,
) -> PopulationFiles:
    """Write a population to ``persons.parquet`` and ``blocks.parquet``; :func:`simulate` makes and writes one.

    Args:
        population: The people.
        folder: It is made if it is not there; files of these names are replaced.
        progress: A display, if one is wanted.
        schema: The columns of the records.
        units: Blocks and records of every unit of work; default: those of the population.

    Returns:
        The two paths. The files appear only when both are complete.

    >>> from confide.lab.population import Population
    >>> write_population(Population(persons=200, seed=7), tmp_path).persons.name
    'persons.parquet'
    """
    units = map(population.unit, population.units) if units is None else units
    folder = Path(folder)
    target = PopulationFiles(folder / "persons.parquet", folder / "blocks.parquet")
    metadata = population.metadata()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            _RowGroups(target.persons, schema, PERSONS_PER_ROW_GROUP, metadata, "household_id") as persons,
            _RowGroups(target.blocks, homes.BLOCKS_SCHEMA, BLOCKS_PER_ROW_GROUP, metadata, "geocode") as blocks,
            _stage(progress, population.persons) as advance,
        ):
            for of_blocks, of_persons in units:
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
        "cannot-write-population",
        where=Place(file=str(folder)),
        found=error.strerror or str(error),
        bytes_a_person=bytes_a_person,
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


# How real made-up people are: a few figures that matter to disclosure, counted from the records themselves.
#
# Tracts, blocks and households never cross units of work, so each unit is counted on its own and the counts are
# added:
# the figures of any population in the memory of one unit.


HISPANIC, WHITE, BLACK, ASIAN, GROUPS = 0, 1, 2, 4, 7
"""Columns of the table of tracts: Hispanic, then the six single races and the rest among the others."""


def dissimilarity(one: Floats, other: Floats) -> float:
    """Index of dissimilarity, half the sum of abs(a_i / A - b_i / B): the share of a group that would have to move.

    Args:
        one: People of the one group by area, shape (areas,).
        other: Those of the other, shape (areas,).

    Returns:
        A number from 0 (the same shares everywhere) to 1 (nowhere together).

    >>> dissimilarity(np.array([10.0, 0.0]), np.array([5.0, 5.0]))
    0.5
    """
    if not one.sum() or not other.sum():
        return float("nan")
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def count_unique(keys: NDArray[Any]) -> int:
    """How many elements occur exactly once."""
    _, counts = np.unique(keys, return_counts=True)
    return int((counts == 1).sum())


@dataclass
class _Counts:
    persons: int = 0
    by_hhgq: population_settings.Ints = field(default_factory=lambda: np.zeros(8, dtype=np.int64))
    by_age: population_settings.Ints = field(default_factory=lambda: np.zeros(116, dtype=np.int64))
    by_race: population_settings.Ints = field(default_factory=lambda: np.zeros(63, dtype=np.int64))
    by_size: population_settings.Ints = field(default_factory=lambda: np.zeros(9, dtype=np.int64))
    male: int = 0
    hispanic: int = 0
    unique: int = 0
    unique_with_race: int = 0
    in_places: int = 0
    in_aiannh: int = 0
    in_urban: int = 0
    housing_units: int = 0
    occupied_units: int = 0
    blocks_without_housing: int = 0
    tracts: list[population_settings.Ints] = field(default_factory=list)
    block_persons: list[population_settings.Ints] = field(default_factory=list)


def profile(population: Population) -> dict[str, float]:
    """Figures of a population by name: shares between 0 and 1, numbers of units, medians.

    Args:
        population: The people.

    Returns:
        The figures.

    >>> from confide.lab.population import Population
    >>> profile(Population(persons=1_000, seed=7))["persons"]
    1000
    """
    counts = _Counts()
    for unit in population.units:
        _add(counts, *population.unit(unit))
    return _figures(counts)


def _add(counts: _Counts, blocks: pa.RecordBatch, persons: pa.RecordBatch) -> None:
    column = {name: persons.column(name).to_numpy(zero_copy_only=False) for name in persons.schema.names[1:]}
    block = persons.column("geocode").indices.to_numpy()
    frame = {name: blocks.column(name).to_numpy(zero_copy_only=False) for name in blocks.schema.names}
    counts.persons += len(block)
    counts.by_hhgq += np.bincount(column["hhgq"], minlength=8)
    counts.by_age += np.bincount(column["age"], minlength=116)
    counts.by_race += np.bincount(column["cenrace"], minlength=63)
    home = column["hhgq"] == 0
    _, sizes = np.unique(column["household_id"][home], return_counts=True)
    counts.by_size += np.bincount(np.minimum(sizes, 8), minlength=9)
    counts.male += int((column["sex"] == 1).sum())
    counts.hispanic += int(column["hispanic"].sum())
    key = (block.astype(np.int64) * 2 + column["sex"] - 1) * 116 + column["age"]
    counts.unique += count_unique(key)
    counts.unique_with_race += count_unique((key * 63 + column["cenrace"]) * 2 + column["hispanic"])

    of_block = np.bincount(block, minlength=blocks.num_rows)
    counts.block_persons.append(of_block)
    counts.in_places += int(of_block[frame["place"] != "99999"].sum())
    counts.in_aiannh += int(of_block[frame["aiannh"] != "9999"].sum())
    counts.in_urban += int(of_block[frame["urban"] == 1].sum())
    counts.housing_units += int(frame["housing_units"].sum())
    counts.occupied_units += int(frame["occupied_units"].sum())
    counts.blocks_without_housing += int((frame["housing_units"] == 0).sum())
    _, tract_of_block = np.unique(frame["tract"], return_inverse=True)
    tract = tract_of_block[block]
    tracts = int(tract_of_block.max()) + 1
    alone = np.where(column["hispanic"] == 1, HISPANIC, np.minimum(column["cenrace"].astype(np.int64) + 1, GROUPS))
    table = np.bincount(tract * (GROUPS + 1) + alone, minlength=(GROUPS + 1) * tracts).reshape(tracts, GROUPS + 1)
    counts.tracts.append(table)


def _figures(counts: _Counts) -> dict[str, float]:
    persons = counts.persons
    tract = np.concatenate(counts.tracts).astype(np.float64)
    block = np.concatenate(counts.block_persons)
    populated = block[block > 0]
    households = counts.by_size.sum()
    hispanic, white, black, asian = (tract[:, group] for group in (HISPANIC, WHITE, BLACK, ASIAN))
    return {
        "persons": persons,
        "households": int(households),
        "tracts": len(tract),
        "blocks": len(block),
        "share of blocks without housing units": counts.blocks_without_housing / len(block),
        "persons in the median populated block": float(np.median(populated)),
        "persons in the mean populated block": float(populated.mean()),
        "persons in the largest block": int(block.max()),
        "vacant housing units": 1 - counts.occupied_units / counts.housing_units,
        **{f"households of {size}": float(counts.by_size[size] / households) for size in range(1, 5)},
        "households of 5 and more": float(counts.by_size[5:].sum() / households),
        "persons per household": float(counts.by_hhgq[0] / households),
        "under 18": float(counts.by_age[:18].sum() / persons),
        "65 and over": float(counts.by_age[65:].sum() / persons),
        "male": counts.male / persons,
        "in group quarters": float(1 - counts.by_hhgq[0] / persons),
        "Hispanic": counts.hispanic / persons,
        "White alone": float(counts.by_race[0] / persons),
        "Black alone": float(counts.by_race[1] / persons),
        "AIAN alone": float(counts.by_race[2] / persons),
        "Asian alone": float(counts.by_race[3] / persons),
        "two or more races": float(counts.by_race[6:].sum() / persons),
        "races that occur": int((counts.by_race > 0).sum()),
        "in incorporated places": counts.in_places / persons,
        "in AIANNH areas": counts.in_aiannh / persons,
        "in urban blocks": counts.in_urban / persons,
        "unique on block, sex, age": counts.unique / persons,
        "unique on block, sex, age, race, ethnicity": counts.unique_with_race / persons,
        "dissimilarity, Black and White, by tract": dissimilarity(black, white),
        "dissimilarity, Hispanic and White, by tract": dissimilarity(hispanic, white),
        "dissimilarity, Asian and White, by tract": dissimilarity(asian, white),
    }


# Detailed race and ethnicity codes of made-up people: up to eight race codes and one ethnicity code for each.
#
# The codes agree with what the records say: the major races of a person's race codes are exactly those of ``cenrace``,
# and the ethnicity code is that of a Hispanic origin exactly where ``hispanic`` is 1. A group has a Zipf share of its
# region (total-only groups much less); in a tract its log weight departs from that by
#
#     county_spread * n(county) + tract_spread * (sqrt(s) * f(tract) + sqrt(1 - s) * n(tract)) - half the variance,
#
# n standard normal, f a field that is smooth over the county, s the part ``neighbourhoods.smooth`` of the settings: so
# people of one origin live near each other. A household has an answer for each race in it, which most of its members
# give. All draws come from streams of their own: records and frame are the same with codes or without.


MOST_CODES = 8
NULL = "Null"
RACE_COLUMNS = tuple(f"QRACE{number}" for number in range(1, MOST_CODES + 1))
ETHNICITY_COLUMN = "QSPAN"

Answers = NDArray[np.int16]
NONE = -1
OTHER = RACES.index("other")
ORIGIN = len(RACES)
ONE_CODE = np.array([1.0])

ORIGINS_SCHEMA = pa.schema(
    [
        pa.field(name, pa.dictionary(pa.int16(), pa.string()), nullable=False)
        for name in (*RACE_COLUMNS, ETHNICITY_COLUMN)
    ]
)
"""The codes of persons, in the rows of their records; dictionaries of text."""


class UnitWithOrigins(NamedTuple):
    """A unit of work: frame, records, and the codes of the persons in the same order."""

    unit: Unit
    blocks: pa.RecordBatch
    persons: pa.RecordBatch
    origins: pa.RecordBatch


class _Pool(NamedTuple):
    """The codes of a race, or of the ethnicity: numbers ``first`` to ``last`` (exclusive)."""

    first: int
    last: int
    more: Floats


class DetailedOrigins:
    """Draws the codes of a population's persons."""

    def __init__(self, population: Population, lists: OriginCodes | None = None):
        self._population = population
        self.lists = lists or load_origins()
        majors = self.lists.races
        all_origins: tuple[Origin, ...] = (*majors, self.lists.hispanic)
        ends = np.cumsum([0, *(len(origin.codes()) for origin in all_origins)]).tolist()
        more = [*(np.array(major.more) for major in majors), ONE_CODE]
        self._pools = [_Pool(*each) for each in zip(ends[:-1], ends[1:], more, strict=True)]
        drawn = [_weights(origin, self.lists.people) for origin in all_origins]
        self._log_weight = np.log(np.concatenate([weight for weight, _ in drawn]))
        # Codes of one group live together: they share its number, and those without a group have one of their own.
        self._cluster = np.unique(
            np.concatenate([group + 1000 * place for place, (_, group) in enumerate(drawn)]), return_inverse=True
        )[1]
        self._plain = np.concatenate([group < 0 for _, group in drawn])
        self._names = pa.array([*(code.code for code in self.lists.codes), NULL])
        self._tracts = lru_cache(maxsize=1)(self._make_tracts)  # units of one county follow each other

    def units(self) -> Iterator[UnitWithOrigins]:
        """Every unit of work of the population, in the order of the geocodes."""
        for unit in self._population.units:
            blocks, persons = self._population.unit(unit)
            yield UnitWithOrigins(unit, blocks, persons, self.batch(unit, blocks, persons))

    def batch(self, unit: Unit, blocks: pa.RecordBatch, persons: pa.RecordBatch) -> pa.RecordBatch:
        """The codes of a unit's persons as rows of :data:`ORIGINS_SCHEMA`."""
        rng = stream(self._population.seed, population_settings.UNIT_ORIGINS, unit.index)
        people = self.lists.people
        tract = _tract_of_block(blocks)[persons.column("geocode").indices.to_numpy()] - unit.first
        column = {name: persons.column(name).to_numpy() for name in ("household_id", "hhgq", "cenrace", "hispanic")}
        # People in group quarters share a facility, not a family.
        starts = (np.diff(column["household_id"], prepend=-1) != 0) | (column["hhgq"] != 0)
        dwelling = np.cumsum(starts)
        mask = MASK_OF_CODE[column["cenrace"]]
        members = [np.flatnonzero(mask >> race & 1) for race in range(len(RACES))]
        members.append(np.flatnonzero(column["hispanic"]))

        log_weight = self._tracts(unit.county)[unit.first : unit.last]
        given: Answers = np.full((len(mask), len(members), 3), NONE, dtype=np.int16)
        for place, pool in enumerate(self._pools):
            who = members[place]
            if len(who):
                chances = population_settings.Chances(np.exp(log_weight[:, pool.first : pool.last]))
                given[who, place] = self._answers(rng, pool, chances, tract[who], dwelling[who])
        origin = given[:, ORIGIN, 0]
        as_race = rng.random(len(mask)) < people.origin_as_race
        as_race &= (origin != NONE) & (given[:, OTHER, 0] != NONE)
        given[as_race, OTHER] = NONE
        given[as_race, OTHER, 0] = origin[as_race]

        nobody, not_hispanic = len(self._names) - 1, len(self._names) - 2
        races = _leftmost(given[:, :ORIGIN], nobody)
        columns = [*races.T, np.where(origin == NONE, not_hispanic, origin)]
        return pa.RecordBatch.from_arrays(
            [
                pa.DictionaryArray.from_arrays(pa.array(np.ascontiguousarray(each), type=pa.int16()), self._names)
                for each in columns
            ],
            schema=ORIGINS_SCHEMA,
        )

    def _answers(
        self,
        rng: np.random.Generator,
        pool: _Pool,
        chances: population_settings.Chances,
        tract: population_settings.Ints,
        dwelling: population_settings.Ints,
    ) -> Answers:
        """Codes of one race, for persons of it in the order of their dwellings: mostly those of the dwelling."""
        first = np.diff(dwelling, prepend=-1) != 0
        answers: Answers = self._draw(rng, pool, chances, tract[first])[np.cumsum(first) - 1]
        unlike = np.flatnonzero(rng.random(len(tract)) >= self.lists.people.like_household)
        answers[unlike] = self._draw(rng, pool, chances, tract[unlike])
        return answers

    def _draw(
        self,
        rng: np.random.Generator,
        pool: _Pool,
        chances: population_settings.Chances,
        tract: population_settings.Ints,
    ) -> Answers:
        """One answer for each of ``tract``: one to three different codes, and one alone where it names no group."""
        answers: Answers = np.full((len(tract), 3), NONE, dtype=np.int16)
        answers[:, 0] = pool.first + chances.draw(rng, tract)
        number = population_settings.Chances(pool.more).draw_many(rng, len(tract))
        for place in (1, 2):
            some = np.flatnonzero((number >= place) & ~self._plain[answers[:, 0]])
            code = pool.first + chances.draw(rng, tract[some])
            fresh = ~self._plain[code] & (answers[some, :place] != code[:, None]).all(axis=1)
            answers[some[fresh], place] = code[fresh]
        return answers

    def _make_tracts(self, county: int) -> Floats:
        """The log weight of each code in each tract of a county."""
        rng = stream(self._population.seed, population_settings.COUNTY_ORIGINS, county)
        people, ways = self.lists.people, self._population.settings.neighbourhoods
        middle = _middles(self._population, county)
        clusters = int(self._cluster.max()) + 1
        over = np.column_stack([smooth_field(rng, middle, ways.waves, ways.wave_cycles) for _ in range(clusters)])
        field = np.sqrt(ways.smooth) * over + np.sqrt(1 - ways.smooth) * rng.standard_normal(over.shape)
        departure = people.county_spread * rng.standard_normal(clusters) + people.tract_spread * field
        # Minus half the variance: the mean weight of a group stays its share.
        departure -= (people.county_spread**2 + people.tract_spread**2) / 2
        result: Floats = self._log_weight + departure[:, self._cluster]
        return result


def _weights(origin: Origin, people: OriginHabits) -> tuple[Floats, population_settings.Ints]:
    """For each of ``origin.codes()`` its weight, and the number of its group (negative: none, the code is alone)."""
    general = parse(origin.code).code
    weight, group = {general: origin.unspecified}, {general: -1}
    shares = sum(region.share for region in origin.regions)
    for region in origin.regions:
        groups = [each for each in region.groups if each.only != "coarse"]
        lists = [[parse(text).code for text in each.codes] for each in groups]
        rare = [people.rare if each.only == "total" else 1.0 for each in groups]
        for codes in lists:
            group |= dict.fromkeys(codes, max(0, *group.values()) + 1)
        if region.code:
            lists.append([parse(region.code).code])
            rare.append(1.0)
            group[lists[-1][0]] = min(group.values()) - 1
        part = (1 - origin.unspecified) * region.share / shares
        for codes, of_group in zip(lists, _zipf(np.array(rare), people.zipf), strict=True):
            weight |= dict(zip(codes, part * of_group * _zipf(np.ones(len(codes)), people.zipf), strict=True))
    order = [code.code for code in origin.codes()]
    return np.array([weight[code] for code in order]), np.array([group[code] for code in order])


def _zipf(factor: Floats, power: float) -> Floats:
    """Shares in proportion to the factor over the rank to the power."""
    weight = factor * np.arange(1, len(factor) + 1) ** -power
    result: Floats = weight / weight.sum()
    return result


def _tract_of_block(blocks: pa.RecordBatch) -> population_settings.Ints:
    """The position of each block's tract in its county: tracts are numbered 000100, 000200, ..."""
    number = pc.utf8_slice_codeunits(blocks.column("tract"), 5, 9).cast(pa.int64())
    result: population_settings.Ints = number.to_numpy() - 1
    return result


def _middles(population: Population, county: int) -> Floats:
    """A point in each tract of a county, in people space: the middle of its first block group."""
    groups = population.county(county).block_groups
    first = np.flatnonzero(np.diff(groups.tract, prepend=-1))
    corner = groups.corner[first]
    result: Floats = (corner[:, :2] + corner[:, 2:]) / 2
    return result


def _leftmost(given: Answers, nobody: int) -> Answers:
    """Up to eight codes of each person without gaps: one of each race first, so that none is lost, then the others."""
    count = len(given)
    flat = np.concatenate([given[:, :, 0], given[:, :, 1:].reshape(count, -1)], axis=1)
    there: population_settings.Bools = flat != NONE
    place = np.cumsum(there, axis=1) - 1
    row, column = np.nonzero(there & (place < MOST_CODES))
    result: Answers = np.full((count, MOST_CODES), nobody, dtype=np.int16)
    result[row, place[row, column]] = flat[row, column]
    return result
