"""Detailed race and ethnicity codes of made-up people: up to eight race codes and one ethnicity code for each.

The codes agree with what the records say: the major races of a person's race codes are exactly those of ``cenrace``,
and the ethnicity code is that of a Hispanic origin exactly where ``hispanic`` is 1. A group has a Zipf share of its
region (total-only groups much less); in a tract its log weight departs from that by

    county_spread * n(county) + tract_spread * (sqrt(s) * f(tract) + sqrt(1 - s) * n(tract)) - half the variance,

n standard normal, f a field that is smooth over the county, s the part ``neighbourhoods.smooth`` of the settings: so
people of one origin live near each other. A household has an answer for each race in it, which most of its members
give. All draws come from streams of their own: records and frame are the same with codes or without.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confide.arrays import Floats
from confide.lab.population.generate import Population
from confide.lab.population.landscape import Unit
from confide.lab.population.neighbourhoods import smooth_field
from confide.lab.population.origins import MASK_OF_CODE, RACES, Origin, OriginCodes, OriginHabits, load_origins, parse
from confide.lab.population.settings import COUNTY_ORIGINS, UNIT_ORIGINS, Bools, Chances, Ints, stream

MOST_CODES = 8
NULL = "Null"
RACE_COLUMNS = tuple(f"QRACE{number}" for number in range(1, MOST_CODES + 1))
ETHNICITY_COLUMN = "QSPAN"

Answers = NDArray[np.int16]
NONE = -1
OTHER = RACES.index("other")
HISPANIC = len(RACES)
ONE_CODE = np.array([1.0])

ORIGINS_SCHEMA = pa.schema(
    [
        pa.field(name, pa.dictionary(pa.int16(), pa.string()), nullable=False)
        for name in (*RACE_COLUMNS, ETHNICITY_COLUMN)
    ]
)
"""The codes of persons, in the rows of their records; dictionaries of text."""


class UnitWithOrigins(NamedTuple):
    """A unit of work: frame, records, and the codes of the persons in the same order."""

    unit: Unit
    blocks: pa.RecordBatch
    persons: pa.RecordBatch
    origins: pa.RecordBatch


class _Pool(NamedTuple):
    """The codes of a race, or of the ethnicity: numbers ``first`` to ``last`` (exclusive)."""

    first: int
    last: int
    more: Floats


class DetailedOrigins:
    """Draws the codes of a population's persons."""

    def __init__(self, population: Population, lists: OriginCodes | None = None):
        self._population = population
        self.lists = lists or load_origins()
        majors = self.lists.races
        all_origins: tuple[Origin, ...] = (*majors, self.lists.hispanic)
        ends = np.cumsum([0, *(len(origin.codes()) for origin in all_origins)]).tolist()
        more = [*(np.array(major.more) for major in majors), ONE_CODE]
        self._pools = [_Pool(*each) for each in zip(ends[:-1], ends[1:], more, strict=True)]
        drawn = [_weights(origin, self.lists.people) for origin in all_origins]
        self._log_weight = np.log(np.concatenate([weight for weight, _ in drawn]))
        # Codes of one group live together: they share its number, and those without a group have one of their own.
        self._cluster = np.unique(
            np.concatenate([group + 1000 * place for place, (_, group) in enumerate(drawn)]), return_inverse=True
        )[1]
        self._plain = np.concatenate([group < 0 for _, group in drawn])
        self._names = pa.array([*(code.code for code in self.lists.codes), NULL])
        self._tracts = lru_cache(maxsize=1)(self._make_tracts)  # units of one county follow each other

    def units(self) -> Iterator[UnitWithOrigins]:
        """Every unit of work of the population, in the order of the geocodes."""
        for unit in self._population.units:
            blocks, persons = self._population.unit(unit)
            yield UnitWithOrigins(unit, blocks, persons, self.batch(unit, blocks, persons))

    def batch(self, unit: Unit, blocks: pa.RecordBatch, persons: pa.RecordBatch) -> pa.RecordBatch:
        """The codes of a unit's persons as rows of :data:`ORIGINS_SCHEMA`."""
        rng = stream(self._population.seed, UNIT_ORIGINS, unit.index)
        people = self.lists.people
        tract = _tract_of_block(blocks)[persons.column("geocode").indices.to_numpy()] - unit.first
        column = {name: persons.column(name).to_numpy() for name in ("household_id", "hhgq", "cenrace", "hispanic")}
        # People in group quarters share a facility, not a family.
        starts = (np.diff(column["household_id"], prepend=-1) != 0) | (column["hhgq"] != 0)
        dwelling = np.cumsum(starts)
        mask = MASK_OF_CODE[column["cenrace"]]
        members = [np.flatnonzero(mask >> race & 1) for race in range(len(RACES))]
        members.append(np.flatnonzero(column["hispanic"]))

        log_weight = self._tracts(unit.county)[unit.first : unit.last]
        given: Answers = np.full((len(mask), len(members), 3), NONE, dtype=np.int16)
        for place, pool in enumerate(self._pools):
            who = members[place]
            if len(who):
                chances = Chances(np.exp(log_weight[:, pool.first : pool.last]))
                given[who, place] = self._answers(rng, pool, chances, tract[who], dwelling[who])
        origin = given[:, HISPANIC, 0]
        as_race = rng.random(len(mask)) < people.origin_as_race
        as_race &= (origin != NONE) & (given[:, OTHER, 0] != NONE)
        given[as_race, OTHER] = NONE
        given[as_race, OTHER, 0] = origin[as_race]

        nobody, not_hispanic = len(self._names) - 1, len(self._names) - 2
        races = _leftmost(given[:, :HISPANIC], nobody)
        columns = [*races.T, np.where(origin == NONE, not_hispanic, origin)]
        return pa.RecordBatch.from_arrays(
            [
                pa.DictionaryArray.from_arrays(pa.array(np.ascontiguousarray(each), type=pa.int16()), self._names)
                for each in columns
            ],
            schema=ORIGINS_SCHEMA,
        )

    def _answers(self, rng: np.random.Generator, pool: _Pool, chances: Chances, tract: Ints, dwelling: Ints) -> Answers:
        """Codes of one race, for persons of it in the order of their dwellings: mostly those of the dwelling."""
        first = np.diff(dwelling, prepend=-1) != 0
        answers: Answers = self._draw(rng, pool, chances, tract[first])[np.cumsum(first) - 1]
        unlike = np.flatnonzero(rng.random(len(tract)) >= self.lists.people.like_household)
        answers[unlike] = self._draw(rng, pool, chances, tract[unlike])
        return answers

    def _draw(self, rng: np.random.Generator, pool: _Pool, chances: Chances, tract: Ints) -> Answers:
        """One answer for each of ``tract``: one to three different codes, and one alone where it names no group."""
        answers: Answers = np.full((len(tract), 3), NONE, dtype=np.int16)
        answers[:, 0] = pool.first + chances.draw(rng, tract)
        number = Chances(pool.more).draw_many(rng, len(tract))
        for place in (1, 2):
            some = np.flatnonzero((number >= place) & ~self._plain[answers[:, 0]])
            code = pool.first + chances.draw(rng, tract[some])
            fresh = ~self._plain[code] & (answers[some, :place] != code[:, None]).all(axis=1)
            answers[some[fresh], place] = code[fresh]
        return answers

    def _make_tracts(self, county: int) -> Floats:
        """The log weight of each code in each tract of a county."""
        rng = stream(self._population.seed, COUNTY_ORIGINS, county)
        people, ways = self.lists.people, self._population.settings.neighbourhoods
        middle = _middles(self._population, county)
        clusters = int(self._cluster.max()) + 1
        over = np.column_stack([smooth_field(rng, middle, ways.waves, ways.wave_cycles) for _ in range(clusters)])
        field = np.sqrt(ways.smooth) * over + np.sqrt(1 - ways.smooth) * rng.standard_normal(over.shape)
        departure = people.county_spread * rng.standard_normal(clusters) + people.tract_spread * field
        # Minus half the variance: the mean weight of a group stays its share.
        departure -= (people.county_spread**2 + people.tract_spread**2) / 2
        result: Floats = self._log_weight + departure[:, self._cluster]
        return result


