"""True counts, cell keys and weights of every cross-classification of a programme. Confidential.

The records are read once, as numbers of levels, a batch at a time. For every table that is in no other, each batch is
counted into a dense array; all other cross-classifications are sums of these. Cell keys are sums of record keys modulo
the number of keys, which may be taken part by part.

A recode may leave levels out: cells of that recode then have nobody of them, while margins that sum over it have
everybody. A cross-classification is therefore summed from a larger one only if that leaves out nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from confide.mechanisms.cellkey.keys import added
from confide.mechanisms.cellkey.lookups import Lookup
from confide.mechanisms.cellkey.programme import CellKeyQuestion
from confide.schema import NO_GROUP, Query

Integers = npt.NDArray[np.int64]

BATCH = 1 << 20
"""Records at a time: key sums of a batch stay below 2**53, where floating-point sums of whole numbers are exact."""

KEY, WEIGHT = "record key", "record weight"
WEIGHT_UNIT = 10**6
"""Weights are whole numbers of millionths."""


@dataclass(frozen=True, eq=False)
class CellSums:
    """The members of every cell of a cross-classification: how many, their keys summed, their weights summed."""

    count: Integers = field(repr=False)
    key: Integers = field(repr=False)
    weight: Integers | None = field(repr=False)

    def plus(self, other: CellSums, keys: int) -> CellSums:
        """The sums of two disjoint sets of records."""
        weight = None if self.weight is None or other.weight is None else self.weight + other.weight
        return CellSums(self.count + other.count, added(self.key, other.key, keys), weight)

    def summed(self, larger: Query, query: Query, keys: int) -> CellSums:
        """The sums of ``query`` out of those of a larger cross-classification."""
        kept = {variable.name for variable in query.variables}
        gone = tuple(at for at, variable in enumerate(larger.variables) if variable.name not in kept)
        parts = [
            None if each is None else each.reshape(larger.shape or (1,)).sum(axis=gone).reshape(-1)
            for each in (self.count, self.key, self.weight)
        ]
        count, key, weight = parts
        assert count is not None
        assert key is not None
        return CellSums(count, key % keys, weight)


def count_cells(question: CellKeyQuestion, coded: Path) -> Iterator[tuple[Query, CellSums]]:
    """The sums of every distinct cross-classification, larger ones first. ``coded`` is the file of coded records."""
    keys = question.lookup.whole
    order = [
        (query, larger if larger and _same_people(query, larger) else None) for query, larger in question.counted()
    ]
    direct = [query for query, larger in order if larger is None]
    sums: dict[str, CellSums] = {
        query.name: _nobody(query, weighted=bool(question.spec.data.weight)) for query in direct
    }
    for batch in pq.ParquetFile(coded).iter_batches(batch_size=BATCH):
        columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
        for query in direct:
            sums[query.name] = sums[query.name].plus(_count(query, columns), keys)
    for query, larger in order:
        if larger is not None:
            sums[query.name] = sums[larger.name].summed(larger, query, keys)
        yield query, sums[query.name]


def _same_people(query: Query, larger: Query) -> bool:
    """Whether the variables that are summed over leave nobody out."""
    kept = {variable.name for variable in query.variables}
    return all((v.assignment != NO_GROUP).all() for v in larger.variables if v.name not in kept)


def _nobody(query: Query, *, weighted: bool) -> CellSums:
    zeros = np.zeros(query.cells, np.int64)
    return CellSums(zeros, zeros, zeros if weighted else None)


def _count(query: Query, columns: Mapping[str, Integers]) -> CellSums:
    index: Integers = np.zeros(len(columns[KEY]), np.int64)
    inside: npt.NDArray[np.bool_] | None = None
    for variable in query.variables:
        group = variable.assignment[columns[variable.attribute.name]]
        if (variable.assignment == NO_GROUP).any():
            inside = (group != NO_GROUP) if inside is None else inside & (group != NO_GROUP)
        index = index * variable.size + group
    at = slice(None) if inside is None else np.flatnonzero(inside)
    index = index[at]
    count = np.bincount(index, minlength=query.cells)
    key = np.bincount(index, columns[KEY][at], query.cells).astype(np.int64)
    weight = None
    if WEIGHT in columns:
        weight = np.zeros(query.cells, np.int64)
        np.add.at(weight, index, columns[WEIGHT][at])
    return CellSums(count.astype(np.int64), key, weight)


def coded_schema(question: CellKeyQuestion) -> pa.Schema:
    """The columns of the file of coded records."""
    names = [attribute.name for attribute in question.attributes]
    weight = [(WEIGHT, pa.int64())] if question.spec.data.weight else []
    return pa.schema([*((name, pa.int64()) for name in names), (KEY, pa.int64()), *weight])


# True counts to published ones: the noise that a cell's key finds in the perturbation table.
#
#     published = n + v(n, key),   nothing for n = 0,   0 below a threshold
#
# Counts are looked up unweighted. A weighted figure is the published count times the mean weight of the cell's
# members (n + v) · W / n, rounded to millionths.


@dataclass(frozen=True, eq=False)
class PerturbedFigures:
    """What is published of a cross-classification: no true count, key or noise."""

    count: Integers
    weighted: Integers | None
    """In millionths."""


def perturb(sums: CellSums, lookup: Lookup, threshold: int | None) -> PerturbedFigures:
    """The published figures of every cell."""
    occupied = np.flatnonzero(sums.count)
    published = np.zeros_like(sums.count)
    members = sums.count[occupied]
    published[occupied] = members + lookup.lookup(members, sums.key[occupied])
    if threshold is not None:
        published[published < threshold] = 0
    if sums.weight is None:
        return PerturbedFigures(published, None)
    weighted = np.zeros_like(published)
    weighted[occupied] = _scaled(published[occupied], sums.weight[occupied], members)
    return PerturbedFigures(published, weighted)


def _scaled(published: Integers, weight: Integers, members: Integers) -> Integers:
    """published · weight / members to the nearest whole number, without leaving whole numbers."""
    whole, rest = np.divmod(weight, members)
    halves = (2 * rest * published + members) // (2 * members)
    scaled: Integers = published * whole + halves
    return scaled
