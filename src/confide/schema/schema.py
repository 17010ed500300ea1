"""A schema: the attributes of one kind of record, their recodes, and the names by which queries speak of them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from confide.errors import SpecError

Code: TypeAlias = int | str
"""What stands in the records: an integer or a text."""


@dataclass(frozen=True, slots=True)
class Level:
    """One value an attribute can take: the code in the records and the label people read."""

    code: Code
    label: str


@dataclass(frozen=True)
class Attribute:
    """A categorical attribute. Its levels are public and complete: a record with another code is an error.

    The position of a level in ``levels`` is its index in every histogram.
    """

    name: str
    title: str
    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise _wrong(self.name, "has no levels", "no levels", "at least one level")
        kinds = {type(level.code) for level in self.levels}
        if len(kinds) > 1:
            raise _wrong(self.name, "mixes integer and text codes", "codes of both kinds", "codes of one kind")
        repeated = [code for code, times in Counter(level.code for level in self.levels).items() if times > 1]
        if repeated:
            raise _wrong(self.name, f"has the code {repeated[0]!r} more than once", repr(repeated[0]), "each code once")

    @property
    def is_integer(self) -> bool:
        """Whether the records hold integers for this attribute."""
        return isinstance(self.levels[0].code, int)

    @property
    def size(self) -> int:
        """The number of levels."""
        return len(self.levels)

    @cached_property
    def index(self) -> dict[Code, int]:
        """From code to level index."""
        return {level.code: position for position, level in enumerate(self.levels)}

    def describe_codes(self) -> str:
        """The codes in one short phrase, for messages."""
        codes = [level.code for level in self.levels]
        if self.is_integer and codes == list(range(int(codes[0]), int(codes[0]) + len(codes))):
            return f"a whole number from {codes[0]} to {codes[-1]}"
        first_codes = ", ".join(repr(code) for code in codes[:8])
        return f"one of {first_codes}" + (f" and {len(codes) - 8} more" if len(codes) > 8 else "")


def _wrong(name: str, problem: str, found: str, expected: str) -> SpecError:
    return SpecError(
        "schema-attribute",
        f"attribute {name!r} {problem}",
        found=found,
        expected=expected,
        remedy="correct the schema file",
    )


# Recodes: groupings of an attribute's levels. ``age`` in single years becomes ``age:five-year``.


NO_GROUP = -1


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a recode: the label people read and the codes of the levels in it."""

    label: str
    codes: tuple[Code, ...]


@dataclass(frozen=True)
class Recode:
    """Disjoint groups of the levels of one attribute.

    Levels in no group leave the query: every record is in at most one group, so a recode never raises sensitivity.
    """

    name: str
    attribute: Attribute
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        codes_so_far: set[Code] = set()
        for group in self.groups:
            for code in group.codes:
                if code not in self.attribute.index:
                    raise self._wrong(f"group {group.label!r} has a code that the attribute lacks", repr(code))
                if code in codes_so_far:
                    raise self._wrong("puts one level into two groups", repr(code))
                codes_so_far.add(code)
            if not group.codes:
                raise self._wrong(f"group {group.label!r} is empty", "no codes")
        if not self.groups:
            raise self._wrong("has no groups", "no groups")

    @property
    def size(self) -> int:
        """The number of groups."""
        return len(self.groups)

    @cached_property
    def assignment(self) -> NDArray[np.int64]:
        """For each level of the attribute its group, or ``NO_GROUP``."""
        result = np.full(self.attribute.size, NO_GROUP, np.int64)
        for position, group in enumerate(self.groups):
            result[[self.attribute.index[code] for code in group.codes]] = position
        return result

    @property
    def labels(self) -> list[str]:
        """The labels of the groups in order."""
        return [group.label for group in self.groups]

    def _wrong(self, problem: str, found: str) -> SpecError:
        return SpecError(
            "schema-recode",
            f"recode {self.name!r} of {self.attribute.name!r} {problem}",
            found=found,
            expected="disjoint, non-empty groups of the attribute's codes",
            remedy="correct the schema file",
        )


