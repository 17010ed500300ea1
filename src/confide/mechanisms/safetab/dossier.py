"""The dossier of a SafeTab-P release: population groups against the truth, beside what theory says of them.

Several runs with different keys are pooled: every group counts once for each run, so that shares and quantiles are over
groups and keys alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from confide.confidential import Confidential
from confide.mechanisms.safetab.evaluate import evaluate
from confide.mechanisms.safetab.settings import LARGE_REGIONS
from confide.mechanisms.safetab.tallies import SIZES, WORKLOADS, pool
from confide.releases import dossier
from confide.releases.dossier import ALIKE, AreaSums, LoneFigures, risk_pictures
from confide.releases.replay import require_sealed
from confide.report import charts, render
from confide.report.charts import area_maps, require_levels
from confide.utility.metrics import bin_label

Row = Mapping[str, Any]
LABELS = tuple(bin_label(SIZES, number) for number in range(len(SIZES)))
SUPPRESSED = "left out"
COUNTS, HELD = "measured_counts", "measured_counts_within_interval"
TOTALS = ("totals", "totals_within_interval")
CLASSES_OF_CURVE = 12
"""Into how many classes of size the suppression curve is cut, from zero to twice the suppression number."""


def evaluate_safetab(request: dossier.Evaluating) -> dossier.Evaluated:
    """Each release against the truth, and all of them together. Writes the dossier of each, and of all."""
    require_levels(request.geometry, dict.fromkeys(level.settings.region_type for level in request.question.levels))
    for run in request.runs:
        require_sealed(run.workspace)
    evaluations, maps, risks = [], list[list[dict[str, Any]]](), list[dict[str, Any]]()
    with request.progress.stage(
        "Comparing with the truth", len(request.question.levels) * len(request.runs)
    ) as advance:
        for run in request.runs:
            by_area, lone = AreaSums(), LoneFigures()
            compared = evaluate(request.question, run.workspace, advance, by_area, lone)
            evaluations.append(dossier.reveal(compared))
            measure = by_area.measure("mean absolute error of the published totals of groups, in persons", None)
            maps.append(area_maps(measure, request.geometry))
            risks.append(lone.as_dict(request.geometry))
    written = []
    for run, evaluation, drawn, risk in zip(request.runs, evaluations, maps, risks, strict=True):
        numbers = evaluation.as_dict() | {"risk_by_area": risk}
        page = _page(numbers, run.title, drawn, risk_pictures(risk, None, request.geometry, RISK_WORDS))
        written.append((numbers, dossier.write(run.workspace.dossier, numbers, page)))
    if len(request.runs) == 1:
        return dossier.Evaluated(Confidential(written[0][0]), written[0][1])
    pooled = pool(evaluations).as_dict()
    named = {"runs": [run.name for run in request.runs]} | pooled
    return dossier.write_over_keys(request, pooled, _page(named, request.runs[0].title, [], {}))


RISK_WORDS = (
    "Here a figure is the total of a population group, and a group that is left out is not shown. For each level the "
    f"groups of all its kinds are looked at. {ALIKE}"
)


def _page(numbers: Row, title: str, maps: list[dict[str, Any]], risks: dict[str, Any]) -> str:
    curve = curve_points(numbers["suppression"])
    return render(
        "safetab_dossier.html.j2",
        title=title,
        banner=dossier.BANNER,
        keys=numbers["keys"],
        headlines=_headlines(numbers),
        accuracy=numbers["accuracy"],
        classes=numbers["classes"],
        curve=curve,
        tables=WORKLOADS,
        large=LARGE_REGIONS,
        empty=[row for row in numbers["classes"] if row["true_size"] == LABELS[0] and _could_be_left_out(row)],
        biased=[row for row in numbers["classes"] if row["mean_error_of_totals"] is not None],
        figures=_figures(numbers, curve) if charts.available() else [],
        maps=maps,
        risks=risks,
        pictures=charts.available(),
        theory=all(row["expected_share_suppressed"] is not None for row in numbers["classes"]),
    )


def _headlines(numbers: Row) -> list[tuple[str, str]]:
    """What to know first: who gets a figure, how far it is off, and what becomes of groups with nobody in them."""
    rows = numbers["classes"]
    people = [row for row in rows if row["true_size"] != LABELS[0]]
    published = sum(row["groups"] - row["suppressed"] for row in people)
    groups = sum(row["groups"] for row in people)
    large = [row for row in people if LABELS.index(row["true_size"]) >= LABELS.index("1,000 to 9,999")]
    with_ages = sum(row["groups"] - row["suppressed"] - row["tables"][WORKLOADS[0]]["groups"] for row in large)
    empty = [row for row in rows if row["true_size"] == LABELS[0] and _could_be_left_out(row)]
    result = [(_percent(published, groups), f"of {groups:,} groups that are not empty have a figure")]
    if large:
        of_large = sum(row["groups"] for row in large)
        result.append((_percent(with_ages, of_large), "of groups of 1,000 or more persons have sex by age"))
    stated = [row for row in rows if row["totals"] is not None]
    if stated:
        counts, within, totals, held = (sum(row[name] for row in stated) for name in (COUNTS, HELD, *TOTALS))
        result.append((_percent(within, counts), "of measured counts have the truth in their interval; promised: 95 %"))
        result.append((_percent(held, totals), "of published totals, sums among them, have it; promised: 95 %"))
    if empty:
        of_empty = sum(row["groups"] for row in empty)
        out = of_empty - sum(row["suppressed"] for row in empty)
        result.append((f"{out:,}", f"of {of_empty:,} empty groups below the states got a figure"))
    return result


def _could_be_left_out(row: Row) -> bool:
    return row["region"] not in LARGE_REGIONS and not row["total_only"]


def curve_points(levels: Sequence[Row]) -> list[dict[str, Any]]:
    """Suppression by true size; levels with the same noise and suppression number are one curve.

    Sizes are put together in classes, and a class is shown at the mean size of its groups.
    """
    curves: dict[tuple[int, str], list[Row]] = {}
    for level in levels:
        curves.setdefault((level["suppressed_up_to"], str(level["noise"])), []).append(level)
    points = []
    for (limit, _), parts in curves.items():
        kinds = ", ".join(dict.fromkeys(part["iterations"] for part in parts))
        name = f"{kinds}: left out at {limit:,} or fewer"
        width = max(1, (2 * limit + 1) // CLASSES_OF_CURVE)
        # Zero is a class of its own: most groups are empty.
        starts = [0, *range(1, 2 * limit + 1, width), 2 * limit + 1]
        for first, end in pairwise(starts):
            groups = [sum(part["groups"][size] for part in parts) for size in range(first, end)]
            out = sum(part["suppressed"][size] for part in parts for size in range(first, end))
            expected = sum(
                part["groups"][size] * part["expected_share"][size] for part in parts for size in range(first, end)
            )
            number = sum(groups)
            points.append(
                {
                    "curve": name,
                    "limit": limit,
                    "first": first,
                    "last": end - 1,
                    "groups": number,
                    "suppressed": out,
                    "size": sum(size * times for size, times in enumerate(groups, first)) / number if number else None,
                    "share": out / number if number else None,
                    "expected": expected / number if number else None,
                    "line": [
                        {"size": size, "expected": parts[0]["expected_share"][size]} for size in range(first, end)
                    ],
                }
            )
    return points


def _figures(numbers: Row, curve: list[dict[str, Any]]) -> list[dict[str, str]]:
    figures = []
    by_size = _by_panel(numbers["classes"])
    caption = (
        "What a group gets, by its true size: nothing, a total, or sex by age in 4, 9 or 23 groups. Large groups get "
        "detail and small ones a total; below the states, the smallest groups are left out."
    )
    figures.append(
        {
            "svg": charts.chart(
                "safetab-tables-by-size", by_size, sizes=_sizes(by_size), tables=[SUPPRESSED, *WORKLOADS]
            ).svg(),
            "caption": caption,
        }
    )
    errors = _errors([row for row in numbers["classes"] if row["error_margin"] is not None])
    caption = (
        "The error that 95 % of the measured counts do not exceed (marks), and the noise margin that the plan "
        "promises (bars). The error does not grow with the group, so it matters less for large groups. The smallest "
        "groups below the states are shown only if noise lifted them above the limit. Hollow: over fewer than "
        f"{charts.FEW} counts."
    )
    enough = [row for row in errors if row["counts"] >= charts.VERY_FEW]
    panels = list(dict.fromkeys(row["panel"] for row in enough))
    picture = charts.chart("safetab-error-by-size", errors, sizes=_sizes(enough), panels=panels)
    figures.append({"svg": picture.svg(), "caption": caption})
    if curve:
        caption = (
            "The share of groups that are left out, by their true size: in this release (marks, with an interval of "
            "two standard errors) and in theory (lines). A mark stands for a class of sizes; hollow: over fewer "
            f"than {charts.FEW} groups."
        )
        theory = [{"curve": point["curve"]} | row for point in curve for row in point["line"]]
        picture = charts.chart("safetab-suppression", curve, theory=theory)
        figures.append({"svg": picture.svg(), "caption": caption})
    return figures


def _sizes(rows: Sequence[Row]) -> list[str]:
    """The classes of sizes that occur, in order."""
    occurring = {row["size"] for row in rows}
    return [label for label in LABELS if label in occurring]


def panel_of(row: Row) -> str:
    """Where rows are shown together: nation and states, or areas below; regional or detailed."""
    where = "Nation and states" if row["region"] in LARGE_REGIONS else "Below the states"
    return f"{where}, {row['iterations']}"


def _by_panel(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The share of each table by panel and size; groups with a total alone by rule are left aside."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        if not row["total_only"]:
            into = sums.setdefault((panel_of(row), row["true_size"]), dict.fromkeys([SUPPRESSED, *WORKLOADS], 0))
            into[SUPPRESSED] += row["suppressed"]
            for name in WORKLOADS:
                into[name] += row["tables"][name]["groups"]
    return [
        {"panel": panel, "size": size, "table": name, "share": times / sum(numbers.values())}
        for (panel, size), numbers in sums.items()
        for name, times in numbers.items()
    ]


def _errors(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "panel": panel_of(row),
            "size": row["true_size"],
            "region": row["region"] + (", total only" if row["total_only"] else ""),
            "error": row["error_margin"],
            "margin": row["noise_margin"],
            "counts": row[COUNTS],
        }
        for row in rows
    ]


def _percent(part: int, total: int) -> str:
    return f"{100 * part / total:,.1f} %" if total else "–"
