"""Drafts from an office's own files: the schema, the table of areas, a strategy, and what all specs have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from confide.inputs.proposals import ColumnProposal, FileLook, OfficeFiles, PlacesProposal
from confide.inputs.proposals.column_proposal import NOT_STATED, free_name
from confide.inputs.proposals.office import table_name
from confide.releases.draft import LEDGER, SPEC
from confide.report.render import render

SCHEMA, BLOCKS, AREAS = "schema.toml", "blocks.csv", "areas.csv"
"""The files beside a spec: ``BLOCKS`` is a code list laid out anew, ``AREAS`` a table read from the records."""
BUDGET = "1"


def schema_text(records: FileLook, columns: Sequence[ColumnProposal]) -> str:
    """A commented schema file with a proposal for every column, and why others have none."""
    attributes = [asdict(column) | {"ours": free_name(column.name)} for column in columns if not column.left_out]
    return render(
        "own_schema.toml.j2",
        file=records.source.file,
        layout=records.in_words(),
        id=table_name([records.source.path.stem]),
        left_out=[column for column in columns if column.left_out],
        attributes=attributes,
        not_stated=NOT_STATED,
    )


def office_values(
    office: OfficeFiles, folder: Path, mechanism: str, given: Mapping[str, str], *, named: bool = True
) -> dict[str, Any]:
    """What the templates of all specs are filled with.

    Args:
        office: The files, with what is proposed of them.
        folder: Where the spec is written: paths are relative to it.
        mechanism: The name of the mechanism.
        given: What somebody gave instead, such as ``name``.
        named: Whether releases of the mechanism have names of areas.
    """
    places, areas = office.places, office.areas
    assert places is not None
    levels = [name for name, _ in places.levels]
    called = places.called if named else {}
    values: dict[str, Any] = {
        "file": SPEC,
        "name": "my-release",
        "title": "My release",
        "mechanism": mechanism,
        "records": relative(office.records.source.path, folder),
        "records_name": office.records.source.file,
        "blocks": relative(areas.source.path, folder) if areas and places.table is None else table_file(places),
        "areas_name": None if areas is None else areas.source.file,
        "proposed": places.proposed,
        "without_place": places.without_place,
        "schema": True,
        "layout": office.layout(),
        "columns": office.renamed(),
        "block_columns": {places.block: places.block_column} if places.block != places.block_column else {},
        "block": places.block,
        "smallest": places.smallest,
        "aliases": places.aliases,
        "unknown": places.unknown,
        "levels": places.levels,
        "called": called,
        "block_names": called.get(places.block_column),
        "areas": places.areas,
        "level_names": [*levels, places.smallest],
        "tables": office.tables,
        "ledger": LEDGER,
        "budget": BUDGET,
    }
    return values | dict(given)


def office_files(office: OfficeFiles) -> dict[str, str]:
    """The files beside the spec: the schema, and the table of areas where it was laid out anew or proposed."""
    files = {SCHEMA: schema_text(office.records, office.columns)}
    if office.places is not None and office.places.table is not None:
        files[table_file(office.places)] = office.places.table
    return files


def table_file(places: PlacesProposal) -> str:
    """The name of the table of areas that is written beside the spec."""
    return AREAS if places.proposed else BLOCKS


def relative(path: Path, folder: Path) -> str:
    """A path as a spec in ``folder`` writes it."""
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
