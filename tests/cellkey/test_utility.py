"""Deviations of tables by hand, and the evaluation of a release against its records."""

from __future__ import annotations

import json
import shutil
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.labelled import read_labelled
from typer.testing import CliRunner

from confide import api
from confide.cli.main import app
from confide.errors import ConfideError, ParameterError, ReleaseError, RunError
from confide.mechanisms.cellkey.evaluate import POINTS, compare_cells, deviation_quantiles, join_cells
from confide.mechanisms.cellkey.keys import draw_keys
from confide.noise import ReleaseKey
from confide.report import charts

SCHEMA = """
id = "few"
provenance = "made up"
[attributes.sex]
levels = [["m", "man"], ["f", "woman"]]
[attributes.region]
levels = [["R1", "north"], ["R2", "south"], ["R3", "nowhere"]]
"""
SPEC = """
[release]
name = "few"
mechanism = "cellkey"
[data]
records = "keyed.parquet"
schema = "few.toml"
[cellkey]
D = 2
V = "1"
[output]
formats = [FORMATS]
[[tables]]
name = "sex-region"
variables = ["sex", "region"]
[[tables]]
name = "region"
variables = ["region"]
"""


def made(folder: Path, formats: str = '"csv"') -> Path:
    """Fourteen made-up people: 1 man and 6 women in the north, 7 men in the south."""
    people = [("m", "R1")] + [("f", "R1")] * 6 + [("m", "R2")] * 7
    sex, region = zip(*people, strict=True)
    keys = draw_keys(len(people), 10**8, ReleaseKey.choose("0f" * 32))
    pq.write_table(pa.table({"sex": sex, "region": region, "record_key": keys}), folder / "keyed.parquet")
    (folder / "few.toml").write_text(SCHEMA)
    (folder / "spec.toml").write_text(SPEC.replace("FORMATS", formats))
    return folder / "spec.toml"


def test_spread_by_hand() -> None:
    found = deviation_quantiles(np.array([3.0, 1.0]), zeros=2)
    assert found is not None
    assert (found.cells, found.mean, found.median, found.largest) == (4, 1.0, 0.5, 3.0)
    # Places (n - 1) q of 0, 0, 1, 3: at 0.9 it is 2.7, at 0.95 2.85, at 0.99 2.97.
    assert found.deciles == pytest.approx((0, 0, 0, 0.2, 0.5, 0.8, 1.2, 1.8, 2.4))
    assert (found.p95, found.p99) == pytest.approx((2.7, 2.94))
    assert found.ecdf[0] == (0.0, 0.5)
    assert deviation_quantiles(np.zeros(0)) is None


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(0, 20))
def test_quantiles_are_those_of_all_cells(values: list[int], zeros: int) -> None:
    found = deviation_quantiles(np.array(values, float), zeros)
    whole = np.concatenate([np.zeros(zeros), values])
    assert found is not None
    assert found.deciles == pytest.approx(np.quantile(whole, [k / 10 for k in range(1, 10)]))
    assert (found.median, found.p95, found.p99) == pytest.approx(tuple(np.quantile(whole, [0.5, 0.95, 0.99])))
    assert found.mean == pytest.approx(whole.mean())
    assert [share for _, share in found.ecdf] == [float((whole <= point).mean()) for point in POINTS]


def test_measures_by_hand() -> None:
    """True 0, 0, 1, 4, 100; published 0, 1, 0, 9, 98."""
    told = compare_cells(np.array([0, 0, 1, 4, 100]), np.array([0, 1, 0, 9, 98])).as_dict()
    assert {name: told[name] for name in ("cells", "empty_cells", "false_zeros", "false_nonzeros", "unchanged")} == {
        "cells": 5,
        "empty_cells": 2,
        "false_zeros": 1,
        "false_nonzeros": 1,
        "unchanged": 0,
    }
    assert told["mean_error"] == pytest.approx((-1 + 5 - 2) / 3)
    without, everyone = told["without_empty"], told["with_empty"]
    assert without["AD"]["mean"] == pytest.approx(8 / 3)
    assert (without["AD"]["median"], without["AD"]["max"], everyone["AD"]["max"]) == (2, 5, 5)
    assert everyone["AD"]["mean"] == pytest.approx(9 / 5)
    assert without["RAD"]["mean"] == pytest.approx((1 + 1.25 + 0.02) / 3)
    # The false non-zero has no relative deviation: four cells are left, one of them without any.
    assert everyone["RAD"]["cells"] == 4
    assert everyone["RAD"]["mean"] == pytest.approx((0 + 1 + 1.25 + 0.02) / 4)
    assert without["DR"]["mean"] == pytest.approx((1 + 1 + (10 - sqrt(98))) / 3)
    # 2 of 100 is 0.02, which is at or below 0.02.
    assert [(point["at"], point["share"]) for point in without["RAD"]["ecdf"]][:3] == [
        (0.0, 0.0),
        (0.02, pytest.approx(1 / 3)),
        (0.05, pytest.approx(1 / 3)),
    ]
    assert {point["at"]: point["share"] for point in everyone["AD"]["ecdf"]} == {
        **dict.fromkeys(POINTS, 0.2),
        1.0: 0.6,
        2.0: 0.8,
        3.0: 0.8,
        4.0: 0.8,
        5.0: 1.0,
    }


