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

from confide.errors import ConfideError, Finding, Place
from confide.estimation.active_set import active_set
from confide.estimation.certificate import Certificate, certify
from confide.estimation.feasibility import InfeasibleError, clashes
from confide.estimation.interior_point import interior_point
from confide.estimation.prepare import Point, Prepared, prepare, reference_point, row_status
from confide.estimation.problem import Floats, NodeProblem
from confide.estimation.projected_gradient import projected_gradient

SMALLEST = 1e-7
"""Values below this are 0, as in production."""
QUANTUM = 1e-6
"""Machines agree up to rounding errors only, so x is quantised before it is rounded to whole numbers."""
SMALL = 15_000
"""Up to this many variables the interior point method is the first fallback, above it projected gradients."""


class Outcome(StrEnum):
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

    method: Outcome
    steps: int
    certificate: Certificate
    accepted: bool


@dataclass(frozen=True, slots=True)
class SolveReport:
    """What was done for one node: the outcome, its certificate, and every attempt in order."""

    outcome: Outcome
    certificate: Certificate
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
    """The estimate x, (cells, children), and how it was found.

    Raises :class:`InfeasibleError` if the constraints clash, with their names.
    """
    prepared = prepare(problem)
    x = _forced(prepared)
    if x is not None:
        certificate = certify(prepared, x, np.zeros(prepared.rows.count))
        if not certificate.feasible:
            raise InfeasibleError(clashes(prepared) or [_unmet(certificate)])
        certificate = replace(certificate, gap=0.0, relative_gap=0.0)
        return x, SolveReport(Outcome.FORCED, certificate, ())
    start = reference_point(prepared)
    attempts: list[Attempt] = []
    best: tuple[Floats, Certificate] | None = None
    for method, run in _chain(prepared):
        point = run(prepared, start)
        x, certificate = _finish(prepared, point)
        attempts.append(Attempt(method, point.steps, certificate, certificate.accepts()))
        if certificate.accepts():
            return x, SolveReport(method, certificate, tuple(attempts))
        if certificate.feasible and (best is None or certificate.objective < best[1].objective):
            best = x, certificate
        if best is None and len(attempts) == 1 and (found := clashes(prepared)):
            raise InfeasibleError(found)
    if best is None:
        raise UnsolvedError(_unmet(min((tried.certificate for tried in attempts), key=lambda found: found.violation)))
    return best[0], SolveReport(Outcome.INEXACT, best[1], tuple(attempts))


def _unmet(certificate: Certificate) -> Finding:
    what = "no method found a point that satisfies all constraints, though a linear program found none that clash"
    remedy = "report the problem: this is a failure of the solvers, not of the input"
    found, expected = f"a violation of {certificate.violation:.1e}", f"at most {certificate.limit:.1e}"
    return Finding("unsolved", what, Place(path="estimation"), found, expected, remedy)


def _chain(prepared: Prepared) -> list[tuple[Outcome, Callable[[Prepared, Floats], Point]]]:
    first = (Outcome.ACTIVE_SET, active_set)
    inner, wide = (Outcome.INTERIOR_POINT, interior_point), (Outcome.PROJECTED_GRADIENT, projected_gradient)
    return [first, inner, wide] if int(prepared.free.sum()) <= SMALL else [first, wide, inner]


def _forced(prepared: Prepared) -> Floats | None:
    """The only point, if every block has at most one variable: one child, or an empty parent."""
    if prepared.sums is None:
        return None if prepared.free.any() else np.zeros(prepared.free.shape)
    if int(prepared.free.sum(prepared.axis).max(initial=0)) > 1:
        return None
    return np.where(prepared.free, prepared.sums, 0.0)


def _finish(prepared: Prepared, point: Point) -> tuple[Floats, Certificate]:
    """Small values to 0. Where that leaves a visible error, the equations are solved once more for what is left."""
    x = np.where(point.x < SMALLEST, 0.0, point.x)
    certificate = certify(prepared, x, point.multipliers)
    if certificate.accepts() or certificate.violation > 1e-2:
        return x, certificate
    again = active_set(prepared, point.x, row_status(prepared, point.multipliers))
    polished = np.where(again.x < SMALLEST, 0.0, again.x)
    better = certify(prepared, polished, again.multipliers)
    return (polished, better) if better.accepts() else (x, certificate)
