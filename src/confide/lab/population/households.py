"""Households: how many, of which kind and size, in which block.

A block group has an exact number of persons in households. Households are drawn one after the other, each with a kind
and a size from the block group's own distribution, until the persons are used up; the last one takes what is left. They
are then dealt to the blocks with housing in proportion to the blocks' weights. So totals are exact, and one household
in some five hundred is smaller than it was drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confide.arrays import Floats
from confide.lab.population import settings as population_settings
from confide.lab.population.neighbourhoods import BlockGroups, County, Land, Unit, density_at, to_plane
from confide.lab.population.origins import CODE_OF_MASK, MASK_OF_CODE, race_chances


@dataclass(frozen=True)
class Households:
    """Households in the order of their blocks; indices count from the unit's first."""

    block: population_settings.Ints
    block_group: population_settings.Ints
    kind: population_settings.Ints
    size: population_settings.Ints


class HouseholdKinds:
    """The joint weights of kind and size, made once from the settings."""

    def __init__(self, settings: population_settings.PopulationSettings):
        sizes = np.array(settings.households.sizes)
        shares = np.array([kind.share for kind in settings.household_kinds])
        joint = sizes / sizes.sum() * shares / shares.sum(axis=0)
        kind, size = np.nonzero(joint)
        self.kind: population_settings.Ints = kind
        self.size: population_settings.Ints = size + 1
        self._weight = joint[kind, size]
        self._older_smaller = settings.households.older_smaller
        self.couple: population_settings.Bools = np.array([each.couple for each in settings.household_kinds])
        self._fitting = self._fitting_kinds(joint)

    @staticmethod
    def _fitting_kinds(joint: Floats) -> population_settings.Ints:
        """The kind of a household cut down to a size: its own where the size has it, else the likeliest."""
        kinds = np.repeat(np.arange(len(joint))[:, None], population_settings.HOUSEHOLD_SIZES, axis=1)
        return np.where(joint > 0, kinds, np.argmax(joint, axis=0)[None, :])

    def weights(self, groups: BlockGroups) -> Floats:
        """The weight of each (kind, size) in each block group: larger households where it is younger."""
        tilt = groups.larger - self._older_smaller * groups.older
        result: Floats = self._weight * np.exp(tilt[:, None] * (self.size - 2.5)[None, :])
        return result

    def fitted(self, kind: population_settings.Ints, size: population_settings.Ints) -> population_settings.Ints:
        """The kinds of households whose size was changed."""
        result: population_settings.Ints = self._fitting[kind, size - 1]
        return result


def make_households(
    rng: np.random.Generator, groups: BlockGroups, blocks: BlockFrame, kinds: HouseholdKinds
) -> Households:
    """The households of some block groups; their sizes add up to the persons of each block group."""
    weights = kinds.weights(groups)
    mean = (weights @ kinds.size) / weights.sum(axis=1)
    # Enough candidates that they hardly ever run out; if they do, persons alone make up the rest.
    candidates = (1.12 * groups.persons / mean).astype(np.int64) + 40
    group = np.repeat(np.arange(len(candidates)), candidates)
    drawn = population_settings.Chances(weights).draw(rng, group)
    kind, size = kinds.kind[drawn], kinds.size[drawn]

    running = np.cumsum(size)
    before = running - size
    before -= np.repeat(before[population_settings.starts_of(candidates)], candidates)
    remaining = groups.persons[group] - before
    used = remaining > 0
    cut = used & (size > remaining)
    size[cut] = remaining[cut]
    kind[cut] = kinds.fitted(kind[cut], size[cut])
    group, kind, size = group[used], kind[used], size[used]

    missing = groups.persons - np.bincount(group, weights=size, minlength=len(mean)).astype(np.int64)
    if missing.any():
        extra = np.repeat(np.arange(len(mean)), missing)
        group = np.concatenate([group, extra])
        order = np.argsort(group, kind="stable")
        group = group[order]
        kind = np.concatenate([kind, np.zeros_like(extra)])[order]
        size = np.concatenate([size, np.ones_like(extra)])[order]
    return Households(_deal(group, blocks, len(mean)), group, kind, size)


