"""The mechanism ``phsafe``, from top to bottom: people in households, and households (PHSafe of the 2020 Census).

    persons, units, addresses ─► join, truncation ─► counts of eight tables ─► noise ─► release

Everything that a table counts is a household cut down to τ persons, or a household: one person changes what lies in one
household. Proof of the guarantee: ``docs/proofs/phsafe.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from confide.engines import Engine
from confide.errors import Finding
from confide.mechanisms.phsafe import measure, output
from confide.mechanisms.phsafe.output import PHSafeExplained
from confide.mechanisms.phsafe.problem import PHSafeProblem, check_files_of, fingerprint, plan_phsafe, prepare
from confide.mechanisms.phsafe.spec import PHSafeSpec
from confide.releases import Check, Job, LoadedSpec, Mechanism, NoiseSource, Plan, ReleaseWriter, SealedRelease

BYTES_PER_COUNT = 600
"""A generous guess of what one published count takes on the disk, in all layouts and formats."""


class PHSafe(Mechanism[PHSafeProblem]):
    """See :class:`confide.releases.mechanism.Mechanism` for the verbs."""

    name = "phsafe"
    spec = PHSafeSpec
    accounted = True
    keyed = True
    explain = PHSafeExplained()
    can: ClassVar = {
        "draft": "confide.mechanisms.phsafe.spec:draft_phsafe",
        "board": "confide.mechanisms.phsafe.board:PHSafeBoard",
        "evaluate": "confide.mechanisms.phsafe.evaluate:evaluate_phsafe",
        "published": "confide.lab.published.safetab:read_people_in_households",
        "residuals": "confide.mechanisms.phsafe.evaluate:residuals",
        "rehearsal": "confide.mechanisms.phsafe.made_up:PHSafeRehearsal",
        "audit": "confide.lab.risk.privacy_audit.of_mechanisms:PHSafeAudit",
    }

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> PHSafeProblem:
        return prepare(loaded, engine)

    def plan(self, problem: PHSafeProblem) -> Plan:
        return plan_phsafe(self.name, problem)

    def bytes_needed(self, problem: PHSafeProblem, plan: Plan) -> int:  # noqa: ARG002
        return plan.counts * BYTES_PER_COUNT

    def fingerprint(self, problem: PHSafeProblem) -> str:
        return fingerprint(problem.files)

    def check(self, problem: PHSafeProblem, job: Job) -> list[Finding]:
        return check_files_of(problem, job)

    def count(self, problem: PHSafeProblem, job: Job) -> None:
        measure.count(problem, job)

    def measure(self, problem: PHSafeProblem, job: Job, noise: NoiseSource | None) -> None:
        assert noise is not None
        measure.measure(problem, job, noise)

    def publish(self, problem: PHSafeProblem, job: Job, release: ReleaseWriter) -> None:
        output.publish(problem, job, release)

    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        return output.documents(manifest)

    def verify(self, release: SealedRelease) -> Iterator[Check]:
        return output.verify(release)
