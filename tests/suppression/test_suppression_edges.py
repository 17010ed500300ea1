"""Cell suppression and its audit at their edges: large figures, odd files, people who are alone in several tables."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from tests.kits.suppression import plain_interval, random_table, table
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app
from confide.errors import ConfideError, ParameterError
from confide.mechanisms.suppression import Levels, flat
from confide.mechanisms.suppression.attacker import Attacker
from confide.mechanisms.suppression.heuristic import heuristic
from confide.mechanisms.suppression.optimal import optimal
from confide.mechanisms.suppression.structure import TableDimensions, link, minimise
from confide.mechanisms.suppression.suppress import joined, pose, with_totals

PLAIN = "[variables.r]\n[variables.c]\n[[tables]]\nfile = 't.csv'\n"
FIGURES = {
    ("_T", "_T"): 20, ("_T", "x"): 8, ("_T", "y"): 12,
    ("a", "_T"): 9, ("a", "x"): "", ("a", "y"): "",
    ("b", "_T"): 11, ("b", "x"): "", ("b", "y"): "",
}  # fmt: skip


def told(folder: Path, figures, description: str = PLAIN, head: str = "r,c,count") -> tuple[int, dict]:
    """What the audit says of a table: figures by cell, or several columns by cell."""
    rows = [(*cell, *(shown if isinstance(shown, tuple) else (shown,))) for cell, shown in figures.items()]
    (folder / "t.csv").write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    (folder / "table.toml").write_text(description)
    return asked(folder)


def asked(folder: Path, *options: str) -> tuple[int, dict]:
    result = CliRunner().invoke(app, ["audit", "suppression", str(folder), "--json", *options])
    if isinstance(result.exception, ConfideError):
        return 1, {"findings": [finding.as_dict() for finding in result.exception.findings]}
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, json.loads(result.stdout)


# --- large figures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 10**7, 10**12])
@pytest.mark.parametrize("integer", [True, False])
def test_a_cell_is_as_known_beside_large_figures_as_beside_small_ones(
    tmp_path: Path, scale: int, integer: bool
) -> None:
    figures = {
        ("_T", "_T"): "", ("_T", "x"): "", ("_T", "y"): 2 * scale,
        ("a", "_T"): scale + 3, ("a", "x"): "", ("a", "y"): scale,
        ("b", "_T"): "", ("b", "x"): "", ("b", "y"): scale,
    }  # fmt: skip
    code, found = told(tmp_path, figures, f"{PLAIN}[attacker]\ninteger = {str(integer).lower()}\n")
    assert code == 1
    (row,) = [row for row in found["intervals"] if row["exact"]]
    assert row["cell"] == {"r": "a", "c": "x"}
    assert (row["lower"], row["upper"]) == pytest.approx((3, 3), abs=0 if integer else 1e-3)
    assert min(row["lower"] for row in found["intervals"]) >= 0


def test_two_neighbouring_large_figures_are_not_one(tmp_path: Path) -> None:
    big = 3_000_000
    figures = FIGURES | {("_T", "_T"): big + 1 + 12, ("_T", "x"): big + 1, ("a", "_T"): 1, ("b", "_T"): big + 12}
    _, found = told(tmp_path, figures)
    (row,) = [row for row in found["intervals"] if row["cell"] == {"r": "b", "c": "x"}]
    assert (row["lower"], row["upper"], row["exact"]) == (big, big + 1, False)


def test_a_small_difference_of_large_figures_is_one(tmp_path: Path) -> None:
    figures = {("_T", "_T"): 10_000_000, ("a", "_T"): 4_999_999, ("b", "_T"): 5_000_000}
    code, found = told(tmp_path, figures)
    assert (code, found["findings"][0]["code"]) == (1, "does-not-add-up")
    assert "over r" in found["findings"][0]["what"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("large", [10**7, 10**12])
def test_a_large_published_cell_moves_no_interval(seed: int, large: int) -> None:
    """A published cell, and all totals above it, grow by the same amount: what is hidden stays as open as it was."""
    linked, value = random_table(seed)
    structure, (layout,) = linked.structure, linked.tables
    rng = np.random.default_rng(seed)
    hidden = rng.random(structure.cells) < 0.4
    inner = np.bincount(structure.total, minlength=structure.cells) == 0
    leaf = int(rng.choice(np.flatnonzero(inner & ~hidden)))
    above = []
    for dimension, code in zip(
        layout.dimensions, layout.places[np.flatnonzero(linked.numbers[0] == leaf)[0]], strict=True
    ):
        chain = [int(code)]
        while dimension.parent[chain[-1]] >= 0:
            chain.append(dimension.parent[chain[-1]])
        above.append(chain)
    shift = np.zeros(layout.shape)
    shift[np.ix_(*above)] = large
    grown = np.zeros(structure.cells)
    grown[linked.numbers[0]] = shift.reshape(-1)
    none, high = np.zeros(structure.cells), np.full(structure.cells, np.inf)
    small = Attacker(structure, value.astype(float), hidden, none - np.where(hidden, grown, 0), high, integer=True)
    whole = Attacker(structure, value + grown, hidden, none, high, integer=True)
    expected, found = small.intervals(), whole.intervals()
    np.testing.assert_array_equal(found.low, expected.low + grown)
    np.testing.assert_array_equal(found.high, expected.high + grown)


def test_an_optimum_is_one_to_the_last_digit() -> None:
    """Covers that cost 1,000,226 and 1,000,196: within the solver's own 0.01 % of each other, and not the same."""
    rng = np.random.default_rng(2)
    cover = (rng.random((40, 60)) < 0.1).astype(float)
    cover[np.arange(40), rng.integers(0, 60, 40)] = 1
    cost, ends = 1e5 + rng.integers(0, 50, 60), (np.ones(40), np.full(40, np.inf))
    found = minimise(cost, sparse.csr_array(cover), ends, np.zeros(60), np.ones(60), integer=True)
    assert found is not None
    assert (found.cost, found.bound) == pytest.approx((1_000_196, 1_000_196), abs=0.01)


