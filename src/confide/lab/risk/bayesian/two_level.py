"""The adversary who also uses the count one level up: exact posteriors in place of a Gibbs sampler.

Kazan and Reiter (section 3.2): the target's block has the count X1, which is ``known`` or ``known`` + 1; the d other
blocks have Y = X2 − X1 ≥ 0 together. Published are X1* with weights exp(−ρ1(x1*−X1)²), X2* with exp(−ρ2(x2*−X2)²), and
the siblings, whose sum y* has exp(−(ρ1/d)(y*−Y)²). With the prior p for X1 and π for Y (supplement, S3.4),

  log odds = logit p + ρ1(2x1*−1) + ln S(1) − ln S(0),   S(k) = Σ_z π_k(z)·exp{−ρ2(x2*−k−z)² − (ρ1/d)(y*−z)²}

for a known count of 0. Completing the square, S(k) = exp(−w(x2*−k−y*)²)·Σ_z π_k(z)·exp(−a(z−c_k)²) with a = ρ2 + ρ1/d,
w = 1/(1/ρ2 + d/ρ1): a sum of a few dozen terms. Where the boundary Y ≥ 0 is far, what is left is w(2(x2*−y*)−1), so
that the adversary is one without hierarchy whose noise has ρ1 + w. Derivation: ``docs/proofs/bayesian-hierarchy.md``.

The paper's printed numbers are not those of this joint law but those of a sampler whose step for X1 draws from (3.8)
whatever X2 is; its stationary law is :attr:`Variant.UNRESTRICTED`, which is here to reproduce them alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import ceil, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from confide.errors import ParameterError
from confide.exact import Exact, probability
from confide.lab.risk.bayesian import counts

_AT_ONCE = 1 << 16
_PLAIN = 600.0
"""Log odds below which probabilities can be computed as they are, which is faster."""


Terms = tuple[counts.IntArray, counts.FloatArray]
"""z, and the logarithms of the terms of S(k), a row for each release."""


class Variant(StrEnum):
    """What the adversary computes from the released counts."""

    STATED = "stated"
    """The posterior of the joint law as it is stated: X1 ≤ X2 holds."""
    UNRESTRICTED = "unrestricted"
    """The law that a sampler settles in if its step for X1 forgets X1 ≤ X2; reproduces the paper's figures."""
    WITHOUT = "without-hierarchy"
    """X1* alone."""


