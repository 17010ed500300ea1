"""SafeTab-P as the operators of the Census Bureau's program know it: two folders in, a folder of tables out.

``validate`` and ``execute`` take the very folders that the Bureau's program takes. Behind them is an ordinary run: a
spec of ours is written from ``config.json``, the ledger is charged, the release is sealed. What may leave is copied to
the folder that was asked for; all that is confidential is kept beside it, in a folder that says so.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confide import api
from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.engines.protocol import write_text
from confide.errors import ConfideError, Finding, InputError, Place, RunError, SpecError
from confide.exact import fraction_up
from confide.mechanisms.safetab.official import OfficialConfig, OfficialFolder, filter_of, find_folder, read_config
from confide.mechanisms.safetab.settings import SafeTabSettings
from confide.mechanisms.safetab.spec import SafeTabSpec, spec_text
from confide.mechanisms.safetab.tuning.question import production_settings
from confide.privacy import Definition
from confide.releases import Progress, RunResult, Silent, no_room_is_an_error
from confide.releases.draft import LEDGER, SPEC
from confide.releases.ledger import Ledger

RELEASE_NAME = "safetab"
KEPT = "-confidential"
NO_KEY = "00" * 32
"""The chosen key of runs with an infinite budget: everything made with it is stamped, whatever the noise."""


@dataclass(frozen=True)
class Validation(TypedAnswer):
    """What was found in the two folders."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether ``execute`` would run."""
        return not any(finding.severity == "error" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"ok": self.ok, "findings": [finding.as_dict() for finding in self.findings]}

    def described(self) -> Iterator[AnswerPart]:
        yield from self.findings
        if self.ok:
            yield Said("No problems found.", " Nothing was spent.", Tone.GOOD)


@dataclass(frozen=True)
class Execution(TypedAnswer):
    """What an execution made: the tables, and the run behind them."""

    folder: Path
    run: RunResult
    private: Path
    warnings: tuple[Finding, ...]
    infinite: bool
    own_ledger: bool
    """Whether a ledger was opened for this run alone."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "ok": True,
            "folder": str(self.folder),
            "kept": str(self.private),
            "not_for_release": self.infinite,
            "cost": self.run.plan.loss.as_dict(),
            "was_sealed_before": self.run.was_sealed_before,
            "findings": [warning.as_dict() for warning in self.warnings],
        }

    def described(self) -> Iterator[AnswerPart]:
        yield from self.warnings
        if self.run.was_sealed_before:
            yield "This run was sealed before. Nothing was done and nothing was charged."
        if self.infinite:
            why = ": a budget is infinite, so counts are published as they are. Every file says so."
            yield Said("NOT FOR RELEASE", why, Tone.CAREFUL, aside=True)
        else:
            ((name, number),) = self.run.plan.loss.parameters().items()
            yield f"cost      {name} = {fraction_up(number)} ({self.run.plan.neighbours.value})"
        if self.own_ledger:
            yield "ledger    a new one; to charge the ledger of the data set, name it with --ledger"
        yield f"tables    {self.folder}"
        yield f"kept      {self.private}  (confidential: key, counts and spec)"


def settings_of(path: Path) -> SafeTabSettings:
    """The settings in a spec of ours, or in a ``config.json``."""
    if path.suffix == ".json":
        return read_config(path).settings
    loaded = api.load(path)
    if not isinstance(loaded.spec, SafeTabSpec):
        raise SpecError("not-safetab", where=loaded.place("release", "mechanism"), found=loaded.spec.release.mechanism)
    return loaded.spec.settings


def convert(parameters: Path, data: Path, folder: Path, *, ledger: Path | None = None) -> Path:
    """A spec of ours for an official input, in ``folder``; with a ledger of its budget, unless one is named.

    Args:
        parameters: The Bureau's folder of parameters, with ``config.json`` and the code lists.
        data: The Bureau's folder of data: persons and geography.
        folder: Where the spec goes; made if it is not there.
        ledger: A ledger to charge instead of one of its own.

    Returns:
        The path of the spec.
    """
    official, config = _read(parameters, data)
    with no_room_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / SPEC
        if path.exists():
            raise _there_already(path)
        _write_spec(folder, official, config, ledger)
        if ledger is None and not (folder / LEDGER).exists():
            open_ledger(folder / LEDGER, config.settings, data.name)
    return path


def validate(
    parameters: Path, data: Path, *, processes: int | None = None, memory: str, progress: Progress | None = None
) -> Validation:
    """Every problem of the two folders. Nothing is kept.

    Args:
        parameters: The Bureau's folder of parameters: ``config.json`` and the four code files.
        data: The Bureau's folder of data: person-records and GRF-C.
        processes: How many processes read the records; all cores without it.
        memory: How much memory to use, such as ``4GB``.
        progress: Receives how far it got.

    Returns:
        All findings, warnings among them.
    """
    try:
        official, config = _read(parameters, data)
    except ConfideError as error:
        return Validation(tuple(error.findings))
    return Validation((*config.warnings, *_check(official, config, memory, processes, progress)))


def execute(
    parameters: Path,
    data: Path,
    out: Path,
    *,
    ledger: Path | None = None,
    accept_ledger: bool = False,
    processes: int | None = None,
    memory: str,
    progress: Progress | None = None,
) -> Execution:
    """The tables of an official input, in ``out``. On invalid input nothing is written.

    Without ``ledger`` the run is charged to a ledger of its own, which has exactly its budget: the account of the data
    set is then kept by nobody.

    Args:
        parameters: The Bureau's folder of parameters: ``config.json`` and the four code files.
        data: The Bureau's folder of data: person-records and GRF-C.
        out: A new folder for the tables; key, counts and spec go to ``out-confidential`` beside it.
        ledger: The ledger of the data set. Without it, one is opened with this run's budget.
        accept_ledger: Use this ledger although the records have another one, or a newer copy of it, or although it was
            charged for other records: these are the same people.
        processes: How many processes count; all cores without it.
        memory: How much memory to use, such as ``4GB``.
        progress: Receives how far it got.

    Returns:
        The folder of tables, the run behind it, and the warnings.
    """
    official, config = _read(parameters, data)
    out = out.resolve()
    private = out.with_name(out.name + KEPT) if out.name else out
    _check_out(out, private)
    spec = _spec_of(private, official, config, ledger)
    new = [folder for folder in out.parents if not folder.exists()]
    with no_room_is_an_error(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        ours = _made(private)
        try:
            path = _resumable(private, spec)
            if ledger is None and not (private / LEDGER).exists():
                open_ledger(private / LEDGER, config.settings, data.name)
            key = NO_KEY if config.infinite else None
            # An account of its own says nothing of the data set: whoever keeps one names it.
            run = api.run(
                path,
                processes=processes,
                memory=memory,
                insecure_key=key,
                accept_ledger=accept_ledger or ledger is None,
                progress=progress,
            )
        except ConfideError:
            if ours and not (private / RELEASE_NAME / "confidential" / "run.json").exists():
                shutil.rmtree(private, ignore_errors=True)
                with suppress(OSError):
                    for folder in new:
                        folder.rmdir()
            raise
        _copy(run.release, out)
    return Execution(out, run, private, config.warnings, config.infinite, ledger is None)


def _made(folder: Path) -> bool:
    """Makes a private folder; false if it was there, or if another process was faster: only its maker may remove it."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def open_ledger(path: Path, settings: SafeTabSettings, data_set: str) -> Path:
    """A ledger with exactly the budget of one release."""
    Ledger.open_new(
        path,
        data_set=data_set or "persons",
        definition="pure" if settings.definition is Definition.PURE else "zcdp",
        neighbours="add-remove",
        budget=settings.total,
        note="opened for one release of SafeTab-P, with its budget",
    )
    return path


