"""Trade-off functions, advantage and Bayes risk against closed forms."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import pytest

from confide.errors import ParameterError
from confide.lab.risk.testing import (
    advantage,
    bayes_risk,
    gaussian_advantage,
    gaussian_power,
    gaussian_trade_off,
    pure_advantage,
    pure_power,
    pure_trade_off,
    zcdp_advantage,
    zcdp_power,
    zcdp_trade_off,
)
from confide.privacy import gaussian_limit_delta

NORMAL = NormalDist()


@pytest.mark.parametrize("alpha", ["0.001", "0.05", "0.3", "0.9"])
@pytest.mark.parametrize("mu", ["0.1", "1", "2.5"])
def test_the_gaussian_trade_off(mu: str, alpha: str) -> None:
    true = NORMAL.cdf(NORMAL.inv_cdf(1 - float(alpha)) - float(mu))
    assert gaussian_trade_off(mu, alpha) == pytest.approx(true, abs=1e-12)


def test_order_of_trade_offs() -> None:
    """A release with rho = 1/2 can leave less than Gaussian noise with the same rho does."""
    for alpha in ("0.01", "0.1", "0.5"):
        assert 0 <= zcdp_trade_off("1/2", alpha) < gaussian_trade_off(1, alpha) <= 1 - Fraction(alpha)
        assert pure_trade_off("1", alpha) == pytest.approx(max(1 - math.e * float(alpha), (1 - float(alpha)) / math.e))


@pytest.mark.parametrize("rho", ["0.07", "1", "2.56"])
def test_advantages(rho: str) -> None:
    gaussian = advantage(lambda level: gaussian_power(rho, level))
    assert gaussian == pytest.approx(2 * NORMAL.cdf(math.sqrt(float(rho) / 2)) - 1, abs=1e-10)
    assert gaussian_advantage(rho) == pytest.approx(gaussian, abs=1e-10)


def test_the_advantage_of_the_envelope() -> None:
    found = zcdp_advantage("0.4")
    assert found == pytest.approx(advantage(lambda level: zcdp_power("0.4", level)), abs=1e-8)
    assert zcdp_advantage(0) == gaussian_advantage(0) == pure_advantage(0) == 0
    assert gaussian_advantage(1000) == 1
    # Pinsker's inequality: the total variation is at most the root of half the Kullback-Leibler divergence.
    assert gaussian_advantage("0.4") < found <= math.sqrt(0.4 / 2)


def test_the_pure_advantage() -> None:
    assert pure_advantage("1") == pytest.approx(math.tanh(0.5), abs=1e-15)
    assert pure_advantage("1") == pytest.approx(advantage(lambda level: pure_power("1", level)), abs=1e-9)


@pytest.mark.parametrize("prior", ["1/2", "1/5", "1/50"])
def test_bayes_risk_is_the_hockey_stick(prior: str) -> None:
    """For a prior below one half the risk is prior · (1 − delta(ln((1 − prior)/prior)))."""
    chance = Fraction(prior)
    epsilon = Fraction(math.log((1 - chance) / chance)).limit_denominator(10**12)
    true = float(chance) * (1 - gaussian_limit_delta("1/2", epsilon))
    assert bayes_risk(lambda level: gaussian_power("1/2", level), prior) == pytest.approx(true, abs=1e-9)


def test_bayes_risk_is_symmetric_and_never_above_guessing() -> None:
    def power(level: Fraction) -> float:
        return gaussian_power("1/10", level)

    assert bayes_risk(power, "1/10") == pytest.approx(bayes_risk(power, "9/10"), abs=1e-10)
    assert bayes_risk(power, "1/1000") <= 1 / 1000
    with pytest.raises(ParameterError, match="prior"):
        bayes_risk(power, 1)
