"""HiGHS, as SciPy brings it, asked for whole solutions; every answer is checked again in whole numbers.

A solver works with a tolerance. What it calls a solution is rounded to whole numbers and put into every row; only if
all hold exactly is it one. Nothing is accepted in silence: an answer is *solved*, *infeasible*, or found when the time
was up, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, Literal

import numpy as np
from scipy import optimize, sparse

from confide.arrays import Floats, Integers
from confide.errors import RunError
from confide.lab.attacks.reconstruction.integer_program import IntegerProgram, NoSolution, ProgramRows, ReducedProgram

Status = Literal["solved", "time limit"]

OPTIMAL, LIMIT, INFEASIBLE = 0, 1, 2
DEFAULT_TIME = 10.0
"""Seconds for one programme."""


@dataclass(frozen=True, eq=False)
class SolverResult:
    """What the solver says: values (if any were found), the objective's value, and a bound that no solution passes."""

    status: Status
    values: Floats | None = field(repr=False)
    objective: float
    bound: float


def minimise(
    cost: Floats,
    matrix: Any,
    least: Floats,
    most: Floats,
    lower: Floats,
    upper: Floats,
    integers: Any,
    seconds: float,
    gap: float = 0.0,
) -> SolverResult:
    """Least cost subject to ``least ≤ matrix · x ≤ most`` and ``lower ≤ x ≤ upper``.

    Args:
        cost: One number for each variable, shape (n,).
        matrix: Sparse, shape (rows, n).
        least: The right-hand sides from below, shape (rows,); ``-inf`` for none.
        most: Those from above, shape (rows,).
        lower: The bounds of the variables from below, shape (n,).
        upper: Those from above, shape (n,); ``inf`` for none.
        integers: Which variables are whole numbers, shape (n,).
        seconds: How long the solver may take.
        gap: How far, relatively, the objective may be from the best that there can be.

    Returns:
        The values and the bound that no solution passes; without values if the time was up before any was there.

    Raises:
        NoSolution: If nothing satisfies the rows.

    >>> cost, matrix, sides, bounds = np.ones(1), sparse.csr_array([[2.0]]), ([3.0], [9.0]), ([0.0], [9.0])
    >>> minimise(cost, matrix, *map(np.array, (*sides, *bounds)), [1], 5.0).values
    array([2.])
    """
    # Presolve can fail where the plain solver does not: a second try without it, before anything is called a failure.
    rows = optimize.LinearConstraint(matrix, least, most)
    for presolve in (True, False):
        outcome = optimize.milp(
            cost,
            constraints=rows if matrix.shape[0] else (),
            bounds=optimize.Bounds(lower, upper),
            integrality=np.asarray(integers, np.uint8),
            options={"time_limit": seconds, "presolve": presolve, "mip_rel_gap": gap},
        )
        if outcome.status in (OPTIMAL, LIMIT, INFEASIBLE):
            break
    if outcome.status == INFEASIBLE:
        raise NoSolution("no records have these tables")
    if outcome.status not in (OPTIMAL, LIMIT):
        raise RunError("solver-failed/treat", status=outcome.status)
    bound = outcome.get("mip_dual_bound")
    return SolverResult(
        "solved" if outcome.status == OPTIMAL else "time limit",
        outcome.x,
        float(outcome.fun) if outcome.x is not None else np.inf,
        float(bound) if bound is not None else -np.inf,
    )


def integer_solution(reduced: ReducedProgram, cost: Floats | None, seconds: float) -> Integers | None:
    """A value for each variable of a programme, in whole numbers and checked; ``None`` if the time was up before any.

    Without a cost, the first solution that is found.
    """
    values = reduced.lower.astype(np.int64)
    if reduced.determined:
        return values
    low, high = reduced.lower[reduced.free], reduced.upper[reduced.free]
    chosen = np.zeros(len(reduced.free)) if cost is None else cost[reduced.free]
    answer = minimise(
        chosen, reduced.matrix, reduced.least, reduced.most, low, high, np.ones(len(reduced.free)), seconds
    )
    if answer.values is None:
        return None
    values[reduced.free] = check_integers(answer.values, reduced)
    return values


def check_integers(solution: Floats, reduced: ReducedProgram) -> Integers:
    """The values of the free variables as whole numbers, if these satisfy every bound and every row exactly."""
    rounded = np.rint(solution)
    sums = reduced.matrix @ rounded
    ok = (
        bool(np.abs(solution - rounded).max(initial=0.0) < 1e-3)
        and bool((rounded >= reduced.lower[reduced.free]).all() and (rounded <= reduced.upper[reduced.free]).all())
        and bool((sums >= reduced.least).all() and (sums <= reduced.most).all())
    )
    if not ok:
        raise RunError("not-whole/solver")
    values: Integers = rounded.astype(np.int64)
    return values


