"""The settings of the 2020 Census, from a data file: where every tuning begins."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from confide.exact import exact
from confide.inputs.shipped import load_shipped
from confide.privacy import Definition
from confide.safetab.settings import REGION_TYPES, STATES, LevelSettings, Settings
from confide.safetab.tuning.question import LevelQuestion, Question, question_of

PRODUCTION = "production-2020"


def production_settings() -> Settings:
    """The settings of the production run, US and Puerto Rico, levels in the order of tabulation."""
    values = load_shipped("safetab", PRODUCTION)
    return Settings(
        definition=Definition(values["definition"]),
        levels=tuple(LevelSettings(*key, budget, thresholds) for key, (budget, _, thresholds) in _levels(values)),
        stage_1_fraction=exact(values["stage_1_fraction"]),
        max_race_codes=values["max_race_codes"],
        zero_suppression=exact(values["zero_suppression"]),
        negative_counts=values["negative_counts"],
        states=STATES,
        puerto_rico=True,
    )


def production_question(*, puerto_rico: bool = False, by: str = "budget") -> Question:
    """The production levels with their budgets and the published targets beside them (``by="budget"``), or with the
    targets alone (``by="target"``), from which budgets are then found."""
    targets = {key: target for key, (_, target, _) in _levels(load_shipped("safetab", PRODUCTION))}
    asked = question_of(production_settings())
    return replace(
        asked,
        levels=tuple(
            _with_target(level, targets[level.region_type, level.iteration_level], by)
            for level in asked.levels
            if puerto_rico or not level.of_puerto_rico
        ),
    )


def _with_target(level: LevelQuestion, target: int, by: str) -> LevelQuestion:
    return replace(level, target=target, budget=level.budget if by == "budget" else None)


def _levels(values: dict[str, Any]) -> list[tuple[tuple[str, int], tuple[Fraction, int, tuple[int, int, int]]]]:
    """(region type, iteration level) with budget, target and thresholds, sorted as they are tabulated."""
    found = [
        ((region_type, row["iteration_level"]), (exact(row["budget"]), row["target"], tuple(row["thresholds"])))
        for row in values["levels"]
        for region_type in row["region_types"]
    ]
    return sorted(found, key=lambda entry: (REGION_TYPES.index(entry[0][0]), entry[0][1]))
