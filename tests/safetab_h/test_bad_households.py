"""Every rule of an input of SafeTab-H: a finding with its place and a remedy; nothing written, nothing charged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.kit import LEDGER, lay_out
from tests.kits.programs import execute_h, validate_h
from tests.kits.safetab import GEOGRAPHY, INFINITY, MEMORY
from tests.kits.safetab_h import (
    budget_key,
    config_h,
    household,
    random_totals,
    write_households,
)

import confide
from confide.errors import CONFIDENTIAL, ConfideError, Finding
from confide.releases.ledger import Ledger

SECRET = "7319"
"""A code that no list has, and that no finding may show."""
Change = Callable[[Path, Path], object]


def households(**changes: str) -> Change:
    """The third record has other values."""

    def change(_: Path, data: Path) -> None:
        file = data / "household-records.txt"
        header, *lines = file.read_text().splitlines()
        values = dict(zip(header.split("|"), lines[2].split("|"), strict=True)) | changes
        lines[2] = "|".join(values.values())
        file.write_text("\n".join([header, *lines]) + "\n")

    return change


def totals(edit: Callable[[list[str]], list[str]]) -> Change:
    """Other lines of published totals, the header first."""

    def change(_: Path, data: Path) -> None:
        file = data / "pop-group-totals.txt"
        file.write_text("\n".join(edit(file.read_text().splitlines())) + "\n")

    return change


def row(number: int, **changes: str) -> Change:
    """Other values in a line of published totals."""

    def edit(lines: list[str]) -> list[str]:
        values = dict(zip(lines[0].split("|"), lines[number].split("|"), strict=True)) | changes
        return [*lines[:number], "|".join(values.values()), *lines[number + 1 :]]

    return totals(edit)


def config(**changes: Any) -> Change:
    """Other values in config.json; None: without the key."""

    def change(parameters: Path, _: Path) -> None:
        file = parameters / "config.json"
        values = json.loads(file.read_text()) | changes
        file.write_text(json.dumps({name: value for name, value in values.items() if value is not None}))

    return change


def text_of_config(old: str, new: str) -> Change:
    def change(parameters: Path, _: Path) -> None:
        file = parameters / "config.json"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))

    return change


def steps(family: str, key: str, numbers: Any) -> Change:
    name = f"thresholds_h_{family}"
    return config(**{name: config_h()[name] | {key: numbers}})


def without(file: str) -> Change:
    return lambda parameters, data: ((data if (data / file).exists() else parameters) / file).unlink()


RECORDS, TOTALS, CONFIG = "household-records.txt", "pop-group-totals.txt", "config.json"
BAD: dict[str, tuple[Change, str, str, str]] = {
    # what is wrong: how it is made, and the code, the file and the place of what is found
    "a type of 6": (households(HOUSEHOLD_TYPE="6"), "bad-record", RECORDS, "HOUSEHOLD_TYPE"),
    "a type of 0": (households(HOUSEHOLD_TYPE="0"), "bad-record", RECORDS, "HOUSEHOLD_TYPE"),
    "a blank type": (households(HOUSEHOLD_TYPE=""), "bad-record", RECORDS, "HOUSEHOLD_TYPE"),
    "a type with a point": (households(HOUSEHOLD_TYPE="1.6"), "bad-record", RECORDS, "HOUSEHOLD_TYPE"),
    "a tenure of 5": (households(TEN="5"), "bad-record", RECORDS, "TEN"),
    "a blank tenure": (households(TEN=""), "bad-record", RECORDS, "TEN"),
    "a race of 64": (households(HHRACE="64"), "bad-record", RECORDS, "HHRACE"),
    "a race of 00": (households(HHRACE="00"), "bad-record", RECORDS, "HHRACE"),
    "a code of no list": (households(QRACE1=SECRET), "bad-record", RECORDS, "QRACE1"),
    "no first code": (households(QRACE1="Null"), "bad-record", RECORDS, "QRACE1"),
    "no origin": (households(QSPAN="Null"), "bad-record", RECORDS, "QSPAN"),
    "a code after Null": (households(QRACE2="Null", QRACE3="1010"), "bad-record", RECORDS, "QRACE2"),
    "an unknown block": (households(TABBLKST="01", TABBLK=SECRET), "bad-record", RECORDS, "TABBLK"),
    "a short county": (households(TABBLKST="01", TABBLKCOU="1"), "bad-record", RECORDS, "TABBLKCOU"),
    "no households": (
        lambda _, data: (data / RECORDS).write_text((data / RECORDS).read_text().splitlines()[0] + "\n"),
        "no-records", RECORDS, "",
    ),
    "persons for households": (
        lambda _, data: (data / RECORDS).write_text("QAGE|QSEX\n1|1\n"), "missing-column", RECORDS, "TABBLKST",
    ),
    "a group twice": (totals(lambda lines: [*lines, lines[3]]), "group-totals", TOTALS, "ITERATION_CODE"),
    "a type of area that is none": (row(2, REGION_TYPE="BLOCK"), "group-totals", TOTALS, "REGION_TYPE"),
    "a nation called 2": (row(1, REGION_ID="2"), "group-totals", TOTALS, "REGION_ID"),
    "an area of three digits": (row(2, REGION_ID="123"), "group-totals", TOTALS, "REGION_ID"),
    "an iteration of three digits": (row(2, ITERATION_CODE="101"), "group-totals", TOTALS, "ITERATION_CODE"),
    "an iteration of no list": (row(2, ITERATION_CODE="8888"), "group-totals", TOTALS, "ITERATION_CODE"),
    "a total that is no number": (row(2, COUNT="many"), "group-totals", TOTALS, "COUNT"),
    "a total with a point": (row(2, COUNT="5.0"), "group-totals", TOTALS, "COUNT"),
    "a county that is not there": (
        totals(lambda lines: [*lines, "01999|COUNTY|1001|7"]), "group-totals", TOTALS, "REGION_ID",
    ),
    "no totals of a pass": (
        totals(lambda lines: [line for line in lines if "|PR-" not in line]), "group-totals", TOTALS, "",
    ),
    "totals without rows": (totals(lambda lines: lines[:1]), "group-totals", TOTALS, ""),
    "other columns of totals": (
        totals(lambda lines: ["REGION_ID|REGION_TYPE|COUNT", *lines[1:]]), "codes.missing-column", TOTALS, "",
    ),
    "no file of totals": (without(TOTALS), "official-folder", "pop-group-totals.txt", ""),
    "no file of households": (without(RECORDS), "official-folder", "household-records.txt", ""),
    "no configuration": (without(CONFIG), "official-folder", CONFIG, ""),
    "a key twice": (
        text_of_config('"run_us": true', '"run_us": true, "run_us": true'), "config-key-twice", CONFIG, "run_us",
    ),
    "a key missing": (config(**{budget_key("t4", "TRACT", 2): None}), "config-missing-key", CONFIG, ""),
    "a negative budget": (
        config(**{budget_key("t3", "STATE", 1): -1}), "config-budget", CONFIG, budget_key("t3", "STATE", 1),
    ),
    "a budget in words": (
        config(**{budget_key("t3", "STATE", 1): "much"}), "config-number", CONFIG, budget_key("t3", "STATE", 1),
    ),
    "no budget at all": (
        config(**{key: 0 for key in config_h() if key.startswith("privacy_budget")}), "config-no-budget", CONFIG, "",
    ),
    "two thresholds of type": (steps("t3", "(STATE, 2)", [1, 2]), "config-thresholds", CONFIG, "(STATE, 2)"),
    "two thresholds of tenure": (steps("t4", "(STATE, 2)", [1, 2]), "config-thresholds", CONFIG, "(STATE, 2)"),
    "thresholds out of order": (steps("t3", "(STATE, 2)", [2, 1, 3]), "config-thresholds", CONFIG, "(STATE, 2)"),
    "a level of thresholds missing": (config(thresholds_h_t4={"(USA, 1)": [1]}), "config-thresholds", CONFIG, ""),
    "neither pass": (config(run_us=False, run_pr=False), "config-no-pass", CONFIG, "run_us"),
    "nine race codes": (config(max_race_codes=9), "config-race-codes", CONFIG, "max_race_codes"),
    "another definition": (config(privacy_defn="approx"), "config-definition", CONFIG, "privacy_defn"),
    "Puerto Rico as a state": (config(state_filter_us=["72"]), "config-states", CONFIG, "state_filter_us"),
    "a block twice": (
        lambda _, data: (data / "GRF-C.txt").write_text("\n".join([*GEOGRAPHY, GEOGRAPHY[1]]) + "\n"),
        "duplicate-block", "GRF-C.txt", "",
    ),
}  # fmt: skip


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A good input, all of whose households are in the filter."""
    rng = random.Random(4)
    values = {key: 0.5 if value == INFINITY else value for key, value in config_h().items()}
    names = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK")
    blocks = [dict(zip(names, line.split("|")[:4], strict=True)) for line in GEOGRAPHY[1:]]
    people = [household(rng, **block) for block in blocks]
    return write_households(tmp_path / "input", values, people, random_totals(rng, puerto_rico=True))


