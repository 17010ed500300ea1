"""Rows of published tables, read into marginals: every row against its query, with all problems at once.

A table has a row for each published figure: the unit, a column for each attribute (a label or code of the variable, or
``all`` where the row's query sums over it), and the count. Rows of several queries can stand in one table; a row
belongs to the query that has all its labels. A blank count is unknown: suppressed.

This is what folders of tables, releases and tables in memory have in common; what only releases have is in
:mod:`confide.releases.published_release`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Floats, Integers
from confide.documents import load_schema, load_shipped, shipped
from confide.errors import ConfideError, Finding, InputError, ParameterError, Place
from confide.exact import Exact, exact
from confide.releases.published import (
    ImpossibleCells,
    NoiseBound,
    Published,
    PublishedGeography,
    PublishedMarginal,
    one_unit,
    sparse,
)
from confide.schema import ALL, TOTAL_CODE, Attribute, Code, Query, Recode, Schema

ROWS_NAMED = 5
UNITS_NAMED = 5
LARGEST = 2**52
"""The largest count: sums of a few stay exact."""


@dataclass(frozen=True)
class PublishedRows:
    """What is said of the rows of a table before they are read."""

    name: str
    queries: tuple[str, ...]
    variance: Fraction | None = None
    bound: NoiseBound | None = None
    absent_unknown: bool = False
    file: str | None = None
    """The file, for findings."""


def query_of(schema: Schema, text: str) -> Query:
    """The query that a text names, variables in the order of the schema."""
    query = schema.query(text)
    return schema.ordered_query([variable.name for variable in query.variables])


def codes_of(attribute: Attribute, listed: list[int | str]) -> list[Code]:
    """The codes that are listed, ranges written out. Raises a ValueError for a range that no codes can fill."""
    codes: list[Code] = []
    for item in listed:
        if isinstance(item, str) and ".." in item and attribute.is_integer:
            first, last = map(int, item.split(".."))
            if not first <= last < first + len(attribute.levels):
                raise ValueError(item)
            codes += range(first, last + 1)
        else:
            codes.append(item)
    return codes


def impossible(schema: Schema) -> tuple[ImpossibleCells, ...]:
    """What ships about combinations that no record of a schema has."""
    if schema.id not in shipped("attacks/impossible"):
        return ()
    by_name = {attribute.name: attribute for attribute in schema.attributes}
    return tuple(
        ImpossibleCells({name: frozenset(codes_of(by_name[name], listed)) for name, listed in zero["where"].items()})
        for zero in load_shipped("attacks/impossible", schema.id)["zeros"]
    )


# Rows to marginals.


def marginals_of(
    table: PublishedRows, content: pa.Table, schema: Schema, geography: PublishedGeography, depth: int, area: str | None
) -> list[PublishedMarginal]:
    """The rows of one table as marginals, one for each of its queries.

    Args:
        table: What is said of the rows.
        content: The rows, every column as text; the counts are the column ``count``.
        schema: The attributes.
        geography: All units.
        depth: The level of the rows, 0 for the finest.
        area: The column with the codes of units; None if there is one unit alone.
    """
    queries = [query_of(schema, text) for text in table.queries]
    used = list(dict.fromkeys(variable.attribute.name for query in queries for variable in query.variables))
    query_number, cell = _match(table, content, queries, used)
    value = _values(table, content)
    if area is None:
        unit = np.zeros(content.num_rows, np.int64)
    else:
        unit = unit_of_code(content.column(area), geography.units[depth])
        lost = (unit < 0) & ~(value == 0)
        if lost.any():
            what, expected = "a unit has no block that the tables of blocks know", "units with blocks below them"
            raise rows_wrong(table, lost, "no-blocks", what, expected, "add the blocks, or remove the unit")
    marginals = []
    for number, query in enumerate(queries):
        here = np.flatnonzero((query_number == number) & (unit >= 0))
        start, cells, values = sparse(unit[here], cell[here], value[here], len(geography.units[depth]))
        key = unit[here] * query.cells + cell[here]
        _, first = np.unique(key, return_index=True)
        if len(first) < len(key):
            again = np.ones(len(here), bool)
            again[first] = False
            bad = np.zeros(content.num_rows, bool)
            bad[here[again]] = True
            what = "a cell is there twice"
            raise rows_wrong(table, bad, "cell-twice", what, "each cell of a unit once", "remove one of the rows")
        marginals.append(
            PublishedMarginal(
                table.name, depth, query, start, cells, values, table.variance, table.absent_unknown, table.bound
            )
        )
    return marginals


def _match(
    table: PublishedRows, content: pa.Table, queries: Sequence[Query], used: list[str]
) -> tuple[Integers, Integers]:
    """For each row its query and the cell of it."""
    query_number = np.full(content.num_rows, -1, np.int64)
    cell = np.zeros(content.num_rows, np.int64)
    twice = np.zeros(content.num_rows, bool)
    for number, query in enumerate(queries):
        by_name = {variable.attribute.name: variable for variable in query.variables}
        fits = np.ones(content.num_rows, bool)
        here = np.zeros(content.num_rows, np.int64)
        for name in used:
            column = content.column(name)
            variable = by_name.get(name)
            if variable is None:
                fits &= pc.is_in(column, pa.array([ALL, TOTAL_CODE])).to_numpy()
                continue
            group = group_of_label(column, variable)
            fits &= group >= 0
        for variable in query.variables:
            here = here * variable.size + group_of_label(content.column(variable.attribute.name), variable)
        twice |= fits & (query_number >= 0)
        query_number[fits] = number
        cell[fits] = here[fits]
    if twice.any():
        what = "a row is a cell of two queries"
        raise rows_wrong(table, twice, "two-queries", what, "queries with other labels", "rename labels")
    if (query_number < 0).any():
        what = "a row is not a cell of any query of the table"
        expected = f"labels or codes of {', '.join(table.queries)}; {ALL} where a query sums over an attribute"
        labels = content.select(used)
        remedy = "correct the row, or add a query"
        raise rows_wrong(table, query_number < 0, "no-cell", what, expected, remedy, labels)
    return query_number, cell


def group_of_label(column: pa.ChunkedArray, variable: Recode) -> Integers:
    """For each text the group of a variable that it names, by its label or (for an attribute as it is) its code."""
    names = {label: position for position, label in enumerate(variable.labels)}
    if variable.name == variable.attribute.name:
        for position, level in enumerate(variable.attribute.levels):
            names.setdefault(str(level.code), position)
    places = np.append(np.fromiter(names.values(), np.int64, len(names)), -1)
    index = pc.fill_null(pc.index_in(column, pa.array(list(names), pa.string())), len(names)).to_numpy()
    groups: Integers = places[index]
    return groups


def unit_of_code(codes: pa.ChunkedArray | Sequence[str], units: Sequence[str]) -> Integers:
    """For each code its place among the units, or -1."""
    texts = codes if isinstance(codes, pa.ChunkedArray) else pa.chunked_array([pa.array(codes, pa.string())])
    place = pc.fill_null(pc.index_in(texts, pa.array(units, pa.string())), -1)
    return np.asarray(place.to_numpy(), np.int64)


def _values(table: PublishedRows, content: pa.Table) -> Floats:
    text = pc.utf8_trim_whitespace(content.column("count"))
    blank = pc.fill_null(pc.equal(text, ""), fill_value=True)
    plain = pc.if_else(blank, pa.scalar("nan"), text)
    try:
        value: Floats = pc.cast(plain, pa.float64()).to_numpy().copy()
    except pa.ArrowInvalid:
        numbers = pc.match_substring_regex(plain, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^nan$").to_numpy()
        what, expected = "a count is not a number", "a number, or nothing where a count is not published"
        raise rows_wrong(table, ~numbers, "not-a-number", what, expected, "correct the row") from None
    value[blank.to_numpy()] = np.nan
    with np.errstate(invalid="ignore"):
        wrong = np.isinf(value) | (np.abs(value) > LARGEST)
        if table.variance is None:
            wrong |= (value < 0) | (value != np.rint(value)) & ~np.isnan(value)
    if wrong.any():
        if table.variance is not None:
            what, expected, remedy = "a count is too large", f"at most {LARGEST:,}", "correct the row"
        else:
            what = "an exact count is not a whole number from zero on, or is too large"
            expected = f"0, 1, 2, … {LARGEST:,}"
            remedy = 'correct the row; if the table has noise, say so: variance = "..."'
        raise rows_wrong(table, wrong, "not-a-count", what, expected, remedy)
    return value


def rows_wrong(
    table: PublishedRows, wrong: Any, code: str, what: str, expected: str, remedy: str, labels: pa.Table | None = None
) -> InputError:
    """A finding for each of the first rows that are wrong."""
    places = np.flatnonzero(wrong)
    found = "1 such row" if len(places) == 1 else f"{len(places):,} such rows"
    return InputError(
        Finding(
            code,
            f"table {table.name}: {what}",
            Place(file=table.file, row=int(row) + 1),
            found if labels is None else f"{_labelled(labels, int(row))}; {found}",
            expected,
            remedy,
        )
        for row in places[:ROWS_NAMED]
    )


def _labelled(labels: pa.Table, row: int) -> str:
    return ", ".join(f"{name} {str(labels.column(name)[row].as_py())[:40]!r}" for name in labels.column_names)


# Which block lies in which unit.


def nested(columns: Mapping[str, Sequence[str]], finest: str) -> PublishedGeography:
    """A geography from the codes of each block on every level; the levels must nest. Where two have as many units, the
    one named first is the finer."""
    blocks = sorted(dict.fromkeys(columns[finest]))
    row = {code: position for position, code in enumerate(columns[finest])}
    codes = {name: [column[row[block]] for block in blocks] for name, column in columns.items()}
    names = [finest, *sorted((n for n in codes if n != finest), key=lambda name: -len(set(codes[name])))]
    units = [tuple(blocks if name == finest else sorted(set(codes[name]))) for name in names]
    of_block = [unit_of_code(codes[name], listed) for name, listed in zip(names, units, strict=True)]
    for (lower, below), (upper, above) in pairwise(zip(names, of_block, strict=True)):
        pairs = np.unique(np.stack([below, above]), axis=1)
        if len(np.unique(pairs[0])) < pairs.shape[1]:
            across = _across(pairs, units[names.index(lower)])
            raise InputError(
                "geography/units",
                where=Place(file=None, row=None),
                lower=lower,
                upper=upper,
                across=across[0],
                number=len(across),
            )
    return PublishedGeography(tuple(names), tuple(units), tuple(of_block))


def _across(pairs: Integers, units: Sequence[str]) -> list[str]:
    """The units (first row) that are paired with several others (second row)."""
    number, times = np.unique(pairs[0], return_counts=True)
    return [units[unit] for unit in number[times > 1].tolist()]


# Whether tables agree with one another in what every reader can add up: the number of people of a unit.


def check_totals(published: Published) -> list[Finding]:
    """A finding for each unit whose exact tables count different numbers of people, and for each coarser unit whose
    blocks do not add up. Differences in finer figures are found when the programme is solved."""
    geography = published.geography
    first: dict[int, tuple[str, Floats]] = {}
    findings: list[Finding] = []
    for item in published.marginals:
        if not item.exact or item.totals is None:
            continue
        if item.depth in first:
            findings += _differences(published, item.depth, first[item.depth], (item.name, item.totals))
        else:
            first[item.depth] = (item.name, item.totals)
    if 0 in first:
        name, totals = first[0]
        for depth, (coarse, above) in first.items():
            if depth:
                of_block = geography.unit_of_block[depth]
                sums: Floats = np.bincount(of_block, totals, len(geography.units[depth])).astype(np.float64)
                label = f"{name}, summed over its {geography.levels[0]}s"
                findings += _differences(published, depth, (label, sums), (coarse, above))
    return findings


def _differences(published: Published, depth: int, one: tuple[str, Floats], two: tuple[str, Floats]) -> list[Finding]:
    with np.errstate(invalid="ignore"):
        apart = np.flatnonzero(np.abs(one[1] - two[1]) > 0)
    level, codes = published.geography.levels[depth], published.geography.units[depth]
    return [
        Finding.of(
            "totals-differ",
            where=Place(path=f"{one[0]}; {two[0]}"),
            level=level,
            its_code=codes[unit],
            one=one[1][unit],
            two=two[1][unit],
            apart=len(apart),
            more=len(apart) > UNITS_NAMED,
        )
        for unit in apart[:UNITS_NAMED].tolist()
    ]


# Tables in memory: see :meth:`confide.releases.published.Published.from_tables`.


def tables_in_memory(
    tables: Mapping[str, object],
    schema: Schema | str | Path,
    *,
    area: str | None,
    variance: Exact | None,
    bound: NoiseBound | None,
    absent_unknown: bool,
    zeros: tuple[ImpossibleCells, ...],
    source: str,
) -> Published:
    """Published tables from Arrow, pandas, polars or plain columns, by query."""
    if not tables:
        raise ParameterError("no-tables/nothing")
    attributes = schema if isinstance(schema, Schema) else load_schema(str(schema), Path())
    noise_variance = None if variance is None else exact(variance, "variance")
    findings: list[Finding] = []
    contents: dict[str, pa.Table] = {}
    for text, frame in tables.items():
        try:
            contents[text] = _text_columns(text, frame, query_of(attributes, text), area)
        except ConfideError as error:
            findings += error.findings
    if findings:
        raise InputError(findings)
    geography = one_unit()
    if area is not None:
        codes = sorted({code for content in contents.values() for code in content.column(area).to_pylist()})
        geography = nested({"block": codes}, "block")
    marginals: list[PublishedMarginal] = []
    for text, content in contents.items():
        rows = PublishedRows(text, (text,), noise_variance, bound, absent_unknown)
        try:
            marginals += marginals_of(rows, content, attributes, geography, 0, area)
        except InputError as error:
            findings += error.findings
    published = Published(attributes, geography, tuple(marginals), zeros, source)
    findings += [] if findings else check_totals(published)
    if findings:
        raise InputError(findings)
    return published


def _text_columns(name: str, frame: object, query: Query, area: str | None) -> pa.Table:
    """The columns that a table needs, as text."""
    table = _arrow_table(name, frame)
    needed = ["count", *(variable.attribute.name for variable in query.variables), *([] if area is None else [area])]
    lacking = [column for column in needed if column not in table.column_names]
    if lacking:
        raise InputError(
            Finding.of(
                "no-column/rename",
                where=Place(column=column),
                found=", ".join(table.column_names[:12]),
                name=name,
                column=column,
            )
            for column in lacking
        )
    columns = {}
    for column in needed:
        try:
            columns[column] = pc.cast(table.column(column), pa.string())
        except pa.ArrowException:
            raise InputError(
                "column-type/give-text", where=Place(file=name, column=column), type=table.column(column).type
            ) from None
    content = pa.table(columns)
    if area is not None:
        blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(content.column(area)), ""), fill_value=True).to_numpy()
        if blank.any():
            what, expected = f"a row has no code in the column {area!r}", "the code of a unit in every row"
            raise rows_wrong(
                PublishedRows(name, ()), blank, "no-unit", what, expected, "add the code, or remove the row"
            )
    return content


def _arrow_table(name: str, frame: object) -> pa.Table:
    """Anything that gives itself away as Arrow (pandas, polars, DuckDB), or plain columns by name."""
    if isinstance(frame, pa.Table):
        return frame
    try:
        if hasattr(frame, "__arrow_c_stream__") or isinstance(frame, Mapping | pa.RecordBatch):
            return pa.table(frame)
        if hasattr(frame, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(frame)
    except (pa.ArrowException, TypeError, ValueError):
        pass
    raise ParameterError("not-a-table/value", found=type(frame).__name__, name=name)
