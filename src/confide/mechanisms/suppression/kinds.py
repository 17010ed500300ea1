"""Movements of tables carried over to the kinds of people behind them, and moving one kind alone as the last resort.

A kind of person is a finest code of every variable. A movement d of the cells of linked tables is one that an attacker
cannot rule out only if some kinds of people x can move with it: with J the equations of the joint tables,

    sum of dx over the kinds in a cell = d(cell)  for every cell,    x + dx >= 0.

Where tables have areas, areas do not have kinds of people in common, so that this is a small programme for each area
that the movement touches. It is tried first with the kinds in the cells that move alone.

Adding u people of one kind to every cell that contains them is a
movement in whole numbers, whatever the tables: every sum has the kind in its total and in one of its parts, or in
neither. So a cell can always be let rise, unless one of these cells must be published; and fall, by taking people away
who are there. Such a movement goes up to the total of everybody and is dear, so it is taken only where no other one in
whole numbers was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from confide.mechanisms.suppression.divisions import whole_trees
from confide.mechanisms.suppression.flows import FREE, FeasibleFlow, whole_change
from confide.mechanisms.suppression.problem import NOBODY, PatternProblem
from confide.mechanisms.suppression.structure import (
    JOINT,
    ROOT,
    Dimension,
    Flags,
    Floats,
    Integers,
    LinkedTables,
    gather,
)


class Lifting:
    """The joint tables of a problem."""

    def __init__(self, problem: PatternProblem):
        self.problem = problem
        structure = problem.structure
        own = structure.axis == JOINT
        self.any = bool(own.any())
        self._total: Integers = structure.total[own]
        matrix = sparse.csr_array(structure.matrix[own])
        number = np.arange(matrix.shape[0])
        totals = sparse.csr_array((np.ones(len(number)), (number, self._total)), shape=matrix.shape)
        self._kinds = sparse.csr_array(matrix + totals)
        self._kinds.eliminate_zeros()
        self._rows_of_total = sparse.csc_array(totals)
        self._rows_of_kind = sparse.csc_array(self._kinds)

    def lifted(self, flow: FeasibleFlow, known: int = NOBODY) -> FeasibleFlow | None:
        """The movement with that of people who let it happen, whole as well; None if there are none. Nobody moves whom
        the person ``known`` knows of."""
        touched = self._of(self._rows_of_total, flow.cells)
        if not len(touched):
            return flow
        moved = np.zeros(self.problem.structure.cells, np.int64)
        moved[flow.cells] = flow.by
        near = np.unique(self._of(self._kinds, touched))
        far = np.flatnonzero(np.isin(self._part, np.unique(self._part[near])))
        for kinds in (near, far) if len(far) > len(near) else (near,):
            free = kinds[~self.problem.fixed_by(known)[kinds]]
            change = self._change(moved, touched, free, known)
            if change is not None:
                at = np.flatnonzero(change)
                return FeasibleFlow(np.append(flow.cells, free[at]), np.append(flow.by, change[at]))
        return None

    def _change(self, moved: Integers, touched: Integers, kinds: Integers, known: int) -> Integers | None:
        rows = np.union1d(touched, self._of(self._rows_of_kind, kinds))
        rhs = moved[self._total[rows]].astype(np.float64)
        matrix = sparse.csc_array(self._kinds[rows][:, kinds])
        if ((rhs != 0) & (np.diff(sparse.csr_array(matrix).indptr) == 0)).any():
            return None
        room = (self.problem.value - self.problem.low_for(known))[kinds]
        change, _ = whole_change(matrix, rhs, room, np.ones(len(kinds)))
        return change

    def widened(self, region: Integers) -> Integers:
        """A region with the kinds of people in its cells, and all cells that these are in."""
        kinds = np.unique(self._of(self._kinds, self._of(self._rows_of_total, region)))
        totals = self._total[np.unique(self._of(self._rows_of_kind, kinds))]
        return np.unique(np.concatenate([region, kinds, totals]))

    def together(self, cell: int) -> Integers:
        """Everything that hangs together with a cell, people with it."""
        labels = self._whole
        return np.flatnonzero(labels == labels[cell])

    @staticmethod
    def _of(matrix: sparse.csr_array | sparse.csc_array, which: Integers) -> Integers:
        return gather(matrix.indptr, matrix.indices, which)

    @cached_property
    def _part(self) -> Integers:
        """For each cell of a joint table the part of it, such as an area, that it belongs to."""
        size = self.problem.structure.cells
        return _labels(self._kinds, size)

    @cached_property
    def _whole(self) -> Integers:
        return _labels(self.problem.structure.matrix, self.problem.structure.cells)


def _labels(matrix: sparse.csr_array, cells: int) -> Integers:
    """Columns that have a row in common, not even through others, have the same number."""
    graph = sparse.csr_array(sparse.block_array([[None, abs(matrix)], [abs(matrix).T, None]]))
    _, labels = csgraph.connected_components(graph, directed=False)
    of_cells: Integers = labels[-cells:].astype(np.int64)
    return of_cells


# The last resort: one kind of person more, or less, in every cell that such people are in.


STEPS = 20_000
"""Kinds are looked for in at most so many steps."""

_Chosen = dict[str, tuple[str, ...]]
"""For each variable the finest code so far, after those that it is a part of, the total left out."""


class Kinds:
    """The kinds of people that linked tables tell apart."""

    def __init__(self, linked: LinkedTables):
        self._linked = linked
        self._known = all(tree is not None for tree in whole_trees(linked.tables).values())

    def movement(
        self, problem: PatternProblem, cell: int, by: int, suppressed: Flags, *, known: int = NOBODY, new: bool = True
    ) -> FeasibleFlow | None:
        """A cheap one that moves a cell by so much, and nothing that the person ``known`` knows; None if none is found.

        Args:
            problem: Values, bounds and prices of all cells.
            cell: The cell that is to move.
            by: How far: people more, or less.
            suppressed: What is suppressed already.
            known: A person who knows some cells.
            new: Whether further cells may be suppressed.
        """
        if not self._known:
            return None
        forbidden = problem.keep & ~suppressed if new else ~suppressed
        forbidden = forbidden | problem.fixed_by(known)
        least = float(problem.weight.min(initial=1.0))
        price = np.where(suppressed, FREE * least, problem.weight)
        moved = np.zeros(problem.structure.cells, np.int64)
        if by > 0:
            kind = self._kind(cell, forbidden, price)
            if kind is None:
                return None
            moved[kind] = by
        # What is taken away must be there: of one kind as much as it has, then of the next.
        low, wanted = problem.low_for(known), -by
        while wanted > 0:
            kind = self._kind(cell, forbidden | (problem.value + moved <= low), price)
            if kind is None:
                return None
            taken = min(wanted, int((problem.value + moved - low)[kind].min()))
            moved[kind] -= taken
            wanted -= taken
        at = np.flatnonzero(moved)
        return FeasibleFlow(at, moved[at])

    def _kind(self, cell: int, forbidden: Flags, price: Floats) -> Integers | None:
        """The cells of a kind that is in a cell and in none that is forbidden, cheap ones first."""
        given, order = self._beginning(cell)
        # For every cell of a table what it costs with all cells above it, and whether one of these is forbidden.
        tables = [self._linked.tables[at] for at in order]
        numbers = [
            self._linked.numbers[at].reshape(table.shape or (1,)) for at, table in zip(order, tables, strict=True)
        ]
        barred = [_downwards(t.dimensions, forbidden[own]) for t, own in zip(tables, numbers, strict=True)]
        costs = [_downwards(t.dimensions, price[own]) for t, own in zip(tables, numbers, strict=True)]
        steps = STEPS

        def search(number: int, chosen: _Chosen) -> Iterator[_Chosen]:
            nonlocal steps
            if number == len(tables):
                yield chosen
                return
            dimensions = tables[number].dimensions
            fitting = [_fitting(dimension, chosen.get(dimension.name, ())) for dimension in dimensions]
            within = np.ix_(*fitting) if fitting else (np.zeros(1, np.int64),)
            cost = np.where(barred[number][within], np.inf, costs[number][within])
            for place in np.argsort(cost, axis=None, kind="stable").tolist():
                steps -= 1
                at = np.unravel_index(place, cost.shape)
                if steps < 0 or np.isinf(cost[at]):
                    return
                codes = {
                    dimension.name: max(chosen.get(dimension.name, ()), _chain(dimension, of[int(number_)]), key=len)
                    for dimension, of, number_ in zip(dimensions, fitting, at, strict=False)
                }
                yield from search(number + 1, chosen | codes)

        for chosen in search(0, given):
            cells = self._cells(chosen)
            if not forbidden[cells].any():
                return cells
        return None

    def _beginning(self, cell: int) -> tuple[_Chosen, list[int]]:
        """The codes of a cell, and the tables, one that has it first."""
        for number, (table, own) in enumerate(zip(self._linked.tables, self._linked.numbers, strict=True)):
            at = np.flatnonzero(own == cell)
            if len(at):
                places = np.unravel_index(int(at[0]), table.shape) if table.shape else ()
                codes = {d.name: _chain(d, int(code)) for d, code in zip(table.dimensions, places, strict=True)}
                return codes, [number, *(other for other in range(len(self._linked.tables)) if other != number)]
        return {}, list(range(len(self._linked.tables)))

    def _cells(self, chosen: _Chosen) -> Integers:
        """All cells that a kind is in, those of joint tables with them."""
        numbers = []
        for table, own in zip(self._linked.tables, self._linked.numbers, strict=True):
            along = [[ROOT, *_places(dimension, chosen[dimension.name])] for dimension in table.dimensions]
            at = [np.ravel_multi_index(places, table.shape) if places else 0 for places in product(*along)]
            numbers.append(own[np.array(at, np.int64)])
        for joint in self._linked.joint:
            places = tuple(
                int(np.searchsorted(leaves, [ROOT, *_places(dimension, chosen[dimension.name])][-1]))
                for dimension, leaves in zip(joint.dimensions, joint.leaves, strict=True)
            )
            numbers.append(np.array([joint.first + int(np.ravel_multi_index(places, joint.shape))], np.int64))
        return np.unique(np.concatenate(numbers)).astype(np.int64)


def _chain(dimension: Dimension, code: int) -> tuple[str, ...]:
    """A code after those that it is a part of, the total left out."""
    chain: list[str] = []
    while code != ROOT:
        chain.append(dimension.codes[code])
        code = dimension.parent[code]
    return tuple(reversed(chain))


def _places(dimension: Dimension, chain: tuple[str, ...]) -> list[int]:
    """The numbers of codes of a chain, as far down as a dimension has them."""
    number = {code: at for at, code in enumerate(dimension.codes)}
    return [number[code] for code in chain if code in number]


def _fitting(dimension: Dimension, chain: tuple[str, ...]) -> list[int]:
    """The finest codes of a dimension that a person with these codes can have."""
    waiting = [[ROOT, *_places(dimension, chain)][-1]]
    leaves = []
    while waiting:
        at = waiting.pop()
        waiting += dimension.children[at]
        if not dimension.children[at]:
            leaves.append(at)
    return sorted(leaves)


def _downwards(dimensions: tuple[Dimension, ...], values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """For each cell the sum over itself and all cells above it; of flags, whether there is any."""
    table = values.copy()
    for axis, dimension in enumerate(dimensions):
        turned = np.moveaxis(table, axis, 0)
        for at in range(1, dimension.size):
            turned[at] += turned[dimension.parent[at]]
    return table
