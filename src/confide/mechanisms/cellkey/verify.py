"""``verify`` for the cell key method: what follows from the files of a release alone.

Every table is read in every format. Its cells must be those of the plan, each once and in order; its counts such as the
perturbation table and the threshold let through; the same cell must have the same figure in every table (SPSN); and a
cell must be as near to the sum of its parts as bounded noise allows: a true count lies within D of a published one, so
the intervals of a cell and of its parts, added up, have a whole number in common (``docs/proofs/cellkey.md``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.mechanisms.cellkey.output import WEIGHTED, read_table
from confide.mechanisms.cellkey.programme import PerturbedTables, describe
from confide.releases import tabular
from confide.releases.mechanism import Check
from confide.releases.published import NoiseBound, Published, PublishedMarginal, one_unit
from confide.releases.published_release import BOUNDED, NOISE, no_groups, release_rows, release_schema, release_title
from confide.releases.published_rows import PublishedRows, impossible, marginals_of
from confide.releases.tabular import Margin, Table, TableRows, projected

Integers = npt.NDArray[np.int64]
Shared = dict[str, TableRows]
"""The figures of cross-classifications that more than one table has, as they were met first."""


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table by itself, then what tables have in common."""
    described = describe(manifest["plan"]["question"])
    files = {file["path"] for file in manifest["files"]}
    names = [table.name for table in described.tables]
    yield tabular.no_other_files(names, files)
    yield tabular.every_format(names, files)
    times = Counter(margin.name for table in described.tables for margin in table.margins)
    repeated = frozenset(margin for margin, number in times.items() if number > 1)
    shared: Shared = {}
    for table in described.tables:
        yield from _table(folder, files, described, table, repeated, shared)


def _table(
    folder: Path, files: set[str], described: PerturbedTables, table: Table, repeated: frozenset[str], shared: Shared
) -> Iterator[Check]:
    if not tabular.table_files(table.name, files):
        return  # said of all tables together
    read = partial(read_table, table=table, weighted=described.weighted)
    contents, problem = tabular.read_formats(folder, table.name, files, read)
    yield Check(f"{table.name}: columns and labels", not problem, problem or f"{table.cells:,} cells in all")
    yield tabular.labels_tell_apart(table)
    if problem:
        return
    yield tabular.same_formats(table.name, contents, TableRows.equals)
    rows = next(iter(contents.values()))
    ordered = rows.in_order()
    yield Check(f"{table.name}: every cell once, in order", ordered, f"{len(rows.cell):,} cells that are not zero")
    yield _counts(described, table, rows)
    if not ordered:
        return
    figures = {margin.name: rows.of_margin(number) for number, margin in enumerate(table.margins)}
    yield from _spsn(table, figures, repeated, shared)
    if len(table.margins) > 1:
        yield _near(described, table, figures)


def _counts(described: PerturbedTables, table: Table, rows: TableRows) -> Check:
    least = int(rows.count.min(initial=described.smallest))
    ok = least >= described.smallest and int(rows.figures.get(WEIGHTED, rows.count).min(initial=0)) >= 0
    return Check(f"{table.name}: counts that may be published", ok, f"none below {described.smallest:,} but zeros")


def _spsn(table: Table, figures: Mapping[str, TableRows], repeated: frozenset[str], shared: Shared) -> Iterator[Check]:
    """The same cross-classification has the same figures here as in the tables before."""
    again = [margin.name for margin in table.margins if margin.name in shared]
    wrong = [name for name in again if not _same_figures(figures[name], shared[name])]
    for name in repeated & figures.keys():
        shared.setdefault(name, figures[name])
    if again:
        detail = ", ".join(wrong) or f"{len(again)} cross-classifications that tables before it have too"
        yield Check(f"{table.name}: the same members, the same noise", not wrong, detail)


def _same_figures(one: TableRows, other: TableRows) -> bool:
    """The number of the margin may differ from table to table."""
    return replace(one, margin=other.margin).equals(other)


def _near(described: PerturbedTables, table: Table, figures: Mapping[str, TableRows]) -> Check:
    """Every cell against its parts by one variable more; variables that leave somebody out do not add up."""
    comparisons, wrong = 0, 0
    for margin in table.margins:
        for variable in table.variables:
            larger = Margin(tuple(each for each in table.variables if each in margin.variables or each is variable))
            incomplete = variable.name in described.partial
            if variable in margin.variables or incomplete or larger.name not in figures:
                continue
            low, high = _range(described, figures[margin.name], figures[margin.name].cell, margin.cells, 1)
            group = projected(larger, margin, figures[larger.name].cell)
            parts_low, parts_high = _range(described, figures[larger.name], group, margin.cells, variable.size)
            wrong += int(((parts_low > high) | (low > parts_high)).sum())
            comparisons += margin.cells
    bound = int(described.largest_noise)
    detail = f"{comparisons:,} cells against the sums of their parts"
    detail += f", of which {wrong:,} are too far" if wrong else f": nowhere further than noise of {bound}"
    return Check(f"{table.name}: noise within its bound", not wrong, detail)


def _range(
    described: PerturbedTables, rows: TableRows, group: Integers, groups: int, parts: int
) -> tuple[Integers, Integers]:
    """For each group of cells the least and the largest that its true counts can come to together.

    A published count x comes from one between max(1, x - D) and x + D; one that is not listed from at most D, or D plus
    what the threshold hides.
    """
    bound = int(described.largest_noise)
    unlisted = bound + max(0, described.threshold - 1)
    listed = np.bincount(group, minlength=groups)
    low, high = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(low, group, np.maximum(1, rows.count - bound))
    np.add.at(high, group, rows.count + bound)
    return low, high + (parts - listed) * unlisted


# A release of ``cellkey`` read back: counts with noise of their members, within a bound that the manifest states.


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
        said = PublishedRows(table["name"], tuple(table["margins"]), variance, bound, unknown, table["name"])
        for marginal, name in zip(marginals_of(said, rows, attributes, one_unit(), 0, None), said.queries, strict=True):
            marginals.setdefault(name, marginal)  # the same people have the same noise in every table
    notes = (NOISE, BOUNDED.format(bound.largest), ZEROS)
    title = release_title(folder, manifest)
    return Published(attributes, one_unit(), tuple(marginals.values()), impossible(attributes), title, notes)