@pytest.mark.parametrize("case", BAD)
def test_it_is_refused_with_its_place_and_a_remedy(case: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    change, code, file, place = BAD[case]
    change(*folders)
    before = sorted(tmp_path.rglob("*"))
    findings = validate_h(*folders, processes=1, memory=MEMORY).findings
    errors = [finding for finding in findings if finding.severity == "error"]
    (found,) = [each for each in errors if each.code == code][:1] or pytest.fail(f"{[str(each) for each in errors]}")
    assert file in str(found.where.file)
    assert place in f"{found.where.column} {found.where.path}"
    assert found.remedy
    assert SECRET not in "".join(map(str, errors))
    if file == RECORDS and code == "bad-record":
        assert (found.found, found.where.row) == (CONFIDENTIAL, 3)
    with pytest.raises(ConfideError) as refusal:
        execute_h(*folders, tmp_path / "out", processes=1, memory=MEMORY)
    assert code in {each.code for each in refusal.value.findings}
    assert sorted(tmp_path.rglob("*")) == before


def test_all_problems_are_told_at_once(folders: tuple[Path, Path]) -> None:
    for case in ("a type of 6", "a tenure of 5", "a group twice", "a negative budget"):
        BAD[case][0](*folders)
    findings: tuple[Finding, ...] = validate_h(*folders, processes=1, memory=MEMORY).findings
    assert {each.code for each in findings} == {"bad-record", "group-totals", "config-budget"}
    assert {each.where.column for each in findings if each.code == "bad-record"} == {"HOUSEHOLD_TYPE", "TEN"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (steps("t3", "(STATE, 2)", [1, 2, 3, 4]), "config-thresholds"),
        (config(reader="cef"), "config-reader"),
        (config(privacy_budget_h_t3_level_2_sate=1), "config-unknown-key"),
    ],
)
def test_what_is_odd_and_harmless_is_a_warning(change: Change, code: str, folders: tuple[Path, Path]) -> None:
    change(*folders)
    (finding,) = validate_h(*folders, processes=1, memory=MEMORY).findings
    assert (finding.code, finding.severity) == (code, "warning")


