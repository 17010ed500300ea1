"""What is refused before anything is published, in findings without a value of the records; and how keys are given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.cellkey import KEYS, SCHEMA, people, tree, write_project
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import CONFIDENTIAL, ConfideError, Finding, InputError
from confide.noise.ptables import count_settings, export_text, generate, magnitude_settings

WEIGHTED = 'weight = "weight"'
PLANTED = "87654319"
"""A value that stands in the records and nowhere else."""


def put(table: pa.Table, name: str, row: int, value: object) -> pa.Table:
    """The records with another value in one row."""
    values = table.column(name).to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def cast(name: str, type_: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(
        table.column_names.index(name), name, pa.array(table.column(name).to_pylist()).cast(type_)
    )


def findings_of(spec: Path) -> list[Finding]:
    try:
        found = confide.check(spec, processes=1).findings
    except ConfideError as error:
        found = tuple(error.findings)
    return [finding for finding in found if finding.severity == "error"]


@pytest.mark.parametrize(
    ("change", "code", "column", "expected"),
    [
        (lambda t: put(t, "record_key", 16, KEYS), "bad-record", "record_key", "a whole number from 0 to 99,999,999"),
        (lambda t: put(t, "record_key", 16, -1), "bad-record", "record_key", "a whole number"),
        (lambda t: put(t, "record_key", 16, None), "bad-record", "record_key", "a whole number"),
        (lambda t: put(t, "record_key", 16, 1 << 62), "bad-record", "record_key", "a whole number"),
        (lambda t: put(t, "sex", 16, 3), "bad-record", "sex", "a whole number from 1 to 2"),
        (lambda t: put(t, "quarter", 16, PLANTED), "bad-record", "quarter", "one of 'N', 'S', 'W'"),
        (lambda t: put(t, "work", 16, None), "bad-record", "work", "one of"),
        (lambda t: put(t, "age", 16, 80), "bad-record", "age", "a whole number from 0 to 79"),
        (lambda t: put(t, "weight", 16, f"-{PLANTED}"), "bad-record", "weight", "at least zero"),
        (lambda t: put(t, "weight", 16, "much"), "bad-record", "weight", "a number"),
        (lambda t: put(t, "weight", 16, None), "bad-record", "weight", "a number"),
        (
            lambda t: put(cast("weight", pa.float64())(t), "weight", 16, float("nan")),
            "bad-record",
            "weight",
            "a number",
        ),
        (
            lambda t: put(cast("weight", pa.float64())(t), "weight", 16, float("inf")),
            "bad-record",
            "weight",
            "a number",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_named_by_its_row(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], code: str, column: str, expected: str
) -> None:
    spec = write_project(tmp_path, change(people()), data=WEIGHTED)
    (finding,) = findings_of(spec)
    assert finding.code == code
    assert (finding.where.file, finding.where.column, finding.where.row) == ("town.parquet", column, 17)
    assert finding.found == CONFIDENTIAL
    assert expected in finding.expected
    assert PLANTED not in json.dumps(finding.as_dict()) + str(finding)
    with pytest.raises(ConfideError):
        confide.run(spec, processes=1)
    assert not (tmp_path / "town/release").exists()


def test_weights_that_cannot_be_added_up_exactly(tmp_path: Path) -> None:
    heavy = put(people(), "weight", 3, f"{PLANTED}0000")
    (finding,) = findings_of(write_project(tmp_path, heavy, data=WEIGHTED))
    assert finding.code == "too-heavy"
    assert PLANTED not in json.dumps(finding.as_dict())
    just = put(people(), "weight", 3, "500000000")
    apart = f'{WEIGHTED}\nweight_gap = "500000000"'
    released = confide.run(write_project(tmp_path / "just", just, data=apart), processes=1).release
    assert confide.verify(released).ok
    more = put(people(), "weight", 3, "9000000000")
    (finding,) = findings_of(write_project(tmp_path / "more", more, data=WEIGHTED))
    assert finding.code == "too-heavy", "its figures would be published with other digits than they have"


@pytest.mark.parametrize("name", ["record_key", "sex"])
@pytest.mark.parametrize("type_", [pa.float64(), pa.decimal128(24, 2)])
def test_codes_and_keys_are_never_fractions(tmp_path: Path, name: str, type_: pa.DataType) -> None:
    """Keys as other programs draw them, between zero and one, would all become nought or one."""
    (finding,) = findings_of(write_project(tmp_path, cast(name, type_)(people())))
    assert (finding.code, finding.where.column) == ("column-type", name)


def test_a_number_is_no_text_code(tmp_path: Path) -> None:
    changed = people().set_column(0, "quarter", pa.array(np.arange(2_003) % 3))
    (finding,) = findings_of(write_project(tmp_path, changed))
    assert (finding.code, finding.where.column) == ("column-type", "quarter")


def test_without_keys_the_remedy_is_the_command_that_draws_them(tmp_path: Path) -> None:
    spec = write_project(tmp_path, people().drop_columns(["record_key"]))
    (finding,) = findings_of(spec)
    assert finding.code == "no-column"
    command = re.search(r"confide (cellkey keys \S+ --out \S+ --keys \d+)", finding.remedy)
    assert command
    words = [str(tmp_path / word) if word.endswith(".parquet") else word for word in command[1].split()]
    assert CliRunner().invoke(app, words).exit_code == 0
    spec.write_text(spec.read_text().replace("town.parquet", "KEYED.parquet"))
    assert not findings_of(spec)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    wrong = put(put(put(people(), "record_key", 1, -5), "sex", 2, 9), "weight", 3, "-1")
    codes = {finding.where.column for finding in findings_of(write_project(tmp_path, wrong, data=WEIGHTED))}
    assert codes == {"record_key", "sex", "weight"}


def test_no_records_are_no_release(tmp_path: Path) -> None:
    (finding,) = findings_of(write_project(tmp_path, people().slice(0, 0)))
    assert finding.code == "no-records"


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    """The same release, but for nothing: names of the curator's columns are not published."""
    plain = confide.run(write_project(tmp_path / "plain", data=WEIGHTED), processes=1).release
    theirs = people().rename_columns({"sex": "GESCHLECHT", "record_key": "SCHLUESSEL", "weight": "GEWICHT"})
    names = 'columns = { sex = "GESCHLECHT", record_key = "SCHLUESSEL", weight = "GEWICHT" }'
    renamed = confide.run(write_project(tmp_path / "renamed", theirs, data=f"{WEIGHTED}\n{names}"), processes=1).release
    assert tree(renamed) == tree(plain)


