"""Areas of the same extent made alike in a finished release: what the option ``coterminous`` of a run does, afterwards.

For every set of areas and every iteration the donor is the first area, in the order of tabulation, that has a total;
the others get its rows, total and table alike, and lose their own (paper, Algorithm 4; see
:func:`confide.mechanisms.safetab.output.publish.unify`). It works on ``t1`` and ``t2`` as they were released, so that
it costs nothing, and doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from confide.arrays import Booleans, Integers
from confide.mechanisms.safetab.codes import read_iterations
from confide.mechanisms.safetab.output import reading
from confide.mechanisms.safetab.settings import REGION_TYPES
from confide.releases.folder import SealedRelease

AreaSet = Sequence[tuple[str, str]]
"""Areas that are taken for the same, in the order of region types: type and code."""


@dataclass(frozen=True, eq=False)
class Unified:
    """For each row of the new tables the row of the old ones that it is, and its group."""

    t1: Integers
    t1_keys: Integers
    t2: Integers
    t2_keys: Integers
    sets: int
    copied: int
    """How many groups have the figures of another area."""

    def take(self, name: str, rows: pa.Table) -> pa.Table:
        """The new rows of a table, from the old ones."""
        at, keys = (self.t1, self.t1_keys) if name == "t1" else (self.t2, self.t2_keys)
        taken = rows.take(pa.array(at))
        kinds = reading.region_of(keys)
        areas = [
            f"{area:0{reading.width_of(REGION_TYPES[kind])}d}"
            for kind, area in zip(kinds.tolist(), reading.area_of(keys).tolist(), strict=True)
        ]
        types = pa.array(REGION_TYPES, pa.string()).take(pa.array(kinds))
        taken = taken.set_column(0, rows.schema.field(0), pa.array(areas, pa.string()))
        return taken.set_column(1, rows.schema.field(1), types)


def unify_released(release: SealedRelease, sets: Sequence[AreaSet]) -> Unified:
    """The rows of ``t1`` and ``t2`` of a release, which are in order, with areas of the same extent made alike."""
    copies = reading.open_official(release)
    t1, t2 = reading.read_rows(copies["t1"]), reading.read_rows(copies["t2"])
    area, number = _members(sets)
    place = reading.find(area, t1.key // reading.CODES)
    inside = np.flatnonzero(place >= 0)
    # Rows are in the order of region types, so the first of a set and an iteration is that of its donor.
    pair = number[place[inside]] * reading.CODES + reading.code_of(t1.key[inside])
    _, first = np.unique(pair, return_index=True)
    donors = inside[first]
    row, key = _given(t1.key, donors, number[place[donors]], area, number, release)
    outside = np.flatnonzero(place < 0)
    t1_rows, t1_keys = np.concatenate([outside, row]), np.concatenate([t1.key[outside], key])
    order = np.argsort(t1_keys, kind="stable")
    t1_rows, t1_keys = t1_rows[order], t1_keys[order]
    t2_rows, t2_keys = _tables(t1.key[t1_rows], t1_keys, t2.key)
    return Unified(t1_rows, t1_keys, t2_rows, t2_keys, len(sets), int((t1.key[t1_rows] != t1_keys).sum()))


def _members(sets: Sequence[AreaSet]) -> tuple[Integers, Integers]:
    """The areas of all sets, as numbers that sort like groups, and the set of each."""
    areas = [
        (reading.group_key(kind, code, "0") // reading.CODES, number)
        for number, members in enumerate(sets)
        for kind, code in members
    ]
    table = np.array(sorted(areas), np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _given(
    keys: Integers, donors: Integers, donor_set: Integers, area: Integers, number: Integers, release: SealedRelease
) -> tuple[Integers, Integers]:
    """What each member of a set gets from the donors of the set: the row, and the group that it becomes."""
    by_set = np.argsort(number, kind="stable")
    begin, end = (np.searchsorted(number[by_set], donor_set, side) for side in ("left", "right"))
    times = end - begin
    row = np.repeat(donors, times)
    step = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
    member = area[by_set[np.repeat(begin, times) + step]]
    key = member * reading.CODES + reading.code_of(keys[row])
    kept = _tabulated(release)[reading.region_of(key), reading.code_of(key)]
    return row[kept], key[kept]


def _tabulated(release: SealedRelease) -> Booleans:
    """Whether areas of a type have groups of an iteration's level, by region type and iteration code."""
    plan = release.facts
    levels = {(level["region_type"], level["iteration_level"]) for level in plan["levels"].values()}
    known = np.zeros((len(REGION_TYPES), reading.CODES), np.bool_)
    for each in read_iterations(plan):
        known[:, int(each.code)] = [(kind, each.level) in levels for kind in REGION_TYPES]
    return known


def _tables(old: Integers, new: Integers, t2: Integers) -> tuple[Integers, Integers]:
    """The rows of ``t2`` that go with rows of ``t1``, each under its new group."""
    begin, end = (np.searchsorted(t2, old, side) for side in ("left", "right"))
    times = end - begin
    step = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
    return np.repeat(begin, times) + step, np.repeat(new, times)
