"""Whether the largest group of an area keeps its share: the measure that the settings of 2020 were tuned by.

For an area with true counts t₁ … t_k and released counts r₁ … r_k of k groups, g is the group that is largest in the
released data (the first of equals), and the difference is

    d = | r_g / Σ r − t_g / Σ t |,

where a share of nobody is 0. The measure is the share of areas with d ≤ 0.05. Areas in which nobody is counted, neither
truly nor in the release, are left out. In 2020 the aim was 95 per cent of the areas with at least 500 people.

Reference: U.S. Census Bureau, public code and settings of the 2020 Disclosure Avoidance System.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

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
        chosen = (self._true_total >= least) & ((self._true_total > 0) | (self._total > 0))
        total, true_total = np.maximum(self._total[chosen], 1), np.maximum(self._true_total[chosen], 1)
        # In whole numbers, so that a difference of exactly five points is within.
        difference = np.abs(self._largest[chosen] * true_total - self._true_largest[chosen] * total)
        within = 100 * difference <= WITHIN_PERCENT * total * true_total
        return LargestGroup(int(chosen.sum()), int(within.sum()))


def largest_group(groups: Iterable[tuple[Integers, Integers]], areas: int, least: int = 0) -> LargestGroup:
    """The measure for true and released counts, group by group."""
    taken = LargestGroups(areas)
    for truth, released in groups:
        taken.add(truth, released)
    return taken.result(least)
