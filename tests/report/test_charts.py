"""Charts as data: every file is whole and drawn, and a wrong call is refused."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import confide
from confide.errors import ParameterError
from confide.report import charts
from confide.report.charts import chart, load, look, names

needs_plots = pytest.mark.skipif(not charts.available(), reason="the extra plots is not installed")
GAP = re.compile(r"\$\{(\w+)\}")
DATUM = re.compile(r"datum\.(\w+)")
CONSTANTS = {*look()["constants"], "few", "very_few"}
MAPS = ("topdown-error-map", "inference-relative-margin", "explore-map")
ROWS = [{"table": "age", "level": "block", "percent": 2.5}, {"table": "age", "level": "county", "percent": 0.5}]


def parts(part: Any) -> Iterator[Any]:
    """A part of a specification and all within it."""
    yield part
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in inner:
        yield from parts(each)


def specification(name: str) -> dict[str, Any]:
    """A chart's file without what it says of itself."""
    return {key: value for key, value in load(name).items() if key != "usermeta"}


@cache
def sources() -> str:
    """All of the package's code."""
    return "".join(path.read_text(encoding="utf-8") for path in Path(confide.__path__[0]).rglob("*.py"))


def gaps(name: str) -> set[str]:
    return {gap for part in parts(specification(name)) if isinstance(part, str) for gap in GAP.findall(part)}


def columns_after(transforms: list[dict[str, Any]], columns: set[str], used: set[str]) -> set[str]:
    """The columns that there are after some transforms, each of which uses only those before it."""
    for transform in transforms:
        read = set(DATUM.findall(transform.get("filter", ""))) | set(DATUM.findall(transform.get("calculate", "")))
        read |= set(transform.get("fold", ()))
        assert read <= columns, (read - columns, transform)
        used |= read
        new = transform.get("as", ())
        columns = columns | ({new} if isinstance(new, str) else set(new))
        columns |= {field["as"] for field in transform.get("window", ())}
    return columns


def fields_of(encoding: Any) -> set[str]:
    """The fields that are encoded, or that a condition looks at."""
    inner = [part for part in parts(encoding) if isinstance(part, dict)]
    return {part["field"] for part in inner if "field" in part} | {
        field for part in inner for field in DATUM.findall(part.get("test", ""))
    }


def check_view(
    view: dict[str, Any],
    file: dict[str, Any],
    used: set[Any],
    dataset: str | None = None,
    columns: frozenset[str] = frozenset(),
    inherited: frozenset[str] = frozenset(),
) -> None:
    """Fails where a view encodes a field that is neither a declared column nor the result of a transform.

    A view has the data, the columns and the encoding of the one that it stands in, unless it has its own.
    """
    if "data" in view:
        dataset = view["data"].get("name")
        values = view["data"].get("values", [{}])
        columns = frozenset(file["usermeta"]["datasets"][dataset] if dataset else values[0])
        used.add((dataset,))
    read: set[str] = set()
    columns = frozenset(columns_after(view.get("transform", []), set(columns), read))
    inherited |= fields_of(view.get("encoding", {}))
    read |= fields_of(view.get("facet", {})) | (inherited if "mark" in view else set())
    assert read <= columns, (read - columns, view)
    used |= {(dataset, column) for column in read}
    for inner in [*view.get("layer", ()), *view.get("hconcat", ()), *([view["spec"]] if "spec" in view else ())]:
        check_view(inner, file, used, dataset, columns, inherited)


@pytest.mark.parametrize("name", names())
def test_a_file_is_whole(name: str) -> None:
    file = load(name)
    params = set(file["usermeta"].get("params", {}))
    assert len(file["description"]) > 20
    assert set(file["usermeta"]) <= {"datasets", "params"}
    assert gaps(name) - CONSTANTS == params, "each param is used, and each gap is a param or a constant"
    assert not params & CONSTANTS
    assert not params & set(file["usermeta"]["datasets"])
    for rule in file["usermeta"].get("params", {}).values():
        assert len(rule) == 1
        assert set(rule) <= {"required", "distinct", "extent"}
        assert "required" not in rule or len(rule["required"]) > 5
        first = next(iter(file["usermeta"]["datasets"].values()))
        asked = rule.get("extent", [rule["distinct"]] if "distinct" in rule else [])
        assert set(asked) <= set(first)


@pytest.mark.parametrize("name", names())
def test_a_file_shows_the_columns_that_it_declares(name: str) -> None:
    file, used = load(name), set[Any]()
    check_view(file, file, used)
    for dataset, columns in file["usermeta"]["datasets"].items():
        assert (dataset,) in used
        shown = {pair[1] for pair in used if len(pair) == 2 and pair[0] == dataset}
        # Shapes of a map are not encoded: the mark takes them from each feature.
        assert set(columns) - shown <= ({"type", "geometry"} if name in MAPS else set())


