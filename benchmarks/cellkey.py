"""The cell key method on the EU census programme: ``python -m benchmarks.cellkey [--persons N] [--country CC]``.

One million made-up persons through all 103 tables of persons with all margins, by ``confide run`` as it stands, in a
process of its own. The bar: 120 s and 4 GiB on two cores. Beside it, what DuckDB alone takes for the counts and key
sums of every tenth table with its margins (``GROUP BY CUBE``), and in proportion for all of them.

``--country`` takes the numbers of areas of a country of the programme. Everything is written to a folder that is
removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.processes import Memory
from benchmarks.safetab import AFTER, BEFORE, BETWEEN, Timed
from confide.documents import load_schema
from confide.engines import LocalEngine, Source
from confide.lab.population.eu import EuFiles, write_eu
from confide.lab.population.settings import EuAreas
from confide.lab.risk.bounded_noise.static_programme import load_programme
from confide.mechanisms.cellkey.keys import write_keyed
from confide.schema import Query, Schema

PERSONS, SEED, CORES = 1_000_000, 7, 2
SECONDS, GIB = 120, 4
KEYS = 10**8
EVERY = 10
TITLES = {BEFORE: "Starting, spec, programme", BETWEEN: "Fingerprint, between stages", AFTER: "Statement, sealing"}
COUNTING = ("Reading records", "Counting and perturbing")
SPEC = f"""
[release]
name = "eu-2021"
title = "Made-up persons, tables of the EU census programme"
mechanism = "cellkey"

[data]
records = "keyed.parquet"
schema = "schema.toml"
record_key = "record_key"

[cellkey]
D = 5
V = 2
js = 0
keys = {KEYS}

