"""Measurements of marginals, seen through their symmetry: large histograms as a few small problems.

A histogram has one axis for each attribute. A query sums an axis out, keeps it as it is, or groups its levels. An axis
that no query groups, and whose levels nothing else tells apart, is *free*: all measurements together look the same
after any permutation of its levels. On a free axis of n levels every query acts as one number on the mean, and as
another on deviations from it:

    kept:  1 and 1;      summed out:  n and 0

since the matrix of ones has the eigenvalue n once, and 0 otherwise. So the information SᵀWS is block-diagonal with one
*sector* for each choice of mean or deviation on every free axis. The block of a sector is a matrix M on the *core*, the
cells of the other axes, and the same for all deviations. Sums over the children of a unit, inverses and everything else
that least squares on a tree does stay within sectors. For the redistricting histogram, 2,016 cells, the core has 16
and there are 4 sectors.

In *sector coordinates* a vector of cells has one column for each orthonormal direction of the free axes: on each the
mean, √n times, and n − 1 contrasts. Columns of one sector are together.

A histogram that is too large is looked at through a :class:`Study`, a coarser one: a query then tells the sums over
the least groups that are unions of its own cells and of the study's. Sums of n cells have n times the noise.

Derivation: ``docs/proofs/whole-tree.md``, sections 2 and 6.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError

Grouping = Mapping[int, Integers]
"""A query: for each axis that it does not sum out, the group of each level (−1: in none)."""


def grouping_key(query: Grouping) -> Hashable:
    """The same for queries that are the same."""
    return tuple((axis, query[axis].tobytes()) for axis in sorted(query))


UNITS_AT_ONCE = 1_024
"""How many units are brought into sector coordinates at once."""


@dataclass(frozen=True, eq=False)
class AxisGroups:
    """What a query tells of one axis."""

    of_level: Integers
    """For each level its group; −1: in none."""
    merged: Integers
    """For each group that was measured, the group here that it adds to; −1: none."""
    sizes: Floats
    """For each group here, how many measured ones it adds up: 1 unless a study is coarser than the query."""

    @classmethod
    def of(cls, groups: Integers) -> AxisGroups:
        """The groups of a query as they were measured."""
        number = int(groups.max()) + 1
        return cls(np.asarray(groups, np.int64), np.arange(number), np.ones(number))

    @property
    def keeps_levels(self) -> bool:
        """Whether every level is a group of its own, all with the same noise."""
        levels = self.of_level
        each = bool((levels >= 0).all()) and len(np.unique(levels)) == len(levels) == len(self.sizes)
        return each and bool((self.sizes == self.sizes[0]).all())


@dataclass(frozen=True, eq=False)
class Study:
    """A coarser histogram: for each axis of the measured one, the group of each level. Every level is in a group."""

    groups: tuple[Integers, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many groups each axis has."""
        return tuple(int(groups.max()) + 1 for groups in self.groups)

    def query(self, measured: Grouping) -> dict[int, AxisGroups]:
        """What a measured query tells of the study.

        On each axis, groups of the query and of the study that overlap are put together until none do. A group that
        has a level which the query leaves out is not told.
        """
        return {axis: self._axis(axis, groups) for axis, groups in measured.items()}

    def _axis(self, axis: int, measured: Integers) -> AxisGroups:
        own, number = self.groups[axis], int(measured.max()) + 1
        inside = measured >= 0
        rows, columns = own[inside], measured[inside] + self.shape[axis]
        nodes = self.shape[axis] + number
        graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(nodes, nodes))
        label = connected_components(graph, directed=False)[1].astype(np.int64)
        open_ = np.unique(label[own[~inside]])
        used = np.setdiff1d(label[: self.shape[axis]], open_)
        place = np.full(int(label.max()) + 1, -1, np.int64)
        place[used] = np.arange(len(used))
        merged = place[label[self.shape[axis] :]]
        return AxisGroups(place[label[: self.shape[axis]]], merged, np.bincount(merged[merged >= 0]).astype(float))


