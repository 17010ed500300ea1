"""What is asked of the tuning: levels with budgets or target margins, and what they all share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt
from typing import Any

from confide import privacy
from confide.documents import load_shipped
from confide.errors import Finding, ParameterError, Place
from confide.exact import exact
from confide.mechanisms.safetab.settings import (
    ITERATION_LEVELS,
    MOST_RACE_CODES,
    REGION_TYPES,
    STATES,
    LevelName,
    LevelSettings,
    SafeTabSettings,
)
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric

COVERAGE = Fraction(95, 100)
"""The probability of every noise margin here."""

SMALLEST_BUDGET, LARGEST_BUDGET = Fraction(1, 10**6), Fraction(10**4)
LARGEST_TARGET, LARGEST_SIZE, LARGEST_STABILITY = 10**5, 10**9, 1000


class BudgetRule(StrEnum):
    """How a target margin becomes a budget: by the paper's formula, rounded; or the smallest with which it holds."""

    formula = "formula"
    smallest = "smallest"


@dataclass(frozen=True, slots=True)
class LevelQuestion(LevelName):
    """A population group level with a budget, a target margin, or both: then the budget decides and the target is
    compared. ``budget`` is rho or epsilon when one record is added or removed."""

    budget: Fraction | None = None
    target: int | None = None
    thresholds: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class TuningQuestion:
    """Everything that the answer depends on. It is checked when it is made, and every problem is reported at once.

    ``zero_suppression`` is the probability with which a true zero is suppressed, 0 for no suppression;
    ``relative_error`` the largest acceptable one of a cell; ``sizes`` true sizes of groups to look at; ``delta`` where
    epsilon is stated. ``rule`` and ``decimals`` say how a target becomes a budget. ``stability`` replaces the number
    of groups that a person can be in on a level.
    """

    definition: privacy.Definition
    levels: tuple[LevelQuestion, ...]
    stage_1_fraction: Fraction = Fraction(1, 10)
    max_race_codes: int = MOST_RACE_CODES
    zero_suppression: Fraction = Fraction(9999, 10000)
    relative_error: Fraction = Fraction(5, 100)
    sizes: tuple[int, ...] = (5, 20, 100)
    delta: Fraction = Fraction(1, 10**10)
    rule: BudgetRule = BudgetRule.formula
    decimals: int = 3
    stability: int | None = None

    def __post_init__(self) -> None:
        findings = [*_shared(self), *_levels(self.levels)]
        if findings:
            raise ParameterError(findings)

    @property
    def groups_per_person(self) -> int:
        """How many groups of a level a person can be in: s = max(2, race codes) + 1.

        One race code gives two groups, "alone" and "in combination"; k ≥ 2 codes give at most k, and the ethnicity
        one more (paper, section 6.3.1). Code lists of another shape have another number: give it as ``stability``.
        """
        return self.stability if self.stability is not None else max(2, self.max_race_codes) + 1

    @property
    def stage_2_share(self) -> Fraction:
        """The part of a level's budget that the released counts are measured with."""
        return 1 - self.stage_1_fraction

    @property
    def unit(self) -> str:
        """What a budget is called: rho or epsilon."""
        return "rho" if self.definition is privacy.Definition.ZCDP else "epsilon"


def question_of(settings: SafeTabSettings, *, stability: int | None = None) -> TuningQuestion:
    """The question that the settings of a release ask; levels without a budget are not tabulated and left out."""
    levels = tuple(
        LevelQuestion(level.region_type, level.iteration_level, level.budget, None, level.thresholds)
        for level in settings.levels
        if level.budget
    )
    return TuningQuestion(
        definition=settings.definition,
        levels=levels,
        stage_1_fraction=settings.stage_1_fraction,
        max_race_codes=settings.max_race_codes,
        zero_suppression=settings.zero_suppression,
        stability=stability,
    )


