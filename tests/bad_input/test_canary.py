"""Values planted in records appear in no message, log, repr, file name or release file."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.bad_input import KEY, confide, csv, make_project, persons, records, run_first, spec, with_one, write_csv
from tests.kits.canary import (
    BLOCK,
    CANARIES,
    NUMBER,
    TEXT,
    chain,
    leaks,
    names_of,
    public_content,
    reprs,
    temporary_folder,
    watched_files,
)

from confide import api
from confide.confidential import Confidential
from confide.engines import LocalEngine, Source, local
from confide.errors import ConfideError, InputError
from confide.releases.workspace import Workspace

EXTRA: dict[str, list[Any]] = {
    "name": [TEXT] * 40,
    "household": [NUMBER] * 40,
    "note": [BLOCK if i % 3 else None for i in range(40)],
}
"""Columns that the release does not use."""

HEADER = "geocode,sex,age,kind,name,household\n"
ROW = f"10100,1,3,household,{TEXT},{NUMBER}\n"
PLANTED = (TEXT.encode(), str(NUMBER).encode(), BLOCK.encode())


def damaged(project: Path) -> None:
    """A Parquet file with a whole footer and pages that cannot be read."""
    columns = persons(4000) | {"name": [f"{TEXT}{i}" for i in range(4000)], "kind": [f"{TEXT}{i}" for i in range(4000)]}
    pq.write_table(pa.table(columns), project / "persons.parquet", compression="none", use_dictionary=False)
    data = bytearray((project / "persons.parquet").read_bytes())
    data[2000:9000:7] = b"\xff" * len(data[2000:9000:7])
    (project / "persons.parquet").write_bytes(data)


FAILING: dict[str, Callable[[Path], object]] = {
    "text that is no code": records(**EXTRA, kind=with_one("kind", TEXT)),
    "number that is no code": records(**EXTRA, sex=with_one("sex", NUMBER)),
    "text for a number": csv(HEADER + ROW + f"10100,{TEXT},3,household,x,1\n"),
    "a number beyond 64 bits": csv(HEADER + ROW + f"10100,{NUMBER}{NUMBER},3,household,x,1\n"),
    "unknown block": records(**EXTRA, geocode=with_one("geocode", BLOCK)),
    "columns of another type": records(**EXTRA, age=[TEXT] * 40, sex=[float(NUMBER)] * 40, kind=[NUMBER] * 40),
    "a column named as our row number": records(**EXTRA, number=[NUMBER] * 40, sex=with_one("sex", 3)),
    "text in a column named as our row number": records(**EXTRA, number=[TEXT] * 40, sex=with_one("sex", 3)),
    "a CSV without a line of names": csv(ROW * 3),
    "a CSV with a record for its names": csv(f"10100,1,3,household,{TEXT},{BLOCK},{NUMBER}\n"),
    "a CSV with a name twice": csv(f"{TEXT},{TEXT},{NUMBER}\n"),
    "a row too long": csv(HEADER + ROW + f"10100,1,3,household,{TEXT},{NUMBER},{BLOCK}\n"),
    "a row too short": csv(HEADER + ROW + f"{BLOCK},{NUMBER},{TEXT}\n"),
    "a quote that never ends": csv(HEADER + ROW + f'10100,1,3,"{TEXT},{BLOCK},{NUMBER}\n'),
    "a row in another encoding": csv(HEADER.encode() + ROW.encode() + f"1,1,1,{TEXT}\xe4,{BLOCK}\n".encode("latin-1")),
    "names in another encoding": csv(f"{TEXT},{BLOCK},{NUMBER}\n".encode("latin-1")),
    "records by the name of a Parquet file": lambda p: (p / "persons.parquet").write_text(HEADER + ROW),
    "damaged pages": damaged,
    "a missing column beside others": records(**EXTRA, age=None, **{TEXT: [1] * 40, BLOCK: [1] * 40}),
}


def watched(*arguments: object, caplog: pytest.LogCaptureFixture) -> tuple[int, str]:
    """A command, with all it says and the names of all files it touches, but those that were there before."""
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    with temporary_folder() as temporary, watched_files() as names:
        outcome = confide(*arguments)
        left = names_of(temporary)
    logged = "\n".join(f"{record.getMessage()} {record.args}" for record in caplog.records)
    return outcome.exit_code, "\n".join([outcome.text, left, *sorted(names), logged])


def told_by(action: Callable[[], object]) -> str:
    """What a verb gives back says of itself, or the error that it ends in."""
    try:
        return reprs(action())
    except ConfideError as error:
        return chain(error)


@pytest.mark.parametrize("kind", FAILING)
def test_no_refusal_shows_a_value(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    project = make_project(tmp_path / "project")
    FAILING[kind](project)
    if kind != "damaged pages":
        assert any(value in file.read_bytes() for file in project.glob("persons.*") for value in PLANTED) or leaks(
            (project / "persons.parquet").read_bytes()
        )
    for command in (["check", "--json"], ["run"]):
        exit_code, said = watched(*command, project / "spec.toml", "--processes", "1", caplog=caplog)
        assert exit_code == 1
        assert not leaks(said), said
    for verb in (api.check, api.run):
        said = told_by(partial(verb, project / "spec.toml", processes=1))
        assert not leaks(said), said
    assert not (project / "tiny").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to its end over records with canaries in columns that are not published."""
    project = make_project(tmp_path_factory.mktemp("canary") / "project")
    records(**EXTRA)(project)
    run_first()(project)
    return project


