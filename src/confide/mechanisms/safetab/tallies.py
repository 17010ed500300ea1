"""Sums over groups from which the whole report follows; the sums of several runs are those of all of them.

Groups are classed by level, by whether they get a total alone, and by their true size: 0, 1 to 9, 10 to 99 and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arrays import Floats, Integers
from confide.mechanisms.safetab.problem import GroupLevel
from confide.mechanisms.safetab.settings import GRIDS, ITERATION_LEVELS
from confide.noise import Bounds, DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.utility.metrics import bin_label

Numbers = npt.NDArray[np.float64]

SIZES = (0, *(10**power for power in range(7)))
"""Where the classes of the true size of a group begin."""

WORKLOADS = ("total", *(f"sex by {grid.ages} ages" for grid in GRIDS))
COVERAGE = "0.95"


@dataclass(frozen=True)
class Errors:
    """Released less true: every distinct error, and how often it occurs."""

    error: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    times: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, error: Integers) -> Errors:
        distinct, times = np.unique(error, return_counts=True)
        return cls(distinct, times.astype(np.int64))

    def __add__(self, other: Errors) -> Errors:
        distinct, place = np.unique(np.concatenate([self.error, other.error]), return_inverse=True)
        times = np.zeros(len(distinct), np.int64)
        np.add.at(times, place, np.concatenate([self.times, other.times]))
        return Errors(distinct, times)

    @property
    def number(self) -> int:
        return int(self.times.sum())

    @property
    def mean(self) -> float | None:
        return int((self.error * self.times).sum()) / self.number if self.number else None

    @property
    def mean_absolute(self) -> float | None:
        return int((np.abs(self.error) * self.times).sum()) / self.number if self.number else None

    def within(self, margin: int) -> int:
        """How many errors are at most ``margin``, up or down."""
        return int(self.times[np.abs(self.error) <= margin].sum())

    def margin(self) -> int | None:
        """The smallest m that 95 % of the errors, or more, do not exceed: the definition of the noise margin."""
        if not self.number:
            return None
        order = np.argsort(np.abs(self.error), kind="stable")
        rank = ceil(self.number * 95 / 100)
        return int(np.abs(self.error)[order][np.searchsorted(np.cumsum(self.times[order]), rank)])


@dataclass(frozen=True)
class GroupSizeClass:
    """Groups of one level, one kind and one class of size. What theory expects is added up group by group."""

    groups: int = 0
    chosen: Integers = field(default_factory=lambda: np.zeros(4, np.int64))
    """How many were published with each table."""
    suppressed: int = 0
    errors: tuple[Errors, ...] = (Errors(), Errors(), Errors(), Errors())
    """Of measured counts, by the table that they are in."""
    expected: Numbers = field(default_factory=lambda: np.zeros(4))
    expected_suppressed: float = 0.0
    variance_suppressed: float = 0.0
    expected_error: float = 0.0
    """Summed over the totals that were published and are no sums."""
    variance_error: float = 0.0
    counts_held: int = 0
    """How many measured counts have the truth in the interval that their figure gives."""
    totals: int = 0
    totals_held: int = 0
    """The same of all published totals, sums of cells among them."""

    def __add__(self, other: GroupSizeClass) -> GroupSizeClass:
        values: dict[str, Any] = {
            counter.name: getattr(self, counter.name) + getattr(other, counter.name) for counter in fields(self)
        }
        values["errors"] = tuple(one + two for one, two in zip(self.errors, other.errors, strict=True))
        return GroupSizeClass(**values)

    def as_dict(self, margin: int, *, theory: bool) -> dict[str, Any]:
        totals, together = self.errors[0], sum(self.errors, Errors())
        return {
            "groups": self.groups,
            "suppressed": self.suppressed,
            "share_suppressed": self.suppressed / self.groups,
            "expected_share_suppressed": self.expected_suppressed / self.groups if theory else None,
            "standard_error_of_share": sqrt(self.variance_suppressed) / self.groups if theory else None,
            "noise_margin": margin,
            "tables": {
                name: {
                    "groups": int(self.chosen[number]),
                    "share": int(self.chosen[number]) / self.groups,
                    "expected_share": float(self.expected[number]) / self.groups if theory else None,
                    "measured_counts": self.errors[number].number,
                    "error_margin": self.errors[number].margin(),
                }
                for number, name in enumerate(WORKLOADS)
            },
            "measured_counts": together.number,
            "measured_counts_within_noise_margin": together.within(margin),
            "measured_counts_within_interval": self.counts_held if theory else None,
            "totals": self.totals if theory else None,
            "totals_within_interval": self.totals_held if theory else None,
            "error_margin": together.margin(),
            "mean_error_of_totals": totals.mean,
            "expected_mean_error_of_totals": self.expected_error / totals.number if theory and totals.number else None,
            "standard_error_of_mean": sqrt(self.variance_error) / totals.number if theory and totals.number else None,
        }


@dataclass(frozen=True)
class SuppressionCurve:
    """Groups that could be suppressed, by their true size from zero on: how many there are and how many were."""

    groups: Integers
    suppressed: Integers
    expected: Numbers
    """The probability of being suppressed."""

    def __add__(self, other: SuppressionCurve) -> SuppressionCurve:
        return SuppressionCurve(self.groups + other.groups, self.suppressed + other.suppressed, self.expected)


@dataclass(frozen=True)
class LevelTally:
    """Everything that is added up over the groups of a level."""

    classes: Mapping[tuple[bool, int], GroupSizeClass]
    totals: Errors
    """Of every released total, measured or summed."""
    truth: int
    """The true size of the released groups, summed."""
    noise_alone: float
    """The mean absolute noise of each released total, summed."""
    curve: SuppressionCurve | None

    def __add__(self, other: LevelTally) -> LevelTally:
        keys = sorted(self.classes.keys() | other.classes.keys())
        return LevelTally(
            {key: self.classes.get(key, GroupSizeClass()) + other.classes.get(key, GroupSizeClass()) for key in keys},
            self.totals + other.totals,
            self.truth + other.truth,
            self.noise_alone + other.noise_alone,
            None if self.curve is None or other.curve is None else self.curve + other.curve,
        )


@dataclass(frozen=True)
class SafeTabEvaluation:
    """The levels of one run, or of several with different keys."""

    levels: Sequence[GroupLevel]
    tallies: Sequence[LevelTally]
    theory: Sequence[bool]
    """For each level whether theory speaks of it: not where figures are copied from other areas or left out later."""
    runs: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the dossier and the numbers beside it."""
        parts = list(zip(self.levels, self.tallies, self.theory, strict=True))
        return {
            "keys": self.runs,
            "units": "groups",
            "accuracy": [_headline(level, tally) for level, tally, _ in parts if tally.totals.number],
            "classes": [row for level, tally, theory in parts for row in _rows(level, tally, theory)],
            "suppression": [
                _curve(level, tally.curve) for level, tally, theory in parts if theory and tally.curve is not None
            ],
        }


