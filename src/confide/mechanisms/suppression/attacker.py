"""What an attacker can work out about suppressed cells: for each the smallest interval that its value must lie in.

The attacker knows the published cells, the equations M y = 0 and bounds for what is suppressed (not negative, if
nothing else), and finds for a suppressed cell c

    min / max y_c   with   M y = 0,   y_i published,   low_i <= y_i <= high_i suppressed.

Each is a linear programme. Most need not be solved: bounds carried from equation to equation give an interval that
contains the true one, every solution found so far gives points inside it, and where both agree nothing is left to do.
Suppressed cells that have no equation in common, not even through others, are problems of their own.
Reference: Fischetti and Salazar-Gonzalez, "Solving the cell suppression problem on tabular data with linear
constraints", Management Science 47 (2001).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from confide.arrays import Floats, Integers
from confide.mechanisms.suppression.structure import DoesNotAddUpError, Flags, Structure, minimise

# Bounds carried through equations: what each leaves to one cell, given the bounds of the others.


SWEEPS = 200
"""How often all equations are gone through at most."""


def carry(matrix: sparse.csr_array, rhs: Floats, low: Floats, high: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Bounds that follow equation by equation: from each, the range that the other cells leave to one.

    It holds for every solution, and costs nothing; the interval of the programme can be smaller.
    """
    low, high = low.astype(np.float64).copy(), high.astype(np.float64).copy()
    if not matrix.shape[0]:
        return low, high
    entries = sparse.coo_array(matrix)
    row, cell = entries.coords
    sign = entries.data
    size = matrix.shape[0]
    for _ in range(SWEEPS):
        # The range of each term, and of each equation; ends without a bound are counted, not added.
        least = np.where(sign > 0, low[cell], -high[cell])
        most = np.where(sign > 0, high[cell], -low[cell])
        new_low, new_high = low.copy(), high.copy()
        for terms, upwards in ((least, True), (most, False)):
            endless = np.isinf(terms)
            finite = np.where(endless, 0.0, terms)
            number = np.bincount(row, endless, size)
            total = np.bincount(row, finite, size)
            others_known = number[row] - endless == 0
            remainder = rhs[row] - (total[row] - finite)
            bound = np.where(others_known, remainder, np.inf if upwards else -np.inf)
            # bound limits sign * y from above (upwards) or from below.
            up, down = (sign > 0) == upwards, (sign > 0) != upwards
            np.minimum.at(new_high, cell[up], bound[up] * sign[up])
            np.maximum.at(new_low, cell[down], bound[down] * sign[down])
        moved = (new_high < high - tolerance) | (new_low > low + tolerance)
        low, high = np.maximum(low, new_low), np.minimum(high, new_high)
        if not moved.any():
            break
    return low, np.maximum(high, low)


TOLERANCE = 1e-6
"""Below this, relative to their own size, two numbers are one."""

NOISE = 1e-14
"""What is left of a figure when large ones are added and taken away again, relative to these."""

WHOLE = 1e-3
"""No whole number is further from itself than this, however large the figures around it."""

ROUNDS = 12
"""How often all open cells are pushed together, before each gets a programme of its own."""

PACKED = 400
"""Programmes of small parts are solved side by side, up to so many unknowns at once: a call costs as much as these."""


SMALL_PART = 100
"""Integer programmes are solved in parts of at most so many suppressed cells, ..."""

NODES = 2_000
"""... and in at most so many branches for each bound."""


Enough = Callable[[Floats, Floats], Flags]
"""Of the least and the largest figure that cells can have for certain: where nothing more need be known."""


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """For each cell what the attacker knows: published cells have their value twice."""

    low: Floats
    high: Floats
    programmes: int
    """How many programmes were solved."""

    @property
    def width(self) -> Floats:
        return self.high - self.low


