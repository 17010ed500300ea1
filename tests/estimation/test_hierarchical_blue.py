"""Two-pass least squares on trees: an example to six digits, and dense least squares on random trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import ParameterError
from confide.estimation.hierarchical_blue import HierarchicalBlue, KnownSums, NodeInformation, count_interval
from confide.estimation.spine_variances import Exchangeable, SpineLevel, spine_variances

PARENTS = [-1, 0, 0, 0, 1, 1, 2, 3, 3, 3]
LEVEL = [0, 1, 1, 1, 2, 2, 2, 2, 2, 2]
ROWS = [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
VARIANCES = [[2.0, 8.0, 8.0], [4.0, 10.0, 10.0], [3.0, 12.0, 12.0]]
VALUES = [[25, 14, 11], [5, 5, 3], [9, 4, 1], [11, 10, 3], [5, 2, 3], [0, 3, 1], [8, 7, -3], [1, -1, 3], [2, 1, -1]]
VALUES = [*VALUES, [6, 7, 5]]
# For each node its two cells, their variance (the same for both), their covariance, and the sd of the total.
EXPECTED = {
    0: (15.369199, 9.442972, 3.212174, -2.529490, 1.168490),
    1: (2.409638, 3.285721, 3.025856, -2.274748, 1.225649),
    2: (6.122211, 1.935548, 2.501121, -1.903578, 1.093200),
    3: (6.837351, 4.221704, 3.240064, -2.424809, 1.276915),
    4: (1.593708, 3.531749, 4.089797, -3.235354, 1.307244),
    5: (0.815930, -0.246029, 4.089797, -3.235354, 1.307244),
    6: (6.122211, 1.935548, 2.501121, -1.903578, 1.093200),
    7: (-0.757920, 2.370198, 4.804452, -3.824979, 1.399623),
    8: (2.575413, -0.296469, 4.804452, -3.824979, 1.399623),
    9: (5.019858, 2.147975, 4.804452, -3.824979, 1.399623),
}


def _reference() -> HierarchicalBlue:
    measured = [NodeInformation.of(ROWS, VARIANCES[LEVEL[u]], VALUES[u]) for u in range(10)]
    return HierarchicalBlue(PARENTS, measured)


@pytest.mark.parametrize("node", range(10))
def test_the_reference_tree_to_six_digits(node: int) -> None:
    blue = _reference()
    first, second, variance, covariance, sd = EXPECTED[node]
    assert blue.estimate(node) == pytest.approx([first, second], abs=6e-7)
    expected = [[variance, covariance], [covariance, variance]]
    assert blue.covariance(node) == pytest.approx(np.array(expected), abs=6e-7)
    assert np.sqrt(blue.covariance(node).sum()) == pytest.approx(sd, abs=6e-7)


def test_a_union_off_the_spine() -> None:
    blue = _reference()
    cells, covariance = blue.union([4, 7])
    assert cells.sum() == pytest.approx(6.737734, abs=6e-7)
    assert np.sqrt(covariance.sum()) == pytest.approx(1.859542, abs=6e-7)
    expected = [[-0.188686, 0.136202], [0.136202, -0.188686]]
    assert blue.covariance(4, 7) == pytest.approx(np.array(expected), abs=6e-7)
    whole, spread = blue.union([1, 2, 3])
    assert whole == pytest.approx(blue.estimate(0))
    assert spread == pytest.approx(blue.covariance(0))


def test_intervals_are_whole_and_not_negative() -> None:
    assert count_interval(5.7, 1.225649**2, 0.95) == (4, 8)
    assert count_interval(0.5, 4.0, 0.9) == (0, 3)


def test_what_cannot_be_estimated_is_refused() -> None:
    only_total = NodeInformation.of([[1.0, 1.0]], [1.0], [3.0])
    for parents, measured in (([-1], [only_total]), ([-1], [None]), ([-1, -1], [only_total, only_total])):
        with pytest.raises(ParameterError):
            HierarchicalBlue(parents, measured)
    with pytest.raises(ParameterError, match="no noise"):
        NodeInformation.of([[1.0]], [0.0], [1.0])


def _random_tree(rng: np.random.Generator, cells: int) -> tuple[list[int], list[tuple[np.ndarray, np.ndarray] | None]]:
    """Parents, and the measurements (rows, variances) of each node. Only children may have none."""
    parents, level = [-1], [0]
    for _ in range(2):
        below: list[int] = []
        for parent in level:
            new = range(len(parents), len(parents) + int(rng.integers(1, 4)))
            parents += [parent] * len(new)
            below += new
        level = below
    children = [parents.count(node) for node in range(len(parents))]
    measured: list[tuple[np.ndarray, np.ndarray] | None] = []
    for node, parent in enumerate(parents):
        leaf = children[node] == 0
        alone = parent >= 0 and children[parent] == 1
        if (not leaf and rng.random() < 0.3) or (
            leaf and alone and measured[parent] is not None and rng.random() < 0.5
        ):
            measured.append(None)
            continue
        rows = rng.normal(size=(int(rng.integers(1, 4)), cells))
        # Below nothing, or above what may be unknown, every cell is measured.
        if leaf or children[node] == 1:
            rows = np.vstack([np.eye(cells), rows])
        measured.append((rows, rng.uniform(0.2, 9, len(rows))))
    return parents, measured


def _dense(
    parents: list[int],
    measured: list[tuple[np.ndarray, np.ndarray] | None],
    values: list[np.ndarray | None],
    cells: int,
    known: dict[int, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Generalised least squares over the cells of all leaves at once; known sums are kept by a null space."""
    leaves = [node for node in range(len(parents)) if node not in parents]
    of = {node: np.zeros((cells, cells * len(leaves))) for node in range(len(parents))}
    for number, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            of[node][:, number * cells : (number + 1) * cells] = np.eye(cells)
            node = parents[node]
    design = np.vstack([m[0] @ of[node] for node, m in enumerate(measured) if m is not None])
    weight = np.concatenate([1 / m[1] for m in measured if m is not None])
    y = np.concatenate([v for v in values if v is not None])
    if known:
        fixed = np.vstack([np.ones((1, cells)) @ of[node] for node in known])
        target = np.concatenate(list(known.values()))
    else:
        fixed, target = np.zeros((0, design.shape[1])), np.zeros(0)
    start = np.linalg.pinv(fixed) @ target if len(fixed) else np.zeros(design.shape[1])
    free = np.eye(design.shape[1]) - (np.linalg.pinv(fixed) @ fixed if len(fixed) else 0)
    values_, vectors = np.linalg.eigh(free)
    basis = vectors[:, values_ > 0.5]
    inner = basis.T @ (design.T * weight) @ design @ basis
    covariance = basis @ np.linalg.inv(inner) @ basis.T
    estimate = start + covariance @ (design.T * weight) @ (y - design @ start)
    return estimate, covariance, of


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(1, 3), with_known=st.booleans())
def test_random_trees_against_dense_least_squares(seed: int, cells: int, with_known: bool) -> None:
    rng = np.random.default_rng(seed)
    parents, measured = _random_tree(rng, cells)
    values = [None if m is None else rng.normal(size=len(m[0])) for m in measured]
    first_level = [node for node, parent in enumerate(parents) if parent == 0]
    known = {}
    if with_known and cells > 1:
        chosen = [0] if rng.random() < 0.5 else [node for node in first_level if _told(node, parents, measured)]
        known = {node: rng.normal(size=1) for node in chosen}
    blue = HierarchicalBlue(
        parents,
        [None if m is None else NodeInformation.of(m[0], m[1], v) for m, v in zip(measured, values, strict=True)],
        {node: KnownSums(np.ones((1, cells)), value) for node, value in known.items()},
    )
    estimate, covariance, of = _dense(parents, measured, values, cells, known)
    for node in range(len(parents)):
        assert blue.estimate(node) == pytest.approx(of[node] @ estimate, abs=1e-7)
        for other in range(len(parents)):
            expected = of[node] @ covariance @ of[other].T
            assert blue.covariance(node, other) == pytest.approx(expected, abs=1e-7)


