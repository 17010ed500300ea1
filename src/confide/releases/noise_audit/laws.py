"""The probabilities of laws, as floats with all their digits in both tails, and the evidence of draws against a law.

Probabilities are worked out from the formula of a law and share nothing with the sampler.

Evidence is the logarithm of the mean of a density over the interval that a draw stands for. For a density w on the unit
interval, the mean of w over the interval from P(X < x) to P(X ≤ x) has the mean one under the law of X, whatever it is.
A product of such numbers over independent draws, or a mean of such products, exceeds 1/a with probability at most a
(Markov; Vovk and Wang 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, lgamma, log, sqrt
from typing import Any

import numpy as np
from scipy.special import betainc, gammaln, logsumexp, ndtr, ndtri, xlog1py, xlogy

from confide import noise as noise_laws
from confide.arrays import Booleans, Floats, Integers
from confide.noise import DiscreteGaussian
from confide.releases.replay import HIDDEN, ChoiceLaw, OutcomeLaw, ResidualLaw, Residuals, SurvivorLaw

WIDE = 3_000
"""From this standard deviation on a Gaussian is taken for a continuous one, which changes less than 1e-8; from a tenth
of it on a two-sided geometric law is worked out draw by draw."""
LIKE_ANY = 100
"""At this scale a law is like any wider one of its kind, but for the scale."""


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
    if isinstance(law, OutcomeLaw | noise_laws.FiniteDistribution):
        first, last = min(law.values), max(law.values)
        mass = np.zeros(last - first + 1)
        mass[np.array(law.values) - first] = [float(p) for p in law.probabilities]
        return LawMass.of(first, mass)
    if isinstance(law, ChoiceLaw):
        return LawMass.of(HIDDEN, _choice_mass(law))
    if isinstance(law, noise_laws.TruncatedDistribution):
        inside = np.arange(-law.bound, law.bound + 1)
        return LawMass.of(-law.bound, np.exp(-_exponent(law.untruncated, inside)))
    assert isinstance(law, DiscreteGaussian | noise_laws.TwoSidedGeometric)
    parameter = float(law.parameter)
    reach = 1 + ceil(38 * sqrt(parameter) if isinstance(law, DiscreteGaussian) else 700 / parameter)
    return LawMass.of(-reach, np.exp(-_exponent(law, np.arange(-reach, reach + 1))))


def _choice_mass(law: ChoiceLaw) -> Floats:
    """Of the outcomes of a choice, the hidden one first."""
    reached = [1.0, *(tails(law.noise, np.array([cut - 1]))[2][0] for cut in law.cuts), 0.0]
    chances = np.maximum(-np.diff(reached), 0.0)
    hidden = 0.0
    if law.second is not None:
        hidden = float(1 - tails(law.second, np.array([law.hidden_up_to]))[2][0])
    return np.concatenate([[chances[0] * hidden, chances[0] * (1 - hidden)], chances[1:]])


def survival(law: SurvivorLaw) -> float:
    """The probability that a choice is not hidden, with all its digits where it is small."""
    return float(law_mass(law.choice).at[1:].sum())


def _exponent(law: object, x: Integers) -> Floats:
    if isinstance(law, DiscreteGaussian):
        return np.asarray(x.astype(np.float64) ** 2 / (2 * float(law.sigma2)))
    assert isinstance(law, noise_laws.TwoSidedGeometric)
    return np.asarray(np.abs(x) * float(law.epsilon))


def is_wide(law: ResidualLaw) -> bool:
    """Whether a law has too many values for a list of them."""
    if isinstance(law, DiscreteGaussian):
        return law.sigma2 > WIDE**2
    return isinstance(law, SurvivorLaw) or (
        isinstance(law, noise_laws.TwoSidedGeometric) and law.epsilon < Fraction(10, WIDE)
    )


def tails(
    law: ResidualLaw, x: Integers, above: Integers | None = None, up_to: Integers | None = None
) -> tuple[Floats, Floats, Floats]:
    """P(X < x), P(X = x) and P(X > x), given that X is above a number and at most another, if they are given.

    Args:
        law: The law of X.
        x: Draws.
        above: For each of them the number above which it had to be.
        up_to: For each of them the largest number that it could be.

    Returns:
        Three arrays like ``x``.

    >>> from confide.noise import DiscreteGaussian
    >>> [round(float(p[0]), 6) for p in tails(DiscreteGaussian(2), np.array([1]))]
    [0.641047, 0.219696, 0.139257]
    >>> [round(float(p[0]), 6) for p in tails(DiscreteGaussian(2), np.array([1]), np.array([0]), np.array([2]))]
    [0.0, 0.679179, 0.320821]
    """
    result = _tails(law, x)
    if above is None and up_to is None:
        return result
    beyond = np.zeros(len(x)) if up_to is None else _tails(law, up_to)[2]
    before = np.zeros(len(x)) if above is None else 1 - _tails(law, above)[2]
    # What is possible is added up from the side where it is small, so that no digit is lost.
    high = before > 0.5
    possible = np.where(high, (1 - before if above is None else _tails(law, above)[2]) - beyond, 1 - beyond - before)
    inside = np.ones(len(x), np.bool_) if above is None else x > above
    if up_to is not None:
        inside &= x <= up_to
    inside &= possible > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(inside, result[1] / possible, 0.0)
        over = np.where(inside, np.maximum(result[2] - beyond, 0.0) / possible, 0.0)
    at = np.minimum(at, 1.0)
    return np.maximum(0.0, 1 - at - over), at, np.minimum(over, 1 - at)


def _tails(law: ResidualLaw, x: Integers) -> tuple[Floats, Floats, Floats]:
    if not is_wide(law):
        return law_mass(law).tails(x)
    if isinstance(law, SurvivorLaw):
        chance = survival(law)
        return tuple(np.asarray(part) for part in _binomial(x, law.trials, chance))  # type: ignore[return-value]
    if isinstance(law, DiscreteGaussian):
        deviation = sqrt(law.sigma2)
        at = np.exp(-_exponent(law, x)) / (deviation * sqrt(2 * np.pi))
        return ndtr((x - 0.5) / deviation), at, ndtr(-(x + 0.5) / deviation)
    assert isinstance(law, noise_laws.TwoSidedGeometric)
    epsilon = float(law.epsilon)
    q = np.exp(-epsilon)
    side = np.exp(-epsilon * np.abs(x))
    far, at = side * q / (1 + q), side * -np.expm1(-epsilon) / (1 + q)
    near = 1 - far - at
    return np.where(x > 0, near, far), at, np.where(x > 0, far, near)


def _binomial(x: Integers, trials: int, chance: float) -> tuple[Floats, Floats, Floats]:
    k, n = np.clip(x, 0, trials).astype(np.float64), float(trials)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    at = np.where(k == x, np.exp(ways + xlogy(k, chance) + xlog1py(n - k, -chance)), 0.0)
    below = np.where(k > 0, betainc(n - k + 1, np.maximum(k, 1), 1 - chance), 0.0)
    return below, at, np.where(k < n, betainc(k + 1, np.maximum(n - k, 1), chance), 0.0)


def moments(law: ResidualLaw) -> tuple[float, float, float]:
    """Mean, variance, and the variance of the squared standardised draw."""
    mean, variance, excess = law_mass(narrowed(law)).moments()
    if isinstance(law, DiscreteGaussian) and law.sigma2 > LIKE_ANY**2:
        return 0.0, float(law.sigma2), excess
    if isinstance(law, noise_laws.TwoSidedGeometric):
        variance = 2 * float(np.exp(-float(law.epsilon))) / float(np.expm1(-float(law.epsilon))) ** 2
    return mean, variance, excess


def scaled(law: ResidualLaw, by: Fraction) -> ResidualLaw | None:
    """The law with another scale, of a choice that of its first draw; none for a list of outcomes."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussian(law.sigma2 * by**2)
    if isinstance(law, noise_laws.TwoSidedGeometric):
        return noise_laws.TwoSidedGeometric(law.epsilon / by)
    if isinstance(law, noise_laws.TruncatedGaussian):
        return noise_laws.TruncatedGaussian(law.sigma2 * by**2, law.bound)
    if isinstance(law, noise_laws.TruncatedGeometric):
        return noise_laws.TruncatedGeometric(law.epsilon / by, law.bound)
    if isinstance(law, ChoiceLaw):
        noise = scaled(law.noise, by)
        assert isinstance(noise, DiscreteGaussian | noise_laws.TwoSidedGeometric)
        return ChoiceLaw(noise, law.cuts, law.second, law.hidden_up_to)
    if isinstance(law, SurvivorLaw):
        choice = scaled(law.choice, by)
        assert isinstance(choice, ChoiceLaw)
        return SurvivorLaw(law.trials, choice)
    return None


