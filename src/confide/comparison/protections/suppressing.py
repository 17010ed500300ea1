"""The tables of one area as linked tables, and the pattern that protects them.

Every group of every variable that the programme uses is a node of a tree: a variable's groups are sets of codes, one
below another where it is part of it. A table has the nodes above its own groups too, unlisted: what follows from two
tables together is found through these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from confide.comparison.figures import Flags, Integers
from confide.comparison.programme import Programme, Table, programme
from confide.schema import Recode
from confide.suppression.rules import threshold
from confide.suppression.structure import Dimension, Layout, Linked, link
from confide.suppression.suppress import pose, solve

TOTAL = "_T"
_Node = frozenset[Any]


@dataclass(frozen=True, eq=False)
class Frame:
    """The structure of the tables of an area."""

    linked: Linked
    numbers: tuple[Integers, ...] = field(repr=False)
    """For each table, and each of its cells, the number of the distinct cell."""
    sums: Any = field(repr=False)
    """A sparse matrix from the cells of all tables, one after the other, to the distinct cells."""

    def hidden(self, counts: Sequence[Integers], maximum: int) -> list[Flags]:
        """For each table of one area which cells must be left out."""
        value = np.rint(self.sums @ np.concatenate(counts)).astype(np.int64)
        levels = threshold(value, maximum)
        if not (levels.primary & self.linked.listed).any():
            return [np.zeros(len(each), np.bool_) for each in counts]
        single = np.zeros(len(value), np.bool_)
        problem = pose(self.linked, value, levels, zeros="secondary", weight="log", single=single)
        pattern = solve(problem, self.linked, method="heuristic").pattern
        return [pattern.hidden[numbers] for numbers in self.numbers]


@cache
def frame() -> Frame:
    """The structure of the programme; the same for every area."""
    made = programme()
    trees = {attribute.name: _nodes(made, attribute.name) for attribute in made.schema.attributes}
    layouts, groups = [], []
    for table in made.tables:
        layout, positions = _layout(table, trees)
        layouts.append(layout)
        groups.append(positions)
    linked = link(layouts)
    numbers = tuple(
        of.reshape(layout.shape)[np.ix_(*positions)].reshape(-1)
        for of, layout, positions in zip(linked.numbers, layouts, groups, strict=True)
    )
    return Frame(linked, numbers, _sums(made, linked, layouts))


def _nodes(made: Programme, attribute: str) -> list[_Node]:
    """All groups of an attribute that any table has, as sets of codes; those that others are part of first."""
    found: dict[_Node, None] = {}
    for table in made.tables:
        for variable in table.query.variables:
            if variable.attribute.name == attribute:
                found |= dict.fromkeys(frozenset(group.codes) for group in variable.groups)
    return sorted(found, key=lambda node: (-len(node), min(node)))


def _layout(table: Table, trees: dict[str, list[_Node]]) -> tuple[Layout, list[list[int]]]:
    """A table with the nodes above its groups, and for each variable the place of each group among the nodes."""
    dimensions, listed, positions = [], [], []
    for variable in table.query.variables:
        groups = [frozenset(group.codes) for group in variable.groups]
        nodes = [node for node in trees[variable.attribute.name] if any(group <= node for group in groups)]
        dimensions.append(_dimension(variable, nodes))
        place = [1 + nodes.index(group) for group in groups]
        listed.append(np.isin(np.arange(len(nodes) + 1), place))
        positions.append(place)
    if not dimensions:
        dimensions = [Dimension("sex", (TOTAL,), (-1,))]
        listed, positions = [np.ones(1, np.bool_)], [[0]]
    return Layout(table.name, tuple(dimensions), tuple(listed)), positions


def _dimension(variable: Recode, nodes: list[_Node]) -> Dimension:
    parents = [-1]
    for at, node in enumerate(nodes):
        above = [place for place in range(at) if node < nodes[place]]
        parents.append(1 + above[-1] if above else 0)
    names = [f"{min(node)}+{len(node)}" for node in nodes]
    return Dimension(variable.attribute.name, (TOTAL, *names), tuple(parents))


def _sums(made: Programme, linked: Linked, layouts: Sequence[Layout]) -> Any:
    """Distinct cells as sums of the cells of the first table that has them."""
    blocks, taken = [], np.zeros(linked.structure.cells, np.bool_)
    for table, layout, numbers in zip(made.tables, layouts, linked.numbers, strict=True):
        whole: Any = sparse.csr_array(np.ones((1, 1)))
        for variable, dimension in zip(table.query.variables, layout.dimensions, strict=False):
            whole = sparse.kron(whole, _members(variable, dimension), format="csr")
        new = ~taken[numbers]
        taken[numbers] = True
        rows = np.flatnonzero(new)
        place = sparse.csr_array(
            (np.ones(len(rows)), (numbers[rows], rows)), shape=(linked.structure.cells, len(numbers))
        )
        blocks.append(place @ whole)
    return sparse.hstack(blocks, format="csr")


def _members(variable: Recode, dimension: Dimension) -> Any:
    """For each node of a dimension the groups of a variable that are in it."""
    groups = {f"{min(group.codes)}+{len(group.codes)}": at for at, group in enumerate(variable.groups)}
    matrix = np.zeros((dimension.size, variable.size))
    for at in range(dimension.size - 1, -1, -1):
        if dimension.codes[at] in groups:
            matrix[at, groups[dimension.codes[at]]] = 1.0
        for part in dimension.children[at]:
            matrix[at] += matrix[part]
    return sparse.csr_array(matrix)
