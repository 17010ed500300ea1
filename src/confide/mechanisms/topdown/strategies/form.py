"""The form of a strategy file: its tables and keys, as models. What the keys mean together is for ``file``.

``[roots.NAME]`` is a table of shares, a column for each level and a row for each query; ``[derived.NAME]`` cuts a root
at a lower level. See ``docs/concepts/strategy.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from confide.documents import SchemaFile
from confide.errors import ConfideError
from confide.mechanisms.topdown.strategies.constraints import Bound, Constraints, Invariant, Side, StructuralZero
from confide.mechanisms.topdown.strategies.strategy import resolve
from confide.privacy import Neighbours
from confide.releases.spec import ExactNumber, KeyPath, Name, Part, Problem
from confide.schema import Query, Recode, Schema

NOT_MEASURED = "-"
BLOCK = "block"
"""The name of the lowest level of every spine."""

QueryName = Annotated[str, AfterValidator(lambda text: "*".join(part.strip() for part in text.split("*")))]
LevelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")]
Share = Annotated[ExactNumber | None, BeforeValidator(lambda value: None if value == NOT_MEASURED else value)]
"""An exact share, or ``-`` where the query is not measured."""


class PassPart(Part):
    """A least-squares pass."""

    queries: list[QueryName] = Field(min_length=1, description="The queries of the objective.")
    constrain: list[QueryName] = Field(default_factory=list, description="The answers that later passes keep.")


class EstimationPart(Part):
    """How the units of a level are estimated."""

    least_squares: list[PassPart] = Field(min_length=1, description="The least-squares passes in order.")
    rounding: list[list[QueryName]] = Field(min_length=1, description="The rounding passes; together a chain.")
    slack: ExactNumber | None = Field(None, description="How far kept answers may move in later passes.")


class RootPart(Part):
    """Levels, shares and queries for one kind of root."""

    budget: ExactNumber = Field(description="The budget when the spec names none.")
    levels: list[LevelName] = Field(min_length=1, description="The levels, root first, `block` last.")
    shares: list[ExactNumber] = Field(description="The share of each level.")
    estimation: list[str] = Field(description="The name of the estimation of each level.")
    queries: dict[QueryName, list[Share]] = Field(description="For each query its share of each level, or -.")


class DerivedPart(Part):
    """A root that is a unit of a lower level of another root."""

    source: str = Field(alias="from", description="The root whose strategy is cut.")
    top: str = Field(description="The level that becomes the root.")
    estimation: str = Field(description="The name of the estimation of the new root.")
    renormalise: bool = Field(False, description="false: keep the noise, spend less; true: spend the whole budget.")


class InvariantPart(Part):
    """What is published without noise."""

    name: Name
    level: str = Field(description="The lowest level on which the figure is published.")
    query: QueryName | None = Field(None, description="The query whose answer it is.")
    frame: list[str] = Field(default_factory=list, description="The columns of the block table that it is.")


class BoundPart(Part):
    """A bound on the counts of the groups of a variable."""

    name: Name
    variable: str = Field(description="A variable of the schema.")
    side: Literal["lower", "upper"]
    per_unit: int = Field(ge=1, le=10**6, description="So many records for each unit that the frame counts.")
    frame: dict[str, str] = Field(min_length=1, description="Code of an attribute, or label of a group = column.")


class ZeroPart(Part):
    """Combinations that no record can have."""

    name: Name
    where: dict[str, list[int | str]] = Field(min_length=1, description="Attribute = codes.")


class StrategyFile(Part):
    """A strategy file."""

    id: Name
    title: str = Field(min_length=1, max_length=200)
    provenance: str = Field(min_length=1, description="One sentence: where the settings come from.")
    record: str = Field("person", pattern=r"^[a-z][a-z -]{0,40}$", description="What one record describes, in words.")
    schema_: str | SchemaFile = Field(alias="schema", description="A shipped name, a path, or the schema itself.")
    blocks_with: list[str] = Field(
        default_factory=list,
        description="Columns of the block table: where all are zero nobody is, and the block is not on the spine.",
    )
    apart: list[str] = Field(
        default_factory=list,
        description="Columns of the block table: a made block group has no blocks that differ in which are zero.",
    )
    definition: Literal["zcdp"] = Field(description="Noise is discrete Gaussian, accounted in zCDP.")
    neighbours: Literal["change-one", "add-remove"]
    root: str = Field(description="The root that is meant when none is named.")
    roots: dict[Name, RootPart] = Field(min_length=1)
    derived: dict[Name, DerivedPart] = Field(default_factory=dict)
    estimation: dict[Name, EstimationPart] = Field(min_length=1)
    invariants: list[InvariantPart] = Field(default_factory=list)
    bounds: list[BoundPart] = Field(default_factory=list)
    zeros: list[ZeroPart] = Field(default_factory=list)


class Notes:
    """What is wrong with a file, collected."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self.problems: list[Problem] = []

    def wrong(
        self, path: KeyPath, code: str, what: str, found: object, expected: str | Iterable[str], remedy: str = ""
    ) -> None:
        """Notes a problem. ``expected`` is a sentence, or the names to choose from."""
        sentence = expected if isinstance(expected, str) else "one of " + ", ".join(expected)
        remedy = remedy or "correct the strategy file"
        self.problems.append(Problem(path, code, what, sentence, str(found)[:200], remedy))

    def passed_on(self, path: KeyPath, error: ConfideError) -> None:
        """Notes what another part of Confide found."""
        for f in error.findings:
            self.wrong(path, f.code, f.what, f.found, f.expected or "another value", f.remedy or "")

    def query(self, path: KeyPath, text: str) -> Query | None:
        """The query that ``text`` names; or nothing, and a problem."""
        try:
            query = resolve(self.schema, text)
        except ConfideError as error:
            self.passed_on(path, error)
            return None
        if query.is_complete:
            return query
        self.wrong(path, "incomplete-recode", f"{text!r} leaves levels out", text, "a group for every level")
        return None


