"""The Bayesian adversary at one level: what a noisy count makes of a prior belief about one person.

The adversary knows everyone in a block but the target, hence the count ``x`` of a cell without it, and believes with
probability ``p`` that the target is in the cell. Released is the count plus noise, ``x*``. With ``k = x* - x``, the
laws ``P1``, ``P0`` of ``k`` with the target and without, and ``L = log P1 / P0`` (:mod:`.evidence`):

    posterior(k)  = p P1 / (p P1 + (1 - p) P0),       log-odds = log p/(1-p) + L(k)
    R'(k)         = posterior(k) / p                  the risk at a released value
    m             = sum of P1(k) posterior(k)         the posterior expected if the target is in the cell
    R             = m / p                             the risk
    decide "in"   iff posterior > 1/2                 an even posterior decides "not in"

``R = 1 + (1 - p)**2 sum of (P1 - P0)**2 / (p P1 + (1 - p) P0)`` is what is added up: the terms are positive, so that no
digits cancel, however small ``rho`` or ``p`` is. ``R`` falls in ``p``, from ``exp(D2)`` to one, and is at most
``exp(2 rho)`` for every ``rho``-zCDP count. ``known`` only shifts released values: a target that is not unique in its
cell is no different.

Reference: Kazan and Reiter (2024), equations 3.1 to 3.6, S1.1. Derivation: ``docs/proofs/bayesian-risk.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from confide.arrays import Floats
from confide.errors import ParameterError
from confide.exact import Exact, probability
from confide.lab.risk.bayesian.evidence import CountEvidence, DecisionRegion, LawEvidence

SMALLEST_PRIOR = Fraction(1, 10**300)
_NEGLIGIBLE_TAIL = Fraction(1, 2**64)
_LARGEST_VALUE = 10**15


@dataclass(frozen=True)
class Decision:
    """Where the adversary decides for the target, and how often that is right.

    ``given_1`` is the probability of a right decision if the target is in the cell, ``given_0`` if it is not, and
    ``average = p given_1 + (1 - p) given_0`` what the adversary expects. An adversary who guesses ahead is rewarded by
    ``given_1`` alone; only the average cannot be bettered by guessing, and is at least ``max(p, 1 - p)``.
    """

    region: DecisionRegion
    given_1: float
    given_0: float
    average: float


@dataclass(frozen=True)
class MarginalRisk:
    """What is expected over releases, for each prior; ``error`` bounds what the sums leave out of ``risk``."""

    priors: tuple[Fraction, ...]
    excess: Floats
    error: Floats

    @property
    def risk(self) -> Floats:
        """``R``, which cannot be above ``1 / p``."""
        return np.minimum(1 + self.excess, 1 / _floats(self.priors))

    @property
    def posterior(self) -> Floats:
        """``m = p R``."""
        return np.minimum(_floats(self.priors) * self.risk, 1.0)


@dataclass(frozen=True)
class OneLevelRisk:
    """Everything about one prior."""

    prior: Fraction
    marginal_posterior: float
    risk: float
    error: float
    decision: Decision


def posterior(evidence: CountEvidence, priors: Sequence[Exact], released: Sequence[int], known: int = 0) -> Floats:
    """The posterior of each prior at each released value.

    Args:
        evidence: What the released count says (:func:`.evidence_of`).
        priors: Beliefs that the target is in the cell, before the release, each strictly between 0 and 1.
        released: Released counts.
        known: The count without the target.

    Returns:
        An array of shape (priors, released).

    >>> from confide.lab.risk.bayesian.evidence import evidence_of, gaussian_for
    >>> posterior(evidence_of(gaussian_for("1/10")), ["1/2"], [0, 3]).round(4).tolist()
    [[0.475, 0.6225]]
    """
    return _floats(checked_priors(priors))[:, None] * risk_at(evidence, priors, released, known)


def risk_at(evidence: CountEvidence, priors: Sequence[Exact], released: Sequence[int], known: int = 0) -> Floats:
    """``R'`` of each prior at each released value: ``1 / (p + (1 - p) exp(-L))``.

    Args:
        evidence: What the released count says (:func:`.evidence_of`).
        priors: Beliefs that the target is in the cell, before the release, each strictly between 0 and 1.
        released: Released counts.
        known: The count without the target.

    Returns:
        An array of shape (priors, released): posterior over prior.

    >>> from confide.lab.risk.bayesian.evidence import evidence_of, gaussian_for
    >>> risk_at(evidence_of(gaussian_for("1/10")), ["1/2"], [0, 3]).round(4).tolist()
    [[0.95, 1.2449]]
    """
    log_ratio = log_ratios(evidence, released, known)
    return ratio_for(checked_priors(priors), log_ratio)


def log_ratios(evidence: CountEvidence, released: Sequence[int], known: int = 0) -> Floats:
    """``L`` at released values, which one of the two laws must have."""
    values = [checked_value(value) - checked_value(known) for value in released]
    ratios = evidence.log_ratio(np.array(values, dtype=np.int64))
    if np.isnan(ratios).any():
        raise ParameterError(
            "impossible-release",
            found=str(released[int(np.flatnonzero(np.isnan(ratios))[0])]),
            title=evidence.title.lower(),
        )
    return ratios


def ratio_for(priors: tuple[Fraction, ...], log_ratio: Floats) -> Floats:
    """``1 / (p + (1 - p) exp(-L))`` for each prior (rows) and log-ratio (columns)."""
    with np.errstate(over="ignore"):
        against = np.exp(-log_ratio)
    return np.asarray(1 / (_floats(priors)[:, None] + _floats(1 - p for p in priors)[:, None] * against))


def marginal_risk(evidence: CountEvidence, priors: Sequence[Exact]) -> MarginalRisk:
    """``R`` and ``m`` for each prior, by exact summation.

    Values outside the window add at most ``(1 - p)**2 (t / p + t / (1 - p))`` to ``R`` where either law has at most
    ``t`` there; ``t`` is chosen so small that this is below rounding.

    Args:
        evidence: What the released count says (:func:`.evidence_of`).
        priors: Beliefs that the target is in the cell, before the release, each strictly between 0 and 1.

    Returns:
        ``R`` and ``m``, arrays with one number for each prior.

    >>> from confide.lab.risk.bayesian.evidence import evidence_of, gaussian_for
    >>> marginal_risk(evidence_of(gaussian_for("1/10")), ["1/2", "1/50"]).risk.round(4).tolist()
    [1.0477, 1.2097]
    """
    wanted = checked_priors(priors)
    tail = _NEGLIGIBLE_TAIL * min(min(p, 1 - p) for p in wanted) * evidence.scale**2
    window = evidence.window(tail)
    up = window.log_ratio >= 0
    # exp(-|L|), and both laws over the larger of the two: no term can overflow.
    small = np.exp(-np.abs(window.log_ratio))
    weight = np.where(up, window.with_target, window.without) * np.expm1(-np.abs(window.log_ratio)) ** 2
    weight, small, up = (part[np.isfinite(window.log_ratio) | (weight > 0)] for part in (weight, small, up))
    excess, error = [], []
    for prior in wanted:
        p, q = float(prior), float(1 - prior)
        excess.append(q * q * float(np.sum(weight / np.where(up, p + q * small, p * small + q))))
        error.append(q * q * window.tail * (1 / p + 1 / q))
    return MarginalRisk(wanted, np.array(excess), np.array(error))


def decide(evidence: CountEvidence, prior: Exact) -> Decision:
    """The decision of an adversary who loses as much by either mistake (equations 3.5 and 3.6).

    Args:
        evidence: What the released count says (:func:`.evidence_of`).
        prior: The belief that the target is in the cell.

    Returns:
        The released values that decide for the target, and how often the decision is right.

    >>> from confide.lab.risk.bayesian.evidence import evidence_of, gaussian_for
    >>> decision = decide(evidence_of(gaussian_for("1/10")), "1/5")
    >>> decision.region.threshold, round(decision.average, 4)
    (8, 0.8)
    """
    (p,) = checked_priors([prior])
    region = evidence.region(p)
    given_1, given_0 = evidence.chances(region)
    return Decision(region, given_1, given_0, float(p) * given_1 + float(1 - p) * given_0)


def assess(evidence: CountEvidence, priors: Sequence[Exact]) -> tuple[OneLevelRisk, ...]:
    """Everything that is expected over releases, for each prior.

    Args:
        evidence: What the released count says (:func:`.evidence_of`).
        priors: Beliefs that the target is in the cell, before the release, each strictly between 0 and 1.

    Returns:
        Posterior, risk and decision, one for each prior.

    >>> from confide.noise import DiscreteGaussian
    >>> from confide.lab.risk.bayesian.evidence import evidence_of
    >>> risks = assess(evidence_of(DiscreteGaussian(5)), ["1/2", "1/5"])
    >>> [round(risk.risk, 6) for risk in risks]
    [1.047685, 1.128105]
    """
    expected = marginal_risk(evidence, priors)
    rows = zip(expected.priors, expected.posterior, expected.risk, expected.error, strict=True)
    return tuple(OneLevelRisk(p, float(m), float(r), float(e), decide(evidence, p)) for p, m, r, e in rows)


def checked_priors(priors: Sequence[Exact]) -> tuple[Fraction, ...]:
    """Priors as exact numbers strictly between zero and one: who is certain learns nothing."""
    probabilities = tuple(probability(prior, "the prior") for prior in priors)
    if not probabilities or any(min(p, 1 - p) < SMALLEST_PRIOR for p in probabilities):
        raise ParameterError("bad-prior/close", probabilities=probabilities)
    return probabilities


def checked_value(value: object) -> int:
    """A released or a known count: a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or abs(int(value)) > _LARGEST_VALUE:
        raise ParameterError("not-a-count/whole", found=str(value)[:40])
    return int(value)


