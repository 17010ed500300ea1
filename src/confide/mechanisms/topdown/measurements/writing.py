"""The noisy measurement file in a release: measurements, constraints and units of every level, streamed.

All measurements that the plan has priced are published, whether the estimates needed them or not; so the loss of the
release is the plan's, as it is without the file. What is under ``Constraint`` is public knowledge or an invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.arrays import Integers
from confide.confidential import Confidential
from confide.engines.protocol import Advance, write_parquet
from confide.file_system import private_folder
from confide.mechanisms.topdown.descent import RowKind
from confide.mechanisms.topdown.measure import Children, LevelQuery, TrueCounts, measure_fully
from confide.mechanisms.topdown.measurements import layout
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategy import LevelStrategy
from confide.noise import NoiseDistribution
from confide.privacy import ZCDP
from confide.releases import Job, Plan, ReleaseWriter, Workspace

# The full set of measurements of a level, as a map over slices of units: into the confidential zone, to be published.
#
# A descent measures what its estimates can depend on; here every query is measured in every cell of every unit that
# has a share. Noise is a function of key and coordinate, so the numbers that the descent has used are among these.


UNITS_PER_GROUP = 1_000
"""How many units are measured at once: those of ``pl94-persons`` are 2.6 million values."""


@dataclass(frozen=True, eq=False)
class MeasureUnits:
    """Measures everything in a group of units."""

    queries: tuple[LevelQuery, ...]

    def __call__(self, _: int, rows: pa.Table) -> pa.Table:
        kind, unit, cell, n = (rows.column(name).to_numpy() for name in ("kind", "unit", "cell", "n"))
        child = np.flatnonzero(kind == RowKind.CHILD)
        child = child[np.argsort(unit[child])]
        units, true = unit[child], kind == RowKind.TRUTH
        truth = TrueCounts(np.searchsorted(units, unit[true]), cell[true], n[true])
        measured = measure_fully(self.queries, Children(Confidential(truth), units, cell[child], cell[:0]))
        values = np.concatenate(measured, axis=1)
        sizes = np.tile([query.cells for query in self.queries], len(units))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return pa.table(
            {
                "unit": np.repeat(units, len(self.queries)),
                "query": np.tile(np.arange(len(self.queries)), len(units)),
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
    problem: TopDownProblem,
    job: Job,
    asked_of: Callable[[LevelStrategy, TopDownLevel], tuple[LevelQuery, ...]],
    counts_of: Callable[[TopDownLevel], Path],
    totals_of: Callable[[TopDownLevel], pa.Table | None],
) -> None:
    """The full set of every level. Invariant totals are kept beside it: they are published as they are."""
    for level_strategy, level in problem.levels():
        totals = totals_of(level)
        private_folder(totals_file(job.workspace, level).parent)
        if totals is not None and not totals_file(job.workspace, level).exists():
            write_parquet(totals, totals_file(job.workspace, level))
        with job.progress.stage(f"Measuring all of {level.name}", len(groups_of_units(level))) as advance:
            queries, into = asked_of(level_strategy, level), measurements_folder(job.workspace, level)
            measure_level(job, level, queries, counts_of(level), into, advance)


def measure_level(
    job: Job,
    level: TopDownLevel,
    queries: tuple[LevelQuery, ...],
    counts: Path,
    into: Path,
    advance: Advance | None = None,
) -> list[Path]:
    """Some queries in all measured units of a level, in files of some units each; those that are there already stay."""
    numbers, rows = groups_of_units(level), job.workspace.counts / f"{level.name}.units.parquet"
    if numbers and not rows.exists():
        _write_rows(job, level, counts, rows)
    function = MeasureUnits(queries)
    return job.engine.map_groups(function, rows, "part", numbers, into, advance=advance)


def read_level(queries: Sequence[LevelQuery], files: Sequence[Path]) -> Iterator[tuple[int, Integers, Integers]]:
    """What :func:`measure_level` has measured: the number of a query, units, and values (units x cells)."""
    for file in files:
        rows = pq.read_table(file)
        unit, query = (rows.column(name).to_numpy() for name in ("unit", "query"))
        listed = pa.concat_arrays(rows.column("value").chunks)
        flat = listed.flatten().to_numpy()
        first = np.cumsum(sizes := pc.list_value_length(listed).to_numpy()) - sizes
        for number, asked in enumerate(queries):
            chosen = np.flatnonzero(query == number)
            yield number, unit[chosen], flat[first[chosen][:, None] + np.arange(asked.cells)]


def _layouts(problem: TopDownProblem, level: TopDownLevel) -> list[layout.QueryLayout]:
    schema, asked = problem.strategy.schema, problem.strategy.level(level.name).queries
    return [layout.query_layout(schema, share.name, share.query, problem.file_layout) for share in asked]


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
        f"SELECT part, {RowKind.CHILD:d} AS kind, unit, cell, CAST(0 AS BIGINT) AS n FROM units UNION ALL "
        f"SELECT part, {RowKind.TRUTH:d}, truth.unit, truth.cell, n FROM truth JOIN units USING (unit) ORDER BY part",
        into,
        units=file,
        truth=counts,
    )


ROWS_PER_GROUP = 1 << 15
"""A row of measurements has hundreds of values."""

STATE = "state"

Texts = NDArray[np.str_]


def publish_measurements(problem: TopDownProblem, plan: Plan, job: Job, release: ReleaseWriter) -> None:
    """Every level's measurements, constraints and units into the release."""
    with job.progress.stage("Writing measurements", len(problem.spine.levels)) as advance:
        for level in problem.spine.levels:
            _publish_level(problem, plan, job, release, level)
            advance(1)


