"""Small problems: guess which variables are 0 and which side rows bind, solve the equations, correct the guess.

A primal-dual active set method. With the guess fixed the problem is a least-squares problem with equations, solved by
conjugate gradients in the null space of the equations: on variables that are free, the parent sums only need a mean to
be taken out for each cell, and the side rows a small dense system. Where nearly all weight is on single cells, as at
block level, some ten products with H are enough. A guess that reproduces itself satisfies the optimality conditions
exactly; a guess that returns means a cycle, and the method gives up, which the caller sees and reports.
Reference: Hintermüller, Ito and Kunisch (2002), The primal-dual active set strategy as a semismooth Newton method.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ConfideError, Finding, Place
from confide.estimation.prepare import Point, Prepared

STEPS = 100
TRIES = 8
"""How many corrections in a row may be larger than the smallest one so far, and than FEW."""
FEW = 8
_EXACT = 1e-10
_ZERO = 1e-9
_MISSED = 1e-8
"""An equation that is missed by more than this contradicts the others."""


class _NullSpace:
    """Vectors on the free variables whose block sums and binding side rows are 0; weighted by the diagonal of H."""

    def __init__(self, prepared: Prepared, free: Booleans, binding: Integers, inverse: Floats):
        self.prepared, self.binding = prepared, binding
        self.inverse = np.where(free, inverse, 0.0)
        self.blocks: Floats | None = None
        if prepared.sums is not None:
            # One over the weight of each block: multiplying by it takes the weighted mean. A block without free
            # variables is 0.
            weight = self.inverse.sum(prepared.axis, keepdims=True)
            self.blocks = np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0)
        if len(binding):
            rows = prepared.rows
            # The pairs (row, variable) of the binding rows alone, the rows numbered anew.
            number_of = np.full(rows.count, -1, np.int64)
            number_of[binding] = np.arange(len(binding))
            here = number_of[rows.row] >= 0
            self.row, self.variable = number_of[rows.row[here]], rows.variable[here]
            self.system = self._row_system()

    def _row_system(self) -> Floats:
        """The pseudo-inverse of A M A': equations may repeat what the parent sums say."""
        count, shape = len(self.binding), self.inverse.shape
        weight = self.inverse.ravel()[self.variable]
        block = self.variable // shape[1] if self.prepared.axis == 1 else np.zeros(len(self.variable), np.int64)
        blocks = shape[0] if self.prepared.axis == 1 else 1
        together = np.zeros((count, count))
        # A M A' with M the inverse diagonal: dense where that is small, otherwise as a product of sparse matrices.
        dense = np.zeros((count, shape[0] * shape[1])) if count * self.inverse.size <= 200_000 else None
        if dense is not None:
            dense[self.row, self.variable] = 1.0
            together = (dense * self.inverse.ravel()) @ dense.T
        else:
            matrix = sp.csr_array((np.sqrt(weight), (self.row, self.variable)), shape=(count, self.inverse.size))
            together = (matrix @ matrix.T).toarray()
        # The block sums are taken out first, so M is replaced by M - M 1 (1' M 1)^-1 1' M, block by block.
        if self.blocks is not None:
            sums = np.zeros((count, blocks))
            np.add.at(sums, (self.row, block), weight)
            together = together - (sums * self.blocks.ravel()) @ sums.T
        # Rows that follow from others have eigenvalue 0, up to rounding: the pseudo-inverse leaves them out.
        values, vectors = np.linalg.eigh(together)
        large = values > 1e-11 * max(float(values[-1]), 0.0)
        return np.asarray((vectors[:, large] / values[large]) @ vectors[:, large].T)

    def _without_blocks(self, v: Floats) -> tuple[Floats, Floats | None]:
        if self.blocks is None:
            return self.inverse * v, None
        weighted = self.inverse * v
        level = weighted.sum(self.prepared.axis, keepdims=True) * self.blocks
        return weighted - self.inverse * level, level

    def _row_sums(self, v: Floats) -> Floats:
        return np.asarray(np.bincount(self.row, v.ravel()[self.variable], len(self.binding)), np.float64)

    def _row_adjoint(self, values: Floats) -> Floats:
        explained = np.bincount(self.variable, values[self.row], self.inverse.size)
        return np.asarray(explained, np.float64).reshape(self.inverse.shape)

    def direction(self, v: Floats, rows: bool = True) -> tuple[Floats, Floats, Floats]:
        """``M v`` in the null space, the multipliers of the binding rows, and v less what all multipliers explain."""
        result, level = self._without_blocks(v)
        if not (rows and len(self.binding)):
            return result, np.zeros(0), v if level is None else v - level
        multipliers = self.system @ self._row_sums(result)
        unexplained = v - self._row_adjoint(multipliers)
        result, level = self._without_blocks(unexplained)
        return result, multipliers, unexplained if level is None else unexplained - level

    def onto(self, x: Floats, values: Floats) -> Floats:
        """The nearest point, in the metric of the weights, that satisfies the equations."""
        # Twice: the second round takes out the rounding errors of the first, which matter where counts are large.
        for _ in range(2):
            if self.blocks is not None and self.prepared.sums is not None:
                missing = self.prepared.sums - x.sum(self.prepared.axis, keepdims=True)
                x = x + self.inverse * (missing * self.blocks)
            if len(self.binding):
                multipliers = self.system @ (values - self._row_sums(x))
                x = x + self._without_blocks(self._row_adjoint(multipliers))[0]
        return x


