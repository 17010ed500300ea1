"""``confide risk bayes`` as a person types it, and its pictures."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.kits import commands

from confide.report import charts

run = partial(commands.run, "risk", "bayes")
run_json = partial(commands.run_json, "risk", "bayes")
codes = partial(commands.codes, "risk", "bayes")


def test_one_count() -> None:
    found = run_json("--rho", "0.099226354", "--prior", "1/5", "--released", 3)
    assert found["marginal_posterior"] == pytest.approx(0.225423, abs=6e-7)
    assert found["risk"] == pytest.approx(1.127115, abs=6e-7)
    assert found["threshold"] == 8
    assert found["correct_given_1"] == pytest.approx(0.001752, abs=6e-7)
    assert found["correct_given_0"] == pytest.approx(0.999622, abs=6e-7)
    assert found["average_accuracy"] == pytest.approx(0.2 * 0.001752 + 0.8 * 0.999622, abs=6e-7)
    assert found["posterior"] == pytest.approx(0.291076, abs=6e-7)
    assert found["risk_at"] == pytest.approx(1.455381, abs=6e-7)
    assert found["risk_limit"] == pytest.approx(1.219514, abs=6e-7)


def test_released_counts_may_be_negative_and_many() -> None:
    low = run_json("--rho", "1/10", "--released", -2)
    assert low["posterior"] == pytest.approx(1 / (1 + 2.718281828 ** (0.1 * 5)), abs=1e-8)
    many = run_json("--rho", "1/10", "--released", "-2,3", "--released", 1)
    assert many["released"] == [-2, 3, 1]
    assert many["posterior"][0] == low["posterior"]
    shifted = run_json("--rho", "1/10", "--released", 5, "--known-count", 7)
    assert shifted["posterior"] == low["posterior"]
    assert shifted["threshold"] == 8


def test_several_priors_and_counts() -> None:
    found = run_json("--rho", "0.099226354", "--prior", "1/2", "--prior", "1/864")
    assert [row["prior"] for row in found["adversaries"]] == ["1/2", "1/864"]
    assert found["adversaries"][1]["risk"] == pytest.approx(1.218828, abs=6e-7)
    two = run_json("--rho", "0.099226354", "--also-rho", "0.246484510", "--prior", "1/5")
    assert two["risk"] == pytest.approx(1.435723, abs=6e-7)
    assert two["threshold"] is None
    assert two["average_accuracy"] > 0.8
    steps = run_json("--rho", "0.099226354", "--also-rho", "0.099226354", "--released", "2,3")
    assert [step["risk_at"] for step in steps["steps"]] == pytest.approx([1.147750, 1.199998], abs=6e-7)
    assert steps["risk_at"] == pytest.approx(1.147750 * 1.199998, abs=2e-6)


def test_other_noise() -> None:
    change = run_json("--rho", "0.099226354", "--neighbours", "change-one", "--prior", "1/864")
    assert change["risk"] == pytest.approx(1.1040, abs=6e-5)
    assert change["laws"] == [{"law": "discrete-gaussian", "sigma2": "500000000/49613177"}]
    geometric = run_json("--law", "geometric", "--epsilon", 1, "--prior", "1/5")
    assert geometric["decides"] == "never"
    assert geometric["threshold"] is None
    assert geometric["correct_given_0"] == 1


def test_the_text() -> None:
    text = run("--rho", "0.099226354", "--prior", "1/5", "--released", "3", "--known-count", 2)
    for words in ("0.225423", "1.1271", "from 10 on", "2 others are known", "hardly better", "not in"):
        assert words in text
    assert "product" in run("--rho", "1/10", "--also-rho", "1/5", "--released", "2,3")
    assert "two cells" in run("--rho", "1/10", "--neighbours", "change-one")


def test_what_is_refused() -> None:
    assert codes("--prior", "1/2") == ["no-budget"]
    assert codes("--law", "geometric", "--rho", "1") == ["no-budget"]
    assert codes("--rho", "1", "--epsilon", "1") == ["no-budget"]
    assert codes("--rho", "1", "--prior", "1") == ["not-a-probability"]
    assert codes("--rho", "1e-40") == ["out-of-range"]
    assert codes("--rho", "1", "--released", "1.5") == ["not-a-count"]
    assert codes("--rho", "1", "--also-rho", "1", "--released", "1") == ["releases-differ"]


@pytest.mark.slow
@pytest.mark.skipif(not charts.available(), reason="needs the extra plots")
def test_pictures(tmp_path: Path) -> None:
    found = run_json("--law", "geometric", "--epsilon", 1, "--also-rho", "1/4", "--plots", tmp_path)
    names = [f"{what}-by-{over}.svg" for what in ("posterior", "risk") for over in ("levels", "released")]
    assert [Path(path).name for path in found["plots"]] == names
    for path in found["plots"]:
        text = Path(path).read_text(encoding="utf-8")
        assert text.startswith("<svg")
        assert "1/864" in text


@pytest.mark.slow
@pytest.mark.skipif(not charts.available(), reason="needs the extra plots")
def test_pictures_over_rho(tmp_path: Path) -> None:
    found = run_json("--rho", "0.099226354", "--plots", tmp_path)
    names = {Path(path).name for path in found["plots"]}
    assert {"posterior-by-rho.svg", "risk-by-rho.svg", "right-by-rho.svg", "average-by-rho.svg"} <= names
    assert len(names) == 6
    assert "ρ 0.0992" in (tmp_path / "right-by-rho.svg").read_text(encoding="utf-8")
