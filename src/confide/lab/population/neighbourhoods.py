"""Neighbourhoods of a county: tracts and block groups, and what their people are like.

A county is a unit square in which people are spread evenly ("people space"): tracts are rectangles of area in
proportion to their persons, cut by repeated bisection in the order of their codes, and block groups are strips of them.
The map to the plane stretches the edge, so that the middle is dense. Composition is logistic-normal: the log weight of
group g in a tract is that of the county's kind plus a spread times a field that is partly smooth over the county (a sum
of cosines of random direction) and partly the tract's own; block groups vary around their tract. The spreads are what
makes places as segregated as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confide.arrays import Floats
from confide.errors import SpecError
from confide.lab.population import settings as population_settings

RAKING_STEPS = 4


@dataclass(frozen=True)
class BlockGroups:
    """Block groups of a county (or a run of them). ``corner`` has columns u0, v0, u1, v1 in people space."""

    tract: population_settings.Ints
    number: population_settings.Ints
    persons: population_settings.Ints
    corner: Floats
    log_mixture: Floats
    older: Floats
    larger: Floats
    urban: population_settings.Bools
    vacancy: Floats

    def part(self, first: int, last: int) -> BlockGroups:
        """Those from ``first`` to ``last`` (exclusive)."""
        return BlockGroups(**{name: values[first:last] for name, values in vars(self).items()})


@dataclass(frozen=True)
class County:
    """One county with its neighbourhoods, off-spine areas and the block groups of its facilities."""

    index: int
    block_groups: BlockGroups
    place_centre: Floats
    place_radius: Floats
    cousub_centre: Floats
    aiannh_corner: Floats
    aiannh_code: population_settings.Ints
    facility_type: population_settings.Ints
    facility_persons: population_settings.Ints
    facility_block_group: population_settings.Ints


def make_county(land: Land, index: int, seed: int, settings: population_settings.PopulationSettings) -> County:
    """The county with this index: a function of the seed and the land alone."""
    rng = population_settings.stream(seed, population_settings.COUNTY, index)
    block_groups = _block_groups(rng, land, index, settings)
    areas = settings.areas

    places = int(land.places[index])
    share = population_settings.spread_out(rng, areas.place_spread, places)
    share = -np.sort(-share / share.sum())
    place_centre = rng.random((places, 2))
    place_centre[0] = 0.5  # the largest place is in the middle
    here = land.aiannh.county == index
    side = np.sqrt(land.aiannh.share[here])
    corner = rng.random((len(side), 2)) * (1 - side)[:, None]

    held = land.facilities.county == index
    types, persons = land.facilities.type[held], land.facilities.persons[held]
    return County(
        index=index,
        block_groups=block_groups,
        place_centre=place_centre,
        place_radius=np.sqrt(areas.place_cover * share / np.pi),
        cousub_centre=rng.random((int(land.cousubs[index]), 2)),
        aiannh_corner=np.column_stack([corner, corner + side[:, None]]),
        aiannh_code=land.aiannh.code[here],
        facility_type=types,
        facility_persons=persons,
        facility_block_group=_sites(rng, types, len(block_groups.tract), settings),
    )


def to_plane(point: Floats, side: float, core: float) -> Floats:
    """From people space to kilometres from the middle of the county: concentric squares, the outer ones stretched."""
    centred = 2 * point - 1
    radius = np.max(np.abs(centred), axis=1, keepdims=True)
    result: Floats = side / 2 * radius ** (core - 1) * centred
    return result


def density_at(point: Floats, mean_density: float, core: float) -> Floats:
    """Persons per square kilometre under :func:`to_plane`: a share r^2 of the people has r^(2 core) of the area."""
    radius = np.maximum(np.max(np.abs(2 * point - 1), axis=1), 0.02)
    result: Floats = mean_density / core * radius ** (2 - 2 * core)
    return result


def bisect(weights: Floats) -> Floats:
    """Rectangles (u0, v0, u1, v1) with areas in proportion to ``weights``: near in order, near in space."""
    result = np.empty((len(weights), 4))
    running = np.concatenate(([0.0], np.cumsum(weights)))
    todo = [(0, len(weights), (0.0, 0.0, 1.0, 1.0))]
    while todo:
        first, last, (u0, v0, u1, v1) = todo.pop()
        if last - first == 1:
            result[first] = u0, v0, u1, v1
            continue
        middle = (first + last) // 2
        share = float((running[middle] - running[first]) / (running[last] - running[first]))
        if u1 - u0 >= v1 - v0:
            cut = u0 + share * (u1 - u0)
            halves = (u0, v0, cut, v1), (cut, v0, u1, v1)
        else:
            cut = v0 + share * (v1 - v0)
            halves = (u0, v0, u1, cut), (u0, cut, u1, v1)
        todo += [(first, middle, halves[0]), (middle, last, halves[1])]
    return result


def smooth_field(rng: np.random.Generator, point: Floats, waves: int, cycles: float) -> Floats:
    """A smooth random field of unit variance at each point: a sum of cosines of random direction and phase."""
    direction = cycles * rng.standard_normal((waves, 2))
    phase = rng.random(waves)
    angle = 2 * np.pi * (point @ direction.T + phase)
    result: Floats = np.sqrt(2 / waves) * np.cos(angle).sum(axis=1)
    return result


def _block_groups(
    rng: np.random.Generator, land: Land, index: int, settings: population_settings.PopulationSettings
) -> BlockGroups:
    spine, ways = settings.spine, settings.neighbourhoods
    tracts = int(land.tracts[index])
    weight = np.clip(population_settings.spread_out(rng, spine.tract_spread, tracts), *spine.tract_bounds)
    tract_persons = population_settings.apportion_one(int(land.in_households[index]), weight)
    tract_corner = bisect(weight)

    wanted = np.rint(tract_persons / spine.block_group_persons)
    counts = np.clip(wanted, 1, spine.block_groups_at_most).astype(np.int64)
    tract = np.repeat(np.arange(tracts), counts)
    weight = population_settings.spread_out(rng, spine.block_group_spread, len(tract))
    corner = _strips(tract_corner[tract], *population_settings.cumulative_shares(weight, counts))
    middle = (corner[:, :2] + corner[:, 2:]) / 2

    kind = int(land.kind[index])
    density = density_at(middle, settings.county_kinds[kind].density, settings.blocks.core)
    tract_middle = (tract_corner[:, :2] + tract_corner[:, 2:]) / 2

    def field() -> Floats:
        over = smooth_field(rng, tract_middle, ways.waves, ways.wave_cycles)
        result: Floats = np.sqrt(ways.smooth) * over + np.sqrt(1 - ways.smooth) * rng.standard_normal(tracts)
        return result

    log_mixture = np.empty((len(tract), len(settings.groups)))
    for column, group in enumerate(settings.groups):
        # Minus half the variance: the mean weight stays that of the county's kind, however segregated the group is.
        of_tract = group.spread * field() - group.spread**2 / 2
        own = ways.block_group_spread * rng.standard_normal(len(tract))
        log_mixture[:, column] = np.log(land.mixture[kind, column]) + of_tract[tract] + own
    bg_persons = population_settings.apportion(tract_persons, weight, counts)
    log_mixture += ways.steadiness * _departure(log_mixture, bg_persons, land.mixture[kind])
    vacancy = settings.housing.vacancy * population_settings.spread_out(
        rng, settings.housing.vacancy_spread, len(tract)
    )
    seasonal = rng.random(len(tract)) < settings.housing.seasonal_block_groups
    return BlockGroups(
        tract=tract,
        number=population_settings.positions(counts) + 1,
        persons=bg_persons,
        corner=corner,
        log_mixture=log_mixture,
        older=ways.age_spread * field()[tract],
        larger=ways.size_spread * field()[tract],
        urban=density >= settings.blocks.urban_density,
        vacancy=np.where(seasonal, settings.housing.seasonal_vacancy, np.minimum(vacancy, 0.9)),
    )


def _departure(log_mixture: Floats, persons: population_settings.Ints, target: Floats) -> Floats:
    """What to add to the log weights so that all people together have the mixture ``target``: a few steps of raking."""
    offset = np.zeros_like(target)
    for _ in range(RAKING_STEPS):
        weight = np.exp(log_mixture + offset)
        weight /= weight.sum(axis=1, keepdims=True)
        offset += np.log(target) - np.log(persons @ weight / persons.sum())
    return offset


def _strips(rectangle: Floats, lower: Floats, upper: Floats) -> Floats:
    """The part from ``lower`` to ``upper`` of each rectangle, cut across its longer side."""
    u0, v0, u1, v1 = rectangle.T
    wide = (u1 - u0) >= (v1 - v0)
    return np.column_stack(
        [
            np.where(wide, u0 + lower * (u1 - u0), u0),
            np.where(wide, v0, v0 + lower * (v1 - v0)),
            np.where(wide, u0 + upper * (u1 - u0), u1),
            np.where(wide, v1, v0 + upper * (v1 - v0)),
        ]
    )


def _sites(
    rng: np.random.Generator,
    types: population_settings.Ints,
    block_groups: int,
    settings: population_settings.PopulationSettings,
) -> population_settings.Ints:
    """The block group of each facility: facilities of one site (a campus, a base) are in the same one."""
    result = np.empty(len(types), dtype=np.int64)
    for number, quarters in enumerate(settings.group_quarters, start=1):
        mine = np.flatnonzero(types == number)
        site = np.arange(len(mine)) // quarters.site
        result[mine] = rng.integers(block_groups, size=len(mine) + 1)[site]
    return result


# The lie of the land: states and counties, their kinds and sizes, and which facilities and areas they hold.
#
# Everything that has to be known before any county can be made on its own: how many persons each has (exactly; the
# total is the number asked for), how many of them live in which group quarters, the numbering of places and county
# subdivisions within the state, and the units of work, each a run of tracts of one county.


UNIT_TRACTS = 48
"""Tracts of a unit of work at most: some 200,000 persons."""

MOST_TRACTS, MOST_PLACES = 9_999, 19_000

LARGEST_FACILITY = 0.10
LARGEST_SHARE_IN_GROUP_QUARTERS = 0.30
LARGEST_SHARE_IN_AIANNH = 0.60
SMALLEST_TOTAL_IN_GROUP_QUARTERS = 4


@dataclass(frozen=True)
class Facilities:
    """Group quarters facilities: type 1 to 7, persons, county."""

    type: population_settings.Ints
    persons: population_settings.Ints
    county: population_settings.Ints


@dataclass(frozen=True)
class AiannhAreas:
    """American Indian, Alaska Native and Native Hawaiian areas: code, county, share of the county's people."""

    code: population_settings.Ints
    county: population_settings.Ints
    share: Floats


