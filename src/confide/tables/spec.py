"""The spec of a static programme of tables."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Literal

from pydantic import Field

from confide.runs.spec import DataPart, ExactNumber, Name, Part, Path, Problem, Spec


class TablePart(Part):
    """One table of the programme."""

    name: Name = Field(description="The name of the table, and of its file.")
    title: str = Field("", max_length=200, description="A title for people.")
    variables: list[str] = Field(
        description="The variables crossed: attributes of the schema, or recodes such as age:five-year."
    )
    levels: list[str] = Field(min_length=1, description="The geolevels and areas the table is published for.")
    margins: Literal["all", "none"] = Field(
        "all", description="all: every margin of the table is measured too; none: the inner cells alone."
    )
    weight: ExactNumber = Field(Fraction(1), description="The table's part of the budget, relative to the others.")


class ProgrammePart(Part):
    """How the tables share the budget."""

    repeated: Literal["independent", "pooled"] = Field(
        "independent",
        description="A cross-tabulation that several tables contain is measured by each on its own (independent: Bach, "
        "Eq. 6), or once, with their budgets put together, and shown in each (pooled: Eq. 7).",
    )
    level_weights: dict[str, ExactNumber] = Field(
        default_factory=dict, description="A geolevel's part of a table's budget, relative to the others; default 1."
    )


class TablesData(DataPart):
    """Where the records and the frame are, and what the records mean."""

    schema_: str = Field(alias="schema", description="The schema of the records: a shipped name, or a TOML file.")


class TablesSpec(Spec):
    """A static programme of cross-tabulations with independent noise (Bach 2021, Eq. 6)."""

    data: TablesData

    tables: list[TablePart] = Field(min_length=1, description="The tables of the programme.")
    programme: ProgrammePart = ProgrammePart()

    def problems(self) -> list[Problem]:
        found = super().problems()
        known = ["block", *(level.name for level in self.geography.levels), *(a.name for a in self.geography.areas)]
        names = Counter(table.name for table in self.tables)
        for position, table in enumerate(self.tables):
            if names[table.name] > 1:
                what = f"two tables have the name {table.name!r}"
                named: Path = ("tables", position, "name")
                found.append(Problem(named, "duplicate-table", what, "names that differ", repr(table.name)))
            for level, times in Counter(table.levels).items():
                path = ("tables", position, "levels", table.levels.index(level))
                if level not in known:
                    what, expected = f"there is no level {level!r}", "one of " + ", ".join(known)
                    found.append(Problem(path, "unknown-level", what, expected, repr(level)))
                if times > 1:
                    what = f"{level!r} stands twice"
                    found.append(Problem(path, "repeated-level", what, "each level once", f"{times} times {level!r}"))
        expected = "one of " + ", ".join(known)
        found += [
            Problem(
                ("programme", "level_weights", level),
                "unknown-level",
                f"there is no level {level!r}",
                expected,
                repr(level),
            )
            for level in self.programme.level_weights
            if level not in known
        ]
        return found
