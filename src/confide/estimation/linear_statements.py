"""What can be said of several estimates with a known covariance: shares, differences, many at once, medians, ranks.

Estimates have Gaussian errors with a known covariance, as least squares gives them. Every statement here is the
inversion of a test about a *linear* combination, whose standard deviation is exact; nothing is linearised.

    share R of x in y      {R: (x - R y)² <= z² Var(x - R y)}                     Fieller; may have no bounds
    quantile a at p        S(a) = Σ_{b <= a} x_b - p Σ x;  a stays unless S(a) < -z sd or S(a - 1) > z sd
    K intervals at once    z of the level's K-th root (Šidák), or the law of max |Z| under the covariance
    larger, majority       Φ(d / sd(d)) for one difference d; never from two intervals
    rank                   between 1 + #{surely larger} and K - #{surely smaller}, all pairs at once

Definitions and proofs: ``docs/proofs/intervals.md``, sections 4 to 8. References: E. Fieller, *Some problems in
interval estimation*, J. R. Stat. Soc. B 16 (1954); Z. Šidák, *Rectangular confidence regions for the means of
multivariate normal distributions*, J. Am. Stat. Assoc. 62 (1967).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from confide.arrays import Booleans, Floats, Integers
from confide.errors import ParameterError
from confide.estimation import unified_intervals

DRAWS = 20_000
"""How often the law of max |Z|, or of ranks, is drawn from."""
SURE_DRAWS = 0.999
"""With this probability the quantile taken from the draws is not below the true one."""
SEED = 2404
"""Draws are for the law of statements about published numbers, not for protection: the same each time."""
NEGLIGIBLE = 1e-12
"""Variances below this part of the largest are zero: the combination is known."""


@dataclass(frozen=True, eq=False)
class ShareIntervals(unified_intervals.RealIntervals):
    """Intervals of shares between 0 and 1. Where ``bounded`` is False there is no bounded interval: the denominator may
    be zero as far as the estimates tell, and the ends are 0 and 1."""

    bounded: Booleans


@dataclass(frozen=True, eq=False)
class FiellerSets(unified_intervals.RealIntervals):
    """The ratios x/y that a test of x - R y = 0 accepts.

    Where ``outside`` they are all but those *between* the ends; otherwise all between the ends, which may be infinite.
    """

    outside: Booleans

    @property
    def bounded(self) -> Booleans:
        """Whether there are two finite ends with the ratios between them."""
        return np.asarray(~self.outside & np.isfinite(self.low) & np.isfinite(self.high))

    def covers(self, truth: ArrayLike) -> Booleans:
        """Whether each set has the number in it."""
        value = np.asarray(truth)
        between = (self.low <= value) & (value <= self.high)
        return np.asarray(np.where(self.outside, (value <= self.low) | (value >= self.high), between))


def ratio_sets(
    above: ArrayLike,
    below: ArrayLike,
    above_variance: ArrayLike,
    below_variance: ArrayLike,
    covariance: ArrayLike,
    quantile: ArrayLike,
) -> FiellerSets:
    """Fieller's sets {R: (x - R y)² <= z² Var(x - R y)}: for every true ratio they have it with the level of z exactly.

    (x - R y)² - z² Var(x - R y) = a R² - 2 b R + k is a parabola. With a > 0, that is with y further than z standard
    deviations from zero, it has two roots, and the set lies between them. With a < 0 the set is what lies outside of
    the roots, or everything where there are none; with a = 0 it is a half line.

    Args:
        above: Estimates x.
        below: Estimates y, of either sign.
        above_variance: Var(x).
        below_variance: Var(y).
        covariance: Cov(x, y).
        quantile: z.

    >>> sets = ratio_sets([30.0, 30.0, 1.0], [100.0, 5.0, 2.0], 16.0, 25.0, 0.0, 1.96)
    >>> sets.low.round(3), sets.high.round(3)
    (array([ 0.219, -6.144,   -inf]), array([0.387, 1.921,   inf]))
    >>> sets.outside, sets.bounded
    (array([False,  True, False]), array([ True, False, False]))
    """
    x, y, vx, vy, c, z = np.broadcast_arrays(
        *(np.asarray(v, np.float64) for v in (above, below, above_variance, below_variance, covariance, quantile))
    )
    _check_variances(vx, vy)
    square = z * z
    a, b, k = y * y - square * vy, x * y - square * c, x * x - square * vx
    discriminant = b * b - a * k
    # With a > 0 there is a root, as R = x/y makes the left side of the test zero.
    root = np.sqrt(np.maximum(discriminant, 0.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first, second, line = (b - root) / a, (b + root) / a, k / (2 * b)
    between, outside = a > 0, (a < 0) & (discriminant > 0)
    low = np.where(between, first, np.where(outside, second, np.where((a == 0) & (b > 0), line, -np.inf)))
    high = np.where(between, second, np.where(outside, first, np.where((a == 0) & (b < 0), line, np.inf)))
    return FiellerSets(low, high, np.asarray(outside))


def share_intervals(
    part: ArrayLike,
    base: ArrayLike,
    part_variance: ArrayLike,
    base_variance: ArrayLike,
    covariance: ArrayLike,
    level: float,
) -> ShareIntervals:
    """Fieller intervals of a share, within 0 and 1 and never empty.

    Where the whole set lies outside of 0 to 1, the nearer end alone is left: at the end the test has one side, as
    shares beyond it do not exist, and it accepts.

    Args:
        part: Estimates of the part, x.
        base: Estimates of what it is a part of, y.
        part_variance: Var(x).
        base_variance: Var(y).
        covariance: Cov(x, y).
        level: The coverage, such as 0.9.

    >>> ends = share_intervals([30.0, 3.0], [100.0, 4.0], 16.0, 25.0, 8.0, 0.9)
    >>> ends.low.round(3), ends.high.round(3), ends.bounded
    (array([0.239, 0.   ]), array([0.36, 1.  ]), array([ True, False]))
    """
    sets = ratio_sets(part, base, part_variance, base_variance, covariance, unified_intervals.normal_quantile(level))
    bounded = sets.bounded & (np.asarray(base, np.float64) > 0)
    low, high = np.where(bounded, sets.low, 0.0), np.where(bounded, sets.high, 1.0)
    return ShareIntervals(np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0), np.asarray(bounded))


def difference_intervals(
    first: ArrayLike,
    second: ArrayLike,
    first_variance: ArrayLike,
    second_variance: ArrayLike,
    covariance: ArrayLike,
    level: float,
) -> unified_intervals.WholeIntervals:
    """Intervals for the difference of two counts, in whole numbers.

    Args:
        first: Estimates x.
        second: Estimates y that are taken off.
        first_variance: Var(x).
        second_variance: Var(y).
        covariance: Cov(x, y).
        level: The coverage.
    """
    gap, sd = _difference(first, second, first_variance, second_variance, covariance)
    return unified_intervals.count_intervals(gap, sd, level, least=-np.inf)


def probability_larger(
    first: ArrayLike,
    second: ArrayLike,
    first_variance: ArrayLike,
    second_variance: ArrayLike,
    covariance: ArrayLike,
) -> Floats:
    """Φ(d/sd(d)) for d = x - y: how strongly the estimates say that the first count is the larger.

    One minus it is the level at which the test of "the first is not larger" rejects. Where d is known it is 0, ½ or 1.

    >>> probability_larger([104.0, 100.0], [100.0, 100.0], 9.0, 9.0, 1.0).round(3)
    array([0.841, 0.5  ])
    """
    gap, sd = _difference(first, second, first_variance, second_variance, covariance)
    return _tail(gap, sd)


def probability_majority(
    part: ArrayLike,
    base: ArrayLike,
    part_variance: ArrayLike,
    base_variance: ArrayLike,
    covariance: ArrayLike,
    share: float = 0.5,
) -> Floats:
    """Φ of x - share·y over its standard deviation: how strongly the estimates say that the part exceeds the share.

    >>> probability_majority([52.0, 30.0], [100.0, 60.0], 9.0, 16.0, 6.0).round(3)
    array([0.775, 0.5  ])
    """
    if not 0 <= share <= 1:
        raise ParameterError("bad-statement/share", found=repr(share))
    y, vy, c = (np.asarray(values, np.float64) for values in (base, base_variance, covariance))
    gap, sd = _difference(part, share * y, part_variance, share * share * vy, share * c)
    return _tail(gap, sd)


def simultaneous_z(level: float, statements: int) -> float:
    """Šidák's z: K intervals x ± z sd hold *all at once* with at least this probability, whatever the correlations.

    It is exact for independent errors and smaller than Bonferroni's. Intervals with bounds take the level
    ``level ** (1 / K)`` each (:func:`single_level`).

    >>> round(simultaneous_z(0.9, 126), 3)
    3.341
    """
    return unified_intervals.normal_quantile(single_level(level, statements))


def single_level(level: float, statements: int) -> float:
    """The level of each of K intervals that hold all at once with ``level``: its K-th root.

    The inequality behind it is about symmetric intervals of Gaussian errors. For intervals with bounds, whose tests
    have other regions, Bonferroni's ``1 - (1 - level)/K`` holds without any condition (:func:`bonferroni_level`).
    """
    if statements < 1:
        raise ParameterError("bad-statement/nothing", found=str(statements))
    return float(unified_intervals.checked_level(level) ** (1 / statements))


def bonferroni_level(level: float, statements: int) -> float:
    """1 - (1 - level)/K: the level of each of K statements of any kind that hold all at once."""
    if statements < 1:
        raise ParameterError("bad-statement/nothing", found=str(statements))
    return 1 - (1 - unified_intervals.checked_level(level)) / statements


def max_z(covariance: ArrayLike, level: float, draws: int = DRAWS) -> float:
    """z with P(max |error / sd| <= z) >= level under this covariance: less than Šidák's where errors go together.

    It is an order statistic of draws, taken so high that it is not below the true quantile with probability 0.999, and
    never above Šidák's z, which always holds.

    Args:
        covariance: Of the errors, K x K; known combinations (variance 0) are left out.
        level: The probability that all intervals hold.
        draws: How many draws.
    """
    matrix = _checked_covariance(covariance)
    sd = np.sqrt(np.diagonal(matrix))
    noisy = sd > 0
    if not noisy.any():
        return 0.0
    matrix, sd = matrix[np.ix_(noisy, noisy)], sd[noisy]
    largest = np.sort(np.abs(_errors(matrix, draws) / sd).max(axis=1))
    from scipy.stats import binom  # takes longer to import than everything else here

    place = int(binom.ppf(SURE_DRAWS, draws, unified_intervals.checked_level(level)))
    sidak = simultaneous_z(level, len(sd))
    return min(float(largest[place]), sidak) if place < draws else sidak


def quantile_intervals(
    cells: ArrayLike, covariance: ArrayLike, share: float, level: float
) -> unified_intervals.WholeIntervals:
    """Which level of an ordered attribute is the median, or another quantile: from the first to the last that the test
    leaves, as positions.

    The quantile at p is the first level a with F(a) >= p, that is, with S(a) >= 0 > S(a - 1). A position stays unless
    one of both is refuted, each by a one-sided test at (1 - level)/2.

    Args:
        cells: Estimates for each level of the attribute in order, areas x levels (or one area).
        covariance: Of the errors, areas x levels x levels.
        share: p, such as 0.5.
        level: The coverage.

    Returns:
        Positions of the first and the last level; all of them where the estimates add up to nobody.

    >>> ends = quantile_intervals([20.0, 30.0, 40.0, 10.0], 9 * np.eye(4), 0.5, 0.9)
    >>> int(ends.low), int(ends.high)
    (1, 2)
    """
    if not 0 < share < 1:
        raise ParameterError("bad-statement/quantile", found=repr(share))
    x, matrix = np.asarray(cells, np.float64), np.asarray(covariance, np.float64)
    levels = x.shape[-1]
    if matrix.shape[-2:] != (levels, levels):
        raise ParameterError("bad-statement/levels", found=str(matrix.shape), levels=levels)
    rows = np.tril(np.ones((levels, levels))) - share
    sums = x @ rows.T
    variance = np.einsum("ai,...ij,aj->...a", rows, matrix, rows)
    reach = unified_intervals.normal_quantile(level) * np.sqrt(np.maximum(variance, 0.0))
    not_above = sums >= -reach
    below = np.concatenate([np.zeros((*x.shape[:-1], 1)), sums[..., :-1]], axis=-1)
    below_reach = np.concatenate([np.zeros((*x.shape[:-1], 1)), np.broadcast_to(reach, sums.shape)[..., :-1]], axis=-1)
    possible = not_above & (below <= below_reach)
    # Where nobody is estimated to be there, nothing is said.
    possible |= (x.sum(axis=-1) <= 0)[..., None]
    first = np.argmax(possible, axis=-1)
    last = levels - 1 - np.argmax(possible[..., ::-1], axis=-1)
    return unified_intervals.WholeIntervals(np.asarray(first, np.int64), np.asarray(last, np.int64))


def rank_intervals(estimates: ArrayLike, covariance: ArrayLike, level: float) -> unified_intervals.WholeIntervals:
    """The ranks that each of K counts may have, 1 for the largest; all K intervals hold at once.

    Count i is surely larger than j if their difference exceeds z sd of the difference, z being Šidák's for all
    K(K - 1)/2 pairs. Its rank lies between 1 + #{surely larger} and K - #{surely smaller}.

    Args:
        estimates: K estimates.
        covariance: Of their errors, K x K.
        level: The probability that all of them are right.

    >>> ends = rank_intervals([50.0, 47.0, 20.0], 4 * np.eye(3), 0.9)
    >>> ends.low, ends.high
    (array([1, 1, 3]), array([2, 2, 3]))
    """
    x, matrix = np.asarray(estimates, np.float64), _checked_covariance(covariance)
    count = len(x)
    if count < 2:
        return unified_intervals.WholeIntervals(np.ones(count, np.int64), np.ones(count, np.int64))
    variances = np.diagonal(matrix)
    sd = np.sqrt(np.maximum(variances[:, None] + variances - 2 * matrix, 0.0))
    larger = x[:, None] - x > simultaneous_z(level, count * (count - 1) // 2) * sd
    np.fill_diagonal(larger, False)
    return unified_intervals.WholeIntervals(1 + larger.sum(axis=0), count - larger.sum(axis=1))


def rank_probabilities(estimates: ArrayLike, covariance: ArrayLike, draws: int = DRAWS) -> Floats:
    """How strongly the estimates speak for each rank: K x K, row i the probabilities of ranks 1 to K for count i.

    They are the shares of draws from N(estimates, covariance) with that rank: for two counts Φ(d/sd(d)). They answer
    "how sure is it", while :func:`rank_intervals` covers the true ranks with a stated probability.

    >>> rank_probabilities([52.0, 50.0], [[8.0, 0.0], [0.0, 8.0]]).round(2)
    array([[0.69, 0.31],
           [0.31, 0.69]])
    """
    x, matrix = np.asarray(estimates, np.float64), _checked_covariance(covariance)
    drawn = x + _errors(matrix, draws)
    order = np.argsort(-drawn, axis=1, kind="stable")
    ranks: Integers = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(len(x)), order.shape), axis=1)
    return np.asarray([np.bincount(of_one, minlength=len(x)) / draws for of_one in ranks.T])


def _difference(
    first: ArrayLike, second: ArrayLike, first_variance: ArrayLike, second_variance: ArrayLike, covariance: ArrayLike
) -> tuple[Floats, Floats]:
    x, y, vx, vy, c = np.broadcast_arrays(
        *(np.asarray(values, np.float64) for values in (first, second, first_variance, second_variance, covariance))
    )
    _check_variances(vx, vy)
    variance = vx + vy - 2 * c
    known = variance <= NEGLIGIBLE * (vx + vy)
    return np.asarray(x - y), np.sqrt(np.where(known, 0.0, variance))


def _tail(gap: Floats, sd: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(sd > 0, gap / sd, np.where(gap == 0, 0.0, np.copysign(np.inf, gap)))
    return np.asarray(ndtr(ratio))


def _errors(covariance: Floats, draws: int) -> Floats:
    """Draws of the errors, draws x K; the covariance may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.random.default_rng(SEED).standard_normal((draws, len(values))) @ root.T)


def _checked_covariance(covariance: ArrayLike) -> Floats:
    matrix = np.atleast_2d(np.asarray(covariance, np.float64))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, rtol=1e-6):
        raise ParameterError("bad-statement/covariance", shape=matrix.shape)
    _check_variances(np.diagonal(matrix))
    return matrix


def _check_variances(*variances: Floats) -> None:
    if any(not np.isfinite(values).all() or (values < 0).any() for values in variances):
        raise ParameterError("bad-statement/variance")
