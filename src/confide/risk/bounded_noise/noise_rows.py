"""Bounded noise on large counts: a symmetric row p(v), v = −D..D, as perturbation tables have it.

The row of maximum entropy with a bound and a variance is the truncated discrete Gaussian, p(v) ∝ exp(−b v²)
(:mod:`confide.noise.max_entropy`; Bach 2020, section 3.2; Giessing 2016). Other rows come in by their probabilities.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from math import fsum, inf, sqrt
from statistics import NormalDist

from confide.errors import ParameterError, Place
from confide.exact import Exact, positive
from confide.noise import max_entropy
from confide.noise.max_entropy import MaxEntropyRow, NoiseRow

LARGEST_BOUND = 100
_SMALLEST = Fraction(1, 10**6)


def symmetric_row(bound: int, variance: Exact) -> MaxEntropyRow:
    """The row of maximum entropy with a bound and a variance (:func:`confide.noise.max_entropy.symmetric_row`).

    Args:
        bound: The largest noise, E.
        variance: The variance; a larger one than E(E+1)/3 gives the uniform row.

    Returns:
        The probabilities from −E to E.

    >>> row = symmetric_row(5, 2)
    >>> round(row.b, 5), round(row.pmf(0), 5), round(row.pmf(5), 6)
    (0.24968, 0.28194, 0.000549)
    """
    _checked_bound(bound)
    limit = positive(variance, "the variance")
    if limit < _SMALLEST:
        raise _refused("variance", str(variance), f"at least {float(_SMALLEST)}")
    return max_entropy.symmetric_row(bound, limit)


def row_of(probabilities: tuple[float, ...]) -> NoiseRow:
    """Any distribution on −D..D, from its 2D+1 probabilities."""
    wrong = len(probabilities) < 3 or len(probabilities) % 2 == 0 or any(p < 0 for p in probabilities)
    if wrong or abs(fsum(probabilities) - 1) > 1e-9:
        found = f"{len(probabilities)} numbers with the sum {fsum(probabilities):.12g}"
        raise _refused("row", found, "an odd number of probabilities, from −E to E, that add up to one")
    bound = len(probabilities) // 2
    return NoiseRow(tuple(range(-bound, bound + 1)), tuple(probabilities))


def _checked_bound(bound: int) -> None:
    if not 1 <= bound <= LARGEST_BOUND:
        raise _refused("bound", str(bound), f"a whole number from 1 to {LARGEST_BOUND}")


def _refused(what: str, found: str, expected: str) -> ParameterError:
    return ParameterError(
        f"bad-{what}",
        f"this {what} of bounded noise is not possible",
        where=Place(path={"bound": "-D", "variance": "-V"}.get(what)),
        found=found[:60],
        expected=expected,
        remedy=f"correct the {what}",
    )


# How likely the mean of independent representations gives a count away (Bach 2020, sections 3.3 and B.3).
#
# A count is the mean of t representations, which add up k noisy cells in all. The noise of the mean has the variance
# V·k/t², so that ``ratio`` = k/t² measures the risk. The count is found if the noise of the mean is within ξ = 1/2:
#
# * Gaussian model: α = 2Φ(ξ/√(V·k/t²)) − 1, which is what sums of many terms come close to;
# * Chebyshev: α ≥ 1 − V·(k/t²)/ξ², whatever the law (equation 12); a lower limit, so it says little about protection.
#
# Read backwards they give the variance that keeps the probability at a level; for Laplace noise V = 2/ε².


HALF = 0.5
LEVEL = 0.68
"""The confidence level of the paper's contours."""


class Model(StrEnum):
    """How the noise of a mean is modelled."""

    GAUSSIAN = "gaussian"
    CHEBYSHEV = "chebyshev"


def success_probability(variance: float, ratio: float, model: Model = Model.GAUSSIAN, within: float = HALF) -> float:
    """The probability that the mean is within ``within`` of the count; for Chebyshev a lower limit, at least 0.

    Args:
        variance: The variance of a cell's noise.
        ratio: k/t² of the mean.
        model: How the noise of a mean is modelled.
        within: How close the mean has to be.

    Returns:
        The probability.

    >>> round(success_probability(2, 0.1), 4)
    0.7364
    """
    variance_of_mean = variance * ratio
    if variance_of_mean <= 0:
        return 1.0
    if model is Model.CHEBYSHEV:
        return max(0.0, 1 - variance_of_mean / within**2)
    return 2 * NormalDist().cdf(within / sqrt(variance_of_mean)) - 1


def variance_needed(ratio: float, level: float = LEVEL, model: Model = Model.GAUSSIAN, within: float = HALF) -> float:
    """The variance at which the probability is ``level``: less noise, and a count is found more often.

    Args:
        ratio: k/t² of the mean.
        level: The probability.
        model: How the noise of a mean is modelled.
        within: How close the mean has to be.

    Returns:
        The variance of a cell's noise.

    >>> round(variance_needed(0.0867), 3)
    2.916
    """
    checked_level(level)
    if ratio <= 0:
        return inf
    if model is Model.CHEBYSHEV:
        return (1 - level) * within**2 / ratio
    return (within / NormalDist().inv_cdf((1 + level) / 2)) ** 2 / ratio


def laplace_epsilon(variance: float) -> float:
    """The ε of Laplace noise Lap(1/ε) with this variance: √(2/V).

    Args:
        variance: The variance of a count's noise.

    Returns:
        The epsilon.

    >>> round(laplace_epsilon(variance_needed(0.0118)), 4)
    0.3055
    """
    return sqrt(2 / variance)


def checked_level(level: float) -> float:
    """A confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ParameterError(
            "bad-level",
            "a confidence level must be between 0 and 1",
            found=repr(level),
            expected="such as 0.68",
            remedy="correct the level",
        )
    return level
