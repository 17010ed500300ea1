"""Releases of SafeTab-P: tables for people with codes, labels and intervals, and their readers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import failed, rehash
from tests.kits.safetab_releases import paths, put, read, release_of, write_people

import confide
from confide.errors import ConfideError
from confide.mechanisms.safetab.codes import Iteration, planned_iterations
from confide.mechanisms.safetab.output.coded import read_planned
from confide.mechanisms.safetab.tallies import count_interval, margin_of_sum
from confide.noise import NoiseDistribution

KEY = "5a" * 32
P = Fraction(19, 20)
GROUP = ("REGION_TYPE", "REGION_ID", "ITERATION_CODE")
LARGE = ("USA", "STATE")
VARIANTS = {
    "plain": {"area_names": '"../people/names.txt"'},
    "clamped": {"formats": '["csv"]', "negative_counts": "false"},
    "left-out": {"coterminous": '"derived"', "tabulation_suppression": "true", "formats": '["parquet", "sdmx-csv"]'},
    "alike": {"coterminous": '"derived"', "definition": '"zcdp"'},
}
TABLES = {"T01001": 0, "T02001": 8, "T02002": 18, "T02003": 46}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up people, and the names of some of their areas."""
    folder = tmp_path_factory.mktemp("coded")
    write_people(folder / "people")
    _, *blocks = (folder / "people" / "data" / "GRF-C.txt").read_text().splitlines()
    lines = [f"STATE|{state}|The state of {state}" for state in sorted({block[:2] for block in blocks})]
    text = "\n".join(["REGION_TYPE|REGION_ID|NAME", "USA|1|All of them", *lines, "PLACE|9999999|Nowhere", ""])
    (folder / "people" / "names.txt").write_text(text)
    return folder


@pytest.fixture(scope="module")
def release(folder: Path) -> Callable[[str], Path]:
    """The release of a variant, made when it is first asked for, with a chosen key: to look at and not to touch."""

    @cache
    def of(name: str) -> Path:
        return release_of(folder / "people", folder / name, KEY, **VARIANTS[name]) / "release"

    return of


def laws(release: Path) -> dict[str, Any]:
    return {level.title: level for level in read_planned(manifest(release)["plan"])}


