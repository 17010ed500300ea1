"""The noise of published figures, and of sums, differences and ratios of them.

A figure is its true value and one *draw* of noise. Two rows have the same draw where they show one measurement (a
margin that pooled tables share), and different ones otherwise: a total and its cells were drawn independently. So for a
sum with the coefficients ``a_i`` of rows and ``c_d = sum of a_i over the rows with draw d``,

    Var = sum over draws of c_d**2 Var(d)

The margin is found from the law of the whole sum: the laws of its draws are convolved on the integers, up to what
floating point can show, and normal beyond a standard deviation of some thousands. Derivation: ``docs/proofs/sums.md``.

Read backwards, the law of the noise says how likely a published figure is for each count that it can come from. An
attacker knows the mechanism: laws and perturbation tables are in the plan, which is public. What a figure y says of its
true count n is the likelihood P(y | n) as a function of n. A factor that does not depend on n says nothing, and is left
out.

- :class:`AdditiveLaw`: y = n + e, with e of a law of :mod:`confide.noise`, bounded or not: P(e = y − n).
- :class:`PTableLaw`: the cell key method, P(noise = y − n | n) from the row of the perturbation table for n.
- :class:`SpreadLaw`: no more is known than a variance, and perhaps a bound: a normal density, cut off at the bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from math import isfinite, sqrt
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arrays import Floats, Integers
from confide.noise import DiscreteGaussian, ReleaseNoise, TruncatedGaussian, TwoSidedGeometric
from confide.noise.ptables import PTable

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


# The noise of published figures, and of sums, differences and ratios of them.


LARGEST_LATTICE = 1 << 17
"""How many integers a law is convolved on at most."""


@dataclass(frozen=True)
class SelectedFigure:
    """A figure that was published because it was large enough, and what it says of its count."""

    figure: int
    interval: Callable[[Fraction], tuple[int, int]]
    """The count is between these two numbers with a probability."""


@dataclass(frozen=True)
class Draw:
    """One draw of noise: what tells it from others, and its law, or that there is none."""

    key: Hashable
    law: ReleaseNoise | None
    """None: the figure is exact."""
    selected: SelectedFigure | None = None
    """Of a figure that was published because it was large enough: its noise has not the law that was drawn from."""


class FigureNoise(Protocol):
    """What a mechanism knows of the noise of its figures."""

    @property
    def figure(self) -> str:
        """The column of the figures."""

    def draws(self, table: str, row: Mapping[str, Any]) -> Sequence[Draw]:
        """The draws of a row of a table: one, or those of the counts that it is the sum of. Raises a
        :class:`LookupError` for a row that the table cannot have."""


@dataclass(frozen=True)
class NoiseOfSum:
    """The noise of a sum with coefficients: how often each law is in it, by its coefficient."""

    draws: Mapping[tuple[ReleaseNoise, Fraction], int]

    @classmethod
    def of(cls, terms: Iterable[tuple[Fraction, Draw]]) -> NoiseOfSum:
        """The noise of a sum of figures, each with its coefficient: coefficients of one draw are added first."""
        laws: dict[Hashable, ReleaseNoise] = {}
        coefficients: Counter[Hashable] = Counter()
        for coefficient, draw in terms:
            if draw.law is not None:
                laws[draw.key] = draw.law
                coefficients[draw.key] += coefficient  # type: ignore[assignment]
        return cls(Counter((laws[key], abs(Fraction(c))) for key, c in coefficients.items() if c))

    @property
    def variance(self) -> float:
        """The variance."""
        return math.fsum(n * float(c) ** 2 * _variance(law) for (law, c), n in self.draws.items())

    def margin(self, probability: Fraction) -> float:
        """The smallest ``m`` with ``P(|noise| <= m) >= probability``, as far as floating point shows it."""
        if not self.draws:
            return 0
        if sum(self.draws.values()) == 1:
            ((law, coefficient),) = self.draws
            return _number(coefficient * law.noise_margin(probability))
        # In units in which all coefficients are whole numbers.
        unit = Fraction(1, math.lcm(*(c.denominator for _, c in self.draws)))
        lattice = _lattice([(law, int(c / unit), n) for (law, c), n in self.draws.items()])
        if lattice is None:
            return float(NormalDist().inv_cdf((1 + float(probability)) / 2) * math.sqrt(self.variance))
        folded = lattice[: len(lattice) // 2].copy()
        folded[1:] += lattice[: len(lattice) // 2 : -1]
        within = np.cumsum(folded)
        place = int(np.searchsorted(within, float(probability) * (1 - 1e-12)))
        return _number(unit * min(place, len(within) - 1))


def bounds_of_sum(
    value: float, terms: Iterable[tuple[Fraction, Draw]], probability: Fraction
) -> tuple[float, float] | None:
    """Where a sum is that has figures which were selected for being large; None where it has none.

    Each selected figure gets its own share of what may go wrong, and so do all others together: then all of them are
    where they are said to be with the probability, whatever they have to do with each other.
    """
    chosen: dict[Hashable, tuple[Fraction, SelectedFigure]] = {}
    others = []
    for coefficient, draw in terms:
        if draw.selected is None:
            others.append((coefficient, draw))
        else:
            times = chosen[draw.key][0] if draw.key in chosen else Fraction(0)
            chosen[draw.key] = times + coefficient, draw.selected
    kept = [(times, selected) for times, selected in chosen.values() if times]
    if not kept:
        return None
    rest = NoiseOfSum.of(others)
    each = 1 - (1 - probability) / (len(kept) + bool(rest.draws))
    margin = Fraction(rest.margin(each))
    low = high = Fraction(value) - sum(times * selected.figure for times, selected in kept)
    for times, selected in kept:
        ends = sorted(times * end for end in selected.interval(each))
        low, high = low + ends[0], high + ends[1]
    return _number(low - margin), _number(high + margin)


@cache
def _variance(law: ReleaseNoise) -> float:
    return law.variance()


def _lattice(parts: Sequence[tuple[ReleaseNoise, int, int]]) -> Floats | None:
    """The probabilities of a sum on the integers modulo a power of two, 0 first; none where that would be too large."""
    deviation = math.sqrt(math.fsum(n * c**2 * _variance(law) for law, c, n in parts))
    reach = 12 * deviation + 40 * max(c * math.sqrt(_variance(law)) for law, c, _ in parts) + 64
    size = 1 << math.ceil(math.log2(2 * reach + 2))
    if size > LARGEST_LATTICE:
        return None
    product = np.ones(size // 2 + 1, np.complex128)
    for law, coefficient, times in parts:
        on_lattice = np.zeros(size)
        places, weights = _weights(law, size // (2 * coefficient) - 1)
        np.add.at(on_lattice, (places * coefficient) % size, weights)
        product *= np.fft.rfft(on_lattice) ** times
    unscaled: Floats = np.fft.irfft(product, size).clip(0)
    probabilities: Floats = unscaled / unscaled.sum()
    return probabilities


def _weights(law: ReleaseNoise, reach: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """The probabilities of a law in floating point, as far as they matter: for readers, not for drawing."""
    stated = law.as_dict()
    most = reach if law.bound is None else min(reach, law.bound)
    places = np.arange(-most, most + 1, dtype=np.int64)
    if "sigma2" in stated:
        weights = np.exp(-(places.astype(float) ** 2) / (2 * float(Fraction(stated["sigma2"]))))
    else:
        weights = np.exp(-np.abs(places) * float(Fraction(stated["epsilon"])))
    return places, weights / weights.sum()


def _number(value: Fraction) -> float:
    """A margin as a whole number where it is one."""
    return int(value) if value.denominator == 1 else float(value)
