"""Code lists: what is read, in which forms, and what is made of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.safetab_codes import TEXTS, Change, add, swap, write_lists, write_parquet_lists

from confide.errors import ParameterError
from confide.mechanisms.safetab.code_files import read_code_lists
from confide.mechanisms.safetab.codes import CodeLists, Iteration


def numbers(lists: CodeLists, *codes: str) -> list[int]:
    return [[item.code for item in lists.iterations].index(code) for code in codes]


def codes_of(lists: CodeLists, level: int, *, large: bool) -> str:
    return " ".join(lists.iterations[number].code for number in lists.tabulated(level, large=large))


def test_what_is_read(tmp_path: Path) -> None:
    lists = read_code_lists(write_lists(tmp_path))
    assert lists.codes[0] == "1000"
    assert len(lists.codes) == 12
    assert (lists.names["2010"], lists.names["2020"]) == ('"Isles"', "Délta")
    assert len(lists.iterations) == 17
    assert [item.code for item in lists.iterations] == sorted(item.code for item in lists.iterations)
    fen, coast = lists.iterations[numbers(lists, "1202")[0]], lists.iterations[numbers(lists, "4004")[0]]
    assert fen == Iteration("1202", "Fen alone or in any combination", 2, "race-combination", True, False)
    assert coast == Iteration("4004", "Other coastal", 2, "ethnicity", False, True)


def test_kept(tmp_path: Path) -> None:
    lists = read_code_lists(write_lists(tmp_path))
    assert codes_of(lists, 1, large=True) == codes_of(lists, 1, large=False) == "1001 1002 2001 2002 4001"
    assert codes_of(lists, 2, large=True) == "1101 1102 1201 1202 2101 2102 2202 4002 4003"
    assert codes_of(lists, 2, large=False) == "1101 1102 1301 1302 2101 2102 2202 4002 4004"


def test_alone_pairs(tmp_path: Path) -> None:
    lists = read_code_lists(write_lists(tmp_path))
    pairs = [(lists.iterations[one].code, lists.iterations[other].code) for one, other in lists.alone_pairs()]
    twins = ["1001 1002", "1101 1102", "1201 1202", "1301 1302", "2001 2002", "2101 2102"]
    assert [" ".join(pair) for pair in pairs] == twins


def test_alone_pairs_with_other_flags() -> None:
    """A common group has a total-only partner in large regions and a coarse-only one in others; those two, of the same
    codes but never tabulated together, are no pair of each other."""

    def pairs(*items: Iteration) -> list[list[int]]:
        links = [(item.code, code) for item in items for code in ("1000", "2000")]
        found: list[list[int]] = CodeLists.build({"1000": "", "2000": ""}, items, links).alone_pairs().tolist()
        return found

    common = Iteration("0001", "", 2, "race-alone", False, False)
    total = Iteration("0002", "", 2, "race-combination", True, False)
    coarse = Iteration("0003", "", 2, "race-combination", False, True)
    assert pairs(common, total, coarse) == [[0, 1], [0, 2]]
    assert pairs(replace(common, total_only=True), total, coarse) == [[0, 1]]
    assert pairs(replace(common, coarse_only=True), total) == []
    assert pairs(replace(common, level=1), total) == []
    assert pairs(common) == []


@pytest.mark.parametrize(("end", "tail"), [("\r\n", ""), ("\n", "\n\n"), ("\r\n", "\r\n\r\n"), ("\r\n", "\n")])
def test_line_ends_and_blank_last_lines(tmp_path: Path, end: str, tail: str) -> None:
    usual = read_code_lists(write_lists(tmp_path))
    other = read_code_lists(write_lists(tmp_path, end=end, tail=tail))
    assert other.fingerprint == usual.fingerprint
    assert other.names == usual.names


def test_parquet_is_the_same(tmp_path: Path) -> None:
    text = read_code_lists(write_lists(tmp_path))
    parquet = read_code_lists(write_parquet_lists(tmp_path))
    assert (parquet.codes, parquet.iterations) == (text.codes, text.iterations)
    assert parquet.names == text.names
    assert np.array_equal(parquet.table, text.table)
    assert parquet.fingerprint == text.fingerprint


def test_byte_order_mark_and_dictionary_columns(tmp_path: Path) -> None:
    files = write_lists(tmp_path)
    expected = read_code_lists(files).fingerprint
    files.codes.write_bytes(b"\xef\xbb\xbf" + files.codes.read_bytes())
    parquet = write_parquet_lists(tmp_path).code_to_iteration
    table = pq.read_table(parquet)
    pq.write_table(pa.table({name: table[name].dictionary_encode() for name in table.schema.names}), parquet)
    assert read_code_lists(replace(files, code_to_iteration=parquet)).fingerprint == expected


def test_folder_names_are_no_columns(tmp_path: Path) -> None:
    folder = tmp_path / "LEVEL=1"
    folder.mkdir()
    assert len(read_code_lists(write_parquet_lists(folder)).iterations) == 17


def reverse_rows(lines: list[str]) -> list[str]:
    return [lines[0], *reversed(lines[1:])]


def test_fingerprint(tmp_path: Path) -> None:
    def print_of(**changes: Change) -> str:
        return read_code_lists(write_lists(tmp_path, **changes)).fingerprint

    usual = print_of()
    assert usual == print_of(**dict.fromkeys(TEXTS, reverse_rows))
    major = swap("0001|Old World alone|0|True|Null|Null", "0003|W|0|True|Null|Null")
    assert usual == print_of(
        race_iterations=major, code_to_iteration=lambda lines: [line.replace("0001|", "0003|") for line in lines]
    )
    changed = [
        print_of(codes=add("9999|Another")),
        print_of(ethnicity_iterations=swap("4001|Coastal|1|False|False", "4001|Of the coast|1|False|False")),
        print_of(ethnicity_iterations=swap("4001|Coastal|1|False|False", "4001|Coastal|1|True|False")),
        print_of(code_to_iteration=add("4002|9950")),
        print_of(code_to_iteration=swap("4002|9010", "4002|9950")),
    ]
    assert len({usual, *changed}) == 6


def test_an_empty_ethnicity_file_is_accepted(tmp_path: Path) -> None:
    def races_only(lines: list[str]) -> list[str]:
        return [line for line in lines if not line.startswith("4")]

    files = write_lists(tmp_path, ethnicity_iterations=lambda lines: lines[:1], code_to_iteration=races_only)
    assert {item.kind for item in read_code_lists(files).iterations} == {"race-alone", "race-combination"}


def test_build_refuses_what_the_files_may_not_say() -> None:
    one = Iteration("0001", "", 1, "race-alone", False, False)
    other = Iteration("0002", "", 1, "race-alone", True, False)
    names = {"1000": ""}
    assert CodeLists.build(names, [one, other], [("0001", "1000"), ("0001", "1000")]).codes == ("1000",)
    for iterations, pairs in (
        ([one, other], [("0001", "1000"), ("0002", "1000")]),
        ([one, one], []),
        ([one], [("0001", "2000")]),
        ([one], [("0002", "1000")]),
    ):
        with pytest.raises(ParameterError):
            CodeLists.build(names, iterations, pairs)


def test_lists_cannot_be_changed(tmp_path: Path) -> None:
    lists = read_code_lists(write_lists(tmp_path))
    with pytest.raises(ValueError, match="read-only"):
        lists.table[0, 0, 0, 0] = 1
