"""The integer programme of some blocks: a count for each cell that can hold somebody, a row for each published figure.

**Zero propagation.** A record is counted by every published cell that it belongs to. So where one of these is zero,
nobody has that combination, and elsewhere no more people have it than the smallest of these counts. Cells with the
bound zero are dropped before a programme is written; no solution is lost (``docs/proofs/reconstruction.md``, 1).

A marginal of the level at which programmes are solved, or of a finer one, gives equations. One of a coarser level
counts people elsewhere too; here it can only be kept as *at most*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, Literal

import numpy as np
from scipy import optimize, sparse

from confide.arrays import Floats, Integers
from confide.errors import RunError
from confide.lab.attacks.reconstruction.description import Layer, Space, layer, space_of
from confide.lab.published.marginals import Published, PublishedMarginal

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


class NoSolution(Exception):  # noqa: N818
    """No records have these tables. Says which table and which unit gave it away, as far as that is known."""

    def __init__(self, what: str, tables: Sequence[str] = (), unit: str | None = None):
        super().__init__(what)
        self.what = what
        self.tables = tuple(tables)
        self.unit = unit


@dataclass(frozen=True, eq=False)
class ProgramStructure:
    """All marginals laid over one space, for programmes of the units of one level. Made once, used for every unit."""

    published: Published
    depth: int
    space: Space
    layers: tuple[Layer, ...] = field(repr=False)
    allowed: Integers = field(repr=False)
    """The cells that are not impossible from the start."""

    def rows_equal(self, item: Layer) -> bool:
        """Whether a layer's figures count nobody outside of a programme."""
        return item.marginal.depth <= self.depth


def program_structure(published: Published, depth: int, *, finest_only: bool = False) -> ProgramStructure:
    """The structure for programmes of the units of a level.

    Args:
        published: The tables.
        depth: The level, 0 for the finest.
        finest_only: The cells are those that the tables of blocks tell apart; marginals of coarser levels are folded.
    """
    used = [
        attribute.name
        for attribute in published.schema.attributes
        if any(
            variable.attribute.name == attribute.name
            for item in published.marginals
            for variable in item.query.variables
        )
    ]
    telling = [item for item in published.marginals if item.depth <= (0 if finest_only else depth)]
    space = space_of(published.schema.attributes, telling, used)
    marginals = [item for item in published.marginals if item.depth <= depth or item.exact]
    layers = tuple(layer(space, item) for item in sorted(marginals, key=_detail))
    return ProgramStructure(published, depth, space, layers, np.flatnonzero(~space.forbidden(published.zeros)))


def _detail(item: PublishedMarginal) -> tuple[bool, int, int]:
    """Detailed exact tables first: they drop most cells, and the others have less to look at."""
    return not item.exact, item.depth, -item.query.cells


@dataclass(frozen=True, eq=False)
class ProgramRows:
    """Published figures as rows over cells: which cells each counts, and the count."""

    matrix: Any = field(repr=False)
    """A sparse matrix of zeros and ones, rows by cells."""
    count: Floats = field(repr=False)
    at_most: Flags = field(repr=False)
    layer: Integers = field(repr=False)
    unit: Integers = field(repr=False)
    """For each row the number of its layer and of its unit."""


@dataclass(frozen=True, eq=False)
class IntegerProgram:
    """Whole numbers, one for each cell of some blocks, between zero and ``upper``; exact rows and noisy ones."""

    structure: ProgramStructure
    block: Integers = field(repr=False)
    """For each variable its block."""
    cell: Integers = field(repr=False)
    """For each variable its cell of the space."""
    upper: Floats = field(repr=False)
    """Infinite where only noisy figures count a cell."""
    exact: ProgramRows
    noisy: ProgramRows

    @property
    def size(self) -> int:
        """The number of variables."""
        return len(self.cell)

    def row_name(self, rows: ProgramRows, row: int) -> str:
        """The table of a row."""
        return self.structure.layers[int(rows.layer[row])].marginal.name

    def unit_name(self, rows: ProgramRows, row: int) -> str:
        """The unit of a row, with its level."""
        geography = self.structure.published.geography
        depth = self.structure.layers[int(rows.layer[row])].marginal.depth
        return f"{geography.levels[depth]} {geography.units[depth][int(rows.unit[row])]}"


