"""Uniform subsets and the numbers of empty groups."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.noise import STREAM
from tests.kits.sparse_noise import ALARM, PlantedExtensions, chi_square

from confide.errors import ParameterError
from confide.noise import draw_subset, rank_to_place


def planted(*integers: int, bits: int) -> PlantedExtensions:
    """The sequence of integers, in the first bits of the words; the rest of each word is ones."""
    rest = (1 << 64 - bits) - 1
    return PlantedExtensions([integer << 64 - bits | rest for integer in integers] + [0] * 200, 1)


def test_the_first_different_ones_below_the_bound_are_taken() -> None:
    source = planted(7, 3, 3, 6, 0, 3, 5, 1, bits=3)
    assert draw_subset(6, 1, source, 0).tolist() == [3]
    assert draw_subset(6, 2, source, 0).tolist() == [0, 3]
    assert draw_subset(6, 3, source, 0).tolist() == [0, 3, 5]
    # Of more than half, what is left out is drawn.
    assert draw_subset(6, 4, source, 0).tolist() == [1, 2, 4, 5]
    assert draw_subset(6, 1, source, 4).tolist() == [0]


@pytest.mark.statistical
@pytest.mark.parametrize(("universe", "size"), [(6, 3), (5, 2), (5, 3), (7, 6), (8, 4), (2, 1)])
def test_all_subsets_are_equally_likely(universe: int, size: int) -> None:
    repeats = 6_000
    index = {subset: i for i, subset in enumerate(combinations(range(universe), size))}
    counts = np.zeros(len(index))
    for i in range(repeats):
        counts[index[tuple(draw_subset(universe, size, STREAM, 10_000 * i).tolist())]] += 1
    assert chi_square(counts, np.full(len(index), repeats / comb(universe, size))) > ALARM


@pytest.mark.statistical
def test_a_large_subset_is_spread_evenly() -> None:
    places = draw_subset(200_000_000, 200_000, STREAM, 0)
    assert len(places) == 200_000
    assert (np.diff(places) > 0).all()
    assert places[-1] < 200_000_000
    assert chi_square(np.bincount(places // 1_000_000, minlength=200), np.full(200, 1_000.0)) > ALARM
    assert chi_square(np.bincount(places % 64, minlength=64), np.full(64, 200_000 / 64)) > ALARM


@pytest.mark.parametrize(("universe", "size"), [(1_000, 400), (1_000, 777), (1 << 40, 300)])
def test_how_many_are_read_at_a_time_does_not_matter(universe: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    places = draw_subset(universe, size, STREAM, 5)
    assert len(set(places.tolist())) == size
    monkeypatch.setattr("confide.noise.sparse._CHUNK", 7)
    assert np.array_equal(draw_subset(universe, size, STREAM, 5), places)


@pytest.mark.parametrize("universe", [0, 1, 2, 3, 64, 1_000])
def test_nothing_and_everything(universe: int) -> None:
    assert draw_subset(universe, 0, STREAM, 0).tolist() == []
    assert draw_subset(universe, universe, STREAM, 0).tolist() == list(range(universe))


@pytest.mark.parametrize(("universe", "size"), [(5, 6), (5, -1), (-1, 0), ((1 << 62) + 1, 3)])
def test_what_is_no_subset_is_refused(universe: int, size: int) -> None:
    with pytest.raises(ParameterError, match="no subset of this size"):
        draw_subset(universe, size, STREAM, 0)


@given(st.sets(st.integers(0, 29)), st.integers(30, 40))
def test_ranks_become_the_numbers_of_empty_groups(occupied: set[int], universe: int) -> None:
    empty = [group for group in range(universe) if group not in occupied]
    ranks = np.arange(len(empty), dtype=np.int64)
    assert rank_to_place(ranks, np.array(sorted(occupied), np.int64), universe).tolist() == empty
    assert rank_to_place(ranks[::-2], np.array(sorted(occupied), np.int64), universe).tolist() == empty[::-2]


@pytest.mark.parametrize(
    ("ranks", "occupied"),
    [([3], [1, 2]), ([-1], [1, 2]), ([0], [2, 1]), ([0], [2, 2]), ([0], [-1, 2]), ([0], [2, 5]), ([5], [])],
)
def test_impossible_ranks_and_groups_are_refused(ranks: list[int], occupied: list[int]) -> None:
    with pytest.raises(ParameterError) as caught:
        rank_to_place(np.array(ranks, np.int64), np.array(occupied, np.int64), 5)
    assert "not shown" in str(caught.value)
