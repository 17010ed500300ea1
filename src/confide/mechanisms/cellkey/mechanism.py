"""The mechanism ``cellkey``, from top to bottom: tables whose counts are perturbed by the keys of their members.

    keyed records ─► counts and cell keys of every cross-classification ─► lookup in the perturbation table ─► tables

It is deterministic: all randomness is in the record keys, which are drawn once and kept with the records. The same
members have the same published count in every table, release and year (SPSN). It spends no budget: bounded noise that
never changes has no differential privacy to promise. What it risks is told by ``confide risk`` (Bach 2021). For users:
``docs/concepts/cellkey.md``; what holds and what does not: ``docs/proofs/cellkey.md``.
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
from confide.inputs.records import records_fingerprint
from confide.mechanisms.cellkey import verify as verification
from confide.mechanisms.cellkey.counting import Figures, count_cells, perturb
from confide.mechanisms.cellkey.output import people_rows, people_schema, sdmx_rows, sdmx_schema
from confide.mechanisms.cellkey.programme import CellKeyQuestion, prepare
from confide.mechanisms.cellkey.records import check_keyed_records, write_coded
from confide.mechanisms.cellkey.spec import CellKeySpec
from confide.mechanisms.cellkey.statement import in_words, noise_facts, single_count
from confide.privacy import Definition, Neighbours
from confide.releases.folder import ReleaseWriter
from confide.releases.load_spec import LoadedSpec
from confide.releases.mechanism import Check, Job
from confide.releases.plan import Plan
from confide.releases.published import Published
from confide.releases.workspace import Workspace

BYTES_PER_CELL = 60


class CellKey:
    """See :class:`confide.releases.unpriced.Unpriced` for the verbs."""

    name = "cellkey"
    spec = CellKeySpec

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> CellKeyQuestion:  # noqa: ARG002
        return prepare(loaded)

    def plan(self, question: CellKeyQuestion) -> Plan:
        """No measurement and no loss; the question has everything else."""
        return Plan(self.name, Neighbours.CHANGE_ONE, Definition.ZCDP, (), (), question.facts(), accounted=False)

    def fingerprint(self, question: CellKeyQuestion) -> str:
        return records_fingerprint(question.records.path)

    def bytes_needed(self, question: CellKeyQuestion, plan: Plan) -> int:  # noqa: ARG002
        return BYTES_PER_CELL * sum(margin.cells for table in question.tables for margin in table.margins)

    def check_inputs(self, question: CellKeyQuestion, job: Job) -> list[Finding]:
        return [*question.warnings, *check_keyed_records(job.engine, question)]

    def make(self, question: CellKeyQuestion, job: Job) -> None:
        """Counts every cross-classification and perturbs it. True counts and keys are not kept."""
        folder = private_folder(job.workspace.measured)
        distinct = [query for query, _ in question.counted()]
        if all(_file(job.workspace, query.name).exists() for query in distinct):
            return
        coded = private_folder(job.workspace.scratch) / "coded.parquet"
        with job.progress.stage("Reading records", 1) as advance:
            write_coded(job.engine, question, coded)
            advance(1)
        with job.progress.stage("Counting and perturbing", len(distinct)) as advance:
            for query, sums in count_cells(question, coded):
                figures = perturb(sums, question.lookup, question.spec.cellkey.threshold)
                _keep(folder / _file(job.workspace, query.name).name, figures)
                advance(1)

    def statistics(self, question: CellKeyQuestion, job: Job) -> Mapping[str, Any]:  # noqa: ARG002
        return {}

    def stated(self, question: CellKeyQuestion, plan: Plan) -> Mapping[str, Any]:  # noqa: ARG002
        table = question.ptable
        words = in_words(table, question.spec.cellkey.threshold)
        return {
            "privacy": {"loss": None, "in_words": words, "single_count": single_count(table)},
            "noise": noise_facts(table),
        }

    def publish(self, question: CellKeyQuestion, plan: Plan, job: Job, release: ReleaseWriter) -> None:  # noqa: ARG002
        output, weighted = question.spec.output, question.spec.data.weight is not None
        plain = [name for name in output.formats if name != "sdmx-csv"]
        with job.progress.stage("Writing tables", len(question.tables)) as advance:
            for table in question.tables:
                figures = {margin.name: _recall(job.workspace, margin.name) for margin in table.margins}
                if plain:
                    schema = people_schema(table, weighted=weighted)
                    release.table(table.name, schema, people_rows(table, figures), plain, table.title)
                if "sdmx-csv" in output.formats:
                    schema = sdmx_schema(table, weighted=weighted)
                    rows = sdmx_rows(table, figures, output.agency)
                    release.text(f"sdmx/{table.name}", schema, rows, table.title, ",", quoted=True)
                advance(1)

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return verification.verify(folder, manifest)

    def published(self, folder: Path, manifest: dict[str, Any], *choice: Any) -> Published:
        from confide.mechanisms.cellkey.published import read_published

        return read_published(folder, manifest, *choice)


def _file(workspace: Workspace, query: str) -> Path:
    """Where the published figures of a cross-classification are kept until they are published."""
    return workspace.measured / (query.replace(":", ".").replace("*", "+") + ".parquet")


def _keep(file: Path, figures: Figures) -> None:
    cells = np.flatnonzero(figures.count)
    columns = {"cell": pa.array(cells), "count": pa.array(figures.count[cells])}
    if figures.weighted is not None:
        columns["weighted"] = pa.array(figures.weighted[cells])
    table = pa.table(columns).replace_schema_metadata({"cells": str(len(figures.count))})
    write_parquet(table, file)


def _recall(workspace: Workspace, query: str) -> Figures:
    table = pq.read_table(_file(workspace, query))
    size, cells = int(table.schema.metadata[b"cells"]), table.column("cell").to_numpy()
    values = []
    for name in ("count", "weighted"):
        if name in table.column_names:
            full = np.zeros(size, np.int64)
            full[cells] = table.column(name).to_numpy()
            values.append(full)
    return Figures(values[0], values[1] if len(values) > 1 else None)