def pool(evaluations: Sequence[SafeTabEvaluation]) -> SafeTabEvaluation:
    """Several runs of the same question as one: every group counts once for each run."""
    first, *others = evaluations
    tallies = list(first.tallies)
    for other in others:
        tallies = [one + two for one, two in zip(tallies, other.tallies, strict=True)]
    return SafeTabEvaluation(first.levels, tallies, first.theory, len(evaluations))


def _named(level: GroupLevel) -> dict[str, str]:
    return {"region": level.settings.region_type, "iterations": ITERATION_LEVELS[level.settings.iteration_level]}


def _headline(level: GroupLevel, tally: LevelTally) -> dict[str, Any]:
    number = tally.totals.number
    return _named(level) | {
        "query": "total",
        "cell": "total",
        "geography": level.settings.title,
        "areas": number,
        "mean_truth": tally.truth / number,
        "mean_error": tally.totals.mean,
        "mean_absolute_error": tally.totals.mean_absolute,
        "noise_alone": {"mean_absolute_error": tally.noise_alone / number},
    }


def _rows(level: GroupLevel, tally: LevelTally, theory: bool) -> list[dict[str, Any]]:
    return [
        _named(level)
        | {"total_only": total_only, "true_size": bin_label(SIZES, size)}
        | size_class.as_dict((level.total if total_only else level.second).noise_margin(COVERAGE), theory=theory)
        for (total_only, size), size_class in sorted(tally.classes.items())
        if size_class.groups
    ]


