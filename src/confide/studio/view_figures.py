"""Figures of a view: bars and lines with margins, a pyramid where there are ages and sexes, a map, or tiles in its
place."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal

from confide.errors import ParameterError
from confide.releases.tabular import AREA, LEVEL
from confide.report.charts import Chart, chart
from confide.report.geometry import area_chart, read_geometry
from confide.schema import TOTAL_CODE
from confide.studio.table_view import Crossed, CrossedCell, TableReader, View, ViewDimension

Measure = Literal["value", "margin"]
MOST_BARS = 120
BAR_HEIGHT = 22
MOST_LINES = 7
"""As many as there are colours that people with any kind of colour vision can tell apart."""
_NUMBER = re.compile(r"\d+")


def sex_and_age(reader: TableReader) -> tuple[ViewDimension, ViewDimension] | None:
    """The two variables of a pyramid: one of two groups that is called sex, and one that is called age."""
    variables = [each for each in reader.dimensions if each.kind == "variable"]
    named = {key: [each for each in variables if re.match(rf"{key}\b", each.column.lower())] for key in ("sex", "age")}
    sexes = [each for each in named["sex"] if sum(code != TOTAL_CODE for code, _ in each.options) == 2]
    return (sexes[0], named["age"][0]) if sexes and named["age"] else None


def ordered(dimension: ViewDimension) -> tuple[tuple[str, str], ...]:
    """The groups of a variable whose labels go upwards by their first number, such as ages; none of any other.

    There are at least three numbers. Groups without one at the end, such as those that were not stated, are left out.

    >>> ages = (("_T", "all together"), ("a", "0 to 4"), ("b", "5 to 9"), ("c", "10 and over"), ("n", "not stated"))
    >>> ordered(ViewDimension("age", "Age", "variable", ages))
    (('a', '0 to 4'), ('b', '5 to 9'), ('c', '10 and over'))
    >>> ordered(ViewDimension("work", "Work", "variable", (("1", "at work"), ("2", "at school"), ("3", "retired"))))
    ()
    """
    groups = [(code, label, _NUMBER.search(label)) for code, label in dimension.options if code != TOTAL_CODE]
    while groups and groups[-1][2] is None:
        groups.pop()
    numbers = [-1 if first is None else int(first[0]) for _, _, first in groups]
    upwards = -1 not in numbers and numbers == sorted(numbers) and len(set(numbers)) > 2
    return tuple((code, label) for code, label, _ in groups) if upwards else ()


def lines(reader: TableReader, view: View, down: str, across: str | None) -> Chart:
    """A line for each column of a cross-table, over the groups of a variable that have an order."""
    fitting = [each for each in reader.dimensions if each.kind == "variable" and ordered(each)]
    if not fitting:
        raise ParameterError("no-lines")
    variable = next((each for each in fitting if each.column == down), fitting[0])
    crossed = reader.crossed(view, variable.column, across)
    groups = dict(ordered(variable))
    rows = [
        {"name": label, "part": head if crossed.across else "", **_ends(cell)}
        for code, label, cells in _unlike(crossed)
        if code in groups
        for (_, head), cell in list(zip(crossed.heads, cells, strict=True))[:MOST_LINES]
        if cell is not None and cell.value is not None
    ]
    if not rows:
        raise ParameterError("nothing-to-draw/published")
    return chart("explore-lines", rows, title=_title(reader, crossed), variable=variable.title)


def bars(reader: TableReader, view: View, down: str, across: str | None) -> Chart:
    """Bars for each line of a cross-table, side by side for its columns."""
    crossed = reader.crossed(view, down, across)
    rows = [
        {"name": label, "part": head if crossed.across else "", **_ends(cell)}
        for _, label, cells in _unlike(crossed)
        for (_, head), cell in zip(crossed.heads, cells, strict=True)
        if cell is not None and cell.value is not None
    ][:MOST_BARS]
    if not rows:
        raise ParameterError("nothing-to-draw/published")
    return chart("explore-bars", rows, height=max(60, BAR_HEIGHT * len(rows)), title=_title(reader, crossed))


def pyramid(reader: TableReader, view: View) -> Chart:
    """Ages upwards, one sex to the left and the other to the right."""
    variables = sex_and_age(reader)
    if variables is None:
        raise ParameterError("no-pyramid")
    sex, age = variables
    crossed = reader.crossed(view, age.column, sex.column)
    sides = [(code, label) for code, label in crossed.heads if code != TOTAL_CODE]
    rows: list[dict[str, Any]] = []
    for code, label, cells in crossed.lines:
        for (head, name), cell in zip(crossed.heads, cells, strict=True):
            if TOTAL_CODE in (code, head) or cell is None or cell.value is None:
                continue
            side = -1 if head == sides[0][0] else 1
            ends = _ends(cell)
            signed = {key: None if value is None else side * value for key, value in ends.items()}
            rows.append({"age": label, "sex": name, **signed})
    if not rows:
        raise ParameterError("nothing-to-draw/published")
    ages = list(dict.fromkeys(row["age"] for row in rows))[::-1]
    largest = max(abs(row[end] or 0) for row in rows for end in ("value", "low", "high"))
    height = max(160, 20 * len(ages))
    title = _title(reader, crossed)
    return chart("explore-pyramid", rows, height=height, title=title, ages=ages, largest=math.ceil(largest) or 1)


def area_map(reader: TableReader, view: View, measure: Measure, geometry: Path | None) -> Chart:
    """Areas of a level, coloured by the figure or by its margin: as a map where there is geometry, else as tiles."""
    crossed = reader.crossed(view, AREA, None)
    named = {code: (label, cells[0]) for code, label, cells in crossed.lines}
    values = {code: _measured(cell, measure) for code, (_, cell) in named.items()}
    if not any(value is not None for value in values.values()):
        raise ParameterError(
            "nothing-to-draw/least-figure",
            is_margin=measure == "margin",
            why="no margin is published with these figures" if measure == "margin" else "",
        )
    title = _title(reader, crossed) + (": margin, in per cent of the figure" if measure == "margin" else "")
    names = {code: label for code, (label, _) in named.items()}
    level = ", ".join(view.codes(LEVEL)) or AREA
    outlines = None if geometry is None else read_geometry(geometry, level, named)
    return area_chart(names, values, title, outlines)


def _unlike(crossed: Crossed) -> list[tuple[str, str, tuple[CrossedCell | None, ...]]]:
    """The lines, without the total where there is something else; labels that stand twice with their codes."""
    lines = [line for line in crossed.lines if line[0] != TOTAL_CODE] or list(crossed.lines)
    labels = [label for _, label, _ in lines]
    return [(code, label if labels.count(label) == 1 else f"{label} ({code})", cells) for code, label, cells in lines]


def _ends(cell: CrossedCell) -> dict[str, float | None]:
    low, high = cell.interval or (None, None)
    return {"value": cell.value, "low": low, "high": high}


def _measured(cell: CrossedCell | None, measure: Measure) -> float | None:
    if cell is None or cell.value is None:
        return None
    if measure == "value":
        return cell.value
    if cell.interval is None or cell.value <= 0:
        return None
    return round(100 * (cell.interval[1] - cell.interval[0]) / 2 / cell.value, 1)


def _title(reader: TableReader, crossed: Crossed) -> str:
    held = [dimension.label(code) for dimension, code in crossed.fixed if code != TOTAL_CODE]
    return ", ".join([reader.table.title, *held])
