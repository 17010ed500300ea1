"""Columns of the block table that count the records are refused before they are published; public ones are not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.topdown import charges, rows_of, sql, write_small_state, write_spec

from confide import api
from confide.errors import CONFIDENTIAL
from confide.mechanisms.topdown.records import agrees_nearly_everywhere

CODE = "frame-tells-records"
QUARTERS = [f"gq{number}" for number in range(1, 8)]
STUDENTS = 5
"""The type of quarters of the made-up people: college housing."""


def numbers(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([*values, *[0] * 50], np.int64)


@pytest.mark.parametrize(
    ("column", "records", "telling"),
    [
        (numbers(120, 35, 2, 7), numbers(120, 35, 2, 7), True),
        (numbers(250), numbers(250), True),  # one prison, and its very number
        (numbers(8), numbers(8), True),
        (numbers(7), numbers(7), False),  # may be chance
        (numbers(2, 3), numbers(2, 3), False),
        (numbers(2, 3, 2), numbers(2, 3, 2), True),
        (numbers(), numbers(), False),
        (numbers(*[1] * 40), numbers(*[1] * 40), False),  # presence, and no more
        (numbers(*[1] * 40), numbers(*range(1, 41)), False),
        (numbers(1, 2, 1, 3), numbers(120, 35, 2, 70), False),  # facilities
        (numbers(130, 40, 8, 10), numbers(120, 35, 2, 7), False),  # beds
        (numbers(130, 40, 8, 7), numbers(120, 35, 2, 7), False),  # beds, one house of them full
        (numbers(*range(10, 18), 90, 90), numbers(*range(10, 18), 1, 2), True),  # 8 of 10
        (numbers(*range(10, 17), 90, 90, 90), numbers(*range(10, 17), 1, 2, 3), False),  # 7 of 10
        (numbers(12, 15, 0, 0), numbers(12, 15, 9, 9), False),  # records that the column knows nothing of
    ],
)
def test_nearly_everywhere_is_among_blocks_with_more_than_presence(column: Any, records: Any, telling: bool) -> None:
    assert agrees_nearly_everywhere(column, records) is telling


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up people of whom some live in quarters, and a block table that counts facilities."""
    folder = write_small_state(tmp_path_factory.mktemp("state"), 1_200, 3)
    people = pq.read_table(folder / "persons.parquet")
    blocks = pq.read_table(folder / "blocks.parquet")
    chosen = blocks.column("geocode").to_pylist()[:10]
    type_of = people.column("hhgq").to_pylist()
    adult = people.column("votingage").to_pylist()
    homes = people.column("geocode").to_pylist()
    type_of = [
        STUDENTS if home in chosen and grown else kind for home, grown, kind in zip(homes, adult, type_of, strict=True)
    ]
    put(folder / "persons.parquet", "hhgq", type_of)
    lived_in = {(home, kind) for home, kind in zip(homes, type_of, strict=True)}
    for number, name in enumerate(QUARTERS, 1):
        there = [int((block, number) in lived_in) for block in blocks.column("geocode").to_pylist()]
        put(folder / "blocks.parquet", name, there)
    return folder


def put(file: Path, name: str, values: list[int]) -> None:
    table = pq.read_table(file)
    column = pa.array(values, table.schema.field(name).type)
    pq.write_table(table.set_column(table.column_names.index(name), name, column), file)


def persons_by_block(folder: Path, kind: int) -> list[int]:
    counted = dict(
        sql(f"SELECT geocode, count(*) FROM {rows_of(folder / 'persons.parquet')} WHERE hhgq = {kind} GROUP BY 1")
    )
    return [counted.get(code, 0) for code in pq.read_table(folder / "blocks.parquet").column("geocode").to_pylist()]


@pytest.fixture
def project(state: Path, tmp_path: Path) -> Path:
    for name in ("persons.parquet", "blocks.parquet"):
        shutil.copy(state / name, tmp_path)
    write_spec(tmp_path, spine="plain")
    return tmp_path


def errors(project: Path) -> list[Any]:
    return list(api.check(project / "spec.toml", processes=1).errors)


def test_a_column_that_counts_persons_is_refused_with_the_remedy(project: Path) -> None:
    assert errors(project) == []
    counts = persons_by_block(project, STUDENTS)
    assert max(counts) >= 8
    put(project / "blocks.parquet", "gq5", counts)
    (finding,) = errors(project)
    assert (finding.code, finding.where.column, finding.found) == (CODE, "gq5", CONFIDENTIAL)
    assert "presence = ['gq5']" in finding.remedy
    told = json.dumps(finding.as_dict()).replace("gq5", "").replace("blocks.parquet", "")
    assert not re.search(r"\d", told), "no number of records, blocks or agreements is shown"
    assert charges(project) == ["open"]
    # The remedy is one: then only zeros and ones are used and published.
    spec = project / "spec.toml"
    spec.write_text(spec.read_text().replace("[data]\n", "[data]\npresence = ['gq5']\n", 1))
    assert errors(project) == []


def test_a_column_that_is_right_but_for_a_block_is_refused_all_the_same(project: Path) -> None:
    counts = persons_by_block(project, STUDENTS)
    counts[counts.index(max(counts))] += 1
    put(project / "blocks.parquet", "gq5", counts)
    assert [finding.code for finding in errors(project)] == [CODE]


def test_the_capacity_of_quarters_is_public(project: Path) -> None:
    counts = persons_by_block(project, STUDENTS)
    put(
        project / "blocks.parquet", "gq5", [-(-number // 5) for number in counts]
    )  # rooms of five, some with an empty bed
    assert errors(project) == []


def test_a_column_that_counts_everybody_is_refused(project: Path) -> None:
    """It bounds households alone, and tells the population of every block."""
    people = dict(sql(f"SELECT geocode, count(*) FROM {rows_of(project / 'persons.parquet')} GROUP BY 1"))
    blocks = pq.read_table(project / "blocks.parquet").column("geocode").to_pylist()
    put(project / "blocks.parquet", "housing_units", [people.get(code, 0) for code in blocks])
    (finding,) = errors(project)
    assert (finding.code, finding.where.column) == (CODE, "housing_units")
    assert "of all kinds" in finding.what


def test_what_the_file_calls_the_column_is_named(project: Path) -> None:
    table = pq.read_table(project / "blocks.parquet")
    put(project / "blocks.parquet", "gq5", persons_by_block(project, STUDENTS))
    table = pq.read_table(project / "blocks.parquet")
    pq.write_table(table.rename_columns({"gq5": "dormitories"}), project / "blocks.parquet")
    spec = project / "spec.toml"
    spec.write_text(spec.read_text().replace("[data]\n", '[data]\nblock_columns = { gq5 = "dormitories" }\n', 1))
    (finding,) = errors(project)
    assert (finding.code, finding.where.column) == (CODE, "dormitories")
