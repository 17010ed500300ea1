"""Kinds of bad records, block tables and ledgers. A finding about records gives the row and the rule, never a value."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.kits.bad_input import (
    BLOCKS,
    KEY,
    SPEC,
    Bad,
    assert_refused,
    blocks,
    both,
    confide,
    content,
    csv,
    entries,
    make_project,
    open_ledger,
    persons,
    records,
    removed,
    spec,
    with_one,
    write_csv,
    write_parquet,
)

from confide.errors import CONFIDENTIAL

HEADER = "geocode,sex,age,kind,household\n"
ROW = "10100,1,3,household,1\n"
MAP = '[data]\ncolumns = { age = "years" }'


def truncated(name: str, keep: float) -> Any:
    def change(project: Path) -> None:
        data = (project / name).read_bytes()
        (project / name).write_bytes(data[: int(len(data) * keep)])

    return change


def scrambled(project: Path) -> None:
    """A Parquet file with an intact footer and damaged pages."""
    write_parquet(project / "persons.parquet", persons(2000))
    data = bytearray((project / "persons.parquet").read_bytes())
    data[10:1000] = bytes(990)
    (project / "persons.parquet").write_bytes(data)


def as_folder(name: str) -> Any:
    return both(removed(name), lambda project: (project / name).mkdir())


def spent(project: Path) -> None:
    open_ledger(project, "other.ledger", budget="1/3")
    (project / "spec.toml").write_text(SPEC.replace("people.ledger", "other.ledger"))


def pure_ledger(project: Path) -> None:
    open_ledger(project, "other.ledger", definition="pure")
    (project / "spec.toml").write_text(SPEC.replace("people.ledger", "other.ledger"))


def tampered_ledger(project: Path) -> None:
    data = (project / "people.ledger").read_bytes()
    assert b"people" in data
    (project / "people.ledger").write_bytes(data.replace(b"people", b"poeple"))


def linked(project: Path) -> None:
    (project / "blocks.parquet").unlink()
    (project / "blocks.parquet").symlink_to("persons.parquet")


RECORDS = [
    Bad("no records", removed("persons.parquet"), "no-such-file", r"spec\.toml, line 6, path data\.records", "records"),
    Bad("records that are a folder", as_folder("persons.parquet"), "no-such-file", r"path data\.records", "records"),
    Bad("an unknown ending", spec("persons.parquet", "spec.toml"), "unknown-format", r"path data\.records", "records"),
    Bad("an empty file", content("persons.parquet", b""), "unreadable", r"persons\.parquet"),
    Bad("half a Parquet file", truncated("persons.parquet", 0.5), "unreadable", r"persons\.parquet", remedy="complete"),
    Bad("a Parquet file without its last byte", truncated("persons.parquet", 0.999), "unreadable", r"persons\.parquet"),
    Bad("damaged pages", scrambled, "unreadable", r"persons\.parquet"),
    Bad("a CSV by another name", content("persons.parquet", HEADER + ROW), "unreadable", r"persons\.parquet"),
    Bad("no rows", csv(HEADER), "no-records", r"persons\.csv"),
    Bad("a missing column", records(age=None), "missing-column", r"persons\.parquet, column age", remedy="columns"),
    Bad("a column under another name", spec("[data]", MAP), "missing-column", r"persons\.parquet, column years"),
    Bad("no block column", records(geocode=None), "missing-column", r"persons\.parquet, column geocode"),
    Bad("a column of floats", records(sex=[1.0] * 40), "column-type", r"persons\.parquet, column sex", remedy="type"),
    Bad("blocks of floats", records(geocode=[1.0] * 40), "column-type", r"persons\.parquet, column geocode"),
    Bad("numbers for a text", records(kind=[1] * 40), "column-type", r"persons\.parquet, column kind"),
    Bad("an unknown code", records(sex=with_one("sex", 3)), "bad-record", r"persons\.parquet, row 7, column sex"),
    Bad(
        "a code beyond 64 bits",
        csv(HEADER + ROW + ROW.replace(",3,", ",99999999999999999999,")),
        "bad-record",
        "row 2, column age",
    ),
    Bad("an empty code", records(age=with_one("age", None)), "bad-record", r"persons\.parquet, row 7, column age"),
    Bad("an unknown text", records(kind=with_one("kind", "boat")), "bad-record", r"row 7, column kind"),
    Bad("an unknown block", records(geocode=with_one("geocode", "10999")), "bad-record", r"row 7, column geocode"),
    Bad("no block", records(geocode=with_one("geocode", None)), "bad-record", r"row 7, column geocode"),
    Bad(
        "blocks as numbers that lost a zero",
        both(records(geocode=[100] * 40), blocks(geocode=["00100", *BLOCKS["geocode"][1:]])),
        "bad-record",
        r"row 1, column geocode",
    ),
    Bad("a word for a number", csv(HEADER + ROW + ROW.replace(",3,", ",three,")), "bad-record", "row 2, column age"),
    Bad("half a year", csv(HEADER + ROW + ROW.replace(",3,", ",3.5,")), "bad-record", "row 2, column age"),
    Bad(
        "a row too long", csv(HEADER + ROW + "10100,1,3,household,1,1\n"), "unreadable", r"persons\.csv, line 3", "1,1"
    ),
    Bad("a row too short", csv(HEADER + ROW + ROW + "10100,1\n"), "unreadable", r"persons\.csv, line 4", "10100,1"),
    Bad("a quote that never ends", csv(HEADER + '10100,1,3,"household,1\n'), "unreadable", r"persons\.csv"),
    Bad("a CSV in another encoding", csv(HEADER.encode() + b"10100,1,3,h\xe4user,1\n"), "encoding", r"persons\.csv"),
    Bad("names in another encoding", csv(b"geocode,sex,\xe4ge\n" + ROW.encode()), "encoding", r"persons\.csv"),
    Bad("an empty CSV", csv(""), "csv-header", r"persons\.csv, line 1"),
    Bad("an empty first line", csv("\n" + HEADER), "csv-header", r"persons\.csv, line 1"),
    Bad("a column without a name", csv("geocode,sex,,kind\n" + ROW), "csv-header", r"persons\.csv, line 1"),
    Bad("a column twice", csv("geocode,sex,age,sex\n" + ROW), "csv-header", r"persons\.csv, line 1"),
    Bad(
        "a column twice but for capitals",
        csv("geocode,sex,age,kind,SEX\n" + ROW),
        "csv-header",
        r"persons\.csv, line 1",
    ),
    Bad("no first line of names", csv(ROW * 3), "csv-header", r"persons\.csv, line 1"),
    Bad("another delimiter", csv((HEADER + ROW).replace(",", ";")), "wrong-delimiter", r"persons\.csv, line 1"),
    Bad("bytes of something else", csv(bytes(range(255, 0, -1)) * 700), "encoding", r"persons\.csv"),
    Bad(
        "several rules broken at once",
        records(sex=with_one("sex", 9, 3), age=with_one("age", -1, 4), geocode=with_one("geocode", "", 5)),
        "bad-record",
        r"persons\.parquet, row 3, column sex",
    ),
    Bad(
        "several columns wrong at once",
        records(sex=None, age=[0.5] * 40),
        "missing-column",
        r"column sex",
        also=["column-type"],
    ),
]

FRAME = [
    Bad(
        "no block table", removed("blocks.parquet"), "no-such-file", r"spec\.toml, line 7, path data\.blocks", "blocks"
    ),
    Bad("a block table without blocks", csv("geocode,place\n", "blocks"), "no-blocks", r"blocks\.csv"),
    Bad("the records as the frame", spec("blocks.parquet", "persons.parquet"), "records-as-frame", r"data\.blocks"),
    Bad("the records under another name", linked, "records-as-frame", r"data\.blocks", remedy="block table"),
    Bad(
        "areas that nobody can tell apart",
        blocks(place=["A", "A ", "A", "B", "B"]),
        "codes-alike",
        r"blocks\.parquet, row 2",
        remedy="trim",
    ),
    Bad("half a block table", truncated("blocks.parquet", 0.5), "unreadable", r"blocks\.parquet"),
    Bad("a block twice", blocks(geocode=["10100", "10101", "10200", "10100", "10202"]), "duplicate-block", r"row 4"),
    Bad(
        "a block without a code", blocks(geocode=["10100", None, "1", "2", "3"]), "empty-code", r"row 2, column geocode"
    ),
    Bad(
        "a block of no characters", blocks(geocode=["10100", "", "1", "2", "3"]), "empty-code", r"row 2, column geocode"
    ),
    Bad(
        "a short code",
        blocks(geocode=["10100", "10101", "12", "10201", "10202"]),
        "short-code",
        r"row 3, column geocode",
    ),
    Bad(
        "codes of floats", blocks(geocode=[1.0, 2.0, 3.0, 4.0, 5.0]), "column-type", r"blocks\.parquet, column geocode"
    ),
    Bad("no column for the areas", blocks(place=None), "missing-column", r"blocks\.parquet, column place"),
    Bad(
        "no column for a level",
        spec("digits = 3", 'column = "tract"'),
        "missing-column",
        r"blocks\.parquet, column tract",
    ),
    Bad(
        "a level that is not nested",
        spec("digits = 1", 'column = "district"'),
        "not-nested",
        r"blocks\.parquet, row 2",
        remedy="areas",
    ),
    Bad(
        "a level without a code",
        spec("digits = 1", 'column = "place"'),
        "empty-code",
        r"blocks\.parquet, row 4, column place",
    ),
    Bad("levels in the wrong order", spec("digits = 1", "digits = 5"), "not-nested", r"blocks\.parquet, row"),
]

LEDGER = [
    Bad(
        "no ledger",
        removed("people.ledger"),
        "no-ledger",
        r"spec\.toml, line \d+, path privacy\.ledger",
        "ledger",
        remedy="ledger open",
    ),
    Bad("a ledger that is a folder", as_folder("people.ledger"), "ledger-missing", r"people\.ledger"),
    Bad("an empty ledger", content("people.ledger", b""), "ledger-not-a-ledger", r"people\.ledger"),
    Bad(
        "a ledger that is a text", content("people.ledger", "budget,1\n" * 99), "ledger-not-a-ledger", r"people\.ledger"
    ),
    Bad("a changed ledger", tampered_ledger, "ledger-broken", r"people\.ledger.*entry 1"),
    Bad("half a ledger", truncated("people.ledger", 0.5), "ledger-damaged", r"people\.ledger"),
    Bad(
        "too little left",
        spent,
        "budget-exceeded",
        r"spec\.toml, line \d+, path privacy\.budget",
        "budget",
        remedy="less",
    ),
    Bad(
        "a ledger of another definition",
        pure_ledger,
        "ledger-definition",
        r"spec\.toml, line \d+, path privacy\.definition",
    ),
]


@pytest.mark.parametrize("bad", RECORDS + FRAME + LEDGER, ids=lambda bad: bad.name)
def test_bad_inputs_are_refused_with_their_place_and_a_remedy(bad: Bad, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    bad.change(project)
    assert_refused(bad, project)


def test_every_broken_rule_is_reported_at_once_and_no_value_is_shown(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    changed = {"sex": with_one("sex", 9311, 3), "age": with_one("age", 9422, 4), "kind": with_one("kind", "boat", 6)}
    records(**changed, geocode=with_one("geocode", "99199", 5))(project)
    outcome = confide("check", project / "spec.toml", "--json", "--processes", "1")
    found = {(finding["where"]["column"], finding["where"]["row"]) for finding in outcome.findings}
    assert found == {("sex", 3), ("age", 4), ("kind", 6), ("geocode", 5)}
    assert {finding["found"] for finding in outcome.findings} == {CONFIDENTIAL}
    assert not any(value in str(outcome.findings) for value in ("9311", "9422", "boat", "99199"))


def test_a_column_named_like_a_row_number_is_never_taken_for_one(tmp_path: Path) -> None:
    """Rows are counted under a name of our own, whatever the file's columns are called."""
    project = make_project(tmp_path / "project")
    numbers = {name: [777_000 + i for i in range(40)] for name in ("number", "rowid", "row_number", "File_Row_Number")}
    records(sex=with_one("sex", 3, 9), **numbers)(project)
    finding = confide("check", project / "spec.toml", "--json", "--processes", "1").findings[0]
    assert finding["where"]["row"] == 9
    write_csv(project / "persons.csv", persons() | {"sex": with_one("sex", 3, 9)} | numbers)
    spec("persons.parquet", "persons.csv")(project)
    finding = confide("check", project / "spec.toml", "--json", "--processes", "1").findings[0]
    assert finding["where"]["row"] == 9


