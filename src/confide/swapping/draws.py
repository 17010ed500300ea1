"""What a swap draws, from keyed streams alone: exponential variables, choices, orders and roundings.

Every draw is a function of the key and of a coordinate, made with whole numbers and single operations of IEEE 754
arithmetic, so that a swap is the same on every machine.

* **Exponential variables** by von Neumann's method (1951), which needs comparisons alone. Of independent uniform
  variables U₁, U₂, … let n be the length of the first falling run, U₁ > … > Uₙ ≤ Uₙ₊₁. Given U₁ = u, n is odd with
  probability e⁻ᵘ; then U₁ is taken, otherwise one is added to the whole part and a new run begun. Sum: Exp(1).
* **Choices** by inversion of the exact cumulated probabilities (:mod:`confide.noise.inversion`).
* **Orders** by sorting 128 bits for each element: two elements share them with a probability of 2⁻¹²⁸.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from confide.noise import NoiseStream, ReleaseKey, WordSource, derive_stream, draw_subset
from confide.noise.inversion import Inverse, Steps, scaled_down, scaled_up

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_UNIT = 2.0**-64


@dataclass(frozen=True)
class Streams:
    """The streams of one swap, each for a purpose of its own, bound to the people and to what was asked."""

    key: ReleaseKey
    people: bytes
    question: bytes

    def of(self, purpose: str, level: str = "") -> NoiseStream:
        return derive_stream(
            self.key,
            records_fingerprint=self.people,
            plan_hash=self.question,
            mechanism="swapping",
            level=level,
            query=purpose,
        )


def exponentials(source: WordSource, count: int) -> Floats:
    """An Exp(1) variable for each of the first ``count`` coordinates, to 53 bits."""
    result = np.zeros(count, np.float64)
    waiting = np.arange(count, dtype=np.uint64)
    first = np.zeros(count, np.uint64)
    last = np.zeros(count, np.uint64)
    length = np.zeros(count, np.int64)
    whole = np.zeros(count, np.int64)
    number = 0
    while len(waiting):
        words = source.extension(waiting, number)
        number += 1
        begins = length == 0
        goes_on = ~begins & (words < last)
        ended = ~begins & ~goes_on
        first = np.where(begins, words, first)
        last = words
        length = np.where(begins, 1, length + goes_on)
        taken = ended & (length % 2 == 1)
        result[waiting[taken]] = whole[taken] + first[taken].astype(np.float64) * _UNIT
        whole = whole + (ended & ~taken)
        length = np.where(ended, 0, length)
        kept = ~taken
        waiting, first, last, length, whole = (each[kept] for each in (waiting, first, last, length, whole))
    return result


def choices(source: WordSource, count: int, probabilities: Sequence[Fraction]) -> Integers:
    """For each of the first ``count`` coordinates the position of a probability, drawn with exactly that."""
    cumulated = list(accumulate(probabilities))
    assert cumulated[-1] == 1

    def enclose(bits: int) -> Steps:
        return Steps(bits, [scaled_down(f, bits) for f in cumulated], [scaled_up(f, bits) for f in cumulated])

    return Inverse.prepare(enclose).draw(source, np.arange(count, dtype=np.uint64))


def random_order(source: WordSource, count: int) -> Integers:
    """All numbers below ``count`` in an order of which each is as likely."""
    coordinates = np.arange(count, dtype=np.uint64)
    return np.lexsort((source.extension(coordinates, 1), source.extension(coordinates, 0))).astype(np.int64)


def rounded(source: WordSource, number: Fraction) -> int:
    """One of the two whole numbers next to ``number``, which it is the mean of."""
    whole, rest = divmod(number, 1)
    return int(whole) + int(choices(source, 1, (1 - rest, rest))[0])


def spread(total: int, sizes: Integers, order: WordSource, start: WordSource) -> Integers:
    """``total`` in whole parts, one for each area; the mean of each part is ``total`` times its share of the sizes.

    Every area gets the whole of its share. What is left goes out one by one to areas that a comb of distance Σ sizes
    hits, laid from a uniform start along the rests in a random order (systematic sampling; Madow 1949): an area is
    hit with a probability of exactly its rest.
    """
    people = int(sizes.sum())
    parts, rests = np.divmod(total * sizes, max(people, 1))
    if not rests.any():
        return parts
    along = random_order(order, len(sizes))
    ends = np.cumsum(rests[along])
    begin = int(draw_subset(people, 1, start, 0)[0])
    hits = np.maximum(0, -((begin - ends) // people))
    parts[along] += np.diff(hits, prepend=0)
    return parts
