"""Areas of the same extent get the same figures (paper, Algorithm 4).

For every set of coterminous areas and every iteration the *donor* is the first area, in the order of summary levels,
that has figures. The others get a copy of them, tables and total alike, and lose their own. An iteration that is
suppressed in every area of the set stays absent. Doing it again changes nothing.

The order is that of tabulation: states, counties, tracts, places, AIANNH areas. The Census Bureau's own is not public.
An area takes part at the iteration levels that its type is tabulated for. A total-only iteration, which is measured in
states alone, can thereby appear in a county that is a whole state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from confide.safetab.output.group_counts import GroupCounts, merge
from confide.safetab.regions import CoterminousSet

Integers = npt.NDArray[np.int64]


def unify(counts: Mapping[str, GroupCounts], sets: Sequence[CoterminousSet], iterations: int) -> dict[str, GroupCounts]:
    """The counts by region type, of one iteration level, with the figures of coterminous areas made equal.

    ``counts`` is in the order of summary levels; ``iterations`` is how many iterations there are.
    """
    members = {
        region: np.array(
            [(number, area) for number, areas in enumerate(sets) for type_, area in areas if type_ == region]
        )
        for region in counts
    }
    own, rest = {}, dict(counts)
    for region, pairs in members.items():
        if len(pairs):
            inside = np.isin(counts[region].area, pairs[:, 1])
            own[region] = counts[region].take(np.flatnonzero(inside))
            rest[region] = counts[region].take(np.flatnonzero(~inside))
    donors = _donors(own, members, iterations)
    for region, pairs in members.items():
        pieces = [rest[region]]
        for donor_set, figures in donors:
            place, there = _look_up(pairs, donor_set)
            if there.any():
                pieces.append(figures.take(np.flatnonzero(there)).moved_to(place[there]))
        rest[region] = merge(pieces)
    return rest


def _donors(
    own: Mapping[str, GroupCounts], members: Mapping[str, Integers], iterations: int
) -> list[tuple[Integers, GroupCounts]]:
    """For every set and iteration the figures of its donor: from each region type those it gives, with their sets."""
    given: list[tuple[Integers, GroupCounts]] = []
    settled = np.zeros(0, np.int64)
    for region, counts in own.items():
        by_area = members[region][np.argsort(members[region][:, 1])]
        set_of = by_area[np.searchsorted(by_area[:, 1], counts.area), 0]
        key = set_of * iterations + counts.iteration
        first = np.flatnonzero(~np.isin(key, settled))
        given.append((set_of[first], counts.take(first)))
        settled = np.concatenate([settled, key[first]])
    return given


def _look_up(pairs: Integers, sets: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """For each set the area of a region type in it, and whether there is one."""
    if not len(pairs):
        return np.zeros_like(sets), np.zeros(len(sets), np.bool_)
    ordered = pairs[np.argsort(pairs[:, 0])]
    place = np.minimum(np.searchsorted(ordered[:, 0], sets), len(ordered) - 1)
    return ordered[place, 1], ordered[place, 0] == sets
