"""A table: its variables, margins and labels, from a query of the schema or from the plan of a release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.errors import ConfideError
from confide.releases.tabular.coded import LABEL_ENDING, CodedColumns, CodedVariable
from confide.schema import TOTAL, TOTAL_CODE, Attribute, CrossClassification, Query, Recode

LAYOUT = 2
"""What plans say of how tables are laid out: codes and labels, in columns under the names of the variables in the spec
(:mod:`confide.releases.tabular.coded`)."""


@dataclass(frozen=True)
class Margin(CrossClassification[CodedVariable]):
    """The cross-classification of some variables of a table."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table as its rows are laid out: margins in the order of writing, the total first and the table itself last.

    >>> sex = CodedVariable("sex", ("1", "2"), ("male", "female"))
    >>> table = Table("people", "People", (sex,), (Margin(()), Margin((sex,))))
    >>> [column.to_pylist() for column in table.labels(table.unit_places)]
    [['_T', 'male', 'female']]
    """

    name: str
    title: str
    variables: tuple[CodedVariable, ...]
    margins: tuple[Margin, ...]
    levels: tuple[str, ...] = ()
    """Geolevels and areas; none: a table without a geography."""
    named: bool = False
    """Whether areas have names."""

    @property
    def cells(self) -> int:
        """The number of cells with all margins, on tables of a geography for one area."""
        return sum(margin.cells for margin in self.margins)

    @cached_property
    def coded(self) -> CodedColumns:
        """The columns of its files."""
        return CodedColumns(self.variables, bool(self.levels), self.named)

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of its margins."""
        return tuple(margin.name for margin in self.margins)

    @property
    def inner(self) -> Margin:
        """The cross-classification of all variables."""
        return self.margins[-1]

    @property
    def columns(self) -> list[str]:
        """The columns that say which cell a row is."""
        return self.coded.keys

    @property
    def attribute_columns(self) -> dict[str, str]:
        """For each column with labels the attribute that it is of."""
        return {variable.name + LABEL_ENDING: variable.name.split(":")[0] for variable in self.variables}

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

    def label_texts(self, variable: CodedVariable) -> list[str]:
        """The total label, and those of the groups."""
        return [TOTAL_CODE, *variable.labels]

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
        """The table in a plan: margins, the total first, and beside them their measurements, where there are any."""
        margins = [margin.name for margin in self.margins]
        return {
            "name": self.name,
            "title": self.title,
            "layout": LAYOUT,
            "levels": list(self.levels),
            "area_names": self.named,
            "variables": [
                {
                    "name": variable.name,
                    "title": variable.title,
                    "codes": list(variable.codes),
                    "labels": list(variable.labels),
                }
                for variable in self.variables
            ],
            "margins": margins,
            **({} if measurements is None else {"measurements": [measurements[name] for name in margins]}),
        }

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Table:
        """The table that a plan describes, as :meth:`as_dict` has written it."""
        variables = {
            part["name"]: CodedVariable(part["name"], tuple(part["codes"]), tuple(part["labels"]), part["title"])
            for part in values["variables"]
        }
        margins = tuple(Margin(tuple(variables[part] for part in _names(name))) for name in values["margins"])
        levels, named = tuple(values["levels"]), bool(values["area_names"])
        return cls(values["name"], values["title"], tuple(variables.values()), margins, levels, named)

    @staticmethod
    def measurements(values: Mapping[str, Any]) -> dict[str, str]:
        """For each margin of a table in a plan the name of its measurement."""
        return dict(zip(values["margins"], values["measurements"], strict=True))


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
    variables: Sequence[CodedVariable | Recode] = larger.variables
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
    named: bool = False
    """Whether areas have names."""

    @cached_property
    def layout(self) -> Table:
        """The table without what counts it: names, codes, labels and margins."""
        variables = {
            recode.name: CodedVariable(recode.name, tuple(recode.codes), tuple(recode.labels), recode.attribute.title)
            for recode in self.query.variables
        }
        margins = tuple(Margin(tuple(variables[recode.name] for recode in query.variables)) for query in self.margins)
        return Table(self.name, self.title, tuple(variables.values()), margins, self.levels, self.named)


def too_large(cells: int, most: int, *, area: bool = False, margins: bool = False) -> ConfideError:
    """The error for a table that crosses what should not be crossed."""
    return ConfideError("table-too-large/cells", area=area, cells=cells, margins=margins, most=most)


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
                "reserved-name/attribute",
                found=attribute.name,
                attribute=attribute.name,
                reserved=", ".join(sorted(reserved)),
            )
