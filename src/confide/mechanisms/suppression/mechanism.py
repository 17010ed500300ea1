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
from confide.mechanisms.suppression.output import people_rows, people_schema, sdmx_rows, sdmx_schema
from confide.mechanisms.suppression.programme import SuppressionQuestion, prepare
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.mechanisms.suppression.statement import in_words, protection_in_words, rules_in_words
from confide.mechanisms.suppression.structure import Flags, Integers
from confide.mechanisms.suppression.suppress import solve
from confide.privacy import Definition, Neighbours
from confide.releases.folder import ReleaseWriter
from confide.releases.load_spec import LoadedSpec
from confide.releases.mechanism import Check, Job
from confide.releases.plan import Plan
from confide.releases.published import Published
from confide.releases.workspace import Workspace

BYTES_PER_CELL = 100


class Suppression:
    """See :class:`confide.releases.unpriced.Unpriced` for the verbs."""

    name = "suppression"
    spec = SuppressionSpec

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> SuppressionQuestion:
        return prepare(loaded, engine)

    def plan(self, question: SuppressionQuestion) -> Plan:
        """No measurement and no loss; the question has everything else."""
        return Plan(self.name, Neighbours.CHANGE_ONE, Definition.ZCDP, (), (), question.facts(), accounted=False)

    def fingerprint(self, question: SuppressionQuestion) -> str:
        return records_fingerprint(question.records.path)

    def bytes_needed(self, question: SuppressionQuestion, plan: Plan) -> int:  # noqa: ARG002
        return BYTES_PER_CELL * sum(table.layout.cells for table in question.programme.tables)

    def check_inputs(self, question: SuppressionQuestion, job: Job) -> list[Finding]:
        return check(job.engine, question, _frame_file(question, job.workspace))

    def make(self, question: SuppressionQuestion, job: Job) -> None:
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
        hidden = safe.pattern.hidden
        write_parquet(pa.table({"figure": pa.array(truth.value, pa.int64(), mask=hidden)}), kept)

    def statistics(self, question: SuppressionQuestion, job: Job) -> Mapping[str, Any]:  # noqa: ARG002
        return {}

    def stated(self, question: SuppressionQuestion, plan: Plan) -> Mapping[str, Any]:  # noqa: ARG002
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
        question: SuppressionQuestion,
        plan: Plan,  # noqa: ARG002
        job: Job,
        release: ReleaseWriter,
    ) -> None:
        output, magnitude = question.spec.output, question.spec.data.value is not None
        plain = [name for name in output.formats if name != "sdmx-csv"]
        figures, hidden = recall(job.workspace)
        programme = question.programme
        with job.progress.stage("Writing tables", len(programme.tables)) as advance:
            for table, at in zip(programme.tables, programme.linked.numbers, strict=True):
                if plain:
                    rows = people_rows(table, figures[at], hidden[at], magnitude=magnitude)
                    release.table(table.name, people_schema(table, magnitude=magnitude), rows, plain, table.title)
                if "sdmx-csv" in output.formats:
                    rows = sdmx_rows(table, figures[at], hidden[at], output.agency)
                    release.text(f"sdmx/{table.name}", sdmx_schema(table), rows, table.title, ",", quoted=True)
                advance(1)

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return verification.verify(folder, manifest)

    def published(self, folder: Path, manifest: dict[str, Any], *choice: Any) -> Published:
        from confide.mechanisms.suppression.published import read_published

        return read_published(folder, manifest, *choice)


def count(question: SuppressionQuestion, engine: Engine, workspace: Workspace) -> Truth:
    """The true figures of all cells."""
    grouped = private_folder(workspace.scratch) / "grouped.parquet"
    write_grouped(engine, question, grouped)
    return read_truth(question, grouped)


def recall(workspace: Workspace) -> tuple[Integers, Flags]:
    """The published figures, and which cells are hidden, as they were decided."""
    column = pq.read_table(workspace.measured / "published.parquet").column("figure").combine_chunks()
    hidden: Flags = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
    figures: Integers = np.asarray(column.fill_null(0).to_numpy(), np.int64)
    return figures, hidden


def _frame_file(question: SuppressionQuestion, workspace: Workspace) -> Path | None:
    if question.frame is None:
        return None
    path = private_folder(workspace.scratch) / "frame.parquet"
    write_parquet(blocks_table(question.frame.spine), path)
    return path
