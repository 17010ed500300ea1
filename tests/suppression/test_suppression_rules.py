"""Primary rules and their protection levels, on cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.suppression import two_way

from confide.errors import ParameterError
from confide.mechanisms.suppression.counting import levels_by_rules
from confide.mechanisms.suppression.output import _attack, bounds, gathered
from confide.mechanisms.suppression.problem import Contributions, contributions_of, dominance, p_percent, pq, threshold
from confide.mechanisms.suppression.structure import TableDimensions, flat, link


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


def rules(**given: object) -> SimpleNamespace:
    """A problem with the rules of a spec, and nothing else."""
    plain = dict.fromkeys(("threshold", "dominance", "p", "q")) | {"zeros": "secondary", "lower": 0}
    part = SimpleNamespace(**plain | {"range": Fraction(15)} | given)
    return SimpleNamespace(spec=SimpleNamespace(suppression=part))


def test_the_rules_of_a_spec_are_those_that_it_gives() -> None:
    value, contributions = cell(80, 10, 10)
    number = contributions.number
    # What attackers know beforehand makes a cell primary: 10/50 of 80 are 16, less the 10 of the others.
    assert levels_by_rules(rules(p=10, q=50), value, number, contributions).upper.tolist() == [6]
    assert not levels_by_rules(rules(p=10), value, number, contributions).primary.any()
    # Of few contributors the figure is kept 15 % away, rounded up, both ways.
    few = levels_by_rules(rules(threshold=3), value, number, contributions)
    assert (few.primary.tolist(), few.lower.tolist(), few.upper.tolist()) == ([True], [15], [15])
    assert levels_by_rules(rules(threshold=3, range=Fraction(1, 2)), value, number, contributions).upper.tolist() == [1]
    assert not levels_by_rules(rules(threshold=2), value, number, contributions).primary.any()


def test_figures_that_do_not_add_up_pose_no_problem() -> None:
    _, posed = two_way([[2, 5], [6, 7]])
    other = posed.value.copy()
    other[posed.structure.total.max()] += 1
    with pytest.raises(ParameterError, match="do not add up"):
        replace(posed, value=other)


def test_verify_finds_a_hidden_count_that_must_be_small() -> None:
    """Rows of 3 and 1, columns of 2 and 2: the first cell is 1 or 2, both of which the threshold of 2 hides."""
    linked, posed = two_way([[2, 1], [0, 1]], maximum=2)
    hidden = np.zeros(len(posed.value), np.bool_)
    inner = np.asarray(linked.numbers[0]).reshape(3, 3)[1:, 1:].reshape(-1)
    hidden[inner] = True
    asked = {"value": None, "suppression": {"threshold": 2, "zeros": "secondary"}}
    checks = {check.name: check.ok for check in _attack(SimpleNamespace(linked=linked), posed.value, hidden, asked)}
    assert checks == {"no hidden cell can be worked out": True, "no hidden cell is known to be small": False}
    asked["suppression"]["threshold"] = 1
    assert all(check.ok for check in _attack(SimpleNamespace(linked=linked), posed.value, hidden, asked))


def test_where_zeros_are_published_a_hidden_cell_is_none() -> None:
    linked, _ = two_way([[2, 1], [0, 1]])
    for zeros, least in (("published", 1.0), ("secondary", 0.0)):
        low = bounds(SimpleNamespace(linked=linked), {"suppression": {"zeros": zeros}})
        assert low[linked.listed].tolist() == [least] * int(linked.listed.sum())


@pytest.mark.parametrize("figure", [0, 7])
@pytest.mark.parametrize("hiding", [0, 1])
def test_a_cell_that_one_table_hides_and_another_shows_is_a_disagreement(figure: int, hiding: int) -> None:
    """Two tables have the same rows, and the first row, which may be nobody, is hidden in one of them alone."""
    rows = flat("row", ["a", "b"])
    linked = link([TableDimensions("one", (rows,)), TableDimensions("other", (rows,))])
    shown = np.array([figure + 5, figure, 5]), np.zeros(3, np.bool_)
    # What is hidden is read as zero.
    hidden = np.array([figure + 5, 0, 5]), np.array([False, True, False])
    programme = SimpleNamespace(linked=linked)
    assert gathered(programme, [shown, shown])[2]
    assert gathered(programme, [hidden, hidden])[2]
    assert not gathered(programme, [hidden, shown] if hiding == 0 else [shown, hidden])[2]
