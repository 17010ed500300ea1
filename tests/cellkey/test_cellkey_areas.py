"""Cell keys by area: every area's cell has the sum of its own records' keys. Against sums taken record by record."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.cellkey import KEYS, forge, question_of, tree, with_count
from tests.kits.cellkey_areas import (
    AREA_TABLES,
    BLOCKS,
    looked_up,
    people_in_blocks,
    true_area_cells,
    write_areas,
)
from tests.kits.forged import failed
from tests.kits.labelled import read_labelled

import confide
from confide.errors import CONFIDENTIAL, ConfideError, SpecError
from confide.mechanisms.cellkey import keys
from confide.mechanisms.cellkey.cellkey_answers import table_on_request
from confide.mechanisms.cellkey.programme import shuffled
from confide.mechanisms.cellkey.spec import CellKeyPart
from confide.noise.ptables import count_settings, generate

PTABLE = shuffled(generate(count_settings(5, "2")).table(KEYS), CellKeyPart())


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = write_areas(tmp_path_factory.mktemp("areas"), data='weight = "weight"')
    confide.run(made, processes=1)
    return made


@pytest.fixture(scope="module")
def release(spec: Path) -> Path:
    return spec.parent / "town/release"


def published(release: Path, name: str) -> dict[tuple[str, ...], int]:
    table = read_labelled(release / f"tables/{name}.parquet").drop_columns(["weighted"])
    return {tuple(row.values())[:-1]: row["count"] for row in table.to_pylist()}


@pytest.mark.parametrize(("name", "variables", "levels"), AREA_TABLES[:3])
def test_every_area_has_the_noise_of_its_own_records(
    release: Path, name: str, variables: list[str], levels: list[str]
) -> None:
    records, expected = people_in_blocks(), {}
    for level in levels:
        for cell, (count, key) in true_area_cells(records, variables, level).items():
            if figure := looked_up(PTABLE, count, key):
                expected[cell] = figure
    assert published(release, name) == expected


def test_columns_stand_in_the_order_and_under_the_names_of_the_spec(release: Path) -> None:
    for name, variables, levels in AREA_TABLES:
        pairs = [column for name_ in variables for column in (name_, f"{name_}_label")]
        columns = [*(["level", "area"] if levels else []), "margin", *pairs, "count", "weighted"]
        assert pq.read_schema(release / f"tables/{name}.parquet").names == columns
    head = (release / "sdmx/sex-age.csv").read_text().splitlines()[0]
    assert [name.strip('"').split(": ")[0] for name in head.split(",")] == [
        *("STRUCTURE", "STRUCTURE_ID", "ACTION"),
        *("LEVEL", "AREA", "AGE_BROAD", "SEX", "OBS_VALUE", "WEIGHTED"),
    ]


def test_a_town_is_the_same_in_every_table_and_an_area_of_the_same_people_on_every_level(tmp_path: Path) -> None:
    """Two tables with their variables in another order; and a region that is one town alone."""
    records = people_in_blocks().filter(pa.compute.starts_with(people_in_blocks().column("block"), "A00"))
    spec = write_areas(tmp_path, records, formats='["parquet"]', data='weight = "weight"')
    release = confide.run(spec, processes=1).release
    both, other = published(release, "sex-age"), published(release, "age")
    towns = {(cell[1], cell[3], cell[2]): count for cell, count in both.items() if cell[0] == "town"}
    assert towns == {cell[1:]: count for cell, count in other.items()}
    by_level = {level: {cell[2:]: n for cell, n in both.items() if cell[0] == level} for level in ("region", "town")}
    assert by_level["region"] == by_level["town"]


def test_verify_reads_all_of_it_again(release: Path) -> None:
    answer = confide.verify(release)
    assert answer.ok
    names = [check.name for check in answer.checks]
    assert "age: the same members, the same noise" in names
    assert "work: areas of the frame" in names


def test_one_town_with_two_figures_is_found(release: Path, tmp_path: Path) -> None:
    """The total of the first town is one larger in the second table, whose variables stand in another order."""
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    forge(copy, age=lambda t: with_count(t, 0, t.column("count")[0].as_py() + 1))
    assert "age: the same members, the same noise" in failed(copy)


def test_a_figure_of_an_area_that_noise_cannot_explain_is_found(release: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(release, tmp_path / "copy"))
    forge(copy, work=lambda t: with_count(t, 0, t.column("count")[0].as_py() + 400))
    assert "work: noise within its bound" in failed(copy)


def test_sums_by_sorting_are_those_of_all_cells(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many cells for an array, and records come in many batches, nothing changes."""
    monkeypatch.setattr(keys, "DENSE", 0)
    monkeypatch.setattr("confide.mechanisms.cellkey.keyed_records.BATCH", 97)
    again = confide.run(write_areas(tmp_path, data='weight = "weight"'), processes=1).release
    assert tree(again) == tree(release)


