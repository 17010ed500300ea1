"""Goodness of fit. The keys are fixed, so each test gives the same answer on every run.

Had the keys been drawn anew, a true sampler would fail one of the tests below with probability less than 1 in 10,000:
each comparison has a false alarm rate of one in a million, and there are fewer than a hundred.
"""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from tests.kits.noise import SIX_LAWS, STREAM, chi_square_p, named

from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric, draw
from confide.noise.sample import UniformBits, sample

pytestmark = pytest.mark.statistical

ALARM = 1e-6
DRAWS = 100_000_000
_BLOCK = 1 << 20


def rescaled(law: NoiseDistribution, factor: Fraction) -> NoiseDistribution:
    """The law with its scale multiplied."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 * factor**2)
    assert isinstance(law, TwoSidedGeometric)
    return TwoSidedGeometric(law.epsilon / factor)


def expectations(law: NoiseDistribution, reach: int, draws: int) -> np.ndarray:
    """Expected counts of ``-reach .. reach``, the ends holding the tails."""
    half = [law.pmf(x) for x in range(reach)] + [law.tail(reach - 1)]
    return draws * np.array(half[:0:-1] + half)


@pytest.mark.parametrize("law", SIX_LAWS, ids=named)
def test_one_hundred_million_draws_fit_the_law_and_no_other(law: NoiseDistribution) -> None:
    """Chi-square at the true scale; scales 3 % smaller and larger are rejected. Mean and variance are right too."""
    reach = law.noise_margin("0.99999999")
    counts = np.zeros(2 * reach + 1, np.int64)
    total = squares = 0
    for start in range(0, DRAWS, _BLOCK):
        noise = draw(law, STREAM, start, min(_BLOCK, DRAWS - start))
        total += int(noise.sum())
        squares += int((noise * noise).sum())
        counts += np.bincount(np.clip(noise, -reach, reach) + reach, minlength=2 * reach + 1)
    assert chi_square_p(counts, expectations(law, reach, DRAWS)) > ALARM
    for factor in (Fraction(97, 100), Fraction(103, 100)):
        assert chi_square_p(counts, expectations(rescaled(law, factor), reach, DRAWS)) < 1e-100

    variance = law.variance()
    assert abs(total) < 4.9 * (DRAWS * variance) ** 0.5
    # The ratio of variances; the kurtosis of both laws is at most that of the geometric law, below 10.
    assert squares / DRAWS / variance == pytest.approx(1, abs=4.9 * (9 / DRAWS) ** 0.5)


@pytest.mark.parametrize("law", [DiscreteGaussian(1), DiscreteGaussian(289), TwoSidedGeometric("1/10")], ids=named)
def test_two_samples_agree_with_the_reference_sampler(law: NoiseDistribution) -> None:
    count = 60_000
    supply = random.Random(20301)
    bits = UniformBits(lambda: supply.getrandbits(64))
    reference = np.array([sample(law, bits) for _ in range(count)])
    table = draw(law, STREAM, 7_000_000, count)
    reach = law.noise_margin("0.999")
    one, other = (np.bincount(np.clip(x, -reach, reach) + reach, minlength=2 * reach + 1) for x in (reference, table))
    # With equal sizes, (a - b)**2 / (a + b) sums to chi-square: compare a with (a + b) / 2 at twice the weight.
    both = one + other
    keep = both >= 20
    statistic_terms = ((one - other) ** 2)[keep] / both[keep]
    freedom = int(keep.sum()) - 1
    # Wilson-Hilferty: a chi-square to the power 1/3 is nearly normal.
    z = ((statistic_terms.sum() / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / (2 / (9 * freedom)) ** 0.5
    assert abs(z) < 4.9


@pytest.mark.parametrize("law", [DiscreteGaussian("5/3"), TwoSidedGeometric("7/5")], ids=named)
def test_the_reference_sampler_fits_the_law(law: NoiseDistribution) -> None:
    count = 100_000
    supply = random.Random(77)
    bits = UniformBits(lambda: supply.getrandbits(64))
    reach = law.noise_margin("0.9999")
    noise = np.array([sample(law, bits) for _ in range(count)])
    counts = np.bincount(np.clip(noise, -reach, reach) + reach, minlength=2 * reach + 1)
    assert chi_square_p(counts, expectations(law, reach, count)) > ALARM
    assert chi_square_p(counts, expectations(rescaled(law, Fraction(9, 10)), reach, count)) < ALARM


def test_wide_draws_fit_the_law() -> None:
    """A scale beyond the tables: 20,000 draws in 40 classes of equal probability."""
    law = DiscreteGaussian(10**12)
    edges = [law.quantile(Fraction(k, 40)) for k in range(1, 40)]
    counts = np.bincount(np.searchsorted(edges, draw(law, STREAM, 0, 20_000), side="left"), minlength=40)
    assert chi_square_p(counts, np.full(40, 500.0)) > ALARM


@pytest.mark.parametrize("law", [DiscreteGaussian(289), TwoSidedGeometric(1)], ids=named)
def test_neighbouring_coordinates_are_uncorrelated(law: NoiseDistribution) -> None:
    noise = draw(law, STREAM, 0, 4_000_001).astype(float)
    for lag in (1, 2, 8, 16):
        correlation = float((noise[lag:] * noise[:-lag]).mean()) / law.variance()
        assert abs(correlation) < 4.9 / 2000


@pytest.mark.slow
@pytest.mark.parametrize("law", SIX_LAWS, ids=named)
def test_a_thousand_million_draws_fit_the_law(law: NoiseDistribution) -> None:
    draws = 10 * DRAWS
    reach = law.noise_margin("0.999999999")
    counts = np.zeros(2 * reach + 1, np.int64)
    for start in range(0, draws, _BLOCK):
        noise = draw(law, STREAM, 2**50 + start, min(_BLOCK, draws - start))
        counts += np.bincount(np.clip(noise, -reach, reach) + reach, minlength=2 * reach + 1)
    assert chi_square_p(counts, expectations(law, reach, draws)) > ALARM
