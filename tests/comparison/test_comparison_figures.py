"""The programme and its tables: what they hold, counted again one by one."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.comparison import BLOCKS, DIGITS, areas, people, truth

from confide.comparison.figures import read_release, tabulate
from confide.comparison.programme import LEVELS, programme, schema_text
from confide.documents import load_shipped
from confide.errors import InputError
from confide.schema import parse_schema

PERSON = st.tuples(
    st.integers(0, 2), st.sampled_from([1, 2]), st.integers(0, 115), st.integers(0, 1), st.integers(0, 62)
)


def test_the_programme_has_the_cells_of_the_block_tables() -> None:
    made = programme()
    cells = {table.name: table.query.cells for table in made.tables}
    assert cells == {
        "population": 1,
        "age": 3,
        "race": 7,
        "origin": 2,
        "sex-by-age": 2 * 38,
        "origin-by-race": 2 * 63,
        "sex-by-age-by-race": 2 * 23 * 7,
        "sex-by-age-by-origin": 2 * 23 * 2,
    }
    assert made.cells == 629


@pytest.mark.parametrize("recode", ["p12", "broad"])
def test_age_groups_nest(recode: str) -> None:
    made = programme()
    coarse = made.schema.variable(f"agebin:{recode}")
    starts = {"p12": load_shipped("attacks", "age-bins")["sf1-p12"]["starts"], "broad": [0, 18, 65]}[recode]
    firsts = [made.ages.starts[min(group.codes)] for group in coarse.groups]
    assert firsts == starts
    assert sorted(code for group in coarse.groups for code in group.codes) == list(range(38))


def test_the_schema_file_reads_back_as_the_schema() -> None:
    made = programme()
    assert parse_schema(tomllib.loads(schema_text(made.document))).fingerprint == made.schema.fingerprint
    shipped = load_shipped("schemas", "persons")
    kept = shipped | {"attributes": {name: shipped["attributes"][name] for name in ("age", "hhgq")}}
    assert parse_schema(tomllib.loads(schema_text(kept))).fingerprint == parse_schema(kept).fingerprint


@settings(max_examples=25)
@given(st.lists(PERSON, min_size=1, max_size=25))
def test_tables_are_those_that_counting_gives(rows: list[tuple[int, int, int, int, int]]) -> None:
    made, found = programme(), tabulate(people(rows), areas(), programme())
    for table in made.tables:
        for level in LEVELS:
            expected: Counter[tuple[str, tuple[str, ...]]] = Counter()
            for block, sex, age, hispanic, race in rows:
                code = BLOCKS[block] if level == "block" else BLOCKS[block][: DIGITS[level]]
                own = {"sex": sex, "agebin": int(made.ages.of(np.array([age]))[0]), "hispanic": hispanic}
                own["cenrace"] = race
                labels = tuple(
                    next(group.label for group in variable.groups if own[variable.attribute.name] in group.codes)
                    for variable in table.query.variables
                )
                expected[code, labels] += 1
            counts = found.counts[level, table.name]
            assert counts.sum() == len(rows)
            for (unit, cell), number in np.ndenumerate(counts):
                if number:
                    places = np.unravel_index(cell, table.query.shape) if table.query.shape else ()
                    labels = tuple(v.labels[p] for v, p in zip(table.query.variables, places, strict=True))
                    assert expected[areas().codes[level][unit], labels] == number


def test_a_person_outside_of_the_frame_is_a_finding_without_a_value() -> None:
    wrong = people().set_column(1, "geocode", pa.array(["999990000000000", *[BLOCKS[0]] * 5]))
    with pytest.raises(InputError) as caught:
        tabulate(wrong, areas(), programme())
    assert caught.value.findings[0].code == "unknown-code"
    assert "99999" not in str(caught.value)


def test_a_released_table_is_read_without_margins_and_in_any_order(tmp_path: Path) -> None:
    made = programme()
    table = made.table("sex-by-age-by-origin")
    rows = [
        ("block", BLOCKS[2], "female", "18-19", "not Hispanic", 1),
        ("block", BLOCKS[0], "male", "5-9", "not Hispanic", 4),
        ("block", BLOCKS[0], "all", "5-9", "not Hispanic", 9),
        ("state", "90", "male", "5-9", "not Hispanic", 99),
        ("county", "90001", "male", "5-9", "Hispanic", None),
    ]
    names = ["level", "area", "sex", "agebin", "hispanic", "count"]
    content = pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})
    pq.write_table(content, tmp_path / "t.parquet")
    found = read_release(tmp_path / "t.parquet", table, areas())
    counts, listed = found["block"]
    assert counts.sum() == 5
    assert listed.sum() == 2
    assert counts[0].max() == 4
    assert counts[2].max() == 1
    assert not found["county"][1].any()  # listed without a figure: not published
    assert np.array_equal(np.array(truth().counts["block", table.name]).sum(axis=1), [3, 1, 2])
