"""The dossier of a TopDown release: areas against the truth, beside what the noise alone would do.

The page is made of the same plain numbers that are written beside it. For several runs every number is a mean over keys
with its interval, and the page shows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from confide.confidential import Confidential
from confide.engines.files import write_text
from confide.errors import Finding, ParameterError, Place
from confide.report import plots, topdown_plots
from confide.report.dossier import (
    BANNER,
    OVER_KEYS,
    PAGE_OVER_KEYS,
    Evaluated,
    Evaluating,
    write,
    write_numbers,
)
from confide.report.geometry import Geometry, read_geometry
from confide.report.render import render
from confide.report.topdown_page import Page, mean_of
from confide.runs.evaluating import require_sealed
from confide.topdown.evaluation.characteristics import geographies
from confide.topdown.evaluation.compare import FIXED, AreaTotals, Comparison, Evaluation, evaluate
from confide.utility import combine


def evaluate_topdown(asked: Evaluating) -> Evaluated:
    """Each release against the truth; of several, means over their keys. Writes the dossier of each, and of all."""
    for run in asked.runs:
        require_sealed(run.workspace)
    outlines = _geometry(asked)
    comparison = Comparison(asked.question)
    evaluations: list[Evaluation] = []
    steps = len(comparison.geographies) * len(asked.runs)
    with asked.progress.stage("Comparing with the truth", steps) as advance:
        for run in asked.runs:
            found = evaluate(comparison, run.workspace, asked.engine, totals_of=frozenset(outlines), advance=advance)
            evaluations.append(found.reveal("the dossier is the curator's own report on the truth"))
    numbers = [evaluation.as_dict() for evaluation in evaluations]
    written = [
        write(run.workspace.dossier, values, _page(values, run.title, 1, _maps(outlines, [evaluation])))
        for run, values, evaluation in zip(asked.runs, numbers, evaluations, strict=True)
    ]
    if len(asked.runs) == 1:
        return Evaluated(Confidential(numbers[0]), written[0])
    whole = {"runs": [run.name for run in asked.runs]} | combine(numbers, FIXED)
    folder, title = asked.runs[0].workspace.dossier, asked.runs[0].title
    write_numbers(folder / OVER_KEYS, whole, compact=True)
    page = folder / PAGE_OVER_KEYS
    write_text(page, _page(whole, title, len(asked.runs), _maps(outlines, evaluations)))
    return Evaluated(Confidential(whole), page)


def _geometry(asked: Evaluating) -> dict[str, Geometry]:
    """The outlines of the areas that are to be mapped."""
    known = {geography.name: geography.codes for geography in geographies(asked.question) if asked.geometry}
    unknown = [name for name in asked.geometry if name not in known]
    if unknown:
        raise ParameterError(
            Finding(
                code="geometry-level",
                what=f"there is no geography {unknown[0]!r} in this release",
                where=Place(path="--geometry"),
                found=unknown[0],
                expected="one of " + ", ".join(known),
                remedy="correct the name before the equals sign",
            )
        )
    return {name: read_geometry(Path(file), name, known[name]) for name, file in asked.geometry.items()}


def _maps(outlines: dict[str, Geometry], evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """A map for each geometry: the signed error of the total in per cent, as a mean over keys."""
    drawn = []
    for name, geometry in outlines.items() if plots.available() else ():
        totals = [evaluation.totals[name] for evaluation in evaluations]
        percent = _percent(totals)
        empty = sum(value is None for value in percent.values())
        drawn.append(
            {
                "svg": topdown_plots.error_map(geometry, percent),
                "name": name.replace("_", " "),
                "areas": len(geometry.outlines),
                "missing": geometry.missing,
                "empty": empty,
                "runs": len(evaluations),
            }
        )
    return drawn


def _percent(totals: Sequence[AreaTotals]) -> dict[str, float | None]:
    truth = totals[0].truth
    released = np.mean([one.released for one in totals], axis=0)
    return {
        code: float(100 * (found - true) / true) if true else None
        for code, true, found in zip(totals[0].codes, truth.tolist(), released.tolist(), strict=True)
    }


def _page(numbers: dict[str, Any], title: str, keys: int, maps: list[dict[str, Any]]) -> str:
    page = Page(numbers, keys)
    return render(
        "topdown_dossier.html.j2",
        title=title,
        banner=BANNER,
        page=page,
        figures=_figures(page) if plots.available() else [],
        maps=maps,
        pictures=plots.available(),
    )


def _figures(page: Page) -> list[dict[str, str]]:
    """The pictures: the key characteristic beside the noise, all characteristics, and the bias by size."""
    beside = [
        {
            "name": page.label(row["geography"]),
            "realised": mean_of(row["root_mean_squared_error"]),
            "noise": (row["noise_alone"] or {}).get("root_mean_squared_error"),
        }
        for row in page.key_rows
    ]
    every = [
        {
            "geography": page.label(row["geography"]),
            "realised": mean_of(row["root_mean_squared_error"]),
            "noise": (row["noise_alone"] or {}).get("root_mean_squared_error"),
        }
        for row in page.cells
    ]
    labels = [page.label(name) for name in page.main]
    sizes, by_size = page.bias_points()
    figures = []
    if any(row["realised"] or row["noise"] for row in beside):
        caption = (
            f"The error of the {page.key_label}, realised and from the noise alone. Logarithmic scale; what is "
            "exact is not on it."
        )
        figures.append({"svg": topdown_plots.beside_noise(beside, page.noun), "caption": caption})
    if any(row["realised"] and row["noise"] for row in every):
        caption = (
            "Every characteristic, one mark for each geography. On the line, the error is what linear estimates "
            "from the same measurements would have; below it, what the release gains from knowing that no "
            "count is negative."
        )
        figures.append({"svg": topdown_plots.realised_and_noise(every, labels, page.noun), "caption": caption})
    if by_size:
        caption = (
            f"Bias by the true size of the count: {page.bias_label}. A count of zero can only go "
            f"up, and what it takes is missing from counts that are not zero. Over {plots.FEW} counts or more."
        )
        figures.append({"svg": topdown_plots.bias(by_size, labels, sizes, page.noun), "caption": caption})
    return figures
