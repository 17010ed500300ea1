"""Composition: against enumeration of all neighbours, and by its laws."""

import itertools
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import BudgetExceededError, ParameterError
from confide.privacy import (
    ZCDP,
    Accountant,
    ApproxDP,
    BoundedDegree,
    Definition,
    Event,
    Measurement,
    Neighbours,
    Parallel,
    PureDP,
    Sequential,
    price,
)

from .test_events import events, measurements

ZERO = Fraction()
gaussians = st.builds(Measurement.discrete_gaussian, st.fractions("1/9", 9, max_denominator=9), st.integers(1, 3))


def rho(event: Event, neighbours: Neighbours = Neighbours.CHANGE_ONE) -> Fraction:
    loss = price(event, neighbours, Definition.ZCDP)
    assert isinstance(loss, ZCDP)
    return loss.rho


# A record as the noise sees it: for each noisy cell it counts in, the weight 1/(2σ²) of a change by one.
Record = dict[tuple[object, ...], Fraction]


def records(event: Event, path: tuple[object, ...] = ()) -> Iterator[Record]:
    """Every way in which a record can take part in ``event``, with enough cells that two records need not meet."""
    if isinstance(event, Measurement):
        weight = event.times / (2 * event.parameter)
        for size in range(event.degree + 1):
            for cells in itertools.combinations(range(2 * event.degree), size):
                yield {(*path, cell): weight for cell in cells}
    elif isinstance(event, Sequential):
        for parts in itertools.product(*(records(e, (*path, i)) for i, e in enumerate(event.events))):
            yield {cell: weight for part in parts for cell, weight in part.items()}
    else:
        copies = event.copies if isinstance(event, BoundedDegree) else (2,) * len(event.events)
        degree = event.degree if isinstance(event, BoundedDegree) else 1
        members = [(e, (*path, i, j)) for i, e in enumerate(event.events) for j in range(copies[i])]
        for size in range(min(degree, len(members)) + 1):
            for chosen in itertools.combinations(members, size):
                for parts in itertools.product(*(records(e, where) for e, where in chosen)):
                    yield {cell: weight for part in parts for cell, weight in part.items()}


def true_rho(event: Event, neighbours: Neighbours) -> Fraction:
    """The largest Σ (change)²/(2σ²) over all neighbours, by enumeration."""
    distinct = {frozenset(record.items()) for record in records(event)}
    if neighbours is Neighbours.ADD_REMOVE:
        return max(sum((weight for _, weight in record), ZERO) for record in distinct)
    return max(
        sum((weight for _, weight in one ^ other), ZERO) for one in distinct for other in distinct
    )  # fmt: skip


@given(st.lists(gaussians.filter(lambda m: m.degree == 1), min_size=1, max_size=4), st.integers(1, 3),
       st.sampled_from(Neighbours))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_bounded_degree_against_enumeration(family: list[Measurement], degree: int, neighbours: Neighbours) -> None:
    event = BoundedDegree(family, degree)
    assert rho(event, neighbours) == true_rho(event, neighbours)
    costs = sorted((rho(member, neighbours) for member in family), reverse=True)
    assert rho(event, neighbours) == sum(costs[:degree])


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    "event",
    [
        Measurement.discrete_gaussian("3/2", degree=2, times=2),
        Parallel([Measurement.discrete_gaussian(1), Measurement.discrete_gaussian("1/3")]),
        Parallel([Measurement.discrete_gaussian(1)]),
        BoundedDegree([Measurement.discrete_gaussian(2)], degree=2, copies=[3]),
        BoundedDegree([Measurement.discrete_gaussian(2)], degree=3, copies=[2]),
        BoundedDegree([Measurement.discrete_gaussian(2), Measurement.discrete_gaussian(1)], 2, [3, 1]),
        Sequential(
            [
                Measurement.discrete_gaussian(5),
                Parallel(
                    [
                        Sequential([Measurement.discrete_gaussian(1), Measurement.discrete_gaussian(4)]),
                        Measurement.discrete_gaussian("1/2"),
                    ]
                ),
            ]
        ),
    ],
    ids=lambda value: value.as_dict()["event"] if not isinstance(value, Neighbours) else value.value,
)
def test_prices_are_those_of_the_worst_neighbour(event: Event, neighbours: Neighbours) -> None:
    assert rho(event, neighbours) == true_rho(event, neighbours)


def test_a_changed_record_leaves_one_area_and_enters_another() -> None:
    """Change-one in parallel is not the largest add-remove cost: two areas are touched."""
    areas = Parallel([Measurement.discrete_gaussian(1), Measurement.discrete_gaussian(1)])
    assert rho(areas, Neighbours.ADD_REMOVE) == Fraction(1, 2)
    assert rho(areas, Neighbours.CHANGE_ONE) == 1


def test_unequal_paths_of_a_spine_cost_the_largest_path() -> None:
    """Areas may divide their budget differently as long as every path from the root to a block carries the same."""
    total = Fraction("2.56")

    def measured(share: str) -> Measurement:
        return Measurement.discrete_gaussian(1 / (total * Fraction(share)))

    spine = Sequential(
        [
            measured("1/10"),
            Parallel(
                [
                    Sequential([measured("3/10"), Parallel([measured("6/10"), measured("6/10")])]),
                    Sequential([measured("9/10")]),  # bypassed: what its only child would have had is its own
                ]
            ),
        ]
    )
    assert rho(spine) == total


