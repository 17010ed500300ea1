"""Small tables for tests of cell suppression, and an attacker of their own: plain programmes, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize
from scipy.optimize import linprog

from confide.mechanisms.suppression.problem import PatternProblem, Weights, threshold
from confide.mechanisms.suppression.structure import Dimension, LinkedTables, TableDimensions, flat, link, tree
from confide.mechanisms.suppression.suppress import Zeros, pose, with_totals

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


def table(dimensions: Sequence[Dimension], inner: npt.ArrayLike, name: str = "t") -> tuple[LinkedTables, Integers]:
    """A linked structure of one table, and the values of its cells."""
    linked = link([TableDimensions(name, tuple(dimensions))])
    value = np.zeros(linked.structure.cells, np.int64)
    value[linked.numbers[0]] = with_totals(dimensions, inner).reshape(-1)
    return linked, value


def problem(
    linked: LinkedTables,
    value: Integers,
    maximum: int = 3,
    *,
    zeros: Zeros = "secondary",
    weight: Weights = "log",
    singles: bool = False,
    lower: int = 0,
) -> PatternProblem:
    single = (value == 1) if singles else np.zeros(len(value), np.bool_)
    levels = threshold(value, maximum, zeros=zeros == "primary", lower=lower)
    return pose(linked, value, levels, zeros=zeros, weight=weight, single=single)


def two_way(inner: npt.ArrayLike, maximum: int = 3, **options: Any) -> tuple[LinkedTables, PatternProblem]:
    """The problem of a plain two-way table: rows a, b, ... and columns p, q, ..."""
    rows, columns = np.array(inner).shape
    dimensions = [flat("row", list("abcdefgh"[:rows])), flat("column", list("pqrstuvw"[:columns]))]
    linked, value = table(dimensions, inner)
    return linked, problem(linked, value, maximum, **options)


def shaped(linked: LinkedTables, flags: Flags) -> Flags:
    """Flags of all cells in the shape of the first table."""
    return flags[linked.numbers[0]].reshape(linked.tables[0].shape)


def random_tree(rng: np.random.Generator, name: str, leaves: int, depth: int) -> Dimension:
    """A hierarchy whose codes have two to four parts each, some of them no parts at all."""
    parts: dict[str, list[str]] = {}
    waiting = [("_T", 0)]
    number = 0
    while waiting:
        code, level = waiting.pop(0)
        if level >= depth or (level > 0 and rng.random() < 0.3) or number >= leaves:
            continue
        children = [f"{name}{number + k}" for k in range(int(rng.integers(2, 5)))]
        number += len(children)
        parts[code] = children
        waiting += [(child, level + 1) for child in children]
    return tree(name, parts)


def random_table(seed: int, codes: tuple[int, ...] = (6, 6, 2)) -> tuple[LinkedTables, Integers]:
    """A hierarchical table with small counts, zeros and large ones."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 4))
    dimensions = [random_tree(rng, "xyz"[at], codes[number - 1], int(rng.integers(1, 4))) for at in range(number)]
    shape = tuple(sum(not parts for parts in dimension.children) for dimension in dimensions)
    inner = rng.poisson(rng.gamma(0.6, float(rng.choice([3, 10, 40])), size=shape))
    return table(dimensions, inner)


def plain_interval(posed: PatternProblem, hidden: Flags, cell: int, known: Sequence[int] = ()) -> tuple[float, float]:
    """The attacker's interval of a cell by two programmes over all cells, without any cleverness."""
    value = posed.value.astype(float)
    fixed = ~hidden
    fixed[list(known)] = True
    bounds = [(v, v) if f else (low, None) for v, f, low in zip(value, fixed, posed.low, strict=True)]
    ends = []
    for sign in (1, -1):
        cost = np.zeros(len(value))
        cost[cell] = sign
        matrix = posed.structure.matrix
        found = linprog(cost, A_eq=matrix, b_eq=np.zeros(matrix.shape[0]), bounds=bounds, method="highs")
        ends.append(sign * found.fun if found.status == 0 else sign * -np.inf)
    return ends[0], ends[1]


def is_safe(
    posed: PatternProblem, hidden: Flags, intervals: Callable[[int], tuple[float, float]] | None = None
) -> bool:
    """Whether every primary cell has its protection, by definition."""
    levels = posed.levels
    for cell in np.flatnonzero(levels.primary).tolist():
        low, high = plain_interval(posed, hidden, cell) if intervals is None else intervals(cell)
        value, small = posed.value[cell], 1e-6
        if low > max(value - levels.lower[cell], posed.low[cell]) + small or high < value + levels.upper[cell] - small:
            return False
        if high - low < max(1, levels.sliding[cell]) - small:
            return False
    return True


def intervals_by_programmes(whole: np.ndarray, hidden: np.ndarray, cell: tuple[int, int]) -> tuple[float, float]:
    """The interval of a cell of a two-way table whose first row and column are totals, by two linear programmes that
    share nothing with the library."""
    rows, columns = whole.shape
    equations = []
    for i in range(rows):
        row = np.zeros(whole.shape)
        row[i, 0], row[i, 1:] = -1, 1
        equations.append(row.reshape(-1))
    for j in range(columns):
        column = np.zeros(whole.shape)
        column[0, j], column[1:, j] = -1, 1
        equations.append(column.reshape(-1))
    pairs = zip(whole.reshape(-1).tolist(), hidden.reshape(-1).tolist(), strict=True)
    bounds = [(0, None) if is_hidden else (value, value) for value, is_hidden in pairs]
    cost = np.zeros(whole.shape)
    cost[cell] = 1.0
    ends = []
    for sign in (1, -1):
        right = np.zeros(len(equations))
        found = optimize.linprog(sign * cost.reshape(-1), A_eq=np.array(equations), b_eq=right, bounds=bounds)
        ends.append(np.inf if found.status == 3 else sign * found.fun)
    return ends[0], ends[1]
