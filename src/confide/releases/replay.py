"""What becomes of the key: a release can be replayed bit by bit while it is kept, and is final once it is gone."""

from __future__ import annotations

import filecmp
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.errors import Place, RunError
from confide.releases.check import check, ledger_path
from confide.releases.folder import MANIFEST
from confide.releases.ledger import Ledger
from confide.releases.mechanism import Job, Mechanism
from confide.releases.progress import Progress
from confide.releases.run import OpenEngine, produce
from confide.releases.spec import LoadedSpec
from confide.releases.workspace import (
    RunIdentity,
    Workspace,
    changed,
    destroy_key_file,
    no_room_is_an_error,
    recall_key,
)


@dataclass(frozen=True)
class Replay:
    """A release made a second time from records, plan and key."""

    files: int
    different: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every byte is the same."""
        return not self.different

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values for ``--json``."""
        return {"ok": self.ok, "files": self.files, "different": list(self.different)}


def replay(loaded: LoadedSpec, mechanism: Mechanism[Any], *, open_engine: OpenEngine, progress: Progress) -> Replay:
    """Makes the release again, beside the first, and compares every byte. It costs nothing: the noise is the same."""
    require_key(loaded, mechanism)
    original = Workspace(loaded.folder)
    identity = begun(original)
    if not (original.release / MANIFEST).exists():
        raise _not_sealed("there is no release yet that a replay could be compared with", original)
    again = Workspace(original.confidential / "replay")
    with original.locked(), no_room_is_an_error(original.root), open_engine(again.scratch) as engine:
        try:
            checked = check(loaded, mechanism, engine, original, progress)
            plan = checked.ready()
            if plan.hash != identity.final_hash:
                raise changed("the plan is not the one of the release", original, f"plan {plan.hash[:16]}…")
            if checked.fingerprint != identity.records_fingerprint:
                raise changed("the records are not those of the release", original)
            key = recall_key(original.key_file)
            produce(mechanism, checked.problem, Job(loaded, plan, engine, again, progress), key, identity)
            return compare(original.release, again.release)
        finally:
            shutil.rmtree(again.root, ignore_errors=True)
            original.tidy()


def compare(first: Path, second: Path) -> Replay:
    """The files of two release folders, byte by byte."""
    names = {
        str(file.relative_to(folder)) for folder in (first, second) for file in folder.rglob("*") if file.is_file()
    }
    different = [
        name
        for name in sorted(names)
        if not (first / name).is_file()
        or not (second / name).is_file()
        or not filecmp.cmp(first / name, second / name, shallow=False)
    ]
    return Replay(len(names), tuple(different))


def destroy_key(loaded: LoadedSpec, mechanism: Mechanism[Any]) -> RunIdentity:
    """Makes a sealed release final: nobody, not even the curator, can take the noise off again by replaying it.

    Without a ledger nothing says that a run is sealed but its release; what was drawn and not published goes with the
    key, because with it the noise could be taken off just as well.
    """
    require_key(loaded, mechanism)
    workspace = Workspace(loaded.folder)
    identity = begun(workspace)
    ledger = Ledger(ledger_path(loaded)) if mechanism.accounted else None
    with workspace.locked(), no_room_is_an_error(workspace.root):
        sealed = (
            (workspace.release / MANIFEST).exists()
            if ledger is None
            else ledger.status(identity.run_id).state == "sealed"
        )
        if not sealed:
            raise _not_sealed("the run is not sealed yet, and without its key it could not be finished", workspace)
        if workspace.key_file.exists():
            destroy_key_file(workspace.key_file)
        if ledger is None:
            workspace.discard(workspace.measured)
        else:
            ledger.mark_key_destroyed(identity.run_id)
    return identity


def require_key(loaded: LoadedSpec, mechanism: Mechanism[Any]) -> None:
    """Raises if releases of the mechanism have no key of their own."""
    if not mechanism.keyed:
        raise no_records(loaded, mechanism.without_key)


def no_records(loaded: LoadedSpec, what: str) -> RunError:
    """The error for a release that has no key, or no truth, of its own."""
    return RunError(
        "no-records",
        what,
        where=loaded.place("release", "mechanism"),
        found=f"the mechanism {loaded.spec.release.mechanism}",
        expected="a release with a key of its own",
        remedy="turn to the release that the measurements come from, or to the records with their keys",
    )


def begun(workspace: Workspace) -> RunIdentity:
    """The run in a folder, or an error that says there is none."""
    identity = workspace.identity()
    if identity is None:
        raise RunError(
            "no-run",
            "there is no run in this folder",
            where=Place(file=str(workspace.root)),
            found="no confidential/run.json",
            expected="a folder that `confide run` has written",
            remedy="run the spec first",
        )
    return identity


def _not_sealed(what: str, workspace: Workspace) -> RunError:
    return RunError(
        "not-sealed",
        what,
        where=Place(file=str(workspace.root)),
        found="a run that is not complete",
        expected="a sealed release",
        remedy="run it to its end first",
    )
