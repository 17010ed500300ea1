"""Made-up households in the Census Bureau's layout: persons, units and addresses that fit together.

``python -m tests.kits.phsafe_people FOLDER [UNITS]`` writes them; the example of the contract was made so.
"""

from __future__ import annotations

import csv
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PERSONS = ["RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP"]
UNITS = ["RTYPE", "MAFID", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT"]
GEO = [
    "RTYPE", "MAFID", "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "TABBLKGRPCE", "REGIONCE", "DIVISIONCE",
    "PLACEFP", "AIANNHCE",
]  # fmt: skip
COUPLES = {"01": "1", "02": "2", "03": "3", "04": "4"}
PARTNERS = {"1": "21", "2": "23", "3": "22", "4": "24"}
FIRST_MAFID = 100_000_201
ROW = dict[str, Any]


@dataclass
class Households:
    """The rows of the three files."""

    persons: list[ROW] = field(default_factory=list)
    units: list[ROW] = field(default_factory=list)
    geo: list[ROW] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        """Writes the three files."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, columns in (("persons", PERSONS), ("units", UNITS), ("geo", GEO)):
            with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns, lineterminator="\n")
                writer.writeheader()
                writer.writerows(getattr(self, name))
        return folder


def made_up_households(number: int, seed: int = 7, states: Sequence[str] = ("01", "02", "11")) -> Households:
    """So many addresses: households of all kinds, vacant units, and group quarters; every tenth household is large."""
    chance = random.Random(seed)
    made = Households()
    for place in range(number):
        _add(made, chance, FIRST_MAFID + 3 * place, chance.choice(list(states)))
    chance.shuffle(made.persons)
    return made


def _add(made: Households, chance: random.Random, mafid: int, state: str) -> None:
    kind = chance.random()
    record = "4" if kind < 0.05 else "2"
    made.geo.append(dict(zip(GEO, [record, mafid, state, "001", "000100", "1001", 1, 3, 6, 99999, 9999], strict=True)))
    if record == "4":
        people = [(chance.randint(18, 90), "38") for _ in range(chance.randint(1, 6))]
        made.units.append(dict(zip(UNITS, ["4", mafid, len(people), 0, 0, "00", "0", "0", "00", "0"], strict=True)))
        made.persons += [_person(chance, "5", mafid, age, relation) for age, relation in people]
    elif kind < 0.12:
        made.units.append(dict(zip(UNITS, ["2", mafid, 0, 0, 0, "00", "0", "0", "00", "0"], strict=True)))
    else:
        _household(made, chance, mafid)


def _household(made: Households, chance: random.Random, mafid: int) -> None:
    couple = chance.choices(["1", "2", "3", "4", "5"], [45, 3, 10, 2, 40])[0]
    adults = [(chance.randint(20, 80), "20")] + ([(chance.randint(20, 80), PARTNERS[couple])] if couple != "5" else [])
    large = chance.random() < 0.1
    children = [
        (chance.randint(0, 17), chance.choice(["25", "25", "26", "27"]))
        for _ in range(chance.randint(5, 11) if large else chance.choice([0, 0, 1, 2]))
    ]
    relations = ["28", "29", "30", "31", "32", "33"] if chance.random() < 0.25 else []
    others = [
        (chance.randint(0, 85), chance.choice(relations)) for _ in range(chance.randint(1, 3) if relations else 0)
    ]
    if chance.random() < 0.15:
        others += [(chance.randint(1, 60), chance.choice(["34", "35", "36"])) for _ in range(chance.randint(1, 2))]
    people = adults + children + others
    male, kin = chance.random() < 0.5, [each for each in people[1:] if each[1] not in ("22", "24", "34", "35", "36")]
    household_type = _type(couple, male=male, children=bool(children), relatives=bool(kin), alone=len(people) == 1)
    type_of_family = _family(couple, male=male, relatives=bool(kin), alone=len(people) == 1)
    rows = [_person(chance, "3", mafid, age, relation) for age, relation in people]
    head = rows[0]
    values = [
        "2", mafid, len(people), len(kin) + 1 if kin else 0, head["CENHISP"], head["CENRACE"],
        chance.choice(["1", "2", "3", "3", "4"]), type_of_family, household_type, couple,
    ]  # fmt: skip
    made.units.append(dict(zip(UNITS, values, strict=True)))
    made.persons += rows


def _type(couple: str, *, male: bool, children: bool, relatives: bool, alone: bool) -> str:
    """HHT2."""
    if couple != "5":
        return ("01" if children else "02") if couple in "12" else ("03" if children else "04")
    place = 0 if alone else 1 if children else 2 if relatives else 3
    return f"{(9 if male else 5) + place:02d}"


def _family(couple: str, *, male: bool, relatives: bool, alone: bool) -> str:
    """HHT."""
    if couple in "12":
        return "1"
    if relatives:
        return "2" if male else "3"
    return str((4 if male else 6) + (0 if alone else 1))


def _person(chance: random.Random, record: str, mafid: int, age: int, relation: str) -> ROW:
    race = chance.choices(["01", "02", "03", "04", "05", "06", "07", "63"], [50, 15, 3, 8, 2, 10, 10, 2])[0]
    return dict(zip(PERSONS, [record, mafid, age, chance.choice([1, 1, 1, 2]), race, relation], strict=True))


BUDGETS = ("usa_*", "usa_A-G", "usa_H,I", "state_*", "state_A-G", "state_H,I")


def config_of(budget: Any = 0.5, *, states: Sequence[str] = ("01", "02", "11"), **others: Any) -> dict[str, Any]:
    """A ``config.json`` with one budget for everything."""
    iterated = ("PH1_num", "PH1_denom", "PH3", "PH4", "PH5_denom", "PH7", "PH8_denom")
    budgets = {name: dict.fromkeys(BUDGETS, budget) for name in iterated}
    budgets |= {name: {"usa_*": budget, "state_*": budget} for name in ("PH2", "PH6")}
    tau = {"PH1_num": 5, "PH2": 6, "PH3": 3, "PH4": 5, "PH6": 3, "PH7": 5}
    plain = {"privacy_budget": budgets, "tau": tau, "state_filter": list(states), "reader": "csv"}
    return plain | {"privacy_defn": "zcdp"} | others


def write_config(folder: Path, values: dict[str, Any]) -> Path:
    """The configuration as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.json"
    path.write_text(json.dumps(values, indent=1), encoding="utf-8")
    return path


if __name__ == "__main__":
    made_up_households(int(sys.argv[2]) if len(sys.argv) > 2 else 160).write(Path(sys.argv[1]))
