"""Linked tables count the same people: all of them are margins of one joint table without negative counts.

The equations of a structure say that tables agree about what they share. That they are margins of one table x >= 0 of
people says more as soon as tables meet in a circle, such as age by sex, sex by job and job by age: then not every set
of margins that agree is that of a table (Vorob'ev, "Consistent families of measures and their extensions", 1962). So
the cells of the joint table go into the structure, unlisted, with an equation for every cell of a table at its finest:

    sum of x over all kinds of people in the cell  -  y(cell) = 0,    x >= 0.

Which tables need one is decided first. Two tables, or a chain of them, need none. Proved in
``docs/proofs/suppression.md``, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from confide.arrays import Integers
from confide.errors import ParameterError
from confide.mechanisms.suppression import structure as suppression_structure
from confide.mechanisms.suppression.structure import TableDimensions
from confide.messages import Messages, messages

# Which linked tables need a joint table: their divisions as the vertices of a hypergraph, tables as its edges.
#
# A table divides some codes of its variables into their parts. What only one table divides, and a table whose divisions
# another one has too, add nothing to what follows from sums; where no more can be left out so, tables meet in a circle.
# What is left falls into groups that no table separates. Proved in ``docs/proofs/suppression.md``, section 2.
# Reference: Graham, "On the universal relation", University of Toronto (1979); Yu and Ozsoyoglu, "An algorithm for
# tree-query membership of a distributed query", COMPSAC (1979).


Division = tuple[str, str]
"""A variable and a code of it that is divided into its parts."""

TOTAL = "\0"
"""The total among divisions, which tables may call by different names."""


@dataclass(frozen=True)
class TableMargin:
    """A margin of a table: the divisions of it that matter."""

    table: int
    divisions: frozenset[Division]


def joint_groups(
    tables: Sequence[TableDimensions], most: int, together: int
) -> tuple[list[list[TableMargin]], tuple[tuple[str, ...], ...]]:
    """Margins that need a joint table, group by group, and the names of tables for which the whole is too large."""
    trees = whole_trees(tables)
    crossing = {name for name, tree in trees.items() if tree is None}
    beyond: list[tuple[str, ...]] = []
    every = [
        TableMargin(at, frozenset(division for d in table.dimensions for division in _divisions(d)))
        for at, table in enumerate(tables)
    ]
    usable = [m for m in every if not any(d.name in crossing for d in tables[m.table].dimensions)]
    if len(usable) < len(every) and _primes(every):
        beyond.append(tuple(table.name for table in tables))
    taken: list[list[TableMargin]] = []
    used = 0
    for group in sorted(_primes(usable), key=lambda group: _size(trees, group)[0]):
        parts = [group]
        if not _fits(trees, group, most - used, together):
            beyond.append(tuple(tables[at].name for at in sorted({margin.table for margin in group})))
            parts = list(_smaller(trees, group, most - used, together))
        for part in parts:
            known = any(set(part) <= set(other) for other in taken)
            if not known and _fits(trees, part, most - used, together):
                taken.append(part)
                used += _size(trees, part)[0]
    return taken, tuple(beyond)


def _divisions(dimension: suppression_structure.Dimension) -> Iterator[Division]:
    """What a dimension divides; what further hierarchies of it divide, by their names."""
    first = set(dimension.inner)
    for way, code, parts in dimension.divisions:
        plain = code in first and parts == dimension.children[code]
        yield dimension.name, named(dimension, code) if plain else f"{way}{TOTAL}{named(dimension, code)}"


def _smaller(
    trees: dict[str, suppression_structure.Dimension | None], group: list[TableMargin], most: int, together: int
) -> Iterator[list[TableMargin]]:
    """Joint tables that say less than that of a whole group, and are true all the same: those of three of its tables,
    and those of all with variables that are less divided."""
    triples = [part for three in combinations(group, 3) for part in _primes(three)] if len(group) > 3 else []
    for part in sorted(triples, key=lambda part: _size(trees, part)[0]):
        if _fits(trees, part, most, together):
            yield part
    coarse = list(group)
    while coarse and not _fits(trees, coarse, most, together):
        coarse = _coarser(trees, coarse)
    for part in _primes(coarse):
        if _fits(trees, part, most, together):
            yield part


def _coarser(trees: dict[str, suppression_structure.Dimension | None], group: list[TableMargin]) -> list[TableMargin]:
    """The margins with the finest divisions of one variable left out: of the one with most codes that has levels."""
    divisions = frozenset().union(*(margin.divisions for margin in group))
    depths = {each: _depth(tree_of(trees, each[0]), each[1]) for each in divisions}
    deepest = {name: max(depth for (of, _), depth in depths.items() if of == name) for name, _ in divisions}
    counts = {dimension.name: dimension.size for dimension in divided_dimensions(trees, divisions)}
    levelled = [name for name, depth in deepest.items() if depth > 0]
    if not levelled:
        return []
    chosen = max(levelled, key=lambda name: (counts[name], name))
    gone = {each for each, depth in depths.items() if each[0] == chosen and depth == deepest[chosen]}
    return [TableMargin(margin.table, margin.divisions - gone) for margin in group]


def _primes(margins: Iterable[TableMargin]) -> list[list[TableMargin]]:
    """The groups of margins that no margin of theirs takes apart; none where tables do not meet in a circle."""
    reduced = _reduced(list(margins))
    if len(reduced) < 3:
        return []
    for separator in [frozenset[Division](), *(margin.divisions for margin in reduced)]:
        parts = _components(reduced, separator)
        if len(parts) > 1:
            own = next((margin for margin in reduced if margin.divisions == separator), None)
            groups = []
            for part in parts:
                shared = frozenset().union(*(margin.divisions for margin in part)) & separator
                with_own = part if own is None else [*part, TableMargin(own.table, shared)]
                groups += _primes(with_own)
            return groups
    return [reduced]


def _reduced(margins: list[TableMargin]) -> list[TableMargin]:
    """Without what only one margin divides, and without margins that another one has, again and again."""
    while True:
        number: dict[Division, int] = {}
        for margin in margins:
            for division in margin.divisions:
                number[division] = number.get(division, 0) + 1
        shared = frozenset(division for division, times in number.items() if times > 1)
        cut = [TableMargin(margin.table, margin.divisions & shared) for margin in margins]
        kept: list[TableMargin] = []
        for margin in sorted(cut, key=lambda margin: -len(margin.divisions)):
            if not any(margin.divisions <= other.divisions for other in kept):
                kept.append(margin)
        kept.sort(key=lambda margin: margin.table)
        if [margin.divisions for margin in kept] == [margin.divisions for margin in margins]:
            return kept
        margins = kept


def _components(margins: list[TableMargin], separator: frozenset[Division]) -> list[list[TableMargin]]:
    """The margins that reach each part of what is left without the separator."""
    parts: list[tuple[set[Division], list[TableMargin]]] = []
    for margin in margins:
        outside = set(margin.divisions - separator)
        if not outside:
            continue
        touching = [part for part in parts if part[0] & outside]
        for part in touching:
            outside |= part[0]
        joined = [each for part in touching for each in part[1]] + [margin]
        parts = [part for part in parts if not part[0] & outside] + [(outside, joined)]
    return [sorted(joined, key=lambda margin: margin.table) for _, joined in parts]


def _fits(
    trees: dict[str, suppression_structure.Dimension | None], group: list[TableMargin], most: int, together: int
) -> bool:
    cells, hanging = _size(trees, group)
    return cells <= most and hanging <= together


def _size(trees: dict[str, suppression_structure.Dimension | None], group: list[TableMargin]) -> tuple[int, int]:
    """The cells of a group's joint table, and how many of them hang together: those that agree in all variables that
    every margin of the group divides alike."""
    divisions = frozenset().union(*(margin.divisions for margin in group))
    cells = hanging = 1
    for dimension in divided_dimensions(trees, divisions):
        leaves = sum(not parts for parts in dimension.children)
        cells *= leaves
        of_variable = frozenset(each for each in divisions if each[0] == dimension.name)
        if not all(of_variable <= margin.divisions for margin in group):
            hanging *= leaves
    return cells, hanging


# Trees of variables over all tables, as far as some divisions go.


def whole_trees(tables: Sequence[TableDimensions]) -> dict[str, suppression_structure.Dimension | None]:
    """For each variable the tree of all tables together; None where tables divide a code into different parts."""
    parts: dict[str, dict[str, tuple[str, ...]]] = {}
    crossing: set[str] = set()
    for table in tables:
        for dimension in table.dimensions:
            known = parts.setdefault(dimension.name, {})
            if dimension.others:
                crossing.add(dimension.name)
            for at in dimension.inner:
                own = tuple(dimension.codes[part] for part in dimension.children[at])
                if sorted(known.setdefault(named(dimension, at), own)) != sorted(own):
                    crossing.add(dimension.name)
    totals = {d.name: d.codes[0] for table in reversed(tables) for d in table.dimensions}
    return {
        name: None if name in crossing else _from_parts(name, totals[name], divided) for name, divided in parts.items()
    }


def _from_parts(name: str, total: str, parts: dict[str, tuple[str, ...]]) -> suppression_structure.Dimension:
    codes, parent, at = [total], [-1], 0
    while at < len(codes):
        for code in parts.get(codes[at] if at else TOTAL, ()):
            codes.append(code)
            parent.append(at)
        at += 1
    return suppression_structure.Dimension(name, tuple(codes), tuple(parent))


def tree_of(trees: dict[str, suppression_structure.Dimension | None], name: str) -> suppression_structure.Dimension:
    tree = trees[name]
    assert tree is not None
    return tree


def divided_dimensions(
    trees: dict[str, suppression_structure.Dimension | None], divisions: frozenset[Division]
) -> tuple[suppression_structure.Dimension, ...]:
    """The trees of the variables that are divided, as far as they are."""
    dimensions = []
    for name in trees:
        divided = {code for of, code in divisions if of == name}
        if not divided:
            continue
        tree = tree_of(trees, name)
        parts = {
            named(tree, at): tuple(tree.codes[part] for part in tree.children[at])
            for at in tree.inner
            if named(tree, at) in divided
        }
        dimensions.append(_from_parts(name, tree.codes[0], parts))
    return tuple(dimensions)


def named(dimension: suppression_structure.Dimension, code: int) -> str:
    return dimension.codes[code] if code else TOTAL


def _depth(tree: suppression_structure.Dimension, code: str) -> int:
    at, depth = 0 if code == TOTAL else tree.codes.index(code), 0
    while at:
        at, depth = tree.parent[at], depth + 1
    return depth


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
    dimensions: tuple[suppression_structure.Dimension, ...]
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

    def places(self, dimension: suppression_structure.Dimension, finest: Integers) -> Integers:
        """Where codes of a finer tree of the same variable stand among the leaves of this table's."""
        own = next(each for each in self.dimensions if each.name == dimension.name)
        number = {own.codes[leaf]: at for at, leaf in enumerate(self.leaves[self.dimensions.index(own)])}
        of_code = np.full(dimension.size, -1, np.int64)
        for at, code in enumerate(dimension.codes):
            of_code[at] = number.get(code, of_code[dimension.parent[at]] if at else -1)
        places: Integers = of_code[finest]
        return places


