"""Bounded noise: its laws against mpmath and by hand, its (epsilon, delta) against every event, its refusals."""

from __future__ import annotations

import doctest
import math
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from itertools import chain, combinations, product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.noise import as_mpf

from confide.errors import ParameterError
from confide.exact import Exact
from confide.noise import (
    BoundedDistribution,
    CountNoise,
    DiscreteGaussian,
    FiniteDistribution,
    NoiseDistribution,
    TruncatedDistribution,
    TruncatedGaussian,
    TruncatedGeometric,
    TwoSidedGeometric,
    any_of,
    delta_bounds,
    epsilon_delta,
    outside_mass,
)
from confide.noise.bounded import log_up

QUARTERS = FiniteDistribution([-1, 0, 1], ["1/4", "1/2", "1/4"])
parameters = st.fractions(Fraction(1, 20), 20, max_denominator=50)
truncated_laws = st.builds(
    lambda kind, parameter, bound: kind(parameter, bound),
    st.sampled_from([TruncatedGeometric, TruncatedGaussian]),
    parameters,
    st.integers(1, 12),
)
rows = st.lists(st.integers(1, 40), min_size=1, max_size=5).map(
    lambda half: FiniteDistribution.symmetric([*reversed(half[1:]), *half])
)


def probabilities(noise: BoundedDistribution) -> dict[int, mpmath.mpf]:
    """The law from its definition, with the working precision of mpmath."""
    if isinstance(noise, FiniteDistribution):
        return {v: as_mpf(p) for v, p in zip(noise.values, noise.probabilities, strict=True)}
    weights = {}
    for x in range(-noise.bound, noise.bound + 1):
        if isinstance(noise, TruncatedGeometric):
            weights[x] = mpmath.exp(-as_mpf(noise.epsilon) * abs(x))
        else:
            assert isinstance(noise, TruncatedGaussian)
            weights[x] = mpmath.exp(-mpmath.mpf(x * x) / (2 * as_mpf(noise.sigma2)))
    whole = mpmath.fsum(weights.values())
    return {x: weight / whole for x, weight in weights.items()}


def holds(bounds: tuple[Fraction, Fraction], number: mpmath.mpf, bits: int = 128) -> bool:
    slack = mpmath.mpf(2) ** -250
    narrow = (bounds[1] - bounds[0]) * 2**bits <= 1
    return narrow and as_mpf(bounds[0]) - slack <= number <= as_mpf(bounds[1]) + slack


def best_event(one: dict[tuple[int, ...], mpmath.mpf], other: dict[tuple[int, ...], mpmath.mpf], epsilon: Exact):
    """The largest ``P(S) - exp(epsilon) Q(S)`` over all events, one by one."""
    factor = mpmath.exp(as_mpf(Fraction(epsilon)))
    gains = [p - factor * other.get(x, mpmath.mpf(0)) for x, p in one.items()]
    events = chain.from_iterable(combinations(gains, size) for size in range(len(gains) + 1))
    return max(mpmath.fsum(event) for event in events)


def results(law: dict[int, mpmath.mpf], moved: int, counts: int = 1) -> dict[tuple[int, ...], mpmath.mpf]:
    """Joint results of some counts that all were ``moved``."""
    return {
        tuple(x + moved for x, _ in outcome): mpmath.fprod(p for _, p in outcome)
        for outcome in product(law.items(), repeat=counts)
    }


def exact_delta(law: dict[int, mpmath.mpf], epsilon: Fraction, counts: int) -> mpmath.mpf:
    """``delta(epsilon)`` of some counts by summing over all joint results."""
    one, other, factor = results(law, 0, counts), results(law, 1, counts), mpmath.exp(as_mpf(epsilon))
    return mpmath.fsum(max(mpmath.mpf(0), p - factor * other.get(x, mpmath.mpf(0))) for x, p in one.items())


