"""Optimised block groups, and tract groups where a spine has them.

**Block groups.** Within a tract of n blocks, the blocks of each entity string
(:mod:`confide.mechanisms.topdown.spine.off_spine`), in
the order of their codes, fill block groups one after the other; a new one is begun when the last one holds more than
``int(sqrt(n) + fanout)`` blocks, so none holds more than ``int(sqrt(n) + fanout) + 1``. Strings are never mixed. The
official block groups play no part. Then every entity is, within a tract, a union of block groups.

**Tract groups.** The *distance* of an entity k is a number of spine units to add or subtract to form it. For a block,
c_k = 1 if it lies in k and c_¬k = 1 if not; for any other unit, with A and B the sums of its children's c_k and c_¬k,

    c_k = min(A, B + 1),    c_¬k = min(A + 1, B).

Tracts of a county are put into groups that bring the distances down, from the largest: see :func:`tract_groups`. The
2020 redistricting system has no such level; later and earlier ones had.

Reference: Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
arXiv:2203.16654; details (order of the search, cut-offs) as in the Bureau's public sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import isqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from confide.geography.spine import OUTSIDE
from confide.mechanisms.topdown.spine.off_spine import OffSpineEntities

T = TypeVar("T")

FANOUT = 12
ENTITY_THRESHOLD = 9


def block_groups(
    tract: NDArray[np.int64], string: NDArray[np.int64], rank: NDArray[np.int64], fanout: int = FANOUT
) -> NDArray[np.int64]:
    """For each block the number of its optimised block group within its tract, from zero.

    ``tract`` and ``string`` are indices, the strings in their order; ``rank`` is the block's place in the order of the
    block codes. Groups are numbered by string, then by the codes of their blocks.
    """
    order = np.lexsort((rank, string, tract))
    tract, string = tract[order], string[order]
    most = np.sqrt(np.bincount(tract)).astype(np.int64) + fanout + 1
    new_string = _starts(tract) | _starts(string)
    begin = np.flatnonzero(new_string)
    position = np.arange(len(order)) - np.repeat(begin, np.diff(np.append(begin, len(order))))
    # A group begins with each string and after every ``most`` blocks of it; count them within the tract.
    count = np.cumsum(new_string | (position % most[tract] == 0))
    first = count[np.flatnonzero(_starts(tract))]
    result = np.empty(len(order), np.int64)
    result[order] = count - np.repeat(first, np.diff(np.append(np.flatnonzero(_starts(tract)), len(order))))
    return result


def tract_groups(
    county: NDArray[np.int64],
    tract: NDArray[np.int64],
    block_group: NDArray[np.int64],
    entities: OffSpineEntities,
    *,
    fanout: int = FANOUT,
    threshold: int = ENTITY_THRESHOLD,
) -> NDArray[np.int64]:
    """For each block the number of its tract group within its county, from zero, in the order of the first tracts.

    County, tract and block group are nested indices in the order of the spine. In each county with t tracts, beginning
    with one tract to a group, and with ``cutoff = int(sqrt(t) + fanout)``:

    1. tracts with the same set of entities (in none counts as one) are merged, ``cutoff`` at a time;
    2. entities whose distance without tract groups is at most ``threshold`` are left aside; if all are, the groups are
       merged in order, ``cutoff`` at a time, and that is all;
    3. otherwise groups i < j are merged, the first pair that has at most ``cutoff`` tracts together and does not raise
       the list of the county's distances, sorted from the largest, in lexicographic order; a group that finds no
       partner stays as it is.
    """
    order = np.argsort(block_group, kind="stable")
    bounds = np.append(np.flatnonzero(_starts(county[order])), len(order))
    result = np.empty(len(order), np.int64)
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        rows = order[begin:end]
        kinds = [kind.unit_of_block[rows] for kind in entities.kinds]
        own = tract[rows] - tract[rows[0]]
        groups = _county_groups(own, block_group[rows] - block_group[rows[0]], kinds, fanout, threshold)
        number = np.empty(own[-1] + 1, np.int64)
        for position, members in enumerate(sorted(groups)):
            number[members] = position
        result[rows] = number[own]
    return result


def distance(inside: NDArray[np.int64], outside: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One step of the recursion: (c_k, c_¬k) of units from the sums A, B over their children."""
    return np.minimum(inside, outside + 1), np.minimum(inside + 1, outside)


