"""How well cells are hidden: the attacker's intervals beside the truth and the protection that was asked for.

For a primary cell with the figure X and protection levels ``lower``, ``upper`` and ``sliding``, the interval [lo, hi]
must have lo <= X - lower, as far as bounds allow, hi >= X + upper, and hi - lo >= max(1, sliding). The width asked for
is what meets all three at once,

    w = max(1, sliding, lower + upper),

and ``(hi - lo) / w`` says how many times as wide an interval is: at least 1 where the cell is protected. Confidential.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from confide.suppression.attacker import Intervals
from confide.suppression.problem import Problem
from confide.suppression.solving import Floats
from confide.suppression.structure import Flags, Integers

PRECISION = 1e-6
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)

MOST_DRAWN = 80
"""So many intervals can be told apart on a picture."""


def spread(problem: Problem, found: Intervals, chosen: Flags) -> dict[str, Any]:
    """Intervals of some cells: whether they hold, how wide they are, and how wide beside what was asked for."""
    cells = np.flatnonzero(chosen)
    value, low, high = problem.value[cells], found.low[cells], found.high[cells]
    asked_low, asked_high, asked = _asked(problem, cells)
    protected = (
        (low <= asked_low + PRECISION)
        & (high >= asked_high - PRECISION)
        & (high - low >= np.maximum(problem.levels.sliding[cells], 1) - PRECISION)
    )
    ends = np.isfinite(high)
    some = ends & (value > 0)
    width = high - low
    return {
        "cells": len(cells),
        "contain_the_truth": int(((low <= value + PRECISION) & (value <= high + PRECISION)).sum()),
        "known_exactly": int((width <= PRECISION).sum()),
        "protected": int(protected.sum()),
        "without_upper_end": int(np.isinf(high).sum()),
        "width": _quantiles(width[ends]),
        "width_by_figure": _quantiles(width[some] / value[some]),
        "width_by_asked": _quantiles(width[ends] / asked[ends]),
    }


def drawn(
    problem: Problem, found: Intervals, chosen: Flags, *, relative: bool, most: int = MOST_DRAWN
) -> list[dict[str, Any]]:
    """Some of the intervals for a picture, from the narrowest to the widest, evenly spaced in that order.

    Each has its ``place`` in the order, from 0 to 1, the ``truth``, the ends ``low`` and ``high`` (None: there is none)
    and those asked for. ``relative`` divides all figures by the truth, which is then 1 and tells nothing; cells of zero
    are left out. Nothing says which cell it is.
    """
    cells = np.flatnonzero(chosen & (problem.value > 0) if relative else chosen)
    unit = problem.value[cells].astype(np.float64) if relative else np.ones(len(cells))
    order = np.lexsort((problem.value[cells], found.high[cells] / unit, found.width[cells] / unit))
    at = order[np.linspace(0, max(0, len(cells) - 1), min(most, len(cells))).round().astype(np.int64)]
    cells, unit = cells[at], unit[at]
    asked_low, asked_high, _ = _asked(problem, cells)
    ends = (problem.value[cells], found.low[cells], found.high[cells], asked_low, asked_high)
    return [
        {
            "place": (rank + 0.5) / len(cells),
            "truth": truth,
            "low": low,
            "high": high if np.isfinite(high) else None,
            "asked_low": least,
            "asked_high": largest,
        }
        for rank, (truth, low, high, least, largest) in enumerate((np.column_stack(ends) / unit[:, None]).tolist())
    ]


def _asked(problem: Problem, cells: Integers) -> tuple[Floats, Floats, Floats]:
    """The ends and the width that intervals of cells must have at least."""
    value, levels = problem.value[cells], problem.levels.taken(cells)
    low, high = np.maximum(value - levels.lower, problem.low[cells]), value + levels.upper
    width = np.maximum(np.maximum(levels.sliding, 1), high - low)
    return low.astype(np.float64), high.astype(np.float64), width.astype(np.float64)


def _quantiles(values: Floats) -> dict[str, float]:
    return {f"{at:g}": float(np.quantile(values, at)) for at in QUANTILES} if len(values) else {}
