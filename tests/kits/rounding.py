"""Random rounding problems that have a solution, and two slow, independent ways to solve them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from confide.estimation.rounding import Partition, RoundingProblem

Ints = npt.NDArray[np.int64]
FREE = 10**9


def random_problem(
    seed: int,
    *,
    cells: int = 8,
    children: int = 4,
    levels: int = 3,
    passes: int = 2,
    groups: bool = False,
    root: bool = False,
    halves: bool = False,
) -> RoundingProblem:
    """A mean of whole solutions: it keeps all sums and bounds, and is fractional in many cells."""
    rng = np.random.default_rng(seed)
    allowed = rng.random((cells, children)) < 0.85
    allowed[:, int(rng.integers(children))] = True
    child_group = rng.integers(-1, 2, children) if groups else None
    corners = [_whole(rng, allowed)]
    for _ in range(3):
        corners.append(_shuffled(rng, corners[0], allowed, child_group))
    weights = rng.choice([[0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0]]) if halves else rng.dirichlet(np.ones(4))
    estimate = sum((weight * corner for weight, corner in zip(weights, corners, strict=True)), np.zeros(allowed.shape))
    partitions: list[Partition] = []
    ids = np.zeros(cells, np.int64)
    for level in range(levels):
        in_pass = min(level, passes - 1)
        lower = upper = None
        if level == 1 or (root and level == 0):
            lower, upper = _bounds(rng, ids, corners)
        partitions.append(Partition(f"level {level}", ids, in_pass, int(rng.integers(0, 3)) or 1, lower, upper))
        ids = ids * 3 + rng.integers(0, 3, cells)
    totals = None
    if child_group is not None:
        totals = np.array([corners[0][:, child_group == group].sum() for group in range(2)])
    return RoundingProblem(
        estimate,
        None if root else corners[0].sum(axis=1),
        tuple(partitions),
        int(rng.integers(1, 3)),
        passes - 1,
        allowed,
        child_group,
        totals,
    )


def _whole(rng: np.random.Generator, allowed: npt.NDArray[np.bool_]) -> Ints:
    return np.where(allowed, rng.poisson(rng.choice([0.3, 2.0]), allowed.shape), 0)


def _shuffled(rng: np.random.Generator, whole: Ints, allowed: npt.NDArray[np.bool_], child_group: Ints | None) -> Ints:
    """The same parent sums and group totals: ones moved around rectangles, and along rows within a group."""
    result = whole.copy()
    cells, children = whole.shape
    for _ in range(6 * cells * children):
        i, j = rng.integers(cells, size=2)
        a, b = rng.integers(children, size=2)
        if result[i, a] and result[j, b] and allowed[i, b] and allowed[j, a]:
            result[i, a] -= 1
            result[i, b] += 1
            result[j, b] -= 1
            result[j, a] += 1
    for _ in range(2 * cells):
        i = rng.integers(cells)
        a, b = rng.integers(children, size=2)
        if result[i, a] and allowed[i, b] and (child_group is None or child_group[a] == child_group[b]):
            result[i, a] -= 1
            result[i, b] += 1
    return result


def _bounds(rng: np.random.Generator, ids: Ints, corners: list[Ints]) -> tuple[Ints, Ints]:
    sums = []
    for corner in corners:
        total = np.zeros((int(ids.max()) + 1, corner.shape[1]), np.int64)
        np.add.at(total, ids, corner)
        sums.append(total)
    lower, upper = np.min(sums, axis=0), np.max(sums, axis=0)
    lower = np.where(rng.random(lower.shape) < 0.5, lower, 0)
    return lower, np.where(rng.random(upper.shape) < 0.3, upper, FREE)


def split(problem: RoundingProblem) -> tuple[Ints, list[list[Fraction]]]:
    """Floors, and fractional parts as fractions."""
    micro = [[Fraction(round(float(x) * 1e6), 10**6) for x in row] for row in problem.estimate]
    floor = np.array([[x.numerator // x.denominator for x in row] for row in micro], np.int64)
    floor = floor.reshape(problem.estimate.shape)
    return floor, [[x - int(f) for x, f in zip(row, low, strict=True)] for row, low in zip(micro, floor, strict=True)]


def queries(problem: RoundingProblem) -> list[tuple[Ints, int, int]]:
    """(groups, pass, weight) of all queries, the cells as the last."""
    found = [(part.groups, part.in_pass, part.weight) for part in problem.partitions]
    return [*found, (np.arange(problem.cells), problem.cell_pass, problem.cell_weight)]


def value(problem: RoundingProblem, counts: Ints) -> tuple[Fraction, ...]:
    """The objective from its definition: passes, then the tie-breaker Σ (1 - 2r) b."""
    floor, rest = split(problem)
    ups = counts - floor
    result = [Fraction(0)] * (problem.passes + 1)
    for ids, number, weight in queries(problem):
        for group in set(ids.tolist()):
            rows = [i for i in range(problem.cells) if ids[i] == group]
            for c in range(problem.children):
                target = round(sum((rest[i][c] for i in rows), Fraction(0)))
                result[number] += weight * abs(int(ups[rows, c].sum()) - target)
    result[-1] = sum(
        ((1 - 2 * rest[i][c]) * int(ups[i, c]) for i in range(problem.cells) for c in range(problem.children)),
        Fraction(0),
    )
    return tuple(result)


def keeps(problem: RoundingProblem, counts: Ints) -> bool:
    """All constraints, in plain words."""
    if (
        counts.dtype != np.int64
        or (counts < 0).any()
        or (problem.allowed is not None and counts[~problem.allowed].any())
    ):
        return False
    if problem.parent is not None and not np.array_equal(counts.sum(axis=1), problem.parent):
        return False
    for part in problem.partitions:
        for group in range(int(part.groups.max()) + 1):
            sums = counts[part.groups == group].sum(axis=0)
            if part.lower is not None and (sums < part.lower[group]).any():
                return False
            if part.upper is not None and (sums > part.upper[group]).any():
                return False
    if problem.child_group is not None and problem.group_totals is not None:
        for number, total in enumerate(problem.group_totals):
            if counts[:, problem.child_group == number].sum() != total:
                return False
    return True


def brute_force(problem: RoundingProblem) -> tuple[Fraction, ...] | None:
    """The least objective over all roundings down or up, by trying them all."""
    floor, _ = split(problem)
    rows = []
    for i in range(problem.cells):
        choices = [np.array(ups) for ups in itertools.product((0, 1), repeat=problem.children)]
        if problem.parent is not None:
            choices = [ups for ups in choices if (floor[i] + ups).sum() == problem.parent[i]]
        if problem.allowed is not None:
            choices = [ups for ups in choices if not ups[~problem.allowed[i]].any()]
        rows.append(choices)
    every = (floor + np.array(ups) for ups in itertools.product(*rows))
    return min((value(problem, counts) for counts in every if keeps(problem, counts)), default=None)


def by_milp(problem: RoundingProblem) -> list[int] | None:
    """The least distance of each pass by branch and bound, one pass after the other; None if nothing is feasible."""
    floor, rest = split(problem)
    n, c = problem.cells, problem.children
    grid = np.arange(n * c).reshape(n, c)
    rows: list[tuple[Ints, float, float]] = []
    if problem.parent is not None:
        rows += [(grid[i], *[float(problem.parent[i] - floor[i].sum())] * 2) for i in range(n)]
    distances: list[tuple[Ints, int, int, int]] = []
    for ids, number, weight in queries(problem):
        for group in set(ids.tolist()):
            inside = np.flatnonzero(ids == group)
            for k in range(c):
                target = round(sum((rest[i][k] for i in inside), Fraction(0)))
                distances.append((grid[inside, k], target, number, weight))
    for part in problem.partitions:
        for group in set(part.groups.tolist()):
            inside = np.flatnonzero(part.groups == group)
            for k in range(c):
                low = -np.inf if part.lower is None else float(part.lower[group, k] - floor[inside, k].sum())
                high = np.inf if part.upper is None else float(part.upper[group, k] - floor[inside, k].sum())
                rows.append((grid[inside, k], low, high))
    if problem.child_group is not None and problem.group_totals is not None:
        for number, total in enumerate(problem.group_totals):
            member = problem.child_group == number
            left = float(total - floor[:, member].sum())
            rows.append((grid[:, member].ravel(), left, left))
    size, extra = n * c, len(distances)
    matrix = sparse.lil_array((len(rows) + 2 * extra, size + extra))
    lowest, highest = np.full(matrix.shape[0], -np.inf), np.full(matrix.shape[0], np.inf)
    for row, (members, least, most) in enumerate(rows):
        matrix[row, members] = 1
        lowest[row], highest[row] = least, most
    for number, (members, target, _, _) in enumerate(distances):
        for sign, row in ((1, len(rows) + 2 * number), (-1, len(rows) + 2 * number + 1)):
            matrix[row, members] = sign
            matrix[row, size + number] = -1
            highest[row] = sign * target
    ceiling = np.ones(size) if problem.allowed is None else problem.allowed.ravel().astype(float)
    bounds = Bounds(0, np.concatenate([ceiling, np.full(extra, np.inf)]))
    constraints = [LinearConstraint(matrix.tocsr(), lowest, highest)]
    best = []
    for number in range(problem.passes):
        cost = np.concatenate([np.zeros(size), [weight if at == number else 0 for _, _, at, weight in distances]])
        found = milp(cost, constraints=constraints, bounds=bounds, integrality=np.r_[np.ones(size), np.zeros(extra)])
        if found.status == 2:
            return None
        assert found.status == 0
        best.append(round(found.fun))
        constraints.append(LinearConstraint(cost[None, :], -np.inf, best[-1] + 0.25))
    return best
