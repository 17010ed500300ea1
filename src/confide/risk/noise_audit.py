"""The noise audit: whether what a run drew is what its plan says, each draw from its law and none of another's.

A curator knows the truth, so released minus true is the noise itself. Every number here follows from these *residuals*
and the laws of the plan, and from nothing else: the sampler, its keys and its coordinates are not asked.

Of a draw x with the law F the audit keeps P(X < x), P(X = x) and P(X > x), exact up to floats. From them come

* **evidence** against the law: for a density w on the unit interval, the mean of w over the interval that x stands for
  (P(X < x) to P(X ≤ x)) has the mean one under F, whatever F is. A product of such numbers over independent draws, or
  a mean of such products, exceeds 1/a with probability at most a (Markov; Vovk and Wang 2021). Densities that a scale
  3 % too small or too large would have, and Legendre polynomials for every other shape, are what w goes through;
* a **score** u = P(X < x) - P(X > x), the same for comonotone draws of different scales. It is the mean of a uniform
  variable on [-1, 1] given x, hence E exp(t u) ≤ exp(t² / 6) for every law. If u and v are independent,

      P(|Σ u_i v_i| ≥ c)  ≤  2 exp(-3 c² / (2 Σ v_i²)),

  without an approximation. Such sums are taken between all measurements and within each, at every shift (by one
  Fourier transform) and cell by cell within the same unit;
* **runs**: the same values, or the same signs, in as many consecutive draws as chance does not give.

All thresholds together give a false alarm in one audit of a million (:data:`ALARM`). What the audit can and cannot see:
``docs/concepts/noise-audit.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, lgamma, log, log2, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft
from scipy.special import logsumexp, ndtr, ndtri

from confide.answers import TypedAnswer
from confide.arrays import Booleans, Floats, Integers
from confide.noise import (
    DiscreteGaussian,
    FiniteDistribution,
    TruncatedDistribution,
    TruncatedGaussian,
    TruncatedGeometric,
    TwoSidedGeometric,
)
from confide.releases.mechanism import Check, OutcomeLaw, ResidualLaw, Residuals
from confide.releases.plan import Plan
from confide.report import charts
from confide.report.dossier import BANNER
from confide.report.render import render

ALARM = 1e-6
"""The probability that noise as planned fails an audit."""
KINDS = 10
"""The tests that share it: five of laws, five of independence."""
SMALL_ERROR = Fraction(3, 100)
"""The error of a scale that an audit is measured by."""
SCALES = (0.97, 1.03, 0.94, 1.06, 0.85, 1.18, 0.6, 1.7, 0.2, 5.0)
"""The wrong scales that evidence is gathered for."""
TILTS = tuple(sign * size for size in (0.02, 0.06, 0.2, 0.6, 0.95) for sign in (-1, 1))
DEGREES = range(1, 9)
CONCENTRATIONS = (30.0, 300.0, 3e3, 3e4, 3e5)
MOST_VALUES = 64
"""A law is small, and looked at value by value, if so many values have all but a ten-thousandth of it."""
WIDE = 3_000
"""From this standard deviation on a Gaussian is taken for a continuous one, which changes less than 1e-8; from a tenth
of it on a two-sided geometric law is worked out draw by draw."""
LIKE_ANY = 100
"""At this scale a law is like any wider one of its kind, but for the scale."""
MOST_COMPARED = 1 << 21
"""Of a measurement so many draws are compared with each other."""
MOST_POINTS = 100_000_000
"""Points of Fourier transforms between measurements: some ten seconds."""
MOST_PRODUCTS = 20_000_000_000
MOST_IN_RUNS = 1 << 24
COLUMNS_AT_ONCE = 512
POWER = 2.33
"""Standard errors for a probability of 0.99."""


# The probabilities of a law, as floats with all their digits in both tails. They are worked out from the formula of the
# law and share nothing with the sampler.


@dataclass(frozen=True, eq=False)
class LawMass:
    """P(X = x) for ``first``, ``first + 1``, ..., with sums from either end."""

    first: int
    at: Floats
    below: Floats
    over: Floats

    @classmethod
    def of(cls, first: int, mass: Floats) -> LawMass:
        at = mass / mass.sum()
        below = np.concatenate([[0.0], np.cumsum(at)[:-1]])
        over = np.concatenate([np.cumsum(at[::-1])[::-1][1:], [0.0]])
        return cls(first, at, below, over)

    def tails(self, x: Integers) -> tuple[Floats, Floats, Floats]:
        """P(X < x), P(X = x) and P(X > x)."""
        place = x - self.first
        inside = (place >= 0) & (place < len(self.at))
        place = np.clip(place, 0, len(self.at) - 1)
        at = np.where(inside, self.at[place], 0.0)
        return (
            np.where(inside, self.below[place], np.where(x < self.first, 0.0, 1.0)),
            at,
            np.where(inside, self.over[place], np.where(x < self.first, 1.0, 0.0)),
        )

    @property
    def values(self) -> Floats:
        return np.arange(self.first, self.first + len(self.at), dtype=np.float64)

    def moments(self) -> tuple[float, float, float]:
        """Mean, variance, and the variance of the squared standardised draw (2 for a Gaussian)."""
        mean = float(self.at @ self.values)
        centred = self.values - mean
        variance = float(self.at @ centred**2)
        return mean, variance, float(self.at @ centred**4) / variance**2 - 1 if variance else 0.0


@lru_cache(maxsize=4096)
def law_mass(law: ResidualLaw) -> LawMass:
    """The probabilities of a law that is not wide."""
    if isinstance(law, OutcomeLaw | FiniteDistribution):
        first, last = min(law.values), max(law.values)
        mass = np.zeros(last - first + 1)
        mass[np.array(law.values) - first] = [float(p) for p in law.probabilities]
        return LawMass.of(first, mass)
    if isinstance(law, TruncatedDistribution):
        inside = np.arange(-law.bound, law.bound + 1)
        return LawMass.of(-law.bound, np.exp(-_exponent(law.untruncated, inside)))
    assert isinstance(law, DiscreteGaussian | TwoSidedGeometric)
    parameter = float(law.parameter)
    reach = 1 + ceil(38 * sqrt(parameter) if isinstance(law, DiscreteGaussian) else 700 / parameter)
    return LawMass.of(-reach, np.exp(-_exponent(law, np.arange(-reach, reach + 1))))


def _exponent(law: object, x: Integers) -> Floats:
    if isinstance(law, DiscreteGaussian):
        return np.asarray(x.astype(np.float64) ** 2 / (2 * float(law.sigma2)))
    assert isinstance(law, TwoSidedGeometric)
    return np.asarray(np.abs(x) * float(law.epsilon))


def is_wide(law: ResidualLaw) -> bool:
    """Whether a law has too many values for a list of them."""
    if isinstance(law, DiscreteGaussian):
        return law.sigma2 > WIDE**2
    return isinstance(law, TwoSidedGeometric) and law.epsilon < Fraction(10, WIDE)


def tails(law: ResidualLaw, x: Integers, above: Integers | None = None) -> tuple[Floats, Floats, Floats]:
    """P(X < x), P(X = x) and P(X > x), given that X is above a number, if one is given.

    Args:
        law: The law of X.
        x: Draws.
        above: For each of them the number above which it had to be in order to be seen.

    Returns:
        Three arrays like ``x``.

    >>> from confide.noise import DiscreteGaussian
    >>> [round(float(p[0]), 6) for p in tails(DiscreteGaussian(2), np.array([1]))]
    [0.641047, 0.219696, 0.139257]
    """
    if not is_wide(law):
        result = law_mass(law).tails(x)
    elif isinstance(law, DiscreteGaussian):
        deviation = sqrt(law.sigma2)
        at = np.exp(-_exponent(law, x)) / (deviation * sqrt(2 * np.pi))
        result = ndtr((x - 0.5) / deviation), at, ndtr(-(x + 0.5) / deviation)
    else:
        assert isinstance(law, TwoSidedGeometric)
        epsilon = float(law.epsilon)
        q = np.exp(-epsilon)
        side = np.exp(-epsilon * np.abs(x))
        far, at = side * q / (1 + q), side * -np.expm1(-epsilon) / (1 + q)
        near = 1 - far - at
        result = np.where(x > 0, near, far), at, np.where(x > 0, far, near)
    if above is None:
        return result
    _, _, seen = tails(law, above)
    with np.errstate(divide="ignore", invalid="ignore"):
        at, over = (np.where((x > above) & (seen > 0), part / seen, 0.0) for part in result[1:])
    return np.maximum(0.0, 1 - at - over), at, over


def _moments(law: ResidualLaw) -> tuple[float, float, float]:
    """Mean, variance, and the variance of the squared standardised draw."""
    mean, variance, excess = law_mass(_narrowed(law)).moments()
    if isinstance(law, DiscreteGaussian) and law.sigma2 > LIKE_ANY**2:
        return 0.0, float(law.sigma2), excess
    if isinstance(law, TwoSidedGeometric):
        variance = 2 * float(np.exp(-float(law.epsilon))) / float(np.expm1(-float(law.epsilon))) ** 2
    return mean, variance, excess


def _scaled(law: ResidualLaw, by: Fraction) -> ResidualLaw | None:
    """The law with another scale; none for a list of outcomes."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 * by**2)
    if isinstance(law, TwoSidedGeometric):
        return TwoSidedGeometric(law.epsilon / by)
    if isinstance(law, TruncatedGaussian):
        return TruncatedGaussian(law.sigma2 * by**2, law.bound)
    if isinstance(law, TruncatedGeometric):
        return TruncatedGeometric(law.epsilon / by, law.bound)
    return None


