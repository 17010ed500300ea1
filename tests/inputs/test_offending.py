"""Values that break a rule: counted in findings, told by the lines of the file, shown at a terminal alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kits.messy_office import messy_office
from typer.testing import CliRunner

import confide
from confide.cli import verbs
from confide.cli.main import app
from confide.engines import Source
from confide.inputs.frame import lines_of

SECRET = "zebra crossing"


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """An office of which three records have a value that the schema lacks, one with a quoted line end above it."""
    people, areas = messy_office(tmp_path, 80)
    spec = confide.new("tables", tmp_path / "office", from_file=people, geography=areas, merged={"017": "018"}).spec
    lines = people.read_text(encoding="latin-1").splitlines()
    for at in (10, 20, 30):
        lines[at] = lines[at].rsplit(";", 1)[0] + f";{SECRET}"
    lines[5] = lines[5].rsplit(";", 1)[0] + ';" single\n"'
    people.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return spec


def test_a_finding_counts_records_and_names_lines_of_the_file(office: Path) -> None:
    (finding,) = confide.check(office, processes=1).findings
    assert finding.what == "a code is not in the schema (3 records; the first such lines: 12, 22, 32)"
    assert (finding.where.line, finding.where.row) == (12, 10)
    lines = (office.parents[1] / "people.csv").read_text(encoding="latin-1").splitlines()
    assert [number for number, line in enumerate(lines, start=1) if SECRET in line] == [12, 22, 32]


def test_values_are_gathered_only_when_asked_for_and_never_in_words(office: Path) -> None:
    assert confide.check(office, processes=1).offending == ()
    checked = confide.check(office, processes=1, show_values=True)
    assert SECRET not in repr(checked) + json.dumps(checked.as_dict()) + "".join(map(str, checked.findings))
    (column,) = checked.offending
    (value,) = column.values.reveal("a test")
    assert (column.column, value.value, value.records, value.place) == ("civil", SECRET, 3, "lines: 12")


def test_the_command_shows_values_at_a_terminal_alone(office: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["check", str(office), "--processes", "1", "--show-values"]
    piped = CliRunner().invoke(app, command)
    assert piped.exit_code == 2
    assert SECRET not in piped.output
    monkeypatch.setattr(verbs, "at_terminal", lambda: True)
    assert CliRunner().invoke(app, [*command, "--json"]).exit_code == 2
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 1
    assert SECRET in shown.output
    assert "confidential: for you alone" in shown.output
    assert SECRET not in CliRunner().invoke(app, command[:-1]).output


def test_lines_go_over_quoted_line_ends_and_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text('a,b\n1,"x\ny"\n\n2,z\n3,"q""\n"\n4,w\n', encoding="utf-8")
    assert lines_of(Source(path, "csv"), [1, 2, 3, 4]) == [2, 5, 6, 8]
    assert lines_of(Source(path, "csv"), [4]) == [8]
    assert lines_of(Source(path, "parquet"), [1]) is None
    assert lines_of(Source(path, "csv"), []) is None