def _floats(numbers: Iterable[Fraction]) -> Floats:
    return np.array([float(number) for number in numbers], dtype=np.float64)


# Other questions about one person that have the same answer.
#
# Each asks whether a cell's count is ``x`` or ``x + 1``; they differ in what the prior is about, and in whether the
# count that the adversary knows has the target in it (Kazan and Reiter 2024, section S1.2).
#
# =============== ========================================= ========================= ==================
# question        what the adversary asks                   the prior                 the known count
# =============== ========================================= ========================= ==================
# characteristics has the target these characteristics?     that it has them          without the target
# response        did the target answer the census at all?  that it did               with the target
# truthful-answer did the target answer truly?              that it did               with the target
# variable        which value has one variable of the       of the value that is true without the target
#                 target?
# =============== ========================================= ========================= ==================
#
# The last looks at the cell of the true value alone. Someone who knows that the target is in one of two cells can
# look at both (:func:`two_cells`), and at all cells with :mod:`.histogram`.


class AdversaryQuestion(StrEnum):
    """What an adversary may want to know about the target."""

    CHARACTERISTICS = "characteristics"
    RESPONSE = "response"
    TRUTHFUL_ANSWER = "truthful-answer"
    VARIABLE = "variable"

    @property
    def count_has_target(self) -> bool:
        """Whether the count that the adversary knows has the target in it."""
        return self in (AdversaryQuestion.RESPONSE, AdversaryQuestion.TRUTHFUL_ANSWER)


