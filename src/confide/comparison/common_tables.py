"""The common tables: what every protection of a comparison publishes, and the schema that they are about.

Ages are in the groups that the tables tell apart, as an attribute ``agebin`` of their own: nothing finer is published,
so that every mechanism works on the same histogram. Tables and groups are data (``data/comparison/programme.toml``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.attacks.reidentification import AgeBins, load_age_bins
from confide.documents import load_shipped, parse_schema
from confide.schema import Query, Schema

KIND = "comparison"
AGE = "agebin"
ATTRIBUTES = ("sex", AGE, "hispanic", "cenrace")
LEVELS = ("county", "tract", "block")
"""The levels that tables are published for, and that accuracy is looked at on."""
OLDEST = 115

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CommonTable:
    """One table; a summary is what accuracy is measured on."""

    name: str
    title: str
    query: Query
    summary: bool

    @property
    def variables(self) -> list[str]:
        """The names of the variables."""
        return [variable.name for variable in self.query.variables]


@dataclass(frozen=True, eq=False)
class CommonTables:
    """All tables, over one schema."""

    title: str
    schema: Schema
    document: dict[str, Any]
    """The plain values of the schema."""
    ages: AgeBins
    tables: tuple[CommonTable, ...]

    def table(self, name: str) -> CommonTable:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)

    @property
    def cells(self) -> int:
        """How many cells all tables have for one unit."""
        return sum(table.query.cells for table in self.tables)


@cache
def common_tables() -> CommonTables:
    """The tables that ship."""
    values = load_shipped(KIND, "programme")
    ages = load_age_bins(values["age"]["groups"])
    document = _document(ages, values["age"]["recodes"], values["provenance"])
    schema = parse_schema(document)
    tables = tuple(
        CommonTable(
            part["name"],
            part["title"],
            schema.ordered_query(part["variables"]),
            part.get("summary", False),
        )
        for part in values["tables"]
    )
    return CommonTables(values["title"], schema, document, ages, tables)


def schema_text(document: dict[str, Any]) -> str:
    """The plain values of a schema as the text of a TOML file."""
    lines = [f"id = {json.dumps(document['id'])}", f"provenance = {json.dumps(document['provenance'])}"]
    for name, body in document["attributes"].items():
        lines += ["", f"[attributes.{name}]", f"title = {json.dumps(body['title'])}"]
        if "range" in body:
            lines += [f"range = {body['range']}"]
        else:
            lines += [
                "levels = [",
                *(f"  [{json.dumps(code)}, {json.dumps(label)}]," for code, label in body["levels"]),
            ]
            lines += ["]"]
        for recode, given in body.get("recodes", {}).items():
            if "starts" in given:
                lines += [f"[attributes.{name}.recodes.{recode}]", f"starts = {given['starts']}"]
                continue
            lines += [f"[attributes.{name}.recodes.{recode}.groups]"]
            lines += [f"{json.dumps(label)} = {json.dumps(codes)}" for label, codes in given["groups"].items()]
    return "\n".join(lines) + "\n"


def _document(ages: AgeBins, recodes: dict[str, Any], provenance: str) -> dict[str, Any]:
    """The shipped schema of persons with its ages in groups."""
    persons = load_shipped("schemas", "persons")["attributes"]
    lasts = [*(start - 1 for start in ages.starts[1:]), OLDEST]
    labels = [str(a) if a == b else f"{a} to {b}" for a, b in zip(ages.starts, lasts, strict=True)]
    labels[-1] = f"{ages.starts[-1]} and over"
    grouped: dict[str, Any] = {}
    for name, given in recodes.items():
        coarse = load_age_bins(given)
        group = coarse.of(np.array(ages.starts, np.int64)).tolist()
        grouped[name] = {
            "groups": {
                label: [code for code, place in enumerate(group) if place == position]
                for position, label in enumerate(coarse.labels)
            }
        }
    age = {"title": "Age", "levels": [[code, label] for code, label in enumerate(labels)], "recodes": grouped}
    own = {"sex": persons["sex"], AGE: age, "hispanic": persons["hispanic"], "cenrace": persons["cenrace"]}
    return {"id": "persons-by-age-group", "provenance": provenance.strip(), "attributes": own}