def _dot(a: Floats, b: Floats) -> float:
    """The inner product, added up in one order whatever the number of threads."""
    return float(np.einsum("ij,ij->", a, b))


def _conjugate_gradients(prepared: Prepared, space: _NullSpace, x: Floats, tolerance: float, steps: int) -> Floats:
    """Minimises f over x plus the null space."""
    product = prepared.hessian.product
    # f = x'Hx - ..., so half of the negative gradient is the residual of the normal equations.
    residual = prepared.hessian.gradient(x) * -0.5
    step, _, residual = space.direction(residual)
    direction = step
    size = _dot(residual, step)
    for _ in range(steps):
        if float(np.abs(step).max(initial=0.0)) <= tolerance:
            break
        # The exact step along the direction: where f, restricted to the line, has its minimum.
        image = product(direction)
        curvature = _dot(direction, image)
        if curvature <= 0.0:
            break
        length = size / curvature
        x = x + length * direction
        residual = residual - length * image
        # Back into the null space: rounding errors would lead out of it, and the equations would be lost.
        step, _, residual = space.direction(residual)
        before, size = size, _dot(residual, step)
        if not size > 0.0:
            break
        # Conjugate to all directions before (Fletcher and Reeves).
        direction = step + (size / before) * direction
    return x


def _inverse_diagonal(prepared: Prepared) -> Floats:
    diagonal = prepared.hessian.full_diagonal
    # A preconditioner only: cells without weight of their own get a small one, so that nothing is divided by 0.
    top = float(diagonal.max(initial=0.0)) or 1.0
    return 1.0 / np.maximum(diagonal, 1e-3 * top)


@dataclass(slots=True)
class _Guess:
    """Which variables are free, and where the side rows are: -1 at the lower bound, 1 at the upper, 0 between."""

    free: Booleans
    status: Integers

    def correct(self, leave: Booleans, enter: Booleans, status: Integers) -> int:
        """Takes the corrections over and counts them."""
        changes = int(leave.sum()) + int(enter.sum()) + int((status != self.status).sum())
        self.free = (self.free & ~leave) | enter
        self.status = status
        return changes


