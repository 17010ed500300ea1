"""A swap: which households exchanged their places, what became of everybody's block, and what stayed as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.mechanisms.swapping.people import ADULTS, SIZE, People
from confide.mechanisms.swapping.settings import SwapSettings
from confide.noise import NoiseStream, ReleaseKey, WordSource, derive_stream, draw_subset
from confide.noise.stream import Inverse, Steps, scaled_down, scaled_up

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Swap:
    """For each household its partner, or itself; and what the curator wants to know of how it went.

    ``partner`` is a permutation: whoever takes a place leaves one, and nobody moves twice. Where households are paired
    it is its own inverse; in the variant ``permutation`` it says whose place a household takes.
    """

    partner: Integers
    wanted: Mapping[str, int]
    """How many households were to be swapped, by the reason."""
    without: Mapping[str, int]
    """How many of those found no partner."""
    by_stage: Mapping[str, int]
    """How many pairs were found at each stage of the search."""

    @property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Whether each household has moved."""
        return np.asarray(self.partner != np.arange(len(self.partner)))

    def block(self, people: People) -> Integers:
        """The block of each person afterwards."""
        result = people.block.copy()
        inside = people.members
        result[inside] = people.block_of[self.partner][people.household[inside]]
        return result

    def carried(self, people: People, name: str) -> Integers:
        """A column that belongs to the place, for each person afterwards."""
        result = people.codes[name].copy()
        inside = people.members
        result[inside] = people.codes[name][people.first][self.partner][people.household[inside]]
        return result


@dataclass(frozen=True)
class KeptCount:
    """A count that is said to stay in every block, and in how many blocks it did not."""

    name: str
    blocks: int
    changed: int

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "blocks": self.blocks, "changed": self.changed}


HOUSEHOLDS = "households"


def kept_in_blocks(
    people: People, settings: SwapSettings, swap: Swap, values: Mapping[str, Integers]
) -> Iterator[KeptCount]:
    """Every count that is said to stay, counted again before and after. ``values`` are the groups of
    every variable that the settings name."""
    blocks = people.spine.blocks.units
    before = np.bincount(people.block_of, minlength=blocks)
    after = np.bincount(people.block_of[swap.partner], minlength=blocks)
    yield KeptCount(HOUSEHOLDS, blocks, int((before != after).sum()))
    new = swap.block(people)
    for name in settings.kept:
        counted = values[name] == 1 if name == ADULTS else np.ones(len(new), np.bool_)
        groups = np.zeros(len(new), np.int64) if name in (SIZE, ADULTS) else values[name]
        number = int(groups.max(initial=0)) + 1
        first, second = (
            np.bincount((place * number + groups)[counted], minlength=blocks * number) for place in (people.block, new)
        )
        yield KeptCount(name, blocks, int((first != second).reshape(blocks, number).any(axis=1).sum()))


# What a swap draws, from keyed streams alone: exponential variables, choices, orders and roundings.
#
# Every draw is a function of the key and of a coordinate, made with whole numbers and single operations of IEEE 754
# arithmetic, so that a swap is the same on every machine.
#
# * **Exponential variables** by von Neumann's method (1951), which needs comparisons alone. Of independent uniform
#   variables U₁, U₂, … let n be the length of the first falling run, U₁ > … > Uₙ ≤ Uₙ₊₁. Given U₁ = u, n is odd with
#   probability e⁻ᵘ; then U₁ is taken, otherwise one is added to the whole part and a new run begun. Sum: Exp(1).
# * **Choices** by inversion of the exact cumulated probabilities (:mod:`confide.noise.stream`).
# * **Orders** by sorting 128 bits for each element: two elements share them with a probability of 2⁻¹²⁸.


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
    integer_part = np.zeros(count, np.int64)
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
        result[waiting[taken]] = integer_part[taken] + first[taken].astype(np.float64) * _UNIT
        integer_part = integer_part + (ended & ~taken)
        length = np.where(ended, 0, length)
        open_runs = ~taken
        waiting, first, last, length, integer_part = (
            state[open_runs] for state in (waiting, first, last, length, integer_part)
        )
    return result


def choices(source: WordSource, count: int, probabilities: Sequence[Fraction]) -> Integers:
    """For each of the first ``count`` coordinates the position of a probability, drawn with exactly that."""
    return choices_at(source, np.arange(count, dtype=np.int64), probabilities)


def choices_at(source: WordSource, coordinates: Integers, probabilities: Sequence[Fraction]) -> Integers:
    """The same for any coordinates."""
    cumulated = list(accumulate(probabilities))
    assert cumulated[-1] == 1

    def enclose(bits: int) -> Steps:
        return Steps(bits, [scaled_down(f, bits) for f in cumulated], [scaled_up(f, bits) for f in cumulated])

    return Inverse.prepare(enclose).draw(source, coordinates.astype(np.uint64))


def random_order(source: WordSource, count: int) -> Integers:
    """All numbers below ``count`` in an order of which each is as likely."""
    coordinates = np.arange(count, dtype=np.uint64)
    return np.lexsort((source.extension(coordinates, 1), source.extension(coordinates, 0))).astype(np.int64)


def shuffled(source: WordSource, group: Integers, coordinates: Integers) -> Integers:
    """The positions in an order that has the groups one after the other, each shuffled: all its orders are as likely.

    Exactly so: elements are in the order of infinitely many bits, of which as many are read as tell them apart.
    """
    keys: list[npt.NDArray[np.uint64]] = []
    while True:
        keys.insert(0, source.extension(coordinates.astype(np.uint64), len(keys)))
        order = np.lexsort((*keys, group)).astype(np.int64)
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for column in (group, *keys):
            same &= np.diff(column[order]) == 0
        if not same.any():
            return order


def rounded(source: WordSource, number: Fraction) -> int:
    """One of the two whole numbers next to ``number``, which it is the mean of."""
    floor, fraction = divmod(number, 1)
    return int(floor) + int(choices(source, 1, (1 - fraction, fraction))[0])


def apportion(total: int, sizes: Integers, order: WordSource, start: WordSource) -> Integers:
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
