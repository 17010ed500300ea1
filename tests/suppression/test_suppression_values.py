"""Values of any kind in magnitudes: decimals, negative and very large ones, weights, firms of several records."""

from __future__ import annotations

import csv
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.labelled import read_labelled
from tests.kits.magnitudes import Firms, Rule

import confide
from confide import api
from confide.engines import LocalEngine
from confide.errors import ConfideError
from confide.mechanisms.suppression.counting import primary_levels, read_truth, write_grouped
from confide.mechanisms.suppression.output import _together as together
from confide.mechanisms.suppression.output import read_table
from confide.mechanisms.suppression.problem import contributors_of, contributors_of_largest
from confide.mechanisms.suppression.programme import described, prepare
from confide.mechanisms.suppression.spec import digits_of, figure_type, published_figures, units_of
from confide.releases.folder import read_manifest

SCHEMA = """
id = "firms"
provenance = "made up for tests"
[attributes.region]
title = "region"
levels = [["N", "north"], ["E", "east"], ["S", "south"], ["W", "west"]]
[attributes.trade]
title = "trade"
levels = [["a", "farming"], ["b", "building"], ["c", "services"]]
"""
SPEC = """
[release]
name = "firms"
mechanism = "suppression"
[data]
records = "firms.csv"
schema = "schema.toml"
value = "turnover"
{data}
[suppression]
{rule}
[[tables]]
name = "both"
variables = ["region", "trade"]
[output]
formats = ["parquet", "csv", "sdmx-csv"]
"""
HEAD = ["region", "trade", "firm", "w", "turnover"]
LABELS = {"N": "north", "E": "east", "S": "south", "W": "west", "a": "farming", "b": "building", "c": "services"}


def rows(number: int = 60, seed: int = 2) -> list[dict[str, str]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "region": str(rng.choice(list("NESW"), p=[0.4, 0.3, 0.2, 0.1])),
            "trade": str(rng.choice(list("abc"), p=[0.2, 0.3, 0.5])),
            "firm": f"f{rng.integers(0, 40)}",
            "w": f"{rng.integers(1_000, 9_000) / 1_000:.3f}",
            "turnover": f"{int(np.ceil(rng.pareto(1) * 5_000)) / 100:.2f}",
        }
        for _ in range(number)
    ]


