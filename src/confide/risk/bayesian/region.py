"""Where an adversary decides for the target: a set of released values, decided exactly.

The adversary decides that the target is in the cell iff the posterior is above one half, so that an even posterior
decides against it (*the tie rule*). With prior ``p`` and log-ratio ``L`` that is ``exp(L) p / (1 - p) > 1``. For a
rational ``L`` other than zero ``exp(L)`` is transcendental, so that enclosures of it always end up on one side; an even
posterior needs ``L = 0`` and ``p = 1/2``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from confide.noise.enclosure import exp_minus


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
