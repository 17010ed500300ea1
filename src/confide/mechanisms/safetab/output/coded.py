"""Tables for people: codes and labels, a row for each figure, and what it says of the count.

    level, area, (area_name,) margin, iteration, iteration_label, (sex, sex_label, age:4, age:4_label,)
    count, low, high, variance, (measured_as,) (measured_in)

``T01001`` has the total of every group that is published; ``T02001``, ``T02002`` and ``T02003`` have sex by 4, 9 or 23
ages of the groups that earned it, with the sums of each sex and of all. ``low`` and ``high`` are those of
:mod:`confide.mechanisms.safetab.tallies`, from the plan alone: so that whoever has ``t1``, ``t2`` and the plan can
make these tables anew, and ``verify`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.mechanisms.safetab import settings
from confide.mechanisms.safetab.codes import CodeLists, PlannedIteration, read_iterations
from confide.mechanisms.safetab.problem import GroupLevel
from confide.mechanisms.safetab.settings import CELLS_OF_LEVEL, GRIDS, SEXES
from confide.mechanisms.safetab.tallies import intervals, margin_of_sum, sum_intervals
from confide.noise import NoiseDistribution
from confide.releases import tabular

# Rows of ``t1`` and ``t2``, in the Census Bureau's layout.
#
# ``t1`` has the total of every group; ``t2`` has, for the groups that earned it, men and women by age, and for each sex
# its sum over ages, where both ages are ``*``. Rows are in the order of region type, region, iteration, sex and age.

# The noisy counts of many groups, with tables of different sizes, as flat arrays.


_CELLS = np.array(CELLS_OF_LEVEL)


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Groups in the order of area and iteration; ``values`` has the cells of each, one group after the other.

    A group of statistics level k has ``CELLS_OF_LEVEL[k]`` cells: at level 0 its total, above it men by age, then women
    by age. ``origin`` is the number of the population group level where it was measured.
    """

    area: Integers
    iteration: Integers
    level: Integers
    origin: Integers
    values: Integers

    def __len__(self) -> int:
        return len(self.area)

    @property
    def starts(self) -> Integers:
        """Where the cells of each group begin."""
        lengths = _CELLS[self.level]
        starts: Integers = np.cumsum(lengths) - lengths
        return starts

    @property
    def totals(self) -> Integers:
        """The total of each group: measured at level 0, the sum of the noisy cells above it."""
        if not len(self):
            return np.zeros(0, np.int64)
        totals: Integers = np.add.reduceat(self.values, self.starts)
        return totals

    def grid(self, level: int) -> tuple[Integers, Integers]:
        """The positions of the groups of one statistics level, and their cells, a row for each group."""
        at = np.flatnonzero(self.level == level)
        return at, self.values[self.starts[at][:, None] + np.arange(CELLS_OF_LEVEL[level])]

    def take(self, positions: Integers) -> GroupCounts:
        """Some of the groups, in the order of ``positions``."""
        lengths, starts = _CELLS[self.level[positions]], self.starts[positions]
        ends = np.cumsum(lengths)
        inside = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        values = self.values[np.repeat(starts, lengths) + inside]
        return GroupCounts(
            self.area[positions], self.iteration[positions], self.level[positions], self.origin[positions], values
        )

    def moved_to(self, area: Integers) -> GroupCounts:
        """The same figures under other areas."""
        return GroupCounts(area, self.iteration, self.level, self.origin, self.values)

    def sorted(self) -> GroupCounts:
        """In the order of area and iteration."""
        return self.take(np.lexsort((self.iteration, self.area)))

    def without_negatives(self) -> GroupCounts:
        """Every cell below zero set to zero."""
        return GroupCounts(self.area, self.iteration, self.level, self.origin, np.maximum(self.values, 0))


def merge(parts: Sequence[GroupCounts]) -> GroupCounts:
    """All groups of several pieces, in the order of area and iteration."""
    joined = [
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("area", "iteration", "level", "origin", "values")
    ]
    return GroupCounts(*joined).sorted()


