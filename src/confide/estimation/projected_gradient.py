"""Wide problems that the active set method does not finish: accelerated projected gradients.

The parent sums are kept by projection, the side rows by an augmented Lagrangian: first order, no systems to solve,
memory of a few arrays of the size of x. It need not converge to the last digit. Every so often its point, and which
of its side rows bind, are handed to the active set method, which either finishes with a few exact steps or says that
it is too early. References: Beck and Teboulle (2009), A fast iterative shrinkage-thresholding algorithm; O'Donoghue
and Candès (2015), Adaptive restart for accelerated gradient schemes; Rockafellar (1976), Augmented Lagrangians.
"""

from __future__ import annotations

import numpy as np

from confide.estimation.active_set import active_set
from confide.estimation.certificate import certify
from confide.estimation.prepare import Point, Prepared, row_status
from confide.estimation.problem import Floats
from confide.estimation.simplex import project

ROUNDS = 60
INNER = 300


def _inner(prepared: Prepared, x: Floats, shift: Floats, penalty: float, tolerance: float, steps: int) -> Floats:
    """Minimises ``f + penalty/2 |distance of A x + shift to [low, high]|^2`` over the simplices."""
    rows = prepared.rows
    longest = float(np.bincount(rows.row, minlength=rows.count).max(initial=0)) if rows.count else 0.0
    overlap = float(np.bincount(rows.variable).max(initial=0)) if rows.count else 0.0
    slope_bound = 2.0 * prepared.hessian.largest() + penalty * longest * overlap
    length = 1.0 / slope_bound if slope_bound > 0 else 1.0
    point, speed = x, 1.0
    for _ in range(steps):
        gradient = prepared.hessian.gradient(point)
        if rows.count:
            sums = rows.sums(point) + shift
            gradient = gradient + rows.spread(penalty * (sums - np.clip(sums, rows.low, rows.high)), x.shape)
        new = project(point - length * gradient, prepared.free, prepared.sums, prepared.axis)
        moved = new - x
        if float(np.abs(new - point).max(initial=0.0)) <= tolerance:
            return new
        if float(((point - new) * moved).sum()) > 0.0:
            point, speed = new, 1.0
        else:
            faster = (1.0 + np.sqrt(1.0 + 4.0 * speed * speed)) / 2.0
            point, speed = new + (speed - 1.0) / faster * moved, float(faster)
        x = new
    return x


def projected_gradient(prepared: Prepared, start: Floats, rounds: int = ROUNDS) -> Point:
    """Improves ``start`` until the active set method finishes from there, or the rounds are used up."""
    rows = prepared.rows
    x, shift = start, np.zeros(rows.count)
    penalty = 2.0 * (prepared.hessian.largest() / max(1, prepared.problem.cells) or 1.0)
    tolerance, missed = 1e-2, np.inf
    for number in range(1, rounds + 1):
        x = _inner(prepared, x, shift, penalty, tolerance, INNER)
        sums = rows.sums(x) + shift
        new_shift = sums - np.clip(sums, rows.low, rows.high)
        off = float(np.abs(new_shift - shift).max(initial=0.0))
        shift = new_shift
        if number % 3 == 0:
            multipliers = -penalty * shift
            polished = active_set(prepared, x, row_status(prepared, multipliers))
            if polished.finished and certify(prepared, polished.x, polished.multipliers).accepts():
                return Point(polished.x, polished.multipliers, number, finished=True)
        if off > 0.5 * missed:
            penalty, shift = penalty * 3.0, shift / 3.0
        missed = off
        tolerance = max(tolerance * 0.4, 1e-8)
    return Point(x, -penalty * shift, rounds, finished=False)
