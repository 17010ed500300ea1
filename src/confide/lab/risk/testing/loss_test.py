"""The best test against given measurements: the level-power curve of composed discrete Gaussians, between two curves.

By Neyman & Pearson the best test rejects where the privacy loss L = ln P₁/P₀ of what was released is large, and
throws a coin where it is just at the threshold, so that the level is exactly ℓ. Its power is

    w(ℓ) = min over real ε of  e^ε ℓ + δ(ε),    δ(ε) = E₁[(1 − e^(ε − L))₊],

the minimum being at the threshold. For discrete Gaussians L has the law of :mod:`confide.privacy.loss_distribution`,
and one
direction is both. Where all counts have the same noise nothing is rounded. Where they differ, each loss is divided
between its neighbours on a grid, which can only help the test: that gives the pessimistic end. The optimistic end takes
off what this can have helped at most. Derivation: ``docs/proofs/privacy-curves.md``, section 4.

The curve is exact for the measurements given, and for nothing else: a release of other noise with the same ρ may allow
more (:func:`confide.lab.risk.testing.loss_test.zcdp_power`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from confide.errors import ParameterError
from confide.exact import Exact, as_delta, exact, nonnegative, positive, probability
from confide.privacy import ZCDP, Event, NoisyCells, PureDP, bun_steinke_epsilon, definitions, factor, loss_distribution

Array = npt.NDArray[np.float64]

INTERVAL = Fraction(1, 5000)
"""The grid of losses. For the 33 variances of the persons of 2020 the two ends are less than 2·10⁻⁵ apart."""
_UNIT = 2.0**-53
_NUDGE = 1e-6  # what ``spread`` moves a loss upwards, in grid steps, before dividing it
_LARGEST = 650.0


class LossTest:
    """The best test between two neighbours that differ by one in the given cells, in each of which there is noise.

    >>> best = LossTest([NoisyCells(sigma2="78.125", cells=2, count=200)])
    >>> bracket = best.power("0.05")
    >>> print(f"{bracket.optimistic:.6f} {bracket.pessimistic:.6f}")
    0.731674 0.731674
    """

    def __init__(self, cells: Iterable[NoisyCells], interval: Exact = INTERVAL):
        groups: dict[Fraction, int] = {}
        for part in cells:
            groups[part.sigma2] = groups.get(part.sigma2, 0) + part.cells * part.count
        self.rho = sum((number / (2 * sigma2) for sigma2, number in groups.items()), Fraction())
        """Half the squared distance of the neighbours in units of the noise."""
        self._groups = groups
        self._step = float(positive(interval, "interval"))

    @classmethod
    def of_event(cls, event: Event, neighbours: definitions.Neighbours, interval: Exact = INTERVAL) -> LossTest:
        """The best test against an event, if it has one worst neighbour and discrete Gaussian noise throughout."""
        return cls(loss_distribution.noisy_cells(event, neighbours), interval)

    def power(self, level: Exact) -> loss_distribution.Bracket:
        """The power of the best test at a level, between two numbers; the second is certain to be enough."""
        size = level_of(level)
        if not self._groups or size in (0, 1):
            return loss_distribution.Bracket(definitions.float_down(size), definitions.float_up(size))
        losses, deltas = self._curve
        lines = np.exp(losses[: self._last]) * float(size) + deltas[: self._last]
        value = min(1.0, float(lines.min(initial=1.0)))
        # Thresholds beyond the range of exp are not looked at: there, e^ε ℓ is above one but for the smallest levels.
        low = value - self._error - self._helped if size * Fraction(math.exp(_LARGEST)) > 1 else 0.0
        return loss_distribution.Bracket(max(definitions.float_down(size), low), min(1.0, value + self._error))

    @property
    def advantage(self) -> loss_distribution.Bracket:
        """The largest difference of power and level: the total variation δ(0), between two numbers."""
        if not self._groups:
            return loss_distribution.Bracket(0.0, 0.0)
        return loss_distribution.Bracket(
            max(0.0, self._law.delta(0.0, -1) - self._helped), min(1.0, self._law.delta(0.0, 1))
        )

    @cached_property
    def _law(self) -> loss_distribution.LossDistribution:
        laws = [
            loss_distribution.lattice_distribution(float(sigma2), number, 0.0)
            for sigma2, number in sorted(self._groups.items())
        ]
        law = laws[0]
        if len(laws) > 1:
            size = loss_distribution.circle(laws, self._step)
            law = reduce(add, (loss_distribution.discretise(part, self._step, size) for part in laws)).distribution()
        return law

    @cached_property
    def _curve(self) -> tuple[Array, Array]:
        """ε at every possible loss, and δ(ε) there: δⱼ = q δⱼ₊₁ + (1 − q) P[L > lⱼ] with q = exp(−step)."""
        law = self._law
        losses = law.start + law.step * np.arange(len(law.mass), dtype=np.float64)
        above = np.concatenate([np.cumsum(law.mass[:0:-1])[::-1], [0.0]])
        from scipy.signal import lfilter

        ratio = math.exp(-law.step)
        deltas = lfilter([-math.expm1(-law.step)], [1.0, -ratio], above[::-1])[::-1]
        return losses, np.asarray(deltas, dtype=np.float64)

    @cached_property
    def _last(self) -> int:
        return int(np.searchsorted(self._curve[0], _LARGEST))

    @cached_property
    def _error(self) -> float:
        """What floating point and cut tails can have done to δ(ε); the masses are those of a law, all at most one."""
        law = self._law
        largest = abs(law.start) + law.step * len(law.mass)
        return law.doubt + 8 * _UNIT * (len(law.mass) + largest + 64)

    @cached_property
    def _helped(self) -> float:
        """What dividing losses on the grid adds to δ(ε) at most: (e^r − 1) P[|L − ε| ≤ r], r a step for each law."""
        laws = len(self._groups)
        if laws == 1:
            return 0.0
        law = self._law
        window = min(2 * laws + 2, len(law.mass))
        sums = np.concatenate([[0.0], np.cumsum(law.mass)])
        likeliest = float((sums[window:] - sums[:-window]).max()) + self._error
        return math.expm1(laws * law.step) * likeliest + laws * _NUDGE * law.step


# The largest power of a test at a level for every ρ-zCDP release (Balle et al. 2020; Abowd & Hawes 2023, section 7).
#
# Whatever is rejected, the decision is a coin: with probability ℓ under H₀ and w under H₁. A coin made of the release
# cannot have a larger Rényi divergence than the release: at most ρα for every order α > 1, and in both directions,
#
#     ℓ^α w^(1−α) + (1−ℓ)^α (1−w)^(1−α) ≤ exp(ρα(α−1))    and    w^α ℓ^(1−α) + (1−w)^α (1−ℓ)^(1−α) ≤ exp(ρα(α−1)).
#
# In the limit α → 1 these become the two inequalities of the Kullback-Leibler divergence, which is at most ρ. All
# left sides rise with w ≥ ℓ, so there is a largest w that violates none. Any w that violates one of them, of any
# order, is certainly too large: the search for the best order is done in floating point, the violation is then proved
# in directed decimal arithmetic. What is returned is never below the largest power.
#
# The paper prints the first inequality alone, which allows much more (``both_directions=False``). Derivation:
# ``docs/proofs/privacy-curves.md``, section 3.


LEAST_ORDER = "1.0001"

_ORDERS = 201  # looked at at once; a round narrows the best order down fifty times
_ROUNDS = 3
_EPSILON = 2.0**-52
_LARGEST_LOGIT = 745.0  # beyond, 1 − w is below the smallest float
_DIGITS = 60


def zcdp_power(rho: Exact, level: Exact, *, least_order: Exact = LEAST_ORDER, both_directions: bool = True) -> float:
    """The largest power at a level that ρ-zCDP allows, rounded up.

    ``least_order`` leaves out orders α below it: the default is where searches over orders usually begin, and 1 adds
    the limit α → 1, which can be a little smaller where ρ is large. ``both_directions=False`` leaves out the second
    inequality, for comparison with figures that were made so. All are bounds.

    Args:
        rho: The loss in zCDP.
        level: The level of the test.
        least_order: The smallest order of Rényi divergence that is looked at.
        both_directions: Whether both inequalities are used.

    Returns:
        The power, from ``level`` to 1.

    >>> f"{zcdp_power('2.56', '0.05'):.6f}"
    '0.934344'
    >>> f"{zcdp_power('2.56', '0.05', least_order=1):.6f}"
    '0.934316'
    >>> f"{zcdp_power('2.56', '0.05', both_directions=False):.6f}"
    '0.945027'
    """
    r, size = nonnegative(rho, "rho"), level_of(level)
    least = nonnegative(exact(least_order, "least_order") - 1, "least_order - 1")
    if not r or size in (0, 1):
        return definitions.float_up(size)
    directions = (True, False) if both_directions else (True,)
    logit, order, forward = _best(float(r), float(size), definitions.float_up(least), directions)
    return _proved(r, size, logit, order, forward)


def _best(rho: float, level: float, least: float, directions: tuple[bool, ...]) -> tuple[float, float, bool]:
    """The smallest logit of w that violates an inequality, with α − 1 and the direction; α − 1 = 0 is the limit."""
    if level == 1:
        return _LARGEST_LOGIT, 0.0, True
    coins = math.log(level), math.log1p(-level)
    candidates = []
    for forward in directions:
        if not least:
            candidates.append((_crossing(rho, coins, np.zeros(1), forward)[0], 0.0, forward))
        below = least or min(1.0, math.sqrt(-coins[1] / rho)) * 1e-3
        above = max(2 * below, max(1.0, math.sqrt(-coins[0] / rho)) * 1e3)
        for _ in range(_ROUNDS):
            orders = np.geomspace(below, above, _ORDERS)
            logit, first = _crossing(rho, coins, orders, forward)
            candidates.append((logit, float(orders[first]), forward))
            below, above = float(orders[max(first - 2, 0)]), float(orders[min(first + 2, _ORDERS - 1)])
    return min(candidates)


def _crossing(rho: float, coins: tuple[float, float], orders: Array, forward: bool) -> tuple[float, int]:
    """The logit of w at which the inequality of one of these α − 1 begins to fail, and which of them it is.

    The largest excess over what is allowed is a continuous function of the logit that rises through zero once.
    """
    allowed = rho * (1 + orders)

    def excess(logit: float) -> Array:
        return _divergence(*coins, logit, orders, forward) - allowed

    def largest(logit: float) -> float:
        return float(excess(logit).max())

    logit = _LARGEST_LOGIT
    if largest(logit) > 0:
        from scipy.optimize import brentq

        logit, beyond = float(brentq(largest, coins[0] - coins[1], logit, xtol=1e-300, rtol=4 * _EPSILON)), 0.0
        while largest(logit + beyond) <= 0:  # a root may lie a last bit below: it has to fail
            beyond = 2 * beyond or float(np.spacing(abs(logit)))
        logit += beyond
    return logit, int(excess(logit).argmax())


def _divergence(rejected: float, kept: float, logit: float, orders: Array, forward: bool) -> Array:
    """The Rényi divergence of order 1 + ``orders`` between the two coins; for zero, that of Kullback and Leibler."""
    power, rest = -float(np.logaddexp(0, -logit)), -float(np.logaddexp(0, logit))
    first, second = (rejected, kept) if forward else (power, rest)
    sign = 1.0 if forward else -1.0
    ratio, other_ratio = sign * (rejected - power), sign * (kept - rest)
    if not orders.any():
        return np.full(len(orders), math.exp(first) * ratio + math.exp(second) * other_ratio)
    one, other = orders * ratio, orders * other_ratio
    # Near order 1 the sum is close to 1, and its logarithm is taken of the difference.
    near = orders * max(abs(ratio), abs(other_ratio)) < 0.5
    small = math.exp(first) * np.expm1(np.where(near, one, 0)) + math.exp(second) * np.expm1(np.where(near, other, 0))
    return np.asarray(np.where(near, np.log1p(small), np.logaddexp(first + one, second + other)) / orders)


def _proved(rho: Fraction, level: Fraction, logit: float, order: float, forward: bool) -> float:
    """The power with this logit, moved up until it certainly violates the inequality; 1 if it comes to that."""
    small = math.exp(-abs(logit))
    gap = Fraction(small / (1 + small))  # the smaller of w and 1 − w
    candidate = 1 - gap if logit > 0 else gap
    # Where the divergence hardly rises, a small step proves nothing.
    for exponent in range(-15, 1):
        moved = candidate + gap * Fraction(10) ** exponent
        if moved >= 1:
            break
        if _violates(rho, level, moved, Fraction(order), forward):
            return max(definitions.float_up(level), definitions.float_up(moved))
    return 1.0


def _violates(rho: Fraction, level: Fraction, power: Fraction, order: Fraction, forward: bool) -> bool:
    """Whether the inequality of order 1 + ``order`` certainly fails for this power."""
    first, second = (level, power) if forward else (power, level)
    one, other = (_ratio(first, second), _ratio(1 - first, 1 - second))
    if not order:
        divergence = one.ln() * first + other.ln() * (1 - first)
        return divergence.lo > definitions.Enclosure.of(rho, _DIGITS).hi
    sums = (one.ln() * order).exp() * first + (other.ln() * order).exp() * (1 - first)
    return sums.lo > Decimal(0) and sums.ln().lo > definitions.Enclosure.of(rho * order * (1 + order), _DIGITS).hi


def _ratio(above: Fraction, below: Fraction) -> definitions.Enclosure:
    return definitions.Enclosure.of(above, _DIGITS) / definitions.Enclosure.of(below, _DIGITS)


# Trade-off functions and what they come to in one number (Dong, Roth & Su 2022).
#
# The trade-off function f of a release gives for every level α the smallest probability β of a type II error that a
# test can have: f(α) = 1 − (largest power at α). The larger f, the less the release tells.
#
# * Gaussian: G_μ(α) = Φ(Φ⁻¹(1 − α) − μ); Gaussian noise of ρ has μ = √(2ρ), for itself alone;
# * the envelope of all ρ-zCDP releases: 1 − :func:`.loss_test.zcdp_power`. It is convex and its own
#   inverse, and lies below G_√(2ρ);
# * pure ε: max(0, 1 − e^ε α, e^−ε (1 − α)).
#
# Two numbers sum a curve up. The Bayes risk is the smallest probability of deciding wrongly between H₀ and H₁ when H₁
# has a prior probability π: min over ℓ of (1 − π)ℓ + π(1 − w(ℓ)). The advantage is the largest w(ℓ) − ℓ: 1 − 2·(Bayes
# risk at π = 1/2).


Power: TypeAlias = Callable[[Fraction], float]
"""The largest power at a level."""

_WIDEST = 40.0
_STEPS = 48
_GOLDEN = (math.sqrt(5) - 1) / 2


def gaussian_trade_off(mu: Exact, alpha: Exact) -> float:
    """G_μ(α) = Φ(Φ⁻¹(1 − α) − μ), rounded down.

    Args:
        mu: The distance of the two Gaussians, √(2ρ).
        alpha: The level of the test.

    Returns:
        The smallest type II error.

    >>> round(gaussian_trade_off(1, "0.05"), 6)
    0.740489
    """
    return _rest(gaussian_power(nonnegative(mu, "mu") ** 2 / 2, alpha))


def zcdp_trade_off(rho: Exact, alpha: Exact) -> float:
    """The smallest type II error at a level that a ρ-zCDP release leaves possible, rounded down.

    Args:
        rho: The loss in zCDP.
        alpha: The level of the test.

    Returns:
        The smallest type II error.

    >>> round(zcdp_trade_off("2.56", "0.05"), 4)
    0.0657
    """
    return _rest(zcdp_power(rho, alpha))


def pure_trade_off(epsilon: Exact, alpha: Exact) -> float:
    """The smallest type II error at a level under pure ε, rounded down.

    Args:
        epsilon: The loss in pure differential privacy.
        alpha: The level of the test.

    Returns:
        The smallest type II error.

    >>> round(pure_trade_off("0.5", "0.05"), 4)
    0.9176
    """
    return _rest(pure_power(epsilon, alpha))


def bayes_risk(power: Power, prior: Exact = "1/2") -> float:
    """The smallest probability of a wrong decision for someone who gives H₁ this prior probability.

    ``power`` must be concave, as all of this package are. The minimum is searched for; since powers are rounded up and
    a minimum is flat, the error is far below what is worth printing.

    Args:
        power: The largest power at a level; it must be concave.
        prior: The prior probability of H₁.

    Returns:
        The probability of a wrong decision.

    >>> round(bayes_risk(lambda level: gaussian_power("1/2", level)), 6)
    0.308538
    """
    chance = probability(prior, "prior")

    def risk(logit: float) -> float:
        level = 1 / (1 + math.exp(-logit))
        return float(1 - chance) * level + float(chance) * (1 - power(Fraction(level)))

    low, high = -_WIDEST, _WIDEST
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = risk(left), risk(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = risk(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = risk(right)
    return max(0.0, min(at_left, at_right, float(chance), float(1 - chance)))


def advantage(power: Power) -> float:
    """The largest difference between power and level.

    Args:
        power: The largest power at a level; it must be concave.

    Returns:
        The advantage, from 0 to 1.

    >>> round(advantage(lambda level: gaussian_power("1/2", level)), 6)
    0.382925
    """
    return 1 - 2 * bayes_risk(power)


def pure_advantage(epsilon: Exact) -> float:
    """(e^ε − 1)/(e^ε + 1), rounded up: the advantage that pure ε allows.

    Args:
        epsilon: The loss in pure differential privacy.

    Returns:
        The largest power less level.

    >>> round(pure_advantage(1), 4)
    0.4621
    """
    e = nonnegative(epsilon, "epsilon")

    def formula(digits: int) -> definitions.Enclosure:
        power = (-definitions.Enclosure.of(e, digits)).exp()
        return (1 - power) / (1 + power)

    return min(1.0, definitions.float_up(definitions.tighten(formula).hi)) if e else 0.0


def gaussian_advantage(rho: Exact) -> float:
    """2Φ(√(ρ/2)) − 1, rounded up: the advantage of the best test against Gaussian noise of this ρ.

    Args:
        rho: The loss in zCDP of Gaussian noise.

    Returns:
        The largest power less level.

    >>> round(gaussian_advantage("2.56"), 4)
    0.7421
    """
    r = nonnegative(rho, "rho")
    if r > 200:  # 1 − Φ(10) is less than a unit of rounding
        return 1.0

    def formula(digits: int) -> definitions.Enclosure:
        return 2 * normal_probability(definitions.Enclosure.of(r / 2, digits).sqrt()) - 1

    return definitions.float_up(definitions.tighten(formula).hi) if r else 0.0


def zcdp_advantage(rho: Exact) -> float:
    """The advantage that ρ-zCDP allows. The envelope is its own inverse, so it is 1 − 2ℓ where w(ℓ) = 1 − ℓ.

    The bisection keeps a level at which the power is certainly below 1 − ℓ, so what is returned is an upper bound.

    Args:
        rho: The loss in zCDP.

    Returns:
        The largest power less level.

    >>> round(zcdp_advantage("2.56"), 4)
    0.8925
    """
    r = nonnegative(rho, "rho")
    low, high = 0.0, 0.5
    for _ in range(36):
        middle = (low + high) / 2
        if zcdp_power(r, Fraction(middle)) <= 1 - middle:
            low = middle
        else:
            high = middle
    return 1 - 2 * low if r else 0.0


def _rest(power: float) -> float:
    return definitions.float_down(1 - Fraction(power))


# The largest power of a test at a level, where a promise is all that is known; and for Gaussian noise.
#
# Someone tests H₀ (the record is as it is) against H₁ (it says something else, or is not there). The level ℓ is the
# probability of rejecting H₀ where it holds, the power w = 1 − β that of rejecting it where H₁ holds. A release limits
# w whatever the test is (Wasserman & Zhou 2010, Theorem 2.4, for pure ε):
#
# * :func:`pure_power`: w ≤ min(e^ε ℓ, 1 − e^−ε (1 − ℓ));
# * :func:`approximate_power`: w ≤ min(e^ε ℓ + δ, 1 − e^−ε (1 − ℓ − δ));
# * :func:`gaussian_power`: Φ(Φ⁻¹(ℓ) + √(2ρ)), what the best test attains if the noise is Gaussian with this ρ (Dong,
#   Roth & Su 2022). It is **not** a bound for every ρ-zCDP release; that is :func:`.loss_test.zcdp_power`.
#
# Every value is rounded up. Derivation: ``docs/proofs/privacy-curves.md``, sections 1 and 2.


LEAST_LEVEL = Fraction(1, 10**300)
_SURE = 9  # 1 − Φ(9) is less than a unit of rounding


def pure_power(epsilon: Exact, level: Exact) -> float:
    """The largest power at a level that pure ε-differential privacy allows, rounded up.

    Args:
        epsilon: The loss in pure differential privacy.
        level: The probability of rejecting a true hypothesis, from 0 to 1.

    Returns:
        The power, from ``level`` to 1.

    >>> pure_power("0.5", "0.05") < 0.0825
    True
    """
    return _by_epsilon(nonnegative(epsilon, "epsilon"), Fraction(0), level_of(level))


def approximate_power(epsilon: Exact, delta: Exact, level: Exact) -> float:
    """The largest power at a level that one pair (ε, δ) allows, rounded up. It is rarely worth knowing: see the docs.

    Args:
        epsilon: The loss.
        delta: Its delta.
        level: The level of the test.

    Returns:
        The power, from ``level`` to 1.

    >>> f"{approximate_power('17.16', '1e-10', '0.05'):.6f}"
    '1.000000'
    """
    return _by_epsilon(nonnegative(epsilon, "epsilon"), as_delta(delta), level_of(level))


def gaussian_power(rho: Exact, level: Exact) -> float:
    """The power of the best test at a level against Gaussian noise of this ρ, rounded up.

    Args:
        rho: The loss in zCDP of Gaussian noise.
        level: The level of the test.

    Returns:
        The power, from ``level`` to 1. It does not bound other noise of the same rho.

    >>> f"{gaussian_power('2.56', '0.05'):.6f}"
    '0.731675'
    """
    r, size = nonnegative(rho, "rho"), level_of(level)
    if not r or size in (0, 1):
        return definitions.float_up(size)
    start = quantile_above(size)
    if start + math.sqrt(2 * r) > _SURE:
        return 1.0

    def formula(digits: int) -> definitions.Enclosure:
        return normal_probability(definitions.Enclosure.of(2 * r, digits).sqrt() + Decimal(start))

    return min(1.0, definitions.float_up(definitions.tighten(formula).hi))


def quantile_above(chance: Fraction) -> float:
    """A float z that is certainly not below Φ⁻¹(p), and within a few units of rounding of it; infinite for p near 1."""
    guess = float(ndtri(float(chance)))
    step = math.ulp(guess) if math.isfinite(guess) else math.inf
    while math.isfinite(guess) and normal_probability(definitions.Enclosure.of(Decimal(guess), 50)).lo < chance:
        guess, step = guess + step, 2 * step
    return guess


def normal_probability(x: definitions.Enclosure) -> definitions.Enclosure:
    """Φ(x) by Mills' ratio, enclosed."""
    return definitions.Enclosure(_normal_at(x.lo, x.digits).lo, _normal_at(x.hi, x.digits).hi, x.digits)


