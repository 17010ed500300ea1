"""A demonstration of each mechanism, small: released, verified and evaluated, with what to look at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from confide.cli.main import app
from confide.lab.demonstration import DEMONSTRATIONS, OF_A_COUNTRY
from confide.mechanisms import MECHANISMS

SMALL = {"tables": 1_000, "swapping": 1_000, "suppression": 300}


def test_every_mechanism_of_people_has_a_demonstration() -> None:
    assert set(DEMONSTRATIONS) == set(MECHANISMS.own) - {"postprocess"}


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
