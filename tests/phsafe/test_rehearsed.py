"""Rehearsals of PHSafe: made-up people in made-up households at the public addresses, with nothing odd about them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import EXAMPLES

import confide
from confide.inputs.made_up import MadeUpPeople, draw
from confide.mechanisms.phsafe.made_up import PHSafeRehearsal, made_up_households


def people(number: int, seed: int) -> MadeUpPeople:
    form = PHSafeRehearsal(None).record_form(None)  # type: ignore[arg-type]
    return draw(form, number, [], np.random.default_rng(seed))


@pytest.mark.parametrize(("number", "units"), [(1, 1), (1, 5), (40, 3), (2_000, 900)])
def test_made_up_households_are_as_the_layout_has_them(number: int, units: int) -> None:
    addresses = np.arange(100_000_001, 100_000_001 + units)
    persons, table = made_up_households(addresses, np.array([200_000_001]), people(number, number))
    rows = {row["MAFID"]: row for row in table.to_pylist()}
    assert sorted(rows) == [*addresses, 200_000_001]
    assert rows[200_000_001]["RTYPE"] == "4"
    members: dict[int, list[dict[str, object]]] = {}
    for person in persons.to_pylist():
        members.setdefault(person["MAFID"], []).append(person)
    assert sum(map(len, members.values())) == number
    for address, unit in rows.items():
        here = members.get(address, [])
        assert unit["FINAL_POP"] == len(here)
        if not here:
            assert (unit["HHT"], unit["HHT2"], unit["TEN"]) == ("0", "00", "0")
            continue
        (holder,) = [each for each in here if each["RELSHIP"] == "20"]
        assert (unit["HHRACE"], unit["HHSPAN"]) == (holder["CENRACE"], holder["CENHISP"])
        assert (unit["HHT"] == "1") == any(each["RELSHIP"] == "21" for each in here) == (unit["CPLT"] == "1")
        own = [each for each in here if each["RELSHIP"] == "25"]
        assert all(each["QAGE"] < 18 for each in own)  # type: ignore[operator]
        assert all(each["QAGE"] >= 18 for each in here if each["RELSHIP"] != "25")  # type: ignore[operator]
        assert (unit["HHT2"] in ("01", "03", "06", "10")) == bool(own) or unit["HHT2"] in ("07", "11")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_rehearsal_reads_no_person_and_no_unit(tmp_path: Path, seed: int) -> None:
    folder = shutil.copytree(EXAMPLES / "phsafe", tmp_path / "office")
    for name in ("persons.csv", "units.csv"):
        (folder / name).unlink()
    made = confide.rehearse(folder / "spec.toml", persons=200, seed=seed, processes=1)
    assert made.ok
    assert made.records == 200
    checked = confide.check(made.folder / "spec.toml", processes=1)
    assert [each for each in checked.findings if each.code == "bad-record"] == []
    assert pq.read_table(made.folder / "made-up-units.parquet").num_rows >= 1
    assert not list(folder.glob("*.ledger")), "nothing is charged"
