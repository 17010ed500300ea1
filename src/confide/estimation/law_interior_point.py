"""Laws of cells that conjugate gradients are slow on: an interior point method that knows how the information is made.

Where a strategy gives next to nothing to a query or a level, the information J of a child has directions that are ten
thousand times as uncertain as others. The equations of an active set then take hundreds of products with J, guesses
return, and a general interior point method has to factor matrices of all cells of all children. Here every step solves

    (J + Δ) dx − Aᵀ dλ − Eᵀ dμ = ρ,     A dx + Θ⁻¹ dλ = σ,     E dx = π,

with Δ and Θ⁻¹ the diagonals of the barrier, A the side rows and E the parent sums. Along the longest free axis, of L
levels, J is I ⊗ P + 11ᵀ ⊗ Q, so J + Δ is L small blocks and a change of the rank of Q; the side rows of a child change
its inverse by as much as there are rows; and what is left is one equation for each cell that the parent has:

    G = (J + Δ)⁻¹ = B − B1 Q(I + 1ᵀB1 Q)⁻¹ 1ᵀB,   F = G − GAᵀ(Θ⁻¹ + AGAᵀ)⁻¹AG,   (Σ over children of F) dμ = π − ...

The cost of a step grows with the number of children and not with the condition of J. Predictor and corrector as in
Mehrotra (1992), On the implementation of a primal-dual interior point method; blocks and rank as in Woodbury (1950).
Derivation: ``docs/proofs/estimation.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from confide.arrays import Booleans, Floats, Integers
from confide.estimation.node_problem import CellLaw
from confide.estimation.prepare import Point, Prepared

STEPS = 80
CLOSE = 1e-13
"""Done where the mean product of a variable and its cost is below this part of what missing every cell by one costs."""
LITTLE = 1e-12
FURTHEST = 0.995
"""How much of the way to the nearest bound a step goes."""
MOST_BYTES = 1 << 30
"""The largest blocks of all children that are kept."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """The side rows, and the total of a root, child by child: children x rows x cells, padded with rows of nothing."""

    inside: Floats
    low: Floats
    high: Floats
    number: Integers
    """For each place the number of the side row; -1 for the total of a root, -2 where there is none."""

    @cached_property
    def used(self) -> Booleans:
        return self.number > -2

    @cached_property
    def equal(self) -> Booleans:
        return np.asarray(self.used & (self.low == self.high))

    @cached_property
    def sided(self) -> tuple[Booleans, Booleans]:
        """Which have a lower and which an upper bound and are no equations."""
        return tuple(self.used & ~self.equal & np.isfinite(each) for each in (self.low, self.high))  # type: ignore[return-value]

    def sums(self, x: Floats) -> Floats:
        return np.asarray(np.matmul(self.inside, x[:, :, None])[:, :, 0])

    def adjoint(self, values: Floats) -> Floats:
        return np.asarray(np.matmul(values[:, None, :], self.inside)[:, 0])


def _rows_of(prepared: Prepared) -> tuple[_Rows, Floats, Floats] | None:
    """The rows of single children; and the equations about several at once, equations x children x cells, with what
    they are. None where a row about several children is no equation."""
    rows, (cells, children) = prepared.rows, prepared.free.shape
    child_of = np.array([child for _, _, child in rows.names], np.int64)
    tied = np.flatnonzero(child_of < 0)
    if (rows.low != rows.high)[tied].any():
        return None
    cell, child = np.divmod(rows.variable, children)
    ties = np.zeros((len(tied), children, cells))
    for number, row in enumerate(tied.tolist()):
        here = rows.row == row
        ties[number, child[here], cell[here]] = 1.0
    rank = np.zeros(rows.count, np.int64)
    for one in range(children):
        own = child_of == one
        rank[own] = np.arange(int(own.sum()))
    total = prepared.sums is not None and prepared.axis == 0
    width = int(rank.max(initial=-1)) + 1 + total
    single = child_of[rows.row] >= 0
    inside = np.zeros((children, width, cells))
    inside[child[single], rank[rows.row[single]], cell[single]] = 1.0
    number_of, low, high = (
        np.full((children, width), -2, np.int64),
        np.zeros((children, width)),
        np.zeros((children, width)),
    )
    alone = np.flatnonzero(child_of >= 0)
    at = (child_of[alone], rank[alone])
    number_of[at], low[at], high[at] = alone, rows.low[alone], rows.high[alone]
    if total and prepared.sums is not None:
        number_of[:, -1], inside[:, -1] = -1, prepared.free.T
        low[:, -1] = high[:, -1] = float(prepared.sums[0, 0])
    return _Rows(inside, low, high, number_of), ties, rows.low[tied]


class _Blocks:
    """J of all children as L blocks and a change of rank: what does not change from step to step."""

    def __init__(self, law: CellLaw, free: Booleans, unit: float):
        self.unit = unit
        cells, shape, place = law.box
        self.children, self.kind = len(law.kind), law.kind
        axis = int(np.argmax(shape)) if shape else -1
        self.levels = shape[axis] if shape else 1
        others = [n for number, n in enumerate(shape) if number != axis]
        self.size = len(cells) * int(np.prod(others, initial=1))
        # The place of each row of x: level on the longest axis, then core cell and levels on the others.
        core, *levels = np.unravel_index(place, (len(cells), *shape))
        inner = core
        for number, level in enumerate(levels):
            if number != axis:
                inner = inner * shape[number] + level
        self.place = (levels[axis] if shape else 0) * self.size + inner
        own, together = (np.zeros((1, self.size, self.size)) for _ in range(2))
        for mask, part in law.box_parts:
            matrix = part
            for number, (kept, n) in enumerate(zip(mask, shape, strict=True)):
                if number != axis:
                    matrix = np.stack([np.kron(each, np.eye(n) if kept else np.ones((n, n))) for each in matrix])
            if not shape or mask[axis]:
                own = own + matrix
            else:
                together = together + matrix
        # In units of the largest weight, and a little more than positive semidefinite.
        self.own, self.together = own / unit + LITTLE * np.eye(self.size), together / unit
        self.free = np.zeros((self.children, self.levels * self.size), bool)
        self.free[:, self.place] = free.T

    @property
    def bytes(self) -> int:
        return 8 * self.children * self.levels * self.size**2

    def of_children(self, matrices: Floats) -> Floats:
        return matrices if len(matrices) == 1 else matrices[self.kind]


class _Inverse:
    """F of every child for one barrier: (J + Δ)⁻¹ within the side rows."""

    def __init__(self, blocks: _Blocks, rows: _Rows, barrier: Floats, soft: Floats):
        self.blocks, self.rows = blocks, rows
        m, levels, size = blocks.children, blocks.levels, blocks.size
        delta = np.zeros((m, levels * size))
        delta[:, blocks.place] = barrier
        free = blocks.free.reshape(m, levels, size)
        system = blocks.of_children(blocks.own)[:, None] * (free[..., :, None] & free[..., None, :])
        places = np.arange(size)
        system[..., places, places] += np.where(free, delta.reshape(m, levels, size), 1.0)
        self.inner = np.linalg.inv(system) * (free[..., :, None] & free[..., None, :])
        summed, together = self.inner.sum(axis=1), blocks.of_children(blocks.together)
        # Q(I + TQ)⁻¹ = (I + QT)⁻¹Q.
        self.change = np.linalg.solve(np.eye(size) + together @ summed, np.broadcast_to(together, summed.shape))
        self.change = (self.change + self.change.transpose(0, 2, 1)) / 2
        self.flat = self.inner.reshape(m, levels * size, size)[:, blocks.place]
        self.wide = self.within(rows.inside.transpose(0, 2, 1))
        middle = rows.inside @ self.wide
        diagonal = np.arange(middle.shape[1])
        middle[:, diagonal, diagonal] += np.where(rows.used, soft, 1.0)
        own = np.einsum("cii->ci", middle)
        middle[:, diagonal, diagonal] += 1e-14 * np.where(own > 0, own, 1.0)
        self.middle = np.linalg.inv(middle) if middle.shape[1] else middle
        self.middle *= rows.used[:, :, None] & rows.used[:, None, :]

    def within(self, v: Floats) -> Floats:
        """G v for several vectors of each child: children x cells x vectors."""
        blocks = self.blocks
        m, width = blocks.children, v.shape[2]
        box = np.zeros((m, blocks.levels * blocks.size, width))
        box[:, blocks.place] = v
        image = self.inner @ box.reshape(m, blocks.levels, blocks.size, width)
        image -= self.inner @ (self.change @ image.sum(axis=1))[:, None]
        return np.asarray(image.reshape(box.shape)[:, blocks.place])

    def __call__(self, v: Floats) -> Floats:
        """F v: children x cells."""
        image = self.within(v[:, :, None])[:, :, 0]
        return image - self.moved(self.rows.sums(image))

    def moved(self, sums: Floats) -> Floats:
        """GAᵀ(Θ⁻¹ + AGAᵀ)⁻¹ sums."""
        return np.asarray((self.wide @ (self.middle @ sums[:, :, None]))[:, :, 0])

    def sum_over_children(self) -> Floats:
        """Σ F: cells x cells."""
        blocks, flat = self.blocks, self.flat
        n = flat.shape[1]
        level, inner = np.divmod(blocks.place, blocks.size)
        block_sum = self.inner.sum(axis=0)
        result = np.where(level[:, None] == level, block_sum[level[:, None], inner[:, None], inner], 0.0)
        parts = ((flat @ self.change, flat), (self.wide @ self.middle, self.wide))
        for left, right in parts:
            result -= left.transpose(1, 0, 2).reshape(n, -1) @ right.transpose(1, 0, 2).reshape(n, -1).T
        return np.asarray((result + result.T) / 2)


def law_interior_point(prepared: Prepared, reference: Floats, steps: int = STEPS) -> Point:
    """Solves a problem whose objective is a law of cells. The result is checked by the caller.

    Args:
        prepared: The problem.
        reference: A point near the measurements that satisfies the parent sums.
        steps: At most so many steps are made.

    Returns:
        The point; the reference itself, not finished, where the method does not fit the problem or its memory.
    """
    law, free, rows = prepared.hessian, prepared.free.T, _rows_of(prepared)
    failed = Point(reference, np.zeros(prepared.rows.count), 0, finished=False)
    if not isinstance(law, CellLaw) or rows is None:
        return failed
    unit = float(law.full_diagonal.max(initial=0.0)) or 1.0
    blocks = _Blocks(law, prepared.free, unit)
    if blocks.bytes + rows[0].inside.nbytes + rows[1].nbytes > MOST_BYTES:
        return failed
    parents = prepared.sums[:, 0] if prepared.sums is not None and prepared.axis == 1 else None
    state = _State(blocks, *rows, free, parents, law, reference.T)
    done, step = False, 0
    try:
        while step < steps and not done:
            step += 1
            done = state.step()
    except LinAlgError:
        # Rounding errors have the upper hand: the point so far may be good enough, and the caller looks at it.
        done = False
    multipliers = np.zeros(prepared.rows.count)
    own = rows[0].number >= 0
    multipliers[rows[0].number[own]] = 2.0 * unit * state.of_rows[own]
    tied = [number for number, (_, _, child) in enumerate(prepared.rows.names) if child < 0]
    multipliers[tied] = 2.0 * unit * state.of_equations[len(state.of_equations) - len(tied) :]
    return Point(np.ascontiguousarray(np.where(free, state.x, 0.0).T), multipliers, step, done)


def _factor(matrix: Floats) -> tuple[Floats, bool]:
    """Its Cholesky factor. Parent sums and the totals of all children say one thing twice, so that it is singular but
    for rounding: a little is added, and more where that is not enough; the next step makes up for it."""
    diagonal = np.diag(matrix).copy()
    for little in (1e-13, 1e-11, 1e-9):
        matrix[np.diag_indices_from(matrix)] = np.where(
            diagonal > 0, diagonal + little * diagonal.max(initial=0.0), 1.0
        )
        try:
            return cho_factor(matrix, check_finite=False)  # type: ignore[no-any-return]
        except LinAlgError:
            continue
    raise LinAlgError("not positive definite")


class _State:
    """The point, its costs and multipliers, and one step of predictor and corrector."""

    def __init__(
        self,
        blocks: _Blocks,
        rows: _Rows,
        ties: Floats,
        tied: Floats,
        free: Booleans,
        parents: Floats | None,
        law: CellLaw,
        reference: Floats,
    ):
        self.blocks, self.rows, self.ties, self.free, self.law = blocks, rows, ties, free, law
        self.cells = 0 if parents is None else len(parents)
        """How many equations are parent sums; those about several children come after them."""
        self.equations = tied if parents is None else np.concatenate([parents, tied])
        mean = max(float(reference.sum()) / max(int(free.sum()), 1), 1e-3)
        self.x = np.where(free, np.maximum(reference, 0.1 * mean), 0.0)
        self.cost = np.where(free, max(float(np.abs(self._slope(self.x)).mean()), 1e-3), 0.0)
        self.of_equations = np.zeros(len(self.equations))
        sums = rows.sums(self.x)
        # Between its bounds, and away from them.
        least, most = (
            np.where(side, bound, 0.0) for side, bound in zip(rows.sided, (rows.low, rows.high), strict=True)
        )
        both = rows.sided[0] & rows.sided[1]
        room = np.where(both, 0.1 * (most - least), 1.0)
        sums = np.where(rows.sided[0], np.maximum(sums, least + room), sums)
        sums = np.where(rows.sided[1], np.minimum(sums, most - room), sums)
        # The way to a bound is kept by itself: as a difference of large sums it would lose its digits.
        self.under = np.where(rows.sided[0], sums - least, 1.0)
        self.over = np.where(rows.sided[1], most - sums, 1.0)
        self.least, self.most = least, most
        self.close = False
        level = float((self.x * self.cost).sum()) / max(int(free.sum()), 1)
        self.lower = np.where(rows.sided[0], level / self.under, 0.0)
        self.upper = np.where(rows.sided[1], level / self.over, 0.0)
        self.of_rows = self.lower - self.upper

    def _slope(self, x: Floats) -> Floats:
        """Half of the gradient, in units of the largest weight."""
        return np.where(self.free, self.law.gradient(x.T).T / (2.0 * self.blocks.unit), 0.0)

    def _told(self, x: Floats) -> Floats:
        """The left-hand sides of the equations between children."""
        own = [x.sum(axis=0)] if self.cells else []
        return np.concatenate([*own, np.einsum("tck,ck->t", self.ties, x)])

    def _spread(self, multipliers: Floats) -> Floats:
        """The adjoint of that, on free variables."""
        result = np.tensordot(multipliers[self.cells :], self.ties, 1)
        return np.where(self.free, result + multipliers[: self.cells] if self.cells else result, 0.0)

    def _between(self, inverse: _Inverse) -> Floats:
        """The system of the equations between children."""
        images = [inverse(tie) for tie in self.ties]
        columns = np.stack([self._told(image) for image in images], axis=1) if images else np.zeros((self.cells, 0))
        if not self.cells:
            return columns
        return np.block([[inverse.sum_over_children(), columns[: self.cells]], [columns.T]])

    def step(self) -> bool:
        """One step; whether the point was good enough before it."""
        rows, free = self.rows, self.free
        below, above = rows.sided
        under, over = self.under, self.over
        pairs = int(free.sum()) + int(below.sum()) + int(above.sum())
        products = float(
            (self.x * self.cost).sum() + (under * self.lower)[below].sum() + (over * self.upper)[above].sum()
        )
        level = products / max(pairs, 1)
        inequality = below | above
        explained = self.cost + rows.adjoint(self.of_rows) + self._spread(self.of_equations)
        off_slope = np.where(free, self._slope(self.x) - explained, 0.0)
        at = rows.sums(self.x)
        off_rows = np.where(above, at - self.most + over, np.where(rows.equal, at - rows.low, 0.0))
        off_rows = np.where(below, at - self.least - under, off_rows)
        off_equations = self.equations - self._told(self.x)
        scale = 1.0 + float(np.abs(self.x).max(initial=0.0))
        missed = max(float(np.abs(off_rows).max(initial=0.0)), float(np.abs(off_equations).max(initial=0.0)))
        wrong = float(np.abs(off_slope).max(initial=0.0))
        near = missed <= 1e-13 * scale + 1e-10 and wrong <= 1e-14 * scale + 1e-9
        # Rounding errors can keep equations from being met any better: then once more is enough.
        if level <= CLOSE and (near or self.close):
            return True
        self.close = level <= CLOSE
        # The system of this step.
        x = np.where(free, self.x, 1.0)
        stiffness = np.where(inequality, self.lower / under * below + self.upper / over * above, 1.0)
        soft = np.where(inequality, 1.0 / np.maximum(stiffness, 1e-300), 0.0)
        inverse = _Inverse(self.blocks, rows, self.cost / x, soft)
        factor = _factor(self._between(inverse)) if len(self.equations) else None

        def direction(aim: float, second: tuple[Floats, Floats, Floats]) -> tuple[Floats, ...]:
            pull = np.where(free, (aim - second[0]) / x, 0.0) - self.cost
            lower = np.where(below, (aim - second[1]) / under, 0.0) - self.lower
            upper = np.where(above, (aim - second[2]) / over, 0.0) - self.upper
            right = -off_slope + pull
            wanted = np.where(inequality, (lower - upper) * soft, 0.0) - off_rows
            moved = inverse.moved(wanted)
            of_equations = np.zeros_like(self.of_equations)
            dx = inverse(right) + moved
            if factor is not None:
                of_equations = cho_solve(factor, off_equations - self._told(dx), check_finite=False)
                right = right + self._spread(of_equations)
                dx = inverse(right) + moved
            image = inverse.within(right[:, :, None])[:, :, 0]
            of_rows = (inverse.middle @ (wanted - rows.sums(image))[:, :, None])[:, :, 0]
            ds = np.where(inequality, (lower - upper - of_rows) * soft, 0.0)
            dz = np.where(free, pull - self.cost / x * dx, 0.0)
            d_lower = np.where(below, lower - self.lower / under * ds, 0.0)
            d_upper = np.where(above, upper + self.upper / over * ds, 0.0)
            return dx, dz, ds, d_lower, d_upper, of_rows, of_equations

        def furthest(change: tuple[Floats, ...]) -> float:
            dx, dz, ds, d_lower, d_upper, *_ = change
            values = [(self.x, dx), (self.cost, dz), (under * below, ds), (over * above, -ds)]
            values += [(self.lower, d_lower), (self.upper, d_upper)]
            length = 1.0
            for value, by in values:
                falling = (by < 0) & (value > 0)
                length = min(length, float((-value[falling] / by[falling]).min(initial=1.0)))
            return length

        none = (np.zeros_like(self.x), np.zeros_like(under), np.zeros_like(over))
        guess = direction(0.0, none)
        length = furthest(guess)
        dx, dz, ds, d_lower, d_upper, *_ = guess
        after = float(((self.x + length * dx) * (self.cost + length * dz))[free].sum())
        after += float(((under + length * ds) * (self.lower + length * d_lower))[below].sum())
        after += float(((over - length * ds) * (self.upper + length * d_upper))[above].sum())
        aim = level * min(1.0, max(after / max(products, 1e-300), 0.0)) ** 3
        change = direction(aim, (dx * dz, ds * d_lower, -ds * d_upper))
        length = min(1.0, FURTHEST * furthest(change)) if furthest(change) < 1.0 else 1.0
        dx, dz, ds, d_lower, d_upper, of_rows, of_equations = change
        self.x, self.cost = self.x + length * dx, self.cost + length * dz
        self.under, self.over = under + length * ds * below, over - length * ds * above
        self.lower, self.upper = self.lower + length * d_lower, self.upper + length * d_upper
        self.of_rows = self.of_rows + length * of_rows
        self.of_equations = self.of_equations + length * of_equations
        return False