@dataclass(frozen=True)
class ReducedQuestion:
    """A question in the terms of :mod:`.one_level`: the prior, and the count without the target."""

    prior: Fraction
    known: int


def reduce_question(question: AdversaryQuestion, prior: Exact, known: int) -> ReducedQuestion:
    """A question as the one of section 3.1: is the count ``known`` or ``known + 1``?

    Args:
        question: What the adversary wants to know.
        prior: The belief that the question is about.
        known: The count that the adversary knows, which has the target in it for some questions.

    Returns:
        The prior, and the count without the target.

    >>> reduce_question(AdversaryQuestion.RESPONSE, "9/10", 3)
    ReducedQuestion(prior=Fraction(9, 10), known=2)
    """
    (p,) = checked_priors([prior])
    count = checked_value(known) - int(question.count_has_target)
    if count < 0:
        raise ParameterError("no-target/count", found=str(known))
    return ReducedQuestion(p, count)


def two_cells(evidence: LawEvidence) -> tuple[LawEvidence, LawEvidence]:
    """What someone learns who knows the target to be in one of two cells, as two releases for :mod:`.sequential`.

    The log-ratio is ``L(k) - L(k')``, ``k`` of the true cell and ``k'`` of the other. The noise is symmetric, hence
    ``-L(k') = L(1 - k')``, and ``1 - k'`` has the law of ``k``: the other cell says as much as a second release of the
    first. With noise for ``change-one`` neighbours each counts for half of rho, hence both together for rho.

    Args:
        evidence: What the count of one cell says.

    Returns:
        The same twice: what the counts of both cells say.

    >>> from confide.lab.risk.bayesian.evidence import LawEvidence, gaussian_for
    >>> len(two_cells(LawEvidence(gaussian_for("1/10"))))
    2
    """
    return evidence, evidence
