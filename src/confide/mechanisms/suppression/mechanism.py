"""The mechanism ``suppression``, from top to bottom: tables from which cells are left out.

    records ─► figures of all tables ─► primary cells ─► complementary cells ─► proof ─► tables without both

It draws no noise and spends no budget: what is published is exact, and what is hidden is hidden from those who know
nothing but these tables. All tables of a release are protected together. For users: ``docs/concepts/suppression.md``;
what is proved and what is not: ``docs/proofs/suppression.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Engine
from confide.engines.atomic_files import private_folder
from confide.engines.groups import write_parquet
from confide.errors import Finding
from confide.inputs.records import blocks_table, records_fingerprint
from confide.mechanisms.suppression import verify as verification
from confide.mechanisms.suppression.counting import Truth, check, pose_problem, read_truth, write_grouped
from confide.mechanisms.suppression.output import plain_rows, plain_schema, sdmx_rows, sdmx_schema
from confide.mechanisms.suppression.programme import SuppressionProblem, prepare
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.mechanisms.suppression.statement import in_words, protection_in_words, rules_in_words
from confide.mechanisms.suppression.structure import Flags, Integers
from confide.mechanisms.suppression.suppress import solve
from confide.privacy import Definition, Neighbours
from confide.releases.folder import ReleaseWriter
from confide.releases.load_spec import LoadedSpec
from confide.releases.mechanism import Check, Job
from confide.releases.plan import Plan
from confide.releases.tabular import publish
from confide.releases.workspace import Workspace

BYTES_PER_CELL = 100


class Suppression:
    """See :class:`confide.releases.unpriced.Unpriced` for the verbs."""

    name = "suppression"
    spec = SuppressionSpec

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> SuppressionProblem:
        return prepare(loaded, engine)

    def plan(self, question: SuppressionProblem) -> Plan:
        """No measurement and no loss; the question has everything else."""
        return Plan(self.name, Neighbours.CHANGE_ONE, Definition.ZCDP, (), (), question.facts(), accounted=False)

    def fingerprint(self, question: SuppressionProblem) -> str:
        return records_fingerprint(question.records.path)

    def bytes_needed(self, question: SuppressionProblem, plan: Plan) -> int:  # noqa: ARG002
        return BYTES_PER_CELL * sum(table.layout.cells for table in question.programme.tables)

    def check_inputs(self, question: SuppressionProblem, job: Job) -> list[Finding]:
        return check(job.engine, question, _frame_file(question, job.workspace))

    def make(self, question: SuppressionProblem, job: Job) -> None:
        """Counts, decides what is hidden, and keeps what is published. True figures of hidden cells are not kept."""
        kept = private_folder(job.workspace.measured) / "published.parquet"
        if kept.exists():
            return
        with job.progress.stage("Counting records", 1) as advance:
            truth = count(question, job.engine, job.workspace)
            advance(1)
        problem = pose_problem(question, truth)
        with job.progress.stage("Protecting cells", int(problem.levels.primary.sum())) as advance:
            safe = solve(problem, question.programme.linked, method=question.spec.suppression.method, advance=advance)
        suppressed = safe.pattern.suppressed
        write_parquet(pa.table({"figure": pa.array(truth.value, pa.int64(), mask=suppressed)}), kept)

    def statistics(self, question: SuppressionProblem, job: Job) -> Mapping[str, Any]:  # noqa: ARG002
        return {}

    def stated(self, question: SuppressionProblem, plan: Plan) -> Mapping[str, Any]:  # noqa: ARG002
        facts = question.facts()
        return {
            "privacy": {
                "loss": None,
                "in_words": in_words(),
                "rules": rules_in_words(facts),
                "protection": protection_in_words(facts),
            },
            "noise": {"sampler": None, "key": None},
        }

    def publish(
        self,
        question: SuppressionProblem,
        plan: Plan,  # noqa: ARG002
        job: Job,
        release: ReleaseWriter,
    ) -> None:
        output, magnitude = question.spec.output, question.spec.data.value is not None
        figures, suppressed = recall(job.workspace)
        programme = question.programme
        with job.progress.stage("Writing tables", len(programme.tables)) as advance:
            for table, at in zip(programme.tables, programme.linked.numbers, strict=True):
                values = table, figures[at], suppressed[at]
                plain = plain_schema(table, magnitude=magnitude), plain_rows(*values, magnitude=magnitude)
                sdmx = sdmx_schema(table), sdmx_rows(*values, output.agency)
                publish(release, table.name, table.title, output.formats, plain, sdmx)
                advance(1)

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return verification.verify(folder, manifest)


def count(question: SuppressionProblem, engine: Engine, workspace: Workspace) -> Truth:
    """The true figures of all cells."""
    grouped = private_folder(workspace.scratch) / "grouped.parquet"
    write_grouped(engine, question, grouped)
    return read_truth(question, grouped)


def recall(workspace: Workspace) -> tuple[Integers, Flags]:
    """The published figures, and which cells are hidden, as they were decided."""
    column = pq.read_table(workspace.measured / "published.parquet").column("figure").combine_chunks()
    suppressed: Flags = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
    figures: Integers = np.asarray(column.fill_null(0).to_numpy(), np.int64)
    return figures, suppressed


def _frame_file(question: SuppressionProblem, workspace: Workspace) -> Path | None:
    if question.frame is None:
        return None
    path = private_folder(workspace.scratch) / "frame.parquet"
    write_parquet(blocks_table(question.frame.spine), path)
    return path
