"""Massive averaging, carried out: the mean of independent representations of a count (Bach 2020, equations 19, 20).

The attacker asks for published cells and adds them up. How a cell is looked up is left to a function, so that the
attack runs on a release, on files, or on simulated noise alike: ``query(representation)`` gives the cells that
represent the target, along the last axis; further axes in front are attacked side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.risk.bounded_noise.averaging import Count, Optimum, Representations, Target, ways
from confide.risk.bounded_noise.programme import Programme


@dataclass(frozen=True, slots=True)
class Representation:
    """One way to have the target: add up the margin ``target`` ∪ ``summed`` of a table over ``summed``, ``cost`` cells.

    ``table`` is None where the same members have the same noise, as then all tables give the same cells.
    """

    target: Target
    summed: Target
    cost: int
    table: str | None


Query = Callable[[Representation], NDArray[Any]]


@dataclass(frozen=True)
class Averaged:
    """The mean, the whole number next to it, and what it was made of."""

    mean: NDArray[np.float64]
    count: NDArray[np.int64]
    t: int
    k: int
    ratio: float


def chosen_representations(
    programme: Programme,
    areas: Mapping[str, int],
    count: Count,
    target: Target,
    optimum: Optimum = Optimum.GREEDY,
) -> list[Representation]:
    """The representations that an attacker uses, cheapest first."""
    found = sorted(
        (Representation(target, summed, cost, table) for table, summed, cost in ways(programme, areas, count, target)),
        key=lambda item: (item.cost, sorted(item.summed), item.table or ""),
    )
    used = Representations(target, tuple(item.cost for item in found)).mean(optimum).t
    return found[:used]


def average(used: list[Representation], query: Query, optimum: Optimum = Optimum.GREEDY) -> Averaged:
    """The mean of representations, equally weighted or by 1/k; the count is the whole number next to it."""
    if optimum is Optimum.INVERSE_VARIANCE:
        weights = np.array([1 / item.cost for item in used])
        weights /= weights.sum()
    else:
        weights = np.full(len(used), 1 / len(used))
    # Sums of cells are whole; weights of equal size are applied once, so that t sums of a true count give it exactly.
    sums = [np.asarray(query(item)).sum(axis=-1) for item in used]
    if optimum is Optimum.INVERSE_VARIANCE:
        mean = sum(weight * total for weight, total in zip(weights, sums, strict=True))
    else:
        mean = np.sum(sums, axis=0) / len(used)
    costs = np.array([item.cost for item in used])
    means = np.asarray(mean, dtype=np.float64)
    return Averaged(
        mean=means,
        count=np.rint(means).astype(np.int64),
        t=len(used),
        k=int(costs.sum()),
        ratio=float((weights**2 * costs).sum()),
    )
