"""PHSafe as the operators of the Census Bureau's program know it: a configuration and a folder in, tables out.

The arguments are in the order of the Bureau's program: ``CONFIG DATA OUT``. See :mod:`confide.official_runs`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from confide import api
from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.engines import LocalEngine, Source, format_of
from confide.errors import ConfideError, Finding, InputError, Place, RunError
from confide.file_system import private_folder, write_text
from confide.mechanisms.phsafe.official import FILES, PHSafeConfigRead, find_files, read_config, states_of
from confide.mechanisms.phsafe.records import SHARED_RULES, check_files
from confide.mechanisms.phsafe.settings import PHSafeSettings, Sensitivity
from confide.mechanisms.phsafe.spec import production_settings, spec_text
from confide.mechanisms.phsafe.tables import tables
from confide.mechanisms.phsafe.tabulate import HouseholdFiles, exact_rows, write_persons, write_units
from confide.official_runs import Execution, OfficialInput, Validation, check_official, run_official, write_converted
from confide.releases.draft import SPEC
from confide.releases.workspace import Progress, no_room_is_an_error

RELEASE_NAME = "phsafe"


def convert_households(
    config: Path, data: Path, folder: Path, *, sensitivity: Sensitivity = "bureau", ledger: Path | None = None
) -> Path:
    """A spec of ours for an input of PHSafe, in ``folder``; with a ledger of its budget, unless one is named.

    Args:
        config: The Bureau's ``config.json``.
        data: The Bureau's folder of data: persons, units and geo.
        folder: Where the spec goes; made if it is not there.
        sensitivity: How far one person may move a count: bureau as the Bureau's program reckons, or household.
        ledger: A ledger to charge instead of one of its own.

    Returns:
        The path of the spec.
    """
    return write_converted(_read(config, data, sensitivity), folder, ledger)


def validate_households(
    config: Path, data: Path, *, processes: int | None = None, memory: str, progress: Progress | None = None
) -> Validation:
    """Every problem of the configuration and the three files. Nothing is kept.

    Args:
        config: The Bureau's ``config.json``.
        data: The Bureau's folder of data: persons, units and geo.
        processes: How many processes read the records; all cores without it.
        memory: How much memory to use, such as ``4GB``.
        progress: Receives how far it got.

    Returns:
        All findings, warnings among them.
    """
    try:
        official = _read(config, data, "bureau")
    except ConfideError as error:
        return Validation(tuple(error.findings))
    return Validation((*official.warnings, *check_official(official, memory, processes, progress)))


def execute_households(
    config: Path,
    data: Path,
    out: Path,
    *,
    sensitivity: Sensitivity = "bureau",
    ledger: Path | None = None,
    accept_ledger: bool = False,
    processes: int | None = None,
    memory: str,
    progress: Progress | None = None,
) -> Execution:
    """The tables of an input of PHSafe, in ``out``. On invalid input nothing is written.

    Without ``ledger`` the run is charged to a ledger of its own, which has exactly its budget: the account of the data
    set is then kept by nobody.

    Args:
        config: The Bureau's ``config.json``.
        data: The Bureau's folder of data: persons, units and geo.
        out: A new folder for the tables; key, counts and spec go to ``out-confidential`` beside it.
        sensitivity: How far one person may move a count: bureau as the Bureau's program reckons, or household.
        ledger: The ledger of the data set. Without it, one is opened with this run's budget.
        accept_ledger: Use this ledger although the records have another one, or a newer copy of it, or although it was
            charged for other records: these are the same people.
        processes: How many processes count; all cores without it.
        memory: How much memory to use, such as ``4GB``.
        progress: Receives how far it got.

    Returns:
        The folder of tables, the run behind it, and the warnings.
    """
    return run_official(
        _read(config, data, sensitivity),
        out,
        ledger=ledger,
        accept_ledger=accept_ledger,
        processes=processes,
        memory=memory,
        progress=progress,
    )


@dataclass(frozen=True)
class ExactHouseholds(TypedAnswer):
    """Where exact tables are, and what is odd about the input. Confidential."""

    folder: Path
    tables: tuple[str, ...]
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        findings = [finding.as_dict() for finding in self.findings]
        return {"ok": True, "folder": str(self.folder), "tables": list(self.tables), "findings": findings}

    def described(self) -> Iterator[AnswerPart]:
        yield from self.findings
        yield Said("CONFIDENTIAL", ": these tables have no noise. They must not leave the office.", Tone.CAREFUL)
        yield f"tables    {self.folder}"


def exact_households(
    config: Path, data: Path, out: Path, *, processes: int | None = None, memory: str = api.DEFAULT_MEMORY
) -> ExactHouseholds:
    """All tables without noise and truncation, as the non-private mode of the Census Bureau's program has them.

    They are the truth, for the curator alone: nothing is charged, and nobody else can open the folder. Sums are counted
    by themselves, and groups with nobody in them have no row. What only noisy tables could not count is a warning here.

    Args:
        config: The Bureau's ``config.json``, of which the states count.
        data: The Bureau's folder of data: persons, units and geo.
        out: A new folder for the tables.
        processes: How many processes count; all cores without it.
        memory: How much memory to use, such as ``4GB``.

    Returns:
        The folder, and what is odd about the input.
    """
    states = read_config(config).settings.states
    paths = find_files(data)
    files = HouseholdFiles(*(Source(paths[key], format_of(paths[key]) or "csv") for key in FILES))
    if out.exists():
        raise RunError("there-already/ours", where=Place(file=str(out)))
    with no_room_is_an_error(out):
        partial = out.with_name(f"{out.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        scratch = private_folder(partial / "scratch")
        try:
            with LocalEngine(scratch, processes=processes, memory=memory) as engine:
                findings = _as_exact(check_files(engine, files, states, scratch / "known.parquet"))
                _write_exact(engine, files, states, scratch, partial)
            shutil.rmtree(scratch)
            partial.replace(out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return ExactHouseholds(out, tuple(each.name for each in tables()), findings)


def _as_exact(findings: list[Finding]) -> tuple[Finding, ...]:
    """Raises for files that cannot be counted; what exact tables take as it is, is a warning."""
    shared = {rule.what for rule in SHARED_RULES}
    softened = [
        replace(each, severity="warning") if any(each.what.startswith(what) for what in shared) else each
        for each in findings
    ]
    if any(finding.severity == "error" for finding in softened):
        raise InputError(softened)
    return tuple(softened)


def _write_exact(engine: LocalEngine, files: HouseholdFiles, states: Sequence[str], scratch: Path, into: Path) -> None:
    units, persons = scratch / "units.parquet", scratch / "persons.parquet"
    write_units(engine, files, states, units)
    write_persons(engine, files, units, persons)
    for counted in tables():
        iteration = ["ITERATION_CODE"] if counted.iterated else []
        lines = ["|".join(["REGION_ID", "REGION_TYPE", *iteration, counted.cell_column, "COUNT"])]
        for area, level, code, cell, number in exact_rows(engine, persons, units, states, counted):
            lines.append("|".join([area, level, *([code] if counted.iterated else []), str(cell), str(number)]))
        write_text(into / f"{counted.name}.CONFIDENTIAL.csv", "\n".join(lines) + "\n")


def _read(config: Path, data: Path, sensitivity: Sensitivity) -> OfficialInput:
    """Configuration and files. If the former is wrong, the others are looked at all the same: all at once."""
    try:
        read = read_config(config, sensitivity)
    except InputError as error:
        try:
            settings = replace(production_settings(), states=states_of(config))
            findings = check_official(
                _input(PHSafeConfigRead(settings, False, ()), data), api.DEFAULT_MEMORY, None, None
            )
        except InputError as other:
            findings = tuple(other.findings)
        raise InputError([*error.findings, *findings]) from None
    return _input(read, data)


def _input(config: PHSafeConfigRead, data: Path) -> OfficialInput:
    text = partial(_text, config.settings)
    files = find_files(data)
    settings, infinite, warnings = config.settings, config.infinite, config.warnings
    return OfficialInput("PHSafe", RELEASE_NAME, files, settings, infinite, warnings, text, data.name, "person")


def _text(settings: PHSafeSettings, files: dict[str, str], ledger: str) -> str:
    title = "People in households, and households"
    return spec_text(settings, files, name=RELEASE_NAME, title=title, ledger=ledger, file=SPEC)