def level_of(level: Exact) -> Fraction:
    """A level as an exact number from 0 to 1."""
    number = exact(level, "level")
    if number != 0 and not LEAST_LEVEL <= number <= 1:
        raise ParameterError("level-out-of-range", found=str(number)[:60])
    return number


def _by_epsilon(epsilon: Fraction, delta: Fraction, level: Fraction) -> float:
    """Both sides of the inequality: the test that rejects, and the one that does not."""

    def rejecting(digits: int) -> definitions.Enclosure:
        return definitions.Enclosure.of(epsilon, digits).exp() * level + delta

    def keeping(digits: int) -> definitions.Enclosure:
        return 1 - (-definitions.Enclosure.of(epsilon, digits)).exp() * (1 - level - delta)

    return max(
        definitions.float_up(level),
        min(
            1.0,
            definitions.float_up(definitions.tighten(rejecting).hi),
            definitions.float_up(definitions.tighten(keeping).hi),
        ),
    )


def _normal_at(x: Decimal, digits: int) -> definitions.Enclosure:
    point = definitions.Enclosure(x, x, digits)
    if x < 0:
        return definitions.density(point) * definitions.mills_ratio(-point)
    return 1 - definitions.density(point) * definitions.mills_ratio(point)


# From posterior to posterior: how much one record can change what somebody believes after seeing the release.
#
# Somebody with any beliefs about the records sees a release, and asks for the probability of some statement about
# them. Compare it with the probability if the same release had been made with one record replaced (Kasiviswanathan &
# Smith 2014; Kifer et al. 2022). The prior cancels, and the ratio is at most
#
# * pure ε: e^(2ε), always, one e^ε for the likelihood and one for what it is divided by;
# * ρ-zCDP: e^(2ε) but for a probability of at most δ(1 + e^−ε) ≤ 2δ, with the ε of Bun & Steinke at δ, for either
#   direction of the ratio. Mixtures keep ρ, because Rényi divergences are quasi-convex: so beliefs about other
# records do   not matter. The expected logarithm of the ratio is at most ρ.
#
# Probabilities and expectations are over what is true, by the prior, and what is then released. The odds between two
# given data sets that are neighbours move less, by e^ε. Derivation: ``docs/proofs/privacy-curves.md``, section 6.


