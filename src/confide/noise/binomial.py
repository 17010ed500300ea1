"""Exact binomial numbers for a probability of success that is known through enclosures only.

The weights ``w_k = P(K = k) / P(K = c)`` follow from ``w_c = 1`` for some ``c`` near the mean and from the ratios

    ``w_{k+1} / w_k = (n - k) / (k + 1) * q / (1 - q)``,

upwards and, with the roles of success and failure exchanged, downwards. They are summed until what is left is
negligible, and the sums are divided by their total: neither a factorial nor a logarithm is needed. Everything is
integer interval arithmetic, as in :mod:`confide.noise.enclosure`.

The work is about ``33 sqrt(n q (1 - q))`` steps of a few microseconds, because a normal law leaves less than
``2**-192`` beyond 16.3 standard deviations: a second for a mean of a hundred million.

Derivation: ``docs/proofs/noise.md``, section 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate

from confide.errors import CONFIDENTIAL, Finding, ParameterError
from confide.noise.enclosure import ceil_div
from confide.noise.inversion import Steps, draw_one, scaled_down, scaled_up
from confide.noise.laws import Enclosure
from confide.noise.stream import WordSource

_GUARD = 64
"""Bits of a sum that rounding may eat: enough for fewer than 2**30 weights."""


def draw_binomial(trials: int, success: Callable[[int], Enclosure], source: WordSource, coordinate: int) -> int:
    """The number of successes among ``trials``, from the bits of one coordinate: ``min {k : U < P(K <= k)}``.

    ``success(bits)`` encloses the probability of success to within ``2**-bits``.
    """
    if trials < 0:
        raise ParameterError(
            Finding(
                code="negative-count",
                what="there cannot be fewer than no trials",
                found=CONFIDENTIAL,
                expected="a count of zero or more",
                remedy="check how the count was made",
            )
        )
    return draw_one(partial(binomial_steps, trials, success), source, coordinate)


def binomial_steps(trials: int, success: Callable[[int], Enclosure], bits: int) -> Steps:
    """Enclosures of ``P(K <= k)`` for all ``k`` but those far from the mean."""
    work = bits + _GUARD
    one = 1 << bits
    lower, upper = _between(success(work))
    if trials == 0 or lower == 0:
        # P(K > 0) <= n q.
        return Steps.ascending(bits, [scaled_down(1 - trials * upper, bits)], [one])
    if upper == 1:
        # P(K < n) <= n (1 - q).
        return Steps.ascending(bits, [0, one], [scaled_up(trials * (1 - lower), bits), one], trials - 1)
    # As many bits more as it takes to know both odds to about ``work`` significant bits.
    small = min(lower, 1 - upper)
    lower, upper = _between(success(work + (small.denominator // small.numerator).bit_length() + 2))
    centre = min(trials, (trials + 1) * lower.numerator // lower.denominator)
    above = _weights(trials, centre, (lower / (1 - lower), upper / (1 - upper)), work)
    below = _weights(trials, trials - centre, ((1 - upper) / upper, (1 - lower) / lower), work)
    sums_lower = list(accumulate([*below.lower[::-1], 1 << work, *above.lower]))
    sums_upper = list(accumulate([*below.upper[::-1], 1 << work, *above.upper], initial=below.rest))[1:]
    total_lower, total_upper = sums_lower[-1], sums_upper[-1] + above.rest
    lowers = [(partial_sum << bits) // total_upper for partial_sum in sums_lower]
    uppers = [ceil_div(partial_sum << bits, total_lower) for partial_sum in sums_upper]
    first = centre - len(below.lower)
    if not above.rest:
        lowers[-1] = one
    if below.rest:
        first, lowers, uppers = first - 1, [0, *lowers], [ceil_div(below.rest << bits, total_lower), *uppers]
    return Steps.ascending(bits, lowers, uppers, first)


@dataclass(frozen=True, slots=True)
class _Side:
    """Weights on one side of the centre, scaled by ``2**work``, and a bound of the sum of those left out."""

    lower: list[int]
    upper: list[int]
    rest: int


def _weights(trials: int, start: int, odds: Enclosure, work: int) -> _Side:
    """``w_k / w_start`` for ``k = start + 1, start + 2, ...`` until the rest is below ``2**(64 - work)``.

    The ratios fall with ``k``: what follows a weight of ratio ``r < 1`` to the one after it is a geometric series or
    less.
    """
    scale = work + (odds[0].denominator // odds[0].numerator).bit_length()
    odds_lower, odds_upper = scaled_down(odds[0], scale), scaled_up(odds[1], scale)
    lower: list[int] = []
    upper: list[int] = []
    weight_lower = weight_upper = 1 << work
    for k in range(start, trials):
        weight_lower = (weight_lower * (odds_lower * (trials - k)) >> scale) // (k + 1)
        weight_upper = ceil_div(weight_upper * (odds_upper * (trials - k)), (k + 1) << scale)
        if weight_upper >> _GUARD == 0:
            numerator, denominator = (trials - k - 1) * odds_upper, (k + 2) << scale
            if numerator < denominator:
                rest = ceil_div(weight_upper * denominator, denominator - numerator)
                if rest >> _GUARD == 0:
                    return _Side(lower, upper, rest)
        lower.append(weight_lower)
        upper.append(weight_upper)
    return _Side(lower, upper, 0)


def _between(bounds: Enclosure) -> Enclosure:
    """The enclosure of a probability without what lies outside [0, 1]."""
    return max(Fraction(0), bounds[0]), min(Fraction(1), bounds[1])
