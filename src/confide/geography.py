"""The spine: the tree of geographic units that noise and estimates run along.

A spine is made from public knowledge, the block table of the frame. Every level is a partition of the blocks, every
unit of a level lies in one unit of the level above. Units are kept in the order of their codes, and the position of a
unit in that order is its index in every coordinate, count and file.

>>> from confide.geography import build_spine
>>> codes = {"state": ["S", "S", "S"], "county": ["S1", "S1", "S2"], "block": ["S1a", "S1b", "S2a"]}
>>> spine = build_spine(codes, areas={"place": ["town", None, "town"]})
>>> spine.level("county").codes, spine.parents("block")
(('S1', 'S2'), array([0, 0, 1]))
>>> spine.level("place").unit_of_block                     # -1 is OUTSIDE: in no place
array([ 0, -1,  0])

For users: ``docs/concepts/geography.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from confide.arrays import Integers
from confide.errors import Finding, InputError, Place
from confide.schema import as_read

__all__ = ["OUTSIDE", "AreaSet", "Geolevel", "Spine", "build_spine"]


OUTSIDE = -1
"""The unit index of a block that lies in no area of an off-spine partition."""


@dataclass(frozen=True)
class Geolevel:
    """A partition of the blocks into units. An off-spine one (places, districts) may leave blocks outside."""

    name: str
    codes: tuple[str, ...]
    unit_of_block: NDArray[np.int64]
    on_spine: bool = True

    @property
    def units(self) -> int:
        """The number of geounits."""
        return len(self.codes)


@dataclass(frozen=True)
class Spine:
    """Nested levels, the root first and the blocks last, and off-spine areas beside them."""

    levels: tuple[Geolevel, ...]
    areas: tuple[Geolevel, ...] = ()

    @property
    def blocks(self) -> Geolevel:
        """The finest level."""
        return self.levels[-1]

    def level(self, name: str) -> Geolevel:
        """The level or area partition of that name."""
        for candidate in (*self.levels, *self.areas):
            if candidate.name == name:
                return candidate
        raise KeyError(name)

    @property
    def names(self) -> list[str]:
        """The names of all levels and areas."""
        return [level.name for level in (*self.levels, *self.areas)]

    def parents(self, name: str) -> NDArray[np.int64]:
        """For each unit of an on-spine level below the root, its unit one level up."""
        position = [level.name for level in self.levels].index(name)
        child, parent = self.levels[position], self.levels[position - 1]
        result = np.empty(child.units, np.int64)
        result[child.unit_of_block] = parent.unit_of_block
        return result


def build_spine(
    levels: Mapping[str, Sequence[str]],
    areas: Mapping[str, Sequence[str | None]] | None = None,
    *,
    file: str | None = None,
) -> Spine:
    """A spine from one code per block and level.

    Args:
        levels: For each level, root first and blocks last, the code of every block's unit.
        areas: For each off-spine partition the code of every block's area; ``None`` means outside of all.
        file: Where the codes come from, for messages.

    Returns:
        The spine.

    Raises:
        InputError: With a finding for each level that is not nested, for a block given twice, and for each level
            or partition two of whose codes nobody can tell apart.

    >>> spine = build_spine({"country": ["X", "X", "X"], "county": ["a", "b", "b"], "block": ["1", "2", "3"]})
    >>> [level.units for level in spine.levels], spine.parents("block")
    ([1, 2, 3], array([0, 1, 1]))
    """
    built = tuple(_partition(name, codes, on_spine=True) for name, codes in levels.items())
    findings = []
    for parent, child in pairwise(built):
        clash = _first_split_unit(child, parent)
        if clash is not None:
            findings.append(
                Finding.of(
                    "not-nested/level",
                    where=Place(file=file, row=_row_of(child, clash, parent)),
                    child=child.name,
                    parent=parent.name,
                    its_code=child.codes[clash],
                )
            )
    if built[-1].units < len(built[-1].unit_of_block):
        codes, times = np.unique(built[-1].unit_of_block, return_counts=True)
        first = int(codes[times > 1][0])
        twice = built[-1].codes[first]
        findings.append(
            Finding.of(
                "duplicate-block/table",
                where=Place(file=file, row=int(np.flatnonzero(built[-1].unit_of_block == first)[1]) + 1),
                several=int((times > 1).sum()),
                twice=twice,
            )
        )
    beside = tuple(_partition(name, codes, on_spine=False) for name, codes in (areas or {}).items())
    findings += [finding for level in (*built, *beside) for finding in _codes_alike(level, file)]
    if findings:
        raise InputError(findings)
    return Spine(built, beside)


def _partition(name: str, codes: Sequence[str | None], *, on_spine: bool) -> Geolevel:
    # Only distinct codes are sorted: there are few on most levels, and millions of blocks.
    distinct = tuple(sorted({code for code in codes if code is not None}))
    number: dict[str | None, int] = {None: OUTSIDE, **{code: place for place, code in enumerate(distinct)}}
    unit_of_block = np.fromiter(map(number.__getitem__, codes), np.int64, len(codes))
    return Geolevel(name, distinct, unit_of_block, on_spine)


def _codes_alike(level: Geolevel, file: str | None) -> Iterator[Finding]:
    """A finding where two codes differ in nothing that can be seen: rows of tables are known by them."""
    together = "".join(level.codes)
    if together.isascii() and together.isalnum() and "" not in level.codes:
        return  # each is read as it is
    odd = [code for code in level.codes if not (code.isascii() and code.isalnum())]
    plain = set(level.codes).difference(odd)
    times = Counter(map(as_read, odd))
    alike = next((code for code in odd if times[as_read(code)] > 1 or as_read(code) in plain), None)
    if alike is not None:
        yield Finding.of(
            "codes-alike",
            where=Place(file=file, row=int(np.flatnonzero(level.unit_of_block == level.codes.index(alike))[0]) + 1),
            found=ascii(alike),
            level=level.name,
        )


def _row_of(child: Geolevel, unit: int, parent: Geolevel) -> int:
    """The first row, from one, of a unit that lies in another parent than the unit's first row."""
    rows = np.flatnonzero(child.unit_of_block == unit)
    parents = parent.unit_of_block[rows]
    return int(rows[np.flatnonzero(parents != parents[0])[0]]) + 1