@dataclass(frozen=True, slots=True)
class PosteriorFactor:
    """A bound for the ratio of two posterior probabilities."""

    epsilon: float
    """The ε of which the logarithm of the ratio is at most twice; rounded up."""
    exceeded: float
    """The probability that the ratio is larger, at most; rounded up. Zero under pure ε."""
    expected_log_ratio: Fraction
    """The expected logarithm of the ratio is at most this."""

    @property
    def log_factor(self) -> float:
        return 2 * self.epsilon

    @property
    def words(self) -> str:
        """The factor itself, to three digits and rounded up."""
        return factor(self.log_factor)

    def as_dict(self) -> dict[str, Any]:
        return {
            "log_factor": self.log_factor,
            "factor": self.words,
            "exceeded_with_probability_at_most": self.exceeded,
            "expected_log_ratio_at_most": definitions.float_up(self.expected_log_ratio),
        }


def posterior_factor(loss: PureDP | ZCDP, delta: Exact = "1e-10") -> PosteriorFactor:
    """By how much one record can multiply a posterior probability; ``delta`` is used for zCDP alone.

    Args:
        loss: The loss of a release.
        delta: Where a loss in zCDP is stated.

    Returns:
        A bound for the logarithm of the factor, and how often it is exceeded.

    >>> posterior_factor(PureDP("1/2")).words
    '2.72'
    >>> print(f"{posterior_factor(ZCDP('2.56')).log_factor:.4f}")
    35.8306
    """
    if isinstance(loss, PureDP):
        # A pure ε is ε²/2-zCDP (Bun & Steinke 2016, Proposition 1.4), and no log-likelihood ratio exceeds ε.
        return PosteriorFactor(definitions.float_up(loss.epsilon), 0.0, min(loss.epsilon, loss.epsilon**2 / 2))
    chance = as_delta(delta)
    epsilon = bun_steinke_epsilon(loss.rho, chance)

    def exceeded(digits: int) -> definitions.Enclosure:
        return ((-definitions.Enclosure.of(Decimal(epsilon), digits)).exp() + 1) * chance

    return PosteriorFactor(
        epsilon, min(1.0, definitions.float_up(definitions.tighten(exceeded).hi)) if loss.rho else 0.0, loss.rho
    )
