"""Counts of people by area and cell, without zeros: exact, of the records as they are or as they were swapped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.schema import Query
from confide.swapping.people import People
from confide.swapping.programme import Table

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """The rows of a table on one level: units ascending, in a unit margin by margin, in a margin cell by cell."""

    unit: Integers
    margin: Integers
    cell: Integers
    count: Integers


def count_table(
    people: People, block: Integers, codes: Mapping[str, Integers], table: Table
) -> Iterator[tuple[str, Rows]]:
    """The rows of a table on each of its levels, for people in these blocks with these codes."""
    cells = np.zeros(len(block), np.int64)
    for variable in table.query.variables:
        cells = cells * variable.size + variable.assignment[codes[variable.attribute.name]]
    for level in table.levels:
        unit = people.unit_of(level)[block]
        inside = unit >= 0
        key, count = np.unique(unit[inside] * table.query.cells + cells[inside], return_counts=True)
        yield level, _with_margins(table, key, count.astype(np.int64))


def _with_margins(table: Table, key: Integers, count: Integers) -> Rows:
    units, margins, found, counts = [], [], [], []
    unit, cell = np.divmod(key, table.query.cells)
    for number, margin in enumerate(table.margins):
        distinct, sums = _summed(unit * margin.cells + projected(table.query, margin, cell), count)
        units.append(distinct // margin.cells)
        margins.append(np.full(len(distinct), number, np.int64))
        found.append(distinct % margin.cells)
        counts.append(sums)
    of_unit, of_margin, of_cell = (np.concatenate(each) for each in (units, margins, found))
    order = np.lexsort((of_cell, of_margin, of_unit))
    return Rows(of_unit[order], of_margin[order], of_cell[order], np.concatenate(counts)[order])


def _summed(key: Integers, count: Integers) -> tuple[Integers, Integers]:
    distinct, place = np.unique(key, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, count)
    return distinct, sums


def projected(query: Query, margin: Query, cells: Integers) -> Integers:
    """The cells of a margin that cells of the whole table lie in."""
    places = np.unravel_index(cells, query.shape) if query.shape else ()
    result: Integers = np.zeros(len(cells), np.int64)
    for variable, place in zip(query.variables, places, strict=True):
        if variable in margin.variables:
            result = result * variable.size + place
    return result