@dataclass(frozen=True)
class Land:
    """States and counties. Arrays have one element for each county, in the order of their codes."""

    state: population_settings.Ints
    code: population_settings.Ints
    persons: population_settings.Ints
    kind: population_settings.Ints
    side: Floats
    origin_x: Floats
    origin_y: Floats
    in_households: population_settings.Ints
    tracts: population_settings.Ints
    places: population_settings.Ints
    first_place: population_settings.Ints
    cousubs: population_settings.Ints
    first_cousub: population_settings.Ints
    facilities: Facilities
    aiannh: AiannhAreas
    mixture: Floats

    @property
    def counties(self) -> int:
        """The number of counties."""
        return len(self.persons)

    def units(self) -> list[Unit]:
        """The units of work in the order of their geocodes: a county, or a run of its tracts."""
        result: list[Unit] = []
        for county, tracts in enumerate(self.tracts.tolist()):
            parts = -(-tracts // UNIT_TRACTS)
            ends = [tracts * part // parts for part in range(parts + 1)]
            result += [Unit(len(result) + part, county, ends[part], ends[part + 1]) for part in range(parts)]
        return result


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work: tracts ``first`` to ``last`` (exclusive) of a county. The same whoever does the work."""

    index: int
    county: int
    first: int
    last: int


def make_land(persons: int, seed: int, settings: population_settings.PopulationSettings) -> Land:
    """States and counties for ``persons`` persons."""
    rng = population_settings.stream(seed, population_settings.LAND)
    spine = settings.spine
    states = min(spine.states_at_most, -(-persons // spine.persons_per_state))
    of_state = population_settings.apportion_one(
        persons, population_settings.spread_out(rng, spine.state_spread, states)
    )
    counts = np.clip(np.rint((of_state / spine.county_persons) ** spine.county_growth).astype(np.int64), 1, 499)
    state = np.repeat(np.arange(states), counts)

    weight = population_settings.spread_out(rng, spine.county_spread, len(state))
    mean = np.bincount(state, weights=weight) / counts
    floor = np.minimum(spine.county_smallest / (of_state / counts), 0.5) * mean
    county_persons = population_settings.apportion(of_state, np.maximum(weight, floor[state]), counts)

    kind = _kinds(rng, county_persons, settings)
    density = np.array([each.density for each in settings.county_kinds])[kind]
    side = np.sqrt(county_persons / density)
    origin_x, origin_y = _grid(state, counts, side)
    facilities = _facilities(rng, persons, county_persons, settings)
    held = np.bincount(facilities.county, weights=facilities.persons, minlength=len(state)).astype(np.int64)
    in_households = county_persons - held
    tracts = np.maximum(1, np.rint(in_households / spine.tract_persons)).astype(np.int64)

    areas = settings.areas
    places = np.maximum(2, np.rint((county_persons / areas.place_persons) ** areas.place_growth)).astype(np.int64)
    cousubs = np.clip(np.rint(county_persons / areas.cousub_persons), 1, areas.cousubs_at_most).astype(np.int64)
    _check_codes(tracts, places, counts)
    mixtures = np.array([each.mixture for each in settings.county_kinds])
    mixtures /= mixtures.sum(axis=1, keepdims=True)
    return Land(
        state=state + spine.first_state,
        code=2 * population_settings.positions(counts) + 1,
        persons=county_persons,
        kind=kind,
        side=side,
        origin_x=origin_x,
        origin_y=origin_y,
        in_households=in_households,
        tracts=tracts,
        places=places,
        first_place=_numbering(places, counts),
        cousubs=cousubs,
        first_cousub=_numbering(cousubs, counts),
        facilities=facilities,
        aiannh=_aiannh(rng, of_state, counts, county_persons, kind, settings),
        mixture=mixtures,
    )


def _check_codes(
    tracts: population_settings.Ints, places: population_settings.Ints, counts: population_settings.Ints
) -> None:
    """Four digits number the tracts of a county, five the places of a state: settings must leave room."""
    most_places = int(np.add.reduceat(places, np.cumsum(counts) - counts).max())
    if int(tracts.max()) > MOST_TRACTS or most_places > MOST_PLACES:
        raise SpecError(
            "settings-too-fine",
            tracts=int(tracts.max()),
            most_places=most_places,
            most_tracts=MOST_TRACTS,
            most_places_expected=MOST_PLACES,
        )


def _kinds(
    rng: np.random.Generator, persons: population_settings.Ints, settings: population_settings.PopulationSettings
) -> population_settings.Ints:
    """The kind of each county: from the largest down, roughly, until a kind has its share of the persons."""
    order = np.argsort(
        -persons * population_settings.spread_out(rng, settings.spine.county_kind_spread, len(persons)), kind="stable"
    )
    shares = np.array([kind.persons for kind in settings.county_kinds])
    ends = np.cumsum(shares) / shares.sum()
    middle = (np.cumsum(persons[order]) - persons[order] / 2) / persons.sum()
    kind = np.empty(len(persons), dtype=np.int64)
    kind[order] = np.minimum(np.searchsorted(ends, middle), len(ends) - 1)
    return kind


def _grid(state: population_settings.Ints, counts: population_settings.Ints, side: Floats) -> tuple[Floats, Floats]:
    """The middle of each county on the made-up plane: states side by side, counties of a state in rows of cells."""
    columns = np.ceil(np.sqrt(counts)).astype(np.int64)
    largest = np.zeros(len(counts))
    np.maximum.at(largest, state, side)
    width = columns * largest
    edge = np.cumsum(width) - width
    place = population_settings.positions(counts)
    column, row = place % columns[state], place // columns[state]
    return edge[state] + (column + 0.5) * largest[state], (row + 0.5) * largest[state]


def _numbering(numbers: population_settings.Ints, counts: population_settings.Ints) -> population_settings.Ints:
    """The first running number of each county within its state."""
    before = np.cumsum(numbers) - numbers
    first_of_state = before[np.cumsum(counts) - counts]
    result: population_settings.Ints = before - np.repeat(first_of_state, counts)
    return result


def _facilities(
    rng: np.random.Generator,
    persons: int,
    county_persons: population_settings.Ints,
    settings: population_settings.PopulationSettings,
) -> Facilities:
    """Facilities of the seven types, sized to their share of all persons and given to counties."""
    types: list[population_settings.Ints] = []
    sizes: list[population_settings.Ints] = []
    counties: list[population_settings.Ints] = []
    for number, quarters in enumerate(settings.group_quarters, start=1):
        total = round(quarters.share * persons)
        if total < SMALLEST_TOTAL_IN_GROUP_QUARTERS:
            continue
        count = max(1, round(total / quarters.size))
        pull = county_persons.astype(np.float64) ** quarters.pull
        types.append(np.full(count, number))
        sizes.append(
            1
            + population_settings.apportion_one(
                total - count, population_settings.spread_out(rng, quarters.spread, count)
            )
        )
        counties.append(rng.choice(len(county_persons), size=count, p=pull / pull.sum()))
    empty = np.zeros(0, dtype=np.int64)
    size = np.concatenate([empty, *sizes])
    county = np.concatenate([empty, *counties])
    # A facility must not swamp its county, nor all of them together: those that would go to the largest one.
    largest = int(np.argmax(county_persons))
    county = np.where(size > LARGEST_FACILITY * county_persons[county], largest, county)
    held = np.bincount(county, weights=size, minlength=len(county_persons))
    crowded = held > LARGEST_SHARE_IN_GROUP_QUARTERS * county_persons
    county = np.where(crowded[county], largest, county)
    return Facilities(np.concatenate([empty, *types]), size, county)


def _aiannh(
    rng: np.random.Generator,
    of_state: population_settings.Ints,
    counts: population_settings.Ints,
    county_persons: population_settings.Ints,
    kind: population_settings.Ints,
    settings: population_settings.PopulationSettings,
) -> AiannhAreas:
    """Areas with their counties: mostly in the later, more rural kinds of counties."""
    areas = settings.areas
    numbers = np.maximum(1, np.rint(of_state / areas.aiannh_state_persons)).astype(np.int64)
    persons = areas.aiannh_share * np.repeat(of_state / numbers, numbers)
    persons *= population_settings.spread_out(rng, areas.aiannh_spread, len(persons)) * np.exp(
        -(areas.aiannh_spread**2) / 2
    )
    county: list[int] = []
    for start, count, number in zip(np.cumsum(counts) - counts, counts, numbers, strict=True):
        pull = county_persons[start : start + count] * 3.0 ** kind[start : start + count]
        county += (start + rng.choice(count, size=number, p=pull / pull.sum())).tolist()
    where = np.array(county, dtype=np.int64)
    index = np.arange(len(where))
    # Every fifth is a statistical area (from 9500), which the AIAN part of a spine leaves out; the others are legal.
    code = np.where(index % 5 == 4, 9500 + index // 5, 100 + 10 * index)
    return AiannhAreas(code, where, np.minimum(persons / county_persons[where], LARGEST_SHARE_IN_AIANNH))
