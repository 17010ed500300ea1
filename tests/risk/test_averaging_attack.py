"""Massive averaging on simulated releases of a small programme, against the Gaussian model."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from confide.lab.risk.bounded_noise import (
    CountingScheme,
    Optimum,
    Representation,
    StaticProgramme,
    average,
    chosen_representations,
    load_programme,
    success_probability,
    symmetric_row,
)

PROGRAMME = """
id = "small"
[breakdowns]
SEX = 2
AGE = 4
JOB = 3
AREA = 5
EDU = 4
STATUS = 3
[tables.persons]
1 = [
  "AREA SEX AGE JOB",
  "AREA SEX AGE EDU",
  "AREA SEX JOB EDU",
  "SEX AGE JOB STATUS",
  "AREA SEX AGE STATUS",
  "SEX EDU STATUS",
]
"""
SIZES = {"SEX": 2, "AGE": 4, "JOB": 3, "AREA": 5, "EDU": 4, "STATUS": 3}
NAMES = sorted(SIZES)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> StaticProgramme:
    folder = tmp_path_factory.mktemp("programme")
    (folder / "small.toml").write_text(PROGRAMME)
    return load_programme("small.toml", folder)


class Office:
    """Publishes tables of made-up people with independent noise on every cell, many releases at once.

    A cell is known by its cross-classification and, if every table has noise of its own, by its table: the same members
    then have the same noise exactly where the office promises it.
    """

    def __init__(self, bound: int, variance: str, releases: int, seed: int, fixed: dict[str, int]):
        self._draw = np.random.default_rng(seed)
        self._people = self._draw.integers(0, 50, size=[SIZES[name] for name in NAMES])
        self._row = symmetric_row(bound, variance)
        self._releases, self._fixed = releases, fixed
        self._noise: dict[tuple[str | None, frozenset[str]], NDArray[np.int64]] = {}

    def true(self, levels: frozenset[str]) -> NDArray[np.int64]:
        """The true cells of a margin, where the target's own levels are fixed to one category."""
        counts = self._people
        for axis, name in reversed(list(enumerate(NAMES))):
            if name in self._fixed:
                counts = counts.take(self._fixed[name], axis=axis)
            elif name not in levels:
                counts = counts.sum(axis=axis)
        return counts.reshape(-1)

    def query(self, asked: Representation) -> NDArray[np.int64]:
        key = (asked.table, asked.summed)
        if key not in self._noise:
            cells = prod(SIZES[name] for name in asked.summed)
            values = np.arange(-self._row.bound, self._row.bound + 1)
            self._noise[key] = self._draw.choice(values, p=self._row.probabilities, size=(self._releases, cells))
        return self.true(asked.summed)[None, :] + self._noise[key]


def rate(
    small: StaticProgramme, goal: dict[str, int], count: CountingScheme, optimum: Optimum, variance: str, releases: int
) -> tuple[float, float, int]:
    """The share of releases in which the true count was found, what the model says, and the number of means."""
    used = chosen_representations(small, {}, count, frozenset(goal), optimum)
    office = Office(5, variance, releases, 20210101, goal)
    found = average(used, office.query, optimum)
    truth = int(office.true(frozenset()).sum())
    within = float((np.abs(found.mean - truth) < 0.5).mean())
    assert (found.count == truth).mean() >= within  # halves are rounded to the even neighbour, which may be right
    return within, success_probability(symmetric_row(5, variance).variance, found.ratio), found.t


CASES = [
    ({}, True, Optimum.GREEDY, "3"),
    ({}, False, Optimum.GREEDY, "6"),
    ({"SEX": 1}, False, Optimum.GREEDY, "2"),
    ({"SEX": 1}, True, Optimum.GREEDY, "2"),
    ({"AGE": 2}, False, Optimum.PREFIX, "4"),
    ({}, True, Optimum.INVERSE_VARIANCE, "5"),
    ({"SEX": 0}, False, Optimum.INVERSE_VARIANCE, "6"),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("goal", "same_noise", "optimum", "variance"), CASES)
def test_a_thousand_releases_are_averaged_as_often_as_the_model_says(
    small: StaticProgramme, goal: dict[str, int], same_noise: bool, optimum: Optimum, variance: str
) -> None:
    """Three standard errors, and what the lattice of means allows: a mean of t whole numbers moves in steps of 1/t."""
    releases = 1_000
    found, expected, t = rate(small, goal, CountingScheme(same_noise=same_noise), optimum, variance, releases)
    standard_error = np.sqrt(expected * (1 - expected) / releases)
    lattice = 0.0 if optimum is Optimum.INVERSE_VARIANCE else _half_step(expected, t)
    assert abs(found + lattice - expected) < 3 * standard_error
    assert 0.2 < expected < 0.98


def _half_step(expected: float, t: int) -> float:
    """Means strictly within 1/2 reach only to the last step before it: with even t, half a step less on each side."""
    from statistics import NormalDist

    if t % 2:
        return 0.0
    z = NormalDist().inv_cdf((1 + expected) / 2)
    return 2 * NormalDist().pdf(z) * z / t


def test_without_noise_every_representation_gives_the_count(small: StaticProgramme) -> None:
    goal = {"SEX": 1, "AGE": 3}
    office = Office(1, "0.5", 1, 3, goal)
    truth = int(office.true(frozenset()).sum())
    for count in (CountingScheme(), CountingScheme(same_noise=False)):
        used = chosen_representations(small, {}, count, frozenset(goal), Optimum.ALL)
        assert len(used) > 3
        for item in used:
            assert office.true(item.summed).sum() == truth
            assert office.true(item.summed).size == item.cost
        exact: Callable[[Representation], NDArray[np.int64]] = lambda item: office.true(item.summed)[None, :]  # noqa: E731
        assert average(used, exact).mean.tolist() == [truth]


def test_the_same_noise_leaves_fewer_representations(small: StaticProgramme, tmp_path: Path) -> None:
    shared = chosen_representations(small, {}, CountingScheme(), frozenset(), Optimum.ALL)
    own = chosen_representations(small, {}, CountingScheme(same_noise=False), frozenset(), Optimum.ALL)
    assert len({item.summed for item in own}) == len(shared) < len(own)
    assert all(item.table is None for item in shared)
    assert {item.table for item in own} == {f"1.{place}" for place in range(1, 7)}


@pytest.mark.statistical
def test_a_wrong_number_of_cells_would_be_noticed(small: StaticProgramme) -> None:
    """The model with half the cells is far outside three standard errors: the test above can fail."""
    found, expected, _ = rate(small, {}, CountingScheme(), Optimum.GREEDY, "3", 1_000)
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + expected) / 2)
    wrong = 2 * NormalDist().cdf(z * np.sqrt(2)) - 1
    assert abs(found - wrong) > 3 * np.sqrt(wrong * (1 - wrong) / 1_000)
