"""Sums over groups: what the compiled loops give is what matrices of zeros and ones give, to the last digit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from confide.estimation import MeasuredQuery, NodeProblem
from confide.estimation.node_problem import GroupSums, add_alike, add_cells
from confide.estimation.prepare import build_hessian

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_a_product_is_that_of_the_matrix(seed: int) -> None:
    random = np.random.default_rng(seed)
    height, width, units = (int(n) for n in random.integers(1, 9, 3))
    matrix = random.random((height, width)) < 0.4
    order = random.permutation(int(matrix.sum()))
    rows, columns = (places[order] for places in np.nonzero(matrix))
    sums = GroupSums.of(rows, columns, matrix.shape)
    table = random.integers(-1000, 1000, (width, units)).astype(np.float64)
    assert np.array_equal(sums @ table, matrix @ table)
    assert np.array_equal(sums @ np.asfortranarray(table), matrix @ table)
    assert np.array_equal(sums.sparse().toarray(), matrix)


@given(seeds)
def test_pairs_of_cells_in_one_group_have_its_weight(seed: int) -> None:
    random = np.random.default_rng(seed)
    cells = int(random.integers(1, 9))
    groups = random.integers(-1, 3, cells)
    before = random.random((cells, cells))
    into = before.copy()
    add_alike(into, groups, 2.5)
    together = (groups[:, None] == groups[None, :]) & (groups >= 0)[:, None]
    assert np.array_equal(into, before + 2.5 * together)


@given(seeds)
def test_cells_measured_by_themselves_have_the_weights_of_their_units(seed: int) -> None:
    random = np.random.default_rng(seed)
    cells, units = (int(n) for n in random.integers(1, 7, 2))
    inside = random.random(cells) < 0.7
    groups = np.where(inside, np.cumsum(inside) - 1, -1)
    of_units, measured = random.random(units), random.normal(size=(int(inside.sum()), units))
    weight, weighted = (random.random((cells, units)) for _ in range(2))
    expected = weight.copy(), weighted.copy()
    expected[0][inside] += of_units
    expected[1][inside] += of_units * measured
    add_cells(weight, weighted, groups, of_units, measured)
    assert np.array_equal(weight, expected[0])
    assert np.array_equal(weighted, expected[1])


def test_problems_with_other_cells_have_other_sums() -> None:
    """One after the other, with as many cells and groups: each has the sums of its own groups."""
    cells = np.arange(1.0, 5.0)[:, None]
    for groups in ([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 1]):
        query = MeasuredQuery("halves", np.array(groups), np.zeros((2, 1)), np.ones(1))
        hessian = build_hessian(NodeProblem(np.full(4, 9), np.ones((4, 1), bool), (query,)))
        expected = [[cells[np.array(groups) == group].sum()] for group in range(2)]
        assert hessian.margins(cells).tolist() == expected
