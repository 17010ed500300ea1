"""A mechanism: one way from confidential records to a release.

A mechanism is one object. Its verbs are below in the order in which a run and a reader call them; nothing outside its
folder asks for its name. What else it may be able to do, for users, curators and audits, has a signature in
:mod:`confide.releases.abilities`. ``docs/architecture.md`` shows how to add a mechanism: a package with an entry point,
by which :data:`confide.mechanisms.MECHANISMS` finds it.

======================  ==================================================================================
before a record         ``prepare`` ``plan`` ``bytes_needed`` ``public_inputs``
with the records        ``fingerprint`` ``check`` ``bytes_of_records`` ``count`` ``measure``
from measurements       ``statistics`` ``publish`` ``guarantee`` ``documents``
from the written files  ``restated`` ``verify``
======================  ==================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from confide.answers import ShownTable
from confide.engines import Engine
from confide.errors import Finding
from confide.noise import NoiseStream, ReleaseKey, derive_stream
from confide.releases.folder import ReleaseWriter, SealedRelease, formal_guarantee, stated_delta
from confide.releases.plan import Explanation, Plan
from confide.releases.spec import LoadedSpec, Spec
from confide.releases.workspace import Progress, Workspace

if TYPE_CHECKING:
    from confide.releases.verify import PublicInput

P = TypeVar("P")
"""What a mechanism prepares: its problem, everything but the records."""


@dataclass(frozen=True)
class Job:
    """A run as its mechanism sees it."""

    loaded: LoadedSpec
    plan: Plan
    engine: Engine
    workspace: Workspace
    progress: Progress


@dataclass(frozen=True)
class NoiseSource:
    """Every noise stream of one release. The derivation binds records and plan: noise is a pure function of a secret
    key and a coordinate, and the same noise never lies over other records or another question."""

    key: ReleaseKey
    records_fingerprint: str
    plan_hash: str
    mechanism: str

    def stream(self, level: str, query: str) -> NoiseStream:
        """The stream of one measurement of the plan.

        Args:
            level: The geolevel that is measured.
            query: The query, as the plan names it.

        Returns:
            The stream whose coordinates are the counts of this measurement, and of no other.
        """
        return derive_stream(
            self.key,
            records_fingerprint=bytes.fromhex(self.records_fingerprint),
            plan_hash=bytes.fromhex(self.plan_hash),
            mechanism=self.mechanism,
            level=level,
            query=query,
        )


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that ``verify`` looked at in a release."""

    name: str
    ok: bool
    detail: str


def checks_table(checks: Sequence[Check]) -> ShownTable:
    """What was looked at, a row each."""
    rows = [("ok" if check.ok else "WRONG", check.name, check.detail) for check in checks]
    return ShownTable(["", "what", "detail"], rows)


