"""The typed answers of the commands: the same values for a program, a notebook and ``--json``."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.commands import run_json

import confide.lab.attacks
from confide.errors import ConfideError
from confide.lab.attacks import (
    Published,
    attacker_settings,
    audit_suppression,
    reconstruct,
    reidentify_files,
    tabulate_sf1,
)
from confide.lab.population import simulate

PEOPLE = {
    "geocode": ["900010001001000"] * 3,
    "sex": [1, 2, 2],
    "age": [30, 41, 8],
    "cenrace": [0, 1, 0],
    "hispanic": [0, 0, 1],
}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    file = tmp_path / "people.parquet"
    pq.write_table(pa.table({"person_id": [1, 2, 3]} | PEOPLE), file)
    return file


def test_every_name_of_the_room_is_there() -> None:
    assert set(dir(confide.lab.attacks)) == set(confide.lab.attacks.__all__)
    for name in confide.lab.attacks.__all__:
        assert getattr(confide.lab.attacks, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = confide.lab.attacks.nothing


def test_a_reconstruction_answers_like_its_command(people: Path, tmp_path: Path) -> None:
    folder = tabulate_sf1(people, tmp_path / "tables", tables=["P12"], tract_digits=0)
    assert folder.as_dict() == {"ok": True, "folder": str(tmp_path / "tables"), "files": ["p12.parquet", "tables.toml"]}
    answer = reconstruct(tmp_path / "tables", processes=1, out=tmp_path / "one.parquet").as_dict()
    printed = run_json("attack", "reconstruct", tmp_path / "tables", "--processes", "1", "--out", tmp_path / "two.csv")
    assert list(answer) == list(printed)
    assert answer["out"] == str(tmp_path / "one.parquet")
    assert (tmp_path / "one.parquet").stat().st_mode & 0o077 == 0
    differ = {key for key in answer if answer[key] != printed[key]}
    assert differ <= {"out", "seconds"}


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfideError) as caught:
        reconstruct(tmp_path / "no-such-folder", out=tmp_path / "taken")
    assert caught.value.findings[0].code == "unwritable"


def test_a_reidentification_answers_like_its_command(people: Path, tmp_path: Path) -> None:
    answer = reidentify_files(people, people, attacker_settings(seed=1), matches=tmp_path / "one.csv").as_dict()
    printed = run_json(
        "attack",
        "reidentify",
        people,
        "--truth",
        people,
        "--attacker-from-truth",
        "seed=1",
        "--matches",
        tmp_path / "two.csv",
    )
    assert list(answer) == list(printed)
    assert answer["reidentification"] == printed["reidentification"]
    assert answer["reidentification"]["all"]["confirmed"] == 3
    with pytest.raises(ConfideError) as caught:
        reidentify_files(people, people, people, matches=tmp_path / "one.csv")
    assert caught.value.findings[0].code == "matches-file"


def test_an_audit_answers_like_its_command(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("sex,age,count\n_T,_T,10\nm,_T,4\nf,_T,6\n_T,y,3\n_T,o,7\nm,y,x\nm,o,x\nf,y,x\nf,o,x\n")
    answer = audit_suppression(file)
    printed = run_json("audit", "suppression", file)
    assert printed == json.loads(json.dumps(answer.as_dict()))
    assert answer.taken_for["count"] == "the figures"


def test_made_up_people_answer_like_their_command(tmp_path: Path) -> None:
    answer = simulate(tmp_path / "one", persons=200, seed=3)
    printed = run_json("import", "made-up", "--out", tmp_path / "one", "--persons", "200", "--seed", "3")
    assert printed == answer.as_dict()


def test_a_notebook_shows_tables_and_no_markup_of_the_source() -> None:
    tables = {"sex": {"sex": ["male", "female"], "count": [2, 1]}}
    shown = reconstruct(Published.from_tables(tables, "persons", source="<b>&"), processes=1)._repr_html_()
    assert "<table>" in shown
    assert "&lt;b&gt;&amp;" in shown
    assert "<b>" not in shown
