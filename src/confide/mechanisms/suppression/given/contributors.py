"""Contributors of given magnitude tables, of whom only the largest contributions to each cell are known.

Who they are is not known: each is taken for somebody else, but for those who are alone in a cell and in a total of it.
What the largest have not given is taken for many equal contributions, each no larger than the smallest that is known:
as many as there are contributors, or as few as can be. So a union of cells has its whole figure, and the rules never
see a contributor who is larger than any can be. Confidential.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from confide.mechanisms.suppression.contributors import Contributors, contributors_of
from confide.mechanisms.suppression.counting import magnitude_levels
from confide.mechanisms.suppression.problem import Contributions, PatternProblem, UnionRule
from confide.mechanisms.suppression.programme import SuppressionProblem
from confide.mechanisms.suppression.structure import Integers

MOST_OTHERS = 100
"""So many of the smaller contributors are enough for any threshold."""


def with_given_contributors(
    problem: SuppressionProblem, contributions: Contributions, posed: PatternProblem
) -> PatternProblem:
    """The problem with those who contribute to its cells, as far as tables tell, and the rule for unions of cells."""
    cells = np.flatnonzero(contributions.number > 0)
    number, largest = contributions.number[cells], contributions.largest[cells].copy()
    alone = number == 1
    largest[alone, 0] = posed.value[cells[alone]]
    largest[alone, 1:] = 0
    known = _entries(posed, cells, number, largest)
    everybody = _entries(posed, cells, number, largest, others=posed.value[cells] - largest.sum(axis=1))
    rule = UnionRule(everybody, partial(magnitude_levels, problem))
    insiders = known if problem.spec.suppression.singletons else None
    return replace(posed, contributors=insiders, union_rule=rule)


def _entries(
    posed: PatternProblem, cells: Integers, number: Integers, largest: Integers, others: Integers | None = None
) -> Contributors:
    """The contributors of cells; with what the ``others`` gave, these too."""
    top = largest.shape[1]
    there = (np.arange(top)[None, :] < number[:, None]) & (largest > 0)
    cell = [np.repeat(cells, there.sum(axis=1))]
    amount = [largest[there]]
    if others is not None:
        smallest = np.where(there.any(axis=1), np.where(there, largest, np.iinfo(np.int64).max).min(axis=1), others)
        unlisted = np.maximum(number - there.sum(axis=1), 0)
        parts = np.maximum(np.minimum(unlisted, MOST_OTHERS), -(-others // np.maximum(smallest, 1)))
        parts = np.where(others > 0, np.maximum(parts, 1), 0)
        each = np.repeat(others // np.maximum(parts, 1), parts)
        # What does not divide goes to the first ones.
        first = np.arange(len(each)) - np.repeat(np.cumsum(parts) - parts, parts)
        amount.append(each + (first < np.repeat(others % np.maximum(parts, 1), parts)))
        cell.append(np.repeat(cells, parts))
    of_cell, amounts = np.concatenate(cell), np.concatenate(amount)
    # Who is alone in a cell is alone in its parts: one person, as far as sums tell.
    person = len(posed.value) + np.arange(len(of_cell), dtype=np.int64)
    same = posed.persons[of_cell] >= 0
    person[same] = posed.persons[of_cell[same]]
    return contributors_of(of_cell, person, amounts, amounts, np.zeros(len(posed.value), np.int64))
