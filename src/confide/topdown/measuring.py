"""Truth plus noise in the children of one parent: the one place of the mechanism where they meet.

Only what can influence the estimate is measured (lazily): a cell that the parent's estimate has as zero is zero in
every child, so its noisy count is never looked at, and neither are the groups of a query that have no other cells.
Which these are depends on estimates alone, that is, on measurements already made; and noise is a function of the key
and the coordinate (unit, cell), so what is drawn is what the full set of measurements would have had. The law of the
result is the same. A group that is measured is measured whole: the true count takes in the cells that the parent has as
zero. Proof: ``docs/proofs/topdown.md``, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confide.confidential import Confidential
from confide.estimation.problem import MeasuredQuery
from confide.noise import Law, NoiseStream, draw_at

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrueCounts:
    """The non-zero true counts of some units: position of the unit, cell of the histogram, count."""

    position: Integers
    cell: Integers
    count: Integers


@dataclass(frozen=True, eq=False)
class AskedQuery:
    """A query of one geolevel: its groups of histogram cells, its noise stream, and its law for each class of shares.

    ``laws[k]`` is the noise in units of share class k; None where such units are not measured.
    """

    name: str
    groups: Integers
    cells: int
    stream: NoiseStream
    laws: tuple[Law | None, ...]


def measure(
    truth: Confidential[TrueCounts],
    asked: Sequence[AskedQuery],
    units: Integers,
    share_class: Integers,
    kept: Integers,
) -> tuple[MeasuredQuery, ...]:
    """The measurements of ``units``, for the histogram cells ``kept``. Group ids are numbered anew for what is kept."""
    counts = truth.reveal("true counts meet their noise here")
    return tuple(_measure_query(counts, query, units, share_class, kept) for query in asked)


def _spread(law: Law) -> float:
    """What a measurement is weighted by: the variance of its noise. Below 1 the variance falls off a cliff, to nothing
    at all for very small parameters, and the parameter itself orders the measurements just as well."""
    return law.variance() if law.parameter >= 1 else float(law.parameter)


def _measure_query(
    truth: TrueCounts, query: AskedQuery, units: Integers, share_class: Integers, kept: Integers
) -> MeasuredQuery:
    groups, local = np.unique(query.groups[kept], return_inverse=True)
    number = np.full(query.cells, -1, np.int64)
    number[groups] = np.arange(len(groups))
    of_row = number[query.groups[truth.cell]]
    read = of_row >= 0
    values = np.zeros((len(groups), len(units)), np.int64)
    np.add.at(values, (of_row[read], truth.position[read]), truth.count[read])
    weights = np.zeros(len(units))
    for number_of_class, law in enumerate(query.laws):
        chosen = np.flatnonzero(share_class == number_of_class)
        if law is None or not len(chosen):
            continue
        coordinates = groups[:, None] + units[chosen] * query.cells
        noise = draw_at(law, query.stream, coordinates.ravel())
        values[:, chosen] += noise.reshape(coordinates.shape)
        weights[chosen] = 1 / _spread(law)
    # What was not measured stays true and must not go on.
    values[:, weights == 0] = 0
    return MeasuredQuery(query.name, local.reshape(-1).astype(np.int64), values.astype(np.float64), weights)
