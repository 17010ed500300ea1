"""``confide tune --target``: targets in words, the least budget, exact shares, and whose people are refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.commands import codes, run, run_json
from tests.kits.topdown import write_small_state, write_spec

from confide.engines import LocalEngine
from confide.errors import ConfideError, ParameterError
from confide.inference.tuning import tune_topdown
from confide.inference.tuning_people import copied, refuse_confidential
from confide.mechanisms import SPECS
from confide.mechanisms.topdown.evaluate import geographies
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem
from confide.mechanisms.topdown.spec import with_tree_evidence
from confide.mechanisms.topdown.strategy import BY_QUERY, account_of
from confide.mechanisms.topdown.strategy_file import load_strategy, parse_strategies
from confide.mechanisms.topdown.targets import parse_target, rounded_parts
from confide.privacy import ZCDP
from confide.releases.plan import Plan
from confide.releases.spec import load_spec

KINDS = ["state", "county", "tract", "block_group", "block_group (made)", "place", "block"]
SHARE = "share of the largest hispanic*cenrace group <= 5pp in block_group, place >= 500 @95%"


@pytest.fixture(scope="module")
def hamlet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_small_state(tmp_path_factory.mktemp("hamlet"), 400, 4)
    write_spec(folder, around=["place"])
    return folder


@pytest.fixture
def project(tmp_path: Path, hamlet: Path) -> Path:
    shutil.copytree(hamlet, tmp_path / "hamlet")
    return tmp_path / "hamlet"


def problem_of(spec: Path, scratch: Path) -> TopDownProblem:
    with LocalEngine(scratch, processes=1) as engine:
        return TopDown().prepare(load_spec(spec, SPECS), engine)


# Words.


def test_targets_are_read() -> None:
    strategy = load_strategy("pl94-persons", root="state")
    target = parse_target(SHARE, strategy, KINDS)
    assert (target.query, target.limit, target.of_share) == ("hispanic*cenrace", Fraction(1, 20), True)
    assert (target.kinds, target.least, target.chance) == (("block_group", "place"), 500, Fraction(19, 20))
    plain = parse_target("total<=5in tract @95%".replace("5in", "5 in"), strategy, KINDS)
    assert (plain.query, plain.limit, plain.of_share, plain.least) == ("total", 5, False, 0)
    assert parse_target("total<=1% in made block_group@90%", strategy, KINDS).kinds == ("block_group (made)",)
    assert parse_target("votingage * hispanic within 20 in county", strategy, KINDS).query == "votingage*hispanic"
    assert parse_target("share:hispanic<=5pp@90% in place>=500", strategy, KINDS).chance == Fraction(9, 10)
    for text in (
        "TOTAL < ±5 persons IN all Tracts",
        "total =< 5.0 in tract, tract at 95 per cent",
        "total ≤ 5 in tracts",
    ):
        assert replace(parse_target(text, strategy, KINDS), text=plain.text) == plain
    several = parse_target("hispanic × cenrace ≤ 1,000 in Counties, places and block groups > 499", strategy, KINDS)
    assert (several.query, several.limit, several.least) == ("hispanic*cenrace", 1_000, 500)
    assert several.kinds == ("county", "place", "block_group")
    in_points = parse_target("share of the largest hispanic group <= 5 percentage points in place", strategy, KINDS)
    assert (in_points.limit, in_points.of_share) == (Fraction(1, 20), True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("total <= 5 in trakt", "did you mean 'tract'?"),
        ("totl <= 5 in tract", "did you mean 'total'?"),
        ("total 5 in tract", "total <= 5 in tract"),
        ("total <= 5", "`in` and areas"),
        ("total <= five in tract", "a number above zero"),
        ("total <= 5pp in tract", "share of the largest"),
        ("share of the largest hispanic group <= 5 in tract", "5pp"),
        ("share of people <= 5pp in tract", "share of the largest QUERY group"),
        ("hispanic <= 5% in tract", "a number of records"),
        ("total <= 5 in tract @100%", "less than 100"),
        ("total <= 5 in tract @0.95", "@95%, or @0.95%"),
        ("total <= 5 in tract @-5%", "such as @95%"),
        ("total <= 5/0 in tract", "a number above zero"),
        ("share of the largest total group <= 5pp in tract", "a query with groups"),
        ("share of the largest hispanic group <= 100pp in tract", "less than 100 points"),
        ("total <= 5 in tract >= few", "a whole number"),
        ("total <= 0 in tract", "above zero"),
    ],
)
def test_mistakes_are_findings(text: str, said: str) -> None:
    with pytest.raises(ParameterError) as raised:
        parse_target(text, load_strategy("pl94-persons", root="state"), KINDS)
    (finding,) = raised.value.findings
    assert finding.code == "bad-target"
    assert said in f"{finding.expected} {finding.remedy}"
    assert text[:20] in str(finding.where)


def test_all_mistakes_are_said_at_once(hamlet: Path) -> None:
    listed = codes("tune", hamlet / "spec.toml", "--target", "total <= 5", "--target", "x <= 5 in tract")
    assert listed == ["bad-target", "bad-target"]
    assert codes("tune", hamlet / "spec.toml", "--keep", "1/50") == ["no-target"]
    assert codes("tune", hamlet / "spec.toml", "--target", "total <= 5 in state") == ["nothing-needed"]


# Budgets.


@pytest.mark.parametrize("evidence", ["own", "tree"])
def test_the_margin_of_the_binding_area_is_the_limit(hamlet: Path, tmp_path: Path, evidence: str) -> None:
    """With the budget that is found, margins z·sd of the noise alone, by code of their own, are within the limit
    everywhere, and in the binding area they are it: of the estimator that the strategy has."""
    targets = ["total <= 60 in tract, block_group @90%", "hispanic <= 900 in county"]
    spec = hamlet / "spec.toml"
    if evidence == "tree":
        (hamlet / "learning.toml").write_text(with_tree_evidence("pl94-persons"))
        spec = hamlet / "learning-spec.toml"
        spec.write_text((hamlet / "spec.toml").read_text().replace('"pl94-persons"', '"learning.toml"'))
    answer = tune_topdown(spec, targets, optimise=False, confirm=0)
    rho = max(row.present.rho for row in answer.targets)
    assert answer.present is not None
    assert rho <= answer.present <= rho * 1.001
    problem = problem_of(spec, tmp_path)
    assert problem.strategy.evidence == evidence
    exact = replace(problem, strategy=problem.strategy.with_budget(Fraction(rho)))
    noise, largest = TopDownNoise(exact), []
    for kind, query, limit, chance in (
        ("tract", "total", 60, 0.9),
        ("block_group", "total", 60, 0.9),
        ("county", "hispanic", 900, 0.95),
    ):
        (geography,) = (each for each in geographies(exact) if each.name == kind)
        z = NormalDist().inv_cdf((1 + chance) / 2)
        areas = geography.areas
        variances = noise.variances(exact.strategy.grouping(query), areas)
        largest.append(float(np.nanmax(z * np.sqrt(variances)) / limit))
    # The exact variance of discrete noise is a little below its parameter, which the closed form takes.
    assert max(largest) == pytest.approx(1.0, abs=2e-3)
    assert all(each <= 1 + 1e-9 for each in largest)


def test_a_tighter_limit_costs_by_its_square_and_the_best_shares_cost_less(hamlet: Path) -> None:
    wide, tight = (
        tune_topdown(hamlet / "spec.toml", [f"total <= {limit} in tract"], confirm=0, optimise=limit == 4)
        for limit in (4, 2)
    )
    assert wide.present is not None
    assert tight.present is not None
    assert wide.needed is not None
    assert tight.targets[0].present.rho == pytest.approx(4 * wide.targets[0].present.rho)
    assert wide.needed < wide.present
    assert wide.bound is not None
    assert wide.bound <= float(wide.needed) <= 1.05 * wide.bound
    (target,) = wide.targets
    assert target.elasticity == pytest.approx(1.0)
    assert target.price == pytest.approx(2 * float(wide.needed) / 4)
    assert target.best is not None
    assert target.best.binding.sd * NormalDist().inv_cdf(0.975) == pytest.approx(4)


def test_prices_are_those_of_the_normal_law(hamlet: Path) -> None:
    rows = run_json("tune", hamlet / "spec.toml", "--prices", "total in tract")["prices"]
    assert [(row["margin"], round(row["rho"], 4)) for row in rows[:4]] == [
        (1, 3.8415),
        (2, 0.9604),
        (5, 0.1537),
        (10, 0.0384),
    ]
    assert all(row["rho_present"] > row["rho"] for row in rows)


# The strategy.


def test_the_written_strategy_is_exact_and_accepted(project: Path) -> None:
    out = project / "tuned.toml"
    target = "total <= 3 in tract, block_group"
    answer = run_json("tune", project / "spec.toml", "--target", target, "--runs", "0", "--out", out)
    (strategies, root) = parse_strategies(out.read_text(), "tuned.toml", project)
    strategy = strategies[root]
    assert sum(level.share for level in strategy.levels) == 1
    assert all(sum(query.share for query in level.queries) == 1 for level in strategy.levels)
    assert str(strategy.budget) == answer["best"]["rho"] == answer["best"]["budget"]
    assert account_of(strategy).total.rho == strategy.budget
    assert (strategy.bypass, strategy.evidence) == (BY_QUERY, "tree")
    assert answer["evidence"] == {"now": "own", "best": "tree"}
    text = (project / "spec.toml").read_text().replace('"pl94-persons"', '"tuned.toml"')
    budget = f'budget = "{load_strategy("pl94-persons", root="state").budget}"'
    (project / "tuned-spec.toml").write_text(text.replace(budget, f'budget = "{strategy.budget}"'))
    checked = run_json("check", project / "tuned-spec.toml")
    assert checked["ok"] is True
    assert Fraction(checked["cost"]) == strategy.budget
    assert codes("tune", project / "spec.toml", "--target", target, "--out", out) == ["there-already"]


def test_no_share_falls_below_what_is_kept(hamlet: Path) -> None:
    answer = tune_topdown(hamlet / "spec.toml", ["total <= 3 in tract"], keep="1/2", confirm=0)
    assert answer.best is not None
    for level in answer.now.levels:
        for query in level.queries:
            found = answer.best.level(level.name)
            assert float(found.share * found.query(query.name).share) >= float(level.share * query.share) / 2 - 2e-4


def test_rounded_shares_sum_to_one_and_none_is_zero() -> None:
    rng = np.random.default_rng(5)
    for size in (1, 2, 7, 40):
        shares = rng.dirichlet(np.full(size, 0.05))
        parts = rounded_parts(np.maximum(shares, 1e-12))
        assert sum(parts) == 1
        assert min(parts) > 0


def test_every_path_has_the_whole_budget_where_only_children_are_bypassed_by_query(
    hamlet: Path, tmp_path: Path
) -> None:
    problem = problem_of(hamlet / "spec.toml", tmp_path)
    by_query = replace(problem, strategy=replace(problem.strategy, bypass=BY_QUERY))
    plain, changed = plan_problem(problem), plan_problem(by_query)
    assert changed.loss == plain.loss == ZCDP(problem.strategy.budget)
    assert all(_path_loss(changed, path) == problem.strategy.budget for path in changed.paths)
    assert changed.question["strategy"]["bypass"] == BY_QUERY
    assert "bypass" not in plain.question["strategy"]
    assert changed.measures != plain.measures  # some unit has an only child, and divides its share another way
    assert changed.hash != plain.hash


def _path_loss(plan: Plan, path: tuple[int, ...]) -> Fraction:
    losses = [plan.measures[number].loss for number in path]
    return sum((loss.rho for loss in losses if isinstance(loss, ZCDP)), Fraction(0))


def test_the_strategy_of_our_own_ships_and_is_drafted(project: Path) -> None:
    """Exact shares, tree evidence, and a draft that says so."""
    strategy = load_strategy("pl94-persons-2026")
    assert (strategy.root, strategy.evidence, strategy.bypass) == ("state", "tree", BY_QUERY)
    assert account_of(strategy).total.rho == strategy.budget == Fraction(208, 125)
    (project / "new").mkdir()
    for name in ("blocks", "persons"):
        shutil.copy(project / f"{name}.parquet", project / "new")
    run_json("new", "topdown", project / "new", "--product", "pl94-persons-2026")
    text = (project / "new" / "spec.toml").read_text()
    assert 'strategy = "pl94-persons-2026"' in text
    assert 'around = ["cousub", "place", "block_group", "upper_district", "lower_district"]' in text
    checked = run_json("check", project / "new" / "spec.toml")
    assert checked["ok"] is True
    assert [finding["code"] for finding in checked["findings"]] == ["absent-area"]
    assert "mdf" in str(checked["plan"]["question"]["output"])


# People.


def test_confidential_records_are_refused_by_path_and_by_content(project: Path) -> None:
    arguments = ("tune", project / "spec.toml", "--target", SHARE.replace("500", "5"), "--people")
    assert codes(*arguments, project / "persons.parquet") == ["confidential-people"]
    shutil.copy(project / "persons.parquet", project / "older.parquet")
    assert codes(*arguments, project / "older.parquet") == ["confidential-people"]
    (project / "linked.parquet").symlink_to(project / "persons.parquet")
    assert codes(*arguments, project / "linked.parquet") == ["confidential-people"]
    people = pq.read_table(project / "persons.parquet")
    mixed = people.take(np.random.default_rng(3).permutation(people.num_rows)[: people.num_rows * 97 // 100])
    pq.write_table(mixed, project / "mixed.parquet")
    pyarrow.csv.write_csv(people, project / "written.csv")
    more = people.take(np.random.default_rng(4).permutation(people.num_rows)[: people.num_rows // 4])
    pq.write_table(pa.concat_tables([people, more]), project / "more.parquet")  # they and others
    pq.write_table(pa.concat_tables([people, people]), project / "twice.parquet")
    other = people.set_column(people.column_names.index("cenrace"), "cenrace", pa.array([0] * people.num_rows))
    pq.write_table(other, project / "other.parquet")  # where they are, and not what they are
    counted = people.group_by("geocode").aggregate([("geocode", "count")])
    figures = {"geography": ["block"] * counted.num_rows, "code": counted.column("geocode")}
    pq.write_table(pa.table(figures | {"total": counted.column("geocode_count")}), project / "figures.parquet")
    for name in ("mixed", "more", "twice", "other", "figures"):  # other bytes, the same people
        assert codes(*arguments, project / f"{name}.parquet") == ["confidential-people"], name
    assert codes(*arguments, project / "written.csv") == ["confidential-people"]
    with pytest.raises(ConfideError):
        refuse_confidential(project / "older.parquet", load_spec(project / "spec.toml", SPECS))
    assert codes(*arguments, project / "nobody.parquet") == ["no-such-file"]


def test_other_people_are_no_copy_whether_areas_are_small_or_large() -> None:
    """Counts of two censuses: most people of a block moved; most of a municipality did not, or it grew everywhere."""
    draw = np.random.default_rng(6)
    for mean in (0.3, 2.0, 40.0, 10_000.0):
        now = draw.poisson(mean, 3_000).astype(float)
        assert copied(now, now)
        assert copied(draw.binomial(now.astype(int), 0.9).astype(float), now)  # nine in ten of the records
        assert copied(2 * now, now)
        if mean < 10:
            assert copied(now + draw.poisson(mean, 3_000), now)  # as many others among them
        for growth in (1.0, 1.3):
            then = draw.poisson(np.maximum(now, 0.1) / growth).astype(float)
            assert not copied(then, now)


def test_an_older_census_and_public_figures_say_how_large_areas_are(project: Path) -> None:
    """An older census in which half as many people were there, in other homes; and the totals of places in a table,
    where nobody says which group is the largest, so that the worst is taken."""
    people = pq.read_table(project / "persons.parquet")
    others, blocks = people.take(list(range(0, people.num_rows, 2))), sorted(set(people.column("geocode").to_pylist()))
    homes = np.random.default_rng(8).choice(blocks, others.num_rows).tolist()
    older = others.set_column(others.column_names.index("geocode"), "geocode", pa.array(homes))
    pq.write_table(older, project / "older.parquet")
    target = "share of the largest hispanic*cenrace group <= 5pp in county >= 5"
    of_census = tune_topdown(
        project / "spec.toml", [target], people=project / "older.parquet", confirm=0, optimise=False
    )
    assert "older census (older.parquet)" in of_census.people
    counties = dict.fromkeys(code[:5] for code in homes)
    totals = [sum(code.startswith(county) for code in homes) for county in counties]
    figures = pyarrow.table({"geography": ["county"] * len(counties), "code": list(counties), "total": totals})
    pyarrow.csv.write_csv(figures, project / "figures.csv")
    of_table = tune_topdown(project / "spec.toml", [target], people=project / "figures.csv", confirm=0, optimise=False)
    assert of_table.targets[0].present.binding.people == of_census.targets[0].present.binding.people
    assert of_table.targets[0].present.rho >= of_census.targets[0].present.rho
    made_up = tune_topdown(project / "spec.toml", [target], persons=4 * people.num_rows, optimise=False)
    assert not made_up.confirmed  # nothing was proposed
    assert made_up.targets[0].present.rho < of_table.targets[0].present.rho  # larger areas need less


def test_the_records_need_not_be_there_and_are_not_read(project: Path) -> None:
    (project / "persons.parquet").unlink()
    answer = run("tune", project / "spec.toml", "--target", "total <= 5 in tract", "--runs", "0")
    assert "Best shares" in answer
    assert "not looked at" in answer


@pytest.mark.process
def test_runs_on_made_up_people_confirm_the_answer(hamlet: Path) -> None:
    answer = json.loads(run("tune", hamlet / "spec.toml", "--target", "total <= 5 in tract", "--runs", 1, "--json"))
    present, best = answer["confirmed"]
    assert (present["strategy"], best["strategy"]) == ("present", "best")
    assert best["rho"] == answer["best"]["rho"]
    assert 0 <= best["met"] <= 1
    missed = [row for row in (present, best) if row["met"] < 0.95 - 0.05]
    assert len([finding for finding in answer["warnings"] if finding["code"] == "missed-target"]) == len(missed)
    assert answer["charged"] is None
    assert not (hamlet / "descent").exists()
    expected = {(row["kind"], row["query"]): row for row in answer["errors"]}
    assert expected["tract", "total"]["best"] < 5 / NormalDist().inv_cdf(0.975) * sqrt(2 / np.pi) * 1.001
    assert expected["block", "total"]["best"] > expected["block", "total"]["now"]
    # Errors of records are beside them; where the target is one, they are those that the run was confirmed with.
    for row in answer["confirmed"]:
        after = expected[row["kind"], "total"][f"{row['strategy']}_after"]
        assert after == pytest.approx(row["mean_absolute_error"])
    assert expected["block", "total"]["best_after"] < expected["block", "total"]["best"]  # people are few