def integer_program(plan: ProgramStructure, blocks: Iterable[int]) -> IntegerProgram:
    """The programme of some blocks.

    Args:
        plan: The structure of all programmes of a level.
        blocks: The numbers of the blocks: all those of a unit of the structure's level.

    Returns:
        A variable for each block and cell that can hold somebody, and a row for each published figure that counts one.

    Raises:
        NoSolution: If a figure counts people whom the others exclude.
    """
    counts: dict[tuple[int, int], Floats] = {}
    unit_of_block = plan.published.geography.unit_of_block

    def figures(number: int, unit: int) -> Floats:
        """The figures of a layer in a unit, looked up once."""
        key = (number, unit)
        if key not in counts:
            # The last is read where a cell is in no row: it is unknown, and bounds nothing.
            counts[key] = np.append(plan.layers[number].counts(unit), np.nan)
        return counts[key]

    # Zero propagation, block by block: the upper bound of a cell is the smallest exact figure that counts it, and a
    # cell with the bound zero is dropped at once, so that later layers have fewer cells to look at.
    blocks_of_cells, cells_of_blocks, uppers = [], [], []
    for block in blocks:
        cells = plan.allowed
        upper = np.full(len(cells), np.inf)
        for number, item in enumerate(plan.layers):
            if not item.marginal.exact:
                continue
            count = figures(number, int(unit_of_block[item.marginal.depth][block]))[item.assignment[cells]]
            upper = np.fmin(upper, count)
            possible = upper > 0
            if not possible.all():
                cells, upper = cells[possible], upper[possible]
        blocks_of_cells.append(np.full(len(cells), block, np.int64))
        cells_of_blocks.append(cells)
        uppers.append(upper)
    # What is left are the variables; every figure that counts one of them is a row.
    block_of, cell, upper = map(np.concatenate, (blocks_of_cells, cells_of_blocks, uppers))
    exact = _rows(plan, block_of, cell, figures, exact=True)
    noisy = _rows(plan, block_of, cell, figures, exact=False)
    # A cell that no figure counts could hold anybody: nothing is known of it, and nobody is put there.
    counted = (exact.matrix.sum(axis=0) + noisy.matrix.sum(axis=0)) > 0
    program = IntegerProgram(plan, block_of, cell, np.where(counted, upper, 0.0), exact, noisy)
    _check_reached(program, counts)
    return program


def _rows(plan: ProgramStructure, block: Integers, cell: Integers, figures: Any, *, exact: bool) -> ProgramRows:
    """The rows of all exact or all noisy layers that count a variable."""
    # An entry for each variable and each layer that counts it; entries of the same figure have the same key.
    keys, columns, values, layers, units, sides = [], [], [], [], [], []
    base = 0
    for number, item in enumerate(plan.layers):
        if item.marginal.exact is not exact:
            continue
        depth = item.marginal.depth
        unit = plan.published.geography.unit_of_block[depth][block]
        row = item.assignment[cell]
        units_here, position_here = np.unique(unit, return_inverse=True)
        if not len(units_here):
            continue
        count = np.stack([figures(number, int(each)) for each in units_here])[position_here, row]
        inside = np.flatnonzero(~np.isnan(count))  # an unknown figure is no row
        keys.append(base + position_here[inside] * item.size + row[inside])
        columns.append(inside)
        values.append(count[inside])
        layers.append(np.full(len(inside), number))
        units.append(unit[inside])
        sides.append(np.full(len(inside), not plan.rows_equal(item)))
        base += item.size * len(units_here)
    if not keys:
        empty: Any = np.zeros(0)
        return ProgramRows(
            sparse.csr_array((0, len(cell))), empty, empty.astype(bool), empty.astype(int), empty.astype(int)
        )
    # Equal keys become one row; what is said of a row is beside its first entry.
    _, first, inverse = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
    entries = np.ones(len(inverse))
    matrix = sparse.csr_array((entries, (inverse, np.concatenate(columns))), shape=(len(first), len(cell)))
    count, at_most, layer_of, unit_of = (np.concatenate(part)[first] for part in (values, sides, layers, units))
    return ProgramRows(matrix, count, at_most, layer_of, unit_of)


