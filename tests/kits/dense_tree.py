"""Random trees of units with measurements, and dense generalised least squares over all their cells at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from confide.estimation.sectors import CellVectors, Sectors
from confide.estimation.tree_covariances import TreeCovariances, TreeLevel
from confide.estimation.tree_gls import TreeEstimates

SHAPE = (3, 2, 3)
"""An axis with a recode and zeros, one with a zero, and a free one. A second free one is added at random."""
RECODE = np.array([0, 1, 1])


@dataclass
class RandomTree:
    """A tree, what is measured in it, and the truth."""

    shape: tuple[int, ...]
    parents: list[np.ndarray]
    queries: list[dict[int, np.ndarray]]
    measured: list[list[list[tuple[int, float]]]]
    """For each level and unit the queries that are measured, with their variances."""
    known: list[np.ndarray]
    """For each level and unit whether its total is known."""
    possible: np.ndarray
    """Blocks x histogram."""
    truth: np.ndarray
    values: dict[tuple[int, int, int], np.ndarray]
    _matrices: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        return int(np.prod(self.shape))

    @property
    def blocks(self) -> int:
        return len(self.possible)

    def inside(self, level: int) -> np.ndarray:
        """Units of a level x blocks."""
        unit = np.arange(self.blocks)
        for position in range(len(self.parents) - 1, level, -1):
            unit = self.parents[position][unit]
        inside: np.ndarray = (unit[None, :] == np.arange(len(self.measured[level]))[:, None]).astype(float)
        return inside

    def matrix(self, query: int) -> np.ndarray:
        """Cells of a query x histogram, in C order of its shape."""
        if query not in self._matrices:
            self._matrices[query] = matrix_of(self.shape, self.queries[query])
        return self._matrices[query]


def matrix_of(shape: tuple[int, ...], query: dict[int, np.ndarray]) -> np.ndarray:
    """Cells of a query x histogram."""
    result = np.ones((1, 1))
    for axis, levels in enumerate(shape):
        groups = query.get(axis, np.zeros(levels, int))
        result = np.kron(result, (groups[None, :] == np.arange(groups.max() + 1)[:, None]).astype(float))
    return result


def random_tree(rng: np.random.Generator) -> RandomTree:
    """Three or four levels below one root; recodes, zeros, known totals, unequal shares, bypassed only children, and
    with some luck a level that is not measured, whose units have known totals and are not in the order of their
    parents."""
    shape = (*SHAPE, 2) if rng.random() < 0.5 else SHAPE
    virtual = rng.random() < 0.5
    parents = [np.zeros(0, int)]
    units = 1
    for _ in range(int(rng.integers(2, 4))):
        children = rng.integers(1, 4 if units < 3 else 3, units)
        parent = np.repeat(np.arange(units), children)
        if len(parents) == 2 and virtual:
            rng.shuffle(parent)
        parents.append(parent)
        units = len(parent)
    last = len(parents) - 1
    kept = [np.arange(n) for n in shape]
    queries: list[dict[int, np.ndarray]] = [{}, {0: RECODE}, {0: kept[0], 1: kept[1]}]
    queries += [{2: kept[2]}, {1: kept[1], 2: kept[2]}]
    if len(shape) > 3:
        queries += [{0: kept[0], 3: kept[3]}, {2: kept[2], 3: kept[3]}]
    queries.append(dict(enumerate(kept)))
    everything = len(queries) - 1
    kinds = [[float(rng.uniform(0.3, 20)) for _ in queries] for _ in range(3)]
    measured: list[list[list[tuple[int, float]]]] = []
    for level, parent in enumerate(parents):
        number = 1 if level == 0 else len(parent)
        alone = np.zeros(number, bool) if level == 0 else np.bincount(parent)[parent] == 1
        chosen = rng.choice(len(queries), int(rng.integers(1, len(queries))), replace=False)
        some = sorted({*chosen.tolist(), everything})
        listed: list[list[tuple[int, float]]] = []
        for unit in range(number):
            bypassed = alone[unit] and bool(measured[level - 1][parent[unit]])
            if (bypassed and rng.random() < 0.6) or (level == 1 and virtual and last > 1):
                listed.append([])
                continue
            variances = kinds[int(rng.integers(0, 3))]
            listed.append([(query, variances[query]) for query in some])
        measured.append(listed)
    blocks = len(parents[-1])
    type_ = np.ones((blocks, shape[0]), bool)
    type_[:, 2] = rng.random(blocks) < 0.6
    possible = np.ones((blocks, *shape), bool)
    possible &= type_.reshape(blocks, shape[0], *(1 for _ in shape[1:]))
    possible[:, 2, 0] = False  # a structural zero
    truth = np.where(possible, rng.poisson(3, possible.shape), 0).reshape(blocks, -1)
    known = [np.zeros(len(units_), bool) for units_ in measured]
    style = rng.integers(0, 4)
    if style == 1:
        known[0][:] = True
    elif style == 2 or virtual:
        known[0][:] = known[1][:] = True
    elif style == 3:
        known[1] = rng.random(len(known[1])) < 0.5
    tree = RandomTree(shape, parents, queries, measured, known, possible.reshape(blocks, -1), truth, {})
    for level, listed in enumerate(measured):
        sums = tree.inside(level) @ truth
        for unit, asked in enumerate(listed):
            for query, variance in asked:
                exact = tree.matrix(query) @ sums[unit]
                tree.values[level, unit, query] = exact + rng.normal(0, np.sqrt(variance), len(exact))
    return tree


def dense(tree: RandomTree) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and covariance of all cells of all blocks, in one regression; known sums by a null space."""
    size = tree.blocks * tree.cells
    rows, weights, values, fixed, targets = [], [], [], [], []
    for level, listed in enumerate(tree.measured):
        inside = tree.inside(level)
        for unit, asked in enumerate(listed):
            for query, variance in asked:
                own = np.kron(inside[unit][None, :], tree.matrix(query))
                rows.append(own)
                weights.append(np.full(len(own), 1 / variance))
                values.append(tree.values[level, unit, query])
            if tree.known[level][unit]:
                fixed.append(np.kron(inside[unit], np.ones(tree.cells)))
                targets.append(float((inside[unit] @ tree.truth).sum()))
    can = np.flatnonzero(tree.possible.ravel())
    design, weight, y = np.vstack(rows)[:, can], np.concatenate(weights), np.concatenate(values)
    start, basis = np.zeros(len(can)), np.eye(len(can))
    if fixed:
        known = np.array(fixed)[:, can]
        start = np.linalg.pinv(known, rcond=1e-9) @ np.array(targets)
        _, singular, right = np.linalg.svd(known)
        basis = right[int((singular > 1e-9).sum()) :].T
    inner = basis.T @ (design.T * weight) @ design @ basis
    part = basis @ np.linalg.inv(inner) @ basis.T
    estimate, covariance = np.zeros(size), np.zeros((size, size))
    estimate[can] = start + part @ (design.T * weight) @ (y - design @ start)
    covariance[np.ix_(can, can)] = part
    return estimate.reshape(tree.blocks, tree.cells), covariance


