"""Means and intervals over keys."""

from __future__ import annotations

import numpy as np
import pytest

from confide.utility import combine, over_keys


def test_the_interval_of_three_values_by_hand() -> None:
    found = over_keys([1.0, 2.0, 3.0])
    # s = 1, n = 3, and the 97.5 per cent point of Student's t with two degrees of freedom is 4.302653.
    assert found.mean == 2
    assert found.low == pytest.approx(2 - 4.302652729749464 / 3**0.5)
    assert found.high == pytest.approx(2 + 4.302652729749464 / 3**0.5)


def test_one_key_has_no_interval_and_equal_keys_a_point() -> None:
    assert over_keys([5.0]).as_dict() == {"mean": 5.0, "low": None, "high": None, "values": [5.0]}
    assert over_keys([5.0, 5.0]).low == 5.0


def test_the_interval_covers_the_mean_in_nineteen_of_twenty() -> None:
    """4,000 sets of five keys: the share that covers is binomial with standard error 0.0035; four of them are 0.014."""
    draws = np.random.default_rng(20).normal(7, 3, (4_000, 5))
    covered = 0
    for values in draws.tolist():
        found = over_keys(values)
        covered += found.low <= 7 <= found.high
    assert covered / len(draws) == pytest.approx(0.95, abs=0.014)


def test_results_are_combined_number_by_number_and_facts_stay() -> None:
    runs = [{"name": "x", "areas": 4, "rows": [{"error": error, "none": None}]} for error in (1.0, 3.0)]
    found = combine(runs, frozenset({"areas"}))
    assert (found["name"], found["areas"]) == ("x", 4)
    assert found["rows"][0]["none"] is None
    assert found["rows"][0]["error"]["mean"] == 2.0
    assert found["rows"][0]["error"]["values"] == [1.0, 3.0]


def test_a_number_that_only_some_keys_have_is_a_mean_over_those() -> None:
    assert combine([{"a": None}, {"a": 2}, {"a": 4}])["a"]["values"] == [2.0, 4.0]


@pytest.mark.parametrize("other", [{"b": 1}, {"a": 1, "b": 2}, [1]])
def test_results_of_different_forms_are_not_combined(other: object) -> None:
    with pytest.raises(ValueError, match="different forms"):
        combine([{"a": 1}, other])
    with pytest.raises(ValueError, match="different forms"):
        combine([[1], [1, 2]])
