"""The folder of a TopDown release as its users open it: tables with labels that nobody asked for, and explanations."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import rehash
from tests.kits.own_country import KEY, MUNICIPALITIES, open_ledger, people, topdown_spec, write_country

import confide
from confide.mechanisms.topdown.output import tabulation

LABELS = {
    "kjonn": {"K": "woman", "M": "man"},
    "alder": {"a0": "0 to 14", "a15": "15 to 29", "a30": "30 to 49", "a50": "50 to 66", "a67": "67 and over"},
    "alder:broad": {"a0": "children", "a15-a67": "adults"},
    "tro": {"L": "Lutheran", "K": "Catholic", "I": "Muslim", "N": "none"},
    "arbeid": {"W": "works", "U": "without work", "O": "outside"},
}
LEVELS = ("country", "region", "district", "municipality")
EVERYTHING = 'formats = ["parquet", "csv", "sdmx-csv", "xlsx", "csvw", "registry", "dta", "sav"]\n'


def norland(folder: Path, output: str = "") -> Path:
    """The spec of a country whose smallest places are municipalities with names, with a recode that is measured."""
    write_country(folder)
    spec = topdown_spec(folder)
    text = spec.read_text(encoding="utf-8")
    called = 'block = "kommune"\nsmallest = "municipality"\nblock_names = "navn"\n'
    spec.write_text(text.replace('block = "kommune"\n', called) + f"[output]\n{output}", encoding="utf-8")
    strategy = folder / "strategy.toml"
    strategy.write_text(strategy.read_text().replace("alder*tro", "alder:broad*tro"), encoding="utf-8")
    open_ledger(folder)
    return spec


def sealed(folder: Path, output: str = "") -> Path:
    return confide.run(norland(folder, output), insecure_key=KEY, processes=1).release


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release in every format, to look at and not to touch."""
    return sealed(tmp_path_factory.mktemp("norland") / "country", EVERYTHING)


def records(release: Path) -> pd.DataFrame:
    """The protected records, with the codes of their places and what the recode says of them."""
    frame = pq.read_table(next((release / "tables").glob("records*.parquet"))).to_pandas()
    frame["municipality"] = frame["kommune"]
    frame["district"] = [MUNICIPALITIES[code][0] for code in frame["kommune"]]
    frame["region"] = [MUNICIPALITIES[code][1] for code in frame["kommune"]]
    frame["country"] = "all"
    frame["alder:broad"] = ["a0" if code == "a0" else "a15-a67" for code in frame["alder"]]
    return frame


def rows_of(release: Path, name: str, place: str = "tables") -> list[dict[str, Any]]:
    return pq.read_table(next((release / place).glob(f"{name}.*parquet"))).to_pylist()


def variables() -> list[tuple[str, ...]]:
    """Every variable, and every pair of variables that are not of one attribute."""
    pairs = [pair for pair in combinations(LABELS, 2) if pair[0].split(":")[0] != pair[1].split(":")[0]]
    return [*((name,) for name in LABELS), *pairs]


def file_name(crossed_variables: tuple[str, ...]) -> str:
    return "-by-".join(name.replace(":", "-") for name in crossed_variables)


def test_every_variable_and_every_pair_has_a_table_that_counts_the_records(release: Path) -> None:
    """Against a count by pandas that shares no code with the tables: cells, margins, zeros, codes and labels."""
    assert confide.verify(release).ok
    frame = records(release)
    assert len(frame) == len(people())
    names = dict(zip(MUNICIPALITIES, (name for *_, name in MUNICIPALITIES.values()), strict=True))
    for wanted in variables():
        rows = rows_of(release, file_name(wanted))
        seen = Counter((row["level"], row["area"], *(row[name] for name in wanted)) for row in rows)
        assert set(seen.values()) == {1}
        cells = 1
        for name in wanted:
            cells *= len(LABELS[name]) + 1
        assert len(rows) == cells * (1 + 2 + 4 + 8)
        counted: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        for row in rows:
            kept = [name for name in wanted if row[name] != "_T"]
            by = (row["level"], *kept)
            if by not in counted:
                counted[by] = {codes: len(rows_) for codes, rows_ in frame.groupby([*by])}
            assert row["count"] == counted[by].get((row["area"], *(row[name] for name in kept)), 0)
            margin = "cell" if kept == [*wanted] else f"by {'*'.join(kept)}" if kept else "total"
            assert row["margin"] == margin
            assert row["area_name"] == (names[row["area"]] if row["level"] == "municipality" else "")
            for name in wanted:
                assert row[f"{name}_label"] == LABELS[name].get(row[name], "_T")


