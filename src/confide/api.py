"""The verbs of Confide, as Python functions. The command line calls nothing else.

>>> import confide
>>> confide.check("spec.toml").findings         # doctest: +SKIP
>>> confide.run("spec.toml").release            # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confide.answers import AnswerPart, TypedAnswer, Values
from confide.engines import LocalEngine
from confide.errors import ConfideError, Finding, ParameterError, Place, RunError, SpecError
from confide.exact import Exact, positive_within
from confide.inputs.frame import gathered_values
from confide.mechanisms import MECHANISMS as MECHANISMS
from confide.mechanisms import SPECS
from confide.noise import ReleaseKey
from confide.releases import Job, LoadedSpec, NoiseSource, SealedRelease, Verification, load_spec
from confide.releases import check as checking
from confide.releases import replay as evaluating
from confide.releases import replay as replaying
from confide.releases import run as running
from confide.releases import verify as verifying
from confide.releases.abilities import EVALUATE, RESIDUALS
from confide.releases.check import Checked
from confide.releases.dossier import NOISE_AUDIT, Evaluated, EvaluatedRun, Evaluating, write_page
from confide.releases.ledger import Disagreements, Ledger, RunRecord
from confide.releases.loss_account import DELTA, ReleaseAccount
from confide.releases.plan import NO_BUDGET, Plan
from confide.releases.replay import Replay, Residuals
from confide.releases.run import DEFAULT_MEMORY as DEFAULT_MEMORY
from confide.releases.run import Confirm, EngineName, OpenEngine, RunResult, choose_engine
from confide.releases.signature import Signer, read_public_key
from confide.releases.signature import new_signature_key as new_signature_key
from confide.releases.workspace import Progress, Silent, Workspace, recall_key

if TYPE_CHECKING:
    from confide.mechanisms.cellkey.given import PerturbedTable
    from confide.releases.noise_audit import NoiseAudit


def check(
    spec: str | Path,
    *,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    engine: EngineName = "local",
    spark_master: str | None = None,
    accept_ledger: bool = False,
    show_values: bool = False,
    progress: Progress | None = None,
) -> Checked:
    """Finds every problem of a spec and its inputs, and the price. Nothing is spent.

    Args:
        spec: The spec file, or the folder of its run.
        processes: How many processes to use; by default one for each core.
        memory: The most memory to use, such as ``4GiB``.
        engine: ``local`` or ``spark``: see :func:`run`.
        spark_master: The master of a Spark cluster.
        accept_ledger: See :func:`run`.
        show_values: Whether the answer also has, as confidential, the values that break a rule.
        progress: Receives stages; none by default.

    Returns:
        The plan, its price, what is left in the ledger, and every finding.

    >>> import confide
    >>> checked = confide.check(project / "spec.toml")  # a folder with a spec, its records and a ledger
    >>> checked.ok, str(checked.cost)
    (True, '1')
    """
    loaded = load(spec)
    mechanism = MECHANISMS[loaded.spec.release.mechanism]
    open_engine = choose_engine(engine, mechanism, processes=processes, memory=memory, spark_master=spark_master)
    with checking.throwaway_workspace() as scratch, open_engine(scratch.scratch) as opened:
        workspace = Workspace(loaded.folder)
        workspace.scratch = scratch.scratch
        with ExitStack() as stack:
            values = stack.enter_context(gathered_values()) if show_values else []
            checked = checking.check(
                loaded, mechanism, opened, workspace, progress or Silent(), accept_ledger=accept_ledger
            )
        rehearsed = (_only_rehearsed(loaded),) if loaded.spec.release.rehearsal else ()
        return replace(checked, findings=(*rehearsed, *checked.findings), offending=tuple(values))


def run(
    spec: str | Path,
    *,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    insecure_key: str | None = None,
    sign: str | Path | None = None,
    engine: EngineName = "local",
    spark_master: str | None = None,
    accept_ledger: bool = False,
    confirm: Confirm | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Runs a spec to its sealed release; run again after an interruption, it goes on at no further cost.

    Args:
        spec: The spec file, or the folder of its run.
        processes: How many processes to use; by default one for each core.
        memory: The most memory to use, such as ``4GiB``.
        insecure_key: 64 hexadecimal digits, which make a trial reproducible; everything made with it is stamped NOT
            FOR RELEASE.
        sign: The file of the office's signature key: the sealed release is signed with it. See :func:`sign_release`.
        engine: What counts and maps: DuckDB and processes of this machine (``local``), or ``spark``, here
            (``spark_master`` is None) or on the cluster of a master such as ``spark://host:7077``. Both make the same
            release, byte by byte.
        spark_master: The master of a Spark cluster.
        accept_ledger: Charges the ledger although a witness beside the records, or another run over them, shows that
            it is an older copy or not their first, or although it was charged for other records and never for these,
            such as the file before a correction: a decision of the office, which is noted.
        confirm: Called with the checked plan and its price before anything is charged; raises to stop. Without it,
            nothing is asked.
        progress: Receives stages and warnings; none by default.

    Returns:
        Where the release is, its plan, and the account of the ledger after the run.

    >>> import confide
    >>> done = confide.run(project / "spec.toml")
    >>> done.release.name, str(done.account.left)
    ('release', '0')
    """
    loaded = load(spec)
    mechanism = MECHANISMS[loaded.spec.release.mechanism]
    if loaded.spec.release.rehearsal:
        raise RunError(_only_rehearsed(loaded))
    if insecure_key is not None and not mechanism.keyed:
        raise RunError(
            "no-records/key", where=loaded.place("release", "mechanism"), mechanism=loaded.spec.release.mechanism
        )
    # Read before anything is spent: a key that cannot sign is found now.
    signer = None if sign is None else Signer.read(sign)
    if signer is not None and insecure_key is not None:
        raise ParameterError("signature-stamped/release", where=Place(path="--sign"))
    result = running.run(
        loaded,
        mechanism,
        open_engine=choose_engine(engine, mechanism, processes=processes, memory=memory, spark_master=spark_master),
        progress=progress or Silent(),
        chosen_key=None if insecure_key is None else ReleaseKey.choose(insecure_key),
        accept_ledger=accept_ledger,
        confirm=confirm,
    )
    if signer is not None:
        replaying.sign(loaded, mechanism, signer)
    return replace(result, signed=signer is not None, trial=insecure_key is not None)


