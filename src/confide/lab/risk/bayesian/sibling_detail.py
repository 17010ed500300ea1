"""The adversary who looks at every sibling's noisy count, with a sparse prior for each: how often is that right?

The two-level adversary adds the siblings up and takes any rest as equally likely. Someone who believes that few blocks
have anybody with the target's characteristics learns more: siblings that are probably empty leave the parent's count to
the target. In the limit the rest is known, and the parent's measurement is another of the same person, so that the
accuracy is that of one noise with ρ1 + ρ2.

No small statistic is sufficient here, so that the siblings' noise is simulated, from a seed; given the siblings,
everything is summed exactly over x1* and x2*, which leaves little to chance. The standard error is stated. This noise
protects nobody: it is the noise of a hypothetical release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log, sqrt

import numpy as np

from confide.arrays import Floats
from confide.errors import ParameterError
from confide.exact import Exact, probability
from confide.lab.risk.bayesian import counts as bayesian_counts
from confide.lab.risk.bayesian.decision_map import TIE, Ties
from confide.lab.risk.bayesian.evidence import CountEvidence
from confide.lab.risk.bayesian.one_level import checked_priors, log_ratios

_AT_ONCE = 1000


@dataclass(frozen=True)
class SimulatedAccuracy:
    """Probabilities of correct decisions, and the standard error of the average."""

    present: float
    absent: float
    average: float
    standard_error: float
    draws: int


def sibling_detail_accuracy(
    rho1: Exact,
    rho2: Exact,
    siblings: Sequence[int],
    law: bayesian_counts.CountPrior,
    prior: Exact = Fraction(1, 2),
    *,
    draws: int = 4000,
    seed: int = 1,
    ties: Ties = Ties.ZERO,
) -> SimulatedAccuracy:
    """Decisions from x1*, x2* and every sibling's y*, if the siblings' true counts are these.

    ``law`` is the adversary's prior of each sibling. The target's block holds nobody else with the characteristics.

    Args:
        rho1: The budget of the count of each block.
        rho2: The budget of the count of the parent.
        siblings: The true counts of the siblings.
        law: What the adversary believes about the count of each sibling.
        prior: The belief that the target is in the block.
        draws: How many releases of the siblings are simulated.
        seed: The seed of the simulation.
        ties: What is decided if both answers are equally probable.

    Returns:
        Probabilities of right decisions, with the standard error of their mean.
    """
    one, two = float(bayesian_counts.bounded_rho(rho1, "rho1")), float(bayesian_counts.bounded_rho(rho2, "rho2"))
    p = probability(prior, "the prior probability")
    truths = np.array(
        [bayesian_counts.checked_count(count, "a sibling's true count", highest=10**4) for count in siblings],
        dtype=np.int64,
    )
    if not len(truths) or not law.proper:
        raise ParameterError("bad-siblings", truths=len(truths))
    bayesian_counts.checked_count(draws, "the number of draws", lowest=2)
    generator = np.random.default_rng(seed)
    noise, chances = bayesian_counts.gaussian_window(one)
    blocks = []
    for start in range(0, draws, _AT_ONCE):
        size = (min(_AT_ONCE, draws - start), len(truths))
        released = truths + generator.choice(noise, p=chances, size=size)
        blocks.append(
            _decided(released, int(truths.sum()), law, one, two, bayesian_counts.logarithm(p / (1 - p)), ties)
        )
    present, absent = np.concatenate(blocks, axis=1)
    average = float(p) * present + (1 - float(p)) * absent
    error = float(average.std(ddof=1)) / sqrt(draws)
    return SimulatedAccuracy(float(present.mean()), float(absent.mean()), float(average.mean()), error, draws)


def _decided(
    released: bayesian_counts.IntArray,
    rest: int,
    law: bayesian_counts.CountPrior,
    one: float,
    two: float,
    logit: float,
    ties: Ties,
) -> bayesian_counts.FloatArray:
    """For each row of released siblings, the probability of a correct decision if present, and if absent."""
    above, above_law = bayesian_counts.gaussian_window(two)
    own, own_law = bayesian_counts.gaussian_window(one)
    sums = _law_of_rest(released, law, one, rest + 1 + 2 * int(above[-1]))
    tail = np.concatenate([np.cumsum(own_law[::-1])[::-1], [0.0]])
    at = np.concatenate([own_law, [0.0]])
    rows = []
    for step in (1, 0):
        x2 = above + rest + step
        log_sums = [np.log(sums @ np.exp(-two * (x2 - k - np.arange(sums.shape[1])[:, None]) ** 2.0)) for k in (0, 1)]
        odds = logit + log_sums[1] - log_sums[0]
        # Present if ρ1(2x1*−1) + odds > 0: for noise from this on, with x1* = step + noise.
        edge = 0.5 - odds / (2 * one) - step
        slack = TIE / one
        first = np.floor(edge + slack).astype(np.int64) + 1
        tied = np.abs(edge - (first - 1)) <= slack
        place = np.clip(first - own[0], 0, len(own))
        chosen = tail[place] + ties.share * tied * at[np.clip(place - 1, 0, len(own))]
        rows.append((chosen if step else 1 - chosen) @ above_law)
    return np.array(rows)


def _law_of_rest(
    released: bayesian_counts.IntArray, law: bayesian_counts.CountPrior, rho: float, top: int
) -> bayesian_counts.FloatArray:
    """The posterior law of the siblings' sum from 0 to ``top``, a row for each release, up to constants of rows."""
    widest = max(0, int(released.max())) + ceil(sqrt(bayesian_counts.NEGLIGIBLE / rho))
    counts = np.arange(min(top, widest) + 1, dtype=np.int64)
    weights = law.log_weight(counts) - rho * (released[:, :, None] - counts) ** 2.0
    messages = np.exp(weights - weights.max(axis=2, keepdims=True))
    sums = np.zeros((len(released), top + 1))
    sums[:, 0] = 1.0
    for place in range(released.shape[1]):
        grown = np.zeros_like(sums)
        for count in counts.tolist():
            grown[:, count:] += sums[:, : top + 1 - count] * messages[:, place, count, None]
        sums = grown / grown.max(axis=1, keepdims=True)
    return sums


