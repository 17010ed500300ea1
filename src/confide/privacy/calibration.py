"""From noise to loss and back: exact, in both directions.

=================== ============================== ============================== ==============================
distribution        P[noise = k] proportional to   loss                           parameter for a loss
=================== ============================== ============================== ==============================
discrete Gaussian   exp(−k²/2σ²)                   ρ = Δ₂²/(2σ²)                  σ² = Δ₂²/(2ρ)
geometric           exp(−ε|k|)                     pure Δ₁ε, or ρ = Δ₂²ε²/2       ε = (pure loss)/Δ₁
=================== ============================== ============================== ==============================

The first line is Canonne, Kamath & Steinke (2020); the second Ghosh, Roughgarden & Sundararajan (2012), and
for ρ the conversion of each cell followed by composition over the cells, which is smaller than (Δ₁ε)²/2. Noise is
independent from cell to cell. Derivation: ``docs/proofs/accounting.md``, section 2.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from confide.errors import Finding, ParameterError
from confide.exact import Exact, positive
from confide.privacy.definitions import ZCDP, PureDP
from confide.privacy.sensitivity import Sensitivity


class Distribution(StrEnum):
    """The noise laws that a loss is known for."""

    DISCRETE_GAUSSIAN = "discrete-gaussian"
    GEOMETRIC = "two-sided-geometric"


def gaussian_loss(sigma2: Exact, sensitivity: Sensitivity) -> ZCDP:
    """The loss of discrete Gaussian noise with parameter σ² in every cell."""
    return ZCDP(sensitivity.l2_squared / (2 * positive(sigma2, "sigma2")))


def gaussian_sigma2(loss: ZCDP, sensitivity: Sensitivity) -> Fraction:
    """The σ² with which discrete Gaussian noise costs ``loss``."""
    return sensitivity.l2_squared / (2 * _spendable(loss.rho, "rho"))


def geometric_loss(epsilon: Exact, sensitivity: Sensitivity) -> PureDP:
    """The pure loss of geometric noise with parameter ε in every cell."""
    return PureDP(sensitivity.l1 * positive(epsilon, "epsilon"))


def geometric_zcdp_loss(epsilon: Exact, sensitivity: Sensitivity) -> ZCDP:
    """The zCDP loss of geometric noise with parameter ε in every cell: a cell that changes by c costs (cε)²/2."""
    return ZCDP(sensitivity.l2_squared * positive(epsilon, "epsilon") ** 2 / 2)


def geometric_epsilon(loss: PureDP, sensitivity: Sensitivity) -> Fraction:
    """The ε per cell with which geometric noise costs ``loss``."""
    return _spendable(loss.epsilon, "epsilon") / sensitivity.l1


def _spendable(value: Fraction, name: str) -> Fraction:
    if value == 0:
        raise ParameterError(
            Finding(
                code="nothing-to-spend",
                what="no finite noise has a loss of zero",
                found=f"{name} = 0",
                expected=f"a positive {name}",
                remedy="leave the measurement out of the plan, or give it a share of the budget",
            )
        )
    return value
