"""``evaluate``: measured counts of households against the truth, for the curator alone; and what a run drew.

The counts that were measured are compared, those of cells: sums of them are not measured. Which table a group has was
decided by published totals, so that nothing is chosen here and every count has the noise of its level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.confidential import Confidential
from confide.mechanisms.safetab.tabulate import counts_file
from confide.mechanisms.safetab_h.measure import HouseholdCounts
from confide.mechanisms.safetab_h.output import read_measured
from confide.mechanisms.safetab_h.problem import HouseholdGroups, SafeTabHProblem, query_key
from confide.mechanisms.safetab_h.settings import HouseholdTable
from confide.noise import NoiseDistribution
from confide.releases import Job, NoiseSource, Workspace, dossier
from confide.releases.replay import Residuals, no_truth, require_sealed
from confide.report import charts
from confide.report.charts import area_maps, require_levels
from confide.utility import by_size_class, combine

MEASURED = "measured"
RISK_WORDS = (
    "Here a figure is a measured count of a population group: one of household type, or one of tenure. "
    f"Every group with a published total is shown. {dossier.ALIKE}"
)


@dataclass(frozen=True, eq=False)
class ComparedTable:
    """The groups of a level that have a table: their places, their true cells and the measured ones, a row for each.
    Confidential."""

    level: HouseholdGroups
    table: HouseholdTable
    law: NoiseDistribution
    place: Integers
    true: Integers
    measured: Integers

    @property
    def area(self) -> Integers:
        """The area of each group."""
        return np.asarray(self.level.group[self.place] // len(self.level.iterations))

    @property
    def query(self) -> str:
        """Its measurement in the plan."""
        return query_key(self.level.settings, self.table)


def compared(problem: SafeTabHProblem, workspace: Workspace, *, clamped: bool = True) -> Iterator[ComparedTable]:
    """Every table of every level; ``clamped``: as published, where counts below zero became zero."""
    require_sealed(workspace)
    for level in problem.levels:
        file = counts_file(workspace, level)
        try:
            true = HouseholdCounts.read(pq.read_table(file), level)
        except FileNotFoundError:
            raise no_truth(file) from None
        for table, tables in level.measured():
            place, measured = read_measured(problem, workspace, level, table, clamped=clamped)
            cells = true.cells_of(0, len(level.group), table)[place]
            yield ComparedTable(level, table, tables.law, place, cells, measured)


def residuals(problem: SafeTabHProblem, job: Job, _noise: NoiseSource | None) -> Iterator[Residuals]:
    """What a run added to the truth: every count as it was measured, before negative ones became zero."""
    for each in compared(problem, job.workspace, clamped=False):
        noise = each.measured - each.true
        yield Residuals(each.level.region_type, each.query, noise, (each.law,), MEASURED)


def evaluate_safetab_h(asked: dossier.Evaluating) -> dossier.Evaluated:
    """Each release against the truth, with a dossier of its own; and of several, means over their keys."""
    problem = asked.question
    assert isinstance(problem, SafeTabHProblem)
    regions = list(dict.fromkeys(level.region_type for level in problem.levels))
    require_levels(asked.geometry, dict.fromkeys(regions))
    results = []
    with asked.progress.stage("Comparing with the truth", len(asked.runs)) as advance:
        for run in asked.runs:
            lone, by_area = dossier.LoneFigures(), dossier.AreaSums()
            rows = dossier.reveal(_errors(problem, run.workspace, lone, by_area))
            risk = lone.as_dict(asked.geometry)
            results.append({"cells": [row.as_dict() for row in rows], "risk_by_area": risk})
            measure = by_area.measure("mean absolute error of measured counts, in households", problem.area_names)
            maps = area_maps(measure, asked.geometry) if charts.available() else []
            risks = dossier.risk_pictures(risk, problem.area_names, asked.geometry, RISK_WORDS)
            page = dossier.page_of_cells(rows, regions, run.title, maps, risks, "households")
            dossier.write(run.workspace.dossier, results[-1], page)
            advance(1)
    if len(results) == 1:
        return dossier.Evaluated(Confidential(results[0]), asked.runs[0].workspace.dossier / dossier.PAGE)
    return dossier.write_over_keys(asked, {"cells": combine([result["cells"] for result in results], dossier.FIXED)})


def _errors(
    problem: SafeTabHProblem, workspace: Workspace, lone: dossier.LoneFigures, by_area: dossier.AreaSums
) -> Confidential[list[dossier.CellErrors]]:
    """Every measured count beside the true one, by table, level and size."""
    probability = problem.spec.output.noise_margin or dossier.DEFAULT_MARGIN
    rows: list[dossier.CellErrors] = []
    for each in compared(problem, workspace):
        region, codes = each.level.region_type, problem.regions.areas[each.level.region_type]
        area = np.repeat(each.area, each.table.cells)
        lone.add(region, codes, area, each.true.reshape(-1), each.measured.reshape(-1))
        off = np.abs(each.measured - each.true).reshape(-1)
        by_area.add(region, codes, area, off)
        rows += _by_size(each, probability)
    return Confidential(rows)


def _by_size(each: ComparedTable, probability: Fraction) -> Iterator[dossier.CellErrors]:
    margin = each.law.noise_margin(probability)
    promised: dict[str, Any] = {
        "margin": margin,
        "promised_within": float(sum(each.law.folded_cdf_bounds(margin)) / 2),
        "promised_error": each.law.variance() ** 0.5,
    }
    sums = by_size_class(each.true.reshape(-1), each.measured.reshape(-1), margin)
    for size, of_size in sums.items():
        region = each.level.region_type
        yield dossier.CellErrors(each.table.name, region, each.query, size, **promised, sums=of_size)
