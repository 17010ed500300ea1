"""Tree evidence: units are estimated from what they and all units below them tell, exactly, and from nothing else."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from benchmarks.evidence import Comparison
from tests.kits import descent, own_country
from tests.kits.crossed_topdown import CrossedProject
from tests.kits.measurement_file import again, table
from tests.kits.own_strategy import bound, lay_out, released_by_block, seal
from tests.kits.random_specs.project import toml

import confide
from confide.engines import LocalEngine
from confide.errors import ParameterError
from confide.estimation.least_squares import SolveOutcome, SolveReport, solve
from confide.estimation.node_problem import NodeProblem
from confide.estimation.sectors import Sectors
from confide.geography import AreaSet
from confide.mechanisms.topdown import from_below, node
from confide.mechanisms.topdown.descent import estimates_folder
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.from_below import FOLDER, law_passes, levels_used, planned_tree, worth_of_blocks
from confide.mechanisms.topdown.measurements.layout import words_of
from confide.mechanisms.topdown.measurements.measured_tree import read_tree
from confide.mechanisms.topdown.mechanism import DrawnEvidence, TopDown
from confide.mechanisms.topdown.node import EstimationNode, NodeRules, UnitLaws, expected_cells
from confide.mechanisms.topdown.output.accuracy import accuracy_table
from confide.mechanisms.topdown.problem import TopDownProblem, plan_problem
from confide.mechanisms.topdown.released_problem import released_plan
from confide.mechanisms.topdown.spec import TopDownSpec
from confide.mechanisms.topdown.spine import bypass_only_children
from confide.mechanisms.topdown.strategy import Pass
from confide.mechanisms.topdown.strategy_file import load_strategy
from confide.noise import ReleaseKey, draw_at
from confide.releases.mechanism import Job, NoiseSource
from confide.releases.spec import load_spec
from confide.releases.workspace import Silent, Workspace

TREE = 'definition = "zcdp"\nevidence = "tree"'
MEASURED = "[output]\nmeasurements = true\n"


def with_tree(spec: Path, strategy: str = "own.toml", output: str = "") -> Path:
    """The project with tree evidence."""
    file = spec.parent / strategy
    text = file.read_text(encoding="utf-8")
    assert 'definition = "zcdp"' in text
    file.write_text(text.replace('definition = "zcdp"', TREE), encoding="utf-8")
    spec.write_text(spec.read_text(encoding="utf-8") + output, encoding="utf-8")
    return spec


def production(folder: Path, people: Path, *, budget: object = descent.PRODUCTION, output: str = "") -> Path:
    """The shipped strategy with tree evidence, on made-up people."""
    spec = descent.lay_out(folder, people, budget=budget)
    shipped = Path(confide.__file__).parent / "data" / "strategies" / "pl94-persons.toml"
    (folder / "tree.toml").write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    spec.write_text(spec.read_text().replace('strategy = "pl94-persons"', 'strategy = "tree.toml"'))
    return with_tree(spec, "tree.toml", output)


def problem_of(spec: Path) -> TopDownProblem:
    with LocalEngine(spec.parent / "scratch", processes=1) as engine:
        return TopDown().prepare(load_spec(spec, {"topdown": TopDownSpec}), engine)


# The estimates.


def rich(seed: int) -> list[list[int]]:
    """Blocks with so many people of each kind that no estimate comes near zero."""
    return np.random.default_rng(seed).integers(300, 700, (12, 2)).tolist()


@pytest.mark.parametrize("level", [None, "state", "county"])
@pytest.mark.parametrize("passes", ["at once", "total first"])
def test_where_nothing_binds_every_unit_is_the_best_linear_unbiased_estimate(
    tmp_path: Path, level: str | None, passes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Least squares on the whole tree, up to rounding. Evidence that is used twice, comes from elsewhere or has a wrong
    weight leads away from it: the noise has a standard deviation of 40."""
    if passes == "at once":  # the blocks, too, if nothing is made of the sizes of others
        monkeypatch.setattr(node, "UNLIKE", 1e18)
    spec = with_tree(lay_out(tmp_path, rich(3), {"houses": [1] * 12}, "", level=level, budget="1/300"), output=MEASURED)
    file = tmp_path / "own.toml"
    shares = file.read_text().replace('shares     = ["1/3", "1/3", "1/3"]', 'shares     = ["1/4", "1/4", "1/2"]')
    if passes == "total first":
        at_once = '[estimation.below]\nleast_squares = [{ queries = ["total", "detailed"] }]'
        first = '{ queries = ["total"], constrain = ["total"] }, { queries = ["detailed"] }'
        assert at_once in shares
        shares = shares.replace(at_once, f'[estimation.below]\nslack = "1/100"\nleast_squares = [{first}]')
    file.write_text(shares)
    off, noise = off_the_best(seal(spec), tmp_path)
    assert noise > 10
    # Blocks have nothing below them: with several passes their own total comes first, and the rest after it.
    assert passes == "total first" or np.abs(off).max() < 1.5
    assert np.abs(off.reshape(3, 4, 2).sum(axis=1)).max() < 1.5


