"""The spine of a top-down release: properties that hold for every frame, and plain spines."""

from __future__ import annotations

import doctest
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import isqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InputError, ParameterError
from confide.geography import OUTSIDE, build_spine
from confide.mechanisms.topdown.build_spine import (
    Optimisation,
    build_topdown_spine,
    divisions_or_places,
    off_spine_entities,
    primitive_areas,
    split_areas,
)
from confide.mechanisms.topdown.spine import Shares, TopDownSpine, check_path_sums, path_sums

WITH_GROUPS = ("nation", "state", "county", "tract_group", "tract", "block_group", "block")
FROM_NATION = ("nation", "state", "county", "tract", "block_group", "block")
FROM_STATE = ("state", "county", "tract", "block_group", "block")
WITH_PRIMS = ("nation", "state", "county", "prim", "tract_subset_group", "tract_subset", "block_group", "block")
STRONG = {"1"}


@dataclass(frozen=True)
class Block:
    """A row of a block table: state 1, county 2, tract 3, block group 4 and block 6 digits of the code."""

    code: str
    place: str | None
    division: str | None
    area: str | None
    quarters: tuple[bool, bool]
    units: bool


@st.composite
def block_tables(draw: st.DrawFn, states: str = "12") -> list[Block]:
    # Often few tracts and few entities: then block groups of one string are cut by the number of their blocks.
    counties, tracts = draw(st.sampled_from([("12", "123"), ("1", "1"), ("1", "12")]))
    codes = draw(
        st.lists(
            st.tuples(*(st.sampled_from(part) for part in (states, counties, tracts, "12", "123", "12345"))).map(
                "".join
            ),
            min_size=1,
            max_size=90,
            unique=True,
        )
    )
    entity = st.sampled_from(draw(st.sampled_from([(None, "10", "20", "99"), (None, "99"), ("10",)])))
    quarters = st.sampled_from(draw(st.sampled_from([((False, False), (True, False), (False, True)), ((True, True),)])))
    area = st.sampled_from(draw(st.sampled_from([(None, None, "A"), (None,)])))
    blocks = [
        Block(
            code,
            draw(entity),
            draw(entity),
            draw(area),
            draw(quarters),
            draw(st.integers(0, 4)) > 0,
        )
        for code in codes
    ]
    return blocks if any(block.units for block in blocks) else [Block(*(*vars(blocks[0]).values(),)[:5], units=True)]


def shares_of(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Fraction]]:
    weights = st.lists(st.integers(0, 50), min_size=len(names), max_size=len(names)).filter(any)
    return weights.map(lambda all_: {n: Fraction(w, sum(all_)) for n, w in zip(names, all_, strict=True)})


def spine_of(blocks: list[Block], shares: dict[str, Fraction], *, fanout: int = 1) -> TopDownSpine:
    codes = [block.code for block in blocks]
    frame = build_spine(
        {
            "nation": ["all"] * len(codes),
            "state": [code[:1] for code in codes],
            "county": [code[:2] for code in codes],
            "tract": [code[:3] for code in codes],
            "block_group": [code[:4] for code in codes],
            "block": codes,
        },
        {
            "place": [block.place for block in blocks],
            "division": [block.division for block in blocks],
            "area": [block.area for block in blocks],
        },
    )
    split = np.array([block.area is not None for block in blocks])
    first = divisions_or_places(
        frame.level("state"), STRONG, division=frame.level("division"), place=frame.level("place"), split=split
    )
    kinds = [first, split_areas(frame.level("area"), split)]
    entities = off_spine_entities(kinds, np.array([block.quarters for block in blocks]))
    groups = "tract_group" if "tract_group" in shares else None
    areas = (frame.level("state"), STRONG)
    prims = primitive_areas(*areas, division=frame.level("division"), place=frame.level("place"))
    return build_topdown_spine(
        frame,
        shares,
        with_units=np.array([block.units for block in blocks]),
        split=split,
        optimise=Optimisation(
            entities,
            tract_groups=groups,
            prims=prims if "prim" in shares else None,
            fanout=fanout,
            entity_threshold=0,
        ),
    )


