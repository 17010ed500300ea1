"""Rows of published tables, read into marginals: every row against its query, with all problems at once.

A table has a row for each published figure: the unit, a column for each attribute (a label or code of the variable, or
``all`` where the row's query sums over it), and the count. Rows of several queries can stand in one table; a row
belongs to the query that has all its labels. A blank count is unknown: suppressed.

This is what folders of tables, releases and tables in memory have in common; what only releases have comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from confide.errors import ConfideError, Finding, InputError, ParameterError, Place, ReleaseError
from confide.exact import Exact, exact
from confide.inputs.table_files import read_text
from confide.lab.published import marginals as published_marginals
from confide.releases.folder import MANIFEST, SealedRelease
from confide.releases.tabular import Table
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
    bound: published_marginals.NoiseBound | None = None
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


def impossible(schema: Schema) -> tuple[published_marginals.ImpossibleCells, ...]:
    """What ships about combinations that no record of a schema has."""
    if schema.id not in shipped("attacks/impossible"):
        return ()
    by_name = {attribute.name: attribute for attribute in schema.attributes}
    return tuple(
        published_marginals.ImpossibleCells(
            {name: frozenset(codes_of(by_name[name], listed)) for name, listed in zero["where"].items()}
        )
        for zero in load_shipped("attacks/impossible", schema.id)["zeros"]
    )


# Rows to marginals.


def marginals_of(
    table: PublishedRows,
    content: pa.Table,
    schema: Schema,
    geography: published_marginals.PublishedGeography,
    depth: int,
    area: str | None,
) -> list[published_marginals.PublishedMarginal]:
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
            raise rows_wrong("no-blocks/unit", table, lost)
    marginals = []
    for number, query in enumerate(queries):
        here = np.flatnonzero((query_number == number) & (unit >= 0))
        start, cells, values = published_marginals.sparse(
            unit[here], cell[here], value[here], len(geography.units[depth])
        )
        key = unit[here] * query.cells + cell[here]
        _, first = np.unique(key, return_index=True)
        if len(first) < len(key):
            again = np.ones(len(here), bool)
            again[first] = False
            bad = np.zeros(content.num_rows, bool)
            bad[here[again]] = True
            raise rows_wrong("cell-twice/unit", table, bad)
        marginals.append(
            published_marginals.PublishedMarginal(
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
        raise rows_wrong("two-queries", table, twice)
    if (query_number < 0).any():
        labels, listed = content.select(used), ", ".join(table.queries)
        raise rows_wrong("no-cell", table, query_number < 0, labels, queries=listed, everything=ALL)
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
        raise rows_wrong("not-a-number/published", table, ~numbers) from None
    value[blank.to_numpy()] = np.nan
    with np.errstate(invalid="ignore"):
        wrong = np.isinf(value) | (np.abs(value) > LARGEST)
        if table.variance is None:
            wrong |= (value < 0) | (value != np.rint(value)) & ~np.isnan(value)
    if wrong.any():
        raise rows_wrong("not-a-count/published", table, wrong, noisy=table.variance is not None, largest=LARGEST)
    return value


def rows_wrong(key: str, table: PublishedRows, wrong: Any, labels: pa.Table | None = None, **facts: Any) -> InputError:
    """A finding for each of the first rows that are wrong."""
    places = np.flatnonzero(wrong)
    name, number = table.name, len(places)
    findings = []
    for row in places[:ROWS_NAMED].tolist():
        where, said = Place(file=table.file, row=row + 1), _labelled(labels, row)
        findings.append(Finding.of(key, where=where, labels=said, table=name, number=number, one=number == 1, **facts))
    return InputError(findings)


def _labelled(labels: pa.Table | None, row: int) -> str:
    names = [] if labels is None else labels.column_names
    texts = (f"{name} {str(labels.column(name)[row].as_py())[:40]!r}" for name in names)  # type: ignore[union-attr]
    return ", ".join(texts) + "; " * bool(names)


def refuse_blank(table: PublishedRows, content: pa.Table, column: str) -> None:
    """Refuses rows without the code of a unit."""
    blank = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(content.column(column)), ""), fill_value=True).to_numpy()
    if blank.any():
        raise rows_wrong("no-unit", table, blank, column=column)


# Which block lies in which unit.


def nested(columns: Mapping[str, Sequence[str]], finest: str) -> published_marginals.PublishedGeography:
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
    return published_marginals.PublishedGeography(tuple(names), tuple(units), tuple(of_block))


def _across(pairs: Integers, units: Sequence[str]) -> list[str]:
    """The units (first row) that are paired with several others (second row)."""
    number, times = np.unique(pairs[0], return_counts=True)
    return [units[unit] for unit in number[times > 1].tolist()]


# Whether tables agree with one another in what every reader can add up: the number of people of a unit.


def check_totals(published: published_marginals.Published) -> list[Finding]:
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


def _differences(
    published: published_marginals.Published, depth: int, one: tuple[str, Floats], two: tuple[str, Floats]
) -> list[Finding]:
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


# Tables in memory: see :meth:`confide.lab.published.marginals.Published.from_tables`.


def tables_in_memory(
    tables: Mapping[str, object],
    schema: Schema | str | Path,
    *,
    area: str | None,
    variance: Exact | None,
    bound: published_marginals.NoiseBound | None,
    absent_unknown: bool,
    zeros: tuple[published_marginals.ImpossibleCells, ...],
    source: str,
) -> published_marginals.Published:
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
    geography = published_marginals.one_unit()
    if area is not None:
        codes = sorted({code for content in contents.values() for code in content.column(area).to_pylist()})
        geography = nested({"block": codes}, "block")
    marginals: list[published_marginals.PublishedMarginal] = []
    for text, content in contents.items():
        rows = PublishedRows(text, (text,), noise_variance, bound, absent_unknown)
        try:
            marginals += marginals_of(rows, content, attributes, geography, 0, area)
        except InputError as error:
            findings += error.findings
    published = published_marginals.Published(attributes, geography, tuple(marginals), zeros, source)
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
        refuse_blank(PublishedRows(name, ()), content, area)
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


# What the releases of all mechanisms have in common when they are read back as published tables.
#
# The schema that the manifest names, files by their beginnings, tables with a level and an area, protected records, and
# the reasons why a release cannot be read so.


AREA, BLOCK = "area", "block"
KnownAreas = Mapping[str, Sequence[str]]
"""What everybody knows of the areas: for each level, ``block`` among them, the code of every smallest area in a row."""
RECORDS = ("tables/records.", "microdata/persons.")
PROTECTED = (
    "What was published are protected records: nothing is reconstructed beyond them, and the true ones may differ."
)
NOISE = "The counts have noise: the records are a fit, and not a reconstruction."
BOUNDED = "The noise never passes ±{}, and the records keep to that."


def no_groups(groups: Sequence[str], source: str) -> None:
    """Groups can be chosen in releases of SafeTab-P alone; raises for others."""
    if groups:
        raise ParameterError("no-groups/release", where=Place(path="--group"), found=source)


def not_attacked(found: str) -> ReleaseError:
    """The error of a release that counts nobody."""
    return ReleaseError("not-attacked", where=Place(file=MANIFEST, path="mechanism"), found=found)


def release_schema(named: Any, given: str | Path | None) -> Schema:
    """The schema of a release: one that ships, with the same fingerprint, or the file given."""
    named = named if isinstance(named, Mapping) else {"id": named}
    if given is not None:
        schema = load_schema(str(given), Path())
    elif named.get("id") in shipped("schemas"):
        schema = load_schema(str(named["id"]), Path())
    else:
        raise release_unlike("release-schema/absent", str(named.get("id")))
    if named.get("sha256") not in (None, schema.fingerprint):
        raise release_unlike("release-schema/other", schema.id)
    return schema


def release_unlike(key: str, found: str, **facts: object) -> ReleaseError:
    """The error of a release whose plan and files, or schema, do not belong together."""
    return ReleaseError(key, where=Place(file=MANIFEST, path="plan.question"), found=found, **facts)


def under_attributes(rows: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """Rows with their labels under the names of the attributes, without other columns of those names: the codes of the
    second layout, which are columns beside the labels."""
    attributes = set(columns.values())
    kept = [name for name in rows.column_names if name in columns or name not in attributes]
    return rows.select(kept).rename_columns([columns.get(name, name) for name in kept])


@dataclass(frozen=True, eq=False)
class ReadBack:
    """A release that is read back as published tables, with what else somebody who asks for them knows."""

    release: SealedRelease
    schema_file: str | Path | None = None
    """The schema, where that of the release does not ship."""
    groups: Sequence[str] = ()
    """Of SafeTab-P, the iteration codes of the groups that are wanted; all if there is none."""
    areas: KnownAreas | None = None

    def no_groups(self) -> None:
        """Refuses a choice of groups."""
        no_groups(self.groups, self.release.manifest["mechanism"])

    def schema(self, named: Any) -> Schema:
        """The attributes of the release, whose plan names them so; there are no groups to choose."""
        self.no_groups()
        return release_schema(named, self.schema_file)

    def rows(self, table: Table) -> pa.Table:
        """The rows of a table of the plan, as text, with labels under the names of attributes."""
        file = self.release.table(f"tables/{table.name}.")
        if file is None:
            raise release_unlike("release-schema/no-file", table.name)
        return under_attributes(read_text(file), table.attribute_columns)

    def published(
        self,
        schema: Schema,
        geography: published_marginals.PublishedGeography,
        marginals: Iterable[published_marginals.PublishedMarginal],
        *notes: str,
    ) -> published_marginals.Published:
        """What was read, with what a reader of the result should know."""
        return published_marginals.Published(
            schema, geography, tuple(marginals), impossible(schema), self.release.title, notes
        )

    def records(self, file: Path, schema: Schema) -> published_marginals.Published:
        """Released records as one table with all their attributes: the *protected* records, and nothing beyond them."""
        rows, release = read_text(file), self.release
        attributes = [attribute for attribute in schema.attributes if attribute.name in rows.column_names]
        block = (release.facts.get("microdata") or release.facts.get("layout") or {}).get("block", "geocode")
        units = release.table("tables/units.")
        finest, *levels = [*reversed(release.manifest["plan"].get("spine", ()))] or [BLOCK]
        frame = rows if units is None else read_text(units)
        columns = {finest: frame.column(block).to_pylist()}
        columns |= {name: frame.column(name).to_pylist() for name in levels if name in frame.column_names}
        geography = nested(columns, finest)
        query = Query(tuple(schema.variable(attribute.name) for attribute in attributes))
        cell = np.zeros(rows.num_rows, np.int64)
        for variable in query.variables:
            cell = cell * variable.size + group_of_label(rows.column(variable.attribute.name), variable)
        unit = unit_of_code(rows.column(block), geography.blocks)
        key, count = np.unique(unit * query.cells + cell, return_counts=True)
        arrays = published_marginals.sparse(
            key // query.cells, key % query.cells, count.astype(np.float64), len(geography.blocks)
        )
        marginal = published_marginals.PublishedMarginal("records", 0, query, *arrays)
        return published_marginals.Published(schema, geography, (marginal,), (), release.title, (PROTECTED,))


@dataclass(frozen=True, eq=False)
class AreaTables:
    """Tables of a release that have a column for the level and one for the area."""

    geography: published_marginals.PublishedGeography
    rows: tuple[tuple[PublishedRows, str, pa.Table], ...]
    """For each table and level its rows."""
    levels_left_out: tuple[str, ...]
    """Levels whose areas do not nest in the others."""

    @classmethod
    def read(cls, asked: ReadBack, tables: Iterable[tuple[Table, PublishedRows]], spine: Sequence[str]) -> AreaTables:
        """The tables of a release, with what is said of their rows, over the levels of a spine, coarsest first."""
        contents: list[tuple[PublishedRows, str, pa.Table]] = []
        units: dict[str, list[str]] = {}
        left_out: list[str] = []
        for table, said in tables:
            rows = asked.rows(table)
            for level in table.levels:
                here = rows.filter(pc.equal(rows.column("level"), level))
                if level in spine:
                    contents.append((said, level, here))
                    units.setdefault(level, []).extend(dict.fromkeys(here.column(AREA).to_pylist()))
                elif level not in left_out:
                    left_out.append(level)
        geography = _by_prefix(units, spine) if asked.areas is None else _by_list(units, spine, asked.areas)
        left_out += [level for level in units if level not in geography.levels]
        on_levels = tuple(content for content in contents if content[1] in geography.levels)
        return cls(geography, on_levels, tuple(left_out))

    def marginals(
        self, schema: Schema
    ) -> Iterator[tuple[PublishedRows, str, list[published_marginals.PublishedMarginal]]]:
        """For each table and level its marginals, in the order of its queries."""
        for table, level, rows in self.rows:
            depth = self.geography.depth(level)
            yield table, level, marginals_of(table, rows, schema, self.geography, depth, AREA)

    @property
    def notes(self) -> tuple[str, ...]:
        """That levels are left out, if some are."""
        names = ", ".join(self.levels_left_out)
        why = "their codes do not say which areas lie in them; a list of the areas does (--geography)"
        return (f"Tables of {names} are left out: {why}.",) if names else ()


def _by_prefix(units: Mapping[str, Sequence[str]], spine: Sequence[str]) -> published_marginals.PublishedGeography:
    """Levels of a spine whose codes begin with the codes of the level above; others are dropped.

    Codes of different lengths may begin alike by chance: areas that are joined wrongly make an attack fail, which looks
    like safety. Then nothing is taken from them.
    """
    there = [level for level in reversed(spine) if level in units]
    finest = there[0]
    blocks = sorted(set(units[finest]))
    columns = {finest: blocks}
    regular = len({len(block) for block in blocks}) == 1
    for level in there[1:] if regular else ():
        codes = set(units[level])
        lengths = {len(code) for code in codes}
        if len(lengths) == 1 and all(block[: next(iter(lengths))] in codes for block in blocks):
            columns[level] = [block[: next(iter(lengths))] for block in blocks]
    return nested(columns, finest)


def _by_list(
    units: Mapping[str, Sequence[str]], spine: Sequence[str], areas: KnownAreas
) -> published_marginals.PublishedGeography:
    """Levels of a spine as a list of areas has them; levels that it does not have are dropped."""
    there = [level for level in reversed(spine) if level in units]
    finest = there[0]
    if finest not in areas:
        raise InputError(
            "geography/row-smallest-area", where=Place(path="--geography"), finest=finest, areas=", ".join(areas)
        )
    row_of = {code: row for row, code in enumerate(areas[finest])}
    blocks = sorted(set(units[finest]))
    unknown = [block for block in blocks if block not in row_of]
    if unknown:
        raise InputError(
            "geography/area-tables-listed", where=Place(path="--geography"), finest=finest, unknown=len(unknown)
        )
    columns: dict[str, list[str]] = {finest: blocks}
    for level in there[1:]:
        if level not in areas:
            continue
        columns[level] = [areas[level][row_of[block]] for block in blocks]
        strangers = set(units[level]) - set(columns[level])
        if strangers:
            raise InputError("geography/areas", where=Place(path="--geography"), level=level, strangers=len(strangers))
    return nested(columns, finest)
