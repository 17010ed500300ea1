"""The made-up European country: irregular codes, names, regions by columns, households, and a comparison of it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from confide import simulate
from confide.documents import load_schema
from confide.errors import ConfideError
from confide.lab.comparison import compare
from confide.lab.population.eu import COLUMNS, EuPeople, municipality_codes
from confide.schema import Schema

PERSONS = 4_000


@pytest.fixture(scope="module")
def country(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("country")
    simulate(folder, persons=PERSONS, seed=7, layout="eu-country")
    return folder


def areas(country: Path) -> dict[str, list[str]]:
    options = pa_csv.ConvertOptions(column_types=dict.fromkeys(("lau", "nuts3", "nuts2"), "string"))
    return pa_csv.read_csv(country / "areas.csv", convert_options=options).to_pydict()


def test_codes_are_irregular_and_say_nothing_of_the_region(country: Path) -> None:
    listed = areas(country)
    assert len(set(listed["lau"])) == len(listed["lau"]) == len(set(listed["lau_name"]))
    assert len({len(code) for code in listed["lau"]}) > 2
    assert any(code.startswith("0") for code in listed["lau"])
    assert any(not code.isdigit() for code in listed["lau"])
    above = dict(zip(listed["nuts3"], listed["nuts2"], strict=True))
    assert all(above[a] == b for a, b in zip(listed["nuts3"], listed["nuts2"], strict=True))
    codes = municipality_codes(5_000, 3)
    assert len(set(codes)) == len(codes)


def test_people_fit_the_schema_that_ships_and_their_municipalities(country: Path) -> None:
    schema: Schema = load_schema("eu-persons", Path())
    people = pq.read_table(country / "persons.parquet").to_pydict()
    assert len(people["lau"]) == PERSONS
    assert set(people["lau"]) <= set(areas(country)["lau"])
    drawn = EuPeople(100, 7).schema
    for name in COLUMNS:
        attribute = schema.variable(name).attribute
        assert set(people[name]) <= set(attribute.index)
        assert attribute.levels == drawn.variable(name).attribute.levels
    ours = {recode.name: recode.groups for recode in schema.recodes}
    assert ours == {recode.name: recode.groups for recode in drawn.recodes if recode.attribute.name in COLUMNS}


def test_households_lie_in_one_place_and_children_live_with_adults(country: Path) -> None:
    people = pq.read_table(country / "persons.parquet").to_pylist()
    members = defaultdict(list)
    for person in people:
        members[person["household"]].append(person)
    assert all(len({person["lau"] for person in home}) == 1 for home in members.values())
    child = {f"Y{age}" for age in range(15)}
    alone = [home for home in members.values() if all(person["age"] in child for person in home)]
    places = {person["lau"] for person in people if person["age"] not in child}
    assert not [home for home in alone if home[0]["lau"] in places]
    assert 1.5 < PERSONS / len(members) < 3.5


def test_the_same_seed_gives_the_same_country(country: Path, tmp_path: Path) -> None:
    simulate(tmp_path, persons=PERSONS, seed=7, layout="eu-country")
    for name in ("persons.parquet", "areas.csv"):
        assert (tmp_path / name).read_bytes() == (country / name).read_bytes()


def test_no_other_layouts(tmp_path: Path) -> None:
    for wrong in ({"layout": "mars"}, {"layout": "eu-country", "detailed": True}):
        with pytest.raises(ConfideError) as caught:
            simulate(tmp_path, persons=100, seed=7, **wrong)
        assert caught.value.findings[0].remedy


def test_a_comparison_makes_the_country_up(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        '[comparison]\nmade_up = 900\nprogramme = "eu-country"\n'
        '[[protections]]\nname = "swap"\nmechanism = "swapping"\n'
        "[attack]\nblocks = 4\nprocesses = 1\n"
    )
    compare(tmp_path / "spec.toml", tmp_path / "out", processes=1)
    numbers = json.loads((tmp_path / "out/comparison.json").read_text())
    assert numbers["areas"] == {"nuts2": 2, "nuts3": 4, "block": 12}
    assert numbers["words"]["learnt"] == "citizenship"
    none = numbers["protections"][0]
    assert none["attack"]["perfect"]["universes"]["all"]["putative_rate"] == 1
