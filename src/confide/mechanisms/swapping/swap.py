"""A swap: which households exchanged their places, what became of everybody's block, and what stayed as it was."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from heapq import heapify, heappop, heappush, heapreplace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Floats, Integers
from confide.errors import CONFIDENTIAL, InputError
from confide.geography import Spine
from confide.inputs.frame import fingerprint as frame_fingerprint
from confide.mechanisms.swapping.spec import ADULTS, SIZE, SwapSettings
from confide.noise import NoiseStream, ReleaseKey, WordSource, derive_stream, draw_subset
from confide.noise.stream import Inverse, Steps, scaled_down, scaled_up

# People and households as whole numbers, in an order that does not depend on the order of the rows.
#
# Households are numbered in the order of their ids as text. Persons are sorted by household, block and everything that
# is known of them; two persons that are alike in all of it may change places, and nobody could tell. So whatever is
# drawn for a household is drawn for the same household however the rows were shuffled.


NO_HOUSEHOLD = -1
_MOST = 1 << 62


@dataclass(frozen=True, eq=False, repr=False)
class People:
    """Who lives where. ``codes`` has whole numbers from zero for each column that is known of a person."""

    spine: Spine
    household: Integers
    """For each person the number of the household, or ``NO_HOUSEHOLD``: such a person never moves."""
    block: Integers
    codes: Mapping[str, Integers]
    fingerprint: bytes
    """SHA-256 of all of it."""

    @cached_property
    def households(self) -> int:
        """How many households there are."""
        return int(self.household.max(initial=-1)) + 1

    @cached_property
    def members(self) -> Integers:
        """The persons that live in households. They come first, household by household."""
        return np.flatnonzero(self.household >= 0)

    @cached_property
    def size(self) -> Integers:
        """The number of members of each household."""
        return np.bincount(self.household[self.members], minlength=self.households).astype(np.int64)

    @cached_property
    def first(self) -> Integers:
        """The first member of each household."""
        return np.cumsum(self.size) - self.size

    @cached_property
    def block_of(self) -> Integers:
        """The block of each household."""
        return self.block[self.first]

    def unit_of(self, level: str) -> Integers:
        """For each block, in the order of its code, the unit of a level that it lies in."""
        if level == self.spine.blocks.name:
            return np.arange(self.spine.blocks.units, dtype=np.int64)
        order = self.spine.blocks.unit_of_block.argsort()
        return self.spine.level(level).unit_of_block[order]

    def listed(self, values: Integers) -> Integers:
        """One whole number for each distinct list of the members' values, whatever their order in a household; smaller
        households first."""
        return lists_of_members(self.household[self.members], values[self.members])

    def alike(self, profile: Sequence[str], values: Mapping[str, Integers]) -> Integers:
        """One whole number for each kind of household that a profile tells apart. ``values`` has the groups of every
        variable in it, and of ``adults``, for each person."""
        inside = {name: values[name][self.members] for name in profile if name != SIZE}
        return kinds_of_households(self.household[self.members], profile, inside)


def lists_of_members(household: Integers, values: Integers) -> Integers:
    """One whole number for each distinct list of the members' values, whatever their order in a household; smaller
    households first. ``household`` ascends from zero and leaves no number out."""
    sizes = np.bincount(household).astype(np.int64)
    first = np.cumsum(sizes) - sizes
    ordered = values[np.lexsort((values, household))]
    rank = np.zeros(len(sizes), np.int64)
    for size in np.unique(sizes).tolist():
        of_size = np.flatnonzero(sizes == size)
        lists = ordered[first[of_size][:, None] + np.arange(size)]
        rank[of_size] = combined(list(lists.T))
    return combined([sizes, rank])


def kinds_of_households(household: Integers, profile: Sequence[str], values: Mapping[str, Integers]) -> Integers:
    """For each household one number for each distinct profile; ``household`` ascends from zero over the members."""
    sizes = np.bincount(household).astype(np.int64)
    columns = [sizes if name == SIZE else lists_of_members(household, values[name]) for name in profile]
    if ADULTS in profile and SIZE not in profile:
        # A list of members' groups has its length in it; with adults alone, only how many of them are meant.
        adults = household[values[ADULTS] == 1]
        columns[profile.index(ADULTS)] = np.bincount(adults, minlength=len(sizes)).astype(np.int64)
    return combined([np.zeros(len(sizes), np.int64), *columns])


def combined(columns: Sequence[Integers]) -> Integers:
    """One whole number for each distinct row of the columns, in the order of the rows."""
    assert columns
    key, size = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        width = int(column.max(initial=0)) + 1
        if size * width >= _MOST:
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        key, size = key * width + column, size * width
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def arrange(
    spine: Spine, ids: pa.Array, block: Integers, codes: Mapping[str, Integers]
) -> tuple[People, Integers, pa.Array]:
    """People in their order, the row that each of them was, and the ids of the households, in theirs.

    ``ids`` is text, empty (null) for people who live in no household. Raises for a household in two blocks.
    """
    distinct = pc.drop_null(pc.unique(ids))
    distinct = distinct.take(pc.sort_indices(distinct))
    number = pc.fill_null(pc.index_in(ids, distinct), len(distinct)).to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(combined([number, block, *codes.values()]), kind="stable").astype(np.int64)
    number, block = number[order], block[order]
    sorted_codes = {name: column[order] for name, column in codes.items()}
    inside = number < len(distinct)
    household = np.where(inside, number, NO_HOUSEHOLD)
    together = inside[1:] & (number[1:] == number[:-1]) & (block[1:] != block[:-1])
    if together.any():
        raise InputError(
            "household-in-two-blocks/households", found=CONFIDENTIAL, number=len(np.unique(number[1:][together]))
        )
    digest = hashlib.sha256(b"confide/swapping/people/v1" + bytes.fromhex(frame_fingerprint(spine)))
    texts = distinct.to_pylist()
    digest.update(np.array([len(text) for text in texts], "<i8").tobytes() + "".join(texts).encode())
    for name, column in {"household": household, "block": block, **sorted_codes}.items():
        digest.update(name.encode() + b"\0" + column.astype("<i8").tobytes())
    return People(spine, household, block, sorted_codes, digest.digest()), order, distinct


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
    """All numbers below ``count`` in an order; every order is as likely."""
    coordinates = np.arange(count, dtype=np.uint64)
    return np.lexsort((source.extension(coordinates, 1), source.extension(coordinates, 0))).astype(np.int64)


def shuffled(source: WordSource, group: Integers, coordinates: Integers) -> Integers:
    """The positions in an order that has the groups one after the other, each shuffled: all its orders are as likely.

    Exactly so: elements are in the order of infinitely many bits; as many are read as tell them apart.
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


