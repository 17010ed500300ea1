"""The evaluation of TopDown releases: against sums done anew from the files, over keys, and as a page."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.kits.topdown_evaluation import KEYS, lay_out, numbers, release, row, square, write_squares
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app
from confide.errors import InputError, ParameterError, ReleaseError, RunError
from confide.mechanisms.topdown import made_up
from confide.mechanisms.topdown.released_problem import released_plan
from confide.mechanisms.topdown.strategy import groups_of
from confide.releases.dossier import BANNER
from confide.report import charts
from confide.report.charts import read_geometry

CODES = [f"{county:02}" for county in range(6)]


@pytest.fixture(scope="module")
def land(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("land"))


@pytest.fixture(scope="module")
def runs(land: Path) -> list[Path]:
    return [release(land, f"r{key}", key=key) for key in range(len(KEYS))]


@pytest.fixture(scope="module")
def each(runs: list[Path]) -> list[dict[str, Any]]:
    return [numbers(run) for run in runs]


@pytest.fixture(scope="module")
def found(each: list[dict[str, Any]]) -> dict[str, Any]:
    return each[0]


def counts(run: Path, area: str, condition: str = "true") -> tuple[np.ndarray, np.ndarray]:
    """True and released counts of all areas, by a join of the files with the block table."""
    land = run.parent
    released = next((run / "release" / "tables").glob("records.*parquet"))
    with duckdb.connect() as connection:
        rows = connection.execute(f"""
            WITH blocks AS (SELECT *, geocode[:2] AS county, 'all' AS land, geocode AS block
                            FROM read_parquet('{land}/blocks.parquet')),
            areas AS (SELECT DISTINCT {area} AS a FROM blocks WHERE {area} <> '-'),
            t AS (SELECT {area} AS a, count(*) AS t FROM read_parquet('{land}/persons.parquet') JOIN blocks
                  USING (geocode) WHERE {condition} GROUP BY 1),
            r AS (SELECT {area} AS a, count(*) AS r FROM read_parquet('{released}') JOIN blocks
                  USING (geocode) WHERE {condition} GROUP BY 1)
            SELECT coalesce(t, 0), coalesce(r, 0) FROM areas LEFT JOIN t USING (a) LEFT JOIN r USING (a) ORDER BY a
        """).fetchall()
    truth, out = np.array(rows).T
    return truth, out


@pytest.mark.parametrize("area", ["land", "county", "town", "block"])
@pytest.mark.parametrize(
    ("query", "cell", "condition"),
    [
        ("total", "total", "true"),
        ("work", "some", "work = 1"),
        ("tongue:two", "B or C", "tongue IN ('b', 'c')"),
    ],
)
def test_errors_are_those_of_the_files(
    runs: list[Path], found: dict[str, Any], area: str, query: str, cell: str, condition: str
) -> None:
    truth, released = counts(runs[0], area, condition)
    error = released - truth
    one = row(found, area, query, cell)
    assert one["areas"] == len(truth)
    assert one["zeros"] == (truth == 0).sum()
    assert one["mean_truth"] == pytest.approx(truth.mean())
    assert one["mean_error"] == pytest.approx(error.mean(), abs=1e-12)
    assert one["mean_absolute_error"] == pytest.approx(np.abs(error).mean())
    assert one["root_mean_squared_error"] == pytest.approx(np.sqrt((error**2).mean()))
    by_size = {part["true_size"]: part for part in one["by_true_size"]}
    for label, chosen in (("0", truth == 0), ("10 to 99", (truth >= 10) & (truth < 100))):
        if chosen.any():
            assert by_size[label]["areas"] == chosen.sum()
            assert by_size[label]["mean_error"] == pytest.approx(error[chosen].mean())
    total, _ = counts(runs[0], area)
    small = [part for part in one["by_population"] if part["population"] == "0 to 999"]
    assert sum(part["areas"] for part in small) == (total < 1_000).sum(), "classes are by the total of the area"


def test_who_is_alone_with_all_attributes_is_counted_by_hand(runs: list[Path], found: dict[str, Any]) -> None:
    cells = [f"work = {work} AND tongue = '{tongue}'" for work in (0, 1) for tongue in "abc"]
    pairs = [counts(runs[0], "block", condition) for condition in cells]
    truth, released = (np.stack(each) for each in zip(*pairs, strict=True))
    by_level = {each["level"]: each for each in found["risk_by_area"]["levels"]}
    assert list(by_level) == ["land", "county", "block"]
    listed = by_level["block"]["by_area"]
    for name, chosen in (
        ("lone", truth == 1),
        ("shown", (truth == 1) & (released == 1)),
        ("published_as_1", released == 1),
    ):
        assert [each[name] for each in listed] == chosen.sum(axis=0).tolist()
    assert 0 < by_level["block"]["shown"] < by_level["block"]["lone"]


def test_geographies_are_levels_and_areas_that_have_units(found: dict[str, Any]) -> None:
    assert found["geographies"] == [
        {"name": "land", "kind": "level", "units": 1},
        {"name": "county", "kind": "level", "units": 6},
        {"name": "town", "kind": "area", "units": 7},
        {"name": "block", "kind": "level", "units": 90},
    ]
    assert [(one["name"], one["title"]) for one in found["queries"]] == [
        ("total", "Total"),
        ("work", "Work"),
        ("tongue", "Mother tongue"),
        ("tongue:two", "Mother tongue (two)"),
        ("detailed", "Work by mother tongue"),
    ]
    assert found["noun"] == "records", "a schema of the user's own has no other word"


def test_empty_areas_count_and_what_is_invariant_is_exact(found: dict[str, Any]) -> None:
    assert row(found, "block", "total", "total")["zeros"] > 10
    assert row(found, "land", "total", "total")["mean_absolute_error"] == 0
    assert row(found, "land", "total", "total")["noise_alone"]["root_mean_squared_error"] == 0
    assert row(found, "county", "total", "total")["mean_absolute_error"] > 0


def test_all_cells_of_a_query_are_its_cells_together(found: dict[str, Any]) -> None:
    parts = [row(found, "county", "tongue", label) for label in "ABC"]
    whole = row(found, "county", "tongue")
    assert whole["areas"] == sum(part["areas"] for part in parts) == 18
    mean = sum(part["mean_absolute_error"] for part in parts) / 3
    assert whole["mean_absolute_error"] == pytest.approx(mean)
    squares = sum(part["noise_alone"]["root_mean_squared_error"] ** 2 for part in parts) / 3
    assert whole["noise_alone"]["root_mean_squared_error"] == pytest.approx(squares**0.5)


def test_own_measurements_have_the_noise_of_a_descent_that_learns_nothing_from_below(found: dict[str, Any]) -> None:
    """The total of the land is known, and each of six counties measures its own with the variance 1/(2 · 2/5 · 1/2):
    five sixths of that are left. Least squares on the whole tree know more."""
    county = row(found, "county", "total", "total")
    assert county["noise_of_estimator"]["root_mean_squared_error"] ** 2 == pytest.approx(2.5 * 5 / 6, rel=1e-6)
    assert county["noise_alone"]["root_mean_squared_error"] ** 2 < 2.5 * 5 / 6 * 0.99
    for one in found["accuracy"]:
        assert one["noise_of_estimator"]["mean_absolute_error"] >= one["noise_alone"]["mean_absolute_error"] * 0.999


def test_the_noise_alone_is_near_what_is_realised_where_counts_are_large(each: list[dict[str, Any]]) -> None:
    """Counties have hundreds of people, so nothing is cut off: 3 keys of 6 counties, 4 characteristics."""
    for query, cell in (("total", "total"), ("work", "some"), ("work", "none"), ("tongue", "A")):
        rows = [row(one, "county", query, cell) for one in each]
        realised = sum(r["root_mean_squared_error"] ** 2 for r in rows) / len(rows)
        ratio = realised / rows[0]["noise_alone"]["root_mean_squared_error"] ** 2
        assert 0.2 < ratio < 3


@pytest.fixture(scope="module")
def dense_covariance(runs: list[Path]) -> np.ndarray:
    """The covariance of all six cells of all ninety blocks, by one regression on everything that was measured."""
    opened = released_plan(runs[0])
    strategy, spine = opened.strategy, opened.spine
    blocks, information = len(spine.rows), np.zeros((len(spine.rows) * 6,) * 2)
    for level in spine.levels:
        for share in strategy.level(level.name).queries:
            groups = groups_of(strategy.schema, strategy.query(share.name))
            own = (groups[None, :] == np.arange(groups.max() + 1)[:, None]).astype(float)
            (law,) = opened.plan.laws(level.name, share.name)
            for unit in range(level.units):
                inside = np.zeros((1, blocks))
                inside[0, level.blocks(unit)] = 1
                rows = np.kron(inside, own)
                information += rows.T @ rows / law.variance()
    covariance = np.linalg.inv(information)
    known = covariance.sum(axis=1)
    result: np.ndarray = covariance - np.outer(known, known) / known.sum()
    return result


@pytest.mark.parametrize("area", ["county", "town", "block"])
@pytest.mark.parametrize(
    ("query", "cell", "cells"),
    [("total", "total", [0, 1, 2, 3, 4, 5]), ("work", "some", [3, 4, 5]), ("tongue:two", "B or C", [1, 2, 4, 5])],
)
def test_the_noise_alone_is_that_of_least_squares_with_everything(
    runs: list[Path],
    found: dict[str, Any],
    dense_covariance: np.ndarray,
    area: str,
    query: str,
    cell: str,
    cells: list[int],
) -> None:
    """Also in towns, which the spine does not follow, and with what blocks tell of counties."""
    spine = released_plan(runs[0]).spine
    of_block = spine.official_of_block(area)
    variances = []
    for unit in range(int(of_block.max()) + 1):
        chosen = np.kron(of_block == unit, np.isin(np.arange(6), cells)).astype(float)
        variances.append(chosen @ dense_covariance @ chosen)
    noise = row(found, area, query, cell)["noise_alone"]
    assert noise["root_mean_squared_error"] == pytest.approx(np.sqrt(np.mean(variances)), rel=1e-8)
    expected = np.sqrt(2 / np.pi) * np.mean(np.sqrt(variances))
    assert noise["mean_absolute_error"] == pytest.approx(expected, rel=1e-8)


def test_largest_groups_are_looked_at_for_each_attribute(runs: list[Path], found: dict[str, Any]) -> None:
    shares = {(r["query"], r["geography"], r["least_people"]): r for r in found["largest_group"]}
    assert {query for query, _, _ in shares} == {"work", "tongue"}
    truth = np.array([counts(runs[0], "county", f"tongue = '{code}'") for code in "abc"])
    (true, out), areas = (truth[:, 0], truth[:, 1]), np.arange(6)
    largest = out.argmax(axis=0)
    difference = out[largest, areas] / out.sum(axis=0) - true[largest, areas] / true.sum(axis=0)
    assert shares["tongue", "county", 0]["within"] == (np.abs(difference) <= 0.05).sum()
    assert shares["tongue", "county", 500]["areas_with_people"] == (true.sum(axis=0) >= 500).sum()


def test_without_noise_everything_is_exact(land: Path) -> None:
    exact = numbers(release(land, "endless", budget=10**12))
    for one in exact["accuracy"]:
        assert one["mean_absolute_error"] == 0
        assert set(one["error_quantiles"].values()) == {0}
        assert one["noise_alone"]["root_mean_squared_error"] < 1e-3
        assert one["after_non_negativity"]["root_mean_squared_error"] == 0
    assert all(r["share_within"] in (1, None) for r in exact["largest_group"])


def test_what_to_expect_after_non_negativity_is_near_what_is_realised(each: list[dict[str, Any]]) -> None:
    """One run on made-up people for each key: errors like the realised ones, and unlike the noise alone where
    most counts are zero. With fixed keys there is no chance in it."""
    for area, query, cell in (("block", "total", "total"), ("block", "tongue", "C"), ("town", "total", "total")):
        rows = [row(one, area, query, cell) for one in each]
        realised = np.mean([one["mean_absolute_error"] for one in rows])
        expected = np.mean([one["after_non_negativity"]["mean_absolute_error"] for one in rows])
        assert 0.75 <= expected / realised <= 1.25, (area, query)
    rare = row(each[0], "block", "tongue", "C")
    assert rare["after_non_negativity"]["mean_absolute_error"] < 0.7 * rare["noise_alone"]["mean_absolute_error"]
    assert row(each[0], "land", "total", "total")["after_non_negativity"]["root_mean_squared_error"] == 0
    assert each[0]["made_up"] == {
        "people": 4_000,
        "runs": 1,
        "who": "the people of the release, who exchanged their homes",
    }
    whole = row(each[0], "block", "tongue")["after_non_negativity"]
    parts = [row(each[0], "block", "tongue", cell)["after_non_negativity"] for cell in ("A", "B", "C")]
    assert whole["mean_absolute_error"] == pytest.approx(sum(part["mean_absolute_error"] for part in parts) / 3)


def test_what_to_expect_follows_from_the_release_and_from_no_truth(
    land: Path, runs: list[Path], each: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other true counts change the errors and not what was expected. A second evaluation takes the expectation from the
    dossier, unless that is of another release."""
    shutil.copytree(land, tmp_path / "copy")
    run = tmp_path / "copy" / "r0"
    truth = run / "confidential" / "counts" / "histogram.parquet"
    table = pq.read_table(truth)
    changed = table.set_column(table.column_names.index("n"), "n", pc.add(table.column("n"), 3))
    pq.write_table(changed.cast(table.schema), truth)
    (run / "dossier-confidential" / "made-up-errors.json").unlink()
    other = numbers(run)
    now, then = row(other, "block", "tongue"), row(each[0], "block", "tongue")
    assert now["mean_absolute_error"] != then["mean_absolute_error"]
    assert now["after_non_negativity"] == then["after_non_negativity"]
    monkeypatch.setattr(made_up, "release_of_people", None)
    assert row(numbers(run), "block", "tongue")["after_non_negativity"] == then["after_non_negativity"]
    wrong = runs[1] / "dossier-confidential" / "made-up-errors.json"
    shutil.copy(wrong, run / "dossier-confidential" / "made-up-errors.json")
    with pytest.raises(TypeError):
        numbers(run)


