"""How often canaries can be guessed right in one run, if a mechanism is as private as it states.

m *canaries*, made-up records, each get a fair coin that says whether it is in the file (or which of two records it is).
Somebody who sees the release, and no coin, guesses c of the coins. Let the mechanism be f-DP for each canary: no test
between the two states of its coin has more power at the level x than R(x), a concave function. W is the number of right
guesses, and p_i = P(W = i).

*Theorem* (after Steinke, Nasr & Jagielski 2023, in the form of Mahloujifar, Melis & Chaudhuri 2024). For every j,

    Σ_{i ≥ j} (i / m) p_i  ≤  R( Σ_{i ≥ j - 1} ((c - i) / m) p_i ).

The left side is the probability that a canary J, chosen evenly, is guessed right while W ≥ j. Give J's coin the other
side and leave the release as it is: then J is guessed wrong, and W is one less. By f-DP the release itself may be
replaced by one that was made with the turned coin, at the price of R; and a file with a turned coin is a file with fair
coins. Nothing is said about other canaries, which may do what they like.

From these inequalities :func:`excluded` finds the largest P(W ≥ v) that they leave. Proof:
``docs/proofs/one-run-audit.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from confide.arrays import Floats
from confide.risk.privacy_audit.twin_loss import TwinLoss

Level = Callable[[float], float]
"""For a power h the smallest level x with R(x) ≥ h, or anything below it."""


def excluded(level: Level, canaries: int, guesses: int, correct: int, error: float) -> bool:
    """Whether so many right guesses have a probability below ``error`` if the mechanism is f-DP.

    With all of P(W ≥ v) at v, which the inequalities for j ≤ v like best, the least p_{j-1} that each of them allows
    is taken, from j = v down to 1. If the sum of all exceeds one, no law of W is left.

    Args:
        level: The inverse of the largest power R.
        canaries: m, how many coins there were.
        guesses: c, how many of them were guessed.
        correct: v, how many of these rightly.
        error: The probability with which one may be wrong.

    Returns:
        True: such a mechanism guesses so well with a probability below ``error``.

    >>> at_random = lambda power: power
    >>> excluded(at_random, 100, 100, 58, 0.05), excluded(at_random, 100, 100, 70, 0.05)
    (False, True)
    """
    right, wrong, total = correct * error / canaries, (guesses - correct) * error / canaries, error
    for j in range(correct, 0, -1):
        missing = level(right) - wrong
        if missing > 0:
            share = (guesses - j + 1) / canaries
            added = missing / share
            right += (j - 1) / canaries * added
            wrong += missing
            total += added
            if total > 1:
                return True
    return False


def least(excludes: Callable[[float], bool], start: float, most: float = 1e6) -> float:
    """The smallest parameter that is not excluded, rounded down; larger ones are excluded less."""
    if not excludes(0.0):
        return 0.0
    low, high = 0.0, start
    while excludes(high):
        low, high = high, 2 * high
        if high > most:
            return low
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if excludes(middle) else (low, middle)
    return low


def level_of_epsilon(epsilon: float, delta: float = 0.0) -> Level:
    """Of (epsilon, delta)-DP: R(x) = min(δ + e^ε x, 1 - e^-ε (1 - δ - x))."""
    shrink, grow = math.exp(-epsilon), math.exp(min(epsilon, 700.0))
    return lambda power: max(0.0, shrink * (power - delta), 1 - delta - grow * (1 - power))


def level_of_loss(loss: TwinLoss) -> Level:
    """Of the loss of two states of a canary, as its distribution allows."""
    false, right = loss.curve
    return lambda power: float(np.interp(power, right, false)) if power > right[0] else 0.0


_ORDERS = 1 + np.geomspace(1e-3, 1e3, 60)


def level_of_rho(rho: float) -> Level:
    """Of rho-zCDP: the Rényi divergence of two answers, D_a(h ‖ x), is at most a ρ for all a > 1.

    The pairs (x, h) that this leaves are a convex set, so the level is a convex function of the power, and lies above
    the straight lines through two of its points, outside of these. It is worked out at some powers, and between them
    the larger of the lines from both sides is taken: nothing is excluded that should not be.
    """
    powers = np.concatenate([np.geomspace(1e-7, 0.3, 120), 1 - np.geomspace(0.69, 1e-7, 120)])
    low, high = np.zeros(len(powers)), powers.copy()
    for _ in range(50):
        middle = (low + high) / 2
        allowed = _divergence_fits(powers, middle, rho)
        low, high = np.where(allowed, low, middle), np.where(allowed, middle, high)
    slopes = np.diff(low) / np.diff(powers)

    def level(power: float) -> float:
        place = int(np.searchsorted(powers, power, side="right")) - 1
        bounds = [0.0]
        if place >= 1:
            bounds.append(low[place] + slopes[place - 1] * (power - powers[place]))
        if 0 <= place < len(powers) - 2:
            bounds.append(low[place + 1] - slopes[place + 1] * (powers[place + 1] - power))
        return float(max(bounds))

    return level


def _divergence_fits(power: Floats, level: Floats, rho: float) -> Floats:
    """Whether D_a(power ‖ level) ≤ a rho for all orders that are tried."""
    with np.errstate(divide="ignore", over="ignore"):
        a = _ORDERS[:, None]
        one = a * np.log(power) + (1 - a) * np.log(level)
        other = a * np.log1p(-power) + (1 - a) * np.log1p(-level)
        return np.asarray((np.logaddexp(one, other) <= a * (a - 1) * rho).all(axis=0))
