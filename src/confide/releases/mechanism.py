"""A mechanism: one way from confidential records to a release, with all that belongs to it.

A mechanism is one object. Its verbs stand below in the order in which a run, a reader and a curator call them; nothing
outside its folder asks for its name. ``docs/architecture.md`` shows how to add one: a package with an entry point, by
which :data:`confide.mechanisms.MECHANISMS` finds it.

======================  ==================================================================================
before a record         ``prepare`` ``plan`` ``bytes_needed``
with the records        ``fingerprint`` ``check`` ``count`` ``measure``
from measurements       ``statistics`` ``publish`` ``guarantee`` ``documents`` ``codebook`` ``figure_noise``
from the written files  ``restated`` ``verify`` ``published``
for a person            ``draft`` ``draft_from`` ``board`` ``summary`` ``evaluate``
for a rehearsal         ``record_form`` ``made_up_people`` ``rehearsed``
for an audit            ``residuals`` ``made_up_records`` ``made_up_canaries`` ``with_records`` ``silenced``
                        ``trial_counts``
======================  ==================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from confide.arrays import Integers
from confide.engines import Engine, Source
from confide.errors import Finding, Place, RunError
from confide.inputs.made_up import Canaries, MadeUpPeople, RecordForm, canary_places, one_in_each, places_needed
from confide.inputs.proposals import OfficeFiles
from confide.noise import DiscreteGaussian, NoiseStream, ReleaseKey, ReleaseNoise, derive_stream
from confide.releases.draft import Draft
from confide.releases.evaluate import OutcomeLaw as OutcomeLaw
from confide.releases.evaluate import ResidualLaw as ResidualLaw
from confide.releases.evaluate import Residuals as Residuals
from confide.releases.folder import ReleaseWriter, formal_guarantee, stated_delta
from confide.releases.plan import NO_BUDGET, Plan, Summary, summary_of_levels
from confide.releases.progress import Progress
from confide.releases.published import Published
from confide.releases.spec import LoadedSpec, Spec
from confide.releases.workspace import Workspace
from confide.report.dossier import Evaluated, Evaluating

if TYPE_CHECKING:
    from confide.releases.boards import Board
    from confide.releases.companions import Codebook
    from confide.releases.figure_noise import FigureNoise

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


SILENT = DiscreteGaussian("1/1000")
"""Noise that is zero but once in e^500 draws."""


@dataclass(frozen=True, eq=False)
class TrialCounts:
    """Noisy counts of one measurement of the plan with one law, from a trial on made-up records.

    ``coordinates`` rise; the same coordinate is the same count in every trial of the same problem.
    """

    level: str
    query: str
    law: ReleaseNoise
    coordinates: Integers
    values: Integers


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that ``verify`` looked at in a release."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, order=True, slots=True)
class Package:
    """A package that is installed, which a mechanism comes from."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Mechanism(ABC, Generic[P]):
    """What a run, a reader of a release and a curator ask of a mechanism. ``P`` is what it prepares."""

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
    tunable: ClassVar[bool] = False
    """Whether specs have a trade-off board: see ``board``."""
    from_targets: ClassVar[str] = ""
    """What finds choices from targets, ``module:function``: it takes a spec and targets in words, and has an option
    for each thing that can be asked besides. None: entries of the board are moved one by one."""
    memory_per_record: ClassVar[int] = 0
    """Bytes of memory for each record, where all of them are held at once."""
    without_key: ClassVar[str] = "this release has no key of its own: what noise it has belongs to the records"
    """Why there is nothing to replay, where ``keyed`` is false."""
    package: Package | None = None
    """The package that it comes from, where that is not Confide: set by the registry, and named in the manifest."""
    refused_packages: Sequence[Finding] = ()
    """Other packages that declare a mechanism of its name, and are not used: set by the registry."""

    @property
    def origin(self) -> list[Finding]:
        """What whoever checks a spec has to know of where its mechanism comes from: nothing, if it is Confide's own and
        nobody else has taken its name."""
        warnings = [replace(each, severity="warning") for each in self.refused_packages]
        if self.package is not None:
            warnings.append(
                Finding(
                    "foreign-mechanism",
                    f"the mechanism {self.name} comes from another package, and its promise is that package's",
                    where=Place(path="release.mechanism"),
                    found=str(self.package),
                    expected="a mechanism of Confide, or of a package that you trust with the records",
                    remedy="read it, or have it read; the manifest and the certificate name the package",
                    severity="warning",
                )
            )
        return warnings

    # Before a record is read

    @abstractmethod
    def prepare(self, loaded: LoadedSpec, engine: Engine) -> P:
        """What spec and frame say: the problem. Raises with all findings."""

    @abstractmethod
    def plan(self, problem: P) -> Plan:
        """Every measurement and its price; what else decides the output stands in ``Plan.question``."""

    @abstractmethod
    def bytes_needed(self, problem: P, plan: Plan) -> int:
        """A generous guess of what a run takes on the disk, from public knowledge alone: see ``bytes_of_records``."""

    # With the records

    @abstractmethod
    def fingerprint(self, problem: P) -> str:
        """SHA-256 of what the release is made from, read anew from the files at each call. The runner compares it
        before and after records are read, and the noise is bound to it."""

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

    def codebook(self, manifest: Mapping[str, Any]) -> Codebook | None:  # noqa: ARG002
        """What the tables hold, for the files that explain a release to its readers: from the manifest alone. None
        where a release has none."""
        return None

    def figure_noise(self, manifest: Mapping[str, Any]) -> FigureNoise | str:  # noqa: ARG002
        """The noise of published figures, for sums of them with their margins; or why it is not known."""
        return "the release does not say how far its figures are off"

    # From the written files alone

    def restated(self, plan: Plan, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """What ``guarantee`` must have said, computed anew from the plan in a manifest: ``verify`` demands it, word by
        word. Only what does not follow from the plan is taken as the manifest states it."""
        if not plan.has_loss:
            return {part: manifest[part] for part in ("privacy", "noise")}
        return formal_guarantee(plan, stated_delta(manifest))

    @abstractmethod
    def verify(self, folder: Path, manifest: dict[str, Any]) -> Iterator[Check]:
        """What only this mechanism can check."""

    def published(self, folder: Path, manifest: dict[str, Any], *choice: Any) -> Published:  # noqa: ARG002
        """The release as published tables, for attacks and comparison; raises where it has none that they can read.
        ``choice`` narrows it down, such as to some groups, where a release has too much for one reading."""
        raise RunError(
            "not-published-as-tables",
            "this release has no tables for an attack to read",
            where=Place(file=str(folder)),
            found=f"the mechanism {manifest['mechanism']}",
            expected="a release of tables or of records",
            remedy="take a release of another mechanism",
        )

    # For a person

    def draft(self, product: str | None, values: Mapping[str, str]) -> Draft | None:  # noqa: ARG002
        """The spec that ``confide new`` writes; none where nobody starts from one."""
        return None

    def draft_from(self, office: OfficeFiles, folder: Path, values: Mapping[str, str]) -> Draft | None:  # noqa: ARG002
        """The spec that ``confide new --from`` writes to ``folder`` for an office's own files; none where there is
        no such draft."""
        return None

    def board(self, loaded: LoadedSpec) -> Board | None:  # noqa: ARG002
        """The trade-off board of a spec: what can be chosen and what each choice does, from spec, schema and frame
        alone. None where there is nothing to choose. Raises with what is wrong with the spec."""
        return None

    def contents(self, plan: Plan) -> str:
        """What a release has, in words: the end of «The release has …»."""
        return f"{plan.counts:,} counts"

    def unaccounted(self, plan: Plan) -> str:  # noqa: ARG002 - for mechanisms that state a loss no ledger can hold
        """Why nothing is spent, where a plan has no loss."""
        return NO_BUDGET

    def summary(self, plan: Plan) -> Summary:
        """What a release would have and cost, for a terminal."""
        return summary_of_levels(plan, self.contents(plan), self.unaccounted(plan))

    def evaluate(self, asked: Evaluating) -> Evaluated:
        """The release against the truth, with its page, for the curator alone."""
        raise RunError(
            "no-evaluation",
            "releases of this mechanism are not compared with the truth",
            where=Place(path="release.mechanism"),
            found=f"the mechanism {asked.plan.mechanism}",
            expected="a mechanism with an evaluation of its own",
            remedy="compare the released tables with the records yourself, in the confidential zone",
        )

    def residuals(self, problem: P, job: Job, noise: NoiseSource | None) -> Iterator[Residuals]:  # noqa: ARG002
        """What a sealed run added to the truth, measurement by measurement, for ``confide audit noise``. It is taken
        from the released files where figures are published as they were measured, and from the confidential folder
        where not. ``noise`` is there while the key is kept, for measurements that are kept nowhere."""
        raise RunError(
            "no-noise",
            "releases of this mechanism have no noise to audit",
            where=Place(path="release.mechanism"),
            found=f"the mechanism {job.plan.mechanism}",
            expected="a mechanism that declares what it drew",
            remedy="audit the run that drew the noise; where nothing is drawn there is nothing to audit",
        )

    # For a rehearsal (``confide rehearse``), on made-up records: none of these verbs may look at a record

    def record_form(self, problem: P) -> RecordForm:  # noqa: ARG002
        """What a record is made of, from schema and frame alone."""
        raise self.not_rehearsed("the mechanism does not say what its records are made of")

    def made_up_people(self, problem: P, people: MadeUpPeople) -> pa.Table:
        """The file of made-up records, under the names of the office's columns: mended so that it passes the check,
        and with what else a record has, such as a household or a key."""
        records: Source = problem.records  # type: ignore[attr-defined]
        return people.table(records.theirs)

    def rehearsed(self, values: dict[str, Any]) -> None:
        """Changes what else of a spec's values is another in a rehearsal, such as a secret that it holds."""

    def not_rehearsed(self, why: str) -> RunError:
        """The error for a spec that cannot be rehearsed."""
        return RunError(
            "no-rehearsal",
            f"this spec cannot be rehearsed on made-up records: {why}",
            where=Place(path="release.mechanism"),
            found=f"the mechanism {self.name}",
            expected="a mechanism and a spec that read records",
            remedy="run it where nothing is spent; or rehearse the spec of the run that reads the records",
        )

    # For an audit from outside (``confide audit privacy``), on made-up records and in this process

    def made_up_records(self, problem: P, twins: int) -> tuple[pa.Table, pa.Table]:  # noqa: ARG002
        """Two made-up files of records, from schema and frame alone, that are neighbours ``twins`` times over: in the
        second, ``twins`` records that are all alike were changed into others, or removed, as the plan's relation says.
        """
        raise RunError(
            "no-privacy-audit",
            "releases of this mechanism are not audited from outside",
            where=Place(path="release.mechanism"),
            found=f"the mechanism {self.name}",
            expected="a mechanism that makes up records for its own audit",
            remedy="give the mechanism the verbs made_up_records and trial_counts",
        )

    def made_up_canaries(self, problem: P, number: int) -> Canaries:
        """Made-up records for an audit in one run, from schema and frame alone, placed by what the plan measures, so
        that each has a count to itself; a finding where there is not room enough for so many."""
        if type(self).record_form is Mechanism.record_form:
            raise self._no_canaries(number)
        form, neighbours = self.record_form(problem), self.plan(problem).neighbours
        if form.block is None:
            raise self._no_canaries(number)
        places = canary_places(form, places_needed(number, neighbours))
        return Canaries.at(places, one_in_each(places, form.block), neighbours)

    def _no_canaries(self, number: int) -> RunError:
        return RunError(
            "no-canaries",
            "releases of this mechanism are not audited with canaries",
            where=Place(path="release.mechanism"),
            found=f"the mechanism {self.name} and {number:,} canaries",
            expected="a mechanism that makes up canaries for its own audit",
            remedy="audit with many runs: leave out --canaries",
        )

    def with_records(self, problem: P, records: Source) -> P:
        """The same problem with made-up records, in the codes of the schema, one row each."""
        changed: P = replace(problem, records=records)  # type: ignore[type-var]
        return changed

    def silenced(self, problem: P, plan: Plan) -> tuple[P, Plan]:
        """Problem and plan with noise that is zero: what a trial gives then are the true counts of made-up records."""
        return problem, replace(plan, measures=tuple(replace(measure, law=SILENT) for measure in plan.measures))

    def trial_counts(
        self, problem: P, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        """Measures by the code that ``measure`` runs, and reads what came of it. The engine of ``job`` maps in this
        process, and leaves the tables of each folder in ``mapped``. Every measurement of the plan is there, as far as
        anybody could ever see it."""
        raise NotImplementedError
