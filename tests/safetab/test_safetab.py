"""SafeTab-P as a whole: without noise the tables of a plain reference, and a plan that costs what was asked for.

With infinite budgets nothing is random, so tables are compared row by row: with those that the Census Bureau's own
program made of its toy input, and with a reference that goes through persons one by one (``tests/kits/safetab.py``).
"""

from __future__ import annotations

import json
import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.kits.safetab import (
    ALL,
    GEOGRAPHY,
    GOLDEN,
    INFINITY,
    KEY,
    MEMORY,
    PEOPLE,
    PR,
    PRODUCTION,
    STATEWIDE,
    TOY,
    US,
    as_parquet,
    budget_key,
    budgets,
    config,
    execute,
    level_of,
    person,
    random_input,
    read_rows,
    reference,
    tables,
    thresholds,
    write_input,
)
from tests.kits.safetab_codes import TEXTS

from confide import api
from confide.engines import LocalEngine
from confide.errors import ConfideError
from confide.mechanisms.safetab.mechanism import SafeTab
from confide.mechanisms.safetab.problem import SafeTabProblem
from confide.noise import DiscreteGaussian, TwoSidedGeometric
from confide.official_runs import convert
from confide.privacy import Definition, Neighbours, price
from confide.releases.plan import Plan, read_plan

golden = [
    pytest.mark.shared,
    pytest.mark.skipif(not GOLDEN.exists() or not TOY.exists(), reason="../shared/data/safetab is not there"),
]
production = [
    pytest.mark.shared,
    pytest.mark.skipif(not PRODUCTION.exists(), reason="../shared/data/safetab/safetab_p_production_spec is not there"),
]


def toy(folder: Path, end: str = "\n", tail: str = "", **changes: Any) -> tuple[Path, Path]:
    """The toy input with the settings of the golden run, its text files with other ends of lines."""
    parameters, data = folder / "parameters", folder / "data"
    shutil.copytree(TOY / "input_dir_zcdp", parameters)
    data.mkdir()
    for name in ("person-records.txt", "GRF-C.txt"):
        shutil.copy(TOY / name, data)
    for path in (*parameters.glob("*.txt"), *data.glob("*.txt")):
        lines = [line for line in path.read_bytes().decode().replace("\r", "").split("\n") if line]
        path.write_bytes((end.join([*lines, ""]) + tail).encode())
    values = json.loads((GOLDEN / "config.json").read_text()) | changes
    (parameters / "config.json").write_text(json.dumps(values))
    return parameters, data


def assert_golden(release: Path) -> None:
    first, second = tables(release)
    assert (len(first), len(second)) == (602, 7_620)
    assert sorted(first) == sorted(read_rows(GOLDEN / "t1.csv"))
    assert sorted(second) == sorted(read_rows(GOLDEN / "t2.csv"))


class TestTheToyWithoutNoise:
    """The tables of the Bureau's own program, 602 totals and 7,620 rows of sex by age, row by row."""

    pytestmark = golden

    @pytest.mark.parametrize(
        ("end", "tail", "definition"),
        [("\n", "", "zcdp"), ("\r\n", "\r\n\r\n", "zcdp"), ("\n", "\n", "puredp")],
        ids=["text", "CRLF and blank lines", "pure"],
    )
    def test_from_text(self, tmp_path: Path, end: str, tail: str, definition: str) -> None:
        made = execute(*toy(tmp_path, end, tail, privacy_defn=definition), tmp_path / "out")
        assert made.infinite
        assert_golden(made.folder)

    def test_from_parquet(self, tmp_path: Path) -> None:
        parameters, data = toy(tmp_path)
        as_parquet(parameters)
        as_parquet(data)
        assert_golden(execute(parameters, data, tmp_path / "out").folder)

    def test_from_a_converted_spec(self, tmp_path: Path) -> None:
        spec = convert(*toy(tmp_path), tmp_path / "converted")
        assert_golden(api.run(spec, processes=1, memory=MEMORY, insecure_key=KEY).release)

    def test_the_reference_agrees(self, tmp_path: Path) -> None:
        """The reference that other inputs are compared with is held against the Bureau's program, too."""
        first, second = reference(*toy(tmp_path))
        assert first == sorted(read_rows(GOLDEN / "t1.csv"))
        assert second == sorted(read_rows(GOLDEN / "t2.csv"))