# Whole counts whose figures are closest to given ones: a start for the walk over noisy figures, and a way to tell
# which tables contradict one another.
#
#     minimise  Σ over noisy figures of |row · x − target| / σ    subject to every exact figure, x whole and ≥ 0
#
# with σ the standard deviation of the figure's noise. Where noise has a bound, row · x keeps to what the figure
# allows.


GAP = 1e-3
"""A fit is good enough within a thousandth of the least deviation: noise decides more than that."""
LEAST_VARIANCE = 1e-6
"""Noise that is next to never there has a variance of next to nothing; a solver wants weights of one size."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Whole counts, and their weighted deviation."""

    values: Integers = field(repr=False)
    deviation: float
    status: Status


def standard_deviations(program: IntegerProgram) -> Floats:
    """For each noisy row the standard deviation of its noise."""
    variances = [item.marginal.variance for item in program.structure.layers]
    by_layer = np.array(
        [1.0 if variance is None else sqrt(max(float(variance), LEAST_VARIANCE)) for variance in variances]
    )
    folds = program.noisy.layer.astype(np.int64)
    deviations: Floats = by_layer[folds] if len(folds) else np.zeros(0)
    return deviations


def allowed(program: IntegerProgram) -> tuple[Floats, Floats]:
    """For each noisy row how far the truth can be above the figure, and how far below; infinite without a bound."""
    count = program.noisy.count
    above, below = np.full(len(count), np.inf), np.full(len(count), np.inf)
    for number, item in enumerate(program.structure.layers):
        bound = item.marginal.bound
        if bound is not None and item.fold is None:
            here = np.flatnonzero(program.noisy.layer == number)
            above[here] = np.maximum(bound.highest(count[here]) - count[here], 0.0)
            below[here] = np.maximum(count[here] - bound.lowest(count[here]), 0.0)
    return above, below


def fit(program: IntegerProgram, reduced: ReducedProgram, seconds: float, target: Floats | None = None) -> Fit | None:
    """The closest whole counts, by least absolute deviation.

    Args:
        program: The programme, with its noisy rows.
        reduced: What its exact rows leave open.
        seconds: How long the solver may take.
        target: What the noisy rows should come to, shape (rows,); None: their figures.

    Returns:
        The counts, shape (variables,), and their deviation from the target in standard deviations; ``None`` if the
        time was up before any was there.
    """
    weights = 1.0 / standard_deviations(program)
    above, below = allowed(program)
    count = program.noisy.count
    wanted = count if target is None else np.clip(target, count - below, count + above)
    reach = (count + above - wanted, wanted - (count - below))
    rows = replace(program.noisy, count=wanted)
    nothing = np.zeros(program.size)
    answer = closest(rows, weights, reach, reduced, nothing, seconds, integers=True)
    if answer.values is None:
        if reduced.matrix.shape[0]:
            return None
        answer = closest(rows, weights, reach, reduced, nothing, seconds, integers=False)
        if answer.values is None:
            return None
    values = np.rint(answer.values[: program.size]).astype(np.int64)
    return Fit(values, deviation(program, values, rows.count), answer.status)


def deviation(program: IntegerProgram, values: Integers, target: Floats | None = None) -> float:
    """How far the noisy rows of whole counts are from their figures, or a target, in standard deviations in all."""
    wanted = program.noisy.count if target is None else target
    return float(np.abs(program.noisy.matrix @ values - wanted) @ (1.0 / standard_deviations(program)))


def closest(
    noisy: ProgramRows,
    weights: Floats,
    reach: tuple[Floats, Floats],
    reduced: ReducedProgram,
    small: Floats,
    seconds: float,
    *,
    integers: bool,
) -> SolverResult:
    """Minimises the weighted absolute deviations of some rows, each within its reach above and below, subject to what
    is left of the exact ones."""
    size, rows, free = len(reduced.lower), noisy.matrix.shape[0], reduced.free
    # The exact rows that are left, over all variables again and not the free ones alone.
    columns_of_free = sparse.csr_array((np.ones(len(free)), (np.arange(len(free)), free)), (len(free), size))
    exact = reduced.matrix @ columns_of_free if len(free) else sparse.csr_array((reduced.matrix.shape[0], size))
    # |row · x − figure| is linear with two more variables for each noisy row, how far above and how far below:
    #     row · x − above + below = figure,   0 ≤ above, below ≤ reach,   cost weight · (above + below).
    unit = sparse.eye_array(rows, format="csr")
    matrix = sparse.vstack(
        [
            sparse.hstack([exact, sparse.csr_array((exact.shape[0], 2 * rows))]),
            sparse.hstack([noisy.matrix, -unit, unit]),
        ],
        format="csc",
    )
    return minimise(
        np.concatenate([small, weights, weights]),
        matrix,
        np.concatenate([reduced.least, noisy.count]),
        np.concatenate([reduced.most, noisy.count]),
        np.concatenate([reduced.lower, np.zeros(2 * rows)]),
        np.concatenate([reduced.upper, *reach]),
        np.concatenate([np.full(size, integers), np.zeros(2 * rows, bool)]),
        seconds,
        GAP,
    )