# --- files of others -----------------------------------------------------------------------------------------------


def test_a_cell_without_a_status_is_published(tmp_path: Path) -> None:
    """Flags that stand only where a cell is confidential, as in many published files."""
    shown = {("a", "y"): 5, ("b", "x"): 4, ("b", "y"): 7}
    figures = {cell: (shown.get(cell, n), "" if n or cell in shown else "c") for cell, n in FIGURES.items()}
    code, found = told(tmp_path, figures, PLAIN + "status = 'flag'\n", "r,c,count,flag")
    assert (code, found["suppressed"], found["disclosed"]) == (1, 1, 1)
    listed = PLAIN + "status = 'flag'\nsuppressed = ['', 'c']\n"
    assert told(tmp_path, figures, listed, "r,c,count,flag")[1]["suppressed"] == 9


def test_figures_beside_their_marks_are_not_looked_at_and_that_is_said(tmp_path: Path) -> None:
    figures = {cell: (n or 6, "" if n else "c") for cell, n in FIGURES.items()}
    code, found = told(tmp_path, figures, PLAIN + "status = 'flag'\n", "r,c,count,flag")
    assert (code, found["suppressed"], found["figures_beside_marks"]) == (0, 4, 4)
    text = CliRunner().invoke(app, ["audit", "suppression", str(tmp_path)])
    assert "4 cells are marked as suppressed with a figure" in text.stderr


def test_totals_that_are_called_otherwise_are_asked_for(tmp_path: Path) -> None:
    figures = {tuple(code.replace("_T", "Total") for code in cell): n for cell, n in FIGURES.items()}
    findings = told(tmp_path, figures)[1]["findings"]
    assert [(finding["code"], finding["where"]["column"]) for finding in findings] == [
        ("nothing-added-up", "r"),
        ("nothing-added-up", "c"),
    ]
    named = PLAIN.replace("[variables.r]", "[variables.r]\ntotal = 'Total'")
    (finding,) = told(tmp_path, figures, named)[1]["findings"]
    assert finding["where"]["column"] == "c"
    unlisted = named.replace("[variables.c]", "[variables.c]\nadds_up = false")
    assert told(tmp_path, figures, unlisted)[1]["without_totals"] == ["c"]


def test_figures_that_are_no_whole_numbers_must_be_said_to_be_so(tmp_path: Path) -> None:
    halves = {cell: n and n / 2 for cell, n in FIGURES.items()}
    code, found = told(tmp_path, halves)
    (finding,) = found["findings"]
    assert (code, finding["code"], finding["where"]["row"]) == (1, "not-whole", 4)
    assert "integer = false" in finding["remedy"]
    code, found = told(tmp_path, halves, PLAIN + "[attacker]\ninteger = false\n")
    assert (code, found["intervals"][1]["lower"]) == (0, 0.5)


