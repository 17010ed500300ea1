"""What ``verify`` finds in a SafeTab-P release that was changed by somebody who also corrected the hashes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.kits.forged import rehash
from tests.kits.safetab_releases import (
    also,
    drop,
    failed,
    forge,
    paths,
    put,
    read,
    release_of,
    rows_where,
    write_people,
)

import confide

KEY = "5a" * 32
VARIANTS = {
    "plain": {},
    "clamped": {"formats": '["csv"]', "negative_counts": "false", "noise_margin": '"0.9"'},
    "left-out": {"coterminous": '"derived"', "tabulation_suppression": "true"},
    "all-shown": {"zero_suppression": "", "formats": '["parquet"]'},
}
TOTAL, FOUR = "total", "sum of 8 cells"
TABLES = ("T01001", "T02001", "T02002", "T02003")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A release of every kind, from one set of made-up people and one chosen key: all stamped."""
    folder = tmp_path_factory.mktemp("verify")
    write_people(folder / "people")
    return {
        name: release_of(folder / "people", folder / name, KEY, **changes) / "release"
        for name, changes in VARIANTS.items()
    }


class Copies(dict[str, Path]):
    """Copies of the releases to be forged, each made when it is asked for."""

    def __init__(self, made: dict[str, Path], folder: Path):
        self._made, self._folder = made, folder

    def __missing__(self, name: str) -> Path:
        self[name] = Path(shutil.copytree(self._made[name], self._folder / name))
        return self[name]


@pytest.fixture
def copies(made: dict[str, Path], tmp_path: Path) -> Copies:
    return Copies(made, tmp_path)


@pytest.fixture
def release(made: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made["plain"], tmp_path / "release"))


def group(release: Path, region: str, measured: str, number: int = 0) -> dict[str, str]:
    """A released group, by what names it."""
    table = read(release, "T01001")
    at = rows_where(table, REGION_TYPE=region, MEASURED_AS=measured)[number]
    row = table.slice(at, 1).to_pylist()[0]
    return {name: row[name] for name in ("REGION_ID", "REGION_TYPE", "ITERATION_CODE")}


@pytest.mark.parametrize("name", VARIANTS)
def test_an_untouched_release_passes(copies: Copies, name: str) -> None:
    assert all("NOT-FOR-RELEASE" in path.name for path in paths(copies[name], "t1").values())
    assert failed(copies[name]) == []
    forge(copies[name], t1=lambda table: table, T02001=lambda table: table)
    assert failed(copies[name]) == []


def test_the_releases_have_what_the_forgeries_need(made: dict[str, Path]) -> None:
    """Groups of every table; with the tabulation system, cells that are only in the tables for people."""
    assert set(read(made["plain"], "T01001").column("MEASURED_AS").to_pylist()) == {
        TOTAL, FOUR, "sum of 18 cells", "sum of 46 cells",
    }  # fmt: skip
    rows = sum(read(made["left-out"], f"T0200{n}").num_rows * r for n, r in ((1, 10), (2, 20), (3, 48)))
    assert read(made["left-out"], "t2").num_rows < rows


def test_columns_and_formats(release: Path, copies: Copies) -> None:
    forge(release, "csv", t1=put("COUNT", lambda n: n + 1, 3))
    assert failed(release) == ["t1: the same in every format"]
    forge(copies["all-shown"], T02002=lambda table: table.rename_columns(["REGION", *table.column_names[1:]]))
    assert failed(copies["all-shown"]) == ["tables of this release", "T02002: columns of the layout"]
    whole = put("COUNT", lambda n: n)
    floats = also(whole, lambda t: t.set_column(3, "COUNT", t.column("COUNT").cast(pa.float64())))
    forge(copies["plain"], "parquet", t1=floats)
    assert failed(copies["plain"])[-1] == "t1: columns of the layout"


def test_a_table_that_is_not_there(release: Path) -> None:
    manifest = json.loads((release / "manifest.json").read_text())
    gone = [file["path"] for file in manifest["files"] if file["path"].startswith("tables/T02003")]
    manifest["files"] = [file for file in manifest["files"] if file["path"] not in gone]
    for path in gone:
        (release / path).unlink()
    rehash(release, manifest)
    assert failed(release) == ["T02003: columns of the layout"]


