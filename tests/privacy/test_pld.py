"""The privacy loss distribution: known answers, an exact oracle, and what is refused."""

import itertools
import time
import tracemalloc
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.exact import up
from confide.privacy import (
    BoundedDegree,
    Bracket,
    Measurement,
    Neighbours,
    NoisyCells,
    Parallel,
    Sequential,
    cks_epsilon,
    delta_bracket,
    epsilon_bracket,
    event_epsilon_bracket,
    gaussian_limit_epsilon,
    noisy_cells,
)
from tests.kits.times import mostly_slow

RHO, DELTA = Fraction("2.56"), Fraction(1, 10**10)


def equal_queries(queries: int, cells: int) -> list[NoisyCells]:
    return [NoisyCells(Fraction(queries * cells) / (2 * RHO), cells, queries)]


def oracle_delta(cells: list[Fraction], epsilon: Fraction) -> mpmath.mpf:
    """δ(ε) = Σ max(0, P − exp(ε)Q) over all outputs of all cells: the definition, with 50 digits."""
    with mpmath.workdps(50):
        e = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        tables = []
        for sigma2 in cells:
            s2 = mpmath.mpf(sigma2.numerator) / sigma2.denominator
            reach = int(mpmath.sqrt(s2 * 110)) + 2
            total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s2)) for x in range(-4 * reach, 4 * reach + 1))
            tables.append(
                [
                    (mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * s2)) / total,
                     mpmath.exp(-(mpmath.mpf(x - 1) ** 2) / (2 * s2)) / total)
                    for x in range(-reach, reach + 2)
                ]
            )  # fmt: skip
        result = mpmath.mpf(0)
        for outputs in itertools.product(*tables):
            p, q = mpmath.mpf(1), mpmath.mpf(1)
            for one, other in outputs:
                p, q = p * one, q * other
            if p > e * q:
                result += p - e * q
        return result


def within(value: float, bracket: Bracket, slack: float) -> bool:
    return bracket.optimistic - slack <= value <= bracket.pessimistic + slack


@pytest.mark.parametrize(
    ("queries", "cells", "low", "high"),
    [
        (1, 1, 12.795, 12.805),
        (1, 2, 15.3585, 15.3595),
        (24, 2, 16.4796, 16.4828),
        (72, 2, 16.4720, 16.4864),
        (200, 2, 16.4725, 16.4831),
    ],
)
def test_known_answers(queries: int, cells: int, low: float, high: float) -> None:
    bracket = epsilon_bracket(equal_queries(queries, cells), DELTA)
    assert low <= bracket.optimistic <= bracket.pessimistic <= high
    assert bracket.pessimistic - bracket.optimistic < 1e-7


def test_many_queries_come_close_to_the_gaussian_limit() -> None:
    bracket = epsilon_bracket(equal_queries(200, 2), DELTA)
    limit = gaussian_limit_epsilon(RHO, DELTA)
    assert abs(bracket.pessimistic - limit) < 1e-4
    assert abs(bracket.optimistic - limit) < 1e-4
    assert bracket.pessimistic < cks_epsilon(RHO, DELTA)
    # but the limit is not a bound: fewer queries lie above it, and certainly so
    assert epsilon_bracket(equal_queries(24, 2), DELTA).optimistic > limit


def unequal(levels: int, queries: int) -> list[NoisyCells]:
    weights = [Fraction((level + 1) ** 2 + query) for level in range(levels) for query in range(queries)]
    return [NoisyCells(sum(weights) / (RHO * weight), 2) for weight in weights]


def test_unequal_queries_meet_on_the_grid() -> None:
    """6 levels × 5 queries, all different: within 0.01 of the limit at the default interval."""
    parts = unequal(6, 5)
    fine, coarse = epsilon_bracket(parts, DELTA), epsilon_bracket(parts, DELTA, interval="1e-3")
    limit = gaussian_limit_epsilon(RHO, DELTA)
    assert fine.pessimistic - fine.optimistic < 0.006
    assert abs(fine.pessimistic - limit) < 0.01
    assert abs(fine.optimistic - limit) < 0.01
    assert coarse.optimistic < fine.optimistic < fine.pessimistic < coarse.pessimistic


def test_fast_and_small() -> None:
    start = time.process_time()
    epsilon_bracket(equal_queries(200, 2), DELTA)
    assert time.process_time() - start < 2
    tracemalloc.start()
    try:
        epsilon_bracket(unequal(2, 3), DELTA)
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


