"""Truncation and sensitivity, by brute force over made-up households: whatever changes lies in one of them."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.engines.local import LocalEngine
from confide.mechanisms.phsafe import settings as tables
from confide.mechanisms.phsafe import tabulate
from confide.mechanisms.phsafe.settings import PHSafeSettings
from confide.privacy import Definition

NUMBER = 600
PERSON = ("RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
Row = dict[str, Any]
Household = tuple[list[Row], Row]


def a_person(chance: random.Random, mafid: int) -> Row:
    """A row of few possible values, so that some are alike."""
    age, relation = chance.choice([0, 3, 5, 17, 18, 40]), chance.choice(["20", "21", "25", "30", "34"])
    race = chance.choice(["01", "02", "07"])
    return dict(zip(PERSON, ["3", mafid, age, chance.choice([1, 2]), race, relation], strict=True))


def a_unit(chance: random.Random, state: str) -> Row:
    kind = chance.choice([("01", "1", "1"), ("02", "1", "2"), ("03", "2", "3"), ("06", "3", "5"), ("10", "2", "5")])
    return {
        "UNIT_RTYPE": "2", "FINAL_POP": 0, "NPF": 0, "HHSPAN": chance.choice([1, 2]),
        "HHRACE": chance.choice(["01", "02", "07"]), "TEN": chance.choice(["1", "2", "3", "4"]), "HHT2": kind[0],
        "HHT": kind[1], "CPLT": kind[2], "state": state,
    }  # fmt: skip


def neighbours(seed: int, largest: int) -> tuple[list[Household], list[Household]]:
    """Households, and the same with one person more, whose unit may have become another. Each is a state of its own, so
    that its counts stand by themselves. Some are of one cell alone, before and after."""
    chance = random.Random(seed)
    before, after = [], []
    for number in range(NUMBER):
        mafid, state = 100_000_001 + number, f"{number:04d}"
        people = [a_person(chance, mafid) for _ in range(chance.randint(0, largest))]
        more, unit = a_person(chance, mafid), a_unit(chance, state)
        if number % 4 == 0 and people:  # everybody alike: every change adds up in one cell
            people, more = [dict(people[0]) for _ in people], dict(people[0])
        other = unit if number % 3 == 0 else a_unit(chance, state)
        if chance.random() < 0.5:
            before.append((people, unit))
            after.append(([*people, more], other))
        else:
            before.append(([*people, more], unit))
            after.append((people, other))
    return before, after


def written(households: Sequence[Household], folder: Path, name: str) -> tuple[Path, Path]:
    """Persons with their units, and units, as the mechanism leaves them."""
    persons = [{**person, **unit} for people, unit in households for person in people]
    units = [{"MAFID": 100_000_001 + at, **unit} for at, (_, unit) in enumerate(households)]
    files = folder / f"{name}-persons.parquet", folder / f"{name}-units.parquet"
    for file, rows in zip(files, (persons, units), strict=True):
        pq.write_table(pa.Table.from_pylist(rows), file)
    return files


def rank(person: Row, copy: int) -> str:
    """The rank of a person, after the words of the rule."""

    def hashed(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    texts = [f"{person[name]:b}" if isinstance(person[name], int) else str(person[name]) for name in PERSON]
    return hashed(hashed(",".join(map(hashed, [*texts, f"{copy:b}"]))))


def kept_by_hand(people: Sequence[Row], tau: int) -> Counter[tuple[Any, ...]]:
    """The persons of a household who are kept."""
    seen: Counter[tuple[Any, ...]] = Counter()
    ranked = []
    for person in people:
        content = tuple(person[name] for name in PERSON)
        seen[content] += 1
        ranked.append((rank(person, seen[content]), content))
    return Counter(content for _, content in sorted(ranked)[:tau])


def kept_by_sql(engine: LocalEngine, file: Path, tau: int) -> dict[int, Counter[tuple[Any, ...]]]:
    """The same for all households, as the mechanism finds them."""
    rows = engine.sql(f"SELECT * FROM ({tabulate.kept('SELECT * FROM rows', tau)})", rows=file).reveal("a test")
    result: dict[int, Counter[tuple[Any, ...]]] = {}
    for row in rows.to_pylist():
        result.setdefault(row["MAFID"], Counter())[tuple(row[name] for name in PERSON)] += 1
    return result


@pytest.mark.parametrize("tau", [1, 2, 4])
def test_one_person_more_changes_who_is_kept_by_one_in_and_one_out(tau: int, tmp_path: Path) -> None:
    households = neighbours(tau, tau + 4)
    sides = [written(each, tmp_path, str(at))[0] for at, each in enumerate(households)]
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        first, second = (kept_by_sql(engine, file, tau) for file in sides)
    for side, kept in zip(households, (first, second), strict=True):
        for at, (people, _) in enumerate(side):
            assert kept.get(100_000_001 + at, Counter()) == kept_by_hand(people, tau)
    exchanged = 0
    for mafid in first.keys() | second.keys():
        one, other = first.get(mafid, Counter()), second.get(mafid, Counter())
        gone, come = (one - other).total(), (other - one).total()
        assert gone <= 1
        assert come <= 1
        exchanged += gone == come == 1
    assert exchanged  # some are pushed out by somebody who comes


def largest_changes(
    counted: tables.CountTable, tau: int | None, files: Sequence[tuple[Path, Path]], engine: LocalEngine, folder: Path
) -> Mapping[str, tuple[int, int]]:
    """For each iteration level the largest L1 and squared L2 of the change of a household's counts."""
    states, cells = [f"{number:04d}" for number in range(NUMBER)], [cell.code for cell in counted.interior]
    counts = []
    for persons, units in files:
        tabulate.count_table(engine, counted, tau, persons if counted.of_persons else units, folder / "counts.parquet")
        counts.append(pq.read_table(folder / "counts.parquet"))
    result = {}
    for level in counted.iteration_levels:
        first, second = (tabulate.dense(each, tables.STATE, level, states, cells) for each in counts)
        change = (second - first).reshape(NUMBER, -1)
        result[level] = int(np.abs(change).sum(axis=1).max()), int((change**2).sum(axis=1).max())
    return result


