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
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import factorial, inf, isqrt, log
from statistics import NormalDist
from typing import ClassVar, TypeAlias

from confide.errors import ParameterError
from confide.exact import Exact, positive, probability

# Integer interval arithmetic: enclosures that are proved, not estimated.
#
# A real number ``v`` is carried as a pair of Python integers ``(lo, hi)`` with ``lo <= 2**bits * v <= hi``. Every
# operation rounds outward, so the pair stays an enclosure whatever the number of operations; more ``bits`` only make it
# narrower. No floating-point number occurs.
#
# The noise laws of Confide have weights ``w_m = exp(-(m * first + m * (m - 1) / 2 * step))`` for ``m = |x|``: see
# :class:`Decay`. From the two exact numbers of a decay follow enclosures of all thresholds ``G_m = P(|X| <= m)``.
#
# Derivation: ``docs/proofs/noise.md``, section 2.


IntegerBounds: TypeAlias = tuple[int, int]
"""``(lo, hi)`` with ``lo <= 2**bits * v <= hi``; the number of bits is known from the context."""

_GUARD = 64
"""Bits of a threshold enclosure that rounding may eat: enough for laws with fewer than 2**30 noticeable weights."""


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient rounded up, for a positive divisor."""
    return -(-dividend // divisor)


def ceil_shift(value: int, bits: int) -> int:
    """``value / 2**bits`` rounded up."""
    return -(-value >> bits)


def times(a: IntegerBounds, b: IntegerBounds, bits: int) -> IntegerBounds:
    """The product of two numbers of any sign, all three scaled by ``2**bits``."""
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(corners) >> bits, ceil_shift(max(corners), bits)


def exp_minus(x: Fraction, bits: int) -> IntegerBounds:
    """``(lo, hi)`` with ``lo <= 2**bits * exp(-x) <= hi``, for rational ``x >= 0``.

    ``exp(-x) = exp(-x / 2**h) ** (2**h)`` with ``x / 2**h <= 1/2``. There the Taylor series alternates with decreasing
    terms, so that the remainder is at most the last term taken; ``h`` squarings follow, each about doubling the width.
    """
    if x < 0:
        raise ValueError("exp_minus is for arguments of at least zero")
    if x >= bits:
        return 0, 1  # exp(-x) < 2**-x <= 2**-bits
    halvings = ceil_div(2 * x.numerator, x.denominator).bit_length()
    guard = halvings + 16
    work = bits + guard
    numerator, denominator = x.numerator, x.denominator << halvings
    term_lo = term_hi = sum_lo = sum_hi = 1 << work
    k = 0
    while term_hi > 1:
        k += 1
        term_lo = term_lo * numerator // (denominator * k)
        term_hi = ceil_div(term_hi * numerator, denominator * k)
        if k % 2:
            sum_lo, sum_hi = sum_lo - term_hi, sum_hi - term_lo
        else:
            sum_lo, sum_hi = sum_lo + term_lo, sum_hi + term_hi
    lo, hi = sum_lo - term_hi, sum_hi + term_hi
    for _ in range(halvings):
        lo, hi = lo * lo >> work, ceil_shift(hi * hi, work)
    return lo >> guard, ceil_shift(hi, guard)


@lru_cache(maxsize=16)
def pi(bits: int) -> IntegerBounds:
    """``pi = 16 arctan(1/5) - 4 arctan(1/239)`` (Machin), scaled by ``2**bits``."""
    guard = 16
    fifth, small = _arctan_of_inverse(5, bits + guard), _arctan_of_inverse(239, bits + guard)
    return (16 * fifth[0] - 4 * small[1]) >> guard, ceil_shift(16 * fifth[1] - 4 * small[0], guard)


def _arctan_of_inverse(n: int, bits: int) -> IntegerBounds:
    """``arctan(1/n)``: its series alternates and decreases, so the remainder is at most the first term left out."""
    power = (1 << bits) // n
    lo = hi = 0
    k = 0
    while power:
        term = power // (2 * k + 1)
        lo, hi = (lo + term, hi + term + 1) if k % 2 == 0 else (lo - term - 1, hi - term)
        power //= n * n
        k += 1
    return lo - 1, hi + 1


def square_root(x: Fraction, bits: int) -> IntegerBounds:
    """The square root of a rational ``x >= 0``, scaled by ``2**bits``."""
    scaled = x.numerator << 2 * bits
    return isqrt(scaled // x.denominator), isqrt(ceil_div(scaled, x.denominator)) + 1


@dataclass(frozen=True, slots=True)
class Decay:
    """How fast the weights of a law fall: ``w_0 = 1``, ``w_m / w_{m-1} = exp(-(first + (m - 1) * step))``.

    The discrete Gaussian has ``first = 1 / (2 sigma2)`` and ``step = 1 / sigma2``; the two-sided geometric law has
    ``first = epsilon`` and ``step = 0``. The ratios never increase, which bounds every tail by a geometric series.
    """

    first: Fraction
    step: Fraction


@dataclass(frozen=True, slots=True)
class WeightSums:
    """Enclosures of ``A_m = w_0 + 2 (w_1 + ... + w_m)``, ``m = 0..K``, and of their limit, scaled by ``2**bits``."""

    lower: list[int]
    upper: list[int]
    total: IntegerBounds


def weight_sums(decay: Decay, bits: int) -> WeightSums:
    """All partial sums up to the first ``K`` whose tail is below ``2**(64 - bits)``; the tail is inside ``total``."""
    one = 1 << bits
    ratio_lo, ratio_hi = exp_minus(decay.first, bits)
    factor_lo, factor_hi = exp_minus(decay.step, bits)
    weight_lo = weight_hi = one
    lower, upper = [one], [one]
    while True:
        weight_lo, weight_hi = weight_lo * ratio_lo >> bits, ceil_shift(weight_hi * ratio_hi, bits)
        ratio_lo, ratio_hi = ratio_lo * factor_lo >> bits, ceil_shift(ratio_hi * factor_hi, bits)
        tail = ceil_div(weight_hi << bits, one - ratio_hi)
        # Rounding up keeps weight_hi above zero for ever; the guard makes the loop end before that floor is reached.
        if tail >> _GUARD == 0:
            return WeightSums(lower, upper, (lower[-1], upper[-1] + 2 * tail))
        lower.append(lower[-1] + 2 * weight_lo)
        upper.append(upper[-1] + 2 * weight_hi)


@dataclass(frozen=True, slots=True)
class FoldedThresholds:
    """``lower[m] <= 2**bits * G_m <= upper[m]`` for ``m = 0..K``, where ``G_m = P(|X| <= m)``."""

    bits: int
    lower: list[int]
    upper: list[int]

    def step_holding(self, prefix: int, length: int) -> int | None:
        """The ``m`` for which ``[prefix, prefix + 1) / 2**length`` provably lies in ``[G_{m-1}, G_m)``, or None."""
        shift = self.bits - length
        begin, end = prefix << shift, (prefix + 1) << shift
        m = bisect_right(self.upper, begin)
        return m if m < len(self.lower) and end <= self.lower[m] else None


@lru_cache(maxsize=32)
def folded_thresholds(decay: Decay, bits: int) -> FoldedThresholds:
    """The thresholds of ``|X|`` to about ``bits - 64`` bits, by division of the partial sums by their limit."""
    sums = weight_sums(decay, bits)
    total_lo, total_hi = sums.total
    one = 1 << bits
    return FoldedThresholds(
        bits,
        [(partial << bits) // total_hi for partial in sums.lower],
        [min(one, ceil_div(partial << bits, total_lo)) for partial in sums.upper],
    )


def invert(decay: Decay, prefix: int, length: int, next_word: Callable[[], int]) -> int:
    """``|X| = min {m : U < G_m}``, where ``prefix`` is the first ``length`` bits of the uniform number ``U``.

    While the bits known so far do not decide, 64 more bits of the same ``U`` are taken from ``next_word`` and the
    thresholds are enclosed more narrowly. It ends for every ``U`` that is not itself a threshold: with probability one.
    """
    while True:
        thresholds = folded_thresholds(decay, length + 2 * _GUARD)
        m = thresholds.step_holding(prefix, length)
        if m is not None:
            return m
        prefix = prefix << 64 | next_word()
        length += 64


# Enclosures of the discrete Gaussian's normaliser, distribution function and variance, at any scale.
#
# With ``f(x) = exp(-x**2 / (2 sigma2))`` the discrete Gaussian needs three sums over the integers: ``Z = sum f(n)``,
# ``S_m = f(-m) + ... + f(m)`` and ``sum n**2 f(n)``. Adding term by term is fast for small ``sigma2`` only, so that
#
# * ``Z`` and the variance turn to the Poisson-dual series ``Z = sqrt(2 pi sigma2) sum_k exp(-2 pi**2 sigma2 k**2)``;
# * ``S_m`` turns to the Euler-Maclaurin formula, whose terms are Hermite polynomials with rational values here.
#
# Both have explicit remainders, which are inside the enclosures. Derivation: ``docs/proofs/noise.md``, section 4.
# Reference: Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), section 2.


_DUAL_FROM = Fraction(1)
_EULER_MACLAURIN_FROM = Fraction(64)


def gaussian_decay(sigma2: Fraction) -> Decay:
    """The decay of the weights ``exp(-m**2 / (2 sigma2))``."""
    return Decay(first=1 / (2 * sigma2), step=1 / sigma2)


@lru_cache(maxsize=64)
def normaliser(sigma2: Fraction, bits: int) -> IntegerBounds:
    """``Z = sum over n of exp(-n**2 / (2 sigma2))``, scaled by ``2**bits``."""
    if sigma2 < _DUAL_FROM:
        total = weight_sums(gaussian_decay(sigma2), bits + _GUARD).total
        return total[0] >> _GUARD, ceil_shift(total[1], _GUARD)
    work = bits + sigma2.numerator.bit_length() + 8
    pi_lo, pi_hi = pi(work)
    root_lo, _ = square_root(2 * sigma2 * Fraction(pi_lo, 1 << work), work)
    _, root_hi = square_root(2 * sigma2 * Fraction(pi_hi, 1 << work), work)
    lo, hi = times((root_lo, root_hi), _dual_sums(sigma2, work)[0], work)
    return lo >> (work - bits), ceil_shift(hi, work - bits)


def gaussian_variance(sigma2: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """``sum n**2 f(n) / Z``, or ``sigma2 - 4 pi**2 sigma2**2 sum k**2 d_k / sum d_k`` with the dual terms ``d_k``."""
    if sigma2 < _DUAL_FROM:
        return _direct_variance(sigma2, bits)
    plain, squared = _dual_sums(sigma2, bits)
    pi_lo, pi_hi = (Fraction(bound, 1 << bits) for bound in pi(bits))
    smaller = 4 * pi_lo**2 * sigma2**2 * Fraction(squared[0], plain[1])
    larger = 4 * pi_hi**2 * sigma2**2 * Fraction(squared[1], plain[0])
    return max(Fraction(0), sigma2 - larger), sigma2 - smaller


def folded_gaussian_cdf(sigma2: Fraction, m: int, bits: int) -> IntegerBounds:
    """``G_m = P(|X| <= m) = S_m / Z``, scaled by ``2**bits``, for ``m >= 0``."""
    one = 1 << bits
    if m * m >= 2 * sigma2 * (bits + 1):
        return one - 1, one  # 1 - G_m <= 2 exp(-m**2 / (2 sigma2)): the discrete Gaussian is sub-Gaussian
    order = _euler_maclaurin_order(sigma2, bits + 2) if sigma2 >= _EULER_MACLAURIN_FROM else None
    if order is not None:
        return _euler_maclaurin(sigma2, m, bits, order)
    thresholds = folded_thresholds(gaussian_decay(sigma2), bits + _GUARD)
    if m >= len(thresholds.lower):
        return thresholds.lower[-1] >> _GUARD, one
    return thresholds.lower[m] >> _GUARD, ceil_shift(thresholds.upper[m], _GUARD)


def _dual_sums(sigma2: Fraction, bits: int) -> tuple[IntegerBounds, IntegerBounds]:
    """``sum d_k`` and ``sum k**2 d_k`` over all integers, ``d_k = exp(-2 pi**2 sigma2 k**2)``, for ``sigma2 >= 1``."""
    pi_lo, pi_hi = (Fraction(bound, 1 << bits) for bound in pi(bits))
    plain_lo = plain_hi = 1 << bits
    squared_lo = squared_hi = 0
    k = 1
    while (slowest := 2 * pi_lo**2 * sigma2 * k * k) < bits:
        lo, hi = exp_minus(2 * pi_hi**2 * sigma2 * k * k, bits)[0], exp_minus(slowest, bits)[1]
        plain_lo, plain_hi = plain_lo + 2 * lo, plain_hi + 2 * hi
        squared_lo, squared_hi = squared_lo + 2 * k * k * lo, squared_hi + 2 * k * k * hi
        k += 1
    # d_k < 2**-bits, and each further term, even with the factor k**2, is at most 4 exp(-57) of the one before.
    return (plain_lo, plain_hi + 4), (squared_lo, squared_hi + 4 * k * k)


def _direct_variance(sigma2: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """``2 sum n**2 f(n) / Z`` for ``sigma2 < 1``, where each term is below ``4 exp(-3/2) < 9/10`` of the one before."""
    lo = hi = 0
    n = 1
    while (exponent := Fraction(n * n) / (2 * sigma2)) < bits:
        weight = exp_minus(exponent, bits)
        lo, hi = lo + 2 * n * n * weight[0], hi + 2 * n * n * weight[1]
        n += 1
    total = normaliser(sigma2, bits)
    return Fraction(lo, total[1]), Fraction(hi + 20 * n * n, total[0])


def _euler_maclaurin_order(sigma2: Fraction, bits: int) -> int | None:
    """The smallest ``K`` with ``4 sqrt((2K)!) / (2 pi sigma)**(2K) <= 2**-bits``, if the bound ever gets there.

    The bound falls until ``2K`` is about ``(2 pi sigma)**2`` and rises afterwards; ``(2 pi)**2 > 39``.
    """
    shift = 2 * bits + _GUARD
    bound_squared = 16 << shift
    falling_by = (39 * sigma2.numerator) ** 2
    order = 0
    while bound_squared >> _GUARD:
        order += 1
        rising_by = (2 * order - 1) * 2 * order * sigma2.denominator**2
        if rising_by >= falling_by:
            return None
        bound_squared = ceil_div(bound_squared * rising_by, falling_by)
    return order


def _euler_maclaurin(sigma2: Fraction, m: int, bits: int, order: int) -> IntegerBounds:
    """``Z G_m = 2 I + f(m) (1 - 2 C) + R`` with ``I`` the integral of ``f`` over ``[0, m]`` and ``|R| <= Z 2**-bits``.

    ``C = sum_{k=1..K} B_2k / (2k)! h_{2k-1}``, where ``h_n = sigma**-n He_n(m / sigma)`` is rational: with
    ``sigma2 = a / b`` the integers ``g_n = a**n h_n`` obey ``g_{n+1} = b m g_n - n a b g_{n-1}``.
    """
    work = bits + _GUARD
    exponent = Fraction(m * m) / (2 * sigma2)
    # f(m) is multiplied by numbers of the size of 1 / f(m), hence the extra bits: exp(y) < 2**(3 y / 2).
    fine = work + ceil_div(3 * exponent.numerator, 2 * exponent.denominator)
    height = exp_minus(exponent, fine)
    series = _half_integral_series(exponent, work)
    integral = height[0] * series[0] * m >> fine, ceil_shift(height[1] * series[1] * m, fine)

    a, b = sigma2.numerator, sigma2.denominator
    correction_lo = correction_hi = 0
    before, now, power = 1, b * m, a
    coefficients = _bernoulli_quotients(order)
    for k in range(1, order + 1):
        coefficient = coefficients[k - 1]
        scaled, divisor = (coefficient.numerator * now) << work, coefficient.denominator * power
        correction_lo, correction_hi = correction_lo + scaled // divisor, correction_hi + ceil_div(scaled, divisor)
        n = 2 * k - 1
        before = b * m * now - n * a * b * before
        now = b * m * before - (n + 1) * a * b * now
        power *= a * a
    one = 1 << work
    ends = times(
        (height[0] >> fine - work, ceil_shift(height[1], fine - work)),
        (one - 2 * correction_hi, one - 2 * correction_lo),
        work,
    )

    total = normaliser(sigma2, work)
    lo, hi = 2 * integral[0] + ends[0], 2 * integral[1] + ends[1]
    # One unit on each side for the remainder R.
    return max(0, (lo << bits) // total[1] - 1), min(1 << bits, ceil_div(hi << bits, total[0]) + 1)


def _half_integral_series(exponent: Fraction, bits: int) -> IntegerBounds:
    """``sum (2y)**k / (2k+1)!!``: the integral of ``f`` over ``[0, m]`` is ``m exp(-y)`` times this.

    Here ``y = m**2 / (2 sigma2)``. All terms are positive. Once their ratio is at most 1/2 the remainder is at most the
    last term.
    """
    numerator, denominator = 2 * exponent.numerator, exponent.denominator
    term_lo = term_hi = lo = hi = 1 << bits
    k = 0
    while term_hi > 1 or 2 * numerator > denominator * (2 * k + 3):
        divisor = denominator * (2 * k + 3)
        term_lo, term_hi = term_lo * numerator // divisor, ceil_div(term_hi * numerator, divisor)
        lo, hi = lo + term_lo, hi + term_hi
        k += 1
    return lo, hi + term_hi


@lru_cache(maxsize=16)
def _bernoulli_quotients(count: int) -> tuple[Fraction, ...]:
    """``B_2k / (2k)!`` for ``k = 1..count``, from the tangent numbers.

    Reference: Brent and Harvey, Fast computation of Bernoulli, Tangent and Secant numbers (2011), TangentNumbers.
    """
    tangent = [factorial(k) for k in range(count)]
    for k in range(1, count):
        for j in range(k, count):
            tangent[j] = (j - k) * tangent[j - 1] + (j - k + 2) * tangent[j]
    return tuple(
        Fraction((-1) ** (k - 1) * 2 * k * tangent[k - 1], (4**k) * (4**k - 1) * factorial(2 * k))
        for k in range(1, count + 1)
    )


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
