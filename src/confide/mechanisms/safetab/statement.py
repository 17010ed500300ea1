"""The population group levels of a SafeTab-P release, for its certificate and for ``check``: from the plan alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from confide.mechanisms.safetab.settings import ITERATION_LEVELS, TABLE, TOTAL_ONLY
from confide.privacy import Neighbours, price
from confide.releases.plan import Plan, Summary, read_plan
from confide.report.certificate import CERTIFICATE, CertificateWords, certificate, messages_of
from confide.report.render import exact_text

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
        "tables from ",
        "left out to ",
    )
    rows = tuple(
        (
            str(row["region"]),
            str(row["iterations"]),
            f"{row['areas']:,}",
            f"{row['groups']:,}",
            str(row["budget"]),
            "" if row["margin"] is None else f"±{row['margin']:,}",
            ", ".join(map(str, row["thresholds"])),
            "" if row["suppressed_up_to"] is None else f"{row['suppressed_up_to']:,}",
        )
        for row in group_levels(plan)
    )
    notes = tuple(f"{row['name']}: the levels cost {row['budget']} together." for row in passes(plan))
    changed = price(plan.event, Neighbours.CHANGE_ONE, plan.definition)
    sentence = f"The release costs {plan.loss} (add-remove), {changed} for a changed record (change-one)."
    return Summary(sentence, columns, rows, notes)
