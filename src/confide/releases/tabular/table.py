"""A table: its variables, margins and labels, from a query of the schema or from the plan of a release."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.errors import ConfideError, Finding, Place
from confide.releases.folder import ReleaseWriter
from confide.schema import ALL, TOTAL, TOTAL_CODE, Attribute, CrossClassification, Query, Recode

Integers = npt.NDArray[np.int64]

LEVEL, AREA, COUNT = "level", "area", "count"
DATAFLOW, OBSERVATION = "DATAFLOW", "OBS_VALUE"
SDMX = "sdmx-csv"
FIRST, NAMED = 1, 2
"""Layouts of tables: columns under the names of attributes; or under those of the variables that the spec names."""
_NO_SDMX = re.compile(r"[^A-Z0-9_-]")


@dataclass(frozen=True)
class TableVariable:
    """A variable of a table: its name in queries, the column that it has, and the labels of its groups."""

    name: str
    column: str
    labels: tuple[str, ...]
    title: str = ""
    """What the column is described by."""

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.labels)


@dataclass(frozen=True)
class Margin(CrossClassification[TableVariable]):
    """The cross-classification of some variables of a table."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table as its rows are laid out: margins in the order of writing, the total first and the table itself last.

    >>> sex = TableVariable("sex", "sex", ("male", "female"))
    >>> table = Table("people", "People", (sex,), (Margin(()), Margin((sex,))))
    >>> [column.to_pylist() for column in table.labels(table.unit_places)]
    [['all', 'male', 'female']]
    """

    name: str
    title: str
    variables: tuple[TableVariable, ...]
    margins: tuple[Margin, ...]
    levels: tuple[str, ...] = ()
    """Geolevels and areas; none: a table without a geography."""
    total_label: str = ALL
    version: int = FIRST
    """How the plan describes the table: see :meth:`as_dict`."""

    @property
    def cells(self) -> int:
        """The number of cells with all margins, on tables of a geography for one area."""
        return sum(margin.cells for margin in self.margins)

    @property
    def inner(self) -> Margin:
        """The cross-classification of all variables."""
        return self.margins[-1]

    @property
    def columns(self) -> list[str]:
        """The columns that say which cell a row is."""
        return [*((LEVEL, AREA) if self.levels else ()), *(variable.column for variable in self.variables)]

    @property
    def sdmx_columns(self) -> list[str]:
        """The same in SDMX-CSV, whose names are of letters, digits, hyphens and low lines: ``AGE_BROAD``."""
        if self.version == FIRST:
            return [name.upper() for name in self.columns]
        return [_NO_SDMX.sub("_", name.upper()) for name in self.columns]

    def places(self, margin: Margin, cells: Integers) -> list[Integers]:
        """The labels of cells of a margin as numbers, one array for each variable: 0 for the total label, then the
        groups from 1 on."""
        within = dict(zip(margin.variables, np.unravel_index(cells, margin.shape) if margin.shape else (), strict=True))
        return [
            within[variable].astype(np.int64) + 1 if variable in within else np.zeros(len(cells), np.int64)
            for variable in self.variables
        ]

    def mixed_places(self, margin: Integers, cell: Integers) -> list[Integers]:
        """The same for rows of several margins: the number of the margin and of the cell of each row."""
        columns = [np.zeros(len(cell), np.int64) for _ in self.variables]
        for number, of_rows in enumerate(self.margins):
            rows = np.flatnonzero(margin == number)
            for column, places in zip(columns, self.places(of_rows, cell[rows]), strict=True):
                column[rows] = places
        return columns

    @cached_property
    def unit_places(self) -> list[Integers]:
        """The same for every cell of every margin, in order: the rows of one area."""
        parts = [self.places(margin, np.arange(margin.cells)) for margin in self.margins]
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def label_texts(self, variable: TableVariable) -> list[str]:
        """The total label, and those of the groups."""
        return [self.total_label, *variable.labels]

    def labels(self, places: Sequence[Integers]) -> list[pa.Array]:
        """Places as texts, one column for each variable."""
        return [
            pa.array(self.label_texts(variable), pa.string()).take(pa.array(place))
            for variable, place in zip(self.variables, places, strict=True)
        ]

    def projected(self, margin: Margin, cells: Integers) -> Integers:
        """The cells of a margin that cells of the table itself are parts of."""
        return projected(self.inner, margin, cells)

    def as_dict(self, measurements: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The table in a plan.

        In the layout ``NAMED`` variables stand in the order and under the names of the spec, and margins are a list,
        the total first. In the first layout, tables of a geography have a mapping of margins, to the names of their
        measurements where these differ; others a list of them, the table itself first.
        """
        named: dict[str, Any] = {"name": self.name, "title": self.title}
        if self.version == NAMED:
            return named | {
                "layout": NAMED,
                "levels": list(self.levels),
                "variables": [{"name": variable.name, "labels": list(variable.labels)} for variable in self.variables],
                "margins": [margin.name for margin in self.margins],
            }
        if not self.levels:
            return named | {
                "variables": {variable.name: list(variable.labels) for variable in self.variables},
                "columns": [variable.column for variable in self.variables],
                "margins": [margin.name for margin in reversed(self.margins)],
            }
        return named | {
            "levels": list(self.levels),
            "variables": {variable.column: list(variable.labels) for variable in self.variables},
            "margins": {margin.name: (measurements or {}).get(margin.name, margin.name) for margin in self.margins},
        }

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Table:
        """The table that a plan describes, as :meth:`as_dict` has written it."""
        if values.get("layout") == NAMED:
            return cls._read_named(values)
        margins = values["margins"]
        levels = tuple(values.get("levels", ()))
        order = list(margins) if levels else list(reversed(margins))
        names = _names(order[-1])
        columns = values.get("columns") or list(values["variables"])
        variables = tuple(
            TableVariable(name, column, tuple(labels), name)
            for name, column, labels in zip(names, columns, values["variables"].values(), strict=True)
        )
        by_name = {variable.name: variable for variable in variables}
        return cls(
            values["name"],
            values["title"],
            variables,
            tuple(Margin(tuple(by_name[part] for part in _names(name))) for name in order),
            levels,
            ALL if levels else TOTAL_CODE,
        )

    @classmethod
    def _read_named(cls, values: Mapping[str, Any]) -> Table:
        by_name = {
            part["name"]: TableVariable(part["name"], part["name"], tuple(part["labels"]), part["name"])
            for part in values["variables"]
        }
        margins = tuple(Margin(tuple(by_name[part] for part in _names(name))) for name in values["margins"])
        variables, levels = tuple(by_name.values()), tuple(values["levels"])
        return cls(values["name"], values["title"], variables, margins, levels, TOTAL_CODE, NAMED)