def test_a_table_of_cells_alone_adds_up_to_the_records(release: Path) -> None:
    for wanted in variables():
        totals = Counter[str]()
        for row in rows_of(release, file_name(wanted), "cells"):
            assert "_T" not in [row[name] for name in wanted]
            totals[row["level"]] += row["count"]
        assert dict(totals) == dict.fromkeys(LEVELS, len(people()))


def test_open_release_reads_tables_with_labels_and_knows_no_margin(release: Path) -> None:
    opened = confide.open_release(release)
    assert {file_name(wanted) for wanted in variables()} <= {*opened.tables}
    assert "450 rows" in repr(opened.tables)
    table = opened.tables["alder-by-tro"]
    lutherans = opened.sum(table.rows(level="municipality", margin="cell", tro="Lutheran"))
    assert lutherans.value == (records(release)["tro"] == "L").sum()
    assert lutherans.margin is None
    assert "TopDown" in lutherans.note
    assert opened.tables["records"].pandas()["kommune"].tolist() == records(release)["kommune"].tolist()


def test_every_place_keeps_its_code_and_has_the_word_of_the_office(release: Path) -> None:
    areas = pyarrow.csv.read_csv(
        next(release.glob("areas*.csv")),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(("level", "area", "area_name"), "string")
        ),
    ).to_pylist()
    places = {row["area"]: row["area_name"] for row in areas if row["level"] == "municipality"}
    assert places == {code: name for code, (*_, name) in MUNICIPALITIES.items()}
    assert {row["level"] for row in areas} == {*LEVELS}
    for page in ("certificate.html", "codebook.html", "README.txt"):
        words = re.sub(r"<style>.*?</style>", "", (release / page).read_text(encoding="utf-8"), flags=re.DOTALL)
        assert "municipality" in words, page
        assert not re.search(r"\bblocks?\b(?! table)", words), page
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["plan"]["spine"] == [*LEVELS]
    assert {measure["level"] for measure in manifest["plan"]["measures"]} == {*LEVELS}


def test_programs_read_every_file_by_the_data_package(release: Path) -> None:
    frictionless = pytest.importorskip("frictionless")
    report = frictionless.Package(str(release / "datapackage.json")).validate()
    assert report.valid, [task.errors[:2] for task in report.tasks if not task.valid]
    package = json.loads((release / "datapackage.json").read_text(encoding="utf-8"))
    by_name = {resource["name"]: resource for resource in package["resources"]}
    assert {"tables-records", "tables-units", "tables-alder-by-tro", "cells-alder-by-tro", "areas"} <= {*by_name}
    fields = {each["name"]: each for each in by_name["tables-records"]["schema"]["fields"]}
    assert fields["kommune"]["type"] == "string", "so that 001 stays 001"
    for name, labels in LABELS.items():
        if ":" not in name:
            assert {each["value"]: each["label"] for each in fields[name]["categories"]} == labels


def test_pysdmx_reads_a_table_with_its_structure(release: Path) -> None:
    io = pytest.importorskip("pysdmx.io")
    file = next((release / "sdmx").glob("alder-by-tro.*csv"))
    (data,) = io.get_datasets(str(file), str(release / "sdmx/structure.json"), validate=False)
    rows = rows_of(release, "alder-by-tro")
    assert data.data["OBS_VALUE"].astype(int).tolist() == [row["count"] for row in rows]
    assert data.data["TRO"].tolist() == [row["tro"] for row in rows]


# --- Stata and SPSS ---


def test_stata_reads_the_records_with_their_labels(release: Path) -> None:
    """Read by pandas, which has a reader of its own."""
    expected = records(release)
    file = next((release / "stata").glob("records*.dta"))
    frame = pd.read_stata(file)
    assert frame["kommune"].tolist() == expected["kommune"].tolist()
    for name in ("kjonn", "alder", "tro", "arbeid"):
        assert frame[f"{name}_code"].tolist() == expected[name].tolist()
        assert frame[name].tolist() == [LABELS[name][code] for code in expected[name]]
    with pd.io.stata.StataReader(file) as reader:
        assert reader.variable_labels()["tro"] == "Faith"


