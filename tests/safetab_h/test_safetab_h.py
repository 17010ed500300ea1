"""SafeTab-H end to end: noise-free tables against a reference, prices, public totals, and what is said of it."""

from __future__ import annotations

import json
import random
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.contract.kit import KEY, LEDGER, Project, lay_out
from tests.kits.programs import convert_h, execute_h, validate_h
from tests.kits.safetab import MEMORY, PR, US
from tests.kits.safetab_h import (
    HOUSEHOLD_HEADER,
    TABLES,
    config_h,
    household,
    random_households,
    random_totals,
    read_tables,
    reference_h,
    write_households,
)

import confide
from confide.file_system import sha256_of
from confide.mechanisms.safetab_h import settings
from confide.mechanisms.safetab_h.settings import FAMILIES, FINEST, TENURES, production_settings
from confide.official_runs import Execution
from confide.privacy import ZCDP, Definition, Neighbours, PureDP, price
from confide.releases.ledger import Ledger

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "households"
REGIONS = [*US, *PR]
CASES = ("TestTargetCountAIANNHInputMultiState", "TestTargetCountAIANNHInputSimple")


def execute(parameters: Path, data: Path, out: Path, **options: Any) -> Execution:
    return execute_h(parameters, data, out, processes=1, memory=MEMORY, **options)


def small(folder: Path, seed: int = 1, **changes: Any) -> tuple[Path, Path]:
    """Forty households, totals of most groups, thresholds that reach all tables."""
    rng = random.Random(seed)
    households = [household(rng) for _ in range(40)]
    values = config_h(**{"thresholds_h_t3": None, "thresholds_h_t4": None} | changes)
    for family, steps in (("t3", [0, 4, 8]), ("t4", [3])):
        key = f"thresholds_h_{family}"
        values[key] = values[key] or dict.fromkeys(config_h()[key], steps)
    return write_households(folder, values, households, random_totals(rng, values["run_pr"]))


# Tables as data.


def test_the_tables_are_those_of_the_reference() -> None:
    """Measured cells, sums, and the cells of records, in words of the tests' own."""
    for family in FAMILIES:
        for number, table in enumerate(settings.TABLES_OF[family]):
            expected = TABLES[family][number]
            measured = expected[number]
            assert {cell.code: cell.codes for cell in table.measured} == measured
            assert {row.code: row.codes for row in table.rows} == expected[0] | measured
            for finest in range(FINEST):
                code = (finest // TENURES if family == "t3" else finest % TENURES) + 1
                cell = table.measured[int(table.of_finest[finest])]
                assert code in cell.codes
            counts = np.arange(1, table.cells + 1)
            of_code = {cell.code: int(count) for cell, count in zip(table.measured, counts, strict=True)}
            sums = dict(zip((row.code for row in table.rows), (table.parts @ counts).tolist(), strict=True))
            for code, codes in (expected[0] | measured).items():
                assert sums[code] == sum(of_code[c] for c, inside in measured.items() if set(inside) <= set(codes))


@pytest.mark.parametrize("seed", range(4))
def test_without_noise_the_tables_are_those_of_the_reference(seed: int, tmp_path: Path) -> None:
    parameters, data = random_households(tmp_path, seed)
    out = execute(parameters, data, tmp_path / "out")
    released = read_tables(out.folder)
    assert {name: sorted(rows) for name, rows in released.items()} == reference_h(parameters, data)
    assert out.infinite
    order = [(REGIONS.index(row[1]), row[0], row[2], int(row[3])) for row in released["T03004"]]
    assert order == sorted(order)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 60))
def test_so_are_they_for_many_more_inputs(seed: int, tmp_path: Path) -> None:
    test_without_noise_the_tables_are_those_of_the_reference(seed, tmp_path)


