"""The noise alone: against the descent itself, done with dense matrices and one measurement off at a time."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.kits.topdown_evaluation import STRATEGY

from confide.geography import build_spine
from confide.mechanisms.topdown.build_spine import build_topdown_spine
from confide.mechanisms.topdown.evaluate import NoiseTheory, within_unit
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


SETS = {
    "total": [0, 1, 2, 3, 4, 5],
    "some work": [3, 4, 5],
    "tongue B": [1, 4],
    "one cell": [2],
}
AREAS = {"a county": [0, 1, 2], "a block": [1], "the lone block": [3], "across": [0, 3, 5], "land": [0, 1, 2, 3, 4, 5]}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("area", AREAS)
def test_the_variance_is_that_of_the_descent(effects: Any, name: str, area: str) -> None:
    """Σ over all measured counts of (effect on the area's count)² · variance."""
    question, measured = effects
    theory = NoiseTheory(question)
    assert question.spine.rows.tolist() == list(range(6))
    chosen, units = np.zeros(6, bool), np.full(6, -1)
    chosen[SETS[name]], units[AREAS[area]] = True, 0
    expected = sum(variance * effect[AREAS[area]][:, chosen].sum() ** 2 for variance, effect in measured)
    k = theory.contributions(units, 1, total=name == "total")
    v = theory.variances(np.vstack([np.ones(6, bool), chosen]))[1]
    assert float(k[0] @ v) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_what_is_known_has_no_noise(tmp_path: Path) -> None:
    theory = NoiseTheory(question_of(tmp_path / "small.toml"))
    k = theory.contributions(np.zeros(6, np.int64), 1, total=True)
    assert float(k[0] @ theory.variances(np.ones((1, 6), bool))[0]) == 0


def test_what_is_known_has_no_noise_in_a_histogram_too_large_to_invert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = question_of(tmp_path / "small.toml")
    monkeypatch.setattr("confide.mechanisms.topdown.evaluate.MOST_CELLS", 1)
    theory = NoiseTheory(question)
    everything = np.ones((1, 6), bool)
    k = theory.contributions(np.zeros(6, np.int64), 1, total=True)
    assert float(k[0] @ theory.variances(everything)[0]) == 0
    # In a county the total has a pass of its own, and the noise of its own measurement.
    county = question.strategy.level("county")
    own = law_of(question.strategy, county, county.query("total")).variance()
    assert within_unit(question, county, everything, total_known=False)[0] == pytest.approx(own)


@pytest.mark.parametrize("level", ["land", "county", "block"])
def test_with_a_known_total_too_the_simple_variance_is_no_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    question = question_of(tmp_path / "small.toml")
    asked, sets = question.strategy.level(level), np.zeros((len(SETS), 6), bool)
    for number, cells in enumerate(SETS.values()):
        sets[number, cells] = True
    best = within_unit(question, asked, sets, total_known=True)
    monkeypatch.setattr("confide.mechanisms.topdown.evaluate.MOST_CELLS", 1)
    simple = within_unit(question, asked, sets, total_known=True)
    free = within_unit(question, asked, sets, total_known=False)
    assert best[0] == simple[0] == 0
    assert (simple[1:] >= best[1:] * (1 - 1e-12)).all()
    assert (simple[1:] < free[1:]).all(), "what is known helps"
    detailed = law_of(question.strategy, asked, asked.query("detailed")).variance()
    assert simple[3] == pytest.approx(detailed * 5 / 6)


def test_a_histogram_of_two_cells_by_hand() -> None:
    strategy = load_strategy("pl94-units", root="us")
    question = question_for(strategy)
    tract = strategy.level("tract")
    variance = law_of(strategy, tract, tract.queries[0]).variance()
    occupied = np.array([[False, True]])
    assert within_unit(question, tract, occupied, total_known=False)[0] == pytest.approx(variance)
    assert within_unit(question, tract, occupied, total_known=True)[0] == pytest.approx(variance / 2)


def test_a_total_with_a_pass_of_its_own_has_the_noise_of_its_own_measurement() -> None:
    strategy = load_strategy("pl94-persons", root="state")
    question = question_for(strategy)
    tract = strategy.level("tract")
    found = within_unit(question, tract, np.ones((1, 2_016), bool), total_known=False)
    assert found[0] == pytest.approx(law_of(strategy, tract, tract.query("total")).variance())


def test_a_histogram_too_large_to_invert_has_a_variance_no_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = question_of(tmp_path / "small.toml")
    block = question.strategy.level("block")
    sets = np.zeros((len(SETS), 6), bool)
    for number, cells in enumerate(SETS.values()):
        sets[number, cells] = True
    best = within_unit(question, block, sets, total_known=False)
    monkeypatch.setattr("confide.mechanisms.topdown.evaluate.MOST_CELLS", 1)
    simple = within_unit(question, block, sets, total_known=False)
    assert (simple >= best * (1 - 1e-12)).all()
    variance = {query.name: law_of(question.strategy, block, query).variance() for query in block.queries}
    assert simple[0] == pytest.approx(
        1 / (1 / variance["total"] + 1 / (2 * variance["work"]) + 1 / (6 * variance["detailed"]))
    )
    assert simple[1] == pytest.approx(1 / (1 / variance["work"] + 1 / (3 * variance["detailed"])))
    assert simple[3] == pytest.approx(variance["detailed"])


def test_a_unit_that_took_over_a_share_has_less_noise(tmp_path: Path) -> None:
    question = question_of(tmp_path / "small.toml")
    county = question.spine.level("county")
    assert [county.shares[unit] for unit in range(3)] == [Fraction(2, 5), Fraction(4, 5), Fraction(2, 5)]
    k = NoiseTheory(question).contributions(np.array([0, 0, 0, 1, 2, 2]), 3, total=False)
    assert k[1, 1] < k[0, 1]
    assert (k[:, 2] == 0).all(), "no county is cut, so blocks add nothing"


def test_totals_that_are_known_together_are_exact_together_and_noisy_apart(tmp_path: Path) -> None:
    """The first county is split in two by a flag, and the total of every county is known."""
    text = STRATEGY.replace('level = "land"\nquery = "total"', 'level = "county"\nquery = "total"')
    assert text != STRATEGY
    question = question_of(tmp_path / "split.toml", text, [True, False, False, False, False, False])
    together = question.spine.level("county").official
    assert sorted(together.tolist()) == [0, 0, 1, 2]
    measured = effects_of(question, together)
    theory = NoiseTheory(question)
    v = theory.variances(np.ones((1, 6), bool))[0]
    rows = question.spine.rows.tolist()
    for area in AREAS.values():
        units = np.full(6, -1)
        units[area] = 0
        blocks = [position for position, row in enumerate(rows) if row in area]
        expected = sum(variance * effect[blocks].sum() ** 2 for variance, effect in measured)
        k = theory.contributions(units, 1, total=True)[0]
        assert float(k[k > 0] @ v[k > 0]) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert float(theory.contributions(np.array([0, 0, 0, -1, -1, -1]), 1, total=True).sum()) == 0
    assert float(theory.contributions(np.array([0, -1, -1, -1, -1, -1]), 1, total=True).sum()) > 0
