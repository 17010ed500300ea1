"""Areas of any shape as sets of blocks, and how the spine of a release sees them.

An area is a list of blocks. Kinds of area are the official levels of a frame, areas beside them, units of the spine
itself, or whatever a file with a block code and an area code in each line says. On the spine an area is a *unit*, if it
has exactly its blocks; or it is made of *pieces*, the largest units that lie within it. Few pieces are known well; many
blocks are many errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from confide.arrays import Booleans, Integers
from confide.errors import Finding, InputError, Place
from confide.estimation.tree_covariances import TreeLevel

MOSTLY = 0.9
"""A kind of area is taken for what so many of its areas are."""
MOST_PIECES = 9
"""An area of at most so many units is followed by the spine, unless the settings of the release say otherwise."""


@dataclass(frozen=True)
class Area:
    """Some blocks by their codes, under a name."""

    name: str
    blocks: tuple[str, ...]

    @classmethod
    def from_blocks(cls, blocks: Iterable[str], name: str = "area") -> Area:
        """An area of these blocks."""
        return cls(name, tuple(blocks))


@dataclass(frozen=True, eq=False)
class AreaSet:
    """The areas of one kind, over the blocks of a source."""

    kind: str
    codes: tuple[str, ...]
    block: Integers
    """Blocks by their number in the source, one entry for each block and area."""
    area: Integers
    """The area of each entry."""

    @classmethod
    def partition(cls, kind: str, codes: Sequence[str], area_of_block: Integers) -> AreaSet:
        """Areas of which a block is in one at most: −1 for none."""
        inside = np.flatnonzero(area_of_block >= 0)
        return cls(kind, tuple(codes), inside, area_of_block[inside])

    @property
    def areas(self) -> int:
        """How many there are."""
        return len(self.codes)

    def members(self, blocks: int) -> csr_matrix:
        """Areas x blocks, ones and zeros."""
        ones = np.ones(len(self.block), np.int64)
        return csr_matrix((ones, (self.area, self.block)), shape=(self.areas, blocks))


class SpineUnits:
    """The units of a tree as sets of its blocks."""

    def __init__(self, levels: Sequence[TreeLevel]):
        self.of_block: list[Integers] = [np.arange(levels[-1].units)]
        """For each level the unit of each block, the root first."""
        self.parents = [level.parent for level in levels]
        for level in reversed(levels[1:]):
            self.of_block.insert(0, level.parent[self.of_block[0]])

    @cached_property
    def sizes(self) -> list[Integers]:
        """For each level the number of blocks of each unit."""
        return [np.bincount(units) for units in self.of_block]


@dataclass(frozen=True, eq=False)
class PlacedAreas:
    """Areas on a tree of units."""

    areas: AreaSet
    block: Integers
    """Blocks of the tree; those that it does not have are left out, as nobody can be there."""
    area: Integers
    level: Integers
    """For each area the level of the unit that it is; −1 where it is none."""
    unit: Integers
    pieces: Integers
    """How many of the largest units that lie within it make up each area."""

    @classmethod
    def on(cls, areas: AreaSet, tree_block: Integers, units: SpineUnits) -> PlacedAreas:
        """The areas on a tree; ``tree_block`` has for each block of the source its number there, or −1."""
        inside = tree_block[areas.block] >= 0
        block, area = tree_block[areas.block[inside]], areas.area[inside]
        number = areas.areas
        size = np.bincount(area, minlength=number)
        level, unit, pieces = np.full(number, -1), np.full(number, -1), np.zeros(number, np.int64)
        whole_above = np.zeros(0, np.int64)
        for position, of_block in enumerate(units.of_block):
            width = len(units.sizes[position])
            pair, together = np.unique(area * width + of_block[block], return_counts=True)
            inner = pair[together == units.sizes[position][pair % width]]
            of_area, of_unit = np.divmod(inner, width)
            same = size[of_area] == units.sizes[position][of_unit]
            first = same & (level[of_area] < 0)
            level[of_area[first]], unit[of_area[first]] = position, of_unit[first]
            if position:
                above = of_area * len(units.sizes[position - 1]) + units.parents[position][of_unit]
                largest = ~np.isin(above, whole_above)
            else:
                largest = np.ones(len(inner), bool)
            np.add.at(pieces, of_area[largest], 1)
            whole_above = inner
        return cls(areas, block, area, level, unit, pieces)

    def followed(self, most: int, last: int) -> bool:
        """Whether the spine follows this kind of area: nearly all have few pieces, and are not single blocks.

        Args:
            most: How many pieces are few.
            last: The level of the blocks, which hardly anything but their cells is measured of.
        """
        there = self.pieces > 0
        near = (self.pieces[there] <= most) & (self.level[there] != last)
        return bool(there.any() and near.mean() >= MOSTLY)

    @property
    def on_spine(self) -> bool:
        """Whether nearly all areas are units."""
        there = self.pieces > 0
        return bool(there.any() and (self.level[there] >= 0).mean() >= MOSTLY)


def read_areas(file: Path, block_codes: NDArray[np.str_]) -> list[AreaSet]:
    """Kinds of area from a CSV or Parquet file: a column of block codes, and for each kind a column of area codes.

    A block that is not listed, or has an empty area, is outside. A block may be listed for several areas.

    Args:
        file: The file; of a CSV all columns are text, so that codes keep their leading zeros.
        block_codes: The codes of the blocks of the source.

    Returns:
        The kinds of area by the names of their columns. Raises an :class:`InputError` with findings.
    """
    table, place = _text_table(file), Place(file=file.name)
    names = table.column_names
    if table.num_columns < 2:
        what, found = "the file has no areas", f"one column, {names[0]!r}" if names else "no column"
        remedy = "give a block code and an area code in each line, with a comma between them"
        raise InputError(_bad(place, what, found, "a column of blocks, and one for each kind of area", remedy))
    again = [name for at, name in enumerate(names) if name in names[:at] or not name.strip()]
    if again:
        what, found = "the columns do not have a name each", ", ".join(map(repr, names))
        raise InputError(_bad(place, what, found, "names that differ", "give each kind of area a name of its own"))
    if np.isin(np.array([names[0]], np.str_), block_codes).any():
        what, found = "the first line is no header", f"the block {names[0]!r}"
        remedy = "put a line with the names of the columns first"
        raise InputError(_bad(Place(file=file.name, row=1), what, found, "names, such as block,district", remedy))
    codes = table.column(0).to_numpy(zero_copy_only=False).astype(str)
    number = _numbers(codes, block_codes)
    unknown = np.flatnonzero(number < 0)
    if len(unknown):
        one, width = str(codes[unknown[0]]), int(np.strings.str_len(block_codes).max())
        lost = bool((_numbers(np.strings.zfill(codes[unknown], width), block_codes) >= 0).all())
        what = f"{len(unknown):,} lines have a block that the source does not have"
        expected = f"codes such as {str(block_codes[0])!r}, with their leading zeros, in the first column"
        remedy = (
            "write the codes as texts: their leading zeros are lost"
            if lost
            else "correct these lines, or leave them out"
        )
        where = Place(file=file.name, row=int(unknown[0]) + 2)
        raise InputError(_bad(where, what, f"{one!r} in the column {names[0]!r}", expected, remedy))
    result = []
    for name in names[1:]:
        listed = table.column(name).to_numpy(zero_copy_only=False).astype(str)
        inside = np.flatnonzero(listed != "")
        areas, area = np.unique(listed[inside], return_inverse=True)
        if not len(areas):
            raise InputError(_bad(place, f"the column {name!r} has no area", "nothing", "codes of areas"))
        block, area = number[inside], area.reshape(-1)
        _, first = np.unique(block * len(areas) + area, return_index=True)
        twice = np.delete(inside, first)
        if len(twice):
            what, found = "a block is listed twice for one area", f"{str(codes[twice[0]])!r} for {listed[twice[0]]!s}"
            where, remedy = Place(file=file.name, row=int(twice[0]) + 2), "leave out what is there twice"
            raise InputError(_bad(where, what, found, "each block once in an area", remedy))
        result.append(AreaSet(name, tuple(areas.tolist()), block, area))
    return result


def _numbers(codes: NDArray[np.str_], block_codes: NDArray[np.str_]) -> Integers:
    """For each code its place among those of the blocks, or −1."""
    order = np.argsort(block_codes)
    number = order[np.minimum(np.searchsorted(block_codes[order], codes), len(order) - 1)]
    return np.asarray(np.where(block_codes[number] == codes, number, -1), np.int64)


def _text_table(file: Path) -> pa.Table:
    try:
        if file.suffix == ".parquet":
            table = pq.read_table(file)
        else:
            names = pyarrow.csv.open_csv(file).schema.names
            types: dict[str, Any] = dict.fromkeys(names, pa.string())
            options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
            table = pyarrow.csv.read_csv(file, convert_options=options)
        columns = [pa.array(["" if v is None else str(v) for v in column.to_pylist()]) for column in table.columns]
    except (OSError, pa.ArrowException, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        found = "no such file" if missing else str(error).partition("\n")[0][:120] or type(error).__name__
        expected = "a CSV file in UTF-8 with as many values in each line, or a Parquet file"
        remedy = "correct the path" if missing else "correct the file"
        raise InputError(_bad(Place(file=file.name), "the areas cannot be read", found, expected, remedy)) from None
    return pa.table(columns, names=table.column_names)


def chosen(areas: Sequence[AreaSet], kinds: Sequence[str]) -> list[AreaSet]:
    """The kinds of area that are asked for; raises with a finding if there is no such kind."""
    known = {one.kind: one for one in areas}
    unknown = [kind for kind in kinds if kind not in known]
    if unknown:
        what, expected = f"there is no geography {unknown[0]!r}", "one of " + ", ".join(known)
        where, remedy = Place(path="--geography"), "correct the name, or give areas with --areas"
        raise InputError("no-geography", what, where, unknown[0], expected, remedy)
    return [known[kind] for kind in kinds]


def outside(area: Area, block_codes: NDArray[np.str_]) -> Booleans:
    """Which blocks of an area the source does not have."""
    return np.asarray(~np.isin(np.array(area.blocks, np.str_), block_codes))


def _bad(where: Place, what: str, found: str, expected: str, remedy: str = "correct the file") -> Finding:
    return Finding("bad-areas", what, where, found, expected, remedy)
