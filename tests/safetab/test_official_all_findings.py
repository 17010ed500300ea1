"""Whatever file is wrong, all others are looked at: an operator learns everything from one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from confide.errors import InputError
from confide.lab.population import Population, write_official
from confide.official_runs import execute, validate

MEMORY = "1GiB"


@pytest.fixture
def official(tmp_path: Path) -> tuple[Path, Path]:
    """The official folders of a few made-up persons, all of it in order."""
    files = write_official(Population(400, 3), tmp_path / "in")
    return files.parameters, files.data


def spoil_config(parameters: Path, **changes: object) -> None:
    """Other values in the configuration."""
    path = parameters / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def spoil_row(path: Path, line: int, column: int, value: str) -> None:
    """Another value in one place of a text file."""
    lines = path.read_text().splitlines()
    values = lines[line - 1].split("|")
    values[column] = value
    lines[line - 1] = "|".join(values)
    path.write_text("\n".join(lines) + "\n")


def files_named(parameters: Path, data: Path) -> list[tuple[str | None, str | None]]:
    found = validate(parameters, data, memory=MEMORY, processes=1)
    assert not found.ok
    return [(finding.where.file, finding.where.column) for finding in found.findings if finding.severity == "error"]


def test_in_order(official: tuple[Path, Path]) -> None:
    assert validate(*official, memory=MEMORY, processes=1).findings == ()


def test_every_file_is_looked_at_although_all_are_wrong(official: tuple[Path, Path], tmp_path: Path) -> None:
    parameters, data = official
    spoil_config(parameters, max_race_codes=9, privacy_budget_p_stage_1_fraction=2)
    spoil_row(parameters / "race-and-ethnicity-codes.txt", 2, 0, "0123")
    spoil_row(data / "GRF-C.txt", 2, 4, "1234")
    spoil_row(data / "person-records.txt", 3, 0, "116")
    spoil_row(data / "person-records.txt", 4, 1, "4")
    named = files_named(parameters, data)
    assert ("config.json", None) in named
    assert named.count(("config.json", None)) == 2
    assert ("race-and-ethnicity-codes.txt", "RACE_ETH_CODE") in named
    assert ("GRF-C.txt", "PLACEFP") in named
    assert ("person-records.txt", "QAGE") in named
    assert ("person-records.txt", "QSEX") in named
    with pytest.raises(InputError):
        execute(parameters, data, tmp_path / "out", memory=MEMORY, processes=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_what_an_unreadable_file_would_tell_is_not_asked(official: tuple[Path, Path]) -> None:
    """No person is said to be in an unknown block because the geography cannot be read, nor to have an unknown code."""
    parameters, data = official
    (data / "GRF-C.txt").write_text("TABBLKST\n01\n")
    (parameters / "race-and-ethnicity-codes.txt").write_text("nothing\n")
    assert {file for file, _ in files_named(parameters, data)} >= {"GRF-C.txt", "race-and-ethnicity-codes.txt"}
    assert "person-records.txt" not in {file for file, _ in files_named(parameters, data)}


@pytest.mark.parametrize("content", ["{", "[]", "\x00", '{"state_filter_us": 3}'])
def test_a_configuration_that_tells_nothing(official: tuple[Path, Path], content: str) -> None:
    parameters, data = official
    (parameters / "config.json").write_text(content)
    spoil_row(data / "person-records.txt", 3, 1, "4")
    named = files_named(parameters, data)
    assert ("config.json", None) in named
    assert ("person-records.txt", "QSEX") in named
