"""Noise of a wanted size: the law of a kind that has a variance, or a noise margin, at most as asked for.

The spread of each kind rises with its scale: with sigma2, and with 1/epsilon. So there is one widest law that keeps a
limit; its parameter is given with nine significant digits, rounded to the side that keeps the limit, which is decided
exactly. A bounded law has a variance below ``E (E + 1) / 3``, that of the uniform law.

Reference: Bach (2020), section 2.4, on utility-driven parametrisations.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction

from confide.errors import ParameterError
from confide.exact import Exact, exact, positive
from confide.noise import (
    CountNoise,
    DiscreteGaussian,
    Enclosure,
    TruncatedGaussian,
    TruncatedGeometric,
    TwoSidedGeometric,
)
from confide.noise.bounded import LARGEST_BOUND

_DIGITS = 9
_DECADES = 30
_DEEPEST = 4096


class Kind(StrEnum):
    """The kinds of noise with one scale, by the names that laws have."""

    GEOMETRIC = TwoSidedGeometric.name
    GAUSSIAN = DiscreteGaussian.name
    TRUNCATED_GEOMETRIC = TruncatedGeometric.name
    TRUNCATED_GAUSSIAN = TruncatedGaussian.name

    @property
    def bounded(self) -> bool:
        """Whether the kind has a bound."""
        return self in (Kind.TRUNCATED_GEOMETRIC, Kind.TRUNCATED_GAUSSIAN)

    @property
    def falling(self) -> bool:
        """Whether noise becomes smaller as the parameter rises."""
        return self in (Kind.GEOMETRIC, Kind.TRUNCATED_GEOMETRIC)


def make_noise(kind: Kind, parameter: Exact, bound: int | None = None) -> CountNoise:
    """The law of a kind: epsilon or sigma2 and, for a truncated one, the bound."""
    if kind.bounded != (bound is not None):
        raise _refused(
            f"{kind.value} noise has {'a' if kind.bounded else 'no'} bound",
            "none" if bound is None else str(bound),
            "a bound for truncated noise, and none for other noise",
        )
    if kind is Kind.GEOMETRIC:
        return TwoSidedGeometric(parameter)
    if kind is Kind.GAUSSIAN:
        return DiscreteGaussian(parameter)
    assert bound is not None
    return (TruncatedGeometric if kind.falling else TruncatedGaussian)(parameter, bound)


def of_variance(kind: Kind, variance: Exact, bound: int | None = None) -> CountNoise:
    """The widest law of a kind whose variance is at most ``variance``."""
    limit = positive(variance, "the variance")
    if bound is not None and limit >= Fraction(bound * (bound + 1), 3):
        raise _refused(
            "noise of this bound cannot have this variance",
            f"variance {limit}, bound {bound}",
            f"a variance below E (E + 1) / 3 = {Fraction(bound * (bound + 1), 3)}, that of uniform noise",
        )
    return _widest(kind, bound, lambda noise: _at_most(noise.variance_bounds, limit))


def of_margin(kind: Kind, margin: int, level: Exact, bound: int | None = None) -> CountNoise:
    """The widest law of a kind whose noise margin at ``level`` is at most ``margin``."""
    wanted = exact(level, "level")
    if not 0 < wanted < 1 or margin < 0:
        raise _refused("this is not a noise margin", f"{margin} at {wanted}", "a margin of 0 or more, a level below 1")
    share = Fraction(2 * margin + 1, 2 * (bound or 0) + 1)
    if bound is not None and (share >= wanted or margin >= bound):
        raise _refused(
            "all noise of this bound keeps this margin, however wide it is",
            f"margin {margin}, bound {bound}",
            "a margin that uniform noise of this bound does not keep",
        )
    return _widest(kind, bound, lambda noise: noise.noise_margin(wanted) <= margin)


def smallest_decimal(holds: Callable[[Fraction], bool]) -> Fraction:
    """The smallest number of nine digits for which ``holds`` is true, as it is for all that are large enough."""
    return _decimal(holds, rising=True)


def largest_decimal(holds: Callable[[Fraction], bool]) -> Fraction:
    """The largest number of nine digits for which ``holds`` is true, as it is for all that are small enough."""
    return _decimal(holds, rising=False)


def smallest_bound(fits: Callable[[int], bool], asked: str) -> int:
    """The smallest bound for which ``fits`` is true, as it is for all that are large enough."""
    high = 1
    while not fits(high):
        high *= 2
        if high > LARGEST_BOUND:
            raise ParameterError(
                "bound-too-large",
                "no bound of a usable size has so small a delta",
                found=asked,
                expected=f"a delta that noise of at most ±{LARGEST_BOUND:,} can have",
                remedy="take noise without a bound, a larger delta, or fewer tables",
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _widest(kind: Kind, bound: int | None, keeps: Callable[[CountNoise], bool]) -> CountNoise:
    """The law with the largest scale that keeps a limit."""
    search = smallest_decimal if kind.falling else largest_decimal
    return make_noise(kind, search(lambda parameter: keeps(make_noise(kind, parameter, bound))), bound)


def _decimal(holds: Callable[[Fraction], bool], *, rising: bool) -> Fraction:
    """By decades, starting with one, and then by bisection within a decade."""

    def number(digits: int, decade: int) -> Fraction:
        return digits * Fraction(10) ** (decade - _DIGITS + 1)

    low, high = 10 ** (_DIGITS - 1), 10**_DIGITS
    sure, towards = (high, -1) if rising else (low, 1)
    decade = 0
    while not holds(number(sure, decade)):
        decade -= towards
        if abs(decade) > _DECADES:
            raise _refused("no noise is so narrow, or so wide", "the limit", "another limit")
    while abs(decade) < _DECADES and holds(number(sure, decade + towards)):
        decade += towards
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(number(middle, decade)) == rising else (middle, high)
    return number(high if rising else low, decade)


def _at_most(enclose: Callable[[int], Enclosure], limit: Fraction) -> bool:
    bits = 64
    while bits <= _DEEPEST:
        lower, upper = enclose(bits)
        if upper <= limit or lower > limit:
            return upper <= limit
        bits *= 2
    return False


def _refused(what: str, found: str, expected: str) -> ParameterError:
    return ParameterError("no-such-noise", what, found=found, expected=expected, remedy="correct the limits")
