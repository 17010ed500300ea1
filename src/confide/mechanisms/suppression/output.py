"""The tables of a release: every cell with its figure, or without one where it is suppressed.

Every cell is listed, zeros too. A suppressed cell has no figure and the status ``suppressed``; why it is suppressed is
not said, and must not be: which cells are primary is part of what is protected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from confide.mechanisms.suppression.programme import HierarchicalTable
from confide.mechanisms.suppression.structure import Flags, Integers
from confide.releases import tabular
from confide.releases.tabular import COUNT, OBSERVATION, SDMX, TOTAL_CODE, UnlikePlanError, figure_column, text_column

PUBLISHED, SUPPRESSED = "published", "suppressed"
VALUE, STATUS = "value", "status"
OBSERVATION_STATUS = "OBS_STATUS"
NORMAL, MISSING = "A", "Q"
"""Codes of the SDMX list of observation status: a normal value, a missing one that is suppressed."""


def plain_schema(table: HierarchicalTable, *, magnitude: bool) -> pa.Schema:
    """The columns of a table for its readers."""
    columns = [text_column(name, f"{name}; {TOTAL_CODE}: all together") for name in table.columns]
    what = "the sum of the records' values" if magnitude else "records"
    figure = figure_column(VALUE if magnitude else COUNT, f"{what}; empty where suppressed", gaps=True)
    return pa.schema([*columns, figure, text_column(STATUS, f"{PUBLISHED} or {SUPPRESSED}")])


def sdmx_schema(table: HierarchicalTable) -> pa.Schema:
    """The columns of SDMX-CSV."""
    figure = figure_column(OBSERVATION, gaps=True)
    return tabular.sdmx_schema(table.columns, figure, text_column(OBSERVATION_STATUS, ""))


def plain_rows(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, *, magnitude: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a table; ``figures`` and ``suppressed`` are those of its layout's cells."""
    values = _values(table, figures, suppressed, PUBLISHED, SUPPRESSED)
    yield tabular.plain_rows(plain_schema(table, magnitude=magnitude), _labels(table), values)


def sdmx_rows(table: HierarchicalTable, figures: Integers, suppressed: Flags, agency: str) -> Iterator[pa.RecordBatch]:
    """The same rows as SDMX-CSV."""
    values = _values(table, figures, suppressed, NORMAL, MISSING)
    yield tabular.sdmx_rows(sdmx_schema(table), agency, table.name, _labels(table), values)


def read_table(path: Path, format_: str, table: HierarchicalTable, *, magnitude: bool) -> tuple[Integers, Flags]:
    """The figures and flags of a written table, for the cells of its layout; cells that are not listed are suppressed.

    Raises :class:`UnlikePlanError`.
    """
    sdmx = format_ == SDMX
    schema = sdmx_schema(table) if sdmx else plain_schema(table, magnitude=magnitude)
    rows = tabular.read_columns(path, {field.name: field.type for field in schema}, gaps=True)
    if sdmx:
        tabular.check_flow(rows, table.name)
    labels, cells = table.lines
    if rows.num_rows != len(labels):
        raise UnlikePlanError("there are more rows, or fewer, than the table has cells")
    columns = [name.upper() for name in table.columns] if sdmx else table.columns
    for at, name in enumerate(columns):
        if rows.column(name).to_pylist() != [label[at] for label in labels]:
            raise UnlikePlanError(f"{name} does not have the labels of the plan in their order")
    status = np.array(rows.column(OBSERVATION_STATUS if sdmx else STATUS).to_pylist(), object)
    normal, missing = (NORMAL, MISSING) if sdmx else (PUBLISHED, SUPPRESSED)
    if not np.isin(status, [normal, missing]).all():
        raise UnlikePlanError("a status is none that a cell can have")
    figure = rows.column(len(schema) - 2).combine_chunks()
    absent: Flags = np.asarray(figure.is_null().to_numpy(zero_copy_only=False), np.bool_)
    if not np.array_equal(absent, status == missing):
        raise UnlikePlanError("a cell is suppressed and has a figure, or is published and has none")
    values = np.asarray(figure.fill_null(0).to_numpy()).astype(np.int64)
    figures, suppressed = np.zeros(table.layout.cells, np.int64), np.ones(table.layout.cells, np.bool_)
    figures[cells], suppressed[cells] = values, absent
    # Areas may stand on two levels: both rows are one cell.
    if not (np.array_equal(figures[cells], values) and np.array_equal(suppressed[cells], absent)):
        raise UnlikePlanError("one cell that stands in two rows has two figures")
    return figures, suppressed


def _labels(table: HierarchicalTable) -> list[pa.Array]:
    labels, _ = table.lines
    return [pa.array([label[at] for label in labels], pa.string()) for at in range(len(table.columns))]


def _values(
    table: HierarchicalTable, figures: Integers, suppressed: Flags, normal: str, missing: str
) -> list[pa.Array]:
    _, cells = table.lines
    status = np.where(suppressed[cells], missing, normal).tolist()
    return [pa.array(figures[cells], pa.int64(), mask=suppressed[cells]), pa.array(status, pa.string())]