def _weights(origin: Origin, people: OriginHabits) -> tuple[Floats, Ints]:
    """For each of ``origin.codes()`` its weight, and the number of its group (negative: none, the code is alone)."""
    general = parse(origin.code).code
    weight, group = {general: origin.unspecified}, {general: -1}
    shares = sum(region.share for region in origin.regions)
    for region in origin.regions:
        groups = [each for each in region.groups if each.only != "coarse"]
        lists = [[parse(text).code for text in each.codes] for each in groups]
        rare = [people.rare if each.only == "total" else 1.0 for each in groups]
        for codes in lists:
            group |= dict.fromkeys(codes, max(0, *group.values()) + 1)
        if region.code:
            lists.append([parse(region.code).code])
            rare.append(1.0)
            group[lists[-1][0]] = min(group.values()) - 1
        part = (1 - origin.unspecified) * region.share / shares
        for codes, of_group in zip(lists, _zipf(np.array(rare), people.zipf), strict=True):
            weight |= dict(zip(codes, part * of_group * _zipf(np.ones(len(codes)), people.zipf), strict=True))
    order = [code.code for code in origin.codes()]
    return np.array([weight[code] for code in order]), np.array([group[code] for code in order])


def _zipf(factor: Floats, power: float) -> Floats:
    """Shares in proportion to the factor over the rank to the power."""
    weight = factor * np.arange(1, len(factor) + 1) ** -power
    result: Floats = weight / weight.sum()
    return result


def _tract_of_block(blocks: pa.RecordBatch) -> Ints:
    """The position of each block's tract in its county: tracts are numbered 000100, 000200, ..."""
    number = pc.utf8_slice_codeunits(blocks.column("tract"), 5, 9).cast(pa.int64())
    result: Ints = number.to_numpy() - 1
    return result


def _middles(population: Population, county: int) -> Floats:
    """A point in each tract of a county, in people space: the middle of its first block group."""
    groups = population.county(county).block_groups
    first = np.flatnonzero(np.diff(groups.tract, prepend=-1))
    corner = groups.corner[first]
    result: Floats = (corner[:, :2] + corner[:, 2:]) / 2
    return result


def _leftmost(given: Answers, nobody: int) -> Answers:
    """Up to eight codes of each person without gaps: one of each race first, so that none is lost, then the others."""
    count = len(given)
    flat = np.concatenate([given[:, :, 0], given[:, :, 1:].reshape(count, -1)], axis=1)
    there: Bools = flat != NONE
    place = np.cumsum(there, axis=1) - 1
    row, column = np.nonzero(there & (place < MOST_CODES))
    result: Answers = np.full((count, MOST_CODES), nobody, dtype=np.int16)
    result[row, place[row, column]] = flat[row, column]
    return result
