"""``confide attack reconstruct`` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from confide.attacks.reconstruction import write_sf1_tables
from confide.cli.main import app
from confide.errors import ConfideError


@pytest.fixture(scope="module")
def folder(population_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    people = pq.read_table(population_folder / "persons.parquet").slice(0, 400)
    return write_sf1_tables(people, tmp_path_factory.mktemp("command") / "tables")


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(app, ["attack", "reconstruct", *(str(argument) for argument in arguments)])
    if result.exit_code:
        raise AssertionError(result.output) from result.exception
    return result


def test_json_and_a_file(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    result = json.loads(run(folder, "--out", file, "--json", "--processes", 1).stdout)
    assert result["ok"]
    assert result["persons"] == 400
    assert result["exact"] is True
    assert result["level"] == "tract"
    assert len(result["solution_variability"]) == result["blocks"]
    assert all(0 <= value <= 100 for value in result["solution_variability"].values())
    assert result["seconds"] > 0
    rows = pq.read_table(file)
    assert rows.num_rows == 400
    assert file.stat().st_mode & 0o077 == 0
    mean = sum(result["solution_variability"][code] for code in rows.column("geocode").to_pylist()) / 400
    assert result["mean_solution_variability"] == pytest.approx(mean)


def test_text_csv_and_repeats(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    options = ("--out", file, "--processes", 1, "--level", "block", "--repeats", 3, "--seed", 5)
    shown = run(folder, *options).stdout
    assert "400 records" in shown
    assert "one solution" in shown
    assert "checked again" in shown
    rows = pyarrow.csv.read_csv(file)
    assert rows.num_rows == 400
    shares = {value for value in rows.column("confidence").to_pylist() if value is not None}
    assert shares <= {0.0, 1 / 3, 2 / 3, 1.0} | {0.333333, 0.666667} | {round(k / 3, 16) for k in range(4)}
    first = file.read_bytes()
    run(folder, *options)
    assert file.read_bytes() == first


def test_tables_of_records_that_somebody_has(population_folder: Path, tmp_path: Path) -> None:
    people = pq.read_table(population_folder / "persons.parquet").slice(0, 60)
    pyarrow.csv.write_csv(people, tmp_path / "people.csv")
    options = ["--out", str(tmp_path / "t"), "--table", "P1", "--table", "P12", "--table", "PCT12H", "--json"]
    result = CliRunner().invoke(app, ["attack", "tabulate", str(tmp_path / "people.csv"), *options])
    assert json.loads(result.stdout)["files"] == ["p1.parquet", "p12.parquet", "pct12h.parquet", "tables.toml"]
    assert json.loads(run(tmp_path / "t", "--json", "--processes", 1).stdout)["persons"] == 60


def test_refusals(folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["attack", "reconstruct", str(tmp_path)])
    assert isinstance(result.exception, ConfideError)
    result = CliRunner().invoke(app, ["attack", "reconstruct", str(folder), "--level", "county"])
    assert isinstance(result.exception, ConfideError)
    assert result.exception.findings[0].code == "no-level"
    result = CliRunner().invoke(app, ["attack", "reconstruct", str(folder), "--out", str(tmp_path / "x.xlsx")])
    assert result.exit_code == 2
