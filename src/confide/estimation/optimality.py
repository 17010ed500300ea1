"""How far a point can be from the optimum: an upper bound that anybody can recompute.

For a feasible x, any multipliers v of the side rows ``low <= A x <= high`` and any multipliers m of the blocks (a block
is what one parent sum adds up), convexity and weak duality give, with ``s = grad f(x) - A'v - m`` and D the weight that
each variable has by itself (docs/proofs/estimation.md),

    f(x) - f*  <=  gap  =  sum over variables of  max over 0 <= x + t <= cap of  -(s t + D t^2)
                           + sum of v+ (A x - low) + v- (high - A x)  +  sum of m (block sum of x - p)

The multipliers need not be good, and the solver that found them need not be trusted: bad ones only make the bound
larger. As f is a sum of squares, f* is at least 0, and f(x) is a bound as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from confide.arrays import Floats
from confide.errors import ConfideError, Finding, Place
from confide.estimation.prepare import Prepared

GAP = 1e-6
"""Accepted: a gap of at most this share of the objective."""
VIOLATION = 1e-7
"""Accepted: a violation of any constraint by at most this (the production feasibility tolerance)."""


@dataclass(frozen=True, slots=True)
class OptimalityCertificate:
    """An objective, the proved bound on its distance to the optimum, and the largest violation of a constraint."""

    objective: float
    gap: float
    relative_gap: float
    violation: float
    limit: float = VIOLATION
    """What violation is accepted: 1e-7, or a few units in the last place of the largest sum."""

    @property
    def feasible(self) -> bool:
        """Whether all constraints hold within the tolerance."""
        return self.violation <= self.limit

    def accepts(self) -> bool:
        """Whether the point is optimal and feasible within the tolerances."""
        return self.feasible and self.relative_gap <= GAP


def _steepest(prepared: Prepared, x: Floats, slope: Floats, caps: Floats) -> Floats:
    """For every variable the most that ``-(s t + D t^2)`` can come to."""
    weight = prepared.hessian.diagonal
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.clip(-slope / (2.0 * weight), -x, np.maximum(caps - x, 0.0))
        most = np.where(prepared.free & (slope != 0.0), -(slope + weight * t) * t, 0.0)
    return np.nan_to_num(most, nan=np.inf, posinf=np.inf)


def duality_gap(prepared: Prepared, x: Floats, multipliers: Floats, value: float) -> float:
    """The bound above. Multipliers of sides that have no bound count as 0; those of blocks are chosen here."""
    rows, axis = prepared.rows, prepared.axis
    slack = 0.0
    slope = prepared.hessian.gradient(x)
    caps = prepared.caps(value)
    if rows.count:
        up = np.where(np.isfinite(rows.low), np.maximum(multipliers, 0.0), 0.0)
        down = np.where(np.isfinite(rows.high), np.maximum(-multipliers, 0.0), 0.0)
        sums = rows.sums(x)
        slack += float((up * np.where(up > 0, sums - rows.low, 0.0)).sum())
        slack += float((down * np.where(down > 0, rows.high - sums, 0.0)).sum())
        slope = slope - rows.adjoint(up - down, x.shape)
    if prepared.sums is None:
        return slack + float(_steepest(prepared, x, slope, caps).sum())
    excess = x.sum(axis, keepdims=True) - prepared.sums
    lowest = np.where(prepared.free, slope, np.inf).min(axis, keepdims=True, initial=np.inf)
    lowest = np.where(np.isfinite(lowest), lowest, 0.0)
    positive = x > 1e-6
    number = np.maximum(positive.sum(axis, keepdims=True), 1)
    middle = np.where(positive, slope, 0.0).sum(axis, keepdims=True) / number
    best = np.full(excess.shape, np.inf)
    for level in (middle, lowest):
        part = _steepest(prepared, x, slope - level, caps).sum(axis, keepdims=True) + level * excess
        best = np.minimum(best, part)
    return slack + float(best.sum())


def certify(prepared: Prepared, x: Floats, multipliers: Floats) -> OptimalityCertificate:
    """The certificate of a point. A slightly negative gap is rounding, or the reward of a slight violation."""
    value = prepared.hessian.value(x)
    # A sum of squares is nowhere below zero: where everything can be met, that is the sharper bound.
    gap = min(duality_gap(prepared, x, multipliers, value), value)
    relative = abs(gap) / max(value + prepared.problem.scale, float(np.finfo(np.float64).tiny))
    limit = max(VIOLATION, 8.0 * float(np.finfo(np.float64).eps) * float(x.sum()))
    return OptimalityCertificate(value, gap, relative, prepared.problem.violation(x), limit)


# Whether a problem has a solution at all, and if not, which constraints clash: a linear program.
#
# The parent sums and structural zeros are kept, the side rows may give way, and the sum of what they give is
# minimised (HiGHS, by way of scipy). The constraints can be met together exactly if the minimum is 0; otherwise the
# rows that give way are named.


TOLERANCE = 1e-6
_SHOWN = 20


class InfeasibleError(ConfideError):
    """The constraints of a node problem contradict each other."""


def clashes(prepared: Prepared) -> list[Finding]:
    """What cannot be met, by name; empty if the problem has a solution."""
    findings = _nowhere(prepared)
    if findings:
        return findings[:_SHOWN]
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
    from scipy.optimize import linprog

    result = linprog(cost, sp.vstack([upper, lower], format="csr"), limits, equations, right, method="highs")
    if result.x is None:
        raise ConfideError("feasibility", "the linear program was not solved", found=str(result.message))
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
