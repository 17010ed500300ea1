"""Households: how many, of which kind and size, in which block.

A block group has an exact number of persons in households. Households are drawn one after the other, each with a kind
and a size from the block group's own distribution, until the persons are used up; the last one takes what is left. They
are then dealt to the blocks with housing in proportion to the blocks' weights. So totals are exact, and one household
in some five hundred is smaller than it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confide.population.blocks import BlockFrame
from confide.population.draw import Bools, Chances, Floats, Ints, cumulative_shares, starts_of
from confide.population.neighbourhoods import BlockGroups
from confide.population.settings import HOUSEHOLD_SIZES, Settings


@dataclass(frozen=True)
class Households:
    """Households in the order of their blocks; indices count from the unit's first."""

    block: Ints
    block_group: Ints
    kind: Ints
    size: Ints


class HouseholdKinds:
    """The joint weights of kind and size, made once from the settings."""

    def __init__(self, settings: Settings):
        sizes = np.array(settings.households.sizes)
        shares = np.array([kind.share for kind in settings.household_kinds])
        joint = sizes / sizes.sum() * shares / shares.sum(axis=0)
        kind, size = np.nonzero(joint)
        self.kind: Ints = kind
        self.size: Ints = size + 1
        self._weight = joint[kind, size]
        self._older_smaller = settings.households.older_smaller
        self.couple: Bools = np.array([each.couple for each in settings.household_kinds])
        self._fitting = self._fitting_kinds(joint)

    @staticmethod
    def _fitting_kinds(joint: Floats) -> Ints:
        """The kind of a household cut down to a size: its own where the size has it, else the likeliest."""
        kinds = np.repeat(np.arange(len(joint))[:, None], HOUSEHOLD_SIZES, axis=1)
        return np.where(joint > 0, kinds, np.argmax(joint, axis=0)[None, :])

    def weights(self, groups: BlockGroups) -> Floats:
        """The weight of each (kind, size) in each block group: larger households where it is younger."""
        tilt = groups.larger - self._older_smaller * groups.older
        result: Floats = self._weight * np.exp(tilt[:, None] * (self.size - 2.5)[None, :])
        return result

    def fitted(self, kind: Ints, size: Ints) -> Ints:
        """The kinds of households whose size was changed."""
        result: Ints = self._fitting[kind, size - 1]
        return result


def make_households(
    rng: np.random.Generator, groups: BlockGroups, blocks: BlockFrame, kinds: HouseholdKinds
) -> Households:
    """The households of some block groups; their sizes add up to the persons of each block group."""
    weights = kinds.weights(groups)
    mean = (weights @ kinds.size) / weights.sum(axis=1)
    # Enough candidates that they hardly ever run out; if they do, persons alone make up the rest.
    candidates = (1.12 * groups.persons / mean).astype(np.int64) + 40
    group = np.repeat(np.arange(len(candidates)), candidates)
    drawn = Chances(weights).draw(rng, group)
    kind, size = kinds.kind[drawn], kinds.size[drawn]

    running = np.cumsum(size)
    before = running - size
    before -= np.repeat(before[starts_of(candidates)], candidates)
    left = groups.persons[group] - before
    used = left > 0
    cut = used & (size > left)
    size[cut] = left[cut]
    kind[cut] = kinds.fitted(kind[cut], size[cut])
    group, kind, size = group[used], kind[used], size[used]

    missing = groups.persons - np.bincount(group, weights=size, minlength=len(mean)).astype(np.int64)
    if missing.any():
        extra = np.repeat(np.arange(len(mean)), missing)
        group = np.concatenate([group, extra])
        order = np.argsort(group, kind="stable")
        group = group[order]
        kind = np.concatenate([kind, np.zeros_like(extra)])[order]
        size = np.concatenate([size, np.ones_like(extra)])[order]
    return Households(_deal(group, blocks, len(mean)), group, kind, size)


def _deal(group: Ints, blocks: BlockFrame, groups: int) -> Ints:
    """A block with housing for each household, within its block group, by cumulative weight."""
    housing = np.flatnonzero(blocks.housing)
    counts = np.bincount(blocks.block_group[housing], minlength=groups)
    _, upper = cumulative_shares(blocks.weight[housing], counts)
    households = np.bincount(group, minlength=groups)
    rank = np.arange(len(group)) - starts_of(households)[group]
    where = (rank + 0.5) / households[group]
    found = np.searchsorted(blocks.block_group[housing] + upper, group + where, side="right")
    result: Ints = housing[np.minimum(found, (starts_of(counts) + counts - 1)[group])]
    return result
