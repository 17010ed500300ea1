"""The noise of a figure in one unit by matrices of all cells: what the noise in sectors is held against."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from confide.arrays import Booleans, Floats
from confide.mechanisms.topdown.strategy import LevelStrategy, law_of


def cells_of(problem: Any, query: str) -> Booleans:
    """The cells of a query as sets of cells of the histogram: a row for each."""
    groups = problem.groups(query) if query != "total" else np.zeros_like(problem.groups("detailed"))
    return np.asarray(groups[None, :] == np.arange(problem.strategy.query(query).cells)[:, None])


def dense_within(problem: Any, level: LevelStrategy, sets: Booleans, *, total_known: bool) -> Floats:
    """v of each set of cells in a unit that has the share of its level, by the inverse of the information of all."""
    variances, of_total, possible = _measured(problem, level)
    information = np.zeros((int(possible.sum()),) * 2)
    for name, variance in variances.items():
        group = problem.groups(name)[possible]
        information[group[:, None] == group[None, :]] += 1 / variance
    wanted = np.vstack([sets[:, possible], np.ones(int(possible.sum()), bool)]).astype(float)
    solved = cho_solve(cho_factor(information), wanted.T)
    own = np.einsum("cs,sc->c", wanted, solved)
    with_total, total = wanted[:-1] @ solved[:, -1], float(own[-1])
    beside = own[:-1] - with_total**2 / total
    beside[beside < 1e-9 * own[:-1]] = 0
    if total_known:
        return np.asarray(beside)
    return np.asarray(own[:-1] if of_total is None else beside + (with_total / total) ** 2 * of_total)


def means_within(problem: Any, level: LevelStrategy, sets: Booleans, *, total_known: bool) -> Floats:
    """The variance of the inverse-variance mean of all queries that determine a set of cells; NaN where none does."""
    variances, of_total, possible = _measured(problem, level)
    weights = np.zeros(len(sets))
    for name, variance in variances.items():
        group = problem.groups(name)[possible]
        sizes = np.bincount(group)
        cells = int((sizes > 0).sum())
        for number, chosen in enumerate(sets[:, possible]):
            inside = np.bincount(group, chosen, minlength=len(sizes))
            if ((inside == 0) | (inside == sizes)).all():
                summed = int((inside > 0).sum())
                times = summed * (cells - summed) / cells if total_known else summed
                weights[number] += 1 / (times * variance) if times else np.inf
    with np.errstate(divide="ignore"):
        result = np.where(weights > 0, 1 / weights, np.nan)
    if of_total is not None and not total_known:
        result[sets[:, possible].all(axis=1)] = of_total
    return np.asarray(result)


def _measured(problem: Any, level: LevelStrategy) -> tuple[dict[str, float], float | None, Booleans]:
    variances = {query.name: law_of(problem.strategy, level, query).variance() for query in level.queries}
    first = level.estimation.least_squares[0]
    alone = first.queries == first.constrain == ("total",) and "total" in variances
    of_total = variances.pop("total") if alone else None
    return variances, of_total, ~problem.strategy.constraints.zero_cells(problem.strategy.schema)
