"""Whether a problem has a solution at all, and if not, which constraints clash: a linear program.

The parent sums and structural zeros are kept, the side rows may give way, and the sum of what they give is minimised
(HiGHS, by way of scipy). The constraints can be met together exactly if the minimum is 0; otherwise the rows that give
way are named.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from confide.errors import ConfideError, Finding, Place
from confide.estimation.prepare import Prepared

TOLERANCE = 1e-6
_SHOWN = 20


class InfeasibleError(ConfideError):
    """The constraints of a node problem contradict each other."""


def clashes(prepared: Prepared) -> list[Finding]:
    """What cannot be met, by name; empty if the problem has a solution."""
    found = _nowhere(prepared)
    if found:
        return found[:_SHOWN]
    rows, count = prepared.rows, int(prepared.free.sum())
    if not rows.count:
        return []
    number = np.full(prepared.free.shape, -1, np.int64)
    number[prepared.free] = np.arange(count)
    matrix = sp.csr_array(
        (np.ones(len(rows.row)), (rows.row, number.ravel()[rows.variable])), shape=(rows.count, count)
    )
    give = sp.eye_array(rows.count)
    equations, right = None, None
    if prepared.sums is not None:
        blocks = np.broadcast_to(np.arange(prepared.sums.size).reshape(prepared.sums.shape), prepared.free.shape)
        shape = (prepared.sums.size, count + 2 * rows.count)
        equations = sp.csr_array((np.ones(count), (blocks[prepared.free], np.arange(count))), shape=shape)
        right = prepared.sums.ravel()
    above, below = np.isfinite(rows.high), np.isfinite(rows.low)
    nothing = sp.csr_array((rows.count, rows.count))
    upper = sp.hstack([matrix, -give, nothing], format="csr")[above]
    lower = sp.hstack([-matrix, nothing, -give], format="csr")[below]
    cost = np.concatenate([np.zeros(count), np.ones(2 * rows.count)])
    limits = np.concatenate([rows.high[above], -rows.low[below]])
    from scipy.optimize import linprog  # slow to load, and needed only where nothing else was found

    result = linprog(cost, sp.vstack([upper, lower], format="csr"), limits, equations, right, method="highs")
    if result.x is None:
        raise ConfideError(Finding("feasibility", "the linear program was not solved", found=str(result.message)))
    given = result.x[count : count + rows.count] - result.x[count + rows.count :]
    if float(np.abs(given).max(initial=0.0)) <= TOLERANCE:
        return []
    worst = sorted(np.flatnonzero(np.abs(given) > TOLERANCE), key=lambda row: -abs(given[row]))
    return [_named(prepared, int(row), float(given[row])) for row in worst[:_SHOWN]]


def _nowhere(prepared: Prepared) -> list[Finding]:
    """Blocks with people and no place to put them."""
    if prepared.sums is None:
        return []
    empty = ~prepared.free.any(prepared.axis, keepdims=True) & (prepared.sums > 0)
    names = [f"cell {block}" if prepared.problem.parent is not None else "total" for block in np.flatnonzero(empty)]
    what = "no child may hold this cell, and the parent has people in it"
    remedy = "look at the structural zeros and at upper bounds of 0"
    return [Finding("infeasible", what, Place(path=name), remedy=remedy) for name in names]


def _named(prepared: Prepared, row: int, given: float) -> Finding:
    name, group, child = prepared.rows.names[row]
    unit = "sum over children" if child < 0 else prepared.problem.child_name(child)
    side = "upper" if given > 0 else "lower"
    limit = prepared.rows.high[row] if given > 0 else prepared.rows.low[row]
    what = f"the {side} bound cannot be met together with the parent sums and the other bounds"
    found = f"{limit + given:,.6g} at the least change" if given > 0 else f"{limit + given:,.6g} at the most"
    expected = f"at {'most' if given > 0 else 'least'} {limit:,.6g}"
    remedy = "look at the bounds of this group in all children, and at the structural zeros"
    return Finding("infeasible", what, Place(path=f"{name}, group {group}, {unit}"), found, expected, remedy)