def test_no_whole_numbers_fit(tmp_path: Path) -> None:
    """Every line of two hidden cells has the sum one; known to be a half at least, each would be just that."""
    figures = FIGURES | {("_T", "_T"): 2} | dict.fromkeys([("_T", "x"), ("_T", "y"), ("a", "_T"), ("b", "_T")], 1)
    assert told(tmp_path, figures)[0] == 0
    code, found = told(tmp_path, figures, PLAIN + "[attacker]\nlow = 0.5\n")
    assert (code, found["findings"][0]["code"]) == (1, "does-not-add-up")


def test_what_cannot_stand_is_said_with_a_cell(tmp_path: Path) -> None:
    _, found = told(tmp_path, FIGURES | {("a", "x"): 30})
    (finding,) = found["findings"]
    assert finding["code"] == "does-not-add-up"
    assert finding["where"]["path"] == "t: r = b, c = x"
    assert finding["found"].startswith("3 hidden cells")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "no rows"),
        ("r,c,count\n", "no rows"),
        ("r,c,count\n_T,_T,4\na,x\n", "2 columns, 3 in the header"),
        ("r,c,count,count\n_T,_T,4,4\n", "two columns 'count'"),
        (f"r,c,count\n_T,_T,{10**16}\n", "'10000000000000000'"),
        (None, "no such file"),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path: Path, content: str | None, found: str) -> None:
    (tmp_path / "table.toml").write_text(PLAIN)
    if content is not None:
        (tmp_path / "t.csv").write_text(content)
    _, answer = asked(tmp_path)
    (finding,) = answer["findings"]
    assert finding["found"] == found
    assert finding["expected"]
    assert finding["remedy"]


@pytest.mark.parametrize(
    "wrong", ["delimiter = ';;'", "[attacker]\nlow = 5\nhigh = 2", "[attacker]\nlow = nan", "[protection]\nwidth = inf"]
)
def test_descriptions_that_cannot_be_are_findings(tmp_path: Path, wrong: str) -> None:
    code, found = told(tmp_path, FIGURES, f"{PLAIN}{wrong}\n")
    assert (code, found["findings"][0]["code"]) == (1, "table-description")


def test_cells_that_are_missing_as_zeros_must_be_zero_elsewhere(tmp_path: Path) -> None:
    rows = [(*cell, 2 if n == "" else n) for cell, n in FIGURES.items()]
    rows = [row for row in rows if row[0] != "b" and row[1] != "_T"]
    (tmp_path / "one.csv").write_text("r,c,count\n" + "".join(f"{r},{c},{n}\n" for r, c, n in rows))
    (tmp_path / "two.csv").write_text("r,c,count\n_T,x,8\n_T,y,12\na,x,2\n")
    two = "[[tables]]\nfile = 'one.csv'\n[[tables]]\nfile = 'two.csv'\nmissing = 'zero'\n"
    (tmp_path / "table.toml").write_text("[variables.r]\n[variables.c]\n" + two)
    assert asked(tmp_path)[1]["findings"][0]["code"] == "tables-disagree"


def test_codes_of_the_truth_are_not_shown(tmp_path: Path) -> None:
    told(tmp_path, FIGURES)
    truth = tmp_path / "truth.csv"
    truth.write_text((tmp_path / "t.csv").read_text().replace(",\n", ",4\n") + "hush,x,1\n")
    _, found = asked(tmp_path, "--truth", str(truth))
    assert found["findings"][0]["code"] == "unknown-code"
    assert "hush" not in json.dumps(found)
    _, found = asked(tmp_path, "--truth", str(tmp_path / "nowhere.csv"))
    assert found["findings"][0]["where"]["file"] == "nowhere.csv"


# --- who knows what ------------------------------------------------------------------------------------------------


PAIRS = [("u", "v"), ("u", "w"), ("v", "w")]


