"""What an attacker expects of an area before looking at its own figures: from the areas that it lies in.

*Kinds.* The figures of the coarsest area give a distribution of kinds of people, by a proportional fit that starts from
all kinds alike; those of the next area below correct it, and so on down to the area above the one that is attacked. The
figures of an area itself are never part of its prior: they are its likelihood. Where nothing is published above, the
other areas of the same level together take that place.

*Sizes.* The noisy totals of all areas of a level show how large these are: of all distributions of sizes, the one that
makes the totals likeliest (Kiefer and Wolfowitz 1956), found by EM on a grid of sizes. It knows that many areas are
empty, without which noise above zero would people all of them.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from confide.attacks.reconstruction.random_walk import proportional_fit
from confide.attacks.reconstruction.space import Layer, layer
from confide.releases.published import Floats, Integers
from confide.schema import NO_GROUP

if TYPE_CHECKING:
    from confide.attacks.reconstruction.integer_program import ProgramStructure

SWEEPS = 60
"""How often a proportional fit goes through all figures at most."""
FROM_NOTHING = 4
"""A fit that starts from all kinds alike is started so often, each time from the last: of that start nothing is left
where figures speak."""
EXACT_VARIANCE = 1e-3
"""What stands for the variance of an exact figure in a proportional fit."""
SMOOTHING = 1e-3
"""The share of a distribution of kinds that is taken from the area above, or from all kinds alike."""
KEPT = 64
"""How many areas' distributions a process remembers."""
GRID, EM_ROUNDS = 300, 60
FEWEST_AREAS = 20
"""With fewer areas nothing is learnt about sizes: all are equally likely."""


class AreaRows:
    """All figures of one level as rows over the cells of a space."""

    def __init__(self, layers: list[Layer]):
        self.layers = layers
        rows, columns, base = [], [], 0
        for item in layers:
            inside = np.flatnonzero(item.assignment != NO_GROUP)
            rows.append(base + item.assignment[inside])
            columns.append(inside)
            base += item.size
        row, column = np.concatenate(rows), np.concatenate(columns)
        order = np.argsort(row, kind="stable")
        self.column: Integers = column[order].astype(np.int64)
        self.start: Integers = np.searchsorted(row[order], np.arange(base + 1)).astype(np.int64)

    @cached_property
    def variance(self) -> Floats:
        """For each row the variance of its figure; where groups were joined, of the sum."""
        parts = []
        for item in self.layers:
            one = EXACT_VARIANCE if item.marginal.variance is None else float(item.marginal.variance)
            joined = (
                np.ones(item.size) if item.fold is None else np.bincount(item.fold[item.fold >= 0], None, item.size)
            )
            parts.append(np.maximum(one * np.maximum(joined, 1.0), EXACT_VARIANCE))
        return np.concatenate(parts)

    def figures(self, unit: int) -> Floats:
        """The figures of a unit, NaN where unknown."""
        return np.concatenate([item.counts(unit) for item in self.layers])

    def everybody(self, figures: Floats) -> float:
        """About how many people a unit has: the median of the sums of whole tables."""
        ends = np.cumsum([item.size for item in self.layers])
        parts = np.split(figures, ends[:-1])
        sums = [
            float(part.sum()) for item, part in zip(self.layers, parts, strict=True) if item.marginal.query.is_complete
        ]
        sums = [each for each in sums if np.isfinite(each)]
        return float(np.median(sums)) if sums else float(np.nansum(np.maximum(parts[-1], 0.0)))


