"""Noise with a bound: distributions on the whole numbers from ``-D`` to ``D``, each with exact probabilities.

A bounded distribution is a list of weights, each known between two whole numbers as narrowly as one asks; everything
else is sums and quotients of them. A :class:`FiniteDistribution` has rational probabilities, and then every answer is
exact.

It is no :class:`~confide.noise.distributions.NoiseDistribution`, on purpose. That one covers all integers and has a
loss in pure or zero-concentrated differential privacy; bounded noise has neither: a result that only one of two
neighbouring counts can have tells them apart. What it has is an epsilon with a delta above zero
(:mod:`confide.noise.stream`). The truncated distributions, whose curve is known for many counts together, have
a price in approximate differential privacy and protect a release; a listed one does not.

Derivation: ``docs/proofs/noise.md``, section 9. Reference: Bach, Differential privacy and noisy confidentiality
concepts for European population statistics (2020), section 2.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import lcm, log
from typing import ClassVar

from confide.errors import ParameterError
from confide.exact import Exact, exact, positive, probability
from confide.noise import distributions
from confide.noise.distributions import IntegerBounds, ceil_shift, exp_minus

LARGEST_BOUND = 1 << 20
"""Weights are listed one by one, so that a bound must not be beyond all use."""


class BoundedDistribution(ABC):
    """A noise law on ``-D .. D``."""

    __slots__ = ()
    name: ClassVar[str]
    title: ClassVar[str]

    @property
    @abstractmethod
    def bound(self) -> int:
        """``D``, the largest noise in either direction."""

    @property
    @abstractmethod
    def largest_loss(self) -> Fraction:
        """At least the largest ``|log P(X = x) / P(X = x - 1)|`` where both probabilities are above zero."""

    @abstractmethod
    def weights(self, bits: int) -> list[IntegerBounds]:
        """Enclosures of numbers proportional to ``P(X = x)``, ``x = -D .. D``, which narrow as ``bits`` grow."""

    @abstractmethod
    def outside_bounds(self, bits: int = 128) -> distributions.Bounds:
        """The probability of results that the neighbouring count cannot have: delta however large epsilon is."""

    @abstractmethod
    def as_dict(self) -> dict[str, str]:
        """The law as exact text."""

    def share_bounds(self, first: int, last: int, bits: int = 128) -> distributions.Bounds:
        """An enclosure of ``P(first <= X <= last)`` that is at most ``2**-bits`` wide."""
        reach = self.bound
        begin, end = max(first, -reach) + reach, min(last, reach) + reach + 1
        if begin >= end:
            return Fraction(0), Fraction(0)
        return distributions.narrowed(lambda work: cumulated(self, work).share(begin, end), bits)

    def pmf_bounds(self, x: int, bits: int = 128) -> distributions.Bounds:
        """An enclosure of ``P(X = x)``; zero beyond the bound."""
        return self.share_bounds(x, x, bits)

    def cdf_bounds(self, x: int, bits: int = 128) -> distributions.Bounds:
        """An enclosure of ``P(X <= x)``; exactly one from the bound on."""
        return self.share_bounds(-self.bound, x, bits)

    def folded_cdf_bounds(self, m: int, bits: int = 128) -> distributions.Bounds:
        """An enclosure of ``P(|X| <= m)``."""
        return self.share_bounds(-m, m, bits)

    def variance_bounds(self, bits: int = 128) -> distributions.Bounds:
        """An enclosure of the variance, for a law with mean zero: ``sum of x**2 P(X = x)``."""
        return distributions.narrowed(lambda work: cumulated(self, work).second_moment(self.bound), bits)

    def pmf(self, x: int) -> float:
        """``P(X = x)``, correctly rounded."""
        return distributions.nearest_float(lambda bits: self.pmf_bounds(x, bits))

    def cdf(self, x: int) -> float:
        """``P(X <= x)``, correctly rounded."""
        return distributions.nearest_float(lambda bits: self.cdf_bounds(x, bits))

    def variance(self) -> float:
        """The variance, correctly rounded."""
        return distributions.nearest_float(self.variance_bounds)

    def quantile(self, p: Exact) -> int:
        """The smallest ``x`` with ``P(X <= x) >= p``, decided exactly."""
        level = probability(p, "p")
        return _first(-self.bound, self.bound, lambda x: at_least(lambda bits: self.cdf_bounds(x, bits), level))

    def noise_margin(self, level: Exact) -> int:
        """The smallest ``m`` with ``P(|X| <= m) >= level``, decided exactly. It is never beyond the bound."""
        share = probability(level, "level")
        return _first(0, self.bound, lambda m: at_least(lambda bits: self.folded_cdf_bounds(m, bits), share))

    def describe(self) -> str:
        """One sentence for people."""
        return (
            f"{self.title} noise of at most ±{self.bound:,}: standard deviation {self.variance() ** 0.5:.4g}, within "
            f"±{self.noise_margin('0.95'):,} in at least 95 % of draws"
        )


@dataclass(frozen=True, slots=True, init=False)
class FiniteDistribution(BoundedDistribution):
    """Any finite list of values with rational probabilities and mean zero, such as a row of a perturbation table.

    Args:
        values: Whole numbers, each once, in any order.
        probabilities: One exact number for each, zero or more, with the sum 1.

    >>> FiniteDistribution([-1, 0, 1], ["1/4", "1/2", "1/4"]).variance()
    0.5
    """

    values: tuple[int, ...]
    probabilities: tuple[Fraction, ...]
    name: ClassVar[str] = "finite"
    title: ClassVar[str] = "Listed"

    def __init__(self, values: Iterable[int], probabilities: Iterable[Exact]):
        noise, shares = list(values), [exact(p, "a probability") for p in probabilities]
        if len(noise) != len(shares):
            raise ParameterError("bad-noise-row/probability")
        pairs = sorted(zip(noise, shares, strict=True))
        support = [(v, p) for v, p in pairs if p]
        if any(p < 0 for _, p in pairs) or sum(p for _, p in pairs) != 1:
            raise ParameterError("bad-noise-row/probabilities")
        if len({v for v, _ in pairs}) < len(pairs):
            raise ParameterError("bad-noise-row/value")
        if sum(v * p for v, p in support):
            raise ParameterError("bad-noise-row/mean")
        check_bound(max(abs(v) for v, _ in support), least=0)
        object.__setattr__(self, "values", tuple(v for v, _ in support))
        object.__setattr__(self, "probabilities", tuple(p for _, p in support))

    @classmethod
    def symmetric(cls, weights: Iterable[Exact]) -> FiniteDistribution:
        """The law on ``-D .. D`` proportional to ``2 D + 1`` weights, each made equal to its mirror image.

        Probabilities that were computed in floating point add up to one almost only; this makes them a law.
        """
        numbers = [exact(weight, "a weight") for weight in weights]
        if len(numbers) % 2 == 0 or not sum(numbers):
            raise ParameterError("bad-noise-row/weights")
        total, bound = sum(numbers), len(numbers) // 2
        both = [(a + b) / (2 * total) for a, b in zip(numbers, reversed(numbers), strict=True)]
        return cls(range(-bound, bound + 1), both)

    @property
    def bound(self) -> int:
        return max(abs(value) for value in self.values)

    @property
    def is_symmetric(self) -> bool:
        """Whether a value and its negative always have the same probability."""
        distribution = dict(zip(self.values, self.probabilities, strict=True))
        return all(distribution.get(-value) == p for value, p in distribution.items())

    def probability(self, x: int) -> Fraction:
        """``P(X = x)``, exactly."""
        return self.probabilities[self.values.index(x)] if x in self.values else Fraction(0)

    @property
    def largest_loss(self) -> Fraction:
        distribution = dict(zip(self.values, self.probabilities, strict=True))
        ratios = [
            max(p / distribution[v - 1], distribution[v - 1] / p)
            for v, p in distribution.items()
            if v - 1 in distribution
        ]
        return log_up(max(ratios, default=Fraction(1)))

    def weights(self, bits: int) -> list[IntegerBounds]:  # noqa: ARG002 - they are exact
        total, weights = lcm(*(p.denominator for p in self.probabilities)), [0] * (2 * self.bound + 1)
        for value, p in zip(self.values, self.probabilities, strict=True):
            weights[value + self.bound] = int(p * total)
        return [(weight, weight) for weight in weights]

    def outside_bounds(self, bits: int = 128) -> distributions.Bounds:  # noqa: ARG002 - it is exact
        distribution = dict(zip(self.values, self.probabilities, strict=True))
        ways = [
            sum((p for v, p in distribution.items() if v + step not in distribution), Fraction(0)) for step in (-1, 1)
        ]
        return max(ways), max(ways)

    def as_dict(self) -> dict[str, str]:
        distribution = zip(self.values, self.probabilities, strict=True)
        return {"law": self.name, "probabilities": " ".join(f"{value}:{p}" for value, p in distribution)}


@dataclass(frozen=True, slots=True)
class Cumulated:
    """Sums of the first 0, 1, ... weights, from below and from above."""

    lower: list[int]
    upper: list[int]
    weights: list[IntegerBounds]

    def share(self, begin: int, end: int) -> distributions.Bounds:
        """What the weights ``begin .. end - 1`` are of all: ``I / (I + O)`` rises in ``I`` and falls in ``O``."""
        inside = self.lower[end] - self.lower[begin], self.upper[end] - self.upper[begin]
        outside = self.lower[-1] - inside[0], self.upper[-1] - inside[1]
        # If a whole side is rounded away to zero, nothing is known yet.
        lower = Fraction(inside[0], inside[0] + outside[1]) if inside[0] else Fraction(0)
        upper = Fraction(inside[1], inside[1] + outside[0]) if inside[1] + outside[0] else Fraction(1)
        return lower, upper

    def second_moment(self, reach: int) -> distributions.Bounds:
        """``sum of x**2 w_x / sum of w_x``."""
        lower, upper = (sum((i - reach) ** 2 * w[side] for i, w in enumerate(self.weights)) for side in (0, 1))
        return Fraction(lower, self.upper[-1]), Fraction(upper, self.lower[-1])


@lru_cache(maxsize=16)
def cumulated(distribution: BoundedDistribution, bits: int) -> Cumulated:
    """The sums of the weights of a law, worked out once."""
    weights = distribution.weights(bits)
    lower, upper = (list(accumulate((w[side] for w in weights), initial=0)) for side in (0, 1))
    return Cumulated(lower, upper, weights)


def at_least(enclose: Callable[[int], distributions.Bounds], level: Fraction) -> bool:
    """Whether the enclosed number is at least ``level``: bits are added until it lies on one side."""
    bits = 64
    while True:
        lower, upper = enclose(bits)
        if lower >= level:
            return True
        if upper < level:
            return False
        bits *= 2


def log_up(ratio: Fraction) -> Fraction:
    """A number of at least ``log(ratio)``, ``ratio >= 1``, and above it by no more than about ``10**-12``."""
    if ratio == 1:
        return Fraction(0)
    guess = Fraction(log(ratio.numerator) - log(ratio.denominator) if ratio > 2 else log(ratio))
    step = Fraction(1, 1 << 44)
    bits = 256 + ratio.numerator.bit_length()
    while True:
        guess += step
        # exp(-guess) <= 1 / ratio, proved by an enclosure, is what "at least the logarithm" means.
        if guess > 0 and exp_minus(guess, bits)[1] * ratio <= 1 << bits:
            return guess
        step *= 2


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest whole number from ``low`` to ``high`` where ``holds`` is true, which it is at ``high``."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def check_bound(bound: int, least: int = 1) -> None:
    """Refuse a bound that is not a whole number of at least ``least``, or too large for listing the weights."""
    if type(bound) is not int or not least <= bound <= LARGEST_BOUND:
        raise ParameterError(
            "bad-bound/noise-possible", found=str(bound)[:40], least=least, largest_bound=LARGEST_BOUND
        )


# Truncated noise: the two-sided geometric and the discrete Gaussian law, given that they stay within ``-D .. D``.
#
# * :class:`TruncatedGeometric`, the truncated Laplace law on whole numbers: ``P(X = x) = q**|x| / Z``, ``q =
#   exp(-epsilon)`` and ``Z = 1 + 2 (q + ... + q**D)``;
# * :class:`TruncatedGaussian`: ``P(X = x) = exp(-x**2 / (2 sigma2)) / Z``. With ``b = 1 / (2 sigma2)`` this is also the
#   last row of a perturbation table, the distribution of largest entropy with its bound and variance
#   (:mod:`confide.noise.max_entropy`).
#
# For two counts that differ by one, results that both can have differ in probability by a factor of at most
# ``exp(epsilon)``, or ``exp((2 D - 1) / (2 sigma2))``; one result at the edge is possible for one of them alone, and
# ``delta = P(X = D)``. As ``D`` grows, both laws and their losses go to those without a bound.
#
# Derivation: ``docs/proofs/noise.md``, section 9. Reference: Bach (2020), section 2.3.


_GUARD = 32
"""Bits for the rounding of at most ``2**20`` products in a row."""


class TruncatedDistribution(BoundedDistribution):
    """What both truncated laws have in common: a parameter, which each keeps under a name of its own, and the bound."""

    __slots__ = ()
    bound: int
    parameter_name: ClassVar[str]

    def _fix(self, parameter: Exact, bound: int) -> None:
        """Checks and keeps both, once: the laws are frozen."""
        object.__setattr__(self, self.parameter_name, positive(parameter, self.parameter_name))
        check_bound(bound)
        object.__setattr__(self, "bound", bound)

    @property
    @abstractmethod
    def untruncated(self) -> distributions.NoiseDistribution:
        """The law on all integers with the same parameter."""

    @property
    def parameter(self) -> Fraction:
        """The exact number that, with the bound, fixes the law."""
        return self.untruncated.parameter

    @property
    def largest_loss(self) -> Fraction:
        """The last step is the steepest: ``log w_{D-1} / w_D``, exactly."""
        decay = self.untruncated.decay
        return decay.first + (self.bound - 1) * decay.step

    def weights(self, bits: int) -> list[IntegerBounds]:
        """``w_m = w_{m-1} r_m``, ``r_m = r_{m-1} exp(-step)``, rounded outward."""
        decay, work = self.untruncated.decay, bits + _GUARD
        weight = one = 1 << work, 1 << work
        ratio, factor = exp_minus(decay.first, work), exp_minus(decay.step, work)
        half = []
        for _ in range(self.bound):
            weight = weight[0] * ratio[0] >> work, ceil_shift(weight[1] * ratio[1], work)
            if decay.step:
                ratio = ratio[0] * factor[0] >> work, ceil_shift(ratio[1] * factor[1], work)
            half.append(weight)
        return [*reversed(half), one, *half]

    def outside_bounds(self, bits: int = 128) -> distributions.Bounds:
        return self.pmf_bounds(self.bound, bits)

    def as_dict(self) -> dict[str, str]:
        return {"law": self.name, self.parameter_name: str(self.parameter), "bound": str(self.bound)}

    def describe(self) -> str:
        # The zero-argument super() does not work in a class that dataclass(slots=True) has made anew.
        return f"{BoundedDistribution.describe(self)} ({self.parameter_name} = {self.parameter})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.parameter)!r}, {self.bound})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TruncatedGeometric(TruncatedDistribution):
    """The two-sided geometric distribution given ``|X| <= D``: truncated Laplace noise in whole numbers.

    Args:
        epsilon: The exact parameter, above zero.
        bound: D, a whole number of at least one.

    >>> TruncatedGeometric("1/2", 5).noise_margin("0.95")
    4
    """

    epsilon: Fraction
    bound: int
    name: ClassVar[str] = "truncated-two-sided-geometric"
    title: ClassVar[str] = "Truncated two-sided geometric"
    parameter_name: ClassVar[str] = "epsilon"

    def __init__(self, epsilon: Exact, bound: int):
        self._fix(epsilon, bound)

    @property
    def untruncated(self) -> distributions.TwoSidedGeometric:
        return distributions.TwoSidedGeometric(self.epsilon)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TruncatedGaussian(TruncatedDistribution):
    """The discrete Gaussian given ``|X| <= D``: of all noise with this bound and variance that of largest entropy.

    It is the last row of a perturbation table. Derivation and how ``sigma2`` is found for a variance:
    :mod:`confide.noise.max_entropy`, :func:`confide.noise.fitting.of_variance`.

    Args:
        sigma2: The exact parameter, above zero: above the variance, the more so the nearer the bound.
        bound: D, a whole number of at least one.

    >>> TruncatedGaussian(2, 5).noise_margin("0.95")
    3
    """

    sigma2: Fraction
    bound: int
    name: ClassVar[str] = "truncated-discrete-gaussian"
    title: ClassVar[str] = "Truncated discrete Gaussian"
    parameter_name: ClassVar[str] = "sigma2"

    def __init__(self, sigma2: Exact, bound: int):
        self._fix(sigma2, bound)

    @property
    def untruncated(self) -> distributions.DiscreteGaussian:
        return distributions.DiscreteGaussian(self.sigma2)
