"""A plan on the terminal: what a release has, and what it costs."""

from __future__ import annotations

from confide.cellkey.described import describe
from confide.cli.show import out, table
from confide.privacy import Neighbours, price
from confide.report.cellkey_statement import sizes
from confide.report.certificate import levels
from confide.report.safetab_levels import group_levels, passes
from confide.report.suppression_statement import suppression_sizes
from confide.report.swapping_statement import sizes as swapping_sizes
from confide.runs.plan import Plan
from confide.suppression.programme import described

NO_BUDGET = "No budget is spent, because no differential privacy is promised."


def show_plan(plan: Plan) -> None:
    """What a release would have, and what it would cost."""
    if plan.mechanism == "safetab":
        _show_groups(plan)
        return
    if not plan.accounted:
        out.print(f"\nThe release has {counts_in_words(plan)}. {NO_BUDGET}")
        return
    rows = []
    for row in levels(plan):
        laws = {measure.law for measure in plan.measures if measure.level == row["name"]}
        widest = max(law.noise_margin("0.95") for law in laws)
        rows.append((row["name"], f"{row['units']:,}", row["queries"], f"{row['counts']:,}", f"±{widest:,}"))
    if rows:
        table(["level", "areas ", "queries ", "counts ", "widest noise margin (95 %) "], rows)
    counts = counts_in_words(plan)
    out.print(f"\nThe release has {counts} and costs {plan.loss} ({plan.neighbours.value}).")


def _show_groups(plan: Plan) -> None:
    """The population group levels of SafeTab."""
    rows = [
        (
            row["region"],
            row["iterations"],
            f"{row['areas']:,}",
            f"{row['groups']:,}",
            row["budget"],
            "" if row["margin"] is None else f"±{row['margin']:,}",
            ", ".join(map(str, row["thresholds"])),
            "" if row["suppressed_up_to"] is None else f"{row['suppressed_up_to']:,}",
        )
        for row in group_levels(plan)
    ]
    columns = [
        "areas",
        "iterations",
        "areas ",
        "groups ",
        "budget ",
        "noise margin (95 %) ",
        "tables from ",
        "left out to ",
    ]
    table(columns, rows)
    for row in passes(plan):
        out.print(f"{row['name']}: the levels cost {row['budget']} together.")
    changed = price(plan.event, Neighbours.CHANGE_ONE, plan.definition)
    out.print(f"\nThe release costs {plan.loss} (add-remove), {changed} for a changed record (change-one).")


def counts_in_words(plan: Plan) -> str:
    """What a release has, in words: counts with noise, or records made of them."""
    if plan.mechanism == "postprocess":
        return "records estimated from published measurements"
    if plan.mechanism == "cellkey":
        size = sizes(describe(plan.question))
        return (
            f"{_number(size['tables'], 'table')} of {size['cells']:,} perturbed cells: "
            f"{_number(size['distinct'], 'distinct cross-classification')} with {size['distinct_cells']:,} cells"
        )
    if plan.mechanism == "swapping":
        size = swapping_sizes(plan.question)
        return f"{_number(size['tables'], 'table')} of swapped records, with {size['cells']:,} cells in all areas"
    if plan.mechanism == "suppression":
        extent = suppression_sizes(described(plan.question))
        return f"{_number(extent['tables'], 'table')} of {extent['cells']:,} distinct cells, some of them left out"
    if plan.mechanism == "topdown":
        return f"records estimated from at most {plan.counts:,} noisy counts"
    return f"{plan.counts:,} counts"


def _number(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")