def _narrowed(law: ResidualLaw) -> ResidualLaw:
    """A law of the same shape that has few values: what is asked of it does not depend on its scale."""
    if isinstance(law, DiscreteGaussian) and law.sigma2 > LIKE_ANY**2:
        return DiscreteGaussian(LIKE_ANY**2)
    if isinstance(law, TwoSidedGeometric) and law.epsilon < Fraction(1, LIKE_ANY):
        return TwoSidedGeometric(Fraction(1, LIKE_ANY))
    return law


# Evidence against a law: log of the mean of a density over the interval of each draw.


def scale_evidence(below: Floats, at: Floats, over: Floats) -> Floats:
    """For each wrong scale, as a Gaussian and as a Laplace variable would have it, the evidence of each draw.

    Args:
        below: P(X < x) of each draw.
        at: P(X = x), above zero.
        over: P(X > x).

    Returns:
        Alternatives x draws: logarithms.
    """
    # Both densities are symmetric, so the interval may be counted from the nearer end, where no digit is lost.
    near = np.minimum(below, over)
    end = np.minimum(near + at, 1.0)
    rows = []
    for scale in SCALES:
        gaussian = ndtr(ndtri(end) / scale) - ndtr(ndtri(near) / scale)
        laplace = _laplace(end, scale) - _laplace(near, scale)
        rows += [gaussian / at, laplace / at]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(np.stack(rows), 0.0)))


def _laplace(u: Floats, scale: float) -> Floats:
    """The probability below the u-quantile of a Laplace variable, of one with another scale."""
    half = 0.5 * (2 * np.minimum(u, 1 - u)) ** (1 / scale)
    return np.where(u < 0.5, half, 1 - half)


