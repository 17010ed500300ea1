"""The dossier of a release by the cell key method: what noise did to its tables, beside what it should do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confide.cellkey.evaluation import evaluate
from confide.cellkey.utility import POINTS
from confide.confidential import Confidential
from confide.errors import Finding, ParameterError, Place
from confide.report import cellkey_plots, plots
from confide.report.dossier import BANNER, Evaluated, Evaluating, no_maps, write
from confide.report.render import render

Row = Mapping[str, Any]
MEASURES = {
    "AD": "absolute deviation, |published − true|",
    "RAD": "relative absolute deviation, |published − true| / true",
    "DR": "distance of roots, |√published − √true|",
}
MOST_CURVES = 6
"""A picture has so many curves at most: those of the largest tables."""


def evaluate_cellkey(asked: Evaluating) -> Evaluated:
    """The release against the truth, and its dossier. There is one run: the noise belongs to the records."""
    findings = no_maps(asked, "cellkey", "the cell key method")
    if len(asked.runs) > 1:
        what, found = "runs of one question on the same keyed records are the same release", f"{len(asked.runs)} runs"
        place, remedy = Place(path="RUN"), "give one run; other record keys are other records"
        findings.append(Finding("same-noise", what, place, found, "one run", remedy))
    if findings:
        raise ParameterError(findings)
    run = asked.runs[0]
    accuracy = evaluate(asked.question, run.workspace, asked.engine, asked.progress)
    numbers = accuracy.reveal("the dossier is the curator's own report on the truth")
    page = write(run.workspace.dossier, numbers, _page(numbers, run.title, asked.question.spec.cellkey.threshold))
    return Evaluated(Confidential(numbers), page)


def _page(numbers: Row, title: str, threshold: int | None) -> str:
    programme = numbers["programme"]
    return render(
        "cellkey_dossier.html.j2",
        title=title,
        banner=BANNER,
        threshold=threshold,
        headlines=_headlines(programme),
        programme=programme,
        measures=MEASURES,
        points=[f"{point:g}" for point in POINTS],
        tables=numbers["tables"],
        sizes=numbers["sizes"],
        figures=_figures(numbers) if plots.available() else [],
        pictures=plots.available(),
    )


def _headlines(programme: Row) -> list[tuple[str, str]]:
    """What to know first: how far counts are off, how far relative to them, and which vanished."""
    occupied = programme["cells"] - programme["empty_cells"]
    if not occupied:
        return [("0", "cells have somebody in them")]
    measures = programme["without_empty"]
    expected = programme["expected_mean_absolute_deviation"]
    false, vanish = programme["false_zeros"], programme["expected_false_zeros"]
    return [
        (f"{occupied:,}", f"distinct cells with somebody in them, of {programme['cells']:,} in the programme"),
        (f"{measures['AD']['mean']:.2f}", f"mean absolute deviation; the noise leads to {expected:.2f}"),
        (
            _percent(measures["RAD"]["median"]),
            f"median relative deviation; for one cell in ten, at least {_ninth(measures)}",
        ),
        (f"{false:,}", f"cells of somebody published as zero; the noise leads to {vanish:,.0f}"),
    ]


def _ninth(measures: Row) -> str:
    return _percent(measures["RAD"]["deciles"][-1])


def _percent(share: float) -> str:
    return f"{100 * share:,.1f} %"


def _figures(numbers: Row) -> list[dict[str, str]]:
    if not numbers["sizes"]:
        return []
    largest = sorted(numbers["tables"], key=lambda row: row["empty_cells"] - row["cells"])[:MOST_CURVES]
    curves = [
        {"table": row["name"], "at": point["at"], "share": point["share"]}
        for row in largest
        if row["without_empty"]["RAD"]
        for point in row["without_empty"]["RAD"]["ecdf"]
    ]
    return [
        {
            "svg": cellkey_plots.relative_deviation_by_size(numbers["sizes"]),
            "caption": "Mean relative deviation by the true count: small counts are off by much, large ones by little. "
            "Dots: as found; bars: what the noise leads one to expect.",
        },
        {
            "svg": cellkey_plots.share_within(curves),
            "caption": "Share of cells, with somebody in them, whose relative deviation is at most so large"
            + (f"; the {MOST_CURVES} largest tables." if len(numbers["tables"]) > MOST_CURVES else "."),
        },
    ]
