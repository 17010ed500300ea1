"""Evidence against a law: the logarithm of the mean of a density over the interval that a draw stands for.

For a density w on the unit interval, the mean of w over the interval from P(X < x) to P(X ≤ x) has the mean one under
the law of X, whatever it is. A product of such numbers over independent draws, or a mean of such products, exceeds 1/a
with probability at most a (Markov; Vovk and Wang 2021).
"""

from __future__ import annotations

from math import lgamma, log

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from confide.arrays import Floats

ALARM = 1e-6
"""The probability that noise as planned fails an audit."""
KINDS = 10
"""The tests that share it: five of laws, five of independence."""
SCALES = (0.97, 1.03, 0.94, 1.06, 0.85, 1.18, 0.6, 1.7, 0.2, 5.0)
"""The wrong scales that evidence is gathered for."""
TILTS = tuple(sign * size for size in (0.02, 0.06, 0.2, 0.6, 0.95) for sign in (-1, 1))
DEGREES = range(1, 9)
CONCENTRATIONS = (30.0, 300.0, 3e3, 3e4, 3e5)


def scale_evidence(below: Floats, at: Floats, over: Floats) -> Floats:
    """For each wrong scale, as a Gaussian and as a Laplace variable would have it, the evidence of each draw.

    Args:
        below: P(X < x) of each draw.
        at: P(X = x), above zero.
        over: P(X > x).

    Returns:
        Alternatives x draws: logarithms.
    """
    # Both densities are symmetric, so the interval may be counted from the nearer end, where no digit is lost.
    near = np.minimum(below, over)
    end = np.minimum(near + at, 1.0)
    rows = []
    for scale in SCALES:
        gaussian = ndtr(ndtri(end) / scale) - ndtr(ndtri(near) / scale)
        laplace = _laplace(end, scale) - _laplace(near, scale)
        rows += [gaussian / at, laplace / at]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(np.stack(rows), 0.0)))


def likelihood_evidence(at: Floats, at_wrong: Floats) -> Floats:
    """The same for laws whose version with a wrong scale is known: the likelihood ratio, in both rows of a scale.

    Args:
        at: P(X = x) of each draw, above zero, given whatever it is given.
        at_wrong: Scales x draws: the same with each wrong scale.
    """
    with np.errstate(divide="ignore"):
        ratios = np.log(at_wrong) - np.log(at)
    return np.asarray(np.repeat(ratios, 2, axis=0))


def _laplace(u: Floats, scale: float) -> Floats:
    """The probability below the u-quantile of a Laplace variable, of one with another scale."""
    half = 0.5 * (2 * np.minimum(u, 1 - u)) ** (1 / scale)
    return np.where(u < 0.5, half, 1 - half)


def shape_evidence(below: Floats, at: Floats, over: Floats) -> Floats:
    """The same for densities 1 + t P_k(2 u - 1), P_k the Legendre polynomial of degree k."""
    first, last = 2 * below - 1, 1 - 2 * over
    width = 2 * at
    middle = (first + last) / 2
    one, other, centre = _legendre(first), _legendre(last), _legendre(middle)
    rows = []
    for k in DEGREES:
        # The antiderivative of P_k is (P_{k+1} - P_{k-1}) / (2 k + 1).
        area = (other[k + 1] - other[k - 1] - one[k + 1] + one[k - 1]) / (2 * k + 1)
        mean = np.where(width > 1e-6, area / np.maximum(width, 1e-6), centre[k])
        mean = np.clip(mean, -1.0, 1.0)
        rows += [np.log1p(tilt * mean) for tilt in TILTS]
    return np.stack(rows)


def _legendre(v: Floats) -> list[Floats]:
    """P_0 to P_{k+1} at v."""
    values = [np.ones_like(v), v]
    for k in range(1, DEGREES[-1] + 1):
        values.append(((2 * k + 1) * v * values[-1] - k * values[-2]) / (k + 1))
    return values


def value_evidence(counts: Floats, probabilities: Floats) -> float:
    """Against a small law, from how often its values came out: a Dirichlet mixture around it by the law itself (log).

    Args:
        counts: How often each value was drawn.
        probabilities: What the law says, above zero, with the sum one.

    Returns:
        The logarithm of a number whose mean under the law is one.
    """
    draws = float(counts.sum())
    plain = float(counts @ np.log(probabilities))
    logs = []
    for concentration in CONCENTRATIONS:
        prior = concentration * probabilities
        gains = sum(lgamma(a + c) - lgamma(a) for a, c in zip(prior.tolist(), counts.tolist(), strict=True) if c)
        logs.append(lgamma(concentration) - lgamma(concentration + draws) + gains - plain)
    return float(logsumexp(logs) - log(len(logs)))


def mixed(logs: Floats) -> float:
    """The logarithm of the mean of numbers that are given by their logarithms."""
    return float(logsumexp(logs) - log(len(logs)))
