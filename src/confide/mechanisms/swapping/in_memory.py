"""Swapping as one function of two tables, settings and a key: for comparisons, trials and other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place
from confide.geography import Spine, build_spine
from confide.mechanisms.swapping.core import check_settings, swap_people
from confide.mechanisms.swapping.people import arrange
from confide.mechanisms.swapping.settings import SwapSettings
from confide.noise import ReleaseKey
from confide.schema import NO_GROUP, Attribute, Recode, Schema

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """What the columns of records and blocks are called; the defaults are those of made-up people."""

    household: str = "household_id"
    block: str = "geocode"
    levels: tuple[str, ...] = ("state", "county", "tract")
    """Columns of the block table, coarsest first: the levels above the blocks."""
    in_households: Mapping[str, int | str] = field(default_factory=lambda: {"hhgq": 0})
    """Records with these values live in households; others never move."""
    age: str = "age"


def swap_records(
    records: pa.Table,
    blocks: pa.Table,
    settings: SwapSettings,
    key: ReleaseKey,
    *,
    columns: Columns | None = None,
    schema: Schema | None = None,
) -> pa.Table:
    """The records with the places of swapped households exchanged: the same rows, in the same order, of which the block
    and the columns to be carried are new.

    Variables of the settings are columns as they are or, with a ``schema``, its recodes. The result is a function of
    the arguments: shuffled rows give the same rows, shuffled.
    """
    layout = columns or Columns()
    _require(records, [layout.household, layout.block, *layout.in_households, *settings.carry], "records")
    _require(blocks, [layout.block, *layout.levels], "blocks")
    spine = spine_of(blocks, layout)
    check_settings(spine, settings)
    named = {name: _recode(schema, name) for name in settings.variables}
    used = [recode.attribute.name if recode else name for name, recode in named.items()]
    used += [*settings.carry, *([layout.age] if settings.needs_age else [])]
    _require(records, used, "records")
    attributes = {recode.attribute.name: recode.attribute for recode in named.values() if recode}
    codes = {name: coded(records.column(name), attributes.get(name)) for name in dict.fromkeys(used)}
    texts = records.column(layout.block).combine_chunks().cast(pa.string())
    block = pc.fill_null(pc.index_in(texts, pa.array(spine.blocks.codes)), -1).to_numpy(zero_copy_only=False)
    if bool((block < 0).any()):
        raise InputError(_bad("unknown-block", "a record lies in a block that the block table lacks", layout.block))
    people, order, _ = arrange(spine, _ids(records, layout), block.astype(np.int64), codes)
    values = {
        name: people.codes[name] if recode is None else recode.assignment[people.codes[recode.attribute.name]]
        for name, recode in named.items()
    }
    if any(bool((groups == NO_GROUP).any()) for groups in values.values()):
        raise ParameterError(_bad("incomplete-recode", "a recode leaves people out", None))
    age = None
    if settings.needs_age:
        whole = records.column(layout.age).combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
        age = whole[order].astype(np.int64)
    swap = swap_people(people, settings, values, age, key, b"records")
    back = np.argsort(order)
    new = swap.block(people)[back]
    kind = records.schema.field(layout.block).type
    result = _replaced(records, layout.block, pa.array(spine.blocks.codes).take(pa.array(new)).cast(kind))
    inside = people.members
    row = np.arange(len(order))
    row[inside] = people.first[swap.partner][people.household[inside]]
    for name in settings.carry:
        result = _replaced(result, name, records.column(name).combine_chunks().take(pa.array(order[row][back])))
    return result


def spine_of(blocks: pa.Table, layout: Columns) -> Spine:
    """The geography of a block table."""
    names = [*layout.levels, layout.block]
    codes = {name: blocks.column(name).combine_chunks().cast(pa.string()).to_pylist() for name in names}
    return build_spine({name: codes[name] for name in layout.levels} | {"block": codes[layout.block]})


def coded(column: pa.ChunkedArray, attribute: Attribute | None) -> Integers:
    """A column as whole numbers from zero: the levels of an attribute, or the distinct values in their order."""
    array = column.combine_chunks()
    if array.null_count:
        raise InputError(_bad("missing-value", "a record has no value", None))
    if attribute is None:
        distinct = pc.unique(array)
        known = distinct.take(pc.sort_indices(distinct))
    else:
        known = pa.array([level.code for level in attribute.levels])
        array = array.cast(known.type)
    found: Integers = pc.fill_null(pc.index_in(array, known), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if bool((found < 0).any()):
        raise InputError(_bad("bad-record", "a code is not in the schema", attribute.name if attribute else None))
    return found


def _ids(records: pa.Table, layout: Columns) -> pa.Array:
    """The ids of the households as text, null where somebody lives in none."""
    ids = records.column(layout.household).combine_chunks().cast(pa.string())
    inside = pa.array(np.ones(records.num_rows, np.bool_))
    for name, code in layout.in_households.items():
        column = records.column(name).combine_chunks()
        inside = pc.and_(inside, pc.fill_null(pc.equal(column, pa.scalar(code).cast(column.type)), False))
    if pc.any(pc.and_(inside, pc.is_null(ids))).as_py():
        raise InputError(_bad("no-household", "a record of a household has no household id", layout.household))
    return pc.if_else(inside, ids, pa.scalar(None, pa.string()))


def _recode(schema: Schema | None, name: str) -> Recode | None:
    return None if schema is None else schema.variable(name)


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.schema.field(name), values)


def _require(table: pa.Table, names: Sequence[str], which: str) -> None:
    missing = [name for name in dict.fromkeys(names) if name not in table.column_names]
    if missing:
        raise ParameterError(
            "missing-column",
            f"the {which} have no column {missing[0]!r}",
            where=Place(column=missing[0]),
            found=f"{table.num_columns} columns of other names",
            expected=f"a column {missing[0]!r}",
            remedy="name the right column in the settings or in Columns",
        )


def _bad(code: str, what: str, column: str | None) -> Finding:
    expected, remedy = "records that fit the block table and the schema", "correct the records"
    return Finding(code, what, Place(column=column), CONFIDENTIAL, expected, remedy)
