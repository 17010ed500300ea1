"""From records to a verified release: ``python -m benchmarks.topdown [--persons N | --spec FILE] [--json]``.

Made-up people, below a nation, at production settings; or the spec that is given. Prints for each level of the spine
its units, the nodes that were estimated, and the seconds of processor time, with units per second and core; then what
these rates come to for the 2020 Census, with the arithmetic. A stage has all the time since the end of the one before.

Times are the machine's and not part of a release: a release holds no clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import Memory, processor_time
from confide.engines import Advance, Engine, LocalEngine
from confide.lab.population import Population, write_population
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.noise import ReleaseKey
from confide.releases.ledger import Ledger
from confide.releases.run import run
from confide.releases.spec import LoadedSpec, load_spec
from confide.releases.verify import verify

NATION = {"us": 1, "state": 51, "county": 3_143, "tract": 84_414, "block": 5_892_698}
"""Official units of the 2020 Census; of the blocks, those that may be populated."""
NATION_PERSONS = 331_449_281
ENOUGH = 1_000_000
"""Persons from which rates carry over."""
KEY = ReleaseKey.choose("be" * 32)
ESTIMATING = "Estimating "

SPEC = """
[release]
name = "benchmark"
mechanism = "topdown"

[data]
records = "persons.parquet"
blocks = "blocks.parquet"

[geography]
levels = [
  { name = "us", digits = 0 }, { name = "state", digits = 2 }, { name = "county", digits = 5 },
  { name = "tract", digits = 11 }, { name = "block_group", digits = 12 },
]
areas = [
  { name = "place", column = "place", none = "99999" }, { name = "cousub", column = "cousub" },
  { name = "aiannh", column = "aiannh", none = "9999" },
]

[privacy]
ledger = "people.ledger"
budget = "293764/114921"

