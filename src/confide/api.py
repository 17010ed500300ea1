"""The verbs of Confide, as Python functions. The command line and the page call nothing else.

>>> import confide
>>> confide.check("spec.toml").findings         # doctest: +SKIP
>>> confide.run("spec.toml").release            # doctest: +SKIP
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide.confidential import Confidential
from confide.engines import LocalEngine
from confide.errors import Finding, Place, SpecError
from confide.noise import ReleaseKey
from confide.population import Population, PopulationFiles, write_population
from confide.report import certificate, dossier
from confide.runs import checking, execute, finality, verifying
from confide.runs.checking import Checked
from confide.runs.execute import OpenEngine, RunResult
from confide.runs.finality import Replay
from confide.runs.ledger import Ledger, RunRecord
from confide.runs.load_spec import LoadedSpec, load_spec
from confide.runs.mechanism import Mechanism
from confide.runs.progress import Progress, Silent
from confide.runs.release import MANIFEST, sha256_of
from confide.runs.verifying import Verification
from confide.runs.workspace import Workspace, no_room_is_an_error
from confide.tables import Tables
from confide.tables.evaluation import EvaluatedCells
from confide.tables.evaluation import evaluate as evaluate_tables

MECHANISMS: dict[str, Mechanism] = {"tables": Tables()}
"""Every mechanism by name."""

DEFAULT_MEMORY = "4GiB"


@dataclass(frozen=True)
class Evaluated:
    """The accuracy of a run, and the dossier that shows it. Confidential."""

    cells: Confidential[list[EvaluatedCells]]
    dossier: Path


def check(
    spec: str | Path, *, processes: int | None = None, memory: str = DEFAULT_MEMORY, progress: Progress | None = None
) -> Checked:
    """Every problem of a spec and its inputs, and the price. Nothing is spent."""
    loaded = load(spec)
    with (
        checking.throwaway_workspace() as scratch,
        LocalEngine(scratch.scratch, processes=processes, memory=memory) as engine,
    ):
        workspace = Workspace(loaded.folder)
        workspace.scratch = scratch.scratch
        return checking.check(loaded, _mechanism(loaded), engine, workspace, progress or Silent())


def run(
    spec: str | Path,
    *,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    insecure_key: str | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Runs a spec to its sealed release; run again after an interruption, it goes on at no further cost.

    ``insecure_key`` (64 hexadecimal digits) makes a trial reproducible; everything made with it is stamped NOT FOR
    RELEASE.
    """
    loaded = load(spec)
    return execute.run(
        loaded,
        _mechanism(loaded),
        open_engine=_local(processes, memory),
        documents=certificate.documents,
        progress=progress or Silent(),
        chosen_key=None if insecure_key is None else ReleaseKey.choose(insecure_key),
    )


def verify(release: str | Path, *, ledger: str | Path | None = None) -> Verification:
    """A release read again from its files, as anyone who received it can; with the ledger, also whether it is the very
    release that was sealed."""
    account = None if ledger is None else Ledger(ledger).account()
    return verifying.verify(Path(release), lambda name: MECHANISMS[name], account)


def evaluate(run_folder: str | Path, *, progress: Progress | None = None) -> Evaluated:
    """The released figures against the truth, as a dossier for the curator alone."""
    loaded = load(run_folder)
    workspace = Workspace(loaded.folder)
    identity = finality.begun(workspace)
    shown = progress or Silent()
    with checking.throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        mechanism = _mechanism(loaded)
        question = mechanism.prepare(loaded, engine)
    plan = mechanism.plan(question)
    if plan.hash != identity.plan_hash:
        raise execute.changed("the plan is not the one of the release", workspace, f"plan {plan.hash[:16]}…")
    with workspace.locked(), no_room_is_an_error(workspace.root), shown.stage("Comparing with the truth", 2) as advance:
        cells = evaluate_tables(question, plan, workspace)
        advance(1)
        written = dossier.write(cells, plan, loaded.spec.release.title or loaded.spec.release.name, workspace.dossier)
        advance(1)
    return Evaluated(cells, written)


def replay(
    run_folder: str | Path,
    *,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Replay:
    """Makes a release again from the kept key and compares every byte."""
    loaded = load(run_folder)
    return finality.replay(
        loaded,
        _mechanism(loaded),
        open_engine=_local(processes, memory),
        documents=certificate.documents,
        progress=progress or Silent(),
    )


def destroy_key(run_folder: str | Path) -> None:
    """Makes a sealed release final."""
    finality.destroy_key(load(run_folder))


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


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the spec: one form for each mechanism."""
    definitions: dict[str, Any] = {}
    forms = []
    for name, mechanism in MECHANISMS.items():
        form = mechanism.spec.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
        definitions |= form.pop("$defs", {})
        definitions["ReleasePart"]["properties"]["mechanism"]["enum"] = list(MECHANISMS)
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
                Finding(
                    code="no-run",
                    what="there is no run in this folder",
                    where=Place(file=str(given)),
                    found="a folder without confidential/run.json",
                    expected="a spec file, or a folder that `confide run` has written",
                    remedy="give the path of the spec, or run it first",
                )
            )
        given = Path(os.path.normpath(given / identity.spec))
    return load_spec(given, {name: mechanism.spec for name, mechanism in MECHANISMS.items()})


def _mechanism(loaded: LoadedSpec) -> Mechanism:
    return MECHANISMS[loaded.spec.release.mechanism]


def _local(processes: int | None, memory: str) -> OpenEngine:
    def open_engine(scratch: Path) -> AbstractContextManager[LocalEngine]:
        return LocalEngine(scratch, processes=processes, memory=memory)

    return open_engine
