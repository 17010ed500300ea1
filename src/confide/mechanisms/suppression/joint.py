"""Linked tables count the same people: all of them are margins of one joint table without negative counts.

The equations of a structure say that tables agree about what they share. That they are margins of one table x >= 0 of
people says more as soon as tables meet in a circle, such as age by sex, sex by job and job by age: then not every set
of margins that agree is that of a table (Vorob'ev, "Consistent families of measures and their extensions", 1962). So
the cells of the joint table go into the structure, unlisted, with an equation for every cell of a table at its finest:

    sum of x over all kinds of people in the cell  -  y(cell) = 0,    x >= 0.

Which tables need one: :mod:`confide.mechanisms.suppression.divisions`. Two tables, or a chain of them, need none.
Proved in ``docs/proofs/suppression.md``, section 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from confide.arrays import Integers
from confide.errors import ParameterError
from confide.mechanisms.suppression import divisions
from confide.mechanisms.suppression.structure import (
    JOINT,
    Dimension,
    LinkedTables,
    Structure,
    TableDimensions,
    is_whole,
    link,
    minimise,
)
from confide.messages import Messages, messages

MOST_JOINT_CELLS = 250_000
"""All joint tables together have at most so many cells; ..."""

MOST_TOGETHER = 20_000
"""... and of those that hang together, such as those of one smallest area, at most so many."""

NODES = 1_000
"""Branches of the search for whole people behind tables whose records are not at hand."""


@dataclass(frozen=True, eq=False)
class JointTable:
    """All kinds of people that some tables tell apart together: a cell for every combination of finest codes."""

    tables: tuple[str, ...]
    dimensions: tuple[Dimension, ...]
    """Each variable as far down as these tables divide it together."""
    first: int
    """The number of its first cell in the structure; the others follow, in C order."""

    @cached_property
    def leaves(self) -> tuple[Integers, ...]:
        """For each variable its codes without parts."""
        return tuple(
            np.array([at for at, parts in enumerate(dimension.children) if not parts], np.int64)
            for dimension in self.dimensions
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(codes) for codes in self.leaves)

    @property
    def cells(self) -> int:
        return prod(self.shape)

    def places(self, dimension: Dimension, finest: Integers) -> Integers:
        """Where codes of a finer tree of the same variable stand among the leaves of this table's."""
        own = next(each for each in self.dimensions if each.name == dimension.name)
        number = {own.codes[leaf]: at for at, leaf in enumerate(self.leaves[self.dimensions.index(own)])}
        of_code = np.full(dimension.size, -1, np.int64)
        for at, code in enumerate(dimension.codes):
            of_code[at] = number.get(code, of_code[dimension.parent[at]] if at else -1)
        places: Integers = of_code[finest]
        return places


def with_joint(linked: LinkedTables, *, most: int = MOST_JOINT_CELLS, together: int = MOST_TOGETHER) -> LinkedTables:
    """Linked tables with the joint tables that say more than their equations, as far as these are not too large.

    Args:
        linked: Tables put together.
        most: How many cells all joint tables may have.
        together: How many of them may hang together.

    Returns:
        The same tables with more cells, unlisted, and more equations; ``beyond`` names tables whose whole joint table
        would be too large, and is left out or considered in parts.

    >>> from confide.mechanisms.suppression.structure import flat
    >>> a, b, c = (flat(name, ["1", "2"]) for name in "abc")
    >>> linked = linked_people([TableDimensions(x.name + y.name, (x, y)) for x, y in ((a, b), (b, c), (a, c))])
    >>> [table.tables for table in linked.joint], linked.joint[0].cells
    ([('ab', 'bc', 'ac')], 8)
    """
    groups, beyond = divisions.joint_groups(linked.tables, most, together)
    if not groups:
        return replace(linked, beyond=beyond)
    structure, joint = linked.structure, []
    trees = divisions.whole_trees(linked.tables)
    rows: list[Integers] = []
    columns: list[Integers] = []
    totals: list[Integers] = []
    size, number = structure.cells, 0
    for group in groups:
        names = tuple(linked.tables[at].name for at in sorted({margin.table for margin in group}))
        dimensions = divisions.divided_dimensions(trees, frozenset().union(*(margin.divisions for margin in group)))
        table = JointTable(names, dimensions, size)
        for margin in group:
            # For each cell of the joint table the cell of this margin that it is a part of.
            above = _above(linked, table, margin)
            cells, row = np.unique(above, return_inverse=True)
            rows.append(number + row.astype(np.int64))
            columns.append(size + np.arange(table.cells, dtype=np.int64))
            totals.append(cells)
            number += len(cells)
        joint.append(table)
        size += table.cells
    total = np.concatenate(totals)
    at = np.concatenate([np.arange(number), *rows])
    entries = np.concatenate([-np.ones(number), np.ones(len(at) - number)])
    more = sparse.csr_array((entries, (at, np.concatenate([total, *columns]))), shape=(number, size))
    wider = sparse.csr_array((structure.matrix.data, structure.matrix.indices, structure.matrix.indptr))
    wider.resize((structure.rows, size))
    matrix = sparse.csr_array(sparse.vstack([wider, more]))
    axis = np.concatenate([structure.axis, np.full(number, JOINT, np.int64)])
    listed = np.concatenate([linked.listed, np.zeros(size - structure.cells, np.bool_)])
    extended = Structure(matrix, np.concatenate([structure.total, total]), axis)
    return replace(linked, structure=extended, listed=listed, joint=tuple(joint), beyond=beyond)


def linked_people(tables: Sequence[TableDimensions]) -> LinkedTables:
    """Tables of the same people put together: :func:`link`, with the joint tables."""
    return with_joint(link(tables))