def _check_reached(program: IntegerProgram, counts: dict[tuple[int, int], Floats]) -> None:
    """A figure above zero needs somebody to count; an exact one without any variable contradicts the others."""
    sums: dict[tuple[int, int], float] = {}
    for number, unit, count in zip(program.exact.layer, program.exact.unit, program.exact.count, strict=True):
        key = (int(number), int(unit))
        sums[key] = sums.get(key, 0.0) + float(count)
    for (number, unit), figures in counts.items():
        item = program.structure.layers[number]
        if not item.marginal.exact or not program.structure.rows_equal(item):
            continue
        if float(np.nansum(figures)) > sums.get((number, unit), 0.0):
            geography = program.structure.published.geography
            name = f"{geography.levels[item.marginal.depth]} {geography.units[item.marginal.depth][unit]}"
            raise NoSolution(
                f"{item.marginal.name} counts people whom other tables say do not exist", [item.marginal.name], name
            )


# Bounds that follow from bounds: what every solution has in common, found without a solver.
#
# For an equation Σ x_i = b with l_i ≤ x_i ≤ u_i, every solution has
#
#     b − Σ_{k≠i} u_k  ≤  x_i  ≤  b − Σ_{k≠i} l_k ,
#
# and the right half holds for *at most* too. The bounds are tightened in turn until none moves. Where they meet
# everywhere, there is one solution and no programme to solve; most small blocks end here.


ROUNDS = 200
"""Tightening stops after so many rounds. Looser bounds are still bounds."""


@dataclass(frozen=True, eq=False)
class ReducedProgram:
    """What is left of a programme's exact rows: the variables whose bounds differ, and the rows that count them."""

    lower: Floats = field(repr=False)
    upper: Floats = field(repr=False)
    """Of all variables of the programme."""
    free: Integers = field(repr=False)
    """The variables that are not determined."""
    matrix: Any = field(repr=False)
    """Rows by free variables."""
    least: Floats = field(repr=False)
    most: Floats = field(repr=False)
    """What the free variables of a row come to."""

    @property
    def determined(self) -> bool:
        """Whether every variable has one value in all solutions."""
        return not len(self.free)


def reduce(program: IntegerProgram) -> ReducedProgram:
    """The bounds of every variable, and the rows that are left when those with one value are taken out.

    Raises:
        NoSolution: If the bounds of a variable, or of a row, exclude one another.
    """
    matrix, count, at_most = program.exact.matrix, program.exact.count, program.exact.at_most
    lower, upper = np.zeros(program.size), program.upper.copy()
    if matrix.nnz:
        lower, upper = _tighten(program, matrix, count, at_most, lower, upper)
    # Variables whose bounds meet have their value; it goes to the right-hand sides.
    free = np.flatnonzero(upper > lower)
    fixed = np.where(upper > lower, 0.0, lower)
    remainder = count - matrix @ fixed
    part = sparse.csr_array(matrix[:, free]) if len(free) else sparse.csr_array((matrix.shape[0], 0))
    # Rows that count a free variable, each set of variables once.
    used = np.flatnonzero(np.diff(part.indptr))
    rows = _distinct(part, used, remainder, at_most)
    least = np.where(at_most[rows], -np.inf, remainder[rows])
    return ReducedProgram(lower, upper, free, part[rows], least, remainder[rows])