def laid_out(folder: Path, records: list[dict[str, str]], data: str = "", rule: str = "p = 10") -> Path:
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(SPEC.format(data=data, rule=rule))
    with (folder / "firms.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, HEAD, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    return folder / "spec.toml"


def firms_of(records, added, owner, below: int = 0) -> Firms:
    """The same records for the attacker of the tests, in whole numbers."""
    trees = {"region": {"_T": ["N", "E", "S", "W"]}, "trade": {"_T": ["a", "b", "c"]}}
    codes = [{"region": row["region"], "trade": row["trade"]} for row in records]
    return Firms(trees, [("region", "trade")], codes, added, owner, below)


def published(release: Path) -> dict[frozenset, Decimal | int | None]:
    code = {label: at for at, label in LABELS.items()}
    found = {}
    for row in read_labelled(release / "tables" / "both.parquet").to_pylist():
        at = frozenset((name, code[row[name]]) for name in ("region", "trade") if row[name] != "_T")
        found[at] = row["value"]
    return found


def test_decimals_weights_and_firms_of_several_records(tmp_path: Path) -> None:
    """Figures are exact sums of weight times value; a firm counts once in a cell; and nobody bounds another."""
    records = rows()
    declared = 'unit = "1/100"\ncontributor = "firm"\nweight = "w"\nweight_unit = "1/1000"'
    spec = laid_out(tmp_path, records, declared, "p = 10\nthreshold = 2")
    assert not api.check(spec).errors
    release = api.run(spec).release
    assert api.verify(release).ok
    numbers = sorted({row["firm"] for row in records})
    added = [int(Fraction(row["turnover"]) * Fraction(row["w"]) * 10**5) for row in records]
    firms = firms_of(records, added, [numbers.index(row["firm"]) for row in records])
    found = published(release)
    assert set(found) == set(firms.cells)
    for cell, figure in found.items():
        assert figure is None or figure == Decimal(firms.figure(cell)).scaleb(-5)
    hidden = {cell for cell, figure in found.items() if figure is None}
    assert 0 < len(hidden) < len(found)
    assert not firms.too_tight(hidden, Rule(p=10, threshold=2))
    # The three formats say the same, and so does the audit, in the unit of the figures.
    assert (release / "tables" / "both.csv").read_text().splitlines()[1].split(",")[5].count(".") == 1
    dossier = api.evaluate(tmp_path / "firms").accuracy.reveal("a test")
    assert dossier["insiders"]["cells"] == dossier["insiders"]["kept_from_contributors"] > 0
    assert dossier["insiders"]["sensitive_unions"] == 0
    assert dossier["programme"]["value"] == pytest.approx(sum(map(firms.figure, firms.cells)) / 10**5)
    words = (release / "statement.html").read_text()
    assert "without weights" in words.replace("\n", " ")
    assert "none can bound what another gave" in words.replace("\n", " ")
    assert confide.audit_suppression(release).ok


def test_two_rivals_and_their_small_neighbours(tmp_path: Path) -> None:
    """1,000,000 and 900,000 are alone in their cells; five of 1 cannot hide one from the other."""
    amounts = {"N": [1_000_000], "E": [900_000], "S": [1] * 5, "W": [5_000] * 39}
    records = [
        {"region": region, "trade": "a", "firm": "", "w": "1", "turnover": str(x)}
        for region, each in amounts.items()
        for x in each
    ]
    spec = laid_out(tmp_path, records)
    spec.write_text(spec.read_text().replace('["region", "trade"]', '["region"]'))
    release = api.run(spec).release
    assert api.verify(release).ok
    figures = {row["region"]: row["value"] for row in read_labelled(release / "tables" / "both.parquet").to_pylist()}
    assert figures["north"] is figures["east"] is None
    # What is left to the rival is at least a tenth too much.
    parts = [figures[label] for label in ("south", "west") if figures[label] is not None]
    assert figures["_T"] is None or figures["_T"] - sum(parts) - 900_000 >= 1_100_000


def test_negative_values(tmp_path: Path) -> None:
    records = rows(50, 4)
    for at, row in enumerate(records):
        row["turnover"] = str((-1 if at % 3 == 0 else 1) * min(900, int(float(row["turnover"]))))
    spec = laid_out(tmp_path, records, 'below_zero = "1000"', "dominance = { n = 1, k = 60 }")
    release = api.run(spec).release
    assert api.verify(release).ok
    firms = firms_of(records, [int(row["turnover"]) for row in records], list(range(50)), 1_000)
    found = published(release)
    assert all(figure is None or figure == firms.figure(cell) for cell, figure in found.items())
    assert any(figure is not None and figure < 0 for figure in found.values())
    hidden = {cell for cell, figure in found.items() if figure is None}
    assert hidden
    assert not firms.too_tight(hidden, Rule(k=60))


def test_values_beyond_a_float_stay_exact(tmp_path: Path) -> None:
    """Sums of more than 2^53 are published to the last digit, and one that is off by one is noticed."""
    records = rows(60, 6)
    for row in records:
        row["turnover"] = str(10**14 + 10**12 * int(float(row["turnover"])) + int(float(row["turnover"])) % 7)
    release = api.run(laid_out(tmp_path, records, rule="p = 10")).release
    assert api.verify(release).ok
    firms = firms_of(records, [int(row["turnover"]) for row in records], list(range(60)))
    found = published(release)
    assert all(figure is None or figure == firms.figure(cell) for cell, figure in found.items())
    assert found[frozenset()] > 2**53
    hidden = {cell for cell, figure in found.items() if figure is None}
    assert hidden
    assert not firms.too_tight(hidden, Rule(p=10))
    dossier = api.evaluate(tmp_path / "firms").accuracy.reveal("a test")
    assert dossier["intervals"]["primary"]["protected"] == dossier["intervals"]["primary"]["cells"] > 0
    assert dossier["intervals"]["complementary"]["known_exactly"] == 0
    with pytest.raises(ConfideError, match="too many digits"):
        confide.audit_suppression(release)
    # A total that is off by one in its last digit: a float would not see it.
    question = read_manifest(release)["plan"]["question"]
    programme = described(question)
    figures, flags = read_table(release / "tables" / "both.csv", "csv", programme.tables[0], magnitude=True)
    structure = programme.linked.structure
    numbers = programme.linked.numbers[0]
    complete = abs(structure.matrix) @ flags[np.argsort(numbers)].astype(float) == 0
    figures[numbers == structure.total[complete][0]] += 1
    checks = {check.name: check.ok for check in together(programme, [(figures, flags)], question)}
    assert not checks["published cells add up"]


@pytest.mark.parametrize(
    ("changed", "data", "words"),
    [
        ({"turnover": "12.5"}, "", 'declare [data] unit = "1/10"'),
        ({"turnover": "12.345"}, 'unit = "1/100"', 'declare [data] unit = "1/1000"'),
        ({"turnover": "-3"}, "", "if values can be negative, declare how far in [data] below_zero"),
        ({"turnover": "-30"}, 'below_zero = "20"', "declare a larger [data] below_zero"),
        ({"turnover": "1e5"}, "", "correct the records"),
        ({"turnover": "4" * 20}, "", "correct the records"),
        ({"turnover": "9" * 18}, "", 'declare a larger unit, such as [data] unit = "1000"'),
        ({"w": "1.5"}, 'weight = "w"', 'declare [data] weight_unit = "1/10"'),
        ({"w": "0"}, 'weight = "w"', "stand for nobody"),
        ({"firm": ""}, 'contributor = "firm"', "a record of nobody else has a code of its own"),
        ({}, 'contributor = "holding"', "name the column in [data] contributor"),
    ],
)
def test_what_does_not_fit_is_a_finding_with_the_right_remedy(tmp_path: Path, changed, data: str, words: str) -> None:
    records = [row | {"turnover": "7", "w": "2"} for row in rows(20)]
    if changed.get("turnover") == "9" * 18:
        records = [row | changed for row in records]
    records[4] |= changed
    (finding,) = api.check(laid_out(tmp_path, records, data)).findings
    assert words in finding.remedy
    assert all(value not in str(finding) for value in changed.values() if len(value) > 3)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ('unit = "1/3"', "unit"),
        ('weight_unit = "1/10"', "unit"),
        ('below_zero = "1/2"', "unit"),
        ('value_unit = "1"', "unknown-key"),
    ],
)
def test_declarations_that_cannot_be_are_refused(tmp_path: Path, data: str, code: str) -> None:
    spec = laid_out(tmp_path, rows(20), data)
    with pytest.raises(ConfideError) as caught:
        api.check(spec)
    assert code in [finding.code for finding in caught.value.findings]


