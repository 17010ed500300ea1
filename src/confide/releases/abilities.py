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
``audit``       a class: the laboratory's ``TrialAudit``                              ``confide audit privacy``
==============  ===================================================================  ==================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from confide.answers import TypedAnswer
from confide.engines import Source
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.lazy_names import named
from confide.releases.mechanism import Job, Mechanism, NoiseSource

if TYPE_CHECKING:
    from confide.inputs import OfficeFiles
    from confide.releases.boards import Board
    from confide.releases.dossier import Evaluated, Evaluating
    from confide.releases.draft import Draft
    from confide.releases.replay import Residuals

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

    def made_up_files(self, problem: P, people: MadeUpPeople) -> Mapping[str, pa.Table]:
        """Every confidential file of the same people, by their keys under ``[data]``."""
        return {"records": self.made_up_people(problem, people)}

    def rehearsed(self, values: dict[str, Any]) -> None:
        """Changes what else of a spec's values is another in a rehearsal, such as a secret that it holds."""


DRAFT = Ability[Callable[["str | None", Mapping[str, str]], "Draft"]]("draft")
DRAFT_FROM = Ability[Callable[["OfficeFiles", Path, Mapping[str, str]], "Draft"]]("draft_from")
BOARD = Ability[type["Board"]]("board")
TARGETS = Ability[Callable[..., TypedAnswer]]("targets")
EVALUATE = Ability[Callable[["Evaluating"], "Evaluated"]]("evaluate")
PUBLISHED = Ability[Callable[[Any], Any]]("published")
RESIDUALS = Ability[Callable[[Any, Job, "NoiseSource | None"], "Iterator[Residuals]"]]("residuals")
REHEARSAL = Ability[Callable[[Mechanism[Any]], MadeUpRecords[Any]]]("rehearsal")
AUDIT = Ability[Callable[[Mechanism[Any]], Any]]("audit")
"""For published tables and for trials the laboratory asks alone, and has the types of what it gets."""
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