def shape_evidence(below: Floats, at: Floats, over: Floats) -> Floats:
    """The same for densities 1 + t P_k(2 u - 1), P_k the Legendre polynomial of degree k."""
    first, last = 2 * below - 1, 1 - 2 * over
    width = 2 * at
    middle = (first + last) / 2
    one, other, centre = _legendre(first), _legendre(last), _legendre(middle)
    rows = []
    for k in DEGREES:
        # The antiderivative of P_k is (P_{k+1} - P_{k-1}) / (2 k + 1).
        area = (other[k + 1] - other[k - 1] - one[k + 1] + one[k - 1]) / (2 * k + 1)
        mean = np.where(width > 1e-6, area / np.maximum(width, 1e-6), centre[k])
        mean = np.clip(mean, -1.0, 1.0)
        rows += [np.log1p(tilt * mean) for tilt in TILTS]
    return np.stack(rows)


def _legendre(v: Floats) -> list[Floats]:
    """P_0 to P_{k+1} at v."""
    values = [np.ones_like(v), v]
    for k in range(1, DEGREES[-1] + 1):
        values.append(((2 * k + 1) * v * values[-1] - k * values[-2]) / (k + 1))
    return values


def value_evidence(counts: Floats, probabilities: Floats) -> float:
    """Against a small law, from how often its values came out: a Dirichlet mixture around it by the law itself (log).

    Args:
        counts: How often each value was drawn.
        probabilities: What the law says, above zero, with the sum one.

    Returns:
        The logarithm of a number whose mean under the law is one.
    """
    draws = float(counts.sum())
    plain = float(counts @ np.log(probabilities))
    logs = []
    for concentration in CONCENTRATIONS:
        prior = concentration * probabilities
        gains = sum(lgamma(a + c) - lgamma(a) for a, c in zip(prior.tolist(), counts.tolist(), strict=True) if c)
        logs.append(lgamma(concentration) - lgamma(concentration + draws) + gains - plain)
    return float(logsumexp(logs) - log(len(logs)))


# One measurement, as the audit looks at it.


@dataclass(frozen=True, eq=False)
class SeenMeasurement:
    """The draws of a measurement in the order of their coordinates, with scores, and the evidence against its laws."""

    residuals: Residuals
    run: str
    units: int
    """Rows, those without a draw included."""
    score: Floats
    value: Integers
    law: Integers
    """Which of all laws of the audit; -1 where nothing was drawn."""
    impossible: int
    scale: Floats
    shape: Floats
    squares: float
    squared: int
    """How many draws the standardised squares are summed over: those that are seen whatever they are."""
    scatter: float
    """The variance that the sum of standardised squares has."""

    @property
    def name(self) -> str:
        prefix = f"{self.run}: " if self.run else ""
        return f"{prefix}{self.residuals.level} {self.residuals.query}"

    @property
    def cells(self) -> int:
        return int(self.residuals.noise.shape[1])

    @property
    def draws(self) -> int:
        return int((self.law >= 0).sum())

    @property
    def ratio(self) -> float | None:
        """The standardised variance, 1 if the scale is right."""
        return self.squares / self.squared if self.squared else None

    def head(self, most: int) -> Floats:
        """The scores of the first draws."""
        return self.score[:most]


class LawNumbers:
    """Laws, numbered in the order in which they are met."""

    def __init__(self) -> None:
        self.laws: list[ResidualLaw] = []
        self._number: dict[ResidualLaw, int] = {}

    def number(self, law: ResidualLaw) -> int:
        if law not in self._number:
            self._number[law] = len(self.laws)
            self.laws.append(law)
        return self._number[law]


def look_at(residuals: Residuals, numbers: LawNumbers, run: str = "") -> SeenMeasurement:
    """The scores and the evidence of a measurement.

    Args:
        residuals: What was added to the truth.
        numbers: The laws that were met so far; new ones are added.
        run: The name of the run, where an audit has several.
    """
    noise = np.asarray(residuals.noise, np.int64)
    given = np.zeros((1, 1), np.int64) if residuals.law_of is None else residuals.law_of
    which = np.broadcast_to(given, noise.shape)
    above = None if residuals.above is None else np.broadcast_to(residuals.above, noise.shape)
    own = [numbers.number(law) for law in residuals.laws]
    score, law = np.zeros(noise.shape), np.full(noise.shape, -1, np.int64)
    scale, shape = np.zeros(2 * len(SCALES)), np.zeros(len(DEGREES) * len(TILTS))
    impossible, squares, squared, scatter = 0, 0.0, 0, 0.0
    for number, name in enumerate(own):
        chosen = which == number
        if not chosen.any():
            continue
        law[chosen] = name
        distribution = residuals.laws[number]
        if above is None:
            x, back, times = np.unique(noise[chosen], return_inverse=True, return_counts=True)
            below, at, over = tails(distribution, x)
        else:
            x, times = noise[chosen], np.ones(int(chosen.sum()), np.int64)
            back = np.arange(len(x))
            below, at, over = tails(distribution, x, above[chosen])
        score[chosen] = (below - over)[back.reshape(-1)]
        possible = at > 0
        impossible += int(times[~possible].sum())
        parts = below[possible], at[possible], over[possible]
        scale += scale_evidence(*parts) @ times[possible]
        shape += shape_evidence(*parts) @ times[possible]
        if above is None:
            mean, variance, excess = _moments(distribution)
            if variance > 0 and not isinstance(distribution, OutcomeLaw):
                squares += float((x - mean) ** 2 @ times) / variance
                squared += int(times.sum())
                scatter += excess * int(times.sum())
    rows = np.arange(len(noise)) if residuals.units is None else residuals.units
    dense = _dense_rows(rows, noise.shape[1])
    return SeenMeasurement(
        residuals,
        run,
        len(noise) if dense is None else int(dense.max(initial=-1)) + 1,
        _laid_out(score, dense, 0.0),
        _laid_out(noise, dense, 0),
        _laid_out(law, dense, -1),
        impossible,
        scale,
        shape,
        squares,
        squared,
        scatter,
    )


