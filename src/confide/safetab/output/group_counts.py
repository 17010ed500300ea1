"""The noisy counts of many groups, with tables of different sizes, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from confide.safetab.grids import CELLS_OF_LEVEL
from confide.safetab.question import GroupLevel

Integers = npt.NDArray[np.int64]
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
    """The measurements of a level, as :class:`confide.safetab.measuring.MeasureGroups` left them, part by part."""
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
