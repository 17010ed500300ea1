"""Revealing the bound: exact probabilities, the paper's grid, and the attack on triples."""

from __future__ import annotations

from fractions import Fraction
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.lab.risk.bounded_noise import (
    attack_bound,
    bound_risk,
    estimate_bound,
    largest_protected_variance,
    row_of,
    symmetric_row,
)
from confide.lab.risk.bounded_noise.averaging import BoundRisk, tuples_needed
from confide.noise.max_entropy import uniform_variance


def test_the_published_example() -> None:
    risk = bound_risk(5, 2)
    assert risk.p1 == pytest.approx(1.52e-7, rel=5e-3)
    assert risk.m == pytest.approx(7.49e6, rel=1e-3)


@pytest.mark.parametrize("bound", range(1, 12))
def test_uniform_noise_has_twenty_triples(bound: int) -> None:
    risk = bound_risk(bound, uniform_variance(bound))
    assert isclose(risk.p1, 20 / (2 * bound + 1) ** 3, rel_tol=1e-14)


@pytest.mark.parametrize(
    ("variance", "expected"),
    [
        ("1", [28.8, 9.80e3, 5.16e7, 5.17e12, 1.03e19, 4.1e26, 3.3e35, 5.3e45, 1.7e57]),
        ("2", [6.54, 201, 2.07e4, 7.49e6, 1.10e10, 7.1e13, 2.0e18, 2.6e23, 1.5e29]),
        ("3", [6.54, 45.1, 1.42e3, 9.25e4, 1.34e7, 4.8e9, 4.6e12, 1.2e16, 8.1e19]),
        ("5", [6.54, 19.0, 123, 2.29e3, 6.22e4, 2.6e6, 1.7e8, 2.0e10, 4.0e12]),
    ],
)
def test_triples_needed_over_bound_and_variance(variance: str, expected: list[float]) -> None:
    for bound, wanted in enumerate(expected, start=2):
        found = bound_risk(bound, variance).m
        assert wanted * 0.97 - 0.5 < found < wanted * 1.03 + 1, (bound, variance)


@pytest.mark.parametrize(
    ("triples", "expected"),
    [
        (28_000_000, [0.083, 0.492, 1.040, 1.818, 2.843, 4.126, 5.678, 7.508, 9.626]),
        (710_000, [0.148, 0.641, 1.375, 2.436, 3.849, 5.634, 7.808, 10.39, 13.39]),
    ],
)
def test_largest_variances_that_protect_the_bound(triples: int, expected: list[float]) -> None:
    for bound, wanted in enumerate(expected, start=2):
        found = largest_protected_variance(bound, triples)
        assert float(found) == pytest.approx(wanted, abs=0.006)
        assert bound_risk(bound, found).m > triples
        assert bound_risk(bound, found + Fraction(1, 500)).m <= triples


@pytest.mark.parametrize(("bound", "triples"), [(2, 710_000), (3, 500), (4, 5_000)])
def test_the_largest_variance_still_protects_and_the_next_does_not(bound: int, triples: int) -> None:
    found = largest_protected_variance(bound, triples)
    assert bound_risk(bound, found).m > triples >= bound_risk(bound, found + Fraction(1, 1_000)).m


def test_any_variance_protects_the_bound_against_few_triples() -> None:
    assert largest_protected_variance(10, 5) == uniform_variance(10)
    assert largest_protected_variance(1, 10**6) < Fraction(1, 10)


@given(st.integers(1, 8), st.fractions(Fraction(1, 10), 12, max_denominator=50))
def test_p1_is_the_tail_of_the_convolution(bound: int, variance: Fraction) -> None:
    risk = bound_risk(bound, variance)
    row = np.array(risk.row.probabilities)
    law = np.convolve(np.convolve(row, row), row[::-1])
    sums = np.abs(np.arange(-3 * bound, 3 * bound + 1))
    assert risk.p1 == pytest.approx(float(law[sums > 3 * (bound - 1)].sum()), rel=1e-12)


@given(st.integers(1, 15), st.fractions(Fraction(1, 10), 90, max_denominator=20))
def test_rows_have_the_variance_that_was_asked_for_or_say_so(bound: int, variance: Fraction) -> None:
    row = symmetric_row(bound, variance)
    assert sum(row.probabilities) == pytest.approx(1, abs=1e-14)
    assert row.probabilities == row.probabilities[::-1]
    expected = min(variance, uniform_variance(bound))
    assert row.variance == pytest.approx(float(expected), rel=1e-12)
    assert row.attained == (variance <= uniform_variance(bound))


