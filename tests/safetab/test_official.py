"""The Census Bureau's folders: every rule of config.json, and what validate, execute and convert leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.kits.bad_input import confide as command_line
from tests.kits.safetab import (
    INFINITY,
    KEY,
    MEMORY,
    PEOPLE,
    budget_key,
    budgets,
    config,
    execute,
    tables,
    thresholds,
    tree,
    write_input,
)

from confide import api, official_runs
from confide.errors import ConfideError, InputError
from confide.lab.population import Population, write_official
from confide.mechanisms.safetab.official import INFINITE, OfficialConfig, read_config
from confide.privacy import Definition
from confide.releases.ledger import Ledger

BUDGET = budget_key("COUNTY", 2)
NOISY = budgets(1) | thresholds(1, 2, 3)


def read(folder: Path, values: Any) -> OfficialConfig:
    path = folder / "config.json"
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    return read_config(path)


def confide(*arguments: object, code: int = 0) -> str:
    """The command line, in this process: what it prints, to either stream unless it is JSON."""
    outcome = command_line(*arguments)
    assert outcome.exit_code == code, outcome
    return outcome.out if "--json" in arguments else outcome.out + outcome.err


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in config().items() if key not in keys}


def with_steps(key: str, value: Any) -> dict[str, Any]:
    return config(thresholds_p=config()["thresholds_p"] | {key: value})


STEP = "thresholds_p.(COUNTY, 2)"
BAD: dict[str, tuple[Any, str, str, str]] = {
    "negative budget": (config(**{BUDGET: -0.1}), BUDGET, "a budget is negative", "0 or more"),
    "negative infinity": (config(**{BUDGET: -INFINITY}), BUDGET, "a budget is negative", "0 or more"),
    "budget not a number": (config(**{BUDGET: "0.1"}), BUDGET, f"{BUDGET} is not a number", "a number"),
    "budget true": (config(**{BUDGET: True}), BUDGET, f"{BUDGET} is not a number", "a number"),
    "budget null": (config(**{BUDGET: None}), BUDGET, f"{BUDGET} is not a number", "a number"),
    "NaN": (config(**{BUDGET: float("nan")}), BUDGET, f"{BUDGET} is not a number", "a number"),
    "budget of a pass that does not run": (
        config(run_pr=False, **{budget_key("PR-TRACT", 1): -1}),
        budget_key("PR-TRACT", 1),
        "a budget is negative",
        "0 or more",
    ),
    "large budget": (config(**{BUDGET: 10**12}), BUDGET, "protects nobody", "or Infinity"),
    "huge budget": (config(**{BUDGET: 10**400}), BUDGET, "far too large or too small", "a number"),
    "tiny budget": (
        json.dumps(config(**{BUDGET: 0})).replace(f'"{BUDGET}": 0', f'"{BUDGET}": 1e-999999999'),
        BUDGET,
        "far too large or too small",
        "a number",
    ),
    "no budget": (config(**budgets(0)), "privacy_budget_p_level_1_usa", "no level of a pass", "one above zero"),
    "four thresholds": (with_steps("(COUNTY, 2)", [1, 2, 3, 4]), STEP, "there are 4 thresholds", "exactly three"),
    "two thresholds": (with_steps("(COUNTY, 2)", [1, 2]), STEP, "there are 2 thresholds", "exactly three"),
    "thresholds not in order": (with_steps("(COUNTY, 2)", [1, 3, 2]), STEP, "not in order", "none less than"),
    "threshold of text": (with_steps("(COUNTY, 2)", [1, "2", 3]), STEP, "is not a number", "a number"),
    "threshold NaN": (with_steps("(COUNTY, 2)", [1, float("nan"), 3]), STEP, "is not a number", "a number"),
    "thresholds no list": (with_steps("(COUNTY, 2)", 5), STEP, "the thresholds are no list", "exactly three"),
    "thresholds no object": (config(thresholds_p=[1, 2, 3]), "thresholds_p", "are no object", "an object of lists"),
    "thresholds of a level that is not there": (
        with_steps("(BLOCK, 2)", [1, 2, 3]),
        "thresholds_p.(BLOCK, 2)",
        "no such population group level",
        "(STATE, 2)",
    ),
    "thresholds of a pass that does not run": (
        with_steps("(PR-TRACT, 2)", [3, 2, 1]) | {"run_pr": False},
        "thresholds_p.(PR-TRACT, 2)",
        "not in order",
        "none less than",
    ),
    "thresholds missing": (
        config(thresholds_p={"(USA, 1)": [1, 2, 3]}),
        STEP,
        "has no thresholds",
        "three numbers",
    ),
    "gamma 0": (
        config(privacy_budget_p_stage_1_fraction=0),
        "privacy_budget_p_stage_1_fraction",
        "out of range",
        "more than 0 and less than 1",
    ),
    "gamma 1": (
        config(privacy_budget_p_stage_1_fraction=1.0),
        "privacy_budget_p_stage_1_fraction",
        "out of range",
        "more than 0 and less than 1",
    ),
    "suppression 1": (
        config(zero_suppression_chance=1),
        "zero_suppression_chance",
        "out of range",
        "0 or more, and less than 1",
    ),
    "suppression negative": (
        config(zero_suppression_chance=-0.1),
        "zero_suppression_chance",
        "out of range",
        "0 or more, and less than 1",
    ),
    "suppression null": (config(zero_suppression_chance=None), "zero_suppression_chance", "not a number", "a number"),
    "race codes 0": (config(max_race_codes=0), "max_race_codes", "out of range", "from 1 to 8"),
    "race codes 9": (config(max_race_codes=9), "max_race_codes", "out of range", "from 1 to 8"),
    "race codes true": (config(max_race_codes=True), "max_race_codes", "out of range", "from 1 to 8"),
    "race codes 8.0": (config(max_race_codes=8.0), "max_race_codes", "out of range", "from 1 to 8"),
    "Puerto Rico as a state": (config(state_filter_us=["01", "72"]), "state_filter_us", "Puerto Rico", "states"),
    "no such state": (config(state_filter_us=["03"]), "state_filter_us", "not that of a state", "two-digit"),
    "state twice": (config(state_filter_us=["01", "01"]), "state_filter_us", "named twice", "different"),
    "no states": (config(state_filter_us=[]), "state_filter_us", "no list of states", "a list"),
    "state a number": (config(state_filter_us=[1]), "state_filter_us", "not that of a state", "as text"),
    "states text": (config(state_filter_us="01"), "state_filter_us", "no list of states", "a list"),
    "definition": (config(privacy_defn="rdp"), "privacy_defn", "unknown privacy definition", "zcdp or puredp"),
    "definition a list": (config(privacy_defn=["zcdp"]), "privacy_defn", "unknown", "zcdp or puredp"),
    "switch of text": (config(run_us="True"), "run_us", "neither true nor false", "true or false"),
    "switch of number": (config(allow_negative_counts=1), "allow_negative_counts", "neither true", "true or false"),
    "no pass": (config(run_us=False, run_pr=False), "run_us", "neither pass", "one true"),
    "reader": (config(reader="sql"), "reader", "unknown reader", "csv"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_configuration_is_told_with_key_value_and_remedy(tmp_path: Path, name: str) -> None:
    values, path, what, expected = BAD[name]
    with pytest.raises(InputError) as caught:
        read(tmp_path, values)
    about = [finding for finding in caught.value.findings if finding.where.path == path]
    assert len(about) == 1, caught.value.findings
    assert what in about[0].what
    assert expected in (about[0].expected or "")
    assert about[0].remedy
    assert about[0].found
    assert about[0].where.file == "config.json"
    assert about[0].severity == "error"
    others = {finding.where.path for finding in caught.value.findings} - {path}
    assert all(str(other).startswith("thresholds_p.") for other in others)  # many are missing at once


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[1, 2]", "[1, 2]"),
        ("{", "Expecting property name"),
        ("", "Expecting value"),
        ('{"max_race_codes": ' + "9" * 5_000 + "}", "several thousand digits"),
        ("[" * 100_000, "nested too deeply"),
    ],
    ids=["a list", "half of it", "nothing", "a number of 5,000 digits", "too deep"],
)
def test_what_is_no_configuration(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert [finding.code for finding in caught.value.findings] == ["config-unreadable"]
    assert found in (caught.value.findings[0].found or "")


def test_a_configuration_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(json.dumps(config(), ensure_ascii=False).encode("utf-16"))
    with pytest.raises(InputError, match="a JSON object in UTF-8"):
        read_config(tmp_path / "config.json")
    (tmp_path / "config.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(config()).encode())
    assert read_config(tmp_path / "config.json").infinite  # a byte order mark is none of the content


def test_all_missing_keys_and_all_other_problems_at_once(tmp_path: Path) -> None:
    gone = ("reader", BUDGET, "privacy_defn", "thresholds_p", "run_pr")
    with pytest.raises(InputError) as caught:
        read(tmp_path, without(*gone) | {"max_race_codes": 9, "state_filter_us": ["99"]})
    found = {finding.where.path: finding for finding in caught.value.findings}
    assert set(found) == {*gone, "max_race_codes", "state_filter_us"}
    for key in gone:
        assert found[key].what == f"{key!r} is missing"
        assert found[key].expected == f"a value for {key}"
    with pytest.raises(InputError) as caught:
        read(tmp_path, {})
    assert {finding.where.path for finding in caught.value.findings} == set(config()) - {"state_filter_us"}


def test_what_may_be_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, config()).settings.zero_suppression == 0
    alone = without("state_filter_us") | {"run_us": False}
    assert read(tmp_path, alone).settings.states == ()
    for region in ("TRACT", "AIANNH"):  # of a pass that does not run
        steps = {key: value for key, value in config()["thresholds_p"].items() if region not in key or "PR-" in key}
        assert read(tmp_path, alone | {"thresholds_p": steps}).settings.puerto_rico


def test_numbers_are_read_as_they_are_written(tmp_path: Path) -> None:
    values = config(
        privacy_budget_p_stage_1_fraction=0.1,
        zero_suppression_chance=0.9999,
        privacy_defn="puredp",
        **budgets(0.008) | {BUDGET: 2.134},
    )
    read_values = read(tmp_path, values)
    settings = read_values.settings
    assert settings.definition is Definition.PURE
    assert settings.stage_1_fraction == Fraction(1, 10)
    assert settings.zero_suppression == Fraction(9999, 10_000)
    assert {level.budget for level in settings.levels} == {Fraction("0.008"), Fraction("2.134")}
    assert not read_values.infinite
    assert not read_values.warnings
    assert read(tmp_path, values | {BUDGET: INFINITY}).infinite
    assert read(tmp_path, values | {BUDGET: INFINITY}).settings.total >= INFINITE


def test_thresholds_may_be_any_numbers(tmp_path: Path) -> None:
    """A whole number reaches 2.5 exactly if it reaches 3; nothing reaches infinity."""
    (level,) = {level.thresholds for level in read(tmp_path, config(**thresholds(-0.5, 2.5, INFINITY))).settings.levels}
    assert level == (0, 3, 1 << 62)


def test_odd_but_harmless_is_a_warning(tmp_path: Path) -> None:
    warnings = read(tmp_path, config(reader="cef", random_seed=5)).warnings
    assert [(warning.where.path, warning.severity) for warning in warnings] == [
        ("reader", "warning"),
        ("random_seed", "warning"),
    ]
    assert "these are read" in (warnings[0].remedy or "")
    assert warnings[1].remedy == "remove it"


def test_a_key_that_is_there_twice(tmp_path: Path) -> None:
    """JSON takes the last one; which of the two was meant, nobody can tell."""
    text = json.dumps(config())
    twice = text.replace('"max_race_codes": 8', '"max_race_codes": 8, "max_race_codes": 2', 1)
    twice = twice.replace('"(USA, 1)": [0, 1, 2]', '"(USA, 1)": [5, 6, 7], "(USA, 1)": [0, 1, 2]', 1)
    with pytest.raises(InputError) as raised:
        read(tmp_path, twice)
    assert {(finding.code, finding.where.path) for finding in raised.value.findings} == {
        ("config-key-twice", "max_race_codes"),
        ("config-key-twice", "(USA, 1)"),
    }


def test_a_warning_hides_no_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no level of a pass that runs has a budget"):
        read(tmp_path, config(reader="cef", **budgets(0)))


# The folders.


def nothing_left(folder: Path) -> bool:
    return {path.name for path in folder.iterdir()} == {"parameters", "data"}


def corrupt(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / file
        path.write_bytes(change(path.read_bytes()))

    return apply


INVALID: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "config": (corrupt("parameters/config.json", lambda text: text.replace(b'"csv"', b'"sql"')), "unknown reader"),
    "codes": (
        corrupt("parameters/race-and-ethnicity-codes.txt", lambda text: text + b"1000|Again\n"),
        "more than once",
    ),
    "persons": (
        corrupt("data/person-records.txt", lambda text: text.replace(b"030|1|", b"130|1|", 1)),
        "an age is wrong",
    ),
    "geography": (corrupt("data/GRF-C.txt", lambda text: text + text.split(b"\n")[1] + b"\n"), "repeats a block"),
    "a file": (lambda folder: (folder / "data/GRF-C.txt").unlink(), "a file is missing"),
    "a file twice": (lambda folder: (folder / "data/GRF-C.parquet").write_bytes(b""), "a file is there twice"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_input_exits_1_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    break_it, what = INVALID[name]
    parameters, data = write_input(tmp_path, config(**NOISY))
    break_it(tmp_path)
    found = json.loads(confide("safetab", "validate", parameters, data, "--processes", 1, "--json", code=1))
    assert found["ok"] is False
    assert any(what in finding["what"] for finding in found["findings"])
    out = tmp_path / "some" / "where" / "out"
    printed = confide("safetab", "execute", parameters, data, out, "--processes", 1, "--json", code=1)
    assert what in printed
    assert nothing_left(tmp_path)
    assert "130" not in printed


def test_problems_of_config_and_lists_are_told_together(tmp_path: Path) -> None:
    parameters, data = write_input(tmp_path, config(reader="sql"))
    INVALID["codes"][0](tmp_path)
    findings = official_runs.validate(parameters, data, processes=1, memory=MEMORY).findings
    assert {finding.where.file for finding in findings} == {"config.json", "race-and-ethnicity-codes.txt"}


def test_missing_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        execute(tmp_path / "no", tmp_path / "nothing", tmp_path / "out")
    assert len(caught.value.findings) == 2
    assert not list(tmp_path.iterdir())


def test_validate_and_execute_from_the_command_line(tmp_path: Path) -> None:
    made = write_official(Population(400, 3), tmp_path)
    before = tree(tmp_path)
    assert "No problems found" in confide("safetab", "validate", *made, "--processes", 1)
    assert tree(tmp_path) == before
    out = tmp_path / "out"
    printed = confide("safetab", "execute", *made, out, "--processes", 1)
    assert "a new one; to charge the ledger of the data set" in printed
    hidden = [path for folder in made for path in folder.iterdir() if path.name.startswith(".")]
    assert hidden
    assert [path for path in hidden if path.name not in printed] == [], "nothing hidden is left without a word"
    assert all(tables(out))
    explained = {"README.txt", "codebook.html", "datapackage.json", "explore.html", "areas.csv", "cells"}
    expected = {"t1", "t2", "tables", "manifest.json", "certificate.html"} | explained
    assert {path.name for path in out.iterdir()} == expected
    assert not [name for name in tree(out) if "confidential" in name or name.endswith(".ledger")]
    (kept,) = (path for path in tmp_path.iterdir() if path.name == "out-confidential")
    assert kept.stat().st_mode & 0o077 == 0
    content = tree(out)
    again = confide("safetab", "execute", *made, out, "--processes", 1)
    assert "sealed before. Nothing was done and nothing was charged" in again
    assert json.loads(confide("safetab", "execute", *made, out, "--processes", 1, "--json"))["was_sealed_before"]
    assert tree(out) == content
    assert len([entry for entry in Ledger(kept / "data-set.ledger").history() if entry.kind == "reserve"]) == 1
    assert json.loads(confide("verify", out, "--json"))["ok"] is True


def test_a_run_without_noise_says_so_everywhere(tmp_path: Path) -> None:
    parameters, data = write_input(tmp_path, config(run_pr=False))
    said = json.loads(confide("safetab", "execute", parameters, data, tmp_path / "out", "--processes", 1, "--json"))
    assert said["not_for_release"] is True
    assert all("NOT-FOR-RELEASE" in name for name in tree(tmp_path / "out") if name.startswith(("t1", "t2", "tables")))


@pytest.mark.parametrize("there", ["a file", "a folder with a file"])
def test_a_folder_that_is_not_ours_is_not_touched(tmp_path: Path, there: str) -> None:
    parameters, data = write_input(tmp_path, config(**NOISY))
    out = tmp_path / "out"
    if there == "a file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "letter.txt").write_text("mine")
    before = tree(tmp_path)
    for _ in range(2):
        with pytest.raises(ConfideError, match="there is something already"):
            execute(parameters, data, out)
    assert tree(tmp_path) == before


def test_a_release_that_lost_a_file_is_not_taken_for_whole(tmp_path: Path) -> None:
    parameters, data = write_input(tmp_path, config(**NOISY, run_pr=False))
    made = execute(parameters, data, tmp_path / "out")
    whole = tree(made.folder)
    (made.folder / "t1" / "t1.csv").unlink()
    with pytest.raises(ConfideError, match="there is something already"):
        execute(parameters, data, tmp_path / "out")
    made.folder.rename(tmp_path / "half")
    assert execute(parameters, data, tmp_path / "out").run.was_sealed_before
    assert tree(tmp_path / "out") == whole


def test_other_parameters_or_records_for_the_same_folder_are_refused(tmp_path: Path) -> None:
    parameters, data = write_input(tmp_path, config(**NOISY, run_pr=False))
    execute(parameters, data, tmp_path / "out")
    before = tree(tmp_path / "out-confidential")
    write_input(tmp_path, config(**NOISY, run_pr=False, max_race_codes=3))
    with pytest.raises(ConfideError, match="other parameters"):
        execute(parameters, data, tmp_path / "out")
    write_input(tmp_path, config(**NOISY, run_pr=False), people=PEOPLE[:-1] + PEOPLE[:1])
    with pytest.raises(ConfideError, match="the records are not the ones"):
        execute(parameters, data, tmp_path / "out")
    assert tree(tmp_path / "out-confidential").keys() == before.keys()


def test_a_folder_named_by_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``.`` has no name of its own: what is kept must be beside the folder that is meant."""
    write_input(tmp_path, config(**NOISY, run_pr=False))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    execute(Path("../parameters"), Path("../data"), Path())
    assert (tmp_path / "here" / "t1" / "t1.csv").exists()
    assert (tmp_path / "here-confidential" / "spec.toml").exists()


