"""Measures of accuracy: each against its definition, by hand and on any areas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.utility import add_tallies, tally, tally_by
from confide.utility.metrics import COUNT_BINS, EMPTY, POPULATION_BINS, QUANTILES, SIZE_BINS, bin_label, bin_of

TRUTH = np.array([0, 10, 20, 100, 0])
RELEASED = np.array([3, 8, 21, 111, 0])
# Errors 3, -2, 1, 11, 0; per cent errors of the three with people -20, +5, +11.

AREAS = st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 5_000)), min_size=1, max_size=60)


def test_every_measure_by_hand() -> None:
    found = tally(TRUTH, RELEASED).as_dict()
    assert found["areas"] == 5
    assert found["zeros"] == 2
    assert found["mean_truth"] == 26
    assert found["mean_error"] == pytest.approx(13 / 5)
    assert found["mean_absolute_error"] == pytest.approx(17 / 5)
    assert found["root_mean_squared_error"] == pytest.approx(math.sqrt(135 / 5))
    assert found["coefficient_of_variation"] == pytest.approx(100 * math.sqrt(27) / 26)
    assert found["mean_absolute_percent_error"] == pytest.approx((20 + 5 + 11) / 3)
    assert found["mean_algebraic_percent_error"] == pytest.approx((-20 + 5 + 11) / 3)
    # Exactly five per cent is not more than five per cent.
    assert found["percent_of_areas_over_5_percent"] == pytest.approx(200 / 3)
    assert found["percent_of_areas_over_10_percent"] == pytest.approx(200 / 3)


def test_exactly_ten_per_cent_is_not_over_ten() -> None:
    found = tally(np.array([10, 1_000]), np.array([11, 1_101])).as_dict()
    assert found["percent_of_areas_over_10_percent"] == 50
    assert found["percent_of_areas_over_5_percent"] == 100


def test_quantiles_are_the_smallest_errors_that_enough_do_not_exceed() -> None:
    errors = np.arange(-100, 100)
    found = tally(np.full(200, 1_000), 1_000 + errors)
    assert found.quantiles() == {
        "0.005": -100, "0.025": -96, "0.05": -91, "0.25": -51, "0.5": -1, "0.75": 49, "0.95": 89, "0.975": 94,
        "0.995": 98,
    }  # fmt: skip
    assert found.quantiles(absolute=True)["0.5"] == 50
    assert found.quantiles(absolute=True)["0.995"] == 99


@given(AREAS)
def test_measures_are_those_of_the_definitions(areas: list[tuple[int, int]]) -> None:
    truth, released = np.array(areas).T
    error = released - truth
    found = tally(truth, released).as_dict(quantiles=True)
    assert found["mean_error"] == pytest.approx(error.mean())
    assert found["mean_absolute_error"] == pytest.approx(np.abs(error).mean())
    assert found["root_mean_squared_error"] == pytest.approx(np.sqrt((error**2).mean()))
    people = truth > 0
    assert found["zeros"] == (~people).sum()
    if people.any():
        assert found["mean_absolute_percent_error"] == pytest.approx(
            100 * np.abs(error[people] / truth[people]).mean(), abs=1e-9
        )
        assert found["mean_algebraic_percent_error"] == pytest.approx(
            100 * (error[people] / truth[people]).mean(), abs=1e-9
        )
    else:
        assert found["mean_absolute_percent_error"] is None
        assert found["coefficient_of_variation"] is None
    for p in QUANTILES:
        expected = np.quantile(error, float(p), method="inverted_cdf")
        assert found["error_quantiles"][f"{float(p):g}"] == expected


@given(AREAS, st.integers(1, 5))
def test_tallies_of_parts_add_up_to_the_tally_of_the_whole(areas: list[tuple[int, int]], parts: int) -> None:
    truth, released = np.array(areas).T
    whole = tally(truth, released).as_dict(quantiles=True)
    classes = np.arange(len(truth)) % parts
    split = tally_by(truth, released, classes)
    assert sum(part.areas for part in split.values()) == len(truth)
    added = (EMPTY + add_tallies(split.values())).as_dict(quantiles=True)
    for name, value in whole.items():
        assert added[name] == (value if isinstance(value, dict | None) else pytest.approx(value, abs=1e-9))


@pytest.mark.parametrize("starts", [POPULATION_BINS, COUNT_BINS, SIZE_BINS])
def test_classes_begin_where_they_say(starts: tuple[int, ...]) -> None:
    for number, first in enumerate(starts):
        assert bin_of(starts, np.array([first]))[0] == number
        assert number == 0 or bin_of(starts, np.array([first - 1]))[0] == number - 1
        assert bin_label(starts, number).startswith(f"{first:,}")
    assert bin_of(starts, np.array([10**9]))[0] == len(starts) - 1


def test_classes_have_words() -> None:
    assert [bin_label(SIZE_BINS, number) for number in (0, 1, 5)] == ["0", "1 to 9", "10,000 and over"]
    assert bin_label(POPULATION_BINS, 0) == "0 to 999"


def test_count_classes_are_unions_of_size_classes() -> None:
    assert set(COUNT_BINS) <= set(SIZE_BINS)
