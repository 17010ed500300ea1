"""The symmetric row of maximum entropy, the last row of a perturbation table, the row of the risk measures and
truncated Gaussian noise of a variance are one distribution, found in one place."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from confide.errors import ParameterError
from confide.lab.risk import bounded_noise
from confide.noise import TruncatedGaussian
from confide.noise.fitting import NoiseKind, largest_decimal, of_variance
from confide.noise.max_entropy import RowProblem, solve_row, symmetric_row, uniform_variance
from confide.noise.ptables import count_settings, generate

SIZES = [(1, "1/2"), (2, "1"), (5, "2"), (5, "9.5"), (8, "1/100"), (10, "7/3")]


@pytest.mark.parametrize(("bound", "variance"), SIZES)
def test_all_roads_lead_to_one_distribution(bound: int, variance: str) -> None:
    row = symmetric_row(bound, variance)
    # Roads that share the implementation agree in every digit, ...
    assert generate(count_settings(bound, variance)).symmetric.p == row.probabilities
    assert bounded_noise.symmetric_row(bound, variance) == row
    # ... the exact distribution with the same parameter to the last digits, ...
    exact = row.distribution()
    assert exact.sigma2 == 1 / (2 * Fraction(row.b or 0))
    assert [exact.pmf(v) for v in row.values] == pytest.approx(row.probabilities, rel=1e-12)
    assert exact.variance() == pytest.approx(float(Fraction(variance)), rel=1e-12)
    # ... and noise of the variance is it with nine digits of its parameter, on the safe side.
    fitted = of_variance(NoiseKind.TRUNCATED_GAUSSIAN, variance, bound)
    assert isinstance(fitted, TruncatedGaussian)
    assert fitted.variance_bounds()[1] <= Fraction(variance)
    assert float(fitted.sigma2) == pytest.approx(float(exact.sigma2), rel=1e-8)


@pytest.mark.parametrize(("bound", "variance"), [*SIZES, (3, "0.5")])
def test_the_digits_are_those_that_a_search_without_a_hint_finds(bound: int, variance: str) -> None:
    limit = Fraction(variance)
    searched = largest_decimal(lambda sigma2: TruncatedGaussian(sigma2, bound).variance_bounds(256)[1] <= limit)
    fitted = of_variance(NoiseKind.TRUNCATED_GAUSSIAN, variance, bound)
    assert fitted.as_dict()["sigma2"] == str(searched)


def test_it_has_more_entropy_than_any_other_distribution_of_its_mean_and_variance() -> None:
    row = symmetric_row(4, 3)
    values = np.arange(-4, 5)
    conditions = np.stack([np.ones(9), values, values**2]).astype(float)
    # Every direction that keeps sum, mean and variance lowers the entropy.
    free = np.linalg.svd(conditions)[2][3:]
    for direction in (*free, *-free):
        other = np.array(row.probabilities) + 1e-3 * direction
        assert other.min() > 0
        assert -math.fsum(p * math.log2(p) for p in other) < row.entropy


def test_where_the_variance_is_not_reached_the_row_is_uniform_and_no_gaussian() -> None:
    row = symmetric_row(3, 100)
    assert (row.b, row.attained) == (0.0, False)
    assert row.probabilities == pytest.approx([1 / 7] * 7, abs=1e-15)
    assert row.variance == pytest.approx(float(uniform_variance(3)))
    with pytest.raises(ParameterError, match="not a truncated discrete Gaussian"):
        row.distribution()


def test_a_row_that_is_not_symmetric_is_no_gaussian() -> None:
    row = solve_row(RowProblem((-1, 0, 1, 2, 3), Fraction(1)), Fraction(0))
    with pytest.raises(ParameterError, match="not a truncated discrete Gaussian"):
        row.distribution()


@pytest.mark.parametrize(("bound", "variance"), [(0, 1), (101, 1), (5, 0), (5, "-1")])
def test_impossible_rows_are_refused(bound: int, variance: int | str) -> None:
    with pytest.raises(ParameterError):
        symmetric_row(bound, variance)


def test_a_float_is_refused() -> None:
    with pytest.raises(ParameterError, match="floating-point"):
        symmetric_row(5, 2.5)  # type: ignore[arg-type]
