"""How likely a published figure is for each count that it can come from: the law of its noise, read backwards.

An attacker knows the mechanism: laws and perturbation tables are in the plan, which is public. What a figure y says of
its true count n is the likelihood P(y | n) as a function of n. A factor that does not depend on n says nothing, and is
left out.

- :class:`AdditiveLaw`: y = n + e, with e of a law of :mod:`confide.noise`, bounded or not: P(e = y − n).
- :class:`PTableLaw`: the cell key method, P(noise = y − n | n) from the row of the perturbation table for n.
- :class:`SpreadLaw`: no more is known than a variance, and perhaps a bound: a normal density, cut off at the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

from confide.noise import DiscreteGaussian, ReleaseNoise, TruncatedGaussian, TwoSidedGeometric
from confide.noise.ptables import PTable

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LEAST_VARIANCE = 1e-9
"""Noise that is next to never there: densities want a variance above zero."""


class FigureLaw(Protocol):
    """What every law of a figure answers."""

    def log_likelihood(self, figure: float, counts: Integers) -> Floats:
        """For each count the logarithm of the probability of the figure, up to a constant; ``-inf``: it cannot be.

        Args:
            figure: The published figure.
            counts: True counts of zero or more, shape (counts,).
        """


@dataclass(frozen=True)
class AdditiveLaw:
    """A count plus noise of a law; with ``floored``, what came out below zero is published as zero.

    >>> AdditiveLaw(DiscreteGaussian(2)).log_likelihood(3, np.array([1, 3, 5])).tolist()
    [-1.0, 0.0, -1.0]
    """

    noise: ReleaseNoise
    floored: bool = False

    def log_likelihood(self, figure: float, counts: Integers) -> Floats:
        if self.floored and figure <= 0:
            reach = int(counts.max(initial=0)) + self._tail
            weights = np.exp(self._log(np.arange(reach + 1, dtype=np.float64)))
            # P(e ≤ −n): what is summed from the far end on.
            sums = np.cumsum(weights[::-1])[::-1]
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(sums[counts] / sums[0]))
        return self._log(np.abs(figure - counts))

    @cached_property
    def _tail(self) -> int:
        """How far beyond a count the law has to be summed up."""
        deviation = sqrt(max(self.noise.variance(), LEAST_VARIANCE))
        return self.noise.bound if self.noise.bound is not None else int(40 * deviation) + 10

    def _log(self, distance: Floats) -> Floats:
        """The logarithm of the law at a distance from zero, up to a constant."""
        parameter = float(self.noise.parameter)
        if isinstance(self.noise, DiscreteGaussian | TruncatedGaussian):
            values = -(distance**2) / (2 * max(parameter, LEAST_VARIANCE))
        else:
            assert isinstance(self.noise, TwoSidedGeometric) or self.noise.bound is not None
            values = -parameter * distance
        if self.noise.bound is not None:
            values = np.where(distance <= self.noise.bound, values, -np.inf)
        return np.asarray(values, np.float64)


@dataclass(frozen=True)
class PTableLaw:
    """The cell key method with a perturbation table: nobody stays nobody, and every count has its own row."""

    table: PTable

    @cached_property
    def _rows(self) -> tuple[dict[int, float], ...]:
        """For each row the logarithms of its probabilities, by noise."""
        return tuple(
            {int(noise): float(np.log(float(p))) for noise, p in self.table.probabilities(place).items() if p > 0}
            for place in range(len(self.table.rows))
        )

    def log_likelihood(self, figure: float, counts: Integers) -> Floats:
        places = self.table.row_of(counts)
        noise = figure - counts
        return np.array(
            [
                self._rows[place].get(int(each), -np.inf) if each == int(each) else -np.inf
                for place, each in zip(places.tolist(), noise.tolist(), strict=True)
            ],
            np.float64,
        )


@dataclass(frozen=True)
class SpreadLaw:
    """Noise of a stated variance, no further than ``largest`` if that is given; with ``zeros_kept``, zero stays zero.

    >>> SpreadLaw(2.0, largest=1).log_likelihood(3, np.array([1, 2, 3])).tolist()
    [-inf, -0.25, 0.0]
    """

    variance: float
    largest: int | None = None
    zeros_kept: bool = False

    def log_likelihood(self, figure: float, counts: Integers) -> Floats:
        distance = np.abs(figure - counts)
        values = -(distance**2) / (2 * max(self.variance, LEAST_VARIANCE))
        if self.largest is not None:
            values = np.where(distance <= self.largest, values, -np.inf)
        if self.zeros_kept and figure > 0:
            values = np.where(counts > 0, values, -np.inf)
        return np.asarray(values, np.float64)


WIDEST = 2_000
SPREADS = 11
"""A table of a likelihood reaches so many standard deviations to both sides of the figure, or so many counts."""
IMPOSSIBLE = 40.0
"""What a count costs that cannot be, in logarithms; and each step beyond, so that a search finds its way back."""


@dataclass(frozen=True, eq=False)
class LikelihoodTable:
    """The likelihood of one figure for the counts ``low``, ``low + 1``, …; outside it falls by a slope on each side."""

    low: int
    values: Floats
    slopes: tuple[float, float]

    @classmethod
    def of(cls, law: FigureLaw, figure: float, variance: float, largest: int | None = None) -> LikelihoodTable:
        """The table of a figure: ``largest`` is how far the noise can go, if it cannot go everywhere."""
        deviation = SPREADS * sqrt(max(variance, LEAST_VARIANCE)) if isfinite(variance) else WIDEST
        width = largest + 1 if largest is not None else int(min(deviation, WIDEST)) + 3
        low = max(0, int(np.floor(figure)) - width)
        high = max(low + 3, int(np.ceil(figure)) + width)
        counts = np.arange(low, high + 1, dtype=np.int64)
        values = law.log_likelihood(figure, counts)
        possible = np.isfinite(values)
        if not possible.any():
            values = -IMPOSSIBLE * (1 + np.abs(counts - figure))
        elif not possible.all():
            distance = np.abs(np.subtract.outer(counts, counts[possible])).min(axis=1)
            worst = values[possible].min()
            values = np.where(possible, values, worst - IMPOSSIBLE * distance)
        falls = (float(values[1] - values[0]), float(values[-2] - values[-1]))
        return cls(low, values, (max(falls[0], 0.1), max(falls[1], 0.1)))