def joint_facts(linked: LinkedTables) -> dict[str, Any] | None:
    """What of the tables is considered as counting the same people, and what is not; None where sums say it all."""
    if not linked.joint and not linked.beyond:
        return None
    return {
        "considered": [
            {
                "tables": list(table.tables),
                "variables": {d.name: size for d, size in zip(table.dimensions, table.shape, strict=True)},
                "cells": table.cells,
            }
            for table in linked.joint
        ],
        "too_large": [list(names) for names in linked.beyond],
    }


def joint_in_words(facts: Mapping[str, Any] | None, text: Messages | None = None) -> list[str]:
    """The same in sentences."""
    m = text or messages()
    sentences = [
        m.text(
            "suppression.joint",
            tables=", ".join(part["tables"]),
            variables=", ".join(part["variables"]),
            cells=part["cells"],
        )
        for part in (facts or {}).get("considered", ())
    ]
    return sentences + [
        m.text("suppression.joint_too_large", tables=", ".join(names)) for names in (facts or {}).get("too_large", ())
    ]


def people_behind(linked: LinkedTables, value: Integers) -> Integers | None:
    """Figures for the joint tables where the records are not at hand: some that the tables' figures are margins of.

    Which of them does not matter: what an attacker cannot rule out is the same from wherever one begins. None if none
    in whole numbers were found.

    Raises:
        ParameterError: The tables are not those of the same people: no joint table has them as margins.
    """
    structure = linked.structure
    own = structure.axis == JOINT
    first = linked.joint[0].first
    matrix = sparse.csr_array(structure.matrix[own])[:, first:]
    rhs = value[structure.total[own]]
    people = np.zeros(structure.cells - first, np.int64)
    # Where a cell is zero, so are all kinds of people in it; what is left falls into parts, such as areas.
    zero = np.asarray(sparse.csr_array(matrix.T) @ (rhs == 0).astype(np.float64)) > 0
    graph = sparse.csr_array(matrix[:, ~zero])
    at = np.flatnonzero(~zero)
    both = sparse.block_array([[None, graph], [graph.T, None]])
    _, labels = csgraph.connected_components(sparse.csr_array(both), directed=False)
    of_row, of_cell = labels[: graph.shape[0]], labels[graph.shape[0] :]
    by_cell = np.argsort(of_cell, kind="stable")
    for label in np.unique(of_row).tolist():
        rows = np.flatnonzero(of_row == label)
        cells = by_cell[slice(*np.searchsorted(of_cell[by_cell], (label, label + 1)))]
        part, side = sparse.csr_array(graph[rows][:, cells]), rhs[rows].astype(np.float64)
        cost, low, high = np.zeros(len(cells)), np.zeros(len(cells)), np.full(len(cells), np.inf)
        solved = minimise(cost, part, side, low, high)
        if solved is None:
            raise ParameterError("tables-disagree/people")
        if not is_whole(solved.values):
            solved = minimise(cost, part, side, low, high, integer=True, nodes=NODES)
        if solved is None or not is_whole(solved.values):
            return None
        people[at[cells]] = np.rint(solved.values).astype(np.int64)
    return people


def longest_variable(linked: LinkedTables) -> tuple[int, Integers] | None:
    """The variable with most codes, as areas have, numbered as equations do, and for each cell its code; 0 where a cell
    is a total over it. None where there is none, or tables divide it differently."""
    trees = divisions.whole_trees(linked.tables)
    names = list(dict.fromkeys(d.name for table in linked.tables for d in table.dimensions))
    name = max(names, key=lambda each: 0 if trees[each] is None else divisions.tree_of(trees, each).size, default=None)
    if name is None or trees[name] is None:
        return None
    number = {code: at for at, code in enumerate(divisions.tree_of(trees, name).codes) if at}
    of_cell = np.zeros(linked.structure.cells, np.int64)
    for table, own in zip(linked.tables, linked.numbers, strict=True):
        for axis, dimension in enumerate(table.dimensions):
            if dimension.name == name:
                of_code = np.array([0, *(number[code] for code in dimension.codes[1:])], np.int64)
                of_cell[own] = of_code[table.places[:, axis]]
    for joint in linked.joint:
        for axis, dimension in enumerate(joint.dimensions):
            if dimension.name == name:
                of_code = np.array([number.get(code, 0) for code in dimension.codes], np.int64)[joint.leaves[axis]]
                shape = [1] * len(joint.shape)
                shape[axis] = -1
                cells = slice(joint.first, joint.first + joint.cells)
                of_cell[cells] = np.broadcast_to(of_code.reshape(shape), joint.shape).reshape(-1)
    return names.index(name), of_cell


def _above(linked: LinkedTables, table: JointTable, margin: divisions.TableMargin) -> Integers:
    """For each cell of a joint table the number of the cell of a margin that it is a part of."""
    layout, numbers = linked.tables[margin.table], linked.numbers[margin.table]
    place = np.zeros(table.shape, np.int64)
    stride = layout.cells
    for dimension in layout.dimensions:
        stride //= dimension.size
        axis = next((at for at, own in enumerate(table.dimensions) if own.name == dimension.name), None)
        if axis is None:
            continue
        own = table.dimensions[axis]
        known = {code: at for at, code in enumerate(dimension.codes)}
        of_code = np.zeros(own.size, np.int64)
        for at in range(1, own.size):
            above = own.parent[at]
            divided = (own.name, divisions.named(own, above)) in margin.divisions
            of_code[at] = known[own.codes[at]] if divided else of_code[above]
        shape = [1] * len(table.shape)
        shape[axis] = -1
        place = place + (of_code[table.leaves[axis]] * stride).reshape(shape)
    cells: Integers = numbers[place.reshape(-1)]
    return cells
