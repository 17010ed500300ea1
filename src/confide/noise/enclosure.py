"""Integer interval arithmetic: enclosures that are proved, not estimated.

A real number ``v`` is carried as a pair of Python integers ``(lo, hi)`` with ``lo <= 2**bits * v <= hi``. Every
operation rounds outward, so the pair stays an enclosure whatever the number of operations; more ``bits`` only make it
narrower. No floating-point number occurs.

The noise laws of Confide have weights ``w_m = exp(-(m * first + m * (m - 1) / 2 * step))`` for ``m = |x|``: see
:class:`Decay`. From the two exact numbers of a decay follow enclosures of all thresholds ``G_m = P(|X| <= m)``.

Derivation: ``docs/proofs/noise.md``, section 2.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import TypeAlias

Bounds: TypeAlias = tuple[int, int]
"""``(lo, hi)`` with ``lo <= 2**bits * v <= hi``; the number of bits is known from the context."""

_GUARD = 64
"""Bits of a threshold enclosure that rounding may eat: enough for laws with fewer than 2**30 noticeable weights."""


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient rounded up, for a positive divisor."""
    return -(-dividend // divisor)


def ceil_shift(value: int, bits: int) -> int:
    """``value / 2**bits`` rounded up."""
    return -(-value >> bits)


def times(a: Bounds, b: Bounds, bits: int) -> Bounds:
    """The product of two numbers of any sign, all three scaled by ``2**bits``."""
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(corners) >> bits, ceil_shift(max(corners), bits)


def exp_minus(x: Fraction, bits: int) -> Bounds:
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
def pi(bits: int) -> Bounds:
    """``pi = 16 arctan(1/5) - 4 arctan(1/239)`` (Machin), scaled by ``2**bits``."""
    guard = 16
    fifth, small = _arctan_of_inverse(5, bits + guard), _arctan_of_inverse(239, bits + guard)
    return (16 * fifth[0] - 4 * small[1]) >> guard, ceil_shift(16 * fifth[1] - 4 * small[0], guard)


def _arctan_of_inverse(n: int, bits: int) -> Bounds:
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


def square_root(x: Fraction, bits: int) -> Bounds:
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
    total: Bounds


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
