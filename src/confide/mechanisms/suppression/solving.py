"""Linear and integer programmes over equations, solved by HiGHS: one call, one way to fail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from confide.errors import NOWHERE, ConfideError, Finding, InputError, Place
from confide.mechanisms.suppression.structure import Integers

Floats = npt.NDArray[np.float64]

SOLVED, LIMIT, INFEASIBLE = 0, 1, 2


class DoesNotAddUpError(InputError):
    """No figures could stand in these hidden cells, which hang together. ``where`` names one of them."""

    def __init__(self, cells: Integers, where: Place = NOWHERE):
        self.cells = cells
        finding = Finding(
            code="does-not-add-up",
            what="no figures could stand in the hidden cells: with these published cells the table does not add up",
            where=where,
            found=f"{len(cells):,} hidden cells that hang together"
            + (", this one among them" if where != NOWHERE else ""),
            expected="published cells that fit their totals, and bounds that the true figures keep",
            remedy="correct the table, its hierarchies, or the bounds that the attacker is said to know",
        )
        super().__init__(finding)


@dataclass(frozen=True, eq=False)
class Solved:
    """A solution; ``bound`` is what no solution can be below, equal to the cost unless a limit was met."""

    values: Floats
    cost: float
    bound: float


def minimise(
    cost: Floats,
    matrix: sparse.csr_array | sparse.csc_array,
    rhs: Floats | tuple[Floats, Floats],
    low: Floats,
    high: Floats,
    *,
    integer: bool = False,
    seconds: float | None = None,
) -> Solved | None:
    """The cheapest values between ``low`` and ``high`` with matrix · values = rhs (or between two sides); None if there
    are none, or if none were found in time. A problem without a least cost is the caller's mistake."""
    lower, upper = rhs if isinstance(rhs, tuple) else (rhs, rhs)
    rows = [optimize.LinearConstraint(matrix, lower, upper)] if matrix.shape[0] else []
    # The solver's own default would call a solution the best that is within 0.01 % of it.
    options = {"disp": False, "mip_rel_gap": 0.0} | ({} if seconds is None else {"time_limit": seconds})
    found = optimize.milp(
        cost,
        integrality=np.ones(len(cost)) if integer else None,
        bounds=optimize.Bounds(low, high),
        constraints=rows,
        options=options,
    )
    if found.status == INFEASIBLE or (found.x is None and found.status == LIMIT):
        return None
    if found.x is None:
        raise ConfideError(
            "solver-failed",
            "the solver could not finish a linear programme",
            found=f"status {found.status}",
            expected="an optimal solution",
            remedy="scale the figures of the table to a smaller range, and report it if that does not help",
        )
    bound = found.fun if found.mip_dual_bound is None else found.mip_dual_bound
    return Solved(np.asarray(found.x), float(found.fun), float(bound))


def is_whole(values: Floats, tolerance: float = 1e-6) -> bool:
    """Whether all values are whole numbers, up to the solver's precision."""
    return bool((np.abs(values - np.rint(values)) <= tolerance).all())
