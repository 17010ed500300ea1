"""A comparison of an office's own country: text codes, levels by columns, irregular codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kits.own_country import DATA, GEOGRAPHY, MUNICIPALITIES, people, write_country
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app
from confide.errors import ConfideError
from confide.inputs.frame import LevelRule
from confide.lab.comparison import ComparedAreas, compare, load_comparison

PROGRAMME = """
[programme]
id = "norland"
schema = "schema.toml"
attributes = ["kjonn", "alder", "tro"]
known = ["kjonn", "alder"]
learnt = ["tro"]
levels = ["region", "district"]
household = "hus"
[[programme.tables]]
name = "faith"
variables = ["tro"]
judged = true
[[programme.tables]]
name = "sex-by-age"
variables = ["kjonn", "alder"]
[[programme.tables]]
name = "everything"
variables = ["kjonn", "alder:broad", "tro"]
[[programme.tables]]
name = "age-by-faith"
variables = ["alder", "tro"]
"""
PROTECTIONS = """
[[protections]]
name = "heavy"
mechanism = "swapping"
settings = "heavy"
[[protections]]
name = "hidden"
mechanism = "suppression"
threshold = 1
[[protections]]
name = "keyed"
mechanism = "cellkey"
[[protections]]
name = "noisy"
mechanism = "tables"
budget = "2"
[[protections]]
name = "down"
mechanism = "topdown"
budget = "1000"
[attack]
attacker = "coverage=0.5,block_error=0.5"
noisy_blocks = 2
processes = 1
"""


def spec_text(programme: str = PROGRAMME, protections: str = PROTECTIONS, geography: str = GEOGRAPHY) -> str:
    unit = geography.replace("[geography]", '[geography]\nsmallest = "municipality"')
    return f'[comparison]\ntitle = "Norland"\nseed = 3\n{DATA}{unit}{programme}{protections}'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_country(tmp_path_factory.mktemp("norland"))
    (folder / "spec.toml").write_text(spec_text(), encoding="utf-8")
    compare(folder / "spec.toml", folder / "out", processes=1)
    return folder


def by_name(made: Path) -> dict[str, Any]:
    numbers = json.loads((made / "out/comparison.json").read_text())
    return {each["name"]: each for each in numbers["protections"]}


def test_every_protection_is_made_and_judged_on_the_countrys_own_levels(made: Path) -> None:
    numbers = json.loads((made / "out/comparison.json").read_text())
    assert numbers["areas"] == {"region": 2, "district": 4, "block": len(MUNICIPALITIES)}
    assert numbers["levels"] == ["region", "district", "block"]
    assert list(numbers["characteristics"])[:3] == ["population", "faith: Lutheran", "faith: Catholic"]
    for name in ("heavy", "keyed", "noisy", "down"):
        assert api.verify(made / "out" / name / "run/release").ok, name
    found = by_name(made)
    assert all(
        item["mean_absolute_error"] == 0 for level in found["none"]["errors"].values() for item in level.values()
    )
    assert found["none"]["sums_agree"]["all"]
    assert found["down"]["sums_agree"]["all"]
    assert found["hidden"]["cells_published"]["block"] < 1


def test_the_true_tables_are_those_of_a_plain_count(made: Path) -> None:
    """Levels by columns: the counts of a region are those of its municipalities, whatever their codes begin with."""
    mean = by_name(made)["none"]["errors"]["region"]["faith: Catholic"]["mean_true"]
    assert mean == sum(person["tro"] == "K" for person in people()) / 2
    records = pa.Table.from_pylist(people())
    assert records.num_rows == json.loads((made / "out/comparison.json").read_text())["persons"]


def test_areas_are_joined_by_the_list_and_not_by_its_order() -> None:
    """The list of areas in any order: the true counts of a district are those of its municipalities."""
    rules = [LevelRule("region", column="landsdel"), LevelRule("district", column="fylke")]
    rows = [{"geocode": code, "fylke": d, "landsdel": r} for code, (d, r, _) in MUNICIPALITIES.items()]
    for listed in (rows, rows[::-1], sorted(rows, key=lambda row: row["fylke"])):
        areas = ComparedAreas.of(pa.Table.from_pylist(listed), rules, ("region", "district", "block"))
        for code, (district, region, _) in MUNICIPALITIES.items():
            block = areas.blocks.index(code)
            assert areas.codes["district"][areas.unit_of_block["district"][block]] == district
            assert areas.codes["region"][areas.unit_of_block["region"][block]] == region


def test_true_tables_give_faith_away_and_an_attack_that_joined_areas_wrongly_would_not_find_it(made: Path) -> None:
    """By hand: who is alone of an age in a municipality has the faith that the table of age by faith shows."""
    everybody = by_name(made)["none"]["attack"]["perfect"]["universes"]["all"]
    assert everybody["records"] == everybody["putative"] == len(people())
    certain = [
        person
        for person in people()
        if sum(other["kommune"] == person["kommune"] and other["alder"] == person["alder"] for other in people()) == 1
    ]
    assert certain
    assert everybody["confirmed"] >= len(certain)
    exposed = by_name(made)["none"]["attack"]["perfect"]["universes"]["unique&nonmodal&solvar0"]
    assert exposed["precision"] == 1
    assert by_name(made)["none"]["attack"]["perfect"]["agreement"] > 0.6


def test_as_good_as_no_noise_is_as_good_as_the_truth(made: Path) -> None:
    found = by_name(made)
    assert found["down"]["attack"]["perfect"]["agreement"] > found["none"]["attack"]["perfect"]["agreement"] - 0.1
    assert found["down"]["errors"]["region"]["faith: Muslim"]["mean_absolute_error"] < 1


def test_the_page_has_the_countrys_words_and_none_of_another(made: Path) -> None:
    page = (made / "out/comparison.html").read_text(encoding="utf-8")
    text = page[page.index("<h1>") :].replace("block_error=", "")  # what the list of the spec is called
    assert "sex, age, faith of people" in text or "sex, age and faith of people" in text
    assert "is right about their faith" in text
    assert "8 inhabited municipalities" in text
    for foreign in ("block", "county", "tract", "race", "Hispanic", "origin"):
        assert not re.search(rf"\b{foreign}", re.sub(r"<[^>]*>", " ", text)), foreign


def test_the_command_prints_what_is_finished_in_the_countrys_words(made: Path) -> None:
    done = CliRunner().invoke(app, ["compare", str(made / "spec.toml"), "--out", str(made / "out")])
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "error: of the Lutheran of a region" in said
    assert "alone of their sex and age, not of the municipality's largest group" in said


@pytest.mark.parametrize(
    ("old", "new", "path", "what"),
    [
        ('known = ["kjonn", "alder"]', 'known = ["kjonn", "age"]', "programme.known[1]", "not one of the published"),
        ('learnt = ["tro"]', 'learnt = ["kjonn"]', "programme.known[0]", "not one of the published"),
        ('levels = ["region", "district"]', 'levels = ["county"]', "programme.levels[0]", "no such level"),
        ('levels = ["region", "district"]', 'levels = ["district", "region"]', "programme.levels", "their order"),
        ('variables = ["alder", "tro"]', 'variables = ["alder", "tru"]', "programme.tables[3].variables", "no varia"),
        ('"alder", "tro"]\nknown', '"alder:old", "tro"]\nknown', "programme.attributes[1]", "no such attribute"),
        ('name = "sex-by-age"\nvariables = ["kjonn", "alder"]', 'name = "sex-by-age"\nvariables = ["alder"]',
         "programme.tables", "no table tells the levels of 'kjonn'"),
        ("judged = true", 'judged = false\n[[programme.tables]]\nname = "x"\nvariables = []',
         "programme.tables[1].name", "the name is taken"),
    ],
)  # fmt: skip
def test_a_wrong_programme_is_a_finding_at_its_place(tmp_path: Path, old: str, new: str, path: str, what: str) -> None:
    write_country(tmp_path, 10)
    text = spec_text().replace('variables = ["kjonn", "alder:broad", "tro"]', 'variables = ["alder:broad", "tro"]')
    assert old in text
    (tmp_path / "spec.toml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfideError) as caught:
        load_comparison(tmp_path / "spec.toml")
    assert any(each.where.path == path and what in each.what for each in caught.value.findings), caught.value
    assert all(each.remedy and each.expected and each.found for each in caught.value.findings)


def test_an_attribute_in_groups_alone_is_refused(tmp_path: Path) -> None:
    write_country(tmp_path, 10)
    text = spec_text().replace('variables = ["kjonn", "alder"]', 'variables = ["kjonn", "alder:broad"]')
    text = text.replace('variables = ["alder", "tro"]', 'variables = ["alder:broad", "tro"]')
    (tmp_path / "spec.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfideError, match="no table tells the levels of 'alder' apart"):
        load_comparison(tmp_path / "spec.toml")


def test_groups_that_cut_one_another_are_refused(tmp_path: Path) -> None:
    write_country(tmp_path, 10)
    more = '[attributes.tro.recodes.odd.groups]\n"one" = ["L", "I"]\n"two" = ["K", "N"]\n'
    schema = (tmp_path / "schema.toml").read_text(encoding="utf-8")
    (tmp_path / "schema.toml").write_text(schema.replace("[attributes.arbeid]", f"{more}[attributes.arbeid]"))
    tables = '[[programme.tables]]\nname = "a"\nvariables = ["tro:church"]\n'
    tables += '[[programme.tables]]\nname = "b"\nvariables = ["tro:odd"]\n'
    (tmp_path / "spec.toml").write_text(spec_text(PROGRAMME + tables), encoding="utf-8")
    with pytest.raises(ConfideError, match="cut one another"):
        load_comparison(tmp_path / "spec.toml")


def test_municipalities_that_do_not_nest_are_refused(tmp_path: Path) -> None:
    write_country(tmp_path, 10)
    geography = GEOGRAPHY.replace('column = "fylke"', 'column = "navn"').replace("landsdel", "fylke")
    areas = (tmp_path / "kommuner.csv").read_text(encoding="utf-8").replace('"Fjell"', '"Nes"')
    (tmp_path / "kommuner.csv").write_text(areas, encoding="utf-8")
    (tmp_path / "spec.toml").write_text(spec_text(geography=geography), encoding="utf-8")
    with pytest.raises(ConfideError) as caught:
        compare(tmp_path / "spec.toml", tmp_path / "out", processes=1)
    assert caught.value.findings[0].remedy