@dataclass(frozen=True, eq=False)
class SectorQuery:
    """A query as core and free axes see it."""

    shape: tuple[int, ...]
    """Groups measured on each axis, 1 where it is summed out: values are in C order of it."""
    groups: Integers
    """For each core cell its group, or −1."""
    kept: tuple[bool, ...]
    """For each free axis whether it is kept."""
    sizes: Floats
    """For each group of core cells how many measured counts one number of it adds up."""
    merged: tuple[Integers | None, ...]
    """For each axis the groups that measured ones add to; None where they are the same."""
    order: tuple[int, ...]
    """The axes, those of the core first."""

    @property
    def cells(self) -> int:
        """How many values a unit has."""
        return prod(self.shape)

    @cached_property
    def members(self) -> Floats:
        """Its groups as indicators of core cells: groups x core."""
        inside: Booleans = self.groups[None, :] == np.arange(len(self.sizes))[:, None]
        return inside.astype(float)

    def arranged(self, values: NDArray[Any]) -> NDArray[Any]:
        """Measured values, units x cells, as units x groups x free axes (1 where summed out)."""
        units = len(values)
        result = values.reshape(units, *self.shape)
        for axis, merged in enumerate(self.merged):
            if merged is not None:
                result = _added_up(result, axis + 1, merged)
        result = result.transpose(0, *(axis + 1 for axis in self.order))
        return result.reshape(units, len(self.sizes), *result.shape[len(result.shape) - len(self.kept) :])


def _added_up(values: NDArray[Any], axis: int, groups: Integers) -> NDArray[Any]:
    """Values added up to groups along an axis; those of group −1 are left out."""
    shape = list(values.shape)
    shape[axis] = int(groups.max()) + 1
    result = np.zeros(shape, values.dtype)
    inside = np.flatnonzero(groups >= 0)
    moved, source = np.moveaxis(result, axis, 0), np.moveaxis(values, axis, 0)
    np.add.at(moved, groups[inside], source[inside])
    return result


@dataclass(frozen=True, eq=False)
class SectorCount:
    """A linear function of the cells: a vector on the core times one on each free axis."""

    core: Floats
    free: tuple[Floats, ...]


