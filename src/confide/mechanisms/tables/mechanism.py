"""The mechanism ``tables``, from top to bottom: a static programme of cross-tabulations with independent noise.

    d  ↦  ∪_I  T^I_{P(A_I)}                                             (Bach 2021, Eq. 6)

Every table I of the programme, with all its margins, each count with noise of its own: discrete Gaussian under zCDP,
two-sided geometric under pure differential privacy. Proof of the guarantee: ``docs/proofs/tables.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confide.documents import load_schema
from confide.engines import Engine, Source
from confide.engines.protocol import cell_index, private_folder, write_parquet
from confide.errors import ConfideError, Finding, SpecError
from confide.geography import Geolevel
from confide.inputs.frame import read_frame
from confide.inputs.records import (
    blocks_table,
    check_columns,
    check_records,
    column_expressions,
    records_fingerprint,
)
from confide.mechanisms.tables import released
from confide.mechanisms.tables.programme import (
    MeasuredTable,
    NoisyTable,
    TablesProblem,
    build_tables,
    levels_of,
    plan_programme,
)
from confide.mechanisms.tables.released import TablesExplained
from confide.mechanisms.tables.spec import TablesSpec
from confide.noise import NoiseStream, ReleaseNoise, perturb
from confide.releases.folder import ReleaseWriter
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource
from confide.releases.plan import Plan
from confide.releases.spec import LoadedSpec, find_sources, frame_rules
from confide.releases.tabular import DescribedTable, publish_areas
from confide.releases.workspace import Workspace
from confide.report.certificate import CERTIFICATE, CertificateWords, certificate, messages_of
from confide.schema import Query, Schema

# Truth plus noise: the one function of the mechanism in which true counts and noise meet.


COUNT = "count"


@dataclass(frozen=True)
class MeasuredMargin:
    """One margin of a table on one level: the axes of the table it sums over, its noise and its stream."""

    summed_axes: tuple[int, ...]
    cells: int
    law: ReleaseNoise
    stream: NoiseStream


@dataclass(frozen=True)
class MeasurePart:
    """Measures a run of consecutive units of one level, all margins of one table.

    The counts come out by unit, by margin, by cell. The noise of unit u and cell c of a margin with m cells has the
    coordinate u*m + c of the margin's stream, so that any split into groups gives the same numbers.
    """

    shape: tuple[int, ...]
    units: int
    units_per_part: int
    margins: tuple[MeasuredMargin, ...]

    def __call__(self, first: int, rows: pa.Table) -> pa.Table:
        units = min(self.units_per_part, self.units - first)
        truth = dense_counts(rows, first, units, self.shape)
        measured = []
        for margin in self.margins:
            counts = margin_counts(truth, margin.summed_axes, units)
            noisy = perturb(counts, margin.law, margin.stream, start=first * margin.cells)
            measured.append(noisy.reshape(units, margin.cells))
        return pa.table({COUNT: np.concatenate(measured, axis=1).ravel()})


def summed_axes(query: Query, margin: Query) -> tuple[int, ...]:
    """The axes of a table's cells that a margin sums over; axis 0 is the unit."""
    return tuple(axis for axis, variable in enumerate(query.variables, start=1) if variable not in margin.variables)