def assert_as_reference(folder: Path, **written: Any) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    values = config(**written.pop("values", {}))
    parameters, data = write_input(folder, values, **written)
    found, expected = tables(execute(parameters, data, folder / "out").folder), reference(parameters, data)
    assert tuple(map(sorted, found)) == expected
    return found


@pytest.mark.parametrize("seed", range(8))
def test_inputs_of_many_kinds(tmp_path: Path, seed: int) -> None:
    """Lists of one kind or of all, passes, filters, thresholds, zero budgets, line ends, columns in any order."""
    parameters, data = random_input(tmp_path, seed)
    found, expected = tables(execute(parameters, data, tmp_path / "out").folder), reference(parameters, data)
    assert sorted(found[0]) == expected[0]
    assert sorted(found[1]) == expected[1]
    assert expected[0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_120))
def test_more_inputs_of_many_kinds(tmp_path: Path, seed: int) -> None:
    test_inputs_of_many_kinds(tmp_path, seed)


@pytest.mark.parametrize("number", [1, 7, 8])
def test_race_codes_are_cut_off_before_the_alone_test(tmp_path: Path, number: int) -> None:
    """The eight codes of one person: 1010 six times, 1011, then 2010. Seven of them lie in one group alone."""
    races = ["1010"] * 6 + ["1011", "2010"]
    people = [person(GEOGRAPHY[1], *races), person(GEOGRAPHY[7], "1010")]
    values = {"max_race_codes": number, "run_pr": False} | thresholds(10, 20, 30)
    totals, _ = assert_as_reference(tmp_path, values=values, people=people)
    alone = [row for row in totals if row[1:3] == ("USA", "1101")]
    assert alone == [("1", "USA", "1101", "1" if number < 8 else "0")]


def test_suppression_without_noise_drops_true_zeros_below_the_states_alone(tmp_path: Path) -> None:
    values = {"zero_suppression_chance": 0.9999} | thresholds(2, 4, 6)
    totals, _ = assert_as_reference(tmp_path / "suppressed", values=values)
    everything, _ = assert_as_reference(tmp_path / "all", values=thresholds(2, 4, 6))
    dropped = set(everything) - set(totals)
    assert {row[-1] for row in dropped} == {"0"}
    assert {row[1] for row in dropped} == set(ALL) - set(STATEWIDE)
    assert {row[1] for row in totals if row[-1] == "0"} <= set(STATEWIDE)


def test_rows_are_in_order(tmp_path: Path) -> None:
    """By region type, region, iteration, sex and age, the sum over ages first."""
    first, second = assert_as_reference(tmp_path, values=thresholds(1, 2, 3))
    order = [(ALL.index(row[1]), row[0], row[2]) for row in first]
    assert order == sorted(order)
    ages = [
        (ALL.index(row[1]), row[0], row[2], row[5], -1 if row[3] == "*" else int(row[3]), row[4] != "*")
        for row in second
    ]
    assert ages == sorted(ages)
    assert {row[1] for row in first} == set(ALL)


@pytest.mark.parametrize(
    ("run_us", "run_pr", "regions"), [(True, False, US), (False, True, PR)], ids=["US alone", "Puerto Rico alone"]
)
def test_a_pass_alone(tmp_path: Path, run_us: bool, run_pr: bool, regions: tuple[str, ...]) -> None:
    totals, _ = assert_as_reference(tmp_path, values={"run_us": run_us, "run_pr": run_pr})
    assert {row[1] for row in totals} == set(regions)


