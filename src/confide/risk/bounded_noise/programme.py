"""A static programme: the tables that will be published, known before anything is.

A *breakdown* is a variable with its categories; a *table* crosses breakdowns and is published with all its margins. A
breakdown can have inner levels: coarser categories published in between, such as NUTS 1 inside NUTS 2. Sizes may
depend on the country through its numbers of areas. Two rules say which levels of a breakdown are counted (Bach 2020,
Annex B):

* ``plain``: the finest one alone, so that every breakdown of a table is one choice, as equations 21 and 22 are written;
* ``inner-levels``: inner levels too, as alternatives, for the breakdowns that the programme names. Without the same
  noise for the same members, the target's own table then counts once, not once in each table.

The form of the file: ``docs/concepts/bounded-noise.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from pathlib import Path
from typing import Any

from confide.errors import Finding, ParameterError, Place
from confide.inputs.shipped import load_shipped, read_toml, shipped
from confide.risk.bounded_noise.programme_file import parse_programme

KIND = "programmes"
_SIZE = re.compile(r"(?P<area>[A-Za-z][A-Za-z0-9_]*)(\+(?P<more>\d+))?|(?P<number>\d+)")


class Rule(StrEnum):
    """Which levels of a breakdown are counted."""

    PLAIN = "plain"
    INNER_LEVELS = "inner-levels"


@dataclass(frozen=True, slots=True)
class Level:
    """One set of categories that a breakdown is published with: a name and a size."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A breakdown as written: sizes are numbers, names of areas, or both added up."""

    name: str
    title: str
    categories: str
    inner: tuple[str, ...]


@dataclass(frozen=True)
class Programme:
    """Tables of breakdowns, by the unit that they count, with the numbers of areas of countries."""

    id: str
    title: str
    provenance: str
    breakdowns: Mapping[str, Breakdown]
    tables: Mapping[str, Mapping[str, tuple[str, ...]]]
    unit: str
    geography: tuple[str, ...] = ()
    countries: Mapping[str, Mapping[str, int]] | None = None
    country: str | None = None
    with_inner_levels: frozenset[str] = frozenset()

    def areas(self, country: str | None = None, own: Mapping[str, int] | None = None) -> dict[str, int]:
        """The numbers of areas of a country (default: that of the programme), with those of the user's own."""
        chosen = country or self.country
        known = self.countries or {}
        given = dict(own or {})
        if unknown := sorted(set(given) - set(self.geography)):
            raise _unknown("area", unknown[0], self.geography, "--areas")
        if chosen is not None and chosen not in known:
            if country is None or set(given) != set(self.geography):
                raise _unknown("country", chosen, known, "--country")
            return given
        found = dict(known[chosen]) if chosen is not None else {}
        return found | given

    def leave_out(self, names: Iterable[str]) -> Programme:
        """The programme without some breakdowns: every table keeps its others."""
        dropped = set(names)
        if unknown := sorted(dropped - set(self.breakdowns)):
            raise _unknown("breakdown", unknown[0], self.breakdowns, "--leave-out")
        tables = {
            unit: {number: tuple(name for name in table if name not in dropped) for number, table in of_unit.items()}
            for unit, of_unit in self.tables.items()
        }
        return replace(self, tables=tables)

    def of_unit(self, unit: str | None = None) -> Mapping[str, tuple[str, ...]]:
        """The tables that count one kind of thing."""
        chosen = unit or self.unit
        if chosen not in self.tables:
            raise _unknown("unit", chosen, self.tables, "--unit")
        return self.tables[chosen]

    def levels(self, name: str, areas: Mapping[str, int], rule: Rule = Rule.PLAIN) -> tuple[Level, ...]:
        """The levels of a breakdown that count, the finest last; none where a breakdown has no categories."""
        breakdown = self.breakdowns[name]
        size = self._size(breakdown.categories, areas)
        if size == 0:
            return ()
        finest = Level(name, size)
        if rule is Rule.PLAIN or name not in self.with_inner_levels:
            return (finest,)
        inner: list[Level] = []
        for text in breakdown.inner:
            if text in self.breakdowns:
                inner.append(Level(text, self._size(self.breakdowns[text].categories, areas)))
            else:
                title = f"{name}:{text}"
                repeated = sum(level.name.startswith(title) for level in inner)
                inner.append(Level(title if not repeated else f"{title}({repeated + 1})", self._size(text, areas)))
        return (*inner, finest)

    def cells(self, table: Iterable[str], areas: Mapping[str, int], *, margins: bool = True) -> int:
        """The cells of a table under the plain rule, with all margins or without any."""
        more = 1 if margins else 0
        sizes = [level.size + more for name in table for level in self.levels(name, areas)]
        return prod(sizes)

    def _size(self, text: str, areas: Mapping[str, int]) -> int:
        match = _SIZE.fullmatch(text)
        assert match is not None, "sizes are checked where the file is read"
        if match["number"] is not None:
            return int(match["number"])
        if match["area"] not in areas:
            raise ParameterError(
                Finding(
                    code="no-areas",
                    what="a breakdown is as large as a country has areas, and no country is given",
                    where=Place(path="--country"),
                    found=f"no number of {match['area']}",
                    expected=f"a country, or numbers of {', '.join(self.geography)}",
                    remedy="give --country, or --areas NAME=NUMBER",
                )
            )
        return areas[match["area"]] + int(match["more"] or 0)


def load_programme(name: str, base: Path | None = None) -> Programme:
    """The programme shipped under ``name``, or read from the path ``name``."""
    known = shipped(KIND)
    if name in known:
        return _made(load_shipped(KIND, name), f"{name}.toml")
    path = (base or Path()) / name
    return _made(read_toml(path, kind="programme", known=known), path.name)


def _made(values: Mapping[str, Any], file: str) -> Programme:
    parsed = parse_programme(values, file)
    parts: dict[str, Any] = dict(parsed)
    parts["breakdowns"] = {name: Breakdown(name, *rest) for name, rest in parsed["breakdowns"].items()}
    return Programme(**parts)


def _unknown(what: str, found: str, known: Iterable[str], path: str) -> ParameterError:
    names = list(known)
    return ParameterError(
        Finding(
            code=f"unknown-{what}",
            what=f"the programme has no such {what}",
            where=Place(path=path),
            found=found[:60],
            expected=f"one of {', '.join(names)}" if names else f"no {what}: the programme names none",
            remedy=f"correct {path}, or use a programme file of your own",
        )
    )
