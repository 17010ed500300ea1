"""Empty groups: what happens to a group that nobody is in, and whether such groups are drawn one by one.

Where suppression makes it rare that an empty group is published, only the published ones are drawn
(:mod:`confide.noise.sparse`): the law is the same. Which way is taken follows from public settings alone, and stands in
the plan.
"""

from __future__ import annotations

from confide.noise import SPARSE_LAYOUT, TwoStageRule, fits_table
from confide.safetab.question import GroupLevel

MOST_SURVIVORS = 1 / 16
"""If an empty group is published more often than this, all groups are drawn one by one."""

ONE_BY_ONE = "one by one"


def empty_rule(level: GroupLevel) -> TwoStageRule:
    """What happens to a group of the level that has nobody in it."""
    assert level.suppressed_up_to is not None
    return TwoStageRule(level.first, level.settings.thresholds, level.second, level.suppressed_up_to)


def is_sparse(level: GroupLevel) -> bool:
    """Whether empty groups of the level are drawn by the sparse method: they are suppressed, and rarely published.

    Noise that is too wide for a table is drawn group by group.
    """
    if level.suppressed_up_to is None or level.total_only.any() or not fits_table(level.second):
        return False
    return empty_rule(level).survival() < MOST_SURVIVORS


def way(level: GroupLevel) -> str:
    """How the empty groups of a level are drawn, for the plan."""
    return SPARSE_LAYOUT if is_sparse(level) else ONE_BY_ONE
