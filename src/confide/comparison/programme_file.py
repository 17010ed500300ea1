"""The programme of a comparison: whose records, what is published of them, and what an outsider knows. A part of the
spec, or a file of its own; ``data/comparison/`` has those that ship.

::

    [programme]
    schema = "schema.toml"
    attributes = ["sex", "age:five-year", "citizenship"]   # at the finest detail that anything is published in
    known = ["sex", "age"]                                 # what the outsider knows of people, besides where they live
    learnt = ["citizenship"]                               # what is sensitive
    levels = ["region"]                                    # tables are published for these, and for the smallest areas

    [[programme.tables]]
    name = "citizenship"
    variables = ["citizenship"]
    judged = true                                          # accuracy is measured on it

Every key: ``docs/concepts/comparison.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from confide.documents import FileKind, Loaded, Part, load_named
from confide.releases.spec import GeographyPart, Name

KIND = "comparison"
"""The folder of those that ship."""
US_STATE = "us-state"
BLOCK = "block"
"""The level of the smallest areas, whatever an office calls them."""
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
        default_factory=list, description="The levels that tables are published for, besides the smallest areas."
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
