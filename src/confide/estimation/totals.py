"""Pass 0: the children's totals alone.

The objective looks at nothing but ``t[c]``, the total of child c. Cells that have the same structural zeros and lie
in the same groups of every bound can be exchanged for each other, so they are put together first: of 2,016 cells some
ten classes remain. The set of totals that can be reached is then that of a small transport problem. Without any bound
it is a simplex, and the answer a projection that needs a sort.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from confide.arrays import Floats, Integers
from confide.errors import ConfideError, ParameterError
from confide.estimation.active_set import OptimalityCertificate
from confide.estimation.least_squares import SolveOutcome, SolveReport, solve
from confide.estimation.node_problem import GroupBounds, MeasuredQuery, NodeProblem
from confide.estimation.prepare import tighten


def project_totals(
    measured: npt.ArrayLike,
    weights: npt.ArrayLike,
    total: float,
    lower: npt.ArrayLike = 0.0,
    upper: npt.ArrayLike = np.inf,
) -> Floats:
    """The t that minimises ``sum of w (t - y)^2`` with ``sum of t = total`` and ``lower <= t <= upper``.

    ``t = clip(y + m / w, lower, upper)`` for one number m. The sum of t rises with m and is linear between the points
    where a child reaches a bound; these are sorted, the right piece is found by bisection and solved.

    Args:
        measured: y, one for each child.
        weights: w, one over the variance, above zero; one for all or one for each child.
        total: What t adds up to.
        lower: One for all or one for each child.
        upper: One for all or one for each child.

    Returns:
        t, (children,).

    >>> project_totals([5.0, 3.0, -1.0], 1.0, 10.0)
    array([6., 4., 0.])
    """
    y, w = np.atleast_1d(np.asarray(measured, np.float64)), np.atleast_1d(np.asarray(weights, np.float64))
    low = np.broadcast_to(np.asarray(lower, np.float64), y.shape)
    high = np.broadcast_to(np.asarray(upper, np.float64), y.shape)
    w = np.broadcast_to(w, y.shape)
    if not (w > 0).all():
        raise ParameterError("weights")
    # Only ratios of weights matter. A power of two leaves every digit, and no product is too large for a number.
    w = np.ldexp(w, -int(np.frexp(w.max(initial=1.0))[1]))
    slack = 1e-9 * max(1.0, abs(total))
    if (low > high).any() or low.sum() > total + slack or high.sum() < total - slack:
        raise ParameterError("totals/bounds", low=low.sum(), high=high.sum(), total=total)

    def at(m: float) -> Floats:
        return np.clip(y + m / w, low, high)

    breaks = np.unique(np.concatenate([(low - y) * w, (high - y) * w]))
    breaks = breaks[np.isfinite(breaks)]
    first, last = 0, len(breaks)
    while first < last:
        middle = (first + last) // 2
        first, last = (middle + 1, last) if at(float(breaks[middle])).sum() < total else (first, middle)
    if first == 0:
        inside = np.isneginf(low)
        anchor = float(breaks[0]) if len(breaks) else 0.0
    else:
        anchor = float(breaks[first - 1])
        moved = anchor + (1.0 if first == len(breaks) else (float(breaks[first]) - anchor)) / 2
        inside = (y + moved / w > low) & (y + moved / w < high)
    speed = float((1.0 / w)[inside].sum())
    m = anchor + (total - float(at(anchor).sum())) / speed if speed > 0 else anchor
    return at(m)


def classes_of(problem: NodeProblem) -> Integers:
    """For every cell the number of its class, same structural zeros and same groups in all bounds; -1 where empty."""
    occupied = np.ones(problem.cells, np.bool_) if problem.parent is None else problem.parent > 0
    columns = [
        np.packbits(problem.allowed, axis=1).astype(np.int64),
        *(part.groups[:, None] for part in problem.bounds),
    ]
    _, number = np.unique(np.concatenate(columns, axis=1)[occupied], axis=0, return_inverse=True)
    result = np.full(problem.cells, -1, np.int64)
    result[occupied] = number.reshape(-1)
    return result


def estimate_totals(problem: NodeProblem) -> tuple[Floats, SolveReport]:
    """The least-squares totals of the children, from the queries of the problem that are totals.

    All other queries are left aside. The totals can be reached with the problem's constraints, so that the next pass
    may stay within any slack of them. First each child's total is bounded by itself, and the measured totals are
    projected. If a point with the result exists, it is optimal, as fewer constraints gave it; otherwise the small
    problem is solved as a whole.

    Args:
        problem: A parent with its children; a root has no children whose totals could be estimated.

    Returns:
        The totals, (children,), and the report.
    """
    if problem.parent is None:
        raise ParameterError("totals/root")
    reduced = _reduce(problem, problem.parent)
    totals = _relaxed(reduced)
    if totals is not None:
        point = _reached(reduced, totals)
        if point is not None:
            value, off = reduced.objective(point), reduced.violation(point)
            return totals, SolveReport(SolveOutcome.PROJECTED, OptimalityCertificate(value, 0.0, 0.0, off), ())
    x, report = solve(reduced)
    return np.asarray(x.sum(0)), report


def _reduce(problem: NodeProblem, parent: Integers) -> NodeProblem:
    """The problem with one cell for each class, and its totals alone."""
    number = classes_of(problem)
    count = int(number.max(initial=-1)) + 1
    occupied = np.flatnonzero(number >= 0)
    first = np.full(count, -1, np.int64)
    first[number[occupied][::-1]] = occupied[::-1]
    counts = np.zeros(count, np.int64)
    np.add.at(counts, number[occupied], parent[occupied])
    queries = tuple(replace(q, groups=np.zeros(count, np.int64)) for q in problem.queries if _is_total(q))
    bounds = tuple(replace(bound, groups=bound.groups[first]) for bound in problem.bounds)
    return replace(problem, parent=counts, allowed=problem.allowed[first], queries=queries, bounds=bounds)


def _relaxed(problem: NodeProblem) -> Floats | None:
    """The totals if every child is bounded by itself; None where that is not a projection, or has no solution."""
    assert problem.parent is not None
    weights = np.sum([query.weights for query in problem.queries], axis=0) if problem.queries else np.zeros(1)
    if not (weights > 0).all() or len(problem.child_sums) > 1:
        return None
    measured = np.sum([query.weights * query.measured[0] for query in problem.queries], axis=0) / weights
    lower, upper = np.zeros(problem.units), np.where(problem.allowed, problem.parent[:, None], 0).sum(0).astype(float)
    for bound in problem.bounds:
        low, high = tighten(problem, bound)
        outside = np.where(problem.allowed & (bound.groups < 0)[:, None], problem.parent[:, None], 0).sum(0)
        lower, upper = np.maximum(lower, low.sum(0)), np.minimum(upper, high.sum(0) + outside)
    members, sums = np.zeros(problem.units, np.int64), np.array([float(problem.parent.sum())])
    if problem.child_sums:
        part = problem.child_sums[0]
        if (part.members < 0).any() or (part.lower != part.upper).any():
            return None
        members, sums = part.members, part.lower
    totals = np.zeros(problem.units)
    try:
        for group in np.unique(members):
            own = members == group
            totals[own] = project_totals(measured[own], weights[own], float(sums[group]), lower[own], upper[own])
    except ParameterError:
        return None
    return totals


def _reached(problem: NodeProblem, totals: Floats) -> Floats | None:
    """A point with these totals, if there is one: the nearest to shares in proportion."""
    assert problem.parent is not None
    share = totals / max(float(totals.sum()), 1.0)
    middle = problem.parent[:, None] * share
    near = MeasuredQuery("shares", np.arange(problem.cells), middle, np.ones(problem.units))
    fixed = tolerance_rows(problem, totals, 0.0)
    try:
        x, report = solve(replace(problem, queries=(near,), bounds=(*problem.bounds, fixed)))
    except ConfideError:
        return None
    return x if report.certificate.feasible else None


def _is_total(query: MeasuredQuery) -> bool:
    return len(query.measured) == 1 and bool((query.groups == 0).all())


def tolerance_rows(problem: NodeProblem, totals: Floats, slack: float, name: str = "totals of pass 0") -> GroupBounds:
    """The rows of the next pass: every child's total stays within ``slack`` of its estimate."""
    return GroupBounds(name, np.zeros(problem.cells, np.int64), totals[None, :] - slack, totals[None, :] + slack)
