"""Intervals for counts that have bounds: never empty, of the stated coverage at every true count, in whole numbers.

An estimate x of a count n has a Gaussian error of known standard deviation s, and public knowledge says that
``least <= n <= most``. In units of s, with μ = (n - least)/s and T = (most - least)/s (infinite without ``most``), the
*unified* intervals of Feldman and Cousins collect every μ that the likelihood-ratio test accepts:

    c²(x, μ) = (x - μ)² - (x - clip(x, 0, T))²                      minus twice the logarithm of the ratio
    K(c, μ)  = B(c, μ) + B(c, T - μ) - 1                            its law if μ is true
    B(c, m)  = Φ(c) if c <= m, else Φ(m/2 + c²/2m)
    interval = {μ in [0, T]: K(c(x, μ), μ) <= level}

The set is an interval, holds clip(x, 0, T) always, and covers every μ with exactly the level. Far from the bounds it is
x ± z. Clipping x ± z at the bounds instead leaves an empty set for one in twenty counts that are 0.

A *single* measurement with lattice noise is not Gaussian: its exact law is used (:class:`LatticeIntervals`). Proofs:
``docs/proofs/intervals.md``, sections 1 to 3. Reference: G. Feldman, R. Cousins, *Unified approach to the classical
statistical analysis of small signals*, Phys. Rev. D 57 (1998) 3873.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError
from confide.exact import Exact, exact
from confide.noise import NoiseDistribution

KNOT = 2.0**-9
"""Distance of the knots of the tables, in standard deviations. The curves have slopes between 0 and 1, so that a line
between two knots is off by at most a quarter of it; for whole numbers the test itself decides afterwards."""
LOWEST = -40.0
"""Below this the table ends, and the equation is solved for the few estimates that lie there."""
HALVINGS, FEW_HALVINGS = 60, 12
"""How often an interval of at most 2z standard deviations is halved: until nothing is open, or for a proposal."""
FAR = 100.0
"""Where a bound is put that is not there, in standard deviations."""
SURE = 1e-9
"""The standard deviation of what is known, as a part of it."""
LARGEST_COUNT = 2.0**52
"""Whole numbers beyond this are not all double-precision numbers."""


@dataclass(frozen=True, eq=False)
class RealIntervals:
    """Both ends of many intervals, which belong to them."""

    low: Floats
    high: Floats

    def covers(self, truth: ArrayLike) -> Booleans:
        """Whether each interval has the number in it."""
        value = np.asarray(truth)
        return np.asarray((self.low <= value) & (value <= self.high))


@dataclass(frozen=True, eq=False)
class WholeIntervals:
    """The least and the largest whole number of many intervals, never with the least above the largest."""

    low: Integers
    high: Integers

    def covers(self, truth: ArrayLike) -> Booleans:
        """Whether each interval has the number in it."""
        value = np.asarray(truth)
        return np.asarray((self.low <= value) & (value <= self.high))


def normal_quantile(level: float) -> float:
    """z with P(|Z| <= z) = level for a standard normal Z."""
    return float(ndtri((1 + checked_level(level)) / 2))


def accepted(x: Floats, mu: Floats, top: Floats, level: float) -> Booleans:
    """Whether the likelihood-ratio test at this level accepts μ for an estimate x of standard deviation 1.

    Args:
        x: Estimates.
        mu: Values to test, from 0 to ``top``.
        top: The largest value there can be, infinite if there is none.
        level: The coverage, such as 0.9.
    """
    return np.asarray(_law(x, mu, top) <= level)


def unified_intervals(
    estimate: ArrayLike, sd: ArrayLike, level: float, least: ArrayLike = 0.0, most: ArrayLike = np.inf
) -> RealIntervals:
    """Feldman-Cousins intervals for numbers between bounds, each estimated with a Gaussian error.

    Args:
        estimate: Estimates, which may lie outside of the bounds.
        sd: Their standard deviations, zero where a number is known.
        level: The coverage, such as 0.9.
        least: The least value there can be; ``-inf`` if there is none.
        most: The largest; ``inf`` if there is none.

    Returns:
        Both ends, right within ``KNOT / 4`` standard deviations.

    >>> ends = unified_intervals([-1.0, 1.5, 4.0], 1.0, 0.9)
    >>> ends.low.round(2), ends.high.round(2)
    (array([0.  , 0.22, 2.36]), array([0.81, 3.14, 5.64]))
    """
    return _Scale.of(estimate, sd, level, least, most).intervals(level, HALVINGS)


def count_intervals(
    estimate: ArrayLike, sd: ArrayLike, level: float, least: ArrayLike = 0, most: ArrayLike = np.inf
) -> WholeIntervals:
    """Feldman-Cousins intervals for counts: the whole numbers that the test accepts, and the nearest one if none.

    The coverage is exactly the level wherever some whole number is accepted for every estimate, which is so for
    ``sd > 0.36`` at levels from 0.9; below it is larger, since nobody can say less than one whole number.

    Args:
        estimate: Estimates of counts.
        sd: Their standard deviations, zero where a count is known.
        level: The coverage, such as 0.9.
        least: The least count there can be, 0 unless the frame says more; ``-inf`` for differences.
        most: The largest count there can be, such as a known total; ``inf`` if there is none.

    Returns:
        Both ends as whole numbers. Each was decided by the test itself, not by a table.

    >>> ends = count_intervals([-6.0, 3.2, 40.0, 41.0], 4.0, 0.9, most=[np.inf, np.inf, np.inf, 42])
    >>> ends.low, ends.high
    (array([ 0,  0, 34, 35]), array([ 2,  9, 46, 42]))
    """
    bottom, peak = np.ceil(np.asarray(least, np.float64)), np.floor(np.asarray(most, np.float64))
    scale = _Scale.of(estimate, sd, level, bottom, peak)
    ends = scale.intervals(level, FEW_HALVINGS)
    if max(np.abs(ends.low).max(initial=0.0), np.abs(ends.high).max(initial=0.0)) > LARGEST_COUNT:
        raise ParameterError("bad-interval/large")

    def takes(number: Floats) -> Booleans:
        inside = (scale.least <= number) & (number <= scale.most)
        return np.asarray(inside & accepted(scale.x, scale.there(number), scale.top, level))

    low = np.clip(np.ceil(ends.low), scale.least, scale.most)
    high = np.clip(np.floor(ends.high), scale.least, scale.most)
    # Tables and few halvings propose, within KNOT deviations; the test decides.
    for _ in range(1 + int(KNOT * float(scale.sd.max(initial=0.0)))):
        low = np.where(takes(low - 1), low - 1, np.where(takes(low), low, low + 1))
        high = np.where(takes(high + 1), high + 1, np.where(takes(high), high, high - 1))
    none = low > high
    nearest = np.clip(np.rint(np.asarray(estimate, np.float64)), scale.least, scale.most)
    low, high = np.where(none, nearest, low), np.where(none, nearest, high)
    return WholeIntervals(low.astype(np.int64), high.astype(np.int64))


@dataclass(frozen=True, eq=False)
class _Scale:
    """Estimates in units of their standard deviation, from a bound at 0 on; bounds at infinity are put far away."""

    x: Floats
    top: Floats
    sd: Floats
    origin: Floats
    sign: Floats
    least: Floats
    most: Floats

    @classmethod
    def of(cls, estimate: ArrayLike, sd: ArrayLike, level: float, least: ArrayLike, most: ArrayLike) -> _Scale:
        checked_level(level)
        arrays = np.broadcast_arrays(*(np.asarray(values, np.float64) for values in (estimate, sd, least, most)))
        x, s, low, high = arrays
        if not (np.isfinite(x).all() and np.isfinite(s).all() and (s >= 0).all()):
            raise ParameterError("bad-interval/estimate")
        if not (low <= high).all():
            raise ParameterError("bad-interval/nothing")
        # What is known without noise has a deviation so small that nothing else is accepted.
        s = np.where(s > 0, s, SURE * np.maximum(1.0, np.abs(x)))
        open_below, open_above = np.isneginf(low), np.isposinf(high)
        sign = np.where(open_below & ~open_above, -1.0, 1.0)
        far = x - FAR * s
        origin = np.where(open_below, np.where(open_above, far, high), low)
        with np.errstate(invalid="ignore"):
            top = np.where(open_below | open_above, np.inf, (high - low) / s)
        return cls(sign * (x - origin) / s, top, s, origin, sign, low, high)

    def there(self, number: Floats) -> Floats:
        return np.asarray(self.sign * (number - self.origin) / self.sd)

    def intervals(self, level: float, halvings: int) -> RealIntervals:
        ends = _scaled(self.x, self.top, level, halvings)
        one, other = (self.origin + self.sign * self.sd * end for end in (ends.low, ends.high))
        low, high = np.minimum(one, other), np.maximum(one, other)
        return RealIntervals(np.clip(low, self.least, self.most), np.clip(high, self.least, self.most))


def _law(x: Floats, mu: Floats, top: Floats) -> Floats:
    """K(c(x, μ), μ): the probability, if μ is true, of an estimate that speaks less against μ than x does."""
    away = np.where(x < 0, x, np.where(x > top, x - top, 0.0))
    # (x - μ)² - away², without the loss of digits far outside.
    squared = np.maximum((x - mu - away) * (x - mu + away), 0.0)
    c = np.sqrt(squared)
    sides = _side(c, squared, mu) + _side(c, squared, top - mu)
    return np.asarray(np.where(squared > 0, sides - 1, 0.0))


def _side(c: Floats, squared: Floats, room: Floats) -> Floats:
    """B(c, m): how much of the law lies on one side, with a bound ``room`` away."""
    distance = np.maximum(room, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = distance / 2 + squared / (2 * distance)
    return np.asarray(ndtr(np.where(c <= distance, c, np.where(distance > 0, beyond, np.inf))))


def _scaled(x: Floats, top: Floats, level: float, halvings: int) -> RealIntervals:
    """Intervals for standard deviation 1 and bounds 0 and ``top``."""
    z = normal_quantile(level)
    table = _Curves.of(level)
    low, high = np.maximum(table.lower(x), 0.0), table.upper(x)
    # Bounds more than 2z apart do not meet: near the upper one, everything is mirrored.
    near = np.isfinite(top) & (top >= 2 * z)
    from_top = np.where(near, top - x, 0.0)
    low = np.asarray(np.where(near & (x > top), top - table.upper(from_top), low))
    high = np.asarray(np.where(near & (x > top / 2), top - np.maximum(table.lower(from_top), 0.0), high))
    narrow = top < 2 * z
    if narrow.any():
        at, end = x[narrow], top[narrow]
        best = np.clip(at, 0.0, end)
        low[narrow] = _edge(at, end, best, np.zeros_like(at), level, halvings)
        high[narrow] = _edge(at, end, best, end, level, halvings)
    return RealIntervals(low, high)


def _edge(x: Floats, top: Floats, inside: Floats, outside: Floats, level: float, halvings: int = HALVINGS) -> Floats:
    """The last accepted μ on the way from ``inside``, which is accepted, to ``outside``, by halving."""
    outside = np.array(outside)
    inside = np.where(accepted(x, outside, top, level), outside, inside)
    for _ in range(halvings):
        middle = (inside + outside) / 2
        taken = accepted(x, middle, top, level)
        inside, outside = np.where(taken, middle, inside), np.where(taken, outside, middle)
    return np.asarray(inside)


@dataclass(frozen=True, eq=False)
class _Curves:
    """Both ends as functions of x for the bound 0 alone: tables where there is no formula."""

    level: float
    below: Floats
    """The upper end for x from ``LOWEST`` to 0."""
    between: Floats
    """The lower end for x from the one-sided to twice the two-sided quantile."""
    start: float

    @staticmethod
    @lru_cache(maxsize=16)
    def of(level: float) -> _Curves:
        z, start = normal_quantile(level), float(ndtri(level))
        infinite = np.inf
        at: Floats = np.arange(LOWEST, KNOT / 2, KNOT, dtype=np.float64)
        below = _edge(at, np.full_like(at, infinite), np.zeros_like(at), np.full_like(at, z), level)
        x: Floats = start + KNOT * np.arange(int((2 * z - start) / KNOT) + 2, dtype=np.float64)
        between = _edge(x, np.full_like(x, infinite), x, np.zeros_like(x), level)
        return _Curves(level, below, between, start)

    def upper(self, x: Floats) -> Floats:
        z = normal_quantile(self.level)
        result = np.where(x >= 0, x + z, np.interp(x, LOWEST + KNOT * np.arange(len(self.below)), self.below))
        far = x < LOWEST
        if far.any():
            at = x[far]
            result[far] = _edge(at, np.full_like(at, np.inf), np.zeros_like(at), np.full_like(at, z), self.level)
        return np.asarray(result)

    def lower(self, x: Floats) -> Floats:
        z = normal_quantile(self.level)
        knots = self.start + KNOT * np.arange(len(self.between))
        inner = np.interp(x, knots, self.between)
        return np.asarray(np.where(x <= self.start, 0.0, np.where(x >= 2 * z, x - z, inner)))


@dataclass(frozen=True)
class LatticeIntervals:
    """Intervals for counts that were measured once, with noise on whole numbers: its exact law, no approximation.

    A measurement is y = n + Z. For each n between the bounds the test accepts the y of the largest likelihood ratios
    p(y - n)/p(y - n̂), n̂ being y brought within the bounds, values with equal ratios together, until their probability
    is at least the level. Away from the bounds that is |y - n| <= m, the noise margin. The coverage is at least the
    level at every n, and no interval is empty, as n̂ is always accepted; that no smaller margin will do is exact.

    Args:
        law: The noise, whose probabilities fall as one goes away from 0.
        level: The coverage, an exact number such as ``"0.9"``.
        least: The least count there can be.
        most: The largest, or none.

    >>> from confide.noise import DiscreteGaussian
    >>> ends = LatticeIntervals(DiscreteGaussian("1.21"), "0.9").of([-4, 0, 1, 7])
    >>> ends.low, ends.high
    (array([0, 0, 0, 5]), array([0, 2, 3, 9]))
    """

    law: NoiseDistribution
    level: Exact
    least: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        checked_level(float(exact(self.level, "level")))
        if self.most is not None and self.most < self.least:
            raise ParameterError("bad-interval/count-possible", least=self.least, most=self.most)

    @cached_property
    def margin(self) -> int:
        """m, the smallest whole number with P(|Z| <= m) >= level."""
        return self.law.noise_margin(self.level)

    def coverage(self) -> float:
        """P(|Z| <= m): what an interval away from the bounds covers; not below the level."""
        return float(1 - 2 * self.law.tail(self.margin))

    def of(self, measured: ArrayLike) -> WholeIntervals:
        """The interval of each measurement."""
        y = np.asarray(measured, np.int64)
        m, least = self.margin, self.least
        bottom, peak = self._accepted
        # Counts beyond the table accept y ± m, and so does the table's last row.
        last = least + len(bottom) - 1
        low = least + np.searchsorted(np.maximum.accumulate(peak), y, side="left")
        high = least + np.searchsorted(np.minimum.accumulate(bottom[::-1])[::-1], y, side="right") - 1
        low = np.where(y - m > last, y - m, np.minimum(low, last))
        high = np.where(y + m > last, y + m, high)
        if self.most is not None:
            # The upper bound by the mirror: -y is a measurement of -n with the same noise.
            if self.most - least < 2 * m + 2:
                return self._between(y)
            mirror = LatticeIntervals(self.law, self.level, -self.most).of(-y)
            low = np.where(y > self.most - m - 1, -mirror.high, low)
            high = np.where(y > least + m, -mirror.low, high)
        return WholeIntervals(low.astype(np.int64), high.astype(np.int64))

    @cached_property
    def _accepted(self) -> tuple[Integers, Integers]:
        """The least and the largest y that n = least + k accepts, k from 0 to m + 1."""
        regions = [self._region(self.least + k, None) for k in range(self.margin + 2)]
        bottom, peak = (np.array(side, np.int64) for side in zip(*regions, strict=True))
        return bottom, peak

    def _between(self, y: Integers) -> WholeIntervals:
        """Bounds so close that both matter: every count in turn."""
        assert self.most is not None
        counts = np.arange(self.least, self.most + 1)
        regions = np.array([self._region(int(n), self.most) for n in counts])
        taken = (regions[:, 0] <= y[..., None]) & (y[..., None] <= regions[:, 1])
        taken |= counts == np.clip(y, self.least, self.most)[..., None]
        low = np.where(taken, counts, self.most + 1).min(axis=-1)
        return WholeIntervals(low, np.where(taken, counts, self.least - 1).max(axis=-1))

    def _region(self, n: int, most: int | None) -> tuple[int, int]:
        """The y that n accepts: they are consecutive, since the ratio falls to both sides of n."""
        reach = self._reach
        y = np.arange(n - reach, n + reach + 1)
        best = np.maximum(y, self.least) if most is None else np.clip(y, self.least, most)
        ratio = self._logarithms[np.abs(y - n)] - self._logarithms[np.minimum(np.abs(y - best), reach)]
        # Equal ratios belong together; they differ by rounding errors alone.
        order = np.argsort(-ratio, kind="stable")
        sums = np.cumsum(np.exp(self._logarithms[np.abs(y - n)])[order])
        needed = float(exact(self.level, "level")) + ROUNDING
        last = int(np.searchsorted(sums, needed))
        taken = y[ratio >= ratio[order[min(last, len(y) - 1)]] - TIE]
        # What lies beyond `reach` below the bound has the ratio of the last one seen or more, and is unlikely.
        return int(taken.min()) if taken[0] > y[0] else -(2**62), int(taken.max()) if taken[-1] < y[-1] else 2**62

    @cached_property
    def _reach(self) -> int:
        return self.law.noise_margin(1 - exact("1e-15", "level")) + 2

    @cached_property
    def _logarithms(self) -> Floats:
        """log p(0), log p(1), … from the exact ratios of neighbours, and p(0) to the last digit."""
        decay = self.law.decay
        steps = [float(decay.first + k * decay.step) for k in range(self._reach)]
        return np.asarray(np.log(self.law.pmf(0)) - np.concatenate([[0.0], np.cumsum(steps)]))


ROUNDING = 1e-13
"""More than what sums of probabilities may be too large by."""
TIE = 1e-9
"""Logarithms of ratios that differ by less are equal."""


def mixed_margin(law: NoiseDistribution, weight: float, rest: float, level: float) -> float:
    """The margin of an estimate that one measurement dominates: r with P(|w Z + N(0, rest)| <= r) = level.

    For estimates in which one measurement with noise of few levels has most of the weight, so that the sum is neither
    a lattice nor normal.

    Args:
        law: The noise Z of that measurement.
        weight: Its weight w in the estimate.
        rest: The variance of everything else, above zero.
        level: The coverage.

    >>> from confide.noise import DiscreteGaussian
    >>> round(mixed_margin(DiscreteGaussian("1.21"), 0.9, 0.05, 0.9), 3)
    1.752
    """
    checked_level(level)
    if not (rest > 0 and np.isfinite(weight)):
        raise ParameterError("bad-interval/rest", found=str(rest))
    reach = law.noise_margin(1 - exact("1e-15", "level"))
    values = np.arange(-reach, reach + 1)
    chance = np.array([law.pmf(abs(int(k))) for k in range(reach + 1)])[np.abs(values)]
    sd = float(np.sqrt(rest))

    def covered(r: float) -> float:
        inside = ndtr((r - weight * values) / sd) - ndtr((-r - weight * values) / sd)
        return float((chance * inside).sum())

    low, high = 0.0, abs(weight) * reach + 40 * sd
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if covered(middle) < level else (low, middle)
    return high


def checked_level(level: float) -> float:
    """A coverage strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ParameterError(
            "bad-interval/coverage", found=repr(level), level=level / 100, level_remedy=level, less=1 < level < 100
        )
    return float(level)
