"""A demonstration of each mechanism, small: released, verified and evaluated, with what to look at."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from confide.cli.main import app
from confide.lab.demonstration import CENSUS, DEMONSTRATIONS, OF_A_COUNTRY
from confide.mechanisms import MECHANISMS
from confide.releases.ledger import Ledger

SMALL = {"tables": 1_000, "swapping": 1_000, "suppression": 300}


def test_every_mechanism_of_people_has_a_demonstration() -> None:
    assert set(DEMONSTRATIONS) - {CENSUS} == set(MECHANISMS.own) - {"postprocess"}


@pytest.mark.parametrize("mechanism", SMALL)
def test_a_small_demonstration_ends_in_a_release_and_a_dossier(tmp_path: Path, mechanism: str) -> None:
    asked = ["demo", mechanism, "--out", str(tmp_path / "d"), "--persons", str(SMALL[mechanism])]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "(verified)" in done.output
    assert "Look at:" in done.output
    assert f"{SMALL[mechanism]:,} made-up persons" in done.output
    last = "".join(done.output.split("In the browser:")[-1].split())
    assert last == f"confidestudio{tmp_path / 'd'}", "the studio has the last line"
    run = tmp_path / "d" / mechanism
    assert (run / "release/manifest.json").is_file()
    assert (run / "dossier-confidential/dossier-confidential.html").is_file()
    kind = "certificate" if mechanism == "tables" else "statement"
    assert (run / f"release/{kind}.html").is_file()


def test_persons_and_units_of_the_same_people_are_charged_to_one_ledger(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "d"), "--persons", "300"])
    assert done.exit_code == 0, done.output
    assert done.output.count("(verified)") == 2
    spent, opened = re.findall(r"the ledger has ([\d.]+) spent of ([\d.]+)\.", " ".join(done.output.split()))[0]
    assert spent == opened, "both releases, and nothing else"


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("census") / "d"
    done = CliRunner().invoke(app, ["demo", CENSUS, "--out", str(folder), "--persons", "300", "--json"])
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.stdout)


def test_a_census_ends_with_the_account_of_its_four_products_in_persons(census: tuple[Path, dict[str, Any]]) -> None:
    folder, answer = census
    assert answer["ok"]
    assert all(release["verified"] for release in answer["releases"].values())
    products = list(answer["account"]["products"].values())
    assert [each["protects"] for each in products] == ["person", "person", "household", "person"]
    rho, charged = ([Fraction(each[name]) for each in products] for name in ("rho", "charged"))
    own = [Fraction(1, 2), 1, 2, 1]  # change-one is twice what a person costs who comes or goes; a household is changed
    assert charged == [factor * each for factor, each in zip(own, rho, strict=True)]
    assert rho[3] == Fraction("1.257281"), "the production budget"
    account = Ledger(folder / "data-set.ledger").account()
    assert (account.unit, account.neighbours) == ("person", "add-remove")
    assert Fraction(answer["account"]["spent"]) == account.spent == sum(charged)
    assert Fraction(answer["account"]["left"]) == account.left == account.budget - sum(charged)


def test_household_groups_are_chosen_by_the_sealed_totals_of_the_same_census(
    census: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = census
    sealed = sha256((folder / "detailed-groups/release/manifest.json").read_bytes()).hexdigest()
    assert sealed in (folder / "household-groups/release/manifest.json").read_text()


@pytest.mark.parametrize(("mechanism", "releases"), [("safetab-h", 2), ("phsafe", 1)])
def test_demonstrations_of_households_show_what_a_person_is_charged(
    tmp_path: Path, mechanism: str, releases: int
) -> None:
    done = CliRunner().invoke(app, ["demo", mechanism, "--out", str(tmp_path / "d"), "--persons", "300"])
    assert done.exit_code == 0, done.output
    assert done.output.count("(verified)") == releases
    assert "The account, kept in persons who come or go" in done.output
    assert ("twice" in done.output) == (mechanism == "safetab-h")


def test_a_demonstration_of_a_european_country(tmp_path: Path) -> None:
    asked = ["demo", "swapping", "--layout", "eu-country", "--out", str(tmp_path / "d"), "--persons", "500"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "(verified)" in done.output
    table = (tmp_path / "d/swapping/release/tables/citizenship.csv").read_text()
    assert "nuts3" in table


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", OF_A_COUNTRY)
def test_every_demonstration_of_the_country(tmp_path: Path, mechanism: str) -> None:
    assert DEMONSTRATIONS[mechanism](tmp_path / "d", persons=500, layout="eu-country").ok


def test_no_demonstration_of_something_else(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "magic", "--out", str(tmp_path / "d")])
    assert done.exit_code == 2
    assert not (tmp_path / "d").exists()