def _names(query: str) -> list[str]:
    """The variables that the name of a query has."""
    return [] if query == TOTAL else query.split("*")


def projected(larger: Margin | Query, margin: Margin | Query, cells: Integers) -> Integers:
    """The cells of a margin that cells of a larger cross-classification are parts of.

    Args:
        larger: The cross-classification that has all variables of the margin.
        margin: The margin.
        cells: Numbers of cells of ``larger``, one dimension.

    Returns:
        For each the number of the cell of ``margin``, in the same shape.
    """
    kept = {variable.name for variable in margin.variables}
    places = np.unravel_index(cells, larger.shape) if larger.shape else ()
    result: Integers = np.zeros(len(cells), np.int64)
    variables: Sequence[TableVariable | Recode] = larger.variables
    for variable, place in zip(variables, places, strict=True):
        if variable.name in kept:
            result = result * variable.size + place
    return result


@dataclass(frozen=True, eq=False)
class QueryTable:
    """A table as a spec asks for it: the queries that count its margins, in the order of writing, and their layout."""

    name: str
    title: str
    query: Query
    margins: tuple[Query, ...]
    levels: tuple[str, ...] = ()
    version: int = FIRST

    @cached_property
    def layout(self) -> Table:
        """The table without what counts it: names, labels and margins."""
        named = self.version == NAMED
        variables = {
            recode.name: TableVariable(
                recode.name, recode.name if named else recode.attribute.name, tuple(recode.labels), recode.name
            )
            for recode in self.query.variables
        }
        margins = tuple(Margin(tuple(variables[recode.name] for recode in query.variables)) for query in self.margins)
        total = ALL if self.levels and not named else TOTAL_CODE
        return Table(self.name, self.title, tuple(variables.values()), margins, self.levels, total, self.version)


def too_large(cells: int, most: int, *, area: bool = False, margins: bool = False) -> ConfideError:
    """The error for a table that crosses what should not be crossed."""
    return ConfideError(
        "table-too-large",
        "the table has too many cells" + (" for one area" if area else ""),
        found=f"{cells:,} cells" + (" with its margins" if margins else ""),
        expected=f"at most {most:,}",
        remedy="use coarser recodes, or split the table",
    )


