"""Passes in turns against totals first: three strategies whose kept answers cross, or that measure no cells.

    python -m benchmarks.turns --people 20000

Prints for each the processor time of the estimates of a made-up state, with passes and rounding in turns, and with the
same queries, totals first and a slack.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import confide
from confide.mechanisms.topdown import descent
from confide.releases.ledger import Ledger

LEVELS = ["state", "county", "tract", "block_group", "block"]
BROAD = '\n[schema.attributes.b.recodes.broad]\ngroups = { young = "0..17", adult = "18..64", old = "65..100" }\n'
PEOPLE_PER_BLOCK = 40
SPEC = """
[release]
name = "turns"
mechanism = "topdown"
[data]
records = "persons.parquet"
blocks = "blocks.parquet"
[geography]
levels = [
  { name = "state", digits = 2 }, { name = "county", digits = 5 },
  { name = "tract", digits = 11 }, { name = "block_group", digits = 12 },
]
[privacy]
ledger = "people.ledger"
budget = "1"
[topdown]
strategy = "own.toml"
spine = "plain"
"""


@dataclass(frozen=True)
class Case:
    """A strategy: its attributes, its coarse queries with those that are kept, the others, and the rounding."""

    title: str
    sizes: dict[str, int]
    coarse: tuple[str, ...]
    kept: tuple[str, ...]
    others: tuple[str, ...]
    chain: tuple[str, ...]

    def strategy(self, *, in_turns: bool) -> str:
        """The strategy file."""
        queries = ["total", *self.coarse, *self.others]
        rows = {
            query: ["-" if query == "total" else f"1/{len(queries) - 1}", *[f"1/{len(queries)}"] * (len(LEVELS) - 1)]
            for query in queries
        }
        estimation: dict[str, dict[str, Any]] = {}
        for name, first in (("root", [*self.coarse]), ("below", ["total", *self.coarse])):
            chain = [*self.chain] if name == "root" else ["total", *self.chain]
            if in_turns:
                passes: list[Any] = [{"queries": first, "constrain": [*self.kept]}, {"queries": [*self.others]}]
                estimation[name] = {"least_squares": passes, "rounding": [chain, ["detailed"]]}
            elif name == "root":
                rounding = [[*chain, "detailed"]]
                estimation[name] = {"least_squares": [{"queries": [*first, *self.others]}], "rounding": rounding}
            else:
                passes = [{"queries": ["total"], "constrain": ["total"]}, {"queries": [*self.coarse, *self.others]}]
                rounding = [["total"], [*self.chain, "detailed"]]
                estimation[name] = {"slack": "1/100", "least_squares": passes, "rounding": rounding}
        lines = [
            'id = "own"\ntitle = "turns"\nprovenance = "made up"\ndefinition = "zcdp"\nneighbours = "change-one"',
            f'root = "state"\n[roots.state]\nbudget = "1"\nlevels = {json.dumps(LEVELS)}',
            f"shares = {json.dumps(['1/5'] * 5)}\nestimation = {json.dumps(['root', *['below'] * 4])}",
            "[roots.state.queries]",
            *(f'"{query}" = {json.dumps(row)}' for query, row in rows.items()),
            '[schema]\nid = "own"\nprovenance = "made up"',
        ]
        for name, size in self.sizes.items():
            lines.append(f'[schema.attributes.{name}]\ntitle = "{name.upper()}"\nrange = [0, {size - 1}]')
            lines += [BROAD] if name == "b" else []
        for name, values in estimation.items():
            lines.append(f"[estimation.{name}]")
            for key, each in values.items():
                text = json.dumps(each)
                lines.append(
                    f"{key} = " + text.replace('"queries":', "queries =").replace('"constrain":', "constrain =")
                )
        return "\n".join(lines) + '\n[[invariants]]\nname = "all"\nlevel = "state"\nquery = "total"\n'


CROSSED = {"a": 3, "b": 101, "c": 10}
FINE = ("b:broad", "a*b:broad*c")
CASES = (
    Case("3,030 cells, a*c and b:broad kept", CROSSED, ("a*c", "b:broad", "b"), ("a*c", "b:broad"),
         ("a*b:broad*c", "detailed"), FINE),
    Case("the same, marginals alone", CROSSED, ("a*c", "b:broad"), ("a*c", "b:broad"), ("a*b", "b*c"), FINE),
    Case("40,320 cells, hispanic*cenrace kept", {"hhgq": 8, "sex": 2, "age": 20, "hispanic": 2, "cenrace": 63},
         ("hispanic*cenrace",), ("hispanic*cenrace",), ("sex*age", "hhgq*sex", "detailed"),
         ("hispanic", "hispanic*cenrace")),
)  # fmt: skip


def write_people(case: Case, people: int, folder: Path) -> None:
    """Records and blocks of a made-up state."""
    rng = np.random.default_rng(5)
    blocks = max(10, people // PEOPLE_PER_BLOCK)
    codes = [f"44{i % 4 + 1:03d}{i // 4 % 8 + 1:06d}{i // 32 % 3 + 1}{i:05d}" for i in range(blocks)]
    columns: dict[str, Any] = {"geocode": [codes[block] for block in rng.integers(0, blocks, people)]}
    for name, size in case.sizes.items():
        columns[name] = rng.choice(size, people, p=rng.dirichlet(np.full(size, 5.0 if name == "b" else 0.3)))
    pq.write_table(pa.table(columns), folder / "persons.parquet")
    pq.write_table(pa.table({"geocode": codes, "homes": np.full(blocks, 20)}), folder / "blocks.parquet")


def seconds(case: Case, people: int, folder: Path, *, in_turns: bool) -> float:
    """The processor time of the estimates."""
    folder.mkdir(parents=True)
    write_people(case, people, folder)
    (folder / "own.toml").write_text(case.strategy(in_turns=in_turns), encoding="utf-8")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    Ledger.open_new(folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget="1")
    taken: list[float] = []
    descend: Callable[..., None] = descent.descend

    def timed(*arguments: Any) -> None:
        begin = time.process_time()
        descend(*arguments)
        taken.append(time.process_time() - begin)

    descent.descend = timed  # type: ignore[assignment]
    try:
        confide.run(folder / "spec.toml", processes=1, insecure_key="5a" * 32)
    finally:
        descent.descend = descend
    return sum(taken)


def main() -> None:
    """Every case both ways; the first run compiles, and is not counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=20_000)
    people = parser.parse_args().people
    with tempfile.TemporaryDirectory() as name:
        for number, case in enumerate((CASES[0], *CASES)):
            size = people if number else 1_000
            turns, slack = (seconds(case, size, Path(name) / f"{number}{way}", in_turns=way) for way in (True, False))
            if number:
                print(f"{case.title}: {turns:.1f} s in turns, {slack:.1f} s with totals first")


if __name__ == "__main__":
    main()