CASES = [
    [Fraction(25, 128)],
    [Fraction(1, 2), Fraction(1, 2)],
    [Fraction(3, 4), Fraction(3, 4), Fraction(3, 4)],
    [Fraction(1), Fraction(3)],
    [Fraction(1, 3), Fraction(1), Fraction(1)],
    [Fraction(40), Fraction(7, 5)],
]


@pytest.mark.parametrize("cells", CASES, ids=str)
@pytest.mark.parametrize("epsilon", mostly_slow([Fraction(1, 2), Fraction(8), Fraction(0), Fraction(3)], 2))
def test_against_the_definition(cells: list[Fraction], epsilon: Fraction) -> None:
    parts = [NoisyCells(sigma2, 1) for sigma2 in cells]
    bracket = delta_bracket(parts, epsilon)
    with mpmath.workdps(50):
        value = oracle_delta(cells, epsilon)
        assert bracket.optimistic <= value <= bracket.pessimistic
        mixed = len(set(cells)) > 1
        assert bracket.pessimistic <= value * (1 + mpmath.mpf("1e-2" if mixed else "1e-7")) + mpmath.mpf("1e-40")
        assert bracket.optimistic >= value * (1 - mpmath.mpf("1e-2" if mixed else "1e-7")) - mpmath.mpf("1e-40")
        if value > 0 and bracket.optimistic > 0:
            back = epsilon_bracket(parts, Fraction(float(value)))
            assert within(float(epsilon), back, 1e-9)


def test_the_grid_is_where_it_should_be() -> None:
    """Losses that are multiples of the interval move by exactly one interval for each law, up or down."""
    cells, parts = [Fraction(1, 2), Fraction(1)], [NoisyCells("1/2", 1), NoisyCells(1, 1)]
    bracket = delta_bracket(parts, Fraction(31, 10), interval="1/2")
    assert bracket.pessimistic == pytest.approx(float(oracle_delta(cells, Fraction(21, 10))), rel=1e-9)
    assert bracket.optimistic == pytest.approx(float(oracle_delta(cells, Fraction(41, 10))), rel=1e-9)


@pytest.mark.parametrize("delta", ["1e-30", "1e-200"])
def test_very_small_deltas(delta: str) -> None:
    """Tilting keeps the error relative: the bracket is as narrow far out in the tail."""
    bracket = epsilon_bracket(equal_queries(24, 2), delta)
    assert bracket.pessimistic - bracket.optimistic < 1e-6
    assert bracket.pessimistic < cks_epsilon(RHO, delta)


@pytest.mark.parametrize("delta", ["1e-3", "1e-10", "1e-15", "1e-20", "1e-60"])
def test_both_ends_meet_where_one_variance_is_measured(delta: str) -> None:
    """Nothing is rounded there but floats; the masses of small losses, which are rounding errors, decide nothing."""
    parts = [NoisyCells(Fraction(7 * case % 401 + 1, case % 20 + 1), 3 * case % 40 + 1) for case in range(1, 30)]
    for part in [*parts, NoisyCells(4, 2, 8)]:
        bracket = epsilon_bracket([part], delta)
        assert 0 < bracket.optimistic <= bracket.pessimistic < bracket.optimistic + 1e-6, part


@pytest.mark.parametrize("delta", ["1e-3", "1e-15", "1e-25"])
@pytest.mark.parametrize("cells", [[Fraction(1)], [Fraction(3, 4)] * 2, [Fraction(1), Fraction(3)]], ids=str)
def test_the_lower_end_is_certainly_not_enough(cells: list[Fraction], delta: str) -> None:
    bracket = epsilon_bracket([NoisyCells(sigma2, 1) for sigma2 in cells], delta)
    with mpmath.workdps(50):
        assert oracle_delta(cells, Fraction(bracket.optimistic)) > mpmath.mpf(delta)
        assert oracle_delta(cells, Fraction(bracket.pessimistic)) <= mpmath.mpf(delta)
    assert bracket.pessimistic - bracket.optimistic < 1e-3


parts_lists = st.lists(
    st.builds(NoisyCells, st.fractions(Fraction(1, 5), 60, max_denominator=12), st.integers(1, 3), st.integers(1, 5)),
    min_size=1,
    max_size=4,
)


@given(parts_lists, st.integers(2, 25))
@settings(max_examples=8, deadline=None)
def test_never_above_the_bound_for_all_zcdp_mechanisms(parts: list[NoisyCells], k: int) -> None:
    """The pessimistic end may exceed it by what was rounded up, the optimistic one may not at all."""
    rho = sum((part.cells * part.count / (2 * part.sigma2) for part in parts), Fraction())
    bracket, bound = epsilon_bracket(parts, Fraction(1, 10**k), "1e-3"), cks_epsilon(rho, Fraction(1, 10**k))
    assert bracket.optimistic <= bracket.pessimistic <= bound + 1e-3 * len(parts) + 1e-9
    assert bracket.optimistic <= bound
    more = epsilon_bracket([*parts, NoisyCells(5, 1)], Fraction(1, 10**k), "1e-3")
    assert bracket.optimistic <= more.pessimistic


