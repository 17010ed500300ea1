"""Seeded draws in bulk: streams, choices row by row, exact apportionment.

``numpy.random`` is right here and only here: these are made-up people, not protective noise. Each unit of work has a
stream of its own, named by what it is for and not by when it is drawn, so that any order of work gives the same people.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

GENERATOR = 1
"""Version of the generator: raised whenever the same persons, seed and settings would give other people."""

# What a stream is for: the second element of its name.
LAND, COUNTY, UNIT_FRAME, UNIT_PEOPLE, COUNTY_ORIGINS, UNIT_ORIGINS = range(6)


def stream(seed: int, purpose: int, index: int = 0) -> np.random.Generator:
    """The stream of random numbers for one purpose and one unit."""
    name = np.random.SeedSequence(entropy=seed, spawn_key=(GENERATOR, purpose, index))
    return np.random.Generator(np.random.SFC64(name))


class Chances:
    """Many discrete distributions over the same outcomes, one in each row, sampled by inversion.

    Row r is laid on the interval [r, r + 1) of one rising sequence, so that one binary search serves all rows at once.
    """

    def __init__(self, weights: ArrayLike):
        table = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        cumulative = np.cumsum(table, axis=1)
        totals = cumulative[:, -1:]
        assert bool(np.all(totals > 0)), "a row without weight cannot be drawn from"
        cumulative /= totals
        # From the last possible outcome on, exactly one: rounding must never reach an impossible outcome after it.
        last = table.shape[1] - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
        cumulative[np.arange(table.shape[1]) >= last[:, None]] = 1.0
        self.outcomes = table.shape[1]
        self._last = last
        self._steps = (cumulative + np.arange(len(table))[:, None]).ravel()

    def draw(self, rng: np.random.Generator, rows: NDArray[Any]) -> Ints:
        """One outcome for each of ``rows``."""
        point = rng.random(len(rows))
        point += rows
        outcome = np.searchsorted(self._steps, point, side="right")
        outcome -= rows * self.outcomes
        result: Ints = np.minimum(outcome, self._last[rows])
        return result

    def draw_many(self, rng: np.random.Generator, count: int) -> Ints:
        """``count`` outcomes of the only row."""
        return self.draw(rng, np.zeros(count, dtype=np.int64))


def starts_of(counts: Ints) -> Ints:
    """Where each group begins when groups of these sizes are laid end to end."""
    return np.cumsum(counts) - counts


def positions(counts: Ints) -> Ints:
    """0, 1, ... within each group of these sizes, laid end to end."""
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts_of(counts), counts)


def cumulative_shares(weights: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """Lower and upper end of each weight's part of [0, 1) within its group; groups are laid end to end."""
    group = np.repeat(np.arange(len(counts)), counts)
    running = np.cumsum(weights)
    before = np.concatenate(([0.0], running))[starts_of(counts)]
    total = np.bincount(group, weights=weights, minlength=len(counts))
    upper = np.clip((running - before[group]) / total[group], 0.0, 1.0)
    ends = starts_of(counts) + counts - 1
    upper[ends[counts > 0]] = 1.0
    lower = np.empty_like(upper)
    lower[1:] = upper[:-1]
    lower[starts_of(counts)[counts > 0]] = 0.0
    return lower, upper


def apportion(totals: Ints, weights: Floats, counts: Ints) -> Ints:
    """Whole numbers in proportion to ``weights`` within each group, summing exactly to the group's total.

    The ends of the cumulative shares are rounded, and the parts are their differences: sum exact, each within one.
    """
    lower, upper = cumulative_shares(weights, counts)
    total = np.repeat(totals, counts)
    return np.rint(upper * total).astype(np.int64) - np.rint(lower * total).astype(np.int64)


def apportion_one(total: int, weights: Floats) -> Ints:
    """:func:`apportion` for a single group."""
    return apportion(np.array([total]), weights, np.array([len(weights)]))


def spread_out(rng: np.random.Generator, deviation: float, count: int) -> Floats:
    """``count`` lognormal factors with median one and the given standard deviation of the logarithm."""
    return np.exp(deviation * rng.standard_normal(count))
