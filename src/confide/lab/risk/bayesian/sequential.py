"""Several noisy counts of one cell: at levels where the target is unique, or in one release after the other.

If the adversary knows the target to be the only possible member of a cell at several levels (section S1.3), or if a
count is released again (S5), each noisy count gives its own log-ratio ``L_i`` and the posterior log-odds are

    log p/(1-p) + L_1(k_1) + ... + L_n(k_n).

So ``R'`` multiplies: a release updates the prior of the next one. The expected risk ``R`` does not multiply, except in
the limit of small priors, where it is ``exp(2 (rho_1 + ... + rho_n))``. Write ``T(z) = product of E1[exp(z L_i)]``;
summing over all combinations of released values is the same as

    m = 1/(2 pi) integral of  pi / sin(pi z)  exp(z a) T(z) dt,   z = c + i t,  a = log p/(1-p),  0 < c < 1,

and likewise for ``1 - m`` with ``-a`` and ``T(-z)``. Both integrands are analytic and fall like ``exp(-pi |t|)``, so
that the trapezoidal rule gives all digits; the line ``c`` with the smallest rounding error is taken.

Reference: Kazan and Reiter (2024), S1.3 and S5. Derivation: ``docs/proofs/bayesian-risk.md``, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, prod, sqrt
from typing import Any

import numpy as np

from confide.arrays import Floats, Integers
from confide.errors import ParameterError
from confide.exact import Exact, exact, positive
from confide.lab.risk.bayesian.evidence import Complexes, CountEvidence, evidence_of, gaussian_for
from confide.lab.risk.bayesian.one_level import assess, checked_priors, log_ratios, ratio_for, risk_at
from confide.privacy import Neighbours

_REACH, _STEP = 14.0, 1 / 128
_LINES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_ROUNDING = 2.0**-50


@dataclass(frozen=True)
class SequenceStep:
    """One release of several: the belief before, the belief after, and ``R'``, their ratio."""

    released: int
    prior: float
    posterior: float
    risk_at: float


@dataclass(frozen=True)
class CombinedRisk:
    """What is expected over several releases; ``error`` bounds the error of ``marginal_posterior``."""

    prior: Fraction
    marginal_posterior: float
    risk: float
    error: float


def in_sequence(
    releases: Sequence[CountEvidence], prior: Exact, released: Sequence[int], known: Sequence[int] | None = None
) -> tuple[SequenceStep, ...]:
    """One release after the other: the posterior of each is the prior of the next.

    Args:
        releases: What each released count says.
        prior: The belief before the first.
        released: The released counts, one of each.
        known: The counts without the target, one of each; without them, zeros.

    Returns:
        A step for each release: belief before, belief after, and their ratio.

    >>> count = evidence_of(gaussian_for("1/10"))
    >>> [round(step.posterior, 4) for step in in_sequence([count, count], "1/2", [2, 0])]
    [0.5744, 0.5498]
    """
    ratios = _ratios(releases, released, known)
    (p,) = checked_priors([prior])
    steps: list[SequenceStep] = []
    before, at_first = float(p), 1.0
    for value, so_far in zip(released, np.cumsum(ratios), strict=True):
        # From the first prior each time: a product of rounded posteriors would lose digits.
        at = float(ratio_for((p,), np.array([so_far]))[0, 0])
        steps.append(SequenceStep(int(value), before, float(p) * at, at / at_first if at_first else 1.0))
        before, at_first = float(p) * at, at
    return tuple(steps)


def combined_risk_at(
    releases: Sequence[CountEvidence],
    priors: Sequence[Exact],
    released: Sequence[int],
    known: Sequence[int] | None = None,
) -> Floats:
    """``R'`` of all releases together, for each prior; the posterior is the prior times it.

    Args:
        releases: What each released count says.
        priors: Beliefs before the first.
        released: The released counts, one of each.
        known: The counts without the target, one of each; without them, zeros.

    Returns:
        An array with a ratio for each prior.

    >>> count = evidence_of(gaussian_for("1/10"))
    >>> combined_risk_at([count, count], ["1/2"], [2, 0]).round(4).tolist()
    [1.0997]
    """
    together = np.array([_ratios(releases, released, known).sum()])
    return np.asarray(ratio_for(checked_priors(priors), together)[:, 0])


