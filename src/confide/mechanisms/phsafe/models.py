"""What noisy counts say of counts that cannot be negative: truncated normals, their sums, and ratios. Deterministic.

A noisy count Z with variance D is taken as normal around its true count Y, and Y as any number of zero or more alike:

    Y | Z  ~  normal(Z, D) truncated to [0, ∞),      E[Y | Z] = Z + √D φ(a)/(1 - Φ(a)),   a = -Z/√D.

Sums of such counts are convolved on a grid. For ratios, let N be a numerator, M the denominator (at least 1), and
P(m, n) the probability that what else has to hold does hold; the density of R = N/M is

    g(r)  ∝  ∫ m φ((m - Z_M)/σ_M) φ((rm - Z_N)/σ_N) P(m, rm) dm,

found by Gauss-Legendre quadrature in m, and Simpson's rule in r. No draws, no seed. Formulas:
``docs/proofs/phsafe.md``, section 4, after the model of the Census Bureau's published tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtri_exp

from confide.arrays import Floats

ALPHA = 0.05
"""The probability on either side of an interval."""
MOST_IN_UNIT = 10.0
"""The most people of an average household or family."""
FAR = 9.0
"""Beyond so many standard deviations nothing is left of a normal density."""
BOUND = 6.0
"""Unknowns are at most the noisy value and so many standard deviations."""
LEAST_VARIANCE = 1e-6
"""A figure without noise is taken to have this little."""
CERTAIN = 8.0
"""So many standard deviations above zero a count is as good as not truncated."""
STEPS = 64
"""Steps of a grid for each standard deviation."""
RATIOS, NODES = 241, 40
"""Points of a density of ratios, and of the integral that each of them is."""


class PosteriorCount(NamedTuple):
    """Mean and quantiles of a count."""

    mean: float
    low: float
    high: float


def truncated(noisy: Floats, variance: Floats) -> Floats:
    """The means of counts of zero or more, given noisy ones.

    >>> truncated(np.array([-64.0, 10.0]), np.array([147.8, 147.8])).round(3)
    array([ 2.167, 14.352])
    """
    noisy, variance = np.asarray(noisy, np.float64), np.asarray(variance, np.float64)
    deviation = np.sqrt(np.where(variance > 0, variance, 1.0))
    above = noisy / deviation
    hazard = np.exp(-0.5 * above**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(above))
    return np.where(variance > 0, noisy + deviation * hazard, np.maximum(noisy, 0.0))


def quantile(noisy: float, variance: float, probability: float) -> float:
    """The quantile of one such count: closed form.

    >>> round(quantile(-64.0, 147.8, 0.95), 3), round(quantile(1478.0, 14782.2, 0.05), 1)
    (6.392, 1278.0)
    """
    if variance == 0:
        return max(noisy, 0.0)
    deviation = variance**0.5
    return float(noisy - deviation * ndtri_exp(np.log1p(-probability) + log_ndtr(noisy / deviation)))


def posterior_of_sum(noisy: Sequence[float], variance: Sequence[float], alpha: float = ALPHA) -> PosteriorCount:
    """Mean and quantiles of a sum of independent counts of zero or more.

    One count has closed forms. Counts that are all far from zero have a normal sum. Others are cut into steps of a
    64th of the smallest standard deviation and convolved; a step is spread evenly over its width.
    """
    values, variances = np.asarray(noisy, np.float64), np.asarray(variance, np.float64)
    mean = float(truncated(values, variances).sum())
    if len(values) == 1:
        return PosteriorCount(mean, *(quantile(values[0], variances[0], p) for p in (alpha, 1 - alpha)))
    deviations = np.sqrt(variances)
    if (values >= CERTAIN * deviations).all():
        width = float(-ndtri_exp(np.log(alpha)) * np.sqrt(variances.sum()))
        return PosteriorCount(mean, mean - width, mean + width)
    known = float(np.maximum(values[variances == 0], 0.0).sum())
    values, deviations = values[variances > 0], deviations[variances > 0]
    step = float(deviations.min()) / STEPS
    begins = np.maximum(values - FAR * deviations, 0.0)
    masses = [_mass(*each, step) for each in zip(values, deviations, begins, strict=True)]
    length = sum(map(len, masses)) - len(masses) + 1
    size = 1 << (length - 1).bit_length()
    spectrum = np.ones(size // 2 + 1, np.complex128)
    for mass in masses:
        spectrum *= np.fft.rfft(mass, size)
    below = np.concatenate([[0.0], np.cumsum(np.maximum(np.fft.irfft(spectrum, size)[:length], 0.0))])
    # The middles of the steps add up to the middles of the sums' steps.
    edges = known + begins.sum() + step * (np.arange(length + 1) + (len(masses) - 1) / 2)
    low, high = np.interp([alpha * below[-1], (1 - alpha) * below[-1]], below, edges)
    return PosteriorCount(mean, float(low), float(high))


def _mass(noisy: float, deviation: float, begin: float, step: float) -> Floats:
    """The probabilities of steps from ``begin`` on."""
    end = max(noisy, 0.0) + FAR * deviation
    edges = (begin + step * np.arange(int((end - begin) / step) + 2) - noisy) / deviation
    # From above, so that tails keep their digits.
    survival = np.exp(log_ndtr(-edges) - log_ndtr(-edges[0]))
    return np.asarray(-np.diff(survival))


@dataclass(frozen=True)
class PosteriorRatio:
    """Mean and quantiles of a ratio, and the means of numerator and denominator."""

    mean: float
    low: float
    high: float
    numerator: float
    denominator: float


@dataclass(frozen=True)
class NoisyValue:
    """A noisy value and the variance of its noise."""

    value: float
    variance: float

    @property
    def deviation(self) -> float:
        """The standard deviation; as good as none where there is no noise."""
        return math.sqrt(max(self.variance, LEAST_VARIANCE))

    @property
    def most(self) -> float:
        """The largest value that is looked at."""
        return abs(self.value) + BOUND * self.deviation

    def __add__(self, other: NoisyValue) -> NoisyValue:
        return NoisyValue(self.value + other.value, self.variance + other.variance)


Held = Callable[[Floats, Floats], Floats]
"""The logarithm of the probability that what else has to hold holds, given denominator and numerator."""


def ratio_of_sum(parts: tuple[NoisyValue, NoisyValue], units: NoisyValue, least: float) -> PosteriorRatio:
    """(N₂ + N₃)/M with N₂, N₃ ≥ 0 and least·M ≤ N₂ + N₃ ≤ κM; both parts have noise of one variance."""
    both, apart = parts[0] + parts[1], parts[0].value - parts[1].value

    def held(_: Floats, people: Floats) -> Floats:
        # With one variance, sum and difference are independent, and both parts are not negative if |difference| <= sum.
        deviation = both.deviation
        return _log_between((-people - apart) / deviation, (people - apart) / deviation)

    return _ratio(both, units, (least, MOST_IN_UNIT), held)


def ratio_of_part(part: NoisyValue, rest: NoisyValue, units: NoisyValue, least: float) -> PosteriorRatio:
    """N₂/M with N₂, N₃ ≥ 0 and least·M ≤ N₂ + N₃ ≤ κM, for the part N₂ and the rest N₃."""

    def held(number: Floats, people: Floats) -> Floats:
        first = np.maximum(least * number - people, 0.0)
        last = np.minimum(MOST_IN_UNIT * number - people, rest.most)
        return _log_between((first - rest.value) / rest.deviation, (last - rest.value) / rest.deviation)

    return _ratio(part, units, (0.0, MOST_IN_UNIT), held)


def ratio_alone(people: NoisyValue, units: NoisyValue, least: float) -> PosteriorRatio:
    """N/M with M ≥ 1 and least·M ≤ N ≤ κM."""
    return _ratio(people, units, (least, MOST_IN_UNIT), lambda number, _: np.zeros_like(number))


def _log_between(first: Floats, last: Floats) -> Floats:
    """The logarithm of the probability that a standard normal number is between two."""
    first, last = np.where(first > 0, -last, first), np.where(first > 0, -first, last)  # to the side with digits
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = log_ndtr(last) + np.log1p(-np.exp(np.minimum(log_ndtr(first) - log_ndtr(last), 0.0)))
    return np.asarray(np.where(last > first, difference, -np.inf))


@lru_cache(maxsize=1)
def _nodes() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def _ratio(people: NoisyValue, units: NoisyValue, between: tuple[float, float], held: Held) -> PosteriorRatio:
    """The posterior of a ratio: looked for on a wide grid first, then on a fine one where its density is."""
    grid = _first_grid(people, units, between)
    for _ in range(2):
        density, _, _ = _density(grid, people, units, held)
        there = np.flatnonzero(density > density.max() * 1e-13)
        first, last = max(there[0] - 1, 0), min(there[-1] + 1, len(grid) - 1)
        grid = np.linspace(grid[first], grid[last], RATIOS)
    density, numerator, denominator = _density(grid, people, units, held)
    weights = np.ones(RATIOS)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    mass = weights * density
    total = mass.sum()
    low, high = _quantiles(grid, density, (ALPHA, 1 - ALPHA))
    means = (float((mass * each).sum() / total) for each in (grid, numerator, denominator))
    mean, top, bottom = means
    return PosteriorRatio(mean, low, high, top, bottom)


def _first_grid(people: NoisyValue, units: NoisyValue, between: tuple[float, float]) -> Floats:
    """All possible ratios, and more of them around the noisy one, at every scale."""
    low, high = between
    middle = people.value / max(units.value, 1.0)
    around = middle + np.concatenate([[0.0], *(sign * np.logspace(-6, 1, 60) for sign in (-1, 1))])
    points = np.concatenate([np.linspace(low, high, 80), around])
    return np.unique(np.clip(points, low, high))


def _density(grid: Floats, people: NoisyValue, units: NoisyValue, held: Held) -> tuple[Floats, Floats, Floats]:
    """For each ratio its density, up to a factor, and the means of numerator and denominator there."""
    precision = 1 / units.deviation**2 + grid**2 / people.deviation**2
    width = precision**-0.5
    middle = (units.value / units.deviation**2 + grid * people.value / people.deviation**2) / precision
    with np.errstate(divide="ignore"):
        limit = np.minimum(units.most, np.where(grid > 0, people.most / np.where(grid > 0, grid, 1.0), np.inf))
    first = np.clip(middle - FAR * width, 1.0, np.maximum(limit, 1.0))
    last = np.clip(np.maximum(middle, 1.0) + FAR * width, first, np.maximum(limit, first))
    nodes, weights = _nodes()
    number = first[:, None] + (last - first)[:, None] * nodes
    count = grid[:, None] * number
    exponent = -0.5 * (
        ((number - units.value) / units.deviation) ** 2 + ((count - people.value) / people.deviation) ** 2
    )
    exponent = exponent + np.log(number) + held(number, count)
    exponent -= exponent.max()
    mass = np.exp(exponent) * weights * (last - first)[:, None]
    density = mass.sum(axis=1)
    safe = np.where(density > 0, density, 1.0)
    return density, (mass * count).sum(axis=1) / safe, (mass * number).sum(axis=1) / safe


def _quantiles(grid: Floats, density: Floats, probabilities: Sequence[float]) -> list[float]:
    """Quantiles of a density on an even grid: its integral to each point by a cubic rule, inverted."""
    step = grid[1] - grid[0]
    slope = np.gradient(density, step)
    pieces = step * (density[:-1] + density[1:]) / 2 + step**2 * (slope[:-1] - slope[1:]) / 12
    below = np.concatenate([[0.0], np.cumsum(np.maximum(pieces, 0.0))])
    fine = np.linspace(grid[0], grid[-1], 20 * len(grid))
    return [float(np.interp(p * below[-1], _interpolated(grid, below, density, fine), fine)) for p in probabilities]


def _interpolated(grid: Floats, below: Floats, density: Floats, at: npt.NDArray[np.float64]) -> Floats:
    """Hermite's interpolation of an integral, whose derivative is the density."""
    place = np.clip(np.searchsorted(grid, at, side="right") - 1, 0, len(grid) - 2)
    step = grid[1] - grid[0]
    t = (at - grid[place]) / step
    left, right = below[place], below[place + 1]
    rise, fall = density[place] * step, density[place + 1] * step
    value = (
        left * (1 + 2 * t) * (1 - t) ** 2 + rise * t * (1 - t) ** 2 + right * t**2 * (3 - 2 * t) + fall * t**2 * (t - 1)
    )
    return np.maximum.accumulate(value)
