"""``evaluate`` for the cell key method: the released tables against the records, counted again. Confidential.

The truth is not kept by a run: it follows from the records at any time. Published counts are read from the files of the
release, as anybody has them. What noise leads one to expect follows from the lookup and the true counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from confide.arrays import Floats, Integers
from confide.confidential import Confidential
from confide.engines import Engine
from confide.errors import Finding, Place, RunError
from confide.inputs.records import records_fingerprint
from confide.mechanisms.cellkey.given import given_fingerprint
from confide.mechanisms.cellkey.keyed_records import KEY
from confide.mechanisms.cellkey.keys import expected_errors
from confide.mechanisms.cellkey.output import code_records, released_tables
from confide.mechanisms.cellkey.programme import CellKeyProblem
from confide.releases import Job, NoiseSource, OutcomeLaw, Progress, Residuals, Workspace, require_records
from confide.releases.dossier import BANNER, AreaSums, Evaluated, Evaluating, LoneFigures, only_run, write_dossier
from confide.report import charts, render
from confide.report.charts import area_maps, require_levels
from confide.utility.metrics import bin_label, bin_of

# What the noise does to a table, measured against the truth. Confidential.
#
# For a cell with the true count n and the published count p,
#
#     AD  = |p − n|             absolute deviation
#     RAD = |p − n| / n         relative absolute deviation
#     DR  = |√p − √n|           distance of roots
#
# each with mean, median, largest value, deciles, 95 and 99 per cent points, and the share of cells at or below fixed
# points. A *false zero* is a cell of somebody that is published as zero; a *false non-zero* one of nobody that is not.
#
# All is computed twice: over cells with somebody in them, and over all cells. Noise leaves empty cells alone: they have
# no deviation, and many of them make any table look good. RAD is not defined for a false non-zero, which is then left
# out.
#
# A quantile at q of n sorted values lies at the place (n − 1) q, between two values in proportion. Reference: measures
# of the R package ``cellKey`` and of tau-ARGUS.


POINTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class DeviationQuantiles:
    """How a measure is distributed over cells."""

    cells: int
    mean: float
    median: float
    largest: float
    deciles: tuple[float, ...]
    p95: float
    p99: float
    ecdf: tuple[tuple[float, float], ...]
    """Points with the share of cells at or below each."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "cells": self.cells,
            "mean": self.mean,
            "median": self.median,
            "max": self.largest,
            "deciles": list(self.deciles),
            "p95": self.p95,
            "p99": self.p99,
            "ecdf": [{"at": at, "share": share} for at, share in self.ecdf],
        }


def deviation_quantiles(
    values: Floats, zeros: int = 0, points: tuple[float, ...] = POINTS
) -> DeviationQuantiles | None:
    """The distribution of values that are not negative, and of so many zeros; None where there is no cell."""
    cells = len(values) + zeros
    if not cells:
        return None
    ordered = np.sort(values)

    def at(place: int) -> float:
        return 0.0 if place < zeros else float(ordered[place - zeros])

    def quantile(hundredths: int) -> float:
        # Whole numbers up to the last step: (n - 1) q in floating point can fall short of a whole number.
        place, fraction = divmod((cells - 1) * hundredths, 100)
        return at(place) if not fraction else at(place) + (at(place + 1) - at(place)) * fraction / 100

    shares = [(point, (zeros + int(np.searchsorted(ordered, point, side="right"))) / cells) for point in points]
    return DeviationQuantiles(
        cells,
        float(ordered.sum()) / cells,
        quantile(50),
        at(cells - 1),
        tuple(quantile(10 * k) for k in range(1, 10)),
        quantile(95),
        quantile(99),
        tuple(shares),
    )


