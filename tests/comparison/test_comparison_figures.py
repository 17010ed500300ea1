"""The programme and its tables: what they hold, counted again one by one."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.comparison import BLOCKS, DIGITS, areas, people, truth

from confide.documents import load_shipped, parse_schema, schema_text
from confide.errors import InputError
from confide.lab.comparison.common_tables import common_tables
from confide.lab.comparison.figures import counts_by_area, tabulate
from confide.lab.published.marginals import Published

PERSON = st.tuples(
    st.integers(0, 2), st.sampled_from([1, 2]), st.integers(0, 115), st.integers(0, 1), st.integers(0, 62)
)


def test_the_programme_has_the_cells_of_the_block_tables() -> None:
    made = common_tables()
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
    made = common_tables()
    coarse = made.schema.variable(f"agebin:{recode}")
    starts = {"p12": load_shipped("attacks", "age-bins")["sf1-p12"]["starts"], "broad": [0, 18, 65]}[recode]
    firsts = [made.ages.starts[min(group.codes)] for group in coarse.groups]
    assert firsts == starts
    assert sorted(code for group in coarse.groups for code in group.codes) == list(range(38))


def test_the_schema_file_reads_back_as_the_schema() -> None:
    made = common_tables()
    assert parse_schema(tomllib.loads(schema_text(made.document))).fingerprint == made.schema.fingerprint
    shipped = load_shipped("schemas", "persons")
    kept = shipped | {"attributes": {name: shipped["attributes"][name] for name in ("age", "hhgq")}}
    assert parse_schema(tomllib.loads(schema_text(kept))).fingerprint == parse_schema(kept).fingerprint


@settings(max_examples=25)
@given(st.lists(PERSON, min_size=1, max_size=25))
def test_tables_are_those_that_counting_gives(rows: list[tuple[int, int, int, int, int]]) -> None:
    made, found = common_tables(), tabulate(people(rows), areas(), common_tables())
    for table in made.tables:
        for level in common_tables().levels:
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
        tabulate(wrong, areas(), common_tables())
    assert caught.value.findings[0].code == "unknown-code"
    assert "99999" not in str(caught.value)


def test_a_release_by_area_is_read_level_by_level() -> None:
    programme, table = common_tables(), common_tables().table("sex-by-age-by-origin")
    labels = {"sex": ["female", "male"], "agebin": ["18-19", "5-9"], "hispanic": ["not Hispanic"] * 2, "count": [1, 4]}
    rows = {"geocode": [BLOCKS[2], BLOCKS[0]]} | labels
    found = Published.from_tables({"*".join(table.variables): rows}, programme.schema, area="geocode")
    named = replace(found, marginals=tuple(replace(marginal, table=table.name) for marginal in found.marginals))
    only = replace(programme, tables=(table,))
    counts = {level: matrix for (level, _), matrix in counts_by_area(named, areas(), only).items()}
    assert counts["block"].shape == (3, table.query.cells)
    assert counts["block"].sum(axis=1).tolist() == [4, 0, 1]
    assert counts["tract"].sum(axis=1).tolist() == [4, 1]
    assert counts["county"].sum() == 5


def test_released_records_give_every_table() -> None:
    records = people()
    query = "*".join(attribute.name for attribute in common_tables().schema.attributes)
    counted = records.group_by(["geocode", "sex", "agebin", "hispanic", "cenrace"]).aggregate([([], "count_all")])
    rows = counted.rename_columns(["geocode", "sex", "agebin", "hispanic", "cenrace", "count"])
    published = Published.from_tables({query: rows}, common_tables().schema, area="geocode")
    counts = counts_by_area(published, areas(), common_tables())
    assert set(counts) == set(truth().counts)
    assert all(np.array_equal(counts[key], matrix) for key, matrix in truth().counts.items())