def read_level(files: Sequence[Path], level: GroupLevel, origin: int) -> GroupCounts:
    """The measurements of a level, as :class:`confide.mechanisms.safetab.measure.MeasureGroups` left them, part by
    part."""
    rows = pa.concat_tables([pq.read_table(file) for file in files])
    group, cell, values = (rows.column(name).to_numpy() for name in ("group", "cell", "count"))
    at = np.flatnonzero(cell == 0)
    places = len(level.iterations)
    return GroupCounts(
        area=group[at] // places,
        iteration=level.iterations[group[at] % places],
        level=rows.column("level").to_numpy()[at].astype(np.int64),
        origin=np.full(len(at), origin, np.int64),
        values=values,
    )


ANY_AGE = "*"
SEX_NAMES = ("MALE", "FEMALE")
GROUP_COLUMNS = {
    "REGION_ID": "the area's code",
    "REGION_TYPE": "the type of area",
    "ITERATION_CODE": "the race or ethnicity group: its code",
}
MEASURED = {0: "total", **{number: f"sum of {grid.cells} cells" for number, grid in enumerate(GRIDS, start=1)}}


def _column(name: str, type_: pa.DataType, description: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"description": description})


_GROUP = [_column(name, pa.string(), text) for name, text in GROUP_COLUMNS.items()]
_COUNT = _column("COUNT", pa.int64(), "persons, with noise; may be negative")
T1 = pa.schema([*_GROUP, _COUNT])
T2 = pa.schema(
    [
        *_GROUP,
        _column("AGESTART", pa.string(), "the first year of age, or * for all ages"),
        _column("AGEEND", pa.string(), "the last year of age, or * for all ages"),
        _column("SEX", pa.string(), "1 male, 2 female"),
        _COUNT,
    ]
)


@dataclass(frozen=True, eq=False)
class Labels:
    """What numbers of areas and iterations are called in one region type."""

    region_type: str
    areas: tuple[str, ...]
    lists: CodeLists

    def columns(self, counts: GroupCounts) -> list[pa.Array]:
        """Region id, region type and iteration code of each group."""
        codes = pa.array([iteration.code for iteration in self.lists.iterations])
        return [
            pa.array(self.areas, pa.string()).take(pa.array(counts.area)),
            pa.array([self.region_type], pa.string()).take(pa.array(np.zeros(len(counts), np.int64))),
            codes.take(pa.array(counts.iteration)),
        ]


def t1_rows(counts: GroupCounts, labels: Labels) -> pa.RecordBatch:
    """The total of every group."""
    return pa.record_batch([*labels.columns(counts), pa.array(counts.totals)], schema=T1)


def t2_rows(counts: GroupCounts, labels: Labels, *, negatives: bool) -> pa.RecordBatch:
    """Sex by age with the sums over ages; ``negatives`` says whether cells below zero are shown."""
    pieces = []
    for number, grid in enumerate(GRIDS, start=1):
        at, cells = counts.grid(number)
        by_sex = cells.reshape(len(at), len(SEXES), grid.ages)
        with_sums = np.concatenate([by_sex.sum(axis=2, keepdims=True), by_sex], axis=2)
        ages = np.arange(grid.ages + 1) + _first_age(number)
        sexes = np.repeat(np.arange(len(SEXES)), grid.ages + 1)
        pieces.append(
            (
                np.repeat(at, len(sexes)),
                np.tile(sexes, len(at)),
                np.tile(np.tile(ages, len(SEXES)), len(at)),
                with_sums.reshape(-1),
            )
        )
    group, sex, age, count = (np.concatenate(column) for column in zip(*pieces, strict=True))
    published = np.flatnonzero(count >= 0) if not negatives else np.arange(len(count))
    order = published[np.argsort(group[published], kind="stable")]
    group, sex, age, count = group[order], sex[order], age[order], count[order]
    starts, ends = _age_texts()
    of_group = [column.take(pa.array(group)) for column in labels.columns(counts)]
    return pa.record_batch(
        [
            *of_group,
            starts.take(pa.array(age)),
            ends.take(pa.array(age)),
            pa.array(SEXES).take(pa.array(sex)),
            pa.array(count),
        ],
        schema=T2,
    )


