"""A release of ``swapping`` read back: tables of swapped records, exact as such, or the swapped records themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confide.releases.published import Published
from confide.releases.published_release import (
    PROTECTED,
    RECORDS,
    AreaTables,
    no_groups,
    release_file,
    release_schema,
    release_title,
    released_records,
)
from confide.releases.published_rows import TableRows, impossible


def read_published(
    folder: Path, manifest: Mapping[str, Any], schema: str | Path | None = None, groups: Sequence[str] = ()
) -> Published:
    """The records of a release that has them, otherwise its tables."""
    no_groups(groups, manifest["mechanism"])
    question = manifest["plan"]["question"]
    attributes = release_schema(question["schema"], schema)
    records = release_file(folder, manifest, *RECORDS)
    if records is not None:
        return released_records(folder, manifest, records, attributes)
    listed = {
        TableRows(table["name"], tuple(table["margins"]), file=table["name"]): table["levels"]
        for table in question["tables"]
    }
    spine = manifest["plan"].get("spine") or list(question["levels"])
    tables = AreaTables.read(folder, manifest, listed, spine)
    marginals = tuple(marginal for _, _, of_queries in tables.marginals(attributes) for marginal in of_queries)
    notes, title = (PROTECTED, *tables.notes), release_title(folder, manifest)
    return Published(attributes, tables.geography, marginals, impossible(attributes), title, notes)
