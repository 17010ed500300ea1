"""Releases of PHSafe on made-up households: both layouts, variances, prices, estimates, and the truth beside them."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.kits.phsafe import SHARED, derived, files_of, joined, needs_shared
from tests.kits.phsafe_people import config_of, made_up_households, write_config
from tests.kits.programs import convert_households, execute_households

from confide import api
from confide.errors import ConfideError
from confide.lab.attacks.reconstruction import read_source
from confide.mechanisms.phsafe import settings as tables
from confide.mechanisms.phsafe.estimate import estimate_release
from confide.mechanisms.phsafe.official import read_config
from confide.mechanisms.phsafe.output import verify
from confide.mechanisms.phsafe.settings import stated_variance
from confide.noise import DiscreteGaussian
from confide.opened import open_release
from confide.privacy import ZCDP, Definition, Neighbours, PrivacyUnit, PureDP, Sequential, event_of_noise, price
from confide.releases.folder import SealedRelease

STATES = ["01", "02", "11"]
MEMORY = "1GiB"


def rows_of(path: Path, delimiter: str = "|") -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def table_of(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a table in the Census Bureau's layout."""
    (path,) = (folder / name).glob("*.csv")
    return rows_of(path)


def keyed(rows: list[dict[str, str]]) -> dict[tuple[str, str, str, int], int]:
    """Counts by area, level, iteration and cell."""
    (column,) = (name for name in rows[0] if name.endswith("_DATA_CELL"))
    return {
        (row["REGION_ID"], row["REGION_TYPE"], row.get("ITERATION_CODE", "*"), int(row[column])): int(row["COUNT"])
        for row in rows
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_households(250).write(tmp_path_factory.mktemp("people") / "data")


@pytest.fixture(scope="module")
def noiseless(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with infinite budgets."""
    folder = tmp_path_factory.mktemp("noiseless")
    config = write_config(folder, config_of(math.inf))
    return execute_households(config, data, folder / "out", processes=1, memory=MEMORY).folder


@pytest.fixture(scope="module")
def noisy(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with noise, made of a spec with every format; a run that is kept."""
    folder = tmp_path_factory.mktemp("noisy")
    spec = convert_households(write_config(folder, config_of(0.33)), data, folder / "spec", sensitivity="household")
    formats = '["parquet", "csv", "sdmx-csv", "xlsx", "csvw"]'
    spec.write_text(spec.read_text().replace('["parquet", "csv"]', formats))
    api.run(spec, processes=1, memory=MEMORY, insecure_key="5a" * 32)
    return spec.parent / "phsafe"


def test_tables_without_noise_are_the_truncated_counts(noiseless: Path, data: Path, tmp_path: Path) -> None:
    tau = config_of()["tau"]
    with joined(files_of(data), STATES, tmp_path) as households:
        counts = {each.name: households.counts(each.name, tau.get(each.name)) for each in tables.measured_tables()}
    for each in tables.tables():
        expected = counts[each.name] if each.measured else derived(counts[each.derived_from], each.name)
        assert keyed(table_of(noiseless, each.name)) == expected
    assert counts["PH1_num"] != keyed(table_of(noiseless, "PH4"))


def test_tables_without_noise_say_so(noiseless: Path) -> None:
    assert {row["VARIANCE"] for each in tables.tables() for row in table_of(noiseless, each.name)} == {"0"}
    assert all("NOT-FOR-RELEASE" in file.name for file in (noiseless / "tables").iterdir())


def test_every_area_group_and_cell_has_its_row_in_order(noiseless: Path) -> None:
    sizes = {each.name: len(table_of(noiseless, each.name)) for each in tables.tables()}
    areas = 1 + len(STATES)
    assert sizes == {each.name: areas * len(each.iterations) * len(each.interior) for each in tables.tables()}
    for each in tables.tables():
        keys = list(keyed(table_of(noiseless, each.name)))
        order = [(level != "USA", area, "*ABCDEFGHI".index(code), cell) for area, level, code, cell in keys]
        assert order == sorted(order)


def test_columns_and_variances_are_those_of_the_program(noisy: Path, data: Path) -> None:
    release, rho = noisy / "release", Fraction("0.33")
    for each in tables.tables():
        rows = table_of(release, each.name)
        iteration = ["ITERATION_CODE"] if each.iterated else []
        names = ["REGION_ID", "REGION_TYPE", *iteration, f"{each.name.upper()}_DATA_CELL", "COUNT"]
        assert list(rows[0]) == [*names, "NOISE_DISTRIBUTION", "VARIANCE"]
        assert {row["NOISE_DISTRIBUTION"] for row in rows} == {"Discrete Gaussian"}
        tau = config_of()["tau"].get(each.base.name)
        of_one = float((tau**2 if tau else 1) / rho)
        for row in rows:
            draws = 2 if each.name == "PH8_num" and row["PH8_NUM_DATA_CELL"] == "2" else 1
            assert float(row["VARIANCE"]) == pytest.approx(draws * of_one, rel=1e-9)


def test_tables_that_are_made_of_others_have_their_noise(noisy: Path) -> None:
    release = noisy / "release"
    counts = {name: keyed(table_of(release, name)) for name in ("PH4", "PH5_num", "PH7", "PH8_num")}
    assert counts["PH5_num"] == counts["PH4"]
    assert counts["PH8_num"] == derived(counts["PH7"], "PH8_num")


def test_pure_noise_has_the_scale_of_the_program(data: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, config_of(0.5, privacy_defn="puredp"))
    out = execute_households(config, data, tmp_path / "out", processes=1, memory=MEMORY).folder
    for name, scale in (("PH1_num", 12 / 0.5), ("PH5_denom", 2 / 0.5)):
        rows = table_of(out, name)
        assert {row["NOISE_DISTRIBUTION"] for row in rows} == {"Two-Sided Geometric"}
        decay = math.exp(-1 / scale)
        assert float(rows[0]["VARIANCE"]) == pytest.approx(2 * decay / (1 - decay) ** 2, rel=1e-9)


def test_tables_for_people_have_the_sums(noisy: Path) -> None:
    release = noisy / "release"
    for name, total, parts in (
        ("PH2", "2", ("3", "4")),
        ("PH3", "8", ("9", "10")),
        ("PH6", "17", ("18", "19", "20", "21")),
    ):
        variable = tables.table(name).variable
        rows = rows_of(release / "tables" / f"{name}.NOT-FOR-RELEASE.csv", ",")
        here = [row for row in rows if row["area"] == "02" and row.get("iteration", "_T") == "_T"]
        counts = {row[variable]: int(row["count"]) for row in here}
        variances = {row[variable]: float(row["variance"]) for row in here}
        assert counts[total] == sum(counts[part] for part in parts)
        assert variances[total] == pytest.approx(sum(variances[part] for part in parts))
        assert counts["_T"] == sum(counts[str(cell.code)] for cell in tables.table(name).interior)
        assert {row["margin"] for row in here if row[variable] in parts} <= {"cell", f"by {variable}"}


def test_averages_are_counts_over_counts_with_sets_that_need_not_be_bounded(noisy: Path) -> None:
    rows = rows_of(noisy / "release" / "tables" / "PH1.NOT-FOR-RELEASE.csv", ",")
    kinds = {row["interval"] for row in rows}
    assert (
        kinds == {"between", "outside", "anything"}
        or kinds == {"between", "anything"}
        or kinds == {"between", "outside"}
    )
    for row in rows:
        units = int(row["units"])
        if units:
            assert float(row["average"]) == pytest.approx(int(row["count"]) / units)
        if row["interval"] == "between" and row["low"] and row["high"]:
            assert float(row["low"]) <= float(row["average"]) <= float(row["high"])
        if row["interval"] == "anything":
            assert (row["low"], row["high"]) == ("", "")
    denominators = keyed(table_of(noisy / "release", "PH1_denom"))
    whole = next(row for row in rows if (row["area"], row["iteration"], row["age"]) == ("01", "A", "_T"))
    assert int(whole["units"]) == denominators["01", "STATE", "A", 1]


def test_a_release_in_every_format_verifies(noisy: Path) -> None:
    checked = api.verify(noisy / "release")
    assert [check.name for check in checked.checks if not check.ok] == []
    assert any("SDMX" in check.name for check in checked.checks)


def test_a_changed_count_of_people_is_found(noisy: Path, tmp_path: Path) -> None:
    sealed = SealedRelease.of(noisy)
    place = next(path for path in sealed.files if path.startswith("PH5_num/") and path.endswith(".csv"))
    assert all(check.ok for check in verify(sealed))
    copied = tmp_path / "release"
    shutil.copytree(sealed.folder, copied)
    text = (copied / place).read_text().splitlines()
    values = text[1].split("|")
    values[4] = str(int(values[4]) + 1)
    (copied / place).write_text("\n".join([text[0], "|".join(values), *text[2:]]) + "\n")
    failed = [check.name for check in verify(SealedRelease(copied, sealed.manifest)) if not check.ok]
    assert {name.partition(":")[0] for name in failed} == {"PH5_num"}


def test_sums_of_opened_tables_have_the_margins_of_their_draws(noisy: Path) -> None:
    release = open_release(noisy / "release")
    both = release.tables["PH2"].rows(household_type="3", area="01") + release.tables["PH2"].rows(
        household_type="4", area="01"
    )
    assert release.sum(both).variance == pytest.approx(2 * 36 / 0.33)
    same = [release.tables[name].rows(age="2", area="01", iteration="_T") for name in ("PH4", "PH5_num")]
    assert release.difference(*same).margin == 0  # one measurement, shown twice
    assert release.sum(release.tables["PH1"].rows(age="2", area="01", iteration="A")).variance == pytest.approx(
        25 / 0.33
    )


@needs_shared
@pytest.mark.parametrize(("name", "total"), [("us", "1.257281"), ("pr", "1.226649")])
def test_the_price_of_production_is_the_sum_of_its_events(name: str, total: str) -> None:
    settings = read_config(SHARED / "phsafe_production_config" / f"{name}.json").settings
    events = [
        event_of_noise(settings.law(each), sensitivity=settings.stated(each.counted)) for each in settings.queries
    ]
    whole = Sequential(events)
    assert price(whole, Neighbours.ADD_REMOVE, Definition.ZCDP) == ZCDP(Fraction(total))
    assert price(whole, Neighbours.CHANGE_ONE, Definition.ZCDP) == ZCDP(4 * Fraction(total))


def test_a_plan_protects_persons_and_prices_every_query(noisy: Path) -> None:
    plan = SealedRelease.of(noisy).plan
    assert plan.unit is PrivacyUnit.PERSON
    assert plan.loss == ZCDP(Fraction("0.33") * (6 * 7 + 2 * 2))
    levels = {(measure.level, measure.query): measure for measure in plan.measures}
    assert levels["STATE", "PH3 A-G"].cells == 7 * 7
    assert levels["USA", "PH1_num *"].sensitivity.l2_squared == 2 * 25  # type: ignore[union-attr]


def test_pure_budgets_add_up_to_the_loss(data: Path, tmp_path: Path) -> None:
    spec = convert_households(write_config(tmp_path, config_of(0.5, privacy_defn="puredp")), data, tmp_path / "spec")
    plan = api.check(spec, processes=1, memory=MEMORY).plan
    assert plan is not None
    assert plan.loss == PureDP(Fraction(1, 2) * (6 * 7 + 2 * 2))


def test_levels_without_budget_are_not_made(data: Path, tmp_path: Path) -> None:
    values = config_of(0.5)
    for name, budgets in values["privacy_budget"].items():
        values["privacy_budget"][name] = {
            key: 0 if key.startswith("usa") or name != "PH7" else each for key, each in budgets.items()
        }
    out = execute_households(write_config(tmp_path, values), data, tmp_path / "out", processes=1, memory=MEMORY).folder
    assert {path.name for path in out.iterdir() if path.name.startswith("PH")} == {"PH7", "PH8_num"}
    assert {row["REGION_TYPE"] for row in table_of(out, "PH7")} == {"STATE"}


def test_the_certificate_says_what_a_person_may_change(noisy: Path) -> None:
    page = (noisy / "release" / "certificate.html").read_text(encoding="utf-8")
    assert "All of this lies in one household" in page
    assert "PH1_num: 5" in page


def test_the_dossier_tells_truncation_from_noise(noisy: Path) -> None:
    api.evaluate(noisy)
    numbers = json.loads((noisy / "dossier-confidential" / "accuracy-confidential.json").read_text())
    rows = {(row["table"], row["level"], row["iterations"]): row for row in numbers["cells"]}
    assert rows["PH1_num", "USA", "*"]["persons_left_out"] > 0
    assert rows["PH1_num", "USA", "*"]["truncation_bias"] < 0
    assert rows["PH1_denom", "USA", "*"]["persons_left_out"] == 0
    assert rows["PH1_num", "USA", "*"]["persons_left_out"] == rows["PH7", "USA", "*"]["persons_left_out"]


def test_estimates_are_whole_and_possible(noisy: Path, tmp_path: Path) -> None:
    estimates = estimate_release(noisy, out=tmp_path / "estimates")
    names = set(estimates.rows)
    assert {re.sub(r"_(nation|state).*", "", name) for name in names} == {f"PH{number}" for number in range(1, 9)}
    for name in names:
        for row in rows_of(tmp_path / "estimates" / name):
            values: dict[str, Any] = dict(row)
            if name[:3] in ("PH1", "PH5", "PH8"):
                low, ratio, high = (float(values[key]) for key in ("RATIO_PRED_LO", "RATIO_PRED", "RATIO_PRED_HI"))
                assert 0 <= low <= ratio <= high <= 10
                if row["DATA_CELL"] == "1" or name[:3] == "PH8":
                    assert low >= (2 if name[:3] == "PH5" else 1)
            else:
                assert 0 <= int(values["PRED_LO"]) <= int(values["PRED_HI"])
                assert int(values["PRED"]) >= 0
                interior = {str(cell.code) for cell in tables.table(name[:3]).interior}
                if row["DATA_CELL"] in interior and float(values["COUNT_NOISY"]) > 8 * float(values["VARIANCE"]) ** 0.5:
                    assert abs(int(values["PRED"]) - int(values["COUNT_NOISY"])) <= 1
    with pytest.raises(ConfideError):
        estimate_release(noisy, out=tmp_path / "estimates")


def test_estimated_sums_are_sums_of_whole_estimates(noisy: Path, tmp_path: Path) -> None:
    estimate_release(noisy, out=tmp_path / "estimates")
    (path,) = (tmp_path / "estimates").glob("PH7_state*")
    of_group: dict[tuple[str, str], dict[int, int]] = {}
    for row in rows_of(path):
        of_group.setdefault((row["GEOID"], row["ITERATION_CODE"]), {})[int(row["DATA_CELL"])] = int(row["PRED"])
    assert len(of_group) == len(STATES) * 10
    assert all(cells[1] == cells[2] + cells[3] + cells[4] for cells in of_group.values())


def test_the_variance_of_the_layout_is_that_of_the_formula() -> None:
    assert stated_variance(DiscreteGaussian("218.18"), noiseless=False) == 218.18
    assert stated_variance(DiscreteGaussian("218.18"), noiseless=True) == 0.0


@needs_shared
def test_the_program_without_noise_row_by_row_through_the_command(tmp_path: Path) -> None:
    golden = SHARED / "golden_phsafe"
    out = execute_households(
        golden / "config_tau_production.json", golden / "input", tmp_path / "out", processes=1, memory=MEMORY
    ).folder
    for each in tables.tables():
        expected = rows_of(golden / "private_tau_production" / f"{each.name}.csv")
        order = sorted(expected[0])
        assert sorted(tuple(row[key] for key in order) for row in expected) == sorted(
            tuple(row[key] for key in order) for row in table_of(out, each.name)
        )


def test_a_release_is_read_back_for_attacks(noisy: Path) -> None:
    read = read_source(noisy / "release")
    assert read.geography.levels == ("state", "nation")
    assert {marginal.table for marginal in read.marginals} == {"PH1_num", "PH2", "PH7"}
    released = keyed(table_of(noisy / "release", "PH7"))
    (of_race,) = (each for each in read.marginals if each.table == "PH7" and each.depth == 0 and each.query.cells == 21)
    names = [variable.attribute.name for variable in of_race.query.variables]
    counts = of_race.counts(STATES.index("11")).reshape(of_race.query.shape)
    black_renters = counts[(1, 2) if names[0] == "householder_race" else (2, 1)]
    assert black_renters == released["11", "STATE", "B", 4]
    assert of_race.variance == Fraction(25 / Fraction("0.33")).limit_denominator(10**9)
