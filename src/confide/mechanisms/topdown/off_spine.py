"""Off-spine entities: the areas that block groups are made to fit.

A place or a minor civil division crosses tracts and block groups, so its count would be a sum of many noisy units. The
optimised spine (:mod:`confide.mechanisms.topdown.build_spine`) instead makes block groups that no entity cuts.
What matters is,
for each block, the *string* of all the entities that it lies in; two blocks may share a block group only if their
strings are equal. In the 2020 system the string is the concatenation of

1. the minor civil division in a State where those are governments and the block has no AIAN flag, otherwise the place;
2. the AIANNH area where the block has the AIAN flag;
3. a digit 0 or 1 for each major type of group quarters: whether the block has a facility of it;

with all nines for "none". The first two are *entities*, which tract groups try to keep near the spine; the third only
keeps blocks apart. The run for housing units leaves the third out, so its spine is another one.

Reference: Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
arXiv:2203.16654.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.errors import Finding, InputError, Place, SpecError
from confide.geography.spine import OUTSIDE, Geolevel

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
        raise SpecError(
            "bad-strong-mcd-states",
            "the list of States with strong minor civil divisions cannot be used",
            where=Place(path="states"),
            expected='states = ["09", ...], codes as text',
            remedy="correct the list",
        )
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
        _malformed(f"the list of area types has no {key}", key, f'{key} = "..."')
        for key in ("id", "provenance", "none")
        if not isinstance(document.get(key), str)
    ]
    types = []
    rows = document.get("types")
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        if isinstance(row, dict) and _sound(row):
            types.append(AreaType(**row))
        else:
            expected = "name, first and last (text of one width, in order) and split (true or false)"
            findings.append(_malformed("an area type is not as it should be", f"types[{number}]", expected))
    if not types:
        findings.append(_malformed("the list has no area types", "types", "[[types]] with name, first, last, split"))
    types.sort(key=lambda kind: kind.first)
    findings += [
        _malformed(f"{one.name!r} and {other.name!r} have codes in common", "types", "ranges that do not overlap")
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
            f"a code of {areas.name!r} is of no known type of area",
            where=Place(file=file, row=first + 1),
            found=f"{len(unknown):,} such codes, the first {unknown[0]!r}",
            expected=f"{types.none!r} for no area, or a code in a range of {types.id}",
            remedy="correct the code, or give a list of area types that has it",
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


def _malformed(what: str, path: str, expected: str) -> Finding:
    return Finding(
        code="bad-area-types",
        what=what,
        where=Place(path=path),
        expected=expected,
        remedy="correct the list of area types",
    )
