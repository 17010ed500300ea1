"""A small country of its own: a strategy with six cells, and releases of it that take a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide import api
from confide.releases.ledger import Ledger
from tests.kits.topdown_strategy import strategy_text

STRATEGY = strategy_text(
    "small",
    "A small country",
    estimation=["root", "total-first", "at-once"],
    rest="""
"total"    = ["-",   "1/2", "1/5"]
"work"     = ["1/2", "1/4", "1/5"]
"detailed" = ["1/2", "1/4", "3/5"]

[estimation.root]
least_squares = [{ queries = ["work", "detailed"] }]
rounding = [["total", "work", "detailed"]]

[estimation.total-first]
slack = "1/100"
least_squares = [{ queries = ["total"], constrain = ["total"] }, { queries = ["work", "detailed"] }]
rounding = [["total"], ["work", "detailed"]]

[estimation.at-once]
least_squares = [{ queries = ["total", "work", "detailed"] }]
rounding = [["total", "work", "detailed"]]

[[invariants]]
name = "population"
level = "land"
query = "total"
""",
)

SPEC = """
[release]
name = "{name}"
title = "Small country, trial {name}"
mechanism = "topdown"

[data]
records = "{records}"
blocks = "blocks.parquet"

[geography]
levels = [{{ name = "land", digits = 0 }}, {{ name = "county", digits = 2 }}]
areas = [{{ name = "town", column = "town", none = "-" }}, {{ name = "parish", column = "parish", none = "-" }}]

[privacy]
ledger = "people.ledger"
budget = "{budget}"

[topdown]
strategy = "strategy.toml"
spine = "plain"

[output]
formats = ["{format}"]
"""

KEYS = [f"{number}{number}" * 32 for number in range(1, 6)]
COUNTIES, BLOCKS = 6, 15


def lay_out(folder: Path) -> Path:
    """Ninety blocks in six counties, a third of them in seven towns, none in a parish, some without anybody; four
    thousand people."""
    draw = np.random.default_rng(4)
    codes = [f"{county:02}{block:03}" for county in range(COUNTIES) for block in range(BLOCKS)]
    towns = [f"T{draw.integers(8)}" if draw.random() < 0.35 else "-" for _ in codes]
    frame = {"geocode": codes, "town": towns, "parish": ["-"] * len(codes)}
    pq.write_table(pa.table(frame), folder / "blocks.parquet")
    weights = draw.gamma(0.5, 1, len(codes)) * (draw.random(len(codes)) < 0.8)
    places = draw.choice(len(codes), 4_000, p=weights / weights.sum())
    people = {
        "geocode": [codes[place] for place in places],
        "work": draw.integers(0, 2, 4_000),
        "tongue": draw.choice(list("abc"), 4_000, p=[0.7, 0.27, 0.03]).tolist(),
    }
    pq.write_table(pa.table(people), folder / "persons.parquet")
    (folder / "strategy.toml").write_text(STRATEGY)
    Ledger.open_new(
        folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=10**13
    )
    return folder


def release(
    folder: Path,
    name: str,
    *,
    key: int = 0,
    budget: object = 2,
    records: str = "persons.parquet",
    formats: str = "parquet",
) -> Path:
    """The folder of a run to its end."""
    spec = folder / f"{name}.toml"
    spec.write_text(SPEC.format(name=name, budget=budget, records=records, format=formats))
    api.run(spec, processes=1, insecure_key=KEYS[key], accept_ledger=records != "persons.parquet")
    return folder / name


def numbers(*runs: Path, **options: Any) -> dict[str, Any]:
    """What an evaluation finds."""
    evaluated = api.evaluate(*runs, processes=1, **options)
    found: dict[str, Any] = evaluated.accuracy.reveal("the people of tests are made up")
    return found


def row(found: dict[str, Any], geography: str, query: str, cell: str = "all cells") -> dict[str, Any]:
    """The accuracy of one cell of a query."""
    (one,) = [r for r in found["accuracy"] if (r["geography"], r["query"], r["cell"]) == (geography, query, cell)]
    return dict(one)


def square(number: int, **properties: object) -> dict[str, Any]:
    """An area of a map: the square of that number in a row."""
    ring = [[number, 40], [number + 1, 40], [number + 1, 41], [number, 41], [number, 40]]
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Polygon", "coordinates": [ring]}}


def write_squares(path: Path, features: list[dict[str, Any]]) -> Path:
    """A GeoJSON file."""
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path