def with_joint(
    linked: suppression_structure.LinkedTables, *, most: int = MOST_JOINT_CELLS, together: int = MOST_TOGETHER
) -> suppression_structure.LinkedTables:
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
    groups, beyond = joint_groups(linked.tables, most, together)
    if not groups:
        return replace(linked, beyond=beyond)
    structure, joint = linked.structure, []
    trees = whole_trees(linked.tables)
    rows: list[Integers] = []
    columns: list[Integers] = []
    totals: list[Integers] = []
    size, number = structure.cells, 0
    for group in groups:
        names = tuple(linked.tables[at].name for at in sorted({margin.table for margin in group}))
        dimensions = divided_dimensions(trees, frozenset().union(*(margin.divisions for margin in group)))
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
    axis = np.concatenate([structure.axis, np.full(number, suppression_structure.JOINT, np.int64)])
    listed = np.concatenate([linked.listed, np.zeros(size - structure.cells, np.bool_)])
    extended = suppression_structure.Structure(matrix, np.concatenate([structure.total, total]), axis)
    return replace(linked, structure=extended, listed=listed, joint=tuple(joint), beyond=beyond)


def linked_people(tables: Sequence[TableDimensions]) -> suppression_structure.LinkedTables:
    """Tables of the same people put together: :func:`link`, with the joint tables."""
    return with_joint(suppression_structure.link(tables))


