"""Problems with side rows: the sparse interior point method of PIQP, on the deviation from a reference point.

Every measured group of every child becomes a variable of its own, ``z = M x``, which keeps the Hessian diagonal and the
system sparse. Counts are large and deviations small, and an interior point method stops at errors that are small in
comparison with what it is given: so it is given the deviation from a point near the measurements.
Reference: Schwan, Jiang, Kuhn and Jones (2023), PIQP: a proximal interior-point quadratic programming solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import piqp
import scipy.sparse as sp

from confide.estimation.prepare import Point, Prepared
from confide.estimation.problem import Floats, Integers

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class _Margins:
    """Measured groups with at least one variable: as equations ``M d - z = 0``."""

    row: Integers
    variable: Integers
    weight: Floats
    residual: Floats


def _margins(prepared: Prepared, reference: Floats, number: Integers) -> _Margins:
    """The margins, over the free variables as numbered."""
    hessian, units = prepared.hessian, prepared.problem.units
    group, cell = (hessian.coarse @ hessian.stack).tocoo().coords
    pair = np.repeat(np.arange(len(group)), units)
    child = np.tile(np.arange(units), len(group))
    variable = number[cell[pair], child]
    row = group[pair] * units + child
    used = (variable >= 0) & (hessian.weights.ravel()[row] > 0)
    row, variable = row[used], variable[used]
    kept, row = np.unique(row, return_inverse=True)
    residual = (hessian.measured - hessian.margins(reference)).ravel()[kept]
    return _Margins(row, variable, hessian.weights.ravel()[kept], residual)


def _matrix(parts: list[tuple[Integers, Integers, Floats]], shape: tuple[int, int]) -> sp.csc_matrix:
    row, column, value = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return sp.csc_matrix((value, (row, column)), shape=shape)


def interior_point(prepared: Prepared, reference: Floats, steps: int = 250) -> Point:
    """Solves the problem with PIQP. The result is checked by the caller."""
    rows, hessian, free = prepared.rows, prepared.hessian, prepared.free
    number = np.full(free.shape, -1, np.int64)
    number.T[free.T] = np.arange(int(free.sum()))
    count = int(free.sum())
    margins = _margins(prepared, reference, number)
    extra = len(margins.weight)
    weights = np.concatenate([_ordered(hessian.diagonal, prepared), margins.weight])
    unit = float(weights.max(initial=0.0)) or 1.0
    wanted = np.concatenate([_ordered(hessian.centre - reference, prepared), margins.residual])
    curvature = sp.diags_array(2.0 * weights / unit, format="csc")
    linear = -2.0 * weights / unit * wanted

    ones = np.ones(count)
    parts = [(margins.row, margins.variable, np.ones(len(margins.row)))]
    parts.append((np.arange(extra), count + np.arange(extra), -np.ones(extra)))
    right, height = [np.zeros(extra)], extra
    if prepared.sums is not None:
        block = np.broadcast_to(np.arange(prepared.sums.size).reshape(prepared.sums.shape), free.shape)
        present, block_row = np.unique(_ordered(block, prepared), return_inverse=True)
        parts.append((block_row + height, np.arange(count), ones))
        right.append((prepared.sums - reference.sum(prepared.axis, keepdims=True)).ravel()[present])
        height += len(present)
    equal = rows.low == rows.high
    variable = number.ravel()[rows.variable]
    place = np.where(equal, np.cumsum(equal) - 1 + height, np.cumsum(~equal) - 1)
    at = rows.sums(reference)
    inside = equal[rows.row]
    parts.append((place[rows.row[inside]], variable[inside], np.ones(int(inside.sum()))))
    right.append((rows.low - at)[equal])
    height += int(equal.sum())
    equations = _matrix(parts, (height, count + extra))

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
