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

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DivisionByZero, InvalidOperation
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeAlias

from confide.errors import ParameterError
from confide.exact import Exact, exact, integer, nonnegative, positive
from confide.noise.distributions import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric


class Neighbours(StrEnum):
    """Which pairs of data sets a promise compares."""

    ADD_REMOVE = "add-remove"
    """One record is there or not ("unbounded"): the number of records is protected too."""
    CHANGE_ONE = "change-one"
    """One record has other values ("bounded"): the number of records is taken as known."""


class PrivacyUnit(StrEnum):
    """What a promise, or an account, is about: what comes, goes or is changed between two neighbours."""

    RECORD = "record"
    """A row of the records, whatever it describes."""
    PERSON = "person"
    """One person, with everything that would be otherwise in all records without it."""
    HOUSEHOLD = "household"
    """One household: a row of a file of households."""


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
            raise ParameterError("loss-exceeds-budget", found=str(other), value=self)
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
            raise ParameterError("losses-of-two-kinds", found=found, definition=self.definition.value, verb=verb)
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
    """The loss that :meth:`PrivacyLoss.as_dict` wrote.

    Args:
        values: Plain values with a ``definition``.

    Returns:
        The loss.

    >>> loss_from_dict({"definition": "zcdp", "rho": "1/2"})
    ZCDP(rho=Fraction(1, 2))
    """
    kind = _KINDS.get(str(values.get("definition")))
    names = set() if kind is None else set(kind.zero().parameters())
    if kind is None or set(values) != names | {"definition"}:
        raise ParameterError(
            "unknown-loss", found=", ".join((f"{name}={value}" for name, value in sorted(values.items())))[:200]
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

    Returns:
        The L1 and the squared L2 sensitivity.

    >>> bounded_degree(3, Neighbours.CHANGE_ONE)
    Sensitivity(l1=6, l2_squared=6)
    """
    changed = integer(degree, "degree") * (2 if neighbours is Neighbours.CHANGE_ONE else 1)
    return Sensitivity(l1=changed, l2_squared=changed)


def partition_marginal(neighbours: Neighbours) -> Sensitivity:
    """Sensitivity of a marginal: each record counts in at most one cell.

    Args:
        neighbours: What the guarantee compares.

    Returns:
        The L1 and the squared L2 sensitivity.

    >>> partition_marginal(Neighbours.ADD_REMOVE)
    Sensitivity(l1=1, l2_squared=1)
    >>> partition_marginal(Neighbours.CHANGE_ONE)
    Sensitivity(l1=2, l2_squared=2)
    """
    return bounded_degree(1, neighbours)


@dataclass(frozen=True, init=False, slots=True)
class StatedSensitivity:
    """Sensitivities that a proof states: of one unit of privacy that comes or goes, and of one that is changed.

    Unless stated otherwise, a change is taken to be the worst of a removal and an addition, both of which may move the
    same cells the same way: twice in L1, four times in squared L2. Counts are whole, so L1 ≤ squared L2 ≤ (L1)².
    """

    l1: int
    l2_squared: int
    changed_l1: int
    changed_l2_squared: int

    def __init__(
        self, l1: int, l2_squared: int, changed_l1: int | None = None, changed_l2_squared: int | None = None
    ) -> None:
        changed_l1 = 2 * l1 if changed_l1 is None else changed_l1
        changed_l2_squared = 4 * l2_squared if changed_l2_squared is None else changed_l2_squared
        stated = l1, l2_squared, changed_l1, changed_l2_squared
        for name, value in zip(self.__slots__, stated, strict=True):
            object.__setattr__(self, name, integer(value, name))
        possible = all(one <= square <= one**2 for one, square in ((l1, l2_squared), (changed_l1, changed_l2_squared)))
        if not possible or changed_l1 > 2 * l1 or changed_l2_squared > 4 * l2_squared:
            raise ParameterError("impossible-sensitivity", found=", ".join(map(str, stated)))

    @property
    def added(self) -> Sensitivity:
        """Of one unit that comes or goes."""
        return Sensitivity(self.l1, self.l2_squared)

    @property
    def changed(self) -> Sensitivity:
        """Of one unit that is changed into another."""
        return Sensitivity(self.changed_l1, self.changed_l2_squared)

    def of(self, neighbours: Neighbours) -> Sensitivity:
        """Of two neighbours."""
        return self.changed if neighbours is Neighbours.CHANGE_ONE else self.added

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """What :meth:`as_dict` wrote, among other values."""
        return cls(*(values[name] for name in cls.__slots__))


class Distribution(StrEnum):
    """The noise laws that a loss is known for."""

    DISCRETE_GAUSSIAN = "discrete-gaussian"
    GEOMETRIC = "two-sided-geometric"


def gaussian_loss(sigma2: Exact, sensitivity: Sensitivity) -> ZCDP:
    """The loss of discrete Gaussian noise with parameter σ² in every cell: ρ = Δ₂²/(2σ²).

    Args:
        sigma2: Exact and above zero.
        sensitivity: How far one record can move the counts.

    Returns:
        The loss, exact.

    >>> gaussian_loss(4, partition_marginal(Neighbours.CHANGE_ONE))
    ZCDP(rho=Fraction(1, 4))
    """
    return ZCDP(sensitivity.l2_squared / (2 * positive(sigma2, "sigma2")))


def gaussian_sigma2(loss: ZCDP, sensitivity: Sensitivity) -> Fraction:
    """The σ² with which discrete Gaussian noise costs ``loss``: the inverse of :func:`gaussian_loss`.

    Args:
        loss: Above zero.
        sensitivity: How far one record can move the counts.

    Returns:
        σ², exact.

    >>> gaussian_sigma2(ZCDP("1/4"), partition_marginal(Neighbours.CHANGE_ONE))
    Fraction(4, 1)
    """
    return sensitivity.l2_squared / (2 * _spendable(loss.rho, "rho"))


def geometric_loss(epsilon: Exact, sensitivity: Sensitivity) -> PureDP:
    """The pure loss of geometric noise with parameter ε in every cell: Δ₁ε.

    Args:
        epsilon: ε per cell, exact and above zero.
        sensitivity: How far one record can move the counts.

    Returns:
        The loss, exact.

    >>> geometric_loss("1/2", partition_marginal(Neighbours.CHANGE_ONE))
    PureDP(epsilon=Fraction(1, 1))
    """
    return PureDP(sensitivity.l1 * positive(epsilon, "epsilon"))


def geometric_zcdp_loss(epsilon: Exact, sensitivity: Sensitivity) -> ZCDP:
    """The zCDP loss of geometric noise with parameter ε in every cell: a cell that changes by c costs (cε)²/2.

    Args:
        epsilon: ε per cell, exact and above zero.
        sensitivity: How far one record can move the counts.

    Returns:
        The loss, exact.

    >>> geometric_zcdp_loss("1/2", partition_marginal(Neighbours.CHANGE_ONE))
    ZCDP(rho=Fraction(1, 4))
    """
    return ZCDP(sensitivity.l2_squared * positive(epsilon, "epsilon") ** 2 / 2)


def geometric_epsilon(loss: PureDP, sensitivity: Sensitivity) -> Fraction:
    """The ε per cell with which geometric noise costs ``loss``: the inverse of :func:`geometric_loss`.

    Args:
        loss: Above zero.
        sensitivity: How far one record can move the counts.

    Returns:
        ε per cell, exact.

    >>> geometric_epsilon(PureDP(1), partition_marginal(Neighbours.CHANGE_ONE))
    Fraction(1, 2)
    """
    return _spendable(loss.epsilon, "epsilon") / sensitivity.l1


def calibrate(loss: PrivacyLoss, neighbours: Neighbours) -> NoiseDistribution:
    """The noise with which a marginal costs ``loss``: discrete Gaussian for zCDP, two-sided geometric for pure.

    Args:
        loss: What one marginal, in which each record counts in at most one cell, may cost.
        neighbours: What the guarantee compares.

    Returns:
        The distribution of the noise of each cell.

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

    Args:
        definition: The definition that a ledger or a spec names.
        amount: The budget, exact: a text, a Fraction or a whole number.

    Returns:
        The loss of that definition.

    >>> budget_of(Definition.ZCDP, "2.56")
    ZCDP(rho=Fraction(64, 25))
    """
    return ZCDP(amount) if definition is Definition.ZCDP else PureDP(amount)


def _spendable(value: Fraction, name: str) -> Fraction:
    if value == 0:
        raise ParameterError("nothing-to-spend", name=name)
    return value


# Directed rounding: real numbers enclosed between two decimals.
#
# An :class:`Enclosure` holds lo ≤ x ≤ hi for a real number x. Every operation rounds lo down and hi up at its number of
# digits, so the enclosure of a result contains the result, whatever happened on the way. ``+ − × ÷`` round in the
# direction asked for. ``exp``, ``ln`` and ``sqrt`` of Python's decimal arithmetic (the General Decimal Arithmetic
# specification) are correctly rounded to nearest, so one unit in the last place more on each side encloses them. No
# binary floating point takes part until the end, where :func:`float_up` and :func:`float_down` keep the direction.


Number: TypeAlias = "Enclosure | Decimal | Fraction | int"
_MOST_DIGITS = 1280
_NEGLIGIBLE = Decimal("1e-400")  # below every positive float: more digits would not be seen


@lru_cache(maxsize=32)
def _contexts(digits: int) -> tuple[Context, Context]:
    def context(rounding: str) -> Context:
        return Context(digits, rounding, MIN_EMIN, MAX_EMAX, traps=[InvalidOperation, DivisionByZero])

    return context(ROUND_FLOOR), context(ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """lo ≤ x ≤ hi, computed on with ``digits`` significant digits."""

    lo: Decimal
    hi: Decimal
    digits: int

    @classmethod
    def of(cls, value: Number, digits: int) -> Enclosure:
        """The enclosure of an exact number: a point wherever the digits suffice."""
        if isinstance(value, Enclosure):
            return value
        if isinstance(value, Decimal):
            return cls(value, value, digits)
        down, up = _contexts(digits)
        above, below = Decimal(value.numerator), Decimal(value.denominator)
        return cls(down.divide(above, below), up.divide(above, below), digits)

    def __add__(self, other: Number) -> Enclosure:
        that, (down, up) = self.of(other, self.digits), _contexts(self.digits)
        return Enclosure(down.add(self.lo, that.lo), up.add(self.hi, that.hi), self.digits)

    def __neg__(self) -> Enclosure:
        return Enclosure(self.hi.copy_negate(), self.lo.copy_negate(), self.digits)

    def __sub__(self, other: Number) -> Enclosure:
        return self + -self.of(other, self.digits)

    def __rsub__(self, other: Number) -> Enclosure:
        return -self + other

    def __mul__(self, other: Number) -> Enclosure:
        that, (down, up) = self.of(other, self.digits), _contexts(self.digits)
        if self.lo >= 0 and that.lo >= 0:
            return Enclosure(down.multiply(self.lo, that.lo), up.multiply(self.hi, that.hi), self.digits)
        ends = [(a, b) for a in (self.lo, self.hi) for b in (that.lo, that.hi)]
        return Enclosure(
            min(down.multiply(a, b) for a, b in ends), max(up.multiply(a, b) for a, b in ends), self.digits
        )

    def __truediv__(self, other: Number) -> Enclosure:
        that, (down, up) = self.of(other, self.digits), _contexts(self.digits)
        if that.lo <= 0 <= that.hi:
            raise ZeroDivisionError("the divisor may be zero")
        one = Decimal(1)
        if self.lo >= 0 and that.lo > 0:
            return Enclosure(down.divide(self.lo, that.hi), up.divide(self.hi, that.lo), self.digits)
        return self * Enclosure(down.divide(one, that.hi), up.divide(one, that.lo), self.digits)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rtruediv__(self, other: Number) -> Enclosure:
        return self.of(other, self.digits) / self

    def sqrt(self) -> Enclosure:
        down, up = _contexts(self.digits)
        low = down.next_minus(down.sqrt(self.lo)) if self.lo > 0 else Decimal(0)
        return Enclosure(low, up.next_plus(up.sqrt(self.hi)), self.digits)

    def ln(self) -> Enclosure:
        down, up = _contexts(self.digits)
        return Enclosure(down.next_minus(down.ln(self.lo)), up.next_plus(up.ln(self.hi)), self.digits)

    def exp(self) -> Enclosure:
        down, up = _contexts(self.digits)
        low = max(down.next_minus(down.exp(self.lo)), Decimal(0))
        return Enclosure(low, up.next_plus(up.exp(self.hi)), self.digits)

    def is_tight(self, places: int = 25) -> bool:
        """Whether lo and hi agree to ``places`` significant digits."""
        return self.hi - self.lo <= max(abs(self.lo), abs(self.hi)).scaleb(-places)


def tighten(formula: Callable[[int], Enclosure], digits: int = 50) -> Enclosure:
    """The formula with as many digits as it takes: cancellation costs digits, never correctness."""
    while True:
        result = formula(digits)
        if result.is_tight() or abs(result.hi) < _NEGLIGIBLE or digits >= _MOST_DIGITS:
            return result
        digits *= 2


@lru_cache(maxsize=32)
def pi(digits: int) -> Enclosure:
    """π = 16 arctan(1/5) − 4 arctan(1/239) (Machin), in integers: a sum of n floored terms is within n + 1 units."""
    unit = 10 ** (digits + 5)

    def arctan_of_inverse(x: int) -> tuple[int, int]:
        total, power, k = 0, unit // x, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= x * x
            k += 1
        return total, 2 * k + 2

    first, doubt = arctan_of_inverse(5)
    second, more = arctan_of_inverse(239)
    middle, radius = 16 * first - 4 * second, 16 * doubt + 4 * more
    low, high = Fraction(middle - radius, unit), Fraction(middle + radius, unit)
    return Enclosure(Enclosure.of(low, digits).lo, Enclosure.of(high, digits).hi, digits)


def float_up(value: Decimal | Fraction) -> float:
    """The smallest float that is not below ``value``."""
    nearest = float(value)
    # decimals are compared as decimals: 1e-10000000 as a fraction would have ten million digits
    enough = Decimal(nearest) >= value if isinstance(value, Decimal) else Fraction(nearest) >= value
    return nearest if enough else math.nextafter(nearest, math.inf)


def float_down(value: Decimal | Fraction) -> float:
    """The largest float that is not above ``value``."""
    return -float_up(value.copy_negate() if isinstance(value, Decimal) else -value)


# The normal tail, enclosed: Mills' ratio R(x) = Q(x)/φ(x) with Q(x) = P[N(0,1) > x].
#
# R turns the curve of the Gaussian mechanism into a difference without large powers (see
# :mod:`confide.privacy.conversion`), and it is what the two classical expansions give directly:
#
# * x ≥ 3: Laplace's continued fraction R(x) = 1/T₀ with T_k = x + (k+1)/T_{k+1}. Every tail has
#   x ≤ T_n ≤ x + (n+1)/x; going back from that interval encloses R, and every step contracts it.
# * 0 ≤ x < 3: R(x) = 1/(2φ(x)) − Σ x^{2k+1}/(1·3·5···(2k+1)), all terms positive; once x²/(2k+3) ≤ 1/2, the rest of the
#   sum is at most the last term.
# * x < 0: R(x) = 1/φ(x) − R(−x).
#
# R falls, so an enclosure of x gives one of R(x) from its ends. Derivation: ``docs/proofs/accounting.md``, section
# 4.3.


_SWITCH = 3


def mills_ratio(x: Enclosure) -> Enclosure:
    """R(x), enclosed."""
    if x.lo == x.hi:
        return _at(x.lo, x.digits)
    return Enclosure(_at(x.hi, x.digits).lo, _at(x.lo, x.digits).hi, x.digits)


def density(x: Enclosure) -> Enclosure:
    """φ(x) = exp(−x²/2)/√(2π), enclosed."""
    return 1 / _inverse_density(x)


def _inverse_density(x: Enclosure) -> Enclosure:
    return (x * x / 2).exp() * (2 * pi(x.digits)).sqrt()


def _at(x: Decimal, digits: int) -> Enclosure:
    point = Enclosure(x, x, digits)
    if x < 0:
        return _inverse_density(point) - _at(x.copy_negate(), digits)
    return _by_fraction(point) if x >= _SWITCH else _by_series(point)


def _by_fraction(x: Enclosure) -> Enclosure:
    terms = _terms(float(x.lo), x.digits)
    low, high = x, x + (terms + 1) / x
    tail = Enclosure(low.lo, high.hi, x.digits)
    for k in range(terms, 0, -1):
        tail = x + k / tail
    return 1 / tail


def _terms(x: float, digits: int) -> int:
    """How many steps shrink the interval enough: step k by k/T_k², with T_k about x/2 + √(x²/4 + k).

    The number only decides how tight the enclosure is, not whether it holds.
    """
    digits_missing, k = 2.303 * digits + 5, 0
    while digits_missing > 0:
        k += 1
        digits_missing -= 2 * math.log(x / 2 + math.sqrt(x * x / 4 + k)) - math.log(k)
    return k


def _by_series(x: Enclosure) -> Enclosure:
    square, term, total, k = x * x, x, x, 0
    smallest = Decimal(1).scaleb(-x.digits - 5)
    while 2 * square.hi > 2 * k + 3 or term.hi > smallest:
        k += 1
        term = term * square / (2 * k + 1)
        total += term
    remainder = Enclosure(Decimal(0), term.hi, x.digits)
    return _inverse_density(x) / 2 - (total + remainder)
