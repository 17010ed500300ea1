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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.errors import ParameterError
from confide.estimation.sectors import CellVectors, SectorCount, SectorQuery, Sectors
from confide.estimation.tree_covariances import TreeCovariances

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
            for part in _parts(len(rows)):
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
        for part in _parts(level.units):
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
        for part in _parts(len(gap)):
            inverse = above.inverse[above.kind[part]]
            for sector, columns in enumerate(self.sectors.columns):
                gap[part, :, columns] = inverse[:, sector] @ gap[part, :, columns]
        gap[openings > 0] = 0  # they take up every difference
        for kind, number, rows in self._kinds_of(vectors, own.kind):
            cells, array = vectors.cells[number], vectors.arrays[number]
            for part in _parts(len(rows)):
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


def _parts(number: int) -> Iterator[slice]:
    for first in range(0, number, UNITS_AT_ONCE):
        yield slice(first, min(first + UNITS_AT_ONCE, number))


SUSPICIOUS = 5.0
"""How many standard deviations from its expectation a sum of squares is taken for wrong."""


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

    @property
    def ratio(self) -> float:
        """The realised variance of the residuals over the expected one; 1 where there is nothing to expect."""
        return self.squares / self.expected if self.expected > 0 else 1.0

    @property
    def deviation(self) -> float:
        """How far off the ratio is, in standard deviations of a normal law, if the sum of squares has the law of χ².

        The cube root of χ²/n is nearly normal, with mean 1 − 2/(9n) and variance 2/(9n) (Wilson and Hilferty 1931). The
        sum of squares has at most the variance of χ², so that the number is never too large.
        """
        if self.expected <= 0:
            return 0.0
        variance = 2 / (9 * self.expected)
        return float((self.ratio ** (1 / 3) - (1 - variance)) / sqrt(variance))

    @property
    def suspicious(self) -> bool:
        """Whether chance alone does not do this: one in a million fits is further off."""
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
        sums = self._sums.setdefault((level, name), [0.0, 0.0, 0.0])
        counted = prod(residual.shape[1:])
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
            QueryFit(level, name, int(sums[0]), sums[1], sums[2]) for (level, name), sums in sorted(self._sums.items())
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


class SectorCells:
    """The cells of a query as the sectors of a tree see them.

    Args:
        sectors: Core and free axes.
        variables: For each axis that is not summed out the group of each level (−1: in none).
    """

    def __init__(self, sectors: Sectors, variables: Mapping[int, Integers]):
        self.sectors = sectors
        # On a free axis all levels are kept first, and put into groups afterwards.
        kept = {
            axis: groups if axis in sectors.core else np.arange(sectors.shape[axis])
            for axis, groups in variables.items()
        }
        self.base = sectors.query(kept)
        sizes = {axis: int(groups.max()) + 1 for axis, groups in variables.items()}
        self.cells = prod(sizes.values())
        self._free = [variables.get(axis) for axis in sectors.free]
        self._as_they_are = [
            groups is None or np.array_equal(groups, np.arange(len(groups))) for groups in self._free
        ]  # free axes that need not be put into groups
        self._shape = tuple(sizes.get(axis, 1) for axis in (*sectors.core, *sectors.free))
        self._order = np.argsort((*sectors.core, *sectors.free)).tolist()
        self.weights = self._sector_weights([sizes.get(axis, 1) for axis in sectors.free])

    def _sector_weights(self, sizes: Sequence[int]) -> Floats:
        """For each cell of the free axes and each sector the factor of gᵀVg."""
        parts = []
        for groups, n, size in zip(self._free, self.sectors.free_shape, sizes, strict=True):
            k = np.array([n]) if groups is None else np.bincount(groups[groups >= 0], minlength=size)
            parts.append(np.stack([k * k / n, k - k * k / n], axis=1))
        result = np.ones((1, len(self.sectors.sectors)))
        for place, part in enumerate(parts):
            factor = part[:, [int(sector[place]) for sector in self.sectors.sectors]]
            result = (result[:, None, :] * factor[None]).reshape(-1, len(self.sectors.sectors))
        return result

    def arranged(self, values: NDArray[np.float64]) -> Floats:
        """units x core groups x free cells as units x cells of the query."""
        shaped = values.reshape(len(values), *self._shape).transpose(0, *(1 + place for place in self._order))
        return np.asarray(shaped.reshape(len(values), self.cells), np.float64)

    def estimates(self, tree: TreeEstimates, level: int, units: Integers) -> Floats:
        """The estimates of some units of a level: units x cells."""
        result = tree.query(level, self.base, units)
        for place, groups in enumerate(self._free):
            if groups is not None and not self._as_they_are[place]:
                result = np.moveaxis(np.moveaxis(result, 2 + place, -1) @ _indicator(groups), -1, 2 + place)
        return self.arranged(result.reshape(len(units), len(self.base.sizes), -1))

    def variances(self, covariance: Floats) -> Floats:
        """The variances for covariances of kinds x sectors x core x core: kinds x cells."""
        members = self.base.members
        forms = ((members @ covariance) * members).sum(axis=3)
        return self.arranged(np.moveaxis(forms, 1, 2) @ self.weights.T)

    def total_covariances(self, covariance: Floats) -> Floats:
        """The covariances with the number of all records, for kinds x sectors x core x core: kinds x cells.

        Of the free axes the mean alone has a part in it: k of n levels with all n are k in the sector of means.
        """
        forms = covariance[:, 0].sum(axis=2) @ self.base.members.T
        return self.arranged(forms[:, :, None] * self.free_counts())

    def free_counts(self) -> Floats:
        """For each cell of the free axes how many of their cells it has."""
        levels = np.ones(1)
        for groups, n in zip(self._free, self.sectors.free_shape, strict=True):
            k = np.array([n]) if groups is None else np.bincount(groups[groups >= 0], minlength=int(groups.max()) + 1)
            levels = np.multiply.outer(levels, k).ravel()
        return levels


def _indicator(groups: Integers) -> Floats:
    inside: NDArray[np.bool_] = groups[:, None] == np.arange(int(groups.max()) + 1)[None, :]
    return inside.astype(np.float64)
