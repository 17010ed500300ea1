"""Measures of accuracy for areas: what the Census Bureau reports of its disclosure avoidance system.

For areas 1 … n with true counts t and released counts r, the error is e = r − t, and

- mean error (bias)           ME    = Σ e / n
- mean absolute error         MAE   = Σ |e| / n
- root mean squared error     RMSE  = √(Σ e² / n)
- coefficient of variation    CoV   = 100 · RMSE / (Σ t / n)
- mean absolute per cent      MAPE  = 100 · Σ (|e| / t) / m
- mean algebraic per cent     MALPE = 100 · Σ (e / t) / m

The per cent measures and the shares of areas with |e| / t above 5 and 10 per cent are over the m areas with t > 0;
``zeros`` says how many have t = 0. A quantile at p is the smallest error that at least p · n errors do not exceed.

Errors of counts are whole, so they are kept as a tally: how often each occurs. Tallies of parts add up to the tally of
the whole, exactly, in whatever order.

Reference: U.S. Census Bureau, Data Metrics for 2020 Disclosure Avoidance (2020), and the public code of its analyses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from confide.arrays import Integers

QUANTILES = tuple(map(Fraction, ("0.005", "0.025", "0.05", "0.25", "0.5", "0.75", "0.95", "0.975", "0.995")))

POPULATION_BINS = (0, 1_000, 5_000, 10_000, 50_000, 100_000)
"""Where the classes of areas by their true total begin."""

COUNT_BINS = (0, 10, 100)
"""Where the classes of areas by the true count itself begin."""

SIZE_BINS = (0, 1, 10, 100, 1_000, 10_000)
"""Finer classes of the true count, zero apart: they show the bias of small and of large counts."""


def bin_label(starts: tuple[int, ...], number: int) -> str:
    """A class in words: ``0``, ``1 to 9``, ``10,000 and over``."""
    first = starts[number]
    if number + 1 == len(starts):
        return f"{first:,} and over"
    last = starts[number + 1] - 1
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def bin_of(starts: tuple[int, ...], values: Integers) -> Integers:
    """The class of each value."""
    return np.searchsorted(np.array(starts), values, side="right").astype(np.int64) - 1


@dataclass(frozen=True)
class ErrorTally:
    """The errors of some areas: each distinct error, how often it occurs, and what the per cent measures need."""

    error: Integers
    times: Integers
    truth: int = 0
    zeros: int = 0
    relative: float = 0.0
    absolute_relative: float = 0.0
    over_five: int = 0
    over_ten: int = 0

    def __add__(self, other: ErrorTally) -> ErrorTally:
        return add_tallies((self, other))

    @property
    def areas(self) -> int:
        """The number of areas, n."""
        return int(self.times.sum())

    @property
    def mean_error(self) -> float:
        return int((self.error * self.times).sum()) / self.areas

    @property
    def mean_absolute_error(self) -> float:
        return int((np.abs(self.error) * self.times).sum()) / self.areas

    @property
    def root_mean_squared_error(self) -> float:
        return float((int((self.error * self.error * self.times).sum()) / self.areas) ** 0.5)

    @property
    def coefficient_of_variation(self) -> float | None:
        """In per cent; none where nobody is counted."""
        return 100 * self.root_mean_squared_error * self.areas / self.truth if self.truth else None

    def _percent(self, total: float) -> float | None:
        positive = self.areas - self.zeros
        return 100 * total / positive if positive else None

    def quantiles(self, *, absolute: bool = False) -> dict[str, int]:
        """For each p of ``QUANTILES`` the smallest error, signed or absolute, that at least p · n do not exceed."""
        error, times = _distinct(np.abs(self.error), self.times) if absolute else (self.error, self.times)
        ranks = [max(1, ceil(p * self.areas)) for p in QUANTILES]
        values = error[np.searchsorted(np.cumsum(times), ranks)].tolist()
        return {f"{float(p):g}": value for p, value in zip(QUANTILES, values, strict=True)}

    def as_dict(self, *, quantiles: bool = False) -> dict[str, Any]:
        values: dict[str, Any] = {
            "areas": self.areas,
            "zeros": self.zeros,
            "mean_truth": self.truth / self.areas,
            "mean_error": self.mean_error,
            "mean_absolute_error": self.mean_absolute_error,
            "root_mean_squared_error": self.root_mean_squared_error,
            "coefficient_of_variation": self.coefficient_of_variation,
            "mean_absolute_percent_error": self._percent(self.absolute_relative),
            "mean_algebraic_percent_error": self._percent(self.relative),
            "percent_of_areas_over_5_percent": self._percent(self.over_five),
            "percent_of_areas_over_10_percent": self._percent(self.over_ten),
        }
        if quantiles:
            values["error_quantiles"] = self.quantiles()
            values["absolute_error_quantiles"] = self.quantiles(absolute=True)
        return values


EMPTY = ErrorTally(np.empty(0, np.int64), np.empty(0, np.int64))


def tally(truth: Integers, released: Integers) -> ErrorTally:
    """The tally of areas with these true and released counts.

    Args:
        truth: True counts of the areas, int64.
        released: Released counts, in the same order.

    Returns:
        The tally.

    >>> tally(np.array([10, 0, 5]), np.array([12, 0, 4])).mean_absolute_error
    1.0
    """
    error = released - truth
    distinct, times = np.unique(error, return_counts=True)
    inhabited = truth > 0
    off, base = error[inhabited], truth[inhabited]
    ratio = off / base
    return ErrorTally(
        distinct,
        times.astype(np.int64),
        int(truth.sum()),
        int((~inhabited).sum()),
        float(ratio.sum()),
        float(np.abs(ratio).sum()),
        int((20 * np.abs(off) > base).sum()),
        int((10 * np.abs(off) > base).sum()),
    )


def tally_by(truth: Integers, released: Integers, classes: Integers) -> dict[int, ErrorTally]:
    """A tally for each class of areas that has any.

    Args:
        truth: True counts of the areas, int64.
        released: Released counts, in the same order.
        classes: The number of the class of each area.

    Returns:
        By the number of each class its tally.

    >>> sorted(tally_by(np.array([10, 5]), np.array([12, 4]), np.array([0, 3])))
    [0, 3]
    """
    return {int(number): tally(truth[classes == number], released[classes == number]) for number in np.unique(classes)}


def add_tallies(parts: Iterable[ErrorTally]) -> ErrorTally:
    """The tally of all areas of several tallies.

    Args:
        parts: The tallies.

    Returns:
        One tally.

    >>> one = tally(np.array([10]), np.array([12]))
    >>> add_tallies([one, one]).mean_absolute_error
    2.0
    """
    listed = list(parts)
    if not listed:
        return EMPTY
    error, times = _distinct(
        np.concatenate([part.error for part in listed]), np.concatenate([part.times for part in listed])
    )
    return ErrorTally(
        error,
        times,
        sum(part.truth for part in listed),
        sum(part.zeros for part in listed),
        sum(part.relative for part in listed),
        sum(part.absolute_relative for part in listed),
        sum(part.over_five for part in listed),
        sum(part.over_ten for part in listed),
    )


def _distinct(error: Integers, times: Integers) -> tuple[Integers, Integers]:
    values, position = np.unique(error, return_inverse=True)
    sums = np.zeros(len(values), np.int64)
    np.add.at(sums, position, times)
    return values, sums


# How far a release is from the truth: pure functions of two arrays. Their results are confidential.


SIZE_CLASSES: tuple[tuple[str, int, int | None], ...] = (
    ("0", 0, 0),
    ("1 to 9", 1, 9),
    ("10 to 99", 10, 99),
    ("100 to 999", 100, 999),
    ("1,000 to 9,999", 1_000, 9_999),
    ("10,000 and over", 10_000, None),
)
"""Classes of the true size of a cell: label, smallest, largest."""


@dataclass(frozen=True)
class ErrorSums:
    """Sums over cells from which every summary of the error follows; sums of parts are sums of the whole."""

    cells: int = 0
    truth: int = 0
    error: int = 0
    absolute: int = 0
    squared: int = 0
    within: int = 0

    def __add__(self, other: ErrorSums) -> ErrorSums:
        return ErrorSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def mean_error(self) -> float:
        """The mean of (released less true): the bias."""
        return self.error / self.cells

    @property
    def mean_absolute_error(self) -> float:
        return self.absolute / self.cells

    @property
    def root_mean_squared_error(self) -> float:
        return float((self.squared / self.cells) ** 0.5)

    @property
    def share_within_margin(self) -> float:
        """The share of cells whose error is at most the noise margin."""
        return self.within / self.cells

    @property
    def mean_truth(self) -> float:
        """The mean true count."""
        return self.truth / self.cells

    def as_dict(self) -> dict[str, Any]:
        return {
            "cells": self.cells,
            "mean_error": self.mean_error,
            "mean_absolute_error": self.mean_absolute_error,
            "root_mean_squared_error": self.root_mean_squared_error,
            "share_within_margin": self.share_within_margin,
        }


def error_sums(truth: NDArray[np.int64], released: NDArray[np.int64], margin: int) -> ErrorSums:
    """The sums for cells with true counts ``truth`` that were released as ``released``.

    Args:
        truth: int64 of any shape.
        released: In the same shape.
        margin: The noise margin; cells further from the truth than this are counted.

    Returns:
        The sums.

    >>> error_sums(np.array([10, 5]), np.array([12, 5]), 1).cells
    2
    """
    error = released - truth
    return ErrorSums(
        error.size,
        int(truth.sum()),
        int(error.sum()),
        int(np.abs(error).sum()),
        int((error * error).sum()),
        int((np.abs(error) <= margin).sum()),
    )


def by_size_class(truth: NDArray[np.int64], released: NDArray[np.int64], margin: int) -> dict[str, ErrorSums]:
    """The sums for each class of the true size that has cells.

    Args:
        truth: True counts of any shape, int64.
        released: Released counts in the same shape.
        margin: The noise margin.

    Returns:
        By the name of each class its sums.

    >>> sorted(by_size_class(np.array([10, 5000]), np.array([12, 5001]), 3))
    ['1,000 to 9,999', '10 to 99']
    """
    result = {}
    for label, smallest, largest in SIZE_CLASSES:
        inside = truth >= smallest if largest is None else (truth >= smallest) & (truth <= largest)
        if inside.any():
            result[label] = error_sums(truth[inside], released[inside], margin)
    return result


# Whether the largest group of an area keeps its share: the measure that the settings of 2020 were tuned by.
#
# For an area with true counts t₁ … t_k and released counts r₁ … r_k of k groups, g is the group that is largest in
# the released data (the first of equals), and the difference is
#
#     d = | r_g / Σ r − t_g / Σ t |,
#
# where a share of nobody is 0. The measure is the share of areas with d ≤ 0.05. Areas in which nobody is counted,
# neither truly nor in the release, are left out. In 2020 the aim was 95 per cent of the areas with at least 500
# people.
#
# Reference: U.S. Census Bureau, public code and settings of the 2020 Disclosure Avoidance System.


WITHIN_PERCENT = 5
LEAST_PEOPLE = 500


@dataclass(frozen=True)
class LargestGroup:
    """Of so many areas, how many keep the share of their largest group within five points."""

    areas: int
    within: int

    @property
    def share_within(self) -> float | None:
        return self.within / self.areas if self.areas else None

    def as_dict(self) -> dict[str, Any]:
        return {"areas_with_people": self.areas, "within": self.within, "share_within": self.share_within}


class LargestGroups:
    """Takes in the groups of areas one by one, so that no table of areas by groups is held."""

    def __init__(self, areas: int):
        self._true_total, self._total = np.zeros(areas, np.int64), np.zeros(areas, np.int64)
        self._true_largest, self._largest = np.zeros(areas, np.int64), np.full(areas, -1, np.int64)

    def add(self, truth: Integers, released: Integers) -> None:
        """The next group: its true and its released count in every area."""
        self._true_total += truth
        self._total += released
        larger = released > self._largest
        self._largest[larger], self._true_largest[larger] = released[larger], truth[larger]

    def result(self, least: int = 0) -> LargestGroup:
        """The measure over the areas with at least so many people, truly, and anybody at all."""
        inside = (self._true_total >= least) & ((self._true_total > 0) | (self._total > 0))
        total, true_total = np.maximum(self._total[inside], 1), np.maximum(self._true_total[inside], 1)
        # In whole numbers, so that a difference of exactly five points is within.
        difference = np.abs(self._largest[inside] * true_total - self._true_largest[inside] * total)
        within = 100 * difference <= WITHIN_PERCENT * total * true_total
        return LargestGroup(int(inside.sum()), int(within.sum()))


def largest_group(groups: Iterable[tuple[Integers, Integers]], areas: int, least: int = 0) -> LargestGroup:
    """The measure for true and released counts, group by group.

    Args:
        groups: For each group its true and its released counts by area.
        areas: How many areas there are.
        least: Areas with fewer people than this are left out.

    Returns:
        How often the largest group of an area is the same in both.

    >>> answer = largest_group([(np.array([9, 1]), np.array([8, 2])), (np.array([1, 9]), np.array([3, 9]))], areas=2)
    """
    groups_by_area = LargestGroups(areas)
    for truth, released in groups:
        groups_by_area.add(truth, released)
    return groups_by_area.result(least)


# Several releases of the same question that differ in their key alone: means and intervals over keys.
#
# For values x₁ … x_n of n keys with mean x̄ and standard deviation s (divisor n − 1), the interval is
#
#     x̄ ± t · s / √n,   t the 97.5 per cent point of Student's t with n − 1 degrees of freedom:
#
# in 19 of 20 sets of n keys, it covers the mean over all keys, as far as the values are normal. It says nothing about
# the
# error of one release, nor about other records.


COVERAGE = 0.95


@dataclass(frozen=True)
class OverKeys:
    """The mean over keys, its interval (none for one key), and the value for each key."""

    mean: float
    low: float | None
    high: float | None
    values: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "values": list(self.values)}


def over_keys(values: Sequence[float]) -> OverKeys:
    """The mean over keys and its interval.

    Args:
        values: One for each key, at least one.

    Returns:
        The mean, and the interval for the mean of all keys.

    >>> result = over_keys([1.0, 2.0, 3.0])
    >>> result.mean, round(result.low, 3), round(result.high, 3)
    (2.0, -0.484, 4.484)
    """
    n = len(values)
    mean = sum(values) / n
    if n < 2:
        return OverKeys(mean, None, None, tuple(values))
    deviation = (sum((value - mean) ** 2 for value in values) / (n - 1)) ** 0.5
    half = float(scipy.special.stdtrit(n - 1, (1 + COVERAGE) / 2)) * deviation / n**0.5
    return OverKeys(mean, mean - half, mean + half, tuple(values))


def combine(results: Sequence[Any], fixed: frozenset[str] = frozenset()) -> Any:
    """Several results of one form as one of the same form, with every number replaced by its mean and interval.

    Args:
        results: Plain values: dictionaries, lists, numbers, texts; at least one.
        fixed: Names of facts that every key shares (how many areas there are, what the truth is), which stay as they
        are;
            so does what is not a number.

    Returns:
        A result of the same form, with a mean and an interval for every number.

    Raises:
        ValueError: The results are not of one form.

    >>> combine([{"error": 1.0}, {"error": 3.0}])["error"]["mean"]
    2.0
    """
    first = results[0]
    if isinstance(first, dict):
        if any(not isinstance(result, dict) or result.keys() != first.keys() for result in results):
            raise ValueError("results of different forms")
        return {
            name: first[name] if name in fixed else combine([result[name] for result in results], fixed)
            for name in first
        }
    if isinstance(first, list):
        if any(not isinstance(result, list) or len(result) != len(first) for result in results):
            raise ValueError("results of different forms")
        return [combine(parts, fixed) for parts in zip(*results, strict=True)]
    numbers = [float(value) for value in results if isinstance(value, int | float) and not isinstance(value, bool)]
    return over_keys(numbers).as_dict() if numbers else first
