"""The attack on the bound, carried out on published numbers.

Given arrays F, M and T with F + M = T in truth, each with noise within ±E:

* the bound is estimated by Ê = max ⌈|F + M − T|/3⌉ over all triples; it is never too large, and right as soon as one
  triple has three large noises (:mod:`confide.risk.bounded_noise.bound`);
* with the bound known, each true count lies within E of what is published, and is not negative; the equation narrows
  the three intervals further, and a count is recovered where one value is left. For counts that are large compared
  with E that is where F + M − T = ±3E.

If zeros are known never to be perturbed, as in the cell key method, a published count above zero was not zero: one
more fact for small counts (Enderle, Giessing & Tent 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confide.errors import Finding, ParameterError

Counts = NDArray[np.int64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class Recovered:
    """What is known of each true count: an interval, and whether it is one value."""

    lowest: Counts
    highest: Counts

    @property
    def known(self) -> Truths:
        return np.asarray(self.lowest == self.highest)


@dataclass(frozen=True)
class BoundAttack:
    """The bound as estimated or given, and what it gives away. ``consistent``: triples that the bound can explain."""

    bound: int
    f: Recovered
    m: Recovered
    t: Recovered
    consistent: Truths

    @property
    def triples_recovered(self) -> int:
        """Triples of which all three counts are known."""
        return int(np.count_nonzero(self.f.known & self.m.known & self.t.known & self.consistent))


def estimate_bound(f: ArrayLike, m: ArrayLike, t: ArrayLike) -> int:
    """Ê = max ⌈|F + M − T|/3⌉ (Bach 2020, equation 10)."""
    first, second, whole = _arrays(f, m, t)
    largest = int(np.abs(first + second - whole).max(initial=0))
    return -(-largest // 3)


def attack_bound(
    f: ArrayLike, m: ArrayLike, t: ArrayLike, *, bound: int | None = None, zeros_kept: bool = False
) -> BoundAttack:
    """Recover counts where one value is left, with the bound given or estimated.

    >>> found = attack_bound([3], [2], [11], bound=2)
    >>> [int(part.lowest[0]) for part in (found.f, found.m, found.t)], found.triples_recovered
    ([5, 4, 9], 1)
    """
    parts = _arrays(f, m, t)
    within = estimate_bound(*parts) if bound is None else bound
    lows = [np.maximum(part - within, np.where(part > 0, 1 if zeros_kept else 0, 0)) for part in parts]
    highs = [part + within for part in parts]
    # One equation: each interval follows from the other two, and narrowing once is all that can be said.
    narrow = (
        Recovered(np.maximum(lows[0], lows[2] - highs[1]), np.minimum(highs[0], highs[2] - lows[1])),
        Recovered(np.maximum(lows[1], lows[2] - highs[0]), np.minimum(highs[1], highs[2] - lows[0])),
        Recovered(np.maximum(lows[2], lows[0] + lows[1]), np.minimum(highs[2], highs[0] + highs[1])),
    )
    consistent = np.logical_and.reduce([part.lowest <= part.highest for part in narrow])
    return BoundAttack(within, *narrow, consistent)


def _arrays(f: ArrayLike, m: ArrayLike, t: ArrayLike) -> tuple[Counts, Counts, Counts]:
    parts = [np.asarray(part) for part in (f, m, t)]
    if any(part.dtype.kind not in "iu" for part in parts) or len({part.shape for part in parts}) != 1:
        raise ParameterError(
            Finding(
                code="bad-triples",
                what="triples are three arrays of whole numbers of the same shape",
                found=", ".join(f"{part.dtype} {part.shape}" for part in parts),
                expected="published counts F, M and T",
                remedy="correct the arrays",
            )
        )
    first, second, whole = (part.astype(np.int64) for part in parts)
    return first, second, whole
