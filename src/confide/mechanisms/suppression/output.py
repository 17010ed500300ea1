"""The tables of a release: every cell with its figure, or without one where it is hidden.

Every cell is listed, zeros too. A hidden cell has no figure and the status ``suppressed``; why it is hidden is not
said, and must not be: which cells are primary is part of what is protected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.mechanisms.suppression.hierarchies import TOTAL_LABEL
from confide.mechanisms.suppression.programme import Table
from confide.mechanisms.suppression.structure import Flags, Integers

PUBLISHED, SUPPRESSED = "published", "suppressed"
COUNT, VALUE, STATUS = "count", "value", "status"
DATAFLOW, OBSERVATION, OBSERVATION_STATUS = "DATAFLOW", "OBS_VALUE", "OBS_STATUS"
NORMAL, MISSING = "A", "Q"
"""Codes of the SDMX list of observation status: a normal value, a missing one that is suppressed."""


class Unlike(ValueError):  # noqa: N818
    """What is not as the plan describes it: names no value but those of the plan."""


def people_schema(table: Table, *, magnitude: bool) -> pa.Schema:
    """The columns of a table for people."""
    columns = [_text(name, f"{name}; {TOTAL_LABEL}: all together") for name in table.columns]
    what = "the sum of the records' values" if magnitude else "records"
    figure = pa.field(
        VALUE if magnitude else COUNT, pa.int64(), metadata={"description": f"{what}; empty where suppressed"}
    )
    return pa.schema([*columns, figure, _text(STATUS, f"{PUBLISHED} or {SUPPRESSED}")])


def sdmx_schema(table: Table) -> pa.Schema:
    """The columns of SDMX-CSV 1.0."""
    dimensions = [_text(name.upper(), "") for name in table.columns]
    return pa.schema(
        [_text(DATAFLOW, ""), *dimensions, pa.field(OBSERVATION, pa.int64()), _text(OBSERVATION_STATUS, "")]
    )


def people_rows(table: Table, figures: Integers, hidden: Flags, *, magnitude: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a table; ``figures`` and ``hidden`` are those of its layout's cells."""
    labels, cells = table.lines
    yield pa.record_batch(
        [*_columns(table, labels), *_values(figures[cells], hidden[cells], PUBLISHED, SUPPRESSED)],
        schema=people_schema(table, magnitude=magnitude),
    )


def sdmx_rows(table: Table, figures: Integers, hidden: Flags, agency: str) -> Iterator[pa.RecordBatch]:
    """The same rows as SDMX-CSV."""
    labels, cells = table.lines
    flow = pa.array([flow_name(table, agency)] * len(labels))
    yield pa.record_batch(
        [flow, *_columns(table, labels), *_values(figures[cells], hidden[cells], NORMAL, MISSING)],
        schema=sdmx_schema(table),
    )


def flow_name(table: Table, agency: str) -> str:
    return f"{agency}:{table.name.upper().replace('-', '_')}(1.0)"


def read_table(path: Path, table: Table, *, magnitude: bool, sdmx: bool) -> tuple[Integers, Flags]:
    """The figures and flags of a written table, for the cells of its layout; cells that are not listed are hidden."""
    schema = sdmx_schema(table) if sdmx else people_schema(table, magnitude=magnitude)
    rows = _read(path, schema)
    labels, cells = table.lines
    if rows.num_rows != len(labels):
        raise Unlike("there are more rows, or fewer, than the table has cells")
    columns = [name.upper() for name in table.columns] if sdmx else table.columns
    for at, name in enumerate(columns):
        if rows.column(name).to_pylist() != [label[at] for label in labels]:
            raise Unlike(f"{name} does not have the labels of the plan in their order")
    status = np.array(rows.column(OBSERVATION_STATUS if sdmx else STATUS).to_pylist(), object)
    shown, gone = (NORMAL, MISSING) if sdmx else (PUBLISHED, SUPPRESSED)
    if not np.isin(status, [shown, gone]).all():
        raise Unlike("a status is none that a cell can have")
    figure = rows.column(len(schema) - 2)
    absent = np.asarray(
        figure.is_null().to_numpy(zero_copy_only=False) if hasattr(figure, "chunks") else figure.is_null()
    )
    if not np.array_equal(absent, status == gone):
        raise Unlike("a cell is hidden and has a figure, or is published and has none")
    filled = np.asarray(figure.fill_null(0).to_numpy()).astype(np.int64)
    figures, hidden = np.zeros(table.layout.cells, np.int64), np.ones(table.layout.cells, np.bool_)
    figures[cells], hidden[cells] = filled, absent
    # Areas may stand on two levels: both rows are one cell.
    if not (np.array_equal(figures[cells], filled) and np.array_equal(hidden[cells], absent)):
        raise Unlike("one cell that stands in two rows has two figures")
    return figures, hidden


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    types = {field.name: field.type for field in schema}
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
        if {field.name: field.type for field in rows.schema} != types:
            raise Unlike("the columns are not those of the plan, or not of their types")
        return rows
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    try:
        rows = pyarrow.csv.read_csv(path, convert_options=options)
    except pa.ArrowInvalid:
        raise Unlike("the figures are not all whole numbers, or nothing") from None
    if rows.column_names != list(types):
        raise Unlike("the columns are not those of the plan")
    return rows


def _columns(table: Table, labels: list[tuple[str, ...]]) -> list[pa.Array]:
    return [pa.array([label[at] for label in labels], pa.string()) for at in range(len(table.columns))]


def _values(figures: Integers, hidden: Flags, shown: str, gone: str) -> list[pa.Array]:
    status = np.where(hidden, gone, shown).tolist()
    return [pa.array(figures, pa.int64(), mask=hidden), pa.array(status, pa.string())]


def _text(name: str, description: str) -> pa.Field:
    return pa.field(name, pa.string(), nullable=False, metadata={"description": description})
