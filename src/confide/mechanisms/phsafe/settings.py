"""The settings of a PHSafe release as plain values: budgets, truncation, states, and what a person may change.

A *sensitivity* says how far one person can move the counts of a query, with households cut down to τ persons; a query
is a table at one geographic level and one iteration level (``docs/proofs/phsafe.md``):

============= ===================== ================================================================
sensitivity   L1 and squared L2     of
============= ===================== ================================================================
bureau        2τ+2, (2τ+2)²         persons, joined with their units: the Census Bureau's calculus
household     2τ, 2τ²               the same: whatever changes lies in one household
bureau        2, 4                  units
household     2, 2                  units
============= ===================== ================================================================

The noise of a query with budget ρ has the variance L2²/2ρ (discrete Gaussian); with budget ε it has L1/ε as its scale
(two-sided geometric).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from confide.mechanisms.phsafe.tables import NATION, STATE, CountTable, measured_tables, table
from confide.mechanisms.safetab.official import INFINITE
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.privacy import Definition, StatedSensitivity

Sensitivity = Literal["bureau", "household"]
LEVEL_KEYS = {"usa": NATION, "state": STATE}
"""What the levels are called in the keys of budgets, such as ``state_A-G``."""
MOST_PERSONS = 99_999
"""Of a household; so many a unit can have."""


def budget_keys(counted: CountTable) -> dict[str, tuple[str, str]]:
    """The keys of the budgets of a table, with geographic and iteration level."""
    return {
        f"{key}_{iteration_level}": (level, iteration_level)
        for key, level in LEVEL_KEYS.items()
        for iteration_level in counted.iteration_levels
    }


@dataclass(frozen=True)
class CountQuery:
    """A table at one geographic level and one iteration level: what is measured with one law."""

    table: str
    level: str
    iteration_level: str
    budget: Fraction

    @property
    def counted(self) -> CountTable:
        """What the table counts."""
        return table(self.table)

    @property
    def name(self) -> str:
        """The name by which plans and streams know it on its level, such as ``PH1_num A-G``."""
        return f"{self.table} {self.iteration_level}"

    @property
    def noiseless(self) -> bool:
        """Whether its budget is infinite: it is published as it is, and not for release."""
        return self.budget == INFINITE


@dataclass(frozen=True)
class PHSafeSettings:
    """What decides a release, apart from the files."""

    definition: Definition
    sensitivity: Sensitivity
    states: tuple[str, ...]
    budgets: Mapping[tuple[str, str, str], Fraction]
    """By table, geographic level and iteration level; what has none is not made."""
    tau: Mapping[str, int]
    """How many persons of a household a table counts."""

    @property
    def queries(self) -> Iterator[CountQuery]:
        """What is measured, in the order of the tables."""
        for counted in measured_tables():
            for level, iteration_level in budget_keys(counted).values():
                budget = self.budgets.get((counted.name, level, iteration_level))
                if budget:
                    yield CountQuery(counted.name, level, iteration_level, budget)

    @property
    def total(self) -> Fraction:
        """The sum of all budgets: everybody may be in every query."""
        return sum((query.budget for query in self.queries), Fraction(0))

    def stated(self, counted: CountTable) -> StatedSensitivity:
        """How far one person can move a query of a table. One who moves changes two households: twice as far."""
        if not counted.of_persons:
            return StatedSensitivity(2, 2 if self.sensitivity == "household" else 4)
        tau = self.tau[counted.name]
        if self.sensitivity == "household":
            return StatedSensitivity(2 * tau, 2 * tau**2)
        return StatedSensitivity(2 * tau + 2, (2 * tau + 2) ** 2)

    def law(self, query: CountQuery) -> NoiseDistribution:
        """The noise of one query."""
        stated = self.stated(query.counted)
        if self.definition is Definition.PURE:
            return TwoSidedGeometric(query.budget / stated.l1)
        return DiscreteGaussian(Fraction(stated.l2_squared) / (2 * query.budget))


def stated_variance(law: NoiseDistribution, noiseless: bool) -> float:
    """The variance in the column VARIANCE of the Census Bureau's layout: σ² of discrete Gaussian noise, which the
    variance is but for what no figure shows, and zero of an infinite budget."""
    if noiseless:
        return 0.0
    return float(law.parameter) if isinstance(law, DiscreteGaussian) else law.variance()
