"""Queries of any grouping on a histogram in sectors: their answers, and the variances of their cells.

A query of :mod:`~confide.estimation.sectors` keeps a free axis or sums it out, as what is measured does. What is asked
may group the levels of a free axis besides. A cell is then a set of core cells g times, on each free axis of n levels,
a set of k levels, and its variance is the sum over sectors of

    gᵀ V g  x  the product over free axes of  (k²/n for the mean, k − k²/n for deviations; n and 0 where summed out).

Derivation: ``docs/proofs/whole-tree.md``, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from confide.arrays import Floats, Integers
from confide.estimation.sectors import Sectors
from confide.estimation.tree_gls import TreeEstimates


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
            if groups is not None:
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
        levels = np.ones(1)
        for groups, n in zip(self._free, self.sectors.free_shape, strict=True):
            k = np.array([n]) if groups is None else np.bincount(groups[groups >= 0], minlength=int(groups.max()) + 1)
            levels = np.multiply.outer(levels, k).ravel()
        return self.arranged(forms[:, :, None] * levels)


def _indicator(groups: Integers) -> Floats:
    inside: NDArray[np.bool_] = groups[:, None] == np.arange(int(groups.max()) + 1)[None, :]
    return inside.astype(np.float64)
