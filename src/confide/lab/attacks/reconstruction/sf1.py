"""Tables made from records, as a folder that the attack can read: to try it on one's own data before publishing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.answers import AnswerPart, TypedAnswer
from confide.arrays import Integers
from confide.documents import load_schema, schema_document, schema_text
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place
from confide.file_system import PRIVATE_FILE, private_folder, write_text
from confide.inputs.frame import codes_meant
from confide.inputs.table_files import read_records, read_text, write_file
from confide.lab.attacks.reconstruction import description as reconstruction_description
from confide.lab.published.published_rows import KnownAreas, query_of
from confide.schema import ALL, NO_GROUP, Attribute, Query, Schema

SF1 = "sf1-2010"
AREAS = "areas.csv"
"""The list of areas that is written beside tables whose codes do not say what lies in what."""


@dataclass(frozen=True)
class TablesFolder(TypedAnswer):
    """A folder of tables made from records, as confidential as these until somebody decides to publish them."""

    folder: Path

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files, ``tables.toml`` among them."""
        return tuple(sorted(path.name for path in self.folder.iterdir()))

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"ok": True, "folder": str(self.folder), "files": list(self.files)}

    def described(self) -> Iterator[AnswerPart]:
        """How many tables there are, and where."""
        named = len([name for name in self.files if name.endswith((".parquet", ".csv"))])
        yield f"{named - ('areas.csv' in self.files)} tables and tables.toml: {self.folder}"


def tabulate_sf1(
    records: str | Path, folder: str | Path, *, tables: Sequence[str] | None = None, tract_digits: int = 11
) -> TablesFolder:
    """The person tables of Summary File 1 for a file of records (``confide attack tabulate``).

    Args:
        records: Person records with geocode, sex, age, cenrace and hispanic (CSV or Parquet).
        folder: Where the tables go: a new or empty folder.
        tables: The names of those wanted, such as ``P12``; all by default.
        tract_digits: How many digits of a geocode are the tract; 0: no tables of tracts.

    Returns:
        The folder, as confidential as the records.

    >>> made = tabulate_sf1(project / "persons.parquet", tmp_path / "tables", tables=["P1"])
    >>> made.folder.name
    'tables'
    """
    levels = [("tract", tract_digits)] if tract_digits else []
    return TablesFolder(write_sf1_tables(read_records(records), folder, levels=levels, tables=tables))


def write_sf1_tables(
    records: pa.Table,
    folder: str | Path,
    *,
    levels: Sequence[tuple[str, int]] = (("tract", 11),),
    tables: Sequence[str] | None = None,
    block: str = "geocode",
    format_: str = "parquet",
) -> Path:
    """The person tables of Summary File 1 for these records, as a folder with a ``tables.toml``.

    Args:
        records: A row for each person: the columns of ``block``, sex, age, cenrace and hispanic, with the codes of the
            schema ``persons``.
        folder: A new or empty folder, or one with a ``tables.toml`` to write over.
        levels: The geolevels, each with how many first digits of a block's code are its own.
        tables: The names of those wanted; all 34 by default.
        block: The column with the code of the block.
        format_: ``parquet`` or ``csv``.

    Returns:
        The folder.
    """
    description, schema = reconstruction_description.load_description(SF1)
    return write_tables(
        records,
        folder,
        description,
        schema,
        levels=levels,
        tables=tables,
        block=block,
        schema_name=SF1,
        format_=format_,
    )


