"""The largest power of a test at a level, where a promise is all that is known; and for Gaussian noise.

Someone tests H₀ (the record is as it is) against H₁ (it says something else, or is not there). The level ℓ is the
probability of rejecting H₀ where it holds, the power w = 1 − β that of rejecting it where H₁ holds. A release limits w
whatever the test is (Wasserman & Zhou 2010, Theorem 2.4, for pure ε):

* :func:`pure_power`: w ≤ min(e^ε ℓ, 1 − e^−ε (1 − ℓ));
* :func:`approximate_power`: w ≤ min(e^ε ℓ + δ, 1 − e^−ε (1 − ℓ − δ));
* :func:`gaussian_power`: Φ(Φ⁻¹(ℓ) + √(2ρ)), what the best test attains if the noise is Gaussian with this ρ (Dong, Roth
  & Su 2022). It is **not** a bound for every ρ-zCDP release; that is :func:`.loss_test.zcdp_power`.

Every value is rounded up. Derivation: ``docs/proofs/privacy-curves.md``, sections 1 and 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from scipy.special import ndtri

from confide.errors import ParameterError
from confide.exact import Exact, as_delta, exact, nonnegative
from confide.privacy.conversion import bun_steinke_epsilon
from confide.privacy.definitions import ZCDP, Enclosure, PureDP, density, float_up, mills_ratio, tighten
from confide.privacy.statements import factor

LEAST_LEVEL = Fraction(1, 10**300)
_SURE = 9  # 1 − Φ(9) is less than a unit of rounding


def pure_power(epsilon: Exact, level: Exact) -> float:
    """The largest power at a level that pure ε-differential privacy allows, rounded up.

    Args:
        epsilon: The loss in pure differential privacy.
        level: The probability of rejecting a true hypothesis, from 0 to 1.

    Returns:
        The power, from ``level`` to 1.

    >>> pure_power("0.5", "0.05") < 0.0825
    True
    """
    return _by_epsilon(nonnegative(epsilon, "epsilon"), Fraction(0), level_of(level))


def approximate_power(epsilon: Exact, delta: Exact, level: Exact) -> float:
    """The largest power at a level that one pair (ε, δ) allows, rounded up. It is rarely worth knowing: see the docs.

    Args:
        epsilon: The loss.
        delta: Its delta.
        level: The level of the test.

    Returns:
        The power, from ``level`` to 1.

    >>> f"{approximate_power('17.16', '1e-10', '0.05'):.6f}"
    '1.000000'
    """
    return _by_epsilon(nonnegative(epsilon, "epsilon"), as_delta(delta), level_of(level))


def gaussian_power(rho: Exact, level: Exact) -> float:
    """The power of the best test at a level against Gaussian noise of this ρ, rounded up.

    Args:
        rho: The loss in zCDP of Gaussian noise.
        level: The level of the test.

    Returns:
        The power, from ``level`` to 1. It does not bound other noise of the same rho.

    >>> f"{gaussian_power('2.56', '0.05'):.6f}"
    '0.731675'
    """
    r, size = nonnegative(rho, "rho"), level_of(level)
    if not r or size in (0, 1):
        return float_up(size)
    start = quantile_above(size)
    if start + math.sqrt(2 * r) > _SURE:
        return 1.0

    def formula(digits: int) -> Enclosure:
        return normal_probability(Enclosure.of(2 * r, digits).sqrt() + Decimal(start))

    return min(1.0, float_up(tighten(formula).hi))


def quantile_above(chance: Fraction) -> float:
    """A float z that is certainly not below Φ⁻¹(p), and within a few units of rounding of it; infinite for p near 1."""
    guess = float(ndtri(float(chance)))
    step = math.ulp(guess) if math.isfinite(guess) else math.inf
    while math.isfinite(guess) and normal_probability(Enclosure.of(Decimal(guess), 50)).lo < chance:
        guess, step = guess + step, 2 * step
    return guess


def normal_probability(x: Enclosure) -> Enclosure:
    """Φ(x) by Mills' ratio, enclosed."""
    return Enclosure(_normal_at(x.lo, x.digits).lo, _normal_at(x.hi, x.digits).hi, x.digits)


