"""``confide cellkey ptable`` as a person types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from confide.cli.main import app, main
from confide.errors import ConfideError
from confide.noise.ptables import count_settings, generate, magnitude_settings, read_table, same_distribution


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["cellkey", "ptable", *(str(argument) for argument in arguments)])
    if result.exit_code:
        raise AssertionError(result.output) from result.exception
    return result.stdout


def run_json(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json"))


def refused(*arguments: object) -> ConfideError:
    result = CliRunner().invoke(app, ["cellkey", "ptable", *(str(argument) for argument in arguments)])
    assert isinstance(result.exception, ConfideError), result.output
    return result.exception


def test_as_documented() -> None:
    found = run_json("-D", 5, "-V", 2, "--js", 0)
    assert [row["i"] for row in found["rows"]] == [0, 1, 2, 3, 4, 5]
    first, last = found["rows"][1], found["rows"][5]
    assert first["noise"] == [-1, 0, 1, 2, 3, 4, 5]
    assert first["p"] == pytest.approx([0.388938, 0.388938, 0.122093, 0.056394, 0.026048, 0.012031, 0.005557], abs=1e-6)
    assert (first["attained"], last["attained"]) == (False, True)
    assert first["largest_variance"] == pytest.approx(1.30247, abs=1e-5)
    assert last["p"] == last["p"][::-1]
    assert last["variance"] == pytest.approx(2, abs=1e-12)
    assert found["certified"] is True
    for row in found["rows"]:
        assert sum(row["p"]) == pytest.approx(1, abs=1e-12)
        assert sum(v * p for v, p in zip(row["noise"], row["p"], strict=True)) == pytest.approx(0, abs=1e-12)
        assert row["certificate"]["holds"] is True
    assert (found["D"], found["V"], found["V_exact"], found["js"]) == (5, 2.0, "2", 0)
    assert [finding["code"] for finding in found["findings"]] == ["variance-not-attained"]
    assert found["reading"]["epsilon"] == pytest.approx(2.247, abs=1e-3)
    assert found["reading"]["differential_privacy_of_a_release"] is False
    assert found["lookup"]["rows"][1]["below"][-1] == found["lookup"]["keys"] == 10**8


@pytest.mark.parametrize("as_json", [False, True])
def test_infeasible_settings_exit_with_one_and_say_which_variance_would_do(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["confide", "cellkey", "ptable", "-D", "5", "-V", "3", "--js", "3", *(["--json"] if as_json else [])]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    out, err = capsys.readouterr()
    if as_json:
        (finding,) = json.loads(out)["findings"]
        assert finding["code"] == "ptable-infeasible"
        assert finding["expected"] == "the smallest feasible V is 4; count 2 needs it"
    else:
        assert out == ""
        assert "the smallest feasible V is 4; count 2 needs it" in err


def test_on_a_terminal() -> None:
    text = run("-D", 5, "-V", 2)
    assert "0.38894" in text
    assert "no differential privacy of a release" in text
    assert max(len(line) for line in text.split("Two large")[0].splitlines()) <= 80
    wide = run("-D", 12, "-V", 3, "--equality")
    assert "most likely" in wide
    assert max(len(line) for line in wide.split("Two large")[0].splitlines()) <= 80


def test_further_conditions() -> None:
    found = run_json("-D", 5, "-V", 3, "--js", 2, "--pstay", "0.5")
    assert found["rows"][8]["p"][5] == pytest.approx(0.5, abs=1e-12)
    found = run_json("-D", 2, "-V", "1.05", "--js", 1, "--no-mono-rows", "3")
    assert found["mono"] == [True, True, False, True]
    assert found["rows"][3]["p"] == pytest.approx([0.41231301, 0.28806097, 0.18693903, 0.11268699], abs=1e-8)
    assert run_json("-D", 2, "-V", "1", "--no-mono")["rows"][1]["p"][0] == pytest.approx(0.398065, abs=1e-6)
    found = run_json("-D", 2, "-V", "9/10", "--pstay", "1/3,0.6")
    assert found["pstay"] == ["1/3", "3/5"]
    assert run_json("-D", 5, "-V", "2.7", "--equality")["rows"][1]["variance"] == pytest.approx(2.7, abs=1e-12)


def test_magnitudes(tmp_path: Path) -> None:
    arguments = ("-D", 5, "-V", 2, "--icat", "1,3,5", "--step", 4, "--type", "even")
    found = run_json(*arguments, "--format", "tau-argus", "--out", tmp_path / "t.txt")
    assert found["rows"][1]["noise"][:3] == [-1, -0.75, -0.5]
    assert "reading" not in found
    expected = generate(magnitude_settings(5, 2, step=4, icat=[1, 3, 5], kind="even")).table()
    assert read_table(tmp_path / "t.txt").table == expected
    assert run(*arguments)


@pytest.mark.parametrize("form", ["tau-argus", "sas", "csv", "ons"])
def test_forms(form: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    shown = run("-D", 4, "-V", "1.5", "--format", form, "--out", path)
    assert str(path) in shown.replace("\n", "")
    expected = generate(count_settings(4, "1.5")).table(256 if form == "ons" else 10**8)
    assert read_table(path).table == (expected.compact() if form == "ons" else expected)
    assert run("-D", 4, "-V", "1.5", "--format", form) == path.read_text(encoding="utf-8")
    again = run_json("--import", path)
    assert again["fingerprint"] == read_table(path).table.fingerprint
    assert again["rows"][1]["variance"] == pytest.approx(1.22, abs=0.05)
    assert run("--import", path)
    assert run("--import", path, "--format", form) == path.read_text(encoding="utf-8")


def test_modified_tables(tmp_path: Path) -> None:
    arguments = ("-D", 3, "-V", 1, "--modify", "0.05", "--format", "csv")
    first, again, other = (run(*arguments, "--seed", seed) for seed in ("0a", "0a", "0b"))
    assert first == again != other
    (tmp_path / "t").write_text(first)
    assert same_distribution(read_table(tmp_path / "t").table, generate(count_settings(3, 1)).table())


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("-D", 5), "both -D and -V"),
        ((), "both -D and -V"),
        (("-D", 5, "-V", "x"), "not a number"),
        (("-D", 5, "-V", 2, "--out", "x"), "in which form"),
        (("-D", 5, "-V", 2, "--seed", "0a"), "--modify with --seed"),
        (("-D", 5, "-V", 2, "--step", 2), "tables for magnitudes"),
        (("-D", 5, "-V", 2, "--icat", "1,a"), "whole numbers"),
        (("-D", 5, "-V", 2, "--icat", "1,5", "--js", 1), "no role"),
        (("-D", 5, "-V", 2, "--no-mono-rows", "9"), "no such row"),
        (("-D", 5, "-V", 2, "--keys", 3, "--format", "tau-argus"), "not decimals"),
        (("-D", 5, "-V", 2, "--format", "csv", "--out", "/nowhere/x"), "cannot be written"),
        (("--import", "/nowhere/x"), "nowhere"),
        (("--import", "/nowhere/x", "-D", 5), "settings already"),
    ],
)
def test_what_is_refused(arguments: tuple[object, ...], word: str) -> None:
    assert word in str(refused(*arguments))
