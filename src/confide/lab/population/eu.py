"""Made-up people for the 2021 EU census programme, and a made-up European country of them.

For the programme, records, their schema, and the list of tables:

    persons.parquet   one row for each person, one column of text for each variable at its finest
    schema.toml       the codes of these columns, and the recodes that the programme asks for
    tables.toml       the 103 tables of persons, as a spec lists tables

For the country, persons in households, and municipalities with irregular codes and names:

    persons.parquet   one row for each person: lau, household, sex, age, coc, pob, edu, cas (schema: eu-persons)
    areas.csv         one row for each municipality: lau, lau_name, nuts3, nuts3_name, nuts2, nuts2_name

The country has the people of the programme, with some of their variables. Their municipalities have codes as offices
have them after decades of mergers: of different lengths, with letters, and without a word about the region. Households
are made of the people of a municipality.

They are for trials of size and speed: no share in them says anything about a real country. What they are like:
``docs/concepts/made-up-people.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from confide.arrays import Floats
from confide.documents import parse_schema
from confide.errors import Finding, ParameterError, SpecError
from confide.file_system import whole_file, write_text
from confide.lab.population import settings as population_settings
from confide.lab.population.generate import cannot_write
from confide.lab.population.settings import GENERATOR as DRAWS
from confide.schema import Schema

# Made-up people for the EU census programme: drawn column by column, in batches with random streams of their own.
#
# A level l of a column has the probability
#
#     P(l | a, b, ...)  ∝  w_a(l) · w_b(l) · ...
#
# given the groups a, b, ... that the person is in: a log-linear model with main effects alone, whose zeros exclude.
# Codes within a group of the weights share as 1/rank^zipf, which makes small and empty cells: what these people are
# for.


GENERATOR = 1
"""Version of the generator: raised whenever the same persons, seed, areas and settings would give other people."""

PLACE = "geo"
BATCH = 250_000
# What a stream is for; the numbers follow those of `draw`.
_SIZES, _PEOPLE, _SPREAD = 100, 101, 102


@dataclass(frozen=True)
class _Column:
    """The chances of a column, and where a person's row of them is: the cell of the variables that it depends on."""

    rule: population_settings.EuVariableRule
    chances: population_settings.Chances
    excluded: population_settings.Bools
    by: tuple[tuple[str, population_settings.Ints, int], ...]

    def draw(
        self, rng: np.random.Generator, drawn: Mapping[str, population_settings.Ints], persons: int
    ) -> population_settings.Ints:
        row: population_settings.Ints = np.zeros(persons, np.int64)
        for attribute, group_of_level, size in self.by:
            row = row * size + group_of_level[drawn[attribute]]
        if bool(self.excluded[row].any()):
            raise SpecError("settings-exclude", column=self.rule.column)
        return self.chances.draw(rng, row)