def manifest(release: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((release / "manifest.json").read_text())
    return content


def levels_of_iterations(release: Path) -> dict[str, str]:
    words = {1: "regional", 2: "detailed"}
    return {each["code"]: words[each["level"]] for each in manifest(release)["plan"]["question"]["iterations"]}


@pytest.mark.parametrize("name", VARIANTS)
def test_it_is_consistent_with_itself(release: Callable[[str], Path], name: str) -> None:
    assert failed(release(name)) == []


@pytest.mark.parametrize("name", VARIANTS)
def test_totals_are_those_of_t1_with_the_labels_of_the_lists(
    release: Callable[[str], Path], name: str, folder: Path
) -> None:
    rows = read(release(name), "T01001").to_pylist()
    official = read(release(name), "t1").to_pylist()
    assert [(row["level"], row["area"], row["iteration"], row["count"]) for row in rows] == [
        (row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"], row["COUNT"]) for row in official
    ]
    names = {}
    for file in (folder / "people" / "parameters").glob("*-characteristic-iterations.txt"):
        header, *lines = (line.split("|") for line in file.read_text().splitlines())
        at = [header.index(each) for each in ("ITERATION_CODE", "ITERATION_NAME")]
        names |= {line[at[0]]: line[at[1]] for line in lines}
    assert len({row["iteration"] for row in rows}) > 20
    assert all(row["iteration_label"] == names[row["iteration"]] for row in rows)


def test_sex_by_age_is_that_of_t2(release: Callable[[str], Path]) -> None:
    published = {
        tuple(row[name] for name in (*GROUP, "SEX", "AGESTART", "AGEEND")): row["COUNT"]
        for row in read(release("plain"), "t2").to_pylist()
    }
    seen = 0
    for table, cells in TABLES.items():
        if not cells:
            continue
        age = f"age:{cells // 2}"
        for row in read(release("plain"), table).to_pylist():
            if row["sex"] == "_T":
                assert (row["margin"], row[age]) == ("by iteration", "_T")
                continue
            ends = ("*", "*") if row[age] == "_T" else (row[age].split("-")[0], row[age].split("-")[-1])
            assert row["margin"] == ("by iteration*sex" if row[age] == "_T" else "cell")
            assert row["count"] == published[row["level"], row["area"], row["iteration"], row["sex"], *ends]
            assert row["sex_label"] == {"1": "male", "2": "female"}[row["sex"]]
            seen += 1
    assert seen == len(published)


def test_areas_have_the_names_of_the_file(release: Callable[[str], Path]) -> None:
    rows = read(release("plain"), "T01001").to_pylist()
    for row in rows:
        expected = {"USA": "All of them", "STATE": f"The state of {row['area']}"}.get(row["level"], "")
        assert row["area_name"] == expected
    assert "area_name" not in read(release("clamped"), "T01001").column_names


def test_each_figure_has_the_interval_of_its_own_law(release: Callable[[str], Path]) -> None:
    """A total alone below the states is read given that it was published; a total with a table is a sum of cells."""
    folder = release("plain")
    planned, kind = laws(folder), levels_of_iterations(folder)
    total_only = {each["code"] for each in manifest(folder)["plan"]["question"]["iterations"] if each["total_only"]}
    seen = set()
    for table, cells in TABLES.items():
        for row in read(folder, table).to_pylist():
            level = planned[f"{row['level']}, {kind[row['iteration']]}"]
            law: NoiseDistribution = level.total_law if row["iteration"] in total_only else level.law
            if cells:
                summed = {"by iteration": cells, "by iteration*sex": cells // 2, "cell": 1}[row["margin"]]
            else:
                summed = 1 if row["measured_as"] == "total" else int(row["measured_as"].split()[2])
            selected = not cells and summed == 1 and row["level"] not in LARGE
            if summed == 1:
                above = level.suppressed_up_to if selected else None
                expected = count_interval(law, row["count"], P, above)
            else:
                margin = margin_of_sum(law, summed, P)
                expected = max(0, row["count"] - margin), row["count"] + margin
            assert (row["low"], row["high"]) == expected
            variance = None if selected else summed * law.variance()
            assert row["variance"] == (None if variance is None else pytest.approx(variance))
            seen.add((table, summed, selected))
    assert {(table, selected) for table, _, selected in seen} >= {
        ("T01001", True),
        ("T01001", False),
        ("T02001", False),
    }
    assert any(table == "T01001" and summed > 1 for table, summed, _ in seen)


def test_where_counts_were_set_to_zero_intervals_reach_further_down(release: Callable[[str], Path]) -> None:
    rows = read(release("clamped"), "T01001").to_pylist()
    sums = [row for row in rows if row["measured_as"] != "total"]
    assert sums
    assert all(row["count"] - row["low"] > row["high"] - row["count"] for row in sums if row["low"])
    assert {row["variance"] for row in rows} <= {None, ""}


def test_no_interval_is_stated_where_figures_were_compared(release: Callable[[str], Path]) -> None:
    for table in TABLES:
        rows = read(release("left-out"), table)
        for column in ("low", "high", "variance"):
            assert rows.column(column).null_count == rows.num_rows
    assert read(release("left-out"), "T02003").column("count").null_count


def test_the_folder_says_what_is_missing_and_what_must_not_be_added(release: Callable[[str], Path]) -> None:
    text = " ".join((release("plain") / "README.txt").read_text().split())
    level = laws(release("plain"))["COUNTY, detailed"]
    assert f"COUNTY, detailed: {level.suppressed_up_to}" in text
    assert "That does not mean that nobody is in it." in text
    assert "Never add different groups" in text
    assert "No interval holds for what is left" in " ".join((release("left-out") / "README.txt").read_text().split())


# Forged


CHANGES: dict[str, tuple[str, Callable[[pa.Table], pa.Table], str]] = {
    "low": ("T01001", put("low", lambda value: value + 1, 3), "T01001: says what t1, t2 and the plan say"),
    "high": ("T02001", put("high", lambda value: value - 1, 0), "T02001: says what t1, t2 and the plan say"),
    "a label": ("T01001", put("iteration_label", "Nobody", 0), "T01001: says what t1, t2 and the plan say"),
    "how it was measured": ("T01001", put("measured_as", "sum of 46 cells", -1), "T01001: sums where t2 has a table"),
    "a row": ("T02003", lambda table: table.slice(0, table.num_rows - 1), "T02003: says what t1, t2 and the plan say"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_somebody_changed_is_seen(release: Callable[[str], Path], tmp_path: Path, what: str) -> None:
    copy = Path(shutil.copytree(release("plain"), tmp_path / "release"))
    name, change, check = CHANGES[what]
    for format_, path in paths(copy, name).items():
        table = change(pq.read_table(path) if format_ == "parquet" else _read_csv(path, read(copy, name).schema))
        pq.write_table(table, path) if format_ == "parquet" else pyarrow.csv.write_csv(table, path)
    rehash(copy)
    assert check in failed(copy)


def _read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    types = {field.name: field.type for field in schema}
    options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    return pyarrow.csv.read_csv(path, convert_options=options).cast(
        pa.schema([(each.name, each.type) for each in schema])
    )


def test_a_total_that_would_have_been_left_out_is_seen(release: Callable[[str], Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(release("plain"), tmp_path / "release"))
    rows = read(copy, "t1")
    at = next(
        i
        for i, row in enumerate(read(copy, "T01001").to_pylist())
        if row["measured_as"] == "total" and row["level"] == "COUNTY"
    )
    change = put("COUNT", 2, at)
    table = change(rows)
    pq.write_table(table, paths(copy, "t1")["parquet"])
    plain = pyarrow.csv.WriteOptions(delimiter="|", quoting_style="none", quoting_header="none")
    pyarrow.csv.write_csv(table, paths(copy, "t1")["csv"], plain)
    rehash(copy)
    assert "totals above the suppression number" in failed(copy)


# Added up


def test_one_published_total_has_its_own_interval(release: Callable[[str], Path]) -> None:
    opened = confide.open_release(release("plain"))
    table = opened.tables["T01001"]
    row = next(row for row in table.arrow().to_pylist() if row["measured_as"] == "total" and row["level"] == "COUNTY")
    estimate = opened.sum(table.rows(**{name: row[name] for name in ("level", "area", "iteration")}))
    assert (estimate.value, estimate.interval, estimate.margin) == (row["count"], (row["low"], row["high"]), None)
    assert f"({row['low']} to {row['high']}, 95 %)" in str(estimate)


def test_a_sum_with_a_published_total_holds_more_often_than_asked(release: Callable[[str], Path]) -> None:
    opened = confide.open_release(release("plain"))
    table = opened.tables["T01001"]
    rows = table.arrow()
    alone = pc.and_(pc.equal(rows.column("measured_as"), "total"), pc.equal(rows.column("level"), "COUNTY"))
    some = rows.filter(alone).slice(0, 2)
    code = some.to_pylist()[0]["iteration"]
    both = opened.sum(some, table="T01001")
    level = laws(release("plain"))[f"COUNTY, {levels_of_iterations(release('plain'))[code]}"]
    ends = [
        count_interval(level.law, row["count"], Fraction(39, 40), level.suppressed_up_to) for row in some.to_pylist()
    ]
    assert both.interval == (sum(low for low, _ in ends), sum(high for _, high in ends))
    nothing = opened.difference(some, some, table="T01001")
    assert (nothing.value, nothing.margin) == (0, 0)


def test_a_total_is_the_sum_of_its_cells_with_the_same_noise(release: Callable[[str], Path]) -> None:
    opened = confide.open_release(release("plain"))
    totals, table = opened.tables["T01001"], opened.tables["T02001"]
    row = next(row for row in totals.arrow().to_pylist() if row["measured_as"] == "sum of 8 cells")
    which = {name: row[name] for name in ("level", "area", "iteration")}
    cells, total = table.rows(**which, margin="cell"), totals.rows(**which)
    estimate = opened.sum(cells)
    assert estimate.value == row["count"]
    assert estimate.variance == pytest.approx(row["variance"])
    assert estimate.margin == opened.sum(total).margin == row["high"] - row["count"]
    assert opened.difference(total, cells).margin == 0
    men = table.rows(**which, sex="male", margin="by iteration*sex")
    assert opened.difference(total, men).variance == pytest.approx(row["variance"] / 2)


def test_areas_that_share_their_figures_share_their_noise(release: Callable[[str], Path]) -> None:
    opened = confide.open_release(release("alike"))
    rows = opened.tables["T01001"].arrow().to_pylist()
    copied = [row for row in rows if row["measured_in"] != row["level"]]
    assert copied
    for row in copied[:20]:
        twin = next(
            other
            for other in rows
            if other["level"] == row["measured_in"]
            and other["iteration"] == row["iteration"]
            and other["count"] == row["count"]
            and (other["area"].startswith(row["area"]) or row["area"].startswith(other["area"]))
        )
        answer = opened.difference([row], [twin], table="T01001")
        assert (answer.value, answer.margin) == (0, 0)


def test_where_errors_do_not_average_out_no_margin_is_given(release: Callable[[str], Path]) -> None:
    for name, words in (("clamped", "set to zero"), ("left-out", "left out because of other figures")):
        opened = confide.open_release(release(name))
        table = opened.tables["T01001"]
        estimate = opened.sum(table.rows(level="USA", iteration=table.arrow().column("iteration")[0].as_py()))
        assert estimate.margin is None
        assert words in estimate.note


# Specs and lists


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"formats": '["sdmx-csv"]'}, "no-tables"),
        ({"area_names": '"../people/twice.txt"'}, "area-names"),
        ({"area_names": '"../people/data/GRF-C.txt"'}, "area-names"),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, tmp_path: Path, changes: dict[str, str], code: str) -> None:
    (folder / "people" / "twice.txt").write_text("REGION_TYPE|REGION_ID|NAME\nSTATE|01|one\nSTATE|01|two\nTOWN|1|x\n")
    with pytest.raises(ConfideError) as refused:
        release_of(folder / "people", folder / f"refused-{abs(hash((tmp_path, code)))}", KEY, **changes)
    assert {finding.code for finding in refused.value.findings if finding.severity == "error"} == {code}


def test_iterations_of_one_name_are_told_apart_by_their_codes() -> None:
    lists = [
        Iteration(code, name, 2, "race-alone", False, False)
        for code, name in (("1001", "A"), ("1002", "A"), ("1003", "B"), ("1004", "_T"), ("1005", "A (1001)"))
    ]
    labels = [each["label"] for each in planned_iterations(lists)]
    assert labels == ["A (1001)", "A (1002)", "B", "_T (1004)", "A (1001) (1005)"]
