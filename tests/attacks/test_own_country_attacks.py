"""Tabulate, reconstruct and re-identify in a country whose codes and areas are nothing like those of the U.S."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.kits import own_country
from tests.kits.own_country import MUNICIPALITIES, people
from typer.testing import CliRunner

from confide.cli.main import app
from confide.errors import ConfideError
from confide.lab.attacks import (
    AttackerSettings,
    read_areas,
    read_source,
    reconstruct,
    reidentification_rates,
    reidentify_files,
    tabulate_records,
)
from confide.lab.attacks.reidentification import linked_attributes
from confide.lab.published.published_rows import _by_prefix

LEVELS = ["region=landsdel", "district=fylke"]


def command(*words: Any) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


@pytest.fixture(scope="module")
def country(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_country.write_country(tmp_path_factory.mktemp("norland"))


@pytest.fixture(scope="module")
def tables(country: Path) -> Path:
    folder = country / "tables"
    words = ["attack", "tabulate", country / "people.csv", "--out", folder, "--schema", country / "schema.toml"]
    words += ["--geography", country / "kommuner.csv", "--block", "kommune"]
    command(*words, *(word for level in LEVELS for word in ("--geography-level", level)))
    return folder


def test_all_pairs_of_attributes_on_every_level_are_those_of_a_plain_count(tables: Path) -> None:
    published = read_source(tables)
    assert published.geography.levels == ("block", "district", "region")
    assert len(published.marginals) == 6 * 3
    assert "001" in published.geography.blocks
    place = {code: region for code, (_, region, _) in MUNICIPALITIES.items()}
    marginal = next(m for m in published.marginals if m.depth == 2 and m.query.name == "kjonn*tro")
    counted = Counter((place[p["kommune"]], p["kjonn"], p["tro"]) for p in people())
    for unit, region in enumerate(published.geography.units[2]):
        expected = [counted[region, sex, faith] for sex in "KM" for faith in "LKIN"]
        assert marginal.counts(unit).tolist() == expected


def test_the_attack_finds_the_people_and_the_one_who_knows_them_recognises_their_faith(
    country: Path, tables: Path
) -> None:
    out = country / "found.parquet"
    answer = command("attack", "reconstruct", tables, "--out", out, "--level", "block")
    assert answer["persons"] == len(people())
    found = pq.read_table(out)
    assert set(found.column("geocode").to_pylist()) <= set(MUNICIPALITIES)
    words = ["attack", "reidentify", out, "--truth", country / "people.parquet", "--attacker-from-truth", "perfect"]
    words += ["--columns", "truth:geocode=kommune", "--known", "kjonn", "--known", "alder", "--learn", "tro"]
    rates = command(*words)
    everybody = rates["reidentification"]["all"]
    assert everybody["putative"] == len(people())
    alone = [
        person
        for person in people()
        if sum(p["kommune"] == person["kommune"] and p["alder"] == person["alder"] for p in people()) == 1
    ]
    assert everybody["confirmed"] >= len(alone) > 0
    assert rates["age_bins"] == "none"


def test_groups_of_published_tables_are_compared_as_groups(country: Path, tmp_path: Path) -> None:
    """Tables that show faith in two groups leave its code open: as codes nobody would be matched, and that is said."""
    (tmp_path / "own.toml").write_text(
        'title = "Two \\"tables\\""\n[[tables]]\nname = "A b"\nqueries = ["kjonn*alder:broad"]\n'
        '[[tables]]\nname = "a B"\nlevel = "block"\nqueries = ["alder:broad*tro:church", "kjonn*tro:church"]\n'
    )
    words = ["attack", "tabulate", country / "people.parquet", "--out", tmp_path / "t", "--block", "kommune"]
    words += ["--describe", tmp_path / "own.toml", "--schema", country / "schema.toml"]
    command(*words, "--geography", country / "kommuner.csv")
    out = tmp_path / "found.csv"
    command("attack", "reconstruct", tmp_path / "t", "--out", out)
    words = ["attack", "reidentify", out, "--truth", country / "people.parquet", "--attacker-from-truth", "perfect"]
    words += ["--columns", "truth:geocode=kommune", "--known", "kjonn"]
    refused = CliRunner().invoke(app, [*map(str, words), "--learn", "tro", "--json"])
    assert refused.exit_code == 1
    assert isinstance(refused.exception, ConfideError)
    assert refused.exception.findings[0].code == "no-values"
    grouped = ["--known", "alder:broad", "--learn", "tro:church", "--schema", country / "schema.toml"]
    everybody = command(*words, *grouped)["reidentification"]["all"]
    assert everybody["putative"] == len(people())
    assert everybody["confirmed"] > 0


def test_every_known_and_every_learnt_attribute_counts() -> None:
    """Three people of one place: who knows two attributes of them tells them apart, and is right if both others are."""
    truth = {"person_id": [1, 2, 3], "geocode": ["x"] * 3, "a": ["1", "1", "2"], "b": ["p", "q", "q"]}
    truth |= {"c": ["u", "v", "v"], "d": ["g", "g", "h"]}
    found = {name: truth[name] for name in ("geocode", "a", "b", "c")} | {"d": ["g", "h", "h"]}
    linked = linked_attributes(["a", "b"], ["c", "d"])
    rates = reidentification_rates(pa.table(found), pa.table(truth), pa.table(truth), linked=linked)
    everybody = rates.universe("all")
    assert (everybody.putative, everybody.confirmed) == (3, 2)
    assert rates.population_unique_share == 1
    found["b"] = ["p", "z", "q"]
    rates = reidentification_rates(pa.table(found), pa.table(truth), pa.table(truth), linked=linked)
    assert (rates.universe("all").putative, rates.universe("all").confirmed) == (2, 2)


def test_codes_of_different_lengths_that_begin_alike_are_not_joined() -> None:
    """Every municipality begins with the code of a region, by chance; nothing says that it lies there."""
    spine = ["region", "block"]
    regular = _by_prefix({"region": ["1", "2"], "block": ["11", "12", "21"]}, spine)
    assert regular.levels == ("block", "region")
    by_chance = _by_prefix({"region": ["1", "2"], "block": ["1", "12", "21", "2X"]}, spine)
    assert by_chance.levels == ("block",)


def test_codes_are_read_as_the_schema_spells_them(country: Path, tmp_path: Path) -> None:
    """Two thirds of the women are written otherwise than K: the tables and the matches are the same."""
    schema = (country / "schema.toml").read_text(encoding="utf-8")
    spelled = schema.replace('title = "Sex"', 'title = "Sex"\naliases = { K = ["woman", "W"] }\nignore_case = true')
    (tmp_path / "schema.toml").write_text(spelled, encoding="utf-8")
    rows = people()
    for number, person in enumerate(rows):
        person["kjonn"] = {"K": ("K", "Woman", "w"), "M": ("M", "m", "M")}[person["kjonn"]][number % 3]
    pa_csv.write_csv(pa.Table.from_pylist(rows), tmp_path / "people.csv")
    words = {"schema": tmp_path / "schema.toml", "geography": country / "kommuner.csv", "block": "kommune"}
    tabulate_records(tmp_path / "people.csv", tmp_path / "t", **words)
    tabulate_records(country / "people.csv", tmp_path / "u", **words | {"schema": country / "schema.toml"})
    assert (tmp_path / "t/block-1.parquet").read_bytes() == (tmp_path / "u/block-1.parquet").read_bytes()
    reconstruct(tmp_path / "t", out=tmp_path / "found.csv", processes=1)
    options = {"columns": ["truth:geocode=kommune"], "known": ["kjonn", "alder"], "learn": ["tro"]}
    asked = tmp_path / "found.csv", tmp_path / "people.csv", AttackerSettings()
    rates = reidentify_files(*asked, schema=tmp_path / "schema.toml", **options).rates
    assert rates.universe("all").putative == len(rows)
    assert reidentify_files(*asked, **options).rates.universe("all").putative < len(rows)


def test_areas_that_codes_do_not_tell_are_left_out_unless_they_are_listed(country: Path) -> None:
    """Regions N and S: by chance the code S12 begins with S, and it lies in N. Joined by its code, nothing adds up."""
    import confide

    spec = country / "swap.toml"
    spec.write_text(
        f'[release]\nname = "swap"\nmechanism = "swapping"\n{own_country.DATA}schema = "schema.toml"\n'
        f'household = "hus"\n{own_country.GEOGRAPHY}'
        '[swapping]\nvariant = "enhanced"\nrate = "0.5"\ngroups = [1]\nlevels = ["region"]\n'
        '[[tables]]\nname = "a"\nvariables = ["kjonn", "tro"]\nlevels = ["region", "district", "block"]\n',
        encoding="utf-8",
    )
    folder = confide.run(spec, insecure_key=own_country.KEY, processes=1).release
    alone = read_source(folder, country / "schema.toml")
    assert alone.geography.levels == ("block",)
    assert any("--geography" in note for note in alone.notes)
    areas = read_areas(country / "kommuner.csv", "kommune", LEVELS)
    listed = read_source(folder, country / "schema.toml", areas=areas)
    assert listed.geography.levels == ("block", "district", "region")
    found = reconstruct(folder, schema=country / "schema.toml", areas=areas, level="region", processes=1)
    assert found.persons == len(people())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"fylke": ["", *["x"] * 7]}, "geography"),
        ({"kommune": ["001", "001", *list(MUNICIPALITIES)[2:]]}, "geography"),
        ({"kommune": ["1", *list(MUNICIPALITIES)[1:]]}, "unknown-area"),
    ],
)
def test_a_wrong_list_of_areas_is_refused(country: Path, tmp_path: Path, change: dict[str, Any], code: str) -> None:
    rows = pa_csv.read_csv(
        country / "kommuner.csv", convert_options=pa_csv.ConvertOptions(column_types={"kommune": pa.string()})
    )
    columns = {name: rows.column(name).to_pylist() for name in rows.column_names} | change
    pa_csv.write_csv(pa.table(columns), tmp_path / "areas.csv")
    with pytest.raises(ConfideError) as caught:
        tabulate_records(
            country / "people.csv",
            tmp_path / "t",
            schema=country / "schema.toml",
            geography=tmp_path / "areas.csv",
            block="kommune",
            levels=LEVELS,
        )
    assert [each.code for each in caught.value.findings] == [code]
    assert not (tmp_path / "t").exists()
