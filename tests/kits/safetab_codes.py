"""A small set of code lists of our own, in the official layout: 12 codes, 17 iterations that are tabulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from confide.mechanisms.safetab.code_files import CodeFiles

CODES = """RACE_ETH_CODE|RACE_ETH_NAME
1000|Northern (box)
1010|Lakes
1011|Hills, upper
1020|Fen
1030|Northern, not elsewhere classified
2000|Southern (box)
2010|"Isles"
2020|Délta
3010|Of no group
9000|Coastal
9010|Harbour
9950|Not coastal"""

RACE_ITERATIONS = """ITERATION_CODE|ITERATION_NAME|LEVEL|ALONE|DETAILED_ONLY|COARSE_ONLY
0001|Old World alone|0|True|Null|Null
0002|Old World alone or in any combination|0|False|Null|Null
1001|Northern alone|1|True|False|False
1002|Northern alone or in any combination|1|False|False|False
1101|Lakes and Hills alone|2|True|False|False
1102|Lakes and Hills alone or in any combination|2|False|False|False
1201|Fen alone|2|True|True|False
1202|Fen alone or in any combination|2|False|True|False
1301|Other Northern alone|2|True|False|True
1302|Other Northern alone or in any combination|2|False|False|True
2001|Southern alone|1|True|False|False
2002|Southern alone or in any combination|1|False|False|False
2101|Isles alone|2|True|False|False
2102|Isles alone or in any combination|2|False|False|False
2202|Delta alone or in any combination|2|False|False|False"""

ETHNICITY_ITERATIONS = """ITERATION_CODE|ITERATION_NAME|LEVEL|DETAILED_ONLY|COARSE_ONLY
4000|Not coastal|0|Null|Null
4001|Coastal|1|False|False
4002|Harbour|2|False|False
4003|Coastal, not specified|2|True|False
4004|Other coastal|2|False|True"""

MEMBERS = {
    ("0001", "0002"): "1000 1010 1011 1020 1030 2000 2010 2020",
    ("1001", "1002"): "1000 1010 1011 1020 1030",
    ("1101", "1102"): "1010 1011",
    ("1201", "1202"): "1020",
    ("1301", "1302"): "1020 1030",
    ("2001", "2002"): "2000 2010 2020",
    ("2101", "2102"): "2010",
    ("2202",): "2020",
    ("4000",): "9950",
    ("4001",): "9000 9010",
    ("4002",): "9010",
    ("4003", "4004"): "9000",
}
CODE_TO_ITERATION = "\n".join(
    [
        "ITERATION_CODE|RACE_ETH_CODE",
        *(f"{iteration}|{code}" for group, codes in MEMBERS.items() for iteration in group for code in codes.split()),
    ]
)

NAMES = {
    "codes": "race-and-ethnicity-codes",
    "race_iterations": "race-characteristic-iterations",
    "ethnicity_iterations": "ethnicity-characteristic-iterations",
    "code_to_iteration": "race-and-ethnicity-code-to-iteration",
}
TEXTS = {
    "codes": CODES,
    "race_iterations": RACE_ITERATIONS,
    "ethnicity_iterations": ETHNICITY_ITERATIONS,
    "code_to_iteration": CODE_TO_ITERATION,
}
Change = Callable[[list[str]], Sequence[str]]


def code_files(folder: Path, suffix: str = ".txt") -> CodeFiles:
    """The four files in a folder, by their official names."""
    return CodeFiles(**{key: folder / f"{name}{suffix}" for key, name in NAMES.items()})


def write_lists(folder: Path, *, end: str = "\n", tail: str = "", **changes: Change) -> CodeFiles:
    """Write the lists as text. A change by the name of a field of CodeFiles gets the lines of that file and returns
    others; ``end`` ends a line, and ``tail`` comes after the last one."""
    assert set(changes) <= set(TEXTS)
    for key, text in TEXTS.items():
        lines = changes[key](text.split("\n")) if key in changes else text.split("\n")
        (folder / f"{NAMES[key]}.txt").write_bytes((end.join([*lines, ""]) + tail).encode())
    return code_files(folder)


def write_parquet_lists(folder: Path) -> CodeFiles:
    """Write the same lists as Parquet."""
    for key, text in TEXTS.items():
        header, *rows = (line.split("|") for line in text.split("\n"))
        columns = {name: pa.array(list(values)) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
        pq.write_table(pa.table(columns), folder / f"{NAMES[key]}.parquet")
    return code_files(folder, ".parquet")


def swap(old: str, new: str) -> Change:
    """Change a line into another; it must be there."""

    def change(lines: list[str]) -> list[str]:
        assert old in lines
        return [new if line == old else line for line in lines]

    return change


def add(*more: str) -> Change:
    return lambda lines: [*lines, *more]
