"""True counts to published ones: the noise that a cell's key finds in the perturbation table.

    published = n + v(n, key),   nothing for n = 0,   0 below a threshold

Counts are looked up unweighted. A weighted figure is the published count times the mean weight of the cell's members
(n + v) · W / n, rounded to millionths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.cellkey.counting import CellSums
from confide.cellkey.lookups import Lookup

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Figures:
    """What is published of a cross-classification: no true count, key or noise."""

    count: Integers
    weighted: Integers | None
    """In millionths."""


def perturb(sums: CellSums, lookup: Lookup, threshold: int | None) -> Figures:
    """The published figures of every cell."""
    occupied = np.flatnonzero(sums.count)
    published = np.zeros_like(sums.count)
    members = sums.count[occupied]
    published[occupied] = members + lookup.lookup(members, sums.key[occupied])
    if threshold is not None:
        published[published < threshold] = 0
    if sums.weight is None:
        return Figures(published, None)
    weighted = np.zeros_like(published)
    weighted[occupied] = _scaled(published[occupied], sums.weight[occupied], members)
    return Figures(published, weighted)


def _scaled(published: Integers, weight: Integers, members: Integers) -> Integers:
    """published · weight / members to the nearest whole number, without leaving whole numbers."""
    whole, rest = np.divmod(weight, members)
    halves = (2 * rest * published + members) // (2 * members)
    scaled: Integers = published * whole + halves
    return scaled
