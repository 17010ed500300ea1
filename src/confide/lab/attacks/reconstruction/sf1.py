"""Tables made from records, as a folder that the attack can read: to try it on one's own data before publishing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.answers import AnswerPart, TypedAnswer
from confide.arrays import Integers
from confide.engines.protocol import PRIVATE_FILE, private_folder, write_text
from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place
from confide.inputs.table_files import read_records, write_file
from confide.lab.attacks.reconstruction.description import (
    BLOCK,
    DESCRIPTION,
    TableFilePart,
    TablesDescription,
    load_description,
)
from confide.lab.published.rows import KnownAreas, query_of
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
    description, schema = load_description(SF1)
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
    description: TablesDescription,
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
    by_list = [] if areas is None else [name for name in areas if name != BLOCK]
    chosen = _chosen(description, tables, [BLOCK, *(name for name, _ in levels), *by_list])
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
        listed = {block: areas[BLOCK]} | {name: areas[name] for name in by_list}
        write_file(pa.table(listed), folder / AREAS, mode=PRIVATE_FILE)
    for number, table in enumerate(chosen, 1):
        units, unit = places[table.level]
        file = f"{_file_name(table.name, number, [each.name for each in chosen])}.{format_}"
        write_file(_tabulate(table, schema, indices, units, unit, block), folder / file, mode=PRIVATE_FILE)
        queries = ", ".join(_quoted(text) for text in table.queries)
        lines += ["", "[[tables]]", f"name = {_quoted(table.name)}", f"title = {_quoted(table.title)}"]
        lines += [f'level = "{table.level}"', f'file = "{file}"', f"queries = [{queries}]"]
    write_text(folder / DESCRIPTION, "\n".join(lines) + "\n")
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
    of_level = {BLOCK: codes} | {level: _prefix(codes, number) for level, number in digits.items()}
    if areas is None:
        return of_level
    row_of = {code: row for row, code in enumerate(areas[BLOCK])}
    rows = np.array([row_of.get(code, -1) for code in codes.tolist()], np.int64)
    if (rows < 0).any():
        raise InputError(
            "unknown-area/records",
            where=Place(column=block, row=int(np.flatnonzero(rows < 0)[0]) + 1),
            found=CONFIDENTIAL,
            less=int((rows < 0).sum()),
        )
    return of_level | {
        level: np.array(listed, dtype=np.str_)[rows] for level, listed in areas.items() if level != BLOCK
    }


def _make(folder: Path) -> None:
    """The folder, for its owner alone. One that holds something else is left as it is."""
    try:
        taken = folder.exists() and not (folder / DESCRIPTION).exists() and any(folder.iterdir())
        found = "a folder with other files" if taken else ""
        if not taken:
            private_folder(folder)
    except OSError as error:
        found = "a file of this name" if folder.is_file() else error.strerror or type(error).__name__
    if found:
        raise ParameterError("folder", where=Place(file=folder.name), found=found, description=DESCRIPTION)


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


def _chosen(description: TablesDescription, tables: Sequence[str] | None, levels: Sequence[str]) -> list[TableFilePart]:
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


def _indices(records: pa.Table, schema: Schema, tables: Sequence[TableFilePart]) -> dict[str, Integers]:
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
    table: TableFilePart, schema: Schema, indices: dict[str, Integers], units: Any, unit: Integers, block: str
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
