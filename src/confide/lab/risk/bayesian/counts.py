"""Counts as the adversaries with hierarchical information see them: noise and limits, and what is believed beforehand.

What an adversary believes about counts before seeing noise are laws of one count, and laws of a parent's count.

A :class:`CountPrior` is a law (or, if improper, a weight) on whole numbers from 0 up; it serves the leaves of a tree
and the rest Y of a family. A :class:`ParentPrior` is a law of X2 given X1 = k1, as Kazan and Reiter write it (section
3.2 and supplement S4); what the sums need of it is the law of Y = X2 − k1.

Every parameter is an exact number. All but :class:`ListedPrior` are log-concave, so that their product with a Gaussian
factor has one mode, and what lies J steps from it is smaller by exp(−a·J(J−1)); see
``docs/proofs/bayesian-hierarchy.md``, section 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, log, log1p, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from confide.errors import ParameterError
from confide.exact import Exact, exact, positive

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
        raise ParameterError(
            "out-of-range/whole-number", found=repr(value)[:40], name=name, lowest=lowest, highest=highest
        )
    return value


def bounded_rho(value: Exact, name: str) -> Fraction:
    """A rho within what floating-point exponents carry."""
    rho = positive(value, name)
    if SMALLEST_RHO <= rho <= LARGEST_RHO:
        return rho
    raise ParameterError(
        "out-of-range/number",
        name=name,
        rho=float(rho),
        smallest_rho=float(SMALLEST_RHO),
        largest_rho=float(LARGEST_RHO),
    )


def released_counts(value: ArrayLike) -> IntArray:
    """Whole numbers, one or an array of them, with either sign."""
    counts = np.asarray(value)
    if counts.dtype.kind not in "iu" or (counts.size and int(np.abs(counts).max()) > LARGEST_COUNT):
        raise ParameterError("out-of-range/released", dtype=counts.dtype, largest_count=LARGEST_COUNT)
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


# What an adversary believes about counts before seeing noise.


class CountPrior(ABC):
    """A weight for every count from ``first`` to ``last``; nothing outside. ``last`` is None if there is no end."""

    first: int = 0
    last: int | None = None
    proper: bool = True
    """Whether the weights have a sum."""

    @abstractmethod
    def _inside(self, counts: IntArray) -> FloatArray:
        """The logarithms of the weights of counts from ``first`` to ``last``."""

    def mode(self, centre: FloatArray, curvature: float) -> IntArray | None:
        """Where ln π(n) − a(n−c)² is largest, for every c; None if π need not be log-concave."""
        del curvature
        return self._clip(np.rint(centre))

    def log_weight(self, counts: IntArray) -> FloatArray:
        """ln π(n), and −∞ where there is no weight."""
        last = LARGEST_COUNT if self.last is None else self.last
        within = (counts >= self.first) & (counts <= last)
        return np.where(within, self._inside(np.clip(counts, self.first, last)), -np.inf)

    def _clip(self, counts: FloatArray | IntArray) -> IntArray:
        last = LARGEST_COUNT if self.last is None else self.last
        return np.clip(counts, self.first, last).astype(np.int64)


@dataclass(frozen=True)
class Flat(CountPrior):
    """Equal weights on first..last. Without a last count the weights are 1 each and have no sum: improper."""

    last: int | None = None
    first: int = 0

    def __post_init__(self) -> None:
        checked_count(self.first, "the first count")
        if self.last is not None and checked_count(self.last, "the last count") < self.first:
            raise ParameterError("bad-prior/last", found=str(self.last), first=self.first)

    @property
    def proper(self) -> bool:  # type: ignore[override]
        return self.last is not None

    def log_weight(self, counts: IntArray) -> FloatArray:
        within = counts >= self.first
        if self.last is not None:
            within &= counts <= self.last
        return np.where(within, 0.0 if self.last is None else -log(self.last - self.first + 1), -np.inf)

    def _inside(self, counts: IntArray) -> FloatArray:
        return self.log_weight(counts)


def Point(at: int) -> Flat:  # noqa: N802  (one of the laws, though it is a special case of another)
    """The count is known: all weight on one number."""
    return Flat(last=at, first=at)


@dataclass(frozen=True, init=False)
class Geometric(CountPrior):
    """P(n) = (1−q)qⁿ with q = mean/(1+mean): few people, sometimes some."""

    mean: Fraction

    def __init__(self, mean: Exact):
        object.__setattr__(self, "mean", positive(mean, "the mean of a geometric law"))

    @property
    def slope(self) -> float:
        """ln q."""
        return logarithm(self.mean / (1 + self.mean))

    def mode(self, centre: FloatArray, curvature: float) -> IntArray:
        return self._clip(np.rint(centre + self.slope / (2 * curvature)))

    def _inside(self, counts: IntArray) -> FloatArray:
        return self.slope * counts.astype(np.float64) - logarithm(1 + self.mean)


@dataclass(frozen=True, init=False)
class Poisson(CountPrior):
    """P(n) = e^(−m)·mⁿ/n!."""

    mean: Fraction

    def __init__(self, mean: Exact):
        object.__setattr__(self, "mean", positive(mean, "the mean of a Poisson law"))

    def mode(self, centre: FloatArray, curvature: float) -> IntArray:
        """The first n where a step up no longer pays: ln m − ln(n+1) − a(2(n−c)+1) ≤ 0, by bisection."""
        low = np.full(centre.shape, -1, dtype=np.int64)
        high = self._clip(np.maximum(np.ceil(centre), ceil(self.mean)) + 1)
        ln_mean = logarithm(self.mean)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            rises = ln_mean - np.log(middle + 1.0) - curvature * (2 * (middle - centre) + 1) > 0
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        return high

    def _inside(self, counts: IntArray) -> FloatArray:
        log_weights: FloatArray = counts * logarithm(self.mean) - float(self.mean) - gammaln(counts + 1.0)
        return log_weights


@dataclass(frozen=True, init=False)
class ListedPrior(CountPrior):
    """Any law on first, first+1, …: exact weights, which are divided by their sum."""

    probabilities: tuple[Fraction, ...]
    first: int

    def __init__(self, probabilities: Sequence[Exact], first: int = 0):
        weights = tuple(exact(value, "a probability") for value in probabilities)
        if not weights or min(weights) < 0 or not sum(weights):
            raise ParameterError("bad-prior/weights", weights=len(weights))
        total = sum(weights)
        object.__setattr__(self, "probabilities", tuple(weight / total for weight in weights))
        object.__setattr__(self, "first", checked_count(first, "the first count"))

    @property
    def last(self) -> int:  # type: ignore[override]
        return self.first + len(self.probabilities) - 1

    def mode(self, centre: FloatArray, curvature: float) -> None:
        del centre, curvature

    @cached_property
    def _logs(self) -> FloatArray:
        return np.array([logarithm(value) if value else -np.inf for value in self.probabilities])

    def _inside(self, counts: IntArray) -> FloatArray:
        log_weights: FloatArray = self._logs[counts - self.first]
        return log_weights


class ParentPrior(ABC):
    """A law of X2 given X1 = k1, as the law of the rest Y = X2 − k1."""

    @abstractmethod
    def rest(self, k1: int) -> CountPrior | None:
        """The law of Y given X1 = k1; None if X1 = k1 is impossible."""


@dataclass(frozen=True)
class FlatParent(ParentPrior):
    """The paper's choice: equal weight on k1, k1+1, … without end, the same for both k1. Improper."""

    def rest(self, k1: int) -> Flat:
        del k1
        return Flat()


