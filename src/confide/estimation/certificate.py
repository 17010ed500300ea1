"""How far a point can be from the optimum: an upper bound that anybody can recompute.

For a feasible x, any multipliers v of the side rows ``low <= A x <= high`` and any multipliers m of the blocks (a block
is what one parent sum adds up), convexity and weak duality give, with ``s = grad f(x) - A'v - m`` and D the weight that
each variable has by itself (docs/proofs/estimation.md),

    f(x) - f*  <=  gap  =  sum over variables of  max over 0 <= x + t <= cap of  -(s t + D t^2)
                           + sum of v+ (A x - low) + v- (high - A x)  +  sum of m (block sum of x - p)

The multipliers need not be good, and the solver that found them need not be trusted: bad ones only make the bound
larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confide.estimation.prepare import Prepared
from confide.estimation.problem import Floats

GAP = 1e-6
"""Accepted: a gap of at most this share of the objective."""
VIOLATION = 1e-7
"""Accepted: a violation of any constraint by at most this (the production feasibility tolerance)."""


@dataclass(frozen=True, slots=True)
class Certificate:
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
        slope = slope - rows.spread(up - down, x.shape)
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


def certify(prepared: Prepared, x: Floats, multipliers: Floats) -> Certificate:
    """The certificate of a point. A slightly negative gap is rounding, or the reward of a slight violation."""
    value = prepared.hessian.value(x)
    gap = duality_gap(prepared, x, multipliers, value)
    relative = abs(gap) / max(value + prepared.problem.scale, float(np.finfo(np.float64).tiny))
    limit = max(VIOLATION, 8.0 * float(np.finfo(np.float64).eps) * float(x.sum()))
    return Certificate(value, gap, relative, prepared.problem.violation(x), limit)
