"""What the plan's laws say of a group with n persons, for many n at once, in double precision.

With X of the first law, Y of the second, thresholds θ₁ ≤ θ₂ ≤ θ₃ and the suppression number T:

* P(statistics level k) = P(θ_k ≤ n + X < θ_{k+1}), where θ₀ = −∞ and θ₄ = ∞;
* P(suppressed) = P(n + X < θ₁) · P(Y ≤ T − n): the two stages are independent;
* the bias of a total that is published is E[Y | n + Y > T]; where counts below zero become zero, E[max(Y, −n) | …].

These are for a report that shows a few digits; what is published rests on exact numbers (:class:`confide.noise.Law`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from confide.noise import DiscreteGaussian, Law
from confide.safetab.question import GroupLevel

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

_SMALLEST = 300.0
"""Values with a probability below exp(−300) of the largest are left out."""
_NEGLIGIBLE = 50.0
"""The same for sums of draws, of which only the mean of the absolute value is asked."""


class Spread:
    """A law as an array of probabilities for the values from −reach to reach."""

    def __init__(self, law: Law):
        self.law = law
        self.reach = _reach(law, _SMALLEST)
        self._mass = _mass(law, self.reach)

    def at_most(self, x: Integers) -> Numbers:
        """P(X ≤ x)."""
        return self._below[self._place(x)]

    def above(self, x: Integers) -> Numbers:
        """P(X > x), with all digits where it is small."""
        return self._sums[0][self._place(x)]

    def given_above(self, t: Integers, least: Integers | None = None) -> tuple[Numbers, Numbers]:
        """Mean and variance of X, or of max(X, least), given X > t; both 0 where X > t does not happen."""
        at = self._place(t)
        chance, first, second = (sums[at] for sums in self._sums)
        if least is not None:
            floor = least.astype(np.float64)
            kept = self._place(np.maximum(t, least))
            low = chance - self._sums[0][kept]
            first = self._sums[1][kept] + low * floor
            second = self._sums[2][kept] + low * floor**2
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(chance > 0, first / chance, 0.0)
            square = np.where(chance > 0, second / chance, 0.0)
        return mean, np.maximum(square - mean**2, 0.0)

    def mean_absolute(self, cells: int = 1) -> float:
        """E|X₁ + … + X_cells|: how far noise alone puts a sum off."""
        reach = min(self.reach, _reach(self.law, _NEGLIGIBLE))
        size = 1 << (2 * cells * reach + 1).bit_length()
        one = np.zeros(size)
        one[: 2 * reach + 1] = _mass(self.law, reach)
        summed = np.fft.irfft(np.fft.rfft(one) ** cells, size)[: 2 * cells * reach + 1]
        return float(np.abs(np.arange(-cells * reach, cells * reach + 1)) @ summed)

    def _place(self, x: Integers) -> Integers:
        """Where the sums for a number stand; the first is for everything below the values that are listed."""
        return np.asarray(np.clip(x, -self.reach - 1, self.reach) + self.reach + 1)

    @cached_property
    def _below(self) -> Numbers:
        return np.concatenate([[0.0], np.cumsum(self._mass)])

    @cached_property
    def _sums(self) -> list[Numbers]:
        """P(X > x), E[X; X > x] and E[X²; X > x], added up from the far end."""
        values = np.arange(-self.reach, self.reach + 1, dtype=np.float64)
        return [np.concatenate([np.cumsum((self._mass * values**power)[::-1])[::-1], [0.0]]) for power in range(3)]


class LevelTheory:
    """A population group level by the true size of a group."""

    def __init__(self, level: GroupLevel, *, clamped: bool):
        self._level = level
        self._clamped = clamped
        self._first, self._second, self._total = (Spread(law) for law in (level.first, level.second, level.total))

    def chances(self, sizes: Integers) -> Numbers:
        """For each size the probabilities of the four statistics levels, one row for each size."""
        reached = [self._first.above(threshold - 1 - sizes) for threshold in self._level.settings.thresholds]
        bounds = [np.ones(len(sizes)), *reached, np.zeros(len(sizes))]
        return np.stack([high - low for high, low in pairwise(bounds)], axis=1)

    def suppressed(self, sizes: Integers) -> Numbers:
        """For each size the probability that the group is left out."""
        limit = self._level.suppressed_up_to
        if limit is None:
            return np.zeros(len(sizes))
        chosen = self._first.at_most(self._level.settings.thresholds[0] - 1 - sizes)
        return np.asarray(chosen * self._second.at_most(limit - sizes))

    def bias(self, sizes: Integers, *, total_only: bool) -> tuple[Numbers, Numbers]:
        """Mean and variance of the error of a published total that was measured itself."""
        spread = self._total if total_only else self._second
        limit = None if total_only else self._level.suppressed_up_to
        lowest = np.full(len(sizes), -spread.reach - 1)
        return spread.given_above(lowest if limit is None else limit - sizes, -sizes if self._clamped else None)

    def mean_absolute(self, cells: int, *, total_only: bool) -> float:
        """The mean absolute noise of a total: measured itself (one cell), or the sum of so many."""
        return (self._total if total_only else self._second).mean_absolute(cells)


def _reach(law: Law, exponent: float) -> int:
    parameter = float(law.parameter)
    return 1 + ceil(sqrt(2 * parameter * exponent) if isinstance(law, DiscreteGaussian) else exponent / parameter)


def _mass(law: Law, reach: int) -> Numbers:
    values, parameter = np.abs(np.arange(-reach, reach + 1)).astype(np.float64), float(law.parameter)
    exponent = values**2 / (2 * parameter) if isinstance(law, DiscreteGaussian) else values * parameter
    mass = np.exp(-exponent)
    return np.asarray(mass / mass.sum())
