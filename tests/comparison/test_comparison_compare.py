"""Comparisons from beginning to end, on few made-up people."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app, main
from confide.errors import ConfideError
from confide.lab.comparison import compare, comparing
from confide.lab.comparison.attacking import EXPOSED
from confide.lab.population import simulate

SPEC = """
[comparison]
title = "A few people"
made_up = 700
seed = 3

[[protections]]
name = "light"
mechanism = "swapping"

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

[[protections]]
name = "down"
mechanism = "topdown"
budget = "1000"

[attack]
noisy_blocks = 1
suppressed_blocks = 1
attacker = "coverage=0.5"
processes = 1
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("comparison")
    (folder / "spec.toml").write_text(SPEC)
    compare(folder / "spec.toml", folder / "out", processes=1)
    return folder


def numbers(made: Path) -> dict[str, Any]:
    return json.loads((made / "out/comparison.json").read_text())


def by_name(made: Path) -> dict[str, Any]:
    return {each["name"]: each for each in numbers(made)["protections"]}


def test_every_protection_is_made_by_its_mechanism_and_stamped(made: Path) -> None:
    assert list(by_name(made)) == ["none", "light", "heavy", "hidden", "keyed", "noisy", "down"]
    for name in ("light", "heavy", "keyed", "noisy", "down"):
        assert api.verify(made / "out" / name / "run/release").ok, name
    for name in ("light", "heavy", "noisy", "down"):
        assert (made / "out" / name / "run/release/NOT-FOR-RELEASE.txt").exists(), name


def test_the_true_tables_have_no_error_and_give_the_exposed_away(made: Path) -> None:
    none = by_name(made)["none"]
    assert all(item["mean_absolute_error"] == 0 for level in none["errors"].values() for item in level.values())
    assert none["sums_agree"]["all"]
    exposed = none["attack"]["perfect"]["universes"][EXPOSED]
    assert exposed["records"] > 0
    assert exposed["precision"] == 1
    assert exposed["modal_guesser_precision"] == 0


def test_protections_keep_what_they_say(made: Path) -> None:
    found = by_name(made)
    assert found["light"]["errors"]["block"]["population"]["mean_absolute_error"] == 0
    assert found["light"]["sums_agree"]["all"]
    assert found["down"]["sums_agree"]["all"]
    assert not found["noisy"]["sums_agree"]["all"]
    assert not found["keyed"]["sums_agree"]["all"]
    assert max(item["mean_absolute_error"] for item in found["keyed"]["errors"]["block"].values()) <= 5
    assert found["hidden"]["cells_published"]["block"] < 1
    assert all(found[name]["cells_published"]["all"] == 1 for name in found if name != "hidden")
    published = found["hidden"]["errors"]["county"].values()
    assert all(item["mean_absolute_error"] in (0, None) for item in published)


def test_the_attacker_is_told_the_variance_that_the_plan_has(made: Path) -> None:
    plan = api.check(made / "out/noisy/spec.toml").plan
    assert plan is not None
    assert {str(measure.law.sigma2) for measure in plan.measures} == {by_name(made)["noisy"]["settings"]["variance"]}
    assert len(plan.measures) == 8 * 3


def test_as_good_as_no_noise_is_as_good_as_the_truth(made: Path) -> None:
    """With a budget of 1000 the records of TopDown are very nearly the true ones, and the attack finds as much."""
    found = by_name(made)
    assert found["down"]["attack"]["perfect"]["agreement"] > found["none"]["attack"]["perfect"]["agreement"] - 0.1
    assert found["down"]["errors"]["county"]["age: 0-17"]["mean_absolute_error"] < 3


def test_the_other_list_has_half_of_the_people(made: Path) -> None:
    given = by_name(made)["none"]["attack"]["given"]
    assert 0.4 * 700 < given["attacker_records"] < 0.6 * 700


def test_everything_is_for_its_owner_alone(made: Path) -> None:
    out = made / "out"
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    for each in (*out.glob("*"), *out.glob("*/*")):
        if each.parent == out or each.is_file():
            assert not stat.S_IMODE(each.stat().st_mode) & 0o077, each


def test_run_again_nothing_is_done_again(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.stat().st_mtime_ns for path in (made / "out").glob("*/result.json")}
    assert len(before) == 7
    monkeypatch.setattr(comparing, "protect", _never)
    monkeypatch.setattr(comparing, "attack", _never)
    shown = CliRunner().invoke(app, ["compare", str(made / "spec.toml"), "--out", str(made / "out"), "--json"])
    assert shown.exit_code == 0, shown.output
    again = json.loads(shown.stdout)
    assert again["ok"] is True
    assert {name: again[name] for name in numbers(made)} == numbers(made)
    assert before == {path: path.stat().st_mtime_ns for path in before}


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("this was done before")