# Targeted record swapping: households at risk exchange their places with households that are alike.
#
# 1. On every level each household has a risk (:mod:`confide.mechanisms.swapping.swap`) and a score risk/E with E
# from Exp(1): the
#    order of falling scores is that of draws without replacement with probabilities in proportion to the risks.
# 2. Of N households N · rate / 2 are to ask for a swap, rounded at random, spread over the areas of the finest level in
#    proportion to their households.
# 3. From the coarsest level to the finest, area by area: those who must be swapped on this level, by their scores; on
# the
#    finest level, after them, others by their scores until the quota of the area is met. Swaps that a household of the
#    area has asked for before count towards it.
# 4. Whoever asks goes through the profiles in order. A donor is an unused household outside the area that is equal in
# the
#    profile; that with the largest score is taken. With ``near``, the smallest area around is looked at first. Nobody
#    swaps twice. Who finds nobody stays.
#
# Reference: sdcMicro, ``recordSwap``; with ``near``, profiles of size and adults: the swapping of the 2000 and 2010
# Censuses as publicly described (McKenna 2018).


# The best donor for a household: unused, with the same key, inside a wide area and outside a narrow one.
#
# Households are sorted once by group (key and wide area), narrow area and rank. The households of a group in one
# narrow area are a queue; the queues of a group are a heap by their first household. A donor is the first of the best
# queue that is not in the household's own area, so that at most one queue is set aside for a moment: a search takes a
# few steps of the heap, however many households there are. Households that were used meanwhile are passed over when
# they come up.


NOBODY = -1


