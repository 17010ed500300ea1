"""Released tables and records, read again from their files in whole numbers, whatever wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from confide.swapping.programme import ALL

Integers = npt.NDArray[np.int64]


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
