"""Attributes: what a record says of a person or a unit, as a closed list of labelled levels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from confide.errors import Finding, SpecError

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
        shown = ", ".join(repr(code) for code in codes[:8])
        return f"one of {shown}" + (f" and {len(codes) - 8} more" if len(codes) > 8 else "")


def _wrong(name: str, problem: str, found: str, expected: str) -> SpecError:
    return SpecError(
        Finding(
            code="schema-attribute",
            what=f"attribute {name!r} {problem}",
            found=found,
            expected=expected,
            remedy="correct the schema file",
        )
    )
