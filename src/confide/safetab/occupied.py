"""The groups of a part that have anybody in them, with their true counts. Confidential."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from confide.safetab.grids import Grid

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Occupied:
    """Groups in ascending order; those of group i have the counts ``n[starts[i] : starts[i + 1]]`` in the cells of sex
    by 23 ages that ``cell`` gives. A table of cells is made only for groups that get one: most have a few persons."""

    groups: Integers = field(repr=False)
    starts: Integers = field(repr=False)
    cell: Integers = field(repr=False)
    n: Integers = field(repr=False)

    @classmethod
    def read(cls, rows: pa.Table) -> Self:
        """Rows of :mod:`confide.safetab.tabulating`, sorted by group and cell."""
        of_row, cell, n = (np.asarray(rows.column(name).to_numpy(), np.int64) for name in ("group", "cell", "n"))
        first = np.flatnonzero(np.diff(of_row, prepend=-1))
        return cls(of_row[first], np.append(first, len(of_row)), cell, n)

    @cached_property
    def totals(self) -> Integers:
        """The true total of each group."""
        until = np.concatenate([[0], np.cumsum(self.n)])
        totals: Integers = np.diff(until[self.starts])
        return totals

    def take(self, chosen: npt.NDArray[np.bool_]) -> Occupied:
        """Some of the groups."""
        if chosen.all():
            return self
        lengths = np.diff(self.starts)
        rows = np.repeat(chosen, lengths)
        starts = np.concatenate([[0], np.cumsum(lengths[chosen])])
        return Occupied(self.groups[chosen], starts, self.cell[rows], self.n[rows])

    def cells_of(self, groups: Integers, grid: Grid) -> Integers:
        """The true counts in the cells of a grid, a row for each of ``groups``, whether anybody is in it or not."""
        counts = np.zeros((len(groups), grid.cells), np.int64)
        place = np.searchsorted(self.groups, groups)
        there = np.flatnonzero(place < len(self.groups))
        there = there[self.groups[place[there]] == groups[there]]
        begin, lengths = self.starts[place[there]], np.diff(self.starts)[place[there]]
        ends = np.cumsum(lengths)
        rows = np.repeat(begin - (ends - lengths), lengths) + np.arange(int(ends[-1]) if len(ends) else 0)
        np.add.at(counts, (np.repeat(there, lengths), grid.of_finest[self.cell[rows]]), self.n[rows])
        return counts
