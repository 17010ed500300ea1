"""What an evaluation needs of runs: the same question and records, sealed releases, and the true counts they kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confide.errors import Finding, Place, RunError
from confide.releases.folder import MANIFEST
from confide.releases.workspace import RunIdentity, Workspace, changed, no_room_is_an_error


def check_same_question(runs: Sequence[tuple[Path, RunIdentity]]) -> None:
    """Raises unless the runs differ in their key alone: one plan, one set of records, and no run twice."""
    (_, first), *others = runs
    findings = []
    seen = {first.run_id}
    for folder, run in others:
        if run.run_id in seen:
            findings.append(_unlike(folder, "repeated-run", "this run is given twice", "the same run", "each run once"))
        elif (run.mechanism, run.final_hash) != (first.mechanism, first.final_hash):
            found = f"plan {run.final_hash[:16]}…"
            expected = f"the plan of the first run, {first.final_hash[:16]}…"
            findings.append(_unlike(folder, "other-plan", "this run asks another question", found, expected))
        elif run.records_fingerprint != first.records_fingerprint:
            what, found = "this run is on other records", "another fingerprint"
            findings.append(_unlike(folder, "other-records", what, found, "the records of the first run"))
        seen.add(run.run_id)
    if findings:
        raise RunError(findings)


def check_different_runs(runs: Sequence[tuple[Path, RunIdentity]]) -> None:
    """Raises if a run is given twice: held against itself, its noise would be the same."""
    seen: set[str] = set()
    for folder, run in runs:
        if run.run_id in seen:
            raise RunError(_unlike(folder, "repeated-run", "this run is given twice", "the same run", "each run once"))
        seen.add(run.run_id)


def _unlike(folder: Path, code: str, what: str, found: str, expected: str) -> Finding:
    remedy = "give runs that differ in nothing but their key: the same spec under other names"
    return Finding(code, what, Place(file=str(folder)), found, expected, remedy)


@contextmanager
def held(workspaces: Sequence[Workspace]) -> Iterator[None]:
    """The runs, locked; what was spilled is gone afterwards."""
    with ExitStack() as stack:
        for workspace in workspaces:
            stack.enter_context(workspace.locked())
            stack.enter_context(no_room_is_an_error(workspace.root))
            stack.callback(workspace.tidy)
        yield


def require_sealed(workspace: Workspace) -> None:
    """Raises if there is no release yet to compare with the true counts."""
    if not (workspace.release / MANIFEST).exists():
        raise RunError(
            "not-sealed",
            "there is no release yet to compare with the true counts",
            where=Place(file=str(workspace.release)),
            found="no release",
            expected="a sealed release",
            remedy="finish the run first",
        )


def require_records(workspace: Workspace, fingerprint: str, otherwise: str) -> None:
    """Raises unless there is a sealed release, made of the records (and settings) with this fingerprint.

    Args:
        workspace: The run.
        fingerprint: SHA-256 of what the release depends on, as the mechanism computes it now.
        otherwise: What is said where it is another one than when the run began.
    """
    require_sealed(workspace)
    begun = workspace.identity()
    if begun is None or begun.records_fingerprint != fingerprint:
        raise changed(otherwise, workspace)


def no_truth(file: Path) -> RunError:
    """The error for true counts that are gone."""
    return RunError(
        "no-truth",
        "the true counts of this run are missing",
        where=Place(file=file.name),
        found="no such file",
        expected="the confidential folder with all files of the run",
        remedy="run `confide replay` with the records and the kept key first",
    )
