"""Least squares on full tables: a dual semismooth Newton method, compiled.

The problem (:class:`~confide.estimation.full_tables.FullTables`), with x[k, c] for class k and child c:

    minimise    sum d (x - y)^2 / 2  +  sum over coarse answers w (M x - a)^2 / 2
    subject to  x >= 0,  sum over children of x[k, c] = p[k],  sum over the classes of a held group of x[., c] = P[g, c]

The multipliers are alpha of classes, beta of (held group, child) and lambda of (answer, child). For any of them, x =
[y - t / d]+ with t = alpha + beta + sum of lambda minimises the Lagrangian, whose value is a concave function with one
derivative. Newton steps solve for the positive variables alone, by conjugate gradients; after each of them columns and
rows are projected exactly. Where the function rises too little, the system is damped (Levenberg and Marquardt).

Where that does not end, as with answers a thousand times as precise as cells, every variable is kept near the best
point so far, with a weight that falls to nothing as the point moves on (the proximal point method). A variable that
nothing measures by itself (d = 0) is kept near the last point in any case.

Everything is added up in one order, so that equal problems give equal bytes. References: Qi and Sun (1993), A nonsmooth
version of Newton's method; Rockafellar (1976), Monotone operators and the proximal point algorithm; Li, Sun and Toh
(2018), A highly efficient semismooth Newton augmented Lagrangian method.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from confide.arrays import Floats, Integers

# What is compiled is kept on the disk by the names of the classes below: whoever renames one clears ``__pycache__``.
_compiled = numba.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")

CG_STEPS = 400
TRIES = 10
"""How often a step is shortened."""
SHORTER = 0.4
RISE = 0.1
"""The part of the rise that the slope promises which is enough."""
PATIENCE = 40
"""So many steps without an end, and every variable is kept near the best point."""
NEAR = 1e3
"""With so many times the least weight at first; it falls by the factor ``EASE`` for each problem that is solved."""
EASE = 10.0
EXACT, POLISH = 1e-12, 6
"""What is accepted is made better by so many steps at most, until it is as good as this: the order of cells does not
show then."""
NOTHING = 1e-13


class TableShapes(NamedTuple):
    """Where the variables are (:class:`~confide.estimation.full_tables.TableLayout`), and for each class the answers
    that it is a part of; −1 is none."""

    first: Integers
    start: Integers
    offset: Integers
    kid: Integers
    group: Integers


class TableMeasurements(NamedTuple):
    """What is wanted of the variables: measurements with one over their variances, and sums."""

    y: Floats
    weight: Floats
    """Of a variable by itself, or 0."""
    answers: Floats
    w: Floats
    """Of each answer in each child, above 0."""
    rows: bool
    """Whether classes have sums ``p``."""
    columns: bool
    """Whether held groups have counts ``held``."""
    p: Floats
    held: Floats


class TableMultipliers(NamedTuple):
    """Of classes, of pairs of held group and child, and of answers in children."""

    alpha: Floats
    beta: Floats
    lam: Floats


@_compiled
def _threshold(value: Floats, inverse: Floats, count: int, total: float) -> float:
    """The tau with sum of max(0, (value - tau) * inverse) = total > 0 (Michelot 1986)."""
    summed, mass = 0.0, 0.0
    for i in range(count):
        summed += value[i] * inverse[i]
        mass += inverse[i]
    tau = (summed - total) / mass
    before = count + 1
    while True:
        summed, mass, inside = 0.0, 0.0, 0
        for i in range(count):
            if value[i] > tau:
                summed += value[i] * inverse[i]
                mass += inverse[i]
                inside += 1
        if inside == 0 or inside >= before:
            return tau
        before = inside
        tau = (summed - total) / mass


@_compiled
def _project(
    tables: TableShapes, task: TableMeasurements, y: Floats, d: Floats, shift: Floats, at: TableMultipliers
) -> None:
    """The beta with which every held group of every child adds up, then the alpha with which every class does."""
    most = 1
    for g in range(len(tables.first) - 1):
        tall, wide = tables.first[g + 1] - tables.first[g], tables.start[g + 1] - tables.start[g]
        most = max(most, tall, wide)
    value, inverse = np.empty(most), np.empty(most)
    for g in range(len(tables.first) - 1):
        begin, first, base = tables.start[g], tables.first[g], tables.offset[g]
        tall, wide = tables.first[g + 1] - first, tables.start[g + 1] - begin
        if task.columns:
            for j in range(wide):
                for i in range(tall):
                    e = base + i * wide + j
                    value[i] = y[e] * d[e] - at.alpha[first + i] - shift[e]
                    inverse[i] = 1.0 / d[e]
                at.beta[begin + j] = _threshold(value, inverse, tall, task.held[begin + j])
        if task.rows:
            for i in range(tall):
                for j in range(wide):
                    e = base + i * wide + j
                    value[j] = y[e] * d[e] - at.beta[begin + j] - shift[e]
                    inverse[j] = 1.0 / d[e]
                at.alpha[first + i] = _threshold(value, inverse, wide, task.p[first + i])


@_compiled
def _shifts(tables: TableShapes, lam: Floats, shift: Floats) -> None:
    """For every variable the sum of the multipliers of the answers that it is a part of."""
    shift[:] = 0.0
    for g in range(len(tables.first) - 1):
        begin, wide = tables.start[g], tables.start[g + 1] - tables.start[g]
        for k in range(tables.first[g], tables.first[g + 1]):
            base = tables.offset[g] + (k - tables.first[g]) * wide
            for q in range(tables.group.shape[1]):
                answer = tables.group[k, q]
                if answer >= 0:
                    for j in range(wide):
                        shift[base + j] += lam[answer, tables.kid[begin + j]]


@_compiled
def _answers(tables: TableShapes, x: Floats, answers: Floats) -> None:
    """M x."""
    answers[:] = 0.0
    for g in range(len(tables.first) - 1):
        begin, wide = tables.start[g], tables.start[g + 1] - tables.start[g]
        for k in range(tables.first[g], tables.first[g + 1]):
            base = tables.offset[g] + (k - tables.first[g]) * wide
            for q in range(tables.group.shape[1]):
                answer = tables.group[k, q]
                if answer >= 0:
                    for j in range(wide):
                        if x[base + j] != 0.0:
                            answers[answer, tables.kid[begin + j]] += x[base + j]


@_compiled
def _evaluate(
    tables: TableShapes, task: TableMeasurements, y: Floats, d: Floats, shift: Floats, at: TableMultipliers, x: Floats
) -> float:
    """x from the multipliers, and the value of the dual function."""
    value = 0.0
    for g in range(len(tables.first) - 1):
        begin, wide = tables.start[g], tables.start[g + 1] - tables.start[g]
        for k in range(tables.first[g], tables.first[g + 1]):
            base = tables.offset[g] + (k - tables.first[g]) * wide
            for j in range(wide):
                e = base + j
                t = at.alpha[k] + at.beta[begin + j] + shift[e]
                z = y[e] - t / d[e]
                if z > 0.0:
                    x[e] = z
                    value += 0.5 * d[e] * (z - y[e]) ** 2 + t * z
                else:
                    x[e] = 0.0
                    value += 0.5 * d[e] * y[e] ** 2
    if task.rows:
        for k in range(len(at.alpha)):
            value -= at.alpha[k] * task.p[k]
    if task.columns:
        for j in range(len(at.beta)):
            value -= at.beta[j] * task.held[j]
    for i in range(task.w.shape[0]):
        for c in range(task.w.shape[1]):
            value -= 0.5 * at.lam[i, c] ** 2 / task.w[i, c] + at.lam[i, c] * task.answers[i, c]
    return value


@_compiled
def repair(tables: TableShapes, task: TableMeasurements, x: Floats) -> None:
    """Makes all sums exact: what is too large is scaled down, what is missing is filled in from the north-west corner,
    which a full table with equal sums always allows."""
    for g in range(len(tables.first) - 1):
        begin, first, base = tables.start[g], tables.first[g], tables.offset[g]
        tall, wide = tables.first[g + 1] - first, tables.start[g + 1] - begin
        missing = np.zeros(wide)
        if task.columns:
            for j in range(wide):
                total, largest = 0.0, base + j
                for i in range(tall):
                    total += x[base + i * wide + j]
                    if x[base + i * wide + j] > x[largest]:
                        largest = base + i * wide + j
                if total > task.held[begin + j]:
                    for i in range(tall):
                        x[base + i * wide + j] *= task.held[begin + j] / total
                    total = task.held[begin + j]
                missing[j] = task.held[begin + j] - total
                if not task.rows:
                    x[largest] += missing[j]
        if not task.rows:
            continue
        for i in range(tall):
            total, largest = 0.0, base + i * wide
            for j in range(wide):
                total += x[base + i * wide + j]
                if x[base + i * wide + j] > x[largest]:
                    largest = base + i * wide + j
            if total > task.p[first + i]:
                for j in range(wide):
                    part = x[base + i * wide + j] * (1.0 - task.p[first + i] / total)
                    x[base + i * wide + j] -= part
                    missing[j] += part
            elif not task.columns:
                x[largest] += task.p[first + i] - total
        corner = 0
        for i in range(tall if task.columns else 0):
            short = task.p[first + i]
            for j in range(wide):
                short -= x[base + i * wide + j]
            while short > NOTHING and corner < wide:
                part = min(short, missing[corner])
                x[base + i * wide + corner] += part
                short -= part
                missing[corner] -= part
                if missing[corner] <= NOTHING:
                    corner += 1


@_compiled
def objective(task: TableMeasurements, x: Floats, answers: Floats) -> float:
    """The halved sum of squares at a point and its answers."""
    value = 0.0
    for e in range(len(x)):
        value += 0.5 * task.weight[e] * (x[e] - task.y[e]) ** 2
    for i in range(answers.shape[0]):
        for c in range(answers.shape[1]):
            value += 0.5 * task.w[i, c] * (answers[i, c] - task.answers[i, c]) ** 2
    return value


@_compiled
def duality_gap(
    tables: TableShapes,
    task: TableMeasurements,
    y: Floats,
    d: Floats,
    at: TableMultipliers,
    good: Floats,
    answers: Floats,
) -> float:
    """The objective less the value of the dual function, for a point that keeps all sums, and any multipliers.

    What rows and columns contribute cancels, and what is left is a sum of terms of which none is negative: for a
    variable the cost of not being at its own minimum, and for an answer w (M x - a - lambda / w)^2 / 2. A variable
    without a weight of its own has its minimum at 0, or at the most that its row and its column allow.
    """
    shift = np.empty(len(good))
    _shifts(tables, at.lam, shift)
    gap = 0.0
    for g in range(len(tables.first) - 1):
        begin, wide = tables.start[g], tables.start[g + 1] - tables.start[g]
        for k in range(tables.first[g], tables.first[g + 1]):
            base = tables.offset[g] + (k - tables.first[g]) * wide
            for j in range(wide):
                e = base + j
                t = at.alpha[k] + at.beta[begin + j] + shift[e]
                if d[e] > 0.0:
                    z = y[e] - t / d[e]
                    if z > 0.0:
                        gap += 0.5 * d[e] * (good[e] - z) ** 2
                    else:
                        gap += 0.5 * d[e] * good[e] ** 2 - d[e] * z * good[e]
                elif t >= 0.0:
                    gap += t * good[e]
                else:
                    most = np.inf
                    if task.rows:
                        most = task.p[k]
                    if task.columns:
                        most = min(most, task.held[begin + j])
                    gap -= t * max(most - good[e], 0.0)
    for i in range(answers.shape[0]):
        for c in range(answers.shape[1]):
            gap += 0.5 * task.w[i, c] * (answers[i, c] - task.answers[i, c] - at.lam[i, c] / task.w[i, c]) ** 2
    return gap


@_compiled
def _residuals(
    tables: TableShapes, task: TableMeasurements, at: TableMultipliers, x: Floats, residual: TableMultipliers
) -> int:
    """The slope of the dual function, and how many variables are positive."""
    residual.alpha[:] = 0.0
    residual.beta[:] = 0.0
    positive = 0
    for g in range(len(tables.first) - 1):
        begin, wide = tables.start[g], tables.start[g + 1] - tables.start[g]
        for k in range(tables.first[g], tables.first[g + 1]):
            base = tables.offset[g] + (k - tables.first[g]) * wide
            for j in range(wide):
                if x[base + j] > 0.0:
                    residual.alpha[k] += x[base + j]
                    residual.beta[begin + j] += x[base + j]
                    positive += 1
    for k in range(len(at.alpha)):
        residual.alpha[k] = residual.alpha[k] - task.p[k] if task.rows else 0.0
    for j in range(len(at.beta)):
        residual.beta[j] = residual.beta[j] - task.held[j] if task.columns else 0.0
    _answers(tables, x, residual.lam)
    for i in range(at.lam.shape[0]):
        for c in range(at.lam.shape[1]):
            residual.lam[i, c] -= task.answers[i, c] + at.lam[i, c] / task.w[i, c]
    return positive


@_compiled
def _direction(
    tables: TableShapes,
    task: TableMeasurements,
    x: Floats,
    d: Floats,
    residual: TableMultipliers,
    positive: int,
    damping: float,
    tolerance: float,
    step: TableMultipliers,
) -> int:
    """One Newton direction: (A diag(1/d) A' + diag(1/w) + damping) step = residual over the positive variables.

    All multipliers are one vector: those of classes, of held groups, and of the answers that a positive variable is a
    part of; the others are found by a division. A sum without a positive variable has the curvature of one variable.
    Returns the steps of conjugate gradients.
    """
    classes, pairs, queries = len(step.alpha), len(step.beta), tables.group.shape[1]
    of_variable = np.full((positive, queries + 2), -1, np.int32)
    inverse = np.empty(positive)
    answers, children = step.lam.shape
    place = np.full((answers, children), -1, np.int32)
    size, number, typical = classes + pairs, 0, 1e300
    for g in range(len(tables.first) - 1):
        begin, wide = tables.start[g], tables.start[g + 1] - tables.start[g]
        for k in range(tables.first[g], tables.first[g + 1]):
            base = tables.offset[g] + (k - tables.first[g]) * wide
            for j in range(wide):
                typical = min(typical, 1.0 / d[base + j])
                if x[base + j] <= 0.0:
                    continue
                inverse[number] = 1.0 / d[base + j]
                if task.rows:
                    of_variable[number, 0] = k
                if task.columns:
                    of_variable[number, 1] = classes + begin + j
                child = tables.kid[begin + j]
                for q in range(queries):
                    answer = tables.group[k, q]
                    if answer >= 0:
                        if place[answer, child] < 0:
                            place[answer, child] = size
                            size += 1
                        of_variable[number, 2 + q] = place[answer, child]
                number += 1
    own, rest = np.zeros(size), np.zeros(size)
    rest[:classes] = residual.alpha
    rest[classes : classes + pairs] = residual.beta
    for i in range(answers):
        for c in range(children):
            if place[i, c] < 0:
                step.lam[i, c] = residual.lam[i, c] * task.w[i, c]
            else:
                own[place[i, c]] = 1.0 / task.w[i, c]
                rest[place[i, c]] = residual.lam[i, c]
    diagonal = own.copy()
    for v in range(positive):
        for m in range(queries + 2):
            if of_variable[v, m] >= 0:
                diagonal[of_variable[v, m]] += inverse[v]
    for i in range(size):
        if diagonal[i] <= 0.0:
            own[i] = diagonal[i] = typical
        own[i] += damping * diagonal[i]
        diagonal[i] *= 1.0 + damping
    # Conjugate gradients, preconditioned by the diagonal.
    solution, image, ahead = np.zeros(size), np.empty(size), rest / diagonal
    length = 0.0
    for i in range(size):
        length += rest[i] * ahead[i]
    goal, taken = length * tolerance * tolerance, 0
    while taken < CG_STEPS and length > goal and length > 1e-30:
        taken += 1
        for i in range(size):
            image[i] = own[i] * ahead[i]
        for v in range(positive):
            t = 0.0
            for m in range(queries + 2):
                if of_variable[v, m] >= 0:
                    t += ahead[of_variable[v, m]]
            t *= inverse[v]
            for m in range(queries + 2):
                if of_variable[v, m] >= 0:
                    image[of_variable[v, m]] += t
        curvature = 0.0
        for i in range(size):
            curvature += image[i] * ahead[i]
        if curvature <= 0.0:
            break
        far, after = length / curvature, 0.0
        for i in range(size):
            solution[i] += far * ahead[i]
            rest[i] -= far * image[i]
            after += rest[i] * rest[i] / diagonal[i]
        for i in range(size):
            ahead[i] = rest[i] / diagonal[i] + after / length * ahead[i]
        length = after
    step.alpha[:] = solution[:classes]
    step.beta[:] = solution[classes : classes + pairs]
    for i in range(answers):
        for c in range(children):
            if place[i, c] >= 0:
                step.lam[i, c] = solution[place[i, c]]
    return taken


@_compiled
def _multipliers(tables: TableShapes, task: TableMeasurements) -> TableMultipliers:
    return TableMultipliers(np.zeros(tables.first[-1]), np.zeros(len(tables.kid)), np.zeros(task.w.shape))


@_compiled
def newton(
    tables: TableShapes,
    task: TableMeasurements,
    near: Floats,
    pull: float,
    accepted: float,
    scale: float,
    most: int,
    best: Floats,
) -> tuple[float, float, int, int]:
    """Solves one node into ``best``.

    Args:
        tables: Where the variables are.
        task: Measurements and sums; weights are such that the least is about 1.
        near: Where a variable without a weight of its own begins.
        pull: What keeps such a variable near the last point.
        accepted: The relative gap that is enough.
        scale: Added to the objective where the gap is compared with it.
        most: The largest number of Newton steps.
        best: The point that is found, with exact sums.

    Returns:
        The halved objective, the proved distance to the optimum, Newton steps and steps of conjugate gradients.
    """
    size = len(best)
    at, tried, step, residual = (
        _multipliers(tables, task),
        _multipliers(tables, task),
        _multipliers(tables, task),
        _multipliers(tables, task),
    )
    shift, x, answers = np.zeros(size), np.zeros(size), np.zeros(task.w.shape)
    y, d, begin, lonely = task.y.copy(), task.weight.copy(), near.copy(), task.weight.min() <= 0.0
    best_value, best_gap, best_relative = np.inf, np.inf, np.inf
    damping, total_cg, steps, value, keep = 1e-7, 0, 0, -np.inf, 0.0
    moved, patience, enough = True, PATIENCE, most
    while steps < most:
        if moved:
            # A new proximal problem, from the multipliers of the last one: begin with exact sums.
            for e in range(size):
                extra = keep if task.weight[e] > 0.0 else max(keep, pull)
                d[e] = task.weight[e] + extra
                y[e] = (task.weight[e] * task.y[e] + extra * begin[e]) / d[e]
            _shifts(tables, at.lam, shift)
            for _ in range(3):
                _project(tables, task, y, d, shift, at)
            value = _evaluate(tables, task, y, d, shift, at, x)
            damping, moved = 1e-7, False
        steps += 1
        # The certificate of the present point.
        good = x.copy()
        repair(tables, task, good)
        _answers(tables, good, answers)
        here = objective(task, good, answers)
        gap = duality_gap(tables, task, task.y, task.weight, at, good, answers)
        of_value = max(here + scale, 1e-300)  # nothing is measured, and nothing missed
        relative = gap / of_value
        if steps == 1 or relative < best_relative:
            best_value, best_gap, best_relative = here, gap, relative
            best[:] = good
        if best_relative <= accepted and enough > steps + POLISH:
            enough = steps + POLISH
        if best_relative <= EXACT or steps >= enough:
            break
        inner = relative
        if lonely or keep > 0.0:
            # Is the proximal problem itself solved well enough to move on?
            inner = duality_gap(tables, task, y, d, at, good, answers) / of_value
            if inner <= 0.05 * relative * (min(relative, 1.0) if lonely else 1.0):
                begin[:] = good
                keep = keep / EASE if keep > 1e-3 else 0.0
                moved, patience = True, steps + PATIENCE
                continue
        if steps > patience:
            begin[:] = best
            keep = NEAR if keep == 0.0 else keep * EASE
            moved, patience = True, steps + PATIENCE
            continue
        # A Newton step.
        positive = _residuals(tables, task, at, x, residual)
        tolerance = min(0.1, max(1e-6, inner))
        total_cg += _direction(tables, task, x, d, residual, positive, damping, tolerance, step)
        slope = (residual.alpha * step.alpha).sum() + (residual.beta * step.beta).sum()
        slope += (residual.lam * step.lam).sum()
        far, ahead, risen = 1.0, False, value
        for _ in range(TRIES):
            tried.alpha[:] = at.alpha + far * step.alpha
            tried.beta[:] = at.beta + far * step.beta
            tried.lam[:] = at.lam + far * step.lam
            _shifts(tables, tried.lam, shift)
            _project(tables, task, y, d, shift, tried)
            risen = _evaluate(tables, task, y, d, shift, tried, x)
            if risen >= value + RISE * far * slope - 1e-12 * abs(value):
                ahead = True
                break
            far *= SHORTER
        if ahead:
            at.alpha[:] = tried.alpha
            at.beta[:] = tried.beta
            at.lam[:] = tried.lam
            value = risen
            if far == 1.0:
                damping = max(damping / 10.0, 1e-7)
            elif far < 0.2:
                damping = min(max(damping * 10.0, 1e-6), 1e2)
            continue
        # No step rises: a few exact sums from where we are, and a shorter step next time.
        _shifts(tables, at.lam, shift)
        for _ in range(5):
            _project(tables, task, y, d, shift, at)
        value = _evaluate(tables, task, y, d, shift, at, x)
        if damping > 1e3:
            patience = steps
        damping = max(damping * 100.0, 1e-4)
    return best_value, best_gap, steps, total_cg
