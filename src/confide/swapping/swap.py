"""A swap: which households exchanged their places, what became of everybody's block, and what stayed as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.swapping.people import ADULTS, SIZE, People
from confide.swapping.settings import SwapSettings

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Swap:
    """For each household its partner, or itself; and what the curator wants to know of how it went.

    ``partner`` is its own inverse: whoever takes a place leaves one, and nobody moves twice.
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
class Kept:
    """A count that is said to stay in every block, and in how many blocks it did not."""

    name: str
    blocks: int
    changed: int

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "blocks": self.blocks, "changed": self.changed}


HOUSEHOLDS = "households"


def kept_in_blocks(
    people: People, settings: SwapSettings, swap: Swap, values: Mapping[str, Integers]
) -> Iterator[Kept]:
    """Every count that is said to stay, counted again before and after. ``values`` are the groups of
    every variable that the settings name."""
    blocks = people.spine.blocks.units
    before = np.bincount(people.block_of, minlength=blocks)
    after = np.bincount(people.block_of[swap.partner], minlength=blocks)
    yield Kept(HOUSEHOLDS, blocks, int((before != after).sum()))
    new = swap.block(people)
    for name in settings.kept:
        counted = values[name] == 1 if name == ADULTS else np.ones(len(new), np.bool_)
        groups = np.zeros(len(new), np.int64) if name in (SIZE, ADULTS) else values[name]
        number = int(groups.max(initial=0)) + 1
        first, second = (
            np.bincount((place * number + groups)[counted], minlength=blocks * number) for place in (people.block, new)
        )
        yield Kept(name, blocks, int((first != second).reshape(blocks, number).any(axis=1).sum()))