def _tighten(
    program: IntegerProgram, matrix: Any, count: Floats, at_most: Flags, lower: Floats, upper: Floats
) -> tuple[Floats, Floats]:
    """The bounds after as many rounds as it takes, by the formula above."""
    # The entries of the matrix, those of one variable together, so that one reduction gives the best of its rows.
    entries = matrix.tocoo()
    row, column = entries.coords
    order = np.argsort(column, kind="stable")
    row, column = row[order], column[order]
    first = np.flatnonzero(np.diff(column, prepend=-1))
    touched = column[first]
    equal = ~at_most[row]
    for _ in range(ROUNDS):
        # The least and the most that each row can come to; a count outside of that has no solution.
        low, high = matrix @ lower, matrix @ upper
        wrong = np.flatnonzero((low > count) | (~at_most & (high < count)))
        if len(wrong):
            name = program.row_name(program.exact, int(wrong[0]))
            unit = program.unit_name(program.exact, int(wrong[0]))
            raise NoSolution(f"{name} cannot be met together with the others", [name], unit)
        # From above: what the count leaves when all others of the row are at their least.
        above = np.minimum.reduceat((count - low)[row] + lower[column], first)
        # From below, for equations: what the others cannot make up even at their most. An infinite upper bound
        # elsewhere in the row says nothing; inf - inf would be NaN.
        with np.errstate(invalid="ignore"):
            gain = np.where(equal, (count - high)[row] + upper[column], -np.inf)
        below = np.maximum.reduceat(np.nan_to_num(gain, nan=-np.inf, neginf=-np.inf), first)
        new_upper, new_lower = upper.copy(), lower.copy()
        new_upper[touched] = np.minimum(upper[touched], above)
        new_lower[touched] = np.maximum(lower[touched], below)
        if np.array_equal(new_upper, upper) and np.array_equal(new_lower, lower):
            break
        # Bounds that pass one another: the rows of that variable exclude one another.
        if (new_lower > new_upper).any():
            at = int(np.flatnonzero(new_lower > new_upper)[0])
            rows = np.flatnonzero(matrix[:, [at]].toarray().ravel())
            names = [program.row_name(program.exact, int(each)) for each in rows]
            raise NoSolution("the figures of these tables exclude one another", names, None)
        lower, upper = new_lower, new_upper
    return lower, upper


def _distinct(part: Any, used: Integers, remainder: Floats, at_most: Flags) -> Integers:
    """One row for each set of free variables: many tables come down to the same. An equation goes before *at most*."""
    row_of_set: dict[bytes, int] = {}
    for row in used.tolist():
        key = part.indices[part.indptr[row] : part.indptr[row + 1]].tobytes()
        other = row_of_set.get(key)
        if other is None or (at_most[other] and (not at_most[row] or remainder[row] < remainder[other])):
            row_of_set[key] = row
            if other is not None and not at_most[row] and remainder[row] > remainder[other]:
                raise NoSolution("two tables count the same people differently")
        elif remainder[row] != remainder[other] and not (at_most[row] and remainder[row] >= remainder[other]):
            raise NoSolution("two tables count the same people differently")
    return np.array(sorted(row_of_set.values()), np.int64)


# HiGHS, as SciPy brings it, asked for whole solutions; every answer is checked again in whole numbers.
#
# A solver works with a tolerance. What it calls a solution is rounded to whole numbers and put into every row; only if
# all hold exactly is it one. Nothing is accepted in silence: an answer is *solved*, *infeasible*, or found when the
# time was up, and says so.


Status = Literal["solved", "time limit"]

OPTIMAL, LIMIT, INFEASIBLE = 0, 1, 2
DEFAULT_TIME = 10.0
"""Seconds for one programme."""


@dataclass(frozen=True, eq=False)
class SolverResult:
    """What the solver says: values (if any were found), the objective's value, and a bound that no solution passes."""

    status: Status
    values: Floats | None = field(repr=False)
    objective: float
    bound: float


