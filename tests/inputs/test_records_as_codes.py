"""Records as numbers of levels, and what is said of those that do not fit, without a value of theirs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from confide.documents import parse_schema
from confide.engines import Engine, LocalEngine, Source
from confide.errors import CONFIDENTIAL
from confide.inputs.records import (
    MOST_BRANCHES,
    bad_record,
    check_codes,
    check_columns,
    code_expressions,
    count_rows,
    integer_expression,
    records_fingerprint,
)
from confide.schema import Attribute

PLACES = [[f"p{number:03d}", f"Place {number}"] for number in range(MOST_BRANCHES + 1)]
SCHEMA = parse_schema(
    {
        "id": "small",
        "provenance": "a test",
        "attributes": {
            "sex": {"title": "Sex", "levels": [["m", "Male"], ["f", "Female"]]},
            "age": {"title": "Age", "range": [0, 99]},
            "place": {"title": "Place", "levels": PLACES},
        },
    }
)
ATTRIBUTES: tuple[Attribute, ...] = SCHEMA.attributes


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with LocalEngine(tmp_path / "scratch", processes=1) as local:
        yield local


def source(folder: Path, ending: str = "parquet", **columns: list[Any]) -> Source:
    """Two records, with other columns if asked for; our age is their ``years``."""
    values = {"sex": ["f", "m"], "years": [30, 7], "place": ["p050", "p000"]} | columns
    path = folder / f"records.{ending}"
    if ending == "csv":
        pyarrow.csv.write_csv(pa.table(values), path)
        return Source(path, "csv", {"age": "years"})
    pq.write_table(pa.table(values), path)
    return Source(path, "parquet", {"age": "years"})


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_records_become_numbers_of_levels(engine: Engine, tmp_path: Path, ending: str, listed: bool) -> None:
    records = source(tmp_path, ending)
    read = code_expressions(engine, records, ATTRIBUTES, listed=listed)
    assert ("VALUES" in read["place"]) == listed
    text = ", ".join(f"{expression} AS {name}" for name, expression in read.items())
    rows = engine.sql(f"SELECT {text} FROM records", records=records).reveal("a test").to_pylist()
    assert rows == [{"sex": 1, "age": 30, "place": 50}, {"sex": 0, "age": 7, "place": 0}]
    assert check_codes(engine, records, ATTRIBUTES) == []


@pytest.mark.parametrize(
    ("columns", "column", "row"),
    [({"sex": ["f", "x"]}, "sex", 2), ({"years": [100, 7]}, "years", 1), ({"place": ["p050", None]}, "place", 2)],
)
def test_a_code_that_is_not_in_the_schema_is_found_and_not_shown(
    engine: Engine, tmp_path: Path, columns: dict[str, list[Any]], column: str, row: int
) -> None:
    (finding,) = check_codes(engine, source(tmp_path, **columns), ATTRIBUTES)
    assert (finding.code, finding.where.column, finding.where.row) == ("bad-record", column, row)
    assert finding.found == CONFIDENTIAL
    assert "a code is not in the schema (1 record; the first such rows:" in finding.what


def test_columns_are_looked_at_before_records(engine: Engine, tmp_path: Path) -> None:
    (finding,) = check_codes(engine, source(tmp_path, years=[0.5, 7.0]), ATTRIBUTES)
    assert (finding.code, finding.where.column, finding.expected) == ("column-type", "years", "whole numbers")
    records = source(tmp_path)
    assert check_columns(engine, records, ATTRIBUTES, None) == []
    (missing,) = check_columns(engine, records, ATTRIBUTES, "block")
    assert missing.where.column == "block"
    assert check_codes(engine, records, ()) == []


def test_a_number_that_is_none_is_missing(engine: Engine, tmp_path: Path) -> None:
    records = source(tmp_path, "csv", years=["30", "thirty"])
    value = integer_expression(engine, records, "age")
    rows = engine.sql(f"SELECT {value} AS age FROM records", records=records).reveal("a test").to_pylist()
    assert rows == [{"age": 30}, {"age": None}]


def test_one_scan_counts_rows_and_rules(engine: Engine, tmp_path: Path) -> None:
    records = source(tmp_path)
    rules, others = ["years > 20", "years > 50"], ["max(years)"]
    assert count_rows(engine, records, rules, others) == (2, [True, False], [30])
    pq.write_table(pq.read_table(records.path).slice(0, 0), records.path)
    assert count_rows(engine, records, rules) == (0, [False, False], [])


def test_rows_are_named_and_values_are_not(tmp_path: Path) -> None:
    finding = bad_record("bad-record/weight", source(tmp_path), "age", [1200, 1300])
    assert finding.what == "a weight is not positive (the first such rows: 1,200, 1,300)"
    assert (finding.code, finding.where.column, finding.where.row) == ("bad-record", "years", 1200)
    assert (finding.found, finding.expected) == (CONFIDENTIAL, "more than zero")


def test_any_byte_of_the_records_changes_their_fingerprint(tmp_path: Path) -> None:
    """The noise is bound to it, so that no two files may share one: not even large ones that differ at their end."""
    file, content = tmp_path / "records.csv", bytearray(5 << 20)
    fingerprints = []
    for place in (None, 0, 2_000, (4 << 20) + 1, len(content) - 1):
        changed = bytearray(content)
        if place is not None:
            changed[place] ^= 1
        file.write_bytes(changed)
        fingerprints.append(records_fingerprint(file))
    assert len(set(fingerprints)) == len(fingerprints)
    assert fingerprints[0] == hashlib.sha256(b"confide/records/v1" + content).hexdigest()