def write_tables(
    records: pa.Table,
    folder: str | Path,
    description: reconstruction_description.TablesDescription,
    schema: Schema,
    *,
    schema_name: str,
    levels: Sequence[tuple[str, int]] = (),
    tables: Sequence[str] | None = None,
    block: str = "geocode",
    format_: str = "parquet",
    areas: KnownAreas | None = None,
) -> Path:
    """The tables of a description for these records. Cells without people are left out, which says zero.

    The folder is as confidential as the records until somebody decides to publish the tables. Levels are the first
    digits of a block's code, or what the list ``areas`` says; the list is then written beside the tables.
    """
    folder = Path(folder)
    by_list = [] if areas is None else [name for name in areas if name != reconstruction_description.BLOCK]
    chosen = _chosen(description, tables, [reconstruction_description.BLOCK, *(name for name, _ in levels), *by_list])
    codes = _codes_of_records(records, block, dict(levels), areas)
    places = {level: np.unique(codes[level], return_inverse=True) for level in {table.level for table in chosen}}
    indices = _indices(records, schema, chosen)
    _make(folder)
    inside = [f'{{ name = "{name}", digits = {number} }}' for name, number in levels]
    inside += [f'{{ name = "{name}", column = "{name}" }}' for name in by_list]
    lines = [f'schema = "{schema_name}"', f"title = {_quoted(description.title)}", "", "[geography]"]
    lines += [f"block = {_quoted(block)}", f"levels = [{', '.join(inside)}]"]
    if areas is not None:
        lines += [f'blocks = "{AREAS}"']
        listed = {block: areas[reconstruction_description.BLOCK]} | {name: areas[name] for name in by_list}
        write_file(pa.table(listed), folder / AREAS, mode=PRIVATE_FILE)
    for number, table in enumerate(chosen, 1):
        units, unit = places[table.level]
        file = f"{_file_name(table.name, number, [each.name for each in chosen])}.{format_}"
        write_file(_tabulate(table, schema, indices, units, unit, block), folder / file, mode=PRIVATE_FILE)
        queries = ", ".join(_quoted(text) for text in table.queries)
        lines += ["", "[[tables]]", f"name = {_quoted(table.name)}", f"title = {_quoted(table.title)}"]
        lines += [f'level = "{table.level}"', f'file = "{file}"', f"queries = [{queries}]"]
    write_text(folder / reconstruction_description.DESCRIPTION, "\n".join(lines) + "\n")
    return folder


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _file_name(name: str, number: int, names: Sequence[str]) -> str:
    """The name of a table's file: its own in small letters, where that is a name and no other table has it."""
    alike = [each for each in names if each.lower() == name.lower()]
    return name.lower() if re.fullmatch(r"[\w.-]+", name) and len(alike) == 1 else f"table-{number}"


def _codes_of_records(
    records: pa.Table, block: str, digits: Mapping[str, int], areas: KnownAreas | None
) -> dict[str, Any]:
    """For each level the code of every record's unit."""
    codes = np.array(_geocodes(records, block), dtype=np.str_)
    of_level = {reconstruction_description.BLOCK: codes} | {
        level: _prefix(codes, number) for level, number in digits.items()
    }
    if areas is None:
        return of_level
    row_of = {code: row for row, code in enumerate(areas[reconstruction_description.BLOCK])}
    rows = np.array([row_of.get(code, -1) for code in codes.tolist()], np.int64)
    if (rows < 0).any():
        raise InputError(
            "unknown-area/records",
            where=Place(column=block, row=int(np.flatnonzero(rows < 0)[0]) + 1),
            found=CONFIDENTIAL,
            less=int((rows < 0).sum()),
        )
    return of_level | {
        level: np.array(listed, dtype=np.str_)[rows]
        for level, listed in areas.items()
        if level != reconstruction_description.BLOCK
    }


def _make(folder: Path) -> None:
    """The folder, for its owner alone. One that holds something else is left as it is."""
    try:
        taken = (
            folder.exists() and not (folder / reconstruction_description.DESCRIPTION).exists() and any(folder.iterdir())
        )
        found = "a folder with other files" if taken else ""
        if not taken:
            private_folder(folder)
    except OSError as error:
        found = "a file of this name" if folder.is_file() else error.strerror or type(error).__name__
    if found:
        raise ParameterError(
            "folder", where=Place(file=folder.name), found=found, description=reconstruction_description.DESCRIPTION
        )


def _geocodes(records: pa.Table, block: str) -> list[str]:
    """The code of every record's block: text, because numbers have lost their leading zeros."""
    if block not in records.column_names:
        raise InputError(_no_column(block))
    column = records.column(block)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError("column-type/geocodes", where=Place(column=block), kind=kind)
    codes: list[str] = column.cast(pa.string()).to_pylist()
    blank = [row for row, code in enumerate(codes) if not (code or "").strip()]
    if blank or not codes:
        place = Place(row=blank[0] + 1 if blank else None, column=block)
        raise InputError("no-geocode" if blank else "no-records/correct", where=place, blank=blank, number=len(blank))
    return codes


def _no_column(name: str) -> Finding:
    return Finding.of("no-column/records", where=Place(column=name), name=name)


def _prefix(codes: Any, digits: int) -> Any:
    return np.array([code[:digits] for code in codes.tolist()], dtype=np.str_)


def _chosen(
    description: reconstruction_description.TablesDescription, tables: Sequence[str] | None, levels: Sequence[str]
) -> list[reconstruction_description.TableFilePart]:
    tables_by_name = {table.name: table for table in description.tables if table.level in levels}
    wanted = list(tables_by_name) if tables is None else list(tables)
    missing = [name for name in wanted if name not in tables_by_name]
    if missing or not wanted:
        raise ParameterError(
            "no-table/add",
            where=Place(path="tables"),
            missing=", ".join(missing),
            tables_by_name=", ".join(tables_by_name),
        )
    return [tables_by_name[name] for name in wanted]


