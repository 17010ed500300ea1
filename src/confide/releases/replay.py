"""What becomes of the key: a release can be replayed bit by bit while it is kept, and is final once it is gone."""

from __future__ import annotations

import filecmp
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confide.engines.protocol import flush, write_text
from confide.errors import CONFIDENTIAL, Place, RunError
from confide.releases.check import check, ledger_path
from confide.releases.folder import MANIFEST, PUBLIC_FILE, SIGNATURE, read_manifest, sha256_of
from confide.releases.ledger import Ledger
from confide.releases.mechanism import Job, Mechanism
from confide.releases.progress import Progress
from confide.releases.run import OpenEngine, produce, require_own_release
from confide.releases.signature import Signer
from confide.releases.spec import LoadedSpec
from confide.releases.workspace import (
    STAMP,
    RunIdentity,
    Workspace,
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
        raise RunError("not-sealed/replay", where=Place(file=str(original.root)))
    again = Workspace(original.replayed)
    with original.locked(), no_room_is_an_error(original.root):
        shutil.rmtree(again.root, ignore_errors=True)  # what a replay that was killed has left
        with open_engine(again.scratch) as engine:
            try:
                checked = check(loaded, mechanism, engine, original, progress, key=None)
                plan = checked.ready()
                if plan.hash != identity.final_hash:
                    raise RunError(
                        "run-changed/plan-release", where=Place(file=str(original.root)), hash=plan.hash[:16]
                    )
                if checked.fingerprint != identity.records_fingerprint:
                    raise RunError(
                        "run-changed/records-release", where=Place(file=str(original.root)), found=CONFIDENTIAL
                    )
                key = recall_key(original.key_file)
                if identity.key_commitment not in (None, key.commitment):
                    raise RunError("run-changed/folder", where=Place(file=str(original.root)), found=CONFIDENTIAL)
                produce(mechanism, checked.problem, Job(loaded, plan, engine, again, progress), key, identity)
                return compare(original.release, again.release)
            finally:
                original.tidy()


def compare(first: Path, second: Path) -> Replay:
    """The files of two release folders, byte by byte. A signature is no part of what is made again."""
    names = {
        str(file.relative_to(folder)) for folder in (first, second) for file in folder.rglob("*") if file.is_file()
    } - {SIGNATURE}
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
            raise RunError("not-sealed/key", where=Place(file=str(workspace.root)))
        workspace.destroy_keys()
        if ledger is None:
            workspace.discard(workspace.measured)
        else:
            ledger.mark_key_destroyed(identity.run_id)
    return identity


def sign(loaded: LoadedSpec, mechanism: Mechanism[Any], signer: Signer) -> Path:
    """Lays the signature of an office beside the manifest of a sealed release, if it is the one that was sealed."""
    workspace = Workspace(loaded.folder)
    identity = begun(workspace)
    with workspace.locked(), no_room_is_an_error(workspace.root):
        if not (workspace.release / MANIFEST).exists():
            raise RunError("not-sealed/signed", where=Place(file=str(workspace.root)))
        manifest_sha256 = sha256_of(workspace.release / MANIFEST)
        if mechanism.accounted:
            sealed = Ledger(ledger_path(loaded)).status(identity.run_id)
            if sealed.state != "sealed":
                raise RunError("not-sealed/run", where=Place(file=str(workspace.root)))
            # What the ledger has is what was sealed; the note of the folder itself may be older than such notes.
            identity = replace(identity, manifest_sha256=sealed.manifest_sha256)
        require_own_release(workspace, identity)
        if read_manifest(workspace.release).get("stamp") == STAMP:
            raise RunError("signature-stamped/release-signed", where=Place(file=str(workspace.release)), stamp=STAMP)
        # Written outside, so that a process that dies leaves nothing half written in the release.
        draft = workspace.confidential / SIGNATURE
        write_text(draft, signer.text(manifest_sha256), mode=PUBLIC_FILE)
        draft.replace(workspace.release / SIGNATURE)
        flush(workspace.release)
    return workspace.release / SIGNATURE


def require_key(loaded: LoadedSpec, mechanism: Mechanism[Any]) -> None:
    """Raises if releases of the mechanism have no key of their own."""
    if not mechanism.keyed:
        raise RunError(
            "no-records/mechanism",
            where=loaded.place("release", "mechanism"),
            what=mechanism.without_key,
            mechanism=loaded.spec.release.mechanism,
        )


def begun(workspace: Workspace) -> RunIdentity:
    """The run in a folder, or an error that says there is none."""
    identity = workspace.identity()
    if identity is None:
        raise RunError("no-run/confidential-json", where=Place(file=str(workspace.root)))
    return identity
