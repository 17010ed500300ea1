"""A top-down spine as an object: levels of contiguous units with their shares, and the way back to official geography.

The units of a level are in the order of their ids (:mod:`confide.mechanisms.topdown.spine`), and so are their
parents. So the
children of a unit are a slice of the level below, its blocks a slice of the blocks, and a sum over units is one pass
over an array. :func:`confide.mechanisms.topdown.build_spine.build_topdown_spine` makes one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.errors import ParameterError
from confide.geography import OUTSIDE, Spine

# Only children and their shares: the one-child bypass.
#
# Each level l of a spine has a share p_l of the budget, and the shares of all levels sum to one. A unit with exactly
# one child holds the same people as that child, so measuring both is measuring one thing twice, with less noise in
# neither. From the bottom up, such a unit takes over its child's share and the child is left with none:
#
#     share(u) := share(u) + share(c),   share(c) := 0,   where c is the only child of u.
#
# Shares cascade: a tract with one block group with one block ends with the three shares at the tract. In closed form,
# let n(u) be the number of generations below u that have one unit only. Then
#
#     share(u) = 0                                   if u is an only child,
#     share(u) = p_l + p_(l+1) + … + p_(l+n(u))      otherwise.
#
# Hence a level has at most as many distinct shares as there are levels from it downwards, plus zero, and 600,000
# blocks need a small table and an index.
#
# **Path sums.** On the path from the root to a block, the only children form runs. The unit before a run has the
# shares of its own level and of every level of the run, the units of the run have zero; so the path sums to p_0 + … +
# p_L = 1. Since a record lies on one path, what is spent on it is the whole budget, exactly, on every path
# (:func:`check_path_sums` recomputes it from the shares as they are).
#
# Reference: Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
# arXiv:2203.16654, on bypassing geounits. Their further rule, for pure differential privacy, replaces a unit with
# several children; with Gaussian noise it is never used, and it is not here.


@dataclass(frozen=True)
class Shares:
    """One share for each unit of a level: ``table[index[unit]]``. The table is rising, without repetition."""

    table: tuple[Fraction, ...]
    index: NDArray[np.int16]

    def __getitem__(self, unit: int) -> Fraction:
        return self.table[int(self.index[unit])]

    @property
    def measured(self) -> NDArray[np.bool_]:
        """The units with a share greater than zero."""
        return np.array([share > 0 for share in self.table])[self.index]


def only_children(parent: NDArray[np.int64], parents: int) -> NDArray[np.bool_]:
    """For each unit, whether its parent has no other child."""
    alone: NDArray[np.bool_] = np.bincount(parent, minlength=parents) == 1
    return alone[parent]


def generations_of_one(parents: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """For every level, root first, n(u) of each unit. ``parents[k]`` gives the units of level k + 1 their parents."""
    result = [np.zeros(len(parents[-1]) if parents else 1, np.int64)]
    for level in range(len(parents) - 1, -1, -1):
        parent = parents[level]
        units = len(parents[level - 1]) if level else 1
        alone = only_children(parent, units)
        generations = np.zeros(units, np.int64)
        generations[parent[alone]] = result[0][alone] + 1
        result.insert(0, generations)
    return result


def bypass_only_children(shares: Sequence[Fraction], parents: Sequence[NDArray[np.int64]]) -> tuple[Shares, ...]:
    """The shares of all units, level by level, root first, from one share for each level.

    ``parents[k]`` gives, for each unit of level k + 1, its parent in level k; the root is one unit.
    """
    assert len(shares) == len(parents) + 1
    result = []
    for level, generations in enumerate(generations_of_one(parents)):
        sums = [Fraction(0)]
        for share in shares[level:]:
            sums.append(sums[-1] + share)
        place = generations + 1
        if level:
            units = len(parents[level - 2]) if level > 1 else 1
            place[only_children(parents[level - 1], units)] = 0
        result.append(_shares(sums, place))
    return tuple(result)


def path_sums(shares: Sequence[Shares], parents: Sequence[NDArray[np.int64]]) -> Shares:
    """For each unit of the last level, the exact sum of the shares on its path from the root.

    Paths are put into classes of equal sums on the way down, so the number of exact additions is the number of
    classes and not of blocks.
    """
    sums = shares[0]
    for own, parent in zip(shares[1:], parents, strict=True):
        width = len(own.table)
        keys, inverse = np.unique(sums.index[parent].astype(np.int64) * width + own.index, return_inverse=True)
        values = [sums.table[key // width] + own.table[key % width] for key in keys.tolist()]
        sums = _shares(values, inverse)
    return sums


def check_path_sums(shares: Sequence[Shares], parents: Sequence[NDArray[np.int64]]) -> None:
    """Raises unless the shares on every path from the root to the last level sum to exactly one."""
    sums = path_sums(shares, parents)
    wrong = [value for value in sums.table if value != 1]
    if wrong:
        paths = int(np.isin(sums.index, [sums.table.index(value) for value in wrong]).sum())
        raise ParameterError("path-sum", paths=paths, wrong=wrong[0])


def _shares(values: Sequence[Fraction], place: NDArray[np.int64]) -> Shares:
    """Shares from a list of values and a place in it for each unit; values that no unit has are left out."""
    used = np.flatnonzero(np.bincount(place, minlength=len(values))).tolist()
    table = sorted({values[position] for position in used})
    rank = {value: position for position, value in enumerate(table)}
    index = np.array([rank.get(value, 0) for value in values], np.int16)
    return Shares(tuple(table), index[place])


# Ids of spine units: text that is unique, hierarchical and in order.
#
# The id of a unit is the id of its parent followed by a part of its own, and all parts of a level have one width. So
# the ids of a level have one width, sort as text in the order of the tree, and begin with the ids of the levels
# above. The part is, whichever comes first:
#
# - for a unit that is made (a block group, a tract group): its number among the children of its parent, from one, with
#   leading zeros;
# - the official code without the official code of the parent, if every code of the level begins with that;
# - the official code, whole;
# - the number, as for a made unit, if the codes (or what is left of them) differ in width, or one has the ``+`` that
#   is between ids.
#
# The level next to the root begins anew: the AIAN flag, if there is one, then the whole code. The ids of a State's
# units are thus the same whether the State or the nation is the root. With optimised block groups a block has the id
# ``flag ‖ county ‖ tract ‖ number ‖ block code``, which ends in the official code: its parent has none to leave out.
#
# (The published files of the 2020 system number the parts of counties and the tracts too, and widen every part to the
# nation's maximum: the order is the same, the text is not.)


def own_parts(
    parent: NDArray[np.int64], codes: NDArray[np.str_] | None, above: NDArray[np.str_] | None
) -> NDArray[np.str_]:
    """The parts of the ids of a level's units.

    ``codes`` are their official codes, ``above`` the official code of each one's parent; none where made, and ``above``
    also next to the root. The units of each parent are contiguous.
    """
    if codes is None:
        return numbers(parent)
    parts = codes
    if above is not None and _one_width(above) and np.strings.startswith(codes, above).all():
        parts = _without_first(codes, int(np.strings.str_len(above[0])))
    return parts if _one_width(parts) and not (np.strings.find(parts, "+") >= 0).any() else numbers(parent)


def numbers(parent: NDArray[np.int64]) -> NDArray[np.str_]:
    """The number of each unit among the children of its parent, from one, with leading zeros."""
    begins = np.flatnonzero(np.append(True, parent[1:] != parent[:-1]))
    sizes = np.diff(np.append(begins, len(parent)))
    number = np.arange(len(parent)) - np.repeat(begins, sizes) + 1
    width = len(str(int(sizes.max())))
    return np.strings.zfill(number.astype(f"U{width}"), width)


def joined(above: NDArray[np.str_], parts: NDArray[np.str_]) -> NDArray[np.str_]:
    """Each text with its part after it."""
    return np.strings.add(above, parts)


def _one_width(texts: NDArray[np.str_]) -> bool:
    widths = np.strings.str_len(texts)
    return bool(widths.min() == widths.max() > 0)


def _without_first(texts: NDArray[np.str_], count: int) -> NDArray[np.str_]:
    """Texts without their first characters. (``np.strings.slice`` is newer than the oldest numpy we support.)"""
    width = texts.dtype.itemsize // 4
    if width <= count:
        return np.full(len(texts), "", "U1")
    letters = np.ascontiguousarray(texts).view("U1").reshape(len(texts), width)
    return np.ascontiguousarray(letters[:, count:]).view(f"U{width - count}").reshape(len(texts))


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

    @property
    def parents(self) -> list[NDArray[np.int64]]:
        """For each level the parent of each unit, root first."""
        return [level.parent for level in self.levels]

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

    @cached_property
    def block_of_row(self) -> NDArray[np.int64]:
        """For each row of the frame its block on the spine, or ``OUTSIDE``."""
        result = np.full(len(self.frame.blocks.unit_of_block), OUTSIDE, np.int64)
        result[self.rows] = np.arange(len(self.rows))
        return result

    def official_of_block(self, name: str) -> NDArray[np.int64]:
        """For each block of the spine its unit in an official level or area of the frame, or ``OUTSIDE``. Units with
        no block on the spine are in the frame's codes all the same: they are tabulated as zero."""
        return self.frame.level(name).unit_of_block[self.rows]

    def official_of_unit(self, name: str, official: str) -> NDArray[np.int64]:
        """For each unit of a level, the official unit that it lies in; raises if one lies in several."""
        of_block = self.official_of_block(official)
        result = of_block[self.level(name).first_block[:-1]]
        if (np.repeat(result, np.diff(self.level(name).first_block)) != of_block).any():
            raise ParameterError("not-nested/units", name=name, official=official)
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