def off_the_best(release: Path, folder: Path) -> tuple[np.ndarray, float]:
    """Released counts by block and kind less those of least squares on the whole tree, and how far these are off."""
    strategy = load_strategy("own.toml", folder)
    tree = read_tree(release / "measurements", words=words_of(strategy), levels=strategy.level_names)
    counted = released_by_block(release)
    blocks = np.array([[counted[code].get(kind, 0) for kind in range(2)] for code in tree.block_codes])
    best = tree.estimates.histogram(tree.position[-1]).reshape(12, 2, 2).sum(axis=2)
    return blocks - best, float(np.abs(best - np.array(rich(3))).mean())


def test_own_measurements_alone_lead_away_from_it(tmp_path: Path) -> None:
    """What the test above would not pass with: counties that do not listen to their blocks."""
    spec = lay_out(tmp_path, rich(3), {"houses": [1] * 12}, "", budget="1/300")
    spec.write_text(spec.read_text() + MEASURED)
    off, _ = off_the_best(seal(spec), tmp_path)
    assert np.abs(off.reshape(3, 4, 2).sum(axis=1)).max() > 10


def test_a_second_look_expects_people_where_people_are() -> None:
    """Cells of the same power of two have one variance; quarters have parts of their own; zeros stay zero."""
    groups = np.array([0, 0, 0, 1])
    rules = NodeRules((), 0.0, (), {}, frozenset(), {"kind": groups}, np.zeros(4, bool), second_look=True)
    first = np.array([[7.5, 1.5], [1.0, 0.0], [1.0, 0.0], [0.0, 4.0]])
    allowed = np.array([[True, True]] * 3 + [[False, True]])
    parent = EstimationNode(np.arange(4), np.array([9, 1, 1, 4]), (), {}, 2)
    alike = {int((query.groups >= 0).argmax()): query for query in expected_cells(parent, rules, allowed, first)}
    large, small, quarters = alike[0], alike[1], alike[3]
    part = np.array([10.0, 2.0]) / 12
    assert large.measured[0] == pytest.approx(9 * part)
    assert large.weights == pytest.approx(1 / (4 * 9 * part * (1 - part) + 0.02))
    assert small.groups.tolist() == [-1, 0, 1, -1]
    assert small.measured == pytest.approx(np.stack([part, part]))
    assert small.weights == pytest.approx(1 / (4 * part * (1 - part) + 0.02))
    assert quarters.measured[0] == pytest.approx([0, 4])
    # Large units differ by more than chance: shares of their own show there.
    many = replace(parent, parent=100 * np.array([9, 1, 1, 4]))
    large = next(query for query in expected_cells(many, rules, allowed, 100 * first) if query.groups[0] >= 0)
    sizes = np.array([950.5, 150.5])
    wider = 1 + sizes / 8
    assert large.weights == pytest.approx(1 / (wider * 900 * (sizes / 1_101) * (1 - sizes / 1_101) + 0.02))


