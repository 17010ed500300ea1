"""Made-up people with keys in areas: a frame of blocks, two levels above them, and districts across them."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.noise.ptables import PTable
from tests.kits.cellkey import GROUPS, KEYS, SCHEMA, people

BLOCKS = [f"{region}{town:02d}{block}" for region in "AB" for town in range(4) for block in "12"]
"""Codes of a region, a town and a block. Nobody lives in the last town."""
DISTRICTS = {code: ("", "d1", "d2")[at % 3] for at, code in enumerate(BLOCKS)}
GEOGRAPHY = """
[geography]
block = "block"
levels = [{ name = "country", digits = 0 }, { name = "region", digits = 1 }, { name = "town", digits = 3 }]
areas = [{ name = "district", column = "district" }]
"""
AREA_TABLES: tuple[tuple[str, list[str], list[str]], ...] = (
    ("sex-age", ["age:broad", "sex"], ["country", "region", "town", "district"]),
    ("age", ["sex", "age:broad"], ["town"]),
    ("work", ["work", "sex"], ["block", "region"]),
    ("adults", ["age:adults"], []),
)


def area_of(level: str, block: str) -> str | None:
    """The unit of a block, said again by hand."""
    if level == "country":
        return "all"
    if level == "district":
        return DISTRICTS[block] or None
    return block[: {"region": 1, "town": 3, "block": 4}[level]]


def people_in_blocks(number: int = 1_003) -> pa.Table:
    """The people of the town, each in a block of the frame; the last four blocks are empty."""
    draw = np.random.default_rng(11)
    return people(number).append_column("block", pa.array(draw.choice(BLOCKS[:-4], number)))


def write_areas(
    folder: Path,
    records: pa.Table | None = None,
    *,
    cellkey: str = 'D = 5\nV = "2"',
    data: str = "",
    tables: tuple[tuple[str, list[str], list[str]], ...] = AREA_TABLES,
    more: str = "",
    formats: str = '["parquet", "csv", "sdmx-csv"]',
    blocks: list[str] | None = None,
) -> Path:
    """Records, frame, schema and spec in a folder; returns the path of the spec."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(people_in_blocks() if records is None else records, folder / "town.parquet")
    (folder / "town.toml").write_text(SCHEMA)
    codes = BLOCKS if blocks is None else blocks
    frame = pa.table({"block": codes, "district": [DISTRICTS.get(code, "") for code in codes]})
    pyarrow.csv.write_csv(frame, folder / "blocks.csv")
    asked = "".join(
        f'\n[[tables]]\nname = "{name}"\nvariables = {json.dumps(variables)}\nlevels = {json.dumps(levels)}\n'
        for name, variables, levels in tables
    )
    (folder / "spec.toml").write_text(
        f'[release]\nname = "town"\nmechanism = "cellkey"\n[data]\nrecords = "town.parquet"\nschema = "town.toml"\n'
        f'blocks = "blocks.csv"\n{data}\n{GEOGRAPHY}\n[cellkey]\n{cellkey}\n{more}\n'
        f"[output]\nformats = {formats}\n{asked}"
    )
    return folder / "spec.toml"


def true_area_cells(records: pa.Table, variables: list[str], level: str) -> dict[tuple[str, ...], tuple[int, int]]:
    """Every occupied cell of a level, with all margins: its count, and the sum of its records' keys."""
    sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for record in records.to_pylist():
        area = area_of(level, record["block"])
        labels = [GROUPS[name](record[name.split(":")[0]]) for name in variables]
        for size in range(len(variables) + 1):
            for kept in combinations(range(len(variables)), size):
                cell = [labels[at] if at in kept else "_T" for at in range(len(variables))]
                if area is not None and None not in cell:
                    found = sums[(level, area, *cell)]  # type: ignore[arg-type]
                    found[0] += 1
                    found[1] += record["record_key"]
    return {cell: (count, key % KEYS) for cell, (count, key) in sums.items()}


def looked_up(ptable: PTable, count: int, key: int) -> int:
    """The published count of a cell, its noise looked for interval by interval."""
    row = ptable.rows[min(count, ptable.top)]
    return count + next(v for v, bound in zip(row.noise, row.bounds, strict=True) if key < bound)
