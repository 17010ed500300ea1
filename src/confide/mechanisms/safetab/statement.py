"""The population group levels of a SafeTab-P release, for its certificate and for ``check``: from the plan alone."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from confide.mechanisms.safetab.plan import TABLE, TOTAL_ONLY
from confide.mechanisms.safetab.settings import ITERATION_LEVELS
from confide.privacy import ZCDP, Neighbours, PrivacyLoss, cks_epsilon, price
from confide.releases.plan import Plan
from confide.report.render import exact_text, fraction_up, up

PROBABILITY = "0.95"
PASSES = {False: "United States", True: "Puerto Rico"}


def group_levels(plan: Plan) -> Iterator[dict[str, Any]]:
    """For each level what it has, what it costs and how much noise its published counts have."""
    for facts in plan.question["levels"].values():
        region, number = facts["region_type"], facts["iteration_level"]
        laws = {query: plan.laws(region, f"{ITERATION_LEVELS[number]}: {query}") for query in (TABLE, TOTAL_ONLY)}
        counted, alone = (next(iter(laws[query]), None) for query in (TABLE, TOTAL_ONLY))
        yield {
            "region": region,
            "iterations": ITERATION_LEVELS[number],
            "areas": facts["areas"],
            "groups": facts["areas"] * facts["iterations"],
            "budget": exact_text(Fraction(facts["budget"])),
            "stability": facts["stability"],
            "margin": None if counted is None else counted.noise_margin(PROBABILITY),
            "margin_total_only": None if alone is None else alone.noise_margin(PROBABILITY),
            "thresholds": facts["thresholds"],
            "suppressed_up_to": facts["suppressed_up_to"],
        }


def both_neighbours(plan: Plan, delta: Fraction) -> list[dict[str, str]]:
    """The loss for one record more or less, and for one record changed, side by side (Theorems 1 and 2)."""
    words = {Neighbours.ADD_REMOVE: "one record more or less", Neighbours.CHANGE_ONE: "one record changed"}
    result = []
    for neighbours, text in words.items():
        loss = price(plan.event, neighbours, plan.definition, plan.delta)
        (number,) = loss.parameters().values()
        result.append({"words": text, "loss": fraction_up(number), "epsilon": _epsilon(loss, delta)})
    return result


def passes(plan: Plan) -> list[dict[str, str]]:
    """The sum of level budgets of each pass, where there are two."""
    sums: dict[bool, Fraction] = {}
    for facts in plan.question["levels"].values():
        key = facts["region_type"].startswith("PR-")
        sums[key] = sums.get(key, Fraction(0)) + Fraction(facts["budget"])
    return [{"name": PASSES[key], "budget": exact_text(number)} for key, number in sums.items()]


def _epsilon(loss: PrivacyLoss, delta: Fraction) -> str:
    return up(cks_epsilon(loss.rho, delta), 2) if isinstance(loss, ZCDP) and loss.rho else ""
