"""Codes packed into numbers, groups with anybody in them, and noise by span: each against the plain way."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.mechanisms.safetab.measure import DENSE, OccupiedGroups, noise_at
from confide.mechanisms.safetab.records import CODE_COLUMNS, NULL
from confide.mechanisms.safetab.settings import AGE_23, GRIDS, Grid
from confide.mechanisms.safetab.tabulate import key_expressions, unpack
from confide.noise import DiscreteGaussian, NoiseStream, draw_at

CODES = st.integers(1000, 9999).map(str)
PERSON = st.tuples(*([st.one_of(CODES, st.just(NULL))] * 8), CODES)
STREAM = NoiseStream(bytes(range(32)), bytes(range(32, 64)))


def packed(rows: list[tuple[str, ...]], most: int) -> pa.Table:
    persons = pa.table({name: list(column) for name, column in zip(CODE_COLUMNS, zip(*rows, strict=True), strict=True)})
    selected = ", ".join(f"{expression} AS {name}" for name, expression in key_expressions(most).items())
    connection = duckdb.connect()
    connection.register("persons", persons)
    return connection.sql(f"SELECT {selected} FROM persons").to_arrow_table()


@settings(max_examples=40, deadline=None)
@given(st.lists(PERSON, min_size=1, max_size=6), st.integers(1, 8))
def test_codes_come_out_of_keys_as_they_went_in(rows: list[tuple[str, ...]], most: int) -> None:
    counted = [(*row[:most], *[NULL] * (8 - most), row[8]) for row in rows]
    found = unpack(packed(rows, most), most)
    assert found.column_names == list(CODE_COLUMNS)
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == counted


def test_the_largest_codes_fit() -> None:
    row = ("9999",) * 9
    keys = packed([row], 8)
    assert keys.to_pylist() == [{"key_0": 10**16 - 1, "key_1": 10**16 - 1, "key_2": 9999}]


@st.composite
def counts(draw: st.DrawFn) -> dict[tuple[int, int], int]:
    """A count for some groups and cells."""
    keys = st.tuples(st.integers(0, 30), st.integers(0, AGE_23.cells - 1))
    return draw(st.dictionaries(keys, st.integers(1, 1 << 40), max_size=40))


def occupied(truth: dict[tuple[int, int], int]) -> OccupiedGroups:
    rows = sorted((group, cell, n) for (group, cell), n in truth.items())
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    names = ("group", "cell", "n")
    return OccupiedGroups.read(
        pa.table({name: pa.array(each, pa.int64()) for name, each in zip(names, columns, strict=True)})
    )


@settings(max_examples=100, deadline=None)
@given(counts(), st.lists(st.integers(0, 35), unique=True).map(sorted), st.sampled_from(GRIDS))
def test_occupied_groups(truth: dict[tuple[int, int], int], asked: list[int], grid: Grid) -> None:
    some = occupied(truth)
    groups = sorted({group for group, _ in truth})
    assert some.groups.tolist() == groups
    assert some.totals.tolist() == [sum(n for (group, _), n in truth.items() if group == each) for each in groups]
    expected = np.zeros((len(asked), grid.cells), np.int64)
    for (group, cell), n in truth.items():
        if group in asked:
            expected[asked.index(group), grid.of_finest[cell]] += n
    assert some.cells_of(np.array(asked, np.int64), grid).tolist() == expected.tolist()
    assert "1" not in repr(some)


@settings(max_examples=50, deadline=None)
@given(counts(), st.integers(2, 5))
def test_some_of_the_occupied_groups(truth: dict[tuple[int, int], int], every: int) -> None:
    whole = occupied(truth)
    part = whole.take(whole.groups % every == 0)
    again = occupied({key: n for key, n in truth.items() if key[0] % every == 0})
    assert part.groups.tolist() == again.groups.tolist()
    assert part.totals.tolist() == again.totals.tolist()
    asked = np.arange(35)
    assert part.cells_of(asked, AGE_23).tolist() == again.cells_of(asked, AGE_23).tolist()


@pytest.mark.parametrize("sigma2", [Fraction(5, 2), Fraction(10**9)], ids=["from a table", "too wide for one"])
@pytest.mark.parametrize(
    "places",
    [[], [7], list(range(5, 50)), list(range(3, 40, DENSE)), list(range(3, 400, DENSE + 1)), [0, 10**15]],
    ids=["none", "one", "a span", "dense", "not dense", "far apart"],
)
def test_noise_is_that_of_the_coordinate(places: list[int], sigma2: Fraction) -> None:
    law, at = DiscreteGaussian(sigma2), np.array(places, np.int64)
    assert noise_at(law, STREAM, at).tolist() == draw_at(law, STREAM, at).tolist()
