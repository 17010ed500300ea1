"""Tabulating person records into block histograms: our engine against DuckDB's own time for the same SQL.

``python -m benchmarks.tabulation [--persons N] [--rounds K] [--json]``. Rounds alternate between the two, so that a
busy machine slows both; the figure to trust is the ratio. 10^8 persons: ``--persons 100000000 --rounds 1``.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path

import duckdb

from confide.documents import load_schema
from confide.engines import LocalEngine, Source
from confide.engines.protocol import cell_index
from confide.inputs.records import column_expressions
from confide.lab.population import Population, write_population

MEMORY = "4GiB"
THREADS = 2
BLOCK = "geocode"


def main() -> None:
    """Prints one table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.persons, arguments.rounds)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{result['persons']:,} persons into (block, cell of 2,016) counts, {THREADS} threads, {MEMORY} for DuckDB")
    print(f"  Confide  {result['confide_seconds']:8.2f} s   {result['rows']:,} rows")
    print(f"  DuckDB   {result['duckdb_seconds']:8.2f} s   the same SQL")
    print(f"  ratio    {result['ratio']:8.2f}     (bar: at most 1.20)")
    print(f"  peak memory of the process {result['peak_gib']:.2f} GiB")


def measure(persons: int, rounds: int) -> dict[str, float]:
    """Median seconds of both, their ratio, and the peak resident memory."""
    with tempfile.TemporaryDirectory(prefix="confide-bench-") as name:
        folder = Path(name)
        source = Source(write_population(Population(persons, 7), folder).persons, "parquet")
        query = load_schema("pl94-persons", folder).query("hhgq*votingage*hispanic*cenrace")
        ours, theirs = [], []
        with LocalEngine(folder / "scratch", processes=THREADS, memory=MEMORY) as engine:
            attributes = [variable.attribute for variable in query.variables]
            columns = column_expressions(engine, source, attributes, BLOCK)
            keys = {"code": columns[BLOCK], "cell": cell_index(query, columns)}
            for _ in range(rounds):
                began = time.perf_counter()
                engine.count_by(source, keys, folder / "ours.parquet")
                ours.append(time.perf_counter() - began)
                theirs.append(_plain(source.path, keys, folder))
        rows = duckdb.sql(f"SELECT count(*) FROM read_parquet('{folder}/ours.parquet')").fetchall()[0][0]
    return {
        "persons": persons,
        "rows": rows,
        "confide_seconds": statistics.median(ours),
        "duckdb_seconds": statistics.median(theirs),
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def _plain(persons: Path, keys: dict[str, str], folder: Path) -> float:
    """The same counts by DuckDB alone, with the same threads and memory."""
    config = {"threads": THREADS, "memory_limit": MEMORY, "temp_directory": str(folder / "plain")}
    connection = duckdb.connect(config=config)
    text = (
        f"COPY (SELECT {keys['code']} AS code, {keys['cell']} AS cell, count(*) AS n FROM read_parquet('{persons}') "
        f"GROUP BY 1, 2) TO '{folder}/plain.parquet' (FORMAT parquet, COMPRESSION zstd)"
    )
    began = time.perf_counter()
    connection.execute(text)
    seconds = time.perf_counter() - began
    connection.close()
    return seconds


if __name__ == "__main__":
    main()
