"""The attack against every histogram that there is: solutions, bounds, variability and certainty on small blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kits.reconstruction import (
    CELLS,
    SMALL,
    all_histograms,
    folded,
    geography,
    marginal,
    published,
    solutions,
)

from confide.errors import InputError
from confide.lab.attacks.reconstruction import Published, reconstruct
from confide.lab.attacks.reconstruction import result as reconstructing
from confide.lab.attacks.reconstruction.integer_program import (
    NoSolution,
    integer_program,
    integer_solution,
    program_structure,
    reduce,
)
from confide.lab.attacks.reconstruction.unit import check_figures
from confide.lab.published.marginals import ImpossibleCells

QUERIES = ["a", "b", "c", "b:halves", "b:odd", "a*b", "a*c", "b*c", "b:low*c", "a*b:halves*c", "a*b:odd", "b:halves*c"]
blocks = st.lists(st.integers(0, CELLS - 1), min_size=1, max_size=5).map(
    lambda cells: np.bincount(np.array(cells), minlength=CELLS)
)
few = st.lists(st.integers(0, CELLS - 1), min_size=1, max_size=2).map(
    lambda cells: np.bincount(np.array(cells), minlength=CELLS)
)
programmes = st.lists(st.sampled_from(QUERIES), min_size=1, max_size=5, unique=True).map(
    lambda names: ["total", *names]
)


@settings(max_examples=80, deadline=None)
@given(truth=blocks, queries=programmes)
def test_solution_bounds_and_variability_are_those_of_all_solutions(truth: np.ndarray, queries: list[str]) -> None:
    tables = published([truth], queries)
    found = reconstruct(tables, processes=1, level="block")
    every = folded(solutions(truth, queries), found.block_space)
    every = np.unique(every, axis=0)
    mine = np.bincount(found.cell, minlength=found.space.cells)
    assert any(np.array_equal(mine, other) for other in every)
    people = int(truth.sum())
    largest = max(int(np.abs(mine - other).sum()) for other in every)
    value = found.variability[0]
    assert value is not None
    assert value.status == "proven"
    assert value.at_most == value.at_least == pytest.approx(100 * largest / (2 * people))
    assert value.unique == (len(every) == 1)
    plan = program_structure(tables, 0)
    made = integer_program(plan, [0])
    left = reduce(made)
    lower, upper = np.zeros(plan.space.cells), np.zeros(plan.space.cells)
    lower[made.cell], upper[made.cell] = left.lower, left.upper
    assert (lower <= every.min(axis=0)).all()  # nothing is lost by dropping cells and tightening bounds
    assert (upper >= every.max(axis=0)).all()
    least = every.min(axis=0)
    for cell, certain in zip(found.cell, found.certain, strict=True):
        assert not certain or least[cell] > 0


@settings(max_examples=25, deadline=None)
@given(one=few, two=few, queries=programmes, tract=programmes)
def test_blocks_of_a_tract_solved_together(
    one: np.ndarray, two: np.ndarray, queries: list[str], tract: list[str]
) -> None:
    tables = published([one, two], queries, tract=tract)
    found = reconstruct(tables, processes=1)
    assert found.level == "tract"
    space = found.space
    pairs = {
        (tuple(x), tuple(y))
        for x in folded(solutions(one, queries), space)
        for y in folded(solutions(two, queries), space)
    }
    whole = np.unique(folded(solutions(one + two, tract), space), axis=0)
    mine = [np.bincount(found.cell[found.block == block], minlength=space.cells) for block in (0, 1)]
    assert (tuple(mine[0]), tuple(mine[1])) in pairs
    assert any(np.array_equal(mine[0] + mine[1], row) for row in whole)
    joint = [p for p in pairs if any(np.array_equal(np.add(*p), row) for row in whole)]
    fold = space.to(found.block_space)
    for block in (0, 1):
        value = found.variability[block]
        assert value is not None
        here = np.bincount(fold, mine[block], found.block_space.cells)
        others = [np.bincount(fold, p[block], found.block_space.cells) for p in joint]
        true = max(np.abs(here - other).sum() for other in others)
        assert value.at_most >= 100 * true / (2 * mine[block].sum()) - 1e-9  # zero still proves uniqueness


def test_a_block_by_block_attack_uses_coarser_tables_as_bounds() -> None:
    one, two = np.zeros(CELLS, int), np.zeros(CELLS, int)
    one[[0, 13]] = 1  # (a0, b0, x) and (a1, b2, y)
    two[0] = 1
    alone = reconstruct(published([one, two], ["total", "a", "c"]), processes=1, level="block")
    helped = reconstruct(published([one, two], ["total", "a", "c"], tract=["a*c"]), processes=1, level="block")
    assert alone.variability[0] is not None
    assert alone.variability[0].at_most == 100.0  # (a0, x), (a1, y) or (a0, y), (a1, x)
    assert helped.variability[0] is not None
    assert helped.variability[0].unique  # nobody in the tract is (a0, y)


def test_what_cannot_be_is_left_out() -> None:
    truth = np.zeros(CELLS, int)
    truth[[0, 13]] = 1
    zero = ImpossibleCells({"a": frozenset([0]), "c": frozenset(["y"])})
    found = reconstruct(published([truth], ["total", "a", "c"], zeros=(zero,)), processes=1)
    assert found.variability[0] is not None
    assert found.variability[0].unique
    assert {(row["a"], row["c"]) for row in found.records().to_pylist()} == {(0, "x"), (1, "y")}


def test_unknown_cells_constrain_nothing() -> None:
    truth = all_histograms(3)[100]
    tables = published([truth], ["total"])
    query = SMALL.query("a*c")
    counts = np.full(4, np.nan)
    hidden = marginal(query, [counts])
    both = reconstruct(type(tables)(SMALL, geography(1), (*tables.marginals, hidden)), processes=1)
    assert both.variability[0] is not None
    assert both.variability[0].at_most == 100.0
    assert both.persons == 3
    assert not both.certain.any()  # whoever they are, other records have the same total


def test_tables_that_no_records_have_are_findings() -> None:
    total = marginal(SMALL.query("total"), [np.array([2.0])])
    by_a = marginal(SMALL.query("a"), [np.array([2.0, 0.0])])
    by_c = marginal(SMALL.query("c"), [np.array([1.0, 1.0])])
    both = marginal(SMALL.query("a*c"), [np.array([2.0, 0.0, 0.0, 0.0])])
    with pytest.raises(InputError) as caught:
        reconstruct(Published(SMALL, geography(1), (total, by_a, by_c, both)), processes=1)
    (finding,) = caught.value.findings
    assert finding.code == "no-solution"
    assert "block 000" in finding.what
    assert "c (c)" in str(finding) or "a*c" in str(finding)


def test_records_that_miss_a_published_figure_are_no_solution() -> None:
    """Whatever a solver says is held against every figure, in whole numbers."""
    truth = np.bincount([0, 3, 3, 9], minlength=CELLS)
    program = integer_program(program_structure(published([truth], ["total", "a*b"]), 0), [0])
    values = integer_solution(reduce(program), None, 10.0)
    assert values is not None
    check_figures(program, values)
    for wrong in (values + np.eye(program.size, dtype=np.int64)[0], np.zeros_like(values)):
        with pytest.raises(NoSolution):
            check_figures(program, wrong)


def test_tables_with_halves_alone_as_a_solution_are_refused() -> None:
    """One person in each of {0, 1}, {1, 2} and {0, 2}: half a person each would do, whole people do not."""
    one = np.array([1.0])
    tables = tuple(marginal(SMALL.query(text), [one]) for text in ("b:p01", "b:p12", "b:p02"))
    with pytest.raises(InputError) as caught:
        reconstruct(Published(SMALL, geography(1), tables), processes=1)
    assert caught.value.findings[0].code == "no-solution"
    assert reconstruct(Published(SMALL, geography(1), tables[:2]), processes=1).persons in (1, 2)


@pytest.mark.process
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.slow
def test_processes_and_order_change_nothing(processes: int) -> None:
    rng = np.random.default_rng(4)
    truths = [rng.multinomial(int(rng.integers(0, 6)), np.full(CELLS, 1 / CELLS)) for _ in range(12)]
    tables = published(truths, ["total", "a*b", "b*c"])
    found = reconstruct(tables, processes=processes, repeats=4, seed=3)
    again = reconstruct(tables, processes=1, repeats=4, seed=3)
    assert found.records().equals(again.records())
    assert found.persons == sum(int(truth.sum()) for truth in truths)
    assert found.as_dict()["empty_blocks"] == sum(not truth.sum() for truth in truths)


def test_confidence_is_the_share_of_repeats() -> None:
    truth = np.zeros(CELLS, int)
    truth[[0, 13]] = 1
    found = reconstruct(published([truth], ["total", "a", "c"]), processes=1, repeats=200, seed=1)
    assert not found.certain.any()
    assert found.confidence == pytest.approx(0.5, abs=0.15)  # two solutions, alike to a random objective
    sure = reconstruct(published([truth], ["total", "a*c"]), processes=1)
    assert sure.certain.all()
    assert (sure.confidence == 1.0).all()
    open_ = reconstruct(published([truth], ["total", "a", "c"]), processes=1)
    assert np.isnan(open_.confidence).all()


def test_the_level_follows_from_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    one = np.zeros(CELLS, int)
    one[0] = 1
    tables = published([one, one, one], ["total"], tract=["a*c"])
    assert reconstruct(tables, processes=1).level == "tract"
    monkeypatch.setattr(reconstructing, "MOST_BLOCKS", 2)
    assert reconstruct(tables, processes=1).level == "block"
    assert reconstruct(tables, processes=1, level="tract").level == "tract"
