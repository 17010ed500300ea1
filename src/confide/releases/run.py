"""A run, from a checked spec to a sealed release.

::

    check ─► reserve ─► key ─► tabulate ─► (measured) ─► measure ─► publish ─► seal

Every arrow may be where the power goes off. Each step leaves its result whole or not at all, and finds what an earlier
try has left; noise is a function of the key, so that nothing is ever drawn twice with different outcomes; the ledger
charges a run once, before the first draw.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from confide.engines import Engine, LocalEngine, SparkEngine
from confide.errors import CONFIDENTIAL, LedgerError, ParameterError, Place, RunError
from confide.inputs.records import records_fingerprint
from confide.noise import ReleaseKey
from confide.releases import keys
from confide.releases.check import Checked, check, ledger_path, unusable_folder
from confide.releases.folder import MANIFEST, ReleaseWriter, sha256_of
from confide.releases.ledger import Account, Ledger
from confide.releases.load_spec import LoadedSpec
from confide.releases.manifest import make_manifest
from confide.releases.mechanism import Job, Mechanism, NoiseSource, Publisher
from confide.releases.plan import Plan
from confide.releases.progress import Progress
from confide.releases.workspace import RunIdentity, Workspace, new_run_id, no_room_is_an_error

Documents = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""Makes the documents of a release (file name to text) out of its manifest."""

OpenEngine = Callable[[Path], AbstractContextManager[Engine]]
"""Opens an engine that keeps its intermediate rows in the given folder."""


@dataclass(frozen=True)
class RunResult:
    """What a run came to."""

    release: Path
    workspace: Workspace
    plan: Plan
    account: Account | None
    """The account after the run; none where nothing is spent (``runs.unpriced``)."""
    manifest_sha256: str
    was_sealed_before: bool


def run(
    loaded: LoadedSpec,
    mechanism: Mechanism,
    *,
    open_engine: OpenEngine,
    documents: Documents,
    progress: Progress,
    chosen_key: ReleaseKey | None = None,
) -> RunResult:
    """Runs a spec to its sealed release, or goes on with it after an interruption."""
    with at_work(loaded, open_engine) as (workspace, engine):
        return _run(loaded, mechanism, engine, workspace, documents, progress, chosen_key)


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


def _run(
    loaded: LoadedSpec,
    mechanism: Mechanism,
    engine: Engine,
    workspace: Workspace,
    documents: Documents,
    progress: Progress,
    chosen_key: ReleaseKey | None,
) -> RunResult:
    checked = check(loaded, mechanism, engine, workspace, progress)
    if checked.errors or checked.plan is None or checked.cost is None:
        raise RunError(checked.findings)
    for warning in checked.findings:
        progress.note(f"{warning.severity} {warning}")
    plan, job = checked.plan, Job(loaded, engine, workspace, progress)
    records = mechanism.records_file(checked.question)
    identity = _identify(loaded, checked, workspace, records_fingerprint(records), chosen_key)
    ledger = Ledger(ledger_path(loaded))
    try:
        reservation = ledger.reserve(
            identity.run_id,
            release=loaded.spec.release.name,
            plan_hash=plan.hash,
            records_fingerprint=identity.records_fingerprint,
            cost=checked.cost.amount,
            delta=checked.cost.delta,
        )
    except LedgerError:
        with suppress(LedgerError):
            if identity.run_id not in ledger.account().runs:
                workspace.forget()
        raise
    identity = workspace.note_reservation(identity, reservation.reservation_hash)
    if reservation.state == "sealed":
        return _already_sealed(ledger, workspace, plan, reservation.manifest_sha256)
    key = _key(workspace, identity, chosen_key, drawn=reservation.state == "measured")
    if not workspace.release.exists():
        # The ledger knows before the first draw: from then on the charge stands, whatever happens.
        produce(
            mechanism,
            checked,
            job,
            key,
            identity,
            documents,
            before_drawing=lambda: ledger.mark_measured(identity.run_id),
        )
    sealed = ledger.mark_sealed(identity.run_id, sha256_of(workspace.release / MANIFEST))
    return RunResult(workspace.release, workspace, plan, ledger.account(), str(sealed.manifest_sha256), False)


def _identify(
    loaded: LoadedSpec, checked: Checked, workspace: Workspace, fingerprint: str, chosen_key: ReleaseKey | None
) -> RunIdentity:
    """The run that this folder holds, begun now if there is none; another plan or other records are another run.

    A run that died before it was charged has bound nobody to its inputs: it is begun anew.
    """
    plan, account = checked.plan, checked.account
    assert plan is not None
    assert account is not None
    known = workspace.identity()
    if known is None or (known.reservation_hash is None and known.run_id not in account.runs):
        return begin(loaded, plan, fingerprint, workspace, chosen=chosen_key is not None)
    if known.plan_hash != plan.hash:
        raise changed("the plan is not the one this run was begun with", workspace, f"plan {plan.hash[:16]}…")
    if known.records_fingerprint != fingerprint:
        raise changed("the records are not those this run was begun with", workspace)
    if known.key_is_chosen != (chosen_key is not None):
        found = "a key from the operating system" if chosen_key is None else "a chosen key"
        raise changed("this run was begun with another kind of key", workspace, found)
    return known


