"""A release by the cell key method: the same noise for the same members, the same bytes, and nothing confidential."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.cellkey import (
    KEYS,
    TABLES,
    figures,
    noise_of,
    people,
    release_of,
    tree,
    true_cells,
    write_project,
)
from tests.kits.labelled import read_labelled
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError
from confide.mechanisms.cellkey import keyed_records
from confide.mechanisms.cellkey.programme import shuffled
from confide.mechanisms.cellkey.spec import CellKeyPart
from confide.noise.ptables import count_settings, generate

PTABLE = shuffled(generate(count_settings(5, "2")).table(KEYS), CellKeyPart())


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of the town as its records come."""
    return release_of(tmp_path_factory.mktemp("town"), data='weight = "weight"')


def again(folder: Path, records: pa.Table | None = None) -> Path:
    return release_of(folder, records, data='weight = "weight"')


# --- the same members, the same noise ------------------------------------------------------------------------------


def test_a_cell_has_one_figure_in_whatever_table_it_stands(release: Path) -> None:
    sexes = {
        "place-age": lambda label: ("_T", label, "_T"),
        "work": lambda label: (label, "_T"),
        "work-said": lambda label: (label, "_T"),
    }
    for label in ("men", "women", "_T"):
        found = {figures(release, name)[place(label)] for name, place in sexes.items()}
        assert len(found) == 1
    whole = figures(release, "adults")
    assert whole["_T", "_T"] == figures(release, "work")["_T", "_T"]
    assert whole["south", "_T"] == figures(release, "place-age")["south", "_T", "_T"]


def test_leaving_out_a_category_without_members_changes_nothing(release: Path) -> None:
    assert figures(release, "work") == figures(release, "work-said")


def test_a_filter_that_removes_nobody_changes_nothing_and_another_does(release: Path, tmp_path: Path) -> None:
    records = people()
    kept = records.filter(pa.compute.less(records.column("age"), 80))
    assert kept.num_rows == records.num_rows
    assert tree(again(tmp_path / "kept", kept)) == tree(release)
    fewer = again(tmp_path / "fewer", records.slice(1))
    assert figures(fewer, "place-age") != figures(release, "place-age")


