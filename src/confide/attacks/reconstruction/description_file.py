"""A description of the user's own, read from ``tables.toml`` and checked as a whole, every problem at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from confide.attacks.reconstruction.description import (
    BLOCK,
    Description,
    TablePart,
    codes_of,
    parse_description,
    query_of,
    schema_of,
)
from confide.errors import Finding, Place, SpecError
from confide.inputs.shipped import read_toml
from confide.runs.load_spec import dotted
from confide.runs.toml_lines import line_of
from confide.schema import Schema

_At = tuple[str | int, ...]
_Problem = tuple[_At, str, str, str]
"""Where, what, found, expected."""


def read_description(path: Path) -> tuple[Description, Schema]:
    """The description in a file, and its schema.

    :raises SpecError: with a finding for each problem of the description.
    """
    values = read_toml(path, kind="description", known=[])
    text = path.read_text(encoding="utf-8-sig")
    description = parse_description(values, path.name, text)
    schema = schema_of(description, path.parent, path.name)
    findings = [
        Finding(
            "bad-description",
            what,
            Place(path.name, line_of(text, at), path=dotted(at)),
            found,
            expected,
            "correct the file; its format is in docs/concepts/reconstruction.md",
        )
        for at, what, found, expected in _problems(description, schema)
    ]
    if findings:
        raise SpecError(findings)
    return description, schema


def _problems(description: Description, schema: Schema) -> Iterator[_Problem]:
    """What the form of each value alone does not say."""
    levels = [BLOCK, *(level.name for level in description.geography.levels)] if description.geography else [BLOCK]
    names = [table.name for table in description.tables]
    for number, table in enumerate(description.tables):
        at: _At = ("tables", number)
        if table.name in names[:number]:
            yield (*at, "name"), "two tables have the same name", table.name, "names that differ"
        if table.level not in levels:
            expected = "one of " + ", ".join(dict.fromkeys(levels))
            yield (*at, "level"), "the table is of a level that is not there", table.level, expected
        yield from _problems_of_queries(table, schema, at)
        yield from _problems_of_files(table, description, schema, at)
        if (table.bound is not None and table.variance is None) or (table.zeros_kept and table.bound is None):
            expected = 'variance = "...", bound = ..., and zeros_kept only beside both'
            yield at, "the noise of the table is not described whole", "a part of it", expected
    yield from _problems_of_geography(description)
    yield from _problems_of_zeros(description, schema)


def _problems_of_queries(table: TablePart, schema: Schema, at: _At) -> Iterator[_Problem]:
    seen: set[str] = set()
    for position, text in enumerate(table.queries):
        here = (*at, "queries", position)
        try:
            query = query_of(schema, text)
        except SpecError as error:
            for each in error.findings:
                yield here, each.what, each.found or text, each.expected or "a query"
            continue
        if query.name in seen:
            yield here, "the table has this query twice", text, "each query once"
        seen.add(query.name)


def _problems_of_files(table: TablePart, description: Description, schema: Schema, at: _At) -> Iterator[_Problem]:
    if table.file is None:
        yield at, "the table has no file", "nothing", 'file = "NAME.csv" or "NAME.parquet"'
    known = [*(attribute.name for attribute in schema.attributes), "count"]
    if description.geography is not None:
        known += [description.geography.block, *([] if table.level == BLOCK else [table.level])]
    for name in table.columns:
        if name not in known:
            yield (*at, "columns", name), "no table has such a column", name, "one of " + ", ".join(known)


def _problems_of_geography(description: Description) -> Iterator[_Problem]:
    if description.geography is None:
        return
    seen = {BLOCK}
    for position, level in enumerate(description.geography.levels):
        at: _At = ("geography", "levels", position)
        if level.name in seen:
            yield (*at, "name"), "two levels have the same name", level.name, f"names that differ; {BLOCK} is taken"
        seen.add(level.name)
        if (level.digits is None) == (level.column is None):
            found = "neither digits nor column" if level.digits is None else "digits and column"
            expected = "either digits of the block's code, or a column of the file of blocks"
            yield at, "a level has no single rule", found, expected
        if level.column is not None and description.geography.blocks is None:
            expected = 'blocks = "FILE", with the block and that column'
            yield ("geography", "blocks"), "a level needs the file of blocks", "nothing", expected


def _problems_of_zeros(description: Description, schema: Schema) -> Iterator[_Problem]:
    known = {attribute.name: attribute for attribute in schema.attributes}
    for position, zero in enumerate(description.zeros):
        for name, listed in zero.where.items():
            at: _At = ("zeros", position, "where", name)
            if name not in known:
                yield at, "the schema has no such attribute", name, "one of " + ", ".join(known)
                continue
            try:
                right = all(code in known[name].index for code in codes_of(known[name], listed))
            except ValueError:
                right = False
            if not right:
                yield at, f"{name!r} has no such codes", str(listed)[:60], known[name].describe_codes()