[topdown]
strategy = "pl94-persons"
root = "us"
"""


@dataclass
class Stage:
    """What one stage of the run took."""

    title: str
    wall: float
    cpu: float


@dataclass
class LevelRow:
    """One level of the spine, and what it would be for the nation."""

    name: str
    official: int | None
    units: int
    nodes: int
    cpu: float
    wall: float
    nation_units: int = 0
    nation_cpu: float = 0.0


@dataclass
class Timed:
    """A display of stages that times them."""

    stages: list[Stage] = field(default_factory=list)
    _last: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), processor_time()))

    def end(self, title: str) -> None:
        """All that happened since the last end belongs to ``title``."""
        now = time.perf_counter(), processor_time()
        self.stages.append(Stage(title, now[0] - self._last[0], now[1] - self._last[1]))
        self._last = now

    @contextmanager
    def stage(self, title: str, steps: int) -> Iterator[Advance]:  # noqa: ARG002
        """See :class:`confide.releases.workspace.Progress`."""
        yield lambda _: None
        self.end(title)

    def note(self, text: str) -> None:
        """See :class:`confide.releases.workspace.Progress`."""


class Watched(TopDown):
    """The mechanism, which lets the benchmark see its spine."""

    question: TopDownProblem

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> TopDownProblem:
        self.question = super().prepare(loaded, engine)
        return self.question


def lay_out(folder: Path, persons: int) -> Path:
    """Made-up people, a ledger with enough for one release, and the spec."""
    write_population(Population(persons, 7), folder)
    Ledger.open_new(folder / "people.ledger", data_set="made-up", definition="zcdp", neighbours="change-one", budget=3)
    spec = folder / "spec.toml"
    spec.write_text(SPEC)
    return spec


def measure(spec: Path, processes: int) -> dict[str, Any]:
    """Run and verify, and give the figures."""
    mechanism = Watched()
    loaded = load_spec(spec, {"topdown": mechanism.spec})

    @contextmanager
    def engine(scratch: Path) -> Iterator[LocalEngine]:
        with LocalEngine(scratch, processes=processes) as opened:
            yield opened

    timed, memory = Timed(), Memory()
    memory.start()
    begin = time.perf_counter()
    result = run(loaded, mechanism, open_engine=engine, progress=timed, chosen_key=KEY)
    timed.end("Sealing")
    if not verify(result.release, lambda _: mechanism).ok:
        raise SystemExit("the release does not verify")
    timed.end("Verifying")
    question = mechanism.question
    manifest = json.loads((result.release / "manifest.json").read_text())
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {processes} processes",
        "load": round(os.getloadavg()[2], 1),
        "persons": next(file["rows"] for file in manifest["files"] if file["path"].startswith("tables/records.")),
        "wall": time.perf_counter() - begin,
        "memory": memory.stop(),
        "levels": [asdict(row) for row in _level_rows(question, timed.stages)],
        "stages": [asdict(stage) for stage in timed.stages if not stage.title.startswith(ESTIMATING)],
    }


def _level_rows(question: TopDownProblem, stages: list[Stage]) -> list[LevelRow]:
    taken = {stage.title.removeprefix(ESTIMATING): stage for stage in stages if stage.title.startswith(ESTIMATING)}
    rows: list[LevelRow] = []
    above = None
    for level in question.spine.levels:
        official = None if level.official is None else len(np.unique(level.official))
        nodes = 1 if above is None else int((np.diff(above.first_child) > 1).sum())
        stage = taken[level.name]
        rows.append(LevelRow(level.name, official, level.units, nodes, stage.cpu, stage.wall))
        above = level
    for position, row in enumerate(rows):
        if row.name in NATION and row.official:
            row.nation_units = round(NATION[row.name] * row.units / row.official)
        elif position and rows[position - 1].nation_units:
            row.nation_units = round(rows[position - 1].nation_units * row.units / rows[position - 1].units)
        row.nation_cpu = row.cpu * row.nation_units / row.units
    return rows


def report(figures: dict[str, Any]) -> str:
    """Tables for people."""
    persons, levels, stages = figures["persons"], figures["levels"], figures["stages"]
    lines = [f"TopDown, {persons:,} persons, from Parquet to a verified release ({figures['machine']})", ""]
    lines.append(f"{'level':14}{'units':>12}{'nodes':>10}{'CPU s':>10}{'wall s':>10}{'units/s/core':>14}")
    for row in levels:
        rate = row["units"] / max(row["cpu"], 1e-9)
        lines.append(
            f"{row['name']:14}{row['units']:>12,}{row['nodes']:>10,}{row['cpu']:>10,.1f}{row['wall']:>10,.1f}{rate:>14,.0f}"
        )
    lines.append("")
    lines += [f"{stage['title']:36}{stage['cpu']:>10,.1f}{stage['wall']:>10,.1f}" for stage in stages]
    lines.append(f"{'in all, wall':36}{figures['wall']:>20,.1f}")
    lines.append(f"{'load average of the last 15 minutes':36}{figures['load']:>20,.1f}")
    lines.append(f"{'largest memory, all processes':36}{figures['memory'] / 2**30:>20,.2f} GiB")
    return "\n".join([*lines, "", *_nation(figures)])


def _nation(figures: dict[str, Any]) -> list[str]:
    persons, levels, stages = figures["persons"], figures["levels"], figures["stages"]
    if not all(row["nation_units"] for row in levels):
        return ["no extrapolation: the root is not a nation"]
    if persons < ENOUGH:
        return [f"no extrapolation: fixed costs weigh too much below {ENOUGH:,} persons (--persons)"]
    lines = ["The nation in 2020 from these rates: units there x CPU seconds for a unit here", ""]
    for row in levels:
        each = row["cpu"] / row["units"]
        lines.append(f"{row['name']:14}{row['nation_units']:>12,} x {each:.6f} s = {row['nation_cpu']:>9,.0f} s")
    below = sum(row["nation_cpu"] for row in levels)
    factor = NATION_PERSONS / persons
    other = sum(stage["cpu"] for stage in stages) * factor
    lines.append(f"{'levels':14}{below:>10,.0f} CPU s / 2 cores = {below / 2:,.0f} s")
    arithmetic = f"{other / factor:>10,.1f} CPU s x {NATION_PERSONS:,} / {persons:,} persons"
    lines.append(f"{'the rest':14}{arithmetic} = {other:,.0f} s, as if on one core")
    lines.append(f"{'in all':14}{(below / 2 + other) / 60:>10,.0f} minutes on 2 cores")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topdown", description="Time of the descent.")
    parser.add_argument("--persons", type=int, default=50_000, help="how many people to make up (default 50,000)")
    parser.add_argument("--spec", type=Path, help="a spec with its data and an open ledger, instead of made-up people")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="confide-bench-") as folder:
        spec = options.spec or lay_out(Path(folder), options.persons)
        figures = measure(spec, options.processes)
    print(json.dumps(figures, indent=2) if options.json else report(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
