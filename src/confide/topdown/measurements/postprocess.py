"""The mechanism ``postprocess``: records from noisy measurements that were published, by us or by somebody else.

    measurements ─► spine, constraints ─► the root: estimate ─► every parent: estimate its children ─► records

It reads nothing confidential and draws no noise, so it has no key and no ledger and costs nothing: whatever is promised
of the measurements holds for everything that is made of them. The descent is that of ``topdown``; from the measurements
of a release, with its strategy, come the very records of that release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confide.engines import Engine
from confide.errors import Finding
from confide.estimation.problem import MeasuredQuery
from confide.geography.topdown_tree import TopDownLevel
from confide.runs.keys import STAMP
from confide.runs.load_spec import LoadedSpec
from confide.runs.mechanism import Check, Job
from confide.runs.plan import Plan
from confide.runs.release import ReleaseWriter
from confide.topdown.descent import descend, estimates_folder
from confide.topdown.levels import Kind
from confide.topdown.measurements.looking_up import EstimateMeasured, KnownQuery, LookUp
from confide.topdown.measurements.preparing import MeasuredQuestion, prepare_measured
from confide.topdown.measurements.reading import LevelReader
from confide.topdown.measurements.spec import PostprocessSpec
from confide.topdown.node import NodeRules
from confide.topdown.output import verify as checks
from confide.topdown.output.publishing import publish
from confide.topdown.question import facts_of
from confide.topdown.records.feasible import clashes_in_blocks
from confide.topdown.records.invariant_totals import invariant_level
from confide.topdown.statistics import read_statistics, solver_check
from confide.topdown.strategies.strategy import LevelStrategy

BYTES_PER_MEASURED_BYTE = 6
"""A generous guess of what a run takes on the disk: the measurements again twice, and what is made of them."""


class Postprocess:
    """See :class:`confide.runs.unpriced.Unpriced` for the verbs."""

    name = "postprocess"
    spec = PostprocessSpec

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> MeasuredQuestion:
        return prepare_measured(loaded, engine)

    def plan(self, question: MeasuredQuestion) -> Plan:
        """No measurement, no cost; the question binds the measurements that it starts from."""
        strategy = question.strategy
        facts = facts_of(question) | {"source": question.source, "totals": question.known}
        names = tuple(question.spine.names)
        return Plan(self.name, strategy.neighbours, strategy.definition, (), names, facts)

    def fingerprint(self, question: MeasuredQuestion) -> str:
        return str(question.source["sha256"])

    def stated(self, question: MeasuredQuestion, plan: Plan) -> Mapping[str, Any]:
        """A loss of zero for the run itself, and the measurements, whose promise it inherits, and whose stamp."""
        stamped = question.source.get("stamp") == STAMP
        return {
            **({"stamp": STAMP} if stamped else {}),
            "source": dict(question.source),
            "privacy": {
                "neighbours": plan.neighbours.value,
                "loss": plan.loss.as_dict(),
                "in_words": in_words(question.source),
            },
            "noise": {"sampler": None, "key": "chosen" if stamped else "none"},
        }

    def bytes_needed(self, question: MeasuredQuestion, plan: Plan) -> int:  # noqa: ARG002
        return sum(file.stat().st_size for file in question.folder.all_files) * BYTES_PER_MEASURED_BYTE

    def check_inputs(self, question: MeasuredQuestion, job: Job) -> list[Finding]:  # noqa: ARG002
        """Measurements that are not whole, not complete or not the strategy's, and constraints that clash."""
        findings = list(clashes_in_blocks(question))
        for reader in question.readers:
            findings += reader.check()
            findings += _left_out(reader)
        return findings + _unknown_totals(question)

    def make(self, question: MeasuredQuestion, job: Job) -> None:
        """Measurements in order, then the descent."""
        with job.progress.stage("Reading measurements", len(question.readers)) as advance:
            for reader in question.readers:
                into = _measurements(job, reader.units.name)
                if not into.exists():
                    reader.write(into)
                advance(1)
        descend(question, job, _Found(question, job))

    def statistics(self, question: MeasuredQuestion, job: Job) -> dict[str, Any]:
        """What the solvers did, level by level."""
        return read_statistics({level.name: estimates_folder(job.workspace, level) for level in question.spine.levels})

    def publish(self, question: MeasuredQuestion, plan: Plan, job: Job, release: ReleaseWriter) -> None:
        publish(question, plan, job, release)

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        source, facts = manifest["source"], manifest["plan"]["question"]
        bound = source == facts["source"] and not manifest["plan"]["measures"]
        yield Check("post-processing", bound, f"of measurements with SHA-256 {source['sha256']}; nothing was measured")
        yield from checks.verify(folder, manifest)
        yield solver_check(manifest["statistics"])


