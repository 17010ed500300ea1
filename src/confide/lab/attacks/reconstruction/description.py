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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from confide import documents
from confide.arrays import Floats, Integers
from confide.errors import ParameterError, Place, SpecError
from confide.lab.published.marginals import ImpossibleCells, PublishedMarginal
from confide.lab.published.published_rows import codes_of, query_of
from confide.releases.spec import ExactNumber
from confide.schema import NO_GROUP, Attribute, Code, Query, Recode, Schema

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


# The cells of the histogram that tables can tell apart.
#
# Levels of an attribute that no table tells apart form one *class*: the coarsest common refinement of the variables in
# use. With the block tables of Summary File 1, the 116 ages become the 38 age bins of the Census Bureau's experiment by
# themselves. A :class:`Space` is the product of the classes of all attributes in use.


MOST_CELLS = 1 << 21
"""How many cells a histogram may have before nothing is dropped."""


@dataclass(frozen=True)
class Axis:
    """The classes of one attribute: for each level its class, for each class its levels and a label."""

    attribute: Attribute
    class_of: Integers = field(repr=False)
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of classes."""
        return len(self.labels)

    @cached_property
    def codes(self) -> tuple[tuple[Code, ...], ...]:
        """For each class the codes of its levels."""
        members: list[list[Code]] = [[] for _ in self.labels]
        for level, place in zip(self.attribute.levels, self.class_of, strict=True):
            members[int(place)].append(level.code)
        return tuple(tuple(codes) for codes in members)

    def groups(self, recode: Recode) -> Integers:
        """For each class its group in a recode that these classes refine."""
        result = np.full(self.size, NO_GROUP, np.int64)
        result[self.class_of] = recode.assignment
        return result

    def to(self, coarser: Axis) -> Integers:
        """For each class the class of a coarser axis that it lies in."""
        result = np.zeros(self.size, np.int64)
        result[self.class_of] = coarser.class_of
        return result


def refine(attribute: Attribute, recodes: Sequence[Recode]) -> Axis:
    """The coarsest classes of an attribute's levels that are finer than all recodes."""
    if not recodes:
        return Axis(attribute, np.zeros(attribute.size, np.int64), ("all",))
    # Levels with the same group in every recode are one class; classes are numbered in the order of their first level.
    keys = np.array([recode.assignment for recode in recodes])
    _, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    class_of = rank[inverse.reshape(-1)]
    # A class that is a group of some recode takes its label.
    named = {frozenset(group.codes): group.label for recode in reversed(recodes) for group in recode.groups}
    members: list[list[Code]] = [[] for _ in first]
    for level, place in zip(attribute.levels, class_of, strict=True):
        members[int(place)].append(level.code)
    labels = tuple(named.get(frozenset(codes)) or _label(attribute, codes) for codes in members)
    return Axis(attribute, class_of, labels)


def _label(attribute: Attribute, codes: list[Code]) -> str:
    if len(codes) == 1:
        return attribute.levels[attribute.index[codes[0]]].label
    if attribute.is_integer and int(codes[-1]) - int(codes[0]) == len(codes) - 1:
        return f"{codes[0]} to {codes[-1]}"
    return f"{codes[0]} and {len(codes) - 1} more"


