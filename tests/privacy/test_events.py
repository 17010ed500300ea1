"""Events as values: the plain form is exact, complete and strict."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.privacy import (
    BoundedDegree,
    Distribution,
    Event,
    Measurement,
    Parallel,
    Sequential,
    StatedSensitivity,
    WeightedMeasurement,
    event_from_dict,
)

numbers = st.fractions(min_value="1/1000", max_value=1000, max_denominator=1000)
measurements = st.builds(
    Measurement, st.sampled_from(Distribution), numbers, st.integers(1, 9), st.integers(1, 5), st.text(max_size=8)
)

truncated = st.integers(1, 6)
"""How many persons of a household count."""
sensitivities = st.one_of(
    truncated.map(lambda most: StatedSensitivity(2 * most + 2, (2 * most + 2) ** 2)),
    truncated.map(lambda most: StatedSensitivity(2 * most, 2 * most**2)),
    truncated.map(lambda most: StatedSensitivity(2 * most, 2 * most**2, 2 * most, 2 * most**2)),
)
weighted = st.builds(
    WeightedMeasurement,
    st.sampled_from(Distribution),
    numbers,
    sensitivities,
    st.integers(1, 5),
    st.text(max_size=8),
)


def families(members: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    several = st.lists(members, max_size=3)
    return st.one_of(
        st.builds(Sequential, several),
        st.builds(Parallel, several),
        st.builds(BoundedDegree, several, st.integers(1, 5)),
        st.builds(lambda event, copies, degree: BoundedDegree([event], degree, [copies]), members,
                  st.integers(1, 9), st.integers(1, 9)),
    )  # fmt: skip


events = st.recursive(measurements, families, max_leaves=8)
all_events = st.recursive(measurements | weighted, families, max_leaves=8)


@given(all_events)
@settings(max_examples=60)
def test_round_trip_through_json(event: Event) -> None:
    assert event_from_dict(json.loads(json.dumps(event.as_dict()))) == event
    assert hash(event_from_dict(event.as_dict())) == hash(event)


def test_the_plain_form_is_fixed() -> None:
    """Known answers: these strings are hashed into plans, and may never change."""
    measurement = Measurement.discrete_gaussian("64/25", degree=2, times=3, label="county total")
    assert measurement.as_dict() == {
        "event": "measurement",
        "distribution": "discrete-gaussian",
        "sigma2": "64/25",
        "degree": 2,
        "times": 3,
        "label": "county total",
    }
    geometric = Measurement.geometric("0.5")
    assert geometric.as_dict()["epsilon"] == "1/2"
    counted = WeightedMeasurement(Distribution.DISCRETE_GAUSSIAN, "64/25", StatedSensitivity(6, 18), 3, "state tenure")
    assert counted.as_dict() == {
        "event": "weighted-measurement",
        "distribution": "discrete-gaussian",
        "sigma2": "64/25",
        "l1": 6,
        "l2_squared": 18,
        "changed_l1": 12,
        "changed_l2_squared": 72,
        "times": 3,
        "label": "state tenure",
    }
    family = BoundedDegree([geometric], degree=9, copies=[1200])
    assert family.as_dict() == {
        "event": "bounded-degree",
        "degree": 9,
        "copies": [1200],
        "events": [geometric.as_dict()],
    }
    assert Sequential([]).as_dict() == {"event": "sequential", "events": []}
    assert Parallel([geometric]).as_dict() == {"event": "parallel", "events": [geometric.as_dict()]}


def with_(**changes: Any) -> dict[str, Any]:
    return Measurement.discrete_gaussian(1).as_dict() | changes


def moved(**changes: Any) -> dict[str, Any]:
    return WeightedMeasurement(Distribution.GEOMETRIC, 1, StatedSensitivity(6, 18)).as_dict() | changes


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"event": "sampled", "events": []},
        {"event": "sequential"},
        {"event": "sequential", "events": [{"event": "shuffled"}]},
        {"event": "sequential", "events": [3]},
        {"event": "parallel", "events": [], "note": "unknown field"},
        with_(distribution="laplace"),
        with_(sigma2="2/2"),
        with_(sigma2="1.0"),
        with_(sampling="1/2"),
        with_(times=1.0) | {"times": "1"},
        {"event": "bounded-degree", "degree": 2, "events": []},
        moved(l1=18, l2_squared=6),
        moved(l1="6"),
        moved(changed_l2_squared=73),
        moved(degree=1),
        {name: value for name, value in moved().items() if name != "changed_l1"},
    ],
)
def test_what_is_not_known_is_refused(plain: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        event_from_dict(plain)


def test_members_and_numbers_are_checked() -> None:
    measurement = Measurement.discrete_gaussian(1)
    for act in (
        lambda: Sequential(["measurement"]),  # type: ignore[list-item]
        lambda: Measurement("laplace", 1),  # type: ignore[arg-type]
        lambda: Measurement.discrete_gaussian(0),
        lambda: Measurement.discrete_gaussian(1.5),  # type: ignore[arg-type]
        lambda: Measurement.geometric(1, times=0),
        lambda: StatedSensitivity(0, 0),
        lambda: StatedSensitivity(3, 10),
        lambda: StatedSensitivity(3, 2),
        lambda: StatedSensitivity(2, 2, 5, 8),
        lambda: WeightedMeasurement(Distribution.GEOMETRIC, 0, StatedSensitivity(1, 1)),
        lambda: WeightedMeasurement(Distribution.GEOMETRIC, 1, StatedSensitivity(1, 1), times=0),
        lambda: BoundedDegree([measurement], 0),
        lambda: BoundedDegree([measurement], 1, [1, 2]),
        lambda: BoundedDegree([measurement], 1, [0]),
    ):
        with pytest.raises(ParameterError):
            act()
