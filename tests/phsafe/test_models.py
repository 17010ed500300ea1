"""Estimates after PHSafe: the values of the Census Bureau's model, draws, and intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import truncnorm

from confide.mechanisms.phsafe.models import (
    NoisyValue,
    PosteriorRatio,
    posterior_of_sum,
    ratio_alone,
    ratio_of_part,
    ratio_of_sum,
)

COUNTS = [
    (-64, 147.8, 2.167, 2, 0, 7),
    (-5, 147.8, 8.091, 8, 0, 21),
    (10, 147.8, 14.352, 14, 1, 32),
    (48, 1708.8, 57.580, 58, 8, 119),
    (-38, 1708.8, 22.388, 22, 1, 60),
    (-281, 14782.2, 41.379, 41, 2, 118),
    (100, 14782.2, 143.524, 144, 16, 314),
    (1478, 14782.2, 1478.000, 1478, 1278, 1678),
]
YOUNG, OLD, UNITS = NoisyValue(60, 1708.8), NoisyValue(150, 1708.8), NoisyValue(80, 1709.4)


@pytest.mark.parametrize(("noisy", "variance", "mean", "estimate", "low", "high"), COUNTS)
def test_the_published_values_of_single_counts(
    noisy: int, variance: float, mean: float, estimate: int, low: int, high: int
) -> None:
    posterior = posterior_of_sum([noisy], [variance])
    assert round(posterior.mean, 3) == mean
    assert (round(posterior.mean), math.floor(posterior.low), math.ceil(posterior.high)) == (estimate, low, high)


@pytest.mark.parametrize(
    ("noisy", "variance"),
    [([-64, -5, 10, 48], [147.8] * 4), ([-281, 300], [14782.2] * 2), ([4000, 3000], [147.8] * 2), ([5, 9], [4, 100])],
)
def test_sums_of_counts_are_as_draws_have_them(noisy: list[float], variance: list[float]) -> None:
    generator, number = np.random.default_rng(5), 200_000
    sums = np.zeros(number)
    for value, square in zip(noisy, variance, strict=True):
        deviation = math.sqrt(square)
        sums += truncnorm.rvs(
            -value / deviation, np.inf, loc=value, scale=deviation, size=number, random_state=generator
        )
    posterior, spread = posterior_of_sum(noisy, variance), sums.std()
    # With 200,000 draws a quantile at 5 % is off by 0.011 standard deviations in 99.9999 of 100 cases for a normal law.
    assert abs(posterior.mean - sums.mean()) < 0.012 * spread
    for found, probability in ((posterior.low, 0.05), (posterior.high, 0.95)):
        assert abs(found - np.quantile(sums, probability)) < 0.03 * spread


def test_counts_without_noise_are_themselves() -> None:
    assert posterior_of_sum([7.0], [0.0]) == (7.0, 7.0, 7.0)
    assert posterior_of_sum([7.0, 0.0], [0.0, 0.0]) == pytest.approx((7.0, 7.0, 7.0))


def test_the_published_values_of_averages() -> None:
    expected = {1: [(3.088, 1.282, 6.821), (0.939, 0.143, 2.362), (2.148, 0.848, 4.765)],
                2: [(3.719, 2.093, 7.456), (1.147, 0.252, 2.623), (2.572, 1.263, 5.224)]}  # fmt: skip
    for least, values in expected.items():
        found = [
            ratio_of_sum((YOUNG, OLD), UNITS, least),
            ratio_of_part(YOUNG, OLD, UNITS, least),
            ratio_of_part(OLD, YOUNG, UNITS, least),
        ]
        for ratio, (mean, low, high) in zip(found, values, strict=True):
            assert ratio.mean == pytest.approx(mean, abs=0.002)
            assert ratio.low == pytest.approx(low, abs=0.002)
            assert ratio.high == pytest.approx(high, abs=0.009)
        # Three ways to one posterior: they agree on what they share.
        assert found[1].denominator == pytest.approx(found[0].denominator, abs=1e-3)
        assert found[1].numerator + found[2].numerator == pytest.approx(found[0].numerator, abs=1e-3)
        assert found[1].mean + found[2].mean == pytest.approx(found[0].mean, abs=1e-4)


def drawn(people: NoisyValue, units: NoisyValue) -> np.ndarray:  # type: ignore[type-arg]
    """Ratios of draws that are possible."""
    generator = np.random.default_rng(9)
    number = generator.normal(units.value, units.deviation, 2_000_000)
    count = generator.normal(people.value, people.deviation, 2_000_000)
    chosen = (number >= 1) & (number <= count) & (count <= 10 * number)
    return count[chosen] / number[chosen]


def test_averages_by_tenure_are_as_draws_have_them() -> None:
    for people, units in (
        (NoisyValue(150, 3417.6), NoisyValue(60, 1709.4)),
        (NoisyValue(20, 900), NoisyValue(-5, 400)),
    ):
        draws, ratio = drawn(people, units), ratio_alone(people, units, 1.0)
        spread = draws.std()
        assert ratio.mean == pytest.approx(draws.mean(), abs=0.02 * spread)
        assert ratio.low == pytest.approx(np.quantile(draws, 0.05), abs=0.02 * spread)
        assert ratio.high == pytest.approx(np.quantile(draws, 0.95), abs=0.04 * spread)


def test_an_average_of_millions_is_a_needle_that_is_found() -> None:
    ratio = ratio_of_sum((NoisyValue(2e6, 1708.8), NoisyValue(8e6, 1708.8)), NoisyValue(4e6, 1709.4), 1)
    assert isinstance(ratio, PosteriorRatio)
    assert ratio.mean == pytest.approx(2.5, abs=1e-6)
    assert 2.4999 < ratio.low < 2.5 < ratio.high < 2.5001


def test_intervals_of_averages_cover_possible_truths() -> None:
    """90 % of the intervals, over truths that the model takes for possible; 240 of them, off by 6 % at most."""
    generator = np.random.default_rng(3)
    covered, number = 0, 240
    for _ in range(number):
        units = generator.integers(150, 900)
        young, old = units * generator.uniform(0.2, 1.5), units * generator.uniform(1.0, 3.0)
        noise = generator.normal(0, [41.3, 41.3, 41.3])
        values = [
            NoisyValue(round(true + error), 1708.8) for true, error in zip((young, old, units), noise, strict=True)
        ]
        ratio = ratio_of_sum((values[0], values[1]), values[2], 1)
        covered += ratio.low <= (young + old) / units <= ratio.high
    assert abs(covered / number - 0.9) < 0.06
