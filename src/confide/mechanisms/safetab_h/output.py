"""The release: six tables from measurements alone, in the Bureau's layout and for people.

    measurements ─► negatives set to zero (option) ─► sums ─► files

``t3/T03001`` to ``t4/T04002`` have the Bureau's columns, in the order of region type, area, iteration and cell. The
tables for people have codes and labels, and what each figure says of the count:

    level, area, (area_name,) margin, iteration, iteration_label, (household_type:4, household_type:4_label,)
    count, low, high, variance

They follow from the others and the plan: whoever has these can make them anew, and ``verify`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.mechanisms.safetab.codes import PlannedIteration, read_iterations
from confide.mechanisms.safetab.output.coded import GROUP_COLUMNS, HIGH, ITERATION, LOW, VARIANCE
from confide.mechanisms.safetab.settings import ITERATION_LEVELS
from confide.mechanisms.safetab.tallies import intervals, sum_intervals
from confide.mechanisms.safetab_h.measure import measured_folder
from confide.mechanisms.safetab_h.problem import HouseholdGroups, SafeTabHProblem
from confide.mechanisms.safetab_h.settings import FAMILIES, TABLES, TOTAL_CELL, VARIABLES, FamilyName, HouseholdTable
from confide.noise import NoiseDistribution
from confide.releases import Job, ReleaseWriter, Workspace, tabular

GROUPS_AT_ONCE = 1 << 15
"""How many groups become rows at a time: each has up to nine."""
DATA_CELL: dict[FamilyName, str] = {"t3": "T3_DATA_CELL", "t4": "T4_DATA_CELL"}


def official_schema(table: HouseholdTable) -> pa.Schema:
    """The columns of a table in the Bureau's layout."""
    described = {**GROUP_COLUMNS, DATA_CELL[table.family]: "the cell: see the codebook"}
    fields = [
        pa.field(name, pa.string() if name in GROUP_COLUMNS else pa.int64(), False, {"description": text})
        for name, text in described.items()
    ]
    counted = {"description": "households, with noise; may be negative"}
    return pa.schema([*fields, pa.field("COUNT", pa.int64(), False, counted)])


def official_place(table: HouseholdTable) -> str:
    """Where its files are, without their endings: ``t3/T03001/T03001``."""
    return f"{table.family}/{table.name}/{table.name}"


@dataclass(frozen=True, eq=False)
class TableFigures:
    """The groups of one region type that have a table, in the order of area and iteration, with all of its figures."""

    region: str
    area: pa.Array
    """For each group the code of its area."""
    iteration: Integers
    """Its place among the iterations of the plan."""
    figures: Integers
    """A row for each group, a column for each row of the table."""

    def __len__(self) -> int:
        return len(self.iteration)

    def parts(self) -> Iterator[Integers]:
        """Some groups at a time: which they are."""
        for begin in range(0, len(self), GROUPS_AT_ONCE):
            yield np.arange(begin, min(begin + GROUPS_AT_ONCE, len(self)))


def read_measured(
    problem: SafeTabHProblem,
    workspace: Workspace,
    level: HouseholdGroups,
    table: HouseholdTable,
    *,
    clamped: bool = True,
) -> tuple[Integers, Integers]:
    """The groups of a level that have a table, by their places, and their measured counts, a row for each group.

    ``clamped``: as published, with zero in place of counts below it where the spec asks for that.
    """
    files = [measured_folder(workspace, level) / f"{part:08d}.parquet" for part in level.parts]
    rows = pa.concat_tables([pq.read_table(file) for file in files])
    here = np.flatnonzero(rows.column("table").to_numpy() == TABLES.index(table))
    groups, counts = (rows.column(name).to_numpy()[here].reshape(-1, table.cells) for name in ("group", "count"))
    if clamped and not problem.settings.negative_counts:
        counts = np.maximum(counts, 0)
    return np.asarray(groups[:, 0], np.int64), np.asarray(counts, np.int64)


def figures_of(problem: SafeTabHProblem, workspace: Workspace, table: HouseholdTable) -> list[TableFigures]:
    """The figures of a table, region type by region type."""
    result = []
    for region in dict.fromkeys(level.region_type for level in problem.levels):
        parts = []
        for level in (each for each in problem.levels if each.region_type == region):
            if table.family in level.tables:
                place, counts = read_measured(problem, workspace, level, table)
                area, position = np.divmod(level.group[place], len(level.iterations))
                parts.append((area, level.iterations[position], counts @ table.parts.T))
        if not parts:
            continue
        area, iteration, figures = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((iteration, area))
        codes = pa.array(problem.regions.areas[region], pa.string()).take(pa.array(area[order]))
        result.append(TableFigures(region, codes, iteration[order], figures[order]))
    return result


