"""Unions of hidden cells in one sum: their figure follows from a published total and the published parts.

Of a total T with published parts, what is hidden adds up to a known figure. If a rule calls the hidden cells together
sensitive, as it does of two cells with one contributor each, that figure must not be known either. So such a union
becomes a cell of its own, in no table, with an equation and with the protection levels of the rule,

    y_U = sum of y_i over the hidden parts,

and is protected as any primary cell is: the movements that prove it move what else is in the sum, which is hidden then.
What is hidden together after that is a larger union, and is looked at again, until no known union is sensitive. Every
round hides more in some sum, so rounds end. What is proved of unions is in ``docs/proofs/suppression.md``, 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from confide.arrays import Integers
from confide.mechanisms.suppression.contributors import NOBODY, Contributors
from confide.mechanisms.suppression.heuristic import Protection
from confide.mechanisms.suppression.problem import Levels, PatternProblem, cannot_protect
from confide.mechanisms.suppression.structure import UNION, Flags, Structure

THINNED = 5
"""After so many rounds nothing is published again: from then on each hides more, and they end."""


@dataclass(frozen=True, eq=False, repr=False)
class KnownUnions:
    """Unions of hidden cells that are sensitive and known: the cells of each, one after the other, with the levels that
    the rules demand."""

    cells: Integers
    union: Integers
    """For each cell the number of its union."""
    levels: Levels
    merged: Contributors

    def __len__(self) -> int:
        return len(self.levels.primary)


def known_unions(problem: PatternProblem, suppressed: Flags) -> list[Integers]:
    """The hidden cells of every sum whose total is published, if some of its parts are published too.

    Sub-totals that no table lists are hidden, and add up to nothing by themselves: their own parts stand for them.
    Where all parts are hidden, they are the published total together, which no rule calls sensitive.
    """
    structure, hidden = problem.structure, suppressed
    rows = {
        (int(total), int(axis)): at
        for at, (total, axis) in enumerate(zip(structure.total, structure.axis, strict=True))
    }
    matrix = structure.matrix
    unions: dict[tuple[int, ...], Integers] = {}
    # Neither equations of unions nor those of the kinds of people behind tables.
    for row in np.flatnonzero(structure.axis >= 0).tolist():
        total, axis = int(structure.total[row]), int(structure.axis[row])
        if hidden[total]:
            continue
        parts = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        parts = parts[parts != total]
        if not hidden[parts].any():
            continue
        waiting, union, published = parts.tolist(), [], False
        while waiting:
            part = waiting.pop()
            below = rows.get((part, axis)) if problem.unlisted[part] else None
            if below is not None:
                own = matrix.indices[matrix.indptr[below] : matrix.indptr[below + 1]]
                waiting += own[own != part].tolist()
            elif hidden[part]:
                union.append(part)
            else:
                published = True
        if union and published:
            unions[tuple(sorted(union))] = np.array(sorted(union), np.int64)
    return list(unions.values())


def sensitive_unions(problem: PatternProblem, suppressed: Flags) -> KnownUnions | None:
    """The known unions that the rules call sensitive; None where there is none, or no rule for unions."""
    rule = problem.union_rule
    if rule is None:
        return None
    unions = known_unions(problem, suppressed)
    if not unions:
        return None
    cells = np.concatenate(unions)
    union = np.repeat(np.arange(len(unions)), [len(each) for each in unions])
    merged = rule.contributors.merged(cells, union, len(unions), problem.low[cells])
    levels = rule.levels(merged)

    sensitive = np.flatnonzero(levels.primary)
    if not len(sensitive):
        return None
    at = np.isin(union, sensitive)
    return KnownUnions(
        cells[at], np.searchsorted(sensitive, union[at]), levels.taken(sensitive), merged.taken(sensitive)
    )


def with_unions(problem: PatternProblem, unions: KnownUnions) -> PatternProblem:
    """The problem with a primary cell for each union, which is in no table."""
    number, structure = len(unions), problem.structure
    entries = sparse.csr_array(
        (np.ones(len(unions.cells)), (unions.union, unions.cells)), shape=(number, structure.cells)
    )
    matrix = sparse.csr_array(sparse.block_array([[structure.matrix, None], [entries, -sparse.eye_array(number)]]))
    none = np.full(number, NOBODY, np.int64)
    value, low = np.zeros(number, np.int64), np.zeros(number, np.int64)
    np.add.at(value, unions.union, problem.value[unions.cells])
    np.add.at(low, unions.union, problem.low[unions.cells])
    old, new = problem.levels, unions.levels
    levels = Levels(*(np.concatenate([getattr(old, name), getattr(new, name)]) for name in LEVELS))
    no, yes = np.zeros(number, np.bool_), np.ones(number, np.bool_)
    return replace(
        problem,
        structure=Structure(
            matrix, np.append(structure.total, none), np.append(structure.axis, np.full(number, UNION, np.int64))
        ),
        value=np.append(problem.value, value),
        levels=levels,
        weight=np.append(problem.weight, np.ones(number)),
        low=np.append(problem.low, low),
        keep=np.append(problem.keep, no),
        unlisted=np.append(problem.unlisted, yes),
        single=np.append(problem.single, no),
        who=None if problem.who is None else np.append(problem.who, none),
        inhabited=np.append(problem.about_somebody, yes),
        contributors=None if problem.contributors is None else problem.contributors.followed_by(unions.merged),
        along=None if problem.along is None else (problem.along[0], np.append(problem.along[1], np.zeros_like(none))),
    )


LEVELS = ("primary", "lower", "upper", "sliding")


def open_unions(protection: Protection) -> Protection:
    """A pattern in which no known union is sensitive, from one that is safe cell by cell, with the movements that prove
    both. Cells of unions come after those of the problem.

    Raises:
        ParameterError: A union cannot be protected, whatever else is suppressed.
    """
    rounds = 0
    while (unions := sensitive_unions(protection.problem, protection.suppressed)) is not None:
        before = protection.suppressed
        problem = with_unions(protection.problem, unions)
        protection = protection.carried(problem, unions.cells, unions.union)
        failed = protection.complete()
        if failed:
            raise cannot_protect(failed)
        rounds += 1
        if rounds <= THINNED:
            protection.thin_out(among=protection.suppressed & ~np.append(before, np.ones(len(unions), np.bool_)))
    return protection
