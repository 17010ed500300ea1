"""Noise of a wanted size: the distribution of a kind whose variance, or noise margin, is at most a limit.

The variance of each kind rises with its scale: with sigma2, and with 1/epsilon. So there is one widest distribution
that keeps a limit; its parameter is given with nine significant digits, rounded to the side that keeps the limit, which
is decided exactly. A bounded distribution has a variance below ``D (D + 1) / 3``, that of uniform noise. The truncated
discrete Gaussian of a variance is the row of maximum entropy (:func:`confide.noise.max_entropy.symmetric_row`), with
the nine digits of its sigma2.

Reference: Bach (2020), section 2.4, on utility-driven parametrisations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.errors import ParameterError
from confide.exact import LARGEST, Exact, exact, positive
from confide.noise.bounded import LARGEST_BOUND, TruncatedGaussian, TruncatedGeometric
from confide.noise.distributions import Bounds, DiscreteGaussian, TwoSidedGeometric
from confide.noise.max_entropy import LARGEST_BOUND as LARGEST_ROW
from confide.noise.max_entropy import symmetric_row, uniform_variance
from confide.noise.release_noise import CountNoise

_DIGITS = 9
_DECADES = 30
_DEEPEST = 4096


class NoiseKind(StrEnum):
    """The kinds of noise with one scale, by the names that distributions have."""

    GEOMETRIC = TwoSidedGeometric.name
    GAUSSIAN = DiscreteGaussian.name
    TRUNCATED_GEOMETRIC = TruncatedGeometric.name
    TRUNCATED_GAUSSIAN = TruncatedGaussian.name

    @property
    def bounded(self) -> bool:
        """Whether the kind has a bound."""
        return self in (NoiseKind.TRUNCATED_GEOMETRIC, NoiseKind.TRUNCATED_GAUSSIAN)

    @property
    def by_epsilon(self) -> bool:
        """Whether the parameter is epsilon, so that noise becomes smaller as it rises; otherwise it is sigma2."""
        return self in (NoiseKind.GEOMETRIC, NoiseKind.TRUNCATED_GEOMETRIC)


def make_noise(kind: NoiseKind, parameter: Exact, bound: int | None = None) -> CountNoise:
    """The distribution of a kind.

    Args:
        kind: Which one.
        parameter: epsilon of a geometric kind, sigma2 of a Gaussian one; exact.
        bound: D, for a truncated kind, and for no other.

    >>> make_noise(NoiseKind.TRUNCATED_GAUSSIAN, 2, bound=5)
    TruncatedGaussian('2', 5)
    """
    if kind.bounded != (bound is not None):
        raise ParameterError(
            "no-such-noise/bound", kind=kind.value, bounded=kind.bounded, bound=bound, with_bound=bound is not None
        )
    if kind is NoiseKind.GEOMETRIC:
        return TwoSidedGeometric(parameter)
    if kind is NoiseKind.GAUSSIAN:
        return DiscreteGaussian(parameter)
    assert bound is not None
    return (TruncatedGeometric if kind.by_epsilon else TruncatedGaussian)(parameter, bound)


def of_variance(kind: NoiseKind, variance: Exact, bound: int | None = None) -> CountNoise:
    """The widest distribution of a kind whose variance is at most ``variance``.

    Args:
        kind: Which one.
        variance: The limit V, an exact number above zero.
        bound: D, for a truncated kind; V must then be below ``D (D + 1) / 3``.

    Returns:
        The distribution; its parameter has nine significant digits.

    >>> of_variance(NoiseKind.TRUNCATED_GAUSSIAN, 2, bound=5)
    TruncatedGaussian('25031571/12500000', 5)
    """
    limit = positive(variance, "the variance")
    if limit > LARGEST:
        raise ParameterError("no-such-noise/large", largest=float(LARGEST))
    if bound is not None and limit >= uniform_variance(bound):
        raise ParameterError(
            "no-such-noise/bound-variance", limit=limit, bound=bound, bound_expected=uniform_variance(bound)
        )
    near = None
    if kind is NoiseKind.TRUNCATED_GAUSSIAN and bound is not None and bound <= LARGEST_ROW:
        b = symmetric_row(bound, limit).b
        near = 1 / (2 * Fraction(b)) if b else None
    return _widest(kind, bound, lambda noise: _at_most(noise.variance_bounds, limit), near)


def of_margin(kind: NoiseKind, margin: int, level: Exact, bound: int | None = None) -> CountNoise:
    """The widest distribution of a kind whose noise margin at ``level`` is at most ``margin``.

    Args:
        kind: Which one.
        margin: The noise is within ``-margin .. margin`` at least as often as ``level`` says.
        level: An exact probability, such as ``"0.95"``.
        bound: D, for a truncated kind.

    >>> of_margin(NoiseKind.GEOMETRIC, 5, "0.95").noise_margin("0.95")
    5
    """
    share_within = exact(level, "level")
    if not 0 < share_within < 1 or margin < 0:
        raise ParameterError("no-such-noise/margin", margin=margin, share_within=share_within)
    share = Fraction(2 * margin + 1, 2 * (bound or 0) + 1)
    if bound is not None and (share >= share_within or margin >= bound):
        raise ParameterError("no-such-noise/however", margin=margin, bound=bound)
    return _widest(kind, bound, lambda noise: noise.noise_margin(share_within) <= margin)


def smallest_decimal(holds: Callable[[Fraction], bool]) -> Fraction:
    """The smallest number of nine digits for which ``holds`` is true, as it is for all that are large enough."""
    return _decimal(holds, rising=True)


def largest_decimal(holds: Callable[[Fraction], bool]) -> Fraction:
    """The largest number of nine digits for which ``holds`` is true, as it is for all that are small enough."""
    return _decimal(holds, rising=False)


def smallest_bound(fits: Callable[[int], bool], limit: str) -> int:
    """The smallest bound for which ``fits`` is true, as it is for all that are large enough."""
    high = 1
    while not fits(high):
        high *= 2
        if high > LARGEST_BOUND:
            raise ParameterError("bound-too-large", found=limit, largest_bound=LARGEST_BOUND)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _widest(
    kind: NoiseKind, bound: int | None, keeps: Callable[[CountNoise], bool], near: Fraction | None = None
) -> CountNoise:
    """The distribution with the largest scale that keeps a limit; ``near`` is where to look for its parameter first."""

    def holds(parameter: Fraction) -> bool:
        return keeps(make_noise(kind, parameter, bound))

    if near is not None:
        parameter = _beside(holds, near)
        if parameter is not None:
            return make_noise(kind, parameter, bound)
    return make_noise(kind, (smallest_decimal if kind.by_epsilon else largest_decimal)(holds), bound)


def _beside(holds: Callable[[Fraction], bool], near: Fraction) -> Fraction | None:
    """The largest number of nine digits for which ``holds`` is true, if it is one of the four around ``near``."""
    decade = len(str(int(near))) - 1 if near >= 1 else -len(str(int(1 / near)))
    unit = Fraction(10) ** (decade - _DIGITS + 1)
    first = near // unit
    candidates = [digits * unit for digits in range(first - 1, first + 3)]
    # At a power of ten the digits change their size: leave that to the search.
    if not 10 ** (_DIGITS - 1) < first - 1 < first + 2 < 10**_DIGITS - 1:
        return None
    true = [candidate for candidate in candidates if holds(candidate)]
    return true[-1] if 0 < len(true) < len(candidates) else None


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
            raise ParameterError("no-such-noise/narrow")
    while abs(decade) < _DECADES and holds(number(sure, decade + towards)):
        decade += towards
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(number(middle, decade)) == rising else (middle, high)
    return number(high if rising else low, decade)


def _at_most(enclose: Callable[[int], Bounds], limit: Fraction) -> bool:
    bits = 64
    while bits <= _DEEPEST:
        lower, upper = enclose(bits)
        if upper <= limit or lower > limit:
            return upper <= limit
        bits *= 2
    return False


# Questions about one law of noise: the answers of ``confide account noise pmf``, ``quantile`` and ``margin``.
#
# >>> from confide.noise.fitting import NoiseKind
# >>> law = noise_law(NoiseKind.GAUSSIAN, sigma2=5)
# >>> noise_margin(law, "0.95").noise_margin
# 4
# >>> noise_quantile(law, "0.9").quantile
# 3


@dataclass(frozen=True)
class NoiseProbabilities(TypedAnswer):
    """The probability of values of the noise, and of values up to them."""

    law: CountNoise
    values: tuple[int, ...]
    pmf: tuple[float, ...]
    cdf: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        rows = [{"x": x, "pmf": pmf, "cdf": cdf} for x, pmf, cdf in zip(self.values, self.pmf, self.cdf, strict=True)]
        return {"law": self.law.as_dict(), "at": rows, "pmf": list(self.pmf)}

    def described(self) -> Iterator[AnswerPart]:
        rows = [(x, f"{pmf:.10g}", f"{cdf:.10g}") for x, pmf, cdf in zip(self.values, self.pmf, self.cdf, strict=True)]
        yield ShownTable(["x ", "P(noise = x) ", "P(noise ≤ x) "], rows)


@dataclass(frozen=True)
class NoiseQuantile(TypedAnswer):
    """The smallest value that the noise stays at or below with a probability."""

    law: CountNoise
    probability: Exact
    quantile: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"law": self.law.as_dict(), "probability": str(self.probability), "quantile": self.quantile}

    def described(self) -> Iterator[AnswerPart]:
        yield f"The noise is at most {self.quantile} with probability {self.probability}."


@dataclass(frozen=True)
class NoiseMargin(TypedAnswer):
    """The noise margin (margin of error, MOE, of the noise alone): it keeps within it with a probability."""

    law: CountNoise
    probability: Exact
    noise_margin: int

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        return self.law.variance()

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "law": self.law.as_dict(),
            "probability": str(self.probability),
            "noise_margin": self.noise_margin,
            "variance": self.variance,
        }

    def described(self) -> Iterator[AnswerPart]:
        text = f"The noise is within ±{self.noise_margin} with probability {self.probability}"
        yield f"{text}; its variance is {self.variance:.6g}."


def noise_law(
    kind: NoiseKind, *, sigma2: Exact | None = None, epsilon: Exact | None = None, bound: int | None = None
) -> CountNoise:
    """The law of a kind with its parameter: ``epsilon`` for geometric laws, ``sigma2`` for Gaussian ones.

    Args:
        kind: The kind of noise.
        sigma2: The parameter of a discrete Gaussian, of the order of its variance.
        epsilon: The parameter of a two-sided geometric law.
        bound: The largest noise of a truncated law.

    Returns:
        The law.
    """
    parameter, other = (epsilon, sigma2) if kind.by_epsilon else (sigma2, epsilon)
    if parameter is None or other is not None:
        raise ParameterError(
            "no-such-noise/parameter", kind=kind.value, by_epsilon=kind.by_epsilon, with_parameter=parameter is not None
        )
    return make_noise(kind, parameter, bound)


def noise_probabilities(law: CountNoise, at: Sequence[int]) -> NoiseProbabilities:
    """The probability of values of the noise, and of values up to them.

    Args:
        law: The noise.
        at: Whole numbers.

    Returns:
        A probability, and a cumulative one, for each of them; correctly rounded.
    """
    values = tuple(at)
    return NoiseProbabilities(law, values, tuple(law.pmf(x) for x in values), tuple(law.cdf(x) for x in values))


def noise_quantile(law: CountNoise, probability: Exact) -> NoiseQuantile:
    """The smallest value that the noise stays at or below with a probability.

    Args:
        law: The noise.
        probability: An exact number between 0 and 1.

    Returns:
        The quantile, decided exactly.
    """
    return NoiseQuantile(law, probability, law.quantile(probability))


def noise_margin(law: CountNoise, probability: Exact = "0.95") -> NoiseMargin:
    """The smallest distance from zero that the noise keeps within with a probability.

    Args:
        law: The noise.
        probability: An exact number between 0 and 1.

    Returns:
        The margin, decided exactly, and the variance.
    """
    return NoiseMargin(law, probability, law.noise_margin(probability))
