"""Detailed codes of made-up people: the same for a seed, at one with their records, and unlike from place to place."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from confide.lab.population import RACES, SUBSETS, DetailedOrigins, OriginCodes, Population, load_origins
from confide.lab.population import settings as draw_module
from confide.lab.population.generate import NULL, ORIGINS_SCHEMA

PERSONS, SEED = 60_000, 7


def table(population: Population, lists: OriginCodes | None = None) -> pa.Table:
    """Records and codes side by side, as text and numbers."""
    parts = []
    for made in DetailedOrigins(population, lists).units():
        columns = {name: made.persons.column(name) for name in made.persons.schema.names}
        columns |= {name: made.origins.column(name) for name in made.origins.schema.names}
        columns["geocode"] = columns["geocode"].cast(pa.string())
        parts.append(pa.table(columns))
    return pa.concat_tables(parts)


@pytest.fixture(scope="module")
def people() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table(Population(PERSONS, SEED)).to_pylist()
    return rows


def race_codes(row: dict[str, object]) -> list[str]:
    return [str(row[f"QRACE{number}"]) for number in range(1, 9) if row[f"QRACE{number}"] != NULL]


def major_races() -> dict[str, int]:
    """From a code to its major race; Hispanic origins given as a race are Some Other Race."""
    lists = load_origins()
    majors = {code.code: place for place, major in enumerate(lists.races) for code in major.codes()}
    return majors | {code.code: RACES.index("other") for code in lists.hispanic.codes()}


def test_everybody_has_codes_and_no_code_follows_a_gap(people: list[dict[str, object]]) -> None:
    assert len(people) == PERSONS
    known = {code.code for code in load_origins().codes}
    for row in people:
        columns = [row[f"QRACE{number}"] for number in range(1, 9)]
        assert columns[0] != NULL
        assert all(after == NULL for before, after in pairwise(columns) if before == NULL)
        given = race_codes(row)
        assert len(given) == len(set(given))
        assert {*given, row["QSPAN"]} <= known


def test_codes_agree_with_race_and_ethnicity(people: list[dict[str, object]]) -> None:
    major = major_races()
    hispanic = {code.code for code in load_origins().hispanic.codes()}
    for row in people:
        assert {major[code] for code in race_codes(row)} == set(SUBSETS[int(str(row["cenrace"]))])
        assert (row["QSPAN"] in hispanic) == (row["hispanic"] == 1)
        assert (row["QSPAN"] == "9950") == (row["hispanic"] == 0)
        # An origin given as a race is one's own.
        assert {code for code in race_codes(row) if code in hispanic} <= {row["QSPAN"]}


def test_some_give_several_codes_of_a_race_and_some_their_origin_as_race(people: list[dict[str, object]]) -> None:
    major = major_races()
    white = [race_codes(row) for row in people if row["cenrace"] == 0]
    several = sum(len(codes) > 1 for codes in white) / len(white)
    assert 0.05 < several < 0.3
    assert any(len(codes) == 3 for codes in white)
    origins = [
        row for row in people if row["hispanic"] == 1 and RACES.index("other") in SUBSETS[int(str(row["cenrace"]))]
    ]
    as_race = sum(row["QSPAN"] in race_codes(row) for row in origins) / len(origins)
    assert abs(as_race - load_origins().people.origin_as_race) < 0.03
    # Who names no group gives no other code of the race.
    general = {major.code.split()[0] for major in load_origins().races}
    for codes in (race_codes(row) for row in people):
        for code in general.intersection(codes):
            assert sum(major[other] == major[code] for other in codes) == 1


def test_all_codes_occur_and_the_first_groups_are_the_largest() -> None:
    columns = table(Population(200_000, SEED)).select(ORIGINS_SCHEMA.names).columns
    given = pa.chunked_array([chunk for column in columns for chunk in column.cast(pa.string()).chunks])
    counts = {row["values"]: row["counts"] for row in given.value_counts().to_pylist() if row["values"] != NULL}
    assert set(counts) == {code.code for code in load_origins().codes}
    assert counts["1110"] > 3 * counts["1170"]  # the first and the last European group
    assert counts["1170"] > 5 * counts["1180"]  # a common group and a total-only one
    assert counts["7010"] > counts["7110"] > counts["7020"]


def test_households_mostly_agree(people: list[dict[str, object]]) -> None:
    homes = defaultdict(list)
    for row in people:
        if row["hhgq"] == 0 and row["cenrace"] == 0:
            homes[row["household_id"]].append(race_codes(row))
    shared = [len({tuple(codes) for codes in home}) == 1 for home in homes.values() if len(home) == 2]
    # Two persons both like their household with chance 0.92 squared, and a few more by accident.
    assert 0.83 < sum(shared) / len(shared) < 0.92


def test_places_differ_more_than_chance_would_have_it(people: list[dict[str, object]]) -> None:
    """A homogeneity test by tract on householders alone: chi-square far above its degrees of freedom."""
    heads = [row for row in people if row["relationship"] == 0 and row["cenrace"] == 0]
    tracts = sorted({str(row["geocode"])[:11] for row in heads})
    codes = [f"11{number}0" for number in range(1, 8)]
    seen = np.zeros((len(tracts), len(codes)))
    for row in heads:
        first = race_codes(row)[0]
        if first in codes:
            seen[tracts.index(str(row["geocode"])[:11]), codes.index(first)] += 1
    expected = seen.sum(axis=1, keepdims=True) * seen.sum(axis=0) / seen.sum()
    freedom = (len(tracts) - 1) * (len(codes) - 1)
    assert ((seen - expected) ** 2 / expected).sum() > 10 * freedom


def test_the_same_seed_gives_the_same_codes_in_any_order() -> None:
    population = Population(300_000, SEED)
    origins = DetailedOrigins(population)
    assert len(population.units) > 3
    forward = {made.unit: made.origins for made in origins.units()}
    again = DetailedOrigins(Population(300_000, SEED))
    for unit in reversed(population.units):
        assert again.batch(unit, *population.unit(unit)).equals(forward[unit])
    other = next(DetailedOrigins(Population(300_000, SEED + 1)).units()).origins
    assert not other.equals(forward[population.units[0]])


def test_records_and_frame_are_the_same_with_codes_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Population(30_000, SEED)
    without = [plain.unit(unit) for unit in plain.units]
    population = Population(30_000, SEED)
    asked: list[int] = []
    real = draw_module.stream

    def listening(seed: int, purpose: int, index: int = 0) -> np.random.Generator:
        asked.append(purpose)
        return real(seed, purpose, index)

    monkeypatch.setattr("confide.lab.population.generate.stream", listening)
    for made, (blocks, persons) in zip(DetailedOrigins(population).units(), without, strict=True):
        assert made.blocks.equals(blocks)
        assert made.persons.equals(persons)
    others = {draw_module.LAND, draw_module.COUNTY, draw_module.UNIT_FRAME, draw_module.UNIT_PEOPLE}
    assert asked
    assert others.isdisjoint(asked)


def test_eight_codes_at_most_and_no_race_is_lost() -> None:
    """With three codes of every race wanted, persons of many races have eight codes, and one of each race at least."""
    whole = load_origins().model_dump()
    lists = OriginCodes.model_validate(
        {**whole, "races": [{**major, "more": (0, 0, 1), "unspecified": 0.01} for major in whole["races"]]}
    )
    major = major_races()
    everybody = table(Population(300_000, SEED), lists)
    first = next(code for code, races in enumerate(SUBSETS) if len(races) == 4)
    rows = everybody.filter(pc.greater_equal(everybody["cenrace"], first)).to_pylist()
    assert any(len(race_codes(row)) == 8 for row in rows)
    for row in rows:
        assert {major[code] for code in race_codes(row)} == set(SUBSETS[row["cenrace"]])


def test_codes_are_text_and_never_null() -> None:
    made = next(DetailedOrigins(Population(1_000, SEED)).units())
    assert made.origins.schema == ORIGINS_SCHEMA
    assert made.origins.num_rows == made.persons.num_rows
    assert all(column.null_count == 0 for column in made.origins.columns)
