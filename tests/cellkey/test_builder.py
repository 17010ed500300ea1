"""Tables on request: the same members have the same figure, in a release, in any table, under any filter."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.labelled import labelled
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app
from confide.engines import LocalEngine
from confide.errors import ConfideError, InputError, ParameterError
from confide.mechanisms.cellkey.cellkey_answers import build_table, understand
from confide.mechanisms.cellkey.keys import draw_keys
from confide.mechanisms.cellkey.programme import CellKeyProblem, prepare
from confide.noise import ReleaseKey

SCHEMA = """
id = "few"
provenance = "made up"
[attributes.sex]
levels = [[1, "man"], [2, "woman"]]
[attributes.age]
range = [0, 9]
[attributes.age.recodes.broad]
starts = [0, 5]
[attributes.age.recodes.odd.groups]
"one" = 1
"three" = 3
[attributes.region]
levels = [["R1", "north"], ["R2", "south"], ["R3", "nowhere"]]
"""
SPEC = """
[release]
name = "few"
mechanism = "cellkey"
[data]
records = "keyed.parquet"
schema = "few.toml"
WEIGHT
[cellkey]
D = 3
V = "1.5"
MORE
[output]
formats = ["csv"]
[[tables]]
name = "t"
variables = ["sex", "age:broad", "region"]
"""
PEOPLE = 400


def made(folder: Path, more: str = "", weight: str = "", keys: tuple[int, int] = (0, 10**8)) -> Path:
    """Made-up people of ten ages and two regions; nobody lives in the third."""
    random = np.random.default_rng(5)
    first, number = keys
    columns = {
        "sex": random.integers(1, 3, PEOPLE),
        "age": random.integers(0, 10, PEOPLE),
        "region": random.choice(["R1", "R2"], PEOPLE, p=[0.9, 0.1]),
        "record_key": draw_keys(PEOPLE, number, ReleaseKey.choose("0f" * 32)) + first,
        "w": random.integers(1, 5, PEOPLE),
    }
    pq.write_table(pa.table(columns), folder / "keyed.parquet")
    (folder / "few.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(SPEC.replace("MORE", more).replace("WEIGHT", weight))
    return folder / "spec.toml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("few")
    api.run(made(place))
    return place


def prepared(spec: Path) -> CellKeyProblem:
    with LocalEngine(spec.parent / "scratch", processes=1) as engine:
        return prepare(api.load(spec), engine)


@pytest.fixture(scope="module")
def question(folder: Path) -> CellKeyProblem:
    return prepared(folder / "spec.toml")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with LocalEngine(tmp_path_factory.mktemp("scratch"), processes=1) as opened:
        yield opened


def cells(rows: pa.Table) -> dict[tuple[str, ...], int]:
    return {tuple(row.values())[:-1]: row["count"] for row in rows.to_pylist()}


def _names(file: Path) -> list[str]:
    return [str(name) for name in pa.csv.read_csv(file).column_names]


def test_the_figures_of_the_release(question: CellKeyProblem, engine: LocalEngine, folder: Path) -> None:
    """A table that the spec lists: the same rows; in another order of variables the same figures."""
    turned = build_table(question, engine, ["region", "age:broad", "sex"])
    listed = [tuple(turned.column(name).to_pylist()) for name in ("sex", "age:broad", "region", "count")]
    rows = build_table(question, engine, ["sex", "age:broad", "region"])
    assert set(zip(*listed, strict=True)) == set(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    file = folder / "few" / "release" / "tables" / "t.csv"
    released = labelled(pa.csv.read_csv(file).cast(pa.schema([(n, pa.string()) for n in _names(file)])))
    assert rows.cast(released.schema).to_pylist() == released.to_pylist()


def test_tables_that_the_spec_does_not_list(question: CellKeyProblem, engine: LocalEngine, folder: Path) -> None:
    """By hand: n members with their keys summed, and the noise that stands there in the perturbation table."""
    people = pq.read_table(folder / "keyed.parquet").to_pylist()
    found = cells(build_table(question, engine, ["sex", "age"]))
    for sex, age in product((1, 2, None), (*range(10), None)):
        members = [row for row in people if sex in (None, row["sex"]) and age in (None, row["age"])]
        key = sum(row["record_key"] for row in members) % 10**8
        expected = len(members) + int(question.ptable.lookup(len(members), key))
        label = ("_T" if sex is None else ("man", "woman")[sex - 1], "_T" if age is None else str(age))
        assert found.get(label, 0) == expected


def test_total_alone(question: CellKeyProblem, engine: LocalEngine) -> None:
    total = build_table(question, engine, [])
    assert total.column_names == ["count"]
    assert total.num_rows == 1
    assert total.to_pylist()[0]["count"] == cells(build_table(question, engine, ["sex"]))[("_T",)]


def test_same_members_have_the_same_figure(question: CellKeyProblem, engine: LocalEngine) -> None:
    plain = cells(build_table(question, engine, ["sex", "region"]))
    # A filter that removes nobody: all groups, or all that have somebody in them.
    for where in ({"age:broad": ["0 to 4", "5 and over"]}, {"region": ["north", "R2"]}, {"sex": ["1", "woman"]}):
        assert cells(build_table(question, engine, ["sex", "region"], where)) == plain
    # A cell and a filter with the same members; and two filters that mean the same people.
    north = cells(build_table(question, engine, ["sex"], {"region": "north"}))
    assert north[("man",)] == plain[("man", "north")]
    assert north[("_T",)] == plain[("_T", "north")]
    young = cells(build_table(question, engine, ["sex"], {"age:broad": "0 to 4"}))
    assert young == cells(build_table(question, engine, ["sex"], {"age": [str(age) for age in range(5)]}))
    both = cells(build_table(question, engine, [], {"age:broad": "0 to 4", "sex": "man", "region": "north"}))
    wide = cells(build_table(question, engine, ["sex", "age:broad", "region"]))
    assert both[()] == wide[("man", "0 to 4", "north")]


def test_members_decide_and_not_their_number(question: CellKeyProblem, engine: LocalEngine, folder: Path) -> None:
    """Other keys, other noise: the builder reads the keys of the records."""
    before = cells(build_table(question, engine, ["sex", "age"]))
    people = pq.read_table(folder / "keyed.parquet")
    other = folder / "other"
    other.mkdir()
    for name in ("few.toml", "spec.toml"):
        shutil.copy(folder / name, other / name)
    order = np.random.default_rng(1).permutation(PEOPLE)
    pq.write_table(people.take(pa.array(order)), other / "keyed.parquet")
    shuffled = prepared(other / "spec.toml")
    assert cells(build_table(shuffled, engine, ["sex", "age"])) == before
    place = people.column_names.index("record_key")
    moved = people.set_column(place, "record_key", people.column("record_key").take(pa.array(order)))
    pq.write_table(moved, other / "keyed.parquet")
    assert cells(build_table(shuffled, engine, ["sex", "age"])) != before


def test_groups_that_leave_people_out(question: CellKeyProblem, engine: LocalEngine) -> None:
    odd = cells(build_table(question, engine, ["age:odd"]))
    ages = cells(build_table(question, engine, ["age"]))
    assert (odd[("one",)], odd[("three",)]) == (ages[("1",)], ages[("3",)])
    only = cells(build_table(question, engine, ["age"], {"age:odd": ["one", "three"]}))
    assert {label for (label,) in only} <= {"_T", "1", "3"}
    assert only[("1",)] == ages[("1",)]


def test_nobody_is_no_row(question: CellKeyProblem, engine: LocalEngine) -> None:
    assert build_table(question, engine, ["sex"], {"region": "nowhere"}).num_rows == 0


def test_inner_cells_alone(question: CellKeyProblem, engine: LocalEngine) -> None:
    inner = cells(build_table(question, engine, ["sex", "region"], margins="none"))
    whole = cells(build_table(question, engine, ["sex", "region"]))
    assert inner == {label: count for label, count in whole.items() if "_T" not in label}


def test_no_true_count_leaves(question: CellKeyProblem, engine: LocalEngine) -> None:
    assert build_table(question, engine, ["sex", "age:broad"]).column_names == ["sex", "age:broad", "count"]


def test_bad_requests_are_told_at_once(question: CellKeyProblem) -> None:
    with pytest.raises(ParameterError) as error:
        understand(question.schema, ["sex", "income"], {"region": ["north", "west"], "house": "red"})
    assert [(found.code, str(found.where)) for found in error.value.findings] == [
        ("unknown-variable", "variables"),
        ("unknown-value", "where region"),
        ("unknown-variable", "where house"),
    ]
    assert "'north', 'south', 'nowhere'" in str(error.value.findings[1].expected)
    with pytest.raises(ParameterError, match="twice"):
        understand(question.schema, ["age", "age:broad"])
    # A code counts only for an attribute as it is: 5 is no group of age:broad.
    with pytest.raises(ParameterError, match="no group '5'"):
        understand(question.schema, ["sex"], {"age:broad": "5"})


def test_bad_records_are_told_without_their_values(tmp_path: Path, engine: LocalEngine) -> None:
    question = prepared(made(tmp_path))
    people = pq.read_table(tmp_path / "keyed.parquet")
    region = people.column("region").to_pylist()
    region[6] = "R77"
    columns = people.set_column(people.column_names.index("region"), "region", pa.array(region))
    pq.write_table(columns, tmp_path / "keyed.parquet")
    with pytest.raises(InputError) as error:
        build_table(question, engine, ["sex"], {"region": "north"})
    assert "R77" not in str(error.value)
    assert error.value.findings[0].where.row == 7
    # What is not asked for need not be right.
    assert build_table(question, engine, ["sex"]).num_rows == 3


def test_weights_and_threshold(tmp_path: Path, engine: LocalEngine) -> None:
    spec = made(tmp_path, more="threshold = 30", weight='weight = "w"')
    question = prepared(spec)
    rows = build_table(question, engine, ["sex", "age"]).to_pylist()
    people = pq.read_table(tmp_path / "keyed.parquet").to_pylist()
    assert all(row["count"] >= 30 for row in rows)
    assert len(rows) < 33
    (total,) = [row for row in rows if row["sex"] == row["age"] == "_T"]
    mean = sum(row["w"] for row in people) / PEOPLE
    assert total["weighted"] % 4 == 0
    assert total["weighted"] == pytest.approx(total["count"] * mean, abs=2)


def test_the_lookup_by_bytes(tmp_path: Path, engine: LocalEngine) -> None:
    """lookup = "abs", from spec to figure: keys from 1, sums modulo big_n, bytes combined, shared columns."""
    spec = made(tmp_path, more='lookup = "abs"\nbig_n = 20011\nsmall_n = 4\ntable_size = 12', keys=(1, 20_011))
    question = prepared(spec)
    assert question.matrix is not None
    assert question.record_keys == range(1, 20_012)
    people = pq.read_table(tmp_path / "keyed.parquet").to_pylist()
    found = cells(build_table(question, engine, ["sex", "age"]))
    for sex, age in product((1, 2), range(10)):
        members = [row for row in people if (row["sex"], row["age"]) == (sex, age)]
        one, two, three, four = (sum(row["record_key"] for row in members) % 20_011).to_bytes(4, "big")
        n = len(members)
        column = n if n <= 8 else 9 + n % 4
        expected = n + int(question.matrix.matrix[one ^ two ^ three ^ four, column - 1])
        assert found[("man", "woman")[sex - 1], str(age)] == expected
    release = api.run(spec).release
    assert api.verify(release).ok
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["plan"]["question"]["ptable"]["lookup"] == "abs"
    listed = (release / "tables" / "t.csv").read_text().splitlines()
    assert len(listed) == 1 + build_table(question, engine, ["sex", "age:broad", "region"]).num_rows


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("big_n = 20011", "lookup"),
        ('lookup = "abs"\ntable_size = 9', "too-few-columns"),
        ('lookup = "iso"', None),
    ],
)
def test_bad_lookups(more: str, code: str | None, tmp_path: Path) -> None:
    spec = made(tmp_path, more=more)
    with pytest.raises(ConfideError) as error:
        prepared(spec)
    assert code is None or code in {finding.code for finding in error.value.findings}


def test_keys_for_another_lookup_are_refused(tmp_path: Path) -> None:
    """Record keys for abs begin with 1 and end with big_n, unless the spec says otherwise."""
    spec = made(tmp_path, more='lookup = "abs"')
    findings = api.check(spec).errors
    assert [finding.code for finding in findings] == ["bad-record"]
    assert "from 1 to 17,312,941" in str(findings[0].expected)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["cellkey", *arguments])


def test_commands(folder: Path, tmp_path: Path) -> None:
    spec = str(folder / "spec.toml")
    told = json.loads(run("table", spec, "--variables", "sex,age:broad", "--where", "region=north", "--json").stdout)
    assert told["columns"] == ["sex", "age:broad", "count"]
    assert told["where"] == {"region": ["north"]}
    listed = {tuple(row.values())[:-1]: row["count"] for row in told["rows"]}
    file = tmp_path / "t.parquet"
    assert run("table", spec, "--variables", "region,age:broad,sex", "--out", str(file)).exit_code == 0
    wide = cells(pq.read_table(file))
    assert listed[("man", "0 to 4")] == wide[("north", "0 to 4", "man")]
    shown = run("table", str(folder / "few"), "--variables", "sex", "--no-margins").stdout
    assert "woman" in shown
    assert "_T" not in shown
    text = tmp_path / "t.csv"
    assert run("table", spec, "--variables", "", "--out", str(text)).exit_code == 0
    assert text.read_text().splitlines() == ['"count"', str(wide[("_T", "_T", "_T")])]
    for wrong in (["--where", "region"], ["--out", "t.xlsx"], ["--where", "region=west"]):
        failed = run("table", spec, "--variables", "sex", *wrong)
        assert isinstance(failed.exception, ConfideError)


def test_command_for_tables_of_noise(tmp_path: Path) -> None:
    file = tmp_path / "noise.pert"
    arguments = ("abs-table", "-D", "3", "-V", "1.5", "--out", str(file))
    assert json.loads(run(*arguments, "--json").stdout)["columns"] == 30
    assert isinstance(run(*arguments).exception, ParameterError)
    spec = made(tmp_path, more='lookup = "abs"', keys=(1, 17_312_941))
    by_parameters = prepared(spec)
    text = spec.read_text().replace('D = 3\nV = "1.5"', 'ptable = "noise.pert"')
    spec.write_text(text)
    by_file = prepared(spec)
    assert by_parameters.lookup.fingerprint == by_file.lookup.fingerprint
    keyed = tmp_path / "again.parquet"
    people = pq.read_table(tmp_path / "keyed.parquet").drop_columns(["record_key"])
    pq.write_table(people, tmp_path / "people.parquet")
    made_keys = run("keys", str(tmp_path / "people.parquet"), "--out", str(keyed), "--keys", "2", "--from", "1")
    assert made_keys.exit_code == 0
    assert set(pq.read_table(keyed).column("record_key").to_pylist()) == {1, 2}
