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

from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from confide.errors import Finding, ParameterError
from confide.noise.binomial import draw_binomial
from confide.noise.enclosure import Bounds, FoldedThresholds, ceil_div, folded_thresholds
from confide.noise.inversion import Integers, Inverse, Steps, scaled_down, scaled_up
from confide.noise.laws import Enclosure, Law, nearest_float
from confide.noise.stream import WordSource
from confide.noise.subset import draw_subset
from confide.noise.table import fits_table

LAYOUT = "confide/sparse/v1"
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

    first: Law
    thresholds: tuple[int, int, int]
    second: Law
    above: int

    def __post_init__(self) -> None:
        if any(low > high for low, high in pairwise(self.thresholds)):
            raise _bad_rule("the thresholds do not ascend", repr(self.thresholds))
        if not all(abs(number) <= _LARGEST for number in (*self.thresholds, self.above)):
            raise _bad_rule("a threshold or the cut-off does not fit into 64 bits", "a larger number")
        if not fits_table(self.second):
            raise _bad_rule("the second noise is too wide to list its values", repr(self.second))

    def survival_bounds(self, bits: int = 128) -> Enclosure:
        """``q = s + (1 - s) t``, ``s = P(X1 >= thresholds[0])``, ``t = P(X2 > above)``, to within ``2**-bits``."""
        (s_lower, s_upper), (t_lower, t_upper) = (
            self.first.tail_bounds(self.thresholds[0] - 1, bits + 2),
            self.second.tail_bounds(self.above, bits + 2),
        )
        return s_lower + (1 - s_lower) * t_lower, s_upper + (1 - s_upper) * t_upper

    def survival(self) -> float:
        """The probability that an empty group is published, correctly rounded."""
        return nearest_float(self.survival_bounds)


@dataclass(frozen=True, slots=True, eq=False)
class Survivors:
    """The published ones among the empty groups, in the order of their ranks. A ``repr`` shows nothing of them.

    ``places`` are ranks among the empty groups (:func:`confide.noise.subset.rank_to_place` makes them group numbers),
    ``levels`` statistics levels, ``values`` the noisy totals at level 0 and zero elsewhere.
    """

    places: Integers = field(repr=False)
    levels: npt.NDArray[np.int8] = field(repr=False)
    values: Integers = field(repr=False)

    def __len__(self) -> int:
        return len(self.places)


def draw_survivors(rule: TwoStageRule, stream: WordSource, empty: int) -> Survivors:
    """The survivors among ``empty`` empty groups: a function of the rule, the stream and the number of groups."""
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
def _survival(rule: TwoStageRule, bits: int) -> Enclosure:
    return rule.survival_bounds(bits)


@lru_cache(maxsize=64)
def _levels(rule: TwoStageRule) -> Inverse:
    return Inverse.prepare(partial(level_steps, rule))


@lru_cache(maxsize=64)
def _tail(law: Law, above: int) -> Inverse:
    return Inverse.prepare(partial(tail_steps, law, above))


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


def tail_steps(law: Law, above: int, bits: int) -> Steps:
    """The law given ``X > above``: ``P(X <= x | X > above) = 1 - P(X > x) / P(X > above)`` for ``x > above``."""
    extra = _GUARD
    while (least := law.tail_bounds(above, extra)[0]) == 0:
        extra *= 2
    work = bits + 2 * _GUARD + (least.denominator // least.numerator).bit_length()
    folded = folded_thresholds(law.decay, work)
    reach = len(folded.lower) - 1
    # Values below -reach are negligible; where they are possible, the steps begin at -reach and say nothing about it.
    first = max(above + 1, -reach)
    whole_lower, whole_upper = _doubled_tail(folded, above)
    one = 1 << bits
    tails = [_doubled_tail(folded, x) for x in range(first, reach + 1)]
    lower = [one - ceil_div(upper << bits, whole_lower) for _, upper in tails]
    upper = [one - (lower << bits) // whole_upper for lower, _ in tails]
    if first > above + 1:
        lower[0] = 0
    return Steps.ascending(bits, lower, upper, first)


def _doubled_tail(folded: FoldedThresholds, x: int) -> Bounds:
    """``2 P(X > x)``: ``1 - G_x`` for ``x >= 0``, and ``1 + G_{-x-1}`` below zero, scaled as the thresholds are."""
    one = 1 << folded.bits
    m = x if x >= 0 else -x - 1
    lower, upper = (folded.lower[m], folded.upper[m]) if m < len(folded.lower) else (folded.lower[-1], one)
    return (one - upper, one - lower) if x >= 0 else (one + lower, one + upper)


def _bad_rule(what: str, found: str) -> ParameterError:
    return ParameterError(
        Finding(
            code="bad-sparse-rule",
            what=what,
            found=found,
            expected="three ascending whole numbers; sigma of at most 7000 or epsilon of at least 1/1000 at stage 2",
            remedy="correct the rule, or draw the noise of every group",
        )
    )