def _curve(level: GroupLevel, curve: SuppressionCurve) -> dict[str, Any]:
    return _named(level) | {
        "suppressed_up_to": level.suppressed_up_to,
        "noise": level.second.as_dict(),
        "groups": curve.groups.tolist(),
        "suppressed": curve.suppressed.tolist(),
        "expected_share": curve.expected.tolist(),
    }


# What a published figure says of the count behind it, given that it was published.
#
# A figure y = n + X comes from a count n of zero or more persons. Some figures are published only above a number T:
# then y is large partly because it was published. With Y the figure of a group of n persons, at the probability 1 - a:
#
# * ``low`` is the smallest n with ``P(Y >= y | Y > T, n) > a/2``;
# * ``high`` is the largest n with ``P(Y <= y | Y > T, n) > a/2`` or ``> a P(Y <= y | Y > T, 0)``.
#
# Whatever n is, it lies between them with a probability of at least 1 - a, given that the figure was published. The
# second condition matters where a figure is so low that it speaks against every count, even against nobody: there is
# always an interval, and it is never shorter because a figure is odd. Where nothing is left out, the interval is the
# figure with its noise margin on both sides, as far as that is not below zero. All of this is decided exactly.
#
# A sum of k measured counts has the sum of k independent draws as its noise. Nothing is left out because of it, so its
# interval is the sum with its noise margin on both sides; the law of the noise is found by convolution.
#
# Derivation: ``docs/proofs/safetab.md``, section 9.


ROUNDING = 1e-9
"""By so much the probability of a margin of a sum is asked to be larger, for the rounding of floating-point numbers."""
WIDEST = 1 << 12
"""How far from zero noise may reach that is convolved value by value."""
BITS = tuple(64 << doublings for doublings in range(7))
"""With so many bits probabilities are enclosed, one after the other, until a question about them is decided. What the
last does not decide counts as possible: the interval is then rather too long."""
FARTHEST = 1 << 62
"""No count is so far from a figure that was published of it."""


def count_interval(
    law: NoiseDistribution, figure: int, probability: Fraction, above: int | None = None
) -> tuple[int, int]:
    """The counts that a measured figure does not speak against.

    Args:
        law: The noise of the figure.
        figure: The figure, above ``above``.
        probability: How often the interval has the count in it, at least.
        above: Figures are published only if they are above this number; None: always.

    Returns:
        The least and the largest count.

    >>> cell = DiscreteGaussian("5000/159")                    # rho 0.159, nine groups, nine tenths for the table
    >>> count_interval(cell, 22, Fraction(19, 20), above=21)
    (0, 30)
    >>> count_interval(cell, 22, Fraction(19, 20))
    (11, 33)
    """
    return inverted(law, probability, above).interval(figure)


def intervals(
    law: NoiseDistribution, figures: Integers, probability: Fraction, above: int | None = None
) -> tuple[Integers, Integers]:
    """The same for many figures: the least and the largest count of each."""
    inverse = inverted(law, probability, above)
    low, high = np.maximum(figures - inverse.margin, 0), np.maximum(figures + inverse.margin, 0)
    near = np.flatnonzero(figures < inverse.settled_from)
    if len(near):
        distinct, place = np.unique(figures[near], return_inverse=True)
        ends = np.array([inverse.interval(figure) for figure in distinct.tolist()], np.int64)[place]
        low[near], high[near] = ends[:, 0], ends[:, 1]
    return low, high


@lru_cache(maxsize=256)
def inverted(law: NoiseDistribution, probability: Fraction, above: int | None) -> InvertedLaw:
    """The law of figures read backwards; the same object, with all it has found, for the same law."""
    return InvertedLaw(law, probability, above)