def check_sdmx_columns(table: Table) -> None:
    """Refuses two variables that would have one column in SDMX-CSV, such as ``age:broad`` and ``age_broad``."""
    times = Counter(table.sdmx_columns)
    twice = [name for name, column in zip(table.columns, table.sdmx_columns, strict=True) if times[column] > 1]
    if twice:
        raise ConfideError(
            "same-column",
            "two variables of the table would have one column in SDMX-CSV",
            found=", ".join(twice),
            expected="names that differ in letters and digits",
            remedy="rename an attribute or a recode in the schema",
        )


def check_column_names(attributes: Iterable[Attribute], columns: Iterable[str]) -> None:
    """Refuses an attribute that is called as a column of ours, whatever the case: SQL and SDMX-CSV know but one.

    Args:
        attributes: Those that have a column in some table.
        columns: The other columns that tables of the mechanism have, in any format.
    """
    reserved = {name.lower() for name in columns}
    for attribute in attributes:
        if attribute.name.lower() in reserved:
            raise ConfideError(
                "reserved-name",
                f"an attribute cannot be called {attribute.name!r}: tables have a column of that name",
                found=attribute.name,
                expected="a name other than " + ", ".join(sorted(reserved)),
                remedy="rename the attribute in the schema, and map it in [data] columns",
            )


def incomplete_recode(name: str, why: str) -> ConfideError:
    """The error for a recode that leaves somebody out."""
    return ConfideError(
        "incomplete-recode",
        f"the recode {name!r} leaves levels out{why}",
        found=name,
        expected="a recode that puts every level into a group",
        remedy="add a group for the rest to the schema file",
    )


def placed(error: ConfideError, where: Place) -> list[Finding]:
    """The findings of an error, at the place in the spec that they are about."""
    return [replace(finding, where=where) for finding in error.findings]


# The rows of a table: written plain and in SDMX-CSV, read again, and every row put back into its cell.


TOTAL_IN_WORDS = {ALL: f"'{ALL}' in a margin over it", TOTAL_CODE: f"{TOTAL_CODE}: all together"}


class UnlikePlanError(ValueError):
    """A file is not as the plan describes it. The message names no value but those of the plan."""


def text_column(name: str, description: str) -> pa.Field:
    """A column of labels or codes."""
    return pa.field(name, pa.string(), nullable=False, metadata={"description": description})


def figure_column(name: str, description: str = "", kind: pa.DataType | None = None, *, gaps: bool = False) -> pa.Field:
    """A column of figures, whole numbers unless another kind is given; ``gaps``: with cells that have none."""
    return pa.field(name, kind or pa.int64(), nullable=gaps, metadata={"description": description})


def plain_schema(table: Table, *figures: pa.Field) -> pa.Schema:
    """The columns of a table for its readers."""
    geography = [text_column(LEVEL, "geolevel"), text_column(AREA, "code of the geounit or area")]
    variables = [
        text_column(variable.column, f"{variable.title}; {TOTAL_IN_WORDS[table.total_label]}")
        for variable in table.variables
    ]
    return pa.schema([*(geography if table.levels else ()), *variables, *figures])


def sdmx_schema(columns: Iterable[str], *figures: pa.Field) -> pa.Schema:
    """The columns of SDMX-CSV 1.0: the data flow, a column for each dimension, the figures."""
    return pa.schema([text_column(DATAFLOW, ""), *(text_column(name.upper(), "") for name in columns), *figures])


def plain_rows(schema: pa.Schema, labels: Sequence[pa.Array], figures: Sequence[pa.Array]) -> pa.RecordBatch:
    """Rows of a table for its readers."""
    return pa.RecordBatch.from_arrays([*labels, *figures], schema=schema)


def sdmx_rows(
    schema: pa.Schema, agency: str, name: str, labels: Sequence[pa.Array], figures: Sequence[pa.Array]
) -> pa.RecordBatch:
    """The same rows as SDMX-CSV: each names the data flow of the table ``name``."""
    flow = repeated(f"{agency}:{_flow(name)}(1.0)", len(figures[0]))
    return plain_rows(schema, [flow, *labels], figures)


def repeated(text: str, rows: int) -> pa.Array:
    """A column that has one text in every row."""
    return pa.array([text]).take(pa.array(np.zeros(rows, np.int64)))


def _flow(name: str) -> str:
    return name.upper().replace("-", "_")


Batches = tuple[pa.Schema, Iterable[pa.RecordBatch]]