@dataclass(frozen=True, order=True, slots=True)
class Package:
    """A package that is installed, which a mechanism comes from."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Mechanism(ABC, Generic[P]):
    """What a run and ``verify`` ask of a mechanism. ``P`` is what it prepares."""

    name: ClassVar[str]
    """The name by which specs, plans and manifests know it."""
    spec: ClassVar[type[Spec]]
    """The model of its spec."""
    accounted: ClassVar[bool] = False
    """Whether its releases are charged to a ledger."""
    keyed: ClassVar[bool] = False
    """Whether a release draws with a secret key of its own, and can therefore be replayed, and made final."""
    on_spark: ClassVar[bool] = False
    """Whether releases on Spark are the same, byte by byte: shown by ``tests/engines/test_spark_releases.py``."""
    measures_counts: ClassVar[bool] = True
    """Whether ``measure`` works on what ``count`` left. Where it is false, ``measure`` reads the records itself, and
    what it leaves is kept only if they did not change meanwhile."""
    has_truth: ClassVar[bool] = True
    """Whether it is made from records, so that there is a truth to compare with; measurements are none."""
    methods: ClassVar[tuple[str, ...]] = ()
    """The methods that ``confide new --method`` can draft a spec for, the default first; none: there is one alone."""
    memory_per_record: ClassVar[int] = 0
    """Bytes of memory for each record, where all of them are held at once."""
    without_key: ClassVar[str] = "this release has no key of its own: what noise it has belongs to the records"
    """Why there is nothing to replay, where ``keyed`` is false."""
    can: ClassVar[Mapping[str, str]] = {}
    """What else it is able to do: by the name of an ability the place of its function or class, ``module:name``."""
    explain: ClassVar[Explanation] = Explanation()
    """What its releases say to their readers."""
    package: Package | None = None
    """The package that it comes from, where that is not Confide: set by the registry, and named in the manifest."""
    refused_packages: Sequence[Finding] = ()
    """Other packages that declare a mechanism of its name, and are not used: set by the registry."""

    # Before a record is read

    @abstractmethod
    def prepare(self, loaded: LoadedSpec, engine: Engine) -> P:
        """What spec and frame say: the problem. Raises with all findings."""

    @abstractmethod
    def plan(self, problem: P) -> Plan:
        """Every measurement and its price; what else decides the output is in ``Plan.question``."""

    @abstractmethod
    def bytes_needed(self, problem: P, plan: Plan) -> int:
        """A generous guess of what a run takes on the disk, from public knowledge alone: see ``bytes_of_records``."""

    def public_inputs(self, problem: P) -> Mapping[str, PublicInput]:  # noqa: ARG002 - for those made with other releases
        """Published figures that the release is made with, by their key under ``[data]``; ``plan`` has put each of
        them into the question, under :data:`confide.releases.plan.PUBLIC_INPUTS`."""
        return {}

    # With the records

    @abstractmethod
    def fingerprint(self, problem: P) -> str:
        """SHA-256 of what the release is made from, read anew from the files at each call: of several files of records
        one (:func:`confide.inputs.records.fingerprint_of_files`). The runner compares it before and after records are
        read, and the noise is bound to it."""

    @abstractmethod
    def check(self, problem: P, job: Job) -> list[Finding]:
        """Every problem of what the release is made from."""

    def bytes_of_records(self, problem: P, job: Job) -> int:  # noqa: ARG002 - for mechanisms that publish records
        """What the disk must hold beside :meth:`bytes_needed` because there are so many records; asked once they passed
        the check. For mechanisms that publish records, and whose number of records is no secret."""
        return 0

    def count(self, problem: P, job: Job) -> None:
        """True counts into the confidential zone (``workspace.counts``). Nothing is drawn here. A mechanism that keeps
        no true counts leaves this out, and says so in ``measures_counts``."""

    @abstractmethod
    def measure(self, problem: P, job: Job, noise: NoiseSource | None) -> None:
        """Truth plus noise into ``workspace.measured``: the only place where they meet. Goes on where it was
        interrupted. ``noise`` is there where the mechanism is keyed."""

    # From measurements alone

    def statistics(self, problem: P, job: Job) -> Mapping[str, Any]:  # noqa: ARG002 - for mechanisms that estimate
        """What the manifest says of how the measurements became the release. It follows from measurements and public
        knowledge alone, and is the same whatever machines, processes and interruptions there were."""
        return {}

    @abstractmethod
    def publish(self, problem: P, job: Job, release: ReleaseWriter) -> None:
        """The files of the release, from measurements alone."""

    def guarantee(self, problem: P, job: Job) -> Mapping[str, Any]:  # noqa: ARG002 - for mechanisms without a loss
        """What the manifest says is promised: ``privacy`` (with ``in_words``) and ``noise``, and what else there is to
        say, such as the ``source`` of measurements. By default the formal guarantee of the plan."""
        return formal_guarantee(job.plan, job.loaded.spec.privacy.delta)

    @abstractmethod
    def documents(self, manifest: Mapping[str, Any]) -> Mapping[str, str]:
        """The certificate of a release with a loss, or the statement of one without, by file name: from the manifest
        alone."""

    # From the written files alone

    def restated(self, plan: Plan, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """What ``guarantee`` must have said, computed anew from the plan in a manifest: ``verify`` demands it, word by
        word. Only what does not follow from the plan is taken as the manifest states it."""
        if not plan.has_loss:
            return {part: manifest[part] for part in ("privacy", "noise")}
        return formal_guarantee(plan, stated_delta(manifest))

    @abstractmethod
    def verify(self, release: SealedRelease) -> Iterator[Check]:
        """What only this mechanism can check."""
