"""What is asked of the records: groups with a published total, level by level, the table of each, and its noise.

Which groups there are and which table each gets follows from geography, code lists and published totals, never from
the records: a group with nobody in it is measured like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arrays import Integers
from confide.engines import Engine
from confide.errors import Finding, SpecError
from confide.mechanisms.safetab.codes import CodeLists, stability
from confide.mechanisms.safetab.problem import AreasOfLevel, GroupProblem, facts_of_groups, plan_of_groups, read_inputs
from confide.mechanisms.safetab.regions import Regions
from confide.mechanisms.safetab.settings import ITERATION_LEVELS
from confide.mechanisms.safetab_h.records import HOUSEHOLDS, GroupTotals, read_totals
from confide.mechanisms.safetab_h.settings import (
    FAMILIES,
    TABLES,
    TABLES_OF,
    VARIABLES,
    FamilyName,
    HouseholdLevel,
    HouseholdTable,
    SafeTabHSettings,
)
from confide.mechanisms.safetab_h.spec import SafeTabHSpec
from confide.noise import NoiseDistribution
from confide.privacy import Neighbours, PrivacyUnit, budget_of, calibrate
from confide.releases.plan import PUBLIC_INPUTS, Family, Plan, PlannedMeasurement
from confide.releases.spec import LoadedSpec
from confide.releases.tabular import noting
from confide.releases.verify import PublicInput, read_public_input

TOTALS = "totals"
"""The key of the published totals under ``[data]``."""
SAFETAB_P = "safetab"
CODES = "codes"
"""What plans call the race and ethnicity codes of a householder, beside household type and tenure."""


@dataclass(frozen=True, eq=False)
class GroupTables:
    """The groups of a level, in order, and the table that each of them gets of household type, or of tenure."""

    law: NoiseDistribution
    level: Integers
    """The statistics level of each group."""

    @cached_property
    def rank(self) -> Integers:
        """The place of each group among those with the same table."""
        rank = np.zeros(len(self.level), np.int64)
        for each in np.unique(self.level).tolist():
            at = np.flatnonzero(self.level == each)
            rank[at] = np.arange(len(at))
        return rank

    def groups(self, table: HouseholdTable) -> int:
        """How many groups get a table."""
        return int(np.count_nonzero(self.level == table.level))


@dataclass(frozen=True, eq=False)
class HouseholdGroups(AreasOfLevel):
    """A population group level: its groups, their tables and noise.

    Group ``area * len(iterations) + position`` is the area with this number and the iteration ``iterations[position]``;
    only those with a published total are measured. Every group costs the budget of a table over ``stability``: a
    household is in at most so many of them (``docs/proofs/safetab-h.md``).
    """

    settings: HouseholdLevel
    areas: int
    iterations: npt.NDArray[np.int64]
    """The numbers of the iterations tabulated here, sorted."""
    stability: int
    group: Integers
    """The numbers of the groups with a published total, sorted."""
    count: Integers
    """These totals."""
    tables: Mapping[FamilyName, GroupTables]
    """Of household type and of tenure, where they have a budget."""

    def within(self, part: int) -> slice:
        """The places of the groups of a part."""
        ends = np.array([part, part + self.areas_per_part]) * len(self.iterations)
        first, last = np.searchsorted(self.group, ends).tolist()
        return slice(first, last)

    def measured(self) -> Iterator[tuple[HouseholdTable, GroupTables]]:
        """The tables that some group gets."""
        for table in TABLES:
            tables = self.tables.get(table.family)
            if tables is not None and tables.groups(table):
                yield table, tables


@dataclass(frozen=True, eq=False)
class SafeTabHProblem(GroupProblem):
    """The same of SafeTab-H."""

    spec: SafeTabHSpec
    settings: SafeTabHSettings
    levels: tuple[HouseholdGroups, ...]
    given: PublicInput


def query_key(level: HouseholdLevel, table: HouseholdTable) -> str:
    """What the plan calls the measurement of a table on a level."""
    return f"{ITERATION_LEVELS[level.iteration_level]}: {table.name}"


def prepare(loaded: LoadedSpec, engine: Engine) -> SafeTabHProblem:
    """What the spec and its public files say. Raises a :class:`SpecError` with all findings."""
    from confide.mechanisms import MECHANISMS

    spec = loaded.spec
    assert isinstance(spec, SafeTabHSpec)
    settings, data = spec.settings, spec.data

    def published(
        findings: list[Finding], lists: CodeLists | None, regions: Regions | None
    ) -> tuple[PublicInput, GroupTotals] | None:
        path, place = loaded.resolve(data.totals), loaded.place("data", TOTALS)
        given = noting(findings, lambda: read_public_input(path, place, MECHANISMS.__getitem__, [SAFETAB_P]))
        if given is None or regions is None or lists is None:
            return None
        return given, read_totals(given, regions, lists, settings)

    files, (given, totals) = read_inputs(loaded, engine, HOUSEHOLDS, published)
    each = (household_groups(level, settings, files.lists, files.regions, totals) for level in settings.levels)
    levels = tuple(level for level in each if level is not None)
    if not levels:
        raise SpecError("no-groups/total", where=loaded.place("levels"))
    return SafeTabHProblem(spec, settings, *files.of(levels), given=given)


def household_groups(
    level: HouseholdLevel, settings: SafeTabHSettings, lists: CodeLists, regions: Regions, totals: GroupTotals
) -> HouseholdGroups | None:
    """The groups of a level with a published total; None if there is none: nothing is then measured."""
    iterations = lists.tabulated(level.iteration_level, large=level.is_large)
    here = totals.of(level.region_type, level.iteration_level, lists)
    if not len(here.count):
        return None
    degree = stability(lists, level.iteration_level, large=level.is_large, max_race_codes=settings.max_race_codes)
    tables = {}
    for family in level.families:
        loss = budget_of(settings.definition, level.budget(family) / degree)
        reached = np.searchsorted(np.array(level.thresholds_of(family)), here.count, side="right")
        tables[family] = GroupTables(calibrate(loss, Neighbours.ADD_REMOVE), reached.astype(np.int64))
    return HouseholdGroups(
        settings=level,
        areas=len(regions.areas[level.region_type]),
        iterations=iterations,
        stability=degree,
        group=here.area * len(iterations) + np.searchsorted(iterations, here.iteration),
        count=here.count,
        tables=tables,
    )


# The plan of a SafeTab-H release: generalised parallel composition, level by level and table by table.
#
# A household counts in one cell of the table of a group, and in at most s groups of a level: the six tables of the
# groups are the members of two families, one of household type and one of tenure, which are measured on the same
# records. How many groups have which table is public. Proof: ``docs/proofs/safetab-h.md``.


def plan_safetab_h(name: str, problem: SafeTabHProblem) -> Plan:
    """Every measurement with its noise and its price."""
    measures: list[PlannedMeasurement] = []
    families: list[Family] = []
    paths: dict[bool, list[int]] = {}
    for level in problem.levels:
        for family in level.settings.families:
            numbers, copies = [], []
            for table, tables in level.measured():
                if table.family == family:
                    numbers.append(len(measures))
                    copies.append(tables.groups(table))
                    measures.append(_measurement(level, table, tables, problem.settings))
            families.append(Family(level.stability, tuple((number,) for number in numbers), tuple(copies)))
            paths.setdefault(level.settings.of_puerto_rico, []).extend(numbers)
    free = ("noise_margin", "iterations", "area_names", "companions")
    return plan_of_groups(name, problem, measures, families, paths, _facts(problem), free, unit=PrivacyUnit.HOUSEHOLD)


def _measurement(
    level: HouseholdGroups, table: HouseholdTable, tables: GroupTables, settings: SafeTabHSettings
) -> PlannedMeasurement:
    return PlannedMeasurement(
        level.region_type,
        query_key(level.settings, table),
        tables.groups(table),
        table.cells,
        tables.law,
        budget_of(settings.definition, level.settings.budget(table.family)),
        (VARIABLES[table.family], CODES) if table.level else (CODES,),
    )


def _facts(problem: SafeTabHProblem) -> dict[str, Any]:
    """What else decides the output. All of it is public."""
    own = {
        "record": "household",
        "attributes": {
            CODES: "race and ethnicity codes of the householder",
            **{variable: variable.replace("_", " ") for variable in VARIABLES.values()},
        },
        PUBLIC_INPUTS: {TOTALS: problem.given.as_dict()},
        "levels": {level.name: _level_facts(level) for level in problem.levels},
    }
    return facts_of_groups(problem, own)


def _level_facts(level: HouseholdGroups) -> dict[str, Any]:
    return {
        "region_type": level.region_type,
        "iteration_level": level.settings.iteration_level,
        "areas": level.areas,
        "groups": len(level.group),
        "stability": level.stability,
        **{
            family: {
                "budget": str(level.settings.budget(family)),
                "thresholds": list(level.settings.thresholds_of(family)),
                "groups": [level.tables[family].groups(table) for table in TABLES_OF[family]],
            }
            for family in FAMILIES
            if family in level.tables
        },
    }
