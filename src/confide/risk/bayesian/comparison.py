"""What a released count says about one person, as an interface: its law with the person, and its law without.

Written over ``k``, the released count less the known one; see :mod:`.noise_pmf` for the laws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np
import numpy.typing as npt

from confide.errors import Finding, ParameterError
from confide.risk.bayesian.region import DecisionRegion

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Complexes = npt.NDArray[np.complex128]

WIDEST = 1 << 23
"""Sums over more values than this are refused: the noise is then so wide that a count says nothing."""

_MADE_OF = Fraction(1, 2**100)


@dataclass(frozen=True)
class Window:
    """The values ``k = first, first + 1, ...`` with both laws; ``tail`` bounds what either has outside."""

    first: int
    with_target: Floats
    without: Floats
    log_ratio: Floats
    tail: float


class Comparison(ABC):
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
        window = self.window(_MADE_OF)
        shared = np.isfinite(window.log_ratio) & (window.with_target > 0)
        logs, ratio = np.log(window.with_target[shared]), window.log_ratio[shared]
        flat = np.ravel(z)
        made = np.array([np.exp(logs + one * ratio).sum() for one in flat], dtype=np.complex128)
        return made.reshape(np.shape(z))

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
        raise refused(
            "the noise is too wide to add up", f"{values:,} values", f"at most {WIDEST:,}; rho of at least about 1e-11"
        )


def refused(what: str, found: str, expected: str) -> ParameterError:
    """The error of noise that cannot be compared."""
    return ParameterError(Finding("bad-noise", what, found=found, expected=expected, remedy="correct the noise"))