@pytest.mark.parametrize("name", names())
def test_every_axis_has_a_title_or_says_that_it_has_none(name: str) -> None:
    titled: dict[str, bool] = {}
    for part in parts(specification(name)):
        for channel in ("x", "y"):
            encoding = part.get(channel) if isinstance(part, dict) else None
            if isinstance(encoding, dict) and "field" in encoding:
                titled[channel] = titled.get(channel, False) or "title" in encoding
    assert all(titled.values()), titled


@pytest.mark.parametrize("name", names())
def test_every_file_is_used(name: str) -> None:
    assert f'"{name}"' in sources() or f'"{name.removeprefix("bayes-")}"' in sources()


def test_a_test_of_files_can_fail() -> None:
    file = {"usermeta": {"datasets": {"rows": ["a"]}}, "data": {"name": "rows"}, "mark": "bar"}
    check_view(file | {"encoding": {"x": {"field": "a"}}}, file, set())
    for wrong in ({"encoding": {"x": {"field": "b"}}}, {"transform": [{"filter": "datum.b > 1"}]}):
        with pytest.raises(AssertionError):
            check_view(file | wrong, file, set())


NOMINAL = ["first", "second"]
VALUES: dict[str, Any] = {
    "ticks": [0, 1],
    "decisions": ["in"],
    "domain": [0.1, 10],
    "bounds": [0.5, 9.5],
    "title": "figure",
    "variable": "age",
    "sign": "",
    "panel_width": 200,
    "noun": "persons",
    "unit": "rho",
    "quantity": "variance V",
    "error_title": "error, persons",
    "risk_title": "share recognised",
    "divisor": "records",
    "least": -2,
    "lowest": 0.1,
}
LISTS = {"levels", "sizes", "geographies", "queries", "panels", "tables"}
OWN: dict[str, list[dict[str, Any]]] = {
    "topdown-error-map": [
        {
            "type": "Feature",
            "geometry": {"type": "MultiPolygon", "coordinates": [[[[0, 0], [0, 9], [9, 9], [0, 0]]]]},
            "percent": 1.5,
        }
    ],
    "suppression-shares": [
        {"panel": "first", "line": "One\t", "primary": None, "complementary": None},
        {"panel": "first", "line": "One\ta", "primary": 0.2, "complementary": 0.1},
    ],
    "hierarchy-accuracy-by-rho2": [
        {
            "variant": variant,
            "x2": 1,
            "rho2": rho,
            "correct_given_1": 0.6,
            "ties_to_absent": 0.5,
            "ties_to_present": 0.7,
        }
        for variant in ("stated", "unrestricted")
        for rho in (0.1, 1.0)
    ],
}


def sample_rows(name: str, columns: list[str]) -> list[dict[str, Any]]:
    """Two rows: words where a column is encoded as nominal or ordinal, numbers elsewhere."""
    kinds = {
        part["field"]: part["type"]
        for part in parts(load(name))
        if isinstance(part, dict) and {"field", "type"} <= {*part}
    }
    words = {column for column, kind in kinds.items() if kind in ("nominal", "ordinal")}
    numbers = {"cells": 40, "matches": 40, "counts": 40, "groups": 40, "areas": 40, "high": 7, "to": 500, "m": 9}
    return [{c: NOMINAL[row] if c in words else numbers.get(c, 0.4 + 0.2 * row) for c in columns} for row in range(2)]


def sample(name: str) -> charts.Chart:
    """A chart of its sample rows."""
    meta = load(name)["usermeta"]
    first, *others = meta["datasets"]
    values: dict[str, Any] = {other: sample_rows(name, meta["datasets"][other]) for other in others}
    for param, rule in meta.get("params", {}).items():
        if "required" in rule:
            values[param] = NOMINAL if param in LISTS else VALUES.get(param, 0.7)
    return chart(name, OWN.get(name) or sample_rows(name, meta["datasets"][first]), **values)


@needs_plots
@pytest.mark.parametrize("name", names())
def test_every_chart_is_drawn(name: str) -> None:
    drawn = sample(name)
    svg = drawn.svg()
    assert svg.startswith("<svg ")
    assert svg.rstrip().endswith("</svg>")
    assert 'aria-roledescription="chart"' in svg
    assert "NaN" not in svg
    assert "undefined" not in svg
    for part in parts(drawn.as_dict()):
        for channel in ("x", "y"):
            encoding = part.get(channel) if isinstance(part, dict) else None
            if isinstance(encoding, dict) and encoding.get("title"):
                assert encoding["title"][:12].replace("&", "&amp;") in svg.replace("&#x27;", "'")


@pytest.mark.parametrize("name", names())
def test_a_specification_is_complete(name: str) -> None:
    content = sample(name).as_dict()
    text = json.dumps({key: value for key, value in content.items() if key != "datasets"})
    assert "${" not in text
    assert content["$schema"].startswith("https://vega.github.io/schema/vega-lite/")
    assert content["config"]["font"].startswith("Liberation Sans")
    used = {
        part["data"]["name"] for part in parts(content) if isinstance(part, dict) and "name" in part.get("data", {})
    }
    assert used == set(content["datasets"])