# The ledger.


def ledger_of(path: Path, budget: int, neighbours: str) -> Path:
    Ledger.open_new(path, data_set="people", definition="zcdp", neighbours=neighbours, budget=budget)  # type: ignore[arg-type]
    return path


def test_a_shared_ledger_counts_every_execution(tmp_path: Path) -> None:
    values = budgets(0) | {budget_key("STATE", 2): 2, "run_pr": False}
    parameters, data = write_input(tmp_path, config(**values))
    ledger = ledger_of(tmp_path / "people.ledger", 4, "add-remove")
    first = execute(parameters, data, tmp_path / "one", ledger=ledger)
    cost = first.run.plan.loss.parameters()["rho"]
    assert Ledger(ledger).account().spent == cost
    assert not (first.private / "data-set.ledger").exists()
    execute(parameters, data, tmp_path / "two", ledger=ledger)
    assert Ledger(ledger).account().spent == 2 * cost
    before = tree(tmp_path)
    with pytest.raises(ConfideError, match="costs more than the budget"):
        execute(parameters, data, tmp_path / "three", ledger=ledger)
    assert tree(tmp_path) == before
    assert tables(tmp_path / "one") != tables(tmp_path / "two")


def test_a_ledger_of_other_people_is_charged_only_if_somebody_says_so(tmp_path: Path) -> None:
    values = budgets(0) | {budget_key("STATE", 2): 2, "run_pr": False}
    parameters, data = write_input(tmp_path, config(**values))
    ledger = ledger_of(tmp_path / "people.ledger", 4, "add-remove")
    Ledger(ledger).reserve("r", release="other", plan_hash="a" * 64, records_fingerprint="b" * 64, cost=1)
    with pytest.raises(ConfideError, match="charged for other records"):
        execute(parameters, data, tmp_path / "one", ledger=ledger)
    assert Ledger(ledger).account().spent == 1
    assert not (tmp_path / "one-confidential").exists()
    execute(parameters, data, tmp_path / "one", ledger=ledger, accept_ledger=True)
    assert Ledger(ledger).account().spent > 1


