"""Odd specs of PHSafe: households of few people, one of whom comes or goes, and whose unit becomes another."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from confide.mechanisms.phsafe.settings import Sensitivity
from tests.kits.odd_project import OddProject
from tests.kits.phsafe_people import PERSONS, UNITS, Households, config_of, made_up_households, write_config
from tests.kits.programs import convert_households

SINGLE = {"05": "07", "07": "05", "08": "11", "09": "11", "11": "09", "12": "08"}
"""A household type without couple and children, and another one."""
MOVED = ("PH2", "PH7", "PH8_denom")
"""Tables in every query of which people move to another cell with their unit."""


@dataclass(frozen=True)
class OddHouseholds(OddProject):
    """A row of ``people`` begins with the file that it is of."""

    def write(self, people: Sequence[str]) -> Path:
        for name, columns in (("persons", PERSONS), ("units", UNITS)):
            rows = [row.partition(":")[2] for row in people if row.startswith(name)]
            text = "\n".join([",".join(columns), *rows]) + "\n"
            (self.records.parent / f"{name}.csv").write_text(text, encoding="utf-8")
        return self.spec


def rows_of(made: Households) -> list[str]:
    """Both files as rows."""
    columns = {"persons": PERSONS, "units": UNITS}
    return [
        f"{name}:{','.join(str(row[column]) for column in columns[name])}"
        for name in columns
        for row in getattr(made, name)
    ]


def odd_phsafe(folder: Path, seed: int, versions: int = 2) -> OddProject:
    """Budgets, truncation, states and sensitivity at random, both definitions. Neighbours differ in a household of many
    people, all of whom move to another cell; with every second seed all tables are such in which they do."""
    rng = random.Random(seed)
    values = config_of(privacy_defn=rng.choice(["zcdp", "puredp"]))
    for budgets in values["privacy_budget"].values():
        for key in budgets:
            budgets[key] = rng.choice([0, 0.1, 0.5, 2])
    values["privacy_budget"]["PH7"]["state_*"] = 0.5
    whole = seed % 2 == 0
    if whole:
        for name, budgets in values["privacy_budget"].items():
            budgets.update({key: each if name in MOVED else 0 for key, each in budgets.items()})
    values["tau"] = {name: rng.randint(1, 4) for name in values["tau"]}
    made = made_up_households(rng.randint(8, 25), seed, states=["01", "02"])
    unit = _crowded(made, rng)
    data = made.write(folder / "data")
    config = write_config(folder, values | {"state_filter": ["01", "02"]})
    sensitivity: Sensitivity = "household" if whole else rng.choice(get_args(Sensitivity))
    spec = convert_households(config, data, folder / "spec", sensitivity=sensitivity)
    if rng.random() < 0.4:
        text = spec.read_text(encoding="utf-8")
        spec.write_text(text.replace("[phsafe]", '[phsafe]\ntruncation = "keyed"'), encoding="utf-8")
    people = rows_of(made)
    others = [_changed(made, unit, rng) for _ in range(versions)]
    return OddHouseholds(spec, data / "persons.csv", "", people, others)


def _crowded(made: Households, rng: random.Random) -> dict[str, Any]:
    """A unit of one type with many people who are alike."""
    unit = next(row for row in made.units if row["RTYPE"] == "2" and row["FINAL_POP"] > 0)
    unit.update(HHT="5", HHT2=rng.choice(list(SINGLE)), CPLT="5", TEN="1", HHRACE="01", HHSPAN=1)
    made.persons = [row for row in made.persons if row["MAFID"] != unit["MAFID"]]
    mate = dict(zip(PERSONS, ["3", unit["MAFID"], 30, 1, "02", "34"], strict=True))
    made.persons += [dict(mate) for _ in range(rng.randint(5, 7))]
    return unit


def _changed(made: Households, unit: dict[str, Any], rng: random.Random) -> list[str]:
    """One person more or fewer at an address, whose unit becomes another."""
    persons, units = [dict(row) for row in made.persons], [dict(row) for row in made.units]
    (here,) = [row for row in units if row["MAFID"] == unit["MAFID"]]
    here.update(HHT2=SINGLE[here["HHT2"]], TEN="3", HHRACE="07", HHSPAN=2)
    mates = [row for row in persons if row["MAFID"] == unit["MAFID"]]
    if rng.random() < 0.5:
        persons.append(dict(mates[0]))
    else:
        persons.remove(mates[0])
    return rows_of(Households(persons, units, made.geo))
