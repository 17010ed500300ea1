"""``evaluate``: the released tables against the truth, for the curator alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.confidential import Confidential
from confide.inputs.made_up import MeasuredCells, RecordForm
from confide.mechanisms.tables import mechanism
from confide.mechanisms.tables.programme import MeasuredTable, TablesProblem
from confide.noise import ReleaseNoise
from confide.releases import Job, MadeUpRecords, NoiseSource, Plan, Residuals, Workspace, dossier
from confide.releases.replay import no_truth, require_sealed
from confide.report import charts
from confide.report.charts import AreaMeasure, area_maps, require_levels
from confide.utility import ErrorSums, by_size_class, combine


def evaluate(
    programme: TablesProblem, plan: Plan, workspace: Workspace, lone: dossier.LoneFigures | None = None
) -> Confidential[list[dossier.CellErrors]]:
    """Compares every released count with the true one. The result tells of the truth and stays with the curator;
    ``lone`` receives the figures of one record."""
    require_sealed(workspace)
    rows = []
    for table in programme.tables:
        released = _released(workspace.release, table.name)
        position = 0
        for level in table.levels:
            length = level.units * table.rows_per_unit
            counts = released[position : position + length].reshape(level.units, table.rows_per_unit)
            position += length
            rows += _evaluate_level(
                programme, plan, workspace, table, level.name, counts, lone or dossier.LoneFigures()
            )
    return Confidential(rows)


def _evaluate_level(
    programme: TablesProblem,
    plan: Plan,
    workspace: Workspace,
    table: MeasuredTable,
    level: str,
    counts: np.ndarray[Any, Any],
    lone: dossier.LoneFigures,
) -> list[dossier.CellErrors]:
    geolevel = programme.spine.level(level)
    file = mechanism.counts_file(workspace, table, geolevel)
    probability = programme.spec.output.noise_margin or dossier.DEFAULT_MARGIN
    sums: dict[tuple[str, str], ErrorSums] = {}
    laws: dict[str, ReleaseNoise] = {
        margin.name: plan.measure(level, programme.query_key(table, margin)).law for margin in table.margins
    }
    margins = {name: law.noise_margin(probability) for name, law in laws.items()}
    for first in table.parts(geolevel):
        units = min(table.units_per_part, geolevel.units - first)
        true_rows = _true_rows(file, first)
        truth = mechanism.dense_counts(true_rows, first, units, table.query.shape)
        start = 0
        for margin in table.margins:
            true = mechanism.margin_counts(truth, mechanism.summed_axes(table.query, margin), units)
            noisy = counts[first : first + units, start : start + margin.cells].ravel()
            start += margin.cells
            if lone.takes(level, programme.query_key(table, margin), table.name):
                area = np.repeat(np.arange(first, first + units), margin.cells)
                lone.add(level, geolevel.codes, area, true, noisy)
            for size_class, part in by_size_class(true, noisy, margins[margin.name]).items():
                key = (margin.name, size_class)
                sums[key] = sums.get(key, ErrorSums()) + part
    return [
        dossier.CellErrors(
            table.name,
            level,
            query,
            size_class,
            margins[query],
            float(sum(laws[query].folded_cdf_bounds(margins[query])) / 2),
            laws[query].variance() ** 0.5,
            total,
        )
        for (query, size_class), total in sums.items()
    ]


def residuals(programme: TablesProblem, job: Job, _noise: NoiseSource | None) -> Iterator[Residuals]:
    """What a run added to the truth: every count is published as it was measured."""
    return released_minus_true(programme, job.plan, job.workspace)


def released_minus_true(programme: TablesProblem, plan: Plan, workspace: Workspace) -> Iterator[Residuals]:
    """Released minus true of every measurement. Pooled, one that several tables publish comes once for each of them."""
    require_sealed(workspace)
    for table in programme.tables:
        released = _released(workspace.release, table.name)
        position = 0
        for level in table.levels:
            length = level.units * table.rows_per_unit
            noise = released[position : position + length].reshape(level.units, table.rows_per_unit).copy()
            position += length
            file = mechanism.counts_file(workspace, table, level)
            for first in table.parts(level):
                units = min(table.units_per_part, level.units - first)
                truth = mechanism.dense_counts(_true_rows(file, first), first, units, table.query.shape)
                true = [
                    mechanism.margin_counts(truth, mechanism.summed_axes(table.query, margin), units)
                    for margin in table.margins
                ]
                noise[first : first + units] -= np.concatenate([part.reshape(units, -1) for part in true], axis=1)
            starts = np.cumsum([0, *(margin.cells for margin in table.margins)])
            for margin, start in zip(table.margins, starts[:-1].tolist(), strict=True):
                query = programme.query_key(table, margin)
                law = plan.measure(level.name, query).law
                yield Residuals(level.name, query, noise[:, start : start + margin.cells], (law,), "released")


def _true_rows(file: Path, first: int) -> pa.Table:
    try:
        return pq.read_table(file, filters=[("part", "=", first)], use_threads=False)
    except FileNotFoundError:
        raise no_truth(file) from None


def _released(release: Path, name: str) -> np.ndarray[Any, Any]:
    files = sorted((release / "tables").glob(f"{name}.*"))
    for file in files:
        if file.suffix == ".parquet":
            return np.asarray(pq.read_table(file, columns=["count"]).column(0).to_numpy())
    options = pyarrow.csv.ConvertOptions(include_columns=["count"], column_types={"count": pa.int64()})
    return np.asarray(pyarrow.csv.read_csv(files[0], convert_options=options).column(0).to_numpy())


# The dossier of tables: released counts against true ones, beside what the noise promises.


def evaluate_tables(asked: dossier.Evaluating) -> dossier.Evaluated:
    """Each release against the truth, with a dossier of its own; and of several, means over their keys."""
    require_levels(asked.geometry, dict.fromkeys(level.name for t in asked.question.tables for level in t.levels))
    results = []
    with asked.progress.stage("Comparing with the truth", 2 * len(asked.runs)) as advance:
        for run in asked.runs:
            lone = dossier.LoneFigures()
            cells = evaluate(asked.question, asked.plan, run.workspace, lone)
            advance(1)
            rows, risk = dossier.reveal(cells), lone.as_dict(asked.geometry)
            results.append({"cells": [row.as_dict() for row in rows], "risk_by_area": risk})
            by_area = errors_by_area(asked.question, asked.plan, run.workspace)
            maps = area_maps(by_area, asked.geometry) if charts.available() else []
            risks = dossier.risk_pictures(risk, asked.question.area_names, asked.geometry, dossier.ALIKE)
            levels = list(dict.fromkeys(measure.level for measure in asked.plan.measures))
            dossier.write(
                run.workspace.dossier, results[-1], dossier.page_of_cells(rows, levels, run.title, maps, risks)
            )
            advance(1)
    if len(results) == 1:
        return dossier.Evaluated(Confidential(results[0]), asked.runs[0].workspace.dossier / dossier.PAGE)
    # "cells" is the list here, and in each of its rows a number that every key shares.
    return dossier.write_over_keys(asked, {"cells": combine([result["cells"] for result in results], dossier.FIXED)})


def errors_by_area(programme: TablesProblem, plan: Plan, workspace: Workspace) -> AreaMeasure:
    """How far the figures of each area are off, as a mean over all of them. It tells of the truth."""
    sums = dossier.AreaSums()
    for part in released_minus_true(programme, plan, workspace):
        codes = programme.spine.level(part.level).codes
        sums.add(part.level, codes, np.arange(len(codes)), np.abs(part.noise).sum(axis=1), part.noise.shape[1])
    return sums.measure("mean absolute error of the figures, in persons", programme.area_names)


# Made-up records of a programme of tables, for rehearsals and for trials of an audit: from schema and frame alone.


class TablesRehearsal(MadeUpRecords[TablesProblem]):
    """Records in the blocks of the frame, with the attributes of the schema."""

    def record_form(self, problem: TablesProblem) -> RecordForm:
        schema, block = problem.schema, problem.spec.geography.block
        form = RecordForm.on_spine(problem.attributes, schema.variables, block, problem.spine)
        order = problem.spine.blocks.unit_of_block.argsort()
        measured = [
            MeasuredCells(level.unit_of_block[order], table.query.variables)
            for table in problem.tables
            for level in table.levels
        ]
        return replace(form, measured=measured)