def publish(
    release: ReleaseWriter, name: str, title: str, formats: Sequence[str], plain: Batches, sdmx: Batches | None = None
) -> None:
    """Writes a table in every format asked for: plain ones in one pass over its rows, SDMX-CSV in another."""
    readers = [format_ for format_ in formats if format_ != SDMX]
    if readers:
        release.table(name, *plain, readers, title)
    if SDMX in formats and sdmx is not None:
        release.text(f"sdmx/{name}", *sdmx, title, ",", quoted=True)


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
        return self.figures[COUNT]

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
        """Whether each cell stands once, in order: level by level, by the codes of areas, by margin, by cell."""
        keys = [self.margin, self.cell]
        if self.level is not None and self.area is not None:
            rank = pc.rank(self.area, tiebreaker="dense") if len(self.area) else pa.array([], pa.uint64())
            keys = [self.level, rank.to_numpy().astype(np.int64), *keys]
        steps = np.diff(np.stack(keys), axis=1)
        # The first key that changes from a row to the next must grow; where none does, a cell stands twice.
        first = (steps != 0).argmax(axis=0)
        return bool((np.take_along_axis(steps, first[None], axis=0) > 0).all())

    def _numbers(self) -> Iterator[npt.NDArray[Any]]:
        yield from (self.margin, self.cell, *self.figures.values())
        if self.level is not None:
            yield self.level


def read_columns(path: Path, types: Mapping[str, pa.DataType], *, gaps: bool = False) -> pa.Table:
    """All rows of a file with exactly these columns, in their order and of these types; without gaps, none empty."""
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
        if {field.name: field.type for field in rows.schema} != dict(types):
            raise UnlikePlanError("the columns are not those of the plan, or not of their types")
    else:
        options = pyarrow.csv.ConvertOptions(column_types=dict(types), strings_can_be_null=False)
        try:
            rows = pyarrow.csv.read_csv(path, convert_options=options)
        except pa.ArrowInvalid:
            raise UnlikePlanError("the figures are not all numbers") from None
    if rows.column_names != list(types):
        raise UnlikePlanError("the columns are not those of the plan")
    if not gaps and any(column.null_count for column in rows.columns):
        raise UnlikePlanError("a value is missing")
    return rows


def read_plain(path: Path, table: Table, figures: Mapping[str, pa.DataType]) -> TableRows:
    """A table for its readers, Parquet or CSV.

    Args:
        path: The file.
        table: The table as the plan describes it.
        figures: The columns of figures, with their types.

    Returns:
        Its rows in the order of the file, with the figures under the names of their columns.

    Raises:
        UnlikePlanError: Columns, labels or margins are not those of the plan.
    """
    rows = read_columns(path, dict.fromkeys(table.columns, pa.string()) | dict(figures))
    return _placed(rows, table, table.columns, {name: name for name in figures})


def read_sdmx(path: Path, table: Table, figures: Mapping[str, tuple[str, pa.DataType]]) -> TableRows:
    """A table in SDMX-CSV, whose data flow bears the table's name; ``figures`` has for each the column and its type."""
    columns = table.sdmx_columns
    rows = read_columns(path, dict.fromkeys([DATAFLOW, *columns], pa.string()) | dict(figures.values()))
    check_flow(rows, table.name)
    return _placed(rows, table, columns, {name: column for name, (column, _) in figures.items()})


def check_flow(rows: pa.Table, name: str) -> None:
    """Raises unless all rows are of the data flow of the table ``name``."""
    flows = rows.column(DATAFLOW).unique().to_pylist()
    pattern = rf"[A-Za-z][\w-]*:{re.escape(_flow(name))}\(1\.0\)"
    if len(flows) > 1 or not all(re.fullmatch(pattern, flow) for flow in flows):
        raise UnlikePlanError("the data flow is not that of the table")


def _placed(rows: pa.Table, table: Table, columns: Sequence[str], figures: Mapping[str, str]) -> TableRows:
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
    values = {name: rows.column(column).to_numpy() for name, column in figures.items()}
    return TableRows(_margin_numbers(table, kept), cell, values, level, area)


def _places(column: pa.ChunkedArray, texts: Sequence[str], name: str) -> Integers:
    indices = pc.index_in(column, pa.array(texts, pa.string()))
    if indices.null_count:
        raise UnlikePlanError(f"{name} has a label that the plan lacks")
    places: Integers = indices.to_numpy().astype(np.int64)
    return places


def _margin_numbers(table: Table, kept: Integers) -> Integers:
    """From the variables that a row keeps, a bit for each, to the number of the margin."""
    number = np.full(1 << len(table.variables), -1, np.int64)
    for position, margin in enumerate(table.margins):
        number[sum(1 << bit for bit, variable in enumerate(table.variables) if variable in margin.variables)] = position
    numbers: Integers = number[kept]
    if (numbers < 0).any():
        raise UnlikePlanError("there is a margin that the plan lacks")
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
        return taken.combine_chunks()
