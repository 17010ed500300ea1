"""A made-up PL 94-171 zip, written from a list of people, read and imported; then one test for each way to break it."""

from __future__ import annotations

import errno
import json
import re
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.pl94 import BLOCKS, GEO, ONE, PEOPLE, POSITIONS, SETS, TWO, Members, area_rows, made_up, zipped

from confide.errors import InputError, ParameterError, RunError
from confide.lab.pl94 import (
    check_consistency,
    compare,
    count_persons,
    import_pl94,
    importer,
    people,
    persons_from_pl94,
    published_table,
    read_pl94,
    tabulate,
)
from confide.lab.pl94 import segments as archive_module
from confide.lab.pl94 import segments as sparse_module
from confide.lab.pl94.segments import RACES, geo_layout, table_layout


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Members | bytes], Path]:
    def to_file(content: Members | bytes) -> Path:
        path = tmp_path / "ri2010.pl.zip"
        path.write_bytes(content if isinstance(content, bytes) else zipped(content))
        return path

    return to_file


def persons_of(path: Path) -> list[tuple[str, int, int, int]]:
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]  # type: ignore[misc]


# ---- what works ----


def test_import_gives_the_people_back(write, tmp_path: Path) -> None:
    stages: list[tuple[str, int, int]] = []
    summary = import_pl94(write(made_up()), tmp_path / "a" / "out", progress=lambda *call: stages.append(call))
    assert persons_of(summary.persons_file) == sorted(PEOPLE)
    assert pq.read_schema(summary.persons_file).names == ["geocode", "votingage", "hispanic", "cenrace"]
    assert (summary.persons, summary.blocks, summary.populated_blocks, summary.housing_units) == (len(PEOPLE), 5, 4, 25)
    assert (summary.state, summary.adults) == ("RI", sum(person[1] for person in PEOPLE))
    assert summary.hispanic == sum(person[2] for person in PEOPLE)
    areas = {"state": 1, "county": 2, "tract": 3, "block_group": 4, "block": 5, "place": 2, "county_subdivision": 3}
    assert {item.level: item.areas for item in summary.comparisons} == areas
    assert all(item.ok and item.cells == 288 * item.areas for item in summary.comparisons)
    assert all(done <= total for _, done, total in stages)
    assert {"reading geographic header", "writing persons", "tabulating again"} <= {stage for stage, _, _ in stages}
    assert json.loads(json.dumps(summary.as_dict()))["persons"] == len(PEOPLE)
    assert "all 5,760 published cells" in str(summary)
    assert sorted(path.name for path in (tmp_path / "a" / "out").iterdir()) == ["blocks.parquet", "persons.parquet"]


def test_the_block_file(write, tmp_path: Path) -> None:
    blocks = pq.read_table(import_pl94(write(made_up()), tmp_path / "out").blocks_file).to_pylist()
    assert [block["geocode"] for block in blocks] == sorted(block[0] for block in BLOCKS)
    first = blocks[0]
    assert first["county"] == "44001"
    assert first["tract"] == "44001030100"
    assert first["block_group"] == "440010301001"
    assert (first["place"], first["cousub"], first["aiannh"]) == ("59000", "05140", "9999")
    assert (first["housing_units"], first["occupied_units"]) == (7, 7)
    assert (first["latitude"], first["longitude"]) == (41.5978358, -71.5252895)
    assert first["name"] == "Block 1000"
    assert not any("pop" in name for name in first), "a frame holds no count of people"


def test_levels_and_tables(write) -> None:
    file = read_pl94(write(made_up()))
    assert file.geography("state")["name"].to_pylist() == ["Río Imaginado"]
    assert file.geography("place").select(["geocode", "name"]).to_pydict() == {
        "geocode": ["4419180", "4459000"],
        "name": ["Doña Señora CDP"] * 2,
    }
    assert file.geocodes("county").to_pylist() == ["44001", "44003"]
    adults = Counter(person[0][:5] for person in PEOPLE if person[1])
    assert file.cells("county", "P3")[:, 0].tolist() == [adults["44001"], adults["44003"]]
    assert file.cells("block", "H1").shape == (5, 3)
    assert "RI" in repr(file)
    with pytest.raises(ParameterError, match="no such summary level"):
        file.cells("ward", "P1")
    with pytest.raises(ParameterError, match="no such table"):
        file.cells("block", "P5")


