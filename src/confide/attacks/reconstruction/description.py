"""``tables.toml``: what says of a folder of tables what they count.

::

    schema = "persons"                       # shipped by name, a list of tables that ships (sf1-2010), or a path

    [recodes.age.young.groups]               # more recodes, if the schema lacks them
    "under 20" = "0..19"

    [geography]                              # leave it out if there is one area only
    block = "geocode"                        # the column with the code of the unit, in every file
    levels = [{ name = "tract", digits = 11 }]

    [[tables]]
    name = "P12"
    level = "block"                          # or the name of a level
    file = "p12.csv"                         # or .parquet
    queries = ["sex*age:five-year"]

Attributes can stand in the file itself (``[attributes.NAME]``, as in a schema file). The whole format:
``docs/concepts/reconstruction.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from confide.documents import line_of, load_shipped, read_toml, shipped
from confide.errors import ConfideError, Finding, ParameterError, Place, SpecError
from confide.releases.load_spec import dotted, form_finding
from confide.releases.published import ImpossibleCells
from confide.releases.published_rows import codes_of, query_of
from confide.releases.spec import ExactNumber, Part
from confide.schema import Schema, parse_schema

DESCRIPTION = "tables.toml"
BLOCK = "block"
SHIPPED = "attacks"


class TablesLevelPart(Part):
    """A geolevel above the blocks: the first digits of a block's code, or a column of the file of blocks."""

    name: str
    digits: Annotated[int, Field(ge=1)] | None = None
    column: str | None = None


class TablesGeographyPart(Part):
    """``[geography]``."""

    block: str = "geocode"
    levels: list[TablesLevelPart] = Field(default_factory=list)
    blocks: str | None = None


class TableFilePart(Part):
    """One of ``[[tables]]``."""

    name: Annotated[str, Field(min_length=1)]
    title: str = ""
    level: str = BLOCK
    file: str | None = None
    queries: Annotated[list[str], Field(min_length=1)]
    variance: ExactNumber | None = None
    bound: Annotated[int, Field(ge=0)] | None = None
    zeros_kept: bool = False
    absent: Literal["zero", "unknown"] = "zero"
    count: str = "count"
    columns: dict[str, str] = Field(default_factory=dict)


