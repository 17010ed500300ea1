"""Controlled rounding: answers found by hand, by trying everything, and by a mixed-integer solver."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.rounding import FREE, brute_force, by_milp, keeps, random_problem, value
from tests.kits.times import mostly_slow

from confide.errors import RunError
from confide.estimation.rounding import Partition, RoundingOutcome, RoundingProblem, RoundingTally, round_counts


def total(cells: int, **options: object) -> Partition:
    return Partition("total", np.zeros(cells, np.int64), **options)  # type: ignore[arg-type]


def rounded(
    estimate: list[list[float]], parent: list[int] | None, *partitions: Partition, **options: object
) -> list[list[int]]:
    whole = None if parent is None else np.array(parent)
    return round_counts(RoundingProblem(np.array(estimate), whole, partitions, **options)).counts.tolist()  # type: ignore[arg-type]


def test_rounding_each_cell_by_itself_would_break_the_parent_sum() -> None:
    estimate = [[0.5, 0.5], [1.5, 1.5], [0.4, 0.6]]
    parent = [1, 3, 1]
    assert np.rint(estimate).sum(axis=1).tolist() == [0, 4, 1]
    counts = np.array(rounded(estimate, parent, total(3)))
    assert counts.sum(axis=1).tolist() == parent
    # Fractional totals 1.4 and 1.6: the targets are 1 and 2 of the three units.
    assert (counts - [[0, 0], [1, 1], [0, 0]]).sum(axis=0).tolist() == [1, 2]


def test_three_thirds_become_a_permutation() -> None:
    counts = np.array(rounded([[1 / 3] * 3] * 3, [1, 1, 1], total(3)))
    assert counts.sum(axis=0).tolist() == counts.sum(axis=1).tolist() == [1, 1, 1]


def test_totals_first_changes_the_answer() -> None:
    estimate, parent = [[0.6, 0.4], [0.7, 0.3]], [1, 1]
    # Totals 1.3 and 0.7 have the targets 1 and 1. In one pass with cells counted twice, leaving both totals off by
    # one costs 2 and rounding a cell away from its half costs 4; with totals first, totals come before any cell.
    assert rounded(estimate, parent, total(2), cell_weight=2) == [[1, 0], [1, 0]]
    # The first cell gives way: 0.6 is nearer to being rounded down than 0.7.
    assert rounded(estimate, parent, total(2), cell_weight=2, cell_pass=1) == [[0, 1], [1, 0]]


def test_halves_go_to_the_even_number() -> None:
    # Fractional totals 0.5, 1.5, 1.0: targets 0, 2, 1.
    estimate = [[0.25, 0.75, 0.0], [0.25, 0.75, 1.0], [0.0, 0.0, 1.0]]
    estimate[2] = [0.0, 0.0, 2.0]
    assert rounded(estimate, [1, 2, 2], total(3)) == [[0, 1, 0], [0, 1, 1], [0, 0, 2]]


def test_the_tie_breaker_takes_the_larger_part_and_never_overrides_the_distance() -> None:
    assert rounded([[0.2, 0.5, 0.3]], [1]) == [[0, 1, 0]]
    # Cell 1 alone would prefer the first child by far; the totals' targets 0 and 1 decide.
    far = [[0.4, 0.3, 0.3], [0.0, 0.3, 0.7]]
    assert rounded(far, [1, 1], total(2))[1] == [0, 0, 1]
    assert rounded(far, [1, 1], total(2))[0] == [0, 1, 0]


def test_bounds_force_a_cell() -> None:
    lower = np.array([[0, 0, 0], [0, 0, 1]])
    types = Partition("hhgq", np.array([0, 1]), lower=lower, upper=np.full((2, 3), FREE))
    estimate = [[0.4, 0.4, 0.2], [0.5, 0.3, 0.2]]
    assert rounded(estimate, [1, 1], types)[1] == [0, 0, 1]
    closed = Partition("hhgq", np.array([0, 1]), upper=np.array([[0, FREE, FREE], [FREE, FREE, FREE]]))
    assert rounded(estimate, [1, 1], closed)[0] == [0, 1, 0]


def test_group_totals_are_kept() -> None:
    estimate = [[0.9, 0.9, 0.2, 0.0], [0.6, 0.6, 0.4, 0.4]]
    parent = [2, 2]
    options = {"child_group": np.array([0, 0, 1, -1]), "group_totals": np.array([2, 1])}
    counts = np.array(rounded(estimate, parent, total(2), **options))
    assert counts.sum(axis=1).tolist() == parent
    assert (counts[:, :2].sum(), counts[:, 2].sum(), counts[:, 3].sum()) == (2, 1, 1)


def test_the_root_has_no_parent() -> None:
    invariant = np.array([[3]])
    estimate = [[0.75], [0.5], [0.5], [1.25]]
    assert rounded(estimate, None, total(4, lower=invariant, upper=invariant)) == [[1], [1], [0], [1]]
    assert rounded(estimate, None) == [[1], [0], [0], [1]]


def test_a_whole_estimate_stays_as_it_is() -> None:
    result = round_counts(RoundingProblem(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3, 4]), (total(2),)))
    assert result.counts.tolist() == [[2, 1], [0, 4]]
    assert (result.report.outcome, result.report.distances) == (RoundingOutcome.WHOLE, (0,))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_small_shapes(shape: tuple[int, int]) -> None:
    problem = RoundingProblem(np.ones(shape), np.full(shape[0], shape[1]), (total(shape[0]),))
    assert np.array_equal(round_counts(problem).counts, np.ones(shape))


def test_noise_of_the_last_digits_does_not_matter() -> None:
    problem = random_problem(5, cells=20, children=6)
    shaken = problem.estimate + np.where(problem.estimate > 1e-3, 1e-9, 0.0)
    other = RoundingProblem(shaken, problem.parent, problem.partitions, *_rest(problem))
    assert np.array_equal(round_counts(problem).counts, round_counts(other).counts)


def _rest(problem: RoundingProblem) -> tuple[object, ...]:
    return problem.cell_weight, problem.cell_pass, problem.allowed, problem.child_group, problem.group_totals


def test_an_estimate_that_misses_a_bound_is_widened_and_says_so() -> None:
    lower = np.array([[1, 0]])
    result = round_counts(RoundingProblem(np.array([[0.0, 2.0]]), np.array([2]), (total(1, lower=lower),)))
    assert result.counts.tolist() == [[1, 1]]
    assert result.report.outcome is RoundingOutcome.WIDENED


@pytest.mark.parametrize(("estimate", "parent"), [([0.2, 0.3], 3), ([4.0, 2.9], 5)])
def test_an_estimate_that_misses_the_parent_is_widened_as_little_as_possible(
    estimate: list[float], parent: int
) -> None:
    result = round_counts(RoundingProblem(np.array([estimate]), np.array([parent]), ()))
    low, high = np.floor(estimate), np.floor(estimate) + 1
    outside = np.maximum(low - result.counts, 0) + np.maximum(result.counts - high, 0)
    assert (result.counts.sum(), outside.sum()) == (parent, 1)
    assert result.report.outcome is RoundingOutcome.WIDENED
    assert result.report.gap >= 1_900_000


def test_what_cannot_be_is_refused_with_the_names_of_the_constraints() -> None:
    problem = RoundingProblem(np.array([[0.5, 1.5]]), np.array([2]), (total(1, lower=np.array([[3, 0]])),))
    with pytest.raises(RunError, match="the bounds of 'total'") as caught:
        round_counts(problem)
    assert caught.value.findings[0].code == "rounding-infeasible"


@pytest.mark.parametrize("seed", mostly_slow(range(200), 50))
def test_the_distance_is_that_of_a_mixed_integer_solver(seed: int) -> None:
    """Two hundred instances; every other one with group totals, every fifth with many halves, every tenth a root."""
    root = seed % 10 == 9
    problem = random_problem(
        seed,
        cells=4 + seed % 13,
        children=1 + seed % 2 if root else 2 + seed % 5,
        levels=1 + seed % 4,
        passes=1 + seed % 3 % 2,
        groups=seed % 2 == 0,
        root=root,
        halves=seed % 5 == 0,
    )
    result = round_counts(problem)
    assert keeps(problem, result.counts)
    assert result.report.outcome in (RoundingOutcome.NETWORK, RoundingOutcome.WHOLE)
    assert list(result.report.distances) == by_milp(problem)
    assert [*value(problem, result.counts)][:-1] == list(result.report.distances)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    cells=st.integers(1, 4),
    children=st.integers(1, 3),
    levels=st.integers(0, 3),
    passes=st.integers(1, 3),
    groups=st.booleans(),
    root=st.booleans(),
    halves=st.booleans(),
)
def test_nothing_is_better_among_all_roundings(seed: int, **options: int) -> None:
    """Passes in order, then the tie-breaker, as exact fractions."""
    problem = random_problem(seed, **options)  # type: ignore[arg-type]
    result = round_counts(problem)
    assert keeps(problem, result.counts)
    assert value(problem, result.counts) == brute_force(problem)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    cells=st.integers(1, 60),
    children=st.integers(1, 20),
    levels=st.integers(0, 4),
    groups=st.booleans(),
    root=st.booleans(),
)
def test_every_constraint_holds_and_no_cell_moves_by_more_than_one(seed: int, **options: int) -> None:
    problem = random_problem(seed, **options)  # type: ignore[arg-type]
    result = round_counts(problem)
    assert keeps(problem, result.counts)
    # The estimate is feasible, and then a rounding down or up always is.
    assert result.report.outcome in (RoundingOutcome.NETWORK, RoundingOutcome.WHOLE)
    assert np.abs(result.counts - problem.estimate).max() <= 1 + 1e-6


def test_tallies_add_up_in_any_order() -> None:
    tallies = [RoundingTally.of(round_counts(random_problem(seed)).report) for seed in range(4)]
    forwards = sum(tallies, RoundingTally())
    assert forwards == sum(reversed(tallies), RoundingTally())
    shown = forwards.as_dict()
    assert shown["outcomes"] == {"whole": 0, "network": 4, "linear-program": 0, "widened": 0}
    assert 0 < shown["largest_gap"] < Fraction(1, 10_000)