def official_rows(table: HouseholdTable, groups: TableFigures, codes: pa.Array) -> Iterator[pa.RecordBatch]:
    """Rows in the Bureau's layout; ``codes`` are those of the iterations."""
    cells = np.array([cell.code for cell in table.rows])
    for at in groups.parts():
        of_row = pa.array(np.repeat(at, len(cells)))
        yield pa.record_batch(
            [
                groups.area.take(of_row),
                tabular.repeated(groups.region, len(of_row)),
                codes.take(pa.array(groups.iteration)).take(of_row),
                pa.array(np.tile(cells, len(at))),
                pa.array(groups.figures[at].reshape(-1)),
            ],
            schema=official_schema(table),
        )


def publish(problem: SafeTabHProblem, job: Job, release: ReleaseWriter) -> None:
    """Writes the six tables in the official layout, and those for people."""
    layout, output = HouseholdLayout.of(job.plan.as_dict()), problem.spec.output
    codes = pa.array([each.code for each in layout.iterations])
    with job.progress.stage("Writing tables", len(TABLES)) as advance:
        for table in TABLES:
            groups = figures_of(problem, job.workspace, table)
            schema, place = official_schema(table), official_place(table)
            rows = [batch for each in groups for batch in official_rows(table, each, codes)]
            release.text(place, schema, rows, f"{table.title} of population groups", "|")
            if "parquet" in output.formats:
                release.part(place, schema, rows, f"{table.title} of population groups")
            layout.described(table).publish(release, partial(layout.rows, table, groups), output, problem.area_names)
            advance(1)
        areas = problem.regions.areas
        tabular.publish_areas(release, [(region, areas[region]) for region in layout.areas], problem.area_names)


# The tables for people, from the plan of a release.


@dataclass(frozen=True)
class PlannedTables:
    """A population group level as the plan describes it."""

    region_type: str
    iteration_level: int
    areas: int
    groups: Mapping[FamilyName, tuple[int, ...]]
    """How many groups have each table, of household type and of tenure, where these are made."""
    laws: Mapping[FamilyName, NoiseDistribution]
    budgets: Mapping[FamilyName, Fraction]
    thresholds: Mapping[FamilyName, tuple[int, ...]]
    stability: int

    @classmethod
    def read(cls, facts: Mapping[str, Any], measures: Sequence[Mapping[str, Any]]) -> PlannedTables:
        """That of the facts of a level in a plan, and the measurements of the plan."""
        families = [family for family in FAMILIES if family in facts]
        begins = f"{ITERATION_LEVELS[facts['iteration_level']]}: T0"
        laws = {
            measure["query"][len(begins)]: measure["law"]
            for measure in measures
            if measure["level"] == facts["region_type"] and measure["query"].startswith(begins)
        }
        return cls(
            facts["region_type"],
            facts["iteration_level"],
            facts["areas"],
            {family: tuple(facts[family]["groups"]) for family in families},
            {family: NoiseDistribution.from_dict(laws[family[1]]) for family in families},
            {family: Fraction(facts[family]["budget"]) for family in families},
            {family: tuple(facts[family]["thresholds"]) for family in families},
            facts["stability"],
        )


