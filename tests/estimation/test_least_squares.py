"""The least squares of a node: known answers, properties, failures that are named."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.least_squares import Assembled, made_up, made_up_root, random_problem

from confide.arrays import Floats, Integers
from confide.errors import ParameterError
from confide.estimation import least_squares as solving
from confide.estimation.active_set import InfeasibleError, active_set, certify, clashes
from confide.estimation.least_squares import (
    SolveOutcome,
    SolveReport,
    UnsolvedError,
    estimate_totals,
    interior_point,
    project_totals,
    projected_gradient,
    quantised,
    solve,
    tolerance_rows,
)
from confide.estimation.node_problem import ChildSums, GroupBounds, MeasuredQuery, NodeProblem
from confide.estimation.prepare import Point, Prepared, prepare, project, reference_point


def detailed(measured: list[list[float]], weights: list[float] | None = None) -> MeasuredQuery:
    table = np.array(measured, np.float64)
    return MeasuredQuery("detailed", np.arange(len(table)), table, np.array(weights or [1.0] * table.shape[1]))


def node(parent: list[int], *queries: MeasuredQuery, **more: object) -> NodeProblem:
    allowed = np.ones((len(parent), queries[0].measured.shape[1]), np.bool_)
    return NodeProblem(np.array(parent), allowed, tuple(queries), **more)  # type: ignore[arg-type]


# ── by hand ──


def test_the_discrepancy_is_shared_equally() -> None:
    # 10 to share, measured 4 and 9: three too many, half of it from each.
    x, report = solve(node([10], detailed([[4.0, 9.0]])))
    np.testing.assert_allclose(x, [[2.5, 7.5]], atol=1e-8)
    assert report.outcome is SolveOutcome.ACTIVE_SET
    assert report.certificate.objective == pytest.approx(4.5)


def test_the_discrepancy_is_shared_by_variance() -> None:
    # Variances 1 and 1/2: the first child takes two thirds of the three.
    x, _ = solve(node([10], detailed([[4.0, 9.0]], [1.0, 2.0])))
    np.testing.assert_allclose(x, [[2.0, 8.0]], atol=1e-8)


def test_nothing_is_negative() -> None:
    # Equal shares would give (-1.5, 5.5, 6): the first is 0, the others share what is left.
    x, _ = solve(node([10], detailed([[-4.0, 3.0, 3.5]])))
    np.testing.assert_allclose(x, [[0.0, 4.75, 5.25]], atol=1e-8)


def test_an_unmeasured_child_takes_the_rest() -> None:
    x, report = solve(node([10], detailed([[4.0, 123.0]], [1.0, 0.0])))
    np.testing.assert_allclose(x, [[4.0, 6.0]], atol=1e-7)
    assert report.certificate.objective == pytest.approx(0.0, abs=1e-12)


def test_a_margin_moves_the_cells() -> None:
    # min (a-5)^2 + (b-5)^2 + ((10-a)-5)^2 + ((10-b)-5)^2 + (a+b-16)^2 at a = b: 4(a-5) + 2(2a-16) = 0, a = 6.5.
    total = MeasuredQuery("total", np.zeros(2, np.int64), np.array([[16.0, 0.0]]), np.array([1.0, 0.0]))
    x, _ = solve(node([10, 10], detailed([[5.0, 5.0], [5.0, 5.0]]), total))
    np.testing.assert_allclose(x, [[6.5, 3.5], [6.5, 3.5]], atol=1e-8)


def test_a_lower_bound_binds() -> None:
    bound = GroupBounds("kinds", np.array([0, -1]), np.array([[3.0, 0.0]]), np.full((1, 2), np.inf))
    x, _ = solve(node([4, 9], detailed([[0.0, 4.0], [4.0, 5.0]]), bounds=(bound,)))
    np.testing.assert_allclose(x, [[3.0, 1.0], [4.0, 5.0]], atol=1e-8)


def test_tolerance_rows_are_used_up() -> None:
    measured = detailed([[8.0, 2.0], [8.0, 2.0]])
    problem = node([10, 10], measured)
    rows = tolerance_rows(problem, np.array([10.0, 10.0]), 0.01)
    x, _ = solve(replace(problem, bounds=(rows,)))
    np.testing.assert_allclose(x, [[5.005, 4.995], [5.005, 4.995]], atol=1e-8)


def test_sums_over_children_hold() -> None:
    sums = ChildSums("states", np.array([0, 0, 1]), np.array([6.0, 4.0]), np.array([6.0, 4.0]))
    x, _ = solve(node([10], detailed([[1.0, 1.0, 8.0]]), child_sums=(sums,)))
    np.testing.assert_allclose(x, [[3.0, 3.0, 4.0]], atol=1e-8)


def test_a_root_with_a_fixed_total() -> None:
    allowed = np.array([[True], [True], [False]])
    problem = NodeProblem(None, allowed, (detailed([[4.0], [-1.0], [50.0]]),), total=6)
    x, _ = solve(problem)
    np.testing.assert_allclose(x, [[5.5], [0.5], [0.0]], atol=1e-8)


def test_a_root_without_a_total_keeps_what_was_measured() -> None:
    x, report = solve(NodeProblem(None, np.ones((3, 1), np.bool_), (detailed([[4.0], [-1.0], [5.0]]),)))
    np.testing.assert_allclose(x, [[4.0], [0.0], [5.0]], atol=1e-8)
    assert report.certificate.objective == pytest.approx(1.0)


@pytest.mark.parametrize("parent", [[0, 0], [3, 0], []])
def test_forced_problems_need_no_solver(parent: list[int]) -> None:
    measured = np.zeros((len(parent), 1))
    query = MeasuredQuery("detailed", np.arange(len(parent)), measured, np.ones(1))
    x, report = solve(NodeProblem(np.array(parent, np.int64), np.ones((len(parent), 1), np.bool_), (query,)))
    assert x[:, 0].tolist() == parent
    assert (report.outcome, report.attempts, report.fallbacks) == (SolveOutcome.FORCED, (), 0)


def test_exact_measurements_come_back() -> None:
    rng = np.random.default_rng(5)
    problem = made_up(rng, 60, 8, "tract", gq=True)
    truth, _ = solve(problem)
    truth = np.zeros_like(truth)
    for cell in range(problem.cells):
        assert problem.parent is not None
        truth[cell, np.flatnonzero(problem.allowed[cell])[0]] = problem.parent[cell]
    queries = []
    for query in problem.queries:
        sums = np.zeros_like(query.measured)
        np.add.at(sums, query.groups, truth)
        queries.append(replace(query, measured=sums, weights=np.full(problem.units, 1e6)))
    x, report = solve(replace(problem, queries=tuple(queries), bounds=()))
    np.testing.assert_allclose(x, truth, atol=1e-6)
    assert (quantised(x) == truth).all()
    assert report.outcome is SolveOutcome.ACTIVE_SET


# ── totals ──


def test_totals_by_hand() -> None:
    np.testing.assert_allclose(project_totals([4.0, 9.0], [1.0, 2.0], 10.0), [2.0, 8.0])
    np.testing.assert_allclose(project_totals([-4.0, 3.0, 3.5], 1.0, 10.0), [0.0, 4.75, 5.25])
    np.testing.assert_allclose(project_totals([5.0, 5.0], 1.0, 10.0, [7.0, 0.0], [9.0, 9.0]), [7.0, 3.0])
    with np.errstate(over="raise"):  # a total that is next to known has a weight next to the largest number
        np.testing.assert_allclose(project_totals([-9.0, 8.0, 9.0], [1e300, 4e307, 4e307], 16.0), [0.0, 7.5, 8.5])
    np.testing.assert_allclose(project_totals([1.0, 1.0], 1.0, 10.0, -np.inf), [5.0, 5.0])
    np.testing.assert_allclose(project_totals([9.0, 1.0], 1.0, 10.0, 0.0, [4.0, 6.0]), [4.0, 6.0])
    with pytest.raises(ParameterError, match="room"):
        project_totals([1.0, 1.0], 1.0, 10.0, 0.0, 4.0)
    with pytest.raises(ParameterError, match="positive"):
        project_totals([1.0, 1.0], [1.0, 0.0], 10.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_totals_satisfy_the_optimality_conditions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    y, w = rng.normal(20, 30, count).round(), rng.choice([0.5, 1.0, 7.0], count)
    low = rng.integers(0, 6, count).astype(np.float64)
    high = low + np.where(rng.random(count) < 0.5, rng.integers(0, 40, count), np.inf)
    total = float(low.sum() + rng.random() * (np.minimum(high, 90.0) - low).sum())
    t = project_totals(y, w, total, low, high)
    assert t.sum() == pytest.approx(total, abs=1e-8)
    assert (t >= low).all()
    assert (t <= high).all()
    slope = w * (t - y)
    inside = (t > low + 1e-9) & (t < high - 1e-9)
    if inside.any():
        level = slope[inside].mean()
        np.testing.assert_allclose(slope[inside], level, atol=1e-6)
        assert (slope[t <= low + 1e-9] >= level - 1e-6)[(high > low)[t <= low + 1e-9]].all()
        assert (slope[t >= high - 1e-9] <= level + 1e-6)[(high > low)[t >= high - 1e-9]].all()


def test_totals_without_bounds_are_a_projection() -> None:
    problem = made_up(np.random.default_rng(3), 40, 6, "county")
    totals, report = estimate_totals(problem)
    total = next(query for query in problem.queries if query.name == "total")
    assert report.outcome is SolveOutcome.PROJECTED
    assert report.certificate.accepts()
    assert problem.parent is not None
    np.testing.assert_allclose(totals, project_totals(total.measured[0], total.weights, float(problem.parent.sum())))


def test_totals_that_no_child_alone_rules_out() -> None:
    # Nine people of one kind fit into the first two of four children only, whose measured totals are 2 and 2.
    total = MeasuredQuery("total", np.zeros(2, np.int64), np.array([[2.0, 2.0, 8.0, 8.0]]), np.ones(4))
    allowed = np.array([[True, True, False, False], [True, True, True, True]])
    problem = NodeProblem(np.array([9, 11]), allowed, (total,))
    totals, report = estimate_totals(problem)
    np.testing.assert_allclose(totals, [4.5, 4.5, 5.5, 5.5], atol=1e-6)
    assert report.outcome is SolveOutcome.ACTIVE_SET


@pytest.mark.parametrize("seed", range(12))
def test_totals_with_bounds_are_those_of_the_whole_problem(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = made_up(rng, int(rng.integers(10, 80)), int(rng.integers(2, 12)), "county", gq=True)
    totals, report = estimate_totals(problem)
    assert report.certificate.accepts()
    only = tuple(query for query in problem.queries if query.name == "total")
    oracle = Assembled(replace(problem, queries=only)).by_piqp()
    np.testing.assert_allclose(totals, oracle.sum(0), atol=2e-4)
    rest = tuple(query for query in problem.queries if query.name != "total")
    second = replace(problem, queries=rest, bounds=(*problem.bounds, tolerance_rows(problem, totals, 0.01)))
    x, _ = solve(second)
    assert np.abs(x.sum(0) - totals).max() <= 0.01 + 1e-7


# ── properties ──


def check(problem: NodeProblem, x: Floats, report: SolveReport) -> None:
    """Feasible, certified, and the certificate is not our word only: a linear program agrees."""
    assert report.outcome is not SolveOutcome.INEXACT
    assert problem.violation(x) <= 1e-7
    assert report.certificate.relative_gap <= 1e-6
    assert report.certificate.objective == pytest.approx(problem.objective(x), rel=1e-9, abs=1e-9)
    assert not ((x > 0) & (x < 1e-7)).any()
    assert (x[~problem.allowed] == 0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_small_problems_against_a_linear_program(seed: int) -> None:
    problem = random_problem(seed, largest=200)
    x, report = solve(problem)
    check(problem, x, report)
    if problem.parent is not None or problem.total is not None:
        assert Assembled(problem).linear_bound(x) <= 1e-6 * (report.certificate.objective + problem.scale)


@pytest.mark.parametrize("method", [active_set, interior_point, projected_gradient])
def test_every_method_finds_the_same_optimum(method: object) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem = made_up(rng, 30, 5, "group", gq=seed % 2 == 0, slack=0.01 if seed > 1 else None)
        prepared = prepare(problem)
        point: Point = method(prepared, reference_point(prepared))  # type: ignore[operator]
        assert point.finished
        found = certify(prepared, point.x, point.multipliers)
        assert found.relative_gap <= 1e-8
        assert found.violation <= 1e-8


@pytest.mark.parametrize("total", [True, False])
def test_roots(total: bool) -> None:
    problem = made_up_root(np.random.default_rng(8), 300, total=total)
    x, report = solve(problem)
    check(problem, x, report)
    oracle = problem.objective(Assembled(problem).by_piqp())
    assert report.certificate.objective == pytest.approx(oracle, rel=1e-6)


def test_the_same_input_gives_the_same_bits() -> None:
    for seed in range(8):
        first, second = (solve(random_problem(seed, largest=600))[0] for _ in range(2))
        assert first.tobytes() == second.tobytes()


_SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from tests.kits.least_squares import random_problem
from confide.estimation.least_squares import quantised, solve
bits, quanta = hashlib.sha256(), hashlib.sha256()
for seed in range(12):
    x, _ = solve(random_problem(seed, largest=1500))
    bits.update(x.tobytes())
    quanta.update(quantised(x).tobytes())
print(bits.hexdigest(), quanta.hexdigest())
"""


