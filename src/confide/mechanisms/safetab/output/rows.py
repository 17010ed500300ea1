"""Rows of the published files: ``t1`` and ``t2`` in the Census Bureau's layout, and tables for people.

``t1`` has the total of every group; ``t2`` has, for the groups that earned it, men and women by age, and for each sex
its sum over ages, where both ages are ``*``. Rows are in the order of region type, region, iteration, sex and age.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.mechanisms.safetab.codes import CodeLists
from confide.mechanisms.safetab.problem import GroupLevel
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL, GRIDS, SEXES, TOTAL_TABLE, Grid
from confide.mechanisms.safetab.tallies import margin_of_sum
from confide.releases.tabular import masked

# The noisy counts of many groups, with tables of different sizes, as flat arrays.


_CELLS = np.array(CELLS_OF_LEVEL)


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Groups in the order of area and iteration; ``values`` has the cells of each, one group after the other.

    A group of statistics level k has ``CELLS_OF_LEVEL[k]`` cells: at level 0 its total, above it men by age, then women
    by age. ``origin`` is the number of the population group level where it was measured.
    """

    area: Integers
    iteration: Integers
    level: Integers
    origin: Integers
    values: Integers

    def __len__(self) -> int:
        return len(self.area)

    @property
    def starts(self) -> Integers:
        """Where the cells of each group begin."""
        lengths = _CELLS[self.level]
        starts: Integers = np.cumsum(lengths) - lengths
        return starts

    @property
    def totals(self) -> Integers:
        """The total of each group: measured at level 0, the sum of the noisy cells above it."""
        if not len(self):
            return np.zeros(0, np.int64)
        totals: Integers = np.add.reduceat(self.values, self.starts)
        return totals

    def grid(self, level: int) -> tuple[Integers, Integers]:
        """The positions of the groups of one statistics level, and their cells, a row for each group."""
        at = np.flatnonzero(self.level == level)
        return at, self.values[self.starts[at][:, None] + np.arange(CELLS_OF_LEVEL[level])]

    def take(self, positions: Integers) -> GroupCounts:
        """Some of the groups, in the order of ``positions``."""
        lengths, starts = _CELLS[self.level[positions]], self.starts[positions]
        ends = np.cumsum(lengths)
        inside = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        values = self.values[np.repeat(starts, lengths) + inside]
        return GroupCounts(
            self.area[positions], self.iteration[positions], self.level[positions], self.origin[positions], values
        )

    def moved_to(self, area: Integers) -> GroupCounts:
        """The same figures under other areas."""
        return GroupCounts(area, self.iteration, self.level, self.origin, self.values)

    def sorted(self) -> GroupCounts:
        """In the order of area and iteration."""
        return self.take(np.lexsort((self.iteration, self.area)))

    def without_negatives(self) -> GroupCounts:
        """Every cell below zero set to zero."""
        return GroupCounts(self.area, self.iteration, self.level, self.origin, np.maximum(self.values, 0))


def merge(parts: Sequence[GroupCounts]) -> GroupCounts:
    """All groups of several pieces, in the order of area and iteration."""
    joined = [
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("area", "iteration", "level", "origin", "values")
    ]
    return GroupCounts(*joined).sorted()


def read_level(files: Sequence[Path], level: GroupLevel, origin: int) -> GroupCounts:
    """The measurements of a level, as :class:`confide.mechanisms.safetab.measure.MeasureGroups` left them, part by
    part."""
    rows = pa.concat_tables([pq.read_table(file) for file in files])
    group, cell, values = (rows.column(name).to_numpy() for name in ("group", "cell", "count"))
    at = np.flatnonzero(cell == 0)
    places = len(level.iterations)
    return GroupCounts(
        area=group[at] // places,
        iteration=level.iterations[group[at] % places],
        level=rows.column("level").to_numpy()[at].astype(np.int64),
        origin=np.full(len(at), origin, np.int64),
        values=values,
    )


# Noise margins of published figures: of cells that were measured, and of sums of them. A margin speaks of the noise
# alone; what suppression and clamping add is not in it.


