"""The spine of a top-down release: units, children, shares, and the way back to official geography.

Blocks with at least one housing unit or group quarters facility are on the spine; the others are empty by public
knowledge, and everything tabulated for them is zero. The levels are, from the root down, official levels of the frame
and, where asked for, two that are made: optimised block groups and tract groups
(:mod:`confide.mechanisms.topdown.build_spine`).
Where the blocks have an AIAN flag (:mod:`confide.mechanisms.topdown.build_spine`) every unit below the root
holds blocks of one flag:
with the nation as root, the State-level units are (flag, State); with a State as root, the whole State is the root and
the county-level units are (flag, county). The root is never split, since its totals are what is known and fixed.

The units of a level are in the order of their ids, so that the children of a unit, and its blocks, are slices. The
shares of the budget follow from one share for each level by the one-child bypass
(:mod:`confide.mechanisms.topdown.spine`).

Without flags and without made levels this is a plain spine, for any country and any levels.

Reference: Abowd and others, *The 2020 Census Disclosure Avoidance System TopDown Algorithm*, Harvard Data Science
Review, 2022; Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
arXiv:2203.16654.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from math import isqrt
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from confide.errors import Finding, InputError, ParameterError, Place, SpecError
from confide.exact import Exact, exact
from confide.geography import OUTSIDE, Geolevel, Spine
from confide.mechanisms.topdown.spine import TopDownLevel, TopDownSpine, bypass_only_children, check_path_sums

# Off-spine entities: the areas that block groups are made to fit.
#
# A place or a minor civil division crosses tracts and block groups, so its count would be a sum of many noisy units.
# The optimised spine (:mod:`confide.mechanisms.topdown.build_spine`) instead makes block groups that no entity cuts.
# What matters is, for each block, the *string* of all the entities that it lies in; two blocks may share a block group
# only if their strings are equal. In the 2020 system the string is the concatenation of
#
# 1. the minor civil division in a State where those are governments and the block has no AIAN flag, otherwise the
# place; 2. the AIANNH area where the block has the AIAN flag; 3. a digit 0 or 1 for each major type of group quarters:
# whether the block has a facility of it;
#
# with all nines for "none". The first two are *entities*, which tract groups try to keep near the spine; the third only
# keeps blocks apart. The run for housing units leaves the third out, so its spine is another one.
#
# Reference: Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
# arXiv:2203.16654.


DIVISION_OR_PLACE = "division or place"
SPLIT_AREA = "split area"


@dataclass(frozen=True)
class OffSpineEntities:
    """The entities of every block: as one string, and one by one for each kind of entity."""

    strings: tuple[str, ...]
    """The distinct strings, in order."""
    string_of_block: NDArray[np.int64]
    kinds: tuple[Geolevel, ...]
    """For each kind of entity the one that a block lies in, or ``OUTSIDE``."""


def parse_strong_mcd_states(document: Mapping[str, Any]) -> frozenset[str]:
    """The codes of the States where minor civil divisions go before places, from the values of their TOML file."""
    states = document.get("states")
    if not isinstance(states, list) or not all(isinstance(code, str) for code in states):
        raise SpecError("bad-strong-mcd-states", where=Place(path="states"))
    return frozenset(states)


def divisions_or_places(
    state: Geolevel,
    strong: Collection[str],
    *,
    division: Geolevel | None = None,
    place: Geolevel | None = None,
    split: NDArray[np.bool_] | None = None,
) -> Geolevel:
    """The minor civil division of a block that lies in a ``strong`` State and has no flag in ``split``, otherwise its
    place. A partition that is not given, and a code of nines, is no entity; a strong State without divisions in the
    frame is treated by its places."""
    blocks = len(state.unit_of_block)
    by_division = np.zeros(blocks, np.bool_)
    if division is not None:
        by_division = np.array([code in strong for code in state.codes])[state.unit_of_block]
        if split is not None:
            by_division &= ~split
    codes = (division.codes if division else ()) + (place.codes if place else ())
    shift = division.units if division else 0
    chosen = np.full(blocks, OUTSIDE, np.int64)
    if place is not None:
        chosen = np.where(place.unit_of_block == OUTSIDE, OUTSIDE, place.unit_of_block + shift)
    if division is not None:
        chosen = np.where(by_division, division.unit_of_block, chosen)
    return _without_nines(Geolevel(DIVISION_OR_PLACE, codes, chosen, on_spine=False))


def split_areas(areas: Geolevel, split: NDArray[np.bool_]) -> Geolevel:
    """The AIANNH area of a block with the flag; ``OUTSIDE`` for the others."""
    chosen = np.where(split, areas.unit_of_block, OUTSIDE)
    return _without_nines(Geolevel(SPLIT_AREA, areas.codes, chosen, on_spine=False))


def off_spine_entities(
    kinds: Sequence[Geolevel], presence: NDArray[np.bool_] | None = None, *, blocks: int | None = None
) -> OffSpineEntities:
    """Entities of any kinds, and for each block a row of ``presence``: which types of group quarters it has.

    ``string = code_1 ‖ code_2 ‖ … ‖ presence digits``, a code of all nines where the block is in no entity of the kind.
    ``blocks`` is needed only where neither kinds nor presence tell it.
    """
    count = len(kinds[0].unit_of_block) if kinds else len(presence) if presence is not None else blocks or 0
    key = np.zeros(count, np.int64)
    parts: list[list[str]] = []
    for kind in kinds:
        nines = "9" * max((len(code) for code in kind.codes), default=1)
        parts.append([*kind.codes, nines])
        # OUTSIDE, one below zero, becomes the last of the parts.
        key = _dense(key * (kind.units + 1) + kind.unit_of_block % (kind.units + 1))
    digits = np.zeros(count, np.int64)
    width = 0
    if presence is not None:
        width = presence.shape[1]
        digits = presence.astype(np.int64) @ (1 << np.arange(width, dtype=np.int64)[::-1])
        key = _dense(key * (1 << width) + digits)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    codes = [
        (
            *(part[kind.unit_of_block[row]] for part, kind in zip(parts, kinds, strict=True)),
            f"{digits[row]:0{width}b}" if width else "",
        )
        for row in first.tolist()
    ]
    # Partitions may use one text for two entities (a division and a place): the texts are what counts, each by itself,
    # since codes of unequal length can be the same when written one after the other.
    distinct = sorted(set(codes), key=lambda each: ("".join(each), each))
    rank = {each: position for position, each in enumerate(distinct)}
    position = np.array([rank[each] for each in codes], np.int64)
    return OffSpineEntities(tuple("".join(each) for each in distinct), position[inverse], tuple(kinds))


def _dense(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank of each value, so that products of several partitions stay small."""
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def _without_nines(level: Geolevel) -> Geolevel:
    """Blocks whose code is all nines lie in no entity."""
    none = np.array([set(code) == {"9"} for code in level.codes] + [True], np.bool_)
    chosen = np.where(none[level.unit_of_block], OUTSIDE, level.unit_of_block)
    return Geolevel(level.name, level.codes, chosen, on_spine=False)


