"""SafeTab-P as the operators of the Census Bureau's program know it: two folders in, a folder of tables out.

``validate`` and ``execute`` take the very folders that the Bureau's program takes: see :mod:`confide.official_runs`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from confide import api
from confide.errors import ConfideError, InputError, SpecError
from confide.mechanisms.safetab.official import OfficialConfig, OfficialFolder, filter_of, find_folder, read_config
from confide.mechanisms.safetab.settings import SafeTabSettings
from confide.mechanisms.safetab.spec import SafeTabSpec, spec_text
from confide.mechanisms.safetab.tuning.question import production_settings
from confide.official_runs import (
    Execution,
    OfficialInput,
    Validation,
    check_official,
    run_official,
    write_converted,
)
from confide.releases.draft import SPEC
from confide.releases.workspace import Progress

RELEASE_NAME = "safetab"


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
    return write_converted(_read(parameters, data), folder, ledger)


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
        official = _read(parameters, data)
    except ConfideError as error:
        return Validation(tuple(error.findings))
    return Validation((*official.warnings, *check_official(official, memory, processes, progress)))


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
    return run_official(
        _read(parameters, data),
        out,
        ledger=ledger,
        accept_ledger=accept_ledger,
        processes=processes,
        memory=memory,
        progress=progress,
    )


def _read(parameters: Path, data: Path) -> OfficialInput:
    """Folder and configuration. If the latter is wrong, the other files are looked at all the same: all at once."""
    official = find_folder(parameters, data)
    try:
        return _input(official, read_config(official.config), data)
    except InputError as error:
        states, puerto_rico = filter_of(official.config)
        settings = replace(production_settings(), states=states, puerto_rico=puerto_rico)
        passes = [name for name, runs in (("US", bool(states)), ("PR", puerto_rico)) if runs]
        levels = tuple(level for name in passes for level in settings.passes[name])
        stand_in = _input(official, OfficialConfig(replace(settings, levels=levels), False, ()), data)
        findings = check_official(stand_in, api.DEFAULT_MEMORY, None, None)
        raise InputError([*error.findings, *findings]) from None


def _input(official: OfficialFolder, config: OfficialConfig, data: Path) -> OfficialInput:
    title = "Detailed race and ethnicity groups"
    text = partial(_text, config.settings, title)
    return OfficialInput(
        "SafeTab-P", RELEASE_NAME, official.files, config.settings, config.infinite, config.warnings, text, data.name
    )


def _text(settings: SafeTabSettings, title: str, files: dict[str, str], ledger: str) -> str:
    return spec_text(settings, files, name=RELEASE_NAME, title=title, ledger=ledger, file=SPEC)
