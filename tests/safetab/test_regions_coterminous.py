"""Sets of coterminous areas: derived from the blocks, or given in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.safetab_geography import BLOCKS, GRFC, text

from confide.engines import Engine, LocalEngine
from confide.errors import Finding, InputError
from confide.mechanisms.safetab.regions import Regions, area_column, coterminous_from_file, read_regions

TYPES = ("STATE", "COUNTY", "TRACT", "PLACE")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with LocalEngine(tmp_path_factory.mktemp("scratch"), processes=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def regions(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Regions:
    source = text(tmp_path_factory.mktemp("geography") / "GRF-C.txt", GRFC, BLOCKS)
    return read_regions(engine, source, ("01", "02"), True)


def named(regions: Regions, sets: list[tuple[tuple[str, int], ...]]) -> list[list[str]]:
    return [[f"{name} {regions.areas[name][area]}" for name, area in members] for members in sets]


def test_areas_with_the_same_blocks(regions: Regions) -> None:
    assert named(regions, regions.coterminous()) == [
        ["STATE 02", "COUNTY 02001", "TRACT 02001000100", "PLACE 0222800"],
        ["COUNTY 01003", "TRACT 01003000100"],
        ["TRACT 01001000100", "PLACE 0122800"],
        ["PR-STATE 72", "PR-COUNTY 72031"],
        ["PR-TRACT 72031050902", "PR-PLACE 7210001"],
    ]


def test_the_nation_is_left_out_even_if_it_is_one_state(engine: Engine, tmp_path: Path) -> None:
    one = read_regions(engine, text(tmp_path / "GRF-C.txt", GRFC, BLOCKS), ("02",), False)
    assert named(one, one.coterminous()) == [
        ["STATE 02", "COUNTY 02001", "TRACT 02001000100", "PLACE 0222800", "AIANNH 0020"]
    ]


@given(numbers=st.lists(st.tuples(*(st.integers(-1, 2) for _ in TYPES)), min_size=1, max_size=8))
def test_derived_sets_are_those_found_by_comparing_every_two(numbers: list[tuple[int, ...]]) -> None:
    compact = [np.unique([row[at] for row in numbers if row[at] >= 0]) for at in range(len(TYPES))]
    columns = {
        name: [-1 if row[at] < 0 else int(np.searchsorted(compact[at], row[at])) for row in numbers]
        for at, name in enumerate(TYPES)
    }
    areas = {name: tuple(str(value) for value in compact[at]) for at, name in enumerate(TYPES)}
    table = pa.table({area_column(name): pa.array(column, pa.int64()) for name, column in columns.items()})
    by_blocks: dict[frozenset[int], list[tuple[str, int]]] = {}
    for name in TYPES:
        for area in range(len(areas[name])):
            blocks = frozenset(block for block, number in enumerate(columns[name]) if number == area)
            by_blocks.setdefault(blocks, []).append((name, area))
    expected = {tuple(members) for members in by_blocks.values() if len(members) > 1}
    found = Regions(areas, table, "").coterminous()
    assert set(found) == expected
    assert len(found) == len(expected)
    assert found == sorted(found, key=lambda members: (TYPES.index(members[0][0]), members[0][1]))


HEADER = "SET|REGION_TYPE|REGION_ID"


def given_sets(regions: Regions, folder: Path, *lines: str, end: str = "\n") -> list[tuple[tuple[str, int], ...]]:
    (folder / "sets.txt").write_bytes(end.join([HEADER, *lines, ""]).encode())
    return coterminous_from_file(folder / "sets.txt", regions)


def refused(regions: Regions, folder: Path, *lines: str) -> list[Finding]:
    with pytest.raises(InputError) as caught:
        given_sets(regions, folder, *lines)
    return list(caught.value.findings)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_sets_of_a_file(regions: Regions, tmp_path: Path, end: str) -> None:
    lines = ["b|TRACT|01001000200", "a|PR-TRACT|72031050901", "a|PR-STATE|72", "b|COUNTY|01001", "", ""]
    assert named(regions, given_sets(regions, tmp_path, *lines, end=end)) == [
        ["COUNTY 01001", "TRACT 01001000200"],
        ["PR-STATE 72", "PR-TRACT 72031050901"],
    ]


@pytest.mark.parametrize(
    ("lines", "line", "what"),
    [
        (["a|STATE|01", "a|CITY|01"], 3, "no region type"),
        (["a|USA|1", "a|STATE|01"], 2, "no region type of a pass that runs, or the nation"),
        (["a|STATE|01", "a|COUNTY|1001"], 3, "no such COUNTY"),
        (["a|STATE|01", "a|COUNTY|01001", "b|STATE|02"], 4, "the set 'b' has one area"),
        (["a|STATE|01", "a|COUNTY|01001", "b|STATE|01", "b|TRACT|01001000100"], 4, "twice, here and in line 2"),
        (["a|STATE|01", "a|STATE|01"], 3, "twice, here and in line 2"),
        (["a|STATE|01", "a|STATE|02"], 3, "two areas of one type"),
        (["a|STATE|01", "a|PR-STATE|72"], 3, "areas of both passes"),
        (["a|STATE|01", "a|COUNTY"], 3, "does not have three values"),
        (["a|STATE|01", "|COUNTY|01001"], 3, "does not have three values"),
    ],
)
def test_every_rule_of_the_file(regions: Regions, tmp_path: Path, lines: list[str], line: int, what: str) -> None:
    (finding,) = refused(regions, tmp_path, *lines)
    assert (finding.where.file, finding.where.line) == ("sets.txt", line)
    assert what in finding.what


def test_all_findings_of_the_file_come_at_once(regions: Regions, tmp_path: Path) -> None:
    found = refused(regions, tmp_path, "a|STATE|99", "a|CITY|1", "b", "c|STATE|01", "c|STATE|02")
    assert [finding.where.line for finding in found] == [4, 2, 3, 6]


@pytest.mark.parametrize("content", [b"", b"REGION_TYPE|REGION_ID\n", HEADER.encode("utf-16")])
def test_another_kind_of_file_is_refused(regions: Regions, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sets.txt").write_bytes(content)
    with pytest.raises(InputError, match=r"sets\.txt"):
        coterminous_from_file(tmp_path / "sets.txt", regions)


def test_a_file_that_is_not_there_is_an_error_of_ours(regions: Regions, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        coterminous_from_file(tmp_path / "nowhere.txt", regions)
