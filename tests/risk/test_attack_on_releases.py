"""The attacks on what the cell key method itself publishes: real keys, real lookups, a thousand releases."""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt
import pytest

from confide.lab.risk.bounded_noise import (
    CountingScheme,
    Representation,
    StaticProgramme,
    average,
    chosen_representations,
    load_programme,
    success_probability,
)
from confide.lab.risk.bounded_noise.averaging import attack_bound, bound_risk
from confide.mechanisms.cellkey.keyed_records import perturb
from confide.mechanisms.cellkey.keys import CellSums, draw_keys
from confide.noise import ReleaseKey
from confide.noise.ptables import PTable, count_settings, generate, modify

Integers = npt.NDArray[np.int64]

SIZES = {"SEX": 2, "AGE": 4, "JOB": 3, "AREA": 5, "EDU": 4}
PERSONS, RELEASES, KEYS = 20_000, 1_000, 10**8
PROGRAMME = """
id = "small"
[breakdowns]
SEX = 2
AGE = 4
JOB = 3
AREA = 5
EDU = 4
[tables.persons]
1 = ["AREA SEX AGE", "AREA SEX JOB", "SEX AGE EDU", "AREA EDU", "JOB EDU SEX"]
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> StaticProgramme:
    folder = tmp_path_factory.mktemp("programme")
    (folder / "small.toml").write_text(PROGRAMME)
    return load_programme("small.toml", folder)


class Office:
    """Made-up persons whose tables are published by the cell key method, with new keys for each release."""

    def __init__(self, ptable: PTable) -> None:
        draw = np.random.default_rng(5)
        self._columns = {name: draw.integers(0, size, PERSONS) for name, size in SIZES.items()}
        self._ptable = ptable
        self._index: dict[frozenset[str], Integers] = {}

    def index(self, levels: frozenset[str]) -> Integers:
        """For each person the cell of a cross-classification."""
        if levels not in self._index:
            index = np.zeros(PERSONS, np.int64)
            for name in sorted(levels):
                index = index * SIZES[name] + self._columns[name]
            self._index[levels] = index
        return self._index[levels]

    def publish(self, levels: frozenset[str], keys: Integers) -> Integers:
        """The cells of a cross-classification as they are published."""
        index = self.index(levels)
        count = np.bincount(index)
        key = np.bincount(index, keys).astype(np.int64) % KEYS
        assert count.min() > self._ptable.top, "every cell has the last row of the table"
        return perturb(CellSums(np.arange(len(count)), count, key, None), self._ptable, None, 1).figure


def table_of(bound: int, variance: str) -> PTable:
    """A table whose intervals are cut and shuffled, so that noise does not rise with the key."""
    plain = generate(count_settings(bound, variance)).table(KEYS)
    return modify(plain, "0.01", ReleaseKey.choose("11" * 32))


def keys_of(release: int) -> Integers:
    return draw_keys(PERSONS, KEYS, ReleaseKey.choose(f"{release:064x}"))


@pytest.mark.parametrize(("bound", "variance"), [(5, "2"), (10, "3")])
def test_averaging_succeeds_as_often_as_the_model_says(small: StaticProgramme, bound: int, variance: str) -> None:
    """Within three standard errors of the Gaussian model, of which the lattice of a mean is a part."""
    office = Office(table_of(bound, variance))
    used = chosen_representations(small, {}, CountingScheme(same_noise=True), frozenset())
    hits, ratio, lattice = 0, 0.0, 1
    for release in range(RELEASES):
        keys = keys_of(release)
        found = average(used, lambda asked, keys=keys: office.publish(frozenset(asked.summed), keys))
        hits += int(abs(float(found.mean) - PERSONS) < 0.5)
        ratio, lattice = found.ratio, found.t
    # A mean of t whole numbers moves in steps of 1/t: strictly within one half is, for even t, half a step less.
    within = 0.5 - (0.5 / lattice if lattice % 2 == 0 else 0)
    expected = success_probability(float(variance), ratio, within=within)
    error = sqrt(expected * (1 - expected) / RELEASES)
    assert abs(hits / RELEASES - expected) < 3 * error


@pytest.mark.slow
def test_the_mean_is_better_than_any_single_figure(small: StaticProgramme) -> None:
    office = Office(table_of(5, "2"))
    used = chosen_representations(small, {}, CountingScheme(same_noise=True), frozenset())
    alone = Representation(frozenset(), frozenset(), 1, None)
    errors, ratio = [], 1.0
    for release in range(RELEASES):
        keys = keys_of(release)
        query = lambda asked, keys=keys: office.publish(frozenset(asked.summed), keys)  # noqa: E731
        found = average(used, query)
        ratio = found.ratio
        errors.append((float(found.mean) - PERSONS, float(average([alone], query).mean) - PERSONS))
    averaged, single = np.array(errors).var(axis=0)
    # The variance of a sample variance of about normal numbers is 2 / n of its square.
    for variance, expected in ((averaged, 2 * ratio), (single, 2)):
        assert abs(variance / expected - 1) < 4 * sqrt(2 / RELEASES)


def triples(ptable: PTable, releases: int) -> Integers:
    """F + M - T of many cells of many releases."""
    office = Office(ptable)
    others = frozenset({"AREA", "AGE", "JOB"})
    with_sex = frozenset({"SEX", *others})
    # SEX is the last of the sorted names: its two cells stand side by side.
    assert max(with_sex) == "SEX"
    differences = []
    for release in range(releases):
        keys = keys_of(release)
        total, both = office.publish(others, keys), office.publish(with_sex, keys).reshape(-1, 2)
        differences.append(both.sum(axis=1) - total)
        assert attack_bound(both[:, 0], both[:, 1], total).bound <= ptable.largest_noise
    return np.concatenate(differences)


def test_the_bound_is_revealed_as_often_as_its_probability() -> None:
    """The share beyond three times the bound less one is p1, if the table is cut and shuffled."""
    found = triples(table_of(2, "2"), 300)
    p1 = bound_risk(2, "2").p1
    assert abs((np.abs(found) > 3).mean() - p1) < 3 * sqrt(p1 * (1 - p1) / len(found))


def test_in_a_table_that_is_not_shuffled_the_noise_of_a_sum_depends_on_that_of_its_parts() -> None:
    """The key of T is the sum of the keys of F and M: two large ones make a large one, and never a small one. Every two
    of the three are independent, so the variance is that of the model, but the bound is never reached."""
    found = triples(generate(count_settings(2, "2")).table(KEYS), 100)
    assert abs(found.var() / 6 - 1) < 4 * sqrt(2 / len(found))
    assert np.abs(found).max() <= 3