@dataclass(eq=False, repr=False)
class _Part:
    """Suppressed cells that hang together: ``matrix`` · y = ``rhs``."""

    cells: Integers
    matrix: sparse.csr_array
    rhs: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Attacker:
    """Everything somebody knows who has seen the tables. ``value`` is not looked at where a cell is suppressed."""

    structure: Structure
    value: Floats
    suppressed: Flags
    low: Floats
    high: Floats
    integer: bool = False
    """Whether the attacker knows that all figures are whole numbers."""

    def intervals(self, *, wanted: Flags | None = None, enough: Enough | None = None) -> Intervals:
        """The interval of every suppressed cell, or of those wanted.

        Args:
            wanted: A flag for each cell; others have bounds that hold, but may be wide. None: all.
            enough: Says of figures that cells can have for certain, the least and the largest found, where nothing
                more need be known; these cells have bounds that hold, but may be wide.

        Returns:
            The least and the largest value of each cell; of a published one its value twice.

        Raises:
            DoesNotAddUpError: No figures fit into the suppressed cells: the table does not add up.

        >>> from confide.mechanisms.suppression.structure import TableDimensions, flat, link
        >>> row = link([TableDimensions("row", (flat("sex", ["f", "m"]),))]).structure
        >>> total, parts = np.array([7.0, 0, 0]), np.array([False, True, True])
        >>> Attacker(row, total, parts, np.zeros(3), np.full(3, np.inf)).intervals().high.tolist()
        [7.0, 7.0, 7.0]
        """
        low, high = self.value.copy(), self.value.copy()
        low[self._empty] = high[self._empty] = 0.0
        solved = 0
        parts: list[tuple[_Part, _PartBounds]] = []
        # Bounds that are carried and pushed settle most cells; what is open then gets programmes of its own.
        for part in self.parts():
            bounds = _PartBounds(part, self.integer, enough)
            bounds.open &= True if wanted is None else wanted[part.cells]
            solved += bounds.push()
            parts.append((part, bounds))
        solved += _one_by_one([bounds for _, bounds in parts])
        for part, bounds in parts:
            low[part.cells], high[part.cells] = bounds.result()
        return Intervals(low, high, solved)

    def sharpened(self, intervals: Intervals, *, largest: int = SMALL_PART, nodes: int = NODES) -> Intervals:
        """The same where the attacker uses that figures are whole numbers in every equation, not in the end alone: by
        integer programming, in parts that are not too large, and in no more than some branches for each bound."""
        low, high, solved = intervals.low.copy(), intervals.high.copy(), intervals.programmes
        for part in self.parts():
            if len(part.cells) > largest:
                continue
            for at, cell in enumerate(part.cells.tolist()):
                for sign, ends in ((1.0, low), (-1.0, high)):
                    if np.isinf(ends[cell]):
                        continue
                    cost = np.zeros(len(part.cells))
                    cost[at] = sign
                    best = minimise(cost, part.matrix, part.rhs, part.low, part.high, integer=True, nodes=nodes)
                    solved += 1
                    if best is not None:
                        # The bound of the programme holds even if a branch was left.
                        ends[cell] = np.ceil(best.bound - TOLERANCE) * sign
        return Intervals(np.maximum(low, intervals.low), np.minimum(high, intervals.high), solved)

    @cached_property
    def _empty(self) -> Flags:
        """Suppressed cells that are parts of a published zero, and of such, and so are zero."""
        structure = self.structure
        entries = sparse.coo_array(structure.matrix)
        row, cell = entries.coords
        part = cell != structure.total[row]
        row, cell = row[part], cell[part]
        # Only where no part can be below zero, nor must be above.
        usable = np.ones(structure.rows, np.bool_)
        usable[row[self.suppressed[cell] & (self.low[cell] != 0)]] = False
        usable[row[~self.suppressed[cell] & (self.value[cell] != 0)]] = False
        zero = ~self.suppressed & (self.value == 0)
        empty = np.zeros(structure.cells, np.bool_)
        while True:
            new = np.zeros(structure.cells, np.bool_)
            new[cell[(usable & (zero | empty)[structure.total])[row]]] = True
            new &= self.suppressed & ~empty
            if not new.any():
                return empty
            empty |= new

    def parts(self) -> Iterator[_Part]:
        """The suppressed cells in parts that have no equation in common."""
        cells = np.flatnonzero(self.suppressed & ~self._empty)
        if not len(cells):
            return
        # What is published goes to the right-hand side; equations without a suppressed cell drop out.
        published = np.where(self.suppressed, 0.0, self.value)
        rhs = -(self.structure.matrix @ published)
        matrix = sparse.csr_array(self.structure.matrix[:, cells])
        used = np.diff(matrix.indptr) > 0
        matrix, rhs = sparse.csr_array(matrix[used]), rhs[used]
        # Equations and cells as the two sides of a graph: its components are problems of their own.
        graph = sparse.block_array([[None, matrix], [matrix.T, None]]) if matrix.shape[0] else None
        if graph is None:
            for cell in cells:
                at = np.array([cell])
                yield _Part(at, sparse.csr_array((0, 1)), np.zeros(0), self.low[at], self.high[at])
            return
        _, labels = csgraph.connected_components(sparse.csr_array(abs(graph)), directed=False)
        of_row, of_cell = labels[: matrix.shape[0]], labels[matrix.shape[0] :]
        rows_by, cells_by = np.argsort(of_row, kind="stable"), np.argsort(of_cell, kind="stable")
        for label in np.unique(of_cell):
            rows = rows_by[slice(*np.searchsorted(of_row[rows_by], (label, label + 1)))]
            at = cells_by[slice(*np.searchsorted(of_cell[cells_by], (label, label + 1)))]
            own = sparse.csr_array(matrix[rows][:, at])
            yield _Part(cells[at], own, rhs[rows], self.low[cells[at]], self.high[cells[at]])


