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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from confide.documents import FileKind, KeyPath, Loaded, Part, Problem, load_named, load_values
from confide.errors import ParameterError, Place

PROGRAMME = FileKind(
    "programme", code="bad-programme", own_codes=False, shipped="programmes", remedy="correct the programme file"
)
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
            raise ParameterError(
                "unknown-area/programme",
                where=Place(path="--areas"),
                found=unknown[0][:60],
                names=", ".join(list(self.geography)) if list(self.geography) else None,
                names_expected=list(self.geography),
            )
        if chosen is not None and chosen not in known:
            if country is None or set(given) != set(self.geography):
                raise ParameterError(
                    "unknown-country",
                    where=Place(path="--country"),
                    found=chosen[:60],
                    names=", ".join(list(known)) if list(known) else None,
                    names_expected=list(known),
                )
            return given
        areas = dict(known[chosen]) if chosen is not None else {}
        return areas | given

    def leave_out(self, names: Iterable[str]) -> StaticProgramme:
        """The programme without some breakdowns: every table keeps its others."""
        dropped = set(names)
        if unknown := sorted(dropped - set(self.breakdowns)):
            raise ParameterError(
                "unknown-breakdown",
                where=Place(path="--leave-out"),
                found=unknown[0][:60],
                names=", ".join(list(self.breakdowns)) if list(self.breakdowns) else None,
                names_expected=list(self.breakdowns),
            )
        tables = {
            unit: {number: tuple(name for name in table if name not in dropped) for number, table in of_unit.items()}
            for unit, of_unit in self.tables.items()
        }
        return replace(self, tables=tables)

    def of_unit(self, unit: str | None = None) -> Mapping[str, tuple[str, ...]]:
        """The tables that count one kind of thing."""
        chosen = unit or self.unit
        if chosen not in self.tables:
            raise ParameterError(
                "unknown-unit",
                where=Place(path="--unit"),
                found=chosen[:60],
                names=", ".join(list(self.tables)) if list(self.tables) else None,
                names_expected=list(self.tables),
            )
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
                "no-areas/breakdown",
                where=Place(path="--country"),
                area=match["area"],
                geography=", ".join(self.geography),
            )
        return areas[match["area"]] + int(match["more"] or 0)


# The TOML form of a programme, read with every mistake reported at once.


_NUMBER = re.compile(r"\d{1,9}")
_AREA = re.compile(r"(?P<area>[A-Za-z][A-Za-z0-9_]*)(\+\d{1,9})?")


def _whole_breakdown(value: Any) -> Any:
    """``SEX = 2`` is short for ``SEX = { categories = 2 }``."""
    return {"categories": value} if isinstance(value, int | str) and not isinstance(value, bool) else value


class BreakdownPart(Part):
    """A breakdown: its title, and its sizes as they are written."""

    title: str | None = None
    categories: int | str
    inner: list[int | str] = Field(default_factory=list)


