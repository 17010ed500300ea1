"""The mechanism ``suppression``, from top to bottom: tables from which cells are left out.

    records ─► figures of all tables ─► primary cells ─► complementary cells ─► proof ─► tables without both

It draws no noise and spends no budget: what is published is exact, and what is suppressed is hidden from those who know
nothing but these tables. All tables of a release are protected together. For users: ``docs/concepts/suppression.md``;
what is proved and what is not: ``docs/proofs/suppression.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.documents.argus import write_jj
from confide.engines import Engine, write_parquet
from confide.errors import ConfideError, Finding
from confide.file_system import private_folder
from confide.inputs.records import blocks_table, records_fingerprint
from confide.mechanisms.suppression import output as suppression_output
from confide.mechanisms.suppression import output as verification
from confide.mechanisms.suppression.counting import Truth, check_figures, pose_problem, read_truth, write_grouped
from confide.mechanisms.suppression.given import cells
from confide.mechanisms.suppression.given.assumed import assumptions
from confide.mechanisms.suppression.given.tables import GivenTablesProblem, prepare_given
from confide.mechanisms.suppression.problem import PatternProblem
from confide.mechanisms.suppression.programme import SuppressionProblem, prepare
from confide.mechanisms.suppression.spec import SuppressionSpec
from confide.mechanisms.suppression.structure import Flags
from confide.mechanisms.suppression.suppress import solve
from confide.releases.certificate import STATEMENT
from confide.releases.folder import ReleaseWriter, SealedRelease
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource
from confide.releases.plan import Plan
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import masked, publish_areas
from confide.releases.workspace import Workspace

BYTES_PER_CELL = 100


class Suppression(Mechanism[SuppressionProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "suppression"
    spec = SuppressionSpec
    explain = suppression_output.SuppressionExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.suppression.spec:draft_suppression",
        "draft_from": "confide.mechanisms.suppression.spec:draft_suppression_from",
        "board": "confide.mechanisms.suppression.board:SuppressionBoard",
        "evaluate": "confide.mechanisms.suppression.evaluate:evaluate_suppression",
        "published": "confide.lab.published.tabular:read_suppression",
        "rehearsal": "confide.mechanisms.suppression.counting:SuppressionRehearsal",
    }
    measures_counts = False

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> SuppressionProblem:
        return prepare(loaded, engine) if loaded.spec.data.tables is None else prepare_given(loaded)  # type: ignore[attr-defined]

    def plan(self, problem: SuppressionProblem) -> Plan:
        """No measurement and no loss; the problem has everything else."""
        return Plan.without_loss(self.name, problem.facts())

    def fingerprint(self, problem: SuppressionProblem) -> str:
        return fingerprint_of(problem)

    def bytes_needed(self, problem: SuppressionProblem, plan: Plan) -> int:  # noqa: ARG002
        return BYTES_PER_CELL * sum(table.layout.cells for table in problem.programme.tables)

    def check(self, problem: SuppressionProblem, job: Job) -> list[Finding]:
        if isinstance(problem, GivenTablesProblem):
            findings = cells.check_given(problem)
        else:
            findings = check_figures(job.engine, problem, _frame_file(problem, job.workspace))
        if findings:
            return findings
        warnings = assumptions(problem.given) if isinstance(problem, GivenTablesProblem) else []
        try:  # what the figures themselves forbid, such as a primary cell that must be published
            posed_by(problem, count(problem, job.engine, job.workspace))
        except ConfideError as error:
            return list(error.findings)
        return warnings

    def measure(self, problem: SuppressionProblem, job: Job, noise: NoiseSource | None) -> None:  # noqa: ARG002
        """Counts, decides what is suppressed, and keeps what is published. True figures of suppressed cells are not
        kept."""
        kept = private_folder(job.workspace.measured) / "published.parquet"
        if kept.exists():
            return
        with job.progress.stage("Counting records", 1) as advance:
            truth = count(problem, job.engine, job.workspace)
            advance(1)
        posed = posed_by(problem, truth)
        with job.progress.stage("Protecting cells", int(posed.levels.primary.sum())) as advance:
            safe = solve(posed, problem.programme.linked, method=problem.spec.suppression.method, advance=advance)
        suppressed = safe.pattern.suppressed
        if isinstance(problem, GivenTablesProblem) and isinstance(truth, cells.GivenTruth):
            write_parquet(cells.reasons(problem, truth, posed, suppressed), job.workspace.confidential / cells.REASONS)
            write_jj(cells.jj_of(posed, suppressed), job.workspace.confidential / cells.PROBLEM)
        write_parquet(pa.table({"figure": masked(truth.value, suppressed, pa.int64())}), kept)

    def guarantee(self, problem: SuppressionProblem, job: Job) -> Mapping[str, Any]:  # noqa: ARG002
        return self.restated(job.plan)

    def restated(self, plan: Plan, manifest: Mapping[str, Any] | None = None) -> Mapping[str, Any]:  # noqa: ARG002
        return {
            "privacy": {
                "loss": None,
                "in_words": suppression_output.in_words(),
                "rules": suppression_output.rules_in_words(plan.question),
                "protection": suppression_output.protection_in_words(plan.question),
            },
            "noise": {"sampler": None, "key": None},
        }

    def publish(self, problem: SuppressionProblem, job: Job, release: ReleaseWriter) -> None:
        output, magnitude = problem.spec.output, problem.value is not None
        unit = problem.spec.data.figure_unit
        figures, suppressed = recall(job.workspace)
        programme = problem.programme
        with job.progress.stage("Writing tables", len(programme.tables)) as advance:
            for table, at in zip(programme.tables, programme.linked.numbers, strict=True):
                rows = partial(
                    suppression_output.table_rows, table, figures[at], suppressed[at], magnitude=magnitude, unit=unit
                )
                described = suppression_output.described_table(table, magnitude=magnitude, unit=unit)
                described.publish(release, rows, output, problem.area_names)
                advance(1)
            if programme.areas:
                publish_areas(release, programme.areas, problem.area_names)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return {STATEMENT: suppression_output.suppression_statement(manifest)}

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        return verification.verify(release)


def count(question: SuppressionProblem, engine: Engine, workspace: Workspace) -> Truth:
    """The true figures of all cells."""
    if isinstance(question, GivenTablesProblem):
        return cells.read_given(question)
    grouped = private_folder(workspace.scratch) / "grouped.parquet"
    write_grouped(engine, question, grouped)
    return read_truth(question, grouped)


def posed_by(problem: SuppressionProblem, truth: Truth) -> PatternProblem:
    """The problem that true figures pose."""
    if isinstance(problem, GivenTablesProblem) and isinstance(truth, cells.GivenTruth):
        return cells.pose_given(problem, truth)
    return pose_problem(problem, truth)


def fingerprint_of(problem: SuppressionProblem) -> str:
    """SHA-256 of the records, or of the tables that stand in their place."""
    if isinstance(problem, GivenTablesProblem):
        return problem.fingerprint()
    return records_fingerprint(problem.records)


def recall(workspace: Workspace) -> tuple[Integers, Flags]:
    """The published figures, and which cells are suppressed, as they were decided."""
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
