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


LAWS = {
    "zcdp": ("discrete-gaussian",),
    "pure": ("two-sided-geometric",),
    "approximate": (
        "truncated-two-sided-geometric",
        "truncated-discrete-gaussian",
        "two-sided-geometric",
        "discrete-gaussian",
    ),
}
"""The noise that a definition has a price for; the first is taken where the spec names none."""


class NoisePart(Part):
    """The noise, where it is not simply what the budget gives (Bach 2021, sections 2.3 and 2.4)."""

    law: (
        Literal[
            "discrete-gaussian", "two-sided-geometric", "truncated-discrete-gaussian", "truncated-two-sided-geometric"
        ]
        | None
    ) = Field(None, description="The kind of noise; default: what the definition has first.")
    bound: int | None = Field(
        None, ge=1, le=1 << 20, description="The largest noise, for truncated kinds; default: the smallest for delta."
    )
    variance: ExactNumber | None = Field(
        None, description="Utility-driven: every count has noise of this variance, and the cost follows."
    )
    margin: int | None = Field(
        None, ge=0, le=1 << 20, description="Or: noise with this noise margin, at the level of output.noise_margin."
    )

    def problems(self, definition: str) -> list[Problem]:
        """What is wrong although each value by itself is right."""
        found = []
        law = self.law or LAWS[definition][0]
        if law not in LAWS[definition]:
            what = f"{law} noise has no price in {definition}"
            found.append(Problem(("noise", "law"), "law-of-definition", what, " or ".join(LAWS[definition]), law))
        utility = self.variance is not None or self.margin is not None
        if self.variance is not None and self.margin is not None:
            what = "the noise is given by its variance and by its margin"
            found.append(Problem(("noise", "margin"), "noise-twice", what, "one of the two", "both"))
        if self.bound is not None and not law.startswith("truncated"):
            what = f"{law} noise has no bound"
            found.append(Problem(("noise", "bound"), "no-bound", what, "a truncated law, or no bound", str(self.bound)))
        if self.bound is None and utility and law.startswith("truncated"):
            what = "the bound of the noise is missing"
            found.append(
                Problem(("noise",), "no-bound", what, "a bound beside the variance or the margin", "none", "add bound")
            )
        return found


class TablesSpec(Spec):
    """A static programme of cross-tabulations with independent noise (Bach 2021, Eq. 6)."""

    data: TablesData
    noise: NoisePart = NoisePart()

    tables: list[TablePart] = Field(min_length=1, description="The tables of the programme.")
    programme: ProgrammePart = ProgrammePart()

    def problems(self) -> list[Problem]:
        found = super().problems() + self.noise.problems(self.privacy.definition)
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
