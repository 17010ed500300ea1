"""The TOML form of a programme, read with every mistake reported at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from confide.inputs.collected import CollectingReader

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
