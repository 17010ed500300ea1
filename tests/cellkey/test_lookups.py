"""Lookups other than intervals of keys: the bytes of a key, shared columns, and the table of ONS with its threshold."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import InputError, ParameterError
from confide.mechanisms.cellkey.keyed_records import perturb
from confide.mechanisms.cellkey.keys import (
    ROWS,
    AbsTable,
    CellSums,
    Lookup,
    abs_text,
    allocate,
    bias_findings,
    draw_columns,
    expected_errors,
    facts,
    folded,
    read_abs,
    uniform,
)
from confide.noise import ReleaseKey, derive_stream
from confide.noise.ptables import LookupRow, PTable, count_settings, generate, read_table

KEY = ReleaseKey.choose("0f" * 32)
ZERO = LookupRow(0, (0,), (8,))
SMALL = PTable((ZERO, LookupRow(1, (-1, 0, 1), (2, 6, 8)), LookupRow(2, (-2, 0, 2), (1, 7, 8))), 8)


@pytest.fixture(scope="module")
def law() -> PTable:
    return generate(count_settings(5, 2)).table()


def places(size: int = 30, small_n: int = 10) -> AbsTable:
    """A table that tells where noise was found: 1000 times the column, plus the row."""
    return AbsTable(1000 * np.arange(1, size + 1) + np.arange(ROWS)[:, None], small_n)


def test_columns_as_documented() -> None:
    """30 columns, small_n 10: counts from 1 to 20 have a column each, 25 uses column 26."""
    table = places()
    assert table.column_of(np.arange(1, 21)).tolist() == list(range(1, 21))
    assert table.column_of([21, 25, 29, 30, 31, 120, 1_000_005]).tolist() == [22, 26, 30, 21, 22, 21, 26]


@pytest.mark.parametrize(("size", "small_n"), [(30, 10), (25, 10), (70, 12), (7, 3), (2, 1)])
def test_lookup_follows_the_rule_of_columns(size: int, small_n: int) -> None:
    """Also where the number of columns is no multiple of those that are shared."""
    table = places(size, small_n)
    counts = np.arange(1, 500)
    keys = (counts * 7_919_191) % table.big_n
    found = table.lookup(counts, keys)
    assert (found // 1000).tolist() == table.column_of(counts).tolist()
    assert (found % 1000).tolist() == folded(keys).tolist()
    assert table.lookup([0, 0], [5, 17]).tolist() == [0, 0]


def test_bytes_of_the_key() -> None:
    keys = [0, 255, 256, 0x01_02_03_04, 0xFF_FF_FF_FF, 17_312_940]
    assert folded(keys).tolist() == [0, 255, 1, 4, 0, 0x01 ^ 0x08 ^ 0x2C ^ 0xAC]


@given(st.integers(0, (1 << 32) - 1))
def test_bytes_combined_one_by_one(key: int) -> None:
    one, two, three, four = key.to_bytes(4, "big")
    assert int(folded(key)) == one ^ two ^ three ^ four


def test_bytes_of_keys_are_nearly_uniform() -> None:
    """20,011 keys, 78 times all 256 low bytes and 43 more: every row 78 or 79 times."""
    times = np.bincount(folded(np.arange(20_011)), minlength=ROWS)
    assert set(times.tolist()) == {78, 79}


def test_allocation_is_in_proportion(law: PTable) -> None:
    """Bounds of shares are within half of a row of 256, as in a table over 256 keys."""
    table = allocate(law)
    expected = generate(count_settings(5, 2)).table(ROWS)
    for column in range(1, 31):
        row = expected.rows[min(column, law.top)]
        found = np.unique(table.matrix[:, column - 1], return_counts=True)
        assert dict(zip(*(part.tolist() for part in found), strict=True)) == row.key_counts()
    assert allocate(SMALL, size=4, small_n=2).matrix[:, 0].tolist() == [-1] * 64 + [0] * 128 + [1] * 64
    assert not bias_findings(allocate(SMALL, size=4, small_n=2))
    # The columns that larger counts share are alike, so one row serves them.
    assert table.by_byte.cycle == 1
    assert table.largest_noise == 5
    # +5 and -5 of large counts have probability 0.00055, less than half of one row in 256: they have no row at all.
    assert np.abs(table.matrix[:, 20:]).max() == 4


def test_drawn_columns(law: PTable) -> None:
    table = draw_columns(law, KEY)
    again, other = draw_columns(law, KEY), draw_columns(law, ReleaseKey.choose("1e" * 32))
    assert (table.matrix == again.matrix).all()
    assert table.fingerprint == again.fingerprint != other.fingerprint
    assert (table.matrix != other.matrix).any()
    assert (table.matrix[:, 25] != table.matrix[:, 26]).any()
    assert table.matrix[:, 0].min() == -1
    assert int(np.abs(table.matrix).max()) <= 5
    # 10 columns of 256 draws with variance 2: the mean is within five standard errors, 5 * sqrt(2 / 2560).
    assert abs(table.matrix[:, 20:].mean()) < 0.14
    assert abs(table.matrix[:, 20:].var() - 2) < 0.3
    (warning,) = bias_findings(table)
    assert warning.severity == "warning"


def test_drawn_columns_are_lookups_of_the_stream() -> None:
    table = draw_columns(SMALL, KEY, size=4, small_n=2)
    stream = derive_stream(
        KEY,
        records_fingerprint=bytes.fromhex(SMALL.fingerprint),
        plan_hash=b"confide/ptable/abs/v1",
        mechanism="cellkey",
        level="ptable",
        query="column 2",
    )
    assert table.matrix[:, 1].tolist() == SMALL.lookup(np.full(ROWS, 2), uniform(stream, ROWS, 8)).tolist()


def test_text_and_back(law: PTable, tmp_path: Path) -> None:
    table = draw_columns(law, KEY)
    file = tmp_path / "noise.pert"
    file.write_text(abs_text(table))
    read = read_abs(file)
    assert read.fingerprint == table.fingerprint
    assert len(file.read_text().splitlines()) == ROWS
    assert read_abs(file, small_n=9).fingerprint != table.fingerprint
    file.write_text(abs_text(table).replace("\n", "\r\n") + "\n\n")
    assert read_abs(file).fingerprint == table.fingerprint


def test_bad_files_are_told_by_line(law: PTable, tmp_path: Path) -> None:
    lines = abs_text(allocate(law)).splitlines()
    file = tmp_path / "noise.pert"
    lines[3] = lines[3].replace(",", ";", 1)
    lines[7] += ",0"
    file.write_text("\n".join(lines[:-1]))
    with pytest.raises(InputError) as error:
        read_abs(file)
    assert [finding.where.line for finding in error.value.findings] == [None, 4, 8]
    assert "255 lines" in str(error.value.findings[0].found)
    with pytest.raises(InputError):
        read_abs(tmp_path / "missing.pert")


def test_noise_that_makes_counts_negative_is_refused() -> None:
    matrix = np.zeros((ROWS, 30), np.int64)
    matrix[9, 2] = -3
    assert AbsTable(matrix.copy()).lookup(3, 9) == -3
    matrix[9, 2] = -4
    with pytest.raises(ParameterError):
        AbsTable(matrix)


def test_sizes_that_do_not_fit_are_refused(law: PTable) -> None:
    for matrix, small_n, big_n in [
        (np.zeros((255, 30), np.int64), 10, 20_011),
        (np.zeros((256, 10), np.int64), 10, 20_011),
        (np.zeros((256, 30), np.int64), 10, 100),
    ]:
        with pytest.raises(ParameterError):
            AbsTable(matrix, small_n, big_n)
    # Shared columns serve counts from size - small_n + 1 on: all of them must be large.
    assert allocate(law, size=14, small_n=10).column_of(5) == 4 + 1 + 5
    with pytest.raises(ParameterError, match="14 columns"):
        allocate(law, size=13, small_n=10)


def test_any_lookup_perturbs(law: PTable) -> None:
    """Zero stays, the threshold holds, and a weighted figure has the unweighted noise."""
    table = allocate(law)
    lookups: list[Lookup] = [law, table]
    count, key = np.array([0, 1, 7, 25, 300]), np.array([0, 12, 5_000, 77, 19_999])
    for lookup in lookups:
        figures = perturb(CellSums(np.arange(len(count)), count, key, 2_000_000 * count), lookup, None, 1)
        assert figures.figure.tolist() == (count + lookup.lookup(count, key)).tolist()
        assert figures.figure[0] == 0
        assert figures.weighted is not None
        assert figures.weighted.tolist() == (2_000_000 * figures.figure).tolist()
        cut = perturb(CellSums(np.arange(len(count)), count, key, None), lookup, 20, 1)
        assert cut.figure.tolist() == [0, 0, 0, *figures.figure[3:].tolist()]


def test_the_rule_of_ons(tmp_path: Path) -> None:
    """A file of 750 counts and 256 keys, its last 250 rows in turn; results below ten are left out."""
    lines = ["pcv,ckey,pvalue"]
    for count in range(1, 751):
        for key in range(256):
            value = -count if count < 10 else (round(count / 5) * 5 - count)
            lines.append(f"{count},{key},{value}")
    file = tmp_path / "ons.csv"
    file.write_text("\n".join(lines) + "\n")
    table = read_table(file).table
    assert (table.modulus, table.cycle, table.top) == (256, 250, 750)
    count = np.array([0, 3, 9, 10, 12, 13, 749, 750, 751, 1002, 5001])
    figures = perturb(CellSums(np.arange(len(count)), count, count % 256, None), table, 10, 1)
    assert figures.figure.tolist() == [0, 0, 0, 10, 10, 15, 750, 750, 750, 1000, 5000]


def test_expected_errors_by_hand() -> None:
    """Count 1: 1/4, 1/2, 1/4 on -1, 0, 1. Count 2 and above: 1/8, 6/8, 1/8 on -2, 0, 2."""
    error, zero = expected_errors(SMALL, np.array([1, 2, 3, 9]), None)
    assert error.tolist() == [0.5, 0.5, 0.5, 0.5]
    assert zero.tolist() == [0.25, 0.125, 0.0, 0.0]
    # Below two stands zero: from 1 only +1 is left; from 3 one of eight becomes 1, hence 0.
    error, zero = expected_errors(SMALL, np.array([1, 3]), 2)
    assert error.tolist() == [0.75 * 1 + 0.25 * 1, (3 + 2) / 8]
    assert zero.tolist() == [0.75, 0.125]


def test_facts_and_laws(law: PTable) -> None:
    table = allocate(law, big_n=20_011)
    assert facts(table) == {"lookup": "abs", "big_n": 20_011, "small_n": 10, "columns": 30}
    assert facts(law) == {"lookup": "ess"}
    assert table.modulus == 20_011
    assert sum(table.probabilities(int(table.row_of(25))).values()) == Fraction(1)
    assert "matrix" not in repr(table)