def minimise(
    cost: Floats,
    matrix: Any,
    least: Floats,
    most: Floats,
    lower: Floats,
    upper: Floats,
    integers: Any,
    seconds: float,
    gap: float = 0.0,
) -> SolverResult:
    """Least cost subject to ``least ≤ matrix · x ≤ most`` and ``lower ≤ x ≤ upper``.

    Args:
        cost: One number for each variable, shape (n,).
        matrix: Sparse, shape (rows, n).
        least: The right-hand sides from below, shape (rows,); ``-inf`` for none.
        most: Those from above, shape (rows,).
        lower: The bounds of the variables from below, shape (n,).
        upper: Those from above, shape (n,); ``inf`` for none.
        integers: Which variables are whole numbers, shape (n,).
        seconds: How long the solver may take.
        gap: How far, relatively, the objective may be from the best that there can be.

    Returns:
        The values and the bound that no solution passes; without values if the time was up before any was there.

    Raises:
        NoSolution: If nothing satisfies the rows.

    >>> cost, matrix, sides, bounds = np.ones(1), sparse.csr_array([[2.0]]), ([3.0], [9.0]), ([0.0], [9.0])
    >>> minimise(cost, matrix, *map(np.array, (*sides, *bounds)), [1], 5.0).values
    array([2.])
    """
    # Presolve can fail where the plain solver does not: a second try without it, before anything is called a failure.
    rows = optimize.LinearConstraint(matrix, least, most)
    for presolve in (True, False):
        outcome = optimize.milp(
            cost,
            constraints=rows if matrix.shape[0] else (),
            bounds=optimize.Bounds(lower, upper),
            integrality=np.asarray(integers, np.uint8),
            options={"time_limit": seconds, "presolve": presolve, "mip_rel_gap": gap},
        )
        if outcome.status in (OPTIMAL, LIMIT, INFEASIBLE):
            break
    if outcome.status == INFEASIBLE:
        raise NoSolution("no records have these tables")
    if outcome.status not in (OPTIMAL, LIMIT):
        raise RunError("solver-failed/treat", status=outcome.status)
    bound = outcome.get("mip_dual_bound")
    return SolverResult(
        "solved" if outcome.status == OPTIMAL else "time limit",
        outcome.x,
        float(outcome.fun) if outcome.x is not None else np.inf,
        float(bound) if bound is not None else -np.inf,
    )


def integer_solution(reduced: ReducedProgram, cost: Floats | None, seconds: float) -> Integers | None:
    """A value for each variable of a programme, in whole numbers and checked; ``None`` if the time was up before any.

    Without a cost, the first solution that is found.
    """
    values = reduced.lower.astype(np.int64)
    if reduced.determined:
        return values
    low, high = reduced.lower[reduced.free], reduced.upper[reduced.free]
    chosen = np.zeros(len(reduced.free)) if cost is None else cost[reduced.free]
    answer = minimise(
        chosen, reduced.matrix, reduced.least, reduced.most, low, high, np.ones(len(reduced.free)), seconds
    )
    if answer.values is None:
        return None
    values[reduced.free] = check_integers(answer.values, reduced)
    return values


def check_integers(solution: Floats, reduced: ReducedProgram) -> Integers:
    """The values of the free variables as whole numbers, if these satisfy every bound and every row exactly."""
    rounded = np.rint(solution)
    sums = reduced.matrix @ rounded
    ok = (
        bool(np.abs(solution - rounded).max(initial=0.0) < 1e-3)
        and bool((rounded >= reduced.lower[reduced.free]).all() and (rounded <= reduced.upper[reduced.free]).all())
        and bool((sums >= reduced.least).all() and (sums <= reduced.most).all())
    )
    if not ok:
        raise RunError("not-whole/solver")
    values: Integers = rounded.astype(np.int64)
    return values


# Whole counts whose figures are closest to given ones: a start for the walk over noisy figures, and a way to tell
# which tables contradict one another.
#
#     minimise  Σ over noisy figures of |row · x − target| / σ    subject to every exact figure, x whole and ≥ 0
#
# with σ the standard deviation of the figure's noise. Where noise has a bound, row · x keeps to what the figure
# allows.


GAP = 1e-3
"""A fit is good enough within a thousandth of the least deviation: noise decides more than that."""
LEAST_VARIANCE = 1e-6
"""Noise that is next to never there has a variance of next to nothing; a solver wants weights of one size."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Whole counts, and their weighted deviation."""

    values: Integers = field(repr=False)
    deviation: float
    status: Status


def standard_deviations(program: IntegerProgram) -> Floats:
    """For each noisy row the standard deviation of its noise."""
    variances = [item.marginal.variance for item in program.structure.layers]
    by_layer = np.array(
        [1.0 if variance is None else sqrt(max(float(variance), LEAST_VARIANCE)) for variance in variances]
    )
    folds = program.noisy.layer.astype(np.int64)
    deviations: Floats = by_layer[folds] if len(folds) else np.zeros(0)
    return deviations


