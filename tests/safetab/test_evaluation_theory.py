"""Theory by size in double precision, against exact laws and against sums in plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from confide.mechanisms.safetab.evaluate import NoiseMass
from confide.mechanisms.safetab.tallies import Errors
from confide.mechanisms.safetab.tuning.answer import release_bias
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric

LAWS = [DiscreteGaussian("31.447"), DiscreteGaussian("2.343"), DiscreteGaussian("0.05"), TwoSidedGeometric("0.3")]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_probabilities_are_those_of_the_law(law: NoiseDistribution) -> None:
    spread = NoiseMass(law)
    x = np.arange(-40, 41)
    assert spread.at_most(x) == pytest.approx([law.cdf(int(each)) for each in x], rel=1e-12, abs=1e-100)
    assert spread.above(x) == pytest.approx([law.tail(int(each)) for each in x], rel=1e-11, abs=1e-100)
    assert spread.at_most(np.array([-(1 << 62), 1 << 62])).tolist() == [0.0, pytest.approx(1)]


@pytest.mark.parametrize("law", LAWS[:2] + LAWS[3:], ids=repr)
def test_the_bias_of_what_is_released(law: NoiseDistribution) -> None:
    """E[X | n + X > T], as the tuning has it, for T = 21 and n from 0 to 60."""
    sizes = np.arange(61)
    mean, _ = NoiseMass(law).given_above(21 - sizes)
    assert mean == pytest.approx([release_bias(law, 21, int(n)) for n in sizes], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("above", [-200, -4, 0, 2])
def test_mean_and_variance_with_counts_that_become_zero(law: NoiseDistribution, above: int) -> None:
    spread = NoiseMass(law)
    values = [x for x in range(-300, 301) if x > above]
    weights = np.array([law.pmf(x) for x in values])
    for size in (0, 1, 3, 50):
        clamped = np.maximum(np.array(values), -size)
        mean = float(weights @ clamped / weights.sum())
        variance = float(weights @ (clamped - mean) ** 2 / weights.sum())
        found = spread.given_above(np.array([above]), np.array([-size]))
        assert float(found[0][0]) == pytest.approx(mean, abs=1e-9)
        assert float(found[1][0]) == pytest.approx(variance, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_mean_absolute_value_of_a_sum(law: NoiseDistribution) -> None:
    reach = 120
    one = np.array([law.pmf(x) for x in range(-reach, reach + 1)])
    summed, spread = one, NoiseMass(law)
    for cells in (1, 2, 3):
        x = np.arange(-cells * reach, cells * reach + 1)
        assert spread.mean_absolute(cells) == pytest.approx(float(np.abs(x) @ summed), rel=1e-9)
        summed = np.convolve(summed, one)


def test_errors_add_up() -> None:
    one, two = Errors.of(np.array([0, -3, 2, 2])), Errors.of(np.array([2, 7]))
    both = one + two
    assert dict(zip(both.error.tolist(), both.times.tolist(), strict=True)) == {-3: 1, 0: 1, 2: 3, 7: 1}
    assert (both.number, both.mean, both.mean_absolute) == (6, 10 / 6, 16 / 6)
    assert both.margin() == 7
    assert Errors.of(np.array([0] * 19 + [-9])).margin() == 0
    assert Errors.of(np.array([0] * 18 + [-9, 8])).margin() == 8
    assert (Errors().margin(), Errors().mean, both.within(2)) == (None, None, 4)
