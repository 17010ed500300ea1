"""Blocks of a unit of work: codes, places on the plane, and the off-spine areas they lie in.

Some blocks have housing, in skewed amounts, many have none. Places are discs in people space, county subdivisions the
neighbourhoods of random points, AIANNH areas squares: all of them geometry laid over the blocks, so that they cross
tracts and block groups as the real ones do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confide.population.draw import Bools, Floats, Ints, positions, spread_out
from confide.population.landscape import Land
from confide.population.neighbourhoods import BlockGroups, County, density_at, to_plane
from confide.population.settings import PopulationSettings

NO_PLACE = 99999
NO_AIANNH = 9999
PLACE_STEP = 5
BLOCKS_AT_MOST = 999
DISTANCES_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class BlockFrame:
    """Blocks in the order of their geocodes. ``block_group`` counts from the unit's first."""

    geocode: Ints
    block_group: Ints
    housing: Bools
    weight: Floats
    place: Ints
    cousub: Ints
    aiannh: Ints
    urban: Bools
    plane: Floats


def make_blocks(
    rng: np.random.Generator,
    land: Land,
    county: County,
    groups: BlockGroups,
    needs_empty: Bools,
    settings: PopulationSettings,
) -> BlockFrame:
    """The blocks of some block groups of a county; one without housing at least where ``needs_empty``."""
    rules = settings.blocks
    typical = np.where(groups.urban, rules.persons_urban, rules.persons_rural)
    empty_rate = np.where(groups.urban, rules.empty_urban, rules.empty_rural)
    with_housing = np.clip(rng.poisson(groups.persons / typical), 1, BLOCKS_AT_MOST // 2)
    without = np.clip(rng.poisson(with_housing * empty_rate), needs_empty, BLOCKS_AT_MOST // 2)
    counts = with_housing + without
    group = np.repeat(np.arange(len(counts)), counts)
    rank = positions(counts)

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
        weight=spread_out(rng, rules.spread, len(group)),
        place=_places(point, county, int(land.first_place[index])),
        cousub=_cousubs(point, county, int(land.first_cousub[index])),
        aiannh=_aiannh(point, county),
        urban=density_at(point, kind.density, rules.core) >= rules.urban_density,
        plane=np.round(centre + to_plane(point, float(land.side[index]), rules.core), 3),
    )


def _scatter(rng: np.random.Generator, corner: Floats, rank: Ints, count: Ints) -> Floats:
    """A point in each block: the blocks of a group stand on a jittered grid in its rectangle."""
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


def _nearest(point: Floats, centre: Floats, radius: Floats) -> tuple[Ints, Floats]:
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


def _places(point: Floats, county: County, first: int) -> Ints:
    best, distance = _nearest(point, county.place_centre, county.place_radius)
    return np.where(distance < 1, 100 + PLACE_STEP * (first + best), NO_PLACE)


def _cousubs(point: Floats, county: County, first: int) -> Ints:
    best, _ = _nearest(point, county.cousub_centre, np.ones(len(county.cousub_centre)))
    return 50 + PLACE_STEP * (first + best)


def _aiannh(point: Floats, county: County) -> Ints:
    result = np.full(len(point), NO_AIANNH, dtype=np.int64)
    for corner, code in zip(county.aiannh_corner[::-1], county.aiannh_code[::-1].tolist(), strict=True):
        inside = np.all((point >= corner[:2]) & (point < corner[2:]), axis=1)
        result[inside] = code
    return result
