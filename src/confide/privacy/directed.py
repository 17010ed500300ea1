"""Directed rounding: real numbers enclosed between two decimals.

An :class:`Enclosure` holds lo ≤ x ≤ hi for a real number x. Every operation rounds lo down and hi up at its number of
digits, so the enclosure of a result contains the result, whatever happened on the way. ``+ − × ÷`` round in the
direction asked for. ``exp``, ``ln`` and ``sqrt`` of Python's decimal arithmetic (the General Decimal Arithmetic
specification) are correctly rounded to nearest, so one unit in the last place more on each side encloses them. No
binary floating point takes part until the end, where :func:`float_up` and :func:`float_down` keep the direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, DivisionByZero, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

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