def joint_facts(linked: suppression_structure.LinkedTables) -> dict[str, Any] | None:
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


def people_behind(linked: suppression_structure.LinkedTables, value: Integers) -> Integers | None:
    """Figures for the joint tables where the records are not at hand: some that the tables' figures are margins of.

    Which of them does not matter: what an attacker cannot rule out is the same from wherever one begins. None if none
    in whole numbers were found.

    Raises:
        ParameterError: The tables are not those of the same people: no joint table has them as margins.
    """
    structure = linked.structure
    own = structure.axis == suppression_structure.JOINT
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
        solved = suppression_structure.minimise(cost, part, side, low, high)
        if solved is None:
            raise ParameterError("tables-disagree/people")
        if not suppression_structure.is_whole(solved.values):
            solved = suppression_structure.minimise(cost, part, side, low, high, integer=True, nodes=NODES)
        if solved is None or not suppression_structure.is_whole(solved.values):
            return None
        people[at[cells]] = np.rint(solved.values).astype(np.int64)
    return people


def longest_variable(linked: suppression_structure.LinkedTables) -> tuple[int, Integers] | None:
    """The variable with most codes, as areas have, numbered as equations do, and for each cell its code; 0 where a cell
    is a total over it. None where there is none, or tables divide it differently."""
    trees = whole_trees(linked.tables)
    names = list(dict.fromkeys(d.name for table in linked.tables for d in table.dimensions))
    name = max(names, key=lambda each: 0 if trees[each] is None else tree_of(trees, each).size, default=None)
    if name is None or trees[name] is None:
        return None
    number = {code: at for at, code in enumerate(tree_of(trees, name).codes) if at}
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


def _above(linked: suppression_structure.LinkedTables, table: JointTable, margin: TableMargin) -> Integers:
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
            divided = (own.name, named(own, above)) in margin.divisions
            of_code[at] = known[own.codes[at]] if divided else of_code[above]
        shape = [1] * len(table.shape)
        shape[axis] = -1
        place = place + (of_code[table.leaves[axis]] * stride).reshape(shape)
    cells: Integers = numbers[place.reshape(-1)]
    return cells
