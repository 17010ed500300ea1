"""``confide attack reconstruct`` as a person types it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits import commands

from confide.lab.attacks.reconstruction import write_sf1_tables

run = partial(commands.run, "attack", "reconstruct")
run_json = partial(commands.run_json, "attack", "reconstruct")
codes = partial(commands.codes, "attack", "reconstruct")


@pytest.fixture(scope="module")
def folder(population_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    people = pq.read_table(population_folder / "persons.parquet").slice(0, 400)
    return write_sf1_tables(people, tmp_path_factory.mktemp("command") / "tables")


def test_json_and_a_file(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    result = run_json(folder, "--out", file, "--processes", 1)
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
    shown = run(folder, *options)
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
    wanted = ["--out", tmp_path / "t", "--table", "P1", "--table", "P12", "--table", "PCT12H"]
    written = commands.run_json("attack", "tabulate", tmp_path / "people.csv", *wanted)
    assert written["files"] == ["p1.parquet", "p12.parquet", "pct12h.parquet", "tables.toml"]
    assert run_json(tmp_path / "t", "--processes", 1)["persons"] == 60


def test_refusals(folder: Path, tmp_path: Path) -> None:
    assert codes(tmp_path) == ["no-tables"]
    assert codes(folder, "--level", "county") == ["no-level"]
    assert "a name that ends in" in commands.usage("attack", "reconstruct", folder, "--out", tmp_path / "x.xlsx")


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "taken.csv").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("taken.csv", "file/x.csv"):
        assert codes(tmp_path / "no such tables", "--out", tmp_path / name) == ["unwritable"]


def tabulated(tmp_path: Path, people: pa.Table) -> list[str]:
    """The findings about records to be tabulated."""
    pq.write_table(people, tmp_path / "people.parquet")
    return commands.codes("attack", "tabulate", tmp_path / "people.parquet", "--out", tmp_path / "tables")


def test_records_that_cannot_be_tabulated(population_folder: Path, tmp_path: Path) -> None:
    people = pq.read_table(population_folder / "persons.parquet").slice(0, 20)
    place, old = people.column_names.index("geocode"), people.column("geocode").to_pylist()

    def of(codes: pa.Array) -> pa.Table:
        return people.set_column(place, "geocode", codes)

    assert tabulated(tmp_path, people.drop_columns(["geocode"])) == ["no-column"]
    assert tabulated(tmp_path, people.slice(0, 0)) == ["no-records"]
    assert tabulated(tmp_path, of(pa.array([None, *old[1:]]))) == ["no-geocode"]
    assert tabulated(tmp_path, of(pa.array([*old[1:], " "]))) == ["no-geocode"]
    assert tabulated(tmp_path, of(pa.array(range(20)))) == ["column-type"]
    age = people.column_names.index("age")
    assert tabulated(tmp_path, people.set_column(age, "age", pa.array([[1]] * 20))) == ["bad-code"]
    assert not (tmp_path / "tables").exists()


def test_tables_go_to_a_folder_of_their_own(population_folder: Path, tmp_path: Path) -> None:
    records = population_folder / "persons.parquet"
    full, new = tmp_path / "full", tmp_path / "new"
    full.mkdir(mode=0o755)
    (full / "something").write_text("")
    assert commands.codes("attack", "tabulate", records, "--out", full, "--table", "P1") == ["folder"]
    assert full.stat().st_mode & 0o777 == 0o755
    assert commands.codes("attack", "tabulate", records, "--out", full / "something", "--table", "P1") == ["folder"]
    for _ in range(2):
        commands.run("attack", "tabulate", records, "--out", new, "--table", "P1")
    assert new.stat().st_mode & 0o777 == 0o700
