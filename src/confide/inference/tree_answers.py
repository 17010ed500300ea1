"""Queries answered by least squares on a tree: estimates and exact variances for areas of any shape.

Areas that are units of the spine take V from the unit's kind; others from one recursion up the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from confide.arrays import Floats, Integers
from confide.estimation.sectors import SectorCount
from confide.estimation.tree_covariances import TreeCovariances
from confide.estimation.tree_gls import SectorCells, TreeEstimates
from confide.inference.areas import PlacedAreas
from confide.inference.asked import AskedQuery

UNITS_AT_ONCE = 2_048
MOST_AT_ONCE = 1 << 16
"""So many covariances of counts are made at once."""
MOST_KEPT = 1 << 23
"""So many covariances of core cells of areas are kept, and so many variances of a query in kinds of units."""


class TreeAnswers:
    """Answers for areas. ``estimates`` may be missing: variances follow from what is measured where alone."""

    def __init__(self, covariances: TreeCovariances, estimates: TreeEstimates | None):
        self.covariances, self.estimates = covariances, estimates
        self._queries: dict[int, SectorCells] = {}
        self._kinds: dict[tuple[int, int], tuple[Integers, Floats]] = {}
        self._asked: list[AskedQuery] = []
        self._area_cores: dict[int, tuple[PlacedAreas, Floats]] = {}

    def _query(self, query: AskedQuery) -> SectorCells:
        if id(query) not in self._queries:
            self._queries[id(query)] = SectorCells(self.covariances.sectors, query.groups)
            self._asked.append(query)  # so that no other query has its id
        return self._queries[id(query)]

    def variances(self, placed: PlacedAreas, areas: Integers, query: AskedQuery) -> Floats:
        """The variances of the cells of a query in some areas: areas x cells; NaN where nothing tells them."""
        asked = self._query(query)
        result = np.zeros((len(areas), asked.cells))
        for level in np.unique(placed.level[areas]).tolist():
            rows = np.flatnonzero(placed.level[areas] == level)
            if level >= 0:
                result[rows] = self._of_units(level, placed.unit[areas[rows]], query)
                continue
            rows = rows[placed.pieces[areas[rows]] > 0]
            if len(rows):
                result[rows] = self._of_areas(placed, areas[rows], asked)
        return np.maximum(result, 0.0)

    def _of_areas(self, placed: PlacedAreas, areas: Integers, asked: SectorCells) -> Floats:
        """Variances in areas that are no units of the spine."""
        sectors = self.covariances.sectors
        apart = np.flatnonzero((placed.level < 0) & (placed.pieces > 0))
        if len(apart) * len(sectors.sectors) * sectors.size**2 <= MOST_KEPT:
            # The covariances of all core cells are kept: every query follows from them.
            if id(placed) not in self._area_cores:
                block, area = _entries(placed, apart)
                self._area_cores[id(placed)] = (placed, self.covariances.area_matrices(block, area, len(apart)))
            return asked.variances(self._area_cores[id(placed)][1][np.searchsorted(apart, areas)])
        return self._by_probes(*_entries(placed, areas), len(areas), asked)

    def of_blocks(self, block: Integers, area: Integers, areas: int, query: AskedQuery) -> Floats:
        """The variances of the cells of a query in areas of these blocks of the tree: areas x cells."""
        return np.maximum(self._by_probes(block, area, areas, self._query(query)), 0.0)

    def _by_probes(self, block: Integers, area: Integers, areas: int, asked: SectorCells) -> Floats:
        """Variances from the core vectors of the query alone."""
        probes, probe = np.unique(asked.base.members, axis=0, return_inverse=True)
        forms = self.covariances.area_forms(block, area, areas, probes)
        return asked.arranged(np.einsum("aspp->aps", forms)[:, probe.reshape(-1)] @ asked.weights.T)

    def _of_units(self, level: int, units: Integers, query: AskedQuery) -> Floats:
        """Variances in units of a level. Those of all kinds are kept if they are few: a State has kinds by the ten
        thousand in its block groups, and most of them have one unit."""
        key, asked = (level, id(query)), self._query(query)
        if key in self._kinds:
            kind, values = self._kinds[key]
            return np.asarray(values[kind[units]], np.float64)
        if len(self.covariances.downward[level].upward) * asked.cells > MOST_KEPT:
            return self.covariances.evaluate(level, asked.variances, units).of_units
        answers = self.covariances.evaluate(level, asked.variances)
        self._kinds[key] = (answers.kind, answers.values)
        return np.asarray(answers.values[answers.kind[units]], np.float64)

    def figures(self, placed: PlacedAreas, areas: Integers, query: AskedQuery) -> Floats:
        """The estimates of the cells of a query in some areas: areas x cells."""
        assert self.estimates is not None
        asked = self._query(query)
        result = np.zeros((len(areas), asked.cells))
        for level in np.unique(placed.level[areas]).tolist():
            rows = np.flatnonzero(placed.level[areas] == level)
            if level >= 0:
                result[rows] = asked.estimates(self.estimates, level, placed.unit[areas[rows]])
                continue
            pieces = self.covariances.pieces(*_entries(placed, areas[rows]), len(rows))
            for position, (unit, area) in enumerate(pieces):
                for first in range(0, len(unit), UNITS_AT_ONCE):
                    part = slice(first, first + UNITS_AT_ONCE)
                    units, place = np.unique(unit[part], return_inverse=True)
                    ones = np.ones(len(unit[part]))
                    into = csr_matrix((ones, (area[part], place.reshape(-1))), shape=(len(rows), len(units)))
                    result[rows] += into @ asked.estimates(self.estimates, position, units)
        return result

    def count(self, levels: Mapping[int, Floats]) -> SectorCount:
        """One count as the sectors see it."""
        return self.covariances.sectors.count(levels)

    def counted(self, blocks: Integers, counts: Sequence[Mapping[int, Floats]]) -> Floats:
        """The estimates of some counts in one area of these blocks."""
        assert self.estimates is not None
        cells = self.estimates.area_histogram(blocks, np.zeros(len(blocks), np.int64), 1)[0]
        return np.array([float(_contracted(cells, levels)) for levels in counts])

    def counted_in(self, placed: PlacedAreas, counts: Sequence[Mapping[int, Floats]]) -> Floats:
        """The estimates of some counts in every area of a kind: areas x counts."""
        assert self.estimates is not None
        of_blocks = self.estimates.counts(len(self.covariances.levels) - 1, [self.count(levels) for levels in counts])
        result = np.zeros((placed.areas.areas, len(counts)))
        for number in range(len(counts)):
            result[:, number] = np.bincount(placed.area, of_blocks[placed.block, number], len(result))
        return result

    def covariances_in(self, placed: PlacedAreas, counts: Sequence[Mapping[int, Floats]]) -> Iterator[Floats]:
        """The covariances of some counts in every area of a kind, area by area: counts x counts."""
        listed = [self.count(levels) for levels in counts]
        step = max(1, MOST_AT_ONCE // len(counts) ** 2)
        for first in range(0, placed.areas.areas, step):
            areas = np.arange(first, min(first + step, placed.areas.areas))
            part = np.zeros((len(areas), len(counts), len(counts)))
            for level in np.unique(placed.level[areas]).tolist():
                rows = np.flatnonzero(placed.level[areas] == level)
                if level >= 0:
                    part[rows] = self.covariances.unit_covariances(level, listed, placed.unit[areas[rows]])
                else:
                    rows = rows[placed.pieces[areas[rows]] > 0]
                    block, area = _entries(placed, areas[rows])
                    part[rows] = self.covariances.area_covariances(block, area, len(rows), listed)
            yield from part

    def covariance(self, blocks: Sequence[Integers], counts: Sequence[Mapping[int, Floats]]) -> Floats:
        """The covariance of counts, each of an area of its own: counts x counts."""
        number = np.concatenate([np.full(len(one), place) for place, one in enumerate(blocks)])
        zero = np.zeros(len(number), np.int64)
        listed = [self.count(levels) for levels in counts]
        matrices = self.covariances.area_covariances(np.concatenate(blocks), zero, 1, listed, number)
        return np.asarray(matrices[0], np.float64)


def _entries(placed: PlacedAreas, areas: Integers) -> tuple[Integers, Integers]:
    """The blocks of some areas, with the place of each area among them."""
    place = np.full(placed.areas.areas, -1, np.int64)
    place[areas] = np.arange(len(areas))
    into = place[placed.area]
    return placed.block[into >= 0], into[into >= 0]


def _contracted(cells: Floats, levels: Mapping[int, Floats]) -> Floats:
    result = cells
    for axis in reversed(range(cells.ndim)):
        weight = levels.get(axis, np.ones(cells.shape[axis]))
        result = np.tensordot(result, weight, axes=([axis], [0]))
    return np.asarray(result)


def cells_at_once(cells: int, numbers: int = 1 << 17) -> int:
    """How many areas of so many cells are answered at once."""
    return max(1, numbers // max(1, cells))