def _publish_level(problem: TopDownProblem, plan: Plan, job: Job, release: ReleaseWriter, level: TopDownLevel) -> None:
    schema, ids = problem.strategy.schema, problem.spine.ids(level.name)
    measured = _MeasurementRows(problem, plan, job, level, ids)
    file = totals_file(job.workspace, level)
    constraints = layout.ConstraintRows(problem, level, ids, pq.read_table(file) if file.exists() else None)
    official = problem.spine.official_codes(level.name)
    title = f"{problem.strategy.title}: {level.name}"
    for state, units in partitions(problem.spine, level, ids):

        def write(kind: str, columns: pa.Schema, batches: Iterator[pa.RecordBatch], what: str, of: str = state) -> None:
            place = f"{layout.FOLDER}/{layout.level_folder(level.name)}/{kind}/{of}part-00000"
            release.part(place, columns, batches, f"{title}, {what}", ROWS_PER_GROUP)

        if level.measured[units].any():
            write(layout.DP_QUERY, layout.measured_schema(schema), measured.batches(units), "noisy measurements")
        write(layout.CONSTRAINT, layout.constraint_schema(schema), constraints.batches(units), "constraints")
        codes = [None] * level.units if official is None else official.tolist()
        rows = pa.record_batch([pa.array(ids[units]), pa.array(codes[units], pa.string())], schema=layout.unit_schema())
        write(layout.UNIT, layout.unit_schema(), iter([rows]), "units")


def partitions(spine: TopDownSpine, level: TopDownLevel, ids: Texts) -> list[tuple[str, slice]]:
    """The folders of a level's files, each with its units: ``State=ddd/`` below the root, where ids begin with the
    State (and its AIAN flag); otherwise one."""
    one_partition = [("", slice(0, level.units))]
    if STATE not in spine.names or level is spine.levels[0]:
        return one_partition
    first = level.first_block[:-1]
    codes = np.array(spine.frame.level(STATE).codes)
    prefix = codes[spine.official_of_block(STATE)[first]]
    if spine.split is not None:
        prefix = np.strings.add(np.where(spine.split[first], "1", "0"), prefix)
    if not np.strings.startswith(ids, prefix).all():
        return one_partition
    starts = np.flatnonzero(np.append(True, prefix[1:] != prefix[:-1]))
    ends = np.append(starts[1:], level.units)
    return [
        (f"State={prefix[begin]}/", slice(begin, end))
        for begin, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


@dataclass
class _MeasurementRows:
    """The rows of DPQuery of one level."""

    problem: TopDownProblem
    plan: Plan
    job: Job
    level: TopDownLevel
    ids: Texts

    def batches(self, units: slice) -> Iterator[pa.RecordBatch]:
        """The rows of some units, by unit and query."""
        layouts = _layouts(self.problem, self.level)
        noise = [self._noise(form.name) for form in layouts]
        folder = measurements_folder(self.job.workspace, self.level)
        for group in groups_of_units(self.level):
            if group * UNITS_PER_GROUP >= units.stop or (group + 1) * UNITS_PER_GROUP <= units.start:
                continue
            rows = pq.read_table(folder / f"{group:08d}.parquet")
            inside = pc.and_(
                pc.greater_equal(rows.column("unit"), units.start), pc.less(rows.column("unit"), units.stop)
            )
            rows = rows.filter(inside).combine_chunks()
            if rows.num_rows:
                yield from self._rows(rows, layouts, noise).to_batches()

    def _noise(self, query: str) -> list[tuple[float, str, str]]:
        """Variance, parameter and loss of a query for each class of shares."""
        planned = iter([m for m in self.plan.measures if (m.level, m.query) == (self.level.name, query)])
        result = []
        for share in self.level.shares.table:
            if not share:
                result.append((0.0, "", ""))
                continue
            measure = next(planned)
            assert isinstance(measure.loss, ZCDP)
            law: NoiseDistribution = measure.unbounded
            result.append((law.variance(), str(law.parameter), str(measure.loss.rho)))
        return result

    def _rows(
        self, rows: pa.Table, layouts: list[layout.QueryLayout], noise: list[list[tuple[float, str, str]]]
    ) -> pa.Table:
        schema = layout.measured_schema(self.problem.strategy.schema)
        unit, query = (rows.column(name).to_numpy() for name in ("unit", "query"))
        classes = len(self.level.shares.table)
        kind = pa.array(query * classes + self.level.shares.index[unit])
        which = pa.array(query)

        def of_query(values: list[str]) -> pa.Array:
            return pa.array(values).take(which)

        variance, sigma2, plb = zip(*(of_class for of_query_ in noise for of_class in of_query_), strict=True)
        columns = [
            pa.array(self.ids[unit]),
            of_query([form.query_name for form in layouts]),
            *(of_query([form.attributes[k] for form in layouts]) for k in range(len(layouts[0].attributes))),
            pa.array([list(form.shape) for form in layouts], pa.list_(pa.int32())).take(which),
            rows.column("value"),
            pa.array(variance, pa.float32()).take(kind),
            pa.array(sigma2).take(kind),
            pa.array(plb).take(kind),
        ]
        return pa.table(columns, schema=schema)
