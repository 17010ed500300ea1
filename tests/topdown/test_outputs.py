"""What a release contains: tables and layouts say what the records say, and verify notices when they do not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.descent import lay_out, released, run, sql, table
from tests.kits.forged import remake

from confide.documents import load_schema, load_shipped
from confide.engines import LocalEngine
from confide.errors import ConfideError
from confide.file_system import sha256_of
from confide.geography import Geolevel
from confide.lab.pl94.importer import PERSON_TABLES, tabulate
from confide.lab.pl94.segments import table_layout
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.output.settings import LayoutFile, MicrodataLayout
from confide.mechanisms.topdown.output.tabulation import TabulationFile, Tabulator, axes_of, histograms
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.releases.run import RunResult
from confide.releases.spec import load_spec
from confide.releases.verify import verify

PERSONS = axes_of(load_schema("pl94-persons", Path()))
UNITS = {"h1": [0, 1]}

UNITS_SPEC = """
[data]
records = "blocks.parquet"
blocks = "blocks.parquet"
counted = [
  { where = { h1 = 1 }, column = "occupied_units" },
  { where = { h1 = 0 }, column = "housing_units", less = "occupied_units" },
]
"""


def tabulation(name: str) -> TabulationFile:
    return TabulationFile.model_validate(load_shipped("tabulations", name))


@pytest.fixture(scope="module")
def few(people: Path) -> Path:
    return people


@pytest.fixture(scope="module")
def sealed_units(tmp_path_factory: pytest.TempPathFactory, few: Path) -> RunResult:
    folder = tmp_path_factory.mktemp("units")
    spec = lay_out(folder, few, budget="1/100")
    persons = '[data]\nrecords = "persons.parquet"\nblocks = "blocks.parquet"\n'
    text = spec.read_text().replace("pl94-persons", "pl94-units")
    assert persons in text
    spec.write_text(text.replace(persons, UNITS_SPEC))
    return run(spec)


def question(spec: Path) -> TopDownProblem:
    with LocalEngine(spec.parent / "scratch", processes=1) as engine:
        return TopDown().prepare(load_spec(spec, {"topdown": TopDownSpec}), engine)


# --- Definitions ---


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_the_lines_of_p1_to_p4_are_those_of_the_published_files(seed: int) -> None:
    histogram = np.random.default_rng(seed).integers(0, 50, (3, 8, 252))
    tables = {table.name: table for table in tabulation("pl94-persons").build(PERSONS)}
    layout = table_layout()
    for name in PERSON_TABLES:
        published, ours = layout.tables[name], tables[name.lower()]
        assert list(ours.columns) == [layout.cell_name(published, line) for line in range(published.lines)]
        made = histogram.reshape(3, -1) @ ours.matrix()
        assert (made == tabulate(histogram.sum(axis=1), published)).all()


def test_the_lines_of_p5_and_h1() -> None:
    by_type = np.array([10_000, 1, 20, 300, 4_000, 5, 60, 700])
    histogram = np.zeros((8, 252), np.int64)
    histogram[np.arange(8), np.arange(8) * 31] = by_type
    p5 = tabulation("pl94-persons").build(PERSONS)[4]
    assert (p5.columns[0], p5.columns[-1], p5.lines) == ("P0050001", "P0050010", 10)
    assert (histogram.ravel() @ p5.matrix()).tolist() == [5086, 4321, 1, 20, 300, 4_000, 765, 5, 60, 700]
    (h1,) = tabulation("pl94-units").build(UNITS)
    assert h1.columns == ("H0010001", "H0010002", "H0010003")
    assert (np.array([2, 30]) @ h1.matrix()).tolist() == [32, 30, 2]


def test_a_table_by_race_has_a_label_for_every_set_of_races() -> None:
    p2 = tabulation("pl94-persons").build(PERSONS)[1]
    assert p2.labels[:4] == ("Total", "Hispanic or Latino", "Not Hispanic or Latino", "Population of one race")
    races = table_layout().races
    assert p2.labels[-1] == "; ".join(races)
    assert len(set(p2.labels)) == p2.lines


def test_areas_may_leave_blocks_out_and_empty_units_are_zero() -> None:
    parts = [(np.array([0, 2, 0]), np.array([1, 0, 1]), np.array([3, 5, 4]))]
    level = Geolevel("place", ("a", "b", "c"), np.array([0, -1, 2]), on_spine=False)
    tabulator = Tabulator(histograms(3, 2, parts), (level,))
    (h1,) = tabulation("pl94-units").build(UNITS)
    (batch,) = tabulator.batches(h1)
    assert batch.column("geocode").to_pylist() == ["a", "b", "c"]
    assert batch.column("H0010001").to_pylist() == [7, 0, 5]
    assert batch.column("H0010002").to_pylist() == [7, 0, 0]


def test_a_person_in_the_layout_of_the_microdata_detail_file() -> None:
    layout = MicrodataLayout(LayoutFile.model_validate(load_shipped("layouts", "mdf-pl94-persons")), PERSONS)
    codes = {"geocode": ["440070101022003"] * 2, "hhgq": [0, 7], "votingage": [0, 1], "hispanic": [0, 1]}
    lines = layout.encode(pa.table({**codes, "cenrace": [0, 62]}), "geocode", 41).to_pylist()
    where = {"TABBLKST": "44", "TABBLKCOU": "007", "TABTRACTCE": "010102", "TABBLKGRPCE": "2", "TABBLK": "2003"}
    kind = {"SCHEMA_TYPE_CODE": "MPD", "SCHEMA_BUILD_ID": "1.1.0"}
    says = [
        {"EPNUM": 41, "RTYPE": "3", "GQTYPE_PL": "0", "VOTING_AGE": "1", "CENHISP": "1", "CENRACE": "01"},
        {"EPNUM": 42, "RTYPE": "5", "GQTYPE_PL": "7", "VOTING_AGE": "2", "CENHISP": "2", "CENRACE": "63"},
    ]
    assert lines == [{**kind, **where, **one} for one in says]
    assert list(lines[0]) == [*kind, *where, *says[0]]


def test_units_and_the_facilities_after_them() -> None:
    layout = MicrodataLayout(LayoutFile.model_validate(load_shipped("layouts", "mdf-pl94-units")), UNITS)
    lines = layout.encode(pa.table({"geocode": ["440070101022003"] * 2, "h1": [0, 1]}), "geocode", 1).to_pylist()
    assert [(line["RTYPE"], line["HH_STATUS"]) for line in lines] == [("2", "2"), ("2", "1")]
    blocks = pa.array(["440070101022003", "440070101022004", "440070101022005"])
    (batch,) = layout.appended(blocks, np.array([1, 0, 2]), 3)
    rows = batch.to_pylist()
    assert [row["TABBLK"] for row in rows] == ["2003", "2005", "2005"]
    assert {(row["SCHEMA_TYPE_CODE"], row["RTYPE"], row["HH_STATUS"]) for row in rows} == {("MUD", "4", "0")}


# --- A release ---


def test_every_unit_of_every_level_and_area_has_its_line(sealed: RunResult) -> None:
    blocks = f"read_parquet('{sealed.workspace.root.parent}/blocks.parquet')"
    expected = {"state": 1}
    for name in ("county", "tract", "block_group", "place", "cousub", "aiannh"):
        inside = "WHERE place <> '99999'" if name == "place" else "WHERE aiannh <> '9999'" if name == "aiannh" else ""
        ((expected[name],),) = sql(f"SELECT count(DISTINCT {name}) FROM {blocks} {inside}")
    ((expected["block"],),) = sql(f"SELECT count(*) FROM {blocks}")
    assert min(expected.values()) >= 1
    for name in ("p1", "p2", "p3", "p4", "p5"):
        found = dict(sql(f"SELECT level, count(*) FROM {table(sealed, name)} GROUP BY 1"))
        assert found == {level: units for level, units in expected.items() if units}


@pytest.mark.parametrize(
    ("name", "line", "condition"),
    [
        ("p1", "P0010001", "true"),
        ("p1", "P0010009", "cenrace > 5"),
        ("p2", "P0020006", "cenrace = 1 AND hispanic = 0"),
        ("p3", "P0030003", "cenrace = 0 AND votingage = 1"),
        ("p4", "P0040002", "hispanic = 1 AND votingage = 1"),
        ("p5", "P0050008", "hhgq = 5"),
    ],
)
def test_tables_say_what_the_records_say(sealed: RunResult, name: str, line: str, condition: str) -> None:
    blocks = f"read_parquet('{sealed.workspace.root.parent}/blocks.parquet')"
    for level in ("state", "county", "tract", "block_group", "place", "cousub", "geocode"):
        counted = (
            f"SELECT {level} AS code, count(*) AS n FROM {released(sealed)} AS r JOIN {blocks} AS b USING (geocode)"
        )
        wanted = f"WHERE level = '{'block' if level == 'geocode' else level}'"
        none = "AND place <> '99999'" if level == "place" else ""
        differ = f"""
            SELECT * FROM (SELECT geocode AS code, {line} AS n FROM {table(sealed, name)} {wanted} AND {line} > 0) AS t
            FULL JOIN ({counted} WHERE {condition} {none} GROUP BY 1) AS r USING (code, n)
            WHERE t.code IS NULL OR r.code IS NULL
        """
        assert sql(differ) == []


def test_the_detail_file_has_the_records_in_their_order(sealed: RunResult) -> None:
    mdf, records = table(sealed, "mdf"), released(sealed)
    back = """TABBLKST || TABBLKCOU || TABTRACTCE || TABBLK AS geocode, CAST(GQTYPE_PL AS BIGINT) AS hhgq,
        CAST(VOTING_AGE AS BIGINT) - 1 AS votingage, CAST(CENHISP AS BIGINT) - 1 AS hispanic,
        CAST(CENRACE AS BIGINT) - 1 AS cenrace"""
    assert sql(f"SELECT {back} FROM {mdf} ORDER BY EPNUM") == sql(f"SELECT * FROM {records}")
    assert sql(f"SELECT count(*) FROM {mdf} WHERE (RTYPE = '5') <> (GQTYPE_PL <> '0')") == [(0,)]
    assert sql(f"SELECT min(EPNUM), max(EPNUM) FROM {mdf}") == [(1, 12_000)]


def test_columns_are_described_by_the_labels_of_their_lines(sealed: RunResult) -> None:
    manifest = json.loads((sealed.release / "manifest.json").read_text())
    columns = next(file["columns"] for file in manifest["files"] if file["path"].startswith("tables/p5."))
    assert columns["P0050002"] == "Institutionalized population"
    assert list(columns)[:3] == ["level", "geocode", "P0050001"]


def test_the_slices_that_tables_are_made_in_do_not_change_a_byte(
    sealed: RunResult, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("confide.mechanisms.topdown.output.tabulation.UNITS_AT_ONCE", 7)
    monkeypatch.setattr("confide.mechanisms.topdown.output.publish.ROWS_AT_ONCE", 100)
    again = run(lay_out(tmp_path, few))
    for file in (sealed.release / "tables").iterdir():
        assert sha256_of(file) == sha256_of(again.release / "tables" / file.name), file.name


def test_units_add_up_to_the_frame_and_facilities_follow(sealed_units: RunResult) -> None:
    blocks = f"read_parquet('{sealed_units.workspace.root.parent}/blocks.parquet')"
    h1 = f"SELECT geocode, H0010001, H0010002 + H0010003 FROM {table(sealed_units, 'h1')} WHERE level = 'block'"
    known = f"SELECT geocode, housing_units, housing_units FROM {blocks}"
    assert sql(f"{h1} ORDER BY 1") == sql(f"{known} ORDER BY 1")
    mdf = table(sealed_units, "mdf")
    where = "TABBLKST || TABBLKCOU || TABTRACTCE || TABBLK AS geocode"
    facilities = " + ".join(f"gq{kind}" for kind in range(1, 8))
    lines = f"SELECT {where}, count(*) FROM {mdf} WHERE RTYPE = '4' AND HH_STATUS = '0' GROUP BY 1 ORDER BY 1"
    assert sql(lines) == sql(f"SELECT geocode, {facilities} FROM {blocks} WHERE {facilities} > 0 ORDER BY 1")
    assert sql(f"SELECT count(*) FROM {mdf} WHERE RTYPE = '2'") == sql(f"SELECT sum(housing_units) FROM {blocks}")
    verified = verify(sealed_units.release, lambda _: TopDown())
    assert verified.ok, verified.findings
    assert "invariant housing-units" in [check.name for check in verified.checks]


# --- Verify ---


def test_verify_makes_everything_again(sealed: RunResult) -> None:
    verified = verify(sealed.release, lambda _: TopDown())
    assert verified.ok, verified.findings
    names = {check.name for check in verified.checks}
    assert "mdf: says what the records say" in names
    for name in ("p1", "p2", "p3", "p4", "p5"):
        assert {f"{name}: what the records come to", f"{name}: children add up to parents"} <= names


def failing(result: RunResult, folder: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> list[str]:
    """The checks that fail after every copy of a table was changed, with a manifest that fits."""
    shutil.copytree(result.release, folder / "forged")
    release = folder / "forged"
    parquet = next((release / "tables").glob(f"{name}.*parquet"))
    changed = change(pq.read_table(parquet))
    pq.write_table(changed, parquet)
    pyarrow.csv.write_csv(changed, parquet.with_suffix(".csv"))
    remake(release)
    return [check.name for check in verify(release, lambda _: TopDown()).checks if not check.ok]


def raised(rows: pa.Table, line: str, chosen: np.ndarray, by: int = 1) -> pa.Table:
    position = rows.schema.get_field_index(line)
    return rows.set_column(position, rows.field(line), pa.array(rows.column(line).to_numpy() + by * chosen))


def test_a_forged_count_is_found_by_the_records_and_by_the_sums(sealed: RunResult, tmp_path: Path) -> None:
    def forge(rows: pa.Table) -> pa.Table:
        return raised(rows, "P0010003", np.arange(rows.num_rows) == 20)

    found = failing(sealed, tmp_path, "p1", forge)
    assert found == ["p1: what the records come to", "p1: children add up to parents"]


def test_a_count_forged_along_the_whole_hierarchy_is_found_by_the_records(sealed: RunResult, tmp_path: Path) -> None:
    def forge(rows: pa.Table) -> pa.Table:
        levels, codes = np.array(rows.column("level").to_pylist()), rows.column("geocode").to_pylist()
        block = min(code for level, code in zip(levels, codes, strict=True) if level == "block")
        nests = np.isin(levels, ["state", "county", "tract", "block_group", "block"])
        return raised(rows, "P0010001", nests & np.array([block.startswith(code) for code in codes]))

    assert failing(sealed, tmp_path, "p1", forge) == ["p1: what the records come to"]


def test_negative_counts_missing_rows_and_other_columns_are_found(sealed: RunResult, tmp_path: Path) -> None:
    cases: dict[str, Callable[[pa.Table], pa.Table]] = {
        "p5: no negative count": lambda rows: raised(rows, "P0050001", np.ones(rows.num_rows, int), -(10**6)),
        "p5: what the records come to": lambda rows: rows.slice(0, rows.num_rows - 1),
        "p5: there": lambda rows: rows.drop_columns(["P0050010"]),
    }
    for number, (check, forge) in enumerate(cases.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert check in failing(sealed, folder, "p5", forge)


@pytest.mark.parametrize(("column", "text"), [("CENRACE", "63"), ("TABBLK", "9999"), ("RTYPE", "4")])
def test_a_forged_line_of_the_detail_file_is_found(sealed: RunResult, tmp_path: Path, column: str, text: str) -> None:
    def forge(rows: pa.Table) -> pa.Table:
        values = rows.column(column).to_pylist()
        values[1234] = text
        return rows.set_column(rows.schema.get_field_index(column), rows.field(column), pa.array(values))

    assert failing(sealed, tmp_path, "mdf", forge) == ["mdf: says what the records say"]


def test_lines_left_out_of_the_detail_file_are_found(sealed: RunResult, tmp_path: Path) -> None:
    assert failing(sealed, tmp_path, "mdf", lambda rows: rows.slice(0, 11_999)) == ["mdf: says what the records say"]


def test_a_unit_that_the_frame_does_not_know_is_found(sealed_units: RunResult, tmp_path: Path) -> None:
    found = failing(sealed_units, tmp_path, "records", lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]))
    assert "invariant housing-units" in found


def test_geography_that_does_not_nest_is_found(sealed: RunResult, tmp_path: Path) -> None:
    def forge(rows: pa.Table) -> pa.Table:
        tracts = rows.column("tract").to_pylist()
        tracts[0] = tracts[-1]
        return rows.set_column(rows.schema.get_field_index("tract"), rows.field("tract"), pa.array(tracts))

    found = failing(sealed, tmp_path, "units", forge)
    assert {"units: levels nest", "p1: what the records come to"} <= set(found)


# --- What the spec can ask for ---

OWN = """
id = "own"
provenance = "Made for a test."

