"""Bounds that follow from bounds: what every solution has in common, found without a solver.

For an equation Σ x_i = b with l_i ≤ x_i ≤ u_i, every solution has

    b − Σ_{k≠i} u_k  ≤  x_i  ≤  b − Σ_{k≠i} l_k ,

and the right half holds for *at most* too. The bounds are tightened in turn until none moves. Where they meet
everywhere, there is one solution and no programme to solve; most small blocks end here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from confide.attacks.reconstruction.marginals import Floats, Integers
from confide.attacks.reconstruction.programme import Flags, NoSolution, Programme

ROUNDS = 200
"""Tightening stops after so many rounds. Looser bounds are still bounds."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """What is left of a programme's exact rows: the variables whose bounds differ, and the rows that count them."""

    lower: Floats = field(repr=False)
    upper: Floats = field(repr=False)
    """Of all variables of the programme."""
    free: Integers = field(repr=False)
    """The variables that are not determined."""
    matrix: Any = field(repr=False)
    """Rows by free variables."""
    least: Floats = field(repr=False)
    most: Floats = field(repr=False)
    """What the free variables of a row come to."""

    @property
    def determined(self) -> bool:
        """Whether every variable has one value in all solutions."""
        return not len(self.free)


def reduce(made: Programme) -> Reduced:
    """The bounds of every variable, and the rows that are left."""
    matrix, count, at_most = made.exact.matrix, made.exact.count, made.exact.at_most
    lower, upper = np.zeros(made.size), made.upper.copy()
    if matrix.nnz:
        lower, upper = _tighten(made, matrix, count, at_most, lower, upper)
    free = np.flatnonzero(upper > lower)
    fixed = np.where(upper > lower, 0.0, lower)
    rest = count - matrix @ fixed
    part = sparse.csr_array(matrix[:, free]) if len(free) else sparse.csr_array((matrix.shape[0], 0))
    used = np.flatnonzero(np.diff(part.indptr))
    kept = _distinct(part, used, rest, at_most)
    least = np.where(at_most[kept], -np.inf, rest[kept])
    return Reduced(lower, upper, free, part[kept], least, rest[kept])


def _tighten(
    made: Programme, matrix: Any, count: Floats, at_most: Flags, lower: Floats, upper: Floats
) -> tuple[Floats, Floats]:
    entries = matrix.tocoo()
    row, column = entries.coords
    order = np.argsort(column, kind="stable")
    row, column = row[order], column[order]
    first = np.flatnonzero(np.diff(column, prepend=-1))
    touched = column[first]
    equal = ~at_most[row]
    for _ in range(ROUNDS):
        low, high = matrix @ lower, matrix @ upper
        wrong = np.flatnonzero((low > count) | (~at_most & (high < count)))
        if len(wrong):
            name = made.row_name(made.exact, int(wrong[0]))
            unit = made.unit_name(made.exact, int(wrong[0]))
            raise NoSolution(f"{name} cannot be met together with the others", [name], unit)
        above = np.minimum.reduceat((count - low)[row] + lower[column], first)
        # an infinite upper bound elsewhere in the row says nothing; inf - inf would be NaN
        with np.errstate(invalid="ignore"):
            gain = np.where(equal, (count - high)[row] + upper[column], -np.inf)
        below = np.maximum.reduceat(np.nan_to_num(gain, nan=-np.inf, neginf=-np.inf), first)
        new_upper, new_lower = upper.copy(), lower.copy()
        new_upper[touched] = np.minimum(upper[touched], above)
        new_lower[touched] = np.maximum(lower[touched], below)
        if np.array_equal(new_upper, upper) and np.array_equal(new_lower, lower):
            break
        if (new_lower > new_upper).any():
            at = int(np.flatnonzero(new_lower > new_upper)[0])
            rows = np.flatnonzero(matrix[:, [at]].toarray().ravel())
            names = [made.row_name(made.exact, int(each)) for each in rows]
            raise NoSolution("the figures of these tables exclude one another", names, None)
        lower, upper = new_lower, new_upper
    return lower, upper


def _distinct(part: Any, used: Integers, rest: Floats, at_most: Flags) -> Integers:
    """One row for each set of free variables: many tables come down to the same. An equation goes before *at most*."""
    kept: dict[bytes, int] = {}
    for row in used.tolist():
        key = part.indices[part.indptr[row] : part.indptr[row + 1]].tobytes()
        other = kept.get(key)
        if other is None or (at_most[other] and (not at_most[row] or rest[row] < rest[other])):
            kept[key] = row
            if other is not None and not at_most[row] and rest[row] > rest[other]:
                raise NoSolution("two tables count the same people differently")
        elif rest[row] != rest[other] and not (at_most[row] and rest[row] >= rest[other]):
            raise NoSolution("two tables count the same people differently")
    return np.array(sorted(kept.values()), np.int64)
