"""How a release is laid out, from its plan alone: what writes it, reads it and explains it.

Beside the layout of the Census Bureau,

    REGION_ID | REGION_TYPE | (ITERATION_CODE |) TABLE_DATA_CELL | COUNT | NOISE_DISTRIBUTION | VARIANCE

with the measured cells alone, every table stands for people with codes and labels, sums among its cells,

    level, area, margin, (iteration, iteration_label,) (VARIABLE, VARIABLE_label,) count, noise_margin, variance

and so do the averages, people over households or families, with Fieller's sets. In both, rows are in the order of
level, area, iteration and cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Floats, Integers
from confide.estimation.linear_statements import ratio_sets
from confide.mechanisms.phsafe.settings import (
    LEVELS,
    NATION,
    NATION_CODE,
    AverageTable,
    CountTable,
    OriginGroup,
    ShellCell,
    averages,
    iterations_of,
    stated_variance,
    table,
    tables,
)
from confide.noise import DiscreteGaussian, NoiseDistribution
from confide.releases import tabular
from confide.releases.figure_noise import NoiseOfSum

NOISE_MARGIN, VARIANCE = "noise_margin", "variance"
AVERAGE, LOW, HIGH, INTERVAL = "average", "low", "high", "interval"
UNITS_COUNT = "units"
ITERATION = "iteration"
BETWEEN, OUTSIDE, ANYTHING = "between", "outside", "anything"
"""What an interval of an average says: it is between the ends, outside of them, or nothing is known of it."""
DISTRIBUTIONS = {True: "Discrete Gaussian", False: "Two-Sided Geometric"}
EVERYBODY = "*"

Figure = Callable[["PlannedQuery", int], float]
"""A figure of a query and a number of its draws."""
Counts = Mapping[tuple[str, str, str], Integers]
"""By table, level and iteration level the measured counts: areas, iterations, interior cells."""


@dataclass(frozen=True)
class PlannedQuery:
    """A query as the plan of a release describes it."""

    table: str
    level: str
    iteration_level: str
    law: NoiseDistribution
    noiseless: bool

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others."""
        return self.table, self.level, self.iteration_level

    @property
    def iterations(self) -> tuple[OriginGroup, ...]:
        """Its iterations."""
        return iterations_of(self.iteration_level)

    def variance(self, draws: int) -> float:
        """The variance of so many of its draws, as the layout of the Census Bureau has it."""
        return draws * stated_variance(self.law, self.noiseless)

    def margin(self, draws: int, probability: Fraction) -> int:
        """The noise margin of the sum of so many of its draws."""
        return math.ceil(NoiseOfSum({(self.law, Fraction(1)): draws}).margin(probability))


def matrix(counted: CountTable, cells: Sequence[ShellCell]) -> Integers:
    """For each cell which measured cells, of the table that ``counted`` is made of, it is the sum of."""
    measured = [cell.code for cell in counted.base.interior]
    return np.array([[code in counted.measured_parts(cell) for code in measured] for cell in cells], np.int64)


