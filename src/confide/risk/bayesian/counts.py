"""Counts and noise as the adversaries with hierarchical information see them: limits, laws of counts, logarithms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from math import ceil, log, log1p, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confide.errors import ParameterError
from confide.exact import Exact, positive

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LARGEST_COUNT = 10**9
"""Counts beyond it would lose digits in the exponents."""
SMALLEST_RHO, LARGEST_RHO = Fraction(1, 10**9), Fraction(10**6)


@dataclass(frozen=True)
class CountLaw:
    """Probabilities of the counts ``first``, ``first`` + 1, …."""

    first: int
    probabilities: FloatArray

    def p(self, count: int) -> float:
        """The probability of one count."""
        place = count - self.first
        return float(self.probabilities[place]) if 0 <= place < len(self.probabilities) else 0.0

    @property
    def mean(self) -> float:
        return float(np.arange(self.first, self.first + len(self.probabilities)) @ self.probabilities)

    def as_dict(self, smallest: float = 5e-7) -> dict[str, float]:
        """Counts as texts with their probabilities; those smaller than ``smallest`` are left out."""
        listed = enumerate(self.probabilities.tolist(), start=self.first)
        return {str(count): value for count, value in listed if value >= smallest}


def checked_count(value: int, name: str, lowest: int = 0, highest: int = LARGEST_COUNT) -> int:
    """A whole number within limits, or an error."""
    if type(value) is not int or not lowest <= value <= highest:
        raise _out_of_range(
            f"{name} is not what it can be", repr(value)[:40], f"a whole number from {lowest} to {highest}"
        )
    return value


def bounded_rho(value: Exact, name: str) -> Fraction:
    """A rho within what floating-point exponents carry."""
    rho = positive(value, name)
    if SMALLEST_RHO <= rho <= LARGEST_RHO:
        return rho
    expected = f"a number from {float(SMALLEST_RHO):g} to {float(LARGEST_RHO):g}"
    raise _out_of_range(f"{name} is far too large or too small", f"{float(rho):g}", expected)


def released_counts(value: ArrayLike) -> IntArray:
    """Whole numbers, one or an array of them, with either sign."""
    counts = np.asarray(value)
    if counts.dtype.kind not in "iu" or (counts.size and int(np.abs(counts).max()) > LARGEST_COUNT):
        expected = f"whole numbers of at most {LARGEST_COUNT}, with either sign"
        raise _out_of_range("released counts are whole numbers", f"values of type {counts.dtype}", expected)
    return counts.astype(np.int64)


def logarithm(value: Fraction) -> float:
    """ln of a positive fraction, also where it is beyond floating point or next to one."""
    if Fraction(1, 2) < value < 2:
        return log1p(float(value - 1))
    return log(value.numerator) - log(value.denominator)


def log_sum(terms: FloatArray) -> FloatArray:
    """ln Σ exp(terms) over the last axis; −∞ where there is nothing."""
    top = terms.max(axis=-1)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        summed: FloatArray = safe + np.log(np.exp(terms - safe[..., None]).sum(axis=-1))
    return summed


def _out_of_range(what: str, found: str, expected: str) -> ParameterError:
    return ParameterError("out-of-range", what, found=found, expected=expected, remedy="correct the number")


# The noise of a sum of siblings: d discrete Gaussians, and the one discrete Gaussian that stands in for them.
#
# Kazan and Reiter (equation 3.7) replace the sum of d noises with weights exp(−ρk²) by one with weights
# exp(−(ρ/d)k²). The exact law differs from it by a factor that depends on k modulo d alone,
#
#   P(sum = k) ∝ exp(−(ρ/d)k²) · c_d(k mod d),   c_d(k) = Σ exp(−ρ|n − (k/d)·1|²) over n ∈ Z^d with Σn = k,
#
# because adding (1, …, 1) to n maps the lattice points of k to those of k + d. The factors of a + b noises follow
# from those of a and of b (``docs/proofs/bayesian-hierarchy.md``, section 1), without any underflow.


NEGLIGIBLE = 46.0
"""Terms smaller than exp(−46), about 1e-20, of the largest are left out of sums."""


class SiblingNoise(StrEnum):
    """Which law the sum of the siblings' noises is taken to have."""

    APPROXIMATE = "approximate"
    EXACT = "exact"


def gaussian_window(precision: float) -> tuple[IntArray, FloatArray]:
    """Values and probabilities of noise with weights exp(−precision·k²); less than 1e-17 is cut off.

    >>> values, probabilities = gaussian_window(0.5)
    >>> int(values[0]), int(values[-1]), round(float(probabilities[values == 0][0]), 6)
    (-10, 10, 0.398942)
    """
    half = ceil(sqrt(NEGLIGIBLE / precision))
    values = np.arange(-half, half + 1, dtype=np.int64)
    weights = np.exp(-precision * values.astype(np.float64) ** 2)
    return values, weights / weights.sum()


@lru_cache(maxsize=64)
def log_periodic_factor(rho: float, siblings: int) -> FloatArray:
    """ln c_d(k) for k = 0..d−1, up to a constant: what the exact law of the sum adds to its stand-in."""
    if siblings == 1:
        return np.zeros(1)
    small = siblings // 2
    factor = _combined(log_periodic_factor(rho, small), log_periodic_factor(rho, siblings - small), rho)
    factor.setflags(write=False)
    return factor


def _combined(one: FloatArray, other: FloatArray, rho: float) -> FloatArray:
    """c_{a+b}(k) = Σ_i exp(−ρ(a+b)/(ab)·(i − ak/(a+b))²)·c_a(i mod a)·c_b((k−i) mod b), in logarithms."""
    a, b = len(one), len(other)
    slack = float(np.ptp(one) + np.ptp(other))
    precision = rho * (a + b) / (a * b)
    half = ceil(sqrt((NEGLIGIBLE + slack) / precision)) + 1
    k = np.arange(a + b, dtype=np.int64)[:, None]
    i = np.rint(a * k / (a + b)).astype(np.int64) + np.arange(-half, half + 1)
    terms = -precision * (i - a * k / (a + b)) ** 2 + one[i % a] + other[(k - i) % b]
    top = terms.max(axis=1, keepdims=True)
    summed: FloatArray = top[:, 0] + np.log(np.exp(terms - top).sum(axis=1))
    shifted: FloatArray = summed - summed.max()
    return shifted


def sibling_window(rho: float, siblings: int, noise: SiblingNoise) -> tuple[IntArray, FloatArray]:
    """Values and probabilities of the noise of the siblings' sum."""
    values, probabilities = gaussian_window(rho / siblings)
    if noise is SiblingNoise.APPROXIMATE:
        return values, probabilities
    weights = probabilities * np.exp(log_periodic_factor(rho, siblings)[values % siblings])
    return values, weights / weights.sum()


def approximation_error(rho: float, siblings: int) -> float:
    """The total variation distance between the sum of d noises and the one that stands in for it (S2)."""
    exact_law = sibling_window(rho, siblings, SiblingNoise.EXACT)[1]
    return float(np.abs(exact_law - gaussian_window(rho / siblings)[1]).sum() / 2)
