"""Guessing race and ethnicity without any reconstruction: what an attack has to beat.

The *modal guesser* (MDG) says of everybody that they are of the commonest group of their block, the *proportional
guesser* (PRG) draws the group by the shares pᵍ of the block. Of n people in a block, nᵍ of them in group g, the modal
guesser is right about max nᵍ; the proportional guesser is expected to be right about Σ nᵍ pᵍ = n Σ pᵍ². Both are given
the same frame (block, sex, age) as the attack, so that they have the same putative matches and differ in precision
alone.

The mode: the commonest group of the block. Where two share the first place, or a block has one person, that of the
block group; where that has none either, that of the whole file (non-Hispanic White alone, in the United States).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np

from confide.attacks.reidentification.coding import Coded, Coding
from confide.attacks.reidentification.columns import UNKNOWN, Integers
from confide.errors import ParameterError


class ModeFrom(IntEnum):
    """Where the mode of a block was found."""

    BLOCK = 0
    BLOCK_GROUP = 1
    WHOLE = 2


@dataclass(frozen=True, slots=True)
class Composition:
    """The groups of the people of each block, as someone who guesses knows them."""

    mode: Integers = field(repr=False)
    """The modal group of each block."""
    source: Integers = field(repr=False)
    """Where it was found: :class:`ModeFrom`, for each block."""
    people: Integers = field(repr=False)
    """How many people each block has."""
    _cells: Integers = field(repr=False)
    _counts: Integers = field(repr=False)
    _groups: int = field(repr=False)

    def share(self, block: Integers, group: Integers) -> np.ndarray[Any, np.dtype[np.float64]]:
        """pᵍ: the share of a group in a block; 0 where nobody is."""
        wanted = block * self._groups + group
        place = np.minimum(np.searchsorted(self._cells, wanted), max(len(self._cells) - 1, 0))
        if not len(self._cells):
            return np.zeros(len(wanted))
        counts = np.where((self._cells[place] == wanted) & (block >= 0) & (group >= 0), self._counts[place], 0)
        return np.asarray(counts / np.maximum(self.people[block], 1), dtype=np.float64)


def composition(coding: Coding, people: Coded, whole_mode: int | None = None) -> Composition:
    """The groups of each block among ``people``. ``whole_mode`` is the code of the last resort, by default theirs."""
    complete = (people.block >= 0) & (people.group >= 0)
    block, group = people.block[complete], people.group[complete]
    cells, counts = np.unique(block * coding.groups + group, return_counts=True)
    numbers = np.bincount(block, minlength=coding.blocks)
    in_block = _unique_mode(cells // coding.groups, cells % coding.groups, counts, coding.blocks)
    # Where a block has no single commonest group: that of its block group, if it has one.
    above = coding.block_group
    members = np.flatnonzero(above[block] >= 0)
    wide = above[block[members]] * coding.groups + group[members]
    wide_cells, wide_counts = np.unique(wide, return_counts=True)
    size = int(above.max(initial=0)) + 1
    in_group = _unique_mode(wide_cells // coding.groups, wide_cells % coding.groups, wide_counts, size)
    # And where that fails too: the commonest of all.
    if whole_mode is None:
        whole_mode = int(np.argmax(np.bincount(group, minlength=1)))
    over = np.where(above >= 0, in_group[np.maximum(above, 0)], UNKNOWN)
    mode = np.where(in_block >= 0, in_block, np.where(over >= 0, over, whole_mode))
    source = np.where(in_block >= 0, ModeFrom.BLOCK, np.where(over >= 0, ModeFrom.BLOCK_GROUP, ModeFrom.WHOLE))
    return Composition(
        mode.astype(np.int64), source.astype(np.int64), numbers.astype(np.int64), cells, counts, coding.groups
    )


def _unique_mode(unit: Integers, group: Integers, counts: Integers, units: int) -> Integers:
    """The commonest group of each unit; :data:`UNKNOWN` for a tie, one person or nobody."""
    most = np.zeros(units, dtype=np.int64)
    np.maximum.at(most, unit, counts)
    first = counts == most[unit]
    tied = np.bincount(unit[first], minlength=units)
    modes = np.full(units, UNKNOWN, dtype=np.int64)
    modes[unit[first]] = group[first]
    people = np.bincount(unit, weights=counts, minlength=units)
    return np.where((tied == 1) & (people > 1), modes, UNKNOWN)


def modal_guesser(counts: Sequence[int]) -> Fraction:
    """The share of a block that the modal guesser is right about: max nᵍ / n.

    >>> modal_guesser([9, 1])
    Fraction(9, 10)
    """
    numbers = _checked(counts)
    return Fraction(max(numbers), sum(numbers))


def proportional_guesser(counts: Sequence[int]) -> Fraction:
    """The share that the proportional guesser is expected to be right about: Σ pᵍ².

    >>> proportional_guesser([9, 1])
    Fraction(41, 50)
    """
    numbers = _checked(counts)
    return Fraction(sum(number * number for number in numbers), sum(numbers) ** 2)


def proportional_guesser_of_others(counts: Sequence[int]) -> Fraction:
    """The same for a guesser who knows the n − 1 others alone, so that nobody gives themselves away:
    Σ nᵍ(nᵍ − 1) / (n(n − 1)).

    >>> proportional_guesser_of_others([9, 1])
    Fraction(4, 5)
    """
    numbers = _checked(counts)
    people = sum(numbers)
    return Fraction(sum(n * (n - 1) for n in numbers), people * (people - 1)) if people > 1 else Fraction(0)


def proportional_guesser_as_printed(counts: Sequence[int]) -> Fraction:
    """A reading under which ten people, nine and one, come to the 81.1 % that a published example prints: 73/90.

    Σ nᵍ max(nᵍ − 1, 1) / (n(n − 1)): everyone is guessed from the n − 1 others, but somebody alone in their group is
    counted with one such other instead of none. This is our inference. It is not the expected value of either guesser
    above (82 % and 80 %), and nothing here uses it: see ``docs/concepts/reidentification.md``.

    >>> proportional_guesser_as_printed([9, 1])
    Fraction(73, 90)
    """
    numbers = [number for number in _checked(counts) if number]
    people = sum(numbers)
    return Fraction(sum(n * max(n - 1, 1) for n in numbers), people * (people - 1)) if people > 1 else Fraction(1)


def _checked(counts: Sequence[int]) -> list[int]:
    numbers = [int(number) for number in counts]
    if any(number < 0 for number in numbers) or not sum(numbers):
        raise ParameterError(
            "bad-counts",
            "these are not the people of a block by group",
            expected="counts that are not negative, and at least one person",
            remedy="give the number of people in each group",
        )
    return numbers
