"""Magnitude tables: the noise of sums by their largest contributions. Against the method done by hand."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kits.cellkey import GROUPS, KEYS, forge, question_of
from tests.kits.cellkey_areas import area_of, people_in_blocks, write_areas
from tests.kits.forged import failed
from tests.kits.labelled import read_labelled

import confide
from confide.errors import ConfideError, SpecError
from confide.mechanisms.cellkey.keys import CellSums, CellValues
from confide.mechanisms.cellkey.magnitudes import MagnitudeNoise, between_rows, moved
from confide.mechanisms.cellkey.spec import MagnitudePart
from confide.noise import ReleaseKey
from confide.noise.ptables import LookupRow, PTable, generate, magnitude_settings

NOISE = '[magnitude.noise]\nD = 5\nV = "2"\nstep = 4\nicat = [1, 3, 5]\n'
SMALL = '[magnitude.small]\nD = 8\nV = "2"\nstep = 2\nicat = [1, 8]\n'
FLEX = 'p_small = "0.25"\np_large = "0.05"\nfp = "3000"\nq = 3\n'
TABLES = (("work", ["work", "sex"], ["country", "town"]), ("sex", ["sex"], []))
WHOLE = generate(magnitude_settings(5, "2", step=4, icat=[1, 3, 5])).table(KEYS)
LITTLE = generate(magnitude_settings(8, "2", step=2, icat=[1, 8])).table(KEYS)


def firms(*, negative: bool = False) -> pa.Table:
    """Records with a value each: skewed, many of them zero, with two decimals."""
    draw = np.random.default_rng(5)
    records = people_in_blocks(201)
    cents = (np.exp(draw.normal(8, 2.5, 201))).astype(np.int64) * (draw.random(201) > 0.2)
    if negative:
        cents *= draw.choice([1, 1, -1], 201)
    texts = [str(Decimal(int(cent)).scaleb(-2)) for cent in cents]
    return records.append_column("value", pa.array(texts))


def write(folder: Path, magnitude: str, records: pa.Table | None = None, cellkey: str = 'shuffle = "none"') -> Path:
    return write_areas(
        folder,
        firms() if records is None else records,
        cellkey=cellkey,
        data='value = "value"\ndecimals = 2',
        more=magnitude,
        tables=TABLES,
    )


# --- by hand -------------------------------------------------------------------------------------------------------


def noise_at(table: PTable, place: Fraction, key: int) -> Fraction:
    """Row by row, interval by interval."""
    values = []
    for row in table.rows:
        value = next(v for v, bound in zip(row.noise, row.bounds, strict=True) if key < bound)
        values.append((Fraction(row.i), Fraction(value, table.step)))
    if place >= values[-1][0]:
        return values[-1][1]
    for (low, below), (high, above) in pairwise(values):
        if low <= place < high:
            part = (place - low) / (high - low)
            return (1 - part) * below + part * above
    raise AssertionError


def by_hand(cell: dict[str, Any], part: dict[str, Any]) -> Fraction:
    """The published value of one cell; ``part`` has the settings as numbers."""
    contributions = sorted((abs(x) for x in cell["values"]), reverse=True)
    value, digits = sum(cell["values"], Fraction(0)), f"{cell['key'] % KEYS:08d}"
    squares = sum(f * f for f in part["factors"])
    variance = LITTLE.variance(2) if part["small"] else Fraction(0)
    for number, factor in enumerate(part["factors"]):
        x = contributions[number] if number < len(contributions) else Fraction(0)
        key = int(digits[number:] + digits[:number])
        if value == 0 or x == 0:
            continue
        if x**2 * part["p_small"] ** 2 * squares < variance:
            if number:
                continue
            step, table = Fraction(1), LITTLE
        else:
            share = part["p_small"]
            if part["fp"] is not None and x >= part["fp"]:
                low, fp = part["p_large"], part["fp"]
                share = low + low * ((share * x) / (low * fp) - 1) * (2 * fp / (fp + x)) ** part["q"]
            step, table = x * share * factor, WHOLE
        v = noise_at(table, min(abs(value) / step, Fraction(table.top)), key)
        more = part["mu_c"] if len(cell["values"]) <= part["threshold"] else 0
        size = abs(value) + step * (v + (more if v > 0 else -more if v < 0 else 0))
        value = (1 if value > 0 else -1) * max(size, Fraction(0))
    cents = abs(value) * 100
    whole = cents.numerator // cents.denominator
    whole += 1 if cents - whole >= Fraction(1, 2) else 0
    return Fraction(whole if value > 0 else -whole, 100)


def true_values(records: pa.Table, variables: list[str], level: str | None) -> dict[tuple[str, ...], dict[str, Any]]:
    cells: dict[tuple[str, ...], dict[str, Any]] = defaultdict(lambda: {"values": [], "key": 0})
    for record in records.to_pylist():
        area = None if level is None else area_of(level, record["block"])
        labels = [GROUPS[name](record[name.split(":")[0]]) for name in variables]
        for size in range(len(variables) + 1):
            for kept in combinations(range(len(variables)), size):
                name = tuple(str(labels[at]) if at in kept else "_T" for at in range(len(variables)))
                cell = cells[name if level is None else (level, str(area), *name)]
                cell["values"].append(Fraction(record["value"]))
                cell["key"] += record["record_key"]
    return cells


BASE = {
    "factors": [Fraction(1)],
    "p_small": Fraction(1, 4),
    "p_large": Fraction(1, 20),
    "fp": Fraction(3000),
    "q": 3,
    "small": True,
    "mu_c": 0,
    "threshold": 0,
}
CASES = [
    (FLEX, NOISE + SMALL, BASE, False),
    (
        'p_small = "0.1"\nnegative = true\n',
        NOISE,
        BASE | {"p_small": Fraction(1, 10), "fp": None, "small": False},
        True,
    ),
    (
        FLEX + 'factors = [1, "0.5", "0.2"]\nmu_c = "0.5"\nsensitive = { threshold = 3 }\n',
        NOISE + SMALL,
        BASE | {"factors": [Fraction(1), Fraction(1, 2), Fraction(1, 5)], "mu_c": Fraction(1, 2), "threshold": 3},
        False,
    ),
]


@pytest.mark.parametrize(("settings", "tables", "part", "negative"), CASES)
def test_every_published_value_is_the_one_worked_out_by_hand(
    tmp_path: Path, settings: str, tables: str, part: dict[str, Any], negative: bool
) -> None:
    records = firms(negative=negative)
    release = confide.run(write(tmp_path, "[magnitude]\n" + settings + tables, records), processes=1).release
    for name, variables, levels in TABLES:
        rows = read_labelled(release / f"tables/{name}.parquet").to_pylist()
        found = {tuple(row.values())[:-1]: Fraction(row["value"]) for row in rows}
        expected = {}
        for level in levels or [None]:  # type: ignore[list-item]
            for labels, cell in true_values(records, variables, level).items():
                if figure := by_hand(cell, part):
                    expected[labels] = figure
        assert found == expected
        assert len(found) == len(rows)
    assert confide.verify(release).ok


def test_a_worked_example() -> None:
    """600 + 400, p = 0.1: a step is 60, the value 16 steps, the last row. The key 30 has the noise -1/2: 1000 - 30."""
    table = PTable(
        (LookupRow(0, (0,), (100,)), LookupRow(1, (-2, 1), (50, 100)), LookupRow(4, (-1, 1), (50, 100))), 100, step=2
    )
    part = MagnitudePart.model_validate({"noise": {"D": 1, "V": "1"}, "p_small": "0.1"})
    noise = MagnitudeNoise(part, {"noise": table}, 0, 100)
    values = CellValues(*(np.array(each) for each in ([1000, 90], [[600], [90]], [600, 90], [400, 90])))
    sums = CellSums(np.arange(2), np.array([2, 1]), np.array([30, 80]), None, values)
    # One contribution of 90: a step is 9, ten steps; the key 80 has +1/2: 90 + 4.5, rounded away from zero.
    assert noise.perturb(sums, 1).tolist() == [970, 95]
    # Between the rows 1 and 4, at 2: a third of the way from -1 to -1/2.
    assert between_rows(table, Fraction(2), [0, -2, -1]) == Fraction(-5, 6)
    assert between_rows(table, Fraction(1, 3), [0, -2, -1]) == Fraction(-1, 3)
    assert moved(np.array([12345678]), 8).tolist() == [23456781]


@pytest.mark.parametrize("kind", ["mean", "range", "sum"])
def test_noise_in_proportion_to_one_figure_of_a_cell(kind: str) -> None:
    part = MagnitudePart.model_validate(
        {"noise": {"D": 1, "V": "1"}, "p_small": "0.1", "contributions": kind, "negative": True}
    )
    table = PTable((LookupRow(0, (0,), (100,)), LookupRow(1, (-1, 1), (50, 100))), 100)
    noise = MagnitudeNoise(part, {"noise": table}, 0, 100)
    values = CellValues(*(np.array(each) for each in ([-1000], [[1600]], [600], [-1600])))
    sums = CellSums(np.arange(1), np.array([4]), np.array([70]), None, values)
    step = {"mean": 25, "range": 220, "sum": 100}[kind]
    assert noise.perturb(sums, 1).tolist() == [-1000 - step]


def test_small_cells_have_steps_of_one_and_sensitive_cells_more_noise() -> None:
    """The separation point is 2 / 0.1 = 20. A cell of 9 has steps of one: 9 - 2; one of 50 steps of five: 50 - 5. Both
    are of one record, and sensitive by half a step. A cell of 50 of two records has no more than its own noise."""
    own = PTable((LookupRow(0, (0,), (100,)), LookupRow(1, (-1, 1), (50, 100))), 100)
    small = PTable((LookupRow(0, (0,), (100,)), LookupRow(2, (-2, 2), (50, 100))), 100)
    asked = {"noise": {"D": 1, "V": "1"}, "small": {"D": 2, "V": "4"}, "p_small": "0.1"}
    part = MagnitudePart.model_validate(asked | {"mu_c": "0.5", "sensitive": {"threshold": 1}})
    noise = MagnitudeNoise(part, {"noise": own, "small": small}, 1, 100)
    assert noise.separation_squared == 400
    values = CellValues(*(np.array(each) for each in ([9, 50, 50, 50], [[9], [50], [50], [50]], [9] * 4, [9] * 4)))
    sums = CellSums(np.arange(4), np.array([1, 1, 2, 2]), np.array([30, 30, 30, 80]), None, values)
    assert noise.perturb(sums, 1).tolist() == [65, 425, 450, 550]


def test_the_p_rule_looks_at_what_all_but_the_two_largest_give() -> None:
    """p = 10: with 600 as the largest, what all but the two largest give must come to 60. Of 600 + 300 + 60 it does,
    of 600 + 300 + 59 it does not: that cell has another half of a step of 60. Who is alone is sensitive, too."""
    table = PTable((LookupRow(0, (0,), (100,)), LookupRow(1, (-1, 1), (50, 100))), 100)
    asked = {"noise": {"D": 1, "V": "1"}, "p_small": "0.1", "mu_c": "0.5", "sensitive": {"p": 10}}
    noise = MagnitudeNoise(MagnitudePart.model_validate(asked), {"noise": table}, 0, 100)
    assert noise.top == 2
    largest = [[600, 300], [600, 300], [600, 0]]
    values = CellValues(*(np.array(each) for each in ([960, 959, 600], largest, [600] * 3, [59] * 3)))
    sums = CellSums(np.arange(3), np.array([3, 3, 1]), np.array([70, 70, 70]), None, values)
    assert noise.perturb(sums, 1).tolist() == [960 + 60, 959 + 90, 600 + 90]


def test_even_and_odd_numbers_of_records_have_tables_of_their_own() -> None:
    down, up = (PTable((LookupRow(0, (0,), (100,)), LookupRow(1, (v,), (100,))), 100) for v in (-1, 1))
    part = MagnitudePart.model_validate({"even": {"D": 1, "V": "1"}, "odd": {"D": 1, "V": "1"}, "p_small": "0.1"})
    noise = MagnitudeNoise(part, {"even": down, "odd": up}, 0, 100)
    values = CellValues(*(np.array(each) for each in ([500, 500], [[500], [500]], [500, 500], [0, 0])))
    sums = CellSums(np.arange(2), np.array([2, 3]), np.array([5, 5]), None, values)
    assert noise.perturb(sums, 1).tolist() == [450, 550]


def test_the_largest_contributions_of_a_union_are_among_those_of_its_parts() -> None:
    from confide.mechanisms.cellkey.keys import nobody, of_records

    draw = np.random.default_rng(3)
    for _ in range(30):
        cell, value = draw.integers(0, 4, 25), draw.integers(-50, 50, 25)
        key = draw.integers(0, 100, 25)
        whole = nobody(weighted=False, top=3)
        for part in np.array_split(np.arange(25), 4):
            whole = whole.plus(of_records(cell[part], key[part], None, value[part], 4, 3), 100)
        for at, number in enumerate(whole.cell.tolist()):
            mine = value[cell == number]
            assert whole.value is not None
            top = sorted(np.abs(mine).tolist(), reverse=True)[:3]
            assert whole.value.largest[at].tolist() == top + [0] * (3 - len(top))
            assert (whole.value.total[at], whole.value.greatest[at], whole.value.least[at]) == (
                mine.sum(),
                mine.max(),
                mine.min(),
            )
            assert whole.key[at] == key[cell == number].sum() % 100


def test_noise_has_the_law_of_its_table_whatever_the_order_of_keys() -> None:
    """All keys once: with and without a shuffle the same values, as often; no value crosses zero."""
    table = PTable(
        (
            LookupRow(0, (0,), (200,)),
            LookupRow(1, (-1, 0, 1), (60, 140, 200)),
            LookupRow(2, (-2, 0, 2), (50, 150, 200)),
        ),
        200,
    )
    part = MagnitudePart.model_validate({"noise": {"D": 2, "V": "1"}, "p_small": "0.5"})
    number = 200
    values = CellValues(*(np.full(shape, 3) for shape in (number, (number, 1), number, number)))
    sums = CellSums(np.arange(number), np.ones(number, np.int64), np.arange(number), None, values)
    plain = MagnitudeNoise(part, {"noise": table}, 1, 200).perturb(sums, 1)
    mixed = MagnitudeNoise(part, {"noise": table}, 1, 200, ReleaseKey.choose("5a" * 32)).perturb(sums, 1)
    assert sorted(plain) == sorted(mixed)
    assert plain.tolist() != mixed.tolist()
    assert plain.min() >= 0
    assert plain.mean() == 30


def test_a_release_says_what_it_is(tmp_path: Path) -> None:
    spec = write(tmp_path, "[magnitude]\n" + FLEX + NOISE + SMALL, cellkey="")
    release = confide.run(spec, processes=1).release
    manifest = json.loads((release / "manifest.json").read_text())
    assert "No value is off by more than 125 % of itself, or by 8 where" in manifest["privacy"]["in_words"][0]
    assert manifest["plan"]["question"]["order"] == "derived"
    assert "Statement on perturbed values" in (release / "statement.html").read_text()
    told = confide.evaluate(spec).accuracy.reveal("made-up people")
    assert told["programme"]["false_nonzeros"] == 0
    assert 0 < told["programme"]["without_empty"]["RAD"]["mean"] < 1
    with pytest.raises(ConfideError, match="cannot be audited"):
        confide.audit_noise(spec)
    with pytest.raises(ConfideError, match="no figures that count persons"):
        confide.reconstruct(release, schema=tmp_path / "town.toml")
    forge(release, "parquet", work=lambda t: t.slice(0, t.num_rows - 1))
    assert "work: the same in every format" in failed(release)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (('p_large = "0.05"\n', ""), "flex"),
        (("q = 3", "q = 2"), "flex"),
        (("[magnitude.small]\nD = 8", "[magnitude.small]\n#"), "ptable"),
        (("[magnitude]\n", "[magnitude]\nmu_c = 1\n"), "sensitive"),
        (("[magnitude]\n", '[magnitude]\nfactors = ["0.5", 1]\n'), "factors"),
        (("[cellkey]\n", "[cellkey]\nkeys = 256\n[magnitude.x]\n"), "unknown-key"),
        (("[cellkey]\n", "[cellkey]\nD = 5\n"), "ptable"),
        (('value = "value"\n', ""), "magnitude"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, change: tuple[str, str], code: str) -> None:
    spec = write(tmp_path, "[magnitude]\n" + FLEX + NOISE + SMALL)
    assert change[0] in spec.read_text()
    spec.write_text(spec.read_text().replace(*change, 1))
    with pytest.raises(SpecError) as error:
        question_of(spec, tmp_path / "scratch")
    assert code in {finding.code for finding in error.value.findings}


@pytest.mark.parametrize(("value", "what"), [("-3", "cannot be added up"), ("x", "cannot be added up"), ("9" * 15, "")])
def test_values_that_cannot_be_added_up(tmp_path: Path, value: str, what: str) -> None:
    records = firms()
    texts = [value, *records.column("value").to_pylist()[1:]]
    if not what:
        texts = [value] * len(texts)
        what = "too large"
    changed = records.set_column(records.column_names.index("value"), "value", pa.array(texts))
    with pytest.raises(ConfideError, match=what):
        confide.run(write(tmp_path, "[magnitude]\n" + FLEX + NOISE + SMALL, changed), processes=1)


def test_keys_of_records_without_a_contribution_can_be_left_out(tmp_path: Path) -> None:
    records = firms()
    base = "[magnitude]\n" + FLEX + "zero_keys = false\n" + NOISE + SMALL
    release = confide.run(write(tmp_path, base, records), processes=1).release
    rows = read_labelled(release / "tables/sex.parquet").to_pylist()
    cells = true_values(records.filter(pa.compute.not_equal(records.column("value"), "0.00")), ["sex"], None)
    everybody = true_values(records, ["sex"], None)
    for row in rows:
        cell = everybody[row["sex"],] | {"key": cells[row["sex"],]["key"]}
        assert Fraction(row["value"]) == by_hand(cell, BASE)
