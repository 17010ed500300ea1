"""What a release has and costs, in a few lines: for a terminal, and for the table of levels of a certificate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.privacy import Definition, PrivacyLoss
from confide.releases.plan import Plan

NO_BUDGET = "No budget is spent, because no differential privacy is promised."


@dataclass(frozen=True)
class Summary:
    """A table, lines below it, and a sentence that says what the release has and costs."""

    sentence: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


def summary_of_levels(plan: Plan, contents: str) -> Summary:
    """The levels of a plan with their widest noise margin, or a sentence where nothing is measured for a price."""
    if not plan.has_loss:
        return Summary(f"The release has {contents}. {NO_BUDGET}")
    rows = []
    for row in measured_levels(plan):
        laws = {measurement.law for measurement in plan.measures if measurement.level == row["name"]}
        widest = max(law.noise_margin("0.95") for law in laws)
        rows.append((row["name"], f"{row['units']:,}", str(row["queries"]), f"{row['counts']:,}", f"±{widest:,}"))
    columns = ("level", "areas ", "queries ", "counts ", "widest noise margin (95 %) ") if rows else ()
    sentence = f"The release has {contents} and costs {plan.loss} ({plan.neighbours.value})."
    return Summary(sentence, columns, tuple(rows))


def in_plural(number: int, word: str) -> str:
    """A number with its noun: 1 table, 2 tables."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def measured_levels(plan: Plan) -> Iterator[dict[str, Any]]:
    """For each level: areas measured, queries, counts, and the share of the budget that an area has.

    Areas of one level can have different shares (an only child leaves its own to its parent). They are then classes,
    each with all queries of the level in the same order: the k-th measurement of every query is of the k-th class.
    """
    total = amount_of(plan.loss)
    for name in dict.fromkeys(measurement.level for measurement in plan.measures):
        by_query: dict[str, list[tuple[int, int, Fraction]]] = {}
        for measurement in plan.measures:
            if measurement.level == name:
                of_query = by_query.setdefault(measurement.query, [])
                of_query.append((measurement.units, measurement.cells, amount_of(measurement.loss)))
        classes = list(zip(*by_query.values(), strict=True))
        shares = sorted({sum((loss for _, _, loss in parts), Fraction(0)) / total for parts in classes})
        yield {
            "name": name,
            "units": sum(parts[0][0] for parts in classes),
            "queries": len(by_query),
            "counts": sum(units * cells for parts in classes for units, cells, _ in parts),
            # In approximate a measurement has no share: together they cost less than one by one.
            "share": ""
            if plan.definition is Definition.APPROXIMATE
            else " to ".join(f"{100 * float(share):.2f} %" for share in dict.fromkeys((shares[0], shares[-1]))),
        }


def amount_of(loss: PrivacyLoss) -> Fraction:
    """ρ or ε of a loss; where there is a δ too, it is stated once, for all measurements together."""
    return next(iter(loss.parameters().values()))
