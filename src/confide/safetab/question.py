"""What is asked of the records: the universe of population groups, level by level, and the noise of each.

The universe of a level is every area of its type crossed with every characteristic iteration that is tabulated there,
whether anybody is in it or not. It comes from the geography and the code lists, never from the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from confide.engines import Source
from confide.noise import Law
from confide.privacy import Neighbours
from confide.runs.plan import budget_of, calibrate
from confide.safetab.codes import CodeLists, stability
from confide.safetab.regions import CoterminousSet, Regions
from confide.safetab.settings import LevelSettings, Settings
from confide.safetab.spec import SafeTabSpec

GROUPS_PER_PART = 1 << 22
"""How many groups are measured at a time: enough to be quick, few enough to be held."""


@dataclass(frozen=True, eq=False)
class GroupLevel:
    """A population group level: its universe, its noise, and what is published of it.

    Group ``area * len(iterations) + position`` is the area with this number and the iteration ``iterations[position]``.
    Every group of the level costs ``budget / stability``: a record is in at most ``stability`` of them (paper, Lemma 2
    and Theorem 1; ``docs/proofs/safetab.md``).
    """

    settings: LevelSettings
    areas: int
    iterations: npt.NDArray[np.int64]
    """The numbers of the iterations tabulated here, sorted."""
    total_only: npt.NDArray[np.bool_]
    """For each of them, whether it gets a total alone, with the whole budget of a group."""
    stability: int
    first: Law
    """Of the total that chooses the table, and is never published (stage 1)."""
    second: Law
    """Of the counts of the chosen table (stage 2)."""
    total: Law
    """Of the totals of total-only groups."""
    suppressed_up_to: int | None
    """A group that gets a total alone is published only if this is above the number; None: always."""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def groups(self) -> int:
        """The number of groups, of both kinds."""
        return self.areas * len(self.iterations)

    @property
    def areas_per_part(self) -> int:
        """How many areas are measured at a time."""
        return max(1, GROUPS_PER_PART // len(self.iterations))

    @property
    def parts(self) -> range:
        """The parts in which the level is measured, by their first area."""
        return range(0, self.areas, self.areas_per_part)

    @property
    def adaptive(self) -> int:
        """The number of groups whose table is chosen."""
        return self.areas * int(np.count_nonzero(~self.total_only))


@dataclass(frozen=True, eq=False)
class SafeTabQuestion:
    """A spec with everything public that it refers to."""

    spec: SafeTabSpec
    settings: Settings
    lists: CodeLists
    regions: Regions
    records: Source
    levels: tuple[GroupLevel, ...]
    coterminous: tuple[CoterminousSet, ...] = ()
    """Sets of areas that get the same figures, if that was asked for."""


def group_level(level: LevelSettings, settings: Settings, lists: CodeLists, regions: Regions) -> GroupLevel | None:
    """The universe and the noise of a level; None if it has no area or no iteration: nothing is then measured."""
    iterations = lists.kept(level.iteration_level, large=level.is_large)
    areas = len(regions.areas[level.region_type])
    if not areas or not len(iterations):
        return None
    degree = stability(lists, level.iteration_level, large=level.is_large, max_race_codes=settings.max_race_codes)
    second = _law(settings, level.budget * (1 - settings.stage_1_fraction), degree)
    suppresses = settings.zero_suppression > 0 and not level.is_large
    return GroupLevel(
        settings=level,
        areas=areas,
        iterations=iterations,
        total_only=np.array([lists.iterations[number].total_only for number in iterations]),
        stability=degree,
        first=_law(settings, level.budget * settings.stage_1_fraction, degree),
        second=second,
        total=_law(settings, level.budget, degree),
        suppressed_up_to=second.quantile(settings.zero_suppression) if suppresses else None,
    )


def _law(settings: Settings, budget: Fraction, degree: int) -> Law:
    """The noise of one group: each gets the same part of the budget, and a record is in at most ``degree`` groups."""
    return calibrate(budget_of(settings.definition, budget / degree), Neighbours.ADD_REMOVE)
