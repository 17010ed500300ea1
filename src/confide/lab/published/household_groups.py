"""A release of ``safetab-h`` read back, so that an attack can fit it: household type and tenure of every group, over
areas that nest.

Groups overlap, and the files do not say how. So each group stands by itself, as in releases of SafeTab-P
(:mod:`confide.lab.published.safetab`), and a household that belongs to three groups comes out three times.
Figures below zero count as zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from confide.documents import parse_schema
from confide.errors import Place, ReleaseError
from confide.lab.published.marginals import AdditiveLaw, Published, PublishedMarginal, sparse
from confide.lab.published.published_rows import NOISE, ReadBack
from confide.lab.published.safetab import GroupAreas, chosen_groups, depths, geography_notes, levels_of
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.settings import REGION_TYPES
from confide.mechanisms.safetab_h.output import HouseholdLayout
from confide.mechanisms.safetab_h.settings import TABLES, TABLES_OF, VARIABLES, HouseholdTable
from confide.mechanisms.safetab_h.verify import OfficialTable, open_official, read_official
from confide.schema import Query, Schema

MEMBERSHIPS = "Groups overlap, and each is fitted by itself: a household is there once for every group that counts it."


def read_published(asked: ReadBack) -> Published:
    """The tables of a release; of some groups alone if their iteration codes are given."""
    release, layout = asked.release, HouseholdLayout.of(asked.release.manifest["plan"])
    tables = list(_tables(asked))
    levels = levels_of(list(layout.areas))
    keys = np.unique(np.concatenate([table.key for table in tables]))
    keys = keys[chosen_groups(asked.groups, keys) & (depths(keys, levels) >= 0)]
    areas, schema = GroupAreas.of(keys, levels), _schema()
    kept = [table.of_groups(keys) for table in tables]
    marginals = [each for table in kept for each in _marginals(table, areas, layout, schema)]
    names = {int(each.code): each.label for each in layout.iterations}
    notes = (MEMBERSHIPS, NOISE, *geography_notes(list(layout.areas), levels, areas))
    geography = areas.geography(names)
    return Published(schema, geography, tuple(marginals), (), release.title, notes, geography.levels[-1])


def _tables(asked: ReadBack) -> Iterator[OfficialTable]:
    """The six tables. Raises where one is not as it should be."""
    for table, copies in zip(TABLES, open_official(asked.release).values(), strict=True):
        where = Place(file=table.name)
        if not copies.fits:
            raise ReleaseError("release-tables/columns", where=where)
        try:
            read = read_official(table, copies)
        except (OSError, pa.ArrowException):
            raise ReleaseError("release-tables/damaged", where=where) from None
        if isinstance(read, str):
            raise ReleaseError("release-tables/group", where=where)
        yield read


def _schema() -> Schema:
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


def _marginals(
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
