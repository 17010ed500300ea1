"""The folder of a release as its users open it: with pandas, DuckDB, frictionless, pysdmx and a spreadsheet."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import SPEC, lay_out
from tests.kits.forged import rehash

import confide
from confide.documents.argus import read_hierarchy, read_labels, read_metadata, read_tab, record_rows
from confide.errors import ConfideError
from confide.releases.tabular import read_described

FORMATS = ["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "registry"]
TABULAR = ("tables", "cellkey", "swapping", "suppression", "safetab")


def everything(spec: str, mechanism: str) -> str:
    """A spec that asks for every format of its mechanism."""
    formats = f"formats = {json.dumps(FORMATS if mechanism == 'safetab' else [*FORMATS, 'argus'])}"
    changed = re.sub(r"formats = \[.*\]", formats, spec)
    assert formats in changed
    return changed


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The release of an example in every format, made once."""
    made: dict[str, Path] = {}

    def release(name: str) -> Path:
        if name not in made:
            project = lay_out(name, tmp_path_factory.mktemp("folder") / name)
            spec = project.folder / SPEC
            spec.write_text(everything(spec.read_text(encoding="utf-8"), name), encoding="utf-8")
            project.run()
            made[name] = project.release
        return made[name]

    return release


def truth(release: Path, name: str, place: str = "tables") -> list[dict[str, Any]]:
    """The rows of a table as its Parquet file has them, which carries its own types."""
    return pq.read_table(next((release / place).glob(f"{name}.*parquet"))).to_pylist()


