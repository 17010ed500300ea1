"""The board of a programme of tables: what its budget buys, and what accuracy costs, before any is spent.

A *row* is a table on one of its levels. It has a part of the budget, b, of which each of the m margins of the table
takes b/m; so the noise of its cells, and their noise margin, follow from b alone (pooled, from the parts of all tables
that contain the cross-classification). What follows from what: :mod:`confide.releases.budget_board`. In the spec the
parts are the weights of tables and of their levels.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from confide.errors import ParameterError, Place
from confide.mechanisms.tables.programme import MeasuredTable, TablesProblem, level_weight
from confide.noise import ReleaseNoise
from confide.privacy import ZCDP, Definition, Neighbours, PureDP, calibrate
from confide.releases.boards import LossClaim, TunedValues
from confide.releases.budget_board import BudgetBoard, RowFacts, RowName, first_that_fits
from confide.releases.spec import LoadedSpec
from confide.report.render import exact_text
from confide.schema import Query


@dataclass(frozen=True, slots=True)
class TunedRow:
    """A table on a level: its part of the budget, and what that buys."""

    table: str
    level: str
    title: str
    budget: Fraction
    margin: int
    """The noise of a cell is at most this far from zero, with the probability of the margin."""
    law: ReleaseNoise
    """Of each of its cells."""
    areas: int
    cells: int
    """Counts of one area, margins included."""
    typical: Fraction | None = None
    """Persons in an area of the mean size, where somebody said how many persons there are."""

    @property
    def name(self) -> RowName:
        return self.table, self.level

    @property
    def share(self) -> float | None:
        """The margin as a share of the persons of a typical area."""
        return None if not self.typical else self.margin / float(self.typical)

    def as_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "level": self.level,
            "budget": str(self.budget),
            "margin": self.margin,
            "variance": self.law.variance(),
            "areas": self.areas,
            "cells": self.cells,
            "share_of_typical_area": self.share,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class TablesTuning(BudgetBoard):
    """A programme with a part of the budget for each of its rows."""

    programme: TablesProblem
    tables: Mapping[str, MeasuredTable]
    sharing: Mapping[RowName, tuple[tuple[RowName, int], ...]]
    """For each row the rows whose parts its noise is made from, with the numbers of their margins: its own, and pooled
    those of all tables that show its cross-classification on its level."""

    row_head: ClassVar[str] = "Table and level"

    @classmethod
    def of(cls, programme: TablesProblem, persons: int | None = None) -> TablesTuning:
        """As the spec has it."""
        spec = programme.spec
        if Definition(spec.privacy.definition) is Definition.APPROXIMATE or spec.noise.variance or spec.noise.margin:
            raise ParameterError(
                "not-tunable",
                "the parts of this budget cannot be chosen one by one",
                where=Place(path="privacy.definition"),
                found="a budget in approximate differential privacy, or noise of a given size",
                expected="definition zcdp or pure, and noise that the budget gives",
                remedy="choose another definition, or edit the spec by hand",
            )
        whole_weight = sum((table.weight for table in programme.tables), Fraction(0))
        budgets: dict[RowName, Fraction] = {}
        for table in programme.tables:
            weights = {level.name: level_weight(spec, table.name, level.name) for level in table.levels}
            for level, weight in weights.items():
                part = table.weight / whole_weight * weight / sum(weights.values())
                budgets[table.name, level] = spec.privacy.budget * part
        tables = {table.name: table for table in programme.tables}
        sharing = _shared_rows(programme)
        return cls(programme=programme, budgets=budgets, persons=persons, tables=tables, sharing=sharing)

    @property
    def loss(self) -> ZCDP | PureDP:
        """The budget as a loss."""
        return self._as_loss(self.total)

    @cached_property
    def claim(self) -> LossClaim:
        return LossClaim(self.loss, self.neighbours, self.programme.spec.privacy.delta)

    @property
    def neighbours(self) -> Neighbours:
        return Neighbours(self.programme.spec.privacy.neighbours)

    @property
    def probability(self) -> Fraction:
        """Of the noise margins."""
        return self.programme.spec.output.noise_margin or Fraction(19, 20)

    @property
    def caption(self) -> str:  # type: ignore[override]
        chance = f"{float(100 * self.probability):.4g}"
        return f"In {chance} of 100 cases the noise of a figure is within its margin."

    @cached_property
    def tuned_rows(self) -> tuple[TunedRow, ...]:
        """What each part buys, in the order of the spec."""
        return tuple(self._tuned_row(name) for name in self.budgets)

    def _tuned_row(self, name: RowName) -> TunedRow:
        table = self.tables[name[0]]
        level = next(each for each in table.levels if each.name == name[1])
        law = self.law(name)
        typical = None if self.persons is None else Fraction(self.persons, max(1, level.units))
        margin, cells = _margin(law, self.probability), table.rows_per_unit
        part = self.budgets[name]
        return TunedRow(table.name, level.name, table.title, part, margin, law, level.units, cells, typical)

    def facts(self, row: RowName) -> RowFacts:
        table = self.tables[row[0]]
        level = next(each for each in table.levels if each.name == row[1])
        margin = _margin(self.law(row), self.probability)
        return RowFacts(table.title, level.name, level.units, str(margin), margin)

    def reached(self, row: RowName, margin: Fraction) -> bool:
        return _margin(self.law(row), self.probability) <= margin

    def law(self, row: RowName, budget: Fraction | None = None) -> ReleaseNoise:
        """The noise of the cells of a row, with its part of the budget or with another."""
        own = self.budgets[row] if budget is None else budget
        loss = sum(
            ((own if each == row else self.budgets[each]) / margins for each, margins in self.sharing[row]), Fraction(0)
        )
        return calibrate(self._as_loss(loss), self.neighbours)

    def tuned(self, loaded: LoadedSpec, stem: str) -> TunedValues:  # noqa: ARG002 - it needs no other file
        return TunedValues(self.spec_values(loaded.values))

    def spec_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the spec with these parts as its weights.

        Args:
            values: What the spec file has.

        Returns:
            A copy of them with another budget and other weights, and nothing else changed.
        """
        changed = copy.deepcopy(dict(values))
        changed["privacy"]["budget"] = exact_text(self.total)
        for table in changed["tables"]:
            own = {level: part for (name, level), part in self.budgets.items() if name == table["name"]}
            table["weight"] = exact_text(sum(own.values(), Fraction(0)))
            table["level_weights"] = {level: exact_text(part) for level, part in own.items()}
        changed.get("programme", {}).pop("level_weights", None)
        return {name: part for name, part in changed.items() if name != "programme" or part}

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "definition": self.programme.spec.privacy.definition,
            "neighbours": self.neighbours.value,
            "budget": str(self.total),
            "probability": str(self.probability),
            "persons": self.persons,
            "rows": [row.as_dict() for row in self.tuned_rows],
        }

    def _as_loss(self, amount: Fraction) -> ZCDP | PureDP:
        zcdp = Definition(self.programme.spec.privacy.definition) is Definition.ZCDP
        return ZCDP(amount) if zcdp else PureDP(amount)

    def smallest(self, row: RowName, margin: Fraction) -> Fraction:
        """The smallest part, in steps, that gives a noise margin: margins fall as parts grow."""
        step = self.step()

        def fits(steps: int) -> bool:
            return _margin(self.law(row, steps * step), self.probability) <= margin

        # Where the noise is Gaussian, parts go with the inverse square of margins: a good place to begin.
        now = _margin(self.law(row), self.probability)
        guess = float(self.budgets[row] / step) * ((now + 0.5) / (float(margin) + 0.5)) ** 2
        return step * first_that_fits(fits, max(1, int(guess)))


def _shared_rows(programme: TablesProblem) -> Mapping[RowName, tuple[tuple[RowName, int], ...]]:
    """For each row the rows that its noise is made from."""
    pooled = programme.spec.programme.repeated == "pooled"
    result: dict[RowName, tuple[tuple[RowName, int], ...]] = {}
    for table in programme.tables:
        for level in table.levels:
            sharing = _sharing(programme, table.query, level.name) if pooled else (table,)
            result[table.name, level.name] = tuple(((each.name, level.name), len(each.margins)) for each in sharing)
    return result


def _sharing(programme: TablesProblem, query: Query, level: str) -> tuple[MeasuredTable, ...]:
    """The tables that show this cross-classification on this level."""
    wanted = set(query.variables)
    return tuple(
        table
        for table in programme.tables
        if any(set(margin.variables) == wanted for margin in table.margins)
        and any(each.name == level for each in table.levels)
    )


@lru_cache(maxsize=65536)
def _margin(law: ReleaseNoise, probability: Fraction) -> int:
    return law.noise_margin(probability)
