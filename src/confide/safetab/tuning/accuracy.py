"""How large a group must be for a table to be worth its noise.

A table with c cells of a group of n persons has n/c persons in a cell on average. Its **relative error** is the 95 %
noise margin of a cell, m, over that average: m c / n. The total of the table is the sum of c noisy cells; its relative
error is the noise margin of that sum over n.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from confide.noise import DiscreteGaussian, Law, TwoSidedGeometric
from confide.safetab.tuning.laws import margin_of
from confide.safetab.tuning.question import COVERAGE

_WIDEST = 1000
"""Sums of noise with a larger standard deviation are computed for this one and scaled: right to one in a thousand."""


def size_for(margin: int, cells: int, relative_error: Fraction) -> int:
    """The smallest population with ``margin * cells / population <= relative_error``."""
    return ceil(margin * cells / relative_error)


@lru_cache(maxsize=1024)
def sum_margin(law: Law, cells: int) -> int:
    """The 95 % noise margin of the sum of ``cells`` independent draws, to double precision."""
    if cells == 1:
        return margin_of(law)
    deviation = sqrt(law.variance())
    if deviation > _WIDEST:
        factor = ceil(deviation / _WIDEST)
        narrow = (
            DiscreteGaussian(law.parameter / factor**2)
            if isinstance(law, DiscreteGaussian)
            else TwoSidedGeometric(law.parameter * factor)
        )
        return factor * sum_margin(narrow, cells)
    # On a circle of twelve standard deviations of the sum, and of 45 of a cell, what goes round is below 1e-17.
    size = 1 << ceil(24 * deviation * sqrt(cells) + 90 * deviation + 16).bit_length()
    x = np.minimum(np.arange(size), size - np.arange(size)).astype(np.float64)
    parameter = float(law.parameter)
    exponent = x * x / (2 * parameter) if isinstance(law, DiscreteGaussian) else parameter * x
    mass = np.exp(-exponent)
    mass = np.fft.irfft(np.fft.rfft(mass / np.sum(mass)) ** cells, size)
    within = mass[0] + 2 * np.cumsum(mass[1 : size // 2])
    return 0 if mass[0] >= float(COVERAGE) else int(np.argmax(within >= float(COVERAGE))) + 1