@dataclass(frozen=True, eq=False)
class Margins:
    """The noise margins, at one probability, of everything that is published of some levels."""

    probability: Fraction
    levels: Sequence[GroupLevel]

    def of_sums(self, counts: GroupCounts, cells: int) -> Integers:
        """The margin of a sum of so many cells of each group's table."""
        by_origin = np.array([margin_of_sum(level.second, cells, self.probability) for level in self.levels])
        margins: Integers = by_origin[counts.origin]
        return margins

    def of_totals(self, counts: GroupCounts, lists: CodeLists) -> Integers:
        """The margin of each group's total: measured alone, measured for the choice of no table, or a sum of cells."""
        result = np.zeros(len(counts), np.int64)
        for level, cells in enumerate(CELLS_OF_LEVEL):
            at = np.flatnonzero(counts.level == level)
            if len(at):
                result[at] = self.of_sums(counts.take(at), cells)
        total_only = np.array([iteration.total_only for iteration in lists.iterations])[counts.iteration]
        alone = np.array([margin_of_sum(level.total, 1, self.probability) for level in self.levels])
        result[total_only] = alone[counts.origin[total_only]]
        return result


ANY_AGE = "*"
SEX_NAMES = ("MALE", "FEMALE")
GROUP_COLUMNS = {
    "REGION_ID": "the area's code",
    "REGION_TYPE": "the type of area",
    "ITERATION_CODE": "the race or ethnicity group: its code",
}
MEASURED = {0: "total", **{number: f"sum of {grid.cells} cells" for number, grid in enumerate(GRIDS, start=1)}}


def _column(name: str, type_: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"description": description})


_GROUP = [_column(name, pa.string(), text) for name, text in GROUP_COLUMNS.items()]
_COUNT = _column("COUNT", pa.int64(), "persons, with noise; may be negative")
T1 = pa.schema([*_GROUP, _COUNT])
T2 = pa.schema(
    [
        *_GROUP,
        _column("AGESTART", pa.string(), "the first year of age, or * for all ages"),
        _column("AGEEND", pa.string(), "the last year of age, or * for all ages"),
        _column("SEX", pa.string(), "1 male, 2 female"),
        _COUNT,
    ]
)


@dataclass(frozen=True, eq=False)
class Labels:
    """What numbers of areas and iterations are called in one region type."""

    region_type: str
    areas: tuple[str, ...]
    lists: CodeLists

    def columns(self, counts: GroupCounts) -> list[pa.Array]:
        """Region id, region type and iteration code of each group."""
        codes = pa.array([iteration.code for iteration in self.lists.iterations])
        return [
            pa.array(self.areas, pa.string()).take(pa.array(counts.area)),
            pa.array([self.region_type], pa.string()).take(pa.array(np.zeros(len(counts), np.int64))),
            codes.take(pa.array(counts.iteration)),
        ]

    def names(self, counts: GroupCounts) -> pa.Array:
        """The name of each group's iteration."""
        return pa.array([iteration.name for iteration in self.lists.iterations]).take(pa.array(counts.iteration))


def t1_rows(counts: GroupCounts, labels: Labels) -> pa.RecordBatch:
    """The total of every group."""
    return pa.record_batch([*labels.columns(counts), pa.array(counts.totals)], schema=T1)


def t2_rows(counts: GroupCounts, labels: Labels, *, negatives: bool) -> pa.RecordBatch:
    """Sex by age with the sums over ages; ``negatives`` says whether cells below zero are shown."""
    pieces = []
    for number, grid in enumerate(GRIDS, start=1):
        at, cells = counts.grid(number)
        by_sex = cells.reshape(len(at), len(SEXES), grid.ages)
        with_sums = np.concatenate([by_sex.sum(axis=2, keepdims=True), by_sex], axis=2)
        ages = np.arange(grid.ages + 1) + _first_age(number)
        sexes = np.repeat(np.arange(len(SEXES)), grid.ages + 1)
        pieces.append(
            (
                np.repeat(at, len(sexes)),
                np.tile(sexes, len(at)),
                np.tile(np.tile(ages, len(SEXES)), len(at)),
                with_sums.reshape(-1),
            )
        )
    group, sex, age, count = (np.concatenate(column) for column in zip(*pieces, strict=True))
    published = np.flatnonzero(count >= 0) if not negatives else np.arange(len(count))
    order = published[np.argsort(group[published], kind="stable")]
    group, sex, age, count = group[order], sex[order], age[order], count[order]
    starts, ends = _age_texts()
    of_group = [column.take(pa.array(group)) for column in labels.columns(counts)]
    return pa.record_batch(
        [
            *of_group,
            starts.take(pa.array(age)),
            ends.take(pa.array(age)),
            pa.array(SEXES).take(pa.array(sex)),
            pa.array(count),
        ],
        schema=T2,
    )


