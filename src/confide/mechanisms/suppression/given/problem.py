"""The problem that given tables pose: primary cells with their levels, costs, and what is left of it for the curator.

What the office has decided goes before the rules. Beside the release, the confidential zone gets a list of all cells
with the reason why each is primary, and the problem with its pattern in the exchange format of solvers (.jj): cells are
numbered as in the linked structure, unsafe ones are ``u`` with their levels, those that are hidden for others ``m``,
those that are never hidden ``z``; figures are numbers of the declared unit. The format wants an upper bound for each
figure: it is far above all.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import ceil

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.inputs.argus import JJCell, JJProblem, JJSum
from confide.mechanisms.suppression.contributors import Contributors, contributors_of
from confide.mechanisms.suppression.counting import magnitude_levels, primary_levels
from confide.mechanisms.suppression.given.cells import PROTECTED, SAFE, UNSAFE, GivenTruth
from confide.mechanisms.suppression.given.tables import GivenTablesProblem
from confide.mechanisms.suppression.problem import MOST, Contributions, Levels, PatternProblem, UnionRule
from confide.mechanisms.suppression.programme import SuppressionProblem
from confide.mechanisms.suppression.spec import published_figures
from confide.mechanisms.suppression.structure import Flags
from confide.mechanisms.suppression.suppress import pose


def given_levels(problem: GivenTablesProblem, truth: GivenTruth) -> Levels:
    """The cells that are primary, by the rules and by what was decided, with their protection levels."""
    by_rule = primary_levels(problem, truth)
    waived = (truth.status == SAFE) | (truth.status == PROTECTED)
    asked = truth.levels.primary
    decided = truth.status == UNSAFE
    percent = problem.spec.suppression.range
    away = np.array([max(1, ceil(percent / MOST * int(x))) for x in truth.value], np.int64)
    bare = decided & ~asked & ~by_rule.primary
    own = Levels(
        decided | asked,
        np.where(bare, np.minimum(away, truth.value), truth.levels.lower),
        np.where(bare, away, truth.levels.upper),
        truth.levels.sliding,
    )
    levels = by_rule.also(own)
    return Levels(
        levels.primary & ~waived,
        *(np.where(waived, 0, level) for level in (levels.lower, levels.upper, levels.sliding)),
    )


def pose_given(problem: GivenTablesProblem, truth: GivenTruth) -> PatternProblem:
    """Primary cells, what is never hidden, and what it costs to hide others."""
    part, programme = problem.spec.suppression, problem.programme
    single: Flags = (truth.number == 1) if part.singletons else np.zeros(len(truth.value), np.bool_)
    keep = programme.kept(part.keep) | (truth.status == PROTECTED)
    levels = given_levels(problem, truth)
    posed = pose(
        programme.linked,
        truth.value,
        levels,
        zeros=part.zeros,
        weight=part.weights,
        single=single,
        keep=keep & ~levels.primary,
        inhabited=truth.number > 0,
    )
    posed = replace(posed, weight=np.where(np.isnan(truth.cost), posed.weight, truth.cost))
    return posed if truth.contributions is None else with_given_contributors(problem, truth.contributions, posed)


# Contributors of given magnitude tables, of whom only the largest contributions to each cell are known.
#
# Who they are is not known: each is taken for somebody else, but for those who are alone in a cell and in a total of
# it. What the largest have not given is taken for many equal contributions, each no larger than the smallest that is
# known: as many as there are contributors, or as few as can be. So a union of cells has its whole figure, and the rules
# never see a contributor who is larger than any can be. Confidential.


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


# What is left for the curator.


REASONS = "cells.parquet"
"""The file of the confidential zone that says which cells are primary, and why."""


def reasons(problem: GivenTablesProblem, truth: GivenTruth, posed: PatternProblem, suppressed: Flags) -> pa.Table:
    """Every listed cell of every table with its figure, whether and why it is primary, its levels, and whether it is
    hidden. Confidential: for the curator alone."""
    by_rule = primary_levels(problem, truth).primary
    words = {SAFE: "safe by decision", PROTECTED: "protected by decision", UNSAFE: "unsafe by decision"}
    why = np.array(
        [
            words[status] if status else "a rule" if rule else "a required level" if level else ""
            for status, rule, level in zip(truth.status.tolist(), by_rule, truth.levels.primary, strict=True)
        ]
    )
    programme, unit = problem.programme, problem.spec.data.unit
    parts = []
    for table, numbers in zip(programme.tables, programme.linked.numbers, strict=True):
        labels, cells = table.lines
        at = numbers[cells]
        levels = posed.levels.taken(at)
        named = [
            ", ".join(f"{name} = {label}" for name, label in zip(table.columns, each, strict=True)) for each in labels
        ]
        parts.append(
            pa.table(
                {
                    "table": pa.array([table.name] * len(at)),
                    "cell": pa.array(named),
                    "figure": published_figures(truth.value[at], unit),
                    "primary": pa.array(levels.primary),
                    "why": pa.array(why[at].tolist()),
                    "lower": published_figures(levels.lower, unit),
                    "upper": published_figures(levels.upper, unit),
                    "sliding": published_figures(levels.sliding, unit),
                    "cost": pa.array(posed.weight[at]),
                    "hidden": pa.array(suppressed[at]),
                }
            )
        )
    return pa.concat_tables(parts)


PROBLEM = "problem.jj"
"""The file of the confidential zone."""
FAR = 10


def jj_of(problem: PatternProblem, suppressed: Flags) -> JJProblem:
    """A problem with a pattern.

    Args:
        problem: Figures, levels and costs of all distinct cells.
        suppressed: Which of them are hidden.

    Returns:
        Cells and sums, for :func:`confide.inputs.argus.write_jj`.
    """
    levels = problem.levels
    far = Decimal(FAR * (int(problem.value.max(initial=0)) + int(levels.upper.max(initial=0)) + 1))
    status = np.where(problem.keep, "z", "s")
    status = np.where(suppressed, "m", status)
    status = np.where(levels.primary, "u", status)
    zero = Decimal(0)
    columns = (problem.value, problem.weight, status, problem.low, levels.lower, levels.upper, levels.sliding)
    cells = tuple(
        JJCell(number, Decimal(value), Decimal(repr(cost)), kind, Decimal(low), far, *map(Decimal, levels_of))
        for number, (value, cost, kind, low, *levels_of) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
    )
    matrix = problem.structure.matrix
    sums = tuple(
        JJSum(
            zero,
            tuple(
                (int(cell), int(times))
                for cell, times in zip(
                    matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]],
                    matrix.data[matrix.indptr[row] : matrix.indptr[row + 1]],
                    strict=True,
                )
            ),
        )
        for row in range(problem.structure.rows)
    )
    return JJProblem(cells, sums)
