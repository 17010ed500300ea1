"""What the tests of whole TopDown releases share: specs, small states, and releases read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb

from confide.lab.population import Population, write_population
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.releases.ledger import Ledger

KEY = "3c" * 32
ENDLESS = 10**12
QUARTERS = [f"gq{number}" for number in range(1, 8)]
COUNTED = """counted = [
  { where = { h1 = 1 }, column = "occupied_units" },
  { where = { h1 = 0 }, column = "housing_units", less = "occupied_units" },
]"""

LEVELS = """levels = [
  { name = "state", digits = 2 }, { name = "county", digits = 5 },
  { name = "tract", digits = 11 }, { name = "block_group", digits = 12 },
]"""
AREAS = """areas = [
  { name = "place", column = "place", none = "99999", within = "state" },
  { name = "cousub", column = "cousub", within = "county" },
  { name = "aiannh", column = "aiannh", none = "9999" },
]"""


def write_spec(
    folder: Path,
    *,
    product: str = "pl94-persons",
    budget: object = None,
    records: str = "persons.parquet",
    blocks: str = "blocks.parquet",
    data: str = "",
    spine: str = "optimised",
    areas: str = AREAS,
    output: str = "",
    around: list[str] | None = None,
) -> Path:
    """A spec over files in ``folder``, with the production budget unless told, and a ledger with more than enough."""
    path = folder / "spec.toml"
    path.write_text(f"""
[release]
name = "descent"
mechanism = "topdown"

[data]
records = "{records}"
blocks = "{blocks}"
{data}

[geography]
{LEVELS}
{areas}

[privacy]
ledger = "people.ledger"
budget = "{budget or load_strategy(product, root="state").budget}"

[topdown]
strategy = "{product}"
root = "state"
spine = "{spine}"
{"" if around is None else f"around = {json.dumps(around)}"}

[output]
{output}
""")
    Ledger.open_new(
        folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=10**13
    )
    return path


def sql(text: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(text).fetchall()


def rows_of(file: Path) -> str:
    """A file as a table of SQL."""
    return f"read_parquet('{file}')"


def released(release: Path, table: str = "records") -> str:
    """A released table as a table of SQL. Trials are stamped in their file names."""
    (file,) = (
        release / entry["path"]
        for entry in json.loads((release / "manifest.json").read_text())["files"]
        if entry["path"].startswith(f"tables/{table}.") and entry["path"].endswith(".parquet")
    )
    return rows_of(file)


def same_rows(one: str, other: str) -> bool:
    """Whether two selections have the same rows, each as often, in whatever order."""
    return not sql(f"({one}) EXCEPT ALL ({other})") and not sql(f"({other}) EXCEPT ALL ({one})")


def charges(folder: Path) -> list[str]:
    return [entry.kind for entry in Ledger(folder / "people.ledger").history()]


def write_small_state(folder: Path, persons: int, seed: int) -> Path:
    """Made-up people whose blocks are dealt out to two counties of two tracts with two block groups each: a spine on
    which every level branches, however few they are."""
    write_population(Population(persons, seed), folder)
    blocks, people = (rows_of(folder / f"{name}.parquet") for name in ("blocks", "persons"))
    numbered = f"SELECT geocode AS old, row_number() OVER (ORDER BY geocode) - 1 AS n FROM {blocks}"
    code = "'90' || format('{:03d}{:06d}{:d}{:03d}', 1 + n % 2, 100 + n // 2 % 2, 1 + n // 4 % 2, n)"
    names = folder / "names.parquet"
    sql(f"COPY (SELECT old, {code} AS new FROM ({numbered})) TO '{names}'")
    for name, rows in (("blocks", blocks), ("persons", people)):
        sql(
            f"COPY (SELECT rows.* REPLACE (new AS geocode) FROM {rows} AS rows JOIN {rows_of(names)} ON old = geocode "
            f"ORDER BY new) TO '{folder}/new.parquet'"
        )
        (folder / "new.parquet").replace(folder / f"{name}.parquet")
    return folder
