"""What the tests of SafeTab-H share: small inputs in the official layout, and tables in other words."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kits.safetab import (
    ALL,
    CODES,
    GEOGRAPHY,
    INFINITY,
    PR,
    STATEWIDE,
    US,
    is_in,
    lines_of,
    random_input,
    read_lists,
    region_of,
)
from tests.kits.safetab_codes import NAMES, TEXTS

HOUSEHOLD_HEADER = (
    "TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|HHRACE|QRACE1|QRACE2|QRACE3|QRACE4|QRACE5|QRACE6|QRACE7|QRACE8|QSPAN|"
    "HOUSEHOLD_TYPE|TEN"
)
TOTALS_HEADER = "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT"
Totals = Sequence[tuple[str, str, str, int]]
"""Area, region type, iteration and count."""
AREAS = {
    "USA": ["1"],
    "STATE": ["01", "02"],
    "COUNTY": ["01001", "01003", "02020"],
    "TRACT": ["01001000100", "01001000200", "01003000100", "02020000101"],
    "PLACE": ["0100100", "0200100", "0200300"],
    "AIANNH": ["0010", "5000"],
    "PR-STATE": ["72"],
    "PR-COUNTY": ["72001", "72003"],
    "PR-TRACT": ["72001956300", "72003956400"],
    "PR-PLACE": ["7200700"],
}
"""The areas of the geography of :mod:`tests.kits.safetab`."""
ITERATIONS = [
    line.split("|")[0]
    for name in ("race_iterations", "ethnicity_iterations")
    for line in TEXTS[name].split("\n")[1:]
    if line and line.split("|")[2] != "0"
]
TABLES = {
    "t3": [
        {0: {0: (1, 2, 3, 4, 5)}},
        {1: {1: (1, 2, 3), 6: (4, 5)}, 0: {0: (1, 2, 3, 4, 5)}},
        {2: {2: (1,), 3: (2, 3), 7: (4,), 8: (5,)}, 0: {0: (1, 2, 3, 4, 5), 1: (1, 2, 3), 6: (4, 5)}},
        {
            3: {2: (1,), 4: (2,), 5: (3,), 7: (4,), 8: (5,)},
            0: {0: (1, 2, 3, 4, 5), 1: (1, 2, 3), 3: (2, 3), 6: (4, 5)},
        },
    ],
    "t4": [{0: {0: (1, 2, 3, 4)}}, {1: {1: (1,), 2: (2,), 3: (3, 4)}, 0: {0: (1, 2, 3, 4)}}],
}
"""For each statistics level the cells of a table, by the household types or tenures in them: an oracle."""


def budget_key(family: str, region: str, level: int) -> str:
    return f"privacy_budget_h_{family}_level_{level}_{region.lower().replace('-', '_')}"


def config_h(**changes: Any) -> dict[str, Any]:
    """The content of a config.json: infinite budgets, thresholds 1, 2, 3 and 1, both passes, the states 01 and 02."""
    values: dict[str, Any] = {
        "max_race_codes": 8,
        "thresholds_h_t3": {f"({region}, {level})": [1, 2, 3] for region in ALL for level in (1, 2)},
        "thresholds_h_t4": {f"({region}, {level})": [1] for region in ALL for level in (1, 2)},
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": True,
        "reader": "csv",
        "state_filter_us": ["01", "02"],
        "privacy_defn": "zcdp",
    }
    values |= {budget_key(family, region, level): INFINITY for family in TABLES for region in ALL for level in (1, 2)}
    return values | changes


def household_config(rng: random.Random) -> dict[str, Any]:
    """Budgets and thresholds at random, with one budget at least."""
    chosen: dict[str, Any] = {"privacy_defn": rng.choice(["zcdp", "puredp"])}
    for family in TABLES:
        for region in ALL:
            for level in (1, 2):
                chosen[budget_key(family, region, level)] = rng.choice([0, 0, 0.05, 0.5, 2.5])
    chosen[budget_key("t3", "COUNTY", 2)] = 0.5
    keys = [f"({region}, {level})" for region in ALL for level in (1, 2)]
    chosen["thresholds_h_t3"] = {key: sorted(rng.randint(-3, 12) for _ in range(3)) for key in keys}
    chosen["thresholds_h_t4"] = {key: [rng.randint(-3, 12)] for key in keys}
    chosen["max_race_codes"] = rng.randint(1, 8)
    chosen["run_pr"] = rng.random() < 0.6
    chosen["allow_negative_counts"] = rng.random() < 0.7
    return config_h(**chosen)


def random_totals(rng: random.Random, puerto_rico: bool) -> list[tuple[str, str, str, int]]:
    """Totals of most groups of every area."""
    return [
        (area, region, iteration, rng.randint(-4, 15))
        for region, areas in AREAS.items()
        if puerto_rico or region not in PR
        for area in areas
        for iteration in ITERATIONS
        if rng.random() < 0.8
    ]


def household(rng: random.Random, **changes: str) -> str:
    """A line of household-records."""
    block = rng.choice(GEOGRAPHY[1:]).split("|")[:4]
    races = rng.sample(CODES, rng.randint(1, 4))
    values = {
        "HHRACE": "01",
        "QSPAN": rng.choice(CODES),
        "HOUSEHOLD_TYPE": rng.choice("12345"),
        "TEN": rng.choice("1234"),
    }
    values |= dict(zip(HOUSEHOLD_HEADER.split("|")[:4], block, strict=True))
    values |= {f"QRACE{n}": races[n - 1] if n <= len(races) else "Null" for n in range(1, 9)}
    values |= changes
    return "|".join(values[name] for name in HOUSEHOLD_HEADER.split("|"))


def write_households(
    folder: Path,
    values: Mapping[str, Any],
    households: Sequence[str],
    totals: Totals,
    geography: Sequence[str] = GEOGRAPHY,
) -> tuple[Path, Path]:
    """The two folders of an official input."""
    parameters, data = folder / "parameters", folder / "data"
    for each in (parameters, data):
        each.mkdir(parents=True, exist_ok=True)
    (parameters / "config.json").write_text(json.dumps(values))
    for key, text in TEXTS.items():
        (parameters / f"{NAMES[key]}.txt").write_text(text + "\n")
    (data / "household-records.txt").write_text("\n".join([HOUSEHOLD_HEADER, *households]) + "\n")
    (data / "GRF-C.txt").write_text("\n".join(geography) + "\n")
    lines = ["|".join(map(str, row)) for row in totals]
    (data / "pop-group-totals.txt").write_text("\n".join([TOTALS_HEADER, *lines]) + "\n")
    return parameters, data


def read_tables(folder: Path) -> dict[str, list[tuple[str, ...]]]:
    """The six tables of an output in the official layout, without their headers."""
    tables = {}
    for file in sorted(folder.glob("t[34]/*/*.csv")):
        with file.open(newline="") as lines:
            tables[file.parent.name] = [tuple(row) for row in csv.reader(lines, delimiter="|")][1:]
    return tables


# The reference: noise-free tables in other words, household by household.


def reference_h(parameters: Path, data: Path) -> dict[str, list[tuple[str, ...]]]:
    """The six tables of an input whose budgets are all zero or infinite, sorted."""
    values = json.loads((parameters / "config.json").read_text())
    lists = read_lists(parameters)
    states = [*(values["state_filter_us"] if values["run_us"] else []), *(["72"] if values["run_pr"] else [])]
    blocks = {block_of(row): row for row in lines_of(data / "GRF-C.txt") if row["TABBLKST"] in states}
    households = [row for row in lines_of(data / "household-records.txt") if row["TABBLKST"] in states]
    kinds = [*(US if values["run_us"] else ()), *(PR if values["run_pr"] else ())]
    tables: dict[str, list[tuple[str, ...]]] = {f"T0{3 + (f == 't4')}00{n + 1}": [] for f in TABLES for n in range(4)}
    for total in lines_of(data / "pop-group-totals.txt"):
        area, kind, code = (total[name] for name in TOTALS_HEADER.split("|")[:3])
        areas = {region_of(kind, block) for block in blocks.values()} if kind in kinds else set()
        left_out = lists.coarse_only if kind in STATEWIDE else lists.total_only
        if area not in areas or code in left_out or code not in lists.level:
            continue
        members = [
            row
            for row in households
            if region_of(kind, blocks[block_of(row)]) == area
            and is_in(lists, code, races_of(row, values["max_race_codes"]), row["QSPAN"])
        ]
        for family, column in (("t3", "HOUSEHOLD_TYPE"), ("t4", "TEN")):
            level = lists.level[code]
            if not values[budget_key(family, kind, level)]:
                continue
            steps = values[f"thresholds_h_{family}"][f"({kind}, {level})"][:3]
            number = sum(int(total["COUNT"]) >= step for step in steps)
            cells = {cell: codes for group in TABLES[family][number].values() for cell, codes in group.items()}
            tables[f"T0{family[1]}00{number + 1}"] += [
                (area, kind, code, str(cell), str(sum(int(row[column]) in codes for row in members)))
                for cell, codes in cells.items()
            ]
    return {name: sorted(rows) for name, rows in tables.items() if name not in ("T04003", "T04004")}


def random_households(folder: Path, seed: int) -> tuple[Path, Path]:
    """An input that is drawn by a seed: lists, geography and people of SafeTab-P's, as householders; and totals."""
    parameters, data = random_input(folder, seed)
    rng, values = random.Random(seed), json.loads((parameters / "config.json").read_text())
    lists = read_lists(parameters)
    kept = ("max_race_codes", "run_us", "run_pr", "state_filter_us", "allow_negative_counts", "privacy_defn")
    chosen = {name: values[name] for name in kept}
    keys = [f"({region}, {level})" for region in ALL for level in (1, 2)]
    chosen["thresholds_h_t3"] = {key: sorted(rng.randint(-2, 9) for _ in range(rng.randint(3, 4))) for key in keys}
    chosen["thresholds_h_t4"] = {key: [rng.randint(-2, 9)] for key in keys}
    off = {budget_key(f, region, level): 0 for f in TABLES for region in ALL for level in (1, 2) if rng.random() < 0.2}
    (parameters / "config.json").write_text(json.dumps(config_h(**chosen, **off)))
    people = list(lines_of(data / "person-records.txt"))
    lines = [
        "|".join((person | {"HHRACE": "07", "HOUSEHOLD_TYPE": rng.choice("12345"), "TEN": rng.choice("1234")})[name]
                 for name in HOUSEHOLD_HEADER.split("|"))
        for person in people
    ]  # fmt: skip
    (data / "household-records.txt").write_text("\n".join([HOUSEHOLD_HEADER, *lines]) + "\n")
    blocks = list(lines_of(data / "GRF-C.txt"))
    rows = [
        (area, kind, code, str(rng.randint(-5, 12)))
        for kind in ALL
        for area in sorted({region_of(kind, block) or "" for block in blocks} - {""})
        for code in lists.level
        if rng.random() < 0.85
    ]
    rng.shuffle(rows)
    (data / "pop-group-totals.txt").write_text("\n".join([TOTALS_HEADER, *("|".join(row) for row in rows)]) + "\n")
    return parameters, data


def block_of(row: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in HOUSEHOLD_HEADER.split("|")[:4])


def races_of(row: Mapping[str, str], most: int) -> set[str]:
    return {row[f"QRACE{number}"] for number in range(1, most + 1)} - {"Null"}
