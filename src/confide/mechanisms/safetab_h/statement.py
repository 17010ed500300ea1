"""What is said of a SafeTab-H release, from its plan alone: its levels, for the certificate and for ``check``; and, for
its readers, what its columns hold and the noise of each of its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from confide.exact import exact_text
from confide.mechanisms.safetab import statement
from confide.mechanisms.safetab.codes import PlannedIteration
from confide.mechanisms.safetab.output.coded import ITERATION
from confide.mechanisms.safetab.settings import ITERATION_LEVELS
from confide.mechanisms.safetab.tallies import excess_of_sum, margin_of_sum
from confide.mechanisms.safetab_h.output import HouseholdLayout, PlannedTables, variable_of
from confide.mechanisms.safetab_h.settings import TABLES, TABLES_OF, TOTAL_CELL, VARIABLES, HouseholdTable
from confide.releases.figure_noise import Draw
from confide.releases.folder import cost_of_person
from confide.releases.plan import Explanation, Plan, Summary, read_plan
from confide.releases.tabular import AREA, COUNT, LEVEL, TOTAL_CODE, Codebook, asked

PROBABILITY = Fraction("0.95")


def group_levels(plan: Plan) -> Iterator[dict[str, Any]]:
    """For each level and kind of table what it has, what it costs and how much noise its counts have."""
    # Counts below zero that were set to zero make a sum too high; then noise puts it off by more than its margin.
    largest_error = margin_of_sum if plan.question["negative_counts"] else excess_of_sum
    for level in HouseholdLayout.of(plan.as_dict()).levels:
        for family in level.laws:
            law, sums = level.laws[family], sorted({table.cells for table in TABLES_OF[family] if table.level})
            yield {
                "region": level.region_type,
                "iterations": f"{ITERATION_LEVELS[level.iteration_level]}, {VARIABLES[family].replace('_', ' ')}",
                "areas": level.areas,
                "groups": sum(level.groups[family]),
                "by_table": level.groups[family],
                "budget": exact_text(level.budgets[family]),
                "stability": level.stability,
                "margin": law.noise_margin(PROBABILITY),
                "margins_of_sums": [largest_error(law, cells, PROBABILITY) for cells in sums],
                "least": None,
                "margin_total_only": None,
                "thresholds": list(level.thresholds[family]),
                "suppressed_up_to": None,
            }


def passes_of(plan: Plan) -> list[dict[str, str]]:
    """The sum of budgets of each pass, where there are two."""
    levels = HouseholdLayout.of(plan.as_dict()).levels
    return statement.passes((level.region_type, sum(level.budgets.values(), Fraction(0))) for level in levels)


def documents(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The certificate of a release, with its population group levels."""
    plan = read_plan(manifest["plan"])
    return statement.certificate_of_groups(manifest, list(group_levels(plan)), passes_of(plan))


def summary(plan: Plan) -> Summary:
    """The population group levels, and what they cost."""
    columns = (
        "areas",
        "iterations, table",
        "areas ",
        "groups ",
        "with each table ",
        "budget ",
        "noise margin (95 %) ",
        "totals of tables ",
        "tables from ",
    )
    rows = tuple(
        (
            str(row["region"]),
            str(row["iterations"]),
            f"{row['areas']:,}",
            f"{row['groups']:,}",
            ", ".join(f"{number:,}" for number in row["by_table"]),
            str(row["budget"]),
            f"±{row['margin']:,}",
            ", ".join(f"±{margin:,}" for margin in row["margins_of_sums"]),
            ", ".join(map(str, row["thresholds"])),
        )
        for row in group_levels(plan)
    )
    notes = tuple(f"{row['name']}: the tables cost {row['budget']} together." for row in passes_of(plan))
    person = f"One person may change one household in any way, which costs {cost_of_person(plan)}."
    return Summary(f"The release costs {plan.loss} for one household (add-remove). {person}", columns, rows, notes)


