"""Group quarters: facilities put into blocks, and the people who live in them.

Ages follow the type: nobody under 18 in a nursing or correctional facility, only minors in a juvenile one, students
and soldiers from 17. Large facilities (prisons, student housing, barracks) stand in blocks without housing, the others
among homes. The settings give the ages; the structural zeros follow from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confide.population.blocks import BlockFrame
from confide.population.draw import Bools, Chances, Floats, Ints
from confide.population.neighbourhoods import County
from confide.population.settings import Settings


@dataclass(frozen=True)
class UnitFacilities:
    """Facilities of a unit of work in the order of their blocks; indices count from the unit's first."""

    block: Ints
    type: Ints
    persons: Ints


@dataclass(frozen=True)
class GroupQuartersPeople:
    """One element for each person in group quarters, in the order of the facilities."""

    facility: Ints
    age: Ints
    male: Bools
    group: Ints


def own_blocks(settings: Settings) -> Bools:
    """By type 0 to 7: whether facilities stand away from housing. Type 0 is a household and does not."""
    return np.array([False, *(quarters.own_block for quarters in settings.group_quarters)])


def facilities_of(county: County, first: int, last: int) -> tuple[Ints, Ints, Ints]:
    """Block group (counted from ``first``), type and persons of the facilities of a run of block groups."""
    here = (county.facility_block_group >= first) & (county.facility_block_group < last)
    return county.facility_block_group[here] - first, county.facility_type[here], county.facility_persons[here]


def place_facilities(
    rng: np.random.Generator, block_group: Ints, types: Ints, persons: Ints, blocks: BlockFrame, own: Bools
) -> UnitFacilities:
    """A block for each facility: one without housing if it stands on its own, else one with housing."""
    order = np.argsort(blocks.block_group * 2 + blocks.housing, kind="stable")
    key = (blocks.block_group * 2 + blocks.housing)[order]
    wanted = block_group * 2 + ~own[types]
    low = np.searchsorted(key, wanted, side="left")
    high = np.searchsorted(key, wanted, side="right")
    block = order[low + (rng.random(len(wanted)) * (high - low)).astype(np.int64)]
    sorting = np.lexsort((types, block))
    return UnitFacilities(block[sorting], types[sorting], persons[sorting])


class GroupQuartersAges:
    """The ages and sexes of each type, made once from the settings."""

    def __init__(self, settings: Settings):
        ages = np.zeros((8, 116))
        ages[0, 0] = 1.0  # households have no row of their own; the row is never drawn
        for number, quarters in enumerate(settings.group_quarters, start=1):
            for low, high, weight in quarters.ages:
                ages[number, low : high + 1] += weight / (high - low + 1)
        self._ages = Chances(ages)
        self._spread = settings.neighbourhoods.facility_spread
        self._male = np.array([0.0, *(quarters.male for quarters in settings.group_quarters)])

    def people(self, rng: np.random.Generator, facilities: UnitFacilities, log_mixture: Floats) -> GroupQuartersPeople:
        """The people of the facilities; their groups are the county's mixture, varying between facilities."""
        facility = np.repeat(np.arange(len(facilities.type)), facilities.persons)
        if not len(facility):
            nobody = np.zeros(0, dtype=np.int64)
            return GroupQuartersPeople(nobody, nobody, np.zeros(0, dtype=np.bool_), nobody)
        types = facilities.type[facility]
        varied = log_mixture + self._spread * rng.standard_normal((len(facilities.type), len(log_mixture)))
        return GroupQuartersPeople(
            facility=facility,
            age=self._ages.draw(rng, types),
            male=rng.random(len(types)) < self._male[types],
            group=Chances(np.exp(varied)).draw(rng, facility),
        )
