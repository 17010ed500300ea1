"""The mechanism ``safetab-h``, from top to bottom: SafeTab-H of the 2020 Census.

    published totals ─► the tables of each group
    households ─► iterations and areas ─► counts of groups ─► noise ─► release

Every population group with a published total gets household type and tenure, in as much detail as its total has
reached. The totals are public, so that nothing is spent on the choice. Proof of the guarantee:
``docs/proofs/safetab-h.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from confide.engines import Engine
from confide.errors import Finding
from confide.inputs.records import records_fingerprint
from confide.mechanisms.safetab.problem import check_records_of
from confide.mechanisms.safetab.tabulate import counts_file, tabulate
from confide.mechanisms.safetab_h import output, statement
from confide.mechanisms.safetab_h.measure import measure_households, measured_folder
from confide.mechanisms.safetab_h.problem import (
    TOTALS,
    SafeTabHProblem,
    plan_safetab_h,
    prepare,
    query_key,
)
from confide.mechanisms.safetab_h.records import HOUSEHOLDS, household_expressions
from confide.mechanisms.safetab_h.spec import SafeTabHSpec
from confide.mechanisms.safetab_h.statement import SafeTabHExplained
from confide.mechanisms.safetab_h.verify import verify
from confide.releases import Check, Job, LoadedSpec, Mechanism, NoiseSource, Plan, ReleaseWriter, SealedRelease
from confide.releases.verify import PublicInput

BYTES_PER_GROUP = 2_000
BYTES_PER_BLOCK = 400
"""Generous guesses of what a run takes on the disk."""


class SafeTabH(Mechanism[SafeTabHProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "safetab-h"
    spec = SafeTabHSpec
    accounted = True
    keyed = True
    explain = SafeTabHExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.safetab_h.spec:draft_safetab_h",
        "board": "confide.mechanisms.safetab_h.board:SafeTabHBoard",
        "evaluate": "confide.mechanisms.safetab_h.evaluate:evaluate_safetab_h",
        "published": "confide.lab.published.safetab:read_household_groups",
        "residuals": "confide.mechanisms.safetab_h.evaluate:residuals",
        "rehearsal": "confide.mechanisms.safetab_h.records:SafeTabHRehearsal",
        "audit": "confide.lab.risk.privacy_audit.of_mechanisms:SafeTabHAudit",
    }

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> SafeTabHProblem:
        return prepare(loaded, engine)

    def plan(self, problem: SafeTabHProblem) -> Plan:
        return plan_safetab_h(self.name, problem)

    def bytes_needed(self, problem: SafeTabHProblem, plan: Plan) -> int:  # noqa: ARG002
        groups = sum(len(level.group) for level in problem.levels)
        return groups * BYTES_PER_GROUP + int(problem.regions.blocks.num_rows) * BYTES_PER_BLOCK

    def public_inputs(self, problem: SafeTabHProblem) -> Mapping[str, PublicInput]:
        return {TOTALS: problem.given}

    def fingerprint(self, problem: SafeTabHProblem) -> str:
        return records_fingerprint(problem.records.path)

    def check(self, problem: SafeTabHProblem, job: Job) -> list[Finding]:
        return check_records_of(problem, job, HOUSEHOLDS)

    def count(self, problem: SafeTabHProblem, job: Job) -> None:
        tabulate(problem, job, household_expressions)

    def measure(self, problem: SafeTabHProblem, job: Job, noise: NoiseSource | None) -> None:
        assert noise is not None
        job.plan.check_measured(
            (level.region_type, query_key(level.settings, table))
            for level in problem.levels
            for table, _ in level.measured()
        )
        with job.progress.stage("Measuring with noise", sum(len(level.parts) for level in problem.levels)) as advance:
            for level in problem.levels:
                job.engine.map_groups(
                    measure_households(level, noise),
                    counts_file(job.workspace, level),
                    "part",
                    level.parts,
                    measured_folder(job.workspace, level),
                    advance=advance,
                )

    def publish(self, problem: SafeTabHProblem, job: Job, release: ReleaseWriter) -> None:
        output.publish(problem, job, release)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return statement.documents(manifest)

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        return verify(release)
