"""Charts and maps as data: Vega-Lite files, filled with rows, drawn to SVG or PNG without a browser.

A chart is one file ``data/charts/NAME.vl.json``: a Vega-Lite specification with gaps. All charts share the look of
``data/charts/look.json``: its ``config``, its default size, and constants for colours and ticks. What a chart is filled
with is in its ``usermeta``, which Vega-Lite leaves to its users:

- ``datasets``: for each dataset the columns that the chart needs. The first is the one that :func:`chart` is given as
  ``rows``; the others are given by name. Of a row only these columns are taken.
- ``params``: for each param where its value comes from, one of ``{"required": "what it is"}``,
  ``{"distinct": "COLUMN"}`` (the values of a column of the first dataset, in the order of the rows) and
  ``{"extent": ["COLUMN", ...]}`` (the least and the largest value of columns of the first dataset).

There is one kind of gap: ``${NAME}`` in a string, where NAME is a param or a constant. A string that is nothing but a
gap becomes the value, of whatever type; within other text the value is written out, numbers and lists as JSON. A
dataset is not a gap: the file says ``"data": {"name": "DATASET"}``, and the rows are put under ``datasets``.

Reference: Satyanarayan, Moritz, Wongsuphasawat and Heer (2017), Vega-Lite: A Grammar of Interactive Graphics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from math import cos, isfinite, pi
from pathlib import Path
from typing import Any

from confide.errors import InputError, ParameterError, Place

Row = Mapping[str, Any]
Rows = Iterable[Row]
FOLDER = files("confide") / "data" / "charts"
SUFFIX = ".vl.json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
MIME_TYPE = "application/vnd.vegalite.v6+json"
FEW, VERY_FEW = 30, 5
"""A mark over fewer counts than the first is hollow: it says little. Over fewer than the second there is none."""
_NAMELESS = re.compile(r'role="graphics-(symbol|object)" aria-roledescription="[^"]*">')
_GAP = re.compile(r"\$\{(\w+)\}")


def available() -> bool:
    """Whether charts can be drawn: the extra ``plots`` is installed."""
    return find_spec("vl_convert") is not None


@dataclass(frozen=True)
class Chart:
    """A chart with all that it shows. A notebook draws it by itself."""

    name: str
    _specification: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The chart as a complete Vega-Lite specification, with its data and its look."""
        copy: dict[str, Any] = json.loads(json.dumps(self._specification))
        return copy

    @property
    def description(self) -> str:
        """What the chart shows, in a sentence, for those who cannot see it."""
        return str(self._specification["description"])

    def svg(self) -> str:
        """The chart as SVG text. Needs the extra ``plots``."""
        picture: str = _converter().vegalite_to_svg(self._specification)
        # As Vega marks up its pictures in a browser: readers of a screen hear what it is, and may go into it.
        words = escape(self.description)
        spoken = f'role="graphics-document" aria-roledescription="chart" aria-label="{words}" overflow="visible"'
        head, _, rest = picture.replace("<svg ", f"<svg {spoken} ", 1).partition(">")
        # Marks without a name of their own would be pictures without a text: what they show is in the title.
        rest = _NAMELESS.sub('aria-hidden="true">', rest)
        return f"{head}><title>{words}</title>{rest}"

    def png(self, *, scale: float = 2.0) -> bytes:
        """The chart as a PNG image of ``scale`` pixels to each unit of its width. Needs the extra ``plots``."""
        picture: bytes = _converter().vegalite_to_png(self._specification, scale=scale)
        return picture

    def __repr__(self) -> str:
        return f"Chart({self.name!r})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What a notebook shows: Vega-Lite where it knows it, a picture where it does not."""
        bundle: dict[str, Any] = {"text/plain": repr(self), MIME_TYPE: self.as_dict()}
        if available():
            bundle["image/svg+xml"] = self.svg()
        chosen = set(include or bundle) - set(exclude or ())
        return {kind: content for kind, content in bundle.items() if kind in chosen}


