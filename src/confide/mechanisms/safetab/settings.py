"""The settings of a SafeTab-P release: population group levels with their budgets and thresholds, as plain values.

They are the same whether they come from a spec of ours or from the Census Bureau's ``config.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from confide.privacy import Definition

US_REGIONS = ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH")
PR_REGIONS = ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE")
REGION_TYPES = US_REGIONS + PR_REGIONS
"""The geographic summary levels, in the order in which they are tabulated."""

LARGE_REGIONS = frozenset({"USA", "STATE", "PR-STATE"})
"""Where total-only iterations are tabulated, coarse-only ones are not, and nothing is suppressed."""

PUERTO_RICO = "72"
STATES = tuple(f"{number:02d}" for number in range(1, 57) if number not in (3, 7, 14, 43, 52))
"""The FIPS codes of the fifty states and the District of Columbia."""

ITERATION_LEVELS = {1: "regional", 2: "detailed"}
"""The characteristic iteration levels by number; level 0, the major races, is never tabulated."""

CHOICE, TABLE, TOTAL_ONLY = "choice of table", "table", "total-only groups"
"""The measurements of a level: stage 1, stage 2, and the total of groups that get nothing else."""

NAMED_SETS = DERIVED, ON_LAND = "derived", "derived-on-land"
"""Sets of coterminous areas from the geography alone; the second passes over blocks of water."""
MOST_RACE_CODES = 8
LARGEST_THRESHOLD = 1 << 62


@dataclass(frozen=True, slots=True)
class LevelName:
    """Which population group level is meant: every area of a type crossed with every iteration of a level."""

    region_type: str
    iteration_level: int

    @property
    def name(self) -> str:
        """The name by which plans, streams and files know the level, such as ``STATE-2``."""
        return f"{self.region_type}-{self.iteration_level}"

    @property
    def title(self) -> str:
        """For people: ``STATE, detailed``."""
        return f"{self.region_type}, {ITERATION_LEVELS[self.iteration_level]}"

    @property
    def is_large(self) -> bool:
        """Whether it has total-only groups and nothing is suppressed: nation, states, Puerto Rico as a whole."""
        return self.region_type in LARGE_REGIONS

    @property
    def of_puerto_rico(self) -> bool:
        """Whether it belongs to the Puerto Rico pass."""
        return self.region_type in PR_REGIONS


class PricedLevel(Protocol):
    """What the levels of every program have."""

    @property
    def of_puerto_rico(self) -> bool:
        """Whether it belongs to the Puerto Rico pass."""

    @property
    def cost(self) -> Fraction:
        """The loss of the level when one record is added or removed."""


L = TypeVar("L", bound=PricedLevel)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings(Generic[L]):
    """What decides a release of detailed groups, apart from code lists, geography and records.

    ``states`` are those of the US pass, none if there is no such pass.
    """

    definition: Definition
    levels: tuple[L, ...]
    max_race_codes: int
    negative_counts: bool
    states: tuple[str, ...]
    puerto_rico: bool

    @property
    def all_states(self) -> tuple[str, ...]:
        """The state codes whose records and blocks are read."""
        return (*self.states, PUERTO_RICO) if self.puerto_rico else self.states

    @property
    def passes(self) -> dict[str, tuple[L, ...]]:
        """The levels of each pass that runs, by its name: ``US`` and ``PR``. No record is in both."""
        united_states = tuple(level for level in self.levels if not level.of_puerto_rico)
        puerto_rico = tuple(level for level in self.levels if level.of_puerto_rico)
        return {name: levels for name, levels in (("US", united_states), ("PR", puerto_rico)) if levels}

    @property
    def total(self) -> Fraction:
        """The larger of the sums of level budgets over the two passes: no record is in both (parallel composition)."""
        return max(sum((level.cost for level in levels), Fraction(0)) for levels in self.passes.values())


@dataclass(frozen=True, slots=True)
class LevelSettings(LevelName):
    """A level with what it costs and when its groups get which table.

    ``budget`` is the loss of the level when one record is added or removed: rho, or epsilon under pure differential
    privacy. A group whose first noisy total reaches ``thresholds[k - 1]`` gets the table of statistics level k.
    """

    budget: Fraction
    thresholds: tuple[int, int, int]

    @property
    def cost(self) -> Fraction:
        return self.budget


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeTabSettings(GroupSettings[LevelSettings]):
    """The same of SafeTab-P.

    ``zero_suppression`` is the probability with which a true zero below the states is suppressed; 0: nothing is.
    """

    stage_1_fraction: Fraction
    zero_suppression: Fraction


# Age grids: the four statistics levels of SafeTab-P, from a total alone to sex by 23 age groups.
#
# A group of the population gets one of four tables (paper, Tables 1 to 4):
#
# ===== ====== ============ ===== level table content cells ===== ====== ============ ===== 0 T01001 total 1 1 T02001
# sex by age 4 8 2 T02002 sex by age 9 18 3 T02003 sex by age 23 46 ===== ====== ============ =====
#
# Every cut of a coarser grid is a cut of the finest, so counts by sex and the 23 ages give all four. A cell of the
# finest grid has the number ``23 * (sex - 1) + age group``, men (1) first.


OLDEST = 115
SEXES = ("1", "2")


@dataclass(frozen=True)
class Grid:
    """A grid of ages: it starts at zero, and at each cut another group begins; the last one ends at 115."""

    table: str
    title: str
    cuts: tuple[int, ...]

    @property
    def ages(self) -> int:
        """How many age groups there are."""
        return len(self.cuts) + 1

    @property
    def cells(self) -> int:
        """How many cells sex by age has."""
        return len(SEXES) * self.ages

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """First and last age of each group, both included."""
        starts = (0, *self.cuts)
        return tuple(zip(starts, (*(cut - 1 for cut in self.cuts), OLDEST), strict=True))

    @cached_property
    def of_finest(self) -> npt.NDArray[np.int64]:
        """For each cell of the finest grid (sex by 23 ages) the cell of this one that it lies in."""
        starts = np.array([first for first, _ in AGE_23.bounds])
        group = np.searchsorted(np.array(self.cuts), starts, side="right")
        return np.concatenate([group + sex * self.ages for sex in range(len(SEXES))])


AGE_4 = Grid("T02001", "Sex by age, 4 groups", (18, 45, 65))
AGE_9 = Grid("T02002", "Sex by age, 9 groups", (5, 18, 25, 35, 45, 55, 65, 75))
AGE_23 = Grid(
    "T02003",
    "Sex by age, 23 groups",
    (5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
)
GRIDS = (AGE_4, AGE_9, AGE_23)
"""The grids of the statistics levels 1, 2 and 3."""

TOTAL_TABLE = "T01001"
CELLS_OF_LEVEL = (1, *(grid.cells for grid in GRIDS))
"""How many cells are measured at each statistics level."""
