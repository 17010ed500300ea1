"""Neighbours and privacy losses: what a release promises, in exact numbers.

Write M(D) for what a mechanism publishes from the data set D. A promise compares M(D) with M(D') for every pair of
*neighbours*, data sets that differ by one record. Three kinds of promise are known here (all logarithms natural):

* pure ε: P[M(D) in S] ≤ exp(ε) P[M(D') in S] for every set S of outputs (Dwork, McSherry, Nissim & Smith 2006);
* ρ-zCDP: the Rényi divergence of every order α > 1 is at most αρ (Bun & Steinke 2016);
* approximate (ε, δ): P[M(D) in S] ≤ exp(ε) P[M(D') in S] + δ.

A loss is a value: exact, frozen, added and compared within its own kind only.
Derivations: ``docs/proofs/accounting.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Self

from confide.errors import ParameterError
from confide.exact import Exact, exact, integer, nonnegative, positive
from confide.noise.distributions import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric


class Neighbours(StrEnum):
    """Which pairs of data sets a promise compares."""

    ADD_REMOVE = "add-remove"
    """One record is there or not ("unbounded"): the number of records is protected too."""
    CHANGE_ONE = "change-one"
    """One record has other values ("bounded"): the number of records is taken as known."""


class Definition(StrEnum):
    """The kind of a promise."""

    PURE = "pure"
    ZCDP = "zcdp"
    APPROXIMATE = "approximate"


class PrivacyLoss(ABC):
    """What the three kinds have in common. Zero is a loss: that of a mechanism that does not look at the data."""

    __slots__ = ()
    definition: ClassVar[Definition]

    @abstractmethod
    def parameters(self) -> dict[str, Fraction]:
        """The numbers of the promise by name, in the order of the constructor."""

    @classmethod
    @abstractmethod
    def zero(cls) -> Self:
        """The loss of publishing nothing."""

    def __add__(self, other: PrivacyLoss) -> Self:
        """The loss of two mechanisms on the same data (basic composition, which for zCDP is addition of ρ)."""
        ours, theirs = self._paired(other, "added")
        return type(self)(*(a + b for a, b in zip(ours, theirs, strict=True)))

    def __sub__(self, other: PrivacyLoss) -> Self:
        """What is left of a budget. A loss that does not fit is refused: there is no negative loss."""
        ours, theirs = self._paired(other, "subtracted")
        if not other <= self:
            raise ParameterError(
                "loss-exceeds-budget",
                "the loss is larger than what it is taken from",
                found=str(other),
                expected=f"at most {self}",
                remedy="plan less, or start from a larger budget",
            )
        return type(self)(*(a - b for a, b in zip(ours, theirs, strict=True)))

    def __mul__(self, factor: int | Fraction) -> Self:
        """The same loss several times, or a share of a budget."""
        share = nonnegative(factor, "factor")
        return type(self)(*(share * value for value in self.parameters().values()))

    __rmul__ = __mul__

    def __le__(self, other: PrivacyLoss) -> bool:
        """Whether this promise implies the other: no parameter is larger. For (ε, δ) the order is partial."""
        ours, theirs = self._paired(other, "compared")
        return all(a <= b for a, b in zip(ours, theirs, strict=True))

    def __lt__(self, other: PrivacyLoss) -> bool:
        return self <= other and self != other

    def __ge__(self, other: PrivacyLoss) -> bool:
        return other <= self

    def __gt__(self, other: PrivacyLoss) -> bool:
        return other < self

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} = {value}" for name, value in self.parameters().items())
        return f"{self.definition.value} {numbers}"

    def as_dict(self) -> dict[str, str]:
        """Plain strings, exact: ``{"definition": "zcdp", "rho": "64/25"}``."""
        return {"definition": self.definition.value} | {n: str(v) for n, v in self.parameters().items()}

    def _paired(self, other: object, verb: str) -> tuple[list[Fraction], list[Fraction]]:
        if not isinstance(other, PrivacyLoss) or type(other) is not type(self):
            found = other.definition.value if isinstance(other, PrivacyLoss) else type(other).__name__
            raise ParameterError(
                "losses-of-two-kinds",
                f"a {self.definition.value} loss is {verb} with something that is not one",
                found=found,
                expected=f"a {self.definition.value} loss",
                remedy="convert one of them first; every conversion is a function that says what it gives away",
            )
        return list(self.parameters().values()), list(other.parameters().values())


@dataclass(frozen=True, init=False, slots=True)
class PureDP(PrivacyLoss):
    """Pure ε-differential privacy."""

    definition: ClassVar[Definition] = Definition.PURE
    epsilon: Fraction

    def __init__(self, epsilon: Exact) -> None:
        object.__setattr__(self, "epsilon", nonnegative(epsilon, "epsilon"))

    def parameters(self) -> dict[str, Fraction]:
        return {"epsilon": self.epsilon}

    @classmethod
    def zero(cls) -> Self:
        return cls(0)

    def to_zcdp(self) -> ZCDP:
        """ε-DP implies ε²/2-zCDP (Bun & Steinke 2016, Proposition 1.4)."""
        return ZCDP(self.epsilon**2 / 2)

    def to_approximate(self) -> ApproxDP:
        """ε-DP is (ε, 0)-DP."""
        return ApproxDP(self.epsilon, 0)


@dataclass(frozen=True, init=False, slots=True)
class ZCDP(PrivacyLoss):
    """ρ-zero-concentrated differential privacy. For ε at a δ see :mod:`confide.privacy.conversion`."""

    definition: ClassVar[Definition] = Definition.ZCDP
    rho: Fraction

    def __init__(self, rho: Exact) -> None:
        object.__setattr__(self, "rho", nonnegative(rho, "rho"))

    def parameters(self) -> dict[str, Fraction]:
        return {"rho": self.rho}

    @classmethod
    def zero(cls) -> Self:
        return cls(0)


@dataclass(frozen=True, init=False, slots=True)
class ApproxDP(PrivacyLoss):
    """(ε, δ)-differential privacy, with 0 ≤ δ ≤ 1."""

    definition: ClassVar[Definition] = Definition.APPROXIMATE
    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Exact, delta: Exact) -> None:
        object.__setattr__(self, "epsilon", nonnegative(epsilon, "epsilon"))
        # A sum of δs beyond 1 promises as much as δ = 1, which is nothing.
        object.__setattr__(self, "delta", min(nonnegative(delta, "delta"), Fraction(1)))

    def parameters(self) -> dict[str, Fraction]:
        return {"epsilon": self.epsilon, "delta": self.delta}

    @classmethod
    def zero(cls) -> Self:
        return cls(0, 0)


_KINDS: dict[str, type[PureDP | ZCDP | ApproxDP]] = {kind.definition.value: kind for kind in (PureDP, ZCDP, ApproxDP)}


def loss_from_dict(values: Mapping[str, Any]) -> PureDP | ZCDP | ApproxDP:
    """The loss that :meth:`PrivacyLoss.as_dict` wrote."""
    kind = _KINDS.get(str(values.get("definition")))
    names = set() if kind is None else set(kind.zero().parameters())
    if kind is None or set(values) != names | {"definition"}:
        raise ParameterError(
            "unknown-loss",
            "this is not a privacy loss",
            found=", ".join(f"{name}={value}" for name, value in sorted(values.items()))[:200],
            expected="definition pure with epsilon, zcdp with rho, or approximate with epsilon and delta",
            remedy="correct the entry, or read it with the version of Confide that wrote it",
        )
    return kind(**{name: exact(values[name], name) for name in names})


# From noise to loss and back: exact, in both directions.
#
# =================== ============================== ============================== ==============================
# distribution        P[noise = k] proportional to   loss                           parameter for a loss
# =================== ============================== ============================== ==============================
# discrete Gaussian   exp(−k²/2σ²)                   ρ = Δ₂²/(2σ²)                  σ² = Δ₂²/(2ρ)
# geometric           exp(−ε|k|)                     pure Δ₁ε, or ρ = Δ₂²ε²/2       ε = (pure loss)/Δ₁
# =================== ============================== ============================== ==============================
#
# The first line is Canonne, Kamath & Steinke (2020); the second Ghosh, Roughgarden & Sundararajan (2012), and
# for ρ the conversion of each cell followed by composition over the cells, which is smaller than (Δ₁ε)²/2. Noise is
# independent from cell to cell. Derivation: ``docs/proofs/accounting.md``, section 2.


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