@dataclass(frozen=True)
class Sectors:
    """The free axes and the core of a histogram.

    >>> sectors = Sectors.of((2, 3), [{0: np.array([0, 1])}, {0: np.array([0, 1]), 1: np.array([0, 1, 2])}], {0})
    >>> sectors.free, sectors.size, sectors.copies, sectors.sectors
    ((1,), 2, 3, ((False,), (True,)))
    """

    shape: tuple[int, ...]
    free: tuple[int, ...]

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        queries: Iterable[Mapping[int, Integers | AxisGroups]],
        told_apart: Collection[int] = (),
    ) -> Sectors:
        """What is free for these queries.

        Args:
            shape: The levels of each axis.
            queries: What is measured.
            told_apart: Axes whose levels are not alike for another reason, such as known zeros.
        """
        grouped = {axis for query in queries for axis, groups in query.items() if not _axis_groups(groups).keeps_levels}
        free = tuple(axis for axis in range(len(shape)) if axis not in grouped and axis not in told_apart)
        return cls(tuple(shape), free)

    @cached_property
    def core(self) -> tuple[int, ...]:
        """The axes that are not free."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.free)

    @cached_property
    def core_shape(self) -> tuple[int, ...]:
        """The levels of the axes of the core."""
        return tuple(self.shape[axis] for axis in self.core)

    @cached_property
    def free_shape(self) -> tuple[int, ...]:
        """The levels of the free axes."""
        return tuple(self.shape[axis] for axis in self.free)

    @property
    def size(self) -> int:
        """The number of core cells."""
        return prod(self.core_shape)

    @property
    def matrices(self) -> tuple[int, int, int]:
        """The shape of a matrix for each sector: sectors x core x core."""
        return len(self.sectors), self.size, self.size

    @property
    def nothing(self) -> Floats:
        """Matrices of no kind of unit: what is known where nothing is measured."""
        return np.zeros((0, *self.matrices))

    @property
    def copies(self) -> int:
        """How many cells of the histogram each core cell stands for."""
        return prod(self.free_shape)

    @cached_property
    def sectors(self) -> tuple[tuple[bool, ...], ...]:
        """For each sector, whether each free axis deviates. The first is the mean on all of them; an axis with one
        level has no deviations."""
        return tuple(product(*((False, True) if n > 1 else (False,) for n in self.free_shape)))

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """For each sector its columns in sector coordinates."""
        widths = [prod(n - 1 if d else 1 for n, d in zip(self.free_shape, s, strict=True)) for s in self.sectors]
        ends = np.cumsum([0, *widths]).tolist()
        return tuple(slice(first, last) for first, last in pairwise(ends))

    # What is measured.

    def query(self, query: Mapping[int, Integers | AxisGroups]) -> SectorQuery:
        """A query as core and free axes see it."""
        axes = {axis: _axis_groups(groups) for axis, groups in query.items()}
        groups, outside = np.zeros(self.core_shape, np.int64), np.zeros(self.core_shape, bool)
        sizes = np.ones(1)
        for place, axis in enumerate(self.core):
            if axis not in axes:
                continue
            shape = [-1 if other == place else 1 for other in range(len(self.core))]
            assigned = axes[axis].of_level.reshape(shape)
            groups = groups * len(axes[axis].sizes) + assigned
            outside |= assigned < 0
            sizes = np.multiply.outer(sizes, axes[axis].sizes).ravel()
        groups[outside] = -1
        for axis in self.free:
            if axis in axes:
                sizes = sizes * axes[axis].sizes[0]
        return SectorQuery(
            tuple(len(axes[axis].merged) if axis in axes else 1 for axis in range(len(self.shape))),
            groups.ravel(),
            tuple(axis in axes for axis in self.free),
            sizes,
            tuple(_merges(axes.get(axis)) for axis in range(len(self.shape))),
            (*self.core, *self.free),
        )

    def information(self, queries: Iterable[tuple[SectorQuery, float]]) -> Floats:
        """M of each sector for queries measured with these precisions: sectors x core x core."""
        result = np.zeros((len(self.sectors), self.size, self.size))
        for query, precision in queries:
            factors, alike = self.information_of(query)
            for number, factor in enumerate(factors):
                result[number] += precision * factor * alike
        return result

    def information_of(self, query: SectorQuery) -> tuple[Floats, Floats]:
        """What a query tells at a precision of one: in each sector so many times a matrix of core x core."""
        factors = np.array([self._factor(query.kept, sector) for sector in self.sectors])
        return factors, (query.members / query.sizes[:, None]).T @ query.members

    def _factor(self, kept: Sequence[bool], sector: Sequence[bool]) -> float:
        of_axes = zip(self.free_shape, kept, sector, strict=True)
        return float(prod(1 if keeps else 0 if deviates else n for n, keeps, deviates in of_axes))

    # What is asked.

    def count(self, levels: Mapping[int, Any]) -> SectorCount:
        """The count of the cells with these levels: for each axis a mask of its levels, or a weight for each. An axis
        that is not named is summed over."""
        vectors = [np.asarray(levels.get(axis, np.ones(n)), float) for axis, n in enumerate(self.shape)]
        core = np.ones(())
        for axis in self.core:
            core = np.multiply.outer(core, vectors[axis])
        return SectorCount(core.ravel(), tuple(vectors[axis] for axis in self.free))

    def weights(self, one: SectorCount, other: SectorCount | None = None) -> Floats:
        """w with Cov = Σ_sectors w · gᵀVg', for two counts with the core vectors g and g'.

        On a free axis with the vectors f and f' it is ΣfΣf'/n for the mean and f·f' − ΣfΣf'/n for deviations.
        """
        second = one if other is None else other
        parts = []
        for f, e in zip(one.free, second.free, strict=True):
            mean = float(f.sum() * e.sum()) / len(f)
            parts.append((mean, float(f @ e) - mean))
        return np.array([prod(parts[axis][d] for axis, d in enumerate(sector)) for sector in self.sectors])

    def cell_weights(self, query: SectorQuery) -> Floats:
        """The same for the variance of one cell of a query: all of a group of core cells have the same."""
        shares = [
            (1 / n, 1 - 1 / n) if keeps else (float(n), 0.0)
            for n, keeps in zip(self.free_shape, query.kept, strict=True)
        ]
        return np.array([prod(shares[axis][d] for axis, d in enumerate(sector)) for sector in self.sectors])

    def weights_across(self, axis: int) -> Floats:
        """The same for the covariance of two histogram cells that differ in the level of one free axis alone."""
        first, second = ([np.eye(n)[0] for n in self.free_shape] for _ in range(2))
        second[self.free.index(axis)] = np.eye(self.shape[axis])[1]
        return self.weights(SectorCount(np.ones(0), tuple(first)), SectorCount(np.ones(0), tuple(second)))

    # Coordinates.

    def into_sectors(self, cells: NDArray[Any]) -> None:
        """Brings vectors of cells, units x core x copies, into sector coordinates, in place."""
        for part in in_parts(len(cells)):
            rotated = cells[part].reshape(-1, *self.free_shape)
            for axis, basis in enumerate(self._bases):
                rotated = np.moveaxis(np.moveaxis(rotated, axis + 1, -1) @ basis, -1, axis + 1)
            cells[part] = rotated.reshape(-1, self.copies)[:, self._order].reshape(cells[part].shape)

    def into_cells(self, vectors: NDArray[Any]) -> None:
        """The other way, in place."""
        for part in in_parts(len(vectors)):
            rotated = np.empty((vectors[part].shape[0] * vectors.shape[1], self.copies), vectors.dtype)
            rotated[:, self._order] = vectors[part].reshape(-1, self.copies)
            rotated = rotated.reshape(-1, *self.free_shape)
            for axis, basis in enumerate(self._bases):
                rotated = np.moveaxis(np.moveaxis(rotated, axis + 1, -1) @ basis.T, -1, axis + 1)
            vectors[part] = rotated.reshape(vectors[part].shape)

    def in_histogram_order(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Vectors, units x core x copies, as units x histogram."""
        order = (*self.core, *self.free)
        shaped = cells.reshape(len(cells), *self.core_shape, *self.free_shape)
        return shaped.transpose(0, *(1 + place for place in np.argsort(order).tolist())).reshape(
            len(cells), *self.shape
        )

    @cached_property
    def _bases(self) -> tuple[Floats, ...]:
        return tuple(_basis(n) for n in self.free_shape)

    @cached_property
    def _order(self) -> Integers:
        """The columns of the rotated axes, sector by sector."""
        places = np.arange(self.copies).reshape(self.free_shape)
        parts = [places[tuple(slice(1, None) if d else slice(0, 1) for d in sector)].ravel() for sector in self.sectors]
        return np.concatenate(parts)


