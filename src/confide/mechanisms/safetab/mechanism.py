"""The mechanism ``safetab``, from top to bottom: SafeTab-P (Haney et al. 2024).

    records ─► iterations and areas ─► counts of groups ─► stage 1: choice of table ─► stage 2: the table ─► release

Every population group, an area crossed with a race or ethnicity group, gets a total, or sex by age in 4, 9 or 23
groups, depending on a first noisy total (Algorithms 1 to 3). Proof of the guarantee: ``docs/proofs/safetab.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from confide.engines import Engine
from confide.errors import Finding
from confide.inputs.records import records_fingerprint
from confide.mechanisms.safetab import statement
from confide.mechanisms.safetab.measure import measure_groups
from confide.mechanisms.safetab.output import verify as verification
from confide.mechanisms.safetab.output.publish import measured_folder, publish
from confide.mechanisms.safetab.problem import (
    GroupLevel,
    SafeTabProblem,
    check_records_of,
    plan_safetab,
    prepare,
    query_key,
)
from confide.mechanisms.safetab.settings import CHOICE, TABLE, TOTAL_ONLY
from confide.mechanisms.safetab.spec import SafeTabSpec
from confide.mechanisms.safetab.statement import SafeTabExplained
from confide.mechanisms.safetab.tabulate import counts_file, tabulate
from confide.releases import Check, Job, LoadedSpec, Mechanism, NoiseSource, Plan, ReleaseWriter, SealedRelease

BYTES_PER_GROUP = 40
BYTES_PER_BLOCK = 400
"""Generous guesses of what a run takes on the disk."""


class SafeTab(Mechanism[SafeTabProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "safetab"
    spec = SafeTabSpec
    accounted = True
    keyed = True
    explain = SafeTabExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.safetab.spec:draft_safetab",
        "board": "confide.mechanisms.safetab.board:SafeTabBoard",
        "evaluate": "confide.mechanisms.safetab.dossier:evaluate_safetab",
        "published": "confide.lab.published.safetab:read_published",
        "residuals": "confide.mechanisms.safetab.audit:residuals",
        "rehearsal": "confide.mechanisms.safetab.audit:SafeTabRehearsal",
        "audit": "confide.lab.risk.privacy_audit.of_mechanisms:SafeTabAudit",
    }
    on_spark = True

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> SafeTabProblem:
        return prepare(loaded, engine)

    def plan(self, problem: SafeTabProblem) -> Plan:
        return plan_safetab(self.name, problem)

    def bytes_needed(self, problem: SafeTabProblem, plan: Plan) -> int:  # noqa: ARG002
        groups = sum(level.groups for level in problem.levels)
        return groups * BYTES_PER_GROUP + int(problem.regions.blocks.num_rows) * BYTES_PER_BLOCK

    def fingerprint(self, problem: SafeTabProblem) -> str:
        return records_fingerprint(problem.records)

    def check(self, problem: SafeTabProblem, job: Job) -> list[Finding]:
        return check_records_of(problem, job)

    def count(self, problem: SafeTabProblem, job: Job) -> None:
        tabulate(problem, job)

    def measure(self, problem: SafeTabProblem, job: Job, noise: NoiseSource | None) -> None:
        assert noise is not None
        job.plan.check_measured(
            (level.settings.region_type, query_key(level, query))
            for level in problem.levels
            for query in _queries(level)
        )
        with job.progress.stage("Measuring with noise", sum(len(level.parts) for level in problem.levels)) as advance:
            for level in problem.levels:
                job.engine.map_groups(
                    measure_groups(level, noise),
                    counts_file(job.workspace, level),
                    "part",
                    level.parts,
                    measured_folder(job.workspace, level),
                    advance=advance,
                )

    def publish(self, problem: SafeTabProblem, job: Job, release: ReleaseWriter) -> None:
        publish(problem, job, release)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return statement.documents(manifest)

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        return verification.verify(release)


def _queries(level: GroupLevel) -> Iterator[str]:
    """The measurements of a level."""
    if level.adaptive:
        yield from (CHOICE, TABLE)
    if level.adaptive < level.groups:
        yield TOTAL_ONLY
