"""The files of a release of swapped data: tables for people and, if asked for, the swapped records.

A table has a row for each level, area, margin and cell with somebody in it; what is not listed is zero. ``all`` stands
for a variable that is summed over.

Records are in an order that says nothing of where a household came from: by block, then by what the members of a
household are, then household by household; people outside of households last. Households are numbered in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.swapping.counting import Rows
from confide.swapping.people import People, combined
from confide.swapping.preparing import HOUSEHOLD
from confide.swapping.programme import ALL, SwappingQuestion, Table

Integers = npt.NDArray[np.int64]
PERSONS = "persons"
MICRODATA = f"microdata/{PERSONS}"
_BATCH = 1 << 18


def table_schema(table: Table) -> pa.Schema:
    """The columns of a table."""
    columns = [_field("level", pa.string(), "geolevel"), _field("area", pa.string(), "code of the geounit or area")]
    columns += [
        _field(variable.attribute.name, pa.string(), f"{variable.name}; '{ALL}' in a margin over it")
        for variable in table.query.variables
    ]
    return pa.schema([*columns, _field("count", pa.int64(), "swapped records; what is not listed is 0")])


def table_rows(question: SwappingQuestion, table: Table, level: str, rows: Rows) -> Iterator[pa.RecordBatch]:
    """The rows of a table on one level."""
    schema, codes = table_schema(table), pa.array(question.spine.level(level).codes, pa.string())
    for begin in range(0, len(rows.count), _BATCH):
        part = slice(begin, begin + _BATCH)
        unit, margin, cell = rows.unit[part], rows.margin[part], rows.cell[part]
        columns = [pa.array([level]).take(pa.array(np.zeros(len(unit), np.int64))), codes.take(pa.array(unit))]
        for variable in table.query.variables:
            place = np.zeros(len(unit), np.int64)
            for number, query in enumerate(table.margins):
                if variable in query.variables:
                    of = margin == number
                    axis = query.variables.index(variable)
                    place[of] = np.unravel_index(cell[of], query.shape)[axis] + 1
            columns.append(pa.array([ALL, *variable.labels], pa.string()).take(pa.array(place)))
        columns.append(pa.array(rows.count[part]))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def microdata_schema(question: SwappingQuestion) -> pa.Schema:
    """The columns of the swapped records."""
    household = pa.field(
        HOUSEHOLD, pa.int64(), metadata={"description": "a number of this file alone; none outside of households"}
    )
    places = [_field(level.name, pa.string(), "code of the geounit") for level in question.spine.levels[:-1]]
    areas = [
        pa.field(level.name, pa.string(), metadata={"description": "code of the area, if any"})
        for level in question.spine.areas
    ]
    people = [
        _field(attribute.name, pa.int64() if attribute.is_integer else pa.string(), attribute.title)
        for attribute in question.attributes
    ]
    return pa.schema([household, *places, *areas, _field(question.spec.geography.block, pa.string(), "block"), *people])


def microdata_rows(
    question: SwappingQuestion, people: People, block: Integers, codes: Mapping[str, Integers]
) -> Iterator[pa.RecordBatch]:
    """The swapped records."""
    schema = microdata_schema(question)
    person = combined([codes[attribute.name] for attribute in question.attributes])
    number = _numbers(people, block, person)
    outside = number < 0
    order = np.lexsort((person, number, outside, block))
    units = [people.unit_of(level.name) for level in (*question.spine.levels[:-1], *question.spine.areas)]
    names = [
        pa.array([*level.codes, None], pa.string()) for level in (*question.spine.levels[:-1], *question.spine.areas)
    ]
    levels = [
        pa.array([level.code for level in attribute.levels], pa.int64() if attribute.is_integer else pa.string())
        for attribute in question.attributes
    ]
    blocks = pa.array(question.spine.blocks.codes, pa.string())
    for begin in range(0, len(order), _BATCH):
        part = order[begin : begin + _BATCH]
        columns = [pa.array(number[part] + 1, mask=outside[part])]
        for unit, codes_of in zip(units, names, strict=True):
            at = unit[block[part]]
            columns.append(codes_of.take(pa.array(np.where(at < 0, len(codes_of) - 1, at))))
        columns.append(blocks.take(pa.array(block[part])))
        for attribute, known in zip(question.attributes, levels, strict=True):
            columns.append(known.take(pa.array(codes[attribute.name][part])))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _numbers(people: People, block: Integers, person: Integers) -> Integers:
    """For each person the new number of the household, from zero, or -1."""
    result = np.full(len(block), -1, np.int64)
    if people.households:
        order = np.lexsort((people.listed(person), block[people.first]))
        number = np.empty(people.households, np.int64)
        number[order] = np.arange(people.households)
        result[people.members] = number[people.household[people.members]]
    return result


def _field(name: str, kind: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"description": description})