def package(release: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((release / "datapackage.json").read_text(encoding="utf-8"))
    return content


def names(release: Path) -> list[str]:
    return [str(name) for name in confide.open_release(release).tables]


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the differences that programs make of an empty value."""
    return [
        {key: None if value in (None, "") or value != value else value for key, value in row.items()} for row in rows
    ]


@pytest.mark.parametrize("mechanism", TABULAR)
def test_the_release_is_consistent_with_itself(folders: Callable[[str], Path], mechanism: str) -> None:
    answer = confide.verify(folders(mechanism))
    assert [check for check in answer.checks if not check.ok] == []


def text_of(value: object) -> str:
    """A value to be compared: older versions of pandas read numbers with decimals but for their last digit."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("mechanism", TABULAR)
def test_pandas_reads_every_table_by_the_data_package(folders: Callable[[str], Path], mechanism: str) -> None:
    """As README.txt says it, and no code is lost."""
    release = folders(mechanism)
    kinds = {"string": "string", "integer": "Int64", "number": "Float64"}
    seen = 0
    for resource in package(release)["resources"]:
        place, _, name = resource["path"].partition("/")
        if not name:
            continue
        types = {each["name"]: kinds[each["type"]] for each in resource["schema"]["fields"]}
        frame = pd.read_csv(release / resource["path"], dtype=types, keep_default_na=False, na_values=[""])
        rows = [
            {key: None if pd.isna(value) else value for key, value in row.items()}
            for row in frame.astype(object).to_dict("records")
        ]
        expected = plain(truth(release, name.split(".")[0], place))
        assert [*rows[0]] == [*expected[0]]
        assert [list(map(text_of, row.values())) for row in rows] == [
            list(map(text_of, row.values())) for row in expected
        ]
        seen += 1
    assert seen == 2 * len(names(release)), "all rows, and the cells alone, of every table"


@pytest.mark.parametrize("mechanism", TABULAR)
def test_frictionless_finds_every_file_valid(folders: Callable[[str], Path], mechanism: str) -> None:
    frictionless = pytest.importorskip("frictionless")
    report = frictionless.Package(str(folders(mechanism) / "datapackage.json")).validate()
    assert report.valid, [task.errors[:2] for task in report.tasks if not task.valid]
    assert len(report.tasks) >= 2


@pytest.mark.parametrize("mechanism", TABULAR)
def test_duckdb_reads_the_cells_by_the_command_of_the_codebook(folders: Callable[[str], Path], mechanism: str) -> None:
    release = folders(mechanism)
    page = html.unescape((release / "codebook.html").read_text(encoding="utf-8"))
    commands = re.findall(r"<code>(SELECT \* FROM read_csv\('cells/([^.']+)\..*?)</code>", page)
    assert [name for _, name in commands] == names(release)
    for command, name in commands:
        here = command.replace("'cells/", f"'{release}/cells/")
        rows = duckdb.sql(here).fetchall()
        expected = [tuple(row.values()) for row in plain(truth(release, name, "cells"))]
        assert [tuple(map(str, row)) for row in rows] == [tuple(map(str, row)) for row in expected]


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R: apt-get install r-base-core")
@pytest.mark.parametrize("mechanism", TABULAR)
def test_r_reads_the_cells_by_the_command_of_the_codebook(
    folders: Callable[[str], Path], mechanism: str, tmp_path: Path
) -> None:
    """R writes what it has read between tabs, and no code has lost a zero or a letter."""
    release = folders(mechanism)
    page = html.unescape((release / "codebook.html").read_text(encoding="utf-8"))
    commands = re.findall(r'<code>\w+ <- (read\.csv\("cells/([^."]+)\..*?)</code>', page)
    assert [name for _, name in commands] == names(release)
    written = 'sep = "\\t", quote = FALSE, row.names = FALSE, na = "", fileEncoding = "UTF-8"'
    script = [f'write.table({command}, "{tmp_path}/{at}.txt", {written})' for at, (command, _) in enumerate(commands)]
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    subprocess.run(["Rscript", "-e", "; ".join(script)], cwd=release, env=environment, check=True, capture_output=True)
    for at, (_, name) in enumerate(commands):
        head, *lines = (tmp_path / f"{at}.txt").read_text(encoding="utf-8").splitlines()
        expected = truth(release, name, "cells")
        assert head.split("\t") == [*expected[0]]
        for line, row in zip(lines, expected, strict=True):
            for read, value in zip(line.split("\t"), row.values(), strict=True):
                is_number = isinstance(value, int | float)
                assert float(read) == pytest.approx(value) if is_number else read == ("" if value is None else value)


@pytest.mark.parametrize("mechanism", TABULAR)
def test_pysdmx_reads_every_table_with_its_structure(folders: Callable[[str], Path], mechanism: str) -> None:
    io = pytest.importorskip("pysdmx.io")
    release = folders(mechanism)
    codebook = confide.MECHANISMS[mechanism].explain.codebook(json.loads((release / "manifest.json").read_text()))
    assert codebook is not None
    for table in codebook.tables:
        file = next((release / "sdmx").glob(f"{table.name}.*csv"))
        (data,) = io.get_datasets(str(file), str(release / "sdmx/structure.json"), validate=False)
        identifiers = [component.id for component in data.structure.components]
        assert set(data.data.columns) == set(identifiers)
        lists = {
            component.id: {code.id for code in component.local_codes}
            for component in data.structure.components
            if component.local_codes is not None
        }
        assert len(lists) >= len(table.columns.variables)
        for name, codes in lists.items():
            assert set(data.data[name]) <= codes, name
        rows = truth(release, table.name)
        assert len(data.data) == len(rows)
        if table.columns.areas:
            assert data.data["AREA"].tolist() == [row["area"] for row in rows]


@pytest.mark.parametrize("mechanism", TABULAR)
def test_the_workbook_has_codes_as_text_and_is_the_same_bytes_again(
    folders: Callable[[str], Path], mechanism: str
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    release = folders(mechanism)
    book = openpyxl.load_workbook(release / "tables.xlsx", read_only=True)
    for name in names(release):
        header, *rows = list(book[name[:31]].iter_rows(values_only=True))
        expected = plain(truth(release, name))
        assert list(header) == [*expected[0]]
        assert [tuple(map(str, row)) for row in rows] == [tuple(map(str, row.values())) for row in expected]
        texts = [value for row in expected for value in row.values() if isinstance(value, str)]
        found = [value for row in rows for value in row if isinstance(value, str)]
        assert found == texts, "no code became a number"


@pytest.mark.parametrize("mechanism", [name for name in TABULAR if name != "safetab"])
def test_the_files_of_tau_argus_have_every_figure_and_are_read_again(
    folders: Callable[[str], Path], mechanism: str
) -> None:
    release = folders(mechanism)
    codebook = confide.MECHANISMS[mechanism].explain.codebook(json.loads((release / "manifest.json").read_text()))
    assert codebook is not None
    for table in codebook.tables:
        rows, seen = truth(release, table.name), 0
        for file in (release / "argus").glob(f"{table.name}.*rda"):
            metadata = read_metadata(file)
            cells = read_tab(file.with_suffix(".tab"), metadata)
            variables = [each.name for each in metadata.of_kind("variable")]
            (figure,) = [each.name for each in metadata.of_kind("value")]
            statuses = cells[metadata.of_kind("status")[0].name] if metadata.of_kind("status") else None
            for variable in metadata.of_kind("variable"):
                known = {variable.total}
                if variable.hierarchy is not None:
                    parts = read_hierarchy(file.parent / variable.hierarchy, variable.total, variable.lead)
                    known |= {code for codes in parts.values() for code in codes}
                    assert set(cells[variable.name]) <= known
                if variable.labels is not None:
                    labels = read_labels(file.parent / variable.labels)
                    own = next((v for v in table.columns.variables if v.name.replace(":", "_") == variable.name), None)
                    if own is not None:
                        assert labels.items() <= dict(zip(own.codes, own.labels, strict=True)).items()
            first = table.figures[0].name
            keys = list(zip(*(cells[name] for name in variables), strict=True))
            assert len(set(keys)) == len(keys)
            level = file.name.removeprefix(f"{table.name}.").split(".")[0]
            here = [row for row in rows if row.get("level") == level] if level in codebook.levels else rows
            expected = {_argus_key(table, row): row for row in here}
            assert set(keys) == set(expected)
            for at, key in enumerate(keys):
                figure_text = "" if expected[key][first] is None else str(expected[key][first])
                assert cells[figure][at] == figure_text
                if statuses is not None:
                    assert statuses[at] == ("U" if expected[key]["status"] == "suppressed" else "S")
            seen += len(keys)
        assert seen > 0
    if mechanism == "swapping":
        (records,) = (release / "argus").glob("*.asc")
        header, *lines = record_rows(records)
        people = truth(release, "persons", "microdata")
        assert header == [*people[0]]
        assert lines == [["" if value is None else str(value) for value in row.values()] for row in people]


def _argus_key(table: Any, row: dict[str, Any]) -> tuple[str, ...]:
    """The codes of a row where levels and areas are one column."""
    codes = tuple(row[variable.name] for variable in table.columns.variables)
    return (row["area"], *codes) if table.columns.areas else codes


@pytest.mark.parametrize("mechanism", TABULAR)
def test_every_code_has_its_label_and_cells_add_up_once(folders: Callable[[str], Path], mechanism: str) -> None:
    release = folders(mechanism)
    codebook = confide.MECHANISMS[mechanism].explain.codebook(json.loads((release / "manifest.json").read_text()))
    assert codebook is not None
    for table in codebook.tables:
        rows, cells = truth(release, table.name), truth(release, table.name, "cells")
        for variable in table.columns.variables:
            pairs = {(row[variable.name], row[variable.label_column]) for row in rows}
            assert pairs <= {("_T", "_T"), *zip(variable.codes, variable.labels, strict=True)}
        kept = [
            {key: value for key, value in row.items() if key != "margin"} for row in rows if row["margin"] == "cell"
        ]
        assert cells == kept
        assert not any(row[variable.name] == "_T" for row in cells for variable in table.columns.variables)


@pytest.mark.parametrize("mechanism", TABULAR)
def test_the_readme_names_every_file_and_says_how_to_cite(folders: Callable[[str], Path], mechanism: str) -> None:
    release = folders(mechanism)
    text = (release / "README.txt").read_text(encoding="utf-8")
    for file in release.iterdir():
        if file.is_file() and "NOT-FOR-RELEASE" not in file.name and file.name != "README.txt":
            assert file.name in text, file.name
    assert "HOW TO CITE" in text
    assert max(map(len, text.splitlines())) <= 130


@pytest.mark.parametrize("mechanism", TABULAR)
def test_printing_the_tables_says_what_they_are(folders: Callable[[str], Path], mechanism: str) -> None:
    release = confide.open_release(folders(mechanism))
    text = repr(release.tables)
    for name, table in release.tables.items():
        assert f"{name}: {table.title}" in text
        assert "rows" in text
        assert table.pandas().shape == table.polars().shape == table.arrow().shape


def test_csv_and_parquet_are_read_alike(folders: Callable[[str], Path], tmp_path: Path) -> None:
    release = folders("tables")
    codebook = confide.MECHANISMS["tables"].explain.codebook(json.loads((release / "manifest.json").read_text()))
    assert codebook is not None
    for table in codebook.tables:
        csv = read_described(next((release / "tables").glob(f"{table.name}.*csv")), table)
        parquet = read_described(next((release / "tables").glob(f"{table.name}.*parquet")), table)
        assert csv.to_pylist() == parquet.to_pylist()


@pytest.mark.parametrize(
    ("tongue", "same"),
    [("wo rk", "wo_rk and wo rk: both WO_RK"), ("noise margin", "NOISE_MARGIN and noise margin: both NOISE_MARGIN")],
)
def test_two_columns_with_one_identifier_in_sdmx_are_refused(tmp_path: Path, tongue: str, same: str) -> None:
    """Also in two tables: a code list would have the codes of the one, and readers take them for the other's."""
    project = lay_out("tables", tmp_path / "p")
    names = {"work": "wo_rk", "tongue": tongue}
    for file in (project.spec, project.folder / "schema.toml", project.folder / "persons.csv"):
        text = file.read_text(encoding="utf-8")
        for old, new in names.items():
            text = text.replace(f'"{old}"', f'"{new}"').replace(f"[attributes.{old}]", f'[attributes."{new}"]')
            text = text.replace(f",{old}", f",{new}", 1) if file.suffix == ".csv" else text
        file.write_text(text.replace(f'name = "{tongue}"', 'name = "tongue"'), encoding="utf-8")
    assert not confide.check(project.spec, processes=1).errors
    spec = project.folder / SPEC
    spec.write_text(spec.read_text(encoding="utf-8").replace('"csv"]', '"csv", "sdmx-csv"]'), encoding="utf-8")
    (finding,) = confide.check(project.spec, processes=1).errors
    assert (finding.code, finding.found) == ("same-column", same)


def with_names(folder: Path) -> Path:
    """The example of tables with names of states and blocks."""
    project = lay_out("tables", folder)
    blocks = pyarrow.csv.read_csv(
        project.folder / "blocks.csv",
        convert_options=pyarrow.csv.ConvertOptions(column_types={"geocode": pa.string(), "place": pa.string()}),
    )
    states = ["Nørland, the old" if code.startswith("90") else "South" for code in blocks.column("geocode").to_pylist()]
    blocks = blocks.append_column("state_name", pa.array(states))
    pyarrow.csv.write_csv(blocks, project.folder / "blocks.csv")
    spec = project.folder / SPEC
    text = spec.read_text(encoding="utf-8")
    text = text.replace('{ name = "state", digits = 2 }', '{ name = "state", digits = 2, names = "state_name" }')
    spec.write_text(everything(text, "tables"), encoding="utf-8")
    return project.folder


def test_areas_have_their_names_in_every_file(tmp_path: Path) -> None:
    folder = with_names(tmp_path / "p")
    release = confide.run(folder / SPEC, processes=1).release
    assert confide.verify(release).ok
    for place in ("tables", "cells"):
        rows = truth(release, "work-by-sex", place)
        by_area = {(row["level"], row["area"]): row["area_name"] for row in rows}
        assert by_area["state", "90"] == "Nørland, the old"
        assert by_area["county", "90001"] == ""
    areas = pyarrow.csv.read_csv(release / "areas.csv").to_pylist()
    assert {row["area_name"] for row in areas if row["level"] == "state"} >= {"Nørland, the old"}
    assert "90: Nørland, the old" in (release / "sdmx/work-by-sex.csv").read_text(encoding="utf-8")
    structure = json.loads((release / "sdmx/structure.json").read_text(encoding="utf-8"))
    lists = {each["id"]: each["codes"] for each in structure["data"]["codelists"]}
    assert {"id": "90", "name": "Nørland, the old"} in lists["CL_AREA"]
    # A name that somebody changes is found: in a table, and in the list of areas.
    for file in ("tables/work-by-sex.csv", "areas.csv"):
        forged = Path(shutil.copytree(release, tmp_path / file.replace("/", "-")))
        text = (forged / file).read_text(encoding="utf-8").replace("Nørland", "Norland")
        (forged / file).write_text(text, encoding="utf-8")
        from tests.kits.forged import rehash

        rehash(forged)
        assert not confide.verify(forged).ok


def test_a_unit_with_two_names_is_a_finding(tmp_path: Path) -> None:
    folder = with_names(tmp_path / "p")
    text = (folder / "blocks.csv").read_text(encoding="utf-8").replace("Nørland", "Norland", 1)
    (folder / "blocks.csv").write_text(text, encoding="utf-8")
    findings = confide.check(folder / SPEC).findings
    assert [finding.code for finding in findings] == ["two-names"]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('formats = ["parquet", "csv"]', 'formats = ["xlsx"]', "no-tables"),
        ('formats = ["parquet", "csv"]', 'formats = ["csv", "csv"]', "repeated-format"),
    ],
)
def test_formats_that_do_not_go_together_are_findings(tmp_path: Path, old: str, new: str, code: str) -> None:
    project = lay_out("tables", tmp_path / "p")
    spec = project.folder / SPEC
    text = spec.read_text(encoding="utf-8")
    assert old in text
    spec.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfideError) as raised:
        confide.check(spec)
    assert [finding.code for finding in raised.value.findings] == [code]


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("tables", ["layout"]),
        ("cellkey", ["layout"]),
        ("swapping", ["layout"]),
        ("suppression", ["layout"]),
        ("safetab", ["layout"]),
        ("topdown", ["release_layout", "measurement_layout"]),
    ],
)
def test_there_is_one_layout(tmp_path: Path, name: str, keys: list[str]) -> None:
    project = lay_out(name, tmp_path / "p")
    spec = project.folder / SPEC
    text = spec.read_text(encoding="utf-8")
    spec.write_text(
        text.replace("[output]\n", "[output]\n" + "".join(f"{key} = 2\n" for key in keys)), encoding="utf-8"
    )
    assert not confide.check(spec).errors
    spec.write_text(
        text.replace("[output]\n", "[output]\n" + "".join(f"{key} = 1\n" for key in keys)), encoding="utf-8"
    )
    with pytest.raises(ConfideError) as raised:
        confide.check(spec)
    findings = raised.value.findings
    assert [(each.where.path, each.found, each.expected) for each in findings if each.where] == [
        (f"output.{key}", "1", "2") for key in keys
    ]