"""


def command(begun: str, figures: str, spec: str) -> None:
    """``confide run`` in this process, its display replaced by one that times."""
    from confide.cli import main as cli

    timed = Timed(float(begun))
    cli.Display = lambda **_: timed  # type: ignore[assignment,misc]
    try:
        cli.app(["run", spec, "--processes", str(CORES), "--memory", f"{GIB}GiB"])
    except SystemExit as end:
        if end.code:
            raise
    timed.end(AFTER)
    Path(figures).write_text(json.dumps(timed.stages))


def lay_out(folder: Path, persons: int, areas: EuAreas | None) -> tuple[EuFiles, dict[str, float]]:
    """The input of a run: persons, their keys, the spec. And how long each took to make."""
    begin = time.perf_counter()
    files = write_eu(folder, persons, SEED, areas)
    made = time.perf_counter()
    with LocalEngine(folder / "scratch") as engine:
        write_keyed(engine, Source(files.records, "parquet"), folder / "keyed.parquet", column="record_key", keys=KEYS)
    (folder / "spec.toml").write_text(SPEC + files.tables.read_text(encoding="utf-8"), encoding="utf-8")
    return files, {"persons": made - begin, "keys": time.perf_counter() - made}


def execute(folder: Path, files: EuFiles) -> dict[str, Any]:
    """The command in a process of its own: time, memory, stages and rows."""
    figures = folder / "figures.json"
    code = "import sys; from benchmarks.cellkey import command; command(*sys.argv[1:])"
    begin = time.perf_counter()
    arguments = [str(time.time()), str(figures), str(folder / "spec.toml")]
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL) as process:
        memory = Memory(process.pid, measure="Rss", seconds=0.1)
        memory.start()
        failed = process.wait()
        wall = time.perf_counter() - begin
    largest = memory.stop()
    if failed:
        raise SystemExit("confide run failed")
    (manifest,) = folder.glob("**/manifest.json")
    written = json.loads(manifest.read_text())["files"]
    schema, queries = programme(files)
    distinct = {margin.name: margin.cells for query in queries.values() for margin in query.margins()}
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": [round(load, 1) for load in os.getloadavg()],
        "areas": {f"geo:{name}": schema.variable(f"geo:{name}").size for name in ("nuts1", "nuts2", "nuts3")}
        | {"geo": schema.variable("geo").size},
        "tables": len(queries),
        "margins": sum(1 for query in queries.values() for _ in query.margins()),
        "cross_classifications": len(distinct),
        "cells": sum(distinct.values()),
        "rows": sum(file.get("rows") or 0 for file in written if file["path"].endswith(".parquet")),
        "bytes": sum(file.stat().st_size for file in manifest.parent.rglob("*") if file.is_file()),
        "wall": wall,
        "memory": largest,
        "stages": {TITLES.get(title, title): each for title, each in json.loads(figures.read_text()).items()},
    }


def programme(files: EuFiles) -> tuple[Schema, dict[str, Query]]:
    """The tables, as queries of the schema."""
    schema = load_schema(files.schema.name, files.schema.parent)
    tables = tomllib.loads(files.tables.read_text(encoding="utf-8"))["tables"]
    return schema, {table["name"]: schema.query("*".join(table["variables"])) for table in tables}


def compare(folder: Path, files: EuFiles) -> dict[str, float]:
    """DuckDB alone: a CUBE for every tenth table, over columns that have the groups of recodes already."""
    _, queries = programme(files)
    records = pq.read_table(folder / "keyed.parquet")
    chosen = list(queries.values())[::EVERY]
    wanted = {variable.name: variable for query in chosen for variable in query.variables}
    columns = {"record_key": records.column("record_key")}
    for name, variable in wanted.items():
        codes = pa.array([str(level.code) for level in variable.attribute.levels])
        labels = pa.array(variable.labels).take(pa.array(variable.assignment))
        columns[name] = labels.take(pc.index_in(records.column(variable.attribute.name), codes).combine_chunks())
    connection = duckdb.connect(config={"threads": CORES, "memory_limit": f"{GIB}GiB"})
    connection.register("records", pa.table(columns))
    begin = time.perf_counter()
    for query in chosen:
        by = ", ".join(f'"{variable.name}"' for variable in query.variables)
        text = f"SELECT {by}, count(*) AS n, sum(record_key) % {KEYS} AS cell_key FROM records GROUP BY CUBE ({by})"
        connection.sql(text).to_arrow_table()
    seconds = time.perf_counter() - begin
    margins = sum(1 for query in chosen for _ in query.margins())
    return {"tables": len(chosen), "margins": margins, "seconds": seconds}


def report(figures: dict[str, Any]) -> list[str]:
    """A run, for people."""
    made, plain = figures["made_in"], figures["duckdb"]
    lines = [
        f"The cell key method, {figures['persons']:,} made-up persons, {figures['tables']} tables of the EU programme "
        f"with all margins ({figures['machine']}; load averages {', '.join(map(str, figures['load']))})",
        f"{figures['margins']:,} margins, {figures['cross_classifications']:,} distinct cross-classifications with "
        f"{figures['cells']:,} cells; areas {'/'.join(map(str, figures['areas'].values()))}",
        f"{figures['rows']:,} rows that are not zero, {figures['bytes'] / 2**20:,.0f} MiB of release",
        f"before: {made['persons']:.1f} s to make up the persons, {made['keys']:.1f} s to draw their keys",
        "",
        f"{'stage':32}{'CPU s':>10}{'wall s':>10}",
    ]
    lines += [f"{title:32}{cpu:>10,.1f}{wall:>10,.1f}" for title, (wall, cpu) in figures["stages"].items()]
    memory = figures["memory"] / 2**30
    lines.append(f"{'in all, wall':32}{figures['wall']:>20,.1f}   bar {SECONDS} s")
    lines.append(f"{'largest memory, all processes':32}{memory:>20,.2f}   bar {GIB} GiB")
    if figures["persons"] == PERSONS:
        met = figures["wall"] < SECONDS and memory < GIB
        lines.append("both bars are met" if met else "NOT MET")
    needed = plain["seconds"] / plain["margins"] * figures["margins"]
    ours = sum(figures["stages"].get(title, (0, 0))[0] for title in COUNTING)
    lines += [
        "",
        f"DuckDB alone, counts and key sums without noise and files: {plain['seconds']:.1f} s for {plain['tables']} "
        f"tables with {plain['margins']} margins",
        f"in proportion {needed:,.1f} s for all; here reading, counting and perturbing took {ours:,.1f} s",
    ]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cellkey", description="Time of the cell key method.")
    parser.add_argument("--persons", type=int, default=PERSONS)
    parser.add_argument("--country", help="numbers of areas of this country, such as MT; default a small one")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    areas = None
    if options.country:
        areas = EuAreas(*load_programme("eu-2021").areas(options.country).values())
    with tempfile.TemporaryDirectory(prefix="confide-bench-") as name:
        folder = Path(name)
        files, made = lay_out(folder, options.persons, areas)
        figures = {"persons": options.persons, "made_in": made, **execute(folder, files)}
        figures["duckdb"] = compare(folder, files)
    print(json.dumps(figures, indent=2) if options.json else "\n".join(report(figures)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