def test_totals_of_other_states_and_passes_are_left_aside(folders: tuple[Path, Path]) -> None:
    """As the Bureau's program does: other states, and AIANNH areas that the geography lacks."""
    extra = ["48|STATE|1001|5", "48201|COUNTY|1001|5", "9998|AIANNH|1001|5", "48001|PLACE|1001|5"]
    totals(lambda lines: [*lines, *extra])(*folders)
    assert validate_h(*folders, processes=1, memory=MEMORY).findings == ()


SPEC_SLIPS = {
    "a table without thresholds": ('type_thresholds = [20, 60, 100]\n', "", "threshold-without-budget"),
    "thresholds without a budget": ('tenure_budget = "1/2"\ntenure_threshold = 60', "tenure_threshold = 60",
                                    "threshold-without-budget"),
    "a level without a table": ('tenure_budget = "1/2"\ntenure_threshold = 10\n\n[[levels]]\nregion = "AIANNH"',
                                '\n[[levels]]\nregion = "AIANNH"', "no-table-of-level"),
    "thresholds out of order": ("[20, 60, 100]", "[60, 20, 100]", "threshold-order"),
    "a sum that is none": ('budget = "11/2"', 'budget = "5"', "budget-sum"),
    "changed households": ('neighbours = "add-remove"', 'neighbours = "change-one"', "neighbours"),
    "another unit": ('unit = "household"', 'unit = "person"', "spec"),
    "a level twice": ('region = "PLACE"\niterations = "detailed"', 'region = "COUNTY"\niterations = "detailed"',
                      "duplicate-level"),
    "no such totals": ('totals = "pop-group-totals.txt"', 'totals = "nowhere.txt"', "no-such-file"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SPEC_SLIPS)
def test_slips_of_a_spec_are_found(slip: str, tmp_path: Path) -> None:
    project = lay_out("safetab-h", tmp_path / "project")
    old, new, code = SPEC_SLIPS[slip]
    text = project.spec.read_text()
    assert old in text
    project.spec.write_text(text.replace(old, new, 1))
    try:
        codes = {finding.code for finding in confide.check(project.spec, processes=1).errors}
    except ConfideError as error:
        codes = {finding.code for finding in error.findings}
    assert codes
    assert code in codes or code == "spec"
    assert Ledger(project.folder / LEDGER).account().spent == 0
