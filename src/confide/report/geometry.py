"""Geometry of areas from GeoJSON files, matched to the codes of the frame.

Which property holds the code is found by trying: the one whose values, whole, after the ``US`` of a Census Bureau id,
or by their last characters, are codes of the most areas. So ``GEOID``, ``GEO_ID`` and plain codes all work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import cos, pi
from pathlib import Path
from typing import Any

from confide.errors import InputError, Place

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
    flat = _projected([*read_polygons(file, name, listed).items()])
    outlines = tuple(Outline(code, polygons) for code, polygons in flat if polygons)
    return Geometry(outlines, len(set(listed) - {outline.code for outline in outlines}))


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
            f"no property of the file has the codes of {name!r}",
            where=Place(file=str(file)),
            found="properties " + ", ".join(properties[:12]) if properties else "no properties",
            expected=f"a property with codes such as {listed[0]!r}, whole or at its end",
            remedy="give the file of this level and this territory",
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
    return InputError(
        "geometry",
        f"the geometry of {name!r} cannot be read",
        where=Place(file=file),
        found=why or "another content",
        expected="a GeoJSON FeatureCollection of Polygons or MultiPolygons, in degrees",
        remedy="check the path, or write the file again",
    )


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
