"""The dossier of a release of swapped data: what stayed, who moved, and how far tables are off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.confidential import Confidential
from confide.errors import Finding, ParameterError, Place
from confide.report import plots, swapping_plots
from confide.report.dossier import BANNER, Evaluated, Evaluating, no_maps, write
from confide.report.render import render
from confide.swapping.evaluation import evaluate
from confide.swapping.people import ADULTS, SIZE
from confide.swapping.swap import HOUSEHOLDS

Row = Mapping[str, Any]
KEPT = {HOUSEHOLDS: "households", SIZE: "people", ADULTS: "adults"}


def evaluate_swapping(asked: Evaluating) -> Evaluated:
    """The release against the truth, and its dossier."""
    findings = no_maps(asked, "swapping", "swapped data")
    if len(asked.runs) > 1:
        what, found = "swapped data are evaluated one run at a time", f"{len(asked.runs)} runs"
        findings.append(Finding("one-run", what, Place(path="RUN"), found, "one run", "give one run"))
    if findings:
        raise ParameterError(findings)
    run = asked.runs[0]
    accuracy = evaluate(asked.question, run.workspace, asked.engine, asked.progress)
    numbers = accuracy.reveal("the dossier is the curator's own report on the truth")
    levels = [level.name for level in asked.question.spine.levels]
    page = write(run.workspace.dossier, numbers, _page(numbers, run.title, levels))
    return Evaluated(Confidential(numbers), page)


def _page(numbers: Row, title: str, levels: list[str]) -> str:
    swap = numbers["swap"]
    pictures = plots.available()
    return render(
        "swapping_dossier.html.j2",
        title=title,
        banner=BANNER,
        headlines=_headlines(numbers),
        swap=swap,
        kept=[row | {"words": KEPT.get(row["name"], f"people by {row['name']}")} for row in numbers["kept"]],
        wrong=[row for row in numbers["exact"] if row["changed"]],
        exact=numbers["exact"],
        tables=numbers["tables"],
        levels=levels,
        figures=_figures(numbers, levels) if pictures else [],
        pictures=pictures,
    )


def _headlines(numbers: Row) -> list[tuple[str, str]]:
    """What to know first."""
    swap, kept = numbers["swap"], numbers["kept"]
    changed = sum(row["changed"] for row in kept) + sum(row["changed"] for row in numbers["exact"])
    lines = []
    if swap is not None:
        lines += [
            (f"{swap['households_moved']:,}", f"of {swap['households']:,} households moved"),
            (f"{100 * swap['share_moved']:.2f} %", f"moved; the rate asked for is {swap['rate']}"),
            (f"{sum(swap['without_partner'].values()):,}", "found no partner and stayed"),
        ]
    return [*lines, (f"{changed:,}", "counts that are said to stay and did not")]


def _figures(numbers: Row, levels: list[str]) -> list[dict[str, str]]:
    rows = [row for row in numbers["tables"] if row["level"] in levels and row["mean_truth"]]
    if not any(row["changed"] for row in rows):
        return []
    return [
        {
            "svg": swapping_plots.error_by_level(_largest(rows), levels),
            "caption": "Mean absolute error as a share of the mean count, by level: the cells of each table. Figures "
            "without any error, such as those of levels that nobody left, are not drawn.",
        }
    ]


def _largest(rows: list[Any]) -> list[dict[str, Any]]:
    """The table itself of each table: the cross-classification with most variables."""
    finest: dict[tuple[str, str], Any] = {}
    for row in rows:
        place = (row["table"], row["level"])
        if place not in finest or row["query"].count("*") >= finest[place]["query"].count("*"):
            finest[place] = row
    return [
        {
            "table": row["table"],
            "level": row["level"],
            "percent": 100 * row["mean_absolute_error"] / row["mean_truth"],
        }
        for row in finest.values()
        if row["mean_absolute_error"]
    ]
