"""Truncated noise: the two-sided geometric and the discrete Gaussian law, given that they stay within ``-E .. E``.

* :class:`TruncatedGeometric`, the truncated Laplace law on whole numbers: ``P(X = x) = q**|x| / Z``, ``q =
  exp(-epsilon)`` and ``Z = 1 + 2 (q + ... + q**E)``;
* :class:`TruncatedGaussian`: ``P(X = x) = exp(-x**2 / (2 sigma2)) / Z``. With ``b = 1 / (2 sigma2)`` this is also the
  last row of a perturbation table, the law of largest entropy of its variance.

For two counts that differ by one, results that both can have differ in probability by a factor of at most
``exp(epsilon)``, or ``exp((2 E - 1) / (2 sigma2))``; one result at the edge is possible for one of them alone, and
``delta = P(X = E)``. As ``E`` grows, both laws and their losses go to those without a bound.

Derivation: ``docs/proofs/noise.md``, section 9. Reference: Bach (2020), section 2.3.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from confide.exact import Exact, positive
from confide.noise.bounded import BoundedLaw, check_bound
from confide.noise.enclosure import Bounds, ceil_shift, exp_minus
from confide.noise.laws import DiscreteGaussian, Enclosure, Law, TwoSidedGeometric

_GUARD = 32
"""Bits for the rounding of at most ``2**20`` products in a row."""


class Truncated(BoundedLaw):
    """What both truncated laws have in common: a parameter, which each keeps under a name of its own, and the bound."""

    __slots__ = ()
    bound: int
    parameter_name: ClassVar[str]

    def _fix(self, parameter: Exact, bound: int) -> None:
        """Checks and keeps both, once: the laws are frozen."""
        object.__setattr__(self, self.parameter_name, positive(parameter, self.parameter_name))
        check_bound(bound)
        object.__setattr__(self, "bound", bound)

    @property
    def largest(self) -> int:
        return self.bound

    @property
    @abstractmethod
    def untruncated(self) -> Law:
        """The law on all integers with the same parameter."""

    @property
    def parameter(self) -> Fraction:
        """The exact number that, with the bound, fixes the law."""
        return self.untruncated.parameter

    @property
    def largest_loss(self) -> Fraction:
        """The last step is the steepest: ``log w_{E-1} / w_E``, exactly."""
        decay = self.untruncated.decay
        return decay.first + (self.largest - 1) * decay.step

    def weights(self, bits: int) -> list[Bounds]:
        """``w_m = w_{m-1} r_m``, ``r_m = r_{m-1} exp(-step)``, rounded outward."""
        decay, work = self.untruncated.decay, bits + _GUARD
        weight = one = 1 << work, 1 << work
        ratio, factor = exp_minus(decay.first, work), exp_minus(decay.step, work)
        half = []
        for _ in range(self.largest):
            weight = weight[0] * ratio[0] >> work, ceil_shift(weight[1] * ratio[1], work)
            if decay.step:
                ratio = ratio[0] * factor[0] >> work, ceil_shift(ratio[1] * factor[1], work)
            half.append(weight)
        return [*reversed(half), one, *half]

    def outside_bounds(self, bits: int = 128) -> Enclosure:
        return self.pmf_bounds(self.largest, bits)

    def as_dict(self) -> dict[str, str]:
        return {"law": self.name, self.parameter_name: str(self.parameter), "bound": str(self.largest)}

    def describe(self) -> str:
        # The zero-argument super() does not work in a class that dataclass(slots=True) has made anew.
        return f"{BoundedLaw.describe(self)} ({self.parameter_name} = {self.parameter})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.parameter)!r}, {self.largest})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TruncatedGeometric(Truncated):
    """The two-sided geometric law given ``|X| <= E``: truncated Laplace noise in whole numbers.

    >>> TruncatedGeometric("1/2", 5).noise_margin("0.95")
    4
    """

    epsilon: Fraction
    bound: int
    name: ClassVar[str] = "truncated-two-sided-geometric"
    title: ClassVar[str] = "Truncated two-sided geometric"
    parameter_name: ClassVar[str] = "epsilon"

    def __init__(self, epsilon: Exact, bound: int):
        self._fix(epsilon, bound)

    @property
    def untruncated(self) -> TwoSidedGeometric:
        return TwoSidedGeometric(self.epsilon)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TruncatedGaussian(Truncated):
    """The discrete Gaussian law given ``|X| <= E``.

    >>> TruncatedGaussian(2, 5).noise_margin("0.95")
    3
    """

    sigma2: Fraction
    bound: int
    name: ClassVar[str] = "truncated-discrete-gaussian"
    title: ClassVar[str] = "Truncated discrete Gaussian"
    parameter_name: ClassVar[str] = "sigma2"

    def __init__(self, sigma2: Exact, bound: int):
        self._fix(sigma2, bound)

    @property
    def untruncated(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.sigma2)
