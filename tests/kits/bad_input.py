"""What the tests of bad input share: a tiny project, the command line in this process, and what a refusal has to be."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from confide.cli.main import main
from confide.releases.ledger import Ledger

KEY = "5a" * 32
OTHER_KEY = "a5" * 32

SPEC = """\
[release]
name = "tiny"
mechanism = "tables"

[data]
records = "persons.parquet"
blocks = "blocks.parquet"
schema = "schema.toml"

[geography]
block = "geocode"

[[geography.levels]]
name = "state"
digits = 1

[[geography.levels]]
name = "county"
digits = 3

[[geography.areas]]
name = "place"
column = "place"
none = "-"

[privacy]
ledger = "people.ledger"
budget = "1/2"

[[tables]]
name = "sex-by-age"
variables = ["sex", "age:halves"]
levels = ["state", "county", "place"]

[[tables]]
name = "kinds"
variables = ["kind"]
levels = [
  "county",
  "block",
]

[output]
formats = ["parquet", "csv"]
"""

SCHEMA = """\
id = "tiny"
provenance = "made up for the tests of bad input"

[attributes.sex]
levels = [[1, "male"], [2, "female"]]

[attributes.age]
range = [0, 9]

[attributes.age.recodes.halves]
starts = [0, 5]

[attributes.age.recodes.young]
groups = { "young" = "0..4" }