def test_a_release_in_csv_is_read_as_well(land: Path, found: dict[str, Any]) -> None:
    again = numbers(release(land, "csv", formats="csv"))
    assert row(again, "block", "total", "total")["areas"] == row(found, "block", "total", "total")["areas"]
    assert row(again, "land", "work")["mean_truth"] == row(found, "land", "work")["mean_truth"]


def test_several_runs_give_means_over_keys(runs: list[Path], each: list[dict[str, Any]]) -> None:
    single = [row(one, "block", "tongue", "B") for one in each]
    evaluated = api.evaluate(*runs, processes=1)
    combined = evaluated.accuracy.reveal("made-up people")
    assert combined["runs"] == ["r0", "r1", "r2"]
    one = row(combined, "block", "tongue", "B")
    values = [r["mean_absolute_error"] for r in single]
    assert one["mean_absolute_error"]["values"] == values
    assert one["mean_absolute_error"]["mean"] == pytest.approx(np.mean(values))
    half = 4.302652729749464 * np.std(values, ddof=1) / 3**0.5
    assert one["mean_absolute_error"]["high"] == pytest.approx(np.mean(values) + half)
    assert len({json.dumps(one) for one in single}) == 3, "three keys, three releases"
    assert one["areas"] == 90
    assert one["noise_alone"] == single[0]["noise_alone"]
    assert "3 releases with different keys" in evaluated.dossier.read_text()
    assert "<small>± " in evaluated.dossier.read_text()
    assert json.loads((runs[0] / "dossier-confidential" / "over-keys-confidential.json").read_text())["accuracy"]
    assert all((run / "dossier-confidential" / "dossier-confidential.html").exists() for run in runs)


