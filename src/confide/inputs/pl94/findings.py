"""Findings about one file, gathered up to a limit.

A PL 94-171 file is published, so its values may be shown. A damaged file would give as many findings as it has
rows: after ``limit`` of them the rest are only counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from confide.errors import Finding, InputError, Place

DOWNLOAD_AGAIN = "Download the file again from the Census Bureau's redistricting data page and compare its size."


@dataclass(slots=True)
class Findings:
    """The findings of one file. ``name`` is the zip's name; a place inside it is ``zip/member``."""

    name: str
    limit: int = 20
    items: list[Finding] = field(default_factory=list)
    more: int = 0

    def add(
        self,
        code: str,
        what: str,
        *,
        member: str | None = None,
        line: int | None = None,
        column: str | None = None,
        found: object = None,
        expected: object = None,
        remedy: str = DOWNLOAD_AGAIN,
    ) -> None:
        """Keep a finding, or count it when the limit is reached."""
        if len(self.items) >= self.limit:
            self.more += 1
            return
        place = Place(file=self.name if member is None else f"{self.name}/{member}", line=line, column=column)
        texts = [None if value is None else str(value) for value in (found, expected)]
        self.items.append(Finding(f"pl94.{code}", what, place, texts[0], texts[1], remedy))

    def stop_if_any(self) -> None:
        """Raise what was gathered, if anything."""
        if not self.items:
            return
        rest = Finding(
            "pl94.more",
            f"{self.more:,} further findings are not shown.",
            Place(file=self.name),
            remedy="Mend the first ones, or ask for more findings.",
        )
        raise InputError([*self.items, rest] if self.more else self.items)

    def fail(self, code: str, what: str, **details: Any) -> InputError:
        """The error for a problem that leaves nothing more to look at: ``raise findings.fail(...)``."""
        self.limit += 1
        self.add(code, what, **details)
        return InputError(list(self.items))
