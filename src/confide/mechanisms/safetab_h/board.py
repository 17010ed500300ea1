"""The board of SafeTab-H: household type and tenure of a level, each with a budget and what it buys.

See :mod:`confide.mechanisms.safetab.board`. Which table a group gets is decided by its published total in SafeTab-P, so
how many groups have each table is known exactly, also for thresholds that are only proposed; and the chance of the
wrong table follows from the noise of those totals, where a sealed release says it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import erfc, sqrt
from typing import ClassVar

import numpy as np

from confide.arrays import Integers
from confide.exact import exact_text
from confide.mechanisms.safetab import board
from confide.mechanisms.safetab.official import config_text
from confide.mechanisms.safetab.output.coded import CodedLayout
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL, ITERATION_LEVELS
from confide.mechanisms.safetab.tuning.question import law_of, margin_of
from confide.mechanisms.safetab_h.problem import SafeTabHProblem
from confide.mechanisms.safetab_h.settings import (
    FAMILIES,
    TABLES_OF,
    FamilyName,
    HouseholdLevel,
    SafeTabHSettings,
)
from confide.mechanisms.safetab_h.spec import config_of
from confide.noise import NoiseDistribution
from confide.releases import LoadedSpec, boards
from confide.releases.boards import RowFacts, RowName

KINDS: dict[FamilyName, str] = {"t3": "type", "t4": "tenure"}
"""What rows and specs call the kinds of tables."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SafeTabHBoard(board.GroupBoard):
    """A release of SafeTab-H with a part of the budget for each kind of table of each population group level."""

    base: SafeTabHSettings
    totals: Mapping[RowName, Integers]
    """The published totals of the groups of a row."""
    levels_of_totals: Mapping[RowName, tuple[NoiseDistribution, Sequence[int]]]
    """Where they are from a sealed release the noise of its counts, and from where on its groups got larger tables."""

    row_head: ClassVar[str] = "Level, iterations and table"
    measured_in: ClassVar[str] = "households"
    more_columns: ClassVar[tuple[boards.BoardColumn, ...]] = (
        boards.BoardColumn(board.TOTAL, "Of a total, at most ±", compared=True),
        *board.COLUMNS_OF_TABLES,
    )

    @classmethod
    def of(cls, problem: SafeTabHProblem) -> SafeTabHBoard:
        """As the spec has it."""
        settings = problem.settings
        measured = {level.name: level for level in problem.levels}
        rows = {_row(level, family): (level, family) for level in settings.levels for family in level.families}
        present = {row: measured[level.name] for row, (level, _) in rows.items() if level.name in measured}
        planned: dict[RowName, tuple[NoiseDistribution, Sequence[int]]] = {}
        if problem.given.release is not None:
            plan = problem.given.release.manifest["plan"]
            facts = plan["question"]["levels"].values()
            for each, own in zip(CodedLayout.of(plan).levels, facts, strict=True):
                if each.law is not None:
                    planned[each.region_type, ITERATION_LEVELS[each.iteration_level]] = each.law, own["thresholds"]
        return cls(
            budgets={row: level.budget(family) for row, (level, family) in rows.items() if row in present},
            base=settings,
            delta=problem.spec.privacy.delta,
            stabilities={row: groups.stability for row, groups in present.items()},
            areas={row: groups.areas for row, groups in present.items()},
            thresholds={row: level.thresholds_of(family) for row, (level, family) in rows.items() if row in present},
            totals={row: groups.count for row, groups in present.items()},
            levels_of_totals={row: planned[row[:2]] for row in present if row[:2] in planned},
        )

    @property
    def caption(self) -> str:  # type: ignore[override]
        return (
            "In 95 of 100 cases the noise of a count of households is within its margin. The published total of a "
            "group decides which table it gets: groups with each table are counted, not guessed."
        )

    @property
    def unit(self) -> str:
        return "household"

    def tables(self, row: RowName) -> Sequence[board.BoardTable]:
        return [board.BoardTable(table.name, table.cells) for table in TABLES_OF[_family(row)]]

    def law(self, row: RowName, part: Fraction | None = None) -> NoiseDistribution:
        return law_of(self.base.definition, self.stabilities[row], self.budgets[row] if part is None else part)

    def chance_beyond(self, row: RowName, threshold: int, distance: int) -> float | None:
        """See :class:`~confide.mechanisms.safetab.board.GroupBoard`. A published total may be the sum of a table, whose
        noise is taken as normal."""
        if row not in self.levels_of_totals:
            return None
        law, steps = self.levels_of_totals[row]
        cells = CELLS_OF_LEVEL[sum(threshold >= each for each in steps)]
        if cells == 1:
            return law.tail(distance - 1)
        return 0.5 * erfc((distance - 0.5) / sqrt(2 * cells * law.variance()))

    def published(self, row: RowName) -> dict[str, float]:
        reached = np.searchsorted(np.array(self.thresholds[row]), self.totals[row], side="right")
        names = [table.name for table in self.tables(row)]
        return dict(zip(names, np.bincount(reached, minlength=len(names)).astype(float).tolist(), strict=True))

    def facts(self, row: RowName) -> RowFacts:
        margin = margin_of(self.law(row))
        more = (*self.sum_columns(row), *self.group_columns(row))
        return RowFacts(row[0], f"{row[1]}, {row[2]}", self.areas[row], str(margin), margin, more)

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:  # noqa: ARG002 - it needs no other file
        changed = copy.deepcopy(dict(loaded.values))
        changed["privacy"]["budget"] = exact_text(self._settings.total)
        for level in changed["levels"]:
            for kind in KINDS.values():
                row = level["region"], level["iterations"], kind
                if row in self.budgets:
                    level[f"{kind}_budget"] = exact_text(self.budgets[row])
                    steps = list(self.thresholds[row])
                    level |= {"type_thresholds": steps} if kind == "type" else {"tenure_threshold": steps[0]}
        return boards.TunedValues(changed)

    def official(self) -> str:
        return config_text(config_of(self._settings))

    @property
    def _settings(self) -> SafeTabHSettings:
        """With these choices; levels without a group stay as they are."""

        def level_of(level: HouseholdLevel) -> HouseholdLevel:
            rows = [_row(level, family) for family in FAMILIES]
            budgets = tuple(self.budgets.get(row, own) for row, own in zip(rows, level.budgets, strict=True))
            steps = tuple(self.thresholds.get(row, own) for row, own in zip(rows, level.thresholds, strict=True))
            return replace(level, budgets=(budgets[0], budgets[1]), thresholds=(steps[0], steps[1]))

        return replace(self.base, levels=tuple(map(level_of, self.base.levels)))


def _row(level: HouseholdLevel, family: FamilyName) -> RowName:
    return level.region_type, ITERATION_LEVELS[level.iteration_level], KINDS[family]


def _family(row: RowName) -> FamilyName:
    return next(family for family, kind in KINDS.items() if kind == row[2])