def _first_age(number: int) -> int:
    """Where the ages of a grid begin in the list of all: each has its ages after one entry for all of them."""
    return sum(grid.ages + 1 for grid in GRIDS[: number - 1])


def _age_texts() -> tuple[pa.Array, pa.Array]:
    """First and last year of every age group of every grid, each grid with an entry for all ages before it."""
    bounds: list[tuple[str, str]] = []
    for grid in GRIDS:
        bounds += [(ANY_AGE, ANY_AGE), *((str(first), str(last)) for first, last in grid.bounds)]
    return pa.array([first for first, _ in bounds]), pa.array([last for _, last in bounds])


def table_schema(table: str, *, margins: bool) -> pa.Schema:
    """The columns of a table for people: ``T01001``, or one of sex by age with a column for each cell."""
    columns = [*_GROUP, _column("ITERATION_NAME", pa.string(), "the race or ethnicity group: its name")]
    columns.append(_column("TOTAL", pa.int64(), "persons, with noise; may be negative"))
    margin = "the noise is within this number, both ways, with the stated probability:"
    if table == TOTAL_TABLE:
        columns.append(
            _column("MEASURED_AS", pa.string(), "whether the total was measured itself, or is a sum of cells")
        )
        if margins:
            columns.append(_column("TOTAL_MARGIN", pa.int64(), f"{margin} of the total"))
        return pa.schema(columns)
    grid = next(grid for grid in GRIDS if grid.table == table)
    for sex in SEX_NAMES:
        figures = {sex: f"{sex.lower()}, all ages"}
        figures |= {f"{sex}_{first}_{last}": f"{sex.lower()}, {first} to {last} years" for first, last in grid.bounds}
        columns += [
            _column(name, pa.int64(), f"{text}; empty: left out", nullable=True) for name, text in figures.items()
        ]
    if margins:
        columns += [
            _column(f"{what}_MARGIN", pa.int64(), f"{margin} of {words}")
            for what, words in (("TOTAL", "the total"), ("SEX", "all men, or all women"), ("CELL", "each age"))
        ]
    return pa.schema(columns)


def table_rows(
    table: str, counts: GroupCounts, labels: Labels, margins: Margins | None, *, negatives: bool
) -> pa.RecordBatch:
    """The rows of a table for people; ``negatives`` says whether figures below zero are shown, or left empty."""
    schema = table_schema(table, margins=margins is not None)
    if table == TOTAL_TABLE:
        measured = pa.array([MEASURED[number] for number in sorted(MEASURED)]).take(pa.array(counts.level))
        columns = [*labels.columns(counts), labels.names(counts), pa.array(counts.totals), measured]
        if margins is not None:
            columns.append(pa.array(margins.of_totals(counts, labels.lists)))
        return pa.record_batch(columns, schema=schema)
    number = next(number for number, grid in enumerate(GRIDS, start=1) if grid.table == table)
    at, cells = counts.grid(number)
    some = counts.take(at)
    columns = [*labels.columns(some), labels.names(some), pa.array(some.totals)]
    columns += [masked(column, None if negatives else column < 0) for column in _wide(cells, GRIDS[number - 1])]
    if margins is not None:
        columns += [pa.array(margins.of_sums(some, times)) for times in _summed(GRIDS[number - 1])]
    return pa.record_batch(columns, schema=schema)


def _wide(cells: Integers, grid: Grid) -> Iterator[Integers]:
    """For each sex its sum, then its ages."""
    by_sex = cells.reshape(len(cells), len(SEXES), grid.ages)
    for sex in range(len(SEXES)):
        yield by_sex[:, sex].sum(axis=1)
        for age in range(grid.ages):
            yield np.ascontiguousarray(by_sex[:, sex, age])


def _summed(grid: Grid) -> tuple[int, int, int]:
    """How many cells are summed in the total, in a sex and in a cell."""
    return grid.cells, grid.ages, 1
