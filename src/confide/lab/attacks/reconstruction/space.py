"""The cells of the histogram that tables can tell apart.

Levels of an attribute that no table tells apart form one *class*: the coarsest common refinement of the variables in
use. With the block tables of Summary File 1, the 116 ages become the 38 age bins of the Census Bureau's experiment by
themselves. A :class:`Space` is the product of the classes of all attributes in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import ParameterError
from confide.lab.published.marginals import ImpossibleCells, PublishedMarginal
from confide.schema import NO_GROUP, Attribute, Code, Query, Recode

MOST_CELLS = 1 << 21
"""How many cells a histogram may have before nothing is dropped."""


@dataclass(frozen=True)
class Axis:
    """The classes of one attribute: for each level its class, for each class its levels and a label."""

    attribute: Attribute
    class_of: Integers = field(repr=False)
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of classes."""
        return len(self.labels)

    @cached_property
    def codes(self) -> tuple[tuple[Code, ...], ...]:
        """For each class the codes of its levels."""
        members: list[list[Code]] = [[] for _ in self.labels]
        for level, place in zip(self.attribute.levels, self.class_of, strict=True):
            members[int(place)].append(level.code)
        return tuple(tuple(codes) for codes in members)

    def groups(self, recode: Recode) -> Integers:
        """For each class its group in a recode that these classes refine."""
        result = np.full(self.size, NO_GROUP, np.int64)
        result[self.class_of] = recode.assignment
        return result

    def to(self, coarser: Axis) -> Integers:
        """For each class the class of a coarser axis that it lies in."""
        result = np.zeros(self.size, np.int64)
        result[self.class_of] = coarser.class_of
        return result


def refine(attribute: Attribute, recodes: Sequence[Recode]) -> Axis:
    """The coarsest classes of an attribute's levels that are finer than all recodes."""
    if not recodes:
        return Axis(attribute, np.zeros(attribute.size, np.int64), ("all",))
    # Levels with the same group in every recode are one class; classes are numbered in the order of their first level.
    keys = np.array([recode.assignment for recode in recodes])
    _, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    class_of = rank[inverse.reshape(-1)]
    # A class that is a group of some recode takes its label.
    named = {frozenset(group.codes): group.label for recode in reversed(recodes) for group in recode.groups}
    members: list[list[Code]] = [[] for _ in first]
    for level, place in zip(attribute.levels, class_of, strict=True):
        members[int(place)].append(level.code)
    labels = tuple(named.get(frozenset(codes)) or _label(attribute, codes) for codes in members)
    return Axis(attribute, class_of, labels)


def _label(attribute: Attribute, codes: list[Code]) -> str:
    if len(codes) == 1:
        return attribute.levels[attribute.index[codes[0]]].label
    if attribute.is_integer and int(codes[-1]) - int(codes[0]) == len(codes) - 1:
        return f"{codes[0]} to {codes[-1]}"
    return f"{codes[0]} and {len(codes) - 1} more"


