"""The settings of the made-up people: a data file, read and checked.

Every share, size and spread lives in ``confide/data/population/*.toml``, with an id and a sentence of provenance. The
classes here are the shape of that file, and nothing else; the modules that use a part of it say what it does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, Field, model_validator

from confide import documents
from confide.documents import FileKind, load, load_named

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Race = Literal["white", "black", "aian", "asian", "nhopi", "other"]

HOUSEHOLD_SIZES = 8
MEMBER_ROLES = 3


POPULATION = FileKind(
    "population",
    code="settings-invalid",
    own_codes=False,
    absent="settings-not-found",
    unreadable="settings-not-found",
    not_text="settings-not-toml",
    syntax="settings-not-toml",
    shipped="population",
    remedy="correct the settings; the default ones are an example",
)


class SettingsPart(documents.Part):
    """A table of the settings file: unknown keys are refused, values cannot change; lists become tuples."""

    model_config = ConfigDict(strict=False)


class SpineSettings(SettingsPart):
    """How many states, counties, tracts and block groups there are, and how their sizes vary."""

    first_state: Annotated[int, Field(ge=10, le=99)]
    states_at_most: Count
    persons_per_state: Count
    state_spread: Weight
    county_persons: Positive
    county_growth: Share
    county_spread: Weight
    county_smallest: Count
    county_kind_spread: Weight
    tract_persons: Annotated[float, Field(ge=500, le=8_000)]
    tract_spread: Weight
    tract_bounds: tuple[Positive, Positive]
    block_group_persons: Positive
    block_group_spread: Weight
    block_groups_at_most: Annotated[int, Field(ge=1, le=9)]


class BlockSettings(SettingsPart):
    """How block groups divide into blocks, and how density falls from the middle of a county."""

    persons_urban: Annotated[float, Field(ge=5)]
    persons_rural: Annotated[float, Field(ge=5)]
    spread: Weight
    empty_urban: Weight
    empty_rural: Weight
    core: Annotated[float, Field(ge=1, le=4)]
    urban_density: Positive


class OffSpineSettings(SettingsPart):
    """Places, county subdivisions and AIANNH areas: geography that is not on the spine."""

    place_persons: Positive
    place_growth: Share
    place_spread: Weight
    place_cover: Weight
    cousub_persons: Positive
    cousubs_at_most: Count
    aiannh_share: Share
    aiannh_state_persons: Positive
    aiannh_spread: Weight
    aiannh_boost: float


class HousingSettings(SettingsPart):
    """Vacant housing units."""

    vacancy: Annotated[float, Field(ge=0, le=0.9)]
    vacancy_spread: Weight
    seasonal_block_groups: Share
    seasonal_vacancy: Annotated[float, Field(ge=0, le=0.9)]


class NeighbourhoodSettings(SettingsPart):
    """How neighbourhoods differ: smooth over a county, then by tract, block group and block."""

    waves: Count
    wave_cycles: Positive
    smooth: Share
    block_group_spread: Weight
    block_spread: Weight
    facility_spread: Weight
    steadiness: Share
    age_spread: Weight
    size_spread: Weight


class PopulationGroup(SettingsPart):
    """A race and ethnicity group of householders."""

    name: str
    hispanic: bool = False
    race: Race
    races: dict[Race, Weight] = Field(default_factory=dict)
    spread: Weight
    marry_out: Share
    more_races: tuple[Weight, Weight, Weight, Weight, Weight, Weight]
    with_races: dict[Race, Weight]


class CountyKind(SettingsPart):
    """A kind of county: its share of all persons, density and mixture of groups."""

    name: str
    persons: Weight
    density: Positive
    mixture: tuple[Positive, ...]


class Relatives(SettingsPart):
    """What the relatives of a householder are who are neither partner nor child."""

    parent: Weight
    sibling: Weight
    grandchild: Weight


class HouseholdSettings(SettingsPart):
    """Sizes of households, and who lives with whom."""

    sizes: tuple[Positive, ...] = Field(min_length=HOUSEHOLD_SIZES, max_length=HOUSEHOLD_SIZES)
    older_smaller: float
    child_youngest_parent: Annotated[int, Field(ge=12, le=18)]
    child_oldest_parent: Annotated[int, Field(ge=25, le=60)]
    leaving_age: Annotated[int, Field(ge=18, le=40)]
    leaving_years: Positive
    children_left: Share
    parent_at_home_until: Annotated[int, Field(ge=30, le=80)]
    spouse_gap: float
    spouse_gap_spread: Weight
    spouse_opposite_sex: Share
    boys: Share
    same_race_spouse: Share
    mixed_children: tuple[Share, Share]
    mixed_hispanic: Share
    relative_like_householder: Share
    other_like_householder: Share
    other_age_spread: Weight
    other_minors: Share
    relatives: Relatives


class HouseholdKind(SettingsPart):
    """A kind of household: among which sizes, with which members, headed at which ages."""

    name: str
    couple: bool
    share: tuple[Weight, ...] = Field(min_length=HOUSEHOLD_SIZES, max_length=HOUSEHOLD_SIZES)
    members: tuple[Weight, ...] = Field(min_length=MEMBER_ROLES, max_length=MEMBER_ROLES)
    male: tuple[Share, ...]
    ages: tuple[Weight, ...]


class Ages(SettingsPart):
    """The age bands of householders; adults only, so that every household has one."""

    bands: tuple[Annotated[int, Field(ge=18, le=100)], ...]
    open_band_years: Positive
    oldest: Annotated[int, Field(ge=100, le=115)]


class GroupQuarters(SettingsPart):
    """One of the seven types of group quarters."""

    name: str
    share: Share
    size: Positive
    spread: Weight
    site: Count
    own_block: bool
    pull: Weight
    male: Share
    ages: tuple[tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(le=115)], Weight], ...]


class PopulationSettings(SettingsPart):
    """Everything that decides what the made-up people are like, apart from their number and the seed."""

    id: str
    provenance: str
    spine: SpineSettings
    blocks: BlockSettings
    areas: OffSpineSettings
    housing: HousingSettings
    neighbourhoods: NeighbourhoodSettings
    groups: tuple[PopulationGroup, ...] = Field(min_length=1)
    county_kinds: tuple[CountyKind, ...] = Field(min_length=1)
    households: HouseholdSettings
    household_kinds: tuple[HouseholdKind, ...] = Field(min_length=1)
    ages: Ages
    group_quarters: tuple[GroupQuarters, ...] = Field(min_length=7, max_length=7)

    @model_validator(mode="after")
    def _lists_agree(self) -> PopulationSettings:
        for kind in self.county_kinds:
            if len(kind.mixture) != len(self.groups):
                raise ValueError(f"county kind {kind.name!r}: mixture needs one weight for each of the groups")
        for household in self.household_kinds:
            if not len(household.male) == len(household.ages) == len(self.ages.bands):
                raise ValueError(f"household kind {household.name!r}: male and ages need one value for each band")
        if list(self.ages.bands) != sorted(set(self.ages.bands)):
            raise ValueError("ages.bands must rise")
        for size in range(HOUSEHOLD_SIZES):
            if not sum(kind.share[size] for kind in self.household_kinds) > 0:
                raise ValueError(f"no household kind has households of size {size + 1}")
        if self.household_kinds[0].couple or self.household_kinds[0].share[0] <= 0:
            raise ValueError("the first household kind must be that of persons alone")
        if sum(quarters.share for quarters in self.group_quarters) > 0.2:
            raise ValueError("more than a fifth of all persons in group quarters")
        if self.spine.first_state + self.spine.states_at_most > 100:
            raise ValueError("spine: state codes have two digits")
        return self


def load_settings(name: str | Path = "default") -> PopulationSettings:
    """The settings of the made-up people.

    Args:
        name: A name that ships, or the path of a TOML file of one's own.

    Returns:
        The settings, checked.

    Raises:
        SpecError: with every finding, each at its line.

    >>> load_settings().id
    'default-1'
    """
    if isinstance(name, Path) or not name or name.endswith(".toml"):
        return load(Path(name or "(no name)"), PopulationSettings, kind=POPULATION).value
    return load_named(name, Path(), PopulationSettings, kind=POPULATION).value


# Seeded draws in bulk: streams, choices row by row, exact apportionment.
#
# ``numpy.random`` is right here and only here: these are made-up people, not protective noise. Each unit of work has
# a
# stream of its own, named by what it is for and not by when it is drawn, so that any order of work gives the same
# people.


Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

GENERATOR = 1
"""Version of the generator: raised whenever the same persons, seed and settings would give other people."""

# What a stream is for: the second element of its name.
LAND, COUNTY, UNIT_FRAME, UNIT_PEOPLE, COUNTY_ORIGINS, UNIT_ORIGINS = range(6)


def stream(seed: int, purpose: int, index: int = 0) -> np.random.Generator:
    """The stream of random numbers for one purpose and one unit."""
    name = np.random.SeedSequence(entropy=seed, spawn_key=(GENERATOR, purpose, index))
    return np.random.Generator(np.random.SFC64(name))


class Chances:
    """Many discrete distributions over the same outcomes, one in each row, sampled by inversion.

    Row r is laid on the interval [r, r + 1) of one rising sequence, so that one binary search serves all rows at once.
    """

    def __init__(self, weights: ArrayLike):
        table = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        cumulative = np.cumsum(table, axis=1)
        totals = cumulative[:, -1:]
        assert bool(np.all(totals > 0)), "a row without weight cannot be drawn from"
        cumulative /= totals
        # From the last possible outcome on, exactly one: rounding must never reach an impossible outcome after it.
        last = table.shape[1] - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
        cumulative[np.arange(table.shape[1]) >= last[:, None]] = 1.0
        self.outcomes = table.shape[1]
        self._last = last
        self._steps = (cumulative + np.arange(len(table))[:, None]).ravel()

    def draw(self, rng: np.random.Generator, rows: NDArray[Any]) -> Ints:
        """One outcome for each of ``rows``."""
        point = rng.random(len(rows))
        point += rows
        outcome = np.searchsorted(self._steps, point, side="right")
        outcome -= rows * self.outcomes
        result: Ints = np.minimum(outcome, self._last[rows])
        return result

    def draw_many(self, rng: np.random.Generator, count: int) -> Ints:
        """``count`` outcomes of the only row."""
        return self.draw(rng, np.zeros(count, dtype=np.int64))


def starts_of(counts: Ints) -> Ints:
    """Where each group begins when groups of these sizes are laid end to end."""
    return np.cumsum(counts) - counts


def positions(counts: Ints) -> Ints:
    """0, 1, ... within each group of these sizes, laid end to end."""
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts_of(counts), counts)


def cumulative_shares(weights: Floats, counts: Ints) -> tuple[Floats, Floats]:
    """Lower and upper end of each weight's part of [0, 1) within its group; groups are laid end to end."""
    group = np.repeat(np.arange(len(counts)), counts)
    running = np.cumsum(weights)
    before = np.concatenate(([0.0], running))[starts_of(counts)]
    total = np.bincount(group, weights=weights, minlength=len(counts))
    upper = np.clip((running - before[group]) / total[group], 0.0, 1.0)
    ends = starts_of(counts) + counts - 1
    upper[ends[counts > 0]] = 1.0
    lower = np.empty_like(upper)
    lower[1:] = upper[:-1]
    lower[starts_of(counts)[counts > 0]] = 0.0
    return lower, upper


def apportion(totals: Ints, weights: Floats, counts: Ints) -> Ints:
    """Whole numbers in proportion to ``weights`` within each group, summing exactly to the group's total.

    The ends of the cumulative shares are rounded, and the parts are their differences: sum exact, each within one.
    """
    lower, upper = cumulative_shares(weights, counts)
    total = np.repeat(totals, counts)
    return np.rint(upper * total).astype(np.int64) - np.rint(lower * total).astype(np.int64)


def apportion_one(total: int, weights: Floats) -> Ints:
    """:func:`apportion` for a single group."""
    return apportion(np.array([total]), weights, np.array([len(weights)]))


def spread_out(rng: np.random.Generator, deviation: float, count: int) -> Floats:
    """``count`` lognormal factors with median one and the given standard deviation of the logarithm."""
    return np.exp(deviation * rng.standard_normal(count))
