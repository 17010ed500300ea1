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

Attributes can be in the file itself (``[attributes.NAME]``, as in a schema file). The whole format:
``docs/concepts/reconstruction.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from confide import documents
from confide.errors import ParameterError, Place, SpecError
from confide.lab.published.marginals import ImpossibleCells
from confide.lab.published.published_rows import codes_of, query_of
from confide.releases.spec import ExactNumber
from confide.schema import Schema

DESCRIPTION = "tables.toml"
BLOCK = "block"
SHIPPED = "attacks"


class TablesLevelPart(documents.Part):
    """A geolevel above the blocks: the first digits of a block's code, or a column of the file of blocks."""

    name: str
    digits: Annotated[int, Field(ge=1)] | None = None
    column: str | None = None


class TablesGeographyPart(documents.Part):
    """``[geography]``."""

    block: str = "geocode"
    levels: list[TablesLevelPart] = Field(default_factory=list)
    blocks: str | None = None


class TableFilePart(documents.Part):
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
        raise ParameterError("bad-code/attribute")
    return value


Codes = Annotated[list[Annotated[int | str, BeforeValidator(_code)]], Field(min_length=1)]


class ImpossiblePart(documents.Part):
    """One of ``[[zeros]]``: codes of attributes that no record has together."""

    where: Annotated[dict[str, Codes], Field(min_length=1)]


class TablesDescription(documents.Part):
    """The whole file."""

    id: str = "tables"
    title: str = ""
    provenance: str = ""
    schema_: Annotated[str | None, Field(alias="schema")] = None
    attributes: dict[str, documents.AttributePart] = Field(default_factory=dict)
    recodes: dict[str, dict[str, documents.RecodePart]] = Field(default_factory=dict)
    geography: TablesGeographyPart | None = None
    tables: Annotated[list[TableFilePart], Field(min_length=1)]
    zeros: list[ImpossiblePart] = Field(default_factory=list)


DESCRIBED = documents.FileKind("description", code="bad-description", own_codes=False)


def load_description(name: str) -> tuple[TablesDescription, Schema]:
    """A list of tables that ships, such as ``sf1-2010``."""
    loaded = documents.load_named(name, Path(), TablesDescription, kind=replace(DESCRIBED, shipped=SHIPPED))
    return loaded.value, schema_of(loaded)


def described_tables(path: Path, schema: str | Path | None = None) -> tuple[TablesDescription, Schema]:
    """A list of tables that are still to be made, and their schema: a file as above, whose tables need no files yet.

    Args:
        path: The file.
        schema: The schema, where the file names none.
    """
    loaded = documents.load(path, TablesDescription, kind=DESCRIBED)
    own = loaded.value
    if schema is not None and (own.schema_ is not None or own.attributes):
        raise loaded.error(documents.Problem.of(("schema",), "bad-description/schema", found=str(schema)))
    if schema is not None:
        loaded = replace(loaded, value=own.model_copy(update={"schema_": str(Path(schema).absolute())}))
    held = schema_of(loaded)
    loaded.refuse(
        documents.Problem.of(at, "bad-description/correct-file", found=found, what=what, expected=expected)
        for number, table in enumerate(loaded.value.tables)
        for at, what, found, expected in _problems_of_queries(table, held, ("tables", number))
    )
    return loaded.value, held


def zeros_of(zeros: Sequence[ImpossiblePart], schema: Schema) -> tuple[ImpossibleCells, ...]:
    """What cannot be, with ranges such as ``"0..17"`` written out."""
    by_name = {attribute.name: attribute for attribute in schema.attributes}
    return tuple(
        ImpossibleCells({name: frozenset(codes_of(by_name[name], listed)) for name, listed in part.where.items()})
        for part in zeros
    )


def schema_of(loaded: documents.Loaded[TablesDescription]) -> Schema:
    """The schema of a description, with the recodes of the description added."""
    description = loaded.value
    name = description.schema_
    if description.attributes and name is not None:
        raise loaded.error(documents.Problem.of(("schema",), "bad-description/attributes"))
    if description.attributes:
        file = documents.SchemaFile(
            id=description.id,
            provenance=description.provenance or loaded.file,
            attributes=description.attributes,
        )
        _, problems = documents.build_schema(file)
        loaded.refuse(problems)
    elif name is None:
        raise loaded.error(documents.Problem.of(("schema",), "bad-description/nothing"))
    else:
        file = _schema_file(name, loaded.path.parent, loaded.place("schema"))
    loaded.refuse(
        documents.Problem.of(
            ("recodes", attribute), "bad-description/attribute", found=attribute, attributes=", ".join(file.attributes)
        )
        for attribute in description.recodes
        if attribute not in file.attributes
    )
    schema, problems = documents.build_schema(file.with_recodes(description.recodes))
    # Attributes are right by now: what is wrong is a recode, in the description's own table of them.
    loaded.refuse(replace(problem, path=("recodes", problem.path[1], *problem.path[3:])) for problem in problems)
    return schema


def _lists() -> list[str]:
    """The lists of tables that ship."""
    return [name for name in documents.shipped(SHIPPED) if "tables" in documents.load_shipped(SHIPPED, name)]


def _schema_file(name: str, base: Path, where: Place) -> documents.SchemaFile:
    """A schema as it is written: one that ships, that of a list of tables that ships, or a file."""
    if name in _lists():
        listed = documents.load_named(name, base, TablesDescription, kind=replace(DESCRIBED, shipped=SHIPPED)).value
        return _schema_file(str(listed.schema_), base, where).with_recodes(listed.recodes)
    loaded = documents.load_schema_file(name, base, where)
    _, problems = documents.build_schema(loaded.value)
    loaded.refuse(problems)
    return loaded.value


# A description of the user's own, read from ``tables.toml`` and checked as a whole, every problem at once.


_At = documents.KeyPath
_Problem = tuple[_At, str, str, str]
"""Where, what, found, expected."""


def read_description(path: Path) -> tuple[TablesDescription, Schema]:
    """The description in a file, and its schema.

    :raises SpecError: with a finding for each problem of the description.
    """
    loaded = documents.load(path, TablesDescription, kind=DESCRIBED)
    schema = schema_of(loaded)
    loaded.refuse(
        documents.Problem.of(at, "bad-description/format", found=found, what=what, expected=expected)
        for at, what, found, expected in _problems(loaded.value, schema)
    )
    return loaded.value, schema


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
            given = "neither digits nor column" if level.digits is None else "digits and column"
            expected = "either digits of the block's code, or a column of the file of blocks"
            yield at, "a level has no single rule", given, expected
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
