"""Programs of the Census Bureau as their operators know them: their files in, a folder of tables out.

Behind it is an ordinary run: a spec of ours is written from the Bureau's configuration, the ledger is charged, the
release is sealed. What may leave is copied to the folder that was asked for; all that is confidential is kept beside
it, in a folder that says so.
"""

from __future__ import annotations

import filecmp
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from confide import api
from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.errors import ConfideError, Finding, Place, RunError
from confide.exact import fraction_up
from confide.file_system import write_text
from confide.lazy_names import named
from confide.mechanisms.safetab.program import KEPT, OfficialInput, OfficialProgram
from confide.mechanisms.safetab.settings import NAMED_SETS
from confide.releases import Progress, RunResult, Silent, no_room_is_an_error
from confide.releases.draft import LEDGER, SPEC
from confide.releases.ledger import witness_file

NO_KEY = "00" * 32
"""The chosen key of runs with an infinite budget: everything made with it is stamped, whatever the noise."""


@dataclass(frozen=True)
class Validation(TypedAnswer):
    """What was found in the input."""

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
    witnesses: tuple[Path, ...] = ()
    """The hidden files beside the records that say which ledgers paid for them."""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "ok": True,
            "folder": str(self.folder),
            "kept": str(self.private),
            "witnesses": [str(file) for file in self.witnesses],
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
        for file in self.witnesses:
            yield f"beside    {file}  (hidden: which ledgers paid for these records; leave it there)"


PROGRAMS = {
    "safetab": "confide.mechanisms.safetab.spec:PROGRAM",
    "safetab-h": "confide.mechanisms.safetab_h.spec:PROGRAM",
    "phsafe": "confide.mechanisms.phsafe.spec:PROGRAM",
}
"""Where each program is, by the name that it has on the command line."""
ProgramName = Literal["safetab", "safetab-h", "phsafe"]


def validate(
    parameters: Path,
    data: Path,
    *,
    program: ProgramName = "safetab",
    processes: int | None = None,
    memory: str,
    progress: Progress | None = None,
) -> Validation:
    """Every problem of an input of one of the Census Bureau's programs. Nothing is kept.

    Args:
        parameters: The Bureau's folder of parameters with ``config.json`` and the code lists; of PHSafe the
            configuration itself.
        data: The Bureau's folder of data.
        program: Which program: safetab, safetab-h or phsafe.
        processes: How many processes read the records; all cores without it.
        memory: How much memory to use, such as ``4GB``.
        progress: Receives how far it got.

    Returns:
        All findings, warnings among them.
    """
    try:
        official = _read(program, parameters, data)
    except ConfideError as error:
        return Validation(tuple(error.findings))
    return Validation((*official.config.warnings, *check_official(official, memory, processes, progress)))


def execute(
    parameters: Path,
    data: Path,
    out: Path,
    *,
    program: ProgramName = "safetab",
    ledger: Path | None = None,
    accept_ledger: bool = False,
    coterminous: str | None = None,
    sensitivity: Literal["bureau", "household"] | None = None,
    processes: int | None = None,
    memory: str,
    progress: Progress | None = None,
) -> Execution:
    """The tables of an input of one of the Census Bureau's programs, in ``out``. On invalid input nothing is written.

    Without ``ledger`` the run is charged to a ledger of its own, which has exactly its budget: the account of the data
    set is then kept by nobody.

    Args:
        parameters: The Bureau's folder of parameters with ``config.json`` and the code lists; of PHSafe the
            configuration itself.
        data: The Bureau's folder of data.
        out: A new folder for the tables; key, counts and spec go to ``out-confidential`` beside it.
        program: Which program: safetab, safetab-h or phsafe.
        ledger: The ledger of the data set. Without it, one is opened with this run's budget.
        accept_ledger: Use this ledger although the records have another one, or a newer copy of it, or although it was
            charged for other records: these are the same people.
        coterminous: Give areas of the same extent the same figures: derived, derived-on-land (but for blocks of water),
            or a file with SET|REGION_TYPE|REGION_ID.
        sensitivity: How far one person may move a count: bureau as the Bureau's program reckons, or household.
        processes: How many processes count; all cores without it.
        memory: How much memory to use, such as ``4GB``.
        progress: Receives how far it got.

    Returns:
        The folder of tables, the run behind it, and the warnings.
    """
    official = _read(program, parameters, data, coterminous, sensitivity)
    return run_official(
        official,
        out,
        ledger=ledger,
        accept_ledger=accept_ledger,
        processes=processes,
        memory=memory,
        progress=progress,
    )