def _indices(
    records: pa.Table, schema: Schema, tables: Sequence[reconstruction_description.TableFilePart]
) -> dict[str, Integers]:
    """For each attribute in use the level of every record."""
    used = {v.attribute.name for table in tables for text in table.queries for v in query_of(schema, text).variables}
    result: dict[str, Integers] = {}
    for attribute in schema.attributes:
        if attribute.name not in used:
            continue
        if attribute.name not in records.column_names:
            raise InputError(_no_column(attribute.name))
        if pa.types.is_nested(records.schema.field(attribute.name).type):
            raise InputError(_no_codes(attribute, row=None))
        values = records.column(attribute.name).to_pylist()
        index = np.fromiter((attribute.index.get(value, -1) for value in values), np.int64, len(values))
        if (index < 0).any():
            raise InputError(_no_codes(attribute, int(np.flatnonzero(index < 0)[0]) + 1))
        result[attribute.name] = index
    return result


def _no_codes(attribute: Attribute, row: int | None) -> Finding:
    return Finding.of(
        "bad-code/record",
        where=Place(row=row, column=attribute.name),
        found=CONFIDENTIAL,
        attribute=attribute.name,
        describe_codes=attribute.describe_codes(),
    )


def _tabulate(
    table: reconstruction_description.TableFilePart,
    schema: Schema,
    indices: dict[str, Integers],
    units: Any,
    unit: Integers,
    block: str,
) -> pa.Table:
    queries = [query_of(schema, text) for text in table.queries]
    used = list(dict.fromkeys(v.attribute.name for query in queries for v in query.variables))
    parts = [_count(query, used, indices, units, unit, block) for query in queries]
    return pa.concat_tables(parts)


