"""A TopDown release run by the runner itself, without the command line: its spec, its run, its records."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from confide.engines import LocalEngine
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.noise import ReleaseKey
from confide.releases import run as execute
from confide.releases.ledger import Ledger
from confide.releases.run import RunResult
from confide.releases.spec import load_spec
from confide.releases.workspace import Silent

KEY = ReleaseKey.choose("3c" * 32)
PRODUCTION = "3212131612780/1929937650363"
ENDLESS = 10**12
COLUMNS = "geocode, hhgq, votingage, hispanic, cenrace"

SPEC = """
[release]
name = "descent"
mechanism = "topdown"

[data]
records = "persons.parquet"
blocks = "blocks.parquet"

[geography]
levels = [
  {{ name = "state", digits = 2 }}, {{ name = "county", digits = 5 }},
  {{ name = "tract", digits = 11 }}, {{ name = "block_group", digits = 12 }},
]
areas = [
  {{ name = "place", column = "place", none = "99999" }},
  {{ name = "cousub", column = "cousub" }},
  {{ name = "aiannh", column = "aiannh", none = "9999" }},
]

[privacy]
ledger = "people.ledger"
budget = "{budget}"

[topdown]
strategy = "pl94-persons"
root = "state"
spine = "{spine}"
"""


def lay_out(folder: Path, people: Path, *, budget: object = PRODUCTION, spine: str = "optimised") -> Path:
    for name in ("persons.parquet", "blocks.parquet"):
        shutil.copy(people / name, folder / name)
    spec = folder / "spec.toml"
    spec.write_text(SPEC.format(budget=budget, spine=spine))
    Ledger.open_new(
        folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=10**13
    )
    return spec


def run(spec: Path, processes: int = 1) -> RunResult:
    loaded = load_spec(spec, {"topdown": TopDownSpec})

    @contextmanager
    def engine(scratch: Path) -> Iterator[LocalEngine]:
        with LocalEngine(scratch, processes=processes) as opened:
            yield opened

    return execute.run(loaded, TopDown(), open_engine=engine, progress=Silent(), chosen_key=KEY)


def sql(text: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        return connection.execute(text).fetchall()


def released(result: RunResult) -> str:
    return f"read_parquet('{next((result.release / 'tables').glob('records*.parquet'))}')"


def table(result: RunResult, name: str) -> str:
    return f"read_parquet('{next((result.release / 'tables').glob(f'{name}.*parquet'))}')"
