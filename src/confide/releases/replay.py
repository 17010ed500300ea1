"""What becomes of the key: a release can be replayed bit by bit while it is kept, and is final once it is gone."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.arrays import Integers
from confide.errors import CONFIDENTIAL, Finding, Place, RunError
from confide.file_system import flush, write_text
from confide.noise import BoundedDistribution, NoiseDistribution
from confide.releases import Job, LoadedSpec, Mechanism
from confide.releases.check import check, ledger_path
from confide.releases.folder import PUBLIC_FILE, SIGNATURE, SealedRelease
from confide.releases.ledger import Ledger
from confide.releases.run import OpenEngine, produce, require_own_release
from confide.releases.signature import Signer
from confide.releases.workspace import STAMP, Progress, RunIdentity, Workspace, no_room_is_an_error, recall_key


@dataclass(frozen=True)
class Replay(TypedAnswer):
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

    def described(self) -> Iterator[AnswerPart]:
        """Whether it is the same release."""
        if self.ok:
            yield Said("Identical", f": {self.files} files, byte for byte.", Tone.GOOD)
        else:
            yield Said("Different", f": {', '.join(self.different)}", Tone.BAD)


def replay(loaded: LoadedSpec, mechanism: Mechanism[Any], *, open_engine: OpenEngine, progress: Progress) -> Replay:
    """Makes the release again, beside the first, and compares every byte. It costs nothing: the noise is the same."""
    require_key(loaded, mechanism)
    original = Workspace(loaded.folder)
    identity = begun(original)
    if not original.sealed:
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
        sealed = workspace.sealed if ledger is None else ledger.status(identity.run_id).state == "sealed"
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
        if (manifest_sha256 := workspace.manifest_sha256) is None:
            raise RunError("not-sealed/signed", where=Place(file=str(workspace.root)))
        if mechanism.accounted:
            sealed = Ledger(ledger_path(loaded)).status(identity.run_id)
            if sealed.state != "sealed":
                raise RunError("not-sealed/run", where=Place(file=str(workspace.root)))
            # What the ledger has is what was sealed; the note of the folder itself may be older than such notes.
            identity = replace(identity, manifest_sha256=sealed.manifest_sha256)
        require_own_release(workspace, identity)
        if SealedRelease.of(workspace.release).manifest.get("stamp") == STAMP:
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


# What evaluations and audits need of runs: sealed releases of the same question, the true counts, and what was drawn.
#
# Draws are listed measurement by measurement with the laws that they promise: what ``confide audit noise`` looks at. A
# law is that of a number which was added to the truth, or of what a draw led to where the draw itself is kept nowhere:
# one of some outcomes (:class:`OutcomeLaw`), a choice by thresholds (:class:`ChoiceLaw`), or how many of some empty
# groups are published (:class:`SurvivorLaw`).


@dataclass(frozen=True, slots=True)
class OutcomeLaw:
    """The probabilities of some whole numbers, in ascending order: the law of what a draw leads to, such as the choice
    of a table, where the draw itself is kept nowhere."""

    values: tuple[int, ...]
    probabilities: tuple[float, ...]


HIDDEN = -1
"""The outcome of a choice that nobody sees."""


@dataclass(frozen=True, slots=True)
class ChoiceLaw:
    """A choice by thresholds: how many of ``cuts`` are at most a draw X of ``noise``.

    If none is, and there is a ``second`` law, a second and independent draw Y hides the outcome unless it is above
    ``hidden_up_to``; what comes out is then :data:`HIDDEN`:

        P(k) = P(cuts[k-1] ≤ X < cuts[k]),   P(hidden) = P(X < cuts[0]) P(Y ≤ hidden_up_to).
    """

    noise: NoiseDistribution
    cuts: tuple[int, ...]
    second: NoiseDistribution | None = None
    hidden_up_to: int = 0


@dataclass(frozen=True, slots=True)
class SurvivorLaw:
    """How many of ``trials`` independent choices are not hidden: a binomial number."""

    trials: int = field(repr=False)
    choice: ChoiceLaw


ResidualLaw: TypeAlias = NoiseDistribution | BoundedDistribution | OutcomeLaw | ChoiceLaw | SurvivorLaw
"""What a residual is promised to be drawn from."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """What a run added to the truth in one measurement: released, or measured, minus true. Confidential.

    An array has a row for each measured unit and a column for each cell. ``law_of``, ``above`` and ``up_to`` are
    broadcast to it.
    """

    level: str
    query: str
    noise: Integers = field(repr=False)
    """Rows x cells: measured minus true; or, with the law of an outcome, what came out."""
    laws: tuple[ResidualLaw, ...]
    source: str
    """Where the figures come from: ``released``, ``measured``, or ``drawn again`` with the key of the run."""
    law_of: Integers | None = field(default=None, repr=False)
    """For each draw the number of its law, -1 where nothing was drawn; by default the first law everywhere."""
    units: Integers | None = field(default=None, repr=False)
    """For each row the number of its unit, ascending; by default they are numbered through."""
    above: Integers | None = field(default=None, repr=False)
    """For each draw the number above which it had to be, given all else that is seen; none: it may be anything."""
    up_to: Integers | None = field(default=None, repr=False)
    """For each draw the largest number that it could be, given all else that is seen."""
    planned: str = ""
    """The query as the plan has it, where several arrays are of one measurement; by default ``query``."""
    complete: bool = True
    """Whether every draw that the plan has priced is here."""
    family: str = ""
    """Draws of different families are not promised to be independent, and are not compared."""
    stage: str = ""
    """Arrays of one stage are also judged together, by themselves: a scale may be wrong in one stage alone."""

    @property
    def conditional(self) -> bool:
        """Whether draws have their laws given something else."""
        return self.above is not None or self.up_to is not None


# What an evaluation needs of runs: the same question and records, sealed releases, and the true counts they kept.


def check_same_question(runs: Sequence[tuple[Path, RunIdentity]]) -> None:
    """Raises unless the runs differ in their key alone: one plan, one set of records, and no run twice."""
    (_, first), *others = runs
    findings = []
    seen = {first.run_id}
    for folder, run in others:
        if run.run_id in seen:
            findings.append(Finding.of("repeated-run", where=Place(file=str(folder))))
        elif (run.mechanism, run.final_hash) != (first.mechanism, first.final_hash):
            findings.append(
                Finding.of(
                    "other-plan",
                    where=Place(file=str(folder)),
                    final_hash=run.final_hash[:16],
                    final_hash_expected=first.final_hash[:16],
                )
            )
        elif run.records_fingerprint != first.records_fingerprint:
            findings.append(Finding.of("other-records/run", where=Place(file=str(folder))))
        seen.add(run.run_id)
    if findings:
        raise RunError(findings)


def check_different_runs(runs: Sequence[tuple[Path, RunIdentity]]) -> None:
    """Raises if a run is given twice: held against itself, its noise would be the same."""
    seen: set[str] = set()
    for folder, run in runs:
        if run.run_id in seen:
            raise RunError("repeated-run", where=Place(file=str(folder)))
        seen.add(run.run_id)


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
    if not workspace.sealed:
        raise RunError("not-sealed/compare", where=Place(file=str(workspace.release)))


def require_records(workspace: Workspace, fingerprint: str, otherwise: str) -> None:
    """Raises unless there is a sealed release, made of the records (and settings) with this fingerprint.

    Args:
        workspace: The run.
        fingerprint: SHA-256 of what the release depends on, as the mechanism computes it now.
        otherwise: What is said where it is another one than when the run began.

    >>> from confide.releases.workspace import Workspace
    >>> space = Workspace(sealed)
    >>> require_records(space, space.identity().records_fingerprint, "the records are others")
    """
    require_sealed(workspace)
    begun = workspace.identity()
    if begun is None or begun.records_fingerprint != fingerprint:
        raise RunError(
            "run-changed/same-spec-frame", where=Place(file=str(workspace.root)), found=CONFIDENTIAL, what=otherwise
        )


def no_truth(file: Path) -> RunError:
    """The error for true counts that are gone."""
    return RunError("no-truth/counts", where=Place(file=file.name))
