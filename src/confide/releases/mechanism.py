"""What a mechanism is to a run: the same few verbs for each, in the order in which a run calls them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from confide.engines import Engine
from confide.errors import Finding
from confide.noise import NoiseStream, ReleaseKey, derive_stream
from confide.releases.folder import ReleaseWriter
from confide.releases.load_spec import LoadedSpec
from confide.releases.plan import Plan
from confide.releases.progress import Progress
from confide.releases.spec import Spec
from confide.releases.workspace import Workspace


@dataclass(frozen=True)
class Job:
    """A run as its mechanism sees it."""

    loaded: LoadedSpec
    engine: Engine
    workspace: Workspace
    progress: Progress


@dataclass(frozen=True)
class NoiseSource:
    """Every noise stream of one release. The derivation binds records and plan (design: noise is a pure function of a
    secret key and a coordinate)."""

    key: ReleaseKey
    records_fingerprint: str
    plan_hash: str
    mechanism: str

    def stream(self, level: str, query: str) -> NoiseStream:
        """The stream of one measurement of the plan."""
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


class Publisher(Protocol):
    """What every way to a release has, wherever its measurements come from."""

    @property
    def name(self) -> str:
        """The name by which specs and plans know it."""

    @property
    def spec(self) -> type[Spec]:
        """The model of its spec."""

    def prepare(self, loaded: LoadedSpec, engine: Engine) -> Any:
        """What the spec and the frame say, before a record is read. Raises with all findings."""

    def plan(self, question: Any) -> Plan:
        """Every measurement and its price."""

    def bytes_needed(self, question: Any, plan: Plan) -> int:
        """A generous guess of what a run takes on the disk, from public knowledge alone."""

    def statistics(self, question: Any, job: Job) -> Mapping[str, Any]:
        """What the manifest says of how the measurements became the release. It follows from measurements and public
        knowledge alone, and is the same whatever machines, processes and interruptions there were. May be empty."""

    def publish(self, question: Any, plan: Plan, job: Job, release: ReleaseWriter) -> None:
        """The tables of the release, from measurements alone."""

    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        """What only this mechanism can check, from the written files alone."""


class Mechanism(Publisher, Protocol):
    """A way from records to a release."""

    def records_file(self, question: Any) -> Path:
        """The file whose fingerprint the noise is bound to."""

    def check_records(self, question: Any, job: Job) -> list[Finding]:
        """Every problem of the records."""

    def tabulate(self, question: Any, job: Job) -> None:
        """True counts into the confidential zone."""

    def measure(self, question: Any, plan: Plan, job: Job, noise: NoiseSource) -> None:
        """Truth plus noise: the only place where they meet."""
