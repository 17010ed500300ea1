"""One- and two-way tables that every release has without being asked: of each variable, and of each pair of variables.

Variables are the attributes of the schema and those of its recodes that the strategy measures. A table has all its
margins and is made for every level and area of the frame, with codes and labels
(:mod:`confide.releases.tabular.coded`). With S the (units x blocks) matrix of a level, H the histograms of the blocks
and L the (cells x groups) matrix of the table, its cells on the level are S H L, and its margins are sums of these.

What is made is decided by schema, strategy, frame and spec alone. A level on which a table would have more than
``crossed_rows`` rows is left out of it. Up to :data:`ROWS_WITH_ZEROS` rows, all are listed; beyond that, rows with a
count of zero are not, but for the totals of areas.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from confide.arrays import Integers
from confide.geography import Geolevel
from confide.inputs.proposals.column_proposal import without_accents
from confide.mechanisms.topdown.output.tabulation import Axes, Tabulator
from confide.mechanisms.topdown.strategy import Strategy
from confide.releases.tabular import (
    COUNT,
    CodedColumns,
    QueryTable,
    Table,
    figure_column,
    plain_schema,
    repeated,
)
from confide.schema import Query, Recode

ROWS_WITH_ZEROS = 100_000
"""A table lists rows with a count of zero on a level where it has at most so many rows."""
MOST_TABLES = 200
"""Of a schema with so many variables that there would be more, pairs of attributes come before those of recodes."""
LONGEST_NAME = 60
VALUES_AT_ONCE = 1 << 21
FIGURES = (figure_column(COUNT, "protected records"),)
_NO_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, eq=False)
class CrossedTable:
    """A table with its margins: its layout, and which group of each variable a code of the attribute belongs to."""

    layout: Table
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    """For each variable its attribute, and the number of the group for each code of that."""
    with_zeros: tuple[str, ...] = ()
    """The levels on which rows with a count of zero are listed."""

    @cached_property
    def columns(self) -> CodedColumns:
        """Its columns."""
        return self.layout.coded

    def matrix(self, axes: Axes) -> Any:
        """Sparse, histogram cells x cells of the table: one where the first is part of the second."""
        shape = tuple(len(codes) for codes in axes.values())
        indices = dict(zip(axes, np.indices(shape, np.int32, sparse=True), strict=True))
        cell: Integers = np.zeros(shape, np.int64)
        for attribute, groups in self.groups:
            cell = cell * (max(groups) + 1) + np.array(groups, np.int64)[indices[attribute]]
        ones, starts = np.ones(cell.size, np.int64), np.arange(cell.size + 1)
        return sp.csr_matrix((ones, cell.ravel(), starts), shape=(cell.size, self.layout.inner.cells))

    def with_margins(self, cells: Integers) -> Integers:
        """Cells of units (units x cells) with the margins before them, in the order in which rows are written."""
        shaped = cells.reshape(len(cells), *self.layout.inner.shape)
        parts = []
        for margin in self.layout.margins:
            summed = tuple(
                axis for axis, variable in enumerate(self.layout.variables, 1) if variable not in margin.variables
            )
            parts.append(shaped.sum(axis=summed).reshape(len(cells), -1))
        return np.concatenate(parts, axis=1)

    def batches(self, tabulator: Tabulator, axes: Axes) -> Iterator[pa.RecordBatch]:
        """All rows with labels, level by level, in the order of the codes of areas."""
        matrix = self.matrix(axes)
        for level in tabulator.levels:
            if level.name in self.layout.levels:
                yield from self._level(tabulator.histograms(level), level, matrix)

    def _level(self, histograms: Any, level: Geolevel, matrix: Any) -> Iterator[pa.RecordBatch]:
        schema, rows = plain_schema(self.layout, *FIGURES), self.layout.cells
        codes = pa.array(level.codes, pa.string())
        at_once = max(1, VALUES_AT_ONCE // rows)
        for first in range(0, level.units, at_once):
            counts = self.with_margins((histograms[first : first + at_once] @ matrix).toarray())
            listed = np.ones(counts.shape, bool) if level.name in self.with_zeros else counts != 0
            listed[:, 0] = True  # the total of an area, which the first margin is
            unit, row = np.nonzero(listed)
            labels = self.layout.labels([places[row] for places in self.layout.unit_places])
            geography = [repeated(level.name, len(unit)), codes.take(pa.array(first + unit))]
            yield pa.RecordBatch.from_arrays([*geography, *labels, pa.array(counts[unit, row])], schema=schema)

    def as_dict(self) -> dict[str, Any]:
        """The table in a plan."""
        return self.layout.as_dict() | {
            "groups": [{"attribute": attribute, "of_code": list(groups)} for attribute, groups in self.groups],
            "with_zeros": list(self.with_zeros),
        }

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> CrossedTable:
        """The table that a plan describes."""
        groups = tuple((part["attribute"], tuple(part["of_code"])) for part in values["groups"])
        return cls(Table.read(values), groups, tuple(values["with_zeros"]))


@dataclass(frozen=True)
class LeftOut:
    """A table that is not made for some levels, because it would have too many rows there; or for none."""

    title: str
    levels: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"title": self.title, "levels": list(self.levels)}


@dataclass(frozen=True, eq=False)
class CrossedTables:
    """The tables of a release, and what is left out of them."""

    tables: tuple[CrossedTable, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """All of it in a plan."""
        return {
            "tables": [table.as_dict() for table in self.tables],
            "left_out": [each.as_dict() for each in self.left_out],
        }

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> CrossedTables:
        """From the plan of a release."""
        return cls(
            tuple(CrossedTable.read(table) for table in values["tables"]),
            tuple(LeftOut(each["title"], tuple(each["levels"])) for each in values["left_out"]),
        )


def crossed_variables(strategy: Strategy) -> list[Recode]:
    """The attributes in the order of the schema, each followed by its recodes that the strategy measures on some level.

    A recode that leaves levels out is none of them: its groups do not add up to the total.
    """
    measured = {
        variable.name for level in strategy.levels for share in level.queries for variable in share.query.variables
    }
    variables = strategy.schema.variables
    return [
        variable
        for attribute in strategy.schema.attributes
        for name, variable in variables.items()
        if variable.attribute.name == attribute.name and (name == attribute.name or name in measured)
        if Query((variable,)).is_complete
    ]


def plan_crossed(
    strategy: Strategy, units: Mapping[str, int], ways: int, most_rows: int, *, taken: Collection[str], named: bool
) -> CrossedTables:
    """The tables for a strategy.

    Args:
        strategy: What is measured, of which schema.
        units: The levels and areas that tables are made for, with their numbers of units.
        ways: 2 for tables of each variable and each pair, 1 for tables of each variable, 0 for none.
        most_rows: How many rows, those of zeros with them, a table may have on a level.
        taken: Names of other tables of the release.
        named: Whether areas have names.

    Returns:
        The tables in order, one-way tables first, and what is left out.
    """
    variables = crossed_variables(strategy)
    chosen: list[tuple[Recode, ...]] = [(variable,) for variable in variables] if ways else []
    pairs = [
        pair for pair in combinations(variables, 2) if ways > 1 and pair[0].attribute.name != pair[1].attribute.name
    ]
    plain = [pair for pair in pairs if all(variable.name == variable.attribute.name for variable in pair)]
    kept = [*plain, *(pair for pair in pairs if pair not in plain)][: max(0, MOST_TABLES - len(chosen))]
    tables, left_out, names = [], [], set(taken)
    for crossed in (*chosen, *pairs):
        title = " by ".join(_title(variable) for variable in crossed)
        query = Query(crossed)
        margins = tuple(reversed([*query.margins()]))
        rows = sum(margin.cells for margin in margins)
        few = len(crossed) == 1 or crossed in kept
        levels = tuple(level for level, number in units.items() if few and number * rows <= most_rows)
        if absent := tuple(level for level in units if level not in levels):
            left_out.append(LeftOut(title, absent))
        if not levels:
            continue
        name = _free_name([variable.name for variable in crossed], names)
        names.add(name)
        layout = QueryTable(name, title, query, margins, levels, named).layout
        groups = tuple((variable.attribute.name, tuple(variable.assignment.tolist())) for variable in crossed)
        with_zeros = tuple(level for level in levels if units[level] * rows <= ROWS_WITH_ZEROS)
        tables.append(CrossedTable(layout, groups, with_zeros))
    return CrossedTables(tuple(tables), tuple(left_out))


def _title(variable: Recode) -> str:
    title, _, recode = variable.attribute.title, *variable.name.partition(":")[1:]
    title = title or variable.attribute.name
    return f"{title} ({recode})" if recode else title


def _free_name(variables: Sequence[str], taken: Collection[str]) -> str:
    """A name for a table that can be that of a file, and that no other has.

    >>> _free_name(["age:five-year", "Sex"], {"records"}), _free_name(["h1"], {"h1"})
    ('age-five-year-by-sex', 'by-h1')
    """
    parts = [_NO_NAME.sub("-", without_accents(name.lower())).strip("-") or "variable" for name in variables]
    name = "-by-".join(part[:LONGEST_NAME] for part in parts)
    numbered = (f"by-{name}-{number}" for number in range(2, len(taken) + 2))
    return next(each for each in (name, f"by-{name}", *numbered) if each not in taken)
