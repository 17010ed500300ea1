"""(ε, δ) of plans with bounded noise: against brute force over all results, and in the direction that is safe."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.exact import rounded_up
from confide.lab.risk.noise_comparison import guarantee
from confide.noise import (
    DiscreteGaussian,
    ReleaseNoise,
    TruncatedDistribution,
    TruncatedGaussian,
    TruncatedGeometric,
    TwoSidedGeometric,
)
from confide.privacy import (
    ApproxDP,
    BoundedDegree,
    Definition,
    Measurement,
    Neighbours,
    Parallel,
    Sequential,
    TruncatedMeasurement,
    cks_epsilon,
    event_from_dict,
    event_of_noise,
    price,
)

APPROXIMATE, ADD, CHANGE = Definition.APPROXIMATE, Neighbours.ADD_REMOVE, Neighbours.CHANGE_ONE
REACH = 60


def law_on_grid(law: ReleaseNoise, shift: int) -> dict[int, float]:
    reach = law.bound if isinstance(law, TruncatedDistribution) else REACH
    return {x + shift: law.pmf(x) for x in range(-reach, reach + 1)}


def true_delta(laws: list[ReleaseNoise], epsilon: float) -> float:
    """sum over all results of max(0, P - exp(ε) Q), each count being larger by one under P."""
    factor, total = math.exp(epsilon), 0.0
    shifted = [(law_on_grid(law, 1), law_on_grid(law, 0)) for law in laws]
    for results in itertools.product(*(sorted(p) for p, _ in shifted)):
        p = math.prod(law[x] for (law, _), x in zip(shifted, results, strict=True))
        q = math.prod(law.get(x, 0.0) for (_, law), x in zip(shifted, results, strict=True))
        total += max(0.0, p - factor * q)
    return total


LAWS = st.one_of(
    st.builds(TruncatedGeometric, st.sampled_from(["1/2", "1", "2"]), st.integers(2, 9)),
    st.builds(TruncatedGaussian, st.sampled_from(["1", "4", "9"]), st.integers(3, 12)),
    st.builds(TwoSidedGeometric, st.sampled_from(["1/2", "1"])),
    st.builds(DiscreteGaussian, st.sampled_from(["2", "6"])),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(LAWS, min_size=1, max_size=2), st.sampled_from(["1/2", "1/10", "1/1000"]))
def test_the_promise_holds_for_all_results(laws: list[ReleaseNoise], delta: str) -> None:
    event = Sequential([event_of_noise(law) for law in laws])
    edge = sum(float(law.outside_bounds()[1]) for law in laws if isinstance(law, TruncatedDistribution))
    if edge >= float(Fraction(delta)) and any(isinstance(law, DiscreteGaussian | TruncatedGaussian) for law in laws):
        with pytest.raises(ParameterError, match="the bound of the noise gives away more than delta"):
            price(event, ADD, APPROXIMATE, delta)
        return
    loss = price(event, ADD, APPROXIMATE, delta)
    assert isinstance(loss, ApproxDP)
    # The grid of a law without a bound ends at 60, beyond which there is less than 1e-12.
    assert true_delta(laws, float(loss.epsilon)) <= float(loss.delta) * (1 + 1e-9) + 1e-12


def mpmath_fraction(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def known_epsilon(rho: Fraction, outside: mpmath.mpf, beyond: mpmath.mpf, delta: Fraction) -> mpmath.mpf:
    """Lemma 9 of the proofs by itself: the ε of ρ-zCDP at δ' = (δ − outside)(1 − beyond), the best order by search."""
    spare = (mpmath_fraction(delta) - outside) * (1 - beyond)
    r = mpmath_fraction(rho)

    def at(order: mpmath.mpf) -> mpmath.mpf:  # Canonne, Kamath & Steinke (2020), Corollary 13
        return r * order + (mpmath.log(1 / spare) - mpmath.log(order)) / (order - 1) + mpmath.log(1 - 1 / order)

    low, high = mpmath.mpf("1.0001"), mpmath.mpf(1000)
    for _ in range(400):  # one valley
        one, other = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, other) if at(one) < at(other) else (one, high)
    return max(mpmath.mpf(0), at(low))


