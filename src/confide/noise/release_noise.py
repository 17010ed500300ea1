"""All noise for counts behind one interface: probabilities, variance, bound, (epsilon, delta), and drawing.

Peers are the two laws on all integers, their truncated forms, and any finite list of probabilities. Write ``p`` for
the law and compare a count with the next one: results ``P(x) = p(x)`` and ``Q(x) = p(x - 1)``. The smallest delta with
``P(S) <= exp(epsilon) Q(S) + delta`` for all events ``S`` is

    delta(epsilon) = sum over x of max(0, p(x) - exp(epsilon) p(x - 1)).

For bounded noise it never falls below the *outside mass*, the probability of results that ``Q`` cannot have; it is
equal to it from the *largest loss* on. Where one record changes ``k`` counts with independent noise, each by one,
``(k * largest loss, 1 - (1 - outside)**k)`` holds, and no smaller delta does at this epsilon.

These are statements about counts with independent noise. What a whole release costs is the accountant's
(:mod:`confide.privacy.accountant`). Derivation: ``docs/proofs/noise.md``, section 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from confide.arrays import Integers
from confide.errors import ParameterError
from confide.exact import Exact, exact
from confide.noise import bounded, distributions
from confide.noise.distributions import DiscreteGaussian
from confide.noise.sample import add_noise, check_values
from confide.noise.stream import Inverse, Steps, WordSource, check_span, scaled_down, scaled_up

_ZERO = Fraction(0), Fraction(0)
_RELATIVE = 40
"""An upper bound of a delta is above it by less than one part in ``2**40``."""

_CHUNK = 1 << 20


ReleaseNoise: TypeAlias = distributions.NoiseDistribution | bounded.TruncatedDistribution
"""The laws that the accountant has a price for."""


class CountNoise(Protocol):
    """What every law answers, with or without a bound. To be read, not to be charged for."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def bound(self) -> int | None:
        """D, the largest noise in either direction, or none."""

    def pmf(self, x: int) -> float: ...
    def pmf_bounds(self, x: int, bits: int = 128) -> distributions.Bounds: ...
    def cdf(self, x: int) -> float: ...
    def cdf_bounds(self, x: int, bits: int = 128) -> distributions.Bounds: ...
    def variance(self) -> float: ...
    def variance_bounds(self, bits: int = 128) -> distributions.Bounds: ...
    def quantile(self, p: Exact) -> int: ...
    def noise_margin(self, level: Exact) -> int: ...
    def as_dict(self) -> dict[str, str]: ...
    def describe(self) -> str: ...


class EpsilonDelta(NamedTuple):
    """Approximate differential privacy of some counts: neither number is below what holds."""

    epsilon: Fraction
    delta: Fraction


def epsilon_delta(noise: CountNoise, changed: int = 1) -> EpsilonDelta | None:
    """The pair at the largest loss, where one record changes ``changed`` counts by one each.

    Its delta is zero for two-sided geometric noise and the outside mass for bounded noise. The discrete Gaussian has no
    largest loss and no such pair: only :func:`delta_bounds` at an epsilon.

    Args:
        noise: The noise of each count, independent.
        changed: How many counts one record changes.

    Returns:
        Exact numbers, neither below what holds; none for the discrete Gaussian.

    >>> from confide.noise import TruncatedGeometric
    >>> pair = epsilon_delta(TruncatedGeometric("1/2", 10))
    >>> pair.epsilon, float(round(pair.delta, 6))
    (Fraction(1, 2), 0.001659)
    """
    if isinstance(noise, distributions.TwoSidedGeometric):
        return EpsilonDelta(changed * noise.epsilon, Fraction(0))
    if isinstance(noise, bounded.BoundedDistribution):
        return EpsilonDelta(changed * noise.largest_loss, outside_mass(noise, changed))
    return None


def outside_mass(noise: CountNoise, changed: int = 1) -> Fraction:
    """``1 - (1 - outside)**changed``, rounded up: the delta that no epsilon takes away. Zero without a bound.

    Args:
        noise: Noise, with or without a bound.
        changed: How many cells one record changes.

    Returns:
        The probability, rounded up.

    >>> from confide.noise import TruncatedGaussian
    >>> f"{float(outside_mass(TruncatedGaussian(2, 5), changed=2)):.2g}"
    '0.0011'
    """
    return any_of(noise.outside_bounds, changed) if isinstance(noise, bounded.BoundedDistribution) else Fraction(0)


