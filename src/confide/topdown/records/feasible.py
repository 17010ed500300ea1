"""Whether anything can keep all constraints: looked at before a run, so that nothing is spent on settings that clash.

Limits come from the frame, block by block, and add up; an invariant number of records comes from the records. They can
be kept together if

* in every block the least count of each group is at most the largest;
* in every component with a known total (``invariant_totals``) that total lies between the sums.

A parent keeps the sums of its children's limits, so below it there is always a solution (``docs/proofs/topdown.md``,
section 5).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from confide.errors import CONFIDENTIAL, Finding, Place
from confide.topdown.question import Question
from confide.topdown.records.invariant_totals import invariant_level
from confide.topdown.strategies.constraints import NO_LIMIT

Integers = NDArray[np.int64]
ROWS_NAMED = 5


def clashes_in_blocks(question: Question) -> Iterator[Finding]:
    """Limits that no table of some block can keep. The frame is public, so its rows are named."""
    for name, (least, largest) in question.limits(question.spine.levels[-1]).items():
        wrong = np.flatnonzero((least > largest).any(axis=1))
        if len(wrong):
            yield _finding(question, wrong, question.strategy.constraints.named(name))


def clashes_with_totals(question: Question, totals: Integers) -> Iterator[Finding]:
    """Known numbers of records, by official unit of the invariant's level, that the limits leave no room for."""
    lowest = invariant_level(question.strategy)
    if lowest is None:
        return
    official = question.spine.official_of_block(lowest)
    names = ", ".join(
        repr(i.name) for i in question.strategy.constraints.invariants if i.level == lowest and not i.frame
    )
    for name, (least, largest) in question.limits(question.spine.levels[-1]).items():
        low, high = np.zeros(len(totals)), np.zeros(len(totals))
        np.add.at(low, official, least.sum(axis=1))
        np.add.at(high, official, np.where(largest == NO_LIMIT, np.inf, largest).sum(axis=1))
        wrong = int(((totals < low) | (totals > high)).sum())
        if wrong:
            yield Finding(
                code="constraints-clash",
                what=f"{names} and {question.strategy.constraints.named(name)} cannot be kept together",
                where=Place(file=question.records.file),
                found=f"{wrong:,} of {len(totals):,} units of {lowest!r} with fewer or more records than the limits of "
                f"their blocks allow: {CONFIDENTIAL}",
                expected="as many records as the frame has room for",
                remedy="correct the records or the block table, or loosen one of the constraints",
            )


def _finding(question: Question, blocks: Integers, names: str) -> Finding:
    rows = np.sort(question.spine.rows[blocks]) + 1
    shown = ", ".join(f"{row:,}" for row in rows[:ROWS_NAMED].tolist())
    return Finding(
        code="constraints-clash",
        what=f"{names} cannot be kept in {len(blocks):,} blocks (the first such rows: {shown})",
        where=Place(file=question.blocks_file, row=int(rows[0])),
        found="a count that must be larger than it may be",
        expected="constraints that some table keeps",
        remedy="correct the block table, or drop or loosen one of the constraints",
    )
