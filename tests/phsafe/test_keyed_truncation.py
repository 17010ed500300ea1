"""Truncation by the key of the release: one in and one out for every key, everybody alike, the same after a crash."""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import EXAMPLES
from tests.kits.phsafe_people import PERSONS, config_of, made_up_households, write_config
from tests.kits.programs import convert_households

import confide
from confide.mechanisms.phsafe.measure import counts_file, crowded_file
from confide.mechanisms.phsafe.tabulate import PERSON_COLUMNS, kept_by_key
from confide.releases.workspace import Workspace

Row = tuple[str, int, int, int, str, str]


def key(seed: int) -> bytes:
    return random.Random(seed).randbytes(32)


def chosen(rows: list[Row], tau: int, seed: int) -> Counter[Row]:
    columns = list(zip(*rows, strict=True)) or [()] * 6
    table = pa.table({name: pa.array(column) for name, column in zip(PERSON_COLUMNS, columns, strict=True)})
    return Counter(zip(*(column.to_pylist() for column in kept_by_key(table, tau, key(seed)).columns), strict=True))


def household(rng: random.Random, number: int, address: int = 100_000_001) -> list[Row]:
    """People of few kinds, so that some are alike."""
    return [("3", address, rng.randint(0, 2), 1, "01", rng.choice(["20", "25"])) for _ in range(number)]


@pytest.mark.parametrize("tau", [1, 2, 3])
def test_one_person_more_changes_who_counts_by_one_in_and_one_out(tau: int) -> None:
    rng = random.Random(tau)
    for seed in range(300):
        before = household(rng, rng.randint(1, 7))
        after = [*before, *household(rng, 1)]
        rng.shuffle(after)
        one, other = chosen(before, tau, seed), chosen(after, tau, seed)
        assert one.total() == min(tau, len(before))
        assert other.total() == min(tau, len(after))
        assert (one - other).total() <= 1
        assert (other - one).total() <= 1


def test_who_counts_depends_on_the_own_household_and_the_key_alone() -> None:
    rng = random.Random(1)
    here, there = household(rng, 6), household(rng, 6, 100_000_002)
    alone = chosen(here, 3, 5)
    both = chosen([*there, *here], 3, 5)
    assert Counter({row: n for row, n in both.items() if row[1] == 100_000_001}) == alone
    for order in itertools.islice(itertools.permutations(here), 0, 720, 97):
        assert chosen(list(order), 3, 5) == alone
    assert len({tuple(sorted(chosen(here, 3, seed).items())) for seed in range(40)}) > 3


@pytest.mark.statistical
def test_everybody_of_a_household_counts_as_often() -> None:
    """2,000 keys, three of eight persons: 750 each, sd 21.7; false alarms below 1e-6 by five standard deviations."""
    people = [("3", 100_000_001, age, 1, "01", "34") for age in range(20, 28)]
    times: Counter[Row] = Counter()
    for seed in range(2_000):
        times += chosen(people, 3, seed)
    assert set(times) == set(people)
    assert all(abs(number - 750) < 5.5 * 21.7 for number in times.values()), times


def project(folder: Path, rule: str, budget: float = 0.5) -> Path:
    made = made_up_households(60, 3, states=["01", "02"])
    crowd = next(row for row in made.units if row["RTYPE"] == "2" and row["FINAL_POP"] > 1 and row["HHT2"] != "00")
    mate = dict(zip(PERSONS, ["3", crowd["MAFID"], 30, 1, "02", "34"], strict=True))
    made.persons += [dict(mate, QAGE=age) for age in range(3, 33)]
    values = config_of(budget, state_filter=["01", "02"], tau=dict.fromkeys(config_of()["tau"], 3))
    spec = convert_households(write_config(folder, values), made.write(folder / "data"), folder / "spec")
    text = spec.read_text(encoding="utf-8").replace("[phsafe]", f'[phsafe]\ntruncation = "{rule}"')
    spec.write_text(text, encoding="utf-8")
    return spec


def true_counts(folder: Path, table: str) -> tuple[int, ...]:
    """The counts of all cells of a table in all areas, as a run kept them."""
    rows = pq.read_table(counts_file(Workspace(folder / "phsafe"), table))
    names = [name for name in rows.column_names if name.startswith("cell_")]
    return tuple(sum(rows.column(name).to_pylist()) for name in names)


def test_a_release_counts_as_many_people_by_either_rule_and_says_which(tmp_path: Path) -> None:
    totals = {}
    for rule in ("bureau", "keyed"):
        spec = project(tmp_path / rule, rule)
        run = confide.run(spec, processes=1, insecure_key="11" * 32)
        assert confide.verify(run.release).ok
        question = run.plan.question
        assert question.get("truncation_rule", "bureau") == rule
        totals[rule] = sum(true_counts(spec.parent, "PH1_num"))
        assert not list(spec.parent.rglob("*.crowded.parquet"))
        assert confide.evaluate(spec, processes=1).dossier.exists()
    assert totals["bureau"] == totals["keyed"]


def test_other_keys_choose_others_and_the_same_key_the_same(tmp_path: Path) -> None:
    """Without noise: of thirty people of one household, half of them children, other keys keep others."""
    spec = project(tmp_path / "one", "keyed", float("inf"))
    found = []
    for number, text in enumerate(["11", "11", "22", "33", "44"]):
        folder = shutil.copytree(spec.parent.parent, tmp_path / f"run-{number}")
        confide.run(folder / "spec" / "spec.toml", processes=1, insecure_key=text * 32)
        found.append(true_counts(folder / "spec", "PH1_num"))
    assert found[0] == found[1]
    assert len(set(found)) > 1
    assert len({sum(each) for each in found}) == 1


def test_a_run_that_died_before_the_choice_chooses_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from confide.mechanisms.phsafe import measure

    whole = confide.run(project(tmp_path / "whole", "keyed"), processes=1, insecure_key="33" * 32)
    spec = project(tmp_path / "killed", "keyed")

    class DiedError(Exception):
        pass

    def die(*_: object) -> None:
        raise DiedError

    with monkeypatch.context() as patched:
        patched.setattr(measure, "choose", die)
        with pytest.raises(DiedError):
            confide.run(spec, processes=1, insecure_key="33" * 32)
    assert crowded_file(Workspace(spec.parent / "phsafe"), "PH1_num").exists()
    again = confide.run(spec, processes=1, insecure_key="33" * 32)
    names = [path.relative_to(whole.release) for path in whole.release.rglob("*.csv")]
    assert names
    for name in names:
        assert (again.release / name).read_bytes() == (whole.release / name).read_bytes()


def test_the_rule_of_the_bureau_stays_where_nothing_is_said() -> None:
    text = (EXAMPLES / "phsafe" / "spec.toml").read_text(encoding="utf-8")
    assert "truncation" not in text.replace("# truncation", "")
