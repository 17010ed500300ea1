"""A view of a released table: rows that were filtered, a page of them, two variables crossed, and the code of it.

The table is read once, as it was sealed, and DuckDB answers what is asked of it: a table of millions of rows is never
sent to a browser, only the page that is looked at.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.engines.protocol import identifier
from confide.errors import ParameterError
from confide.opened import Estimate, OpenedTable, Release, Rows
from confide.releases.companions.programs import MOST_ROWS as MOST_SHEET_ROWS
from confide.releases.companions.programs import WorkSheet, workbook
from confide.releases.tabular import AREA, AREA_NAME, LEVEL, STATUS, SUPPRESSED
from confide.report.charts import Chart, area_chart, chart, read_geometry
from confide.schema import TOTAL_CODE

Row = Mapping[str, Any]
Kind = Literal["level", "area", "variable"]

ROW = "#row"
"""The place of a row in its table, from 0: how a cell is known in an address."""
PAGE_ROWS = 100
MOST_OPTIONS = 400
"""Columns of a table without a codebook have a list to choose from up to so many values."""
MOST_CELLS = 4_000
"""Of a cross-table that is shown."""
FIGURES = ("count", "value", "COUNT")
TOGETHER = "all together"


@dataclass(frozen=True)
class ViewDimension:
    """What rows can be chosen by: the level, the area, or a variable."""

    column: str
    title: str
    kind: Kind
    options: tuple[tuple[str, str], ...] = ()
    """Codes with their labels; of areas none, because there may be any number."""

    @property
    def has_total(self) -> bool:
        return any(code == TOTAL_CODE for code, _ in self.options)

    def label(self, code: str) -> str:
        """What a code means; the code itself where nobody says."""
        return next((label for each, label in self.options if each == code), code)


@dataclass(frozen=True)
class View:
    """What somebody looks at: what is chosen of each column, and which page of it in which order."""

    where: tuple[tuple[str, str], ...] = ()
    """Columns with codes; several codes of one column are any of them."""
    search: str = ""
    order: str = ""
    descending: bool = False
    page: int = 1

    def codes(self, column: str) -> tuple[str, ...]:
        """What is chosen of a column; nothing where all is."""
        return tuple(code for name, code in self.where if name == column)

    def with_codes(self, column: str, *codes: str) -> View:
        """The same with another choice of one column."""
        others = tuple(pair for pair in self.where if pair[0] != column)
        return replace(self, where=(*others, *((column, code) for code in codes)))


@dataclass(frozen=True)
class TablePage:
    """Some rows of a view, and how many there are."""

    rows: tuple[Row, ...]
    total: int
    page: int

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // PAGE_ROWS))


@dataclass(frozen=True)
class CrossedCell:
    """One figure of a cross-table, with the row of the table that it is."""

    row: int
    value: float | None
    margin: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Crossed:
    """Two dimensions of a table crossed, the others held fixed."""

    down: ViewDimension
    across: ViewDimension | None
    heads: tuple[tuple[str, str], ...]
    """Codes and labels of the columns."""
    lines: tuple[tuple[str, str, tuple[CrossedCell | None, ...]], ...]
    """For each line its code, its label and its cells."""
    fixed: tuple[tuple[ViewDimension, str], ...]
    """What the others are held at."""
    total_lines: int


class TableReader:
    """A table of a release, ready to be asked."""

    def __init__(self, table: OpenedTable):
        self.table = table
        rows = table.arrow()
        self._rows = rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))
        self._database = duckdb.connect(":memory:", config={"threads": 2, "enable_external_access": "false"})
        self._database.register("given", self._rows)
        self._database.execute(
            "CREATE TABLE published AS SELECT * FROM given"
        )  # a view would be this connection's alone
        self._database.unregister("given")
        self._lock = Lock()

    @property
    def columns(self) -> list[str]:
        """The columns of the table, as published."""
        return list(self._rows.column_names[:-1])

    @cached_property
    def figure(self) -> str | None:
        """The column of figures; none where the table is of another kind, such as records."""
        return next((name for name in FIGURES if name in self.columns), None)

    @cached_property
    def dimensions(self) -> tuple[ViewDimension, ...]:
        """Level, area and variables, in the order of the columns."""
        described = self.table.described
        if described is None:
            return tuple(self._guessed())
        dimensions = []
        if LEVEL in self.columns:
            levels = tuple((level, level) for level in described.levels)
            dimensions += [ViewDimension(LEVEL, "Level", "level", levels), ViewDimension(AREA, "Area", "area")]
        totals = self._with_totals([variable.name for variable in described.columns.variables])
        for variable in described.columns.variables:
            options = tuple(zip(variable.codes, variable.labels, strict=True))
            if variable.name in totals:
                options = ((TOTAL_CODE, TOGETHER), *options)
            dimensions.append(ViewDimension(variable.name, variable.title or variable.name, "variable", options))
        return tuple(dimensions)

    def dimension(self, column: str) -> ViewDimension:
        """The dimension of a column."""
        for each in self.dimensions:
            if each.column == column:
                return each
        raise ParameterError(
            "no-column/chosen",
            found=column[:60],
            table=self.table.name,
            dimensions=", ".join(each.column for each in self.dimensions),
        )

    def first_look(self) -> View:
        """What is shown to somebody who has chosen nothing yet: the first level."""
        levels = [each for each in self.dimensions if each.kind == "level"]
        return View(tuple((each.column, each.options[0][0]) for each in levels if each.options))

    def page(self, view: View) -> TablePage:
        """A page of a view."""
        condition, values = self._condition(view)
        total = int(self._ask(f"SELECT count(*) AS n FROM published{condition}", values)[0]["n"])
        page = min(max(1, view.page), max(1, -(-total // PAGE_ROWS)))
        order = self._order(view)
        rows = self._ask(
            f"SELECT * FROM published{condition} ORDER BY {order} LIMIT {PAGE_ROWS} OFFSET {(page - 1) * PAGE_ROWS}",
            values,
        )
        return TablePage(tuple(rows), total, page)

    def all_rows(self, view: View) -> pa.Table:
        """All rows of a view, as published."""
        condition, values = self._condition(view)
        return self._answer(f"SELECT * FROM published{condition} ORDER BY {self._order(view)}", values).select(
            self.columns
        )

    def crossed(self, view: View, down: str, across: str | None) -> Crossed:
        """A cross-table: one dimension down, another across, and the rest held at what is chosen of it.

        Args:
            view: What is chosen; a dimension without exactly one chosen code is held at its total, or at the
                first code where it has none.
            down: The column of the lines.
            across: The column of the columns; none for a single one.

        Returns:
            The cross-table, with at most some thousand cells.
        """
        lines, columns = self.dimension(down), None if across in (None, "", down) else self.dimension(str(across))
        fixed = []
        for each in self.dimensions:
            if each in (lines, columns) or (each.kind == "area" and self._level_of(view) is None):
                continue
            chosen = view.codes(each.column)
            code = chosen[0] if len(chosen) == 1 else self._held(each, view)
            if code is not None:
                fixed.append((each, code))
        held = view
        for each, code in fixed:
            held = held.with_codes(each.column, code)
        condition, values = self._condition(held)
        published = self._ask(f"SELECT * FROM published{condition} ORDER BY {identifier(ROW)}", values)
        return _cross(published, lines, columns, fixed, self)

    def cell(self, row: Row) -> CrossedCell:
        """The figure of a row, and how far off it may be, as published."""
        value = row[self.figure] if self.figure else None
        if value is None or row.get(STATUS) == SUPPRESSED:
            return CrossedCell(row[ROW], None)
        if row.get("noise_margin") is not None:
            margin = row["noise_margin"]
            return CrossedCell(row[ROW], value, margin, (value - margin, value + margin))
        if row.get("low") is not None and row.get("high") is not None:
            return CrossedCell(row[ROW], value, None, (row["low"], row["high"]))
        return CrossedCell(row[ROW], value)

    def described(self, row: Row) -> str:
        """Which cell a row is, in words."""
        words = []
        for each in self.dimensions:
            if each.kind == "area":
                words.append(str(row.get(AREA_NAME) or row[AREA]))
            elif row[each.column] != TOTAL_CODE and each.kind != "level":
                words.append(str(row.get(f"{each.column}_label", row[each.column])))
        return ", ".join(words) or TOGETHER

    def chosen(self, places: Sequence[int]) -> Rows:
        """The rows at these places, for a sum."""
        beyond = [place for place in places if not 0 <= place < self._rows.num_rows]
        if beyond:
            raise ParameterError(
                "no-rows/row", found=str(beyond[0]), table=self.table.name, num_rows=self._rows.num_rows - 1
            )
        return Rows(((self.table.name, self._rows.take(pa.array(places, pa.int64())).select(self.columns)),))

    def rows_at(self, places: Sequence[int]) -> list[Row]:
        """The rows at these places."""
        there = [place for place in places if 0 <= place < self._rows.num_rows]
        listed: list[Row] = self._rows.take(pa.array(there, pa.int64())).to_pylist()
        return listed

    def _answer(self, question: str, values: Sequence[Any]) -> pa.Table:
        with self._lock:  # a cursor of its own for each question; making one is not for two threads at once
            cursor = self._database.cursor()
        return cursor.sql(question, params=list(values)).to_arrow_table()

    def _ask(self, question: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._answer(question, values).to_pylist()
        return rows

    def _condition(self, view: View) -> tuple[str, list[Any]]:
        parts, values = [], list[Any]()
        for column in dict.fromkeys(name for name, _ in view.where):
            codes = view.codes(self.dimension(column).column)
            parts.append(f"CAST({identifier(column)} AS VARCHAR) IN ({', '.join('?' * len(codes))})")
            values += codes
        if view.search.strip():
            texts = [f.name for f in self._rows.schema if pa.types.is_string(f.type) or pa.types.is_dictionary(f.type)]
            texts = [name for name in texts if name in (AREA, AREA_NAME)] or texts
            if texts:
                parts.append("(" + " OR ".join(f"contains(lower({identifier(name)}), ?)" for name in texts) + ")")
                values += [view.search.strip().lower()] * len(texts)
        return (" WHERE " + " AND ".join(parts) if parts else ""), values

    def _order(self, view: View) -> str:
        if view.order not in self.columns:
            return identifier(ROW)
        return f"{identifier(view.order)} {'DESC' if view.descending else 'ASC'} NULLS LAST, {identifier(ROW)}"

    def _level_of(self, view: View) -> str | None:
        chosen = view.codes(LEVEL)
        return chosen[0] if len(chosen) == 1 else None

    def _held(self, dimension: ViewDimension, view: View) -> str | None:
        """What a dimension is held at where nobody chose."""
        if dimension.kind == "area":
            first = self._ask(
                f"SELECT {identifier(AREA)} AS code FROM published WHERE {identifier(LEVEL)} = ? LIMIT 1",
                [self._level_of(view)],
            )
            return str(first[0]["code"]) if first else None
        if dimension.has_total:
            return TOTAL_CODE
        return dimension.options[0][0] if dimension.options else None

    def _with_totals(self, columns: Sequence[str]) -> set[str]:
        return {
            column
            for column in columns
            if self._ask(f"SELECT 1 AS n FROM published WHERE {identifier(column)} = ? LIMIT 1", [TOTAL_CODE])
        }

    def _guessed(self) -> Iterable[ViewDimension]:
        """Of a table that no codebook describes: the columns with few values."""
        for name in self.columns:
            if name == self.figure or pa.types.is_floating(self._rows.schema.field(name).type):
                continue
            codes = self._ask(
                f"SELECT DISTINCT CAST({identifier(name)} AS VARCHAR) AS code FROM published "
                f"ORDER BY 1 LIMIT {MOST_OPTIONS + 1}",
                [],
            )
            if 1 < len(codes) <= MOST_OPTIONS // 8:
                yield ViewDimension(
                    name, name, "variable", tuple((str(each["code"]), str(each["code"])) for each in codes)
                )


def _cross(
    rows: Sequence[Row],
    down: ViewDimension,
    across: ViewDimension | None,
    fixed: Sequence[tuple[ViewDimension, str]],
    reader: TableReader,
) -> Crossed:
    heads = [] if across is None else _heads(rows, across)
    heads = heads or [("", reader.table.title)]
    lines = _heads(rows, down)
    total, most = len(lines), max(1, MOST_CELLS // len(heads))
    lines = lines[:most]
    cells: dict[tuple[str, str], CrossedCell] = {}
    for row in rows:
        place = (str(row[down.column]), "" if across is None else str(row[across.column]))
        cells.setdefault(place, reader.cell(row))
    return Crossed(
        down,
        across,
        tuple(heads),
        tuple((code, label, tuple(cells.get((code, head)) for head, _ in heads)) for code, label in lines),
        tuple(fixed),
        total,
    )


def _heads(rows: Sequence[Row], dimension: ViewDimension) -> list[tuple[str, str]]:
    """The codes of a dimension that the rows have, in the order of the codebook, with their labels."""
    there = dict.fromkeys(str(row[dimension.column]) for row in rows)
    if dimension.kind == "area":
        names = {str(row[AREA]): str(row.get(AREA_NAME) or row[AREA]) for row in rows}
        return [(code, names[code]) for code in there]
    return [(code, label) for code, label in dimension.options if code in there]


@dataclass(frozen=True)
class Estimates:
    """What follows from chosen cells: their sum, and with two choices the difference and the ratio."""

    sum_a: Estimate
    sum_b: Estimate | None = None
    difference: Estimate | None = None
    ratio: Estimate | None = None


def estimates(release: Release, reader: TableReader, a: Sequence[int], b: Sequence[int]) -> Estimates | None:
    """Sum, difference and ratio of chosen cells, with the margins that the library gives.

    Args:
        release: The release that the table is of.
        reader: The table.
        a: The places of the cells that are added.
        b: Those that they are compared with.

    Returns:
        The estimates; none where nothing is chosen as ``a``.
    """
    if not a:
        return None
    first = reader.chosen(a)
    if not b:
        return Estimates(release.sum(first))
    second = reader.chosen(b)
    return Estimates(
        release.sum(first), release.sum(second), release.difference(first, second), release.ratio(first, second)
    )


# A view as a file, and as code.


def as_csv(rows: pa.Table) -> bytes:
    """Comma-separated, in UTF-8, as released files are."""
    into = io.BytesIO()
    pyarrow.csv.write_csv(rows, into)
    return into.getvalue()


def as_parquet(rows: pa.Table) -> bytes:
    """Parquet."""
    into = io.BytesIO()
    pq.write_table(rows, into)
    return into.getvalue()


def as_xlsx(rows: pa.Table, name: str) -> bytes:
    """A workbook of one sheet, codes as text."""
    if rows.num_rows > MOST_SHEET_ROWS:
        raise ParameterError("too-many-rows/view", num_rows=rows.num_rows, most_sheet_rows=MOST_SHEET_ROWS)
    values = [list(row.values()) for row in rows.to_pylist()]
    return workbook([WorkSheet(name, rows.column_names, values)])


FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def as_file(rows: pa.Table, format_: str, name: str) -> bytes:
    """The rows in one of the formats."""
    return as_xlsx(rows, name) if format_ == "xlsx" else {"csv": as_csv, "parquet": as_parquet}[format_](rows)


def pandas_code(table: OpenedTable, view: View) -> str:
    """The view in Python: the release is opened as it lies."""
    lines = [
        "import confide",
        "",
        f"release = confide.open_release({_quoted(str(table.release.folder))})",
        f"table = release.tables[{_quoted(table.name)}].pandas()",
    ]
    parts = [f"table[{_quoted(column)}].isin([{', '.join(map(_quoted, codes))}])" for column, codes in _chosen(view)]
    lines.append("view = " + (f"table[{' & '.join(parts)}]" if parts else "table"))
    return "\n".join(lines) + "\n"


def r_code(table: OpenedTable, view: View) -> str:
    """The view in R: codes stay text."""
    path = _quoted(str(table.file))
    parquet = table.file.suffix == ".parquet"
    text = 'colClasses = "character", check.names = FALSE'
    lines = [f"table <- arrow::read_parquet({path})" if parquet else f"table <- read.csv({path}, {text})"]
    parts = [f"table[[{_quoted(column)}]] %in% c({', '.join(map(_quoted, codes))})" for column, codes in _chosen(view)]
    lines.append("view <- " + (f"table[{' & '.join(parts)}, ]" if parts else "table"))
    return "\n".join(lines) + "\n"


def _chosen(view: View) -> list[tuple[str, tuple[str, ...]]]:
    return [(column, view.codes(column)) for column in dict.fromkeys(name for name, _ in view.where)]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# Figures of a view: bars and lines with margins, a pyramid where there are ages and sexes, a map, or tiles in its
# place.

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
        )
    title = _title(reader, crossed) + (": margin, in per cent of the figure" if measure == "margin" else "")
    names = {code: label for code, (label, _) in named.items()}
    level = ", ".join(view.codes(LEVEL)) or AREA
    outlines = None if geometry is None else read_geometry(geometry, level, named)
    return area_chart(names, values, title, outlines)


def _unlike(crossed: Crossed) -> list[tuple[str, str, tuple[CrossedCell | None, ...]]]:
    """The lines, without the total where there is something else; labels that are there twice with their codes."""
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
