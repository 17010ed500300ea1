"""The accuracy of one characteristic in the areas of one geography: tallies of errors, and the noise alone beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.utility.metrics import (
    COUNT_BINS,
    POPULATION_BINS,
    SIZE_BINS,
    ErrorTally,
    add_tallies,
    bin_label,
    bin_of,
    tally_by,
)

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NoiseAlone:
    """Sums over areas, by population class, of the variance and the standard deviation that the noise alone gives."""

    areas: Integers
    variance: Floats
    deviation: Floats

    def __add__(self, other: NoiseAlone) -> NoiseAlone:
        return NoiseAlone(self.areas + other.areas, self.variance + other.variance, self.deviation + other.deviation)

    def as_dict(self, population: int | None = None) -> dict[str, float] | None:
        """Expected errors, of all areas or of one class: of a normal error with deviation σ, |e| is √(2/π) σ."""
        chosen = slice(None) if population is None else slice(population, population + 1)
        areas, variance = int(self.areas[chosen].sum()), float(self.variance[chosen].sum())
        if not areas or np.isnan(variance):
            return None
        return {
            "root_mean_squared_error": sqrt(variance / areas),
            "mean_absolute_error": sqrt(2 / pi) * float(self.deviation[chosen].sum()) / areas,
        }


@dataclass(frozen=True)
class Accuracy:
    """The errors of one cell of a query (or of all its cells) in the areas of a geography, by classes of areas."""

    geography: str
    query: str
    cell: str
    tallies: Mapping[tuple[int, int], ErrorTally]
    """By population class of the area, and by size class of the true count."""
    noise: NoiseAlone

    @property
    def whole(self) -> ErrorTally:
        """All areas."""
        return add_tallies(self.tallies.values())

    def by_population(self) -> dict[int, ErrorTally]:
        """By the true total of the area."""
        return {
            number: add_tallies(t for (population, _), t in self.tallies.items() if population == number)
            for number in sorted({population for population, _ in self.tallies})
        }

    def by_size(self, starts: tuple[int, ...] = SIZE_BINS) -> dict[int, ErrorTally]:
        """By the true count itself, in classes that are unions of the size classes."""
        of_class = bin_of(starts, np.array(SIZE_BINS))
        return {
            number: add_tallies(t for (_, size), t in self.tallies.items() if of_class[size] == number)
            for number in sorted({int(of_class[size]) for _, size in self.tallies})
        }

    def as_dict(self) -> dict[str, Any]:
        named = {"geography": self.geography, "query": self.query, "cell": self.cell}
        return (
            named
            | self.whole.as_dict(quantiles=True)
            | {
                "noise_alone": self.noise.as_dict(),
                "by_population": [
                    {"population": bin_label(POPULATION_BINS, number)}
                    | part.as_dict(quantiles=True)
                    | {"noise_alone": self.noise.as_dict(number)}
                    for number, part in self.by_population().items()
                ],
                "by_count": [
                    {"count": bin_label(COUNT_BINS, number)} | part.as_dict()
                    for number, part in self.by_size(COUNT_BINS).items()
                ],
                "by_true_size": [
                    {"true_size": bin_label(SIZE_BINS, number)} | part.as_dict()
                    for number, part in self.by_size().items()
                ],
            }
        )


def accuracy(
    named: tuple[str, str, str], truth: Integers, released: Integers, population: Integers, variance: Floats
) -> Accuracy:
    """The accuracy for counts of areas in population classes, with the variance of the noise alone in each area."""
    classes = population * len(SIZE_BINS) + bin_of(SIZE_BINS, truth)
    tallies = {divmod(key, len(SIZE_BINS)): part for key, part in tally_by(truth, released, classes).items()}
    bins = len(POPULATION_BINS)
    noise = NoiseAlone(
        np.bincount(population, minlength=bins),
        np.bincount(population, variance, minlength=bins).astype(np.float64),
        np.bincount(population, np.sqrt(variance), minlength=bins).astype(np.float64),
    )
    return Accuracy(*named, tallies, noise)


def pooled(parts: list[Accuracy], cell: str) -> Accuracy:
    """Several cells of one query as one: each area counts once for each cell."""
    tallies: dict[tuple[int, int], list[ErrorTally]] = {}
    for part in parts:
        for key, one in part.tallies.items():
            tallies.setdefault(key, []).append(one)
    noise = parts[0].noise
    for part in parts[1:]:
        noise = noise + part.noise
    added = {key: add_tallies(listed) for key, listed in tallies.items()}
    return Accuracy(parts[0].geography, parts[0].query, cell, added, noise)
