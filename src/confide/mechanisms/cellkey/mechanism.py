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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Engine
from confide.engines.groups import private_folder, write_parquet
from confide.errors import Finding
from confide.inputs.records import records_fingerprint
from confide.mechanisms.cellkey import verify as verification
from confide.mechanisms.cellkey.counting import PerturbedFigures, check_keyed_records, count_cells, perturb, write_coded
from confide.mechanisms.cellkey.output import plain_rows, plain_schema, sdmx_rows, sdmx_schema
from confide.mechanisms.cellkey.programme import CellKeyProblem, describe, prepare
from confide.mechanisms.cellkey.spec import CellKeySpec, cellkey_spec
from confide.mechanisms.cellkey.statement import cellkey_statement, in_words, noise_facts, single_count, sizes
from confide.releases.draft import SPEC, Draft, no_product
from confide.releases.folder import ReleaseWriter
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource, Residuals
from confide.releases.plan import Plan, in_plural
from confide.releases.published import Published
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import publish
from confide.releases.workspace import Workspace
from confide.report.certificate import STATEMENT
from confide.report.dossier import Evaluated, Evaluating

BYTES_PER_CELL = 60


class CellKey(Mechanism[CellKeyProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "cellkey"
    spec = CellKeySpec
    on_spark = True
    measures_counts = False

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> CellKeyProblem:  # noqa: ARG002
        return prepare(loaded)

    def plan(self, problem: CellKeyProblem) -> Plan:
        """No measurement and no loss; the problem has everything else."""
        return Plan.without_loss(self.name, problem.facts())

    def fingerprint(self, problem: CellKeyProblem) -> str:
        return records_fingerprint(problem.records.path)

    def bytes_needed(self, problem: CellKeyProblem, plan: Plan) -> int:  # noqa: ARG002
        return BYTES_PER_CELL * sum(margin.cells for table in problem.tables for margin in table.margins)

    def check(self, problem: CellKeyProblem, job: Job) -> list[Finding]:
        return [*problem.warnings, *check_keyed_records(job.engine, problem)]

    def measure(self, problem: CellKeyProblem, job: Job, noise: NoiseSource | None) -> None:  # noqa: ARG002
        """Counts every cross-classification and perturbs it. True counts and keys are not kept."""
        folder = private_folder(job.workspace.measured)
        distinct = [query for query, _ in problem.counted()]
        if all(_file(job.workspace, query.name).exists() for query in distinct):
            return
        coded = private_folder(job.workspace.scratch) / "coded.parquet"
        with job.progress.stage("Reading records", 1) as advance:
            write_coded(job.engine, problem, coded)
            advance(1)
        with job.progress.stage("Counting and perturbing", len(distinct)) as advance:
            for query, sums in count_cells(problem, coded):
                figures = perturb(sums, problem.lookup, problem.spec.cellkey.threshold)
                _keep(folder / _file(job.workspace, query.name).name, figures)
                advance(1)

    def guarantee(self, problem: CellKeyProblem, job: Job) -> Mapping[str, Any]:  # noqa: ARG002
        table = problem.ptable
        words = in_words(str(table.largest_noise), problem.spec.cellkey.threshold)
        return {
            "privacy": {"loss": None, "in_words": words, "single_count": single_count(table)},
            "noise": noise_facts(table),
        }

    def publish(self, problem: CellKeyProblem, job: Job, release: ReleaseWriter) -> None:
        output, weighted = problem.spec.output, problem.spec.data.weight is not None
        with job.progress.stage("Writing tables", len(problem.tables)) as advance:
            for table in problem.tables:
                figures = {margin.name: _recall(job.workspace, margin.name) for margin in table.margins}
                plain = plain_schema(table, weighted=weighted), plain_rows(table, figures)
                sdmx = sdmx_schema(table, weighted=weighted), sdmx_rows(table, figures, output.agency)
                publish(release, table.name, table.title, output.formats, plain, sdmx)
                advance(1)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return {STATEMENT: cellkey_statement(manifest)}

    def restated(self, plan: Plan, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """Words and bound. What follows from the whole perturbation table, which stays secret, is taken as stated."""
        largest, stated = plan.question["ptable"]["D"], manifest["noise"]
        words = in_words(largest, plan.question["threshold"])
        noise = {"sampler": None, "key": "record keys", "largest": largest}
        return {
            "privacy": {"loss": None, "in_words": words, "single_count": manifest["privacy"]["single_count"]},
            "noise": noise | {name: stated[name] for name in ("bias", "variance")},
        }

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return verification.verify(folder, manifest)

    def draft(self, product: str | None, values: Mapping[str, str]) -> Draft:
        no_product(self.name, product)
        tables = [
            {"name": "age-by-sex", "variables": ["sex", "age:five-year"]},
            {"name": "origin", "variables": ["sex", "hispanic", "cenrace:major"]},
        ]
        return Draft(cellkey_spec(SPEC, tables, **values), secret=True)

    def contents(self, plan: Plan) -> str:
        size = sizes(describe(plan.question))
        return (
            f"{in_plural(size['tables'], 'table')} of {size['cells']:,} perturbed cells: "
            f"{in_plural(size['distinct'], 'distinct cross-classification')} with {size['distinct_cells']:,} cells"
        )

    def evaluate(self, asked: Evaluating) -> Evaluated:
        from confide.mechanisms.cellkey.evaluate import evaluate_cellkey

        return evaluate_cellkey(asked)

    def published(self, folder: Path, manifest: dict[str, Any], *choice: Any) -> Published:
        from confide.mechanisms.cellkey.verify import read_published

        return read_published(folder, manifest, *choice)

    def residuals(self, problem: CellKeyProblem, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:  # noqa: ARG002
        """The record keys, and the noise that they find, each beside the law of its true count."""
        from confide.mechanisms.cellkey.evaluate import residuals

        return residuals(problem, job.workspace, job.engine)


def _file(workspace: Workspace, query: str) -> Path:
    """Where the published figures of a cross-classification are kept until they are published."""
    return workspace.measured / f"{hashlib.sha256(query.encode()).hexdigest()}.parquet"


def _keep(file: Path, figures: PerturbedFigures) -> None:
    cells = np.flatnonzero(figures.count)
    columns = {"cell": pa.array(cells), "count": pa.array(figures.count[cells])}
    if figures.weighted is not None:
        columns["weighted"] = pa.array(figures.weighted[cells])
    table = pa.table(columns).replace_schema_metadata({"cells": str(len(figures.count))})
    write_parquet(table, file)


def _recall(workspace: Workspace, query: str) -> PerturbedFigures:
    table = pq.read_table(_file(workspace, query))
    size, cells = int(table.schema.metadata[b"cells"]), table.column("cell").to_numpy()
    values = []
    for name in ("count", "weighted"):
        if name in table.column_names:
            full = np.zeros(size, np.int64)
            full[cells] = table.column(name).to_numpy()
            values.append(full)
    return PerturbedFigures(values[0], values[1] if len(values) > 1 else None)
