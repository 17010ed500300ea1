"""Dossiers of all mechanisms show areas: as a map where there is geometry, else as tiles."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import Project, lay_out
from tests.kits.cellkey_areas import people_in_blocks, write_areas

import confide
from confide import api
from confide.engines import LocalEngine
from confide.errors import Finding, ParameterError
from confide.releases.dossier import AreaSums, EvaluatedRun, Evaluating, only_run
from confide.releases.tabular import AreaNames
from confide.releases.workspace import Silent, Workspace
from confide.report.charts import AreaMeasure, area_maps, require_levels

NOTHING: Any = None
REFUSAL = Finding("one-run", "one run at a time", remedy="give one run")
RING = [[0, 0], [1, 0], [1, 1], [0, 0]]


def asked() -> Evaluating:
    return Evaluating(NOTHING, NOTHING, (), NOTHING, NOTHING)


def outlines(file: Path, codes: list[str]) -> Path:
    shapes = [
        {"type": "Feature", "properties": {"id": code}, "geometry": {"type": "Polygon", "coordinates": [RING]}}
        for code in codes
    ]
    file.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}), encoding="utf-8")
    return file


def shown_numbers(page: str, level: str) -> dict[str, float | None]:
    """What the table below a picture says."""
    part = page.partition(f"<summary>The same as a table: {level}</summary>")[2].partition("</details>")[0]
    rows = re.findall(r'<td class="name">(.*?)</td><td class="n">(.*?)</td>', part)
    return {name: None if value == "–" else float(value.replace(",", "")) for name, value in rows}


def areas_of(project: Project, level: str) -> list[str]:
    files = sorted((project.release / "tables").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist() if row.get("level") == level]
    return sorted({row["area"] for row in rows})


@pytest.fixture
def sealed(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    project = lay_out(request.param, tmp_path / request.param)
    project.run()
    return project


@pytest.mark.parametrize("sealed", ["tables"], indirect=True)
def test_an_area_has_the_mean_error_of_its_figures_by_hand(sealed: Project, tmp_path: Path) -> None:
    file = outlines(tmp_path / "state.geojson", ["90", "91"])
    page = confide.evaluate(sealed.spec, geometry={"state": file}, processes=1).dossier.read_text(encoding="utf-8")
    shown = shown_numbers(page, "county")
    assert set(shown) == set(areas_of(sealed, "county"))
    assert "by county (areas as tiles" in page
    assert "by state (2 areas)" in page
    noise: dict[str, list[Any]] = {"county": [], "state": []}
    loaded = api.load(sealed.spec)
    _, parts = api.run_residuals(loaded, Workspace(loaded.folder), LocalEngine, Silent())
    for part in parts:
        if part.level in noise:
            noise[part.level].append(part.noise)
    for level, found in noise.items():
        means = np.abs(np.concatenate(found, axis=1)).mean(axis=1)
        assert list(shown_numbers(page, level).values()) == pytest.approx(means.tolist(), abs=0.006)


@pytest.mark.parametrize(
    ("sealed", "level", "what"),
    [
        pytest.param("swapping", "county", "Mean absolute error of the figures, in persons", marks=pytest.mark.slow),
        ("suppression", "county", "Share of the figures that is left out, in per cent"),
        ("safetab", "COUNTY", "Mean absolute error of the published totals of groups, in persons"),
    ],
    indirect=["sealed"],
)
def test_every_mechanism_draws_its_areas(sealed: Project, level: str, what: str, tmp_path: Path) -> None:
    tiles = confide.evaluate(sealed.spec, processes=1).dossier.read_text(encoding="utf-8")
    assert f"{what}, by {level} (areas as tiles" in tiles
    shown = shown_numbers(tiles, level)
    assert any(shown.values())
    file = outlines(tmp_path / "some.geojson", list(shown))
    page = confide.evaluate(sealed.spec, geometry={level: file}, processes=1).dossier.read_text(encoding="utf-8")
    assert f"{what}, by {level} ({len(shown)} areas)" in page
    assert shown_numbers(page, level) == shown
    with pytest.raises(ParameterError) as caught:
        confide.evaluate(sealed.spec, geometry={"nowhere": file}, processes=1)
    assert caught.value.findings[0].code == "geometry-level"


def test_the_error_of_cell_keys_in_an_area_is_counted_again_by_hand(tmp_path: Path) -> None:
    records = people_in_blocks()
    spec = write_areas(tmp_path, records, tables=(("by-sex", ["sex"], ["region"]),))
    release = confide.run(spec, processes=1).release
    page = confide.evaluate(spec, processes=1).dossier.read_text(encoding="utf-8")
    (file,) = (release / "tables").glob("by-sex*.parquet")
    people = [(row["block"][0], str(row["sex"])) for row in records.to_pylist()]
    off: dict[str, list[int]] = {}
    for row in pq.read_table(file).to_pylist():
        true = sum(area == row["area"] and row["sex"] in ("_T", sex) for area, sex in people)
        off.setdefault(row["area"], []).append(abs(row["count"] - true))
    assert shown_numbers(page, "region") == {area: round(sum(each) / len(each), 2) for area, each in off.items()}
    assert any(sum(each) for each in off.values())


@pytest.mark.parametrize("sealed", ["suppression"], indirect=True)
def test_the_share_that_is_left_out_is_that_of_the_published_rows(sealed: Project) -> None:
    page = confide.evaluate(sealed.spec, processes=1).dossier.read_text(encoding="utf-8")
    rows = [row for file in (sealed.release / "tables").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    for code, share in shown_numbers(page, "state").items():
        own = [row["status"] == "suppressed" for row in rows if (row.get("level"), row.get("area")) == ("state", code)]
        assert share == pytest.approx(100 * sum(own) / len(own), abs=0.006)


def test_sums_are_means_over_figures_and_none_without_any() -> None:
    sums = AreaSums()
    codes = ["a", "b", "c"]
    sums.add("town", codes, np.array([0, 1, 1, 0]), np.array([1, 4, 5, 3]))
    assert sums.measure("error", None).levels == {"town": {"a": 2.0, "b": 4.5, "c": None}}
    sums.add("town", codes, np.array([1]), np.array([9.0]), 4)
    measure = sums.measure("error", AreaNames({"town": (codes, ["A", "B", "C"])}))
    assert measure.levels == {"town": {"a": 0.67, "b": 3.0, "c": 0.0}}
    (drawn,) = area_maps(measure, {})
    assert drawn["rows"] == [("A", 0.67), ("B", 3.0), ("C", 0.0)]


def test_levels_with_one_area_or_too_many_to_read_have_no_tiles() -> None:
    many = {str(number): 1.0 for number in range(401)}
    measure = AreaMeasure("error", {"country": {"0": 1.0}, "block": many, "empty": {"a": None, "b": None}}, {})
    assert area_maps(measure, {}) == []


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(ParameterError, match="no geography 'tract'"):
        require_levels({"tract": Path("a.geojson")}, ["state", "county"])


def test_several_runs_are_refused_where_one_is_taken() -> None:
    runs = tuple(EvaluatedRun(name, name, NOTHING) for name in ("one", "two"))
    with pytest.raises(ParameterError) as caught:
        only_run(replace(asked(), runs=runs), REFUSAL)
    (run,) = caught.value.findings
    assert (run.code, run.where.path, run.found, run.expected) == ("one-run", "RUN", "2 runs", "one run")
    assert only_run(replace(asked(), runs=runs[:1]), REFUSAL) is runs[0]
