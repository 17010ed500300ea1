"""People and households as whole numbers, in an order that does not depend on the order of the rows.

Households are numbered in the order of their ids as text. Persons are sorted by household, block and everything that
is known of them; two persons that are alike in all of it may change places, and nobody could tell. So whatever is
drawn for a household is drawn for the same household however the rows were shuffled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from confide.arrays import Integers
from confide.errors import CONFIDENTIAL, InputError
from confide.geography import Spine
from confide.inputs.frame import fingerprint as frame_fingerprint

NO_HOUSEHOLD = -1
SIZE, ADULTS = "size", "adults"
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
