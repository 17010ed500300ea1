"""What can be wrong with a run that was begun, a release that was sealed, or a command that is given something else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kits.bad_input import (
    KEY,
    OTHER_KEY,
    Bad,
    assert_refused,
    both,
    confide,
    content,
    entries,
    make_project,
    open_ledger,
    records,
    removed,
    replaced,
    run_first,
    spec,
    tree,
)

from confide.releases.ledger import Ledger

SYSTEM_RUN = (("run", "@spec.toml"),)
CHOSEN_RUN = (("run", "@spec.toml", "--insecure-key", KEY),)
OTHER_RUN = (("run", "@spec.toml", "--insecure-key", OTHER_KEY),)
REPLAY, EVALUATE, VERIFY = (("replay", "@tiny"),), (("evaluate", "@tiny"),), (("verify", "@tiny/release"),)
RUN_JSON = "tiny/confidential/run.json"
MANIFEST = "tiny/release/manifest.json"
CSV = "tiny/release/tables/kinds.csv"


def stopped(project: Path, key: str | None = None) -> None:
    """A run that was interrupted after it was charged and before it was complete."""
    run_first(key=key)(project)
    shutil.rmtree(project / "tiny/release")
    history = Ledger(project / "people.ledger").history()
    remove_ledger(project)
    ledger = open_ledger(project)
    reserved = history[1].event
    run_id, plan_hash, fingerprint = (
        getattr(reserved, name) for name in ("run_id", "plan_hash", "records_fingerprint")
    )
    again = ledger.reserve(run_id, release="tiny", plan_hash=plan_hash, records_fingerprint=fingerprint, cost="1/2")
    ledger.mark_measured(run_id)
    record = json.loads((project / RUN_JSON).read_text())
    charged = {"reservation_hash": again.reservation_hash, "ledger_id": ledger.sighting().ledger_id}
    (project / RUN_JSON).write_text(json.dumps(record | charged))


def changed_json(name: str, **changes: Any) -> Any:
    def change(project: Path) -> None:
        values = json.loads((project / name).read_text()) | changes
        (project / name).write_text(json.dumps({key: value for key, value in values.items() if value is not None}))

    return change


def mode(name: str, bits: int) -> Any:
    return lambda project: (project / name).chmod(bits)


def remove_ledger(project: Path) -> None:
    """As if there had been none: also what lies beside the records to witness it."""
    (project / "people.ledger").unlink()
    for witness in project.glob(".*.witness.json"):
        witness.unlink()


def new_ledger(project: Path) -> None:
    remove_ledger(project)
    open_ledger(project)


def foreign_run(project: Path) -> None:
    other = make_project(project / "elsewhere")
    run_first(key=None)(other)


def void(project: Path) -> None:
    stopped(project)
    remove_ledger(project)
    ledger = open_ledger(project)
    record = json.loads((project / RUN_JSON).read_text())
    fingerprint = record["records_fingerprint"]
    run_id = record["run_id"]
    ledger.reserve(run_id, release="tiny", plan_hash=record["plan_hash"], records_fingerprint=fingerprint, cost="1/2")
    ledger.void(run_id, "tried in the wrong week")


def extra_file(project: Path) -> None:
    (project / "tiny/release/tables/more.csv").write_text("level,area,count\n")


RUNS = [
    Bad(
        "another plan",
        both(stopped, spec('budget = "1/2"', 'budget = "1/3"')),
        "run-changed",
        "tiny$",
        commands=SYSTEM_RUN,
        remedy="new",
    ),
    Bad(
        "other records",
        both(stopped, records(sex=[1] * 40)),
        "run-changed",
        "tiny$",
        commands=SYSTEM_RUN,
        remedy="restore the inputs",
    ),
    Bad("another kind of key", stopped, "run-changed", "tiny$", commands=CHOSEN_RUN),
    Bad("another chosen key", lambda project: stopped(project, KEY), "run-changed", "tiny$", commands=OTHER_RUN),
    Bad("no key for a run with a chosen one", run_first(), "run-changed", "tiny$", commands=SYSTEM_RUN),
    Bad(
        "a lost key",
        both(stopped, removed("tiny/confidential/key")),
        "key",
        r"confidential/key$",
        commands=SYSTEM_RUN,
        remedy="backup",
    ),
    Bad(
        "a key that others can read",
        both(stopped, mode("tiny/confidential/key", 0o644)),
        "key",
        r"confidential/key$",
        commands=SYSTEM_RUN,
        remedy="chmod 600",
    ),
    Bad(
        "a damaged key",
        both(stopped, content("tiny/confidential/key", "system 12\n")),
        "key",
        r"confidential/key$",
        commands=SYSTEM_RUN,
    ),
    Bad(
        "a key of no kind",
        both(stopped, content("tiny/confidential/key", f"good {KEY}\n")),
        "key",
        r"confidential/key$",
        commands=SYSTEM_RUN,
    ),
    Bad(
        "a key of another kind",
        both(stopped, content("tiny/confidential/key", f"chosen {KEY}\n")),
        "run-changed",
        "tiny$",
        commands=SYSTEM_RUN,
    ),
    Bad(
        "a damaged record of the run",
        both(stopped, content(RUN_JSON, "{")),
        "run-record",
        r"run\.json$",
        remedy="backup",
    ),
    Bad(
        "a record of the run without a field",
        both(stopped, changed_json(RUN_JSON, plan_hash=None)),
        "run-record",
        r"run\.json$",
    ),
    Bad(
        "a record of the run with something else",
        both(stopped, changed_json(RUN_JSON, spec=7)),
        "run-record",
        r"run\.json$",
    ),
    Bad("a record that is a list", both(stopped, content(RUN_JSON, "[1]")), "run-record", r"run\.json$"),
    Bad(
        "a ledger that does not know the run",
        both(stopped, new_ledger),
        "run-not-in-ledger",
        r"tiny$",
        remedy="reconcile",
    ),
    Bad("a run that was given up", void, "run-void", r"tiny$", remedy="remove the folder"),
    Bad(
        "a release of another run in the folder",
        both(run_first(), removed(RUN_JSON)),
        "run-folder",
        r"spec\.toml, line 2, path release\.name",
        "name",
    ),
    Bad("a file where the folder should be", content("tiny", "a file"), "run-folder", r"spec\.toml, line 2", "name"),
    Bad(
        "a folder below a file",
        spec("[output]", '[output]\nfolder = "schema.toml/x"'),
        "run-folder",
        r"output\.folder",
        "folder",
    ),
    Bad(
        "a sealed release that was changed",
        both(run_first(key=None), replaced(MANIFEST, "tables", "tabels")),
        "release-changed",
        r"tiny.release$",
        commands=SYSTEM_RUN,
    ),
    Bad(
        "a sealed release that is gone",
        both(run_first(key=None), lambda p: shutil.rmtree(p / "tiny/release")),
        "release-changed",
        r"tiny.release$",
        commands=SYSTEM_RUN,
    ),
    Bad("a replay of a run that is not complete", stopped, "not-sealed", r"tiny$", commands=REPLAY),
    Bad(
        "a replay of other records", both(run_first(), records(sex=[1] * 40)), "run-changed", r"tiny$", commands=REPLAY
    ),
    Bad(
        "a replay of another plan", both(run_first(), spec('"1/2"', '"1/3"')), "run-changed", r"tiny$", commands=REPLAY
    ),
    Bad(
        "a replay without the key",
        both(run_first(), removed("tiny/confidential/key")),
        "key",
        r"confidential/key",
        commands=REPLAY,
        remedy="final",
    ),
    Bad(
        "a replay of a spec that is gone",
        both(run_first(), removed("spec.toml")),
        "spec-unreadable",
        r"spec\.toml",
        commands=REPLAY,
    ),
    Bad("a replay of nothing", lambda _: None, "spec-unreadable", r"tiny$", commands=REPLAY),
    Bad(
        "an evaluation of nothing",
        lambda _: None,
        "no-run",
        r"tiny$",
        commands=(("evaluate", "@spec.toml"),),
        remedy="run the spec",
    ),
    Bad("an evaluation before the end", stopped, "not-sealed", r"release$", commands=EVALUATE),
    Bad(
        "an evaluation of another plan",
        both(run_first(), spec('"1/2"', '"1/3"')),
        "run-changed",
        r"tiny$",
        commands=EVALUATE,
    ),
    Bad(
        "an evaluation without the truth",
        both(run_first(), removed("tiny/confidential/counts/kinds.block.parquet")),
        "no-truth",
        r"kinds\.block\.parquet",
        commands=EVALUATE,
    ),
    Bad(
        "a folder that is no release",
        lambda p: (p / "tiny/release").mkdir(parents=True),
        "not-a-release",
        r"manifest\.json",
        commands=VERIFY,
    ),
    Bad(
        "a file that is no release",
        lambda p: (p / "tiny").write_text(""),
        "not-a-release",
        r"manifest\.json",
        commands=(("verify", "@tiny"),),
    ),
    Bad(
        "a manifest that is not JSON",
        both(run_first(), content(MANIFEST, "{")),
        "not-a-release",
        r"manifest\.json",
        commands=VERIFY,
    ),
    Bad(
        "a manifest of something else",
        both(run_first(), content(MANIFEST, "[]")),
        "not-a-release",
        r"manifest\.json",
        commands=VERIFY,
    ),
    Bad(
        "a manifest without a plan",
        both(run_first(), changed_json(MANIFEST, plan=None)),
        "not-a-release",
        r"manifest\.json",
        commands=VERIFY,
    ),
    Bad(
        "a manifest with another plan",
        both(run_first(), changed_json(MANIFEST, plan={})),
        "not-as-sealed",
        r"path manifest\.json",
        commands=VERIFY,
    ),
    Bad(
        "a manifest of an unknown mechanism",
        both(run_first(), changed_json(MANIFEST, mechanism="magic")),
        "not-as-sealed",
        r"path manifest\.json",
        commands=VERIFY,
    ),
    Bad(
        "a manifest that lists a file outside",
        both(run_first(), changed_json(MANIFEST, files=[{"path": "../../spec.toml", "sha256": "", "bytes": 1}])),
        "not-as-sealed",
        r"path \.\./\.\./spec\.toml",
        commands=VERIFY,
    ),
    Bad(
        "a file missing",
        both(run_first(key=None), removed(CSV)),
        "not-as-sealed",
        r"path tables/kinds\.csv",
        commands=VERIFY,
        remedy="again",
    ),
    Bad(
        "a file changed",
        both(run_first(key=None), replaced(CSV, ",", ";")),
        "not-as-sealed",
        r"path tables/kinds\.csv",
        commands=VERIFY,
    ),
    Bad(
        "a file added",
        both(run_first(), extra_file),
        "not-as-sealed",
        r"path nothing else in the folder",
        commands=VERIFY,
    ),
    Bad(
        "the account of no release",
        lambda _: None,
        "not-a-release",
        r"manifest\.json",
        commands=(("account", "release", "@tiny"),),
    ),
    Bad(
        "the account of a changed plan",
        both(run_first(), changed_json(MANIFEST, plan={"measures": [1]})),
        "bad-plan",
        r"manifest\.json, path plan",
        commands=(("account", "release", "@tiny/release"),),
    ),
    Bad(
        "a reconciliation with a foreign folder",
        lambda _: None,
        "no-run",
        "",
        commands=(("ledger", "reconcile", "@people.ledger", "@"),),
    ),
    Bad(
        "a reconciliation with another ledger's run",
        foreign_run,
        "reconcile-not-in-ledger",
        "elsewhere/tiny",
        commands=(("ledger", "reconcile", "@people.ledger", "@elsewhere/tiny"),),
    ),
    Bad(
        "a reconciliation with a changed release",
        both(run_first(), replaced(MANIFEST, "tables", "tabels")),
        "reconcile-other-manifest",
        "tiny",
        commands=(("ledger", "reconcile", "@people.ledger", "@tiny"),),
    ),
    Bad(
        "a ledger that is not there",
        lambda _: None,
        "ledger-missing",
        r"none\.ledger",
        commands=(("ledger", "show", "@none.ledger"),),
    ),
    Bad(
        "the history of a text",
        lambda _: None,
        "ledger-not-a-ledger",
        r"spec\.toml",
        commands=(("ledger", "history", "@spec.toml"),),
    ),
]


@pytest.mark.parametrize("bad", RUNS, ids=lambda bad: bad.name)
def test_a_bad_state_is_refused_with_its_place_and_a_remedy(bad: Bad, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    bad.change(project)
    assert_refused(bad, project)


SEAL = ["seal", "--destroy-key"]
OPEN = ["ledger", "open", "@new.ledger", "--data-set", "x", "--budget"]
NOISE = ["account", "noise", "pmf", "--law", "discrete-gaussian", "--at", "0", "--sigma2"]
CONVERT = ["account", "convert", "--rho"]
SYNTHESIZE = ["import", "made-up", "--out", "@made", "--persons"]

REFUSED = [
    ("a key that is not hexadecimal", ["run", "@spec.toml", "--insecure-key", "z" * 64], "bad-key|hexadecimal"),
    ("a key that is too short", ["run", "@spec.toml", "--insecure-key", "5a" * 31], "32 bytes"),
    ("sealing before the end", [*SEAL, "@spec.toml"], "no run in this folder"),
    ("no amount of memory", ["check", "@spec.toml", "--memory", "lots"], "amount of memory"),
    ("a budget in words", [*OPEN, "plenty"], "not a number"),
    ("a budget of zero", [*OPEN, "0"], "greater than zero"),
    ("a budget out of all proportion", [*OPEN, "1e9999"], "digits"),
    ("a ledger over another file", ["ledger", "open", "@spec.toml", "--data-set", "x", "--budget", "1"], "overwritten"),
    ("giving up a run that is not there", ["ledger", "void", "@people.ledger", "x", "--reason", "y"], "no such run"),
    ("a variance in words", [*NOISE, "wide"], "not a number"),
    ("a variance of zero", [*NOISE, "0"], "greater than zero"),
    (
        "a probability above one",
        ["account", "noise", "quantile", "--law", "discrete-gaussian", "--sigma2", "4", "-p", "2"],
        "less than one",
    ),
    ("rho that is no number", [*CONVERT, "nan"], "not a number"),
    ("rho below zero", [*CONVERT, "-1"], "greater than zero"),
    ("rho out of all proportion", [*CONVERT, "1e9999"], "too large or too small"),
    ("delta above one", [*CONVERT, "1", "--delta", "2"], "less than 1"),
    ("three made-up people", [*SYNTHESIZE, "3", "--seed", "-1"], "persons cannot be made"),
    ("made-up people in a file", ["import", "made-up", "--out", "@spec.toml"], "cannot be written"),
    ("a zip that is none", ["import", "pl94", "@spec.toml", "--out", "@imported"], "not a zip"),
    ("a zip that is not there", ["import", "pl94", "@ri2010.pl.zip", "--out", "@imported"], "not there"),
    ("a spec over a spec", ["new", "tables", "@"], "a spec already"),
    ("a spec in a file", ["new", "tables", "@spec.toml"], "cannot be written"),
    ("a spec of no mechanism", ["new", "tabels", "@other"], "no such mechanism"),
]

USAGE = [
    ["seal", "@spec.toml"],
    ["check"],
    ["check", "@spec.toml", "--processes", "0"],
    ["check", "@spec.toml", "--procesess", "1"],
    ["ledger", "reconcile", "@people.ledger"],
    ["account", "noise", "pmf", "--law", "gauss", "--sigma2", "1", "--at", "0"],
    ["account", "noise", "pmf", "--law", "discrete-gaussian", "--sigma2", "1", "--at", "x"],
    ["account", "noise", "pmf", "--law", "discrete-gaussian", "--epsilon", "1", "--at", "0"],
    ["account", "convert"],
    ["account", "convert", "--rho", "1", "--epsilon", "1"],
    ["import", "made-up", "--persons", "many", "--out", "@made"],
    ["conceal"],
]


@pytest.mark.parametrize(("arguments", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_command_with_bad_values_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    before = tree(project)
    outcome = confide(*(str(project / word[1:]) if word.startswith("@") else word for word in arguments))
    assert outcome.exit_code == 1, outcome.text
    assert any(words in outcome.err for words in said.split("|")), outcome.err
    assert "remedy: " in outcome.err
    assert "Traceback" not in outcome.text
    assert tree(project) == before


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_a_command_that_is_not_understood_says_how_it_is_used(arguments: list[str], tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    before = tree(project)
    outcome = confide(*(str(project / word[1:]) if word.startswith("@") else word for word in arguments))
    assert outcome.exit_code == 2, outcome.text
    assert "Usage:" in outcome.err
    assert tree(project) == before


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["check", "spec.toml", "--json"], 1),
        (["run", "missing.toml"], 1),
        (["seal", "spec.toml"], 2),
        (["new", "json-schema"], 0),
    ],
)
def test_exit_codes_of_the_real_command(arguments: list[str], exit_code: int, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    spec('"kind"', '"kinder"')(project)
    command = [sys.executable, "-W", "error", "-m", "confide", *arguments]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == exit_code, ended.stderr
    assert "Traceback" not in ended.stderr
    if "--json" in arguments:
        assert json.loads(ended.stdout)["findings"][0]["code"] == "unknown-variable"


def test_a_run_that_died_before_it_was_charged_binds_nobody(tmp_path: Path) -> None:
    """The record of a run is written before the charge; without a charge, other inputs begin it anew."""
    project = make_project(tmp_path / "project")
    both(run_first(key=None), changed_json(RUN_JSON, reservation_hash=None))(project)
    shutil.rmtree(project / "tiny/release")
    (project / "tiny/confidential/key").unlink()
    for folder in ("counts", "measured"):
        shutil.rmtree(project / "tiny/confidential" / folder)
    new_ledger(project)
    both(spec('budget = "1/2"', 'budget = "1/3"'), records(sex=[1] * 40))(project)
    run_first(key=None)(project)
    assert entries(project) == ["open", "reserve", "measured", "sealed"]
    assert Ledger(project / "people.ledger").account().spent * 3 == 1
