"""Truth plus noise: the one function of the mechanism in which true counts and noise meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.noise import NoiseStream, ReleaseNoise, perturb
from confide.schema import Query

COUNT = "count"


@dataclass(frozen=True)
class MeasuredMargin:
    """One margin of a table on one level: the axes of the table it sums over, its noise and its stream."""

    summed_axes: tuple[int, ...]
    cells: int
    law: ReleaseNoise
    stream: NoiseStream


@dataclass(frozen=True)
class MeasurePart:
    """Measures a run of consecutive units of one level, all margins of one table.

    The counts come out by unit, by margin, by cell. The noise of unit u and cell c of a margin with m cells has the
    coordinate u*m + c of the margin's stream, so that any split into groups gives the same numbers.
    """

    shape: tuple[int, ...]
    units: int
    units_per_part: int
    margins: tuple[MeasuredMargin, ...]

    def __call__(self, first: int, rows: pa.Table) -> pa.Table:
        units = min(self.units_per_part, self.units - first)
        truth = dense_counts(rows, first, units, self.shape)
        measured = []
        for margin in self.margins:
            counts = margin_counts(truth, margin.summed_axes, units)
            noisy = perturb(counts, margin.law, margin.stream, start=first * margin.cells)
            measured.append(noisy.reshape(units, margin.cells))
        return pa.table({COUNT: np.concatenate(measured, axis=1).ravel()})


def summed_axes(query: Query, margin: Query) -> tuple[int, ...]:
    """The axes of a table's cells that a margin sums over; axis 0 is the unit."""
    return tuple(axis for axis, variable in enumerate(query.variables, start=1) if variable not in margin.variables)


def dense_counts(rows: pa.Table, first: int, units: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The true counts of ``units`` units from ``first`` on, zero where there is no row."""
    cells = int(np.prod(shape, dtype=np.int64))
    counts = np.zeros(units * cells, np.int64)
    unit = rows.column("unit").to_numpy().astype(np.int64) - first
    counts[unit * cells + rows.column("cell").to_numpy()] = rows.column("n").to_numpy()
    return counts.reshape(units, *shape)


def margin_counts(truth: NDArray[np.int64], axes: tuple[int, ...], units: int) -> NDArray[np.int64]:
    """The counts of a margin, unit by unit, as a flat array of its own."""
    return np.array(truth.sum(axis=axes, dtype=np.int64)).reshape(units, -1).ravel()
