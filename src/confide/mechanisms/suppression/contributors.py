"""Who contributes to the cells of a magnitude table, and what each of them knows by it. Confidential.

A contributor f knows what it gave to every cell, x_f(c). No contribution is below ``lowest`` (zero, unless the spec
says otherwise), so f knows of the figure of a cell with n contributions that

    y_c >= x_f(c) + (n - n_f) · lowest,

where n_f of them are its own; and alone in a cell, f knows y_c. A pattern is safe only if every primary cell can move
as far as its protection levels ask in figures that keep this, for each f. Then no contributor can bound another's
contribution more tightly than the rule allows (``docs/proofs/suppression.md``, 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from confide.arrays import Integers

NOBODY = -1
LEAST = -(1 << 62)
"""Below every figure."""


@dataclass(frozen=True, eq=False, repr=False)
class Contributors:
    """For each cell its contributors, those who know most of it first."""

    start: Integers
    """Where the entries of each cell begin, and the number of entries at the end."""
    person: Integers
    """The contributor of each entry, as a number."""
    amount: Integers
    """What it gave to the cell, as the rules see it: at least zero."""
    floor: Integers
    """What it knows the figure of the cell not to be below, falling within a cell."""

    @property
    def cells(self) -> int:
        return len(self.start) - 1

    @cached_property
    def alone(self) -> Integers:
        """For each cell the one contributor that it has, or -1."""
        one = np.diff(self.start) == 1
        owner = np.full(self.cells, NOBODY, np.int64)
        owner[one] = self.person[self.start[:-1][one]]
        return owner

    @cached_property
    def size(self) -> Integers:
        """For each cell all amounts together: its figure, if nothing in it is negative."""
        size = np.zeros(self.cells, np.int64)
        np.add.at(size, self._cell_of_entry, self.amount)
        return size

    @cached_property
    def highest(self) -> Integers:
        """For each cell with several contributors the most that one of them knows it not to be below; for others less
        than any figure."""
        highest = np.full(self.cells, LEAST, np.int64)
        several = np.diff(self.start) > 1
        highest[several] = self.floor[self.start[:-1][several]]
        return highest

    @cached_property
    def everybody(self) -> set[int]:
        """All contributors."""
        return set(np.unique(self.person).tolist())

    def above(self, cell: int, figure: int) -> list[int]:
        """Those who know that a cell is more than so much."""
        begin, end = int(self.start[cell]), int(self.start[cell + 1])
        if begin == end or self.floor[begin] <= figure:
            return []
        number = int(np.searchsorted(-self.floor[begin:end], -figure, side="left"))
        known: list[int] = self.person[begin : begin + number].tolist()
        return known

    def known_by(self, person: int) -> dict[int, int]:
        """The cells that somebody contributes to, each with what its figure is known not to be below."""
        entries = self._by_person[slice(*np.searchsorted(self._persons, (person, person + 1)))]
        return dict(zip(self._cell_of_entry[entries].tolist(), self.floor[entries].tolist(), strict=True))

    def taken(self, cells: Integers) -> Contributors:
        """Those of some cells, which are numbered anew in this order."""
        sizes = np.diff(self.start)[cells]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        entries = np.repeat(self.start[:-1][cells] - start[:-1], sizes) + np.arange(int(start[-1]))
        return Contributors(start, self.person[entries], self.amount[entries], self.floor[entries])

    def merged(self, cells: Integers, group: Integers, groups: int, low: Integers) -> Contributors:
        """Cells put together: of each group the contributors of its cells, with all that they gave to them.

        Args:
            cells: The cells, one after the other.
            group: For each the number of its group.
            groups: How many groups there are.
            low: For each what everybody knows of it: what somebody knows who gave nothing to it.
        """
        own = self.taken(cells)
        of_cell = np.repeat(group, np.diff(own.start))
        base = np.zeros(groups, np.int64)
        np.add.at(base, group, low)
        # What is known of a group is the sum of what is known of its cells: of those without a contribution, the low.
        more = own.floor - np.repeat(low, np.diff(own.start))
        merged = contributors_of(of_cell, own.person, own.amount, np.maximum(more, 0), np.zeros(groups, np.int64))
        floor = merged.floor + np.repeat(base, np.diff(merged.start))
        return Contributors(merged.start, merged.person, merged.amount, floor)

    def followed_by(self, others: Contributors) -> Contributors:
        """These cells and others after them; persons of the same number are the same."""
        return Contributors(
            np.concatenate([self.start, others.start[1:] + self.start[-1]]),
            np.concatenate([self.person, others.person]),
            np.concatenate([self.amount, others.amount]),
            np.concatenate([self.floor, others.floor]),
        )

    def largest(self, top: int) -> tuple[Integers, Integers]:
        """For each cell the number of its contributors, and the largest amounts, falling, zero where there are no
        more."""
        number: Integers = np.diff(self.start).astype(np.int64)
        order = np.lexsort((-self.amount, self._cell_of_entry))
        rank = np.arange(len(order)) - self.start[:-1][self._cell_of_entry]
        within = rank < top
        largest = np.zeros((self.cells, top), np.int64)
        largest[self._cell_of_entry[within], rank[within]] = self.amount[order][within]
        return number, largest

    @cached_property
    def _cell_of_entry(self) -> Integers:
        return np.repeat(np.arange(self.cells, dtype=np.int64), np.diff(self.start))

    @cached_property
    def _by_person(self) -> Integers:
        order: Integers = np.argsort(self.person, kind="stable")
        return order

    @cached_property
    def _persons(self) -> Integers:
        return self.person[self._by_person]


def contributors_of(
    cell: Integers, person: Integers, amount: Integers, known: Integers, base: Integers
) -> Contributors:
    """The contributors of cells, from one row for each contribution.

    Args:
        cell: The cell that a row adds to.
        person: Whose it is, as a number of at least zero; several rows of one contributor in a cell are added up.
        amount: How much it counts for the rules, at least zero.
        known: By how much it lifts what its owner knows of the cell, at least zero.
        base: For each cell what everybody knows its figure not to be below.

    Returns:
        The contributors of each cell.

    >>> cell, person, amount = np.array([0, 0]), np.array([7, 8]), np.array([3, 5])
    >>> contributors_of(cell, person, amount, amount, np.zeros(1, np.int64)).person.tolist()
    [8, 7]
    """
    order = np.lexsort((person, cell))
    cell, person, amount, known = cell[order], person[order], amount[order], known[order]
    new = np.ones(len(cell), np.bool_)
    new[1:] = (cell[1:] != cell[:-1]) | (person[1:] != person[:-1])
    first = np.flatnonzero(new)
    # Several rows of one contributor in a cell are one contribution.
    amounts = np.add.reduceat(amount, first) if len(first) else amount
    floors = (np.add.reduceat(known, first) if len(first) else known) + base[cell[first]]
    cell, person = cell[first], person[first]
    order = np.lexsort((person, -floors, cell))
    sizes = np.bincount(cell, minlength=len(base))
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Contributors(start, person[order].astype(np.int64), amounts[order], floors[order])


def contributors_of_largest(largest: Integers, number: Integers, base: Integers) -> Contributors:
    """Contributors of whom only the largest contributions to each cell are known, and not who they are: each is taken
    for somebody else.

    In one table nothing is lost by that: what somebody gave to a cell is known to be in every total of it. Somebody who
    is alone in cells of several tables is taken for several persons.
    """
    cells, top = largest.shape
    there = np.arange(top)[None, :] < number[:, None]
    cell = np.repeat(np.arange(cells, dtype=np.int64), top).reshape(cells, top)[there]
    amount = largest[there]
    return contributors_of(cell, np.arange(len(cell), dtype=np.int64), amount, amount, base)