def test_floats_are_not_exact_and_decimals_are(tmp_path: Path) -> None:
    spec = laid_out(tmp_path, rows(20), 'unit = "1/100"')
    spec.write_text(spec.read_text().replace("firms.csv", "firms.parquet"))
    table = pa.Table.from_pylist(rows(20)).select(["region", "trade"])
    amounts = [Decimal(row["turnover"]) for row in rows(20)]
    pq.write_table(table.append_column("turnover", pa.array(map(float, amounts))), tmp_path / "firms.parquet")
    (finding,) = api.check(spec).findings
    assert finding.code == "no-value"
    pq.write_table(table.append_column("turnover", pa.array(amounts, pa.decimal128(20, 4))), tmp_path / "firms.parquet")
    assert not api.check(spec).findings


@given(st.lists(st.integers(-(1 << 61), 1 << 61), max_size=6), st.integers(0, 9), st.sampled_from([1, 2, 5, 25]))
def test_figures_go_out_and_come_back(numbers: list[int], digits: int, step: int) -> None:
    unit = Fraction(step, 10**digits)
    assert digits_of(unit) is not None
    if unit.denominator == 1 and unit > 1:
        numbers = [number // 25 for number in numbers]
    figures = published_figures(np.array(numbers, np.int64), unit)
    assert figures.type == figure_type(unit)
    assert [Fraction(figure) for figure in figures.to_pylist()] == [number * unit for number in numbers]
    back = units_of(figures, unit)
    assert back is not None
    assert back.tolist() == numbers


def test_a_figure_between_two_multiples_is_none() -> None:
    assert units_of(pa.array([Decimal("0.01")], pa.decimal128(38, 2)), Fraction(1, 50)) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=25
    )
)
def test_contributors_by_hand(entries: list[tuple[int, int, int, int]]) -> None:
    cell, person, amount, known = (np.array(column, np.int64) for column in zip(*entries, strict=True))
    base = np.array([0, -3, 5, 0])
    of = contributors_of(cell, person, amount, known, base)
    amounts: dict[tuple[int, int], int] = defaultdict(int)
    floors: dict[tuple[int, int], int] = defaultdict(int)
    for c, who, x, lift in entries:
        amounts[c, who] += x
        floors[c, who] += lift
    for c in range(4):
        own = {who: base[c] + floor for (at, who), floor in floors.items() if at == c}
        assert of.alone[c] == (next(iter(own)) if len(own) == 1 else -1)
        for figure in (-4, 0, 5, 9, 30):
            assert sorted(of.above(c, figure)) == sorted(who for who, floor in own.items() if floor > figure)
        assert of.size[c] == sum(x for (at, _), x in amounts.items() if at == c)
    for who in range(5):
        expected = {c: base[c] + floor for (c, at), floor in floors.items() if at == who}
        assert of.known_by(who) == expected
    number, largest = of.largest(2)
    for c in range(4):
        falling = sorted((x for (at, _), x in amounts.items() if at == c), reverse=True)
        assert number[c] == len(falling)
        assert largest[c].tolist() == [*falling, 0, 0][:2]
    # Two cells put together: what was given to both, and what is known of both.
    both = of.merged(np.array([0, 1]), np.array([0, 0]), 1, base[:2])
    for who in both.known_by(0) and both.everybody:
        expected = sum(max(base[c], base[c] + floors[c, who]) if (c, who) in floors else base[c] for c in (0, 1))
        assert both.known_by(who) == {0: expected}
    assert both.size[0] == of.size[0] + of.size[1]
    # Without names each is somebody else, and knows as much.
    known_only = contributors_of_largest(largest, number, np.zeros(4, np.int64))
    assert [known_only.alone[c] >= 0 for c in range(4)] == [n == 1 for n in number]