@dataclass(frozen=True, eq=False)
class ComparedCells:
    """True and published counts of the cells where one of them is not zero, and how many others there are."""

    true: Integers
    published: Integers
    others: int
    unit: int = 1
    """Figures are whole numbers of 1/unit."""

    def __repr__(self) -> str:
        return "<confidential>"

    @property
    def cells(self) -> int:
        """The number of all cells."""
        return len(self.true) + self.others

    def as_dict(self) -> dict[str, Any]:
        """Every measure."""
        occupied = self.true != 0
        deviation = (self.published - self.true)[occupied] / self.unit
        return {
            "cells": self.cells,
            "empty_cells": self.cells - int(occupied.sum()),
            "false_zeros": int(((self.published == 0) & occupied).sum()),
            "false_nonzeros": int((~occupied).sum()),
            "unchanged": int((deviation == 0).sum()),
            "mean_error": float(deviation.mean()) if len(deviation) else None,
            "without_empty": _measures(self.true[occupied], self.published[occupied], 0, self.unit),
            "with_empty": _measures(self.true, self.published, self.others, self.unit),
        }


def compare_cells(true: Integers, published: Integers) -> ComparedCells:
    """All cells of a cross-classification."""
    at = np.flatnonzero((true != 0) | (published != 0))
    return ComparedCells(true[at], published[at], len(true) - len(at))


def join_cells(parts: list[ComparedCells], unit: int = 1) -> ComparedCells:
    """The cells of several cross-classifications."""
    nobody = np.zeros(0, np.int64)
    return ComparedCells(
        np.concatenate([nobody, *(part.true for part in parts)]),
        np.concatenate([nobody, *(part.published for part in parts)]),
        sum(part.others for part in parts),
        unit,
    )


def _measures(true: Integers, published: Integers, zeros: int, unit: int = 1) -> dict[str, Any]:
    absolute = np.abs(published - true) / unit
    largest = int(absolute.max()) if len(absolute) else 0
    # Noise changes no sign, so that the distance of roots is that of sizes.
    roots = np.abs(np.sqrt(np.abs(published) / unit) - np.sqrt(np.abs(true) / unit))
    relative = absolute[true != 0] / (np.abs(true[true != 0]) / unit)
    # Deviations of counts are whole: below one, their shares are all the same.
    points = (*POINTS, *(float(point) for point in range(1, min(largest, 100) + 1)))
    result = {
        "AD": deviation_quantiles(absolute, zeros, points),
        "RAD": deviation_quantiles(relative, zeros),
        "DR": deviation_quantiles(roots, zeros),
    }
    return {name: None if measure is None else measure.as_dict() for name, measure in result.items()}


SIZES = (1, 2, 3, 4, 5, 10, 20, 50, 100, 1_000)
"""Where the classes of cells by their true count begin."""


def evaluate(
    problem: CellKeyProblem,
    workspace: Workspace,
    engine: Engine,
    progress: Progress,
    by_area: AreaSums | None = None,
    geometry: Mapping[str, Path] | None = None,
) -> Confidential[dict[str, Any]]:
    """Every released figure against the true one, for each table with its margins and for the programme as a whole;
    ``by_area`` receives how far the figures of each area are off. Of levels with geometry, all areas are listed."""
    coded = _coded(problem, workspace, engine, progress)
    by_query: dict[str, ComparedCells] = {}
    lone = LoneFigures()
    tables = []
    unit = 1 if problem.magnitude is None else problem.magnitude.unit
    with progress.stage("Comparing with the truth", len(problem.tables) + len(problem.given)) as advance:
        for table in released_tables(problem, engine, workspace.release, coded):
            parts = []
            for margin in table.margins:
                cells = ComparedCells(margin.true, margin.published, margin.cells - len(margin.cell), unit)
                geolevel = problem.level(margin.level)
                if geolevel is not None and margin.name not in by_query:
                    figures = margin.cells // len(geolevel.codes)
                    area, off = margin.cell // figures, np.abs(margin.published - margin.true) / unit
                    if by_area is not None:
                        by_area.add(geolevel.name, geolevel.codes, area, off, figures)
                    if problem.magnitude is None:
                        lone.add(geolevel.name, geolevel.codes, area, margin.true, margin.published)
                by_query[margin.name] = cells
                parts.append(cells)
            together = join_cells(parts, unit)
            tables.append({"name": table.name, "title": table.title} | _accuracy(problem, together))
            advance(1)
    programme = join_cells(list(by_query.values()), unit)
    return Confidential(
        {
            "units": "cells",
            "accuracy": [_headline(row) for row in tables],
            "programme": _accuracy(problem, programme),
            "tables": tables,
            "sizes": list(_by_size(problem, programme)) if problem.magnitude is None else [],
            "risk_by_area": lone.as_dict(geometry or {}),
        }
    )


