"""What a mechanism may do beside making a release. Each ability has one signature; a mechanism names in
:attr:`~confide.releases.mechanism.Mechanism.can` the place of its function or class, ``module:name``, which is imported
when somebody asks for it. Who asks says what happens where a mechanism lacks it.

==============  ===================================================================  ==================================
ability         what it is                                                           asked by
==============  ===================================================================  ==================================
``draft``       ``(product, values)``, the spec to start from                        ``confide new``
``draft_from``  ``(office, folder, values)``, the same for an office's own files     ``confide new --from``
``board``       a class: :class:`~confide.releases.boards.Board`                     ``confide tune``, the studio
``targets``     ``(spec, targets, *, ...)``, what finds choices from targets         ``confide tune --target``
``evaluate``    ``(asked)``, the release against the truth                           ``confide evaluate``
``published``   ``(asked)``, a release as published tables, for the laboratory       attacks, comparison
``residuals``   ``(problem, job, noise)``, what a sealed run added to the truth      ``confide audit noise``
``rehearsal``   a class: :class:`MadeUpRecords`                                      ``confide rehearse``
``audit``       a class: :class:`TrialAudit`                                         ``confide audit privacy``
==============  ===================================================================  ==================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from confide.answers import TypedAnswer
from confide.arrays import Integers
from confide.engines import Source
from confide.errors import Place, RunError
from confide.inputs.made_up import Canaries, MadeUpPeople, RecordForm, canary_places, one_in_each, places_needed
from confide.lazy_names import named
from confide.noise import DiscreteGaussian, ReleaseNoise
from confide.releases.mechanism import Job, Mechanism, NoiseSource
from confide.releases.plan import Plan

if TYPE_CHECKING:
    from confide.inputs.proposals import OfficeFiles
    from confide.releases.boards import Board
    from confide.releases.draft import Draft
    from confide.releases.replay import Residuals
    from confide.report.dossier import Evaluated, Evaluating

P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Ability(Generic[T]):
    """One thing that a mechanism may be able to do."""

    name: str

    def of(self, mechanism: Mechanism[Any]) -> T | None:
        """The function or class of a mechanism, imported now; none if the mechanism is not able to do this."""
        place = mechanism.can.get(self.name)
        return None if place is None else named(place)

    def among(self, mechanisms: Mapping[str, Mechanism[Any]]) -> list[str]:
        """The names of the mechanisms that are able to do this."""
        return [name for name in mechanisms if self.name in mechanisms[name].can]


@dataclass(frozen=True)
class MadeUpRecords(ABC, Generic[P]):
    """Made-up records in place of the office's. None of this may look at a record."""

    mechanism: Mechanism[P]

    @abstractmethod
    def record_form(self, problem: P) -> RecordForm:
        """What a record is made of, from schema and frame alone."""

    def made_up_people(self, problem: P, people: MadeUpPeople) -> pa.Table:
        """The file of made-up records, under the names of the office's columns: mended so that it passes the check,
        and with what else a record has, such as a household or a key."""
        records: Source = problem.records  # type: ignore[attr-defined]
        return people.table(records.theirs)

    def rehearsed(self, values: dict[str, Any]) -> None:
        """Changes what else of a spec's values is another in a rehearsal, such as a secret that it holds."""


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


@dataclass(frozen=True)
class TrialAudit(ABC, Generic[P]):
    """An audit from outside, on made-up records and in this process."""

    mechanism: Mechanism[P]

    @abstractmethod
    def made_up_records(self, problem: P, twins: int) -> tuple[pa.Table, pa.Table]:
        """Two made-up files of records, from schema and frame alone, that are neighbours ``twins`` times over: in the
        second, ``twins`` records that are all alike were changed into others, or removed, as the plan's relation says.
        """

    @abstractmethod
    def trial_counts(
        self, problem: P, job: Job, noise: NoiseSource, mapped: Mapping[Path, Sequence[pa.Table]]
    ) -> Iterator[TrialCounts]:
        """Measures by the code that ``measure`` runs, and reads what came of it. The engine of ``job`` maps in this
        process, and leaves the tables of each folder in ``mapped``. Every measurement of the plan is there, as far as
        anybody could ever see it."""

    def made_up_canaries(self, problem: P, number: int) -> Canaries:
        """Made-up records for an audit in one run, from schema and frame alone, placed by what the plan measures, so
        that each has a count to itself; a finding where there is not room enough for so many."""
        rehearsal = REHEARSAL.of(self.mechanism)
        form = None if rehearsal is None else rehearsal(self.mechanism).record_form(problem)
        if form is None or form.block is None:
            raise RunError(
                "no-canaries/releases",
                where=Place(path="release.mechanism"),
                mechanism=self.mechanism.name,
                number=number,
            )
        neighbours = self.mechanism.plan(problem).neighbours
        places = canary_places(form, places_needed(number, neighbours))
        return Canaries.at(places, one_in_each(places, form.block), neighbours)

    def with_records(self, problem: P, records: Source) -> P:
        """The same problem with made-up records, in the codes of the schema, one row each."""
        changed: P = replace(problem, records=records)  # type: ignore[type-var]
        return changed

    def silenced(self, problem: P, plan: Plan) -> tuple[P, Plan]:
        """Problem and plan with noise that is zero: what a trial gives then are the true counts of made-up records."""
        return problem, replace(plan, measures=tuple(replace(measure, law=SILENT) for measure in plan.measures))


DRAFT = Ability[Callable[["str | None", Mapping[str, str]], "Draft"]]("draft")
DRAFT_FROM = Ability[Callable[["OfficeFiles", Path, Mapping[str, str]], "Draft"]]("draft_from")
BOARD = Ability[type["Board"]]("board")
TARGETS = Ability[Callable[..., TypedAnswer]]("targets")
EVALUATE = Ability[Callable[["Evaluating"], "Evaluated"]]("evaluate")
PUBLISHED = Ability[Callable[[Any], Any]]("published")
"""What the laboratory asks for, and has the types of: :mod:`confide.lab.published`."""
RESIDUALS = Ability[Callable[[Any, Job, "NoiseSource | None"], "Iterator[Residuals]"]]("residuals")
REHEARSAL = Ability[Callable[[Mechanism[Any]], MadeUpRecords[Any]]]("rehearsal")
AUDIT = Ability[Callable[[Mechanism[Any]], TrialAudit[Any]]]("audit")
ABILITIES: tuple[Ability[Any], ...] = (
    DRAFT,
    DRAFT_FROM,
    BOARD,
    TARGETS,
    EVALUATE,
    PUBLISHED,
    RESIDUALS,
    REHEARSAL,
    AUDIT,
)