@given(parts_lists)
@settings(max_examples=15, deadline=None)
def test_delta_falls_with_epsilon(parts: list[NoisyCells]) -> None:
    first, second = (delta_bracket(parts, epsilon, "1e-3") for epsilon in (1, 3))
    assert second.optimistic <= first.pessimistic
    assert 0 <= first.optimistic <= first.pessimistic <= 1


@pytest.mark.parametrize(
    ("parts", "interval"),
    [
        ([NoisyCells("1e14", 1)], "1e-4"),
        ([NoisyCells(1, 1), NoisyCells(2, 1)], "1e-8"),
        ([NoisyCells(1, 10**6), NoisyCells(2, 1)], "1e-4"),
        ([NoisyCells("1e-6", 1)], "1e-4"),
    ],
)
def test_too_large_is_refused_at_once(parts: list[NoisyCells], interval: str) -> None:
    with pytest.raises(ParameterError) as error:
        epsilon_bracket(parts, DELTA, interval)
    (finding,) = error.value.findings
    assert finding.code == "pld-too-large"
    assert "interval" in str(finding.remedy)


def test_what_cannot_be_told_apart_from_zero_is_refused() -> None:
    with pytest.raises(ParameterError):
        epsilon_bracket(equal_queries(1, 1), "1e-400")
    with pytest.raises(ParameterError):
        epsilon_bracket([], DELTA)


def test_cells_of_a_plan() -> None:
    plan = Sequential([Measurement.discrete_gaussian(3, times=2), Measurement.discrete_gaussian("1/2", degree=4)])
    assert noisy_cells(plan, Neighbours.CHANGE_ONE) == [NoisyCells(3, 2, 2), NoisyCells("1/2", 8)]
    assert noisy_cells(plan, Neighbours.ADD_REMOVE) == [NoisyCells(3, 1, 2), NoisyCells("1/2", 4)]
    family = BoundedDegree([Measurement.discrete_gaussian(3)], 9, copies=[1000])
    assert noisy_cells(family, Neighbours.ADD_REMOVE) == [NoisyCells(3, 1, 9)]
    assert noisy_cells(BoundedDegree([plan], 9), Neighbours.ADD_REMOVE) == [NoisyCells("1/2", 4), NoisyCells(3, 2)]
    assert noisy_cells(Parallel([plan, plan]), Neighbours.ADD_REMOVE) == [NoisyCells("1/2", 4), NoisyCells(3, 2)]
    for event in (
        Measurement.geometric(1),
        Parallel([Measurement.discrete_gaussian(3), Measurement.discrete_gaussian(4)]),
    ):
        with pytest.raises(ParameterError) as error:
            noisy_cells(event, Neighbours.CHANGE_ONE)
        assert error.value.findings[0].code == "no-loss-distribution"


def path(*sigma2: object) -> Sequential:
    return Sequential([Measurement.discrete_gaussian(value) for value in sigma2])  # type: ignore[arg-type]


def needed(*cells: Fraction, delta: Fraction) -> Bracket:
    return epsilon_bracket([NoisyCells(sigma2, 1) for sigma2 in cells], delta)


ONE, THREE = [Fraction(1, 2)], [Fraction(3, 2)] * 3


def test_a_move_between_unlike_paths_can_be_worse_than_any_within_one() -> None:
    """Both paths cost the same rho; a version that looks at each path by itself finds less than is lost."""
    delta = Fraction(1, 10**4)
    mixed = needed(*ONE, *THREE, delta=delta)
    within_one = [needed(*ONE, *ONE, delta=delta), needed(*THREE, *THREE, delta=delta)]
    assert max(bracket.pessimistic for bracket in within_one) < mixed.optimistic
    for event in (Parallel([path(*ONE), path(*THREE)]), Parallel([path(*THREE), path(*ONE)])):
        found = event_epsilon_bracket(event, Neighbours.CHANGE_ONE, delta)
        assert mixed.optimistic <= found.pessimistic <= mixed.pessimistic
        assert found.optimistic == pytest.approx(mixed.optimistic, abs=1e-9)


