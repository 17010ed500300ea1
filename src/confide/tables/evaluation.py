"""``evaluate``: the released tables against the truth, for the curator alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from confide.confidential import Confidential
from confide.noise import ReleaseNoise
from confide.runs.evaluating import no_truth, require_sealed
from confide.runs.plan import Plan
from confide.runs.workspace import Workspace
from confide.tables.measuring import dense_counts, margin_counts, summed_axes
from confide.tables.pipeline import counts_file
from confide.tables.programme import Programme, Table
from confide.utility import ErrorSums, by_size_class

DEFAULT_MARGIN = Fraction(19, 20)


@dataclass(frozen=True)
class EvaluatedCells:
    """The error of the cells of one margin of one table on one level, whose true counts are of one size class."""

    table: str
    level: str
    query: str
    size_class: str
    margin: int
    promised_within: float
    promised_error: float
    sums: ErrorSums

    def as_dict(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "level": self.level,
            "query": self.query,
            "true_size": self.size_class,
            "noise_margin": self.margin,
            "promised_share_within_margin": self.promised_within,
            "promised_root_mean_squared_error": self.promised_error,
        } | self.sums.as_dict()


def evaluate(programme: Programme, plan: Plan, workspace: Workspace) -> Confidential[list[EvaluatedCells]]:
    """Compares every released count with the true one. The result tells of the truth and stays with the curator."""
    require_sealed(workspace)
    rows = []
    for table in programme.tables:
        released = _released(workspace.release, table.name)
        position = 0
        for level in table.levels:
            length = level.units * table.rows_per_unit
            counts = released[position : position + length].reshape(level.units, table.rows_per_unit)
            position += length
            rows += _evaluate_level(programme, plan, workspace, table, level.name, counts)
    return Confidential(rows)


def _evaluate_level(
    programme: Programme, plan: Plan, workspace: Workspace, table: Table, level: str, counts: np.ndarray[Any, Any]
) -> list[EvaluatedCells]:
    geolevel = programme.spine.level(level)
    file = counts_file(workspace, table, geolevel)
    probability = programme.spec.output.noise_margin or DEFAULT_MARGIN
    sums: dict[tuple[str, str], ErrorSums] = {}
    laws: dict[str, ReleaseNoise] = {
        margin.name: plan.measure(level, programme.query_key(table, margin)).law for margin in table.margins
    }
    margins = {name: law.noise_margin(probability) for name, law in laws.items()}
    for first in table.parts(geolevel):
        units = min(table.units_per_part, geolevel.units - first)
        true_rows = _true_rows(file, first)
        truth = dense_counts(true_rows, first, units, table.query.shape)
        start = 0
        for margin in table.margins:
            true = margin_counts(truth, summed_axes(table.query, margin), units)
            noisy = counts[first : first + units, start : start + margin.cells].ravel()
            start += margin.cells
            for size_class, part in by_size_class(true, noisy, margins[margin.name]).items():
                key = (margin.name, size_class)
                sums[key] = sums.get(key, ErrorSums()) + part
    return [
        EvaluatedCells(
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