def combined_risk(releases: Sequence[CountEvidence], priors: Sequence[Exact]) -> tuple[CombinedRisk, ...]:
    """``m`` and ``R`` of all releases together, for each prior.

    Args:
        releases: What each released count says.
        priors: Beliefs before the first.

    Returns:
        The expected posterior and risk for each prior, with a bound for the error.

    >>> count = evidence_of(gaussian_for("1/10"))
    >>> [round(total.risk, 4) for total in combined_risk([count, count], ["1/2"])]
    [1.0913]
    """
    wanted = checked_priors(priors)
    _check_any(releases)
    # Values that the count without the target cannot have give it away, whatever the other releases say.
    shared = prod(1 - evidence.certain for evidence in releases)
    lines: dict[tuple[float, int], Complexes] = {}
    results = []
    for prior in wanted:
        size = log(prior) - log(1 - prior)
        line, sign = _best_line(releases, size)
        key = line, sign
        if key not in lines:
            lines[key] = _line(releases, line, sign)
        terms = lines[key] * np.exp(sign * size * (line + 1j * _nodes()))
        integral = float(terms.real.sum()) * _STEP
        error = _ROUNDING * float(np.abs(terms).sum()) * _STEP
        posterior = 1 - shared + integral if sign > 0 else 1 - integral
        posterior = min(1.0, max(float(prior), posterior))
        results.append(CombinedRisk(prior, posterior, posterior / float(prior), error))
    return tuple(results)


def gaussian_marginal(prior: Exact, rho: Exact) -> float:
    """``E sigmoid(log p/(1-p) + rho + sqrt(2 rho) Z)``, ``Z`` standard normal: ``m`` for continuous Gaussian noise.

    For one release with discrete Gaussian noise this is ``m`` up to about ``10 exp(-3 pi**2 / (4 rho))``: below
    rounding at ``rho = 0.1``, 3e-6 at 0.5, wrong in the second digit at 2. For several releases and the sum of their
    rhos it is much closer, as long as each is small. By Gauss-Hermite quadrature, for ``rho`` up to about 5.

    Args:
        prior: The belief that the target is in the cell.
        rho: The sum of the budgets.

    Returns:
        The posterior that is expected if the target is in the cell.

    >>> round(gaussian_marginal("1/2", "1/5"), 4)
    0.5457
    """
    (p,) = checked_priors([prior])
    total = float(positive(rho, "rho"))
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    log_odds = log(p) - log(1 - p) + total + sqrt(2 * total) * nodes
    with np.errstate(over="ignore"):
        return float((weights / (1 + np.exp(-log_odds))).sum() / sqrt(2 * np.pi))


def _nodes() -> Floats:
    return np.arange(-_REACH, _REACH + _STEP / 2, _STEP)


def _line(releases: Sequence[CountEvidence], line: float, sign: int) -> Complexes:
    """``T(+-z) pi / sin(pi z) / (2 pi)`` on a line."""
    z = np.asarray(line + 1j * _nodes(), dtype=np.complex128)
    values: Complexes = np.asarray(0.5 / np.sin(np.pi * z), dtype=np.complex128)
    for evidence in releases:
        values = values * evidence.transform(sign * z)
    return values


def _best_line(releases: Sequence[CountEvidence], size: float) -> tuple[float, int]:
    """The line and the sign with the smallest integrand, which is what rounding errors are relative to."""
    candidates = []
    for sign in (1, -1):
        points = np.array(_LINES, dtype=np.complex128)
        with np.errstate(over="ignore", divide="ignore"):
            height = sum((np.log(c.transform(sign * points).real) for c in releases), start=np.zeros(len(_LINES)))
        height = height + sign * size * points.real - np.log(np.sin(np.pi * points.real))
        best = int(np.argmin(height))
        candidates.append((float(height[best]), _LINES[best], sign))
    _, line, sign = min(candidates)
    return line, sign


def _ratios(releases: Sequence[CountEvidence], released: Sequence[int], known: Sequence[int] | None) -> Floats:
    _check_any(releases)
    counts = [0] * len(releases) if known is None else list(known)
    if not len(releases) == len(released) == len(counts):
        raise ParameterError("releases-differ", releases=len(releases), released=len(released), counts=len(counts))
    triples = zip(releases, released, counts, strict=True)
    return np.concatenate([log_ratios(evidence, [value], count) for evidence, value, count in triples])


def _check_any(releases: Sequence[CountEvidence]) -> None:
    if not releases:
        raise ParameterError("no-releases")


# How often an adversary with several noisy counts decides rightly: all combinations, in two halves.
#
# With log-ratios ``L_1 .. L_n`` the adversary decides for the target iff their sum exceeds ``t = log (1-p)/p``. Each
# half of the releases is listed with all its combinations; the second is sorted, so that for every combination of the
# first the second's share above ``t - L`` is looked up. Sums are floats; combinations within a hair of ``t`` are
# taken as even, which is exact for ``p = 1/2``, where log-ratios can cancel, and otherwise their mass is the error
# that is stated.


_TAIL = Fraction(1, 2**56)
_HAIR = 1e-11
LARGEST_HALF = 1 << 22

Half = tuple[Floats, Floats, Floats]