@pytest.mark.slow
def test_the_same_spec_gives_the_same_numbers_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SPEC.split("[[protections]]")[0] + '[[protections]]\nname = "heavy"\nmechanism = "swapping"\n'
    text += 'settings = "heavy"\n[attack]\nprocesses = 1\n'
    (tmp_path / "spec.toml").write_text(text)
    whole = compare(tmp_path / "spec.toml", tmp_path / "whole", processes=1)
    attack, calls = comparing.attack, []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return attack(*arguments, **named)

    monkeypatch.setattr(comparing, "attack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path / "spec.toml", tmp_path / "parts", processes=1)
    assert not (tmp_path / "parts/comparison.html").exists()
    parts = compare(tmp_path / "spec.toml", tmp_path / "parts", processes=1)
    assert len(calls) == 3
    assert _timeless(parts.numbers) == _timeless(whole.numbers)
    # Another attack on the same releases: these are kept. Other settings of a protection: refused.
    (tmp_path / "spec.toml").write_text(text + "blocks = 3\n")
    few = compare(tmp_path / "spec.toml", tmp_path / "parts", processes=1)
    assert few.numbers["protections"][1]["attack"]["reconstruction"]["blocks_attacked"] == 3
    (tmp_path / "spec.toml").write_text(text.replace('"heavy"\n[attack]', '"light"\n[attack]'))
    with pytest.raises(ConfideError) as caught:
        compare(tmp_path / "spec.toml", tmp_path / "parts", processes=1)
    assert caught.value.findings[0].code == "there-already"


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(each) for name, each in value.items() if name != "seconds"}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def test_own_records_are_confidential_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = simulate(tmp_path, persons=300, seed=5).files
    text = f'[data]\nrecords = "{files.persons.name}"\nblocks = "{files.blocks.name}"\n'
    text += '[[protections]]\nname = "truth"\nmechanism = "none"\n[attack]\nprocesses = 1\n'
    spec = tmp_path / "spec.toml"
    spec.write_text(text)
    shown = CliRunner().invoke(app, ["compare", str(spec), "--out", str(tmp_path / "out"), "--processes", "1"])
    assert shown.exit_code == 0, shown.output
    assert "CONFIDENTIAL" in shown.stdout
    assert "CONFIDENTIAL" in (tmp_path / "out/comparison.html").read_text()
    people = pq.read_table(files.persons)
    pq.write_table(people.slice(1), files.persons)
    with pytest.raises(ConfideError) as caught:
        compare(spec, tmp_path / "out", processes=1)
    assert caught.value.findings[0].code == "other-people"
    pq.write_table(people.drop_columns(["hhgq", "age"]), files.persons)
    with pytest.raises(ConfideError) as caught:
        compare(spec, tmp_path / "new", processes=1)
    assert [(each.code, each.where.column) for each in caught.value.findings] == [
        ("missing-column", "hhgq"),
        ("missing-column", "age"),
    ]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spec.toml").write_text("[comparison]\nmade_up = 300\n")
    (tmp_path / "mine.txt").write_text("mine")
    monkeypatch.setattr("sys.argv", ["confide", "compare", str(tmp_path / "spec.toml"), "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "spec.toml"]


@pytest.mark.process
@pytest.mark.slow
def test_protections_are_ordered_as_in_the_literature(tmp_path: Path) -> None:
    """Abowd and Hawes (2023), Table 5, and its successors: the precision for non-modal population uniques in blocks of
    solution variability 0 falls from no protection over a light swap and a heavy swap to differential privacy, which is
    near the proportional guesser; and the heavy swap costs a county's age groups more than differential privacy."""
    (tmp_path / "spec.toml").write_text(
        '[comparison]\nmade_up = 20000\n[[protections]]\nname = "light"\nmechanism = "swapping"\n'
        '[[protections]]\nname = "heavy"\nmechanism = "swapping"\nsettings = "heavy"\n'
        '[[protections]]\nname = "topdown"\nmechanism = "topdown"\n'
    )
    found = compare(tmp_path / "spec.toml", tmp_path / "out", processes=2).numbers["protections"]
    exposed = [each["attack"]["perfect"]["universes"][EXPOSED] for each in found]
    none, light, heavy, topdown = (each["precision"] for each in exposed)
    assert none == 1
    assert none > light > heavy > topdown
    assert light > 0.93
    assert 0.65 < heavy < 0.9
    assert topdown < exposed[3]["proportional_guesser_precision"] + 0.2
    assert all(each["records"] == exposed[0]["records"] for each in exposed)
