"""A made-up European country: persons in households, municipalities with irregular codes and names.

    persons.parquet   one row for each person: lau, household, sex, age, coc, pob, edu, cas (schema: eu-persons)
    areas.csv         one row for each municipality: lau, lau_name, nuts3, nuts3_name, nuts2, nuts2_name

The people are those of the EU census programme (:mod:`confide.population.eu`), with some of their variables. Their
municipalities have codes as offices have them after decades of mergers: of different lengths, with letters, and without
a word about the region. Households are made of the people of a municipality. What they are like:
``docs/concepts/made-up-people.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from confide.engines.groups import whole_file
from confide.population.eu import PUBLIC, EuPeople, check_eu
from confide.population.eu_settings import EuAreas
from confide.population.generate import cannot_write
from confide.population.settings import Ints, stream

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


def areas_for(persons: int) -> EuAreas:
    """A country of a size that suits so many people: municipalities of about a hundred each, two regions."""
    lau = min(max(12, persons // PERSONS_OF_A_MUNICIPALITY), 5_000)
    return EuAreas(1, 2, max(4, min(lau // 8, 40)), lau)


def write_eu_country(folder: str | Path, persons: int, seed: int, areas: EuAreas | None = None) -> EuCountryFiles:
    """A made-up European country.

    Args:
        folder: It is made if it is not there; files of these names are replaced.
        persons: How many people.
        seed: The same seed gives the same country.
        areas: How many regions and municipalities; by default as many as suit the people.

    Returns:
        The paths of the people and of the municipalities. The schema of the people ships: ``eu-persons``.
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
    rng = stream(seed, _CODES)
    numbers = rng.permutation(np.arange(1, 10 * number + 1))[:number]
    forms = rng.integers(0, 6, number)
    letters = rng.integers(0, 26, number)
    shapes = ("{n:03d}", "{n}", "{a}{n:02d}", "{n:03d}{a}", "{a}-{n}", "0{n}{a}")
    # A number stands in one code alone, so that no two are equal in whatever form.
    return [
        shapes[form].format(n=int(n), a=chr(65 + int(letter)))
        for n, form, letter in zip(numbers, forms, letters, strict=True)
    ]


def area_table(people: EuPeople, codes: list[str], seed: int) -> pa.Table:
    """The municipalities with their names and regions, in no order of their codes."""
    country, rng = people.country, stream(seed, _CODES, 1)
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
        household = households(place, age, stream(people.seed, _HOUSEHOLDS, position)) + number
        number = int(household.max()) + 1
        columns = {"lau": pa.array(codes, pa.string()).take(pa.array(place)), "household": pa.array(household)}
        columns |= {name: batch.column(name).cast(pa.string()) for name in COLUMNS}
        yield pa.record_batch(columns)


def households(place: Ints, age: Ints, rng: np.random.Generator) -> Ints:
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