# An adversary who looks at all cells of a histogram, not at the target's alone.
#
# Someone who knows everyone in a block but the target, with prior ``p_j`` that the target is in cell ``j`` of ``K``,
# can
# compare all released counts with the known ones. With ``k_j = x*_j - x_j`` and the log-ratio ``L`` of one count,
#
#     posterior_j proportional to  p_j exp(L(k_j)).
#
# If the target is in cell ``c``, the expected posterior over its prior is, with ``A = exp(L)`` and the means ``E0``
# and
# ``E1`` without and with the target in a cell,
#
#     R = E[ A_c / (p_c A_c + sum over j != c of p_j A_j) ]
#       = integral over s > 0 of  E1[A exp(-s p_c A)]  product over j != c of  E0[exp(-s p_j A)],
#
# which needs no simulation. With equal priors and ``K`` growing, ``R`` goes to ``exp(D2)``, that is ``exp(2 rho)``
# for
# the discrete Gaussian: the many other cells together then say no more than their priors.
#
# Kazan and Reiter (2024) look at the target's cell alone. Derivation: ``docs/proofs/bayesian-risk.md``, section 6.


_STEP = 0.2
_TAIL = Fraction(1, 2**80)
_NEGLIGIBLE = 1e-19
_BLOCK = 64


def equal_priors(cells: int) -> tuple[Fraction, ...]:
    """The same prior for each of ``cells`` cells.

    Args:
        cells: The number of cells, at least two.

    Returns:
        A prior for each cell.

    >>> equal_priors(3)[0]
    Fraction(1, 3)
    """
    return (Fraction(1, cells),) * cells if cells > 1 else _checked(())