def begin(loaded: LoadedSpec, plan: Plan, fingerprint: str, workspace: Workspace, *, chosen: bool) -> RunIdentity:
    """A new run in its folder: of this plan, on inputs with this fingerprint, with a chosen key or another."""
    return workspace.begin(
        RunIdentity(
            run_id=new_run_id(),
            spec=os.path.relpath(loaded.path.resolve(), workspace.root.resolve()),
            release=loaded.spec.release.name,
            mechanism=plan.mechanism,
            plan_hash=plan.hash,
            records_fingerprint=fingerprint,
            key_is_chosen=chosen,
        )
    )


def _key(workspace: Workspace, identity: RunIdentity, chosen: ReleaseKey | None, *, drawn: bool) -> ReleaseKey:
    if workspace.key_file.exists() or drawn:
        kept = keys.recall(workspace.key_file)
        if kept.chosen != identity.key_is_chosen or (chosen is not None and chosen != kept):
            raise changed("this run was begun with another chosen key", workspace)
        return kept
    assert identity.key_is_chosen == (chosen is not None)
    key = chosen or ReleaseKey.from_system()
    keys.keep(key, workspace.key_file)
    return key


def produce(
    mechanism: Mechanism,
    checked: Checked,
    job: Job,
    key: ReleaseKey,
    identity: RunIdentity,
    documents: Documents,
    *,
    before_drawing: Callable[[], object] = lambda: None,
) -> None:
    """From records and key to the release folder. It depends on nothing else, so a replay gives the same bytes."""
    plan, question = checked.plan, checked.question
    assert plan is not None
    mechanism.tabulate(question, job)
    if records_fingerprint(mechanism.records_file(question)) != identity.records_fingerprint:
        raise changed("the records changed while they were counted", job.workspace)
    before_drawing()
    noise = NoiseSource(key, identity.records_fingerprint, plan.hash, mechanism.name)
    mechanism.measure(question, plan, job, noise)
    manifest = make_manifest(job.loaded, plan, key, mechanism.statistics(question, job))
    publish(mechanism, checked, job, manifest, documents, stamped=key.chosen)


def publish(
    mechanism: Publisher,
    checked: Checked,
    job: Job,
    manifest: Mapping[str, Any],
    documents: Documents,
    *,
    stamped: bool,
) -> None:
    """The release folder: the files of the mechanism, the documents, and the manifest, which seals it."""
    plan = checked.plan
    assert plan is not None
    metadata = {"release": job.loaded.spec.release.name, "plan_hash": plan.hash}
    with ReleaseWriter(job.workspace.release, stamped=stamped, metadata=metadata) as writer:
        mechanism.publish(checked.question, plan, job, writer)
        for name, text in documents(manifest).items():
            writer.document(name, text)
        writer.seal(manifest)


def _already_sealed(ledger: Ledger, workspace: Workspace, plan: Plan, manifest_sha256: str | None) -> RunResult:
    manifest = workspace.release / MANIFEST
    if not manifest.exists() or sha256_of(manifest) != manifest_sha256:
        raise RunError(
            "release-changed",
            "the ledger says that this run is sealed, but the release is not the one that was sealed",
            where=Place(file=str(manifest)),
            found="another manifest" if manifest.exists() else "no manifest",
            expected="the sealed release",
            remedy="publish nothing from this folder; restore the release from a copy",
        )
    return RunResult(workspace.release, workspace, plan, ledger.account(), str(manifest_sha256), True)


def changed(what: str, workspace: Workspace, found: str = CONFIDENTIAL) -> RunError:
    """The error for inputs that are not those the run was begun with."""
    return RunError(
        "run-changed",
        what,
        where=Place(file=str(workspace.root)),
        found=found,
        expected="the same spec, frame, records and kind of key, to go on with the run",
        remedy="put the inputs back as they were; or make a new release, under a new name, with new noise and a "
        "new charge",
    )


# Which engine a run is made with: that of this machine, or Spark. Both make the same release, byte by byte.


EngineName = Literal["local", "spark"]

ON_SPARK = ("tables", "topdown", "safetab", "cellkey", "postprocess")
"""The mechanisms whose releases are compared byte by byte with those of the local engine, by
``tests/engines/test_spark_releases.py``. Others are refused before anything is spent."""


def choose_engine(
    name: EngineName, mechanism: str, *, processes: int | None, memory: str, spark_master: str | None = None
) -> OpenEngine:
    """Opens the engine that was asked for; raises a :class:`ParameterError` where it is not for this mechanism."""
    if name == "local":
        if spark_master is not None:
            raise _refused("--spark-master", "a master of Spark is given, and the engine is local", spark_master)
        return lambda scratch: LocalEngine(scratch, processes=processes, memory=memory)
    if name != "spark":
        raise _refused("--engine", "there is no such engine", repr(name))
    if mechanism not in ON_SPARK:
        what = f"the mechanism {mechanism} does not run on Spark; nothing was done and nothing spent"
        raise _refused("--engine", what, f"the mechanism {mechanism}")

    def open_spark(scratch: Path) -> AbstractContextManager[Engine]:
        return SparkEngine(scratch, processes=processes, memory=memory, master=spark_master)

    return open_spark


def _refused(option: str, what: str, found: str) -> ParameterError:
    return ParameterError(
        "engine",
        what,
        where=Place(path=option),
        found=found,
        expected="local; or spark, for " + ", ".join(ON_SPARK),
        remedy="run with --engine local, or leave the option out",
    )