def string_of(block: Block) -> tuple[str, ...]:
    """The entity string as the definition has it."""
    strong = block.code[0] in STRONG and block.area is None
    entity = block.division if strong else block.place
    return (entity or "99", block.area or "9", *(str(int(each)) for each in block.quarters))


TREES = st.one_of(
    st.tuples(block_tables(), shares_of(FROM_NATION)),
    st.tuples(block_tables("1"), shares_of(FROM_STATE)),
    st.tuples(block_tables(), shares_of(WITH_GROUPS)),
)
PRIMS = st.tuples(block_tables(), shares_of(WITH_PRIMS))
ANY = st.one_of(TREES, PRIMS)


@given(ANY)
@settings(deadline=None)
def test_every_level_is_a_partition_and_nests(tree: tuple[list[Block], dict[str, Fraction]]) -> None:
    blocks, shares = tree
    spine = spine_of(blocks, shares)
    count = sum(block.units for block in blocks)
    assert spine.names == list(shares)
    assert sorted(spine.block_codes) == sorted(block.code for block in blocks if block.units)
    assert spine.levels[0].units == 1
    assert spine.levels[-1].units == count
    for above, level in pairwise(spine.levels):
        assert level.first_block[0] == 0
        assert level.first_block[-1] == count
        assert (np.diff(level.first_block) > 0).all()
        assert level.first_child[0] == above.first_child[0] == 0
        assert above.first_child[-1] == level.units
        for unit in range(above.units):
            children = above.children(unit)
            assert (level.parent[children] == unit).all()
            within = above.blocks(unit)
            assert within.start == level.first_block[children.start]
            assert within.stop == level.first_block[children.stop]
            assert spine.children(above.name, unit) == children
    ones = np.ones(count, np.int64)
    for level in spine.levels:
        assert (spine.roll_up(level.name, ones) == np.diff(level.first_block)).all()
        assert (np.bincount(spine.unit_of_block(level.name)) == np.diff(level.first_block)).all()


@given(ANY)
@settings(deadline=None)
def test_ids_are_unique_in_order_and_hierarchical(tree: tuple[list[Block], dict[str, Fraction]]) -> None:
    spine = spine_of(*tree)
    above: list[str] = []
    for position, level in enumerate(spine.levels):
        ids = spine.ids(level.name).tolist()
        assert ids == sorted(set(ids))
        assert len({len(text) for text in ids}) == 1
        if position > 1:
            assert all(text.startswith(above[parent]) for text, parent in zip(ids, level.parent, strict=True))
        above = ids
    assert all(text.endswith(code) for text, code in zip(above, spine.block_codes, strict=True))


@given(TREES)
@settings(deadline=None)
def test_below_the_root_a_unit_has_one_flag_and_one_official_unit(
    tree: tuple[list[Block], dict[str, Fraction]],
) -> None:
    spine = spine_of(*tree)
    table = {block.code: block for block in tree[0]}
    for level in spine.levels[1:]:
        for unit in range(level.units):
            assert len({table[code].area is None for code in spine.block_codes[level.blocks(unit)]}) == 1
        if level.official is not None:
            assert (spine.official_of_unit(level.name, level.name) == level.official).all()
            # As few units as flags and official units ask for: nothing else cuts.
            unit_keys = list(zip(level.official, spine.split[level.first_block[:-1]], strict=True))
            assert len(set(unit_keys)) == level.units


