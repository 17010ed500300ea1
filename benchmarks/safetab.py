"""SafeTab-P from text or Parquet to tables: ``python -m benchmarks.safetab [state | tenth] [--json]``.

``state``: one million made-up persons in a state like Rhode Island, by ``confide safetab execute`` as it stands; then
the size at which the Census Bureau's own program was timed, and a plain Python program on a small input. ``tenth``: a
tenth of the nation, from Parquet, and what its rates come to for the whole.

Code lists and budgets are those of production if ``../shared`` has them, and otherwise the small list of made-up
people; the persons are made up anyway, by :mod:`benchmarks.safetab_people`. Everything is written to a folder that is
removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.processes import Memory, processor_time
from benchmarks.safetab_people import Size, write_country
from benchmarks.safetab_plain import PlainTimes, run_plainly
from confide.engines import Advance, LocalEngine, Source
from confide.lab.population import load_origins, write_code_files
from confide.lab.population.official import render_json
from confide.mechanisms.safetab.code_files import CodeFiles, read_code_lists
from confide.mechanisms.safetab.codes import CodeLists
from confide.mechanisms.safetab.official import read_config
from confide.mechanisms.safetab.problem import group_level
from confide.mechanisms.safetab.regions import read_regions

PRODUCTION = Path(__file__).parents[2] / "shared" / "data" / "safetab" / "safetab_p_production_spec"
CODE_FILES = {
    "codes": "race-and-ethnicity-codes.txt",
    "race_iterations": "race-characteristic-iterations.txt",
    "ethnicity_iterations": "ethnicity-characteristic-iterations.txt",
    "code_to_iteration": "race-and-ethnicity-code-to-iteration.txt",
}

STATE = Size(1_000_000, ("44",), counties=5, tracts=244, places=36, aiannh=2, blocks=25_000)
TENTH = Size(
    33_000_000, ("01", "02", "04", "05", "06"), counties=310, tracts=8_400, places=3_200, aiannh=70, blocks=800_000
)
NATION = Size(330_000_000, ("",) * 51, counties=3_100, tracts=84_000, places=32_000, aiannh=700, blocks=8_000_000)
BUREAU = Size(200_000, ("01", "02"), counties=6, tracts=30, places=18, aiannh=2, blocks=300)
BUREAU_SECONDS = 664.2
"""SafeTab-P 5.0.0 at this size, with production code lists and budgets: one run, elsewhere, on two shared cores."""
SMALL = Size(2_000, ("44",), counties=1, tracts=2, places=1, aiannh=1, blocks=20)

BEFORE, BETWEEN, AFTER = "Starting, lists, areas, plan", "Fingerprints, ledger, key", "Certificate, sealing, copy"
MEASURING = "Measuring with noise"


@dataclass
class Timed:
    """A display of stages that times them, and what lies before, between and after; wall and processor seconds."""

    begun: float
    stages: dict[str, list[float]] = field(default_factory=dict)
    _last: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self._last = self.begun, 0.0

    def end(self, title: str) -> None:
        """All that happened since the last end belongs to ``title``."""
        now = time.time(), processor_time()
        wall, cpu = self.stages.get(title, [0.0, 0.0])
        self.stages[title] = [wall + now[0] - self._last[0], cpu + now[1] - self._last[1]]
        self._last = now

    @contextmanager
    def stage(self, title: str, steps: int) -> Iterator[Advance]:  # noqa: ARG002
        """See :class:`confide.releases.workspace.Progress`."""
        self.end(BETWEEN if self.stages else BEFORE)
        yield lambda _: None
        self.end(title)

    def note(self, text: str) -> None:
        """See :class:`confide.releases.workspace.Progress`."""


def command(begun: str, figures: str, *arguments: str) -> None:
    """``confide safetab execute`` in this process, its display replaced by one that times."""
    from confide.cli import commands
    from confide.cli import main as cli

    timed = Timed(float(begun))
    commands.Display = lambda **_: timed  # type: ignore[assignment,misc]
    try:
        cli.app(["safetab", "execute", *arguments])
    except SystemExit as end:
        if end.code:
            raise
    timed.end(AFTER)
    Path(figures).write_text(json.dumps(timed.stages))


def execute(folder: Path, size: Size, *, text: bool) -> dict[str, Any]:
    """Makes up the input, runs the command in a process of its own, and gives the figures."""
    parameters, lists = lay_out(folder, size)
    begin = time.perf_counter()
    write_country(size, lists, folder / "data", text=text)
    made = time.perf_counter() - begin
    out, figures = folder / "out", folder / "figures.json"
    code = "import sys; from benchmarks.safetab import command; command(*sys.argv[1:])"
    begin = time.perf_counter()
    arguments = [str(time.time()), *map(str, (figures, parameters, folder / "data", out))]
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL) as process:
        memory = Memory(process.pid, measure="Rss", seconds=0.2)
        memory.start()
        if process.wait():
            raise SystemExit("confide safetab execute failed")
        wall = time.perf_counter() - begin
    manifest = json.loads((out / "manifest.json").read_text())
    rows = {file["path"]: file.get("rows") for file in manifest["files"]}
    levels = manifest["plan"]["question"]["levels"].values()
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": [round(load, 1) for load in os.getloadavg()],
        "lists": "production" if PRODUCTION.exists() else "made up",
        "from": "text" if text else "Parquet",
        "size": {**vars(size), "states": len(size.states)},
        "groups": sum(level["areas"] * level["iterations"] for level in levels),
        "made_in": made,
        "wall": wall,
        "memory": memory.stop(),
        "stages": json.loads(figures.read_text()),
        "t1": rows["t1/t1.csv"],
        "t2": rows["t2/t2.csv"],
    }


def lay_out(folder: Path, size: Size) -> tuple[Path, CodeLists]:
    """The folder of parameters for a size: code lists, and ``config.json`` for its states."""
    parameters = folder / "parameters"
    parameters.mkdir(parents=True)
    if PRODUCTION.exists():
        for name in CODE_FILES.values():
            shutil.copyfile(PRODUCTION / name, parameters / name)
        config = json.loads((PRODUCTION / "config.json").read_text())
        config |= {"reader": "csv", "run_pr": False, "state_filter_us": list(size.states)}
        (parameters / "config.json").write_text(json.dumps(config))
    else:
        write_code_files(parameters)
        (parameters / "config.json").write_text(render_json(load_origins().config.entries(list(size.states))))
    return parameters, read_code_lists(CodeFiles(**{key: parameters / name for key, name in CODE_FILES.items()}))


def run_small(folder: Path) -> PlainTimes:
    """The plain program on a small input."""
    parameters, lists = lay_out(folder, SMALL)
    write_country(SMALL, lists, folder / "data", text=True)
    settings = read_config(parameters / "config.json").settings
    with LocalEngine(folder / "scratch") as engine:
        source = Source(folder / "data" / "GRF-C.txt", "csv", delimiter="|", quoted=False)
        regions = read_regions(engine, source, settings.states, puerto_rico=False)
    levels = [group_level(level, settings, lists, regions) for level in settings.levels]
    return run_plainly(folder / "data", lists, tuple(level for level in levels if level is not None))


def report(figures: dict[str, Any]) -> list[str]:
    """A run, for people."""
    size = figures["size"]
    lines = [
        f"SafeTab-P, {size['persons']:,} made-up persons from {figures['from']}, {figures['lists']} code lists "
        f"({figures['machine']}; load averages {', '.join(map(str, figures['load']))})",
        ", ".join(f"{size[name]:,} {name}" for name in ("states", "counties", "tracts", "places", "aiannh", "blocks")),
        f"{figures['groups']:,} groups; {figures['t1']:,} rows of t1, {figures['t2']:,} rows of t2",
        "",
        f"{'stage':32}{'CPU s':>10}{'wall s':>10}",
    ]
    lines += [f"{title:32}{cpu:>10,.1f}{wall:>10,.1f}" for title, (wall, cpu) in figures["stages"].items()]
    lines.append(f"{'in all, wall':32}{figures['wall']:>20,.1f}")
    lines.append(f"{'largest memory, all processes':32}{figures['memory'] / 2**30:>20,.2f} GiB")
    return lines


def compare(figures: dict[str, Any], same_size: dict[str, Any], plain: PlainTimes) -> list[str]:
    """Against the plain program, and against the Bureau's."""
    needed = plain.for_size(figures["size"]["persons"], figures["groups"])
    lines = [
        f"plain Python, {plain.persons:,} persons and {plain.groups:,} groups: {plain.counting:.2f} s for counting, "
        f"{plain.noise:.1f} s for noise",
        f"in proportion, the run above would take it {needed:,.0f} s on one core: "
        f"{needed / figures['wall']:,.0f} times as long",
    ]
    if same_size["lists"] == "production":
        wall = same_size["wall"]
        lines += [
            f"{BUREAU.persons:,} persons, {same_size['groups']:,} groups: {wall:.1f} s here",
            f"SafeTab-P 5.0.0 at this size: {BUREAU_SECONDS} s, {BUREAU_SECONDS / wall:,.0f} times as long. "
            "Not in this run: measured elsewhere, once, on 2 shared cores",
        ]
    return lines