class _PartBounds:
    """What is known of one part: bounds from outside, points from inside, and the cells where these differ."""

    def __init__(self, part: _Part, integer: bool, enough: Enough | None = None):
        self.part, self.integer, self._enough = part, integer, enough
        self.noise = NOISE * float(np.abs(part.rhs).max(initial=0))
        self.outer_low, self.outer_high = carry(part.matrix, part.rhs, part.low, part.high, TOLERANCE + self.noise)
        self.inner_low = np.full(len(part.cells), np.inf)
        self.inner_high = np.full(len(part.cells), -np.inf)
        self.open: Flags = np.ones(len(part.cells), np.bool_)

    def push(self) -> int:
        """Pushes all open cells down together, then up, as long as that settles some. Returns programmes solved."""
        if not len(self.part.rhs):
            self.inner_low, self.inner_high = self.outer_low, self.outer_high
            return 0
        if (self.outer_high - self.outer_low <= self.tolerance(self.outer_low)).all():
            self._note(self._solve(np.zeros(len(self.part.cells))))
            return 1
        # Any solution is a point inside of every interval; then cells without a largest value are set aside.
        self._note(self._solve(np.zeros(len(self.part.cells))))
        solved = 1 + self._endless()
        for sign in (1.0, -1.0):
            unsettled = self.unsettled(sign)
            # One programme pushes all unsettled cells at once; where it meets the outer bound, a cell is settled.
            # When a round settles less than a tenth, a programme for each does better.
            for _ in range(ROUNDS):
                if not unsettled.any():
                    break
                self._note(self._solve(np.where(unsettled, sign, 0.0)))
                solved += 1
                still = self.unsettled(sign)
                if 10 * still.sum() > 9 * unsettled.sum():
                    break
                unsettled = still
        return solved

    def unsettled(self, sign: float) -> Flags:
        """The open cells whose least (or largest) value is not settled."""
        if sign > 0:
            unsettled = self.inner_low - self.outer_low > self.tolerance(self.inner_low)
        else:
            with np.errstate(invalid="ignore"):
                unsettled = self.outer_high - self.inner_high > self.tolerance(self.inner_high)
            unsettled &= ~np.isposinf(self.inner_high)
        still_open: Flags = unsettled & self.open
        if self._enough is not None:
            still_open &= ~self._enough(self.inner_low, self.inner_high)
        return still_open

    def settle(self, cell: int, sign: float, solution: Floats) -> None:
        """A programme for one cell is solved: this is its bound."""
        if sign > 0:
            self.outer_low[cell] = solution[cell]
        else:
            self.outer_high[cell] = solution[cell]
        self._note(solution)

    def result(self) -> tuple[Floats, Floats]:
        """The intervals. For whole numbers, bounds that no whole number reaches are moved inwards."""
        low, high = self.outer_low, np.where(np.isposinf(self.inner_high), np.inf, self.outer_high)
        if self.integer:
            low, high = np.ceil(low - self.tolerance(low)), np.floor(high + self.tolerance(high))
            if (low > high).any():
                raise DoesNotAddUpError(self.part.cells)
        return low, high

    def tolerance(self, ends: Floats) -> Floats:
        """How near to these two numbers must be to be one: in proportion to each, not to the largest figure around."""
        size = np.where(np.isfinite(ends), np.abs(ends), 0.0)
        near: Floats = np.maximum(TOLERANCE * np.maximum(1.0, size), self.noise)
        return np.minimum(near, WHOLE) if self.integer else near

    def _note(self, solution: Floats) -> None:
        self.inner_low = np.minimum(self.inner_low, solution)
        self.inner_high = np.maximum(self.inner_high, solution)

    def _solve(self, cost: Floats) -> Floats:
        part = self.part
        solution = minimise(cost, part.matrix, part.rhs, part.low, part.high)
        if solution is None:
            raise DoesNotAddUpError(part.cells)
        return solution.values

    def _endless(self) -> int:
        """Cells without a largest value: those of some d >= 0 with matrix · d = 0, as a multiple of it may be added.

        One programme finds all: t <= d, t <= 1, the sum of t as large as can be, d as large as need be.
        """
        free = np.isposinf(self.part.high)
        if not free.any() or not np.isposinf(self.outer_high).any():
            return 0
        at = np.flatnonzero(free)
        size = len(at)
        matrix = sparse.csr_array(self.part.matrix[:, at])
        both = sparse.csr_array(sparse.block_array([[matrix, None], [sparse.eye_array(size), -sparse.eye_array(size)]]))
        rows = matrix.shape[0]
        lower, upper = np.zeros(rows + size), np.concatenate([np.zeros(rows), np.full(size, np.inf)])
        cost = np.concatenate([np.zeros(size), -np.ones(size)])
        high = np.concatenate([np.full(size, np.inf), np.ones(size)])
        solution = minimise(cost, both, (lower, upper), np.zeros(2 * size), high)
        assert solution is not None
        self.inner_high[at[solution.values[size:] > 1 / 2]] = np.inf
        return 1


