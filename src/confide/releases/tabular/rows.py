"""The rows of a table with labels: made, read again, put back into their cells, and as observations in SDMX-CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.errors import ConfideError
from confide.releases.tabular import table as tabular_table
from confide.schema import TOTAL, TOTAL_CODE

OBSERVATION = "OBS_VALUE"
SDMX = "sdmx-csv"


def plain_schema(table: tabular_table.Table, *figures: pa.Field) -> pa.Schema:
    """The columns of the rows of a table with labels."""
    geography = [
        tabular_table.text_column(tabular_table.LEVEL, "geolevel"),
        tabular_table.text_column(tabular_table.AREA, "code of the geounit or area"),
    ]
    variables = [
        tabular_table.text_column(variable.name, f"{variable.title}; {TOTAL_CODE}: all together")
        for variable in table.variables
    ]
    return pa.schema([*(geography if table.levels else ()), *variables, *figures])


def plain_rows(schema: pa.Schema, labels: Sequence[pa.Array], figures: Sequence[pa.Array]) -> pa.RecordBatch:
    """Rows of a table with labels."""
    return pa.RecordBatch.from_arrays([*labels, *figures], schema=schema)


def repeated(text: str, rows: int) -> pa.Array:
    """A column that has one text in every row."""
    return pa.array([text]).take(pa.array(np.zeros(rows, np.int64)))


def with_own_memory(table: pa.Table) -> pa.Table:
    """A table with the same rows, and nothing else in its memory.

    A slice has the memory of the table that it was cut from, a null the number below it, and a dictionary the values
    that no row has any more; pickle carries all three away. Rows that are taken one by one have memory of their own,
    with zero below each null, and a dictionary is made anew from the values in use.

    >>> people = pa.table({"block": pa.array(["b7", "b1", "b1"]).dictionary_encode()}).slice(1)
    >>> with_own_memory(people).column("block").chunk(0).dictionary.to_pylist()
    ['b1']
    """
    at = pa.array(np.arange(table.num_rows))
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            used = column.cast(kind.value_type).take(at).combine_chunks().dictionary_encode()
            column = pa.DictionaryArray.from_arrays(
                used.indices.cast(kind.index_type), used.dictionary, ordered=kind.ordered
            )
        else:
            column = column.take(at)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=table.schema)


# Rows in: a released file read again, and every row put back into its cell.


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table: the number of the margin (in the order of writing), of the cell in it, and the figures."""

    margin: Integers
    cell: Integers
    figures: Mapping[str, npt.NDArray[Any]]
    level: Integers | None = None
    area: pa.Array | None = None
    """The codes of areas, on tables of a geography."""

    @property
    def count(self) -> Integers:
        """The counts."""
        return self.figures[tabular_table.COUNT]

    def equals(self, other: TableRows) -> bool:
        """Whether both have the same rows in the same order."""
        return (
            self.figures.keys() == other.figures.keys()
            and all(np.array_equal(*pair) for pair in zip(self._numbers(), other._numbers(), strict=True))
            and (self.area is None or (other.area is not None and self.area.equals(other.area)))
        )

    def where(self, chosen: slice | npt.NDArray[np.bool_]) -> TableRows:
        """Some of the rows, by a slice or a flag for each row."""
        at = np.arange(len(self.cell))[chosen]
        return replace(
            self,
            margin=self.margin[at],
            cell=self.cell[at],
            figures={name: values[at] for name, values in self.figures.items()},
            level=None if self.level is None else self.level[at],
            area=None if self.area is None else self.area.take(pa.array(at)),
        )

    def of_margin(self, number: int) -> TableRows:
        """The rows of one margin, if margins are in order."""
        return self.where(slice(*np.searchsorted(self.margin, (number, number + 1))))

    def on_level(self, place: int) -> TableRows:
        """The rows of one level, by its place among the levels of the table."""
        assert self.level is not None
        return self.where(self.level == place)

    def in_order(self) -> bool:
        """Whether each cell is there once, in order: level by level, by the codes of areas, by margin, by cell."""
        keys = [self.margin, self.cell]
        if self.level is not None and self.area is not None:
            rank = pc.rank(self.area, tiebreaker="dense") if len(self.area) else pa.array([], pa.uint64())
            keys = [self.level, rank.to_numpy().astype(np.int64), *keys]
        steps = np.diff(np.stack(keys), axis=1)
        # The first key that changes from a row to the next must grow; where none does, a cell is there twice.
        first = (steps != 0).argmax(axis=0)
        return bool((np.take_along_axis(steps, first[None], axis=0) > 0).all())

    def _numbers(self) -> Iterator[npt.NDArray[Any]]:
        yield from (self.margin, self.cell, *self.figures.values())
        if self.level is not None:
            yield self.level


