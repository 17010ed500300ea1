"""The answer: for each level what its budget buys, and what all levels cost together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1, sqrt
from typing import Any

import numpy as np

from confide.errors import ParameterError, Place
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL, GRIDS, ITERATION_LEVELS, TOTAL_TABLE
from confide.mechanisms.safetab.tallies import count_interval, inverted, margin_of_sum
from confide.mechanisms.safetab.tuning.question import (
    COVERAGE,
    BudgetRule,
    LevelQuestion,
    TuningLoss,
    TuningQuestion,
    floor_margin,
    formula_budget,
    law_of,
    level_event,
    losses_as_dict,
    margin_of,
    release_event,
    smallest_budget,
    stated,
)
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.privacy import Definition, Event

# How large a group must be for a table to be worth its noise.
#
# A table with c cells of a group of n persons has n/c persons in a cell on average. Its **relative error** is the 95
# % noise margin of a cell, m, over that average: m c / n. The total of the table is the sum of c noisy cells; its
# relative error is the noise margin of that sum over n.


def size_for(margin: int, cells: int, relative_error: Fraction) -> int:
    """The smallest population with ``margin * cells / population <= relative_error``."""
    return ceil(margin * cells / relative_error)


# Suppression: threshold, probability and bias (paper, section 5.3.2), from the discrete laws themselves.
#
# A group below the states that gets a total alone is released if its noisy total n + X is above T. T is the smallest
# whole number with P(X ≤ T) ≥ p, so that a true zero is suppressed with a probability of at least p. Hence
#
# * P(suppressed | n) = P(X ≤ T − n),
# * bias(n) = E[X | X > T − n].
#
# The paper's equation 13 gives the bias of a continuous Gaussian; here it is summed over the integers. With t = T − n
# and u = max(t + 1, −t) the terms from t + 1 to u − 1 cancel in pairs, so that Σ_{x > t} x P(x) = Σ_{x ≥ u} x P(x):
# all terms are positive, and double precision loses nothing.


_FAR = 12.0  # what lies twelve standard deviations further out is below 1e-30 of the sum


def suppression_threshold(law: NoiseDistribution, zero_suppression: Fraction) -> int | None:
    """T: a noisy total is released if it is above; None if nothing is suppressed."""
    return law.quantile(zero_suppression) if zero_suppression else None


def suppression_probability(law: NoiseDistribution, threshold: int, size: int) -> float:
    """The probability that a group of ``size`` persons is suppressed, correctly rounded."""
    return law.cdf(threshold - size)


def release_bias(law: NoiseDistribution, threshold: int, size: int) -> float:
    """By how much the released total of a group of ``size`` persons exceeds the truth on average."""
    t = threshold - size
    first = max(t + 1, -t)
    weight, moment = _tail_sums(law, first)
    # Beyond the middle both sums have the same unit, the probability of the first term, and it need not be known.
    return moment / weight if t >= 0 else moment * law.pmf(first) / law.tail(t)


def _tail_sums(law: NoiseDistribution, first: int) -> tuple[float, float]:
    """Σ P(x)/P(first) and Σ x P(x)/P(first) over x ≥ ``first`` ≥ 1."""
    if isinstance(law, TwoSidedGeometric):
        epsilon = float(law.epsilon)
        stay = -expm1(-epsilon)
        return 1 / stay, (first + exp(-epsilon) / stay) / stay
    assert isinstance(law, DiscreteGaussian)
    sigma2 = float(law.sigma2)
    steps = np.arange(int(_FAR * sqrt(sigma2)) + 3, dtype=np.float64)
    # (first + k)² − first² = k(2·first + k), so that nothing large is subtracted.
    weights = np.exp(-steps * (2 * first + steps) / (2 * sigma2))
    return float(np.sum(weights)), float(np.sum(weights * (first + steps)))


TABLES = dict(zip((TOTAL_TABLE, *(grid.table for grid in GRIDS)), CELLS_OF_LEVEL, strict=True))
"""The four tables and their numbers of measured cells."""


@dataclass(frozen=True)
class LevelTuning:
    """A population group level with its budget, its noise and what follows from it.

    ``stage_2`` is the noise of what is released, ``stage_1`` that of the total which chooses the table, ``total_only``
    that of total-only iterations, on the levels that have them.
    """

    level_question: LevelQuestion
    question: TuningQuestion
    budget: Fraction

    def _law(self, share: Fraction) -> NoiseDistribution:
        return law_of(self.question.definition, self.question.groups_per_person, share * self.budget)

    @property
    def stage_1(self) -> NoiseDistribution:
        return self._law(self.question.stage_1_fraction)

    @property
    def stage_2(self) -> NoiseDistribution:
        return self._law(self.question.stage_2_share)

    @property
    def total_only(self) -> NoiseDistribution | None:
        return self._law(Fraction(1)) if self.level_question.is_large else None

    @property
    def margin(self) -> int:
        """The exact 95 % noise margin of a released cell."""
        return margin_of(self.stage_2)

    @property
    def total_margins(self) -> dict[str, int]:
        """For each table the noise margin of a group's total: measured itself, or the sum of the table's cells."""
        return {name: margin_of_sum(self.stage_2, cells, COVERAGE) for name, cells in TABLES.items()}

    def interval_of(self, figure: int) -> tuple[int, int]:
        """What a total that stands alone means, given that it was published: the least and the largest count."""
        above = None if self.level_question.is_large else self.threshold
        return count_interval(self.stage_2, figure, COVERAGE, above)

    @property
    def shown_figures(self) -> list[int]:
        """Totals to explain: the smallest one that is published, and some up to where suppression is forgotten."""
        if self.level_question.is_large or self.threshold is None:
            return []
        first, last = self.threshold + 1, inverted(self.stage_2, COVERAGE, self.threshold).settled_from
        return sorted({first + (last - first) * part // 4 for part in (0, 1, 2, 4)})

    @property
    def target_holds(self) -> bool | None:
        """Whether a released cell is within the target with a probability of at least 95 %."""
        return None if self.level_question.target is None else self.margin <= self.level_question.target

    @property
    def threshold(self) -> int | None:
        """The suppression threshold that the noise has, whether or not the level is one where it applies."""
        return suppression_threshold(self.stage_2, self.question.zero_suppression)

    @property
    def event(self) -> Event:
        """The level as the accountant sees it."""
        return level_event(self.question.groups_per_person, self.stage_1, self.stage_2, self.total_only)

    def sizes(self) -> dict[str, dict[str, int]]:
        """For each table the population at which a cell, and the total, reach the target relative error."""
        wanted = self.question.relative_error
        return {
            name: {
                "cells": cells,
                "cell": size_for(self.margin, cells, wanted),
                "total": size_for(margin_of_sum(self.stage_2, cells, COVERAGE), 1, wanted),
            }
            for name, cells in TABLES.items()
        }

    def group_of(self, size: int) -> dict[str, Any]:
        """What happens to a group of ``size`` persons: suppression and bias of a total, and which table it gets."""
        row: dict[str, Any] = {"size": size}
        if self.threshold is not None:
            row["suppression_probability"] = suppression_probability(self.stage_2, self.threshold, size)
            row["bias_if_released"] = release_bias(self.stage_2, self.threshold, size)
        if self.level_question.thresholds is not None:
            below = [self.stage_1.cdf(threshold - size - 1) for threshold in self.level_question.thresholds]
            row["table_probability"] = dict(
                zip(TABLES, (high - low for low, high in zip((0.0, *below), (*below, 1.0), strict=True)), strict=True)
            )
        return row

    def budgets_for_target(self) -> dict[str, Any] | None:
        """The budget of the target by the paper's formula, and the smallest at which the target holds."""
        target, question = self.level_question.target, self.question
        if target is None:
            return None
        s, share = question.groups_per_person, question.stage_2_share
        least = smallest_budget(question.definition, target, s, share, question.decimals)
        budgets: dict[str, Any] = {"smallest": float(least), "smallest_exact": str(least)}
        if question.definition is Definition.ZCDP:
            formula = formula_budget(target, s, share)
            budgets |= {"formula": float(formula), "formula_exact": str(formula)}
            budgets["formula_rounded"] = float(round(formula, question.decimals))
        return budgets

    def as_dict(self) -> dict[str, Any]:
        unit, asked = self.question.unit, self.level_question
        target = asked.target
        laws = {"stage_1": self.stage_1, "stage_2": self.stage_2, "total_only": self.total_only}
        return {
            "name": asked.name,
            "region_type": asked.region_type,
            "iteration_level": asked.iteration_level,
            "iteration": ITERATION_LEVELS[asked.iteration_level],
            unit: float(self.budget),
            f"{unit}_exact": str(self.budget),
            "moe": self.margin,
            "moe_floor": floor_margin(self.stage_2),
            "moe_of_totals": self.total_margins,
            "moe_total_only": None if self.total_only is None else margin_of(self.total_only),
            "moe_target": target,
            "target_holds": self.target_holds,
            "target_probability": None if target is None else float(self.stage_2.folded_cdf_bounds(target)[0]),
            "budgets_for_target": self.budgets_for_target(),
            "suppression_threshold": self.threshold,
            "suppression_applies": self.threshold is not None and not asked.is_large,
            "published_totals": [
                dict(zip(("figure", "low", "high"), (figure, *self.interval_of(figure)), strict=True))
                for figure in self.shown_figures
            ],
            "noise": {name: None if law is None else law.as_dict() for name, law in laws.items()},
            "population_for_relative_error": self.sizes(),
            "groups": [self.group_of(size) for size in self.question.sizes],
            "loss": losses_as_dict(
                stated(self.event, self.question.definition, self.question.delta),
                self.question.definition,
                self.question.delta,
            ),
        }