def _one_by_one(parts: list[_PartBounds]) -> int:
    """A programme for each cell and side that is still open. Small parts share a call: their costs simply add up."""
    solved = 0
    for sign in (1.0, -1.0):
        waiting = parts
        while waiting:
            batch: list[tuple[_PartBounds, int]] = []
            size, still = 0, []
            for part in waiting:
                cells = np.flatnonzero(part.unsettled(sign)).tolist()
                if not cells:
                    continue
                still.append(part)
                for cell in cells:
                    if batch and size + len(part.part.cells) > PACKED:
                        break
                    batch.append((part, cell))
                    size += len(part.part.cells)
            # Every part goes once into a batch for each of its open cells, until the batch is full; the rest waits.
            waiting = still
            if batch:
                _solve_together(batch, sign)
                solved += len(batch)
    return solved


def _solve_together(batch: list[tuple[_PartBounds, int]], sign: float) -> None:
    parts = [bounds.part for bounds, _ in batch]
    cost = np.zeros(sum(len(part.cells) for part in parts))
    starts = np.concatenate([[0], np.cumsum([len(part.cells) for part in parts])])
    for start, (_, cell) in zip(starts, batch, strict=False):
        cost[start + cell] = sign
    # Parts have no equation in common: the least sum of their costs is the sum of the least ones.
    matrix = parts[0].matrix if len(parts) == 1 else sparse.csr_array(sparse.block_diag([p.matrix for p in parts]))
    low, high, rhs = (np.concatenate([getattr(part, name) for part in parts]) for name in ("low", "high", "rhs"))
    solution = minimise(cost, matrix, rhs, low, high)
    if solution is None:
        raise DoesNotAddUpError(np.concatenate([part.cells for part in parts]))
    for at, (bounds, cell) in enumerate(batch):
        bounds.settle(cell, sign, solution.values[starts[at] : starts[at + 1]])