class ProgrammeFile(Part):
    """The whole file."""

    id: str = ""
    title: str = ""
    provenance: str = ""
    geography: list[str] = Field(default_factory=list)
    unit: str | None = None
    country: str | None = None
    countries: dict[str, list[Annotated[int, Field(ge=1)]]] = Field(default_factory=dict)
    with_inner_levels: list[str] = Field(default_factory=list)
    breakdowns: dict[str, Annotated[BreakdownPart, BeforeValidator(_whole_breakdown)]] = Field(min_length=1)
    tables: dict[str, dict[str, list[str]]] = Field(min_length=1)

    def problems(self) -> Iterator[Problem]:
        """What is wrong although each value by itself is right."""

        def wrong(path: KeyPath, what: str, found: object, expected: str) -> Problem:
            return Problem.of(
                path,
                "bad-programme/other",
                found=str(found)[:80],
                what=what,
                expected=expected,
                remedy=PROGRAMME.remedy,
            )

        for name, part in self.breakdowns.items():
            at: KeyPath = ("breakdowns", name)
            sizes = [(at, part.categories, False), *(((*at, "inner"), size, True) for size in part.inner)]
            for path, size, may_be_breakdown in sizes:
                if not self._is_size(str(size)) and not (may_be_breakdown and size in self.breakdowns):
                    expected = "a number, a geography, or such as NUTS2+5"
                    yield wrong(path, "this is not a number of categories", size, expected)
        for unit, groups in self.tables.items():
            for group, texts in groups.items():
                for text in texts:
                    names = [name for word in text.split() for name in word.split("|")]
                    path = ("tables", unit, group)
                    for name in (name for name in names if name not in self.breakdowns):
                        yield wrong(path, "no breakdown has this name", name, "names of [breakdowns]")
                    table = breakdowns_of(text)
                    if len(set(table)) < len(table):
                        yield wrong(path, "a table has a breakdown twice", text, "each breakdown once")
        for code, numbers in self.countries.items():
            if len(numbers) != len(self.geography):
                expected = f"numbers of {', '.join(self.geography)}"
                yield wrong(("countries", code), "these are not the areas of a country", numbers, expected)
        for name in (name for name in self.with_inner_levels if name not in self.breakdowns):
            yield wrong(("with_inner_levels",), "no breakdown has this name", name, "names of breakdowns")
        if self.unit is not None and self.unit not in self.tables:
            expected = f"one of {', '.join(self.tables)}"
            yield wrong(("unit",), "there are no tables of this unit", self.unit, expected)
        if self.country is not None and self.country not in self.countries:
            what, expected = "the programme does not know this country", "a key of [countries]"
            yield wrong(("country",), what, self.country, expected)

    def _is_size(self, text: str) -> bool:
        match = _AREA.fullmatch(text)
        return bool(_NUMBER.fullmatch(text) or (match and match["area"] in self.geography))

    def programme(self) -> StaticProgramme:
        """The programme. The file must have no :meth:`problems`."""
        return StaticProgramme(
            self.id.strip(),
            self.title.strip(),
            self.provenance.strip(),
            {
                name: Breakdown(
                    name,
                    (name if part.title is None else part.title).strip(),
                    str(part.categories),
                    tuple(str(size) for size in part.inner),
                )
                for name, part in self.breakdowns.items()
            },
            {
                unit: {
                    f"{group}.{place}": breakdowns_of(text)
                    for group, texts in groups.items()
                    for place, text in enumerate(texts, start=1)
                }
                for unit, groups in self.tables.items()
            },
            next(iter(self.tables)) if self.unit is None else self.unit,
            tuple(self.geography),
            {code: dict(zip(self.geography, numbers, strict=True)) for code, numbers in self.countries.items()},
            self.country,
            frozenset(self.with_inner_levels),
        )


def breakdowns_of(text: str) -> tuple[str, ...]:
    """The breakdowns that a table crosses: ``"SEX AGE.L|AGE.M"`` has two, of the second the first choice."""
    return tuple(word.split("|")[0] for word in text.split())


def load_programme(name: str, base: Path | None = None) -> StaticProgramme:
    """The programme that ships under a name, or that of a file.

    Args:
        name: A shipped name (``eu-2021``), or the path of a TOML file.
        base: The folder that the path is relative to; default: where we are.

    Returns:
        The programme.

    Raises:
        SpecError: with every finding, each at its line.

    >>> load_programme("eu-2021").unit
    'persons'
    """
    return _programme(load_named(name, base or Path(), ProgrammeFile, kind=PROGRAMME))


def parse_programme(values: Mapping[str, Any], file: str) -> StaticProgramme:
    """The programme in the plain values of a file; ``file`` is what findings call it."""
    return _programme(load_values(values, file, ProgrammeFile, kind=PROGRAMME))


def _programme(loaded: Loaded[ProgrammeFile]) -> StaticProgramme:
    loaded.refuse(loaded.value.problems())
    return loaded.value.programme()
