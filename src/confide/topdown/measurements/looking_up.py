"""One level of the descent from measurements that are looked up: nothing is drawn, nothing is true.

The lookup gives, for the cells that a parent keeps, the very arrays that measuring would give
(:func:`confide.topdown.measuring.measure`); what happens to them is the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confide.estimation.problem import MeasuredQuery
from confide.topdown.levels import EstimateGroup, Kind, NodeRows

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KnownQuery:
    """A query of one geolevel and its groups of histogram cells."""

    name: str
    groups: Integers


@dataclass(frozen=True, eq=False)
class EstimateMeasured(EstimateGroup):
    """Looks the measurements of the children up and estimates them."""

    queries: tuple[KnownQuery, ...]

    def measured(self, rows: pa.Table, nodes: Sequence[NodeRows]) -> Iterable[tuple[MeasuredQuery, ...]]:
        chosen = rows.filter(pc.equal(rows.column("kind"), int(Kind.MEASURED)))
        found = LookUp(self.queries, *(chosen.column(name) for name in ("unit", "cell", "n", "value")))
        return (found.of(node.units, node.kept) for node in nodes)


class LookUp:
    """Measured values by unit and query."""

    def __init__(
        self,
        queries: Sequence[KnownQuery],
        unit: pa.ChunkedArray,
        query: pa.ChunkedArray,
        bits: pa.ChunkedArray,
        values: pa.ChunkedArray,
    ):
        self._queries = queries
        keys = unit.to_numpy() * len(queries) + query.to_numpy()
        order = np.argsort(keys)
        listed = values.combine_chunks()
        sizes = pc.list_value_length(listed).to_numpy()
        self._keys = keys[order]
        self._start = (np.cumsum(sizes) - sizes)[order]
        self._weight = 1 / bits.to_numpy()[order].view(np.float64)
        self._flat = listed.flatten().to_numpy()

    def of(self, units: Integers, kept: Integers) -> tuple[MeasuredQuery, ...]:
        """Every query in these units, on the cells kept; a unit that was not measured has weight zero."""
        return tuple(self._one(number, query, units, kept) for number, query in enumerate(self._queries))

    def _one(self, number: int, query: KnownQuery, units: Integers, kept: Integers) -> MeasuredQuery:
        measured, local = np.unique(query.groups[kept], return_inverse=True)
        values, weights = np.zeros((len(measured), len(units))), np.zeros(len(units))
        keys = units * len(self._queries) + number
        place = np.searchsorted(self._keys, keys)
        there = np.flatnonzero(place < len(self._keys))
        there = there[self._keys[place[there]] == keys[there]]
        values[:, there] = self._flat[self._start[place[there]] + measured[:, None]]
        weights[there] = self._weight[place[there]]
        return MeasuredQuery(query.name, local.reshape(-1), values, weights)