@pytest.mark.process
@pytest.mark.slow
def test_other_processes_agree_to_the_bit_and_other_threads_to_the_quantum() -> None:
    found = []
    for threads in ("1", "1", "2"):
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        command = [sys.executable, "-c", _SCRIPT, str(Path(__file__).parents[2])]
        found.append(
            subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
        )
    assert found[0] == found[1]
    assert found[0][1] == found[2][1]


def test_a_wrong_point_is_not_certified() -> None:
    problem = made_up(np.random.default_rng(2), 40, 5, "tract", slack=0.01)
    prepared = prepare(problem)
    good = active_set(prepared, reference_point(prepared))
    assert certify(prepared, good.x, good.multipliers).accepts()
    start = reference_point(prepared)
    assert not certify(prepared, start, good.multipliers).accepts()
    assert not certify(prepared, good.x, -good.multipliers).accepts()
    moved = good.x.copy()
    moved[0, np.argmax(moved[0])] += 1e-6
    assert not certify(prepared, moved, good.multipliers).accepts()
    worse = project(good.x + 0.05 * start, prepared.free, prepared.sums, prepared.axis)
    value = problem.objective(worse) - problem.objective(good.x)
    assert certify(prepared, worse, good.multipliers).gap >= value - 1e-9 or problem.violation(worse) > 1e-7


