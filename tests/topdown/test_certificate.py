"""What a TopDown release tells of itself: certificate, statistics in the manifest, and the account of its paths."""

from __future__ import annotations

import html
import json
import re
import tomllib
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kits.descent import PRODUCTION, lay_out
from typer.testing import CliRunner

import confide.mechanisms.topdown.node
from confide import api
from confide.cli.main import app
from confide.estimation.active_set import GAP
from confide.estimation.least_squares import SolveOutcome, SolveReport
from confide.estimation.rounding import RoundingTally
from confide.lab.population import Population, write_population
from confide.mechanisms.topdown.descent import OUTCOMES, TALLY, power_of_ten, read_statistics, solver_check
from confide.mechanisms.topdown.node import NodeTally
from confide.mechanisms.topdown.statement import documents, invariants, invariants_note
from confide.mechanisms.topdown.strategy import plan_of
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP, Definition, Neighbours, epsilon_bracket, event_epsilon_bracket, noisy_cells
from confide.releases.folder import in_words, privacy_of
from confide.releases.plan import Plan, PlannedMeasurement, measured_levels, read_plan

KEY = "3c" * 32
DELTA = Fraction(1, 10**10)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of a small state, on a spine with only children."""
    folder = tmp_path_factory.mktemp("certified")
    write_population(Population(6_000, 5), folder / "people")
    return api.run(lay_out(folder, folder / "people"), insecure_key=KEY).release


@pytest.fixture
def manifest(released: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((released / "manifest.json").read_text())
    return content


def strategy_plan(name: str, root: str) -> Plan:
    strategy = load_strategy(name, Path(), root=root)
    titles = {attribute.name: attribute.title for attribute in strategy.schema.attributes}
    return plan_of(strategy, record=strategy.record, attributes=titles)


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


def test_areas_and_shares_are_those_of_the_classes(manifest: dict[str, Any]) -> None:
    plan = read_plan(manifest["plan"])
    rows = {row["name"]: row for row in measured_levels(plan)}
    classes = Counter((measure.level, measure.query) for measure in plan.measures)
    assert max(classes.values()) > 1, "the spine has no only child, and the test nothing to show"
    for name, row in rows.items():
        units = [m.units for m in plan.measures if (m.level, m.query) == (name, "detailed")]
        assert row["units"] == sum(units)
        assert row["queries"] == len({m.query for m in plan.measures if m.level == name})
    assert sum(row["counts"] for row in rows.values()) == plan.counts
    # On every path the shares are the whole budget, which the sums over all classes of a level are not.
    for path in plan.paths:
        assert sum(Fraction(plan.measures[number].loss.rho) for number in path) == Fraction(PRODUCTION)
    page = text_of(documents(manifest)["certificate.html"])
    assert all(f" {row['units']:,} " in page and row["share"] in page for row in rows.values())
    assert any(" to " in row["share"] for row in rows.values())


def test_the_classes_of_a_level_one_by_one() -> None:
    """Four areas with a share of 1/4 of the budget, two that also have the 3/4 of their only child."""

    def measure(level: str, query: str, units: int, rho: str) -> PlannedMeasurement:
        return PlannedMeasurement(level, query, units, 2, DiscreteGaussian(1 / Fraction(rho)), ZCDP(rho))

    measures = (
        measure("region", "sex", 4, "1/8"),
        measure("region", "age", 4, "1/8"),
        measure("region", "sex", 2, "1/2"),
        measure("region", "age", 2, "1/2"),
        measure("block", "sex", 9, "3/4"),
    )
    plan = Plan(
        "topdown", Neighbours.CHANGE_ONE, Definition.ZCDP, measures, ("region", "block"), {}, ((0, 1, 4), (2, 3))
    )
    assert plan.loss == ZCDP(1)
    region, block = measured_levels(plan)
    assert region == {"name": "region", "units": 6, "queries": 2, "counts": 24, "share": "25.00 % to 100.00 %"}
    assert block == {"name": "block", "units": 9, "queries": 1, "counts": 18, "share": "75.00 %"}


def test_the_certificate_states_what_the_production_certificates_state(tmp_path: Path) -> None:
    """Epsilon 17.14 of the redistricting persons and 2.47 of the units (Census Bureau, 2021), rounded up here."""
    for name, epsilon, by_race in (("pl94-persons", "17.15", "10.09"), ("pl94-units", "2.48", None)):
        plan = strategy_plan(name, "us")
        manifest: dict[str, Any] = {
            "title": "A title", "release": "a-release", "confide": "0", "mechanism": "topdown",
            "statistics": read_statistics(dict.fromkeys(plan.spine, tmp_path)),
            "noise": {"sampler": "confide/v1", "key": "from the operating system"},
            "privacy": privacy_of(plan, DELTA), "plan_hash": plan.hash, "plan": plan.as_dict(),
        }  # fmt: skip
        page = text_of(documents(manifest)["certificate.html"])
        assert f"ε = {epsilon}" in page
        for way in ("canonne_kamath_steinke", "bun_steinke", "gaussian_limit"):
            assert f"{manifest['privacy']['epsilon_at_delta'][way]:.3f}"[:-1] in page
        for level in plan.spine[:-1]:
            assert f" {level.replace('_', ' ')} " in page
        assert by_race is None or by_race in page
        assert "each with its own noise" not in page
        assert ("person's record" in page) == (name == "pl94-persons")
        assert ("housing unit's record" in page) == (name == "pl94-units")


def test_invariants_in_words() -> None:
    nation, state = strategy_plan("pl94-persons", "us"), strategy_plan("pl94-persons", "state")
    population, facilities = invariants(nation)
    assert population == "State population: the number of records in every state"
    assert facilities.startswith("Units and facilities by block: the columns housing_units, gq1")
    assert "can tell which state a record is in" in invariants_note(nation)
    assert "which state" not in invariants_note(state)
    assert "does not change when one record changes" in invariants_note(state)
    housing, _ = invariants(strategy_plan("pl94-units", "us"))
    assert housing.startswith("Housing units: the number of records in every block, published exactly as in the block")
    assert "can tell which" not in invariants_note(strategy_plan("pl94-units", "us"))


def test_the_promise_in_words_says_whose_records_and_that_there_are_invariants() -> None:
    persons, units = (in_words(strategy_plan(name, "us"), DELTA) for name in ("pl94-persons", "pl94-units"))
    assert "person" in persons[0]
    assert "housing unit" in units[0]
    assert "This release has some" in persons[-1]
    assert "This release has some" in units[-1]
    plain = Plan("tables", Neighbours.CHANGE_ONE, Definition.ZCDP, (), ("state",), {})
    assert "This release has none" in in_words(plain, DELTA)[-1]


def test_without_invariants_nothing_is_said_of_them() -> None:
    plan = Plan("tables", Neighbours.CHANGE_ONE, Definition.ZCDP, (), ("state",), {})
    assert (invariants(plan), invariants_note(plan)) == ([], "")


def test_the_statistics_count_every_node_and_every_problem(released: Path, manifest: dict[str, Any]) -> None:
    statistics, spine = manifest["statistics"], manifest["plan"]["spine"]
    assert list(statistics["levels"]) == spine
    whole = statistics["whole"]
    for key in ("nodes", "fallbacks"):
        assert whole[key] == sum(level[key] for level in statistics["levels"].values())
    assert statistics["levels"][spine[0]]["nodes"] == 1
    assert set(whole["least_squares"]) == set(OUTCOMES)
    # Every node that is not copied is rounded once.
    assert sum(whole["rounding"]["outcomes"].values()) == whole["nodes"] - whole["least_squares"]["copied"]
    assert whole["least_squares"]["inexact"] == 0
    assert whole["relative_gap_at_most"] == GAP
    (found,) = [check for check in api.verify(released).checks if check.name == "least squares"]
    assert found.ok
    assert found.detail.startswith("all ")
    assert "How the estimates were made" in (released / "certificate.html").read_text()


def test_what_is_not_proved_is_told_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that hands in feasible points without a proof: the release stands, and says so."""
    exact = confide.mechanisms.topdown.node.solve

    def unproved(problem: Any) -> Any:
        x, report = exact(problem)
        gap = type(report.certificate)(1.0, 3e-3, 3e-3, report.certificate.violation)
        return x, SolveReport(SolveOutcome.INEXACT, gap, report.attempts)

    monkeypatch.setattr("confide.mechanisms.topdown.node.solve", unproved)
    write_population(Population(1_500, 5), tmp_path / "people")
    release = api.run(lay_out(tmp_path, tmp_path / "people", spine="plain"), processes=1, insecure_key=KEY).release
    whole = json.loads((release / "manifest.json").read_text())["statistics"]["whole"]
    inexact = whole["least_squares"]["inexact"]
    assert inexact > 0
    assert whole["relative_gap_at_most"] == 1e-2
    verified = api.verify(release)
    (found,) = [check for check in verified.checks if check.name == "least squares"]
    assert verified.ok
    assert f"{inexact:,} of " in found.detail
    assert "not proved optimal; the largest gap is at most 1e-2" in found.detail
    assert f"{inexact:,} of " in text_of((release / "certificate.html").read_text())


