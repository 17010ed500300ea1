"""A release of ``suppression`` read back: exact counts, some of them left out and unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from confide.releases.published import Published
from confide.releases.published_release import AREA, AreaTables, no_groups, not_attacked, release_schema, release_title
from confide.releases.published_rows import TableRows, impossible

SUPPRESSED = "Figures that were left out are unknown: any record that the others allow will do in their place."


def read_published(
    folder: Path, manifest: Mapping[str, Any], schema: str | Path | None = None, groups: Sequence[str] = ()
) -> Published:
    """Every crossing of one grouping of each variable, or of none. Magnitudes count no persons and are refused."""
    no_groups(groups, manifest["mechanism"])
    question = manifest["plan"]["question"]
    if question["value"] is not None:
        raise not_attacked(f"{manifest['mechanism']} of magnitudes")
    attributes = release_schema(question["schema"], schema)
    listed = {}
    for table in question["tables"]:
        groupings = [["", *names] for variable, names in table["variables"].items() if variable != AREA]
        queries = tuple("*".join(filter(None, chosen)) or "total" for chosen in product(*groupings))
        rows = TableRows(table["name"], queries, absent_unknown=True, file=table["name"])
        listed[rows] = table["variables"][AREA]
    tables = AreaTables.read(folder, manifest, listed, list(question["variables"][AREA]["groupings"]))
    marginals = tuple(marginal for _, _, of_queries in tables.marginals(attributes) for marginal in of_queries)
    title = release_title(folder, manifest)
    return Published(attributes, tables.geography, marginals, impossible(attributes), title, (SUPPRESSED,))