def identity(attribute: Attribute) -> Recode:
    """The recode that keeps every level apart."""
    return Recode(attribute.name, attribute, tuple(Group(level.label, (level.code,)) for level in attribute.levels))


# Queries: marginals of recodes. Each histogram cell adds to at most one cell of the answer, with coefficient one.


TOTAL = "total"
"""The name of the query without variables, which counts everybody."""


class CrossedVariable(Protocol):
    """What can be crossed: a name in queries, and a number of groups."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...


VariableT = TypeVar("VariableT", bound=CrossedVariable)


@dataclass(frozen=True)
class CrossClassification(Generic[VariableT]):
    """The groups of some variables crossed, cells in C order (the last variable runs fastest)."""

    variables: tuple[VariableT, ...]

    @property
    def name(self) -> str:
        """The name of the query: ``sex*age:five-year``, or ``total`` without variables."""
        return "*".join(variable.name for variable in self.variables) or TOTAL

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each variable."""
        return tuple(variable.size for variable in self.variables)

    @property
    def cells(self) -> int:
        """The number of cells, empty ones with them."""
        return prod(self.shape)


@dataclass(frozen=True)
class Query(CrossClassification[Recode]):
    """The cross-classification of some recodes."""

    def margins(self) -> Iterable[Query]:
        """All sub-queries, itself first and the total last: the power set P(A) of Bach (2021), Eq. 6."""
        for size in range(len(self.variables), -1, -1):
            for subset in combinations(self.variables, size):
                yield Query(subset)

    @property
    def is_complete(self) -> bool:
        """Whether every record falls into some cell."""
        return all((variable.assignment != NO_GROUP).all() for variable in self.variables)


@dataclass(frozen=True)
class Schema:
    """Attributes in order, and recodes named ``attribute:recode``."""

    id: str
    provenance: str
    attributes: tuple[Attribute, ...]
    recodes: tuple[Recode, ...]

    @cached_property
    def variables(self) -> dict[str, Recode]:
        """Everything a query can name: attributes as they are, and recodes."""
        named = {attribute.name: identity(attribute) for attribute in self.attributes}
        for recode in self.recodes:
            if recode.name in named:
                what = f"the name {recode.name!r} stands for two things"
                raise SpecError("schema", what, expected="names that differ", remedy="correct the schema file")
            named[recode.name] = recode
        return named

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of every code, label and group: two schemas with the same one ask the same question."""
        content = {
            "attributes": [
                [a.name, a.title, [[level.code, level.label] for level in a.levels]] for a in self.attributes
            ],
            "recodes": [[r.name, [[group.label, list(group.codes)] for group in r.groups]] for r in self.recodes],
        }
        return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode("ascii")).hexdigest()

    def variable(self, name: str) -> Recode:
        """The variable of that name."""
        try:
            return self.variables[name]
        except KeyError:
            raise SpecError(
                "unknown-variable",
                f"the schema {self.id!r} has no variable {name!r}",
                found=name,
                expected="one of " + ", ".join(self.variables),
                remedy="correct the name, or add a recode to the schema file",
            ) from None

    def query(self, text: str) -> Query:
        """The query that ``text`` names: ``"sex*age:five-year"`` or ``"total"``."""
        if text.strip() == TOTAL:
            return Query(())
        variables = tuple(self.variable(name.strip()) for name in text.split("*"))
        attributes = [variable.attribute.name for variable in variables]
        if len(set(attributes)) < len(attributes):
            raise SpecError(
                "repeated-attribute",
                f"the query {text!r} uses one attribute twice",
                found=text,
                expected="each attribute at most once",
                remedy="keep one variable of each attribute",
            )
        return Query(variables)

    def ordered_query(self, names: Sequence[str]) -> Query:
        """The cross-classification of some variables, in the order of the schema, whatever order they are named in."""
        order = list(self.variables)
        query = self.query("*".join(names) or TOTAL)
        return Query(tuple(sorted(query.variables, key=lambda variable: order.index(variable.name))))
