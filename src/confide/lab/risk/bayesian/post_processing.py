"""What least squares, clamping and rounding leave of the risk (Kazan and Reiter, supplement S6).

The post-processed block count, given the published parent's count x̃2, is

  x̄ = (d·x1* + x̃2 − y*)/(d+1),   clamped to [0, x̃2] and rounded to a whole number x̃1.

The adversary knows the true parent's count x2, and sees x̃1. The law of x̃1 given X1 is summed over all (x1*, y*), in
whole numbers: with N = d·x1* + x̃2 − y*, the clamping and rounding of N/(d+1) involve no floating point.

x̄ is an affine function of x1* − y*/d, which is sufficient for X1 if x2 is known: least squares alone loses nothing, and
the risk of x̃1 lies below that of (x1*, y*) together, an adversary with ρ1(1+1/d); it need not lie below that of x1*
alone. Derivation: ``docs/proofs/bayesian-hierarchy.md``, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
from scipy.special import expit

from confide.exact import Exact, probability
from confide.lab.risk.bayesian import counts

_AT_ONCE = 1 << 21


class HalfRounding(StrEnum):
    """Where halves go."""

    HALF_EVEN = "half-even"
    HALF_UP = "half-up"


@dataclass(frozen=True)
class PostProcessedRisk:
    """The risk of a post-processed count: the mean posterior probability of the truth, over the prior."""

    risk: float
    """R of (S6.8), for a target who is present."""
    present: counts.CountLaw
    """The law of x̃1 if the target is present."""
    absent: counts.CountLaw
    """The law of x̃1 if not."""
    posterior: counts.FloatArray
    """P(X1 = known + 1 | x̃1), for x̃1 = 0..x̃2; the prior where x̃1 cannot occur."""


@dataclass(frozen=True, init=False)
class PostProcessing:
    """An adversary who knows the parent's true count ``x2`` and sees post-processed counts.

    >>> adversary = PostProcessing("0.099226354", siblings=27)
    >>> round(adversary.risk(10).risk, 6), round(adversary.bound(), 6)
    (1.041723, 1.049005)
    """

    rho1: Fraction
    siblings: int
    prior: Fraction
    x2: int
    known: int
    rounding: HalfRounding
    noise: counts.SiblingNoise

    def __init__(
        self,
        rho1: Exact,
        siblings: int,
        prior: Exact = Fraction(1, 2),
        *,
        x2: int = 1,
        known: int = 0,
        rounding: HalfRounding = HalfRounding.HALF_EVEN,
        noise: counts.SiblingNoise = counts.SiblingNoise.APPROXIMATE,
    ):
        values = {
            "rho1": counts.bounded_rho(rho1, "rho1"),
            "siblings": counts.checked_count(siblings, "the number of siblings", lowest=1, highest=10**5),
            "prior": probability(prior, "the prior probability"),
            "known": counts.checked_count(known, "the known count"),
            "x2": counts.checked_count(x2, "the true count of the parent", lowest=known + 1),
            "rounding": HalfRounding(rounding),
            "noise": counts.SiblingNoise(noise),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def effective_rho(self) -> Fraction:
        """ρ1(1+1/d), of x1* and y* together if x2 is known."""
        return self.rho1 * (1 + Fraction(1, self.siblings))

    def risk(self, published: int) -> PostProcessedRisk:
        """The risk of x̃1 if the parent's count is published as ``published``, x̃2.

        Args:
            published: The published count of the parent, from 0 to a million.

        Returns:
            R, the laws of x̃1 with the target and without, and the posterior at each x̃1.
        """
        counts.checked_count(published, "the published count of the parent", highest=10**6)
        absent, present = (self._law(self.known + step, published) for step in (0, 1))
        p = float(self.prior)
        mixed = p * present + (1 - p) * absent
        posterior = np.where(mixed > 0, p * present / np.where(mixed > 0, mixed, 1.0), p)
        return PostProcessedRisk(
            float(posterior @ present) / p, counts.CountLaw(0, present), counts.CountLaw(0, absent), posterior
        )

    def without(self) -> float:
        """R of x1* alone: the paper's line without post-processing."""
        noise, law = counts.gaussian_window(float(self.rho1))
        return float(law @ expit(self._logit + float(self.rho1) * (2.0 * noise + 1))) / float(self.prior)

    def bound(self) -> float:
        """R of x1* and y* together with x2: nothing computed from them can exceed it."""
        v = float(self.rho1) / self.siblings
        noise, law = counts.gaussian_window(float(self.rho1))
        rest, rest_law = counts.sibling_window(float(self.rho1), self.siblings, self.noise)
        # With X1 = known + 1, x1* = X1 + noise and y* = x2 − X1 + rest; if absent, y* would have the noise rest − 1.
        own = self._logit + float(self.rho1) * (2.0 * noise + 1)
        beside = v * (1.0 - 2.0 * rest)
        if self.noise is counts.SiblingNoise.EXACT:
            factor = counts.log_periodic_factor(float(self.rho1), self.siblings)
            beside = beside + factor[rest % self.siblings] - factor[(rest - 1) % self.siblings]
        mean = sum(float(share) * float(rest_law @ expit(odds + beside)) for share, odds in zip(law, own, strict=True))
        return mean / float(self.prior)

    @property
    def _logit(self) -> float:
        return counts.logarithm(self.prior / (1 - self.prior))

    def _law(self, x1: int, published: int) -> counts.FloatArray:
        """P(x̃1 = 0..x̃2 | X1 = x1)."""
        noise, law = counts.gaussian_window(float(self.rho1))
        rest, rest_law = counts.sibling_window(float(self.rho1), self.siblings, self.noise)
        probabilities = np.zeros(published + 1)
        rows = max(1, _AT_ONCE // len(rest))
        for start in range(0, len(noise), rows):
            part = slice(start, start + rows)
            top = self.siblings * (noise[part] + x1)[:, None] + (published - (self.x2 - x1) - rest)
            weights = law[part, None] * rest_law
            values = self.rounded(top, published)
            probabilities += np.bincount(values.ravel(), weights.ravel(), minlength=published + 1)
        return probabilities

    def rounded(self, numerator: counts.IntArray, published: int) -> counts.IntArray:
        """numerator/(d+1), clamped to [0, x̃2] and rounded, in whole numbers."""
        parts = self.siblings + 1
        inside = np.clip(numerator, 0, parts * published)
        below, over = np.divmod(inside, parts)
        up = 2 * over > parts
        halves = 2 * over == parts
        chosen: counts.IntArray = below + (up | (halves & ((below % 2 == 1) | (self.rounding is HalfRounding.HALF_UP))))
        return chosen
