"""``confide safetab tune`` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from confide.cli.main import app
from confide.cli.show import out
from confide.errors import ConfideError
from confide.report import charts


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["safetab", "tune", *(str(argument) for argument in arguments)])
    if result.exit_code:
        raise AssertionError(result.output) from result.exception
    return result.stdout


def run_json(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json"))


def codes(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, ["safetab", "tune", *arguments])
    assert isinstance(result.exception, ConfideError), result.output
    return [finding.code for finding in result.exception.findings]


def test_production_settings_without_options() -> None:
    found = run_json()
    levels = {level["name"]: level for level in found["levels"]}
    assert len(levels) == 11
    expected = {"USA-2": (2.134, 3, 3, 6), "TRACT-2": (0.159, 11, 10, 21), "PLACE-1": (0.008, 49, 49, 93)}
    for name, values in expected.items():
        level = levels[name]
        keys = ("rho", "moe", "moe_floor", "suppression_threshold")
        assert tuple(level[key] for key in keys) == values
        assert level["moe"] <= level["moe_target"]
        assert level["target_holds"] is True
    assert [name for name, level in levels.items() if not level["suppression_applies"]] == [
        "USA-1",
        "USA-2",
        "STATE-1",
        "STATE-2",
    ]
    assert (found["totals"]["rho_unbounded"], found["totals"]["rho_bounded"]) == (4.944, 9.888)
    assert found["totals"]["rho_unbounded_exact"] == "618/125"
    assert '"rho": 2.134,' in run("--json")


def test_puerto_rico_is_a_pass_of_its_own() -> None:
    found = run_json("--puerto-rico")
    assert len(found["levels"]) == 19
    assert found["passes"]["PR"]["rho_unbounded"] == 2.643
    assert found["totals"]["rho_bounded"] == 9.888
    assert "Puerto Rico" in run("--puerto-rico")


def test_budgets_from_targets() -> None:
    typed = ["--moe", "STATE:2=3", "--moe", "county:2=11", "--moe", "TRACT:1=50"]
    assert [level["rho"] for level in run_json(*typed)["levels"]] == [2.134, 0.159, 0.008]
    smallest = run_json(*typed, "--rule", "smallest")["levels"]
    assert [level["rho"] for level in smallest] == [1.529, 0.145, 0.008]
    assert run_json("--from-targets")["totals"]["rho_unbounded"] == 4.944


def test_levels_on_top_of_production() -> None:
    found = run_json("--add", "--level", "USA:1=0", "--level", "STATE:2=1")
    levels = {level["name"]: level["rho"] for level in found["levels"]}
    assert len(levels) == 10
    assert levels["STATE-2"] == 1
    assert found["totals"]["rho_unbounded"] == 3.802


def test_pure() -> None:
    found = run_json("--definition", "pure", "--level", "TRACT:2=2.43", "--level", "TRACT:1=0.54")
    assert [level["suppression_threshold"] for level in found["levels"]] == [35, 158]
    assert found["totals"]["epsilon_bounded"] == 5.94
    assert found["totals"]["delta"] == 0
    targets = run_json("--definition", "pure")["levels"]
    assert all(level["moe"] == level["moe_target"] for level in targets)


def test_everything_else_changes_the_answer() -> None:
    typed = ["--level", "TRACT:2=0.159", "--size", "7"]
    base = run_json(*typed)["levels"][0]
    for option in (["--gamma", "0.5"], ["--race-codes", "3"], ["--stability", "20"]):
        assert run_json(*typed, *option)["levels"][0]["moe"] != base["moe"]
    assert run_json(*typed, "--suppression", "0")["levels"][0]["suppression_threshold"] is None
    assert run_json(*typed, "--relative-error", "0.1")["levels"][0]["population_for_relative_error"]["T01001"] == {
        "cells": 1,
        "cell": 110,
        "total": 110,
    }
    assert [group["size"] for group in base["groups"]] == [7]
    assert (
        run_json(*typed, "--delta", "1e-5")["totals"]["epsilon_unbounded"]
        < run_json(*typed)["totals"]["epsilon_unbounded"]
    )


def test_tables_for_people() -> None:
    shown = run()
    for words in ("±332", "22: 0 to 30", "±11 holds", "up to 21", "4.944", "9.888", "one person more or fewer"):
        assert words in shown
    assert "both by zCDP" in run("--level", "TRACT:2=0.159", "--compare")


def test_a_target_that_does_not_hold_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # Rounded to one decimal the formula gives 0.2 for a margin of 9, where 0.24 is needed.
    found = run_json("--moe", "TRACT:2=9", "--decimals", "1")["levels"][0]
    assert (found["rho"], found["moe"], found["target_holds"]) == (0.2, 10, False)
    monkeypatch.setattr(out, "_width", 120)  # the console may have been made under another COLUMNS
    assert "DOES NOT HOLD" in run("--moe", "TRACT:2=9", "--decimals", "1")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--level", "STATE:2=1", "--moe", "STATE:2=3"], ["budget-and-target"]),
        (["--level", "STATE:2=1", "--level", "STATE:2=2"], ["level-twice"]),
        (["--level", "STATE", "--moe", "STATE:2=2.5"], ["not-a-level", "not-a-level"]),
        (["--level", "STATE:2=much"], ["not-a-number"]),
        (["--level", "STAAT:2=1", "--gamma", "1"], ["gamma-out-of-range", "unknown-region-type"]),
        (["--level", "STATE:3=1"], ["unknown-iteration-level"]),
        (["--level", "STATE:2=0"], ["no-levels"]),
        (["--definition", "renyi"], ["unknown-definition"]),
        (["--gamma", "none"], ["not-a-number"]),
        (["--moe", "STATE:1=500"], ["budget-rounds-to-zero"]),
        (["--definition", "pure", "--compare"], ["nothing-to-compare"]),
    ],
)
def test_bad_input(arguments: list[str], expected: list[str]) -> None:
    assert codes(*arguments) == expected


@pytest.mark.skipif(not charts.available(), reason="the extra `plots` is not installed")
def test_pictures(tmp_path: Path) -> None:
    made = run_json("--plots", tmp_path / "new")["plots"]
    assert [Path(path).name for path in made] == ["bias-by-size.svg", "margin-by-budget.svg", "suppression-by-size.svg"]
    for path in made:
        assert Path(path).read_text(encoding="utf-8").startswith("<svg")
    assert "T = 93" in (tmp_path / "new/bias-by-size.svg").read_text(encoding="utf-8")
    assert len(run_json("--plots", tmp_path / "other", "--suppression", "0")["plots"]) == 1


def test_pictures_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "available", lambda: False)
    assert codes("--plots", str(tmp_path)) == ["no-plots"]