def test_laws_by_hand() -> None:
    """E = 1: p(1) = q / (1 + 2 q), variance 2 p(1). E = 2: 1, q, q**2 with q = exp(-1/2), or q, q**4 for sigma2 = 1."""
    with mpmath.workprec(300):
        q = mpmath.exp(-mpmath.mpf(1) / 2)
        for noise in (TruncatedGeometric("1/2", 1), TruncatedGaussian(1, 1)):
            assert holds(noise.pmf_bounds(1), q / (1 + 2 * q))
            assert holds(noise.variance_bounds(), 2 * q / (1 + 2 * q))
            assert holds(noise.outside_bounds(), q / (1 + 2 * q))
        geometric, gaussian = TruncatedGeometric("1/2", 2), TruncatedGaussian(1, 2)
        assert holds(geometric.cdf_bounds(-1), (q + q**2) / (1 + 2 * q + 2 * q**2))
        assert holds(gaussian.pmf_bounds(-2), q**4 / (1 + 2 * q + 2 * q**4))
        assert holds(gaussian.variance_bounds(), (2 * q + 8 * q**4) / (1 + 2 * q + 2 * q**4))
    assert epsilon_delta(geometric) == (Fraction(1, 2), outside_mass(geometric))
    assert epsilon_delta(gaussian) == (Fraction(3, 2), outside_mass(gaussian))
    assert geometric.largest_loss == Fraction(1, 2)


def test_a_listed_law_is_exact() -> None:
    assert QUARTERS.variance_bounds() == (Fraction(1, 2), Fraction(1, 2))
    assert QUARTERS.cdf_bounds(0) == (Fraction(3, 4), Fraction(3, 4))
    assert QUARTERS.noise_margin("1/2") == 0  # exactly one half, which decides
    assert QUARTERS.noise_margin("0.500001") == 1
    assert [QUARTERS.quantile(p) for p in ("1/4", "0.26", "3/4", "0.76")] == [-1, 0, 0, 1]
    pair = epsilon_delta(QUARTERS)
    assert pair is not None
    assert pair.delta == Fraction(1, 4)
    assert 0 <= as_mpf(pair.epsilon) - mpmath.log(2) < 1e-12
    assert delta_bounds(QUARTERS, 0) == (Fraction(1, 2), Fraction(1, 2))  # the total variation distance
    assert delta_bounds(QUARTERS, 1)[0] == Fraction(1, 4)
    assert outside_mass(QUARTERS, 2) == pytest.approx(Fraction(7, 16), rel=1e-11)
    gap = FiniteDistribution([-2, 0, 2], ["1/4", "1/2", "1/4"])
    assert epsilon_delta(gap) == (0, 1)  # neighbouring counts have no result in common


def test_a_law_without_symmetry_counts_the_worse_direction() -> None:
    skew = FiniteDistribution([-1, 2], ["2/3", "1/3"])
    assert (skew.is_symmetric, QUARTERS.is_symmetric) == (False, True)
    wide = FiniteDistribution([-1, 0, 3], ["3/8", "1/2", "1/8"])
    # Upwards the results -1 and 3 have no predecessor: 3/8 + 1/8; downwards 0 and 3 have no successor: 1/2 + 1/8.
    assert wide.outside_bounds() == (Fraction(5, 8), Fraction(5, 8))
    with mpmath.workprec(300):
        law = probabilities(wide)
        ways = [best_event(results(law, 0), results(law, step), "1/10") for step in (-1, 1)]
        assert holds(delta_bounds(wide, "1/10"), max(ways))
    steep = FiniteDistribution([-1, 0, 2], ["3/5", "1/10", "3/10"])
    assert 0 <= float(steep.largest_loss) - math.log(6) < 1e-9, "from 0 to -1 it is likelier by 6, and not by 1/6"


@settings(max_examples=60, deadline=None)
@given(st.one_of(truncated_laws, rows), st.integers(-14, 14))
def test_probabilities_are_those_of_the_definition(noise: BoundedDistribution, x: int) -> None:
    with mpmath.workprec(300):
        law = probabilities(noise)
        assert holds(noise.pmf_bounds(x), law.get(x, mpmath.mpf(0)))
        assert holds(noise.cdf_bounds(x), mpmath.fsum(p for v, p in law.items() if v <= x))
        assert holds(noise.variance_bounds(), mpmath.fsum(v * v * p for v, p in law.items()))
        assert noise.pmf(x) == float(law.get(x, mpmath.mpf(0)))


@settings(max_examples=60, deadline=None)
@given(st.one_of(truncated_laws, rows))
def test_probabilities_add_up_to_one(noise: BoundedDistribution) -> None:
    bounds = [noise.pmf_bounds(x) for x in range(-noise.bound - 2, noise.bound + 3)]
    least, most = sum(b[0] for b in bounds), sum(b[1] for b in bounds)
    assert least <= 1 <= most
    assert most - least <= Fraction(len(bounds), 2**128)
    if isinstance(noise, FiniteDistribution):
        assert least == most == 1
    assert noise.cdf_bounds(noise.bound) == (1, 1)
    assert noise.noise_margin("0.999999999999") <= noise.bound