def nation(figures: dict[str, Any]) -> list[str]:
    """What the rates of a run come to for the nation, in processor time: a busy machine does not change that much."""
    persons, groups = figures["size"]["persons"], figures["groups"]
    there = {"persons": NATION.persons, "groups": groups * _areas(vars(NATION)) // _areas(figures["size"])}
    lines = [f"The nation from these rates: {there['persons']:,} persons, {there['groups']:,} groups", ""]
    total = 0.0
    for title, (_, cpu) in figures["stages"].items():
        unit = "groups" if title == MEASURING else "persons"
        rate = cpu / (groups if title == MEASURING else persons) * 1e6
        seconds = rate * there[unit] / 1e6
        total += seconds
        lines.append(
            f"{title:32}{rate:>8.3f} CPU s for a million {unit:8} x {there[unit] / 1e6:.0f} = {seconds:>7,.0f} s"
        )
    each = total / 60
    return [
        *lines,
        f"in all {each:,.0f} minutes of processor time: {each / 2:,.0f} minutes if two cores are always busy",
    ]


def _areas(size: dict[str, Any]) -> int:
    return int(sum(size[name] for name in ("counties", "tracts", "places")))


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.safetab", description="Time of SafeTab-P.")
    parser.add_argument("size", nargs="?", choices=("state", "tenth"), default="state")
    parser.add_argument("--persons", type=int, help="so many persons instead")
    parser.add_argument("--json", action="store_true", help="print the figures of the run as JSON")
    options = parser.parse_args(arguments)
    size = STATE if options.size == "state" else TENTH
    if options.persons:
        size = replace(size, persons=options.persons)
    with tempfile.TemporaryDirectory(prefix="confide-bench-") as name:
        folder = Path(name)
        figures = execute(folder / "run", size, text=options.size == "state")
        if options.json:
            print(json.dumps(figures, indent=2))
            return 0
        print("\n".join([*report(figures), ""]), flush=True)
        if options.size == "tenth":
            print("\n".join(nation(figures)))
        else:
            same_size = execute(folder / "bureau", BUREAU, text=True)
            print("\n".join(compare(figures, same_size, run_small(folder / "small"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
