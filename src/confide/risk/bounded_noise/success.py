"""How likely the mean of independent representations gives a count away (Bach 2020, sections 3.3 and B.3).

A count is the mean of t representations, which add up k noisy cells in all. The noise of the mean has the variance
V·k/t², so that ``ratio`` = k/t² measures the risk. The count is found if the noise of the mean is within ξ = 1/2:

* Gaussian model: α = 2Φ(ξ/√(V·k/t²)) − 1, which is what sums of many terms come close to;
* Chebyshev: α ≥ 1 − V·(k/t²)/ξ², whatever the law (equation 12); a lower limit, so it says little about protection.

Read backwards they give the variance that keeps the probability at a level; for Laplace noise V = 2/ε².
"""

from __future__ import annotations

from enum import StrEnum
from math import inf, sqrt
from statistics import NormalDist

from confide.errors import Finding, ParameterError

HALF = 0.5
LEVEL = 0.68
"""The confidence level of the paper's contours."""


class Model(StrEnum):
    """How the noise of a mean is modelled."""

    GAUSSIAN = "gaussian"
    CHEBYSHEV = "chebyshev"


def success_probability(variance: float, ratio: float, model: Model = Model.GAUSSIAN, within: float = HALF) -> float:
    """The probability that the mean is within ``within`` of the count; for Chebyshev a lower limit, at least 0.

    >>> round(success_probability(2, 0.1), 4)
    0.7364
    """
    spread = variance * ratio
    if spread <= 0:
        return 1.0
    if model is Model.CHEBYSHEV:
        return max(0.0, 1 - spread / within**2)
    return 2 * NormalDist().cdf(within / sqrt(spread)) - 1


def variance_needed(ratio: float, level: float = LEVEL, model: Model = Model.GAUSSIAN, within: float = HALF) -> float:
    """The variance at which the probability is ``level``: less noise, and a count is found more often.

    >>> round(variance_needed(0.0867), 3)
    2.916
    """
    checked(level)
    if ratio <= 0:
        return inf
    if model is Model.CHEBYSHEV:
        return (1 - level) * within**2 / ratio
    return (within / NormalDist().inv_cdf((1 + level) / 2)) ** 2 / ratio


def laplace_epsilon(variance: float) -> float:
    """The ε of Laplace noise Lap(1/ε) with this variance: √(2/V).

    >>> round(laplace_epsilon(variance_needed(0.0118)), 4)
    0.3055
    """
    return sqrt(2 / variance)


def checked(level: float) -> float:
    """A confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ParameterError(
            Finding(
                code="bad-level",
                what="a confidence level lies between 0 and 1",
                found=repr(level),
                expected="such as 0.68",
                remedy="correct the level",
            )
        )
    return level