# ── failures ──


def test_bounds_that_clash_are_named() -> None:
    bound = GroupBounds("facilities", np.zeros(1, np.int64), np.array([[7.0, 5.0]]), np.full((1, 2), np.inf))
    problem = node([10], detailed([[5.0, 5.0]]), bounds=(bound,), children=("tract 1", "tract 2"))
    with pytest.raises(InfeasibleError, match="facilities, group 0, tract") as caught:
        solve(problem)
    assert caught.value.findings[0].code == "infeasible"


def test_tolerance_rows_that_clash_are_named() -> None:
    problem = node([10], detailed([[5.0, 5.0]]))
    with pytest.raises(InfeasibleError, match="totals of pass 0"):
        solve(replace(problem, bounds=(tolerance_rows(problem, np.array([5.0, 6.0]), 0.01),)))


def test_people_without_a_place_are_named() -> None:
    problem = node([3, 10], detailed([[5.0, 5.0], [5.0, 5.0]]))
    with pytest.raises(InfeasibleError, match="cell 1"):
        solve(replace(problem, allowed=np.array([[True, True], [False, False]])))


def test_a_forced_problem_can_be_infeasible() -> None:
    bound = GroupBounds("facilities", np.zeros(1, np.int64), np.zeros((1, 1)), np.full((1, 1), 4.0))
    with pytest.raises(InfeasibleError, match="facilities"):
        solve(node([10], detailed([[5.0]]), bounds=(bound,)))