def test_runs_that_are_not_alike_are_refused(land: Path, runs: list[Path]) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM read_parquet('{land}/persons.parquet') LIMIT 3999) TO '{land}/fewer.parquet'"
        )
    others = [
        release(land, "dearer", budget=3),
        release(land, "fewer", records="fewer.parquet"),
        runs[0],
    ]
    with pytest.raises(RunError) as caught:
        api.evaluate(runs[0], *others)
    assert [finding.code for finding in caught.value.findings] == ["other-plan", "other-records", "repeated-run"]
    assert [finding.where.file for finding in caught.value.findings] == [str(path) for path in others]


def test_a_run_without_its_truth_is_told(land: Path, runs: list[Path], tmp_path: Path) -> None:
    shutil.copytree(land, tmp_path / "copy")
    (tmp_path / "copy" / "r0" / "confidential" / "counts" / "histogram.parquet").unlink()
    with pytest.raises(RunError, match="true counts of this run are missing"):
        api.evaluate(tmp_path / "copy" / "r0")


def test_a_release_without_its_records_is_told(land: Path, runs: list[Path], tmp_path: Path) -> None:
    shutil.copytree(land, tmp_path / "copy")
    for file in (tmp_path / "copy" / "r0" / "release" / "tables").glob("records.*"):
        file.unlink()
    with pytest.raises(ReleaseError, match="has no records"):
        api.evaluate(tmp_path / "copy" / "r0")


