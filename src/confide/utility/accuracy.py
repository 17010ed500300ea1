"""How far a release is from the truth: pure functions of two arrays. Their results are confidential."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZE_CLASSES: tuple[tuple[str, int, int | None], ...] = (
    ("0", 0, 0),
    ("1 to 9", 1, 9),
    ("10 to 99", 10, 99),
    ("100 to 999", 100, 999),
    ("1,000 to 9,999", 1_000, 9_999),
    ("10,000 and over", 10_000, None),
)
"""Classes of the true size of a cell: label, smallest, largest."""


@dataclass(frozen=True)
class ErrorSums:
    """Sums over cells from which every summary of the error follows; sums of parts are sums of the whole."""

    cells: int = 0
    truth: int = 0
    error: int = 0
    absolute: int = 0
    squared: int = 0
    within: int = 0

    def __add__(self, other: ErrorSums) -> ErrorSums:
        return ErrorSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def mean_error(self) -> float:
        """The mean of (released less true): the bias."""
        return self.error / self.cells

    @property
    def mean_absolute_error(self) -> float:
        return self.absolute / self.cells

    @property
    def root_mean_squared_error(self) -> float:
        return float((self.squared / self.cells) ** 0.5)

    @property
    def share_within_margin(self) -> float:
        """The share of cells whose error is at most the noise margin."""
        return self.within / self.cells

    @property
    def mean_truth(self) -> float:
        """The mean true count."""
        return self.truth / self.cells

    def as_dict(self) -> dict[str, Any]:
        return {
            "cells": self.cells,
            "mean_error": self.mean_error,
            "mean_absolute_error": self.mean_absolute_error,
            "root_mean_squared_error": self.root_mean_squared_error,
            "share_within_margin": self.share_within_margin,
        }


def error_sums(truth: NDArray[np.int64], released: NDArray[np.int64], margin: int) -> ErrorSums:
    """The sums for cells with true counts ``truth`` that were released as ``released``."""
    error = released - truth
    return ErrorSums(
        error.size,
        int(truth.sum()),
        int(error.sum()),
        int(np.abs(error).sum()),
        int((error * error).sum()),
        int((np.abs(error) <= margin).sum()),
    )


def by_size_class(truth: NDArray[np.int64], released: NDArray[np.int64], margin: int) -> dict[str, ErrorSums]:
    """The sums for each class of the true size that has cells."""
    result = {}
    for label, smallest, largest in SIZE_CLASSES:
        chosen = truth >= smallest if largest is None else (truth >= smallest) & (truth <= largest)
        if chosen.any():
            result[label] = error_sums(truth[chosen], released[chosen], margin)
    return result
