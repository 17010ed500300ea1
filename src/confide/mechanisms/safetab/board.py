"""The board of SafeTab-P: levels times iterations, each with a budget, a margin, and what suppression does there.

A row is a population group level. Its figures follow from its own part of the budget alone (``tuning/answer.py``): the
noise margin of a count, up to which noisy total a group below the states is left out, how often a group of a given size
is, and from which noisy totals on a group gets sex by 4, 9 and 23 ages. Nobody is in both passes, the United States and
Puerto Rico, so the budget of the release is the larger of their sums, and parts follow within a pass.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

from confide.errors import ParameterError, Place
from confide.exact import exact_text
from confide.mechanisms.safetab.codes import stability
from confide.mechanisms.safetab.problem import SafeTabProblem
from confide.mechanisms.safetab.settings import (
    ITERATION_LEVELS,
    LARGEST_THRESHOLD,
    LevelName,
    LevelSettings,
    SafeTabSettings,
)
from confide.mechanisms.safetab.tuning.answer import suppression_probability, suppression_threshold
from confide.mechanisms.safetab.tuning.question import law_of, margin_of
from confide.noise import NoiseDistribution
from confide.privacy import ZCDP, Definition, Neighbours, PureDP
from confide.releases import boards
from confide.releases.boards import BudgetBoard, RowFacts, RowName, first_that_fits
from confide.releases.spec import LoadedSpec

SIZE, STAGE_1, SUPPRESSION, THRESHOLDS = "size", "stage_1_fraction", "zero_suppression", "thresholds"
LARGEST_SIZE = 10**6


@dataclass(frozen=True, eq=False, kw_only=True)
class SafeTabBoard(BudgetBoard):
    """A release of SafeTab-P with a part of the budget for each population group level."""

    base: SafeTabSettings
    delta: Fraction
    stabilities: Mapping[RowName, int]
    """In how many groups of a level a person can be, by the code lists."""
    areas: Mapping[RowName, int]
    stage_1_fraction: Fraction
    zero_suppression: Fraction
    thresholds: Mapping[RowName, tuple[int, int, int]]
    size: int = 20
    """The size of a group that suppression is shown for."""

    row_head: ClassVar[str] = "Level and iterations"
    more_columns: ClassVar[tuple[boards.BoardColumn, ...]] = (
        boards.BoardColumn("suppressed", "Left out up to", compared=True),
        boards.BoardColumn("chance", "A group of that size is left out"),
        boards.BoardColumn(THRESHOLDS, "Tables from", numeric=False),
    )

    @classmethod
    def of(cls, problem: SafeTabProblem) -> SafeTabBoard:
        """As the spec has it."""
        settings, lists = problem.settings, problem.lists
        given = {_row(level): level for level in settings.levels}
        codes = settings.max_race_codes
        return cls(
            budgets={row: level.budget for row, level in given.items()},
            base=settings,
            delta=problem.spec.privacy.delta,
            stabilities={
                row: stability(lists, level.iteration_level, large=level.is_large, max_race_codes=codes)
                for row, level in given.items()
            },
            areas={row: len(problem.regions.areas[level.region_type]) for row, level in given.items()},
            stage_1_fraction=settings.stage_1_fraction,
            zero_suppression=settings.zero_suppression,
            thresholds={row: level.thresholds for row, level in given.items()},
        )

    @property
    def caption(self) -> str:  # type: ignore[override]
        return (
            "In 95 of 100 cases the noise of a count is within its margin. A total of a table is the sum of its cells, "
            "and has a wider one. Nothing is left out in the nation and the states."
        )

    @cached_property
    def claim(self) -> boards.LossClaim:
        zcdp = self.base.definition is Definition.ZCDP
        return boards.LossClaim(ZCDP(self.total) if zcdp else PureDP(self.total), Neighbours.ADD_REMOVE, self.delta)

    def pool(self, row: RowName) -> str:
        return "PR" if _level(row).of_puerto_rico else "US"

    def law(self, row: RowName, part: Fraction | None = None) -> NoiseDistribution:
        """The noise of a published count of a level."""
        budget = self.budgets[row] if part is None else part
        return law_of(self.base.definition, self.stabilities[row], (1 - self.stage_1_fraction) * budget)

    def facts(self, row: RowName) -> RowFacts:
        level, law = _level(row), self.law(row)
        margin = margin_of(law)
        highest = None if level.is_large else suppression_threshold(law, self.zero_suppression)
        chance = "–" if highest is None else _chance(suppression_probability(law, highest, self.size))
        tables = boards.BoardEntry(
            f"{THRESHOLDS}:{':'.join(row)}",
            f"Noisy totals from which a group gets 4, 9 and 23 ages: {level.title}",
            "/".join(map(str, self.thresholds[row])),
            "text",
        )
        more: tuple[tuple[str, boards.BoardEntry | str], ...] = (
            ("suppressed", "nothing" if highest is None else f"{highest:,}"),
            ("chance", chance),
            (THRESHOLDS, tables),
        )
        return RowFacts(row[0], row[1], self.areas[row], str(margin), margin, more)

    def reached(self, row: RowName, margin: Fraction) -> bool:
        return margin_of(self.law(row)) <= margin

    def smallest(self, row: RowName, margin: Fraction) -> Fraction:
        step = self.step()
        now = margin_of(self.law(row))
        guess = float(self.budgets[row] / step) * ((now + 0.5) / (float(margin) + 0.5)) ** 2

        def fits(steps: int) -> bool:
            return margin_of(self.law(row, steps * step)) <= margin

        return step * first_that_fits(fits, max(1, int(guess)))

    @property
    def settings(self) -> tuple[boards.BoardEntry, ...]:
        return (
            *super().settings,
            boards.BoardEntry(SIZE, "Persons of a group whose suppression is shown", str(self.size), "whole"),
            boards.BoardEntry(
                SUPPRESSION, "Probability that an empty group is left out", exact_text(self.zero_suppression)
            ),
            boards.BoardEntry(STAGE_1, "Share that chooses the table of a group", exact_text(self.stage_1_fraction)),
        )

    def other_choices(self) -> dict[str, str]:
        tables = {f"{THRESHOLDS}:{':'.join(row)}": "/".join(map(str, each)) for row, each in self.thresholds.items()}
        shares = {SUPPRESSION: exact_text(self.zero_suppression), STAGE_1: exact_text(self.stage_1_fraction)}
        return {SIZE: str(self.size)} | shares | tables

    def with_other(self, name: str, text: str) -> Self:
        if name == SIZE:
            return replace(self, size=boards.typed_whole(text, name, 1, LARGEST_SIZE))
        if name == SUPPRESSION:
            share = Fraction(0) if text.strip() == "0" else boards.typed_number(text, name, 0, 1)
            return replace(self, zero_suppression=_below_one(share, name, text))
        if name == STAGE_1:
            return replace(self, stage_1_fraction=_below_one(boards.typed_number(text, name, 0, 1), name, text))
        kind, _, row_text = name.partition(":")
        row = next((each for each in self.budgets if ":".join(each) == row_text), None)
        if kind != THRESHOLDS or row is None:
            raise self.no_entry(name)
        numbers = [boards.typed_whole(each, name, 0, LARGEST_THRESHOLD) for each in text.split("/")]
        if len(numbers) != 3 or sorted(numbers) != numbers:
            raise ParameterError("entry-range/three", where=Place(path=name), found=text[:40])
        return replace(self, thresholds={**self.thresholds, row: (numbers[0], numbers[1], numbers[2])})

    def tuned(self, loaded: LoadedSpec, stem: str) -> boards.TunedValues:  # noqa: ARG002 - it needs no other file
        changed = copy.deepcopy(dict(loaded.values))
        changed["privacy"]["budget"] = exact_text(self.total)
        part = changed["safetab"]
        for name, number, before in (
            (STAGE_1, self.stage_1_fraction, self.base.stage_1_fraction),
            (SUPPRESSION, self.zero_suppression, self.base.zero_suppression),
        ):
            if number != before:
                part[name] = exact_text(number)
        numbers = {word: number for number, word in ITERATION_LEVELS.items()}
        for level in changed["levels"]:
            row = _row(LevelName(level["region"], numbers[level["iterations"]]))
            if row in self.budgets:
                level["budget"] = exact_text(self.budgets[row])
                level["thresholds"] = list(self.thresholds[row])
        return boards.TunedValues(changed)


def _row(level: LevelName | LevelSettings) -> RowName:
    return level.region_type, ITERATION_LEVELS[level.iteration_level]


def _level(row: RowName) -> LevelName:
    numbers = {word: number for number, word in ITERATION_LEVELS.items()}
    return LevelName(row[0], numbers[row[1]])


def _below_one(share: Fraction, name: str, text: str) -> Fraction:
    if share >= 1:
        raise ParameterError("entry-range/below", where=Place(path=name), found=text[:40])
    return share


def _chance(probability: float) -> str:
    """A probability in per cent that never claims certainty."""
    if probability < 0.0005:
        return "under 0.1 %"
    return "over 99.9 %" if probability > 0.9995 else f"{100 * probability:.1f} %"