def beyond_mass(distribution: distributions.NoiseDistribution, bound: int, changed: int = 1) -> Fraction:
    """The probability that one of ``changed`` draws of noise without a bound would pass this one, rounded up.

    Args:
        distribution: Noise without a bound.
        bound: The largest noise, on either side.
        changed: How many draws there are.

    Returns:
        The probability, rounded up.

    >>> from confide.noise import DiscreteGaussian
    >>> f"{float(beyond_mass(DiscreteGaussian(1), 5)):.2g}"
    '1.2e-08'
    """

    def enclose(bits: int) -> distributions.Bounds:
        lower, upper = distribution.tail_bounds(bound, bits)
        return 2 * lower, 2 * upper

    return any_of(enclose, changed)


def distribution_from_dict(values: Mapping[str, object]) -> ReleaseNoise:
    """The distribution that ``as_dict`` wrote, with or without a bound.

    Args:
        values: Such as ``{"law": "discrete-gaussian", "sigma2": "289"}``; a truncated one has a ``bound`` as well.

    Returns:
        The distribution.

    >>> distribution_from_dict({"law": "truncated-discrete-gaussian", "sigma2": "2", "bound": "5"})
    TruncatedGaussian('2', 5)
    """
    for kind in (bounded.TruncatedGaussian, bounded.TruncatedGeometric):
        parameter, bound = values.get(kind.parameter_name), values.get("bound")
        if values.get("law") == kind.name and len(values) == 3 and isinstance(parameter, str):
            if isinstance(bound, str) and bound.isascii() and bound.isdigit():
                return kind(parameter, int(bound))
            raise ParameterError("bad-comparison/bound", found=repr(bound)[:40])
    return distributions.NoiseDistribution.from_dict(values)


def any_of(enclose: Callable[[int], distributions.Bounds], times: int) -> Fraction:
    """``1 - (1 - x)**times``, rounded up: the probability that one of ``times`` events of probability ``x`` occurs.

    Args:
        enclose: Bounds of ``x`` by the number of bits to compute with.
        times: How many events there are.

    Returns:
        The probability, rounded up.

    >>> from confide.noise import DiscreteGaussian
    >>> f"{float(any_of(lambda bits: DiscreteGaussian(1).tail_bounds(4, bits), times=10)):.2g}"
    '1.5e-05'
    """
    if type(times) is not int or times < 1:
        raise ParameterError("bad-comparison/record", found=repr(times))
    bits = 128
    while True:
        lower, upper = enclose(bits)
        power = _power((scaled_down(1 - upper, bits), scaled_up(1 - lower, bits)), times, bits)
        least, most = (1 << bits) - power[1], (1 << bits) - power[0]
        if least > 0 and (most - least) << _RELATIVE <= most:
            return Fraction(most, 1 << bits)
        bits *= 2


def delta_bounds(noise: CountNoise, epsilon: Exact, bits: int = 128) -> distributions.Bounds:
    """An enclosure of ``delta(epsilon)`` for one count that changes by one, at most ``2**-bits`` wide.

    Args:
        noise: Any noise of this room.
        epsilon: An exact number, zero or more.
        bits: How narrow the enclosure is.

    Returns:
        ``(lower, upper)``: exact fractions.

    >>> from confide.noise import DiscreteGaussian
    >>> float(round(delta_bounds(DiscreteGaussian(2), 1)[1], 6))
    0.042812
    """
    at = exact(epsilon, "epsilon")
    if at < 0:
        raise ParameterError("bad-comparison/epsilon", found=str(at))
    if isinstance(noise, bounded.FiniteDistribution):
        return distributions.narrowed(lambda work: _listed_delta(noise, at, work), bits)
    distribution = noise.untruncated if isinstance(noise, bounded.TruncatedDistribution) else noise
    assert isinstance(distribution, DiscreteGaussian | distributions.TwoSidedGeometric), "every other peer is a list"
    place = _last_beyond(distribution, at)
    if isinstance(noise, bounded.TruncatedDistribution):
        place = noise.bound if place is None else min(place, noise.bound)
    if place is None:
        return _ZERO

    def curve(work: int) -> distributions.Bounds:
        least, most = _exp(at, work)
        with_it, without = noise.cdf_bounds(-place, work), noise.cdf_bounds(-place - 1, work)
        return max(Fraction(0), with_it[0] - most * without[1]), max(Fraction(0), with_it[1] - least * without[0])

    return distributions.narrowed(curve, bits)


