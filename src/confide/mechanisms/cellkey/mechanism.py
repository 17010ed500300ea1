"""The mechanism ``cellkey``, from top to bottom: tables whose counts are perturbed by the keys of their members.

    keyed records ─► counts and cell keys of every cross-classification ─► lookup in the perturbation table ─► tables

It is deterministic: all randomness is in the record keys, which are drawn once and kept with the records. The same
members have the same published count in every table, release and year (SPSN). It spends no budget: bounded noise that
never changes has no differential privacy to promise. What it risks is told by ``confide risk`` (Bach 2021). For users:
``docs/concepts/cellkey.md``; what holds and what does not: ``docs/proofs/cellkey.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Engine
from confide.engines.protocol import private_folder, write_parquet
from confide.errors import Finding
from confide.inputs.records import records_fingerprint
from confide.mechanisms.cellkey import statement
from confide.mechanisms.cellkey import verify as verification
from confide.mechanisms.cellkey.counting import PerturbedFigures, count_cells, perturb_cells
from confide.mechanisms.cellkey.given import GivenTable, check_given, given_fingerprint, read_given
from confide.mechanisms.cellkey.keyed_records import check_keyed_records, write_coded
from confide.mechanisms.cellkey.output import figure_columns, plain_rows, publish_given
from confide.mechanisms.cellkey.preparing import prepare
from confide.mechanisms.cellkey.programme import CellKeyProblem, describe
from confide.mechanisms.cellkey.spec import CellKeySpec
from confide.releases.folder import ReleaseWriter
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource
from confide.releases.plan import Plan
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import DescribedTable, publish_areas
from confide.releases.workspace import Workspace
from confide.report.certificate import STATEMENT

BYTES_PER_CELL = 60
MOST_CELLS_FORESEEN = 1 << 27
"""Of so many cells at most the disk must hold all: where areas are many, most of their cells are empty."""
LABEL = "label/"


class CellKey(Mechanism[CellKeyProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "cellkey"
    spec = CellKeySpec
    on_spark = True
    explain = statement.CellKeyExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.cellkey.spec:draft_cellkey",
        "draft_from": "confide.mechanisms.cellkey.spec:draft_cellkey_from",
        "board": "confide.mechanisms.cellkey.board:CellKeyBoard",
        "evaluate": "confide.mechanisms.cellkey.evaluate:evaluate_cellkey",
        "published": "confide.mechanisms.cellkey.verify:read_published",
        "residuals": "confide.mechanisms.cellkey.evaluate:residuals",
        "rehearsal": "confide.mechanisms.cellkey.keyed_records:CellKeyRehearsal",
    }
    measures_counts = False

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> CellKeyProblem:
        return prepare(loaded, engine)

    def plan(self, problem: CellKeyProblem) -> Plan:
        """No measurement and no loss; the problem has everything else."""
        return Plan.without_loss(self.name, problem.facts())

    def fingerprint(self, problem: CellKeyProblem) -> str:
        return given_fingerprint(problem.given) if problem.given else records_fingerprint(problem.source.path)

    def bytes_needed(self, problem: CellKeyProblem, plan: Plan) -> int:
        if problem.given:
            return 2 * sum(table.source.path.stat().st_size for table in problem.given if table.source is not None)
        described = describe(plan.question)
        cells = sum(described.cells(table) for table in described.tables)
        return BYTES_PER_CELL * min(cells, MOST_CELLS_FORESEEN)

    def check(self, problem: CellKeyProblem, job: Job) -> list[Finding]:
        if problem.given:
            findings = [check_given(job.engine, table, problem.modulus) for table in problem.given]
            return [*problem.warnings, *(finding for of_table in findings for finding in of_table)]
        return [*problem.warnings, *check_keyed_records(job.engine, problem, job.workspace.scratch)]

    def measure(self, problem: CellKeyProblem, job: Job, noise: NoiseSource | None) -> None:  # noqa: ARG002
        """Counts every cross-classification and perturbs it. True counts and keys are not kept."""
        private_folder(job.workspace.measured)
        if problem.given:
            self._measure_given(problem, job)
            return
        distinct = [counted.name for counted in problem.counted()]
        if all(_file(job.workspace, name).exists() for name in distinct):
            return
        scratch = private_folder(job.workspace.scratch)
        with job.progress.stage("Reading records", 1) as advance:
            write_coded(job.engine, problem, scratch / "coded.parquet", scratch)
            advance(1)
        with job.progress.stage("Counting and perturbing", len(distinct)) as advance:
            for counted, sums in count_cells(problem, scratch / "coded.parquet"):
                _keep(_file(job.workspace, counted.name), perturb_cells(problem, sums))
                advance(1)

    def _measure_given(self, problem: CellKeyProblem, job: Job) -> None:
        """Perturbs the cells of every file, and keeps the labels of those that are published above zero."""
        with job.progress.stage("Perturbing cells", len(problem.given)) as advance:
            for table in problem.given:
                sums, labels = read_given(job.engine, table, problem.modulus).reveal("to perturb given cells")
                figures = perturb_cells(problem, sums).listed()
                _keep(_file(job.workspace, table.name), figures, labels.take(pa.array(figures.cell)))
                advance(1)

    def guarantee(self, problem: CellKeyProblem, job: Job) -> Mapping[str, Any]:
        if problem.magnitude is not None:
            return self.restated(job.plan, {})
        assert problem.ptable is not None
        table = problem.ptable
        words = statement.in_words(str(table.largest_noise), problem.spec.cellkey.threshold)
        return {
            "privacy": {"loss": None, "in_words": words, "single_count": statement.single_count(table)},
            "noise": statement.noise_facts(table),
        }

    def publish(self, problem: CellKeyProblem, job: Job, release: ReleaseWriter) -> None:
        output, columns = problem.spec.output, figure_columns(problem)
        with job.progress.stage("Writing tables", len(problem.tables) + len(problem.given)) as advance:
            for table in problem.tables:
                names = [counted.name for counted in replace(problem, tables=(table,)).counted()]
                figures = {name: _recall(job.workspace, name) for name in names}
                rows_of = partial(plain_rows, problem, table, figures)
                described = DescribedTable.of(table.layout, columns.plain())
                described.publish(release, rows_of, output, problem.area_names)
                advance(1)
            levels = dict.fromkeys(name for table in problem.tables for name in table.levels)
            if levels:
                areas = [(name, problem.spine.level(name).codes) for name in levels]
                publish_areas(release, areas, problem.area_names)
            for given in problem.given:
                labels, of_cells = _labels(job.workspace, given), _recall(job.workspace, given.name)
                publish_given(release, output.formats, output.agency, given, labels, of_cells, columns)
                advance(1)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return {STATEMENT: statement.cellkey_statement(manifest)}

    def restated(self, plan: Plan, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Words and bound. What follows from the whole perturbation table, which stays secret, is taken as stated."""
        magnitude = plan.question.get("magnitude")
        if magnitude is not None:
            words = statement.magnitude_words(magnitude)
            return {"privacy": {"loss": None, "in_words": words}, "noise": statement.magnitude_facts(magnitude)}
        largest, stated = plan.question["ptable"]["D"], manifest["noise"]
        words = statement.in_words(largest, plan.question["threshold"])
        noise = {"sampler": None, "key": "record keys", "largest": largest}
        return {
            "privacy": {"loss": None, "in_words": words, "single_count": manifest["privacy"]["single_count"]},
            "noise": noise | {name: stated[name] for name in ("bias", "variance")},
        }

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return verification.verify(folder, manifest)