def test_a_second_look_believes_measurements_where_people_live_apart() -> None:
    """All 64 of a kind live in one of four units of the same size, as in a prison: nobody expects them elsewhere."""
    rules = NodeRules((), 0.0, (), {}, frozenset(), {}, np.zeros(2, bool), second_look=True)
    first = np.array([[64.0, 0.0, 0.0, 0.0], [0.0, 64.0, 64.0, 64.0]])
    apart = EstimationNode(np.arange(2), np.array([64, 192]), (), {}, 4)
    queries = list(expected_cells(apart, rules, np.ones((2, 4), bool), first))
    prison = next(query for query in queries if query.groups[0] >= 0)
    assert prison.measured[0] == pytest.approx([16.0] * 4)
    by_chance = 16 * 0.75 * (1 + 64.5 / 8)
    assert prison.weights == pytest.approx(1 / (np.array([48.0**2 / 2, 16**2 / 2, 16**2 / 2, 16**2 / 2]) + 0.02))
    assert by_chance < 16**2 / 2


def test_a_second_look_brings_blocks_closer_to_the_truth(population_folder: Path, tmp_path: Path) -> None:
    """On the same noise: totals of blocks are off by a tenth less at least, and those of made groups are the same."""
    errors = []
    for unlike in (node.UNLIKE, 1e18):
        with pytest.MonkeyPatch.context() as patch, LocalEngine(tmp_path / "scratch", processes=1) as engine:
            patch.setattr(node, "UNLIKE", unlike)
            spec = tmp_path / f"{len(errors)}"
            spec.mkdir()
            comparison = Comparison(production(spec, population_folder), spec, engine)
            estimates, *_ = comparison.descend(comparison.with_evidence("tree"), 3)
            found = {(name, query): error for name, _, query, error in comparison.errors(estimates)}
            errors.append((found["block", "total"], found["block_group (made)", "total"]))
    assert errors[0][0] < 0.9 * errors[1][0]
    assert errors[0][1] == errors[1][1]


def test_types_of_quarters_are_settled_before_the_cells_of_the_root(population_folder: Path, tmp_path: Path) -> None:
    """On the same noise: the types of quarters of the state are off by a fifth less at least than all cells at once
    have them, and the strategy of the root has said nothing of it."""
    errors = []
    for made in (from_below.with_limited_first, lambda _, level: level):
        with pytest.MonkeyPatch.context() as patch, LocalEngine(tmp_path / "scratch", processes=1) as engine:
            patch.setattr(from_below, "with_limited_first", made)
            folder = tmp_path / f"{len(errors)}"
            folder.mkdir()
            comparison = Comparison(production(folder, population_folder), folder, engine)
            tree = comparison.with_evidence("tree")
            off = 0.0
            for key in (3, 4):
                estimates, *_ = comparison.descend(tree, key)
                found = {(name, query): error for name, _, query, error in comparison.errors(estimates)}
                off += found["state", "hhgq"]
            errors.append(off)
    assert errors[0] < 0.8 * errors[1]
    root = tree.strategy.levels[0]
    assert root.estimation.least_squares == root.estimation.least_squares[-1:]


def test_passes_that_settle_limits_are_made_once_at_the_root_and_with_tree_evidence_alone() -> None:
    own = load_strategy("pl94-persons", Path(), root="state")
    tree = replace(own, evidence="tree")
    for level in own.levels:
        assert from_below.with_limited_first(own, level) is level
    made = from_below.with_limited_first(tree, tree.levels[0])
    first, last = made.estimation.least_squares
    assert first == Pass(("hhgq",), ("hhgq",))
    assert (last,) == tree.levels[0].estimation.least_squares
    assert made.estimation.slack == Fraction(1, 100)
    for level in tree.levels[1:]:
        assert from_below.with_limited_first(tree, level) is level
    # A strategy that settles them itself keeps its passes.
    again = replace(tree, levels=(made, *tree.levels[1:]))
    assert from_below.with_limited_first(again, made) is made


