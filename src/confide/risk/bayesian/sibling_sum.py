"""The noise of a sum of siblings: d discrete Gaussians, and the one discrete Gaussian that stands in for them.

Kazan and Reiter (equation 3.7) replace the sum of d noises with weights exp(−ρk²) by one with weights exp(−(ρ/d)k²).
The exact law differs from it by a factor that depends on k modulo d alone,

  P(sum = k) ∝ exp(−(ρ/d)k²) · c_d(k mod d),   c_d(k) = Σ exp(−ρ|n − (k/d)·1|²) over n ∈ Z^d with Σn = k,

because adding (1, …, 1) to n maps the lattice points of k to those of k + d. The factors of a + b noises follow from
those of a and of b (``docs/proofs/bayesian-hierarchy.md``, section 1), without any underflow.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from confide.risk.bayesian.counts import FloatArray, IntArray

NEGLIGIBLE = 46.0
"""Terms smaller than exp(−46), about 1e-20, of the largest are left out of sums."""


class SiblingNoise(StrEnum):
    """Which law the sum of the siblings' noises is taken to have."""

    APPROXIMATE = "approximate"
    EXACT = "exact"


def gaussian_window(precision: float) -> tuple[IntArray, FloatArray]:
    """Values and probabilities of noise with weights exp(−precision·k²); less than 1e-17 is cut off.

    >>> values, probabilities = gaussian_window(0.5)
    >>> int(values[0]), int(values[-1]), round(float(probabilities[values == 0][0]), 6)
    (-10, 10, 0.398942)
    """
    half = ceil(sqrt(NEGLIGIBLE / precision))
    values = np.arange(-half, half + 1, dtype=np.int64)
    weights = np.exp(-precision * values.astype(np.float64) ** 2)
    return values, weights / weights.sum()


@lru_cache(maxsize=64)
def log_periodic_factor(rho: float, siblings: int) -> FloatArray:
    """ln c_d(k) for k = 0..d−1, up to a constant: what the exact law of the sum adds to its stand-in."""
    if siblings == 1:
        return np.zeros(1)
    small = siblings // 2
    factor = _combined(log_periodic_factor(rho, small), log_periodic_factor(rho, siblings - small), rho)
    factor.setflags(write=False)
    return factor


def _combined(one: FloatArray, other: FloatArray, rho: float) -> FloatArray:
    """c_{a+b}(k) = Σ_i exp(−ρ(a+b)/(ab)·(i − ak/(a+b))²)·c_a(i mod a)·c_b((k−i) mod b), in logarithms."""
    a, b = len(one), len(other)
    slack = float(np.ptp(one) + np.ptp(other))
    precision = rho * (a + b) / (a * b)
    half = ceil(sqrt((NEGLIGIBLE + slack) / precision)) + 1
    k = np.arange(a + b, dtype=np.int64)[:, None]
    i = np.rint(a * k / (a + b)).astype(np.int64) + np.arange(-half, half + 1)
    terms = -precision * (i - a * k / (a + b)) ** 2 + one[i % a] + other[(k - i) % b]
    top = terms.max(axis=1, keepdims=True)
    summed: FloatArray = top[:, 0] + np.log(np.exp(terms - top).sum(axis=1))
    shifted: FloatArray = summed - summed.max()
    return shifted


def sibling_window(rho: float, siblings: int, noise: SiblingNoise) -> tuple[IntArray, FloatArray]:
    """Values and probabilities of the noise of the siblings' sum."""
    values, probabilities = gaussian_window(rho / siblings)
    if noise is SiblingNoise.APPROXIMATE:
        return values, probabilities
    weights = probabilities * np.exp(log_periodic_factor(rho, siblings)[values % siblings])
    return values, weights / weights.sum()


def approximation_error(rho: float, siblings: int) -> float:
    """The total variation distance between the sum of d noises and the one that stands in for it (S2)."""
    exact_law = sibling_window(rho, siblings, SiblingNoise.EXACT)[1]
    return float(np.abs(exact_law - gaussian_window(rho / siblings)[1]).sum() / 2)