def test_an_attribute_may_have_any_name(tmp_path: Path) -> None:
    """Also a name that stands for something else in a query of ours."""
    project = make_project(tmp_path / "project")
    names = ("rows_in_all", "unknown_block", "attribute_0", "code", "n", "cell", "part", "select", 'a "b" c')
    levels = 'levels = [[1, "one"], [2, "two"]]'
    with (project / "schema.toml").open("a") as file:
        file.writelines(f"\n[attributes.{json.dumps(name)}]\n{levels}\n" for name in names)
    for first, second in pairwise(names):
        (project / "spec.toml").write_text(SPEC.replace('["kind"]', json.dumps([first, second])))
        records(**{name: persons()["sex"] for name in names})(project)
        assert confide("check", project / "spec.toml", "--processes", "1").exit_code == 0, (first, second)
        records(**{name: persons()["sex"] for name in names} | {second: with_one("sex", 3)})(project)
        finding = confide("check", project / "spec.toml", "--processes", "1", "--json").findings[0]
        assert (finding["where"]["column"], finding["where"]["row"]) == (second, 7)


def test_a_file_name_is_never_a_pattern(tmp_path: Path) -> None:
    """A name with an asterisk is one file, also beside others that it would match."""
    project = make_project(tmp_path / "project")
    write_parquet(project / "perso?s [1]*.parquet", persons())
    write_parquet(project / "persons 1 more.parquet", {"sex": ["not", "one", "column", "right"]})
    spec("persons.parquet", "perso?s [1]*.parquet")(project)
    outcome = confide("run", project / "spec.toml", "--processes", "1", "--insecure-key", KEY)
    assert outcome.exit_code == 0, outcome.text
    assert entries(project) == ["open", "reserve", "measured", "sealed"]


def test_files_of_the_users_own_survive_a_refused_run_in_their_folder(tmp_path: Path) -> None:
    """The run's folder may be one in which there is something, even under the names that a run uses."""
    project = make_project(tmp_path / "project")
    (project / "confidential").mkdir()
    (project / "persons.parquet").rename(project / "confidential" / "persons.parquet")
    both(
        spec('"persons.parquet"', '"confidential/persons.parquet"'),
        spec("[output]", '[output]\nfolder = "."'),
        spec('"kind"', '"kinder"'),
    )(project)
    assert confide("run", project / "spec.toml", "--processes", "1").exit_code == 1
    assert [path.name for path in (project / "confidential").iterdir()] == ["persons.parquet"]
