"""Truth plus noise in the children of some parents: the one place of the mechanism where they meet.

Only what can influence the estimate is measured (lazily): a cell that the parent's estimate has as zero is zero in
every child, so its noisy count is never looked at, and neither are the groups of a query that have no other cells.
Which these are depends on estimates alone, that is, on measurements already made; and noise is a function of the key
and the coordinate (unit, cell), so what is drawn is what the full set of measurements would have had. The law of the
result is the same. A group that is measured is measured whole: the true count takes in the cells that the parent has as
zero. Proof: ``docs/proofs/topdown.md``, section 3.

Many parents are measured at once because a call for noise costs more than a draw: there is one for each query and law.
How parents are put together changes no measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from confide.arrays import Floats, Integers
from confide.confidential import Confidential
from confide.estimation.node_problem import MeasuredQuery
from confide.mechanisms.topdown.strategy import GroupNumbers
from confide.noise import NoiseDistribution, NoiseStream, draw_at


@dataclass(frozen=True, eq=False)
class TrueCounts:
    """The non-zero true counts of some units: position of the unit, cell of the histogram, count."""

    position: Integers
    cell: Integers
    count: Integers


@dataclass(frozen=True, eq=False)
class Children:
    """The children of one parent as they are measured: units, class of shares of each, and the histogram cells
    ``support`` that the parent's estimate leaves them."""

    truth: Confidential[TrueCounts]
    units: Integers
    share_class: Integers
    support: Integers


@dataclass(frozen=True, eq=False)
class LevelQuery:
    """A query of one geolevel: its groups of histogram cells, its noise stream, and its law for each class of shares.

    ``laws[k]`` is the noise in units of share class k; None where such units are not measured.
    """

    name: str
    groups: GroupNumbers
    cells: int
    stream: NoiseStream
    laws: tuple[NoiseDistribution | None, ...]


def measure(queries: Sequence[LevelQuery], nodes: Sequence[Children]) -> list[tuple[MeasuredQuery, ...]]:
    """The measurements of each parent's children. Groups of cells are numbered anew for what a parent keeps.

    Args:
        queries: The queries of the level, with noise streams and distributions.
        nodes: For each parent its children: true counts, units, classes of shares, and the support.

    Returns:
        For each parent one measured query for each of ``queries``: noisy counts (groups x children) and a weight for
        each child, 0 where the child is not measured.
    """
    if not nodes:
        return []
    together = _PooledChildren(nodes)
    return list(zip(*(together.measure(query) for query in queries), strict=True))


@lru_cache(maxsize=4096)
def weighting_variance(law: NoiseDistribution) -> float:
    """What a measurement is weighted by: the variance of its noise. Below 1 the variance falls off a cliff, to nothing
    at all for very small parameters, and the parameter itself orders the measurements just as well."""
    return law.variance() if law.parameter >= 1 else float(law.parameter)


class _PooledChildren:
    """The children of many nodes, end to end."""

    def __init__(self, nodes: Sequence[Children]):
        truth = [part.truth.reveal("true counts meet their noise here") for part in nodes]
        self.sizes = np.array([len(part.units) for part in nodes])
        self.first = np.cumsum(self.sizes) - self.sizes
        self.units = np.concatenate([part.units for part in nodes])
        self.share_class = np.concatenate([part.share_class for part in nodes])
        numbers = np.arange(len(nodes))
        self.support = np.concatenate([part.support for part in nodes])
        self.support_sizes = np.array([len(part.support) for part in nodes])
        self.node_of_support = np.repeat(numbers, self.support_sizes)
        self.node_of_row = np.repeat(numbers, [len(rows.cell) for rows in truth])
        self.position = np.concatenate([rows.position for rows in truth])
        self.cell = np.concatenate([rows.cell for rows in truth])
        self.count = np.concatenate([rows.count for rows in truth])

    def measure(self, query: LevelQuery) -> list[MeasuredQuery]:
        """One query in all children. Its counts are laid out node by node, each as groups x children."""
        # The groups that are measured: those with a cell in the support, separately for each node.
        measured, local = np.unique(
            self.node_of_support * query.cells + query.groups[self.support], return_inverse=True
        )
        node, group = np.divmod(measured, query.cells)
        # One row for each group of each node, one column for each of the node's children, end to end.
        width = self.sizes[node]
        start = np.cumsum(width) - width
        values = self._true_sums(query, measured, start, int(width.sum()))
        # The coordinate of the noise is (unit, cell of the query), whatever else is measured with it.
        child = np.arange(len(values)) + np.repeat(self.first[node] - start, width)
        weights = self._add_noise(query, values, np.repeat(group, width), child)
        # Back to one array for each node.
        groups = np.bincount(node, minlength=len(self.sizes))
        counts = np.split(values.astype(np.float64), np.cumsum(groups * self.sizes)[:-1])
        numbers = np.split(local.reshape(-1), np.cumsum(self.support_sizes)[:-1])
        before = np.cumsum(groups) - groups
        return [
            MeasuredQuery(query.name, own - offset, part.reshape(height, -1), weight)
            for own, offset, part, height, weight in zip(
                numbers, before, counts, groups, np.split(weights, self.first[1:]), strict=True
            )
        ]

    def _true_sums(self, query: LevelQuery, measured: Integers, start: Integers, size: int) -> Integers:
        """The true count of every measured group in every child."""
        wanted = self.node_of_row * query.cells + query.groups[self.cell]
        place = np.searchsorted(measured, wanted)
        place[place == len(measured)] = 0
        read = measured[place] == wanted
        values = np.zeros(size, np.int64)
        np.add.at(values, start[place[read]] + self.position[read], self.count[read])
        return values

    def _add_noise(self, query: LevelQuery, values: Integers, group: Integers, child: Integers) -> Floats:
        """Noise onto ``values``, in place; returns the weight of every child, 0 where it is not measured."""
        weights = np.zeros(len(self.units))
        coordinates = group + self.units[child] * query.cells
        share_class = self.share_class[child]
        for number, law in enumerate(query.laws):
            chosen = np.flatnonzero(share_class == number)
            if law is None or not len(chosen):
                continue
            values[chosen] += draw_at(law, query.stream, coordinates[chosen])
            weights[self.share_class == number] = 1 / weighting_variance(law)
        # What was not measured stays true and must not go on.
        values[weights[child] == 0] = 0
        return weights


def measure_fully(queries: Sequence[LevelQuery], units: Children) -> list[Integers]:
    """Every query in every cell of some measured units (units x cells): the full set, for publication.

    The stream and the coordinates are those of :func:`measure`, so whatever the estimate has looked at is here too, as
    the same number. That all of it is published is what the plan has priced, lazily measured or not.
    """
    everything = replace(units, support=np.arange(len(queries[0].groups)))
    (measured,) = measure(queries, [everything])
    assert all((query.weights > 0).all() for query in measured), "only units with a share are measured"
    # Whole numbers far below 2**53: nothing is lost on the way back from floats.
    return [query.measured.T.astype(np.int64) for query in measured]
