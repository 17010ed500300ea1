"""Releases of made-up people for the tests of ``verify`` and ``evaluate``, and a forger's tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide import api, official_runs
from confide.lab.population import Population, write_official
from tests.kits.forged import rehash

Change = Callable[[pa.Table], pa.Table]
PLACES = {"t1": "t1/t1", "t2": "t2/t2"}


def write_people(folder: Path, persons: int = 6_000) -> None:
    """The official folders of made-up persons."""
    write_official(Population(persons, 11), folder)


def release_of(people: Path, folder: Path, key: str | None = None, **changes: str) -> Path:
    """A run over the people; every change is a line of the spec, by its name, and what it becomes; empty: gone."""
    spec = official_runs.convert(people / "parameters", people / "data", folder)
    lines = spec.read_text().split("\n")
    for name, value in changes.items():
        at = [number for number, line in enumerate(lines) if line.removeprefix("# ").startswith(f"{name} = ")]
        assert at, name
        for number in at:
            lines[number] = f"{name} = {value}" if value else ""
    spec.write_text("\n".join(lines))
    return api.run(spec, processes=1, insecure_key=key).workspace.root


def paths(release: Path, name: str) -> dict[str, Path]:
    """The files of a table by their format, stamped or not."""
    place = release / PLACES.get(name, f"tables/{name}")
    return {path.suffix[1:]: path for path in place.parent.glob(f"{place.name}.*")}


def read(release: Path, name: str) -> pa.Table:
    """A table of the release, from whatever format there is."""
    found = paths(release, name)
    if "parquet" in found:
        return pq.read_table(found["parquet"])
    texts = ["REGION_ID", "REGION_TYPE", "ITERATION_CODE", "AGESTART", "AGEEND", "SEX"]
    texts += ["level", "area", "iteration", "sex", "age:4", "age:9", "age:23"]
    return pyarrow.csv.read_csv(
        found["csv"],
        parse_options=pyarrow.csv.ParseOptions(delimiter="|" if name in PLACES else ","),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string())),
    )


def forge(release: Path, *formats: str, **changes: Change) -> None:
    """Changes tables, in all formats or in some, and corrects the hashes in the manifest."""
    for name, change in changes.items():
        table = change(read(release, name))
        for format_, path in paths(release, name).items():
            if formats and format_ not in formats:
                continue
            if format_ == "parquet":
                pq.write_table(table, path)
            elif name in PLACES:
                plain = pyarrow.csv.WriteOptions(delimiter="|", quoting_style="none", quoting_header="none")
                pyarrow.csv.write_csv(table, path, plain)
            else:
                pyarrow.csv.write_csv(table, path)
    rehash(release)


def rows_where(table: pa.Table, **values: str) -> list[int]:
    """The positions of the rows with these values."""
    columns = [table.column(name).to_pylist() for name in values]
    return [at for at, row in enumerate(zip(*columns, strict=True)) if row == tuple(values.values())]


def put(column: str, value: object, *rows: int, **where: str) -> Change:
    """A value, or a function of the old one, in some rows of a column."""

    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_pylist()
        for row in rows or rows_where(table, **where):
            values[row] = value(values[row]) if callable(value) else value
        field = table.schema.field(column)
        return table.set_column(table.column_names.index(column), field, pa.array(values, field.type))

    return change


def drop(*rows: int, **where: str) -> Change:
    """The table without some rows."""

    def change(table: pa.Table) -> pa.Table:
        gone = set(rows or rows_where(table, **where))
        assert gone
        return table.take([row for row in range(table.num_rows) if row not in gone])

    return change


def also(*changes: Change) -> Change:
    """One change after the other."""

    def change(table: pa.Table) -> pa.Table:
        for each in changes:
            table = each(table)
        return table

    return change
