"""Made-up people with keys, a schema and a spec over them; the method once more, cell by cell; and a forger's tools."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import confide
from confide import api
from confide.engines import LocalEngine
from confide.mechanisms import MECHANISMS
from confide.mechanisms.cellkey.keys import draw_keys
from confide.mechanisms.cellkey.mechanism import CellKey
from confide.mechanisms.cellkey.programme import CellKeyProblem
from confide.noise import ReleaseKey
from confide.noise.ptables import PTable
from tests.kits.forged import remake
from tests.kits.labelled import coded, observations, read_labelled

SECRET = ReleaseKey.choose("2d" * 32)
KEYS = 10**8

SCHEMA = """
id = "town"
provenance = "made up for tests"

[attributes.quarter]
title = "quarter of the town"
levels = [["N", 'north, the "old" one'], ["S", "south"], ["W", "west"]]

[attributes.sex]
title = "sex"
levels = [[1, "men"], [2, "women"]]

[attributes.age]
title = "age"
range = [0, 79]

[attributes.age.recodes.broad]
starts = [0, 20, 40, 60]

[attributes.age.recodes.adults]
groups = { "18 to 39" = "18..39", "40 and over" = "40..79" }

[attributes.work]
title = "work"
levels = [["a", "works"], ["b", "looks for work"], ["c", "neither"], ["z", "nobody says this"]]

[attributes.work.recodes.said]
groups = { "works" = "a", "looks for work" = "b", "neither" = "c" }
"""

TABLES = (
    ("place-age", ["quarter", "sex", "age:broad"]),
    ("work", ["sex", "work"]),
    ("work-said", ["sex", "work:said"]),
    ("adults", ["quarter", "age:adults"]),
)
GROUPS: dict[str, Callable[[Any], str | None]] = {
    "quarter": lambda code: {"N": 'north, the "old" one', "S": "south", "W": "west"}[code],
    "sex": lambda code: {1: "men", 2: "women"}[code],
    "age:broad": lambda age: ["0 to 19", "20 to 39", "40 to 59", "60 and over"][age // 20],
    "age:adults": lambda age: None if age < 18 else "18 to 39" if age < 40 else "40 and over",
    "work": lambda code: {"a": "works", "b": "looks for work", "c": "neither"}[code],
    "work:said": lambda code: {"a": "works", "b": "looks for work", "c": "neither"}[code],
}
"""The groups of the schema, said again by hand."""


def people(number: int = 2_003, seed: int = 7) -> pa.Table:
    """Made-up people with keys and weights. Looking for work is rare, and nobody is of the last kind of work."""
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "quarter": draw.choice(["N", "S", "W"], number, p=[0.6, 0.39, 0.01]),
            "sex": draw.integers(1, 3, number),
            "age": draw.integers(0, 80, number),
            "work": draw.choice(["a", "b", "c"], number, p=[0.6, 0.005, 0.395]),
            "record_key": draw_keys(number, KEYS, SECRET),
            "weight": pa.array([f"{part // 1000}.{part % 1000:03d}" for part in draw.integers(0, 4000, number)]),
        }
    )


def write_project(
    folder: Path,
    records: pa.Table | None = None,
    *,
    cellkey: str = 'D = 5\nV = "2"',
    data: str = "",
    tables: tuple[tuple[str, list[str]], ...] = TABLES,
    margins: str = "all",
    output: str = 'formats = ["parquet", "csv", "sdmx-csv"]',
    schema: str = SCHEMA,
) -> Path:
    """Records, schema and spec in a folder; returns the path of the spec."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(people() if records is None else records, folder / "town.parquet")
    (folder / "town.toml").write_text(schema)
    asked = "".join(
        f'\n[[tables]]\nname = "{name}"\nvariables = {json.dumps(variables)}\nmargins = "{margins}"\n'
        for name, variables in tables
    )
    (folder / "spec.toml").write_text(
        f'[release]\nname = "town"\nmechanism = "cellkey"\ntitle = "The town"\n'
        f'[data]\nrecords = "town.parquet"\nschema = "town.toml"\n{data}\n'
        f"[cellkey]\n{cellkey}\n[output]\n{output}\n{asked}"
    )
    return folder / "spec.toml"


def release_of(folder: Path, records: pa.Table | None = None, **changes: Any) -> Path:
    """The release of a new project."""
    return confide.run(write_project(folder, records, **changes), processes=1).release


