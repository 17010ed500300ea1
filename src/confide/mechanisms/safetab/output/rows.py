"""Rows of ``t1`` and ``t2``, in the Census Bureau's layout.

``t1`` has the total of every group; ``t2`` has, for the groups that earned it, men and women by age, and for each sex
its sum over ages, where both ages are ``*``. Rows are in the order of region type, region, iteration, sex and age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.mechanisms.safetab.codes import CodeLists
from confide.mechanisms.safetab.problem import GroupLevel
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL, GRIDS, SEXES

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
