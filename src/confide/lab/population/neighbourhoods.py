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
from confide.lab.population.landscape import Land
from confide.lab.population.settings import (
    COUNTY,
    Bools,
    Ints,
    PopulationSettings,
    apportion,
    apportion_one,
    cumulative_shares,
    positions,
    spread_out,
    stream,
)

RAKING_STEPS = 4


@dataclass(frozen=True)
class BlockGroups:
    """Block groups of a county (or a run of them). ``corner`` has columns u0, v0, u1, v1 in people space."""

    tract: Ints
    number: Ints
    persons: Ints
    corner: Floats
    log_mixture: Floats
    older: Floats
    larger: Floats
    urban: Bools
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
    aiannh_code: Ints
    facility_type: Ints
    facility_persons: Ints
    facility_block_group: Ints


def make_county(land: Land, index: int, seed: int, settings: PopulationSettings) -> County:
    """The county with this index: a function of the seed and the land alone."""
    rng = stream(seed, COUNTY, index)
    block_groups = _block_groups(rng, land, index, settings)
    areas = settings.areas

    places = int(land.places[index])
    share = spread_out(rng, areas.place_spread, places)
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


def _block_groups(rng: np.random.Generator, land: Land, index: int, settings: PopulationSettings) -> BlockGroups:
    spine, ways = settings.spine, settings.neighbourhoods
    tracts = int(land.tracts[index])
    weight = np.clip(spread_out(rng, spine.tract_spread, tracts), *spine.tract_bounds)
    tract_persons = apportion_one(int(land.in_households[index]), weight)
    tract_corner = bisect(weight)

    wanted = np.rint(tract_persons / spine.block_group_persons)
    counts = np.clip(wanted, 1, spine.block_groups_at_most).astype(np.int64)
    tract = np.repeat(np.arange(tracts), counts)
    weight = spread_out(rng, spine.block_group_spread, len(tract))
    corner = _strips(tract_corner[tract], *cumulative_shares(weight, counts))
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
    bg_persons = apportion(tract_persons, weight, counts)
    log_mixture += ways.steadiness * _departure(log_mixture, bg_persons, land.mixture[kind])
    vacancy = settings.housing.vacancy * spread_out(rng, settings.housing.vacancy_spread, len(tract))
    seasonal = rng.random(len(tract)) < settings.housing.seasonal_block_groups
    return BlockGroups(
        tract=tract,
        number=positions(counts) + 1,
        persons=bg_persons,
        corner=corner,
        log_mixture=log_mixture,
        older=ways.age_spread * field()[tract],
        larger=ways.size_spread * field()[tract],
        urban=density >= settings.blocks.urban_density,
        vacancy=np.where(seasonal, settings.housing.seasonal_vacancy, np.minimum(vacancy, 0.9)),
    )


def _departure(log_mixture: Floats, persons: Ints, target: Floats) -> Floats:
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


def _sites(rng: np.random.Generator, types: Ints, block_groups: int, settings: PopulationSettings) -> Ints:
    """The block group of each facility: facilities of one site (a campus, a base) are in the same one."""
    result = np.empty(len(types), dtype=np.int64)
    for number, quarters in enumerate(settings.group_quarters, start=1):
        mine = np.flatnonzero(types == number)
        site = np.arange(len(mine)) // quarters.site
        result[mine] = rng.integers(block_groups, size=len(mine) + 1)[site]
    return result