def read_file(path: Path, types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """All rows of a file as they are written; of a CSV file, which has no types, all columns that have none as text."""
    if path.suffix == ".parquet":
        return pq.read_table(path).replace_schema_metadata(None)
    texts: dict[str, pa.DataType] = dict.fromkeys(pyarrow.csv.open_csv(path).schema.names, pa.string())
    options = pyarrow.csv.ConvertOptions(column_types=texts | dict(types or {}), strings_can_be_null=False)
    return pyarrow.csv.read_csv(path, convert_options=options)


def read_columns(path: Path, types: Mapping[str, pa.DataType], *, gaps: bool = False) -> pa.Table:
    """All rows of a file with exactly these columns, in their order and of these types; without gaps, none empty."""
    try:
        rows = read_file(path, types)
    except pa.ArrowInvalid:
        raise tabular_table.UnlikePlanError("the figures are not all numbers") from None
    if path.suffix == ".parquet" and {field.name: field.type for field in rows.schema} != dict(types):
        raise tabular_table.UnlikePlanError("the columns are not those of the plan, or not of their types")
    if rows.column_names != list(types):
        raise tabular_table.UnlikePlanError("the columns are not those of the plan")
    if not gaps and any(column.null_count for column in rows.columns):
        raise tabular_table.UnlikePlanError("a value is missing")
    return rows


def placed_rows(rows: pa.Table, table: tabular_table.Table, figures: Iterable[str]) -> TableRows:
    """Rows with labels, each put back into its cell, with the figures of these columns."""
    columns: Sequence[str] = table.columns
    level = area = None
    if table.levels:
        level = _places(rows.column(columns[0]), table.levels, columns[0])
        area = rows.column(columns[1]).combine_chunks()
        columns = columns[2:]
    kept: Integers = np.zeros(rows.num_rows, np.int64)
    cell: Integers = np.zeros(rows.num_rows, np.int64)
    for bit, (variable, column) in enumerate(zip(table.variables, columns, strict=True)):
        place = _places(rows.column(column), table.label_texts(variable), column)
        kept += np.where(place > 0, 1 << bit, 0)
        cell = np.where(place > 0, cell * variable.size + place - 1, cell)
    values = {name: rows.column(name).to_numpy() for name in figures}
    return TableRows(_margin_numbers(table, kept), cell, values, level, area)


def _places(column: pa.ChunkedArray, texts: Sequence[str], name: str) -> Integers:
    indices = pc.index_in(column, pa.array(texts, pa.string()))
    if indices.null_count:
        raise tabular_table.UnlikePlanError(f"{name} has a label that the plan lacks")
    places: Integers = indices.to_numpy().astype(np.int64)
    return places


def _margin_numbers(table: tabular_table.Table, kept: Integers) -> Integers:
    """From the variables that a row keeps, a bit for each, to the number of the margin."""
    number = np.full(1 << len(table.variables), -1, np.int64)
    for position, margin in enumerate(table.margins):
        number[sum(1 << bit for bit, variable in enumerate(table.variables) if variable in margin.variables)] = position
    numbers: Integers = number[kept]
    if (numbers < 0).any():
        raise tabular_table.UnlikePlanError("there is a margin that the plan lacks")
    return numbers


class RowsInOrder:
    """Takes rows from an iterator of tables; ``empty`` is a table without rows, for when there is none."""

    def __init__(self, batches: Iterator[pa.Table], empty: pa.Table):
        self._batches = batches
        self._empty = empty
        self._held: list[pa.Table] = []
        self._rows = 0

    def take(self, rows: int) -> pa.Table:
        """The next ``rows`` rows, or as many as there are."""
        while self._rows < rows:
            batch = next(self._batches, None)
            if batch is None:
                break
            self._held.append(batch)
            self._rows += batch.num_rows
        table = pa.concat_tables(self._held) if self._held else self._empty
        taken, remaining = table.slice(0, rows), table.slice(rows)
        self._held, self._rows = [remaining], remaining.num_rows
        return taken


# Tables in SDMX-CSV 2.0, written and read.
#
# The format has a row for each observation, under the codes of the code lists in ``sdmx/structure.json``:
#
#     STRUCTURE, STRUCTURE_ID, ACTION, dimensions, OBS_VALUE, attributes
#
# A dimension is the level, the area, or a variable. Heads and values of dimensions have identifier and name, such as
# ``01: North`` (the form ``labels=both`` of the standard): so no program takes ``01`` for a number. Identifiers are the
# codes as far as SDMX takes them (letters, digits, ``_ @ $ -``), with ``_`` in place of what it does not take. The
# figure of a table is the observation; what is beside it (noise margin, variance) are its attributes. A status
# becomes two attributes with the codes of SDMX: ``OBS_STATUS`` (``A`` normal, ``Q`` missing because it is suppressed)
# and ``CONF_STATUS`` (``F`` free, ``C`` confidential; for whose sake is not said). References: SDMX 3.0, section 3
# (SDMX-CSV 2.0).


STRUCTURE, STRUCTURE_ID, ACTION = "STRUCTURE", "STRUCTURE_ID", "ACTION"
BETWEEN = ": "
"""Stands between identifier and name."""
KIND = "datastructure"
"""What rows refer to: a table has a data structure of its own."""
INFORMATION = "I"
"""The action of rows that inform: whoever loads them decides whether they replace others."""
OBSERVATION_STATUS, CONFIDENTIALITY = "OBS_STATUS", "CONF_STATUS"
STATUS_CODES: Mapping[str, Mapping[str, str]] = {
    OBSERVATION_STATUS: {tabular_table.PUBLISHED: "A", tabular_table.SUPPRESSED: "Q"},
    CONFIDENTIALITY: {tabular_table.PUBLISHED: "F", tabular_table.SUPPRESSED: "C"},
}
"""For each attribute that a status becomes its codes."""
_NO_CODE, _NO_NAME = re.compile(r"[^A-Za-z0-9_@$-]"), re.compile(r"[^A-Za-z0-9_]")


def flow_name(name: str) -> str:
    """The identifier of a table in SDMX."""
    return name.upper().replace("-", "_")


@cache
def sdmx_codes(codes: tuple[str, ...]) -> tuple[str, ...]:
    """The identifiers of codes in SDMX: the codes themselves where they can be, numbers where two would be one.

    >>> sdmx_codes(("0-14", "65+")), sdmx_codes(("a+", "a-", "a "))
    (('0-14', '65_'), ('a_', 'a-', '3'))
    """
    names: list[str] = []
    for number, code in enumerate(codes, start=1):
        name = _NO_CODE.sub("_", code) or str(number)
        names.append(name if name not in (*names, TOTAL_CODE) else str(number))
    return tuple(names) if len(set(names)) == len(names) else tuple(str(at) for at in range(1, len(codes) + 1))


def sdmx_name(column: str) -> str:
    """The identifier of a column in SDMX: ``age:five-year`` is ``AGE_FIVE_YEAR``."""
    name = _NO_NAME.sub("_", column.upper())
    return name if name[:1].isalpha() else f"V_{name}"


def sdmx_columns(columns: tabular_table.CodedColumns, figures: Sequence[pa.Field]) -> pa.Schema:
    """The columns of a table in SDMX-CSV 2.0. The first figure is the observation, the others are attributes."""
    titles = {variable.name: variable.title for variable in columns.variables}
    dimensions = [f"{sdmx_name(name)}{BETWEEN}{titles.get(name) or name}" for name in columns.keys]
    text = [STRUCTURE, STRUCTURE_ID, ACTION, *dimensions]
    first, *others = figures
    fields = [pa.field(OBSERVATION, first.type)]
    for each in others:
        fields += [pa.field(name, each.type) for name in sdmx_attributes(each.name)]
    return pa.schema([*(pa.field(name, pa.string(), nullable=False) for name in text), *fields])


def sdmx_attributes(figure: str) -> list[str]:
    """The attributes that a column of figures becomes: one of its name, or those of a status."""
    return [*STATUS_CODES] if figure == tabular_table.STATUS else [sdmx_name(figure)]


def sdmx_batches(
    rows: Iterator[pa.RecordBatch],
    columns: tabular_table.CodedColumns,
    schema: pa.Schema,
    agency: str,
    table: str,
    names: tabular_table.AreaNames | None,
) -> Iterator[pa.RecordBatch]:
    """Rows with labels as observations."""
    for batch in rows:
        texts = [KIND, f"{agency}:{flow_name(table)}(1.0)", INFORMATION]
        arrays = [repeated(text, batch.num_rows) for text in texts]
        if columns.areas:
            level, area = (
                tabular_table.of_type(batch.column(name), pa.string())
                for name in (tabular_table.LEVEL, tabular_table.AREA)
            )
            named = area if names is None else names.column(level, area)
            named = pc.if_else(pc.equal(named, ""), area, named)
            arrays += [_both(level, level), _both(area, named)]
        for variable in columns.variables:
            place = pc.index_in(batch.column(variable.name), pa.array([TOTAL_CODE, *variable.known_by], pa.string()))
            arrays.append(pa.array(_both_texts(variable), pa.string()).take(place))
        for name in [name for name in batch.schema.names if name not in columns.keys]:
            figures = batch.column(name)
            arrays += (
                [_translated(figures, codes) for codes in STATUS_CODES.values()]
                if name == tabular_table.STATUS
                else [figures]
            )
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _both(codes: pa.Array, names: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(codes, names, BETWEEN)


def _translated(texts: pa.Array | pa.ChunkedArray, codes: Mapping[str, str]) -> pa.Array | pa.ChunkedArray:
    """Each text by its code; none for one that has no code."""
    return pc.take(pa.array(list(codes.values()), pa.string()), pc.index_in(texts, pa.array(list(codes), pa.string())))


def _both_texts(variable: tabular_table.CodedVariable) -> list[str]:
    """For the total and each group its identifier and its name."""
    pairs = zip(sdmx_codes(variable.codes), variable.labels, strict=True)
    return [f"{TOTAL_CODE}{BETWEEN}{TOTAL}", *(f"{code}{BETWEEN}{label}" for code, label in pairs)]


def check_area_codes(codes: Iterable[str]) -> None:
    """Refuses codes of areas that could not be told from their names in SDMX-CSV."""
    wrong = next((code for code in codes if BETWEEN in code), None)
    if wrong is not None:
        raise ConfideError("sdmx-code", found=repr(wrong))


def read_observations(
    path: Path,
    table: str,
    columns: tabular_table.CodedColumns,
    figures: Mapping[str, pa.DataType],
    *,
    gaps: bool = False,
) -> pa.Table:
    """A file of observations, as rows with labels. Raises :class:`UnlikePlanError`."""
    fields = [pa.field(name, kind) for name, kind in figures.items()]
    schema = sdmx_columns(columns, fields)
    rows = read_columns(path, {field.name: field.type for field in schema}, gaps=gaps)
    check_flow(rows.column(STRUCTURE_ID), table)
    for name, text in ((STRUCTURE, KIND), (ACTION, INFORMATION)):
        if any(other != text for other in rows.column(name).unique().to_pylist()):
            raise tabular_table.UnlikePlanError(f"{name} is not {text}")
    if tabular_table.STATUS in figures:
        rows = _with_status(rows)
    rows = rows.select(range(3, len(rows.column_names))).rename_columns([*columns.keys, *figures])
    for name in (tabular_table.LEVEL, tabular_table.AREA) if columns.areas else ():
        codes = pc.list_element(pc.split_pattern(rows.column(name), BETWEEN, max_splits=1), 0)
        rows = rows.set_column(rows.column_names.index(name), name, codes)
    for variable in columns.variables:
        at = rows.column_names.index(variable.name)
        place = pc.index_in(rows.column(at), pa.array(_both_texts(variable), pa.string()))
        if place.null_count:
            raise tabular_table.UnlikePlanError(f"{variable.name} has a code that the plan lacks")
        known_by = pa.array([TOTAL_CODE, *variable.known_by], pa.string())
        rows = rows.set_column(at, variable.name, pc.take(known_by, place))
    return rows


def check_flow(column: pa.ChunkedArray, table: str) -> None:
    """Raises unless all rows are of the data flow of a table."""
    flows = column.unique().to_pylist()
    known = rf"[A-Za-z][\w-]*:{re.escape(flow_name(table))}\(1\.0\)"
    if len(flows) > 1 or not all(re.fullmatch(known, flow) for flow in flows):
        raise tabular_table.UnlikePlanError("the data flow is not that of the table")


def _with_status(rows: pa.Table) -> pa.Table:
    """Observations with one column of statuses in place of the attributes of SDMX, which must agree."""
    statuses = [
        _translated(rows.column(name), {code: status for status, code in codes.items()})
        for name, codes in STATUS_CODES.items()
    ]
    if any(status.null_count or not status.equals(statuses[0]) for status in statuses):
        raise tabular_table.UnlikePlanError(
            "a status is none that a cell can have, or the two of an observation do not agree"
        )
    at = rows.column_names.index(OBSERVATION_STATUS)
    return rows.drop_columns([CONFIDENTIALITY]).set_column(at, tabular_table.STATUS, statuses[0])
