"""The boards of SafeTab-P and SafeTab-H: levels times iterations, each with a budget and what it buys.

A row is a population group level, of SafeTab-H with a kind of table. Its figures follow from its own part of the budget
alone: the noise margins of a cell, of the sum of a sex and of a total; from which totals on a group gets which table,
and how large these margins are there, relative to the group; how near to a threshold noise decides; and of SafeTab-P up
to which noisy total a group below the states is left out, and what stage 2 costs. Nobody is in both passes, the United
States and Puerto Rico, so the budget of the release is the larger of their sums, and parts follow within a pass.
"""

from __future__ import annotations

import copy
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import ParameterError, Place
from confide.exact import exact_text
from confide.mechanisms.safetab.code_files import read_sheet
from confide.mechanisms.safetab.codes import stability
from confide.mechanisms.safetab.official import config_of, config_text
from confide.mechanisms.safetab.output.coded import T1
from confide.mechanisms.safetab.problem import SafeTabProblem
from confide.mechanisms.safetab.settings import (
    GRIDS,
    ITERATION_LEVELS,
    LARGEST_THRESHOLD,
    SEXES,
    TOTAL_TABLE,
    GroupSettings,
    LevelName,
    LevelSettings,
    SafeTabSettings,
)
from confide.mechanisms.safetab.tallies import margin_of_sum
from confide.mechanisms.safetab.tuning.answer import suppression_probability, suppression_threshold
from confide.mechanisms.safetab.tuning.question import COVERAGE, law_of, margin_of
from confide.noise import NoiseDistribution
from confide.privacy import ZCDP, Definition, Neighbours, PureDP
from confide.releases import LoadedSpec, boards
from confide.releases.boards import BudgetBoard, RowFacts, RowName, first_that_fits

SIZE, STAGE_1, SUPPRESSION, THRESHOLDS = "size", "stage_1_fraction", "zero_suppression", "thresholds"
RELATIVE, SIZES, PROPOSED = "relative_margin", "public_sizes", "proposed"
LARGEST_SIZE = 10**6
TOTAL, SEX = "total", "sex"
WRONG = 1 / 20
"""How often the table may be the wrong one, at the distance from a threshold that is shown."""
WORTH, SMALL = "Which table a group gets, and what it is worth there", "Stage 2, and small groups"
COLUMNS_OF_TABLES = (
    boards.BoardColumn(THRESHOLDS, "Tables from", numeric=False, part=WORTH),
    boards.BoardColumn("judged", "Cells there, relative", numeric=False, part=WORTH),
    boards.BoardColumn(PROPOSED, "Proposed", numeric=False, part=WORTH),
    boards.BoardColumn("wrong", "Wrong table within", part=WORTH),
    boards.BoardColumn("published", "Groups with each table", numeric=False, part=WORTH),
)
NUMBERS = {word: number for number, word in ITERATION_LEVELS.items()}