def test_with_an_endless_budget_what_comes_out_is_what_went_in(tmp_path: Path, population_folder: Path) -> None:
    result = descent.run(production(tmp_path, population_folder, budget=descent.ENDLESS))
    rows = f"SELECT {descent.COLUMNS}, count(*) FROM {{}} GROUP BY ALL ORDER BY ALL"
    truth = f"read_parquet('{tmp_path}/persons.parquet')"
    assert descent.sql(rows.format(descent.released(result))) == descent.sql(rows.format(truth))
    assert confide.verify(result.release).ok


# Shares of next to nothing, as tuning writes them.

LITTLE = Fraction(1, 10_000)
EXTREMES = {
    "next to nothing for most queries": (None, lambda name: 1 if name in ("total", "hispanic*cenrace") else LITTLE),
    "next to nothing for cells": (None, lambda name: LITTLE if name == "detailed" else 1),
    "all on the blocks": ((LITTLE, LITTLE, LITTLE, LITTLE, 1), None),
    "all on the root": ((1, LITTLE, LITTLE, LITTLE, LITTLE), None),
    "next to nothing for a level": ((1, 1, LITTLE, 1, 1), lambda name: LITTLE if name == "total" else 1),
}


def with_shares(problem: TopDownProblem, extreme: str, bypass: str) -> TopDownProblem:
    """The same country with other shares of levels and queries."""
    of_levels, of_queries = EXTREMES[extreme]
    strategy, spine = problem.strategy, problem.spine
    weights = [Fraction(weight) for weight in of_levels or [level.share for level in strategy.levels]]
    levels = []
    for level, weight in zip(strategy.levels, weights, strict=True):
        parts = [Fraction(of_queries(query.name)) if of_queries else query.share for query in level.queries]
        queries = [replace(query, share=part / sum(parts)) for query, part in zip(level.queries, parts, strict=True)]
        levels.append(replace(level, share=weight / sum(weights), queries=tuple(queries)))
    shares = bypass_only_children([level.share for level in levels], [level.parent for level in spine.levels[1:]])
    spine = replace(
        spine, levels=tuple(replace(level, shares=own) for level, own in zip(spine.levels, shares, strict=True))
    )
    return replace(problem, strategy=replace(strategy, levels=tuple(levels), bypass=bypass), spine=spine)