def test_nothing_is_left_and_nothing_is_shown(runs: list[Path]) -> None:
    evaluated = api.evaluate(runs[0], processes=1)
    assert repr(evaluated.accuracy) == "<confidential>"
    assert "0." not in repr(evaluated)
    assert not (runs[0] / "confidential" / "scratch").exists()
    folder = evaluated.dossier.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert json.loads((folder / "accuracy-confidential.json").read_text())["warning"] == BANNER
    page = evaluated.dossier.read_text()
    assert page.count(BANNER) == 2, "on the screen, and on every printed page"
    assert "Small country, trial r0" in page
    assert page.count("<svg") == (6 if charts.available() else 0), (
        "two levels as tiles with them, and the risk of blocks"
    )


def test_without_the_extra_the_page_has_no_pictures(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "available", lambda: False)
    page = api.evaluate(runs[0], processes=1).dossier.read_text()
    assert "<svg" not in page
    assert "confide[plots]" in page
    assert "Does the largest group keep its share?" in page


@pytest.mark.skipif(not charts.available(), reason="the extra plots is not installed")
def test_a_geometry_gives_a_map(land: Path, runs: list[Path]) -> None:
    file = write_squares(land / "counties.geojson", [square(n, GEOID=code) for n, code in enumerate(CODES[:5])])
    page = api.evaluate(runs[0], geometry={"county": file}, processes=1).dossier.read_text()
    assert page.count("<svg") == 6, "and the other level as tiles, and its risk"
    assert "The error of the total by county, in per cent" in page
    assert "5 areas; 1 without geometry" in page


