"""The mechanism ``topdown``, from top to bottom: consistent, whole, non-negative records from noisy measurements.

    records ─► histograms ─► the root: measure, estimate ─► every parent: measure its children, estimate ─► records

The estimate of a parent is final before its children are measured; children add up to it, cell by cell, exactly.
Measurements are lazy (``measuring``), estimates are pure functions of measurements (``node``), and one level is a map
over parents (``levels``) that any engine can run.

Reference: Abowd et al., The 2020 Census Disclosure Avoidance System TopDown Algorithm, HDSR (2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from confide.confidential import Confidential
from confide.engines import Engine
from confide.engines.expressions import cell_index
from confide.engines.files import private_folder
from confide.engines.groups import write_parquet
from confide.errors import CONFIDENTIAL, Finding, Place
from confide.geography.topdown_tree import TopDownLevel
from confide.inputs.records import check_records, column_expressions
from confide.noise import Law
from confide.runs.load_spec import LoadedSpec
from confide.runs.mechanism import Check, Job, NoiseSource
from confide.runs.plan import Plan
from confide.runs.release import ReleaseWriter
from confide.runs.workspace import Workspace
from confide.topdown import checks
from confide.topdown.contradictions import contradictions
from confide.topdown.levels import EstimateChildren, Kind, estimates_table
from confide.topdown.measuring import AskedQuery, TrueCounts, measure
from confide.topdown.microdata import microdata_batches, microdata_schema, units_table
from confide.topdown.node import Limits, Node, NodeRules, estimate
from confide.topdown.preparing import prepare
from confide.topdown.question import Question, plan_question
from confide.topdown.spec import TopDownSpec
from confide.topdown.strategy import DETAILED, LevelStrategy

CHILDREN_PER_GROUP = 1_000
"""About how many children one group has: enough to be worth a task, few enough to spread."""


class TopDown:
    """See :class:`confide.runs.mechanism.Mechanism` for the verbs."""

    name = "topdown"
    spec = TopDownSpec

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> Question:
        return prepare(loaded, engine)

    def plan(self, question: Question) -> Plan:
        return plan_question(question)

    def records_file(self, question: Question) -> Path:
        return question.records.path

    def check_records(self, question: Question, job: Job) -> list[Finding]:
        """Records that do not fit the schema or the frame, and records where the frame has no unit to live in."""
        frame = _write_frame(question, job.workspace.scratch)
        block, attributes = question.spec.geography.block, question.strategy.schema.attributes
        findings = check_records(job.engine, question.records, attributes, block, question.frame.spine, frame)
        if findings:
            return findings
        read = column_expressions(job.engine, question.records, attributes, block)[block]
        homeless = f"{read} IN (SELECT code FROM frame WHERE unit_block < 0)"
        rows = job.engine.first_rows(question.records, homeless, 5, frame=frame)
        if rows:
            return [_homeless(question, rows)]
        units = job.workspace.scratch / "units.parquet"
        write_parquet(units_table(question), units)
        return contradictions(question, job.engine, units)

    def tabulate(self, question: Question, job: Job) -> None:
        """One histogram for each block, added up along the spine."""
        frame = _write_frame(question, job.workspace.counts)
        block, schema = question.spec.geography.block, question.strategy.schema
        columns = column_expressions(job.engine, question.records, schema.attributes, block)
        histogram = job.workspace.counts / "histogram.parquet"
        with job.progress.stage("Counting records", 1 + len(question.spine.levels)) as advance:
            if not histogram.exists():
                keys = {"code": columns[block], "cell": cell_index(question.strategy.query(DETAILED), columns)}
                job.engine.count_by(question.records, keys, histogram)
            advance(1)
            for level in question.spine.levels:
                into = _counts_file(job.workspace, level)
                if not into.exists():
                    job.engine.write(
                        f'SELECT frame."unit_{level.name}" AS unit, histogram.cell AS cell, '
                        "CAST(sum(histogram.n) AS BIGINT) AS n "
                        "FROM histogram JOIN frame ON histogram.code = frame.code GROUP BY 1, 2 ORDER BY 1, 2",
                        into,
                        histogram=histogram,
                        frame=frame,
                    )
                advance(1)

    def measure(self, question: Question, plan: Plan, job: Job, noise: NoiseSource) -> None:
        """From the root down: each level is measured where its parents' estimates leave something to measure."""
        plan.check_measured(
            (level.name, asked.name)
            for asked_level, level in question.levels()
            if level.measured.any()
            for asked in asked_level.queries
        )
        (asked_root, root), *below = question.levels()
        into = estimates_folder(job.workspace, root)
        with job.progress.stage(f"Estimating {root.name}", 1) as advance:
            if not (into / "00000000.parquet").exists():
                private_folder(into)
                write_parquet(
                    _estimate_root(question, plan, noise, asked_root, root, job.workspace), into / "00000000.parquet"
                )
            advance(1)
        above = root
        for asked_level, level in below:
            rows = job.workspace.counts / f"{level.name}.nodes.parquet"
            groups = _groups(above)
            if not rows.exists():
                _write_nodes(question, job, above, level, groups, rows)
            function = EstimateChildren(
                _asked(question, plan, noise, asked_level, level),
                _rules(question, asked_level),
                question.cells,
                _bounded_groups(question),
            )
            numbers = np.unique(groups).tolist()
            with job.progress.stage(f"Estimating {level.name}", len(numbers)) as advance:
                job.engine.map_groups(
                    function, rows, "part", numbers, estimates_folder(job.workspace, level), advance=advance
                )
            above = level

    def publish(self, question: Question, plan: Plan, job: Job, release: ReleaseWriter) -> None:  # noqa: ARG002
        """The estimates of the blocks as records: one line for each, in the layout of the records that came in."""
        folder = estimates_folder(job.workspace, question.spine.levels[-1])
        files = sorted(folder.glob("*.parquet"))
        with job.progress.stage("Writing records", len(files)) as advance:

            def batches() -> Iterator[pa.RecordBatch]:
                for file in files:
                    yield from microdata_batches(question, pq.read_table(file))
                    advance(1)

            formats = question.spec.output.formats
            title = f"{question.strategy.title}: protected records"
            release.table(checks.RECORDS, microdata_schema(question), batches(), formats, title)
        known = units_table(question)
        title = "Counts of the frame that the records keep to"
        release.table(checks.UNITS, known.schema, known.to_batches(), formats, title)

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return checks.verify(folder, manifest)


