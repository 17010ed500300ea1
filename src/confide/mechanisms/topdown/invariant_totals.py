"""Numbers of records that are published as they are, on the spine: which units they fix, alone or together.

An invariant is about official units, and the spine may split these. On the level of the invariant, the parts of an
official unit have a known sum; they must be children of one parent, or no single estimate could keep it. On a level
above, each unit is made of whole official ones, and its total is known.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.errors import Finding, Place
from confide.mechanisms.topdown.spine.tree import TopDownLevel, TopDownSpine
from confide.mechanisms.topdown.strategies.strategy import Strategy

Integers = NDArray[np.int64]


def invariant_level(strategy: Strategy) -> str | None:
    """The lowest level on which the number of records is an invariant taken from the records, if there is one."""
    levels = {i.level for i in strategy.constraints.invariants if i.query == "total" and not i.frame}
    return max(levels, key=strategy.level_names.index, default=None)


def known_together(strategy: Strategy, level: TopDownLevel) -> Integers | None:
    """For each unit of a level the number of the group of units whose total is known; None below the invariant."""
    lowest, names = invariant_level(strategy), strategy.level_names
    if lowest is None or names.index(level.name) > names.index(lowest):
        return None
    if level.name != lowest:
        return np.arange(level.units)
    assert level.official is not None, "checked before the run"
    return level.official.astype(np.int64)


def known_totals(together: Integers, unit: Integers, count: Integers) -> pa.Table:
    """For each unit its group and the records of that group, from the true counts by unit: no secret."""
    totals = np.zeros(int(together.max()) + 1, np.int64)
    np.add.at(totals, together[unit], count)
    return pa.table({"unit": np.arange(len(together)), "cell": together, "n": totals[together]})


def check_invariant_level(strategy: Strategy, spine: TopDownSpine, where: Place) -> list[Finding]:
    """What keeps the invariant number of records from being kept on this spine."""
    lowest = invariant_level(strategy)
    if lowest is None:
        return []
    level = spine.level(lowest)
    if level.official is None:
        found, remedy = "units that the spine makes anew", 'take spine = "plain"'
    elif len(level.parent) and len(np.unique(np.stack([level.official, level.parent]), axis=1).T) > len(
        np.unique(level.official)
    ):
        found, remedy = (
            "units whose parts in and outside of AIAN areas have different parents",
            "set split_aian = false",
        )
    else:
        return []
    return [
        Finding(
            code="invariant-level",
            what=f"the number of records is an invariant on {lowest!r}, and this spine cannot keep it",
            where=where,
            found=found,
            expected="official units, whole or in parts that are children of one unit",
            remedy=f"put the invariant on another level, or {remedy} under [topdown]",
        )
    ]
