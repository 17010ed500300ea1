"""People, tables that count them, and an attacker of the tests' own, who knows that all tables count the same people.

Nothing here is shared with the code that is tested: a table is a list of masks over kinds of people, and what can be
worked out of a cell is two linear programmes over the number of people of each kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from confide.mechanisms.suppression import Dimension, flat, tree


@dataclass
class Population:
    """Kinds of people, how many there are of each, and the tables that are published of them."""

    dimensions: dict[str, Dimension]
    people: np.ndarray
    """One axis for each variable, one entry for each code without parts."""
    tables: dict[str, tuple[str, ...]]

    @property
    def counted(self) -> dict[str, tuple[list[Dimension], np.ndarray]]:
        """The tables as ``suppress_tables`` takes them."""
        counts = {name: self.masks(name).astype(np.int64) @ self.people.reshape(-1) for name in self.tables}
        return {
            name: ([self.dimensions[v] for v in of], counts[name].reshape(self.shape(name)))
            for name, of in self.tables.items()
        }

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.dimensions[v].size for v in self.tables[name])

    def masks(self, name: str) -> sparse.csr_array:
        """For each cell of a table the kinds of people in it."""
        rows = []
        for codes in product(*(range(self.dimensions[v].size) for v in self.tables[name])):
            chosen = dict(zip(self.tables[name], codes, strict=True))
            mask = np.ones(())
            for variable in self.dimensions:
                members = of_code(self.dimensions[variable], chosen.get(variable, 0))
                mask = np.multiply.outer(mask, members)
            rows.append(mask.reshape(-1))
        return sparse.csr_array(np.array(rows))


def of_code(dimension: Dimension, code: int) -> np.ndarray:
    """Which codes without parts are in a code, by going up from each of them."""
    leaves = [at for at in range(dimension.size) if at not in dimension.parent]
    inside = np.zeros(len(leaves))
    for number, leaf in enumerate(leaves):
        at = leaf
        while at != -1:
            inside[number] += at == code
            at = dimension.parent[at]
    return inside


def random_population(seed: int) -> Population:
    """Sparse or dense people of three or four variables, some with a hierarchy or with kinds that cannot be, in tables
    that meet in a circle."""
    rng = np.random.default_rng(seed)
    size = 3 + seed % 2
    names = "abcd" if seed % 10 == 9 else "abc"
    sizes = [2] * 4 if len(names) == 4 else [size] * 3
    dimensions = {name: flat(name, [f"{name}{k}" for k in range(of)]) for name, of in zip(names, sizes, strict=True)}
    if seed % 3 == 0:
        dimensions["a"] = tree("a", {"_T": ["u", "v"], "u": ["a0", "a1"], "v": ["a2", "a3"]})
        sizes[0] = 4
    shape = tuple(sizes)
    people = rng.poisson(rng.gamma(0.5, float(rng.choice([2, 6, 15])), shape))
    people[rng.random(shape) < rng.choice([0.0, 0.3, 0.6])] = 0
    if seed % 4 == 1:  # kinds that cannot be: one pair of codes of each two variables
        people[0, 0], people[:, 0, 1], people[0, :, 1] = 0, 0, 0
    around = zip(names, names[1:] + names[0], strict=True)
    tables = {one + other: tuple(sorted((one, other))) for one, other in around}
    return Population(dimensions, people, tables)


class JointAttacker:
    """Somebody who knows the published cells, and that hidden ones are no less than ``least``."""

    def __init__(self, population: Population, published: dict[str, np.ndarray], least: int = 0):
        kinds = population.people.reshape(-1).astype(float)
        masks = {name: population.masks(name) for name in population.tables}
        shown = sparse.vstack([masks[name][published[name].reshape(-1)] for name in masks])
        hidden = sparse.vstack([masks[name][~published[name].reshape(-1)] for name in masks])
        self.equal, self.equal_to = shown, shown @ kinds
        self.less = -hidden if least and hidden.shape[0] else None
        self.less_than = None if self.less is None else np.full(hidden.shape[0], -float(least))

    def interval(self, mask: np.ndarray) -> tuple[float, float]:
        """The least and the largest number of people of some kinds."""
        ends = []
        for sign in (1, -1):
            found = linprog(
                sign * mask,
                A_eq=self.equal,
                b_eq=self.equal_to,
                A_ub=self.less,
                b_ub=self.less_than,
                bounds=(0, None),
                method="highs",
            )
            assert found.status in (0, 3)
            ends.append(sign * found.fun if found.status == 0 else sign * -np.inf)
        return ends[0], ends[1]


def narrow_cells(population: Population, published: dict[str, np.ndarray], maximum: int, least: int = 0) -> list[str]:
    """The small counts that are published, or whose interval does not reach beyond the threshold or is too narrow."""
    attacker = JointAttacker(population, published, least)
    wrong = []
    for name in population.tables:
        masks = population.masks(name).toarray()
        counts = masks @ population.people.reshape(-1)
        for cell in np.flatnonzero((counts > 0) & (counts <= maximum)).tolist():
            low, high = attacker.interval(masks[cell])
            if high < maximum + 1 - 1e-6 or high - low < maximum - 1e-6:
                wrong.append(f"{name} {cell}: {low:g} to {high:g}, in truth {counts[cell]:g}")
    return wrong


def demonstration() -> tuple[Population, dict[str, np.ndarray]]:
    """36 people in three two-way tables, and a pattern that is safe for who knows sums alone (threshold 3, singletons).

    Table ac says that all of a1 are c1, and nobody of a0; a2 has nobody in b1; bc publishes 20 of (b1, c1). So these 20
    are (a1, b1), and (a1, b0) is 21 - 20 = 1 exactly.
    """
    dimensions = {"a": flat("a", ["a0", "a1", "a2"]), "b": flat("b", ["b0", "b1", "b2"]), "c": flat("c", ["c0", "c1"])}
    people = np.zeros((3, 3, 2), np.int64)
    people[0, :, 0] = [3, 2, 0]
    people[1, :, 1] = [1, 20, 0]
    people[2, 0], people[2, 2, 0] = [2, 6], 2
    pattern = {
        "ab": [[1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 1, 0]],
        "ac": [[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1]],
        "bc": [[1, 1, 1], [1, 1, 1], [0, 0, 1], [0, 0, 1]],
    }
    population = Population(dimensions, people, {"ab": ("a", "b"), "ac": ("a", "c"), "bc": ("b", "c")})
    return population, {name: np.array(flags, np.bool_) for name, flags in pattern.items()}