def _first_age(number: int) -> int:
    """Where the ages of a grid begin in the list of all: each has its ages after one entry for all of them."""
    return sum(grid.ages + 1 for grid in GRIDS[: number - 1])


def _age_texts() -> tuple[pa.Array, pa.Array]:
    """First and last year of every age group of every grid, each grid with an entry for all ages before it."""
    bounds: list[tuple[str, str]] = []
    for grid in GRIDS:
        bounds += [(ANY_AGE, ANY_AGE), *((str(first), str(last)) for first, last in grid.bounds)]
    return pa.array([first for first, _ in bounds]), pa.array([last for _, last in bounds])


ITERATION, SEX = "iteration", "sex"
LOW, HIGH, VARIANCE, MEASURED_AS, MEASURED_IN = "low", "high", "variance", "measured_as", "measured_in"
TITLES = {settings.TOTAL_TABLE: "Total population"} | {grid.table: grid.title for grid in settings.GRIDS}
"""The tables, in the order of their statistics levels."""
SEX_LABELS = ("male", "female")
GROUPS_AT_ONCE = 1 << 13
"""How many groups become rows at a time: each has up to 49."""


@dataclass(frozen=True)
class PlannedLevel:
    """A population group level as the plan in the manifest describes it."""

    region: int
    iteration_level: int
    areas: int
    iterations: int
    total_only: int
    suppressed_up_to: int | None
    law: NoiseDistribution | None
    total_law: NoiseDistribution | None

    @property
    def region_type(self) -> str:
        """The type of its areas."""
        return settings.REGION_TYPES[self.region]

    @property
    def title(self) -> str:
        """For people: ``STATE, detailed``."""
        return settings.LevelName(self.region_type, self.iteration_level).title

    def number(self, total_only: bool) -> int:
        """How many iterations of one kind there are."""
        return self.total_only if total_only else self.iterations - self.total_only

    def margins(self, probability: Fraction, statistics_level: int, *, total_only: bool = False) -> list[int]:
        """The noise margins of a group's total, and with a table of a sex and of a cell; none if there is none."""
        law = self.total_law if total_only else self.law
        if law is None or (total_only and statistics_level):
            return []
        grid = [] if statistics_level == 0 else [settings.GRIDS[statistics_level - 1].ages, 1]
        sums = [settings.CELLS_OF_LEVEL[statistics_level], *grid]
        return [margin_of_sum(law, cells, probability) for cells in sums]


def read_planned(plan: Mapping[str, Any]) -> list[PlannedLevel]:
    """The levels of a plan."""
    laws = {
        (measure["level"], measure["query"]): NoiseDistribution.from_dict(measure["law"])
        for measure in plan["measures"]
    }
    return [
        PlannedLevel(
            settings.REGION_TYPES.index(level["region_type"]),
            level["iteration_level"],
            level["areas"],
            level["iterations"],
            level["total_only_iterations"],
            level["suppressed_up_to"],
            *(
                laws.get((level["region_type"], f"{settings.ITERATION_LEVELS[level['iteration_level']]}: {query}"))
                for query in (settings.TABLE, settings.TOTAL_ONLY)
            ),
        )
        for level in plan["question"]["levels"].values()
    ]