def perturb(counts: Integers, noise: CountNoise, stream: WordSource, start: int = 0) -> Integers:
    """A new array: the counts, in the order of a flat view, plus the noise of the coordinates from ``start`` on.

    The same stream, coordinate and distribution give the same noise in any chunking. Bounded noise is drawn by
    inversion from the extension words of a coordinate (:mod:`confide.noise.stream`), exactly.

    Args:
        counts: Whole numbers (int64) of any shape.
        noise: Any noise of this room, with or without a bound.
        stream: Where the bits come from: :func:`confide.noise.derive_stream` for a release,
            :meth:`confide.noise.NoiseStream.fresh` for a study.
        start: The coordinate of the first count.

    Returns:
        Noisy counts in the shape of ``counts``; they may be negative.

    >>> from confide.noise import NoiseStream, TruncatedGaussian
    >>> perturb(np.array([10, 20, 30]), TruncatedGaussian(2, 5), NoiseStream.fresh("study"))
    array([12, 16, 33])
    """
    noisy = np.array(counts, order="C")
    if isinstance(noise, distributions.NoiseDistribution):
        add_noise(noisy, noise, stream, start)
        return noisy
    assert isinstance(noise, bounded.BoundedDistribution), "a peer is a law or a bounded law"
    check_values(noisy)
    check_span(start, noisy.size)
    inverse, flat = _inverse(noise), noisy.reshape(-1)
    for begin in range(0, len(flat), _CHUNK):
        chunk = flat[begin : begin + _CHUNK]
        places = np.arange(start + begin, start + begin + len(chunk), dtype=np.uint64)
        chunk += inverse.draw(stream, places)
    return noisy


@lru_cache(maxsize=32)
def _inverse(noise: bounded.BoundedDistribution) -> Inverse:
    return Inverse.prepare(lambda bits: steps(noise, bits))


def steps(noise: bounded.BoundedDistribution, bits: int) -> Steps:
    """The distribution function of bounded noise for :mod:`confide.noise.stream`; its last value is exactly one."""
    sums = bounded.cumulated(noise, bits + 64)
    total_lower, total_upper = sums.lower[-1], sums.upper[-1]
    lower, upper = [], []
    for least, most in zip(sums.lower[1:], sums.upper[1:], strict=True):
        # C / (C + R) for what is summed and what remains: rises in C, falls in R.
        lower.append((least << bits) // (least + total_upper - most))
        upper.append(-(-(most << bits) // (most + total_lower - least)))
    return Steps.ascending(bits, lower, upper, first=-noise.bound)


def _last_beyond(distribution: distributions.NoiseDistribution, epsilon: Fraction) -> int | None:
    """The smallest ``m >= 0`` with ``log p(-m) / p(-m - 1) = first + m step > epsilon``.

    The loss never rises with ``x``, so the best event is ``{x <= -m}``.
    """
    first, step = distribution.decay.first, distribution.decay.step
    if first > epsilon:
        return 0
    return None if step == 0 else (epsilon - first) // step + 1


def _listed_delta(noise: bounded.FiniteDistribution, epsilon: Fraction, bits: int) -> distributions.Bounds:
    factor = _exp(epsilon, bits)
    distribution = dict(zip(noise.values, noise.probabilities, strict=True))

    def one_way(step: int) -> distributions.Bounds:
        pairs = [(p, distribution.get(x + step, Fraction(0))) for x, p in distribution.items()]
        least, most = (sum((max(Fraction(0), p - by * q) for p, q in pairs), Fraction(0)) for by in reversed(factor))
        return least, most

    ways = one_way(-1), one_way(1)
    return max(way[0] for way in ways), max(way[1] for way in ways)


def _exp(x: Fraction, bits: int) -> distributions.Bounds:
    """``exp(x)`` from ``exp(-x)``, for ``x >= 0``."""
    work = bits + 2 * (int(x) + 1)
    lower, upper = distributions.exp_minus(x, work)
    return Fraction(1 << work, upper), Fraction(1 << work, lower)


def _power(base: distributions.IntegerBounds, exponent: int, bits: int) -> distributions.IntegerBounds:
    """A number between zero and one to a whole power, by squaring, rounded outward."""
    return _one_side(base[0], exponent, lambda a, b: a * b >> bits, 1 << bits), _one_side(
        base[1], exponent, lambda a, b: distributions.ceil_shift(a * b, bits), 1 << bits
    )


def _one_side(base: int, exponent: int, times: Callable[[int, int], int], one: int) -> int:
    result = one
    while exponent:
        if exponent & 1:
            result = times(result, base)
        base, exponent = times(base, base), exponent >> 1
    return result
