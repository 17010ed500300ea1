"""What one record could say instead: the eight cases of section 7, the 2020 set, and brute force on small data."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.lab.risk.invariant_sets import load_invariants, parse_invariants
from confide.privacy.invariants import ANY, Invariants, single_record
from confide.privacy.invariants.language import blocking, facets, routes

ALONE = "the group quarters of its type in the block have one person each"
NO_UNITS = "the block has no housing units"
NO_QUARTERS = "the block has no group quarters of the type"
FULL = "every housing unit of the block has a householder"
NAMES = ("block", "relationship", "housing", "sex", "age", "voting_age", "ethnicity", "race")

# The statuses of section 7, in the order of NAMES: F free, C coarse, D depends on the data, X fixed.
CASES = {
    "C1": "X F F F F F F F",
    "C1 C2": "X F F F C X F F",
    "C1 C3": "X D D F F F F F",
    "C1 C4": "X D D F F F F F",
    "C1 C5": "X D D D D D F F",
    "C3 C5": "D D D D D D F F",
    "C1 C3 C5": "X D D D D D F F",
    "C1 C2 C3 C4 C5": "X D D D C X F F",
}
LETTERS = {"F": "free", "C": "coarse", "D": "data", "X": "fixed"}


@pytest.mark.parametrize(("names", "letters"), CASES.items())
def test_the_eight_cases(names: str, letters: str) -> None:
    answers = single_record(load_invariants(names.split()))
    assert [answers[name].status.value for name in NAMES] == [LETTERS[letter] for letter in letters.split()]
    for answer in answers.values():
        assert answer.multiplier == (None if answer.status == "fixed" else 2)


def test_case_2_age_within_voting_age() -> None:
    answers = single_record(load_invariants(["C1", "C2"]))
    assert answers["age"].cells == ("under 18", "18 and over")
    assert answers["voting_age"].stuck == ("under 18", "18 and over")


def test_case_3_quarters_in_a_block_without_housing_units() -> None:
    housing = single_record(load_invariants(["C1", "C3"]))["housing"]
    assert [item.when for item in housing.exceptions] == [(NO_UNITS,)]
    assert set(housing.depends_on) == {NO_UNITS, FULL}


def test_case_4_householders_stay_householders() -> None:
    housing = single_record(load_invariants(["C1", "C4"]))["housing"]
    assert housing.stuck == ("householder",)
    assert set(housing.cells) == {"householder", "other member of a household, group quarters"}
    assert [item.when for item in housing.exceptions] == [("the block has no occupied housing units",)]


def test_case_5_alone_in_quarters_with_limits() -> None:
    answers = single_record(load_invariants(["C1", "C5"]))
    for name in ("housing", "relationship", "sex", "voting_age"):
        assert (ALONE,) in {item.when for item in answers[name].exceptions}, name
    assert not answers["age"].exceptions  # inside of the limits of the quarters, age can be changed


def test_case_6_two_ways_to_count_quarters() -> None:
    answers = single_record(load_invariants(["C3", "C5"]))
    for name in ("block", "relationship", "sex", "voting_age"):
        assert {item.when for item in answers[name].exceptions} == {(ALONE,)}
    vacant = single_record(load_invariants(["C3", "C5-vacant"]))
    assert {answer.status.value for answer in vacant.values()} == {"free"}


def test_case_7_does_not_keep_householders_although_the_paper_says_so() -> None:
    """Restriction (3) of Case 7 needs C4. Without it, householders can become something else where there is room."""
    housing = single_record(load_invariants(["C1", "C3", "C5"]))["housing"]
    assert housing.stuck == ()
    assert housing.cells == ()
    with_c4 = single_record(load_invariants(["C1", "C3", "C4", "C5"]))["housing"]
    assert with_c4.stuck == ("householder",)


def test_2020_everything_but_the_state() -> None:
    answers = single_record(load_invariants(["2020"]))
    assert {name: a.status.value for name, a in answers.items()} == {
        "state": "fixed", "block": "data", "hhgq": "data", "votingage": "data", "hispanic": "free", "cenrace": "free",
    }  # fmt: skip
    assert answers["block"].cells == ("the same state",)
    for name in ("block", "hhgq", "votingage"):
        assert {item.when for item in answers[name].exceptions} == {(ALONE,)}


def test_a_total_of_all_records_fixes_nothing() -> None:
    found = parse_invariants({"id": "n", "attributes": {"a": {"levels": 2}}, "counts": [{"by": "all"}]}, "n.toml")
    assert {answer.status.value for answer in single_record(found).values()} == {"free"}


def test_blocking_sets_are_minimal_hitting_sets() -> None:
    a, b, c = (frozenset({(n, True)}) for n in range(3))
    assert set(blocking([a | b, a | c])) == {a, b | c}  # type: ignore[arg-type]


# --- Brute force: every data set, every replacement. ---


def toy(*parts: str) -> Invariants:
    counts = {
        "C1": {"by": "block"},
        "C2": {"by": "block", "where": {"adult": ["yes"]}},
        "C4": {"by": "block", "where": {"status": ["H"]}},
        "state": {"by": "state"},
    }
    bounds: dict[str, list[dict[str, Any]]] = {
        "C3": [
            {"name": "one", "by": "block", "attribute": "status", "units": {"H": "units"}, "at_most": 1},
            {"name": "any", "by": "block", "attribute": "status", "units": {"home": "units"}, "at_most": ANY},
        ],
        "C5": [
            {"name": "gq", "by": "block", "attribute": "status", "units": {"G": "gq"}, "at_least": 1, "at_most": ANY}
        ],
    }
    values = {
        "id": " ".join(parts),
        "geography": ["state", "block"],
        "attributes": {
            "adult": {"levels": ["yes", "no"]},
            "status": {"levels": ["H", "N", "G"], "groups": {"home": ["H", "N"]}},
        },
        "counts": [counts[part] for part in parts if part in counts],
        "bounds": [bound for part in parts for bound in bounds.get(part, [])],
        "never": [{"where": {"status": ["G"], "adult": ["no"]}}] if "C5" in parts else [],
    }
    return parse_invariants(values, "toy.toml")


TOYS = [
    toy(*parts.split())
    for parts in ("C1", "C1 C2", "C1 C3", "C1 C4", "C1 C5", "C3 C5", "C1 C3 C5", "C1 C2 C3 C4 C5", "state C3 C5")
]
# Block 0 is the one looked at; 1 is in the same state, 2 in another, both with room for everybody.
STATE = (0, 0, 1)
Person = tuple[int, str, str]  # block, adult, status


def holds(invariants: Invariants, people: list[Person], units: dict[tuple[int, str], int]) -> bool:
    """Whether bounds and edit rules hold, counted from the people."""
    if any((adult, status) == ("no", "G") for _, adult, status in people) and invariants.never:
        return False
    for bound in invariants.bounds:
        for block in range(3):
            number = sum(b == block and s in bound.where["status"] for b, _, s in people)
            there = units[block, bound.units]
            if number < bound.at_least * there:
                return False
            if bound.at_most == ANY and not there and number:
                return False
            if isinstance(bound.at_most, int) and number > bound.at_most * there:
                return False
    return True


def totals(invariants: Invariants, people: list[Person]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for n, count in enumerate(invariants.counts):
        for block, adult, status in people:
            levels = {"adult": adult, "status": status}
            if all(levels[name] in allowed for name, allowed in count.where.items()):
                found[n, STATE[block] if count.by == "state" else block] += 1
    return found


ROOM = [(block, "yes", status) for block in (1, 2) for status in "HNGG" for _ in range(3)]


@settings(max_examples=120, deadline=None)
@given(
    which=st.sampled_from(range(len(TOYS))),
    own=st.lists(st.tuples(st.just(0), st.sampled_from(["yes", "no"]), st.sampled_from("HNG")), min_size=1, max_size=4),
    units=st.integers(0, 3),
    quarters=st.integers(0, 2),
)
def test_routes_against_every_replacement(which: int, own: list[Person], units: int, quarters: int) -> None:
    """For a record in block 0, what can be reached by routes whose needs are met is what brute force can reach."""
    invariants = TOYS[which]
    frame = {(0, "units"): units, (0, "gq"): quarters}
    frame |= {(block, name): {"units": 9, "gq": 2}[name] for block in (1, 2) for name in ("units", "gq")}
    people = own + ROOM
    if not holds(invariants, people, frame):
        return
    record, others = people[0], people[1:]
    allowed = [
        new
        for new in product(range(3), ["yes", "no"], "HNG")
        if holds(invariants, [*others, new], frame) and totals(invariants, [*others, new]) == totals(invariants, people)
    ]
    world = invariants.world
    kind = kind_of(invariants, record)

    def met(bound: int, leaves: bool) -> bool:
        said = invariants.bounds[bound]
        number = sum(b == 0 and s in said.where["status"] for b, _, s in people)
        there = frame[0, said.units]
        if leaves:
            return number > said.at_least * there
        return there > 0 if said.at_most == ANY else number < int(said.at_most or 0) * there

    for facet in facets(world):
        expected = {
            facet.value(kind_of(invariants, new), 0 if new[0] == 0 else 1 if STATE[new[0]] == 0 else 2)
            for new in allowed
        }
        found = {
            value
            for value, many in routes(facet, kind).items()
            if any(all(met(need.bound, need.leaves) for need in route) for route in many)
        }
        assert found == expected, (invariants.names, facet.name, record)


def kind_of(invariants: Invariants, person: Person) -> tuple[int, ...]:
    """The kind of a person: for each attribute the atom that has its level."""
    return tuple(
        next(n for n, atom in enumerate(atoms) if level in atom)
        for atoms, level in zip(invariants.world.atoms, person[1:], strict=True)
    )
