"""The people of households: relationship, age, sex, race and ethnicity, coherent within each household.

Everything is drawn for all households of a unit of work at once. The householder comes first; a partner is near in age
and mostly of the same group; a child is 18 to 42 years younger than the younger parent and has the race of one or both
(also of a parent who lives elsewhere); other relatives are parents, siblings or grandchildren of the householder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.arrays import Floats
from confide.lab.population.households import NO_AIANNH, GroupQuartersAges, Households, UnitFrame, column
from confide.lab.population.landscape import Unit
from confide.lab.population.neighbourhoods import BlockGroups
from confide.lab.population.origins import CODE_OF_MASK, MASK_OF_CODE, race_chances
from confide.lab.population.settings import UNIT_PEOPLE, Bools, Chances, Ints, PopulationSettings, starts_of, stream

HOUSEHOLDER, PARTNER, CHILD, RELATIVE, OTHER, GROUP_QUARTERS = range(6)
"""The codes of ``relationship``."""

ADULT = 18


@dataclass(frozen=True)
class HouseholdPeople:
    """One element for each person in a household. ``origin`` is 2 x cenrace + hispanic."""

    household: NDArray[np.int32]
    relationship: NDArray[np.int8]
    age: NDArray[np.int16]
    male: Bools
    origin: NDArray[np.uint8]


class PeopleMaker:
    """Draws the people of households; holds the tables made once from the settings."""

    def __init__(self, settings: PopulationSettings):
        self._rules = settings.households
        kinds = settings.household_kinds
        self._couple = np.array([kind.couple for kind in kinds])
        self._ages = np.array([kind.ages for kind in kinds])
        self._male = np.array([kind.male for kind in kinds])
        self._roles = Chances([kind.members for kind in kinds])
        self._relatives = Chances([list(settings.households.relatives.model_dump().values())])
        self._bands = np.array(settings.ages.bands)
        self._widths = np.diff(self._bands)
        self._open_band_years = settings.ages.open_band_years
        self._oldest = settings.ages.oldest
        self._races = race_chances(settings.groups)
        self._hispanic = np.array([group.hispanic for group in settings.groups])
        self._marry_out = np.array([group.marry_out for group in settings.groups])

    def people(
        self, rng: np.random.Generator, households: Households, groups: BlockGroups, mixture: Chances
    ) -> HouseholdPeople:
        """The people of ``households``; ``mixture`` gives the groups of each block."""
        count = len(households.size)
        couple = self._couple[households.kind]
        age, male = self._householders(rng, households, groups)
        partner_age, partner_male = self._partners(rng, age, male)
        origins = self._origins(rng, households.block, mixture)

        household = np.repeat(np.arange(count, dtype=np.int32), households.size)
        relationship = self._relationships(rng, households, couple, household)
        person_age = np.empty(len(household), dtype=np.int16)
        person_male = np.empty(len(household), dtype=np.bool_)
        first = starts_of(households.size)
        person_age[first], person_male[first] = age, male
        second = first[couple] + 1
        person_age[second], person_male[second] = partner_age[couple], partner_male[couple]
        origin = origins[relationship, household]

        child = np.flatnonzero(relationship == CHILD)
        younger = np.where(couple, np.minimum(age, partner_age), age)
        person_age[child] = self._children(rng, younger[household[child]])
        person_male[child] = rng.random(len(child), dtype=np.float32) < self._rules.boys

        for code, ages, alike in (
            (RELATIVE, self._relative_ages, self._rules.relative_like_householder),
            (OTHER, self._other_ages, self._rules.other_like_householder),
        ):
            some = np.flatnonzero(relationship == code)
            person_age[some] = ages(rng, age[household[some]])
            person_male[some] = rng.random(len(some), dtype=np.float32) < 0.5
            unlike = some[rng.random(len(some), dtype=np.float32) >= alike]
            origin[unlike] = self.origins_of(rng, mixture.draw(rng, households.block[household[unlike]]))
        return HouseholdPeople(household, relationship, person_age, person_male, origin)

    def origins_of(self, rng: np.random.Generator, group: Ints) -> NDArray[np.uint8]:
        """Race and ethnicity of persons of these groups, as 2 x cenrace + hispanic."""
        result: NDArray[np.uint8] = (2 * self._races.draw(rng, group) + self._hispanic[group]).astype(np.uint8)
        return result

    def _householders(
        self, rng: np.random.Generator, households: Households, groups: BlockGroups
    ) -> tuple[Ints, Bools]:
        """Age and sex: the age from the bands of the kind, tilted to older ages in older neighbourhoods."""
        kinds, bands = self._ages.shape
        tilt = np.exp(groups.older[:, None] * ((self._bands - 50) / 25)[None, :])
        table = Chances((tilt[:, None, :] * self._ages[None, :, :]).reshape(-1, bands))
        band = table.draw(rng, households.block_group * kinds + households.kind)
        within = rng.random(len(band))
        widths = np.append(self._widths, 1)
        age = self._bands[band] + (within * widths[band]).astype(np.int64)
        last = np.flatnonzero(band == bands - 1)
        age[last] += rng.exponential(self._open_band_years, len(last)).astype(np.int64)
        np.minimum(age, self._oldest, out=age)
        male = rng.random(len(age), dtype=np.float32) < self._male[households.kind, band]
        return age, male

    def _partners(self, rng: np.random.Generator, age: Ints, male: Bools) -> tuple[Ints, Bools]:
        """A partner for every householder, used where there is one: near in age, the husband a little older."""
        rules = self._rules
        gap = rng.normal(0.0, rules.spouse_gap_spread, len(age)) + np.where(male, -rules.spouse_gap, rules.spouse_gap)
        partner = _adult(age + np.rint(gap).astype(np.int64), self._oldest)
        opposite = rng.random(len(age), dtype=np.float32) < rules.spouse_opposite_sex
        return partner, male ^ opposite

    def _origins(self, rng: np.random.Generator, block: Ints, mixture: Chances) -> NDArray[np.uint8]:
        """Race and ethnicity by relationship (rows) and household: householder, partner or other parent, child, ..."""
        rules = self._rules
        group = mixture.draw(rng, block)
        first = self.origins_of(rng, group)
        outside = rng.random(len(group), dtype=np.float32) < self._marry_out[group]
        redrawn = np.flatnonzero(outside | (rng.random(len(group), dtype=np.float32) >= rules.same_race_spouse))
        second_group = group[redrawn]
        mixed = outside[redrawn]
        second_group[mixed] = mixture.draw(rng, block[redrawn[mixed]])
        second = first.copy()
        second[redrawn] = self.origins_of(rng, second_group)

        child = first.copy()
        differ = np.flatnonzero(first != second)
        mine, other = first[differ], second[differ]
        both = CODE_OF_MASK[MASK_OF_CODE[mine >> 1] | MASK_OF_CODE[other >> 1]]
        point = rng.random(len(differ))
        union, householders = rules.mixed_children
        race = np.where(point < union, both, np.where(point < union + householders, mine >> 1, other >> 1))
        either = (mine | other) & 1 & (rng.random(len(differ)) < rules.mixed_hispanic)
        child[differ] = 2 * race + (either | (mine & other & 1))
        return np.stack([first, second, child, first, first])

    def _relationships(
        self, rng: np.random.Generator, households: Households, couple: Bools, household: NDArray[np.int32]
    ) -> NDArray[np.int8]:
        """Householder, partner if a couple, and the others by the kind of household."""
        result = np.full(len(household), -1, dtype=np.int8)
        first = starts_of(households.size)
        result[first] = HOUSEHOLDER
        result[first[couple] + 1] = PARTNER
        undecided = np.flatnonzero(result < 0)
        result[undecided] = CHILD + self._roles.draw(rng, households.kind[household[undecided]])
        return result

    def _children(self, rng: np.random.Generator, parent: Ints) -> Ints:
        """Ages of children of parents of this age (the younger of the two)."""
        rules = self._rules
        least = np.maximum(0, parent - rules.child_oldest_parent)
        most = parent - rules.child_youngest_parent
        age = least + (rng.random(len(parent)) * (most - least + 1)).astype(np.int64)
        grown = np.flatnonzero((age >= rules.leaving_age) & (least < rules.leaving_age - 5))
        gone = np.minimum((age[grown] - rules.leaving_age + 1) / rules.leaving_years, 1.0) * rules.children_left
        moved_out = grown[rng.random(len(grown)) < gone]
        age[moved_out] = least[moved_out] + (
            rng.random(len(moved_out)) * (rules.leaving_age - least[moved_out])
        ).astype(np.int64)
        return age

    def _relative_ages(self, rng: np.random.Generator, householder: Ints) -> Ints:
        """Ages of parents, siblings and grandchildren; who is too old for a parent at home has a sibling there."""
        role = self._relatives.draw_many(rng, len(householder))
        role[(role == 0) & (householder > self._rules.parent_at_home_until)] = 1
        point = rng.random(len(householder))
        parent = householder + self._rules.child_youngest_parent + (point * 22).astype(np.int64)
        sibling = np.maximum(householder + np.rint(16 * point - 8).astype(np.int64), 10)
        # A young householder has no grandchildren but may have nieces and nephews: any minor will do.
        grandchild = (point * np.clip(householder - 36, 16, 26)).astype(np.int64)
        age: Ints = np.minimum(np.choose(role, [parent, sibling, grandchild]), self._oldest)
        return age

    def _other_ages(self, rng: np.random.Generator, householder: Ints) -> Ints:
        """Ages of non-relatives: adults near the householder's age, now and then a minor."""
        near = householder + np.rint(rng.normal(0.0, self._rules.other_age_spread, len(householder))).astype(np.int64)
        minor = (rng.random(len(householder)) * ADULT).astype(np.int64)
        is_minor = rng.random(len(householder)) < self._rules.other_minors
        return np.where(is_minor, minor, _adult(near, self._oldest))


def _adult(age: Ints, oldest: int) -> Ints:
    """Ages reflected at 18, so that nobody is a minor and nothing piles up there, and cut at the oldest."""
    result: Ints = np.minimum(ADULT + np.abs(age - ADULT), oldest)
    return result


# The records of a unit of work: people of households and of group quarters, in the order of their blocks.
#
# Within a block, households come first and each is together, then the facilities. ``household_id`` rises along the
# file: the unit's index times a million plus the number of the household or facility within the unit. People in group
# quarters carry the id of their facility; ``hhgq`` says which it is.


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

    def __init__(self, settings: PopulationSettings):
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
        columns = [column(values[each.name], each.type) for each in list(PERSONS_SCHEMA)[1:]]
        return pa.RecordBatch.from_arrays([geocode, *columns], schema=PERSONS_SCHEMA)

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