class EuPeople:
    """Exactly ``persons`` persons of a country with these areas; sorted by place of residence.

    >>> people = EuPeople(1_000, seed=7)
    >>> sum(batch.num_rows for batch in people.batches())
    1000
    """

    def __init__(
        self,
        persons: int,
        seed: int,
        areas: population_settings.EuAreas | None = None,
        settings: population_settings.EuSettings | None = None,
    ):
        self.persons, self.seed, self.areas = persons, seed, population_settings.EuAreas() if areas is None else areas
        self.settings = settings or population_settings.load_eu_settings()
        self.country = population_settings.Country(self.settings.country, self.areas)
        self.document: dict[str, Any] = population_settings.schema_document(self.settings, self.country)
        self.schema: Schema = parse_schema(self.document)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the records: text, in dictionaries."""
        kind = pa.dictionary(pa.int32(), pa.string())
        return pa.schema([pa.field(attribute.name, kind, nullable=False) for attribute in self.schema.attributes])

    @cached_property
    def sizes(self) -> population_settings.Ints:
        """The persons of each local unit."""
        rng = population_settings.stream(self.seed, _SIZES)
        return population_settings.apportion_one(
            self.persons, population_settings.spread_out(rng, self.settings.places.spread, self.areas.lau)
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The records, a batch at a time."""
        columns = [self._column(rule) for rule in self.settings.drawn]
        localities = self._localities()
        region = np.array(self.country.unit_of("nuts2"))
        last = np.cumsum(self.sizes)
        dictionaries = {a.name: pa.array([str(level.code) for level in a.levels]) for a in self.schema.attributes}
        for number, start in enumerate(range(0, self.persons, BATCH)):
            rng = population_settings.stream(self.seed, _PEOPLE, number)
            persons = min(BATCH, self.persons - start)
            place = np.searchsorted(last, np.arange(start, start + persons), side="right")
            drawn: dict[str, population_settings.Ints] = {PLACE: place}
            drawn[self.settings.places.column] = localities.draw(rng, place)
            for column in columns:
                levels = column.draw(rng, drawn, persons)
                if column.rule.own_region:
                    levels = self._regions(rng, levels, region[place])
                drawn[column.rule.column] = levels
            yield pa.record_batch(
                [
                    pa.DictionaryArray.from_arrays(pa.array(drawn[name].astype(np.int32)), dictionary)
                    for name, dictionary in dictionaries.items()
                ],
                schema=self.arrow_schema,
            )

    def _column(self, rule: population_settings.EuVariableRule) -> _Column:
        attribute = next(each for each in self.schema.attributes if each.name == rule.column)
        table: Floats = np.ones((1, 1)) if rule.weights is None else np.array([rule.weights], np.float64)
        by = []
        for name, rows in rule.by.items():
            variable = self.schema.variable(name)
            factor = np.array(rows, np.float64)
            assert len(factor) == variable.size, f"{rule.column}: one row for each group of {name}"
            table = (table[:, None, :] * factor[None, :, :]).reshape(-1, factor.shape[1])
            by.append((variable.attribute.name, variable.assignment, variable.size))
        if rule.groups is not None:
            table = self._within_groups(table, rule.groups, rule.zipf)
        expected = attribute.size - (self.areas.nuts2 - 2 if rule.own_region else 0)
        assert table.shape[1] == expected, f"{rule.column}: one weight for each level"
        if rule.spread:
            table = self._spread_out(table, rule)
            by = [(PLACE, np.arange(self.areas.lau), self.areas.lau)]
        excluded = table.sum(axis=1) == 0
        return _Column(rule, population_settings.Chances(np.where(excluded[:, None], 1.0, table)), excluded, tuple(by))

    def _within_groups(self, table: Floats, name: str, zipf: float) -> Floats:
        """Weights of groups as weights of their levels."""
        group = self.schema.variable(name).assignment
        rank = np.array([np.count_nonzero(group[:at] == group[at]) + 1 for at in range(len(group))])
        share = rank.astype(np.float64) ** -zipf
        of_level: Floats = table[:, group] * (share / np.bincount(group, share)[group])
        return of_level

    def _spread_out(self, table: Floats, rule: population_settings.EuVariableRule) -> Floats:
        """A row for each local unit, where all levels but the first have the unit's own factor."""
        rng = population_settings.stream(self.seed, _SPREAD, self.settings.drawn.index(rule))
        rows = np.repeat(table, self.areas.lau, axis=0)
        rows[:, 1:] *= population_settings.spread_out(rng, rule.spread, self.areas.lau)[:, None]
        return rows

    def _localities(self) -> population_settings.Chances:
        """Sizes of localities by local unit: some live in one as large as the unit, others in smaller ones."""
        places = self.settings.places
        largest = np.searchsorted(np.array(places.sizes), self.sizes, side="right") - 1
        weights = np.zeros((self.areas.lau, len(places.sizes)))
        for step, weight in enumerate(places.smaller):
            np.add.at(weights, (np.arange(self.areas.lau), np.maximum(largest - step, 0)), weight)
        return population_settings.Chances(weights)

    def _regions(
        self, rng: np.random.Generator, drawn: population_settings.Ints, own: population_settings.Ints
    ) -> population_settings.Ints:
        """Own region, another one, or what is no region, as levels of a column that has the regions first."""
        regions = self.areas.nuts2
        other = own if regions == 1 else (own + rng.integers(1, regions, len(own))) % regions
        levels: population_settings.Ints = np.where(drawn == 0, own, np.where(drawn == 1, other, drawn - 2 + regions))
        return levels


MOST_PERSONS = 400_000_000
MOST_AREAS = 100_000
LARGEST_SEED = 2**64 - 1
PUBLIC = 0o644


class EuFiles(NamedTuple):
    """Where the people, their schema and the tables were written."""

    records: Path
    schema: Path
    tables: Path


