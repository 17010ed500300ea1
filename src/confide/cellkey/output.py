"""The tables of a release: every cell that is not zero, with all margins, in columns for people or in SDMX-CSV.

A cell that is not listed is published as zero, whether nobody is in it or noise made it so: which of the two cannot be
seen. ``_T`` stands for a variable that is summed over, as in SDMX. Figures do not add up: each cell has noise
of its own members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.cellkey.counting import WEIGHT_UNIT
from confide.cellkey.perturbing import Figures
from confide.cellkey.programme import TOTAL_LABEL, Table
from confide.schema import Query

Integers = npt.NDArray[np.int64]
COUNT, WEIGHTED = "count", "weighted"
DATAFLOW, OBSERVATION, WEIGHTED_OBSERVATION = "DATAFLOW", "OBS_VALUE", "OBS_VALUE_WEIGHTED"


def column_names(query: Query) -> list[str]:
    """A column for each variable of a table, by the attribute's name."""
    return [variable.attribute.name for variable in query.variables]


def people_schema(table: Table, *, weighted: bool) -> pa.Schema:
    """The columns of a table for people."""
    columns = [
        pa.field(
            variable.attribute.name,
            pa.string(),
            nullable=False,
            metadata={"description": f"{variable.name}; {TOTAL_LABEL}: all together"},
        )
        for variable in table.query.variables
    ]
    columns.append(_number(COUNT, pa.int64(), "records, perturbed; cells that are not listed are 0"))
    if weighted:
        columns.append(_number(WEIGHTED, pa.float64(), "the perturbed count times the cell's mean weight"))
    return pa.schema(columns)


def sdmx_schema(table: Table, *, weighted: bool) -> pa.Schema:
    """The columns of SDMX-CSV 1.0: the data flow, a column for each dimension, the observation."""
    dimensions = [pa.field(name.upper(), pa.string(), nullable=False) for name in column_names(table.query)]
    columns = [pa.field(DATAFLOW, pa.string(), nullable=False), *dimensions, _number(OBSERVATION, pa.int64(), "")]
    if weighted:
        columns.append(_number(WEIGHTED_OBSERVATION, pa.float64(), ""))
    return pa.schema(columns)


def people_rows(table: Table, figures: Mapping[str, Figures]) -> Iterator[pa.RecordBatch]:
    """The rows of a table, margin by margin, the total first."""
    for margin, shown in _shown(table, figures):
        weighted = figures[margin.name].weighted
        yield pa.record_batch(
            [*_labels(table, margin, shown), *_values(figures[margin.name], shown)],
            schema=people_schema(table, weighted=weighted is not None),
        )


def sdmx_rows(table: Table, figures: Mapping[str, Figures], agency: str) -> Iterator[pa.RecordBatch]:
    """The same rows as SDMX-CSV."""
    flow = f"{agency}:{table.name.upper().replace('-', '_')}(1.0)"
    for margin, shown in _shown(table, figures):
        weighted = figures[margin.name].weighted
        yield pa.record_batch(
            [
                pa.array([flow]).take(pa.array(np.zeros(len(shown), np.int64))),
                *_labels(table, margin, shown),
                *_values(figures[margin.name], shown),
            ],
            schema=sdmx_schema(table, weighted=weighted is not None),
        )


def _shown(table: Table, figures: Mapping[str, Figures]) -> Iterator[tuple[Query, Integers]]:
    for margin in reversed(table.margins):
        yield margin, np.flatnonzero(figures[margin.name].count)


def _labels(table: Table, margin: Query, cells: Integers) -> Sequence[pa.Array]:
    """For each variable of the table the label of each cell, or that of the total."""
    names = [variable.name for variable in margin.variables]
    places = np.unravel_index(cells, margin.shape) if margin.shape else ()
    columns = []
    for variable in table.query.variables:
        if variable.name in names:
            labels, at = variable.labels, places[names.index(variable.name)]
        else:
            labels, at = [TOTAL_LABEL], np.zeros(len(cells), np.int64)
        columns.append(pa.array(labels, pa.string()).take(pa.array(at)))
    return columns


def _values(figures: Figures, cells: Integers) -> list[pa.Array]:
    values = [pa.array(figures.count[cells])]
    if figures.weighted is not None:
        values.append(pa.array(figures.weighted[cells] / WEIGHT_UNIT))
    return values


def _number(name: str, type_: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, type_, nullable=False, metadata={"description": description})
