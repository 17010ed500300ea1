"""Rows of maximum entropy: noise of a given mean, variance and support about which nothing else is said.

A row is asked to have mean zero, a variance of at most V, and perhaps more (:class:`RowProblem`). Of all distributions
that keep this, the one of largest entropy adds no information of its own; it is found in the dual, with a certificate.

**The symmetric row is the truncated discrete Gaussian.** On the support ``-D .. D`` maximise ``-sum p_v log p_v`` with
``sum p_v = 1``, ``sum v p_v = 0`` and ``sum v^2 p_v = V``. The derivative of the Lagrangian by ``p_v``,

    -log p_v - 1 - l - a v - b v^2 = 0,

gives ``p_v = exp(-a v - b v^2) / Z``; the problem is unchanged by ``v -> -v`` and strictly concave, so its one solution
is symmetric and ``a = 0``. What remains, ``p_v = exp(-b v^2) / Z`` on ``-D .. D``, is
:class:`~confide.noise.TruncatedGaussian` with ``sigma2 = 1 / (2 b)``. ``b`` falls as V rises (``dV/db = -Var(v^2)``)
and is 0, the uniform distribution, from ``V = D (D + 1) / 3`` on. :func:`symmetric_row` is the one place where ``b`` is
found: the last row of a perturbation table, the row of the risk measures and truncated noise of a wanted variance
(:func:`confide.noise.fitting.of_variance`) are this one distribution.

In general, with multipliers ``a`` (mean), ``b`` (variance), ``nu`` (probability to stay) and ``mu_k`` (monotonicity),

    p_v = exp(theta_v - mu_v + mu_(v-1)) / Z,      theta_v = -a v - b v^2 + nu [v = 0],

and the dual function ``log Z + b V - nu p_stay`` is convex. For fixed ``a, b, nu`` the best ``mu`` are known: they make
the exponents the isotonic regression of ``theta`` on the values up to zero, which pooling adjacent violators gives.
What remains is smooth in at most three variables. Inequalities are settled by trying the four sets of active ones in
turn, each solved by Newton's method, until the signs are right. Derivation: ``docs/proofs/ptables.md``, 1 and 2.

References: Giessing (2016), Computational issues in the design of transition probabilities and disclosure risk
estimation for additive noise; Bach (2020), section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from confide.arrays import Floats
from confide.errors import Finding, ParameterError, Place
from confide.exact import LARGEST, SMALLEST, Exact, exact
from confide.noise.bounded import TruncatedGaussian

LARGEST_BOUND = 100
"""The largest D of a row that is listed in floating point: perturbation tables have bounds of about 10."""


@dataclass(frozen=True, slots=True)
class RowProblem:
    """Maximise the entropy of a distribution on ``noise`` (ascending, in units of ``1 / step``) with mean zero and
    more.

    The variance, in squared units, is at most ``variance``, or equal to it. Where zero is among the values, its
    probability is at least ``p_stay``, and with ``monotone`` the probabilities do not decrease up to zero. Where it
    is not, neither condition applies.
    """

    noise: tuple[int, ...]
    variance: Fraction
    equality: bool = False
    p_stay: Fraction | None = None
    monotone: bool = True

    @property
    def zero(self) -> int | None:
        """The place of zero among the noise values."""
        return self.noise.index(0) if 0 in self.noise else None

    @property
    def tied(self) -> int:
        """How many values, from the left, the monotonicity speaks about: none, or those up to zero."""
        return self.zero + 1 if self.monotone and self.zero is not None else 0

    @property
    def stay(self) -> Fraction:
        """The least probability of zero that is asked for, zero if none."""
        return Fraction(0) if self.p_stay is None or self.zero is None else self.p_stay

    @property
    def symmetric(self) -> bool:
        return all(value == -other for value, other in zip(self.noise, reversed(self.noise), strict=True))


# The optimality certificate of a row: how far the conditions, the signs and the two values are from perfect.
#
# The probabilities are binary floating-point numbers, hence rational; the conditions are evaluated on them exactly,
# and the figures say by how much the printed probabilities miss them. The gap is the dual value less the entropy: it
# bounds what any other distribution could have more, whatever the numerical method did. Derivation:
# ``docs/proofs/ptables.md``, section 2.


TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Multipliers:
    """The dual solution, in units of the noise of the problem; ``mono[k]`` belongs to ``p_k <= p_(k+1)``."""

    a: float
    b: float
    nu: float
    mono: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RowCertificate:
    """``primal``: the largest amount by which a condition is missed; ``dual``: the largest by which a multiplier has
    the wrong sign; ``gap``: the entropy that another row could have more, at most, in bits."""

    primal: float
    dual: float
    gap: float

    @property
    def holds(self) -> bool:
        return self.primal <= TOLERANCE and self.dual <= TOLERANCE and abs(self.gap) <= 1e3 * TOLERANCE

    def as_dict(self) -> dict[str, float | bool]:
        return {"primal": self.primal, "dual": self.dual, "gap": self.gap, "holds": self.holds}


def violations(problem: RowProblem, p: tuple[float, ...], step: int = 1) -> dict[str, Fraction]:
    """By how much a row misses each condition, exactly; the variance in squared units of ``step`` units."""
    rational = [Fraction(value) for value in p]
    second = sum((q * v * v for q, v in zip(rational, problem.noise, strict=True)), Fraction(0))
    excess = (second - problem.variance) / step**2
    missed = {
        "sum": abs(sum(rational, Fraction(0)) - 1),
        "mean": abs(sum((q * v for q, v in zip(rational, problem.noise, strict=True)), Fraction(0))) / step,
        "variance": abs(excess) if problem.equality else max(excess, Fraction(0)),
        "negative": max(-min(rational), Fraction(0)),
    }
    tied = problem.tied
    missed["monotone"] = max((a - b for a, b in pairwise(rational[:tied])), default=Fraction(0))
    if problem.stay and problem.zero is not None:
        missed["stay"] = problem.stay - rational[problem.zero]
    return {name: max(value, Fraction(0)) for name, value in missed.items()}


def certify(problem: RowProblem, p: tuple[float, ...], multipliers: Multipliers | None) -> RowCertificate:
    """The certificate of a row with these multipliers; without any there is one row alone, and no gap."""
    primal = float(max(violations(problem, p).values()))
    if multipliers is None:
        return RowCertificate(primal, 0.0, 0.0)
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
    return RowCertificate(primal, dual, (dual_value - entropy) / math.log(2))


_SLACK = 1e-13
_ROUNDS = 500
_NEAR = 1e-13
_PATIENCE = 4


@dataclass(frozen=True)
class NoiseRow:
    """Noise values, ascending, with their probabilities in floating point.

    Attributes:
        values: Whole numbers, in units of ``1 / step`` where a table has steps.
        probabilities: As many numbers of zero or more; their sum is one.
    """

    values: tuple[int, ...]
    probabilities: tuple[float, ...]

    @property
    def bound(self) -> int:
        """D, the largest noise in either direction."""
        return max(abs(value) for value in self.values)

    def pmf(self, noise: int) -> float:
        """The probability of one value, zero where it is not among the values."""
        return dict(zip(self.values, self.probabilities, strict=True)).get(noise, 0.0)

    @property
    def variance(self) -> float:
        """``sum v^2 p_v``: the variance, as the mean is zero."""
        return math.fsum(v * v * p for v, p in zip(self.values, self.probabilities, strict=True))

    @property
    def entropy(self) -> float:
        """In bits."""
        return -math.fsum(p * math.log2(p) for p in self.probabilities if p > 0)


@dataclass(frozen=True)
class MaxEntropyRow(NoiseRow):
    """A row of maximum entropy, and why there is no better one.

    Attributes:
        multipliers: The dual solution; none where the conditions leave a single distribution, which needs no search.
        certificate: By how much the numbers miss the conditions and the optimum.
        variance_limit: V, in squared units of the values.
    """

    multipliers: Multipliers | None
    certificate: RowCertificate
    variance_limit: Fraction

    @property
    def b(self) -> float | None:
        """The multiplier of the variance: ``1 / (2 sigma2)`` of a symmetric row, and 0 where the row is uniform."""
        return None if self.multipliers is None else self.multipliers.b

    @property
    def attained(self) -> bool:
        """Whether the limit of the variance is reached: it is not more than a uniform row on ``-D .. D`` has."""
        return self.variance_limit <= uniform_variance(self.bound)

    def distribution(self) -> TruncatedGaussian:
        """The exact distribution of a symmetric row that is not uniform, with the ``b`` that was found."""
        if not self.b or self.values != tuple(range(-self.bound, self.bound + 1)):
            raise ParameterError(
                "no-such-noise/row", values=len(self.values), value=self.values[0], value_found=self.values[-1]
            )
        return TruncatedGaussian(1 / (2 * Fraction(self.b)), self.bound)


def uniform_variance(bound: int) -> Fraction:
    """``D (D + 1) / 3``: the variance of the uniform row on ``-D .. D``, which no symmetric row of this kind
    exceeds."""
    return Fraction(bound * (bound + 1), 3)


def symmetric_row(bound: int, variance: Exact) -> MaxEntropyRow:
    """The row of maximum entropy on ``-D .. D``, the truncated discrete Gaussian: what large counts get.

    Args:
        bound: D, from 1 to 100.
        variance: V, an exact number above zero; from ``D (D + 1) / 3`` on the row is uniform.

    Returns:
        The row with its ``2 D + 1`` probabilities and ``b = 1 / (2 sigma2)``.

    >>> row = symmetric_row(5, 2)
    >>> round(row.b, 5), round(row.pmf(0), 5), round(row.pmf(5), 6)
    (0.24968, 0.28194, 0.000549)
    >>> row.distribution().pmf(5) - row.pmf(5) < 1e-15
    True
    """
    limit = exact(variance, "V")
    findings = list(row_findings(bound, limit))
    if findings:
        raise ParameterError(findings)
    return solve_row(RowProblem(tuple(range(-bound, bound + 1)), limit), Fraction(0))


MOST_SHOWN = 40
"""So many characters of a number that nobody could have meant are shown."""


def row_findings(bound: int, variance: Fraction) -> Iterator[Finding]:
    """What is wrong with a bound and a variance, whatever else a row is asked to be."""
    if not 1 <= bound <= LARGEST_BOUND:
        yield Finding.of(
            "bad-ptable-setting/largest", where=Place(path="-D"), found=_short(str(bound)), largest_bound=LARGEST_BOUND
        )
    elif variance <= 0:
        yield Finding.of("bad-ptable-setting/greater", where=Place(path="-V"), found=_short(str(variance)))
    elif not SMALLEST <= variance <= LARGEST:
        yield Finding.of(
            "bad-ptable-setting/large",
            where=Place(path="-V"),
            smallest=float(SMALLEST),
            largest=float(LARGEST),
        )


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def solve_row(problem: RowProblem, smallest: Fraction) -> MaxEntropyRow:
    """The row of maximum entropy.

    Args:
        problem: What the row is asked to be; its conditions can be kept.
        smallest: The least variance, in squared units, that a row with these conditions can have
            (:func:`confide.noise.ptables.design.variance_range`); at most ``problem.variance``.

    Returns:
        The row with its multipliers and certificate.
    """
    if problem.variance == smallest:
        return _two_points(problem)
    stay = problem.stay
    sets = [(True, False), (True, True)]
    if not problem.equality:
        sets = [(False, False), (True, False), (False, True), (True, True)]
    dual: _Dual | None = None
    needs_b, needs_nu = problem.equality, False
    for with_b, with_nu in sets:
        # A condition is made an equation only where leaving it out broke it: so there is always a solution to find.
        if (with_b and not needs_b) or (with_nu and not (needs_nu and stay)):
            continue
        dual = _Dual(problem, with_b, with_nu)
        dual.minimise()
        second, at_zero = dual.moment(2), dual.probability_of_zero()
        too_wide, too_loose = second > float(problem.variance) * (1 + _SLACK), at_zero < float(stay) * (1 - _SLACK)
        if dual.signs_right() and (with_b or not too_wide) and (with_nu or not too_loose):
            break
        needs_b, needs_nu = needs_b or too_wide, needs_nu or too_loose
        if (with_b, with_nu) == (False, True):
            needs_b = True
        if (with_b, with_nu) == (True, False):
            needs_nu = True
    assert dual is not None
    multipliers = dual.multipliers()
    certificate = certify(problem, dual.p, multipliers)
    return MaxEntropyRow(problem.noise, dual.p, multipliers, certificate, problem.variance)


def free_variance(problem: RowProblem) -> float:
    """The variance of the row of maximum entropy when the variance is left free: what a large V leads to."""
    wide = Fraction(problem.noise[0] ** 2 + problem.noise[-1] ** 2)
    row = solve_row(replace(problem, variance=wide, equality=False), Fraction(-1))
    return math.fsum(p * v * v for p, v in zip(row.probabilities, problem.noise, strict=True))


def _two_points(problem: RowProblem) -> MaxEntropyRow:
    """The only row with the least variance: on the two values next to zero, one on either side."""
    below = max(v for v in problem.noise if v < 0)
    above = min(v for v in problem.noise if v > 0)
    shares = {below: Fraction(above, above - below), above: Fraction(-below, above - below)}
    p = tuple(float(shares.get(v, Fraction(0))) for v in problem.noise)
    return MaxEntropyRow(problem.noise, p, None, certify(problem, p, None), problem.variance)


class _Dual:
    """The dual function of a row with a given set of multipliers, and its minimiser."""

    def __init__(self, problem: RowProblem, with_b: bool, with_nu: bool):
        self._problem = problem
        self._reach = max(abs(v) for v in problem.noise)
        v = np.array(problem.noise, np.float64) / self._reach
        # A symmetric row has a symmetric solution as long as b >= 0; then one variable remains and the result is
        # symmetric.
        self._with_a = not (problem.symmetric and (not problem.tied or not problem.equality))
        self._names = [n for n, used in (("a", self._with_a), ("b", with_b), ("nu", with_nu)) if used]
        columns = {"a": v, "b": v * v, "nu": -(v == 0).astype(np.float64)}
        limits = {"a": Fraction(0), "b": problem.variance / self._reach**2, "nu": -problem.stay}
        places = [Fraction(value, self._reach) for value in problem.noise]
        rational = {"a": places, "b": [x * x for x in places], "nu": [Fraction(-(x == 0)) for x in places]}
        self._stats = np.array([columns[n] for n in self._names]).reshape(len(self._names), len(v)).T
        self._exact_columns = [rational[n] for n in self._names]
        self._exact_limits = [limits[n] for n in self._names]
        self._limits = np.array([float(limit) for limit in self._exact_limits])
        # Not above the b of a narrow row: from below Newton's method grows b quickly, above the function is flat.
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
        """The probabilities of the best multipliers, its last digits corrected so that the equations hold on the
        numbers."""
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
            rational = [Fraction(float(q)) for q in p]
            moments = [sum((q * s for q, s in zip(rational, c, strict=True)), Fraction(0)) for c in columns]
            residual = np.array([float(m - limit) for m, limit in zip(moments, limits, strict=True)])
            curvature = (stats * p[:, None]).T @ stats
            p = p * (1 - stats @ np.linalg.lstsq(curvature, residual, rcond=1e-14)[0])
        self.p = tuple(float(q) for q in p)

    def moment(self, order: int) -> float:
        return math.fsum(p * v**order for p, v in zip(self.p, self._problem.noise, strict=True))

    def probability_of_zero(self) -> float:
        zero = self._problem.zero
        return 1.0 if zero is None else self.p[zero]

    def signs_right(self) -> bool:
        multipliers = self.multipliers()
        return (self._problem.equality or multipliers.b >= 0) and multipliers.nu >= 0

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
