"""The settings of a SafeTab-H release, and its six tables as data: measured cells, and the sums of them.

A household has one of five types and one of four tenures; the finest cell of both is ``4 * (type - 1) + tenure - 1``.
Which table a group gets is decided by its published total in SafeTab-P, so there is one stage and no part of the budget
for a choice. Reference: the Census Bureau's SafeTab-H 3.0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.mechanisms.safetab.settings import MOST_RACE_CODES, REGION_TYPES, STATES, GroupSettings, LevelName
from confide.privacy import Definition

FamilyName = Literal["t3", "t4"]
T3: FamilyName = "t3"
T4: FamilyName = "t4"
FAMILIES: tuple[FamilyName, ...] = (T3, T4)
"""Household type, and tenure: each group gets one table of each."""
VARIABLES: dict[FamilyName, str] = {T3: "household_type", T4: "tenure"}
TYPES, TENURES = 5, 4
FINEST = TYPES * TENURES
"""How many cells household type by tenure has."""
TOTAL_CELL = 0
"""The code of a group's total in the Bureau's layout."""


@dataclass(frozen=True)
class Cell:
    """A row of a table for each group: its code in the Bureau's layout, its label, and the codes of records in it."""

    code: int
    label: str
    codes: tuple[int, ...]
    """Household types, or tenures."""


@dataclass(frozen=True)
class HouseholdTable:
    """One of the six tables: the cells that are measured, and those that are sums of them, the total first."""

    name: str
    title: str
    family: FamilyName
    level: int
    """Its statistics level: how many thresholds a group has reached."""
    measured: tuple[Cell, ...]
    sums: tuple[Cell, ...] = ()

    @property
    def cells(self) -> int:
        """How many counts are measured for each group."""
        return len(self.measured)

    @cached_property
    def rows(self) -> tuple[Cell, ...]:
        """All rows of a group, in the order of their codes."""
        return tuple(sorted((*self.measured, *self.sums), key=lambda cell: cell.code))

    @cached_property
    def parts(self) -> npt.NDArray[np.int64]:
        """Rows by measured cells: 1 where a measured cell is a part of a row."""
        return np.array([[set(cell.codes) <= set(row.codes) for cell in self.measured] for row in self.rows], np.int64)

    @property
    def summed(self) -> tuple[int, ...]:
        """For each row how many measured counts it is the sum of."""
        return tuple(self.parts.sum(axis=1).tolist())

    @cached_property
    def of_finest(self) -> Integers:
        """For each finest cell (household type by tenure) the measured cell that it lies in."""
        place = {code: number for number, cell in enumerate(self.measured) for code in cell.codes}
        types, tenures = np.divmod(np.arange(FINEST), TENURES)
        codes = (types if self.family == T3 else tenures) + 1
        return np.array([place[code] for code in codes.tolist()], np.int64)


_ALL_TYPES, _ALL_TENURES = tuple(range(1, TYPES + 1)), tuple(range(1, TENURES + 1))
_TOTAL = Cell(TOTAL_CELL, "all households", _ALL_TYPES)
_FAMILY, _NONFAMILY = Cell(1, "family households", (1, 2, 3)), Cell(6, "nonfamily households", (4, 5))
_MARRIED = Cell(2, "married couple family", (1,))
_OTHER = Cell(3, "other family", (2, 3))
_MALE = Cell(4, "male householder, no spouse present", (2,))
_FEMALE = Cell(5, "female householder, no spouse present", (3,))
_ALONE, _NOT_ALONE = Cell(7, "householder living alone", (4,)), Cell(8, "householder not living alone", (5,))
_ALL = Cell(TOTAL_CELL, "all households", _ALL_TENURES)

TABLES = (
    HouseholdTable("T03001", "Households", T3, 0, (_TOTAL,)),
    HouseholdTable("T03002", "Household type, 2 groups", T3, 1, (_FAMILY, _NONFAMILY), (_TOTAL,)),
    HouseholdTable(
        "T03003",
        "Household type, 4 groups",
        T3,
        2,
        (_MARRIED, _OTHER, _ALONE, _NOT_ALONE),
        (_TOTAL, _FAMILY, _NONFAMILY),
    ),
    HouseholdTable(
        "T03004",
        "Household type, 5 groups",
        T3,
        3,
        (_MARRIED, _MALE, _FEMALE, _ALONE, _NOT_ALONE),
        (_TOTAL, _FAMILY, _OTHER, _NONFAMILY),
    ),
    HouseholdTable("T04001", "Occupied housing units", T4, 0, (_ALL,)),
    HouseholdTable(
        "T04002",
        "Tenure, 3 groups",
        T4,
        1,
        (
            Cell(1, "owned with a mortgage or a loan", (1,)),
            Cell(2, "owned free and clear", (2,)),
            Cell(3, "renter occupied", (3, 4)),
        ),
        (_ALL,),
    ),
)
"""The six tables, in order."""
TABLES_OF: dict[FamilyName, tuple[HouseholdTable, ...]] = {
    family: tuple(table for table in TABLES if table.family == family) for family in FAMILIES
}
"""The tables of household type, and those of tenure, by their statistics levels."""
MOST_THRESHOLDS: dict[FamilyName, int] = {family: len(tables) - 1 for family, tables in TABLES_OF.items()}
"""How many thresholds decide between them."""


@dataclass(frozen=True, slots=True)
class HouseholdLevel(LevelName):
    """A population group level with what its tables cost, and when its groups get which.

    ``budgets`` and ``thresholds`` are those of household type, and of tenure. A budget is the loss of the level's table
    when one household is added or removed; zero: the table is not made. A group whose published total reaches
    ``thresholds[k - 1]`` gets the table of statistics level k.
    """

    budgets: tuple[Fraction, Fraction]
    thresholds: tuple[tuple[int, ...], tuple[int, ...]]

    def budget(self, family: FamilyName) -> Fraction:
        """Of household type, or of tenure."""
        return self.budgets[FAMILIES.index(family)]

    def thresholds_of(self, family: FamilyName) -> tuple[int, ...]:
        """Of household type, or of tenure."""
        return self.thresholds[FAMILIES.index(family)]

    @property
    def cost(self) -> Fraction:
        """Of both."""
        return sum(self.budgets, Fraction(0))

    @property
    def families(self) -> tuple[FamilyName, ...]:
        """What is made."""
        return tuple(family for family in FAMILIES if self.budget(family))


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeTabHSettings(GroupSettings[HouseholdLevel]):
    """What decides a SafeTab-H release, apart from code lists, geography, published totals and records."""


_LARGE, _SMALL = (471, 971, 6971), (971, 4971, 19971)
_REGIONAL = {True: (4971, 19971, 149971), False: (4971, 19971, 149970)}


def production_settings() -> SafeTabHSettings:
    """The production settings of the 2020 Census, United States and Puerto Rico, of all 51 states."""
    levels = []
    for region in REGION_TYPES:
        for number in (1, 2):
            name = LevelName(region, number)
            detailed = Fraction("1.9208") if name.is_large else Fraction("0.142869")
            budget = detailed if number == 2 else Fraction("0.006915")
            if (region, number) == ("AIANNH", 1):
                continue
            thresholds = _REGIONAL[name.is_large] if number == 1 else _LARGE if name.is_large else _SMALL
            levels.append(HouseholdLevel(region, number, (budget, budget), (thresholds, thresholds[:1])))
    return SafeTabHSettings(
        definition=Definition.ZCDP,
        levels=tuple(levels),
        max_race_codes=MOST_RACE_CODES,
        negative_counts=True,
        states=STATES,
        puerto_rico=True,
    )
