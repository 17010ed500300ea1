"""True counts, cell keys, weights and values of every cross-classification of a programme. Confidential.

The records are read once, as numbers of levels, a batch at a time. For every table that is in no other, each batch is
counted into the occupied cells; all other cross-classifications are sums of these. Cell keys are sums of record keys
modulo the number of keys, which may be taken part by part. On a geolevel a cell is one of a unit: an area's cell has
the sum of the keys of its own records, whatever table, level or release it stands in.

A recode may leave levels out: cells of that recode then have nobody of them, while margins that sum over it have
everybody. A cross-classification is therefore summed from a larger one only if that leaves out nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from confide.arrays import Integers
from confide.geography.spine import OUTSIDE
from confide.mechanisms.cellkey.keys import CellSums, nobody, of_records
from confide.mechanisms.cellkey.lookups import Lookup
from confide.mechanisms.cellkey.magnitudes import MagnitudeNoise
from confide.mechanisms.cellkey.programme import CellKeyProblem, Counted
from confide.mechanisms.cellkey.spec import WEIGHT_UNIT
from confide.schema import NO_GROUP, Query

BATCH = 1 << 20
"""Records at a time: key sums of a batch stay below 2**53, where floating-point sums of whole numbers are exact."""

KEY, WEIGHT, VALUE, BLOCK = "record/key", "record/weight", "record/value", "record/block"
"""Columns of ours: no attribute has a name with such a sign."""


def count_cells(problem: CellKeyProblem, coded: Path) -> Iterator[tuple[Counted, CellSums]]:
    """The sums of every distinct cross-classification, larger ones first. ``coded`` is the file of coded records."""
    keys, top = problem.modulus, None if problem.magnitude is None else problem.magnitude.top
    order = list(problem.counted())
    direct = [counted for counted in order if counted.larger is None or not _same_people(counted.query, counted.larger)]
    weighted = problem.spec.data.weight is not None and problem.magnitude is None
    sums = {counted.name: nobody(weighted=weighted, top=top) for counted in direct}
    for batch in pq.ParquetFile(coded).iter_batches(batch_size=BATCH):
        columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
        for counted in direct:
            units = None if counted.level is None else problem.unit_of_block[counted.level.name][columns[BLOCK]]
            more = count_records(counted.query, columns, units, counted.cells, top or 0)
            sums[counted.name] = sums[counted.name].plus(more, keys)
    of_level: dict[tuple[str | None, str], CellSums] = {}
    for counted in order:
        level = None if counted.level is None else counted.level.name
        if counted.name not in sums:
            assert counted.larger is not None
            larger = of_level[level, counted.larger.name]
            sums[counted.name] = larger.summed(counted.larger, counted.query, keys)
        of_level[level, counted.query.name] = sums[counted.name]
        yield counted, sums[counted.name]


def _same_people(query: Query, larger: Query) -> bool:
    """Whether the variables that are summed over leave nobody out."""
    names = {variable.name for variable in query.variables}
    return all((v.assignment != NO_GROUP).all() for v in larger.variables if v.name not in names)


def count_records(
    query: Query, columns: Mapping[str, Integers], units: Integers | None, cells: int, top: int = 0
) -> CellSums:
    """The sums of a batch of records, by cell of a query and, with ``units``, by the unit that each record lies in."""
    index: Integers = np.zeros(len(columns[KEY]), np.int64) if units is None else units
    inside: npt.NDArray[np.bool_] | None = None if units is None else units != OUTSIDE
    for variable in query.variables:
        group = variable.assignment[columns[variable.attribute.name]]
        if (variable.assignment == NO_GROUP).any():
            inside = (group != NO_GROUP) if inside is None else inside & (group != NO_GROUP)
        index = index * variable.size + group
    at = slice(None) if inside is None else np.flatnonzero(inside)
    weight, value = (columns[name][at] if name in columns else None for name in (WEIGHT, VALUE))
    return of_records(index[at], columns[KEY][at], weight, value, cells, top)


# True counts to published ones: the noise that a cell's key finds in the perturbation table.
#
#     published = n + v(n, key),   nothing for n = 0,   0 below a threshold
#
# Counts are looked up unweighted. A weighted figure is the published count times the mean weight of the cell's
# members (n + v) · W / n, in multiples of a step that is coarse enough for every count within D of the published one
# (``spec.weighted_step``).


@dataclass(frozen=True, eq=False)
class PerturbedFigures:
    """What is published of a cross-classification: no true count, key or noise. Cells that are not listed are zero."""

    cell: Integers
    figure: Integers
    """Counts; of magnitude tables values, in whole numbers of their last decimal."""
    weighted: Integers | None = None
    """In millionths."""

    def listed(self) -> PerturbedFigures:
        """The cells whose figure is not zero."""
        at = np.flatnonzero(self.figure)
        return PerturbedFigures(self.cell[at], self.figure[at], None if self.weighted is None else self.weighted[at])


def perturb(sums: CellSums, lookup: Lookup, threshold: int | None, step: int) -> PerturbedFigures:
    """The published figures of every cell.

    Args:
        sums: Members, keys and weights of every cell of a cross-classification.
        lookup: The perturbation table.
        threshold: What comes out below this is published as zero; None: nothing is.
        step: Weighted figures are multiples of so many millionths.

    Returns:
        One figure for each cell, in the same order.
    """
    occupied = np.flatnonzero(sums.count)
    published = np.zeros_like(sums.count)
    members = sums.count[occupied]
    published[occupied] = members + lookup.lookup(members, sums.key[occupied])
    if threshold is not None:
        published[published < threshold] = 0
    if sums.weight is None:
        return PerturbedFigures(sums.cell, published)
    weighted = np.zeros_like(published)
    weighted[occupied] = in_steps(scaled(published[occupied], sums.weight[occupied], members), step)
    return PerturbedFigures(sums.cell, published, weighted)


def perturb_cells(problem: CellKeyProblem, sums: CellSums) -> PerturbedFigures:
    """The published figures of every cell of a problem: counts, or values."""
    if problem.magnitude is None:
        return perturb(sums, problem.lookup, problem.spec.cellkey.threshold, problem.weighted_step)
    return PerturbedFigures(sums.cell, problem.magnitude.perturb(sums, value_scale(problem, problem.magnitude)))


def in_steps(figures: Integers, step: int) -> Integers:
    """Figures to the nearest multiple of a step; halfway upwards.

    >>> in_steps(np.array([0, 2, 3, 7, 8]), 5).tolist()
    [0, 0, 5, 5, 10]
    """
    nearest: Integers = (2 * figures + step) // (2 * step) * step
    return nearest


def value_scale(problem: CellKeyProblem, magnitude: MagnitudeNoise) -> int:
    """How many units of the added values are one: decimals, and millionths where they are weighted."""
    return magnitude.unit * (WEIGHT_UNIT if problem.spec.data.weight is not None else 1)


def scaled(published: Integers, weight: Integers, members: Integers) -> Integers:
    """published · weight / members to the nearest whole number, without leaving whole numbers."""
    quotient, remainder = np.divmod(weight, members)
    halves = (2 * remainder * published + members) // (2 * members)
    result: Integers = published * quotient + halves
    return result
