"""A schema: the attributes of one kind of record, their recodes, and the names by which queries speak of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from math import prod
from typing import Any, TypeVar

from confide.errors import Finding, Place, SpecError
from confide.schema.attribute import NO_GROUP, Attribute, Group, Level, Recode, identity

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


LONGEST_RANGE = 100_000
"""How many levels a range may stand for."""

T = TypeVar("T")


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


def parse_schema(document: dict[str, Any]) -> Schema:
    """A schema from the plain values of its TOML file.

    An attribute lists ``levels`` as code-label pairs, or a ``range`` of whole numbers. A recode lists ``groups``,
    each a label with codes, a code, or an inclusive range written ``"5..9"``; or it cuts the range by the first code of
    each group in ``starts``.

    Args:
        document: ``id``, ``provenance``, and ``attributes`` by name.

    Raises:
        SpecError: With all findings at once.

    >>> age = {"title": "Age", "range": [0, 99], "recodes": {"young": {"starts": [0, 18, 65]}}}
    >>> sex = {"title": "Sex", "levels": [["1", "male"], ["2", "female"]]}
    >>> schema = parse_schema({"id": "demo", "provenance": "made up", "attributes": {"age": age, "sex": sex}})
    >>> schema.query("sex*age:young").shape
    (2, 3)
    """
    findings = [
        _malformed(f"the schema has no {key}", key, f'{key} = "..."')
        for key in ("id", "provenance")
        if not isinstance(document.get(key), str)
    ]
    attributes: list[Attribute] = []
    recodes: list[Recode] = []
    bodies = document.get("attributes")
    if not isinstance(bodies, dict) or not bodies:
        findings.append(_malformed("the schema has no attributes", "attributes", "[attributes.NAME] with levels"))
        bodies = {}
    for name, body in bodies.items():
        path = f"attributes.{name}"
        attribute = _gathered(findings, path, "levels as [code, label] pairs, or a range", _attribute, name, body)
        if attribute is None:
            continue
        attributes.append(attribute)
        named = body.get("recodes", {})
        if not isinstance(named, dict):
            findings.append(_malformed("recodes is not a table", f"{path}.recodes", "recodes by name"))
            continue
        for recode_name, recode_body in named.items():
            expected = "groups, each a label with codes, or starts"
            place = f"{path}.recodes.{recode_name}"
            recode = _gathered(findings, place, expected, _recode, attribute, recode_name, recode_body)
            recodes += [] if recode is None else [recode]
    if findings:
        raise SpecError(findings)
    return Schema(document["id"], document["provenance"], tuple(attributes), tuple(recodes))


def _gathered(findings: list[Finding], path: str, expected: str, make: Callable[..., T], *values: Any) -> T | None:
    """What ``make`` makes of a part of the file; or nothing, and a finding at ``path``."""
    try:
        return make(*values)
    except SpecError as error:
        findings += [replace(finding, where=Place(path=path)) for finding in error.findings]
    except (KeyError, TypeError, ValueError, AttributeError):
        findings.append(_malformed("this part of the schema is not of the right form", path, expected))
    return None


def _malformed(what: str, path: str, expected: str) -> Finding:
    return Finding("schema", what, Place(path=path), "another form", expected, "correct the schema file")


def _attribute(name: str, body: dict[str, Any]) -> Attribute:
    if "range" in body:
        first, last = (int(bound) for bound in body["range"])
        if last - first >= LONGEST_RANGE:
            raise ValueError
        levels = tuple(Level(code, str(code)) for code in range(first, last + 1))
    else:
        levels = tuple(Level(code, str(label)) for code, label in body["levels"])
        if not all(type(level.code) in (int, str) for level in levels):
            raise TypeError
    return Attribute(name, str(body.get("title", name)), levels)


def _recode(attribute: Attribute, name: str, body: dict[str, Any]) -> Recode:
    full_name = f"{attribute.name}:{name}"
    if "starts" in body:
        return Recode(full_name, attribute, _cut(attribute, [int(start) for start in body["starts"]]))
    groups = tuple(Group(str(label), tuple(_codes(attribute, member))) for label, member in body["groups"].items())
    return Recode(full_name, attribute, groups)


def _cut(attribute: Attribute, starts: list[int]) -> tuple[Group, ...]:
    codes = [int(level.code) for level in attribute.levels]
    groups = []
    for first, end in pairwise([*starts, codes[-1] + 1]):
        if end == first + 1:
            label = f"{first}"
        elif end > codes[-1]:
            label = f"{first} and over"
        else:
            label = f"{first} to {end - 1}"
        groups.append(Group(label, tuple(code for code in codes if first <= code < end)))
    return tuple(groups)


def _codes(attribute: Attribute, member: Any) -> list[int | str]:
    if isinstance(member, list):
        return [code for part in member for code in _codes(attribute, part)]
    if isinstance(member, str) and ".." in member and attribute.is_integer:
        first, last = (int(bound) for bound in member.split(".."))
        return list(range(first, last + 1))
    return [member]


def _wrong(what: str, expected: str) -> SpecError:
    return SpecError("schema", what, expected=expected, remedy="correct the schema file")
