"""A table: its variables, margins and labels, from a query of the schema or from the plan of a release."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.errors import ConfideError, Finding, Place
from confide.schema import Query, Recode
from confide.schema.schema import TOTAL

Integers = npt.NDArray[np.int64]

ALL = "all"
"""The total label of tables with a geography."""
TOTAL_CODE = "_T"
"""The total label of SDMX."""

LEVEL, AREA, COUNT = "level", "area", "count"
DATAFLOW, OBSERVATION = "DATAFLOW", "OBS_VALUE"
SDMX = "sdmx-csv"


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
class Margin:
    """The cross-classification of some variables of a table, cells in C order (the last variable runs fastest)."""

    variables: tuple[TableVariable, ...]

    @property
    def name(self) -> str:
        """The name of the query: ``sex*age:five-year``, or ``total``."""
        return "*".join(variable.name for variable in self.variables) or TOTAL

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each variable."""
        return tuple(variable.size for variable in self.variables)

    @property
    def cells(self) -> int:
        """The number of cells, empty ones with them."""
        return prod(self.shape)


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
        """The table in a plan. Tables of a geography have a mapping of margins, to the names of their measurements
        where these differ; others a list of them, the table itself first."""
        named: dict[str, Any] = {"name": self.name, "title": self.title}
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

    @cached_property
    def layout(self) -> Table:
        """The table without what counts it: names, labels and margins."""
        variables = {
            recode.name: TableVariable(recode.name, recode.attribute.name, tuple(recode.labels), recode.name)
            for recode in self.query.variables
        }
        margins = tuple(Margin(tuple(variables[recode.name] for recode in query.variables)) for query in self.margins)
        total = ALL if self.levels else TOTAL_CODE
        return Table(self.name, self.title, tuple(variables.values()), margins, self.levels, total)


def too_large(cells: int, most: int, *, area: bool = False, margins: bool = False) -> ConfideError:
    """The error for a table that crosses what should not be crossed."""
    return ConfideError(
        "table-too-large",
        "the table has too many cells" + (" for one area" if area else ""),
        found=f"{cells:,} cells" + (" with its margins" if margins else ""),
        expected=f"at most {most:,}",
        remedy="use coarser recodes, or split the table",
    )


def reserved_name(name: str, reserved: Collection[str]) -> ConfideError:
    """The error for an attribute that is called as a column of ours."""
    return ConfideError(
        "reserved-name",
        f"an attribute cannot be called {name!r}: tables have a column of that name",
        found=name,
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