def test_spss_reads_the_records_with_their_labels(release: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    expected = records(release)
    frame, said = pyreadstat.read_sav(str(next((release / "spss").glob("records*.sav"))))
    for name in ("kommune", "kjonn", "alder", "tro", "arbeid"):
        assert frame[name].tolist() == expected[name].tolist()
    assert said.variable_value_labels == {name: labels for name, labels in LABELS.items() if ":" not in name}
    assert said.column_names_to_labels["arbeid"] == "Work"


def test_whole_numbers_stay_codes_and_odd_names_are_taken(tmp_path: Path) -> None:
    pytest.importorskip("pyreadstat")
    from confide.releases.companions.programs import labelled_check, labelled_columns, write_labelled
    from confide.releases.tabular import CodedVariable

    names = ["if", "1st cousin", "a" * 40, "A" * 40, "größe"]
    table = pa.table({name: pa.array([1, 2, 1]) for name in names})
    known = {name: CodedVariable(name, ("1", "2"), ("one", "ü" * 100), name) for name in names}
    for format_ in ("dta", "sav"):
        columns = labelled_columns(table.schema, known, format_)
        taken = [column.name for column in columns]
        assert len({name.lower() for name in taken}) == len(names)
        assert all(re.fullmatch(r"[A-Za-z]\w{0,31}", name) for name in taken)
        paths = [tmp_path / f"{number}.{format_}" for number in range(2)]
        for path in paths:
            write_labelled(path, table, known, "Odd names", format_)
        assert paths[0].read_bytes() == paths[1].read_bytes()
        assert b"1970" in paths[0].read_bytes()[:300] or b"01 Jan 70" in paths[0].read_bytes()[:300], "no date"
        assert labelled_check(paths[0], table, known, format_, "odd").ok
        other = table.set_column(0, "if", pa.array([1, 2, 2]))
        assert not labelled_check(paths[0], other, known, format_, "odd").ok
        swapped = known | {"if": CodedVariable("if", ("1", "2"), ("ü" * 100, "one"), "if")}
        assert not labelled_check(paths[0], table, swapped, format_, "odd").ok
    frame = pd.read_stata(tmp_path / "0.dta", convert_categoricals=False)
    assert frame.iloc[:, 0].tolist() == [1, 2, 1]


def test_without_pyreadstat_check_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = importlib.util.find_spec
    spec = norland(tmp_path / "country", 'formats = ["parquet", "sav"]\n')
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "pyreadstat" else plain(name, *a))
    findings = confide.check(spec).findings
    assert [finding.code for finding in findings] == ["no-pyreadstat"]
    assert "pip install 'confide[formats]'" in str(findings[0].remedy)
    assert "SPSS" in findings[0].what


# --- Forgeries ---


def failing(folder: Path) -> list[str]:
    """The checks that fail once the manifest has the hashes of the files as they are now."""
    rehash(folder)
    return [check.name for check in confide.verify(folder).checks if not check.ok]


def changed(release: Path, folder: Path, name: str, change: Any, place: str = "tables") -> Path:
    """A copy with a table changed, in Parquet and CSV alike."""
    copy = Path(shutil.copytree(release, folder))
    file = next((copy / place).glob(f"{name}.*parquet"))
    table = pq.read_table(file)
    other = change(table.to_pandas())
    rows = pa.Table.from_pandas(other, schema=table.schema, preserve_index=False)
    pq.write_table(rows.replace_schema_metadata(table.schema.metadata), file, compression="zstd")
    pyarrow.csv.write_csv(rows, file.with_suffix(".csv"), pyarrow.csv.WriteOptions(quoting_style="needed"))
    return copy


def test_a_label_beside_a_wrong_code_is_found(release: Path, tmp_path: Path) -> None:
    def swap(frame: pd.DataFrame) -> pd.DataFrame:
        other = {"Lutheran": "Catholic", "Catholic": "Lutheran"}
        return frame.assign(tro_label=[other.get(label, label) for label in frame["tro_label"]])

    copy = changed(release, tmp_path / "copy", "tro", swap)
    assert "tro: what the records come to" in failing(copy)


def test_a_margin_that_is_not_the_sum_of_its_cells_is_found(release: Path, tmp_path: Path) -> None:
    def raised(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[frame["margin"] == "by tro", "count"] += 1
        return frame

    copy = changed(release, tmp_path / "copy", "alder-by-tro", raised)
    assert "alder-by-tro: what the records come to" in failing(copy)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda frame: frame.assign(count=frame["count"] + 1), id="count"),
        pytest.param(lambda frame: frame.head(-1), id="rows"),
    ],
)
def test_cells_alone_that_are_not_those_of_the_table_are_found(release: Path, tmp_path: Path, change: Any) -> None:
    assert "tro: cells alone" in failing(changed(release, tmp_path / "copy", "tro", change, "cells"))


