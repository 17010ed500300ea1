"""Oracles for the noise tests: the laws in mpmath, planted bits, an account of every table cell, chi-square."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np

from confide.noise import DiscreteGaussian, LookupTable, NoiseDistribution, NoiseStream, TwoSidedGeometric
from confide.noise.sample import CELL_BITS, CELLS, UNDECIDED

STREAM = NoiseStream(bytes(range(32)), bytes(range(32, 64)))
"""The stream of the known answers: its keys are the bytes 0, 1, ..., 63."""

SIX_LAWS = (
    DiscreteGaussian(1),
    DiscreteGaussian("10.24"),
    DiscreteGaussian(289),
    DiscreteGaussian(3600),
    TwoSidedGeometric("1/10"),
    TwoSidedGeometric(1),
)


def named(law: NoiseDistribution) -> str:
    return repr(law)


def as_mpf(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


def weight(law: NoiseDistribution, m: int) -> mpmath.mpf:
    """``exp(-m**2 / (2 sigma2))`` or ``exp(-epsilon m)`` at the working precision of mpmath."""
    if isinstance(law, DiscreteGaussian):
        return mpmath.exp(-mpmath.mpf(m * m) / (2 * as_mpf(law.sigma2)))
    assert isinstance(law, TwoSidedGeometric)
    return mpmath.exp(-as_mpf(law.epsilon) * m)


def folded_cdf(law: NoiseDistribution, bits: int) -> list[mpmath.mpf]:
    """``G_0, G_1, ...`` by plain summation until the weights are below ``2**-(bits + 64)``."""
    partial, sums, m = mpmath.mpf(1), [mpmath.mpf(1)], 0
    while weight(law, m) > mpmath.mpf(2) ** -(bits + 64):
        m += 1
        partial += 2 * weight(law, m)
        sums.append(partial)
    # What is left of the geometric law's tail; the Gaussian's is far smaller still.
    total = partial + (2 * weight(law, m + 1) / (1 - weight(law, 1)) if isinstance(law, TwoSidedGeometric) else 0)
    return [value / total for value in sums]


@lru_cache(maxsize=64)
def integer_thresholds(law: NoiseDistribution, bits: int) -> list[int]:
    """``floor(2**bits G_m)`` from mpmath with 200 bits to spare."""
    with mpmath.workprec(bits + 200):
        return [int(mpmath.floor(mpmath.ldexp(value, bits))) for value in folded_cdf(law, bits)]


class PlantedSource:
    """A word source of chosen uniform numbers: ``U`` of coordinate ``i`` is ``numbers[i] / 2**(15 + 64 words)``."""

    def __init__(self, numbers: Sequence[int], signs: Sequence[int], words: int):
        self._words = np.array(
            [(sign << CELL_BITS) | number >> 64 * words for number, sign in zip(numbers, signs, strict=True)], np.uint16
        )
        self._extensions = [
            np.array([number >> 64 * (words - 1 - j) & (1 << 64) - 1 for number in numbers], np.uint64)
            for j in range(words)
        ]
        self.deepest = 0

    def words(self, start: int, count: int) -> np.ndarray:
        return self._words[start : start + count]

    def words_at(self, coordinates: np.ndarray) -> np.ndarray:
        return self._words[coordinates.astype(np.intp)]

    def extension(self, coordinates: np.ndarray, number: int) -> np.ndarray:
        self.deepest = max(self.deepest, number)
        return self._extensions[number][coordinates.astype(np.intp)]


def wrong_cells(table: LookupTable) -> list[int]:
    """Every cell of the table that contradicts the exact law, in integers scaled by ``2**400``.

    A decided cell must lie inside the step of its magnitude, an undecided cell must hold a threshold (the last cell has
    infinitely many), and the negative half must mirror the positive one.
    """
    bits = 400
    shift = bits - CELL_BITS
    thresholds = integer_thresholds(table.distribution, bits)
    holding = {threshold >> shift for threshold in thresholds} | {CELLS - 1}
    wrong = []
    halves = table.signed.reshape(2, CELLS).tolist()
    for cell, (entry, mirrored) in enumerate(zip(*halves, strict=True)):
        begin, end = cell << shift, (cell + 1) << shift
        if entry == UNDECIDED:
            right = cell in holding and mirrored == UNDECIDED
        else:
            # The true threshold is between the integer and the next one.
            begins = entry == 0 or (0 < entry <= len(thresholds) and thresholds[entry - 1] + 1 <= begin)
            right = begins and entry < len(thresholds) and end <= thresholds[entry] and mirrored == -entry
        if not right:
            wrong.append(cell)
    return wrong


def chi_square_p(observed: np.ndarray, expected: np.ndarray) -> float:
    """The p-value of Pearson's statistic, after the ends are pooled to an expectation of at least 25."""
    inner = np.flatnonzero(expected >= 25)
    low, high = inner[0], inner[-1] + 1
    pooled = [np.concatenate([[v[:low].sum()], v[low:high], [v[high:].sum()]]) for v in (observed, expected)]
    seen, wanted = pooled
    keep = wanted >= 5
    statistic = float((((seen - wanted) ** 2)[keep] / wanted[keep]).sum())
    freedom = int(keep.sum()) - 1
    return float(mpmath.gammainc(mpmath.mpf(freedom) / 2, mpmath.mpf(statistic) / 2, mpmath.inf, regularized=True))