Pictures = dict[str, Callable[[], Chart]]
"""Pictures of an answer by name, each drawn when it is asked for."""


def chart(name: str, rows: Rows, *, width: int | None = None, height: int | None = None, **values: Any) -> Chart:
    """A chart, filled.

    Args:
        name: The name of the chart's file, without ``.vl.json``; :func:`names` lists them.
        rows: The rows of its first dataset. Each has at least the columns that the file declares.
        width: The width of the plot in pixels, without axes, instead of the file's.
        height: The height of the plot in pixels.
        **values: The rows of its other datasets, and its params, by name.

    Returns:
        The chart; it holds the declared columns of the rows alone.

    Raises:
        ParameterError: The name of the chart, a dataset or a param is unknown, or a param, a dataset or a column is
            missing.

    >>> rows = [{"table": "age", "level": "block", "percent": 2.5, "cells": 40}]
    >>> chart("swapping-error-by-level", rows, levels=["block"]).as_dict()["datasets"]
    {'rows': [{'table': 'age', 'level': 'block', 'percent': 2.5}]}
    """
    file = load(name)
    declared: dict[str, list[str]] = file["usermeta"]["datasets"]
    params: dict[str, dict[str, Any]] = file["usermeta"].get("params", {})
    first, *others = declared
    _check_names(name, values, [*others, *params])
    sources = {first: rows} | {other: values[other] for other in others if other in values}
    datasets = {dataset: _rows(name, dataset, declared[dataset], sources) for dataset in declared}
    constants = look()["constants"] | {"few": FEW, "very_few": VERY_FEW}
    arguments = {param: _value(name, param, rule, values, datasets[first]) for param, rule in params.items()}
    specification = {key: value for key, value in file.items() if key != "usermeta"}
    for side, size in (("width", width), ("height", height)):
        if "mark" in file or "layer" in file:
            specification[side] = size or file.get(side) or look()[side]
        elif size is not None:
            raise ParameterError(
                "chart-size", where=Place(file=f"{name}{SUFFIX}"), found=str(size), side=side, name=name
            )
    complete = _fill(specification, constants | arguments)
    return Chart(name, {"$schema": SCHEMA, "config": look()["config"]} | complete | {"datasets": datasets})


def names() -> list[str]:
    """The names of all charts."""
    return sorted(file.name.removesuffix(SUFFIX) for file in FOLDER.iterdir() if file.name.endswith(SUFFIX))


@cache
def load(name: str) -> dict[str, Any]:
    """The file of a chart, as it stands, with its gaps."""
    if name not in names():
        raise ParameterError("no-chart", where=Place(file=f"{name}{SUFFIX}"), expected=_close(name, names()), name=name)
    content: dict[str, Any] = json.loads((FOLDER / f"{name}{SUFFIX}").read_text(encoding="utf-8"))
    return content


@cache
def look() -> dict[str, Any]:
    """The one look of all charts: ``width``, ``height``, ``constants``, ``config``."""
    content: dict[str, Any] = json.loads((FOLDER / "look.json").read_text(encoding="utf-8"))
    return content


def _check_names(name: str, values: Row, allowed: list[str]) -> None:
    for value in values:
        if value not in allowed:
            raise ParameterError(
                "chart-param/dataset",
                where=Place(file=f"{name}{SUFFIX}"),
                value=value,
                expected=_close(value, allowed),
                name=name,
            )


def _rows(name: str, dataset: str, columns: list[str], sources: Mapping[str, Rows]) -> list[dict[str, Any]]:
    """The rows of a dataset with its columns alone."""
    if dataset not in sources:
        raise ParameterError(
            "chart-dataset",
            where=Place(file=f"{name}{SUFFIX}"),
            dataset=dataset,
            expected=", ".join(columns),
            name=name,
        )
    rows = []
    for row in sources[dataset]:
        if missing := [column for column in columns if column not in row]:
            raise ParameterError(
                "chart-column",
                where=Place(file=f"{name}{SUFFIX}"),
                found=", ".join(row),
                dataset=dataset,
                missing=missing[0],
                expected=", ".join(columns),
                name=name,
            )
        rows.append({column: _plain(row[column]) for column in columns})
    return rows


