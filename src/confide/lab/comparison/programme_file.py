"""The programme of a comparison: whose records, what is published of them, and what an outsider knows. A part of the
spec, or a file of its own; ``data/comparison/`` has those that ship.

::

    [programme]
    schema = "schema.toml"
    attributes = ["sex", "age:five-year", "citizenship"]   # at the finest detail that anything is published in
    known = ["sex", "age"]                                 # what the outsider knows, apart from the address
    learnt = ["citizenship"]                               # what is sensitive
    levels = ["region"]                                    # tables are published for these, and for the smallest areas

    [[programme.tables]]
    name = "citizenship"
    variables = ["citizenship"]
    judged = true                                          # accuracy is measured on it

Every key: ``docs/concepts/comparison.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from confide.documents import FileKind, KeyPath, Loaded, Part, Problem, load_named
from confide.errors import ConfideError
from confide.releases.spec import GeographyPart, Name
from confide.schema import NO_GROUP, Query, Schema

KIND = "comparison"
"""The folder of those that ship."""
US_STATE = "us-state"
BLOCK = "block"
"""The level of the smallest areas, whatever an office calls them."""
AGE = "agebin"
"""The published attribute of ages in years, in groups."""
POPULATION = "population"
RESERVED = ("person_id", "geocode", "household_id", BLOCK, "record_key")
"""Columns of the comparison's own, which no attribute and no level may be called."""
PROGRAMME = FileKind(
    "programme",
    code="bad-programme",
    own_codes=False,
    shipped=KIND,
    example="`confide new comparison FOLDER` writes one to start from",
    remedy="correct the programme: docs/concepts/comparison.md has every key",
)


class ProgrammeAgePart(Part):
    """An age in whole years, published in groups."""

    attribute: str = Field("age", description="The attribute of the schema that is an age in years.")
    groups: str | list[int] = Field(description="The finest groups: a shipped name, or the first years.")
    recodes: dict[str, str | list[int]] = Field(default_factory=dict, description="Coarser groups that tables use.")


class ProgrammeTablePart(Part):
    """A table that every protection publishes."""

    name: Name = Field(description="A short name.")
    title: str = Field("", max_length=200, description="A title for people; default: the name.")
    variables: list[str] = Field(description="Attributes or recodes, crossed; none: the population.")
    judged: bool = Field(False, description="Whether accuracy is measured on it.")


class ProgrammeGeographyPart(GeographyPart):
    """The areas: the smallest, and the levels above them, coarsest first."""

    smallest_plural: str = Field("", max_length=40, description="Several smallest places; default: as English has it.")
    one: str | None = Field(None, description="The level that has one unit alone, if there must be one.")

    @property
    def words(self) -> tuple[str, str]:
        """What a smallest place is called, and several."""
        one = self.smallest.replace("_", " ")
        return one, self.smallest_plural or plural(one)


class ShownPart(Part):
    """The count that stands for accuracy where there is room for one."""

    characteristic: str = Field(description="Table and label: 'age: 0-17'.")
    words: str = Field(description="What people call it: 'children'.")


class ComparedProgrammePart(Part):
    """The whole of it."""

    id: str = Field("programme", description="A short name.")
    title: str = Field("", description="A title for people.")
    provenance: str = Field("", description="Where it comes from.")
    schema_: str = Field(alias="schema", description="The schema of the records: a shipped name, or a TOML file.")
    people: str | None = Field(None, description="Which made-up people have this layout.")
    attributes: list[str] = Field(
        min_length=2, description="The attributes that are published, each at its finest: age, or age:five-year."
    )
    known: list[str] = Field(min_length=1, description="The attributes that the outsider knows of people.")
    learnt: list[str] = Field(min_length=1, description="The attributes that the outsider wants to learn.")
    levels: list[str] = Field(
        default_factory=list, description="The levels that tables are published for, apart from the smallest areas."
    )
    age: ProgrammeAgePart | None = Field(None, description="An age in whole years, published in groups.")
    household: str | None = Field(None, description="The column with the household's id; default: each person alone.")
    in_households: dict[str, int | str] = Field(
        default_factory=dict, description="Attribute = code of those who live in households; default: everybody."
    )
    blocks_with: list[str] = Field(
        default_factory=list, description="Columns of the block table: where all are zero, nobody lives."
    )
    strategy: str | None = Field(None, description="The strategy of topdown; default: made from the tables.")
    shown: ShownPart | None = Field(None, description="The count that stands for accuracy; default: the first.")
    words: dict[str, str] = Field(default_factory=dict, description="Attribute = what people call it.")
    geography: ProgrammeGeographyPart | None = Field(None, description="The areas, unless the spec has them.")
    tables: list[ProgrammeTablePart] = Field(min_length=1, description="The tables.")


def plural(word: str) -> str:
    """Several of them, as English has it.

    >>> plural("municipality"), plural("block")
    ('municipalities', 'blocks')
    """
    if word[-1:] == "y" and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"


def load_compared_programme(name: str, base: Path, where: Any) -> Loaded[ComparedProgrammePart]:
    """The programme that ships under a name, or that of a file; ``base`` is the folder of the spec that names it."""
    return load_named(name, base, ComparedProgrammePart, kind=PROGRAMME, where=where)