@dataclass(frozen=True, eq=False)
class ReleaseLayout:
    """The tables of a release."""

    states: tuple[str, ...]
    queries: Mapping[tuple[str, str, str], PlannedQuery]
    probability: Fraction | None

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> ReleaseLayout:
        """That of a plan, as a manifest has it."""
        question = plan["question"]
        laws = {(each["level"], each["query"]): NoiseDistribution.from_dict(each["law"]) for each in plan["measures"]}
        planned = [
            PlannedQuery(
                each["table"],
                each["level"],
                each["iterations"],
                laws[each["level"], f"{each['table']} {each['iterations']}"],
                each["noiseless"],
            )
            for each in question["queries"]
        ]
        margin = question["noise_margin"]
        probability = None if margin is None else Fraction(margin)
        return cls(tuple(question["states"]), {each.key: each for each in planned}, probability)

    def areas(self, level: str) -> tuple[str, ...]:
        """The codes of the areas of a level."""
        return (NATION_CODE,) if level == NATION else self.states

    def of_table(self, counted: CountTable, level: str) -> list[PlannedQuery]:
        """The queries that a table shows on a level, in the order of their iterations."""
        keys = ((counted.base.name, level, each) for each in counted.iteration_levels)
        return [self.queries[key] for key in keys if key in self.queries]

    def levels(self, counted: CountTable) -> tuple[str, ...]:
        """The levels that a table is published for."""
        return tuple(level for level in LEVELS if self.of_table(counted, level))

    @cached_property
    def shown(self) -> tuple[CountTable, ...]:
        """The tables of counts."""
        return tuple(each for each in tables() if self.levels(each))

    @cached_property
    def averages(self) -> tuple[AverageTable, ...]:
        """The tables of averages: those with a numerator and a denominator for some group."""
        return tuple(each for each in averages() if any(self.pairs(each, level) for level in LEVELS))

    def pairs(self, average: AverageTable, level: str) -> list[tuple[PlannedQuery, PlannedQuery]]:
        """The queries of numerator and denominator on a level, of the iteration levels that both have."""
        below = {each.iteration_level: each for each in self.of_table(table(average.denominator), level)}
        above = self.of_table(table(average.numerator), level)
        return [(each, below[each.iteration_level]) for each in above if each.iteration_level in below]

    # Counts in the layout of the Census Bureau

    def schema(self, counted: CountTable) -> pa.Schema:
        """The columns of a table in the layout of the Census Bureau."""

        def column(name: str, kind: pa.DataType, description: str) -> pa.Field:
            return pa.field(name, kind, nullable=False, metadata={"description": description})

        iteration = [column("ITERATION_CODE", pa.string(), "the group of race or origin")] if counted.iterated else []
        return pa.schema(
            [
                column("REGION_ID", pa.string(), "1 for the nation, or the code of a state"),
                column("REGION_TYPE", pa.string(), "USA or STATE"),
                *iteration,
                column(counted.cell_column, pa.string(), "the number of the cell in the table"),
                column("COUNT", pa.int64(), f"{counted.counts}, with noise; may be negative"),
                column("NOISE_DISTRIBUTION", pa.string(), "the law of the noise"),
                column("VARIANCE", pa.float64(), "the variance of the noise"),
            ]
        )

    def official_rows(self, counted: CountTable, counts: Counts) -> Iterator[pa.RecordBatch]:
        """The rows of a table in the layout of the Census Bureau, a batch for each level."""
        schema, cells = self.schema(counted), counted.interior
        sums = matrix(counted, cells)
        codes = [str(cell.code) for cell in cells]
        for level in self.levels(counted):
            queries = self.of_table(counted, level)
            rows = self._keys(counted, level, codes)
            values = np.concatenate([counts[each.key] @ sums.T for each in queries], axis=1)
            beside = _beside(queries, sums, PlannedQuery.variance)
            gaussian = isinstance(queries[0].law, DiscreteGaussian)
            columns = [
                rows["area"],
                pa.array([level] * values.size, pa.string()),
                *([rows["iteration"]] if counted.iterated else []),
                rows["cell"],
                pa.array(values.reshape(-1), pa.int64()),
                pa.array([DISTRIBUTIONS[gaussian]] * values.size, pa.string()),
                pa.array(np.tile(beside.reshape(-1), len(values)), pa.float64()),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _keys(self, counted: CountTable, level: str, cells: Sequence[str]) -> dict[str, pa.Array]:
        """The columns that say which area, iteration and cell a row is."""
        areas = self.areas(level)
        iterations = [each.code for query in self.of_table(counted, level) for each in query.iterations]
        return _product(areas, iterations, cells)

    # Tables for people

    def variables(self, counted: CountTable) -> tuple[tabular.CodedVariable, ...]:
        """The variables of a table for people: groups of race or origin, and its cells. Everybody and the sum of all
        cells are totals; of other groups that overlap, and of other sums, the column ``margin`` says so."""
        variables = list[tabular.CodedVariable]()
        if counted.iterated:
            groups = [each for each in counted.iterations if each.code != EVERYBODY]
            parts = [each.level == "A-G" for each in groups]
            variables.append(
                tabular.CodedVariable(
                    ITERATION,
                    tuple(each.code for each in groups),
                    tuple(each.label for each in groups),
                    "group of race or origin",
                    tuple(ITERATION if part else "origin" for part in parts),
                    tuple(parts),
                )
            )
        if counted.variable:
            cells = [cell for cell in counted.cells if not is_total(counted, cell)]
            variables.append(
                tabular.CodedVariable(
                    counted.variable,
                    tuple(str(cell.code) for cell in cells),
                    tuple(cell.label for cell in cells),
                    counted.variable_title,
                    tuple(f"{counted.variable}:sum" if cell.of else counted.variable for cell in cells),
                    tuple(not cell.of for cell in cells),
                )
            )
        return tuple(variables)

    def described(self, counted: CountTable) -> tabular.DescribedTable:
        """A table of counts for people."""
        margin = tabular.figure_column(
            NOISE_MARGIN, f"the noise is at most this far from zero with probability {self.probability}"
        )
        figures = [
            tabular.figure_column(tabular.COUNT, f"{counted.counts}, with noise; may be negative"),
            *([] if self.probability is None else [margin]),
            tabular.figure_column(VARIANCE, "the variance of the noise", pa.float64()),
        ]
        columns = tabular.CodedColumns(self.variables(counted), areas=True)
        hierarchies = {} if not counted.variable else {counted.variable: _hierarchy(counted)}
        return tabular.DescribedTable(
            counted.name, counted.title, columns, tuple(figures), self.levels(counted), hierarchies
        )

    def rows(self, counted: CountTable, counts: Counts) -> Iterator[pa.RecordBatch]:
        """The rows of a table of counts for people, with labels."""
        described, cells = self.described(counted), counted.cells
        sums = matrix(counted, cells)
        for level in described.levels:
            queries = self.of_table(counted, level)
            values = np.concatenate([counts[each.key] @ sums.T for each in queries], axis=1)
            keys = self._labelled(counted, level, queries)
            variance = _beside(queries, sums, PlannedQuery.variance)
            figures = {tabular.COUNT: pa.array(values.reshape(-1), pa.int64())}
            if self.probability is not None:
                margin = _beside(queries, sums, partial(PlannedQuery.margin, probability=self.probability))
                figures[NOISE_MARGIN] = pa.array(np.tile(margin.reshape(-1), len(values)).astype(np.int64))
            figures[VARIANCE] = pa.array(np.tile(variance.reshape(-1), len(values)), pa.float64())
            yield pa.RecordBatch.from_pydict({**keys, **figures})

    def _labelled(self, counted: CountTable, level: str, queries: Sequence[PlannedQuery]) -> dict[str, pa.Array]:
        """The columns that say which cell a row is, as tables for people have them."""
        iterations = [
            tabular.TOTAL_CODE if each.code == EVERYBODY else each.label
            for query in queries
            for each in query.iterations
        ]
        cells = [tabular.TOTAL_CODE if is_total(counted, cell) else cell.label for cell in counted.cells]
        product = _product(self.areas(level), iterations, cells)
        columns = {tabular.LEVEL: pa.array([level] * len(product["area"]), pa.string()), tabular.AREA: product["area"]}
        if counted.iterated:
            columns[ITERATION] = product["iteration"]
        if counted.variable:
            columns[counted.variable] = product["cell"]
        return columns

    # Averages

    def described_average(self, average: AverageTable) -> tabular.DescribedTable:
        """A table of averages for people."""
        above, probability = table(average.numerator), self.interval_probability
        ends = f"with probability {probability} the average is between low and high, or as interval says"
        said = "between: from low to high; outside: at most low or at least high; anything: not known"
        figures = [
            tabular.figure_column(
                AVERAGE, "persons for each household or family, both with noise", pa.float64(), gaps=True
            ),
            tabular.figure_column(LOW, f"{ends}; empty where there is no such end", pa.float64(), gaps=True),
            tabular.figure_column(HIGH, "see low", pa.float64(), gaps=True),
            tabular.text_column(INTERVAL, said),
            tabular.figure_column(tabular.COUNT, "the numerator: persons, with noise; may be negative"),
            tabular.figure_column(VARIANCE, "the variance of its noise", pa.float64()),
            tabular.figure_column(UNITS_COUNT, "the denominator: households or families, with noise; may be negative"),
            tabular.figure_column(f"{UNITS_COUNT}_{VARIANCE}", "the variance of its noise", pa.float64()),
        ]
        levels = tuple(level for level in LEVELS if self.pairs(average, level))
        columns = tabular.CodedColumns(self.variables(above), areas=True)
        hierarchies = {above.variable: _hierarchy(above)}
        return tabular.DescribedTable(average.name, average.title, columns, tuple(figures), levels, hierarchies)

    @property
    def interval_probability(self) -> Fraction:
        """The probability of the intervals of averages: that of noise margins, or 95 %."""
        return self.probability or Fraction(19, 20)

    def average_rows(self, average: AverageTable, counts: Counts) -> Iterator[pa.RecordBatch]:
        """The rows of a table of averages, with labels."""
        above, below = table(average.numerator), table(average.denominator)
        on_top = matrix(above, above.cells)
        shown = {cell.code: cell for cell in below.cells}
        under = matrix(below, [shown[average.denominator_cell(cell.code)] for cell in above.cells])
        for level in self.described_average(average).levels:
            pairs = self.pairs(average, level)
            people = np.concatenate([counts[one.key] @ on_top.T for one, _ in pairs], axis=1)
            units = np.concatenate([counts[other.key] @ under.T for _, other in pairs], axis=1)
            areas = len(people)
            beside = [
                np.tile(_beside(queries, sums, PlannedQuery.variance).reshape(-1), areas)
                for queries, sums in (([one for one, _ in pairs], on_top), ([other for _, other in pairs], under))
            ]
            figures = self._averages(people.reshape(-1), units.reshape(-1), *beside)
            yield pa.RecordBatch.from_pydict({**self._labelled(above, level, [one for one, _ in pairs]), **figures})

    def _averages(
        self, people: Integers, units: Integers, people_variance: Floats, units_variance: Floats
    ) -> dict[str, pa.Array]:
        """Averages with Fieller's sets; numerator and denominator have noise of their own."""
        quantile = -NormalDist().inv_cdf(float(1 - self.interval_probability) / 2)
        sets = ratio_sets(people, units, people_variance, units_variance, 0.0, quantile)
        anything = ~np.isfinite(sets.low) & ~np.isfinite(sets.high)
        words = np.where(sets.outside, OUTSIDE, np.where(anything, ANYTHING, BETWEEN))
        value = np.divide(people, units, out=np.zeros(len(people)), where=units != 0)
        return {
            AVERAGE: tabular.masked(value, units == 0),
            LOW: tabular.masked(sets.low, ~np.isfinite(sets.low)),
            HIGH: tabular.masked(sets.high, ~np.isfinite(sets.high)),
            INTERVAL: pa.array(words.tolist(), pa.string()),
            tabular.COUNT: pa.array(people, pa.int64()),
            VARIANCE: pa.array(people_variance, pa.float64()),
            UNITS_COUNT: pa.array(units, pa.int64()),
            f"{UNITS_COUNT}_{VARIANCE}": pa.array(units_variance, pa.float64()),
        }


def is_total(counted: CountTable, cell: ShellCell) -> bool:
    """Whether a cell is the sum of all interior ones."""
    return set(cell.parts) == {each.code for each in counted.interior}


def _beside(queries: Sequence[PlannedQuery], sums: Integers, figure: Figure) -> Floats:
    """What is beside the counts of an area: iterations and cells."""
    draws = sums.sum(axis=1).tolist()
    of_query = [[figure(each, number) for number in draws] for each in queries]
    return np.repeat(np.array(of_query, np.float64), [len(each.iterations) for each in queries], axis=0)


def _product(areas: Sequence[str], iterations: Sequence[str], cells: Sequence[str]) -> dict[str, pa.Array]:
    """The columns of every combination, in order."""
    shape = len(areas), len(iterations), len(cells)
    places = np.unravel_index(np.arange(math.prod(shape)), shape)
    named = zip(("area", "iteration", "cell"), (areas, iterations, cells), places, strict=True)
    return {name: pa.array(texts, pa.string()).take(pa.array(place)) for name, texts, place in named}


def _hierarchy(counted: CountTable) -> tabular.CodeHierarchy:
    """What the cells of a table are parts of."""
    cells = [cell for cell in counted.cells if not is_total(counted, cell)]
    above = {part: str(cell.code) for cell in cells for part in cell.of}
    ordered = sorted(cells, key=lambda cell: not cell.of)
    parent = {str(cell.code): above.get(cell.code, tabular.TOTAL_CODE) for cell in ordered}
    codes: dict[tuple[str, ...], str] = {(tabular.TOTAL_CODE,): tabular.TOTAL_CODE}
    return tabular.CodeHierarchy(codes | {(code,): code for code in parent}, parent, tabular.TOTAL_CODE)