@given(TREES, st.integers(0, 3))
@settings(deadline=None)
def test_entities_are_unions_of_block_groups_within_a_tract(
    tree: tuple[list[Block], dict[str, Fraction]], fanout: int
) -> None:
    blocks, shares = tree
    spine = spine_of(blocks, shares, fanout=fanout)
    table = {block.code: block for block in blocks}
    strings = [string_of(table[code]) for code in spine.block_codes]
    groups, tracts = spine.level("block_group"), spine.level("tract")
    for tract in range(tracts.units):
        inside = tracts.blocks(tract)
        most = int(np.sqrt(inside.stop - inside.start) + fanout) + 1
        children = range(*tracts.children(tract).indices(groups.units))
        found = []
        for group in children:
            members = groups.blocks(group)
            assert members.stop - members.start <= most
            assert len(set(strings[members])) == 1
            assert list(spine.block_codes[members]) == sorted(spine.block_codes[members])
            found.append((strings[members.start], spine.block_codes[members.start], members.stop - members.start))
        # By string and then by code, each group full but the last of its string.
        assert found == sorted(found)
        for one, other in pairwise(found):
            assert one[0] != other[0] or one[2] == most


@given(ANY)
@settings(deadline=None)
def test_shares_move_from_only_children_and_paths_sum_to_one(
    tree: tuple[list[Block], dict[str, Fraction]],
) -> None:
    spine = spine_of(*tree)
    shares = list(tree[1].values())
    # One by one, from the bottom, as the rule is written.
    expected = [[share] * level.units for share, level in zip(shares, spine.levels, strict=True)]
    for position in range(len(shares) - 2, -1, -1):
        for unit in range(spine.levels[position].units):
            children = spine.levels[position].children(unit)
            if children.stop - children.start == 1:
                expected[position][unit] += expected[position + 1][children.start]
                expected[position + 1][children.start] = Fraction(0)
    for level, values in zip(spine.levels, expected, strict=True):
        assert [level.shares[unit] for unit in range(level.units)] == values
        assert level.measured.tolist() == [value > 0 for value in values]
        assert list(level.shares.table) == sorted(set(values))
    for block in range(spine.levels[-1].units):
        path = Fraction(0)
        unit = block
        for position in range(len(shares) - 1, -1, -1):
            path += spine.levels[position].shares[unit]
            unit = int(spine.levels[position].parent[unit]) if position else 0
        assert path == 1


