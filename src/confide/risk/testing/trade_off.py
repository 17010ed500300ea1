"""Trade-off functions and what they come to in one number (Dong, Roth & Su 2022).

The trade-off function f of a release gives for every level α the smallest probability β of a type II error that a test
can have: f(α) = 1 − (largest power at α). The larger f, the less the release tells.

* Gaussian: G_μ(α) = Φ(Φ⁻¹(1 − α) − μ); Gaussian noise of ρ has μ = √(2ρ), for itself alone;
* the envelope of all ρ-zCDP releases: 1 − :func:`confide.risk.testing.loss_test.zcdp_power`. It is convex and its own
  inverse, and lies below G_√(2ρ);
* pure ε: max(0, 1 − e^ε α, e^−ε (1 − α)).

Two numbers sum a curve up. The Bayes risk is the smallest probability of deciding wrongly between H₀ and H₁ when H₁ has
a prior probability π: min over ℓ of (1 − π)ℓ + π(1 − w(ℓ)). The advantage is the largest w(ℓ) − ℓ: 1 − 2·(Bayes risk at
π = 1/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from confide.exact import Exact, nonnegative, probability
from confide.privacy.directed import Enclosure, float_down, float_up, tighten
from confide.risk.testing.level_power import gaussian_power, normal_probability, pure_power
from confide.risk.testing.loss_test import zcdp_power

Power: TypeAlias = Callable[[Fraction], float]
"""The largest power at a level."""

_WIDEST = 40.0
_STEPS = 48
_GOLDEN = (math.sqrt(5) - 1) / 2


def gaussian_trade_off(mu: Exact, alpha: Exact) -> float:
    """G_μ(α) = Φ(Φ⁻¹(1 − α) − μ), rounded down.

    Args:
        mu: The distance of the two Gaussians, √(2ρ).
        alpha: The level of the test.

    Returns:
        The smallest type II error.

    >>> round(gaussian_trade_off(1, "0.05"), 6)
    0.740489
    """
    return _rest(gaussian_power(nonnegative(mu, "mu") ** 2 / 2, alpha))


def zcdp_trade_off(rho: Exact, alpha: Exact) -> float:
    """The smallest type II error at a level that a ρ-zCDP release leaves possible, rounded down.

    Args:
        rho: The loss in zCDP.
        alpha: The level of the test.

    Returns:
        The smallest type II error.

    >>> round(zcdp_trade_off("2.56", "0.05"), 4)
    0.0657
    """
    return _rest(zcdp_power(rho, alpha))


def pure_trade_off(epsilon: Exact, alpha: Exact) -> float:
    """The smallest type II error at a level under pure ε, rounded down.

    Args:
        epsilon: The loss in pure differential privacy.
        alpha: The level of the test.

    Returns:
        The smallest type II error.

    >>> round(pure_trade_off("0.5", "0.05"), 4)
    0.9176
    """
    return _rest(pure_power(epsilon, alpha))


def bayes_risk(power: Power, prior: Exact = "1/2") -> float:
    """The smallest probability of a wrong decision for someone who gives H₁ this prior probability.

    ``power`` must be concave, as all of this package are. The minimum is searched for; since powers are rounded up and
    a minimum is flat, the error is far below what is worth printing.

    Args:
        power: The largest power at a level; it must be concave.
        prior: The prior probability of H₁.

    Returns:
        The probability of a wrong decision.

    >>> round(bayes_risk(lambda level: gaussian_power("1/2", level)), 6)
    0.308538
    """
    chance = probability(prior, "prior")

    def risk(logit: float) -> float:
        level = 1 / (1 + math.exp(-logit))
        return float(1 - chance) * level + float(chance) * (1 - power(Fraction(level)))

    low, high = -_WIDEST, _WIDEST
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = risk(left), risk(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = risk(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = risk(right)
    return max(0.0, min(at_left, at_right, float(chance), float(1 - chance)))


def advantage(power: Power) -> float:
    """The largest difference between power and level.

    Args:
        power: The largest power at a level; it must be concave.

    Returns:
        The advantage, from 0 to 1.

    >>> round(advantage(lambda level: gaussian_power("1/2", level)), 6)
    0.382925
    """
    return 1 - 2 * bayes_risk(power)


def pure_advantage(epsilon: Exact) -> float:
    """(e^ε − 1)/(e^ε + 1), rounded up: the advantage that pure ε allows.

    Args:
        epsilon: The loss in pure differential privacy.

    Returns:
        The largest power less level.

    >>> round(pure_advantage(1), 4)
    0.4621
    """
    e = nonnegative(epsilon, "epsilon")

    def formula(digits: int) -> Enclosure:
        power = (-Enclosure.of(e, digits)).exp()
        return (1 - power) / (1 + power)

    return min(1.0, float_up(tighten(formula).hi)) if e else 0.0


def gaussian_advantage(rho: Exact) -> float:
    """2Φ(√(ρ/2)) − 1, rounded up: the advantage of the best test against Gaussian noise of this ρ.

    Args:
        rho: The loss in zCDP of Gaussian noise.

    Returns:
        The largest power less level.

    >>> round(gaussian_advantage("2.56"), 4)
    0.7421
    """
    r = nonnegative(rho, "rho")
    if r > 200:  # 1 − Φ(10) is less than a unit of rounding
        return 1.0

    def formula(digits: int) -> Enclosure:
        return 2 * normal_probability(Enclosure.of(r / 2, digits).sqrt()) - 1

    return float_up(tighten(formula).hi) if r else 0.0


def zcdp_advantage(rho: Exact) -> float:
    """The advantage that ρ-zCDP allows. The envelope is its own inverse, so it is 1 − 2ℓ where w(ℓ) = 1 − ℓ.

    The bisection keeps a level at which the power is certainly below 1 − ℓ, so what is returned is an upper bound.

    Args:
        rho: The loss in zCDP.

    Returns:
        The largest power less level.

    >>> round(zcdp_advantage("2.56"), 4)
    0.8925
    """
    r = nonnegative(rho, "rho")
    low, high = 0.0, 0.5
    for _ in range(36):
        middle = (low + high) / 2
        if zcdp_power(r, Fraction(middle)) <= 1 - middle:
            low = middle
        else:
            high = middle
    return 1 - 2 * low if r else 0.0


def _rest(power: float) -> float:
    return float_down(1 - Fraction(power))
