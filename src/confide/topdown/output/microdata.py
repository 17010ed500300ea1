"""Estimates of blocks as records: one line for each person or unit, with the codes of the schema."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from confide.geography.spine import OUTSIDE
from confide.topdown.question import Question

ROWS_AT_ONCE = 1 << 18


def microdata_schema(question: Question) -> pa.Schema:
    """The columns: the block, then the attributes in the order of the schema."""
    columns = [
        pa.field(question.spec.geography.block, pa.string(), False, {"description": "code of the block"}),
        *(
            pa.field(
                attribute.name,
                pa.int64() if attribute.is_integer else pa.string(),
                False,
                {"description": attribute.title},
            )
            for attribute in question.strategy.schema.attributes
        ),
    ]
    return pa.schema(columns)


def microdata_batches(question: Question, estimates: pa.Table) -> Iterator[pa.RecordBatch]:
    """The records of some blocks, by block and cell. Equal records are equal lines."""
    schema = microdata_schema(question)
    attributes = question.strategy.schema.attributes
    shape = tuple(attribute.size for attribute in attributes)
    unit, cell, count = (estimates.column(name).to_numpy() for name in ("unit", "cell", "n"))
    ends = np.cumsum(count)
    start = 0
    while start < len(count):
        reach = ends[start] - count[start] + ROWS_AT_ONCE
        end = max(start + 1, int(np.searchsorted(ends, reach, side="right")))
        times = count[start:end]
        blocks = pa.array(question.spine.block_codes[unit[start:end]].tolist())
        indices = np.unravel_index(cell[start:end], shape)
        repeated = pa.array(np.repeat(np.arange(end - start), times))
        columns = [blocks.take(repeated)]
        for attribute, index in zip(attributes, indices, strict=True):
            codes = pa.array([level.code for level in attribute.levels])
            columns.append(codes.take(pa.array(index)).take(repeated))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        start = end


def units_table(question: Question) -> pa.Table:
    """What the frame says of every block: its units and areas, and the counts that constraints use.

    Public knowledge, published as it is. Blocks are in the order of their codes; those off the spine, which have no
    unit to live in, count zero. An area is empty where a block lies in none.
    """
    frame = question.frame.spine
    order = np.argsort(frame.blocks.unit_of_block)

    def column(name: str, kind: pa.DataType, description: str) -> pa.Field:
        return pa.field(name, kind, False, {"description": description})

    fields = [column(question.spec.geography.block, pa.string(), "code of the block")]
    columns = [pa.array(frame.blocks.codes, pa.string())]
    for level in (*frame.levels[:-1], *frame.areas):
        kind = "geounit" if level.on_spine else "area, empty outside of all"
        fields.append(column(level.name, pa.string(), f"code of the {kind}"))
        units = level.unit_of_block[order]
        codes = pa.array([*level.codes, ""], pa.string())
        columns.append(codes.take(pa.array(np.where(units == OUTSIDE, level.units, units))))
    for name, values in question.columns.items():
        counts = np.zeros(len(order), np.int64)
        counts[question.spine.rows] = values
        fields.append(column(name, pa.int64(), "count of the frame"))
        columns.append(pa.array(counts[order]))
    return pa.table(columns, schema=pa.schema(fields))
