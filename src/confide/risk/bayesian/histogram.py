"""An adversary who looks at all cells of a histogram, not at the target's alone.

Someone who knows everyone in a block but the target, with prior ``p_j`` that the target is in cell ``j`` of ``K``, can
compare all released counts with the known ones. With ``k_j = x*_j - x_j`` and the log-ratio ``L`` of one count,

    posterior_j proportional to  p_j exp(L(k_j)).

If the target is in cell ``c``, the expected posterior over its prior is, with ``A = exp(L)`` and the means ``E0`` and
``E1`` without and with the target in a cell,

    R = E[ A_c / (p_c A_c + sum over j != c of p_j A_j) ]
      = integral over s > 0 of  E1[A exp(-s p_c A)]  product over j != c of  E0[exp(-s p_j A)],

which needs no simulation. With equal priors and ``K`` growing, ``R`` goes to ``exp(D2)``, that is ``exp(2 rho)`` for
the discrete Gaussian: the many other cells together then say no more than their priors.

Kazan and Reiter (2024) look at the target's cell alone. Derivation: ``docs/proofs/bayesian-risk.md``, section 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import log

import numpy as np

from confide.errors import ParameterError
from confide.exact import Exact
from confide.risk.bayesian.evidence import CountEvidence, Floats
from confide.risk.bayesian.one_level import checked_priors, log_ratios

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

    >>> from confide.risk.bayesian.evidence import evidence_of, gaussian_for
    >>> histogram_posterior(evidence_of(gaussian_for("1/10")), equal_priors(3), [2, 0, 1]).round(4).tolist()
    [0.4018, 0.2693, 0.3289]
    """
    wanted = _checked(priors)
    counts = [0] * len(wanted) if known is None else list(known)
    if not len(wanted) == len(released) == len(counts):
        raise _refused(f"{len(wanted)} priors, {len(released)} released and {len(counts)} known counts", "one per cell")
    log_ratio = np.array(
        [log_ratios(evidence, [value], count)[0] for value, count in zip(released, counts, strict=True)]
    )
    weight = np.array([log(p) for p in wanted]) + log_ratio
    if np.isposinf(weight).any():
        return np.asarray(np.isposinf(weight) / np.isposinf(weight).sum())
    if np.isneginf(weight).all():
        raise _refused("counts that the target cannot be in", "a count that the target can be in")
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

    >>> from confide.risk.bayesian.evidence import evidence_of, gaussian_for
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
        raise _refused(f"{len(wanted)} priors with the sum {float(sum(wanted)):g}", "at least two, with the sum 1")
    return wanted


def _refused(found: str, expected: str) -> ParameterError:
    return ParameterError(
        "bad-histogram",
        "the priors or counts of the cells do not fit together",
        found=found,
        expected=expected,
        remedy="give one prior and one count for each cell",
    )