def _shared(question: TuningQuestion) -> Iterator[Finding]:
    if question.definition not in (privacy.Definition.ZCDP, privacy.Definition.PURE):
        yield Finding.of("definition-out-of-range", where=Place(path="--definition"), found=question.definition.value)
    if not 0 < question.stage_1_fraction < 1:
        yield Finding.of("gamma-out-of-range", where=Place(path="--gamma"), found=str(question.stage_1_fraction))
    if not 1 <= question.max_race_codes <= MOST_RACE_CODES:
        yield Finding.of(
            "race-codes-out-of-range",
            where=Place(path="--race-codes"),
            found=str(question.max_race_codes),
            most_race_codes=MOST_RACE_CODES,
        )
    if question.stability is not None and not 1 <= question.stability <= LARGEST_STABILITY:
        yield Finding.of(
            "stability-out-of-range",
            where=Place(path="--stability"),
            found=str(question.stability),
            largest_stability=LARGEST_STABILITY,
        )
    if not 0 <= question.zero_suppression < 1:
        yield Finding.of(
            "suppression-out-of-range", where=Place(path="--suppression"), found=str(question.zero_suppression)
        )
    if not 0 < question.relative_error <= 1:
        yield Finding.of(
            "relative-error-out-of-range", where=Place(path="--relative-error"), found=str(question.relative_error)
        )
    if not 0 < question.delta < 1:
        yield Finding.of("delta-out-of-range/small-probability", where=Place(path="--delta"), found=str(question.delta))
    if not 0 <= question.decimals <= 9:
        yield Finding.of("decimals-out-of-range", where=Place(path="--decimals"), found=str(question.decimals))
    for size in question.sizes:
        if not 0 <= size <= LARGEST_SIZE:
            yield Finding.of(
                "size-out-of-range", where=Place(path="--size"), found=str(size), largest_size=LARGEST_SIZE
            )


def _levels(levels: tuple[LevelQuestion, ...]) -> Iterator[Finding]:
    if not levels:
        yield Finding.of("no-levels", where=Place(path="--level"))
    for level in levels:
        if level.region_type not in REGION_TYPES:
            yield Finding.of(
                "unknown-region-type",
                where=Place(path="--level"),
                region_type=level.region_type,
                iteration_level=level.iteration_level,
                region_types=", ".join(REGION_TYPES),
            )
        if level.iteration_level not in ITERATION_LEVELS:
            yield Finding.of(
                "unknown-iteration-level",
                where=Place(path="--level"),
                region_type=level.region_type,
                iteration_level=level.iteration_level,
            )
        if level.budget is None and level.target is None:
            yield Finding.of(
                "neither-budget-nor-target",
                where=Place(path="--level"),
                region_type=level.region_type,
                iteration_level=level.iteration_level,
            )
        if level.budget is not None and not SMALLEST_BUDGET <= level.budget <= LARGEST_BUDGET:
            yield Finding.of(
                "budget-out-of-range",
                where=Place(path="--level"),
                region_type=level.region_type,
                iteration_level=level.iteration_level,
                budget=str(level.budget)[:40],
                smallest_budget=float(SMALLEST_BUDGET),
                largest_budget=LARGEST_BUDGET,
            )
        if level.target is not None and not 1 <= level.target <= LARGEST_TARGET:
            yield Finding.of(
                "target-out-of-range",
                where=Place(path="--moe"),
                region_type=level.region_type,
                iteration_level=level.iteration_level,
                target=level.target,
                largest_target=LARGEST_TARGET,
            )
    counted = Counter((level.region_type, level.iteration_level) for level in levels)
    for (region_type, iteration_level), times in counted.items():
        if times > 1:
            yield Finding.of(
                "level-twice/times",
                where=Place(path="--level"),
                region_type=region_type,
                iteration_level=iteration_level,
                times=times,
            )


# The settings of the 2020 Census, from a data file: where every tuning begins.


PRODUCTION = "production-2020"


def production_settings() -> SafeTabSettings:
    """The settings of the production run, US and Puerto Rico, levels in the order of tabulation."""
    values = load_shipped("safetab", PRODUCTION)
    return SafeTabSettings(
        definition=privacy.Definition(values["definition"]),
        levels=tuple(
            LevelSettings(*key, budget, thresholds) for key, (budget, _, thresholds) in _levels_production(values)
        ),
        stage_1_fraction=exact(values["stage_1_fraction"]),
        max_race_codes=values["max_race_codes"],
        zero_suppression=exact(values["zero_suppression"]),
        negative_counts=values["negative_counts"],
        states=STATES,
        puerto_rico=True,
    )


def production_tuning(*, puerto_rico: bool = False, by: str = "budget") -> TuningQuestion:
    """The production levels with their budgets and the published targets beside them (``by="budget"``), or with the
    targets alone (``by="target"``), from which budgets are then found."""
    targets = {key: target for key, (_, target, _) in _levels_production(load_shipped("safetab", PRODUCTION))}
    question = question_of(production_settings())
    return replace(
        question,
        levels=tuple(
            _with_target(level, targets[level.region_type, level.iteration_level], by)
            for level in question.levels
            if puerto_rico or not level.of_puerto_rico
        ),
    )


