"""Targeted record swapping: households at risk exchange their places with households that are alike.

1. On every level each household has a risk (:mod:`confide.swapping.risk`) and a score risk/E with E from Exp(1): the
   order of falling scores is that of draws without replacement with probabilities in proportion to the risks.
2. Of N households N · rate / 2 are to ask for a swap, rounded at random, spread over the areas of the finest level in
   proportion to their households.
3. From the coarsest level to the finest, area by area: those who must be swapped on this level, by their scores; on the
   finest level, after them, others by their scores until the quota of the area is met. Swaps that a household of the
   area has asked for before count towards it.
4. Whoever asks goes through the profiles in order. A donor is an unused household outside the area that is equal in the
   profile; that with the largest score is taken. With ``near``, the smallest area around is looked at first. Nobody
   swaps twice. Who finds nobody stays.

Reference: sdcMicro, ``recordSwap``; with ``near``, profiles of size and adults: the swapping of the 2000 and 2010
Censuses as publicly described (McKenna 2018).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from confide.swapping.donors import NOBODY, Donors
from confide.swapping.draws import Streams, exponentials, random_order, rounded, spread
from confide.swapping.people import ADULTS, SIZE, People, combined
from confide.swapping.risk import first_level, smallest_shared
from confide.swapping.settings import SwapSettings
from confide.swapping.swap import Swap

Integers = npt.NDArray[np.int64]
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
        self.keys = [self._key(profile, values) for profile in settings.profiles]
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
        quota = spread(total, sizes, self.streams.of("order of rests"), self.streams.of("start of the comb")).tolist()
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
        known = (profile, position, wide)
        if known not in self._donors:
            key = self.keys[profile]
            group = key if wide is None else combined([key, self.unit[wide]])
            area = self.unit[self.levels[position]]
            self._donors[known] = Donors(group, area, self.rank[position], self.used)
        return self._donors[known]

    def _key(self, profile: tuple[str, ...], values: Mapping[str, Integers]) -> Integers:
        """For each household one number for each distinct profile."""
        columns = [self.people.size if name == SIZE else self.people.listed(values[name]) for name in profile]
        if ADULTS in profile and SIZE not in profile:
            # A list of members' groups has its length in it; with adults alone, only how many of them are meant.
            adults = np.add.reduceat(values[ADULTS][self.people.members], self.people.first)
            columns[profile.index(ADULTS)] = adults
        return combined(columns)
