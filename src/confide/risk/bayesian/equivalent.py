"""Other questions about one person that have the same answer.

Each asks whether a cell's count is ``x`` or ``x + 1``; they differ in what the prior is about, and in whether the count
that the adversary knows has the target in it (Kazan and Reiter 2024, section S1.2).

=================== ============================================ ============================== ==================
question            what the adversary asks                      the prior                      the known count
=================== ============================================ ============================== ==================
characteristics     has the target these characteristics?        that it has them               without the target
response            did the target answer the census at all?     that it did                    with the target
truthful-answer     did the target answer truly?                 that it did                    with the target
variable            which value has one variable of the target?  of the value that is true      without the target
=================== ============================================ ============================== ==================

The last looks at the cell of the true value alone. Someone who knows that the target is in one of two cells can look at
both (:func:`two_cells`), and at all cells with :mod:`.histogram`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from confide.errors import Finding, ParameterError
from confide.exact import Exact
from confide.risk.bayesian.noise_pmf import LawComparison
from confide.risk.bayesian.one_level import checked_priors, checked_value


class Question(StrEnum):
    """What an adversary may want to know about the target."""

    CHARACTERISTICS = "characteristics"
    RESPONSE = "response"
    TRUTHFUL_ANSWER = "truthful-answer"
    VARIABLE = "variable"

    @property
    def count_has_target(self) -> bool:
        """Whether the count that the adversary knows has the target in it."""
        return self in (Question.RESPONSE, Question.TRUTHFUL_ANSWER)


@dataclass(frozen=True)
class Reduced:
    """A question in the terms of :mod:`.one_level`: the prior, and the count without the target."""

    prior: Fraction
    known: int


def reduce_question(question: Question, prior: Exact, known: int) -> Reduced:
    """A question as the one of section 3.1: is the count ``known`` or ``known + 1``?

    >>> reduce_question(Question.RESPONSE, "9/10", 3)
    Reduced(prior=Fraction(9, 10), known=2)
    """
    (p,) = checked_priors([prior])
    count = checked_value(known) - int(question.count_has_target)
    if count < 0:
        raise ParameterError(
            Finding(
                code="no-target",
                what="a count that has the target in it is at least one",
                found=str(known),
                expected="a count of at least 1",
                remedy="give the count with the target",
            )
        )
    return Reduced(p, count)


def two_cells(comparison: LawComparison) -> tuple[LawComparison, LawComparison]:
    """What someone learns who knows the target to be in one of two cells, as two releases for :mod:`.sequential`.

    The log-ratio is ``L(k) - L(k')``, ``k`` of the true cell and ``k'`` of the other. The noise is symmetric, hence
    ``-L(k') = L(1 - k')``, and ``1 - k'`` has the law of ``k``: the other cell says as much as a second release of the
    first. With noise for ``change-one`` neighbours each counts for half of rho, hence both together for rho.
    """
    return comparison, comparison
