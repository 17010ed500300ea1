"""A state that brings only the default columns: what `confide new` writes must run on it as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits import bad_input
from tests.kits.topdown import QUARTERS, released, rows_of, same_rows, sql, write_small_state

PERSONS = ["geocode", "hhgq", "votingage", "hispanic", "cenrace"]
BLOCKS = ["geocode", "housing_units", "occupied_units", *QUARTERS]
WIDTHS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.int32(), pa.uint16(), pa.int64(), pa.int32()]


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a state with exactly the default columns, whole numbers of all widths, persons in quarters counted
    in place of facilities, and rows in no order; as Parquet and as CSV."""
    folder = write_small_state(tmp_path_factory.mktemp("second"), 2_000, 8)
    persons, blocks = (rows_of(folder / f"{name}.parquet") for name in ("persons", "blocks"))
    counted = ", ".join(f"count(p.hhgq) FILTER (WHERE hhgq = {kind}) AS gq{kind}" for kind in range(1, 8))
    made = f"""
        SELECT b.geocode, any_value(housing_units) AS housing_units,
               any_value(occupied_units) AS occupied_units, {counted}
        FROM {blocks} AS b LEFT JOIN {persons} AS p USING (geocode) GROUP BY 1 ORDER BY hash(b.geocode)
    """
    sql(f"COPY ({made}) TO '{folder}/blocks-made.parquet'")
    columns = ", ".join(PERSONS)
    sql(f"COPY (SELECT {columns} FROM {persons} ORDER BY hash(household_id)) TO '{folder}/persons-made.parquet'")
    (folder / "csv").mkdir()
    for name, columns, widths in (("persons", PERSONS, WIDTHS), ("blocks", BLOCKS, WIDTHS[2:] + WIDTHS[4:6])):
        table = pq.read_table(folder / f"{name}-made.parquet")
        assert table.column_names == columns
        for position, kind in enumerate(widths[: len(columns) - 1], start=1):
            table = table.set_column(position, columns[position], table.column(position).cast(kind))
        table = table.set_column(0, "geocode", table.column(0).cast(pa.large_string()))
        pq.write_table(table, folder / f"{name}.parquet")
        pyarrow.csv.write_csv(table, folder / "csv" / f"{name}.csv")
    return folder


def confide(*arguments: object) -> Any:
    """The command as it is typed, with --json; what it prints."""
    done = bad_input.confide(*arguments, "--json")
    assert done.exit_code == 0, done.text
    return done.json


def lay_out(folder: Path, second: Path, product: str, form: str) -> Path:
    confide("new", "topdown", folder, "--product", product)
    names = ("persons", "blocks") if product == "pl94-persons" else ("blocks",)
    source = second if form == "parquet" else second / "csv"
    for name in names:
        (folder / f"{name}.{form}").write_bytes((source / f"{name}.{form}").read_bytes())
    spec = folder / "spec.toml"
    if form == "csv":
        spec.write_text(spec.read_text().replace('.parquet"', '.csv"'))
    return spec


@pytest.mark.process
@pytest.mark.parametrize(
    ("product", "form"),
    [
        ("pl94-persons", "parquet"),
        pytest.param("pl94-units", "csv", marks=pytest.mark.slow),
        pytest.param("pl94-persons", "csv", marks=pytest.mark.slow),
        pytest.param("pl94-units", "parquet", marks=pytest.mark.slow),
    ],
)
def test_a_second_state_just_runs(tmp_path: Path, second: Path, product: str, form: str) -> None:
    spec = lay_out(tmp_path / "project", second, product, form)
    checked = confide("check", spec, "--processes", 2)
    assert checked["ok"]
    assert checked["findings"] == []
    ran = confide("run", spec, "--processes", 2)
    release = Path(ran["release"])
    assert ran["left"] == "0"
    verified = confide("verify", release, "--ledger", spec.parent / "data-set.ledger")
    assert verified["ok"]
    evaluated = confide("evaluate", spec, "--processes", 2)
    assert evaluated["confidential"]
    assert Path(evaluated["dossier"]).exists()
    blocks, rows = rows_of(second / "blocks.parquet"), released(release)
    if product == "pl94-units":
        found = f"SELECT geocode, count(*) AS n FROM {rows} GROUP BY 1"
        assert same_rows(found, f"SELECT geocode, housing_units FROM {blocks} WHERE housing_units > 0")
        return
    assert sql(f"SELECT count(*) FROM {rows}") == [(2_000,)]
    # Persons in quarters are presence: they say where somebody is, never how many, and that is what is published.
    told = f"SELECT geocode, {', '.join(QUARTERS)} FROM {released(release, 'units')}"
    present = ", ".join(f"CAST({name} > 0 AS BIGINT)" for name in QUARTERS)
    assert same_rows(told, f"SELECT geocode, {present} FROM {blocks}")
    where = "SELECT DISTINCT geocode, hhgq FROM {rows} WHERE hhgq > 0"
    assert same_rows(where.format(rows=rows), where.format(rows=rows_of(second / "persons.parquet")))
