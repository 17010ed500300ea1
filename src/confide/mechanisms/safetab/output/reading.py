"""Files of a release read again, some rows at a time, in every format at once; groups as whole numbers.

Region types have region identifiers of one width, and iteration codes have four digits, so that a group is one number

    (position of the region type · 10^11 + region identifier) · 10^4 + iteration code,

and the order of these numbers is that of the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from confide.arrays import Integers
from confide.mechanisms.safetab.output.coded import ANY_AGE, T1, T2
from confide.mechanisms.safetab.settings import GRIDS, OLDEST, REGION_TYPES, SEXES, TOTAL_TABLE, Grid
from confide.releases.folder import SealedRelease
from confide.releases.tabular.checks import TableCopies

WIDTHS = {"USA": 1, "STATE": 2, "COUNTY": 5, "TRACT": 11, "PLACE": 7, "AIANNH": 4}
"""The digits of a region's identifier; those of Puerto Rico are as wide as the others of their kind."""

CODE_DIGITS = 4
CODES = 10_000
REGIONS = 10**11
UNREADABLE = -1
"""Stands for a group whose texts are not of the layout."""


def width_of(region_type: str) -> int:
    """The number of digits of a region's identifier."""
    return WIDTHS[region_type.removeprefix("PR-")]


def group_key(region_type: str, region: str, code: str) -> int:
    """The number of one group."""
    return (REGION_TYPES.index(region_type) * REGIONS + int(region)) * CODES + int(code)


def group_keys(rows: pa.Table) -> Integers:
    """The number of each row's group, or :data:`UNREADABLE`."""
    kind = pc.fill_null(pc.index_in(rows.column("REGION_TYPE"), pa.array(REGION_TYPES)), -1).to_numpy()
    region, region_width = _numbers(rows.column("REGION_ID"))
    code, code_width = _numbers(rows.column("ITERATION_CODE"))
    widths = np.array([width_of(name) for name in REGION_TYPES])
    fits = (kind >= 0) & (region_width == widths[kind]) & (code_width == CODE_DIGITS)
    return np.where(fits, (kind.astype(np.int64) * REGIONS + region) * CODES + code, UNREADABLE)


def region_of(keys: Integers) -> Integers:
    """The position of each group's region type."""
    return np.asarray(keys // (REGIONS * CODES))


def area_of(keys: Integers) -> Integers:
    """The region identifier of each group, as a number."""
    return np.asarray(keys // CODES % REGIONS)


def code_of(keys: Integers) -> Integers:
    """The iteration code of each group, as a number."""
    return np.asarray(keys % CODES)


def find(sorted_keys: Integers, keys: Integers) -> Integers:
    """The place of each key among sorted ones, or -1."""
    if not len(sorted_keys):
        return np.full(len(keys), -1, np.int64)
    place = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.where(sorted_keys[place] == keys, place, -1).astype(np.int64)


def _numbers(texts: pa.ChunkedArray) -> tuple[Integers, Integers]:
    """Texts of digits as numbers, and how many digits they have: none if there is anything else in them."""
    coded = texts.combine_chunks().dictionary_encode()
    used = coded.dictionary
    digits = pc.match_substring_regex(used, "^[0-9]{1,11}$")
    number = pc.if_else(digits, used, "0").cast(pa.int64()).to_numpy()
    width = pc.if_else(digits, pc.binary_length(used), 0).to_numpy().astype(np.int64)
    at = coded.indices.to_numpy()
    return number[at], width[at]


# The tables of a release as arrays: what ``verify`` and ``evaluate`` look at.


AGES = (ANY_AGE, *map(str, range(OLDEST + 1)))
TABLES = (TOTAL_TABLE, *(grid.table for grid in GRIDS))


@dataclass(frozen=True, eq=False)
class GroupTableRows:
    """Rows of ``t1`` or ``t2``: group, cell (0 in ``t1``) and count.

    A cell is the number ``(sex * 117 + first age) * 117 + last age``, sex from 0 and ages from 1; 0 stands for all
    ages. The order of these numbers is that of the layout. It is -1 where the texts are not of the layout.
    """

    key: Integers
    cell: Integers
    count: Integers

    def take(self, chosen: npt.NDArray[np.bool_]) -> GroupTableRows:
        return GroupTableRows(self.key[chosen], self.cell[chosen], self.count[chosen])

    def same_as(self, other: GroupTableRows) -> bool:
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
    """The statistics level; -1 where ``measured_as`` is none of the words."""


def cells_of(grid: Grid) -> Integers:
    """The cells of a grid in the order of ``t2``: for each sex all ages, then each age."""
    ages = [(0, 0), *((first + 1, last + 1) for first, last in grid.bounds)]
    return np.array([_cell(sex, first, last) for sex in range(len(SEXES)) for first, last in ages], np.int64)


def is_sum(cell: Integers) -> npt.NDArray[np.bool_]:
    """Whether a cell is of all ages."""
    return np.asarray(cell % len(AGES) == 0)


def open_official(release: SealedRelease) -> dict[str, TableCopies]:
    """``t1`` and ``t2``, in the Census Bureau's layout."""
    return {name: TableCopies.open(release, f"{name}/{name}", schema, "|") for name, schema in (("t1", T1), ("t2", T2))}


def read_rows(copies: TableCopies) -> GroupTableRows:
    """All rows of ``t1`` or ``t2``."""

    def parts(batch: pa.Table) -> list[Integers]:
        keys = group_keys(batch)
        cell = _cells(batch) if "SEX" in batch.column_names else np.zeros(len(keys), np.int64)
        return [keys, cell, _whole(batch, "COUNT")]

    key, cell, count = _joined(copies, parts, [(), (), ()])
    return GroupTableRows(key, cell, count)


def _joined(
    copies: TableCopies, parts: Callable[[pa.Table], list[Integers]], shapes: Sequence[tuple[int, ...]]
) -> list[Integers]:
    """What ``parts`` makes of each batch, one after the other; ``shapes`` are those of one row."""
    columns = [[np.zeros((0, *shape), np.int64) for shape in shapes]]
    columns += [parts(batch) for batch in copies.batches()]
    return [np.concatenate(column) for column in zip(*columns, strict=True)]


def _whole(batch: pa.Table, name: str) -> Integers:
    return np.asarray(batch.column(name).to_numpy(), np.int64)


def _cell(sex: Any, first: Any, last: Any) -> Any:
    return (sex * len(AGES) + first) * len(AGES) + last


def _cells(batch: pa.Table) -> Integers:
    positions = [
        pc.fill_null(pc.index_in(batch.column(name), pa.array(values)), -1).to_numpy().astype(np.int64)
        for name, values in (("SEX", SEXES), ("AGESTART", AGES), ("AGEEND", AGES))
    ]
    in_layout = np.logical_and.reduce([position >= 0 for position in positions])
    return np.where(in_layout, _cell(*positions), -1)