@pytest.mark.parametrize(("lower", "upper"), [([[6.0, 0.0]], [[5.0, 7.0]]), ([[-6.0, 0.0]], [[-5.0, 7.0]])])
def test_impossible_bounds_are_named(lower: list[list[float]], upper: list[list[float]]) -> None:
    bound = GroupBounds("kinds", np.zeros(2, np.int64), np.array(lower), np.array(upper))
    with pytest.raises(InfeasibleError, match="kinds, group 0, child 0"):
        solve(node([3, 4], detailed([[1.0, 2.0], [3.0, 4.0]]), bounds=(bound,)))


@pytest.mark.parametrize("root", [True, False])
def test_without_measurements_any_feasible_point_will_do(root: bool) -> None:
    parent = None if root else np.array([3, 4, 5])
    bound = GroupBounds("kinds", np.array([0, 0, -1]), np.array([[6.0]]), np.array([[np.inf]]))
    problem = NodeProblem(parent, np.ones((3, 1), np.bool_), (), (bound,), total=9 if root else None)
    x, report = solve(problem)
    assert problem.violation(x) <= 1e-9
    assert report.certificate.objective == report.certificate.gap == 0.0


def test_feasible_problems_have_no_clashes() -> None:
    for seed in range(6):
        assert clashes(prepare(random_problem(seed, largest=300))) == []