def convert(
    parameters: Path,
    data: Path,
    folder: Path,
    *,
    program: ProgramName = "safetab",
    sensitivity: Literal["bureau", "household"] | None = None,
    ledger: Path | None = None,
) -> Path:
    """A spec of ours for an input of one of the Census Bureau's programs, in ``folder``; with a ledger of its budget,
    unless one is named.

    Args:
        parameters: The Bureau's folder of parameters with ``config.json`` and the code lists; of PHSafe the
            configuration itself.
        data: The Bureau's folder of data.
        folder: Where the spec goes; made if it is not there.
        program: Which program: safetab, safetab-h or phsafe.
        sensitivity: How far one person may move a count: bureau as the Bureau's program reckons, or household.
        ledger: The ledger of the data set. Without it, one is opened with this run's budget.

    Returns:
        The path of the spec.
    """
    official = _read(program, parameters, data, None, sensitivity)
    with no_room_is_an_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / SPEC
        if path.exists():
            raise _there_already(path)
        write_text(path, official.spec_in(folder, ledger), mode=0o644)
        if ledger is None and not (folder / LEDGER).exists():
            official.open_ledger(folder / LEDGER)
    return path


def _read(
    program: ProgramName, parameters: Path, data: Path, coterminous: str | None = None, sensitivity: str | None = None
) -> OfficialInput:
    """The input, with every problem of configuration and files at once."""
    if coterminous not in (None, *NAMED_SETS):
        coterminous = str(Path(str(coterminous)).resolve())
    asked = {"coterminous": coterminous, "sensitivity": sensitivity}
    options = {name: value for name, value in asked.items() if value is not None}
    official: OfficialProgram = named(PROGRAMS[program])
    return official.read(
        parameters, data, options, lambda stand_in: check_official(stand_in, api.DEFAULT_MEMORY, None, None)
    )


def check_official(
    official: OfficialInput, memory: str, processes: int | None, progress: Progress | None
) -> tuple[Finding, ...]:
    """What a check of the files finds, with nothing kept."""
    with tempfile.TemporaryDirectory(prefix="confide-validate-") as name:
        folder = Path(name)
        write_text(folder / SPEC, official.spec_in(folder, None), mode=0o644)
        official.open_ledger(folder / LEDGER)
        return api.check(folder / SPEC, processes=processes, memory=memory, progress=progress or Silent()).findings


def run_official(
    official: OfficialInput,
    out: Path,
    *,
    ledger: Path | None,
    accept_ledger: bool,
    processes: int | None,
    memory: str,
    progress: Progress | None,
) -> Execution:
    """The tables of an input, in ``out``; what is confidential beside it. On invalid input nothing is written."""
    out = out.resolve()
    private = out.with_name(out.name + KEPT) if out.name else out
    _check_out(out, private / official.program.release)
    spec = official.spec_in(private, ledger)
    new = [folder for folder in out.parents if not folder.exists()]
    with no_room_is_an_error(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        ours = _made(private)
        try:
            path = _resumable(private, spec)
            if ledger is None and not (private / LEDGER).exists():
                official.open_ledger(private / LEDGER)
            # An account of its own says nothing of the data set: whoever keeps one names it.
            run = api.run(
                path,
                processes=processes,
                memory=memory,
                insecure_key=NO_KEY if official.config.infinite else None,
                accept_ledger=accept_ledger or ledger is None,
                progress=progress,
            )
        except ConfideError:
            if ours and not (private / official.program.release / "confidential" / "run.json").exists():
                shutil.rmtree(private, ignore_errors=True)
                with suppress(OSError):
                    for folder in new:
                        folder.rmdir()
            raise
        copy_release(run.release, out)
    beside = tuple(file for file in map(witness_file, official.files.values()) if file.exists())
    return Execution(out, run, private, official.config.warnings, official.config.infinite, ledger is None, beside)


def _made(folder: Path) -> bool:
    """Makes a private folder; false if it was there, or if another process was faster: only its maker may remove it."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _resumable(private: Path, spec: str) -> Path:
    """The spec of the run in ``private``, written if there is none; another one is another run."""
    path = private / SPEC
    if not path.exists():
        write_text(path, spec, mode=0o644)
    elif path.read_text(encoding="utf-8") != spec:
        raise RunError("run-changed/execution", where=Place(file=str(path)))
    return path


def _check_out(out: Path, run: Path) -> None:
    """The output must be new, unless it is that of the same run, which is then found as it is."""
    if not out.name or out.is_file():
        raise _there_already(out)
    if out.is_dir() and any(out.iterdir()) and not _is_copy(run / "release", out):
        raise _there_already(out)


def _is_copy(release: Path, out: Path) -> bool:
    """Whether there is a release, and all of it is in ``out``."""
    files = [path.relative_to(release) for path in release.rglob("*") if path.is_file()]
    try:
        return bool(files) and all(filecmp.cmp(release / file, out / file, shallow=False) for file in files)
    except FileNotFoundError:
        return False


def copy_release(release: Path, out: Path) -> None:
    """The release, copied beside its place and then given its name: there whole or not at all."""
    if out.is_dir() and any(out.iterdir()):
        return
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(release, partial)
    partial.replace(out)


def _there_already(path: Path) -> RunError:
    return RunError("there-already/ours", where=Place(file=str(path)))
