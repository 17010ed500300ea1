"""How easily a household could be told from others: uniqueness along the geography.

On a level, a person who shares the values of the risk variables with c people of the same unit, counting the person,
has the risk 1/c. The risk of a household is that of its member with the largest; it is kept as the smallest c, a whole
number. A household must be swapped at the first level, from the coarsest, on which c < k, that is, risk > 1/k.

Reference: the targeted record swapping of sdcMicro (``recordSwap``); McKenna, U.S. Census Bureau (2018), on the
targeting of the 2000 and 2010 Censuses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from confide.swapping.people import People, combined

Integers = npt.NDArray[np.int64]

NOWHERE = -1
"""The level of a household that need not be swapped."""


def smallest_shared(people: People, cells: Integers, level: str) -> Integers:
    """For each household the smallest c of its members. Everybody is counted, also those who live in no household."""
    unit = people.unit_of(level)[people.block]
    group = combined([unit, cells])
    shared = np.bincount(group)[group]
    return np.minimum.reduceat(shared[people.members], people.first).astype(np.int64)


def first_level(shared: Sequence[Integers], k: int) -> Integers:
    """For each household the position of the first level on which c < k, or ``NOWHERE``."""
    found = np.full(len(shared[0]), NOWHERE, np.int64)
    for position in reversed(range(len(shared))):
        found[shared[position] < k] = position
    return found
