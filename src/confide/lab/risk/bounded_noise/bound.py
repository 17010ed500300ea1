"""Revealing the bound of noise, and what knowing it gives away (Bach 2020, section 3.2; Asghar & Kaafar 2020).

Three published counts with F + M = T in truth have independent noise, so s = F + M − T is noise alone. |s| > 3(E−1)
happens only if all three noises are large, and then ⌈|s|/3⌉ = E (equation 10). The probability for one triple is

  p₁ = P(|s| > 3(E−1)),

of both signs, as for uniform noise p₁ = 20/(2E+1)³; it is summed here exactly from the convolution of the three laws.
A release with n independent triples reveals E with probability 1 − (1−p₁)ⁿ, and m = ⌈ln(1−α)/ln(1−p₁)⌉ triples are
needed for probability α (equation 11). With E known, |s| = 3E says that each noise was ±E: the three true counts
follow. That happens with probability 2p(E)³.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from math import ceil, expm1, log1p, log10

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confide.errors import ParameterError
from confide.lab.risk.bounded_noise.noise_rows import LEVEL, checked_level, symmetric_row
from confide.noise.max_entropy import MaxEntropyRow, NoiseRow, uniform_variance

_STEP = Fraction(1, 1000)
_DIGITS = 40


@dataclass(frozen=True)
class BoundRisk:
    """What triples tell about the bound of one row of noise, at a confidence level."""

    row: MaxEntropyRow
    level: float = LEVEL

    @property
    def exact_p1(self) -> Fraction:
        """p₁, summed exactly from the row's probabilities as they are stored."""
        return _both_tails(self.row)

    @property
    def p1(self) -> float:
        return float(self.exact_p1)

    @property
    def m(self) -> int:
        """The triples that reveal the bound with the probability ``level``."""
        return tuples_needed(self.exact_p1, self.level)

    @property
    def log10_m(self) -> float:
        """The logarithm of m, which can be beyond any floating-point number."""
        return log10(self.m)

    @property
    def exact_triple(self) -> float:
        """2p(E)³: the probability that a triple gives its three true counts away, once the bound is known."""
        p = Fraction(self.row.pmf(self.row.bound))
        return float(2 * p**3)

    def revealed(self, triples: int) -> float:
        """The probability that so many triples reveal the bound."""
        return -expm1(triples * log1p(-self.p1)) if self.p1 < 1 else 1.0

    def expected_exact(self, triples: int) -> float:
        """How many triples are expected to give their counts away, once the bound is known."""
        return triples * self.exact_triple

    def as_dict(self) -> dict[str, object]:
        """The numbers as plain values."""
        return {
            "D": self.row.bound,
            "V": float(self.row.variance_limit),
            "variance": self.row.variance,
            "attained": self.row.attained,
            "b": self.row.b,
            "alpha": self.level,
            "p1": self.p1,
            "m": json_integer(self.m),
            "log10_m": self.log10_m,
            "p_bound": self.row.pmf(self.row.bound),
            "exact_triple": self.exact_triple,
        }


def bound_risk(bound: int, variance: Fraction | int | str, level: float = LEVEL) -> BoundRisk:
    """The risk for the row of maximum entropy with a bound and a variance.

    Args:
        bound: The largest noise, E.
        variance: The variance of the noise.
        level: The confidence level.

    Returns:
        The probabilities of a triple, and the triples that are needed.

    >>> risk = bound_risk(5, 2)
    >>> f"{risk.p1:.2e} {risk.m:.2e}"
    '1.52e-07 7.49e+06'
    """
    return BoundRisk(symmetric_row(bound, variance), checked_level(level))


def tuples_needed(p1: Fraction, level: float = LEVEL) -> int:
    """m = ⌈ln(1−α)/ln(1−p₁)⌉, for p₁ as small as one likes."""
    checked_level(level)
    if p1 >= 1:
        return 1
    context = Context(prec=_DIGITS)
    tail = context.ln(1 - Decimal(level)).copy_negate()
    if p1 > Fraction(1, 10**9):
        per_triple = context.ln(
            context.divide(Decimal((1 - p1).numerator), Decimal((1 - p1).denominator))
        ).copy_negate()
    else:
        # −ln(1−p) = p + p²/2 + p³/3 + …; what is left out is below p³ of the whole.
        series = p1 + p1**2 / 2 + p1**3 / 3
        per_triple = context.divide(Decimal(series.numerator), Decimal(series.denominator))
    return max(1, ceil(Fraction(context.divide(tail, per_triple))))


def largest_protected_variance(bound: int, triples: int, level: float = LEVEL) -> Fraction:
    """The largest variance, in thousandths, at which more than ``triples`` are needed; 0 if even the smallest is too
    much.

    p₁ rises with the variance until the row is uniform, so bisection finds it. Where a uniform row is still protected,
    any variance is, and E(E+1)/3 is returned.

    Args:
        bound: The largest noise, E.
        triples: How many triples there are.
        level: The confidence level.

    Returns:
        The variance.

    >>> float(largest_protected_variance(5, 10**6))
    2.361
    """
    top = uniform_variance(bound)
    if bound_risk(bound, top, level).m > triples:
        return top
    low, high = 0, ceil(top / _STEP)
    while high - low > 1:
        middle = (low + high) // 2
        if bound_risk(bound, middle * _STEP, level).m > triples:
            low = middle
        else:
            high = middle
    return low * _STEP


