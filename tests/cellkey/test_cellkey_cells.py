"""The cells of the cell key method: keys, sums, noise. Against the method done by hand, record after record."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.cellkey import (
    KEYS,
    SCHEMA,
    SECRET,
    TABLES,
    expected_figures,
    figures,
    people,
    question_of,
    release_of,
    true_cells,
    write_project,
)
from tests.kits.labelled import read_labelled

from confide.documents import parse_schema
from confide.mechanisms.cellkey import keyed_records
from confide.mechanisms.cellkey.keyed_records import KEY, WEIGHT, count_records, perturb, scaled
from confide.mechanisms.cellkey.keys import CellSums, draw_keys, nobody
from confide.mechanisms.cellkey.programme import never_published, shuffled
from confide.mechanisms.cellkey.spec import CellKeyPart
from confide.noise import ReleaseKey
from confide.noise.ptables import LookupRow, PTable, count_settings, generate
from confide.schema import Query

SEED_ALARM = 1e-4
"""Everything here is drawn from chosen keys: a test gives the same answer every time. A right law passes unless the
chosen key is one of so many."""


def table_of(d: int, v: str, js: int = 0) -> PTable:
    """The table that a spec with these settings has: shuffled in the derived order."""
    return shuffled(generate(count_settings(d, v, js)).table(KEYS), CellKeyPart())


# --- record keys ---------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("keys", [2, 3, 256, 1000, 20_011])
def test_record_keys_are_uniform(keys: int) -> None:
    drawn = draw_keys(200_000, keys, SECRET)
    assert drawn.min() >= 0
    assert drawn.max() < keys
    assert scipy.stats.chisquare(np.bincount(drawn, minlength=keys)).pvalue > SEED_ALARM


@pytest.mark.statistical
def test_neighbouring_record_keys_are_independent() -> None:
    drawn = draw_keys(200_001, 16, SECRET)
    pairs = np.bincount(drawn[:-1] * 16 + drawn[1:], minlength=256)
    assert scipy.stats.chisquare(pairs).pvalue > SEED_ALARM


def test_keys_have_all_their_bits_and_a_length_of_their_own() -> None:
    drawn = draw_keys(50_000, 1 << 32, SECRET)
    assert 0 < drawn.min() < 1 << 20
    assert drawn.max() > (1 << 32) - (1 << 20)
    assert len(draw_keys(0, KEYS, SECRET)) == 0
    assert draw_keys(100, KEYS, SECRET).tolist() == draw_keys(5_000, KEYS, SECRET)[:100].tolist()


def test_without_a_chosen_secret_keys_are_others_every_time() -> None:
    assert not np.array_equal(draw_keys(20, KEYS), draw_keys(20, KEYS))
    assert not np.array_equal(draw_keys(20, KEYS, SECRET), draw_keys(20, KEYS, ReleaseKey.choose("2e" * 32)))


# --- sums ----------------------------------------------------------------------------------------------------------

MINE = parse_schema(tomllib.loads(SCHEMA))
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 1), st.integers(0, 79), st.integers(0, KEYS - 1), st.integers(0, 10**9)
    ),
    max_size=40,
)


def columns(rows: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    array = np.array(rows, np.int64).reshape(-1, 5)
    return dict(zip(["quarter", "sex", "age", KEY, WEIGHT], array.T, strict=True))


def count(query: Query, rows: list[tuple[int, ...]]) -> CellSums:
    return count_records(query, columns(rows), None, query.cells)


def cells_of(members: np.ndarray, keys: np.ndarray, weight: np.ndarray | None = None) -> CellSums:
    return CellSums(np.arange(len(members)), members, keys, weight)


def same(one: CellSums, other: CellSums) -> bool:
    assert one.weight is not None
    assert other.weight is not None
    pairs = [(one.cell, other.cell), (one.count, other.count), (one.key, other.key), (one.weight, other.weight)]
    return all(np.array_equal(left, right) for left, right in pairs)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(0, 40), st.randoms(use_true_random=False))
def test_sums_of_parts_and_of_permuted_rows_are_those_of_the_whole(rows: list, cut: int, order: object) -> None:
    query = MINE.query("quarter*sex*age:adults")
    none = nobody(weighted=True)
    whole = none.plus(count(query, rows), KEYS)
    parts = [count(query, part) for part in (rows[:cut], rows[cut:])]
    assert same(none.plus(parts[1], KEYS).plus(parts[0], KEYS), whole)
    order.shuffle(rows)  # type: ignore[attr-defined]
    assert same(none.plus(count(query, rows), KEYS), whole)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_a_margin_summed_from_a_table_is_the_margin_counted(rows: list) -> None:
    larger = MINE.query("quarter*sex*age:broad")
    table = nobody(weighted=True).plus(count(larger, rows), KEYS)
    for query in larger.margins():
        counted = nobody(weighted=True).plus(count(query, rows), KEYS)
        assert same(table.summed(larger, query, KEYS), counted)


def test_key_sums_are_exact_at_the_largest_keys_and_batches() -> None:
    """A million keys just below 2**32: their sum is beyond 32 bits and below 2**53."""
    last = (1 << 32) - 1
    number = keyed_records.BATCH
    full = {KEY: np.full(number, last, np.int64)}
    sums = count_records(MINE.query("total"), full, None, 1)
    assert sums.key.tolist() == [number * last]
    assert sums.plus(sums, 1 << 32).key.tolist() == [2 * number * last % (1 << 32)]


def test_no_sum_shows_a_value() -> None:
    shown = repr(cells_of(np.array([4523]), np.array([4523])))
    assert "4523" not in shown


# --- noise ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cellkey", "settings_", "threshold"),
    [
        ('D = 5\nV = "2"', (5, "2", 0), 0),
        ('D = 5\nV = "3"\njs = 2', (5, "3", 2), 0),
        ('D = 3\nV = "1"\nthreshold = 10', (3, "1", 0), 10),
    ],
)
def test_every_published_figure_is_the_one_worked_out_by_hand(
    tmp_path: Path, cellkey: str, settings_: tuple[int, str, int], threshold: int
) -> None:
    """All cells of all tables and margins, weighted ones too, recodes that leave levels out too."""
    records, ptable = people(), table_of(*settings_)
    release = release_of(tmp_path, records, cellkey=cellkey, data='weight = "weight"')
    for name, variables in TABLES:
        table = read_labelled(release / f"tables/{name}.parquet").to_pylist()
        found = {tuple(row[variable] for variable in variables): (row["count"], row["weighted"]) for row in table}
        expected = expected_figures(true_cells(records, variables), ptable, threshold)
        assert found == {cell: (count, float(weighted)) for cell, (count, weighted) in expected.items()}
        assert len(found) == len(table)


def test_zero_stays_zero_whatever_the_key() -> None:
    ptable = table_of(5, "2")
    keys = np.arange(0, KEYS, 9_973)
    empty = cells_of(np.zeros(len(keys), np.int64), keys, np.zeros(len(keys), np.int64))
    published = perturb(empty, ptable, None, 1)
    assert not published.figure.any()
    assert published.weighted is not None
    assert not published.weighted.any()


def test_no_count_is_negative_or_ruled_out() -> None:
    ptable = table_of(5, "3", 2)
    keys = np.arange(0, KEYS, 9_973)
    for members in range(1, 12):
        found = set(perturb(cells_of(np.full(len(keys), members), keys), ptable, None, 1).figure.tolist())
        assert found <= {0, *range(3, members + 6)}
        assert 0 in found or members > 5
    assert min(set(perturb(cells_of(np.full(len(keys), 12), keys), ptable, 9, 1).figure.tolist()) - {0}) == 9


@given(st.integers(1, 10**6), st.integers(0, 10**12), st.integers(0, 100))
def test_weighted_counts_are_rounded_once_and_exactly(members: int, weight: int, published: int) -> None:
    """A table that makes any count the one that is published: (n + v) W / n, half a millionth rounded up."""
    found = scaled(np.array([published]), np.array([weight]), np.array([members]))
    exact = Fraction(published * weight, members)
    assert found[0] - exact <= Fraction(1, 2)
    assert exact - found[0] < Fraction(1, 2)


CELLS = """
id = "cells"
provenance = "made up for tests"
[attributes.cell]
range = [0, 11999]
"""
GROUP_SIZES = (1, 2, 9)


@pytest.fixture(scope="module")
def many_cells(tmp_path_factory: pytest.TempPathFactory) -> dict[int, np.ndarray]:
    """The noise of 4,000 published cells of each size."""
    members = np.repeat(np.arange(12_000), np.repeat(GROUP_SIZES, 4_000))
    records = pa.table({"cell": members, "record_key": draw_keys(len(members), KEYS, SECRET)})
    release = release_of(
        tmp_path_factory.mktemp("cells"), records, schema=CELLS, tables=(("cells", ["cell"]),), output=""
    )
    published = np.zeros(12_000, np.int64)
    for (label,), count in figures(release, "cells").items():
        if label != "_T":
            published[int(label)] = count
    return {size: published[4_000 * at : 4_000 * (at + 1)] - size for at, size in enumerate(GROUP_SIZES)}


def fits(noise: np.ndarray, ptable: PTable, size: int) -> float:
    """The p-value of the noise under the law of a table; values expected fewer than five times are put together."""
    law = ptable.probabilities(min(size, ptable.top))
    common = [value for value, p in law.items() if p * len(noise) >= 5]
    seen = [int((noise == int(value)).sum()) for value in common]
    expected = [float(law[value] * len(noise)) for value in common]
    rest = float(len(noise) - sum(expected))
    if len(noise) - sum(seen) and rest < 1e-3:
        return 0.0
    if rest >= 1e-3:
        seen, expected = [*seen, len(noise) - sum(seen)], [*expected, rest]
    return float(scipy.stats.chisquare(seen, expected, sum_check=False).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize("size", GROUP_SIZES)
def test_published_cells_have_the_noise_of_the_table_and_of_no_other(
    many_cells: dict[int, np.ndarray], size: int
) -> None:
    assert fits(many_cells[size], table_of(5, "2"), size) > SEED_ALARM
    for other in (table_of(5, "1"), table_of(5, "3", 2)):
        assert fits(many_cells[size], other, size) < 1e-9
    assert np.abs(many_cells[size]).max() <= 5


@pytest.mark.statistical
def test_noise_has_no_bias(many_cells: dict[int, np.ndarray]) -> None:
    """Within four standard errors."""
    for noise in many_cells.values():
        assert abs(noise.mean()) < 4 * noise.std() / len(noise) ** 0.5


# --- what the plan says of the table -------------------------------------------------------------------------------


def test_what_is_never_published_follows_from_the_table() -> None:
    assert never_published(table_of(5, "2")) == 0
    assert never_published(table_of(5, "3", 2)) == 2
    # Count 1 becomes 0 or 4, but count 2 becomes 1 by the same row.
    assert never_published(PTable((LookupRow(0, (0,), (4,)), LookupRow(1, (-1, 3), (3, 4))), 4)) == 0
    # Below three to nothing, otherwise as it is.
    rows = (LookupRow(0, (0,), (4,)), LookupRow(1, (-1,), (4,)), LookupRow(2, (-2,), (4,)), LookupRow(3, (0,), (4,)))
    assert never_published(PTable(rows, 4)) == 2


def test_each_cross_classification_is_counted_once_after_what_it_is_summed_from(tmp_path: Path) -> None:
    question = question_of(write_project(tmp_path), tmp_path / "scratch")
    order = list(question.counted())
    names = [counted.name for counted in order]
    assert len(names) == len(set(names)) == 14
    done: set[str] = set()
    for counted in order:
        assert counted.larger is None or counted.larger.name in done
        done.add(counted.query.name)
