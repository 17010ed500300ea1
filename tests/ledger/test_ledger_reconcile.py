"""The ledger against the run folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.kits.ledger import MANIFEST, reserve, sha, tamper

from confide.errors import Finding
from confide.releases.ledger import Ledger, Reservation, RunRecord, RunState


def record(run: Reservation, state: RunState | None = None) -> RunRecord:
    return RunRecord(run.run_id, run.plan_hash, run.reservation_hash, Path("runs") / run.run_id, state)


def codes(findings: tuple[Finding, ...]) -> list[tuple[str, str]]:
    for finding in findings:
        assert finding.found
        assert finding.expected
        assert finding.remedy
        assert str(finding.where)
    return [(finding.code, finding.severity) for finding in findings]


def reach(ledger: Ledger, run_id: str, state: RunState) -> Reservation:
    run = reserve(ledger, run_id, "1/8")
    if state == "void":
        run = ledger.void(run_id, "a reason")
    if state in ("measured", "sealed"):
        run = ledger.mark_measured(run_id)
    if state == "sealed":
        run = ledger.mark_sealed(run_id, MANIFEST)
    return run


def test_agreement_is_silent(ledger: Ledger) -> None:
    states: tuple[RunState, ...] = ("reserved", "measured", "sealed")
    records = [record(reach(ledger, state, state), state) for state in states]
    reach(ledger, "void", "void")  # a void run needs no folder
    assert ledger.reconcile(records) == ()
    assert ledger.reconcile(replace(one, state=None) for one in records) == ()


@pytest.mark.parametrize(
    ("in_ledger", "in_folder", "expected"),
    [
        ("reserved", "measured", [("reconcile-ahead", "error")]),
        ("reserved", "sealed", [("reconcile-ahead", "error")]),
        ("void", "measured", [("reconcile-ahead", "error")]),
        ("void", "sealed", [("reconcile-ahead", "error")]),
        ("void", "reserved", [("reconcile-void", "warning")]),
        ("measured", "sealed", [("reconcile-not-recorded", "warning")]),
        ("measured", "reserved", []),  # died between the entry and the first draw
        ("sealed", "measured", [("reconcile-behind", "warning")]),
        ("sealed", "reserved", [("reconcile-behind", "warning")]),
        ("measured", "void", [("reconcile-behind", "warning")]),
    ],
)
def test_states_that_disagree(
    ledger: Ledger, in_ledger: RunState, in_folder: RunState, expected: list[tuple[str, str]]
) -> None:
    run = reach(ledger, "run-1", in_ledger)
    assert codes(ledger.reconcile([record(run, in_folder)])) == expected


@pytest.mark.parametrize("state", ["reserved", "measured", "sealed"])
def test_a_run_without_a_folder_stays_charged(ledger: Ledger, state: RunState) -> None:
    run = reach(ledger, "run-1", state)
    findings = ledger.reconcile([])
    assert codes(findings) == [("reconcile-no-folder", "warning")]
    assert "stays charged with 1/8" in findings[0].what
    assert ("void it" in (findings[0].remedy or "")) == (state == "reserved")
    assert ledger.status("run-1").charged == run.cost


def test_a_truncated_ledger_is_found_by_the_run_folder(ledger: Ledger) -> None:
    kept, lost = (reserve(ledger, run_id) for run_id in ("kept", "lost"))
    tamper(ledger.path, "DELETE FROM entries WHERE sequence = 3")
    truncated = Ledger(ledger.path, clock=ledger._clock)
    assert codes(truncated.reconcile([record(kept), record(lost)])) == [("reconcile-not-in-ledger", "error")]
    reserve(truncated, "lost")  # reserved again, by an entry with another hash
    assert codes(truncated.reconcile([record(kept), record(lost)])) == [("reconcile-other-reservation", "error")]


def test_a_truncation_that_made_a_measured_run_voidable_is_found(ledger: Ledger) -> None:
    run = reach(ledger, "run-1", "measured")
    tamper(ledger.path, "DELETE FROM entries WHERE sequence = 3")
    truncated = Ledger(ledger.path, clock=ledger._clock)
    truncated.void("run-1", "to spend it twice")
    assert codes(truncated.reconcile([record(run, "measured")])) == [("reconcile-ahead", "error")]


def test_other_plan_other_manifest_and_two_folders(ledger: Ledger) -> None:
    run = reach(ledger, "run-1", "sealed")
    sealed = replace(record(run, "sealed"), manifest_sha256=MANIFEST)
    assert ledger.reconcile([sealed]) == ()
    other_plan = replace(sealed, plan_hash=sha("other"))
    assert codes(ledger.reconcile([other_plan])) == [("reconcile-other-plan", "error")]
    other_manifest = replace(sealed, manifest_sha256=sha("other"))
    assert codes(ledger.reconcile([other_manifest])) == [("reconcile-other-manifest", "error")]
    twin = replace(sealed, folder=Path("copy"))
    assert codes(ledger.reconcile([sealed, twin])) == [("reconcile-twice", "error")]


def test_a_folder_with_another_key_than_the_one_that_was_charged(ledger: Ledger) -> None:
    run = reserve(ledger, "run-1", "1/8")
    run = ledger.mark_measured("run-1", sha("key"))
    own = replace(record(run, "measured"), key_commitment=sha("key"))
    assert ledger.reconcile([own]) == ()
    assert ledger.reconcile([replace(own, key_commitment=None)]) == ()  # a destroyed key says nothing
    second = replace(own, key_commitment=sha("another key"))
    assert codes(ledger.reconcile([second])) == [("reconcile-other-key", "error")]


def test_a_ledger_others_may_open_is_a_warning(ledger: Ledger) -> None:
    ledger.path.chmod(0o640)
    assert codes(ledger.reconcile([])) == [("ledger-exposed", "warning")]
