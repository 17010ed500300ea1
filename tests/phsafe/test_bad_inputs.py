"""Wrong inputs of PHSafe: every one is a finding with its place; nothing is written, charged or shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kits.phsafe_people import Households, config_of, made_up_households, write_config
from tests.kits.programs import execute_households, validate_households

from confide.errors import ConfideError
from confide.mechanisms.phsafe.official import exact_households

Change = Callable[[Households], Any]


def first(made: Households, file: str, **wanted: Any) -> dict[str, Any]:
    """The first row of a file that has these values."""
    return next(row for row in getattr(made, file) if all(row[name] == value for name, value in wanted.items()))


def household(made: Households, **wanted: Any) -> dict[str, Any]:
    """A unit with people."""
    return next(
        row for row in made.units
        if row["RTYPE"] == "2" and row["FINAL_POP"] > 0 and all(row[name] == each for name, each in wanted.items())
    )  # fmt: skip


def child_of(made: Households) -> dict[str, Any]:
    """An own child under 18."""
    return next(row for row in made.persons if row["RELSHIP"] == "25" and row["QAGE"] < 18)


def of_persons(**values: Any) -> Change:
    return lambda made: made.persons[4].update(values)


def of_units(**values: Any) -> Change:
    return lambda made: household(made).update(values)


def of_geo(**values: Any) -> Change:
    return lambda made: made.geo[2].update(values)


def in_the_unit_of(made: Households, person: dict[str, Any], **values: Any) -> None:
    first(made, "units", MAFID=person["MAFID"]).update(values)


ROWS: dict[str, tuple[Change, str, str]] = {
    "a record type of persons": (of_persons(RTYPE="2"), "persons.csv", "RTYPE is out of range"),
    "an address that is too small": (of_persons(MAFID=99), "persons.csv", "MAFID is out of range"),
    "an address that is no number": (of_persons(MAFID="1e8"), "persons.csv", "MAFID is out of range"),
    "an age of 116": (of_persons(QAGE=116), "persons.csv", "QAGE is out of range"),
    "an age with a point": (of_persons(QAGE="16.5"), "persons.csv", "QAGE is out of range"),
    "no age": (of_persons(QAGE=""), "persons.csv", "QAGE is out of range"),
    "an origin of 3": (of_persons(CENHISP=3), "persons.csv", "CENHISP is out of range"),
    "a race of one digit": (of_persons(CENRACE="1"), "persons.csv", "CENRACE is out of range"),
    "a race of 64": (of_persons(CENRACE="64"), "persons.csv", "CENRACE is out of range"),
    "a relationship of 39": (of_persons(RELSHIP="39"), "persons.csv", "RELSHIP is out of range"),
    "a person nowhere": (of_persons(MAFID=800_000_000), "persons.csv", "address that the units lack"),
    "a record type of units": (of_units(RTYPE="3"), "units.csv", "RTYPE is out of range"),
    "a family of one": (of_units(NPF=1), "units.csv", "NPF is out of range"),
    "too many people": (of_units(FINAL_POP=100_000), "units.csv", "FINAL_POP is out of range"),
    "a householder of no origin": (of_units(HHSPAN=3), "units.csv", "HHSPAN is out of range"),
    "a tenure of 5": (of_units(TEN="5"), "units.csv", "TEN is out of range"),
    "a household type of 8": (of_units(HHT="8"), "units.csv", "HHT is out of range"),
    "a household type of one digit": (of_units(HHT2="1"), "units.csv", "HHT2 is out of range"),
    "a couple of 6": (of_units(CPLT="6"), "units.csv", "CPLT is out of range"),
    "people in no type of household": (of_units(HHT2="00"), "units.csv", "has no household type"),
    "people without tenure": (of_units(TEN="0"), "units.csv", "has no tenure"),
    "a household of no race": (of_units(HHRACE="00"), "units.csv", "a household has no race"),
    "a couple that is none": (
        lambda made: household(made, HHT2="02").update(CPLT="5"), "units.csv", "does not fit its household type"
    ),
    "a child where none lives": (
        lambda made: in_the_unit_of(made, child_of(made), HHT2="02", CPLT="1"), "persons.csv",
        "is in a household that has none"
    ),
    "a child of group quarters in a household": (
        lambda made: child_of(made).update(RELSHIP="37"), "persons.csv", "has a relationship of group quarters"
    ),
    "a unit twice": (lambda made: made.units.append(dict(made.units[3])), "units.csv", "more than once"),
    "an address twice": (lambda made: made.geo.append(dict(made.geo[3])), "geo.csv", "more than once"),
    "a unit at no address": (
        lambda made: made.units.append({**household(made), "MAFID": 700_000_000}), "units.csv",
        "the geographic file lacks"
    ),
    "an address without a unit": (
        lambda made: made.geo.append({**made.geo[0], "MAFID": 700_000_000}), "geo.csv", "is not among the units"
    ),
    "a record type of addresses": (of_geo(RTYPE="3"), "geo.csv", "RTYPE is out of range"),
    "a state of one digit": (of_geo(TABBLKST="1"), "geo.csv", "TABBLKST has another form"),
    "no persons": (lambda made: made.persons.clear(), "persons.csv", "has no rows"),
}  # fmt: skip


def refused(config: Path, data: Path, out: Path) -> list[Any]:
    """The findings of an execution that must leave nothing behind."""
    with pytest.raises(ConfideError) as error:
        execute_households(config, data, out, processes=1, memory="1GiB")
    left = {path.name for path in out.parent.iterdir()}
    assert left <= {"data", "config.json"}
    assert {path.name for path in data.iterdir()} <= {"persons.csv", "units.csv", "geo.csv"}
    return list(error.value.findings)


@pytest.mark.parametrize("title", ROWS)
def test_a_wrong_row_is_named_by_its_number_and_nothing_else(title: str, tmp_path: Path) -> None:
    change, file, words = ROWS[title]
    made = made_up_households(40)
    change(made)
    made.write(tmp_path / "data")
    findings = refused(write_config(tmp_path, config_of()), tmp_path / "data", tmp_path / "out")
    errors = [finding for finding in findings if finding.severity == "error"]
    (found,) = [finding for finding in errors if finding.where.file == file and words in finding.what]
    assert found.remedy
    assert found.expected
    if title != "no persons":
        assert found.where.row is not None
        assert found.where.row >= 1
    mafids = {str(row["MAFID"]) for rows in (made.persons, made.units, made.geo) for row in rows}
    assert not [mafid for mafid in mafids if len(mafid) > 4 and mafid in "\n".join(map(str, findings))]


def test_the_row_is_the_one_that_is_wrong(tmp_path: Path) -> None:
    made = made_up_households(40)
    made.persons[6]["QAGE"] = made.persons[11]["QAGE"] = 200
    made.write(tmp_path / "data")
    (found,) = validate_households(
        write_config(tmp_path, config_of()), tmp_path / "data", processes=1, memory="1GiB"
    ).findings
    assert found.where.row == 7
    assert "7, 12" in found.what


def test_rows_of_other_states_are_not_looked_at(tmp_path: Path) -> None:
    made = made_up_households(60)
    here = {row["MAFID"] for row in made.geo if row["TABBLKST"] == "11"}
    next(row for row in made.persons if row["MAFID"] not in here).update(QAGE=200)
    made.write(tmp_path / "data")
    config = write_config(tmp_path, config_of(states=["11"]))
    assert validate_households(config, tmp_path / "data", processes=1, memory="1GiB").ok


def without(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda values: values.pop(key)


def tau_of(value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda values: values["tau"].update(PH2=value)


def budget_of(value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda values: values["privacy_budget"]["PH2"].update({"usa_*": value})


CONFIGS: dict[str, tuple[Callable[[dict[str, Any]], object], str, str]] = {
    "no budgets": (without("privacy_budget"), "config-missing-key", "privacy_budget"),
    "no truncation": (without("tau"), "config-missing-key", "tau"),
    "no states": (without("state_filter"), "config-missing-key", "state_filter"),
    "no definition": (without("privacy_defn"), "config-missing-key", "privacy_defn"),
    "a table too few": (lambda v: v["privacy_budget"].pop("PH7"), "config-missing-key", "privacy_budget.PH7"),
    "a level too few": (
        lambda v: v["privacy_budget"]["PH7"].pop("usa_A-G"), "config-missing-key", "privacy_budget.PH7.usa_A-G"
    ),
    "a table too many": (lambda v: v["privacy_budget"].update(PH9={}), "config-unknown-key", "privacy_budget.PH9"),
    "a level too many": (
        lambda v: v["privacy_budget"]["PH2"].update({"usa_A-G": 1}), "config-unknown-key", "privacy_budget.PH2.usa_A-G"
    ),
    "truncation of units": (lambda v: v["tau"].update(PH1_denom=2), "config-unknown-key", "tau.PH1_denom"),
    "a negative budget": (budget_of(-1), "config-budget", "privacy_budget.PH2.usa_*"),
    "a budget in words": (budget_of("much"), "config-number", "privacy_budget.PH2.usa_*"),
    "nobody of a household": (tau_of(0), "config-tau", "tau.PH2"),
    "half a person": (tau_of(2.5), "config-tau", "tau.PH2"),
    "a state that is none": (lambda v: v.update(state_filter=["01", "03"]), "config-states", "state_filter"),
    "a state twice": (lambda v: v.update(state_filter=["01", "01"]), "config-states", "state_filter"),
    "Puerto Rico among states": (lambda v: v.update(state_filter=["01", "72"]), "config-states", "state_filter"),
    "another definition": (lambda v: v.update(privacy_defn="dp"), "config-definition", "privacy_defn"),
    "another reader": (lambda v: v.update(reader="sas"), "config-reader", "reader"),
    "no budget anywhere": (
        lambda v: [t.update(dict.fromkeys(t, 0)) for t in v["privacy_budget"].values()], "config-no-budget",
        "privacy_budget"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Households:
    return made_up_households(20)


@pytest.mark.parametrize("title", CONFIGS)
def test_a_wrong_configuration_is_named_by_its_key(title: str, people: Households, tmp_path: Path) -> None:
    change, code, path = CONFIGS[title]
    values = config_of()
    change(values)
    people.write(tmp_path / "data")
    findings = refused(write_config(tmp_path, values), tmp_path / "data", tmp_path / "out")
    errors = [finding for finding in findings if finding.severity == "error"]
    assert code in {finding.code for finding in errors}
    found = next(finding for finding in errors if finding.code == code)
    assert found.where.path is not None
    assert found.where.path.replace('"', "") == path
    assert found.remedy


def test_a_key_that_is_there_twice_is_an_error(people: Households, tmp_path: Path) -> None:
    people.write(tmp_path / "data")
    config = write_config(tmp_path, config_of())
    config.write_text(config.read_text().replace('"reader": "csv"', '"reader": "csv", "reader": "csv"'))
    findings = refused(config, tmp_path / "data", tmp_path / "out")
    assert [(finding.code, finding.severity) for finding in findings] == [("config-key-twice", "error")]


def test_a_key_that_nobody_knows_is_a_warning(people: Households, tmp_path: Path) -> None:
    people.write(tmp_path / "data")
    config = write_config(tmp_path, config_of(comment="mine"))
    validation = validate_households(config, tmp_path / "data", processes=1, memory="1GiB")
    assert validation.ok
    assert [(finding.code, finding.severity) for finding in validation.findings] == [("config-unknown-key", "warning")]


def test_a_wrong_configuration_and_wrong_records_are_told_at_once(tmp_path: Path) -> None:
    made = made_up_households(20)
    made.persons[0]["QAGE"] = 300
    made.write(tmp_path / "data")
    findings = refused(write_config(tmp_path, config_of(reader="sas")), tmp_path / "data", tmp_path / "out")
    assert {"config-reader", "bad-record"} <= {finding.code for finding in findings}


def test_files_and_columns_that_are_missing(people: Households, tmp_path: Path) -> None:
    people.write(tmp_path / "data")
    config = write_config(tmp_path, config_of())
    text = (tmp_path / "data" / "units.csv").read_text()
    (tmp_path / "data" / "units.csv").write_text(text.replace("HHT2", "TYPE", 1))
    findings = refused(config, tmp_path / "data", tmp_path / "out")
    assert "missing-column" in {finding.code for finding in findings}
    (tmp_path / "data" / "units.csv").unlink()
    (found,) = refused(config, tmp_path / "data", tmp_path / "out")
    assert found.code == "official-folder"
    assert "units.csv" in str(found)


LINES = {
    "too few values": ("unreadable", lambda text: text + "3,100000999\n"),
    "too many values": ("unreadable", lambda text: text + "3,100000999,3,1,01,25,9\n"),
    "a quotation mark": ("unreadable", lambda text: text.replace("\n3,", '\n"3,', 1)),
    "another delimiter": ("wrong-delimiter", lambda text: text.replace(",", "|")),
    "two columns of one name": ("csv-header", lambda text: text.replace("CENHISP", "QAGE", 1)),
    "no first line": ("csv-header", lambda text: text.partition("\n")[2]),
    "nothing": ("csv-header", lambda _: ""),
}


@pytest.mark.parametrize("title", LINES)
def test_a_file_that_is_no_table_is_named_alone(title: str, people: Households, tmp_path: Path) -> None:
    people.write(tmp_path / "data")
    code, change = LINES[title]
    path = tmp_path / "data" / "persons.csv"
    path.write_text(change(path.read_text()))
    findings = refused(write_config(tmp_path, config_of()), tmp_path / "data", tmp_path / "out")
    assert code in {finding.code for finding in findings}
    assert {finding.where.file for finding in findings} == {"persons.csv"}
    assert "100000999" not in "\n".join(map(str, findings))


def test_a_budget_that_is_no_number_is_named_by_its_key(people: Households, tmp_path: Path) -> None:
    people.write(tmp_path / "data")
    findings = refused(write_config(tmp_path, config_of(float("nan"))), tmp_path / "data", tmp_path / "out")
    assert "usa_* is not a number" in findings[0].what


def test_states_without_housing_units_are_refused(people: Households, tmp_path: Path) -> None:
    people.write(tmp_path / "data")
    config = write_config(tmp_path, config_of(states=["56"]))
    assert "no-housing-units" in {each.code for each in refused(config, tmp_path / "data", tmp_path / "out")}


def test_exact_tables_take_what_noisy_ones_could_not_count(tmp_path: Path) -> None:
    made = made_up_households(30)
    household(made).update(HHT2="00")
    made.write(tmp_path / "data")
    config = write_config(tmp_path, config_of())
    exact = exact_households(config, tmp_path / "data", tmp_path / "exact", processes=1)
    assert "a unit with people has no household type" in str(exact.findings[0])
    assert (tmp_path / "exact").stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob("*.partial"))
    made.persons[0]["QAGE"] = 300
    made.write(tmp_path / "data")
    with pytest.raises(ConfideError):
        exact_households(config, tmp_path / "data", tmp_path / "again", processes=1)
    assert not list(tmp_path.glob("again*"))


def test_a_file_that_is_compressed_is_told_as_such(tmp_path: Path) -> None:
    made = made_up_households(5, 1, states=["01", "02"])
    data = made.write(tmp_path / "data")
    (data / "units.csv").rename(data / "units.csv.gz")
    config = write_config(tmp_path, config_of(0.5, state_filter=["01", "02"]))
    (found,) = validate_households(config, data, processes=1, memory="1GiB").findings
    assert (found.code, found.found) == ("official-folder", "units.csv.gz")
    assert "unpack" in str(found.remedy)