@pytest.mark.parametrize(
    "properties",
    [
        [{"GEOID": code} for code in CODES],
        [{"NAME": "a place", "GEO_ID": f"0500000US{code}"} for code in CODES],
        [{"GEOID": f"77{code}", "PART": int(code)} for code in CODES],
    ],
    ids=["whole", "after US", "at the end"],
)
def test_codes_are_found_in_whatever_property(tmp_path: Path, properties: list[dict[str, Any]]) -> None:
    file = write_squares(tmp_path / "g.geojson", [square(n, **values) for n, values in enumerate(properties)])
    geometry = read_geometry(file, "county", CODES)
    assert [outline.code for outline in geometry.outlines] == CODES
    assert geometry.missing == 0
    west = [min(point[0] for point in outline.polygons[0][0]) for outline in geometry.outlines]
    assert west == sorted(west)


def test_codes_that_no_property_has_are_told(tmp_path: Path) -> None:
    file = write_squares(tmp_path / "g.geojson", [square(0, NAME="Sealand", GEOID="9")])
    with pytest.raises(InputError) as caught:
        read_geometry(file, "county", CODES)
    (finding,) = caught.value.findings
    assert finding.code == "geometry-codes"
    assert finding.found == "properties GEOID, NAME"
    assert "'00'" in str(finding.expected)


@pytest.mark.parametrize(
    "content",
    ["not json", "{}", '{"features": [{"geometry": {"type": "Point", "coordinates": [1, 2]}}]}', '{"features": 3}'],
)
def test_what_is_no_geometry_is_told(tmp_path: Path, content: str) -> None:
    file = tmp_path / "g.geojson"
    file.write_text(content)
    with pytest.raises(InputError, match="cannot be read"):
        read_geometry(file, "county", CODES)
    with pytest.raises(InputError, match="cannot be read"):
        read_geometry(tmp_path / "nowhere.geojson", "county", CODES)


def test_a_geometry_of_an_unknown_level_is_refused(land: Path, runs: list[Path]) -> None:
    file = write_squares(land / "x.geojson", [square(0, GEOID="00")])
    with pytest.raises(ParameterError) as caught:
        api.evaluate(runs[0], geometry={"canton": file})
    assert caught.value.findings[0].expected == "one of land, county, town, block"


def test_the_command_takes_runs_and_geometry(land: Path, runs: list[Path]) -> None:
    file = write_squares(land / "c.geojson", [square(n, code=code) for n, code in enumerate(CODES)])
    words = ["evaluate", *map(str, runs[:2]), "--geometry", f"county={file}", "--json", "--processes", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["confidential"] is True
    assert said["runs"] == ["r0", "r1"]
    assert said["dossier"].endswith("over-keys-confidential.html")
    wrong = CliRunner().invoke(app, ["evaluate", str(runs[0]), "--geometry", "county"])
    assert wrong.exit_code == 2