def _resolve(
    prepared: Prepared,
    space: _NullSpace,
    guess: _Guess,
    missing: Floats,
    row_multipliers: Floats,
    cost: Floats,
    missed: float,
) -> int:
    """Corrects a guess whose equations contradict each other; counts the corrections, 0 if there is none to make.

    The part of the equations that cannot be met is a ray along which the multipliers can go, and the dual objective
    rises. A row whose multiplier turns its sign on the way changes sides, which makes the rise slower; where the rise
    ends, the row is let go. A variable whose cost falls to 0 before that is freed.
    """
    rows, binding = prepared.rows, space.binding
    ray = np.zeros(rows.count)
    ray[binding] = missing
    # A binding row with no free variable at all cannot be met: free the variables it has.
    empty = np.bincount(space.row, guess.free.ravel()[space.variable], len(binding)) == 0
    if bool((empty & (np.abs(missing) > missed)).any()):
        starved = np.zeros(rows.count, np.bool_)
        starved[binding[empty & (np.abs(missing) > missed)]] = True
        enter = np.zeros(guess.free.size, np.bool_)
        enter[rows.variable[starved[rows.row]]] = True
        return guess.correct(np.zeros_like(guess.free), enter.reshape(guess.free.shape) & ~guess.free, guess.status)
    # How fast the cost of each variable that is held at 0 falls along the ray, and where the first one reaches 0.
    _, _, fall = space.direction(rows.adjoint(ray, guess.free.shape), rows=False)
    held = prepared.free & ~guess.free & (fall > 1e-9)
    reach = np.where(held, np.maximum(cost, 0.0) / np.where(held, fall, 1.0), np.inf)
    first = float(reach.min(initial=np.inf))
    status = guess.status.copy()
    # Rows with two sides whose multiplier runs towards 0 along the ray, in the order in which they get there.
    turning = np.flatnonzero((rows.low < rows.high)[binding] & (missing * guess.status[binding] > missed * 1e-3))
    order = turning[np.argsort(-row_multipliers[turning] / missing[turning], kind="stable")]
    # The slope of the dual objective along the ray; each row that turns makes it smaller, by what it misses times its
    # width.
    rise = float((missing * missing).sum())
    for place in order:
        if -row_multipliers[place] / missing[place] > first:
            break
        row = int(binding[place])
        rise -= abs(float(missing[place])) * float(rows.high[row] - rows.low[row])
        status[row] = 0 if rise <= 0.0 else -status[row]
        if rise <= 0.0:
            return guess.correct(np.zeros_like(guess.free), np.zeros_like(guess.free), status)
    return guess.correct(np.zeros_like(guess.free), held & (reach <= first), status)


def active_set(prepared: Prepared, start: Floats, status: Integers | None = None, steps: int = STEPS) -> Point:
    """Improves ``start``: its positive entries are the first guess of the free variables.

    ``status`` is the first guess for the side rows: -1 at the lower bound, 1 at the upper, 0 between.
    """
    rows, allowed = prepared.rows, prepared.free
    inverse = _inverse_diagonal(prepared)
    steepness = 2.0 / float(inverse.min(initial=1.0))
    largest = float(np.abs(start).max(initial=1.0))
    exact, zero, missed = max(_EXACT, 1e-15 * largest), max(_ZERO, 1e-14 * largest), max(_MISSED, 1e-13 * largest)
    # An equation always binds; its side is of no importance.
    equation = rows.low == rows.high
    if status is None:
        sums = rows.sums(start)
        status = np.where(sums < rows.low, -1, np.where(sums > rows.high, 1, 0))
    guess = _Guess(allowed & (start > 1e-7), np.where(equation, -1, status))
    multipliers, states = np.zeros(rows.count), set[int]()
    x, tolerance, least, tries, step = start, 1e-3, start.size + 1, TRIES, 0
    while step < steps:
        step += 1
        # 1. With the guess fixed: the equations, and the nearest point that satisfies them.
        binding = np.flatnonzero(guess.status != 0)
        space = _NullSpace(prepared, guess.free, binding, inverse)
        values = np.where(guess.status < 0, rows.low, rows.high)[binding]
        x = space.onto(np.where(guess.free, x, 0.0), values)
        # What is still missing contradicts the other equations: the guess is impossible, not only wrong.
        missing = values - rows.sums(x)[binding]
        clash = bool((np.abs(missing) > missed).any())
        # 2. The least-squares problem with these equations, as exactly as the guess deserves so far.
        x = _conjugate_gradients(prepared, space, x, tolerance, 20 if clash else 1000)
        # 3. The multipliers of the rows, and the reduced cost of every variable.
        _, row_multipliers, reduced = space.direction(prepared.hessian.gradient(x))
        multipliers = np.zeros(rows.count)
        multipliers[binding] = row_multipliers
        if clash:
            if _resolve(prepared, space, guess, missing, row_multipliers, reduced, missed) == 0:
                break
            continue
        # 4. Correct the guess: negative variables leave, variables that would lower f enter, ...
        leave = guess.free & (x < -max(zero, tolerance * 1e-2))
        enter = allowed & ~guess.free & (reduced < -steepness * max(zero, tolerance * 1e-2))
        # ... rows that are broken bind, and rows whose multiplier has the wrong sign are let go.
        sums, slack = rows.sums(x), max(zero, tolerance * 1e-2)
        new = np.where(sums < rows.low - slack, -1, np.where(sums > rows.high + slack, 1, guess.status))
        new = np.where(multipliers * guess.status > steepness * zero, 0, new)
        changes = guess.correct(leave, enter, np.where(equation, -1, new))
        # 5. A guess that reproduces itself is optimal, once its equations were solved to the last digits.
        if changes == 0:
            if tolerance <= exact:
                return Point(np.maximum(x, 0.0), multipliers, step, finished=True)
            tolerance = exact
            continue
        # 6. Give up where corrections do not become fewer, or a guess returns: it would go on for ever.
        if changes < least:
            least, tries = changes, TRIES
        elif changes > FEW:
            tries -= 1
        state = hash((guess.free.tobytes(), guess.status.tobytes()))
        if tries == 0 or state in states:
            break
        states.add(state)
        tolerance = max(tolerance * 0.1, 1e-6)
    return Point(np.maximum(x, 0.0), multipliers, step, finished=False)


