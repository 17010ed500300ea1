"""A run that spends no budget: no noise is drawn for it, or none whose loss could be accounted for.

::

    check ─► make ─► publish ─► seal

Two kinds of releases are made so. One is made from published measurements, and promises what these promise
(``docs/proofs/postprocess.md``). The other perturbs counts with bounded noise that belongs to the records for ever, as
the cell key method does; it promises no differential privacy, and says so. Neither has a place in a ledger. Where such
a release draws something of its own, as swapping does, it has a key, kept and destroyed like any other.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, Protocol, runtime_checkable

from confide.engines import Engine
from confide.errors import ConfideError, Finding, InputError, Place, RunError
from confide.noise import ReleaseKey
from confide.releases import keys
from confide.releases.check import Charge, Checked, room, taken_folder, unusable_folder
from confide.releases.evaluate import require_sealed
from confide.releases.folder import MANIFEST, sha256_of
from confide.releases.keys import STAMP
from confide.releases.load_spec import LoadedSpec
from confide.releases.manifest import FORMAT
from confide.releases.mechanism import Job, Publisher
from confide.releases.plan import Plan
from confide.releases.progress import Progress
from confide.releases.replay import Replay, begun, compare
from confide.releases.run import Documents, OpenEngine, RunResult, at_work, begin, changed, publish
from confide.releases.workspace import RunIdentity, Workspace, no_room_is_an_error
from confide.version import __version__


@runtime_checkable
class Unpriced(Publisher, Protocol):
    """A way to a release whose plan measures nothing."""

    def fingerprint(self, question: Any) -> str:
        """SHA-256 of what the release is made from, apart from what is in the plan."""

    def check_inputs(self, question: Any, job: Job) -> list[Finding]:
        """Every problem of what it is made from."""

    def make(self, question: Any, job: Job) -> None:
        """Everything up to the figures that are published. Goes on where it was interrupted."""

    def stated(self, question: Any, plan: Plan) -> Mapping[str, Any]:
        """What the manifest says of its promise: ``privacy`` (with ``in_words``), ``noise``, and what else there is to
        say, such as ``source`` and ``stamp``."""


@runtime_checkable
class Keyed(Unpriced, Protocol):
    """One that draws: :meth:`make` finds the key of the run in the confidential zone."""

    @property
    def keyed(self) -> Literal[True]:
        """Says so."""


def check(loaded: LoadedSpec, mechanism: Unpriced, engine: Engine, workspace: Workspace, progress: Progress) -> Checked:
    """Looks at everything a run would look at: spec, inputs, room. Nothing is charged, and no ledger is asked."""
    findings: list[Finding] = []
    begun = None
    try:
        begun = workspace.identity()
    except ConfideError as error:
        findings += error.findings
    findings += unusable_folder(loaded, workspace) or taken_folder(loaded, workspace, begun)
    try:
        question = mechanism.prepare(loaded, engine)
        plan = mechanism.plan(question)
    except ConfideError as error:
        return Checked(None, None, None, None, (*findings, *error.findings))
    if begun is None:
        findings += room(workspace, mechanism.bytes_needed(question, plan))
    with progress.stage("Checking inputs", 1) as advance:
        try:
            findings += mechanism.check_inputs(question, Job(loaded, engine, workspace, progress))
        except InputError as error:
            findings += error.findings
        advance(1)
    return Checked(question, plan, Charge(Fraction(0)), None, tuple(findings))


def run(
    loaded: LoadedSpec,
    mechanism: Unpriced,
    *,
    open_engine: OpenEngine,
    documents: Documents,
    progress: Progress,
    chosen_key: ReleaseKey | None = None,
) -> RunResult:
    """Runs a spec to its sealed release, or goes on with it after an interruption."""
    with at_work(loaded, open_engine) as (workspace, engine):
        checked = check(loaded, mechanism, engine, workspace, progress)
        if checked.errors or checked.plan is None:
            raise RunError(checked.findings)
        for warning in checked.findings:
            progress.note(f"{warning.severity} {warning}")
        fingerprint = mechanism.fingerprint(checked.question)
        identity = _identify(loaded, checked.plan, fingerprint, workspace, chosen=chosen_key is not None)
        sealed = workspace.release.exists()
        if not sealed:
            if isinstance(mechanism, Keyed):
                _keep_key(workspace, identity, chosen_key)
            _produce(mechanism, checked, Job(loaded, engine, workspace, progress), documents)
        manifest = sha256_of(workspace.release / MANIFEST)
        return RunResult(workspace.release, workspace, checked.plan, None, manifest, sealed)


def replay(
    loaded: LoadedSpec, mechanism: Keyed, *, open_engine: OpenEngine, documents: Documents, progress: Progress
) -> Replay:
    """Makes a release again from the kept key, beside the first, and compares every byte."""
    original = Workspace(loaded.folder)
    identity = begun(original)
    require_sealed(original)
    again = Workspace(original.confidential / "replay")
    again.key_file = original.key_file
    with original.locked(), no_room_is_an_error(original.root), open_engine(again.scratch) as engine:
        try:
            checked = check(loaded, mechanism, engine, original, progress)
            if checked.errors or checked.plan is None:
                raise RunError(checked.findings)
            if checked.plan.hash != identity.plan_hash:
                raise changed("the plan is not the one of the release", original, f"plan {checked.plan.hash[:16]}…")
            if mechanism.fingerprint(checked.question) != identity.records_fingerprint:
                raise changed("records or settings are not those of the release", original)
            keys.recall(original.key_file)
            _produce(mechanism, checked, Job(loaded, engine, again, progress), documents)
            return compare(original.release, again.release)
        finally:
            shutil.rmtree(again.root, ignore_errors=True)
            original.tidy()


def destroy_key(loaded: LoadedSpec) -> None:
    """Makes a sealed release final: the key is gone, and so is whatever was drawn with it and not published."""
    workspace = Workspace(loaded.folder)
    begun(workspace)
    with workspace.locked(), no_room_is_an_error(workspace.root):
        require_sealed(workspace)
        if workspace.key_file.exists():
            keys.destroy(workspace.key_file)
        shutil.rmtree(workspace.measured, ignore_errors=True)


def _keep_key(workspace: Workspace, identity: RunIdentity, chosen: ReleaseKey | None) -> None:
    """The key of the run is in its place: that of before, or a new one."""
    if not workspace.key_file.exists() and not workspace.measured.exists():
        keys.keep(chosen or ReleaseKey.from_system(), workspace.key_file)
    kept = keys.recall(workspace.key_file)
    if kept.chosen != identity.key_is_chosen or (chosen is not None and chosen != kept):
        raise changed("this run was begun with another chosen key", workspace)


def _identify(loaded: LoadedSpec, plan: Plan, fingerprint: str, workspace: Workspace, *, chosen: bool) -> RunIdentity:
    """The run that this folder holds, begun now if there is none; another plan, or other inputs, are another run."""
    known = workspace.identity()
    if known is None:
        return begin(loaded, plan, fingerprint, workspace, chosen=chosen)
    if known.key_is_chosen != chosen:
        found = "a chosen key" if chosen else "no chosen key"
        raise changed("this run was begun with another kind of key", workspace, found)
    if (known.plan_hash, known.records_fingerprint) != (plan.hash, fingerprint):
        raise RunError(
            "run-changed",
            "the spec or the inputs are not those this run was begun with",
            where=Place(file=str(workspace.root)),
            found=f"plan {plan.hash[:16]}…",
            expected=f"plan {known.plan_hash[:16]}…, and the same inputs",
            remedy="put them back as they were; or make a new release, under a new name",
        )
    return known


def _produce(mechanism: Unpriced, checked: Checked, job: Job, documents: Documents) -> None:
    question, plan = checked.question, checked.plan
    assert plan is not None
    mechanism.make(question, job)
    release = job.loaded.spec.release
    manifest = {
        "format": FORMAT,
        "confide": __version__,
        "release": release.name,
        "title": release.title or release.name,
        "mechanism": plan.mechanism,
        **mechanism.stated(question, plan),
        "statistics": dict(mechanism.statistics(question, job)),
        "plan_hash": plan.hash,
        "plan": plan.as_dict(),
    }
    if isinstance(mechanism, Keyed) and keys.recall(job.workspace.key_file).chosen:
        manifest |= {"noise": {**manifest["noise"], "key": "chosen"}, "stamp": STAMP}
    publish(mechanism, checked, job, manifest, documents, stamped=manifest.get("stamp") == STAMP)
