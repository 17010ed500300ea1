"""Laws of cells as the objective of a node: the exact law given everything below, and least squares with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kits.dense_tree import RandomTree, least_misfit, random_tree, solved

from confide.errors import ParameterError
from confide.estimation import GroupBounds, MeasuredQuery, NodeProblem, solve
from confide.estimation.active_set import certify
from confide.estimation.law_interior_point import law_interior_point
from confide.estimation.least_squares import SolveOutcome, projected_gradient
from confide.estimation.node_problem import CellLaw, ChildSums, marginal_information
from confide.estimation.prepare import prepare, reference_point
from confide.estimation.sectors import Sectors
from confide.estimation.tree_gls import TreeEstimates

GAP, VIOLATION = 1e-7, 1e-6


def random_law(rng: np.random.Generator, *, kinds: int = 3, scale: float = 5.0) -> CellLaw:
    """Laws of a few children on some cells of a small histogram, with free axes or without."""
    shape = tuple(rng.integers(1, 5, 3).tolist())
    free = tuple(axis for axis in range(3) if rng.random() < 0.6)
    sectors = Sectors(shape, free)
    number, children = int(rng.integers(1, kinds + 1)), int(rng.integers(2, 7))
    roots = rng.normal(size=(number, len(sectors.sectors), sectors.size, sectors.size))
    information = roots @ roots.swapaxes(-1, -2) + 0.02 * np.eye(sectors.size)
    cells = int(np.prod(shape))
    support = np.sort(rng.choice(cells, int(rng.integers(1, cells + 1)), replace=False))
    mean = scale * rng.normal(size=(children, sectors.size, sectors.copies)) + 3
    return CellLaw(sectors, support, rng.integers(0, number, children), information, mean)


def written_out(law: CellLaw) -> tuple[list[np.ndarray], np.ndarray]:
    """J of every kind on all cells of the histogram, and the mean of every child, as plain matrices."""
    sectors = law.sectors
    order = np.argsort((*sectors.core, *sectors.free))
    index = np.arange(int(np.prod(sectors.shape))).reshape(*sectors.core_shape, *sectors.free_shape)
    place = index.transpose(*order).ravel()
    result = []
    for kind in law.information:
        whole = np.zeros((len(place), len(place)))
        for sector, matrix in zip(sectors.sectors, kind, strict=True):
            part = matrix
            for deviates, n in zip(sector, sectors.free_shape, strict=True):
                mean = np.full((n, n), 1 / n)
                part = np.kron(part, np.eye(n) - mean if deviates else mean)
            whole += part
        result.append(whole[np.ix_(place, place)])
    return result, law.mean.reshape(len(law.mean), -1)[:, place]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("way", ["dense", "by axes"])
def test_the_operator_is_the_matrix_that_its_sectors_say(seed: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "by axes":
        monkeypatch.setattr("confide.estimation.node_problem.DENSE", 0)
    rng = np.random.default_rng(seed)
    law = random_law(rng)
    matrices, means = written_out(law)
    x = rng.normal(size=(len(law.support), len(law.kind)))
    value, gradient = 0.0, np.zeros_like(x)
    for child, kind in enumerate(law.kind):
        off = -means[child]
        off[law.support] += x[:, child]
        value += float(off @ matrices[kind] @ off)
        gradient[:, child] = 2 * (matrices[kind] @ off)[law.support]
        inner = matrices[kind][np.ix_(law.support, law.support)]
        assert law.product(x)[:, child] == pytest.approx(inner @ x[:, child], abs=1e-9)
        assert law.full_diagonal[:, child] == pytest.approx(np.diag(inner))
        assert np.linalg.eigvalsh(inner - np.diag(law.diagonal[:, child])).min() > -1e-9
        assert np.linalg.eigvalsh(inner).max() <= law.largest() + 1e-9
        # How far a cell can be off at most where all others are as they like.
        furthest = means[child][law.support] + np.sqrt(7.0 * np.diag(np.linalg.inv(matrices[kind]))[law.support])
        assert law.reach(7.0)[:, child] == pytest.approx(np.maximum(furthest, 0), abs=1e-7)
    assert law.value(x) == pytest.approx(value)
    assert law.gradient(x) == pytest.approx(gradient, abs=1e-8)


# The law given everything below.


def random_cells(tree: RandomTree, level: int, unit: int, rng: np.random.Generator) -> np.ndarray:
    """Cells of a unit that can be: sums of blocks that keep every known total of the unit and below."""
    inside = tree.inside(level)[unit]
    can = tree.possible & (inside > 0)[:, None]
    free = [
        np.kron(row, np.ones(tree.cells))
        for known, position in zip(tree.known, range(len(tree.known)), strict=True)
        for row in tree.inside(position)[known]
    ]
    moved = np.where(can, rng.normal(size=can.shape), 0.0).ravel()
    if free:
        rows = np.array(free) * can.ravel()
        moved -= np.linalg.pinv(rows, rcond=1e-9) @ (rows @ moved)
    return np.asarray(inside @ (tree.truth + moved.reshape(can.shape)))


def test_what_nothing_is_known_of_has_no_bound_whatever_the_value() -> None:
    law = random_law(np.random.default_rng(4), kinds=2)
    unknown = replace(law, information=law.information * 0.0)
    for value in (0.0, 1e-300, 7.0):
        assert np.isposinf(unknown.reach(value)).all()
        assert not np.isnan(law.reach(value)).any()
    assert law.reach(0.0) == pytest.approx(np.maximum(law.centre, 0.0))


def laws_of(estimates: TreeEstimates, level: int, tree: RandomTree) -> CellLaw:
    units = np.arange(len(tree.measured[level]))
    sectors, vectors = estimates.sectors, estimates.vectors[level]
    mean = np.zeros((len(units), sectors.size, sectors.copies))
    for number, rows in enumerate(vectors.units):
        mean[np.ix_(rows, vectors.cells[number])] = vectors.arrays[number]
    information = estimates.covariances.information_from_below(level)
    return CellLaw(sectors, np.arange(tree.cells), estimates.covariances.upward[level].kind, information, mean)


@pytest.mark.parametrize("seed", range(14))
def test_the_law_of_a_unit_is_that_of_itself_and_everything_below_it(seed: int) -> None:
    """With recodes, zeros, known totals, unequal shares, bypassed units and levels that are not measured."""
    rng = np.random.default_rng(900 + seed)
    tree = random_tree(rng)
    estimates = solved(tree, from_below=True)
    for level in range(len(tree.measured)):
        law = laws_of(estimates, level, tree)
        for unit in rng.permutation(len(tree.measured[level]))[:3].tolist():
            points = [random_cells(tree, level, unit, rng) for _ in range(2)]
            one = CellLaw(law.sectors, law.support, law.kind[[unit]], law.information, law.mean[[unit]])
            found = np.array([one.value(point[:, None]) for point in points])
            exact = np.array([least_misfit(tree, level, unit, point) for point in points])
            assert found - found[0] == pytest.approx(exact - exact[0], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_a_pass_takes_the_marginal_law_of_its_queries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    law = random_law(rng, kinds=2)
    sectors = law.sectors
    matrices, _ = written_out(law)
    covariance = np.linalg.inv(law.information)
    groupings = [{0: np.arange(sectors.shape[0])}, {1: np.arange(sectors.shape[1]), 2: np.arange(sectors.shape[2])}]
    queries = [sectors.query(grouping) for grouping in groupings]
    marginal = marginal_information(sectors, covariance, [(query.members, query.kept) for query in queries])
    index = np.indices(sectors.shape).reshape(3, -1)
    rows = [(index[0] == k).astype(float) for k in range(sectors.shape[0])]
    rows += [
        ((index[1] == k) & (index[2] == m)).astype(float)
        for k in range(sectors.shape[1])
        for m in range(sectors.shape[2])
    ]
    design = np.array(rows)
    full = CellLaw(
        sectors,
        np.arange(index.shape[1]),
        np.arange(len(marginal)),
        marginal,
        np.zeros((len(marginal), sectors.size, sectors.copies)),
    )
    for kind, matrix in enumerate(matrices):
        inner = np.linalg.pinv(design @ np.linalg.inv(matrix) @ design.T, rcond=1e-11, hermitian=True)
        assert full.matrix(kind) == pytest.approx(design.T @ inner @ design, abs=1e-7 * np.abs(inner).max())


# Least squares with a law for the objective.


def random_problem(rng: np.random.Generator) -> NodeProblem:
    """A parent with children, some of whose cells cannot be, with bounds on totals and on groups, or a root."""
    law = random_law(rng, scale=float(rng.choice([2.0, 10.0, 60.0])))
    children, cells = len(law.kind), len(law.support)
    truth = rng.poisson(float(rng.choice([0.4, 3.0, 40.0])), (cells, children))
    allowed = rng.random((cells, children)) < 0.9
    truth[~allowed] = 0
    bounds = []
    if rng.random() < 0.5:
        totals = truth.sum(axis=0)[None, :].astype(float)
        bounds.append(GroupBounds("totals", np.zeros(cells, np.int64), totals - 0.01, totals + 0.01))
    if rng.random() < 0.5:
        groups = rng.integers(0, 2, cells)
        sums = np.stack([truth[groups == group].sum(axis=0) for group in range(2)]).astype(float)
        bounds.append(GroupBounds("groups", groups, np.maximum(sums - 2, 0), sums + rng.integers(0, 3)))
    if rng.random() < 0.2:
        one = CellLaw(law.sectors, law.support, law.kind[:1], law.information, law.mean[:1])
        total = int(truth[:, 0].sum()) if rng.random() < 0.5 else None
        return NodeProblem(None, allowed[:, :1], (), total=total, law=one)
    return NodeProblem(truth.sum(axis=1), allowed, (), tuple(bounds), law=law)


def check_solved(number: int) -> None:
    problem = random_problem(np.random.default_rng(number))
    if problem.total is not None and problem.total and not problem.allowed.any():
        return
    x, report = solve(problem)
    assert report.certificate.relative_gap <= GAP, report
    assert problem.violation(x) <= VIOLATION


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_random_problems_are_solved_with_a_certificate(first: int) -> None:
    for number in range(first, first + 20):
        check_solved(number)


@pytest.mark.slow
def test_five_hundred_random_problems_are_solved_with_a_certificate() -> None:
    for number in range(500):
        check_solved(number)


@pytest.mark.parametrize("method", [law_interior_point, projected_gradient])
def test_every_method_finds_the_same_optimum(method: object) -> None:
    for number in range(8):
        problem = random_problem(np.random.default_rng(300 + number))
        _, report = solve(problem)
        prepared = prepare(problem)
        if problem.parent is None or prepared.free.sum(axis=1).max(initial=0) < 2:
            continue
        point = method(prepared, reference_point(prepared))  # type: ignore[operator]
        found = certify(prepared, np.where(point.x < 1e-7, 0.0, point.x), point.multipliers)
        assert found.objective == pytest.approx(report.certificate.objective, rel=1e-5, abs=1e-5)


# Strategies that give next to nothing to a query: directions that are a million times as uncertain as others.


def stiff_problem(seed: int, *, levels: int = 14, children: int = 9, tied: bool = False) -> NodeProblem:
    """Types of quarters x origin x race in some tracts: totals and races are known well, cells hardly at all."""
    rng = np.random.default_rng(seed)
    sectors = Sectors((3, 2, levels), (1, 2))
    # In a sector the cells have their own weight, and what is summed up over an axis that deviates is gone.
    share = {"detailed": 1e-6, "race": 0.5, "total": 0.5}
    information = np.zeros((2, len(sectors.sectors), 3, 3))
    for number, (origin, race) in enumerate(sectors.sectors):
        information[:, number] += share["detailed"] * np.eye(3)
        information[:, number] += 0.0 if origin else 2 * share["race"]
        information[:, number] += 0.0 if origin or race else 2 * levels * share["total"]
    # Children without the last type of quarters are of another kind.
    information[1, :, 2, :] = information[1, :, :, 2] = 0
    kind = (np.arange(children) % 3 == 0).astype(np.int64)
    truth = rng.poisson(np.exp(rng.normal(0.5, 2.0, (6 * levels, 1))) * rng.gamma(1.0, 1.0, children))
    quarters = np.arange(6 * levels) // (2 * levels)
    allowed = ~((quarters[:, None] == 2) & (kind == 1))
    truth[~allowed] = 0
    noise = rng.normal(0, 30, truth.shape) + rng.normal(0, 1, (1, children))
    mean = np.where(allowed, truth + noise, 0.0).T.reshape(children, 3, 2 * levels)
    totals = truth.sum(axis=0)[None, :].astype(float)
    bounds = (
        GroupBounds("totals", np.zeros(len(truth), np.int64), totals - 0.01, totals + 0.01),
        GroupBounds("quarters", quarters, np.full((3, children), -np.inf), np.full((3, children), float(totals.max()))),
    )
    members = np.arange(children) % 2
    exact = np.array([float(totals[0, members == group].sum()) for group in range(2)])
    ties = (ChildSums("states", members, exact, exact),) if tied else ()
    kept = np.flatnonzero(truth.sum(axis=1))
    law = CellLaw(sectors, kept, kind, information, mean)
    bounds = tuple(GroupBounds(b.name, b.groups[kept], b.lower, b.upper) for b in bounds)
    return NodeProblem(truth.sum(axis=1)[kept], allowed[kept], (), bounds[: 1 if not tied else 2], ties, law=law)


@pytest.mark.parametrize("tied", [False, True])
def test_laws_with_next_to_nothing_for_the_cells_are_solved_in_few_steps(
    tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conjugate gradients take thousands of products with such a law, and a state with them did not end."""
    products = 0
    product = CellLaw.product

    def counted(self: CellLaw, v: np.ndarray) -> np.ndarray:
        nonlocal products
        products += 1
        return product(self, v)

    monkeypatch.setattr(CellLaw, "product", counted)
    for seed in range(4):
        problem = stiff_problem(seed, tied=tied)
        products = 0
        x, report = solve(problem)
        assert report.outcome is SolveOutcome.INTERIOR_POINT
        assert report.fallbacks == 0
        assert products < 100
        assert report.certificate.relative_gap <= GAP
        assert problem.violation(x) <= VIOLATION


def test_a_root_with_next_to_nothing_for_the_cells_is_solved_with_and_without_a_total() -> None:
    for total in (None, 900):
        many = stiff_problem(5)
        assert many.law is not None
        law = CellLaw(many.law.sectors, many.law.support, many.law.kind[1:2], many.law.information, many.law.mean[1:2])
        problem = NodeProblem(None, many.allowed[:, 1:2], (), total=total, law=law)
        x, report = solve(problem)
        assert report.outcome is SolveOutcome.INTERIOR_POINT
        assert report.certificate.relative_gap <= GAP
        assert problem.violation(x) <= VIOLATION


def test_a_law_and_queries_do_not_stand_together() -> None:
    law = random_law(np.random.default_rng(1))
    shape = (len(law.support), len(law.kind))
    query = MeasuredQuery("detailed", np.arange(shape[0]), np.zeros(shape), np.ones(shape[1]))
    with pytest.raises(ParameterError, match="the law does not fit"):
        NodeProblem(np.ones(shape[0], np.int64), np.ones(shape, bool), (query,), law=law)
    with pytest.raises(ParameterError, match="the law does not fit"):
        NodeProblem(np.ones(shape[0], np.int64), np.ones((shape[0], shape[1] + 1), bool), (), law=law)
