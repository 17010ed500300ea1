"""Counts that change by more than one: prices of known settings, brute force, and the laws of composition."""

import itertools
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.noise.bounded import TruncatedGaussian
from confide.noise.distributions import DiscreteGaussian, TwoSidedGeometric
from confide.privacy import (
    ZCDP,
    ApproxDP,
    BoundedDegree,
    Definition,
    Distribution,
    Event,
    Measurement,
    Neighbours,
    Parallel,
    PureDP,
    Sequential,
    StatedSensitivity,
    WeightedMeasurement,
    cks_epsilon,
    event_epsilon_bracket,
    event_of_noise,
    noisy_cells,
    price,
)
from confide.privacy.accountant import rounded_up
from confide.releases.plan import Plan, PlannedMeasurement, read_plan

from .test_events import all_events, sensitivities

ADD, CHANGE = Neighbours.ADD_REMOVE, Neighbours.CHANGE_ONE


def gaussian(sigma2: Fraction | int | str, sensitivity: StatedSensitivity, times: int = 1) -> WeightedMeasurement:
    return WeightedMeasurement(Distribution.DISCRETE_GAUSSIAN, sigma2, sensitivity, times)


def bureau(most: int) -> StatedSensitivity:
    """2τ + 2 rows, all of them in one cell."""
    return StatedSensitivity(2 * most + 2, (2 * most + 2) ** 2)


def household(most: int) -> StatedSensitivity:
    """All that changes lies in one household, which has at most τ rows before and after."""
    return StatedSensitivity(2 * most, 2 * most**2, 2 * most, 2 * most**2)


@pytest.mark.parametrize(
    ("sensitivity", "rho", "sigma2"),
    [
        (bureau(10), "0.002619", 92_401.7),
        (bureau(10), "0.016371", 14_782.2),
        (bureau(10), "0.141622", 1_708.8),
        (bureau(6), "0.001061", 92_365.7),
        (bureau(6), "0.006630", 14_781.3),
        (bureau(6), "0.662976", 147.8),
        (StatedSensitivity(2, 4), "0.000022", 90_909.1),
        (StatedSensitivity(2, 4), "0.000135", 14_814.8),
        (StatedSensitivity(2, 4), "0.001170", 1_709.4),
        (bureau(5), "0.33", 218.18),
        (household(10), "0.141622", 706.1),
        (StatedSensitivity(2, 2), "0.001170", 854.7),
    ],
)
def test_noise_of_the_published_settings_costs_what_they_say(
    sensitivity: StatedSensitivity, rho: str, sigma2: float
) -> None:
    exact = sensitivity.l2_squared / (2 * Fraction(rho))
    assert float(exact) == pytest.approx(sigma2, rel=3e-4)
    assert price(gaussian(exact, sensitivity), ADD, Definition.ZCDP) == ZCDP(rho)


def test_the_three_definitions() -> None:
    sensitivity = StatedSensitivity(6, 18, 8, 40)
    noise = gaussian("9/2", sensitivity, times=2)
    assert price(noise, ADD, Definition.ZCDP) == ZCDP(2 * Fraction(18, 9))
    assert price(noise, CHANGE, Definition.ZCDP) == ZCDP(2 * Fraction(40, 9))
    stated = price(noise, CHANGE, Definition.APPROXIMATE, "1e-6")
    assert stated == ApproxDP(rounded_up(Fraction(cks_epsilon(Fraction(80, 9), "1e-6"))), "1e-6")
    pure = WeightedMeasurement(Distribution.GEOMETRIC, "1/3", sensitivity, times=3)
    assert price(pure, ADD, Definition.PURE) == PureDP(6)
    assert price(pure, CHANGE, Definition.PURE) == PureDP(8)
    assert price(pure, ADD, Definition.ZCDP) == ZCDP(3)
    assert price(pure, ADD, Definition.APPROXIMATE) == ApproxDP(6, 0)
    with pytest.raises(ParameterError, match="pure"):
        price(noise, ADD, Definition.PURE)


def test_a_change_without_a_proof_of_its_own_is_a_removal_and_an_addition() -> None:
    """Both may move one cell by the whole amount: twice as far, which is four times the rho."""
    noise = gaussian(1, StatedSensitivity(3, 9))
    assert price(noise, CHANGE, Definition.ZCDP) == 4 * price(noise, ADD, Definition.ZCDP)
    pure = WeightedMeasurement(Distribution.GEOMETRIC, 1, StatedSensitivity(3, 9))
    assert price(pure, CHANGE, Definition.PURE) == 2 * price(pure, ADD, Definition.PURE)