class InvertedLaw:
    """From figures of one law, published above one number, to intervals of counts. What was found is kept.

    With ``S(x) = P(X > x)`` and ``s = S(T - n)``, which is 1 where nothing is left out,

        ``P(Y >= y | Y > T, n) = S(y - 1 - n) / s``    and    ``P(Y <= y | Y > T, n) = (s - S(y - n)) / s``.
    """

    def __init__(self, law: NoiseDistribution, probability: Fraction, above: int | None):
        self.law = law
        self.above = above
        self.margin = law.noise_margin(probability)
        self._tail = (1 - probability) / 2
        self._kept: dict[int, tuple[int, int]] = {}
        self._last = (0, 0)
        self._tails: dict[tuple[int, int], Bounds] = {}

    def interval(self, figure: int) -> tuple[int, int]:
        """The least and the largest count that a figure does not speak against."""
        if figure >= self.settled_from:
            return max(0, figure - self.margin), figure + self.margin
        if figure not in self._kept:
            # Intervals grow with figures, so that of another one is a good place to begin.
            low, high = self._last
            most = max(0, figure - self.margin)
            low = most if self.above is None else _first(lambda n: self._not_too_high(figure, n), min(low, most))
            high = _first(lambda n: not self._not_too_low(figure, n), high) - 1
            self._kept[figure] = self._last = low, high
        return self._kept[figure]

    @cached_property
    def settled_from(self) -> int:
        """From this figure on the interval is the figure with its noise margin on both sides: that smaller ones are
        left out makes no difference."""
        if self.above is None:
            return 0
        return _first(self._settled, self.above + 1, self.above + 1)

    def _settled(self, figure: int) -> bool:
        """True from some figure on: the larger it is, the less T matters."""
        return (
            self._more_than(Fraction(1, 2), figure, 0)
            and self._more_than(self._tail, figure, figure + self.margin)
            and not self._not_too_high(figure, figure - self.margin - 1)
        )

    def _not_too_high(self, figure: int, n: int) -> bool:
        """Whether ``P(Y >= figure | published, n) > a/2``."""

        def excess(bits: int) -> Bounds:
            (low, high), (s_low, s_high) = self._beyond(figure - 1 - n, bits), self._published(n, bits)
            return low - self._tail * s_high, high - self._tail * s_low

        return _positive(excess)

    def _not_too_low(self, figure: int, n: int) -> bool:
        """Whether ``P(Y <= figure | published, n)`` is more than a/2, or than a times the same of nobody."""
        if self._more_than(self._tail, figure, n):
            return True
        if self._nobody_is_published is not None:
            return self._more_than(2 * self._tail * self._nobody_is_published, figure, n)

        def excess(bits: int) -> Bounds:
            (low, high), (s_low, s_high) = self._up_to(figure, n, bits), self._published(n, bits)
            (low_0, high_0), (s_low_0, s_high_0) = self._up_to(figure, 0, bits), self._published(0, bits)
            a = 2 * self._tail
            return low * s_low_0 - a * high_0 * s_high, high * s_high_0 - a * low_0 * s_low

        return _positive(excess)

    @cached_property
    def _nobody_is_published(self) -> Fraction | None:
        """Where nobody is published so rarely that no number of bits tells how rarely, as without noise: a lower bound
        of ``P(Y <= y | Y > T, 0)``; None elsewhere.

        Laws are log-concave, so tails fall at least as fast as probabilities: with ``p(x + 1) = p(x) exp(-e)`` at
        ``x = T + 1``, ``P(Y = T + 1 | Y > T, 0) = 1 - S(T + 1) / S(T) >= 1 - exp(-e) >= e / (1 + e)``.
        """
        if self.above is None or any(self._published(0, bits)[0] > 0 for bits in BITS):
            return None
        decay = self.law.decay
        exponent = decay.first + decay.step * (self.above + 1)
        return exponent / (1 + exponent)

    def _more_than(self, share: Fraction, figure: int, n: int) -> bool:
        """Whether ``P(Y <= figure | published, n) > share``."""

        def excess(bits: int) -> Bounds:
            (low, high), (s_low, s_high) = self._up_to(figure, n, bits), self._published(n, bits)
            return low - share * s_high, high - share * s_low

        return _positive(excess)

    def _up_to(self, figure: int, n: int, bits: int) -> Bounds:
        """``P(T < n + X <= figure)``."""
        (s_low, s_high), (low, high) = self._published(n, bits), self._beyond(figure - n, bits)
        return max(Fraction(0), s_low - high), s_high - low

    def _published(self, n: int, bits: int) -> Bounds:
        """``P(n + X > T)``."""
        return (Fraction(1), Fraction(1)) if self.above is None else self._beyond(self.above - n, bits)

    def _beyond(self, x: int, bits: int) -> Bounds:
        """``P(X > x)``."""
        key = x, bits
        if key not in self._tails:
            self._tails[key] = self.law.tail_bounds(x, bits)
        return self._tails[key]