def _dense_rows(units: Integers, cells: int) -> Integers | None:
    """For each row its place among all units, so that shifts mean what they mean in coordinates; none where rows stand
    one after the other, or units are so few of many that the gaps would be nearly all of it."""
    if not len(units):
        return None
    places = units - units[0]
    span = int(places[-1]) + 1
    if span == len(units) or span * cells > max(8 * len(units) * cells, 1 << 16):
        return None
    return np.asarray(places)


def _laid_out(values: Any, places: Integers | None, missing: Any) -> Any:
    if places is None:
        return values.reshape(-1)
    full = np.full((int(places[-1]) + 1, values.shape[1]), missing, values.dtype)
    full[places] = values
    return full.reshape(-1)


# Independence.


@dataclass(frozen=True)
class Peak:
    """A sum of products that chance does not give."""

    log_chance: float
    """The logarithm of a bound of its probability, taken for all sums that were looked at."""
    words: str


def shifts_within(seen: SeenMeasurement, most: int = MOST_COMPARED) -> tuple[Peak | None, int]:
    """The largest sum of products of a measurement's scores with themselves, at any shift; and how many shifts."""
    score = seen.head(most)
    size = len(score)
    if size < 2:
        return None, 0
    products = _correlated(score, score)[1:size]
    energy = float(score @ score)
    if not energy:
        return None, size - 1
    shift = int(np.abs(products).argmax())
    # Every other stretch of ``shift`` draws is given, then the rest: two sums, each with half of the products.
    chance = log(4) - 3 * float(products[shift]) ** 2 / (4 * energy)
    shift += 1
    units, rest = divmod(shift, seen.cells)
    apart = f"{units:,} units apart" if not rest else f"{shift:,} draws apart"
    return Peak(chance, f"{seen.name}: draws {apart} go together"), size - 1


def _correlated(one: Floats, other: Floats) -> Floats:
    """Σ_i one[i] other[i + k] for k = 0, 1, ...; negative k from the end."""
    size = scipy.fft.next_fast_len(len(one) + len(other), real=True)
    product = np.conj(scipy.fft.rfft(one, size)) * scipy.fft.rfft(other, size)
    return np.asarray(scipy.fft.irfft(product, size))


def shifts_between(measurements: Sequence[SeenMeasurement], most: int) -> Iterator[tuple[Peak, int]]:
    """For each measurement the largest sum of products with all others, at any shift; and how many sums there are.

    The others stand one after the other, so that one transform goes over all of them.
    """
    parts = [seen.head(most) for seen in measurements]
    starts = np.cumsum([0, *(len(part) for part in parts)])
    total = int(starts[-1])
    size = scipy.fft.next_fast_len(total + max(len(part) for part in parts), real=True)
    together = scipy.fft.rfft(np.concatenate(parts), size)
    for number, (seen, part) in enumerate(zip(measurements, parts, strict=True)):
        energy = float(part @ part)
        if not energy:
            continue
        products = np.asarray(scipy.fft.irfft(np.conj(scipy.fft.rfft(part, size)) * together, size))
        # What the measurement has with itself is not meant here.
        own = _correlated(part, part)
        shifts = np.arange(1 - len(part), len(part))
        products[starts[number] + shifts] -= own[shifts]
        reach = np.arange(1 - len(part), total)
        place = int(reach[np.abs(products[reach]).argmax()])
        chance = log(2) - 3 * float(products[place]) ** 2 / (2 * energy)
        # The measurement that has most of the sum: the one that most of the shifted draws lie in.
        overlaps = np.minimum(starts[1:], place + len(part)) - np.maximum(starts[:-1], place)
        overlaps[number] = -1
        partner = int(overlaps.argmax())
        shift = place - int(starts[partner])
        where = "draw by draw" if not shift else f"shifted by {abs(shift):,} draws"
        yield Peak(chance, f"{seen.name} and {measurements[partner].name} go together, {where}"), len(reach)


def within_units(measurements: Sequence[SeenMeasurement]) -> tuple[Peak | None, int]:
    """The largest sum over units of products of two cells, or of two sums of all cells, of measurements that have the
    same units; and how many pairs there are."""
    columns, names, blocks = [], [], []
    for number, seen in enumerate(measurements):
        table = seen.score.reshape(-1, seen.cells)
        columns.append(table)
        names += [f"{seen.name}, cell {cell}" for cell in range(seen.cells)]
        blocks += [(number, 1)] * seen.cells
        if seen.cells > 1:
            columns.append(table.sum(axis=1, keepdims=True) / sqrt(seen.cells))
            names.append(f"the sums of {seen.name}")
            blocks.append((number, 0))
    matrix = np.concatenate(columns, axis=1)
    energy = np.einsum("uc,uc->c", matrix, matrix)
    of, single = np.array(blocks).T
    numbers = np.arange(len(names))
    largest, pair = 0.0, (0, 0)
    for first in range(0, len(names), COLUMNS_AT_ONCE):
        rows = slice(first, first + COLUMNS_AT_ONCE)
        products = matrix[:, rows].T @ matrix
        # A sum of cells has each of its own cells in it.
        dependent = (of[rows, None] == of[None, :]) & ((single[rows, None] * single[None, :]) == 0)
        dependent |= numbers[rows, None] == numbers[None, :]
        smaller = np.minimum(energy[rows, None], energy[None, :])
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.where(dependent | (smaller == 0), 0.0, 1.5 * products**2 / smaller)
        one, other = divmod(int(exponent.argmax()), len(names))
        if exponent[one, other] > largest:
            largest, pair = float(exponent[one, other]), (first + one, other)
    pairs = len(names) * (len(names) - 1) // 2
    if not largest:
        return None, pairs
    return Peak(log(2) - largest, f"{names[pair[0]]} and {names[pair[1]]} go together, unit by unit"), pairs