def three_tables(seed: int):
    """Records of three variables, counted two by two, and for each cell the sum of the numbers of those in it."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(8, 30))
    sizes = {name: int(rng.integers(2, 4)) for name in "uvw"}
    records = {name: rng.choice(size, number, p=rng.dirichlet(np.ones(size) * 0.7)) for name, size in sizes.items()}
    return records, sizes


@pytest.mark.parametrize("seed", [11, 38])
def test_nobody_who_is_alone_in_cells_of_several_tables_knows_another_cell_by_all_of_them(
    tmp_path: Path, seed: int
) -> None:
    """From records to files. That two single cells of different tables are one person, the tables do not tell."""
    records, sizes = three_tables(seed)
    people = {name: pa.array([f"{name}{code}" for code in codes]) for name, codes in records.items()}
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    schema = ['id = "three"', 'provenance = "made up for tests"']
    for name, size in sizes.items():
        levels = ", ".join(f'["{name}{code}", "{name}{code}"]' for code in range(size))
        schema.append(f'[attributes.{name}]\ntitle = "{name}"\nlevels = [{levels}]')
    (tmp_path / "schema.toml").write_text("\n".join(schema))
    spec = ['[release]\nname = "out"\nmechanism = "suppression"\ntitle = "t"', "[suppression]\nthreshold = 1"]
    spec += ['[data]\nrecords = "people.parquet"\nschema = "schema.toml"']
    spec += [f'[[tables]]\nname = "{one}{other}"\nvariables = ["{one}", "{other}"]' for one, other in PAIRS]
    (tmp_path / "spec.toml").write_text("\n".join(spec))
    api.run(tmp_path / "spec.toml")
    dimensions = {name: flat(name, [f"{name}{code}" for code in range(size)]) for name, size in sizes.items()}
    linked, value, who = counted(records, sizes, dimensions)
    hidden = np.zeros(len(value), np.bool_)
    for (one, other), layout, numbers in zip(PAIRS, linked.tables, linked.numbers, strict=True):
        rows = pq.read_table(tmp_path / f"out/release/tables/{one}{other}.parquet").to_pylist()
        gone = {(row[one], row[other]) for row in rows if row["status"] == "suppressed"}
        codes = [[d.codes[at] for d, at in zip(layout.dimensions, place, strict=True)] for place in layout.places]
        hidden[numbers] = [tuple(each) in gone for each in codes]
    single = value == 1
    assert hidden[single].all()
    posed = pose(linked, value, Levels.none(len(value)), zeros="secondary", weight="log", single=single)
    for cell, person in product(np.flatnonzero(single), np.unique(who[single])):
        if who[cell] != person:
            known = np.flatnonzero(single & (who == person))
            low, high = plain_interval(posed, hidden.copy(), cell, known)
            assert high - low >= 1 - 1e-6


def counted(records, sizes, dimensions):
    linked = link([TableDimensions(one + other, (dimensions[one], dimensions[other])) for one, other in PAIRS])
    found = []
    for amount in (np.ones(len(records["u"]), np.int64), np.arange(len(records["u"]))):
        tables = []
        for pair in PAIRS:
            inner = np.zeros([sizes[name] for name in pair], np.int64)
            np.add.at(inner, tuple(records[name] for name in pair), amount)
            tables.append(with_totals([dimensions[name] for name in pair], inner))
        found.append(joined(linked, tables))
    return linked, *found


@pytest.mark.parametrize("method", [heuristic, optimal])
def test_a_sum_of_zero_that_somebody_contributes_to_is_a_secret_too(method) -> None:
    """Somebody alone in a hidden cell beside it would learn that another one has nothing."""
    dimensions = [flat("row", ["a", "b"]), flat("column", ["p", "q", "r"])]
    linked, value = table(dimensions, [[0, 57, 56], [44, 0, 45]])
    own, other = (int(linked.numbers[0].reshape(3, 4)[at, at]) for at in (1, 2))
    single = np.zeros(len(value), np.bool_)
    single[[own, other]] = True
    one = single.astype(np.int64)
    rest = {"levels": Levels(single, np.zeros_like(one), one, one), "zeros": "secondary", "weight": "constant"}
    posed = pose(linked, value, single=single, inhabited=np.ones_like(single), **rest)
    low, high = plain_interval(posed, method(posed).suppressed.copy(), other, known=[own])
    assert high - low >= 1 - 1e-6
    counts = pose(linked, value, single=single, **rest)
    low, high = plain_interval(counts, method(counts).suppressed.copy(), other, known=[own])
    assert high == low == 0


def test_refusals_say_what_to_do() -> None:
    dimensions = [flat("row", ["a", "b"]), flat("column", ["p", "q"])]
    linked, value = table(dimensions, [[0, 5], [6, 7]])
    none = np.zeros(len(value), np.bool_)
    levels = Levels(value == 0, np.zeros_like(value), (value == 0).astype(np.int64), np.zeros_like(value))
    for change in ({"value": value - 9}, {"value": value + 1}, {"zeros": "published"}):
        arguments = {"value": value, "zeros": "secondary"} | change
        with pytest.raises(ParameterError) as caught:
            pose(linked, levels=levels, weight="log", single=none, **arguments)
        (finding,) = caught.value.findings
        assert finding.found
        assert finding.expected
        assert finding.remedy