def test_fallbacks_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = made_up(np.random.default_rng(4), 30, 4, "group", slack=0.01)

    def give_up(prepared: object, start: Floats) -> Point:
        return Point(start, np.zeros(prepare(problem).rows.count), 1, finished=False)

    def give_up_at_first(prepared: Prepared, start: Floats, status: Integers | None = None) -> Point:
        # Projected gradients hand their point to it, with the side rows that bind: that still works.
        return give_up(prepared, start) if status is None else active_set(prepared, start, status)

    monkeypatch.setattr(solving, "active_set", give_up_at_first)
    x, report = solve(problem)
    check(problem, x, report)
    assert report.outcome is SolveOutcome.INTERIOR_POINT
    assert report.fallbacks == 1
    monkeypatch.setattr(solving, "interior_point", give_up)
    assert solve(problem)[1].outcome is SolveOutcome.PROJECTED_GRADIENT
    monkeypatch.setattr(solving, "projected_gradient", give_up)
    with pytest.raises(UnsolvedError):
        solve(problem)
    free = replace(problem, bounds=())
    monkeypatch.setattr(solving, "active_set", lambda *_: Point(reference_point(prepare(free)), np.zeros(0), 1, False))
    monkeypatch.setattr(solving, "interior_point", solving.active_set)
    monkeypatch.setattr(solving, "projected_gradient", solving.active_set)
    _, report = solve(free)
    assert report.outcome is SolveOutcome.INEXACT
    assert report.certificate.relative_gap > 1e-6
    assert report.fallbacks == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": np.array([1.5, 2.0])}, "parent counts"),
        ({"parent": np.array([-1, 2])}, "negative"),
        ({"parent": np.array([1, 2, 3])}, "parent counts"),
        ({"parent": None}, "one unit"),
        ({"total": 3}, "beside the parent"),
        ({"allowed": np.ones(2, np.bool_)}, "not a table"),
        ({"allowed": np.ones((2, 0), np.bool_)}, "not a table"),
        ({"allowed": np.ones((2, 3), np.bool_)}, "shape differs"),
        ({"children": ("a",)}, "names of children"),
        ({"child_sums": (ChildSums("s", np.array([0]), np.zeros(1), np.ones(1)),)}, "members"),
    ],
)
def test_wrong_shapes_are_refused(change: dict[str, object], message: str) -> None:
    problem = node([5, 5], detailed([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises(ParameterError, match=message):
        replace(problem, **change)  # type: ignore[arg-type]


def test_wrong_queries_are_refused() -> None:
    one, two = np.zeros(2, np.int64), np.zeros((1, 2))
    for groups, measured, weights in [
        (np.zeros(2), two, np.ones(2)),
        (one - 2, two, np.ones(2)),
        (one + 1, two, np.ones(2)),
        (one, two, np.ones(3)),
        (one, two, -np.ones(2)),
        (one, two + np.nan, np.ones(2)),
    ]:
        with pytest.raises(ParameterError):
            MeasuredQuery("q", groups, measured, weights)
    with pytest.raises(ParameterError):
        GroupBounds("b", one, two, two + np.nan)
    with pytest.raises(ParameterError):
        GroupBounds("b", one + 1, two, two)
    with pytest.raises(ParameterError):
        ChildSums("c", one, np.zeros(0), np.zeros(0))


def test_where_everything_can_be_met_nothing_is_left_to_prove() -> None:
    """A million people in 2,016 cells, of whom eight groups were measured: what is left of gradients is rounding."""
    groups, random = np.arange(2016) // 252, np.random.default_rng(1)
    measured = random.random(8)
    measured *= 1_052_567 / measured.sum()
    query = MeasuredQuery("kind", groups, measured[:, None], np.array([3.0]))
    x, report = solve(NodeProblem(None, np.ones((2016, 1), bool), (query,), (), (), 1_052_567))
    assert report.outcome is SolveOutcome.ACTIVE_SET
    assert report.certificate.gap <= report.certificate.objective < 1e-12
    assert np.bincount(groups, x[:, 0]) == pytest.approx(measured)
