"""The power of a test at a level: published and reference values, directions of rounding, brute force."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.lab.risk.testing import approximate_power, gaussian_power, pure_power, zcdp_power
from confide.privacy import cks_delta

LEVELS = ("0.01", "0.05", "0.10")
# rho of a query on blocks, of that query on all levels, and of the whole, in the 2020 redistricting data.
TABLE = {
    "0.099226": ((0.034906, 0.133062, 0.230174), (0.029995, 0.115191, 0.201557)),
    "0.548930": ((0.136968, 0.357924, 0.508092), (0.100526, 0.275232, 0.407584)),
    "2.56": ((0.683364, 0.934344, 0.959285), (0.474642, 0.731675, 0.836751)),
}
PAIRS = [(rho, level, place) for rho in TABLE for place, level in enumerate(LEVELS)]

rhos = st.fractions(Fraction(1, 1000), 8, max_denominator=1000)
levels = st.fractions(Fraction(1, 10**6), Fraction(10**6 - 1, 10**6), max_denominator=10**6)


@pytest.mark.parametrize(("rho", "level", "place"), PAIRS)
def test_the_nine_pairs(rho: str, level: str, place: int) -> None:
    zcdp, gaussian = (values[place] for values in TABLE[rho])
    # The reference values were computed with orders from 1.0001 on.
    assert zcdp_power(rho, level) == pytest.approx(zcdp, abs=6e-7)
    assert gaussian_power(rho, level) == pytest.approx(gaussian, abs=6e-7)
    limit = zcdp_power(rho, level, least_order=1)
    assert zcdp - 3e-5 < limit <= zcdp + 6e-7
    assert gaussian_power(rho, level) < limit


@pytest.mark.parametrize(("level", "value"), [("0.05", 0.934316), ("0.10", 0.959280)])
def test_where_the_limit_of_orders_is_the_best(level: str, value: float) -> None:
    assert zcdp_power("2.56", level, least_order=1) == pytest.approx(value, abs=6e-7)


@pytest.mark.parametrize(("rho", "level", "place"), PAIRS)
def test_no_order_is_violated_and_the_bound_is_tight(rho: str, level: str, place: int) -> None:
    """A hair below the bound every inequality holds, on a fine grid of orders, with fifty digits."""
    del place
    bound = zcdp_power(rho, level, least_order=1)
    assert _worst(rho, level, mpmath.mpf(bound) - mpmath.mpf("1e-8")) <= 0
    assert _worst(rho, level, mpmath.mpf(bound) + mpmath.mpf("1e-3")) > 0


def _worst(rho: str, level: str, power: mpmath.mpf) -> mpmath.mpf:
    """The largest of divergence less what is allowed, over orders and both directions."""
    with mpmath.workdps(50):
        r, size = mpmath.mpf(rho), mpmath.mpf(level)
        worst = mpmath.mpf(-1)
        for exponent in np.linspace(-6, 3, 181):
            u = mpmath.mpf(10) ** mpmath.mpf(float(exponent))
            for a, b in ((size, power), (power, size)):
                total = a * (a / b) ** u + (1 - a) * ((1 - a) / (1 - b)) ** u
                worst = max(worst, mpmath.log(total) / u - r * (1 + u))
        return worst


@pytest.mark.parametrize("level", LEVELS)
def test_one_direction_alone_allows_more(level: str) -> None:
    """The inequality as Abowd and Hawes print it, without its mirror image."""
    assert zcdp_power("0.548930", level, both_directions=False) > 1.15 * zcdp_power("0.548930", level)


def test_the_printed_direction() -> None:
    assert zcdp_power("0.099226354", "0.01", least_order=1, both_directions=False) == pytest.approx(0.127124, abs=1e-6)


@settings(max_examples=12, deadline=None)
@given(rhos, levels)
def test_the_envelope_against_other_bounds(rho: Fraction, level: Fraction) -> None:
    """Between what Gaussian noise attains and what each pair of epsilon and delta implies."""
    power = zcdp_power(rho, level)
    assert max(float(level), gaussian_power(rho, level)) <= power <= 1
    for epsilon in (Fraction(1, 10), Fraction(1), rho + 1, 3 * rho + 2):
        chance = cks_delta(rho, epsilon)
        if 0 < chance < 1:
            assert power <= approximate_power(epsilon, Fraction(chance), level) + 1e-9


@settings(max_examples=10, deadline=None)
@given(rhos, levels, levels)
def test_the_envelope_is_a_trade_off_function(rho: Fraction, one: Fraction, other: Fraction) -> None:
    """Rising and concave, and its own inverse: the test that keeps is as good as the one that rejects."""
    low, high = sorted((one, other))
    ends, middle = (zcdp_power(rho, low), zcdp_power(rho, high)), zcdp_power(rho, (low + high) / 2)
    assert ends[0] <= ends[1] + 1e-12
    assert middle >= (ends[0] + ends[1]) / 2 - 1e-9
    power = zcdp_power(rho, low)
    if 1e-6 < power < 1 - 1e-6:
        assert zcdp_power(rho, 1 - Fraction(power)) == pytest.approx(float(1 - low), abs=1e-7)


@settings(max_examples=20, deadline=None)
@given(rhos, levels)
def test_gaussian_power_is_rounded_up(rho: Fraction, level: Fraction) -> None:
    with mpmath.workdps(40):
        size = mpmath.mpf(level.numerator) / level.denominator
        mu = mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator)
        start = mpmath.sqrt(2) * mpmath.erfinv(2 * size - 1)
        true = mpmath.ncdf(start + mu)
        found = mpmath.mpf(gaussian_power(rho, level))
        assert true <= found <= true + mpmath.mpf("1e-14")


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "3", "17.16"])
@pytest.mark.parametrize("level", ["1e-9", "0.05", "0.5", "0.999"])
def test_pure_power_is_rounded_up(epsilon: str, level: str) -> None:
    with mpmath.workdps(40):
        e, size = mpmath.mpf(epsilon), mpmath.mpf(level)
        true = min(mpmath.exp(e) * size, 1 - mpmath.exp(-e) * (1 - size))
        assert true <= mpmath.mpf(pure_power(epsilon, level)) <= true * (1 + mpmath.mpf("1e-15")) + mpmath.mpf("1e-16")


def test_pure_power_is_attained_by_randomised_response() -> None:
    """A bit told truthfully with probability 3/4 is ln 3: the test that believes it has level 1/4 and power 3/4."""
    assert pure_power("1.098612288668110", "1/4") == pytest.approx(0.75, abs=1e-14)


def test_one_pair_of_epsilon_and_delta_says_nothing() -> None:
    assert approximate_power("17.16", "1e-10", "0.05") == pytest.approx(1, abs=1e-7)
    assert approximate_power("0.5", "1e-6", "0.05") > pure_power("0.5", "0.05")


def test_the_ends() -> None:
    for power in (pure_power, gaussian_power, zcdp_power):
        assert power("0.3", 1) == 1
        assert power(0, "0.3") == pytest.approx(0.3)
    assert zcdp_power("0.3", 0) == gaussian_power("0.3", 0) == 0
    assert zcdp_power("1e6", "0.3") == gaussian_power("1e6", "0.3") == 1
    assert 1e-300 < zcdp_power("1e-9", "1e-300") < 1.01e-300


@pytest.mark.parametrize("level", ["-0.1", "1.1", "1e-301"])
def test_levels_are_probabilities(level: str) -> None:
    with pytest.raises(ParameterError, match="level"):
        zcdp_power("1", level)


def test_floats_are_refused() -> None:
    with pytest.raises(ParameterError, match="floating-point"):
        gaussian_power(2.56, "0.05")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="floating-point"):
        zcdp_power("2.56", 0.05)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="least_order"):
        zcdp_power("2.56", "0.05", least_order="0.5")
