"""The spine of a block table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import InputError
from confide.geography import OUTSIDE, build_spine

BLOCKS = ["1102", "1101", "1201", "2101"]


def spine_of(blocks: list[str]):
    return build_spine({"county": [b[:1] for b in blocks], "tract": [b[:2] for b in blocks], "block": blocks})


def test_units_are_in_the_order_of_their_codes() -> None:
    spine = spine_of(BLOCKS)
    assert spine.blocks.codes == ("1101", "1102", "1201", "2101")
    assert spine.blocks.unit_of_block.tolist() == [1, 0, 2, 3]
    assert spine.level("tract").unit_of_block.tolist() == [0, 0, 1, 2]
    assert spine.parents("tract").tolist() == [0, 0, 1]


def test_any_codes_and_any_number_of_levels() -> None:
    levels = {f"level{i}": ["Île-de-France", "Île-de-France", "北海道"] for i in range(7)}
    spine = build_spine(levels | {"block": ["a", "b", "c"]})
    assert len(spine.levels) == 8
    assert spine.level("level3").units == 2


def test_areas_may_leave_blocks_outside_and_cross_the_spine() -> None:
    spine = build_spine({"county": ["1", "1", "2"], "block": ["a", "b", "c"]}, {"place": ["P", None, "P"]})
    assert spine.level("place").unit_of_block.tolist() == [0, OUTSIDE, 0]
    assert not spine.level("place").on_spine
    assert spine.names == ["county", "block", "place"]


def test_a_level_that_is_not_nested_is_named() -> None:
    with pytest.raises(InputError, match=r"'tract' is not nested in 'county'.*\n.*'T'"):
        build_spine({"county": ["1", "2"], "tract": ["T", "T"], "block": ["a", "b"]})


def test_a_block_that_stands_twice_is_named() -> None:
    with pytest.raises(InputError, match="more than once") as caught:
        build_spine({"county": ["1", "1"], "block": ["a", "a"]}, file="blocks.csv")
    assert caught.value.findings[0].where.file == "blocks.csv"


@pytest.mark.parametrize("other", ["A ", "A\u200b", "\u00a0A"])
def test_codes_that_nobody_can_tell_apart_are_refused(other: str) -> None:
    """On a level and beside the spine; rows of a table would be known by the same sign."""
    blocks = {"block": ["a", "b", "c"]}
    for levels, areas in (({"county": ["A", other, "B"]}, None), ({}, {"place": ["A", None, other]})):
        with pytest.raises(InputError, match="nobody sees") as caught:
            build_spine(levels | blocks, areas, file="blocks.csv")
        (finding,) = caught.value.findings
        assert (finding.code, finding.where.file) == ("codes-alike", "blocks.csv")
        assert finding.where.row == (2 if areas is None else 3)


def test_codes_that_are_typed_in_two_ways_are_refused() -> None:
    with pytest.raises(InputError, match="nobody sees"):
        build_spine({"county": ["caf\u00e9", "cafe\u0301"], "block": ["a", "b"]})
    assert build_spine({"county": ["a b", "a  b c"], "block": ["1 ", "2"]}).level("county").units == 2


@given(st.lists(st.text("012", min_size=4, max_size=4), min_size=1, unique=True), st.randoms())
def test_the_order_of_the_rows_does_not_matter(blocks: list[str], random) -> None:
    shuffled = list(blocks)
    random.shuffle(shuffled)
    one, other = spine_of(blocks), spine_of(shuffled)
    for level in ("county", "tract", "block"):
        assert one.level(level).codes == other.level(level).codes
        by_code = dict(zip(blocks, one.level(level).unit_of_block, strict=True))
        assert by_code == dict(zip(shuffled, other.level(level).unit_of_block, strict=True))


@given(st.lists(st.text("012", min_size=4, max_size=4), min_size=1, unique=True))
def test_every_block_reaches_its_county_through_its_tract(blocks: list[str]) -> None:
    spine = spine_of(blocks)
    up = spine.parents("tract")[spine.level("tract").unit_of_block]
    assert np.array_equal(up, spine.level("county").unit_of_block)