[lists]
age = [{ label = "all" }, { label = "children", where = { votingage = [0] } }]

[[tables]]
name = "origin"
title = "Age by origin"
prefix = "T"
lines = [{ use = "age" }, { label = "Hispanic", use = "age", where = { hispanic = [1] } }]
"""


def with_output(folder: Path, few: Path, text: str) -> Path:
    spec = lay_out(folder, few)
    spec.write_text(spec.read_text() + "\n[output]\n" + text)
    return spec


def test_a_tabulation_of_ones_own_at_some_levels(few: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    text = 'tabulation = "own.toml"\ntable_levels = ["place", "county"]\nmicrodata = ["records"]\nformats = ["csv"]\n'
    text += "crossed_tables = 0\n"
    result = run(with_output(tmp_path, few, text))
    files = sorted(file.name.split(".")[0] for file in (result.release / "tables").iterdir())
    assert files == ["origin", "records", "units"]
    assert verify(result.release, lambda _: TopDown()).ok
    csv = f"read_csv('{next((result.release / 'tables').glob('origin*'))}', all_varchar = true)"
    records = f"read_csv('{next((result.release / 'tables').glob('records*'))}', all_varchar = true)"
    assert {level for (level,) in sql(f"SELECT DISTINCT level FROM {csv}")} == {"county", "place"}
    made = (
        f"SELECT sum(T0001::INT), sum(T0002::INT), sum(T0003::INT), sum(T0004::INT) FROM {csv} WHERE level = 'county'"
    )
    counts = ", ".join(
        f"count(*) FILTER ({condition})"
        for condition in ("true", "votingage = '0'", "hispanic = '1'", "hispanic = '1' AND votingage = '0'")
    )
    assert sql(made) == sql(f"SELECT {counts} FROM {records}")


def test_the_plan_binds_what_is_written(few: Path, tmp_path: Path) -> None:
    hashes = set()
    for number, text in enumerate(["", 'microdata = ["records"]', 'tables = ["p1"]', 'table_levels = ["county"]']):
        folder = tmp_path / str(number)
        folder.mkdir()
        hashes.add(TopDown().plan(question(with_output(folder, few, text))).hash)
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('tables = ["p9"]', "unknown-table"),
        ('table_levels = ["parish"]', "unknown-level"),
        ('microdata = ["mdf"]', "no-records"),
        ('tabulation = "nowhere.toml"', "no-tabulation"),
        ('tabulation = "pl94-units"', "unknown-attribute"),
        ('layout = "mdf-pl94-units"', "unknown-attribute"),
        ('tabulation = "own.toml"', "unknown-code"),
    ],
)
def test_what_cannot_be_written_is_a_finding(few: Path, tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "own.toml").write_text(OWN.replace("hispanic = [1]", "hispanic = [1, 2]"))
    with pytest.raises(ConfideError) as caught:
        question(with_output(tmp_path, few, text))
    assert code in [finding.code for finding in caught.value.findings]
    if text == 'tabulation = "own.toml"':
        (finding,) = caught.value.findings
        assert (finding.where.file, finding.where.line) == ("own.toml", 12)


def test_block_codes_of_another_form_have_no_detail_file(few: Path, tmp_path: Path) -> None:
    spec = lay_out(tmp_path, few)
    text = spec.read_text()
    for digits in (12, 11, 5, 2):
        text = text.replace(f"digits = {digits} ", f"digits = {digits + 1} ")
    spec.write_text(text)
    rows = f"read_parquet('{few}/blocks.parquet')"
    sql(f"COPY (SELECT * REPLACE ('b' || geocode AS geocode) FROM {rows}) TO '{tmp_path}/blocks.parquet'")
    output = question(spec).output
    assert output.layout is None
    assert output.tabulation is not None
    spec.write_text(text + '\n[output]\nmicrodata = ["records", "mdf"]\n')
    with pytest.raises(ConfideError) as caught:
        question(spec)
    assert [finding.code for finding in caught.value.findings] == ["layout-blocks"]
