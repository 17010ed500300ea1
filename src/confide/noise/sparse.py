"""Noise of empty groups, without drawing it for those that are not published.

An empty group has the true count zero. It is published if its first noise reaches a threshold, or if its second noise
exceeds a cut-off. Laws, thresholds and cut-off are public, and so is the probability ``q`` of being published. Among
``n`` empty groups the number of those published, the *survivors*, is binomial; they are a uniform subset; and what is
published of each follows the conditional law. :func:`draw_survivors` draws just that, exactly: the joint law is the
same as if both noises had been drawn for every group.

The layout of the stream is part of what is published and is named by :data:`LAYOUT`. All bits are extension words:

* coordinate 0: ``U`` of the number of survivors;
* from ``2**60``: the sequence of uniform integers that gives their ranks among the empty groups;
* from ``2 * 2**60``: ``U`` of the statistics level of the ``i``-th survivor, in the order of ranks;
* from ``3 * 2**60``: ``U`` of the value of the ``i``-th survivor, if its level is zero.

A stream that is used here must not be used for any other noise. Derivation: ``docs/proofs/noise.md``, section 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.errors import CONFIDENTIAL, ParameterError
from confide.noise import distributions
from confide.noise.sample import fits_table
from confide.noise.stream import Inverse, Steps, WordSource, draw_one, scaled_down, scaled_up

# Exact binomial numbers for a probability of success that is known through enclosures only.
#
# The weights ``w_k = P(K = k) / P(K = c)`` follow from ``w_c = 1`` for some ``c`` near the mean and from the ratios
#
#     ``w_{k+1} / w_k = (n - k) / (k + 1) * q / (1 - q)``,
#
# upwards and, with the roles of success and failure exchanged, downwards. They are summed until what is left is
# negligible, and the sums are divided by their total: neither a factorial nor a logarithm is needed. Everything is
# integer interval arithmetic, as in :mod:`confide.noise.distributions`.
#
# The work is about ``33 sqrt(n q (1 - q))`` steps of a few microseconds, because a normal law leaves less than
# ``2**-192`` beyond 16.3 standard deviations: a second for a mean of a hundred million.
#
# Derivation: ``docs/proofs/noise.md``, section 8.


"""Bits of a sum that rounding may eat: enough for fewer than 2**30 weights."""


def draw_binomial(
    trials: int, success: Callable[[int], distributions.Bounds], source: WordSource, coordinate: int
) -> int:
    """The number of successes among ``trials``, from the bits of one coordinate: ``min {k : U < P(K <= k)}``.

    ``success(bits)`` encloses the probability of success to within ``2**-bits``.
    """
    if trials < 0:
        raise ParameterError("negative-count", found=CONFIDENTIAL)
    return draw_one(partial(binomial_steps, trials, success), source, coordinate)


def binomial_steps(trials: int, success: Callable[[int], distributions.Bounds], bits: int) -> Steps:
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
    sums_upper = list(accumulate([*below.upper[::-1], 1 << work, *above.upper], initial=below.remainder))[1:]
    total_lower, total_upper = sums_lower[-1], sums_upper[-1] + above.remainder
    lowers = [(partial_sum << bits) // total_upper for partial_sum in sums_lower]
    uppers = [distributions.ceil_div(partial_sum << bits, total_lower) for partial_sum in sums_upper]
    first = centre - len(below.lower)
    if not above.remainder:
        lowers[-1] = one
    if below.remainder:
        first, lowers, uppers = (
            first - 1,
            [0, *lowers],
            [distributions.ceil_div(below.remainder << bits, total_lower), *uppers],
        )
    return Steps.ascending(bits, lowers, uppers, first)


@dataclass(frozen=True, slots=True)
class _Side:
    """Weights on one side of the centre, scaled by ``2**work``, and a bound of the sum of those left out."""

    lower: list[int]
    upper: list[int]
    remainder: int


def _weights(trials: int, start: int, odds: distributions.Bounds, work: int) -> _Side:
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
        weight_upper = distributions.ceil_div(weight_upper * (odds_upper * (trials - k)), (k + 1) << scale)
        if weight_upper >> _GUARD == 0:
            numerator, denominator = (trials - k - 1) * odds_upper, (k + 2) << scale
            if numerator < denominator:
                remainder = distributions.ceil_div(weight_upper * denominator, denominator - numerator)
                if remainder >> _GUARD == 0:
                    return _Side(lower, upper, remainder)
        lower.append(weight_lower)
        upper.append(weight_upper)
    return _Side(lower, upper, 0)


def _between(bounds: distributions.Bounds) -> distributions.Bounds:
    """The enclosure of a probability without what lies outside [0, 1]."""
    return max(Fraction(0), bounds[0]), min(Fraction(1), bounds[1])


# Uniform subsets of a given size, and the numbers of groups that are known by their rank among the empty ones.
#
# A sequence of exact uniform integers below ``n`` is read until ``k`` different ones have occurred; these are the
# subset. Renaming the integers does not change the law of the sequence, hence all subsets of size ``k`` are equally
# likely. Of a subset with more than half of the integers, the complement is drawn.
#
# A uniform integer is the first ``b`` bits of a coordinate's extension word 0, ``b`` the length of ``n - 1``; those
# that are not below ``n`` are passed over, never reduced by a remainder.
#
# Derivation: ``docs/proofs/noise.md``, section 8.


_WORD = 64
_CHUNK = 1 << 22


def draw_subset(universe: int, size: int, source: WordSource, start: int) -> Integers:
    """``size`` different numbers of ``0 .. universe - 1`` in ascending order, from the coordinates from ``start`` on.

    Fewer than three coordinates are read, on average, for each number drawn.

    Args:
        universe: How many numbers there are.
        size: How many of them are drawn.
        source: Where the bits come from.
        start: The first coordinate.

    Returns:
        The numbers.

    >>> from confide.noise import NoiseStream
    >>> len(set(draw_subset(1_000, 5, NoiseStream.fresh(), start=0).tolist()))
    5
    """
    if not 0 <= size <= universe <= _LARGEST:
        raise ParameterError("bad-subset", found=CONFIDENTIAL)
    if 2 * size <= universe:
        return np.sort(_first_distinct(universe, size, source, start))
    remaining = np.ones(universe, np.bool_)
    remaining[_first_distinct(universe, universe - size, source, start)] = False
    return np.flatnonzero(remaining).astype(np.int64, copy=False)


def _first_distinct(universe: int, size: int, source: WordSource, start: int) -> Integers:
    """The first ``size`` different integers of the sequence, in the order of their first occurrence.

    How many coordinates are read at a time does not matter: it is the same sequence.
    """
    bits = (universe - 1).bit_length() if universe else 0
    distinct = np.empty(0, np.int64)
    while len(distinct) < size:
        missing = size - len(distinct)
        count = min(_CHUNK, ((missing << bits) // (universe - len(distinct))) * 9 // 8 + 64)
        words = source.extension(np.arange(start, start + count, dtype=np.uint64), 0)
        start += count
        integers = (words >> np.uint64(_WORD - bits)).astype(np.int64)
        sequence = np.concatenate([distinct, integers[integers < universe]])
        _, occurrences = np.unique(sequence, return_index=True)
        distinct = sequence[np.sort(occurrences)[:size]]
    return distinct


def rank_to_place(ranks: Integers, occupied: Integers, universe: int) -> Integers:
    """The numbers of the groups that have these ranks among the empty ones.

    ``occupied`` are the other groups of ``0 .. universe - 1``, ascending. Before the ``j``-th of them are
    ``occupied[j] - j`` empty ones, so the empty group of rank ``r`` has the number ``r`` plus how many of these are at
    most ``r``.

    Args:
        ranks: Ranks among the empty groups, from zero.
        occupied: The numbers of the groups that are not empty, ascending.
        universe: How many groups there are.

    Returns:
        The number of each.

    >>> rank_to_place(np.array([0, 1, 2]), np.array([0, 2]), 5)
    array([1, 3, 4])
    """
    inside = not len(occupied) or (int(occupied[0]) >= 0 and int(occupied[-1]) < universe)
    if not inside or bool((np.diff(occupied) <= 0).any()):
        raise ParameterError("bad-group-numbers/occupied", found=CONFIDENTIAL)
    if len(ranks) and (int(ranks.min()) < 0 or int(ranks.max()) >= universe - len(occupied)):
        raise ParameterError("bad-group-numbers/rank", found=CONFIDENTIAL)
    before = occupied - np.arange(len(occupied), dtype=np.int64)
    return ranks + np.searchsorted(before, ranks, side="right")


SPARSE_LAYOUT = "confide/sparse/v1"
"""The version of everything that decides which survivors a stream gives."""

_RANGE = 1 << 60
_COUNT, _RANKS, _LEVELS, _VALUES = 0, _RANGE, 2 * _RANGE, 3 * _RANGE
_GUARD = 64
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class TwoStageRule:
    """What is published of an empty group.

    Its statistics level is the number of ``thresholds`` that are at most the noise ``X1`` of law ``first``. Levels 1 to
    3 are published. Level 0 is published if the noise ``X2`` of law ``second`` exceeds the cut-off ``above``.
    """

    first: distributions.NoiseDistribution
    thresholds: tuple[int, int, int]
    second: distributions.NoiseDistribution
    above: int

    def __post_init__(self) -> None:
        if any(low > high for low, high in pairwise(self.thresholds)):
            raise ParameterError("bad-sparse-rule/thresholds", found=repr(self.thresholds))
        if not all(abs(number) <= _LARGEST for number in (*self.thresholds, self.above)):
            raise ParameterError("bad-sparse-rule/threshold")
        if not fits_table(self.second):
            raise ParameterError("bad-sparse-rule/second", found=repr(self.second))

    def survival_bounds(self, bits: int = 128) -> distributions.Bounds:
        """``q = s + (1 - s) t``, ``s = P(X1 >= thresholds[0])``, ``t = P(X2 > above)``, to within ``2**-bits``."""
        (s_lower, s_upper), (t_lower, t_upper) = (
            self.first.tail_bounds(self.thresholds[0] - 1, bits + 2),
            self.second.tail_bounds(self.above, bits + 2),
        )
        return s_lower + (1 - s_lower) * t_lower, s_upper + (1 - s_upper) * t_upper

    def survival(self) -> float:
        """The probability that an empty group is published, correctly rounded."""
        return distributions.nearest_float(self.survival_bounds)


@dataclass(frozen=True, slots=True, eq=False)
class Survivors:
    """The published ones among the empty groups, in the order of their ranks. A ``repr`` shows nothing of them.

    ``places`` are ranks among the empty groups (:func:`confide.noise.sparse.rank_to_place` makes them group numbers),
    ``levels`` statistics levels, ``values`` the noisy totals at level 0 and zero elsewhere.
    """

    places: Integers = field(repr=False)
    levels: npt.NDArray[np.int8] = field(repr=False)
    values: Integers = field(repr=False)

    def __len__(self) -> int:
        return len(self.places)


def draw_survivors(rule: TwoStageRule, stream: WordSource, empty: int) -> Survivors:
    """The survivors among ``empty`` empty groups: a function of the rule, the stream and the number of groups.

    Args:
        rule: What is published of an empty group.
        stream: Where the bits come from.
        empty: How many groups are empty; there may be thousands of millions.

    Returns:
        The published ones alone, with their ranks among the empty groups, in ascending order.

    >>> from confide.noise import NoiseStream, TwoSidedGeometric
    >>> rule = TwoStageRule(TwoSidedGeometric("1/2"), (20, 40, 60), TwoSidedGeometric("1/2"), above=30)
    >>> len(draw_survivors(rule, NoiseStream.fresh(), empty=10**6)) < 10**4
    True
    """
    count = draw_binomial(empty, partial(_survival, rule), stream, _COUNT)
    places = draw_subset(empty, count, stream, _RANKS)
    members = np.arange(count, dtype=np.uint64)
    levels = np.zeros(0, np.int8)
    values = np.zeros(count, np.int64)
    # What is not needed is not prepared: a negligible tail costs many bits.
    if count:
        levels = _levels(rule).draw(stream, members + np.uint64(_LEVELS)).astype(np.int8)
    totals = np.flatnonzero(levels == 0)
    if len(totals):
        values[totals] = _tail(rule.second, rule.above).draw(stream, members[totals] + np.uint64(_VALUES))
    return Survivors(places, levels, values)


@lru_cache(maxsize=64)
def _survival(rule: TwoStageRule, bits: int) -> distributions.Bounds:
    return rule.survival_bounds(bits)


@lru_cache(maxsize=64)
def _levels(rule: TwoStageRule) -> Inverse:
    return Inverse.prepare(partial(level_steps, rule))


@lru_cache(maxsize=64)
def _tail(distribution: distributions.NoiseDistribution, above: int) -> Inverse:
    return Inverse.prepare(partial(tail_steps, distribution, above))


def level_steps(rule: TwoStageRule, bits: int) -> Steps:
    """The statistics level of a survivor: ``P(level <= k | published) = 1 - P(X1 >= thresholds[k]) / q``, ``k < 3``."""
    work = bits + _GUARD
    while (survival := _survival(rule, work))[0] * (1 << work) < 1 << bits:
        work *= 2
    one = 1 << bits
    lower, upper = [], []
    for threshold in rule.thresholds:
        reached = rule.first.tail_bounds(threshold - 1, work)
        lower.append(one - scaled_up(reached[1] / survival[0], bits))
        upper.append(one - scaled_down(reached[0] / survival[1], bits))
    return Steps.ascending(bits, [*lower, one], [*upper, one])


def tail_steps(distribution: distributions.NoiseDistribution, above: int, bits: int) -> Steps:
    """The law given ``X > above``: ``P(X <= x | X > above) = 1 - P(X > x) / P(X > above)`` for ``x > above``."""
    extra = _GUARD
    while (least := distribution.tail_bounds(above, extra)[0]) == 0:
        extra *= 2
    work = bits + 2 * _GUARD + (least.denominator // least.numerator).bit_length()
    folded = distributions.folded_thresholds(distribution.decay, work)
    reach = len(folded.lower) - 1
    # Values below -reach are negligible; where they are possible, the steps begin at -reach and say nothing about it.
    first = max(above + 1, -reach)
    whole_lower, whole_upper = _doubled_tail(folded, above)
    one = 1 << bits
    tails = [_doubled_tail(folded, x) for x in range(first, reach + 1)]
    lower = [one - distributions.ceil_div(upper << bits, whole_lower) for _, upper in tails]
    upper = [one - (lower << bits) // whole_upper for lower, _ in tails]
    if first > above + 1:
        lower[0] = 0
    return Steps.ascending(bits, lower, upper, first)


def _doubled_tail(folded: distributions.FoldedThresholds, x: int) -> distributions.IntegerBounds:
    """``2 P(X > x)``: ``1 - G_x`` for ``x >= 0``, and ``1 + G_{-x-1}`` below zero, scaled as the thresholds are."""
    one = 1 << folded.bits
    m = x if x >= 0 else -x - 1
    lower, upper = (folded.lower[m], folded.upper[m]) if m < len(folded.lower) else (folded.lower[-1], one)
    return (one - upper, one - lower) if x >= 0 else (one + lower, one + upper)
