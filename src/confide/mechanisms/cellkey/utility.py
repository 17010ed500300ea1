"""What the noise does to a table, measured against the truth. Confidential.

For a cell with the true count n and the published count p,

    AD  = |p − n|             absolute deviation
    RAD = |p − n| / n         relative absolute deviation
    DR  = |√p − √n|           distance of roots

each with mean, median, largest value, deciles, 95 and 99 per cent points, and the share of cells at or below fixed
points. A *false zero* is a cell of somebody that is published as zero; a *false non-zero* one of nobody that is not.

All is told twice: over cells with somebody in them, and over all cells. Noise leaves empty cells alone, so they have no
deviation, and many of them make any table look good. RAD is not defined for a false non-zero, which is then left out.

A quantile at q of n sorted values lies at the place (n − 1) q, between two values in proportion. Reference: measures of
the R package ``cellKey`` and of tau-ARGUS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

POINTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Spread:
    """How a measure is distributed over cells."""

    cells: int
    mean: float
    median: float
    largest: float
    deciles: tuple[float, ...]
    p95: float
    p99: float
    ecdf: tuple[tuple[float, float], ...]
    """Points with the share of cells at or below each."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "cells": self.cells,
            "mean": self.mean,
            "median": self.median,
            "max": self.largest,
            "deciles": list(self.deciles),
            "p95": self.p95,
            "p99": self.p99,
            "ecdf": [{"at": at, "share": share} for at, share in self.ecdf],
        }


def spread(values: Floats, zeros: int = 0, points: tuple[float, ...] = POINTS) -> Spread | None:
    """The distribution of values that are not negative, and of so many zeros besides; None where there is no cell."""
    cells = len(values) + zeros
    if not cells:
        return None
    ordered = np.sort(values)

    def at(place: int) -> float:
        return 0.0 if place < zeros else float(ordered[place - zeros])

    def quantile(hundredths: int) -> float:
        # Whole numbers up to the last step: (n - 1) q in floating point can fall short of a whole number.
        whole, rest = divmod((cells - 1) * hundredths, 100)
        return at(whole) if not rest else at(whole) + (at(whole + 1) - at(whole)) * rest / 100

    shares = [(point, (zeros + int(np.searchsorted(ordered, point, side="right"))) / cells) for point in points]
    return Spread(
        cells,
        float(ordered.sum()) / cells,
        quantile(50),
        at(cells - 1),
        tuple(quantile(10 * k) for k in range(1, 10)),
        quantile(95),
        quantile(99),
        tuple(shares),
    )


@dataclass(frozen=True, eq=False)
class Compared:
    """True and published counts of the cells where one of them is not zero, and how many others there are."""

    true: Integers
    published: Integers
    others: int

    def __repr__(self) -> str:
        return "<confidential>"

    @property
    def cells(self) -> int:
        """The number of all cells."""
        return len(self.true) + self.others

    def as_dict(self) -> dict[str, Any]:
        """Every measure."""
        occupied = self.true > 0
        deviation = (self.published - self.true)[occupied]
        return {
            "cells": self.cells,
            "empty_cells": self.cells - int(occupied.sum()),
            "false_zeros": int(((self.published == 0) & occupied).sum()),
            "false_nonzeros": int((~occupied).sum()),
            "unchanged": int((deviation == 0).sum()),
            "mean_error": float(deviation.mean()) if len(deviation) else None,
            "without_empty": _measures(self.true[occupied], self.published[occupied], 0),
            "with_empty": _measures(self.true, self.published, self.others),
        }


def compared(true: Integers, published: Integers) -> Compared:
    """All cells of a cross-classification."""
    at = np.flatnonzero((true != 0) | (published != 0))
    return Compared(true[at], published[at], len(true) - len(at))


def joined(parts: list[Compared]) -> Compared:
    """The cells of several cross-classifications."""
    nobody = np.zeros(0, np.int64)
    return Compared(
        np.concatenate([nobody, *(part.true for part in parts)]),
        np.concatenate([nobody, *(part.published for part in parts)]),
        sum(part.others for part in parts),
    )


def _measures(true: Integers, published: Integers, zeros: int) -> dict[str, Any]:
    absolute = np.abs(published - true)
    largest = int(absolute.max()) if len(absolute) else 0
    roots = np.abs(np.sqrt(published.astype(np.float64)) - np.sqrt(true.astype(np.float64)))
    relative = absolute[true > 0] / true[true > 0]
    # Deviations of counts are whole: below one, their shares are all the same.
    points = (*POINTS, *(float(point) for point in range(1, min(largest, 100) + 1)))
    result = {
        "AD": spread(absolute.astype(np.float64), zeros, points),
        "RAD": spread(relative, zeros),
        "DR": spread(roots, zeros),
    }
    return {name: None if found is None else found.as_dict() for name, found in result.items()}
