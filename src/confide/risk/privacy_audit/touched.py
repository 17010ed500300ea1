"""The counts in which two made-up files differ, and what a trial tells of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import RunError
from confide.noise import ReleaseNoise
from confide.risk.privacy_audit.twin_loss import LARGEST, log_weight

Key = tuple[str, str]
"""The level and the query of a measurement."""
Outcome = dict[Key, list[tuple[Integers, Floats, ReleaseNoise]]]
"""What a trial gave of each measurement: coordinates, counts, and the stated law."""


@dataclass(frozen=True, eq=False)
class TouchedCounts:
    """The counts of one measurement and law in which both files differ: coordinates, and both true counts."""

    law: ReleaseNoise
    places: Integers
    with_twins: Floats
    without: Floats

    @property
    def components(self) -> Counter[tuple[ReleaseNoise, int]]:
        return Counter((self.law, abs(int(gap))) for gap in self.with_twins - self.without)

    def loss(self, coordinates: Integers, counts: Floats) -> float:
        """The logarithm of the likelihood ratio of what is seen of them; what is not seen adds nothing."""
        return float(self.losses(coordinates, counts).sum())

    def losses(self, coordinates: Integers, counts: Floats) -> Floats:
        """The same of each of them."""
        losses = np.zeros(len(self.places))
        place = np.searchsorted(coordinates, self.places)
        there = place < len(coordinates)
        there[there] = coordinates[place[there]] == self.places[there]
        seen = counts[place[there]]
        first, second = (log_weight(self.law, 1.0, seen - true[there]) for true in (self.with_twins, self.without))
        with np.errstate(invalid="ignore"):
            losses[there] = np.nan_to_num(first - second, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
        return losses


Touched = dict[Key, list[TouchedCounts]]


def components_of(parts: Iterable[TouchedCounts]) -> Counter[tuple[ReleaseNoise, int]]:
    total: Counter[tuple[ReleaseNoise, int]] = Counter()
    for part in parts:
        total.update(part.components)
    return total


def same_outcome(one: Outcome, other: Outcome) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(first[0], second[0]) and np.array_equal(first[1], second[1])
        for key in one
        for first, second in zip(one[key], other[key], strict=True)
    )


def touched_counts(with_twins: Outcome, without: Outcome, laws: Mapping[Key, Sequence[ReleaseNoise]]) -> Touched:
    touched: Touched = {}
    for key, parts in with_twins.items():
        for (places, counts, _), (other_places, other_counts, _), law in zip(
            parts, without[key], laws[key], strict=True
        ):
            common, here, there = np.intersect1d(places, other_places, return_indices=True)
            apart = np.flatnonzero(counts[here] != other_counts[there])
            counts_apart = TouchedCounts(law, common[apart], counts[here][apart], other_counts[there][apart])
            touched.setdefault(key, []).append(counts_apart)
    return {key: parts for key, parts in touched.items() if any(len(part.places) for part in parts)}


def nothing_touched() -> RunError:
    """The finding that nothing published depends on a made-up record."""
    return RunError(
        "nothing-touched",
        "a change of a made-up record touches no count that is published",
        found="no such count",
        expected="at least one noisy count that a record counts in",
        remedy="look at the tables and levels of the spec: nothing depends on the records",
    )
