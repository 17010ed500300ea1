"""Bad code files: every rule has its finding, with file, line, column, value and remedy, and all come at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kits.safetab_codes import TEXTS, Change, add, swap, write_lists, write_parquet_lists

from confide.errors import Finding, InputError
from confide.mechanisms.safetab.code_files import CodeFiles, read_code_lists

CODES = "race-and-ethnicity-codes.txt"
RACES = "race-characteristic-iterations.txt"
ETHNICITIES = "ethnicity-characteristic-iterations.txt"
MAPPING = "race-and-ethnicity-code-to-iteration.txt"


def findings_of(files: CodeFiles) -> list[Finding]:
    with pytest.raises(InputError) as caught:
        read_code_lists(files)
    return list(caught.value.findings)


BROKEN: dict[str, tuple[dict[str, Change], str, tuple[str, ...]]] = {
    # what is changed, the finding's code, and what its text says
    "missing column": (
        {"race_iterations": lambda lines: [line.replace("|ALONE", "", 1) for line in lines]},
        "missing-column",
        (f"{RACES}, line 1: a column is missing", "no ALONE", "in this order"),
    ),
    "missing columns": (
        {"codes": swap("RACE_ETH_CODE|RACE_ETH_NAME", "")},
        "missing-column",
        (f"{CODES}, line 1: columns are missing", "no RACE_ETH_CODE, RACE_ETH_NAME"),
    ),
    "unexpected column": (
        {"codes": lambda lines: [f"{line}|X" for line in lines]},
        "unexpected-column",
        (f"{CODES}, line 1: a column is unexpected", "'X'"),
    ),
    "column twice": (
        {"code_to_iteration": lambda lines: ["ITERATION_CODE|RACE_ETH_CODE|RACE_ETH_CODE", *lines[1:]]},
        "unexpected-column",
        (f"{MAPPING}, line 1: a column is unexpected", "'RACE_ETH_CODE'"),
    ),
    "order of columns": (
        {"code_to_iteration": lambda lines: ["|".join(reversed(line.split("|"))) for line in lines]},
        "column-order",
        (f"{MAPPING}, line 1: the columns are not in the official order", "found: RACE_ETH_CODE, ITERATION_CODE"),
    ),
    "comma separated": (
        {"codes": lambda lines: [line.replace("|", ",") for line in lines]},
        "unexpected-column",
        ("'RACE_ETH_CODE,RACE_ETH_NAME'",),
    ),
    "short row": (
        {"race_iterations": swap("1001|Northern alone|1|True|False|False", "1001|Northern alone|1|True|False")},
        "row-length",
        (f"{RACES}, line 4: a row has too many or too few values", "5 values", "6 values with | between them"),
    ),
    "long row": (
        {"codes": swap("1010|Lakes", "1010|Lakes|")},
        "row-length",
        (f"{CODES}, line 3", "found: 3 values"),
    ),
    "blank line inside": (
        {"codes": lambda lines: [*lines[:2], "", *lines[2:]]},
        "row-length",
        (f"{CODES}, line 3", "a blank line"),
    ),
    "race code of three digits": (
        {"codes": add("999|Short")},
        "bad-value",
        (f"{CODES}, line 14, column 'RACE_ETH_CODE'", "'999'", "four digits, the first not 0"),
    ),
    "race code with zero": ({"codes": add("0999|Zero")}, "bad-value", ("'0999'",)),
    "race code in other digits": ({"codes": add("1٠٠٠|Arabic digits")}, "bad-value", ("'1٠٠٠'",)),
    "race code Null": ({"codes": add("Null|None")}, "bad-value", ("'Null'",)),
    "blank before a code": ({"codes": add(" 9999|Blank")}, "bad-value", ("' 9999'", "blanks too")),
    "iteration code": (
        {"ethnicity_iterations": add("40010|Long|1|False|False")},
        "bad-value",
        (f"{ETHNICITIES}, line 7, column 'ITERATION_CODE'", "'40010'", "four digits"),
    ),
    "level 3": (
        {"race_iterations": swap("1001|Northern alone|1|True|False|False", "1001|N|3|True|False|False")},
        "bad-value",
        (f"{RACES}, line 4, column 'LEVEL'", "'3'", "0 (major race), 1 (regional) or 2 (detailed)"),
    ),
    "alone": (
        {"race_iterations": swap("1001|Northern alone|1|True|False|False", "1001|N|1|true|False|False")},
        "bad-value",
        ("column 'ALONE'", "'true'", "True or False", "capitals count"),
    ),
    "alone Null": (
        {"race_iterations": swap("0001|Old World alone|0|True|Null|Null", "0001|Old World alone|0|Null|Null|Null")},
        "bad-value",
        ("column 'ALONE'", "'Null'"),
    ),
    "total-only": (
        {"ethnicity_iterations": swap("4001|Coastal|1|False|False", "4001|Coastal|1|NULL|False")},
        "bad-value",
        ("column 'DETAILED_ONLY'", "'NULL'", "Null for a major race"),
    ),
    "coarse-only": (
        {"ethnicity_iterations": swap("4001|Coastal|1|False|False", "4001|Coastal|1|False|")},
        "bad-value",
        ("column 'COARSE_ONLY'", "''"),
    ),
    "a code of the mapping": ({"code_to_iteration": add("4002|x")}, "bad-value", (MAPPING, "'x'")),
    "race code twice": (
        {"codes": add("1010|Lakes again")},
        "duplicate-code",
        (f"{CODES}, line 14, column 'RACE_ETH_CODE': a code is listed more than once", "'1010' (first in line 3)"),
    ),
    "iteration code twice": (
        {"ethnicity_iterations": add("4001|Coast|1|False|False")},
        "duplicate-code",
        (f"{ETHNICITIES}, line 7", "'4001' (first in line 3)"),
    ),
    "iteration of race and of ethnicity": (
        {"ethnicity_iterations": add("1001|Coast|1|False|False")},
        "shared-code",
        (f"{ETHNICITIES}, line 7, column 'ITERATION_CODE': an iteration code is also in {RACES}", "'1001'"),
    ),
    "both flags": (
        {"race_iterations": swap("1201|Fen alone|2|True|True|False", "1201|Fen alone|2|True|True|True")},
        "both-flags",
        (f"{RACES}, line 8: DETAILED_ONLY and COARSE_ONLY are both True", "iteration '1201'", "tabulated nowhere"),
    ),
    "level 0 with flags": (
        {"ethnicity_iterations": swap("4000|Not coastal|0|Null|Null", "4000|Not coastal|0|False|False")},
        "level-and-flags",
        (f"{ETHNICITIES}, line 2", "iteration '4000' with '0', 'False', 'False'", "level 0 with Null and Null"),
    ),
    "level 0 with one flag": (
        {"ethnicity_iterations": swap("4000|Not coastal|0|Null|Null", "4000|Not coastal|0|Null|False")},
        "level-and-flags",
        ("'4000' with '0', 'Null', 'False'",),
    ),
    "level 1 with Null": (
        {"ethnicity_iterations": swap("4001|Coastal|1|False|False", "4001|Coastal|1|Null|Null")},
        "level-and-flags",
        ("'4001' with '1', 'Null', 'Null'",),
    ),
    "unknown iteration": (
        {"code_to_iteration": add("7777|1000")},
        "unknown-code",
        (f"{MAPPING}, line 53, column 'ITERATION_CODE': a code is not in {RACES} or {ETHNICITIES}", "'7777'"),
    ),
    "unknown race code": (
        {"code_to_iteration": add("1001|7777")},
        "unknown-code",
        (f"{MAPPING}, line 53, column 'RACE_ETH_CODE': a code is not in {CODES}", "'7777'", "take the row out"),
    ),
    "row of the mapping twice": (
        {"code_to_iteration": add("1001|1000")},
        "duplicate-row",
        (f"{MAPPING}, line 53: a row is there more than once", "'1001|1000' (as in line 18)"),
    ),
    "two groups alone": (
        {"code_to_iteration": add("2001|1000")},
        "several-groups",
        (
            f"{MAPPING}, line 53, column 'RACE_ETH_CODE'",
            "a code counts in several iterations of a race alone on level 1\n",
            "1000 in 1001 and 2001 (in all regions)",
        ),
    ),
    "two groups in combination, in large regions": (
        {"code_to_iteration": add("1202|1010")},
        "several-groups",
        ("of a race alone or in any combination on level 2", "1010 in 1102 and 1202 (in nation and states)"),
    ),
    "two groups of ethnicity, in other regions": (
        {"code_to_iteration": add("4004|9010")},
        "several-groups",
        ("of an ethnicity on level 2", "9010 in 4002 and 4004 (below the states)", "at most one"),
    ),
    "no codes": (
        {"codes": lambda lines: lines[:1]},
        "no-rows",
        (f"{CODES}: the file has no rows", "a header alone", "one row for each race and ethnicity code"),
    ),
    "no mapping": (
        {"code_to_iteration": lambda lines: lines[:1]},
        "no-rows",
        (f"{MAPPING}: the file has no rows", "one row for each code of an iteration"),
    ),
    "no iterations": (
        {
            "race_iterations": lambda lines: lines[:3],
            "ethnicity_iterations": lambda lines: lines[:1],
            "code_to_iteration": lambda lines: [line for line in lines if line[0] in "I0"],
        },
        "no-iterations",
        ("there is no iteration to tabulate", RACES, "level 1 or 2"),
    ),
    "empty file": ({"codes": lambda lines: []}, "empty-file", (f"{CODES}: the file is empty", "RACE_ETH_CODE|RACE")),
}
ALSO = {
    "missing columns": "unexpected-column",
    "comma separated": "missing-column",
    "no codes": "unknown-code",
    "level 3": "level-and-flags",
    "total-only": "level-and-flags",
}
"""Findings that come with the one a case is about; of no other case is there more than one."""


@pytest.mark.parametrize("case", BROKEN)
def test_every_rule_has_its_finding(tmp_path: Path, case: str) -> None:
    changes, code, words = BROKEN[case]
    found = findings_of(write_lists(tmp_path, **changes))
    mine = next(item for item in found if item.code == f"codes.{code}")
    for word in words:
        assert word in str(mine)
    assert mine.found
    assert mine.expected
    assert mine.remedy
    rest = {item.code.removeprefix("codes.") for item in found} - {code, ALSO.get(case)}
    assert not rest


def test_all_findings_at_once(tmp_path: Path) -> None:
    files = write_lists(
        tmp_path,
        codes=lambda lines: ["RACE_ETH_CODE", *lines[1:]],
        race_iterations=add("12|x|9|yes|no|maybe"),
        ethnicity_iterations=add("4001|Coast|1|True|True"),
        code_to_iteration=add("9999|1000", "1001|1000", "2001|1000"),
    )
    assert [item.code.removeprefix("codes.") for item in findings_of(files)] == [
        "missing-column",
        *["bad-value"] * 5,
        "duplicate-code",
        "both-flags",
        "duplicate-row",
        "unknown-code",
        "several-groups",
    ]


def test_many_rows_are_counted(tmp_path: Path) -> None:
    (finding,) = findings_of(write_lists(tmp_path, codes=add(*(f"{number}|Short" for number in range(100, 125)))))
    assert str(finding.found).startswith("'100' in line 14; '101' in line 15; ")
    assert "'109' in line 23; and so on, 25 rows in all" in str(finding.found)
    assert "'110'" not in str(finding.found)


def test_long_values_are_cut(tmp_path: Path) -> None:
    (finding,) = findings_of(write_lists(tmp_path, codes=add("1" * 10_000 + "|Long")))
    assert len(str(finding)) < 500


def test_not_utf_8(tmp_path: Path) -> None:
    files = write_lists(tmp_path)
    files.codes.write_bytes(files.codes.read_text("utf-8").encode("latin-1"))
    (finding,) = findings_of(files)
    assert str(finding).startswith(f"{CODES}, line 9: the file is not UTF-8\n  found: the byte 0xe9")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    files = write_lists(tmp_path)
    files.codes.unlink()
    files.race_iterations.unlink()
    files.race_iterations.mkdir()
    files = replace(files, ethnicity_iterations=tmp_path / "no" / "folder.parquet")
    assert [item.code for item in findings_of(files)] == [
        "codes.missing-file",
        "codes.not-a-file",
        "codes.missing-file",
    ]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_lists(tmp_path)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert {item.code for item in findings_of(files)} == {"codes.unreadable"}


def _integers(table: pa.Table) -> pa.Table:
    return table.set_column(0, table.schema.names[0], table.column(0).cast(pa.int64()))


def _nulls(table: pa.Table) -> pa.Table:
    values = table.column(1).to_pylist()
    return table.set_column(1, table.schema.names[1], pa.array([values[0], None, None, *values[3:]]))


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (_integers, "column-type", "column 'ITERATION_CODE': the column is not text\n  found: a column of type int64"),
        (_nulls, "null", "row 2, column 'RACE_ETH_CODE': the column has nulls\n  found: 2 nulls"),
        (lambda table: table.select([0]), "missing-column", "no RACE_ETH_CODE"),
        (lambda table: table.select([1, 0]), "column-order", "not in the official order"),
        (lambda table: table.append_column("X", table.column(0)), "unexpected-column", "'X'"),
        (lambda table: table.slice(0, 0), "no-rows", "the file has no rows"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "duplicate-row", "row 52: a row is there"),
    ],
)
def test_parquet_findings(tmp_path: Path, change: Callable[[pa.Table], pa.Table], code: str, words: str) -> None:
    files = write_parquet_lists(tmp_path)
    pq.write_table(change(pq.read_table(files.code_to_iteration)), files.code_to_iteration)
    (finding,) = findings_of(files)
    assert finding.code == f"codes.{code}"
    assert words in str(finding)


@pytest.mark.parametrize("content", [b"", b"PAR1", TEXTS["codes"].encode()])
def test_parquet_that_is_none(tmp_path: Path, content: bytes) -> None:
    files = write_parquet_lists(tmp_path)
    files.codes.write_bytes(content)
    (finding,) = findings_of(files)
    assert "cannot be read as Parquet" in str(finding)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from(["codes", "race_iterations", "ethnicity_iterations", "code_to_iteration"]),
    st.one_of(
        st.binary(max_size=80),
        st.text("ITERAONCD_|Null0123\r\n\ufeff", max_size=60).map(str.encode),
    ),
    st.booleans(),
    st.sampled_from([".txt", ".parquet"]),
)
def test_rubbish_gives_findings_and_nothing_else(
    tmp_path: Path, key: str, rubbish: bytes, under_header: bool, suffix: str
) -> None:
    files = write_lists(tmp_path)
    path = getattr(files, key)
    header = path.read_bytes().split(b"\n")[0] + b"\n"
    broken = tmp_path / f"broken{suffix}"
    broken.write_bytes((header if under_header else b"") + rubbish)
    with suppress(InputError):
        read_code_lists(replace(files, **{key: broken}))
