"""The ledger compared with the run folders: what a hash chain cannot tell about itself.

Somebody who may write the file can cut entries off its end, or put an older copy in its place, and the chain that is
left is whole. But each run folder keeps the hash of the entry that reserved it. A folder whose reservation is not in
the chain proves that the ledger has forgotten; a folder that is further on than the ledger proves it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from confide.errors import Finding, Place, Severity
from confide.runs.ledger.account import Account, Reservation, RunState
from confide.runs.ledger.events import shown

_FORGOTTEN = (
    "release nothing from this data set: the ledger is an older copy, was cut off, or is another data set's. Find the "
    "copy that holds this run; if there is none, remember that its cost is spent all the same"
)
_STEPS: dict[RunState, int] = {"void": 0, "reserved": 1, "measured": 2, "sealed": 3}
_IF_LOST: dict[RunState, str] = {
    "reserved": "look for the folder; if nothing was drawn and the run will not be made, void it to free its cost",
    "measured": "look for the folder: with it the run is finished at no further cost; without it the cost stays spent",
    "sealed": "if the folder was archived on purpose, nothing; otherwise restore it from a copy",
}


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run folder says about itself.

    ``state`` is how far the files in the folder show the run to be: ``measured`` as soon as anything noisy was kept,
    ``sealed`` once the release is complete; None if that was not looked at. ``manifest_sha256`` is computed from the
    manifest in the folder, if there is one.
    """

    run_id: str
    plan_hash: str
    reservation_hash: str
    folder: Path
    state: RunState | None = None
    manifest_sha256: str | None = None


def compare(account: Account, records: Iterable[RunRecord]) -> tuple[Finding, ...]:
    """Everything in which the run folders and the ledger disagree; nothing if they agree."""
    findings: list[Finding] = []
    folders: dict[str, Path] = {}
    for record in records:
        if record.run_id in folders:
            findings.append(_twice(record, folders[record.run_id]))
        else:
            folders[record.run_id] = record.folder
        findings += _disagreements(record, account.runs.get(record.run_id))
    charged = (run for run in account.runs.values() if run.state != "void")
    return tuple(findings + [_without_folder(run) for run in charged if run.run_id not in folders])


def _disagreements(record: RunRecord, run: Reservation | None) -> Iterator[Finding]:
    if run is None:
        yield _finding(
            record,
            "reconcile-not-in-ledger",
            "the run has a folder and is not in the ledger",
            found=f"run {record.run_id!r}",
            expected="a ledger that holds every run",
            remedy=_FORGOTTEN,
        )
        return
    if record.reservation_hash != run.reservation_hash:
        yield _finding(
            record,
            "reconcile-other-reservation",
            "the run was reserved by an entry that is not in the ledger",
            found=f"reservation {record.reservation_hash[:16]}…",
            expected=f"reservation {run.reservation_hash[:16]}…",
            remedy=_FORGOTTEN,
        )
    if record.plan_hash != run.plan_hash:
        yield _finding(
            record,
            "reconcile-other-plan",
            "the run folder holds another plan than the one that was charged",
            found=f"plan {record.plan_hash[:16]}…",
            expected=f"plan {run.plan_hash[:16]}…",
            remedy="publish nothing from this folder; restore its plan, or start a new run with a new charge",
        )
    if run.manifest_sha256 and record.manifest_sha256 and run.manifest_sha256 != record.manifest_sha256:
        yield _finding(
            record,
            "reconcile-other-manifest",
            "the manifest is not the one that was sealed",
            found=f"manifest {record.manifest_sha256[:16]}…",
            expected=f"manifest {run.manifest_sha256[:16]}…",
            remedy="publish nothing from this folder; restore the sealed release from a copy",
        )
    if record.state is not None and record.state != run.state:
        yield from _states(record, record.state, run.state)


def _states(record: RunRecord, folder: RunState, ledger: RunState) -> Iterator[Finding]:
    """A folder may be behind its ledger, where each step is recorded first; only a release is sealed first."""
    found, expected = f"the folder is {folder}", f"{ledger}, as in the ledger"
    if (folder, ledger) == ("reserved", "void"):
        what, remedy = "the folder of a void run is still there", "remove it: a void run does not go on"
        yield _finding(record, "reconcile-void", what, found, expected, remedy, "warning")
    elif (folder, ledger) == ("sealed", "measured"):
        what, remedy = "the release is sealed and the ledger does not say so", "run it again, which records it"
        yield _finding(record, "reconcile-not-recorded", what, found, expected, remedy, "warning")
    elif _STEPS[folder] > _STEPS[ledger]:
        what = "the folder is further on than the ledger, which is written first"
        yield _finding(record, "reconcile-ahead", what, found, expected, _FORGOTTEN)
    elif ledger == "sealed" or folder == "void":
        what, remedy = "the folder is behind the ledger", "restore it from a copy, or run it again if its key is there"
        yield _finding(record, "reconcile-behind", what, found, expected, remedy, "warning")


def _twice(record: RunRecord, first: Path) -> Finding:
    return _finding(
        record,
        "reconcile-twice",
        "two folders are the same run",
        found=f"run {record.run_id!r} is also in {first}",
        expected="one folder for each run",
        remedy="keep the folder in which the run goes on, and put the other away",
    )


def _without_folder(run: Reservation) -> Finding:
    return Finding(
        code="reconcile-no-folder",
        what=f"run {run.run_id!r} of release {run.release!r} has no folder; it stays charged with {shown(run.cost)}",
        where=Place(path=f"run {run.run_id}"),
        found=f"a run that is {run.state}",
        expected="a run folder",
        remedy=_IF_LOST[run.state],
        severity="warning",
    )


def _finding(
    record: RunRecord, code: str, what: str, found: str, expected: str, remedy: str, severity: Severity = "error"
) -> Finding:
    place = Place(file=str(record.folder), path=f"run {record.run_id}")
    return Finding(code, what, place, found=found, expected=expected, remedy=remedy, severity=severity)
