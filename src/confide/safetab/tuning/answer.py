"""The answer: for each level what its budget buys, and what all levels cost together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.errors import Finding, ParameterError, Place
from confide.noise import Law
from confide.privacy import Definition, Event
from confide.safetab.grids import CELLS_OF_LEVEL, GRIDS, TOTAL_TABLE
from confide.safetab.settings import ITERATION_LEVELS
from confide.safetab.tuning import accounting
from confide.safetab.tuning.accounting import Stated, level_event, release_event, stated
from confide.safetab.tuning.accuracy import size_for, sum_margin
from confide.safetab.tuning.laws import floor_margin, formula_budget, law_of, margin_of, smallest_budget
from confide.safetab.tuning.question import LevelQuestion, Question, Rule
from confide.safetab.tuning.suppression import release_bias, suppression_probability, suppression_threshold

TABLES = dict(zip((TOTAL_TABLE, *(grid.table for grid in GRIDS)), CELLS_OF_LEVEL, strict=True))
"""The four tables and their numbers of measured cells."""


@dataclass(frozen=True)
class LevelAnswer:
    """A population group level with its budget, its noise and what follows from it.

    ``stage_2`` is the noise of what is released, ``stage_1`` that of the total which chooses the table, ``total_only``
    that of total-only iterations, on the levels that have them.
    """

    asked: LevelQuestion
    question: Question
    budget: Fraction

    def _law(self, share: Fraction) -> Law:
        return law_of(self.question.definition, self.question.groups_per_person, share * self.budget)

    @property
    def stage_1(self) -> Law:
        return self._law(self.question.stage_1_fraction)

    @property
    def stage_2(self) -> Law:
        return self._law(self.question.stage_2_share)

    @property
    def total_only(self) -> Law | None:
        return self._law(Fraction(1)) if self.asked.is_large else None

    @property
    def margin(self) -> int:
        """The exact 95 % noise margin of a released cell."""
        return margin_of(self.stage_2)

    @property
    def target_holds(self) -> bool | None:
        """Whether a released cell is within the target with a probability of at least 95 %."""
        return None if self.asked.target is None else self.margin <= self.asked.target

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
                "total": size_for(sum_margin(self.stage_2, cells), 1, wanted),
            }
            for name, cells in TABLES.items()
        }

    def group_of(self, size: int) -> dict[str, Any]:
        """What happens to a group of ``size`` persons: suppression and bias of a total, and which table it gets."""
        found: dict[str, Any] = {"size": size}
        if self.threshold is not None:
            found["suppression_probability"] = suppression_probability(self.stage_2, self.threshold, size)
            found["bias_if_released"] = release_bias(self.stage_2, self.threshold, size)
        if self.asked.thresholds is not None:
            below = [self.stage_1.cdf(threshold - size - 1) for threshold in self.asked.thresholds]
            found["table_probability"] = dict(
                zip(TABLES, (high - low for low, high in zip((0.0, *below), (*below, 1.0), strict=True)), strict=True)
            )
        return found

    def budgets_for_target(self) -> dict[str, Any] | None:
        """The budget of the target by the paper's formula, and the smallest at which the target holds."""
        target, asked = self.asked.target, self.question
        if target is None:
            return None
        s, share = asked.groups_per_person, asked.stage_2_share
        least = smallest_budget(asked.definition, target, s, share, asked.decimals)
        found: dict[str, Any] = {"smallest": float(least), "smallest_exact": str(least)}
        if asked.definition is Definition.ZCDP:
            formula = formula_budget(target, s, share)
            found |= {"formula": float(formula), "formula_exact": str(formula)}
            found["formula_rounded"] = float(round(formula, asked.decimals))
        return found

    def as_dict(self) -> dict[str, Any]:
        unit, asked = self.question.unit, self.asked
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
            "moe_total_only": None if self.total_only is None else margin_of(self.total_only),
            "moe_target": target,
            "target_holds": self.target_holds,
            "target_probability": None if target is None else float(self.stage_2.folded_cdf_bounds(target)[0]),
            "budgets_for_target": self.budgets_for_target(),
            "suppression_threshold": self.threshold,
            "suppression_applies": self.threshold is not None and not asked.is_large,
            "noise": {name: None if law is None else law.as_dict() for name, law in laws.items()},
            "population_for_relative_error": self.sizes(),
            "groups": [self.group_of(size) for size in self.question.sizes],
            "loss": accounting.as_dict(
                stated(self.event, self.question.definition, self.question.delta),
                self.question.definition,
                self.question.delta,
            ),
        }


@dataclass(frozen=True)
class Answer:
    """What was asked, the levels, and the losses of everything and of each pass."""

    question: Question
    levels: tuple[LevelAnswer, ...]

    @property
    def passes(self) -> dict[str, tuple[LevelAnswer, ...]]:
        """The levels of the US pass and of the Puerto Rico pass, where there are any."""
        named = {"US": False, "PR": True}
        found = {
            name: tuple(level for level in self.levels if level.asked.of_puerto_rico is which)
            for name, which in named.items()
        }
        return {name: levels for name, levels in found.items() if levels}

    def totals(self) -> dict[str, Stated]:
        """The loss of the release, for both kinds of neighbours."""
        return self._stated(self.passes)

    def totals_of(self, name: str) -> dict[str, Stated]:
        """The loss of one pass."""
        return self._stated({name: self.passes[name]})

    def _stated(self, passes: Mapping[str, tuple[LevelAnswer, ...]]) -> dict[str, Stated]:
        event = release_event({name: [level.event for level in levels] for name, levels in passes.items()})
        return stated(event, self.question.definition, self.question.delta)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for ``--json``."""
        asked = self.question

        def plain(both: Mapping[str, Stated]) -> dict[str, Any]:
            return accounting.as_dict(both, asked.definition, asked.delta)

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


def tune(question: Question) -> Answer:
    """The answer to ``question``. It depends on nothing else: no record, no file, no chance."""
    return Answer(question, tuple(LevelAnswer(level, question, _budget(level, question)) for level in question.levels))


def _budget(level: LevelQuestion, question: Question) -> Fraction:
    """The budget that was given, or the one that the target needs.

    The formula is for zCDP and is rounded to the nearest decimal, as in the paper's Table 7.
    """
    if level.budget is not None:
        return level.budget
    assert level.target is not None
    s, share = question.groups_per_person, question.stage_2_share
    if question.definition is not Definition.ZCDP or question.rule is Rule.smallest:
        return smallest_budget(question.definition, level.target, s, share, question.decimals)
    rounded = Fraction(round(formula_budget(level.target, s, share), question.decimals))
    if not rounded:
        raise ParameterError(
            Finding(
                code="budget-rounds-to-zero",
                what="the budget of a target rounds to nothing",
                where=Place(path=f"--moe {level.region_type}:{level.iteration_level}={level.target}"),
                found=f"less than half of the last of {question.decimals} decimals",
                expected="a budget above zero",
                remedy="give more --decimals, or --rule smallest, which rounds up",
            )
        )
    return rounded
