"""Recodes: groupings of an attribute's levels. ``age`` in single years becomes ``age:five-year``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from confide.errors import Finding, SpecError
from confide.schema.attribute import Attribute, Code

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
        seen: set[Code] = set()
        for group in self.groups:
            for code in group.codes:
                if code not in self.attribute.index:
                    raise self._wrong(f"group {group.label!r} has a code that the attribute lacks", repr(code))
                if code in seen:
                    raise self._wrong("puts one level into two groups", repr(code))
                seen.add(code)
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
            Finding(
                code="schema-recode",
                what=f"recode {self.name!r} of {self.attribute.name!r} {problem}",
                found=found,
                expected="disjoint, non-empty groups of the attribute's codes",
                remedy="correct the schema file",
            )
        )


def identity(attribute: Attribute) -> Recode:
    """The recode that keeps every level apart."""
    return Recode(attribute.name, attribute, tuple(Group(level.label, (level.code,)) for level in attribute.levels))
