"""SafeTab-P as the operators of the Census Bureau's program know it: two folders in, a folder of tables out.

``validate`` and ``execute`` take the very folders that the Bureau's program takes: see :mod:`confide.official_runs`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide import api
from confide.answers import AnswerPart, Said, Tone, TypedAnswer
from confide.engines import LocalEngine, Source, format_of
from confide.errors import ConfideError, InputError, Place, RunError, SpecError
from confide.file_system import write_text
from confide.mechanisms import MECHANISMS
from confide.mechanisms.safetab.official import OfficialConfig, OfficialFolder, filter_of, find_folder, read_config
from confide.mechanisms.safetab.output.coded import T1, T2
from confide.mechanisms.safetab.output.coterminous import Unified, unify_released
from confide.mechanisms.safetab.problem import DERIVED, ON_LAND, coterminous_sets
from confide.mechanisms.safetab.regions import read_regions
from confide.mechanisms.safetab.settings import SafeTabSettings
from confide.mechanisms.safetab.spec import SafeTabSpec, spec_text
from confide.mechanisms.safetab.tuning.question import production_settings
from confide.official_runs import (
    KEPT,
    Execution,
    OfficialInput,
    Validation,
    check_official,
    run_official,
    write_converted,
)
from confide.releases.draft import SPEC
from confide.releases.folder import SealedRelease
from confide.releases.spec import find_source
from confide.releases.verify import read_public_input
from confide.releases.workspace import Progress, Workspace, no_room_is_an_error

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
    coterminous: str | None = None,
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
        coterminous: Give areas of the same extent the same figures: derived, derived-on-land (but for blocks of water),
            or a file with SET|REGION_TYPE|REGION_ID.
        processes: How many processes count; all cores without it.
        memory: How much memory to use, such as ``4GB``.
        progress: Receives how far it got.

    Returns:
        The folder of tables, the run behind it, and the warnings.
    """
    named = coterminous in (None, DERIVED, ON_LAND)
    return run_official(
        _read(parameters, data, coterminous if named else str(Path(str(coterminous)).resolve())),
        out,
        ledger=ledger,
        accept_ledger=accept_ledger,
        processes=processes,
        memory=memory,
        progress=progress,
    )


def _read(parameters: Path, data: Path, coterminous: str | None = None) -> OfficialInput:
    """Folder and configuration. If the latter is wrong, the other files are looked at all the same: all at once."""
    official = find_folder(parameters, data)
    try:
        return _input(official, read_config(official.config), data, coterminous)
    except InputError as error:
        states, puerto_rico = filter_of(official.config)
        settings = replace(production_settings(), states=states, puerto_rico=puerto_rico)
        passes = [name for name, runs in (("US", bool(states)), ("PR", puerto_rico)) if runs]
        levels = tuple(level for name in passes for level in settings.passes[name])
        stand_in = _input(official, OfficialConfig(replace(settings, levels=levels), False, ()), data)
        findings = check_official(stand_in, api.DEFAULT_MEMORY, None, None)
        raise InputError([*error.findings, *findings]) from None


def _input(
    official: OfficialFolder, config: OfficialConfig, data: Path, coterminous: str | None = None
) -> OfficialInput:
    title = "Detailed race and ethnicity groups"
    text = partial(_text, config.settings, title, coterminous)
    return OfficialInput(
        "SafeTab-P", RELEASE_NAME, official.files, config.settings, config.infinite, config.warnings, text, data.name
    )


def _text(settings: SafeTabSettings, title: str, coterminous: str | None, files: dict[str, str], ledger: str) -> str:
    return spec_text(settings, files, name=RELEASE_NAME, title=title, ledger=ledger, file=SPEC, coterminous=coterminous)


# Coterminous areas of a finished release.