def test_a_state_filter_leaves_out_blocks_and_people_of_other_states(tmp_path: Path) -> None:
    totals, _ = assert_as_reference(tmp_path, values={"state_filter_us": ["02"], "run_pr": False})
    assert {row[0] for row in totals if row[1] in ("STATE", "COUNTY")} == {"02", "02020"}


def test_levels_without_a_budget_are_not_tabulated(tmp_path: Path) -> None:
    values = (
        budgets(0, US) | {budget_key("PLACE", 1): INFINITY} | budgets(0, PR) | {budget_key("PR-STATE", 2): INFINITY}
    )
    totals, _ = assert_as_reference(tmp_path, values=values)
    assert {row[1] for row in totals} == {"PLACE", "PR-STATE"}


def test_a_pass_without_a_budget_beside_one_with(tmp_path: Path) -> None:
    totals, _ = assert_as_reference(tmp_path, values=budgets(0, US))
    assert {row[1] for row in totals} == set(PR)


def test_a_level_without_areas_is_left_out(tmp_path: Path) -> None:
    nowhere = [line.replace("|0010", "|9999").replace("|5000", "|9999") for line in GEOGRAPHY]
    totals, _ = assert_as_reference(tmp_path, geography=nowhere)
    assert {row[1] for row in totals} == set(ALL) - {"AIANNH"}


def only(flag: str) -> dict[str, str]:
    """The lists with every iteration total-only, or coarse-only; without those that would then share a code."""
    flags, doubled = {"total": "True|False", "coarse": "False|True"}[flag], ("1301", "1302", "4004")
    lists = {}
    for key, text in TEXTS.items():
        lines = [line for line in text.split("\n") if key == "codes" or line[:4] not in doubled]
        if key.endswith("_iterations"):
            lines = [re.sub(r"(True|False)\|(True|False)$", flags, line) for line in lines]
        lists[key] = "\n".join(lines)
    return lists


@pytest.mark.parametrize("flag", ["total", "coarse"])
def test_lists_of_one_kind_alone(tmp_path: Path, flag: str) -> None:
    totals, cells = assert_as_reference(tmp_path, lists=only(flag))
    assert {row[1] for row in totals} == (set(STATEWIDE) if flag == "total" else set(ALL) - set(STATEWIDE))
    assert bool(cells) == (flag == "coarse")


def test_negative_cells_become_zero_before_they_are_summed(tmp_path: Path) -> None:
    """With noise: totals of tables are sums of cells without negatives, so that none is negative."""
    noisy = budgets(0.02) | thresholds(-10_000, 1, 10_000) | {"privacy_budget_p_stage_1_fraction": 0.9}
    for allowed in (True, False):
        parameters, data = write_input(tmp_path / str(allowed), config(allow_negative_counts=allowed, **noisy))
        spec = convert(parameters, data, tmp_path / f"{allowed}-spec")
        first, second = tables(api.run(spec, processes=1, memory=MEMORY, insecure_key=KEY).release)
        cells: dict[tuple[str, ...], int] = {}
        for row in second:
            if row[3] != "*":
                cells[row[:3]] = cells.get(row[:3], 0) + int(row[-1])
        total = {row[:3]: int(row[-1]) for row in first}
        assert len(cells) > 50
        assert all(total[group] == number for group, number in cells.items())
        assert (min(int(row[-1]) for row in second) < 0) == allowed
        assert (min(total.values()) < 0) == allowed


# The plan.


def question_of(folder: Path, values: dict[str, Any], lists: Path | None = None) -> tuple[SafeTabProblem, Plan]:
    parameters, data = write_input(folder, values)
    if lists is not None:
        for path in lists.glob("*.txt"):
            shutil.copy(path, parameters)
    spec = api.load(convert(parameters, data, folder / "spec"))
    (folder / "scratch").mkdir()
    with LocalEngine(folder / "scratch", processes=1, memory=MEMORY) as engine:
        question = SafeTab().prepare(spec, engine)
    return question, SafeTab().plan(question)