def _deal(group: population_settings.Ints, blocks: BlockFrame, groups: int) -> population_settings.Ints:
    """A block with housing for each household, within its block group, by cumulative weight."""
    housing = np.flatnonzero(blocks.housing)
    counts = np.bincount(blocks.block_group[housing], minlength=groups)
    _, upper = population_settings.cumulative_shares(blocks.weight[housing], counts)
    households = np.bincount(group, minlength=groups)
    rank = np.arange(len(group)) - population_settings.starts_of(households)[group]
    where = (rank + 0.5) / households[group]
    place = np.searchsorted(blocks.block_group[housing] + upper, group + where, side="right")
    result: population_settings.Ints = housing[
        np.minimum(place, (population_settings.starts_of(counts) + counts - 1)[group])
    ]
    return result


# Group quarters: facilities put into blocks, and the people who live in them.
#
# Ages follow the type: nobody under 18 in a nursing or correctional facility, only minors in a juvenile one, students
# and soldiers from 17. Large facilities (prisons, student housing, barracks) are in blocks without housing, the
# others among homes. The settings give the ages; the structural zeros follow from them.


@dataclass(frozen=True)
class UnitFacilities:
    """Facilities of a unit of work in the order of their blocks; indices count from the unit's first."""

    block: population_settings.Ints
    type: population_settings.Ints
    persons: population_settings.Ints


@dataclass(frozen=True)
class GroupQuartersPeople:
    """One element for each person in group quarters, in the order of the facilities."""

    facility: population_settings.Ints
    age: population_settings.Ints
    male: population_settings.Bools
    group: population_settings.Ints


def own_blocks(settings: population_settings.PopulationSettings) -> population_settings.Bools:
    """By type 0 to 7: whether facilities stand away from housing. Type 0 is a household and does not."""
    return np.array([False, *(quarters.own_block for quarters in settings.group_quarters)])


def facilities_of(
    county: County, first: int, last: int
) -> tuple[population_settings.Ints, population_settings.Ints, population_settings.Ints]:
    """Block group (counted from ``first``), type and persons of the facilities of a run of block groups."""
    here = (county.facility_block_group >= first) & (county.facility_block_group < last)
    return county.facility_block_group[here] - first, county.facility_type[here], county.facility_persons[here]


def place_facilities(
    rng: np.random.Generator,
    block_group: population_settings.Ints,
    types: population_settings.Ints,
    persons: population_settings.Ints,
    blocks: BlockFrame,
    own: population_settings.Bools,
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

    def __init__(self, settings: population_settings.PopulationSettings):
        ages = np.zeros((8, 116))
        ages[0, 0] = 1.0  # households have no row of their own; the row is never drawn
        for number, quarters in enumerate(settings.group_quarters, start=1):
            for low, high, weight in quarters.ages:
                ages[number, low : high + 1] += weight / (high - low + 1)
        self._ages = population_settings.Chances(ages)
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
            group=population_settings.Chances(np.exp(varied)).draw(rng, facility),
        )


# The frame of a unit of work: blocks with their housing, households and facilities, before anybody has an age.
#
# What is public knowledge in a census is made first and from a stream of its own, so that the frame can be had
# without the records, and is the same either way.


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
    vacant: population_settings.Ints
    households: Households
    facilities: UnitFacilities

    def occupied(self) -> population_settings.Ints:
        """The number of households of each block."""
        return np.bincount(self.households.block, minlength=len(self.blocks.geocode))


def make_frame(
    unit: Unit,
    land: Land,
    county: County,
    seed: int,
    settings: population_settings.PopulationSettings,
    kinds: HouseholdKinds,
    own_blocks: population_settings.Bools,
) -> UnitFrame:
    """The frame of one unit of work."""
    first, last = np.searchsorted(county.block_groups.tract, [unit.first, unit.last]).tolist()
    groups = county.block_groups.part(first, last)
    where, types, persons = facilities_of(county, first, last)
    needs_empty = np.bincount(where, weights=own_blocks[types], minlength=last - first) > 0

    rng = population_settings.stream(seed, population_settings.UNIT_FRAME, unit.index)
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


DTYPES = {"bool": "?", "double": "f8", "float": "f4"} | {f"int{bits}": f"i{bits // 8}" for bits in (8, 16, 32, 64)}
"""What NumPy calls the types of columns."""


