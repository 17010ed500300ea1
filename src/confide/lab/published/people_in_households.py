"""A release of ``phsafe`` read back, so that an attack can fit it: people in households of the nation and its states.

Three tables count the same people, those that truncation keeps: PH1_num by age, PH2 by household type, PH7 by tenure;
the first and the last also by the race of the householder. Tables of other people, of children and of families, are
left out: nothing says which of the people they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from confide.documents import parse_schema
from confide.errors import Place, ReleaseError
from confide.lab.published.marginals import AdditiveLaw, Published, PublishedGeography, PublishedMarginal, sparse
from confide.lab.published.published_rows import NOISE, ReadBack
from confide.mechanisms.phsafe.layout import Counts, PlannedQuery, ReleaseLayout
from confide.mechanisms.phsafe.output import read_counts
from confide.mechanisms.phsafe.tables import NATION, STATE, iterations_of, table
from confide.schema import Schema

SAME_PEOPLE = ("PH1_num", "PH2", "PH7")
RACE = "householder_race"
LEVELS = {STATE: "state", NATION: "nation"}
"""The levels, the smallest first, and what the attack calls them."""
TRUNCATED = "Of a household at most so many persons are counted as the certificate says: these are the people here."


def read_published(asked: ReadBack) -> Published:
    """The tables of a release that count the same people, at every level that is there."""
    asked.no_groups()
    try:
        layout, counts = read_counts(asked.release)
    except LookupError as error:
        raise ReleaseError("release-tables/columns", where=Place(file=str(error.args[0]))) from None
    schema = _schema()
    states = np.arange(len(layout.states))
    units = (layout.states, layout.areas(NATION))
    geography = PublishedGeography(tuple(LEVELS.values()), units, (states, np.zeros(len(states), np.int64)))
    marginals = tuple(_marginals(layout, counts, schema))
    return Published(schema, geography, marginals, (), asked.release.title, (TRUNCATED, NOISE), LEVELS[NATION])


def _schema() -> Schema:
    """Age, household type, tenure, and the race of the householder."""
    attributes = {RACE: {"levels": [[each.code, each.label] for each in iterations_of("A-G")]}}
    for name in SAME_PEOPLE:
        counted = table(name)
        levels = [[str(cell.code), cell.label] for cell in counted.interior]
        attributes[counted.variable] = {"levels": levels}
    provenance = "The people in households of PHSafe, as its tables count them."
    return parse_schema({"id": "phsafe", "provenance": provenance, "attributes": attributes})


def _marginals(layout: ReleaseLayout, counts: Counts, schema: Schema) -> Iterator[PublishedMarginal]:
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
