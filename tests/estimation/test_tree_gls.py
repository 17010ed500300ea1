"""Least squares on whole trees in sectors, against dense least squares over all cells at once."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kits.dense_tree import dense, random_tree, solved


def _selections(rng: np.random.Generator, shape: tuple[int, ...]) -> list[dict[int, np.ndarray]]:
    """Counts of sets of levels on some axes, weights among them."""
    result: list[dict[int, np.ndarray]] = [{}]
    for _ in range(4):
        axes = [axis for axis in range(len(shape)) if rng.random() < 0.7]
        result.append({axis: rng.integers(0, 2, shape[axis]).astype(float) for axis in axes})
    result.append({0: rng.normal(size=shape[0]), 2: rng.normal(size=shape[2])})
    return result


def _cells(shape: tuple[int, ...], selection: dict[int, np.ndarray]) -> np.ndarray:
    result = np.ones(())
    for axis, levels in enumerate(shape):
        result = np.multiply.outer(result, selection.get(axis, np.ones(levels)))
    return result.ravel()


def close(actual: np.ndarray, expected: np.ndarray, most: float) -> None:
    """Within this of each other, or of the thousandth part of it times numbers above a thousand."""
    assert actual.shape == expected.shape
    assert (np.abs(actual - expected) <= most * np.maximum(1, np.abs(expected) / 1000)).all()


@pytest.mark.parametrize("seed", range(200))
def test_random_trees_against_dense_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    expected, covariance = dense(tree)
    estimates = solved(tree)
    asked = _selections(rng, tree.shape)
    counts = [estimates.sectors.count(selection) for selection in asked]
    vectors = np.stack([_cells(tree.shape, selection) for selection in asked])
    for level in range(len(tree.parents)):
        inside = tree.inside(level)
        cells = estimates.histogram(level).reshape(len(inside), -1)
        close(cells, inside @ expected, 1e-9)
        close(estimates.counts(level, counts), inside @ expected @ vectors.T, 1e-8)
        own = estimates.covariances.unit_covariances(level, counts)
        close(estimates.covariances.variances(level, counts), np.einsum("unn->un", own), 1e-10)
        for unit in range(len(inside)):
            whole = np.stack([np.kron(inside[unit], vector) for vector in vectors])
            close(own[unit], whole @ covariance @ whole.T, 1e-10)
    # Areas that overlap, and pairs of areas with a count of each.
    areas = 3
    inside = (rng.random((areas, tree.blocks)) < 0.4).astype(float)
    area, block = np.nonzero(inside)
    cells = estimates.area_histogram(block, area, areas).reshape(areas, -1)
    close(cells, inside @ expected, 1e-9)
    own = estimates.covariances.area_covariances(block, area, areas, counts)
    for number in range(areas):
        whole = np.stack([np.kron(inside[number], vector) for vector in vectors])
        close(own[number], whole @ covariance @ whole.T, 1e-10)
    blocks = np.concatenate([np.flatnonzero(inside[0]), np.flatnonzero(inside[1])])
    which = np.repeat([0, 1], inside[:2].sum(axis=1).astype(int))
    pair = estimates.covariances.area_covariances(blocks, np.zeros(len(blocks), int), 1, counts[1:3], which)
    whole = np.stack([np.kron(inside[0], vectors[1]), np.kron(inside[1], vectors[2])])
    close(pair[0], whole @ covariance @ whole.T, 1e-10)
