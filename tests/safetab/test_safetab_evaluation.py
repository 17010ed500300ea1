"""``evaluate`` for SafeTab-P: what it counts, group by group, and what it says beside theory."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.kits.safetab_releases import read, release_of, write_people
from typer.testing import CliRunner

from confide import api, official_runs
from confide.cli.main import app
from confide.engines import LocalEngine
from confide.errors import ParameterError, RunError
from confide.mechanisms.safetab.evaluate import evaluate
from confide.mechanisms.safetab.mechanism import SafeTab
from confide.mechanisms.safetab.settings import GRIDS
from confide.mechanisms.safetab.tallies import SIZES, WORKLOADS
from confide.releases.check import throwaway_workspace
from confide.releases.workspace import Workspace
from confide.utility.metrics import bin_label

KEYS = ("11", "22", "33")
NO_NEGATIVES = {"negative_counts": "false"}
MORE_SHOWN = {"zero_suppression": '"0.9"'}
FAR = 5
"""Standard errors: an honest figure is further away less than once in a million times. Some hundred are looked at."""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluation")
    write_people(folder / "people", 4_000)
    return folder


@pytest.fixture(scope="module")
def runs(people: Path) -> list[Path]:
    """Runs that differ in their key alone; one in ten empty groups is shown."""
    return [release_of(people / "people", people / f"key-{key}", key * 32, **MORE_SHOWN) for key in KEYS]


@pytest.fixture(scope="module")
def numbers(runs: list[Path]) -> dict[str, Any]:
    """The evaluation of all of them together."""
    found: dict[str, Any] = api.evaluate(*runs, processes=1).accuracy.reveal("made-up people")
    return found


def question_of(run: Path) -> Any:
    """The question behind a run, made again from its files."""
    with throwaway_workspace() as scratch, LocalEngine(scratch.scratch, processes=1) as engine:
        return SafeTab().prepare(api.load(run), engine)


def evaluated(run: Path) -> dict[str, Any]:
    """The numbers of one run, without a page."""
    return evaluate(question_of(run), Workspace(run), lambda _: None).reveal("made-up people").as_dict()


def plainly(run: Path) -> dict[tuple[str, str, bool, str], dict[str, Any]]:
    """The same report in plain loops over groups: from the true counts and from the rows of ``t1`` and ``t2``."""
    question, result = question_of(run), {}
    totals = {_name(row): row["COUNT"] for row in read(run / "release", "t1").to_pylist()}
    tables: dict[Any, dict[tuple[str, str], int]] = defaultdict(dict)
    for row in read(run / "release", "t2").to_pylist():
        if row["AGESTART"] != "*":
            tables[_name(row)][row["SEX"], row["AGESTART"]] = row["COUNT"]
    for level in question.levels:
        region, kind = level.settings.region_type, {1: "regional", 2: "detailed"}[level.settings.iteration_level]
        true: dict[int, Counter[int]] = defaultdict(Counter)
        for row in pq.read_table(run / "confidential" / "counts" / f"{level.name}.parquet").to_pylist():
            true[row["group"]][row["cell"]] += row["n"]
        for number in range(level.groups):
            area, place = divmod(number, len(level.iterations))
            code = question.lists.iterations[level.iterations[place]].code
            name = (region, question.regions.areas[region][area], code)
            size = sum(true[number].values())
            label = bin_label(SIZES, sum(size >= start for start in SIZES) - 1)
            key = (region, kind, bool(level.total_only[place]), label)
            row = result.setdefault(key, {"groups": 0, "left out": 0, "errors": defaultdict(list)})
            row["groups"] += 1
            if name in tables:
                cells = tables[name]
                grid = next(grid for grid in GRIDS if grid.cells == len(cells))
                for (sex, start), count in cells.items():
                    target = (int(sex) - 1) * grid.ages + [str(first) for first, _ in grid.bounds].index(start)
                    truth = sum(n for cell, n in true[number].items() if grid.of_finest[cell] == target)
                    row["errors"][1 + GRIDS.index(grid)].append(count - truth)
            elif name in totals:
                row["errors"][0].append(totals[name] - size)
            else:
                row["left out"] += 1
    return result


def _name(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"]


def least_margin(errors: list[int]) -> int | None:
    """The smallest number that at least 95 of 100 absolute errors do not exceed."""
    if not errors:
        return None
    return next(m for m in range(10**6) if 100 * sum(abs(error) <= m for error in errors) >= 95 * len(errors))


def test_counts_group_by_group(runs: list[Path]) -> None:
    found, levels = evaluated(runs[0]), question_of(runs[0]).levels
    expected = plainly(runs[0])
    assert len(found["classes"]) == len(expected)
    assert any(row["tables"][WORKLOADS[3]]["groups"] for row in found["classes"])
    for row in found["classes"]:
        plain = expected[row["region"], row["iterations"], row["total_only"], row["true_size"]]
        assert (row["groups"], row["suppressed"]) == (plain["groups"], plain["left out"])
        every = [error for errors in plain["errors"].values() for error in errors]
        assert row["measured_counts"] == len(every)
        assert row["error_margin"] == least_margin(every)
        assert row["measured_counts_within_noise_margin"] == sum(abs(e) <= row["noise_margin"] for e in every)
        for number, name in enumerate(WORKLOADS):
            errors = plain["errors"][number]
            assert row["tables"][name]["measured_counts"] == len(errors)
            assert row["tables"][name]["error_margin"] == least_margin(errors)
            assert row["tables"][name]["groups"] * (1, 8, 18, 46)[number] == len(errors)
        if row["total_only"]:
            level = next(each for each in levels if each.settings.title == f"{row['region']}, {row['iterations']}")
            assert row["standard_error_of_mean"] == pytest.approx(math.sqrt(level.total.variance() / len(every)))
        if plain["errors"][0]:
            assert row["mean_error_of_totals"] == pytest.approx(sum(plain["errors"][0]) / len(plain["errors"][0]))


def test_the_universe_is_counted_once_for_each_key(runs: list[Path], numbers: dict[str, Any]) -> None:
    levels = json.loads((runs[0] / "release" / "manifest.json").read_text())["plan"]["question"]["levels"]
    universe = sum(level["areas"] * level["iterations"] for level in levels.values())
    assert sum(row["groups"] for row in numbers["classes"]) == universe * len(KEYS)
    assert numbers["keys"] == len(KEYS)
    for row in numbers["classes"]:
        assert sum(table["share"] for table in row["tables"].values()) + row["share_suppressed"] == pytest.approx(1)
        expected = sum(table["expected_share"] for table in row["tables"].values()) + row["expected_share_suppressed"]
        assert expected == pytest.approx(1)


@pytest.mark.statistical
def test_empty_groups_are_shown_as_often_as_theory_says(numbers: dict[str, Any]) -> None:
    """False alarm: less than one in a million for each of a dozen rows, and the keys are chosen."""
    empty = [row for row in numbers["classes"] if row["true_size"] == "0" and row["region"] not in ("USA", "STATE")]
    assert sum(row["groups"] for row in empty) > 500
    for row in empty:
        assert 0.895 < row["expected_share_suppressed"] < 0.93
        assert abs(row["share_suppressed"] - row["expected_share_suppressed"]) <= FAR * row["standard_error_of_share"]
    groups = sum(row["groups"] for row in empty)
    expected = sum(row["expected_share_suppressed"] * row["groups"] for row in empty)
    error = math.sqrt(sum((row["standard_error_of_share"] * row["groups"]) ** 2 for row in empty))
    found = sum(row["suppressed"] for row in empty)
    assert abs(found - expected) <= FAR * error < 0.07 * groups


@pytest.mark.statistical
def test_suppression_bias_and_tables_are_as_theory_says(numbers: dict[str, Any]) -> None:
    """False alarm: less than one in a million for each of some hundred figures, and the keys are chosen."""
    biased = 0
    for row in numbers["classes"]:
        difference = abs(row["share_suppressed"] - row["expected_share_suppressed"])
        assert difference <= FAR * row["standard_error_of_share"] + 1e-9
        if row["mean_error_of_totals"] is None:
            continue
        expected, error = row["expected_mean_error_of_totals"], row["standard_error_of_mean"]
        assert abs(row["mean_error_of_totals"] - expected) <= FAR * error
        biased += expected > 3 * error
        for table in row["tables"].values():
            share = table["expected_share"]
            far = FAR * math.sqrt(share * (1 - share) / row["groups"]) + 1 / row["groups"]
            assert abs(table["share"] - share) <= far
    assert biased >= 5
    curves = [curve for curve in numbers["suppression"] if curve["iterations"] == "detailed"]
    assert curves[0]["expected_share"] == sorted(curves[0]["expected_share"], reverse=True)


def test_noise_margins_cover_what_they_promise(numbers: dict[str, Any]) -> None:
    rows = [row for row in numbers["classes"] if row["region"] in ("USA", "STATE")]
    counts = sum(row["measured_counts"] for row in rows)
    within = sum(row["measured_counts_within_noise_margin"] for row in rows)
    assert counts > 3_000
    assert within / counts > 0.95 - FAR * math.sqrt(0.95 * 0.05 / counts)


def test_what_is_written(runs: list[Path], numbers: dict[str, Any]) -> None:
    folder = runs[0] / "dossier-confidential"
    written = json.loads((folder / "over-keys-confidential.json").read_text())
    assert written["warning"].startswith("CONFIDENTIAL")
    assert written["runs"] == ["safetab"] * len(KEYS)
    assert written["classes"] == numbers["classes"]
    for run in runs:
        assert "must not leave" in (run / "dossier-confidential" / "dossier-confidential.html").read_text()
    page = (folder / "over-keys-confidential.html").read_text()
    assert "3 releases with different keys" in page
    assert page.count("<svg") == 3
    assert folder.stat().st_mode & 0o077 == 0


def test_the_command_shows_a_line_for_each_level(runs: list[Path]) -> None:
    shown = CliRunner().invoke(app, ["evaluate", str(runs[1]), "--processes", "1"])
    assert shown.exit_code == 0
    assert "STATE, detailed" in shown.output
    assert "groups" in shown.output
    assert "areas" not in shown.output


def test_without_noise_nothing_is_off(people: Path) -> None:
    """Infinite budgets: every error is zero, every share what the true size decides."""
    parameters = people / "infinite"
    parameters.mkdir()
    for file in (people / "people" / "parameters").iterdir():
        (parameters / file.name).write_bytes(file.read_bytes())
    config = json.loads((parameters / "config.json").read_text())
    config |= {name: math.inf for name, value in config.items() if name.startswith("privacy_budget_p_level") and value}
    (parameters / "config.json").write_text(json.dumps(config))
    official_runs.execute(parameters, people / "people" / "data", people / "exact", processes=1, memory="2GiB")
    found = evaluated(people / "exact-confidential" / "safetab")
    for row in found["classes"]:
        assert row["error_margin"] in (None, 0)
        assert row["noise_margin"] == 0
        assert row["expected_share_suppressed"] == row["share_suppressed"]
        assert all(table["share"] == table["expected_share"] for table in row["tables"].values())


def test_clamped_totals_have_the_bias_of_clamping(people: Path) -> None:
    run = release_of(people / "people", people / "clamped", "77" * 32, **NO_NEGATIVES)
    found = evaluated(run)
    rows = [row for row in found["classes"] if row["mean_error_of_totals"] is not None]
    small = [row for row in rows if row["true_size"] in ("0", "1 to 9") and row["region"] == "USA"]
    assert any(row["expected_mean_error_of_totals"] > 0.1 for row in small)
    for row in rows:
        difference = abs(row["mean_error_of_totals"] - row["expected_mean_error_of_totals"])
        assert difference <= FAR * row["standard_error_of_mean"] + 1e-9


def test_where_theory_does_not_speak_it_is_silent(people: Path) -> None:
    run = release_of(people / "people", people / "silent", "88" * 32, tabulation_suppression="true")
    result = api.evaluate(run, processes=1)
    found = result.accuracy.reveal("made-up people")
    assert {row["expected_share_suppressed"] for row in found["classes"]} == {None}
    assert found["suppression"] == []
    assert "Theory about single groups does not apply" in " ".join(result.dossier.read_text().split())


def test_what_is_refused(runs: list[Path], people: Path) -> None:
    with pytest.raises(RunError, match="given twice"):
        api.evaluate(runs[0], runs[0])
    with pytest.raises(ParameterError, match="no geography 'nowhere'"):
        api.evaluate(runs[0], geometry={"nowhere": "counties.geojson"})
    forgetful = Path(shutil.copytree(runs[0], people / "key-11" / "forgetful"))
    (forgetful / "confidential" / "counts" / "STATE-2.parquet").unlink()
    with pytest.raises(RunError, match="true counts of this run are missing"):
        evaluated(forgetful)