def test_a_cell_that_several_tables_have_has_its_contributors_once(tmp_path: Path) -> None:
    """Three firms of 60, 30 and 10 in all, which two tables have as their total; region N has two of them."""
    records = [
        {"region": region, "trade": trade, "firm": "f", "w": "1", "turnover": turnover}
        for region, trade, turnover in (("N", "a", "60"), ("N", "b", "30"), ("S", "a", "10"))
    ]
    spec = laid_out(tmp_path, records, rule="p = 20")
    one = '[[tables]]\nname = "both"\nvariables = ["region", "trade"]'
    two = '[[tables]]\nname = "where"\nvariables = ["region"]\n[[tables]]\nname = "what"\nvariables = ["trade"]'
    spec.write_text(spec.read_text().replace(one, two))
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        problem = prepare(api.load(spec), engine)
        write_grouped(engine, problem, tmp_path / "grouped.parquet")
    truth = read_truth(problem, tmp_path / "grouped.parquet")
    assert truth.contributors is not None
    assert truth.contributors.size.tolist() == truth.value.tolist()
    where, what = problem.programme.linked.numbers
    assert where[0] == what[0]
    number, largest = truth.contributors.largest(2)
    assert (number[where].tolist(), largest[where].tolist()[:2]) == ([3, 2, 0, 1, 0], [[60, 30], [60, 30]])
    # The second largest knows the largest to within 10 of the total, where the rule asks for 12.
    assert primary_levels(problem, truth).upper[where[0]] == 2
