"""A run that starts from published measurements: nothing confidential, no noise, no key, no ledger, no cost.

::

    check ─► estimate ─► publish ─► seal

Post-processing: whatever a data set of measurements promises about people holds for every function of it that looks at
nothing else confidential. So the manifest states a loss of zero for the run itself, and names the measurements. Proof:
``docs/proofs/postprocess.md``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from confide.engines import Engine
from confide.errors import ConfideError, Finding, InputError, Place, RunError
from confide.runs.checking import Checked, room, taken_folder, unusable_folder
from confide.runs.execute import Documents, OpenEngine, RunResult
from confide.runs.keys import STAMP
from confide.runs.load_spec import LoadedSpec
from confide.runs.manifest import FORMAT
from confide.runs.mechanism import Job, Publisher
from confide.runs.plan import Plan
from confide.runs.progress import Progress
from confide.runs.release import MANIFEST, ReleaseWriter, sha256_of
from confide.runs.workspace import RunIdentity, Workspace, new_run_id, no_room_is_an_error
from confide.version import __version__


@runtime_checkable
class PostProcessing(Publisher, Protocol):
    """A way from published measurements to a release: its plan measures nothing."""

    def source(self, question: Any) -> Mapping[str, Any]:
        """What the measurements are: ``sha256``, and what they say of themselves (release, plan_hash, stamp)."""

    def check_measurements(self, question: Any) -> list[Finding]:
        """Every problem of the measurements."""

    def estimate(self, question: Any, job: Job) -> None:
        """From measurements to estimates. Goes on where it was interrupted."""


def check(
    loaded: LoadedSpec, mechanism: PostProcessing, engine: Engine, workspace: Workspace, progress: Progress
) -> Checked:
    """Looks at everything a run would look at: spec, measurements, room. The cost is zero, and no ledger is asked."""
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
    with progress.stage("Checking measurements", 1) as advance:
        try:
            findings += mechanism.check_measurements(question)
        except InputError as error:
            findings += error.findings
        advance(1)
    return Checked(question, plan, Fraction(0), None, tuple(findings))


def run(
    loaded: LoadedSpec,
    mechanism: PostProcessing,
    *,
    open_engine: OpenEngine,
    documents: Documents,
    progress: Progress,
) -> RunResult:
    """Runs a spec to its sealed release, or goes on with it after an interruption."""
    workspace = Workspace(loaded.folder)
    if unusable := unusable_folder(loaded, workspace):
        raise RunError(unusable)
    with workspace.locked(), no_room_is_an_error(workspace.root), open_engine(workspace.scratch) as engine:
        try:
            checked = check(loaded, mechanism, engine, workspace, progress)
            if checked.errors or checked.plan is None:
                raise RunError(checked.findings)
            for warning in checked.findings:
                progress.note(f"{warning.severity} {warning}")
            _identify(loaded, checked.plan, mechanism.source(checked.question), workspace)
            sealed = workspace.release.exists()
            if not sealed:
                _produce(mechanism, checked, Job(loaded, engine, workspace, progress), documents)
            manifest = sha256_of(workspace.release / MANIFEST)
            return RunResult(workspace.release, workspace, checked.plan, None, manifest, sealed)
        finally:
            workspace.tidy()


def _identify(loaded: LoadedSpec, plan: Plan, source: Mapping[str, Any], workspace: Workspace) -> RunIdentity:
    """The run that this folder holds, begun now if there is none; another plan is another run."""
    known = workspace.identity()
    if known is None:
        return workspace.begin(
            RunIdentity(
                run_id=new_run_id(),
                spec=os.path.relpath(loaded.path.resolve(), workspace.root.resolve()),
                release=loaded.spec.release.name,
                mechanism=plan.mechanism,
                plan_hash=plan.hash,
                records_fingerprint=source["sha256"],
                key_is_chosen=False,
            )
        )
    if known.plan_hash != plan.hash:
        raise RunError(
            Finding(
                code="run-changed",
                what="the spec or the measurements are not those this run was begun with",
                where=Place(file=str(workspace.root)),
                found=f"plan {plan.hash[:16]}…",
                expected=f"plan {known.plan_hash[:16]}…",
                remedy="put them back as they were; or make a new release, under a new name",
            )
        )
    return known


def _produce(mechanism: PostProcessing, checked: Checked, job: Job, documents: Documents) -> None:
    question, plan = checked.question, checked.plan
    assert plan is not None
    mechanism.estimate(question, job)
    source = mechanism.source(question)
    manifest = _manifest(job.loaded, plan, source, mechanism.statistics(question, job))
    metadata = {"release": job.loaded.spec.release.name, "plan_hash": plan.hash}
    with ReleaseWriter(job.workspace.release, stamped=source.get("stamp") == STAMP, metadata=metadata) as writer:
        mechanism.publish(question, plan, job, writer)
        for name, text in documents(manifest).items():
            writer.document(name, text)
        writer.seal(manifest)


def _manifest(
    loaded: LoadedSpec, plan: Plan, source: Mapping[str, Any], statistics: Mapping[str, Any]
) -> dict[str, Any]:
    """The manifest without its list of files. A stamp on the measurements is a stamp on what is made of them."""
    release = loaded.spec.release
    stamped = source.get("stamp") == STAMP
    return {
        "format": FORMAT,
        "confide": __version__,
        "release": release.name,
        "title": release.title or release.name,
        "mechanism": plan.mechanism,
        **({"stamp": STAMP} if stamped else {}),
        "source": dict(source),
        "privacy": {
            "neighbours": plan.neighbours.value,
            "loss": plan.loss.as_dict(),
            "in_words": in_words(source),
        },
        "noise": {"sampler": None, "key": "chosen" if stamped else "none"},
        "statistics": dict(statistics),
        "plan_hash": plan.hash,
        "plan": plan.as_dict(),
    }


def in_words(source: Mapping[str, Any]) -> list[str]:
    """What is promised, which is nothing of its own."""
    whose = f"of the release {source['release']!r}" if "release" in source else "that were published before"
    return [
        f"This release was made from noisy measurements {whose}, and from nothing else that is confidential: "
        "no record was read and no noise was drawn.",
        "It makes no promise of its own. Whatever is promised of those measurements holds for this release just as "
        "well, because it is a function of them (post-processing); having both costs no more than having the "
        "measurements.",
    ]