@pytest.mark.parametrize("tau", [1, 3])
def test_no_neighbours_are_further_apart_than_is_stated(tau: int, tmp_path: Path) -> None:
    files = [written(each, tmp_path, str(at)) for at, each in enumerate(neighbours(10 + tau, tau + 3))]
    attained = False
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        for counted in tables.measured_tables():
            limit = tau if counted.of_persons else None
            taus = {each.name: tau for each in tables.measured_tables() if each.of_persons}
            changes = largest_changes(counted, limit, files, engine, tmp_path)
            for sensitivity in ("household", "bureau"):
                settings = PHSafeSettings(Definition.ZCDP, sensitivity, ("01",), {}, taus)  # type: ignore[arg-type]
                stated = settings.stated(counted)
                for l1, l2_squared in changes.values():
                    assert l1 <= stated.l1
                    assert l2_squared <= stated.l2_squared
                    if sensitivity == "household" and counted.of_persons:
                        attained |= (l1, l2_squared) == (2 * tau, 2 * tau**2)
    assert attained  # the bound is not too large


def test_the_variances_are_those_of_the_census_bureau_and_lower_for_the_household() -> None:
    budget = Fraction("0.141622")
    variance = {}
    for sensitivity in ("bureau", "household"):
        budgets = {("PH1_num", "STATE", "A-G"): budget, ("PH1_denom", "STATE", "A-G"): Fraction("0.001170")}
        settings = PHSafeSettings(Definition.ZCDP, sensitivity, ("01",), budgets, {"PH1_num": 10})  # type: ignore[arg-type]
        variance[sensitivity] = {query.table: settings.law(query).parameter for query in settings.queries}
    assert round(float(variance["bureau"]["PH1_num"]), 1) == 1708.8
    assert round(float(variance["bureau"]["PH1_denom"]), 1) == 1709.4
    assert variance["household"]["PH1_num"] == 100 / budget
    assert variance["bureau"]["PH1_num"] / variance["household"]["PH1_num"] == Fraction(242, 100)
    assert variance["bureau"]["PH1_denom"] / variance["household"]["PH1_denom"] == 2
