"""Full tables against solvers that share no code with them: PIQP for least squares, HiGHS for whole numbers."""

from __future__ import annotations

import itertools

import numpy as np
import piqp
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from confide.estimation import MeasuredQuery
from confide.estimation.dual_newton import TableMeasurements, TableMultipliers, TableShapes, duality_gap, objective
from confide.estimation.full_tables import FullTables, round_tables, solve_tables
from confide.estimation.least_squares import SolveOutcome, quantised
from confide.estimation.rounding import RoundingOutcome

VARIANCES = (0.5, 10.0, 900.0)


def problem_of(rng: np.random.Generator) -> FullTables | None:
    """A random pass: empty columns, single classes, roots, nothing held, cells that are not measured, and queries up
    to thousands of times as precise as cells."""
    groups, children = int(rng.integers(1, 6)), int(rng.integers(1, 7))
    group = np.repeat(np.arange(groups), rng.integers(1, 7, groups))
    there = rng.random((groups, children)) < 0.7
    truth = rng.poisson(rng.choice([0.2, 1, 5, 50]), (len(group), children)) * there[group]
    held = np.zeros((groups, children), np.int64)
    np.add.at(held, group, truth)
    root = children == 1 and rng.random() < 0.5
    keep = held.sum(axis=1)[group] > 0
    if not root:
        keep &= truth.sum(axis=1) > 0
    if not keep.any():
        return None
    truth, (kept, group) = truth[keep], np.unique(group[keep], return_inverse=True)
    queries = []
    variance = float(rng.choice(VARIANCES))
    if rng.random() < 0.85:
        cells = truth + rng.normal(0, np.sqrt(variance), truth.shape)
        shares = rng.choice([0, 1, 2], children, p=[0.1, 0.5, 0.4])  # a child without a share is not measured
        queries.append(MeasuredQuery("cells", np.arange(len(group)), cells, shares / variance))
    for number in range(int(rng.integers(0 if queries else 1, 4))):
        size = int(rng.integers(1, 5))
        part = rng.integers(0, size, len(group))
        answers = np.zeros((size, children))
        np.add.at(answers, part, truth)
        weight = float(rng.choice([0.01, 1.0, 10.0, 1000 / variance]))
        noise = rng.normal(0, rng.choice([1, 5]), answers.shape)
        weights = np.full(children, weight) if rng.random() < 0.8 else rng.choice([0.0, weight], children)
        queries.append(MeasuredQuery(f"coarse {number}", part, answers + noise, weights))
    nothing_held = not root and rng.random() < 0.15
    return FullTables(
        None if root else truth.sum(axis=1),
        np.zeros(len(group), np.int64) if nothing_held else group.reshape(-1),
        None if nothing_held else held[kept],
        tuple(queries),
        children,
    )


def problems(seed: int, count: int) -> list[FullTables]:
    rng = np.random.default_rng(seed)
    return list(itertools.islice((p for p in (problem_of(rng) for _ in itertools.count()) if p is not None), count))


def value(problem: FullTables, dense: np.ndarray) -> float:
    """The objective by its definition."""
    total = 0.0
    for query in problem.queries:
        for part in range(len(query.measured)):
            sums = dense[query.groups == part].sum(axis=0)
            total += float((query.weights * (sums - query.measured[part]) ** 2).sum())
    return total


