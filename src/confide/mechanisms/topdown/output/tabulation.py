"""Tabulations: which tables are made of the records. A table is a list of lines, a line a set of histogram cells.

The set of a line is given by conditions on attributes: one of these codes in each. A line counts the records in its
set, so a table of a unit is the product of the unit's histogram with a (cells x lines) matrix of zeros and ones, and
adds up over units as histograms do. Tables are public definitions, in a file of their own: shipped by name, or the
user's (``docs/concepts/topdown-output.md``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic import Field

from confide.arrays import Integers
from confide.documents import load_shipped, shipped
from confide.geography import OUTSIDE, Geolevel
from confide.inputs.records import without_accents
from confide.mechanisms.topdown.strategy import Strategy
from confide.releases import Name, Part, Problem
from confide.releases.tabular import COUNT, CodedColumns, QueryTable, Table, figure_column, plain_schema
from confide.releases.tabular.table import in_dictionaries, in_dictionary
from confide.schema import Code, Query, Recode, Schema

TABULATIONS = "tabulations"
RESERVED = ("records", "units", "mdf")
"""The other tables of a release."""

Axes = Mapping[str, Sequence[Code]]
"""The attributes of a histogram in order, each with its codes in order."""

Where = dict[str, list[int | str]]
"""Attribute = codes; ``"5..9"`` is a range of whole numbers."""


class LinePart(Part):
    """A line, or the lines of a list with a further condition."""

    label: str = Field("", max_length=300, description="The label; with `use`, of the first line of the list.")
    where: Where = Field(default_factory=dict, description="Attribute = codes. Without: everybody in the table.")
    use: str | None = Field(None, description="The lines of this list, each with the condition of this one added.")


class TabulatedTablePart(Part):
    """A table."""

    name: Name
    title: str = Field(min_length=1, max_length=200)
    universe: str = Field("", max_length=200, description="Whom the table counts, in words.")
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,30}$")] = Field(
        description="The columns are named with this and four digits of the line's number."
    )
    where: Where = Field(default_factory=dict, description="A condition on every line.")
    lines: list[LinePart] = Field(min_length=1)


class TabulationFile(Part):
    """A tabulation file."""

    id: Name
    provenance: str = Field(min_length=1, description="One sentence: where the definitions come from.")
    lists: dict[str, list[LinePart]] = Field(default_factory=dict, description="Lines that several tables have.")
    lists_from: str | None = Field(None, description="A tabulation that ships, whose lists these tables may use, too.")
    tables: list[TabulatedTablePart] = Field(min_length=1)

    def complete(self) -> TabulationFile:
        """The same with the lists that it takes from elsewhere as its own."""
        if self.lists_from not in shipped(TABULATIONS):
            return self
        lists = TabulationFile.model_validate(load_shipped(TABULATIONS, self.lists_from)).lists
        return self.model_copy(update={"lists": {**lists, **self.lists}, "lists_from": None})

    def only(self, names: Sequence[str]) -> TabulationFile:
        """The same with these tables alone."""
        tables = [table for table in self.tables if table.name in names]
        used = {line.use for table in tables for line in table.lines}
        return self.model_copy(
            update={"tables": tables, "lists": {name: lines for name, lines in self.lists.items() if name in used}}
        )

    def problems(self, axes: Axes) -> Iterator[Problem]:
        """What is wrong with the definitions, or keeps them from being used with a schema."""
        if self.lists_from is not None:
            there = ", ".join(shipped(TABULATIONS))
            yield Problem.of(("lists_from",), "unknown-list/tabulation", use=self.lists_from, lists=there)
        names = [table.name for table in self.tables]
        for position, table in enumerate(self.tables):
            if table.name in RESERVED or names.count(table.name) > 1:
                path: tuple[str | int, ...] = ("tables", position, "name")
                yield Problem.of(path, "table-name", table=table.name, reserved=", ".join(RESERVED))
            path = ("tables", position)
            yield from _conditions((*path, "where"), table.where, axes)
            for number, line in enumerate(table.lines):
                here = (*path, "lines", number)
                yield from _conditions((*here, "where"), line.where, axes)
                if line.use is not None and line.use not in self.lists:
                    yield Problem.of((*here, "use"), "unknown-list", use=line.use, lists=", ".join(self.lists))
        for name, lines in self.lists.items():
            for number, line in enumerate(lines):
                yield from _conditions(("lists", name, number, "where"), line.where, axes)
                if line.use is not None:
                    yield Problem.of(("lists", name, number, "use"), "nested-list")

    def build(self, axes: Axes) -> tuple[TabulatedTable, ...]:
        """The tables for a histogram. The file must have no :meth:`problems`."""
        return tuple(_table(part, self.lists, axes) for part in self.tables)


@dataclass(frozen=True)
class TabulatedTable:
    """A table: names and labels of its lines, and which cells they count."""

    name: str
    title: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    axes: Axes
    levels: tuple[tuple[NDArray[np.int64], ...], ...]
    """For each line and attribute the levels that it counts: its cells are all combinations of them."""

    def matrix(self) -> Any:
        """Sparse, cells x lines, of zeros and ones. It may be large, and is not kept."""
        return indicators(number_of_cells(self.axes), [_crossed(self.axes, each) for each in self.levels])

    @property
    def lines(self) -> int:
        return len(self.columns)


def axes_of(schema: Schema) -> dict[str, list[Code]]:
    """The attributes of a schema, each with its codes."""
    return {attribute.name: [level.code for level in attribute.levels] for attribute in schema.attributes}


def expand(codes: Sequence[Code], listed: Sequence[Code]) -> list[Code]:
    """The codes that a list of codes and ranges stands for. ``codes`` are those of the attribute."""
    integer_codes = isinstance(codes[0], int)
    result: list[Code] = []
    for code in listed:
        if integer_codes and isinstance(code, str) and ".." in code:
            first, last = (int(bound) for bound in code.split(".."))
            inside = [listed_code for listed_code in codes if first <= int(listed_code) <= last]
            result += inside if {first, last} <= set(inside) else [code]  # a range beyond the codes is a slip
        else:
            result.append(code)
    return result


def levels_where(axes: Axes, *conditions: Mapping[str, Sequence[Code]]) -> tuple[NDArray[np.int64], ...]:
    """For each attribute the places of the codes that meet all conditions."""
    chosen = []
    for name, codes in axes.items():
        fulfils = np.ones(len(codes), bool)
        for condition in conditions:
            if name in condition:
                fulfils &= _listed(tuple(codes), tuple(condition[name]))
        chosen.append(np.flatnonzero(fulfils))
    return tuple(chosen)


@lru_cache(maxsize=1 << 10)  # the lines of tables share their lists
def _listed(codes: tuple[Code, ...], listed: tuple[Code, ...]) -> NDArray[np.bool_]:
    """Which codes of an attribute a list of codes and ranges stands for."""
    inside = set(expand(codes, listed))
    return np.array([code in inside for code in codes])


def cells_where(axes: Axes, *conditions: Mapping[str, Sequence[Code]]) -> NDArray[np.int64]:
    """The cells of the histogram, in C order, that meet all conditions."""
    return _crossed(axes, levels_where(axes, *conditions))


def _crossed(axes: Axes, levels: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The cells of the histogram, in C order, with these levels."""
    cells = np.zeros(1, np.int64)
    for codes, indices in zip(axes.values(), levels, strict=True):
        cells = (cells[:, None] * len(codes) + indices).ravel()
    return cells


