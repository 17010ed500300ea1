"""Pictures of an inference: intervals of areas side by side, and a map of how large margins are beside the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confide.inference.answers import Inference
from confide.inference.areas import AreaSet
from confide.report.charts import Chart, chart
from confide.report.geometry import read_geometry

MOST_INTERVALS = 60


def interval_chart(answer: Inference, kind: AreaSet) -> Chart:
    """The intervals of the first query in the areas of a kind, those with the largest figures first."""
    rows = _first_rows(answer, kind)
    rows = [row for row in rows if row["low"] is not None and row["estimate"] is not None]
    rows = sorted(rows, key=lambda row: -row["estimate"])[:MOST_INTERVALS]
    names = [name for name in answer.schema.names if name in answer.source.vocabulary.attributes]
    shown = [
        {
            "area": " ".join([row["code"], *(row[name] for name in names if row[name] != "all")]),
            "estimate": row["estimate"],
            "low": row["low"],
            "high": row["high"],
            "method": row["method"],
        }
        for row in rows
    ]
    return chart(
        "inference-intervals",
        shown,
        height=max(60, 14 * len(shown)),
        title=f"{answer.queries[0].name} in each {kind.kind}, with its {answer.levels[0]:.0%} interval",
    )


def margin_map(answer: Inference, kind: AreaSet, file: Path) -> Chart:
    """A map of half the width of the interval in per cent of the estimate, for the first query's first cell."""
    outlines = read_geometry(file, kind.kind, kind.codes)
    rows: dict[str, dict[str, Any]] = {}
    for row in _first_rows(answer, kind):
        rows.setdefault(row["code"], row)
    features = []
    for outline in outlines.outlines:
        row = rows[outline.code]
        known = row["low"] is not None and row["estimate"] and row["estimate"] > 0
        percent = 50 * (row["high"] - row["low"]) / row["estimate"] if known else None
        geometry = {"type": "MultiPolygon", "coordinates": outline.polygons}
        features.append({"type": "Feature", "geometry": geometry, "percent": percent})
    largest = max((feature["percent"] for feature in features if feature["percent"] is not None), default=1.0)
    return chart("inference-relative-margin", features, largest=min(100.0, largest))


def _first_rows(answer: Inference, kind: AreaSet) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = answer.table(kind.kind).to_pylist()
    first = answer.queries[0].name
    return [row for row in rows if row["query"] == first and row["level"] == answer.levels[0]]
