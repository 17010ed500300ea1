"""The rules of the optimised spine one by one: flags, entity strings, block groups, tract groups, bypass."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from importlib import resources
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InputError, SpecError
from confide.geography import OUTSIDE, Geolevel, build_spine
from confide.mechanisms.topdown.build_spine import (
    AreaTypes,
    aian_flags,
    block_groups,
    build_topdown_spine,
    divisions_or_places,
    off_spine_entities,
    parse_area_types,
    parse_strong_mcd_states,
    split_areas,
    subset_groups,
    tract_groups,
)


def shipped(name: str) -> dict[str, object]:
    return tomllib.loads((resources.files("confide") / "data" / "geography" / f"{name}.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def types() -> AreaTypes:
    return parse_area_types(shipped("aiannh-types"))


def areas(*codes: str | None, name: str = "area") -> Geolevel:
    return build_spine({"block": [str(number) for number in range(len(codes))]}, {name: codes}).areas[0]


# The AIAN flag


SPLIT = ("0001", "4799", "4800", "4989", "5000", "5499", "5500", "5899", "5900", "5999", "6000", "7999", "9000", "9499")


def test_the_flag_by_code(types: AreaTypes) -> None:
    assert aian_flags(areas(*SPLIT), types).all()
    assert not aian_flags(areas("8000", "8999", "9500", "9998", "9999", None), types).any()
    assert aian_flags(areas(None, "2415", "9999"), types).tolist() == [False, True, False]


@pytest.mark.parametrize("code", ["4990", "4999", "0000", "123", "12345"])
def test_a_code_of_no_type_is_named(types: AreaTypes, code: str) -> None:
    with pytest.raises(InputError, match=f"row 2.*\n.*1 such codes, the first '{code}'"):
        aian_flags(areas("0010", code), types, file="blocks.parquet")


def test_types_that_cannot_be_used() -> None:
    good = {"name": "a", "first": "10", "last": "19", "split": True}
    rest = {"id": "x", "provenance": "y", "none": "99"}
    assert parse_area_types({**rest, "types": [good]}).type_of("15") is not None
    with pytest.raises(SpecError) as caught:
        parse_area_types({"types": [{**good, "last": "9"}, {**good, "split": 1}, "a", {"name": "b"}]})
    assert len(caught.value.findings) == 3 + 4 + 1
    with pytest.raises(SpecError, match="'a' and 'b' have codes in common"):
        parse_area_types({**rest, "types": [good, {**good, "name": "b", "first": "19", "last": "20"}]})


# Entity strings


def test_strings_by_division_place_area_and_quarters() -> None:
    strong = parse_strong_mcd_states(shipped("strong-mcd-states"))
    assert len(strong) == 12
    frame = build_spine(
        {"state": ["44", "44", "44", "06", "06", "06"], "block": list("abcdef")},
        {
            "division": ["05140", "05140", "99999", "90010", "90010", "90010"],
            "place": ["11111", None, "22222", "33333", "99999", None],
            "area": ["9999", "2415", "9999", "0010", None, "8000"],
        },
    )
    flag = np.array([False, True, False, True, False, False])
    entity = divisions_or_places(
        frame.level("state"), strong, division=frame.level("division"), place=frame.level("place"), split=flag
    )
    quarters = np.zeros((6, 7), np.bool_)
    quarters[0, 0] = quarters[2, 6] = quarters[2, 4] = True
    found = off_spine_entities([entity, split_areas(frame.level("area"), flag)], quarters)
    assert [found.strings[index] for index in found.string_of_block] == [
        "0514099991000000",  # strong State, no flag: the division
        "9999924150000000",  # strong State with the flag: the place, here none; and the area
        "9999999990000101",  # no division; its place does not count
        "3333300100000000",
        "9999999990000000",
        "9999999990000000",  # an area of a type that is not split off
    ]
    assert (entity.unit_of_block == OUTSIDE).tolist() == [False, True, True, False, True, True]
    units = off_spine_entities([entity, split_areas(frame.level("area"), flag)])
    assert len(units.strings) == 4
    by_place = divisions_or_places(frame.level("state"), strong, place=frame.level("place"))
    assert [by_place.codes[unit] for unit in by_place.unit_of_block if unit != OUTSIDE] == ["11111", "22222", "33333"]
    assert (divisions_or_places(frame.level("state"), strong).unit_of_block == OUTSIDE).all()


def test_the_list_of_strong_states_is_checked() -> None:
    with pytest.raises(SpecError, match="codes as text"):
        parse_strong_mcd_states({"states": [9]})


# A: block groups


def test_a_block_groups_fill_one_after_the_other() -> None:
    """Ten blocks: at most int(sqrt(10)) + 1 = 4 in a group. Nine of one string, by their codes: 4, 4, 1."""
    rank = np.array([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    string = np.array([1, 1, 1, 1, 0, 1, 1, 1, 1, 1])
    assert block_groups(np.zeros(10, np.int64), string, rank, fanout=0).tolist() == [3, 2, 2, 2, 0, 2, 1, 1, 1, 1]


def test_a_the_cutoff_of_production() -> None:
    """int(sqrt(20) + 12) + 1 = 17."""
    group = block_groups(np.zeros(20, np.int64), np.zeros(20, np.int64), np.arange(20))
    assert np.bincount(group).tolist() == [17, 3]


# B: tract groups


def groups_of(tracts: list[str], fanout: int, threshold: int) -> list[int]:
    """The tract group of each tract of one county. A tract is given by the entities of its blocks, ``-`` for none."""
    codes = [f"{number:02d}{position}" for number, tract in enumerate(tracts) for position, _ in enumerate(tract)]
    entity = [None if each == "-" else each for tract in tracts for each in tract]
    tract = np.array([int(code[:2]) for code in codes])
    entities = off_spine_entities([areas(*entity)])
    number = block_groups(tract, entities.string_of_block, np.arange(len(codes)))
    group = np.unique(tract * 1000 + number, return_inverse=True)[1]
    found = tract_groups(np.zeros_like(tract), tract, group, entities, fanout=fanout, threshold=threshold)
    by_tract = dict(zip(tract.tolist(), found.tolist(), strict=True))
    assert [by_tract[each] for each in tract.tolist()] == found.tolist()
    return [by_tract[each] for each in range(len(tracts))]


def test_b1_tracts_with_the_same_entities_are_merged_in_chunks() -> None:
    """Five tracts: cutoff 2. Entity A has distance 1 whatever the groups, and no two groups fit into one."""
    assert groups_of(["A", "A", "A", "A", "A"], fanout=0, threshold=0) == [0, 0, 1, 1, 2]
    assert groups_of(["A", "AB", "A", "BA", "-A"], fanout=0, threshold=0) == [0, 1, 0, 1, 2]


def test_b2_without_a_distant_entity_all_are_merged_in_chunks() -> None:
    assert groups_of(["A", "A", "A", "A", "A"], fanout=0, threshold=9) == [0, 0, 0, 0, 1]
    assert groups_of(["A", "B", "C", "-", "D"], fanout=0, threshold=9) == [0, 0, 1, 1, 2]


def test_b3_a_merger_that_raises_a_distance_is_refused() -> None:
    """Merging the third group into {0, 2} would raise the distance of A from 1 to 2."""
    assert groups_of(["A", "-", "A"], fanout=2, threshold=0) == [0, 1, 0]


def test_b3_a_merger_that_does_not_raise_the_list_is_made() -> None:
    """Tracts of A and B with distance 2 each. Together, {A} and {A, B} of one block group each, cost no more."""
    assert groups_of(["A-", "AB", "-B"], fanout=9, threshold=0) == by_the_book(["A-", "AB", "-B"], 10, 0)
    assert len(set(groups_of(["A", "B", "C", "D"], fanout=9, threshold=0))) == 1


def distances(tree: list[list[str]], entities: list[str]) -> list[int]:
    """The distances of the entities from the root of groups of tracts, by the recursion on every unit."""

    def step(children: list[tuple[int, int]]) -> tuple[int, int]:
        a, b = (sum(part) for part in zip(*children, strict=True))
        return min(a, b + 1), min(a + 1, b)

    def of(k: str) -> int:
        # No tract here has more blocks of a string than a block group takes.
        groups = [[step([block_group(each, tract, k) for each in sorted(set(tract))]) for tract in g] for g in tree]
        return step([step(group) for group in groups])[0]

    def block_group(string: str, tract: str, k: str) -> tuple[int, int]:
        return step([(int(each == k), int(each != k)) for each in tract if each == string])

    return [of(k) for k in entities]


def by_the_book(tracts: list[str], cutoff: int, threshold: int) -> list[int]:
    """The search of tract groups as it is written down, without any short cut."""
    members: dict[str, list[int]] = {}
    for number, tract in enumerate(tracts):
        members.setdefault("".join(sorted(set(tract))), []).append(number)
    groups = sorted(part[i : i + cutoff] for part in members.values() for i in range(0, len(part), cutoff))
    present = sorted(set("".join(tracts)) - {"-"})

    def bound(k: str) -> int:
        # Without the level of tract groups: the county's children are the tracts. A group of one tract adds nothing.
        return distances([[tract] for tract in tracts], [k])[0]

    kept = [k for k in present if bound(k) > threshold]
    if not kept:
        groups = [sorted(chain(*groups[i : i + cutoff])) for i in range(0, len(groups), cutoff)]
    else:

        def objective(of: list[list[int]]) -> list[int]:
            return sorted(distances([[tracts[t] for t in group] for group in of], kept), reverse=True)

        frozen: list[list[int]] = []
        merged = True
        while merged and len(groups) > 1:
            merged = False
            open_groups = [group for group in groups if group not in frozen]
            for i, one in enumerate(open_groups[:-1]):
                for other in open_groups[i + 1 :]:
                    rest = [group for group in groups if group not in (one, other)]
                    position = groups.index(one)
                    trial = [*rest[:position], one + other, *rest[position:]]
                    if len(one) + len(other) <= cutoff and objective(trial) <= objective(groups):
                        groups, merged = trial, True
                        break
                if merged:
                    break
                frozen.append(one)
    result = [0] * len(tracts)
    for number, group in enumerate(sorted(sorted(group) for group in groups)):
        for tract_number in group:
            result[tract_number] = number
    return result


@given(
    st.lists(st.text("ABC-", min_size=1, max_size=5), min_size=1, max_size=9),
    st.integers(0, 6),
    st.integers(0, 3),
)
@settings(deadline=None, max_examples=300)
def test_b_as_written(tracts: list[str], fanout: int, threshold: int) -> None:
    cutoff = int(np.sqrt(len(tracts)) + fanout)
    assert groups_of(tracts, fanout, threshold) == by_the_book(tracts, cutoff, threshold)


# C and D: bypass


def test_c_shares_cascade_to_the_tract() -> None:
    """Tract 11 has one block group with one block; tract 12 one with two blocks; tract 13 two with one block each."""
    codes = ["1111", "1211", "1212", "1311", "1321"]
    frame = build_spine(
        {
            "county": ["1"] * 5,
            "tract": [code[:2] for code in codes],
            "block_group": [code[:3] for code in codes],
            "block": codes,
        }
    )
    tenth = Fraction(1, 10)
    spine = build_topdown_spine(
        frame, {"county": tenth, "tract": 2 * tenth, "block_group": 3 * tenth, "block": 4 * tenth}
    )
    found = [[level.shares[unit] / tenth for unit in range(level.units)] for level in spine.levels]
    assert found == [[1], [9, 5, 2], [0, 0, 7, 7], [0, 4, 4, 0, 0]]


def test_d_one_county_gives_its_share_to_the_state() -> None:
    """State 1 has two counties, State 2 one; the nation's share stays, with a nation of one State it grows."""
    codes = ["111", "112", "121", "122", "211", "212"]
    frame = build_spine(
        {"nation": ["n"] * 6, "state": [c[:1] for c in codes], "county": [c[:2] for c in codes], "block": codes}
    )
    tenth = Fraction(1, 10)
    shares = {"nation": tenth, "state": 2 * tenth, "county": 3 * tenth, "block": 4 * tenth}
    spine = build_topdown_spine(frame, shares)
    found = [[level.shares[unit] / tenth for unit in range(level.units)] for level in spine.levels]
    assert found == [[1], [2, 5], [3, 3, 0], [4] * 6]
    alone = build_topdown_spine(frame, shares, with_units=np.array([False] * 4 + [True] * 2))
    assert [[level.shares[0] / tenth] for level in alone.levels] == [[6], [0], [0], [4]]


