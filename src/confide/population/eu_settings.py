"""Made-up people for the EU census programme: the data file, its code lists, and the tables they are for.

``confide/data/eu/made-up.toml`` has the columns of the records in the form of a schema, what they depend on, and the
variable that stands for each breakdown of the programme. Here it is read, and its short forms are written out: ranges
of codes, and the areas of a country whose size is only known then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from confide.documents import FileKind, load_named, load_shipped
from confide.population.settings import SettingsPart, Weight

LEVELS = ("nuts1", "nuts2", "nuts3", "lau")
Row = tuple[Weight, ...]

_RANGE = re.compile(r"(?P<stem>[A-Z]+)(?P<first>\d+)\.\.(?P=stem)(?P<last>\d+)")
_AREAS = re.compile(r"\{(?P<level>\w+)\}")


class EuVariableRule(SettingsPart):
    """How a column is drawn: weights of its levels, multiplied over all the variables that it depends on."""

    column: str
    groups: str | None = None
    zipf: Weight = 0.0
    spread: Weight = 0.0
    own_region: bool = False
    weights: Row | None = None
    by: dict[str, tuple[Row, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_weights(self) -> EuVariableRule:
        if (self.weights is None) == (not self.by) or (self.spread and self.by):
            raise ValueError(f"column {self.column!r}: either weights, perhaps with a spread, or by")
        return self


class Places(SettingsPart):
    """The sizes of local units, and of the localities in them."""

    spread: Weight
    column: str
    sizes: tuple[int, ...]
    smaller: Row


class EuSettings(SettingsPart):
    """Everything that decides what the people are like, apart from their number, the seed and the numbers of areas."""

    id: str
    provenance: str
    programme: str
    unit: str
    country: str
    variables: dict[str, str]
    attributes: dict[str, Any]
    drawn: tuple[EuVariableRule, ...] = Field(min_length=1)
    places: Places


@cache
def load_eu_settings() -> EuSettings:
    """The settings that ship with Confide."""
    return load_named("made-up", Path(), EuSettings, kind=FileKind("EU population", shipped="eu")).value


class EuAreas(NamedTuple):
    """The numbers of areas of a country, from the largest areas to the smallest."""

    nuts1: int = 1
    nuts2: int = 2
    nuts3: int = 6
    lau: int = 200


class Country:
    """The codes of all areas, and in which larger ones the local units lie. Areas nest and divide evenly."""

    def __init__(self, name: str, areas: EuAreas):
        self.areas = areas
        self.codes: dict[str, list[str]] = {}
        parents = [name]
        for level, number in zip(LEVELS, areas, strict=True):
            parents = self.codes[level] = _children(parents, number)

    def unit_of(self, level: str) -> list[int]:
        """For each local unit the index of the area of ``level`` that it lies in."""
        position = LEVELS.index(level)
        units = list(range(self.areas.lau))
        for upper, lower in zip(self.areas[position:-1][::-1], self.areas[position + 1 :][::-1], strict=True):
            units = [index * upper // lower for index in units]
        return units


def schema_document(settings: EuSettings, country: Country) -> dict[str, Any]:
    """The schema of the records, as the plain values of a schema file."""
    attributes = {name: _attribute(body, country) for name, body in settings.attributes.items()}
    return {"id": settings.id, "provenance": settings.provenance.strip(), "attributes": attributes}


def programme_tables(settings: EuSettings) -> dict[str, list[str]]:
    """The tables of the programme by name (table 9.2 is ``t9-2``), each the list of its variables in the schema."""
    groups: Mapping[str, Sequence[str]] = load_shipped("programmes", settings.programme)["tables"][settings.unit]
    return {
        f"t{group}-{position}": [settings.variables[name] for name in table.split() if name in settings.variables]
        for group, tables in groups.items()
        for position, table in enumerate(tables, start=1)
    }


def render_schema(document: Mapping[str, Any]) -> str:
    """A schema document as the text of a TOML file."""
    lines = [f"{key} = {_quoted(document[key])}" for key in ("id", "provenance")]
    for name, body in document["attributes"].items():
        pairs = [f"  [{_quoted(code)}, {_quoted(label)}]," for code, label in body["levels"]]
        lines += ["", f"[attributes.{name}]", f"title = {_quoted(body['title'])}", "levels = [", *pairs, "]"]
        for recode, groups in body["recodes"].items():
            lines.append(f"[attributes.{name}.recodes.{recode}.groups]")
            lines += [
                f"{_quoted(label)} = [{', '.join(map(_quoted, codes))}]" for label, codes in groups["groups"].items()
            ]
    return "\n".join(lines) + "\n"


def render_tables(tables: Mapping[str, Sequence[str]]) -> str:
    """Tables in the form in which a spec lists them."""
    return "\n".join(
        f"[[tables]]\nname = {_quoted(name)}\nvariables = [{', '.join(map(_quoted, variables))}]\n"
        for name, variables in tables.items()
    )


def _children(parents: Sequence[str], number: int) -> list[str]:
    """``number`` codes that begin with those of their parents, each of which has at least one."""
    parent = [index * len(parents) // number for index in range(number)]
    first = {each: index for index, each in reversed(list(enumerate(parent)))}
    width = len(str(max(index - first[each] + 1 for index, each in enumerate(parent))))
    return [f"{parents[each]}{index - first[each] + 1:0{width}d}" for index, each in enumerate(parent)]


def _attribute(body: Mapping[str, Any], country: Country) -> dict[str, Any]:
    levels = [pair for code, label in body["levels"] for pair in _written_out(code, label, country)]
    recodes = {name: {"groups": _groups(recode, country)} for name, recode in body.get("recodes", {}).items()}
    return {"title": body["title"], "levels": levels, "recodes": recodes}


def _groups(recode: Mapping[str, Any], country: Country) -> dict[str, list[str]]:
    if "areas" in recode:
        groups: dict[str, list[str]] = {code: [] for code in country.codes[recode["areas"]]}
        labels = list(groups)
        for code, unit in zip(country.codes["lau"], country.unit_of(recode["areas"]), strict=True):
            groups[labels[unit]].append(code)
        return groups
    return {
        label: [code for each in _listed(member) for code, _ in _written_out(each, "", country)]
        for label, member in recode["groups"].items()
    }


def _listed(member: str | list[str]) -> list[str]:
    return [member] if isinstance(member, str) else member


def _written_out(text: str, label: str, country: Country) -> list[tuple[str, str]]:
    """The codes that ``text`` stands for, with their labels: one code, a range of them, or all areas of a level."""
    if match := _AREAS.fullmatch(text):
        return [(code, f"{label} {code}".strip()) for code in country.codes[match["level"]]]
    if match := _RANGE.fullmatch(text):
        width, numbers = len(match["first"]), range(int(match["first"]), int(match["last"]) + 1)
        return [(f"{match['stem']}{number:0{width}d}", f"{label} {number}".strip()) for number in numbers]
    return [(text, label)]


def _quoted(text: str) -> str:
    # JSON writes a text as TOML reads it.
    return json.dumps(text, ensure_ascii=False)
