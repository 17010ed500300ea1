"""Made-up households in the layouts of SafeTab-H and PHSafe: they fit together, and follow from who lives together."""

from __future__ import annotations

from collections import Counter, defaultdict
from csv import DictReader
from pathlib import Path

import pytest

from confide.engines import LocalEngine, Source
from confide.lab.population import Population, write_official
from confide.lab.population.official import HOUSEHOLDS
from confide.mechanisms.phsafe.records import check_files
from confide.mechanisms.phsafe.tabulate import HouseholdFiles

PERSONS, SEED = 6_000, 7
Row = dict[str, str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("households")
    write_official(Population(PERSONS, SEED), made, households=True)
    return made


def read(path: Path, between: str = ",") -> list[Row]:
    with path.open(newline="") as file:
        return list(DictReader(file, delimiter=between))


@pytest.fixture(scope="module")
def units(folder: Path) -> list[Row]:
    return read(folder / HOUSEHOLDS / "units.csv")


@pytest.fixture(scope="module")
def members(folder: Path) -> dict[str, list[Row]]:
    found = defaultdict(list)
    for person in read(folder / HOUSEHOLDS / "persons.csv"):
        found[person["MAFID"]].append(person)
    return found


def test_nothing_is_wrong_or_odd_about_the_three_files(folder: Path, tmp_path: Path) -> None:
    files = HouseholdFiles(
        *(Source(folder / HOUSEHOLDS / f"{name}.csv", "csv") for name in ("persons", "units", "geo"))
    )
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        assert check_files(engine, files, ["01"], tmp_path / "known.parquet") == []


def test_couples_are_what_their_relationship_and_sex_say(units: list[Row], members: dict[str, list[Row]]) -> None:
    partner = {"1": "21", "2": "23", "3": "22", "4": "24"}
    seen = Counter(unit["CPLT"] for unit in units)
    assert set(seen) == set("012345")
    assert seen["1"] > seen["3"] > seen["4"]
    for unit in units:
        relationships = [person["RELSHIP"] for person in members[unit["MAFID"]]]
        expected = [partner[unit["CPLT"]]] if unit["CPLT"] in partner else []
        assert [each for each in relationships if each in partner.values()] == expected


def test_types_follow_from_who_lives_there(units: list[Row], members: dict[str, list[Row]]) -> None:
    for unit in (each for each in units if each["HHT2"] != "00"):
        people = members[unit["MAFID"]]
        young = any(each["RELSHIP"] in ("25", "26", "27") and int(each["QAGE"]) < 18 for each in people)
        relatives = any("25" <= each["RELSHIP"] <= "33" for each in people)
        kind = int(unit["HHT2"])
        if kind <= 4:
            assert unit["CPLT"] in ("12" if kind <= 2 else "34")
            assert young == (kind in (1, 3))
        else:
            place = 0 if len(people) == 1 else 1 if young else 2 if relatives else 3
            assert (kind - 5) % 4 == place
        assert (unit["HHT"] in "123") == (relatives or kind <= 2)
    assert set("1234567") <= {unit["HHT"] for unit in units}
    assert {f"{kind:02d}" for kind in range(13)} == {unit["HHT2"] for unit in units}


def test_everybody_has_a_relationship_and_every_relationship_occurs(members: dict[str, list[Row]]) -> None:
    seen = Counter(person["RELSHIP"] for people in members.values() for person in people)
    assert sum(seen.values()) == PERSONS
    assert set(seen) >= {str(code) for code in range(20, 39)} - {"24", "32"}, "32: nobody has a child-in-law"


def test_the_records_of_households_are_those_of_the_units(folder: Path, units: list[Row]) -> None:
    type_of = {"1": "1", "2": "2", "3": "3", "4": "4", "5": "5", "6": "4", "7": "5"}
    records = read(folder / "data/household-records.txt", "|")
    homes = [unit for unit in units if unit["HHT"] != "0"]
    columns = ("HHRACE", "HOUSEHOLD_TYPE", "TEN")
    of_units = Counter((unit["HHRACE"], type_of[unit["HHT"]], unit["TEN"]) for unit in homes)
    assert Counter(tuple(record[name] for name in columns) for record in records) == of_units
    assert set("1234") == {record["TEN"] for record in records}


def test_homes_without_people_and_group_quarters_are_units_too(units: list[Row]) -> None:
    empty = [unit for unit in units if unit["FINAL_POP"] == "0"]
    quarters = [unit for unit in units if unit["RTYPE"] == "4"]
    assert empty
    assert quarters
    outside = {(unit["NPF"], unit["HHSPAN"], unit["HHRACE"], unit["TEN"], unit["CPLT"]) for unit in empty + quarters}
    assert outside == {("0", "0", "00", "0", "0")}


def test_the_files_of_persons_are_the_same_with_households(folder: Path, tmp_path: Path) -> None:
    write_official(Population(PERSONS, SEED), tmp_path)
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert {path: (tmp_path / path).read_bytes() for path in files} == {
        path: (folder / path).read_bytes() for path in files
    }