def write_eu(folder: str | Path, persons: int, seed: int, areas: population_settings.EuAreas | None = None) -> EuFiles:
    """Made-up people with the variables of the EU census programme, their schema, and the tables of the programme.

    Args:
        folder: It is made if it is not there; files of these names are replaced.
        persons: How many.
        seed: The same seed gives the same people.
        areas: How many units each level of the country has.

    Returns:
        The paths of the records, the schema and the tables.

    The same persons, seed and areas give the same bytes with the same versions of numpy and pyarrow.

    >>> sorted(file.name for file in (write_eu(tmp_path, persons=200, seed=7).records,))
    ['persons.parquet']
    """
    areas = population_settings.EuAreas() if areas is None else areas
    check_eu(persons, seed, areas)
    folder = Path(folder)
    target = EuFiles(folder / "persons.parquet", folder / "schema.toml", folder / "tables.toml")
    people = EuPeople(persons, seed, areas)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_records(people, target.records)
        write_text(target.schema, population_settings.render_schema(people.document), mode=PUBLIC)
        write_text(
            target.tables,
            population_settings.render_tables(population_settings.programme_tables(people.settings)),
            mode=PUBLIC,
        )
    except OSError as error:
        raise cannot_write(folder, error, 10) from error
    return target


def _write_records(people: EuPeople, path: Path) -> None:
    # Readers get plain text, and not how Arrow held it here.
    with (
        whole_file(path, mode=PUBLIC) as temporary,
        pq.ParquetWriter(temporary, people.arrow_schema, compression="zstd", store_schema=False) as writer,
    ):
        for batch in people.batches():
            writer.write_batch(batch)
        writer.add_key_value_metadata({"confide.population": json.dumps(_identity(people), sort_keys=True)})


def _identity(people: EuPeople) -> dict[str, object]:
    """What decides every byte of the files."""
    return {
        "made_up": "nothing here comes from a real person or place",
        "persons": people.persons,
        "seed": people.seed,
        "areas": list(people.areas),
        "settings": people.settings.id,
        "settings_sha256": sha256(people.settings.model_dump_json().encode()).hexdigest(),
        "generator": [DRAWS, GENERATOR],
    }


def check_eu(persons: int, seed: int, areas: population_settings.EuAreas) -> None:
    """Refuses numbers of people and areas that cannot be made."""
    findings = []
    if not 1 <= persons <= MOST_PERSONS:
        findings.append(
            Finding.of("persons-out-of-range/number-made-up", found=str(persons), most_persons=MOST_PERSONS)
        )
    if not 0 <= seed <= LARGEST_SEED:
        findings.append(Finding.of("seed-out-of-range/made-up-people", found=str(seed)))
    if not all(1 <= upper <= lower <= MOST_AREAS for upper, lower in pairwise((1, *areas))):
        found = ", ".join(
            f"{number:,} {level}" for level, number in zip(population_settings.LEVELS, areas, strict=True)
        )
        findings.append(Finding.of("areas-out-of-range", found=found, most_areas=MOST_AREAS))
    if findings:
        raise ParameterError(findings)


# A made-up European country: persons in households, municipalities with irregular codes and names.


COLUMNS = ("sex", "age", "coc", "pob", "edu", "cas")
"""The variables of the programme that the country has."""
SCHEMA = "eu-persons"
PERSONS_OF_A_MUNICIPALITY = 120
# What a stream is for; the numbers follow those of `eu`.
_HOUSEHOLDS, _CODES = 110, 111
_ADULTS = (0.45, 0.45, 0.08, 0.02)
"""The chances of one to four adults in a household."""
_CHILDREN = 15
"""Younger people are children, who live with an adult wherever there is one."""
_SYLLABLES = (
    ("Ash", "Berg", "Dal", "Falk", "Grün", "Hol", "Kar", "Lin", "Mar", "Nord", "Öst", "Rau", "Sund", "Tor", "Val"),
    ("", "en", "er", "in", "les", "mark", "o", "wy"),
    ("bach", "borg", "by", "felden", "haven", "holm", "stad", "ville", "wald", "vik"),
)  # fmt: skip


class EuCountryFiles(NamedTuple):
    """Where the people and the municipalities were written."""

    persons: Path
    areas: Path


