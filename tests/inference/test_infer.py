"""Estimates with margins: against sums of covariances, between sources, by a rule that looks at no figure."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from tests.kits import commands
from tests.kits.crossed_topdown import CrossedProject
from tests.kits.dense_noise import dense_within
from tests.kits.inferred import measured_release, true_counts
from tests.kits.public_files import DHC, write_public
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError
from confide.estimation.tree_gls import PlacedAreas, SpineUnits, TreeAnswers
from confide.geography import AreaSet
from confide.inference import Area, InferenceSource, infer, open_source
from confide.inference.area_statements import ClassErrors, choose
from confide.inference.asked import read_areas, read_totals
from confide.inference.inferring import MOST_EYES
from confide.inference.pooled_errors import QUANTILES, SIZES, size_names
from confide.inference.writing import write_inference
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.measurements.folder import UnitsOfLevel, parents_of
from confide.mechanisms.topdown.output.accuracy import expected_absolute_error


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured_release(tmp_path_factory.mktemp("inferred"))


@pytest.fixture(scope="module")
def source(run: Path) -> InferenceSource:
    return open_source(run)


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    made = write_public(folder / "US_Person_PL_PROD")
    lines = "".join(f"{code},{total}\n" for code, total in made.totals().items())
    (folder / "totals.csv").write_text("code,total\n" + lines)
    return folder


def scattered(source: InferenceSource, areas: int = 4) -> AreaSet:
    """Areas that the spine does not follow."""
    return AreaSet.partition("district", [f"D{n}" for n in range(areas)], np.arange(len(source.block_codes)) % areas)


# --- least squares ---


@pytest.mark.parametrize("query", ["total", "votingage*hispanic", "hhgq:residence", "cenrace", "hhinstlevels*cenrace"])
def test_variances_and_estimates_are_those_of_sums_over_cells(source: InferenceSource, query: str) -> None:
    asked = source.vocabulary.query(query)
    for kind in (scattered(source), *(one for one in source.geographies if one.kind in ("tract", "place"))):
        placed = source.placed(kind)
        areas = np.arange(kind.areas)
        variance = source.answers.variances(placed, areas, asked.groups)
        figures = source.answers.figures(placed, areas, asked.groups)
        shape = [variable.size for variable in asked.variables]
        for area in range(0, kind.areas, 2):
            blocks = source.tree_block[kind.block[kind.area == area]]
            blocks = blocks[blocks >= 0]
            for cell in {0, asked.cells // 2, asked.cells - 1}:
                index = np.unravel_index(cell, shape) if shape else ()
                levels = {
                    variable.axis: (variable.groups == int(place)).astype(float)
                    for variable, place in zip(asked.variables, index, strict=True)
                }
                v = source.answers.covariance([blocks], [levels])[0, 0] if len(blocks) else 0.0
                x = source.answers.counted(blocks, [levels])[0] if len(blocks) else 0.0
                assert variance[area, cell] == pytest.approx(max(v, 0.0), rel=1e-8, abs=1e-8)
                assert figures[area, cell] == pytest.approx(x, rel=1e-8, abs=1e-6)


def test_a_recode_of_a_free_axis_has_the_variance_of_its_sum(source: InferenceSource) -> None:
    """Two races together: their covariance counts."""
    tract = next(kind for kind in source.geographies if kind.kind == "tract")
    area = Area.from_blocks(source.block_codes[tract.block[tract.area == 0]].tolist())
    one, other = (source.estimate(area, f"cenrace={code}") for code in (1, 2))
    both = source.estimate(area, "cenrace=1|2")
    covariance = source.covariance((area, "cenrace=1"), (area, "cenrace=2"))
    assert both.value == pytest.approx(one.value + other.value)
    assert both.sd**2 == pytest.approx(one.sd**2 + other.sd**2 + 2 * covariance)


def test_parent_and_child_go_together(source: InferenceSource) -> None:
    """What is left of a parent has the variance of the difference, covariance and all."""
    tract = next(kind for kind in source.geographies if kind.kind == "tract")
    codes = source.block_codes[tract.block[tract.area == 1]].tolist()
    parent, child, rest = (
        Area.from_blocks(part) for part in (codes, codes[::3], [c for c in codes if c not in codes[::3]])
    )
    together = source.covariance((parent, "total"), (child, "total"))
    p, c, r = (source.estimate(area, "total") for area in (parent, child, rest))
    assert together > 0
    assert r.sd**2 == pytest.approx(p.sd**2 + c.sd**2 - 2 * together, rel=1e-6)
    assert r.value == pytest.approx(p.value - c.value, abs=1e-6)


def test_what_is_published_as_it_is_is_exact(source: InferenceSource, run: Path) -> None:
    (row,) = source.infer("total", geography="state", level=0.95).to_pylist()
    assert (row["method"], row["sd"], row["low"]) == ("exact", 0.0, row["high"])
    assert row["low"] == true_counts(source, run).sum() == row["released"]


def test_intervals_hold_the_truth_about_as_often_as_they_say(source: InferenceSource, run: Path) -> None:
    """The false alarm rate is far below one in a million: 2,000 cells of blocks, of which 90 % must be held ± 6 sd."""
    kind = next(kind for kind in source.geographies if kind.kind == "block")
    answer = infer(source, ["votingage*hispanic"], ["block"], method="gls")
    rows = answer.table("block")
    asked = source.vocabulary.query("votingage*hispanic")
    truth = kind.members(len(source.block_codes)) @ true_counts(source, run) @ asked.matrix(source.vocabulary.shape)
    held = (rows["low"].to_numpy() <= truth.toarray().ravel()) & (truth.toarray().ravel() <= rows["high"].to_numpy())
    noisy = np.array(rows["method"].to_pylist()) == "gls"
    spread = np.sqrt(0.9 * 0.1 / noisy.sum())
    assert abs(held[noisy].mean() - 0.9) < max(6 * spread, 0.06)


def test_a_release_and_its_bare_measurements_say_the_same(source: InferenceSource, tmp_path: Path) -> None:
    shutil.copytree(source.folder / "measurements", tmp_path / "bare")
    bare = open_source(tmp_path / "bare")
    for kind in ("county", "tract", "block"):
        one, other = (each.infer("votingage*hispanic", geography=kind) for each in (source, bare))
        ours = {(r["code"], r["votingage"], r["hispanic"]): (r["gls"], r["gls_sd"]) for r in one.to_pylist()}
        for row in other.to_pylist():
            gls, sd = ours[row["code"], row["votingage"], row["hispanic"]]
            assert row["gls"] == pytest.approx(gls, abs=1e-7)
            assert row["gls_sd"] == pytest.approx(sd, abs=1e-7)


def test_shares_and_medians_of_an_area(source: InferenceSource) -> None:
    county = next(kind for kind in source.geographies if kind.kind == "county")
    area = Area.from_blocks(source.block_codes[county.block[county.area == 0]].tolist())
    share = source.share(area, "votingage=1", "total")
    assert share.bounded
    assert 0 < share.low < share.value < share.high < 1
    assert source.share(area, "total", "total").value == pytest.approx(1)
    assert source.median(area, "votingage") == ("18 and over", "18 and over")
    assert source.cells(area).shape == source.vocabulary.shape


def test_shares_of_all_areas_are_those_of_each(source: InferenceSource) -> None:
    """All areas of a kind at once, on the spine and off it, against each by its blocks."""
    asked = ["hispanic=1/total", "cenrace=0|White and Asian*votingage=1/hispanic=0"]
    tracts = next(kind for kind in source.geographies if kind.kind == "tract")
    last = tracts.areas - 1  # in an order that is not that of the units
    backwards = AreaSet("backwards", tracts.codes[::-1], tracts.block, last - tracts.area)
    answer = infer(source, ["total"], areas=[backwards, scattered(source)], shares=asked, levels=[0.8])
    for kind in answer.kinds:
        rows = list(answer.share_rows(kind))
        assert len(rows) == 2 * kind.areas
        for row in rows:
            area = Area.from_blocks(source.block_codes[kind.block[kind.area == kind.codes.index(row["code"])]].tolist())
            one = source.share(area, row["part"], row["base"], 0.8)
            assert (row["share"], row["low"], row["high"]) == pytest.approx((one.value, one.low, one.high), abs=1e-9)
            assert row["bounded"] == one.bounded


def test_variances_of_many_kinds_are_made_when_they_are_asked_for(
    source: InferenceSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of all kinds of a level are kept if they are few; otherwise the kinds of the units that are asked for."""
    query = source.vocabulary.query("votingage*hispanic")
    for kind in ("tract", "block"):
        placed = source.placed(next(each for each in source.geographies if each.kind == kind))
        there = np.flatnonzero(placed.pieces > 0)[1::3]
        kept = TreeAnswers(source.covariances, None).variances(placed, there, query.groups)
        with monkeypatch.context() as patched:
            patched.setattr("confide.estimation.tree_gls.MOST_KEPT", 0)
            made = TreeAnswers(source.covariances, None)
            assert made.variances(placed, there, query.groups) == pytest.approx(kept, rel=1e-12)
            assert not made._kinds