def shared(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs the Bureau's public fixtures in {SHARED}")
    return path


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES)
def test_the_worked_cases_of_the_bureau_row_by_row(case: str, tmp_path: Path) -> None:
    """With infinite budgets, every listed row and no other."""
    given, toy = shared("safetab_h_cases", case), shared("safetab_h_toy")
    parameters, data = tmp_path / "parameters", tmp_path / "data"
    shutil.copytree(toy / "input_dir_puredp", parameters)
    data.mkdir()
    for folder in (toy, given):
        for file in folder.glob("*.txt"):
            shutil.copy(file, data)
    values = json.loads((parameters / "config.json").read_text()) | json.loads(
        (given / "config_overrides.json").read_text()
    )
    values |= {key: float("inf") for key in values if key.startswith("privacy_budget")}
    (parameters / "config.json").write_text(json.dumps(values))
    released = read_tables(execute(parameters, data, tmp_path / "out").folder)
    for name in ("T03004", "T04002"):
        lines = (given / f"expected_{name}.csv").read_text().split("\n")[1:]
        assert sorted(released[name]) == sorted(tuple(line.split("|")) for line in lines if line)
    assert [name for name, rows in released.items() if rows] == ["T03004", "T04002"]


@pytest.mark.shared
def test_the_toy_has_as_many_rows_as_the_peers(tmp_path: Path) -> None:
    toy, data = shared("safetab_h_toy"), tmp_path / "data"
    data.mkdir()
    for file in toy.glob("*.txt"):
        shutil.copy(file, data)
    out = execute(toy / "input_dir_zcdp", data, tmp_path / "out")
    assert sum(len(rows) for rows in read_tables(out.folder).values()) == 986


@pytest.mark.shared
def test_the_production_lists_cost_what_the_budgets_say(tmp_path: Path) -> None:
    """sigma² and both passes from the plan's events: every level has more groups than a household can be in."""
    config = shared("safetab_h_production_config", "config.json")
    lists = SHARED.parent / "safetab" / "safetab_p_production_spec"
    parameters, data = tmp_path / "parameters", tmp_path / "data"
    shutil.copytree(lists, parameters)
    shutil.copy(config, parameters / "config.json")
    data.mkdir()
    toy = shared("safetab_h_toy")
    blocks = [*(toy / "GRF-C.txt").read_text().split()[1:], "72|001|000001|0001|12345|9999"]
    (data / "GRF-C.txt").write_text("\n".join([(toy / "GRF-C.txt").read_text().split()[0], *dict.fromkeys(blocks)]))
    (data / "household-records.txt").write_text(HOUSEHOLD_HEADER + "\n")
    iterations = [
        line.split("|")[:3]
        for name in ("race", "ethnicity")
        for line in (parameters / f"{name}-characteristic-iterations.txt").read_text().splitlines()[1:]
        if line
    ]
    rows = ["REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT"]
    blocks_here = [block.split("|") for block in dict.fromkeys(blocks)]
    for kind, areas in (
        ("USA", {"1"}), ("STATE", {b[0] for b in blocks_here if b[0] != "72"}),
        ("COUNTY", {b[0] + b[1] for b in blocks_here if b[0] != "72"}),
        ("TRACT", {b[0] + b[1] + b[2] for b in blocks_here if b[0] != "72"}),
        ("PLACE", {b[0] + b[4] for b in blocks_here if b[0] != "72" and b[4] != "99999"}),
        ("AIANNH", {b[5] for b in blocks_here if b[0] != "72" and b[5] != "9999"}),
        ("PR-STATE", {"72"}), ("PR-COUNTY", {"72" + b[1] for b in blocks_here if b[0] == "72"}),
        ("PR-TRACT", {"72" + b[1] + b[2] for b in blocks_here if b[0] == "72"}),
        ("PR-PLACE", {"72" + b[4] for b in blocks_here if b[0] == "72" and b[4] != "99999"}),
    ):  # fmt: skip
        for area in sorted(areas)[:1]:
            rows += [f"{area}|{kind}|{code}|{5000 if number % 2 else 10}" for number, (code, _, level)
                     in enumerate(iterations) if level != "0"]  # fmt: skip
    (data / "pop-group-totals.txt").write_text("\n".join(rows) + "\n")
    checked = confide.check(convert_h(parameters, data, tmp_path / "spec"), processes=1)
    assert checked.plan is not None
    of_pass = {
        pr: checked.plan.event_of(lambda measure, pr=pr: measure.level.startswith("PR-") == pr) for pr in (False, True)
    }
    losses = {pr: price(event, Neighbours.ADD_REMOVE, Definition.ZCDP) for pr, event in of_pass.items()}
    assert losses == {False: ZCDP("8.895302"), True: ZCDP("4.754134")}
    assert checked.plan.loss == ZCDP("8.895302")
    variances = {float(measure.law.parameter) for measure in checked.plan.measures}
    expected = {round(4.5 / rho, 9) for rho in (1.9208, 0.142869, 0.006915)}
    assert {round(each, 9) for each in variances} == expected
    assert sorted(round(each, 2) for each in variances) == [2.34, 31.5, 650.76]


