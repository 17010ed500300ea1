"""Full-information least squares on a whole tree: the best linear unbiased estimate of every cell of every unit.

With the covariances of :mod:`~confide.estimation.tree_covariances` and the evidence h = SᵀWy of each unit,

    leaves:    b(c⁻) = V(c⁻) h
    upward:    s = Σ_c b(c⁻);   b(u⁻) = s + V(u⁻)(h − M s);   a known total T moves b by a (T − 1ᵀb)/(1ᵀa), a = V1
    downward:  b(c) = b(c⁻) + V(c⁻) w(u),   w(u) = P⁺(b(u) − s),

in sector coordinates, all columns of a sector at once. Evidence is turned into estimates in place, so that memory
holds one vector for each unit, of a block only its possible cells.

:class:`GoodnessOfFit` holds the measurements against the estimates: the sum of (y − S b)²/σ² of a query on a level has
the expectation N − Σ tr(S V Sᵀ)/σ². A wrong strategy, spine or word is far from it.

Derivation: ``docs/proofs/whole-tree.md``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import log, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from confide.arrays import Floats, Integers
from confide.errors import ParameterError
from confide.estimation.sectors import (
    CellVectors,
    Grouping,
    SectorCells,
    SectorCount,
    SectorQuery,
    grouping_key,
    in_parts,
)
from confide.estimation.tree_covariances import TreeCovariances
from confide.geography import AreaSet

UNITS_AT_ONCE = 512
SMALL = 4
"""Matrices up to this size are applied entry by entry: faster than as many small products."""


class TreeEstimates:
    """The estimates of all units.

    Args:
        covariances: What is measured where.
        evidence: For each level h of its units; it is turned into the estimates and must not be used again. The last
            level has the possible cells of ``covariances``; the others have all of them (:meth:`CellVectors.dense`).
        totals: For each level the known numbers of records of its units, where ``total_known`` says so.
        from_below: Whether estimates are b(c⁻): from a unit and all below it alone, without what is beside and above.

    >>> from confide.estimation.sectors import Sectors
    >>> from confide.estimation.tree_covariances import TreeLevel
    >>> sectors = Sectors((1,), (0,))
    >>> cell = sectors.query({0: np.arange(1)})
    >>> half, own = sectors.information([(cell, 1 / 2)]), sectors.information([(cell, 1.0)])
    >>> levels = [
    ...     TreeLevel(np.zeros(0, int), np.zeros(1, int), half[None]),
    ...     TreeLevel(np.zeros(2, int), np.array([0, 1]), np.stack([own, half])),
    ... ]
    >>> tree = TreeCovariances(sectors, levels, np.ones((2, 1), bool))
    >>> evidence = [CellVectors.dense(sectors, 1), CellVectors(sectors, tree.possible)]
    >>> evidence[0].add(np.array([0]), cell, np.array([[10]]), np.array([1 / 2]))
    >>> evidence[1].add(np.array([0, 1]), cell, np.array([[4], [10]]), np.array([1, 1 / 2]))
    >>> estimates = TreeEstimates(tree, evidence)
    >>> estimates.histogram(0).round(3), estimates.histogram(1).round(3)
    (array([[11.6]]), array([[3.2],
           [8.4]]))
    """

    def __init__(
        self,
        covariances: TreeCovariances,
        evidence: Sequence[CellVectors],
        totals: Sequence[Floats | None] = (),
        *,
        from_below: bool = False,
    ):
        self.covariances = covariances
        self.sectors = covariances.sectors
        self.vectors = list(evidence)
        known = self._known_totals(totals)
        for vectors in self.vectors:
            for array in vectors.arrays:
                self.sectors.into_sectors(array)
        last = len(covariances.levels) - 1
        self._leaves(known[last])
        for position in range(last - 1, -1, -1):
            self._up(position, known[position])
        for position in range(1, last + 1) if not from_below else ():
            self._down(position)
            self._into_cells(position - 1)
        for position in range(last + 1) if from_below else (last,):
            self._into_cells(position)

    def _known_totals(self, totals: Sequence[Floats | None]) -> list[Floats]:
        """The known numbers of records of all units; NaN where none is known."""
        result: list[Floats] = []
        for position in range(len(self.covariances.levels) - 1, -1, -1):
            level = self.covariances.levels[position]
            own, known = np.full(level.units, np.nan), level.total_known
            if result:
                only = self.covariances.only_child(position)
                own[only >= 0] = result[0][only[only >= 0]]
            given = totals[position] if len(totals) else None
            if given is not None and known is not None:
                own[known] = given[known]
            if np.isnan(own[self.covariances.known[position]]).any():
                raise ParameterError("no-total/level", position=position)
            result.insert(0, own)
        return result

    # Passes.

    def _leaves(self, totals: Floats) -> None:
        own, vectors = self.covariances.upward[-1], self.vectors[-1]
        for kind, number, rows in self._kinds_of(vectors, own.kind):
            cells, array = vectors.cells[number], vectors.arrays[number]
            if not own.determined[kind]:
                array[rows] = 0
                continue
            for part in in_parts(len(rows), UNITS_AT_ONCE):
                chosen = rows[part]
                for sector, columns in enumerate(self.sectors.columns):
                    matrix = own.before_total[kind] if sector == 0 else own.covariance[kind, sector]
                    array[chosen, :, columns] = _product(matrix[np.ix_(cells, cells)], array[chosen, :, columns])
                if own.total_gain[kind].any():
                    missing = self._missing(array[chosen, :, 0], totals[vectors.units[number][chosen]])
                    array[chosen, :, 0] += missing * own.total_gain[kind][cells]

    def _up(self, position: int, totals: Floats) -> None:
        own, level = self.covariances.upward[position], self.covariances.levels[position]
        (array,) = self.vectors[position].arrays
        sums = self.vectors[position + 1].summed(self.covariances.levels[position + 1].parent, level.units)
        sums[own.open_children[own.kind] > 0] = 0
        nothing = np.zeros((1, *own.covariance.shape[1:]))
        information = np.concatenate([level.information, nothing])  # the last for units that are not measured
        for part in in_parts(level.units, UNITS_AT_ONCE):
            kind = own.kind[part]
            for sector, columns in enumerate(self.sectors.columns):
                matrix = own.before_total[kind] if sector == 0 else own.covariance[kind, sector]
                below = sums[part, :, columns]
                news = array[part, :, columns] - information[level.measured[part], sector] @ below
                array[part, :, columns] = below + matrix @ news
            conditioned = np.asarray(own.total_gain[kind].any(axis=1))
            missing = self._missing(array[part, :, 0], totals[part])
            array[part, :, 0] += np.where(conditioned[:, None], missing * own.total_gain[kind], 0.0)

    def _missing(self, means: NDArray[Any], totals: Floats) -> Floats:
        """T − 1ᵀb, in the coordinates of the first sector: units x 1."""
        return np.asarray(totals / sqrt(self.sectors.copies) - means.sum(axis=1), np.float64)[:, None]

    def _down(self, position: int) -> None:
        own, above = self.covariances.upward[position], self.covariances.upward[position - 1]
        parent = self.covariances.levels[position].parent
        vectors = self.vectors[position]
        (parents,) = self.vectors[position - 1].arrays
        gap = vectors.summed(parent, len(parents))
        np.subtract(parents, gap, out=gap)
        openings = above.open_children[above.kind]
        beside = gap[openings > 0]  # what the open children of a unit have together
        place = np.cumsum(openings > 0) - 1
        for part in in_parts(len(gap), UNITS_AT_ONCE):
            inverse = above.inverse[above.kind[part]]
            for sector, columns in enumerate(self.sectors.columns):
                gap[part, :, columns] = inverse[:, sector] @ gap[part, :, columns]
        gap[openings > 0] = 0  # they take up every difference
        for kind, number, rows in self._kinds_of(vectors, own.kind):
            cells, array = vectors.cells[number], vectors.arrays[number]
            for part in in_parts(len(rows), UNITS_AT_ONCE):
                chosen = rows[part]
                units = vectors.units[number][chosen]
                if not own.determined[kind]:
                    array[chosen] = beside[place[parent[units]]][:, cells]
                    alone = openings[parent[units]] == 1
                    fits = (above.possible[above.kind[parent[units]]] == own.possible[kind]).all(axis=1)
                    array[chosen[~(alone & fits)]] = np.nan
                    continue
                moved = gap[parent[units]][:, cells]
                for sector, columns in enumerate(self.sectors.columns):
                    matrix = own.covariance[kind, sector][np.ix_(cells, cells)]
                    array[chosen, :, columns] += _product(matrix, moved[:, :, columns])

    def _into_cells(self, position: int) -> None:
        for array in self.vectors[position].arrays:
            self.sectors.into_cells(array)

    def _kinds_of(self, vectors: CellVectors, kind: Integers) -> Iterator[tuple[int, int, Integers]]:
        """Units of one array and one kind: the kind, the number of the array, and their rows there."""
        for number, units in enumerate(vectors.units):
            kinds = kind[units]
            order = np.argsort(kinds, kind="stable")
            starts = np.flatnonzero(np.append(True, np.diff(kinds[order]) != 0))
            for rows in np.split(order, starts[1:]):
                yield int(kinds[rows[0]]), number, rows

    # Answers.

    def histogram(self, level: int, units: Integers | None = None) -> Floats:
        """The cells of units of a level: units x histogram."""
        return self.vectors[level].histogram(self._all(level) if units is None else units)

    def query(self, level: int, query: SectorQuery, units: Integers | None = None) -> Floats:
        """The answers to a query: units x groups of core cells x free axes (1 where summed out)."""
        return self.vectors[level].answers(self._all(level) if units is None else units, query)

    def counts(self, level: int, counts: Sequence[SectorCount]) -> Floats:
        """Some counts of every unit of a level: units x counts."""
        result = np.zeros((self.covariances.levels[level].units, len(counts)))
        vectors = self.vectors[level]
        for number, count in enumerate(counts):
            free = _outer(count.free)
            for units, cells, array in zip(vectors.units, vectors.cells, vectors.arrays, strict=True):
                result[units, number] = np.asarray(array @ free, np.float64) @ count.core[cells]
        return result

    def area_histogram(self, block: Integers, area: Integers, areas: int) -> Floats:
        """The cells of areas that are made of these blocks: areas x histogram."""
        dense = np.zeros((areas, self.sectors.size, self.sectors.copies))
        order = np.argsort(block, kind="stable")
        while len(order):  # a block may be in several areas, but an array of groups has one for each
            first = np.append(True, np.diff(block[order]) != 0)
            into = np.full(self.covariances.levels[-1].units, -1, np.int64)
            into[block[order[first]]] = area[order[first]]
            dense += self.vectors[-1].summed(into, areas)
            order = order[~first]
        return np.asarray(self.sectors.in_histogram_order(dense), np.float64)

    def _all(self, level: int) -> Integers:
        return np.arange(self.covariances.levels[level].units)


def _outer(vectors: Sequence[Floats]) -> Floats:
    result = np.ones(())
    for vector in vectors:
        result = np.multiply.outer(result, vector)
    return np.asarray(result.ravel(), np.float64)


def _product(matrix: Floats, vectors: NDArray[Any]) -> NDArray[Any]:
    """A matrix times vectors, units x core x columns."""
    if len(matrix) > SMALL:
        return np.asarray(matrix @ vectors)
    result = np.zeros(vectors.shape)
    for row, column in product(range(len(matrix)), repeat=2):
        result[:, row] += matrix[row, column] * vectors[:, column]
    return result


SUSPICIOUS = 5.0
"""How many standard deviations from its expectation a sum of squares is taken for wrong."""
MOSTLY_NONE = 0.5
"""Noise with a smaller variance is mostly zero."""
FEW, MANY = 30.0, 80.0
"""Where so few noises that are not zero are expected, their number has no law like χ²; and so many are not chance."""


@dataclass(frozen=True, slots=True)
class QueryFit:
    """How the measurements of a query on a level fit the estimates."""

    level: int
    query: str
    measurements: int
    squares: float
    """Σ (y − S b)²/σ²."""
    expected: float
    """Its expectation: the degrees of freedom."""
    variance: float = 1.0
    """The mean variance of the noise."""

    @property
    def ratio(self) -> float:
        """The realised variance of the residuals over the expected one; 1 where there is nothing to expect."""
        return self.squares / self.expected if self.expected > 0 else 1.0

    @property
    def deviation(self) -> float:
        """How far off the ratio is, in standard deviations of a normal law, if the sum of squares has the law of χ².

        The cube root of χ²/n is nearly normal, with mean 1 − 2/(9n) and variance 2/(9n) (Wilson and Hilferty 1931). The
        sum of squares has at most the variance of χ², so that the number is never too large. Noise that is mostly zero
        is an exception: it is ±1 with the probability σ², and n squares of it over σ² have the variance n/σ².
        """
        if self.expected <= 0:
            return 0.0
        variance = 2 / (9 * self.expected * min(1.0, self.variance / MOSTLY_NONE))
        return float((self.ratio ** (1 / 3) - (1 - variance)) / sqrt(variance))

    @property
    def suspicious(self) -> bool:
        """Whether chance alone does not do this: one in a million fits is further off.

        Next to no noise is mostly none, and here and there one: then nothing is too near, and a sum of squares is too
        far if it is more than so few make.
        """
        if self.variance < MOSTLY_NONE and self.expected * self.variance < FEW:
            return self.squares * self.variance > MANY
        return self.expected >= 1 and abs(self.deviation) > SUSPICIOUS


class GoodnessOfFit:
    """The measurements against the estimates, by level and query. Give each measurement once, in any order."""

    def __init__(self, estimates: TreeEstimates):
        self._estimates = estimates
        self._sums: dict[tuple[int, str], list[float]] = {}
        self._variances: dict[tuple[int, str], Floats] = {}

    def add(
        self, level: int, name: str, units: Integers, query: SectorQuery, values: NDArray[Any], precision: Floats
    ) -> None:
        """Measurements of a query in some units of a level, as in :meth:`CellVectors.add`."""
        if (level, name) not in self._variances:
            self.expect(level, {name: query})
        residual = query.arranged(values) - self._estimates.query(level, query, units)
        each = np.square(residual).sum(axis=tuple(range(2, residual.ndim))) / query.sizes
        sums = self._sums.setdefault((level, name), [0.0, 0.0, 0.0, 0.0])
        counted = prod(residual.shape[1:])
        sums[3] += counted * float((1 / precision).sum())
        sums[0] += counted * len(units)
        sums[1] += float(precision @ each.sum(axis=1))
        sums[2] += counted * len(units) - float(precision @ self._variances[level, name][units])

    def expect(self, level: int, queries: Mapping[str, SectorQuery]) -> None:
        """What is expected of several queries of a level, at once: covariances of a level are not kept, and to make
        them takes longer than to look at them.

        Of every unit it is tr(S V Sᵀ), each group by its own number of measured counts: Σ over sectors of tr(V A), with
        A = w Σ over groups of g gᵀ/n.
        """
        sectors, forms = self._estimates.sectors, []
        for query in queries.values():
            cells = prod(n for n, kept in zip(sectors.free_shape, query.kept, strict=True) if kept)
            core = np.einsum("gc,gd,g->cd", query.members, query.members, 1 / query.sizes)
            forms.append(np.multiply.outer(cells * sectors.cell_weights(query), core).ravel())

        def ask(covariance: Floats) -> Floats:
            return np.asarray(covariance.reshape(len(covariance), -1) @ np.array(forms).T, np.float64)

        variances = self._estimates.covariances.evaluate(level, ask).of_units
        self._variances |= {(level, name): variances[:, number] for number, name in enumerate(queries)}

    @property
    def fits(self) -> tuple[QueryFit, ...]:
        """One for each level and query, in this order."""
        return tuple(
            QueryFit(level, name, int(sums[0]), sums[1], sums[2], sums[3] / max(sums[0], 1))
            for (level, name), sums in sorted(self._sums.items())
        )

    @property
    def worst(self) -> QueryFit | None:
        """The suspicious fit whose ratio is furthest from 1, if there is one: where to look first."""
        wrong = [fit for fit in self.fits if fit.suspicious]
        return max(wrong, key=lambda fit: abs(log(max(fit.ratio, 1e-300))), default=None)


# Queries of any grouping on a histogram in sectors: their answers, and the variances of their cells.
#
# A query of :mod:`~confide.estimation.sectors` keeps a free axis or sums it out, as what is measured does. What is
# asked may group the levels of a free axis as well. A cell is then a set of core cells g times, on each free axis of
# n levels, a set of k levels, and its variance is the sum over sectors of
#
#     gᵀ V g  x  the product over free axes of  (k²/n for the mean, k − k²/n for deviations; n and 0 where summed out).
#
# Derivation: ``docs/proofs/whole-tree.md``, section 2.


# Queries answered by least squares on a tree: estimates and exact variances for areas of any shape.
#
# An area is a list of blocks. On a tree it is a *unit*, if it has exactly its blocks; or it is made of *pieces*, the
# largest units that lie within it. Few pieces are known well; many blocks are many errors. Units take V from their
# kind, other areas from one recursion up the tree.


MOSTLY = 0.9
"""A kind of area is taken for what so many of its areas are."""
PIECES_AT_ONCE = 2_048
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

    def _estimates(self, asked: SectorCells, level: int, units: Integers) -> Floats:
        assert self.estimates is not None
        return asked.estimates(self.estimates.query(level, asked.base, units))

    def figures(self, placed: PlacedAreas, areas: Integers, query: Grouping) -> Floats:
        """The estimates of the cells of a query in some areas: areas x cells."""
        asked = self._query(query)
        result = np.zeros((len(areas), asked.cells))
        for level in np.unique(placed.level[areas]).tolist():
            rows = np.flatnonzero(placed.level[areas] == level)
            if level >= 0:
                result[rows] = self._estimates(asked, level, placed.unit[areas[rows]])
                continue
            pieces = self.covariances.pieces(*_entries(placed, areas[rows]), len(rows))
            for position, (unit, area) in enumerate(pieces):
                for part in in_parts(len(unit), PIECES_AT_ONCE):
                    units, place = np.unique(unit[part], return_inverse=True)
                    ones = np.ones(len(unit[part]))
                    into = csr_matrix((ones, (area[part], place.reshape(-1))), shape=(len(rows), len(units)))
                    result[rows] += into @ self._estimates(asked, position, units)
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