[attributes.kind]
levels = [["household", "Household"], ["quarters", "Group quarters"]]
"""

BLOCKS: dict[str, list[Any]] = {
    "geocode": ["10100", "10101", "10200", "10201", "10202"],
    "place": ["a", "b", "b", None, "-"],
    "district": ["x", "y", "x", "y", "y"],
}


def persons(number: int = 40) -> dict[str, list[Any]]:
    """Made-up records, the same each time."""
    return {
        "geocode": [BLOCKS["geocode"][i * i % 4] for i in range(number)],
        "sex": [1 + i % 2 for i in range(number)],
        "age": [i * 7 % 10 for i in range(number)],
        "kind": [("household", "quarters")[i % 5 == 0] for i in range(number)],
        "household": list(range(number)),
    }


def write_parquet(path: Path, columns: dict[str, Any]) -> None:
    pq.write_table(pa.table(columns), path)


def write_csv(path: Path, columns: dict[str, list[Any]]) -> None:
    rows = [list(columns), *([*row] for row in zip(*columns.values(), strict=True))]
    path.write_text("".join(",".join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows))


def make_project(folder: Path) -> Path:
    """A folder with everything a release needs, and nothing wrong with it."""
    folder.mkdir(exist_ok=True)
    (folder / "spec.toml").write_text(SPEC)
    (folder / "schema.toml").write_text(SCHEMA)
    write_parquet(folder / "persons.parquet", persons())
    write_parquet(folder / "blocks.parquet", BLOCKS)
    open_ledger(folder)
    return folder


def open_ledger(folder: Path, name: str = "people.ledger", **changes: Any) -> Ledger:
    settings = {"data_set": "people", "definition": "zcdp", "neighbours": "change-one", "budget": "1"}
    return Ledger.open_new(folder / name, **(settings | changes))


def entries(project: Path, name: str = "people.ledger") -> list[str]:
    return [entry.kind for entry in Ledger(project / name).history()]


@dataclass(frozen=True)
class Outcome:
    """What a command did, as its user sees it."""

    exit_code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json["findings"]
        return found

    @property
    def codes(self) -> list[str]:
        return [finding["code"] for finding in self.findings]


def confide(*arguments: object) -> Outcome:
    """The command line, in this process: the same entry point, exit codes and streams."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["confide", *(str(argument) for argument in arguments)]
    code: object = 0
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, {"COLUMNS": "400"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return Outcome(0 if code is None else int(str(code)), out.getvalue(), err.getvalue())


def one_process(command: str) -> list[str]:
    return ["--processes", "1"] if command in {"check", "run", "replay"} else []


def tree(folder: Path) -> dict[str, str]:
    """Every file under a folder with the hash of its content; folders too. The lock file is nobody's content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name != "lock":
            content = "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(folder))] = content
    return found


@dataclass(frozen=True)
class Bad:
    """One kind of bad input.

    ``change`` spoils a good project. The first and the last of ``commands`` have to refuse with a finding of the given
    ``code`` that is at ``place`` (a regular expression for the text of the place) and, where ``line_has`` is given, at
    a line of that file which has this text in it.
    """

    name: str
    change: Callable[[Path], object]
    code: str
    place: str
    line_has: str = ""
    remedy: str = "."
    # a word with @ is a path in the project
    commands: Sequence[Sequence[str]] = (("check", "@spec.toml"), ("run", "@spec.toml"))
    also: Sequence[str] = field(default_factory=tuple)
    """Codes of further findings that the same try has to report."""


def assert_refused(bad: Bad, project: Path) -> None:
    """Every command refuses with a complete finding, without a stack trace, and leaves everything as it was."""
    before = tree(project)
    first, last = (_arguments(command, project) for command in (bad.commands[0], bad.commands[-1]))
    with tempfile.TemporaryDirectory() as temporary, mock.patch.object(tempfile, "tempdir", temporary):
        told, shown = confide(*first, "--json"), confide(*last)
        assert not list(Path(temporary).iterdir()), "a temporary file was left"
    assert told.exit_code == shown.exit_code == 1, told.text[:2000] + shown.text[:2000]
    finding = next((finding for finding in told.findings if finding["code"] == bad.code), None)
    assert finding is not None, told.findings
    assert set(bad.also) <= set(told.codes), told.codes
    assert_complete(bad, project, finding)
    for word in (finding["what"], finding["remedy"]):
        assert word in shown.text
    assert "Traceback" not in told.text + shown.text
    assert tree(project) == before, "something was left, changed or removed"


def _arguments(command: Sequence[str], project: Path) -> list[str]:
    words = [str(project / word[1:]) if word.startswith("@") else word for word in command]
    return words + one_process(command[0])


def assert_complete(bad: Bad, project: Path, finding: dict[str, Any]) -> None:
    where = finding["where"]
    assert re.search(bad.place, place_of(where)), where
    for part in ("what", "found", "expected", "remedy"):
        assert finding.get(part), f"{part} is missing: {finding}"
    assert re.search(bad.remedy, finding["remedy"]), finding["remedy"]
    if bad.line_has:
        lines = (project / where["file"]).read_text().split("\n")
        assert bad.line_has in lines[where["line"] - 1], where


def place_of(where: dict[str, Any]) -> str:
    parts = [where.get("file", "")]
    parts += [f"{name} {where[name]}" for name in ("line", "row", "column", "path") if name in where]
    return ", ".join(parts)


# Ways to spoil a project, to be written in a table.


def spec(old: str, new: str) -> Callable[[Path], object]:
    return replaced("spec.toml", old, new)


def replaced(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(project: Path) -> None:
        text = (project / name).read_text()
        assert text.count(old) >= 1, old
        (project / name).write_text(text.replace(old, new, 1))

    return change


def content(name: str, data: bytes | str) -> Callable[[Path], object]:
    return lambda project: (project / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def removed(name: str) -> Callable[[Path], object]:
    return lambda project: (project / name).unlink()


def records(**changes: Any) -> Callable[[Path], object]:
    """Columns of the records replaced; None takes one away."""
    return _columns("persons.parquet", persons(), changes)


def blocks(**changes: Any) -> Callable[[Path], object]:
    return _columns("blocks.parquet", BLOCKS, changes)


def _columns(name: str, columns: dict[str, Any], changes: dict[str, Any]) -> Callable[[Path], object]:
    made = {key: value for key, value in (columns | changes).items() if value is not None}
    return lambda project: write_parquet(project / name, made)


def with_one(name: str, value: Any, row: int = 7) -> list[Any]:
    """A column of the records with one value replaced in a row (from one)."""
    column = persons()[name]
    column[row - 1] = value
    return column


def csv(text: str | bytes, key: str = "records") -> Callable[[Path], object]:
    """Records, or blocks, as a CSV of this content."""
    name = {"records": "persons", "blocks": "blocks"}[key]
    return both(spec(f'{name}.parquet"', f'{name}.csv"'), content(f"{name}.csv", text))


def both(*changes: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(project: Path) -> None:
        for one in changes:
            one(project)

    return change


def run_first(*, key: str | None = KEY) -> Callable[[Path], object]:
    """A run to its end, before what spoils it. Of a project as it was made, the run is made once and copied."""

    def change(project: Path) -> None:
        if _inputs(project) == _inputs(_sealed(key)) and entries(project) == ["open"]:
            shutil.copytree(_sealed(key), project, dirs_exist_ok=True)
        else:
            _run(project, key)

    return change


def _run(project: Path, key: str | None) -> None:
    chosen = [] if key is None else ["--insecure-key", key]
    outcome = confide("run", project / "spec.toml", "--processes", "1", *chosen)
    assert outcome.exit_code == 0, outcome.text


@cache
def _sealed(key: str | None) -> Path:
    """The project as it was made, after its run."""
    folder = make_project(Path(tempfile.mkdtemp(prefix="sealed-")) / "project")
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    _run(folder, key)
    return folder


def _inputs(project: Path) -> list[bytes | None]:
    names = ("spec.toml", "schema.toml", "persons.parquet", "blocks.parquet")
    return [(project / name).read_bytes() if (project / name).exists() else None for name in names]
