"""The noise alone: against the descent itself, done with dense matrices and one measurement off at a time."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.kits.dense_noise import dense_within
from tests.kits.topdown_evaluation import STRATEGY

from confide.geography import AreaSet, build_spine
from confide.mechanisms.topdown.build_spine import build_topdown_spine
from confide.mechanisms.topdown.figure_noise import TopDownNoise
from confide.mechanisms.topdown.strategy import groups_of, law_of
from confide.mechanisms.topdown.strategy_file import load_strategy

BLOCKS = ["01a", "01b", "01c", "02a", "03a", "03b"]
"""Three counties; the second has one block, so that its share passes to the county."""


def question_of(path: Path, text: str = STRATEGY, split: list[bool] | None = None) -> Any:
    path.write_text(text)
    return question_for(load_strategy(str(path)), split)


def question_for(strategy: Any, split: list[bool] | None = None) -> Any:
    blocks = BLOCKS
    frame = build_spine({"land": ["x"] * len(blocks), "county": [code[:2] for code in blocks], "block": blocks})
    spine = None
    if strategy.level_names == ("land", "county", "block"):
        spine = build_topdown_spine(frame, strategy.shares, split=None if split is None else np.array(split))
    return SimpleNamespace(
        strategy=strategy,
        spine=spine,
        groups=lambda name: groups_of(strategy.schema, strategy.query(name)),
        levels=lambda: [(strategy.level(level.name), level) for level in spine.levels],
    )


def matrix(question: Any, query: str) -> np.ndarray:
    groups = question.groups(query)
    return (groups[None, :] == np.arange(groups.max() + 1)[:, None]).astype(float)


def constrained(design: np.ndarray, noise: np.ndarray, weights: np.ndarray, rows: np.ndarray, rhs: np.ndarray) -> Any:
    """The x that minimises the weighted squares of design·x − noise, subject to rows·x = rhs."""
    left = np.block([[design.T @ (weights[:, None] * design), rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    right = np.concatenate([design.T @ (weights * noise), rhs])
    return np.linalg.lstsq(left, right, rcond=None)[0][: design.shape[1]]


def descended(
    question: Any, noise: dict[tuple[str, int, str], np.ndarray], together: np.ndarray | None = None
) -> np.ndarray:
    """The errors of all cells of all blocks (blocks x cells) if only these measurements are off, by so much.

    ``together`` numbers groups of counties whose totals are known.
    """
    strategy = question.strategy
    cells = len(question.groups("detailed"))
    errors = None
    for asked, level in question.levels():
        share = [level.shares[unit] for unit in range(level.units)]
        parents = [0] if errors is None else range(len(errors))
        found = np.zeros((level.units, cells))
        for parent in parents:
            units = [0] if errors is None else [u for u in range(level.units) if level.parent[u] == parent]
            k = len(units)
            totals = np.kron(np.eye(k), np.ones((1, cells)))
            if errors is None:
                rows, rhs = np.ones((1, cells)), np.zeros(1)  # the population of the land is known
            else:
                rows, rhs = np.kron(np.ones((1, k)), np.eye(cells)), errors[parent]
            if level.name == "county" and together is not None:
                known = np.kron(together[None, :] == np.arange(together.max() + 1)[:, None], np.ones((1, cells)))
                rows, rhs = np.vstack([rows, known]), np.concatenate([rhs, np.zeros(len(known))])
            for step in asked.estimation.least_squares:
                design, values, weights = [], [], []
                for position, unit in enumerate(units):
                    for name in step.queries:
                        if not share[unit] or name not in [a.name for a in asked.queries]:
                            continue
                        part = matrix(question, name)
                        design.append(np.kron(np.eye(k)[position], part))
                        values.append(noise.get((level.name, unit, name), np.zeros(len(part))))
                        variance = law_of(strategy, asked, asked.query(name), share[unit]).variance()
                        weights.append(np.full(len(part), 1 / variance))
                if not design:
                    continue
                x = constrained(np.vstack(design), np.concatenate(values), np.concatenate(weights), rows, rhs)
                if step.constrain:
                    assert step.constrain == ("total",)
                    rows, rhs = np.vstack([rows, totals]), np.concatenate([rhs, totals @ x])
            if not any(share[unit] for unit in units):
                x = errors[parent]  # an only child without a share is its parent
            found[units] = x.reshape(k, cells)
        errors = found
    return errors


def effects_of(question: Any, together: np.ndarray | None = None) -> list[tuple[float, np.ndarray]]:
    """For every measured count its variance and its effect on every cell of every block."""
    found = []
    for asked, level in question.levels():
        for unit in range(level.units):
            for query in asked.queries if level.shares[unit] else ():
                variance = law_of(question.strategy, asked, query, level.shares[unit]).variance()
                for cell in range(query.query.cells):
                    off = {(level.name, unit, query.name): np.eye(query.query.cells)[cell]}
                    found.append((variance, descended(question, off, together)))
    return found


@pytest.fixture(scope="module")
def effects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[tuple[float, np.ndarray]]]:
    question = question_of(tmp_path_factory.mktemp("small") / "small.toml")
    return question, effects_of(question)


QUERIES = {
    "total": {},
    "some work": {0: np.array([-1, 0])},
    "tongue B": {1: np.array([-1, 0, -1])},
    "one cell": {0: np.array([0, -1]), 1: np.array([-1, -1, 0])},
}
SETS = {"total": [0, 1, 2, 3, 4, 5], "some work": [3, 4, 5], "tongue B": [1, 4], "one cell": [2]}
AREAS = {
    "a county": [0, 1, 2],
    "a block": [1],
    "the lone block": [3],
    "across": [0, 3, 5],
    "most": [0, 2, 3, 4],
    "land": [0, 1, 2, 3, 4, 5],
}


def area_of(blocks: list[int]) -> AreaSet:
    """One area of these rows of the frame."""
    return AreaSet("area", ("A",), np.array(blocks), np.zeros(len(blocks), np.int64))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("area", AREAS)
def test_the_variance_is_that_of_the_descent(effects: Any, name: str, area: str) -> None:
    """Σ over all measured counts of (effect on the area's count)² · variance."""
    question, measured = effects
    assert question.spine.rows.tolist() == list(range(6))
    chosen = np.zeros(6, bool)
    chosen[SETS[name]] = True
    expected = sum(variance * effect[AREAS[area]][:, chosen].sum() ** 2 for variance, effect in measured)
    found = TopDownNoise(question).variances(QUERIES[name], area_of(AREAS[area]))
    assert found.shape == (1, 1)
    assert float(found[0, 0]) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    if name == "total" and area == "land":
        assert float(found[0, 0]) == 0, "what is known has no noise"


def too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confide.estimation.sectors.MOST_CORE_CELLS", 0)


def test_what_is_known_has_no_noise_in_a_histogram_too_large_to_invert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = question_of(tmp_path / "small.toml")
    too_large(monkeypatch)
    noise = TopDownNoise(question)
    assert noise.method == "means-of-queries"
    assert float(noise.variances({}, area_of(AREAS["land"]))[0, 0]) == 0
    # In a county the total has a pass of its own, and the noise of its own measurement.
    county = question.strategy.level("county")
    own = law_of(question.strategy, county, county.query("total")).variance()
    assert noise.within({})[1] == pytest.approx(own)


def test_a_histogram_of_two_cells_by_hand() -> None:
    strategy = load_strategy("pl94-units", root="us")
    question = question_for(strategy)
    tract = strategy.level("tract")
    variance = law_of(strategy, tract, tract.queries[0]).variance()
    sets = np.array([[False, True]])
    assert dense_within(question, tract, sets, total_known=False)[0] == pytest.approx(variance)
    assert dense_within(question, tract, sets, total_known=True)[0] == pytest.approx(variance / 2)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_histogram_too_large_to_invert_has_a_variance_no_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    question = question_of(tmp_path / "small.toml")
    level = question.levels()[place][0]
    best = [float(TopDownNoise(question).within(query)[place, 0]) for query in QUERIES.values()]
    too_large(monkeypatch)
    noise = TopDownNoise(question)
    simple = [float(noise.within(query)[place, 0]) for query in QUERIES.values()]
    assert all(one >= other * (1 - 1e-12) for one, other in zip(simple, best, strict=True))
    variance = {query.name: law_of(question.strategy, level, query).variance() for query in level.queries}
    if place == 0:  # its total is known
        assert best[0] == simple[0] == 0
        assert simple[3] == pytest.approx(variance["detailed"] * 5 / 6)
    if place == 2:
        detailed = variance["detailed"]
        assert simple[0] == pytest.approx(1 / (1 / variance["total"] + 1 / (2 * variance["work"]) + 1 / (6 * detailed)))
        assert simple[1] == pytest.approx(1 / (1 / variance["work"] + 1 / (3 * detailed)))
        assert simple[3] == pytest.approx(detailed)


def test_a_unit_that_took_over_a_share_has_less_noise(tmp_path: Path) -> None:
    question = question_of(tmp_path / "small.toml")
    county = question.spine.level("county")
    assert [county.shares[unit] for unit in range(3)] == [Fraction(2, 5), Fraction(4, 5), Fraction(2, 5)]
    counties = AreaSet.partition("county", ("01", "02", "03"), np.array([0, 0, 0, 1, 2, 2]))
    k = TopDownNoise(question).contributions(counties)
    assert k[1, 1] < k[0, 1]
    assert (k[:, 2] == 0).all(), "no county is cut, so blocks add nothing"


def test_areas_that_have_a_block_in_common_have_the_noise_that_each_has_alone(tmp_path: Path) -> None:
    """Areas may overlap, be empty, or be alike: none changes another."""
    noise = TopDownNoise(question_of(tmp_path / "small.toml"))
    listed = [*AREAS.values(), [0], [2], [0, 2], [4], [4, 5], []]
    block, area = zip(*((b, number) for number, blocks in enumerate(listed) for b in blocks), strict=True)
    together = AreaSet("all", tuple(map(str, range(len(listed)))), np.array(block), np.array(area))
    for query in QUERIES.values():
        found = noise.variances(query, together)
        for number, blocks in enumerate(listed):
            alone = noise.variances(query, area_of(blocks))[0] if blocks else np.zeros(1)
            assert found[number] == pytest.approx(alone, rel=1e-12, abs=1e-12)
    assert noise.parts(together, total=False).kind.max() < len(listed) - 1, "blocks of one county are alike"


def test_totals_that_are_known_together_are_exact_together_and_noisy_apart(tmp_path: Path) -> None:
    """The first county is split in two by a flag, and the total of every county is known."""
    text = STRATEGY.replace('level = "land"\nquery = "total"', 'level = "county"\nquery = "total"')
    assert text != STRATEGY
    question = question_of(tmp_path / "split.toml", text, [True, False, False, False, False, False])
    together = question.spine.level("county").official
    assert sorted(together.tolist()) == [0, 0, 1, 2]
    measured, noise = effects_of(question, together), TopDownNoise(question)
    rows = question.spine.rows.tolist()
    for area in AREAS.values():
        blocks = [position for position, row in enumerate(rows) if row in area]
        expected = sum(variance * effect[blocks].sum() ** 2 for variance, effect in measured)
        assert float(noise.variances({}, area_of(area))[0, 0]) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert float(noise.contributions(area_of([0, 1, 2]), total=True).sum()) == 0
    assert float(noise.contributions(area_of([0]), total=True).sum()) > 0