def in_words(source: Mapping[str, Any]) -> list[str]:
    """What is promised, which is nothing of its own."""
    whose = f"of the release {source['release']!r}" if "release" in source else "that were published before"
    return [
        f"This release was made from noisy measurements {whose}, and from nothing else that is confidential: "
        "no record was read and no noise was drawn.",
        "It makes no promise of its own. Whatever is promised of those measurements holds for this release just as "
        "well, because it is a function of them (post-processing); having both costs no more than having the "
        "measurements.",
    ]


def _measurements(job: Job, level: str) -> Path:
    return job.workspace.counts / f"{level}.measurements.parquet"


@dataclass(frozen=True)
class _Found:
    """Measurements that are looked up: see :class:`confide.topdown.descent.Evidence`."""

    question: MeasuredQuestion
    job: Job

    listed = True

    def root(self, asked_level: LevelStrategy, root: TopDownLevel) -> tuple[tuple[MeasuredQuery, ...], int | None]:
        rows = pq.read_table(_measurements(self.job, root.name))
        found = LookUp(self._queries(asked_level), *(rows.column(name) for name in ("unit", "query", "n", "value")))
        return found.of(np.zeros(1, np.int64), np.arange(self.question.cells)), self.question.total

    def rows(self, level: TopDownLevel) -> tuple[dict[str, Path], str]:
        rows = (
            f"SELECT part, {Kind.MEASURED:d}, parent, found.unit, found.query, found.n, found.value FROM found "
            "JOIN children USING (unit)"
        )
        return {"found": _measurements(self.job, level.name)}, rows

    def totals(self, level: TopDownLevel) -> pa.Table | None:
        return self.question.totals.get(level.name)

    def function(self, asked_level: LevelStrategy, level: TopDownLevel, rules: NodeRules) -> EstimateMeasured:  # noqa: ARG002
        return EstimateMeasured(rules, self.question.cells, self._queries(asked_level))

    def _queries(self, asked_level: LevelStrategy) -> tuple[KnownQuery, ...]:
        return tuple(KnownQuery(asked.name, self.question.groups(asked.name)) for asked in asked_level.queries)


def _left_out(reader: LevelReader) -> Iterator[Finding]:
    if reader.left_out:
        yield Finding(
            code="not-used",
            what=f"some measurements of {reader.units.name!r} are not in the strategy, and are not used",
            found=", ".join(reader.left_out),
            expected="the queries of the strategy",
            remedy="take the strategy that the measurements were made with, if there is one",
            severity="warning",
        )


def _unknown_totals(question: MeasuredQuestion) -> list[Finding]:
    lowest = invariant_level(question.strategy)
    if lowest is None or lowest in question.totals:
        return []
    return [
        Finding(
            code="totals-not-known",
            what=f"the numbers of records are an invariant on {lowest!r}, and the constraints do not have them",
            where=question.place,
            found="no totals",
            expected=f"a total for each unit of {lowest!r}",
            remedy="give them under [data.totals], or go on: they will not be kept",
            severity="warning",
        )
    ]
