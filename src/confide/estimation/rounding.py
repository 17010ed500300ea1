"""Controlled rounding: whole counts that keep every sum and bound, as near as can be to the real solution.

>>> import numpy as np
>>> from confide.estimation.rounding import Partition, RoundingProblem, round_counts
>>> estimate = np.array([[0.4, 0.6, 1.0], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]])
>>> parent = np.array([2, 1, 1])
>>> total = Partition("total", np.zeros(3, np.int64))
>>> round_counts(RoundingProblem(estimate, parent, (total,))).counts
array([[0, 1, 1],
       [1, 0, 0],
       [0, 0, 1]])

The definition is in :mod:`confide.estimation.rounding_problem`; that the optimum is whole, that there is one, and that
passes and tie-breaker are in exact order is derived in ``docs/proofs/rounding.md``. The problem is solved as a
minimum-cost flow in whole numbers (:mod:`confide.estimation.network`, :mod:`confide.estimation.network_simplex`).
Whatever the way, the result is checked against the problem as it was given before it is handed back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np

from confide.errors import Finding, RunError
from confide.estimation.leftover import Leftover, leftover, objective, violations
from confide.estimation.network import Prices, build
from confide.estimation.rounding_problem import MILLION, Ints, Partition, RoundingProblem, crossings

__all__ = [
    "Outcome",
    "Partition",
    "Rounding",
    "RoundingProblem",
    "RoundingReport",
    "RoundingTally",
    "crossings",
    "round_counts",
]


class Outcome(StrEnum):
    """How a rounding came about. There is no other way to a result, and no result without its outcome."""

    WHOLE = "whole"
    """Nothing was open: the parent sums leave one rounding."""
    NETWORK = "network"
    """Optimal, by the network simplex method."""
    LINEAR = "linear-program"
    """Optimal, by HiGHS on the linear program, and checked to be whole: the fallback."""
    WIDENED = "widened"
    """No rounding down or up keeps all sums and bounds, because the estimate misses them by too much. The counts keep
    them all; some cells are further than one from the estimate, in all as little as possible."""


@dataclass(frozen=True, slots=True)
class RoundingReport:
    """What happened at one parent. No times, so that equal problems have equal reports."""

    outcome: Outcome
    open_cells: int
    pivots: int
    distances: tuple[int, ...]
    """The objective of each pass."""
    gap: int
    """In millionths: by how much the estimate itself missed a parent sum or a zero, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounding:
    """Whole counts (cells × children) and how they came about."""

    counts: Ints
    report: RoundingReport


@dataclass(frozen=True, slots=True)
class RoundingTally:
    """Reports added up, for the manifest; the order of addition does not matter."""

    outcomes: Mapping[Outcome, int] = field(default_factory=lambda: MappingProxyType({}))
    open_cells: int = 0
    pivots: int = 0
    distance: int = 0
    gap: int = 0

    @classmethod
    def of(cls, report: RoundingReport) -> RoundingTally:
        """The tally of one rounding."""
        once = MappingProxyType({report.outcome: 1})
        return cls(once, report.open_cells, report.pivots, sum(report.distances), report.gap)

    def __add__(self, other: RoundingTally) -> RoundingTally:
        return RoundingTally(
            MappingProxyType(dict(Counter(self.outcomes) + Counter(other.outcomes))),
            self.open_cells + other.open_cells,
            self.pivots + other.pivots,
            self.distance + other.distance,
            max(self.gap, other.gap),
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values; every outcome is named, also those that did not occur."""
        return {
            "outcomes": {outcome.value: self.outcomes.get(outcome, 0) for outcome in Outcome},
            "open_cells": self.open_cells,
            "pivots": self.pivots,
            "distance": self.distance,
            "largest_gap": self.gap / MILLION,
        }


def round_counts(problem: RoundingProblem) -> Rounding:
    """Round; raise a :class:`~confide.errors.RunError` if no whole counts keep the sums and bounds."""
    left = leftover(problem)
    attempt = None if left.hopeless else _down_or_up(left)
    if attempt is None:
        attempt = _widened(left)
    outcome, ups, pivots = attempt
    counts = left.counts(ups)
    report = RoundingReport(outcome, int(np.count_nonzero(left.open)), pivots, objective(left, ups)[:-1], left.gap)
    return Rounding(counts, report)


def _down_or_up(left: Leftover) -> tuple[Outcome, Ints, int] | None:
    """The optimal rounding of every cell to its floor or ceiling, or None if there is none."""
    if not left.open.any():
        ups = left.settled.astype(np.int64)
        return None if _broken(left, ups) else (Outcome.WHOLE, ups, 0)
    from confide.estimation.network_simplex import minimise  # half a second to load, for those who round

    prices = Prices.of(left)
    solved = None if prices is None else minimise(build(left, prices))
    if solved is not None:
        flow, pivots = solved
        ups = left.settled.astype(np.int64)
        ups[left.open] = flow[: np.count_nonzero(left.open)]
        # The flow misses as few bounds as possible: if it misses one, nothing keeps them all.
        return None if _broken(left, ups) else (Outcome.NETWORK, ups, pivots)
    from confide.estimation.rounding_lp import solve_linear  # HiGHS is the fallback, and slow to load

    result = solve_linear(left)
    if result.ups is None or _broken(left, result.ups):
        return None
    return Outcome.LINEAR, result.ups, 0


def _widened(left: Leftover) -> tuple[Outcome, Ints, int]:
    """Whole counts that leave floors and ceilings as little as possible."""
    from confide.estimation.rounding_lp import solve_linear

    result = solve_linear(left, widened=True)
    if result.ups is None or _broken(left, result.ups):
        raise RunError(_finding(left.problem, result.status))
    outside = ((result.ups < 0) | (result.ups > 1)).any()
    return Outcome.WIDENED if outside else Outcome.LINEAR, result.ups, 0


def _broken(left: Leftover, ups: Ints) -> list[str]:
    return violations(left.problem, left.counts(ups))


def _finding(problem: RoundingProblem, status: str) -> Finding:
    names = ["parent sums"] if problem.parent is not None else []
    names += [f"the bounds of {partition.name!r}" for partition in problem.partitions if partition.bounded]
    names += ["cells that must be zero"] if problem.allowed is not None else []
    names += ["group totals"] if problem.group_totals is not None else []
    return Finding(
        "rounding-infeasible" if status == "infeasible" else "rounding-failed",
        "no whole counts keep all sums and bounds of the children of a geounit"
        if status == "infeasible"
        else "the rounding of the children of a geounit failed in every way there is",
        found=f"constraints that clash, among: {', '.join(names)}",
        expected="bounds of the children that add up to bounds of their parent",
        remedy="check the constraints of the strategy against the frame: `confide check` names those that clash",
    )
