"""What a run drew, measurement by measurement, and the laws that it promises: what ``confide audit noise`` looks at.

A law is that of a number which was added to the truth, or of what a draw led to where the draw itself is kept nowhere:
one of some outcomes (:class:`OutcomeLaw`), a choice by thresholds (:class:`ChoiceLaw`), or how many of some empty
groups are published (:class:`SurvivorLaw`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from confide.arrays import Integers
from confide.noise import BoundedDistribution, NoiseDistribution


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