@dataclass(frozen=True, eq=False)
class CodedGroups:
    """The published groups of one region type, in the order of area and iteration."""

    region: str
    area: pa.Array
    """For each group the code of its area."""
    iteration: Integers
    """Its place among the iterations of the plan."""
    level: Integers
    """Its statistics level."""
    origin: Integers
    """The place of the population group level where it was measured."""
    total: Integers
    figures: Mapping[int, Integers]
    """By statistics level, from 1, a row for each group that has it: men, men by age, women, women by age."""

    @classmethod
    def of(cls, region: str, areas: Sequence[str], counts: GroupCounts) -> CodedGroups:
        """Those of noisy counts."""
        figures = {}
        for number, grid in enumerate(settings.GRIDS, start=1):
            at, cells = counts.grid(number)
            by_sex = cells.reshape(len(at), len(settings.SEXES), grid.ages)
            summed = np.concatenate([by_sex.sum(axis=2, keepdims=True), by_sex], axis=2)
            figures[number] = summed.reshape(len(at), len(settings.SEXES) * (grid.ages + 1))
        area = pa.array(areas, pa.string()).take(pa.array(counts.area))
        return cls(region, area, counts.iteration, counts.level, counts.origin, counts.totals, figures)

    def parts(self, number: int) -> Iterator[tuple[Integers, Integers]]:
        """Some groups of a table at a time: which they are, and the figures of each, the total first."""
        if number == 0:
            at, figures = np.arange(len(self.total)), self.total[:, None]
        else:
            at = np.flatnonzero(self.level == number)
            figures = np.concatenate([self.total[at][:, None], self.figures[number][:, _order(number)]], axis=1)
        for begin in range(0, len(at), GROUPS_AT_ONCE):
            yield at[begin : begin + GROUPS_AT_ONCE], figures[begin : begin + GROUPS_AT_ONCE]


def _order(number: int) -> Integers:
    """From men, men by age, women, women by age to both sexes first: sums come before what they are sums of."""
    ages = settings.GRIDS[number - 1].ages
    sexes = np.arange(len(settings.SEXES)) * (ages + 1)
    return np.concatenate([sexes, (sexes[:, None] + np.arange(1, ages + 1)).reshape(-1)])