def question_of(spec: Path, scratch: Path) -> CellKeyProblem:
    """What the mechanism makes of a spec."""
    with LocalEngine(scratch, processes=1) as engine:
        return CellKey().prepare(api.load(spec), engine)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def figures(release: Path, name: str) -> dict[tuple[str, ...], int]:
    """The published counts of a table by their labels."""
    table = read_labelled(release / f"tables/{name}.parquet")
    *labels, counts = (
        column.to_pylist()
        for column in table.drop_columns([c for c in ["weighted"] if c in table.column_names]).columns
    )
    return {cell[:-1]: cell[-1] for cell in zip(*labels, counts, strict=True)}


@dataclass(frozen=True)
class Cell:
    """A cell with the sums over its members, as whole numbers without a limit."""

    count: int
    key: int
    weight: Fraction


def true_cells(records: pa.Table, variables: list[str]) -> dict[tuple[str, ...], Cell]:
    """Every occupied cell of a table and its margins, one record after the other; ``_T`` for what is summed over."""
    sums: dict[tuple[str, ...], list[Any]] = defaultdict(lambda: [0, 0, Fraction(0)])
    for record in records.to_pylist():
        labels = [GROUPS[name](record[name.split(":")[0]]) for name in variables]
        for chosen in (
            kept for size in range(len(variables) + 1) for kept in combinations(range(len(variables)), size)
        ):
            cell = tuple(labels[at] if at in chosen else "_T" for at in range(len(variables)))
            if None in cell:
                continue
            found = sums[cell]  # type: ignore[index]
            found[0] += 1
            found[1] += record["record_key"]
            found[2] += Fraction(record["weight"])
    return {cell: Cell(*found) for cell, found in sums.items()}


def noise_of(ptable: PTable, cell: Cell) -> int:
    """The noise of a cell, looked for interval by interval."""
    row = ptable.rows[min(cell.count, ptable.top)]
    return next(v for v, bound in zip(row.noise, row.bounds, strict=True) if cell.key % ptable.modulus < bound)


def expected_figures(
    cells: Mapping[tuple[str, ...], Cell], ptable: PTable, threshold: int = 0
) -> dict[tuple[str, ...], tuple[int, Fraction]]:
    """What is to be published: counts, and weighted figures to the nearest multiple of D + 1, by way of millionths."""
    result, step = {}, 10**6 * (int(ptable.largest_noise) + 1)
    for labels, cell in cells.items():
        published = cell.count + noise_of(ptable, cell)
        if published and published >= threshold:
            exact = published * cell.weight / cell.count
            millionths = floor(exact * 10**6 + Fraction(1, 2))
            result[labels] = published, Fraction(floor(Fraction(millionths, step) + Fraction(1, 2)) * step, 10**6)
    return result


Change = Callable[[pa.Table], pa.Table]


def paths(release: Path, name: str) -> Iterator[tuple[str, Path]]:
    """The files of a table by format."""
    for format_, place in (("parquet", "tables"), ("csv", "tables"), ("sdmx-csv", "sdmx")):
        path = release / place / f"{name}.{format_.removeprefix('sdmx-')}"
        if path.exists():
            yield format_, path


def forge(release: Path, *formats: str, **changes: Change) -> None:
    """Changes tables (by name, _ for -), in all formats or in some, and corrects the hashes in the manifest."""
    for name, change in changes.items():
        name = name.replace("_", "-")
        table = change(read_labelled(release / f"tables/{name}.parquet"))
        manifest = json.loads((release / "manifest.json").read_text())
        codebook = MECHANISMS["cellkey"].explain.codebook(manifest)
        assert codebook is not None
        described = next(each for each in codebook.tables if each.name == name)
        metadata = pq.read_schema(release / f"tables/{name}.parquet").metadata
        for format_, path in paths(release, name):
            if formats and format_ not in formats:
                continue
            if format_ == "parquet":
                pq.write_table(_described(coded(table, described), path, metadata), path)
            elif format_ == "csv":
                pyarrow.csv.write_csv(coded(table, described), path)
            else:
                pyarrow.csv.write_csv(observations(table, described), path)
    remake(release)


def _described(table: pa.Table, path: Path, metadata: dict[bytes, bytes]) -> pa.Table:
    """With the descriptions of columns that the file had."""
    before = pq.read_schema(path)
    fields = [
        field.with_metadata(before.field(field.name).metadata) if field.name in before.names else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=metadata))


def with_count(table: pa.Table, row: int, count: int) -> pa.Table:
    """The table with another count in one row."""
    counts = table.column("count").to_pylist()
    counts[row] = count
    return table.set_column(
        table.column_names.index("count"), table.schema.field("count"), pa.array(counts, pa.int64())
    )
