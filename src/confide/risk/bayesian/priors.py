"""What an adversary believes about counts before seeing noise: laws of one count, and laws of a parent's count.

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
from fractions import Fraction
from functools import cached_property
from math import ceil, log

import numpy as np
from scipy.special import gammaln

from confide.errors import ParameterError
from confide.exact import Exact, exact, positive
from confide.risk.bayesian.counts import LARGEST_COUNT, FloatArray, IntArray, checked_count, logarithm


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
            raise _bad("the last count lies before the first", self.last, f"at least {self.first}")

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
            raise _bad("these are not the weights of a law", f"{len(weights)} weights", "some, none negative, one > 0")
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
    raise _bad("this is not a law of a count", text[:40], "flat, flat:LAST, point:N, geometric:MEAN or poisson:MEAN")


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
    expected = "flat, uniform:LARGEST, point:N, geometric:MEAN or poisson:MEAN"
    raise _bad("this is not a law of the parent's count", text[:40], expected)


def _count(text: str, prior: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise _bad("this law needs a whole number", prior[:40], "such as uniform:10 or point:25")
    return int(text)


def _bad(what: str, found: object, expected: str) -> ParameterError:
    return ParameterError("bad-prior", what, found=str(found), expected=expected, remedy="correct the prior")
