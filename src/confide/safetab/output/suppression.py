"""The suppressions of the tabulation system, after SafeTab-P, as an option (paper, section 5.3.4).

The paper says that negative figures are removed, and groups "alone" whose noisy count exceeds that of the same group
"alone or in any combination"; how exactly is not published. Here: a group whose total is negative loses everything; a
group alone whose total exceeds its twin's in the same area loses everything, the twin keeps its figures; of the tables
that are left, single figures below zero are left out: of ``t2`` as rows, of tables for people as empty fields.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from confide.safetab.codes import CodeLists
from confide.safetab.output.group_counts import GroupCounts

Integers = npt.NDArray[np.int64]


def twins_of(lists: CodeLists, *, large: bool) -> Integers:
    """For each iteration of a race alone the number of the same race alone or in combination; -1 for all others.

    Within large regions, and within the others, there is at most one.
    """
    twins = np.full(len(lists.iterations), -1, np.int64)
    for alone, combined in lists.alone_pairs().tolist():
        if all(lists.iterations[number].tabulated(large=large) for number in (alone, combined)):
            twins[alone] = combined
    return twins


def suppress(counts: GroupCounts, twins: Integers) -> GroupCounts:
    """The groups of one region type and iteration level that the tabulation system shows."""
    if not len(counts):
        return counts
    totals = counts.totals
    key = counts.area * len(twins) + counts.iteration
    twin = twins[counts.iteration]
    twin_key = counts.area * len(twins) + twin
    place = np.minimum(np.searchsorted(key, twin_key), len(key) - 1)
    exceeds = (twin >= 0) & (key[place] == twin_key) & (totals > totals[place])
    return counts.take(np.flatnonzero((totals >= 0) & ~exceeds))