# --- areas on the spine ---


def test_pieces_are_the_fewest_units_that_make_up_an_area(source: InferenceSource) -> None:
    units, singles = SpineUnits(source.covariances.parents), set()
    for kind in (
        scattered(source, 3),
        *(one for one in source.geographies if one.kind in ("place", "block_group", "county", "block")),
    ):
        placed = PlacedAreas.on(kind, source.tree_block, units)
        for area in range(kind.areas):
            left = set(placed.block[placed.area == area].tolist())
            pieces, single = 0, -1
            whole = set(left)
            for level, of_block in enumerate(units.of_block):
                for unit in range(len(units.sizes[level])):
                    inside = set(np.flatnonzero(of_block == unit).tolist())
                    if inside == whole and single < 0:
                        single = level
                    if inside <= left:
                        left -= inside
                        pieces += 1
            assert (placed.pieces[area], placed.level[area]) == (pieces, single)
            singles.add(single)
    assert len(singles) > 2


# --- the rule ---


def errors(rmse: float) -> ClassErrors:
    reach = np.outer(np.full(len(SIZES), rmse), [1.6, 2, 2.6])
    return ClassErrors(np.full(len(SIZES), rmse), np.zeros(len(SIZES)), reach, reach.copy())


def methods(query: str = "cenrace", **changes: Any) -> list[str]:
    values: dict[str, Any] = {"method": "auto", "followed": False, "gls_sd": 2.0, "estimated": True}
    values |= {"errors": errors(3.0), "otherwise": "release+amc"} | changes
    return [choice.method for choice in choose("tract", query, **values).choices]


def test_the_rule_goes_by_classes_alone() -> None:
    gls, records = "gls", "release+amc"
    assert methods() == [records, records, records, gls, gls, gls]  # 20 is the least figure above three deviations
    assert methods(gls_sd=1.6) == [records, records, gls, gls, gls, gls]
    assert methods(errors=errors(1.0)) == [records] * 6
    assert methods("total", followed=True, errors=errors(1.0)) == [gls] * 6
    assert methods("total") == methods()
    assert methods(errors=None) == [gls] * 6
    assert methods(estimated=False) == [records] * 6
    assert methods(method="gls", errors=errors(1.0)) == [gls] * 6
    assert methods(method="release", gls_sd=0.1) == [records] * 6