def test_safetab_as_events() -> None:
    """Per level a family of groups, two stages each with ρ/s; a person is in at most s = 9 of them."""
    s, gamma, level = 9, Fraction(1, 10), Fraction("0.159")
    both = Sequential(
        [
            Measurement.discrete_gaussian(s / (2 * gamma * level), label="stage 1"),
            Measurement.discrete_gaussian(s / (2 * (1 - gamma) * level), label="stage 2"),
        ]
    )
    total_only = Measurement.discrete_gaussian(s / (2 * level))
    event = BoundedDegree([both, total_only], s, copies=[120_000, 3_000])
    assert rho(event, Neighbours.ADD_REMOVE) == level
    assert rho(event, Neighbours.CHANGE_ONE) == 2 * level


@given(st.lists(events, max_size=4), st.sampled_from(Neighbours), st.randoms())
@settings(max_examples=60)
def test_sequential_is_associative_and_commutative(parts: list[Event], neighbours: Neighbours, rng: object) -> None:
    whole = rho(Sequential(parts), neighbours)
    shuffled = parts.copy()
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rho(Sequential(shuffled), neighbours) == whole
    assert rho(Sequential([Sequential(parts[:2]), Sequential(parts[2:])]), neighbours) == whole
    assert sum((rho(part, neighbours) for part in parts), ZERO) == whole


@given(st.lists(events, min_size=1, max_size=4), st.sampled_from(Neighbours), st.integers(1, 4))
@settings(max_examples=60)
def test_families_lie_between_their_costliest_member_and_all(
    parts: list[Event], neighbours: Neighbours, degree: int
) -> None:
    one, some, every = Parallel(parts), BoundedDegree(parts, degree), Sequential(parts)
    assert max(rho(part, neighbours) for part in parts) == rho(one, neighbours)
    assert rho(one, neighbours) <= rho(some, neighbours) <= rho(every, neighbours)
    assert rho(some, neighbours) <= rho(BoundedDegree(parts, degree + 1), neighbours)
    assert rho(BoundedDegree(parts, 1), neighbours) == rho(one, neighbours)
    assert rho(Parallel(parts + parts), neighbours) == rho(one, neighbours)
    assert rho(BoundedDegree(parts, len(parts)), neighbours) == rho(every, neighbours)


@given(events)
@settings(max_examples=60)
def test_a_changed_record_costs_at_most_two_touched_ones(event: Event) -> None:
    assert rho(event, Neighbours.ADD_REMOVE) <= rho(event) <= 2 * rho(event, Neighbours.ADD_REMOVE)


@given(st.lists(measurements, max_size=6))
def test_pure_noise_in_a_zcdp_account_is_converted_exactly(parts: list[Measurement]) -> None:
    expected = ZERO
    for part in parts:
        gaussian = part.distribution.value == "discrete-gaussian"
        per_cell = 1 / (2 * part.parameter) if gaussian else part.parameter**2 / 2
        expected += part.times * 2 * part.degree * per_cell
    assert rho(Sequential(parts)) == expected


def test_pure_accounts() -> None:
    event = Sequential([Measurement.geometric("1/4", times=2), Parallel([Measurement.geometric("1/3", degree=2)])])
    assert price(event, Neighbours.ADD_REMOVE, Definition.PURE) == PureDP("7/6")
    assert price(event, Neighbours.CHANGE_ONE, Definition.PURE) == PureDP("7/3")
    assert price(event, Neighbours.CHANGE_ONE, Definition.APPROXIMATE) == ApproxDP("7/3", 0)


@pytest.mark.parametrize("definition", [Definition.PURE, Definition.APPROXIMATE])
def test_gaussian_noise_without_a_delta_has_no_epsilon(definition: Definition) -> None:
    event = Sequential([Measurement.geometric(1), Measurement.discrete_gaussian(1, label="county total")])
    with pytest.raises(ParameterError) as error:
        price(event, Neighbours.CHANGE_ONE, definition)
    (finding,) = error.value.findings
    assert finding.code == "no-pure-loss"
    assert ("county total" in str(finding)) == (definition is Definition.PURE)
    assert "zcdp" in str(finding.remedy)


def test_the_accountant_checks_before_it_applies() -> None:
    account = Accountant(Neighbours.CHANGE_ONE, Definition.ZCDP, ZCDP(1))
    account = account.compose([Measurement.discrete_gaussian(4), Measurement.discrete_gaussian(2)])
    assert account.spent == ZCDP("3/4")
    assert account.remaining == ZCDP("1/4")
    with pytest.raises(BudgetExceededError) as error:
        account.compose([Measurement.discrete_gaussian(8), Measurement.discrete_gaussian("7.99999999")])
    assert error.value.findings[0].code == "budget-exceeded"
    assert account.spent == ZCDP("3/4")
    assert len(account.events) == 2
    exactly = account.compose(Measurement.discrete_gaussian(4))
    assert exactly.remaining == ZCDP(0)


def test_accounts_say_what_they_are() -> None:
    with pytest.raises(ParameterError) as error:
        Accountant(Neighbours.ADD_REMOVE, Definition.ZCDP, PureDP(1))
    assert error.value.findings[0].code == "budget-of-another-kind"
    assert Accountant(Neighbours.ADD_REMOVE, Definition.PURE).remaining is None
    assert Accountant(Neighbours.ADD_REMOVE, Definition.APPROXIMATE).spent == ApproxDP(0, 0)
    with pytest.raises(ParameterError) as error:
        price("measurement", Neighbours.ADD_REMOVE, Definition.PURE)  # type: ignore[arg-type]
    assert error.value.findings[0].code == "unsupported-event"