def test_swapped_records_are_read_by_stata_and_spss(tmp_path: Path) -> None:
    """By pandas, which reads Stata by itself; households and areas that are missing stay so."""
    pytest.importorskip("pyreadstat")
    project = lay_out("swapping", tmp_path / "swapping")
    spec = project.folder / SPEC
    text = re.sub(r"formats = \[.*\]", 'formats = ["parquet", "dta", "sav"]', spec.read_text(encoding="utf-8"))
    spec.write_text(text, encoding="utf-8")
    project.run()
    assert [check.name for check in confide.verify(project.release).checks if not check.ok] == []
    records = pq.read_table(next((project.release / "microdata").glob("persons*.parquet"))).to_pandas()
    file = next((project.release / "stata").glob("persons*.dta"))
    frame = pd.read_stata(file, convert_categoricals=False)
    assert frame["household"].isna().tolist() == records["household"].isna().tolist()
    assert frame["household"].dropna().tolist() == records["household"].dropna().tolist()
    labels = json.loads((project.release / "manifest.json").read_text())["plan"]["question"]["labels"]
    for name, said in labels.items():
        whole = isinstance(said["codes"][0], int)
        assert frame[name if whole else f"{name}_code"].tolist() == records[name].tolist()
        read = pd.read_stata(file)[name].tolist()
        assert read == [said["labels"][said["codes"].index(code)] for code in records[name]]
    file.write_bytes(file.read_bytes().replace(said["labels"][0].encode(), b"x" * len(said["labels"][0].encode())))
    rehash(project.release)
    wrong = [check.name for check in confide.verify(project.release).checks if not check.ok]
    assert wrong == ["persons: Stata says what the records say"]
    spec.write_text(text.replace("microdata = true", "microdata = false"), encoding="utf-8")
    with pytest.raises(ConfideError, match="formats of records"):
        confide.check(spec)