def truncated_households(most: int, cells: int) -> Iterator[Counter[int]]:
    """What a household with at most so many persons can be in the counts."""
    for size in range(most + 1):
        yield from map(Counter, itertools.combinations_with_replacement(range(cells), size))


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_both_sensitivities_by_brute_force(most: int) -> None:
    """All that one person changes lies in one household: from any truncated household to any other."""
    moves = [
        [one[cell] - other[cell] for cell in range(3)]
        for one, other in itertools.product(list(truncated_households(most, 3)), repeat=2)
    ]
    l1 = max(sum(map(abs, move)) for move in moves)
    l2_squared = max(sum(by * by for by in move) for move in moves)
    assert (l1, l2_squared) == (household(most).l1, household(most).l2_squared)
    assert (l1, l2_squared) <= (bureau(most).l1, bureau(most).l2_squared)
    tighter, wider = (price(gaussian(1, of(most)), ADD, Definition.ZCDP) for of in (household, bureau))
    assert tighter.rho < wider.rho  # type: ignore[union-attr]


@given(st.integers(1, 5), st.fractions("1/9", 9, max_denominator=9))
def test_degree_is_the_case_of_changes_by_one(degree: int, parameter: Fraction) -> None:
    """A query in which a record counts once in each of so many cells, in words of the other event."""
    stated = StatedSensitivity(degree, degree, 2 * degree, 2 * degree)
    for law, definition in itertools.product(Distribution, (Definition.ZCDP, Definition.PURE)):
        if (law, definition) != (Distribution.DISCRETE_GAUSSIAN, Definition.PURE):
            one, other = Measurement(law, parameter, degree), WeightedMeasurement(law, parameter, stated)
            for neighbours in Neighbours:
                assert price(one, neighbours, definition) == price(other, neighbours, definition)


@given(st.lists(all_events, min_size=1, max_size=4), st.sampled_from(Neighbours), st.integers(1, 4))
@settings(max_examples=60)
def test_families_and_sums_hold_for_them_too(parts: list[Event], neighbours: Neighbours, degree: int) -> None:
    def rho(event: Event) -> Fraction:
        loss = price(event, neighbours, Definition.ZCDP)
        assert isinstance(loss, ZCDP)
        return loss.rho

    assert rho(Sequential(parts)) == sum(map(rho, parts), Fraction())
    assert max(map(rho, parts)) <= rho(Parallel(parts)) <= rho(BoundedDegree(parts, degree))
    assert rho(BoundedDegree(parts, len(parts))) <= 2 * rho(Sequential(parts))


def test_who_moves_in_a_family_is_charged_for_both_ends() -> None:
    """A changed unit that stays in its state is costlier than one that leaves it: four against two."""
    states = Parallel([gaussian(1, StatedSensitivity(1, 1)), gaussian(1, StatedSensitivity(1, 1))])
    assert price(states, CHANGE, Definition.ZCDP) == ZCDP(2)
    assert price(states, ADD, Definition.ZCDP) == ZCDP("1/2")


@given(sensitivities)
def test_noise_becomes_the_event_that_its_sensitivity_asks_for(sensitivity: StatedSensitivity) -> None:
    assert event_of_noise(DiscreteGaussian(2), "a b", sensitivity) == WeightedMeasurement(
        Distribution.DISCRETE_GAUSSIAN, 2, sensitivity, label="a b"
    )
    assert event_of_noise(TwoSidedGeometric("1/2"), "", sensitivity) == WeightedMeasurement(
        Distribution.GEOMETRIC, "1/2", sensitivity
    )
    with pytest.raises(TypeError):
        event_of_noise(TruncatedGaussian(2, 9), "", sensitivity)


def test_a_loss_distribution_is_refused_and_not_guessed() -> None:
    noise = gaussian(2, StatedSensitivity(2, 4))
    for ask in (lambda: noisy_cells(noise, ADD), lambda: event_epsilon_bracket(noise, ADD, "1e-6")):
        with pytest.raises(ParameterError) as error:
            ask()
        assert error.value.findings[0].code == "no-loss-distribution"


def test_a_plan_states_it_and_reads_it_back() -> None:
    """Measurements that state nothing are written as they always were."""
    noise = DiscreteGaussian(72)
    plain = PlannedMeasurement("state", "owners", 3, 2, noise, ZCDP("1/144"))
    stated = PlannedMeasurement("state", "tenure", 3, 2, noise, ZCDP("1/4"), (), StatedSensitivity(6, 36))
    assert "sensitivity" not in plain.as_dict()
    plan = Plan("phsafe", ADD, Definition.ZCDP, (plain, stated), ("state",), {})
    assert plan.loss == ZCDP(Fraction(1, 144) + Fraction(36, 144))
    again = read_plan(plan.as_dict())
    assert again == plan
    assert again.loss == plan.loss
    assert again.hash == plan.hash