def test_the_rule_never_looks_at_a_margin_of_a_cell(source: InferenceSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells whose records show the same class have one method, whatever least squares says of each."""
    answer = infer(source, ["hispanic*cenrace"], ["tract"])
    kind = answer.kinds[0]
    monkeypatch.setattr(type(answer), "_errors", lambda *_: errors(2.5))
    rows = answer.table(kind.kind).to_pylist()
    by_class: dict[int, set[str]] = {}
    for row in rows:
        if row["method"] != "exact":
            by_class.setdefault(int(np.searchsorted([1, 5, 20, 100, 1000], row["released"], "right")), set()).add(
                row["method"]
            )
    assert all(len(found) == 1 for found in by_class.values())
    assert {"gls", "release+plan"} == set().union(*by_class.values())
    for row in rows:
        assert None not in (row["gls"], row["gls_sd"], row["released"], row["amc_rmse"])


def test_intervals_of_records_come_from_their_class() -> None:
    table = errors(10.0)
    table.above[0] = [0, 0, 1]
    ends = table.intervals(np.array([0, 3, 50]), 0.9)
    assert ends.low.tolist() == [0, 0, 34]
    assert ends.high.tolist() == [0, 19, 66]
    assert table.intervals(np.array([0]), 0.97).high.tolist() == [1]  # the next level that is tabulated
    assert table.intervals(np.array([50]), 0.999).high[0] > table.intervals(np.array([50]), 0.99).high[0]
    assert list(QUANTILES) == [0.9, 0.95, 0.99]
    row = {"mse_shown": 4.0, "bias": 0.5, "factor": 1.2, "size": size_names()[3]}
    row |= {f"{side}_{round(100 * q)}": end for q in QUANTILES for side, end in (("below", 4), ("above", 2))}
    learnt = ClassErrors.of([row])
    assert learnt is not None
    assert learnt.rmse[-1] == 2.4  # a class that no replicate shows has what the class below has
    ends = learnt.intervals(np.array([50]), 0.9)
    assert (ends.low[0], ends.high[0]) == (46, 52)  # the factor is in these margins already


def test_small_counts_that_are_shown_catch_the_eye(source: InferenceSource) -> None:
    answer = infer(source, ["hispanic*cenrace"], ["block"], method="gls")
    rows = answer.table("block").to_pylist()
    marked = [row for row in rows if row["catches_the_eye"]]
    assert marked
    assert all(row["method"] == "gls" and 0 < row["released"] < 3 * row["gls_sd"] for row in marked)
    assert any("often noise" in warning for warning in answer.warnings)
    exact = infer(source, ["total"], ["state"])
    exact.table("state")
    assert not any("often noise" in warning for warning in exact.warnings)


def test_figures_that_catch_the_eye_are_counted_whole_and_named_in_a_line(source: InferenceSource) -> None:
    answer = infer(source, ["hispanic*cenrace", "cenrace", "hispanic", "votingage*cenrace"], method="gls")
    marked = {}
    for kind in answer.kinds:
        next(answer.batches(kind), None)
        assert not kind.areas or not any(name == kind.kind for name, _ in answer.eyes)  # a part tells nothing
        rows = answer.table(kind.kind).to_pylist()
        for query in answer.queries:
            marked[kind.kind, query.name] = sum(r["catches_the_eye"] for r in rows if r["query"] == query.name)
        next(answer.batches(kind), None)
    assert answer.eyes == marked
    (said,) = (warning for warning in answer.warnings if "often noise" in warning)
    most = sorted(marked.values(), reverse=True)
    assert most[MOST_EYES] > 0
    assert f"{most[0]:,} of " in said
    assert said.count(" of '") == MOST_EYES
    assert f"{sum(most[MOST_EYES:]):,} elsewhere" in said


def test_at_once_is_wider(source: InferenceSource) -> None:
    one, all_ = (source.infer("votingage*hispanic", geography="tract", at_once=at) for at in (False, True))
    width = [np.asarray(rows["high"]) - np.asarray(rows["low"]) for rows in (one, all_)]
    assert (width[1] >= width[0]).all()
    assert width[1].sum() > width[0].sum()


# --- without measurements ---


def test_a_release_without_measurements_has_its_records_and_the_noise_of_its_plan(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "release", tmp_path / "release", ignore=shutil.ignore_patterns("measurements"))
    opened = open_source(tmp_path / "release")
    assert opened.tree is None
    query = next(name for name in opened.default_queries if name != "total")
    answer = infer(opened, ["total", query])
    rows = [row for kind in answer.kinds for row in answer.table(kind.kind).to_pylist()]
    assert {row["method"] for row in rows} <= {"exact", "release+plan"}
    assert all(row["gls"] is None and row["low"] <= row["released"] <= row["high"] for row in rows)
    assert any("replicate" in warning for warning in answer.warnings)
    with pytest.raises(ConfideError, match="no noisy measurements"):
        infer(opened, ["total"], method="gls")
    with pytest.raises(ConfideError, match="no noisy measurements"):
        opened.estimate(Area.from_blocks(opened.block_codes[:1].tolist()), "total")


LEVELS = (0.5, 0.68, 0.9, 0.95, 0.99)


def test_margins_of_records_by_the_noise_of_the_plan_are_those_of_their_level(run: Path, tmp_path: Path) -> None:
    """So many deviations to both sides as the normal law has at the level, and no end below zero."""
    shutil.copytree(run / "release", tmp_path / "release", ignore=shutil.ignore_patterns("measurements"))
    answer = infer(open_source(tmp_path / "release"), ["total", "votingage"], ["tract", "block"], levels=LEVELS)
    looked_at = set()
    for row in (row for kind in answer.kinds for row in answer.table(kind.kind).to_pylist()):
        if row["method"] == "exact":
            continue
        half = norm.ppf((1 + row["level"]) / 2) * row["amc_rmse"]
        assert row["high"] == np.ceil(row["released"] + half)
        assert row["low"] == max(0, np.floor(row["released"] - half))
        looked_at.add(row["level"])
    assert looked_at == set(LEVELS)


def test_margins_of_least_squares_are_those_of_their_level(source: InferenceSource) -> None:
    """Far from zero an interval has as many deviations as the normal law has at the level, but for whole numbers."""
    rows = infer(source, ["total", "votingage"], ["tract"], levels=LEVELS, method="gls").table("tract").to_pylist()
    looked_at = set()
    for row in rows:
        if row["method"] == "gls" and row["estimate"] > 6 * row["sd"]:
            half = norm.ppf((1 + row["level"]) / 2) * row["sd"]
            assert row["high"] == pytest.approx(row["estimate"] + half, abs=1)
            assert row["low"] == pytest.approx(row["estimate"] - half, abs=1)
            looked_at.add(row["level"])
    assert looked_at == set(LEVELS)


def test_the_noise_of_records_in_sectors_is_that_of_all_cells(source: InferenceSource) -> None:
    assert source.released is not None
    problem = source.released.problem
    noise = TopDownNoise(problem)
    for query in ("total", "votingage"):
        asked = source.vocabulary.query(query)
        sets = asked.matrix(source.vocabulary.shape).T.toarray() > 0
        for place, (level, _) in enumerate(problem.levels()):
            v = dense_within(problem, level, sets, total_known=place == 0)
            np.testing.assert_allclose(noise.within(asked.groups)[place], v, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("size", "sd"), [(0.0, 3.0), (2.0, 3.0), (5.0, 3.0), (50.0, 3.0)])
def test_expected_errors_are_those_of_a_figure_that_is_not_below_zero(size: float, sd: float) -> None:
    def weighted(error: float) -> float:
        return abs(max(0.0, size + error) - size) * float(norm.pdf(error, scale=sd))

    value, _ = quad(weighted, -40, 40, points=[-size, 0.0], limit=200)
    assert float(expected_absolute_error(size, sd)) == pytest.approx(value, rel=1e-6)
    assert float(expected_absolute_error(size, 0.0)) == 0.0


# --- public files ---


def changed(folder: Path, level: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Rewrites the rows of DPQuery of a level."""
    for file in (folder / "US_Person_PL_PROD" / f"{level}.parquet" / "DPQuery").rglob("*.parquet"):
        table = pq.read_table(file, partitioning=None)
        rows = [row for row in map(change, table.to_pylist()) if row is not None]
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)


