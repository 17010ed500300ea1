"""Made-up people are exactly as many as asked for, fit their frame, and make sense in their households."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from confide.errors import ParameterError
from confide.lab.population import PERSONS_SCHEMA, RACES, SUBSETS, Population
from confide.lab.population.households import CHILD, GROUP_QUARTERS, HOUSEHOLDER, OTHER, PARTNER, RELATIVE
from confide.lab.population.origins import CODE_OF_MASK, MASK_OF_CODE

PERSONS, SEED = 100_000, 7


class Columns:
    """The two tables as numpy columns; ``block`` is the row of a person's block in the frame."""

    def __init__(self, population: Population):
        self.frame = population.blocks()
        people = pa.Table.from_batches(population.person_batches())
        self.geocode = people["geocode"].cast(pa.string()).to_numpy()
        self.block = np.searchsorted(self.frame["geocode"].to_numpy(), self.geocode)
        for name in PERSONS_SCHEMA.names[1:]:
            setattr(self, name, people[name].to_numpy())

    household_id: NDArray[np.int64]
    relationship: NDArray[np.int8]
    age: NDArray[np.int8]
    sex: NDArray[np.int8]
    hhgq: NDArray[np.int8]
    cenrace: NDArray[np.int8]
    hispanic: NDArray[np.int8]
    votingage: NDArray[np.int8]

    def of_block(self, name: str) -> NDArray[np.int64]:
        return self.frame[name].to_numpy()


@pytest.fixture(scope="module")
def people() -> Columns:
    return Columns(Population(PERSONS, SEED))


@pytest.mark.parametrize("persons", [100, 101, 777, 1_000, 1_999, 10_000, 31_415, 65_537, 250_001])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_exactly_as_many_as_asked_for(persons: int, seed: int) -> None:
    population = Population(persons, seed)
    assert sum(batch.num_rows for batch in population.person_batches()) == persons


def test_the_codes_of_race_are_all_subsets_by_size_then_order() -> None:
    assert len(RACES) == 6
    assert list(SUBSETS) == [subset for size in range(1, 7) for subset in combinations(range(6), size)]
    assert SUBSETS[:7] == ((0,), (1,), (2,), (3,), (4,), (5,), (0, 1))
    assert SUBSETS[62] == (0, 1, 2, 3, 4, 5)
    assert CODE_OF_MASK[MASK_OF_CODE].tolist() == list(range(63))


def test_the_codes_are_in_their_ranges(people: Columns) -> None:
    for name, low, high in (
        ("relationship", 0, 5),
        ("age", 0, 115),
        ("sex", 1, 2),
        ("hhgq", 0, 7),
        ("cenrace", 0, 62),
        ("hispanic", 0, 1),
    ):
        values = getattr(people, name)
        assert low <= values.min(), name
        assert values.max() <= high, name
    assert np.array_equal(people.votingage, people.age >= 18)
    assert set(np.unique(people.hhgq)) == set(range(8))
    assert set(np.unique(people.relationship)) == set(range(6))


def test_every_person_is_in_a_block_of_the_frame_in_order(people: Columns) -> None:
    assert np.array_equal(people.of_block("geocode")[people.block], people.geocode)
    assert (np.diff(people.block) >= 0).all()
    assert (np.diff(people.household_id) >= 0).all()


def test_a_household_or_facility_is_in_one_block_and_of_one_kind(people: Columns) -> None:
    change = np.diff(people.household_id) != 0
    assert not (np.diff(people.block)[~change]).any()
    assert not (np.diff(people.hhgq)[~change]).any()
    ids, first = np.unique(people.household_id, return_index=True)
    assert len(ids) == 1 + change.sum()
    assert np.array_equal(np.sort(first), np.flatnonzero(np.concatenate(([True], change))))


def test_occupied_units_are_the_households(people: Columns) -> None:
    home = people.hhgq == 0
    ids, first = np.unique(people.household_id[home], return_index=True)
    households = np.bincount(people.block[home][first], minlength=people.frame.num_rows)
    assert np.array_equal(households, people.of_block("occupied_units"))
    assert (people.of_block("housing_units") >= people.of_block("occupied_units")).all()
    assert len(ids) == people.of_block("occupied_units").sum()


@pytest.mark.parametrize("kind", range(1, 8))
def test_facilities_are_those_of_the_frame(people: Columns, kind: int) -> None:
    inside = people.hhgq == kind
    _, first = np.unique(people.household_id[inside], return_index=True)
    facilities = np.bincount(people.block[inside][first], minlength=people.frame.num_rows)
    assert np.array_equal(facilities, people.of_block(f"gq{kind}"))
    assert facilities.sum() > 0


