"""What each table counts, by hand; what decides that somebody is counted; and what a plan is bound to."""

from __future__ import annotations

import csv
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.kits.phsafe import Key, files_of, joined
from tests.kits.phsafe_people import Households, config_of, made_up_households, write_config
from tests.kits.programs import convert_households

from confide import api
from confide.mechanisms.phsafe import settings as tables
from confide.mechanisms.phsafe.problem import fingerprint
from confide.privacy import ZCDP

STATES = ["01", "02", "11"]
RELATIVES = {"20", "21", "23", *(str(number) for number in range(25, 34))}
OWN = {"25", "26", "27"}
Row = dict[str, Any]


def iterations(race: str, hispanic: Any) -> list[str]:
    """The groups that somebody is in, after the words of the rule."""
    groups = ["*", "ABCDEF"[int(race) - 1] if int(race) <= 6 else "G"]
    return groups + (["H"] if str(hispanic) == "2" else ["I"] if race == "01" else [])


def cell_of(name: str, person: Row, unit: Row) -> int | None:
    """The interior cell of a person, after the words of the rule; none where the table does not take it."""
    age, relation, kind = int(person["QAGE"]), person["RELSHIP"], unit["HHT2"]
    housed, child = person["RTYPE"] == "3", age < 18
    if name == "PH1_num":
        return (2 if child else 3) if housed else None
    if name == "PH2" and housed:
        couples = {("01", "1"): 3, ("02", "1"): 3, ("01", "2"): 4, ("02", "2"): 4, ("03", "3"): 6, ("04", "3"): 6}
        couples |= {("03", "4"): 7, ("04", "4"): 7}
        alone = {"05": 12, "06": 13, "07": 13, "08": 13, "09": 9, "10": 10, "11": 10, "12": 10}
        return couples.get((kind, unit["CPLT"])) or alone.get(kind)
    if name == "PH3" and housed and child:
        own = {"01": 4, "03": 5, "10": 6, "06": 7}.get(kind)
        return (
            own
            if relation in OWN
            else 9
            if relation == "30"
            else 10
            if relation in RELATIVES - {"20", "21", "23"}
            else 2
        )
    if name == "PH4" and relation in RELATIVES and unit["HHT"] in "0123":
        return 2 if child else 3
    if name == "PH6" and relation in OWN and child:
        return {"01": 3, "03": 8, "10": 13, "06": 18}[kind] + sum(age >= begin for begin in (4, 6, 12))
    if name == "PH7" and housed:
        return {"1": 2, "2": 3, "3": 4, "4": 4}[unit["TEN"]]
    return None


def unit_cell(name: str, unit: Row) -> int | None:
    if name == "PH5_denom":
        return 1 if unit["HHT"] in "123" else None
    if unit["RTYPE"] != "2" or unit["HHT"] == "0":
        return None
    return 1 if name == "PH1_denom" else 2 if unit["TEN"] in "12" else 3


def by_hand(made: Households, name: str) -> Counter[Key]:
    """The counts of a table with everybody."""
    counted = tables.table(name)
    state = {str(row["MAFID"]): row["TABBLKST"] for row in made.geo if row["RTYPE"] == "2"}
    units = {str(row["MAFID"]): row for row in made.units if str(row["MAFID"]) in state}
    result: Counter[Key] = Counter()
    rows = made.persons if counted.of_persons else made.units
    for row in rows:
        unit = units.get(str(row["MAFID"]))
        cell = None if unit is None else cell_of(name, row, unit) if counted.of_persons else unit_cell(name, unit)
        if unit is None or cell is None:
            continue
        own = (row["CENRACE"], row["CENHISP"]) if name == "PH3" else (unit["HHRACE"], unit["HHSPAN"])
        for code in iterations(*own):
            if code in {each.code for each in counted.iterations}:
                result["1", "USA", code, cell] += 1
                result[state[str(row["MAFID"])], "STATE", code, cell] += 1
    return result


def test_every_table_by_hand(tmp_path: Path) -> None:
    made = made_up_households(300, seed=3)
    with joined(files_of(made.write(tmp_path / "data")), STATES, tmp_path) as households:
        for counted in tables.measured_tables():
            counts = {key: number for key, number in households.counts(counted.name, None).items() if number}
            assert counts == dict(by_hand(made, counted.name)), counted.name