def test_a_wrong_variance_is_named_by_the_fit(public: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(public, folder)
    good = infer(open_source(public, totals=public / "totals.csv"), ["total"], ["county"])
    assert not any(fit.suspicious for fit in good.fits)
    changed(
        folder,
        "Block",
        lambda row: row | ({"variance": row["variance"] / 9} if row["query_name"] == "detailed_dpq" else {}),
    )
    answer = infer(open_source(folder, totals=folder / "totals.csv"), ["total"], ["county"])
    worst = [row for row in answer.fit_rows() if row["suspicious"]]
    assert ("block", "detailed") in {(row["level"], row["query"]) for row in worst}
    assert any("'detailed' on the level 'block' do not fit" in warning for warning in answer.warnings)


def variances(folder: Path, level: str) -> dict[str, float]:
    """The variance of each query on a level."""
    files = (folder / "US_Person_PL_PROD" / f"{level}.parquet" / "DPQuery").rglob("*.parquet")
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    return {row["query_name"]: row["variance"] for row in rows}


@pytest.mark.parametrize("error", ["swapped shares", "the level above"])
def test_shares_and_levels_that_are_mistaken_are_named_by_the_fit(public: Path, tmp_path: Path, error: str) -> None:
    """On blocks, whose cells are many: the variances of two queries exchanged, or those of the level above."""
    folder = tmp_path / "copy"
    shutil.copytree(public, folder)
    own, above = variances(public, "Block"), variances(public, "Block_Group")
    furthest = max(own, key=lambda name: abs(np.log(own[name] / own["detailed_dpq"])))
    wrong = (
        above if error == "the level above" else own | {"detailed_dpq": own[furthest], furthest: own["detailed_dpq"]}
    )
    assert abs(np.log(wrong["detailed_dpq"] / own["detailed_dpq"])) > 0.1  # otherwise there is nothing to see
    changed(folder, "Block", lambda row: row | {"variance": wrong[row["query_name"]]})
    answer = infer(open_source(folder, totals=folder / "totals.csv"), ["total"], ["county"])
    named = {(row["level"], row["query"]) for row in answer.fit_rows() if row["suspicious"]}
    assert ("block", "detailed") in named
    assert {level for level, _ in named} == {"block"}


BAD: dict[str, Callable[[Path], None]] = {
    "a missing level": lambda f: shutil.rmtree(f / "US_Person_PL_PROD" / "Tract.parquet"),
    "no measurements at all": lambda f: shutil.rmtree(f / "US_Person_PL_PROD"),
    "another shape": lambda f: changed(f, "State", lambda row: row | {"query_shape": [1, 1, 1, 1, 1]}),
    "no variance": lambda f: changed(f, "State", lambda row: row | {"variance": float("nan")}),
    "a variance of zero": lambda f: changed(f, "State", lambda row: row | {"variance": 0.0}),
    "a negative variance": lambda f: changed(f, "State", lambda row: row | {"variance": -1.0}),
    "fewer values": lambda f: changed(f, "State", lambda row: row | {"value": row["value"][:-1]}),
    "a missing value": lambda f: changed(f, "State", lambda row: row | {"value": [None, *row["value"][1:]]}),
    "an unknown word": lambda f: changed(f, "State", lambda row: row | {"cenrace": "colour"}),
    "an unknown unit": lambda f: changed(f, "Block", lambda row: row | {"geocode": "9" * 31}),
    "a query that is missing in some units": lambda f: changed(
        f, "Block", lambda row: None if row["query_name"] == "cenrace_dpq" and row["geocode"].endswith("1") else row
    ),
    "a truncated file": lambda f: _truncate(f),
    "a query twice": lambda f: _twice(f),
    "another file in its place": lambda f: _text(f),
    "totals of another state": lambda f: _totals(f, "code,total\n99,5\n"),
    "totals that are no numbers": lambda f: _totals(f, "code,total\n44,many\n"),
    "totals without a line": lambda f: _totals(f, "code,total\n"),
    "a total twice": lambda f: _totals(f, "code,total\n44,5\n44,6\n"),
    "no totals": lambda f: (f / "totals.csv").unlink(),
    "ids of another width": lambda f: changed(f, "Tract", lambda row: row | {"geocode": row["geocode"][:-1]}),
    "variances in lists": lambda f: _column(f, "variance", lambda value: [value]),
    "yes and no for variances": lambda f: _column(f, "variance", bool),
    "one value for each row": lambda f: _column(f, "value", len),
    "values as text": lambda f: _column(f, "value", str),
    "a shape that is a number": lambda f: _column(f, "query_shape", len),
    "geocodes that are numbers": lambda f: _column(f, "geocode", int),
    "a row without a name": lambda f: changed(f, "State", lambda row: row | {"query_name": None}),
    "no noisy counts": lambda f: [shutil.rmtree(folder) for folder in (f / "US_Person_PL_PROD").glob("*/DPQuery")],
    "a total below zero": lambda f: _nation(f, -5),
    "a nation of others than its States": lambda f: _nation(f, 1_500),
    "some States of a nation": lambda f: [_without(f, "050"), _totals(f, "code,total\n044,1\n")],
    "States that their counties are not in": lambda f: _without(f, "050", "State"),
    "totals with a unit in common": lambda f: _totals(f, "code,total\n44,360\n044,300\n"),
    "totals above that of the nation": lambda f: _totals(f, "code,total\n44,36000\n"),
}


def _first(folder: Path) -> Path:
    return next((folder / "US_Person_PL_PROD" / "Block.parquet" / "DPQuery").rglob("*.parquet"))


def _truncate(folder: Path) -> None:
    file = _first(folder)
    file.write_bytes(file.read_bytes()[:-40])


def _twice(folder: Path) -> None:
    file = _first(folder)
    shutil.copy(file, file.with_name("part-00001.snappy.parquet"))


def _text(folder: Path) -> None:
    _first(folder).write_text("not a table")


def _column(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """The measurements of the States, with another type in one column."""
    for file in (folder / "US_Person_PL_PROD" / "State.parquet" / "DPQuery").rglob("*.parquet"):
        table = pq.read_table(file, partitioning=None)
        values = pa.array([change(value) for value in table.column(name).to_pylist()])
        pq.write_table(table.set_column(table.schema.get_field_index(name), name, values), file)


def _nation(folder: Path, total: int) -> None:
    (file,) = (folder / "US_Person_PL_PROD" / "US.parquet" / "Constraint").rglob("*.parquet")
    table = pq.read_table(file, partitioning=None)
    rows = [row | ({"value": [total]} if row["query_name"] == "total_con" else {}) for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)
    _totals(folder, "code,total\n044,1\n")


def _without(folder: Path, state: str, level: str = "*") -> None:
    for files in (folder / "US_Person_PL_PROD").glob(f"{level}.parquet/*/State={state}"):
        shutil.rmtree(files)
    _totals(folder, "code,total\n44,360\n")


def _totals(folder: Path, text: str) -> None:
    (folder / "totals.csv").write_text(text)


@pytest.mark.parametrize("name", BAD)
def test_bad_inputs_are_findings(public: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "bad"
    shutil.copytree(public, folder)
    BAD[name](folder)
    with pytest.raises(ConfideError) as caught:
        infer(open_source(folder, totals=folder / "totals.csv"), ["total"], ["county"])
    for finding in caught.value.findings:
        assert finding.what
        assert finding.found
        assert finding.remedy
        assert finding.where.file or finding.where.path


def test_counties_lie_in_the_only_state_that_is_there() -> None:
    state = UnitsOfLevel("state", np.array(["050"]), np.ones(1, bool), None)
    own = np.array(["050100011", "050100031"])
    assert parents_of(state, UnitsOfLevel("county", own, np.ones(2, bool), None)).tolist() == [0, 0]
    others = UnitsOfLevel("county", np.array(["044100011", *own]), np.ones(3, bool), None)
    with pytest.raises(ConfideError, match="1 units have no parent"):
        parents_of(state, others)
    # Ids next to a root with another code do not begin with it.
    root = UnitsOfLevel("state", np.array(["90"]), np.ones(1, bool), np.array(["90"]))
    assert parents_of(root, UnitsOfLevel("county", np.array(["090001"]), np.ones(1, bool), None)).tolist() == [0]


def test_states_without_their_nation_are_estimated_from_their_own_files(public: Path, tmp_path: Path) -> None:
    """Files come by State, and a State may be in two parts. What is known of one does not depend on the others."""
    both, one = tmp_path / "both", tmp_path / "one"
    for folder in (both, one):
        shutil.copytree(public, folder)
        shutil.rmtree(folder / "US_Person_PL_PROD" / "US.parquet")
    _without(one, "050")
    answers = [infer(open_source(f, totals=f / "totals.csv"), ["votingage"], ["state", "county"]) for f in (both, one)]
    assert not any(fit.suspicious for answer in answers for fit in answer.fits)
    for kind in ("state", "county"):
        listed = [{(r["code"], r["votingage"]): r for r in answer.table(kind).to_pylist()} for answer in answers]
        assert {code for code, _ in listed[1]} < {code for code, _ in listed[0]}
        for key, row in listed[1].items():
            assert row["gls"] == pytest.approx(listed[0][key]["gls"], abs=1e-9)
            assert row["gls_sd"] == pytest.approx(listed[0][key]["gls_sd"], abs=1e-9)
    total = infer(open_source(one, totals=one / "totals.csv"), ["total"], ["state"]).table("state").to_pylist()
    assert [(row["code"], row["estimate"], row["method"]) for row in total] == [("44", 360.0, "exact")]


def test_states_without_a_known_total_are_named(public: Path) -> None:
    for totals, named in (({}, "2 of 2 States (44, 50)"), ({"44": 360}, None)):  # that of the nation tells the other
        warnings = infer(open_source(public, totals=totals), ["total"], ["state"]).warnings
        assert any(named in warning for warning in warnings) if named else not any("not known" in w for w in warnings)


def test_totals_need_no_header(public: Path, tmp_path: Path) -> None:
    text = (public / "totals.csv").read_text()
    (tmp_path / "bare.csv").write_text(text.partition("\n")[2])
    (tmp_path / "excel.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert read_totals(tmp_path / "bare.csv") == read_totals(tmp_path / "excel.csv")
    assert read_totals(tmp_path / "bare.csv") == read_totals(public / "totals.csv")


@pytest.mark.parametrize(
    "options",
    [
        ["--query", "colour"],
        ["--query", "hhgq*hhinstlevels"],
        ["--geography", "parish"],
        ["--share", "hispanic=1"],
        ["--share", "hispanic=7/total"],
        ["--level", "1.5"],
        ["--method", "release"],
        ["--format", "xlsx", "--out", "somewhere"],
        ["--difference", "44001", "99999", "--geography", "county"],
        ["--replicates", "nowhere"],
        ["--areas", "nowhere.csv"],
        ["--geometry", "county=nowhere.json", "--geography", "county", "--plots", "somewhere"],
    ],
)
def test_what_cannot_be_asked_is_a_finding(
    public: Path, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["infer", str(public), "--totals", str(public / "totals.csv"), *options]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, ConfideError | SystemExit)
    assert not isinstance(result.exception, SystemExit) or result.exit_code == 2


# --- the commands as they are typed, and their files ---


def test_the_commands_as_written(run: Path, public: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    arguments = ["infer", str(run), "--geography", "place", "--query", "total", "--level", "0.9", "--json"]
    result = runner.invoke(app, arguments, catch_exceptions=False)
    values = json.loads(result.stdout)
    assert values["ok"]
    assert {row["geography"] for row in values["estimates"]} == {"place"}
    assert {row["level"] for row in values["fit"]} >= {"state", "county", "tract", "block_group", "block"}
    assert "census itself" in values["not_covered"]

    opened = open_source(run)
    lines = "".join(f"{code},D{n % 2},{'X' if n % 5 else ''}\n" for n, code in enumerate(opened.block_codes.tolist()))
    (tmp_path / "districts.csv").write_text("block,district,zone\n" + lines)
    arguments = ["infer", str(run), "--areas", str(tmp_path / "districts.csv"), "--query", "hispanic*cenrace"]
    arguments += ["--out", str(tmp_path / "out"), "--format", "parquet", "--format", "sdmx", "--format", "csv"]
    arguments += ["--share", "hispanic=1/total"]
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    rows = pq.read_table(tmp_path / "out" / "estimates" / "district.parquet")
    assert rows.num_rows == 2 * 126
    assert pq.read_table(tmp_path / "out" / "estimates" / "zone.parquet").num_rows == 126
    stated = json.loads((tmp_path / "out" / "inference.json").read_text())
    assert stated["rows"] == {"district": 252, "zone": 126}
    assert stated["measurements"] == opened.tree.folder.fingerprint()  # type: ignore[union-attr]
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "catches_the_eye" in readme
    assert "census itself" in readme
    with (tmp_path / "out" / "estimates" / "district.sdmx.csv").open() as file:
        first = next(csv.DictReader(file))
    assert {"OBS_VALUE", "STD_ERROR", "CI_LOWER", "CI_UPPER", "CONF_LEVEL", "METHOD"} <= first.keys()
    assert float(first["OBS_VALUE"]) == pytest.approx(rows["estimate"][0].as_py())

    arguments = ["infer", str(public), "--totals", str(public / "totals.csv"), "--query", "votingage"]
    result = runner.invoke(app, [*arguments, "--geography", "county"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "How the measurements fit" in result.stdout
    assert "44000" in result.stdout


def test_the_terminal_shows_whole_codes_and_no_margin_that_misleads(
    source: InferenceSource, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["infer", str(run), "--geography", "tract", "--query", "hispanic*cenrace"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    rows = source.infer("hispanic*cenrace", geography="tract").to_pylist()
    lines = [line for line in shown.splitlines() if line.startswith(rows[0]["code"] + " ")]
    assert len(lines) == 40
    assert f"and {len(rows) - 40:,} more" in shown
    for line, row in zip(lines, rows, strict=False):
        assert f"{row['low']:,} to {row['high']:,}" in line
        uneven = abs((row["low"] + row["high"]) / 2 - row["estimate"]) > 1
        assert ("±" in line) == (not uneven)
    assert any(row["estimate"] < -1 for row in rows[:40])  # with an interval that it is not in


def test_differences_and_pictures(run: Path, tmp_path: Path) -> None:
    opened = open_source(run)
    county = next(kind for kind in opened.geographies if kind.kind == "county")
    one, other = county.codes[:2]
    arguments = ["infer", str(run), "--geography", "county", "--query", "total", "--difference", one, other, "--json"]
    values = json.loads(CliRunner().invoke(app, [*arguments, "--plots", str(tmp_path)], catch_exceptions=False).stdout)
    (row,) = values["difference"]
    areas = [Area.from_blocks(opened.block_codes[county.block[county.area == place]].tolist()) for place in (0, 1)]
    first, second = (opened.estimate(area, "total") for area in areas)
    assert row["difference"] == pytest.approx(first.value - second.value, abs=1e-6)
    # Both make up the State, whose total is known: what one has more the other has less.
    assert row["sd"] == pytest.approx(2 * first.sd, rel=1e-6)
    assert row["low"] <= row["difference"] <= row["high"]
    assert (tmp_path / "intervals-1.svg").read_text().startswith("<svg")


def test_a_folder_with_something_else_stays(source: InferenceSource, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    answer = infer(source, ["total"], ["county"])
    with pytest.raises(ConfideError, match="something else"):
        write_inference(answer, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    write_inference(answer, tmp_path / "new")
    write_inference(answer, tmp_path / "new")  # an earlier inference is replaced


def test_areas_files_that_cannot_be_are_findings(source: InferenceSource, tmp_path: Path) -> None:
    block, other = source.block_codes[:2].tolist()
    for number, (text, words) in enumerate(
        {
            f"block\n{block}\n": "no areas",
            f"block;area\n{block};A\n": "comma",
            "block,area\n000,A\n": "'000'",
            f"block,area\n{block},A\n{other},A\n{block},A\n": f"row 4: .*twice(.|\n)*{block}",
            f"block,area\n{block},\n": "no area",
            f"{block},A\n{other},A\n": "no header",
            f"block,area,area\n{block},A,B\n": "name each",
            f"block,area\n{block},A\n{other}\n": "as many values",
            "": "cannot be read",
        }.items()
    ):
        (tmp_path / f"{number}.csv").write_text(text)
        with pytest.raises(ConfideError, match=words):
            read_areas(tmp_path / f"{number}.csv", source.block_codes)
    with pytest.raises(ConfideError, match="no such file"):
        read_areas(tmp_path / "nowhere.csv", source.block_codes)
    (tmp_path / "excel.csv").write_text("block,area\n10010201001000,A\n10010201001001,A\n")
    with pytest.raises(ConfideError, match="leading zeros are lost"):
        read_areas(tmp_path / "excel.csv", np.array(["010010201001000", "010010201001001"]))


def test_a_changed_file_of_a_release_is_refused(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "release", tmp_path / "release")
    (file,) = (tmp_path / "release" / "tables").glob("units*.parquet")
    pq.write_table(pq.read_table(file), file, compression="gzip")
    with pytest.raises(ConfideError, match="manifest"):
        open_source(tmp_path / "release")


@pytest.mark.parametrize("mechanism", ["tables", "safetab"])
def test_releases_without_a_tree_say_where_their_margins_are(seal: Callable[[str], Path], mechanism: str) -> None:
    with pytest.raises(ConfideError) as refused:
        open_source(seal(mechanism))
    assert refused.value.findings[0].code == "no-tree"
    assert mechanism in refused.value.findings[0].found
    assert "open_release" in refused.value.findings[0].remedy


def test_the_verbs_are_in_the_library(run: Path) -> None:
    opened = confide.open_source(run)
    assert confide.infer(opened, ["total"], ["county"]).table("county").num_rows == 2


# --- with replicates ---


@pytest.fixture(scope="module")
def replicated(run: Path, tmp_path_factory: pytest.TempPathFactory) -> InferenceSource:
    folder = tmp_path_factory.mktemp("replicates") / "made"
    confide.replicate(run, folder, replicates=3, calibration=0, processes=1)
    return open_source(run, replicates=folder)


def test_other_areas_are_pooled_as_official_ones_are(replicated: InferenceSource) -> None:
    """Tracts under another name, and a query under another name, have the errors that were written for them."""
    tract = next(kind for kind in replicated.geographies if kind.kind == "tract")
    same = AreaSet("mine", tract.codes, tract.block, tract.area)
    answer = infer(replicated, ["hhgq:residence", "hhinstlevels", "total"], ["tract"], areas=[same])
    mine = next(kind for kind in answer.kinds if kind.kind == "mine")
    for query in ("hhgq:residence", "total"):
        asked = next(one for one in answer.queries if one.name == query)
        one, other = answer._errors(tract, asked), answer._errors(mine, asked)
        assert one is not None
        assert other is not None
        np.testing.assert_allclose(one.rmse, other.rmse)
        np.testing.assert_array_equal([one.below, one.above], [other.below, other.above])
    first, second = (answer._errors(tract, asked) for asked in answer.queries[:2])
    np.testing.assert_allclose(first.rmse, second.rmse)  # type: ignore[union-attr]


def test_with_replicates_records_have_their_margins(replicated: InferenceSource, tmp_path: Path) -> None:
    answer = infer(replicated, ["total", "hispanic*cenrace"], ["tract", "block"])
    rows = [row for kind in answer.kinds for row in answer.table(kind.kind).to_pylist()]
    assert {row["method"] for row in rows} == {"exact", "gls", "release+amc"}
    for row in rows:
        if row["method"] == "release+amc":
            assert row["estimate"] == row["released"]
            assert row["sd"] == row["amc_rmse"]
            assert row["low"] <= row["released"] <= row["high"]
        if row["method"] == "gls":
            assert (row["estimate"], row["sd"]) == (row["gls"], row["gls_sd"])
    # The rule gives margins of records to classes that catch the eye; a cell with more noise than others may be left.
    without = infer(replicated, ["total", "hispanic*cenrace"], ["tract", "block"], method="gls")
    marked = sum(row["catches_the_eye"] for kind in without.kinds for row in without.table(kind.kind).to_pylist())
    assert sum(row["catches_the_eye"] for row in rows) < marked / 20
    facts = write_inference(answer, tmp_path / "out")
    assert facts["replicates"] == 3
    assert {choice["method"] for choice in facts["rule"]} == {"gls", "release+amc"}


def test_replicates_of_another_release_are_refused(replicated: InferenceSource, public: Path, tmp_path: Path) -> None:
    assert replicated.replicates is not None
    with pytest.raises(ConfideError, match="replicates are of a release"):
        open_source(public, replicates=replicated.replicates.folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfideError, match="not one of replicates"):
        open_source(replicated.folder, replicates=tmp_path / "empty")


# --- tables, quantiles, ranks, covariances ---


def test_lines_of_a_table_are_what_they_count(source: InferenceSource, public: Path) -> None:
    answer = infer(source, ["total", "cenrace", "votingage*cenrace"], ["county", "place"], tables=["p1", "P3"])
    rows = {
        (row["geography"], row["code"], row["query"], row["votingage"], row["cenrace"]): row
        for kind in answer.kinds
        for row in answer.table(kind.kind).to_pylist()
    }
    assert len({key[2] for key in rows}) == 3 + 71 + 71
    for (kind, code, query, *_), row in rows.items():
        same = None
        if query == "P0010001":
            same = rows[kind, code, "total", "all", "all"]
            assert row["label"] == "Total"
        elif query == "P0010003":
            same = rows[kind, code, "cenrace", "all", row["cenrace"]]
            assert row["label"] == "White alone"
        elif query == "P0030004":
            same = rows[kind, code, "votingage*cenrace", row["votingage"], row["cenrace"]]
        if same is not None:
            assert row["gls"] == pytest.approx(same["gls"], abs=1e-6)
            assert row["gls_sd"] == pytest.approx(same["gls_sd"], abs=1e-9)
            assert (row["released"], row["low"], row["high"]) == (same["released"], same["low"], same["high"])
    bare = open_source(public, totals=public / "totals.csv")
    assert {"p1", "p2", "p3", "p4", "p5"} == set(bare.tables)
    (line,) = infer(bare, (), ["state"], tables=["p1"]).queries[:1]
    assert line.name == "P0010001"


def test_covariances_between_areas_are_those_of_the_two(source: InferenceSource, tmp_path: Path) -> None:
    answer = infer(source, ["votingage"], ["tract"])
    (kind,) = answer.kinds
    (query,) = answer.queries
    matrix = answer.statements(kind).covariances(query)
    areas = [Area.from_blocks(source.block_codes[kind.block[kind.area == i]].tolist()) for i in range(kind.areas)]
    for one, other in ((0, 0), (0, 1), (1, 2), (2, kind.areas - 1)):
        expected = source.covariance((areas[one], "votingage=1"), (areas[other], "votingage=1"))
        assert matrix[one, other, 1] == pytest.approx(expected, rel=1e-6, abs=1e-6)
    write_inference(answer, tmp_path / "out", covariances=True)
    rows = pq.read_table(tmp_path / "out" / "covariances" / "tract.parquet")
    assert rows.num_rows == kind.areas * (kind.areas + 1) // 2 * 2
    doubled = AreaSet("twice", ("a", "b"), np.array([0, 1, 1]), np.array([0, 0, 1]))
    with pytest.raises(ConfideError, match="overlap"):
        answer.statements(doubled).covariances(query)
    many = AreaSet("many", tuple(map(str, range(401))), np.zeros(0, np.int64), np.zeros(0, np.int64))
    with pytest.raises(ConfideError, match="too many areas"):
        answer.statements(many).covariances(query)
    with pytest.raises(ConfideError, match="overlap"):
        write_inference(infer(source, ["total"], (), areas=[doubled]), tmp_path / "other", covariances=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_ranks_and_quantiles_of_all_areas(source: InferenceSource, tmp_path: Path) -> None:
    answer = infer(source, ["total"], ["tract"], quantiles=["votingage", "cenrace=0.9"])
    (kind,) = answer.kinds
    rows = list(answer.rank_rows(kind))
    assert sorted(row["rank"] for row in rows) == list(range(1, kind.areas + 1))
    assert all(row["low"] <= row["rank"] <= row["high"] for row in rows)
    assert sum(row["has_the_most"] for row in rows) == pytest.approx(1)
    largest = max(rows, key=lambda row: row["estimate"])
    assert largest["has_the_most"] == max(row["has_the_most"] for row in rows)
    for row in answer.quantile_rows(kind):
        area = Area.from_blocks(source.block_codes[kind.block[kind.area == kind.codes.index(row["code"])]].tolist())
        assert (row["low"], row["high"]) == source.median(area, row["attribute"], row["quantile"])
    write_inference(answer, tmp_path / "out")
    assert len((tmp_path / "out" / "quantiles" / "tract.csv").read_text().splitlines()) == 1 + 2 * kind.areas


@pytest.mark.parametrize(
    "arguments",
    [
        ["--table", "p9"],
        ["--median", "cenrace*hispanic"],
        ["--quantile", "votingage=1.5"],
        ["--quantile", "votingage=x"],
        ["--median", "colour"],
        ["--covariances"],
        ["--geography", "block", "--difference", "1", "2"],
    ],
)
def test_what_cannot_be_said_is_a_finding(run: Path, arguments: list[str]) -> None:
    result = CliRunner().invoke(app, ["infer", str(run), "--query", "total", "--geography", "county", *arguments])
    assert isinstance(result.exception, ConfideError)
    assert all(finding.remedy for finding in result.exception.findings)


def test_tables_ranks_and_medians_are_shown(run: Path) -> None:
    arguments = ["infer", str(run), "--geography", "county", "--table", "p1", "--ranks", "--median", "votingage"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    for words in ("P0010003", "Ranks among", "Medians", "18 and over"):
        assert words in shown
    values = json.loads(CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False).stdout)
    assert values["quantiles"][0]["low"] == values["quantiles"][0]["high"] == "18 and over"
    assert {row["query"] for row in values["ranks"]} >= {"P0010001", "P0010071"}


# --- from the plan alone ---


def test_accuracy_follows_from_the_plan(run: Path, source: InferenceSource, tmp_path: Path) -> None:
    arguments = ["infer", str(run), "--accuracy", "--out", str(tmp_path), "--json"]
    values = json.loads(CliRunner().invoke(app, arguments, catch_exceptions=False).stdout)
    rows = values["accuracy"]
    assert values["accuracy"] == pq.read_table(tmp_path / "accuracy.parquet").to_pylist()
    assert "How far off may a figure be?" in (tmp_path / "accuracy.html").read_text()
    assert {row["size"] for row in rows} == set(size_names())
    assert source.released is not None
    noise = TopDownNoise(source.released.problem)
    tract = next(kind for kind in source.geographies if kind.kind == "tract")
    expected = np.sqrt(noise.variances({}, tract).mean())
    (row,) = (r for r in rows if (r["geography"], r["query"], r["size"]) == ("tract", "total", "1000+"))
    assert row["sd"] == pytest.approx(expected, rel=1e-3)  # written to four digits
    assert row["expected_error"] == pytest.approx(np.sqrt(2 / np.pi) * row["sd"], rel=0.02)
    (state,) = (r for r in rows if (r["geography"], r["query"], r["size"]) == ("state", "total", "1000+"))
    assert state["sd"] == 0  # published as it is


# --- histograms that are too large ---


def test_a_study_looks_at_coarser_groups(tmp_path: Path) -> None:
    made = write_public(tmp_path / "US_DHCP_PROD", DHC, noise=1e-4, by_county=True)
    with pytest.raises(ConfideError, match="too many cells"):
        open_source(tmp_path)
    (tmp_path / "study.toml").write_text('relgq = "relgq_4_groups"\nage = "*"\n')
    opened = open_source(tmp_path, totals=made.totals(), study=tmp_path / "study.toml")
    rows = opened.infer("relgq_4_groups", geography="spine:state").to_pylist()
    words = made.words.meaning("relgq", "relgq_4_groups")
    assert words is not None
    shape = (len(made.ids["State"]), *made.words.shape)
    axis = list(made.words.attributes).index("relgq")
    by_level = made.truth["State"].reshape(shape).sum(axis=tuple(1 + a for a in range(len(shape) - 1) if a != axis))
    expected = [int(unit[words == group].sum()) for unit in by_level for group in range(4)]
    assert [round(row["gls"]) for row in rows] == expected
    assert not any(row["method"] == "exact" and row["sd"] for row in rows)
    for bad in ("relgq = 3", 'colour = "*"', 'age = "relgq_4_groups"', "not toml"):
        (tmp_path / "bad.toml").write_text(bad)
        with pytest.raises(ConfideError):
            open_source(tmp_path, study=tmp_path / "bad.toml")


def test_a_spec_beside_a_release_is_refused(tmp_path: Path, seal: Callable[[str], Path]) -> None:
    for more in ((), ("--accuracy",)):
        assert commands.codes("infer", seal("topdown"), "--spec", tmp_path / "spec.toml", *more) == [
            "option-without-effect"
        ]


@pytest.mark.parametrize("evidence", ["own", "tree"])
@pytest.mark.parametrize("budget", ["3000", "1000000", "1000000000000000"])
def test_next_to_no_noise_gives_the_truth(evidence: str, budget: str, tmp_path: Path) -> None:
    """Variances from a ten-thousandth down to nothing that a number could hold: nothing divides by them."""
    project = CrossedProject(4, evidence, people=30, budget=budget)
    release = Path(confide.run(project.write(tmp_path / "a"), processes=1, insecure_key="ab" * 32).release)
    inferred = infer(open_source(release), ["total"])
    for kind in inferred.kinds:
        rows = inferred.table(kind.kind).to_pylist()
        assert rows
        for row in rows:
            code = "" if kind.kind == "country" else row["code"]
            true = sum(record["geocode"].startswith(code) for record in project.records)
            assert row["low"] <= true <= row["high"], row
            assert abs(row["estimate"] - true) < 0.1