def estimates_folder(workspace: Workspace, level: TopDownLevel) -> Path:
    """Where the estimates of a level are."""
    return workspace.measured / level.name


def _counts_file(workspace: Workspace, level: TopDownLevel) -> Path:
    return workspace.counts / f"{level.name}.parquet"


def _asked(
    question: Question, plan: Plan, noise: NoiseSource, asked_level: LevelStrategy, level: TopDownLevel
) -> tuple[AskedQuery, ...]:
    """The queries of a level with the laws of the plan; units of a class without a share have none."""

    def laws(query: str) -> tuple[Law | None, ...]:
        planned = iter(plan.laws(level.name, query))
        return tuple(next(planned) if share else None for share in level.shares.table)

    return tuple(
        AskedQuery(
            asked.name,
            question.groups(asked.name),
            asked.query.cells,
            noise.stream(level.name, asked.name),
            laws(asked.name),
        )
        for asked in asked_level.queries
    )


def _rules(question: Question, asked_level: LevelStrategy) -> NodeRules:
    estimation = asked_level.estimation
    names = {name for step in estimation.least_squares for name in (*step.queries, *step.constrain)}
    groups = {name: question.groups(name) for name in sorted(names | set(estimation.chain))}
    constraints = question.strategy.constraints
    return NodeRules(
        estimation.least_squares,
        float(estimation.slack),
        estimation.rounding,
        groups,
        frozenset(name for name in estimation.chain if question.strategy.query(name).cells == question.cells),
        question.groups(constraints.variables[0].name) if constraints.variables else None,
        constraints.zero_cells(question.strategy.schema),
    )


def _bounded_groups(question: Question) -> int:
    variables = question.strategy.constraints.variables
    return variables[0].size if variables else 0


def _estimate_root(
    question: Question,
    plan: Plan,
    noise: NoiseSource,
    asked_level: LevelStrategy,
    root: TopDownLevel,
    workspace: Workspace,
) -> pa.Table:
    """The root: every cell may be positive, and the total is what the invariants say."""
    rows = pq.read_table(_counts_file(workspace, root))
    cell, count = rows.column("cell").to_numpy(), rows.column("n").to_numpy()
    truth = Confidential(TrueCounts(np.zeros(len(cell), np.int64), cell, count))
    kept = np.arange(question.cells)
    classes = root.shares.index.astype(np.int64)
    measured = measure(truth, _asked(question, plan, noise, asked_level, root), np.zeros(1, np.int64), classes, kept)
    limits = question.limits(root)
    total = int(count.sum()) if question.strategy.total_is_invariant else None
    node = Node(kept, None, measured, None if limits is None else Limits(limits[0].T, limits[1].T), 1, total)
    with threadpool_limits(1):
        counts, tally = estimate(node, _rules(question, asked_level))
    positive = np.flatnonzero(counts[:, 0])
    return estimates_table(np.stack([np.zeros(len(positive), np.int64), positive, counts[positive, 0]], axis=1), tally)


