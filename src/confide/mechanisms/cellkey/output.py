"""The tables of a release: every cell that is not zero, with all margins, plain or in SDMX-CSV.

A cell that is not listed is published as zero, whether nobody is in it or noise made it so: which of the two cannot be
seen. Figures do not add up: each cell has noise of its own members.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.mechanisms.cellkey.counting import WEIGHT_UNIT, PerturbedFigures
from confide.releases import tabular
from confide.releases.tabular import COUNT, OBSERVATION, SDMX, QueryTable, Table, TableRows, UnlikePlanError

Integers = npt.NDArray[np.int64]
WEIGHTED, WEIGHTED_OBSERVATION = "weighted", "OBS_VALUE_WEIGHTED"


def plain_schema(table: QueryTable, *, weighted: bool) -> pa.Schema:
    """The columns of a table for its readers."""
    count = tabular.figure_column(COUNT, "records, perturbed; cells that are not listed are 0")
    mean = tabular.figure_column(WEIGHTED, "the perturbed count times the cell's mean weight", pa.float64())
    return tabular.plain_schema(table.layout, count, *([mean] if weighted else ()))


def sdmx_schema(table: QueryTable, *, weighted: bool) -> pa.Schema:
    """The columns of SDMX-CSV."""
    mean = tabular.figure_column(WEIGHTED_OBSERVATION, kind=pa.float64())
    figures = [tabular.figure_column(OBSERVATION), *([mean] if weighted else ())]
    return tabular.sdmx_schema(table.layout.columns, *figures)


def plain_rows(table: QueryTable, figures: Mapping[str, PerturbedFigures]) -> Iterator[pa.RecordBatch]:
    """The rows of a table, margin by margin, the total first."""
    for labels, values in _columns(table, figures):
        yield tabular.plain_rows(plain_schema(table, weighted=len(values) > 1), labels, values)


def sdmx_rows(table: QueryTable, figures: Mapping[str, PerturbedFigures], agency: str) -> Iterator[pa.RecordBatch]:
    """The same rows as SDMX-CSV."""
    for labels, values in _columns(table, figures):
        schema = sdmx_schema(table, weighted=len(values) > 1)
        yield tabular.sdmx_rows(schema, agency, table.name, labels, values)


def _columns(
    table: QueryTable, figures: Mapping[str, PerturbedFigures]
) -> Iterator[tuple[list[pa.Array], list[pa.Array]]]:
    """For each margin the labels and the figures of its cells that are not zero."""
    layout = table.layout
    for margin in layout.margins:
        published = figures[margin.name]
        cells = np.flatnonzero(published.count)
        values = [pa.array(published.count[cells])]
        if published.weighted is not None:
            values.append(pa.array(published.weighted[cells] / WEIGHT_UNIT))
        yield layout.labels(layout.places(margin, cells)), values


def read_table(path: Path, format_: str, table: Table, *, weighted: bool) -> TableRows:
    """A released table in one of its formats; weighted figures in millionths. Raises :class:`UnlikePlanError`."""
    if format_ == SDMX:
        columns = {COUNT: (OBSERVATION, pa.int64()), WEIGHTED: (WEIGHTED_OBSERVATION, pa.float64())}
        rows = tabular.read_sdmx(path, table, columns if weighted else {COUNT: columns[COUNT]})
    else:
        rows = tabular.read_plain(path, table, {COUNT: pa.int64()} | ({WEIGHTED: pa.float64()} if weighted else {}))
    if not weighted:
        return rows
    return replace(rows, figures={COUNT: rows.count, WEIGHTED: _millionths(rows.figures[WEIGHTED])})


def _millionths(values: npt.NDArray[Any]) -> Integers:
    """Weighted figures as whole numbers; those of a release have no more than six decimals."""
    scaled = np.rint(values * WEIGHT_UNIT)
    if not np.isfinite(values).all() or not np.array_equal(scaled / WEIGHT_UNIT, values):
        raise UnlikePlanError("a weighted figure is not one of millionths")
    millionths: Integers = scaled.astype(np.int64)
    return millionths
