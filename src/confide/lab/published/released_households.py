"""Releases of ``safetab-h`` and ``phsafe`` read back, so that an attack can fit them.

Household type and tenure of every group, over areas that nest: groups overlap, and the files do not say how. So each
group stands by itself, as in releases of SafeTab-P (:mod:`confide.lab.published.safetab`), and a household that belongs
to three groups comes out three times. Figures below zero count as zero.

People in households of the nation and its states: three tables count the same people, those that truncation keeps,
PH1_num by age, PH2 by household type, PH7 by tenure; the first and the last also by the race of the householder. Tables
of other people, of children and of families, are left out: nothing says which of the people they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from confide.documents import parse_schema
from confide.errors import Place, ReleaseError
from confide.lab.published.marginals import AdditiveLaw, Published, PublishedGeography, PublishedMarginal, sparse
from confide.lab.published.published_rows import NOISE, ReadBack
from confide.lab.published.safetab import GroupAreas, chosen_groups, depths, geography_notes, levels_of
from confide.mechanisms.phsafe.layout import Counts, PlannedQuery, ReleaseLayout
from confide.mechanisms.phsafe.output import read_counts
from confide.mechanisms.phsafe.tables import NATION, STATE, iterations_of, table
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.settings import REGION_TYPES
from confide.mechanisms.safetab_h.output import HouseholdLayout
from confide.mechanisms.safetab_h.settings import TABLES, TABLES_OF, VARIABLES, HouseholdTable
from confide.mechanisms.safetab_h.verify import OfficialTable, open_official, read_official
from confide.schema import Query, Schema

MEMBERSHIPS = "Groups overlap, and each is fitted by itself: a household is there once for every group that counts it."


def read_household_groups(asked: ReadBack) -> Published:
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
    return Published(schema, geography, tuple(marginals), (), release.title, notes, geography.levels[-1])


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


def _query(table: HouseholdTable, schema: Schema) -> Query:
    """What is measured in a table."""
    variable = VARIABLES[table.family]
    finest = TABLES_OF[table.family][-1] is table
    return schema.query("total" if not table.level else variable if finest else f"{variable}:{table.name}")


def _marginals_of_group_tables(
    table: OfficialTable, areas: GroupAreas, layout: HouseholdLayout, schema: Schema
) -> Iterator[PublishedMarginal]:
    """The measured cells of a table, a marginal for each level of areas and each law of the noise."""
    query, rows = _query(table.table, schema), [table.table.rows.index(cell) for cell in table.table.measured]
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
            arrays = sparse(np.repeat(unit[at], query.cells), cell, counts, len(areas.units[level]))
            exact = Fraction(law.variance()).limit_denominator(10**9)
            additive = AdditiveLaw(law, floored=True)
            yield PublishedMarginal(table.table.name, level, query, *arrays, exact, absent_unknown=True, law=additive)


# People in households.


SAME_PEOPLE = ("PH1_num", "PH2", "PH7")
RACE = "householder_race"
LEVELS = {STATE: "state", NATION: "nation"}
"""The levels, the smallest first, and what the attack calls them."""
TRUNCATED = "Of a household at most so many persons are counted as the certificate says: these are the people here."


def read_people_in_households(asked: ReadBack) -> Published:
    """The tables of a release that count the same people, at every level that is there."""
    asked.no_groups()
    try:
        layout, counts = read_counts(asked.release)
    except LookupError as error:
        raise ReleaseError("release-tables/columns", where=Place(file=str(error.args[0]))) from None
    schema = _schema_of_people()
    states = np.arange(len(layout.states))
    units = (layout.states, layout.areas(NATION))
    geography = PublishedGeography(tuple(LEVELS.values()), units, (states, np.zeros(len(states), np.int64)))
    marginals = tuple(_marginals_of_people(layout, counts, schema))
    return Published(schema, geography, marginals, (), asked.release.title, (TRUNCATED, NOISE), LEVELS[NATION])


def _schema_of_people() -> Schema:
    """Age, household type, tenure, and the race of the householder."""
    attributes = {RACE: {"levels": [[each.code, each.label] for each in iterations_of("A-G")]}}
    for name in SAME_PEOPLE:
        counted = table(name)
        levels = [[str(cell.code), cell.label] for cell in counted.interior]
        attributes[counted.variable] = {"levels": levels}
    provenance = "The people in households of PHSafe, as its tables count them."
    return parse_schema({"id": "phsafe", "provenance": provenance, "attributes": attributes})


def _marginals_of_people(layout: ReleaseLayout, counts: Counts, schema: Schema) -> Iterator[PublishedMarginal]:
    for depth, level in enumerate(LEVELS):
        for name in SAME_PEOPLE:
            for query in layout.of_table(table(name), level):
                if query.iteration_level != "H,I":
                    yield _marginal(query, counts, depth, schema)


def _marginal(query: PlannedQuery, counts: Counts, depth: int, schema: Schema) -> PublishedMarginal:
    """The counts of one query: its cells, or the race of the householder crossed with them."""
    variable = table(query.table).variable
    of_race = query.iteration_level == "A-G"
    asked = schema.ordered_query([RACE, variable] if of_race else [variable])
    values = counts[query.key]  # areas, iterations, cells
    if of_race and asked.variables[0].attribute.name != RACE:
        values = values.swapaxes(1, 2)
    areas = len(values)
    flat = values.reshape(areas, -1)
    unit, cell = np.repeat(np.arange(areas), asked.cells), np.tile(np.arange(asked.cells), areas)
    arrays = sparse(unit, cell, flat.reshape(-1).astype(np.float64), areas)
    variance = Fraction(query.law.variance()).limit_denominator(10**9)
    return PublishedMarginal(query.table, depth, asked, *arrays, variance, law=AdditiveLaw(query.law))