def refused(*arguments: Any, **values: Any) -> Any:
    """The finding with which a call of the kit is refused."""
    with pytest.raises(ParameterError) as error:
        chart(*arguments, **values)
    (finding,) = error.value.findings
    return finding


def test_a_misspelt_chart_is_refused() -> None:
    finding = refused("swapping-error-by-levels", ROWS)
    assert finding.code == "no-chart"
    assert "did you mean 'swapping-error-by-level'?" in finding.expected


def test_a_misspelt_param_is_refused() -> None:
    finding = refused("swapping-error-by-level", ROWS, level=["block"])
    assert finding.code == "chart-param"
    assert finding.found == "level"
    assert "did you mean 'levels'?" in finding.expected


def test_a_missing_param_is_refused() -> None:
    finding = refused("swapping-error-by-level", ROWS)
    assert (finding.code, "'levels'" in finding.what) == ("chart-param", True)


def test_a_missing_column_is_refused_without_values() -> None:
    finding = refused("swapping-error-by-level", [ROWS[0], {"table": "secret", "level": "block"}], levels=["block"])
    assert finding.code == "chart-column"
    assert "'percent'" in finding.what
    assert finding.found == "table, level"
    assert "secret" not in str(finding)


def test_a_missing_dataset_is_refused() -> None:
    finding = refused("hierarchy-accuracy-by-parent", [])
    assert (finding.code, "'without'" in finding.what) == ("chart-dataset", True)


def test_panels_have_sizes_of_their_own() -> None:
    finding = refused("hierarchy-accuracy-by-parent", [], without=[], width=200)
    assert finding.code == "chart-size"


def test_sizes_of_the_call_the_file_and_the_look() -> None:
    plain = chart("swapping-error-by-level", ROWS, levels=["block"]).as_dict()
    assert (plain["width"], plain["height"]) == (look()["width"], look()["height"])
    small = chart("swapping-error-by-level", ROWS, levels=["block"], width=90, height=60).as_dict()
    assert (small["width"], small["height"]) == (90, 60)


def test_values_by_rule_and_as_given() -> None:
    rows = [{"x": 1, "x2": 3, "y": 2, "y2": 5, "alpha": 0.5}, {"x": 4, "x2": 9, "y": 1, "y2": 2, "alpha": 0.5}]
    given = {"contours": [], "marks": [], "quantity": "variance V"}
    content = chart("bounded-averaging", rows, **given).as_dict()
    encoding = content["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["domain"] == [1, 9]
    assert encoding["y"]["title"] == "variance V"
    assert content["layer"][1]["transform"] == [{"filter": "inrange(datum.y, [1, 5])"}]
    content = chart("bounded-averaging", rows, ratios=[0.5, 20], **given).as_dict()
    assert content["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0.5, 20]
    tables = chart("swapping-error-by-level", ROWS, levels=["block"]).as_dict()["encoding"]["color"]["scale"]["domain"]
    assert tables == ["age"]


def test_numbers_of_numpy_and_infinite_ones() -> None:
    rows = [ROWS[0] | {"percent": np.float64(0.5)}, ROWS[1] | {"percent": float("inf")}]
    picture = chart("swapping-error-by-level", rows, levels=["block"]).as_dict()
    assert [row["percent"] for row in picture["datasets"]["rows"]] == [0.5, None]


def test_columns_that_a_chart_does_not_show_are_not_in_it() -> None:
    rows = [row | {"truth": 4711} for row in ROWS]
    assert "4711" not in json.dumps(chart("swapping-error-by-level", rows, levels=["block"]).as_dict())


def test_a_chart_cannot_be_changed_through_its_dictionary() -> None:
    picture = chart("swapping-error-by-level", ROWS, levels=["block"])
    picture.as_dict()["config"]["font"] = "Comic Sans"
    assert picture.as_dict()["config"]["font"] == look()["config"]["font"]


@needs_plots
def test_a_notebook_draws_it() -> None:
    picture = chart("swapping-error-by-level", ROWS, levels=["block", "county"])
    bundle = picture._repr_mimebundle_()
    assert bundle["text/plain"] == repr(picture) == "Chart('swapping-error-by-level')"
    assert bundle["image/svg+xml"].startswith("<svg ")
    assert bundle[charts.MIME_TYPE] == picture.as_dict()
    assert set(picture._repr_mimebundle_(include=["text/plain"])) == {"text/plain"}
    assert "image/svg+xml" not in picture._repr_mimebundle_(exclude=["image/svg+xml"])
    assert picture.png(scale=1).startswith(b"\x89PNG")


def test_without_the_extra_there_is_a_specification_and_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = chart("swapping-error-by-level", ROWS, levels=["block"])
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ParameterError) as error:
        picture.svg()
    assert [finding.code for finding in error.value.findings] == ["no-plots"]
    monkeypatch.setattr(charts, "available", lambda: False)
    assert set(picture._repr_mimebundle_()) == {"text/plain", charts.MIME_TYPE}
