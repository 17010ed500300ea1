"""The EU census programme by the cell key method: tables of made-up persons with all margins."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide import api
from confide.documents import load_schema
from confide.lab.population import EuFiles, write_eu
from confide.lab.population.settings import load_eu_settings, programme_tables, render_tables
from confide.mechanisms.cellkey.keys import draw_keys
from confide.noise import ReleaseKey
from confide.schema import Query

KEYS, LARGEST = 10**8, 5
TOTAL = "_T"
TABLES = programme_tables(load_eu_settings())
SPEC = f"""
[release]
name = "eu"
mechanism = "cellkey"
[data]
records = "keyed.parquet"
schema = "schema.toml"
[cellkey]
D = {LARGEST}
V = 2
keys = {KEYS}
[output]
formats = ["parquet"]
"""
SOME = ("t1-4", "t2-2", "t6-3", "t8-1", "t15-4", "t17-2", "t31-3")


def lay_out(folder: Path, persons: int, every: int = 1) -> EuFiles:
    """Records with keys that anybody could know, and the spec of some of the tables."""
    files = write_eu(folder, persons, seed=7)
    keys = draw_keys(persons, KEYS, ReleaseKey.choose("17" * 32))
    pq.write_table(pq.read_table(files.records).append_column("record_key", pa.array(keys)), folder / "keyed.parquet")
    chosen = {name: tables for at, (name, tables) in enumerate(TABLES.items()) if at % every == 0 or name in SOME}
    (folder / "spec.toml").write_text(SPEC + render_tables(chosen))
    return files


def tables_of(folder: Path) -> dict[str, Query]:
    """The tables of a spec, as queries."""
    schema = load_schema("schema.toml", folder)
    tables = tomllib.loads((folder / "spec.toml").read_text())["tables"]
    return {table["name"]: schema.query("*".join(table["variables"])) for table in tables}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> EuFiles:
    return lay_out(tmp_path_factory.mktemp("eu"), 2_000, every=6)


@pytest.fixture(scope="module")
def release(files: EuFiles) -> Path:
    return api.run(files.records.parent / "spec.toml").release


def table_file(release: Path, name: str) -> Path:
    (file,) = release.rglob(f"{name}.parquet")
    return file


def rows(release: Path, name: str, query: Query) -> list[tuple[dict[str, str], int]]:
    """The rows of a table: for each variable that is not summed over its label, and the count."""
    table = pq.read_table(table_file(release, name))
    variables = {variable.attribute.name: variable.name for variable in query.variables}
    columns = {variables[name]: table.column(name).to_pylist() for name in table.column_names if name in variables}
    labels = [
        {name: label for name, label in zip(columns, row, strict=True) if label != TOTAL}
        for row in zip(*columns.values(), strict=True)
    ]
    return list(zip(labels, table.column("count").to_pylist(), strict=True))


def true_counts(files: EuFiles, query: Query) -> Counter[Any]:
    """Counts of a table and all its margins, taken one person at a time."""
    people = pq.read_table(files.records)
    columns = []
    for variable in query.variables:
        group = variable.assignment[[variable.attribute.index[code] for code in column(people, variable)]]
        columns.append([(variable.name, variable.labels[each]) for each in group])
    counts: Counter[Any] = Counter()
    for person in zip(*columns, strict=True):
        for kept in range(1 << len(person)):
            counts[frozenset(label for at, label in enumerate(person) if kept >> at & 1)] += 1
    return counts


def column(people: pa.Table, variable: Any) -> list[str]:
    return list(people.column(variable.attribute.name).to_pylist())


def check_agreement(release: Path, tables: dict[str, Query]) -> tuple[int, int]:
    """Every margin is in every table that has it, with the same figures. How many there are, and how many distinct."""
    seen: dict[frozenset[str], dict[frozenset[tuple[str, str]], int]] = {}
    margins = 0
    for name, query in tables.items():
        mine: dict[frozenset[str], dict[frozenset[tuple[str, str]], int]] = {}
        for labels, count in rows(release, name, query):
            assert count > 0
            mine.setdefault(frozenset(labels), {})[frozenset(labels.items())] = count
        assert len(mine) == 2 ** len(query.variables)
        for variables, cells in mine.items():
            margins += 1
            assert seen.setdefault(variables, cells) == cells
    return margins, len(seen)


def test_tables_agree_where_they_overlap(release: Path, files: EuFiles) -> None:
    tables = tables_of(files.records.parent)
    margins, distinct = check_agreement(release, tables)
    assert distinct == len({frozenset(margin.variables) for query in tables.values() for margin in query.margins()})
    assert distinct < 0.8 * margins


@pytest.mark.parametrize("name", SOME)
def test_counts_are_near_the_truth_and_nobody_stays_nobody(release: Path, files: EuFiles, name: str) -> None:
    query = tables_of(files.records.parent)[name]
    truth = true_counts(files, query)
    published = {frozenset(labels.items()): count for labels, count in rows(release, name, query)}
    assert published.keys() <= truth.keys()
    noise = np.array([published.get(cell, 0) - count for cell, count in truth.items()])
    assert np.abs(noise).max() <= LARGEST
    assert (noise != 0).mean() > 0.5
    assert len(set(noise.tolist())) > 5


@pytest.mark.slow
def test_the_order_of_records_changes_no_byte(release: Path, files: EuFiles, tmp_path: Path) -> None:
    folder = files.records.parent
    keyed = pq.read_table(folder / "keyed.parquet")
    shuffled = keyed.take(pa.array(np.random.default_rng(1).permutation(keyed.num_rows)))
    pq.write_table(shuffled, tmp_path / "keyed.parquet")
    for name in ("schema.toml", "spec.toml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    again = api.run(tmp_path / "spec.toml").release
    for name in tables_of(folder):
        assert table_file(again, name).read_bytes() == table_file(release, name).read_bytes()


@pytest.mark.process
@pytest.mark.slow
def test_a_million_persons_within_two_minutes_and_four_gib(tmp_path: Path) -> None:
    lay_out(tmp_path, 1_000_000)
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "confide", "run", "spec.toml"], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert time.perf_counter() - begin < 120
    assert usage.ru_maxrss < 4 * 2**20
    margins = check_agreement(tmp_path / "eu" / "release", tables_of(tmp_path))
    assert margins == (3_432, 1_244)  # Bach (2020), Annex B, by the plain rule
