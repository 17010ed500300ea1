"""The files of a release of swapped data: tables for people and, if asked for, the swapped records.

A table has a row for each level, area, margin and cell with somebody in it; what is not listed is zero. ``all`` stands
for a variable that is summed over.

Records are in an order that says nothing of where a household came from: by block, then by what the members of a
household are, then household by household; people outside of households last. Households are numbered in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.mechanisms.swapping.people import People, combined
from confide.mechanisms.swapping.problem import ALL, HOUSEHOLD, SwappingQuestion, Table
from confide.schema import Query

# Counts of people by area and cell, without zeros: exact, of the records as they are or as they were swapped.


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


# Released tables and records, read again from their files in whole numbers, whatever wrote them.


class Unlike(ValueError):  # noqa: N818
    """A file is not as the plan describes it."""


@dataclass(frozen=True)
class Described:
    """A table as the plan in a manifest describes it."""

    name: str
    levels: tuple[str, ...]
    variables: Mapping[str, list[str]]
    codes: tuple[tuple[tuple[int | str, ...], ...], ...]
    margins: tuple[tuple[str, ...], ...]
    """For each margin the attributes that it keeps."""
    names: tuple[str, ...]

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Described:
        names = tuple(values["margins"])
        margins = tuple(tuple(part.split(":")[0] for part in name.split("*") if name != "total") for name in names)
        codes = tuple(tuple(tuple(group) for group in groups) for groups in values["codes"])
        return cls(values["name"], tuple(values["levels"]), values["variables"], codes, margins, names)

    def shape(self, margin: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(len(self.variables[name]) for name in margin)

    def cells(self, margin: tuple[str, ...]) -> int:
        return int(np.prod(self.shape(margin), dtype=np.int64))


@dataclass(frozen=True, eq=False)
class ReadTable:
    """The rows of a table: places of level and margin in the plan, of the cell in its margin, and the area's code."""

    level: Integers
    area: pa.Array
    margin: Integers
    cell: Integers
    count: Integers

    def equals(self, other: ReadTable) -> bool:
        return (
            all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("level", "margin", "cell", "count")
            )
            and self.area.equals(other.area)
        )  # fmt: skip


def read_released(path: Path, table: Described) -> ReadTable:
    """A table of the release. Raises :class:`Unlike`."""
    text = ["level", "area", *table.variables]
    rows = read_rows(path, {name: pa.string() for name in text} | {"count": pa.int64()})
    level = _places(rows.column("level"), list(table.levels), "level")
    labels = [_places(rows.column(name), [ALL, *given], name) for name, given in table.variables.items()]
    shown = np.zeros(rows.num_rows, np.int64)
    for number, place in enumerate(labels):
        shown |= (place > 0).astype(np.int64) << number
    margin = np.full(rows.num_rows, -1, np.int64)
    cell = np.zeros(rows.num_rows, np.int64)
    names = list(table.variables)
    for number, kept in enumerate(table.margins):
        of = shown == sum(1 << names.index(name) for name in kept)
        margin[of] = number
        for name in kept:
            cell[of] = cell[of] * len(table.variables[name]) + labels[names.index(name)][of] - 1
    if bool((margin < 0).any()):
        raise Unlike("a margin that the plan has not")
    area = rows.column("area").combine_chunks()
    return ReadTable(level, area, margin, cell, rows.column("count").to_numpy().astype(np.int64))


def read_rows(path: Path, types: Mapping[str, pa.DataType]) -> pa.Table:
    """A file with just these columns, in this order, none of them empty but where null is a value."""
    if path.suffix == ".parquet":
        found = pq.read_table(path)
    else:
        options = pyarrow.csv.ConvertOptions(column_types=dict(types), strings_can_be_null=False)
        found = pyarrow.csv.read_csv(path, convert_options=options)
    if found.column_names != list(types):
        raise Unlike("other columns")
    plain = pa.schema([pa.field(name, kind) for name, kind in types.items()])
    try:
        table = found.replace_schema_metadata(None).cast(plain).combine_chunks()
    except pa.ArrowException:
        raise Unlike("a column of another kind") from None
    if "count" in types and table.column("count").null_count:
        raise Unlike("a row without a count")
    return table


def _places(column: pa.ChunkedArray, known: list[str], name: str) -> Integers:
    found = pc.index_in(column.combine_chunks(), pa.array(known, pa.string()))
    if found.null_count:
        raise Unlike(f"a label of {name} that the plan has not")
    places: Integers = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places