def allowed(program: IntegerProgram) -> tuple[Floats, Floats]:
    """For each noisy row how far the truth can be above the figure, and how far below; infinite without a bound."""
    count = program.noisy.count
    above, below = np.full(len(count), np.inf), np.full(len(count), np.inf)
    for number, item in enumerate(program.structure.layers):
        bound = item.marginal.bound
        if bound is not None and item.fold is None:
            here = np.flatnonzero(program.noisy.layer == number)
            above[here] = np.maximum(bound.highest(count[here]) - count[here], 0.0)
            below[here] = np.maximum(count[here] - bound.lowest(count[here]), 0.0)
    return above, below


def fit(program: IntegerProgram, reduced: ReducedProgram, seconds: float, target: Floats | None = None) -> Fit | None:
    """The closest whole counts, by least absolute deviation.

    Args:
        program: The programme, with its noisy rows.
        reduced: What its exact rows leave open.
        seconds: How long the solver may take.
        target: What the noisy rows should come to, shape (rows,); None: their figures.

    Returns:
        The counts, shape (variables,), and their deviation from the target in standard deviations; ``None`` if the
        time was up before any was there.
    """
    weights = 1.0 / standard_deviations(program)
    above, below = allowed(program)
    count = program.noisy.count
    wanted = count if target is None else np.clip(target, count - below, count + above)
    reach = (count + above - wanted, wanted - (count - below))
    rows = replace(program.noisy, count=wanted)
    nothing = np.zeros(program.size)
    answer = closest(rows, weights, reach, reduced, nothing, seconds, integers=True)
    if answer.values is None:
        if reduced.matrix.shape[0]:
            return None
        answer = closest(rows, weights, reach, reduced, nothing, seconds, integers=False)
        if answer.values is None:
            return None
    values = np.rint(answer.values[: program.size]).astype(np.int64)
    return Fit(values, deviation(program, values, rows.count), answer.status)


def deviation(program: IntegerProgram, values: Integers, target: Floats | None = None) -> float:
    """How far the noisy rows of whole counts are from their figures, or a target, in standard deviations in all."""
    wanted = program.noisy.count if target is None else target
    return float(np.abs(program.noisy.matrix @ values - wanted) @ (1.0 / standard_deviations(program)))


def closest(
    noisy: ProgramRows,
    weights: Floats,
    reach: tuple[Floats, Floats],
    reduced: ReducedProgram,
    small: Floats,
    seconds: float,
    *,
    integers: bool,
) -> SolverResult:
    """Minimises the weighted absolute deviations of some rows, each within its reach above and below, subject to what
    is left of the exact ones."""
    size, rows, free = len(reduced.lower), noisy.matrix.shape[0], reduced.free
    # The exact rows that are left, over all variables again and not the free ones alone.
    columns_of_free = sparse.csr_array((np.ones(len(free)), (np.arange(len(free)), free)), (len(free), size))
    exact = reduced.matrix @ columns_of_free if len(free) else sparse.csr_array((reduced.matrix.shape[0], size))
    # |row · x − figure| is linear with two more variables for each noisy row, how far above and how far below:
    #     row · x − above + below = figure,   0 ≤ above, below ≤ reach,   cost weight · (above + below).
    unit = sparse.eye_array(rows, format="csr")
    matrix = sparse.vstack(
        [
            sparse.hstack([exact, sparse.csr_array((exact.shape[0], 2 * rows))]),
            sparse.hstack([noisy.matrix, -unit, unit]),
        ],
        format="csc",
    )
    return minimise(
        np.concatenate([small, weights, weights]),
        matrix,
        np.concatenate([reduced.least, noisy.count]),
        np.concatenate([reduced.most, noisy.count]),
        np.concatenate([reduced.lower, np.zeros(2 * rows)]),
        np.concatenate([reduced.upper, *reach]),
        np.concatenate([np.full(size, integers), np.zeros(2 * rows, bool)]),
        seconds,
        GAP,
    )