def equal_runs(symbols: Integers, usable: Booleans, length: int) -> tuple[int, int] | None:
    """The first two places from which ``length`` symbols are the same; places where one is not usable do not count.

    Args:
        symbols: Whole numbers.
        usable: Whether each may be part of a run.
        length: How many.

    Returns:
        Two places, or none.
    """
    size = len(symbols) - length + 1
    if size < 2:
        return None
    blocked = np.concatenate([[0], np.cumsum(~usable)])
    starts = np.flatnonzero(blocked[length:] == blocked[: len(blocked) - length])
    if len(starts) < 2:
        return None
    mixed = (symbols.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    digest = np.zeros(len(starts), np.uint64)
    for step in range(length):
        digest = digest * np.uint64(0x2545F4914F6CDD1D) + mixed[starts + step]
    order = np.argsort(digest, kind="stable")
    same = np.flatnonzero(digest[order[1:]] == digest[order[:-1]])
    for place in same.tolist():
        one, other = sorted((int(starts[order[place]]), int(starts[order[place + 1]])))
        if np.array_equal(symbols[one : one + length], symbols[other : other + length]):
            return one, other
    return None


# The audit.


@dataclass(frozen=True)
class MeasurementAudit:
    """One measurement of an audit."""

    run: str
    level: str
    query: str
    source: str
    draws: int
    law: str
    standardised_variance: float | None
    """Mean squared noise by the variance of the law; none where draws are not seen whatever they are."""
    low: float | None
    high: float | None
    """Where it lies in 999,999 of a million cases, about."""
    ok: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "level": self.level,
            "query": self.query,
            "source": self.source,
            "draws": self.draws,
            "law": self.law,
            "standardised_variance": self.standardised_variance,
            "low": self.low,
            "high": self.high,
            "ok": self.ok,
        }


@dataclass(frozen=True)
class NoiseAudit(TypedAnswer):
    """Whether the noise of a run, or of several, is as planned. Confidential: it is made from the truth."""

    mechanism: str
    runs: tuple[str, ...]
    draws: int
    scale: float | None
    """The root of the pooled standardised variance: 1 if the scale is right."""
    smallest_error: float | None
    """The smallest error of all scales together, in either direction, that is seen with probability 0.99; none where
    laws have no scale, or not even an error of a half is seen."""
    checks: tuple[Check, ...]
    measurements: tuple[MeasurementAudit, ...]
    notes: tuple[str, ...]
    page: Path | None = None
    """The page that shows it."""

    @property
    def ok(self) -> bool:
        """Whether all of it is as planned."""
        return all(check.ok for check in self.checks)

    @property
    def sees_three_per_cent(self) -> bool:
        """Whether there were draws enough to see a scale that is 3 % off."""
        return self.smallest_error is not None and self.smallest_error <= SMALL_ERROR

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "confidential": True,
            "mechanism": self.mechanism,
            "runs": list(self.runs),
            "draws": self.draws,
            "false_alarm_rate": ALARM,
            "scale": self.scale,
            "smallest_error_of_scale_seen": self.smallest_error,
            "sees_three_per_cent": self.sees_three_per_cent,
            "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in self.checks],
            "measurements": [measurement.as_dict() for measurement in self.measurements],
            "notes": list(self.notes),
        } | ({} if self.page is None else {"page": str(self.page)})


def audit(runs: Mapping[str, tuple[Plan, Iterable[Residuals]]]) -> NoiseAudit:
    """Whether noise is as planned: laws, independence, and exactly the planned measurements, each drawn once.

    Args:
        runs: By name, each with its plan and with what it added to the truth. Several runs are held against each other
            too: their draws must have nothing in common.

    Returns:
        The checks, each with what was looked at, and the measurements.

    >>> from confide.noise import DiscreteGaussian, NoiseStream, draw
    >>> noise = draw(DiscreteGaussian(9), NoiseStream.fresh("study"), 0, 60_000).reshape(6_000, 10)
    >>> drawn = Residuals("block", "age", noise, (DiscreteGaussian(9),), "measured")
    >>> answer = audit({"study": (Plan.without_loss("tables", {}), [drawn])})
    >>> answer.ok, answer.sees_three_per_cent
    (True, True)
    >>> twice = Residuals("block", "sex", noise[:, :2].copy(), (DiscreteGaussian(9),), "measured")
    >>> audit({"study": (Plan.without_loss("tables", {}), [drawn, twice])}).ok
    False
    """
    numbers, seen, findings = LawNumbers(), [], []
    for name, (plan, declared) in runs.items():
        run = name if len(runs) > 1 else ""
        distinct, wrong = _distinct(list(declared), plan, run)
        findings += wrong
        seen += [look_at(residuals, numbers, run) for residuals in distinct]
    laws = _Laws(seen, numbers.laws)
    compared = _Comparison(seen, numbers.laws)
    accounted = any(plan.measures for plan, _ in runs.values())
    checks = [
        Check(
            "exactly the planned measurements",
            not findings,
            "; ".join(findings)
            or (
                f"{len(seen):,} arrays of noise, and the plan has no others"
                if accounted
                else f"{len(seen):,} arrays of noise; the plan prices none"
            ),
        ),
        *laws.checks(),
        *compared.checks(),
    ]
    return NoiseAudit(
        next(iter(runs.values()))[0].mechanism,
        tuple(runs),
        sum(one.draws for one in seen),
        laws.estimated_scale(),
        laws.smallest_error,
        tuple(checks),
        tuple(laws.row(one) for one in seen),
        (*laws.notes(), *_partial(seen), *compared.notes),
    )


def _partial(seen: Sequence[SeenMeasurement]) -> Iterator[str]:
    """Which measurements are not seen as a whole, in a sentence."""
    names = [one.name for one in seen if not one.residuals.complete]
    if names:
        yield f"Not every draw is seen of {_listed(names)}."


