"""``verify`` for swapped data: what follows from the files of a release alone.

Figures are exact counts of one set of records, so everything has to add up: margins are the sums of their cells, the
levels of the spine come to the same, a cross-classification has the same figures in every table, and tables are the
counts of the records, where these are published. That something stayed as it was before the swap cannot be seen from
the release: only the curator can, with ``evaluate``. What can be seen is whether it follows from the settings, where
these are stated; and, where the records of a permutation are published, whether its invariants have the hashes that
were taken before the swap, and no stratum is larger than its loss is stated for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.mechanisms.swapping import output
from confide.mechanisms.swapping.permutation import BLOCK, PublishedHouseholds
from confide.mechanisms.swapping.problem import INVARIANTS
from confide.mechanisms.swapping.settings import swap_settings
from confide.mechanisms.swapping.spec import HOUSEHOLD
from confide.mechanisms.swapping.statement import stated_guarantee
from confide.releases import published_release
from confide.releases.mechanism import Check
from confide.releases.published import Published
from confide.releases.published_rows import PublishedRows, impossible
from confide.releases.tabular import (
    DescribedTable,
    Table,
    TableRows,
    UnlikePlanError,
    cells_and_areas,
    checked_rows,
    no_other_files,
)

Shared = dict[tuple[str, str], TableRows]
"""The rows of cross-classifications on a level, as they were met first."""


def verify(folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
    """Every table by itself, then what tables and records have in common."""
    question = manifest["plan"]["question"]
    files = [file["path"] for file in manifest["files"]]
    yield no_other_files(
        [values["name"] for values in question["tables"]],
        files,
        [*_microdata(files), *output.labelled_files(files).values()],
    )
    yield _settings(question)
    people = None
    if question["microdata"] is not None:
        people, check = _records(folder, files, question, manifest["plan"]["spine"][-1])
        yield check
        if people is not None and "guarantee" in question["swapping"]:
            yield from _invariants(people, question, manifest["statistics"])
        yield from output.labelled_checks(folder, manifest)
    shared: Shared = {}
    for values in question["tables"]:
        yield from _table(folder, files, values, manifest["plan"]["spine"], shared, people)
    if question["tables"]:
        levels = {level: question["levels"][level] for values in question["tables"] for level in values["levels"]}
        names = [values["name"] for values in question["tables"]]
        yield from cells_and_areas(folder, names, files, levels, question["area_names"])


def _microdata(files: list[str]) -> list[str]:
    return [path for path in files if path.split(".")[0] == output.MICRODATA]


def _settings(question: dict[str, Any]) -> Check:
    """What is stated to stay follows from the settings, where these are stated."""
    facts, name = question["swapping"], "what is stated to stay"
    if facts["settings"] is None:
        return Check(name, True, "the settings are secret; the curator verifies it with evaluate")
    settings = swap_settings(**facts["settings"])
    same = [*settings.kept] == facts["kept_in_blocks"] and [*settings.carry] == facts["carried"]
    if settings.variant == "permutation":
        same &= facts.get("guarantee") == stated_guarantee(settings)
        same &= settings.within is None or settings.within in facts["exact_levels"]
    return Check(name, same, "as the stated settings imply" if same else "the stated settings do not imply it")


def _invariants(people: pa.Table, question: Mapping[str, Any], statistics: Mapping[str, Any]) -> Iterator[Check]:
    """What the loss is subject to, counted again from the published records: no stratum is larger than the loss is
    stated for, and the invariants are those that the office counted before the swap."""
    facts = question["swapping"]
    households = PublishedHouseholds.of(people, HOUSEHOLD, facts)
    largest, most = households.largest_stratum(), facts["settings"]["largest_stratum"]
    detail = f"{largest:,} households in the largest; the loss is stated for {most:,}"
    yield Check("strata as the loss is stated for", largest <= most, detail)
    same = households.digests(question["microdata"]["attributes"]) == statistics[INVARIANTS]
    words = "as counted before the swap, by their hashes" if same else "not as they were counted before the swap"
    yield Check("invariants", same, words)


def _table(
    folder: Path,
    files: list[str],
    values: Mapping[str, Any],
    spine: list[str],
    shared: Shared,
    people: pa.Table | None,
) -> Iterator[Check]:
    table = Table.read(values)
    rows = yield from checked_rows(folder, table, files, DescribedTable.of(table, output.FIGURES).placed, table.cells)
    if rows is None:
        return
    positive = int(rows.count.min(initial=1)) > 0
    yield Check(f"{table.name}: whole counts of somebody", positive, "cells that are not listed are zero")
    by_level = {level: rows.on_level(place) for place, level in enumerate(table.levels)}
    yield _adds_up(table, by_level)
    yield _levels_agree(table, by_level, spine)
    yield from _repeated(table, by_level, shared)
    if people is not None:
        yield _from_records(table, values["codes"], by_level, people, spine[-1])


def _inner(table: Table, rows: TableRows) -> TableRows:
    """The rows of the table itself, the last of the margins."""
    return rows.where(rows.margin == len(table.margins) - 1)


def _adds_up(table: Table, by_level: Mapping[str, TableRows]) -> Check:
    """Every margin is the sum of the cells of the table itself."""
    wrong = 0
    for rows in by_level.values():
        codes = pc.unique(rows.area)
        inner = _inner(table, rows)
        for number, margin in enumerate(table.margins[:-1]):
            of_margin = rows.where(rows.margin == number)
            cell = table.projected(margin, inner.cell)
            sums = _sums(_index(inner.area, codes) * margin.cells + cell, inner.count)
            wrong += sums != _sums(_index(of_margin.area, codes) * margin.cells + of_margin.cell, of_margin.count)
    return Check(f"{table.name}: margins add up", not wrong, f"{len(table.margins)} cross-classifications")


def _levels_agree(table: Table, by_level: Mapping[str, TableRows], spine: list[str]) -> Check:
    """Over all areas, the levels of the spine have the same counts: they have the same people."""
    inner = [_inner(table, rows) for level, rows in by_level.items() if level in spine]
    sums = [_sums(rows.cell, rows.count) for rows in inner]
    same = all(of_level == sums[0] for of_level in sums)
    return Check(f"{table.name}: levels come to the same", same, f"{len(sums)} levels of the spine")


def _repeated(table: Table, by_level: Mapping[str, TableRows], shared: Shared) -> Iterator[Check]:
    again = wrong = 0
    for level, rows in by_level.items():
        for number, margin in enumerate(table.margins):
            figures = rows.where(rows.margin == number)
            before = shared.setdefault((level, margin.name), figures)
            if before is not figures:
                again += 1
                # The places of level and margin may differ from table to table.
                wrong += not replace(before, level=figures.level, margin=figures.margin).equals(figures)
    if again:
        detail = f"{again} cross-classifications that tables before it have too"
        yield Check(f"{table.name}: the same as in other tables", not wrong, detail)


def _records(folder: Path, files: list[str], question: dict[str, Any], smallest: str) -> tuple[pa.Table | None, Check]:
    """The published records, and whether each household is in one of the ``smallest`` places."""
    facts, name = question["microdata"], "records"
    columns = [HOUSEHOLD, *facts["levels"], *facts["areas"], facts["block"], *facts["attributes"]]
    # Numbers in an attribute are codes: as text they are the same in every format.
    types = {column: pa.string() for column in columns} | {HOUSEHOLD: pa.int64()}
    contents = []
    for path in _microdata(files):
        try:
            contents.append(output.read_records(folder / path, types))
        except (UnlikePlanError, pa.ArrowException) as error:
            words = str(error) if isinstance(error, UnlikePlanError) else "a file that cannot be read"
            return None, Check(name, False, words)
    if not contents:
        return None, Check(name, False, "no file of the records is in the release")
    # A level is looked up by its name, also that of the blocks.
    filled = [output.plain_records(table, facts) for table in contents]
    if not all(table.equals(filled[0]) for table in filled):
        return None, Check(name, False, "formats differ")
    first = filled[0]
    lived = first.filter(pc.is_valid(first.column(HOUSEHOLD)))
    pairs = lived.group_by([HOUSEHOLD, BLOCK]).aggregate([]).num_rows
    numbers = pc.unique(lived.column(HOUSEHOLD))
    together = pairs == len(numbers) and (not len(numbers) or pc.max(numbers).as_py() == len(numbers))
    detail = f"{first.num_rows:,} records; each household in one {smallest}"
    return (first if together else None), Check(name, together, detail)


def _from_records(
    table: Table,
    codes: Sequence[Sequence[Sequence[int | str]]],
    by_level: Mapping[str, TableRows],
    people: pa.Table,
    smallest: str,
) -> Check:
    """The table counted again from the published records. ``codes`` has for each variable those of every group;
    ``smallest`` is the office's word for a block."""
    cell = np.zeros(people.num_rows, np.int64)
    for groups, variable in zip(codes, table.variables, strict=True):
        texts = pa.array([str(code) for group in groups for code in group], pa.string())
        group_of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        place = pc.index_in(people.column(variable.name.split(":")[0]).combine_chunks(), texts)
        if place.null_count:
            detail = f"a code of {variable.name} that the plan has not"
            return Check(f"{table.name}: as the records have it", False, detail)
        cell = cell * len(groups) + group_of[place.to_numpy(zero_copy_only=False).astype(np.int64)]
    wrong = 0
    for level, rows in by_level.items():
        area = people.column(BLOCK if level == smallest else level).combine_chunks()
        inside = pc.not_equal(area, "").to_numpy(zero_copy_only=False)
        areas = pc.unique(pa.concat_arrays([area, rows.area]))
        inner, size = _inner(table, rows), table.inner.cells
        published = _sums(_index(inner.area, areas) * size + inner.cell, inner.count)
        counted = (_index(area, areas) * size + cell)[inside]
        wrong += published != _sums(counted, np.ones(len(counted), np.int64))
    return Check(f"{table.name}: as the records have it", not wrong, f"{people.num_rows:,} records counted again")


