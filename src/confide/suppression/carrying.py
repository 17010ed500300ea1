"""Bounds carried through equations: what each leaves to one cell, given the bounds of the others."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from confide.suppression.solving import Floats

SWEEPS = 200
"""How often all equations are gone through at most."""


def carry(matrix: sparse.csr_array, rhs: Floats, low: Floats, high: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Bounds that follow equation by equation: from each, the range that the other cells leave to one.

    It holds for every solution, and costs nothing; the interval of the programme can be smaller.
    """
    low, high = low.astype(np.float64).copy(), high.astype(np.float64).copy()
    if not matrix.shape[0]:
        return low, high
    entries = sparse.coo_array(matrix)
    row, cell = entries.coords
    sign = entries.data
    size = matrix.shape[0]
    for _ in range(SWEEPS):
        # The range of each term, and of each equation; ends without a bound are counted, not added.
        least = np.where(sign > 0, low[cell], -high[cell])
        most = np.where(sign > 0, high[cell], -low[cell])
        new_low, new_high = low.copy(), high.copy()
        for terms, upwards in ((least, True), (most, False)):
            endless = np.isinf(terms)
            finite = np.where(endless, 0.0, terms)
            number = np.bincount(row, endless, size)
            total = np.bincount(row, finite, size)
            others_known = number[row] - endless == 0
            rest = rhs[row] - (total[row] - finite)
            bound = np.where(others_known, rest, np.inf if upwards else -np.inf)
            # bound limits sign * y from above (upwards) or from below.
            up, down = (sign > 0) == upwards, (sign > 0) != upwards
            np.minimum.at(new_high, cell[up], bound[up] * sign[up])
            np.maximum.at(new_low, cell[down], bound[down] * sign[down])
        moved = (new_high < high - tolerance) | (new_low > low + tolerance)
        low, high = np.maximum(low, new_low), np.minimum(high, new_high)
        if not moved.any():
            break
    return low, np.maximum(high, low)