# How far a point can be from the optimum: an upper bound that anybody can recompute.
#
# For a feasible x, any multipliers v of the side rows ``low <= A x <= high`` and any multipliers m of the blocks (a
# block is what one parent sum adds up), convexity and weak duality give, with ``s = grad f(x) - A'v - m`` and D the
# weight that each variable has by itself (docs/proofs/estimation.md),
#
#     f(x) - f*  <=  gap  =  sum over variables of  max over 0 <= x + t <= cap of  -(s t + D t^2)
#                            + sum of v+ (A x - low) + v- (high - A x)  +  sum of m (block sum of x - p)
#
# The multipliers need not be good, and the solver that found them need not be trusted: bad ones only make the bound
# larger. As f is a sum of squares, f* is at least 0, and f(x) is a bound as well.


GAP = 1e-6
"""Accepted: a gap of at most this share of the objective."""
VIOLATION = 1e-7
"""Accepted: a violation of any constraint by at most this (the production feasibility tolerance)."""


@dataclass(frozen=True, slots=True)
class OptimalityCertificate:
    """An objective, the proved bound on its distance to the optimum, and the largest violation of a constraint."""

    objective: float
    gap: float
    relative_gap: float
    violation: float
    limit: float = VIOLATION
    """What violation is accepted: 1e-7, or a few units in the last place of the largest sum."""

    @property
    def feasible(self) -> bool:
        """Whether all constraints hold within the tolerance."""
        return self.violation <= self.limit

    def accepts(self) -> bool:
        """Whether the point is optimal and feasible within the tolerances."""
        return self.feasible and self.relative_gap <= GAP


def _steepest(prepared: Prepared, x: Floats, slope: Floats, caps: Floats) -> Floats:
    """For every variable the most that ``-(s t + D t^2)`` can come to."""
    weight = prepared.hessian.diagonal
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.clip(-slope / (2.0 * weight), -x, np.maximum(caps - x, 0.0))
        most = np.where(prepared.free & (slope != 0.0), -(slope + weight * t) * t, 0.0)
    return np.nan_to_num(most, nan=np.inf, posinf=np.inf)


def duality_gap(prepared: Prepared, x: Floats, multipliers: Floats, value: float) -> float:
    """The bound above. Multipliers of sides that have no bound count as 0; those of blocks are chosen here."""
    rows, axis = prepared.rows, prepared.axis
    slack = 0.0
    slope = prepared.hessian.gradient(x)
    caps = prepared.caps(value)
    if rows.count:
        up = np.where(np.isfinite(rows.low), np.maximum(multipliers, 0.0), 0.0)
        down = np.where(np.isfinite(rows.high), np.maximum(-multipliers, 0.0), 0.0)
        sums = rows.sums(x)
        slack += float((up * np.where(up > 0, sums - rows.low, 0.0)).sum())
        slack += float((down * np.where(down > 0, rows.high - sums, 0.0)).sum())
        slope = slope - rows.adjoint(up - down, x.shape)
    if prepared.sums is None:
        return slack + float(_steepest(prepared, x, slope, caps).sum())
    excess = x.sum(axis, keepdims=True) - prepared.sums
    lowest = np.where(prepared.free, slope, np.inf).min(axis, keepdims=True, initial=np.inf)
    lowest = np.where(np.isfinite(lowest), lowest, 0.0)
    positive = x > 1e-6
    number = np.maximum(positive.sum(axis, keepdims=True), 1)
    middle = np.where(positive, slope, 0.0).sum(axis, keepdims=True) / number
    best = np.full(excess.shape, np.inf)
    for level in (middle, lowest):
        part = _steepest(prepared, x, slope - level, caps).sum(axis, keepdims=True) + level * excess
        best = np.minimum(best, part)
    return slack + float(best.sum())