@pytest.mark.parametrize(
    ("name", "change", "check"),
    [
        ("t1", lambda t: t.take([1, 0, *range(2, t.num_rows)]), "t1: each group once, in order"),
        ("t1", lambda t: pa.concat_tables([t.slice(0, 1), t]), "t1: each group once, in order"),
        ("t1", put("ITERATION_CODE", "12", 0), "t1: each group once, in order"),
        ("t1", put("REGION_ID", "01", 0), "t1: each group once, in order"),
        ("t1", put("REGION_TYPE", "ZONE", 0), "t1: each group once, in order"),
        ("t2", lambda t: t.take([1, 0, *range(2, t.num_rows)]), "t2: each cell once, in order"),
        ("t2", put("SEX", "3", 0), "t2: each cell once, in order"),
        ("t2", put("AGEEND", "116", 2), "t2: each cell once, in order"),
        ("T01001", lambda t: t.take([1, 0, *range(2, t.num_rows)]), "T01001: each group once, in order"),
    ],
)
def test_order(release: Path, name: str, change: object, check: str) -> None:
    forge(release, **{name: change})  # type: ignore[arg-type]
    assert failed(release) == [check]


def detail(release: Path, name: str) -> str:
    """What a check that fails has found."""
    return next(check.detail for check in confide.verify(release).checks if check.name == name and not check.ok)


def test_region_types_areas_and_states_of_the_plan(release: Path, copies: Copies) -> None:
    last = read(release, "t1").num_rows - 1
    other = also(put("REGION_TYPE", "PR-PLACE", last), put("REGION_ID", "7200001", last))
    forge(release, t1=other, T01001=other)
    assert "does not have this region type" in detail(release, "t1: groups of the plan")
    table = read(copies["plain"], "t1")
    (tract,) = rows_where(table, REGION_TYPE="TRACT")[-1:]
    new = put("REGION_ID", lambda code: code[:5] + "999999", tract)
    forge(copies["plain"], t1=new, T01001=new)
    assert "more than the plan has" in detail(copies["plain"], "t1: groups of the plan")
    code = table.column("REGION_ID")[tract].as_py()
    elsewhere = {name: put("REGION_ID", "02" + code[2:], REGION_ID=code) for name in ("t1", "t2", *TABLES)}
    forge(copies["all-shown"], **elsewhere)
    assert failed(copies["all-shown"]) == ["t1: groups of the plan"]
    assert "outside the states" in detail(copies["all-shown"], "t1: groups of the plan")


def test_nothing_is_missing_where_nothing_is_left_out(copies: Copies) -> None:
    for name, region in (("plain", "STATE"), ("all-shown", "COUNTY")):
        one = group(copies[name], region, TOTAL)
        forge(copies[name], t1=drop(**one), T01001=drop(**one))
        assert failed(copies[name]) == ["t1: groups of the plan"]


def test_below_the_states_a_group_may_be_left_out(release: Path) -> None:
    one = group(release, "PLACE", TOTAL)
    forge(release, t1=drop(**one), T01001=drop(**one))
    assert failed(release) == []


def test_grids_are_whole(release: Path, copies: Copies) -> None:
    forge(release, t2=drop(4))
    assert "t2: whole grids" in failed(release)
    forge(copies["plain"], t2=put("AGEEND", "5", 1))
    assert "t2: whole grids" in failed(copies["plain"])


def test_every_group_of_t2_is_in_t1(release: Path) -> None:
    one = group(release, "COUNTY", FOUR)
    forge(release, t1=drop(**one), T01001=drop(**one), T02001=drop(**one))
    assert "t2: groups of t1" in failed(release)


def test_totals_are_sums(release: Path, copies: Copies) -> None:
    one = group(release, "COUNTY", FOUR)
    more = put("TOTAL", lambda n: n + 1, **one)
    forge(release, t1=put("COUNT", lambda n: n + 1, **one), T01001=more, T02001=more)
    assert failed(release) == ["t1: totals are the sums of t2", "T02001: sums are sums"]
    cell = one | {"AGESTART": "0", "AGEEND": "17", "SEX": "2"}
    forge(copies["plain"], t2=put("COUNT", lambda n: n + 1, **cell), T02001=put("FEMALE_0_17", lambda n: n + 1, **one))
    assert failed(copies["plain"]) == ["t1: totals are the sums of t2", "T02001: sums are sums"]
    left_out = group(copies["left-out"], "USA", FOUR)
    forge(copies["left-out"], T02001=put("TOTAL", lambda n: n + 1, **left_out))
    assert failed(copies["left-out"]) == ["T02001: sums are sums", "T02001: says what t2 says"]