def tally_file(folder: Path, number: int, tally: NodeTally) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({"unit": pa.array([], pa.int64())}).replace_schema_metadata({TALLY: json.dumps(tally.as_dict())})
    pq.write_table(table, folder / f"{number:08d}.parquet")


def test_groups_and_their_order_do_not_show(tmp_path: Path) -> None:
    tallies = [
        NodeTally(1, {"copied": 1}),
        NodeTally(2, {"inexact": 1, "active set": 3}, 2, 3e-5, RoundingTally({}, 7)),
    ]
    for name, groups in {"one": [tallies[0] + tallies[1]], "two": tallies, "other": tallies[::-1]}.items():
        for number, tally in enumerate(groups):
            tally_file(tmp_path / name / "block", number, tally)
    one, two, other = (read_statistics({"block": tmp_path / name / "block"}) for name in ("one", "two", "other"))
    assert one == two == other
    assert one["whole"]["nodes"] == 3
    assert one["whole"]["least_squares"]["inexact"] == 1
    assert one["whole"]["relative_gap_at_most"] == 1e-4
    assert one["whole"]["rounding"]["open_cells"] == 7


def test_statistics_that_do_not_add_up_are_found(manifest: dict[str, Any]) -> None:
    statistics = manifest["statistics"]
    assert solver_check(statistics).ok
    statistics["levels"]["block"]["least_squares"]["inexact"] += 1
    assert not solver_check(statistics).ok


