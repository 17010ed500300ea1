"""The noise of one count, with a bound or without, and what the latter does to small areas (Bach 2020).

Bounded noise on large counts is a symmetric row p(v), v = −D..D, as perturbation tables have it. The row of maximum
entropy with a bound and a variance is the truncated discrete Gaussian, p(v) ∝ exp(−b v²)
(:mod:`confide.noise.max_entropy`; Bach 2020, section 3.2; Giessing 2016). Other rows come in by their probabilities.

Noise without a bound has bounds with some probability (sections 3.1, 4.2). Laplace noise Lap(1/ε) on a count exceeds E
with probability exp(−εE) (equation 15). Of t counts none exceeds E, with probability α at least, if ε ≥ ln(t/(1−α))/E
(equation 16, a union bound). The same with E = √n for t = n ln² n counts says from which ε on a database of n records
is exposed to reconstruction although its noise has no bound (equation 8).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from fractions import Fraction
from math import exp, fsum, inf, log, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

from confide.errors import InputError, ParameterError, Place
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
        raise ParameterError(
            "bad-variance",
            where=Place(path={"bound": "-D", "variance": "-V"}.get("variance")),
            found=str(variance)[:60],
            smallest=float(_SMALLEST),
        )
    return max_entropy.symmetric_row(bound, limit)


def row_of(probabilities: tuple[float, ...]) -> NoiseRow:
    """Any distribution on −D..D, from its 2D+1 probabilities."""
    wrong = len(probabilities) < 3 or len(probabilities) % 2 == 0 or any(p < 0 for p in probabilities)
    if wrong or abs(fsum(probabilities) - 1) > 1e-9:
        raise ParameterError(
            "bad-row/bounded",
            where=Place(path={"bound": "-D", "variance": "-V"}.get("row")),
            number=len(probabilities),
            total=fsum(probabilities),
        )
    bound = len(probabilities) // 2
    return NoiseRow(tuple(range(-bound, bound + 1)), tuple(probabilities))


def _checked_bound(bound: int) -> None:
    if not 1 <= bound <= LARGEST_BOUND:
        raise ParameterError(
            "bad-bound/bounded",
            where=Place(path={"bound": "-D", "variance": "-V"}.get("bound")),
            found=str(bound)[:60],
            largest_bound=LARGEST_BOUND,
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
        raise ParameterError("bad-level/confidence", found=repr(level))
    return level


# What unbounded noise does to small areas, and the bounds that it has with some probability.


EDGES = (0, 20, 40, 60, 80, 100, 200, 300, 400, 500)
RELATIVE_ERRORS = (Fraction(1, 5), Fraction(1, 2), Fraction(1))


def exceedance(epsilon: Exact, bound: Exact) -> float:
    """P(|x| > E) = exp(−εE) for Laplace noise with the scale 1/ε (equation 15)."""
    return exp(-float(positive(epsilon, "epsilon") * positive(bound, "the bound")))


def geometric_exceedance(epsilon: Exact, bound: int) -> float:
    """P(|x| > E) for two-sided geometric noise, its discrete sibling: 2 exp(−ε(E+1))/(1 + exp(−ε))."""
    rate = float(positive(epsilon, "epsilon"))
    return 2 * exp(-rate * (bound + 1)) / (1 + exp(-rate))


def epsilon_for_bound(bound: Exact, counts: int, level: float = LEVEL) -> float:
    """The ε with which no one of ``counts`` exceeds the bound, with probability ``level`` at least (equation 16).

    Args:
        bound: The noise that no count should exceed.
        counts: How many counts there are.
        level: The probability.

    Returns:
        The epsilon of a count with Laplace noise.

    >>> round(epsilon_for_bound(20, 68), 3)
    0.268
    """
    return _log_ratio(counts, level) / float(positive(bound, "the bound"))


def bound_for_epsilon(epsilon: Exact, counts: int, level: float = LEVEL) -> float:
    """Equation 16 read backwards: the bound that holds for all counts at once with probability ``level``.

    Args:
        epsilon: The epsilon of a count with Laplace noise.
        counts: How many counts there are.
        level: The probability.

    Returns:
        The bound.

    >>> round(bound_for_epsilon("1/2", 68), 1)
    10.7
    """
    return _log_ratio(counts, level) / float(positive(epsilon, "epsilon"))


def reconstruction_epsilon(records: int, level: float = LEVEL) -> float:
    """The ε per count from which on n ln² n answers stay within √n of the truth (equation 8).

    >>> round(reconstruction_epsilon(1_000_000, 0.99), 5)
    0.02367
    """
    if records < 3:  # below e the logarithm of the logarithm has no meaning here
        raise ParameterError("bad-records", found=str(records)[:60])
    return log(records * log(records) ** 2 / (1 - checked_level(level))) / sqrt(records)


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Areas with more than ``above`` and at most ``to`` people, at one ε and one relative error.

    ``at_least`` takes every area for as large as the class allows (footnote 29 of the paper); ``expected`` takes each
    at its own size. ``same_direction`` is the expected number of areas of which women, men and all people are off by
    that much, all in the same direction: since F + M = T it depends on the total alone.
    """

    above: int
    to: int | None
    areas: int
    epsilon: float
    relative_error: float
    at_least: float
    expected: float
    same_direction: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def distortions(
    populations: Iterable[int],
    epsilons: Sequence[Exact],
    relative_errors: Sequence[Exact] = RELATIVE_ERRORS,
    edges: Sequence[int] = EDGES,
) -> list[SizeClass]:
    """How many counts of each size are expected to be off by at least a relative error (Figure 4).

    Populations above the last edge are in a class without an upper end, whose ``at_least`` is 0; empty areas are left
    out.

    Args:
        populations: The sizes of areas.
        epsilons: Epsilons of a count with Laplace noise.
        relative_errors: Errors as shares of the size.
        edges: The edges of size classes, rising.

    Returns:
        A row for each epsilon, error and size class.

    >>> round(distortions([10, 30], ["1/2"])[0].expected, 4)
    0.3679
    """
    if list(edges) != sorted(set(edges)) or len(edges) < 2:
        raise ParameterError("bad-edges", found=str(edges)[:60])
    classes: list[list[int]] = [[] for _ in edges]
    for population in populations:
        if population < 0:
            raise ParameterError("bad-population", found=str(population)[:60])
        if population > edges[0]:
            classes[bisect_left(edges, population) - 1].append(population)
    rows = []
    for epsilon in epsilons:
        for error in relative_errors:
            rate = float(positive(epsilon, "epsilon") * positive(error, "the relative error"))
            for place, members in enumerate(classes):
                to = edges[place + 1] if place + 1 < len(edges) else None
                rows.append(
                    SizeClass(
                        above=edges[place],
                        to=to,
                        areas=len(members),
                        epsilon=float(positive(epsilon)),
                        relative_error=float(positive(error)),
                        at_least=0.0 if to is None else len(members) * exp(-rate * to),
                        expected=sum(exp(-rate * size) for size in members),
                        # Both directions, each noise in that direction: 2 · ∏ ½exp(−ε·RE·n) with F + M + T = 2T.
                        same_direction=sum(exp(-2 * rate * size) / 4 for size in members),
                    )
                )
    return rows


def read_populations(path: str | Path) -> list[int]:
    """Published sizes of areas, from a text file with one whole number on each line; empty lines are passed over."""
    file, populations = Path(path), []
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InputError("bad-populations/list-sizes", where=Place(file=file.name, line=None)) from None
    for place, line in enumerate(lines, start=1):
        text = line.strip()
        if text and not (text.isascii() and text.isdigit() and len(text) < 12):
            raise InputError(
                "bad-populations/text-file-whole", where=Place(file=file.name, line=place), found=text[:40]
            )
        if text:
            populations.append(int(text))
    return populations


def _log_ratio(counts: int, level: float) -> float:
    if counts < 1:
        raise ParameterError("bad-counts/possible", found=str(counts)[:60])
    return log(counts / (1 - checked_level(level)))
