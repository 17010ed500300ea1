"""``verify`` for tables for people that are made of others in another layout: they are made anew, and compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from confide.releases.folder import SealedRelease
from confide.releases.mechanism import Check
from confide.releases.tabular.checks import TableCopies, table_files
from confide.releases.tabular.described import DescribedTable, Rows, listed_areas
from confide.releases.tabular.rows import SDMX, RowsInOrder
from confide.releases.tabular.table import AreaNames, CodedColumns, UnlikePlanError, in_dictionaries, same_rows


def open_described(release: SealedRelease, table: DescribedTable) -> TableCopies:
    """The files of a table for people, but for SDMX-CSV."""
    assert isinstance(table.columns, CodedColumns)
    return TableCopies.open(release, f"tables/{table.name}", table.columns.schema(table.figures))


def remade(
    release: SealedRelease, table: DescribedTable, rows: Rows, names: AreaNames | None, source: str
) -> Iterator[Check]:
    """A table has the rows that its source gives, in every format.

    Args:
        release: The release.
        table: The table as the plan describes it.
        rows: Its rows with labels, made of the source at each call.
        names: What areas are called, where they have names.
        source: What the rows are made of, in words.
    """
    name, columns, copies = table.name, table.columns, open_described(release, table)
    assert isinstance(columns, CodedColumns)
    yield Check(f"{name}: columns of the layout", copies.fits, copies.formats or "no file of this table is there")
    if not copies.fits:
        return
    schema = in_dictionaries(columns.schema(table.figures))
    batches = (pa.Table.from_batches([columns.coded(batch, names, schema)]) for batch in rows())
    expected, number, wrong = RowsInOrder(batches, schema.empty_table()), 0, False
    for batch in copies.batches():
        number += batch.num_rows
        wrong = wrong or not same_rows(expected.take(batch.num_rows), batch)
    wrong = wrong or bool(expected.take(1).num_rows)
    yield Check(f"{name}: the same in every format", copies.same, copies.formats)
    yield Check(f"{name}: says what {source} say", not wrong, f"{number:,} rows")
    paths = table_files(name, release.files)
    if SDMX in paths:
        yield _observations(release.folder / paths[SDMX], table, rows)


def _observations(path: Path, table: DescribedTable, rows: Rows) -> Check:
    name, problem = f"{table.name}: SDMX-CSV says the same", ""
    batches = list(rows())
    try:
        read = table.read(path, SDMX)
        if batches:
            expected = pa.Table.from_batches(batches)
            plain = pa.schema([pa.field(field.name, field.type) for field in expected.schema])
            same = read.cast(plain).combine_chunks().equals(expected.cast(plain).combine_chunks())
            problem = "" if same else "other rows than the table has"
        elif read.num_rows:
            problem = "rows that the table does not have"
    except UnlikePlanError as error:
        problem = str(error)
    return Check(name, not problem, problem or f"{sum(batch.num_rows for batch in batches):,} rows")


def released_names(release: SealedRelease) -> AreaNames | None:
    """The names that ``areas.csv`` has, which the plan is bound to."""
    rows = listed_areas(release)
    if rows is None:
        return None
    levels: dict[str, tuple[list[str], list[str]]] = {}
    for level, area, name in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        codes, texts = levels.setdefault(level, ([], []))
        codes.append(area)
        texts.append(name)
    return AreaNames(dict(levels))