# Which blocks lie in an American Indian, Alaska Native or Native Hawaiian (AIANNH) area that the spine puts apart.
#
# The flag of a block is 1 if the four-digit code of its area is in the range of a type that is split off, else 0.
# Below the root, every unit holds blocks of one flag only, so that the areas of the flag can be told apart at every
# level. Ranges and choice of types are settings (``data/geography/aiannh-types.toml``), handed in as plain values.
#
# Reference: Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
# arXiv:2203.16654, section on the AIAN spine.


@dataclass(frozen=True, slots=True)
class AreaType:
    """A type of area: its codes run from ``first`` to ``last``, both included, as text of one width."""

    name: str
    first: str
    last: str
    split: bool

    def __contains__(self, code: str) -> bool:
        return len(code) == len(self.first) and self.first <= code <= self.last


@dataclass(frozen=True, slots=True)
class AreaTypes:
    """All types, in the order of their codes, and the code of a block in no area."""

    id: str
    provenance: str
    none: str
    types: tuple[AreaType, ...]

    def type_of(self, code: str) -> AreaType | None:
        """The type of an area by its code; none if the code is in no range."""
        return next((kind for kind in self.types if code in kind), None)


def parse_area_types(document: Mapping[str, Any]) -> AreaTypes:
    """The types from the plain values of their TOML file. Raises a :class:`SpecError` with every problem."""
    findings = [
        Finding.of("bad-area-types/list", where=Place(path=key), key=key)
        for key in ("id", "provenance", "none")
        if not isinstance(document.get(key), str)
    ]
    types = []
    rows = document.get("types")
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        if isinstance(row, dict) and _sound(row):
            types.append(AreaType(**row))
        else:
            findings.append(Finding.of("bad-area-types/type", where=Place(path=f"types[{number}]")))
    if not types:
        findings.append(Finding.of("bad-area-types/name-first-last", where=Place(path="types")))
    types.sort(key=lambda kind: kind.first)
    findings += [
        Finding.of("bad-area-types/codes", where=Place(path="types"), one=one.name, other=other.name)
        for one, other in pairwise(types)
        if other.first <= one.last
    ]
    if findings:
        raise SpecError(findings)
    return AreaTypes(document["id"], document["provenance"], document["none"], tuple(types))


