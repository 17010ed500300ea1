"""One way in: the least-squares estimate of a node, with a certificate, or an error that names what clashes.

The methods are tried in a fixed order until one hands in a point whose certificate is accepted: violations of at most
1e-7 and a proved distance to the optimum of at most 1e-6 of the objective. Which method it was, and which ones failed
before, is in the :class:`SolveReport`. If the first has no feasible point, a linear program decides whether there is
one at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import piqp
import scipy.sparse as sp

from confide.arrays import Floats, Integers
from confide.errors import ConfideError, Finding, ParameterError, Place
from confide.estimation.active_set import InfeasibleError, OptimalityCertificate, active_set, certify, clashes
from confide.estimation.law_interior_point import law_interior_point
from confide.estimation.node_problem import CellLaw, GroupBounds, MeasuredQuery, NodeProblem
from confide.estimation.prepare import Hessian, Point, Prepared, prepare, project, reference_point, row_status, tighten

# Problems with side rows: the sparse interior point method of PIQP, on the deviation from a reference point.
#
# Every measured group of every child becomes a variable of its own, ``z = M x``, which keeps the Hessian diagonal and
# the system sparse. Counts are large and deviations small, and an interior point method stops at errors that are
# small in comparison with what it is given: so it is given the deviation from a point near the measurements.
# Reference: Schwan, Jiang, Kuhn and Jones (2023), PIQP: a proximal interior-point quadratic programming solver.


TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class _Margins:
    """Measured groups with at least one variable: as equations ``M d - z = 0``."""

    row: Integers
    variable: Integers
    weight: Floats
    residual: Floats


def _margins(prepared: Prepared, hessian: Hessian, reference: Floats, number: Integers) -> _Margins:
    """The margins, over the free variables as numbered."""
    units = prepared.problem.units
    group, cell = (hessian.coarse.sparse() @ hessian.stack.sparse()).tocoo().coords
    pair = np.repeat(np.arange(len(group)), units)
    child = np.tile(np.arange(units), len(group))
    variable = number[cell[pair], child]
    row = group[pair] * units + child
    used = (variable >= 0) & (hessian.weights.ravel()[row] > 0)
    row, variable = row[used], variable[used]
    measured_rows, row = np.unique(row, return_inverse=True)
    residual = (hessian.measured - hessian.margins(reference)).ravel()[measured_rows]
    return _Margins(row, variable, hessian.weights.ravel()[measured_rows], residual)


def _matrix(parts: list[tuple[Integers, Integers, Floats]], shape: tuple[int, int]) -> sp.csc_matrix:
    row, column, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return sp.csc_matrix((value, (row, column)), shape=shape)


def interior_point(prepared: Prepared, reference: Floats, steps: int = 250) -> Point:
    """Solves a problem of measured queries with PIQP. The result is checked by the caller."""
    rows, hessian, free = prepared.rows, prepared.hessian, prepared.free
    assert not isinstance(hessian, CellLaw), "laws of cells have a method of their own"
    number = np.full(free.shape, -1, np.int64)
    number.T[free.T] = np.arange(int(free.sum()))
    count = int(free.sum())
    # Variables: the deviations of the free cells, then one for each measured group, z = M d.
    margins = _margins(prepared, hessian, reference, number)
    weights = np.concatenate([_ordered(hessian.diagonal, prepared), margins.weight])
    unit = float(weights.max(initial=0.0)) or 1.0
    targets = np.concatenate([_ordered(hessian.centre - reference, prepared), margins.residual])
    curvature = sp.diags_array(2.0 * weights / unit, format="csc")
    linear = -2.0 * weights / unit * targets
    extra = len(margins.weight)

    # Equations, one block after the other: z is the sum of its cells, ...
    ones = np.ones(count)
    parts = [(margins.row, margins.variable, np.ones(len(margins.row)))]
    parts.append((np.arange(extra), count + np.arange(extra), -np.ones(extra)))
    right, height = [np.zeros(extra)], extra
    # ... cells add up to the parent sums, ...
    if prepared.sums is not None:
        block = np.broadcast_to(np.arange(prepared.sums.size).reshape(prepared.sums.shape), free.shape)
        present, block_row = np.unique(_ordered(block, prepared), return_inverse=True)
        parts.append((block_row + height, np.arange(count), ones))
        right.append((prepared.sums - reference.sum(prepared.axis, keepdims=True)).ravel()[present])
        height += len(present)
    # ... and side rows with one bound are met; those with two become inequalities.
    equal = rows.low == rows.high
    variable = number.ravel()[rows.variable]
    place = np.where(equal, np.cumsum(equal) - 1 + height, np.cumsum(~equal) - 1)
    at = rows.sums(reference)
    inside = equal[rows.row]
    parts.append((place[rows.row[inside]], variable[inside], np.ones(int(inside.sum()))))
    right.append((rows.low - at)[equal])
    height += int(equal.sum())
    equations = _matrix(parts, (height, count + extra))

    # The objective is divided by its largest weight, so that the absolute tolerance means the same for all problems.
    solver = piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs, settings.eps_rel, settings.max_iter = TOLERANCE, 0.0, steps
    settings.eps_duality_gap_abs, settings.eps_duality_gap_rel = TOLERANCE * count, TOLERANCE
    lowest = np.concatenate([-_ordered(reference, prepared), np.full(extra, -np.inf)])
    arguments = [curvature, linear, equations, np.concatenate(right)]
    if equal.all():
        arguments += [None, None, None]
    else:
        pairs = [(place[rows.row[~inside]], variable[~inside], np.ones(int((~inside).sum())))]
        arguments += [_matrix(pairs, (int((~equal).sum()), count + extra)), (rows.low - at)[~equal]]
        arguments += [(rows.high - at)[~equal]]
    solver.setup(*arguments, lowest, None)
    status = solver.solve()
    result = solver.result

    # Back to the point and to multipliers in our sign: positive at a lower bound.
    deviation = np.zeros(free.shape)
    deviation.T[free.T] = result.x[:count]
    multipliers = np.zeros(rows.count)
    multipliers[equal] = -result.y[height - int(equal.sum()) :] if equal.any() else 0.0
    if not equal.all():
        multipliers[~equal] = result.z_l - result.z_u
    x = np.where(free, np.maximum(reference + deviation, 0.0), 0.0)
    return Point(x, multipliers * unit, int(result.info.iter), status == piqp.PIQP_SOLVED)


def _ordered(values: np.ndarray, prepared: Prepared) -> np.ndarray:
    """The entries of the free variables, child by child."""
    return np.asarray(values.T[prepared.free.T])


# Wide problems that the active set method does not finish: accelerated projected gradients.
#
# The parent sums are kept by projection, the side rows by an augmented Lagrangian: first order, no systems to solve,
# memory of a few arrays of the size of x. It need not converge to the last digit. Every so often its point, and which
# of its side rows bind, are handed to the active set method, which either finishes with a few exact steps or says
# that it is too early. References: Beck and Teboulle (2009), A fast iterative shrinkage-thresholding algorithm;
# O'Donoghue and Candès (2015), Adaptive restart for accelerated gradient schemes; Rockafellar (1976), Augmented
# Lagrangians.


ROUNDS = 60
INNER = 300


def _inner(prepared: Prepared, x: Floats, shift: Floats, penalty: float, tolerance: float, steps: int) -> Floats:
    """Minimises ``f + penalty/2 |distance of A x + shift to [low, high]|^2`` over the simplices."""
    rows = prepared.rows
    # The step is one over a bound of the curvature: of H, and of A'A by its row and column sums.
    longest = float(np.bincount(rows.row, minlength=rows.count).max(initial=0)) if rows.count else 0.0
    overlap = float(np.bincount(rows.variable).max(initial=0)) if rows.count else 0.0
    slope_bound = 2.0 * prepared.hessian.largest() + penalty * longest * overlap
    length = 1.0 / slope_bound if slope_bound > 0 else 1.0
    point, speed = x, 1.0
    for _ in range(steps):
        gradient = prepared.hessian.gradient(point)
        if rows.count:
            sums = rows.sums(point) + shift
            gradient = gradient + rows.adjoint(penalty * (sums - np.clip(sums, rows.low, rows.high)), x.shape)
        new = project(point - length * gradient, prepared.free, prepared.sums, prepared.axis)
        moved = new - x
        if float(np.abs(new - point).max(initial=0.0)) <= tolerance:
            return new
        # The momentum points uphill: restart without it. Otherwise gather speed.
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
        # The shift is the scaled multiplier: what is missed is added, so the next round pushes harder.
        new_shift = sums - np.clip(sums, rows.low, rows.high)
        off = float(np.abs(new_shift - shift).max(initial=0.0))
        shift = new_shift
        # Every third round the active set method tries to finish from here.
        if number % 3 == 0:
            multipliers = -penalty * shift
            polished = active_set(prepared, x, row_status(prepared, multipliers))
            if polished.finished and certify(prepared, polished.x, polished.multipliers).accepts():
                return Point(polished.x, polished.multipliers, number, finished=True)
        # Too slow: a larger penalty, with the shift scaled so that the multipliers stay.
        if off > 0.5 * missed:
            penalty, shift = penalty * 3.0, shift / 3.0
        missed = off
        tolerance = max(tolerance * 0.4, 1e-8)
    return Point(x, -penalty * shift, rounds, finished=False)


SMALLEST = 1e-7
"""Values below this are 0, as in production."""
QUANTUM = 1e-6
"""Machines agree up to rounding errors only, so x is quantised before it is rounded to whole numbers."""
STIFF = 1e4
"""Laws of cells with a larger condition are solved by the interior point method first: conjugate gradients would take
hundreds of products for each guess of an active set."""
MOST_FOR_INTERIOR_POINT = 100_000
"""Up to this many variables the interior point method is the first fallback: it takes some ten seconds and half a
gigabyte at this size, and hardly ever fails. Above it projected gradients are, which need less memory."""


class SolveOutcome(StrEnum):
    """How an estimate came about. Every solve has exactly one."""

    FORCED = "forced"
    """The constraints leave one point only."""
    PROJECTED = "projected"
    """Totals alone: a projection on a simplex."""
    ACTIVE_SET = "active set"
    DUAL_NEWTON = "dual newton"
    """Full tables of held groups (:mod:`~confide.estimation.full_tables`)."""
    INTERIOR_POINT = "interior point"
    PROJECTED_GRADIENT = "projected gradient"
    INEXACT = "inexact"
    """Feasible, but the optimum was not proved to be within 1e-6: the best point that was found, with its gap."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One method's try: what it handed in."""

    method: SolveOutcome
    steps: int
    certificate: OptimalityCertificate
    accepted: bool