def test_the_production_settings_are_the_published_ones() -> None:
    """Sums of the budgets of forty keys, and the variances that they buy."""
    chosen = production_settings()
    sums = {name: sum(sum(level.budgets) for level in levels) for name, levels in chosen.passes.items()}
    assert sums == {"US": Fraction("8.895302"), "PR": Fraction("4.754134")}
    assert chosen.total == Fraction("8.895302")


# Prices and plans of small inputs.


def levels_of(plan: Any) -> dict[str, Any]:
    levels: dict[str, Any] = plan.question["levels"]
    return levels


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
def test_a_table_costs_its_budget_or_less_where_there_are_few_groups(definition: str, tmp_path: Path) -> None:
    """A household is in at most s groups of a level, or in all of them."""
    budgets = {key: 0.7 for key in config_h() if key.startswith("privacy_budget")}
    spec = convert_h(*small(tmp_path, privacy_defn=definition, run_pr=False, **budgets), tmp_path / "spec")
    plan = confide.check(spec, processes=1).plan
    assert plan is not None
    expected = sum(
        Fraction("0.7") * Fraction(min(level["stability"], sum(level[family]["groups"])), level["stability"])
        for level in levels_of(plan).values()
        for family in FAMILIES
    )
    assert plan.loss == (ZCDP(expected) if definition == "zcdp" else PureDP(expected))
    for measure in plan.measures:
        (parameter,) = [value for name, value in measure.law.as_dict().items() if name in ("sigma2", "epsilon")]
        s = levels_of(plan)[f"{measure.level}-{1 + measure.query.startswith('detailed')}"]["stability"]
        exact = Fraction(s) / (2 * Fraction("0.7")) if definition == "zcdp" else Fraction("0.7") / s
        assert Fraction(parameter) == exact


def test_which_table_a_group_has_follows_from_its_total_alone(tmp_path: Path) -> None:
    """No household moves a group to another table; a total does, and is another plan."""
    first, second, third = (small(tmp_path / name, seed=1) for name in ("a", "b", "c"))
    lines = (second[1] / "household-records.txt").read_text().split("\n")
    (second[1] / "household-records.txt").write_text("\n".join(lines[:8]) + "\n")
    rows = (third[1] / "pop-group-totals.txt").read_text().split("\n")
    rows[1] = rows[1].rsplit("|", 1)[0] + "|99"
    (third[1] / "pop-group-totals.txt").write_text("\n".join(rows))
    plans = [
        confide.check(convert_h(*each, each[0].parent / "spec"), processes=1).plan for each in (first, second, third)
    ]
    hashes = [plan.hash for plan in plans if plan is not None]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.fixture
def example(tmp_path: Path) -> Project:
    """The example of the contract."""
    return lay_out("safetab-h", tmp_path / "example")


def test_an_account_of_persons_pays_twice(example: Project) -> None:
    assert example.ledger is not None
    example.ledger.unlink()
    Ledger.open_new(
        example.folder / LEDGER, data_set="people", definition="zcdp", neighbours="add-remove", budget=24, unit="person"
    )
    checked = confide.check(example.spec, processes=1)
    assert checked.cost is not None
    assert checked.plan is not None
    assert checked.cost.amount == 2 * checked.plan.loss.rho  # type: ignore[union-attr]
    assert [each.code for each in checked.findings] == []
    result = confide.run(example.spec, processes=1, insecure_key=KEY)
    (run,) = Ledger(example.folder / LEDGER).account().runs.values()
    assert (run.unit, run.cost) == ("household", checked.cost.amount)
    page = (result.release / "certificate.html").read_text()
    assert "an account that is kept in persons is charged this" in page
    assert "taken as public" in page


