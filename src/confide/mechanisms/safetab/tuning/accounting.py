"""What the levels cost together: every figure is priced by the accountant from the noise.

On a level a person is in at most s groups. A group is measured in two stages or, if it is of a total-only iteration, in
one; these are the members of a family of bounded degree s (paper, Lemma 2). Levels follow one another on the same
persons. The United States and Puerto Rico have no person in common. Derivation: ``docs/proofs/accounting.md``,
section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt
from typing import Any

from confide.mechanisms.safetab.tuning.question import COVERAGE
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.privacy import (
    ZCDP,
    ApproxDP,
    BoundedDegree,
    Definition,
    Distribution,
    Event,
    Measurement,
    Neighbours,
    Parallel,
    Sequential,
    epsilons,
    price,
)

SIDES = {"unbounded": Neighbours.ADD_REMOVE, "bounded": Neighbours.CHANGE_ONE}
"""The paper's words for the two kinds of neighbours: one record more or fewer, and one record changed."""


@dataclass(frozen=True, slots=True)
class TuningLoss:
    """A loss for one kind of neighbours; for zCDP with the epsilon that it implies at a delta, each rounded up."""

    amount: Fraction
    epsilon: Mapping[str, float] | None


def level_event(
    stability: int, stage_1: NoiseDistribution, stage_2: NoiseDistribution, total_only: NoiseDistribution | None
) -> Event:
    """A population group level; there may be as many groups of either kind as a person can be in."""
    members: list[Event] = [Sequential([_measured(stage_1, "stage 1"), _measured(stage_2, "stage 2")])]
    if total_only is not None:
        members.append(_measured(total_only, "total only"))
    return BoundedDegree(members, degree=stability, copies=[stability] * len(members))


def release_event(passes: Mapping[str, list[Event]]) -> Event:
    """All levels of all passes."""
    return Parallel([Sequential(levels) for levels in passes.values()])


def stated(event: Event, definition: Definition, delta: Fraction) -> dict[str, TuningLoss]:
    """The loss of ``event`` for both kinds of neighbours."""
    return {side: _stated(event, neighbours, definition, delta) for side, neighbours in SIDES.items()}


def as_dict(both: Mapping[str, TuningLoss], definition: Definition, delta: Fraction) -> dict[str, Any]:
    """Both losses as plain values: a number for readers and the exact one as text."""
    name = "rho" if definition is Definition.ZCDP else "epsilon"
    result: dict[str, Any] = {}
    for side, loss in both.items():
        result[f"{name}_{side}"] = float(loss.amount)
        result[f"{name}_{side}_exact"] = str(loss.amount)
        if loss.epsilon is not None:
            result[f"epsilon_{side}"] = loss.epsilon["canonne_kamath_steinke"]
            result[f"epsilon_{side}_by"] = dict(loss.epsilon)
    return result | {"delta": float(delta) if definition is Definition.ZCDP else 0}


@lru_cache(maxsize=256)
def _stated(event: Event, neighbours: Neighbours, definition: Definition, delta: Fraction) -> TuningLoss:
    loss = price(event, neighbours, definition)
    if isinstance(loss, ZCDP):
        ways = epsilons(loss.rho, delta)
        # The one that is stated comes first.
        return TuningLoss(loss.rho, {"canonne_kamath_steinke": ways["canonne_kamath_steinke"]} | ways)
    assert not isinstance(loss, ApproxDP)
    return TuningLoss(loss.epsilon, None)


def _measured(law: NoiseDistribution, label: str) -> Measurement:
    return Measurement(Distribution(law.name), law.parameter, label=label)


# From budgets to noise and margins, and back.
#
# A query with the budget b of a level, or a share of it, is measured in at most s groups of a person, so every cell
# gets
#
# * zCDP: discrete Gaussian noise with σ² = s/(2b),
# * pure: two-sided geometric noise with ε = b/s per cell
#
# (paper, Algorithms 2 and 3). The noise margin is the smallest m with P(|X| ≤ m) ≥ 95 %, decided exactly. The paper's
# margin of error is ⌊1.96σ⌋, which is one too small for some σ: with σ² = 31.4 it says 10, and |X| ≤ 10 has 93.9 %.


_TWO_SIDED = Fraction(196, 100)
"""The 97.5 % point of the normal distribution, with the two decimals of the paper."""


def law_of(definition: Definition, stability: int, budget: Fraction) -> NoiseDistribution:
    """The noise of a cell of a query that costs ``budget`` over all groups of a person."""
    if definition is Definition.ZCDP:
        return DiscreteGaussian(stability / (2 * budget))
    return TwoSidedGeometric(budget / stability)


@lru_cache(maxsize=1024)
def margin_of(law: NoiseDistribution) -> int:
    """The 95 % noise margin, exact."""
    return law.noise_margin(COVERAGE)


def floor_margin(law: NoiseDistribution) -> int | None:
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
