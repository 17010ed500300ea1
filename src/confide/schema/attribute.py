"""Attributes: what a record says of a person or a unit, as a closed list of labelled levels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

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
