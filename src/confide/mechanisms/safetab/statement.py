"""The population group levels of a SafeTab-P release, for its certificate and for ``check``: from the plan alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from confide.mechanisms.safetab.intervals import count_interval, excess_of_sum, margin_of_sum
from confide.mechanisms.safetab.settings import GRIDS, ITERATION_LEVELS, TABLE, TOTAL_ONLY
from confide.noise import NoiseDistribution
from confide.privacy import Neighbours, price
from confide.releases.plan import Plan, Summary, read_plan
from confide.report.certificate import CERTIFICATE, CertificateWords, certificate, messages_of
from confide.report.render import exact_text

PROBABILITY = "0.95"
PASSES = {False: "United States", True: "Puerto Rico"}


def group_levels(plan: Plan) -> Iterator[dict[str, Any]]:
    """For each level what it has, what it costs and how much noise its published counts have."""
    # Counts below zero that were set to zero make a sum too high; then noise puts it off by more than its margin.
    spread = margin_of_sum if plan.question["negative_counts"] else excess_of_sum
    selected = plan.question["tabulation_suppression"]
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
            "margins_of_sums": []
            if counted is None
            else [spread(counted, grid.cells, Fraction(PROBABILITY)) for grid in GRIDS],
            "least": None if selected else _least(counted, facts["suppressed_up_to"]),
            "margin_total_only": None if alone is None else alone.noise_margin(PROBABILITY),
            "thresholds": facts["thresholds"],
            "suppressed_up_to": facts["suppressed_up_to"],
        }


def _least(law: NoiseDistribution | None, suppressed_up_to: int | None) -> dict[str, int] | None:
    """The smallest total that can stand alone, and what it means; none where nothing is left out."""
    if law is None or suppressed_up_to is None:
        return None
    low, high = count_interval(law, suppressed_up_to + 1, Fraction(PROBABILITY), suppressed_up_to)
    return {"figure": suppressed_up_to + 1, "low": low, "high": high}


def passes(plan: Plan) -> list[dict[str, str]]:
    """The sum of level budgets of each pass, where there are two."""
    sums: dict[bool, Fraction] = {}
    for facts in plan.question["levels"].values():
        key = facts["region_type"].startswith("PR-")
        sums[key] = sums.get(key, Fraction(0)) + Fraction(facts["budget"])
    return [{"name": PASSES[key], "budget": exact_text(number)} for key, number in sums.items()]


def documents(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The certificate of a release, with its population group levels."""
    plan = read_plan(manifest["plan"])
    counts = messages_of(manifest).text("certificate.counts_safetab")
    said = CertificateWords(counts, groups=list(group_levels(plan)), passes=passes(plan))
    return {CERTIFICATE: certificate(manifest, said)}


def summary(plan: Plan) -> Summary:
    """The population group levels, and what they cost."""
    columns = (
        "areas",
        "iterations",
        "areas ",
        "groups ",
        "budget ",
        "noise margin (95 %) ",
        "totals of tables ",
        "tables from ",
        "left out to ",
        "the next means (95 %) ",
    )
    rows = tuple(
        (
            str(row["region"]),
            str(row["iterations"]),
            f"{row['areas']:,}",
            f"{row['groups']:,}",
            str(row["budget"]),
            "" if row["margin"] is None else f"±{row['margin']:,}",
            ", ".join(f"±{margin:,}" for margin in row["margins_of_sums"]),
            ", ".join(map(str, row["thresholds"])),
            "" if row["suppressed_up_to"] is None else f"{row['suppressed_up_to']:,}",
            "" if (least := row["least"]) is None else f"{least['figure']:,}: {least['low']:,} to {least['high']:,}",
        )
        for row in group_levels(plan)
    )
    notes = tuple(f"{row['name']}: the levels cost {row['budget']} together." for row in passes(plan))
    changed = price(plan.event, Neighbours.CHANGE_ONE, plan.definition)
    sentence = f"The release costs {plan.loss} (add-remove), {changed} for a changed record (change-one)."
    return Summary(sentence, columns, rows, notes)