@dataclass(frozen=True)
class UniformParent(ParentPrior):
    """Uniform on k1..largest, hence with probability 1/(largest + 1 − k1) each (S4.2)."""

    largest: int

    def __post_init__(self) -> None:
        checked_count(self.largest, "the largest count")

    def rest(self, k1: int) -> Flat | None:
        return Flat(self.largest - k1) if self.largest >= k1 else None


@dataclass(frozen=True)
class PointParent(ParentPrior):
    """X2 is believed to be known."""

    at: int

    def __post_init__(self) -> None:
        checked_count(self.at, "the count of the parent")

    def rest(self, k1: int) -> Flat | None:
        return Point(self.at - k1) if self.at >= k1 else None


@dataclass(frozen=True)
class ListedParent(ParentPrior):
    """Any law of X2; given X1 = k1 it is cut at k1 and divided by what is left."""

    law: ListedPrior

    def rest(self, k1: int) -> ListedPrior | None:
        skipped = max(0, k1 - self.law.first)
        remaining = self.law.probabilities[skipped:]
        return ListedPrior(remaining, self.law.first + skipped - k1) if any(remaining) else None


@dataclass(frozen=True)
class RestPrior(ParentPrior):
    """A law of the rest Y that does not depend on X1: what a model of the other blocks says."""

    law: CountPrior

    def rest(self, k1: int) -> CountPrior:
        del k1
        return self.law


def parse_count_prior(text: str) -> CountPrior:
    """``flat``, ``flat:LAST``, ``point:N``, ``geometric:MEAN`` or ``poisson:MEAN``."""
    kind, _, value = text.strip().partition(":")
    match kind:
        case "flat":
            return Flat(_count(value, text)) if value else Flat()
        case "point":
            return Point(_count(value, text))
        case "geometric":
            return Geometric(value)
        case "poisson":
            return Poisson(value)
    raise ParameterError("bad-prior/law-count", found=str(text[:40]))


def parse_parent_prior(text: str) -> ParentPrior:
    """``flat``, ``uniform:LARGEST`` or ``point:N`` for X2; ``geometric:MEAN`` or ``poisson:MEAN`` for the rest."""
    kind, _, value = text.strip().partition(":")
    match kind:
        case "flat" if not value:
            return FlatParent()
        case "uniform":
            return UniformParent(_count(value, text))
        case "point":
            return PointParent(_count(value, text))
        case "geometric" | "poisson":
            return RestPrior(parse_count_prior(text))
    raise ParameterError("bad-prior/parent", found=str(text[:40]))


def _count(text: str, prior: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ParameterError("bad-prior/needs", found=str(prior[:40]))
    return int(text)
