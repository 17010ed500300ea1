"""The verbs of Confide, as Python functions. The command line and the page call nothing else.

>>> import confide
>>> confide.check("spec.toml").findings         # doctest: +SKIP
>>> confide.run("spec.toml").release            # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from confide.engines import LocalEngine
from confide.errors import Finding, Place, RunError, SpecError
from confide.mechanisms import EVALUATORS, SPECS
from confide.mechanisms import MECHANISMS as MECHANISMS
from confide.noise import ReleaseKey
from confide.population import OfficialFiles, Population, PopulationFiles, write_official, write_population
from confide.releases import check as checking
from confide.releases import evaluate as evaluating
from confide.releases import replay as finality
from confide.releases import run as execute
from confide.releases import unpriced
from confide.releases import verify as verifying
from confide.releases.check import Checked
from confide.releases.folder import MANIFEST, sha256_of
from confide.releases.ledger import Ledger, RunRecord
from confide.releases.load_spec import LoadedSpec, load_spec
from confide.releases.mechanism import Mechanism
from confide.releases.progress import Progress, Silent
from confide.releases.replay import Replay
from confide.releases.run import Documents, EngineName, OpenEngine, RunResult, choose_engine
from confide.releases.unpriced import Keyed, Unpriced
from confide.releases.verify import Verification
from confide.releases.workspace import Workspace
from confide.report.dossier import Evaluated, EvaluatedRun, Evaluating

DEFAULT_MEMORY = "4GiB"


def check(
    spec: str | Path,
    *,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    engine: EngineName = "local",
    spark_master: str | None = None,
    progress: Progress | None = None,
) -> Checked:
    """Every problem of a spec and its inputs, and the price. Nothing is spent. For the engines see :func:`run`."""
    loaded = load(spec)
    open_engine = _engine(loaded, engine, processes, memory, spark_master)
    with checking.throwaway_workspace() as scratch, open_engine(scratch.scratch) as opened:
        workspace = Workspace(loaded.folder)
        workspace.scratch = scratch.scratch
        mechanism, shown = _mechanism(loaded), progress or Silent()
        if isinstance(mechanism, Unpriced):
            return unpriced.check(loaded, mechanism, opened, workspace, shown)
        return checking.check(loaded, mechanism, opened, workspace, shown)


def run(
    spec: str | Path,
    *,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    insecure_key: str | None = None,
    engine: EngineName = "local",
    spark_master: str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Runs a spec to its sealed release; run again after an interruption, it goes on at no further cost.

    ``engine`` says what counts and maps: DuckDB and processes of this machine, or Spark, here (``spark_master`` is
    None) or on the cluster of a master such as ``spark://host:7077``. Both make the same release, byte by byte.

    ``insecure_key`` (64 hexadecimal digits) makes a trial reproducible; everything made with it is stamped NOT FOR
    RELEASE.
    """
    loaded = load(spec)
    mechanism, shown = _mechanism(loaded), progress or Silent()
    open_engine = _engine(loaded, engine, processes, memory, spark_master)
    if isinstance(mechanism, Unpriced):
        if insecure_key is not None and not isinstance(mechanism, Keyed):
            raise _no_records(loaded, "a key is given, and this release draws no noise")
        return unpriced.run(
            loaded,
            mechanism,
            open_engine=open_engine,
            documents=_documents(),
            progress=shown,
            chosen_key=None if insecure_key is None else ReleaseKey.choose(insecure_key),
        )
    return execute.run(
        loaded,
        mechanism,
        open_engine=open_engine,
        documents=_documents(),
        progress=shown,
        chosen_key=None if insecure_key is None else ReleaseKey.choose(insecure_key),
    )


def verify(release: str | Path, *, ledger: str | Path | None = None) -> Verification:
    """A release read again from its files, as anyone who received it can; with the ledger, also whether it is the very
    release that was sealed."""
    account = None if ledger is None else Ledger(ledger).account()
    return verifying.verify(Path(release), lambda name: MECHANISMS[name], account)


