"""``verify`` for cell suppression: what follows from the files of a release alone.

Every table is read in every format. Published cells must add up; the same cell must be published, or suppressed, in
every table that has it; and then the attacker's programmes are solved again from the files: no suppressed cell may be
known exactly, and none may be known to be a small count. Which cells are primary, and their true values, cannot be seen
from the files; that each has its full protection is proved when the release is made (``docs/proofs/suppression.md``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from confide.errors import ConfideError
from confide.mechanisms.suppression.attacker import Attacker
from confide.mechanisms.suppression.programme import HierarchicalTable, SuppressionProgramme, described, read_table
from confide.mechanisms.suppression.structure import Flags, Floats, Integers
from confide.releases import tabular
from confide.releases.mechanism import Check
from confide.releases.published import Published
from confide.releases.published_release import AREA, AreaTables, no_groups, not_attacked, release_schema, release_title
from confide.releases.published_rows import PublishedRows, impossible

TableContent = tuple[Integers, Flags]
"""The figures of a table's cells, and which of them are suppressed."""


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table by itself, then all together."""
    question = manifest["plan"]["question"]
    programme = described(question)
    files = {file["path"] for file in manifest["files"]}
    names = [table.name for table in programme.tables]
    yield tabular.no_other_files(names, files)
    yield tabular.every_format(names, files)
    read: list[TableContent] = []
    for table in programme.tables:
        yield from _table(folder, files, table, read, magnitude=question["value"] is not None)
    if len(read) == len(programme.tables):
        yield from _together(programme, read, question)


def _table(
    folder: Path, files: set[str], table: HierarchicalTable, read: list[TableContent], *, magnitude: bool
) -> Iterator[Check]:
    if not tabular.table_files(table.name, files):
        return  # said of all tables together
    reading = partial(read_table, table=table, magnitude=magnitude)
    contents, problem = tabular.read_formats(folder, table.name, files, reading)
    yield Check(f"{table.name}: columns, labels and statuses", not problem, problem or f"{len(table.lines[0]):,} rows")
    yield tabular.unique_keys(table.name, table.columns, table.lines[0])
    if not problem:
        yield tabular.same_formats(table.name, contents, _same_content)
        read.append(next(iter(contents.values())))


def _same_content(one: TableContent, other: TableContent) -> bool:
    return np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])


def gathered(programme: SuppressionProgramme, read: list[TableContent]) -> tuple[Floats, Flags, bool]:
    """The figures of all distinct cells and which are suppressed, and whether tables agree about both."""
    linked = programme.linked
    value, suppressed = np.zeros(linked.structure.cells), np.ones(linked.structure.cells, np.bool_)
    each = [
        (numbers[table.listed_cells], figures[table.listed_cells], flags[table.listed_cells])
        for table, numbers, (figures, flags) in zip(linked.tables, linked.numbers, read, strict=True)
    ]
    for at, figures, flags in each:
        value[at], suppressed[at] = figures, flags
    agree = all(bool((value[at] == figures).all() and (suppressed[at] == flags).all()) for at, figures, flags in each)
    return value, suppressed, agree


def bounds(programme: SuppressionProgramme, question: Mapping[str, Any]) -> Floats:
    """What everybody knows of a suppressed cell: not below zero, or not zero either where zeros are always
    published."""
    low = np.zeros(programme.linked.structure.cells)
    if question["suppression"]["zeros"] == "published":
        low[programme.linked.listed] = 1.0
    return low


def _together(programme: SuppressionProgramme, read: list[TableContent], question: dict[str, Any]) -> Iterator[Check]:
    linked = programme.linked
    value, suppressed, agree = gathered(programme, read)
    yield Check("the same cell is the same in every table", agree, f"{int(linked.listed.sum()):,} distinct cells")
    complete = np.asarray(abs(linked.structure.matrix) @ suppressed.astype(np.float64)) == 0
    sums = (linked.structure.matrix @ np.where(suppressed, 0.0, value))[complete]
    detail = f"{int(complete.sum()):,} sums of published cells alone"
    yield Check("published cells add up", not sums.any(), detail)
    threshold = question["suppression"]["threshold"]
    if threshold is not None and question["value"] is None:
        small = linked.listed & ~suppressed & (value > 0) & (value <= threshold)
        yield Check("no small count is published", not small.any(), f"none from 1 to {threshold:,}")
    if agree and not sums.any():
        yield from _attack(programme, value, suppressed, question)


def _attack(
    programme: SuppressionProgramme, value: Floats, suppressed: Flags, question: dict[str, Any]
) -> Iterator[Check]:
    linked, part = programme.linked, question["suppression"]
    low = bounds(programme, question)
    try:
        attacker = Attacker(linked.structure, value, suppressed, low, np.full(len(value), np.inf), integer=True)
        intervals = attacker.intervals()
    except ConfideError as error:
        yield Check("hidden cells can have figures", False, error.findings[0].what)
        return
    listed = suppressed & linked.listed
    exact = listed & (intervals.high <= intervals.low)
    detail = f"{int(listed.sum()):,} hidden cells, {intervals.programmes:,} programmes solved"
    detail += f", of which {int(exact.sum()):,} are known exactly" if exact.any() else ": none is known exactly"
    yield Check("no hidden cell can be worked out", not exact.any(), detail)
    if part["threshold"] is not None and question["value"] is None:
        small = listed & (intervals.low >= 1) & (intervals.high <= part["threshold"])
        how_many = f"{int(small.sum()):,} are" if small.any() else "none is"
        detail = f"{how_many} known to be from 1 to {part['threshold']:,}"
        yield Check("no hidden cell is known to be small", not small.any(), detail)


# A release of ``suppression`` read back: exact counts, some of them left out and unknown.


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
        rows = PublishedRows(table["name"], queries, absent_unknown=True, file=table["name"])
        listed[rows] = table["variables"][AREA]
    tables = AreaTables.read(folder, manifest, listed, list(question["variables"][AREA]["groupings"]))
    marginals = tuple(marginal for _, _, of_queries in tables.marginals(attributes) for marginal in of_queries)
    title = release_title(folder, manifest)
    return Published(attributes, tables.geography, marginals, impossible(attributes), title, (SUPPRESSED,))
