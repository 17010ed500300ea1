"""From budgets to noise and margins, and back.

A query with the budget b of a level, or a share of it, is measured in at most s groups of a person, so every cell gets

* zCDP: discrete Gaussian noise with σ² = s/(2b),
* pure: two-sided geometric noise with ε = b/s per cell

(paper, Algorithms 2 and 3). The noise margin is the smallest m with P(|X| ≤ m) ≥ 95 %, decided exactly. The paper's
margin of error is ⌊1.96σ⌋, which is one too small for some σ: with σ² = 31.4 it says 10, and |X| ≤ 10 has 93.9 %.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt

from confide.noise import DiscreteGaussian, Law, TwoSidedGeometric
from confide.privacy import Definition
from confide.safetab.tuning.question import COVERAGE

_TWO_SIDED = Fraction(196, 100)
"""The 97.5 % point of the normal distribution, with the two decimals of the paper."""


def law_of(definition: Definition, stability: int, budget: Fraction) -> Law:
    """The noise of a cell of a query that costs ``budget`` over all groups of a person."""
    if definition is Definition.ZCDP:
        return DiscreteGaussian(stability / (2 * budget))
    return TwoSidedGeometric(budget / stability)


@lru_cache(maxsize=1024)
def margin_of(law: Law) -> int:
    """The 95 % noise margin, exact."""
    return law.noise_margin(COVERAGE)


def floor_margin(law: Law) -> int | None:
    """The paper's margin of error, ⌊1.96σ⌋, in integers; None for geometric noise, for which it has no formula."""
    return isqrt(floor(_TWO_SIDED**2 * law.sigma2)) if isinstance(law, DiscreteGaussian) else None


def formula_budget(target: int, stability: int, share: Fraction) -> Fraction:
    """Corollary 2: ρ = 1.96²/(2 MOE²) for a query of sensitivity one, times s, over the share of stage 2."""
    return _TWO_SIDED**2 / 2 * stability / (share * target**2)


@lru_cache(maxsize=1024)
def smallest_budget(definition: Definition, target: int, stability: int, share: Fraction, decimals: int) -> Fraction:
    """The smallest budget of a level, with so many decimals, at which the exact margin is at most ``target``.

    The margin falls as the budget grows, since |X| has a monotone likelihood ratio in either law.
    """
    unit = Fraction(1, 10**decimals)

    def holds(units: int) -> bool:
        return margin_of(law_of(definition, stability, share * units * unit)) <= target

    low, high = 0, max(1, floor(formula_budget(target, stability, share) / unit))
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high * unit
