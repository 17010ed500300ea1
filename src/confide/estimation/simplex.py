"""Projections on simplices, many at once."""

from __future__ import annotations

import numpy as np

from confide.estimation.problem import Booleans, Floats


def project(v: Floats, free: Booleans, sums: Floats | None, axis: int) -> Floats:
    """The nearest point with ``x >= 0``, ``x = 0`` where not ``free``, and ``sum of x along the axis = sums``.

    It is ``max(v - t, 0)`` with one t for each block, found by sorting: the k largest terms are positive for the
    largest k with ``k v_(k) > v_(1) + ... + v_(k) - sum`` (Held, Wolfe and Crowder 1974). Without ``sums`` only signs
    are mended.
    """
    if sums is None:
        return np.where(free, np.maximum(v, 0.0), 0.0)
    masked = np.where(free, v, -np.inf)
    if not masked.size:
        return np.zeros(masked.shape)
    falling = np.flip(np.sort(masked, axis), axis)
    excess = np.cumsum(falling, axis) - sums
    rank = np.arange(1, masked.shape[axis] + 1)
    rank = rank if axis == 1 else rank[:, None]
    positive = (falling * rank > excess) & np.isfinite(falling)
    number = positive.sum(axis, keepdims=True)
    at = np.take_along_axis(excess, np.maximum(number - 1, 0), axis)
    t = np.where(number > 0, at / np.maximum(number, 1), 0.0)
    return np.asarray(np.maximum(masked - t, 0.0))
