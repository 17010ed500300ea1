"""Releases of a country of its own by every mechanism: dossiers without foreign words, and the risk of a release."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.kits import own_country
from tests.kits.own_country import DATA, GEOGRAPHY, KEY, LEDGER, MUNICIPALITIES, open_ledger, people, write_country

import confide
from confide import risk
from confide.engines import LocalEngine, Source
from confide.mechanisms.cellkey.keys import write_keyed
from confide.noise import ReleaseKey
from confide.noise.ptables import DECIMAL

TABLES = (
    '[[tables]]\nname = "faith"\nvariables = ["kjonn", "tro"]\nlevels = ["region", "district", "block"]\n'
)  # fmt: skip
WITH_SCHEMA = f'{DATA}schema = "schema.toml"\n'
SPECS = {
    "tables": f'{WITH_SCHEMA}{GEOGRAPHY}[privacy]\nledger = "{LEDGER}"\nbudget = "4"\n{TABLES}',
    "swapping": f'{WITH_SCHEMA}household = "hus"\n{GEOGRAPHY}'
    f'[swapping]\nvariant = "targeted"\nrate = "0.2"\nrisk = ["tro"]\nprofiles = [["size"]]\n{TABLES}',
    "suppression": f"{WITH_SCHEMA}{GEOGRAPHY}[suppression]\nthreshold = 2\n{TABLES}",
    "cellkey": f'{WITH_SCHEMA}record_key = "key"\n{GEOGRAPHY}[cellkey]\nD = 5\nV = "2"\nkeys = {DECIMAL}\n{TABLES}',
}
FOREIGN = (
    "AIAN",
    "2020",
    "Census Bureau",
    "group quarters",
    "county",
    "counties",
    "tract",
    r"race\b",
    "Hispanic",
    "made",
)
"""Words of the United States, which no page of another country has."""


@pytest.fixture(scope="module")
def country(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_country(tmp_path_factory.mktemp("norland"))
    open_ledger(folder)
    with LocalEngine(folder / "scratch", processes=1) as engine:
        source = Source(folder / "people.parquet", "parquet")
        write_keyed(engine, source, folder / "keyed.parquet", column="key", keys=DECIMAL, secret=ReleaseKey.choose(KEY))
    return folder


def words_of(page: Path) -> str:
    text = re.sub(r"<style.*?</style>|<svg.*?</svg>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", text)


def evaluated(country: Path, mechanism: str) -> Path:
    if mechanism == "topdown":
        own_country.seal_topdown(country)
        return confide.evaluate(country / "topdown.toml").dossier
    text = SPECS[mechanism]
    if mechanism == "cellkey":
        text = text.replace("people.parquet", "keyed.parquet")
    spec = country / f"{mechanism}.toml"
    spec.write_text(f'[release]\nname = "{mechanism}"\nmechanism = "{mechanism}"\n{text}', encoding="utf-8")
    keyed = {"tables", "swapping"}
    confide.run(spec, insecure_key=KEY if mechanism in keyed else None, processes=1)
    return confide.evaluate(spec).dossier


@pytest.mark.parametrize("mechanism", ["topdown", *SPECS])
def test_a_dossier_has_the_countrys_areas_and_no_foreign_words(country: Path, mechanism: str) -> None:
    dossier = words_of(evaluated(country, mechanism))
    assert "district" in dossier or "faith" in dossier
    for word in FOREIGN:
        assert not re.search(rf"\b{word}", dossier), word


def test_the_risk_of_an_own_release_follows_from_its_plan(country: Path) -> None:
    """By hand: rho = 4 in four equal levels; who has another faith changes two of two queries of the country, and two
    of three below. Units are called as the office calls them, which their ids of the spine do not."""
    run = own_country.seal_topdown(country)
    answer = risk.release(run, worst=2).as_dict()
    assert [level["level"] for level in answer["by_level"]] == ["country", "region", "district", "block"]
    assert [level["units"] for level in answer["by_level"]] == [1, 2, 4, len(MUNICIPALITIES)]
    assert answer["published_counts"][-1]["units"] == len(MUNICIPALITIES)
    assert sum(size["records"] for size in answer["published_counts"][-1]["counts"].values()) == len(people())
    assert {row["code"] for row in answer["least_protected"]} <= {"all", "N", "S", *MUNICIPALITIES} | {
        district for district, _, _ in MUNICIPALITIES.values()
    }
    assert set(answer["knows_everybody_else"]["by_attribute"]) >= {"kjonn", "alder", "tro", "arbeid"}
    faith = answer["knows_everybody_else"]["by_attribute"]["tro"]
    assert faith == pytest.approx(4 * (1 / 4 * (1 / 2 + 1 / 2) + 3 / 4 * (2 / 3)), rel=1e-9)
    below = answer["by_level"][-1]["between"]["tro"]
    assert 0 < below["rho_least"] <= below["rho_most"] <= faith


def test_the_release_alone_does_with_an_own_strategy(country: Path) -> None:
    run = own_country.seal_topdown(country)
    assert risk.release(run / "release").as_dict()["by_level"] == risk.release(run).as_dict()["by_level"]