def _with_target(level: LevelQuestion, target: int, by: str) -> LevelQuestion:
    return replace(level, target=target, budget=level.budget if by == "budget" else None)


def _levels_production(
    values: dict[str, Any],
) -> list[tuple[tuple[str, int], tuple[Fraction, int, tuple[int, int, int]]]]:
    """(region type, iteration level) with budget, target and thresholds, sorted as they are tabulated."""
    rows = [
        ((region_type, row["iteration_level"]), (exact(row["budget"]), row["target"], tuple(row["thresholds"])))
        for row in values["levels"]
        for region_type in row["region_types"]
    ]
    return sorted(rows, key=lambda entry: (REGION_TYPES.index(entry[0][0]), entry[0][1]))


# What the levels cost together: every figure is priced by the accountant from the noise.
#
# On a level a person is in at most s groups. A group is measured in two stages or, if it is of a total-only iteration,
# in one; these are the members of a family of bounded degree s (paper, Lemma 2). Levels follow one another on the same
# persons. The United States and Puerto Rico have no person in common. Derivation: ``docs/proofs/accounting.md``,
# section 3.


SIDES = {"unbounded": privacy.Neighbours.ADD_REMOVE, "bounded": privacy.Neighbours.CHANGE_ONE}
"""The paper's words for the two kinds of neighbours: one record more or fewer, and one record changed."""


@dataclass(frozen=True, slots=True)
class TuningLoss:
    """A loss for one kind of neighbours; for zCDP with the epsilon that it implies at a delta, each rounded up."""

    amount: Fraction
    epsilon: Mapping[str, float] | None


def level_event(
    stability: int, stage_1: NoiseDistribution, stage_2: NoiseDistribution, total_only: NoiseDistribution | None
) -> privacy.Event:
    """A population group level; there may be as many groups of either kind as a person can be in."""
    members: list[privacy.Event] = [privacy.Sequential([_measured(stage_1, "stage 1"), _measured(stage_2, "stage 2")])]
    if total_only is not None:
        members.append(_measured(total_only, "total only"))
    return privacy.BoundedDegree(members, degree=stability, copies=[stability] * len(members))


def release_event(passes: Mapping[str, list[privacy.Event]]) -> privacy.Event:
    """All levels of all passes."""
    return privacy.Parallel([privacy.Sequential(levels) for levels in passes.values()])


def stated(event: privacy.Event, definition: privacy.Definition, delta: Fraction) -> dict[str, TuningLoss]:
    """The loss of ``event`` for both kinds of neighbours."""
    return {side: _stated(event, neighbours, definition, delta) for side, neighbours in SIDES.items()}


def losses_as_dict(both: Mapping[str, TuningLoss], definition: privacy.Definition, delta: Fraction) -> dict[str, Any]:
    """Both losses as plain values: a number for readers and the exact one as text."""
    name = "rho" if definition is privacy.Definition.ZCDP else "epsilon"
    result: dict[str, Any] = {}
    for side, loss in both.items():
        result[f"{name}_{side}"] = float(loss.amount)
        result[f"{name}_{side}_exact"] = str(loss.amount)
        if loss.epsilon is not None:
            result[f"epsilon_{side}"] = loss.epsilon["canonne_kamath_steinke"]
            result[f"epsilon_{side}_by"] = dict(loss.epsilon)
    return result | {"delta": float(delta) if definition is privacy.Definition.ZCDP else 0}


@lru_cache(maxsize=256)
def _stated(
    event: privacy.Event, neighbours: privacy.Neighbours, definition: privacy.Definition, delta: Fraction
) -> TuningLoss:
    loss = privacy.price(event, neighbours, definition)
    if isinstance(loss, privacy.ZCDP):
        ways = privacy.epsilons(loss.rho, delta)
        # The one that is stated comes first.
        return TuningLoss(loss.rho, {"canonne_kamath_steinke": ways["canonne_kamath_steinke"]} | ways)
    assert not isinstance(loss, privacy.ApproxDP)
    return TuningLoss(loss.epsilon, None)


def _measured(law: NoiseDistribution, label: str) -> privacy.Measurement:
    return privacy.Measurement(privacy.Distribution(law.name), law.parameter, label=label)


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


def law_of(definition: privacy.Definition, stability: int, budget: Fraction) -> NoiseDistribution:
    """The noise of a cell of a query that costs ``budget`` over all groups of a person."""
    if definition is privacy.Definition.ZCDP:
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
def smallest_budget(
    definition: privacy.Definition, target: int, stability: int, share: Fraction, decimals: int
) -> Fraction:
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