@dataclass(frozen=True)
class Space:
    """A product of classes, cells in C order."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of classes of each attribute."""
        return tuple(axis.size for axis in self.axes)

    @property
    def cells(self) -> int:
        """The number of cells."""
        return prod(self.shape)

    def place(self, groups: Sequence[Integers | None], sizes: Sequence[int]) -> Integers:
        """For each cell its cell in a product of groups of the axes; ``None`` for an axis that is summed over."""
        outside = np.zeros(self.shape, bool)
        total = np.zeros(self.shape, np.int64)
        for number, (axis_groups, size) in enumerate(zip(groups, sizes, strict=True)):
            if axis_groups is None:
                continue
            form = [1] * len(self.axes)
            form[number] = -1
            shaped = axis_groups.reshape(form)
            outside |= shaped == NO_GROUP
            total = total * size + shaped
        total[outside] = NO_GROUP
        return total.reshape(-1)

    def forbidden(self, zeros: Iterable[ImpossibleCells]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which cells hold nothing but combinations that cannot be."""
        result = np.zeros(self.cells, bool)
        for zero in zeros:
            if not zero.where.keys() <= {axis.attribute.name for axis in self.axes}:
                continue
            groups = [
                np.array([0 if set(codes) <= zero.where[axis.attribute.name] else NO_GROUP for codes in axis.codes])
                if axis.attribute.name in zero.where
                else None
                for axis in self.axes
            ]
            result |= self.place(groups, [1] * len(groups)) != NO_GROUP
        return result

    def to(self, coarser: Space) -> Integers:
        """For each cell the cell of a coarser space that it lies in."""
        groups = [axis.to(other) for axis, other in zip(self.axes, coarser.axes, strict=True)]
        return self.place(groups, coarser.shape)


def space_of(attributes: Sequence[Attribute], marginals: Iterable[PublishedMarginal], used: Sequence[str]) -> Space:
    """The cells that some marginals tell apart, over the attributes that are in use.

    Args:
        attributes: The attributes of the schema.
        marginals: Those whose variables decide which levels are told apart.
        used: The names of the attributes in use, in the order of the axes.
    """
    recodes: dict[str, list[Recode]] = {name: [] for name in used}
    for marginal in marginals:
        for variable in marginal.query.variables:
            if variable not in recodes[variable.attribute.name]:
                recodes[variable.attribute.name].append(variable)
    by_name = {attribute.name: attribute for attribute in attributes}
    space = Space(tuple(refine(by_name[name], variables) for name, variables in recodes.items()))
    if space.cells > MOST_CELLS:
        raise ParameterError(
            "histogram-too-large",
            cells=space.cells,
            axes=" by ".join(f"{a.attribute.name} ({a.size})" for a in space.axes),
            most_cells=MOST_CELLS,
        )
    return space


@dataclass(frozen=True, eq=False)
class Layer:
    """A marginal over a space: for each cell the row that counts it, or none.

    Where a variable of the marginal cuts through classes of the space, groups are joined until they are unions of
    classes; ``fold`` takes the query's cells to the joined ones, ``NO_GROUP`` if a joined group reaches beyond what the
    query counts.
    """

    marginal: PublishedMarginal
    assignment: Integers = field(repr=False)
    size: int
    fold: Integers | None = field(repr=False)

    def counts(self, unit: int) -> Floats:
        """The counts of the rows in a unit, NaN where unknown."""
        values = self.marginal.counts(unit)
        if self.fold is None:
            return values
        inside = self.fold != NO_GROUP
        sums: Floats = np.bincount(self.fold[inside], values[inside], self.size).astype(np.float64)
        return sums


def layer(space: Space, marginal: PublishedMarginal) -> Layer:
    """A marginal laid over a space."""
    query = marginal.query
    by_name = {variable.attribute.name: variable for variable in query.variables}
    groups: list[Integers | None] = []
    sizes: list[int] = []
    joins: dict[str, Integers] = {}
    for axis in space.axes:
        variable = by_name.get(axis.attribute.name)
        if variable is None:
            groups.append(None)
            sizes.append(1)
            continue
        joined, of_class, size = _join(axis, variable)
        joins[axis.attribute.name] = joined
        groups.append(of_class)
        sizes.append(size)
    assignment = space.place(groups, sizes)
    order = [axis.attribute.name for axis in space.axes if axis.attribute.name in by_name]
    identical = [variable.attribute.name for variable in query.variables] == order and all(
        np.array_equal(joined, np.arange(len(joined))) for joined in joins.values()
    )
    size = prod(sizes)
    return Layer(marginal, assignment, size, None if identical else _fold(query, order, joins, space, sizes))


def _fold(query: Query, order: list[str], joins: dict[str, Integers], space: Space, sizes: list[int]) -> Integers:
    """For each cell of the query, as it is stored, its row."""
    place = [variable.attribute.name for variable in query.variables]
    indices = np.indices(query.shape).reshape(len(query.shape), -1)
    total = np.zeros(query.cells, np.int64)
    outside = np.zeros(query.cells, bool)
    size_of = {axis.attribute.name: size for axis, size in zip(space.axes, sizes, strict=True)}
    for name in order:
        joined = joins[name][indices[place.index(name)]]
        outside |= joined == NO_GROUP
        total = total * size_of[name] + joined
    total[outside] = NO_GROUP
    return total


def _join(axis: Axis, recode: Recode) -> tuple[Integers, Integers, int]:
    """Groups joined until each is a union of classes: for each group and for each class the joined group, and their
    number. What overlaps a class that is partly outside all groups is in none."""
    # A forest of groups (union-find), in which two are joined that share a class.
    parent = list(range(recode.size + 1))  # the last stands for "in no group"

    def root(node: int) -> int:
        while parent[node] != node:
            node = parent[node]
        return node

    first: dict[int, int] = {}
    outside = recode.size
    of_level = np.where(recode.assignment == NO_GROUP, outside, recode.assignment)
    for place, group in zip(axis.class_of.tolist(), of_level.tolist(), strict=True):
        if place not in first:
            first[place] = group
        else:
            one, two = root(first[place]), root(group)
            parent[min(one, two)] = max(one, two)
    # Trees get numbers in the order of their first group; whatever hangs with "in no group" gets none.
    number_of_root: dict[int, int] = {}
    joined = np.full(recode.size, NO_GROUP, np.int64)
    for group in range(recode.size):
        if root(group) != root(outside):
            joined[group] = number_of_root.setdefault(root(group), len(number_of_root))
    extended = np.append(joined, NO_GROUP)
    of_class = np.array([extended[first[place]] for place in range(axis.size)], np.int64)
    return joined, of_class, max(len(number_of_root), 1)