# From the constraints of a strategy file to constraints, with all that is wrong with them.


def make_constraints(values: StrategyFile, notes: Notes) -> Constraints:
    """The constraints of a file, and every problem with them."""
    before = len(notes.problems)
    for key, parts in (("invariants", values.invariants), ("bounds", values.bounds), ("zeros", values.zeros)):
        for name, times in Counter(part.name for part in parts).items():
            if times > 1:
                notes.wrong((key,), "repeated-name", f"two {key} have the name {name!r}", name, "names that differ")
    made = Constraints(tuple(_invariants(values, notes)), tuple(_bounds(values, notes)), tuple(_zeros(values, notes)))
    for finding in made.clashes(notes.schema) if len(notes.problems) == before else ():
        notes.wrong(
            ("bounds",), finding.code, finding.what, finding.found, finding.expected or "", finding.remedy or ""
        )
    return made


def _invariants(values: StrategyFile, notes: Notes) -> Iterator[Invariant]:
    for position, part in enumerate(values.invariants):
        at: KeyPath = ("invariants", position)
        query = None if part.query is None else notes.query((*at, "query"), part.query)
        if part.query is None and not part.frame:
            notes.wrong(at, "empty-invariant", f"{part.name!r} says nothing", "neither", "a query, frame, or both")
        if query is not None and part.frame and len(part.frame) != query.cells:
            what = f"the invariant {part.name!r} has not one column for each cell of {part.query!r}"
            notes.wrong((*at, "frame"), "row-length", what, len(part.frame), str(query.cells))
        if query is not None and query.variables and not part.frame:
            what = f"the invariant {part.name!r} publishes an answer other than the number of records as it is"
            expected = '"total"; or the columns of the frame that tell the answer'
            notes.wrong((*at, "query"), "invariant-query", what, part.query, expected)
        if query is not None and part.frame and part.level != BLOCK:
            what = f"the invariant {part.name!r} is told by the frame, which tells it for every block"
            notes.wrong((*at, "level"), "invariant-level", what, part.level, BLOCK)
        if part.query is not None and values.neighbours != Neighbours.CHANGE_ONE.value:
            what = f"the invariant {part.name!r} gives away whether a record is there"
            expected = "neighbours = change-one, or no invariant counts of records"
            notes.wrong(("neighbours",), "invariant-neighbours", what, values.neighbours, expected)
        yield Invariant(part.name, part.level, None if query is None else part.query, tuple(part.frame))


def _bounds(values: StrategyFile, notes: Notes) -> Iterator[Bound]:
    for position, part in enumerate(values.bounds):
        at: KeyPath = ("bounds", position)
        variable = notes.schema.variables.get(part.variable)
        if variable is None:
            what = f"the schema has no variable {part.variable!r}"
            notes.wrong((*at, "variable"), "unknown-variable", what, part.variable, notes.schema.variables)
            continue
        keys = _group_keys(variable)
        for key in (key for key in part.frame if key not in keys):
            what = f"{part.variable!r} has no group {key!r}"
            notes.wrong((*at, "frame", key), "unknown-group", what, key, keys)
        frame = {keys[key]: column for key, column in part.frame.items() if key in keys}
        yield Bound(part.name, variable, Side(part.side), part.per_unit, frame)


def _zeros(values: StrategyFile, notes: Notes) -> Iterator[StructuralZero]:
    attributes = {attribute.name: attribute for attribute in notes.schema.attributes}
    for position, part in enumerate(values.zeros):
        at: KeyPath = ("zeros", position, "where")
        where: dict[str, Any] = {}
        for name, codes in part.where.items():
            if name not in attributes:
                what = f"the schema has no attribute {name!r}"
                notes.wrong((*at, name), "unknown-attribute", what, name, attributes)
                continue
            for code in (code for code in codes if code not in attributes[name].index):
                expected = attributes[name].describe_codes()
                notes.wrong((*at, name), "unknown-code", f"{name!r} has no code {code!r}", code, expected)
            where[name] = tuple(code for code in codes if code in attributes[name].index)
        yield StructuralZero(part.name, where)


def _group_keys(variable: Recode) -> dict[str, int]:
    """What a bound calls the groups of a variable: the code of an attribute's level, or the label of a recode's."""
    if variable.name == variable.attribute.name:
        return {str(level.code): index for index, level in enumerate(variable.attribute.levels)}
    return {label: index for index, label in enumerate(variable.labels)}
