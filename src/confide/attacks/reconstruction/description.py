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

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from confide.attacks.reconstruction.marginals import Zero
from confide.errors import Finding, Place, SpecError
from confide.inputs.shipped import load_shipped, read_toml, shipped
from confide.runs.spec import ExactNumber, Part
from confide.schema import Attribute, Code, Query, Schema, parse_schema

DESCRIPTION = "tables.toml"
BLOCK = "block"
SHIPPED = "attacks"


class LevelPart(Part):
    """A geolevel above the blocks: the first digits of a block's code, or a column of the file of blocks."""

    name: str
    digits: Annotated[int, Field(ge=1)] | None = None
    column: str | None = None


class GeographyPart(Part):
    """``[geography]``."""

    block: str = "geocode"
    levels: list[LevelPart] = Field(default_factory=list)
    blocks: str | None = None


class TablePart(Part):
    """One of ``[[tables]]``."""

    name: Annotated[str, Field(min_length=1)]
    title: str = ""
    level: str = BLOCK
    file: str | None = None
    queries: Annotated[list[str], Field(min_length=1)]
    variance: ExactNumber | None = None
    absent: Literal["zero", "unknown"] = "zero"
    count: str = "count"
    columns: dict[str, str] = Field(default_factory=dict)


class ZeroPart(Part):
    """One of ``[[zeros]]``: codes of attributes that no record has together."""

    where: dict[str, list[int | str]]


class Description(Part):
    """The whole file."""

    id: str = "tables"
    title: str = ""
    provenance: str = ""
    schema_: Annotated[str | None, Field(alias="schema")] = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    recodes: dict[str, dict[str, Any]] = Field(default_factory=dict)
    geography: GeographyPart | None = None
    tables: Annotated[list[TablePart], Field(min_length=1)]
    zeros: list[ZeroPart] = Field(default_factory=list)


def read_description(path: Path) -> tuple[Description, Schema]:
    """A description file of the user's own, and its schema."""
    values = read_toml(path, kind="description", known=[])
    description = _parse(values, path.name)
    schema = _schema(description, path.parent, path.name)
    _check(description, schema, path.name)
    return description, schema


def load_description(name: str) -> tuple[Description, Schema]:
    """A list of tables that ships, such as ``sf1-2010``."""
    description = _parse(load_shipped(SHIPPED, name), f"{name}.toml")
    return description, _schema(description, Path(), f"{name}.toml")


def query_of(schema: Schema, text: str) -> Query:
    """The query that a text names, variables in the order of the schema."""
    query = schema.query(text)
    return schema.ordered_query([variable.name for variable in query.variables])


def zeros_of(zeros: Sequence[ZeroPart], schema: Schema) -> tuple[Zero, ...]:
    """What cannot be, with ranges such as ``"0..17"`` written out."""
    by_name = {attribute.name: attribute for attribute in schema.attributes}
    return tuple(
        Zero({name: frozenset(_codes(by_name[name], listed)) for name, listed in part.where.items()}) for part in zeros
    )


def impossible(schema: Schema) -> tuple[Zero, ...]:
    """What ships about combinations that no record of a schema has."""
    if schema.id not in shipped(f"{SHIPPED}/impossible"):
        return ()
    values = load_shipped(f"{SHIPPED}/impossible", schema.id)
    return zeros_of([ZeroPart.model_validate(zero) for zero in values["zeros"]], schema)


def _codes(attribute: Attribute, listed: list[int | str]) -> list[Code]:
    codes: list[Code] = []
    for item in listed:
        if isinstance(item, str) and ".." in item and attribute.is_integer:
            first, last = item.split("..")
            codes += range(int(first), int(last) + 1)
        else:
            codes.append(item)
    return codes


def _parse(values: dict[str, Any], file: str) -> Description:
    try:
        return Description.model_validate(values)
    except ValidationError as error:
        raise SpecError(
            Finding(
                code="bad-description",
                what="the description of the tables is not of the right form",
                where=Place(file=file, path=".".join(str(part) for part in item["loc"])),
                found=str(item["input"])[:80] if item["type"] != "missing" else "nothing",
                expected=str(item["msg"]),
                remedy="correct the file; its format is in docs/concepts/reconstruction.md",
            )
            for item in error.errors()
        ) from None


