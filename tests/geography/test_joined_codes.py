"""Codes that are written one after the other: two areas never become one, whatever the lengths of their codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.engines import LocalEngine, Source
from confide.errors import InputError
from confide.geography import Geolevel
from confide.inputs.frame import AreaRule, Frame, LevelRule, _area_codes, read_frame
from confide.mechanisms.topdown.build_spine import off_spine_entities
from confide.mechanisms.topdown.spine import own_parts

PLACE = AreaRule("place", "place", none="-", within="county")


def frame_of(folder: Path, counties: list[str], places: list[str | None]) -> Frame:
    blocks = [f"b{number:03d}" for number in range(len(counties))]
    pq.write_table(pa.table({"geocode": blocks, "county": counties, "place": places}), folder / "blocks.parquet")
    source = Source(folder / "blocks.parquet", "parquet")
    with LocalEngine(folder / "scratch", processes=1, memory="256MB") as engine:
        return read_frame(engine, source, "geocode", [LevelRule("county", column="county")], [PLACE])


def test_two_places_of_two_counties_do_not_become_one(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        frame_of(tmp_path, ["1", "1", "11"], ["12", "13", "2"])
    (finding,) = caught.value.findings
    assert (finding.code, finding.where.row, finding.where.column) == ("merged-areas", 3, "place")
    assert "leading zeros" in str(finding.remedy)


def test_codes_of_unequal_length_that_stay_apart_are_published_as_they_were(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, ["1", "11", "1", "1", "11"], ["2", "2", None, "-", "2"])
    place = frame.spine.level("place")
    assert place.codes == ("112", "12")
    assert place.unit_of_block.tolist() == [1, 0, -1, -1, 0]


def test_a_code_with_a_control_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        frame_of(tmp_path, ["1", "1\0"], ["2", "2"])
    assert [finding.code for finding in caught.value.findings] == ["control-character"]


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u200f", "\u061c"])
def test_a_code_that_turns_the_order_of_signs_is_refused(tmp_path: Path, sign: str) -> None:
    with pytest.raises(InputError) as caught:
        frame_of(tmp_path, ["1", f"12{sign}3"], ["2", "2"])
    assert [finding.code for finding in caught.value.findings] == ["control-character"]


ALIKE = [("001", "00１"), ("a1", "a\u200b1"), ("café", "cafe\u0301"), ("0 1", "0\u00a01"), ("٣", "٣\u200d")]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_codes_that_read_alike_are_refused_in_every_column_of_codes(tmp_path: Path, one: str, other: str) -> None:
    blocks = {"geocode": ["x1", "x2"], "county": ["a", "a"], "place": ["p", "p"]}
    source = Source(tmp_path / "blocks.parquet", "parquet")
    levels, areas = [LevelRule("county", column="county")], [AreaRule("place", "place")]
    for name in blocks:
        pq.write_table(pa.table(blocks | {name: [one, other]}), source.path)
        engine = LocalEngine(tmp_path / "scratch", processes=1, memory="256MB")
        with engine, pytest.raises(InputError) as caught:
            read_frame(engine, source, "geocode", levels, areas)
        (finding,) = caught.value.findings
        assert finding.code == "codes-alike"
        assert repr("block" if name == "geocode" else name) in finding.what


def test_codes_of_other_scripts_that_read_apart_are_taken(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, ["١", "٢", "क", "ख", "01", "a b", "中"], ["p"] * 7)
    assert frame.spine.level("county").units == 7


PAIRS = st.tuples(st.sampled_from(["1", "11", "2"]), st.sampled_from(["1", "12", "2"]))


def level(name: str, codes: list[str]) -> Geolevel:
    distinct = tuple(sorted(set(codes)))
    return Geolevel(name, distinct, np.array([distinct.index(code) for code in codes]), on_spine=False)


@given(st.lists(PAIRS, min_size=1, max_size=6))
def test_blocks_are_of_one_string_only_if_they_are_in_the_same_entities(pairs: list[tuple[str, str]]) -> None:
    kinds = [level("one", [one for one, _ in pairs]), level("other", [other for _, other in pairs])]
    strings = off_spine_entities(kinds).string_of_block.tolist()
    alike = [[one == other for one in pairs] for other in pairs]
    assert alike == [[one == other for one in strings] for other in strings]


def test_a_code_with_the_sign_between_ids_is_numbered() -> None:
    codes = np.array(["1+2", "1+3", "2+1"])
    assert own_parts(np.array([0, 0, 1]), codes, None).tolist() == ["1", "2", "1"]
    assert own_parts(np.array([0, 0, 1]), np.array(["112", "113", "121"]), None).tolist() == ["112", "113", "121"]


def test_an_empty_code_is_no_area() -> None:
    """Also where another code means the same: blocks without one would be published as an area of their own."""
    codes = ["", None, "99999", "1"]
    assert _area_codes(AreaRule("place", "place", "99999"), codes, {}) == [None, None, None, "1"]
    within = AreaRule("place", "place", "99999", within="state")
    assert _area_codes(within, codes, {"state": ["9"] * 4}) == [None, None, None, "91"]
