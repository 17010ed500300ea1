"""Age grids: the four statistics levels of SafeTab-P, from a total alone to sex by 23 age groups.

A group of the population gets one of four tables (paper, Tables 1 to 4):

===== ====== ============ =====
level table  content      cells
===== ====== ============ =====
0     T01001 total            1
1     T02001 sex by age 4     8
2     T02002 sex by age 9    18
3     T02003 sex by age 23   46
===== ====== ============ =====

Every cut of a coarser grid is a cut of the finest, so counts by sex and the 23 ages give all four. A cell of the finest
grid has the number ``23 * (sex - 1) + age group``, men (1) first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

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
