"""The audit of TopDown: what a sealed run added to the truth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.confidential import Confidential
from confide.errors import Place, ReleaseError, RunError
from confide.mechanisms.topdown.measure import Children, TrueCounts, measure_fully
from confide.mechanisms.topdown.measurements.folder import find_measurements
from confide.mechanisms.topdown.measurements.layout import DP_QUERY, FOLDER, level_folder, query_layout
from confide.mechanisms.topdown.mechanism import DrawnEvidence
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spine import TopDownLevel
from confide.mechanisms.topdown.strategy import LevelStrategy
from confide.releases import Job, NoiseSource, Workspace
from confide.releases.replay import Residuals, no_truth, require_sealed

MOST_RESIDUALS = 1 << 23
"""Of a measurement about so many draws are looked at, those of the first units."""


def residuals(
    problem: TopDownProblem,
    job: Job,
    noise: NoiseSource | None,
) -> Iterator[Residuals]:
    """Measured minus true of every query on every level.

    Args:
        problem: Strategy, frame and spine of the release.
        job: The run, with its plan and its workspace.
        noise: The noise streams, by which measurements are drawn again where none are published; none where the key
            is gone.
    """
    require_sealed(job.workspace)
    published = problem.spec.output.measurements
    drawn = None if noise is None else DrawnEvidence(problem, job.plan, noise, job.workspace)
    if not published and drawn is None:
        raise RunError("no-measurements/run", where=Place(file=str(job.workspace.root)))
    for level_strategy, level in problem.levels():
        if not level.measured.any():
            continue
        widest = max(query.query.cells for query in level_strategy.queries)
        units = np.flatnonzero(level.measured)[: max(1, MOST_RESIDUALS // widest)]
        truth = _true_rows(job.workspace, level, units)
        if published:
            measured = _published_measurements(problem, job.workspace, level_strategy, level, units)
        else:
            assert drawn is not None
            queries, classes = drawn.level_queries(level_strategy, level), level.shares.index[units].astype(np.int64)
            everything = Children(Confidential(truth), units, classes, truth.cell[:0])
            measured = measure_fully(queries, everything)
        for number, query_share in enumerate(level_strategy.queries):
            added, name = measured[number], query_share.name
            np.subtract.at(added, (truth.position, problem.groups(name)[truth.cell]), truth.count)
            planned = iter(range(len(level.shares.table)))
            law_of = np.array([next(planned) if share else -1 for share in level.shares.table])
            yield Residuals(
                level.name,
                name,
                added,
                tuple(job.plan.laws(level.name, name)),
                "released" if published else "drawn again",
                law_of=law_of[level.shares.index[units]][:, None],
                units=units,
                complete=len(units) == int(level.measured.sum()),
            )


def _true_rows(workspace: Workspace, level: TopDownLevel, units: Integers) -> TrueCounts:
    """The true counts of some units, by their places among them."""
    file = workspace.counts / f"{level.name}.parquet"
    try:
        rows = pq.read_table(file)
    except FileNotFoundError:
        raise no_truth(file) from None
    unit, cell, n = (rows.column(name).to_numpy().astype(np.int64) for name in ("unit", "cell", "n"))
    place = np.minimum(np.searchsorted(units, unit), len(units) - 1)
    inside = units[place] == unit
    return TrueCounts(place[inside], cell[inside], n[inside])


def _published_measurements(
    problem: TopDownProblem, workspace: Workspace, level_strategy: LevelStrategy, level: TopDownLevel, units: Integers
) -> list[Integers]:
    """What the release has of every query in some units: units x cells."""
    schema = problem.strategy.schema
    layouts = [query_layout(schema, share.name, share.query, problem.file_layout) for share in level_strategy.queries]
    names, ids = pa.array([layout.query_name for layout in layouts]), pa.array(problem.spine.ids(level.name)[units])
    measured = [np.zeros((len(units), layout.cells), np.int64) for layout in layouts]
    times = np.zeros((len(layouts), len(units)), np.int64)
    place = Place(file=str(workspace.release / FOLDER))
    folder = find_measurements(workspace.release / FOLDER, (level.name,), place)
    for _, batch in folder.batches(level.name, DP_QUERY, ["geocode", "query_name", "value"], 1 << 12):
        unit = pc.index_in(batch.column("geocode"), value_set=ids).to_numpy(zero_copy_only=False)
        query = pc.index_in(batch.column("query_name"), value_set=names).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~np.isnan(unit.astype(np.float64))).tolist():
            number, at = int(query[row]), int(unit[row])
            measured[number][at] = batch.column("value")[row].values.to_numpy()
            times[number, at] += 1
    if (times != 1).any():
        raise ReleaseError(
            "measurements/missing",
            where=Place(file=str(workspace.release / FOLDER / level_folder(level.name))),
            several=int((times != 1).sum()),
        )
    return measured