@dataclass(frozen=True, slots=True)
class SolveReport:
    """What was done for one node: the outcome, its certificate, and every attempt in order."""

    outcome: SolveOutcome
    certificate: OptimalityCertificate
    attempts: tuple[Attempt, ...]

    @property
    def fallbacks(self) -> int:
        """How many methods failed before."""
        return sum(not attempt.accepted for attempt in self.attempts)


class UnsolvedError(ConfideError):
    """No method found a feasible point, though one exists."""


def quantised(x: Floats) -> Floats:
    """x to the nearest multiple of 1e-6, as it goes into rounding."""
    return np.asarray(np.rint(x / QUANTUM) * QUANTUM)


def solve(problem: NodeProblem) -> tuple[Floats, SolveReport]:
    """The least-squares estimate of a node, and how it was found.

    Args:
        problem: A parent and its children, or the root.

    Returns:
        The estimate x, (cells, children), and the report: outcome, certificate, every attempt.

    Raises:
        InfeasibleError: The constraints clash; it names them.
        UnsolvedError: No method found a feasible point, though one exists.

    >>> from confide.estimation import MeasuredQuery, NodeProblem
    >>> detailed = MeasuredQuery("detailed", np.arange(2), np.array([[6.0, 5.0], [1.0, 3.0]]), np.ones(2))
    >>> x, report = solve(NodeProblem(np.array([10, 4]), np.ones((2, 2), bool), (detailed,)))
    >>> x, report.outcome.value
    (array([[5.5, 4.5],
           [1. , 3. ]]), 'active set')
    """
    prepared = prepare(problem)
    x = _forced(prepared)
    if x is not None:
        certificate = certify(prepared, x, np.zeros(prepared.rows.count))
        if not certificate.feasible:
            raise InfeasibleError(clashes(prepared) or [_unmet(certificate)])
        certificate = replace(certificate, gap=0.0, relative_gap=0.0)
        return x, SolveReport(SolveOutcome.FORCED, certificate, ())
    start = reference_point(prepared)
    attempts: list[Attempt] = []
    best: tuple[Floats, OptimalityCertificate] | None = None
    for method, run in _chain(prepared):
        point = run(prepared, start)
        x, certificate = _finish(prepared, point)
        attempts.append(Attempt(method, point.steps, certificate, certificate.accepts()))
        if certificate.accepts():
            return x, SolveReport(method, certificate, tuple(attempts))
        if certificate.feasible and (best is None or certificate.objective < best[1].objective):
            best = x, certificate
        if best is None and len(attempts) == 1 and (contradictions := clashes(prepared)):
            raise InfeasibleError(contradictions)
    if best is None:
        raise UnsolvedError(
            _unmet(min((attempt.certificate for attempt in attempts), key=lambda certificate: certificate.violation))
        )
    return best[0], SolveReport(SolveOutcome.INEXACT, best[1], tuple(attempts))