def _file(workspace: Workspace, query: str) -> Path:
    """Where the published figures of a cross-classification are kept until they are published."""
    return workspace.measured / f"{hashlib.sha256(query.encode()).hexdigest()}.parquet"


def _keep(file: Path, figures: PerturbedFigures, labels: pa.Table | None = None) -> None:
    listed = figures.listed()
    columns = {"cell": pa.array(listed.cell), "count": pa.array(listed.figure)}
    if listed.weighted is not None:
        columns["weighted"] = pa.array(listed.weighted)
    table = pa.table(columns)
    for number, name in enumerate(() if labels is None else labels.column_names):
        assert labels is not None
        table = table.append_column(f"{LABEL}{number}", labels.column(name))
    write_parquet(table, file)


def _recall(workspace: Workspace, name: str) -> PerturbedFigures:
    table = pq.read_table(_file(workspace, name))
    values = [table.column(each).to_numpy() for each in ("cell", "count")]
    weighted = table.column("weighted").to_numpy() if "weighted" in table.column_names else None
    return PerturbedFigures(values[0], values[1], weighted)


def _labels(workspace: Workspace, table: GivenTable) -> pa.Table:
    """The labels of the cells that are published."""
    kept = pq.read_table(_file(workspace, table.name))
    return kept.select([name for name in kept.column_names if name.startswith(LABEL)])