def column(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Numbers as an Arrow column of the given type."""
    # Not ``kind.to_pandas_dtype()``: older versions of pyarrow import pandas for it, which is not needed otherwise.
    return pa.array(np.ascontiguousarray(values, dtype=DTYPES[str(kind)]), type=kind)


def digits(numbers: population_settings.Ints, width: int) -> pa.Array:
    """Numbers as text with leading zeros."""
    return pc.utf8_slice_codeunits(pa.array(numbers + 10**width).cast(pa.string()), 1)


# Blocks of a unit of work: codes, places on the plane, and the off-spine areas they lie in.
#
# Some blocks have housing, in skewed amounts, many have none. Places are discs in people space, county subdivisions
# the
# neighbourhoods of random points, AIANNH areas squares: all of them geometry laid over the blocks, so that they cross
# tracts and block groups as the real ones do.


NO_PLACE = 99999
NO_AIANNH = 9999
PLACE_STEP = 5
BLOCKS_AT_MOST = 999
DISTANCES_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class BlockFrame:
    """Blocks in the order of their geocodes. ``block_group`` counts from the unit's first."""

    geocode: population_settings.Ints
    block_group: population_settings.Ints
    housing: population_settings.Bools
    weight: Floats
    place: population_settings.Ints
    cousub: population_settings.Ints
    aiannh: population_settings.Ints
    urban: population_settings.Bools
    plane: Floats


def make_blocks(
    rng: np.random.Generator,
    land: Land,
    county: County,
    groups: BlockGroups,
    needs_empty: population_settings.Bools,
    settings: population_settings.PopulationSettings,
) -> BlockFrame:
    """The blocks of some block groups of a county; one without housing at least where ``needs_empty``."""
    rules = settings.blocks
    typical = np.where(groups.urban, rules.persons_urban, rules.persons_rural)
    empty_rate = np.where(groups.urban, rules.empty_urban, rules.empty_rural)
    with_housing = np.clip(rng.poisson(groups.persons / typical), 1, BLOCKS_AT_MOST // 2)
    without = np.clip(rng.poisson(with_housing * empty_rate), needs_empty, BLOCKS_AT_MOST // 2)
    counts = with_housing + without
    group = np.repeat(np.arange(len(counts)), counts)
    rank = population_settings.positions(counts)

    # A random order within each block group: the first ones of it have housing.
    shuffled = np.argsort(group + rng.random(len(group)), kind="stable")
    housing = np.zeros(len(group), dtype=np.bool_)
    housing[shuffled] = rank < with_housing[group]

    point = _scatter(rng, groups.corner[group], rank, counts[group])
    index = county.index
    kind = settings.county_kinds[int(land.kind[index])]
    prefix = (int(land.state[index]) * 1000 + int(land.code[index])) * 10**6 + (groups.tract + 1) * 100
    centre = np.array([land.origin_x[index], land.origin_y[index]])
    return BlockFrame(
        geocode=prefix[group] * 10**4 + groups.number[group] * 1000 + rank,
        block_group=group,
        housing=housing,
        weight=population_settings.spread_out(rng, rules.spread, len(group)),
        place=_places(point, county, int(land.first_place[index])),
        cousub=_cousubs(point, county, int(land.first_cousub[index])),
        aiannh=_aiannh(point, county),
        urban=density_at(point, kind.density, rules.core) >= rules.urban_density,
        plane=np.round(centre + to_plane(point, float(land.side[index]), rules.core), 3),
    )


def _scatter(
    rng: np.random.Generator, corner: Floats, rank: population_settings.Ints, count: population_settings.Ints
) -> Floats:
    """A point in each block: the blocks of a group are on a jittered grid in its rectangle."""
    columns = np.ceil(np.sqrt(count))
    rows = np.ceil(count / columns)
    jitter = 0.15 + 0.7 * rng.random((len(rank), 2))
    across = (rank % columns + jitter[:, 0]) / columns
    down = (rank // columns + jitter[:, 1]) / rows
    low, high = corner[:, :2], corner[:, 2:]
    return low + np.column_stack([across, down]) * (high - low)


def _squared_distances(point: Floats, centre: Floats) -> Floats:
    gap = point[:, None, :] - centre[None, :, :]
    result: Floats = np.einsum("ijk,ijk->ij", gap, gap)
    return result


def _nearest(point: Floats, centre: Floats, radius: Floats) -> tuple[population_settings.Ints, Floats]:
    """The centre at the smallest distance in units of its radius, and that distance squared."""
    best = np.empty(len(point), dtype=np.int64)
    distance = np.empty(len(point))
    # In parts, to bound memory: a large county has a thousand places.
    step = max(1, DISTANCES_AT_ONCE // len(centre))
    for first in range(0, len(point), step):
        scaled = _squared_distances(point[first : first + step], centre) / radius**2
        best[first : first + step] = np.argmin(scaled, axis=1)
        distance[first : first + step] = scaled[np.arange(len(scaled)), best[first : first + step]]
    return best, distance


def _places(point: Floats, county: County, first: int) -> population_settings.Ints:
    best, distance = _nearest(point, county.place_centre, county.place_radius)
    return np.where(distance < 1, 100 + PLACE_STEP * (first + best), NO_PLACE)


def _cousubs(point: Floats, county: County, first: int) -> population_settings.Ints:
    best, _ = _nearest(point, county.cousub_centre, np.ones(len(county.cousub_centre)))
    return 50 + PLACE_STEP * (first + best)


def _aiannh(point: Floats, county: County) -> population_settings.Ints:
    result = np.full(len(point), NO_AIANNH, dtype=np.int64)
    for corner, code in zip(county.aiannh_corner[::-1], county.aiannh_code[::-1].tolist(), strict=True):
        inside = np.all((point >= corner[:2]) & (point < corner[2:]), axis=1)
        result[inside] = code
    return result


# The people of households: relationship, age, sex, race and ethnicity, coherent within each household.
#
# Everything is drawn for all households of a unit of work at once. The householder comes first; a partner is near in
# age and mostly of the same group; a child is 18 to 42 years younger than the younger parent and has the race of one or
# both (also of a parent who lives elsewhere); other relatives are parents, siblings or grandchildren of the
# householder.


HOUSEHOLDER, PARTNER, CHILD, RELATIVE, OTHER, GROUP_QUARTERS = range(6)
"""The codes of ``relationship``."""

ADULT = 18


@dataclass(frozen=True)
class HouseholdPeople:
    """One element for each person in a household. ``origin`` is 2 x cenrace + hispanic."""

    household: NDArray[np.int32]
    relationship: NDArray[np.int8]
    age: NDArray[np.int16]
    male: population_settings.Bools
    origin: NDArray[np.uint8]


class PeopleMaker:
    """Draws the people of households; holds the tables made once from the settings."""

    def __init__(self, settings: population_settings.PopulationSettings):
        self._rules = settings.households
        kinds = settings.household_kinds
        self._couple = np.array([kind.couple for kind in kinds])
        self._ages = np.array([kind.ages for kind in kinds])
        self._male = np.array([kind.male for kind in kinds])
        self._roles = population_settings.Chances([kind.members for kind in kinds])
        self._relatives = population_settings.Chances([list(settings.households.relatives.model_dump().values())])
        self._bands = np.array(settings.ages.bands)
        self._widths = np.diff(self._bands)
        self._open_band_years = settings.ages.open_band_years
        self._oldest = settings.ages.oldest
        self._races = race_chances(settings.groups)
        self._hispanic = np.array([group.hispanic for group in settings.groups])
        self._marry_out = np.array([group.marry_out for group in settings.groups])

    def people(
        self,
        rng: np.random.Generator,
        households: Households,
        groups: BlockGroups,
        mixture: population_settings.Chances,
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
        first = population_settings.starts_of(households.size)
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

    def origins_of(self, rng: np.random.Generator, group: population_settings.Ints) -> NDArray[np.uint8]:
        """Race and ethnicity of persons of these groups, as 2 x cenrace + hispanic."""
        result: NDArray[np.uint8] = (2 * self._races.draw(rng, group) + self._hispanic[group]).astype(np.uint8)
        return result

    def _householders(
        self, rng: np.random.Generator, households: Households, groups: BlockGroups
    ) -> tuple[population_settings.Ints, population_settings.Bools]:
        """Age and sex: the age from the bands of the kind, tilted to older ages in older neighbourhoods."""
        kinds, bands = self._ages.shape
        tilt = np.exp(groups.older[:, None] * ((self._bands - 50) / 25)[None, :])
        table = population_settings.Chances((tilt[:, None, :] * self._ages[None, :, :]).reshape(-1, bands))
        band = table.draw(rng, households.block_group * kinds + households.kind)
        within = rng.random(len(band))
        widths = np.append(self._widths, 1)
        age = self._bands[band] + (within * widths[band]).astype(np.int64)
        last = np.flatnonzero(band == bands - 1)
        age[last] += rng.exponential(self._open_band_years, len(last)).astype(np.int64)
        np.minimum(age, self._oldest, out=age)
        male = rng.random(len(age), dtype=np.float32) < self._male[households.kind, band]
        return age, male

    def _partners(
        self, rng: np.random.Generator, age: population_settings.Ints, male: population_settings.Bools
    ) -> tuple[population_settings.Ints, population_settings.Bools]:
        """A partner for every householder, used where there is one: near in age, the husband a little older."""
        rules = self._rules
        gap = rng.normal(0.0, rules.spouse_gap_spread, len(age)) + np.where(male, -rules.spouse_gap, rules.spouse_gap)
        partner = _adult(age + np.rint(gap).astype(np.int64), self._oldest)
        opposite = rng.random(len(age), dtype=np.float32) < rules.spouse_opposite_sex
        return partner, male ^ opposite

    def _origins(
        self, rng: np.random.Generator, block: population_settings.Ints, mixture: population_settings.Chances
    ) -> NDArray[np.uint8]:
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
        self,
        rng: np.random.Generator,
        households: Households,
        couple: population_settings.Bools,
        household: NDArray[np.int32],
    ) -> NDArray[np.int8]:
        """Householder, partner if a couple, and the others by the kind of household."""
        result = np.full(len(household), -1, dtype=np.int8)
        first = population_settings.starts_of(households.size)
        result[first] = HOUSEHOLDER
        result[first[couple] + 1] = PARTNER
        undecided = np.flatnonzero(result < 0)
        result[undecided] = CHILD + self._roles.draw(rng, households.kind[household[undecided]])
        return result

    def _children(self, rng: np.random.Generator, parent: population_settings.Ints) -> population_settings.Ints:
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

    def _relative_ages(
        self, rng: np.random.Generator, householder: population_settings.Ints
    ) -> population_settings.Ints:
        """Ages of parents, siblings and grandchildren; who is too old for a parent at home has a sibling there."""
        role = self._relatives.draw_many(rng, len(householder))
        role[(role == 0) & (householder > self._rules.parent_at_home_until)] = 1
        point = rng.random(len(householder))
        parent = householder + self._rules.child_youngest_parent + (point * 22).astype(np.int64)
        sibling = np.maximum(householder + np.rint(16 * point - 8).astype(np.int64), 10)
        # A young householder has no grandchildren but may have nieces and nephews: any minor will do.
        grandchild = (point * np.clip(householder - 36, 16, 26)).astype(np.int64)
        age: population_settings.Ints = np.minimum(np.choose(role, [parent, sibling, grandchild]), self._oldest)
        return age

    def _other_ages(self, rng: np.random.Generator, householder: population_settings.Ints) -> population_settings.Ints:
        """Ages of non-relatives: adults near the householder's age, now and then a minor."""
        near = householder + np.rint(rng.normal(0.0, self._rules.other_age_spread, len(householder))).astype(np.int64)
        minor = (rng.random(len(householder)) * ADULT).astype(np.int64)
        is_minor = rng.random(len(householder)) < self._rules.other_minors
        return np.where(is_minor, minor, _adult(near, self._oldest))


def _adult(age: population_settings.Ints, oldest: int) -> population_settings.Ints:
    """Ages reflected at 18, so that nobody is a minor and nothing piles up there, and cut at the oldest."""
    result: population_settings.Ints = np.minimum(ADULT + np.abs(age - ADULT), oldest)
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

    def __init__(self, settings: population_settings.PopulationSettings):
        self._settings = settings
        self._people = PeopleMaker(settings)
        self._quarters = GroupQuartersAges(settings)
        self._native = np.array([group.race == "aian" for group in settings.groups])

    def batch(
        self, unit: Unit, frame: UnitFrame, geocodes: pa.Array, county_mixture: Floats, seed: int
    ) -> pa.RecordBatch:
        """The records of a unit as rows of :data:`PERSONS_SCHEMA`."""
        rng = population_settings.stream(seed, population_settings.UNIT_PEOPLE, unit.index)
        mixture = population_settings.Chances(np.exp(self._block_mixture(rng, frame)))
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


def _insert(values: NDArray[Any], where: population_settings.Ints, inserted: NDArray[Any] | int) -> NDArray[Any]:
    """``values`` with ``inserted`` put before the elements at ``where`` (which must not fall), keeping the type."""
    return np.insert(values, where, np.asarray(inserted).astype(values.dtype))
