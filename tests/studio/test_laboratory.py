"""The risk laboratory: its figures are those of the library, and its sliders lead to exact numbers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.studio import entered
from typer.testing import CliRunner

from confide import risk
from confide.cli.main import app
from confide.risk.bayesian.two_level import Variant
from confide.risk.testing.loss_test import zcdp_power
from confide.studio.laboratory import SLIDERS, moved


def test_beliefs_and_powers_are_those_of_the_library(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    belief = browser.get("/api/laboratory/belief", params={"rho": "1/4", "prior": "0.2", "released": "3"}).json()
    answer = risk.bayes("1/4", ["0.2"], [3])
    assert belief["figures"]["Belief after this count"] == f"{answer.adversaries[0].belief.posterior[0]:.4f}"  # type: ignore[union-attr]
    assert belief["answer"] == answer.as_dict()
    asked = {
        "rho": "0.1",
        "above": "0.2",
        "siblings": "9",
        "prior": "0.5",
        "released": "2",
        "parent": "5",
        "others": "4",
    }
    around = browser.get("/api/laboratory/hierarchy", params=asked).json()
    exact = risk.hierarchy("0.1", "0.2", 9, prior="0.5", released=(2, 5, 4))
    assert around["figures"]["Belief after all counts"] == f"{exact.belief.posterior[Variant.STATED]:.4f}"  # type: ignore[union-attr]
    test = browser.get("/api/laboratory/test", params={"rho": "2.56", "level": "0.05"}).json()
    assert test["figures"]["Any release with this budget"] == "0.9344"
    assert zcdp_power("2.56", "0.05") <= 0.9344, "a bound is rounded up"


@pytest.mark.slow
def test_the_region_of_the_cell_key_method_is_that_of_the_library(tmp_path: Path) -> None:
    browser = entered(tmp_path)
    region = risk.tune_cellkey().region
    best = region.recommended
    assert best is not None
    pairs = {(best.risk.row.bound, str(best.variance)): "yes", (1, "5"): "no", (9, "19.9"): "no"}
    for (bound, variance), verdict in pairs.items():
        shown = browser.get("/api/laboratory/cellkey", params={"bound": bound, "variance": variance}).json()
        assert shown["figures"]["Withstands both attacks, and is useful"] == verdict
        assert shown["answer"]["region"] == region.as_dict()["region"]
    picture = browser.get("/laboratory/figure.svg", params={"experiment": "cellkey"})
    assert picture.content.startswith(b"<svg")


@pytest.mark.parametrize("experiment", ["belief", "hierarchy", "test", pytest.param("cellkey", marks=pytest.mark.slow)])
def test_the_command_that_is_shown_runs(tmp_path: Path, experiment: str) -> None:
    browser = entered(tmp_path)
    command = browser.get(f"/api/laboratory/{experiment}").json()["command"]
    done = CliRunner().invoke(app, command.split()[1:])
    assert done.exit_code == 0, done.output
    page = browser.get("/laboratory", params={"experiment": experiment}).text
    assert command in page


@given(place=st.integers(-80, 20))
def test_a_slider_that_is_moved_gives_a_short_number_and_stays_there(place: int) -> None:
    slider = SLIDERS["belief"][0]
    number = slider.number(place * 0.05)
    assert slider.place(number) == pytest.approx(place * 0.05, abs=0.03)
    query = {"rho": "0.1", "rho_was": "-1.0", "rho_at": str(place * 0.05)}
    expected = number if str(place * 0.05) != "-1.0" else Fraction(1, 10)
    assert moved("belief", query)["rho"] == expected
    assert moved("belief", query | {"rho_at": "-1.0", "rho": "1/3"})["rho"] == Fraction(1, 3), "typed, it is exact"


@pytest.mark.parametrize("asked", [{"rho": "0"}, {"rho": "-1"}, {"rho": "x"}, {"released": "1.5"}, {"prior": "2"}])
def test_a_number_out_of_range_is_a_finding(tmp_path: Path, asked: dict[str, str]) -> None:
    answer = entered(tmp_path).get("/api/laboratory/belief", params=asked)
    assert answer.status_code == 400
    assert answer.json()["findings"]
