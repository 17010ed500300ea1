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
import piqp
import scipy.sparse as sp

from confide.arrays import Floats, Integers
from confide.errors import ConfideError, Finding, Place
from confide.estimation.active_set import InfeasibleError, OptimalityCertificate, active_set, certify, clashes
from confide.estimation.cell_law import CellLaw
from confide.estimation.law_interior_point import law_interior_point
from confide.estimation.node_problem import NodeProblem
from confide.estimation.prepare import Hessian, Point, Prepared, prepare, project, reference_point, row_status

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