def constraints(problem: FullTables) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Variables (class, child), and equations A x = b."""
    there = np.ones((len(problem.group), problem.children), bool)
    if problem.held is not None:
        there = (problem.held > 0)[problem.group]
    variables = np.argwhere(there)
    rows, right = [], []
    if problem.parent is not None:
        for k, count in enumerate(problem.parent):
            rows.append(variables[:, 0] == k)
            right.append(count)
    if problem.held is not None:
        for (g, c), count in np.ndenumerate(problem.held):
            if count:
                rows.append((problem.group[variables[:, 0]] == g) & (variables[:, 1] == c))
                right.append(count)
    return variables, np.array(rows, float).reshape(len(rows), len(variables)), np.array(right, float)


def by_piqp(problem: FullTables) -> np.ndarray | None:
    variables, matrix, right = constraints(problem)
    size = len(variables)
    hessian, linear = 1e-11 * np.eye(size), np.zeros(size)
    for query in problem.queries:
        for part, child in itertools.product(range(len(query.measured)), range(problem.children)):
            inside = ((query.groups[variables[:, 0]] == part) & (variables[:, 1] == child)).astype(float)
            hessian += 2 * query.weights[child] * np.outer(inside, inside)
            linear -= 2 * query.weights[child] * query.measured[part, child] * inside
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-11
    solver.settings.max_iter = 500
    if len(right):  # independent equations alone
        left, sizes, axes = np.linalg.svd(matrix, full_matrices=False)
        large = sizes > 1e-9 * sizes[0]
        matrix, right = axes[large], (left.T @ right)[large] / sizes[large]
    solver.setup(hessian, linear, matrix, right, None, None, None, np.zeros(size), None)
    if solver.solve() != piqp.PIQP_SOLVED:
        return None
    dense = np.zeros((len(problem.group), problem.children))
    dense[tuple(variables.T)] = np.maximum(solver.result.x, 0.0)
    return dense


def test_random_passes_are_solved_as_by_another_solver() -> None:
    compared, newton = 0, 0
    for problem in problems(3, 500):
        x, report = solve_tables(problem)
        dense = problem.layout.dense(x)
        assert x.min(initial=0.0) >= 0
        if problem.parent is not None:
            assert np.abs(dense.sum(axis=1) - problem.parent).max() < 1e-9 * max(1, problem.parent.max())
        if problem.held is not None:
            sums = np.zeros(problem.held.shape)
            np.add.at(sums, problem.group, dense)
            assert np.abs(sums - problem.held).max() < 1e-9 * max(1, problem.held.max())
        newton += report.outcome in (SolveOutcome.DUAL_NEWTON, SolveOutcome.FORCED)
        assert report.certificate.accepts()
        other = by_piqp(problem)
        if other is None:
            continue
        compared += 1
        ours, theirs = value(problem, dense), value(problem, other)
        assert ours - theirs <= 1e-6 * (theirs + problem.scale)
        # The certificate is true: nothing is better by more than it says.
        assert theirs >= ours - report.certificate.gap - 1e-7 * (theirs + problem.scale)
    assert compared >= 480
    # A root of which neither cells nor a total are known is a matter of the other methods.
    assert newton >= 495


def test_any_multipliers_give_a_lower_bound() -> None:
    rng = np.random.default_rng(8)
    for problem in problems(9, 60):
        if problem.parent is None or problem.held is None:
            continue
        best = solve_tables(problem)[0]
        layout = problem.layout
        weight, y, parts, answers, weights = np.zeros(layout.size), np.zeros(layout.size), [], [], []
        for query in problem.queries:
            # As one query with answers, all of them: cells are answers of one class.
            parts.append(query.groups + sum(len(a) for a in answers))
            answers.append(query.measured)
            weights.append(np.broadcast_to(np.maximum(query.weights, 1e-12), query.measured.shape))
        at = TableShapes(
            layout.first, layout.start, layout.offset, layout.kid, np.ascontiguousarray(np.stack(parts, axis=1))
        )
        held = problem.held[layout.table, layout.kid].astype(float)
        task = TableMeasurements(
            y, weight, np.concatenate(answers), np.concatenate(weights), True, True, problem.parent.astype(float), held
        )
        sums = np.zeros(task.w.shape)
        dense = layout.dense(best)
        for query, part in zip(problem.queries, parts, strict=True):
            assert len(query.groups) == len(part)
            np.add.at(sums, part, dense)
        optimum = objective(task, best, sums)
        # A point that keeps all sums: a mixture of the optimum and of equal shares.
        middle = problem.parent[layout.row] * held[layout.pair] / problem.held.sum(axis=1)[layout.table[layout.pair]]
        for _ in range(5):
            good = best + rng.random() * (middle - best)
            sums[:] = 0
            dense = layout.dense(good)
            for part in parts:
                np.add.at(sums, part, dense)
            scale = rng.choice([0.01, 1.0, 100.0])
            alpha, beta, lam = (rng.normal(0, scale, shape) for shape in (len(problem.group), len(held), sums.shape))
            # Multipliers of answers at random, and those with which the answers themselves leave no gap.
            for some in (lam, task.w * (sums - task.answers)):
                gap = duality_gap(at, task, y, weight, TableMultipliers(alpha, beta, some), good, sums)
                assert objective(task, good, sums) - optimum <= gap + 1e-6 * (1 + optimum)


def rounded_by_milp(estimate: np.ndarray, problem: FullTables, chain: list[np.ndarray]) -> int:
    """The least distance that whole numbers down or up from an estimate have, by a mixed integer program."""
    variables, matrix, right = constraints(problem)
    x = estimate[tuple(variables.T)]
    floor = np.floor(x + 1e-9)
    rest = x - floor
    size = len(variables)
    cost, rows, low, high = [], [matrix], list(right - matrix @ floor), list(right - matrix @ floor)
    blocks: list[tuple[np.ndarray, float]] = []
    for part in [*chain, np.arange(len(problem.group))]:
        inside = np.unique(np.stack([problem.group, part]), axis=1, return_inverse=True)[1].reshape(-1)
        for group, child in itertools.product(range(inside.max() + 1), range(problem.children)):
            chosen = ((inside[variables[:, 0]] == group) & (variables[:, 1] == child)).astype(float)
            blocks.append((chosen, float(np.round((chosen * rest).sum().round(6)))))
    # |sum - target| <= distance of the block
    extra = len(blocks)
    full = [np.concatenate([row, np.zeros(extra)]) for row in rows[0]]
    for number, (chosen, target) in enumerate(blocks):
        away = np.zeros(extra)
        away[number] = 1.0
        full += [np.concatenate([chosen, -away]), np.concatenate([chosen, away])]
        low += [-np.inf, target]
        high += [target, np.inf]
    cost = np.concatenate([np.zeros(size), np.ones(extra)])
    up = np.concatenate([np.ones(size), np.full(extra, np.inf)])
    result = milp(
        cost,
        integrality=np.concatenate([np.ones(size), np.zeros(extra)]),
        bounds=Bounds(np.zeros(size + extra), up),
        constraints=LinearConstraint(np.array(full), low, high),
    )
    assert result.x is not None
    return round(float(result.fun))


def check_rounding(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed + 1)
    for problem in problems(seed, count):
        if problem.held is None:
            continue
        x = quantised(solve_tables(problem)[0])
        coarse = np.unique(problem.group * 3 + rng.integers(0, 3, len(problem.group)), return_inverse=True)[1]
        each = np.arange(len(problem.group))
        counts, tally = round_tables(problem, x, each, [("coarse", coarse.reshape(-1).astype(np.int64))])
        assert counts.dtype == np.int64
        assert counts.min(initial=0) >= 0
        if problem.parent is not None:
            assert np.array_equal(counts.sum(axis=1), problem.parent)
        sums = np.zeros_like(problem.held)
        np.add.at(sums, problem.group, counts)
        assert np.array_equal(sums, problem.held)
        assert np.abs(counts - problem.layout.dense(x)).max() < 1 + 1e-6
        assert set(tally.outcomes) <= {RoundingOutcome.WHOLE, RoundingOutcome.NETWORK}
        assert tally.distance == rounded_by_milp(problem.layout.dense(x), problem, [coarse.reshape(-1)])


def test_rounding_by_held_group_is_as_good_as_a_mixed_integer_program() -> None:
    check_rounding(21, 30)


@pytest.mark.slow
def test_rounding_of_many_tables_is_as_good_as_a_mixed_integer_program() -> None:
    check_rounding(22, 200)


def test_what_is_whole_already_stays() -> None:
    for problem in problems(5, 40):
        if problem.held is None or problem.parent is None:
            continue
        truth, *_ = solve_tables(problem)
        counts, _ = round_tables(problem, truth, np.arange(len(problem.group)), [])
        again, tally = round_tables(
            problem, counts[problem.layout.row, problem.layout.child] + 0.0, np.arange(len(counts)), []
        )
        assert np.array_equal(again, counts)
        assert tally.open_cells == 0


def test_the_same_problem_gives_the_same_bytes() -> None:
    for problem in problems(6, 20):
        assert solve_tables(problem)[0].tobytes() == solve_tables(problem)[0].tobytes()