def narrowed(law: ResidualLaw) -> ResidualLaw:
    """A law of the same shape with few values, where there is one: what is asked of it does not depend on its scale."""
    if isinstance(law, DiscreteGaussian) and law.sigma2 > LIKE_ANY**2:
        return DiscreteGaussian(LIKE_ANY**2)
    if isinstance(law, noise_laws.TwoSidedGeometric) and law.epsilon < Fraction(1, LIKE_ANY):
        return noise_laws.TwoSidedGeometric(Fraction(1, LIKE_ANY))
    return law


def likeliest(law: ResidualLaw) -> float:
    """The largest probability of a value."""
    if isinstance(law, SurvivorLaw):
        mode = int((law.trials + 1) * survival(law))
        return float(_tails(law, np.array([min(mode, law.trials)]))[1][0])
    return float(law_mass(narrowed(law)).at.max())


def mode(law: ResidualLaw) -> int:
    """The likeliest value: zero for noise."""
    if isinstance(law, SurvivorLaw):
        return min(int((law.trials + 1) * survival(law)), law.trials)
    mass = law_mass(narrowed(law))
    return mass.first + int(mass.at.argmax())


def likelier_sign(law: ResidualLaw) -> float:
    """How likely the likelier sign of a score is: a half, unless the law is a list of outcomes that leans to a side."""
    if not isinstance(law, OutcomeLaw | noise_laws.FiniteDistribution):
        return 0.5
    mass = law_mass(law)
    score = mass.below - mass.over
    return min(1 - 1e-9, max(0.5, float(mass.at[score > 0].sum()), float(mass.at[score < 0].sum())))