def _count(
    query: Query, used: list[str], indices: dict[str, Integers], units: Any, unit: Integers, block: str
) -> pa.Table:
    cell = np.zeros(len(unit), np.int64)
    inside = np.ones(len(unit), bool)
    for variable in query.variables:
        group = variable.assignment[indices[variable.attribute.name]]
        inside &= group != NO_GROUP
        cell = cell * variable.size + group
    key, count = np.unique(unit[inside] * query.cells + cell[inside], return_counts=True)
    columns: dict[str, Any] = {block: pa.array(units[key // query.cells].tolist(), pa.string())}
    places = np.unravel_index(key % query.cells, query.shape) if query.variables else ()
    by_name = {v.attribute.name: (v, place) for v, place in zip(query.variables, places, strict=True)}
    for name in used:
        if name in by_name:
            variable, place = by_name[name]
            columns[name] = pa.array(variable.labels, pa.string()).take(pa.array(place))
        else:
            columns[name] = pa.array([ALL] * len(key), pa.string())
    columns["count"] = pa.array(count.astype(np.int64))
    return pa.table(columns)


# Tables of any country from its records, as a folder that the attack can read: own schema, areas and list of tables.
#
# What the tables are is said by a file in the form of ``tables.toml``, in which tables need no file yet; or,
# without one, they are all pairs of attributes of a schema on every level.


SCHEMA = "schema.toml"


def read_areas(file: str | Path, block: str = "geocode", levels: Sequence[str] = ()) -> dict[str, list[str]]:
    """A list of areas: one row for each smallest one, with its code and those of the areas that it lies in.

    Args:
        file: CSV or Parquet.
        block: The column with the code of the smallest area.
        levels: ``NAME`` (a column), ``NAME=COLUMN``, or ``NAME=DIGITS`` (first characters of the code). None: every
            other column is a level.

    Returns:
        For each level, ``block`` among them, the codes of all rows.

    >>> sorted(read_areas(project / "blocks.parquet", levels=["county=5"]))
    ['block', 'county']
    """
    path = Path(file)
    rows = read_text(path)
    rules = {reconstruction_description.BLOCK: block} | dict(
        _rule(text) for text in levels or [n for n in rows.column_names if n != block]
    )
    columns: dict[str, list[str]] = {}
    for name, rule in rules.items():
        if rule.isdigit() and rule not in rows.column_names:
            columns[name] = [code[: int(rule)] for code in columns[reconstruction_description.BLOCK]]
            continue
        if rule not in rows.column_names:
            raise InputError(
                "geography/list-areas-column",
                where=Place(file=path.name, column=rule, row=None),
                found=", ".join(rows.column_names[:12]),
                rule=rule,
            )
        columns[name] = [code or "" for code in rows.column(rule).to_pylist()]
        blank = next((row for row, code in enumerate(columns[name], 1) if not code.strip()), None)
        if blank is not None and (levels or name == reconstruction_description.BLOCK):
            raise InputError("geography/area-code", where=Place(file=path.name, column=rule, row=blank))
    seen: dict[str, int] = {}
    for row, code in enumerate(columns[reconstruction_description.BLOCK], 1):
        if seen.setdefault(code, row) < row:
            raise InputError(
                "geography/area-listed", where=Place(file=path.name, column=block, row=row), seen=seen[code]
            )
    return columns


def _rule(text: str) -> tuple[str, str]:
    name, equals, rule = text.partition("=")
    if not name.strip() or (equals and not rule.strip()) or name.strip() == reconstruction_description.BLOCK:
        raise ParameterError(
            "bad-level/name",
            where=Place(path="--geography-level"),
            found=text[:60],
            block=reconstruction_description.BLOCK,
        )
    return name.strip(), rule.strip() or name.strip()


def tabulate_records(
    records: str | Path,
    folder: str | Path,
    *,
    schema: str | Path | None = None,
    geography: str | Path | None = None,
    block: str = "geocode",
    levels: Sequence[str] = (),
    describe: str | Path | None = None,
    tables: Sequence[str] | None = None,
) -> TablesFolder:
    """The tables of a file of records, of any schema and geography (``confide attack tabulate``).

    Args:
        records: CSV or Parquet: a row for each person, with the column ``block`` and the attributes of the schema.
        folder: Where the tables go: a new or empty folder.
        schema: A shipped schema, or a file; not where ``describe`` names one.
        geography: The list of areas: CSV or Parquet, one row for each smallest area.
        block: The column with the code of the smallest area, in both files.
        levels: The levels above: ``NAME``, ``NAME=COLUMN`` of the list, or ``NAME=DIGITS`` of the code.
        describe: A file in the form of ``tables.toml`` that says which tables; without it, all pairs of attributes on
            every level.
        tables: The names of those wanted; all by default.

    Returns:
        The folder, as confidential as the records.

    >>> made = tabulate_records(project / "persons.parquet", tmp_path / "tables", schema="persons")
    >>> made.folder.name
    'tables'
    """
    areas: KnownAreas | None = None
    if geography is not None:
        areas = read_areas(geography, block, levels)
        areas = areas if levels else {reconstruction_description.BLOCK: areas[reconstruction_description.BLOCK]}
    elif levels:
        areas = _areas_of_records(records, block, levels)
    if describe is not None:
        description, held = reconstruction_description.described_tables(Path(describe), schema)
    else:
        held = _schema(schema)
        description = _pairs(
            held,
            [
                reconstruction_description.BLOCK,
                *(name for name in areas or {} if name != reconstruction_description.BLOCK),
            ],
        )
    written = write_tables(
        _as_in_schema(read_text(Path(records)), held),
        folder,
        description,
        held,
        schema_name=SCHEMA,
        tables=tables,
        block=block,
        areas=areas,
    )
    write_text(written / SCHEMA, schema_text(schema_document(held)))
    return TablesFolder(written)


def _schema(schema: str | Path | None) -> Schema:
    if schema is None:
        raise ParameterError("no-schema/nothing", where=Place(path="--schema"))
    return load_schema(str(schema), Path())


def _areas_of_records(records: str | Path, block: str, levels: Sequence[str]) -> KnownAreas:
    """The areas where somebody lives, for levels that are digits of their codes."""
    rows = read_text(Path(records))
    columns = [rule for _, rule in map(_rule, levels) if not rule.isdigit()]
    if columns or block not in rows.column_names:
        raise ParameterError("no-geography/nothing", where=Place(path="--geography"), block=block, columns=columns)
    codes = sorted({code for code in rows.column(block).to_pylist() if code})
    return {reconstruction_description.BLOCK: codes} | {
        name: [code[: int(rule)] for code in codes] for name, rule in map(_rule, levels)
    }


def _as_in_schema(rows: pa.Table, schema: Schema) -> pa.Table:
    """Texts as the codes of the schema that they mean."""
    columns = {name: rows.column(name) for name in rows.column_names}
    for attribute in schema.attributes:
        if attribute.name in columns:
            kind = pa.int64() if attribute.is_integer else pa.string()
            columns[attribute.name] = pa.array(codes_meant(columns[attribute.name].to_pylist(), attribute), kind)
    return pa.table(columns)


def _pairs(schema: Schema, levels: Sequence[str]) -> reconstruction_description.TablesDescription:
    """Every pair of attributes, or the one that there is, on every level."""
    names = [attribute.name for attribute in schema.attributes]
    queries = ["*".join(pair) for pair in combinations(names, 2)] or names
    tables = [
        reconstruction_description.TableFilePart(
            name=f"{level}-{number}", title=f"{query}, by {level}", level=level, queries=[query]
        )
        for level in levels
        for number, query in enumerate(queries, 1)
    ]
    values = {"title": f"All pairs of attributes of {schema.id}", "schema": schema.id, "tables": tables}
    return reconstruction_description.TablesDescription.model_validate(values)