def test_a_ledger_of_changed_records_is_charged_twice_the_sum(tmp_path: Path) -> None:
    values = budgets(0) | {budget_key("STATE", 2): 2, "run_pr": False}
    parameters, data = write_input(tmp_path, config(**values))
    ledger = ledger_of(tmp_path / "people.ledger", 5, "change-one")
    made = execute(parameters, data, tmp_path / "one", ledger=ledger)
    assert Ledger(ledger).account().spent == 2 * made.run.plan.loss.parameters()["rho"]


def test_a_ledger_that_is_not_there_or_of_another_kind(tmp_path: Path) -> None:
    parameters, data = write_input(tmp_path, config(**NOISY))
    with pytest.raises(ConfideError, match="no ledger at this path"):
        execute(parameters, data, tmp_path / "out", ledger=tmp_path / "none.ledger")
    assert nothing_left(tmp_path)
    write_input(tmp_path, config(**NOISY, privacy_defn="zcdp"))
    Ledger.open_new(tmp_path / "pure.ledger", data_set="people", definition="pure", neighbours="add-remove", budget=100)
    with pytest.raises(ConfideError, match="counts pure, and this plan has another definition"):
        execute(parameters, data, tmp_path / "out", ledger=tmp_path / "pure.ledger")
    assert not (tmp_path / "out-confidential").exists()


