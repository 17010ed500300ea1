"""The records of a unit of work: people of households and of group quarters, in the order of their blocks.

Within a block, households come first and each is together, then the facilities. ``household_id`` rises along the file:
the unit's index times a million plus the number of the household or facility within the unit. People in group quarters
carry the id of their facility; ``hhgq`` says which it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.population.blocks import NO_AIANNH
from confide.population.draw import UNIT_PEOPLE, Chances, Floats, Ints, stream
from confide.population.frame import UnitFrame, column
from confide.population.group_quarters import GroupQuartersAges
from confide.population.landscape import Unit
from confide.population.people import ADULT, GROUP_QUARTERS, HOUSEHOLDER, PeopleMaker
from confide.population.settings import Settings

IDS_PER_UNIT = 1_000_000

PERSONS_SCHEMA = pa.schema(
    [
        pa.field("geocode", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("household_id", pa.int64(), nullable=False),
        *(
            pa.field(name, pa.int8(), nullable=False)
            for name in ("relationship", "age", "sex", "hhgq", "cenrace", "hispanic", "votingage")
        ),
    ]
)
"""Columns of the records. In a stream the geocode is a dictionary of text; in the written file it is text."""


class RecordMaker:
    """Makes the records of units of work; holds the tables made once from the settings."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._people = PeopleMaker(settings)
        self._quarters = GroupQuartersAges(settings)
        self._native = np.array([group.race == "aian" for group in settings.groups])

    def batch(
        self, unit: Unit, frame: UnitFrame, geocodes: pa.Array, county_mixture: Floats, seed: int
    ) -> pa.RecordBatch:
        """The records of a unit as rows of :data:`PERSONS_SCHEMA`."""
        rng = stream(seed, UNIT_PEOPLE, unit.index)
        mixture = Chances(np.exp(self._block_mixture(rng, frame)))
        people = self._people.people(rng, frame.households, frame.groups, mixture)
        quarters = self._quarters.people(rng, frame.facilities, np.log(county_mixture))
        facility = quarters.facility

        home = frame.households.block[people.household]
        where = np.searchsorted(home, frame.facilities.block[facility], side="right")

        def both(in_households: NDArray[Any], in_quarters: NDArray[Any] | int) -> NDArray[Any]:
            return _insert(in_households, where, in_quarters)

        block = both(home.astype(np.int32), frame.facilities.block[facility])
        origin = both(people.origin, self._people.origins_of(rng, quarters.group))
        age = both(people.age, quarters.age)
        first = both(people.relationship == HOUSEHOLDER, np.diff(facility, prepend=-1) != 0)
        number = np.cumsum(first, dtype=np.int64)
        assert number[-1] < IDS_PER_UNIT, "household ids of a unit must not run into the next unit's"
        values: dict[str, NDArray[Any]] = {
            "household_id": unit.index * IDS_PER_UNIT + number,
            "relationship": both(people.relationship, GROUP_QUARTERS),
            "age": age,
            "sex": 2 - both(people.male, quarters.male).astype(np.int8),
            "hhgq": both(np.zeros(len(home), dtype=np.int8), frame.facilities.type[facility]),
            "cenrace": origin >> 1,
            "hispanic": origin & 1,
            "votingage": age >= ADULT,
        }
        geocode = pa.DictionaryArray.from_arrays(pa.array(block), geocodes)
        rest = [column(values[each.name], each.type) for each in list(PERSONS_SCHEMA)[1:]]
        return pa.RecordBatch.from_arrays([geocode, *rest], schema=PERSONS_SCHEMA)

    def _block_mixture(self, rng: np.random.Generator, frame: UnitFrame) -> Floats:
        """Log weights of the groups by block: the block group's, a little varied; in an AIANNH area mostly AIAN."""
        mixture = frame.groups.log_mixture[frame.blocks.block_group]
        mixture += self._settings.neighbourhoods.block_spread * rng.standard_normal(mixture.shape)
        inside = frame.blocks.aiannh != NO_AIANNH
        mixture[np.ix_(inside, self._native)] += self._settings.areas.aiannh_boost
        return mixture


def _insert(values: NDArray[Any], where: Ints, inserted: NDArray[Any] | int) -> NDArray[Any]:
    """``values`` with ``inserted`` put before the elements at ``where`` (which must not fall), keeping the type."""
    return np.insert(values, where, np.asarray(inserted).astype(values.dtype))
