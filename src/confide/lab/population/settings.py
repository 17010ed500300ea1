"""The settings of the made-up people: a data file, read and checked.

Every share, size and spread lives in ``confide/data/population/*.toml``, with an id and a sentence of provenance. The
classes here are the shape of that file, and nothing else; the modules that use a part of it say what it does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, Field, model_validator

from confide import documents
from confide.arrays import Floats
from confide.documents import FileKind, load, load_named, load_shipped

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


Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

GENERATOR = 1
"""Version of the generator: raised whenever the same persons, seed and settings would give other people."""

# What a stream is for: the second element of its name.
LAND, COUNTY, UNIT_FRAME, UNIT_PEOPLE, COUNTY_ORIGINS, UNIT_ORIGINS, UNIT_HOMES, UNIT_FACILITIES = range(8)


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


# Made-up people for the EU census programme: the data file, its code lists, and the tables they are for.
#
# ``confide/data/eu/made-up.toml`` has the columns of the records in the form of a schema, what they depend on, and the
# variable that stands for each breakdown of the programme. Here it is read, and its short forms are written out: ranges
# of codes, and the areas of a country whose size is only known then.


LEVELS = ("nuts1", "nuts2", "nuts3", "lau")
Row = tuple[Weight, ...]

_RANGE = re.compile(r"(?P<stem>[A-Z]+)(?P<first>\d+)\.\.(?P=stem)(?P<last>\d+)")
_AREAS = re.compile(r"\{(?P<level>\w+)\}")


class EuVariableRule(SettingsPart):
    """How a column is drawn: weights of its levels, multiplied over all the variables that it depends on."""

    column: str
    groups: str | None = None
    zipf: Weight = 0.0
    spread: Weight = 0.0
    own_region: bool = False
    weights: Row | None = None
    by: dict[str, tuple[Row, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_weights(self) -> EuVariableRule:
        if (self.weights is None) == (not self.by) or (self.spread and self.by):
            raise ValueError(f"column {self.column!r}: either weights, perhaps with a spread, or by")
        return self


class Places(SettingsPart):
    """The sizes of local units, and of the localities in them."""

    spread: Weight
    column: str
    sizes: tuple[int, ...]
    smaller: Row


class EuSettings(SettingsPart):
    """Everything that decides what the people are like, apart from their number, the seed and the numbers of areas."""

    id: str
    provenance: str
    programme: str
    unit: str
    country: str
    variables: dict[str, str]
    attributes: dict[str, Any]
    drawn: tuple[EuVariableRule, ...] = Field(min_length=1)
    places: Places


@cache
def load_eu_settings() -> EuSettings:
    """The settings that ship with Confide."""
    return load_named("made-up", Path(), EuSettings, kind=FileKind("EU population", shipped="eu")).value


class EuAreas(NamedTuple):
    """The numbers of areas of a country, from the largest areas to the smallest."""

    nuts1: int = 1
    nuts2: int = 2
    nuts3: int = 6
    lau: int = 200


class Country:
    """The codes of all areas, and in which larger ones the local units lie. Areas nest and divide evenly."""

    def __init__(self, name: str, areas: EuAreas):
        self.areas = areas
        self.codes: dict[str, list[str]] = {}
        parents = [name]
        for level, number in zip(LEVELS, areas, strict=True):
            parents = self.codes[level] = _children(parents, number)

    def unit_of(self, level: str) -> list[int]:
        """For each local unit the index of the area of ``level`` that it lies in."""
        position = LEVELS.index(level)
        units = list(range(self.areas.lau))
        for upper, lower in zip(self.areas[position:-1][::-1], self.areas[position + 1 :][::-1], strict=True):
            units = [index * upper // lower for index in units]
        return units


def schema_document(settings: EuSettings, country: Country) -> dict[str, Any]:
    """The schema of the records, as the plain values of a schema file."""
    attributes = {name: _attribute(body, country) for name, body in settings.attributes.items()}
    return {"id": settings.id, "provenance": settings.provenance.strip(), "attributes": attributes}


def programme_tables(settings: EuSettings) -> dict[str, list[str]]:
    """The tables of the programme by name (table 9.2 is ``t9-2``), each the list of its variables in the schema."""
    groups: Mapping[str, Sequence[str]] = load_shipped("programmes", settings.programme)["tables"][settings.unit]
    return {
        f"t{group}-{position}": [settings.variables[name] for name in table.split() if name in settings.variables]
        for group, tables in groups.items()
        for position, table in enumerate(tables, start=1)
    }


def render_schema(document: Mapping[str, Any]) -> str:
    """A schema document as the text of a TOML file."""
    lines = [f"{key} = {_quoted(document[key])}" for key in ("id", "provenance")]
    for name, body in document["attributes"].items():
        pairs = [f"  [{_quoted(code)}, {_quoted(label)}]," for code, label in body["levels"]]
        lines += ["", f"[attributes.{name}]", f"title = {_quoted(body['title'])}", "levels = [", *pairs, "]"]
        for recode, groups in body["recodes"].items():
            lines.append(f"[attributes.{name}.recodes.{recode}.groups]")
            lines += [
                f"{_quoted(label)} = [{', '.join(map(_quoted, codes))}]" for label, codes in groups["groups"].items()
            ]
    return "\n".join(lines) + "\n"


def render_tables(tables: Mapping[str, Sequence[str]]) -> str:
    """Tables in the form in which a spec lists them."""
    return "\n".join(
        f"[[tables]]\nname = {_quoted(name)}\nvariables = [{', '.join(map(_quoted, variables))}]\n"
        for name, variables in tables.items()
    )


def _children(parents: Sequence[str], number: int) -> list[str]:
    """``number`` codes that begin with those of their parents, each of which has at least one."""
    parent = [index * len(parents) // number for index in range(number)]
    first = {each: index for index, each in reversed(list(enumerate(parent)))}
    width = len(str(max(index - first[each] + 1 for index, each in enumerate(parent))))
    return [f"{parents[each]}{index - first[each] + 1:0{width}d}" for index, each in enumerate(parent)]


def _attribute(body: Mapping[str, Any], country: Country) -> dict[str, Any]:
    levels = [pair for code, label in body["levels"] for pair in _written_out(code, label, country)]
    recodes = {name: {"groups": _groups(recode, country)} for name, recode in body.get("recodes", {}).items()}
    return {"title": body["title"], "levels": levels, "recodes": recodes}


def _groups(recode: Mapping[str, Any], country: Country) -> dict[str, list[str]]:
    if "areas" in recode:
        groups: dict[str, list[str]] = {code: [] for code in country.codes[recode["areas"]]}
        labels = list(groups)
        for code, unit in zip(country.codes["lau"], country.unit_of(recode["areas"]), strict=True):
            groups[labels[unit]].append(code)
        return groups
    return {
        label: [code for each in _listed(member) for code, _ in _written_out(each, "", country)]
        for label, member in recode["groups"].items()
    }


def _listed(member: str | list[str]) -> list[str]:
    return [member] if isinstance(member, str) else member


def _written_out(text: str, label: str, country: Country) -> list[tuple[str, str]]:
    """The codes that ``text`` stands for, with their labels: one code, a range of them, or all areas of a level."""
    if match := _AREAS.fullmatch(text):
        return [(code, f"{label} {code}".strip()) for code in country.codes[match["level"]]]
    if match := _RANGE.fullmatch(text):
        width, numbers = len(match["first"]), range(int(match["first"]), int(match["last"]) + 1)
        return [(f"{match['stem']}{number:0{width}d}", f"{label} {number}".strip()) for number in numbers]
    return [(text, label)]


def _quoted(text: str) -> str:
    # JSON writes a text as TOML reads it.
    return json.dumps(text, ensure_ascii=False)
