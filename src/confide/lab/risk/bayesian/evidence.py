"""What a released count says about one person: its law with the person, and its law without.

An adversary knows the count ``x`` of a cell without the target and sees the released count ``x*``. Write ``k = x* - x``
and ``p`` for the law of the noise. With the target in the cell the law of ``k`` is ``P1(k) = p(k - 1)``, without it
is ``P0(k) = p(k)``. All that the release says is the log-ratio

    L(k) = log P1(k) / P0(k),        posterior log-odds = prior log-odds + L(k).

Evidence has both laws, the log-ratio and exact decisions, for any noise that has probabilities:

* :class:`LawEvidence`: a law whose probabilities fall at an exact rate (:class:`~confide.noise.NoiseDistribution`),
  also truncated; ``L(k) = rho (2 k - 1)`` for the discrete Gaussian with ``rho = 1 / (2 sigma2)``, ``+-epsilon`` for
  the geometric;
* :class:`ListedEvidence`: two lists, which need not be one law shifted: rows of a perturbation table differ.

Reference: Kazan and Reiter (2024), section 3.1. Derivation: ``docs/proofs/bayesian-risk.md``, section 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, log

import numpy as np
import numpy.typing as npt

from confide import noise as noise_laws
from confide.arrays import Floats, Integers
from confide.errors import ParameterError
from confide.exact import Exact, exact, positive
from confide.noise import DiscreteGaussian
from confide.noise.distributions import exp_minus, nearest_float
from confide.privacy import ZCDP, Neighbours, PureDP, gaussian_sigma2, geometric_epsilon, partition_marginal

# Where an adversary decides for the target: a set of released values, decided exactly.
#
# The adversary decides that the target is in the cell iff the posterior is above one half, so that an even posterior
# decides against it (*the tie rule*). With prior ``p`` and log-ratio ``L`` that is ``exp(L) p / (1 - p) > 1``. For a
# rational ``L`` other than zero ``exp(L)`` is transcendental, so that enclosures of it always end up on one side; an
# even posterior needs ``L = 0`` and ``p = 1/2``.


@dataclass(frozen=True)
class DecisionRegion:
    """The values of ``k`` for which the adversary decides for the target.

    ``threshold`` is the smallest of them if all larger possible values belong to it as well, infinite if none or all
    do, and none if the region is not of that form; ``values`` lists the region of a finite law.
    """

    threshold: float | int | None
    values: tuple[int, ...] | None = None

    @property
    def kind(self) -> str:
        """``from`` a threshold on, ``always``, ``never``, or a ``set`` that no threshold describes."""
        if self.threshold is None:
            return "set"
        return {inf: "never", -inf: "always"}.get(self.threshold, "from")

    @property
    def smallest(self) -> int | None:
        """The threshold, where there is a finite one."""
        return int(self.threshold) if self.threshold is not None and abs(self.threshold) != inf else None


def exceeds_even_odds(log_ratio: Fraction, prior: Fraction) -> bool:
    """Whether ``exp(log_ratio) prior / (1 - prior) > 1``, exactly."""
    odds = prior / (1 - prior)
    if log_ratio == 0:
        return odds > 1
    if log_ratio > 0:
        return odds >= 1 or _compare_exp(log_ratio, odds) < 0
    return odds > 1 and _compare_exp(-log_ratio, 1 / odds) > 0


def first_favoured(favoured: Callable[[int], bool], guess: int) -> int:
    """The smallest ``k`` that is favoured, of a property that all larger values keep, from a guess close to it."""
    k = guess
    while favoured(k - 1):
        k -= 1
    while not favoured(k):
        k += 1
    return k


def _compare_exp(x: Fraction, number: Fraction) -> int:
    """The sign of ``exp(-x) - number`` for rational ``x > 0``: bits are added until it is known."""
    bits = 64
    while True:
        lower, upper = exp_minus(x, bits)
        if Fraction(upper, 1 << bits) < number:
            return -1
        if Fraction(lower, 1 << bits) > number:
            return 1
        bits *= 2


# What a released count says about one person, as an interface: its law with the person, and its law without.
#
# Written over ``k``, the released count less the known one.


Complexes = npt.NDArray[np.complex128]

WIDEST = 1 << 23
"""Sums over more values than this are refused: the noise is then so wide that a count says nothing."""

_TAIL_OF_SUMS = Fraction(1, 2**100)


@dataclass(frozen=True)
class Window:
    """The values ``k = first, first + 1, ...`` with both laws; ``tail`` bounds what either has outside."""

    first: int
    with_target: Floats
    without: Floats
    log_ratio: Floats
    tail: float


class CountEvidence(ABC):
    """The law of a released count with the target and without, over ``k``: released less known."""

    title: str

    @abstractmethod
    def window(self, tail: Fraction) -> Window:
        """All values but a share of at most ``tail`` of either law."""

    @abstractmethod
    def log_ratio(self, k: Integers) -> Floats:
        """``L(k)``; infinite where one law alone has the value, not a number where neither has."""

    @abstractmethod
    def region(self, prior: Fraction) -> DecisionRegion:
        """Where the posterior is above one half, decided exactly; an even posterior decides against the target."""

    @abstractmethod
    def chances(self, region: DecisionRegion) -> tuple[float, float]:
        """``P1(k in region)`` and ``P0(k not in region)``."""

    @property
    @abstractmethod
    def scale(self) -> Fraction:
        """A number of the order of the smallest ``|L|``: how fine the sums have to be."""

    @property
    @abstractmethod
    def certain(self) -> float:
        """The probability, with the target, of values that give it away: ``P0(k) = 0``."""

    def transform(self, z: Complexes) -> Complexes:
        """``sum of P1(k) exp(z L(k))`` over values that both laws have, for ``-1 <= Re z <= 1``."""
        window = self.window(_TAIL_OF_SUMS)
        shared = np.isfinite(window.log_ratio) & (window.with_target > 0)
        logs, ratio = np.log(window.with_target[shared]), window.log_ratio[shared]
        flat = np.ravel(z)
        sums = np.array([np.exp(logs + one * ratio).sum() for one in flat], dtype=np.complex128)
        return sums.reshape(np.shape(z))

    @property
    def limit(self) -> float:
        """``sum of P1(k)**2 / P0(k)``, which is ``exp(D2)``: the limit of the risk as the prior goes to zero."""
        if self.certain > 0:
            return inf
        with np.errstate(over="ignore"):
            return float(self.transform(np.array([1.0 + 0j]))[0].real)


def check_width(values: int) -> None:
    """Refuse sums that would not fit into the memory."""
    if values > WIDEST:
        raise ParameterError("bad-noise/wide", values=values, widest=WIDEST)


_ROUNDED_OFF = 42.0  # a term exp(-42) times the largest is below the last bit
_DUAL_UP_TO = Fraction(1)
_FEW = 4
_OVERFLOWS = 354


class LawEvidence(CountEvidence):
    """A law with an exact decay, on all integers or truncated: the log-ratio never falls with ``k``."""

    def __init__(self, law: noise_laws.NoiseDistribution | noise_laws.TruncatedDistribution):
        self.law = law
        self.title = law.title
        self.bound: int | None = law.bound
        self._decay = (law.untruncated if isinstance(law, noise_laws.TruncatedDistribution) else law).decay

    @property
    def scale(self) -> Fraction:
        return min(Fraction(1), self._decay.first)

    @property
    def certain(self) -> float:
        return 0.0 if self.bound is None else self.law.pmf(self.bound)

    @property
    def rho(self) -> Fraction | None:
        """``1 / (2 sigma2)`` of a discrete Gaussian on all integers: ``L(k) = rho (2 k - 1)``."""
        return self._decay.first if isinstance(self.law, DiscreteGaussian) else None

    @property
    def limit(self) -> float:
        rho = self.rho
        if rho is None:
            return super().limit
        return exp(2 * rho) if rho < _OVERFLOWS else inf

    def window(self, tail: Fraction) -> Window:
        # At least a few values: means of exp(L) weigh unlikely ones up, by no more than a shift of two.
        reach = max(_FEW, self.law.noise_margin(1 - tail)) if self.bound is None else self.bound
        check_width(2 * reach + 2)
        size = np.arange(reach + 1, dtype=np.float64)
        rate, step = float(self._decay.first), float(self._decay.step)
        half = self.law.pmf(0) * np.exp(-size * (rate + step * (size - 1) / 2))
        noise = np.concatenate([half[:0:-1], half])
        k = np.arange(-reach, reach + 2, dtype=np.int64)
        outside = float(tail) if self.bound is None else 0.0
        if self.bound is None:
            # One value more at each end, so that neither law is cut inside the other.
            edge = self.law.pmf(reach + 1)
            return Window(-reach, np.append(edge, noise), np.append(noise, edge), self.log_ratio(k), outside)
        return Window(-reach, np.append(0.0, noise), np.append(noise, 0.0), self.log_ratio(k), outside)

    def log_ratio(self, k: Integers) -> Floats:
        rate, step = float(self._decay.first), float(self._decay.step)
        at = np.asarray(k, dtype=np.float64)
        ratio = np.where(at >= 1, rate + (at - 1) * step, -(rate - at * step))
        if self.bound is not None:
            ratio = np.where(at == self.bound + 1, inf, np.where(at == -self.bound, -inf, ratio))
            ratio = np.where((at > self.bound + 1) | (at < -self.bound), np.nan, ratio)
        return ratio

    def exact_log_ratio(self, k: int) -> Fraction:
        """``L(k)`` as an exact number, where both laws have the value."""
        first, step = self._decay.first, self._decay.step
        return first + (k - 1) * step if k >= 1 else -(first - k * step)

    def region(self, prior: Fraction) -> DecisionRegion:
        def favoured(k: int) -> bool:
            if self.bound is not None and not -self.bound < k <= self.bound:
                return k > 0
            return exceeds_even_odds(self.exact_log_ratio(k), prior)

        if self._decay.step:
            wanted = (log(1 - prior) - log(prior)) if prior != Fraction(1, 2) else 0.0
            guess = round((wanted / float(self._decay.first) + 1) / 2)
            if self.bound is not None:
                guess = max(1 - self.bound, min(self.bound + 1, guess))
            return DecisionRegion(first_favoured(favoured, guess))
        # The geometric law has two log-ratios alone, one from 1 on and one up to 0.
        if favoured(0):
            return DecisionRegion(-inf if self.bound is None else 1 - self.bound)
        if favoured(1):
            return DecisionRegion(1)
        return DecisionRegion(inf if self.bound is None else self.bound + 1)

    def chances(self, region: DecisionRegion) -> tuple[float, float]:
        threshold = region.threshold
        assert threshold is not None, "the log-ratio never falls"
        if threshold == inf:
            return 0.0, 1.0
        if threshold == -inf:
            return 1.0, 0.0
        at = int(threshold)
        if isinstance(self.law, noise_laws.TruncatedDistribution):
            law, end = self.law, self.law.bound
            return nearest_float(lambda bits: law.share_bounds(at - 1, end, bits)), law.cdf(at - 1)
        return self.law.tail(at - 2), self.law.cdf(at - 1)

    def transform(self, z: Complexes) -> Complexes:
        rho = self.rho
        if not self._decay.step:
            return self._two_valued(z)
        if rho is None or rho > _DUAL_UP_TO:
            return super().transform(z)
        # Poisson summation: exp(rho z (z + 1)) sum_n exp(-pi**2 n**2 / rho + 2 pi i n z), over the same sum at z = 0.
        # Terms fall off as exp(-pi**2 (n - n*)**2 / rho) from n* = -rho Im(z) / pi: those beyond rounding are left out.
        rate = float(rho)
        reach = int(np.ceil(np.sqrt(_ROUNDED_OFF * rate) / np.pi + 0.5))
        near = np.arange(-reach, reach + 1, dtype=np.float64)
        at = np.ravel(z)[:, None]
        n = np.round(-rate * at.imag / np.pi) + near
        sums = np.exp(rate * at * (at + 1) - (np.pi * n) ** 2 / rate + 2j * np.pi * n * at).sum(axis=1)
        return np.asarray(sums / np.exp(-((np.pi * near) ** 2) / rate).sum()).reshape(np.shape(z))

    def _two_valued(self, z: Complexes) -> Complexes:
        rate = float(self._decay.first)
        # With the target, k - 1 is the noise: the larger log-ratio from noise 0 on, the smaller below.
        low = self.law.cdf(-1)
        high = 1 - low - self.certain
        return np.asarray(high * np.exp(z * rate) + low * np.exp(-z * rate), dtype=np.complex128)


class ListedEvidence(CountEvidence):
    """Two lists of probabilities over ``k``, from ``first`` on; decisions are exact."""

    def __init__(self, first: int, with_target: list[Fraction], without: list[Fraction], title: str = "Listed"):
        self.title = title
        self._first, self._with, self._without = first, with_target, without
        self._ratio = np.array([_log_ratio(*pair) for pair in zip(with_target, without, strict=True)])

    @property
    def scale(self) -> Fraction:
        return Fraction(1)

    @property
    def certain(self) -> float:
        pairs = zip(self._with, self._without, strict=True)
        return float(sum((one for one, other in pairs if not other), Fraction(0)))

    def window(self, tail: Fraction) -> Window:  # noqa: ARG002 - a list has no tail
        with_target, without = (np.array([float(p) for p in law]) for law in (self._with, self._without))
        return Window(self._first, with_target, without, self._ratio, 0.0)

    def log_ratio(self, k: Integers) -> Floats:
        place = np.asarray(k) - self._first
        inside = (place >= 0) & (place < len(self._ratio))
        return np.where(inside, self._ratio[np.where(inside, place, 0)], np.nan)

    def region(self, prior: Fraction) -> DecisionRegion:
        pairs = list(zip(self._with, self._without, strict=True))
        ahead = [prior * one > (1 - prior) * other for one, other in pairs]
        possible = [place for place, pair in enumerate(pairs) if any(pair)]
        chosen = [place for place in possible if ahead[place]]
        others = [place for place in possible if not ahead[place]]
        values = tuple(self._first + place for place in chosen)
        if not chosen or not others:
            return DecisionRegion(inf if not chosen else -inf, values)
        return DecisionRegion(values[0] if chosen[0] > others[-1] else None, values)

    def chances(self, region: DecisionRegion) -> tuple[float, float]:
        inside = {value - self._first for value in region.values or ()}
        right = sum((p for place, p in enumerate(self._with) if place in inside), Fraction(0))
        wrong = sum((p for place, p in enumerate(self._without) if place in inside), Fraction(0))
        return float(right), float(1 - wrong)


def evidence_of(noise: noise_laws.CountNoise) -> CountEvidence:
    """What a count says about one person, where a count and the next one have the same noise.

    Args:
        noise: The law of the noise, on all integers or with a bound.

    Returns:
        The laws of the released count with the target and without, with exact decisions.

    >>> evidence_of(DiscreteGaussian(5)).region(Fraction(1, 5)).threshold
    8
    """
    if isinstance(noise, noise_laws.NoiseDistribution | noise_laws.TruncatedDistribution):
        return LawEvidence(noise)
    if isinstance(noise, noise_laws.FiniteDistribution):
        law = dict(zip(noise.values, noise.probabilities, strict=True))
        return evidence_of_rows(law, law, noise.title)
    if isinstance(noise, noise_laws.BoundedDistribution):
        listed = [noise.pmf_bounds(x)[0] for x in range(-noise.bound, noise.bound + 1)]
        law = {x - noise.bound: p / sum(listed) for x, p in enumerate(listed)}
        return evidence_of_rows(law, law, noise.title)
    raise ParameterError("bad-noise/here", found=type(noise).__name__)


def evidence_of_rows(
    without: Mapping[int, Exact], with_target: Mapping[int, Exact], title: str = "Listed"
) -> ListedEvidence:
    """What a count says about one person, where the noise is listed and depends on the count.

    In a perturbation table the noise depends on the count: ``without`` is the row of the known count, ``with_target``
    that of the next one.

    Args:
        without: Probabilities by noise, of the known count: the row of a perturbation table.
        with_target: The same of the next count.
        title: What the noise is called.

    Returns:
        The laws of the released count, with exact decisions.

    >>> evidence = evidence_of_rows({0: 1}, {-1: "1/2", 1: "1/2"})
    >>> evidence.certain
    0.5
    """
    laws = []
    for row, shift in ((without, 0), (with_target, 1)):
        law = {int(noise) + shift: exact(p, "a probability") for noise, p in row.items()}
        if not law or any(p < 0 for p in law.values()) or sum(law.values()) != 1:
            raise ParameterError("bad-noise/probabilities-add-up")
        laws.append(law)
    first, last = min(min(law) for law in laws), max(max(law) for law in laws)
    check_width(last - first + 1)
    zero = Fraction(0)
    lists = [[law.get(k, zero) for k in range(first, last + 1)] for law in laws]
    return ListedEvidence(first, lists[1], lists[0], title)


def gaussian_for(rho: Exact, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> DiscreteGaussian:
    """The discrete Gaussian of counts that are released with ``rho``: sigma2 is ``1 / (2 rho)`` or ``1 / rho``.

    Where a person can be added or removed, one count changes by one. Where a person can be changed, two do, and a
    sensitivity of sqrt(2) asks for twice the variance, as in the 2020 Census.

    Args:
        rho: The budget in zCDP of all counts that one person is in.
        neighbours: What the budget compares.

    Returns:
        The noise of each count.

    >>> gaussian_for("1/10").sigma2
    Fraction(5, 1)
    """
    return DiscreteGaussian(gaussian_sigma2(ZCDP(positive(rho, "rho")), partition_marginal(neighbours)))


def geometric_for(epsilon: Exact, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> noise_laws.TwoSidedGeometric:
    """The two-sided geometric law of counts that are released with ``epsilon``: half of it for each of two counts.

    Args:
        epsilon: The budget in pure differential privacy of all counts that one person is in.
        neighbours: What the budget compares.

    Returns:
        The noise of each count.

    >>> geometric_for(1).epsilon
    Fraction(1, 1)
    """
    return noise_laws.TwoSidedGeometric(
        geometric_epsilon(PureDP(positive(epsilon, "epsilon")), partition_marginal(neighbours))
    )


def _log_ratio(one: Fraction, other: Fraction) -> float:
    if not one and not other:
        return float("nan")
    if not one or not other:
        return inf if one else -inf
    ratio = one / other
    return log(ratio.numerator) - log(ratio.denominator)
