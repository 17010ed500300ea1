"""Exact draws from any distribution on the integers whose cumulated probabilities can be enclosed.

For ``U`` uniform on [0, 1) the outcome is ``min {k : U < F(k)}``. A function that encloses ``F`` to any number of bits
is all that must be known of the distribution. A draw takes the first 64 bits of ``U`` and a binary search; where these
bits leave a doubt, 64 more bits of the same ``U`` are read and ``F`` is enclosed more narrowly, in Python integers, for
as long as it takes. Outcomes whose probability is negligible need not be listed: a ``U`` that may belong to one of them
is a doubt like any other, and narrower enclosures list more outcomes.

The bits of ``U`` are the extension words 0, 1, 2, ... of a coordinate; the 16-bit words are not used.

Derivation: ``docs/proofs/noise.md``, sections 3 and 8.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from confide.arrays import Integers
from confide.noise.enclosure import ceil_div
from confide.noise.stream import Coordinates, Extensions, WordSource

_WORD = 64
_LARGEST_WORD = (1 << _WORD) - 1
_SPARE = 128
"""Bits by which an enclosure is finer than the bits of ``U`` that are compared with it."""

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Steps:
    """``lower[i] <= 2**bits * F(first + i) <= upper[i]``, both in ascending order.

    Outcomes may be missing at either end. If some are missing below ``first``, then ``lower[0]`` is zero, so that no
    ``U`` is ever found to lie below ``F(first)``.
    """

    bits: int
    lower: list[int]
    upper: list[int]
    first: int = 0

    @classmethod
    def ascending(cls, bits: int, lower: Iterable[int], upper: Iterable[int], first: int = 0) -> Steps:
        """The same enclosures between zero and one and put in order, which is allowed because ``F`` never falls."""
        one = 1 << bits
        rising = accumulate((max(0, bound) for bound in lower), max)
        falling = accumulate((min(one, bound) for bound in reversed(list(upper))), min)
        return cls(bits, list(rising), list(falling)[::-1], first)

    def outcome(self, prefix: int, length: int) -> int | None:
        """The ``k`` for which ``[prefix, prefix + 1) / 2**length`` provably lies in ``[F(k - 1), F(k))``, or None."""
        shift = self.bits - length
        i = bisect_right(self.upper, prefix << shift)
        return self.first + i if i < len(self.lower) and (prefix + 1) << shift <= self.lower[i] else None


Enclose: TypeAlias = Callable[[int], Steps]
"""The steps of a distribution worked out with at least so many bits; their width goes to zero as the bits grow."""


def draw_one(enclose: Enclose, source: WordSource, coordinate: int) -> int:
    """The outcome for the ``U`` of one coordinate. It ends for every ``U`` that is not itself a value of ``F``."""
    place = np.array([coordinate], np.uint64)
    prefix = number = 0
    while True:
        prefix = prefix << _WORD | int(source.extension(place, number)[0])
        number += 1
        length = number * _WORD
        outcome = enclose(length + _SPARE).outcome(prefix, length)
        if outcome is not None:
            return outcome


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Inverse:
    """A distribution prepared for many draws: the first 64 bits of every listed value of ``F``, from both sides."""

    enclose: Enclose
    first: int
    lower: Extensions
    upper: Extensions

    @classmethod
    def prepare(cls, enclose: Enclose) -> Inverse:
        """Look up the steps once, with 192 bits."""
        steps = enclose(_WORD + _SPARE)
        shift = steps.bits - _WORD
        # One as a bound becomes the largest word, which no word exceeds: that word alone is left to more bits.
        lower, upper = (
            np.array([min(bound >> shift, _LARGEST_WORD) for bound in bounds], np.uint64)
            for bounds in (steps.lower, steps.upper)
        )
        return cls(enclose, steps.first, lower, upper)

    def draw(self, source: WordSource, coordinates: Coordinates) -> Integers:
        """One outcome for each coordinate: the same that :func:`draw_one` gives it."""
        outcomes = np.empty(len(coordinates), np.int64)
        for begin in range(0, len(coordinates), _CHUNK):
            chunk = coordinates[begin : begin + _CHUNK]
            outcomes[begin : begin + _CHUNK] = self._decide(source, chunk)
        return outcomes

    def _decide(self, source: WordSource, coordinates: Coordinates) -> Integers:
        words = source.extension(coordinates, 0)
        steps = np.searchsorted(self.upper, words, side="left")
        clipped = np.minimum(steps, len(self.lower) - 1)
        open_ = np.flatnonzero((steps != clipped) | (words >= self.lower[clipped]))
        outcomes: Integers = steps.astype(np.int64) + self.first
        for i in open_:
            outcomes[i] = draw_one(self.enclose, source, int(coordinates[i]))
        return outcomes


def scaled_down(number: Fraction, bits: int) -> int:
    """``2**bits * number`` rounded down: a lower bound."""
    return (number.numerator << bits) // number.denominator


def scaled_up(number: Fraction, bits: int) -> int:
    """``2**bits * number`` rounded up: an upper bound."""
    return ceil_div(number.numerator << bits, number.denominator)