@dataclass(frozen=True, eq=False)
class HouseholdLayout:
    """The tables of a release, from its plan alone."""

    iterations: tuple[PlannedIteration, ...]
    levels: tuple[PlannedTables, ...]
    probability: Fraction | None
    """Of the intervals; None: none are stated."""
    clamped: bool
    """Whether counts below zero were set to zero before they were summed."""
    named: bool
    """Whether areas have names."""

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> HouseholdLayout:
        """That of a plan, as manifests have it."""
        question, probability = plan["question"], plan["question"]["noise_margin"]
        return cls(
            read_iterations(question),
            tuple(PlannedTables.read(facts, plan["measures"]) for facts in question["levels"].values()),
            None if probability is None else Fraction(probability),
            not question["negative_counts"],
            question["area_names"] is not None,
        )

    @property
    def areas(self) -> dict[str, int]:
        """The region types with their numbers of areas."""
        return {level.region_type: level.areas for level in self.levels}

    @cached_property
    def places(self) -> Mapping[tuple[str, int], PlannedTables]:
        """The levels by region type and iteration level."""
        return {(level.region_type, level.iteration_level): level for level in self.levels}

    @cached_property
    def iteration_variable(self) -> tabular.CodedVariable:
        """The race and ethnicity groups."""
        codes, labels = [each.code for each in self.iterations], [each.label for each in self.iterations]
        return tabular.CodedVariable(
            ITERATION, tuple(codes), tuple(labels), "race or ethnicity group of the householder"
        )

    def columns(self, table: HouseholdTable) -> tabular.CodedColumns:
        """The columns of a table, without its figures."""
        own = (self.iteration_variable, *((variable_of(table),) if table.level else ()))
        return tabular.CodedColumns(own, areas=True, named=self.named)

    def described(self, table: HouseholdTable) -> tabular.DescribedTable:
        """A table for people."""
        fields = [
            tabular.figure_column(
                tabular.COUNT, "households, with noise" + ("" if self.clamped else "; may be negative")
            )
        ]
        if self.probability is not None:
            words = f"count: between low and high with {float(self.probability) * 100:.6g} %"
            fields += [
                tabular.figure_column(LOW, f"the least {words}"),
                tabular.figure_column(HIGH, f"the largest {words}"),
            ]
        words = "the variance of the noise" + ("; empty: figures below zero were changed" if self.clamped else "")
        fields.append(tabular.figure_column(VARIANCE, words, pa.float64(), gaps=True))
        return tabular.DescribedTable(table.name, table.title, self.columns(table), tuple(fields), tuple(self.areas))

    def rows(self, table: HouseholdTable, groups: Iterable[TableFigures]) -> Iterator[pa.RecordBatch]:
        """The rows of a table with labels, as :class:`~confide.releases.tabular.CodedColumns` speaks of them."""
        described = self.described(table)
        schema = pa.schema([*(tabular.text_column(name, "") for name in self.columns(table).keys), *described.figures])
        order = _sums_first(table)
        for of_region in groups:
            for at in of_region.parts():
                own = self._keys(table, of_region, at, order)
                own |= self._figures(table, of_region, at, order)
                yield pa.RecordBatch.from_arrays([own[name] for name in schema.names], schema=schema)

    def _keys(self, table: HouseholdTable, groups: TableFigures, at: Integers, order: Integers) -> dict[str, pa.Array]:
        """Which cell each row is, by labels."""
        of_row = pa.array(np.repeat(at, len(order)))
        labels = pa.array(self.iteration_variable.labels, pa.string())
        keys = {
            tabular.LEVEL: tabular.repeated(groups.region, len(of_row)),
            tabular.AREA: groups.area.take(of_row),
            ITERATION: labels.take(pa.array(groups.iteration)).take(of_row),
        }
        if table.level:
            cells = [table.rows[place] for place in order.tolist()]
            texts = pa.array(
                [tabular.TOTAL_CODE if cell.code == TOTAL_CELL else cell.label for cell in cells], pa.string()
            )
            keys[variable_of(table).name] = texts.take(pa.array(np.tile(np.arange(len(order)), len(at))))
        return keys

    def _figures(
        self, table: HouseholdTable, groups: TableFigures, at: Integers, order: Integers
    ) -> dict[str, pa.Array]:
        counts = groups.figures[at][:, order]
        low, high, variance = np.zeros_like(counts), np.zeros_like(counts), np.zeros(counts.shape)
        of_level = np.array([each.level for each in self.iterations])[groups.iteration[at]]
        for number in np.unique(of_level).tolist():
            rows, law = np.flatnonzero(of_level == number), self.places[groups.region, number].laws[table.family]
            for column, place in enumerate(order.tolist()):
                cells = table.summed[place]
                low[rows, column], high[rows, column] = self.interval(law, counts[rows, column], cells)
                variance[rows, column] = cells * law.variance()
        gone = np.ones(counts.size, np.bool_) if self.clamped else None
        return {
            tabular.COUNT: pa.array(counts.reshape(-1)),
            LOW: pa.array(low.reshape(-1)),
            HIGH: pa.array(high.reshape(-1)),
            VARIANCE: tabular.masked(variance.reshape(-1), gone),
        }

    def interval(self, law: NoiseDistribution, figures: Integers, cells: int) -> tuple[Integers, Integers]:
        """The least and the largest count behind figures that are a measured count, or a sum of so many."""
        if self.probability is None:
            return np.zeros_like(figures), np.zeros_like(figures)
        if cells > 1:
            return sum_intervals(law, figures, cells, self.probability, clamped=self.clamped)
        return intervals(law, figures, self.probability, None)


def variable_of(table: HouseholdTable) -> tabular.CodedVariable:
    """The groups of a table and the sums of them but the total, each under the Bureau's code; sums come first."""
    name = f"{VARIABLES[table.family]}:{table.cells}"
    cells = [table.rows[place] for place in _sums_first(table).tolist()]
    cells = [cell for cell in cells if cell.code != TOTAL_CELL]
    measured = [cell in table.measured for cell in cells]
    return tabular.CodedVariable(
        name,
        tuple(str(cell.code) for cell in cells),
        tuple(cell.label for cell in cells),
        f"{VARIABLES[table.family].replace('_', ' ')} in {table.cells} groups",
        groupings=tuple(name if alone else f"{name}:sums" for alone in measured) if not all(measured) else (),
        finest=tuple(measured) if not all(measured) else (),
    )


def _sums_first(table: HouseholdTable) -> Integers:
    """The places of a table's rows with sums before what they are sums of."""
    return np.argsort(-np.array(table.summed), kind="stable")
