"""Texts in dictionaries: each text once, and in every row the number of its text.

Few texts are in many rows. Rows that are compared rather than written have theirs in dictionaries, which is many times
quicker to read and to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DICTIONARY = pa.dictionary(pa.int32(), pa.string())


def in_dictionary(texts: Sequence[str] | pa.Array, place: npt.NDArray[Any]) -> pa.Array:
    """A column that has in each row the text at this place."""
    listed = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), listed)


def in_dictionaries(schema: pa.Schema) -> pa.Schema:
    """The names and types of columns alone, with texts in dictionaries."""
    types = ((each.name, DICTIONARY if pa.types.is_string(each.type) else each.type) for each in schema)
    return pa.schema(types)


def of_type(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A column with its texts in a dictionary, or written out, as the type says."""
    if column.type == kind:
        return column
    return column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)


def of_schema(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in columns of these types."""
    columns = [of_type(column, each.type) for column, each in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def written_out(rows: pa.Table) -> pa.Table:
    """The same rows without dictionaries."""
    types = ((each.name, pa.string() if each.type == DICTIONARY else each.type) for each in rows.schema)
    return rows.cast(pa.schema(types))


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same columns and rows, whatever the order of the texts in their dictionaries.

    >>> texts = pa.table({"sex": in_dictionary(["m", "f"], np.array([0, 1]))})
    >>> same_rows(texts, pa.table({"sex": in_dictionary(["f", "m"], np.array([1, 0]))}))
    True
    """
    if one.num_rows != other.num_rows or not one.schema.equals(other.schema):
        return False
    return all(_same(*columns) for columns in zip(one.columns, other.columns, strict=True))


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if one.type == DICTIONARY:
        both = pa.chunked_array([*one.chunks, *other.chunks], DICTIONARY)
        # Of rows that are fewer than the texts, the texts themselves are quicker to compare than two dictionaries.
        few = len(one) <= max((len(chunk.dictionary) for chunk in both.chunks), default=0)
        both = both.cast(pa.string()) if few else both.unify_dictionaries()
        one, other = both.slice(0, len(one)), both.slice(len(one))
    return bool(one.equals(other))
