"""Only children and their shares: the one-child bypass.

Each level l of a spine has a share p_l of the budget, and the shares of all levels sum to one. A unit with exactly one
child holds the same people as that child, so measuring both is measuring one thing twice, with less noise in neither.
From the bottom up, such a unit takes over its child's share and the child is left with none:

    share(u) := share(u) + share(c),   share(c) := 0,   where c is the only child of u.

Shares cascade: a tract with one block group with one block ends with the three shares at the tract. In closed form, let
n(u) be the number of generations below u that have one unit only. Then

    share(u) = 0                                   if u is an only child,
    share(u) = p_l + p_(l+1) + … + p_(l+n(u))      otherwise.

Hence a level has at most as many distinct shares as there are levels from it downwards, plus zero, and 600,000 blocks
need a small table and an index.

**Path sums.** On the path from the root to a block, the only children form runs. The unit before a run has the shares
of its own level and of every level of the run, the units of the run have zero; so the path sums to p_0 + … + p_L = 1.
Since a record lies on one path, what is spent on it is the whole budget, exactly, on every path
(:func:`check_path_sums` recomputes it from the shares as they are).

Reference: Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
arXiv:2203.16654, on bypassing geounits. Their further rule, for pure differential privacy, replaces a unit with several
children; with Gaussian noise it is never used, and it is not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from confide.errors import Finding, ParameterError


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
        raise ParameterError(
            Finding(
                code="path-sum",
                what="the shares on a path from the root to a block do not sum to one",
                found=f"{paths:,} paths, the first sum {wrong[0]}",
                expected="exactly 1 on every path",
                remedy="correct the shares of the levels; if they sum to one, this is a defect of Confide: report it",
            )
        )


def _shares(values: Sequence[Fraction], place: NDArray[np.int64]) -> Shares:
    """Shares from a list of values and a place in it for each unit; values that no unit has are left out."""
    used = np.flatnonzero(np.bincount(place, minlength=len(values))).tolist()
    table = sorted({values[position] for position in used})
    rank = {value: position for position, value in enumerate(table)}
    index = np.array([rank.get(value, 0) for value in values], np.int16)
    return Shares(tuple(table), index[place])