# What is said to the readers of a release: what its columns hold, and the noise of each of its figures.


GROUPS = (
    "A group is an area crossed with a race or ethnicity group of the householder, whose code stands in the column "
    "iteration. Groups overlap: a household can be in several of them.",
    "A group has one table of household type (T03001 to T03004) and one of tenure (T04001 or T04002). Its published "
    "population decided which, so that what is there says nothing of households. Groups without a published "
    "population are not there.",
    "The totals of T03 and T04 of the same group have noise of their own, and differ; neither is made consistent with "
    "the population of the group.",
)
INTERVAL = "low and high: the true count is between them with a probability of at least {}."
ADDING = (
    'Within one group of one area, add the rows of one table whose margin is "cell" (or those of a file of the folder '
    "cells/). Areas of one level can be added for the same group, as far as the group has the table in all of them.",
    "Never add different groups, such as two races: a household can be in both. Never add sums and cells together, nor "
    "household type and tenure.",
)
OFFICIAL = {
    "t3/": "household type in the Census Bureau's layout, a folder for each table, with | between values",
    "t4/": "tenure in the same layout",
}


def codebook(plan: Mapping[str, Any]) -> Codebook:
    """What the tables of a release hold."""
    layout, (formats, agency) = HouseholdLayout.of(plan), asked(plan["question"])
    tables = tuple(layout.described(table) for table in TABLES)
    notes = [*GROUPS]
    if layout.probability is not None:
        notes.append(INTERVAL.format(f"{float(layout.probability) * 100:.6g} %"))
    notes += (
        [statement.CLAMPED] if layout.clamped else [statement.NEGATIVE, statement.VARIANCE.partition(". ")[0] + "."]
    )
    return Codebook(
        tables, layout.areas, formats, agency, statement.PROTECTION, tuple(notes), adding=ADDING, others=OFFICIAL
    )


@dataclass(frozen=True, eq=False)
class HouseholdFigures:
    """The noise of the figures of a release: which measured counts a row shows, and their law."""

    levels: Mapping[tuple[str, int], PlannedTables]
    iterations: Mapping[str, PlannedIteration]
    figure: str = COUNT

    @classmethod
    def of(cls, plan: Mapping[str, Any]) -> HouseholdFigures | str:
        """That of a release, from its plan; or why it is not known."""
        layout = HouseholdLayout.of(plan)
        if layout.clamped:
            return statement.CLAMPED_SUMS
        return cls(layout.places, {each.code: each for each in layout.iterations})

    def draws(self, table: str, row: Mapping[str, Any]) -> Sequence[Draw]:
        """One for each measured count that the figure is made of."""
        measured = next(each for each in TABLES if each.name == table)
        iteration = self.iterations[row[ITERATION]]
        law = self.levels[row[LEVEL], iteration.level].laws[measured.family]
        key = (row[LEVEL], row[AREA], iteration.code, table)
        return [Draw((*key, cell), law) for cell in _measured(measured, row)]


def _measured(table: HouseholdTable, row: Mapping[str, Any]) -> list[int]:
    """The codes of the measured cells that a row is the sum of."""
    code = row[variable_of(table).name] if table.level else TOTAL_CODE
    wanted = str(TOTAL_CELL) if code == TOTAL_CODE else code
    place = {str(cell.code): number for number, cell in enumerate(table.rows)}
    if wanted not in place:
        raise LookupError(table.name)
    parts = table.parts[place[wanted]]
    return [cell.code for cell, part in zip(table.measured, parts.tolist(), strict=True) if part]


class SafeTabHExplained(Explanation):
    """What releases of SafeTab-H say to their readers."""

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:
        return codebook(manifest["plan"])

    def figure_noise(self, manifest: Mapping[str, Any]) -> HouseholdFigures | str:
        return HouseholdFigures.of(manifest["plan"])

    def summary(self, plan: Plan) -> Summary:
        return summary(plan)
