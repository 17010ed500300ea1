"""Noisy tables: records whose tables are closest to the published ones, by least absolute deviation.

    minimise  Σ over noisy figures of |row · x − figure| / σ    subject to every exact figure, x whole and ≥ 0

with σ the standard deviation of the figure's noise. Where noise has a bound, row · x keeps to what the figure allows.
For noise with a two-sided geometric law this is the most likely histogram; for Gaussian noise it is a robust stand-in.
It is a fit and not a reconstruction: many histograms fit about as well, and nothing is claimed of uniqueness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from scipy import sparse

from confide.attacks.reconstruction.marginals import Floats, Integers
from confide.attacks.reconstruction.programme import Programme, Rows
from confide.attacks.reconstruction.propagation import Reduced
from confide.attacks.reconstruction.solving import Answer, Status, minimise

GAP = 1e-3
"""A fit is good enough within a thousandth of the least deviation: noise decides more than that."""
LEAST_VARIANCE = 1e-6
"""Noise that is next to never there has a variance of next to nothing; a solver wants weights of one size."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Whole counts, their weighted deviation, and the deviation that no counts can go below."""

    values: Integers = field(repr=False)
    deviation: float
    at_least: float
    status: Status


def standard_deviations(made: Programme) -> Floats:
    """For each noisy row the standard deviation of its noise."""
    variances = [item.marginal.variance for item in made.structure.layers]
    by_layer = np.array(
        [1.0 if variance is None else sqrt(max(float(variance), LEAST_VARIANCE)) for variance in variances]
    )
    folds = made.noisy.layer.astype(np.int64)
    found: Floats = by_layer[folds] if len(folds) else np.zeros(0)
    return found


def allowed(made: Programme) -> tuple[Floats, Floats]:
    """For each noisy row how far the truth can be above the figure, and how far below; infinite without a bound."""
    count = made.noisy.count
    above, below = np.full(len(count), np.inf), np.full(len(count), np.inf)
    for number, item in enumerate(made.structure.layers):
        bound = item.marginal.bound
        if bound is not None and item.fold is None:
            here = np.flatnonzero(made.noisy.layer == number)
            above[here] = np.maximum(bound.highest(count[here]) - count[here], 0.0)
            below[here] = np.maximum(count[here] - bound.lowest(count[here]), 0.0)
    return above, below


def fit(made: Programme, left: Reduced, seconds: float, cost: Floats | None = None) -> Fit | None:
    """The closest whole counts; ``None`` if the time was up before any was found.

    ``cost`` prefers some cells a little to others among fits that are as close.
    """
    weights = 1.0 / standard_deviations(made)
    reach = allowed(made)
    small = np.zeros(made.size) if cost is None else cost * (1e-4 * weights.min(initial=1.0))
    answer = closest(made.noisy, weights, reach, left, small, seconds, whole=True)
    if answer.values is None:
        if left.matrix.shape[0]:
            return None
        answer = closest(made.noisy, weights, reach, left, small, seconds, whole=False)
        if answer.values is None:
            return None
    values = np.rint(answer.values[: made.size]).astype(np.int64)
    deviation = float(weights @ np.abs(made.noisy.matrix @ values - made.noisy.count))
    return Fit(values, deviation, min(deviation, max(0.0, answer.bound)), answer.status)


def closest(
    noisy: Rows,
    weights: Floats,
    reach: tuple[Floats, Floats],
    left: Reduced,
    small: Floats,
    seconds: float,
    *,
    whole: bool,
) -> Answer:
    """Minimises the weighted absolute deviations of some rows, each within its reach above and below, subject to what
    is left of the exact ones."""
    size, rows = len(left.lower), noisy.matrix.shape[0]
    spread = sparse.csr_array((np.ones(len(left.free)), (np.arange(len(left.free)), left.free)), (len(left.free), size))
    kept = left.matrix @ spread if len(left.free) else sparse.csr_array((left.matrix.shape[0], size))
    unit = sparse.eye_array(rows, format="csr")
    matrix = sparse.vstack(
        [
            sparse.hstack([kept, sparse.csr_array((kept.shape[0], 2 * rows))]),
            sparse.hstack([noisy.matrix, -unit, unit]),
        ],
        format="csc",
    )
    return minimise(
        np.concatenate([small, weights, weights]),
        matrix,
        np.concatenate([left.least, noisy.count]),
        np.concatenate([left.most, noisy.count]),
        np.concatenate([left.lower, np.zeros(2 * rows)]),
        np.concatenate([left.upper, *reach]),
        np.concatenate([np.full(size, whole), np.zeros(2 * rows, bool)]),
        seconds,
        GAP,
    )
