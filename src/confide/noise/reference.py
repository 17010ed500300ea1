"""The samplers of Canonne, Kamath and Steinke in plain integers, over any source of uniform bits.

They are exact, short and slow: the oracle that the table sampler is tested against, and the sampler for scales at which
no table decides. Every random choice is a comparison of a uniform integer with an integer.

Reference: Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), algorithms 1 to 3.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from confide.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric


class UniformBits:
    """Uniform integers of any size from a supply of 64-bit words."""

    __slots__ = ("_available", "_next_word", "_pool")

    def __init__(self, next_word: Callable[[], int]):
        self._next_word = next_word
        self._pool = 0
        self._available = 0

    def take(self, count: int) -> int:
        """The next ``count`` bits as an integer."""
        while self._available < count:
            self._pool |= self._next_word() << self._available
            self._available += 64
        value = self._pool & ((1 << count) - 1)
        self._pool >>= count
        self._available -= count
        return value

    def below(self, bound: int) -> int:
        """Uniform on ``0 .. bound - 1``: draws of the right number of bits, until one is small enough."""
        count = (bound - 1).bit_length()
        while (value := self.take(count)) >= bound:
            pass
        return value


def sample(law: Law, bits: UniformBits) -> int:
    """One exact draw from ``law``."""
    if isinstance(law, DiscreteGaussian):
        return discrete_gaussian(law.sigma2.numerator, law.sigma2.denominator, bits)
    if isinstance(law, TwoSidedGeometric):
        return two_sided_geometric(law.epsilon.numerator, law.epsilon.denominator, bits)
    raise TypeError(f"no reference sampler for {type(law).__name__}")


def discrete_gaussian(numerator: int, denominator: int, bits: UniformBits) -> int:
    """``P(x)`` proportional to ``exp(-x**2 / (2 sigma2))``, ``sigma2 = numerator / denominator`` (algorithm 3).

    A two-sided geometric candidate ``y`` of scale ``t = floor(sigma) + 1`` is kept with probability
    ``exp(-(|y| - sigma2 / t)**2 / (2 sigma2))``.
    """
    scale = isqrt(numerator // denominator) + 1
    divisor = 2 * numerator * denominator * scale * scale
    while True:
        candidate = two_sided_geometric(1, scale, bits)
        distance = abs(candidate) * scale * denominator - numerator
        if bernoulli_exp(distance * distance, divisor, bits):
            return candidate


def two_sided_geometric(numerator: int, denominator: int, bits: UniformBits) -> int:
    """``P(x)`` proportional to ``exp(-epsilon |x|)``, ``epsilon = numerator / denominator`` (algorithm 2)."""
    while True:
        remainder = bits.below(denominator)
        if not bernoulli_exp(remainder, denominator, bits):
            continue
        quotient = 0
        while _bernoulli_exp_up_to_one(1, 1, bits):
            quotient += 1
        magnitude = (remainder + denominator * quotient) // numerator
        negative = bits.take(1)
        # Minus zero is the same as zero and would count twice.
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def bernoulli_exp(numerator: int, denominator: int, bits: UniformBits) -> bool:
    """True with probability ``exp(-numerator / denominator)`` (algorithm 1)."""
    while numerator > denominator:
        if not _bernoulli_exp_up_to_one(1, 1, bits):
            return False
        numerator -= denominator
    return _bernoulli_exp_up_to_one(numerator, denominator, bits)


def _bernoulli_exp_up_to_one(numerator: int, denominator: int, bits: UniformBits) -> bool:
    """The same for a quotient of at most one: the parity of a run of ever rarer successes (von Neumann)."""
    run = 1
    while bits.below(denominator * run) < numerator:
        run += 1
    return run % 2 == 1
