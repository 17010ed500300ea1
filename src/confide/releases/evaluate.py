"""What evaluations and audits need of runs: sealed releases of the same question, the true counts, and what was drawn.

Draws are listed measurement by measurement with the laws that they promise: what ``confide audit noise`` looks at. A
law is that of a number which was added to the truth, or of what a draw led to where the draw itself is kept nowhere:
one of some outcomes (:class:`OutcomeLaw`), a choice by thresholds (:class:`ChoiceLaw`), or how many of some empty
groups are published (:class:`SurvivorLaw`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from confide.arrays import Integers
from confide.errors import CONFIDENTIAL, Finding, Place, RunError
from confide.noise import BoundedDistribution, NoiseDistribution
from confide.releases.folder import MANIFEST
from confide.releases.workspace import RunIdentity, Workspace, no_room_is_an_error


@dataclass(frozen=True, slots=True)
class OutcomeLaw:
    """The probabilities of some whole numbers, in ascending order: the law of what a draw leads to, such as the choice
    of a table, where the draw itself is kept nowhere."""

    values: tuple[int, ...]
    probabilities: tuple[float, ...]


HIDDEN = -1
"""The outcome of a choice of which nothing is seen."""


@dataclass(frozen=True, slots=True)
class ChoiceLaw:
    """A choice by thresholds: how many of ``cuts`` are at most a draw X of ``noise``.

    If none is, and there is a ``second`` law, a second and independent draw Y hides the outcome unless it is above
    ``hidden_up_to``; what comes out is then :data:`HIDDEN`:

        P(k) = P(cuts[k-1] ≤ X < cuts[k]),   P(hidden) = P(X < cuts[0]) P(Y ≤ hidden_up_to).
    """

    noise: NoiseDistribution
    cuts: tuple[int, ...]
    second: NoiseDistribution | None = None
    hidden_up_to: int = 0


@dataclass(frozen=True, slots=True)
class SurvivorLaw:
    """How many of ``trials`` independent choices are not hidden: a binomial number."""

    trials: int = field(repr=False)
    choice: ChoiceLaw


ResidualLaw: TypeAlias = NoiseDistribution | BoundedDistribution | OutcomeLaw | ChoiceLaw | SurvivorLaw
"""What a residual is promised to be drawn from."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """What a run added to the truth in one measurement: released, or measured, minus true. Confidential.

    An array has a row for each measured unit and a column for each cell. ``law_of``, ``above`` and ``up_to`` are
    broadcast to it.
    """

    level: str
    query: str
    noise: Integers = field(repr=False)
    """Rows x cells: measured minus true; or, with the law of an outcome, what came out."""
    laws: tuple[ResidualLaw, ...]
    source: str
    """Where the figures come from: ``released``, ``measured``, or ``drawn again`` with the key of the run."""
    law_of: Integers | None = field(default=None, repr=False)
    """For each draw the number of its law, -1 where nothing was drawn; by default the first law everywhere."""
    units: Integers | None = field(default=None, repr=False)
    """For each row the number of its unit, ascending; by default they are numbered through."""
    above: Integers | None = field(default=None, repr=False)
    """For each draw the number above which it had to be, given all else that is seen; none: it may be anything."""
    up_to: Integers | None = field(default=None, repr=False)
    """For each draw the largest number that it could be, given all else that is seen."""
    planned: str = ""
    """The query as the plan has it, where several arrays are of one measurement; by default ``query``."""
    complete: bool = True
    """Whether every draw that the plan has priced is here."""
    family: str = ""
    """Draws of different families are not promised to be independent, and are not compared."""
    stage: str = ""
    """Arrays of one stage are also judged together, by themselves: a scale may be wrong in one stage alone."""

    @property
    def conditional(self) -> bool:
        """Whether draws have their laws given something else."""
        return self.above is not None or self.up_to is not None


# What an evaluation needs of runs: the same question and records, sealed releases, and the true counts they kept.


def check_same_question(runs: Sequence[tuple[Path, RunIdentity]]) -> None:
    """Raises unless the runs differ in their key alone: one plan, one set of records, and no run twice."""
    (_, first), *others = runs
    findings = []
    seen = {first.run_id}
    for folder, run in others:
        if run.run_id in seen:
            findings.append(Finding.of("repeated-run", where=Place(file=str(folder))))
        elif (run.mechanism, run.final_hash) != (first.mechanism, first.final_hash):
            findings.append(
                Finding.of(
                    "other-plan",
                    where=Place(file=str(folder)),
                    final_hash=run.final_hash[:16],
                    final_hash_expected=first.final_hash[:16],
                )
            )
        elif run.records_fingerprint != first.records_fingerprint:
            findings.append(Finding.of("other-records/run", where=Place(file=str(folder))))
        seen.add(run.run_id)
    if findings:
        raise RunError(findings)


def check_different_runs(runs: Sequence[tuple[Path, RunIdentity]]) -> None:
    """Raises if a run is given twice: held against itself, its noise would be the same."""
    seen: set[str] = set()
    for folder, run in runs:
        if run.run_id in seen:
            raise RunError("repeated-run", where=Place(file=str(folder)))
        seen.add(run.run_id)


@contextmanager
def held(workspaces: Sequence[Workspace]) -> Iterator[None]:
    """The runs, locked; what was spilled is gone afterwards."""
    with ExitStack() as stack:
        for workspace in workspaces:
            stack.enter_context(workspace.locked())
            stack.enter_context(no_room_is_an_error(workspace.root))
            stack.callback(workspace.tidy)
        yield


def require_sealed(workspace: Workspace) -> None:
    """Raises if there is no release yet to compare with the true counts."""
    if not (workspace.release / MANIFEST).exists():
        raise RunError("not-sealed/compare", where=Place(file=str(workspace.release)))


def require_records(workspace: Workspace, fingerprint: str, otherwise: str) -> None:
    """Raises unless there is a sealed release, made of the records (and settings) with this fingerprint.

    Args:
        workspace: The run.
        fingerprint: SHA-256 of what the release depends on, as the mechanism computes it now.
        otherwise: What is said where it is another one than when the run began.
    """
    require_sealed(workspace)
    begun = workspace.identity()
    if begun is None or begun.records_fingerprint != fingerprint:
        raise RunError(
            "run-changed/same-spec-frame", where=Place(file=str(workspace.root)), found=CONFIDENTIAL, what=otherwise
        )


def no_truth(file: Path) -> RunError:
    """The error for true counts that are gone."""
    return RunError("no-truth/counts", where=Place(file=file.name))