def aian_flags(areas: Geolevel, types: AreaTypes, *, file: str | None = None) -> NDArray[np.bool_]:
    """For each block, whether it lies in an area of a type that is split off.

    A block outside of all areas, or with the code ``types.none``, has no flag. A code in no range is a finding: the
    settings do not say what it is.
    """
    kinds = {code: types.type_of(code) for code in areas.codes if code != types.none}
    unknown = [code for code, kind in kinds.items() if kind is None]
    if unknown:
        first = int(np.flatnonzero(areas.unit_of_block == areas.codes.index(unknown[0]))[0])
        raise InputError(
            "unknown-area-type",
            where=Place(file=file, row=first + 1),
            areas=areas.name,
            unknown=len(unknown),
            unknown_found=unknown[0],
            none=types.none,
            types=types.id,
        )
    # One entry more, at the end, is what OUTSIDE (-1) finds.
    assert OUTSIDE == -1
    split = np.array([(kind := kinds.get(code)) is not None and kind.split for code in areas.codes] + [False], np.bool_)
    return split[areas.unit_of_block]


def _sound(row: dict[str, Any]) -> bool:
    """Whether a row says what a type of area needs, and nothing else."""
    if set(row) != {"name", "first", "last", "split"} or not isinstance(row["split"], bool):
        return False
    texts = (row["name"], row["first"], row["last"])
    if not all(isinstance(text, str) for text in texts):
        return False
    _, first, last = texts
    return len(first) == len(last) and first <= last


# Optimised block groups, and tract groups where a spine has them.
#
# **Block groups.** Within a tract of n blocks, the blocks of each entity string
# (:mod:`confide.mechanisms.topdown.build_spine`), in
# the order of their codes, fill block groups one after the other; a new one is begun when the last one holds more than
# ``int(sqrt(n) + fanout)`` blocks, so none holds more than ``int(sqrt(n) + fanout) + 1``. Strings are never mixed. The
# official block groups play no part. Then every entity is, within a tract, a union of block groups.
#
# **Tract groups.** The *distance* of an entity k is a number of spine units to add or subtract to form it. For a block,
# c_k = 1 if it lies in k and c_¬k = 1 if not; for any other unit, with A and B the sums of its children's c_k and c_¬k,
#
#     c_k = min(A, B + 1),    c_¬k = min(A + 1, B).
#
# Tracts of a county are put into groups that bring the distances down, from the largest: see :func:`tract_groups`. The
# 2020 redistricting system has no such level; later and earlier ones had.
#
# **Primitive areas.** The 2020 spine of the Demographic and Housing Characteristics has no tracts. Below a county come
# *prims*: blocks with the same county subdivision (where these are governments) and the same place, so that both are on
# the spine. The blocks that a prim and a tract share are a *tract subset*; the n tract subsets of a prim are put into
# *tract subset groups* in the order of the tracts, at most ``int(sqrt(n) + fanout + 1)`` to a group; block groups are
# made within a tract subset.
#
# Reference: Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
# arXiv:2203.16654; details (order of the search, cut-offs) as in the Bureau's public sources.


T = TypeVar("T")

FANOUT = 12
ENTITY_THRESHOLD = 9
PRIM, TRACT_SUBSET_GROUP, TRACT_SUBSET, TRACT = "prim", "tract_subset_group", "tract_subset", "tract"


def primitive_areas(
    state: Geolevel, strong: Collection[str], *, division: Geolevel | None = None, place: Geolevel | None = None
) -> NDArray[np.int64]:
    """For each block the number of its primitive area: its county subdivision, in the ``strong`` States, and its place.

    Args:
        state: The State of each block.
        strong: The States where county subdivisions are governments.
        division: The county subdivisions; a code of nines is none.
        place: The places; a code of nines is none.
    """
    number = np.zeros(len(state.unit_of_block), np.int64)
    if division is not None:
        governs = np.array([code in strong for code in state.codes])[state.unit_of_block]
        number = np.where(governs, _without_nines(division).unit_of_block + 1, 0)
    if place is not None:
        number = number * (place.units + 1) + _without_nines(place).unit_of_block + 1
    return _dense(number)


