"""Counts and noise as the adversaries with hierarchical information see them: limits, laws of counts, logarithms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confide.errors import Finding, ParameterError
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


def whole(value: int, name: str, lowest: int = 0, highest: int = LARGEST_COUNT) -> int:
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
    raise _out_of_range(f"{name} is out of all proportion", f"{float(rho):g}", expected)


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
    return ParameterError(
        Finding(code="out-of-range", what=what, found=found, expected=expected, remedy="correct the number")
    )
