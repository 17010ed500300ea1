"""A pass with held groups: every held group is a full table of classes by children, whose rows and columns are known.

A pass works on *classes*: cells that no query of it and nothing held tells apart. What earlier passes have made whole
is a partition of the classes into *held groups*, whose counts P[g, c] in every child add up to the parent's. A variable
x[k, c] exists where the parent has the class and the child has the held group. So a table is never without a whole
solution (``docs/proofs/estimation.md``, section 8): it has no structural zeros, and its rows and columns equal sums.

    minimise    sum over queries, groups and children of  w[q, c] * (sum of x[k, c] over the group  -  y[q, g, c])^2
    subject to  x >= 0,  sum over children of x[k, c] = p[k],  sum over the classes of held group g of x[k, c] = P[g, c]

Without a parent (the root) rows have no sums, and before anything is held columns have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import ConfideError
from confide.estimation.active_set import GAP, OptimalityCertificate
from confide.estimation.dual_newton import TableMeasurements, TableShapes, newton
from confide.estimation.least_squares import Attempt, SolveOutcome, SolveReport, quantised, solve
from confide.estimation.node_problem import GroupBounds, MeasuredQuery, NodeProblem
from confide.estimation.rounding import Partition, RoundingProblem, RoundingTally, round_counts

STEPS = 400
"""The most Newton steps; the median of nodes needs ten to forty."""
PULL = 1e-3
"""What a variable that is not measured by itself is kept near the last point with, in parts of the least weight."""
UNMEASURED = 1e-30
"""The weight of an answer that a child lacks, in parts of the largest one: as good as none, and not zero."""


@dataclass(frozen=True, eq=False)
class FullTables:
    """One pass in one node. Classes are sorted by held group.

    Args:
        parent: The sums of the classes over the children, above 0; None at the root.
        group: For each class its held group, from 0 on, rising.
        held: The counts of held groups in the children, groups x children; None where nothing is held.
        queries: What was measured, on classes.
        children: How many children there are.
    """

    parent: Integers | None
    group: Integers
    held: Integers | None
    queries: tuple[MeasuredQuery, ...]
    children: int
    present: np.ndarray | None = None
    """Where nothing is held, the children in which a group may have anybody: groups x children."""

    @cached_property
    def layout(self) -> TableLayout:
        """Where the variables are."""
        if self.held is None and self.present is not None:
            return TableLayout(self.group, self.present)
        if self.held is None:
            return TableLayout(np.zeros(len(self.group), np.int64), np.ones((1, self.children), np.bool_))
        return TableLayout(self.group, self.held > 0)

    @property
    def scale(self) -> float:
        """The objective at which every measured value is missed by 0.01 (:attr:`NodeProblem.scale`)."""
        return 1e-4 * sum(float(query.weights.sum()) * len(query.measured) for query in self.queries)

    def as_node(self) -> NodeProblem:
        """The same for the methods for any constraints."""
        bounds: tuple[GroupBounds, ...] = ()
        allowed = np.ones((len(self.group), self.children), np.bool_)
        if self.held is not None:
            exact = self.held.astype(np.float64)
            bounds, allowed = (GroupBounds("held", self.group, exact, exact),), (self.held > 0)[self.group]
        elif self.present is not None:
            allowed = np.asarray(self.present[self.group], np.bool_)
        return NodeProblem(self.parent, allowed, self.queries, bounds)


class TableLayout:
    """Variables table after table, in each of them class after class.

    The classes of group g are ``first[g]:first[g + 1]``, its children ``kid[start[g]:start[g + 1]]``, and its variables
    begin at ``offset[g]``.
    """

    def __init__(self, group: Integers, has: np.ndarray):
        groups, self.children = has.shape
        self.first = np.searchsorted(group, np.arange(groups + 1)).astype(np.int64)
        table, self.kid = (part.astype(np.int64) for part in np.nonzero(has))
        self.start = np.searchsorted(table, np.arange(groups + 1)).astype(np.int64)
        self.table = table
        self.offset = np.zeros(groups + 1, np.int64)
        np.cumsum(np.diff(self.first) * np.diff(self.start), out=self.offset[1:])

    @property
    def size(self) -> int:
        """The number of variables."""
        return int(self.offset[-1])

    @cached_property
    def row(self) -> Integers:
        """The class of every variable."""
        wide = np.repeat(np.diff(self.start), np.diff(self.first))
        return np.repeat(np.arange(int(self.first[-1])), wide)

    @cached_property
    def pair(self) -> Integers:
        """The pair of held group and child of every variable."""
        wide = np.diff(self.start)[np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))]
        begins = np.repeat(np.cumsum(wide) - wide, wide)
        begin = self.start[np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))]
        return np.asarray(np.arange(self.size) - begins + np.repeat(begin, wide), np.int64)

    @cached_property
    def child(self) -> Integers:
        """The child of every variable."""
        return np.asarray(self.kid[self.pair], np.int64)

    def groups(self) -> Iterator[tuple[slice, Integers, slice]]:
        """Of each group its classes, its children and its variables."""
        for g in range(len(self.first) - 1):
            yield (
                slice(int(self.first[g]), int(self.first[g + 1])),
                self.kid[self.start[g] : self.start[g + 1]],
                slice(int(self.offset[g]), int(self.offset[g + 1])),
            )

    def dense(self, x: np.ndarray) -> np.ndarray:
        """Classes x children, 0 where there is no variable."""
        result = np.zeros((int(self.first[-1]), self.children), x.dtype)
        result[self.row, self.child] = x
        return result


def solve_tables(problem: FullTables) -> tuple[Floats, SolveReport]:
    """The least-squares estimate of a pass, variable by variable of the layout, and how it was found.

    Args:
        problem: Classes, held groups and measurements of one node.

    Returns:
        x with exact sums, and the report. What the dual Newton method does not prove is tried by the methods for any
        constraints, and the best point is taken.

    >>> measured = MeasuredQuery("cells", np.arange(2), np.array([[6.0, 5.0], [1.0, 3.0]]), np.ones(2))
    >>> problem = FullTables(np.array([10, 4]), np.zeros(2, np.int64), np.array([[8, 6]]), (measured,), 2)
    >>> x, report = solve_tables(problem)
    >>> x.round(6).tolist(), report.outcome.value
    ([6.25, 3.75, 1.75, 2.25], 'dual newton')
    """
    layout = problem.layout
    if not layout.size:
        return np.zeros(0), _report(SolveOutcome.FORCED, 0.0, 0.0, 0, problem.scale)
    forced = _forced(problem)
    if forced is not None and forced[0].all():
        return forced[1], _report(SolveOutcome.FORCED, 0.0, 0.0, 0, problem.scale)
    system = _System.of(problem, forced)
    attempts: tuple[Attempt, ...] = ()
    if system.bounded:
        part, report = system.solve(problem.scale)
        if report.certificate.accepts():
            return system.together(part), report
        attempts = report.attempts
    try:
        dense, other = solve(problem.as_node())
    except ConfideError:
        # A full table has a solution; without one by the other methods there is the point that keeps all sums.
        if not attempts:
            raise
        return system.together(part), replace(report, outcome=SolveOutcome.INEXACT)
    x = dense[layout.row, layout.child]
    tried = replace(other, attempts=(*attempts, *other.attempts))
    if other.certificate.accepts() or not attempts or other.certificate.objective < attempts[0].certificate.objective:
        return x, tried
    return system.together(part), replace(tried, outcome=SolveOutcome.INEXACT, certificate=attempts[0].certificate)


def _report(
    outcome: SolveOutcome, value: float, gap: float, steps: int, scale: float, violation: float = 0.0
) -> SolveReport:
    """The report of one method."""
    # A sum of squares is nowhere below zero: where everything can be met, that is the sharper bound.
    gap = min(gap, value)
    relative = abs(gap) / max(value + scale, float(np.finfo(np.float64).tiny))
    certificate = OptimalityCertificate(value, gap, relative, violation)
    attempts = () if outcome is SolveOutcome.FORCED else (Attempt(outcome, steps, certificate, certificate.accepts()),)
    return SolveReport(outcome, certificate, attempts)


def _forced(problem: FullTables) -> tuple[np.ndarray, Floats] | None:
    """The tables with one class or one child, whose counts follow, by table, and x with what follows."""
    if problem.parent is None or problem.held is None:
        return None
    layout = problem.layout
    tall, wide = np.diff(layout.first), np.diff(layout.start)
    of_table = (tall <= 1) | (wide <= 1)
    here = np.repeat(of_table, tall * wide)
    single = np.repeat(tall <= 1, tall * wide)
    counts = problem.held[layout.table, layout.kid].astype(np.float64)
    x = np.zeros(layout.size)
    x[single] = counts[layout.pair[single]]
    narrow = here & ~single
    x[narrow] = problem.parent[layout.row[narrow]]
    return of_table, x


@dataclass(frozen=True, eq=False)
class _System:
    """The arrays of the compiled method: tables that are not decided, and measurements less what is."""

    layout: TableLayout
    group: Integers
    y: Floats
    weight: Floats
    near: Floats
    w: Floats
    measured: Floats
    parent: Floats
    held: Floats
    rows: bool
    columns: bool
    open: np.ndarray
    """Which variables of the problem they are."""
    decided: Floats

    @property
    def bounded(self) -> bool:
        """Whether every variable has a weight of its own, or a largest value."""
        return self.rows or self.columns or bool((self.weight > 0).all())

    @classmethod
    def of(cls, problem: FullTables, forced: tuple[np.ndarray, Floats] | None) -> _System:
        everything = problem.layout
        closed = np.zeros(len(everything.first) - 1, np.bool_) if forced is None else forced[0]
        decided = np.zeros(everything.size) if forced is None else forced[1]
        tall, wide = np.diff(everything.first), np.diff(everything.start)
        is_open = np.repeat(~closed, tall * wide)
        kept = np.flatnonzero(np.repeat(~closed, tall))
        layout = everything
        if closed.any():
            has = np.zeros((len(closed), everything.children), np.bool_)
            has[everything.table, everything.kid] = True
            number = np.cumsum(~closed) - 1
            of_class = np.repeat(np.arange(len(closed)), tall)
            layout = TableLayout(number[of_class[kept]], has[~closed])
        row, child = kept[layout.row], layout.child
        y, weight = np.zeros(layout.size), np.zeros(layout.size)
        columns, measured, weights, base = [], [np.zeros((0, problem.children))], [np.zeros((0, problem.children))], 0
        for query in problem.queries:
            own = query.groups
            alone = np.bincount(own[own >= 0], minlength=len(query.measured)) == 1
            single = np.where(own >= 0, alone[own], False)
            here = single[row]
            of_children = query.weights[child[here]]
            weight[here] += of_children
            y[here] += of_children * query.measured[own[row[here]], child[here]]
            if single.all():
                continue
            # What is decided is taken off; answers that no open class is a part of are left out.
            answers = query.measured
            if forced is not None and closed.any():
                answers = answers.copy()
                shut = np.flatnonzero(~is_open)
                at = own[everything.row[shut]]
                np.subtract.at(answers, (at[at >= 0], everything.child[shut][at >= 0]), decided[shut][at >= 0])
            used = np.zeros(len(answers), np.bool_)
            used[own[kept[(own[kept] >= 0) & ~single[kept]]]] = True
            number = np.where(used, np.cumsum(used) - 1 + base, -1)
            columns.append(np.where((own[kept] >= 0) & ~single[kept], number[own[kept]], -1))
            measured.append(answers[used])
            weights.append(np.broadcast_to(query.weights, (int(used.sum()), problem.children)))
            base += int(used.sum())
        np.divide(y, weight, out=y, where=weight > 0)
        group = np.stack(columns, axis=1) if columns else np.zeros((len(kept), 0), np.int64)
        w = np.concatenate(weights)
        w = np.where(w > 0, w, UNMEASURED * max(float(w.max(initial=0.0)), 1.0))
        parent = np.zeros(len(kept)) if problem.parent is None else problem.parent[kept].astype(np.float64)
        held = np.zeros(len(layout.kid))
        if problem.held is not None:
            held = problem.held[~closed][layout.table, layout.kid].astype(np.float64)
        near = _proportional(layout, parent, held, problem.parent is not None, problem.held is not None)
        return cls(
            layout,
            np.ascontiguousarray(group, np.int64),
            y,
            weight,
            near,
            w,
            np.concatenate(measured),
            parent,
            held,
            problem.parent is not None,
            problem.held is not None,
            is_open,
            decided,
        )

    def solve(self, scale: float) -> tuple[Floats, SolveReport]:
        """The point that the dual Newton method finds, and its certificate."""
        if not scale:  # nothing was measured: every point is as good
            return self.near, _report(SolveOutcome.DUAL_NEWTON, 0.0, 0.0, 0, scale, self.violation(self.near))
        least = min(float(part[part > 0].min(initial=np.inf)) for part in (self.weight, self.w[self.w > 1e-20]))
        unit, best, at = least if np.isfinite(least) else 1.0, np.zeros(self.layout.size), self.layout
        value, gap, steps, _ = newton(
            TableShapes(at.first, at.start, at.offset, at.kid, self.group),
            TableMeasurements(
                self.y,
                self.weight / unit,
                self.measured,
                self.w / unit,
                self.rows,
                self.columns,
                self.parent,
                self.held,
            ),
            self.near,
            PULL,
            GAP / 2,
            scale / (2 * unit),
            STEPS,
            best,
        )
        report = _report(
            SolveOutcome.DUAL_NEWTON, 2 * unit * value, 2 * unit * gap, int(steps), scale, self.violation(best)
        )
        return best, report

    def violation(self, x: Floats) -> float:
        """By how much a point misses a sum, at most."""
        off = [float(max(0.0, -x.min(initial=0.0)))]
        if self.rows:
            sums = np.bincount(self.layout.row, x, len(self.parent))
            off.append(float(np.abs(sums - self.parent).max(initial=0.0)))
        if self.columns:
            sums = np.bincount(self.layout.pair, x, len(self.held))
            off.append(float(np.abs(sums - self.held).max(initial=0.0)))
        return max(off)

    def together(self, x: Floats) -> Floats:
        """The variables of the problem: those found and those that follow."""
        result = self.decided.copy()
        result[self.open] = x
        return result


def _proportional(layout: TableLayout, parent: Floats, held: Floats, rows: bool, columns: bool) -> Floats:
    """A point in proportion to the sums: where variables that are not measured by themselves begin."""
    if not layout.size:
        return np.zeros(0)
    of_pair = held if columns else np.ones(len(held))
    of_class = parent if rows else np.ones(len(parent))
    total = np.zeros(len(layout.first) - 1)
    np.add.at(total, layout.table, of_pair)
    if not rows:
        total = np.diff(layout.first).astype(np.float64)
    table = np.repeat(np.arange(len(total)), np.diff(layout.offset))
    return np.asarray(of_class[layout.row] * of_pair[layout.pair] / total[table])


# Rounding falls apart by held group.

CHUNK = 1_000_000
"""About how many variables are rounded together: networks of held groups that have nothing to do with each other."""


def round_tables(
    problem: FullTables, x: Floats, fixed: Integers, chain: Sequence[tuple[str, Integers]]
) -> tuple[Integers, RoundingTally]:
    """Whole counts of the groups that a pass holds, as near as can be to an estimate.

    Args:
        problem: The pass.
        x: Its estimate, variable by variable.
        fixed: For each class the group that the pass makes whole, from 0 on, rising; it lies in one held group.
        chain: Names and groups of classes of the rounding queries, coarse to fine, each made of such groups.

    Returns:
        Counts of those groups, groups x children, and the tally of the rounding.
    """
    layout = problem.layout
    count = int(fixed.max(initial=-1)) + 1
    firsts = np.searchsorted(fixed, np.arange(count))
    counts, tally = np.zeros((count, problem.children), np.int64), RoundingTally()
    estimate = np.zeros((count, problem.children))
    np.add.at(estimate, (fixed[layout.row], layout.child), x)
    estimate = np.maximum(quantised(estimate), 0.0)
    parent = None
    if problem.parent is not None:
        parent = np.zeros(count, np.int64)
        np.add.at(parent, fixed, problem.parent)
    if problem.held is None:
        free = tuple(Partition(name, groups[firsts]) for name, groups in chain)
        rounded = round_counts(RoundingProblem(estimate, parent, free))
        return rounded.counts, RoundingTally.of(rounded.report)
    held_of = problem.group[firsts]
    nearest = np.rint(estimate)
    decided = np.abs(estimate - nearest) < 1e-6 / 2
    # Of a group of which everything is whole already nothing is left to decide.
    open_group = np.zeros(len(problem.held), np.bool_)
    open_group[held_of[~decided.all(axis=1)]] = True
    shut = ~open_group[held_of]
    counts[shut] = nearest[shut].astype(np.int64)
    sizes = (
        np.where(open_group, np.diff(np.searchsorted(held_of, np.arange(len(open_group) + 1))), 0) * problem.children
    )
    piece = (np.cumsum(sizes) - sizes) // CHUNK
    for number in np.unique(piece[open_group]):
        chosen = np.flatnonzero(open_group & (piece == number))
        rows = np.flatnonzero(np.isin(held_of, chosen))
        children = np.flatnonzero((problem.held[chosen] > 0).any(axis=0))
        own = np.searchsorted(chosen, held_of[rows])
        bounds = np.ascontiguousarray(problem.held[chosen][:, children])
        parts = [Partition("held", own, 0, 0, bounds, bounds)]
        # Queries are compared inside held groups.
        for name, groups in chain:
            inside = np.unique(np.stack([own, groups[firsts][rows]]), axis=1, return_inverse=True)[1]
            parts.append(Partition(name, inside.reshape(-1).astype(np.int64)))
        rounded = round_counts(
            RoundingProblem(
                np.ascontiguousarray(estimate[rows][:, children]),
                None if parent is None else parent[rows],
                tuple(parts),
                allowed=np.ascontiguousarray(bounds[own] > 0),
                apart=True,
            )
        )
        counts[np.ix_(rows, children)] = rounded.counts
        tally += RoundingTally.of(rounded.report)
    return counts, tally