def _basis(n: int) -> Floats:
    """Orthonormal columns, the first constant: the contrasts of Helmert."""
    result = np.zeros((n, n))
    result[:, 0] = 1 / sqrt(n)
    for k in range(1, n):
        result[:k, k] = 1 / sqrt(k * (k + 1))
        result[k, k] = -k / sqrt(k * (k + 1))
    return result


def _axis_groups(groups: Integers | AxisGroups) -> AxisGroups:
    return groups if isinstance(groups, AxisGroups) else AxisGroups.of(groups)


def _merges(groups: AxisGroups | None) -> Integers | None:
    if groups is None or np.array_equal(groups.merged, np.arange(len(groups.sizes))):
        return None
    return groups.merged


def in_parts(number: int, at_once: int = UNITS_AT_ONCE) -> Iterator[slice]:
    """Places from 0 on, so many at once."""
    for first in range(0, number, at_once):
        yield slice(first, min(first + at_once, number))


class CellVectors:
    """One vector of cells for each unit of a level, without the core cells that are zero by public knowledge.

    Units with the same possible cells share an array, units x possible core cells x copies. It begins as zeros;
    :meth:`add` makes it the evidence h = SᵀWy, measurement by measurement, in any order.

    Args:
        sectors: Core and free axes.
        possible: Units x core: whether a cell can be other than zero.
        dtype: 32 bits are enough for the evidence of blocks, and take half of the memory.
    """

    def __init__(self, sectors: Sectors, possible: Booleans, dtype: type[np.floating[Any]] = np.float64):
        self.sectors = sectors
        patterns, pattern = distinct_rows(possible)
        order = np.argsort(pattern, kind="stable")
        ends = np.searchsorted(pattern[order], np.arange(len(patterns) + 1))
        self.units: list[Integers] = [order[a:b] for a, b in pairwise(ends)]
        """For each array its units, rising."""
        self.cells: list[Integers] = [np.flatnonzero(row) for row in patterns]
        """For each array its core cells."""
        self.arrays: list[NDArray[Any]] = [
            np.zeros((len(units), len(cells), sectors.copies), dtype)
            for units, cells in zip(self.units, self.cells, strict=True)
        ]
        self.pattern = pattern
        """For each unit the number of its array."""
        self.place = np.empty(len(possible), np.int64)
        """For each unit its row there."""
        for units in self.units:
            self.place[units] = np.arange(len(units))

    @classmethod
    def dense(cls, sectors: Sectors, units: int) -> CellVectors:
        """One array with all core cells of all units."""
        return cls(sectors, np.ones((units, sectors.size), bool))

    def add(self, units: Integers, query: SectorQuery, values: NDArray[Any], precision: Floats) -> None:
        """Adds SᵀWy of one query in some units, each of them once.

        Args:
            units: Their numbers.
            query: What was measured.
            values: Units x cells of the query, in C order of its shape.
            precision: One over the variance of the noise, for each unit.
        """
        arranged = query.arranged(values)
        shape = (-1, *(1 for _ in arranged.shape[2:]))
        for number in np.unique(self.pattern[units]).tolist():
            rows = np.flatnonzero(self.pattern[units] == number)
            groups = query.groups[self.cells[number]]
            inside = groups >= 0
            scale = precision[rows, None] / query.sizes[groups[inside]][None, :]
            part = arranged[np.ix_(rows, groups[inside])] * scale.reshape(len(rows), *shape)
            array = self.arrays[number]
            shaped = array.reshape(*array.shape[:2], *self.sectors.free_shape)
            place = self.place[units[rows]]
            if inside.all():
                shaped[place] += part
            else:
                shaped[np.ix_(place, np.flatnonzero(inside))] += part

    def answers(self, units: Integers, query: SectorQuery) -> Floats:
        """S x of a query for vectors x of some units: units x groups x free axes (1 where summed out)."""
        summed = tuple(2 + axis for axis, keeps in enumerate(query.kept) if not keeps)
        kept = tuple(n if keeps else 1 for n, keeps in zip(self.sectors.free_shape, query.kept, strict=True))
        result = np.zeros((len(units), len(query.sizes), *kept))
        for number in np.unique(self.pattern[units]).tolist():
            rows = np.flatnonzero(self.pattern[units] == number)
            array = self.arrays[number][self.place[units[rows]]]
            added = array.reshape(*array.shape[:2], *self.sectors.free_shape).sum(axis=summed, keepdims=True)
            for column, group in enumerate(query.groups[self.cells[number]].tolist()):
                if group >= 0:
                    result[rows, group] += added[:, column]
        return result

    def histogram(self, units: Integers) -> Floats:
        """The cells of some units: units x histogram."""
        dense = np.zeros((len(units), self.sectors.size, self.sectors.copies))
        for number in np.unique(self.pattern[units]).tolist():
            rows = np.flatnonzero(self.pattern[units] == number)
            dense[np.ix_(rows, self.cells[number])] = self.arrays[number][self.place[units[rows]]]
        return np.asarray(self.sectors.in_histogram_order(dense), np.float64)

    def summed(self, into: Integers, number: int) -> Floats:
        """Sums of the vectors of units by group: groups x core x copies. ``into`` has the group of each unit, or −1."""
        result = np.zeros((number, self.sectors.size, self.sectors.copies))
        for units, cells, array in zip(self.units, self.cells, self.arrays, strict=True):
            group = into[units]
            order = np.argsort(group, kind="stable")
            order = order[group[order] >= 0]
            for part in in_parts(len(order)):
                rows = order[part]
                starts = np.flatnonzero(np.append(True, np.diff(group[rows]) != 0))
                sums = np.add.reduceat(array[rows].astype(np.float64), starts, axis=0)
                result[np.ix_(group[rows][starts], cells)] += sums
        return result


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

    def estimates(self, answers: Floats) -> Floats:
        """The answers to ``base`` of some units, as :meth:`CellVectors.answers` has them, by cell: units x cells."""
        result = answers
        for place, groups in enumerate(self._free):
            if groups is not None and not self._as_they_are[place]:
                result = np.moveaxis(np.moveaxis(result, 2 + place, -1) @ _indicator(groups), -1, 2 + place)
        return self.arranged(result.reshape(len(answers), len(self.base.sizes), -1))

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


def distinct_rows(mask: Booleans) -> tuple[Booleans, Integers]:
    """The different rows of a mask, and for each row which of them it is."""
    if not mask.shape[1]:
        return mask[:1], np.zeros(len(mask), np.int64)
    packed = np.packbits(mask, axis=1)
    as_bytes = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(as_bytes, return_index=True, return_inverse=True)
    return mask[first], inverse.reshape(-1).astype(np.int64)


MOST_CORE_CELLS = 1_024
"""The largest core: a matrix of this size is inverted for every kind of unit."""


def check_core(sectors: Sectors) -> None:
    """Refuses a histogram with too many cells that are not alike."""
    if sectors.size > MOST_CORE_CELLS:
        raise ParameterError("too-many-cells/histogram-alike", size=sectors.size, most_core_cells=MOST_CORE_CELLS)