def _unmet(certificate: OptimalityCertificate) -> Finding:
    return Finding.of(
        "unsolved", where=Place(path="estimation"), violation=certificate.violation, limit=certificate.limit
    )


def _chain(prepared: Prepared) -> list[tuple[SolveOutcome, Callable[[Prepared, Floats], Point]]]:
    first = (SolveOutcome.ACTIVE_SET, active_set)
    if isinstance(prepared.hessian, CellLaw):
        inner, wide = (
            (SolveOutcome.INTERIOR_POINT, law_interior_point),
            (SolveOutcome.PROJECTED_GRADIENT, projected_gradient),
        )
        return [first, inner, wide] if prepared.hessian.condition <= STIFF else [inner, first, wide]
    inner, wide = (SolveOutcome.INTERIOR_POINT, interior_point), (SolveOutcome.PROJECTED_GRADIENT, projected_gradient)
    return [first, inner, wide] if int(prepared.free.sum()) <= MOST_FOR_INTERIOR_POINT else [first, wide, inner]


def _forced(prepared: Prepared) -> Floats | None:
    """The only point, if every block has at most one variable: one child, or an empty parent."""
    if prepared.sums is None:
        return None if prepared.free.any() else np.zeros(prepared.free.shape)
    if int(prepared.free.sum(prepared.axis).max(initial=0)) > 1:
        return None
    return np.where(prepared.free, prepared.sums, 0.0)