@pytest.mark.parametrize(("kind", "name"), [(TruncatedGeometric, "epsilon"), (TruncatedGaussian, "sigma2")])
def test_a_truncated_law_has_a_parameter_with_a_name_and_a_bound(kind: type[TruncatedDistribution], name: str) -> None:
    noise = kind("1/2", 5)
    assert (getattr(noise, name), noise.parameter, noise.bound, noise.bound) == (Fraction(1, 2), Fraction(1, 2), 5, 5)
    assert kind(**{name: "1/2", "bound": 5}) == noise == replace(kind("1/2", 6), bound=5)
    assert noise != kind("1/2", 4)
    with pytest.raises(FrozenInstanceError):
        noise.bound = 6
    with pytest.raises(ParameterError, match=f"{name} must be greater than zero"):
        kind(0, 5)
    with pytest.raises(ParameterError):
        kind("1/2", 0)


@pytest.mark.parametrize(
    ("kind", "base", "parameter"),
    [(TruncatedGeometric, TwoSidedGeometric, "1/3"), (TruncatedGaussian, DiscreteGaussian, "7/2")],
)
def test_without_end_the_bound_does_not_matter(
    kind: type[TruncatedDistribution], base: type[NoiseDistribution], parameter: str
) -> None:
    """The distance of the two laws is the mass beyond the bound, and goes to zero; so does the outside mass."""
    law = base(parameter)
    before = Fraction(1)
    for bound in (2, 8, 32, 500 if kind is TruncatedGeometric else 64):
        noise = kind(parameter, bound)
        lower, upper = noise.pmf_bounds(0, 600)
        plain = law.pmf_bounds(0, 600)
        # p_T(0) - p(0) = p_T(0) P(|X| > E)
        beyond = [2 * tail for tail in law.tail_bounds(bound, 600)]
        assert lower * beyond[0] - Fraction(1, 2**590) <= upper - plain[0]
        assert lower - plain[1] <= upper * beyond[1] + Fraction(1, 2**590)
        assert 0 < outside_mass(noise) < before
        before = outside_mass(noise)
    assert before < Fraction(1, 10**60)
    assert noise.variance() == pytest.approx(law.variance(), rel=1e-12)
    assert noise.noise_margin("0.95") == law.noise_margin("0.95")


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(
        st.builds(TruncatedGeometric, parameters, st.integers(1, 3)),
        st.builds(TruncatedGaussian, parameters, st.integers(1, 3)),
        rows.filter(lambda row: row.bound <= 3),
    ),
    st.fractions(0, 6, max_denominator=12),
)
def test_delta_is_that_of_the_best_of_all_events(noise: BoundedDistribution, epsilon: Fraction) -> None:
    with mpmath.workprec(300):
        law = probabilities(noise)
        assert holds(delta_bounds(noise, epsilon), best_event(results(law, 0), results(law, 1), epsilon))
        assert holds(delta_bounds(noise, epsilon), best_event(results(law, 1), results(law, 0), epsilon))


@settings(max_examples=30, deadline=None)
@given(truncated_laws)
def test_the_pair_is_where_the_curve_becomes_flat(noise: TruncatedDistribution) -> None:
    pair = epsilon_delta(noise)
    assert pair is not None
    at, beyond = delta_bounds(noise, pair.epsilon), delta_bounds(noise, pair.epsilon + 3)
    assert at[0] <= pair.delta
    assert pair.delta - at[0] <= pair.delta / 2**38 + Fraction(1, 2**126)
    assert max(at[0], beyond[0]) <= min(at[1], beyond[1])
    before = delta_bounds(noise, pair.epsilon * Fraction(99, 100), 2500)
    assert before[0] > noise.outside_bounds(2500)[1]


