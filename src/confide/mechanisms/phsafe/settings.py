"""The tables of PHSafe as declared data, and the settings of a release: budgets, truncation, states, sensitivity.

``data/phsafe/tables.toml`` has what each table counts; its first lines say how to read it. An *iteration* is a group of
race or origin, of the householder or of the person; an *iteration level* is a set of iterations of which a record is in
at most one. What is measured are interior cells; cells that are sums are made of them.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

from confide.documents import load_shipped
from confide.engines.protocol import literal
from confide.mechanisms.safetab.official import INFINITE
from confide.noise import DiscreteGaussian, NoiseDistribution, TwoSidedGeometric
from confide.privacy import Definition, StatedSensitivity

NATION, STATE = "USA", "STATE"
LEVELS = (NATION, STATE)
"""The geographic levels."""
NATION_CODE = "1"
AGE, UNIT_RECORD_TYPE = "QAGE", "UNIT_RTYPE"
PERSONS, UNITS = "persons", "units"

Condition = Mapping[str, Sequence[Any]]
"""For columns the values that they may have; for an age the first and the last year."""


def sql_of(condition: Condition) -> str:
    """SQL that is true where every column has one of its values.

    >>> sql_of({"QAGE": [0, 17], "RTYPE": ["3"]})
    "QAGE BETWEEN 0 AND 17 AND RTYPE IN ('3')"
    """
    parts = [
        f"{column} BETWEEN {int(values[0])} AND {int(values[1])}"
        if column == AGE
        else f"{column} IN ({', '.join(literal(value) for value in values)})"
        for column, values in condition.items()
    ]
    return " AND ".join(parts) or "TRUE"


def any_of(conditions: Iterable[Condition]) -> str:
    """SQL that is true where one of the conditions is; true where there is none."""
    parts = [f"({sql_of(condition)})" for condition in conditions]
    return " OR ".join(parts) or "TRUE"


@dataclass(frozen=True)
class OriginGroup:
    """A group of race or origin."""

    code: str
    label: str
    level: str


@dataclass(frozen=True)
class ShellCell:
    """A cell of a table: an interior one, which is measured, or a sum ``of`` interior cells."""

    code: int
    label: str
    where: tuple[Condition, ...] = ()
    of: tuple[int, ...] = ()

    @property
    def parts(self) -> tuple[int, ...]:
        """The interior cells that it is made of."""
        return self.of or (self.code,)


@dataclass(frozen=True)
class ExactCounting:
    """What exact tables, of which no noise is made, do otherwise: see the data file."""

    where: Condition
    repeated: tuple[int, ...] = ()
    table: str = ""
    sums: str = ""


@dataclass(frozen=True, eq=False)
class CountTable:
    """One table: what it counts, for which iterations, in which cells."""

    name: str
    title: str
    counts: str
    universe: Condition
    units: Condition
    race_of: str
    iteration_levels: tuple[str, ...]
    cells: tuple[ShellCell, ...]
    variable: str = ""
    """What its cells are called, where there are several."""
    variable_title: str = ""
    derived_from: str = ""
    derived_cells: Mapping[int, tuple[int, ...]] | None = None
    """For each interior cell the cells of the other table that it is made of."""
    tau: int | None = None
    """How many persons of a household count, unless a spec says otherwise; none where units are counted."""
    exact: ExactCounting = ExactCounting({})

    @property
    def of_persons(self) -> bool:
        """Whether persons are counted, joined with their units."""
        return self.counts == PERSONS

    @property
    def measured(self) -> bool:
        """Whether it has measurements of its own."""
        return not self.derived_from

    @cached_property
    def interior(self) -> tuple[ShellCell, ...]:
        """The cells that are measured, and published in the layout of the Census Bureau."""
        return tuple(cell for cell in self.cells if not cell.of)

    @cached_property
    def iterations(self) -> tuple[OriginGroup, ...]:
        """The iterations of all its levels, in order."""
        return tuple(each for level in self.iteration_levels for each in iterations_of(level))

    @property
    def iterated(self) -> bool:
        """Whether it has other iterations than everybody."""
        return len(self.iterations) > 1

    @property
    def base(self) -> CountTable:
        """The table whose measurements it shows."""
        return table(self.derived_from) if self.derived_from else self

    def measured_parts(self, cell: ShellCell) -> tuple[int, ...]:
        """The measured cells, of the table that it is made of, that a cell is the sum of."""
        if self.derived_cells is None:
            return cell.parts
        return tuple(part for each in cell.parts for part in self.derived_cells[each])

    @property
    def cell_column(self) -> str:
        """What the column of its cells is called in the layout of the Census Bureau."""
        return f"{self.name.upper()}_DATA_CELL"


@dataclass(frozen=True)
class AverageTable:
    """A table of averages: people over households, or over families, cell by cell."""

    name: str
    title: str
    numerator: str
    denominator: str
    least: int
    """The fewest people that a household or a family has."""

    def denominator_cell(self, cell: int) -> int:
        """The cell of the denominator that belongs to one of the numerator."""
        known = {each.code for each in table(self.denominator).cells}
        return cell if len(known) > 1 else next(iter(known))


@lru_cache(maxsize=1)
def _declared() -> tuple[tuple[CountTable, ...], tuple[AverageTable, ...], dict[str, tuple[OriginGroup, ...]]]:
    values = load_shipped("phsafe", "tables")
    levels = {
        level: tuple(OriginGroup(each["code"], each["label"], level) for each in listed)
        for level, listed in values["iterations"].items()
    }
    tables = tuple(_table(each) for each in values["tables"])
    return tables, tuple(AverageTable(**each) for each in values["averages"]), levels


def _table(values: Mapping[str, Any]) -> CountTable:
    derived, exact = values.get("derived"), values.get("exact", {})
    cells = tuple(
        ShellCell(each["code"], each["label"], tuple(each.get("where", ())), tuple(each.get("of", ())))
        for each in values["cells"]
    )
    return CountTable(
        name=values["name"],
        title=values["title"],
        counts=values["counts"],
        universe=values.get("universe", {}),
        units=values.get("units", {}),
        race_of=values.get("race_of", "unit"),
        iteration_levels=tuple(values["iterations"]),
        cells=cells,
        variable=values.get("variable", {}).get("name", ""),
        variable_title=values.get("variable", {}).get("title", ""),
        derived_from=derived["from"] if derived else "",
        derived_cells={each["code"]: tuple(each["of"]) for each in derived["cells"]} if derived else None,
        tau=values.get("tau"),
        exact=ExactCounting(
            exact.get("where", {}), tuple(exact.get("repeated", ())), exact.get("table", ""), exact.get("sums", "")
        ),
    )


def tables() -> tuple[CountTable, ...]:
    """All tables, in the order of their numbers."""
    return _declared()[0]


def table(name: str) -> CountTable:
    """The table of a name."""
    return next(each for each in tables() if each.name == name)


def measured_tables() -> tuple[CountTable, ...]:
    """Those that have measurements of their own."""
    return tuple(each for each in tables() if each.measured)


def averages() -> tuple[AverageTable, ...]:
    """The tables of averages."""
    return _declared()[1]


def iterations_of(level: str) -> tuple[OriginGroup, ...]:
    """The iterations of an iteration level."""
    return _declared()[2][level]


# Settings: what is asked of these tables.


Sensitivity = Literal["bureau", "household"]
Truncation = Literal["bureau", "keyed"]
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
    truncation: Truncation = "bureau"
    """Who counts of a household with more: by the Census Bureau's public rule, or by the key of the release."""

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
