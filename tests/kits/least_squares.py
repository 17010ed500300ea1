"""Made-up node problems of many shapes, and oracles that share no code with the solvers."""

from __future__ import annotations

import numpy as np
import piqp
import scipy.sparse as sp
from scipy.optimize import linprog, minimize

from confide.arrays import Floats
from confide.estimation.node_problem import ChildSums, GroupBounds, MeasuredQuery, NodeProblem

DIMS = (8, 2, 2, 63)
KIND, AGE, ORIGIN, RACE = np.unravel_index(np.arange(2016), DIMS)
INSTITUTION = np.where(KIND == 0, 0, np.where(KIND <= 4, 1, 2))
PARTITIONS = {
    "total": np.zeros(2016, np.int64),
    "race": RACE,
    "origin": ORIGIN,
    "age": AGE,
    "institution": INSTITUTION,
    "kind": KIND,
    "origin*race": ORIGIN * 63 + RACE,
    "age*race": AGE * 63 + RACE,
    "age*origin": AGE * 2 + ORIGIN,
    "age*origin*race": (AGE * 2 + ORIGIN) * 63 + RACE,
    "detailed": np.arange(2016),
}
# Shares of the budget, in the order of PARTITIONS: close to what the 2020 system used on each geolevel.
SHARES = {
    "state": (0.921, *(0.0015,) * 5, 0.003, 0.003, 0.0015, 0.008, 0.056),
    "county": (0.763, *(0.0024,) * 5, 0.007, 0.007, 0.0024, 0.025, 0.184),
    "tract": (0.382, 0.002, *(0.0012,) * 4, 0.471, 0.005, 0.0012, 0.016, 0.1175),
    "group": (0.416, *(0.0007,) * 5, 0.257, 0.002, 0.0007, 0.006, 0.314),
    "block": (0.0012, 0.002, *(0.0012,) * 4, 0.005, 0.005, 0.0012, 0.017, 0.963),
    "equal": (1 / 11,) * 11,
}
PRECISION = {"state": 0.9, "county": 0.28, "tract": 0.43, "group": 0.78, "block": 0.1, "equal": 0.5}


def popularity(rng: np.random.Generator) -> Floats:
    """How common each of the 2,016 cells is: very uneven, as in life."""
    kind = np.array([0.97, 0.006, 0.0005, 0.005, 0.0005, 0.009, 0.003, 0.006])
    race = np.concatenate([[0.65, 0.13, 0.012, 0.06, 0.003, 0.065], 0.08 / np.arange(2, 59) ** 1.7])
    weight = kind[KIND] * np.array([0.22, 0.78])[AGE] * np.array([0.8, 0.2])[ORIGIN] * race[RACE]
    weight = weight * rng.lognormal(0.0, 0.8, 2016)
    common: Floats = weight / weight.sum()
    return common


