"""From what a test was seen to do to lower bounds of a loss."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from scipy.stats import beta as beta_distribution

from confide.noise import ReleaseNoise
from confide.privacy import Definition, epsilons
from confide.risk.privacy_audit.touched import Key
from confide.risk.privacy_audit.twin_loss import FINE, Component, TwinLoss


def share_bounds(times: int, of: int, error: float) -> tuple[float, float]:
    """Clopper & Pearson: what a probability is at least and at most, each wrongly with a probability of ``error``.

    >>> least, most = share_bounds(0, 100, 0.025)
    >>> least, round(most, 4)
    (0.0, 0.0362)
    """
    least = 0.0 if times == 0 else float(beta_distribution.ppf(error, times, of - times + 1))
    most = 1.0 if times == of else float(beta_distribution.ppf(1 - error, times + 1, of - times))
    return least, most


def narrower_by(components: Mapping[tuple[ReleaseNoise, int], int], power: float, level: float) -> float:
    """The smallest c with R_c(α) ≥ β: the noise is at least so many times narrower than stated.

    Args:
        components: How many counts have this stated noise and differ by so much.
        power: A lower bound of β.
        level: An upper bound of α.

    Returns:
        Above 1 the noise is not what was stated; 0 where nothing is known.

    >>> from confide.noise import DiscreteGaussian
    >>> from statistics import NormalDist
    >>> normal = NormalDist()
    >>> mu = normal.inv_cdf(0.9) - normal.inv_cdf(0.1)
    >>> abs(narrower_by({(DiscreteGaussian(100), 20): 1}, 0.9, 0.1) * 20 / 10 - mu) < 1e-2
    True
    """
    if power <= level:
        return 0.0

    def reached(factor: float) -> float:
        return TwinLoss.of({(law, gap, factor): n for (law, gap), n in components.items()}).power(level)

    low, high = 0.0, 1.0
    while reached(high) < power:
        low, high = high, 2 * high
        if high > 64:
            return low
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < power else (low, middle)
    return low


def loss_of(
    definition: Definition,
    per_twin: Mapping[Key, Counter[tuple[ReleaseNoise, int]]],
    factors: Mapping[Key, float],
    delta: Fraction,
) -> dict[str, float]:
    """The loss of one record if the noise of every measurement is narrower by its factor."""
    counts = [
        (law, gap, factors[key], number)
        for key, components in per_twin.items()
        for (law, gap), number in components.items()
    ]
    if definition is Definition.ZCDP:
        rho = sum(n * (gap * factor) ** 2 / (2 * float(law.parameter)) for law, gap, factor, n in counts)
        return {"rho": rho, "epsilon": epsilon_of(rho, delta)}
    if definition is Definition.PURE:
        return {"epsilon": sum(n * gap * factor * float(law.parameter) for law, gap, factor, n in counts)}
    scaled: Counter[Component] = Counter()
    for law, gap, factor, number in counts:
        if factor > 0:
            scaled[law, gap, factor] += number
    return {"epsilon": TwinLoss.of(scaled, FINE).epsilon(float(delta)) if scaled else 0.0}


def epsilon_of(rho: Fraction | float, delta: Fraction) -> float:
    return epsilons(Fraction(rho), delta)["canonne_kamath_steinke"] if rho > 0 else 0.0


def whatever_the_noise(
    definition: Definition, points: Sequence[tuple[float, float]], twins: int, delta: Fraction
) -> dict[str, float]:
    """What group privacy says of the best of the tests, with no word about the form of the noise."""
    if definition is Definition.ZCDP:
        rho = max(_renyi(power, level) for power, level in points) / twins**2
        return {"rho": rho, "epsilon": epsilon_of(rho, delta)}
    allowed = float(delta) if definition is Definition.APPROXIMATE else 0.0
    return {"epsilon": max(_group_epsilon(power, level, twins, allowed) for power, level in points)}


def _renyi(power: float, level: float) -> float:
    """The smallest ρ with D_a(β ‖ α) ≤ aρ for all a > 1, the largest D_a / a."""
    if power <= level or level <= 0:
        return 0.0
    orders = 1 + np.geomspace(1e-6, 1e3, 400)
    logs = np.logaddexp(
        orders * math.log(power) + (1 - orders) * math.log(level),
        orders * math.log1p(-power) + (1 - orders) * math.log1p(-level) if power < 1 else -np.inf,
    )
    return max(0.0, float((logs / (orders - 1) / orders).max()))


def _group_epsilon(power: float, level: float, twins: int, delta: float) -> float:
    """The smallest ε with β ≤ e^{kε} α + δ (e^{kε} − 1)/(e^ε − 1)."""
    if power <= level:
        return 0.0
    low, high = 0.0, math.log(power / level) / twins
    for _ in range(60):
        middle = (low + high) / 2
        group = math.expm1(twins * middle) / math.expm1(middle) if middle > 0 else float(twins)
        enough = power <= math.exp(twins * middle) * level + delta * group
        low, high = (low, middle) if enough else (middle, high)
    return low
