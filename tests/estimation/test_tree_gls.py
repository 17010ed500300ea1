"""Least squares on whole trees in sectors, against dense least squares over all cells at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.kits.dense_tree import dense, matrix_of, random_tree, solved

from confide.errors import ParameterError
from confide.estimation import (
    CellVectors,
    GoodnessOfFit,
    QueryFit,
    SectorQuery,
    Sectors,
    Study,
    TreeCovariances,
    TreeEstimates,
    TreeLevel,
)

NO_PARENT = np.zeros(0, np.int64)
QUICK = 40


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


SEEDS = [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, 200))]


@pytest.mark.parametrize("seed", SEEDS)
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
    # Areas that hold some units as a whole: all blocks of a unit of each level, and one that cuts units.
    for level in range(len(tree.parents)):
        inside_level = np.vstack([tree.inside(level)[:1], inside[:1]])
        area_of, block_of = np.nonzero(inside_level)
        matrices = estimates.covariances.area_matrices(block_of, area_of, 2)
        forms = estimates.covariances.area_forms(block_of, area_of, 2, np.eye(estimates.sectors.size))
        close(matrices, forms, 1e-10)
    blocks = np.concatenate([np.flatnonzero(inside[0]), np.flatnonzero(inside[1])])
    which = np.repeat([0, 1], inside[:2].sum(axis=1).astype(int))
    pair = estimates.covariances.area_covariances(blocks, np.zeros(len(blocks), int), 1, counts[1:3], which)
    whole = np.stack([np.kron(inside[0], vectors[1]), np.kron(inside[1], vectors[2])])
    close(pair[0], whole @ covariance @ whole.T, 1e-10)


# An example to six digits, worked out by hand elsewhere: ten units, two cells, of which each and the sum is measured.

PARENTS = [np.array([0, 0, 0]), np.array([0, 0, 1, 2, 2, 2])]
VARIANCES = [(2.0, 8.0), (4.0, 10.0), (3.0, 12.0)]
VALUES = [
    [[25, 14, 11]],
    [[5, 5, 3], [9, 4, 1], [11, 10, 3]],
    [[5, 2, 3], [0, 3, 1], [8, 7, -3], [1, -1, 3], [2, 1, -1], [6, 7, 5]],
]
# For each unit its two cells, their variance (the same for both), their covariance, and the sd of the total.
EXPECTED = [
    (15.369199, 9.442972, 3.212174, -2.529490, 1.168490),
    (2.409638, 3.285721, 3.025856, -2.274748, 1.225649),
    (6.122211, 1.935548, 2.501121, -1.903578, 1.093200),
    (6.837351, 4.221704, 3.240064, -2.424809, 1.276915),
    (1.593708, 3.531749, 4.089797, -3.235354, 1.307244),
    (0.815930, -0.246029, 4.089797, -3.235354, 1.307244),
    (6.122211, 1.935548, 2.501121, -1.903578, 1.093200),
    (-0.757920, 2.370198, 4.804452, -3.824979, 1.399623),
    (2.575413, -0.296469, 4.804452, -3.824979, 1.399623),
    (5.019858, 2.147975, 4.804452, -3.824979, 1.399623),
]


@pytest.mark.parametrize("free", [(), (0,)])
def test_the_reference_tree_to_six_digits(free: tuple[int, ...]) -> None:
    """The same with two core cells, and with one core cell and a free axis."""
    sectors = Sectors((2,), free)
    total, cells = sectors.query({}), sectors.query({0: np.arange(2)})
    levels, evidence = [], []
    for level, (of_total, of_cells) in enumerate(VARIANCES):
        units = len(VALUES[level])
        information = sectors.information([(total, 1 / of_total), (cells, 1 / of_cells)])
        parent = NO_PARENT if level == 0 else PARENTS[level - 1]
        levels.append(TreeLevel(parent, np.zeros(units, int), information[None]))
        vectors = CellVectors.dense(sectors, units)
        measured, everybody = np.array(VALUES[level]), np.arange(units)
        vectors.add(everybody, total, measured[:, :1], np.full(units, 1 / of_total))
        vectors.add(everybody, cells, measured[:, 1:], np.full(units, 1 / of_cells))
        evidence.append(vectors)
    estimates = TreeEstimates(TreeCovariances(sectors, levels, np.ones((6, sectors.size), bool)), evidence)
    counts = [sectors.count({0: np.eye(2)[0]}), sectors.count({0: np.eye(2)[1]})]
    found = [(level, unit) for level in range(3) for unit in range(len(VALUES[level]))]
    for (level, unit), (first, second, variance, covariance, deviation) in zip(found, EXPECTED, strict=True):
        close(estimates.histogram(level)[unit], np.array([first, second]), 6e-7)
        own = estimates.covariances.unit_covariances(level, counts)[unit]
        close(own, np.array([[variance, covariance], [covariance, variance]]), 6e-7)
        assert np.sqrt(own.sum()) == pytest.approx(deviation, abs=6e-7)
    blocks, area = np.array([0, 3]), np.zeros(2, int)
    assert estimates.area_histogram(blocks, area, 1).sum() == pytest.approx(6.737734, abs=6e-7)
    union = estimates.covariances.area_covariances(blocks, area, 1, counts)[0]
    assert np.sqrt(union.sum()) == pytest.approx(1.859542, abs=6e-7)


def test_a_level_that_is_not_measured_is_told_by_the_one_above_alone() -> None:
    """Two blocks of a unit have a sum and nothing else; an only block is its parent; so are areas told, or not."""
    sectors = Sectors((3,), (0,))
    cells = sectors.query({0: np.arange(3)})
    information = sectors.information([(cells, 1 / 4)])[None]
    middle = TreeLevel(np.zeros(2, int), np.zeros(2, int), information)
    blocks = TreeLevel(np.array([0, 0, 1]), np.full(3, -1), information[:0])
    root = TreeLevel(NO_PARENT, np.zeros(1, int), information)
    tree = TreeCovariances(sectors, [root, middle, blocks], np.ones((3, 1), bool))
    evidence = [CellVectors.dense(sectors, units) for units in (1, 2, 3)]
    evidence[0].add(np.array([0]), cells, np.array([[9, 3, 0]]), np.array([0.25]))
    evidence[1].add(np.array([0, 1]), cells, np.array([[4, 2, 0], [2, 1, 3]]), np.array([0.25, 0.25]))
    estimates = TreeEstimates(tree, evidence)
    found = estimates.histogram(2)
    assert np.isnan(found[:2]).all()
    close(found[2], estimates.histogram(1)[1], 1e-12)
    everybody = [sectors.count({})]
    variances = tree.variances(2, everybody).ravel()
    assert np.isnan(variances[:2]).all()
    assert variances[2] == pytest.approx(tree.variances(1, everybody)[1, 0])
    block, area = np.array([0, 0, 1, 0, 1, 2]), np.array([0, 1, 1, 2, 2, 2])
    of_areas = tree.area_covariances(block, area, 3, everybody)[:, 0, 0]
    assert np.isnan(of_areas[0])
    assert of_areas[1] == pytest.approx(tree.variances(1, everybody)[0, 0])
    assert of_areas[2] == pytest.approx(tree.variances(0, everybody)[0, 0])


def test_an_open_child_is_what_its_siblings_leave() -> None:
    sectors = Sectors((2,), (0,))
    cells = sectors.query({0: np.arange(2)})
    information = sectors.information([(cells, 1.0)])[None]
    root = TreeLevel(NO_PARENT, np.zeros(1, int), information)
    blocks = TreeLevel(np.zeros(3, int), np.array([0, -1, 0]), information)
    tree = TreeCovariances(sectors, [root, blocks], np.ones((3, 1), bool))
    evidence = [CellVectors.dense(sectors, units) for units in (1, 3)]
    evidence[0].add(np.array([0]), cells, np.array([[9, 5]]), np.ones(1))
    evidence[1].add(np.array([0, 2]), cells, np.array([[1, 2], [3, 1]]), np.ones(2))
    estimates = TreeEstimates(tree, evidence)
    close(estimates.histogram(1), np.array([[1.0, 2.0], [5.0, 2.0], [3.0, 1.0]]), 1e-12)
    one = [sectors.count({0: np.array([1, 0])})]
    close(tree.variances(1, one).ravel(), np.array([1.0, 3.0, 1.0]), 1e-12)
    block, area = np.array([1, 0, 1, 0, 1, 2]), np.array([0, 1, 1, 2, 2, 2])
    close(tree.area_covariances(block, area, 3, one)[:, 0, 0], np.array([3.0, 2.0, 1.0]), 1e-12)


def test_what_cannot_be_estimated_is_refused() -> None:
    sectors = Sectors((2,), (0,))
    nothing = np.zeros((0, 2, 1, 1))
    with pytest.raises(ParameterError, match="nothing tells"):
        TreeCovariances(sectors, [TreeLevel(NO_PARENT, np.full(1, -1), nothing)], np.ones((1, 1), bool))
    information = sectors.information([(sectors.query({0: np.arange(2)}), 1.0)])[None]
    two = TreeLevel(NO_PARENT, np.zeros(2, int), information)
    with pytest.raises(ParameterError, match="not a tree"):
        TreeCovariances(sectors, [two], np.ones((2, 1), bool))
    root = TreeLevel(NO_PARENT, np.zeros(1, int), information, np.ones(1, bool))
    tree = TreeCovariances(sectors, [root], np.ones((1, 1), bool))
    with pytest.raises(ParameterError, match="not given"):
        TreeEstimates(tree, [CellVectors.dense(sectors, 1)])
    with pytest.raises(ParameterError, match="too many cells"):
        TreeCovariances(Sectors((1025,), ()), [root], np.ones((1, 1025), bool))


# Studies: coarser histograms.


def test_a_study_has_the_law_of_the_sums_that_it_uses() -> None:
    """Five levels of which the study has two groups, seen by the levels themselves and by a recode across them."""
    study = Study((np.array([0, 0, 0, 1, 1]), np.arange(2)))
    fine = {0: np.arange(5), 1: np.arange(2)}
    across = {0: np.array([0, 1, 1, 2, 2])}
    crossing = {0: np.array([0, 0, 1, 1, 2])}
    missing = {0: np.array([0, 1, 1, 2, -1])}
    measured = [fine, across, crossing, missing]
    sectors = Sectors.of(study.shape, [study.query(query) for query in measured])
    assert sectors.free == (1,)
    asked = [sectors.query(study.query(query)) for query in measured]
    assert [query.sizes.tolist() for query in asked] == [[3, 2], [2, 1], [3], [2]]
    assert asked[2].groups.tolist() == [0, 0]
    assert asked[3].groups.tolist() == [0, -1]
    rng = np.random.default_rng(4)
    values = [rng.normal(size=(1, query.cells)) for query in asked]
    precision = [0.5, 2.0, 0.25, 1.0]
    vectors = CellVectors.dense(sectors, 1)
    for query, value, weight in zip(asked, values, precision, strict=True):
        vectors.add(np.array([0]), query, value, np.array([weight]))
    level = TreeLevel(NO_PARENT, np.zeros(1, int), sectors.information(zip(asked, precision, strict=True))[None])
    tree = TreeCovariances(sectors, [level], np.ones((1, 2), bool))
    # Sums of measured cells, as one regression on the four cells of the study.
    sums = [
        (np.kron([[1, 1, 1, 0, 0], [0, 0, 0, 1, 1]], np.eye(2)), np.eye(4), [3, 3, 2, 2]),
        (np.array([[1, 1, 0], [0, 0, 1.0]]), np.kron(np.eye(2), [[1, 1]]), [2, 1]),
        (np.ones((1, 3)), np.ones((1, 4)), [3]),
        (np.array([[1, 1, 0.0]]), np.array([[1, 1, 0, 0.0]]), [2]),
    ]
    design = np.vstack([rows for _, rows, _ in sums])
    y = np.concatenate([add @ value[0] for (add, _, _), value in zip(sums, values, strict=True)])
    weight = np.concatenate([w / np.array(n) for (_, _, n), w in zip(sums, precision, strict=True)])
    covariance = np.linalg.inv(design.T * weight @ design)
    cells = [sectors.count({0: np.eye(2)[g], 1: np.eye(2)[f]}) for g in range(2) for f in range(2)]
    close(tree.unit_covariances(0, cells)[0], covariance, 1e-10)
    close(TreeEstimates(tree, [vectors]).histogram(0).ravel(), covariance @ (design.T * weight @ y), 1e-9)


# Goodness of fit.

SHAPE = (2, 2, 5)
ASKED: list[dict[int, np.ndarray]] = [
    {},
    {0: np.arange(2)},
    {1: np.arange(2), 2: np.arange(5)},
    {0: np.arange(2), 1: np.arange(2), 2: np.arange(5)},
]
NAMES = ["total", "type", "origin*race", "detailed"]
TRUE = np.array([[1.0, 9.0, 4.0, 16.0], [2.0, 12.0, 5.0, 9.0], [25.0, 30.0, 14.0, 3.0]])
"""The variances of each level and query."""


def _fitted(claimed: np.ndarray, parents: Callable[[np.ndarray], np.ndarray] = lambda parent: parent) -> GoodnessOfFit:
    """A tree of 1, 150 and 600 units, measured with the true variances and fitted with those that are claimed."""
    rng = np.random.default_rng(11)
    middle, blocks = np.zeros(150, int), np.repeat(np.arange(150), 4)
    truth = [rng.poisson(rng.gamma(0.4, 25, (600, 1)) * np.ones(20))]
    for parent, units in ((blocks, 150), (middle, 1)):
        above = np.zeros((units, 20), int)
        np.add.at(above, parent, truth[0])
        truth.insert(0, above)
    sectors = Sectors.of(SHAPE, ASKED)
    queries = [sectors.query(query) for query in ASKED]
    levels, evidence = [], []
    rows: list[tuple[int, str, SectorQuery, np.ndarray, float]] = []
    for level, parent in enumerate([NO_PARENT, middle, parents(blocks)]):
        units = len(truth[level])
        information = sectors.information((q, 1 / v) for q, v in zip(queries, claimed[level], strict=True))
        levels.append(TreeLevel(parent, np.zeros(units, int), information[None]))
        vectors = CellVectors.dense(sectors, units)
        for number, query in enumerate(queries):
            exact = truth[level] @ matrix_of(SHAPE, ASKED[number]).T
            values = exact + rng.normal(0, np.sqrt(TRUE[level, number]), exact.shape)
            vectors.add(np.arange(units), query, values, np.full(units, 1 / claimed[level, number]))
            rows.append((level, NAMES[number], query, values, claimed[level, number]))
        evidence.append(vectors)
    estimates = TreeEstimates(TreeCovariances(sectors, levels, np.ones((600, sectors.size), bool)), evidence)
    result = GoodnessOfFit(estimates)
    for level, name, query, values, variance in rows:
        for part in (slice(0, 7), slice(7, None)):
            units = np.arange(len(values))[part]
            result.add(level, name, units, query, values[part], np.full(len(units), 1 / variance))
    return result


def test_measurements_that_are_what_they_say_fit() -> None:
    found = _fitted(TRUE)
    assert found.worst is None
    assert len(found.fits) == 12
    assert all(abs(fit.deviation) < 4 for fit in found.fits)
    assert sum(fit.squares for fit in found.fits) == pytest.approx(sum(fit.expected for fit in found.fits), rel=0.03)
    # All degrees of freedom: as many as there are measurements less the cells of the blocks.
    free = sum(fit.measurements for fit in found.fits) - 600 * 20
    assert sum(fit.expected for fit in found.fits) == pytest.approx(free, abs=1e-6)


@pytest.mark.parametrize(("level", "query", "factor"), [(2, 2, 2.0), (2, 3, 0.5), (1, 1, 3.0), (1, 3, 0.4)])
def test_a_wrong_variance_of_one_query_is_named(level: int, query: int, factor: float) -> None:
    claimed = TRUE.copy()
    claimed[level, query] *= factor
    worst = _fitted(claimed).worst
    assert worst is not None
    assert (worst.level, worst.query) == (level, NAMES[query])
    assert (worst.ratio < 0.6) if factor > 1 else (worst.ratio > 1.5)


@pytest.mark.parametrize("variance", [1e-12, 1e-4, 0.01, 0.1])
def test_next_to_no_noise_fits_and_counts_of_others_do_not(variance: float) -> None:
    """Noise that is mostly zero, and ±1 with the probability of its variance: how many are not zero is chance."""
    rng = np.random.default_rng(3)
    for number in (100, 10_000):
        squares = rng.binomial(number, variance, 400) / variance
        fits = [QueryFit(0, "q", number, each, number, variance) for each in squares]
        assert not any(fit.suspicious for fit in fits)
        assert QueryFit(0, "q", number, number / variance, number, variance).suspicious


def test_swapped_shares_are_named() -> None:
    claimed = TRUE.copy()
    claimed[2, [2, 3]] = claimed[2, [3, 2]]
    worst = _fitted(claimed).worst
    assert worst is not None
    assert (worst.level, worst.query) in {(2, "origin*race"), (2, "detailed")}


def test_the_shares_of_the_level_below_are_named() -> None:
    claimed = TRUE.copy()
    claimed[1] = TRUE[2]
    worst = _fitted(claimed).worst
    assert worst is not None
    assert worst.level == 1


def test_parents_that_are_off_by_one_are_named() -> None:
    """The last block of each unit is taken for one of the next: sums of blocks are not what was measured above."""
    worst = _fitted(TRUE, lambda parent: np.roll(parent, 1)).worst
    assert worst is not None
    assert worst.ratio > 1.5