def production_values(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((PRODUCTION / "config.json").read_text())
    return values | {"reader": "csv", "state_filter_us": ["01", "02"]} | changes


def cost(plan: Plan, neighbours: Neighbours) -> Fraction:
    (number,) = price(plan.event, neighbours, plan.definition).parameters().values()
    return number


class TestProduction:
    """The settings and lists of the 2020 release, on a few blocks (paper, Tables 6 and 7)."""

    pytestmark = production

    def test_what_it_costs(self, tmp_path: Path) -> None:
        for name, changes, total in (
            ("both", {}, "4.944"),
            ("us", {"run_pr": False}, "4.944"),
            ("pr", {"run_us": False}, "2.643"),
        ):
            question, plan = question_of(tmp_path / name, production_values(**changes), PRODUCTION)
            assert cost(plan, Neighbours.ADD_REMOVE) == Fraction(total) == question.settings.total
            assert cost(plan, Neighbours.CHANGE_ONE) == 2 * Fraction(total)
            for level in question.levels:
                prefix = {1: "regional", 2: "detailed"}[level.settings.iteration_level]
                region = level.settings.region_type
                event = plan.event_of(
                    lambda measure, region=region, prefix=prefix: (
                        measure.level == region and measure.query.startswith(prefix)
                    )
                )
                (spent,) = price(event, Neighbours.ADD_REMOVE, Definition.ZCDP).parameters().values()
                assert spent == level.settings.budget

    def test_its_noise_and_suppression(self, tmp_path: Path) -> None:
        question, plan = question_of(tmp_path, production_values(), PRODUCTION)
        assert len(question.levels) == 11 + 8
        assert {level.stability for level in question.levels} == {9}
        by_budget = {str(level.settings.budget): level for level in question.levels}
        for budget, first, second, alone in (
            ("1067/500", 21.087, 2.343, 2.109),
            ("159/1000", 283.02, 31.447, 28.302),
            ("1/125", 5625, 625, 562.5),
        ):
            level, rho = by_budget[budget], Fraction(budget)
            assert level.first == DiscreteGaussian(Fraction(9) / (2 * rho / 10))
            assert level.second == DiscreteGaussian(Fraction(9) / (2 * rho * 9 / 10))
            assert level.total == DiscreteGaussian(Fraction(9) / (2 * rho))
            for law, rounded in ((level.first, first), (level.second, second), (level.total, alone)):
                assert float(law.parameter) == pytest.approx(rounded, abs=0.005)
        assert {
            (level.name, level.suppressed_up_to) for level in question.levels if level.suppressed_up_to is not None
        } == {(f"{region}-1", 93) for region in ("COUNTY", "TRACT", "PLACE", "PR-COUNTY", "PR-TRACT", "PR-PLACE")} | {
            (f"{region}-2", 21)
            for region in ("COUNTY", "TRACT", "PLACE", "AIANNH", "PR-COUNTY", "PR-TRACT", "PR-PLACE")
        }
        assert by_budget["1067/500"].second.quantile("0.9999") == 6
        sizes = {level.name: (len(level.iterations), int(level.total_only.sum())) for level in question.levels}
        assert sizes["STATE-1"] == (52, 4)
        assert sizes["STATE-2"] == (2_944, 794)
        assert sizes["TRACT-1"] == (48, 0)
        assert sizes["TRACT-2"] == (2_150, 0)
        again = read_plan(json.loads(json.dumps(plan.as_dict())))
        assert (again.hash, again.loss) == (plan.hash, plan.loss)

    def test_pure(self, tmp_path: Path) -> None:
        changes = {budget_key("COUNTY", 1): 0.54, budget_key("COUNTY", 2): 2.43, budget_key("TRACT", 2): 5.4}
        values = production_values(privacy_defn="puredp", **changes)
        question, plan = question_of(tmp_path, values, PRODUCTION)
        numbers = {level.name: level.suppressed_up_to for level in question.levels}
        assert (numbers["COUNTY-1"], numbers["COUNTY-2"], numbers["TRACT-2"]) == (158, 35, 16)
        by_name = {level.name: level for level in question.levels}
        assert by_name["COUNTY-2"].second == TwoSidedGeometric(Fraction("2.43") * 9 / 10 / 9)
        assert by_name["COUNTY-2"].first == TwoSidedGeometric(Fraction("2.43") / 10 / 9)
        assert cost(plan, Neighbours.ADD_REMOVE) == question.settings.total
        assert cost(plan, Neighbours.CHANGE_ONE) == 2 * question.settings.total


def test_table_six_of_the_paper() -> None:
    """Suppression numbers at p = 0.9999, gamma = 0.1 and s = 9 (Haney et al. 2024, Table 6)."""
    for budget, number in (("0.008", 93), ("0.159", 21), ("0.543", 11), ("2.134", 6)):
        assert level_of(budget=budget).suppressed_up_to == number
    for budget, number in (("0.54", 158), ("2.43", 35), ("5.4", 16)):
        assert level_of(budget=budget, definition=Definition.PURE).suppressed_up_to == number
    assert level_of(suppression=Fraction(1, 2)).suppressed_up_to == 0


def test_few_groups_cost_less_than_their_level(tmp_path: Path) -> None:
    """A person is in at most s groups; where there are fewer groups than s, the accountant counts those there are."""
    question, plan = question_of(tmp_path, config(**budgets(1), run_pr=False))
    nation = next(level for level in question.levels if level.name == "USA-1")
    assert nation.groups == 5 < nation.stability == 9
    event = plan.event_of(lambda measure: measure.level == "USA" and measure.query.startswith("regional"))
    (spent,) = price(event, Neighbours.ADD_REMOVE, Definition.ZCDP).parameters().values()
    assert spent == Fraction(5, 9)
    assert plan.loss.parameters()["rho"] < question.settings.total
    assert read_plan(plan.as_dict()).hash == plan.hash


def test_the_plan_follows_from_public_files_alone(tmp_path: Path) -> None:
    """Every setting that decides the output is in the plan's hash, and no record is."""
    base = config(**budgets(1), zero_suppression_chance=0.9)
    _, plan = question_of(tmp_path / "base", base)
    hashes = {plan.hash}
    for name, changes in {
        "budget": {budget_key("TRACT", 2): 2},
        "codes": {"max_race_codes": 3},
        "gamma": {"privacy_budget_p_stage_1_fraction": 0.2},
        "suppression": {"zero_suppression_chance": 0.8},
        "negatives": {"allow_negative_counts": False},
        "thresholds": thresholds(0, 1, 3),
        "states": {"state_filter_us": ["01"]},
        "pass": {"run_pr": False},
        "definition": {"privacy_defn": "puredp"},
    }.items():
        _, changed = question_of(tmp_path / name, base | changes)
        assert changed.hash not in hashes, name
        hashes.add(changed.hash)
    parameters, data = write_input(tmp_path / "people", base, people=PEOPLE[:6])
    spec = api.load(convert(parameters, data, tmp_path / "people" / "spec"))
    with LocalEngine(tmp_path, processes=1, memory=MEMORY) as engine:
        assert SafeTab().plan(SafeTab().prepare(spec, engine)).hash == plan.hash


@pytest.mark.parametrize("budget", [1e-7, 1e-14])
def test_very_wide_noise_is_drawn_all_the_same(tmp_path: Path, budget: float) -> None:
    """Noise too wide for a table, at a level with suppression: nothing may be charged that cannot be finished."""
    values = budgets(0, US) | {budget_key("COUNTY", 2): budget, "run_pr": False, "zero_suppression_chance": 0.9999}
    made = execute(*write_input(tmp_path, config(**values, **thresholds(10, 20, 30))), tmp_path / "out")
    assert made.run.plan.loss.parameters()["rho"] <= Fraction(str(budget))


def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    values = budgets(0, US) | {budget_key("COUNTY", 2): 1e-30, "run_pr": False}
    with pytest.raises(ConfideError, match="too wide"):
        execute(*write_input(tmp_path, config(**values)), tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"parameters", "data"}
