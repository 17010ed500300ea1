"""The noise of published figures, and of sums, differences and ratios of them.

A figure is its true value and one *draw* of noise. Two rows have the same draw where they show one measurement (a
margin that pooled tables share), and different ones otherwise: a total and its cells were drawn independently. So for a
sum with the coefficients ``a_i`` of rows and ``c_d = sum of a_i over the rows with draw d``,

    Var = sum over draws of c_d**2 Var(d)

The margin is found from the law of the whole sum: the laws of its draws are convolved on the integers, up to what
floating point can show, and normal beyond a standard deviation of some thousands. Derivation: ``docs/proofs/sums.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arrays import Floats
from confide.noise import ReleaseNoise

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