@pytest.mark.parametrize("form", ["crlf", "no newline at the end", "upper case in a folder", "small pieces"])
def test_forms_that_are_the_same_file(form: str, write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = made_up("\r\n" if form == "crlf" else "\n")
    if form == "no newline at the end":
        members = {name: content.rstrip() if name != GEO else content[:-1] for name, content in members.items()}
    if form == "upper case in a folder":
        members = {f"pl/{name.upper()}": content for name, content in members.items()}
    if form == "small pieces":
        monkeypatch.setattr(archive_module, "CHUNK", 700)
        monkeypatch.setattr(sparse_module, "ROWS_AT_ONCE", 2)
        monkeypatch.setattr(importer, "PEOPLE_AT_ONCE", 7)
    assert persons_of(import_pl94(write(members), tmp_path / "out").persons_file) == sorted(PEOPLE)


def test_import_again_changes_nothing_and_other_files_are_left(write, tmp_path: Path) -> None:
    path, out = write(made_up()), tmp_path / "out"
    first = import_pl94(path, out).persons_file.read_bytes()
    assert import_pl94(path, out).persons_file.read_bytes() == first
    (out / "persons.parquet").write_bytes(b"someone else's records")
    with pytest.raises(RunError, match="already exists"):
        import_pl94(path, out)
    assert (out / "persons.parquet").read_bytes() == b"someone else's records"
    assert len(list(out.iterdir())) == 2
    assert import_pl94(path, out, overwrite=True).persons_file.read_bytes() == first


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_the_algebra_inverts_the_tabulation(seed: int, areas: int) -> None:
    counts = np.random.default_rng(seed).poisson(0.5, (areas, 2, 2, RACES)).astype(np.int32)
    layout = table_layout()
    tables = [layout.tables[name] for name in ("P1", "P2", "P3", "P4")]
    races = [tabulate(counts, table)[:, layout.race_columns(table) - table.first] for table in tables]
    assert np.array_equal(people(*races), counts)


def test_the_layout_files_are_whole() -> None:
    geo, tables = geo_layout(), table_layout()
    end = 0
    for start, width in geo.fields.values():
        assert start == end
        end += width
    assert end == geo.record_length
    assert {name: geo.fields[name][0] + 1 for name in POSITIONS} == POSITIONS
    assert [tables.tables[name].lines for name in ("P1", "P2", "P3", "P4", "H1")] == [71, 73, 71, 73, 3]
    lines = [*tables.race_lines.tolist(), tables.total, *(part.line for part in tables.subtotals)]
    assert sorted(lines) == list(range(1, 72))
    assert len(tables.race_lines) == len(SETS) == RACES
    assert geo.provenance
    assert tables.provenance


def test_compare_sees_a_moved_person(write, tmp_path: Path) -> None:
    path = write(made_up())
    file = read_pl94(path)
    table = pq.read_table(import_pl94(path, tmp_path / "out").persons_file)
    moved = table.set_column(0, "geocode", [["440010301001001", *table["geocode"].to_pylist()[1:]]])
    pq.write_table(moved, tmp_path / "moved.parquet")
    result = {
        item.level: item.ok for item in compare(file, count_persons(tmp_path / "moved.parquet", file.geocodes("block")))
    }
    assert result == {"state": True, "county": True, "tract": True, "block_group": True, "block": False, "place": False,
                      "county_subdivision": True}  # fmt: skip
    stranger = table.set_column(0, "geocode", [["990010301001001", *table["geocode"].to_pylist()[1:]]])
    pq.write_table(stranger, tmp_path / "stranger.parquet")
    with pytest.raises(InputError, match="block that is not in the file"):
        count_persons(tmp_path / "stranger.parquet", file.geocodes("block"))
    wild = table.set_column(3, "cenrace", [[63] * len(table)])
    pq.write_table(wild, tmp_path / "wild.parquet")
    with pytest.raises(InputError, match="range of its column"):
        count_persons(tmp_path / "wild.parquet", file.geocodes("block"))


# ---- what is refused ----


def edit(name: str, line: int, change: Callable[[bytes], bytes]) -> Callable[[Members], Members]:
    """Change one line (counted from 1, or from the end if negative) of a member; b"" drops it."""

    def apply(members: Members) -> Members:
        lines = members[name].splitlines(keepends=True)
        place = line - 1 if line > 0 else line
        lines[place] = change(lines[place])
        return members | {name: b"".join(lines)}

    return apply


def cell(name: str, line: int, field: int, value: str) -> Callable[[Members], Members]:
    """Set a comma-separated field, counted from 0."""

    def change(text: bytes) -> bytes:
        fields = text.rstrip(b"\n").split(b",")
        fields[field] = value.encode("latin-1")
        return b",".join(fields) + b"\n"

    return edit(name, line, change)


def header(line: int, field: str, value: str) -> Callable[[Members], Members]:
    start = POSITIONS[field] - 1
    return edit(GEO, line, lambda text: text[:start] + value.encode() + text[start + len(value) :])


def sumlev_line(sumlev: str, number: int = 0) -> int:
    return [line for line, row in enumerate(area_rows(), 1) if row[0] == sumlev][number]


def without(name: str) -> Callable[[Members], Members]:
    return lambda members: {key: value for key, value in members.items() if key != name}


def renamed(**names: str) -> Callable[[Members], Members]:
    given = {"geo": GEO, "one": ONE, "two": TWO}
    new = {given[key]: value for key, value in names.items()}
    return lambda members: {new.get(key, key): value for key, value in members.items()}


def damaged(where: Callable[[bytes], int]) -> Callable[[Members], bytes]:
    """Change one byte of the zip."""

    def apply(members: Members) -> bytes:
        content = bytearray(zipped(members))
        content[where(bytes(content))] ^= 0x01
        return bytes(content)

    return apply


def crc_of_segment_1(content: bytes) -> int:
    entry = content.index(ONE.encode(), content.index(b"PK\x01\x02")) - 46
    return entry + 16


def flags_of_segment_1(content: bytes) -> int:
    return crc_of_segment_1(content) - 16 + 8


BLOCK = sumlev_line("750", 3)  # 440010301001000
BAD = {
    "no header": (without(GEO), "member", "geographic header is missing", "rigeo2010.pl"),
    "no segment": (without(TWO), "member", "segment 2 is missing", "ri000022010.pl"),
    "doubled": (lambda m: m | {f"old/{ONE}": m[ONE]}, "member", "more than once", f"old/{ONE}"),
    "outside names": (renamed(geo=f"../{GEO}"), "member", "geographic header is missing", "found: none"),
    "strange names": (renamed(geo=f"\x1b[31m/{GEO}"), "member", "geographic header is missing", "found: none"),
    "absolute names": (renamed(one=f"/etc/{ONE}"), "member", "segment 1 is missing", "found: none"),
    "two states": (renamed(one="ct000012010.pl"), "states", "members of several states", "ct, ri"),
    "2020 by name": (renamed(geo="rigeo2020.pl"), "layout", "Only the 2010 layout", "found: 2020"),
    "2020 header": (lambda m: m | {GEO: b"PLST|RI|040|00\n"}, "layout", "as in 2020", "line 1"),
    "2020 segment": (lambda m: m | {ONE: b"PLST|RI|000|01|1\n"}, "layout", "as in 2020", f"{ONE}, line 1"),
    "empty header": (lambda m: m | {GEO: b""}, "states", "header is empty", GEO),
    "empty segment": (lambda m: m | {ONE: b""}, "rows", "ends before the header", "found: 0 rows"),
    "short header line": (edit(GEO, 3, lambda t: t[:400] + b"\n"), "line", "wrong length", "line 3\\b.*\n.*400 bytes"),
    "blank line": (edit(GEO, 3, lambda t: t + b"\n"), "line", "wrong length", "line 4\\b.*\n.*0 bytes"),
    "endless line": (lambda m: m | {ONE: b"1" * 100_000}, "line", "longer than any", ONE),
    "header number": (header(4, "POP100", "     12x4"), "number", "not a number", "line 4, column 'POP100'"),
    "header area": (header(4, "AREALAND", " " * 14), "number", "not a number", "column 'AREALAND'"),
    "record number": (header(4, "LOGRECNO", "00000x4"), "number", "not a number", "column 'LOGRECNO'"),
    "two states in header": (header(BLOCK, "STUSAB", "CT"), "states", "several states", "CT, RI"),
    "too few fields": (edit(ONE, 5, lambda t: t[5:]), "fields", "wrong number of fields", "line 5\\b.*\n.*148"),
    "too many fields": (edit(TWO, -1, lambda t: b"0," + t), "fields", "wrong number of fields", "found: 153"),
    "not a number": (cell(ONE, 5, 6, "many"), "cell", "not a count", "line 5, column 'P0010002'.*\n.*'many'"),
    "empty cell": (cell(TWO, 5, 76, ""), "cell", "not a count", "column 'P0040001'"),
    "negative cell": (cell(ONE, 4, 5, "-1"), "cell", "not a count", "line 4, column 'P0010001'.*\n.*'-1'"),
    "huge cell": (cell(ONE, 4, 5, "1000000000"), "cell", "not a count", "999,999,999"),
    "giant cell": (cell(ONE, 4, 5, "9" * 5000), "cell", "not a count", r"'9{40}\.\.\.'"),
    "latin letter": (cell(ONE, 4, 0, "Ñ"), "segment", "cannot be read", "line 1"),
    "wrong file id": (cell(ONE, 4, 0, "SF1"), "identification", "does not belong", "column 'FILEID'"),
    "swapped": (renamed(one=TWO, two=ONE), "fields", "wrong number of fields", "expected: 149"),
    "wrong segment": (cell(TWO, 2, 3, "01"), "identification", "does not belong", "line 2, column 'CIFSN'"),
    "wrong state": (cell(TWO, 2, 1, "CT"), "identification", "does not belong", "'CT'"),
    "record mismatch": (cell(TWO, 6, 4, "0000099"), "logrecno", "logical record number", "line 6.*\n.*99\n.*0000006"),
    "row lost": (edit(ONE, 6, lambda t: b""), "logrecno", "logical record number", "0000007"),
    "last row lost": (edit(ONE, -1, lambda t: b""), "rows", "ends before", f"{len(area_rows()) - 1} rows"),
    "row more": (edit(ONE, -1, lambda t: t + t), "rows", "more rows than the header", f"line {len(area_rows()) + 1}"),
    "block twice": (header(BLOCK, "BLOCK", "1001"), "geocode", "block is there twice", "440010301001001"),
    "block group": (header(BLOCK, "BLKGRP", "2"), "geocode", "block group", "440010301001000, block group 2"),
    "block code": (header(BLOCK, "BLOCK", "1  0"), "geocode", "not 15 digits", f"line {BLOCK}"),
    "no state": (header(1, "SUMLEV", "041"), "level", "no state row", "ri2010.pl.zip"),
    "cut short": (lambda m: zipped(m)[:-200], "zip", "not a zip, or it is cut short", "remedy"),
    "no zip": (lambda m: m[ONE], "zip", "not a zip", "remedy"),
    "empty file": (lambda m: b"", "zip", "not a zip", "remedy"),
    "wrong checksum": (damaged(crc_of_segment_1), "damaged", "read to its end", f"{ONE}\\b.*\n.*CRC"),
    "encrypted": (damaged(flags_of_segment_1), "encrypted", "encrypted", ONE),
    "subtotal": (cell(ONE, BLOCK, 5 + 25, "9"), "sum", "the sum of its race lines", "P0010026.*\n.*9\n.*expected: 2"),
    "total": (cell(TWO, BLOCK, 5, "9"), "sum", "Table P3 of block 440010301001000", f"line {BLOCK}, column 'P0030001'"),
    "origin": (cell(ONE, BLOCK, 5 + 72, "1"), "sum", "Hispanic and not Hispanic", "P0020001"),
    "occupied": (cell(TWO, 1, 5 + 145, "1"), "sum", "occupied and vacant", "H0010001"),
    "POP100": (header(4, "POP100", "      999"), "sum", "POP100", "P0010001.*\n.*\n.*expected: 999"),
    "HU100": (header(4, "HU100", "      999"), "sum", "HU100", "H0010001"),
    "no county row": (header(sumlev_line("050"), "SUMLEV", "051"), "area", "county 44003", "summary level 050"),
    "blocks elsewhere": (header(BLOCK, "PLACE", "19180"), "tabulation", "place 4459000", "P0010001.*\n.*6\n.*10"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_and_nothing_is_written(case: str, write, tmp_path: Path) -> None:
    break_it, code, words, more = BAD[case]
    with pytest.raises(InputError) as caught:
        import_pl94(write(break_it(made_up())), tmp_path / "new" / "out")
    assert f"pl94.{code}" in [finding.code for finding in caught.value.findings]
    text = str(caught.value)
    assert words in text
    assert text.startswith("ri2010.pl.zip")
    assert re.search(more, text), text
    assert all(finding.remedy for finding in caught.value.findings)
    assert [path.name for path in tmp_path.iterdir()] == ["ri2010.pl.zip"]


def test_tables_that_contradict_each_other(write) -> None:
    """P4 larger than P3 for a race line, with every sum inside the tables right."""
    members = made_up()
    line = sumlev_line("750", 0)
    fields = members[TWO].splitlines()[line - 1].split(b",")
    for lines, change in (((1, 2, 3), -3), ((71 + 1, 71 + 2), -3)):  # three fewer White adults in P3, Hispanic in P4
        for position in lines:
            fields[4 + position] = b"%d" % (int(fields[4 + position]) + change)
    file = read_pl94(write(edit(TWO, line, lambda t: b",".join(fields) + b"\n")(members)))
    check_consistency(file)
    with pytest.raises(InputError) as caught:
        persons_from_pl94(file)
    (finding,) = caught.value.findings
    assert finding.what.startswith("Tables P3, P4 of block 440030201011000 contradict each other")
    assert finding.found == "P0030003 = 1, P0040005 = 2: -1"
    assert str(finding.where) == f"ri2010.pl.zip/{TWO}, line {line}, column 'P0040005'"


def test_findings_stop_at_the_limit(write) -> None:
    members = made_up()
    members[ONE] = members[ONE].replace(b",0", b",x")
    with pytest.raises(InputError) as caught:
        read_pl94(write(members), limit=3)
    assert len(caught.value.findings) == 4
    assert "further findings are not shown" in caught.value.findings[-1].what


def test_a_zip_that_declares_too_much(write) -> None:
    with pytest.raises(InputError, match=r"declare more data[^$]*at most 1,000 bytes"):
        read_pl94(write(made_up()), size_limit=1000)


def test_a_zip_that_lies_about_its_size(write) -> None:
    """A member that unfolds to more than it declares is cut there, and its checksum is wrong."""
    content = bytearray(zipped(made_up()))
    struct.pack_into("<I", content, crc_of_segment_1(bytes(content)) + 8, 100)
    with pytest.raises(InputError, match="cannot be read to its end"):
        read_pl94(write(bytes(content)))


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not there"):
        read_pl94(tmp_path / "none.zip")
    with pytest.raises(InputError, match="cannot be read"):
        read_pl94(tmp_path)


def test_a_full_disk_leaves_nothing(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(made_up())

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(importer, "_write_persons", full)
    with pytest.raises(RunError, match="No space left on device"):
        import_pl94(path, tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()
    with pytest.raises(RunError, match="cannot be written"):
        import_pl94(path, path / "out")


def test_published_table_by_name() -> None:
    assert (published_table("P4").segment, published_table("P4").cells) == (2, slice(71, 144))
