"""The frame of a unit of work: blocks with their housing, households and facilities, before anybody has an age.

What is public knowledge in a census is made first and from a stream of its own, so that the frame can be had without
the records, and is the same either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confide.population.blocks import BlockFrame, make_blocks
from confide.population.draw import UNIT_FRAME, Bools, Ints, stream
from confide.population.group_quarters import UnitFacilities, facilities_of, place_facilities
from confide.population.households import HouseholdKinds, Households, make_households
from confide.population.landscape import Land, Unit
from confide.population.neighbourhoods import BlockGroups, County
from confide.population.settings import Settings

BLOCKS_SCHEMA = pa.schema(
    [
        *(
            pa.field(name, pa.string(), nullable=False)
            for name in ("geocode", "state", "county", "tract", "block_group")
        ),
        pa.field("housing_units", pa.int32(), nullable=False),
        pa.field("occupied_units", pa.int32(), nullable=False),
        *(pa.field(f"gq{number}", pa.int32(), nullable=False) for number in range(1, 8)),
        *(pa.field(name, pa.string(), nullable=False) for name in ("place", "cousub", "aiannh")),
        pa.field("urban", pa.int8(), nullable=False),
        pa.field("x", pa.float64(), nullable=False),
        pa.field("y", pa.float64(), nullable=False),
    ]
)
"""Columns of the frame; ``state`` to ``block_group`` are the leading 2, 5, 11 and 12 digits of the geocode."""

_LEVELS = {"geocode": 15, "state": 2, "county": 5, "tract": 11, "block_group": 12}


@dataclass(frozen=True)
class UnitFrame:
    """Who lives where in a unit of work."""

    groups: BlockGroups
    blocks: BlockFrame
    vacant: Ints
    households: Households
    facilities: UnitFacilities

    def occupied(self) -> Ints:
        """The number of households of each block."""
        return np.bincount(self.households.block, minlength=len(self.blocks.geocode))


def make_frame(
    unit: Unit, land: Land, county: County, seed: int, settings: Settings, kinds: HouseholdKinds, own_blocks: Bools
) -> UnitFrame:
    """The frame of one unit of work."""
    first, last = np.searchsorted(county.block_groups.tract, [unit.first, unit.last]).tolist()
    groups = county.block_groups.part(first, last)
    where, types, persons = facilities_of(county, first, last)
    needs_empty = np.bincount(where, weights=own_blocks[types], minlength=last - first) > 0

    rng = stream(seed, UNIT_FRAME, unit.index)
    blocks = make_blocks(rng, land, county, groups, needs_empty, settings)
    households = make_households(rng, groups, blocks, kinds)
    facilities = place_facilities(rng, where, types, persons, blocks, own_blocks)
    occupied = np.bincount(households.block, minlength=len(blocks.geocode))
    rate = groups.vacancy[blocks.block_group]
    vacant = rng.poisson(occupied * rate / (1 - rate))
    # A block of homes that nobody lives in has one all the same.
    vacant[blocks.housing & (occupied + vacant == 0)] = 1
    return UnitFrame(groups, blocks, vacant, households, facilities)


def block_batch(frame: UnitFrame) -> pa.RecordBatch:
    """The frame as rows of :data:`BLOCKS_SCHEMA`, in the order of the geocodes."""
    blocks, facilities = frame.blocks, frame.facilities
    count = len(blocks.geocode)
    occupied = frame.occupied()
    held = np.bincount(facilities.block * 8 + facilities.type, minlength=count * 8).reshape(count, 8)
    text = {name: digits(blocks.geocode // 10 ** (15 - width), width) for name, width in _LEVELS.items()}
    text |= {"place": digits(blocks.place, 5), "cousub": digits(blocks.cousub, 5), "aiannh": digits(blocks.aiannh, 4)}
    numbers: dict[str, NDArray[Any]] = {
        "housing_units": occupied + frame.vacant,
        "occupied_units": occupied,
        **{f"gq{number}": held[:, number] for number in range(1, 8)},
        "urban": blocks.urban,
        "x": blocks.plane[:, 0],
        "y": blocks.plane[:, 1],
    }
    return pa.RecordBatch.from_arrays(
        [text[each.name] if each.name in text else column(numbers[each.name], each.type) for each in BLOCKS_SCHEMA],
        schema=BLOCKS_SCHEMA,
    )


def column(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Numbers as an Arrow column of the given type."""
    return pa.array(np.ascontiguousarray(values, dtype=kind.to_pandas_dtype()), type=kind)


def digits(numbers: Ints, width: int) -> pa.Array:
    """Numbers as text with leading zeros."""
    return pc.utf8_slice_codeunits(pa.array(numbers + 10**width).cast(pa.string()), 1)