def test_cells_alone_in_fewer_formats_than_the_table_are_found(release: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    manifest = json.loads((copy / "manifest.json").read_text(encoding="utf-8"))
    (gone,) = (file for file in manifest["files"] if re.fullmatch(r"cells/tro\.(.*\.)?csv", file["path"]))
    manifest["files"].remove(gone)
    (copy / gone["path"]).unlink()
    rehash(copy, manifest)
    assert "tro: cells alone" in [check.name for check in confide.verify(copy).checks if not check.ok]


def test_rows_of_a_level_that_are_missing_are_found(release: Path, tmp_path: Path) -> None:
    copy = changed(release, tmp_path / "copy", "kjonn", lambda frame: frame[frame["level"] != "district"])
    assert "kjonn: what the records come to" in failing(copy)


@pytest.mark.parametrize("page", ["README.txt", "codebook.html", "datapackage.json", "registry.json", "tables.xlsx"])
def test_an_explanation_that_says_something_else_is_found(release: Path, tmp_path: Path, page: str) -> None:
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    content = (copy / page).read_bytes()
    assert b"Lutheran" in content or page in ("README.txt", "registry.json")
    (copy / page).write_bytes(content.replace(b"Lutheran", b"Buddhist").replace(b"Faith", b"Creed"))
    assert failing(copy) == ["pages as the manifest has them"]


def test_a_file_for_stata_of_other_records_is_found(release: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    file = next((copy / "stata").glob("*.dta"))
    file.write_bytes(file.read_bytes().replace(b"Lutheran", b"Buddhist"))
    assert failing(copy) == ["records: Stata says what the records say"]


def test_an_area_that_the_units_lack_is_found(release: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    file = next(copy.glob("areas*.csv"))
    file.write_bytes(file.read_bytes().replace(b'"924A"', b'"924B"'))
    assert "areas: those of the units" in failing(copy)


def test_observations_that_are_not_those_of_the_table_are_found(release: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    file = next((copy / "sdmx").glob("tro.*csv"))
    file.write_bytes(file.read_bytes().replace(b"L: Lutheran", b"L: Luthera"))
    assert failing(copy) == ["tro: the same in every format"]


def test_a_file_that_the_plan_does_not_know_is_found(release: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    manifest = json.loads((copy / "manifest.json").read_text(encoding="utf-8"))
    (entry,) = [file for file in manifest["files"] if file["path"].startswith("cells/tro.") and "csv" in file["path"]]
    (copy / "cells/more.csv").write_bytes((copy / entry["path"]).read_bytes())
    manifest["files"].append(entry | {"path": "cells/more.csv"})
    rehash(copy, manifest)
    wrong = [check.name for check in confide.verify(copy).checks if not check.ok]
    assert "no other files" in wrong


# --- What is left out ---


def test_a_level_with_too_many_rows_is_left_out_and_readme_says_so(tmp_path: Path) -> None:
    """alder-by-tro has 30 rows an area: 240 for eight municipalities, 120 for four districts."""
    folder = sealed(tmp_path / "country", 'formats = ["csv"]\ncrossed_rows = 150\n')
    assert confide.verify(folder).ok
    tables = confide.open_release(folder).tables
    assert tables["alder-by-tro"].described is not None
    assert tables["alder-by-tro"].described.levels == ("country", "region", "district")
    assert tables["kjonn-by-tro"].described is not None
    assert "municipality" in tables["kjonn-by-tro"].described.levels
    assert {*tables["alder-by-tro"].pandas()["level"]} == {"country", "region", "district"}
    words = " ".join((folder / "README.txt").read_text(encoding="utf-8").split())
    left_out = re.search(r"Left out, since a table would have too many rows there: (.*?)\. The figures", words)
    assert left_out is not None
    assert left_out[1].split("; ") == [
        f"{title} (municipality)" for title in ("Age by Faith", "Age by Work", "Faith by Work")
    ]


def test_zeros_are_not_listed_where_a_level_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabulation, "ROWS_WITH_ZEROS", 30)
    folder = sealed(tmp_path / "country", 'formats = ["parquet"]\n')
    assert confide.verify(folder).ok
    rows = rows_of(folder, "alder-by-tro")
    assert len([row for row in rows if row["level"] == "country"]) == 30
    below = [row for row in rows if row["level"] == "municipality"]
    assert len([row for row in below if row["margin"] == "total"]) == len(MUNICIPALITIES), "every area has its total"
    assert all(row["count"] for row in below if row["margin"] != "total")
    frame = records(folder)
    cells = [row for row in below if row["margin"] == "cell"]
    assert {(row["area"], row["alder"], row["tro"]) for row in cells} == {
        *zip(frame["kommune"], frame["alder"], frame["tro"], strict=True)
    }
    words = " ".join((folder / "README.txt").read_text(encoding="utf-8").split())
    assert "alder-by-tro (region, district, municipality)" in words


@pytest.mark.parametrize(("ways", "tables"), [(0, 0), (1, 5), (2, 14)])
def test_the_spec_says_how_many_ways(tmp_path: Path, ways: int, tables: int) -> None:
    folder = sealed(tmp_path / "country", f'formats = ["csv"]\ncrossed_tables = {ways}\n')
    assert confide.verify(folder).ok
    package = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
    assert len([each for each in package["resources"] if each["path"].startswith("cells/")]) == tables
    assert "tables/records.*" in (folder / "README.txt").read_text(encoding="utf-8")


def test_a_workbook_that_would_be_too_large_is_left_out_and_readme_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confide.releases.companions import programs

    monkeypatch.setattr(programs, "MOST_ROWS", 1000)
    folder = sealed(tmp_path / "country", 'formats = ["csv", "xlsx"]\n')
    assert not (folder / "tables.xlsx").exists()
    assert re.search(r"tables.xlsx +is left out", (folder / "README.txt").read_text(encoding="utf-8"))


def test_an_attribute_that_is_called_as_a_column_of_tables_is_a_finding(tmp_path: Path) -> None:
    spec = norland(tmp_path / "country")
    for name in ("schema.toml", "strategy.toml"):
        file = spec.parent / name
        file.write_text(file.read_text(encoding="utf-8").replace("kjonn", "margin"), encoding="utf-8")
    text = spec.read_text(encoding="utf-8").replace("[geography]", 'columns = { margin = "kjonn" }\n[geography]', 1)
    spec.write_text(text, encoding="utf-8")
    findings = confide.check(spec).findings
    assert [finding.code for finding in findings] == ["same-column"]
    assert "crossed_tables = 0" in str(findings[0].remedy)
    spec.write_text(text + "crossed_tables = 0\n", encoding="utf-8")
    assert not confide.check(spec).findings


# --- Who else reads it ---


def test_measurements_of_such_a_release_are_estimated_again_under_the_word_of_the_office(tmp_path: Path) -> None:
    folder = sealed(tmp_path / "country", 'formats = ["parquet"]\nmeasurements = true\n')
    spec = tmp_path / "country" / "again.toml"
    levels = re.search(r"levels = .*\n", (tmp_path / "country" / "topdown.toml").read_text(encoding="utf-8"))
    assert levels is not None
    spec.write_text(
        '[release]\nname = "again"\nmechanism = "postprocess"\n'
        f'[data]\nmeasurements = "{folder}/measurements"\nblocks = "kommuner.csv"\n'
        f'[geography]\nblock = "kommune"\nsmallest = "municipality"\nblock_names = "navn"\n{levels[0]}'
        '[topdown]\nstrategy = "strategy.toml"\nroot = "country"\n[output]\nformats = ["parquet"]\n',
        encoding="utf-8",
    )
    again = confide.run(spec, processes=1).release
    assert confide.verify(again).ok
    for name in ("records", "alder-by-tro"):
        assert rows_of(again, name) == rows_of(folder, name)


def test_attacks_and_risk_read_a_release_with_a_word_of_its_own(release: Path) -> None:
    from confide.lab.attacks.reconstruction import read_source

    country = release.parents[1]
    published = read_source(release, schema=country / "schema.toml")
    assert published.geography.levels[0] == "municipality"
    assert published.marginals[0].totals is not None
    assert published.marginals[0].totals.sum() == len(people())
    from confide.mechanisms.topdown.released_problem import released_plan

    plan = released_plan(release, spec=country / "topdown.toml")
    assert plan.strategy.level_names == LEVELS
    assert len(plan.records()[0]) == len(people())


def test_a_rehearsal_has_the_same_folder(tmp_path: Path) -> None:
    """With a strategy and a schema of the office's own, which lie beside its spec."""
    rehearsed = confide.rehearse(norland(tmp_path / "country", 'formats = ["csv"]\n'), processes=1)
    (readme,) = (tmp_path / "country").rglob("README.txt")
    assert "NOT FOR RELEASE" in readme.read_text(encoding="utf-8")
    assert confide.verify(readme.parent).ok
    assert rehearsed is not None
