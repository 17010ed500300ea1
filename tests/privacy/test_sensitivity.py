"""Sensitivity against the change that neighbours really make."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.privacy import Neighbours, Sensitivity, bounded_degree, partition_marginal

CELLS = 8
groups = st.lists(st.integers(0, CELLS - 1), max_size=4, unique=True)


def counts(data: list[list[int]]) -> np.ndarray:
    """The query, written plainly: a record counts once in each of its cells."""
    result = np.zeros(CELLS, dtype=np.int64)
    for record in data:
        for cell in record:
            result[cell] += 1
    return result


def change(one: list[list[int]], other: list[list[int]]) -> tuple[int, int]:
    difference = counts(one) - counts(other)
    return int(np.abs(difference).sum()), int((difference**2).sum())


def test_the_table() -> None:
    assert partition_marginal(Neighbours.ADD_REMOVE) == Sensitivity(1, 1)
    assert partition_marginal(Neighbours.CHANGE_ONE) == Sensitivity(2, 2)
    assert bounded_degree(9, Neighbours.ADD_REMOVE) == Sensitivity(9, 9)
    assert bounded_degree(9, Neighbours.CHANGE_ONE) == Sensitivity(18, 18)


@given(st.lists(groups, max_size=12), groups, groups)
def test_never_below_what_a_neighbour_changes(data: list[list[int]], before: list[int], after: list[int]) -> None:
    degree = max(1, len(before), len(after))
    touched, changed = (bounded_degree(degree, neighbours) for neighbours in Neighbours)
    for l1, l2_squared in (change(data, [*data, after]), change([*data, before], data)):
        assert (l1, l2_squared) <= (touched.l1, touched.l2_squared)
    l1, l2_squared = change([*data, before], [*data, after])
    assert l1 <= changed.l1
    assert l2_squared <= changed.l2_squared


@given(st.lists(st.integers(-3, 99), max_size=30), st.integers(-3, 99), st.integers(-3, 99), st.integers(0, 99))
@settings(max_examples=200)
def test_random_partitions(data: list[int], before: int, after: int, seed: int) -> None:
    """A random partition of a random universe; values outside it, and duplicates, are in no cell."""
    cell_of = np.random.default_rng(seed).integers(-1, CELLS, size=90)

    def placed(values: list[int]) -> list[list[int]]:
        return [[int(cell_of[v])] if 0 <= v < 90 and cell_of[v] >= 0 else [] for v in values]

    l1, l2_squared = change(placed([*data, before]), placed([*data, after]))
    assert l1 <= partition_marginal(Neighbours.CHANGE_ONE).l1
    assert l2_squared <= partition_marginal(Neighbours.CHANGE_ONE).l2_squared
    assert max(change(placed([*data, before]), placed(data))) <= 1


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_reached_by_some_neighbour(degree: int) -> None:
    """Exhaustive over all records of the degree: the bound is not only safe but exact."""
    records = [list(cells) for cells in itertools.combinations(range(CELLS), degree)]
    largest = max(change([before], [after]) for before in records for after in records)
    sensitivity = bounded_degree(degree, Neighbours.CHANGE_ONE)
    assert largest == (sensitivity.l1, sensitivity.l2_squared)


@pytest.mark.parametrize("degree", [0, -1, True, 1.0, "2"])
def test_a_degree_is_a_whole_number(degree: object) -> None:
    with pytest.raises(ParameterError) as error:
        bounded_degree(degree, Neighbours.ADD_REMOVE)  # type: ignore[arg-type]
    assert error.value.findings[0].code == "not-a-whole-number"
