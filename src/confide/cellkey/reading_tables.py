"""Released tables of the cell key method, read again from files: for each row its margin, its cell and its figures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.cellkey.counting import WEIGHT_UNIT
from confide.cellkey.described import DescribedTable
from confide.cellkey.output import COUNT, DATAFLOW, OBSERVATION, WEIGHTED, WEIGHTED_OBSERVATION
from confide.cellkey.programme import TOTAL_LABEL

Integers = npt.NDArray[np.int64]


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