@pytest.mark.slow
def test_the_page_says_what_the_moves_need() -> None:
    page = (Path(__file__).parents[2] / "docs" / "proofs" / "accounting.md").read_text(encoding="utf-8")
    fine = [
        epsilon_bracket([NoisyCells(sigma2, 1) for sigma2 in cells], Fraction(1, 10**4), "1e-5").pessimistic
        for cells in ([*ONE, *THREE], [*ONE, *ONE], [*THREE, *THREE])
    ]
    mixed, first, second = (up(value, 4) for value in fine)
    assert f"the mixed pair needs ε = {mixed} and the others {first} and {second}, each rounded up" in page


def test_a_record_that_comes_or_goes_is_on_one_path() -> None:
    event, delta = Parallel([path(*ONE), path(*THREE)]), Fraction(1, 10**4)
    worst = max((needed(*cells, delta=delta) for cells in (ONE, THREE)), key=lambda bracket: bracket.pessimistic)
    found = event_epsilon_bracket(event, Neighbours.ADD_REMOVE, delta)
    assert found.optimistic == worst.optimistic
    assert worst.optimistic <= found.pessimistic <= worst.pessimistic + 1e-5


@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**6)])
@pytest.mark.parametrize("paths", [([1], [3, Fraction(3, 2)]), ([Fraction(1, 3)], [2, Fraction(2, 5)])], ids=str)
def test_unlike_paths_against_the_definition(paths: tuple[list[Fraction], list[Fraction]], delta: Fraction) -> None:
    """At the upper end no path loses more than delta; at the lower end some path does."""
    cells = [[Fraction(value) for value in each] for each in paths]
    bracket = event_epsilon_bracket(Parallel([path(*each) for each in cells]), Neighbours.ADD_REMOVE, delta, "1e-2")
    assert max(oracle_delta(each, Fraction(bracket.pessimistic)) for each in cells) <= delta
    assert max(oracle_delta(each, Fraction(bracket.optimistic)) for each in cells) >= delta
    assert bracket.pessimistic - bracket.optimistic < 0.005


@pytest.mark.slow
def test_alike_and_covered_paths_change_nothing() -> None:
    plain = Sequential([Measurement.discrete_gaussian(3), Measurement.discrete_gaussian(7)])
    delta = Fraction(1, 10**8)
    alone = event_epsilon_bracket(plain, Neighbours.CHANGE_ONE, delta)
    cells = epsilon_bracket(noisy_cells(plain, Neighbours.CHANGE_ONE), delta)
    assert alone.optimistic == cells.optimistic
    # Both upper ends are promises; an event by itself has the tighter one.
    assert cells.optimistic < alone.pessimistic < cells.pessimistic
    for members in ([plain], [plain, plain], [plain, path(7)], [path(3), plain, Sequential([])]):
        found = event_epsilon_bracket(Parallel(members), Neighbours.CHANGE_ONE, delta)
        assert found.optimistic == pytest.approx(alone.optimistic, abs=1e-4)
        assert found.pessimistic == pytest.approx(alone.pessimistic, rel=1e-12)
    with pytest.raises(ParameterError):
        event_epsilon_bracket(Parallel([Sequential([]), Sequential([])]), Neighbours.CHANGE_ONE, delta)
    # A path with less noise is not covered by one with more.
    worse = event_epsilon_bracket(Parallel([plain, path(2)]), Neighbours.CHANGE_ONE, delta)
    assert worse.optimistic > alone.pessimistic


def bypassed(shares: list[Fraction], queries: list[Fraction]) -> Parallel:
    """Every kind of path: below the root each unit is an only child, whose share is its parent's, or is not."""
    members = []
    for alone in itertools.product([False, True], repeat=len(shares) - 1):
        own = list(shares)
        for level in range(len(shares) - 1, 0, -1):
            if alone[level - 1]:
                own[level - 1], own[level] = own[level - 1] + own[level], Fraction(0)
        assert sum(own) == 1
        members.append(path(*(1 / (RHO * share * query) for share in own if share for query in queries)))
    return Parallel(members)


@pytest.mark.slow
def test_many_kinds_of_paths_are_fast_and_never_better_than_the_plain_one() -> None:
    shares = [Fraction(value, 4099) for value in (1544, 447, 687, 1256, 165)]
    queries = [Fraction(value, 100) for value in (60, 5, 10, 25)]
    event = bypassed(shares, queries)
    assert len(event.events) == 16
    start = time.process_time()
    found = event_epsilon_bracket(event, Neighbours.CHANGE_ONE, DELTA)
    assert time.process_time() - start < 10
    plain = epsilon_bracket(noisy_cells(event.events[0], Neighbours.CHANGE_ONE), DELTA)
    assert found.pessimistic > plain.optimistic
    assert found.optimistic <= found.pessimistic < cks_epsilon(RHO, DELTA)
    assert found.pessimistic - found.optimistic < 0.005
