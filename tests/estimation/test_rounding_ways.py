"""The ways to a rounding agree, the order of passes is exact, bad problems are refused, and bytes repeat."""

from __future__ import annotations

import doctest
import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.kits.rounding import keeps, random_problem, value
from tests.kits.times import mostly_slow

from confide.errors import ParameterError
from confide.estimation import network
from confide.estimation import network as network_simplex
from confide.estimation.network import Prices, build, minimise
from confide.estimation.rounding import (
    Partition,
    RoundingOutcome,
    RoundingProblem,
    crossings,
    objective,
    round_counts,
    round_half_even,
    rounding_remainder,
    solve_linear,
)

KNOWN = "76550391ce9ba7c235ad2ccb0e2badb8da17dbbf270a3c7beace30b6e1f65e92"


@pytest.mark.parametrize("seed", mostly_slow(range(24), 6))
@pytest.mark.parametrize("groups", [False, True])
def test_network_and_linear_program_agree_to_the_last_millionth(seed: int, groups: bool) -> None:
    problem = random_problem(
        seed, cells=40, children=8, levels=4, passes=1 + seed % 3, groups=groups, root=seed % 6 == 5
    )
    left = rounding_remainder(problem)
    result = round_counts(problem)
    linear = solve_linear(left)
    wide = solve_linear(left, widened=True)
    assert linear.ups is not None
    assert wide.ups is not None
    best = objective(left, result.counts[left.order] - left.floor)
    assert best == objective(left, linear.ups) == objective(left, wide.ups)
    assert keeps(problem, left.counts(linear.ups))
    exact = value(problem, result.counts)
    assert exact == (*best[:-1], exact[-1])
    assert exact[-1] * 500_000 == best[-1]


@pytest.mark.parametrize("seed", range(5))
def test_the_flow_is_optimal_for_an_independent_solver(seed: int) -> None:
    """The network's own cost, by a general linear program over its arcs."""
    left = rounding_remainder(random_problem(seed, cells=15, children=5, groups=True))
    prices = Prices.of(left)
    assert prices is not None
    net = build(left, Prices(tuple(10_000_000 for _ in prices.passes), 10**9))
    solved = minimise(net)
    assert solved is not None
    incidence = np.zeros((net.nodes, len(net.tail)))
    np.add.at(incidence, (net.tail, np.arange(len(net.tail))), 1)
    np.subtract.at(incidence, (net.head, np.arange(len(net.tail))), 1)
    assert np.array_equal(incidence @ solved[0], incidence @ net.flow)
    room = np.minimum(net.capacity, 10_000)
    best = linprog(net.cost / 1e6, A_eq=incidence, b_eq=incidence @ net.flow, bounds=np.column_stack([0 * room, room]))
    assert best.fun == pytest.approx(float(net.cost @ solved[0]) / 1e6, rel=1e-9)


def test_the_first_basis_is_a_strongly_feasible_tree() -> None:
    for seed in range(20):
        left = rounding_remainder(
            random_problem(seed, cells=12, children=5, levels=4, groups=seed % 2 == 0, root=seed % 5 == 4)
        )
        prices = Prices.of(left)
        assert prices is not None
        net = build(left, prices)
        tree = net.basis[1:]
        assert len(set(tree.tolist())) == net.nodes - 1
        assert np.array_equal(net.tail[tree], np.arange(1, net.nodes))  # every tree arc points towards the ground
        assert (net.flow[tree] < net.capacity[tree]).all()  # and has room
        outside = np.setdiff1d(np.arange(len(net.tail)), tree)
        assert np.isin(net.flow[outside] - net.capacity[outside] * (net.flow[outside] > 0), 0).all()


