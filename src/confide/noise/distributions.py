"""The two noise distributions without a bound, with an exact parameter and every number one may ask of them.

Both are symmetric on all integers:

* :class:`DiscreteGaussian`: ``P(X = x)`` proportional to ``exp(-x**2 / (2 sigma2))``;
* :class:`TwoSidedGeometric`: ``P(X = x)`` proportional to ``exp(-epsilon |x|)``, also called the discrete Laplace
  distribution.

A probability has two views: ``..._bounds(..., bits)`` is a pair of fractions at most ``2**-bits`` apart that provably
holds the number, and the plain method is the nearest float. Quantiles and noise margins are integers, decided exactly.

Derivation: ``docs/proofs/noise.md``, section 4. Reference: Canonne, Kamath and Steinke, The Discrete Gaussian for
Differential Privacy (2020).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, log
from statistics import NormalDist
from typing import ClassVar, TypeAlias

from confide.errors import ParameterError
from confide.exact import Exact, positive, probability
from confide.noise.enclosure import Decay, exp_minus, folded_gaussian_cdf, gaussian_decay, gaussian_variance, normaliser

Bounds: TypeAlias = tuple[Fraction, Fraction]
"""``(lower, upper)``: two exact numbers with the wanted number between them."""

_WIDEST_FLOAT_SEARCH = 4096


class NoiseDistribution(ABC):
    """A symmetric noise distribution on the integers, fixed by one exact positive number.

    ``..._bounds`` methods return two exact fractions ``(lower, upper)`` with the number between them.
    """

    __slots__ = ()
    name: ClassVar[str]
    title: ClassVar[str]
    parameter_name: ClassVar[str]
    bound: ClassVar[int | None] = None  # no distribution on all integers has one

    @property
    @abstractmethod
    def parameter(self) -> Fraction:
        """The exact number that fixes the distribution."""

    @property
    @abstractmethod
    def decay(self) -> Decay:
        """How fast the probabilities fall with ``|x|``: all that the sampler needs to know."""

    @abstractmethod
    def _pmf(self, x: int, bits: int) -> Bounds:
        """An enclosure of ``P(X = x)`` worked out with ``bits`` bits, of whatever width results."""

    @abstractmethod
    def _folded_cdf(self, m: int, bits: int) -> Bounds:
        """An enclosure of ``P(|X| <= m)``, ``m >= 0``, worked out with ``bits`` bits."""

    @abstractmethod
    def _variance(self, bits: int) -> Bounds:
        """An enclosure of the variance worked out with ``bits`` bits."""

    def pmf_bounds(self, x: int, bits: int = 128) -> Bounds:
        """An enclosure of ``P(X = x)`` that is at most ``2**-bits`` wide."""
        return narrowed(lambda work: self._pmf(x, work), bits)

    def folded_cdf_bounds(self, m: int, bits: int = 128) -> Bounds:
        """An enclosure of ``P(|X| <= m)`` that is at most ``2**-bits`` wide."""
        if m < 0:
            return Fraction(0), Fraction(0)
        return _folded_cdf_bounds(self, m, bits)

    def cdf_bounds(self, x: int, bits: int = 128) -> Bounds:
        """An enclosure of ``P(X <= x)``: ``(1 + G_x) / 2`` for ``x >= 0`` and ``(1 - G_{-x-1}) / 2`` below zero."""
        if x >= 0:
            lower, upper = self.folded_cdf_bounds(x, bits)
            return (1 + lower) / 2, (1 + upper) / 2
        lower, upper = self.folded_cdf_bounds(-x - 1, bits)
        return (1 - upper) / 2, (1 - lower) / 2

    def tail_bounds(self, x: int, bits: int = 128) -> Bounds:
        """An enclosure of ``P(X > x) = P(X <= -x - 1)``."""
        return self.cdf_bounds(-x - 1, bits)

    def variance_bounds(self, bits: int = 128) -> Bounds:
        """An enclosure of the variance that is at most ``2**-bits`` wide."""
        return narrowed(self._variance, bits)

    def pmf(self, x: int) -> float:
        """``P(X = x)``, correctly rounded."""
        return _pmf(self, x)

    def cdf(self, x: int) -> float:
        """``P(X <= x)``, correctly rounded."""
        return nearest_float(lambda bits: self.cdf_bounds(x, bits))

    def tail(self, x: int) -> float:
        """``P(X > x)``, correctly rounded: also where ``1 - cdf(x)`` would have lost every digit."""
        return nearest_float(lambda bits: self.tail_bounds(x, bits))

    def variance(self) -> float:
        """The variance, correctly rounded. For the discrete Gaussian it is below ``sigma2``."""
        return _variance(self)

    def quantile(self, p: Exact) -> int:
        """The smallest ``x`` with ``P(X <= x) >= p``, decided exactly."""
        level = probability(p, "p")
        if 2 * level == 1:
            return 0
        if 2 * level > 1:
            return self._smallest_margin(2 * level - 1)
        return -self._smallest_margin(1 - 2 * level)

    def noise_margin(self, level: Exact) -> int:
        """The smallest ``m`` with ``P(|X| <= m) >= level``, decided exactly: the noise is within ``±m`` that often."""
        return self._smallest_margin(probability(level, "level"))

    def as_dict(self) -> dict[str, str]:
        """The distribution as exact text for plans and manifests; :meth:`from_dict` reads it back."""
        return {"law": self.name, self.parameter_name: str(self.parameter)}

    @staticmethod
    def from_dict(values: Mapping[str, object]) -> NoiseDistribution:
        """The distribution written by :meth:`as_dict`."""
        for kind in (DiscreteGaussian, TwoSidedGeometric):
            parameter = values.get(kind.parameter_name)
            if values.get("law") == kind.name and isinstance(parameter, str) and len(values) == 2:
                return kind(parameter)
        raise ParameterError("unknown-law", found=repr(dict(values)))

    def describe(self) -> str:
        """One sentence for people: the distribution, its exact parameter, its spread and its 95 % noise margin."""
        return (
            f"{self.title} noise with {self.parameter_name} = {self.parameter}: standard deviation "
            f"{self.variance() ** 0.5:.4g}, within ±{self.noise_margin('0.95'):,} in at least 95 % of draws"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.parameter)!r})"

    def _smallest_margin(self, level: Fraction) -> int:
        """The smallest ``m >= 0`` with ``G_m >= level``: steps that double, from a guess on, and bisection."""
        above, step = max(0, self._margin_guess(level)), 1
        below = above - 1
        if self._margin_reaches(above, level):
            while below >= 0 and self._margin_reaches(below, level):
                above, step = below, 2 * step
                below = max(-1, above - step)
        else:
            while not self._margin_reaches(above + step, level):
                above, step = above + step, 2 * step
            below, above = above, above + step
        while above - below > 1:
            middle = (above + below) // 2
            above, below = (middle, below) if self._margin_reaches(middle, level) else (above, middle)
        return above

    def _margin_guess(self, level: Fraction) -> int:  # noqa: ARG002 - only where to begin
        """About what the margin is."""
        return 0

    def _margin_reaches(self, m: int, level: Fraction) -> bool:
        """Whether ``G_m >= level``: more bits are worked out until the enclosure lies on one side of ``level``."""
        bits = 64
        while True:
            lower, upper = self.folded_cdf_bounds(m, bits)
            if lower >= level:
                return True
            if upper < level:
                return False
            bits *= 2


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteGaussian(NoiseDistribution):
    """``P(X = x) = exp(-x**2 / (2 sigma2)) / Z`` on the integers.

    >>> DiscreteGaussian("289").noise_margin("0.95")
    33
    """

    sigma2: Fraction
    name: ClassVar[str] = "discrete-gaussian"
    title: ClassVar[str] = "Discrete Gaussian"
    parameter_name: ClassVar[str] = "sigma2"

    def __init__(self, sigma2: Exact):
        object.__setattr__(self, "sigma2", positive(sigma2, "sigma2"))

    @property
    def parameter(self) -> Fraction:
        return self.sigma2

    @property
    def decay(self) -> Decay:
        return gaussian_decay(self.sigma2)

    def _pmf(self, x: int, bits: int) -> Bounds:
        lower, upper = exp_minus(Fraction(x * x) / (2 * self.sigma2), bits)
        total_lower, total_upper = normaliser(self.sigma2, bits)
        return Fraction(lower, total_upper), Fraction(upper, total_lower)

    def _folded_cdf(self, m: int, bits: int) -> Bounds:
        lower, upper = folded_gaussian_cdf(self.sigma2, m, bits)
        return Fraction(lower, 1 << bits), Fraction(upper, 1 << bits)

    def _variance(self, bits: int) -> Bounds:
        return gaussian_variance(self.sigma2, bits)

    def _margin_guess(self, level: Fraction) -> int:
        tail, sigma2 = float((1 - level) / 2), self.sigma2
        if not 1e-300 < tail < 0.5 or not 0 < sigma2 < 10**300:
            return 0
        return int(-NormalDist().inv_cdf(tail) * float(sigma2) ** 0.5)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TwoSidedGeometric(NoiseDistribution):
    """``P(X = x) = (1 - q) / (1 + q) q**|x|`` with ``q = exp(-epsilon)``, on the integers.

    ``P(|X| <= m) = 1 - 2 q**(m+1) / (1 + q)`` and the variance is ``2 q / (1 - q)**2``.

    >>> TwoSidedGeometric("1/10").noise_margin("0.95")
    30
    """

    epsilon: Fraction
    name: ClassVar[str] = "two-sided-geometric"
    title: ClassVar[str] = "Two-sided geometric"
    parameter_name: ClassVar[str] = "epsilon"

    def __init__(self, epsilon: Exact):
        object.__setattr__(self, "epsilon", positive(epsilon, "epsilon"))

    @property
    def parameter(self) -> Fraction:
        return self.epsilon

    @property
    def decay(self) -> Decay:
        return Decay(first=self.epsilon, step=Fraction(0))

    def _powers(self, exponent: int, bits: int) -> tuple[Bounds, Bounds]:
        """``q`` and ``q**exponent``."""
        unit = 1 << bits
        q, power = exp_minus(self.epsilon, bits), exp_minus(self.epsilon * exponent, bits)
        return (Fraction(q[0], unit), Fraction(q[1], unit)), (Fraction(power[0], unit), Fraction(power[1], unit))

    def _pmf(self, x: int, bits: int) -> Bounds:
        q, power = self._powers(abs(x), bits)
        return (1 - q[1]) / (1 + q[1]) * power[0], (1 - q[0]) / (1 + q[0]) * power[1]

    def _folded_cdf(self, m: int, bits: int) -> Bounds:
        q, power = self._powers(m + 1, bits)
        return max(Fraction(0), 1 - 2 * power[1] / (1 + q[0])), 1 - 2 * power[0] / (1 + q[1])

    def _variance(self, bits: int) -> Bounds:
        # 1 - q is about epsilon where epsilon is small; its square must not drown in the last bits.
        q, _ = self._powers(0, bits + 4 * (1 / self.epsilon).__ceil__().bit_length())
        return 2 * q[0] / (1 - q[0]) ** 2, 2 * q[1] / (1 - q[1]) ** 2

    def _margin_guess(self, level: Fraction) -> int:
        tail, epsilon = float(1 - level), self.epsilon
        return int(-log(tail) / float(epsilon)) if tail > 1e-300 and Fraction(1, 10**12) < epsilon < 10**12 else 0


# A release asks for the same few numbers of the same few laws over and over, row by row.


@lru_cache(maxsize=1 << 14)
def _folded_cdf_bounds(law: NoiseDistribution, m: int, bits: int) -> Bounds:
    return narrowed(lambda work: law._folded_cdf(m, work), bits)  # noqa: SLF001


@lru_cache(maxsize=1 << 14)
def _pmf(law: NoiseDistribution, x: int) -> float:
    return nearest_float(lambda bits: law.pmf_bounds(x, bits))


@lru_cache(maxsize=1 << 10)
def _variance(law: NoiseDistribution) -> float:
    return nearest_float(law.variance_bounds)


def narrowed(evaluate: Callable[[int], Bounds], bits: int) -> Bounds:
    """``evaluate`` with as many working bits as it takes to get an enclosure no wider than ``2**-bits``."""
    work = bits + 32
    while True:
        lower, upper = evaluate(work)
        if (upper - lower) * (1 << bits) <= 1:
            return lower, upper
        work *= 2


def nearest_float(enclose: Callable[[int], Bounds]) -> float:
    """The float nearest to the enclosed number: bits are added until both ends round to the same one.

    A number closer than ``2**-4096`` to the middle between two floats gets the lower of the two.
    """
    bits = 96
    while True:
        lower, upper = (_as_float(bound) for bound in enclose(bits))
        if lower == upper or bits > _WIDEST_FLOAT_SEARCH:
            return lower
        bits *= 2


def _as_float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return inf
