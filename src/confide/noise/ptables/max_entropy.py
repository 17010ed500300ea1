"""The law of a row: maximum entropy, found in the dual, with a certificate.

With multipliers ``a`` (mean), ``b`` (variance), ``nu`` (probability to stay) and ``mu_k`` (monotonicity) the law is

    p_v = exp(theta_v - mu_v + mu_(v-1)) / Z,      theta_v = -a v - b v^2 + nu [v = 0],

and the dual function ``log Z + b V - nu p_stay`` is convex. For fixed ``a, b, nu`` the best ``mu`` are known: they make
the exponents the isotonic regression of ``theta`` on the values up to zero, which pooling adjacent violators gives.
What remains is smooth in at most three variables. Inequalities are settled by trying the four sets of active ones in
turn, each solved by Newton's method, until the signs are right. Derivation: ``docs/proofs/ptables.md``, 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from confide.noise.ptables.ptable_settings import RowProblem

# The optimality certificate of a row: how far the conditions, the signs and the two values are from perfect.
#
# The probabilities are binary floating-point numbers, hence rational; the conditions are evaluated on them exactly,
# and the figures say by how much the printed law misses them. The gap is the dual value less the entropy: it bounds
# what any other law could have more, whatever the numerical method did. Derivation: ``docs/proofs/ptables.md``,
# section 2.


TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Multipliers:
    """The dual solution, in units of the noise of the problem; ``mono[k]`` belongs to ``p_k <= p_(k+1)``."""

    a: float
    b: float
    nu: float
    mono: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """``primal``: the largest amount by which a condition is missed; ``dual``: the largest by which a multiplier has
    the wrong sign; ``gap``: the entropy that another law could have more, at most, in bits."""

    primal: float
    dual: float
    gap: float

    @property
    def holds(self) -> bool:
        return self.primal <= TOLERANCE and self.dual <= TOLERANCE and abs(self.gap) <= 1e3 * TOLERANCE

    def as_dict(self) -> dict[str, float | bool]:
        return {"primal": self.primal, "dual": self.dual, "gap": self.gap, "holds": self.holds}


def violations(problem: RowProblem, p: tuple[float, ...], step: int = 1) -> dict[str, Fraction]:
    """By how much a law misses each condition, exactly; the variance in squared units of ``step`` units."""
    exact = [Fraction(value) for value in p]
    second = sum((q * v * v for q, v in zip(exact, problem.noise, strict=True)), Fraction(0))
    excess = (second - problem.variance) / step**2
    found = {
        "sum": abs(sum(exact, Fraction(0)) - 1),
        "mean": abs(sum((q * v for q, v in zip(exact, problem.noise, strict=True)), Fraction(0))) / step,
        "variance": abs(excess) if problem.equality else max(excess, Fraction(0)),
        "negative": max(-min(exact), Fraction(0)),
    }
    tied = problem.tied
    found["monotone"] = max((a - b for a, b in pairwise(exact[:tied])), default=Fraction(0))
    if problem.stay and problem.zero is not None:
        found["stay"] = problem.stay - exact[problem.zero]
    return {name: max(value, Fraction(0)) for name, value in found.items()}


def certify(problem: RowProblem, p: tuple[float, ...], multipliers: Multipliers | None) -> Certificate:
    """The certificate of a law with these multipliers; without any there is one law alone, and no gap."""
    primal = float(max(violations(problem, p).values()))
    if multipliers is None:
        return Certificate(primal, 0.0, 0.0)
    a, b, nu, mono = multipliers.a, multipliers.b, multipliers.nu, multipliers.mono
    signed = [nu, *mono] if problem.equality else [b, nu, *mono]
    dual = max(0.0, -min(signed))
    # The dual value is that of the rounded multipliers: log Z is formed again from them, not taken from the search.
    exponents = []
    for k, v in enumerate(problem.noise):
        own = -a * v - b * v * v + (nu if v == 0 else 0.0)
        own -= mono[k] if k < len(mono) else 0.0
        own += mono[k - 1] if 0 < k <= len(mono) else 0.0
        exponents.append(own)
    top = max(exponents)
    dual_value = top + math.log(math.fsum(math.exp(e - top) for e in exponents))
    dual_value += b * float(problem.variance) - nu * float(problem.stay)
    entropy = -math.fsum(q * math.log(q) for q in p if q > 0)
    return Certificate(primal, dual, (dual_value - entropy) / math.log(2))


Floats = npt.NDArray[np.float64]

_SLACK = 1e-13
_ROUNDS = 500
_NEAR = 1e-13
_PATIENCE = 4


@dataclass(frozen=True, slots=True)
class RowLaw:
    """The probabilities of the noise values of a row, and why there are no better ones.

    ``multipliers`` is none where the conditions leave a single law, which needs no search.
    """

    p: tuple[float, ...]
    multipliers: Multipliers | None
    certificate: Certificate

    @property
    def entropy(self) -> float:
        """In bits."""
        return -math.fsum(p * math.log2(p) for p in self.p if p > 0)


def solve_row(problem: RowProblem, smallest: Fraction) -> RowLaw:
    """The maximum entropy law of a row that can have the variance asked for; ``smallest`` is the least it can have."""
    if problem.variance == smallest:
        return _two_points(problem)
    stay = problem.stay
    sets = [(True, False), (True, True)]
    if not problem.equality:
        sets = [(False, False), (True, False), (False, True), (True, True)]
    found: _Dual | None = None
    needs_b, needs_nu = problem.equality, False
    for with_b, with_nu in sets:
        # A condition is made an equation only where leaving it out broke it: so there is always a solution to find.
        if (with_b and not needs_b) or (with_nu and not (needs_nu and stay)):
            continue
        found = _Dual(problem, with_b, with_nu)
        found.minimise()
        second, kept = found.moment(2), found.probability_of_zero()
        too_wide, too_loose = second > float(problem.variance) * (1 + _SLACK), kept < float(stay) * (1 - _SLACK)
        if found.signs_right() and (with_b or not too_wide) and (with_nu or not too_loose):
            break
        needs_b, needs_nu = needs_b or too_wide, needs_nu or too_loose
        if (with_b, with_nu) == (False, True):
            needs_b = True
        if (with_b, with_nu) == (True, False):
            needs_nu = True
    assert found is not None
    multipliers = found.multipliers()
    return RowLaw(found.p, multipliers, certify(problem, found.p, multipliers))


def free_variance(problem: RowProblem) -> float:
    """The variance of the law of maximum entropy when the variance is left free: what a large V leads to."""
    wide = Fraction(problem.noise[0] ** 2 + problem.noise[-1] ** 2)
    law = solve_row(replace(problem, variance=wide, equality=False), Fraction(-1))
    return math.fsum(p * v * v for p, v in zip(law.p, problem.noise, strict=True))


def _two_points(problem: RowProblem) -> RowLaw:
    """The only law with the least variance: on the two values next to zero, of which one is on either side."""
    below = max(v for v in problem.noise if v < 0)
    above = min(v for v in problem.noise if v > 0)
    exact = {below: Fraction(above, above - below), above: Fraction(-below, above - below)}
    p = tuple(float(exact.get(v, Fraction(0))) for v in problem.noise)
    return RowLaw(p, None, certify(problem, p, None))


class _Dual:
    """The dual function of a row with a given set of multipliers, and its minimiser."""

    def __init__(self, problem: RowProblem, with_b: bool, with_nu: bool):
        self._problem = problem
        self._reach = max(abs(v) for v in problem.noise)
        v = np.array(problem.noise, np.float64) / self._reach
        # A symmetric row has a symmetric law as long as b >= 0; then one variable remains and the result is symmetric.
        self._with_a = not (problem.symmetric and (not problem.tied or not problem.equality))
        self._names = [n for n, used in (("a", self._with_a), ("b", with_b), ("nu", with_nu)) if used]
        columns = {"a": v, "b": v * v, "nu": -(v == 0).astype(np.float64)}
        limits = {"a": Fraction(0), "b": problem.variance / self._reach**2, "nu": -problem.stay}
        places = [Fraction(value, self._reach) for value in problem.noise]
        exact = {"a": places, "b": [x * x for x in places], "nu": [Fraction(-(x == 0)) for x in places]}
        self._stats = np.array([columns[n] for n in self._names]).reshape(len(self._names), len(v)).T
        self._exact_columns = [exact[n] for n in self._names]
        self._exact_limits = [limits[n] for n in self._names]
        self._limits = np.array([float(limit) for limit in self._exact_limits])
        # Not above the b of a narrow law: from below Newton's method grows b quickly, above the function is flat.
        nearest = min(abs(v) for v in problem.noise if v) / self._reach
        begin = min(0.5 / float(limits["b"]), 1 / nearest**2)
        self._x = np.array([begin if n == "b" else 0.0 for n in self._names])
        self.p: tuple[float, ...] = ()

    def minimise(self) -> None:
        """Newton's method with a line search; near the end full steps, keeping the best."""
        x, best, idle = self._x, math.inf, 0
        value, gradient, hessian = self._evaluate(x)
        for _ in range(_ROUNDS):
            ridge = 1e-15 * float(np.trace(hessian)) + 1e-300
            step = -np.linalg.solve(hessian + ridge * np.eye(len(x)), gradient)
            descent, length = float(gradient @ step), 1.0
            # What a step promises measures the distance, also where all but one value are very unlikely.
            if -descent < best:
                best, idle, self._x = -descent, 0, x
            else:
                idle += 1
            if best == 0.0 or (best < _NEAR and idle >= _PATIENCE):
                break
            while True:
                trial = x + length * step
                after, next_gradient, next_hessian = self._evaluate(trial)
                # Low enough, and not so far that the way back is longer: beyond the minimum the function may be flat.
                back = float(next_gradient @ step) <= length * float(step @ next_hessian @ step)
                if -descent < _NEAR or length < 1e-12 or (back and after <= value + 1e-4 * length * descent):
                    break
                length /= 2
            x, value, gradient, hessian = trial, after, next_gradient, next_hessian
        self._finish()

    def _evaluate(self, x: Floats) -> tuple[float, Floats, Floats]:
        """The dual function, its gradient and its second derivative, a generalised one where blocks change."""
        theta = -(self._stats @ x)
        blocks = _pooled(theta[: self._problem.tied])
        exponents, stats = theta.copy(), self._stats.copy()
        for start, end in blocks:
            exponents[start:end] = math.fsum(theta[start:end]) / (end - start)
            stats[start:end] = self._stats[start:end].mean(axis=0)
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = math.fsum(weights)
        p = weights / total
        means = np.array([math.fsum(p * column) for column in self._stats.T])
        centred = stats - means
        hessian = (centred * p[:, None]).T @ centred
        return top + math.log(total) + float(self._limits @ x), self._limits - means, hessian

    def _finish(self) -> None:
        """The law of the best multipliers, its last digits corrected so that the equations hold on the numbers."""
        theta = -(self._stats @ self._x)
        exponents = _isotonic(theta, self._problem.tied)
        weights = np.exp(exponents - exponents.max())
        p = weights / math.fsum(weights)
        stats = np.column_stack([np.ones(len(p)), self._stats])
        limits = [Fraction(1), *self._exact_limits]
        columns = [[Fraction(1)] * len(p), *self._exact_columns]
        for start, end in _pooled(theta[: self._problem.tied]):
            stats[start:end] = stats[start:end].mean(axis=0)
        for _ in range(2):
            exact = [Fraction(float(q)) for q in p]
            found = [sum((q * s for q, s in zip(exact, c, strict=True)), Fraction(0)) for c in columns]
            residual = np.array([float(f - limit) for f, limit in zip(found, limits, strict=True)])
            curvature = (stats * p[:, None]).T @ stats
            p = p * (1 - stats @ np.linalg.lstsq(curvature, residual, rcond=1e-14)[0])
        self.p = tuple(float(q) for q in p)

    def moment(self, order: int) -> float:
        return math.fsum(p * v**order for p, v in zip(self.p, self._problem.noise, strict=True))

    def probability_of_zero(self) -> float:
        zero = self._problem.zero
        return 1.0 if zero is None else self.p[zero]

    def signs_right(self) -> bool:
        found = self.multipliers()
        return (self._problem.equality or found.b >= 0) and found.nu >= 0

    def multipliers(self) -> Multipliers:
        """In the units of the problem."""
        named = dict(zip(self._names, (float(x) for x in self._x), strict=True))
        theta = -(self._stats @ self._x)
        tied = self._problem.tied
        excess = (theta - _isotonic(theta, tied))[:tied]
        mono = tuple(float(s) for s in np.cumsum(excess)[: max(0, tied - 1)])
        return Multipliers(
            named.get("a", 0.0) / self._reach, named.get("b", 0.0) / self._reach**2, named.get("nu", 0.0), mono
        )


def _isotonic(theta: Floats, tied: int) -> Floats:
    """``theta`` with its first values replaced by their isotonic regression."""
    result = theta.copy()
    for start, end in _pooled(theta[:tied]):
        result[start:end] = math.fsum(theta[start:end]) / (end - start)
    return result


def _pooled(values: Sequence[float] | Floats) -> list[tuple[int, int]]:
    """Pool adjacent violators: the blocks on which the non-decreasing least-squares fit is constant."""
    blocks: list[tuple[float, int, int]] = []
    for place, value in enumerate(values):
        total, start = float(value), place
        while blocks and blocks[-1][0] / (blocks[-1][2] - blocks[-1][1]) >= total / (place + 1 - start):
            before, start, _ = blocks.pop()
            total += before
        blocks.append((total, start, place + 1))
    return [(start, end) for _, start, end in blocks]
