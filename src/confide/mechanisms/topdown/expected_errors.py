"""How far off released figures may be expected to be, from the plan alone: nothing here looks at a record.

If estimates were least squares and nothing else, the error of a released figure would be a sum of independent noise:
over the levels of the spine, how much of each level's noise the area has (:class:`~.evaluate.NoiseTheory`), times the
variance v of the figure in a unit of the level. With the information M of the level's measurements in sectors,
C = M⁻¹ on possible cells, s the figure's cells and 1 all cells,

    v = sᵀCs − (sᵀC1)²/1ᵀC1 + (sᵀC1/1ᵀC1)² σ_T²,

σ_T² being the variance of the total where it has a pass of its own, zero where it is known, and 1ᵀC1 elsewhere. It is
what ``evaluate`` has as the noise alone, without a matrix of all cells.

Figures are never below zero, which takes errors away where people are few. So for figures of a size the expected
error is that of max(0, n + E), E normal with the variance of the figure: ``docs/concepts/inference.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa
from scipy.special import ndtr

from confide.arrays import Floats, Integers
from confide.estimation.sector_cells import SectorCells
from confide.mechanisms.topdown.evaluate import NoiseTheory
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.strategy import LevelStrategy, law_of
from confide.mechanisms.topdown.whole_tree import sectors_of
from confide.schema import TOTAL

KNOWN = 1e-9
"""A variance below this part of another is none."""


class ReleasedNoise:
    """The noise of released figures, by level of the spine and by area."""

    def __init__(self, problem: TopDownProblem):
        self._problem = problem
        self._theory = NoiseTheory(problem)
        self.sectors, self._queries = sectors_of(problem.strategy, public_zeros=False)
        zero = problem.strategy.constraints.zero_cells(problem.strategy.schema).reshape(self.sectors.shape)
        self._possible = np.flatnonzero(~np.asarray(zero.all(axis=self.sectors.free)).ravel())

    def variances(self, groups: Mapping[int, Integers], areas: Integers, number: int) -> Floats:
        """The variance of the cells of a query in areas: areas x cells.

        Args:
            groups: The query: for each axis that is not summed out the group of each level.
            areas: For each row of the frame its area, or −1 for none.
            number: How many areas there are.
        """
        cells = SectorCells(self.sectors, groups)
        of_level = np.stack([self._within(place, cells, total=not groups) for place in range(len(self._levels))])
        parts = self._theory.contributions(areas, number, total=not groups)
        # A level that nothing is measured on tells nothing; its units are their parents, or their parents' rest.
        return np.asarray(parts @ np.nan_to_num(of_level), np.float64)

    @cached_property
    def _levels(self) -> list[LevelStrategy]:
        return [level_strategy for level_strategy, _ in self._problem.levels()]

    def _within(self, place: int, cells: SectorCells, *, total: bool) -> Floats:
        """v of each cell in a unit with the share of its level."""
        level = self._levels[place]
        if not level.share:
            return np.zeros(cells.cells)
        covariance, of_total = self._covariance[place]
        own, with_total = cells.variances(covariance)[0], cells.total_covariances(covariance)[0]
        everybody = float(covariance[0, 0].sum()) * self.sectors.copies
        beside = own - with_total**2 / everybody
        beside[beside < KNOWN * own] = 0
        if self._theory.known(place) and not (total and self._theory.together):
            return np.asarray(beside, np.float64)
        if of_total is None:
            return np.asarray(own, np.float64)
        return np.asarray(beside + (with_total / everybody) ** 2 * of_total, np.float64)

    @cached_property
    def _covariance(self) -> list[tuple[Floats, float | None]]:
        """For each level C in sectors, and the variance of a total that has a pass of its own."""
        result: list[tuple[Floats, float | None]] = []
        for level in self._levels:
            if not level.share:
                result.append((np.zeros(0), None))
                continue
            laws = {query.name: law_of(self._problem.strategy, level, query) for query in level.queries}
            own_pass = level.estimation.least_squares[0]
            alone = own_pass.queries == own_pass.constrain == (TOTAL,) and TOTAL in laws
            of_total = laws.pop(TOTAL).variance() if alone else None
            information = self.sectors.information(
                (self._queries[name], 1 / law.variance()) for name, law in laws.items()
            )
            matrix = np.zeros((1, *information.shape))
            inner = np.ix_(np.arange(len(information)), self._possible, self._possible)
            matrix[0][inner] = np.linalg.pinv(information[inner], rcond=1e-12, hermitian=True)
            result.append((matrix, of_total))
        return result


def expected_absolute_error(size: Floats | float, sd: Floats | float) -> Floats:
    """E|max(0, n + E) − n| for E ~ N(0, sd²): how far a figure that cannot be below zero is off on average.

    Args:
        size: The true figure n.
        sd: The standard deviation of its noise.

    >>> expected_absolute_error(np.array([0.0, 1000.0]), 2.0).round(3)
    array([0.798, 1.596])
    """
    n, s = np.broadcast_arrays(np.asarray(size, np.float64), np.asarray(sd, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(s > 0, n / s, np.inf)
    density = np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    # The upper half, the part down to zero, and everything below zero, which is off by n.
    upper, middle = s / np.sqrt(2 * np.pi), s * (1 / np.sqrt(2 * np.pi) - density)
    return np.asarray(upper + middle + np.where(s > 0, n * ndtr(-t), 0.0), np.float64)


SIZES = ((0, 0), (1, 4), (5, 19), (20, 99), (100, 999), (1000, None))
"""Classes of figures, from and to."""
MOST_ACCURACY_CELLS = 300
MARGIN = 1.6448536269514722
"""Half the width of a 90 % interval, in standard deviations."""


def accuracy_table(problem: TopDownProblem) -> pa.Table:
    """Expected errors of released figures, by kind of area, query and size of the figure: from the plan alone.

    Args:
        problem: Strategy, frame and spine; no record is looked at.

    Returns:
        One row for each official level or kind of area, query of at most 300 cells and class of figures, with the
        columns of :data:`ACCURACY`.
    """
    noise = ReleasedNoise(problem)
    frame, names = problem.frame.spine, [attribute.name for attribute in problem.strategy.schema.attributes]
    measured = (share.name for level in problem.strategy.levels for share in level.queries)
    rows = []
    for query in dict.fromkeys((TOTAL, *measured)):
        resolved = problem.strategy.query(query)
        if resolved.cells > MOST_ACCURACY_CELLS:
            continue
        groups = {names.index(v.attribute.name): v.assignment.astype(np.int64) for v in resolved.variables}
        for level in (*frame.levels, *frame.areas):
            there = np.unique(level.unit_of_block[problem.spine.rows])
            there = there[there >= 0]
            if not len(there):
                continue
            variance = noise.variances(groups, level.unit_of_block, level.units)[there]
            sd = np.sqrt(np.maximum(variance, 0.0))
            for low, high in SIZES:
                size = float(low) if high is None else float(np.sqrt(max(low, 1) * high)) if high else 0.0
                error = float(expected_absolute_error(size, sd).mean())
                rows.append(
                    {
                        "geography": level.name,
                        "areas": len(there),
                        "query": query,
                        "cells": resolved.cells,
                        "size": f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}",
                        "figure": size,
                        "sd": float(np.sqrt(np.mean(variance))),
                        "margin_90": MARGIN * float(np.sqrt(np.mean(variance))),
                        "expected_error": error,
                        "expected_percent": 100 * error / size if size else None,
                    }
                )
    return pa.Table.from_pylist(rows, schema=ACCURACY)


def _column(name: str, kind: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, kind, metadata={"description": description})


ACCURACY = pa.schema(
    [
        _column("geography", pa.string(), "level or kind of area"),
        _column("areas", pa.int64(), "how many there are"),
        _column("query", pa.string(), "what is counted"),
        _column("cells", pa.int64(), "figures of an area"),
        _column("size", pa.string(), "class of figures"),
        _column("figure", pa.float64(), "the figure that stands for the class"),
        _column("sd", pa.float64(), "root of the mean variance of the noise alone"),
        _column("margin_90", pa.float64(), "90 per cent of such noise is within this of zero"),
        _column("expected_error", pa.float64(), "expected absolute error of a figure that cannot be below zero"),
        _column("expected_percent", pa.float64(), "the same in per cent of the figure"),
    ]
)
"""The columns of :func:`accuracy_table`."""
