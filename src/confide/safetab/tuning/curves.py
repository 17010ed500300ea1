"""The numbers behind the pictures: suppression and bias by size, and margins by budget."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from confide.noise import Law
from confide.safetab.tuning.answer import Answer
from confide.safetab.tuning.laws import law_of, margin_of
from confide.safetab.tuning.suppression import release_bias, suppression_probability, suppression_threshold

_POINTS = 120
_REACH = 2
"""Sizes are looked at up to twice the suppression threshold, as in the paper's Figures 1 and 2."""


def budgets(answer: Answer) -> list[Fraction]:
    """The different budgets of the levels, largest first."""
    return sorted({level.budget for level in answer.levels}, reverse=True)


def by_size(answer: Answer) -> list[dict[str, Any]]:
    """For each budget and size of a group: both as shares of the threshold, P(suppressed) and bias (Figures 1, 2).

    A budget whose threshold is zero has no such shares, and no curve.
    """
    asked = answer.question
    rows: list[dict[str, Any]] = []
    for budget in budgets(answer):
        law = law_of(asked.definition, asked.groups_per_person, asked.stage_2_share * budget)
        threshold = suppression_threshold(law, asked.zero_suppression)
        if threshold is not None and threshold > 0:
            rows += _curve(law, threshold, f"{asked.unit} {float(budget):g}")
    return rows


def _curve(law: Law, threshold: int, name: str) -> list[dict[str, Any]]:
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


def by_budget(answer: Answer) -> list[dict[str, Any]]:
    """Noise margin and suppression threshold for budgets around those of the levels, evenly spaced in logarithms."""
    asked, own = answer.question, budgets(answer)
    low, high = own[-1] / 4, own[0] * 4
    steps = 160
    ratio = float(high / low) ** (1 / steps)
    spaced = [low * Fraction(ratio**step).limit_denominator(10**6) for step in range(steps + 1)]
    rows = []
    for budget in sorted({*spaced, *own}):
        law = law_of(asked.definition, asked.groups_per_person, asked.stage_2_share * budget)
        values = {
            "95 % noise margin": margin_of(law),
            "suppression threshold": suppression_threshold(law, asked.zero_suppression),
        }
        rows += [
            {"budget": float(budget), "what": what, "persons": persons, "own": budget in own}
            for what, persons in values.items()
            if persons is not None
        ]
    return rows
