"""Tiny TopDown projects with a strategy of their own: kinds of people by sex, in counties of four blocks."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import confide
from confide.releases.ledger import Ledger

STRATEGY = """
id = "own"
title = "Households and quarters"
provenance = "Made for a test."
definition = "zcdp"
neighbours = "change-one"
root = "state"
{blocks_with}

[schema]
id = "own"
provenance = "Made for a test."
[schema.attributes.kind]
levels = [{kinds}]
[schema.attributes.sex]
levels = [[1, "male"], [2, "female"]]

[roots.state]
budget = "1"
levels     = ["state", "county", "block"]
shares     = ["1/3", "1/3", "1/3"]
estimation = ["root", "below", "below"]
[roots.state.queries]
"total"    = ["{root_total}", "1/2", "1/2"]
"detailed" = ["{root_detailed}", "1/2", "1/2"]

[estimation.root]
least_squares = [{{ queries = [{root_queries}"detailed"] }}]
rounding = [["kind", "detailed"]]
[estimation.below]
least_squares = [{{ queries = ["total", "detailed"] }}]
rounding = [["total", "kind", "detailed"]]
"""

TOTAL = """
[[invariants]]
name = "people"
level = "{level}"
query = "total"
"""


def bound(name: str, side: str, per_unit: int, frame: dict[int, str]) -> str:
    columns = ", ".join(f'{group} = "{column}"' for group, column in frame.items())
    return (
        f'\n[[bounds]]\nname = "{name}"\nvariable = "kind"\nside = "{side}"\nper_unit = {per_unit}\n'
        f"frame = {{ {columns} }}\n"
    )


def lay_out(
    folder: Path,
    people: list[list[int]],
    columns: dict[str, list[int]],
    bounds: str,
    *,
    level: str | None = None,
    budget: str = "1/1000",
    blocks_with: str = "",
) -> Path:
    """A spec over blocks with so many people of each kind; ``columns`` are those of the block table."""
    kinds = len(people[0])
    blocks = [f"9{number // 4}{number:02d}" for number in range(len(people))]
    rows = [
        (block, kind)
        for block, counts in zip(blocks, people, strict=True)
        for kind, n in enumerate(counts)
        for _ in range(n)
    ]
    sex = [1 + number % 2 for number in range(len(rows))]
    pq.write_table(
        pa.table({"geocode": [row[0] for row in rows], "kind": [row[1] for row in rows], "sex": sex}),
        folder / "persons.parquet",
    )
    pq.write_table(pa.table({"geocode": blocks} | columns), folder / "blocks.parquet")
    text = STRATEGY.format(
        kinds=", ".join(f'[{kind}, "kind {kind}"]' for kind in range(kinds)),
        root_total="-" if level else "1/2",
        root_detailed="1" if level else "1/2",
        root_queries="" if level else '"total", ',
        blocks_with=blocks_with,
    )
    (folder / "own.toml").write_text(text + (TOTAL.format(level=level) if level else "") + bounds)
    (folder / "spec.toml").write_text(f"""
[release]
name = "own"
mechanism = "topdown"
[data]
records = "persons.parquet"
blocks = "blocks.parquet"
[geography]
levels = [{{ name = "state", digits = 1 }}, {{ name = "county", digits = 2 }}]
[privacy]
ledger = "people.ledger"
budget = "{budget}"
[topdown]
strategy = "own.toml"
spine = "plain"
""")
    Ledger.open_new(
        folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=budget
    )
    return folder / "spec.toml"


def seal(spec: Path, key: str = "1f" * 32) -> Path:
    """Runs a spec that ``check`` finds nothing wrong with; the release is verified with its ledger."""
    assert not [finding for finding in confide.check(spec, processes=1).findings if finding.severity == "error"]
    result = confide.run(spec, processes=1, insecure_key=key)
    assert confide.verify(result.release, ledger=spec.parent / "people.ledger").ok
    kinds = [entry.kind for entry in Ledger(spec.parent / "people.ledger").history()]
    assert kinds == ["open", "reserve", "measured", "sealed"]
    return result.release


def released_by_block(release: Path) -> dict[str, dict[int, int]]:
    entries = json.loads((release / "manifest.json").read_text())["files"]
    (path,) = (e["path"] for e in entries if e["path"].startswith("tables/records.") and e["path"].endswith(".parquet"))
    counted: dict[str, dict[int, int]] = {}
    for row in pq.read_table(release / path).select(["geocode", "kind"]).to_pylist():
        of_block = counted.setdefault(row["geocode"], {})
        of_block[row["kind"]] = of_block.get(row["kind"], 0) + 1
    return counted