def _finish(prepared: Prepared, point: Point) -> tuple[Floats, OptimalityCertificate]:
    """Small values to 0. Where that leaves a visible error, the equations are solved once more for what is left."""
    x = np.where(point.x < SMALLEST, 0.0, point.x)
    certificate = certify(prepared, x, point.multipliers)
    if certificate.accepts() or certificate.violation > 1e-2:
        return x, certificate
    again = active_set(prepared, point.x, row_status(prepared, point.multipliers))
    polished = np.where(again.x < SMALLEST, 0.0, again.x)
    better = certify(prepared, polished, again.multipliers)
    return (polished, better) if better.accepts() else (x, certificate)


# Pass 0: the children's totals alone.
#
# The objective looks at nothing but ``t[c]``, the total of child c. Cells that have the same structural zeros and lie
# in the same groups of every bound can be exchanged for each other, so they are put together first: of 2,016 cells some
# ten classes remain. The set of totals that can be reached is then that of a small transport problem. Without any bound
# it is a simplex, and the answer a projection that needs a sort.


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

    >>> from confide.estimation import MeasuredQuery, NodeProblem
    >>> total = MeasuredQuery("total", np.zeros(2, np.int64), np.array([[12.0, 5.0]]), np.ones(2))
    >>> totals, report = estimate_totals(NodeProblem(np.array([10, 4]), np.ones((2, 2), bool), (total,)))
    >>> totals
    array([10.5,  3.5])
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