def subset_groups(prim: NDArray[np.int64], subset: NDArray[np.int64], fanout: int = FANOUT) -> NDArray[np.int64]:
    """For each block the number of its tract subset group within its prim, from zero.

    Args:
        prim: The prim of each block.
        subset: Its tract subset, numbered by prim and then by tract.
        fanout: A group of n tract subsets has at most ``int(sqrt(n) + fanout + 1)``.
    """
    _, first, of_block = np.unique(subset, return_index=True, return_inverse=True)
    prim_of_subset = prim[first]
    subsets = np.bincount(prim_of_subset, minlength=int(prim.max()) + 1)
    most = np.sqrt(subsets).astype(np.int64) + fanout + 1
    begin = np.cumsum(subsets) - subsets
    within = np.arange(len(first)) - begin[prim_of_subset]
    numbers: NDArray[np.int64] = (within // most[prim_of_subset])[of_block.reshape(-1)]
    return numbers


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
    entities_of_tract: list[set[tuple[int, int]]] = [set() for _ in range(int(tract[-1]) + 1)]
    for kind, entity in enumerate(kinds):
        for where, which in np.unique(np.column_stack([tract, entity]), axis=0).tolist():
            entities_of_tract[where].add((kind, which))
    together: dict[frozenset[tuple[int, int]], list[int]] = {}
    for number, present in enumerate(entities_of_tract):
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
            old_total - unit[one] - unit[partners] + new
            for old_total, unit, new in zip(total, units, merged, strict=True)
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


@dataclass(frozen=True)
class Optimisation:
    """Which levels are made rather than taken from the frame, and around which entities (of all blocks of the frame).

    ``block_groups`` names the level above the blocks, ``tract_groups`` the level two above that, if there is one.
    ``prims``: for each block its primitive area, where the levels above the block groups are made of these.
    """

    entities: OffSpineEntities
    block_groups: str = "block_group"
    tract_groups: str | None = None
    prims: NDArray[np.int64] | None = None
    fanout: int = FANOUT
    entity_threshold: int = ENTITY_THRESHOLD


def build_topdown_spine(
    frame: Spine,
    shares: Mapping[str, Exact],
    *,
    with_units: NDArray[np.bool_] | None = None,
    split: NDArray[np.bool_] | None = None,
    optimise: Optimisation | None = None,
) -> TopDownSpine:
    """The spine with the levels that ``shares`` names, root first and blocks last, each with its share of the budget.

    ``with_units`` (all, if not given), ``split`` and the entities of ``optimise`` are in the order of the frame's rows.
    The result does not depend on that order, except for ``rows``. Shares sum to exactly one, and so does every path.
    """
    exact_shares = _checked(frame, shares, optimise)
    blocks = len(frame.blocks.unit_of_block)
    entities = None if optimise is None else optimise.entities.string_of_block
    for name, values in (("with_units", with_units), ("split", split), ("optimise.entities", entities)):
        if values is not None and values.shape != (blocks,):
            raise ParameterError("bad-length", found=str(values.shape), name=name, blocks=blocks)
    rows = np.arange(blocks) if with_units is None else np.flatnonzero(with_units)
    if not len(rows):
        raise InputError("no-units/housing", blocks=blocks)
    partitions = _nested(frame, list(shares), rows, split, optimise)
    order = np.argsort(partitions[-1], kind="stable")
    rows = rows[order]
    first_blocks = [np.searchsorted(units[order], np.arange(units.max() + 2)) for units in partitions]
    parents = [above[order][first[:-1]] for above, first in zip(partitions, first_blocks[1:], strict=False)]
    unit_shares = bypass_only_children(exact_shares, parents)
    check_path_sums(unit_shares, parents)
    levels = []
    for position, name in enumerate(shares):
        first = first_blocks[position]
        last = position == len(parents)
        levels.append(
            TopDownLevel(
                name,
                parent=parents[position - 1] if position else np.empty(0, np.int64),
                first_child=np.zeros(len(first), np.int64)
                if last
                else np.searchsorted(parents[position], np.arange(len(first))),
                first_block=first,
                shares=unit_shares[position],
                official=None if name in _made(optimise) else frame.level(name).unit_of_block[rows[first[:-1]]],
            )
        )
    return TopDownSpine(tuple(levels), frame, rows, None if split is None else split[rows])


def _nested(
    frame: Spine,
    names: list[str],
    rows: NDArray[np.int64],
    split: NDArray[np.bool_] | None,
    optimise: Optimisation | None,
) -> list[NDArray[np.int64]]:
    """For every level the unit of each row, numbered by parent and then by code: the order of the ids."""

    def taken(above: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        return _refined(above, frame.level(name).unit_of_block[rows])

    def made_block_groups(tract: NDArray[np.int64]) -> NDArray[np.int64]:
        assert optimise is not None
        string = optimise.entities.string_of_block[rows]
        number = block_groups(tract, string, frame.blocks.unit_of_block[rows], optimise.fanout)
        return _refined(tract, number)

    result = [np.zeros(len(rows), np.int64)]
    for position, name in enumerate(names[1:], start=1):
        # Next to the root, two units above: without and with the flag. All that lies below is nested in them.
        above = split[rows].astype(np.int64) if split is not None and position == 1 else result[-1]
        if optimise is not None and name == optimise.block_groups:
            result.append(made_block_groups(above))
        elif optimise is not None and name == optimise.tract_groups:
            tract = taken(above, names[position + 1])
            kinds = tuple(Geolevel(k.name, k.codes, k.unit_of_block[rows], k.on_spine) for k in optimise.entities.kinds)
            entities = OffSpineEntities(optimise.entities.strings, optimise.entities.string_of_block[rows], kinds)
            number = tract_groups(
                above,
                tract,
                made_block_groups(tract),
                entities,
                fanout=optimise.fanout,
                threshold=optimise.entity_threshold,
            )
            result.append(_refined(above, number))
        elif name == PRIM and optimise is not None and optimise.prims is not None:
            result.append(_refined(above, optimise.prims[rows]))
        elif name == TRACT_SUBSET_GROUP and name in _made(optimise):
            assert optimise is not None
            result.append(_refined(above, subset_groups(above, taken(above, TRACT), optimise.fanout)))
        elif name == TRACT_SUBSET and name in _made(optimise):
            result.append(taken(above, TRACT))
        else:
            result.append(taken(above, name))
    return result


def _refined(above: NDArray[np.int64], code: NDArray[np.int64]) -> NDArray[np.int64]:
    """The units of pairs (unit above, code), numbered in order."""
    return np.unique(above * (code.max() + 1) + code, return_inverse=True)[1].astype(np.int64)


def _made(optimise: Optimisation | None) -> tuple[str, ...]:
    """The names of the levels that are not the frame's."""
    if optimise is None:
        return ()
    prims = () if optimise.prims is None else (PRIM, TRACT_SUBSET_GROUP, TRACT_SUBSET)
    tract_groups = () if optimise.tract_groups is None else (optimise.tract_groups,)
    return (*prims, *tract_groups, optimise.block_groups)


def _checked(frame: Spine, shares: Mapping[str, Exact], optimise: Optimisation | None) -> list[Fraction]:
    """The shares as exact numbers; raises with every problem of levels and shares."""
    names = list(shares)
    made_levels = _made(optimise)
    findings = []
    official = [level.name for level in frame.levels]
    taken = [name for name in names if name not in made_levels]
    if [name for name in official if name in taken] != taken or not names or names[-1] != official[-1]:
        findings.append(Finding.of("bad-levels/frame", found=", ".join(names), official=", ".join(official)))
    elif names[0] in made_levels or frame.level(names[0]).units != 1:
        found = f"{names[0]!r}" + ("" if names[0] in made_levels else f" with {frame.level(names[0]).units:,} units")
        findings.append(
            Finding.of(
                "no-root",
                name=names[0],
                units=None if names[0] in made_levels else frame.level(names[0]).units,
                name_known=names[0] in made_levels,
            )
        )
    if optimise is not None:
        places = [names[-2:-1] == [optimise.block_groups]]
        if optimise.tract_groups is not None:
            places.append(names[-4:-3] == [optimise.tract_groups])
        if optimise.prims is not None:
            places.append(names[-5:-2] == [PRIM, TRACT_SUBSET_GROUP, TRACT_SUBSET])
        if not all(places):
            findings.append(Finding.of("bad-levels/made", found=", ".join(names)))
    values = [exact(share, f"the share of {name}") for name, share in shares.items()]
    if any(value < 0 for value in values) or sum(values) != 1:
        found = " + ".join(map(str, values)) + f" = {sum(values)}"
        findings.append(Finding.of("bad-shares/wrong", found=found))
    if findings:
        raise ParameterError(findings)
    return values