@pytest.mark.parametrize(
    ("gap", "power"), [(0.0, 1e-6), (1e-6, 1e-6), (1.1e-6, 1e-5), (1e-3, 1e-3), (0.5, 1.0), (7, 10.0), (10**9, 1e9)]
)
def test_a_gap_is_told_by_a_power_of_ten(gap: float, power: float) -> None:
    assert power_of_ten(gap) == power


def test_where_nothing_is_proved_no_gap_is_told() -> None:
    assert power_of_ten(float("inf")) is None
    assert power_of_ten(float("nan")) is None


def test_the_account_of_a_release_takes_the_worst_pair_of_paths(released: Path, manifest: dict[str, Any]) -> None:
    plan = read_plan(manifest["plan"])
    assert len(plan.paths) > 1
    result = CliRunner().invoke(app, ["account", "release", str(released), "--json"])
    assert result.exit_code == 0, result.output
    stated = json.loads(result.stdout)
    bracket = stated["privacy_loss_distribution"]
    assert bracket["lower"] <= bracket["upper"] < stated["canonne_kamath_steinke"]
    # No path by itself loses more, and the bracket is narrow.
    for path in plan.paths:
        alone = Plan("topdown", plan.neighbours, plan.definition, tuple(plan.measures[n] for n in path), (), {})
        assert epsilon_bracket(noisy_cells(alone.event, plan.neighbours), DELTA, "1e-3").optimistic <= bracket["upper"]
    assert bracket["upper"] - bracket["lower"] < 0.005


def test_the_plain_redistricting_strategy_has_a_known_bracket() -> None:
    """At a budget of 2.56: 16.4794, the value of a Gaussian mechanism of that cost, within what was rounded."""
    strategy = load_strategy("pl94-persons", Path(), root="us", budget="2.56")
    bracket = event_epsilon_bracket(plan_of(strategy).event, Neighbours.CHANGE_ONE, DELTA)
    assert 16.477 < bracket.optimistic < 16.4794 < bracket.pessimistic < 16.4812


def test_check_counts_the_areas_of_all_classes(released: Path, manifest: dict[str, Any]) -> None:
    spec = released.parent.parent / "spec.toml"
    shown = CliRunner().invoke(app, ["check", str(spec)], env={"COLUMNS": "200"}).stdout
    plan = read_plan(manifest["plan"])
    for row in measured_levels(plan):
        assert re.search(rf"{row['name']}\W+{row['units']:,}\W+{row['queries']}\W+{row['counts']:,}\b", shown), shown
    assert f"records estimated from at most {plan.counts:,} noisy counts" in shown


def test_one_schema_for_each_mechanism(released: Path) -> None:
    schema = api.json_schema()
    validator = jsonschema.Draft202012Validator(schema)
    spec = tomllib.loads((released.parent.parent / "spec.toml").read_text())
    validator.validate(spec)
    for mechanism in ("tables", "nothing"):
        assert not validator.is_valid(spec | {"release": spec["release"] | {"mechanism": mechanism}})
    names = {definition.partition(".")[0] for definition in schema["$defs"]}
    assert names == set(api.MECHANISMS)
    for mechanism in api.MECHANISMS:
        assert schema["$defs"][f"{mechanism}.ReleasePart"]["properties"]["mechanism"]["const"] == mechanism