class Donors:
    """Donors of one profile: ``group`` has its key with the wide area, ``area`` the narrow one, least ``rank`` first.

    ``used`` is shared with whoever swaps and says, at any time, which households are gone.
    """

    def __init__(self, group: Integers, area: Integers, rank: Floats, used: bytearray):
        order = np.lexsort((rank, area, group))
        begins = np.flatnonzero(np.diff(group[order], prepend=-1) | np.diff(area[order], prepend=-1))
        self._group, self._area, self._rank, self._used = group, area, rank, used
        self._order = order
        self._next = begins.copy()
        self._end = np.append(begins[1:], len(order))
        heads = group[order[begins]]
        self._first_queue = np.searchsorted(heads, np.arange(int(group.max(initial=-1)) + 2))
        self._heaps: dict[int, list[tuple[float, int]]] = {}

    def best(self, household: int) -> int:
        """The donor for a household, or ``NOBODY``. It is not marked as used."""
        heap = self._heap(int(self._group[household]))
        own = self._area[household]
        aside: tuple[float, int] | None = None
        donor = NOBODY
        while heap:
            rank, queue = heap[0]
            head = self._head(queue)
            if head == NOBODY:
                heappop(heap)
            elif self._rank[head] != rank:
                heapreplace(heap, (float(self._rank[head]), queue))
            elif self._area[head] == own:
                aside = heappop(heap)
            else:
                donor = head
                break
        if aside is not None:
            heappush(heap, aside)
        return donor

    def _heap(self, group: int) -> list[tuple[float, int]]:
        if group not in self._heaps:
            queues = range(self._first_queue[group], self._first_queue[group + 1])
            heads = self._order[self._next[queues.start : queues.stop]]
            heap = list(zip(self._rank[heads].tolist(), queues, strict=True))
            heapify(heap)
            self._heaps[group] = heap
        return self._heaps[group]

    def _head(self, queue: int) -> int:
        """The first household of a queue that is not used."""
        place, end = int(self._next[queue]), int(self._end[queue])
        while place < end and self._used[self._order[place]]:
            place += 1
        self._next[queue] = place
        return int(self._order[place]) if place < end else NOBODY


# How easily a household could be told from others: uniqueness along the geography.
#
# On a level, a person who shares the values of the risk variables with c people of the same unit, counting the
# person, has the risk 1/c. The risk of a household is that of its member with the largest; it is kept as the smallest
# c, a whole number. A household must be swapped at the first level, from the coarsest, on which c < k, that is, risk
# > 1/k.
#
# Reference: the targeted record swapping of sdcMicro (``recordSwap``); McKenna, U.S. Census Bureau (2018), on the
# targeting of the 2000 and 2010 Censuses.


NOWHERE = -1
"""The level of a household that need not be swapped."""


def smallest_shared(people: People, cells: Integers, level: str) -> Integers:
    """For each household the smallest c of its members. Everybody is counted, also those who live in no household."""
    unit = people.unit_of(level)[people.block]
    group = combined([unit, cells])
    shared = np.bincount(group)[group]
    return np.minimum.reduceat(shared[people.members], people.first).astype(np.int64)


def first_level(shared: Sequence[Integers], k: int) -> Integers:
    """For each household the position of the first level on which c < k, or ``NOWHERE``."""
    level = np.full(len(shared[0]), NOWHERE, np.int64)
    for position in reversed(range(len(shared))):
        level[shared[position] < k] = position
    return level


ANYWHERE = "anywhere"
MUST, SAMPLED = "at risk", "sampled"


def targeted_swap(people: People, settings: SwapSettings, values: Mapping[str, Integers], streams: Streams) -> Swap:
    """The swap; ``values`` has the groups of every person for each variable that the settings name."""
    return _Swapping(people, settings, values, streams).run()


def risk_levels(people: People, settings: SwapSettings) -> tuple[str, ...]:
    """The levels that risk is looked at on: those named, or all with more than one unit below ``within``."""
    levels = people.spine.levels
    names = [level.name for level in levels]
    below = levels if settings.within is None else levels[names.index(settings.within) + 1 :]
    return settings.levels or tuple(level.name for level in below if level.units > 1) or (levels[-1].name,)