@dataclass(frozen=True)
class BoardTable:
    """A table that a group can get: how many measured cells it has, and how many are the sum of a sex."""

    name: str
    cells: int
    of_sex: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedBoard(BudgetBoard):
    """A board of measured cells and of sums of them, whose noise follows from the row's own part alone."""

    base: Any
    delta: Fraction

    sums: ClassVar[tuple[tuple[str, str], ...]] = ((TOTAL, "Margin of a total, ±"),)
    """The kinds of sums that can be asked for, with the titles of their columns."""
    statistics: ClassVar[Mapping[str, str]] = {**BudgetBoard.statistics, "cell": boards.MARGIN, TOTAL: TOTAL}

    @abstractmethod
    def law(self, row: RowName, part: Fraction | None = None) -> NoiseDistribution:
        """The noise of a published cell of a row."""

    @abstractmethod
    def added(self, row: RowName, kind: str) -> tuple[int, ...]:
        """How many cells sums of a kind have, from the smallest to the largest."""

    @cached_property
    def claim(self) -> boards.LossClaim:
        zcdp = self.base.definition is Definition.ZCDP
        loss = ZCDP(self.total) if zcdp else PureDP(self.total)
        return boards.LossClaim(loss, Neighbours.ADD_REMOVE, self.delta, self.unit)

    @property
    def unit(self) -> str:
        """What the loss is about."""
        return "person"

    def reached(self, row: RowName, margin: Fraction) -> bool:
        return margin_of(self.law(row)) <= margin

    def smallest(self, row: RowName, margin: Fraction) -> Fraction:
        return self.part_for(row, margin, 1)

    def part_for(self, row: RowName, margin: Fraction, cells: int) -> Fraction:
        """The smallest part, in steps, with which a sum of so many cells keeps within a margin."""
        step = self.step()
        now = margin_of_sum(self.law(row), cells, COVERAGE)
        guess = float(self.budgets[row] / step) * ((now + 0.5) / (float(margin) + 0.5)) ** 2

        def fits(steps: int) -> bool:
            return margin_of_sum(self.law(row, steps * step), cells, COVERAGE) <= margin

        return step * first_that_fits(fits, max(1, int(guess)))

    def needed_part(self, row: RowName, statistic: str, margin: Fraction) -> Fraction:
        """The smallest part with which a cell, or every sum of a kind, keeps within a margin."""
        cells = 1 if statistic == boards.MARGIN else self.added(row, statistic)[-1]
        return self.part_for(row, margin, cells)

    def has(self, row: RowName, statistic: str) -> bool:
        """Whether a row has sums of a kind."""
        return statistic == boards.MARGIN or bool(self.added(row, statistic))

    def sum_columns(self, row: RowName) -> Iterator[tuple[str, boards.BoardEntry | str]]:
        """The margins of sums: the largest one can be typed."""
        law = self.law(row)
        for kind, _ in self.sums:
            margins = [margin_of_sum(law, cells, COVERAGE) for cells in self.added(row, kind)]
            entry = boards.BoardEntry(
                f"{kind}:{':'.join(row)}",
                f"Margin of the largest sum ({kind}): {' '.join(row)}",
                str(margins[-1]) if margins else "",
                "whole",
                note="/".join(map(str, margins)),
            )
            yield kind, entry if margins else "–"

    def moved(self, name: str, text: str, moving: boards.Moving) -> Self:
        kind, _, row_text = name.partition(":")
        row = next((each for each in self.budgets if ":".join(each) == row_text), None)
        if row is None or kind not in dict(self.sums) or not self.has(row, kind):
            return super().moved(name, text, moving)
        margin = boards.typed_whole(text, name, 1, boards.LARGEST_MARGIN)
        part = self.needed_part(row, kind, Fraction(margin))
        locked = [each for each in self.budgets if ":".join(each) in moving.locked]
        return self.with_row(row, budget=part, locked=locked, keep_total=moving.keep_total)

    def numbers(self, row: RowName) -> dict[str, Any]:
        """What a row has, as plain numbers."""
        law = self.law(row)
        return {
            "row": ":".join(row),
            "part": exact_text(self.budgets[row]),
            "margin": margin_of(law),
            **{
                kind: {str(cells): margin_of_sum(law, cells, COVERAGE) for cells in self.added(row, kind)}
                for kind, _ in self.sums
            },
        }

    def board_dict(self) -> dict[str, Any]:
        return super().board_dict() | {"levels": [self.numbers(row) for row in self.budgets]}


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupBoard(SummedBoard):
    """A release of population groups, with a part of the budget for each level or kind of table of a level."""

    base: GroupSettings[Any]
    stabilities: Mapping[RowName, int]
    """In how many groups of a level a record can be, by the code lists."""
    areas: Mapping[RowName, int]
    thresholds: Mapping[RowName, tuple[int, ...]]
    size: int = 20
    """The size of a group that is looked at."""
    relative: Fraction = Fraction(1, 5)
    """The largest margin of a cell, relative to the mean of the cells, that thresholds are proposed for."""

    row_head: ClassVar[str] = "Level and iterations"

    @abstractmethod
    def tables(self, row: RowName) -> Sequence[BoardTable]:
        """The tables that a group of a row can get, the smallest first."""

    @abstractmethod
    def chance_beyond(self, row: RowName, threshold: int, distance: int) -> float | None:
        """The chance that a group whose size is so far from a threshold is taken to its other side; none if the noise
        of the total that chooses its table is not known."""

    @abstractmethod
    def published(self, row: RowName) -> dict[str, float] | None:
        """How many groups get each table, on average; none if sizes of groups are not known."""

    def added(self, row: RowName, kind: str) -> tuple[int, ...]:
        sizes = (table.cells if kind == TOTAL else table.of_sex or 0 for table in self.tables(row))
        return tuple(size for size in sizes if size > (1 if kind == TOTAL else 0))

    def pool(self, row: RowName) -> str:
        return "PR" if _level(row).of_puerto_rico else "US"

    def proposed(self, row: RowName) -> tuple[int, ...]:
        """From how many records on a mean cell of each table has the margin, relative to it, that is asked for."""
        margin = margin_of(self.law(row))
        sizes = [-(-margin * table.cells // self.relative) for table in self.tables(row)[1:]]
        return tuple(int(max(sizes[: place + 1])) for place in range(len(sizes)))

    def judged(self, row: RowName) -> list[dict[str, Any]]:
        """Each threshold with the margins of the table that begins there, relative to a mean cell and to the total."""
        law = self.law(row)
        pairs = zip(self.thresholds[row], self.tables(row)[1:], self.proposed(row), strict=True)
        return [
            {
                "table": table.name,
                "from": threshold,
                "cell": margin_of(law) * table.cells / threshold if threshold > 0 else None,
                "total": margin_of_sum(law, table.cells, COVERAGE) / threshold if threshold > 0 else None,
                "proposed": proposed,
            }
            for threshold, table, proposed in pairs
        ]

    def wrong_within(self, row: RowName) -> int | None:
        """How far from a threshold the wrong table is chosen with one chance in twenty, and less farther away."""
        if not self.thresholds[row] or self.chance_beyond(row, self.thresholds[row][-1], 1) is None:
            return None
        return max(self._distance(row, threshold) for threshold in self.thresholds[row])

    def _distance(self, row: RowName, threshold: int) -> int:
        def fits(distance: int) -> bool:
            chance = self.chance_beyond(row, threshold, distance)
            assert chance is not None
            return chance <= WRONG

        return first_that_fits(fits, 1)

    def group_columns(self, row: RowName) -> Iterator[tuple[str, boards.BoardEntry | str]]:
        """What thresholds mean."""
        level = " ".join(row)
        tables = boards.BoardEntry(
            f"{THRESHOLDS}:{':'.join(row)}",
            f"Totals from which a group gets larger tables: {level}",
            "/".join(map(str, self.thresholds[row])),
            "text",
        )
        yield THRESHOLDS, tables
        judged = self.judged(row)
        yield "judged", "/".join("–" if each["cell"] is None else f"{100 * each['cell']:.0f} %" for each in judged)
        yield PROPOSED, "/".join(str(each["proposed"]) for each in judged)
        distance = self.wrong_within(row)
        yield "wrong", "–" if distance is None else f"±{distance:,}"
        published = self.published(row)
        yield "published", "–" if published is None else "/".join(f"{each:,.0f}" for each in published.values())

    def numbers(self, row: RowName) -> dict[str, Any]:
        chances = {
            str(threshold): {
                f"{percent} %": self.chance_beyond(row, threshold, max(1, -(-abs(threshold) * percent // 100)))
                for percent in (1, 5, 10)
            }
            for threshold in self.thresholds[row]
        }
        within = self.wrong_within(row)
        return super().numbers(row) | {
            THRESHOLDS: self.judged(row),
            "wrong_table": None if within is None else {"within": within, "chance_at": chances},
            "published": self.published(row),
        }

    @property
    def settings(self) -> tuple[boards.BoardEntry, ...]:
        return (
            *super().settings,
            boards.BoardEntry(
                RELATIVE,
                "Relative margin of a mean cell, for proposed thresholds",
                exact_text(self.relative),
            ),
        )

    def other_choices(self) -> dict[str, str]:
        tables = {f"{THRESHOLDS}:{':'.join(row)}": "/".join(map(str, each)) for row, each in self.thresholds.items()}
        return {RELATIVE: exact_text(self.relative)} | tables

    def with_other(self, name: str, text: str) -> Self:
        if name == RELATIVE:
            return replace(self, relative=boards.typed_number(text, name, 0, 100))
        kind, _, row_text = name.partition(":")
        row = next((each for each in self.budgets if ":".join(each) == row_text), None)
        if kind != THRESHOLDS or row is None:
            raise self.no_entry(name)
        if text.strip() == PROPOSED:
            return replace(self, thresholds={**self.thresholds, row: self.proposed(row)})
        numbers = tuple(boards.typed_whole(each, name, 0, LARGEST_THRESHOLD) for each in text.split("/"))
        if len(numbers) != len(self.thresholds[row]) or tuple(sorted(numbers)) != numbers:
            raise ParameterError("entry-range/three", where=Place(path=name), found=text[:40])
        return replace(self, thresholds={**self.thresholds, row: numbers})


@dataclass(frozen=True, eq=False, kw_only=True)
class SafeTabBoard(GroupBoard):
    """A release of SafeTab-P with a part of the budget for each population group level."""

    base: SafeTabSettings
    stage_1_fraction: Fraction
    zero_suppression: Fraction
    universe: Mapping[RowName, tuple[str, frozenset[str], int]]
    """The type of the areas of a row, the codes of its iterations that get tables, and how many groups these make."""
    sizes: Mapping[RowName, Integers]
    """Public sizes of groups, as far as they were given."""
    sizes_file: str = ""

    sums: ClassVar[tuple[tuple[str, str], ...]] = (
        (SEX, "Of a sex, at most ±"),
        (TOTAL, "Of a total, at most ±"),
    )
    statistics: ClassVar[Mapping[str, str]] = {**SummedBoard.statistics, SEX: SEX}
    more_columns: ClassVar[tuple[boards.BoardColumn, ...]] = (
        *(boards.BoardColumn(kind, title, compared=True) for kind, title in sums),
        *COLUMNS_OF_TABLES,
        boards.BoardColumn("step_2", "Stage 2 costs", part=SMALL),
        boards.BoardColumn("suppressed", "Left out up to", compared=True, part=SMALL),
        boards.BoardColumn("chance", "A group of that size is left out", part=SMALL),
    )

    @classmethod
    def of(cls, problem: SafeTabProblem) -> SafeTabBoard:
        """As the spec has it."""
        settings, lists = problem.settings, problem.lists
        given = {_row(level): level for level in settings.levels}
        codes = settings.max_race_codes
        present = {_row(level.settings): level for level in problem.levels}
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
            universe={
                row: (
                    level.region_type,
                    frozenset(lists.iterations[number].code for number in level.iterations[~level.total_only].tolist()),
                    level.adaptive,
                )
                for row, level in present.items()
            },
            sizes={},
        )

    @property
    def caption(self) -> str:  # type: ignore[override]
        return (
            "In 95 of 100 cases the noise of a count is within its margin. A total of a table is the sum of its cells, "
            "and has a wider one. Nothing is left out in the nation and the states."
        )

    def tables(self, row: RowName) -> Sequence[BoardTable]:  # noqa: ARG002
        grids = (BoardTable(grid.table, grid.cells, grid.cells // len(SEXES)) for grid in GRIDS)
        return (BoardTable(TOTAL_TABLE, 1), *grids)

    def law(self, row: RowName, part: Fraction | None = None) -> NoiseDistribution:
        """The noise of a published count of a level."""
        budget = self.budgets[row] if part is None else part
        return law_of(self.base.definition, self.stabilities[row], (1 - self.stage_1_fraction) * budget)

    def choice(self, row: RowName) -> NoiseDistribution:
        """The noise of the first total, which chooses the table."""
        return law_of(self.base.definition, self.stabilities[row], self.stage_1_fraction * self.budgets[row])

    def chance_beyond(self, row: RowName, threshold: int, distance: int) -> float:  # noqa: ARG002 - alike for all
        return self.choice(row).tail(distance - 1)

    def left_out_to(self, row: RowName) -> int | None:
        """The largest noisy total that is not published."""
        return None if _level(row).is_large else suppression_threshold(self.law(row), self.zero_suppression)

    def published(self, row: RowName) -> dict[str, float] | None:
        if row not in self.sizes:
            return None
        sizes, number = np.unique(self.sizes[row], return_counts=True)
        _, _, groups = self.universe[row]
        of_size = np.concatenate([sizes, [0]])
        times = np.concatenate([number, [max(0, groups - int(number.sum()))]]).astype(np.float64)
        first, second, limit = self.choice(row), self.law(row), self.left_out_to(row)
        below = [_up_to(first, threshold - 1 - of_size) for threshold in self.thresholds[row]]
        shares = np.diff(np.array([np.zeros(len(of_size)), *below, np.ones(len(of_size))]), axis=0)
        if limit is not None:
            shares[0] *= 1 - _up_to(second, limit - of_size)
        names = (table.name for table in self.tables(row))
        return dict(zip(names, (float(share @ times) for share in shares), strict=True))

    def facts(self, row: RowName) -> RowFacts:
        law = self.law(row)
        margin, highest = margin_of(law), self.left_out_to(row)
        chance = "–" if highest is None else _chance(suppression_probability(law, highest, self.size))
        more: tuple[tuple[str, boards.BoardEntry | str], ...] = (
            *self.sum_columns(row),
            ("step_2", boards.part_text((1 - self.stage_1_fraction) * self.budgets[row])),
            ("suppressed", "nothing" if highest is None else f"{highest:,}"),
            ("chance", chance),
            *self.group_columns(row),
        )
        return RowFacts(row[0], row[1], self.areas[row], str(margin), margin, more)

    def numbers(self, row: RowName) -> dict[str, Any]:
        part, second = self.budgets[row], (1 - self.stage_1_fraction) * self.budgets[row]
        losses = {"step_2": second, "total": part, "step_2_bounded": 2 * second, "total_bounded": 2 * part}
        return super().numbers(row) | {
            "loss": {name: exact_text(loss) for name, loss in losses.items()},
            "left_out_to": self.left_out_to(row),
        }

    @property
    def settings(self) -> tuple[boards.BoardEntry, ...]:
        return (
            *super().settings,
            boards.BoardEntry(SIZE, "Persons of a group whose suppression is shown", str(self.size), "whole"),
            boards.BoardEntry(
                SUPPRESSION, "Probability that an empty group is left out", exact_text(self.zero_suppression)
            ),
            boards.BoardEntry(STAGE_1, "Share that chooses the table of a group", exact_text(self.stage_1_fraction)),
            boards.BoardEntry(
                SIZES,
                "File of public sizes of groups, as t1 has them: how many would be published",
                self.sizes_file,
                "text",
            ),
        )

    def other_choices(self) -> dict[str, str]:
        shares = {SUPPRESSION: exact_text(self.zero_suppression), STAGE_1: exact_text(self.stage_1_fraction)}
        return {SIZE: str(self.size), SIZES: self.sizes_file} | shares | super().other_choices()

    def with_other(self, name: str, text: str) -> Self:
        if name == SIZE:
            return replace(self, size=boards.typed_whole(text, name, 1, LARGEST_SIZE))
        if name == SUPPRESSION:
            share = Fraction(0) if text.strip() == "0" else boards.typed_number(text, name, 0, 1)
            return replace(self, zero_suppression=_below_one(share, name, text))
        if name == STAGE_1:
            return replace(self, stage_1_fraction=_below_one(boards.typed_number(text, name, 0, 1), name, text))
        if name == SIZES:
            return self._with_sizes(text.strip())
        return super().with_other(name, text)

    def _with_sizes(self, file: str) -> Self:
        """With the public sizes of a file; with none, if its name is empty. Groups that it lacks are empty."""
        if not file:
            return replace(self, sizes={}, sizes_file="")
        listed = public_sizes(Path(file))
        sizes = {
            row: np.array([size for kind, code, size in listed if kind == region_type and code in codes], np.int64)
            for row, (region_type, codes, _) in self.universe.items()
        }
        return replace(self, sizes=sizes, sizes_file=file)

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
        for level in changed["levels"]:
            row = level["region"], level["iterations"]
            if row in self.budgets:
                level["budget"] = exact_text(self.budgets[row])
                level["thresholds"] = list(self.thresholds[row])
        return boards.TunedValues(changed)

    def official(self) -> str:
        def level_of(level: LevelSettings) -> LevelSettings:
            first, second, third = self.thresholds[_row(level)]
            return replace(level, budget=self.budgets[_row(level)], thresholds=(first, second, third))

        settings = replace(
            self.base,
            levels=tuple(map(level_of, self.base.levels)),
            stage_1_fraction=self.stage_1_fraction,
            zero_suppression=self.zero_suppression,
        )
        return config_text(config_of(settings))


def _up_to(law: NoiseDistribution, values: Integers) -> Floats:
    """P(X <= x) for each value, worked out where it is not zero or one to ten digits."""
    far = law.noise_margin(1 - Fraction(1, 10**10))
    distinct, place = np.unique(np.clip(values, -far - 1, far), return_inverse=True)
    return np.array([law.cdf(int(each)) for each in distinct.tolist()])[place]


def public_sizes(file: Path) -> list[tuple[str, str, int]]:
    """The region type, the iteration and the size of each group in a file of totals. Raises with what is wrong."""
    sheet, findings = read_sheet(file, tuple(T1.names))
    if findings or sheet is None:
        raise ParameterError(findings)
    listed = []
    for place, (_, kind, code, size) in enumerate(sheet.rows):
        if not re.fullmatch("-?[0-9]{1,15}", size):
            raise ParameterError("group-totals/count", where=sheet.place(place, T1.names[-1]), found=size[:40])
        listed.append((kind, code, max(0, int(size))))
    return listed


def _row(level: LevelName | LevelSettings) -> RowName:
    return level.region_type, ITERATION_LEVELS[level.iteration_level]


def _level(row: RowName) -> LevelName:
    return LevelName(row[0], NUMBERS[row[1]])


def _below_one(share: Fraction, name: str, text: str) -> Fraction:
    if share >= 1:
        raise ParameterError("entry-range/below", where=Place(path=name), found=text[:40])
    return share


def _chance(probability: float) -> str:
    """A probability in per cent that never claims certainty."""
    if probability < 0.0005:
        return "under 0.1 %"
    return "over 99.9 %" if probability > 0.9995 else f"{100 * probability:.1f} %"
