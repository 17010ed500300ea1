"""For the tests of sparse noise: planted uniform numbers, enclosures of known numbers, chi-square."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import mpmath
import numpy as np

from confide.noise import Bounds

ALARM = 1e-6
"""The false alarm rate of each comparison, had the keys been drawn anew."""


class PlantedExtensions:
    """``U`` of coordinate ``i`` is ``numbers[i] / 2**(64 * words)``, and zeros for ever after that."""

    def __init__(self, numbers: Sequence[int], words: int):
        self._words = [[number >> 64 * (words - 1 - j) & (1 << 64) - 1 for number in numbers] for j in range(words)]
        self.deepest = 0

    def words(self, start: int, count: int) -> np.ndarray:
        raise AssertionError("only extension words are used")

    def words_at(self, coordinates: np.ndarray) -> np.ndarray:
        raise AssertionError("only extension words are used")

    def extension(self, coordinates: np.ndarray, number: int) -> np.ndarray:
        self.deepest = max(self.deepest, number)
        if number >= len(self._words):
            return np.zeros(len(coordinates), np.uint64)
        return np.array([self._words[number][int(c)] for c in coordinates], np.uint64)


def around(threshold: Fraction, words: int) -> tuple[int, int]:
    """The largest number of so many words that is below the threshold, and the smallest that is not."""
    above = -((-threshold.numerator << 64 * words) // threshold.denominator)
    return above - 1, above


def known(number: Fraction) -> Callable[[int], Bounds]:
    """Enclosures of a known number that are as wide as they may be, and not centred."""
    return lambda bits: (number - Fraction(1, 3 << bits), number + Fraction(2, 3 << bits))


def chi_square(observed: np.ndarray, expected: np.ndarray) -> float:
    """The p-value of Pearson's statistic; cells with an expectation below 10 are put together."""
    rare = expected < 10
    seen = np.append(observed[~rare], observed[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    keep = wanted >= 5
    return _upper_tail(float((((seen - wanted) ** 2)[keep] / wanted[keep]).sum()), int(keep.sum()) - 1)


def two_samples(one: np.ndarray, other: np.ndarray) -> float:
    """The p-value of the hypothesis that two samples of numbers have one law. Rare numbers are put together."""
    low = min(one.min(), other.min())
    length = max(one.max(), other.max()) - low + 1
    a, b = (np.bincount(sample - low, minlength=length).astype(float) for sample in (one, other))
    rare = a + b < 20
    a, b = (np.append(counts[~rare], counts[rare].sum()) for counts in (a, b))
    keep = a + b >= 10
    a, b = a[keep], b[keep]
    ratio = (b.sum() / a.sum()) ** 0.5
    return _upper_tail(float(((ratio * a - b / ratio) ** 2 / (a + b)).sum()), len(a) - 1)


def _upper_tail(statistic: float, freedom: int) -> float:
    assert freedom > 0
    return float(mpmath.gammainc(mpmath.mpf(freedom) / 2, mpmath.mpf(statistic) / 2, mpmath.inf, regularized=True))