def _first_split_unit(child: Geolevel, parent: Geolevel) -> int | None:
    """The first unit of ``child`` with blocks in two units of ``parent``."""
    some_parent = np.empty(child.units, np.int64)
    some_parent[child.unit_of_block] = parent.unit_of_block
    split = child.unit_of_block[some_parent[child.unit_of_block] != parent.unit_of_block]
    return int(split.min()) if len(split) else None


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
        """Areas that do not overlap, so that a block is in one at most: −1 for none."""
        inside = np.flatnonzero(area_of_block >= 0)
        return cls(kind, tuple(codes), inside, area_of_block[inside])

    @classmethod
    def some(cls, kind: str, codes: Sequence[str], area_of_block: Integers, chosen: Integers) -> AreaSet:
        """The areas with these numbers alone, of a partition as :meth:`partition` takes it."""
        place = np.full(len(codes) + 1, OUTSIDE, np.int64)  # the last entry is what OUTSIDE finds
        place[chosen] = np.arange(len(chosen))
        return cls.partition(kind, [codes[area] for area in chosen.tolist()], place[area_of_block])

    @property
    def areas(self) -> int:
        """How many there are."""
        return len(self.codes)

    def members(self, blocks: int) -> scipy.sparse.csr_matrix:
        """Areas x blocks, ones and zeros."""
        ones = np.ones(len(self.block), np.int64)
        return scipy.sparse.csr_matrix((ones, (self.area, self.block)), shape=(self.areas, blocks))