def test_d_the_root_is_whole_and_the_level_below_it_split() -> None:
    codes = ["4411", "4412", "4421", "4422"]
    frame = build_spine(
        {"nation": ["us"] * 4, "state": ["44"] * 4, "county": [code[:3] for code in codes], "block": codes}
    )
    flag = np.array([False, True, False, False])
    state = build_topdown_spine(frame, {"state": "1/2", "county": "1/4", "block": "1/4"}, split=flag)
    assert state.ids("state").tolist() == ["44"]
    assert state.ids("county").tolist() == ["0441", "0442", "1441"]
    assert state.level("county").official is not None
    assert state.level("county").official.tolist() == [0, 1, 0]
    nation = build_topdown_spine(frame, {"nation": "1/4", "state": "1/4", "county": "1/4", "block": "1/4"}, split=flag)
    assert nation.ids("state").tolist() == ["044", "144"]
    assert nation.ids("county").tolist() == state.ids("county").tolist()
    # The part with the flag is one block: the State-level unit takes it all.
    assert [nation.level("state").shares[unit] for unit in (0, 1)] == [Fraction(1, 4), Fraction(3, 4)]
    assert nation.official_of_unit("state", "state").tolist() == [0, 0]
    plain = build_topdown_spine(
        frame, {"nation": "1/4", "state": "1/4", "county": "1/4", "block": "1/4"}, split=np.zeros(4, np.bool_)
    )
    assert plain.level("nation").shares[0] == Fraction(1, 2)
    assert not plain.level("state").measured.any()


def test_tract_subsets_are_grouped_within_each_prim_in_order() -> None:
    # Three prims with 1, 5 and 4 tract subsets, two blocks in each; with fanout 0 groups hold 2, 3 and 3 of them.
    subset = np.repeat(np.arange(10), 2)
    prim = np.repeat([0, *[1] * 5, *[2] * 4], 2)
    assert subset_groups(prim, subset, 0)[::2].tolist() == [0, 0, 0, 0, 1, 1, 0, 0, 0, 1]
    shuffled = np.random.default_rng(3).permutation(20)
    assert (subset_groups(prim[shuffled], subset[shuffled], 0) == subset_groups(prim, subset, 0)[shuffled]).all()
    # In production groups hold int(sqrt(n) + 12 + 1): 16 of fifteen, 19 of forty.
    assert subset_groups(np.zeros(15, np.int64), np.arange(15)).tolist() == [0] * 15
    assert subset_groups(np.zeros(40, np.int64), np.arange(40)).tolist() == [0] * 19 + [1] * 19 + [2] * 2
