"""The (epsilon, delta) reading of a table, by hand and by brute force, and that it promises nothing."""

from __future__ import annotations

import math
from itertools import chain, combinations

import pytest

from confide.errors import ParameterError
from confide.noise.ptables import (
    NOT_A_GUARANTEE,
    LookupRow,
    PTable,
    count_settings,
    epsilon_delta_reading,
    generate,
    magnitude_settings,
)


@pytest.mark.parametrize(
    ("bound", "variance", "epsilon", "delta"),
    [(2, "1", 1.344, 0.064), (5, "2", 2.247, 5.5e-4), (5, "3", 1.476, 3.8e-3), (10, "2", 4.75, 3.9e-12)],
)
def test_large_counts(bound: int, variance: str, epsilon: float, delta: float) -> None:
    design = generate(count_settings(bound, variance))
    found = epsilon_delta_reading(design).large_counts
    assert found.i == bound
    assert found.epsilon == pytest.approx(epsilon, abs=1e-3)
    assert found.remaining_delta == pytest.approx(delta, rel=0.02)
    assert found.remaining_delta == design.symmetric.p[-1]
    assert design.symmetric.solved is not None
    assert design.symmetric.solved.multipliers is not None
    assert found.epsilon == pytest.approx(design.symmetric.solved.multipliers.b * (2 * bound - 1), rel=1e-12)
    assert found.delta(found.epsilon) == pytest.approx(found.remaining_delta, abs=1e-15)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
def test_delta_is_the_worst_event(epsilon: float) -> None:
    """Over all sets of results, both ways."""
    for pair in epsilon_delta_reading(generate(count_settings(2, 1))).pairs:
        results = sorted(pair.lower.keys() | pair.upper.keys())
        events = list(chain.from_iterable(combinations(results, k) for k in range(len(results) + 1)))
        worst = 0.0
        for one, other in ((pair.lower, pair.upper), (pair.upper, pair.lower)):
            for event in events:
                mass = [sum(law.get(j, 0.0) for j in event) for law in (one, other)]
                worst = max(worst, mass[0] - math.exp(epsilon) * mass[1])
        assert pair.delta(epsilon) == pytest.approx(worst, abs=1e-14)


def test_the_whole_table() -> None:
    """Zero is never changed, so one and zero are told apart whenever one does not become zero."""
    reading = epsilon_delta_reading(generate(count_settings(5, 2)))
    assert [pair.i for pair in reading.pairs] == [0, 1, 2, 3, 4, 5]
    assert reading.pairs[0].remaining_delta == pytest.approx(1 - 0.388938, abs=1e-6)
    assert reading.delta(20.0) == pytest.approx(reading.pairs[0].remaining_delta)
    deltas = [reading.delta(e / 4) for e in range(20)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[0] == max(pair.delta(0.0) for pair in reading.pairs)


def test_of_a_lookup_table() -> None:
    rows = (LookupRow(0, (0,), (4,)), LookupRow(1, (-1, 0, 1), (1, 3, 4)))
    reading = epsilon_delta_reading(PTable(rows, 4))
    assert reading.pairs[0].remaining_delta == 0.75
    assert reading.large_counts.epsilon == pytest.approx(math.log(2))
    assert reading.large_counts.remaining_delta == 0.25
    assert reading.large_counts.delta(0.0) == 0.5


def test_it_is_no_promise() -> None:
    shown = epsilon_delta_reading(generate(count_settings(5, 2))).as_dict()
    assert shown["differential_privacy_of_a_release"] is False
    assert shown["note"] == NOT_A_GUARANTEE
    assert "not a privacy loss of a release" in NOT_A_GUARANTEE


def test_what_has_no_reading() -> None:
    with pytest.raises(ParameterError, match="row for every count"):
        epsilon_delta_reading(generate(magnitude_settings(5, 2, step=2, icat=[1, 5])))
    with pytest.raises(ParameterError, match="negative"):
        epsilon_delta_reading(generate(count_settings(2, 1))).delta(-1.0)
