"""A top-down spine as an object: levels of contiguous units with their shares, and the way back to official geography.

The units of a level are in the order of their ids (:mod:`confide.geography.unit_ids`), and so are their parents. So the
children of a unit are a slice of the level below, its blocks a slice of the blocks, and a sum over units is one pass
over an array. :func:`confide.geography.topdown_spine.build_topdown_spine` makes one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.errors import Finding, ParameterError
from confide.geography.bypass import Shares
from confide.geography.spine import Spine
from confide.geography.unit_ids import joined, own_parts


@dataclass(frozen=True)
class TopDownLevel:
    """One level. Units are numbered in the order of their ids; children and blocks of a unit are contiguous."""

    name: str
    parent: NDArray[np.int64]
    """For each unit its parent, one level up; empty for the root."""
    first_child: NDArray[np.int64]
    """Offsets: the children of unit u are first_child[u] to first_child[u + 1] of the level below."""
    first_block: NDArray[np.int64]
    """Offsets: the blocks of unit u are first_block[u] to first_block[u + 1]."""
    shares: Shares
    official: NDArray[np.int64] | None
    """For each unit the official unit of the frame that it is, or is the AIAN or other part of; none where made."""

    @property
    def units(self) -> int:
        """The number of geounits."""
        return len(self.first_block) - 1

    @property
    def measured(self) -> NDArray[np.bool_]:
        """The units that have a share of the budget. The others are the only child of their parent, or their level
        has no share."""
        return self.shares.measured

    def children(self, unit: int) -> slice:
        """The children of a unit, as a slice of the level below."""
        return slice(int(self.first_child[unit]), int(self.first_child[unit + 1]))

    def blocks(self, unit: int) -> slice:
        """The blocks of a unit, as a slice of the spine's blocks."""
        return slice(int(self.first_block[unit]), int(self.first_block[unit + 1]))


@dataclass(frozen=True)
class TopDownSpine:
    """Levels, root first and blocks last, over the blocks with units; and the frame's geography beside them."""

    levels: tuple[TopDownLevel, ...]
    frame: Spine
    """Official levels and areas, over all blocks of the frame."""
    rows: NDArray[np.int64]
    """For each block of the spine its row in the frame."""
    split: NDArray[np.bool_] | None
    """For each block of the spine its AIAN flag, where units are split by it."""

    @property
    def names(self) -> list[str]:
        """The names of the levels, root first."""
        return [level.name for level in self.levels]

    def level(self, name: str) -> TopDownLevel:
        """The level of that name."""
        return self.levels[self.names.index(name)]

    def children(self, name: str, unit: int) -> slice:
        """The children of a unit of a level, as a slice of the level below."""
        return self.level(name).children(unit)

    def ids(self, name: str) -> NDArray[np.str_]:
        """The ids of a level's units: text of one width, rising, each beginning with the id of its parent (except
        next to the root). Made when asked for: those of many blocks are large."""
        codes = self._codes(self.levels[0])
        assert codes is not None, "the root is a level of the frame"
        ids = codes
        for position, level in enumerate(self.levels[1 : self.names.index(name) + 1], start=1):
            above = None if codes is None or position == 1 else codes[level.parent]
            codes = self._codes(level)
            parts = own_parts(level.parent, codes, above)
            if position > 1:
                ids = joined(ids[level.parent], parts)
            elif self.split is None:
                ids = parts
            else:
                ids = joined(np.where(self.split[level.first_block[:-1]], "1", "0"), parts)
        return ids

    def official_codes(self, name: str) -> NDArray[np.str_] | None:
        """For each unit of a level the code of the official unit that it is, or is a part of; none where made."""
        return self._codes(self.level(name))

    def _codes(self, level: TopDownLevel) -> NDArray[np.str_] | None:
        return None if level.official is None else np.array(self.frame.level(level.name).codes)[level.official]

    def unit_of_block(self, name: str) -> NDArray[np.int64]:
        """For each block of the spine, its unit on a level of the spine."""
        level = self.level(name)
        return np.repeat(np.arange(level.units), np.diff(level.first_block))

    def roll_up(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """The sums over the units of a level of values of the blocks (first axis)."""
        result: NDArray[Any] = np.add.reduceat(values, self.level(name).first_block[:-1], axis=0)
        return result

    @cached_property
    def block_codes(self) -> NDArray[np.str_]:
        """The official code of each block of the spine."""
        return np.array(self.frame.blocks.codes)[self.frame.blocks.unit_of_block[self.rows]]

    def official_of_block(self, name: str) -> NDArray[np.int64]:
        """For each block of the spine its unit in an official level or area of the frame, or ``OUTSIDE``. Units with
        no block on the spine are in the frame's codes all the same: they are tabulated as zero."""
        return self.frame.level(name).unit_of_block[self.rows]

    def official_of_unit(self, name: str, official: str) -> NDArray[np.int64]:
        """For each unit of a level, the official unit that it lies in; raises if one lies in several."""
        of_block = self.official_of_block(official)
        result = of_block[self.level(name).first_block[:-1]]
        if (np.repeat(result, np.diff(self.level(name).first_block)) != of_block).any():
            raise ParameterError(
                Finding(
                    code="not-nested",
                    what=f"units of {name!r} lie in more than one unit of {official!r}",
                    expected=f"a level or area that no unit of {name!r} is cut by",
                    remedy="ask by block instead",
                )
            )
        return result

    def fingerprint(self) -> str:
        """SHA-256 of blocks, units, order and shares: what the place of a measurement means."""
        digest = hashlib.sha256(b"confide/topdown-spine/v1")
        order = self.frame.blocks.unit_of_block[self.rows]
        digest.update("\0".join(self.frame.blocks.codes[position] for position in order.tolist()).encode())
        for level in self.levels:
            digest.update(f"\0{level.name}\0{level.units}\0{'|'.join(map(str, level.shares.table))}\0".encode())
            digest.update(level.first_block.astype("<i8").tobytes() + level.shares.index.astype("<i2").tobytes())
        return digest.hexdigest()

    def describe(self) -> str:
        """A table for people: units, units measured, fan-out and shares of every level."""
        lines = ["| level | units | measured | most children | shares |", "|---|---|---|---|---|"]
        for level in self.levels:
            most = int(np.diff(level.first_child).max())
            times = np.bincount(level.shares.index).tolist()
            shares = ", ".join(f"{share} × {count:,}" for share, count in zip(level.shares.table, times, strict=True))
            lines.append(
                f"| {level.name} | {level.units:,} | {int(level.measured.sum()):,} | {most or '-'} | {shares} |"
            )
        return "\n".join(lines)