def test_records_alone_are_written_for_tau_argus_where_it_is_asked_for(tmp_path: Path) -> None:
    project = lay_out("swapping", tmp_path / "p")
    spec = project.folder / SPEC
    text = spec.read_text(encoding="utf-8")
    text = text[: text.index("[[tables]]")] + text[text.index("[output]") :]
    spec.write_text(re.sub(r"formats = \[.*\]", 'formats = ["csv", "argus"]', text), encoding="utf-8")
    project.run()
    assert confide.verify(project.release).ok
    header, *people = record_rows(next((project.release / "argus").glob("persons.records*.asc")))
    rows = pyarrow.csv.read_csv(next((project.release / "microdata").glob("persons*.csv")))
    assert header == rows.column_names
    assert len(people) == rows.num_rows
    readme = (project.release / "README.txt").read_text(encoding="utf-8")
    assert "microdata/persons.*" in readme
    assert "HOW TO ADD UP" not in readme


def test_counts_stay_whole_in_pandas_where_some_are_suppressed(folders: Callable[[str], Path]) -> None:
    """A missing count does not turn the others into numbers with decimals, and rows of the frame can be added up."""
    opened = confide.open_release(folders("suppression"))
    frames = {name: opened.tables[name].pandas() for name in opened.tables}
    name, frame = next((name, frame) for name, frame in frames.items() if frame["count"].isna().any())
    assert str(frame["count"].dtype) == "Int64"
    published = frame[frame["status"] == "published"].head(1)
    assert opened.sum(published, table=name).value == int(published["count"].item())
    assert opened.sum(frame[frame["count"].isna()].head(1), table=name).value is None