@dataclass(frozen=True)
class ReleaseTuning:
    """What was asked, the levels, and the losses of everything and of each pass."""

    question: TuningQuestion
    levels: tuple[LevelTuning, ...]

    @property
    def passes(self) -> dict[str, tuple[LevelTuning, ...]]:
        """The levels of the US pass and of the Puerto Rico pass, where there are any."""
        named = {"US": False, "PR": True}
        losses = {
            name: tuple(level for level in self.levels if level.level_question.of_puerto_rico is which)
            for name, which in named.items()
        }
        return {name: levels for name, levels in losses.items() if levels}

    def totals(self) -> dict[str, TuningLoss]:
        """The loss of the release, for both kinds of neighbours."""
        return self._stated(self.passes)

    def totals_of(self, name: str) -> dict[str, TuningLoss]:
        """The loss of one pass."""
        return self._stated({name: self.passes[name]})

    def _stated(self, passes: Mapping[str, tuple[LevelTuning, ...]]) -> dict[str, TuningLoss]:
        event = release_event({name: [level.event for level in levels] for name, levels in passes.items()})
        return stated(event, self.question.definition, self.question.delta)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for ``--json``."""
        asked = self.question

        def plain(both: Mapping[str, TuningLoss]) -> dict[str, Any]:
            return losses_as_dict(both, asked.definition, asked.delta)

        return {
            "mechanism": "safetab",
            "definition": asked.definition.value,
            "gamma": float(asked.stage_1_fraction),
            "max_race_codes": asked.max_race_codes,
            "stability": asked.groups_per_person,
            "zero_suppression": float(asked.zero_suppression),
            "relative_error": float(asked.relative_error),
            "levels": [level.as_dict() for level in self.levels],
            "totals": plain(self.totals()),
            "passes": {name: plain(self.totals_of(name)) for name in self.passes},
        }


def tune(question: TuningQuestion) -> ReleaseTuning:
    """The answer to ``question``. It depends on nothing else: no record, no file, no chance.

    Args:
        question: Population group levels, each with a budget, a target noise margin (persons, 95 %), or both.

    Returns:
        For each level its budget, noise and margins, and what all levels cost together.

    >>> from confide.mechanisms.safetab.tuning import production_tuning
    >>> tune(production_tuning()).levels[0].level_question.name
    'USA-1'
    """
    return ReleaseTuning(
        question, tuple(LevelTuning(level, question, _budget(level, question)) for level in question.levels)
    )


def _budget(level: LevelQuestion, question: TuningQuestion) -> Fraction:
    """The budget that was given, or the one that the target needs.

    The formula is for zCDP and is rounded to the nearest decimal, as in the paper's Table 7.
    """
    if level.budget is not None:
        return level.budget
    assert level.target is not None
    s, share = question.groups_per_person, question.stage_2_share
    if question.definition is not Definition.ZCDP or question.rule is BudgetRule.smallest:
        return smallest_budget(question.definition, level.target, s, share, question.decimals)
    rounded = Fraction(round(formula_budget(level.target, s, share), question.decimals))
    if not rounded:
        raise ParameterError(
            "budget-rounds-to-zero",
            where=Place(path=f"--moe {level.region_type}:{level.iteration_level}={level.target}"),
            decimals=question.decimals,
        )
    return rounded


# The numbers behind the pictures: suppression and bias by size, and margins by budget.


_POINTS = 120
_REACH = 2
"""Sizes are looked at up to twice the suppression threshold, as in the paper's Figures 1 and 2."""


