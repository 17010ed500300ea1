"""From posterior to posterior: how much one record can change what somebody believes after seeing the release.

Somebody with any beliefs about the records sees a release, and asks for the probability of some statement about them.
Compare it with the probability if the same release had been made with one record replaced (Kasiviswanathan & Smith
2014; Kifer et al. 2022). The prior cancels, and the ratio is at most

* pure ε: e^(2ε), always, one e^ε for the likelihood and one for what it is divided by;
* ρ-zCDP: e^(2ε) but for a probability of at most δ(1 + e^−ε) ≤ 2δ, with the ε of Bun & Steinke at δ, for either
  direction of the ratio. Mixtures keep ρ, because Rényi divergences are quasi-convex: so beliefs about other records do
  not matter. The expected logarithm of the ratio is at most ρ.

Probabilities and expectations are over what is true, by the prior, and what is then released. The odds between two
given data sets that are neighbours move less, by e^ε. Derivation: ``docs/proofs/privacy-curves.md``, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from confide.exact import Exact
from confide.privacy.conversion import bun_steinke_epsilon, probability
from confide.privacy.definitions import ZCDP, PureDP
from confide.privacy.directed import Enclosure, float_up, tighten
from confide.privacy.statements import factor


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

    >>> posterior_factor(PureDP("1/2")).words
    '2.72'
    >>> print(f"{posterior_factor(ZCDP('2.56')).log_factor:.4f}")
    35.8306
    """
    if isinstance(loss, PureDP):
        # A pure ε is ε²/2-zCDP (Bun & Steinke 2016, Proposition 1.4), and no log-likelihood ratio exceeds ε.
        return PosteriorFactor(float_up(loss.epsilon), 0.0, min(loss.epsilon, loss.epsilon**2 / 2))
    chance = probability(delta)
    epsilon = bun_steinke_epsilon(loss.rho, chance)

    def exceeded(digits: int) -> Enclosure:
        return ((-Enclosure.of(Decimal(epsilon), digits)).exp() + 1) * chance

    return PosteriorFactor(epsilon, min(1.0, float_up(tighten(exceeded).hi)) if loss.rho else 0.0, loss.rho)
