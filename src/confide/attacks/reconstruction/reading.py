"""A folder of tables, read: every file against its description, with all problems at once.

A file has a row for each published figure: the unit, a column for each attribute (a label or code of the variable, or
``all`` where the row's query sums over it), and the count. Rows of several queries can stand in one file; a row
belongs to the query that has all its labels. A blank count is unknown: suppressed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.attacks.reconstruction.description import (
    BLOCK,
    DESCRIPTION,
    Description,
    GeographyPart,
    TablePart,
    query_of,
    read_description,
    zeros_of,
)
from confide.attacks.reconstruction.marginals import (
    Bound,
    Floats,
    Geography,
    Integers,
    Marginal,
    Published,
    group_of_unit,
    one_unit,
    sparse,
)
from confide.attacks.table_files import read_text
from confide.errors import Finding, InputError, Place
from confide.schema import Query, Recode, Schema

# Whether tables agree with one another in what every reader can add up: the number of people of a unit.


NAMED = 5


def check_totals(published: Published) -> list[Finding]:
    """A finding for each unit whose exact tables count different numbers of people, and for each coarser unit whose
    blocks do not add up. Differences in finer figures are found when the programme is solved."""
    geography = published.geography
    known: list[tuple[Marginal, Floats]] = [
        (item, item.totals) for item in published.marginals if item.exact and item.totals is not None
    ]
    findings: list[Finding] = []
    first: dict[int, tuple[str, Floats]] = {}
    for item, totals in known:
        if item.depth not in first:
            first[item.depth] = (item.name, totals)
            continue
        name, other = first[item.depth]
        findings += _differences(published, item.depth, (name, other), (item.name, totals))
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
        Finding(
            code="totals-differ",
            what=f"two tables count different numbers of people in {level} {codes[unit]}",
            where=Place(path=f"{one[0]}; {two[0]}"),
            found=f"{one[1][unit]:,.0f} and {two[1][unit]:,.0f}"
            + (f"; {len(apart):,} such units" if len(apart) > NAMED else ""),
            expected="the same number, because both are said to be exact",
            remedy='correct the tables; if they have noise, say so: variance = "..."',
        )
        for unit in apart[:NAMED].tolist()
    ]


# Which block lies in which unit: by the first digits of its code, or by a column of a file of blocks.


def find_geography(folder: Path, part: GeographyPart, units: Mapping[str, Sequence[str]]) -> Geography:
    """The geography of a description; ``units`` has the codes that tables of each level name.

    Where no table is of blocks and no file lists them, the finest level with tables takes their place.
    """
    columns = _columns(folder, part, units)
    if not columns[BLOCK]:
        left = [level for level in part.levels if units.get(level.name)]
        if not left:
            raise _wrong(None, "the tables have no unit at all", "no rows", "a row for each unit that has people")
        finest = max(left, key=lambda level: level.digits or 0)
        columns = {finest.name: list(units[finest.name])}
        for level in part.levels:
            if level.name != finest.name and level.digits is not None and level.digits < (finest.digits or 0):
                columns[level.name] = [code[: level.digits] for code in columns[finest.name]]
        return nested(columns, finest.name)
    return nested(columns, BLOCK)


def _columns(folder: Path, part: GeographyPart, units: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """For each block its code and the code of its unit on every level."""
    blocks = list(units.get(BLOCK, ()))
    listed = None if part.blocks is None else read_text(folder / part.blocks)
    if listed is not None:
        wanted = [part.block, *(level.column for level in part.levels if level.column is not None)]
        lacking = [name for name in wanted if name not in listed.column_names]
        if lacking:
            found = "columns " + ", ".join(listed.column_names[:12])
            what = f"the file of blocks has no column {lacking[0]!r}"
            raise _wrong(part.blocks, what, found, "a column for each level")
        for name in wanted:
            codes = listed.column(name).to_pylist()
            blank = [row for row, code in enumerate(codes) if not (code or "").strip()]
            if blank:
                what = f"a row has no code in the column {name!r}"
                raise _wrong(part.blocks, what, f"{len(blank):,} without", "a code in every row", row=blank[0] + 1)
        known: dict[str, int] = {}
        for row, code in enumerate(listed.column(part.block).to_pylist()):
            if known.setdefault(code, row) < row:
                raise _wrong(part.blocks, "a block is listed twice", f"block {code}", "each block once", row=row + 1)
        unknown = [code for code in blocks if code not in known]
        if unknown:
            what, found = "a block of the tables is not listed", f"block {unknown[0]}, one of {len(unknown):,}"
            raise _wrong(part.blocks, what, found, "every block")
        blocks = list(known)
    columns = {BLOCK: blocks}
    for level in sorted(part.levels, key=lambda each: -(each.digits or 0)):
        if level.digits is not None:
            columns[level.name] = [code[: level.digits] for code in blocks]
        elif listed is not None:
            columns[level.name] = listed.column(level.column).to_pylist()
    return columns


def nested(columns: Mapping[str, Sequence[str]], finest: str) -> Geography:
    """A geography from the codes of each block on every level; the levels must nest. Where two have as many units, the
    one named first is the finer."""
    blocks = sorted(dict.fromkeys(columns[finest]))
    row = {code: position for position, code in enumerate(columns[finest])}
    codes = {name: [column[row[block]] for block in blocks] for name, column in columns.items()}
    names = [finest, *sorted((n for n in codes if n != finest), key=lambda name: -len(set(codes[name])))]
    units = [tuple(blocks if name == finest else sorted(set(codes[name]))) for name in names]
    of_block = [group_of_unit(codes[name], listed) for name, listed in zip(names, units, strict=True)]
    for (lower, below), (upper, above) in pairwise(zip(names, of_block, strict=True)):
        pairs = np.unique(np.stack([below, above]), axis=1)
        if len(np.unique(pairs[0])) < pairs.shape[1]:
            across = _across(pairs, units[names.index(lower)])
            found = f"{lower} {across[0]} in several of them, one of {len(across):,}"
            raise _wrong(None, f"the units of {lower} do not lie in units of {upper}", found, "levels that nest")
    return Geography(tuple(names), tuple(units), tuple(of_block))


def _across(pairs: Integers, units: Sequence[str]) -> list[str]:
    """The units (first row) that are paired with several others (second row)."""
    number, times = np.unique(pairs[0], return_counts=True)
    return [units[unit] for unit in number[times > 1].tolist()]


def _wrong(file: str | None, what: str, found: str, expected: str, row: int | None = None) -> InputError:
    remedy = "correct the geography of the description, or the file of blocks"
    return InputError("geography", what, Place(file=file, row=row), found, expected, remedy)


ALL, TOTAL_CODE = "all", "_T"
"""What stands where a row sums over an attribute: ours, and that of SDMX."""
ROWS_NAMED = 5
LARGEST = 2**52
"""The largest count: sums of a few stay exact."""


def read_tables(folder: str | Path) -> Published:
    """The tables of a folder with a ``tables.toml``.

    :raises ConfideError: with a finding for each problem: file, row, what is wrong and what to do.
    """
    folder = Path(folder)
    description, schema = read_description(folder / DESCRIPTION)
    findings: list[Finding] = []
    rows: list[pa.Table | None] = []
    for table in description.tables:
        try:
            rows.append(_read_file(folder, table, schema, description))
        except InputError as error:
            findings += error.findings
            rows.append(None)
    if findings:
        raise InputError(findings)
    geography, names = _geography(folder, description, rows)
    marginals: list[Marginal] = []
    for table, content in zip(description.tables, rows, strict=True):
        try:
            depth = geography.depth(table.level) if description.geography is not None else 0
            marginals += marginals_of(table, content, schema, geography, depth, names)
        except InputError as error:
            findings += error.findings
    published = Published(
        schema, geography, tuple(marginals), zeros_of(description.zeros, schema), description.title or folder.name
    )
    findings += [] if findings else check_totals(published)
    if findings:
        raise InputError(findings)
    return published


def _geography(folder: Path, description: Description, rows: Sequence[Any]) -> tuple[Geography, str | None]:
    """The units, and the column that has them."""
    part = description.geography
    if part is None:
        return one_unit(), None
    units: dict[str, list[str]] = {}
    for table, content in zip(description.tables, rows, strict=True):
        units.setdefault(table.level, []).extend(content.column(_unit_column(content, part.block, table)).to_pylist())
    return find_geography(folder, part, {level: sorted(set(codes)) for level, codes in units.items()}), part.block


def _unit_column(content: pa.Table, block: str, table: TablePart) -> str:
    return block if block in content.column_names or table.level == BLOCK else table.level


def _read_file(folder: Path, table: TablePart, schema: Schema, description: Description) -> pa.Table:
    """All rows as text, under our names; every column that is needed is there."""
    path = folder / str(table.file)
    content = read_text(path)
    ours = {theirs: name for name, theirs in table.columns.items()}
    if "count" not in table.columns:
        ours[table.count] = "count"
    findings = [_no_column(table, path.name, theirs, content) for theirs in ours if theirs not in content.column_names]
    if findings:
        raise InputError(findings)
    # A column that another one takes the name of is not ours to read.
    kept = [name for name in content.column_names if name in ours or name not in ours.values()]
    content = content.select(kept).rename_columns([ours.get(name, name) for name in kept])
    needed = ["count", *dict.fromkeys(v.attribute.name for q in table.queries for v in query_of(schema, q).variables)]
    missing = [name for name in needed if name not in content.column_names]
    if description.geography is not None:
        unit = _unit_column(content, description.geography.block, table)
        if unit not in content.column_names:
            missing.append(description.geography.block)
        elif not missing:
            _refuse_blank(table, path.name, content, unit)
    if missing:
        raise InputError(_no_column(table, path.name, name, content) for name in missing)
    return content


def _no_column(table: TablePart, file: str, name: str, content: pa.Table) -> Finding:
    return Finding(
        code="no-column",
        what=f"table {table.name} has no column {name!r}",
        where=Place(file=file, column=name),
        found=", ".join(content.column_names[:12]),
        expected=f"a column {name}",
        remedy='add it, or say in the description under which name it is there: columns = { OURS = "THEIRS" }',
    )


def _refuse_blank(table: TablePart, file: str, content: pa.Table, unit: str) -> None:
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(content.column(unit)), ""), fill_value=True).to_numpy()
    if blank.any():
        what, expected = f"a row has no code in the column {unit!r}", "the code of a unit in every row"
        raise _rows_wrong(table, file, blank, "no-unit", what, expected, "add the code, or remove the row")


def marginals_of(
    table: TablePart, content: pa.Table, schema: Schema, geography: Geography, depth: int, block: str | None
) -> list[Marginal]:
    """The rows of one table as marginals, one for each of its queries."""
    file = str(table.file)
    queries = [query_of(schema, text) for text in table.queries]
    used = list(dict.fromkeys(variable.attribute.name for query in queries for variable in query.variables))
    query_number, cell = _match(table, file, content, queries, used)
    value = _values(table, file, content)
    if block is None:
        unit = np.zeros(content.num_rows, np.int64)
    else:
        codes = content.column(_unit_column(content, block, table)).to_pylist()
        unit = group_of_unit(codes, geography.units[depth])
        lost = (unit < 0) & ~(value == 0)
        if lost.any():
            what, expected = "a unit has no block that the tables of blocks know", "units with blocks below them"
            raise _rows_wrong(table, file, lost, "no-blocks", what, expected, "add the blocks, or remove the unit")
    result = []
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
            raise _rows_wrong(
                table, file, bad, "cell-twice", what, "each cell of a unit once", "remove one of the rows"
            )
        unknown = table.absent == "unknown"
        bound = None if table.bound is None else Bound(table.bound, table.zeros_kept)
        result.append(Marginal(table.name, depth, query, start, cells, values, table.variance, unknown, bound))
    return result


def _match(
    table: TablePart, file: str, content: pa.Table, queries: Sequence[Query], used: list[str]
) -> tuple[Integers, Integers]:
    """For each row its query and the cell of it."""
    found = np.full(content.num_rows, -1, np.int64)
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
        twice |= fits & (found >= 0)
        found[fits] = number
        cell[fits] = here[fits]
    if twice.any():
        what = "a row is a cell of two queries"
        raise _rows_wrong(table, file, twice, "two-queries", what, "queries with other labels", "rename labels")
    if (found < 0).any():
        what = "a row is not a cell of any query of the table"
        expected = f"labels or codes of {', '.join(table.queries)}; {ALL} where a query sums over an attribute"
        labels = content.select(used)
        raise _rows_wrong(table, file, found < 0, "no-cell", what, expected, "correct the row, or add a query", labels)
    return found, cell


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


def _values(table: TablePart, file: str, content: pa.Table) -> Floats:
    text = pc.utf8_trim_whitespace(content.column("count"))
    blank = pc.fill_null(pc.equal(text, ""), fill_value=True)
    plain = pc.if_else(blank, pa.scalar("nan"), text)
    try:
        value: Floats = pc.cast(plain, pa.float64()).to_numpy().copy()
    except pa.ArrowInvalid:
        numbers = pc.match_substring_regex(plain, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^nan$").to_numpy()
        what, expected = "a count is not a number", "a number, or nothing where a count is not published"
        raise _rows_wrong(table, file, ~numbers, "not-a-number", what, expected, "correct the row") from None
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
        raise _rows_wrong(table, file, wrong, "not-a-count", what, expected, remedy)
    return value


def _rows_wrong(
    table: TablePart,
    file: str,
    wrong: Any,
    code: str,
    what: str,
    expected: str,
    remedy: str,
    labels: pa.Table | None = None,
) -> InputError:
    places = np.flatnonzero(wrong)
    found = "1 such row" if len(places) == 1 else f"{len(places):,} such rows"
    return InputError(
        Finding(
            code,
            f"table {table.name}: {what}",
            Place(file=file, row=int(row) + 1),
            found if labels is None else f"{_labelled(labels, int(row))}; {found}",
            expected,
            remedy,
        )
        for row in places[:ROWS_NAMED]
    )


def _labelled(labels: pa.Table, row: int) -> str:
    return ", ".join(f"{name} {str(labels.column(name)[row].as_py())[:40]!r}" for name in labels.column_names)
