"""``evaluate`` for the cell key method: the released tables against the records, counted again. Confidential.

The truth is not kept by a run: it follows from the records at any time. Published counts are read from the files of the
release, as anybody has them. What noise leads one to expect follows from the lookup and the true counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.confidential import Confidential
from confide.engines import Engine
from confide.engines.atomic_files import private_folder
from confide.errors import Finding, ParameterError, Place, ReleaseError
from confide.inputs.records import records_fingerprint
from confide.mechanisms.cellkey.counting import count_cells
from confide.mechanisms.cellkey.lookups import expected_errors
from confide.mechanisms.cellkey.output import Unlike, read_people, read_sdmx
from confide.mechanisms.cellkey.programme import CellKeyQuestion, describe
from confide.mechanisms.cellkey.records import write_coded
from confide.mechanisms.cellkey.utility import POINTS, Compared, compared, joined
from confide.releases.evaluate import require_sealed
from confide.releases.progress import Progress
from confide.releases.run import changed
from confide.releases.workspace import Workspace
from confide.report import charts
from confide.report.dossier import BANNER, Evaluated, Evaluating, no_maps, write
from confide.report.render import render
from confide.utility.metrics import bin_label, bin_of

Integers = npt.NDArray[np.int64]

SIZES = (1, 2, 3, 4, 5, 10, 20, 50, 100, 1_000)
"""Where the classes of cells by their true count begin."""


def evaluate(
    question: CellKeyQuestion, workspace: Workspace, engine: Engine, progress: Progress
) -> Confidential[dict[str, Any]]:
    """Every released count against the true one, for each table with its margins and for the programme as a whole."""
    require_sealed(workspace)
    begun = workspace.identity()
    if begun is None or begun.records_fingerprint != records_fingerprint(question.records.path):
        raise changed("the records are not those of the release", workspace)
    coded = private_folder(workspace.scratch) / "coded.parquet"
    with progress.stage("Counting records", 1) as advance:
        write_coded(engine, question, coded)
        truth = {query.name: _sparse(sums.count) for query, sums in count_cells(question, coded)}
        advance(1)
    by_query: dict[str, Compared] = {}
    tables = []
    threshold = question.spec.cellkey.threshold
    with progress.stage("Comparing with the truth", len(question.tables)) as advance:
        for table, published in _released(question, workspace.release):
            parts = []
            for margin in table.margins:
                released = np.zeros(margin.cells, np.int64)
                cells, counts = published[margin.name]
                released[cells] = counts
                found = compared(_dense(truth[margin.name], margin.cells), released)
                by_query[margin.name] = found
                parts.append(found)
            whole = joined(parts)
            tables.append({"name": table.name, "title": table.title} | _told(question, whole, threshold))
            advance(1)
    programme = joined(list(by_query.values()))
    return Confidential(
        {
            "units": "cells",
            "accuracy": [_headline(row) for row in tables],
            "programme": _told(question, programme, threshold),
            "tables": tables,
            "sizes": list(_by_size(question, programme, threshold)),
        }
    )


def _told(question: CellKeyQuestion, whole: Compared, threshold: int | None) -> dict[str, Any]:
    occupied = whole.true > 0
    error, zero = expected_errors(question.lookup, whole.true[occupied], threshold)
    return whole.as_dict() | {
        "mean_truth": float(whole.true[occupied].mean()) if occupied.any() else None,
        "expected_mean_absolute_deviation": float(error.mean()) if len(error) else None,
        "expected_false_zeros": float(zero.sum()),
    }


def _headline(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table as a line on a terminal: cells with somebody in them."""
    found = row["without_empty"]["AD"]
    return {
        "geography": row["name"],
        "query": "cells",
        "cell": "table",
        "areas": row["cells"] - row["empty_cells"],
        "mean_truth": row["mean_truth"] or 0.0,
        "mean_absolute_error": found["mean"] if found else 0.0,
        "noise_alone": {"mean_absolute_error": row["expected_mean_absolute_deviation"] or 0.0},
    }


def _by_size(question: CellKeyQuestion, whole: Compared, threshold: int | None) -> Iterable[dict[str, Any]]:
    """Cells with somebody in them by their true count, each distinct cross-classification once."""
    at = np.flatnonzero(whole.true)
    true, published = whole.true[at], whole.published[at]
    error, zero = expected_errors(question.lookup, true, threshold)
    classes = bin_of(SIZES, true)
    for number in np.unique(classes).tolist():
        of = classes == number
        deviation = published[of] - true[of]
        yield {
            "true_size": bin_label(SIZES, number),
            "cells": int(of.sum()),
            "mean_error": float(deviation.mean()),
            "mean_absolute_deviation": float(np.abs(deviation).mean()),
            "expected_mean_absolute_deviation": float(error[of].mean()),
            "mean_relative_deviation": float((np.abs(deviation) / true[of]).mean()),
            "expected_mean_relative_deviation": float((error[of] / true[of]).mean()),
            "false_zeros": int((published[of] == 0).sum()),
            "expected_false_zeros": float(zero[of].sum()),
        }


def _released(question: CellKeyQuestion, release: Path) -> Iterable[tuple[Any, dict[str, tuple[Integers, Integers]]]]:
    """Each table, and for each of its margins the cells that are listed, with their counts."""
    described = describe(question.facts())
    formats = question.spec.output.formats
    for table, named in zip(question.tables, described.tables, strict=True):
        plain = next((name for name in formats if name != "sdmx-csv"), None)
        file = release / (f"sdmx/{table.name}.csv" if plain is None else f"tables/{table.name}.{plain}")
        read = read_sdmx if plain is None else read_people
        try:
            placed = read(file, named, weighted=described.weighted)
        except (Unlike, OSError) as problem:
            raise ReleaseError(_unlike(file, problem)) from None
        found = {}
        for number, margin in enumerate(reversed(table.margins)):
            rows = placed.of_margin(number)
            found[margin.name] = (rows.cell, rows.count)
        yield table, found


def _unlike(file: Path, problem: Exception) -> Finding:
    found = str(problem) if isinstance(problem, Unlike) else "a file that cannot be read"
    remedy = "verify the release with `confide verify`, and restore it"
    what = "a released table is not as the plan describes it"
    return Finding("release-unlike", what, Place(file=file.name), found, "the table as it was sealed", remedy)


def _sparse(counts: Integers) -> tuple[Integers, Integers]:
    cells = np.flatnonzero(counts)
    return cells, counts[cells]


def _dense(sparse: tuple[Integers, Integers], cells: int) -> Integers:
    full: Integers = np.zeros(cells, np.int64)
    full[sparse[0]] = sparse[1]
    return full


# The dossier of a release by the cell key method: what noise did to its tables, beside what it should do.


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
        figures=_figures(numbers) if charts.available() else [],
        pictures=charts.available(),
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
            "svg": charts.chart("cellkey-relative-deviation-by-size", numbers["sizes"]).svg(),
            "caption": "Mean relative deviation by the true count: small counts are off by much, large ones by little. "
            "Dots: as found; bars: what the noise leads one to expect.",
        },
        {
            "svg": charts.chart("cellkey-share-within", curves).svg(),
            "caption": "Share of cells, with somebody in them, whose relative deviation is at most so large"
            + (f"; the {MOST_CURVES} largest tables." if len(numbers["tables"]) > MOST_CURVES else "."),
        },
    ]