class _Swapping:
    def __init__(self, people: People, settings: SwapSettings, values: Mapping[str, Integers], streams: Streams):
        self.people, self.settings, self.streams = people, settings, streams
        self.levels = risk_levels(people, settings)
        self.unit = {level.name: people.unit_of(level.name)[people.block_of] for level in people.spine.levels}
        cells = combined([values[name] for name in settings.risk])
        self.shared = [smallest_shared(people, cells, level) for level in self.levels]
        self.must = first_level(self.shared, settings.k_anonymity)
        # A score is 1/(c E), so that the smallest c E comes first.
        self.rank = [
            shared * exponentials(streams.of("score", level), people.households)
            for level, shared in zip(self.levels, self.shared, strict=True)
        ]
        self.keys = [people.alike(profile, values) for profile in settings.profiles]
        self.used = bytearray(people.households)
        self.partner = np.arange(people.households, dtype=np.int64)
        self.wanted: Counter[str] = Counter()
        self.without: Counter[str] = Counter()
        self.by_stage: Counter[str] = Counter()
        self._donors: dict[tuple[int, int, str | None], Donors] = {}

    def run(self) -> Swap:
        finest = self.unit[self.levels[-1]]
        areas = self.people.spine.level(self.levels[-1]).units
        total = rounded(self.streams.of("total"), self.people.households * self.settings.rate / 2)
        sizes = np.bincount(finest, minlength=areas).astype(np.int64)
        quota = apportion(
            total, sizes, self.streams.of("order of rests"), self.streams.of("start of the comb")
        ).tolist()
        for position, level in enumerate(self.levels):
            last = position == len(self.levels) - 1
            for area, household in self._asking(position, everybody=last):
                if self.used[household]:
                    continue
                must = self.must[household] == position
                if not must and quota[area] <= 0:
                    continue
                reason = f"{MUST}: {level}" if must else SAMPLED
                self.wanted[reason] += 1
                if self._swap(household, position):
                    quota[int(finest[household])] -= 1
                else:
                    self.without[reason] += 1
        return Swap(self.partner, dict(self.wanted), dict(self.without), dict(self.by_stage))

    def _asking(self, position: int, *, everybody: bool) -> Iterator[tuple[int, int]]:
        """Those who may ask on a level, with their area: areas in a random order, within one first those who must."""
        unit = self.unit[self.levels[position]]
        level = self.people.spine.level(self.levels[position])
        turn = np.empty(level.units, np.int64)
        turn[random_order(self.streams.of("turn", level.name), level.units)] = np.arange(level.units)
        must = self.must == position
        asking = np.arange(len(unit)) if everybody else np.flatnonzero(must)
        order = np.lexsort((self.rank[position][asking], ~must[asking], turn[unit[asking]]))
        chosen = asking[order]
        yield from zip(unit[chosen].tolist(), chosen.tolist(), strict=True)

    def _swap(self, household: int, position: int) -> bool:
        for profile in range(len(self.keys)):
            for wide in self._around(position):
                donor = self._queue(profile, position, wide).best(household)
                if donor != NOBODY:
                    self.used[household] = self.used[donor] = 1
                    self.partner[household], self.partner[donor] = donor, household
                    self.by_stage[f"profile {profile + 1}, {wide or ANYWHERE}"] += 1
                    return True
        return False

    def _around(self, position: int) -> list[str | None]:
        """The wide areas in which donors are looked for, one after the other; None: anywhere."""
        spine, limit = self.people.spine, self.settings.within
        names = [level.name for level in spine.levels]
        coarser = spine.levels[names.index(limit) + 1 if limit else 0 : names.index(self.levels[position])]
        near = [level.name for level in reversed(coarser) if level.units > 1] if self.settings.near else []
        return [*near, limit]

    def _queue(self, profile: int, position: int, wide: str | None) -> Donors:
        place = (profile, position, wide)
        if place not in self._donors:
            key = self.keys[profile]
            group = key if wide is None else combined([key, self.unit[wide]])
            area = self.unit[self.levels[position]]
            self._donors[place] = Donors(group, area, self.rank[position], self.used)
        return self._donors[place]