def _coded(problem: CellKeyProblem, workspace: Workspace, engine: Engine, progress: Progress) -> Path | None:
    """The coded records, if the release is made of the same; none for given cells."""
    if problem.given:
        require_records(workspace, given_fingerprint(problem.given), "the cells are not those of the release")
        return None
    fingerprint = records_fingerprint(problem.source)
    require_records(workspace, fingerprint, "the records are not those of the release")
    with progress.stage("Counting records", 1) as advance:
        coded = code_records(problem, engine, workspace)
        advance(1)
    return coded


KEY_CLASSES = 256
"""Record keys are looked at in so many classes."""


def residuals(problem: CellKeyProblem, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:  # noqa: ARG001
    """The record keys, drawn evenly from all there are; and released minus true in every cell with somebody in it. Its
    law is the row of the perturbation table for the true count.

    The same members have the same noise in every table, by design. So the cells of one cross-classification, which have
    no member in common, are one family, and two cross-classifications are not compared.
    """
    if problem.magnitude is not None or problem.given:
        place = Place(path="data")
        raise RunError("no-noise/magnitudes", where=place, magnitude=problem.magnitude)
    workspace, engine = job.workspace, job.engine
    require_records(workspace, records_fingerprint(problem.source), "the records are not those of the release")
    coded = code_records(problem, engine, workspace)
    yield _record_keys(problem, pq.read_table(coded, columns=[KEY]).column(0).to_numpy())
    laws: dict[tuple[int, int], tuple[int, OutcomeLaw]] = {}
    for table in released_tables(problem, engine, workspace.release, coded):
        for margin in table.margins:
            law_of = _law_numbers(problem, margin.true, laws)
            yield Residuals(
                margin.level or "all records",
                margin.name,
                (margin.published - margin.true)[:, None],
                tuple(law for _, law in laws.values()),
                "released",
                law_of=law_of[:, None],
                units=margin.cell,
                family=margin.name,
            )


def _record_keys(problem: CellKeyProblem, keys: Integers) -> Residuals:
    """The class of each record's key. Classes have as many keys as whole numbers allow."""
    number = len(problem.record_keys)
    classes = min(KEY_CLASSES, number)
    bounds = [-(-number * k // classes) for k in range(classes + 1)]
    shares = tuple((last - first) / number for first, last in pairwise(bounds))
    drawn = (keys.astype(np.int64) - problem.record_keys[0]) * classes // number
    law = OutcomeLaw(tuple(range(classes)), shares)
    return Residuals("records", "record key", drawn[:, None], (law,), "released", family="record key")


def _law_numbers(
    problem: CellKeyProblem, true: Integers, laws: dict[tuple[int, int], tuple[int, OutcomeLaw]]
) -> Integers:
    """For each count the number of its law, -1 for an empty cell. What is below the threshold is published as zero, so
    that the law of a count near it is its own; that of others is the row of the perturbation table."""
    threshold = problem.spec.cellkey.threshold or 0
    near = threshold + int(problem.lookup.largest_noise)
    counts, back = np.unique(true, return_inverse=True)
    places = problem.lookup.row_of(counts)
    numbers = np.full(len(counts), -1, np.int64)
    for position, (count, place) in enumerate(zip(counts.tolist(), places.tolist(), strict=True)):
        if count:
            key = place, count if count < near else 0
            if key not in laws:
                outcomes: dict[int, float] = {}
                for noise, probability in problem.lookup.probabilities(place).items():
                    shown = int(noise) if not key[1] or count + int(noise) >= threshold else -count
                    outcomes[shown] = outcomes.get(shown, 0.0) + float(probability)
                listed = sorted(outcomes.items())
                laws[key] = len(laws), OutcomeLaw(tuple(v for v, _ in listed), tuple(p for _, p in listed))
            numbers[position] = laws[key][0]
    return np.asarray(numbers[back.reshape(-1)])


def _accuracy(problem: CellKeyProblem, cells: ComparedCells) -> dict[str, Any]:
    occupied = cells.true != 0
    mean = float(cells.true[occupied].mean() / cells.unit) if occupied.any() else None
    if problem.magnitude is not None:
        nothing = {"expected_mean_absolute_deviation": None, "expected_false_zeros": None}
        return cells.as_dict() | {"mean_truth": mean} | nothing
    error, zero = expected_errors(problem.lookup, cells.true[occupied], problem.spec.cellkey.threshold)
    return cells.as_dict() | {
        "mean_truth": mean,
        "expected_mean_absolute_deviation": float(error.mean()) if len(error) else None,
        "expected_false_zeros": float(zero.sum()),
    }


def _headline(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table as a line on a terminal: cells with somebody in them."""
    deviation = row["without_empty"]["AD"]
    return {
        "geography": row["name"],
        "query": "cells",
        "cell": "table",
        "areas": row["cells"] - row["empty_cells"],
        "mean_truth": row["mean_truth"] or 0.0,
        "mean_absolute_error": deviation["mean"] if deviation else 0.0,
        "noise_alone": {"mean_absolute_error": row["expected_mean_absolute_deviation"] or 0.0},
    }


def _by_size(problem: CellKeyProblem, cells: ComparedCells) -> Iterable[dict[str, Any]]:
    """Cells with somebody in them by their true count, each distinct cross-classification once."""
    at = np.flatnonzero(cells.true)
    true, published = cells.true[at], cells.published[at]
    error, zero = expected_errors(problem.lookup, true, problem.spec.cellkey.threshold)
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
    run, problem = only_run(asked, Finding.of("same-noise")), asked.question
    require_levels(asked.geometry, dict.fromkeys(level for table in problem.tables for level in table.levels))
    by_area = AreaSums()
    accuracy = evaluate(problem, run.workspace, asked.engine, asked.progress, by_area, asked.geometry)
    maps = area_maps(by_area.measure("mean absolute error of the figures", problem.area_names), asked.geometry)
    page = partial(_page, threshold=problem.spec.cellkey.threshold, maps=maps)
    return write_dossier(asked, accuracy, page, RISK_WORDS)


RISK_WORDS = (
    "A 1 may also be a larger count that noise has moved; from a single figure nobody can tell. The same records have "
    "the same noise in every table, so that seeing their count again adds nothing."
)


def _page(numbers: Row, *, title: str, threshold: int | None, maps: list[dict[str, Any]], risks: dict[str, Any]) -> str:
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
        maps=maps,
        risks=risks,
        pictures=charts.available(),
    )


def _headlines(programme: Row) -> list[tuple[str, str]]:
    """What to know first: how far counts are off, how far relative to them, and which vanished."""
    occupied = programme["cells"] - programme["empty_cells"]
    if not occupied:
        return [("0", "cells that are not empty")]
    measures = programme["without_empty"]
    expected = programme["expected_mean_absolute_deviation"]
    false, vanish = programme["false_zeros"], programme["expected_false_zeros"]
    return [
        (f"{occupied:,}", f"distinct cells that are not empty, of {programme['cells']:,} in all tables"),
        (
            f"{measures['AD']['mean']:.2f}",
            "mean absolute deviation" + ("" if expected is None else f"; expected: {expected:.2f}"),
        ),
        (
            _percent(measures["RAD"]["median"]),
            f"median relative deviation; for one cell in ten, at least {_ninth(measures)}",
        ),
        (
            f"{false:,}",
            "cells that are not empty published as zero" + ("" if vanish is None else f"; expected: {vanish:,.0f}"),
        ),
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
            "caption": "Mean relative deviation by the true count: large for small counts, small for large ones. "
            "Dots: this release; bars: what the noise leads one to expect.",
        },
        {
            "svg": charts.chart("cellkey-share-within", curves).svg(),
            "caption": "Share of cells that are not empty whose relative deviation is not larger than the value below"
            + (f"; the {MOST_CURVES} largest tables." if len(numbers["tables"]) > MOST_CURVES else "."),
        },
    ]