@pytest.mark.parametrize(
    "noise",
    [
        TruncatedGeometric("4/5", 2),
        TruncatedGaussian("3/2", 2),
        QUARTERS,
        FiniteDistribution.symmetric([1, 5, 9, 5, 1]),
    ],
)
@pytest.mark.parametrize("counts", [2, 3])
def test_several_counts_have_the_pair_and_no_smaller_delta(noise: BoundedDistribution, counts: int) -> None:
    pair = epsilon_delta(noise, counts)
    assert pair is not None
    with mpmath.workprec(200):
        law = probabilities(noise)
        true = exact_delta(law, pair.epsilon, counts)
        assert 0 <= as_mpf(pair.delta) - true <= true * mpmath.mpf(2) ** -39
        assert exact_delta(law, pair.epsilon * Fraction(97, 100), counts) > as_mpf(pair.delta)


def test_peers_without_a_bound() -> None:
    geometric, gaussian = TwoSidedGeometric("2/5"), DiscreteGaussian(3)
    assert epsilon_delta(geometric, 7) == (Fraction(14, 5), 0)
    assert epsilon_delta(gaussian) is None
    assert outside_mass(gaussian, 5) == 0
    assert (geometric.bound, gaussian.bound, TruncatedGaussian(3, 9).bound) == (None, None, 9)
    assert delta_bounds(geometric, "2/5") == (0, 0)
    with mpmath.workprec(300):
        for law in (geometric, gaussian):
            wide = (TruncatedGeometric if law is geometric else TruncatedGaussian)(law.parameter, 700)
            for epsilon in ("0", "1/7", "1/3", "5/2"):
                lower, upper = delta_bounds(law, epsilon)
                curve = delta_bounds(wide, epsilon)
                assert max(lower, curve[0]) - min(upper, curve[1]) < Fraction(1, 10**30)


def test_rare_events_of_many_counts() -> None:
    """1 - (1 - x)**k keeps its digits where x is tiny, and saturates where it is not."""
    tiny = Fraction(1, 10**80)
    found = any_of(lambda bits: (tiny, tiny), 1000)
    assert 0 < found - 1000 * tiny * (1 - 500 * tiny) < 1000 * tiny / 2**39
    assert any_of(lambda bits: (Fraction(1), Fraction(1)), 3) == 1
    half = Fraction(1, 2)
    assert any_of(lambda bits: (half, half), 10) == Fraction(1023, 1024)


@given(st.fractions(1, 10**9))
def test_logarithms_are_rounded_up_and_close(ratio: Fraction) -> None:
    with mpmath.workprec(200):
        above = as_mpf(log_up(ratio)) - mpmath.log(as_mpf(ratio))
        assert 0 <= above < 1e-12


@pytest.mark.parametrize(
    "make",
    [
        lambda: TruncatedGaussian(1, 0),
        lambda: TruncatedGaussian(1, True),
        lambda: TruncatedGeometric(1, 2**20 + 1),
        lambda: TruncatedGeometric(0.5, 3),
        lambda: TruncatedGaussian(0, 3),
        lambda: FiniteDistribution([-1, 1], ["1/2", "1/3"]),
        lambda: FiniteDistribution([-1, 1], ["1/2"]),
        lambda: FiniteDistribution([-1, -1, 1], ["1/4", "1/4", "1/2"]),
        lambda: FiniteDistribution([0, 1], ["1/2", "1/2"]),
        lambda: FiniteDistribution([-1, 0, 1], ["-1/4", "3/2", "-1/4"]),
        lambda: FiniteDistribution.symmetric([1, 1]),
        lambda: FiniteDistribution.symmetric([0, 0, 0]),
        lambda: QUARTERS.noise_margin(1),
        lambda: outside_mass(QUARTERS, 0),
        lambda: delta_bounds(QUARTERS, -1),
    ],
)
def test_what_makes_no_sense_is_refused(make: object) -> None:
    with pytest.raises(ParameterError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("noise", [TruncatedGaussian(2, 5), TruncatedGeometric(1, 3), QUARTERS], ids=repr)
def test_a_bounded_law_is_never_taken_for_a_law_with_a_loss(noise: BoundedDistribution) -> None:
    assert not isinstance(noise, NoiseDistribution)
    assert not hasattr(noise, "decay")
    with pytest.raises(ParameterError):
        NoiseDistribution.from_dict(noise.as_dict())
    spoken: CountNoise = noise
    assert f"±{noise.bound}" in spoken.describe()
    assert np.isclose(sum(spoken.pmf(x) for x in range(-9, 10)), 1)


PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "distributions.md"


def test_the_examples_of_the_page_are_true() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert (failed, tried > 8) == (0, True)