def _code(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        expected = 'whole numbers, texts in quotes, or ranges such as "0..17"'
        raise ParameterError(
            "bad-code", "this is no code of an attribute", expected=expected, remedy="correct the value"
        )
    return value


Codes = Annotated[list[Annotated[int | str, BeforeValidator(_code)]], Field(min_length=1)]


class ImpossiblePart(Part):
    """One of ``[[zeros]]``: codes of attributes that no record has together."""

    where: Annotated[dict[str, Codes], Field(min_length=1)]


class TablesDescription(Part):
    """The whole file."""

    id: str = "tables"
    title: str = ""
    provenance: str = ""
    schema_: Annotated[str | None, Field(alias="schema")] = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    recodes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    geography: TablesGeographyPart | None = None
    tables: Annotated[list[TableFilePart], Field(min_length=1)]
    zeros: list[ImpossiblePart] = Field(default_factory=list)


def load_description(name: str) -> tuple[TablesDescription, Schema]:
    """A list of tables that ships, such as ``sf1-2010``."""
    description = parse_description(load_shipped(SHIPPED, name), f"{name}.toml")
    return description, schema_of(description, Path(), f"{name}.toml")


def zeros_of(zeros: Sequence[ImpossiblePart], schema: Schema) -> tuple[ImpossibleCells, ...]:
    """What cannot be, with ranges such as ``"0..17"`` written out."""
    by_name = {attribute.name: attribute for attribute in schema.attributes}
    return tuple(
        ImpossibleCells({name: frozenset(codes_of(by_name[name], listed)) for name, listed in part.where.items()})
        for part in zeros
    )


def parse_description(values: dict[str, Any], file: str, text: str = "") -> TablesDescription:
    """The description in the values of a TOML file; ``text`` is the file itself, for the lines of findings."""
    try:
        return TablesDescription.model_validate(values)
    except ValidationError as error:
        found = [form_finding(file, text, TablesDescription, dict(problem)) for problem in error.errors()]
        raise SpecError(replace(finding, code="bad-description") for finding in found) from None


def schema_of(description: TablesDescription, base: Path, file: str) -> Schema:
    """The schema of a description in the folder ``base``, with the recodes of the description added."""
    document: dict[str, Any]
    name = description.schema_
    if description.attributes:
        if name is not None:
            raise _wrong(file, "schema", "there is a schema and there are attributes", "both", "one of the two")
        document = {"id": description.id, "provenance": description.provenance or file}
        document["attributes"] = {
            key: dict(body) if isinstance(body, dict) else body for key, body in description.attributes.items()
        }
    elif name is None:
        expected = 'schema = "...", or [attributes.NAME]'
        raise _wrong(file, "schema", "nothing says what the tables count", "neither schema nor attributes", expected)
    else:
        document = _document(name, base, file)
    _parsed(document, file)  # the attributes by themselves first: recodes are added to what is known to be right
    for attribute, recodes in description.recodes.items():
        if attribute not in document["attributes"]:
            known = "one of " + ", ".join(document["attributes"])
            raise _wrong(file, f"recodes.{attribute}", "the schema has no such attribute", attribute, known)
        body = document["attributes"][attribute]
        body["recodes"] = dict(body.get("recodes", {})) | recodes
    return _parsed(document, file)


def _parsed(document: dict[str, Any], file: str) -> Schema:
    """The schema of a document that ``file`` has, or adds recodes to."""
    try:
        return parse_schema(document)
    except ConfideError as error:
        raise SpecError(
            replace(finding, where=replace(finding.where, file=finding.where.file or file))
            for finding in error.findings
        ) from None


def _lists() -> list[str]:
    """The lists of tables that ship."""
    return [name for name in shipped(SHIPPED) if "tables" in load_shipped(SHIPPED, name)]


def _document(name: str, base: Path, file: str) -> dict[str, Any]:
    """The plain values of a schema: one that ships, that of a list of tables that ships, or a file."""
    if name in shipped("schemas"):
        return load_shipped("schemas", name)
    if name in _lists():
        values = load_shipped(SHIPPED, name)
        document = _document(values["schema"], base, file)
        for attribute, recodes in values.get("recodes", {}).items():
            body = document["attributes"][attribute]
            body["recodes"] = dict(body.get("recodes", {})) | recodes
        return document
    try:
        document = read_toml(base / name, kind="schema", known=[*shipped("schemas"), *_lists()])
    except SpecError as error:
        place = Place(file=file, path="schema")
        raise SpecError(
            finding if finding.where.file else replace(finding, where=place) for finding in error.findings
        ) from None
    _parsed(document, Path(name).name)
    return document


def _wrong(file: str, path: str, what: str, found: str, expected: str) -> SpecError:
    return SpecError("bad-description", what, Place(file=file, path=path), found, expected, "correct the file")


# A description of the user's own, read from ``tables.toml`` and checked as a whole, every problem at once.


_At = tuple[str | int, ...]
_Problem = tuple[_At, str, str, str]
"""Where, what, found, expected."""


def read_description(path: Path) -> tuple[TablesDescription, Schema]:
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


def _problems(description: TablesDescription, schema: Schema) -> Iterator[_Problem]:
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


def _problems_of_queries(table: TableFilePart, schema: Schema, at: _At) -> Iterator[_Problem]:
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


def _problems_of_files(
    table: TableFilePart, description: TablesDescription, schema: Schema, at: _At
) -> Iterator[_Problem]:
    if table.file is None:
        yield at, "the table has no file", "nothing", 'file = "NAME.csv" or "NAME.parquet"'
    known = [*(attribute.name for attribute in schema.attributes), "count"]
    if description.geography is not None:
        known += [description.geography.block, *([] if table.level == BLOCK else [table.level])]
    for name in table.columns:
        if name not in known:
            yield (*at, "columns", name), "no table has such a column", name, "one of " + ", ".join(known)


def _problems_of_geography(description: TablesDescription) -> Iterator[_Problem]:
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


def _problems_of_zeros(description: TablesDescription, schema: Schema) -> Iterator[_Problem]:
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