def solved(tree: RandomTree, *, from_below: bool = False) -> TreeEstimates:
    """The same in sectors; with ``from_below``, each unit from itself and all below it alone."""
    sectors = Sectors.of(tree.shape, tree.queries, {0, 1})
    asked = [sectors.query(query) for query in tree.queries]
    levels, evidence, totals = [], [], []
    possible = tree.possible.reshape(tree.blocks, *tree.shape).any(axis=tuple(1 + axis for axis in sectors.free))
    possible = possible.reshape(tree.blocks, -1)
    for level, listed in enumerate(tree.measured):
        kinds: dict[tuple[tuple[int, float], ...], int] = {}
        kind = [kinds.setdefault(tuple(one), len(kinds)) if one else -1 for one in listed]
        matrices = [sectors.information([(asked[q], 1 / v) for q, v in key]) for key in kinds]
        empty = np.zeros((0, len(sectors.sectors), sectors.size, sectors.size))
        information = np.stack(matrices) if matrices else empty
        levels.append(TreeLevel(tree.parents[level], np.array(kind), information, tree.known[level]))
        last = level == len(tree.measured) - 1
        vectors = CellVectors(sectors, possible) if last else CellVectors.dense(sectors, len(listed))
        for unit, one in enumerate(listed):
            for query, variance in one:
                value = tree.values[level, unit, query][None, :]
                vectors.add(np.array([unit]), asked[query], value, np.array([1 / variance]))
        evidence.append(vectors)
        totals.append((tree.inside(level) @ tree.truth).sum(axis=1))
    return TreeEstimates(TreeCovariances(sectors, levels, possible), evidence, totals, from_below=from_below)


def least_misfit(tree: RandomTree, level: int, unit: int, cells: np.ndarray) -> float:
    """The least sum of squares of a unit and all below it, over whatever its blocks can be if they add up to ``cells``:
    minus twice the logarithm of the likelihood of these cells, up to a constant."""
    blocks = np.flatnonzero(tree.inside(level)[unit])
    rows, values = [np.zeros((1, len(blocks) * tree.cells))], [np.zeros(1)]
    fixed, targets = [], []
    for position in range(level, len(tree.measured)):
        inside = tree.inside(position)
        for number in np.flatnonzero((inside[:, blocks] > 0).any(axis=1)).tolist():
            own = inside[number][blocks][None, :]
            for query, variance in tree.measured[position][number]:
                rows.append(np.kron(own, tree.matrix(query)) / np.sqrt(variance))
                values.append(tree.values[position, number, query] / np.sqrt(variance))
            if tree.known[position][number]:
                fixed.append(np.kron(own, np.ones(tree.cells)))
                targets.append(np.atleast_1d((inside[number] @ tree.truth).sum()))
    fixed.append(np.kron(np.ones((1, len(blocks))), np.eye(tree.cells)))
    targets.append(cells)
    can = np.flatnonzero(tree.possible[blocks].ravel())
    known, wanted = np.vstack(fixed)[:, can], np.concatenate(targets)
    start = np.linalg.pinv(known, rcond=1e-9) @ wanted
    assert np.abs(known @ start - wanted).max() < 1e-7, "cells that can be"
    values_, vectors = np.linalg.eigh(known.T @ known)
    basis = vectors[:, values_ < 1e-9]
    design, y = np.vstack(rows)[:, can], np.concatenate(values)
    off = y - design @ start
    inner = design @ basis
    moved = np.linalg.pinv(inner.T @ inner, rcond=1e-11, hermitian=True) @ (inner.T @ off)
    return float(np.square(off - inner @ moved).sum())
