"""Solution variability: the definition on cases small enough to see through, and honest statuses."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kits.reconstruction import CELLS, published

from confide.lab.attacks.reconstruction import reconstruct
from confide.lab.attacks.reconstruction import unit as variability
from confide.lab.attacks.reconstruction.integer_program import SolverResult


def test_sizes_shares_and_the_mean_are_weighted_by_people() -> None:
    certain, open_ = np.zeros(CELLS, int), np.zeros(CELLS, int)
    certain[0] = 9
    open_[[0, 13]] = 5
    found = reconstruct(published([certain, open_], ["total", "a", "c"]), processes=1)
    result = found.as_dict()
    assert result["solution_variability"] == {"000": 0.0, "001": 100.0}
    assert found.mean == pytest.approx(100 * 10 / 19)
    assert result["share_of_blocks_at_0"] == 0.5
    assert result["share_of_persons_at_0"] == pytest.approx(9 / 19)
    rows = {row["size"]: row for row in result["by_size"]}
    assert (rows["1-9"]["blocks"], rows["1-9"]["share_of_persons_at_0"]) == (1, 1.0)
    assert (rows["10-49"]["blocks"], rows["10-49"]["share_of_blocks_at_0"]) == (1, 0.0)
    assert rows["1000+"]["share_of_blocks_at_0"] is None


def test_without_a_published_number_of_people_nothing_is_claimed() -> None:
    truth = np.zeros(CELLS, int)
    truth[[2, 3]] = 1
    found = reconstruct(published([truth], ["b:odd"]), processes=1)
    assert list(found.variability.values()) == [None]
    assert found.mean is None


def test_when_the_time_is_up_a_bound_is_named_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = np.zeros(CELLS, int)
    truth[[0, 13]] = 5

    def stopped(*_: object, **__: object) -> SolverResult:
        return SolverResult("time limit", np.zeros(1), 6.0, 1.2)

    monkeypatch.setattr(variability, "minimise", stopped)
    found = reconstruct(published([truth], ["total", "a", "c"]), processes=1)
    value = found.variability[0]
    assert value is not None
    assert value.status == "time limit"
    assert (value.at_least, value.at_most) == (40.0, 80.0)  # at least 2 of 10 people in common, at most 6
    assert found.as_dict()["bounds"] == {"000": [40.0, 80.0]}
    assert not value.unique


def test_no_solution_in_time_is_counted() -> None:
    rng = np.random.default_rng(1)
    truth = rng.multinomial(4000, np.full(CELLS, 1 / CELLS))
    found = reconstruct(published([truth], ["total", "a*b", "b*c", "a*c"]), processes=1, time_limit=1e-9)
    assert found.unsolved in (0, 1)
    assert found.persons == (0 if found.unsolved else 4000)
