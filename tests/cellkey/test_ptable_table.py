"""The table in whole numbers: bounds, lookups, fingerprints; the same law in another layout."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ConfideError, ParameterError
from confide.noise import derive_stream
from confide.noise.ptables import (
    LookupRow,
    PTable,
    count_settings,
    generate,
    magnitude_settings,
    modify,
    same_distribution,
)
from confide.noise.ptables.ptable import cumulated, key_of, permutation, table_findings

ZERO = LookupRow(0, (0,), (10,))
ONE = LookupRow(1, (-1, 0, 1), (3, 7, 10))
TWO = LookupRow(2, (-2, 0, 2), (2, 8, 10))
SMALL = PTable((ZERO, ONE, TWO), 10)
SEED = "5467"


@pytest.fixture(scope="module")
def table() -> PTable:
    return generate(count_settings(5, 2)).table()


def test_bounds_are_half_open() -> None:
    """The first interval with key < bound: a key that equals a bound belongs to the next."""
    assert SMALL.lookup([1] * 10, np.arange(10)).tolist() == [-1] * 3 + [0] * 4 + [1] * 3
    assert SMALL.lookup(1, 2).tolist() == -1
    assert SMALL.lookup(1, 3).tolist() == 0


def test_zero_stays_and_large_counts_use_the_last_row() -> None:
    keys = np.arange(10)
    assert not SMALL.lookup(np.zeros(10, np.int64), keys).any()
    for count in (2, 3, 1_000_000):
        assert SMALL.lookup(np.full(10, count), keys).tolist() == [-2, -2, 0, 0, 0, 0, 0, 0, 2, 2]


def test_large_counts_in_turn() -> None:
    turn = PTable((ZERO, ONE, TWO), 10, cycle=2)
    assert turn.row_of([0, 1, 2, 3, 4, 5]).tolist() == [0, 1, 2, 1, 2, 1]
    # The rule of the Office for National Statistics: 750 rows, the last 250 in turn.
    long = PTable((ZERO, *(LookupRow(i, (0,), (10,)) for i in range(1, 751))), 10, cycle=250)
    counts = np.array([749, 750, 751, 1000, 1001, 12_345])
    assert long.row_of(counts).tolist() == [749, 750, 501, 750, 501, (12_345 - 1) % 250 + 501]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.data())
def test_lookup_is_the_plain_rule(counts: list[int], data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers(0, 9), min_size=len(counts), max_size=len(counts)))
    expected = []
    for count, key in zip(counts, keys, strict=True):
        row = SMALL.rows[min(count, 2)]
        expected.append(next(v for v, bound in zip(row.noise, row.bounds, strict=True) if key < bound))
    assert SMALL.lookup(counts, keys).tolist() == expected


def test_over_all_keys_the_law_comes_out_exactly() -> None:
    table = generate(count_settings(3, "1.5")).table(4096)
    keys = np.arange(4096)
    for place in range(4):
        found = Counter(table.lookup(np.full(4096, place), keys).tolist())
        assert {Fraction(v): Fraction(n, 4096) for v, n in found.items()} == table.probabilities(place)


def test_lookups_keep_the_shape_and_are_vectorised(table: PTable) -> None:
    counts = np.arange(200_000).reshape(2, -1) % 9
    keys = np.arange(200_000, dtype=np.uint32).reshape(2, -1) * 499
    noise = table.lookup(counts, keys)
    assert noise.shape == counts.shape
    assert noise.dtype == np.int64
    assert (counts + noise >= 0).all()
    assert np.abs(noise).max() <= 5


@pytest.mark.parametrize("whole", [10**8, 256, 4096, 1 << 32, 1 << 53, 7])
def test_rounding_sums_to_the_whole(whole: int) -> None:
    design = generate(count_settings(5, 3, 2))
    table = design.table(whole)
    for place, (row, made) in enumerate(zip(table.rows, design.rows, strict=True)):
        assert row.bounds[-1] == whole == sum(row.lengths)
        assert sum(table.probabilities(place).values()) == 1
        exact = np.cumsum([Fraction(p) for p in made.p])
        exact /= exact[-1]
        assert all(abs(bound - c * whole) <= Fraction(1, 2) for bound, c in zip(row.bounds, exact, strict=True))
        assert abs(table.mean(place)) <= Fraction(10, whole)
    assert not [f for f in table_findings(table) if f.severity == "error"]


def test_cumulated_as_eight_decimals() -> None:
    assert cumulated([Fraction(1, 3)] * 3, 10**8) == (33333333, 66666667, 10**8)
    assert cumulated([0.25, 0.5, 0.25], 4) == (1, 3, 4)


def test_fingerprints() -> None:
    again = PTable((ZERO, ONE, TWO), 10)
    assert again == SMALL
    assert again.fingerprint == SMALL.fingerprint
    assert len(SMALL.fingerprint) == 64
    others = [
        PTable((ZERO, ONE), 10),
        PTable((ZERO, ONE, TWO), 10, cycle=2),
        PTable((ZERO, LookupRow(1, (-1, 0, 1), (3, 6, 10)), TWO), 10),
        PTable((ZERO, LookupRow(1, (0, -1, 1), (3, 7, 10)), TWO), 10),
    ]
    assert len({SMALL.fingerprint, *(other.fingerprint for other in others)}) == 5


def test_moments(table: PTable) -> None:
    assert SMALL.mean(1) == 0
    assert SMALL.variance(1) == Fraction(6, 10)
    assert float(table.variance(5)) == pytest.approx(2, abs=1e-6)
    assert table.largest_noise == 5


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (LookupRow(1, (-1, 0, 1), (3, 2, 10)), "bounds-not-increasing"),
        (LookupRow(1, (-1, 0, 1), (3, 7, 9)), "not-one"),
        (LookupRow(1, (-2, 0, 2), (3, 7, 10)), "negative-result"),
        (LookupRow(1, (), ()), "bad-row"),
    ],
)
def test_bad_tables_are_refused(row: LookupRow, code: str) -> None:
    with pytest.raises(ParameterError) as caught:
        PTable((ZERO, row), 10)
    assert code in [finding.code for finding in caught.value.findings]


def test_more_bad_tables() -> None:
    with pytest.raises(ParameterError, match="count of zero gets noise"):
        PTable((LookupRow(0, (0, 1), (5, 10)), ONE), 10)
    with pytest.raises(ParameterError, match="not in order"):
        PTable((ONE, ZERO), 10)
    with pytest.raises(ParameterError, match="out of range"):
        PTable((LookupRow(0, (0,), (1 << 60,)),), 1 << 60)


def test_bias_is_a_warning_unless_rounding_explains_it() -> None:
    biased = PTable((ZERO, LookupRow(1, (0, 1), (8, 10))), 10)
    assert [f.code for f in table_findings(biased)] == ["biased-row"]
    rounded = generate(count_settings(5, 2)).table(256)
    assert any(rounded.mean(k) for k in range(6))
    assert not list(table_findings(rounded))


def test_lookups_refuse_what_has_no_row() -> None:
    for counts, keys in (([-1], [0]), ([1], [10]), ([1], [-1])):
        with pytest.raises(ParameterError) as caught:
            SMALL.lookup(counts, keys)
        assert "confidential" in str(caught.value)
    with pytest.raises(ParameterError, match="whole numbers"):
        SMALL.lookup([1], [0.25])
    grid = generate(magnitude_settings(5, 2, step=2, icat=[1, 5])).table()
    with pytest.raises(ParameterError, match="no row for every count"):
        grid.lookup([1], [0])
    assert grid.lookup_rows([0, 1, 2], [0, 0, 0]).tolist() == [0, -2, -10]


def test_compact_says_the_same_with_less() -> None:
    rows = (ZERO, LookupRow(1, (-1, 0, 0, 1, 0), (3, 5, 7, 10, 10)), TWO, LookupRow(3, (-2, 0, 2), (2, 8, 10)))
    long = PTable(rows, 10)
    assert long.compact() == SMALL
    counts, keys = np.repeat(np.arange(6), 10), np.tile(np.arange(10), 6)
    assert (long.lookup(counts, keys) == SMALL.lookup(counts, keys)).all()


@pytest.mark.parametrize("threshold", ["0.3", "1/10", "0.05", "0.9"])
def test_modified_tables_have_the_same_law(table: PTable, threshold: str) -> None:
    changed = modify(table, threshold, key_of(SEED))
    assert same_distribution(table, changed)
    piece = Fraction(threshold) * table.modulus
    for row, before in zip(changed.rows[1:], table.rows[1:], strict=True):
        assert max(row.lengths) <= piece
        cut = sum(length // int(piece) for length in before.lengths)
        assert sum(length == piece for length in row.lengths) >= cut
    assert changed.rows[0] == table.rows[0]


def test_a_modified_table_follows_from_its_seed(table: PTable) -> None:
    made = modify(table, "0.05", key_of(SEED))
    assert made == modify(table, "0.05", key_of("0" * 60 + SEED))
    assert made.fingerprint != modify(table, "0.05", key_of("5468")).fingerprint
    assert modify(table, "0.05", key_of(None)) != modify(table, "0.05", key_of(None))
    assert made.rows[1].noise != tuple(sorted(made.rows[1].noise))


def test_the_layout_is_frozen() -> None:
    """Another order for the same key would have to be a new version of the layout."""
    assert modify(SMALL, "0.1", key_of(SEED)).rows[1].noise == (1, 1, 0, -1, 0, 1, -1, 0, -1, 0)


def test_modify_refuses(table: PTable) -> None:
    for threshold in ("0", "1", "1e-9", "1/3"):
        with pytest.raises(ParameterError) as caught:
            modify(table, threshold, key_of(SEED))
        assert caught.value.findings[0].code == "bad-threshold"
    with pytest.raises(ConfideError):
        key_of("xyz")
    assert not same_distribution(table, SMALL)


@pytest.mark.statistical
def test_the_shuffle_is_uniform() -> None:
    """All 24 orders of four pieces; a chi-square value above 60 has a probability below 1e-4, and the key is fixed."""
    orders: Counter[tuple[int, ...]] = Counter()
    for number in range(2_400):
        stream = derive_stream(
            key_of("a1"), records_fingerprint=b"x", plan_hash=b"x", mechanism="t", level="t", query=str(number)
        )
        orders[tuple(permutation(4, stream))] += 1
    assert len(orders) == 24
    assert sum((n - 100) ** 2 / 100 for n in orders.values()) < 60
