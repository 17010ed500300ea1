"""The small code list of our own keeps every rule of the official code files, checked here from the written files."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from pydantic import ValidationError

from confide.lab.population import RACES, OriginCodes, load_origins, write_code_files

CODES = "race-and-ethnicity-codes.txt"
RACE = "race-characteristic-iterations.txt"
ETHNICITY = "ethnicity-characteristic-iterations.txt"
MAPPING = "race-and-ethnicity-code-to-iteration.txt"
COLUMNS = {
    CODES: ["RACE_ETH_CODE", "RACE_ETH_NAME"],
    RACE: ["ITERATION_CODE", "ITERATION_NAME", "LEVEL", "ALONE", "DETAILED_ONLY", "COARSE_ONLY"],
    ETHNICITY: ["ITERATION_CODE", "ITERATION_NAME", "LEVEL", "DETAILED_ONLY", "COARSE_ONLY"],
    MAPPING: ["ITERATION_CODE", "RACE_ETH_CODE"],
}
PATTERNS = {
    "RACE_ETH_CODE": r"[1-9]\d{3}",
    "RACE_ETH_NAME": r"[^|]+",
    "ITERATION_CODE": r"\d{4}",
    "ITERATION_NAME": r"[^|]+",
    "LEVEL": r"[012]",
    "ALONE": r"True|False",
    "DETAILED_ONLY": r"True|False|Null",
    "COARSE_ONLY": r"True|False|Null",
}

Row = dict[str, str]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    folder = tmp_path_factory.mktemp("codes")
    assert sorted(path.name for path in write_code_files(folder)) == sorted(COLUMNS)
    return {name: read(folder / name, columns) for name, columns in COLUMNS.items()}


def read(path: Path, columns: list[str]) -> list[Row]:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    assert b"\r" not in data
    header, *lines = data.decode("utf-8").splitlines()
    assert header.split("|") == columns
    return [dict(zip(columns, line.split("|"), strict=True)) for line in lines]


def iterations(rows: dict[str, list[Row]]) -> dict[str, Row]:
    return {row["ITERATION_CODE"]: row for row in (*rows[RACE], *rows[ETHNICITY])}


def test_every_value_has_its_pattern(rows: dict[str, list[Row]]) -> None:
    for name, table in rows.items():
        for row in table:
            for column, value in row.items():
                assert re.fullmatch(PATTERNS[column], value), (name, row)


def test_codes_are_distinct_and_the_mapping_refers_to_them_once(rows: dict[str, list[Row]]) -> None:
    codes = [row["RACE_ETH_CODE"] for row in rows[CODES]]
    assert len(codes) == len(set(codes))
    assert 40 <= len(codes) <= 70
    assert len(iterations(rows)) == len(rows[RACE]) + len(rows[ETHNICITY])
    pairs = [(row["ITERATION_CODE"], row["RACE_ETH_CODE"]) for row in rows[MAPPING]]
    assert len(pairs) == len(set(pairs))
    assert {code for _, code in pairs} == set(codes)
    assert {iteration for iteration, _ in pairs} == set(iterations(rows))


def test_flags_fit_the_level(rows: dict[str, list[Row]]) -> None:
    for row in iterations(rows).values():
        flags = (row["DETAILED_ONLY"], row["COARSE_ONLY"])
        assert flags != ("True", "True")
        assert (row["LEVEL"] == "0", row["LEVEL"] == "0") == (flags[0] == "Null", flags[1] == "Null")


@pytest.mark.parametrize("hidden", ["COARSE_ONLY", "DETAILED_ONLY"], ids=["nation and states", "below the states"])
def test_a_code_is_in_one_iteration_of_a_kind_at_most(rows: dict[str, list[Row]], hidden: str) -> None:
    known, seen = iterations(rows), Counter[tuple[str, ...]]()
    for row in rows[MAPPING]:
        iteration = known[row["ITERATION_CODE"]]
        if iteration[hidden] != "True":
            seen[row["RACE_ETH_CODE"], iteration["LEVEL"], iteration.get("ALONE", "ethnicity")] += 1
    assert set(seen.values()) == {1}


def test_race_groups_come_in_pairs_with_the_same_codes_and_flags(rows: dict[str, list[Row]]) -> None:
    codes = defaultdict(set)
    for row in rows[MAPPING]:
        codes[row["ITERATION_CODE"]].add(row["RACE_ETH_CODE"])
    alone, combination = (
        {
            (row["LEVEL"], row["DETAILED_ONLY"], row["COARSE_ONLY"], frozenset(codes[row["ITERATION_CODE"]]))
            for row in rows[RACE]
            if row["ALONE"] == kind
        }
        for kind in ("True", "False")
    )
    assert alone == combination
    assert 2 * len(alone) == len(rows[RACE])


def test_every_kind_of_group_is_there(rows: dict[str, list[Row]]) -> None:
    kinds = Counter(
        (name, row["LEVEL"], row["DETAILED_ONLY"], row["COARSE_ONLY"])
        for name in (RACE, ETHNICITY)
        for row in rows[name]
    )
    assert kinds[RACE, "0", "Null", "Null"] == 2 * 6
    assert kinds[RACE, "1", "False", "False"] == 2 * 10
    assert kinds[RACE, "1", "True", "False"] == 2
    assert kinds[RACE, "2", "False", "False"] > 60
    assert kinds[RACE, "2", "True", "False"] >= 2 * 3
    assert kinds[RACE, "2", "False", "True"] == 2
    assert kinds[ETHNICITY, "0", "Null", "Null"] == 2
    assert kinds[ETHNICITY, "1", "False", "False"] == 3
    assert kinds[ETHNICITY, "2", "True", "False"] == 1


def test_every_code_has_one_major_race_but_that_of_nobody_hispanic(rows: dict[str, list[Row]]) -> None:
    known, majors = iterations(rows), defaultdict(set)
    for row in rows[MAPPING]:
        iteration = known[row["ITERATION_CODE"]]
        if iteration["LEVEL"] == "0" and iteration.get("ALONE") == "True":
            majors[row["RACE_ETH_CODE"]].add(iteration["ITERATION_CODE"])
    without = {row["RACE_ETH_CODE"] for row in rows[CODES]} - set(majors)
    assert without == {"9950"}
    assert all(len(races) == 1 for races in majors.values())
    assert {race for races in majors.values() for race in races} == {"0001", "0003", "0005", "0007", "0009", "0011"}


def changed(**changes: object) -> OriginCodes:
    return OriginCodes.model_validate({**load_origins().model_dump(), **changes})


def test_a_list_that_breaks_a_rule_is_refused() -> None:
    whole = load_origins().model_dump()
    assert changed() == load_origins()
    assert tuple(major["race"] for major in whole["races"]) == RACES

    def with_group(**group: object) -> list[dict[str, object]]:
        white, *others = whole["races"]
        region, *regions = white["regions"]
        region = {**region, "groups": [*region["groups"], {"name": "Another", **group}]}
        return [{**white, "regions": [region, *regions]}, *others]

    for races, said in (
        (whole["races"][::-1], "in this order"),
        (with_group(codes=["0123 Another"]), "not a code of four digits"),
        (with_group(codes=["1110 Another"]), "named twice"),
        (with_group(codes=["1999"]), "has no name"),
        (with_group(codes=["1110"], only="coarse"), "total-only"),
        (with_group(codes=["1180", "1180"], only="coarse"), "once each"),
    ):
        with pytest.raises(ValidationError, match=said):
            changed(races=races)
    with pytest.raises(ValidationError, match="has no name"):
        changed(not_hispanic="9950")