def _read(parameters: Path, data: Path) -> tuple[OfficialFolder, OfficialConfig]:
    """Folder and configuration. If the latter is wrong, the other files are looked at all the same: all at once."""
    official = find_folder(parameters, data)
    try:
        return official, read_config(official.config)
    except InputError as error:
        states, puerto_rico = filter_of(official.config)
        settings = replace(production_settings(), states=states, puerto_rico=puerto_rico)
        passes = [name for name, runs in (("US", bool(states)), ("PR", puerto_rico)) if runs]
        levels = tuple(level for name in passes for level in settings.passes[name])
        stand_in = OfficialConfig(replace(settings, levels=levels), False, ())
        findings = _check(official, stand_in, api.DEFAULT_MEMORY, None, None)
        raise InputError([*error.findings, *findings]) from None


def _check(
    official: OfficialFolder,
    config: OfficialConfig,
    memory: str,
    processes: int | None,
    progress: Progress | None,
) -> tuple[Finding, ...]:
    """What a check of the files finds, with nothing kept."""
    with tempfile.TemporaryDirectory(prefix="confide-validate-") as name:
        folder = Path(name)
        _write_spec(folder, official, config, None)
        open_ledger(folder / LEDGER, config.settings, "persons")
        return api.check(folder / SPEC, processes=processes, memory=memory, progress=progress or Silent()).findings


def _spec_of(folder: Path, official: OfficialFolder, config: OfficialConfig, ledger: Path | None) -> str:
    """The text of the spec that would be in ``folder``."""
    files = {key: os.path.relpath(path.resolve(), folder.resolve()) for key, path in official.files.items()}
    named = LEDGER if ledger is None else os.path.relpath(ledger.resolve(), folder.resolve())
    title = "Detailed race and ethnicity groups"
    return spec_text(config.settings, files, name=RELEASE_NAME, title=title, ledger=named, file=SPEC) + "\n"


def _write_spec(folder: Path, official: OfficialFolder, config: OfficialConfig, ledger: Path | None) -> None:
    write_text(folder / SPEC, _spec_of(folder, official, config, ledger), mode=0o644)


def _resumable(private: Path, spec: str) -> Path:
    """The spec of the run in ``private``, written if there is none; another one is another run."""
    path = private / SPEC
    if not path.exists():
        write_text(path, spec, mode=0o644)
    elif path.read_text(encoding="utf-8") != spec:
        raise RunError("run-changed/execution", where=Place(file=str(path)))
    return path


def _check_out(out: Path, private: Path) -> None:
    """The output must be new, unless it is that of the same run, which is then found as it is."""
    if not out.name or out.is_file():
        raise _there_already(out)
    if out.is_dir() and any(out.iterdir()) and not _is_copy(private / RELEASE_NAME / "release", out):
        raise _there_already(out)


def _is_copy(release: Path, out: Path) -> bool:
    """Whether there is a release, and all of it is in ``out``."""
    files = [path.relative_to(release) for path in release.rglob("*") if path.is_file()]
    try:
        return bool(files) and all(filecmp.cmp(release / file, out / file, shallow=False) for file in files)
    except FileNotFoundError:
        return False


def _copy(release: Path, out: Path) -> None:
    """The release, copied beside its place and then given its name: there whole or not at all."""
    if out.is_dir() and any(out.iterdir()):
        return
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(release, partial)
    partial.replace(out)


def _there_already(path: Path) -> RunError:
    return RunError("there-already/ours", where=Place(file=str(path)))
