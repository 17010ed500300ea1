"""The tables of given cells in a release: written, read again, and what ``verify`` asks of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.mechanisms.cellkey.counting import PerturbedFigures
from confide.mechanisms.cellkey.given import GivenTable
from confide.mechanisms.cellkey.output import WEIGHTED, FigureColumns, millionths
from confide.mechanisms.cellkey.programme import PerturbedTables
from confide.releases import tabular
from confide.releases.mechanism import Check
from confide.releases.tabular import COUNT, DATAFLOW, SDMX, Batches, Table, TableVariable


def layout(table: GivenTable) -> Table:
    """Its columns, without labels: those are in no plan."""
    variables = tuple(TableVariable(name, name, (), name) for name in table.variables)
    return Table(table.name, table.title, variables, (), (), tabular.TOTAL_CODE, tabular.SECOND)


def batches(
    table: GivenTable, labels: pa.Table, figures: PerturbedFigures, columns: FigureColumns, agency: str
) -> tuple[Batches, Batches]:
    """The rows for readers, and those in SDMX-CSV."""
    texts = [column.combine_chunks() for column in labels.columns]
    values, shape = columns.arrays(figures), layout(table)
    fields = [tabular.text_column(name, name) for name in table.variables]
    plain = pa.schema([*fields, *columns.plain()])
    sdmx = tabular.sdmx_schema(shape.sdmx_columns, *columns.sdmx())
    return (
        (plain, [tabular.plain_rows(plain, texts, values)]),
        (sdmx, [tabular.sdmx_rows(sdmx, agency, table.name, texts, values)]),
    )


def read_cells(path: Path, format_: str, table: GivenTable, columns: FigureColumns) -> pa.Table:
    """A released table of given cells, under the names of the plain form. Raises :class:`UnlikePlanError`."""
    shape = layout(table)
    fields = columns.plain()
    if format_ == SDMX:
        types = dict.fromkeys([DATAFLOW, *shape.sdmx_columns], pa.string())
        rows = tabular.read_columns(path, types | {field.name: field.type for field in columns.sdmx()})
        tabular.check_flow(rows, table.name)
        rows = rows.drop_columns([DATAFLOW]).rename_columns([*table.variables, *(field.name for field in fields)])
    else:
        types = dict.fromkeys(table.variables, pa.string())
        rows = tabular.read_columns(path, types | {field.name: field.type for field in fields})
    if columns.weighted:
        at = rows.column_names.index(WEIGHTED)
        rows = rows.set_column(at, WEIGHTED, pa.array(millionths(rows.column(WEIGHTED).to_numpy())))
    return rows.replace_schema_metadata(None)


def verify_given(folder: Path, files: set[str], described: PerturbedTables, table: GivenTable) -> Iterator[Check]:
    """A table of given cells: its columns, each cell once and in order, counts that may be published."""
    columns = FigureColumns(described.weighted)
    read = partial(read_cells, table=table, columns=columns)
    contents, problem = tabular.read_formats(folder, table.name, files, read)
    yield Check(f"{table.name}: columns", not problem, problem or ", ".join(table.variables))
    if problem:
        return
    yield tabular.same_formats(table.name, contents, _same)
    rows = next(iter(contents.values()))
    detail = f"{rows.num_rows:,} cells that are not zero"
    yield Check(f"{table.name}: every cell once, in order", _ascending(rows.select(table.variables)), detail)
    counts = rows.column(COUNT).to_numpy()
    least = int(counts.min(initial=described.smallest))
    yield Check(
        f"{table.name}: counts that may be published",
        least >= described.smallest,
        f"none below {described.smallest:,} but zeros",
    )


def _same(one: pa.Table, other: pa.Table) -> bool:
    return bool(one.cast(other.schema).equals(other))


def _ascending(labels: pa.Table) -> bool:
    """Whether each row comes after the one before it, by the labels of the columns from the first to the last."""
    if labels.num_rows < 2:
        return True
    decided = np.zeros(labels.num_rows - 1, np.bool_)
    for column in labels.columns:
        values = column.combine_chunks()
        before, after = values.slice(0, len(values) - 1), values.slice(1)
        if (~decided & pc.less(after, before).to_numpy(zero_copy_only=False)).any():
            return False
        decided |= pc.greater(after, before).to_numpy(zero_copy_only=False)
    return bool(decided.all())