def made_up(
    rng: np.random.Generator,
    cells: int,
    children: int,
    level: str,
    *,
    gq: bool = False,
    slack: float | None = None,
    pairs: bool = False,
    unmeasured: int = 0,
    uneven: bool = False,
    drop: tuple[str, ...] = (),
    people: int | None = None,
) -> NodeProblem:
    """One feasible node problem: truth and noise are drawn, the truth satisfies every constraint."""
    weight = popularity(rng)
    chosen = np.sort(rng.choice(2016, cells, replace=False, p=weight))
    people = people or int(cells * rng.uniform(3, 60))
    parent = 1 + rng.multinomial(people, weight[chosen] / weight[chosen].sum())
    kind = KIND[chosen]
    allowed = np.ones((cells, children), np.bool_)
    facilities = np.zeros((8, children), np.int64)
    if gq:
        for number in range(1, 8):
            holders = rng.choice(children, min(children, int(rng.integers(1, 2 + children // 6))), replace=False)
            facilities[number, holders] = rng.integers(1, 4, len(holders))
            allowed[kind == number] &= facilities[number] > 0
    share = rng.dirichlet(np.full(children, 1.5))
    truth = np.zeros((cells, children), np.int64)
    for cell in range(cells):
        odds = np.where(allowed[cell], share * rng.gamma(2.0, 1.0, children) + 1e-12, 0.0)
        truth[cell] = rng.multinomial(parent[cell], odds / odds.sum())
    bounds: list[GroupBounds] = []
    if gq:
        held = np.zeros((8, children), np.int64)
        np.add.at(held, kind, truth)
        lower = np.minimum(facilities, held)
        lower[0] = 0
        upper = np.where(facilities > 0, 99_999.0 * facilities, 0.0)
        upper[0] = np.inf
        if rng.random() < 0.3:
            upper = np.minimum(upper, held + rng.integers(0, 3, held.shape))
            upper[0] = np.inf
        bounds.append(GroupBounds("kinds", kind, lower, upper))
    queries = []
    for (name, partition), part in zip(PARTITIONS.items(), SHARES[level], strict=True):
        if name in drop or (name == "total" and slack is not None):
            continue
        _, groups = np.unique(partition[chosen], return_inverse=True)
        sums = np.zeros((int(groups.max()) + 1, children))
        np.add.at(sums, groups, truth)
        weights = np.full(children, PRECISION[level] * part)
        if uneven:
            weights = weights * rng.choice([0.25, 1.0, 3.0], children)
        weights[rng.permutation(children)[:unmeasured]] = 0.0
        noise = rng.normal(0.0, (PRECISION[level] * part) ** -0.5, sums.shape)
        queries.append(MeasuredQuery(name, groups, sums + np.rint(noise), weights))
    if slack is not None:
        totals = truth.sum(0) + rng.normal(0.0, 0.4, children)
        totals = np.maximum(truth.sum(0) + 0.5 * (totals - totals.mean() - truth.sum(0) + truth.sum(0).mean()), 0.0)
        middle = truth.sum(0) if gq or pairs else totals * (truth.sum() / totals.sum())
        bounds.append(
            GroupBounds("totals", np.zeros(cells, np.int64), middle[None, :] - slack, middle[None, :] + slack)
        )
    sums_of: tuple[ChildSums, ...] = ()
    if pairs and children > 1:
        members = np.arange(children) // 2
        whole = np.bincount(members, truth.sum(0)).astype(np.float64)
        sums_of = (ChildSums("pairs", members, whole, whole),)
    return NodeProblem(parent, allowed, tuple(queries), tuple(bounds), sums_of)


def made_up_root(rng: np.random.Generator, cells: int, *, total: bool = True, gq: bool = True) -> NodeProblem:
    """A root: one unit, no parent, the total fixed or not."""
    node = made_up(rng, cells, 1, "state", people=cells * 200)
    assert node.parent is not None
    kinds = next(query for query in node.queries if query.name == "kind")
    held = np.bincount(kinds.groups, node.parent)[:, None].astype(np.float64)
    bounds = (GroupBounds("kinds", kinds.groups, np.minimum(held, 40.0), np.maximum(held, 90_000.0)),) if gq else ()
    queries = tuple(query for query in node.queries if query.name != "total")
    return NodeProblem(None, node.allowed, queries, bounds, (), int(node.parent.sum()) if total else None)


def random_problem(seed: int, largest: int = 6000) -> NodeProblem:
    """Problem number ``seed`` of an endless list with all shapes and kinds of constraints."""
    rng = np.random.default_rng([20_260_101, seed])
    if seed % 25 == 24:
        return made_up_root(
            rng, min(largest, int(rng.choice([30, 300, 2016]))), total=seed % 50 == 24, gq=seed % 100 < 50
        )
    level = list(SHARES)[seed % 6]
    cells = int(np.exp(rng.uniform(np.log(10), np.log(500 if seed % 10 else 2016))))
    children = int(np.exp(rng.uniform(0.0, np.log(300)))) + 1
    children = max(1, min(children, largest // cells))
    return made_up(
        rng,
        cells,
        children,
        level,
        gq=bool(rng.random() < 0.6),
        slack=float(rng.choice([0.01, 0.1])) if rng.random() < 0.5 else None,
        pairs=bool(rng.random() < 0.15),
        unmeasured=int(rng.integers(1, 1 + max(1, children // 4))) if rng.random() < 0.15 and children > 2 else 0,
        uneven=bool(rng.random() < 0.2),
        drop=("detailed",) if rng.random() < 0.05 else (),
    )


class Assembled:
    """The problem written out as min 1/2 z'Pz + q'z, A z = b, low <= G z <= high, z >= 0; nothing shared with us."""

    def __init__(self, problem: NodeProblem):
        self.problem = problem
        cells, children = problem.allowed.shape
        self.cell, self.child = np.nonzero(problem.allowed)
        count = len(self.cell)
        self.count = count
        parts, self.linear = [], np.zeros(count)
        for query in problem.queries:
            group = query.groups[self.cell]
            here = group >= 0
            rows = group[here] * children + self.child[here]
            matrix = sp.csr_matrix(
                (np.ones(int(here.sum())), (rows, np.flatnonzero(here))), (query.measured.size, count)
            )
            weights = np.broadcast_to(query.weights, query.measured.shape).ravel()
            parts.append((matrix, weights))
            self.linear -= 2.0 * matrix.T @ (weights * query.measured.ravel())
        self.quadratic = sum((m.T @ sp.diags(2.0 * w) @ m for m, w in parts), sp.csc_matrix((count, count)))
        if problem.parent is not None:
            self.equations = sp.csr_matrix((np.ones(count), (self.cell, np.arange(count))), (cells, count))
            self.right = problem.parent.astype(np.float64)
        elif problem.total is not None:
            self.equations = sp.csr_matrix(np.ones((1, count)))
            self.right = np.array([float(problem.total)])
        else:
            self.equations, self.right = sp.csr_matrix((0, count)), np.zeros(0)
        rows, low, high = [sp.csr_matrix((0, count))], [np.zeros(0)], [np.zeros(0)]
        for bound in problem.bounds:
            group = bound.groups[self.cell]
            here = group >= 0
            place = group[here] * children + self.child[here]
            rows.append(
                sp.csr_matrix((np.ones(int(here.sum())), (place, np.flatnonzero(here))), (bound.lower.size, count))
            )
            low.append(bound.lower.ravel())
            high.append(bound.upper.ravel())
        for sums in problem.child_sums:
            group = sums.members[self.child]
            here = group >= 0
            rows.append(
                sp.csr_matrix((np.ones(int(here.sum())), (group[here], np.flatnonzero(here))), (len(sums.lower), count))
            )
            low.append(sums.lower)
            high.append(sums.upper)
        sides, low_all, high_all = sp.vstack(rows).tocsr(), np.concatenate(low), np.concatenate(high)
        used = np.diff(sides.indptr) > 0
        self.sides, self.low, self.high = sides[used], low_all[used], high_all[used]

    def table(self, z: Floats) -> Floats:
        """A vector of variables as cells by children."""
        x = np.zeros(self.problem.allowed.shape)
        x[self.cell, self.child] = z
        return x

    def by_piqp(self) -> Floats:
        """The solution by PIQP, with the Hessian as it is and no reference point."""
        solver = piqp.SparseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
        matrix = sp.vstack([self.equations, self.sides[self.low == self.high]]).tocsc()
        right = np.concatenate([self.right, self.low[self.low == self.high]])
        between = self.low < self.high
        sides = (self.sides[between].tocsc(), self.low[between], self.high[between]) if between.any() else (None,) * 3
        solver.setup(self.quadratic.tocsc(), self.linear, matrix, right, *sides, np.zeros(self.count), None)
        solver.solve()
        return self.table(np.maximum(solver.result.x, 0.0))

    def by_slsqp(self) -> Floats:
        """The solution by scipy's SLSQP, for small problems."""
        dense = self.quadratic.toarray()
        scale = max(1.0, float(np.abs(dense).max()))
        constraints = [
            {"type": "eq", "fun": lambda z: self.equations @ z - self.right, "jac": lambda z: self.equations.toarray()}
        ]
        lower, upper = np.isfinite(self.low), np.isfinite(self.high)
        sides = np.concatenate([self.sides.toarray()[lower], -self.sides.toarray()[upper]])
        limits = np.concatenate([self.low[lower], -self.high[upper]])
        if len(sides):
            constraints.append({"type": "ineq", "fun": lambda z: sides @ z - limits, "jac": lambda z: sides})
        result = minimize(
            lambda z: (0.5 * z @ dense @ z + self.linear @ z) / scale,
            np.ones(self.count),
            jac=lambda z: (dense @ z + self.linear) / scale,
            bounds=[(0.0, None)] * self.count,
            constraints=constraints,
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-15},
        )
        return self.table(np.maximum(result.x, 0.0))

    def linear_bound(self, x: Floats) -> float:
        """An upper bound of f(x) - f*, by a linear program (HiGHS) over all constraints: the Frank-Wolfe gap."""
        z = x[self.cell, self.child]
        gradient = self.quadratic @ z + self.linear
        below, above = np.isfinite(self.low), np.isfinite(self.high)
        sides = sp.vstack([self.sides[above], -self.sides[below]])
        limits = np.concatenate([self.high[above], -self.low[below]])
        # The gradient is the same along a block up to a constant, which the parent sums make irrelevant: take it out.
        cost = gradient
        if self.problem.parent is not None:
            least = np.full(self.problem.cells, np.inf)
            np.minimum.at(least, self.cell, gradient)
            cost = gradient - least[self.cell]
        result = linprog(cost, sides, limits, self.equations, self.right, method="highs")
        assert result.status == 0, result.message
        return float(cost @ z - result.fun)
