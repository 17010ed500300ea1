"""One standard deviation for one figure: the board, ``tune`` and the accuracy of a release state the same."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from fractions import Fraction
from math import pi, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from tests.contract.kit import lay_out
from tests.kits.crossed_topdown import CrossedProject
from tests.kits.dense_descent import DenseDescent
from tests.kits.random_specs.project import toml

from confide.engines import LocalEngine
from confide.inference.tuning import tune_topdown
from confide.mechanisms import SPECS
from confide.mechanisms.topdown.board import TopDownBoard, Z
from confide.mechanisms.topdown.evaluate import geographies
from confide.mechanisms.topdown.figure_noise import TopDownNoise, areas_there
from confide.mechanisms.topdown.mechanism import TopDown
from confide.mechanisms.topdown.output.accuracy import accuracy_table
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.spec import with_tree_evidence
from confide.mechanisms.topdown.strategy import BY_LEVEL
from confide.releases.spec import load_spec

CLOSE = 1e-6
SPECS_TRIED = [
    *((seed, evidence) for seed in range(5) for evidence in ("own", "tree")),
    ("pl94", "own"),
    ("pl94", "tree"),
]


@pytest.fixture(params=SPECS_TRIED, ids=lambda tried: f"{tried[1]}-{tried[0]}")
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    seed, evidence = request.param
    if seed == "pl94":
        project = lay_out("topdown", tmp_path / "topdown")
        if evidence == "tree":
            (project.folder / "tree.toml").write_text(with_tree_evidence("pl94-persons"), encoding="utf-8")
            text = project.spec.read_text(encoding="utf-8")
            project.spec.write_text(text.replace('"pl94-persons"', '"tree.toml"', 1), encoding="utf-8")
        return project.spec
    return CrossedProject(seed, evidence, regions=2 + seed, budget=["1", "1/50", "7"][seed % 3]).write(tmp_path / "own")


def problem_of(spec: Path, scratch: Path) -> TopDownProblem:
    with LocalEngine(scratch, processes=1) as engine:
        return TopDown().prepare(load_spec(spec, SPECS), engine)


def deviations(problem: TopDownProblem, kind: str, query: str) -> Any:
    """The standard deviations of all cells in all areas of a kind, as the release states them."""
    (geography,) = (each for each in geographies(problem) if each.name == kind)
    there = np.unique(geography.unit_of_block[problem.spine.rows])
    groups = problem.strategy.grouping(query)
    areas = geography.areas
    variances = TopDownNoise(problem).variances(groups, areas)
    return np.sqrt(variances[there[there >= 0]])


def test_board_and_accuracy_state_one_standard_deviation(spec: Path, tmp_path: Path) -> None:
    problem = problem_of(spec, tmp_path / "scratch")
    board = TopDownBoard.of(problem)
    stated = {(row["geography"], row["query"]): row["sd"] for row in accuracy_table(problem).to_pylist()}
    compared = 0
    for (level, query), margin in board._margins.items():
        sd = stated.get((level, query))
        if sd is None or margin != margin:
            continue
        exact = float(np.sqrt((deviations(problem, level, query) ** 2).mean()))
        assert margin / Z == pytest.approx(exact, rel=CLOSE), (level, query)
        assert sd == pytest.approx(exact, rel=1e-3)  # a file has four digits
        compared += 1
    assert compared > len(problem.strategy.levels)


def test_a_board_with_other_parts_is_that_of_the_release_with_them(spec: Path, tmp_path: Path) -> None:
    """Moving a part gives what the release of the spec with these parts would state."""
    problem = problem_of(spec, tmp_path / "scratch")
    board = TopDownBoard.of(problem)
    row = next(iter(board.budgets))
    board.noise.mean_variance({}, next(iter(board.kinds.values())))  # what was asked before does not matter
    moved = board.with_row(row, budget=board.budgets[row] / 2)
    values = moved.tuned(load_spec(spec, SPECS), "moved")
    for file, text in values.files.items():
        (spec.parent / file).write_text(text(), encoding="utf-8")
    (spec.parent / "moved.toml").write_text(toml(values.values), encoding="utf-8")
    changed = problem_of(spec.parent / "moved.toml", tmp_path / "moved")
    assert changed.strategy.budget == moved.total
    for (level, query), margin in moved._margins.items():
        if level in {each.name for each in geographies(changed)} and margin == margin:
            sd = float(np.sqrt((deviations(changed, level, query) ** 2).mean()))
            assert margin / Z == pytest.approx(sd, rel=CLOSE), (level, query)


def test_tune_prices_the_estimator_of_the_spec(spec: Path, tmp_path: Path) -> None:
    """What ``tune`` says of the spec as it is, and of the budget that it finds, is what a release would state."""
    problem = problem_of(spec, tmp_path / "scratch")
    official = [each.name for each in geographies(problem) if each.name in problem.strategy.level_names]
    largest = {kind: float(deviations(problem, kind, "total").max()) for kind in official}
    kind = next(kind for kind, sd in largest.items() if sd > 0.01)
    limit = 3 * largest[kind]
    answer = tune_topdown(spec, [f"total <= {limit:.3f} in {kind}"], optimise=False)
    for row in answer.errors:
        expected = deviations(problem, row.kind, row.query).mean() * sqrt(2 / pi)
        assert row.now == pytest.approx(float(expected), rel=CLOSE), (row.kind, row.query)
    assert {row.kind for row in answer.errors} >= set(official)
    assert answer.present is not None
    then = replace(problem, strategy=problem.strategy.with_budget(answer.present))
    margin = NormalDist().inv_cdf(0.975) * deviations(then, kind, "total").max()
    assert margin <= Fraction(f"{limit:.3f}") * (1 + CLOSE)
    assert margin >= float(f"{limit:.3f}") * (1 - 2e-3)


def uneven(seed: int, folder: Path) -> Path:
    """A region with one block, which takes over the shares of the block query by query; every level measures another
    query best."""
    project = CrossedProject(seed, "own", regions=3)
    alone = next(block for block in project.blocks if block[0] == "1")
    project.blocks = [block for block in project.blocks if block[0] != "1" or block == alone]
    project.records = [row for row in project.records if row["geocode"] in project.blocks]
    spec = project.write(folder)
    strategy = tomllib.loads((folder / "own.toml").read_text(encoding="utf-8"))
    queries = strategy["roots"]["top"]["queries"]
    parts = [[f"{8 * (place == level % len(queries)) + 1}/{len(queries) + 8}" for level in range(3)]
             for place in range(len(queries))]  # fmt: skip
    strategy["roots"]["top"]["queries"] = dict(zip(queries, parts, strict=True))
    strategy["bypass"] = "by-query"
    for part in strategy["estimation"].values():
        part["least_squares"] = [{"queries": list(queries)}]
        part.pop("slack", None)
    (folder / "own.toml").write_text(toml(strategy), encoding="utf-8")
    return spec


@pytest.mark.parametrize("seed", range(3))
def test_units_that_took_over_shares_query_by_query_have_the_noise_of_what_they_measure(
    seed: int, tmp_path: Path
) -> None:
    """By matrices of all cells; what siblings are off by with their parent is divided by the figure alone."""
    problem = problem_of(uneven(seed, tmp_path / "a"), tmp_path / "scratch")
    noise, dense, spine = TopDownNoise(problem), DenseDescent(problem), problem.spine
    with_one_factor = TopDownNoise(replace(problem, strategy=replace(problem.strategy, bypass=BY_LEVEL)))
    furthest = [0.0, 0.0]
    for areas in areas_there(spine).values():
        for query in ("total", *problem.strategy.measured):
            asked = problem.strategy.grouping(query)
            stated = [each.variances(asked, areas) for each in (noise, with_one_factor)]
            exact = [
                dense.variances(query, spine.block_of_row[areas.block[areas.area == area]].tolist())
                for area in range(areas.areas)
            ]
            off = [float(np.abs(np.sqrt(variances / np.stack(exact)) - 1).max()) for variances in stated]
            furthest = [max(pair) for pair in zip(furthest, off, strict=True)]
            assert noise.mean_variance(asked, areas) == pytest.approx(float(stated[0].mean()), rel=CLOSE)
    assert furthest[0] < 0.02
    assert furthest[1] > 0.2
    parts = {row: part / (1 + place) for place, (row, part) in enumerate(problem.strategy.parts.items())}
    blocks = areas_there(spine)["block"]
    moved, anew = noise.with_parts(parts), TopDownNoise(problem.with_parts(parts))
    assert np.allclose(moved.variances({}, blocks), anew.variances({}, blocks), rtol=CLOSE)
    assert not np.allclose(moved.variances({}, blocks), noise.variances({}, blocks), rtol=CLOSE)
