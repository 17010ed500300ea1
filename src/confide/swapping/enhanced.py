"""The enhanced variant: households of all kinds alike, paired by a key that may have noise.

1. Of N households N · rate, rounded at random, are taken, every set of so many being as likely.
2. The key of a household is its size plus −1, 0 or 1, with given probabilities.
3. Each household taken is in one of the groups, with given probabilities. The first keeps its unit of the finest level
   (say, its tract). In the group after it, units are exchanged at random among those of the group within the same unit
   one level up (county); in the next, within that two levels up (state). What comes of it is a household's pseudo-unit;
   its pseudo-county is the county of that.
4. Sorted by key, pseudo-unit and a random number, neighbours are paired: first those with the same key and
   pseudo-tract, of the rest those with the same key and pseudo-county, then those with the same key in the state. Two
   of one block are no pair: nothing would move. They are tried once more with others of the same stage. Pairs exchange
   their places; who is left stays.

With noise in the key, partners may differ in size by up to two, and no count of a block stays as it was.

Reference: the public replication code of the U.S. Census Bureau's reconstruction study, as described by Hawes and
Rodriguez (2021). Where its description leaves a choice, it is said here what is done.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from confide.noise import draw_subset
from confide.swapping.draws import Streams, choices, random_order, rounded
from confide.swapping.people import People, combined
from confide.swapping.settings import NOISE, SwapSettings
from confide.swapping.swap import Swap

Integers = npt.NDArray[np.int64]
TAKEN = "taken"


def enhanced_swap(people: People, settings: SwapSettings, streams: Streams) -> Swap:
    """The swap."""
    size = rounded(streams.of("total"), people.households * settings.rate)
    taken = draw_subset(people.households, size, streams.of("taken"), 0)
    noise = np.array(NOISE)[choices(streams.of("key"), people.households, settings.key_noise)]
    key = (people.size + noise)[taken]
    levels = pairing_levels(people, settings)
    units = _pseudo_units(people, settings, streams, levels, taken)
    order = random_order(streams.of("order"), people.households)
    turn = np.empty(people.households, np.int64)
    turn[order] = np.arange(people.households)
    partner = np.arange(people.households, dtype=np.int64)
    left = np.arange(len(taken))
    by_stage: dict[str, int] = {}
    for position in reversed(range(len(levels))):
        by_stage[levels[position]] = 0
        for begin in (0, 1):
            one, other = _paired(
                combined([key[left], units[position][left]]), turn[taken[left]], people.block_of[taken[left]], begin
            )
            first, second = taken[left[one]], taken[left[other]]
            partner[first], partner[second] = second, first
            by_stage[levels[position]] += len(one)
            left = np.delete(left, np.concatenate([one, other]))
    return Swap(partner, {TAKEN: len(taken)}, {TAKEN: len(left)}, by_stage)


def pairing_levels(people: People, settings: SwapSettings) -> tuple[str, ...]:
    """The levels that are paired within, coarsest first: those named, or the finest above the blocks, one for each
    group."""
    above = tuple(level.name for level in people.spine.levels[:-1])
    return settings.levels or above[-len(settings.groups) :]


def _pseudo_units(
    people: People, settings: SwapSettings, streams: Streams, levels: tuple[str, ...], taken: Integers
) -> list[Integers]:
    """For each household taken its pseudo-unit on every level, coarsest first."""
    group = choices(streams.of("group"), people.households, settings.groups)[taken]
    turn = np.argsort(random_order(streams.of("mixing"), people.households))[taken]
    block = people.block_of[taken]
    unit = [people.unit_of(level)[block] for level in levels]
    source = np.arange(len(taken))
    for number in range(1, len(settings.groups)):
        members = np.flatnonzero(group == number)
        area = unit[len(levels) - 1 - number][members]
        # Standing in the order of the area, then shuffled within it: each gets the units of another of the same area.
        source[members[np.argsort(area, kind="stable")]] = members[np.lexsort((turn[members], area))]
    return [each[source] for each in unit]


def _paired(group: Integers, rank: Integers, block: Integers, begin: int) -> tuple[Integers, Integers]:
    """Neighbours of a group, in the order of rank, from the first or the second on: each with the next, unless both
    are of one block. Two that were no pair the first time have other neighbours the second."""
    order = np.lexsort((rank, group))
    sorted_group = group[order]
    begins = np.flatnonzero(np.diff(sorted_group, prepend=-1))
    lengths = np.diff(np.append(begins, len(order)))
    place = np.arange(len(order)) - np.repeat(begins, lengths)
    one = np.flatnonzero((place % 2 == begin) & (np.repeat(lengths, lengths) > place + 1))
    apart = block[order[one]] != block[order[one + 1]]
    return order[one[apart]], order[one[apart] + 1]