def _index(column: pa.Array | None, codes: pa.Array) -> Integers:
    places: Integers = pc.index_in(column, codes).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _sums(key: Integers, count: Integers) -> dict[int, int]:
    distinct, place = np.unique(key, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, count)
    return dict(zip(distinct.tolist(), sums.tolist(), strict=True))


# A release of ``swapping`` read back: tables of swapped records, exact as such, or the swapped records themselves.


def read_published(
    folder: Path,
    manifest: Mapping[str, Any],
    schema: str | Path | None = None,
    groups: Sequence[str] = (),
    areas: published_release.KnownAreas | None = None,
) -> Published:
    """The records of a release that has them, otherwise its tables."""
    published_release.no_groups(groups, manifest["mechanism"])
    question = manifest["plan"]["question"]
    attributes = published_release.release_schema(question["schema"], schema)
    records = published_release.release_file(folder, manifest, *published_release.RECORDS)
    if records is not None:
        return published_release.released_records(folder, manifest, records, attributes)
    listed = {
        PublishedRows(table["name"], tuple(table["margins"]), file=table["name"]): table["levels"]
        for table in question["tables"]
    }
    spine = manifest["plan"]["spine"]
    columns = {table["name"]: Table.read(table).attribute_columns for table in question["tables"]}
    tables = published_release.AreaTables.read(folder, manifest, listed, spine, columns, areas=areas)
    marginals = tuple(marginal for _, _, of_queries in tables.marginals(attributes) for marginal in of_queries)
    notes, title = (published_release.PROTECTED, *tables.notes), published_release.release_title(folder, manifest)
    return Published(attributes, tables.geography, marginals, impossible(attributes), title, notes)
