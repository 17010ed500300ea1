"""Noise margins of published figures: of cells that were measured, and of sums of them.

The margin of a measured cell is exact (:meth:`confide.noise.Law.noise_margin`). A sum of k cells has the sum of k
independent draws as its noise; its law is found by convolution, and the margin is the smallest m with
``P(|sum| <= m) >= p``, up to the rounding of floating-point numbers, for which the probability is asked to be larger by
one in a billion. Very wide noise is scaled down first, and the margin of a sum then rounded up, by less than a
hundredth. A margin speaks of the noise alone; what suppression and clamping add is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from confide.noise import DiscreteGaussian, Law, TwoSidedGeometric
from confide.safetab.codes import CodeLists
from confide.safetab.grids import CELLS_OF_LEVEL
from confide.safetab.output.group_counts import GroupCounts
from confide.safetab.question import GroupLevel

Integers = npt.NDArray[np.int64]
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
def margin_of_sum(law: Law, cells: int, probability: Fraction) -> int:
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


def _scaled_down(law: Law, step: int) -> Law:
    """The law of the same kind whose noise is narrower by a factor."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 / step**2)
    assert isinstance(law, TwoSidedGeometric)
    return TwoSidedGeometric(law.epsilon * step)
