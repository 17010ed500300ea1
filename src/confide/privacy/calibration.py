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

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from confide.errors import ParameterError
from confide.exact import Exact, integer, positive
from confide.noise.distributions import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.privacy.definitions import ZCDP, Definition, Neighbours, PrivacyLoss, PureDP

# Sensitivity: how far one record can move the answers of a query.
#
# A query counts records in cells. Write q(D) for the vector of counts. Its L1 sensitivity is the largest sum of
# absolute changes, its squared L2 sensitivity the largest sum of squared changes, over all neighbours D and D'.
#
# One record adds a vector v of zeros and ones with at most *degree* ones: 1 for a marginal, whose cells are a
# partition, more where a record belongs to several groups. Adding or removing it changes q by v. Changing it into
# another changes q by v' − v, whose entries are −1, 0 or 1, at most 2·degree of them different from zero. As every
# change is at most one, the L1 and the squared L2 sensitivity are the same number. Derivation:
# ``docs/proofs/accounting.md``, section 1.


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The L1 sensitivity Δ₁ and the squared L2 sensitivity Δ₂² of a counting query: integers."""

    l1: int
    l2_squared: int


def bounded_degree(degree: int, neighbours: Neighbours) -> Sensitivity:
    """Sensitivity of a query in which each record counts, once, in at most ``degree`` cells.

    Args:
        degree: At least one.
        neighbours: What the guarantee compares.

    >>> bounded_degree(3, Neighbours.CHANGE_ONE)
    Sensitivity(l1=6, l2_squared=6)
    """
    changed = integer(degree, "degree") * (2 if neighbours is Neighbours.CHANGE_ONE else 1)
    return Sensitivity(l1=changed, l2_squared=changed)


def partition_marginal(neighbours: Neighbours) -> Sensitivity:
    """Sensitivity of a marginal: each record counts in at most one cell.

    >>> partition_marginal(Neighbours.ADD_REMOVE)
    Sensitivity(l1=1, l2_squared=1)
    >>> partition_marginal(Neighbours.CHANGE_ONE)
    Sensitivity(l1=2, l2_squared=2)
    """
    return bounded_degree(1, neighbours)


class Distribution(StrEnum):
    """The noise laws that a loss is known for."""

    DISCRETE_GAUSSIAN = "discrete-gaussian"
    GEOMETRIC = "two-sided-geometric"


def gaussian_loss(sigma2: Exact, sensitivity: Sensitivity) -> ZCDP:
    """The loss of discrete Gaussian noise with parameter σ² in every cell: ρ = Δ₂²/(2σ²).

    Args:
        sigma2: Exact and above zero.
        sensitivity: How far one record can move the counts.

    >>> gaussian_loss(4, partition_marginal(Neighbours.CHANGE_ONE))
    ZCDP(rho=Fraction(1, 4))
    """
    return ZCDP(sensitivity.l2_squared / (2 * positive(sigma2, "sigma2")))


def gaussian_sigma2(loss: ZCDP, sensitivity: Sensitivity) -> Fraction:
    """The σ² with which discrete Gaussian noise costs ``loss``: the inverse of :func:`gaussian_loss`.

    Args:
        loss: Above zero.
        sensitivity: How far one record can move the counts.

    >>> gaussian_sigma2(ZCDP("1/4"), partition_marginal(Neighbours.CHANGE_ONE))
    Fraction(4, 1)
    """
    return sensitivity.l2_squared / (2 * _spendable(loss.rho, "rho"))


def geometric_loss(epsilon: Exact, sensitivity: Sensitivity) -> PureDP:
    """The pure loss of geometric noise with parameter ε in every cell: Δ₁ε.

    Args:
        epsilon: ε per cell, exact and above zero.
        sensitivity: How far one record can move the counts.

    >>> geometric_loss("1/2", partition_marginal(Neighbours.CHANGE_ONE))
    PureDP(epsilon=Fraction(1, 1))
    """
    return PureDP(sensitivity.l1 * positive(epsilon, "epsilon"))


def geometric_zcdp_loss(epsilon: Exact, sensitivity: Sensitivity) -> ZCDP:
    """The zCDP loss of geometric noise with parameter ε in every cell: a cell that changes by c costs (cε)²/2."""
    return ZCDP(sensitivity.l2_squared * positive(epsilon, "epsilon") ** 2 / 2)


def geometric_epsilon(loss: PureDP, sensitivity: Sensitivity) -> Fraction:
    """The ε per cell with which geometric noise costs ``loss``: the inverse of :func:`geometric_loss`.

    Args:
        loss: Above zero.
        sensitivity: How far one record can move the counts.

    >>> geometric_epsilon(PureDP(1), partition_marginal(Neighbours.CHANGE_ONE))
    Fraction(1, 2)
    """
    return _spendable(loss.epsilon, "epsilon") / sensitivity.l1


def calibrate(loss: PrivacyLoss, neighbours: Neighbours) -> NoiseDistribution:
    """The noise with which a marginal costs ``loss``: discrete Gaussian for zCDP, two-sided geometric for pure.

    Args:
        loss: What one marginal, in which each record counts in at most one cell, may cost.
        neighbours: What the guarantee compares.

    >>> calibrate(ZCDP("1/8"), Neighbours.CHANGE_ONE)
    DiscreteGaussian('8')
    """
    sensitivity = partition_marginal(neighbours)
    if isinstance(loss, ZCDP):
        return DiscreteGaussian(gaussian_sigma2(loss, sensitivity))
    if isinstance(loss, PureDP):
        return TwoSidedGeometric(geometric_epsilon(loss, sensitivity))
    raise TypeError(f"no noise is calibrated for {loss}")


def budget_of(definition: Definition, amount: Exact) -> PrivacyLoss:
    """A budget as a loss: ρ for zCDP, otherwise pure ε.

    >>> budget_of(Definition.ZCDP, "2.56")
    ZCDP(rho=Fraction(64, 25))
    """
    return ZCDP(amount) if definition is Definition.ZCDP else PureDP(amount)


def _spendable(value: Fraction, name: str) -> Fraction:
    if value == 0:
        raise ParameterError(
            "nothing-to-spend",
            "no finite noise has a loss of zero",
            found=f"{name} = 0",
            expected=f"a positive {name}",
            remedy="leave the measurement out of the plan, or give it a share of the budget",
        )
    return value
