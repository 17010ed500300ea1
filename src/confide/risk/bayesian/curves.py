"""Curves of the risk at one level, as rows for pictures: exact values, no simulation.

The figures are those of Kazan and Reiter (2024): posterior and risk over the released count (1) and over rho (2), the
right decision over rho (3), and what it adds to know the target unique at more levels (7).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from confide.exact import Exact, exact
from confide.privacy import Neighbours
from confide.risk.bayesian.comparison import Comparison
from confide.risk.bayesian.noise_pmf import compare, gaussian_for
from confide.risk.bayesian.one_level import assess, checked_priors, risk_at
from confide.risk.bayesian.sequential import combined

Rows = list[dict[str, Any]]

PRIORS = ("1/2", "1/5", "1/10", "1/50", "1/864")
"""The five adversaries of the paper. It prints the last two as 1/10; its tables have 1/50 and 1/864."""

_POINTS = 120


def by_released(comparison: Comparison, priors: Sequence[Exact], first: int = -10, last: int = 12) -> Rows:
    """Posterior and ``R'`` at released values, less the known count (Figure 1)."""
    values = range(first, last + 1)
    return [
        {"prior": str(p), "released": value, "posterior": float(p) * float(ratio), "risk_at": float(ratio)}
        for p, line in zip(checked_priors(priors), risk_at(comparison, priors, values), strict=True)
        for value, ratio in zip(values, line, strict=True)
    ]


def by_rho(
    priors: Sequence[Exact],
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    lowest: Exact = "1/100",
    highest: Exact = 10,
    points: int = _POINTS,
) -> Rows:
    """Expected posterior, risk and right decisions over rho (Figures 2 and 3), on a logarithmic grid."""
    low, high = exact(lowest, "lowest"), exact(highest, "highest")
    rows: Rows = []
    for step in range(points + 1):
        # A grid point is any number close to the curve's next one; what is computed at it is exact.
        rho = Fraction(float(low) * (float(high) / float(low)) ** (step / points)).limit_denominator(10**6)
        for found in assess(compare(gaussian_for(rho, neighbours)), priors):
            rows.append(
                {
                    "rho": float(rho),
                    "prior": str(found.prior),
                    "posterior": found.marginal_posterior,
                    "risk": found.risk,
                    "threshold": found.decision.region.smallest,
                    "given_1": found.decision.given_1,
                    "given_0": found.decision.given_0,
                    "average": found.decision.average,
                }
            )
    return rows


def by_levels(comparisons: Sequence[Comparison], priors: Sequence[Exact]) -> Rows:
    """Expected posterior and risk from the first 1, 2, ... noisy counts (Figure 7)."""
    return [
        {"levels": used, "prior": str(found.prior), "posterior": found.marginal_posterior, "risk": found.risk}
        for used in range(1, len(comparisons) + 1)
        for found in combined(comparisons[:used], priors)
    ]