class Prior:
    """The prior of the units of an attack's level; see the module."""

    def __init__(self, structure: ProgramStructure):
        self.structure = structure
        self.published = structure.published
        self.kinds = lru_cache(maxsize=KEPT)(self._kinds)

    @cached_property
    def above(self) -> tuple[int, ...]:
        """The levels with figures above that of the attack, the finest first."""
        return tuple(sorted({item.depth for item in self.published.marginals if item.depth > self.structure.depth}))

    @cached_property
    def rows(self) -> dict[int, AreaRows]:
        """The figures of each level above, or of the attack's own where there is none."""
        depths = self.above or (self.structure.depth,)
        return {
            depth: AreaRows(
                [layer(self.structure.space, item) for item in self.published.marginals if item.depth == depth]
            )
            for depth in depths
        }

    @cached_property
    def alike(self) -> Floats:
        """All possible kinds, equally likely."""
        shares = np.zeros(self.structure.space.cells)
        shares[self.structure.allowed] = 1.0 / max(len(self.structure.allowed), 1)
        return shares

    def of_unit(self, unit: int, block: int) -> Floats | None:
        """The distribution of kinds in a unit of the attack's level, one of whose blocks is given.

        Returns:
            Shares, shape (cells,); None if nothing but the unit's own figures is published.
        """
        if self.above:
            depth = self.above[0]
            return self.kinds(depth, int(self.published.geography.unit_of_block[depth][block]), block)
        others = len(self.published.geography.units[self.structure.depth]) - 1
        if self.structure.depth or others < 1:
            return None
        rows = self.rows[0]
        return self._fitted(rows, self._sums[0] - rows.figures(unit), others, self.alike, FROM_NOTHING)

    def _kinds(self, depth: int, unit: int, block: int) -> Floats:
        place = self.above.index(depth)
        rows = self.rows[depth]
        if place + 1 == len(self.above):
            return self._fitted(rows, rows.figures(unit), 1, self.alike, FROM_NOTHING)
        higher = self.above[place + 1]
        # A block stands for its unit on every level, the first of the unit, so that the answer is kept once.
        over = self.kinds(higher, *self._first(higher, int(self.published.geography.unit_of_block[higher][block])))
        return self._fitted(rows, rows.figures(unit), 1, over, 1)

    def _first(self, depth: int, unit: int) -> tuple[int, int]:
        return unit, int(self._first_blocks[depth][unit])

    @cached_property
    def _first_blocks(self) -> dict[int, Integers]:
        geography = self.published.geography
        return {depth: np.unique(geography.unit_of_block[depth], return_index=True)[1] for depth in self.above}

    def _fitted(self, rows: AreaRows, figures: Floats, units: int, start: Floats, times: int) -> Floats:
        """Shares of kinds that fit the figures of so many units together, from a distribution to start with."""
        shares, people = start, max(rows.everybody(figures), 1.0)
        for _ in range(times):
            counts = proportional_fit(rows.start, rows.column, figures, rows.variance * units, shares * people, SWEEPS)
            if not counts.sum() > 0:
                return start
            shares = counts / counts.sum()
        mixed: Floats = (1 - SMOOTHING) * shares + SMOOTHING * start
        return mixed

    @cached_property
    def _sums(self) -> tuple[Floats]:
        """The figures of all units of the attack's level added up."""
        units = len(self.published.geography.units[self.structure.depth])
        rows = self.rows[self.structure.depth]
        total = rows.figures(0)
        for unit in range(1, units):
            total = total + rows.figures(unit)
        return (total,)

    @cached_property
    def log_size(self) -> Floats:
        """The logarithm of the probability of each size 0, 1, …, the last for all beyond; one zero: all alike."""
        flat = np.zeros(1)
        items = [item for item in self.published.marginals if item.depth == self.structure.depth]
        totals = [
            (item.totals, float(item.variance or 0) * item.query.cells) for item in items if item.totals is not None
        ]
        if self.structure.depth or not totals or any(variance == 0 for _, variance in totals):
            return flat
        weight = sum(1.0 / variance for _, variance in totals)
        figure = np.sum([np.asarray(total) / variance for total, variance in totals], axis=0) / weight
        figure = figure[np.isfinite(figure)]
        if len(figure) < FEWEST_AREAS:
            return flat
        return log_sizes(figure, 1.0 / weight)


def log_sizes(totals: Floats, variance: float) -> Floats:
    """The distribution of sizes that makes noisy totals likeliest.

    Args:
        totals: One noisy total for each area, shape (areas,).
        variance: That of their noise, about normal.

    Returns:
        The logarithm of the probability of each size 0, 1, …, up to beyond the largest total.
    """
    deviation = variance**0.5
    largest = int(max(totals.max(), 0.0) + 4 * deviation) + 2
    grid = np.unique(np.rint(np.concatenate([np.arange(50), np.geomspace(1, largest + 1, GRID) - 1])).astype(np.int64))
    grid = grid[grid <= largest]
    likelihood = np.exp(-np.minimum((totals[:, None] - grid) ** 2 / (2 * variance), 300.0)) + 1e-300
    width = np.diff(np.append(grid, grid[-1] + max(1, int(grid[-1] - grid[-2]) if len(grid) > 1 else 1)))
    mass = width / width.sum()
    for _ in range(EM_ROUNDS):
        shares = likelihood * mass
        mass = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    # Between the points of the grid the same probability for each size; nothing is quite impossible.
    each = np.repeat(mass / width, width)[: largest + 1]
    return np.asarray(np.log(0.99 * each / each.sum() + 0.01 / len(each)))