def dense_counts(rows: pa.Table, first: int, units: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The true counts of ``units`` units from ``first`` on, zero where there is no row."""
    cells = int(np.prod(shape, dtype=np.int64))
    counts = np.zeros(units * cells, np.int64)
    unit = rows.column("unit").to_numpy().astype(np.int64) - first
    counts[unit * cells + rows.column("cell").to_numpy()] = rows.column("n").to_numpy()
    return counts.reshape(units, *shape)


def margin_counts(truth: NDArray[np.int64], axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
    """The counts of a margin, unit by unit, as a flat array of its own."""
    return np.array(truth.sum(axis=axes, dtype=np.int64)).reshape(units, -1).ravel()


BYTES_PER_COUNT = 100
"""A generous guess of what one published count takes on the disk, with its intermediate files, in both formats."""


class Tables(Mechanism[TablesProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "tables"
    spec = TablesSpec
    accounted = True
    keyed = True
    on_spark = True
    explain = TablesExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.tables.spec:draft_tables",
        "draft_from": "confide.mechanisms.tables.spec:draft_tables_from",
        "board": "confide.mechanisms.tables.tuning:TablesTuning",
        "targets": "confide.mechanisms.tables.tuning:tune_tables",
        "evaluate": "confide.mechanisms.tables.evaluate:evaluate_tables",
        "published": "confide.mechanisms.tables.released:read_published",
        "residuals": "confide.mechanisms.tables.evaluate:residuals",
        "rehearsal": "confide.mechanisms.tables.audit:TablesRehearsal",
        "audit": "confide.mechanisms.tables.audit:TablesAudit",
    }

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> TablesProblem:
        spec = loaded.spec
        assert isinstance(spec, TablesSpec)
        sources, findings = find_sources(loaded)
        schema, spine = None, None
        try:
            schema = load_schema(spec.data.schema_, loaded.path.parent, partial(loaded.place, "data", "schema"))
        except ConfideError as error:
            findings += error.findings
        geography = spec.geography
        levels, areas = frame_rules(geography)
        if "blocks" in sources:
            try:
                frame = read_frame(
                    engine,
                    sources["blocks"],
                    geography.block,
                    levels,
                    areas,
                    geography.block_names,
                    geography.smallest,
                )
                spine = frame.spine
            except ConfideError as error:
                findings += error.findings
        if schema is not None:
            tables, wrong = build_tables(loaded, spec, schema, spine)
            findings += wrong
            if findings and "records" in sources:
                findings += _columns(engine, sources["records"], spec, schema)
        if findings:
            raise SpecError(findings)
        assert schema is not None
        return TablesProblem(spec, schema, frame, sources["records"], tuple(tables))

    def plan(self, problem: TablesProblem) -> Plan:
        return plan_programme(problem)

    def bytes_needed(self, problem: TablesProblem, plan: Plan) -> int:  # noqa: ARG002
        return plan.counts * BYTES_PER_COUNT

    def fingerprint(self, problem: TablesProblem) -> str:
        return records_fingerprint(problem.records.path)

    def check(self, problem: TablesProblem, job: Job) -> list[Finding]:
        frame = _write_frame(problem, job.workspace.scratch)
        block = problem.spec.geography.block
        return check_records(job.engine, problem.records, problem.attributes, block, problem.spine, frame)

    def count(self, problem: TablesProblem, job: Job) -> None:
        """Counts the records once for each table at the blocks, then adds up along the geography."""
        frame = _write_frame(problem, job.workspace.counts)
        block = problem.spec.geography.block
        columns = column_expressions(job.engine, problem.records, problem.attributes, block)
        steps = sum(1 + len(table.levels) for table in problem.tables)
        with job.progress.stage("Counting records", steps) as advance:
            for table in problem.tables:
                detailed = job.workspace.counts / f"{table.name}.parquet"
                if not detailed.exists():
                    keys = {"code": columns[block], "cell": cell_index(table.query, columns)}
                    job.engine.count_by(problem.records, keys, detailed)
                advance(1)
                for level in table.levels:
                    into = counts_file(job.workspace, table, level)
                    if not into.exists():
                        is_block = level.name == problem.spine.blocks.name
                        job.engine.write(_roll_up(table, level, is_block=is_block), into, counts=detailed, frame=frame)
                    advance(1)

    def measure(self, problem: TablesProblem, job: Job, noise: NoiseSource | None) -> None:
        assert noise is not None
        job.plan.check_measured(
            (level.name, problem.query_key(table, margin))
            for table in problem.tables
            for level in table.levels
            for margin in table.margins
        )
        steps = sum(len(table.parts(level)) for table in problem.tables for level in table.levels)
        with job.progress.stage("Measuring with noise", steps) as advance:
            for table in problem.tables:
                for level in table.levels:
                    job.engine.map_groups(
                        _measure_part(problem, job.plan, noise, table, level),
                        counts_file(job.workspace, table, level),
                        "part",
                        table.parts(level),
                        measured_folder(job.workspace, table, level),
                        advance=advance,
                    )

    def publish(self, problem: TablesProblem, job: Job, release: ReleaseWriter) -> None:
        output, names = problem.spec.output, problem.area_names
        with job.progress.stage("Writing tables", len(problem.tables)) as advance:
            for table in problem.tables:
                layout = NoisyTable(problem, job.plan, table)

                def batches(table: MeasuredTable = table, layout: NoisyTable = layout) -> Iterator[pa.RecordBatch]:
                    for level in table.levels:
                        for first in table.parts(level):
                            counts = read_measured(job.workspace, table, level, first)
                            yield layout.batch(level, first, counts)

                DescribedTable.of(table.layout, layout.figures).publish(release, batches, output, names)
                advance(1)
            publish_areas(release, [(level.name, level.codes) for level in levels_of(problem.tables)], names)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        counts = messages_of(manifest).text("certificate.counts_tables")
        return {CERTIFICATE: certificate(manifest, CertificateWords(counts))}

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return released.verify(folder, manifest)


def counts_file(workspace: Workspace, table: MeasuredTable, level: Geolevel) -> Path:
    """Where the true counts of a table on a level are."""
    return workspace.counts / f"{table.name}.{level.name}.parquet"


def measured_folder(workspace: Workspace, table: MeasuredTable, level: Geolevel) -> Path:
    """Where the measurements of a table on a level are, one file for each part."""
    return workspace.measured / table.name / level.name


def read_measured(workspace: Workspace, table: MeasuredTable, level: Geolevel, first: int) -> np.ndarray[Any, Any]:
    """The measurements of one part."""
    file = measured_folder(workspace, table, level) / f"{first:08d}.parquet"
    return np.asarray(pq.read_table(file).column(COUNT).to_numpy())


def _measure_part(
    programme: TablesProblem, plan: Plan, noise: NoiseSource, table: MeasuredTable, level: Geolevel
) -> MeasurePart:
    margins = []
    for margin in table.margins:
        query = programme.query_key(table, margin)
        law = plan.measure(level.name, query).law
        margins.append(
            MeasuredMargin(summed_axes(table.query, margin), margin.cells, law, noise.stream(level.name, query))
        )
    return MeasurePart(table.query.shape, level.units, table.units_per_part, tuple(margins))


def _roll_up(table: MeasuredTable, level: Geolevel, *, is_block: bool) -> str:
    """The block counts added up to the units of a level. A part is known by its first unit."""
    unit = "frame.block" if is_block else f'frame."unit_{level.name}"'
    part = f"{unit} - {unit} % {table.units_per_part}"
    return (
        f"SELECT {part} AS part, {unit} AS unit, counts.cell AS cell, CAST(sum(counts.n) AS BIGINT) AS n "
        f"FROM counts JOIN frame ON counts.code = frame.code WHERE {unit} >= 0 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )


def _write_frame(question: TablesProblem, folder: Path) -> Path:
    path = private_folder(folder) / "frame.parquet"
    write_parquet(blocks_table(question.spine), path)
    return path


def _columns(engine: Engine, records: Source, spec: TablesSpec, schema: Schema) -> list[Finding]:
    """What is wrong with the columns of the records, for a spec that goes no further than its frame and its tables."""
    named = {name.split(":")[0] for table in spec.tables for name in table.variables}
    attributes = [attribute for attribute in schema.attributes if attribute.name in named]
    try:
        return check_columns(engine, records, attributes, spec.geography.block)
    except ConfideError as error:
        return list(error.findings)