@pytest.mark.parametrize(
    ("bound", "variance", "b", "stay", "last"),
    [(2, 1, 0.44794, 0.38296, 0.0638), (5, 3, 0.16400, 0.22880, 3.79e-3), (10, 2, 0.25000, 0.28209, 3.9e-12)],
)
def test_rows_of_maximum_entropy(bound: int, variance: int, b: float, stay: float, last: float) -> None:
    row = symmetric_row(bound, variance)
    assert row.b == pytest.approx(b, abs=5e-6)
    assert row.pmf(0) == pytest.approx(stay, abs=5e-6)
    assert row.pmf(bound) == pytest.approx(last, rel=1e-2)


def test_m_for_probabilities_that_floating_point_cannot_hold() -> None:
    risk = bound_risk(15, "0.25")
    assert risk.p1 == 0.0
    assert 480 < risk.log10_m < 490
    assert risk.as_dict()["m"] is None
    assert tuples_needed(Fraction(1, 10**400)) > 10**400
    assert tuples_needed(Fraction(1, 2), 0.75) == 2


@given(st.fractions(Fraction(1, 10**8), Fraction(99, 100)), st.floats(0.05, 0.99))
def test_m_is_the_first_number_that_reaches_the_level(p1: Fraction, level: float) -> None:
    m = tuples_needed(p1, level)
    missed = float(1 - p1)
    assert missed**m <= (1 - level) * (1 + 1e-6)
    assert m == 1 or missed ** (m - 1) > (1 - level) * (1 - 1e-6)


def test_impossible_rows_are_refused() -> None:
    for bound, variance in ((0, "2"), (101, "2"), (5, "0"), (5, "-1"), (5, "1e-9")):
        with pytest.raises(ParameterError):
            symmetric_row(bound, variance)
    for probabilities in ((0.5, 0.5), (0.5, 0.1, 0.5), (1.5, -1.0, 0.5)):
        with pytest.raises(ParameterError, match="row"):
            row_of(probabilities)


def test_the_published_triple_gives_its_counts_away() -> None:
    found = attack_bound([3], [2], [11], bound=2)
    assert [int(part.lowest[0]) for part in (found.f, found.m, found.t)] == [5, 4, 9]
    assert found.triples_recovered == 1
    assert attack_bound([3], [2], [10], bound=2).triples_recovered == 0


def test_zeros_that_are_kept_say_more() -> None:
    # Published 1, 1 and 1 with noise within ±1: if no zero is perturbed, none of them was zero, and 1 + 1 = 2 is left.
    loose, tight = attack_bound([1], [1], [1], bound=1), attack_bound([1], [1], [1], bound=1, zeros_kept=True)
    assert (loose.triples_recovered, tight.triples_recovered) == (0, 1)
    assert int(tight.t.lowest[0]) == 2


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_truth_is_never_outside_what_the_attack_says(bound: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, 12, size=(2, 50))
    whole = truth.sum(axis=0)
    noisy = [part + draw.integers(-bound, bound + 1, size=50) for part in (*truth, whole)]
    found = attack_bound(*noisy, bound=bound)
    assert found.consistent.all()
    for part, true in ((found.f, truth[0]), (found.m, truth[1]), (found.t, whole)):
        assert (part.lowest <= true).all()
        assert (true <= part.highest).all()
    assert estimate_bound(*noisy) <= bound


def test_triples_are_checked() -> None:
    with pytest.raises(ParameterError, match="triples"):
        attack_bound([1], [2, 3], [4])
    with pytest.raises(ParameterError, match="triples"):
        estimate_bound([1.5], [2.0], [3.0])


@pytest.mark.statistical
@pytest.mark.parametrize(("bound", "variance", "triples"), [(2, "1", 20), (3, "2", 120), (3, "4", 15)])
def test_the_attack_succeeds_as_often_as_its_exact_probability_says(bound: int, variance: str, triples: int) -> None:
    """Four standard errors on 4,000 releases: a false alarm in 16,000 at most, and the seed is fixed."""
    row = symmetric_row(bound, variance)
    risk = BoundRisk(row)
    draw = np.random.default_rng(20210101)
    releases = 4_000
    truth = draw.integers(50, 500, size=(2, releases, triples))
    noise = draw.choice(np.arange(-bound, bound + 1), p=row.probabilities, size=(3, releases, triples))
    f, m, t = truth[0] + noise[0], truth[1] + noise[1], truth.sum(axis=0) + noise[2]
    right = np.array([estimate_bound(f[place], m[place], t[place]) == bound for place in range(releases)])
    expected = risk.revealed(triples)
    assert abs(right.mean() - expected) < 4 * np.sqrt(expected * (1 - expected) / releases)
    found = attack_bound(f, m, t, bound=bound)
    number, chance = releases * triples, risk.exact_triple
    assert abs(found.triples_recovered - number * chance) < 4 * np.sqrt(number * chance * (1 - chance))
    known = found.f.known & found.m.known & found.t.known
    assert (found.f.lowest[known] == truth[0][known]).all()