def level_of(level: Exact) -> Fraction:
    """A level as an exact number from 0 to 1."""
    number = exact(level, "level")
    if number != 0 and not LEAST_LEVEL <= number <= 1:
        raise ParameterError("level-out-of-range", found=str(number)[:60])
    return number


def _by_epsilon(epsilon: Fraction, delta: Fraction, level: Fraction) -> float:
    """Both sides of the inequality: the test that rejects, and the one that does not."""

    def rejecting(digits: int) -> Enclosure:
        return Enclosure.of(epsilon, digits).exp() * level + delta

    def keeping(digits: int) -> Enclosure:
        return 1 - (-Enclosure.of(epsilon, digits)).exp() * (1 - level - delta)

    return max(float_up(level), min(1.0, float_up(tighten(rejecting).hi), float_up(tighten(keeping).hi)))


def _normal_at(x: Decimal, digits: int) -> Enclosure:
    point = Enclosure(x, x, digits)
    if x < 0:
        return density(point) * mills_ratio(-point)
    return 1 - density(point) * mills_ratio(point)


# From posterior to posterior: how much one record can change what somebody believes after seeing the release.
#
# Somebody with any beliefs about the records sees a release, and asks for the probability of some statement about
# them. Compare it with the probability if the same release had been made with one record replaced (Kasiviswanathan &
# Smith 2014; Kifer et al. 2022). The prior cancels, and the ratio is at most
#
# * pure ε: e^(2ε), always, one e^ε for the likelihood and one for what it is divided by;
# * ρ-zCDP: e^(2ε) but for a probability of at most δ(1 + e^−ε) ≤ 2δ, with the ε of Bun & Steinke at δ, for either
#   direction of the ratio. Mixtures keep ρ, because Rényi divergences are quasi-convex: so beliefs about other
# records do   not matter. The expected logarithm of the ratio is at most ρ.
#
# Probabilities and expectations are over what is true, by the prior, and what is then released. The odds between two
# given data sets that are neighbours move less, by e^ε. Derivation: ``docs/proofs/privacy-curves.md``, section 6.


@dataclass(frozen=True, slots=True)
class PosteriorFactor:
    """A bound for the ratio of two posterior probabilities."""

    epsilon: float
    """The ε of which the logarithm of the ratio is at most twice; rounded up."""
    exceeded: float
    """The probability that the ratio is larger, at most; rounded up. Zero under pure ε."""
    expected_log_ratio: Fraction
    """The expected logarithm of the ratio is at most this."""

    @property
    def log_factor(self) -> float:
        return 2 * self.epsilon

    @property
    def words(self) -> str:
        """The factor itself, to three digits and rounded up."""
        return factor(self.log_factor)

    def as_dict(self) -> dict[str, Any]:
        return {
            "log_factor": self.log_factor,
            "factor": self.words,
            "exceeded_with_probability_at_most": self.exceeded,
            "expected_log_ratio_at_most": float_up(self.expected_log_ratio),
        }


def posterior_factor(loss: PureDP | ZCDP, delta: Exact = "1e-10") -> PosteriorFactor:
    """By how much one record can multiply a posterior probability; ``delta`` is used for zCDP alone.

    Args:
        loss: The loss of a release.
        delta: Where a loss in zCDP is stated.

    Returns:
        A bound for the logarithm of the factor, and how often it is exceeded.

    >>> posterior_factor(PureDP("1/2")).words
    '2.72'
    >>> print(f"{posterior_factor(ZCDP('2.56')).log_factor:.4f}")
    35.8306
    """
    if isinstance(loss, PureDP):
        # A pure ε is ε²/2-zCDP (Bun & Steinke 2016, Proposition 1.4), and no log-likelihood ratio exceeds ε.
        return PosteriorFactor(float_up(loss.epsilon), 0.0, min(loss.epsilon, loss.epsilon**2 / 2))
    chance = as_delta(delta)
    epsilon = bun_steinke_epsilon(loss.rho, chance)

    def exceeded(digits: int) -> Enclosure:
        return ((-Enclosure.of(Decimal(epsilon), digits)).exp() + 1) * chance

    return PosteriorFactor(epsilon, min(1.0, float_up(tighten(exceeded).hi)) if loss.rho else 0.0, loss.rho)
