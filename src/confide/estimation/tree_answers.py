"""Queries answered by least squares on a tree: estimates and exact variances for areas of any shape.

An area is a list of blocks. On a tree it is a *unit*, if it has exactly its blocks; or it is made of *pieces*, the
largest units that lie within it. Few pieces are known well; many blocks are many errors. Units take V from their kind,
other areas from one recursion up the tree.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from confide.arrays import Floats, Integers
from confide.estimation.sectors import Grouping, SectorCount, grouping_key
from confide.estimation.tree_covariances import TreeCovariances
from confide.estimation.tree_gls import SectorCells, TreeEstimates
from confide.geography import AreaSet

MOSTLY = 0.9
"""A kind of area is taken for what so many of its areas are."""
UNITS_AT_ONCE = 2_048
MOST_AT_ONCE = 1 << 16
"""So many covariances of counts are made at once."""
MOST_KEPT = 1 << 23
"""So many covariances of core cells of areas are kept, and so many variances of a query in kinds of units."""


class SpineUnits:
    """The units of a tree as sets of its blocks."""

    def __init__(self, parents: Sequence[Integers]):
        """``parents``: for each level the parent of each unit, one level up; none for the root."""
        self.parents = parents
        self.of_block: list[Integers] = [np.arange(max(1, len(parents[-1])))]
        """For each level the unit of each block, the root first."""
        for parent in reversed(parents[1:]):
            self.of_block.insert(0, parent[self.of_block[0]])

    @cached_property
    def sizes(self) -> list[Integers]:
        """For each level the number of blocks of each unit."""
        return [np.bincount(units) for units in self.of_block]


@dataclass(frozen=True, eq=False)
class PlacedAreas:
    """Areas on a tree of units."""

    areas: AreaSet
    block: Integers
    """Blocks of the tree; those that it does not have are left out, as nobody can be there."""
    area: Integers
    level: Integers
    """For each area the level of the unit that it is; −1 where it is none."""
    unit: Integers
    pieces: Integers
    """How many of the largest units that lie within it make up each area."""

    @classmethod
    def on(cls, areas: AreaSet, tree_block: Integers, units: SpineUnits) -> PlacedAreas:
        """The areas on a tree; ``tree_block`` has for each block of the source its number there, or −1."""
        inside = tree_block[areas.block] >= 0
        block, area = tree_block[areas.block[inside]], areas.area[inside]
        number = areas.areas
        size = np.bincount(area, minlength=number)
        level, unit, pieces = np.full(number, -1), np.full(number, -1), np.zeros(number, np.int64)
        whole_above = np.zeros(0, np.int64)
        for position, of_block in enumerate(units.of_block):
            width = len(units.sizes[position])
            pair, together = np.unique(area * width + of_block[block], return_counts=True)
            inner = pair[together == units.sizes[position][pair % width]]
            of_area, of_unit = np.divmod(inner, width)
            same = size[of_area] == units.sizes[position][of_unit]
            first = same & (level[of_area] < 0)
            level[of_area[first]], unit[of_area[first]] = position, of_unit[first]
            if position:
                above = of_area * len(units.sizes[position - 1]) + units.parents[position][of_unit]
                largest = ~np.isin(above, whole_above)
            else:
                largest = np.ones(len(inner), bool)
            np.add.at(pieces, of_area[largest], 1)
            whole_above = inner
        return cls(areas, block, area, level, unit, pieces)

    def followed(self, most: int, last: int) -> bool:
        """Whether the spine follows this kind of area: nearly all have few pieces, and are not single blocks.

        Args:
            most: How many pieces are few.
            last: The level of the blocks, which hardly anything but their cells is measured of.
        """
        there = self.pieces > 0
        near = (self.pieces[there] <= most) & (self.level[there] != last)
        return bool(there.any() and near.mean() >= MOSTLY)

    @property
    def on_spine(self) -> bool:
        """Whether nearly all areas are units."""
        there = self.pieces > 0
        return bool(there.any() and (self.level[there] >= 0).mean() >= MOSTLY)


class TreeAnswers:
    """Answers for areas. ``estimates`` may be missing: variances follow from what is measured where alone."""

    def __init__(self, covariances: TreeCovariances, estimates: TreeEstimates | None = None):
        self.covariances, self.estimates = covariances, estimates
        self._queries: dict[Hashable, SectorCells] = {}
        self._kinds: dict[tuple[int, SectorCells], tuple[Floats, Integers]] = {}
        self._area_cores: dict[PlacedAreas, Floats] = {}

    def _query(self, query: Grouping) -> SectorCells:
        key = grouping_key(query)
        if key not in self._queries:
            self._queries[key] = SectorCells(self.covariances.sectors, query)
        return self._queries[key]

    def variances(self, placed: PlacedAreas, areas: Integers, query: Grouping) -> Floats:
        """The variances of the cells of a query in some areas: areas x cells; NaN where nothing tells them."""
        values, kind = self.by_kind(placed, areas, query)
        return np.asarray(values[kind], np.float64)

    def by_kind(self, placed: PlacedAreas, areas: Integers, query: Grouping) -> tuple[Floats, Integers]:
        """The same for kinds of areas, and the kind of each area: units are alike by the thousand."""
        asked = self._query(query)
        values, kind, kinds = [np.zeros((1, asked.cells))], np.zeros(len(areas), np.int64), 1
        for level in np.unique(placed.level[areas]).tolist():
            rows = np.flatnonzero(placed.level[areas] == level)
            if level >= 0:
                answers_of_part, own = self._of_units(level, placed.unit[areas[rows]], asked)
            else:
                rows = rows[placed.pieces[areas[rows]] > 0]
                answers_of_part, own = self._of_areas(placed, areas[rows], asked), np.arange(len(rows))
            values.append(answers_of_part)
            kind[rows] = kinds + own
            kinds += len(answers_of_part)
        return np.maximum(np.concatenate(values), 0.0), kind

    def _of_areas(self, placed: PlacedAreas, areas: Integers, asked: SectorCells) -> Floats:
        """Variances in areas that are no units of the spine."""
        sectors = self.covariances.sectors
        apart = np.flatnonzero((placed.level < 0) & (placed.pieces > 0))
        if len(apart) * len(sectors.sectors) * sectors.size**2 <= MOST_KEPT:
            # The covariances of all core cells are kept: every query follows from them.
            if placed not in self._area_cores:
                self._area_cores[placed] = self.covariances.area_matrices(*_entries(placed, apart), len(apart))
            return asked.variances(self._area_cores[placed][np.searchsorted(apart, areas)])
        return self._by_probes(*_entries(placed, areas), len(areas), asked)

    def of_blocks(self, block: Integers, area: Integers, areas: int, query: Grouping) -> Floats:
        """The variances of the cells of a query in areas of these blocks of the tree: areas x cells."""
        return np.maximum(self._by_probes(block, area, areas, self._query(query)), 0.0)

    def _by_probes(self, block: Integers, area: Integers, areas: int, asked: SectorCells) -> Floats:
        """Variances from the core vectors of the query alone."""
        probes, probe = np.unique(asked.base.members, axis=0, return_inverse=True)
        forms = self.covariances.area_forms(block, area, areas, probes)
        return asked.arranged(np.einsum("aspp->aps", forms)[:, probe.reshape(-1)] @ asked.weights.T)

    def _of_units(self, level: int, units: Integers, asked: SectorCells) -> tuple[Floats, Integers]:
        """Variances in units of a level, by kind. Those of all kinds are kept if they are few: a State has kinds by the
        ten thousand in its block groups, and most of them have one unit."""
        if (level, asked) not in self._kinds:
            if len(self.covariances.downward[level].upward) * asked.cells > MOST_KEPT:
                of_these = self.covariances.evaluate(level, asked.variances, units)
                return of_these.values, of_these.kind
            answers = self.covariances.evaluate(level, asked.variances)
            self._kinds[level, asked] = answers.values, answers.kind
        values, kind = self._kinds[level, asked]
        used, own = np.unique(kind[units], return_inverse=True)
        return values[used], own.reshape(-1)

    def figures(self, placed: PlacedAreas, areas: Integers, query: Grouping) -> Floats:
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
