"""Primary rules and their protection levels, on cases worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.mechanisms.suppression.problem import Contributions, contributions_of, dominance, p_percent, pq, threshold


def cell(*contributions: int) -> tuple[np.ndarray, Contributions]:
    value = np.array(contributions, np.int64)
    return contributions_of(np.zeros(len(value), np.int64), value, 1, top=3)


def test_the_threshold_takes_counts_up_to_its_maximum() -> None:
    counts = np.array([0, 1, 2, 3, 4, 50])
    levels = threshold(counts, 3)
    assert levels.primary.tolist() == [False, True, True, True, False, False]
    # The interval must reach a count that would be published, and be as wide as the threshold.
    assert (counts + levels.upper)[levels.primary].tolist() == [4, 4, 4]
    assert levels.sliding[levels.primary].tolist() == [3, 3, 3]
    assert threshold(counts, 3, zeros=True).primary.tolist() == [True, True, True, True, False, False]
    assert threshold(counts, 3, lower=2).lower.tolist() == [0, 1, 2, 2, 0, 0]


def test_dominance() -> None:
    value, parts = cell(80, 15, 5)
    assert not dominance(value, parts, 1, 80).primary[0]
    levels = dominance(value, parts, 1, 75)
    assert levels.primary[0]
    # 100/75 · 80 - 100 = 6.67: with a total of 107 the largest would be no more than 75 %.
    assert levels.upper[0] == 7
    assert not dominance(value + 7, parts, 1, 75).primary[0]
    assert dominance(value, parts, 2, "94.9").primary[0]
    assert not dominance(value, parts, 2, 95).primary[0]


def test_p_percent() -> None:
    value, parts = cell(100, 40, 8)
    assert not p_percent(value, parts, 8).primary[0]
    levels = p_percent(value, parts, 10)
    # The second largest contributor knows the largest to within 8, which is less than 10 % of it.
    assert levels.primary[0]
    assert (levels.upper[0], levels.lower[0]) == (2, 2)


def test_pq_is_p_percent_with_less_known_beforehand() -> None:
    value, parts = cell(100, 40, 15)
    assert not p_percent(value, parts, 10).primary[0]
    levels = pq(value, parts, 10, 50)
    assert levels.primary[0]
    assert levels.upper[0] == 5
    assert np.array_equal(pq(value, parts, 20, 100).upper, p_percent(value, parts, 20).upper)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=8), st.integers(1, 50))
def test_the_level_of_p_percent_is_just_what_is_needed(contributions: list[int], percent: int) -> None:
    """Beyond X + level the second contributor's estimate of the largest, total less own, is more than p % off."""
    value, parts = cell(*contributions)
    levels = p_percent(value, parts, percent)
    first, second = [*sorted(contributions, reverse=True), 0][:2]
    estimate = int(value[0] + levels.upper[0]) - second
    off = Fraction(estimate - first)
    assert off >= Fraction(percent, 100) * first
    if levels.primary[0]:
        assert off - 1 < Fraction(percent, 100) * first


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), max_size=40))
def test_contributions_are_the_largest_of_each_cell(rows: list[tuple[int, int]]) -> None:
    cells, values = np.array([c for c, _ in rows], np.int64), np.array([v for _, v in rows], np.int64)
    total, found = contributions_of(cells, values, 5, top=2)
    for number in range(5):
        own = sorted((v for c, v in rows if c == number), reverse=True)
        assert total[number] == sum(own)
        assert found.number[number] == len(own)
        assert found.largest[number].tolist() == [*own, 0, 0][:2]


def test_what_no_rule_can_have_is_refused() -> None:
    value, parts = cell(5, 4)
    for wrong in (
        lambda: threshold(value, 0),
        lambda: dominance(value, parts, 1, 0),
        lambda: dominance(value, parts, 1, 101),
        lambda: dominance(value, parts, 4, 80),
        lambda: pq(value, parts, 50, 50),
        lambda: p_percent(value, parts, 0.1),
        lambda: contributions_of(np.zeros(1, np.int64), np.array([-1]), 1),
    ):
        with pytest.raises(ParameterError):
            wrong()