def grid(bounds: Iterable[int], variances: Iterable[Fraction], level: float = LEVEL) -> list[dict[str, object]]:
    """m over the plane of bound and variance (Bach 2020, Figure 1)."""
    listed = list(variances)
    return [bound_risk(bound, variance, level).as_dict() for bound in bounds for variance in listed]


def json_integer(value: int) -> int | float | None:
    """A whole number for JSON: exact where floating point is, rounded above, none where nothing can hold it."""
    if value <= 2**53:
        return value
    return float(value) if value < 10**308 else None


def _both_tails(row: NoiseRow) -> Fraction:
    """P(|F + M − T| ≥ 3E−2), the part of the convolution that is asked for, summed exactly.

    The three noises, that of T mirrored, fall short of ±E by at most 2 together, so that values further inside play no
    part.
    """
    bound, total = row.bound, Fraction(0)
    near = range(3)
    for side in (1, -1):
        for first, second, third in product(near, near, near):
            if first + second + third <= 2:  # 3E − (3E − 2)
                f, m, t = side * (bound - first), side * (bound - second), -side * (bound - third)
                total += Fraction(row.pmf(f)) * Fraction(row.pmf(m)) * Fraction(row.pmf(t))
    return total


# The attack on the bound, carried out on published numbers.
#
# Given arrays F, M and T with F + M = T in truth, each with noise within ±E:
#
# * the bound is estimated by Ê = max ⌈|F + M − T|/3⌉ over all triples; it is never too large, and right as soon as one
#   triple has three large noises (:mod:`confide.lab.risk.bounded_noise.bound`);
# * with the bound known, each true count lies within E of what is published, and is not negative; the equation narrows
#   the three intervals further, and a count is recovered where one value is left. For counts that are large compared
#   with E that is where F + M − T = ±3E.
#
# If zeros are known never to be perturbed, as in the cell key method, a published count above zero was not zero: one
# more fact for small counts (Enderle, Giessing & Tent 2020).


Counts = NDArray[np.int64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class CountIntervals:
    """What is known of each true count: an interval, and whether it is one value."""

    lowest: Counts
    highest: Counts

    @property
    def known(self) -> Truths:
        return np.asarray(self.lowest == self.highest)


@dataclass(frozen=True)
class BoundAttack:
    """The bound as estimated or given, and what it gives away. ``consistent``: triples that the bound can explain."""

    bound: int
    f: CountIntervals
    m: CountIntervals
    t: CountIntervals
    consistent: Truths

    @property
    def triples_recovered(self) -> int:
        """Triples of which all three counts are known."""
        return int(np.count_nonzero(self.f.known & self.m.known & self.t.known & self.consistent))


def estimate_bound(f: ArrayLike, m: ArrayLike, t: ArrayLike) -> int:
    """Ê = max ⌈|F + M − T|/3⌉ (Bach 2020, equation 10).

    Args:
        f: Published counts, an array of whole numbers.
        m: Counts of the other half, of the same shape.
        t: Counts of both together, of the same shape.

    Returns:
        The estimate, which is never too large.

    >>> estimate_bound([3], [2], [11])
    2
    """
    first, second, total = _arrays(f, m, t)
    largest = int(np.abs(first + second - total).max(initial=0))
    return -(-largest // 3)


def attack_bound(
    f: ArrayLike, m: ArrayLike, t: ArrayLike, *, bound: int | None = None, zeros_kept: bool = False
) -> BoundAttack:
    """Recover counts where one value is left, with the bound given or estimated.

    Args:
        f: Published counts, an array of whole numbers.
        m: Counts of the other half, of the same shape.
        t: Counts of both together, of the same shape.
        bound: The largest noise, if it is known; otherwise it is estimated.
        zeros_kept: Whether zeros are known never to be perturbed.

    Returns:
        An interval for each true count.

    >>> found = attack_bound([3], [2], [11], bound=2)
    >>> [int(part.lowest[0]) for part in (found.f, found.m, found.t)], found.triples_recovered
    ([5, 4, 9], 1)
    """
    parts = _arrays(f, m, t)
    within = estimate_bound(*parts) if bound is None else bound
    lows = [np.maximum(part - within, np.where(part > 0, 1 if zeros_kept else 0, 0)) for part in parts]
    highs = [part + within for part in parts]
    # One equation: each interval follows from the other two, and narrowing once is all that can be said.
    narrow = (
        CountIntervals(np.maximum(lows[0], lows[2] - highs[1]), np.minimum(highs[0], highs[2] - lows[1])),
        CountIntervals(np.maximum(lows[1], lows[2] - highs[0]), np.minimum(highs[1], highs[2] - lows[0])),
        CountIntervals(np.maximum(lows[2], lows[0] + lows[1]), np.minimum(highs[2], highs[0] + highs[1])),
    )
    consistent = np.logical_and.reduce([part.lowest <= part.highest for part in narrow])
    return BoundAttack(within, *narrow, consistent)


def _arrays(f: ArrayLike, m: ArrayLike, t: ArrayLike) -> tuple[Counts, Counts, Counts]:
    parts = [np.asarray(part) for part in (f, m, t)]
    if any(part.dtype.kind not in "iu" for part in parts) or len({part.shape for part in parts}) != 1:
        raise ParameterError("bad-triples", found=", ".join(f"{part.dtype} {part.shape}" for part in parts))
    first, second, total = (part.astype(np.int64) for part in parts)
    return first, second, total