def _distinct(declared: list[Residuals], plan: Plan, run: str) -> tuple[list[Residuals], list[str]]:
    """Every measurement once, and in what the measurements are not those of the plan."""
    prefix = f"{run}: " if run else ""
    wrong: list[str] = []
    distinct: dict[tuple[str, str], Residuals] = {}
    for residuals in declared:
        key = residuals.level, residuals.query
        if key not in distinct:
            distinct[key] = residuals
        elif not np.array_equal(distinct[key].noise, residuals.noise):
            wrong.append(f"{prefix}{' '.join(key)} is published twice, with different noise")
    if not plan.measures:
        return list(distinct.values()), wrong
    planned: dict[tuple[str, str], list[Any]] = {}
    for measure in plan.measures:
        planned.setdefault((measure.level, measure.query), []).append(measure)
    declared_as: dict[tuple[str, str], list[Residuals]] = {}
    for residuals in distinct.values():
        declared_as.setdefault((residuals.level, residuals.planned or residuals.query), []).append(residuals)
    wrong += [f"{prefix}{' '.join(key)} is planned, and not there" for key in planned if key not in declared_as]
    for key, arrays in declared_as.items():
        if key not in planned:
            wrong.append(f"{prefix}{' '.join(key)} is there, and not planned")
            continue
        laws = {law for residuals in arrays for law in residuals.laws if not isinstance(law, OutcomeLaw)}
        if not laws <= {measure.law for measure in planned[key]}:
            wrong.append(f"{prefix}{' '.join(key)} has another law than the plan")
        draws = sum(measure.units * measure.cells for measure in planned[key])
        present = sum(_present(residuals) for residuals in arrays)
        if present > draws or (present < draws and all(residuals.complete for residuals in arrays)):
            wrong.append(f"{prefix}{' '.join(key)} has {present:,} draws, planned are {draws:,}")
    return list(distinct.values()), wrong


def _present(residuals: Residuals) -> int:
    if residuals.law_of is None:
        return int(residuals.noise.size)
    return int((np.broadcast_to(residuals.law_of, residuals.noise.shape) >= 0).sum())


class _Laws:
    """Every draw against its law."""

    def __init__(self, seen: Sequence[SeenMeasurement], laws: Sequence[ResidualLaw]):
        self._seen, self._laws = seen, laws
        self._families: dict[str, list[SeenMeasurement]] = {}
        for one in seen:
            self._families.setdefault(one.residuals.family, []).append(one)

    def checks(self) -> Iterator[Check]:
        impossible = [one.name for one in self._seen if one.impossible]
        detail = f"not in {_listed(impossible)}" if impossible else "no draw is one that its law does not have"
        yield Check("draws are possible", not impossible, detail)
        for name, attribute, words in (
            ("the scale of the noise", "scale", "no scale is wrong"),
            ("the shape of the noise", "shape", "no law has another shape"),
        ):
            wrong = self._wrong(attribute)
            scale = self.estimated_scale()
            size = "" if attribute == "shape" or scale is None else f"; all together have a scale of {scale:.4f}"
            yield Check(name, not wrong, (f"wrong in {_listed(wrong)}" if wrong else words) + size)
        wrong, small = self._by_value()
        detail = f"{len(wrong):,} of {small:,} small laws are not those of their draws: {_listed(wrong)}"
        yield Check("small laws, value by value", not wrong, detail if wrong else f"{small:,} laws")

    def _wrong(self, attribute: str) -> list[str]:
        limit = log(KINDS / ALARM)
        families = {
            name: _mixed(np.sum([getattr(one, attribute) for one in members], axis=0))
            for name, members in self._families.items()
        }
        wrong = [one.name for one in self._seen if _mixed(getattr(one, attribute)) >= limit + log(len(self._seen))]
        for name, evidence in families.items():
            if evidence >= limit + log(len(families)) and not wrong:
                wrong.append(f"all draws together{f' of {name}' if name else ''}")
        return wrong

    def ok(self, one: SeenMeasurement) -> bool:
        """Whether nothing speaks against the laws of a measurement."""
        limit = log(KINDS * len(self._seen) / ALARM)
        return not one.impossible and max(_mixed(one.scale), _mixed(one.shape)) < limit

    def _by_value(self) -> tuple[list[str], int]:
        """Small laws whose values do not come out as often as they should, and how many small laws there are."""
        small: list[tuple[int, str]] = []
        for family, members in self._families.items():
            used = np.unique(np.concatenate([one.law for one in members] or [np.zeros(0, np.int64)]))
            small += [(number, family) for number in used.tolist() if number >= 0 and self._is_small(number)]
        wrong = []
        for number, family in small:
            evidence = self._value_evidence(number, self._families[family])
            if evidence >= log(KINDS * len(small) / ALARM):
                wrong.append(_law_words(self._laws[number]))
        return wrong, len(small)

    def _is_small(self, number: int) -> bool:
        law = self._laws[number]
        return not is_wide(law) and int((law_mass(law).at > 1e-4).sum()) <= MOST_VALUES

    def _value_evidence(self, number: int, members: Sequence[SeenMeasurement]) -> float:
        mass = law_mass(self._laws[number])
        bins = np.flatnonzero(mass.at > 1e-4)
        counts, outside = np.zeros(len(bins)), 0
        for one in members:
            if one.residuals.above is not None:
                continue
            place = one.value[one.law == number] - mass.first
            inside = place[(place >= bins[0]) & (place <= bins[-1])]
            outside += len(place) - len(inside)
            counts += np.bincount(inside - bins[0], minlength=int(bins[-1] - bins[0]) + 1)[bins - bins[0]]
        beyond = float(mass.at.sum() - mass.at[bins].sum())
        probabilities = mass.at[bins]
        if beyond > 0:
            counts, probabilities = np.append(counts, outside), np.append(probabilities, beyond)
        return value_evidence(counts, probabilities / probabilities.sum()) if counts.sum() else 0.0

    def estimated_scale(self) -> float | None:
        """The root of the pooled standardised variance, of draws from laws that have a scale."""
        scaled = [one for one in self._seen if self._has_scale(one)]
        squared = sum(one.squared for one in scaled)
        return sqrt(sum(one.squares for one in scaled) / squared) if squared else None

    def _has_scale(self, one: SeenMeasurement) -> bool:
        return any(_scaled(law, Fraction(1)) is not None for law in one.residuals.laws)

    @cached_property
    def smallest_error(self) -> float | None:
        """The smallest error of the scale that the pooled evidence shows with probability 0.99, both ways."""
        tally = self._tally()
        if not tally:
            return None
        candidates = [Fraction(k, 1000) for k in (5, 7, 10, 15, 20, 25, 30, 40, 60, 100, 150, 200, 300, 500)]
        for error in candidates:
            if all(self._sees(tally, 1 + sign * error) for sign in (-1, 1)):
                return float(error)
        return None

    def _tally(self) -> dict[ResidualLaw, int]:
        """How many draws there are of each law that has a scale, in the family with most of them."""
        best: dict[ResidualLaw, int] = {}
        for members in self._families.values():
            counts: dict[ResidualLaw, int] = {}
            for one in members:
                if one.residuals.above is None:
                    numbers, times = np.unique(one.law, return_counts=True)
                    for number, often in zip(numbers.tolist(), times.tolist(), strict=True):
                        if number >= 0 and _scaled(self._laws[number], Fraction(1)) is not None:
                            law = self._laws[number]
                            counts[law] = counts.get(law, 0) + often
            best = max(best, counts, key=lambda tally: sum(tally.values()))
        return best

    def _sees(self, tally: Mapping[ResidualLaw, int], by: Fraction) -> bool:
        needed = log(KINDS * max(1, len(self._families)) / ALARM) + log(2 * len(SCALES))
        gains = [(often, _gain(law, by)) for law, often in tally.items()]
        means, variances = (np.sum([often * gain[k] for often, gain in gains], axis=0) for k in (0, 1))
        return bool((means - POWER * np.sqrt(variances) >= needed).any())

    def row(self, one: SeenMeasurement) -> MeasurementAudit:
        low, high = _range(one.squared, one.scatter)
        words = dict.fromkeys(_law_words(law) for law in one.residuals.laws)
        return MeasurementAudit(
            one.run,
            one.residuals.level,
            one.residuals.query,
            one.residuals.source,
            one.draws,
            ", ".join(list(words)[:2]) + (f" and {len(words) - 2:,} more" if len(words) > 2 else ""),
            one.ratio,
            low,
            high,
            self.ok(one),
        )

    def notes(self) -> Iterator[str]:
        smallest = self.smallest_error
        if self.estimated_scale() is None:
            return
        if smallest is None:
            yield "Too few draws to see a scale that is off by half."
        elif smallest > SMALL_ERROR:
            yield f"Too few draws to see 3 %: a scale must be off by {100 * smallest:g} % to be seen for certain."