def _groups(parents: TopDownLevel) -> np.ndarray[Any, Any]:
    """For each parent the number of its group: consecutive parents with about so many children in all."""
    return parents.first_child[:-1] // CHILDREN_PER_GROUP


def _write_nodes(
    question: Question,
    job: Job,
    above: TopDownLevel,
    level: TopDownLevel,
    groups: np.ndarray[Any, Any],
    into: Path,
) -> None:
    """The rows that :class:`EstimateChildren` takes, for every parent of a level."""
    children = private_folder(job.workspace.counts) / f"{level.name}.children.parquet"
    units = np.arange(level.units)
    columns = {"part": groups[level.parent], "parent": level.parent, "unit": units, "cell": level.shares.index}
    write_parquet(pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}), children)
    sources = {"children": children, "truth": _counts_file(job.workspace, level)}
    sources["estimates"] = estimates_folder(job.workspace, above)
    selects = [
        f"SELECT part, {Kind.CHILD:d} AS kind, parent, unit, cell, CAST(0 AS BIGINT) AS n FROM children",
        f"SELECT part, {Kind.TRUTH:d}, parent, truth.unit, truth.cell, n FROM truth JOIN children USING (unit)",
        f"SELECT part, {Kind.PARENT:d}, parent, estimates.unit, estimates.cell, n FROM estimates JOIN "
        "(SELECT DISTINCT part, parent FROM children) AS parents ON estimates.unit = parents.parent",
    ]
    limits = question.limits(level)
    for kind, values in zip((Kind.LEAST, Kind.LARGEST), limits or (), strict=False):
        name = kind.name.lower()
        file = job.workspace.counts / f"{level.name}.{name}.parquet"
        flat = {
            "unit": np.repeat(units, values.shape[1]),
            "cell": np.tile(np.arange(values.shape[1]), level.units),
            "n": values.ravel(),
        }
        write_parquet(pa.table(flat), file)
        sources[name] = file
        selects.append(
            f"SELECT part, {kind:d}, parent, {name}.unit, {name}.cell, n FROM {name} JOIN children USING (unit)"
        )
    if question.has_invariant_totals(level):
        file = job.workspace.counts / f"{level.name}.invariant.parquet"
        write_parquet(_invariant_totals(level, _counts_file(job.workspace, level)), file)
        sources["invariant"] = file
        selects.append(
            f"SELECT part, {Kind.INVARIANT:d}, parent, invariant.unit, invariant.cell, n FROM invariant "
            "JOIN children USING (unit)"
        )
    job.engine.write(" UNION ALL ".join(selects) + " ORDER BY part", into, **sources)


def _invariant_totals(level: TopDownLevel, counts: Path) -> pa.Table:
    """For each unit the official unit that it is a part of, and how many records that one has, which is no secret."""
    assert level.official is not None, "an invariant is of an official level"
    rows = pq.read_table(counts)
    totals = np.zeros(level.official.max() + 1, np.int64)
    np.add.at(totals, level.official[rows.column("unit").to_numpy()], rows.column("n").to_numpy())
    return pa.table({"unit": np.arange(level.units), "cell": level.official, "n": totals[level.official]})


def _write_frame(question: Question, folder: Path) -> Path:
    """Every block of the frame with its units on the spine, -1 where it has no housing unit and no facility."""
    spine = question.spine
    path = private_folder(folder) / "frame.parquet"
    codes = np.array(question.frame.spine.blocks.codes)[question.frame.spine.blocks.unit_of_block]
    columns = {"code": pa.array(codes.tolist())}
    for name in spine.names:
        units = np.full(len(codes), -1, np.int64)
        units[spine.rows] = spine.unit_of_block(name)
        columns[f"unit_{name}"] = pa.array(units)
    write_parquet(pa.table(columns), path)
    return path


def _homeless(question: Question, rows: list[int]) -> Finding:
    shown = ", ".join(f"{row:,}" for row in rows)
    block = question.spec.geography.block
    return Finding(
        code="bad-record",
        what=f"a record lies in a block where the frame has no unit to live in (the first such rows: {shown})",
        where=Place(file=question.records.file, column=question.records.theirs(block), row=rows[0]),
        found=CONFIDENTIAL,
        expected="a block with a housing unit or a group quarters facility",
        remedy="correct the records, or the counts of units in the block table",
    )