def _schema(description: Description, base: Path, file: str) -> Schema:
    """The schema, with the recodes of the description added."""
    document: dict[str, Any]
    name = description.schema_
    if description.attributes:
        if name is not None:
            raise _wrong(file, "schema", "there is a schema and there are attributes", "one of the two")
        document = {"id": description.id, "provenance": description.provenance or file}
        document["attributes"] = {key: dict(body) for key, body in description.attributes.items()}
    elif name is None:
        raise _wrong(file, "schema", "nothing says what the tables count", 'schema = "...", or [attributes.NAME]')
    else:
        document = _document(name, base)
    for attribute, recodes in description.recodes.items():
        if attribute not in document["attributes"]:
            raise _wrong(file, f"recodes.{attribute}", "the schema has no such attribute", "an attribute of the schema")
        body = document["attributes"][attribute]
        body["recodes"] = dict(body.get("recodes", {})) | recodes
    return parse_schema(document)


def _document(name: str, base: Path) -> dict[str, Any]:
    """The plain values of a schema: one that ships, that of a list of tables that ships, or a file."""
    if name in shipped("schemas"):
        return load_shipped("schemas", name)
    if name in shipped(SHIPPED):
        values = load_shipped(SHIPPED, name)
        document = _document(values["schema"], base)
        for attribute, recodes in values.get("recodes", {}).items():
            body = document["attributes"][attribute]
            body["recodes"] = dict(body.get("recodes", {})) | recodes
        return document
    document = read_toml(base / name, kind="schema", known=[*shipped("schemas"), *shipped(SHIPPED)])
    parse_schema(document)
    return document


def _check(description: Description, schema: Schema, file: str) -> None:
    """What the form alone does not say."""
    findings: list[Finding] = []
    levels = {BLOCK} | ({level.name for level in description.geography.levels} if description.geography else set())
    for number, table in enumerate(description.tables):
        path = f"tables.{number}"
        if table.level not in levels:
            found, expected = table.level, "one of " + ", ".join(sorted(levels))
            findings.append(
                _finding(file, f"{path}.level", "the table is of a level that is not there", expected, found)
            )
        if table.file is None:
            findings.append(_finding(file, path, "the table has no file", 'file = "NAME.csv" or "NAME.parquet"'))
        for text in table.queries:
            try:
                query_of(schema, text)
            except SpecError as error:
                findings += [
                    _finding(file, f"{path}.queries", each.what, each.expected or "", each.found)
                    for each in error.findings
                ]
    names = [table.name for table in description.tables]
    for name in {name for name in names if names.count(name) > 1}:
        findings.append(_finding(file, "tables", f"two tables are called {name!r}", "names that differ", name))
    if description.geography is not None:
        for position, level in enumerate(description.geography.levels):
            if (level.digits is None) == (level.column is None):
                expected = "digits of the block's code, or a column of the file of blocks"
                findings.append(_finding(file, f"geography.levels.{position}", "a level has no single rule", expected))
            if level.column is not None and description.geography.blocks is None:
                expected = 'blocks = "FILE", with the block and that column'
                findings.append(_finding(file, "geography.blocks", "a level needs the file of blocks", expected))
    known = {attribute.name: attribute for attribute in schema.attributes}
    for position, zero in enumerate(description.zeros):
        for name, listed in zero.where.items():
            try:
                right = name in known and all(code in known[name].index for code in _codes(known[name], listed))
            except ValueError:
                right = False
            if not right:
                what, expected = f"{name!r} has no such codes", "attributes of the schema with their codes"
                findings.append(_finding(file, f"zeros.{position}", what, expected, str(listed)[:60]))
    if findings:
        raise SpecError(findings)


def _finding(file: str, path: str, what: str, expected: str, found: str | None = None) -> Finding:
    return Finding("bad-description", what, Place(file=file, path=path), found, expected, "correct the file")


def _wrong(file: str, path: str, what: str, expected: str) -> SpecError:
    return SpecError(_finding(file, path, what, expected))