# What is wrong with a programme although each value by itself is right. Found before anything is made: an attribute
# that no table tells apart, or groups that cut one another, would make an attack that finds nobody, or sums that do
# not hold, and both look like safety.


class JudgedTable(Protocol):
    """What is looked at of a table."""

    @property
    def query(self) -> Query: ...
    @property
    def judged(self) -> bool: ...


def problems_of_attributes(part: ComparedProgrammePart, records: Schema) -> Iterator[Problem]:
    """What is wrong with the attributes, and with what is known and learnt of them."""
    names = [name.partition(":")[0] for name in part.attributes]
    for position, name in enumerate(part.attributes):
        at: KeyPath = ("attributes", position)
        if name not in records.variables:
            yield Problem.of(
                at, "bad-programme/schema-attribute-recode", found=name, variables=", ".join(records.variables)
            )
        elif (records.variable(name).assignment == NO_GROUP).any():
            yield Problem.of(at, "bad-programme/recode-leaves-codes", found=name)
        if names[position] in names[:position] or names[position] in (*RESERVED, AGE):
            yield Problem.of(at, "bad-programme/name-taken", found=names[position])
    for key, named in (("known", part.known), ("learnt", part.learnt)):
        others = part.learnt if key == "known" else part.known
        for position, name in enumerate(named):
            if name not in names or name in others or name in named[:position]:
                yield Problem.of((key, position), "bad-programme/published", found=name, names=", ".join(names))
    if set(names) - {*part.known, *part.learnt}:
        left_out = ", ".join(sorted(set(names) - {*part.known, *part.learnt}))
        yield Problem.of(("attributes",), "bad-programme/outsider", found=left_out)
    for name in part.in_households:
        if name not in records.variables or ":" in name:
            yield Problem.of(
                ("in_households", name),
                "bad-programme/schema-attribute",
                found=name,
                variables=", ".join(records.variables),
            )
    if part.age is not None:
        attribute = records.variables.get(part.age.attribute)
        if part.age.attribute not in part.attributes or attribute is None or not attribute.attribute.is_integer:
            yield Problem.of(("age", "attribute"), "bad-programme/age", found=part.age.attribute)


def problems_of_variables(part: ComparedProgrammePart, schema: Schema) -> Iterator[Problem]:
    """What is wrong with the names and variables of the tables."""
    names = [table.name for table in part.tables]
    for number, table in enumerate(part.tables):
        at: KeyPath = ("tables", number)
        if table.name in names[:number] or (not table.variables) != (table.name == POPULATION):
            yield Problem.of((*at, "name"), "bad-programme/population", found=table.name, population=POPULATION)
        try:
            query = schema.query("*".join(table.variables) or "total")
        except ConfideError as error:
            for each in error.findings:
                found = each.found or ", ".join(table.variables)
                yield Problem.of(
                    (*at, "variables"), "bad-programme/correct", found=found, what=each.what, expected=each.expected
                )
            continue
        if not query.is_complete:
            found = ", ".join(table.variables)
            yield Problem.of((*at, "variables"), "bad-programme/cell", found=found)


def problems_of_tables(
    part: ComparedProgrammePart, schema: Schema, tables: Sequence[JudgedTable], ids: Sequence[str]
) -> Iterator[Problem]:
    """What is wrong with the tables taken together; ``ids`` are the counts that accuracy is measured on."""
    used = [variable for table in tables for variable in table.query.variables]
    for attribute in schema.attributes:
        own = [variable for variable in used if variable.attribute.name == attribute.name]
        if not any(variable.size == attribute.size for variable in own):
            yield Problem.of(
                ("tables",), "bad-programme/tells", attribute=attribute.name, own=", ".join(v.name for v in own)
            )
        sets = {frozenset(group.codes) for variable in own for group in variable.groups}
        if any(a & b and not (a <= b or b <= a) for a in sets for b in sets):
            yield Problem.of(
                ("tables",),
                "bad-programme/groups",
                found=", ".join(dict.fromkeys(v.name for v in own)),
                attribute=attribute.name,
            )
    if not any(table.judged and table.query.variables for table in tables):
        yield Problem.of(("tables",), "bad-programme/accuracy")
    if part.shown is not None and part.shown.characteristic not in ids:
        found = part.shown.characteristic
        yield Problem.of(("shown", "characteristic"), "bad-programme/count", found=found, ids=", ".join(ids))


def problems_of_levels(
    part: ComparedProgrammePart, geography: ProgrammeGeographyPart, schema: Schema
) -> Iterator[Problem]:
    """What is wrong with the published levels, given the geography; paths are those of the programme."""
    named = [level.name for level in geography.levels]
    places = [named.index(name) for name in part.levels if name in named]
    for position, name in enumerate(part.levels):
        if name not in named:
            yield Problem.of(("levels", position), "bad-programme/geography", found=name, named=", ".join(named))
    if places != sorted(set(places)):
        found = ", ".join(part.levels)
        yield Problem.of(("levels",), "bad-programme/order", found=found)
    taken = {*RESERVED, *(attribute.name for attribute in schema.attributes), *part.in_households}
    for name in (name for name in part.levels if name in taken):
        yield Problem.of(("levels",), "bad-programme/column", found=name)
