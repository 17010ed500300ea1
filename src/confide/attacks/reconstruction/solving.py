"""HiGHS, as SciPy brings it, asked for whole solutions; every answer is checked again in whole numbers.

A solver works with a tolerance. What it calls a solution is rounded to whole numbers and put into every row; only if
all hold exactly is it one. Nothing is accepted in silence: an answer is *solved*, *infeasible*, or found when the time
was up, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import optimize

from confide.attacks.reconstruction.marginals import Floats, Integers
from confide.attacks.reconstruction.programme import NoSolution
from confide.attacks.reconstruction.propagation import Reduced
from confide.errors import Finding, RunError

Status = Literal["solved", "time limit"]

OPTIMAL, LIMIT, INFEASIBLE = 0, 1, 2
DEFAULT_TIME = 10.0
"""Seconds for one programme."""


@dataclass(frozen=True, eq=False)
class Answer:
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
    whole: Any,
    seconds: float,
    gap: float = 0.0,
) -> Answer:
    """Least cost subject to ``least ≤ matrix · x ≤ most`` and bounds; ``whole`` marks variables that are integers.

    :raises NoSolution: if nothing satisfies the rows.
    """
    rows = optimize.LinearConstraint(matrix, least, most)
    for presolve in (True, False):
        found = optimize.milp(
            cost,
            constraints=rows if matrix.shape[0] else (),
            bounds=optimize.Bounds(lower, upper),
            integrality=np.asarray(whole, np.uint8),
            options={"time_limit": seconds, "presolve": presolve, "mip_rel_gap": gap},
        )
        if found.status in (OPTIMAL, LIMIT, INFEASIBLE):
            break
    if found.status == INFEASIBLE:
        raise NoSolution("no records have these tables")
    if found.status not in (OPTIMAL, LIMIT):
        raise RunError(
            Finding(
                code="solver-failed",
                what="the solver could not treat a programme",
                found=f"HiGHS status {found.status}",
                expected="a solution, a proof that there is none, or the end of the time allowed",
                remedy="report it, with the tables if they are public",
            )
        )
    bound = found.get("mip_dual_bound")
    return Answer(
        "solved" if found.status == OPTIMAL else "time limit",
        found.x,
        float(found.fun) if found.x is not None else np.inf,
        float(bound) if bound is not None else -np.inf,
    )


def whole_solution(left: Reduced, cost: Floats | None, seconds: float) -> Integers | None:
    """A value for each variable of a programme, in whole numbers and checked; ``None`` if the time was up before any.

    Without a cost, the first solution that is found.
    """
    values = left.lower.astype(np.int64)
    if left.determined:
        return values
    low, high = left.lower[left.free], left.upper[left.free]
    chosen = np.zeros(len(left.free)) if cost is None else cost[left.free]
    answer = minimise(chosen, left.matrix, left.least, left.most, low, high, np.ones(len(left.free)), seconds)
    if answer.values is None:
        return None
    values[left.free] = check_whole(answer.values, left)
    return values


def check_whole(found: Floats, left: Reduced) -> Integers:
    """The values of the free variables as whole numbers, if these satisfy every bound and every row exactly."""
    whole = np.rint(found)
    sums = left.matrix @ whole
    ok = (
        bool(np.abs(found - whole).max(initial=0.0) < 1e-3)
        and bool((whole >= left.lower[left.free]).all() and (whole <= left.upper[left.free]).all())
        and bool((sums >= left.least).all() and (sums <= left.most).all())
    )
    if not ok:
        raise RunError(
            Finding(
                code="not-whole",
                what="the solver's answer is not a solution in whole numbers",
                found="a row that does not hold after rounding",
                expected="every row to hold exactly",
                remedy="report it, with the tables if they are public",
            )
        )
    values: Integers = whole.astype(np.int64)
    return values
