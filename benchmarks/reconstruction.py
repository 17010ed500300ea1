"""Reconstruction of blocks from tables of Summary File 1: ``python -m benchmarks.reconstruction [--blocks N]``.

Made-up people in 1,000 blocks, 30 in each on average, large and small as they come; their 34 person tables; the attack
with solution variability, block by block and tract by tract. The bar: 60 s on two cores. Everything is written to a
folder that is removed at the end.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.lab.attacks.reconstruction import Reconstruction, read_tables, reconstruct, write_sf1_tables
from confide.lab.population import Population, write_population

BLOCKS, PEOPLE, SEED, CORES, SECONDS = 1_000, 30_000, 7, 2, 60


def some_people(folder: Path, blocks: int, people: int, seed: int = SEED) -> pa.Table:
    """People of so many blocks: whole households of made-up people, thinned to the wanted number on average."""
    write_population(Population(max(1_000, 80 * blocks), seed), folder)
    table = pq.read_table(folder / "persons.parquet")
    codes = table.column("geocode").to_numpy(zero_copy_only=False)
    rng = np.random.default_rng(seed)
    chosen = np.unique(codes)[:blocks]
    there = np.flatnonzero(np.isin(codes, chosen))
    household = table.column("household_id").to_numpy()[there]
    first = np.concatenate([np.flatnonzero(codes[there] == code)[:1] for code in chosen])
    kept = rng.random(int(household.max()) + 1) < people / len(there)
    kept[household[first]] = True  # every block keeps a household
    return table.take(pa.array(there[kept[household]]))


def measure(blocks: int, people: int, processes: int, level: str = "block") -> Reconstruction:
    """One attack on made-up people; its ``seconds`` are the attack's, with the start of processes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sf1_tables(some_people(folder, blocks, people), folder / "tables")
        began = time.perf_counter()
        published = read_tables(folder / "tables")
        print(f"  reading 34 tables {time.perf_counter() - began:.1f} s")
        return reconstruct(published, level=level, processes=processes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--processes", type=int, default=CORES)
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for level in ("block", "tract"):
        found = measure(options.blocks, options.people, options.processes, level)
        result = found.as_dict()
        print(
            f"by {level}: {result['blocks']:,} blocks, {found.persons:,} people in {found.seconds:.1f} s of {SECONDS}; "
            f"one solution in {result['share_of_blocks_at_0']:.1%} of blocks, mean variability {found.mean:.1f} %, "
            f"{len(result['bounds'])} not proven"
        )


if __name__ == "__main__":
    main()