def budgets(answer: ReleaseTuning) -> list[Fraction]:
    """The different budgets of the levels, largest first."""
    return sorted({level.budget for level in answer.levels}, reverse=True)


def by_size(answer: ReleaseTuning) -> list[dict[str, Any]]:
    """For each budget and size of a group: both as shares of the threshold, P(suppressed) and bias (Figures 1, 2).

    A budget whose threshold is zero has no such shares, and no curve.
    """
    question = answer.question
    rows: list[dict[str, Any]] = []
    for budget in budgets(answer):
        law = law_of(question.definition, question.groups_per_person, question.stage_2_share * budget)
        threshold = suppression_threshold(law, question.zero_suppression)
        if threshold is not None and threshold > 0:
            rows += _curve(law, threshold, f"{question.unit} {float(budget):g}")
    return rows


def _curve(law: NoiseDistribution, threshold: int, name: str) -> list[dict[str, Any]]:
    return [
        {
            "budget": name,
            "threshold": threshold,
            "size": size,
            "of_threshold": size / threshold,
            "suppressed": suppression_probability(law, threshold, size),
            "bias_of_threshold": release_bias(law, threshold, size) / threshold,
        }
        for size in range(0, _REACH * threshold + 1, max(1, _REACH * threshold // _POINTS))
    ]


def by_budget(answer: ReleaseTuning) -> list[dict[str, Any]]:
    """Noise margin and suppression threshold for budgets around those of the levels, evenly spaced in logarithms."""
    question, own = answer.question, budgets(answer)
    low, high = own[-1] / 4, own[0] * 4
    steps = 160
    ratio = float(high / low) ** (1 / steps)
    spaced = [low * Fraction(ratio**step).limit_denominator(10**6) for step in range(steps + 1)]
    rows = []
    for budget in sorted({*spaced, *own}):
        law = law_of(question.definition, question.groups_per_person, question.stage_2_share * budget)
        values = {
            "95 % noise margin": margin_of(law),
            "suppression threshold": suppression_threshold(law, question.zero_suppression),
        }
        rows += [
            {"budget": float(budget), "what": what, "persons": persons, "own": budget in own}
            for what, persons in values.items()
            if persons is not None
        ]
    return rows
