"""Binomial numbers: exact thresholds, large trials against 100 digits, goodness of fit, cost."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import comb

import mpmath
import numpy as np
import pytest
from tests.kits.noise import STREAM
from tests.kits.sparse_noise import ALARM, PlantedExtensions, around, chi_square, known

from confide.errors import ParameterError
from confide.noise.sparse import binomial_steps, draw_binomial
from confide.noise.stream import Inverse

TINY = Fraction(1, 1 << 250)


def exact_cdf(trials: int, q: Fraction) -> list[Fraction]:
    total, sums = Fraction(0), []
    for k in range(trials + 1):
        total += comb(trials, k) * q**k * (1 - q) ** (trials - k)
        sums.append(total)
    return sums


@pytest.mark.parametrize("words", [1, 3, 6])
@pytest.mark.parametrize("trials", [1, 2, 5, 12])
@pytest.mark.parametrize(
    "q",
    [Fraction(1, 2), Fraction(1, 3), Fraction(1, 10**4), Fraction(9, 10), TINY, 1 - TINY],
    ids=["half", "third", "rare", "often", "tiny", "certain"],
)
def test_every_threshold_is_exact(trials: int, q: Fraction, words: int) -> None:
    """``U`` right below and right above each ``P(K <= k)``, agreeing with it in 64, 192 or 384 bits."""
    cdf = exact_cdf(trials, q)
    scale = 1 << 64 * words
    # A U that is itself a threshold (q may be dyadic) would be read for ever: an event of probability 0.
    planted = [u for threshold in cdf for u in around(threshold, words) if u < scale and u != threshold * scale]
    source = PlantedExtensions(planted, words)
    for i, u in enumerate(planted):
        expected = next(k for k, threshold in enumerate(cdf) if Fraction(u, scale) < threshold)
        assert draw_binomial(trials, known(q), source, i) == expected


@pytest.mark.parametrize("bits", [192, 320])
@pytest.mark.parametrize(
    ("trials", "q"), [(60, Fraction(1, 7)), (300, Fraction(1, 2)), (800, Fraction(1, 200))], ids=str
)
def test_the_steps_hold_the_exact_numbers_and_are_narrow(trials: int, q: Fraction, bits: int) -> None:
    cdf = exact_cdf(trials, q)
    steps = binomial_steps(trials, known(q), bits)
    for i, (lower, upper) in enumerate(zip(steps.lower, steps.upper, strict=True)):
        assert lower <= cdf[steps.first + i] * (1 << bits) <= upper
        assert upper - lower <= 1 << 32 or (i == 0 and lower == 0)
    assert cdf[steps.first - 1] * (1 << bits) < 1 << 32 if steps.first else True
    assert (1 - cdf[steps.first + len(steps.lower) - 1]) * (1 << bits) < 1 << 32


def test_large_trials_agree_with_a_hundred_digits() -> None:
    """``P(K = k)`` by log-gamma functions at 400 bits, for two hundred million trials."""
    trials, q = 200_000_000, Fraction(1, 10_000)
    steps = binomial_steps(trials, known(q), 256)
    assert len(steps.lower) < 45 * 141.5
    with mpmath.workprec(400):
        p = mpmath.mpf(1) / 10_000
        for k in (19_500, 19_999, 20_000, 20_001, 20_600):
            i = k - steps.first
            probability = mpmath.mpf(steps.lower[i] - steps.lower[i - 1]) / mpmath.mpf(2) ** 256
            choose = mpmath.loggamma(trials + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(trials - k + 1)
            assert (
                abs(probability / mpmath.exp(choose + k * mpmath.log(p) + (trials - k) * mpmath.log(1 - p)) - 1) < 1e-50
            )
        # The levels, not only the differences: the central limit theorem with its first correction.
        middle = mpmath.mpf(steps.lower[20_000 - steps.first]) / mpmath.mpf(2) ** 256
        assert abs(middle - 0.5 - 2 / (3 * mpmath.sqrt(2 * mpmath.pi * 20_000))) < 1e-5


def test_the_work_grows_as_the_root_of_the_mean() -> None:
    assert len(binomial_steps(40_000_000, known(Fraction(1, 2)), 192).lower) < 36 * 3162


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("trials", "q"), [(30, Fraction(1, 5)), (1, Fraction(2, 7)), (10_000, Fraction(1, 1_000))], ids=str
)
def test_draws_fit_the_law_and_no_other(trials: int, q: Fraction) -> None:
    count = 400_000
    inverse = Inverse.prepare(partial(binomial_steps, trials, known(q)))
    draws = inverse.draw(STREAM, np.arange(count, dtype=np.uint64))
    largest = min(trials, 60)
    observed = np.bincount(draws, minlength=largest + 1)

    def expected(probability: float) -> np.ndarray:
        return count * np.array(
            [comb(trials, k) * probability**k * (1 - probability) ** (trials - k) for k in range(largest + 1)]
        )

    assert chi_square(observed, expected(float(q))) > ALARM
    for factor in (0.97, 1.03):
        assert chi_square(observed, expected(factor * float(q))) < 1e-9


def test_the_ends() -> None:
    none, certain = (Fraction(0), Fraction(0)), (Fraction(1), Fraction(1))
    for coordinate in range(5):
        assert draw_binomial(0, known(Fraction(1, 3)), STREAM, coordinate) == 0
        assert draw_binomial(10**9, lambda bits: none, STREAM, coordinate) == 0
        assert draw_binomial(10**9, lambda bits: certain, STREAM, coordinate) == 10**9
        assert draw_binomial(10**9, known(TINY), STREAM, coordinate) == 0
        assert draw_binomial(10**9, known(1 - TINY), STREAM, coordinate) == 10**9


def test_a_negative_count_is_refused_without_showing_it() -> None:
    with pytest.raises(ParameterError) as caught:
        draw_binomial(-17, known(Fraction(1, 3)), STREAM, 0)
    assert "17" not in str(caught.value)