def _only_rehearsed(loaded: LoadedSpec) -> Finding:
    return Finding.of("rehearsal-spec", where=loaded.place("release", "rehearsal"))


def verify(
    release: str | Path, *, ledger: str | Path | None = None, public_key: str | Path | None = None
) -> Verification:
    """Reads a release again from its files, as anyone who received it can.

    Args:
        release: The release folder, or the folder of its run.
        ledger: The ledger of the data set: then also whether it is the very release that was sealed.
        public_key: The public key of the office: the same by its signature, for whoever has no ledger.

    Returns:
        Every check, and whether all of it is as it should be.

    >>> import confide
    >>> confide.verify(sealed / "release").ok  # sealed: the folder of a run
    True
    """
    account = None if ledger is None else Ledger(ledger).account()
    key = None if public_key is None else read_public_key(public_key)
    return verifying.verify(release, lambda name: MECHANISMS[name], account, key)


def evaluate(
    run_folder: str | Path,
    *more: str | Path,
    geometry: Mapping[str, str | Path] | None = None,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Evaluated:
    """Compares the released figures with the truth, in a dossier for the curator alone.

    Args:
        run_folder: The spec file, or the folder of its run.
        more: Further runs of the same question on the same records, with different keys: they give means over keys and
            intervals.
        geometry: By level a GeoJSON file, for maps in the dossier; by default those that the spec names.
        processes: How many processes to use; by default one for each core.
        memory: The most memory to use, such as ``4GiB``.
        progress: Receives stages; none by default.

    Returns:
        The accuracy, which is confidential, and where the dossier is.

    >>> import confide
    >>> confide.evaluate(sealed).dossier.name
    'dossier-confidential.html'
    """
    given = [load(folder) for folder in (run_folder, *more)]
    mechanism, shown = MECHANISMS[given[0].spec.release.mechanism], progress or Silent()
    if not mechanism.has_truth:
        raise RunError(
            "no-records/mechanism",
            where=given[0].place("release", "mechanism"),
            what=mechanism.without_key,
            mechanism=given[0].spec.release.mechanism,
        )
    identities = [replaying.begun(Workspace(loaded.folder)) for loaded in given]
    evaluating.check_same_question([(loaded.folder, run) for loaded, run in zip(given, identities, strict=True)])
    with checking.throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        problem = mechanism.prepare(given[0], engine)
    plan = mechanism.plan(problem)
    evaluated = EVALUATE.of(mechanism)
    if evaluated is None:
        raise RunError("no-evaluation", where=Place(path="release.mechanism"), mechanism=mechanism.name)
    runs = tuple(
        EvaluatedRun(spec.name, spec.title or spec.name, Workspace(loaded.folder))
        for loaded, spec in ((loaded, loaded.spec.release) for loaded in given)
    )
    first = runs[0].workspace
    if plan.hash != identities[0].final_hash:
        raise RunError("run-changed/plan-release", where=Place(file=str(first.root)), hash=plan.hash[:16])
    outlines = {level: given[0].resolve(file) for level, file in given[0].spec.geography.outlines.items()}
    files = outlines | {name: Path(file) for name, file in (geometry or {}).items()}
    with evaluating.held([run.workspace for run in runs]), _local(processes, memory)(first.scratch) as opened:
        return evaluated(Evaluating(problem, plan, runs, opened, shown, files))


def audit_noise(
    run_folder: str | Path,
    *more: str | Path,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> NoiseAudit:
    """Holds what a sealed run added to the truth against its plan: laws, independence, and no draw but the planned.

    Args:
        run_folder: The spec file, or the folder of its run with its confidential zone.
        more: Further runs, of any question and records: more draws show smaller errors, and no two runs may have noise
            in common.
        processes: How many processes to use; by default one for each core.
        memory: The most memory to use, such as ``4GiB``.
        progress: Receives stages; none by default.

    Returns:
        Every check, which measurement has which noise, and where the page is. Confidential.

    >>> import confide
    >>> confide.audit_noise(sealed).page.name
    'noise-audit-confidential.html'
    """
    from confide.releases.noise_audit import audit, noise_audit_page

    shown = progress or Silent()
    given = [load(folder) for folder in (run_folder, *more)]
    names = _distinct_names([loaded.spec.release.name for loaded in given])
    workspaces = [Workspace(loaded.folder) for loaded in given]
    evaluating.check_different_runs([(space.root, replaying.begun(space)) for space in workspaces])
    with evaluating.held(workspaces), shown.stage("Reading noise", len(given)) as advance:
        runs: dict[str, tuple[Plan, list[Residuals]]] = {}
        for name, loaded, workspace in zip(names, given, workspaces, strict=True):
            runs[name] = run_residuals(loaded, workspace, _local(processes, memory), shown)
            advance(1)
    with shown.stage("Auditing noise", 1) as advance:
        answer = audit(runs)
        advance(1)
    title = given[0].spec.release.title or given[0].spec.release.name
    page = write_page(workspaces[0].dossier, NOISE_AUDIT, answer.as_dict(), noise_audit_page(answer, title))
    return replace(answer, page=page)


def perturb_cells(
    table: str | Path,
    out: str | Path,
    *,
    ptable: str | Path | None = None,
    D: int | None = None,
    V: Exact | None = None,
    js: int = 0,
    pstay: Exact | None = None,
    mono: bool = True,
    keys: int | None = None,
    shuffle: str | None = None,
    threshold: int | None = None,
    count: str = "count",
    cell_key: str = "cell_key",
    weight: str | None = None,
    weight_gap: Exact | None = None,
    variables: Sequence[str] | None = None,
    name: str | None = None,
    title: str = "",
    delimiter: str = ",",
    progress: Progress | None = None,
) -> PerturbedTable:
    """Perturbs a table that was counted elsewhere by its cell keys, and seals it: a release of the mechanism cellkey.

    The same count and cell key get the noise that a release from records would give them. Figures that come out as zero
    are not listed, and rows are in the order of their labels. Nothing is published of the file but its labels.

    Args:
        table: The cells, CSV or Parquet: columns of labels, the true count and the cell key of each. Confidential.
        out: A new folder: the spec, and below it the run with its release.
        ptable: The perturbation table as a file; or:
        D: The largest noise.
        V: The variance of the noise.
        js: Results from 1 to js do not occur.
        pstay: The least probability of no noise.
        mono: Whether probabilities increase from the most negative noise to zero.
        keys: How many cell keys there are; by default a hundred million, or as many as the file of the table has.
        shuffle: The order of the perturbation table: ``derived``, 64 hexadecimal digits, ``secret`` to draw them, or
            ``none``. By default derived, and for a file as it is.
        threshold: Published counts below it are left out.
        count: The column with the true counts.
        cell_key: The column with the cell keys: whole numbers, or decimals from 0 to below 1.
        weight: A column of weighted counts: they are published too.
        weight_gap: How far neighbouring weights are apart at most; 1 by default. Weighted counts are published in
            multiples of (D + 1) times this, so that they tell nothing more of the counts.
        variables: The columns of labels; by default all others.
        name: What the table is called; by default as its file.
        title: A title for people.
        delimiter: The delimiter of a CSV.
        progress: Receives stages and warnings; none by default.

    Returns:
        The spec, and the sealed release.

    >>> import confide
    >>> table = tmp_path / "ages.csv"
    >>> rows = ["age,count,cell_key", "young,120,5", "old,80,99999999"]
    >>> with table.open("w") as file:
    ...     print(*rows, sep=chr(10), file=file)
    >>> confide.perturb_cells(table, tmp_path / "ages", D=5, V=2).release.name
    'release'
    """
    from confide.mechanisms.cellkey.given import CellsSpec, PerturbedTable

    asked = CellsSpec(
        ptable=ptable,
        D=D,
        V=V,
        js=js,
        pstay=pstay,
        mono=mono,
        keys=keys,
        shuffle=shuffle,
        threshold=threshold,
        count=count,
        cell_key=cell_key,
        weight=weight,
        weight_gap=weight_gap,
        variables=variables,
        name=name,
        title=title,
        delimiter=delimiter,
    )
    spec, called, columns = asked.write(Path(table), Path(out))
    try:
        sealed = run(spec, processes=1, progress=progress)
    except ConfideError:
        spec.unlink()  # nothing was released by it: the folder can be used again
        raise
    return PerturbedTable(spec, sealed.release, called, columns)


def run_residuals(
    loaded: LoadedSpec, workspace: Workspace, open_engine: OpenEngine, progress: Progress
) -> tuple[Plan, list[Residuals]]:
    """What a sealed run added to the truth, as its mechanism declares it.

    Args:
        loaded: The spec of the run.
        workspace: Its folders.
        open_engine: Opens the engine that reads.
        progress: Receives stages.

    Returns:
        The plan, and the arrays of noise. Confidential.
    """
    mechanism, identity = MECHANISMS[loaded.spec.release.mechanism], replaying.begun(workspace)
    if not mechanism.has_truth:
        raise RunError(
            "no-records/mechanism",
            where=loaded.place("release", "mechanism"),
            what=mechanism.without_key,
            mechanism=loaded.spec.release.mechanism,
        )
    evaluating.require_sealed(workspace)
    with open_engine(workspace.scratch) as engine:
        problem = mechanism.prepare(loaded, engine)
        plan = mechanism.plan(problem)
        if plan.hash != identity.plan_hash:
            raise RunError("run-changed/plan-release", where=Place(file=str(workspace.root)), hash=plan.hash[:16])
        noise = None
        if mechanism.keyed and workspace.key_file.exists():
            noise = NoiseSource(recall_key(workspace.key_file), identity.records_fingerprint, plan.hash, mechanism.name)
        residuals = RESIDUALS.of(mechanism)
        if residuals is None:
            raise RunError("no-noise/releases", where=Place(path="release.mechanism"), mechanism=mechanism.name)
        return plan, list(residuals(problem, Job(loaded, plan, engine, workspace, progress), noise))


def _distinct_names(names: list[str]) -> list[str]:
    """Names of runs, numbered where several have the same."""
    return [
        name if names.count(name) == 1 else f"{name} ({1 + names[:place].count(name)})"
        for place, name in enumerate(names)
    ]


def replay(
    run_folder: str | Path,
    *,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Replay:
    """Makes a release again from the kept key and compares every byte.

    Args:
        run_folder: The spec file, or the folder of its run.
        processes: How many processes to use; by default one for each core.
        memory: The most memory to use, such as ``4GiB``.
        progress: Receives stages; none by default.

    Returns:
        How many files there are, and which of them differ.

    >>> import confide
    >>> confide.replay(sealed).ok
    True
    """
    loaded = load(run_folder)
    mechanism = MECHANISMS[loaded.spec.release.mechanism]
    return replaying.replay(loaded, mechanism, open_engine=_local(processes, memory), progress=progress or Silent())


def destroy_key(run_folder: str | Path) -> bool:
    """Destroys the key of a sealed release, after which nobody can replay it: :func:`seal` without a signature.

    Args:
        run_folder: The spec file, or the folder of its run.

    Returns:
        Whether a ledger notes it: a release without a budget has none.

    >>> import confide
    >>> confide.destroy_key(sealed)
    True
    """
    return seal(run_folder, destroy_key=True).in_ledger


def sign_release(run_folder: str | Path, key: str | Path) -> Path:
    """Signs a sealed release, so that a receiver who has the office's public key needs no ledger.

    Args:
        run_folder: The spec file, or the folder of its run.
        key: The file of the office's signature key: see :func:`new_signature_key`.

    Returns:
        The signature, a file of the release beside its manifest.

    >>> import confide
    >>> key = confide.new_signature_key(tmp_path / "office.key")
    >>> signature = confide.sign_release(sealed, key.private)
    >>> confide.verify(sealed / "release", public_key=key.public).ok
    True
    """
    loaded = load(run_folder)
    return replaying.sign(loaded, MECHANISMS[loaded.spec.release.mechanism], Signer.read(key))


@dataclass(frozen=True)
class Finality(TypedAnswer):
    """What was done to a release that was sealed."""

    signature: Path | None
    """The signature of the office, if the release was signed."""
    key_destroyed: bool
    in_ledger: bool
    """Whether a ledger says that the key is destroyed."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"signature": None if self.signature is None else str(self.signature)}

    def described(self) -> Iterator[AnswerPart]:
        """What was done."""
        if self.signature is not None:
            yield f"Signed: {self.signature}"
        if self.key_destroyed:
            yield f"The key is destroyed{' and the ledger says so' if self.in_ledger else ''}. The release is final."


def seal(run_folder: str | Path, *, destroy_key: bool = False, sign: str | Path | None = None) -> Finality:
    """Makes a sealed release final by destroying its key, or signs it with the key of the office, or both.

    Args:
        run_folder: The spec file, or the folder of its run.
        destroy_key: Destroy the key. After this, nobody can replay the release.
        sign: Sign the sealed release with this key of the office: see :func:`new_signature_key`.

    Returns:
        The signature, and whether the key is destroyed.

    >>> import confide
    >>> print(confide.seal(sealed, destroy_key=True))
    The key is destroyed and the ledger says so. The release is final.
    """
    signature = None if sign is None else sign_release(run_folder, sign)
    loaded = load(run_folder)
    mechanism = MECHANISMS[loaded.spec.release.mechanism]
    if destroy_key:
        replaying.destroy_key(loaded, mechanism)
    return Finality(signature, destroy_key, destroy_key and mechanism.accounted)


def reconcile(ledger: str | Path, run_folders: Sequence[str | Path]) -> Disagreements:
    """Finds everything in which a ledger and run folders disagree: a ledger that was cut off or put back, lost runs.

    Args:
        ledger: The ledger of the data set.
        run_folders: The folders of the runs on this data set.

    Returns:
        A finding for each disagreement; none if they agree.

    >>> import confide
    >>> print(confide.reconcile(sealed.parent / "data-set.ledger", [sealed]))
    The ledger and the run folders agree.
    """
    records = []
    for folder in map(Path, run_folders):
        workspace = Workspace(folder)
        identity = replaying.begun(workspace)
        if identity.reservation_hash is None:
            continue
        sealed = workspace.manifest_sha256
        measured = workspace.measured.exists()
        records.append(
            RunRecord(
                identity.run_id,
                identity.plan_hash,
                identity.reservation_hash,
                folder,
                "sealed" if sealed is not None else "measured" if measured else "reserved",
                sealed,
                _key_commitment(workspace),
            )
        )
    return Ledger(ledger).reconcile(records)


def _key_commitment(workspace: Workspace) -> str | None:
    """Of the key in a run folder; none where there is none, or none that can be read."""
    try:
        return recall_key(workspace.key_file).commitment
    except RunError:
        return None


def account_release(folder: str | Path, delta: Exact = DELTA) -> ReleaseAccount:
    """The loss of a sealed release, composed anew from its measurements, with its privacy loss distribution.

    Args:
        folder: The release.
        delta: The delta at which epsilon is stated.

    Returns:
        The loss, the bounds for epsilon, and the bracket of its privacy loss distribution.

    >>> import confide
    >>> str(confide.account_release(sealed / "release").plan.loss)
    'zcdp rho = 1'
    """
    plan = SealedRelease.of(folder).plan
    unaccounted = MECHANISMS[plan.mechanism].explain.unaccounted(plan) if plan.mechanism in MECHANISMS else NO_BUDGET
    return ReleaseAccount(plan, positive_within(delta, "delta"), unaccounted)


def json_schema() -> Values:
    """The JSON Schema of the spec: one form for each mechanism, with definitions of its own.

    Returns:
        The schema, as plain values.

    >>> import confide
    >>> confide.json_schema()["title"]
    'Confide spec'
    """
    definitions: dict[str, Any] = {}
    forms = []
    for name, mechanism in MECHANISMS.items():
        form = mechanism.spec.model_json_schema(by_alias=True, ref_template=f"#/$defs/{name}.{{model}}")
        own = form.pop("$defs")
        own["ReleasePart"]["properties"]["mechanism"]["const"] = name
        definitions |= {f"{name}.{part}": definition for part, definition in own.items()}
        form["title"] = f"A release by the mechanism {name}"
        forms.append(form)
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Confide spec",
        "description": "The file (TOML) that describes a release.",
        "oneOf": forms,
        "$defs": definitions,
    }
    return Values(schema)


def load(path: str | Path) -> LoadedSpec:
    """The spec in a file, or the spec of the run in a folder."""
    given = Path(path)
    if given.is_dir():
        identity = Workspace(given).identity()
        if identity is None:
            raise SpecError("no-run/folder", where=Place(file=str(given)))
        given = Path(os.path.normpath(given / identity.spec))
    return load_spec(given, SPECS)


def _local(processes: int | None, memory: str) -> OpenEngine:
    def open_engine(scratch: Path) -> AbstractContextManager[LocalEngine]:
        return LocalEngine(scratch, processes=processes, memory=memory)

    return open_engine