@given(ANY, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_rows_does_not_matter(tree: tuple[list[Block], dict[str, Fraction]], random) -> None:
    blocks, shares = tree
    shuffled = list(blocks)
    random.shuffle(shuffled)
    one, other = spine_of(blocks, shares, fanout=0), spine_of(shuffled, shares, fanout=0)
    assert one.fingerprint() == other.fingerprint()
    assert (one.block_codes == other.block_codes).all()
    for a, b in zip(one.levels, other.levels, strict=True):
        assert (one.ids(a.name) == other.ids(b.name)).all()
        assert (a.parent == b.parent).all()
        assert (a.first_block == b.first_block).all()
        assert a.shares.table == b.shares.table
        assert (a.shares.index == b.shares.index).all()


def prim_of(block: Block) -> tuple[str, str, str]:
    """County, county subdivision where these are governments, and place; 99 for none."""
    division = block.division if block.code[0] in STRONG else None
    return block.code[:2], division or "99", block.place or "99"


@given(PRIMS, st.integers(0, 2))
@settings(deadline=None)
def test_prims_and_tract_subsets_are_what_counties_divisions_places_and_tracts_share(
    tree: tuple[list[Block], dict[str, Fraction]], fanout: int
) -> None:
    blocks, shares = tree
    spine = spine_of(blocks, shares, fanout=fanout)
    rows = {block.code: block for block in blocks}
    ordered = [rows[code] for code in spine.block_codes.tolist()]
    flagged = [(block.area is not None, *prim_of(block)) for block in ordered]
    by_definition = {
        "prim": flagged,
        "tract_subset": [(*key, b.code[:3]) for key, b in zip(flagged, ordered, strict=True)],
    }
    for name, keys in by_definition.items():
        pairs = {*zip(spine.unit_of_block(name).tolist(), keys, strict=True)}
        assert len(pairs) == len({unit for unit, _ in pairs}) == len({key for _, key in pairs})
    subset = spine.levels[5]
    for prim in range(spine.levels[3].units):
        groups = spine.children("prim", prim)
        sizes = np.bincount(subset.parent)[groups.start : groups.stop].tolist()
        most = isqrt(sum(sizes)) + fanout + 1
        assert all(size == most for size in sizes[:-1])
        assert 1 <= sizes[-1] <= most
    assert {level.official is None for level in spine.levels[3:7]} == {True}
    # Tracts follow each other from group to group.
    tracts = np.array([int(block.code[2]) for block in ordered])
    first = tracts[subset.first_block[:-1]]
    for prim in range(spine.levels[3].units):
        groups = spine.children("prim", prim)
        own = np.isin(subset.parent, np.arange(groups.start, groups.stop))
        assert (np.diff(first[own]) > 0).all()


def test_the_example_of_the_page_is_true() -> None:
    page = Path(__file__).parents[2] / "docs" / "concepts" / "topdown-spine.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert (failed, tried) == (0, 8)


def test_a_wrong_share_is_noticed() -> None:
    parents = [np.array([0, 0]), np.array([0, 0, 1])]
    half = Fraction(1, 2)
    good = (
        Shares((half,), np.zeros(1, np.int16)),
        Shares((Fraction(1, 4), half), np.array([0, 1], np.int16)),
        Shares((Fraction(0), Fraction(1, 4)), np.array([1, 1, 0], np.int16)),
    )
    check_path_sums(good, parents)
    bad = (*good[:2], Shares(good[2].table, np.array([1, 0, 0], np.int16)))
    assert path_sums(bad, parents).table == (Fraction(3, 4), Fraction(1))
    with pytest.raises(ParameterError, match="1 paths, the first sum 3/4"):
        check_path_sums(bad, parents)


def test_a_plain_spine_has_the_ids_of_its_codes() -> None:
    codes = ["FR11002", "FR11001", "FR12001", "FR20001"]
    frame = build_spine(
        {"country": ["FR"] * 4, "region": [c[:3] for c in codes], "department": [c[:4] for c in codes], "block": codes}
    )
    spine = build_topdown_spine(frame, {"country": "1/10", "region": "2/10", "department": "3/10", "block": "4/10"})
    assert [spine.ids(name).tolist() for name in spine.names] == [
        ["FR"],
        ["FR1", "FR2"],
        ["FR11", "FR12", "FR20"],
        ["FR11001", "FR11002", "FR12001", "FR20001"],
    ]
    assert [spine.level("region").shares[unit] for unit in (0, 1)] == [Fraction(1, 5), Fraction(9, 10)]
    assert [spine.level("department").shares[unit] for unit in (0, 1, 2)] == [Fraction(3, 10), Fraction(7, 10), 0]
    assert spine.level("block").measured.tolist() == [True, True, False, False]
    assert spine.rows.tolist() == [1, 0, 2, 3]


def test_codes_of_any_width_that_do_not_nest_as_text() -> None:
    frame = build_spine(
        {
            "country": ["Ö"] * 4,
            "land": ["Wien", "Wien", "Tirol", "Tirol"],
            "bezirk": ["W2", "W1", "A1", "A1"],
            "block": ["4", "30", "200", "1000"],
        }
    )
    spine = build_topdown_spine(frame, {"country": 0, "land": "1/2", "bezirk": "1/4", "block": "1/4"})
    assert spine.ids("land").tolist() == ["1", "2"]
    assert spine.ids("bezirk").tolist() == ["1A1", "2W1", "2W2"]
    assert spine.ids("block").tolist() == ["1A11", "1A12", "2W11", "2W21"]
    assert spine.block_codes.tolist() == ["1000", "200", "30", "4"]


def test_areas_without_a_block_on_the_spine_are_still_known() -> None:
    frame = build_spine(
        {"state": ["1"] * 3, "block": ["1a", "1b", "1c"]}, {"place": ["P", None, "Q"], "district": ["X", "X", "Y"]}
    )
    spine = build_topdown_spine(
        frame, {"state": "1/2", "block": "1/2"}, with_units=np.array([True, True, False]), split=np.zeros(3, np.bool_)
    )
    assert frame.level("place").codes == ("P", "Q")
    assert spine.official_of_block("place").tolist() == [0, OUTSIDE]
    assert spine.official_of_unit("state", "district").tolist() == [0]
    assert spine.ids("block").tolist() == ["01a", "01b"]
    with pytest.raises(ParameterError, match="'state' lie in more than one unit of 'place'"):
        spine.official_of_unit("state", "place")
    assert "| state | 1 | 1 | 2 | 1/2 × 1 |" in spine.describe()


def test_what_cannot_be_a_spine_is_refused() -> None:
    frame = build_spine({"nation": ["n"] * 2, "state": ["1", "2"], "block": ["1a", "2a"]})
    with pytest.raises(ParameterError, match=r"= 3/4"):
        build_topdown_spine(frame, {"nation": "1/4", "block": "1/2"})
    with pytest.raises(ParameterError, match="not negative"):
        build_topdown_spine(frame, {"nation": "3/2", "block": "-1/2"})
    with pytest.raises(ParameterError, match="floating-point"):
        build_topdown_spine(frame, {"nation": 0.5, "block": 0.5})  # type: ignore[dict-item]
    with pytest.raises(ParameterError, match="'state' with 2 units"):
        build_topdown_spine(frame, {"state": "1/2", "block": "1/2"})
    for names in (("block", "nation"), ("nation", "state"), ("nation", "village", "block"), ()):
        with pytest.raises(ParameterError, match="not those of the frame"):
            build_topdown_spine(frame, dict.fromkeys(names, Fraction(1, max(1, len(names)))))
    with pytest.raises(InputError, match="no block has a housing unit"):
        build_topdown_spine(frame, {"nation": "1/2", "block": "1/2"}, with_units=np.zeros(2, np.bool_))
    with pytest.raises(ParameterError, match="split does not fit"):
        build_topdown_spine(frame, {"nation": "1/2", "block": "1/2"}, split=np.zeros(3, np.bool_))
    made = Optimisation(off_spine_entities([], blocks=2), block_groups="groups")
    with pytest.raises(ParameterError, match="out of place"):
        build_topdown_spine(frame, {"nation": "1/3", "groups": "1/3", "state": "0", "block": "1/3"}, optimise=made)
    spine = build_topdown_spine(frame, {"nation": "1/3", "groups": "1/3", "block": "1/3"}, optimise=made)
    assert spine.ids("block").tolist() == ["11a", "12a"]


def test_six_hundred_thousand_blocks_need_a_small_table() -> None:
    """The shares of many blocks are an index of two bytes each; a tenth of the blocks is enough to see it."""
    count = 60_000
    codes = [f"{number:06d}" for number in range(count)]
    frame = build_spine(
        {"nation": ["n"] * count, "county": [c[:2] for c in codes], "tract": [c[:4] for c in codes], "block": codes}
    )
    made = Optimisation(off_spine_entities([], blocks=count), block_groups="groups")
    shares = {"nation": "1/5", "county": "1/5", "tract": "1/5", "groups": "1/5", "block": "1/5"}
    spine = build_topdown_spine(frame, shares, optimise=made)
    most = isqrt(100) + 12 + 1
    assert np.diff(spine.level("groups").first_block).max() == most
    assert spine.level("groups").units == spine.level("tract").units * -(-100 // most)
    assert spine.level("block").shares.index.nbytes == 2 * count
    assert len(spine.level("block").shares.table) == 1
