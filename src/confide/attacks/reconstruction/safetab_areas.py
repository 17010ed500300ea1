"""Which groups and areas of a SafeTab-P release are fitted together.

A group has figures in some tracts and none in others. So the people of a county are in a tract with figures, or in *the
rest of the county*. A *block* is a group in an area with figures, without the smaller areas with figures in it; it is
known by the group and the area. For a tract that is the tract, for a county the rest of it.

All blocks of a group below an area of the coarsest level are fitted together. Where these are more than
:data:`MOST_BLOCKS`, the area's own figures are left out, and the areas below it are fitted by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.attacks.reconstruction.marginals import Geography
from confide.safetab.output.reading import CODE_DIGITS, REGIONS, WIDTHS, area_of, code_of, region_of
from confide.safetab.settings import PR_REGIONS, REGION_TYPES

Integers = npt.NDArray[np.int64]

MOST_BLOCKS = 500
"""How many blocks are fitted together."""

NAMES = {"TRACT": "tract", "COUNTY": "county", "STATE": "state", "USA": "nation", "PLACE": "place", "AIANNH": "area"}
"""What the attack calls the areas of a region type."""
NESTING = ("TRACT", "COUNTY", "STATE", "USA")
"""Region types whose areas lie in one another, the smallest first. Those of Puerto Rico count as their likes."""


def levels_of(region_types: Sequence[str]) -> tuple[str, ...]:
    """The region types to attack, the smallest first: those that nest, or without any of these the first there is."""
    there = [kind.removeprefix("PR-") for kind in region_types]
    return tuple(kind for kind in NESTING if kind in there) or tuple(there[:1])


def depths(keys: Integers, levels: Sequence[str]) -> Integers:
    """For each group the place of its region type among the levels, or -1."""
    plain = [kind.removeprefix("PR-") for kind in REGION_TYPES]
    places = np.array([levels.index(kind) if kind in levels else -1 for kind in plain], np.int64)
    return np.asarray(places[region_of(keys)])


def area_within(keys: Integers, level: str, levels: Sequence[str]) -> Integers:
    """For each group the area of a coarser level that its area lies in; Puerto Rico lies in no nation but itself."""
    width = np.array([WIDTHS[kind] for kind in levels], np.int64)[depths(keys, levels)]
    if level != "USA":
        return np.asarray(area_of(keys) // 10 ** np.maximum(width - WIDTHS[level], 0))
    ours = np.isin(region_of(keys), [REGION_TYPES.index(kind) for kind in PR_REGIONS])
    state = area_of(keys) // 10 ** np.maximum(width - WIDTHS["STATE"], 0)
    return np.where(ours, state, 1)


@dataclass(frozen=True, eq=False)
class Areas:
    """Groups with figures, as blocks: where each lies on every level, and what is fitted together.

    A unit has the number ``(iteration code · levels + level) · 10^11 + area``.
    """

    levels: tuple[str, ...]
    """Region types, the smallest first."""
    units: tuple[Integers, ...] = field(repr=False)
    """For each level the sorted numbers of its units; those of the finest are the blocks."""
    unit_of_block: tuple[Integers, ...] = field(repr=False)
    split: int
    """How many groups have too many blocks below an area, so that their figures of the area are left out."""

    @classmethod
    def of(cls, keys: Integers, levels: tuple[str, ...], most: int = MOST_BLOCKS) -> Areas:
        """The blocks of the groups with these keys, all of them of the levels."""
        depth = depths(keys, levels)
        above = np.stack([_number(keys, level, levels) for level in range(len(levels))])
        below = np.stack([_sizes(numbers, depth <= level) for level, numbers in enumerate(above)])
        left_out = below[depth, np.arange(len(keys))] > most
        together = depth.copy()
        for level in range(len(levels)):
            together = np.where((level >= depth) & (below[level] <= most), level, together)
        depth, together, above = depth[~left_out], together[~left_out], above[:, ~left_out]
        columns = np.arange(len(depth))
        numbers = [above[np.clip(level, depth, together), columns] for level in range(len(levels))]
        blocks, first = np.unique(numbers[0], return_index=True)
        found = [np.unique(each[first], return_inverse=True) for each in numbers]
        return cls(
            levels,
            (blocks, *(units for units, _ in found[1:])),
            tuple(np.asarray(inverse, np.int64) for _, inverse in found),
            int(left_out.sum()),
        )

    def place(self, keys: Integers) -> tuple[Integers, Integers]:
        """For each group the depth and the number of its unit there, -1 if its figures are left out."""
        depth = depths(keys, self.levels)
        unit = np.full(len(keys), -1, np.int64)
        for level, units in enumerate(self.units):
            here = np.flatnonzero(depth == level)
            number = _number(keys[here], level, self.levels)
            at = np.searchsorted(units, number)
            found = np.flatnonzero(np.append(units, -1)[at] == number)
            unit[here[found]] = at[found]
        return depth, unit

    def geography(self, names: Mapping[int, str]) -> Geography:
        """As the attack wants it; ``names`` are those of the iteration codes."""
        units = tuple(tuple(self._label(number) for number in numbers.tolist()) for numbers in self.units)
        called = tuple(NAMES[level] for level in self.levels)
        code, level = np.divmod(self.units[0] // REGIONS, len(self.levels))
        shown = {
            "group": tuple(label.partition(":")[0] for label in units[0]),
            "group_name": tuple(names.get(each, "") for each in code.tolist()),
            "geolevel": tuple(called[each] for each in level.tolist()),
            "geocode": tuple(label.partition(":")[2] for label in units[0]),
        }
        return Geography(called, units, self.unit_of_block, shown)

    def _label(self, number: int) -> str:
        """``1002:44007``, the iteration code and the area."""
        place, area = divmod(number, REGIONS)
        code, level = divmod(place, len(self.levels))
        return f"{code:0{CODE_DIGITS}d}:{area:0{WIDTHS[self.levels[level]]}d}"


def _number(keys: Integers, level: int, levels: Sequence[str]) -> Integers:
    """For each group the number of the unit of a level that it lies in; of no use on finer levels than its own."""
    return (code_of(keys) * len(levels) + level) * REGIONS + area_within(keys, levels[level], levels)


def _sizes(numbers: Integers, counted: npt.NDArray[np.bool_]) -> Integers:
    """For each entry how many of those counted have the same number."""
    known, size = np.unique(numbers[counted], return_counts=True)
    at = np.searchsorted(known, numbers)
    return np.where(np.append(known, -1)[at] == numbers, np.append(size, 0)[at], 0)
