"""What ``verify`` finds in a release by the cell key method that was made again by a forger, hashes and all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.kits.cellkey import forge, release_of, with_count
from tests.kits.forged import failed, rehash, restated
from tests.kits.labelled import read_labelled

from confide.releases.plan import read_plan

WORK = "work: "


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Releases with everything, and with a js, with a threshold, and without margins."""
    folder = tmp_path_factory.mktemp("made")
    return {
        "weighted": release_of(folder / "weighted", data='weight = "weight"'),
        "js": release_of(folder / "js", cellkey='D = 5\nV = "3"\njs = 2'),
        "threshold": release_of(folder / "threshold", cellkey='D = 5\nV = "2"\nthreshold = 300'),
        "inner": release_of(folder / "inner", margins="none"),
    }


@pytest.fixture
def copy(made: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(made[name], tmp_path / name))


@pytest.fixture
def release(copy: Callable[[str], Path]) -> Path:
    return copy("weighted")


def row_of(table: pa.Table, **labels: str) -> int:
    """The row of a cell."""
    rows = [row for row, values in enumerate(table.to_pylist()) if labels.items() <= values.items()]
    assert len(rows) == 1
    return rows[0]


def count_of(table: pa.Table, **labels: str) -> int:
    return int(table.column("count")[row_of(table, **labels)].as_py())


def shifted(by: int, **labels: str) -> Callable[[pa.Table], pa.Table]:
    """The same table with one count changed."""
    return lambda table: with_count(table, row_of(table, **labels), count_of(table, **labels) + by)


@pytest.mark.parametrize("name", ["weighted", "js", "threshold", "inner"])
def test_an_untouched_release_passes_and_so_does_one_written_anew(copy: Callable[[str], Path], name: str) -> None:
    release = copy(name)
    assert failed(release) == []
    forge(release, work=lambda table: table, adults=lambda table: table)
    assert failed(release) == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda t: t.drop_columns(["weighted"]), "columns and labels"),
        (lambda t: t.set_column(3, "weighted", pa.array([0.1234567] * t.num_rows)), "columns and labels"),
        (lambda t: with_count(t, t.num_rows - 1, 0), "counts that may be published"),
        (lambda t: with_count(t, t.num_rows - 1, -3), "counts that may be published"),
        (lambda t: with_count(t, t.num_rows - 1, 9_000), "noise within its bound"),
        (lambda t: t.slice(0, t.num_rows - 1), "noise within its bound"),
        (lambda t: t.slice(0, 0), "the same members, the same noise"),
    ],
)
def test_a_changed_table_is_found(release: Path, change: Callable[[pa.Table], pa.Table], check: str) -> None:
    forge(release, work=change)
    assert WORK + check in failed(release)


def test_an_observation_that_differs_is_found(release: Path) -> None:
    forge(release, "sdmx-csv", work=shifted(1, sex="men", work="works"))
    assert failed(release) == [WORK + "the same in every format"]


def test_weighted_figures_that_differ_between_formats_are_found(release: Path) -> None:
    forge(release, "csv", work=lambda t: t.set_column(3, "weighted", pa.array([1.5] * t.num_rows)))
    assert failed(release) == [WORK + "the same in every format", WORK + "cells alone"]


def test_a_data_flow_of_another_table_is_found(release: Path) -> None:
    path = release / "sdmx/work.csv"
    path.write_text(path.read_text().replace("CONFIDE:WORK(1.0)", "CONFIDE:WORK_SAID(1.0)"))
    rehash(release)
    assert failed(release) == [WORK + "columns and labels"]


def test_a_text_that_is_no_number_is_found(release: Path) -> None:
    path = release / "tables/work.csv"
    path.write_text(path.read_text().rstrip("\n") + "x\n")
    rehash(release)
    assert WORK + "columns and labels" in failed(release)


def test_one_cell_with_two_figures_is_found_where_it_is_met_again(release: Path) -> None:
    """A change so small that the sums allow it: the tables after the first disagree with it."""
    forge(release, place_age=shifted(1, **{"quarter": "_T", "sex": "men", "age:broad": "_T"}))
    assert failed(release) == [name + ": the same members, the same noise" for name in ("work", "work-said")]