@pytest.mark.parametrize("trouble", ["no room for the prices", "too many pivots"])
def test_the_fallback_gives_the_same_distance_and_is_named(monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    problem = random_problem(3, cells=30, children=6)
    expected = round_counts(problem)
    if trouble == "no room for the prices":
        monkeypatch.setattr(network, "_ROOM", 1)
    else:
        monkeypatch.setattr(network_simplex, "_LEAST_PIVOTS", 0)
        monkeypatch.setattr(network_simplex, "_PIVOTS_PER_ARC", 0)
    result = round_counts(problem)
    assert (expected.report.outcome, result.report.outcome) == (RoundingOutcome.NETWORK, RoundingOutcome.LINEAR)
    assert value(problem, result.counts) == value(problem, expected.counts)


def test_prices_fit_for_the_largest_problems_of_the_2020_census() -> None:
    """2,016 cells in 600 children with bounds, and 51 state totals over 100 children."""
    for children, groups in ((600, 0), (100, 51)):
        cells = np.arange(2016)
        bound = np.zeros((8, children), np.int64)
        chain = (
            Partition("total", cells * 0),
            Partition("hhgq", cells // 252, 1, lower=bound, upper=bound + 10**6),
            Partition("hhgq*hispanic", cells // 126, 1),
            Partition("hhgq*hispanic*cenrace", cells // 2, 1),
        )
        estimate = np.full((2016, children), 0.5)
        family = np.arange(children) % groups if groups else None
        totals = np.full(groups, 5, np.int64) if groups else None
        problem = RoundingProblem(estimate, np.full(2016, children // 2), chain, 2, 1, None, family, totals)
        assert Prices.of(rounding_remainder(problem)) is not None


def test_a_result_that_breaks_a_sum_is_never_handed_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that returns its first flow, the largest remainders, misses group totals: the check notices."""
    problem = random_problem(8, cells=30, children=6, groups=True)
    expected = round_counts(problem)
    monkeypatch.setattr(network_simplex, "minimise", lambda net, **_: (net.flow.astype(np.int64), 0))
    result = round_counts(problem)
    assert (expected.report.outcome, result.report.outcome) == (RoundingOutcome.NETWORK, RoundingOutcome.LINEAR)
    assert value(problem, result.counts) == value(problem, expected.counts)


def test_a_chain_is_accepted_and_crossing_queries_are_named() -> None:
    cells = np.arange(16)
    hhgq, age, sex = cells // 8, cells // 4 % 2, cells // 2 % 2
    chain = [Partition("total", 0 * cells), Partition("hhgq", hhgq), Partition("hhgq*age", hhgq * 2 + age)]
    assert crossings(chain) == []
    (finding,) = crossings([*chain[:2], Partition("sex", sex)])
    assert finding.code == "rounding-crossing"
    assert "'sex' does not refine 'hhgq'" in finding.what
    assert finding.found == "group 0 of 'sex' has cells in groups 0 and 1 of 'hhgq'"
    (finding,) = crossings([chain[2], chain[1]])
    assert (finding.code, finding.remedy) == ("rounding-order", "put 'hhgq' before 'hhgq*age'")
    with pytest.raises(ParameterError, match="does not refine"):
        RoundingProblem(np.zeros((16, 1)), None, (chain[1], Partition("sex", sex)))


GOOD = random_problem(0, groups=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimate": GOOD.estimate.astype(np.float32)}, "the estimate has another form"),
        ({"estimate": GOOD.estimate - 1}, "values that are no counts"),
        ({"estimate": GOOD.estimate * np.nan}, "values that are no counts"),
        ({"estimate": GOOD.estimate + np.inf}, "values that are no counts"),
        ({"parent": np.zeros(3, np.int64)}, "parent has another form"),
        ({"parent": np.zeros(8)}, "parent has another form"),
        ({"allowed": np.ones((8, 4))}, "allowed cells have another form"),
        ({"group_totals": None}, "come together"),
        ({"child_group": np.array([0, 1, 2, 3])}, "a group that has no total"),
        ({"cell_weight": -1}, "negative"),
        ({"partitions": (Partition("short", np.zeros(3, np.int64)),)}, "partition 'short' has another form"),
        ({"partitions": (Partition("low", np.full(8, -1)),)}, "negative groups"),
        ({"partitions": (Partition("p", np.arange(8), upper=np.zeros((3, 4), np.int64)),)}, "is too short"),
        ({"partitions": (Partition("p", np.arange(8), lower=np.zeros((8, 3), np.int64)),)}, "a bound of 'p'"),
    ],
)
def test_problems_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        replace(GOOD, **change)  # type: ignore[arg-type]


def test_halves_are_rounded_to_even_exactly() -> None:
    millionths = np.array([0, 499_999, 500_000, 500_001, 1_499_999, 1_500_000, 2_500_000, 3_500_000, 3_500_001])
    assert round_half_even(millionths).tolist() == [0, 0, 0, 1, 1, 2, 2, 4, 4]


def test_the_examples_of_the_page_are_true() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "rounding.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (failed, tried > 10) == (0, True)


def digest() -> str:
    """The bytes of twenty roundings."""
    found = hashlib.sha256()
    for seed in range(20):
        found.update(round_counts(random_problem(seed, cells=30, children=7, groups=seed % 2 == 0)).counts.tobytes())
    return found.hexdigest()


@pytest.mark.slow
@pytest.mark.process
def test_the_same_input_gives_the_same_bytes_in_another_process() -> None:
    program = "from tests.estimation.test_rounding_ways import digest; print(digest())"
    other = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == digest() == KNOWN
