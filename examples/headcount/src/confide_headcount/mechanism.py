"""The mechanism ``headcount``, from top to bottom: how many persons every block has, each number with noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Engine, Source
from confide.engines.protocol import write_parquet
from confide.errors import Finding, SpecError
from confide.file_system import private_folder
from confide.inputs.frame import Frame, read_frame
from confide.inputs.records import blocks_table, check_records, column_expressions, records_fingerprint
from confide.noise import perturb
from confide.privacy import Definition, Neighbours, budget_of, calibrate
from confide.releases.certificate import CERTIFICATE, CertificateWords, certificate
from confide.releases.folder import ReleaseWriter, SealedRelease
from confide.releases.mechanism import Check, Job, Mechanism, NoiseSource
from confide.releases.plan import Plan, PlannedMeasurement
from confide.releases.replay import Residuals
from confide.releases.spec import LoadedSpec, OneNumberPrivacy, Spec, find_sources
from confide.report.rendering import messages_of

TABLE, LEVEL, QUERY = "persons", "block", "total"


class HeadcountSpec(Spec):
    """Nothing but what every spec has; the budget is one number."""

    privacy: OneNumberPrivacy


@dataclass(frozen=True)
class Blocks:
    """Everything but the records themselves."""

    spec: Spec
    frame: Frame
    records: Source


class Headcount(Mechanism[Blocks]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "headcount"
    spec = HeadcountSpec
    accounted = True
    keyed = True
    can: ClassVar = {"residuals": "confide_headcount.mechanism:residuals"}

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> Blocks:
        sources, findings = find_sources(loaded)
        if findings:
            raise SpecError(findings)
        frame = read_frame(engine, sources["blocks"], loaded.spec.geography.block, [], [])
        return Blocks(loaded.spec, frame, sources["records"])

    def plan(self, problem: Blocks) -> Plan:
        privacy, blocks = problem.spec.privacy, problem.frame.spine.blocks.units
        definition, neighbours = Definition(privacy.definition), Neighbours(privacy.neighbours)
        loss = budget_of(definition, privacy.budget)
        measurement = PlannedMeasurement(LEVEL, QUERY, blocks, 1, calibrate(loss, neighbours), loss)
        question = {"record": "person", "frame": problem.frame.fingerprint}
        return Plan(self.name, neighbours, definition, (measurement,), (LEVEL,), question)

    def bytes_needed(self, problem: Blocks, plan: Plan) -> int:
        return 100 * plan.counts

    def fingerprint(self, problem: Blocks) -> str:
        return records_fingerprint(problem.records.path)

    def check(self, problem: Blocks, job: Job) -> list[Finding]:
        frame = private_folder(job.workspace.scratch) / "frame.parquet"
        write_parquet(blocks_table(problem.frame.spine), frame)
        block = problem.spec.geography.block
        return check_records(job.engine, problem.records, [], block, problem.frame.spine, frame)

    def count(self, problem: Blocks, job: Job) -> None:
        into, block = private_folder(job.workspace.counts) / "blocks.parquet", problem.spec.geography.block
        with job.progress.stage("Counting records", 1) as advance:
            if not into.exists():
                columns = column_expressions(job.engine, problem.records, [], block)
                job.engine.count_by(problem.records, {"code": columns[block]}, into)
            advance(1)

    def measure(self, problem: Blocks, job: Job, noise: NoiseSource | None) -> None:
        assert noise is not None
        job.plan.check_measured([(LEVEL, QUERY)])
        into = private_folder(job.workspace.measured) / "blocks.parquet"
        with job.progress.stage("Measuring with noise", 1) as advance:
            if not into.exists():
                truth = _true_counts(problem, job.workspace.counts / "blocks.parquet")
                law = job.plan.measure(LEVEL, QUERY).law
                write_parquet(pa.table({"count": perturb(truth, law, noise.stream(LEVEL, QUERY))}), into)
            advance(1)

    def publish(self, problem: Blocks, job: Job, release: ReleaseWriter) -> None:
        counts = pq.read_table(job.workspace.measured / "blocks.parquet").column("count")
        schema = pa.schema([pa.field("block", pa.string()), pa.field("count", pa.int64())])
        with job.progress.stage("Writing tables", 1) as advance:
            rows = pa.table([pa.array(problem.frame.spine.blocks.codes), counts], schema=schema)
            release.table(TABLE, schema, rows.to_batches(), problem.spec.output.formats, "Persons by block")
            advance(1)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        counts = messages_of(manifest).text("certificate.counts_tables")  # a sentence of data/messages, in any language
        return {CERTIFICATE: certificate(manifest, CertificateWords(counts))}

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        (planned,) = release.plan.measures
        for file in release.data:
            if file["path"].startswith("tables/"):
                whole = file["rows"] == planned.units
                yield Check(f"{file['path']}: a row for each block", whole, f"{file['rows']:,} rows")


def _true_counts(problem: Blocks, file: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    counted, codes = pq.read_table(file), problem.frame.spine.blocks.codes
    by_code = dict(zip(counted.column("code").to_pylist(), counted.column("n").to_pylist(), strict=True))
    return np.array([by_code.get(code, 0) for code in codes], np.int64)


def residuals(problem: Blocks, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:
    file = next((job.workspace.release / "tables").glob(f"{TABLE}.*parquet"))
    released = pq.read_table(file).column("count").to_numpy()
    truth = _true_counts(problem, job.workspace.counts / "blocks.parquet")
    law = job.plan.measure(LEVEL, QUERY).law
    yield Residuals(LEVEL, QUERY, (released - truth)[:, None], (law,), "released")