# Conversion and interruption.


def test_convert_writes_a_spec_that_checks_and_runs(tmp_path: Path) -> None:
    parameters, data = write_input(tmp_path, config(**NOISY, zero_suppression_chance=0.9, max_race_codes=3))
    spec = json.loads(confide("safetab", "convert", parameters, data, tmp_path / "spec", "--json"))["spec"]
    assert json.loads(confide("check", spec, "--json"))["ok"] is True
    settings = api.load(spec).spec.settings  # type: ignore[attr-defined]
    assert settings == read_config(parameters / "config.json").settings
    confide("safetab", "convert", parameters, data, tmp_path / "spec", code=1)


KILL = """
import os, signal, sys
from confide import api
from confide.mechanisms.safetab import mechanism as pipeline
from confide.releases.folder import ReleaseWriter
from confide.releases.ledger import Ledger

def die(*arguments, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def nth(function, number, left=[]):
    def counted(*arguments, **named):
        left.append(None)
        return die() if len(left) > number else function(*arguments, **named)
    return counted

moment = sys.argv[2]
if moment == "counting":
    pipeline.SafeTab.measure = die
elif moment == "measuring":
    pipeline.measure_groups = nth(pipeline.measure_groups, 3)
elif moment == "writing":
    ReleaseWriter.text = nth(ReleaseWriter.text, 1)
elif moment == "sealing":
    Ledger.mark_sealed = die
api.run(sys.argv[1], processes=1, memory="1GiB", insecure_key=sys.argv[3])
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("counting", marks=pytest.mark.slow),
        "measuring",
        pytest.param("writing", marks=pytest.mark.slow),
        pytest.param("sealing", marks=pytest.mark.slow),
    ],
)
def test_killed_and_run_again_it_is_the_same_release_for_one_charge(tmp_path: Path, moment: str) -> None:
    """Two runs of the same question with the same chosen key: one in one go, the other killed on the way."""
    parameters, data = write_input(tmp_path, config(**NOISY, run_pr=False, zero_suppression_chance=0.9))
    whole = official_runs.convert(parameters, data, tmp_path / "whole")
    expected = tree(api.run(whole, processes=1, memory=MEMORY, insecure_key=KEY).release)
    killed = official_runs.convert(parameters, data, tmp_path / "killed")
    command = [sys.executable, "-c", KILL, str(killed), moment, KEY]
    assert subprocess.run(command, check=False).returncode == -9
    confide("run", killed, "--insecure-key", KEY, "--processes", 1)
    assert tree(killed.parent / "safetab" / "release") == expected
    kinds = [entry.kind for entry in Ledger(killed.parent / "data-set.ledger").history()]
    assert kinds == ["open", "reserve", "measured", "sealed"]


EXECUTE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from confide import official_runs
official_runs.copy_release = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
official_runs.execute(*map(Path, sys.argv[1:]), processes=1, memory="1GiB")
"""


@pytest.mark.process
def test_killed_before_the_release_was_copied_execute_goes_on(tmp_path: Path) -> None:
    parameters, data = write_input(tmp_path, config(**NOISY, run_pr=False))
    out = tmp_path / "out"
    command = [sys.executable, "-c", EXECUTE_AND_DIE, *map(str, (parameters, data, out))]
    assert subprocess.run(command, check=False).returncode == -9
    assert not out.exists()
    made = execute(parameters, data, out)
    assert made.run.was_sealed_before
    assert tree(out) == tree(made.run.release)
    assert not (tmp_path / "out.partial").exists()
