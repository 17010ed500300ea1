"""Enclosures hold the true number, and are narrow."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.noise import as_mpf, folded_cdf, integer_thresholds, named
from tests.kits.times import mostly_slow

from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.noise.distributions import (
    _bernoulli_quotients,
    exp_minus,
    folded_gaussian_cdf,
    folded_thresholds,
    invert,
    pi,
    square_root,
)

LAWS = [
    *(DiscreteGaussian(sigma2) for sigma2 in ("1/1000000", "1/7", "9/10", 1, "10.24", 289, 3600)),
    *(TwoSidedGeometric(epsilon) for epsilon in ("1/100", "1/10", 1, "693147/1000000", 50)),
]


@given(st.fractions(min_value=0, max_value=2000), st.integers(min_value=1, max_value=700))
def test_exp_minus_holds_the_exponential(x: Fraction, bits: int) -> None:
    lo, hi = exp_minus(x, bits)
    with mpmath.workprec(bits + 3200):
        assert lo <= mpmath.ldexp(mpmath.exp(-as_mpf(x)), bits) <= hi
    assert hi - lo <= 3


def test_exp_minus_of_zero_is_exactly_one() -> None:
    assert exp_minus(Fraction(0), 64) == (1 << 64, 1 << 64)


def test_exp_minus_refuses_what_it_does_not_prove() -> None:
    with pytest.raises(ValueError, match="at least zero"):
        exp_minus(Fraction(-1), 64)


@pytest.mark.parametrize("bits", [8, 64, 500, 3000])
def test_pi_and_roots(bits: int) -> None:
    with mpmath.workprec(bits + 64):
        assert pi(bits)[0] <= mpmath.ldexp(mpmath.pi, bits) <= pi(bits)[1]
        assert pi(bits)[1] - pi(bits)[0] <= 2
        lo, hi = square_root(Fraction(289, 7), bits)
        assert lo <= mpmath.ldexp(mpmath.sqrt(mpmath.mpf(289) / 7), bits) <= hi


@pytest.mark.parametrize("law", mostly_slow(LAWS, 4), ids=named)
@pytest.mark.parametrize("bits", [192, pytest.param(271, marks=pytest.mark.slow)])
def test_thresholds_hold_the_500_bit_values(law: NoiseDistribution, bits: int) -> None:
    thresholds = folded_thresholds(law.decay, bits)
    with mpmath.workprec(500):
        exact = folded_cdf(law, 400)
        for lower, upper, value in zip(thresholds.lower, thresholds.upper, exact, strict=False):
            assert lower <= mpmath.ldexp(value, bits) <= upper
    width = max(upper - lower for lower, upper in zip(thresholds.lower, thresholds.upper, strict=True))
    assert width < 1 << 68, "the guard of 64 bits must hold"


@pytest.mark.parametrize("sigma2", [Fraction(64), Fraction(289), Fraction(12345, 67), Fraction(10**6)])
@pytest.mark.parametrize("bits", [60, 300, 1500])
def test_euler_maclaurin_holds_the_plain_sum(sigma2: Fraction, bits: int) -> None:
    """The formula for wide laws agrees with term by term addition, in the middle and in the tail."""
    law = DiscreteGaussian(sigma2)
    with mpmath.workprec(bits + 500):
        scale = as_mpf(sigma2)
        total = mpmath.sqrt(2 * mpmath.pi * scale) * (
            1 + 2 * sum(mpmath.exp(-2 * mpmath.pi**2 * scale * k * k) for k in range(1, 9))
        )
        places = [int(mpmath.sqrt(scale) * t) for t in (0, mpmath.mpf(1) / 2, 1, 3)]
        partial, n = mpmath.mpf(1), 0
        for m in places:
            while n < m:
                n += 1
                partial += 2 * mpmath.exp(-mpmath.mpf(n * n) / (2 * scale))
            lo, hi = folded_gaussian_cdf(law.sigma2, m, bits)
            assert lo <= mpmath.ldexp(partial / total, bits) <= hi
            assert hi - lo <= 8


def test_bernoulli_numbers() -> None:
    known = [Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30), Fraction(5, 66), Fraction(-691, 2730)]
    factorials = [2, 24, 720, 40320, 3628800, 479001600]
    assert list(_bernoulli_quotients(6)) == [b / f for b, f in zip(known, factorials, strict=True)]


@pytest.mark.parametrize("law", [DiscreteGaussian(289), TwoSidedGeometric(1)], ids=named)
def test_invert_agrees_with_plain_comparison(law: NoiseDistribution) -> None:
    thresholds = integer_thresholds(law, 300)
    for prefix in range(0, 1 << 16, 977):
        # The numbers go on with zeros for ever.
        number = prefix << 284
        expected = next(m for m, threshold in enumerate(thresholds) if number < threshold)
        assert invert(law.decay, prefix, 16, lambda: 0) == expected