@dataclass(frozen=True)
class CoterminousTables(TypedAnswer):
    """Where the tables are, and what was made alike."""

    folder: Path
    source: str
    """SHA-256 of the manifest of the release that they were made from."""
    sets: int
    copied: int
    """How many groups have the figures of another area."""
    stamped: bool

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "ok": True,
            "folder": str(self.folder),
            "source_manifest_sha256": self.source,
            "sets": self.sets,
            "groups_copied": self.copied,
            "not_for_release": self.stamped,
        }

    def described(self) -> Iterator[AnswerPart]:
        of_others = f"{self.copied:,} groups have the figures of another area"
        yield f"{self.sets:,} sets of areas of the same extent; {of_others}."
        yield f"tables    {self.folder}  (made of released figures: it costs nothing)"
        if self.stamped:
            yield Said("NOT FOR RELEASE", ": so was the release that they were made from", Tone.BAD, aside=True)


def coterminous(release: Path, out: Path, *, sets: str = DERIVED, geography: Path | None = None) -> CoterminousTables:
    """Gives areas of the same extent the same figures in a finished release of SafeTab-P, by the paper's Algorithm 4.

    Made of released figures and public files alone, so it costs nothing; done again, it changes nothing.

    Args:
        release: The release, the folder of its run, or the folder of tables that ``execute`` made.
        out: A new folder for t1 and t2.
        sets: How the sets are found: derived, derived-on-land (but for blocks of water), or a file with
            SET|REGION_TYPE|REGION_ID.
        geography: The geographic reference file, where it is not that of the run beside the release.

    Returns:
        Where the tables are, and how many groups were made alike.
    """
    given = read_public_input(release, Place(file=str(release)), MECHANISMS.__getitem__, ["safetab"])
    if given.release is None:
        raise InputError("not-a-release/folder", where=Place(file=str(release)))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError("there-already/ours", where=Place(file=str(out)))
    facts, source = given.release.facts, _geography(given.release.folder, geography)
    with (
        tempfile.TemporaryDirectory(prefix="confide-coterminous-") as scratch,
        LocalEngine(Path(scratch), processes=1, memory=api.DEFAULT_MEMORY) as engine,
    ):
        regions = read_regions(engine, source, facts["states"], facts["puerto_rico"])
    if regions.fingerprint != facts["geography"]:
        raise InputError("other-geography", where=Place(file=source.file), found=regions.fingerprint[:16])
    members = coterminous_sets(sets, Path(sets), regions)
    unified = unify_released(
        given.release, [[(kind, regions.areas[kind][number]) for kind, number in areas] for areas in members]
    )
    with no_room_is_an_error(out):
        _write_tables(given.release, unified, out)
    return CoterminousTables(out, given.sha256, unified.sets, unified.copied, given.stamped)


def _geography(release: Path, given: Path | None) -> Source:
    """The geographic reference file that was named, or that of the run that a release was made by."""
    if given is not None:
        return Source(given, format_of(given) or "csv", {}, "|", quoted=False)
    specs = [release.with_name(release.name + KEPT) / SPEC]
    with suppress(ConfideError):
        identity = Workspace(release.parent).identity()
        specs += [] if identity is None else [release.parent / identity.spec]
    for path in specs:
        if path.is_file():
            source = find_source(api.load(path), "blocks")
            if isinstance(source, Source):
                return replace(source, quoted=False)
    raise InputError("no-geography-of-release", where=Place(file=str(release)))


def _write_tables(release: SealedRelease, unified: Unified, out: Path) -> None:
    """``t1`` and ``t2`` in every format of the release, under the names that they have there; whole or not at all."""
    partial_folder = out.with_name(out.name + ".partial")
    shutil.rmtree(partial_folder, ignore_errors=True)
    for name, schema in (("t1", T1), ("t2", T2)):
        for path in release.paths(f"{name}/{name}."):
            file = partial_folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            taken = unified.take(name, _rows(release.folder / path, schema))
            if path.endswith(".parquet"):
                pq.write_table(taken, file)
            else:
                write_text(file, "".join(_lines(taken)), mode=0o644)
    if out.exists():
        out.rmdir()
    partial_folder.replace(out)


def _rows(path: Path, schema: pa.Schema) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    types = {field.name: field.type for field in schema}
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(delimiter="|", quote_char=False),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )


def _lines(rows: pa.Table) -> Iterator[str]:
    """The text of a table in the Bureau's layout."""
    yield "|".join(rows.column_names) + "\n"
    for batch in rows.to_batches(1 << 16):
        columns = [column.to_pylist() for column in batch.columns]
        yield "".join("|".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
