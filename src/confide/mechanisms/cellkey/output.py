"""The tables of a release: every cell that is not zero, with all margins, in columns for people or in SDMX-CSV.

A cell that is not listed is published as zero, whether nobody is in it or noise made it so: which of the two cannot be
seen. ``_T`` stands for a variable that is summed over, as in SDMX. Figures do not add up: each cell has noise
of its own members.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.mechanisms.cellkey.counting import WEIGHT_UNIT, Figures
from confide.mechanisms.cellkey.programme import TOTAL_LABEL, DescribedTable, Table
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


# Released tables of the cell key method, read again from files: for each row its margin, its cell and its figures.


@dataclass(frozen=True, eq=False)
class Placed:
    """The rows of a file: the number of the margin (in the order of writing) and of the cell in it, and the figures."""

    margin: Integers
    cell: Integers
    count: Integers
    weighted: Integers | None
    """In millionths."""

    def equals(self, other: Placed) -> bool:
        """Whether both have the same rows in the same order."""
        pairs = [(self.margin, other.margin), (self.cell, other.cell), (self.count, other.count)]
        if (self.weighted is None) != (other.weighted is None):
            return False
        if self.weighted is not None and other.weighted is not None:
            pairs.append((self.weighted, other.weighted))
        return all(np.array_equal(one, two) for one, two in pairs)

    def of_margin(self, number: int) -> Placed:
        """The rows of one margin, if margins are in order."""
        at = slice(*np.searchsorted(self.margin, (number, number + 1)))
        weighted = None if self.weighted is None else self.weighted[at]
        return Placed(self.margin[at], self.cell[at], self.count[at], weighted)


class Unlike(ValueError):  # noqa: N818
    """What is not as the plan describes it: names no value but those of the plan."""


def read_people(path: Path, table: DescribedTable, *, weighted: bool) -> Placed:
    """A table for people, Parquet or CSV."""
    columns = [variable.column for variable in table.variables]
    numbers = {COUNT: pa.int64()} | ({WEIGHTED: pa.float64()} if weighted else {})
    return _place(_read(path, columns, numbers), table, columns, list(numbers))


def read_sdmx(path: Path, table: DescribedTable, *, weighted: bool) -> Placed:
    """A table in SDMX-CSV, whose data flow bears the table's name."""
    columns = [variable.column.upper() for variable in table.variables]
    numbers = {OBSERVATION: pa.int64()} | ({WEIGHTED_OBSERVATION: pa.float64()} if weighted else {})
    rows = _read(path, [DATAFLOW, *columns], numbers)
    flows = rows.column(DATAFLOW).unique().to_pylist()
    name = re.escape(table.name.upper().replace("-", "_"))
    if len(flows) > 1 or not all(re.fullmatch(rf"[A-Za-z][\w-]*:{name}\(1\.0\)", flow) for flow in flows):
        raise Unlike("the data flow is not that of the table")
    return _place(rows, table, columns, list(numbers))


def _read(path: Path, texts: list[str], numbers: dict[str, pa.DataType]) -> pa.Table:
    """All rows, with exactly these columns, in their order, and of these types."""
    wanted = dict.fromkeys(texts, pa.string()) | numbers
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
        types = {field.name: field.type for field in rows.schema}
        if types != wanted:
            raise Unlike("the columns are not those of the plan, or not of their types")
    else:
        options = pyarrow.csv.ConvertOptions(column_types=wanted, strings_can_be_null=False)
        try:
            rows = pyarrow.csv.read_csv(path, convert_options=options)
        except pa.ArrowInvalid:
            raise Unlike("the figures are not all numbers") from None
    if rows.column_names != list(wanted):
        raise Unlike("the columns are not those of the plan")
    if any(column.null_count for column in rows.columns):
        raise Unlike("a value is missing")
    return rows


def _place(rows: pa.Table, table: DescribedTable, columns: list[str], numbers: list[str]) -> Placed:
    kept: Integers = np.zeros(rows.num_rows, np.int64)
    cell: Integers = np.zeros(rows.num_rows, np.int64)
    for bit, (variable, column) in enumerate(zip(table.variables, columns, strict=True)):
        labels = pa.array([*variable.labels, TOTAL_LABEL], pa.string())
        level = pc.fill_null(pc.index_in(rows.column(column), labels), -1).to_numpy().astype(np.int64)
        if (level < 0).any():
            raise Unlike(f"{column} has a label that the plan lacks")
        inner = level < len(variable.labels)
        kept += np.where(inner, 1 << bit, 0)
        cell = np.where(inner, cell * len(variable.labels) + level, cell)
    count, *rest = (rows.column(name).to_numpy() for name in numbers)
    return Placed(_numbers(table, kept), cell, count, _millionths(rest[0]) if rest else None)


def _numbers(table: DescribedTable, kept: Integers) -> Integers:
    """From the variables that are kept to the number of the margin."""
    number = np.full(1 << len(table.variables), -1, np.int64)
    for position, margin in enumerate(table.margins):
        number[sum(1 << bit for bit, each in enumerate(table.variables) if each.name in margin)] = position
    found: Integers = number[kept]
    if (found < 0).any():
        raise Unlike("there is a margin that the plan lacks")
    return found


def _millionths(values: npt.NDArray[Any]) -> Integers:
    """Weighted figures as whole numbers; those of a release have no more than six decimals."""
    whole = np.rint(values * WEIGHT_UNIT)
    if not np.isfinite(values).all() or not np.array_equal(whole / WEIGHT_UNIT, values):
        raise Unlike("a weighted figure is not one of millionths")
    millionths: Integers = whole.astype(np.int64)
    return millionths
