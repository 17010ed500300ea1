"""What a loss protects from, in five figures for somebody who has to decide.

- epsilon at a delta, and the sentence that says what it means (:class:`confide.releases.loss_account.StatedPrice`);
- the power of the best test at a level of 5 %: how often it notices what is there, if it cries wolf in one of twenty
  cases where nothing is;
- the belief of somebody who knows everybody else: from a prior p, how far it rises on average where it is right. With
  Q₁, Q₀ the laws of what is released with and without what they ask for, the posterior expected under Q₁ is

      E p x / (p x + 1 − p),  x = Q₁/Q₀,   at most   p F / (p F + 1 − p),  F = E x = exp D₂(Q₁ ‖ Q₀),

  as the left side is concave in x; and D₂ is at most 2ρ, or min(ε, ε²). Derivation: ``docs/proofs/bayesian-risk.md``;
- the reconstruction bound: how often somebody who knows everybody else guesses a whole record right, at most, if a
  guess without the release is right with probability p. It is the power of the best test at the level p: whether the
  guess is right is a test of this record against any other. Derivation: ``docs/proofs/privacy-curves.md``, section 7;
- what others spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from confide.answers import TypedAnswer
from confide.exact import Exact, probability
from confide.lab.risk.testing.level_power import pure_power
from confide.lab.risk.testing.loss_test import zcdp_power
from confide.privacy import ZCDP, Neighbours, PureDP
from confide.releases.loss_account import StatedPrice, Yardstick

LEVEL = Fraction(1, 20)


@dataclass(frozen=True)
class StatedProtection(TypedAnswer):
    """What a loss protects from."""

    price: StatedPrice
    prior: Fraction
    power: float
    """The largest power of a test at :data:`LEVEL`."""
    posterior: float
    """The belief expected where it is right, at most."""
    reconstruction: float
    """How often a record is guessed right, at most, if a blind guess is right with the prior as its probability."""

    @property
    def yardsticks(self) -> tuple[Yardstick, ...]:
        """What others spent, at the same delta."""
        return _yardsticks(self.price.delta)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        price = self.price
        return {
            "loss": price.loss.as_dict(),
            "neighbours": price.neighbours.value,
            "epsilon": price.epsilon,
            "delta": str(price.delta) if price.has_delta else None,
            "in_words": price.in_words,
            "level": str(LEVEL),
            "power": self.power,
            "prior": str(self.prior),
            "expected_posterior": self.posterior,
            "reconstruction": self.reconstruction,
            "yardsticks": [yardstick.as_dict() for yardstick in self.yardsticks],
        }


def protection(
    loss: ZCDP | PureDP,
    neighbours: Neighbours,
    *,
    delta: Fraction = Fraction(1, 10**10),
    prior: Exact = "0.01",
    unit: str = "person",
    not_protected: tuple[str, ...] = (),
) -> StatedProtection:
    """What a loss protects from.

    Args:
        loss: What a release spends.
        neighbours: What is hidden.
        delta: At which epsilon is stated, for zCDP.
        prior: What somebody who knows everybody else believes beforehand.
        unit: What one record describes.
        not_protected: The parts of a record that invariants give away, or leave less of, in words.

    Returns:
        The figures; all of them are bounds.

    >>> figures = protection(ZCDP("1/2"), Neighbours.CHANGE_ONE)
    >>> f"{figures.price.epsilon:.2f}, {figures.power:.3f}, {figures.posterior:.4f}"
    '6.84, 0.336, 0.0267'
    >>> f"{figures.reconstruction:.3f}"
    '0.125'
    """
    return _protection(loss, neighbours, delta, probability(prior, "prior"), unit, not_protected)


def expected_posterior(loss: ZCDP | PureDP, prior: Exact) -> float:
    """How far a belief rises on average where it is right, at most.

    Args:
        loss: What a release spends.
        prior: The belief beforehand.

    Returns:
        The largest expected posterior.

    >>> expected_posterior(ZCDP("0.5"), "1/2") == math.e / (math.e + 1)
    True
    """
    belief = float(probability(prior, "prior"))
    divergence = 2 * loss.rho if isinstance(loss, ZCDP) else min(loss.epsilon, loss.epsilon**2)
    # p F / (p F + 1 − p) with F = exp(D), written so that a large D does no harm.
    return belief / (belief + (1 - belief) * math.exp(-float(divergence)))


@lru_cache(maxsize=4096)
def _protection(
    loss: ZCDP | PureDP,
    neighbours: Neighbours,
    delta: Fraction,
    prior: Fraction,
    unit: str,
    not_protected: tuple[str, ...],
) -> StatedProtection:
    price = StatedPrice(loss, neighbours, delta, unit, not_protected=not_protected)
    return StatedProtection(price, prior, _power(loss, LEVEL), expected_posterior(loss, prior), _power(loss, prior))


@lru_cache(maxsize=4096)
def _power(loss: ZCDP | PureDP, level: Fraction) -> float:
    return zcdp_power(loss.rho, level) if isinstance(loss, ZCDP) else pure_power(loss.epsilon, level)


@lru_cache(maxsize=64)
def _yardsticks(delta: Fraction) -> tuple[Yardstick, ...]:
    return tuple(StatedPrice(ZCDP(1), Neighbours.CHANGE_ONE, delta, "person").yardsticks())