def test_nobody_lives_where_nothing_stands(people: Columns) -> None:
    stands = people.of_block("housing_units") + sum(people.of_block(f"gq{kind}") for kind in range(1, 8))
    persons = np.bincount(people.block, minlength=people.frame.num_rows)
    assert not persons[stands == 0].any()
    assert persons.sum() == PERSONS


@pytest.mark.parametrize(
    ("kind", "low", "high"), [(1, 18, 84), (2, 8, 17), (3, 18, 115), (5, 17, 29), (6, 17, 49)], ids=lambda value: value
)
def test_structural_zeros_of_group_quarters(people: Columns, kind: int, low: int, high: int) -> None:
    ages = people.age[people.hhgq == kind]
    assert low <= ages.min()
    assert ages.max() <= high


def test_most_people_in_nursing_facilities_are_old(people: Columns) -> None:
    assert (people.age[people.hhgq == 3] >= 65).mean() > 0.75


def test_group_quarters_and_relationship_agree(people: Columns) -> None:
    assert np.array_equal(people.relationship == GROUP_QUARTERS, people.hhgq > 0)


def test_every_household_has_one_adult_householder_who_comes_first(people: Columns) -> None:
    home = people.hhgq == 0
    _, first = np.unique(people.household_id[home], return_index=True)
    householder = people.relationship[home] == HOUSEHOLDER
    assert np.array_equal(np.flatnonzero(householder), first)
    assert people.age[home][first].min() >= 18


def _householder_of_each(people: Columns) -> NDArray[np.int64]:
    """The row of the householder of each person's household."""
    first = np.concatenate(([True], np.diff(people.household_id) != 0))
    return np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))


def test_partners_are_adults_near_in_age_at_most_one_a_household(people: Columns) -> None:
    partner = np.flatnonzero(people.relationship == PARTNER)
    assert len(np.unique(people.household_id[partner])) == len(partner)
    householder = _householder_of_each(people)[partner]
    assert people.age[partner].min() >= 18
    gap = people.age[partner].astype(int) - people.age[householder]
    assert np.abs(gap).mean() < 6
    assert 0.97 < (people.sex[partner] != people.sex[householder]).mean() < 1


def test_children_are_18_to_42_years_younger_than_the_younger_parent(people: Columns) -> None:
    child = np.flatnonzero(people.relationship == CHILD)
    householder = _householder_of_each(people)[child]
    younger = people.age[householder].astype(int)
    has_partner = people.relationship[np.minimum(householder + 1, PERSONS - 1)] == PARTNER
    partner_age = people.age[np.minimum(householder + 1, PERSONS - 1)]
    younger = np.where(has_partner, np.minimum(younger, partner_age), younger)
    gap = younger - people.age[child]
    assert gap.min() >= 18
    assert gap.max() <= 42


def test_race_runs_in_households(people: Columns) -> None:
    householder = _householder_of_each(people)
    same = (people.cenrace == people.cenrace[householder]) & (people.hispanic == people.hispanic[householder])
    for code, low, high in ((PARTNER, 0.80, 0.95), (CHILD, 0.80, 0.95), (RELATIVE, 0.85, 0.98), (OTHER, 0.5, 0.85)):
        assert low < same[people.relationship == code].mean() < high


def test_children_of_mixed_couples_are_often_of_both_races(people: Columns) -> None:
    child = np.flatnonzero(people.relationship == CHILD)
    householder = _householder_of_each(people)[child]
    partner = np.minimum(householder + 1, PERSONS - 1)
    races = MASK_OF_CODE[people.cenrace]
    mixed = (people.relationship[partner] == PARTNER) & (races[partner] != races[householder])
    both = races[child] == races[partner] | races[householder]
    assert mixed.sum() > 500
    assert 0.5 < both[mixed].mean() < 0.9


@pytest.mark.parametrize("persons", [99, 0, -1, 400_000_001, 1e5, "100000", True, None])
def test_other_numbers_of_persons_are_refused(persons: object) -> None:
    with pytest.raises(ParameterError) as caught:
        Population(persons, 7)  # type: ignore[arg-type]
    assert [finding.code for finding in caught.value.findings] == ["persons-out-of-range"]
    assert caught.value.findings[0].remedy


@pytest.mark.parametrize("seed", [-1, 2**64, 7.0, "7", False, None])
def test_other_seeds_are_refused(seed: object) -> None:
    with pytest.raises(ParameterError) as caught:
        Population(10_000, seed)  # type: ignore[arg-type]
    assert [finding.code for finding in caught.value.findings] == ["seed-out-of-range"]


def test_both_findings_are_given_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        Population(1, -1)
    assert len(caught.value.findings) == 2