def histogram_posterior(
    evidence: CountEvidence, priors: Sequence[Exact], released: Sequence[int], known: Sequence[int] | None = None
) -> Floats:
    """The posterior of each cell, from the released and the known count of each.

    Args:
        evidence: What the released count says (:func:`.evidence_of`).
        priors: The belief for each cell; the sum is 1.
        released: The released count of each cell.
        known: The count of each cell without the target; without them, zeros.

    Returns:
        An array with the posterior of each cell.

    >>> from confide.lab.risk.bayesian.evidence import evidence_of, gaussian_for
    >>> histogram_posterior(evidence_of(gaussian_for("1/10")), equal_priors(3), [2, 0, 1]).round(4).tolist()
    [0.4018, 0.2693, 0.3289]
    """
    wanted = _checked(priors)
    counts = [0] * len(wanted) if known is None else list(known)
    if not len(wanted) == len(released) == len(counts):
        raise ParameterError(
            "bad-histogram/priors-counts-cells", wanted=len(wanted), released=len(released), counts=len(counts)
        )
    log_ratio = np.array(
        [log_ratios(evidence, [value], count)[0] for value, count in zip(released, counts, strict=True)]
    )
    weight = np.array([log(p) for p in wanted]) + log_ratio
    if np.isposinf(weight).any():
        return np.asarray(np.isposinf(weight) / np.isposinf(weight).sum())
    if np.isneginf(weight).all():
        raise ParameterError("bad-histogram/target")
    share = np.exp(weight - weight.max())
    return np.asarray(share / share.sum())


def histogram_risk(evidence: CountEvidence, priors: Sequence[Exact], cell: int = 0) -> float:
    """``R`` of an adversary who looks at all cells, if the target is in ``cell``.

    Args:
        evidence: What the released count says (:func:`.evidence_of`).
        priors: The belief for each cell; the sum is 1.
        cell: The cell that the target is in.

    Returns:
        The expected posterior of the true cell, over its prior.

    >>> from confide.lab.risk.bayesian.evidence import evidence_of, gaussian_for
    >>> round(histogram_risk(evidence_of(gaussian_for("1/10")), equal_priors(4)), 4)
    1.1493
    """
    wanted = _checked(priors)
    own = wanted[cell]
    others = Counter(wanted)
    others[own] -= 1
    window = evidence.window(_TAIL)
    shared = np.isfinite(window.log_ratio) & (window.with_target > 0)
    ratio, inside = window.log_ratio[shared], window.with_target[shared]
    # Without the target a value that only it could lead to has no share; one that it cannot lead to has A = 0.
    size = np.exp(np.where(np.isfinite(window.log_ratio), window.log_ratio, -np.inf))
    weight = np.exp(np.log(inside) + ratio)
    start = log(_NEGLIGIBLE) - log(weight.sum())
    total, u = 0.0, start
    while True:
        s = np.exp(u + _STEP * np.arange(_BLOCK))
        log_others = np.zeros(_BLOCK)
        for prior, times in others.items():
            if times:
                means = np.array([window.without @ np.exp(-one * float(prior) * size) for one in s])
                with np.errstate(divide="ignore"):
                    log_others += times * np.log(means)
        mine = np.array([weight @ np.exp(-one * float(own) * np.exp(ratio)) for one in s])
        total += float(np.sum(s * mine * np.exp(log_others))) * _STEP
        u += _STEP * _BLOCK
        if np.exp(log_others[-1]) < _NEGLIGIBLE * float(own) or s[-1] * mine[-1] < _NEGLIGIBLE:
            return min(total + evidence.certain / float(own), float(1 / own))


def _checked(priors: Sequence[Exact]) -> tuple[Fraction, ...]:
    wanted = checked_priors(priors) if priors else ()
    if len(wanted) < 2 or sum(wanted) != 1:
        raise ParameterError("bad-histogram/sum", wanted=len(wanted), wanted_found=float(sum(wanted)))
    return wanted
