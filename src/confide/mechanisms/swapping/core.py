"""The swap itself, from people and settings to who exchanged places with whom: a pure function of these and a key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from confide.errors import CONFIDENTIAL, Finding, InputError, ParameterError, Place, RunError
from confide.geography import Spine
from confide.mechanisms.swapping.people import ADULTS, People, combined
from confide.mechanisms.swapping.settings import NOISE, SwapSettings
from confide.mechanisms.swapping.swap import Streams, Swap, choices, kept_in_blocks, random_order, rounded
from confide.mechanisms.swapping.targeted import targeted_swap
from confide.noise import ReleaseKey, draw_subset

# The enhanced variant: households of all kinds alike, paired by a key that may have noise.
#
# 1. Of N households N · rate, rounded at random, are taken, every set of so many being as likely.
# 2. The key of a household is its size plus −1, 0 or 1, with given probabilities.
# 3. Each household taken is in one of the groups, with given probabilities. The first keeps its unit of the finest
#    level (say, its tract). In the group after it, units are exchanged at random among those of the group within the
#    same unit one level up (county); in the next, within that two levels up (state). What comes of it is a
#    household's pseudo-unit; its pseudo-county is the county of that.
# 4. Sorted by key, pseudo-unit and a random number, neighbours are paired: first those with the same key and
#    pseudo-tract, of the rest those with the same key and pseudo-county, then those with the same key in the state.
#    Two of one block are no pair: nothing would move. They are tried once more with others of the same stage. Pairs
#    exchange their places; who is left stays.
#
# With noise in the key, partners may differ in size by up to two, and no count of a block stays as it was.
#
# Reference: the public replication code of the U.S. Census Bureau's reconstruction study, as described by Hawes and
# Rodriguez (2021). Where its description leaves a choice, it is said here what is done.


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


Integers = npt.NDArray[np.int64]


def swap_people(
    people: People,
    settings: SwapSettings,
    values: Mapping[str, Integers],
    age: Integers | None,
    key: ReleaseKey,
    question: bytes,
) -> Swap:
    """Who exchanges places with whom. ``values`` has the groups of every variable that the settings name, ``question``
    the hash of what the draws are bound to besides people and settings. What is said to stay is counted again."""
    _check_carried(people, settings)
    if not people.households:
        return Swap(np.empty(0, np.int64), {}, {}, {})
    named = looked_at(settings, values, age)
    streams = Streams(key, people.fingerprint, settings.fingerprint + question)
    if settings.variant == "targeted":
        swap = targeted_swap(people, settings, named, streams)
    else:
        swap = enhanced_swap(people, settings, streams)
    twice = bool((swap.partner[swap.partner] != np.arange(people.households)).any())
    if twice or any(kept.changed for kept in kept_in_blocks(people, settings, swap, named)):
        raise RunError(
            "swap-broken",
            "a household moved twice, or a count that is said to stay has changed",
            found=CONFIDENTIAL,
            expected="exchanges of two households each, alike in what stays",
            remedy="nothing was released; please report it",
        )
    return swap


def looked_at(settings: SwapSettings, values: Mapping[str, Integers], age: Integers | None) -> dict[str, Integers]:
    """The groups of every variable that the settings name, and ``adults`` where a profile has it."""
    found = {name: values[name] for name in settings.variables}
    if settings.needs_age:
        assert age is not None
        found[ADULTS] = (age >= settings.adult_age).astype(np.int64)
    return found


def check_levels(spine: Spine, settings: SwapSettings) -> list[Finding]:
    """What the settings ask of the geography, and it has not."""
    names = [level.name for level in spine.levels]
    expected = "one of " + ", ".join(names)
    findings = [
        _wrong("levels", f"there is no level {name!r}", name, expected) for name in settings.levels if name not in names
    ]
    positions = [names.index(name) for name in settings.levels if name in names]
    if positions != sorted(set(positions)):
        listed = ", ".join(settings.levels)
        findings.append(_wrong("levels", "the levels are not in their order", listed, "each once, coarsest first"))
    if settings.variant == "enhanced":
        levels = settings.levels or names[:-1][-len(settings.groups) :]
        if len(levels) != len(settings.groups) or "block" in levels:
            found, expected = f"{len(levels)} levels", f"{len(settings.groups)} levels above the blocks"
            findings.append(_wrong("levels", "the groups need a level each", found, expected))
    elif settings.within is not None:
        if settings.within not in names[:-1]:
            expected = "one of " + ", ".join(names[:-1])
            findings.append(_wrong("within", f"there is no level {settings.within!r}", settings.within, expected))
        elif positions and positions[0] <= names.index(settings.within):
            what = f"nobody can leave {settings.levels[0]!r} and stay within {settings.within!r}"
            findings.append(_wrong("within", what, settings.within, "a level above those of the risk"))
    return findings


def check_settings(spine: Spine, settings: SwapSettings) -> None:
    """Raises if the geography has not what the settings ask of it."""
    findings = check_levels(spine, settings)
    if findings:
        raise ParameterError(findings)


def exact_levels(spine: Spine, settings: SwapSettings) -> tuple[str, ...]:
    """The levels whose units nobody leaves, so that whatever is counted there is as it was."""
    names = [level.name for level in spine.levels]
    if settings.variant == "enhanced":
        limit = (settings.levels or tuple(names[:-1][-len(settings.groups) :]))[0]
        return tuple(names[: names.index(limit) + 1])
    below = 0 if settings.within is None else names.index(settings.within) + 1
    return tuple(level.name for position, level in enumerate(spine.levels) if position < below or level.units == 1)


def _check_carried(people: People, settings: SwapSettings) -> None:
    for name in settings.carry:
        values = people.codes[name][people.members]
        if len(values) and bool((values != values[people.first][people.household[people.members]]).any()):
            raise InputError(
                "carried-differs",
                f"members of one household differ in {name!r}, which is to be exchanged with the place",
                found=CONFIDENTIAL,
                expected="one value for all members of a household",
                remedy="correct the records, or take the column out of carry",
            )


def _wrong(name: str, what: str, found: str, expected: str) -> Finding:
    return Finding(f"swapping-{name}", what, Place(path=f"swapping.{name}"), found, expected, f"correct {name}")
