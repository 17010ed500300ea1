"""Suppression: threshold, probability and bias (paper, section 5.3.2), from the discrete laws themselves.

A group below the states that gets a total alone is released if its noisy total n + X is above T. T is the smallest
whole number with P(X ≤ T) ≥ p, so that a true zero is suppressed with a probability of at least p. Hence

* P(suppressed | n) = P(X ≤ T − n),
* bias(n) = E[X | X > T − n].

The paper's equation 13 gives the bias of a continuous Gaussian; here it is summed over the integers. With t = T − n and
u = max(t + 1, −t) the terms from t + 1 to u − 1 cancel in pairs, so that Σ_{x > t} x P(x) = Σ_{x ≥ u} x P(x): all terms
are positive, and double precision loses nothing.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1, sqrt

import numpy as np

from confide.noise import DiscreteGaussian, Law, TwoSidedGeometric

_FAR = 12.0  # what lies twelve standard deviations further out is below 1e-30 of the sum


def suppression_threshold(law: Law, zero_suppression: Fraction) -> int | None:
    """T: a noisy total is released if it is above; None if nothing is suppressed."""
    return law.quantile(zero_suppression) if zero_suppression else None


def suppression_probability(law: Law, threshold: int, size: int) -> float:
    """The probability that a group of ``size`` persons is suppressed, correctly rounded."""
    return law.cdf(threshold - size)


def release_bias(law: Law, threshold: int, size: int) -> float:
    """By how much the released total of a group of ``size`` persons exceeds the truth on average."""
    t = threshold - size
    first = max(t + 1, -t)
    weight, moment = _tail_sums(law, first)
    # Beyond the middle both sums have the same unit, the probability of the first term, and it need not be known.
    return moment / weight if t >= 0 else moment * law.pmf(first) / law.tail(t)


def _tail_sums(law: Law, first: int) -> tuple[float, float]:
    """Σ P(x)/P(first) and Σ x P(x)/P(first) over x ≥ ``first`` ≥ 1."""
    if isinstance(law, TwoSidedGeometric):
        epsilon = float(law.epsilon)
        stay = -expm1(-epsilon)
        return 1 / stay, (first + exp(-epsilon) / stay) / stay
    assert isinstance(law, DiscreteGaussian)
    sigma2 = float(law.sigma2)
    steps = np.arange(int(_FAR * sqrt(sigma2)) + 3, dtype=np.float64)
    # (first + k)² − first² = k(2·first + k), so that nothing large is subtracted.
    weights = np.exp(-steps * (2 * first + steps) / (2 * sigma2))
    return float(np.sum(weights)), float(np.sum(weights * (first + steps)))
