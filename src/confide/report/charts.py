"""Charts as data: Vega-Lite files, filled with rows, drawn to SVG or PNG without a browser.

A chart is one file ``data/charts/NAME.vl.json``: a Vega-Lite specification with gaps. All charts share the look of
``data/charts/look.json``: its ``config``, its default size, and constants for colours and ticks. What a chart is filled
with stands in its ``usermeta``, which Vega-Lite leaves to its users:

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
from math import isfinite
from typing import Any

from confide.errors import ParameterError, Place

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
        # Marks without a name of their own would be pictures without a text: what they show stands in the title.
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
        The chart, of which only the declared columns of the rows are a part.

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
        raise ParameterError(
            "no-chart", where=Place(file=f"{name}{SUFFIX}"), found=name, expected=_close(name, names()), name=name
        )
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
                found=value,
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