def test_no_count_below_zero(copies: Copies) -> None:
    for name in ("clamped", "left-out"):
        one = group(copies[name], "STATE", TOTAL)
        forge(copies[name], t1=put("COUNT", -1, **one), T01001=put("TOTAL", -1, **one))
        assert failed(copies[name]) == ["no count below zero"]


def test_tables_for_people_say_the_same(release: Path, copies: Copies) -> None:
    one = group(release, "USA", TOTAL)
    forge(release, T01001=put("TOTAL", lambda n: n + 1, **one))
    assert failed(release) == ["T01001: says what t1 and t2 say"]
    for name in ("plain", "left-out"):
        one = group(copies[name], "USA", FOUR)
        up, down = put("MALE_0_17", lambda n: n + 1, **one), put("MALE_18_44", lambda n: n - 1, **one)
        forge(copies[name], T02001=also(up, down))
        assert failed(copies[name]) == ["T02001: says what t2 says"]


def test_how_a_total_was_measured(release: Path, copies: Copies) -> None:
    forge(release, T01001=put("MEASURED_AS", "guess", 0))
    assert "T01001: says what t1 and t2 say" in failed(release)
    forge(copies["all-shown"], T01001=put("MEASURED_AS", TOTAL, **group(copies["all-shown"], "USA", FOUR)))
    assert {"T01001: says what t1 and t2 say", "T02001: says what t2 says"} < set(failed(copies["all-shown"]))


def test_a_group_missing_from_its_table(release: Path) -> None:
    forge(release, T02001=drop(0))
    assert failed(release) == ["T02001: says what t2 says"]


def test_an_iteration_has_one_name(release: Path) -> None:
    forge(release, T02001=put("ITERATION_NAME", "Another", 0))
    assert failed(release) == ["one name for each iteration"]


def test_a_total_that_would_have_been_left_out(release: Path, copies: Copies) -> None:
    """Below the states a detailed total is above 21, whatever the level of the iteration; one above 21 could be."""
    levels = json.loads((release / "manifest.json").read_text())["plan"]["question"]["levels"]
    assert [levels[name]["suppressed_up_to"] for name in ("PLACE-1", "PLACE-2", "STATE-2")] == [93, 21, None]
    one = group(release, "PLACE", TOTAL, number=-1)
    for count, fails in ((22, []), (21, ["totals above the suppression number"])):
        forge(release, t1=put("COUNT", count, **one), T01001=put("TOTAL", count, **one))
        assert failed(release) == fails
    table = read(copies["plain"], "T01001")
    regional = [
        row
        for row in table.to_pylist()
        if row["REGION_TYPE"] == "PLACE" and row["MEASURED_AS"] == TOTAL and row["TOTAL_MARGIN"] == 49
    ]
    one = {name: regional[0][name] for name in ("REGION_ID", "REGION_TYPE", "ITERATION_CODE")}
    forge(copies["plain"], t1=put("COUNT", 93, **one), T01001=put("TOTAL", 93, **one))
    assert failed(copies["plain"]) == ["noise margins"]


def test_noise_margins_are_those_of_the_plan(release: Path, copies: Copies) -> None:
    forge(release, T01001=put("TOTAL_MARGIN", lambda m: m - 1, 5))
    assert failed(release) == ["noise margins"]
    for column in ("TOTAL_MARGIN", "SEX_MARGIN", "CELL_MARGIN"):
        forge(copies["clamped"], T02002=put(column, lambda m: m + 1, 1))
        assert failed(copies["clamped"]) == ["noise margins"]
        forge(copies["clamped"], T02002=put(column, lambda m: m - 1, 1))
    assert failed(copies["clamped"]) == []


def test_no_more_iterations_of_a_kind_than_planned(release: Path) -> None:
    """A detailed group of nation and state alone that claims the noise of regional ones: one of these too many."""
    rows = read(release, "T01001").to_pylist()
    codes = [row["ITERATION_CODE"] for row in rows if row["MEASURED_AS"] == TOTAL and row["TOTAL_MARGIN"] == 3]
    below = {row["ITERATION_CODE"] for row in rows if row["REGION_TYPE"] not in ("USA", "STATE")}
    tabled = {row["ITERATION_CODE"] for row in rows if row["MEASURED_AS"] != TOTAL}
    code = next(code for code in codes if code not in below | tabled)
    forge(release, T01001=put("TOTAL_MARGIN", 49, ITERATION_CODE=code))
    assert failed(release) == ["as many iterations of each kind as planned"]
