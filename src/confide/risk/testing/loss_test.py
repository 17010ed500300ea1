"""The best test against given measurements: the level-power curve of composed discrete Gaussians, between two curves.

By Neyman & Pearson the best test rejects where the privacy loss L = ln P₁/P₀ of what was released is large, and
throws a coin where it is just at the threshold, so that the level is exactly ℓ. Its power is

    w(ℓ) = min over real ε of  e^ε ℓ + δ(ε),    δ(ε) = E₁[(1 − e^(ε − L))₊],

the minimum being at the threshold. For discrete Gaussians L has the law of :mod:`confide.privacy.losslaw`, and one
direction is both. Where all counts have the same noise nothing is rounded. Where they differ, each loss is divided
between its neighbours on a grid, which can only help the test: that gives the pessimistic end. The optimistic end takes
off what this can have helped at most. Derivation: ``docs/proofs/privacy-curves.md``, section 4.

The curve is exact for the measurements given, and for nothing else: a release of other noise with the same ρ may allow
more (:func:`confide.risk.testing.renyi.zcdp_power`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property, reduce
from operator import add

import numpy as np
import numpy.typing as npt

from confide.exact import Exact, positive
from confide.privacy.definitions import Neighbours
from confide.privacy.directed import float_down, float_up
from confide.privacy.events import Event
from confide.privacy.losslaw import LossLaw, circle, lattice_law, spread
from confide.privacy.pld import Bracket, NoisyCells, noisy_cells
from confide.risk.testing.level_power import level_of

Array = npt.NDArray[np.float64]

INTERVAL = Fraction(1, 5000)
"""The grid of losses. For the 33 variances of the persons of 2020 the two ends are less than 2·10⁻⁵ apart."""
_UNIT = 2.0**-53
_NUDGE = 1e-6  # what ``spread`` moves a loss upwards, in grid steps, before dividing it
_LARGEST = 650.0


class LossTest:
    """The best test between two neighbours that differ by one in the given cells, in each of which there is noise.

    >>> best = LossTest([NoisyCells(sigma2="78.125", cells=2, count=200)])
    >>> bracket = best.power("0.05")
    >>> print(f"{bracket.optimistic:.6f} {bracket.pessimistic:.6f}")
    0.731674 0.731674
    """

    def __init__(self, cells: Iterable[NoisyCells], interval: Exact = INTERVAL):
        groups: dict[Fraction, int] = {}
        for part in cells:
            groups[part.sigma2] = groups.get(part.sigma2, 0) + part.cells * part.count
        self.rho = sum((number / (2 * sigma2) for sigma2, number in groups.items()), Fraction())
        """Half the squared distance of the neighbours in units of the noise."""
        self._groups = groups
        self._step = float(positive(interval, "interval"))

    @classmethod
    def of_event(cls, event: Event, neighbours: Neighbours, interval: Exact = INTERVAL) -> LossTest:
        """The best test against an event, if it has one worst neighbour and discrete Gaussian noise throughout."""
        return cls(noisy_cells(event, neighbours), interval)

    def power(self, level: Exact) -> Bracket:
        """The power of the best test at a level, between two numbers; the second is certain to be enough."""
        size = level_of(level)
        if not self._groups or size in (0, 1):
            return Bracket(float_down(size), float_up(size))
        losses, deltas = self._curve
        lines = np.exp(losses[: self._last]) * float(size) + deltas[: self._last]
        value = min(1.0, float(lines.min(initial=1.0)))
        # Thresholds beyond the range of exp are not looked at: there, e^ε ℓ is above one but for the smallest levels.
        low = value - self._error - self._helped if size * Fraction(math.exp(_LARGEST)) > 1 else 0.0
        return Bracket(max(float_down(size), low), min(1.0, value + self._error))

    @property
    def advantage(self) -> Bracket:
        """The largest difference of power and level: the total variation δ(0), between two numbers."""
        if not self._groups:
            return Bracket(0.0, 0.0)
        return Bracket(max(0.0, self._law.delta(0.0, -1) - self._helped), min(1.0, self._law.delta(0.0, 1)))

    @cached_property
    def _law(self) -> LossLaw:
        laws = [lattice_law(float(sigma2), number, 0.0) for sigma2, number in sorted(self._groups.items())]
        law = laws[0]
        if len(laws) > 1:
            size = circle(laws, self._step)
            law = reduce(add, (spread(each, self._step, size) for each in laws)).law()
        return law

    @cached_property
    def _curve(self) -> tuple[Array, Array]:
        """ε at every possible loss, and δ(ε) there: δⱼ = q δⱼ₊₁ + (1 − q) P[L > lⱼ] with q = exp(−step)."""
        law = self._law
        losses = law.start + law.step * np.arange(len(law.mass), dtype=np.float64)
        above = np.concatenate([np.cumsum(law.mass[:0:-1])[::-1], [0.0]])
        from scipy.signal import lfilter  # half a second to import, which no other command should wait for

        ratio = math.exp(-law.step)
        deltas = lfilter([-math.expm1(-law.step)], [1.0, -ratio], above[::-1])[::-1]
        return losses, np.asarray(deltas, dtype=np.float64)

    @cached_property
    def _last(self) -> int:
        return int(np.searchsorted(self._curve[0], _LARGEST))

    @cached_property
    def _error(self) -> float:
        """What floating point and cut tails can have done to δ(ε); the masses are those of a law, all at most one."""
        law = self._law
        largest = abs(law.start) + law.step * len(law.mass)
        return law.doubt + 8 * _UNIT * (len(law.mass) + largest + 64)

    @cached_property
    def _helped(self) -> float:
        """What dividing losses on the grid adds to δ(ε) at most: (e^r − 1) P[|L − ε| ≤ r], r a step for each law."""
        laws = len(self._groups)
        if laws == 1:
            return 0.0
        law = self._law
        window = min(2 * laws + 2, len(law.mass))
        sums = np.concatenate([[0.0], np.cumsum(law.mass)])
        likeliest = float((sums[window:] - sums[:-window]).max()) + self._error
        return math.expm1(laws * law.step) * likeliest + laws * _NUDGE * law.step