@dataclass(frozen=True, init=False)
class TwoLevel:
    """An adversary with hierarchical information. Counts come as whole numbers or arrays of them.

    >>> adversary = TwoLevel("0.099226354", "0.24648451", siblings=27)
    >>> round(float(adversary.posterior(2, 1, -1)), 6)
    0.503288
    """

    rho1: Fraction
    rho2: Fraction
    siblings: int
    prior: Fraction
    known: int
    parent: counts.ParentPrior
    noise: counts.SiblingNoise

    def __init__(
        self,
        rho1: Exact,
        rho2: Exact,
        siblings: int,
        prior: Exact = Fraction(1, 2),
        *,
        known: int = 0,
        parent: counts.ParentPrior | None = None,
        noise: counts.SiblingNoise = counts.SiblingNoise.APPROXIMATE,
    ):
        values = {
            "rho1": counts.bounded_rho(rho1, "rho1"),
            "rho2": counts.bounded_rho(rho2, "rho2"),
            "siblings": counts.checked_count(siblings, "the number of siblings", lowest=1, highest=10**5),
            "prior": probability(prior, "the prior probability"),
            "known": counts.checked_count(known, "the known count"),
            "parent": parent or counts.FlatParent(),
            "noise": counts.SiblingNoise(noise),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self._rest(0) is None and self._rest(1) is None:
            raise ParameterError("impossible-prior", known=known)

    @property
    def weight(self) -> Fraction:
        """w = 1/(1/ρ2 + d/ρ1): what the parent and the siblings add, exactly."""
        return 1 / (1 / self.rho2 + self.siblings / self.rho1)

    @property
    def effective_rho(self) -> Fraction:
        """ρ1 + w: the noise of an equally strong adversary without hierarchy, far from the boundary; ≤ ρ1(1+1/d)."""
        return self.rho1 + self.weight

    @property
    def logit(self) -> float:
        """ln(p/(1−p))."""
        return counts.logarithm(self.prior / (1 - self.prior))

    @property
    def terms(self) -> int:
        """How many terms a sum S(k) has."""
        return max(self._width(0), self._width(1))

    def log_odds(
        self, x1: ArrayLike, x2: ArrayLike, y: ArrayLike, variant: Variant = Variant.STATED
    ) -> counts.FloatArray:
        """ln of P(X1 = known+1 | D)/P(X1 = known | D), for every released (x1*, x2*, y*).

        Args:
            x1: Released counts of the block, whole numbers of either sign.
            x2: Released counts of the parent.
            y: Released sums of the siblings' counts.
            variant: What the adversary computes.

        Returns:
            An array of the shape that the three are broadcast to.
        """
        shifted, above, rest = np.broadcast_arrays(*(counts.released_counts(value) for value in (x1, x2, y)))
        own = self.logit + float(self.rho1) * (2.0 * (shifted - self.known) - 1)
        if variant is Variant.WITHOUT:
            return own
        flat = own.reshape(-1)
        compute = self._stated if variant is Variant.STATED else self._unrestricted
        pieces = [
            compute(flat[part], parent, siblings, absent, present)
            for part, parent, siblings, absent, present in self._parts(above.reshape(-1), rest.reshape(-1))
        ]
        return np.concatenate(pieces).reshape(own.shape) if pieces else own

    def posterior(
        self, x1: ArrayLike, x2: ArrayLike, y: ArrayLike, variant: Variant = Variant.STATED
    ) -> counts.FloatArray:
        """P(X1 = known+1 | D), for every released (x1*, x2*, y*).

        Args:
            x1: Released counts of the block, whole numbers of either sign.
            x2: Released counts of the parent.
            y: Released sums of the siblings' counts.
            variant: What the adversary computes.

        Returns:
            An array of the shape that the three are broadcast to.

        >>> TwoLevel("0.0992", "0.2465", siblings=27).posterior([0, 2], 1, -1).round(4).tolist()
        [0.4052, 0.5033]
        """
        probability: counts.FloatArray = expit(self.log_odds(x1, x2, y, variant))
        return probability

    def law_of_parent(self, x1: int, x2: int, y: int, variant: Variant = Variant.STATED) -> counts.CountLaw:
        """P(X2 = k | D), for one released (x1*, x2*, y*).

        Args:
            x1: The released count of the block.
            x2: The released count of the parent.
            y: The released sum of the siblings' counts.
            variant: What the adversary computes.

        Returns:
            The posterior law of the parent's count.

        >>> round(TwoLevel("0.0992", "0.2465", siblings=27).law_of_parent(2, 1, -1).mean, 4)
        1.5961
        """
        present = float(self.posterior(x1, x2, y, variant))
        above, rest = counts.released_counts(x2).reshape(1), counts.released_counts(y).reshape(1)
        laws: dict[int, float] = {}
        for step, share in ((0, 1 - present), (1, present)):
            if share == 0:
                continue
            z, terms = self._terms(step, above, rest)
            chances = share * np.exp(terms[0] - counts.log_sum(terms)[0])
            for count, chance in zip((z[0] + self.known + step).tolist(), chances.tolist(), strict=True):
                laws[count] = laws.get(count, 0.0) + chance
        inside = [count for count, chance in laws.items() if chance > 0]
        first, last = min(inside), max(inside)
        return counts.CountLaw(first, np.array([laws.get(count, 0.0) for count in range(first, last + 1)]))

    # With Y's noise of weights exp(−v·k²), v = ρ1/d, the terms of S(k) have curvature a and their peak near c_k.

    @cached_property
    def _v(self) -> float:
        return float(self.rho1 / self.siblings)

    @cached_property
    def _a(self) -> float:
        return float(self.rho2 + self.rho1 / self.siblings)

    @cached_property
    def _factor(self) -> counts.FloatArray | None:
        if self.noise is counts.SiblingNoise.APPROXIMATE:
            return None
        return counts.log_periodic_factor(float(self.rho1), self.siblings)

    @cached_property
    def _half(self) -> int:
        """J with a·J(J−1) beyond what is negligible: terms further from the peak are left out."""
        slack = 0.0 if self._factor is None else float(np.ptp(self._factor))
        return ceil(0.5 + sqrt(0.25 + (counts.NEGLIGIBLE + slack) / self._a))

    def _rest(self, step: int) -> counts.CountPrior | None:
        return self.parent.rest(self.known + step)

    def _parts(
        self, x2: counts.IntArray, y: counts.IntArray
    ) -> Iterator[tuple[slice, counts.IntArray, counts.IntArray, Terms, Terms]]:
        size = max(1, _AT_ONCE // self.terms)
        for start in range(0, len(x2), size):
            part = slice(start, start + size)
            yield part, x2[part], y[part], self._terms(0, x2[part], y[part]), self._terms(1, x2[part], y[part])

    def _width(self, step: int) -> int:
        rest, widest = self._rest(step), 2 * self._half + 1
        if rest is None or rest.last is None:
            return widest
        support = rest.last - rest.first + 1
        return support if rest.mode(np.zeros(1), self._a) is None else min(support, widest)

    def _terms(self, step: int, x2: counts.IntArray, y: counts.IntArray) -> Terms:
        """z, and ln of π_k(z)·exp(−a(z−c_k)²), a row for each (x2*, y*)."""
        rest = self._rest(step)
        above = x2 - (self.known + step)
        if rest is None:
            return np.zeros((len(x2), 1), np.int64), np.full((len(x2), 1), -np.inf)
        centre = above + self._v / self._a * (y - above)
        mode = rest.mode(centre, self._a)
        if rest.last is not None and (mode is None or rest.last - rest.first <= 2 * self._half):
            z = np.arange(rest.first, rest.last + 1, dtype=np.int64)[None, :]
        else:
            assert mode is not None
            z = mode[:, None] + np.arange(-self._half, self._half + 1)
        terms = rest.log_weight(z) - self._a * (z - centre[:, None]) ** 2
        if self._factor is not None:
            terms = terms + self._factor[(y[:, None] - z) % self.siblings]
        return np.broadcast_to(z, terms.shape), terms

    def _stated(
        self,
        own: counts.FloatArray,
        x2: counts.IntArray,
        y: counts.IntArray,
        absent: Terms,
        present: Terms,
    ) -> counts.FloatArray:
        squares = float(self.weight) * (2.0 * (x2 - self.known - y) - 1)
        return own + squares + counts.log_sum(present[1]) - counts.log_sum(absent[1])

    def _unrestricted(
        self,
        own: counts.FloatArray,
        x2: counts.IntArray,
        y: counts.IntArray,
        absent: Terms,
        present: Terms,
    ) -> counts.FloatArray:
        """The two-state chain X1 → X2 → X1 settles where P(0→1)/P(1→0) are the odds.

        An X1 that the law of X2 excludes altogether is never entered.
        """
        del x2
        if self._rest(0) is None or self._rest(1) is None:
            return np.full(len(y), np.inf if self._rest(0) is None else -np.inf)
        moves: list[counts.FloatArray] = []
        for step, (z, terms), sign in ((0, absent, 1.0), (1, present, -1.0)):
            log_odds = own[:, None] + self._log_ratio(z + step, y[:, None])
            if np.abs(log_odds).max() < _PLAIN:
                weights = np.exp(terms - terms.max(axis=1, keepdims=True))
                moves.append(np.log((weights * expit(sign * log_odds)).sum(axis=1) / weights.sum(axis=1)))
            else:
                moves.append(counts.log_sum(terms - np.logaddexp(0.0, -sign * log_odds)) - counts.log_sum(terms))
        return moves[0] - moves[1]

    def _log_ratio(self, above: counts.IntArray, y: counts.IntArray) -> counts.FloatArray:
        """ln of P(y* | Y = k−1)/P(y* | Y = k): what (3.8) says of X1 if X2 − known is k, beyond x1*."""
        ratio = self._v * (2 * (above - y) - 1).astype(np.float64)
        if self._factor is not None:
            ratio = ratio + self._factor[(y - above + 1) % self.siblings] - self._factor[(y - above) % self.siblings]
        return ratio


# What least squares, clamping and rounding leave of the risk (Kazan and Reiter, supplement S6).
#
# The post-processed block count, given the published parent's count x̃2, is
#
#   x̄ = (d·x1* + x̃2 − y*)/(d+1),   clamped to [0, x̃2] and rounded to a whole number x̃1.
#
# The adversary knows the true parent's count x2, and sees x̃1. The law of x̃1 given X1 is summed over all (x1*, y*), in
# whole numbers: with N = d·x1* + x̃2 − y*, the clamping and rounding of N/(d+1) involve no floating point.
#
# x̄ is an affine function of x1* − y*/d, which is sufficient for X1 if x2 is known: least squares alone loses nothing,
# and the risk of x̃1 lies below that of (x1*, y*) together, an adversary with ρ1(1+1/d); it need not lie below that of
# x1* alone. Derivation: ``docs/proofs/bayesian-hierarchy.md``, section 5.


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
