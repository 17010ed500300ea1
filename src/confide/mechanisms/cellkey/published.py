"""A release of ``cellkey`` read back: counts with noise of their members, within a bound that the manifest states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.releases.published import NoiseBound, Published, PublishedMarginal, one_unit
from confide.releases.published_release import BOUNDED, NOISE, no_groups, release_rows, release_schema, release_title
from confide.releases.published_rows import TableRows, impossible, marginals_of

ZEROS = "Nobody stays nobody: where a count is above zero, the records have somebody."


def read_published(
    folder: Path, manifest: Mapping[str, Any], schema: str | Path | None = None, groups: Sequence[str] = ()
) -> Published:
    """Tables without geography, each cell with its own noise; what is not listed is published as zero."""
    no_groups(groups, manifest["mechanism"])
    question = manifest["plan"]["question"]
    attributes = release_schema(question["schema"], schema)
    variance, bound = Fraction(str(question["ptable"]["V"])), NoiseBound(int(question["ptable"]["D"]), zeros_kept=True)
    unknown = bool(question["threshold"])
    marginals: dict[str, PublishedMarginal] = {}
    for table in question["tables"]:
        rows = release_rows(folder, manifest, table["name"])
        said = TableRows(table["name"], tuple(table["margins"]), variance, bound, unknown, table["name"])
        for marginal, name in zip(marginals_of(said, rows, attributes, one_unit(), 0, None), said.queries, strict=True):
            marginals.setdefault(name, marginal)  # the same people have the same noise in every table
    notes = (NOISE, BOUNDED.format(bound.largest), ZEROS)
    title = release_title(folder, manifest)
    return Published(attributes, one_unit(), tuple(marginals.values()), impossible(attributes), title, notes)