@lru_cache(maxsize=4096)
def _gain(law: ResidualLaw, by: Fraction) -> tuple[Floats, Floats]:
    """For each alternative the mean and the variance of the evidence of a draw, if the scale is ``by`` times too
    large."""
    narrow = _narrowed(law)
    wrong = _scaled(narrow, by)
    assert wrong is not None
    mass = law_mass(wrong)
    at = mass.at
    planned = law_mass(narrow).tails(mass.values.astype(np.int64))
    usable = (planned[1] > 0) & (at > 1e-13)
    evidence = scale_evidence(*(part[usable] for part in planned))
    evidence = np.where(np.isfinite(evidence), evidence, -50.0)
    mean = evidence @ at[usable]
    return mean, np.maximum(0.0, evidence**2 @ at[usable] - mean**2)


def _range(draws: int, scatter: float) -> tuple[float | None, float | None]:
    """Where the mean of standardised squares lies in 999,999 of a million cases, about: where a chi-squared variable by
    its degrees of freedom lies, of the same variance (Wilson and Hilferty 1931)."""
    if not draws or not scatter:
        return None, None
    step = 2 / (9 * 2 * draws**2 / scatter)
    return max(0.0, 1 - step - 4.9 * sqrt(step)) ** 3, (1 - step + 4.9 * sqrt(step)) ** 3


def _mixed(logs: Floats) -> float:
    """The logarithm of the mean of numbers that are given by their logarithms."""
    return float(logsumexp(logs) - log(len(logs)))


def _listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _law_words(law: ResidualLaw) -> str:
    if isinstance(law, OutcomeLaw):
        return "listed outcomes"
    return " ".join(f"{value}" if key == "law" else f"{key} {value}" for key, value in law.as_dict().items())[:120]


