"""Made-up people with the variables of the Demographic and Housing Characteristics: what each is to the householder, or
in which type of group quarters.

The people are those of the same seed in every other layout: relationships are those of the households of SafeTab-H and
PHSafe (:class:`~confide.lab.population.official.Homes`). Types of quarters are drawn for whole facilities, among those
of the facility's major type in which everybody there may live. Which ages somebody of a relationship or in a type of
quarters may have is what the strategy ``dhc-persons`` says.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from confide.lab.population.generate import Population
from confide.lab.population.households import HOUSEHOLDER, column
from confide.lab.population.official import Homes
from confide.lab.population.settings import UNIT_FACILITIES, UNIT_HOMES, Bools, Ints, stream
from confide.mechanisms.topdown.strategy_file import load_strategy

CHARACTERISTICS_SCHEMA = pa.schema(
    [
        pa.field("geocode", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("household_id", pa.int64(), nullable=False),
        *(pa.field(name, pa.int8(), nullable=False) for name in ("relgq", "sex", "age", "hispanic", "cenrace")),
    ]
)
"""Columns of the records: the attributes of the schema ``dhc-persons``, the block, and who lives together."""

FIRST_RELATIONSHIP, OTHER_RELATIVE = 20, 14
"""RELSHIP of a householder; ``relgq`` of a relative whose age no other relationship has."""
STRATEGY = "dhc-persons"
TYPES = {
    1: {18: 0.04, 19: 0.08, 20: 0.40, 21: 0.33, 22: 0.15},
    2: {24: 0.5, 25: 0.35, 26: 0.15},
    3: {27: 1.0},
    4: {28: 0.4, 29: 0.15, 30: 0.25, 32: 0.2},
    5: {33: 1.0},
    6: {34: 0.8, 35: 0.2},
    7: {36: 0.15, 37: 0.45, 38: 0.2, 39: 0.02, 40: 0.08, 41: 0.1},
}
"""For each major type of quarters the codes of its types, and how common they are; some type of each has no oldest or
youngest that the ages of the made-up people could miss."""


def possible_ages() -> Bools:
    """Which ages people of a relationship, or in a type of quarters, may have: ``relgq`` x age."""
    strategy = load_strategy(STRATEGY, root="state")
    shape = [attribute.size for attribute in strategy.schema.attributes]
    never = strategy.constraints.zero_cells(strategy.schema).reshape(shape)
    by_age = never.transpose(0, 2, 1, 3, 4).reshape(shape[0], shape[2], -1)
    ages: Bools = np.logical_not(by_age.all(axis=2))
    return ages


def characteristics(population: Population) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Frame and records of every unit of work, in the order of the geocodes.

    Args:
        population: The people.

    Yields:
        The blocks, and rows of :data:`CHARACTERISTICS_SCHEMA`.
    """
    possible = possible_ages()
    for unit in population.units:
        blocks, persons = population.unit(unit)
        homes = Homes(blocks, persons, stream(population.seed, UNIT_HOMES, unit.index))
        own = {name: persons.column(name).to_numpy().astype(np.int64) for name in persons.schema.names[1:]}
        types = _facility_types(own, possible, stream(population.seed, UNIT_FACILITIES, unit.index))
        at_home = _relationships(own, possible, homes.relship, homes.size_of_person)
        relgq = np.where(own["hhgq"] > 0, types, at_home)
        values: dict[str, NDArray[np.int64]] = {**own, "relgq": relgq, "sex": own["sex"] - 1}
        columns = [column(values[each.name], each.type) for each in list(CHARACTERISTICS_SCHEMA)[1:]]
        yield (
            blocks,
            pa.RecordBatch.from_arrays([persons.column("geocode"), *columns], schema=CHARACTERISTICS_SCHEMA),
        )


def _relationships(own: dict[str, Ints], possible: Bools, relship: Ints, size: Ints) -> Ints:
    """``relgq`` of people in households: householders alone and with others, then RELSHIP in its order."""
    householder = np.where(size == 1, 0, 1)
    relgq = np.where(own["relationship"] == HOUSEHOLDER, householder, relship - FIRST_RELATIONSHIP + 1)
    relgq[own["hhgq"] > 0] = OTHER_RELATIVE  # has a type of quarters instead
    return np.where(possible[relgq, own["age"]], relgq, OTHER_RELATIVE)


def _facility_types(own: dict[str, Ints], possible: Bools, rng: np.random.Generator) -> Ints:
    """For everybody in quarters the type of the facility; zero for the others."""
    inside = np.flatnonzero(own["hhgq"] > 0)
    types = np.zeros(len(own["hhgq"]), np.int64)
    if not len(inside):
        return types
    _, first, facility = np.unique(own["household_id"][inside], return_index=True, return_inverse=True)
    facility = facility.reshape(-1)
    age, major = own["age"][inside], own["hhgq"][inside][first]
    point = rng.random(len(first))
    chosen = np.zeros(len(first), np.int64)
    for kind, common in TYPES.items():
        codes = np.array(list(common))
        unfit = [np.bincount(facility, weights=~possible[code, age], minlength=len(first)) for code in codes.tolist()]
        ends = np.cumsum(np.where(np.stack(unfit, axis=1) > 0, 0.0, list(common.values())), axis=1)
        place = (point[:, None] * ends[:, -1:] >= ends).sum(axis=1).clip(0, len(codes) - 1)
        chosen = np.where(major == kind, codes[place], chosen)
    types[inside] = chosen[facility]
    return types