def indicators(cells: int, sets: Sequence[NDArray[np.int64]]) -> Any:
    """A sparse matrix, cells x sets: one where the cell is in the set."""
    rows = np.concatenate([*sets, np.empty(0, np.int64)])
    columns = np.repeat(np.arange(len(sets)), [len(chosen) for chosen in sets])
    return sp.csr_matrix((np.ones(len(rows), np.int64), (rows, columns)), shape=(cells, len(sets)))


def number_of_cells(axes: Axes) -> int:
    """The cells of the histogram."""
    return int(np.prod([len(codes) for codes in axes.values()], dtype=np.int64))


def _table(part: TabulatedTablePart, lists: dict[str, list[LinePart]], axes: Axes) -> TabulatedTable:
    labels: list[str] = []
    levels: list[tuple[NDArray[np.int64], ...]] = []
    for line in part.lines:
        used = [LinePart()] if line.use is None else lists[line.use]
        for position, inner in enumerate(used):
            labels.append(line.label if line.label and not position else inner.label)
            levels.append(levels_where(axes, part.where, line.where, inner.where))
    columns = tuple(f"{part.prefix}{number:04}" for number in range(1, len(levels) + 1))
    title = f"{part.title}; universe: {part.universe}" if part.universe else part.title
    return TabulatedTable(part.name, title, columns, tuple(labels), axes, tuple(levels))