def evaluate(
    run_folder: str | Path,
    *more: str | Path,
    geometry: Mapping[str, str | Path] | None = None,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Evaluated:
    """The released figures against the truth, as a dossier for the curator alone.

    Several runs of the same question on the same records, with different keys, give means over keys and intervals.
    ``geometry`` has a GeoJSON file for each geography that is to be mapped (``topdown``).
    """
    given = [load(folder) for folder in (run_folder, *more)]
    mechanism, shown = _with_truth(given[0]), progress or Silent()
    identities = [finality.begun(Workspace(loaded.folder)) for loaded in given]
    evaluating.check_same_question([(loaded.folder, run) for loaded, run in zip(given, identities, strict=True)])
    with checking.throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        question = mechanism.prepare(given[0], engine)
    plan = mechanism.plan(question)
    runs = tuple(
        EvaluatedRun(spec.name, spec.title or spec.name, Workspace(loaded.folder))
        for loaded, spec in ((loaded, loaded.spec.release) for loaded in given)
    )
    first = runs[0].workspace
    if plan.hash != identities[0].plan_hash:
        raise execute.changed("the plan is not the one of the release", first, f"plan {plan.hash[:16]}…")
    files = {name: Path(file) for name, file in (geometry or {}).items()}
    with evaluating.held([run.workspace for run in runs]), _local(processes, memory)(first.scratch) as opened:
        return EVALUATORS[mechanism.name](Evaluating(question, plan, runs, opened, shown, files))


def replay(
    run_folder: str | Path,
    *,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Replay:
    """Makes a release again from the kept key and compares every byte."""
    loaded = load(run_folder)
    mechanism = _mechanism(loaded)
    if isinstance(mechanism, Keyed):
        engine, shown = _local(processes, memory), progress or Silent()
        return unpriced.replay(loaded, mechanism, open_engine=engine, documents=_documents(), progress=shown)
    return finality.replay(
        loaded,
        _of_records(loaded),
        open_engine=_local(processes, memory),
        documents=_documents(),
        progress=progress or Silent(),
    )


def destroy_key(run_folder: str | Path) -> bool:
    """Makes a sealed release final; says whether a ledger was told, which a release without a budget has not."""
    loaded = load(run_folder)
    if isinstance(_mechanism(loaded), Keyed):
        unpriced.destroy_key(loaded)
        return False
    _of_records(loaded)
    finality.destroy_key(loaded)
    return True


def reconcile(ledger: str | Path, run_folders: list[Path]) -> tuple[Finding, ...]:
    """Everything in which a ledger and run folders disagree."""
    records = []
    for folder in run_folders:
        workspace = Workspace(folder)
        identity = finality.begun(workspace)
        if identity.reservation_hash is None:
            continue
        manifest = workspace.release / MANIFEST
        sealed = manifest.exists()
        measured = workspace.measured.exists()
        records.append(
            RunRecord(
                identity.run_id,
                identity.plan_hash,
                identity.reservation_hash,
                folder,
                "sealed" if sealed else "measured" if measured else "reserved",
                sha256_of(manifest) if sealed else None,
            )
        )
    return Ledger(ledger).reconcile(records)


def synthesize(folder: str | Path, *, persons: int, seed: int, progress: Progress | None = None) -> PopulationFiles:
    """Made-up people, written as person and block files."""
    return write_population(Population(persons, seed), folder, progress=progress)


def synthesize_detailed(
    folder: str | Path, *, persons: int, seed: int, progress: Progress | None = None
) -> OfficialFiles:
    """The same people with detailed race and ethnicity codes, written as the official input folders of SafeTab-P."""
    return write_official(Population(persons, seed), folder, progress=progress)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the spec: one form for each mechanism, with definitions of its own."""
    definitions: dict[str, Any] = {}
    forms = []
    for name, mechanism in MECHANISMS.items():
        form = mechanism.spec.model_json_schema(by_alias=True, ref_template=f"#/$defs/{name}.{{model}}")
        own = form.pop("$defs")
        own["ReleasePart"]["properties"]["mechanism"]["const"] = name
        definitions |= {f"{name}.{part}": definition for part, definition in own.items()}
        form["title"] = f"A release by the mechanism {name}"
        forms.append(form)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Confide spec",
        "description": "The file (TOML) that describes a release.",
        "oneOf": forms,
        "$defs": definitions,
    }


def load(path: str | Path) -> LoadedSpec:
    """The spec in a file, or the spec of the run in a folder."""
    given = Path(path)
    if given.is_dir():
        identity = Workspace(given).identity()
        if identity is None:
            raise SpecError(
                "no-run",
                "there is no run in this folder",
                where=Place(file=str(given)),
                found="a folder without confidential/run.json",
                expected="a spec file, or a folder that `confide run` has written",
                remedy="give the path of the spec, or run it first",
            )
        given = Path(os.path.normpath(given / identity.spec))
    return load_spec(given, SPECS)


def _mechanism(loaded: LoadedSpec) -> Mechanism | Unpriced:
    return MECHANISMS[loaded.spec.release.mechanism]


def _with_truth(loaded: LoadedSpec) -> Mechanism | Unpriced:
    """The mechanism of a release that can be held against the truth; raises for one without records."""
    mechanism = _mechanism(loaded)
    if mechanism.name not in EVALUATORS:
        raise _no_records(loaded, "this release was made from measurements: there is no truth and no key")
    return mechanism


def _of_records(loaded: LoadedSpec) -> Mechanism:
    """The mechanism of a release with noise of its own; raises for one that drew none."""
    mechanism = _mechanism(loaded)
    if isinstance(mechanism, Unpriced):
        if mechanism.name in EVALUATORS:
            raise _no_records(loaded, "this release has no key of its own: what noise it has belongs to the records")
        raise _no_records(loaded, "this release was made from measurements: there is no truth and no key")
    return mechanism


def _no_records(loaded: LoadedSpec, what: str) -> RunError:
    return RunError(
        "no-records",
        what,
        where=loaded.place("release", "mechanism"),
        found=f"the mechanism {loaded.spec.release.mechanism}",
        expected="a release with a key of its own",
        remedy="turn to the release that the measurements come from, or to the records with their keys",
    )


def _documents() -> Documents:
    """What makes the certificate or statement of a release. It knows the words of every mechanism and loads them all,
    which only a verb that makes a release should wait for: before it begins, not when it seals."""
    from confide.report import certificate

    return certificate.documents


def _local(processes: int | None, memory: str) -> OpenEngine:
    def open_engine(scratch: Path) -> AbstractContextManager[LocalEngine]:
        return LocalEngine(scratch, processes=processes, memory=memory)

    return open_engine


def _engine(
    loaded: LoadedSpec, name: EngineName, processes: int | None, memory: str, spark_master: str | None
) -> OpenEngine:
    mechanism = loaded.spec.release.mechanism
    return choose_engine(name, mechanism, processes=processes, memory=memory, spark_master=spark_master)
