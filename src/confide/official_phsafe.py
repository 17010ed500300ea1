"""PHSafe as the operators of the Census Bureau's program know it: a configuration and a folder in, tables out.

The arguments are in the order of the Bureau's program: ``CONFIG DATA OUT``. See :mod:`confide.official_runs`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from confide import api
from confide.errors import ConfideError, InputError
from confide.mechanisms.phsafe.official import HouseholdConfig, find_files, read_config, states_of
from confide.mechanisms.phsafe.settings import PHSafeSettings, Sensitivity
from confide.mechanisms.phsafe.spec import production_settings, spec_text
from confide.official_runs import Execution, OfficialInput, Validation, check_official, run_official, write_converted
from confide.releases.draft import SPEC
from confide.releases.workspace import Progress

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


def _read(config: Path, data: Path, sensitivity: Sensitivity) -> OfficialInput:
    """Configuration and files. If the former is wrong, the others are looked at all the same: all at once."""
    try:
        read = read_config(config, sensitivity)
    except InputError as error:
        try:
            settings = replace(production_settings(), states=states_of(config))
            findings = check_official(
                _input(HouseholdConfig(settings, False, ()), data), api.DEFAULT_MEMORY, None, None
            )
        except InputError as other:
            findings = tuple(other.findings)
        raise InputError([*error.findings, *findings]) from None
    return _input(read, data)


def _input(config: HouseholdConfig, data: Path) -> OfficialInput:
    text = partial(_text, config.settings)
    files = find_files(data)
    settings, infinite, warnings = config.settings, config.infinite, config.warnings
    return OfficialInput("PHSafe", RELEASE_NAME, files, settings, infinite, warnings, text, data.name, "person")


def _text(settings: PHSafeSettings, files: dict[str, str], ledger: str) -> str:
    title = "People in households, and households"
    return spec_text(settings, files, name=RELEASE_NAME, title=title, ledger=ledger, file=SPEC)
