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

from confide.documents import CollectingReader, load_shipped, read_toml, shipped
from confide.errors import ParameterError, Place

# The TOML form of a programme, read with every mistake reported at once.


_NUMBER = re.compile(r"\d{1,9}")
_AREA = re.compile(r"(?P<area>[A-Za-z][A-Za-z0-9_]*)(\+\d{1,9})?")
_KEYS = {
    "id",
    "title",
    "provenance",
    "geography",
    "unit",
    "country",
    "countries",
    "with_inner_levels",
    "breakdowns",
    "tables",
}


def parse_programme(values: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The parts of a programme: breakdowns as (title, categories, inner), tables by unit and number.

    :raises SpecError: with every finding.
    """
    reader = _Reader(file)
    for key in sorted(set(values) - _KEYS):
        reader.wrong(key, "this key is not part of a programme", key, f"keys among {', '.join(sorted(_KEYS))}")
    geography = reader.names(values.get("geography", []), "geography")
    breakdowns = reader.breakdowns(values.get("breakdowns"), geography)
    tables = reader.tables(values.get("tables"), breakdowns)
    countries = reader.countries(values.get("countries", {}), geography)
    inner = reader.names(values.get("with_inner_levels", []), "with_inner_levels")
    for name in inner:
        if name not in breakdowns:
            reader.wrong("with_inner_levels", "no breakdown has this name", name, "names of breakdowns")
    unit = values.get("unit", next(iter(tables), ""))
    if tables and unit not in tables:
        reader.wrong("unit", "there are no tables of this unit", unit, f"one of {', '.join(tables)}")
    country = values.get("country")
    if country is not None and country not in countries:
        reader.wrong("country", "the programme does not know this country", country, "a key of [countries]")
    texts = {key: reader.text(values.get(key, ""), key) for key in ("id", "title", "provenance")}
    reader.finish()
    return texts | {
        "geography": tuple(geography),
        "breakdowns": breakdowns,
        "tables": tables,
        "countries": countries,
        "country": country,
        "unit": unit,
        "with_inner_levels": frozenset(inner),
    }


class _Reader(CollectingReader):
    def __init__(self, file: str):
        super().__init__(file, code="bad-programme", remedy="correct the programme file")

    def text(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            self.wrong(path, "this is not a text", value, "a text")
            return ""
        return value.strip()

    def names(self, value: Any, path: str) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.wrong(path, "this is not a list of names", value, "a list of texts")
            return []
        return value

    def breakdowns(self, value: Any, geography: list[str]) -> dict[str, tuple[str, str, tuple[str, ...]]]:
        if not isinstance(value, dict) or not value:
            self.wrong("breakdowns", "a programme has breakdowns", value, "a table [breakdowns] with at least one")
            return {}
        found = {}
        for name, written in value.items():
            path = f"breakdowns.{name}"
            entry = written if isinstance(written, dict) else {"categories": written}
            if bad := sorted(set(entry) - {"title", "categories", "inner"}):
                self.wrong(path, "this key is not part of a breakdown", bad[0], "title, categories, inner")
            categories = self._size(entry.get("categories"), path, geography, {})
            inner = entry.get("inner", [])
            if not isinstance(inner, list):
                self.wrong(path, "inner levels are a list", inner, "a list of sizes or names of breakdowns")
                inner = []
            sizes = tuple(self._size(item, f"{path}.inner", geography, value) for item in inner)
            found[name] = (self.text(entry.get("title", name), f"{path}.title"), categories, sizes)
        return found

    def _size(self, value: Any, path: str, geography: list[str], breakdowns: Mapping[str, Any]) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(text, str):
            match = _AREA.fullmatch(text)
            if text in breakdowns or _NUMBER.fullmatch(text) or (match and match["area"] in geography):
                return text
        self.wrong(path, "this is not a number of categories", value, "a number, a geography, or such as NUTS2+5")
        return "0"

    def tables(self, value: Any, breakdowns: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, ...]]]:
        if not isinstance(value, dict) or not value:
            self.wrong("tables", "a programme has tables", value, "a table [tables.UNIT] with groups of tables")
            return {}
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        for unit, groups in value.items():
            if not isinstance(groups, dict):
                self.wrong(f"tables.{unit}", "tables are listed by group", groups, 'lines such as 1 = ["SEX AGE"]')
                continue
            of_unit: dict[str, tuple[str, ...]] = {}
            for group, texts in groups.items():
                path = f"tables.{unit}.{group}"
                for place, text in enumerate(self.names(texts, path), start=1):
                    of_unit[f"{group}.{place}"] = self._table(text, path, breakdowns)
            found[unit] = of_unit
        return found

    def _table(self, text: str, path: str, breakdowns: Mapping[str, Any]) -> tuple[str, ...]:
        chosen = []
        for word in text.split():
            names = word.split("|")
            for name in names:
                if name not in breakdowns:
                    self.wrong(path, "no breakdown has this name", name, "names of [breakdowns]")
            chosen.append(names[0])
        if len(set(chosen)) < len(chosen):
            self.wrong(path, "a table has a breakdown twice", text, "each breakdown once")
        return tuple(chosen)

    def countries(self, value: Any, geography: list[str]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        if not isinstance(value, dict):
            self.wrong("countries", "countries are listed by code", value, "lines such as MT = [1, 1, 2, 68]")
            return found
        for code, numbers in value.items():
            right = isinstance(numbers, list) and len(numbers) == len(geography)
            if not right or not all(type(number) is int and number > 0 for number in numbers):
                expected = f"numbers of {', '.join(geography)}"
                self.wrong(f"countries.{code}", "these are not the areas of a country", numbers, expected)
            else:
                found[code] = dict(zip(geography, numbers, strict=True))
        return found


KIND = "programmes"
_SIZE = re.compile(r"(?P<area>[A-Za-z][A-Za-z0-9_]*)(\+(?P<more>\d+))?|(?P<number>\d+)")


class BreakdownRule(StrEnum):
    """Which levels of a breakdown are counted."""

    PLAIN = "plain"
    INNER_LEVELS = "inner-levels"


@dataclass(frozen=True, slots=True)
class BreakdownLevel:
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
class StaticProgramme:
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

    def leave_out(self, names: Iterable[str]) -> StaticProgramme:
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

    def levels(
        self, name: str, areas: Mapping[str, int], rule: BreakdownRule = BreakdownRule.PLAIN
    ) -> tuple[BreakdownLevel, ...]:
        """The levels of a breakdown that count, the finest last; none where a breakdown has no categories."""
        breakdown = self.breakdowns[name]
        size = self._size(breakdown.categories, areas)
        if size == 0:
            return ()
        finest = BreakdownLevel(name, size)
        if rule is BreakdownRule.PLAIN or name not in self.with_inner_levels:
            return (finest,)
        inner: list[BreakdownLevel] = []
        for text in breakdown.inner:
            if text in self.breakdowns:
                inner.append(BreakdownLevel(text, self._size(self.breakdowns[text].categories, areas)))
            else:
                title = f"{name}:{text}"
                repeated = sum(level.name.startswith(title) for level in inner)
                inner.append(
                    BreakdownLevel(title if not repeated else f"{title}({repeated + 1})", self._size(text, areas))
                )
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
                "no-areas",
                "a breakdown is as large as a country has areas, and no country is given",
                where=Place(path="--country"),
                found=f"no number of {match['area']}",
                expected=f"a country, or numbers of {', '.join(self.geography)}",
                remedy="give --country, or --areas NAME=NUMBER",
            )
        return areas[match["area"]] + int(match["more"] or 0)


def load_programme(name: str, base: Path | None = None) -> StaticProgramme:
    """The programme shipped under ``name``, or read from the path ``name``."""
    known = shipped(KIND)
    if name in known:
        return _made(load_shipped(KIND, name), f"{name}.toml")
    path = (base or Path()) / name
    return _made(read_toml(path, kind="programme", known=known), path.name)


def _made(values: Mapping[str, Any], file: str) -> StaticProgramme:
    parsed = parse_programme(values, file)
    parts: dict[str, Any] = dict(parsed)
    parts["breakdowns"] = {name: Breakdown(name, *rest) for name, rest in parsed["breakdowns"].items()}
    return StaticProgramme(**parts)


def _unknown(what: str, found: str, known: Iterable[str], path: str) -> ParameterError:
    names = list(known)
    return ParameterError(
        f"unknown-{what}",
        f"the programme has no such {what}",
        where=Place(path=path),
        found=found[:60],
        expected=f"one of {', '.join(names)}" if names else f"no {what}: the programme names none",
        remedy=f"correct {path}, or use a programme file of your own",
    )
