"""What ``verify`` finds in a SafeTab-P release that was changed by somebody who also corrected the hashes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.kits.forged import failed
from tests.kits.safetab_releases import (
    also,
    drop,
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
    """A released group as ``t1`` and ``t2`` name it."""
    table = read(release, "T01001")
    at = rows_where(table, level=region, measured_as=measured)[number]
    row = table.slice(at, 1).to_pylist()[0]
    return {"REGION_ID": row["area"], "REGION_TYPE": row["level"], "ITERATION_CODE": row["iteration"]}


def for_people(one: dict[str, str]) -> dict[str, str]:
    """The same as tables for people name it."""
    return {"area": one["REGION_ID"], "level": one["REGION_TYPE"], "iteration": one["ITERATION_CODE"]}


@pytest.mark.parametrize("name", VARIANTS)
def test_an_untouched_release_passes(copies: Copies, name: str) -> None:
    assert all("NOT-FOR-RELEASE" in path.name for path in paths(copies[name], "t1").values())
    assert failed(copies[name]) == []
    forge(copies[name], t1=lambda table: table)
    assert failed(copies[name]) == []


def test_formats_that_differ(release: Path) -> None:
    forge(release, "csv", t1=put("COUNT", lambda n: n + 1, 3))
    assert failed(release) == ["t1: the same in every format"]


def test_counts_that_are_no_whole_numbers(release: Path) -> None:
    forge(release, "parquet", t1=lambda t: t.set_column(3, "COUNT", t.column("COUNT").cast(pa.float64())))
    assert "t1: columns of the layout" in failed(release)


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
        ("T01001", lambda t: t.take([1, 0, *range(2, t.num_rows)]), "T01001: the groups of t1, in order"),
    ],
)
def test_order(release: Path, name: str, change: object, check: str) -> None:
    forge(release, **{name: change})  # type: ignore[arg-type]
    assert check in failed(release)


def detail(release: Path, name: str) -> str:
    """What a check that fails has found."""
    return next(check.detail for check in confide.verify(release).checks if check.name == name and not check.ok)


def test_region_types_areas_and_states_of_the_plan(release: Path, copies: Copies) -> None:
    last = read(release, "t1").num_rows - 1
    forge(release, t1=also(put("REGION_TYPE", "PR-PLACE", last), put("REGION_ID", "7200001", last)))
    assert "does not have this region type" in detail(release, "t1: groups of the plan")
    table = read(copies["plain"], "t1")
    (tract,) = rows_where(table, REGION_TYPE="TRACT")[-1:]
    forge(copies["plain"], t1=put("REGION_ID", lambda code: code[:5] + "999999", tract))
    assert "more than the plan has" in detail(copies["plain"], "t1: groups of the plan")
    code = table.column("REGION_ID")[tract].as_py()
    elsewhere = put("REGION_ID", "02" + code[2:], REGION_ID=code)
    forge(copies["all-shown"], t1=elsewhere, t2=elsewhere)
    assert "outside the states" in detail(copies["all-shown"], "t1: groups of the plan")


def test_nothing_is_missing_where_nothing_is_left_out(copies: Copies) -> None:
    for name, region in (("plain", "STATE"), ("all-shown", "COUNTY")):
        one = group(copies[name], region, TOTAL)
        forge(copies[name], t1=drop(**one), T01001=drop(**for_people(one)))
        assert "t1: groups of the plan" in failed(copies[name])


def test_below_the_states_a_group_may_be_left_out(release: Path) -> None:
    one = group(release, "PLACE", TOTAL)
    forge(release, t1=drop(**one), T01001=drop(**for_people(one)))
    assert not {name for name in failed(release) if name.startswith("t1")}


def test_grids_are_whole(release: Path, copies: Copies) -> None:
    forge(release, t2=drop(4))
    assert "t2: whole grids" in failed(release)
    forge(copies["plain"], t2=put("AGEEND", "5", 1))
    assert "t2: whole grids" in failed(copies["plain"])


def test_every_group_of_t2_is_in_t1(release: Path) -> None:
    one = group(release, "COUNTY", FOUR)
    forge(release, t1=drop(**one), T01001=drop(**for_people(one)))
    assert "t2: groups of t1" in failed(release)


def test_totals_are_sums(release: Path, copies: Copies) -> None:
    one = group(release, "COUNTY", FOUR)
    more = put("count", lambda n: n + 1, **for_people(one))
    forge(release, t1=put("COUNT", lambda n: n + 1, **one), T01001=more)
    assert "t1: totals are the sums of t2" in failed(release)
    cell = one | {"AGESTART": "0", "AGEEND": "17", "SEX": "2"}
    forge(copies["plain"], t2=put("COUNT", lambda n: n + 1, **cell))
    assert "t1: totals are the sums of t2" in failed(copies["plain"])


def test_no_count_below_zero(copies: Copies) -> None:
    for name in ("clamped", "left-out"):
        one = group(copies[name], "STATE", TOTAL)
        forge(copies[name], t1=put("COUNT", -1, **one), T01001=put("count", -1, **for_people(one)))
        assert "no count below zero" in failed(copies[name])


def test_tables_for_people_say_the_same(release: Path, copies: Copies) -> None:
    one = for_people(group(release, "USA", TOTAL))
    forge(release, T01001=put("count", lambda n: n + 1, **one))
    assert "T01001: says what t1, t2 and the plan say" in failed(release)
    for name in ("plain", "left-out"):
        one = for_people(group(copies[name], "USA", FOUR))
        up, down = (rows_where(read(copies[name], "T02001"), sex=sex, **one)[1] for sex in ("1", "2"))
        forge(copies[name], T02001=also(put("count", lambda n: n + 1, up), put("count", lambda n: n - 1, down)))
        assert "T02001: says what t1, t2 and the plan say" in failed(copies[name])


def test_how_a_total_was_measured(release: Path, copies: Copies) -> None:
    forge(release, T01001=put("measured_as", "guess", 0))
    assert "T01001: sums where t2 has a table" in failed(release)
    one = for_people(group(copies["all-shown"], "USA", FOUR))
    forge(copies["all-shown"], T01001=put("measured_as", TOTAL, **one))
    assert "T01001: sums where t2 has a table" in failed(copies["all-shown"])


def test_a_group_missing_from_its_table(release: Path) -> None:
    forge(release, T02001=drop(0))
    assert "T02001: says what t1, t2 and the plan say" in failed(release)


def test_a_total_that_would_have_been_left_out(release: Path, copies: Copies) -> None:
    """A regional total in a place is above 93, a detailed one above 21; in a state any is shown."""
    question = json.loads((release / "manifest.json").read_text())["plan"]["question"]
    levels = question["levels"]
    assert [levels[name]["suppressed_up_to"] for name in ("PLACE-1", "PLACE-2", "STATE-2")] == [93, 21, None]
    kinds = {each["code"]: each["level"] for each in question["iterations"] if not each["total_only"]}
    for copy, level, least in ((release, 1, 93), (copies["plain"], 2, 21)):
        table = read(copy, "T01001")
        rows = table.take(rows_where(table, level="PLACE", measured_as=TOTAL)).to_pylist()
        row = next(each for each in rows if kinds.get(each["iteration"]) == level)
        one = {"REGION_ID": row["area"], "REGION_TYPE": row["level"], "ITERATION_CODE": row["iteration"]}
        for count, fails in ((least + 1, False), (least, True)):
            forge(copy, t1=put("COUNT", count, **one), T01001=put("count", count, **for_people(one)))
            assert ("totals above the suppression number" in failed(copy)) == fails