@pytest.mark.parametrize(
    "command",
    [
        ["check", "@spec.toml"],
        ["check", "@spec.toml", "--json"],
        ["run", "@spec.toml", "--insecure-key", KEY],
        ["run", "@spec.toml", "--insecure-key", KEY, "--json"],
        ["verify", "@tiny/release"],
        ["verify", "@tiny/release", "--json"],
        ["evaluate", "@tiny"],
        ["replay", "@tiny"],
        ["ledger", "show", "@people.ledger", "--json"],
        ["ledger", "history", "@people.ledger", "--json"],
        ["ledger", "reconcile", "@people.ledger", "@tiny"],
        ["account", "release", "@tiny/release"],
    ],
    ids=" ".join,
)
def test_no_command_shows_a_value(command: list[str], finished: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = [str(finished / word[1:]) if word.startswith("@") else word for word in command]
    exit_code, said = watched(*words, caplog=caplog)
    # The run in the folder is a trial's, and does not go on as a release: check says so.
    assert exit_code == (1 if command[0] == "check" else 0), said
    assert not leaks(said), said
    fingerprint = Workspace(finished / "tiny").identity()
    assert fingerprint is not None
    if command[:2] != ["ledger", "history"]:  # which shows the entries as they are hashed, for the curator
        assert fingerprint.records_fingerprint not in said


def test_no_file_of_the_release_and_no_file_name_holds_a_value(finished: Path) -> None:
    assert not leaks(names_of(finished))
    for name, content in public_content(finished / "tiny" / "release"):
        assert not leaks(content), name
    assert not leaks((finished / "people.ledger").read_bytes())


def test_columns_that_are_not_published_are_not_even_kept(finished: Path) -> None:
    """The confidential folder holds true counts of published tables, and nothing else of the records."""
    for name, content in public_content(finished / "tiny" / "confidential"):
        assert not leaks(content), name
    for name, content in public_content(finished / "tiny" / "dossier-confidential"):
        assert not leaks(content), name


def test_objects_of_the_api_say_nothing(finished: Path) -> None:
    spec_file = finished / "spec.toml"
    objects: list[object] = [
        api.load(spec_file),
        api.check(spec_file, processes=1),
        api.run(spec_file, processes=1, insecure_key=KEY),
        api.verify(finished / "tiny/release"),
        api.evaluate(finished / "tiny"),
        api.replay(finished / "tiny", processes=1),
    ]
    for one in objects:
        said = reprs(one)
        assert not leaks(said), type(one)
        assert KEY not in said
    with LocalEngine(finished / "scratch", processes=1) as engine:
        source = Source(finished / "persons.parquet", "parquet")
        answer = engine.sql("SELECT * FROM records", records=source)
        assert leaks(str(answer.reveal("to see that the canaries are there").to_pylist()))
        assert not leaks(reprs(answer))
        assert not leaks(f"{answer} {answer!r}")
    (finished / "scratch").rmdir()


KILLED = """
import os, signal, sys
from confide.releases.folder import ReleaseWriter
ReleaseWriter.document = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.argv = ["confide", "run", sys.argv[1], "--processes", "2"]
from confide.cli.main import main
main()
"""


@pytest.mark.process
def test_a_killed_run_leaves_no_value_in_names_or_outside_the_confidential_folder(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    records(**EXTRA)(project)
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-c", KILLED, str(project / "spec.toml")]
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    ended = subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)
    assert ended.returncode == -9, ended.stderr
    assert (project / "tiny/confidential/measured").exists()
    assert not leaks(ended.stdout + ended.stderr)
    assert not leaks(names_of(tmp_path))
    for folder in (tmp_path / "temporary", project / "tiny"):
        for name, content in public_content(folder):
            assert not leaks(content), name


def test_one_person_alone_in_a_block_is_described_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The combination is the secret: each of its values is a public code of the schema or the frame."""
    project = make_project(tmp_path / "project")
    alone = {name: [*column, value] for (name, column), value in zip(
        persons().items(), ["10202", 2, 9, "quarters", 41], strict=True)}  # fmt: skip
    write_csv(project / "persons.csv", alone)
    spec("persons.parquet", "persons.csv")(project)
    combination = ("10202,2,9,quarters", "'10202', 2, 9, 'quarters'", "10202 2 9 quarters", '"10202", "2", "9"')
    exit_code, said = watched("run", project / "spec.toml", "--processes", "1", caplog=caplog)
    assert exit_code == 0
    assert not leaks(said, combination)
    for name, content in public_content(project / "tiny"):
        assert not leaks(content, combination), name


# The scanner itself: it has to find what is planted for it.


def test_the_scanner_finds_a_value_in_a_compressed_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"area": [TEXT] * 5000}), tmp_path / "leak.parquet", compression="zstd")
    pq.write_table(pa.table({"household": [NUMBER] * 5000}), tmp_path / "number.parquet", compression="zstd")
    found = {canary for _, content in public_content(tmp_path) for canary in leaks(content)}
    assert found == {TEXT, NUMBER}


@pytest.mark.parametrize("canary", CANARIES, ids=str)
def test_the_scanner_finds_a_value_however_it_is_spelled(canary: str | int, tmp_path: Path) -> None:
    assert leaks(f"found: {canary!r}") == [canary]
    assert leaks(str(canary).encode()) == [canary]
    if isinstance(canary, int):
        assert leaks(f"row {canary:,}") == [canary]
        assert leaks(canary.to_bytes(8, "little")) == [canary]
    else:
        assert leaks(ascii(canary)) == [canary]
        assert leaks(canary.upper()) == [canary]
        assert leaks(canary.encode().hex()) == [canary]
    (tmp_path / f"{canary}.spill").touch()
    assert leaks(names_of(tmp_path)) == [canary]
    assert leaks("nothing of the kind, 7f3, 731937, 77319") == []


def test_the_scanner_finds_a_value_behind_an_error() -> None:
    def quoting() -> None:
        raise ValueError(f"Could not convert '{TEXT}' to INT8")

    def hiding() -> None:
        try:
            quoting()
        except ValueError:
            raise InputError([]) from None

    assert leaks(told_by(hiding)) == [TEXT]


def test_the_scanner_finds_a_value_in_an_object() -> None:
    assert leaks(reprs([{"row": (BLOCK,)}])) == [BLOCK]
    assert leaks(reprs(Confidential(BLOCK))) == []


def test_the_scanner_finds_a_file_that_was_there_for_a_moment(tmp_path: Path) -> None:
    with watched_files() as names:
        (tmp_path / TEXT).write_text("")
        (tmp_path / TEXT).unlink()
    assert leaks("\n".join(names)) == [TEXT]


def test_an_engine_that_passed_on_what_duckdb_says_would_be_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leak that the scan is for, planted into the code."""
    project = make_project(tmp_path / "project")
    FAILING["a row too long"](project)
    careful = local.unreadable

    def careless(*arguments: Any) -> Any:
        return replace(careful(*arguments), found=str(sys.exc_info()[1]))

    monkeypatch.setattr(local, "uneven_row", lambda *_: None)  # which would speak first, in words of ours
    monkeypatch.setattr(local, "unreadable", careless)
    exit_code, said = watched("check", project / "spec.toml", "--processes", "1", caplog=caplog)
    assert exit_code == 1
    assert set(leaks(said)) == set(CANARIES)