def areas_for(persons: int) -> population_settings.EuAreas:
    """A country of a size that suits so many people: municipalities of about a hundred each, two regions."""
    lau = min(max(12, persons // PERSONS_OF_A_MUNICIPALITY), 5_000)
    return population_settings.EuAreas(1, 2, max(4, min(lau // 8, 40)), lau)


def write_eu_country(
    folder: str | Path, persons: int, seed: int, areas: population_settings.EuAreas | None = None
) -> EuCountryFiles:
    """A made-up European country.

    Args:
        folder: It is made if it is not there; files of these names are replaced.
        persons: How many people.
        seed: The same seed gives the same country.
        areas: How many regions and municipalities; by default as many as suit the people.

    Returns:
        The paths of the people and of the municipalities. The schema of the people ships: ``eu-persons``.

    >>> write_eu_country(tmp_path, persons=500, seed=7).persons.name
    'persons.parquet'
    """
    folder = Path(folder)
    target = EuCountryFiles(folder / "persons.parquet", folder / "areas.csv")
    areas = areas_for(persons) if areas is None else areas
    check_eu(persons, seed, areas)
    people = EuPeople(persons, seed, areas)
    codes = municipality_codes(people.areas.lau, seed)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(target.areas, mode=PUBLIC) as temporary:
            pa_csv.write_csv(area_table(people, codes, seed), temporary)
        with whole_file(target.persons, mode=PUBLIC) as temporary:
            table = pa.Table.from_batches(list(_people(people, codes)))
            pq.write_table(table, temporary, compression="zstd")
    except OSError as error:
        raise cannot_write(folder, error, 10) from error
    return target


def municipality_codes(number: int, seed: int) -> list[str]:
    """Codes that no rule makes: with and without leading zeros and letters, each once."""
    rng = population_settings.stream(seed, _CODES)
    numbers = rng.permutation(np.arange(1, 10 * number + 1))[:number]
    forms = rng.integers(0, 6, number)
    letters = rng.integers(0, 26, number)
    shapes = ("{n:03d}", "{n}", "{a}{n:02d}", "{n:03d}{a}", "{a}-{n}", "0{n}{a}")
    # A number is in one code alone, so that no two are equal in whatever form.
    return [
        shapes[form].format(n=int(n), a=chr(65 + int(letter)))
        for n, form, letter in zip(numbers, forms, letters, strict=True)
    ]


def area_table(people: EuPeople, codes: list[str], seed: int) -> pa.Table:
    """The municipalities with their names and regions, in no order of their codes."""
    country, rng = people.country, population_settings.stream(seed, _CODES, 1)
    columns = {"lau": codes, "lau_name": _names(len(codes), rng)}
    for level in ("nuts3", "nuts2"):
        units = country.unit_of(level)
        named = _names(len(country.codes[level]), rng)
        columns[level] = [country.codes[level][unit] for unit in units]
        columns[f"{level}_name"] = [f"{named[unit]} region" for unit in units]
    return pa.table(columns)


def _names(number: int, rng: np.random.Generator) -> list[str]:
    """Names, each once: a number is added where syllables give one twice."""
    drawn = ["".join(part[int(rng.integers(len(part)))] for part in _SYLLABLES) for _ in range(number)]
    times: dict[str, int] = {}
    names = []
    for name in drawn:
        times[name] = times.get(name, 0) + 1
        names.append(name if times[name] == 1 else f"{name} {times[name]}")
    return names


def _people(people: EuPeople, codes: list[str]) -> Iterator[pa.RecordBatch]:
    number = 0
    for position, batch in enumerate(people.batches()):
        place = batch.column("geo").indices.to_numpy().astype(np.int64)
        age = batch.column("age").indices.to_numpy().astype(np.int64)
        household = households(place, age, population_settings.stream(people.seed, _HOUSEHOLDS, position)) + number
        number = int(household.max()) + 1
        columns = {"lau": pa.array(codes, pa.string()).take(pa.array(place)), "household": pa.array(household)}
        columns |= {name: batch.column(name).cast(pa.string()) for name in COLUMNS}
        yield pa.record_batch(columns)


def households(
    place: population_settings.Ints, age: population_settings.Ints, rng: np.random.Generator
) -> population_settings.Ints:
    """For each person the number of a household: people of one place, a child with an adult wherever there is one.

    Args:
        place: The municipality of each person.
        age: The age in years.
        rng: What is drawn from.

    Returns:
        Numbers from zero.

    >>> households(np.array([0, 0, 1]), np.array([40, 5, 80]), np.random.default_rng(1)).tolist()
    [0, 0, 1]
    """
    household = np.empty(len(place), np.int64)
    order, number = np.argsort(place, kind="stable"), 0
    for members in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
        adults, children = members[age[members] >= _CHILDREN], members[age[members] < _CHILDREN]
        sizes = rng.choice(np.arange(1, len(_ADULTS) + 1), len(adults), p=_ADULTS)
        of_adult = np.repeat(np.arange(len(sizes)), sizes)[: len(adults)]
        made_homes = int(of_adult[-1]) + 1 if len(adults) else 1
        household[rng.permutation(adults)] = number + of_adult
        household[children] = number + rng.integers(0, made_homes, len(children))
        number += made_homes
    return household