def test_weighted_figures_of_one_cell_must_agree_too(release: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        weighted = [*table.column("weighted").to_pylist()]
        weighted[0] += 6
        return table.set_column(2, table.schema.field("weighted"), pa.array(weighted))

    forge(release, adults=lambda t: change(t.select(["quarter", "age:adults", "weighted"])).append_column(
        "count", t.column("count")
    ).select(t.column_names))  # fmt: skip
    assert failed(release) == ["adults: the same members, the same noise"]


def test_a_total_may_be_as_far_from_its_parts_as_the_noise_of_all_and_no_further(release: Path) -> None:
    """Three cells with D = 5 each: 15 is possible, 16 is not. The total is the same in all tables."""

    def total_of(table: pa.Table, by: int) -> pa.Table:
        men_and_women = count_of(work, sex="men", work="_T") + count_of(work, sex="women", work="_T")
        return with_count(table, 0, men_and_women + by)

    work = read_labelled(release / "tables/work.parquet")
    names = ["place_age", "work", "work_said", "adults"]
    # Parts by other variables have noise of their own: only the sums over sex are looked at here.
    for by in (15, -15):
        forge(release, **dict.fromkeys(names, lambda table, by=by: total_of(table, by)))
        assert WORK + "noise within its bound" not in failed(release)
    for by in (16, -16):
        forge(release, **dict.fromkeys(names, lambda table, by=by: total_of(table, by)))
        assert WORK + "noise within its bound" in failed(release)


def test_a_count_that_js_rules_out_is_found(copy: Callable[[str], Path]) -> None:
    release = copy("js")
    forge(release, adults=lambda t: with_count(t, t.num_rows - 1, 2))
    assert "adults: counts that may be published" in failed(release)
    other = copy("threshold")
    forge(other, adults=lambda t: with_count(t, t.num_rows - 1, 299))
    assert "adults: counts that may be published" in failed(other)


def test_a_margin_that_was_not_asked_for_is_found(copy: Callable[[str], Path]) -> None:
    release = copy("inner")
    total = pa.table({"sex": ["_T"], "work": ["_T"], "count": [2000]})
    forge(release, work=lambda t: pa.concat_tables([total.cast(t.schema), t]))
    assert failed(release) == [WORK + "columns and labels"]


def test_no_table_at_all_is_found(release: Path) -> None:
    for path in release.rglob("*"):
        if path.is_file() and path.name not in ("statement.html", "manifest.json"):
            path.unlink()
    for place in ("tables", "cells", "sdmx"):
        (release / place).rmdir()
    restated(release, lambda manifest: manifest.update(
        files=[file for file in manifest["files"] if file["path"] == "statement.html"]
    ))  # fmt: skip
    assert "every table in every format" in failed(release)


def test_a_promise_that_nobody_made_is_found(release: Path) -> None:
    restated(release, lambda manifest: manifest["privacy"].update(loss={"rho": "0"}))
    assert failed(release)[:2] == ["no promise of differential privacy", "what is promised follows from the plan"]


def replanned(manifest: dict[str, Any], **facts: Any) -> None:
    manifest["plan"]["question"].update(facts)
    manifest["plan_hash"] = read_plan(manifest["plan"]).hash


def test_recodes_that_leave_people_out_do_not_add_up(release: Path) -> None:
    """The plan says which they are; if it did not, the sums would be found wrong."""
    restated(release, lambda manifest: replanned(manifest, partial=["work:said"]))
    assert failed(release)[-1] == "adults: noise within its bound"


def test_a_smaller_bound_than_the_noise_had_is_found(release: Path) -> None:
    def smaller(manifest: dict[str, Any]) -> None:
        replanned(manifest, ptable=manifest["plan"]["question"]["ptable"] | {"D": "0"})

    restated(release, smaller)
    assert {name for name in failed(release) if name.endswith("noise within its bound")} >= {
        "work: noise within its bound",
        "place-age: noise within its bound",
    }


def test_a_plan_without_its_tables_does_not_describe_the_release(release: Path) -> None:
    def gone(manifest: dict[str, Any]) -> None:
        del manifest["plan"]["question"]["tables"]
        manifest["plan_hash"] = read_plan(manifest["plan"]).hash

    restated(release, gone)
    assert failed(release) == ["manifest.json"]