def counts_of(made: Households, tmp_path: Path) -> int:
    """How many people are in households."""
    with joined(files_of(made.write(tmp_path / "data")), STATES, tmp_path) as households:
        counts = households.counts("PH1_num", None)
    return counts["1", "USA", "*", 2] + counts["1", "USA", "*", 3]


def large(made: Households) -> Row:
    return max((unit for unit in made.units if unit["RTYPE"] == "2"), key=lambda unit: int(unit["FINAL_POP"]))


def test_the_addresses_decide_what_is_a_housing_unit(tmp_path: Path) -> None:
    made = made_up_households(60)
    everybody, unit = counts_of(made, tmp_path / "before"), large(made)
    next(row for row in made.geo if row["MAFID"] == unit["MAFID"])["RTYPE"] = "4"
    assert counts_of(made, tmp_path / "after") == everybody - unit["FINAL_POP"]
    unit["RTYPE"] = "4"
    assert counts_of(made, tmp_path / "both") == everybody - unit["FINAL_POP"]


def test_a_unit_that_is_there_twice_counts_for_nothing(tmp_path: Path) -> None:
    made = made_up_households(60)
    everybody, unit = counts_of(made, tmp_path / "before"), large(made)
    made.units.append(dict(unit))
    assert counts_of(made, tmp_path / "after") == everybody - unit["FINAL_POP"]


def test_no_order_of_rows_or_columns_changes_a_count(tmp_path: Path) -> None:
    made = made_up_households(60)
    data = made.write(tmp_path / "data")
    with joined(files_of(data), STATES, tmp_path / "one") as households:
        counts = [households.counts(each.name, 3) for each in tables.measured_tables()]
    for name in ("persons", "units", "geo"):
        with (data / f"{name}.csv").open() as file:
            header, *rows = list(csv.reader(file))
        with (data / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([row[::-1] for row in [header, *rows[::-1]]])
    with joined(files_of(data), STATES, tmp_path / "two") as households:
        assert counts == [households.counts(each.name, 3) for each in tables.measured_tables()]


def test_a_plan_costs_the_sum_of_its_budgets(tmp_path: Path) -> None:
    data = made_up_households(20).write(tmp_path / "data")
    for sensitivity in ("bureau", "household"):
        folder = tmp_path / sensitivity
        spec = convert_households(write_config(folder, config_of(0.25)), data, folder / "spec", sensitivity=sensitivity)  # type: ignore[arg-type]
        plan = api.check(spec, processes=1, memory="1GiB").plan
        assert plan is not None
        assert plan.loss == ZCDP(Fraction(46, 4))


def test_states_are_those_with_a_housing_unit_whoever_lives_there(tmp_path: Path) -> None:
    made = made_up_households(40)
    states = {row["MAFID"]: row["TABBLKST"] for row in made.geo}
    made.persons = [row for row in made.persons if states[row["MAFID"]] != "02"]
    for unit in made.units:
        if states[unit["MAFID"]] == "02" and unit["RTYPE"] == "2":
            unit.update(FINAL_POP=0, NPF=0, HHSPAN=0, HHRACE="00", TEN="0", HHT="0", HHT2="00", CPLT="0")
    for row in made.geo:
        if row["TABBLKST"] == "11":
            row["RTYPE"] = "4"
    data = made.write(tmp_path / "data")
    spec = convert_households(write_config(tmp_path, config_of()), data, tmp_path / "spec")
    checked = api.check(spec, processes=1, memory="1GiB")
    assert checked.plan is not None
    assert checked.plan.question["states"] == ["01", "02"]
    (absent,) = [each for each in checked.findings if each.code == "no-housing-units"]
    assert (absent.found, absent.severity) == ("11", "warning")


@pytest.mark.parametrize("name", ["persons", "units", "geo"])
def test_every_file_is_in_the_fingerprint(name: str, tmp_path: Path) -> None:
    data = made_up_households(10).write(tmp_path)
    before = fingerprint(files_of(data))
    path = data / f"{name}.csv"
    path.write_text(path.read_text() + "\n")
    assert fingerprint(files_of(data)) != before