def masses_of(sigma2: int, bound: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """P[X = E] of the truncated law, and P[|X| > E] of the law without a bound."""
    weights = {x: mpmath.exp(-mpmath.mpf(x * x) / (2 * sigma2)) for x in range(-400, 401)}
    within = mpmath.fsum(weights[x] for x in range(-bound, bound + 1))
    return weights[bound] / within, 1 - within / mpmath.fsum(weights.values())


@pytest.mark.parametrize(
    ("sigma2", "bound", "counts", "neighbours", "delta"),
    [
        (4, 2, 1, ADD, "1/5"),
        (100, 9, 1, ADD, "1/10"),
        (9, 5, 1, CHANGE, "1/8"),
        (9, 6, 3, ADD, "1/10"),
        (2, 4, 1, ADD, "1/100"),
    ],
)
def test_what_a_tight_bound_takes_from_delta_is_known_to_the_last_digits(
    sigma2: int, bound: int, counts: int, neighbours: Neighbours, delta: str
) -> None:
    """Where a bound cuts much off, δ' without its factor 1 − beyond would promise less loss than there is."""
    event = Sequential([event_of_noise(TruncatedGaussian(sigma2, bound))] * counts)
    changed = counts * (2 if neighbours is CHANGE else 1)
    with mpmath.workdps(50):
        outside, beyond = (changed * mass for mass in masses_of(sigma2, bound))
        rho = Fraction(changed, 2 * sigma2)
        expected = known_epsilon(rho, outside, beyond, Fraction(delta))
        without = known_epsilon(rho, outside, mpmath.mpf(0), Fraction(delta))
        found = mpmath_fraction(price(event, neighbours, APPROXIMATE, delta).epsilon)
        assert expected <= found <= expected * (1 + mpmath.mpf("1e-10"))
        assert without < expected * (1 - mpmath.mpf("1e-4")), "the factor matters here"
        # What people are told of the same noise counts no other way: there the product of the factors is exact.
        told = guarantee(TruncatedGaussian(sigma2, bound), changed, delta)
        if changed > 1:
            assert told is not None
            assert without < mpmath_fraction(told.epsilon) <= found


def test_without_gaussian_noise_the_pair_is_exact() -> None:
    law = TruncatedGeometric(1, 5)
    loss = price(event_of_noise(law), ADD, APPROXIMATE)
    assert loss == ApproxDP(1, rounded_up(law.pmf_bounds(5)[1]))
    assert true_delta([law], 1.0) == pytest.approx(float(loss.delta), rel=1e-9)
    assert true_delta([law], 0.9) > float(loss.delta)


def test_a_changed_record_changes_two_counts() -> None:
    event = event_of_noise(TruncatedGeometric("1/2", 8))
    once, twice = (price(event, neighbours, APPROXIMATE) for neighbours in (ADD, CHANGE))
    assert twice == once + once


def test_a_bound_that_nobody_reaches_costs_what_no_bound_costs() -> None:
    wide, free = TruncatedGaussian(4, 200), DiscreteGaussian(4)
    bounded, plain = (price(event_of_noise(law), CHANGE, APPROXIMATE, "1e-10") for law in (wide, free))
    assert plain == ApproxDP(rounded_up(Fraction(cks_epsilon("1/4", "1e-10"))), "1e-10")
    assert float(bounded.epsilon) == pytest.approx(float(plain.epsilon), rel=1e-11)
    assert bounded >= plain


@pytest.mark.parametrize(("outside", "beyond"), [("1/100", "1/2"), ("1/1000", "9/10"), ("1/50", "1/1000")])
def test_what_is_left_of_delta_shrinks_with_the_mass_beyond_the_bound(outside: str, beyond: str) -> None:
    """δ' = (δ − outside)(1 − beyond): two counts change, so both masses are doubled."""
    event = TruncatedMeasurement(Measurement.discrete_gaussian(4, label=""), 3, outside, Fraction(beyond) / 2)
    loss = price(event, CHANGE, APPROXIMATE, "1/10")
    spare = (Fraction(1, 10) - 2 * Fraction(outside)) * (1 - Fraction(beyond))
    assert loss == ApproxDP(rounded_up(Fraction(cks_epsilon("1/4", spare))), "1/10")


def test_noise_that_would_always_pass_its_bound_has_no_gaussian_price() -> None:
    event = TruncatedMeasurement(Measurement.discrete_gaussian(4), 3, "1/100", "1/2")
    with pytest.raises(ParameterError, match="the bound of the noise gives away more than delta"):
        price(event, CHANGE, APPROXIMATE, "1/10")


def test_many_geometric_counts_cost_less_than_their_sum() -> None:
    event = Sequential([Measurement.geometric("1/100")] * 400)
    assert price(event, ADD, APPROXIMATE) == ApproxDP(4, 0)
    cheaper = price(event, ADD, APPROXIMATE, "1e-6")
    assert cheaper == ApproxDP(rounded_up(Fraction(cks_epsilon(Fraction(400, 20000), "1e-6"))), "1e-6")
    assert cheaper.epsilon < 1


def test_families_take_the_largest_of_each_part() -> None:
    narrow, wide = event_of_noise(TruncatedGeometric(1, 3)), event_of_noise(TruncatedGeometric("1/2", 20))
    alone = [price(event, ADD, APPROXIMATE) for event in (narrow, wide)]
    both = price(Parallel([narrow, wide]), ADD, APPROXIMATE)
    assert both == ApproxDP(max(one.epsilon for one in alone), max(one.delta for one in alone))
    three = price(BoundedDegree([narrow, wide], 3, [2, 5]), ADD, APPROXIMATE)
    assert three == alone[0] + alone[0] + alone[1]


@pytest.mark.parametrize("definition", [Definition.PURE, Definition.ZCDP])
def test_bounded_noise_has_no_other_price(definition: Definition) -> None:
    with pytest.raises(ParameterError) as error:
        price(event_of_noise(TruncatedGaussian(2, 5), "county total"), ADD, definition)
    assert error.value.findings[0].code == "bounded-noise"
    assert "county total" in str(error.value)


def test_a_delta_below_the_edge_is_refused() -> None:
    with pytest.raises(ParameterError) as error:
        price(event_of_noise(TruncatedGaussian(2, 3)), ADD, APPROXIMATE, "1e-10")
    assert error.value.findings[0].code == "delta-too-small"


def test_the_event_reads_back() -> None:
    event = Parallel([event_of_noise(TruncatedGaussian("9/2", 17), "a b"), Measurement.geometric(1)])
    assert event_from_dict(event.as_dict()) == event
    values = event_of_noise(TruncatedGaussian("9/2", 17)).as_dict()
    for wrong in ({"bound": 0}, {"outside": "0"}, {"beyond": 0.5}, {"more": 1}):
        with pytest.raises(ParameterError):
            event_from_dict(values | wrong)
    with pytest.raises(ParameterError):
        event_from_dict(values | {"measurement": Sequential([]).as_dict()})


def test_masses_are_not_below_the_truth() -> None:
    law = TruncatedGaussian(3, 9)
    event = event_of_noise(law)
    assert isinstance(event, TruncatedMeasurement)
    assert event.outside >= law.pmf_bounds(9, 512)[1]
    lower, upper = DiscreteGaussian(3).tail_bounds(9, 512)
    assert event.beyond >= 2 * lower
    assert event.beyond <= 2 * upper * (1 + Fraction(1, 10**10))
