"""What a published figure says of the count behind it, given that it was published.

A figure y = n + X comes from a count n of zero or more persons. Some figures are published only above a number T: then
y is large partly because it was published. With Y the figure of a group of n persons, at the probability 1 - a:

* ``low`` is the smallest n with ``P(Y >= y | Y > T, n) > a/2``;
* ``high`` is the largest n with ``P(Y <= y | Y > T, n) > a/2`` or ``> a P(Y <= y | Y > T, 0)``.

Whatever n is, it lies between them with a probability of at least 1 - a, given that the figure was published. The
second condition matters where a figure is so low that it speaks against every count, even against nobody: there is
always an interval, and it is never shorter because a figure is odd. Where nothing is left out, the interval is the
figure with its noise margin on both sides, as far as that is not below zero. All of this is decided exactly.

A sum of k measured counts has the sum of k independent draws as its noise. Nothing is left out because of it, so its
interval is the sum with its noise margin on both sides; the law of the noise is found by convolution.

Derivation: ``docs/proofs/safetab.md``, section 9.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from confide.noise import Bounds, DiscreteGaussian, NoiseDistribution, TwoSidedGeometric

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ROUNDING = 1e-9
"""By so much the probability of a margin of a sum is asked to be larger, for the rounding of floating-point numbers."""
WIDEST = 1 << 12
"""How far from zero noise may reach that is convolved value by value."""
MOST_BITS = 1 << 12
"""What is not decided with so many bits counts as possible: the interval is then rather too long."""
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
        if self.above is None or self._published(0, MOST_BITS)[0] > 0:
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
    """Whether a number that is known through enclosures is positive: bits are added until that is decided."""
    bits = 64
    while True:
        low, high = excess(bits)
        if low > 0:
            return True
        if high <= 0:
            return False
        if bits >= MOST_BITS:
            return True
        bits *= 2


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
    """How far a sum of counts of which those below zero were set to zero may be above the truth.

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