class _Comparison:
    """Draws against each other."""

    def __init__(self, seen: Sequence[SeenMeasurement], laws: Sequence[ResidualLaw]):
        self._laws = laws
        self._seen = [one for one in seen if one.draws]
        families: dict[str, list[SeenMeasurement]] = {}
        for one in self._seen:
            families.setdefault(one.residuals.family, []).append(one)
        self._families = list(families.values())
        self.notes: list[str] = []

    def checks(self) -> Iterator[Check]:
        yield self._check("draws within a measurement", self._within(), "shifts")
        yield self._check("draws of different measurements", self._between(), "shifts")
        yield self._check("cells of the same unit", self._aligned(), "pairs")
        yield self._runs("runs of equal values", self._by_law())
        yield self._runs("runs of equal signs", self._by_sign())

    def _check(self, name: str, peaks: Iterable[tuple[Peak | None, int]], unit: str) -> Check:
        listed = list(peaks)
        tests = sum(number for _, number in listed)
        limit = log(ALARM / KINDS / max(1, tests))
        wrong = sorted(
            (peak for peak, _ in listed if peak is not None and peak.log_chance < limit),
            key=lambda peak: peak.log_chance,
        )
        detail = (
            _listed([peak.words for peak in wrong], 3)
            if wrong
            else f"nothing in common at {tests:,} {unit}"
            if tests
            else "none to compare"
        )
        return Check(name, not wrong, detail)

    def _within(self) -> Iterator[tuple[Peak | None, int]]:
        for one in self._seen:
            if len(one.score) > MOST_COMPARED:
                self.notes.append(f"Of {one.name} the first {MOST_COMPARED:,} draws are compared with each other.")
            yield shifts_within(one)

    def _between(self) -> Iterator[tuple[Peak | None, int]]:
        for members in self._families:
            if len(members) < 2:
                continue
            most = MOST_COMPARED
            while len(members) * sum(min(len(one.score), most) for one in members) > MOST_POINTS and most > 1 << 10:
                most //= 2
            if any(len(one.score) > most for one in members):
                self.notes.append(f"Of each measurement the first {most:,} draws are compared with those of others.")
            yield from shifts_between(members, most)

    def _aligned(self) -> Iterator[tuple[Peak | None, int]]:
        for members in self._families:
            alike: dict[tuple[str, int], list[SeenMeasurement]] = {}
            for one in members:
                alike.setdefault((one.residuals.level, one.units), []).append(one)
            for (level, units), some in alike.items():
                cells = sum(one.cells + 1 for one in some)
                if units * cells**2 > MOST_PRODUCTS or cells > 12_000:
                    self.notes.append(f"Cells of the same unit are not compared on the level {level}: {cells:,} cells.")
                elif cells > 1 and units > 1:
                    yield within_units(some)

    def _runs(self, name: str, parts: Iterable[tuple[Integers, Booleans, int, list[tuple[int, str]]]]) -> Check:
        wrong, looked = [], 0
        for symbols, usable, length, starts in parts:
            looked += int(usable.sum())
            places = equal_runs(symbols, usable, length)
            if places is not None:
                first, second = (next(text for at, text in reversed(starts) if at <= place) for place in places)
                wrong.append(f"{length} in a row are the same in {first} and in {second}")
        return Check(name, not wrong, _listed(wrong) if wrong else f"none among {looked:,} draws")

    def _by_law(self) -> Iterator[tuple[Integers, Booleans, int, list[tuple[int, str]]]]:
        """The draws of each law, and how many equal ones in a row chance does not give."""
        for members in self._families:
            used = {number for one in members for number in np.unique(one.law).tolist() if number >= 0}
            for number in sorted(used):
                law = self._laws[number]
                largest = float(law_mass(_narrowed(law)).at.max())
                parts = [one for one in members if (one.law == number).any()]
                symbols, usable, starts = self._joined(parts, lambda one: one.value, lambda one, n=number: one.law == n)
                if largest > 0.999 or not len(symbols):
                    continue
                tests = max(2.0, float(usable.sum()) ** 2 / 2) * len(used) * KINDS * len(self._families)
                length = ceil(log(tests / ALARM) / -log(largest)) if largest < 1 else 0
                if length <= 2_000:
                    yield symbols, usable, length, starts

    def _by_sign(self) -> Iterator[tuple[Integers, Booleans, int, list[tuple[int, str]]]]:
        """The signs of scores: the same for draws of the same bits, whatever their laws."""
        for members in self._families:
            symbols, usable, starts = self._joined(
                members, lambda one: np.sign(one.score).astype(np.int64), lambda one: one.score != 0
            )
            if len(symbols):
                tests = max(2.0, float(usable.sum()) ** 2 / 2) * KINDS * len(self._families)
                yield symbols, usable, ceil(log2(tests / ALARM)), starts

    def _joined(
        self, parts: Sequence[SeenMeasurement], values: Any, usable: Any
    ) -> tuple[Integers, Booleans, list[tuple[int, str]]]:
        """Arrays one after the other, with a place between them that is not usable."""
        symbols, usables, starts, place = [], [], [], 0
        for one in parts:
            room = MOST_IN_RUNS - place
            if room <= 0:
                self.notes.append(f"Runs are looked for among the first {MOST_IN_RUNS:,} draws.")
                break
            some = values(one)[:room]
            symbols += [some, np.zeros(1, np.int64)]
            usables += [usable(one)[:room], np.zeros(1, np.bool_)]
            starts.append((place, one.name))
            place += len(some) + 1
        if not symbols:
            return np.zeros(0, np.int64), np.zeros(0, np.bool_), []
        return np.concatenate(symbols), np.concatenate(usables), starts


# The page.


def noise_audit_page(answer: NoiseAudit, title: str) -> str:
    """The audit as a page for the curator, marked as confidential.

    Args:
        answer: The audit.
        title: What the release is called.

    Returns:
        HTML.
    """
    rows = [
        row.as_dict() | {"name": f"{row.run}: {row.level} {row.query}".removeprefix(": ")}
        for row in answer.measurements
    ]
    drawn = [row for row in rows if row["standardised_variance"] is not None][:MOST_DRAWN]
    figures = []
    if drawn and charts.available():
        most = max(min(3.0, max(row["high"] for row in drawn)), *(row["standardised_variance"] for row in drawn))
        picture = charts.chart("noise-audit-variance", drawn, most=most, height=max(80, 22 * len(drawn)))
        figures.append({"svg": picture.svg(), "caption": CAPTION})
    return render(
        "noise_audit.html.j2",
        title=title,
        banner=BANNER,
        answer=answer,
        rows=rows,
        figures=figures,
        shown=len(drawn),
    )


MOST_DRAWN = 60
CAPTION = (
    "Mean squared noise by the variance of its law (dots), and where it lies in 999,999 of a million cases if the "
    "noise is as planned (bars)."
)
