"""A release of ``tables`` read back: counts with independent noise, with the variance that the plan states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from confide.noise import ReleaseNoise
from confide.releases.plan import read_plan
from confide.releases.published import NoiseBound, Published, PublishedMarginal
from confide.releases.published_release import BOUNDED, NOISE, AreaTables, no_groups, release_schema, release_title
from confide.releases.published_rows import TableRows, impossible


def read_published(
    folder: Path, manifest: Mapping[str, Any], schema: str | Path | None = None, groups: Sequence[str] = ()
) -> Published:
    """The tables of a release; ``schema`` is the file of a schema that does not ship."""
    no_groups(groups, manifest["mechanism"])
    question = manifest["plan"]["question"]
    attributes = release_schema(question["schema"], schema)
    laws = {(measure.level, measure.query): measure.law for measure in read_plan(manifest["plan"]).measures}
    # A count with noise can be below zero; the variance of each follows from its law.
    listed = {
        TableRows(table["name"], tuple(table["margins"]), Fraction(1), file=table["name"]): table["levels"]
        for table in question["tables"]
    }
    margins = {table["name"]: list(table["margins"].values()) for table in question["tables"]}
    tables = AreaTables.read(folder, manifest, listed, manifest["plan"]["spine"])
    marginals: dict[tuple[str, str], PublishedMarginal] = {}
    for table, level, of_queries in tables.marginals(attributes):
        for marginal, query in zip(of_queries, margins[table.name], strict=True):
            if (level, query) not in marginals:  # one measurement, shown in several tables
                marginals[level, query] = _with_noise(marginal, laws[level, query])
    largest = max((law.bound for law in laws.values() if law.bound is not None), default=None)
    notes = (NOISE, *(() if largest is None else (BOUNDED.format(largest),)), *tables.notes)
    title = release_title(folder, manifest)
    return Published(attributes, tables.geography, tuple(marginals.values()), impossible(attributes), title, notes)


def _with_noise(marginal: PublishedMarginal, law: ReleaseNoise) -> PublishedMarginal:
    """A marginal with the variance of its noise, and how far that can go."""
    bound = None if law.bound is None else NoiseBound(law.bound)
    return replace(marginal, variance=Fraction(law.variance()).limit_denominator(10**9), bound=bound)
