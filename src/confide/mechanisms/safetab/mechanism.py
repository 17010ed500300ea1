"""The mechanism ``safetab``, from top to bottom: SafeTab-P (Haney et al. 2024).

    records ─► iterations and areas ─► counts of groups ─► stage 1: choice of table ─► stage 2: the table ─► release

Every population group, an area crossed with a race or ethnicity group, gets a total, or sex by age in 4, 9 or 23
groups, depending on a first noisy total (Algorithms 1 to 3). Proof of the guarantee: ``docs/proofs/safetab.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confide.engines import Engine
from confide.errors import Finding
from confide.mechanisms.safetab.measure import measure_groups
from confide.mechanisms.safetab.output import verify as verification
from confide.mechanisms.safetab.output.publish import measured_folder, publish
from confide.mechanisms.safetab.plan import CHOICE, TABLE, TOTAL_ONLY, plan_safetab, query_key
from confide.mechanisms.safetab.problem import GroupLevel, SafeTabQuestion, check_persons_of, prepare
from confide.mechanisms.safetab.spec import SafeTabSpec
from confide.mechanisms.safetab.tabulate import counts_file, tabulate
from confide.releases.folder import ReleaseWriter
from confide.releases.load_spec import LoadedSpec
from confide.releases.mechanism import Check, Job, NoiseSource
from confide.releases.plan import Plan
from confide.releases.published import Published

BYTES_PER_GROUP = 40
BYTES_PER_BLOCK = 400
"""Generous guesses of what a run takes on the disk."""


class SafeTab:
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "safetab"
    spec = SafeTabSpec

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> SafeTabQuestion:
        return prepare(loaded, engine)

    def plan(self, question: SafeTabQuestion) -> Plan:
        return plan_safetab(self.name, question)

    def bytes_needed(self, question: SafeTabQuestion, plan: Plan) -> int:  # noqa: ARG002
        groups = sum(level.groups for level in question.levels)
        return groups * BYTES_PER_GROUP + int(question.regions.blocks.num_rows) * BYTES_PER_BLOCK

    def records_file(self, question: SafeTabQuestion) -> Path:
        return question.records.path

    def check_records(self, question: SafeTabQuestion, job: Job) -> list[Finding]:
        return check_persons_of(question, job)

    def tabulate(self, question: SafeTabQuestion, job: Job) -> None:
        tabulate(question, job)

    def measure(self, question: SafeTabQuestion, plan: Plan, job: Job, noise: NoiseSource) -> None:
        plan.check_measured(
            (level.settings.region_type, query_key(level, query))
            for level in question.levels
            for query in _queries(level)
        )
        with job.progress.stage("Measuring with noise", sum(len(level.parts) for level in question.levels)) as advance:
            for level in question.levels:
                job.engine.map_groups(
                    measure_groups(level, noise),
                    counts_file(job.workspace, level),
                    "part",
                    level.parts,
                    measured_folder(job.workspace, level),
                    advance=advance,
                )

    def statistics(self, question: SafeTabQuestion, job: Job) -> Mapping[str, Any]:  # noqa: ARG002
        """Nothing: what is published is what was measured, and sums of it."""
        return {}

    def publish(self, question: SafeTabQuestion, plan: Plan, job: Job, release: ReleaseWriter) -> None:  # noqa: ARG002
        publish(question, job, release)

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        return verification.verify(folder, manifest)

    def published(self, folder: Path, manifest: dict[str, Any], *choice: Any) -> Published:
        from confide.mechanisms.safetab.published import read_published

        return read_published(folder, manifest, *choice)


def _queries(level: GroupLevel) -> Iterator[str]:
    """The measurements of a level."""
    if level.adaptive:
        yield from (CHOICE, TABLE)
    if level.adaptive < level.groups:
        yield TOTAL_ONLY