def law_words(law: ResidualLaw) -> str:
    if isinstance(law, OutcomeLaw):
        return "listed outcomes"
    if isinstance(law, ChoiceLaw):
        return f"a choice by {law_words(law.noise)}"
    if isinstance(law, SurvivorLaw):
        return f"binomial, by {law_words(law.choice.noise)}"
    return " ".join(f"{value}" if key == "law" else f"{key} {value}" for key, value in law.as_dict().items())[:120]


# Evidence against a law.


ALARM = 1e-6
"""The probability that noise as planned fails an audit."""
KINDS = 11
"""The tests that share it: five of laws, six of independence."""
SCALES = (0.97, 1.03, 0.94, 1.06, 0.85, 1.18, 0.6, 1.7, 0.2, 5.0)
"""The wrong scales that evidence is gathered for."""
TILTS = tuple(sign * size for size in (0.02, 0.06, 0.2, 0.6, 0.95) for sign in (-1, 1))
DEGREES = range(1, 9)
CONCENTRATIONS = (30.0, 300.0, 3e3, 3e4, 3e5)


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


def likelihood_evidence(at: Floats, at_wrong: Floats) -> Floats:
    """The same for laws whose version with a wrong scale is known: the likelihood ratio, in both rows of a scale.

    Args:
        at: P(X = x) of each draw, above zero, given whatever it is given.
        at_wrong: Scales x draws: the same with each wrong scale.
    """
    with np.errstate(divide="ignore"):
        ratios = np.log(at_wrong) - np.log(at)
    return np.asarray(np.repeat(ratios, 2, axis=0))


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


def mixed(logs: Floats) -> float:
    """The logarithm of the mean of numbers that are given by their logarithms."""
    return float(logsumexp(logs) - log(len(logs)))


# One measurement, as the audit looks at it: its draws in the order of their coordinates, their scores, and the
# evidence against its laws.


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
        x, limits, back, times = _distinct(residuals, noise, chosen)
        below, at, over = tails(distribution, x, *limits)
        score[chosen] = (below - over)[back]
        possible = at > 0
        impossible += int(times[~possible].sum())
        parts = below[possible], at[possible], over[possible]
        some = [None if limit is None else limit[possible] for limit in limits]
        scale += scale_evidence_of(distribution, x[possible], some, parts) @ times[possible]
        shape += shape_evidence(*parts) @ times[possible]
        if not residuals.conditional and not isinstance(distribution, OutcomeLaw | ChoiceLaw | SurvivorLaw):
            mean, variance, excess = moments(distribution)
            if variance > 0:
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


Limits = list[Integers | None]


def _distinct(residuals: Residuals, noise: Integers, chosen: Booleans) -> tuple[Integers, Limits, Integers, Integers]:
    """The draws of a law without repeats: values, what they are given, for each draw its place, and how often."""
    columns = [noise[chosen]]
    limits = [residuals.above, residuals.up_to]
    columns += [np.broadcast_to(limit, noise.shape)[chosen] for limit in limits if limit is not None]
    if len(columns) == 1:
        x, back, times = np.unique(columns[0], return_inverse=True, return_counts=True)
        return x, [None, None], back.reshape(-1), times
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        code = code * len(values) + place.reshape(-1)
    _, first, back, times = np.unique(code, return_index=True, return_inverse=True, return_counts=True)
    parts = iter(column[first] for column in columns[1:])
    return columns[0][first], [None if limit is None else next(parts) for limit in limits], back.reshape(-1), times


def scale_evidence_of(law: ResidualLaw, x: Integers, limits: Limits, parts: tuple[Floats, Floats, Floats]) -> Floats:
    """By the likelihood ratio where a law is conditional or that of a choice, and by quantiles elsewhere."""
    plain = all(limit is None for limit in limits) and not isinstance(law, ChoiceLaw | SurvivorLaw)
    wrong = [None if plain else scaled(law, Fraction(str(scale))) for scale in SCALES]
    others = [tails(other, x, *limits)[1] for other in wrong if other is not None]
    return likelihood_evidence(parts[1], np.stack(others)) if others else scale_evidence(*parts)


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


def listed(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
