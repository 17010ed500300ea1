"""The largest power of a test at a level for every ρ-zCDP release (Balle et al. 2020; Abowd & Hawes 2023, section 7).

Whatever is rejected, the decision is a coin: with probability ℓ under H₀ and w under H₁. A coin made of the release
cannot have a larger Rényi divergence than the release: at most ρα for every order α > 1, and in both directions,

    ℓ^α w^(1−α) + (1−ℓ)^α (1−w)^(1−α) ≤ exp(ρα(α−1))    and    w^α ℓ^(1−α) + (1−w)^α (1−ℓ)^(1−α) ≤ exp(ρα(α−1)).

In the limit α → 1 these become the two inequalities of the Kullback-Leibler divergence, which is at most ρ. All left
sides rise with w ≥ ℓ, so there is a largest w that violates none. Any w that violates one of them, of any order, is
certainly too large: the search for the best order is done in floating point, the violation is then proved in directed
decimal arithmetic. What is returned is never below the largest power.

The paper prints the first inequality alone, which allows much more (``both_directions=False``). Derivation:
``docs/proofs/privacy-curves.md``, section 3.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from confide.exact import Exact, exact
from confide.privacy.definitions import nonnegative
from confide.privacy.directed import Enclosure, float_up
from confide.risk.testing.level_power import level_of

Array = npt.NDArray[np.float64]

LEAST_ORDER = "1.0001"

_ORDERS = 201  # looked at at once; a round narrows the best order down fifty times
_ROUNDS = 3
_COARSE, _FINE = 32, 64  # halvings of the interval of logits
_MARGIN = 2.0
_LARGEST_LOGIT = 745.0  # beyond, 1 − w is below the smallest float
_DIGITS = 60


def zcdp_power(rho: Exact, level: Exact, *, least_order: Exact = LEAST_ORDER, both_directions: bool = True) -> float:
    """The largest power at a level that ρ-zCDP allows, rounded up.

    ``least_order`` leaves out orders α below it: the default is where searches over orders usually begin, and 1 adds
    the limit α → 1, which can be a little smaller where ρ is large. ``both_directions=False`` leaves out the second
    inequality, for comparison with figures that were made so. All are bounds.

    >>> f"{zcdp_power('2.56', '0.05'):.6f}"
    '0.934344'
    >>> f"{zcdp_power('2.56', '0.05', least_order=1):.6f}"
    '0.934316'
    >>> f"{zcdp_power('2.56', '0.05', both_directions=False):.6f}"
    '0.945017'
    """
    r, size = nonnegative(rho, "rho"), level_of(level)
    least = nonnegative(exact(least_order, "least_order") - 1, "least_order - 1")
    if not r or size in (0, 1):
        return float_up(size)
    directions = (True, False) if both_directions else (True,)
    logit, order, forward = _best(float(r), float(size), float_up(least), directions)
    return _proved(r, size, logit, order, forward)


def _best(rho: float, level: float, least: float, directions: tuple[bool, ...]) -> tuple[float, float, bool]:
    """The smallest logit of w that violates an inequality, with α − 1 and the direction; α − 1 = 0 is the limit."""
    if level == 1:
        return _LARGEST_LOGIT, 0.0, True
    coins = math.log(level), math.log1p(-level)
    forward = np.array(directions)[:, None]
    limits = np.zeros((len(directions), 1))
    found = [] if least else _sorted(_crossing(rho, coins, limits, forward, _LARGEST_LOGIT, _FINE), limits, directions)
    below = np.full(len(directions), least or min(1.0, math.sqrt(-coins[1] / rho)) * 1e-3)
    above = np.full(len(directions), max(2 * below[0], max(1.0, math.sqrt(-coins[0] / rho)) * 1e3))
    for _ in range(_ROUNDS):
        highest = min(_LARGEST_LOGIT, found[0][0] + _MARGIN) if found else _LARGEST_LOGIT
        orders = np.geomspace(below, above, _ORDERS, axis=1)
        logits = _crossing(rho, coins, orders, forward, highest, _COARSE)
        found = sorted(found + _sorted(logits, orders, directions))
        rows, best = np.arange(len(directions)), logits.argmin(axis=1)
        below, above = orders[rows, np.maximum(best - 2, 0)], orders[rows, np.minimum(best + 2, _ORDERS - 1)]
    logit, order, way = found[0]
    if order:
        final = _crossing(rho, coins, np.array([[order]]), np.array([[way]]), _LARGEST_LOGIT, _FINE)
        logit = float(final[0, 0])
    return logit, order, way


def _sorted(logits: Array, orders: Array, directions: tuple[bool, ...]) -> list[tuple[float, float, bool]]:
    best = logits.argmin(axis=1)
    return sorted((float(logits[row, at]), float(orders[row, at]), directions[row]) for row, at in enumerate(best))


def _crossing(
    rho: float, coins: tuple[float, float], orders: Array, forward: npt.NDArray[np.bool_], highest: float, halvings: int
) -> Array:
    """For each α − 1 the logit of w at which the inequality begins to fail, by bisection; a row for each direction."""
    low = np.full(orders.shape, coins[0] - coins[1])
    high = np.full(orders.shape, highest)
    allowed = rho * (1 + orders)
    for _ in range(halvings):
        middle = (low + high) / 2
        fails = _divergence(*coins, middle, orders, forward) > allowed
        low, high = np.where(fails, low, middle), np.where(fails, middle, high)
    return high


def _divergence(rejected: float, kept: float, logit: Array, orders: Array, forward: npt.NDArray[np.bool_]) -> Array:
    """The Rényi divergence of order 1 + ``orders`` between the two coins; for zero, that of Kullback and Leibler."""
    power, rest = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
    first, second = np.where(forward, rejected, power), np.where(forward, kept, rest)
    sign = np.where(forward, 1.0, -1.0)
    one, other = sign * (rejected - power), sign * (kept - rest)
    if not orders.any():
        return np.asarray(np.exp(first) * one + np.exp(second) * other)
    one, other = orders * one, orders * other
    # Near order 1 the sum is close to 1, and its logarithm is taken of the difference.
    near = np.maximum(np.abs(one), np.abs(other)) < 0.5
    small = np.exp(first) * np.expm1(np.where(near, one, 0)) + np.exp(second) * np.expm1(np.where(near, other, 0))
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
            return max(float_up(level), float_up(moved))
    return 1.0


def _violates(rho: Fraction, level: Fraction, power: Fraction, order: Fraction, forward: bool) -> bool:
    """Whether the inequality of order 1 + ``order`` certainly fails for this power."""
    first, second = (level, power) if forward else (power, level)
    one, other = (_ratio(first, second), _ratio(1 - first, 1 - second))
    if not order:
        divergence = one.ln() * first + other.ln() * (1 - first)
        return divergence.lo > Enclosure.of(rho, _DIGITS).hi
    sums = (one.ln() * order).exp() * first + (other.ln() * order).exp() * (1 - first)
    return sums.lo > Decimal(0) and sums.ln().lo > Enclosure.of(rho * order * (1 + order), _DIGITS).hi


def _ratio(above: Fraction, below: Fraction) -> Enclosure:
    return Enclosure.of(above, _DIGITS) / Enclosure.of(below, _DIGITS)