def _county_groups(
    tract: NDArray[np.int64],
    block_group: NDArray[np.int64],
    kinds: Sequence[NDArray[np.int64]],
    fanout: int,
    threshold: int,
) -> list[list[int]]:
    """Lists of the tracts, counted from zero, of each group of one county; its blocks in order."""
    tracts = int(tract[-1]) + 1
    cutoff = isqrt(tracts) + fanout
    groups = _same_entities(tract, kinds, cutoff)
    inside, outside = _tract_distances(tract, block_group, kinds)
    far = distance(inside.sum(axis=0), outside.sum(axis=0))[0] > threshold
    if not far.any():
        return [sorted(chain.from_iterable(part)) for part in _chunks(groups, cutoff)]
    return _merged_pairs(groups, inside[:, far], outside[:, far], cutoff)


def _same_entities(tract: NDArray[np.int64], kinds: Sequence[NDArray[np.int64]], cutoff: int) -> list[list[int]]:
    """Rule 1: groups of tracts with one set of entities, in the order of their first tracts."""
    found: list[set[tuple[int, int]]] = [set() for _ in range(int(tract[-1]) + 1)]
    for kind, entity in enumerate(kinds):
        for where, which in np.unique(np.column_stack([tract, entity]), axis=0).tolist():
            found[where].add((kind, which))
    together: dict[frozenset[tuple[int, int]], list[int]] = {}
    for number, present in enumerate(found):
        together.setdefault(frozenset(present), []).append(number)
    return sorted(part for members in together.values() for part in _chunks(members, cutoff))


def _tract_distances(
    tract: NDArray[np.int64], block_group: NDArray[np.int64], kinds: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(c_k, c_¬k) of every tract (rows) and entity (columns) of a county."""
    size = np.bincount(block_group)
    tract_of_group = tract[np.flatnonzero(_starts(block_group))]
    first = np.flatnonzero(_starts(tract_of_group))
    columns = []
    for entity in kinds:
        present = np.unique(entity[entity != OUTSIDE])
        row = np.flatnonzero(entity != OUTSIDE)
        cell = block_group[row] * len(present) + np.searchsorted(present, entity[row])
        columns.append(np.bincount(cell, minlength=len(size) * len(present)).reshape(len(size), len(present)))
    blocks = np.concatenate(columns, axis=1) if columns else np.zeros((len(size), 0), np.int64)
    inside, outside = distance(blocks, size[:, None] - blocks)
    return distance(np.add.reduceat(inside, first, axis=0), np.add.reduceat(outside, first, axis=0))


def _merged_pairs(
    groups: list[list[int]], inside: NDArray[np.int64], outside: NDArray[np.int64], cutoff: int
) -> list[list[int]]:
    """Rule 3. ``inside`` and ``outside`` are c_k and c_¬k of the tracts, for the entities that count."""
    groups = list(groups)
    sums = [np.array([part[members].sum(axis=0) for members in groups]) for part in (inside, outside)]
    units = list(distance(*sums))
    total = [unit.sum(axis=0) for unit in units]
    size = np.array([len(members) for members in groups])
    current = _descending(distance(total[0], total[1])[0])
    open_groups, done = list(range(len(groups))), []
    while open_groups:
        one, *others = open_groups
        partners = np.array([other for other in others if size[one] + size[other] <= cutoff], np.int64)
        merged = distance(*(part[one] + part[partners] for part in sums))
        county = [
            whole - unit[one] - unit[partners] + new for whole, unit, new in zip(total, units, merged, strict=True)
        ]
        objective = _descending(distance(county[0], county[1])[0])
        accepted = np.flatnonzero(_not_above(objective, current))
        if not len(accepted):
            done.append(groups[one])
            open_groups.pop(0)
            continue
        choice = int(accepted[0])
        partner = int(partners[choice])
        current = objective[choice]
        total = [part[choice] for part in county]
        for part, unit, new in zip(sums, units, merged, strict=True):
            part[one] += part[partner]
            unit[one] = new[choice]
        groups[one] = sorted(groups[one] + groups[partner])
        size[one] += size[partner]
        open_groups.remove(partner)
    return done


def _not_above(rows: NDArray[np.int64], bound: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each row, whether it comes at or before ``bound`` in lexicographic order."""
    difference = rows - bound
    first = np.argmax(difference != 0, axis=1)
    at_or_before: NDArray[np.bool_] = difference[np.arange(len(rows)), first] <= 0
    return at_or_before


def _descending(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return -np.sort(-values, axis=-1)


def _starts(sorted_values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a run of equal values begins."""
    return np.append(True, sorted_values[1:] != sorted_values[:-1])


def _chunks(items: list[T], size: int) -> list[list[T]]:
    return [items[begin : begin + size] for begin in range(0, len(items), size)]
