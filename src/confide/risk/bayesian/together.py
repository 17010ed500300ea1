"""How often an adversary with several noisy counts decides rightly: all combinations, in two halves.

With log-ratios ``L_1 .. L_n`` the adversary decides for the target iff their sum exceeds ``t = log (1-p)/p``. Each half
of the releases is listed with all its combinations; the second is sorted, so that for every combination of the first
the second's share above ``t - L`` is looked up. Sums are floats; combinations within a hair of ``t`` are taken as even,
which is exact for ``p = 1/2``, where log-ratios can cancel, and otherwise their mass is the error that is stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import log

import numpy as np

from confide.exact import Exact
from confide.risk.bayesian.comparison import Comparison, Floats
from confide.risk.bayesian.one_level import checked_priors

_TAIL = Fraction(1, 2**56)
_HAIR = 1e-11
LARGEST_HALF = 1 << 22

Half = tuple[Floats, Floats, Floats]


class Together:
    """All combinations of several releases, ready for decisions; none if there are too many."""

    def __init__(self, comparisons: Sequence[Comparison]):
        halves: list[list[Half]] = [[], []]
        sizes = [1, 1]
        windows = [comparison.window(_TAIL) for comparison in comparisons]
        for window in sorted(windows, key=lambda each: len(each.log_ratio), reverse=True):
            smaller = int(sizes[1] < sizes[0])
            possible = ~np.isnan(window.log_ratio)
            halves[smaller].append((window.log_ratio[possible], window.with_target[possible], window.without[possible]))
            sizes[smaller] *= int(possible.sum())
        self.feasible = max(sizes) <= LARGEST_HALF
        if not self.feasible:
            return
        self._first, second = (_product(half) for half in halves)
        order = np.argsort(second[0], kind="stable")
        self._sorted = second[0][order]
        self._above = np.append(np.cumsum(second[1][order][::-1])[::-1], 0.0)
        self._up_to = np.append(0.0, np.cumsum(second[2][order]))

    def decide(self, prior: Exact) -> tuple[float, float, float] | None:
        """``P(right | in)``, ``P(right | not in)``, and the mass of combinations that are even or nearly so."""
        if not self.feasible:
            return None
        (p,) = checked_priors([prior])
        threshold = log(1 - p) - log(p)
        ratio, with_target, without = self._first

        def right(at: float) -> tuple[float, float]:
            place = np.searchsorted(self._sorted, at - ratio, side="right")
            return float(with_target @ self._above[place]), float(without @ self._up_to[place])

        hair = _HAIR * (1 + abs(threshold))
        cautious, bold = right(threshold + hair), right(threshold - hair)
        return (*cautious, max(bold[0] - cautious[0], cautious[1] - bold[1]))


def _product(parts: Sequence[Half]) -> Half:
    ratio, one, other = np.zeros(1), np.ones(1), np.ones(1)
    for more, with_target, without in parts:
        with np.errstate(invalid="ignore"):
            # Two infinities of opposite sign belong to a combination that neither law has.
            ratio = np.nan_to_num(np.add.outer(ratio, more).ravel(), nan=0.0, posinf=np.inf, neginf=-np.inf)
        one, other = np.multiply.outer(one, with_target).ravel(), np.multiply.outer(other, without).ravel()
    return ratio, one, other
