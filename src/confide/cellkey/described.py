"""A programme as the plan of a release describes it: what can be known of the tables from the manifest alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from confide.schema.query import TOTAL


@dataclass(frozen=True)
class DescribedVariable:
    """A variable of a table. It is complete if every record is in one of its groups."""

    name: str
    column: str
    labels: tuple[str, ...]
    complete: bool


@dataclass(frozen=True)
class DescribedTable:
    """A table with its margins in the order in which their rows are written: the total first, the table itself last."""

    name: str
    title: str
    variables: tuple[DescribedVariable, ...]
    margins: tuple[tuple[str, ...], ...]

    def kept(self, margin: tuple[str, ...]) -> list[DescribedVariable]:
        """The variables that a margin keeps."""
        return [variable for variable in self.variables if variable.name in margin]

    def size(self, margin: tuple[str, ...]) -> int:
        """The number of cells of a margin, empty ones with them."""
        return prod(len(variable.labels) for variable in self.kept(margin))

    @property
    def cells(self) -> int:
        """The number of cells of the table with its margins."""
        return sum(self.size(margin) for margin in self.margins)


@dataclass(frozen=True)
class Described:
    """The tables of a release, and what the plan says of their figures."""

    tables: tuple[DescribedTable, ...]
    largest_noise: Fraction
    smallest: int
    """No published count is between zero and this."""
    threshold: int
    """Smaller counts were left out; zero if there is no threshold."""
    weighted: bool

    @property
    def distinct(self) -> dict[tuple[str, ...], int]:
        """Every distinct cross-classification with its number of cells."""
        return {margin: table.size(margin) for table in self.tables for margin in table.margins}


def describe(question: Mapping[str, Any]) -> Described:
    """The programme of a plan's ``question``, which :meth:`CellKeyQuestion.facts` made."""
    partial = set(question["partial"])
    tables = []
    for values in question["tables"]:
        columns = zip(values["variables"].items(), values["columns"], strict=True)
        variables = tuple(
            DescribedVariable(name, column, tuple(labels), name not in partial) for (name, labels), column in columns
        )
        margins = tuple(() if name == TOTAL else tuple(name.split("*")) for name in reversed(values["margins"]))
        tables.append(DescribedTable(values["name"], values["title"], variables, margins))
    ptable, threshold = question["ptable"], question["threshold"] or 0
    smallest = max(ptable["js"] + 1, threshold)
    return Described(tuple(tables), Fraction(ptable["D"]), smallest, threshold, question["weighted"])