# --- the spec ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cellkey", "code"),
    [
        ("D = 5", "ptable"),
        ('V = "2"', "ptable"),
        ("", "ptable"),
        ('D = 5\nV = "2"\nptable = "p.csv"', "ptable"),
        ('js = 1\nptable = "p.csv"', "ptable"),
        ('D = 5\nV = "2"\npstay = "1"', "probability"),
        ('D = 5\nV = "1"\njs = 3', "infeasible"),
        ('ptable = "magnitudes.txt"', "unfit-ptable"),
        ('ptable = "counts.txt"\nkeys = 1000', "unfit-ptable"),
    ],
)
def test_a_perturbation_table_that_cannot_be(tmp_path: Path, cellkey: str, code: str) -> None:
    spec = write_project(tmp_path, cellkey=cellkey)
    magnitudes = generate(magnitude_settings(5, "2", icat=(1, 5), step=2)).table()
    (tmp_path / "magnitudes.txt").write_text(export_text(magnitudes))
    (tmp_path / "counts.txt").write_text(export_text(generate(count_settings(5, "2")).table()))
    found = findings_of(spec)
    assert [finding.code for finding in found if code in finding.code], found


def test_a_table_file_gives_the_release_that_its_parameters_give(tmp_path: Path) -> None:
    """Figures are the same; the plan says less of where the table is from."""
    lines = 'ptable = "counts.txt"\nkeys = 100000000\nshuffle = "derived"'
    by_file = write_project(tmp_path / "file", cellkey=lines)
    (tmp_path / "file/counts.txt").write_text(export_text(generate(count_settings(5, "2")).table()))
    one, two = (confide.run(spec, processes=1).release for spec in (by_file, write_project(tmp_path / "parameters")))
    tables = [path.relative_to(one) for path in one.rglob("*.csv")]
    assert len(tables) == 12
    assert all((one / path).read_bytes() == (two / path).read_bytes() for path in tables)
    asked = [json.loads((each / "manifest.json").read_text())["plan"]["question"]["ptable"] for each in (one, two)]
    assert asked[0]["sha256"] == asked[1]["sha256"]
    assert [each["V"] for each in asked] == [None, "2"]


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        (["sex", "height"], "unknown-variable"),
        (["age", "age:broad"], "repeated-attribute"),
        (["count"], "reserved-name"),
        (["Weighted"], "reserved-name"),
    ],
)
def test_a_table_that_cannot_be(tmp_path: Path, variables: list[str], code: str) -> None:
    more = "".join(f'\n[attributes.{name}]\nlevels = [[1, "one"]]\n' for name in ("count", "Weighted"))
    spec = write_project(tmp_path, schema=SCHEMA + more, tables=(("fine", ["sex"]), ("wrong", variables)))
    (finding,) = findings_of(spec)
    assert finding.code == code
    assert finding.where.path == "tables[1].variables"


def test_a_table_of_too_many_cells_two_of_one_name_and_a_geography(tmp_path: Path) -> None:
    wide = "".join(f"\n[attributes.wide{number}]\nrange = [0, 999]\n" for number in range(3))
    tables = (("wide", ["wide0", "wide1", "wide2"]),)
    (finding,) = findings_of(write_project(tmp_path / "wide", schema=SCHEMA + wide, tables=tables))
    assert finding.code == "table-too-large"
    (finding, _) = findings_of(write_project(tmp_path / "twice", tables=(("one", ["sex"]), ("one", ["work"]))))
    assert finding.code == "duplicate-table"
    spec = write_project(tmp_path / "geography")
    spec.write_text(spec.read_text() + '\n[geography]\nblock = "b"\n')
    (finding,) = findings_of(spec)
    assert finding.code == "geography"


