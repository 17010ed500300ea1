"""Tables, margins and labels; rows out and in; what every tabular release is verified for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ReleaseError
from confide.releases import tabular
from confide.releases.tabular import (
    COUNT,
    SDMX,
    CodedVariable,
    DescribedTable,
    Margin,
    Table,
    TableRows,
    UnlikePlanError,
    projected,
)
from confide.releases.tabular.table import DICTIONARY, same_rows

SEX = CodedVariable("sex", ("1", "2"), ("male", "female"), "sex")
AGE = CodedVariable("age:broad", ("a", "b", "c"), ("young", "middle", "old"), "age")
MARGINS = (Margin(()), Margin((AGE,)), Margin((SEX,)), Margin((SEX, AGE)))
PLAIN = Table("people", "People", (SEX, AGE), MARGINS)
PLACES = Table("people", "People", (SEX, AGE), MARGINS, ("county", "tract"))
FIGURES = {COUNT: pa.int64()}
TEXTS = st.lists(st.sampled_from(["", "a", "b", "ab", None]), max_size=8)


@given(TEXTS, TEXTS, st.permutations(["", "a", "b", "ab", "of no row"]), st.integers(0, 8))
def test_rows_are_the_same_whatever_the_dictionaries(
    one: list[str | None], other: list[str | None], order: list[str], cut: int
) -> None:
    """However texts are numbered, however many of them no row has, and however the rows lie in parts."""

    def table(texts: list[str | None], listed: list[str]) -> pa.Table:
        places = pa.array([None if text is None else listed.index(text) for text in texts], pa.int32())
        column = pa.DictionaryArray.from_arrays(places, pa.array(listed, pa.string()))
        rest = pa.array(texts[cut:], pa.string()).dictionary_encode()
        return pa.table({"text": pa.chunked_array([column.slice(0, cut), rest], DICTIONARY)})

    assert same_rows(table(one, order), table(one, sorted(order)))
    assert same_rows(table(one, order), table(other, sorted(order))) == (one == other)


def written(path: Path, rows: pa.Table) -> Path:
    """The rows as a file, in the format of its name."""
    if path.suffix == ".parquet":
        pq.write_table(rows, path)
    else:
        pyarrow.csv.write_csv(rows, path)
    return path


def read_rows(path: Path, table: Table) -> TableRows:
    """The rows of a file, put back into their cells."""
    return DescribedTable.of(table, [tabular.figure_column(COUNT)]).placed(path, path.suffix[1:])


def every_row(table: Table) -> pa.Table:
    """A row for each cell of each margin, counted through."""
    schema = tabular.plain_schema(table, tabular.figure_column(COUNT, "counts"))
    labels = table.labels(table.unit_places)
    geography = [tabular.repeated(text, table.cells) for text in (("tract", "01") if table.levels else ())]
    batch = tabular.plain_rows(schema, [*geography, *labels], [pa.array(np.arange(table.cells))])
    columns = table.coded
    return pa.Table.from_batches([columns.coded(batch, None, columns.schema([schema.field(COUNT)]))])


@pytest.mark.parametrize("table", [PLAIN, PLACES])
def test_a_plan_describes_a_table_completely(table: Table) -> None:
    again = Table.read(json.loads(json.dumps(table.as_dict())))
    assert (again.name, again.title, again.levels) == (table.name, table.title, table.levels)
    assert again.variables == table.variables
    assert again.margins == table.margins


def test_a_plan_names_the_measurements_of_margins() -> None:
    measurements = {margin.name: f"people/{margin.name}" for margin in MARGINS}
    said = PLACES.as_dict(measurements)
    assert said["margins"] == ["total", "age:broad", "sex", "sex*age:broad"]
    assert Table.measurements(said) == measurements
    assert "measurements" not in PLAIN.as_dict()


def test_the_labels_of_an_area_are_those_of_its_margins_in_order() -> None:
    sex, age = (column.to_pylist() for column in PLACES.labels(PLACES.unit_places))
    assert sex == ["_T"] * 4 + ["male", "female"] + ["male"] * 3 + ["female"] * 3
    assert age == ["_T", "young", "middle", "old", "_T", "_T"] + ["young", "middle", "old"] * 2
    margin = np.repeat(np.arange(4), [each.cells for each in MARGINS])
    cell = np.concatenate([np.arange(each.cells) for each in MARGINS])
    for one, other in zip(PLACES.mixed_places(margin, cell), PLACES.unit_places, strict=True):
        assert np.array_equal(one, other)


def test_cells_are_parts_of_the_cells_of_a_margin() -> None:
    cells = np.arange(6)
    assert projected(PLAIN.inner, MARGINS[0], cells).tolist() == [0] * 6
    assert projected(PLAIN.inner, MARGINS[1], cells).tolist() == [0, 1, 2, 0, 1, 2]
    assert PLAIN.projected(MARGINS[2], cells).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("table", [PLAIN, PLACES])
def test_rows_come_back_as_they_were_written(table: Table, ending: str, tmp_path: Path) -> None:
    rows = read_rows(written(tmp_path / f"people.{ending}", every_row(table)), table)
    assert rows.in_order()
    assert rows.count.tolist() == list(range(table.cells))
    assert rows.of_margin(2).cell.tolist() == [0, 1]
    if table.levels:
        assert rows.on_level(1).equals(rows)
        assert not len(rows.on_level(0).cell)


def test_observations_come_back_and_bear_the_name_of_the_table(tmp_path: Path) -> None:
    columns = PLAIN.coded
    rows = columns.labelled(every_row(PLAIN)).to_batches()
    schema = tabular.sdmx_columns(columns, [tabular.figure_column(COUNT)])
    batches = [*tabular.sdmx_batches(iter(rows), columns, schema, "OFFICE", "people", None)]
    assert batches[0].column("STRUCTURE_ID").unique().to_pylist() == ["OFFICE:PEOPLE(1.0)"]
    file = written(tmp_path / "people.csv", pa.Table.from_batches(batches))
    read = tabular.read_observations(file, "people", columns, FIGURES)
    assert tabular.placed_rows(read, PLAIN, [COUNT]).count.tolist() == list(range(PLAIN.cells))
    with pytest.raises(UnlikePlanError, match="data flow"):
        tabular.read_observations(file, "animals", columns, FIGURES)


def replaced(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    rows = every_row(PLAIN)
    return rows.set_column(rows.column_names.index(name), name, pa.array(values, kind))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (every_row(PLAIN).rename_columns(["margins", *every_row(PLAIN).column_names[1:]]), "columns are not those"),
        (every_row(PLAIN).drop_columns(["sex_label"]), "columns are not those"),
        (every_row(PLAIN).append_column("true_count", pa.array(range(12))), "columns are not those"),
        (replaced(COUNT, [0.5] * 12), "not of their types|not all numbers"),
        (replaced("sex", ["nobody"] * 12), "sex has a code or a label that the plan lacks"),
    ],
)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_that_the_plan_does_not_describe_are_refused(
    rows: pa.Table, problem: str, ending: str, tmp_path: Path
) -> None:
    with pytest.raises(UnlikePlanError, match=problem):
        read_rows(written(tmp_path / f"people.{ending}", rows), PLAIN)


def test_a_missing_figure_and_a_margin_that_nobody_planned_are_refused(tmp_path: Path) -> None:
    gap = written(tmp_path / "gap.parquet", replaced(COUNT, [None, *range(11)], pa.int64()))
    with pytest.raises(UnlikePlanError, match="missing"):
        read_rows(gap, PLAIN)
    inner_alone = Table("people", "People", (SEX, AGE), MARGINS[-1:])
    with pytest.raises(UnlikePlanError, match="margin that the plan lacks"):
        read_rows(written(tmp_path / "more.csv", every_row(PLAIN)), inner_alone)


@pytest.mark.parametrize(
    ("margin", "cell", "ordered"),
    [
        ([0, 1, 1, 2], [0, 0, 2, 0], True),
        ([0, 1, 1, 2], [0, 2, 0, 0], False),
        ([0, 1, 1, 2], [0, 2, 2, 0], False),
        ([0, 2, 1, 1], [0, 0, 0, 1], False),
        ([], [], True),
        ([3], [1], True),
    ],
)
def test_each_cell_stands_once_in_order(margin: list[int], cell: list[int], ordered: bool) -> None:
    rows = TableRows(np.array(margin, np.int64), np.array(cell, np.int64), {COUNT: np.ones(len(cell), np.int64)})
    assert rows.in_order() is ordered


@pytest.mark.parametrize(
    ("level", "area", "ordered"),
    [([0, 0, 1], ["a", "b", "a"], True), ([0, 0, 1], ["b", "a", "c"], False), ([1, 0, 0], ["a", "b", "c"], False)],
)
def test_areas_stand_in_the_order_of_their_codes_on_each_level(
    level: list[int], area: list[str], ordered: bool
) -> None:
    nothing = np.zeros(3, np.int64)
    rows = TableRows(nothing, nothing, {COUNT: nothing}, np.array(level, np.int64), pa.array(area))
    assert rows.in_order() is ordered


def test_rows_differ_in_any_figure() -> None:
    nothing = np.zeros(2, np.int64)
    rows = TableRows(nothing, np.arange(2), {COUNT: np.array([3, 4])})
    assert rows.equals(TableRows(nothing, np.arange(2), {COUNT: np.array([3, 4])}))
    assert not rows.equals(TableRows(nothing, np.arange(2), {COUNT: np.array([3, 5])}))
    assert not rows.equals(TableRows(nothing, np.arange(2), {COUNT: np.array([3, 4]), "weighted": nothing}))


def test_the_files_of_a_table_are_known_by_their_names_stamped_or_not() -> None:
    files = ["tables/people.csv", "tables/people.NOT-FOR-RELEASE.parquet", "sdmx/people.csv", "tables/people-2.csv"]
    assert tabular.table_files("people", files) == {"parquet": files[1], "csv": files[0], SDMX: files[2]}
    assert not tabular.no_other_files(["people"], files).ok
    assert tabular.no_other_files(["people"], files).detail == "tables/people-2.csv"
    assert tabular.no_other_files(["people", "people-2"], [*files, "statement.html"]).ok
    assert not tabular.every_format(["people", "people-2"], files).ok
    assert tabular.every_format(["people"], files).ok
    assert not tabular.every_format(["people"], []).ok


def test_formats_are_read_one_by_one_and_compared(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    files = ["tables/people.parquet", "tables/people.csv"]
    for path in files:
        written(tmp_path / path, every_row(PLAIN))

    def read(path: Path, format_: str) -> TableRows:
        assert path.suffix == f".{format_}"
        return read_rows(path, PLAIN)

    contents, problem = tabular.read_formats(tmp_path, "people", files, read)
    assert not problem
    assert tabular.same_formats("people", contents, TableRows.equals).ok
    written(tmp_path / files[1], replaced(COUNT, [7] * 12))
    contents, _ = tabular.read_formats(tmp_path, "people", files, read)
    assert not tabular.same_formats("people", contents, TableRows.equals).ok
    written(tmp_path / files[1], replaced("sex", ["nobody"] * 12))
    assert (
        tabular.read_formats(tmp_path, "people", files, read)[1] == "csv: sex has a code or a label that the plan lacks"
    )
    assert "no file" in tabular.read_formats(tmp_path, "people", [], read)[1]


def test_an_evaluation_is_told_which_table_is_not_as_it_was_sealed(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    with pytest.raises(ReleaseError) as caught:
        tabular.released_file(tmp_path, "people", ["csv"])
    assert (caught.value.findings[0].code, caught.value.findings[0].found) == ("release-unlike", "no file")
    file = written(tmp_path / "tables" / "people.NOT-FOR-RELEASE.csv", every_row(PLAIN))
    assert tabular.released_file(tmp_path, "people", ["parquet", "csv"]) == (file, "csv")
