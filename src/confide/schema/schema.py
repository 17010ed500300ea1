"""A schema: the attributes of one kind of record, their recodes, and the names by which queries speak of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod

from confide.errors import SpecError
from confide.schema.attribute import NO_GROUP, Attribute, Recode, identity

# Queries: marginals of recodes. Each histogram cell adds to at most one cell of the answer, with coefficient one.


TOTAL = "total"
"""The name of the query without variables, which counts everybody."""


@dataclass(frozen=True)
class Query:
    """The cross-classification of some recodes, cells in C order (the last variable runs fastest)."""

    variables: tuple[Recode, ...]

    @property
    def name(self) -> str:
        """``hispanic*cenrace``, or ``total`` for the query without variables."""
        return "*".join(variable.name for variable in self.variables) or TOTAL

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each variable."""
        return tuple(variable.size for variable in self.variables)

    @property
    def cells(self) -> int:
        """The number of cells of the answer."""
        return prod(self.shape)

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
                raise _wrong(f"the name {recode.name!r} stands for two things", "names that differ")
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


def _wrong(what: str, expected: str) -> SpecError:
    return SpecError("schema", what, expected=expected, remedy="correct the schema file")