# --- drawing keys --------------------------------------------------------------------------------------------------


def draw(*words: object) -> object:
    return CliRunner().invoke(app, ["cellkey", "keys", *map(str, words)], catch_exceptions=True)


def test_keys_are_drawn_once_and_kept_with_the_records(tmp_path: Path) -> None:
    records = people().drop_columns(["record_key"])
    pq.write_table(records, tmp_path / "town.parquet")
    result = draw(tmp_path / "town.parquet", "--out", tmp_path / "keyed.parquet", "--keys", 1000, "--json")
    assert json.loads(result.stdout) | {"records": ""} == {
        "ok": True, "records": "", "rows": 2_003, "column": "record_key", "keys": 1000,
    }  # fmt: skip
    keyed = pq.read_table(tmp_path / "keyed.parquet")
    assert keyed.drop_columns(["record_key"]).equals(records)
    drawn = keyed.column("record_key").to_numpy()
    assert drawn.min() >= 0
    assert 900 < drawn.max() < 1000
    assert len(set(drawn.tolist())) > 800
    assert (tmp_path / "keyed.parquet").stat().st_mode & 0o777 == 0o600


def test_keys_are_not_drawn_a_second_time(tmp_path: Path) -> None:
    pq.write_table(people().drop_columns(["record_key"]), tmp_path / "town.parquet")
    assert draw(tmp_path / "town.parquet", "--out", tmp_path / "keyed.parquet").exit_code == 0
    before = (tmp_path / "keyed.parquet").read_bytes()
    for words in (
        (tmp_path / "town.parquet", "--out", tmp_path / "keyed.parquet"),
        (tmp_path / "keyed.parquet", "--out", tmp_path / "other.parquet"),
        (tmp_path / "keyed.parquet", "--out", tmp_path / "keyed.parquet", "--column", "second"),
    ):
        result = draw(*words)
        assert isinstance(result.exception, InputError)
        assert result.exception.findings[0].code == "keys-there"
    assert (tmp_path / "keyed.parquet").read_bytes() == before
    assert not (tmp_path / "other.parquet").exists()


def test_what_the_command_shows_has_no_key(tmp_path: Path) -> None:
    pq.write_table(people(50).drop_columns(["record_key"]), tmp_path / "town.parquet")
    shown = draw(tmp_path / "town.parquet", "--out", tmp_path / "keyed.parquet").stdout
    keys = pq.read_table(tmp_path / "keyed.parquet").column("record_key").to_pylist()
    assert "50 records" in shown
    assert not {str(key) for key in keys} & set(re.findall(r"\d+", shown))


def test_records_as_text_get_keys_too(tmp_path: Path) -> None:
    (tmp_path / "town.csv").write_text("sex;quarter\n1;N\n2;007\n")
    result = draw(tmp_path / "town.csv", "--out", tmp_path / "keyed.parquet", "--delimiter", ";")
    assert result.exit_code == 0
    keyed = pq.read_table(tmp_path / "keyed.parquet")
    assert keyed.column("quarter").to_pylist() == ["N", "007"]


def test_a_column_that_is_no_key_is_refused(tmp_path: Path) -> None:
    """Small whole numbers would pass for keys, and all noise would follow from them."""
    records = people()
    same = records.set_column(
        records.column_names.index("record_key"), "record_key", pa.array(np.arange(records.num_rows) % 100)
    )
    checked = confide.check(write_project(tmp_path, same))
    assert [finding.code for finding in checked.errors] == ["keys-not-drawn"]
    assert not confide.check(write_project(tmp_path / "drawn", records)).errors
    ends = np.where(np.arange(records.num_rows) % 2, KEYS - 1, 0)
    halves = records.set_column(records.column_names.index("record_key"), "record_key", pa.array(ends))
    checked = confide.check(write_project(tmp_path / "halves", halves))
    assert [finding.code for finding in checked.errors] == ["keys-not-drawn"]


@pytest.mark.parametrize("column", ["age", "weight"])
def test_keys_that_are_something_else_of_a_person_are_refused(tmp_path: Path, column: str) -> None:
    """However evenly it is spread: whoever knows it knows the noise."""
    records = people()
    ones = records.set_column(records.column_names.index("weight"), "weight", pa.array([1] * records.num_rows))
    data = f'{WEIGHTED}\ncolumns = {{ record_key = "{column}" }}'
    (finding,) = findings_of(write_project(tmp_path, ones, data=data))
    assert (finding.code, finding.found) == ("keys-not-drawn", f"the column of {column!r}")


@pytest.mark.parametrize("name", ["keyed.csv", "keyed.PQ", "keyed"])
def test_keys_are_not_written_under_the_ending_of_another_form(tmp_path: Path, name: str) -> None:
    pq.write_table(people().drop_columns(["record_key"]), tmp_path / "town.parquet")
    words = ["cellkey", "keys", str(tmp_path / "town.parquet"), "--out", str(tmp_path / name)]
    assert CliRunner().invoke(app, words).exit_code == 1
    assert not (tmp_path / name).exists()