def certify(prepared: Prepared, x: Floats, multipliers: Floats) -> OptimalityCertificate:
    """The certificate of a point. A slightly negative gap is rounding, or the reward of a slight violation."""
    value = prepared.hessian.value(x)
    # A sum of squares is nowhere below zero: where everything can be met, that is the sharper bound.
    gap = min(duality_gap(prepared, x, multipliers, value), value)
    relative = abs(gap) / max(value + prepared.problem.scale, float(np.finfo(np.float64).tiny))
    limit = max(VIOLATION, 8.0 * float(np.finfo(np.float64).eps) * float(x.sum()))
    return OptimalityCertificate(value, gap, relative, prepared.problem.violation(x), limit)


# Whether a problem has a solution at all, and if not, which constraints clash: a linear program.
#
# The parent sums and structural zeros are kept, the side rows may give way, and the sum of what they give is
# minimised (HiGHS, by way of scipy). The constraints can be met together exactly if the minimum is 0; otherwise the
# rows that give way are named.


TOLERANCE = 1e-6
_SHOWN = 20


class InfeasibleError(ConfideError):
    """The constraints of a node problem contradict each other."""


def clashes(prepared: Prepared) -> list[Finding]:
    """What cannot be met, by name; empty if the problem has a solution."""
    findings = _nowhere(prepared)
    if findings:
        return findings[:_SHOWN]
    rows, count = prepared.rows, int(prepared.free.sum())
    if not rows.count:
        return []
    number = np.full(prepared.free.shape, -1, np.int64)
    number[prepared.free] = np.arange(count)
    matrix = sp.csr_array(
        (np.ones(len(rows.row)), (rows.row, number.ravel()[rows.variable])), shape=(rows.count, count)
    )
    give = sp.eye_array(rows.count)
    equations, right = None, None
    if prepared.sums is not None:
        blocks = np.broadcast_to(np.arange(prepared.sums.size).reshape(prepared.sums.shape), prepared.free.shape)
        shape = (prepared.sums.size, count + 2 * rows.count)
        equations = sp.csr_array((np.ones(count), (blocks[prepared.free], np.arange(count))), shape=shape)
        right = prepared.sums.ravel()
    above, below = np.isfinite(rows.high), np.isfinite(rows.low)
    nothing = sp.csr_array((rows.count, rows.count))
    upper = sp.hstack([matrix, -give, nothing], format="csr")[above]
    lower = sp.hstack([-matrix, nothing, -give], format="csr")[below]
    cost = np.concatenate([np.zeros(count), np.ones(2 * rows.count)])
    limits = np.concatenate([rows.high[above], -rows.low[below]])
    from scipy.optimize import linprog

    result = linprog(cost, sp.vstack([upper, lower], format="csr"), limits, equations, right, method="highs")
    if result.x is None:
        raise ConfideError("feasibility", found=str(result.message))
    given = result.x[count : count + rows.count] - result.x[count + rows.count :]
    if float(np.abs(given).max(initial=0.0)) <= TOLERANCE:
        return []
    worst = sorted(np.flatnonzero(np.abs(given) > TOLERANCE), key=lambda row: -abs(given[row]))
    return [_named(prepared, int(row), float(given[row])) for row in worst[:_SHOWN]]


def _nowhere(prepared: Prepared) -> list[Finding]:
    """Blocks with people and no place to put them."""
    if prepared.sums is None:
        return []
    empty = ~prepared.free.any(prepared.axis, keepdims=True) & (prepared.sums > 0)
    names = [f"cell {block}" if prepared.problem.parent is not None else "total" for block in np.flatnonzero(empty)]
    return [Finding.of("infeasible/child", where=Place(path=name)) for name in names]


def _named(prepared: Prepared, row: int, given: float) -> Finding:
    name, group, child = prepared.rows.names[row]
    unit = "sum over children" if child < 0 else prepared.problem.child_name(child)
    limit = prepared.rows.high[row] if given > 0 else prepared.rows.low[row]
    return Finding.of(
        "infeasible/bound",
        where=Place(path=f"{name}, group {group}, {unit}"),
        more=given > 0,
        limit=limit + given,
        limit_expected=limit,
    )
