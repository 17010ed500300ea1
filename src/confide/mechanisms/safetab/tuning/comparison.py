"""Gaussian against geometric noise at the same noise margins, both stated as epsilon at a delta.

For the same 95 % margin geometric noise has heavier tails but a smaller largest loss, and which of the two costs less
depends on how many measurements add up, on delta, and on how the loss is accounted. So several accountings are put side
by side (``docs/concepts/safetab-tuning.md`` discusses them):

* ``converted``: each in its own definition; rho converted by Canonne, Kamath and Steinke, epsilons simply added up;
* ``zcdp``: both composed in zCDP, geometric noise with ρ = ε²/2 per cell, and converted;
* ``distribution``: both by their privacy loss distributions, for persons in groups that are measured in two stages.

The released counts get the same margins. For stage 1 there are two readings: geometric noise with the same share γ of
its budget (then it is much wider than the Gaussian), or as accurate there too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import ParameterError
from confide.mechanisms.safetab.tuning.answer import LevelTuning, ReleaseTuning
from confide.mechanisms.safetab.tuning.question import law_of, level_event, margin_of, release_event, smallest_budget
from confide.noise import TwoSidedGeometric
from confide.privacy import Bracket, Definition, Neighbours, NoisyCells, cks_epsilon, epsilon_bracket, price

# The privacy loss distribution of geometric noise: a bracket for epsilon at delta.
#
# A record that moves a count by one turns noise P(x) ∝ exp(−ε|x|) into Q(x) = P(x − 1), and ln P(x)/Q(x) is +ε for x
# ≤ 0 and −ε for x ≥ 1: two values, the first with probability 1/(1 + exp(−ε)). Over n cells with the same ε the loss
# is ε(2K − n) with K binomial. Cells with different ε add up; they meet on a grid of losses, rounded up for the
# pessimistic end of the bracket and down for the optimistic, and δ(ε) = E[(1 − exp(ε − L))₊]. All terms are positive,
# so double precision is right to about 1e-10 of δ, which is added and subtracted too.


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


_DECIMALS = 6
_INTERVAL = Fraction(1, 2000)
"""The grid of losses: with six different laws it makes an epsilon larger by 0.003 at most."""

STAGE_1 = {"share": "same share", "margin": "as accurate"}
ACCOUNTINGS = {
    "converted": "each by its own definition",
    "zcdp": "both by zCDP",
    "distribution": "both by their loss distributions",
}


@dataclass(frozen=True, slots=True)
class NoiseCostComparison:
    """Two epsilons at the same delta, both for one record added or removed."""

    stage_1: str
    accounting: str
    gaussian: float
    geometric: float

    @property
    def saving(self) -> float:
        """By how much less the Gaussian costs, as a share of the geometric; below zero if it costs more."""
        return 1 - self.gaussian / self.geometric

    def as_dict(self) -> dict[str, Any]:
        return {
            "stage_1": self.stage_1,
            "accounting": self.accounting,
            "epsilon_gaussian": self.gaussian,
            "epsilon_geometric": self.geometric,
            "gaussian_costs_less_by": self.saving,
        }


def compare_noise_costs(answer: ReleaseTuning) -> list[NoiseCostComparison]:
    """The costliest pass of a zCDP answer, against geometric noise with the same margins (the targets, if given)."""
    if answer.question.definition is not Definition.ZCDP:
        raise ParameterError(
            "nothing-to-compare",
            "the comparison begins with discrete Gaussian noise",
            found=f"definition {answer.question.definition.value}",
            expected="definition zcdp",
            remedy="leave out --definition pure; the geometric noise is found from the margins",
        )
    levels = max(answer.passes.values(), key=lambda members: sum(member.budget for member in members))
    delta, s = answer.question.delta, answer.question.groups_per_person
    noisy = [NoisyCells(law.parameter, s) for level in levels for law in (level.stage_1, level.stage_2)]
    tightest = epsilon_bracket(noisy, delta, _INTERVAL).pessimistic
    return [row for stage_1 in STAGE_1 for row in _rows(answer, levels, stage_1, tightest)]


def _rows(
    answer: ReleaseTuning, levels: Iterable[LevelTuning], stage_1: str, tightest: float
) -> Iterable[NoiseCostComparison]:
    delta, s = answer.question.delta, answer.question.groups_per_person
    pairs = [(level, *_geometric(level, stage_1)) for level in levels]
    gaussian = release_event({"": [level_event(s, level.stage_1, level.stage_2, None) for level, _, _ in pairs]})
    geometric = release_event({"": [level_event(s, first, second, None) for _, first, second in pairs]})
    rho = price(gaussian, Neighbours.ADD_REMOVE, Definition.ZCDP).as_dict()["rho"]
    pure = price(geometric, Neighbours.ADD_REMOVE, Definition.PURE).as_dict()["epsilon"]
    geometric_rho = price(geometric, Neighbours.ADD_REMOVE, Definition.ZCDP).as_dict()["rho"]
    converted = cks_epsilon(rho, delta)
    yield NoiseCostComparison(stage_1, "converted", converted, float(Fraction(pure)))
    yield NoiseCostComparison(stage_1, "zcdp", converted, cks_epsilon(geometric_rho, delta))
    cells: Counter[Fraction] = Counter()
    for _, first, second in pairs:
        cells[first.epsilon] += s
        cells[second.epsilon] += s
    yield NoiseCostComparison(
        stage_1, "distribution", tightest, geometric_bracket(cells, delta, float(_INTERVAL)).pessimistic
    )


def _geometric(level: LevelTuning, stage_1: str) -> tuple[TwoSidedGeometric, TwoSidedGeometric]:
    """Geometric noise for both stages that is as accurate as the Gaussian noise of the level."""
    question = level.question
    s, share = question.groups_per_person, question.stage_1_fraction
    margin = level.margin if level.level_question.target is None else level.level_question.target
    budget = smallest_budget(Definition.PURE, margin, s, question.stage_2_share, _DECIMALS)
    second = law_of(Definition.PURE, s, question.stage_2_share * budget)
    if stage_1 == "margin":
        budget = smallest_budget(Definition.PURE, margin_of(level.stage_1), s, share, _DECIMALS)
    first = law_of(Definition.PURE, s, share * budget)
    assert isinstance(first, TwoSidedGeometric)
    assert isinstance(second, TwoSidedGeometric)
    return first, second
