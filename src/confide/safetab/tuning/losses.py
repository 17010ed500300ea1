"""The privacy loss distribution of geometric noise: a bracket for epsilon at delta.

A record that moves a count by one turns noise P(x) ∝ exp(−ε|x|) into Q(x) = P(x − 1), and ln P(x)/Q(x) is +ε for x ≤ 0
and −ε for x ≥ 1: two values, the first with probability 1/(1 + exp(−ε)). Over n cells with the same ε the loss is
ε(2K − n) with K binomial. Cells with different ε add up; they meet on a grid of losses, rounded up for the pessimistic
end of the bracket and down for the optimistic, and δ(ε) = E[(1 − exp(ε − L))₊]. All terms are positive, so double
precision is right to about 1e-10 of δ, which is added and subtracted too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from confide.privacy import Bracket

_DOUBT = 1e-9
_MOST_POINTS = 1 << 20


def geometric_bracket(cells: Mapping[Fraction, int], delta: Fraction, interval: float = 1e-4) -> Bracket:
    """The smallest ε for which the changed ``cells``, a number for each parameter, are (ε, δ), between two numbers."""
    total = float(sum(parameter * number for parameter, number in cells.items()))
    step = max(interval, 2.5 * total / _MOST_POINTS)
    low, high = (_law(cells, step, up) for up in (False, True))
    chance = float(delta)
    optimistic, _ = _epsilon(*low, chance * (1 + _DOUBT))
    _, pessimistic = _epsilon(*high, chance * (1 - _DOUBT))
    return Bracket(optimistic, min(math.nextafter(total, math.inf), pessimistic))  # no loss is above the total


def _law(
    cells: Mapping[Fraction, int], step: float, up: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Losses and their probabilities, on the grid."""
    start, mass = 0, np.ones(1)
    for parameter, number in cells.items():
        epsilon = float(parameter)
        k = np.arange(number + 1)
        losses = epsilon * (2 * k - number) / step
        # A millionth of a step is far more than the error of the division, so the direction is kept for certain.
        places = (np.ceil(losses + 1e-6) if up else np.floor(losses - 1e-6)).astype(np.int64)
        log_yes = -math.log1p(math.exp(-epsilon))
        logs = [math.lgamma(number + 1) - math.lgamma(i + 1) - math.lgamma(number - i + 1) for i in range(number + 1)]
        weights = np.exp(np.array(logs) + k * log_yes + (number - k) * (log_yes - epsilon))
        added = np.zeros(len(mass) + int(places[-1] - places[0]))
        for place, weight in zip(places - places[0], weights, strict=True):
            added[place : place + len(mass)] += weight * mass
        start, mass = start + int(places[0]), added
    return step * np.arange(start, start + len(mass), dtype=np.float64), mass


def _epsilon(losses: npt.NDArray[np.float64], mass: npt.NDArray[np.float64], delta: float) -> tuple[float, float]:
    """Two ε next to each other with δ(ε) above ``delta`` at the first alone; zeros if it is nowhere above."""

    def excess(epsilon: float) -> float:
        above = losses > epsilon
        return float(np.sum(mass[above] * -np.expm1(epsilon - losses[above]))) - delta

    low, high = 0.0, max(0.0, float(losses[-1]))
    if excess(low) <= 0:
        return 0.0, 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return low, high
