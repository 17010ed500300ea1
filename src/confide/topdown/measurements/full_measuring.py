"""The full set of measurements of a level, as a map over slices of units: into the confidential zone, to be published.

A descent measures what its estimates can depend on; here every query is measured in every cell of every unit that has a
share. Noise is a function of key and coordinate, so the numbers that the descent has used are among these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.confidential import Confidential
from confide.engines.files import private_folder
from confide.engines.groups import write_parquet
from confide.geography.topdown_tree import TopDownLevel
from confide.runs.mechanism import Job
from confide.runs.workspace import Workspace
from confide.topdown.levels import Kind
from confide.topdown.measurements.layout import query_layout
from confide.topdown.measuring import AskedQuery, Children, TrueCounts, measure_fully
from confide.topdown.question import Question
from confide.topdown.strategies.strategy import LevelStrategy

UNITS_PER_GROUP = 1_000
"""How many units are measured at once: those of ``pl94-persons`` are 2.6 million values."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MeasureUnits:
    """Measures everything in a group of units. ``orders[k]`` brings the cells of query k into the order of the file."""

    asked: tuple[AskedQuery, ...]
    orders: tuple[Integers, ...]

    def __call__(self, _: int, rows: pa.Table) -> pa.Table:
        kind, unit, cell, n = (rows.column(name).to_numpy() for name in ("kind", "unit", "cell", "n"))
        child = np.flatnonzero(kind == Kind.CHILD)
        child = child[np.argsort(unit[child])]
        units, true = unit[child], kind == Kind.TRUTH
        truth = TrueCounts(np.searchsorted(units, unit[true]), cell[true], n[true])
        measured = measure_fully(self.asked, Children(Confidential(truth), units, cell[child], cell[:0]))
        values = np.concatenate([m[:, order] for m, order in zip(measured, self.orders, strict=True)], axis=1)
        sizes = np.tile([len(order) for order in self.orders], len(units))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return pa.table(
            {
                "unit": np.repeat(units, len(self.asked)),
                "query": np.tile(np.arange(len(self.asked)), len(units)),
                "value": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values.ravel())),
            }
        )


def measurements_folder(workspace: Workspace, level: TopDownLevel) -> Path:
    """Where the full set of a level is. No level has a hyphen in its name, so no estimates are there."""
    return workspace.measured / "all-measurements" / level.name


def totals_file(workspace: Workspace, level: TopDownLevel) -> Path:
    """Where the known totals of a level are, if it has any."""
    return workspace.measured / "all-measurements" / f"{level.name}.totals.parquet"


def measure_everything(
    question: Question,
    job: Job,
    asked_of: Callable[[LevelStrategy, TopDownLevel], tuple[AskedQuery, ...]],
    counts_of: Callable[[TopDownLevel], Path],
    totals_of: Callable[[TopDownLevel], pa.Table | None],
) -> None:
    """The full set of every level. Invariant totals are kept beside it: they are published as they are."""
    for asked_level, level in question.levels():
        totals = totals_of(level)
        private_folder(totals_file(job.workspace, level).parent)
        if totals is not None and not totals_file(job.workspace, level).exists():
            write_parquet(totals, totals_file(job.workspace, level))
        numbers = groups_of_units(level)
        rows = job.workspace.counts / f"{level.name}.units.parquet"
        if numbers and not rows.exists():
            _write_rows(job, level, counts_of(level), rows)
        layouts = [query_layout(question.strategy.schema, asked.name, asked.query) for asked in asked_level.queries]
        function = MeasureUnits(asked_of(asked_level, level), tuple(layout.order for layout in layouts))
        with job.progress.stage(f"Measuring all of {level.name}", len(numbers)) as advance:
            job.engine.map_groups(
                function, rows, "part", numbers, measurements_folder(job.workspace, level), advance=advance
            )


def groups_of_units(level: TopDownLevel) -> list[int]:
    """The numbers of the groups that have a measured unit."""
    numbers: list[int] = np.unique(np.flatnonzero(level.measured) // UNITS_PER_GROUP).tolist()
    return numbers


def _write_rows(job: Job, level: TopDownLevel, counts: Path, into: Path) -> None:
    """The measured units, each with its class of shares, and their true counts."""
    units = np.flatnonzero(level.measured)
    columns = {"part": units // UNITS_PER_GROUP, "unit": units, "cell": level.shares.index[units]}
    file = private_folder(job.workspace.counts) / f"{level.name}.measured.parquet"
    write_parquet(pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}), file)
    job.engine.write(
        f"SELECT part, {Kind.CHILD:d} AS kind, unit, cell, CAST(0 AS BIGINT) AS n FROM units UNION ALL "
        f"SELECT part, {Kind.TRUTH:d}, truth.unit, truth.cell, n FROM truth JOIN units USING (unit) ORDER BY part",
        into,
        units=file,
        truth=counts,
    )