def test_the_order_of_the_block_table_says_nothing(release: Path, tmp_path: Path) -> None:
    again = confide.run(write_areas(tmp_path, data='weight = "weight"', blocks=BLOCKS[::-1]), processes=1).release
    assert tree(again) == tree(release)


def test_areas_are_those_of_the_frame_and_never_of_the_records(tmp_path: Path) -> None:
    spec = write_areas(tmp_path, blocks=BLOCKS[:3])
    with pytest.raises(ConfideError) as error:
        confide.run(spec, processes=1)
    (finding,) = [each for each in error.value.findings if each.severity == "error"]
    assert (finding.where.column, finding.found) == ("block", CONFIDENTIAL)
    assert "does not list" in finding.what
    plan = confide.check(write_areas(tmp_path / "whole"), processes=1).plan
    assert plan is not None
    assert plan.question["levels"] == {"country": 1, "region": 2, "town": 8, "district": 2, "block": 16}


def test_a_table_on_request_has_the_figures_of_the_release(spec: Path, release: Path) -> None:
    from confide import api

    answer = table_on_request(api.load(spec), ["work", "sex"], levels=["region"], processes=1)
    found = {tuple(row.values())[:-2]: row["count"] for row in answer.rows.to_pylist()}
    assert found == {cell: n for cell, n in published(release, "work").items() if cell[0] == "region"}
    with pytest.raises(ConfideError, match="no level or area"):
        table_on_request(api.load(spec), ["sex"], levels=["street"], processes=1)


def test_released_areas_are_read_back_for_attacks(release: Path, spec: Path) -> None:
    from confide.lab.published.published_rows import ReadBack
    from confide.lab.published.tabular import read_cellkey
    from confide.releases.folder import SealedRelease

    found = read_cellkey(ReadBack(SealedRelease.of(release), spec.parent / "town.toml"))
    assert {"block", "town", "region"} <= set(found.geography.levels)
    assert any("left out" in note for note in found.notes)


def test_the_dossier_and_the_audit_know_areas(spec: Path) -> None:
    told = confide.evaluate(spec).accuracy.reveal("made-up people")
    by_name = {row["name"]: row for row in told["tables"]}
    assert by_name["sex-age"]["cells"] == (1 + 2 + 8 + 2) * 15
    assert by_name["sex-age"]["false_nonzeros"] == 0
    assert confide.audit_noise(spec).ok


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"country", "region"', '"country", "street"', "unknown-level"),
        ('"country", "region"', '"country", "country"', "repeated-level"),
        ('blocks = "blocks.csv"', "", "no-blocks"),
    ],
)
def test_a_geography_that_cannot_be(tmp_path: Path, old: str, new: str, code: str) -> None:
    spec = write_areas(tmp_path)
    spec.write_text(spec.read_text().replace(old, new, 1))
    with pytest.raises(SpecError) as error:
        question_of(spec, tmp_path / "scratch")
    assert code in {finding.code for finding in error.value.findings}
