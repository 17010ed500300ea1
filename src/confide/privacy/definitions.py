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
from confide.exact import Exact, exact, nonnegative


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