def _positive(excess: Callable[[int], Bounds]) -> bool:
    """Whether a number that is known through enclosures is positive."""
    for bits in BITS:
        low, high = excess(bits)
        if low > 0:
            return True
        if high <= 0:
            return False
    return True


def _first(holds: Callable[[int], bool], near: int, least: int = 0) -> int:
    """The smallest number from ``least`` on for which a condition holds that holds from some number on."""
    step, high = 1, near
    while not holds(high):
        if step > FARTHEST:
            raise ArithmeticError("the condition holds for no number that a count could be")
        high, step = high + step, 2 * step
    low, step = (high - step // 2 + 1, 1) if high > near else (least, 1)
    if high == near:
        # Downwards, by growing steps, to a number for which it does not hold.
        while high > least and holds(max(least, high - step)):
            high, step = max(least, high - step), 2 * step
        low = max(least, high - step + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


# Sums of measured counts.


@lru_cache(maxsize=256)
def margin_of_sum(law: NoiseDistribution, cells: int, probability: Fraction) -> int:
    """The noise margin of a sum of independent draws.

    That of one is exact (:meth:`confide.noise.NoiseDistribution.noise_margin`). Otherwise it is the smallest m with
    ``P(|sum| <= m) >= p``, up to the rounding of floating-point numbers. Very wide noise is scaled down first, and the
    margin of a sum then rounded up, by less than a hundredth.
    """
    if cells == 1:
        return law.noise_margin(probability)
    reach = law.noise_margin(1 - Fraction(1, 10**13) / cells)
    if reach > WIDEST:
        step = -(-reach // WIDEST)
        return step * (margin_of_sum(_scaled_down(law, step), cells, probability) + 1)
    one = np.array([law.pmf(x) for x in range(reach + 1)])
    summed = _convolved(np.concatenate([one[:0:-1], one]), cells)
    middle = cells * reach
    folded = summed[middle : 2 * middle + 1] + np.concatenate([[0.0], summed[middle - 1 :: -1]])
    return int(np.searchsorted(np.cumsum(folded), float(probability) + ROUNDING))


@lru_cache(maxsize=256)
def excess_of_sum(law: NoiseDistribution, cells: int, probability: Fraction) -> int:
    """How far a sum of counts may be above the truth, after those below zero were set to zero.

    A count that was set to zero is at most ``c + max(X, 0)`` where it was ``c``. So the sum exceeds the true one by no
    more than ``max(X_1, 0) + ... + max(X_k, 0)``, and this is at most what is returned with the probability
    ``(1 + p) / 2``.
    """
    if cells == 1:
        return law.noise_margin(probability)
    reach = law.noise_margin(1 - Fraction(1, 10**13) / cells)
    if reach > WIDEST:
        step = -(-reach // WIDEST)
        # Rounding each of the draws up to a multiple of the step adds at most one step to each.
        return step * (excess_of_sum(_scaled_down(law, step), cells, probability) + cells)
    one = np.array([law.pmf(x) for x in range(reach + 1)])
    one[0] = 1 - one[1:].sum()
    return int(np.searchsorted(np.cumsum(_convolved(one, cells)), (1 + float(probability)) / 2 + ROUNDING))


def _convolved(one: Floats, cells: int) -> Floats:
    """The law of a sum of independent draws from one law, from the smallest value on."""
    size = 1 << (cells * (len(one) - 1) + 1).bit_length()
    summed = np.fft.irfft(np.fft.rfft(one, size) ** cells, size)
    return np.asarray(summed, np.float64)


def sum_intervals(
    law: NoiseDistribution, sums: Integers, cells: int, probability: Fraction, *, clamped: bool = False
) -> tuple[Integers, Integers]:
    """For sums of so many measured counts the least and the largest true sum; a sum below zero is read as zero.

    ``clamped``: counts below zero were set to zero before they were summed.
    """
    margin = margin_of_sum(law, cells, probability)
    below = excess_of_sum(law, cells, probability) if clamped else margin
    return np.maximum(sums - below, 0), np.maximum(sums, 0) + margin


def _scaled_down(law: NoiseDistribution, step: int) -> NoiseDistribution:
    """The law of the same kind whose noise is narrower by a factor."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 / step**2)
    assert isinstance(law, TwoSidedGeometric)
    return TwoSidedGeometric(law.epsilon * step)
