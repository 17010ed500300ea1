"""The noisy counts of many groups, with tables of different sizes, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from confide.mechanisms.safetab.codes import CodeLists
from confide.mechanisms.safetab.problem import GroupLevel
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric

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


# Noise margins of published figures: of cells that were measured, and of sums of them.
#
# The margin of a measured cell is exact (:meth:`confide.noise.NoiseDistribution.noise_margin`). A sum of k cells has
# the sum of k independent draws as its noise; its law is found by convolution, and the margin is the smallest m with
# ``P(|sum| <= m) >= p``, up to the rounding of floating-point numbers, for which the probability is asked to be larger
# by one in a billion. Very wide noise is scaled down first, and the margin of a sum then rounded up, by less than a
# hundredth. A margin speaks of the noise alone; what suppression and clamping add is not in it.


ROUNDING = 1e-9
WIDEST = 1 << 12
"""How far from zero noise may reach that is convolved value by value."""


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


@lru_cache(maxsize=256)
def margin_of_sum(law: NoiseDistribution, cells: int, probability: Fraction) -> int:
    """The noise margin of a sum of independent draws."""
    if cells == 1:
        return law.noise_margin(probability)
    reach = law.noise_margin(1 - Fraction(1, 10**13) / cells)
    if reach > WIDEST:
        step = -(-reach // WIDEST)
        return step * (margin_of_sum(_scaled_down(law, step), cells, probability) + 1)
    one = np.array([law.pmf(x) for x in range(reach + 1)])
    one = np.concatenate([one[:0:-1], one])
    size = 1 << (cells * (len(one) - 1) + 1).bit_length()
    summed = np.fft.irfft(np.fft.rfft(one, size) ** cells, size)
    middle = cells * reach
    folded = summed[middle : 2 * middle + 1] + np.concatenate([[0.0], summed[middle - 1 :: -1]])
    return int(np.searchsorted(np.cumsum(folded), float(probability) + ROUNDING))


def _scaled_down(law: NoiseDistribution, step: int) -> NoiseDistribution:
    """The law of the same kind whose noise is narrower by a factor."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 / step**2)
    assert isinstance(law, TwoSidedGeometric)
    return TwoSidedGeometric(law.epsilon * step)
