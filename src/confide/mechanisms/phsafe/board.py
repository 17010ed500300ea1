"""The board of PHSafe: every table at each geographic and iteration level with a budget, and what it buys.

A row is what is measured with one law. Its margins follow from its own part, from how many persons of a household the
table counts (tau) and from how far one person is said to move a count; everybody is in every row, so parts add up.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

from confide.exact import exact_text
from confide.mechanisms.phsafe.official import config_of
from confide.mechanisms.phsafe.problem import PHSafeProblem
from confide.mechanisms.phsafe.settings import LEVEL_KEYS, MOST_PERSONS, CountQuery, PHSafeSettings, table
from confide.mechanisms.safetab.board import TOTAL, SummedBoard
from confide.mechanisms.safetab.official import config_text
from confide.mechanisms.safetab.settings import PUERTO_RICO
from confide.mechanisms.safetab.tuning.question import margin_of
from confide.noise import NoiseDistribution
from confide.releases import LoadedSpec, boards
from confide.releases.boards import RowFacts, RowName

TAU, SENSITIVITY = "tau", "sensitivity"
KEYS = {level: key for key, level in LEVEL_KEYS.items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class PHSafeBoard(SummedBoard):
    """A release of PHSafe with a part of the budget for each table at each level."""

    base: PHSafeSettings
    states: int

    row_head: ClassVar[str] = "Table, level and iterations"
    measured_in: ClassVar[str] = "persons or households"
    caption: str = (
        "In 95 of 100 cases the noise of a count is within its margin. A total is the sum of the cells of its table. "
        "Persons beyond tau of a household are missing in a table of persons: no margin covers that."
    )
    more_columns: ClassVar[tuple[boards.BoardColumn, ...]] = (
        boards.BoardColumn(TOTAL, "Of the total ±", compared=True),
        boards.BoardColumn(TAU, "Persons of a household"),
    )

    @classmethod
    def of(cls, problem: PHSafeProblem) -> PHSafeBoard:
        """As the spec has it."""
        settings = problem.settings
        return cls(
            budgets={_row(query): query.budget for query in settings.queries},
            base=settings,
            delta=problem.spec.privacy.delta,
            states=len(problem.states),
        )

    def law(self, row: RowName, part: Fraction | None = None) -> NoiseDistribution:
        """The noise of a cell of a table."""
        name, key, iterations = row
        budget = self.budgets[row] if part is None else part
        return self.base.law(CountQuery(name, LEVEL_KEYS[key], iterations, budget))

    def added(self, row: RowName, kind: str) -> tuple[int, ...]:  # noqa: ARG002
        cells = len(table(row[0]).interior)
        return (cells,) if cells > 1 else ()

    def pool(self, row: RowName) -> str:  # noqa: ARG002
        return "PR" if self.base.states == (PUERTO_RICO,) else "US"

    def facts(self, row: RowName) -> RowFacts:
        counted, margin = table(row[0]), margin_of(self.law(row))
        tau = self.base.tau.get(row[0]) if counted.of_persons else None
        # The truncation is of the whole table: it can be typed where the table has its first row.
        first = next(each for each in self.budgets if each[0] == row[0]) == row
        entry = boards.BoardEntry(f"{TAU}:{row[0]}", f"Persons of a household that count: {row[0]}", str(tau), "whole")
        more = (*self.sum_columns(row), (TAU, "–" if tau is None else entry if first else str(tau)))
        areas = self.states if LEVEL_KEYS[row[1]] != "USA" else 1
        return RowFacts(counted.title, f"{row[0]}, {row[1]}, {row[2]}", areas, str(margin), margin, more)

    @property
    def settings(self) -> tuple[boards.BoardEntry, ...]:
        options = (("bureau", "as the Census Bureau's program reckons"), ("household", "within one household"))
        title = "How far one person may move a count"
        return (*super().settings, boards.BoardEntry(SENSITIVITY, title, self.base.sensitivity, "text", options))

    def other_choices(self) -> dict[str, str]:
        names = dict.fromkeys(row[0] for row in self.budgets)
        taus = {f"{TAU}:{name}": str(self.base.tau[name]) for name in names if table(name).of_persons}
        return {SENSITIVITY: self.base.sensitivity} | taus

    def with_other(self, name: str, text: str) -> Self:
        if name == SENSITIVITY:
            word = boards.typed_option(text.strip(), name, ("bureau", "household"))
            return replace(self, base=replace(self.base, sensitivity=word))  # type: ignore[arg-type]
        if name not in self.other_choices():
            raise self.no_entry(name)
        tau = {**self.base.tau, name.partition(":")[2]: boards.typed_whole(text, name, 1, MOST_PERSONS)}
        return replace(self, base=replace(self.base, tau=tau))

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:  # noqa: ARG002 - it needs no other file
        changed = copy.deepcopy(dict(loaded.values))
        changed["privacy"]["budget"] = exact_text(self.total)
        changed["phsafe"][SENSITIVITY] = self.base.sensitivity
        for part in changed["tables"]:
            name = part["name"]
            own = {f"{row[1]}_{row[2]}": budget for row, budget in self.budgets.items() if row[0] == name}
            part["budgets"] |= {key: exact_text(budget) for key, budget in own.items()}
            if table(name).of_persons:
                part[TAU] = self.base.tau[name]
        return boards.TunedValues(changed)

    def official(self) -> str:
        budgets = {(row[0], LEVEL_KEYS[row[1]], row[2]): budget for row, budget in self.budgets.items()}
        return config_text(config_of(replace(self.base, budgets=budgets)))


def _row(query: CountQuery) -> RowName:
    return query.table, KEYS[query.level], query.iteration_level
