"""Which blocks lie in an American Indian, Alaska Native or Native Hawaiian (AIANNH) area that the spine puts apart.

The flag of a block is 1 if the four-digit code of its area is in the range of a type that is split off, else 0. Below
the root, every unit holds blocks of one flag only, so that the areas of the flag can be told apart at every level.
Ranges and choice of types are settings (``data/geography/aiannh-types.toml``), handed in as plain values.

Reference: Cumings-Menon and others, *Geographic Spines in the 2020 Census Disclosure Avoidance System*,
arXiv:2203.16654, section on the AIAN spine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confide.errors import Finding, InputError, Place, SpecError
from confide.geography.spine import OUTSIDE, Geolevel


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
            Finding(
                code="unknown-area-type",
                what=f"a code of {areas.name!r} is of no known type of area",
                where=Place(file=file, row=first + 1),
                found=f"{len(unknown):,} such codes, the first {unknown[0]!r}",
                expected=f"{types.none!r} for no area, or a code in a range of {types.id}",
                remedy="correct the code, or give a list of area types that has it",
            )
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