def test_no_cells_and_several() -> None:
    nobody = compare_cells(np.zeros(3, np.int64), np.zeros(3, np.int64))
    told = nobody.as_dict()
    assert (told["cells"], told["mean_error"], told["without_empty"]["AD"]) == (3, None, None)
    assert told["with_empty"]["RAD"]["max"] == 0
    some = compare_cells(np.array([2, 0]), np.array([1, 0]))
    assert join_cells([nobody, some]).as_dict()["with_empty"]["AD"]["mean"] == pytest.approx(1 / 5)
    assert join_cells([]).cells == 0
    assert "2" not in repr(some)


@pytest.mark.parametrize("formats", ['"csv"', '"parquet"', '"sdmx-csv"'])
def test_evaluation_of_a_release(formats: str, tmp_path: Path) -> None:
    spec = made(tmp_path, formats)
    release = api.run(spec).release
    evaluated = api.evaluate(spec)
    told = evaluated.accuracy.reveal("a test of made-up people")
    true = {("_T", "_T"): 14, ("_T", "north"): 7, ("_T", "south"): 7, ("_T", "nowhere"): 0}
    inner = {("man", "_T"): 8, ("woman", "_T"): 6, ("man", "north"): 1, ("woman", "north"): 6, ("man", "south"): 7}
    inner |= {("man", "nowhere"): 0, ("woman", "south"): 0, ("woman", "nowhere"): 0}
    published = _published(release, formats.strip('"'))
    one, two = told["tables"]
    assert (one["name"], one["cells"], one["empty_cells"]) == ("sex-region", 12, 4)
    assert (two["name"], two["cells"], two["empty_cells"]) == ("region", 4, 1)
    errors = [abs(published.get(cell, 0) - count) for cell, count in (true | inner).items() if count]
    assert one["without_empty"]["AD"]["mean"] == pytest.approx(sum(errors) / 8)
    assert one["with_empty"]["AD"]["mean"] == pytest.approx(sum(errors) / 12)
    assert one["false_zeros"] == sum(published.get(cell, 0) == 0 for cell, count in (true | inner).items() if count)
    # The programme has each distinct cell once: "region" adds none to "sex-region".
    assert told["programme"]["cells"] == 12
    # D = 2, V = 1: count 1 has mean |v| 0.366486 + 0.167572 + 2 * 0.099457, larger ones 2 (0.244691 + 2 * 0.063827).
    expected = {1: 0.732972, 6: 0.744690}
    found = one["expected_mean_absolute_deviation"]
    assert found == pytest.approx((expected[1] + 7 * expected[6]) / 8, abs=2e-6)
    assert one["expected_false_zeros"] == pytest.approx(0.366486, abs=1e-6)
    assert [(row["true_size"], row["cells"]) for row in told["sizes"]] == [("1", 1), ("5 to 9", 6), ("10 to 19", 1)]
    page = evaluated.dossier.read_text()
    assert "CONFIDENTIAL" in page
    assert page.count("<svg") == (2 if charts.available() else 0)
    numbers = json.loads((evaluated.dossier.parent / "accuracy-confidential.json").read_text())
    assert numbers["tables"] == told["tables"]
    assert evaluated.dossier.parent.stat().st_mode & 0o077 == 0


def _published(release: Path, form: str) -> dict[tuple[str, str], int]:
    if form == "parquet":
        rows: list[dict[str, Any]] = read_labelled(release / "tables" / "sex-region.parquet").to_pylist()
        return {(row["sex"], row["region"]): row["count"] for row in rows}
    folder = "sdmx" if form == "sdmx-csv" else "tables"
    lines = (release / folder / "sex-region.csv").read_text().splitlines()[1:]
    values = [[value.strip('"') for value in line.split(",")] for line in lines]
    if form == "sdmx-csv":
        labels = [[value.split(": ")[1].replace("total", "_T") for value in line[-3:-1]] for line in values]
        return {(sex, region): int(line[-1]) for (sex, region), line in zip(labels, values, strict=True)}
    return {(line[-4], line[-2]): int(line[-1]) for line in values}


def test_evaluate_on_the_command_line(tmp_path: Path) -> None:
    spec = made(tmp_path)
    api.run(spec)
    shown = CliRunner().invoke(app, ["evaluate", str(spec)])
    assert shown.exit_code == 0
    assert "sex-region" in shown.output
    assert "by noise alone" in shown.output
    told = json.loads(CliRunner().invoke(app, ["evaluate", str(tmp_path / "few"), "--json"]).stdout)
    assert told["confidential"] is True
    assert told["accuracy"][0]["areas"] == 8


def test_what_cannot_be_evaluated(tmp_path: Path) -> None:
    spec = made(tmp_path)
    with pytest.raises(RunError):
        api.evaluate(spec)
    api.run(spec)
    with pytest.raises(ParameterError, match="no geography 'region'"):
        api.evaluate(spec, geometry={"region": "x.geojson"})
    shutil.copy(spec, tmp_path / "again.toml")
    text = spec.read_text().replace('name = "few"', 'name = "again"', 1)
    (tmp_path / "again.toml").write_text(text)
    api.run(tmp_path / "again.toml")
    with pytest.raises(ParameterError, match="the same release"):
        api.evaluate(spec, tmp_path / "again.toml")
    table = tmp_path / "few" / "release" / "tables" / "region.csv"
    table.write_text(table.read_text().replace("north", "elsewhere"))
    with pytest.raises(ReleaseError):
        api.evaluate(spec)
    rows = pq.read_table(tmp_path / "keyed.parquet")
    pq.write_table(rows.slice(0, 13), tmp_path / "keyed.parquet")
    with pytest.raises(ConfideError, match="not those of the release"):
        api.evaluate(spec)
