"""Races as sets, and their 63 codes.

A race is a non-empty subset of (White, Black, AIAN, Asian, NHOPI, Some Other). As a six-bit mask, bit i is the i-th of
them; as ``cenrace`` (0 to 62) the subsets are numbered by size and then lexicographically. A person's race is drawn
from a table with one row for each group: the group's own race, with k further ones of chance ``more_races[k]``, the
further ones in proportion to the product of their weights.
"""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from confide.population.draw import Chances, Floats
from confide.population.settings import Group, Race

RACES: tuple[Race, ...] = ("white", "black", "aian", "asian", "nhopi", "other")
SUBSETS: tuple[tuple[int, ...], ...] = tuple(
    subset for size in range(1, len(RACES) + 1) for subset in combinations(range(len(RACES)), size)
)
"""The 63 races in the order of their codes, each as positions in :data:`RACES`."""


def _mask(subset: tuple[int, ...]) -> int:
    return sum(1 << race for race in subset)


CODE_OF_MASK: NDArray[np.uint8] = np.zeros(64, dtype=np.uint8)
MASK_OF_CODE: NDArray[np.uint8] = np.zeros(63, dtype=np.uint8)
for _code, _subset in enumerate(SUBSETS):
    CODE_OF_MASK[_mask(_subset)] = _code
    MASK_OF_CODE[_code] = _mask(_subset)
CODE_OF_MASK.flags.writeable = False
MASK_OF_CODE.flags.writeable = False


def weights_of(group: Group) -> Floats:
    """The probability of each of the 63 races in a group."""
    own = {group.race: 1.0} if not group.races else dict(group.races)
    whole = sum(own.values())
    table = np.zeros(len(SUBSETS))
    for race, weight in own.items():
        others = [other for other in RACES if other != race]
        for more, chance in enumerate(group.more_races):
            sets = list(combinations(others, more))
            # A race that the group does not list is rare, not impossible: all 63 races can occur everywhere.
            likely = [prod(max(group.with_races.get(other, 0.0), 0.005) for other in chosen) for chosen in sets]
            for chosen, each in zip(sets, likely, strict=True):
                mask = _mask(tuple(RACES.index(name) for name in (race, *chosen)))
                table[CODE_OF_MASK[mask]] += weight / whole * chance * each / sum(likely)
    result: Floats = table / table.sum()
    return result


def race_chances(groups: tuple[Group, ...]) -> Chances:
    """The races of a person, by group."""
    return Chances(np.array([weights_of(group) for group in groups]))
