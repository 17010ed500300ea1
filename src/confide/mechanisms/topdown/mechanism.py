"""The mechanism ``topdown``, from top to bottom: consistent, whole, non-negative records from noisy measurements.

    records ─► histograms ─► the root: measure, estimate ─► every parent: measure its children, estimate ─► records

The estimate of a parent is final before its children are measured; children add up to it, cell by cell, exactly.
Measurements are lazy (``measure``), estimates are pure functions of measurements (``node``), and one level of the
descent (``descent``) is a map over parents (``EstimateGroup``) that any engine can run.

Reference: Abowd et al., The 2020 Census Disclosure Avoidance System TopDown Algorithm, HDSR (2022).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from confide.arrays import Floats, Integers
from confide.confidential import Confidential
from confide.engines.protocol import Engine, write_parquet
from confide.errors import Finding, Place, ReleaseError, RunError
from confide.estimation.node_problem import MeasuredQuery
from confide.file_system import private_folder
from confide.inputs.records import records_fingerprint
from confide.mechanisms.topdown import descent, statement
from confide.mechanisms.topdown.constraints import known_together, known_totals
from confide.mechanisms.topdown.measure import (
    Children,
    LevelQuery,
    TrueCounts,
    measure,
    measure_fully,
    weighting_variance,
)
from confide.mechanisms.topdown.measurements import writing
from confide.mechanisms.topdown.measurements.folder import find_measurements
from confide.mechanisms.topdown.measurements.layout import DP_QUERY, FOLDER, level_folder, query_layout
from confide.mechanisms.topdown.measurements.watchdog import require_near
from confide.mechanisms.topdown.node import NodeRules
from confide.mechanisms.topdown.output import verify as verification
from confide.mechanisms.topdown.output.accuracy import accuracy_entry, accuracy_stated
from confide.mechanisms.topdown.output.publish import TopDownExplained, publish
from confide.mechanisms.topdown.problem import TopDownProblem, absent_areas, plan_problem, prepare
from confide.mechanisms.topdown.records import check_input, number_of_records, unit_column, write_histogram
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.mechanisms.topdown.spine import TopDownLevel
from confide.mechanisms.topdown.strategy import LevelStrategy, held_together
from confide.noise import NoiseDistribution
from confide.releases import LoadedSpec, Plan, ReleaseWriter, SealedRelease, Workspace
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource
from confide.releases.replay import Residuals, no_truth, require_sealed

BYTES_PER_BLOCK = 20_000
"""A generous guess of what a block with units takes on the disk: rows of nodes, estimates and records."""

BYTES_PER_MEASUREMENT = 8
"""The same for a noisy count that is published: it is on the disk twice, compressed."""

BYTES_PER_RECORD = 200
"""The same for a record: a line in every format and layout."""


class TopDown(Mechanism[TopDownProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "topdown"
    spec = TopDownSpec
    accounted = True
    keyed = True
    explain = TopDownExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.topdown.spec:draft_topdown",
        "draft_from": "confide.mechanisms.topdown.spec:draft_topdown_from",
        "board": "confide.mechanisms.topdown.board:TopDownBoard",
        "targets": "confide.inference.tuning:tune_topdown",
        "evaluate": "confide.mechanisms.topdown.dossier:evaluate_topdown",
        "published": "confide.lab.published.tabular:read_records",
        "residuals": "confide.mechanisms.topdown.mechanism:residuals",
        "rehearsal": "confide.mechanisms.topdown.made_up:TopDownRehearsal",
        "audit": "confide.lab.risk.privacy_audit.of_mechanisms:TopDownAudit",
    }
    on_spark = True

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> TopDownProblem:
        return prepare(loaded, engine)

    def plan(self, problem: TopDownProblem) -> Plan:
        return plan_problem(problem)

    def bytes_needed(self, problem: TopDownProblem, plan: Plan) -> int:
        measured = plan.counts * BYTES_PER_MEASUREMENT if problem.spec.output.measurements else 0
        return len(problem.spine.rows) * BYTES_PER_BLOCK + measured

    def fingerprint(self, problem: TopDownProblem) -> str:
        return records_fingerprint(problem.records)

    def check(self, problem: TopDownProblem, job: Job) -> list[Finding]:
        """Records that do not fit the schema or the frame, and constraints that cannot all be kept."""
        findings = check_input(problem, job, _write_frame(problem, job.workspace.scratch))
        return findings + absent_areas(problem) + held_together(problem.strategy)

    def bytes_of_records(self, problem: TopDownProblem, job: Job) -> int:
        """How many records there are is not protected; counted ones may be far more than their file has rows."""
        return number_of_records(problem, job.engine) * BYTES_PER_RECORD

    def count(self, problem: TopDownProblem, job: Job) -> None:
        """One histogram for each block, added up along the spine."""
        frame = _write_frame(problem, job.workspace.counts)
        histogram = job.workspace.counts / "histogram.parquet"
        with job.progress.stage("Counting records", 1 + len(problem.spine.levels)) as advance:
            if not histogram.exists():
                write_histogram(problem, job.engine, histogram)
            advance(1)
            for level in problem.spine.levels:
                into = counts_file(job.workspace, level)
                if not into.exists():
                    job.engine.write(
                        f'SELECT frame."{unit_column(problem, level.name)}" AS unit, histogram.cell AS cell, '
                        "CAST(sum(histogram.n) AS BIGINT) AS n "
                        "FROM histogram JOIN frame ON histogram.code = frame.code GROUP BY 1, 2 ORDER BY 1, 2",
                        into,
                        histogram=histogram,
                        frame=frame,
                    )
                advance(1)

    def measure(self, problem: TopDownProblem, job: Job, noise: NoiseSource | None) -> None:
        """From the root down: each level is measured where its parents' estimates leave something to measure."""
        assert noise is not None
        job.plan.check_measured(
            (level.name, query_share.name)
            for level_strategy, level in problem.levels()
            if level.measured.any()
            for query_share in level_strategy.queries
        )
        drawn = DrawnEvidence(problem, job.plan, noise, job.workspace)
        descent.descend(problem, job, drawn)
        if problem.spec.output.measurements:
            writing.measure_everything(
                problem, job, drawn.level_queries, lambda level: counts_file(job.workspace, level), drawn.totals
            )
        require_near(problem, job, drawn)

    def statistics(self, problem: TopDownProblem, job: Job) -> dict[str, Any]:
        """What the solvers did, level by level."""
        estimates = {level.name: descent.estimates_folder(job.workspace, level) for level in problem.spine.levels}
        return descent.read_statistics(estimates)

    def publish(self, problem: TopDownProblem, job: Job, release: ReleaseWriter) -> None:
        publish(problem, job.plan, job, release)

    def guarantee(self, problem: TopDownProblem, job: Job) -> Mapping[str, Any]:
        """The formal guarantee, and beside it how far off figures may be expected to be."""
        return {**super().guarantee(problem, job), **accuracy_entry(problem)}

    def restated(self, plan: Plan, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**super().restated(plan, manifest), **accuracy_stated(manifest)}

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return statement.documents(manifest)

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        yield from verification.verify(release.folder, release.manifest)
        yield descent.solver_check(release.manifest["statistics"])


