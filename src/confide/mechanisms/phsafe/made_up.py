"""Made-up persons and units of PHSafe at the public addresses, for rehearsals: no record is looked at.

Persons are drawn alike from ages, origins and races, or from public margins. Adults and children become households: the
first adults are householders, the next their spouses, partners, siblings or roommates, and children under 18 are those
of the householder. What a unit says of its household follows from who lives there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from confide.arrays import Integers
from confide.engines import LocalEngine
from confide.inputs.made_up import MadeUpPeople, RecordForm
from confide.mechanisms.phsafe.problem import PHSafeProblem
from confide.mechanisms.phsafe.tabulate import GEO_COLUMNS, HOUSING_UNIT, PERSON_COLUMNS, in_states, selected
from confide.releases.abilities import MadeUpRecords
from confide.schema import Attribute, Level

AGES, ORIGINS, RACES, TENURES = 116, 2, 63, 4
ADULTS_OF_HOUSEHOLD = 1.6
"""How many adults a household has on average."""
HOLDER, SPOUSE, PARTNER, CHILD, SIBLING, ROOMMATE = "20", "21", "22", "25", "28", "34"
SECOND = (SPOUSE, PARTNER, SIBLING, ROOMMATE)
"""What the second adult of a household may be."""
CHANCES = (0.7, 0.1, 0.1, 0.1)
OCCUPIED_UNIT, GROUP_QUARTERS = "2", "4"


class PHSafeRehearsal(MadeUpRecords[PHSafeProblem]):
    """Persons of every age, origin and race, each alike, in households at the addresses of the geographic file."""

    def record_form(self, problem: PHSafeProblem) -> RecordForm:  # noqa: ARG002 - the layout says what a person is
        """Ages, origins and races, each alike."""
        columns = {
            "QAGE": map(str, range(AGES)),
            "CENHISP": map(str, range(1, ORIGINS + 1)),
            "CENRACE": (f"{number:02d}" for number in range(1, RACES + 1)),
        }
        attributes = (
            Attribute(name, name, tuple(Level(code, code) for code in codes)) for name, codes in columns.items()
        )
        return RecordForm(tuple(attributes))

    def made_up_files(self, problem: PHSafeProblem, people: MadeUpPeople) -> Mapping[str, pa.Table]:
        persons, units = made_up_households(*_addresses(problem), people)
        return {"records": persons, "units": units}


def _addresses(problem: PHSafeProblem) -> tuple[Integers, Integers]:
    """The addresses of the release that are housing units, and the others."""
    geo = problem.files.geo
    with tempfile.TemporaryDirectory(prefix="confide-addresses-") as scratch, LocalEngine(Path(scratch)) as engine:
        columns = selected(engine, geo, GEO_COLUMNS)
        text = f"SELECT RTYPE, MAFID FROM (SELECT {columns} FROM geo) AS place WHERE {in_states(problem.states)}"
        rows = engine.sql(f"{text} ORDER BY MAFID", geo=geo).reveal("addresses are public")
    mafid = np.asarray(rows.column("MAFID").to_numpy(), np.int64)
    housing = np.array([kind == HOUSING_UNIT for kind in rows.column("RTYPE").to_pylist()], np.bool_)
    return mafid[housing], mafid[~housing]


def made_up_households(units: Integers, others: Integers, people: MadeUpPeople) -> tuple[pa.Table, pa.Table]:
    """Persons in housing units, and a row for each address.

    Args:
        units: The addresses that are housing units; as many as there are households at most have people.
        others: The other addresses: nobody lives there.
        people: Ages, origins and races.

    Returns:
        Both files in the Census Bureau's layout.
    """
    random, number = people.random, people.number
    age, origin, race = (people.levels[name].copy() for name in ("QAGE", "CENHISP", "CENRACE"))
    if not (age >= 18).any():
        age[0] = 30  # a household has a householder
    adults, children = np.flatnonzero(age >= 18), np.flatnonzero(age < 18)
    occupied = int(min(len(units), max(1, len(adults) / ADULTS_OF_HOUSEHOLD)))
    place = random.permutation(len(units))[:occupied]
    household = np.empty(number, np.int64)
    household[adults] = np.concatenate([np.arange(occupied), random.integers(occupied, size=len(adults) - occupied)])
    household[children] = random.integers(occupied, size=len(children))
    # Adults by household, the householder first; the second has a role of its own, the others are roommates.
    order = adults[np.argsort(household[adults], kind="stable")]
    rank = np.arange(len(order)) - np.searchsorted(household[order], household[order])
    role = random.choice(len(SECOND), size=occupied, p=CHANCES)
    kin = np.full(number, CHILD, dtype="U2")
    kin[order] = np.where(rank == 0, HOLDER, np.where(rank == 1, np.array(SECOND)[role[household[order]]], ROOMMATE))
    of_units = _units(household, kin, race, origin, random, occupied)
    vacant = len(units) - occupied + len(others)
    mafid = np.concatenate([units[place], np.delete(units, place), others])
    kinds = [OCCUPIED_UNIT] * len(units) + [GROUP_QUARTERS] * len(others)
    empty = {"FINAL_POP": 0, "NPF": 0, "HHSPAN": 0, "HHRACE": "00", "TEN": "0", "HHT": "0", "HHT2": "00", "CPLT": "0"}
    columns = {
        name: pa.concat_arrays([pa.array(of_units[name].tolist()), pa.array([nothing] * vacant, _type(nothing))])
        for name, nothing in empty.items()
    }
    persons = {
        "RTYPE": pa.array(["3"] * number),
        "MAFID": pa.array(units[place][household]),
        "QAGE": pa.array(age),
        "CENHISP": pa.array(origin + 1),
        "CENRACE": pa.array([f"{each + 1:02d}" for each in race.tolist()]),
        "RELSHIP": pa.array(kin.tolist()),
    }
    units_table = pa.table({"RTYPE": pa.array(kinds), "MAFID": pa.array(mafid), **columns})
    return pa.table({name: persons[name] for name in PERSON_COLUMNS}), units_table


def _type(value: Any) -> pa.DataType:
    return pa.string() if isinstance(value, str) else pa.int64()


def _units(
    household: Integers, kin: Any, race: Integers, origin: Integers, random: np.random.Generator, occupied: int
) -> dict[str, Any]:
    """What the occupied units say, from the people in them."""

    def having(word: str) -> Any:
        return np.bincount(household[kin == word], minlength=occupied)

    married, partners, kids, siblings = (having(word) for word in (SPOUSE, PARTNER, CHILD, SIBLING))
    size = np.bincount(household, minlength=occupied)
    male = random.random(occupied) < 0.5
    relatives = married + kids + siblings
    hht2 = np.where(male, "12", "08")
    for condition, of_women, of_men in (
        (siblings > 0, "07", "11"),
        (kids > 0, "06", "10"),
        (size == 1, "05", "09"),
        (partners > 0, "04", "04"),
        ((partners > 0) & (kids > 0), "03", "03"),
        (married > 0, "02", "02"),
        ((married > 0) & (kids > 0), "01", "01"),
    ):
        hht2 = np.where(condition, np.where(male, of_men, of_women), hht2)
    alone = size == 1
    hht = np.where(male, np.where(alone, "4", "5"), np.where(alone, "6", "7"))
    hht = np.where(relatives > 0, np.where(male, "2", "3"), hht)
    holder = np.flatnonzero(kin == HOLDER)
    holder = holder[np.argsort(household[holder])]
    return {
        "FINAL_POP": size,
        "NPF": np.where(relatives > 0, relatives + 1, 0),
        "HHSPAN": origin[holder] + 1,
        "HHRACE": np.array([f"{each + 1:02d}" for each in race[holder].tolist()]),
        "TEN": (random.integers(TENURES, size=occupied) + 1).astype("U1"),
        "HHT": np.where(married > 0, "1", hht),
        "HHT2": hht2,
        "CPLT": np.where(married > 0, "1", np.where(partners > 0, "3", "5")),
    }