@dataclass(frozen=True, eq=False)
class CodedLayout:
    """The tables of a release, from its plan alone."""

    iterations: tuple[PlannedIteration, ...]
    levels: tuple[PlannedLevel, ...]
    probability: Fraction | None
    """Of the intervals; None: none are stated."""
    clamped: bool
    """Whether counts below zero were set to zero before they were summed."""
    selected: bool
    """Whether figures were left out by comparing them with others: no interval holds then for what is left."""
    copied: bool
    """Whether areas of one extent have one area's figures."""
    named: bool
    """Whether areas have names."""

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> CodedLayout:
        """That of a plan, as manifests have it."""
        question = plan["question"]
        probability = question["noise_margin"]
        return cls(
            read_iterations(question),
            tuple(read_planned(plan)),
            None if probability is None else Fraction(probability),
            not question["negative_counts"],
            bool(question["tabulation_suppression"]),
            bool(question["coterminous"]),
            question["area_names"] is not None,
        )

    @property
    def percent(self) -> str:
        """The probability of the intervals, for people."""
        return "" if self.probability is None else f"{float(self.probability) * 100:.6g} %"

    @property
    def areas(self) -> dict[str, int]:
        """The region types with their numbers of areas."""
        return {level.region_type: level.areas for level in self.levels}

    @cached_property
    def variables(self) -> tuple[tabular.CodedVariable, ...]:
        """Iterations, sexes, and ages in 4, 9 and 23 groups."""
        codes, labels = [each.code for each in self.iterations], [each.label for each in self.iterations]
        variables = [
            tabular.CodedVariable(ITERATION, tuple(codes), tuple(labels), "race or ethnicity group"),
            tabular.CodedVariable(SEX, settings.SEXES, SEX_LABELS, "sex"),
        ]
        for grid in settings.GRIDS:
            ages = tuple(f"{first}-{last}" if last > first else str(first) for first, last in grid.bounds)
            words = tuple(_age_words(first, last) for first, last in grid.bounds)
            variables.append(tabular.CodedVariable(f"age:{grid.ages}", ages, words, f"age in {grid.ages} groups"))
        return tuple(variables)

    def columns(self, number: int) -> tabular.CodedColumns:
        """The columns of the table of a statistics level, without its figures."""
        iteration, sex, *ages = self.variables
        own = (iteration,) if number == 0 else (iteration, sex, ages[number - 1])
        return tabular.CodedColumns(own, areas=True, named=self.named)

    def figures(self, number: int) -> tuple[pa.Field, ...]:
        """Its columns of figures."""
        fields = [
            tabular.figure_column(
                tabular.COUNT,
                "persons, with noise" + ("" if self.clamped or self.selected else "; may be negative"),
                gaps=self.selected,
            )
        ]
        if self.probability is not None:
            words = f"count, given that the figure was published: between low and high with {self.percent}"
            fields.append(tabular.figure_column(LOW, f"the least {words}", gaps=self.selected))
            fields.append(tabular.figure_column(HIGH, f"the largest {words}", gaps=self.selected))
        words = "the variance of the noise; empty where the figure was published because it was large enough"
        if self.clamped or self.selected:
            words = "the variance of the noise; empty: figures below zero were changed or left out"
        fields.append(tabular.figure_column(VARIANCE, words, pa.float64(), gaps=True))
        if number == 0:
            words = "whether the total was measured itself, or is a sum of cells"
            fields.append(tabular.text_column(MEASURED_AS, words))
        if self.copied:
            fields.append(tabular.text_column(MEASURED_IN, "the type of area that the figure was measured for"))
        return tuple(fields)

    def described(self, number: int) -> tabular.DescribedTable:
        """The table of a statistics level."""
        name = list(TITLES)[number]
        return tabular.DescribedTable(name, TITLES[name], self.columns(number), self.figures(number), tuple(self.areas))

    def rows(self, number: int, groups: Iterable[CodedGroups]) -> Iterator[pa.RecordBatch]:
        """The rows of a table with labels, as :class:`~confide.releases.tabular.CodedColumns` speaks of them."""
        columns, figures = self.columns(number), self.figures(number)
        schema = pa.schema([*(tabular.text_column(name, "") for name in columns.keys), *figures])
        for of_region in groups:
            for at, counts in of_region.parts(number):
                own = self._keys(number, of_region, at, counts.shape[1])
                own |= self._figures(number, of_region, at, counts)
                yield pa.RecordBatch.from_arrays([own[name] for name in schema.names], schema=schema)

    def _keys(self, number: int, groups: CodedGroups, at: Integers, width: int) -> dict[str, pa.Array]:
        """Which cell each row is, by labels."""
        of_row = pa.array(np.repeat(at, width))
        iteration, sex, *ages = self.variables
        keys = {
            tabular.LEVEL: tabular.repeated(groups.region, len(of_row)),
            tabular.AREA: groups.area.take(of_row),
            ITERATION: pa.array(iteration.labels, pa.string()).take(pa.array(groups.iteration).take(of_row)),
        }
        if number:
            age, size = ages[number - 1], settings.GRIDS[number - 1].ages
            sexes = [
                0,
                *range(1, len(settings.SEXES) + 1),
                *np.repeat(np.arange(1, len(settings.SEXES) + 1), size).tolist(),
            ]
            of_age = [0] * (1 + len(settings.SEXES)) + [*range(1, size + 1)] * len(settings.SEXES)
            for variable, places in ((sex, sexes), (age, of_age)):
                texts = pa.array([tabular.TOTAL_CODE, *variable.labels], pa.string())
                keys[variable.name] = texts.take(pa.array(np.tile(np.array(places, np.int64), len(at))))
        return keys

    def _figures(self, number: int, groups: CodedGroups, at: Integers, counts: Integers) -> dict[str, pa.Array]:
        """The figures of each row: a row of ``counts`` for each group."""
        summed = summed_cells(number)
        low, high = np.zeros_like(counts), np.zeros_like(counts)
        variance, known = np.zeros(counts.shape), np.zeros(counts.shape, np.bool_)
        for place, alone, rows in self._laws(groups, at):
            level = self.levels[place]
            for statistics, of_level in _by_level(number, groups.level[at[rows]], rows):
                for column in range(counts.shape[1]):
                    # The total of a group with a table is a sum, also where it is among the totals.
                    cells = summed[column] if column else settings.CELLS_OF_LEVEL[statistics]
                    low[of_level, column], high[of_level, column] = self.interval(
                        level, counts[of_level, column], cells, statistics, alone=alone
                    )
                    value = self.variance(level, cells, statistics, alone=alone)
                    variance[of_level, column], known[of_level, column] = value or 0, value is not None
        left_out = (counts < 0).reshape(-1) if self.selected else None
        nothing = np.ones(counts.size, np.bool_) if self.selected else None
        figures = {
            tabular.COUNT: tabular.masked(counts.reshape(-1), left_out),
            LOW: tabular.masked(low.reshape(-1), nothing),
            HIGH: tabular.masked(high.reshape(-1), nothing),
            VARIANCE: tabular.masked(variance.reshape(-1), ~known.reshape(-1)),
        }
        if number == 0:
            words = pa.array([MEASURED[level] for level in sorted(MEASURED)], pa.string())
            figures[MEASURED_AS] = words.take(pa.array(groups.level[at]))
        if self.copied:
            regions = np.array([level.region for level in self.levels], np.int64)
            of_row = regions[np.repeat(groups.origin[at], counts.shape[1])]
            figures[MEASURED_IN] = pa.array(settings.REGION_TYPES, pa.string()).take(pa.array(of_row))
        return figures

    def _laws(self, groups: CodedGroups, at: Integers) -> Iterator[tuple[int, bool, Integers]]:
        """Groups that have the same laws: their population group level, whether they get a total alone by rule, and
        which they are."""
        alone = np.array([iteration.total_only for iteration in self.iterations])[groups.iteration[at]]
        key = groups.origin[at] * 2 + alone
        for each in np.unique(key).tolist():
            yield each // 2, bool(each % 2), np.flatnonzero(key == each)

    def interval(
        self, level: PlannedLevel, figures: Integers, cells: int, statistics: int, *, alone: bool
    ) -> tuple[Integers, Integers]:
        """The least and the largest count behind figures that are a measured count, or a sum of so many."""
        law = level.total_law if alone else level.law
        if self.probability is None or self.selected or law is None:
            return np.zeros_like(figures), np.zeros_like(figures)
        if cells > 1:
            return sum_intervals(law, figures, cells, self.probability, clamped=self.clamped)
        return intervals(law, figures, self.probability, published_above(level, statistics, alone=alone))

    def variance(self, level: PlannedLevel, cells: int, statistics: int, *, alone: bool) -> float | None:
        """That of the noise of a figure; None where a figure was published because of it, or changed."""
        law = level.total_law if alone else level.law
        if law is None or self.clamped or self.selected or published_above(level, statistics, alone=alone) is not None:
            return None
        return cells * law.variance()


def published_above(level: PlannedLevel, statistics: int, *, alone: bool) -> int | None:
    """The number that a figure must exceed to be published; None where it is published in any case."""
    return level.suppressed_up_to if statistics == 0 and not alone else None


def summed_cells(number: int) -> tuple[int, ...]:
    """How many measured counts each figure of a group is the sum of: the total, the sexes, the cells."""
    if number == 0:
        return (1,)
    grid = settings.GRIDS[number - 1]
    return (grid.cells, *(grid.ages,) * len(settings.SEXES), *(1,) * grid.cells)


def _by_level(number: int, statistics: Integers, rows: Integers) -> Iterator[tuple[int, Integers]]:
    """Groups by their statistics level, which in all tables but that of totals is one."""
    if number:
        yield number, rows
        return
    for each in np.unique(statistics).tolist():
        yield each, rows[statistics == each]


def _age_words(first: int, last: int) -> str:
    if last == settings.OLDEST:
        return f"{first} years and over"
    return f"{first} to {last} years" if last > first else f"{first} years"