@pytest.mark.parametrize("extreme", EXTREMES)
def test_shares_of_next_to_nothing_are_estimated_with_certificates(
    extreme: str, tmp_path: Path, population_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Least squares with laws that are a million times as uncertain in some directions as in others ends, and proves
    its optimum; the number of people is kept."""
    reports: list[SolveReport] = []

    def watched(problem: NodeProblem) -> tuple[np.ndarray, SolveReport]:
        x, report = solve(problem)
        assert problem.violation(x) <= 1e-6
        if problem.law is not None:
            reports.append(report)
        return x, report

    monkeypatch.setattr(node, "solve", watched)
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        comparison = Comparison(production(tmp_path, population_folder), tmp_path, engine)
        bypass = "by-query" if "queries" in extreme or "cells" in extreme else "by-level"
        problem = with_shares(comparison.with_evidence("tree"), extreme, bypass)
        comparison.plan = plan_problem(problem)
        estimates, *_ = comparison.descend(problem, 5)
    assert estimates.column("n").to_numpy().sum() == comparison.truth.column("n").to_numpy().sum()
    assert reports
    for report in reports:
        assert report.outcome is not SolveOutcome.INEXACT
        assert report.certificate.relative_gap <= 1e-7
        # A method that is first and fails costs more than all others together.
        assert sum(not attempt.accepted for attempt in report.attempts) <= 1


# The same measurements at the same price.


def test_a_strategy_that_says_own_is_the_one_that_says_nothing(tmp_path: Path) -> None:
    plans = []
    for name, line in {"nothing": "", "own": '\nevidence = "own"', "tree": '\nevidence = "tree"'}.items():
        (tmp_path / name).mkdir()
        spec = lay_out(tmp_path / name, [[5, 3]] * 8, {"houses": [1] * 8}, "")
        file = spec.parent / "own.toml"
        file.write_text(file.read_text().replace('definition = "zcdp"', f'definition = "zcdp"{line}'))
        plans.append(plan_problem(problem_of(spec)))
    nothing, own, tree = plans
    assert own.hash == nothing.hash != tree.hash
    assert "evidence" not in nothing.question
    assert "evidence" not in nothing.question["strategy"]
    assert tree.question["evidence"] == ["state", "county", "block"]
    assert tree.question["strategy"]["evidence"] == "tree"
    # Evidence is made of measurements: what is measured, with which noise, at which price does not change.
    assert tree.measures == own.measures
    assert tree.measured_hash == own.measured_hash
    assert tree.loss == own.loss


def test_evidence_is_what_the_measurement_file_has(tmp_path: Path) -> None:
    """Every level, blocks as well, is drawn from the stream and the coordinates of its measurements."""
    spec = with_tree(
        lay_out(tmp_path, [[5, 3], [0, 2], [4, 4], [9, 1], [2, 2]], {"houses": [1] * 5}, ""), output=MEASURED
    )
    problem = problem_of(spec)
    plan = plan_problem(problem)
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        loaded = load_spec(spec, {"topdown": TopDownSpec})
        job = Job(loaded, plan, engine, Workspace(tmp_path / "run"), Silent())
        TopDown().count(problem, job)
        key = ReleaseKey.choose("77" * 32)
        drawn = DrawnEvidence(problem, plan, NoiseSource(key, "00" * 32, plan.hash, "topdown"), job.workspace)
        TopDown().measure(problem, job, drawn.noise)
        found = {
            (level.name, level_strategy.queries[number].name): (units, values)
            for level_strategy, level in problem.levels()
            for number, units, values, _ in drawn.in_full(job, level_strategy, level)
        }
        assert (job.workspace.measured / FOLDER / "county.totals.parquet").exists()
        assert not (job.workspace.measured / FOLDER / "block.totals.parquet").exists()
    for level_strategy, level in problem.levels():
        for query in drawn.level_queries(level_strategy, level):
            units, values = found[level.name, query.name]
            assert units.tolist() == np.flatnonzero(level.measured).tolist()
            counts = pq.read_table(tmp_path / "run" / "confidential" / "counts" / f"{level.name}.parquet")
            truth = np.zeros((level.units, query.cells), np.int64)
            unit, cell, n = (counts.column(name).to_numpy() for name in ("unit", "cell", "n"))
            np.add.at(truth, (unit, query.groups[cell]), n)
            for unit, measured in zip(units.tolist(), values, strict=True):
                law = query.laws[level.shares.index[unit]]
                assert law is not None
                noise = draw_at(law, query.stream, unit * query.cells + np.arange(query.cells))
                assert measured.tolist() == (truth[unit] + noise).tolist()


def test_measurements_give_the_bytes_of_the_release_again(tmp_path: Path, population_folder: Path) -> None:
    first = descent.run(production(tmp_path, population_folder, output=MEASURED))
    assert first.plan.question["evidence"] == ["state", "county", "tract", "block_group"]
    # It is called as the strategy that ships; whoever has the release alone takes the one of its plan.
    assert released_plan(first.release).strategy.evidence == "tree"
    spec = again(tmp_path, first, blocks=tmp_path / "blocks.parquet", strategy="tree.toml")
    second = confide.run(spec, processes=1)
    assert table(second.release, "records") == table(first.release, "records")
    # Somebody else may take them without: other records of the same measurements.
    (tmp_path / "own.toml").write_text((tmp_path / "tree.toml").read_text().replace(TREE, 'definition = "zcdp"'))
    third = confide.run(
        again(tmp_path, first, blocks=tmp_path / "blocks.parquet", strategy="own.toml", name="third"), processes=1
    )
    assert table(third.release, "records") != table(first.release, "records")


# Which levels take part.


def test_blocks_take_part_where_their_shares_say_so(tmp_path: Path) -> None:
    spec = lay_out(tmp_path, [[5, 3]] * 16, {"houses": [1] * 16}, "")
    problem = problem_of(spec)
    strategy = replace(problem.strategy, evidence="tree")
    assert levels_used(problem.strategy, problem.spine) == ()
    *above, county, block = strategy.levels
    worth = []
    for share in (Fraction(1, 100), Fraction(1, 10), Fraction(1, 3)):
        levels = (*above, replace(county, share=1 - share), replace(block, share=share))
        worth.append(worth_of_blocks(replace(strategy, levels=levels), problem.spine))
        # Four blocks whose noise adds up: they tell of the county as much as one with a quarter of their share.
        assert worth[-1] == pytest.approx(float(share / 4 / (share / 4 + 1 - share)))
        # Larger budgets make all noise smaller alike.
        richer = replace(strategy, levels=levels, budget=strategy.budget * 50)
        assert worth_of_blocks(richer, problem.spine) == worth[-1]
        used = levels_used(replace(strategy, levels=levels), problem.spine)
        assert used == (("state", "county", "block") if worth[-1] > 0.1 else ("state", "county"))
    assert worth[0] < worth[1] < 0.1 < worth[2]


def test_a_histogram_that_is_too_large_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = with_tree(lay_out(tmp_path, [[5, 3]] * 8, {"houses": [1] * 8}, ""))
    monkeypatch.setattr("confide.mechanisms.topdown.from_below.MOST_BYTES", 10)
    with pytest.raises(ParameterError, match='write evidence = "own"'):
        plan_problem(problem_of(spec))


def test_passes_take_the_laws_that_they_need() -> None:
    level = load_strategy("pl94-persons", root="state").level("tract")
    assert law_passes(level, from_below=False) == ()
    assert law_passes(level, from_below=True) == (1,)
    steps = (Pass(("total",), ("total",)), Pass(("hispanic*cenrace",), ("hispanic*cenrace",)), Pass(("detailed",)))
    three = replace(level, estimation=replace(level.estimation, least_squares=steps))
    assert law_passes(three, from_below=False) == law_passes(three, from_below=True) == (1, 2)


def test_expected_errors_are_those_of_the_estimator_in_use(tmp_path: Path) -> None:
    """Least squares on the whole tree, for levels, for blocks and for areas that cut units; smaller than without."""
    people = [[5, 3], [0, 2], [4, 4], [9, 1], [2, 2], [3, 3], [1, 0]]
    spec = with_tree(lay_out(tmp_path, people, {"houses": [1] * 7}, ""))
    problem = problem_of(spec)
    tree = TopDownNoise(problem)
    own = TopDownNoise(replace(problem, strategy=replace(problem.strategy, evidence="own")))
    assert (tree.method, own.method) == ("least-squares-on-the-tree", "least-squares")
    covariances = planned_tree(problem.strategy, problem.spine, plan_problem(problem), problem.columns).covariances
    kind = {0: np.arange(2)}
    for area in (
        np.zeros(7, int),
        np.array([0, 0, 0, 0, 1, 1, 1]),
        np.array([0, 0, 1, 1, 1, -1, 0]),
        np.arange(7)[::-1],
        np.array([3, -1, 0, 8, 5, 1, 4]),
    ):
        number, inside = int(area.max()) + 1, np.flatnonzero(area >= 0)
        counts = [covariances.sectors.count({0: np.arange(2) == k}) for k in range(2)]
        exact = covariances.area_covariances(inside, area[inside], number, counts)
        areas = AreaSet.partition("area", [str(each) for each in range(number)], area)
        found = tree.variances(kind, areas)
        assert found == pytest.approx(np.einsum("akk->ak", exact))
        assert (found <= own.variances(kind, areas) + 1e-9).all()
    everything = AreaSet.partition("area", ["0"], np.zeros(7, int))
    assert tree.variances(kind, everything).max() < 0.9 * own.variances(kind, everything).max()


def test_kinds_of_blocks_count_as_often_as_there_are_blocks(tmp_path: Path) -> None:
    """Four blocks of one parent, two of another, one alone: their noise differs, and the table has the mean of all."""
    spec = with_tree(
        lay_out(tmp_path, [[5, 3], [0, 2], [4, 4], [9, 1], [2, 2], [3, 3], [1, 0]], {"houses": [1] * 7}, "")
    )
    problem = problem_of(spec)
    noise, rows = TopDownNoise(problem), accuracy_table(problem).to_pylist()
    blocks = problem.frame.spine.blocks
    stated = {row["query"]: row["sd"] for row in rows if row["geography"] == blocks.name}
    for query, sd in stated.items():
        areas = AreaSet.partition(blocks.name, blocks.codes, blocks.unit_of_block)
        variances = noise.variances(problem.strategy.grouping(query), areas)
        assert sd == pytest.approx(np.sqrt(variances.mean()), rel=1e-3)
        assert np.ptp(variances.mean(axis=1)) > 0.01 * variances.mean()


# Other countries, schemas and constraints.


def test_a_country_of_its_own_is_estimated_from_below(tmp_path: Path) -> None:
    """Recodes, text codes, levels by column, municipalities that are alone in their district."""
    folder = own_country.write_country(tmp_path, 400)
    spec = with_tree(own_country.topdown_spec(folder), "strategy.toml")
    zeros = '\n[[zeros]]\nname = "children-do-not-work"\nwhere = { alder = ["a0"], arbeid = ["W"] }\n'
    file = folder / "strategy.toml"
    file.write_text(file.read_text(encoding="utf-8") + zeros, encoding="utf-8")
    problem = problem_of(spec)
    assert problem.evidence_levels == ("country", "region", "district", "block")
    plan = plan_problem(problem)
    with LocalEngine(tmp_path / "scratch", processes=1) as engine:
        loaded = load_spec(spec, {"topdown": TopDownSpec})
        job = Job(loaded, plan, engine, Workspace(tmp_path / "run"), Silent())
        TopDown().count(problem, job)
        TopDown().measure(problem, job, NoiseSource(ReleaseKey.choose("31" * 32), "00" * 32, plan.hash, "topdown"))
        files = sorted(estimates_folder(job.workspace, problem.spine.levels[-1]).glob("*.parquet"))
    rows = [pq.read_table(file, columns=["cell", "n"]) for file in files]
    cells = np.concatenate([part.column("cell").to_numpy() for part in rows])
    assert sum(int(part.column("n").to_numpy().sum()) for part in rows) == 400
    assert not problem.strategy.constraints.zero_cells(problem.strategy.schema)[cells].any()


PURE = [[25, 0], [0, 30], [25, 0], [0, 40], [12, 0], [0, 3], [0, 60], [25, 0]]
UNITS = {"houses": [int(a > 0) for a, _ in PURE], "quarters": [int(b > 0) for _, b in PURE]}


@pytest.mark.parametrize("level", ["state", "county", "block"])
def test_known_totals_and_public_zeros_are_kept(tmp_path: Path, level: str) -> None:
    bounds = bound("most", "upper", 99, {0: "houses", 1: "quarters"}) + bound("least", "lower", 1, {1: "quarters"})
    counted = released_by_block(seal(with_tree(lay_out(tmp_path, PURE, UNITS, bounds, level=level))))
    for number, (houses, quarters) in enumerate(PURE):
        of_block = counted.get(f"9{number // 4}{number:02d}", {})
        assert all(PURE[number][kind] for kind in of_block)
        if level == "block":
            assert sum(of_block.values()) == houses + quarters
    if level == "county":
        for county in ("90", "91"):
            known = sum(sum(of_block) for number, of_block in enumerate(PURE) if f"9{number // 4}" == county)
            assert sum(sum(kinds.values()) for code, kinds in counted.items() if code[:2] == county) == known


def test_quarters_alone_in_a_unit_tell_their_kind_above(tmp_path: Path) -> None:
    """A county of quarters alone has one kind of people: its total is the number of that kind in the state, though the
    state itself is hardly measured."""
    people = [[400, 0]] * 4 + [[0, 90]] * 4
    columns = {"houses": [1] * 4 + [0] * 4, "quarters": [0] * 4 + [1] * 4}
    bounds = bound("most", "upper", 999, {0: "houses", 1: "quarters"})
    off = {}
    for name in ("own", "tree"):
        (tmp_path / name).mkdir()
        spec = lay_out(tmp_path / name, people, columns, bounds, level="state", budget="1/20")
        file = spec.parent / "own.toml"
        file.write_text(
            file.read_text()
            .replace('shares     = ["1/3", "1/3", "1/3"]', 'shares     = ["1/100", "98/100", "1/100"]')
            .replace('"total"    = ["-", "1/2", "1/2"]', '"total"    = ["-", "99/100", "1/2"]')
            .replace('"detailed" = ["1", "1/2", "1/2"]', '"detailed" = ["1", "1/100", "1/2"]')
        )
        if name == "tree":
            with_tree(spec)
        counted = released_by_block(seal(spec))
        off[name] = abs(sum(kinds.get(1, 0) for kinds in counted.values()) - 360)
    assert off["tree"] <= 15 < off["own"]


@pytest.mark.slow
@pytest.mark.process
def test_three_passes_and_two_processes_give_the_same(tmp_path: Path, population_folder: Path) -> None:
    """The middle pass takes a marginal law."""
    records = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        folder.mkdir()
        spec = production(folder, population_folder)
        file = folder / "tree.toml"
        text = file.read_text()
        before, _, after = text.partition("[estimation.total-first]")
        block, _, rest = after.partition("[estimation.at-once]")
        total = '{ queries = ["total"], constrain = ["total"] },'
        middle = total.replace("total", "hispanic*cenrace")
        steps = block.replace(total, f"{total}\n  {middle}")
        steps = steps.replace('"hhgq", "hispanic*cenrace", "votingage*cenrace"', '"hhgq", "votingage*cenrace"')
        assert steps != block
        file.write_text(before + "[estimation.total-first]" + steps + "[estimation.at-once]" + rest)
        result = descent.run(spec, processes=processes)
        assert confide.verify(result.release).ok
        records.append(table(result.release, "records"))
    assert records[0] == records[1]


def test_laws_are_read_as_they_were_written() -> None:
    laws = UnitLaws(Sectors((2,), ()), ())
    assert laws.total(np.arange(2), 3) is None
    bits = np.array([0.25, 4.0]).view(np.int64)
    laws.read_totals(np.array([4, 9]), bits, np.array([7.5, -1.0]).view(np.int64))
    query = laws.total(np.array([9, 4]), 3)
    assert query is not None
    assert query.measured.tolist() == [[-1.0, 7.5]]
    assert query.weights.tolist() == [4.0, 0.25]
    assert query.groups.tolist() == [0, 0, 0]
    assert laws.of(np.array([4]), np.arange(2)) == {}


def test_a_level_that_measures_totals_alone_has_its_cells_from_below(tmp_path: Path) -> None:
    """Its only pass is on the total, and has a law of all cells: that of its own total and of everything below."""
    spec = CrossedProject(3, "tree", people=40, budget="400").write(tmp_path / "a")
    file = spec.parent / "own.toml"
    strategy = tomllib.loads(file.read_text(encoding="utf-8"))
    rows = strategy["roots"]["top"]["queries"]
    asked = {name: [row[0], "-", row[2]] for name, row in rows.items()}
    strategy["roots"]["top"]["queries"] = asked | {"total": ["-", "1", "-"]}
    strategy["estimation"]["of-1"]["least_squares"] = [{"queries": ["total"]}]
    file.write_text(toml(strategy), encoding="utf-8")
    release = confide.run(spec, processes=1).release
    assert confide.verify(release).ok
    true, released = (
        pq.read_table(file).group_by("geocode").aggregate([([], "count_all")]).sort_by("geocode").to_pydict()
        for file in (spec.parent / "persons.parquet", next(release.glob("tables/records*.parquet")))
    )
    assert true["geocode"] == released["geocode"]
    assert np.abs(np.subtract(true["count_all"], released["count_all"])).max() < 8
