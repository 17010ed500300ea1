"""The privacy loss distribution: known answers, an exact oracle, and what is refused."""

import itertools
import time
import tracemalloc
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
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
    gaussian_limit_epsilon,
    noisy_cells,
)

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
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 2), Fraction(3), Fraction(8)])
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


parts_lists = st.lists(
    st.builds(NoisyCells, st.fractions(Fraction(1, 5), 60, max_denominator=12), st.integers(1, 3), st.integers(1, 5)),
    min_size=1,
    max_size=4,
)


@given(parts_lists, st.integers(2, 25))
@settings(max_examples=20, deadline=None)
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