def _plain(value: Any) -> Any:
    """A value as JSON has it: numbers of NumPy as Python's own, and none for one that is not finite."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and not isfinite(plain) else plain


def _value(name: str, param: str, rule: Row, values: Row, rows: list[dict[str, Any]]) -> Any:
    """The value of a param: as given, or else by its rule."""
    if param in values:
        return values[param]
    match rule:
        case {"distinct": column}:
            return list(dict.fromkeys(row[column] for row in rows))
        case {"extent": columns} if rows:
            numbers = [row[column] for row in rows for column in columns]
            return [min(numbers), max(numbers)]
        case {"extent": _}:
            return [0, 1]
    raise ParameterError(
        "chart-param/missing", where=Place(file=f"{name}{SUFFIX}"), param=param, expected=rule["required"], name=name
    )


def _fill(part: Any, values: Row) -> Any:
    """A part of a specification with its gaps filled."""
    if isinstance(part, dict):
        return {key: _fill(inner, values) for key, inner in part.items()}
    if isinstance(part, list):
        return [_fill(inner, values) for inner in part]
    if not isinstance(part, str):
        return part
    if alone := _GAP.fullmatch(part):
        return values[alone[1]]
    return _GAP.sub(lambda gap: _text(values[gap[1]]), part)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise ParameterError("no-plots/vl-convert-python") from None
    return vl_convert


def _close(word: str, allowed: list[str]) -> str:
    close = get_close_matches(word, allowed, 1)
    return f"one of {', '.join(allowed) or 'none'}" + (f"; did you mean {close[0]!r}?" if close else "")


# Geometry of areas from GeoJSON files, matched to the codes of the frame.
#
# Which property holds the code is found by trying: the one whose values, whole, after the ``US`` of a Census Bureau id,
# or by their last characters, are codes of the most areas. So ``GEOID``, ``GEO_ID`` and plain codes all work.

STEPS = 1_500
"""Points are rounded to so many steps across the map: finer than any screen shows, and a small file."""


@dataclass(frozen=True)
class Outline:
    """The outline of one area: the code of the frame, and planar polygons, each a list of rings."""

    code: str
    polygons: list[list[list[list[float]]]]


@dataclass(frozen=True)
class Geometry:
    """The outlines of those areas that the file has, and how many it has not."""

    outlines: tuple[Outline, ...]
    missing: int


def read_geometry(file: Path, name: str, codes: Iterable[str]) -> Geometry:
    """The outlines in a GeoJSON file for areas with these codes. Raises where no property of the file has them."""
    listed = list(codes)
    outlines = planar_outlines(read_polygons(file, name, listed))
    return Geometry(outlines, len(set(listed) - {outline.code for outline in outlines}))


def planar_outlines(polygons: Mapping[str, Polygons]) -> tuple[Outline, ...]:
    """Areas in degrees as outlines on a plane, rounded to what a screen shows; none where nothing is left."""
    return tuple(Outline(code, flat) for code, flat in _projected([*polygons.items()]) if flat)


Polygons = list[list[list[list[float]]]]
"""Polygons, each a list of rings, each a list of points: longitude and latitude."""


def read_polygons(file: Path, name: str, codes: Iterable[str]) -> dict[str, Polygons]:
    """By code the polygons of each area that a GeoJSON file has, in its own degrees."""
    listed = list(codes)
    features = _features(file, name)
    matches = _matched(features, set(listed))
    if not matches:
        properties = sorted({key for feature in features for key in feature["properties"]})
        raise InputError(
            "geometry-codes",
            where=Place(file=str(file)),
            name=name,
            properties=", ".join(properties[:12]) if properties else None,
            listed=listed[0],
        )
    return {code: _polygons(feature["geometry"]) for code, feature in matches}


def _features(file: Path, name: str) -> list[dict[str, Any]]:
    try:
        given = file.read_bytes()
    except OSError as error:
        raise _unreadable(name, str(file), error.strerror) from None
    return read_features(given, name, str(file))


def read_features(given: bytes, name: str, file: str | None = None) -> list[dict[str, Any]]:
    """The features of a GeoJSON text that have polygons.

    Args:
        given: The text.
        name: What it is the geometry of.
        file: Where it is from, for a finding.
    """
    try:
        content = json.loads(given.decode("utf-8-sig"))
        features = [
            {"properties": dict(feature.get("properties") or {}), "geometry": feature["geometry"]}
            for feature in content["features"]
            if feature.get("geometry") is not None
        ]
        for feature in features:
            _polygons(feature["geometry"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise _unreadable(name, file, None) from None
    return features


def _unreadable(name: str, file: str | None, why: str | None) -> InputError:
    return InputError("geometry/read", where=Place(file=file), name=name, why=why)


def _matched(features: list[dict[str, Any]], codes: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """Code and feature under the reading of the properties that finds the most areas, each area once."""
    widths = sorted({len(code) for code in codes}, reverse=True)
    readings: list[Callable[[str], list[str]]] = [
        lambda text: [text],
        lambda text: [text.rpartition("US")[2]],
        lambda text: [text[-width:] for width in widths if 1 < width < len(text)],
    ]
    names = sorted({key for feature in features for key in feature["properties"]})
    best: dict[str, dict[str, Any]] = {}
    for reading in readings:
        for name in names:
            matched: dict[str, dict[str, Any]] = {}
            repeated = False
            for feature in features:
                value = feature["properties"].get(name)
                read = reading(str(value)) if isinstance(value, str | int) else []
                code = next((part for part in read if part in codes), None)
                if code is not None:
                    repeated = repeated or code in matched
                    matched[code] = feature
            if len(matched) > len(best) and not repeated:
                best = matched
    return list(best.items())


def _polygons(geometry: dict[str, Any]) -> list[list[list[list[float]]]]:
    kinds = {"Polygon": lambda part: [part], "MultiPolygon": list}
    polygons = kinds[geometry["type"]](geometry["coordinates"])
    return [
        [[[float(point[0]), float(point[1])] for point in ring] for ring in polygon if len(ring) > 3]
        for polygon in polygons
    ]


def _projected(
    outlines: list[tuple[str, list[list[list[list[float]]]]]],
) -> list[tuple[str, list[list[list[list[float]]]]]]:
    """Degrees as a plane: longitudes shrink by the cosine of the middle latitude, and are shifted past 180°."""
    points = [point for _, polygons in outlines for polygon in polygons for ring in polygon for point in ring]
    if not points:
        return []
    crosses = max(x for x, _ in points) - min(x for x, _ in points) > 180
    xs = [x + 360 if crosses and x < 0 else x for x, _ in points]
    south, north = min(y for _, y in points), max(y for _, y in points)
    shrink = cos((south + north) / 2 * pi / 180)
    west, span = min(xs), max((max(xs) - min(xs)) * shrink, north - south) or 1.0

    def flat(point: list[float]) -> list[float]:
        x = point[0] + 360 if crosses and point[0] < 0 else point[0]
        return [round((x - west) * shrink / span * STEPS), round((point[1] - south) / span * STEPS)]

    def simple(ring: list[list[float]]) -> list[list[float]]:
        kept: list[list[float]] = []
        for point in map(flat, ring):
            if not kept or point != kept[-1]:
                kept.append(point)
        return kept

    result = []
    for code, polygons in outlines:
        rings = [[ring for ring in map(simple, polygon) if len(ring) > 3] for polygon in polygons]
        result.append((code, [polygon for polygon in rings if polygon]))
    return result


# Areas coloured by a number: as a map where there are outlines, else as tiles of one size.


MOST_TILES = 400
ACROSS = 10
"""How many tiles stand side by side."""
TILE = 56
"""The height of a tile, in pixels."""


def area_chart(
    names: Mapping[str, str],
    values: Mapping[str, float | None],
    title: str,
    outlines: Geometry | None,
    domain: tuple[float, float] | None = None,
) -> Chart:
    """Areas, coloured by a number.

    Args:
        names: By code what each area is called.
        values: By code its number; None where there is none.
        title: What the colours mean.
        outlines: Where the areas are; without it they are tiles, in the order of ``names``.
        domain: The numbers that the colours begin and end with; by default the smallest and the largest.
    """
    known = [value for value in values.values() if value is not None] or [0.0]
    low, high = domain or (min(known), max(known))
    if outlines is not None:
        features = [
            {
                "type": "Feature",
                "geometry": {"type": "MultiPolygon", "coordinates": outline.polygons},
                "name": names[outline.code],
                "value": values[outline.code],
            }
            for outline in outlines.outlines
        ]
        return chart("explore-map", features, title=title, domain=[low, high])
    rows: list[dict[str, Any]] = []
    for number, code in enumerate(list(names)[:MOST_TILES]):
        value = values[code]
        dark = value is not None and high > low and (value - low) / (high - low) > 0.66
        rows.append(
            {"name": names[code], "line": number // ACROSS, "place": number % ACROSS, "value": value, "dark": dark}
            | {"shown": "" if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"}
        )
    return chart("explore-tiles", rows, height=TILE * -(-len(rows) // ACROSS), title=title, domain=[low, high])


@dataclass(frozen=True)
class AreaMeasure:
    """A number for each area of some levels, such as how far the figures of the area are off."""

    what: str
    """What it is, with its unit: the title of the scale of colours."""
    levels: Mapping[str, Mapping[str, float | None]]
    names: Mapping[str, Mapping[str, str]]
    """By level and code what areas are called, where they have names."""
    domain: tuple[float, float] | None = None
    """The numbers that the colours begin and end with; by default the smallest and the largest of a level."""


def require_levels(geometry: Mapping[str, Path], levels: Iterable[str]) -> None:
    """Raises if somebody wants a map of a level that there is not."""
    known = list(levels)
    unknown = [name for name in geometry if name not in known]
    if unknown:
        raise ParameterError(
            "geometry-level/geography",
            where=Place(path="--geometry"),
            unknown=unknown[0],
            known=", ".join(known) if known else None,
            known_remedy=known,
        )


def area_maps(measure: AreaMeasure, geometry: Mapping[str, Path]) -> list[dict[str, Any]]:
    """A picture for each level: a map where there is geometry, else tiles, unless there are too many areas to read.

    Args:
        measure: What is shown.
        geometry: By level a GeoJSON file.

    Returns:
        Pictures with captions and numbers; none where the extra ``plots`` is not installed.
    """
    require_levels(geometry, measure.levels)
    drawn = []
    for level, values in measure.levels.items() if available() else ():
        if not any(value is not None for value in values.values()):
            continue
        names = {code: measure.names.get(level, {}).get(code) or code for code in values}
        if level in geometry:
            outlines = read_geometry(geometry[level], level, values)
            svg = area_chart(names, values, measure.what, outlines, measure.domain).svg()
            how = f"{len(outlines.outlines):,} areas"
            how += f", {outlines.missing:,} without an outline" if outlines.missing else ""
        elif 1 < len(values) <= MOST_TILES:
            svg = area_chart(names, values, measure.what, None, measure.domain).svg()
            how = f"areas as tiles; --geometry {level}=FILE, or geometry in the spec, draws a map"
        else:
            continue
        caption = f"{measure.what[0].upper()}{measure.what[1:]}, by {level} ({how})."
        listed = [(names[code], value) for code, value in list(values.items())[:MOST_TILES]]
        drawn.append({"svg": svg, "caption": caption, "level": level, "what": measure.what, "rows": listed, "more": []})
    return drawn
