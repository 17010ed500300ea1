"""Variances as functions of precisions: against dense least squares, gradients against differences, and best shares
against their own bound."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kits.dense_tree import RandomTree, dense, random_tree, solved

from confide.arrays import Floats
from confide.estimation.sectors import SectorCount
from confide.estimation.tree_covariances import TreeCovariances
from confide.estimation.tree_design import (
    LimitedVariances,
    LinearPrecisions,
    TreeDesign,
    best_shares,
    joined_counts,
    vectors_of,
)


def design_of(tree: RandomTree, covariances: TreeCovariances) -> tuple[TreeDesign, list[Floats]]:
    """The design of a random tree, and the precisions that it was measured with."""
    sectors = covariances.sectors
    asked = [sectors.query(query) for query in tree.queries]
    design = TreeDesign(covariances, np.stack([sectors.information([(query, 1.0)]) for query in asked]))
    precisions = []
    for listed in tree.measured:
        kinds = dict.fromkeys(tuple(one) for one in listed if one)
        rows = [[dict(key).get(query, 0.0) and 1 / dict(key)[query] for query in range(len(asked))] for key in kinds]
        precisions.append(np.array(rows, float).reshape(-1, len(asked)))
    return design, precisions


def counted(tree: RandomTree, design: TreeDesign, rng: np.random.Generator) -> tuple[list[SectorCount], Floats, Floats]:
    """Two counts, and what multiplies each in three areas and in every block."""
    sectors = design.sectors
    counts = [sectors.count({}), sectors.count({0: np.arange(3) == 0, 2: np.arange(3) == 1})]
    return counts, rng.normal(size=(3, 2)), rng.integers(-1, 3, tree.blocks)


@pytest.mark.parametrize("seed", range(12))
def test_variances_are_those_of_dense_least_squares_and_gradients_those_of_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    covariances = solved(tree).covariances
    design, precisions = design_of(tree, covariances)
    counts, coefficients, area = counted(tree, design, rng)
    asked = design.area_counts(area, vectors_of(design.sectors, counts, coefficients))
    (found,) = design.variances(precisions, asked)
    _, covariance = dense(tree)
    cells = [_cells(tree, each) for each in counts]
    for number in range(3):
        vector = np.zeros((tree.blocks, tree.cells))
        vector[area == number] = coefficients[number] @ np.array(cells)
        expected = vector.ravel() @ covariance @ vector.ravel()
        assert found[number] == pytest.approx(expected, rel=1e-7, abs=1e-9)
    weights = rng.random(3)
    _, _, slope = design.gradient(precisions, asked, lambda _: weights)
    step = [rng.random(each.shape) * each * 1e-5 for each in precisions]
    (above,), (below,) = (
        design.variances([each + sign * by for each, by in zip(precisions, step, strict=True)], asked)
        for sign in (1, -1)
    )
    difference = float(weights @ (above - below)) / 2
    along = sum(float((each * by).sum()) for each, by in zip(slope, step, strict=True))
    assert along == pytest.approx(difference, rel=1e-4, abs=1e-9)


def _cells(tree: RandomTree, count: SectorCount) -> Floats:
    """A count as a vector of cells; the core is the first two axes."""
    result = count.core.reshape(tree.shape[:2])
    for vector in count.free:
        result = np.multiply.outer(result, vector)
    return np.asarray(result, np.float64).ravel()


def test_the_best_shares_are_near_their_bound_which_no_others_beat() -> None:
    rng = np.random.default_rng(3)
    tree = random_tree(rng)
    design, precisions = design_of(tree, solved(tree).covariances)
    counts, coefficients, area = counted(tree, design, rng)
    asked = joined_counts(
        [
            design.area_counts(area, vectors_of(design.sectors, counts, coefficients)),
            design.area_counts(
                np.arange(tree.blocks), vectors_of(design.sectors, counts[:1], np.ones((tree.blocks, 1)))
            ),
        ]
    )
    sizes = [each.size for each in precisions]
    loads, first = [], 0
    for each, size in zip(precisions, sizes, strict=True):
        load = np.zeros((*each.shape, sum(sizes)))
        load.reshape(size, sum(sizes))[np.arange(size), first + np.arange(size)] = 1.0
        loads.append(load)
        first += size
    begin = np.full(sum(sizes), 1 / sum(sizes))
    limits = rng.uniform(0.5, 2.0, asked.number)
    linear = LinearPrecisions(tuple(loads))
    best = best_shares([LimitedVariances(design, linear, asked, limits)], begin, 0.01 * begin)
    assert best.shares.sum() == pytest.approx(1.0)
    assert (best.shares >= 0.01 * begin - 1e-12).all()
    (variances,) = design.variances(linear.of(best.shares), asked)
    assert best.needed == pytest.approx(float((variances / limits).max()))
    assert best.bound <= best.needed <= best.bound * 1.03
    for _ in range(30):
        other = rng.dirichlet(np.full(len(begin), 0.3)) * 0.98 + 0.02 * begin
        (variances,) = design.variances(linear.of(other), asked)
        assert float((variances / limits).max()) >= best.bound
    assert best.multipliers.sum() == pytest.approx(1.0)


@pytest.mark.statistical
@pytest.mark.parametrize("draws", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_closed_forms_are_the_variances_of_noise_that_is_drawn(draws: int) -> None:
    """Noise alone, estimated by dense least squares: the mean square over draws is within three standard errors, of
    each of three areas. With fixed seeds there are no false alarms; with others, one in 120."""
    rng = np.random.default_rng(11)
    tree = random_tree(rng)
    design, precisions = design_of(tree, solved(tree).covariances)
    counts, coefficients, area = counted(tree, design, rng)
    asked = design.area_counts(area, vectors_of(design.sectors, counts, coefficients))
    (expected,) = design.variances(precisions, asked)
    cells = np.array([_cells(tree, each) for each in counts])
    truth = [tree.inside(level) @ tree.truth for level in range(len(tree.measured))]
    squares = np.zeros(3)
    for _ in range(draws):
        for level, listed in enumerate(tree.measured):
            for unit, one in enumerate(listed):
                for query, variance in one:
                    exact = tree.matrix(query) @ truth[level][unit]
                    tree.values[level, unit, query] = exact + rng.normal(0, np.sqrt(variance), len(exact))
        errors = dense(tree)[0] - tree.truth
        for number in range(3):
            squares[number] += float((errors[area == number] @ cells.T @ coefficients[number]).sum()) ** 2
    used = expected > 1e-9
    assert used.any()
    ratio = squares[used] / draws / expected[used]
    assert (np.abs(ratio - 1) <= 3 * np.sqrt(2 / draws)).all(), ratio
