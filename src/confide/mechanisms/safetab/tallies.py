"""Sums over groups from which the whole report follows; the sums of several runs are those of all of them.

Groups are classed by level, by whether they get a total alone, and by their true size: 0, 1 to 9, 10 to 99 and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import ceil, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.mechanisms.safetab.problem import GroupLevel
from confide.mechanisms.safetab.settings import GRIDS, ITERATION_LEVELS
from confide.utility.metrics import bin_label

Integers = npt.NDArray[np.int64]
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