class JointDecision:
    """All combinations of several releases, ready for decisions; none if there are too many."""

    def __init__(self, releases: Sequence[CountEvidence]):
        halves: list[list[Half]] = [[], []]
        sizes = [1, 1]
        windows = [evidence.window(_TAIL) for evidence in releases]
        for window in sorted(windows, key=lambda window: len(window.log_ratio), reverse=True):
            smaller = int(sizes[1] < sizes[0])
            possible = ~np.isnan(window.log_ratio)
            halves[smaller].append((window.log_ratio[possible], window.with_target[possible], window.without[possible]))
            sizes[smaller] *= int(possible.sum())
        self.feasible = max(sizes) <= LARGEST_HALF
        if not self.feasible:
            return
        self._first, second = (_product(half) for half in halves)
        order = np.argsort(second[0], kind="stable")
        self._sorted = second[0][order]
        self._above = np.append(np.cumsum(second[1][order][::-1])[::-1], 0.0)
        self._up_to = np.append(0.0, np.cumsum(second[2][order]))

    def decide(self, prior: Exact) -> tuple[float, float, float] | None:
        """``P(right | in)``, ``P(right | not in)``, and the mass of combinations that are even or nearly so."""
        if not self.feasible:
            return None
        (p,) = checked_priors([prior])
        threshold = log(1 - p) - log(p)
        ratio, with_target, without = self._first

        def places(at: float) -> Integers:
            return np.asarray(np.searchsorted(self._sorted, at - ratio, side="right"), np.int64)

        hair = _HAIR * (1 + abs(threshold))
        cautious, bold = places(threshold + hair), places(threshold - hair)
        right = float(with_target @ self._above[cautious]), float(without @ self._up_to[cautious])
        # Few combinations are so even that they are decided otherwise.
        even = np.flatnonzero(cautious != bold)
        more = with_target[even] @ (self._above[bold[even]] - self._above[cautious[even]])
        less = without[even] @ (self._up_to[cautious[even]] - self._up_to[bold[even]])
        return (*right, max(float(more), float(less)))


def _product(parts: Sequence[Half]) -> Half:
    ratio, one, other = np.zeros(1), np.ones(1), np.ones(1)
    for more, with_target, without in parts:
        with np.errstate(invalid="ignore"):
            # Two infinities of opposite sign belong to a combination that neither law has.
            ratio = np.nan_to_num(np.add.outer(ratio, more).ravel(), nan=0.0, posinf=np.inf, neginf=-np.inf)
        one, other = np.multiply.outer(one, with_target).ravel(), np.multiply.outer(other, without).ravel()
    return ratio, one, other


# Curves of the risk at one level, as rows for pictures: exact values, no simulation.
#
# The figures are those of Kazan and Reiter (2024): posterior and risk over the released count (1) and over rho (2),
# the right decision over rho (3), and what it adds to know the target unique at more levels (7).


Rows = list[dict[str, Any]]

PRIORS = ("1/2", "1/5", "1/10", "1/50", "1/864")
"""The five adversaries of the paper. It prints the last two as 1/10; its tables have 1/50 and 1/864."""

_POINTS = 120


def by_released(evidence: CountEvidence, priors: Sequence[Exact], first: int = -10, last: int = 12) -> Rows:
    """Posterior and ``R'`` at released values, less the known count (Figure 1)."""
    values = range(first, last + 1)
    return [
        {"prior": str(p), "released": value, "posterior": float(p) * float(ratio), "risk_at": float(ratio)}
        for p, line in zip(checked_priors(priors), risk_at(evidence, priors, values), strict=True)
        for value, ratio in zip(values, line, strict=True)
    ]


def by_rho(
    priors: Sequence[Exact],
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    lowest: Exact = "1/100",
    highest: Exact = 10,
    points: int = _POINTS,
) -> Rows:
    """Expected posterior, risk and right decisions over rho (Figures 2 and 3), on a logarithmic grid."""
    low, high = exact(lowest, "lowest"), exact(highest, "highest")
    rows: Rows = []
    for step in range(points + 1):
        # A grid point is any number close to the curve's next one; what is computed at it is exact.
        rho = Fraction(float(low) * (float(high) / float(low)) ** (step / points)).limit_denominator(10**6)
        for expected in assess(evidence_of(gaussian_for(rho, neighbours)), priors):
            rows.append(
                {
                    "rho": float(rho),
                    "prior": str(expected.prior),
                    "posterior": expected.marginal_posterior,
                    "risk": expected.risk,
                    "threshold": expected.decision.region.smallest,
                    "given_1": expected.decision.given_1,
                    "given_0": expected.decision.given_0,
                    "average": expected.decision.average,
                }
            )
    return rows


def by_levels(releases: Sequence[CountEvidence], priors: Sequence[Exact]) -> Rows:
    """Expected posterior and risk from the first 1, 2, ... noisy counts (Figure 7)."""
    return [
        {"levels": used, "prior": str(expected.prior), "posterior": expected.marginal_posterior, "risk": expected.risk}
        for used in range(1, len(releases) + 1)
        for expected in combined_risk(releases[:used], priors)
    ]
