"""A release of ``safetab`` read back, so that an attack can fit it: sex by age of every group, over areas that nest.

Groups of SafeTab-P overlap, and the files do not say how. So each group stands by itself, and a person who belongs to
three groups comes out three times, once in each. Which areas are fitted together is said below.

- Places and American Indian areas do not nest in counties and are left out.
- Of two areas of the same extent, which have the same figures, the smaller is kept: a copy says nothing new.
- A figure below zero counts as zero, published or left out. No number of people is closer to it than none, either way.
- The plan says of what kind a group is, regional or detailed, and so which law its noise has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.arrays import Floats, Integers
from confide.documents import parse_schema
from confide.errors import ParameterError, Place, ReleaseError
from confide.lab.published import marginals as published_marginals
from confide.lab.published.published_rows import (
    NOISE,
    ReadBack,
)
from confide.mechanisms.phsafe import settings as household_tables
from confide.mechanisms.phsafe.layout import Counts, PlannedQuery, ReleaseLayout
from confide.mechanisms.phsafe.output import read_counts
from confide.mechanisms.phsafe.settings import NATION, STATE, iterations_of
from confide.mechanisms.safetab.codes import PlannedIteration, read_iterations
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.output.coded import SEX_NAMES, PlannedLevel, read_planned
from confide.mechanisms.safetab.output.released import released_tables
from confide.mechanisms.safetab.settings import GRIDS, OLDEST, PR_REGIONS, REGION_TYPES, SEXES, TOTAL_TABLE
from confide.mechanisms.safetab_h.output import HouseholdLayout
from confide.mechanisms.safetab_h.settings import TABLES, TABLES_OF, VARIABLES, HouseholdTable
from confide.mechanisms.safetab_h.verify import OfficialTable, open_official, read_official
from confide.releases import SealedRelease
from confide.schema import Query, Schema

# Which groups and areas of a SafeTab-P release are fitted together.
#
# A group has figures in some tracts and none in others. So the people of a county are in a tract with figures, or in
# *the rest of the county*. A *block* is a group in an area with figures, without the smaller areas with figures in
# it; it is known by the group and the area. For a tract that is the tract, for a county the rest of it.
#
# All blocks of a group below an area of the coarsest level are fitted together. Where these are more than
# :data:`MOST_BLOCKS`, the area's own figures are left out, and the areas below it are fitted by themselves.


MOST_BLOCKS = 500
"""How many blocks are fitted together."""

NAMES = {"TRACT": "tract", "COUNTY": "county", "STATE": "state", "USA": "nation", "PLACE": "place", "AIANNH": "area"}
"""What the attack calls the areas of a region type."""
NESTING = ("TRACT", "COUNTY", "STATE", "USA")
"""Region types whose areas lie in one another, the smallest first. Those of Puerto Rico count as their likes."""


def levels_of(region_types: Sequence[str]) -> tuple[str, ...]:
    """The region types to attack, the smallest first: those that nest, or without any of these the first there is."""
    there = [kind.removeprefix("PR-") for kind in region_types]
    return tuple(kind for kind in NESTING if kind in there) or tuple(there[:1])


def depths(keys: Integers, levels: Sequence[str]) -> Integers:
    """For each group the place of its region type among the levels, or -1."""
    plain = [kind.removeprefix("PR-") for kind in REGION_TYPES]
    places = np.array([levels.index(kind) if kind in levels else -1 for kind in plain], np.int64)
    return np.asarray(places[reading.region_of(keys)])


def area_within(keys: Integers, level: str, levels: Sequence[str]) -> Integers:
    """For each group the area of a coarser level that its area lies in; Puerto Rico lies in no nation but itself."""
    width = np.array([reading.WIDTHS[kind] for kind in levels], np.int64)[depths(keys, levels)]
    if level != "USA":
        return np.asarray(reading.area_of(keys) // 10 ** np.maximum(width - reading.WIDTHS[level], 0))
    ours = np.isin(reading.region_of(keys), [REGION_TYPES.index(kind) for kind in PR_REGIONS])
    state = reading.area_of(keys) // 10 ** np.maximum(width - reading.WIDTHS["STATE"], 0)
    return np.where(ours, state, 1)


@dataclass(frozen=True, eq=False)
class GroupAreas:
    """Groups with figures, as blocks: where each lies on every level, and what is fitted together.

    A unit has the number ``(iteration code · levels + level) · 10^11 + area``.
    """

    levels: tuple[str, ...]
    """Region types, the smallest first."""
    units: tuple[Integers, ...] = field(repr=False)
    """For each level the sorted numbers of its units; those of the finest are the blocks."""
    unit_of_block: tuple[Integers, ...] = field(repr=False)
    split: int
    """How many groups have too many blocks below an area, so that their figures of the area are left out."""

    @classmethod
    def of(cls, keys: Integers, levels: tuple[str, ...], most: int = MOST_BLOCKS) -> GroupAreas:
        """The blocks of the groups with these keys, all of them of the levels."""
        depth = depths(keys, levels)
        above = np.stack([_number(keys, level, levels) for level in range(len(levels))])
        below = np.stack([_sizes(numbers, depth <= level) for level, numbers in enumerate(above)])
        left_out = below[depth, np.arange(len(keys))] > most
        together = depth.copy()
        for level in range(len(levels)):
            together = np.where((level >= depth) & (below[level] <= most), level, together)
        depth, together, above = depth[~left_out], together[~left_out], above[:, ~left_out]
        columns = np.arange(len(depth))
        numbers = [above[np.clip(level, depth, together), columns] for level in range(len(levels))]
        blocks, first = np.unique(numbers[0], return_index=True)
        uniques = [np.unique(column[first], return_inverse=True) for column in numbers]
        return cls(
            levels,
            (blocks, *(units for units, _ in uniques[1:])),
            tuple(np.asarray(inverse, np.int64) for _, inverse in uniques),
            int(left_out.sum()),
        )

    def place(self, keys: Integers) -> tuple[Integers, Integers]:
        """For each group the depth and the number of its unit there, -1 if its figures are left out."""
        depth = depths(keys, self.levels)
        unit = np.full(len(keys), -1, np.int64)
        for level, units in enumerate(self.units):
            here = np.flatnonzero(depth == level)
            number = _number(keys[here], level, self.levels)
            at = np.searchsorted(units, number)
            listed = np.flatnonzero(np.append(units, -1)[at] == number)
            unit[here[listed]] = at[listed]
        return depth, unit

    def geography(self, names: Mapping[int, str]) -> published_marginals.PublishedGeography:
        """As the attack wants it; ``names`` are those of the iteration codes."""
        units = tuple(tuple(self._label(number) for number in numbers.tolist()) for numbers in self.units)
        called = tuple(NAMES[level] for level in self.levels)
        code, level = np.divmod(self.units[0] // reading.REGIONS, len(self.levels))
        columns = {
            "group": tuple(label.partition(":")[0] for label in units[0]),
            "group_name": tuple(names.get(each, "") for each in code.tolist()),
            "geolevel": tuple(called[each] for each in level.tolist()),
            "geocode": tuple(label.partition(":")[2] for label in units[0]),
        }
        return published_marginals.PublishedGeography(called, units, self.unit_of_block, columns)

    def _label(self, number: int) -> str:
        """``1002:44007``, the iteration code and the area."""
        place, area = divmod(number, reading.REGIONS)
        code, level = divmod(place, len(self.levels))
        return f"{code:0{reading.CODE_DIGITS}d}:{area:0{reading.WIDTHS[self.levels[level]]}d}"


def _number(keys: Integers, level: int, levels: Sequence[str]) -> Integers:
    """For each group the number of the unit of a level that it lies in; of no use on finer levels than its own."""
    return (reading.code_of(keys) * len(levels) + level) * reading.REGIONS + area_within(keys, levels[level], levels)


def _sizes(numbers: Integers, counted: npt.NDArray[np.bool_]) -> Integers:
    """For each entry how many of those counted have the same number."""
    distinct, size = np.unique(numbers[counted], return_counts=True)
    at = np.searchsorted(distinct, numbers)
    return np.where(np.append(distinct, -1)[at] == numbers, np.append(size, 0)[at], 0)


Truths = npt.NDArray[np.bool_]
Regions = tuple[int, ...]
"""Positions of region types."""


# Releases of ``safetab-h`` and ``phsafe`` read back, so that an attack can fit them.
#
# Household type and tenure of every group, over areas that nest: groups overlap, and the files do not say how. So each
# group stands by itself, as in releases of SafeTab-P, and a household that
# belongs to three groups comes out three times. Figures below zero count as zero.
#
# People in households of the nation and its states: three tables count the same people, those that truncation keeps,
# PH1_num by age, PH2 by household type, PH7 by tenure; the first and the last also by the race of the householder.
# Tables of other people, of children and of families, are left out: nothing says which of the people they are.


# People in households.


MEMBERSHIPS = "Groups overlap, and each is fitted by itself: a person is there once for every group that counts them."


def read_published(asked: ReadBack) -> published_marginals.Published:
    """The tables of a release; of some groups alone if their iteration codes are given. The attributes of SafeTab-P are
    its own, and the codes of regions say what lies in what."""
    release, facts = asked.release, asked.release.facts
    tables = _tables(release)
    totals, planned = tables[0], read_planned(release.manifest["plan"])
    kinds = [REGION_TYPES[region] for region in dict.fromkeys(level.region for level in planned)]
    levels = levels_of(kinds)
    copied, copies = _copies(facts["coterminous"], levels)
    iterations = {int(each.code): each for each in read_iterations(facts)}
    if unknown := set(np.unique(reading.code_of(totals.key)).tolist()) - iterations.keys():
        raise ReleaseError("release-tables/groups", where=Place(file=TOTAL_TABLE), unknown=len(unknown))
    noise = GroupNoise.of(planned, iterations, copies)
    wanted = chosen_groups(asked.groups, totals.key) & (depths(totals.key, levels) >= 0)
    wanted &= ~np.isin(totals.key // reading.CODES, copied)
    group_areas = GroupAreas.of(totals.key[wanted], levels)
    attributes = _schema()
    marginals = [
        marginal
        for number, table in enumerate(tables)
        for marginal in _marginals(number, table, group_areas, noise, attributes)
    ]
    notes = [MEMBERSHIPS, NOISE, *geography_notes(kinds, levels, group_areas)]
    names = {code: each.label for code, each in iterations.items()}
    together = NAMES[levels[-1]]
    geography = group_areas.geography(names)
    return published_marginals.Published(
        attributes, geography, tuple(marginals), (), release.title, tuple(notes), together
    )


def geography_notes(kinds: Sequence[str], levels: Sequence[str], areas: GroupAreas) -> Iterator[str]:
    """What is left out of a release with areas of these types."""
    others = [kind for kind in kinds if kind.removeprefix("PR-") not in levels]
    if others:
        yield f"Tables of {', '.join(others)} are left out: these areas do not nest."
    if areas.split:
        figures = f"The figures of {areas.split:,} groups in large areas are left out"
        yield f"{figures}: there are more than {MOST_BLOCKS:,} smaller areas with figures in each."


def _tables(release: SealedRelease) -> list[reading.TableForPeople]:
    """The tables for people, the totals first."""
    try:
        tables = released_tables(release)
    except LookupError as error:
        name = str(error.args[0])
        raise ReleaseError("release-tables/columns", where=Place(file=name)) from None
    except (OSError, pa.ArrowException):
        raise ReleaseError("release-tables/damaged", where=Place(file=TOTAL_TABLE)) from None
    for name, table in tables.items():
        if (table.key < 0).any() or (table.level < 0).any() or (np.diff(table.key) <= 0).any():
            raise ReleaseError("release-tables/group", where=Place(file=name))
    return list(tables.values())


def chosen_groups(groups: Sequence[str], keys: Integers) -> Truths:
    """Which groups are of the iterations that are asked for; all if none is."""
    codes = reading.code_of(keys)
    if not groups:
        return np.ones(len(codes), bool)
    there = {f"{code:0{reading.CODE_DIGITS}d}" for code in np.unique(codes).tolist()}
    if unknown := [group for group in groups if group not in there]:
        raise ParameterError(
            "no-group/release",
            where=Place(path="--group"),
            found=", ".join(unknown[:5]),
            total_table=TOTAL_TABLE,
            there=", ".join(sorted(there)[:5]),
        )
    return np.isin(codes, [int(group) for group in groups])


def _schema() -> Schema:
    """Sex by age, and ages in the groups of the three grids."""
    grids = {grid.table: {"starts": [first for first, _ in grid.bounds]} for grid in GRIDS}
    return parse_schema(
        {
            "id": "safetab",
            "provenance": "The sexes and ages of SafeTab-P.",
            "attributes": {
                "sex": {"levels": [[int(code), name.lower()] for code, name in zip(SEXES, SEX_NAMES, strict=True)]},
                "age": {"range": [0, OLDEST], "recodes": grids},
            },
        }
    )


def _query_of(number: int, schema: Schema) -> Query:
    """What is counted at a statistics level."""
    return schema.query("total" if number == 0 else f"sex*age:{reading.TABLES[number]}")


def _marginals(
    number: int, table: reading.TableForPeople, areas: GroupAreas, noise: GroupNoise, schema: Schema
) -> Iterator[published_marginals.PublishedMarginal]:
    """The figures of a statistics level, a marginal for each level of areas and each variance."""
    query = _query_of(number, schema)
    rows = np.flatnonzero(table.level == number)
    depth, unit = areas.place(table.key[rows])
    rows, depth, unit = rows[unit >= 0], depth[unit >= 0], unit[unit >= 0]
    figures = table.total[rows, None] if number == 0 else _cells(table.figures[rows], GRIDS[number - 1].ages)
    variance = noise.variance(table.key[rows], total=number == 0)
    for level in np.unique(depth).tolist():
        for value in np.unique(variance[depth == level]).tolist():
            here = np.flatnonzero((depth == level) & (variance == value))
            cell = np.tile(np.arange(query.cells), len(here))
            counts = np.maximum(figures[here], 0).astype(np.float64).reshape(-1)
            arrays = published_marginals.sparse(
                np.repeat(unit[here], query.cells), cell, counts, len(areas.units[level])
            )
            exact = Fraction(value).limit_denominator(10**9)
            law = noise.laws.get(value)
            yield published_marginals.PublishedMarginal(
                reading.TABLES[number], level, query, *arrays, exact, absent_unknown=True, law=law
            )


def _cells(figures: Integers, ages: int) -> Integers:
    """Men by age, then women by age, without the sum before each."""
    return np.delete(figures, [0, ages + 1], axis=1)


def _copies(sets: Sequence[Sequence[tuple[str, str]]], levels: Sequence[str]) -> tuple[Integers, dict[int, Regions]]:
    """Of areas of the same extent those to be left out, and for the smallest the region types it can be a copy from.

    GroupAreas are numbers, as in :func:`confide.mechanisms.safetab.output.reading.group_key` without the iteration.
    """
    left_out: list[int] = []
    sources: dict[int, Regions] = {}
    for areas in sets:
        keys = np.array([reading.group_key(kind, code, "0") for kind, code in areas], np.int64)
        depth = depths(keys, levels)
        there = keys[np.argsort(depth, kind="stable")][int((depth < 0).sum()) :] // reading.CODES
        left_out += there[1:].tolist()
        sources |= {area: tuple(reading.region_of(keys).tolist()) for area in there[:1].tolist()}
    return np.array(left_out, np.int64), sources


@dataclass(frozen=True, eq=False)
class GroupNoise:
    """The variance of the noise by region type and iteration code: of a total alone, and of a cell of a table."""

    total: Floats = field(repr=False)
    cell: Floats = field(repr=False)
    copies: Mapping[int, Regions] = field(repr=False)
    """For areas whose figures can be those of another one: the region types they can come from."""
    laws: Mapping[float, published_marginals.AdditiveLaw] = field(repr=False)
    """The law of each variance; what is below zero was read as zero."""

    @classmethod
    def of(
        cls, planned: list[PlannedLevel], iterations: Mapping[int, PlannedIteration], copies: Mapping[int, Regions]
    ) -> GroupNoise:
        """The noise of every iteration in every region type that it is planned for."""
        total, cell = np.zeros((2, len(REGION_TYPES), reading.CODES))
        laws: dict[float, published_marginals.AdditiveLaw] = {}
        for level in planned:
            for total_only, law in ((False, level.law), (True, level.total_law)):
                of_kind = [
                    code
                    for code, each in iterations.items()
                    if (each.level, each.total_only) == (level.iteration_level, total_only)
                ]
                if law is None or not of_kind:
                    continue
                laws[law.variance()] = published_marginals.AdditiveLaw(law, floored=True)
                total[level.region, of_kind] = law.variance()
                if not total_only:
                    cell[level.region, of_kind] = law.variance()
        return cls(total, cell, copies, laws)

    def variance(self, keys: Integers, *, total: bool) -> Floats:
        """For each group that of its total alone, or of a cell of its table."""
        variances = self.total if total else self.cell
        result: Floats = variances[reading.region_of(keys), reading.code_of(keys)]
        for regions in set(self.copies.values()):
            areas = [area for area, others in self.copies.items() if others == regions]
            here = np.flatnonzero(np.isin(keys // reading.CODES, areas))
            result[here] = variances[list(regions)][:, reading.code_of(keys[here])].max(axis=0)
        return result


MEMBERSHIPS = "Groups overlap, and each is fitted by itself: a household is there once for every group that counts it."


def read_household_groups(asked: ReadBack) -> published_marginals.Published:
    """The tables of a release; of some groups alone if their iteration codes are given."""
    release, layout = asked.release, HouseholdLayout.of(asked.release.manifest["plan"])
    tables = list(_tables_of_groups(asked))
    levels = levels_of(list(layout.areas))
    keys = np.unique(np.concatenate([table.key for table in tables]))
    keys = keys[chosen_groups(asked.groups, keys) & (depths(keys, levels) >= 0)]
    areas, schema = GroupAreas.of(keys, levels), _schema_of_groups()
    kept = [table.of_groups(keys) for table in tables]
    marginals = [each for table in kept for each in _marginals_of_group_tables(table, areas, layout, schema)]
    names = {int(each.code): each.label for each in layout.iterations}
    notes = (MEMBERSHIPS, NOISE, *geography_notes(list(layout.areas), levels, areas))
    geography = areas.geography(names)
    return published_marginals.Published(
        schema, geography, tuple(marginals), (), release.title, notes, geography.levels[-1]
    )


def _tables_of_groups(asked: ReadBack) -> Iterator[OfficialTable]:
    """The six tables. Raises where one is not as it should be."""
    for each, copies in zip(TABLES, open_official(asked.release).values(), strict=True):
        where = Place(file=each.name)
        if not copies.fits:
            raise ReleaseError("release-tables/columns", where=where)
        try:
            read = read_official(each, copies)
        except (OSError, pa.ArrowException):
            raise ReleaseError("release-tables/damaged", where=where) from None
        if isinstance(read, str):
            raise ReleaseError("release-tables/group", where=where)
        yield read


def _schema_of_groups() -> Schema:
    """Household type and tenure, and both in the groups of the tables."""
    attributes: dict[str, Any] = {}
    for family, tables in TABLES_OF.items():
        finest = tables[-1].measured
        recodes = {
            table.name: {
                "groups": {
                    cell.label: [each.code for each in finest if set(each.codes) <= set(cell.codes)]
                    for cell in table.measured
                }
            }
            for table in tables[1:-1]
        }
        levels = [[cell.code, cell.label] for cell in finest]
        attributes[VARIABLES[family]] = {"levels": levels, "recodes": recodes}
    provenance = "The household types and tenures of SafeTab-H."
    return parse_schema({"id": "safetab-h", "provenance": provenance, "attributes": attributes})


def _measured_query(table: HouseholdTable, schema: Schema) -> Query:
    """What is measured in a table."""
    variable = VARIABLES[table.family]
    finest = TABLES_OF[table.family][-1] is table
    return schema.query("total" if not table.level else variable if finest else f"{variable}:{table.name}")


def _marginals_of_group_tables(
    table: OfficialTable, areas: GroupAreas, layout: HouseholdLayout, schema: Schema
) -> Iterator[published_marginals.PublishedMarginal]:
    """The measured cells of a table, a marginal for each level of areas and each law of the noise."""
    query, rows = _measured_query(table.table, schema), [table.table.rows.index(cell) for cell in table.table.measured]
    key, figures = table.key, table.figures[:, rows]
    depth, unit = areas.place(key)
    level_of = np.zeros(reading.CODES, np.int64)
    for each in layout.iterations:
        level_of[int(each.code)] = each.level
    region, iteration_level = reading.region_of(key), level_of[reading.code_of(key)]
    for kind, number in sorted(set(zip(region.tolist(), iteration_level.tolist(), strict=True))):
        law = layout.places[REGION_TYPES[kind], number].laws[table.table.family]
        here = np.flatnonzero((region == kind) & (iteration_level == number) & (unit >= 0))
        for level in np.unique(depth[here]).tolist():
            at = here[depth[here] == level]
            cell = np.tile(np.arange(query.cells), len(at))
            counts = np.maximum(figures[at], 0).astype(np.float64).reshape(-1)
            arrays = published_marginals.sparse(np.repeat(unit[at], query.cells), cell, counts, len(areas.units[level]))
            exact = Fraction(law.variance()).limit_denominator(10**9)
            additive = published_marginals.AdditiveLaw(law, floored=True)
            yield published_marginals.PublishedMarginal(
                table.table.name, level, query, *arrays, exact, absent_unknown=True, law=additive
            )


SAME_PEOPLE = ("PH1_num", "PH2", "PH7")


RACE = "householder_race"


LEVELS = {STATE: "state", NATION: "nation"}
"""The levels, the smallest first, and what the attack calls them."""


TRUNCATED = "Of a household at most so many persons are counted as the certificate says: these are the people here."


def read_people_in_households(asked: ReadBack) -> published_marginals.Published:
    """The tables of a release that count the same people, at every level that is there."""
    asked.no_groups()
    try:
        layout, counts = read_counts(asked.release)
    except LookupError as error:
        raise ReleaseError("release-tables/columns", where=Place(file=str(error.args[0]))) from None
    schema = _schema_of_people()
    states = np.arange(len(layout.states))
    units = (layout.states, layout.areas(NATION))
    geography = published_marginals.PublishedGeography(
        tuple(LEVELS.values()), units, (states, np.zeros(len(states), np.int64))
    )
    marginals = tuple(_marginals_of_people(layout, counts, schema))
    return published_marginals.Published(
        schema, geography, marginals, (), asked.release.title, (TRUNCATED, NOISE), LEVELS[NATION]
    )


def _schema_of_people() -> Schema:
    """Age, household type, tenure, and the race of the householder."""
    attributes = {RACE: {"levels": [[each.code, each.label] for each in iterations_of("A-G")]}}
    for name in SAME_PEOPLE:
        counted = household_tables.table(name)
        levels = [[str(cell.code), cell.label] for cell in counted.interior]
        attributes[counted.variable] = {"levels": levels}
    provenance = "The people in households of PHSafe, as its tables count them."
    return parse_schema({"id": "phsafe", "provenance": provenance, "attributes": attributes})


def _marginals_of_people(
    layout: ReleaseLayout, counts: Counts, schema: Schema
) -> Iterator[published_marginals.PublishedMarginal]:
    for depth, level in enumerate(LEVELS):
        for name in SAME_PEOPLE:
            for query in layout.of_table(household_tables.table(name), level):
                if query.iteration_level != "H,I":
                    yield _marginal(query, counts, depth, schema)


def _marginal(query: PlannedQuery, counts: Counts, depth: int, schema: Schema) -> published_marginals.PublishedMarginal:
    """The counts of one query: its cells, or the race of the householder crossed with them."""
    variable = household_tables.table(query.table).variable
    of_race = query.iteration_level == "A-G"
    asked = schema.ordered_query([RACE, variable] if of_race else [variable])
    values = counts[query.key]  # areas, iterations, cells
    if of_race and asked.variables[0].attribute.name != RACE:
        values = values.swapaxes(1, 2)
    areas = len(values)
    flat = values.reshape(areas, -1)
    unit, cell = np.repeat(np.arange(areas), asked.cells), np.tile(np.arange(asked.cells), areas)
    arrays = published_marginals.sparse(unit, cell, flat.reshape(-1).astype(np.float64), areas)
    variance = Fraction(query.law.variance()).limit_denominator(10**9)
    return published_marginals.PublishedMarginal(
        query.table, depth, asked, *arrays, variance, law=published_marginals.AdditiveLaw(query.law)
    )
