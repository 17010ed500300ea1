"""Made-up people in the official layouts of SafeTab-P, their households in those of SafeTab-H and PHSafe, and the same
people with the variables of the Demographic and Housing Characteristics.

``parameters/`` has ``config.json`` and the four code files, ``data/`` the person records and the geography (GRF-C), one
row for each block. Made-up states have codes that no real state has, which SafeTab-P refuses: here they take those of
real states in the order of the settings, the first 01. With households there are also ``data/household-records`` and
the folder ``households/`` with persons, units and addresses. Whether a couple is married, which relative somebody is
and who owns the home are drawn from streams of their own; the types of households follow from them. Reference:
SafeTab-P 5.0.0, SafeTab-H 3.0.0 and PHSafe 3.0.0, their parameter and input files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from confide.errors import ParameterError
from confide.lab.population import generate
from confide.lab.population.households import ADULT, CHILD, HOUSEHOLDER, PARTNER, RELATIVE, column
from confide.lab.population.origins import SUBSETS, Config, code_files
from confide.lab.population.settings import UNIT_FACILITIES, UNIT_HOMES, Bools, Ints, stream
from confide.mechanisms.phsafe.official import FILES
from confide.mechanisms.phsafe.records import COLUMNS
from confide.mechanisms.phsafe.tabulate import INTEGERS
from confide.mechanisms.safetab_h.records import HOUSEHOLD_COLUMNS
from confide.mechanisms.safetab_h.spec import DATA
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.releases.workspace import Progress

Format = Literal["text", "parquet"]

BLOCK_COLUMNS = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
PERSON_COLUMNS = (
    "QAGE",
    "QSEX",
    "HOUSEHOLDER",
    *BLOCK_COLUMNS,
    "CENRACE",
    *generate.RACE_COLUMNS,
    generate.ETHNICITY_COLUMN,
)


def _schema(names: Sequence[str], integers: Collection[str] = ("QAGE",)) -> pa.Schema:
    kinds = dict.fromkeys(integers, pa.int32())
    return pa.schema([pa.field(name, kinds.get(name, pa.string()), nullable=False) for name in names])


PERSONS_SCHEMA = _schema(PERSON_COLUMNS)
GEOGRAPHY_SCHEMA = _schema((*BLOCK_COLUMNS, "PLACEFP", "AIANNHCE"))
HOUSEHOLDS_SCHEMA = _schema(HOUSEHOLD_COLUMNS)
ADDRESS_SCHEMAS = {name: _schema(columns, INTEGERS) for name, columns in COLUMNS.items()}
"""Persons, units and addresses in the layout of PHSafe."""
HOUSEHOLDS = "households"
"""The folder with these three."""


class OfficialFiles(NamedTuple):
    """The two folders that SafeTab-P is given."""

    parameters: Path
    data: Path


def write_official(
    population: generate.Population,
    folder: str | Path,
    *,
    format: Format = "text",  # noqa: A002  the word that a reader of the call expects
    households: bool = False,
    progress: Progress | None = None,
) -> OfficialFiles:
    """Write both folders into ``folder``; files of the same names are replaced once all of them are complete.

    Args:
        population: The people.
        folder: Where the folders go; made if it is not there.
        format: Text with ``|`` between values (addresses and those who live there: commas), or Parquet.
        households: Also the households: their records in the folder of data, and the folder :data:`HOUSEHOLDS`.
        progress: A display, if one is wanted.

    Returns:
        The two folders that SafeTab-P is given.

    >>> from confide.lab.population import Population
    >>> write_official(Population(persons=200, seed=7), tmp_path).data.name
    'data'
    """
    folder = Path(folder)
    target = OfficialFiles(folder / "parameters", folder / "data")
    origins = generate.DetailedOrigins(population)
    states = _States(population, origins.lists.config)
    try:
        for each in (*target, *([folder / HOUSEHOLDS] if households else [])):
            each.mkdir(parents=True, exist_ok=True)
        with _Parts() as parts:
            _write_data(origins, population, states, parts, target.data, format, households, progress)
            for name, text in code_files(origins.lists).items():
                parts.new(target.parameters / name).write_text(text, encoding="utf-8", newline="\n")
            config = render_json(origins.lists.config.entries(states.used))
            parts.new(target.parameters / "config.json").write_text(config + "\n", encoding="utf-8", newline="\n")
            parts.publish()
    except OSError as error:
        raise generate.cannot_write(folder, error, 90) from error
    return target


def _write_data(
    origins: generate.DetailedOrigins,
    population: generate.Population,
    states: _States,
    parts: _Parts,
    folder: Path,
    form: Format,
    households: bool,
    progress: Progress | None,
) -> None:
    suffix, of_addresses = ("txt", "csv") if form == "text" else ("parquet", "parquet")
    schemas = {folder / f"person-records.{suffix}": PERSONS_SCHEMA, folder / f"GRF-C.{suffix}": GEOGRAPHY_SCHEMA}
    if households:
        schemas[folder / f"{DATA['records']}.{suffix}"] = HOUSEHOLDS_SCHEMA
        beside = folder.with_name(HOUSEHOLDS)
        schemas |= {beside / f"{stem}.{of_addresses}": ADDRESS_SCHEMAS[stem] for stem in FILES.values()}
    kind: type[_Text | _Parquet] = _Text if form == "text" else _Parquet
    metadata = population.metadata()
    with ExitStack() as opened:
        files = []
        for path, schema in schemas.items():
            files.append(kind(parts.new(path), schema, metadata))
            opened.enter_context(files[-1])
        advance = opened.enter_context(_stage(progress, population.persons))
        addresses = FIRST_ADDRESS
        for unit in origins.units():
            of_blocks = _geography(unit.blocks, states)
            rows = [_persons(unit, of_blocks), of_blocks]
            if households:
                random = stream(population.seed, UNIT_HOMES, unit.unit.index)
                homes = Homes(unit.blocks, unit.persons, random, addresses)
                rows += [
                    homes.records(of_blocks, unit.origins),
                    homes.persons(),
                    homes.units(),
                    homes.places(of_blocks),
                ]
                addresses += homes.addresses
            for file, batch in zip(files, rows, strict=True):
                file.add(batch)
            advance(unit.persons.num_rows)


class _States:
    """Codes of real states for the made-up ones, in the order of the settings; remembers those that occurred."""

    def __init__(self, population: generate.Population, config: Config):
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


def _persons(unit: generate.UnitWithOrigins, geography: pa.RecordBatch) -> pa.RecordBatch:
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


# Households: what SafeTab-H and PHSafe know of them, worked out from who lives with whom.


FIRST_ADDRESS = 100_000_001
MARRIED, MARRIED_YOUNG, MARRIED_SAME_SEX = 0.90, 0.65, 0.58
"""Chances that a couple is married; young is a householder under 30."""
ADOPTED, STEPCHILD, IN_LAW, SIBLING, HOUSEMATE = 0.025, 0.065, 0.40, 0.85, 0.60
"""Chances of relationships, where sex, age and what is there of a couple leave several."""
INSTITUTIONS = 4
"""Types of group quarters up to this one are institutions."""


class Homes:
    """The dwellings of a unit of work in the Census Bureau's codes: households, then group quarters as they come, and
    at the end homes where nobody lives.

    Args:
        blocks: The frame of the unit.
        persons: Its records.
        rng: Draws what the records leave open.
        first_address: The number of the first dwelling.
    """

    def __init__(
        self,
        blocks: pa.RecordBatch,
        persons: pa.RecordBatch,
        rng: np.random.Generator,
        first_address: int = FIRST_ADDRESS,
    ):
        names = ("household_id", "relationship", "age", "sex", "hhgq", "cenrace", "hispanic")
        column = {name: persons.column(name).to_numpy().astype(np.int64) for name in names}
        self._column, self._first_address = column, first_address
        self._block = persons.column("geocode").indices
        starts = np.diff(column["household_id"], prepend=-1) != 0
        self._dwelling: Ints = np.cumsum(starts) - 1
        self._first: Ints = np.flatnonzero(starts)
        self._home: Bools = column["hhgq"][self._first] == 0
        frame = {name: blocks.column(name).to_numpy() for name in ("housing_units", "occupied_units")}
        self._vacant: Ints = np.repeat(np.arange(blocks.num_rows), frame["housing_units"] - frame["occupied_units"])
        self._couples(rng)
        self._relationships(rng)
        self._types()
        self._tenures(rng)

    @property
    def addresses(self) -> int:
        """How many dwellings there are."""
        return len(self._first) + len(self._vacant)

    @property
    def relship(self) -> Ints:
        """RELSHIP of every person."""
        return self._relship

    @property
    def size_of_person(self) -> Ints:
        """For every person how many live in the dwelling."""
        sizes: Ints = self._size[self._dwelling]
        return sizes

    def _couples(self, rng: np.random.Generator) -> None:
        relationship, sex = self._column["relationship"], self._column["sex"]
        self._couple: Bools = self._number_of(relationship == PARTNER) > 0
        second = np.minimum(self._first + 1, len(sex) - 1)  # a partner follows the householder
        self._same_sex: Bools = self._couple & (sex[self._first] == sex[second])
        by_age = np.where(self._column["age"][self._first] < 30, MARRIED_YOUNG, MARRIED)
        chance = np.where(self._same_sex, MARRIED_SAME_SEX, by_age)
        self._married: Bools = self._couple & (rng.random(len(chance)) < chance)

    def _relationships(self, rng: np.random.Generator) -> None:
        """RELSHIP, from the relationship, the age beside that of the householder, and the couple."""
        column, dwelling, point = self._column, self._dwelling, rng.random(len(self._dwelling))
        age, couple = column["age"], self._couple[dwelling]
        younger = age[self._first][dwelling] - age  # than the householder, in years
        child = np.where(point < ADOPTED, 26, np.where(couple & (point < ADOPTED + STEPCHILD), 27, 25))
        older = np.where(couple & (point < IN_LAW), 31, 29)
        relative = np.select(
            [younger <= -ADULT, younger < ADULT, younger >= 2 * ADULT],
            [older, np.where(point < SIBLING, 28, 33), 30],
            33,
        )
        other = np.where(age >= ADULT, np.where(point < HOUSEMATE, 34, 36), np.where(younger >= ADULT, 35, 36))
        partner = 21 + 2 * self._same_sex[dwelling] + ~self._married[dwelling]
        quarters = np.where(column["hhgq"] <= INSTITUTIONS, 37, 38)
        self._relship: Ints = np.select(
            [column["hhgq"] > 0, *(column["relationship"] == each for each in (HOUSEHOLDER, PARTNER, CHILD, RELATIVE))],
            [quarters, np.int64(20), partner, child, relative],
            other,
        )

    def _types(self) -> None:
        """CPLT, HHT and HHT2 of households, NPF: they follow from the relationships."""
        relship, male = self._relship, self._column["sex"][self._first] == 1
        young = self._number_of((relship >= 25) & (relship <= 27) & (self._column["age"] < ADULT)) > 0
        kin = self._number_of((relship >= 25) & (relship <= 33))
        self._size = np.bincount(self._dwelling)
        alone = self._size == 1
        self._cplt = np.where(self._couple, 1 + self._same_sex + 2 * ~self._married, 5)
        others = kin + self._married
        self._npf = np.where(others > 0, others + 1, 0)
        nonfamily = np.where(male, 4, 6) + ~alone
        self._hht = np.where(self._married, 1, np.where(kin > 0, np.where(male, 2, 3), nonfamily))
        single = np.where(male, 9, 5) + np.select([alone, young, kin > 0], [0, 1, 2], 3)
        self._hht2 = np.where(self._couple, 1 + 2 * ~self._married + ~young, single)

    def _tenures(self, rng: np.random.Generator) -> None:
        """TEN: who is older, or married, owns more often, and has paid off more of it."""
        age = self._column["age"][self._first]
        owned = rng.random(len(age)) < np.clip(0.15 + 0.01 * (age - 20) + 0.2 * self._married, 0.05, 0.9)
        paid = rng.random(len(age)) < np.clip((age - 35) / 50, 0.05, 0.9)
        free = rng.random(len(age)) < 0.05
        self._tenure = np.where(owned, np.where(paid, 2, 1), np.where(free, 4, 3))

    def _number_of(self, members: Bools) -> Ints:
        """How many such persons each dwelling has."""
        number: Ints = np.bincount(self._dwelling, weights=members, minlength=len(self._first)).astype(np.int64)
        return number

    def records(self, geography: pa.RecordBatch, origins: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of household-records: one for each home with people, with the codes of the householder."""
        first = self._first[self._home]
        block = self._block.take(pa.array(first))
        kind = self._hht[self._home]
        origins = origins.take(pa.array(first))
        columns = [
            *(geography.column(name).take(block) for name in BLOCK_COLUMNS),
            _CENRACES.take(pa.array(self._column["cenrace"][first])),
            *(each.dictionary.take(each.indices) for each in origins.columns),
            _texts(np.where(kind > 5, kind - 2, kind)),
            _texts(self._tenure[self._home]),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=HOUSEHOLDS_SCHEMA)

    def persons(self) -> pa.RecordBatch:
        """Rows of persons in the layout of PHSafe."""
        column = self._column
        return _rows(
            "persons",
            RTYPE=_texts(np.where(column["hhgq"] == 0, 3, 5)),
            MAFID=self._first_address + self._dwelling,
            QAGE=column["age"],
            CENHISP=1 + column["hispanic"],
            CENRACE=_CENRACES.take(pa.array(column["cenrace"])),
            RELSHIP=_texts(self._relship),
        )

    def units(self) -> pa.RecordBatch:
        """Rows of units: what is not in the universe, as of group quarters and where nobody lives, is zero."""
        column, first = self._column, self._first
        return _rows(
            "units",
            RTYPE=self._record_types(),
            MAFID=self._first_address + np.arange(self.addresses),
            FINAL_POP=np.append(self._size, np.zeros_like(self._vacant)),
            NPF=self._of_homes(self._npf),
            HHSPAN=self._of_homes(1 + column["hispanic"][first]),
            HHRACE=_texts(self._of_homes(1 + column["cenrace"][first]), 2),
            TEN=_texts(self._of_homes(self._tenure)),
            HHT=_texts(self._of_homes(self._hht)),
            HHT2=_texts(self._of_homes(self._hht2), 2),
            CPLT=_texts(self._of_homes(self._cplt)),
        )

    def places(self, geography: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of addresses. A made-up state lies in no region of the country."""
        blocks = self._block.to_numpy()[self._first]
        block = pa.array(np.append(blocks, self._vacant))
        group = pc.utf8_slice_codeunits(geography.column("TABBLK"), 0, 1)
        named = {name: geography.column(name).take(block) for name in GEOGRAPHY_SCHEMA.names}
        return _rows(
            "geo",
            RTYPE=self._record_types(),
            MAFID=self._first_address + np.arange(self.addresses),
            TABBLKGRPCE=group.take(block),
            REGIONCE=_texts(np.full(self.addresses, 9)),
            DIVISIONCE=_texts(np.zeros(self.addresses, np.int64)),
            **named,
        )

    def _record_types(self) -> pa.Array:
        return _texts(np.append(np.where(self._home, 2, 4), np.full_like(self._vacant, 2)))

    def _of_homes(self, values: Ints) -> Ints:
        """The values of households, and zero of group quarters and where nobody lives."""
        return np.append(np.where(self._home, values, 0), np.zeros_like(self._vacant))


def _texts(values: NDArray[Any], width: int = 1) -> pa.Array:
    return pc.utf8_lpad(pa.array(values).cast(pa.string()), width, "0")


def _rows(name: str, **columns: Any) -> pa.RecordBatch:
    """Rows of a file in the layout of PHSafe."""
    schema = ADDRESS_SCHEMAS[name]
    return pa.RecordBatch.from_arrays([pa.array(columns[each.name]).cast(each.type) for each in schema], schema=schema)


# The variables of the Demographic and Housing Characteristics: what everybody is to the householder, or in which type
# of group quarters. Types are drawn for whole facilities, among those of the facility's major type in which everybody
# there may live. Which ages somebody of a relationship or in a type of quarters may have, the strategy says.


CHARACTERISTICS_SCHEMA = pa.schema(
    [
        pa.field("geocode", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("household_id", pa.int64(), nullable=False),
        *(pa.field(name, pa.int8(), nullable=False) for name in ("relgq", "sex", "age", "hispanic", "cenrace")),
    ]
)
"""Columns of the records: the attributes of the schema ``dhc-persons``, the block, and who lives together."""

FIRST_RELATIONSHIP, OTHER_RELATIVE = 20, 14
"""RELSHIP of a householder; ``relgq`` of a relative whose age no other relationship has."""
STRATEGY = "dhc-persons"
TYPES = {
    1: {18: 0.04, 19: 0.08, 20: 0.40, 21: 0.33, 22: 0.15},
    2: {24: 0.5, 25: 0.35, 26: 0.15},
    3: {27: 1.0},
    4: {28: 0.4, 29: 0.15, 30: 0.25, 32: 0.2},
    5: {33: 1.0},
    6: {34: 0.8, 35: 0.2},
    7: {36: 0.15, 37: 0.45, 38: 0.2, 39: 0.02, 40: 0.08, 41: 0.1},
}
"""For each major type of quarters the codes of its types, and how common they are; some type of each has no oldest or
youngest that the ages of the made-up people could miss."""


def possible_ages() -> Bools:
    """Which ages people of a relationship, or in a type of quarters, may have: ``relgq`` x age."""
    strategy = load_strategy(STRATEGY, root="state")
    shape = [attribute.size for attribute in strategy.schema.attributes]
    never = strategy.constraints.zero_cells(strategy.schema).reshape(shape)
    by_age = never.transpose(0, 2, 1, 3, 4).reshape(shape[0], shape[2], -1)
    ages: Bools = np.logical_not(by_age.all(axis=2))
    return ages


def characteristics(population: generate.Population) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Frame and records of every unit of work, in the order of the geocodes.

    Args:
        population: The people.

    Yields:
        The blocks, and rows of :data:`CHARACTERISTICS_SCHEMA`.
    """
    possible = possible_ages()
    for unit in population.units:
        blocks, persons = population.unit(unit)
        homes = Homes(blocks, persons, stream(population.seed, UNIT_HOMES, unit.index))
        own = {name: persons.column(name).to_numpy().astype(np.int64) for name in persons.schema.names[1:]}
        types = _facility_types(own, possible, stream(population.seed, UNIT_FACILITIES, unit.index))
        at_home = _relationships(own, possible, homes.relship, homes.size_of_person)
        relgq = np.where(own["hhgq"] > 0, types, at_home)
        values: dict[str, NDArray[np.int64]] = {**own, "relgq": relgq, "sex": own["sex"] - 1}
        columns = [column(values[each.name], each.type) for each in list(CHARACTERISTICS_SCHEMA)[1:]]
        yield (
            blocks,
            pa.RecordBatch.from_arrays([persons.column("geocode"), *columns], schema=CHARACTERISTICS_SCHEMA),
        )


def _relationships(own: dict[str, Ints], possible: Bools, relship: Ints, size: Ints) -> Ints:
    """``relgq`` of people in households: householders alone and with others, then RELSHIP in its order."""
    householder = np.where(size == 1, 0, 1)
    relgq = np.where(own["relationship"] == HOUSEHOLDER, householder, relship - FIRST_RELATIONSHIP + 1)
    relgq[own["hhgq"] > 0] = OTHER_RELATIVE  # has a type of quarters instead
    return np.where(possible[relgq, own["age"]], relgq, OTHER_RELATIVE)


def _facility_types(own: dict[str, Ints], possible: Bools, rng: np.random.Generator) -> Ints:
    """For everybody in quarters the type of the facility; zero for the others."""
    inside = np.flatnonzero(own["hhgq"] > 0)
    types = np.zeros(len(own["hhgq"]), np.int64)
    if not len(inside):
        return types
    _, first, facility = np.unique(own["household_id"][inside], return_index=True, return_inverse=True)
    facility = facility.reshape(-1)
    age, major = own["age"][inside], own["hhgq"][inside][first]
    point = rng.random(len(first))
    chosen = np.zeros(len(first), np.int64)
    for kind, common in TYPES.items():
        codes = np.array(list(common))
        unfit = [np.bincount(facility, weights=~possible[code, age], minlength=len(first)) for code in codes.tolist()]
        ends = np.cumsum(np.where(np.stack(unfit, axis=1) > 0, 0.0, list(common.values())), axis=1)
        place = (point[:, None] * ends[:, -1:] >= ends).sum(axis=1).clip(0, len(codes) - 1)
        chosen = np.where(major == kind, codes[place], chosen)
    types[inside] = chosen[facility]
    return types


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
    """A file of text with ``|`` between values, in a file called csv commas; a header and no quotes."""

    def __init__(self, path: Path, schema: pa.Schema, _metadata: dict[str, str]):
        self._path, self._schema = path, schema
        self._between = "," if ".csv." in path.name else "|"

    def __enter__(self) -> Self:
        self._file = self._path.open("wb")
        self._file.write((self._between.join(self._schema.names) + "\n").encode())
        options = csv.WriteOptions(
            include_header=False, delimiter=self._between, quoting_style="none", batch_size=16_384
        )
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
