"""Geometry of areas from GeoJSON files, matched to the codes of the frame.

Which property holds the code is found by trying: the one whose values, whole, after the ``US`` of a Census Bureau id,
or by their last characters, are codes of the most areas. So ``GEOID``, ``GEO_ID`` and plain codes all work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path
from typing import Any

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import InputError, ParameterError, Place
from confide.releases.tabular import AreaNames
from confide.report import charts

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
    """By code the polygons of each area that a GeoJSON file has, in degrees as they stand there."""
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
) -> charts.Chart:
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
        return charts.chart("explore-map", features, title=title, domain=[low, high])
    rows: list[dict[str, Any]] = []
    for number, code in enumerate(list(names)[:MOST_TILES]):
        value = values[code]
        dark = value is not None and high > low and (value - low) / (high - low) > 0.66
        rows.append(
            {"name": names[code], "line": number // ACROSS, "place": number % ACROSS, "value": value, "dark": dark}
            | {"shown": "" if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"}
        )
    return charts.chart("explore-tiles", rows, height=TILE * -(-len(rows) // ACROSS), title=title, domain=[low, high])


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


class AreaSums:
    """Adds up numbers of areas, level by level, for a mean over the figures of each."""

    def __init__(self) -> None:
        self._levels: dict[str, tuple[Sequence[str], Floats, Floats]] = {}

    def add(
        self, level: str, codes: Sequence[str], area: Integers, numbers: Floats | Integers, figures: int | None = None
    ) -> None:
        """Adds numbers of areas of a level.

        Args:
            level: The level.
            codes: The codes of its areas.
            area: For each number the place of its area among the codes.
            numbers: What is added up.
            figures: Of how many figures each area has numbers here; by default as many as there are.
        """
        nothing = np.zeros(len(codes))
        _, sums, counts = self._levels.get(level, (codes, nothing, nothing))
        each = np.bincount(area, minlength=len(codes)) if figures is None else np.full(len(codes), figures)
        added: Floats = np.bincount(area, numbers, len(codes)).astype(np.float64)
        self._levels[level] = (codes, sums + added, counts + each)

    def measure(self, what: str, names: AreaNames | None) -> AreaMeasure:
        """The mean of each area; none where it has no figure."""
        levels = {}
        for level, (codes, sums, counts) in self._levels.items():
            pairs = zip(sums.tolist(), counts.tolist(), strict=True)
            means = [round(total / number, 2) if number else None for total, number in pairs]
            levels[level] = dict(zip(codes, means, strict=True))
        listed = {} if names is None else names.levels
        return AreaMeasure(what, levels, {level: dict(zip(*pair, strict=True)) for level, pair in listed.items()})


def require_levels(geometry: Mapping[str, Path], levels: Iterable[str]) -> None:
    """Raises if somebody wants a map of a level that there is not."""
    known = list(levels)
    unknown = [name for name in geometry if name not in known]
    if unknown:
        raise ParameterError(
            "geometry-level/geography",
            where=Place(path="--geometry"),
            found=unknown[0],
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
    for level, values in measure.levels.items() if charts.available() else ():
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