@dataclass(frozen=True)
class Space:
    """A product of classes, cells in C order."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of classes of each attribute."""
        return tuple(axis.size for axis in self.axes)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return prod(self.shape)

    def place(self, groups: Sequence[Integers | None], sizes: Sequence[int]) -> Integers:
        """For each cell its cell in a product of groups of the axes; ``None`` for an axis that is summed over."""
        outside = np.zeros(self.shape, bool)
        total = np.zeros(self.shape, np.int64)
        for number, (axis_groups, size) in enumerate(zip(groups, sizes, strict=True)):
            if axis_groups is None:
                continue
            form = [1] * len(self.axes)
            form[number] = -1
            shaped = axis_groups.reshape(form)
            outside |= shaped == NO_GROUP
            total = total * size + shaped
        total[outside] = NO_GROUP
        return total.reshape(-1)

    def forbidden(self, zeros: Iterable[ImpossibleCells]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which cells hold nothing but combinations that cannot be."""
        result = np.zeros(self.cells, bool)
        for zero in zeros:
            if not zero.where.keys() <= {axis.attribute.name for axis in self.axes}:
                continue
            groups = [
                np.array([0 if set(codes) <= zero.where[axis.attribute.name] else NO_GROUP for codes in axis.codes])
                if axis.attribute.name in zero.where
                else None
                for axis in self.axes
            ]
            result |= self.place(groups, [1] * len(groups)) != NO_GROUP
        return result

    def to(self, coarser: Space) -> Integers:
        """For each cell the cell of a coarser space that it lies in."""
        groups = [axis.to(other) for axis, other in zip(self.axes, coarser.axes, strict=True)]
        return self.place(groups, coarser.shape)


def space_of(attributes: Sequence[Attribute], marginals: Iterable[PublishedMarginal], used: Sequence[str]) -> Space:
    """The cells that some marginals tell apart, over the attributes that are in use.

    Args:
        attributes: The attributes of the schema.
        marginals: Those whose variables decide which levels the tables tell apart.
        used: The names of the attributes in use, in the order of the axes.
    """
    recodes: dict[str, list[Recode]] = {name: [] for name in used}
    for marginal in marginals:
        for variable in marginal.query.variables:
            if variable not in recodes[variable.attribute.name]:
                recodes[variable.attribute.name].append(variable)
    by_name = {attribute.name: attribute for attribute in attributes}
    space = Space(tuple(refine(by_name[name], variables) for name, variables in recodes.items()))
    if space.cells > MOST_CELLS:
        raise ParameterError(
            "histogram-too-large",
            cells=space.cells,
            axes=" by ".join(f"{a.attribute.name} ({a.size})" for a in space.axes),
            most_cells=MOST_CELLS,
        )
    return space


@dataclass(frozen=True, eq=False)
class Layer:
    """A marginal over a space: for each cell the row that counts it, or none.

    Where a variable of the marginal cuts through classes of the space, groups are joined until they are unions of
    classes; ``fold`` takes the query's cells to the joined ones, ``NO_GROUP`` if a joined group reaches beyond what the
    query counts.
    """

    marginal: PublishedMarginal
    assignment: Integers = field(repr=False)
    size: int
    fold: Integers | None = field(repr=False)

    def counts(self, unit: int) -> Floats:
        """The counts of the rows in a unit, NaN where unknown."""
        values = self.marginal.counts(unit)
        if self.fold is None:
            return values
        inside = self.fold != NO_GROUP
        sums: Floats = np.bincount(self.fold[inside], values[inside], self.size).astype(np.float64)
        return sums


def layer(space: Space, marginal: PublishedMarginal) -> Layer:
    """A marginal laid over a space."""
    query = marginal.query
    by_name = {variable.attribute.name: variable for variable in query.variables}
    groups: list[Integers | None] = []
    sizes: list[int] = []
    joins: dict[str, Integers] = {}
    for axis in space.axes:
        variable = by_name.get(axis.attribute.name)
        if variable is None:
            groups.append(None)
            sizes.append(1)
            continue
        joined, of_class, size = _join(axis, variable)
        joins[axis.attribute.name] = joined
        groups.append(of_class)
        sizes.append(size)
    assignment = space.place(groups, sizes)
    order = [axis.attribute.name for axis in space.axes if axis.attribute.name in by_name]
    identical = [variable.attribute.name for variable in query.variables] == order and all(
        np.array_equal(joined, np.arange(len(joined))) for joined in joins.values()
    )
    size = prod(sizes)
    return Layer(marginal, assignment, size, None if identical else _fold(query, order, joins, space, sizes))


def _fold(query: Query, order: list[str], joins: dict[str, Integers], space: Space, sizes: list[int]) -> Integers:
    """For each cell of the query, as it is stored, its row."""
    place = [variable.attribute.name for variable in query.variables]
    indices = np.indices(query.shape).reshape(len(query.shape), -1)
    total = np.zeros(query.cells, np.int64)
    outside = np.zeros(query.cells, bool)
    size_of = {axis.attribute.name: size for axis, size in zip(space.axes, sizes, strict=True)}
    for name in order:
        joined = joins[name][indices[place.index(name)]]
        outside |= joined == NO_GROUP
        total = total * size_of[name] + joined
    total[outside] = NO_GROUP
    return total


def _join(axis: Axis, recode: Recode) -> tuple[Integers, Integers, int]:
    """Groups joined until each is a union of classes: for each group and for each class the joined group, and their
    number. What overlaps a class that is partly outside all groups is in none."""
    # A forest of groups (union-find), in which two are joined that share a class.
    parent = list(range(recode.size + 1))  # the last stands for "in no group"

    def root(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    first: dict[int, int] = {}
    outside = recode.size
    of_level = np.where(recode.assignment == NO_GROUP, outside, recode.assignment)
    for place, group in zip(axis.class_of.tolist(), of_level.tolist(), strict=True):
        if place not in first:
            first[place] = group
        else:
            one, two = root(first[place]), root(group)
            parent[min(one, two)] = max(one, two)
    # Trees get numbers in the order of their first group; whatever hangs with "in no group" gets none.
    number_of_root: dict[int, int] = {}
    joined = np.full(recode.size, NO_GROUP, np.int64)
    for group in range(recode.size):
        if root(group) != root(outside):
            joined[group] = number_of_root.setdefault(root(group), len(number_of_root))
    extended = np.append(joined, NO_GROUP)
    of_class = np.array([extended[first[place]] for place in range(axis.size)], np.int64)
    return joined, of_class, max(len(number_of_root), 1)
