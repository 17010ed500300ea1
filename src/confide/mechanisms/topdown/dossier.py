"""The dossier of a TopDown release: areas against the truth, beside what the noise alone would do.

The page is made of the same plain numbers that are written beside it. For several runs every number is a mean over keys
with its interval, and the page shows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from confide.confidential import Confidential
from confide.exact import fixed, signed
from confide.mechanisms.topdown.evaluate import (
    ALL_CELLS,
    FIXED,
    AreaTotals,
    TopDownEvaluation,
    TruthComparison,
    evaluate,
    geographies,
)
from confide.releases import dossier
from confide.releases.replay import require_sealed
from confide.report import charts, render
from confide.report.charts import MOST_TILES, VERY_FEW, AreaMeasure, Geometry, area_maps, read_geometry, require_levels
from confide.utility.metrics import SIZE_BINS, bin_label, combine

# The numbers of a TopDown evaluation, arranged as the dossier shows them.


Row = dict[str, Any]

AIM = 0.95
"""The share of areas that the settings of 2020 were tuned for."""


def mean_of(value: Any) -> float | None:
    """A number, or the mean over keys that is in its place."""
    if isinstance(value, dict):
        return float(value["mean"])
    return None if value is None else float(value)


def shown(value: Any, digits: int = 2, *, sign: bool = False, unit: str = "", scale: float = 1.0) -> Markup:
    """A number for the page; where it is a mean over keys, with the half width of its interval below."""
    mean = mean_of(value)
    if mean is None:
        return Markup("–")
    text = escape((signed if sign else fixed)(scale * mean, digits) + unit)
    if isinstance(value, dict) and value["high"] is not None:
        text += Markup("<small>± {}</small>").format(fixed(scale * (value["high"] - mean), digits))
    return text


class Page:
    """What the template of the dossier asks for."""

    def __init__(self, numbers: dict[str, Any], keys: int):
        self.keys = keys
        self.noun: str = numbers["noun"]
        self.units: dict[str, int] = {one["name"]: one["units"] for one in numbers["geographies"]}
        self.kinds: dict[str, str] = {one["name"]: one["kind"] for one in numbers["geographies"]}
        self.geographies = list(self.units)
        self.titles: dict[str, str] = {one["name"]: one["title"] for one in numbers["queries"]}
        self.rows: list[Row] = numbers["accuracy"]
        self.shares: list[Row] = numbers["largest_group"]
        self.made_up: Row | None = numbers["made_up"]
        self.shown = shown

    @cached_property
    def main(self) -> list[str]:
        """The geographies of pictures and long tables: without parts of units, and without very few areas."""
        several = [name for name in self.geographies if self.kinds[name] != "part" and self.units[name] >= VERY_FEW]
        return several or self.geographies

    def label(self, geography: str) -> str:
        """The name of a geography for people."""
        return geography.replace("_", " ")

    @cached_property
    def _queries(self) -> list[str]:
        return list(dict.fromkeys(row["query"] for row in self.rows))

    @cached_property
    def key(self) -> str:
        """The characteristic of the headlines: the total, or, where totals are exact, the first that is not."""
        totals = [row for row in self.rows if row["query"] == "total"]
        others = [query for query in self._queries if query != "total"]
        exact = all(not mean_of(row["mean_absolute_error"]) for row in totals)
        noisy = any((row["noise_alone"] or {}).get("mean_absolute_error") for row in totals)
        return others[0] if exact and not noisy and others else "total"

    @property
    def key_label(self) -> str:
        return "total" if self.key == "total" else f"counts by {self.titles[self.key]}"

    @property
    def key_question(self) -> str:
        return f"How far off {'is' if self.key == 'total' else 'are'} the {self.key_label}?"

    def of(self, query: str) -> list[Row]:
        """The rows of a query as a whole, one for each geography."""
        return [row for row in self.rows if row["query"] == query and row["cell"] in (ALL_CELLS, "total")]

    @cached_property
    def key_rows(self) -> list[Row]:
        return self.of(self.key)

    @cached_property
    def cells(self) -> list[Row]:
        """Every characteristic that is one set of records, in the main geographies."""
        return [row for row in self.rows if row["cell"] != ALL_CELLS and row["geography"] in self.main]

    @cached_property
    def headlines(self) -> list[tuple[Markup, str]]:
        """Up to four figures, each with what it says."""
        by_name = {row["geography"]: row for row in self.key_rows}
        wanted = [name for name, kind in self.kinds.items() if kind == "area"]
        wanted += [name for name, kind in self.kinds.items() if kind == "made"]
        wanted += [name for name in reversed(self.geographies) if name not in wanted and name != self.geographies[0]]
        rows = []
        for name in [n for n in wanted if n in by_name and by_name[n]["mean_truth"]][:3]:
            error = shown(by_name[name]["mean_absolute_error"], 2)
            text = f"{self.noun}, mean absolute error of the {self.key_label} of a {self.label(name)}"
            rows.append((error, text))
        for row in self.policy:
            if row["many"] and mean_of(row["many"]["share_within"]) is not None:
                text = f"of {row['label']} areas with 500 or more {self.noun} keep the share of their largest group"
                rows.append((shown(row["many"]["share_within"], 1, unit=" %", scale=100), text))
                break
        return rows

    @cached_property
    def policy(self) -> list[Row]:
        """The shares of largest groups by query and geography: all areas, and those with many people."""
        preferred = {"area": 0, "made": 1}
        pairs: dict[tuple[str, str], Row] = {}
        for row in (row for row in self.shares if row["geography"] in self.main):
            pair = pairs.setdefault(
                (row["query"], row["geography"]),
                {"query": self.titles[row["query"]], "label": self.label(row["geography"]), "all": None, "many": None},
            )
            pair["many" if row["least_people"] else "all"] = row
        order = {query: position for position, query in enumerate(dict.fromkeys(query for query, _ in pairs))}
        ranked = sorted(pairs, key=lambda key: (order[key[0]], preferred.get(self.kinds[key[1]], 2)))
        return [pairs[key] for key in ranked]

    @property
    def learns_from_below(self) -> bool:
        """Whether the noise of the estimator in use is that of the best linear estimates."""
        return all(row["noise_of_estimator"] == row["noise_alone"] for row in self.rows)

    @property
    def has_made(self) -> bool:
        """Whether the spine has units of its own making."""
        return "made" in self.kinds.values()

    @property
    def redistricting(self) -> bool:
        """Whether these are the persons of the redistricting data of the United States, whose settings were tuned."""
        attributes = {name.partition(":")[0] for query in self._queries for name in query.split("*")}
        return {"hhgq", "cenrace"} <= attributes

    def reaches_aim(self, row: Row) -> bool:
        """Whether a share of largest groups reaches the aim of 2020."""
        share = mean_of(row["share_within"])
        return share is not None and share >= AIM

    @cached_property
    def matrix_geographies(self) -> list[str]:
        """The geographies of the wide table: the main ones, but for blocks."""
        return [name for name in self.main if name != self.geographies[-1]] or self.main

    @cached_property
    def matrix(self) -> list[tuple[str, list[tuple[str, list[Markup]]]]]:
        """For each query its cells, each with the mean absolute error in the geographies of the wide table."""
        rows: dict[str, dict[str, dict[str, Markup]]] = {}
        for row in self.rows:
            cells = rows.setdefault(row["query"], {})
            cells.setdefault(row["cell"], {})[row["geography"]] = shown(row["mean_absolute_error"], 2)
        return [
            (
                self.titles[query],
                [(cell, [by.get(name, shown(None)) for name in self.matrix_geographies]) for cell, by in cells.items()],
            )
            for query, cells in rows.items()
        ]

    @cached_property
    def _bias_query(self) -> str | None:
        queries = [row["query"] for row in self.shares] or [query for query in self._queries if query != "total"]
        return queries[0] if queries else None

    @property
    def bias_label(self) -> str:
        return "" if self._bias_query is None else self.titles[self._bias_query]

    @cached_property
    def bias_rows(self) -> list[tuple[Row, list[Row]]]:
        """The rows of the query that shows the bias, each with its classes of the true count."""
        if self._bias_query is None:
            return []
        return [(row, row["by_true_size"]) for row in self.of(self._bias_query) if row["geography"] in self.main]

    def bias_points(self) -> tuple[list[str], list[Row]]:
        """The classes of the true count, and the mean error of each geography in each."""
        sizes = [bin_label(SIZE_BINS, number) for number in range(len(SIZE_BINS))]
        points = [
            {
                "geography": self.label(row["geography"]),
                "size": part["true_size"],
                "mean_error": mean_of(part["mean_error"]),
                "areas": part["areas"],
            }
            for row, parts in self.bias_rows
            for part in parts
        ]
        return sizes, points


def evaluate_topdown(request: dossier.Evaluating) -> dossier.Evaluated:
    """Each release against the truth; of several, means over their keys. Writes the dossier of each, and of all."""
    for run in request.runs:
        require_sealed(run.workspace)
    outlines = _geometry(request)
    tiled = _tiled(request)
    comparison = TruthComparison(request.question)
    evaluations: list[TopDownEvaluation] = []
    risks: list[dict[str, Any]] = []
    steps = len(comparison.geographies) * len(request.runs)
    with request.progress.stage("Comparing with the truth", steps) as advance:
        for run in request.runs:
            lone = dossier.LoneFigures()
            truth_comparison = evaluate(
                comparison,
                run.workspace,
                request.engine,
                plan=request.plan,
                totals_of=frozenset((*outlines, *tiled)),
                lone=lone,
                advance=advance,
            )
            evaluations.append(dossier.reveal(truth_comparison))
            risks.append(lone.as_dict(request.geometry))
    numbers = [evaluation.as_dict() for evaluation in evaluations]
    written = []
    for run, values, evaluation, risk in zip(request.runs, numbers, evaluations, risks, strict=True):
        pictures = _pictures(outlines, tiled, [evaluation])
        drawn = dossier.risk_pictures(risk, None, request.geometry, RISK_WORDS, (*outlines, *tiled))
        page = _page(values, run.title, 1, pictures, drawn)
        written.append(dossier.write(run.workspace.dossier, values | {"risk_by_area": risk}, page))
    if len(request.runs) == 1:
        return dossier.Evaluated(Confidential(numbers[0] | {"risk_by_area": risks[0]}), written[0])
    combined = combine(numbers, FIXED)
    named = {"runs": [run.name for run in request.runs]} | combined
    page = _page(named, request.runs[0].title, len(request.runs), _pictures(outlines, tiled, evaluations), {})
    return dossier.write_over_keys(request, combined, page)


def _geometry(request: dossier.Evaluating) -> dict[str, Geometry]:
    """The outlines of the areas that are to be mapped."""
    codes_of = {geography.name: geography.codes for geography in geographies(request.question) if request.geometry}
    require_levels(request.geometry, codes_of)
    return {name: read_geometry(Path(file), name, codes_of[name]) for name, file in request.geometry.items()}


RISK_WORDS = (
    "Here a figure is a count of released records that are alike in all attributes, in an area of a level. "
    f"{dossier.ALIKE} Released records are made from noisy counts: none of them is the record of anybody."
)
MOST_LEVELS_OF_TILES = 2


def _tiled(request: dossier.Evaluating) -> list[str]:
    """The largest levels without geometry whose areas can be shown as tiles."""
    levels = [each for each in geographies(request.question) if each.kind == "level"] if charts.available() else []
    few = [each.name for each in levels if each.name not in request.geometry and 1 < len(each.codes) <= MOST_TILES]
    return few[:MOST_LEVELS_OF_TILES]


def _pictures(
    outlines: dict[str, Geometry], tiled: Sequence[str], evaluations: Sequence[TopDownEvaluation]
) -> dict[str, list[dict[str, Any]]]:
    """Maps of levels with geometry, and tiles of others: how far totals are off, in per cent."""
    off = {name: _percent([evaluation.totals[name] for evaluation in evaluations]) for name in tiled}
    sizes = {
        name: {code: None if value is None else round(abs(value), 2) for code, value in values.items()}
        for name, values in off.items()
    }
    measure = AreaMeasure("error of the total, in per cent", sizes, {})
    return {"maps": _maps(outlines, evaluations), "tiles": area_maps(measure, {})}


def _maps(outlines: dict[str, Geometry], evaluations: Sequence[TopDownEvaluation]) -> list[dict[str, Any]]:
    """A map for each geometry: the signed error of the total in per cent, as a mean over keys."""
    drawn = []
    for name, geometry in outlines.items() if charts.available() else ():
        totals = [evaluation.totals[name] for evaluation in evaluations]
        percent = _percent(totals)
        empty = sum(value is None for value in percent.values())
        drawn.append(
            {
                "svg": _map(geometry, percent).svg(),
                "name": name.replace("_", " "),
                "areas": len(geometry.outlines),
                "missing": geometry.missing,
                "empty": empty,
                "runs": len(evaluations),
            }
        )
    return drawn


def _map(geometry: Geometry, percent: dict[str, float | None]) -> charts.Chart:
    """The areas, coloured by their signed errors in per cent.

    One outlying area must not take the colour from all the others: the scale ends at the 95 per cent point.
    """
    sizes = sorted(abs(value) for value in percent.values() if value is not None) or [0.0]
    reach = sizes[int(0.95 * (len(sizes) - 1))] or sizes[-1] or 1.0
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "MultiPolygon", "coordinates": outline.polygons},
            "percent": percent.get(outline.code),
        }
        for outline in geometry.outlines
    ]
    return charts.chart("topdown-error-map", features, least=-reach, largest=reach)


def _realised_and_noise(rows: list[dict[str, Any]], geographies: list[str], noun: str) -> charts.Chart:
    """The errors of all characteristics that are on a logarithmic scale, and the line on which they would be equal."""
    marks = [row for row in rows if row["realised"] and row["noise"]]
    errors = [row[kind] for row in marks for kind in ("realised", "noise")]
    ends = [min(errors) / 1.3, max(errors) * 1.3]
    line = [{"noise": end, "realised": end} for end in ends]
    return charts.chart("topdown-realised-and-noise", marks, line=line, geographies=geographies, domain=ends, noun=noun)


def _percent(totals: Sequence[AreaTotals]) -> dict[str, float | None]:
    truth = totals[0].truth
    released = np.mean([one.released for one in totals], axis=0)
    return {
        code: float(100 * (count - true) / true) if true else None
        for code, true, count in zip(totals[0].codes, truth.tolist(), released.tolist(), strict=True)
    }


def _page(
    numbers: dict[str, Any], title: str, keys: int, areas: dict[str, list[dict[str, Any]]], risks: dict[str, Any]
) -> str:
    page = Page(numbers, keys)
    return render(
        "topdown_dossier.html.j2",
        title=title,
        banner=dossier.BANNER,
        page=page,
        figures=_figures(page) if charts.available() else [],
        maps=areas["maps"],
        tiles=areas["tiles"],
        risks=risks,
        pictures=charts.available(),
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
            f"The error of the {page.key_label}: in the release, and from the noise alone. The scale is "
            "logarithmic; exact figures are not shown."
        )
        height = max(120, 30 * len(beside))
        picture = charts.chart("topdown-beside-noise", beside, noun=page.noun, height=height)
        figures.append({"svg": picture.svg(), "caption": caption})
    if any(row["realised"] and row["noise"] for row in every):
        caption = (
            "Every characteristic, with one mark for each geography. On the line, the error equals that of "
            "linear estimates from the same measurements; below the line, the release gains from knowing that "
            "no count is negative."
        )
        figures.append({"svg": _realised_and_noise(every, labels, page.noun).svg(), "caption": caption})
    if by_size:
        caption = (
            f"Bias of the {page.bias_label}, by the true count. A count of zero can only go "
            f"up, and what it gains is missing from larger counts. Over {charts.FEW} counts or more."
        )
        picture = charts.chart("topdown-bias", by_size, geographies=labels, sizes=sizes, noun=page.noun)
        figures.append({"svg": picture.svg(), "caption": caption})
    return figures
