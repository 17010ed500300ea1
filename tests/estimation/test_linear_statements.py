"""Shares, differences, many at once, medians and ranks: against direct inversion of the tests; covered as stated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from confide.errors import ParameterError
from confide.estimation.linear_statements import (
    bonferroni_level,
    difference_intervals,
    max_z,
    probability_larger,
    probability_majority,
    quantile_intervals,
    rank_intervals,
    rank_probabilities,
    share_intervals,
    simultaneous_z,
    single_level,
)

Z90 = norm.ppf(0.95)


@settings(max_examples=80, deadline=None)
@given(
    x=st.floats(-20, 200), y=st.floats(-20, 300), sx=st.floats(0.1, 20), sy=st.floats(0.1, 20), r=st.floats(-0.9, 0.9)
)
def test_shares_are_those_that_the_linear_test_accepts(x: float, y: float, sx: float, sy: float, r: float) -> None:
    c = r * sx * sy
    ends = share_intervals(x, y, sx**2, sy**2, c, 0.9)
    shares = np.linspace(0, 1, 2001)
    taken = shares[(x - shares * y) ** 2 <= Z90**2 * (sx**2 - 2 * shares * c + shares**2 * sy**2)]
    assert bool(ends.bounded) == (y > Z90 * sy)
    if not ends.bounded:
        assert (ends.low, ends.high) == (0, 1)
    elif len(taken):
        assert ends.low == pytest.approx(taken.min(), abs=6e-4)
        assert ends.high == pytest.approx(taken.max(), abs=6e-4)
    else:
        assert ends.low <= ends.high <= ends.low + 6e-4


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.0, 0.02, 0.4, 1.0])
@pytest.mark.parametrize("base", [8.0, 60.0])
def test_shares_are_covered(share: float, base: float) -> None:
    """200,000 draws: four standard errors are 0.27 points. At the ends the test has one side and covers 95 %."""
    rng = np.random.default_rng(3)
    errors = rng.multivariate_normal([0, 0], [[9, 4], [4, 16]], 200_000)
    ends = share_intervals(share * base + errors[:, 0], base + errors[:, 1], 9, 16, 4, 0.9)
    covered = ends.covers(share)
    if base == 60:
        assert ends.bounded.all()
        assert covered.mean() == pytest.approx(0.95 if share in (0, 1) else 0.9, abs=0.003)
    else:
        assert 0.3 < ends.bounded.mean() < 0.8
        assert covered.mean() >= 0.9 - 0.003


@pytest.mark.statistical
def test_differences_use_the_covariance() -> None:
    """200,000 draws: four standard errors are 0.27 points; without the covariance 97 or 77 % would be covered."""
    rng = np.random.default_rng(4)
    for c in (9.0, -9.0):
        errors = rng.multivariate_normal([0, 0], [[16, c], [c, 16]], 200_000)
        ends = difference_intervals(70 + errors[:, 0], 64 + errors[:, 1], 16, 16, c, 0.9)
        assert ends.covers(6).mean() == pytest.approx(0.9, abs=0.003)


def test_probabilities_of_one_difference() -> None:
    assert probability_larger(12, 10, 5, 5, 3) == pytest.approx(norm.cdf(1))
    assert probability_larger(10, 12, 5, 5, 3) == pytest.approx(1 - norm.cdf(1))
    assert probability_larger([3, 4, 5], [4, 4, 4], 2, 2, 2).tolist() == [0, 0.5, 1]
    assert probability_majority(55, 100, 9, 16, 6) == pytest.approx(norm.cdf(5 / np.sqrt(9 - 6 + 4)))
    assert probability_majority(30, 100, 9, 16, 6, share=0.25) == pytest.approx(norm.cdf(5 / np.sqrt(9 - 3 + 1)))


@pytest.mark.statistical
def test_many_hold_at_once() -> None:
    """40,000 draws: four standard errors are 0.6 points."""
    rng = np.random.default_rng(6)
    factors = rng.standard_normal((30, 3)) * 3
    cases = {"independent": np.diag(rng.uniform(1, 9, 30)), "together": factors @ factors.T + np.eye(30)}
    for name, covariance in cases.items():
        errors = rng.multivariate_normal(np.zeros(30), covariance, 40_000, method="cholesky")
        largest = np.abs(errors / np.sqrt(np.diagonal(covariance))).max(axis=1)
        sidak, drawn = simultaneous_z(0.9, 30), max_z(covariance, 0.9)
        assert drawn <= sidak < norm.ppf((1 + bonferroni_level(0.9, 30)) / 2)
        assert (largest <= sidak).mean() >= 0.894
        assert (largest <= drawn).mean() == pytest.approx(0.905, abs=0.012)
        if name == "together":
            assert (largest <= sidak).mean() > 0.95
    assert single_level(0.9, 1) == bonferroni_level(0.9, 1) == pytest.approx(0.9)
    assert max_z(np.zeros((3, 3)), 0.9) == 0
    assert max_z([[4.0]], 0.9) == pytest.approx(Z90, abs=0.02)


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_medians_are_covered(share: float) -> None:
    """40,000 draws: four standard errors are 0.6 points. Positions are whole: more than the level is covered."""
    rng = np.random.default_rng(7)
    truth = np.array([40, 90, 60, 50, 30, 25, 5], float)
    factor = rng.standard_normal((7, 7)) * 4
    covariance = factor @ factor.T + 4 * np.eye(7)
    median = int(np.argmax(np.cumsum(truth) >= share * truth.sum()))
    errors = rng.multivariate_normal(np.zeros(7), covariance, 40_000, method="cholesky")
    ends = quantile_intervals(truth + errors, covariance, share, 0.9)
    assert (ends.low <= ends.high).all()
    assert ends.covers(median).mean() >= 0.9 - 0.006
    assert (ends.high - ends.low).mean() < 4


@pytest.mark.statistical
def test_a_median_between_two_levels_is_covered_as_stated() -> None:
    """The true sum lies on the boundary, where the one-sided test bites: 95 % from one side alone, ± 0.4 points."""
    rng = np.random.default_rng(8)
    truth = np.array([50.0, 50.0])
    errors = 3 * rng.standard_normal((40_000, 2))
    ends = quantile_intervals(truth + errors, 9 * np.eye(2), 0.5, 0.9)
    assert ends.covers(0).mean() == pytest.approx(0.95, abs=0.005)


def test_a_median_of_nobody_says_nothing() -> None:
    ends = quantile_intervals([-3.0, 1.0, -2.0], np.eye(3), 0.5, 0.9)
    assert (ends.low, ends.high) == (0, 2)


@pytest.mark.statistical
def test_ranks_are_covered_all_at_once() -> None:
    """4,000 draws: four standard errors are 1.9 points."""
    rng = np.random.default_rng(9)
    truth = np.array([100.0, 99.9, 99.8, 99.7, 99.6, 20])
    rank = np.array([1, 2, 3, 4, 5, 6])
    covariance = 9 * np.eye(6) + 4
    errors = rng.multivariate_normal(np.zeros(6), covariance, 4000)
    intervals = [rank_intervals(truth + error, covariance, 0.9) for error in errors]
    held = np.array([ends.covers(rank).all() for ends in intervals])
    assert held.mean() >= 0.9 - 0.019
    width = np.mean([ends.high - ends.low for ends in intervals], axis=0)
    assert width[5] == 0
    assert width[1] > 3


def test_probabilities_of_ranks_agree_with_integrals() -> None:
    x, covariance = np.array([5.0, 4.0, 2.0]), np.array([[4.0, 1, 0], [1, 4, 0], [0, 0, 2]])
    chances = rank_probabilities(x, covariance, 200_000)
    assert chances.sum(axis=0) == pytest.approx(np.ones(3))
    assert chances.sum(axis=1) == pytest.approx(np.ones(3))
    rows = np.array([[-1.0, 1, 0], [-1, 0, 1]])
    first = multivariate_normal.cdf([0, 0], rows @ x, rows @ covariance @ rows.T)
    assert chances[0, 0] == pytest.approx(first, abs=0.006)
    assert len(rank_intervals([4.0], [[1.0]], 0.9).low) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda: share_intervals(1, 2, -1, 1, 0, 0.9),
        lambda: probability_majority(1, 2, 1, 1, 0, share=1.5),
        lambda: simultaneous_z(0.9, 0),
        lambda: bonferroni_level(0.9, 0),
        lambda: max_z([[1.0, 0.5]], 0.9),
        lambda: quantile_intervals([1.0, 2.0], np.eye(3), 0.5, 0.9),
        lambda: quantile_intervals([1.0, 2.0], np.eye(2), 1.0, 0.9),
    ],
)
def test_what_makes_no_sense_is_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(ParameterError) as error:
        ask()
    assert error.value.findings[0].code == "bad-statement"