def counts_file(workspace: Workspace, level: TopDownLevel) -> Path:
    return workspace.counts / f"{level.name}.parquet"


def write_counts(problem: TopDownProblem, workspace: Workspace, histogram: pa.Table) -> None:
    """What ``count`` leaves, from the histograms of blocks: for people who are made up, or published already.

    Args:
        problem: Strategy, frame and spine.
        workspace: Where the counts of every level go.
        histogram: ``unit`` (a block of the spine), ``cell`` and ``n``.
    """
    block, cell, count = (histogram.column(name).to_numpy() for name in ("unit", "cell", "n"))
    private_folder(workspace.counts)
    for level in problem.spine.levels:
        unit = problem.spine.unit_of_block(level.name)[block]
        key, place = np.unique(unit * problem.cells + cell, return_inverse=True)
        summed = np.zeros(len(key), np.int64)
        np.add.at(summed, place.reshape(-1), count)
        rows = pa.table({"unit": key // problem.cells, "cell": key % problem.cells, "n": summed})
        write_parquet(rows, counts_file(workspace, level))


@dataclass(frozen=True)
class DrawnEvidence:
    """Measurements drawn as the descent needs them: see :class:`confide.mechanisms.topdown.descent.Evidence`."""

    problem: TopDownProblem
    plan: Plan
    noise: NoiseSource
    workspace: Workspace

    listed = False

    def root(self, level_strategy: LevelStrategy, root: TopDownLevel) -> tuple[tuple[MeasuredQuery, ...], int | None]:
        rows = pq.read_table(counts_file(self.workspace, root))
        cell, count = rows.column("cell").to_numpy(), rows.column("n").to_numpy()
        truth = Confidential(TrueCounts(np.zeros(len(cell), np.int64), cell, count))
        classes = root.shares.index.astype(np.int64)
        unit = Children(truth, np.zeros(1, np.int64), classes, np.arange(self.problem.cells))
        (measured,) = measure(self.level_queries(level_strategy, root), [unit])
        return measured, int(count.sum()) if self.problem.strategy.total_is_invariant else None

    def rows(self, level: TopDownLevel) -> tuple[dict[str, Path], str]:
        kind = descent.RowKind.TRUTH
        rows = f"SELECT part, {kind:d}, parent, truth.unit, truth.cell, n FROM truth JOIN children USING (unit)"
        return {"truth": counts_file(self.workspace, level)}, rows

    def totals(self, level: TopDownLevel) -> pa.Table | None:
        together = known_together(self.problem.strategy, level)
        if together is None:
            return None
        counted = pq.read_table(counts_file(self.workspace, level), columns=["unit", "n"])
        return known_totals(together, *(counted.column(name).to_numpy() for name in ("unit", "n")))

    def function(
        self, level_strategy: LevelStrategy, level: TopDownLevel, rules: NodeRules
    ) -> descent.EstimateChildren:
        return descent.EstimateChildren(rules, self.level_queries(level_strategy, level))

    def in_full(
        self, job: Job, level_strategy: LevelStrategy, level: TopDownLevel
    ) -> Iterator[tuple[int, Integers, Integers, Floats]]:
        """Every query in every measured unit. What the descent would draw of it is the same, number by number."""
        queries = self.level_queries(level_strategy, level)
        everything = level_strategy == self.problem.strategy.level(level.name)
        # Some queries lie apart from all of them, so that none is taken for another one.
        apart = self.workspace.measured / "some-queries" / level.name
        into = writing.measurements_folder(self.workspace, level) if everything else apart
        files = writing.measure_level(job, level, queries, counts_file(self.workspace, level), into)
        for number, units, values in writing.read_level(queries, files):
            laws = queries[number].laws
            precision = np.array([0.0 if law is None else 1 / weighting_variance(law) for law in laws])
            yield number, units, values, precision[level.shares.index[units]]
        if not everything or not self.problem.spec.output.measurements:
            shutil.rmtree(into, ignore_errors=True)

    def level_queries(self, level_strategy: LevelStrategy, level: TopDownLevel) -> tuple[LevelQuery, ...]:
        """The queries of a level with the laws of the plan; units of a class without a share have none."""

        def laws(query: str) -> tuple[NoiseDistribution | None, ...]:
            planned = iter(self.plan.laws(level.name, query))
            return tuple(next(planned) if share else None for share in level.shares.table)

        return tuple(
            LevelQuery(
                query_share.name,
                self.problem.cell_groups(query_share.name),
                query_share.query.cells,
                self.noise.stream(level.name, query_share.name),
                laws(query_share.name),
            )
            for query_share in level_strategy.queries
        )


def _write_frame(problem: TopDownProblem, folder: Path) -> Path:
    """Every block of the frame with its units on the spine, -1 where it has no housing unit and no facility."""
    spine = problem.spine
    path = private_folder(folder) / "frame.parquet"
    codes = np.array(problem.frame.spine.blocks.codes)[problem.frame.spine.blocks.unit_of_block]
    columns = {"code": pa.array(codes.tolist())}
    for name in spine.names:
        units = np.full(len(codes), -1, np.int64)
        units[spine.rows] = spine.unit_of_block(name)
        columns[unit_column(problem, name)] = pa.array(units)
    write_parquet(pa.table(columns), path)
    return path


# The audit of the noise: what a sealed run added to the truth.

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