def _told(node: int, parents: list[int], measured: list[object]) -> bool:
    below = [child for child, parent in enumerate(parents) if parent == node]
    return measured[node] is not None or (bool(below) and all(_told(child, parents, measured) for child in below))


# --- Large histograms: sectors of a free axis, and units that are alike. ---

SHAPE = (3, 2, 4)
QUERIES = [
    {},
    {0: np.array([0, 1, 1])},
    {0: np.arange(3), 2: np.arange(4)},
    {1: np.arange(2)},
    {0: np.arange(3), 1: np.arange(2), 2: np.arange(4)},
]


def _matrix(query: dict[int, np.ndarray]) -> np.ndarray:
    index = np.indices(SHAPE)
    group = np.zeros(SHAPE, int)
    for axis, groups in query.items():
        group = group * (groups.max() + 1) + groups[index[axis]]
    return (group.ravel()[None, :] == np.arange(group.max() + 1)[:, None]).astype(float)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), known_to=st.integers(-1, 2))
def test_sectors_and_kinds_against_the_tree(seed: int, known_to: int) -> None:
    """Variances of every query in every unit: 24 cells in sectors of 3 core cells, with cells that are known zeros."""
    rng = np.random.default_rng(seed)
    reduction = Exchangeable.of(SHAPE, QUERIES)
    assert reduction.free == (1, 2)
    assert (reduction.size, reduction.copies, len(reduction.sectors)) == (3, 8, 4)
    parents = [np.empty(0, np.int64), np.array([0, 0, 0]), np.array([0, 0, 1, 1, 1, 2])]
    kinds = [np.zeros(1, np.int64), rng.integers(0, 2, 3), np.array([0, 0, 1, 1, 1, -1])]
    precisions = [rng.uniform(0.05, 3, (2, len(QUERIES))) for _ in range(3)]
    possible = rng.random((6, 3)) < 0.7
    possible[:, 0] = True
    levels = [
        SpineLevel(
            parent,
            kind,
            np.stack([reduction.information(list(zip(QUERIES, row, strict=True))) for row in rows]),
            position <= known_to,
        )
        for position, (parent, kind, rows) in enumerate(zip(parents, kinds, precisions, strict=True))
    ]
    members = [reduction.members(query) for query in QUERIES]
    weights = [reduction.weights(query) for query in QUERIES]

    def evaluate(covariance: np.ndarray) -> np.ndarray:
        found = [np.einsum("s,gm,ksmn,gn->kg", w, g, covariance, g) for w, g in zip(weights, members, strict=True)]
        return np.concatenate(found, axis=1)

    variances = spine_variances(levels, possible, evaluate, reduction.total)
    # The same by brute force: cells that are zero are measured with next to no noise.
    offsets = [0, 1, 4]
    flat_parents = [-1, 0, 0, 0, *(parents[2] + 1).tolist()]
    matrices = [_matrix(query) for query in QUERIES]
    measured: list[tuple[np.ndarray, np.ndarray] | None] = []
    for position in range(3):
        for kind in kinds[position].tolist():
            if kind < 0:
                measured.append(None)
                continue
            rows = np.vstack(matrices)
            variance = np.concatenate(
                [np.full(len(m), 1 / p) for m, p in zip(matrices, precisions[position][kind], strict=True)]
            )
            measured.append((rows, variance))
    leaves = range(4, 10)
    zero = np.concatenate([~np.repeat(possible[leaf - 4], 8) for leaf in leaves])
    fixed = {u: np.zeros(1) for u in range(10) if LEVEL[u] <= known_to}
    covariance, of = _dense_covariance(flat_parents, measured, 24, fixed, zero)
    for position, found in enumerate(variances):
        for unit in range(levels[position].units):
            node = offsets[position] + unit
            dense = of[node] @ covariance @ of[node].T
            start = 0
            for query, matrix in zip(QUERIES, matrices, strict=True):
                groups = reduction.members(query).shape[0]
                expected = np.diag(matrix @ dense @ matrix.T)
                values = found.values[found.kind[unit], start : start + groups]
                # A count of a query lies in the core group that its first cell lies in.
                for row, variance in zip(matrix, expected, strict=True):
                    core = int(np.flatnonzero(row)[0]) // 8
                    group = int(np.flatnonzero(reduction.members(query)[:, core])[0])
                    assert values[group] == pytest.approx(variance, abs=1e-8)
                start += groups


def _dense_covariance(
    parents: list[int],
    measured: list[tuple[np.ndarray, np.ndarray] | None],
    cells: int,
    known: dict[int, np.ndarray],
    zero: np.ndarray,
) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    leaves = [node for node in range(len(parents)) if node not in parents]
    of = {node: np.zeros((cells, cells * len(leaves))) for node in range(len(parents))}
    for number, leaf in enumerate(leaves):
        node = leaf
        while node >= 0:
            of[node][:, number * cells : (number + 1) * cells] = np.eye(cells)
            node = parents[node]
    information = np.zeros((len(zero), len(zero)))
    for node, m in enumerate(measured):
        if m is not None:
            rows = m[0] @ of[node]
            information += (rows.T / m[1]) @ rows
    fixed = np.vstack([np.eye(len(zero))[zero], *(np.ones((1, cells)) @ of[node] for node in known)])
    _, values, vectors = np.linalg.svd(fixed)
    basis = vectors[int((values > 1e-9).sum()) :].T
    return basis @ np.linalg.inv(basis.T @ information @ basis) @ basis.T, of
