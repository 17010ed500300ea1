"""The tables of a release as arrays: what ``verify`` and ``evaluate`` look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.safetab.grids import GRIDS, OLDEST, SEXES, TOTAL_TABLE, Grid
from confide.safetab.output.reading import Copies, code_of, group_keys, paths_of
from confide.safetab.output.rows import ANY_AGE, MEASURED, T1, T2, table_schema

Integers = npt.NDArray[np.int64]

AGES = (ANY_AGE, *map(str, range(OLDEST + 1)))
TABLES = (TOTAL_TABLE, *(grid.table for grid in GRIDS))
MARGINS = {
    TOTAL_TABLE: ("TOTAL_MARGIN",),
    **{grid.table: ("TOTAL_MARGIN", "SEX_MARGIN", "CELL_MARGIN") for grid in GRIDS},
}
"""The columns of noise margins of each table for people."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of ``t1`` or ``t2``: group, cell (0 in ``t1``) and count.

    A cell is the number ``(sex * 117 + first age) * 117 + last age``, sex from 0 and ages from 1; 0 stands for all
    ages. The order of these numbers is that of the layout. It is -1 where the texts are not of the layout.
    """

    key: Integers
    cell: Integers
    count: Integers

    def take(self, chosen: npt.NDArray[np.bool_]) -> Rows:
        return Rows(self.key[chosen], self.cell[chosen], self.count[chosen])

    def same_as(self, other: Rows) -> bool:
        """Whether both have the same rows in the same order."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("key", "cell", "count"))


@dataclass(frozen=True, eq=False)
class TableForPeople:
    """One of the tables ``T01001`` to ``T02003``."""

    key: Integers
    total: Integers
    figures: Integers
    """A row for each group: none in ``T01001``; else men, men by age, women, women by age; -1 for what was left out."""
    level: Integers
    """The statistics level; -1 where ``MEASURED_AS`` is none of the words."""
    margins: Integers | None
    """The columns of noise margins, if there are any."""
    names: Mapping[int, frozenset[str]]
    """For each iteration code the names that it is given: one, if all is well."""


def cells_of(grid: Grid) -> Integers:
    """The cells of a grid in the order of ``t2``: for each sex all ages, then each age."""
    ages = [(0, 0), *((first + 1, last + 1) for first, last in grid.bounds)]
    return np.array([_cell(sex, first, last) for sex in range(len(SEXES)) for first, last in ages], np.int64)


def is_sum(cell: Integers) -> npt.NDArray[np.bool_]:
    """Whether a cell is of all ages."""
    return np.asarray(cell % len(AGES) == 0)


def open_release(folder: Path, manifest: dict[str, Any], *, margins: bool) -> dict[str, Copies]:
    """Every table that a release has, by name."""
    opened = {
        name: Copies.open(folder, paths_of(manifest, f"{name}/{name}"), schema, "|")
        for name, schema in (("t1", T1), ("t2", T2))
    }
    return opened | {name: open_table(folder, manifest, name, margins=margins) for name in TABLES}


def open_table(folder: Path, manifest: dict[str, Any], name: str, *, margins: bool) -> Copies:
    """One of the tables for people."""
    return Copies.open(folder, paths_of(manifest, f"tables/{name}"), table_schema(name, margins=margins))


def read_rows(copies: Copies) -> Rows:
    """All rows of ``t1`` or ``t2``."""

    def parts(batch: pa.Table) -> list[Integers]:
        keys = group_keys(batch)
        cell = _cells(batch) if "SEX" in batch.column_names else np.zeros(len(keys), np.int64)
        return [keys, cell, _whole(batch, "COUNT")]

    key, cell, count = _joined(copies, parts, [(), (), ()])
    return Rows(key, cell, count)


def read_table(name: str, copies: Copies, *, margins: bool, left_out: bool = False) -> TableForPeople:
    """All rows of a table for people; ``left_out`` says whether figures below zero were left out of it."""
    number = TABLES.index(name)
    figures = [] if number == 0 else _figure_columns(name, margins=margins)
    bands = list(MARGINS[name]) if margins else []
    words = pa.array([MEASURED[level] for level in sorted(MEASURED)])
    names: dict[int, frozenset[str]] = {}

    def filled(batch: pa.Table) -> pa.Table:
        for name in figures if left_out else ():
            column = pc.fill_null(batch.column(name), -1)
            batch = batch.set_column(batch.column_names.index(name), name, column)
        return batch

    def parts(batch: pa.Table) -> list[Integers]:
        keys = group_keys(batch)
        _note_names(names, keys, batch.column("ITERATION_NAME"))
        level = np.full(len(keys), number, np.int64)
        if number == 0:
            found = pc.fill_null(pc.index_in(batch.column("MEASURED_AS"), words), -1)
            level = found.to_numpy().astype(np.int64)
        return [keys, _whole(batch, "TOTAL"), _wide(filled(batch), figures), level, _wide(batch, bands)]

    key, total, wide, level, margin = _joined(copies, parts, [(), (), (len(figures),), (), (len(bands),)])
    return TableForPeople(key, total, wide, level, margin if margins else None, names)


def _joined(
    copies: Copies, parts: Callable[[pa.Table], list[Integers]], shapes: Sequence[tuple[int, ...]]
) -> list[Integers]:
    """What ``parts`` makes of each batch, one after the other; ``shapes`` are those of one row."""
    made = [[np.zeros((0, *shape), np.int64) for shape in shapes]]
    made += [parts(batch) for batch in copies.batches()]
    return [np.concatenate(column) for column in zip(*made, strict=True)]


def _whole(batch: pa.Table, name: str) -> Integers:
    return np.asarray(batch.column(name).to_numpy(), np.int64)


def _wide(batch: pa.Table, columns: Sequence[str]) -> Integers:
    if not columns:
        return np.zeros((batch.num_rows, 0), np.int64)
    return np.stack([_whole(batch, name) for name in columns], axis=1)


def _figure_columns(name: str, *, margins: bool) -> list[str]:
    columns: list[str] = table_schema(name, margins=margins).names
    first = columns.index("TOTAL") + 1
    return columns[first : len(columns) - (len(MARGINS[name]) if margins else 0)]


def _cell(sex: Any, first: Any, last: Any) -> Any:
    return (sex * len(AGES) + first) * len(AGES) + last


def _cells(batch: pa.Table) -> Integers:
    positions = [
        pc.fill_null(pc.index_in(batch.column(name), pa.array(values)), -1).to_numpy().astype(np.int64)
        for name, values in (("SEX", SEXES), ("AGESTART", AGES), ("AGEEND", AGES))
    ]
    known = np.logical_and.reduce([position >= 0 for position in positions])
    return np.where(known, _cell(*positions), -1)


def _note_names(names: dict[int, frozenset[str]], keys: Integers, texts: pa.ChunkedArray) -> None:
    coded = texts.combine_chunks().dictionary_encode()
    pairs = np.unique(np.column_stack([code_of(keys), coded.indices.to_numpy()]), axis=0)
    for code, position in pairs.tolist():
        names[code] = names.get(code, frozenset()) | {coded.dictionary[position].as_py()}