def _conditions(path: tuple[str | int, ...], where: Where, axes: Axes) -> Iterator[Problem]:
    for name, listed in where.items():
        if name not in axes:
            yield Problem.of((*path, name), "unknown-attribute/spec", found=repr(name), name=name, axes=", ".join(axes))
            continue
        try:
            codes = expand(axes[name], listed)
        except ValueError:
            codes = [None]  # type: ignore[list-item]
        if not codes or any(code not in axes[name] for code in codes):
            yield Problem.of((*path, name), "unknown-code/codes", found=str(listed), name=name)


# From estimates, or records, to tables: histograms of blocks added up along any geography, times the lines.
#
# Histograms are sparse: a row for each block of the frame in the order of codes, a column for each cell. With S the
# (units x blocks) matrix of a level or area, H the histograms and L the (cells x lines) matrix of a table, the table
# of the level is S H L. It is made in slices of units, so that no table is ever held whole.


UNITS_AT_ONCE = 1 << 14


def histograms(blocks: int, cells: int, parts: Iterable[tuple[Integers, Integers, Integers]]) -> Any:
    """The sparse blocks x cells matrix of counts given as (block, cell, count), in any order and number of pieces."""
    rows, columns, counts = [np.empty(0, np.int32)], [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for block, cell, count in parts:
        rows.append(block.astype(np.int32))
        columns.append(cell.astype(np.int32))
        counts.append(count)
    joined = []
    for pieces in (rows, columns, counts):  # one after the other: there may be tens of millions
        joined.append(np.concatenate(pieces))
        pieces.clear()
    row, column, data = joined
    return sp.coo_matrix((data, (row, column)), shape=(blocks, cells)).tocsr()


def estimated(files: Sequence[Path], order: Integers) -> Iterator[tuple[Integers, Integers, Integers]]:
    """The estimates of the blocks, as :func:`histograms` takes them. ``order`` is the row of each block."""
    for file in files:
        rows = pq.read_table(file, columns=["unit", "cell", "n"])
        unit, cell, count = (rows.column(name).to_numpy() for name in ("unit", "cell", "n"))
        yield order[unit], cell, count


@dataclass(frozen=True)
class Tabulator:
    """Tables of histograms, for some levels and areas. ``unit_of_block`` of a level follows the order of the rows."""

    counts: Any
    levels: tuple[Geolevel, ...]

    @cached_property
    def _summed(self) -> dict[str, Any]:
        return {}

    def histograms(self, level: Geolevel) -> Any:
        """The histograms of the units of a level; blocks in no area are left out."""
        if np.array_equal(level.unit_of_block, np.arange(self.counts.shape[0])):
            return self.counts
        if level.name not in self._summed:
            inside = np.flatnonzero(level.unit_of_block != OUTSIDE)
            ones = np.ones(len(inside), np.int64)
            members = sp.csr_matrix(
                (ones, (level.unit_of_block[inside], inside)), shape=(level.units, self.counts.shape[0])
            )
            self._summed[level.name] = members @ self.counts
        return self._summed[level.name]

    def lines(self, matrix: Any, level: Geolevel) -> Iterator[tuple[Sequence[str], Integers]]:
        """The lines of a table (:meth:`TabulatedTable.matrix`), units x lines, and the codes of the units, some units
        of a level at a time. Units with nobody in them are there too."""
        for first in range(0, level.units, UNITS_AT_ONCE):
            some = slice(first, first + UNITS_AT_ONCE)
            yield level.codes[some], (self.histograms(level)[some] @ matrix).toarray()

    def batches(self, table: TabulatedTable) -> Iterator[pa.RecordBatch]:
        """The rows of a table, level by level in the order of the codes."""
        schema, matrix = table_schema(table), table.matrix()
        for level in self.levels:
            for codes, lines in self.lines(matrix, level):
                names = pa.repeat(pa.scalar(level.name, pa.string()), len(lines))
                counts = [pa.array(np.ascontiguousarray(column)) for column in lines.T]
                yield pa.RecordBatch.from_arrays([names, pa.array(codes, pa.string()), *counts], schema=schema)


def table_schema(table: TabulatedTable) -> pa.Schema:
    """The columns: where, then the lines."""
    return pa.schema(
        [
            pa.field("level", pa.string(), False, {"description": "geolevel, or kind of area"}),
            pa.field("geocode", pa.string(), False, {"description": "code of the geounit or area"}),
            *(
                pa.field(name, pa.int64(), False, {"description": label})
                for name, label in zip(table.columns, table.labels, strict=True)
            ),
        ]
    )


# One- and two-way tables that every release has without being asked: of each variable, and of each pair of variables.
#
# Variables are the attributes of the schema and those of its recodes that the strategy measures. A table has all its
# margins and is made for every level and area of the frame, with codes and labels
# (:mod:`confide.releases.tabular.table`). With S the (units x blocks) matrix of a level, H the histograms of the blocks
# and L the (cells x groups) matrix of the table, its cells on the level are S H L, and its margins are sums of these.
#
# What is made is decided by schema, strategy, frame and spec alone. A level on which a table would have more than
# ``crossed_rows`` rows is left out of it. Up to :data:`ROWS_WITH_ZEROS` rows, all are listed; beyond that, rows with a
# count of zero are not, but for the totals of areas.

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
        """Sparse, histogram cells x rows of an area, margins first: one where the first is part of the second."""
        shape = tuple(len(codes) for codes in axes.values())
        indices = dict(zip(axes, np.indices(shape, np.int32, sparse=True), strict=True))
        cell: Integers = np.zeros(shape, np.int64)
        for attribute, groups in self.groups:
            cell = cell * (max(groups) + 1) + np.array(groups, np.int64)[indices[attribute]]
        margins, cells = self.layout.margins, np.arange(self.layout.inner.cells)
        first = np.cumsum([0, *(margin.cells for margin in margins)])
        parts = zip(first[:-1], margins, strict=True)
        rows = np.stack([number + self.layout.projected(margin, cells) for number, margin in parts], axis=1)
        starts = np.arange(cell.size + 1) * len(margins)
        ones = np.ones(cell.size * len(margins), np.int64)
        return sp.csr_matrix((ones, rows[cell.ravel()].ravel(), starts), shape=(cell.size, int(first[-1])))

    def batches(self, tabulator: Tabulator, axes: Axes) -> Iterator[pa.RecordBatch]:
        """All rows with labels, in dictionaries, level by level, in the order of the codes of areas."""
        matrix = self.matrix(axes)
        for level in tabulator.levels:
            if level.name in self.layout.levels:
                yield from self._level(tabulator.histograms(level), level, matrix)

    def _level(self, histograms: Any, level: Geolevel, matrix: Any) -> Iterator[pa.RecordBatch]:
        schema, rows = in_dictionaries(plain_schema(self.layout, *FIGURES)), self.layout.cells
        codes = pa.array(level.codes, pa.string())
        at_once = max(1, VALUES_AT_ONCE // rows)
        for first in range(0, level.units, at_once):
            counts = histograms[first : first + at_once] @ matrix
            unit, row, count = _all(counts) if level.name in self.with_zeros else _with_totals(counts)
            places = zip(self.layout.variables, self.layout.unit_places, strict=True)
            labels = [in_dictionary(self.layout.label_texts(variable), place[row]) for variable, place in places]
            geography = [in_dictionary([level.name], np.zeros_like(unit)), in_dictionary(codes, first + unit)]
            yield pa.RecordBatch.from_arrays([*geography, *labels, pa.array(count)], schema=schema)

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


def _all(counts: Any) -> tuple[Integers, Integers, Integers]:
    """Area, row and count of all rows."""
    area, row = np.indices(counts.shape).reshape(2, -1)
    return area, row, counts.toarray().ravel()


def _with_totals(counts: Any) -> tuple[Integers, Integers, Integers]:
    """The same of rows with a count that is not zero, and of the first row of each area, its total."""
    counts.eliminate_zeros()
    counts.sort_indices()
    listed = np.diff(counts.indptr)
    times = np.maximum(listed, 1)  # an area without people has its total alone
    there = np.repeat(listed > 0, times)
    row, count = np.zeros((2, len(there)), np.int64)
    row[there], count[there] = counts.indices, counts.data
    return np.repeat(np.arange(len(times)), times), row, count


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
