"""Measurements of marginals, seen through their symmetry: large histograms as a few small problems.

A histogram has one axis for each attribute. A query sums an axis out, keeps it as it is, or groups its levels. An axis
that no query groups, and that nothing else tells levels of apart, is *free*: all measurements together look the same
after any permutation of its levels. On a free axis of size n every query acts as one number on the mean, and as another
on deviations from it:

    kept:  1 and 1;      summed out:  n and 0

since the matrix of ones has the eigenvalue n once, and 0 otherwise. So the information matrix SᵀWS is block-diagonal
with one *sector* for each choice of mean or deviation on every free axis, and the block of a sector is a matrix M on
the *core*, the cells of the other axes, the same for all deviations. Sums over the children of a unit, inverses and
everything else that two-pass least squares does stay within sectors. For the redistricting histogram, 2,016 cells, the
core has 16 and there are 4 sectors. Proof: ``docs/proofs/release-risk.md``, section 3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from confide.arrays import Floats, Integers

Grouping = Mapping[int, Integers]
"""A query: for each axis that it does not sum out, the group of each level (−1: in none)."""


@dataclass(frozen=True)
class Exchangeable:
    """The free axes and the core of a histogram."""

    shape: tuple[int, ...]
    free: tuple[int, ...]

    @classmethod
    def of(cls, shape: Sequence[int], queries: Iterable[Grouping], told_apart: Collection[int] = ()) -> Exchangeable:
        """What is free for these queries. ``told_apart``: axes whose levels are not alike for another reason."""
        grouped = {axis for query in queries for axis, groups in query.items() if not _keeps_levels(groups)}
        free = tuple(axis for axis in range(len(shape)) if axis not in grouped and axis not in told_apart)
        return cls(tuple(shape), free)

    @cached_property
    def core(self) -> tuple[int, ...]:
        """The axes that are not free."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.free)

    @cached_property
    def core_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.core)

    @property
    def size(self) -> int:
        """The number of core cells."""
        return prod(self.core_shape)

    @property
    def copies(self) -> int:
        """How many cells of the histogram each core cell stands for."""
        return prod(self.shape[axis] for axis in self.free)

    @cached_property
    def sectors(self) -> tuple[tuple[bool, ...], ...]:
        """For each sector, whether each free axis deviates. The first is the mean on all of them; an axis with one
        level has no deviations."""
        return tuple(product(*((False, True) if self.shape[axis] > 1 else (False,) for axis in self.free)))

    def groups(self, query: Grouping) -> Integers:
        """For each core cell the group that it adds to, counted without the free axes, or −1."""
        result = np.zeros(self.core_shape, np.int64)
        outside = np.zeros(self.core_shape, bool)
        for place, axis in enumerate(self.core):
            if axis not in query:
                continue
            shape = [-1 if other == place else 1 for other in range(len(self.core))]
            assigned = query[axis].reshape(shape)
            result = result * (int(query[axis].max()) + 1) + assigned
            outside |= assigned < 0
        result[outside] = -1
        return np.unique(result.ravel(), return_inverse=True)[1].reshape(-1) - int(outside.any())

    def members(self, query: Grouping) -> Floats:
        """The groups of a query as indicators of core cells: groups x core."""
        groups = self.groups(query)
        inside: NDArray[np.bool_] = groups[None, :] == np.arange(groups.max() + 1)[:, None]
        return inside.astype(float)

    def information(self, queries: Sequence[tuple[Grouping, float]]) -> Floats:
        """M of each sector for queries measured with these precisions: sectors x core x core."""
        result = np.zeros((len(self.sectors), self.size, self.size))
        for query, precision in queries:
            members = self.members(query)
            alike = members.T @ members
            for number, sector in enumerate(self.sectors):
                result[number] += precision * self._factor(query, sector) * alike
        return result

    def weights(self, query: Grouping) -> Floats:
        """w with Var(count) = Σ_sectors w · gᵀVg, for one count of a query whose core cells have the indicator g."""
        return self._weights(query)

    def weights_across(self, query: Grouping, axis: int) -> Floats:
        """The same for the covariance of two counts that differ in the level of a free axis alone."""
        return self._weights(query, axis)

    @property
    def total(self) -> Floats:
        """The number of everybody, up to a factor, as a vector of the first sector."""
        return np.ones(self.size)

    def _factor(self, query: Grouping, sector: Sequence[bool]) -> float:
        kept = (
            1.0 if axis in query else 0.0 if deviates else float(self.shape[axis])
            for axis, deviates in self._of(sector)
        )
        return prod(kept)

    def _weights(self, query: Grouping, across: int | None = None) -> Floats:
        result = []
        for sector in self.sectors:
            weight = 1.0
            for axis, deviates in self._of(sector):
                n = self.shape[axis]
                if axis not in query:
                    weight *= 0.0 if deviates else n
                elif axis == across:
                    weight *= -1 / n if deviates else 1 / n
                else:
                    weight *= 1 - 1 / n if deviates else 1 / n
            result.append(weight)
        return np.array(result)

    def _of(self, sector: Sequence[bool]) -> Iterable[tuple[int, bool]]:
        return zip(self.free, sector, strict=True)


def _keeps_levels(groups: Integers) -> bool:
    return bool((groups >= 0).all()) and len(np.unique(groups)) == len(groups)
