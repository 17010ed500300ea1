"""Tables of any country from its records, as a folder that the attack can read: own schema, areas and list of tables.

What the tables are is said by a file in the form of ``tables.toml``, in which tables need no file yet; or,
without one, they are all pairs of attributes of a schema on every level.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pyarrow as pa

from confide.documents import load_schema, schema_document, schema_text
from confide.engines.protocol import write_text
from confide.errors import InputError, ParameterError, Place
from confide.inputs.frame import codes_meant
from confide.inputs.table_files import read_text
from confide.lab.attacks.reconstruction.description import (
    BLOCK,
    TableFilePart,
    TablesDescription,
    described_tables,
)
from confide.lab.attacks.reconstruction.sf1 import TablesFolder, write_tables
from confide.lab.published.rows import KnownAreas
from confide.schema import Schema

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
    """
    path = Path(file)
    rows = read_text(path)
    rules = {BLOCK: block} | dict(_rule(text) for text in levels or [n for n in rows.column_names if n != block])
    columns: dict[str, list[str]] = {}
    for name, rule in rules.items():
        if rule.isdigit() and rule not in rows.column_names:
            columns[name] = [code[: int(rule)] for code in columns[BLOCK]]
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
        if blank is not None and (levels or name == BLOCK):
            raise InputError("geography/area-code", where=Place(file=path.name, column=rule, row=blank))
    seen: dict[str, int] = {}
    for row, code in enumerate(columns[BLOCK], 1):
        if seen.setdefault(code, row) < row:
            raise InputError(
                "geography/area-listed", where=Place(file=path.name, column=block, row=row), seen=seen[code]
            )
    return columns


def _rule(text: str) -> tuple[str, str]:
    name, equals, rule = text.partition("=")
    if not name.strip() or (equals and not rule.strip()) or name.strip() == BLOCK:
        raise ParameterError("bad-level/name", where=Place(path="--geography-level"), found=text[:60], block=BLOCK)
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
    """
    areas: KnownAreas | None = None
    if geography is not None:
        areas = read_areas(geography, block, levels)
        areas = areas if levels else {BLOCK: areas[BLOCK]}
    elif levels:
        areas = _areas_of_records(records, block, levels)
    if describe is not None:
        description, held = described_tables(Path(describe), schema)
    else:
        held = _schema(schema)
        description = _pairs(held, [BLOCK, *(name for name in areas or {} if name != BLOCK)])
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
    return {BLOCK: codes} | {name: [code[: int(rule)] for code in codes] for name, rule in map(_rule, levels)}


def _as_in_schema(rows: pa.Table, schema: Schema) -> pa.Table:
    """Texts as the codes of the schema that they mean."""
    columns = {name: rows.column(name) for name in rows.column_names}
    for attribute in schema.attributes:
        if attribute.name in columns:
            kind = pa.int64() if attribute.is_integer else pa.string()
            columns[attribute.name] = pa.array(codes_meant(columns[attribute.name].to_pylist(), attribute), kind)
    return pa.table(columns)


def _pairs(schema: Schema, levels: Sequence[str]) -> TablesDescription:
    """Every pair of attributes, or the one that there is, on every level."""
    names = [attribute.name for attribute in schema.attributes]
    queries = ["*".join(pair) for pair in combinations(names, 2)] or names
    tables = [
        TableFilePart(name=f"{level}-{number}", title=f"{query}, by {level}", level=level, queries=[query])
        for level in levels
        for number, query in enumerate(queries, 1)
    ]
    values = {"title": f"All pairs of attributes of {schema.id}", "schema": schema.id, "tables": tables}
    return TablesDescription.model_validate(values)