def test_cells_that_lose_nobody_keep_their_figures_when_others_do(release: Path, tmp_path: Path) -> None:
    """Without the people of the west, every cell of north and south has the members it had."""
    records = people()
    fewer = again(tmp_path, records.filter(pa.compute.not_equal(records.column("quarter"), "W")))

    def elsewhere(cells: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
        return {cell: count for cell, count in cells.items() if cell[0] not in ("west", "_T")}

    assert elsewhere(figures(fewer, "place-age")) == elsewhere(figures(release, "place-age"))
    assert "west" not in {cell[0] for cell in figures(fewer, "place-age")}


def test_a_table_that_leaves_people_out_has_margins_with_everybody_also_by_itself(
    release: Path, tmp_path: Path
) -> None:
    alone = release_of(tmp_path, tables=(("adults", ["quarter", "age:adults"]),))
    assert figures(alone, "adults") == figures(release, "adults")
    cells = figures(alone, "adults")
    assert cells["_T", "_T"] > cells["_T", "18 to 39"] + cells["_T", "40 and over"] + 300


def test_figures_do_not_add_up_and_are_not_the_true_ones(release: Path) -> None:
    """Otherwise nothing above would say that there is noise."""
    cells = figures(release, "work")
    assert cells["men", "_T"] + cells["women", "_T"] != cells["_T", "_T"]
    true = {cell: found.count for cell, found in true_cells(people(), ["sex", "work"]).items()}
    assert sum(cells.get(cell, 0) != count for cell, count in true.items()) >= 6


# --- the same bytes ------------------------------------------------------------------------------------------------


def test_the_order_of_records_does_not_change_a_byte(release: Path, tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(people().num_rows)
    assert tree(again(tmp_path, people().take(order))) == tree(release)


@pytest.mark.parametrize("batch", [1, 333])
def test_the_size_of_batches_does_not_change_a_byte(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(keyed_records, "BATCH", batch)
    assert tree(again(tmp_path)) == tree(release)


@pytest.mark.process
def test_neither_does_another_run_with_other_processes_or_from_a_csv(release: Path, tmp_path: Path) -> None:
    spec = write_project(tmp_path / "processes", data='weight = "weight"')
    assert tree(confide.run(spec, processes=3, memory="500MB").release) == tree(release)
    spec = write_project(tmp_path / "csv", data='weight = "weight"')
    pyarrow.csv.write_csv(people(), spec.parent / "town.csv")
    spec.write_text(spec.read_text().replace("town.parquet", "town.csv"))
    assert tree(confide.run(spec, processes=1).release) == tree(release)


def test_run_again_it_was_sealed_before_and_other_records_are_another_run(tmp_path: Path) -> None:
    spec = write_project(tmp_path)
    before = tree(confide.run(spec, processes=1).release)
    result = confide.run(spec, processes=1)
    assert result.was_sealed_before
    assert tree(result.release) == before
    pq.write_table(people().slice(1), tmp_path / "town.parquet")
    with pytest.raises(ConfideError, match="not the ones this run started with"):
        confide.run(spec, processes=1)


KILL = """
import os, signal, sys
from confide import api
from confide.mechanisms.cellkey import mechanism as pipeline
from confide.releases.folder import ReleaseWriter

def nth(function, number, done=[]):
    def counted(*arguments, **named):
        done.append(None)
        if len(done) > number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)
    return counted

if sys.argv[2] == "perturbing":
    pipeline.perturb_cells = nth(pipeline.perturb_cells, 5)
else:
    ReleaseWriter.text = nth(ReleaseWriter.text, 2)
api.run(sys.argv[1], processes=1)
"""


@pytest.mark.process
@pytest.mark.slow  # tests/contract kills every mechanism at every stage
@pytest.mark.parametrize("moment", ["perturbing", "writing"])
def test_killed_and_run_again_it_is_the_same_release(release: Path, tmp_path: Path, moment: str) -> None:
    spec = write_project(tmp_path, data='weight = "weight"')
    assert subprocess.run([sys.executable, "-c", KILL, spec, moment], check=False).returncode == -9
    assert not (tmp_path / "town/release").exists()
    begun = list((tmp_path / "town/confidential").rglob("*.parquet"))
    assert begun
    assert all(path.stat().st_mode & 0o077 == 0 for path in begun)
    assert tree(confide.run(spec, processes=1).release) == tree(release)
    assert not (tmp_path / "town/release.partial").exists()


# --- nothing confidential ------------------------------------------------------------------------------------------


def test_no_true_count_key_or_noise_is_in_any_released_file(release: Path) -> None:
    """Record keys and cell keys are searched for as text in all texts and as numbers in all columns; true counts too,
    where noise has changed them."""
    records = people()
    cells = {name: true_cells(records, variables) for name, variables in TABLES}
    keys = set(records.column("record_key").to_pylist())
    keys |= {cell.key % KEYS for of_table in cells.values() for cell in of_table.values()}
    long = {str(key) for key in keys if key >= 10**5}
    assert len(long) > 1_900
    total = cells["work"]["_T", "_T"]
    assert noise_of(PTABLE, total)
    texts = [path for path in release.rglob("*") if path.is_file() and path.suffix != ".parquet"]
    assert len(texts) == 3 * len(TABLES) + 7, "tables, cells and SDMX; manifest, statement, and what explains them"
    for path in texts:
        numbers = set(re.findall(r"\d+", path.read_text()))
        assert not numbers & long
        assert str(total.count) not in numbers
    for name, variables in TABLES:
        table = read_labelled(release / f"tables/{name}.parquet")
        assert table.column_names == [*variables, "count", "weighted"]
        assert not set(table.column("count").to_pylist()) & {key for key in keys if key >= 10**5}
        for cell, published in figures(release, name).items():
            assert published == cells[name][cell].count + noise_of(PTABLE, cells[name][cell])
    assert sum(noise_of(PTABLE, cell) != 0 for cell in cells["place-age"].values()) > 20


def test_the_manifest_names_no_file_of_the_curator_and_no_column_of_keys(release: Path) -> None:
    text = (release / "manifest.json").read_text() + (release / "statement.html").read_text()
    assert not re.search(r"town\.parquet|record_key|/tmp|2d2d2d2d", text)
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["privacy"]["loss"] is None
    assert manifest["plan"]["loss"] is None
    assert manifest["plan"]["measures"] == []
    assert manifest["statistics"] == {}


def test_what_is_kept_in_the_run_has_no_true_counts_either(release: Path) -> None:
    """The confidential zone has published figures; the coded records are gone."""
    kept = list((release.parent / "confidential").rglob("*.parquet"))
    assert kept
    for path in kept:
        assert set(pq.read_schema(path).names) <= {"cell", "count", "weighted"}
        assert path.stat().st_mode & 0o077 == 0


# --- what a reader gets --------------------------------------------------------------------------------------------


def test_an_untouched_release_passes_every_check(release: Path) -> None:
    verification = confide.verify(release)
    assert verification.ok
    names = [check.name for check in verification.checks]
    assert "work: the same members, the same noise" in names
    assert "no promise of differential privacy" in names
    assert not [name for name in names if "cost" in name]


def test_rows_begin_with_the_total_and_unlisted_cells_are_zero(release: Path) -> None:
    table = read_labelled(release / "tables/work.parquet").to_pylist()
    assert {key: table[0][key] for key in ("sex", "work")} == {"sex": "_T", "work": "_T"}
    assert [row["work"] for row in table[1:4]] == ["works", "looks for work", "neither"]
    assert "nobody says this" not in {row["work"] for row in table}


def test_sdmx_csv_has_a_data_flow_dimensions_and_observations(release: Path) -> None:
    lines = (release / "sdmx/place-age.csv").read_text().splitlines()
    heads = [name.strip('"').split(": ")[0] for name in lines[0].split(",")]
    assert heads[2:] == ["ACTION", "QUARTER", "SEX", "AGE_BROAD", "OBS_VALUE", "WEIGHTED"]
    assert lines[1].startswith('"datastructure","CONFIDE:PLACE_AGE(1.0)","I","_T: total","_T: total","_T: total",')
    assert any('north, the ""old"" one"' in line for line in lines)


def test_the_statement_says_what_is_promised_and_what_is_not(release: Path) -> None:
    assert not (release / "certificate.html").exists()
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", (release / "statement.html").read_text()))
    for words in (
        "no privacy loss is certified",
        "The cell key method has no privacy budget: no differential privacy is promised.",
        "± 5",
        "between 1.302 and 2",
        "ε = 2.247 with δ = 0.0005486",
        "between 0 and 1, δ is 0.6111 whatever the ε",
        "They are not the privacy loss of a release",
        "confide risk averaging",
        "confide risk bound -D 5 -V 2",
        "confide verify release",
        "cells do not add up to the margins: age:adults, work:said.",
        "work:said (3)",
        "mean of zero, to within 1 · 10⁻⁸",
        "14 distinct cross-classifications",
        "mean weight beyond the rounding",
    ):
        assert words in page, words
    assert "counts from 1 to" not in page


def test_the_statement_of_a_table_with_js_and_a_threshold(tmp_path: Path) -> None:
    release = release_of(tmp_path, cellkey='D = 5\nV = "3"\njs = 2\nthreshold = 6', output="")
    page = (release / "statement.html").read_text()
    assert "No count from 1 to 2 is published." in page
    assert "published counts below 6 are left out" in page
    assert "Results below 6 are published as zero" in page
    assert "weighted" not in page
    assert confide.verify(release).ok
    assert min(min(figures(release, name).values()) for name, _ in TABLES) >= 6


def test_a_perturbation_table_from_a_file(tmp_path: Path) -> None:
    """Table of the Office for National Statistics: rows in turn, 256 keys, and a bias that is stated."""
    lines = ["pcv,ckey,pvalue"]
    for count in range(1, 751):
        lines += [f"{count},{key},{-count if count < 10 else 5 * round(count / 5) - count}" for key in range(256)]
    spec = write_project(tmp_path, people().set_column(4, "record_key", pa.array(np.arange(2_003) % 256)))
    (tmp_path / "ons.csv").write_text("\n".join(lines) + "\n")
    spec.write_text(spec.read_text().replace('D = 5\nV = "2"', 'ptable = "ons.csv"'))
    release = confide.run(spec, processes=1).release
    assert confide.verify(release).ok
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["plan"]["question"]["ptable"] | {"sha256": ""} == {
        "sha256": "", "D": "9", "V": None, "js": 9, "pstay": None, "keys": 256, "lookup": "ess",
    }  # fmt: skip
    assert manifest["privacy"]["single_count"] is None
    assert manifest["noise"]["bias"] == 9
    assert all(count % 5 == 0 for name, _ in TABLES for count in figures(release, name).values())
    assert "a mean of at most 9, up or down" in (release / "statement.html").read_text()


def test_check_and_run_say_that_no_budget_is_spent(tmp_path: Path) -> None:
    spec = write_project(tmp_path)
    shown = CliRunner().invoke(app, ["check", str(spec)])
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    assert "4 tables of 99 perturbed cells: 14 distinct cross-classifications with 89 cells" in text
    assert "No budget is spent, because no differential privacy is promised." in text
    assert "rho" not in text
    data = json.loads(CliRunner().invoke(app, ["check", str(spec), "--json"]).stdout)
    assert (data["ok"], data["cost"], data["plan"]["loss"]) == (True, None, None)
    shown = CliRunner().invoke(app, ["run", str(spec)])
    assert "No budget is spent" in " ".join(shown.stdout.split())
    data = json.loads(CliRunner().invoke(app, ["run", str(spec), "--json"]).stdout)
    assert (data["ok"], data["cost"], data["was_sealed_before"]) == (True, None, True)