def test_a_sealed_release_of_safetab_p_decides_the_tables(example: Project, tmp_path: Path) -> None:
    """Verified, and bound by the hash of its manifest; one that was changed is refused before anything is charged."""
    earlier = lay_out("safetab", tmp_path / "earlier")
    release = confide.run(earlier.spec, processes=1).release
    text = example.spec.read_text().replace('totals = "pop-group-totals.txt"', f'totals = "{release.parent}"')
    example.spec.write_text(text)
    sealed = confide.run(example.spec, processes=1).release
    manifest = json.loads((sealed / "manifest.json").read_text())
    digest = sha256_of(release / "manifest.json")
    assert manifest["plan"]["question"]["public_inputs"]["totals"]["manifest_sha256"] == digest
    assert confide.verify(sealed).ok
    file = next((release / "t1").glob("*.csv"))
    file.write_bytes(file.read_bytes()[:-2] + b"9\n")
    (finding,) = confide.check(example.spec, processes=1).errors
    assert (finding.code, finding.where.path) == ("public-input", "data.totals")


def test_part_files_of_the_bureaus_program_are_one_input(example: Project) -> None:
    file = example.folder / "pop-group-totals.txt"
    header, *rows = file.read_text().splitlines()
    before = confide.check(example.spec, processes=1).plan
    folder = example.folder / "t1"
    folder.mkdir()
    for number, part in enumerate((rows[::2], rows[1::2])):
        (folder / f"part-0000{number}.csv").write_text("\n".join([header, *part]) + "\n")
    example.spec.write_text(example.spec.read_text().replace('"pop-group-totals.txt"', '"t1"'))
    after = confide.check(example.spec, processes=1).plan
    assert before is not None
    assert after is not None
    assert [measure.as_dict() for measure in after.measures] == [measure.as_dict() for measure in before.measures]


def test_counts_below_zero_become_zero_before_they_are_summed(example: Project) -> None:
    release = confide.run(example.spec, processes=1, insecure_key=KEY).release
    rows = read_tables(release)["T03004"]
    counts = {(row[0], row[1], row[2], row[3]): int(row[4]) for row in rows}
    assert min(counts.values()) == 0
    for area, kind, code in {key[:3] for key in counts}:
        of_group = {cell: counts[area, kind, code, str(cell)] for cell in range(9)}
        assert of_group[0] == sum(of_group[cell] for cell in (2, 4, 5, 7, 8))
        assert of_group[1] == of_group[2] + of_group[3]
        assert of_group[6] == of_group[7] + of_group[8]


@pytest.mark.parametrize(("runs", "kinds"), [((True, False), "US"), ((False, True), "PR"), ((True, True), "both")])
def test_the_passes_are_apart(runs: tuple[bool, bool], kinds: str, tmp_path: Path) -> None:
    parameters, data = small(tmp_path, run_us=runs[0], run_pr=True)
    values = json.loads((parameters / "config.json").read_text()) | {"run_us": runs[0], "run_pr": runs[1]}
    (parameters / "config.json").write_text(json.dumps(values))
    released = read_tables(execute(parameters, data, tmp_path / "out").folder)
    regions = {row[1].startswith("PR-") for rows in released.values() for row in rows}
    assert regions == {"US": {False}, "PR": {True}, "both": {False, True}}[kinds]
    assert {name: sorted(rows) for name, rows in released.items()} == reference_h(parameters, data)


def test_figures_say_how_far_they_are_off(example: Project) -> None:
    """Of a sum the variances of its cells; not of figures that were changed."""
    text = example.spec.read_text().replace("negative_counts = false", "negative_counts = true")
    example.spec.write_text(text)
    confide.run(example.spec, processes=1, insecure_key=KEY)
    spec = confide.check(example.spec, processes=1)
    assert spec.plan is not None
    law = next(m.law for m in spec.plan.measures if (m.level, m.query) == ("STATE", "detailed: T03004"))
    file = next((example.release / "tables").glob("T03004.*parquet"))
    released = pq.read_table(file).to_pylist()
    states = [row for row in released if row["level"] == "STATE"]
    by_code = {row["household_type:5"]: row["variance"] / law.variance() for row in states}
    assert {code: round(times) for code, times in by_code.items()} == {
        "_T": 5, "1": 3, "3": 2, "6": 2, "2": 1, "4": 1, "5": 1, "7": 1, "8": 1
    }  # fmt: skip
    assert {row["margin"] for row in states} == {"cell", "by iteration", "by iteration*household_type:5:sums"}
    assert all(row["low"] <= max(row["count"], 0) and row["count"] <= row["high"] for row in states)


def test_nothing_is_found_in_a_good_input(tmp_path: Path) -> None:
    assert validate_h(*small(tmp_path), processes=1, memory=MEMORY).findings == ()
