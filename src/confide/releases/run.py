"""A run, from a checked spec to a sealed release. There is one way, with a budget or without, with a key or without.

::

    check ─► reserve* ─► key° ─► count ─► (measured*) ─► measure ─► publish ─► verify ─► seal ─► (sealed*)

    * where the mechanism is accounted: the ledger notes it       ° where it is keyed

Every arrow may be where the power goes off. Each step leaves its result whole or not at all, and finds what an earlier
try has left; noise is a function of the key, so that nothing is ever drawn twice with different outcomes; the ledger
charges a run once, before the first draw. What is read from records is kept only once the records are known to be those
the run was begun with: see :func:`_read_records`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.engines import Engine, LocalEngine, SparkEngine
from confide.errors import CONFIDENTIAL, Finding, LedgerError, ParameterError, Place, RunError
from confide.file_system import sha256_of
from confide.noise import ReleaseKey
from confide.releases import Job, LoadedSpec, Mechanism, NoiseSource, RunIdentity, Workspace
from confide.releases.check import Checked, KeyKind, check, ledger_path, never_charged, records_files, unusable_folder
from confide.releases.companions.explanations import companions, page_version
from confide.releases.companions.geoparquet import publish_outlines
from confide.releases.folder import MANIFEST, ReleaseWriter, SealedRelease, make_manifest
from confide.releases.ledger import Account, Ledger, Reservation, UnitName, leave_witness
from confide.releases.plan import Explanation, Plan
from confide.releases.verify import verify_staged
from confide.releases.workspace import STAMP, Progress, keep_key, new_run_id, no_room_is_an_error, recall_key

DEFAULT_MEMORY = "4GiB"
"""The most memory that an engine uses, unless somebody says otherwise."""

OpenEngine = Callable[[Path], AbstractContextManager[Engine]]
"""Opens an engine that keeps its intermediate rows in the given folder."""


Confirm = Callable[[Checked], object]
"""Is shown what was checked and would be charged; raises an error if it must not be."""


@dataclass(frozen=True)
class RunResult(TypedAnswer):
    """What a run came to."""

    release: Path
    workspace: Workspace
    plan: Plan
    account: Account | None
    """The account after the run; none where nothing is spent."""
    manifest_sha256: str
    was_sealed_before: bool
    explain: Explanation
    """What releases of the mechanism say of themselves."""
    signed: bool = False
    """Whether it was signed now."""
    trial: bool = False
    """Whether it was made with a chosen key."""

    @property
    def contents(self) -> str:
        """What the release has, in words."""
        return self.explain.contents(self.plan)

    def described(self) -> Iterator[AnswerPart]:
        """Where the release is, what it has and cost, and what its ledger has left."""
        if self.was_sealed_before:
            yield "This run was sealed before. Nothing was done and nothing was charged."
        yield Said("Sealed", f" {self.release}", Tone.GOOD)
        plan, account = self.plan, self.account
        if plan.has_loss:
            yield f"  {self.contents} at a cost of {plan.loss} ({plan.neighbours.value})"
        else:
            yield f"  {self.contents}\n  {self.explain.unaccounted(plan)}"
        if account is not None:
            yield f"  ledger of {account.data_set!r}: {account.spent} spent, {account.left} left of {account.budget}"
            if account.delta:
                deltas = [f"{float(number):g}" for number in (account.spent_delta, account.left_delta, account.delta)]
                yield "  of its delta: {} spent, {} left of {}".format(*deltas)
        if self.signed:
            yield "  signed with the office's key"
        if self.trial:
            yield Said("NOT FOR RELEASE", ": made with a chosen key", Tone.BAD, aside=True)

    def as_dict(self) -> dict[str, Any]:
        """The result as plain values for ``--json``."""
        return {
            "ok": True,
            "release": str(self.release),
            "manifest_sha256": self.manifest_sha256,
            "cost": self.plan.loss.as_dict() if self.plan.has_loss else None,
            "left": None if self.account is None else str(self.account.left),
            "was_sealed_before": self.was_sealed_before,
        }


def run(
    loaded: LoadedSpec,
    mechanism: Mechanism[Any],
    *,
    open_engine: OpenEngine,
    progress: Progress,
    chosen_key: ReleaseKey | None = None,
    accept_ledger: bool = False,
    confirm: Confirm | None = None,
) -> RunResult:
    """Runs a spec to its sealed release, or goes on with it after an interruption.

    Args:
        loaded: The spec.
        mechanism: The mechanism that it names.
        open_engine: Opens the engine that counts and maps.
        progress: Receives stages and warnings.
        chosen_key: A key for trials, where the mechanism is keyed: everything made with it is stamped.
        accept_ledger: Whether the ledger is charged although witnesses show an older copy or another ledger, or it was
            charged for other records alone.
        confirm: Is shown what was checked before anything is charged, and raises if it must not be. It is not asked
            where nothing is charged: of a run that goes on, or of a mechanism without a budget.

    Returns:
        Where the release is, and what the run came to.
    """
    with at_work(loaded, open_engine) as (workspace, engine):
        trial = chosen_key is not None
        key_kind: KeyKind = "chosen" if trial else "system"
        checked = check(loaded, mechanism, engine, workspace, progress, key=key_kind, accept_ledger=accept_ledger)
        plan = checked.ready()
        for warning in checked.findings:
            progress.note(f"{warning.severity} {warning}")
        if confirm is not None and mechanism.accounted and not _is_charged(workspace, checked.account):
            confirm(checked)
        identity = _identify(loaded, checked, workspace, checked.fingerprint, chosen_key)
        charged, drawn = None, workspace.measured.exists()
        if mechanism.accounted:
            charged = _Charged(Ledger(ledger_path(loaded)), loaded, checked, workspace, trial)
            identity, reservation = charged.reserve(identity, accept_records=accept_ledger)
            if reservation.state == "sealed":
                return charged.already_sealed(reservation.manifest_sha256, mechanism.explain)
            drawn = reservation.state == "measured"
        elif workspace.release.exists():
            require_own_release(workspace, identity)
            manifest = SealedRelease.of(workspace.release).manifest_sha256
            return RunResult(workspace.release, workspace, plan, None, manifest, True, mechanism.explain)
        key = _key(workspace, identity, chosen_key, drawn=drawn) if mechanism.keyed else None
        if key is not None:
            identity = workspace.note_key(identity, key)

        def before_drawing() -> None:
            """The ledger knows before the first draw, and knows the key: from then on it has charged one noise."""
            if charged is not None:
                charged.mark_measured(identity)

        if drawn:
            before_drawing()
        if workspace.release.exists():
            require_own_release(workspace, identity)
        else:
            produce(
                mechanism,
                checked.problem,
                Job(loaded, plan, engine, workspace, progress),
                key,
                identity,
                before_drawing=before_drawing,
                before_naming=lambda writer: _approve(writer, mechanism, workspace, identity, progress),
            )
        manifest = SealedRelease.of(workspace.release).manifest_sha256
        account = None if charged is None else charged.mark_sealed(identity, manifest)
        return RunResult(workspace.release, workspace, plan, account, manifest, False, mechanism.explain)


@contextmanager
def at_work(loaded: LoadedSpec, open_engine: OpenEngine) -> Iterator[tuple[Workspace, Engine]]:
    """The folder of a run, locked for as long as it is worked in, with an engine, and tidied afterwards."""
    workspace = Workspace(loaded.folder)
    if unusable := unusable_folder(loaded, workspace):
        raise RunError(unusable)
    with workspace.locked(), no_room_is_an_error(workspace.root), open_engine(workspace.scratch) as engine:
        try:
            yield workspace, engine
        finally:
            workspace.tidy()


def produce(
    mechanism: Mechanism[Any],
    problem: Any,
    job: Job,
    key: ReleaseKey | None,
    identity: RunIdentity,
    *,
    before_drawing: Callable[[], object] = lambda: None,
    before_naming: Callable[[ReleaseWriter], object] = lambda _: None,
) -> None:
    """From records and key to the release folder. It depends on nothing else, so a replay gives the same bytes.

    Args:
        mechanism: That of the spec.
        problem: What it prepared.
        job: Spec, plan, engine, folder and progress.
        key: The key of the run, where the mechanism is keyed.
        identity: The run that the charge is bound to.
        before_drawing: Called when all is counted and nothing is drawn.
        before_naming: Is shown the release, complete and without its name; raises if it must not get one.
    """
    plan, fingerprint = job.plan, identity.records_fingerprint
    # The plan of the run's beginning, to which the charge is bound: see check._may_change.
    noise = None if key is None else NoiseSource(key, fingerprint, identity.plan_hash, mechanism.name)
    _read_records(mechanism, problem, job, identity, job.workspace.counts, lambda: mechanism.count(problem, job))
    before_drawing()
    if mechanism.measures_counts:
        job.workspace.claim(job.workspace.measured, identity.imprint)
        mechanism.measure(problem, job, noise)
    else:
        _read_records(
            mechanism, problem, job, identity, job.workspace.measured, lambda: mechanism.measure(problem, job, noise)
        )
    said = mechanism.guarantee(problem, job), mechanism.statistics(problem, job)
    chosen = key is not None and key.chosen
    package = None if mechanism.package is None else asdict(mechanism.package)
    manifest = make_manifest(job.loaded, plan, *said, stamped=chosen, package=package)
    stamped = manifest.get("stamp") == STAMP
    metadata = {"release": job.loaded.spec.release.name, "plan_hash": plan.hash}
    with ReleaseWriter(job.workspace.release, stamped=stamped, metadata=metadata) as writer:
        mechanism.publish(problem, job, writer)
        if (codebook := mechanism.explain.codebook(manifest)) is not None:
            tables = [file.as_dict() for file in writer.files]
            page = page_version(tables, codebook, job.loaded.spec.output.explore)
            manifest = make_manifest(job.loaded, plan, *said, stamped=chosen, explore=page, package=package)
        for name, text in mechanism.documents(manifest).items():
            writer.document(name, text)
        if codebook is not None:
            if job.loaded.spec.geography.outlines:
                publish_outlines(job.loaded, writer, tables, codebook)
            listed = manifest | {"files": [file.as_dict() for file in sorted(writer.files, key=lambda file: file.path)]}
            for name, content in companions(SealedRelease(writer.folder, listed), codebook).items():
                writer.document(name, content)
        writer.seal(manifest, before_naming=before_naming)


def _approve(
    writer: ReleaseWriter, mechanism: Mechanism[Any], workspace: Workspace, identity: RunIdentity, progress: Progress
) -> None:
    """Verifies a release that is complete and has no name yet, and notes its manifest.

    What ``verify`` would call wrong is never sealed. The charge stays as it is, and so does the noise, which is a
    function of the key: everything is made again at the next try, with the same measurements, at no further cost.
    """
    with progress.stage("Verifying the release", 1) as advance:
        wrong = [check for check in verify_staged(writer.folder, mechanism, writer.copies) if not check.ok]
        advance(1)
    if wrong:
        workspace.discard_estimates()
        raise RunError(
            Finding.of("not-verified", where=Place(file=str(workspace.root)), found=check.detail, check=check.name)
            for check in wrong
        )
    workspace.note_manifest(identity, sha256_of(writer.folder / MANIFEST))


def _read_records(
    mechanism: Mechanism[Any], problem: Any, job: Job, identity: RunIdentity, folder: Path, read: Callable[[], None]
) -> None:
    """Reads records into ``folder``, which is worth something only if the records are still those of the run.

    They are hashed again after they were read. What an earlier try has left is taken up only if that try got as far as
    the comparison: counts of records that changed, in a process that died before it noticed, would otherwise be found
    by the next one, with the old records back in their place. And only if it was a try of this very run.
    """
    if job.workspace.read_whole(folder) != identity.imprint:
        job.workspace.discard(folder)
    read()
    if mechanism.fingerprint(problem) != identity.records_fingerprint:
        job.workspace.discard(folder)
        raise RunError("run-changed/counted", where=Place(file=str(job.workspace.root)), found=CONFIDENTIAL)
    job.workspace.mark_read(folder, identity.imprint)


def _identify(
    loaded: LoadedSpec, checked: Checked, workspace: Workspace, fingerprint: str, chosen_key: ReleaseKey | None
) -> RunIdentity:
    """The run that this folder holds, begun now if there is none. That it may go on is a part of the check.

    A run that died before it was charged has bound nobody to its inputs: it is begun anew.
    """
    plan, known = checked.ready(), workspace.identity()
    if known is None or never_charged(known, checked.account):
        return workspace.begin(
            RunIdentity(
                run_id=new_run_id(),
                spec=Path(os.path.relpath(loaded.path.resolve(), workspace.root.resolve())).as_posix(),
                release=loaded.spec.release.name,
                mechanism=plan.mechanism,
                plan_hash=plan.hash,
                records_fingerprint=fingerprint,
                key_is_chosen=chosen_key is not None,
                measured_hash=plan.measured_hash,
            )
        )
    return known if known.final_hash == plan.hash else workspace.note_published(known, plan.hash)


def _is_charged(workspace: Workspace, account: Account | None) -> bool:
    """Whether the run in the folder was charged before: going on with it costs nothing more."""
    known = workspace.identity()
    return known is not None and account is not None and known.run_id in account.runs


def _key(workspace: Workspace, identity: RunIdentity, chosen: ReleaseKey | None, *, drawn: bool) -> ReleaseKey:
    """The key of the run: that of before, or a new one if nothing was drawn yet."""
    if workspace.key_file.exists() or drawn:
        kept = recall_key(workspace.key_file)
        if kept.chosen != identity.key_is_chosen or (chosen is not None and chosen != kept):
            raise RunError("run-changed/started", where=Place(file=str(workspace.root)), found=CONFIDENTIAL)
        return kept
    assert identity.key_is_chosen == (chosen is not None)
    key = chosen or ReleaseKey.from_system()
    keep_key(key, workspace.key_file)
    return key


def require_own_release(workspace: Workspace, identity: RunIdentity) -> None:
    """Raises unless the release in the folder is the one that this run has made, file by file.

    Its manifest was noted before the release got its name. Runs without a ledger that are older than such notes are
    known by plan and name.
    """
    present = workspace.manifest_sha256
    own = present is not None and present == identity.manifest_sha256
    if present is not None and identity.manifest_sha256 is None and identity.reservation_hash is None:
        stated = SealedRelease.of(workspace.release).manifest
        own = (stated.get("plan_hash"), stated["release"]) == (identity.plan_hash, identity.release)
    problems = SealedRelease.of(workspace.release).file_problems() if own else []
    if own and not problems:
        return
    raise RunError(
        "release-changed/did", where=Place(file=str(workspace.release)), problem=problems[0] if problems else None
    )


@dataclass(frozen=True)
class _Charged:
    """What a run has to do with the ledger, where it is accounted."""

    ledger: Ledger
    loaded: LoadedSpec
    checked: Checked
    workspace: Workspace
    trial: bool

    def reserve(self, identity: RunIdentity, *, accept_records: bool) -> tuple[RunIdentity, Reservation]:
        """Charges the run, once for ever. If the ledger refuses, the run was never begun."""
        cost = self.checked.cost
        assert cost is not None
        try:
            reservation = self.ledger.reserve(
                identity.run_id,
                release=self.loaded.spec.release.name,
                plan_hash=identity.plan_hash,
                records_fingerprint=identity.records_fingerprint,
                cost=cost.amount,
                delta=cost.delta,
                unit=self._unit,
                accept_records=accept_records,
            )
        except LedgerError:
            with suppress(LedgerError):
                if identity.run_id not in self.ledger.account().runs:
                    self.workspace.forget()
            raise
        ledger_id = self.ledger.sighting().ledger_id
        return self.workspace.note_reservation(identity, reservation.reservation_hash, ledger_id), reservation

    @property
    def _unit(self) -> UnitName:
        """What the release protects, for a ledger that is kept in a named unit."""
        account, plan = self.checked.account, self.checked.ready()
        return "record" if account is None or account.unit == "record" else plan.protects.value

    def leave_witness(self) -> None:
        """Notes beside the records how far their ledger has come; a trial is no release of theirs."""
        if not self.trial:
            for file in records_files(self.loaded):
                leave_witness(file, self.ledger.sighting())

    def mark_measured(self, identity: RunIdentity) -> None:
        self.ledger.mark_measured(identity.run_id, identity.key_commitment or "")
        self.leave_witness()

    def mark_sealed(self, identity: RunIdentity, manifest_sha256: str) -> Account:
        self.ledger.mark_sealed(identity.run_id, manifest_sha256)
        self.leave_witness()
        return self.ledger.account()

    def already_sealed(self, manifest_sha256: str | None, explain: Explanation) -> RunResult:
        """The release of before, if it is still the one that was sealed, file by file."""
        if (present := self.workspace.manifest_sha256) != manifest_sha256 or present is None:
            problems = ["no manifest" if present is None else "another manifest"]
        else:
            problems = SealedRelease.of(self.workspace.release).file_problems()
        if problems:
            raise RunError("release-changed/ledger", where=Place(file=str(self.workspace.release)), found=problems[0])
        account, plan = self.ledger.account(), self.checked.ready()
        return RunResult(self.workspace.release, self.workspace, plan, account, str(manifest_sha256), True, explain)


# Which engine a run is made with: that of this machine, or Spark. Both make the same release, byte by byte.


EngineName = Literal["local", "spark"]


def choose_engine(
    name: EngineName,
    mechanism: Mechanism[Any],
    *,
    processes: int | None,
    memory: str,
    spark_master: str | None = None,
) -> OpenEngine:
    """Opens the engine that was asked for; raises a :class:`ParameterError` where it is not for this mechanism."""
    if name == "local":
        if spark_master is not None:
            raise ParameterError("engine/master", where=Place(path="--spark-master"), found=spark_master)
        return lambda scratch: LocalEngine(scratch, processes=processes, memory=memory)
    if name != "spark":
        raise ParameterError("engine/local-spark-mechanisms", where=Place(path="--engine"), found=repr(name))
    if not mechanism.on_spark:
        raise ParameterError("engine/mechanism", where=Place(path="--engine"), mechanism=mechanism.name)

    def open_spark(scratch: Path) -> AbstractContextManager[Engine]:
        return SparkEngine(scratch, processes=processes, memory=memory, master=spark_master)

    return open_spark
